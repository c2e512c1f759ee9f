"""The examples of README.md run, in order, as one program."""
import os
import re
import subprocess
import sys

from conftest import ROOT


def test_the_examples_run(tmp_path):
    with open(os.path.join(ROOT, "python", "README.md")) as f:
        examples = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
    assert len(examples) >= 5
    program = tmp_path / "examples.py"
    program.write_text("\n".join(examples).replace("file:///tmp/", f"file://{tmp_path}/"))
    run = subprocess.run([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, text=True)
    assert run.returncode == 0, run.stdout
    assert "10000 rows in 4 shards" in run.stdout
