"""Pages that the program writes itself say what the program says."""
import glob
import os
import re
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


def test_every_option_that_is_not_there_for_others_alone_is_read():
    """What nobody reads has no effect, and belongs to the options that say so."""
    def text(*patterns):
        return "".join(open(p).read() for pattern in patterns for p in glob.glob(os.path.join(ROOT, "src", pattern)))

    options = os.path.join(ROOT, "src", "server", "options.c")
    rows = re.findall(r'\{"([a-z-]+)",[^\n]*?AT\(([\w.]+)\)', open(options).read())
    readers = text("*/*.c", "*/*.h").replace(text("server/options.c"), "").replace(text("server/config.h"), "")
    assert len(rows) > 100
    unread = [name for name, field in rows if not field.startswith("compat.") and not re.search(rf'\b{field.split(".")[-1]}\b|"{name}"', readers)]
    assert not unread
