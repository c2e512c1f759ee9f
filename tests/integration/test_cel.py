"""The official conformance tests of CEL, which npm brings as data; tests/interop/cel-conformance.js makes them a flat file."""
import os
import subprocess

import pytest

from conftest import ROOT, SHERD, clean_env
from nodemodules import INTEROP, install

PROGRAM = os.path.join(os.path.dirname(SHERD), "tools", "cel_conformance")
# Of @bufbuild/cel-spec 0.6.1: what a later version adds or a broken rule loses is noticed.
CORE_TESTS = 1081
EXTENSIONS = {"macros2": 46, "bindings_ext": 5, "math_ext": 199, "encoders_ext": 4, "string_ext": 117}


@pytest.fixture(scope="module")
def node_modules():
    modules, why_not = install()
    if not modules:
        pytest.skip("CEL conformance tests: " + why_not)
    return modules


def run_suites(node_modules, name, suites, capsys):
    """Runs the suites, shows their counts and gives how many tests passed; all have to."""
    data = os.path.join(ROOT, "build", f"cel-{name}.txt")
    made = subprocess.run(["node", os.path.join(INTEROP, "cel-conformance.js"), data, *suites], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, env={**clean_env(), "NODE_PATH": node_modules})
    assert made.returncode == 0, made.stdout
    done = subprocess.run([PROGRAM, data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    summary = done.stdout.strip().splitlines()[-1]
    with capsys.disabled():
        print(f"\nCEL conformance, {name}: {summary}; {made.stdout.strip()}")
    return int(summary.split()[0])


def test_the_core_of_the_conformance_suite_passes(node_modules, capsys):
    assert run_suites(node_modules, "core", [], capsys) == CORE_TESTS


def test_the_extensions_of_the_conformance_suite_pass(node_modules, capsys):
    assert run_suites(node_modules, "extensions", EXTENSIONS, capsys) == sum(EXTENSIONS.values())
