"""Node's two clients in both protocols (tests/interop/). npm brings them once per lock file, into build/interop/."""
import hashlib
import os
import shutil
import subprocess

import pytest

from conftest import ROOT, clean_env

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
        return None, "npm could not install the node clients: " + " ".join(done.stdout.split())[-300:]
    with open(stamp, "w") as f:
        f.write(wanted)
    return modules, None


@pytest.fixture(scope="module")
def node_modules():
    modules, why_not = install()
    if not modules:
        pytest.skip(why_not)
    return modules


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", ["ioredis.js", "node-redis.js"])
@pytest.mark.parametrize("server", [{"workers": 3}], indirect=True)
def test_a_node_client_works(server, node_modules, script, protocol):
    done = subprocess.run(["node", os.path.join(INTEROP, script), str(server.port), str(protocol)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, env={**clean_env(), "NODE_PATH": node_modules})
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stdout
