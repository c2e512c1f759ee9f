"""The node packages that tests need (tests/interop/package.json). npm brings them once per lock file, into build/interop/."""
import hashlib
import os
import shutil
import subprocess

from conftest import ROOT

INTEROP = os.path.join(ROOT, "tests", "interop")
INSTALLED = os.path.join(ROOT, "build", "interop")


def install():
    """Gives the folder of the node modules, or why there is none."""
    if not shutil.which("node") or not shutil.which("npm"):
        return None, "node or npm is not installed"
    with open(os.path.join(INTEROP, "package-lock.json"), "rb") as f:
        wanted = hashlib.sha256(f.read()).hexdigest()
    stamp = os.path.join(INSTALLED, "installed")
    modules = os.path.join(INSTALLED, "node_modules")
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return modules, None
    os.makedirs(INSTALLED, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(INTEROP, name), INSTALLED)
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=INSTALLED, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=180)
    if done.returncode != 0:
        return None, "npm could not install the packages: " + " ".join(done.stdout.split())[-300:]
    with open(stamp, "w") as f:
        f.write(wanted)
    return modules, None
