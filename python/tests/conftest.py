"""Tests of the package as a wheel has it: `make pytest-python` builds one, unpacks it under build/python/site and runs these."""
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/snapshot"


@pytest.fixture
def folder(url):
    return url[len("file://"):]
