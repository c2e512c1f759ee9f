"""sherd cluster: what its commands print, and what they say when they cannot do it. The cluster itself is tested elsewhere."""
import shlex
import subprocess

import pytest

from conftest import SHERD, clean_env, free_port


def sherd(*args, env=None):
    return subprocess.run([SHERD, *map(str, args)], capture_output=True, text=True, timeout=60, env={**clean_env(), **(env or {})})


def test_init_prints_command_lines_that_a_server_understands():
    done = sherd("cluster", "init", "127.0.0.1:7001", "127.0.0.1:7002", "[::1]:7003", "--shards", 8, "--replication", 3)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3, done.stderr
    for i, line in enumerate(lines, 1):
        words = shlex.split(line)
        assert words[:2] == ["sherd", "serve"] and words[words.index("--node-id") + 1] == str(i)
        checked = sherd(*words[1:], "--check-config")
        assert checked.returncode == 0 and checked.stdout == "configuration is good\n", checked.stderr
    assert len({line.split("--peers")[1] for line in lines}) == 1
    assert '1=127.0.0.1:17001/127.0.0.1:7001,2=127.0.0.1:17002/127.0.0.1:7002,3=[::1]:17003/[::1]:7003' in lines[0]


def test_init_writes_files_that_a_server_understands(tmp_path):
    done = sherd("cluster", "init", "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003", "--write", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / f"node-{i}.toml") for i in (1, 2, 3)]
    for path in done.stdout.split():
        checked = sherd("serve", "--config", path, "--check-config")
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("args, says", [
    (["init"], "a HOST for each node is needed"),
    (["init", "a", "a"], "there twice: a"),
    (["init", "a:x"], "neither HOST nor HOST:PORT"),
    (["init", "a", "--write"], "a value is missing behind --write"),
    (["move", "1", "2"], "needed is: GROUP FROM TO"),
    (["leave"], "needed is: NODE"),
    (["status", "3"], "nothing follows status"),
    (["status", "--wait"], "--wait is for leave"),
    (["frobnicate"], "unknown command frobnicate"),
    (["join"], "HOST:PORT of a node of the cluster is needed"),
    (["demo", "--nodes", "0"], "at least one node"),
    (["demo", "--nodes", "99"], "--nodes cannot be '99', at most 16"),
    (["demo", "three"], "nothing belongs here: three"),
])
def test_a_command_line_that_makes_no_sense_is_refused(args, says):
    done = sherd("cluster", *args)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_nobody_there_and_no_cluster_there_are_told(server):
    done = sherd("cluster", "status", "--server", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "Connection refused" in done.stderr
    done = sherd("cluster", "leave", 2, "--server", f"127.0.0.1:{server.port}")
    assert done.returncode == 1 and "This instance has cluster support disabled" in done.stderr


@pytest.mark.parametrize("server", [{"args": ["--requirepass", "sesame"]}], indirect=True)
def test_a_password_is_given_or_taken_from_the_environment(server):
    to = ["--server", f"127.0.0.1:{server.port}"]
    assert "NOAUTH" in sherd("cluster", "status", *to).stderr
    assert "cluster support disabled" in sherd("cluster", "status", *to, "--password", "sesame").stderr
    assert "cluster support disabled" in sherd("cluster", "status", *to, env={"REDISCLI_AUTH": "sesame"}).stderr
    assert "WRONGPASS" in sherd("cluster", "status", *to, "--password", "open").stderr


def test_every_command_has_help():
    assert sherd("cluster").returncode == 2
    for words in (["--help"], ["status", "--help"]):
        done = sherd("cluster", *words)
        assert done.returncode == 0 and "leave NODE" in done.stdout
    for verb in ("init", "demo"):
        done = sherd("cluster", verb, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: sherd cluster {verb}")
