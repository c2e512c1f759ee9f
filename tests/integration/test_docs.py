"""Pages that the program writes itself say what the program says."""
import os
import subprocess

import pytest

from conftest import ROOT, SHERD, clean_env


@pytest.mark.parametrize("page, command", [("COMMANDS.md", ["commands", "--markdown"]), ("CONFIGURATION.md", ["serve", "--help-markdown"])])
def test_the_page_is_up_to_date(page, command):
    said = subprocess.run([SHERD, *command], stdout=subprocess.PIPE, text=True, check=True, env=clean_env()).stdout
    with open(os.path.join(ROOT, "docs", page)) as f:
        written = f.read()
    assert len(said) > 1000
    assert written == said, f"docs/{page} is stale: run make docs"
