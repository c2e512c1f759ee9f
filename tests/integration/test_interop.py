"""Node's two clients in both protocols (tests/interop/)."""
import os
import subprocess

import pytest

from conftest import clean_env
from nodemodules import INTEROP, install


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
