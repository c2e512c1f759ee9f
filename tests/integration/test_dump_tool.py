"""sherd dump: looks into files off line, finds every fault, and exports what is there."""
import base64
import json
import os
import pty
import random
import subprocess

import pytest

from conftest import ROOT, SHERD, clean_env

GOLDEN = os.path.join(ROOT, "tests", "golden")
RDB = os.path.join(GOLDEN, "rdb", "redis-7.0.rdb")


def sherd(*args):
    return subprocess.run([SHERD, *map(str, args)], capture_output=True, text=True, timeout=120, env=clean_env())


def exported(*args):
    done = sherd("dump", "export", *args)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def plain(value):
    """Bytes of an exported string."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


@pytest.fixture
def imported(tmp_path):
    """A data directory with a dump set, made without a server."""
    done = sherd("import", RDB, "--data", tmp_path / "data", "--workers", 2)
    assert done.returncode == 3, done.stderr
    return tmp_path / "data"


def dumps_of(data):
    return sorted((data / "layout-1").glob("shard-*/*.dump"))


def test_info_says_what_a_file_is(imported):
    shown = sherd("dump", "info", imported)
    assert shown.returncode == 0 and shown.stdout.count("state      good") == 2
    assert "shards     2" in shown.stdout and "shard      1 of 2" in shown.stdout
    keys = [int(line.split()[1]) for line in shown.stdout.splitlines() if line.startswith("  keys")]
    assert sum(keys) == 21 and len(keys) == 2
    assert "RDB version 10" in sherd("dump", "info", RDB).stdout
    segment = sherd("dump", "info", os.path.join(GOLDEN, "wal", "shard-0", "0000000001.wal"))
    assert "epochs     2, from 1 to 3" in segment.stdout and segment.returncode == 0


def test_a_dump_exports_every_key_as_json(imported):
    lines = [line for path in dumps_of(imported) for line in exported(path)]
    by_key = {(line["db"], plain(line["key"])): line for line in lines}
    assert len(lines) == len(by_key) == 21
    assert by_key == {(line["db"], plain(line["key"])): line for line in exported(RDB)}
    assert by_key[0, b"string:expiring"]["expires_ms"] == 32503680000000
    assert by_key[0, b"string"] == {"db": 0, "key": "string", "type": "string", "expires_ms": None, "value": "hello"}
    assert plain(by_key[0, b"string:binary"]["value"]) == bytes(range(256))
    assert by_key[0, b"zset"]["value"] == [["d", "-inf"], ["b", -2.5], ["a", 1], ["c", "inf"]]
    assert dict(by_key[0, b"hash"]["value"]) == {f"f{i}": f"v{i}" for i in range(10)}
    assert by_key[0, b"list:nodes"]["value"] == [f"item-{i}" for i in range(3000)]
    assert by_key[3, b"key \xff\x00 binary"]["value"] == "3"


def test_a_segment_exports_its_ops(make_server, tmp_path):
    server = make_server(workers=1, data=tmp_path / "data", args=["--appendfsync", "always"])
    client = server.client()
    client.rpush('l"\\\n', "a", "b\u00e9")
    client.zadd("z", {"m": 1.5})
    server.kill()
    ops = [op for path in sorted((tmp_path / "data").glob("layout-*/shard-0/*.wal")) for op in exported(path)]
    assert {"op": "push_tail", "db": 0, "key": 'l"\\\n', "items": ["a", "b\u00e9"]}.items() <= ops[0].items()
    assert {"op": "zset_add", "db": 0, "key": "z", "items": [["m", 1.5]]}.items() <= ops[1].items()
    assert sherd("dump", "verify", tmp_path / "data").returncode == 0


def keys_of(client):
    return {db: dict(zip(keys, c.mget(keys))) for db in range(16) for c in [client(db=db, decode_responses=False)] for keys in [c.keys("*")] if keys}


def files_of(data):
    return {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_a_directory_exports_what_a_start_would_have(make_server, imported):
    """A dump, and a log behind it: keys of the dump are changed, deleted, joined by new ones; one has expired."""
    server = make_server(data=imported, args=["--appendfsync", "always"])
    client = server.client()
    assert client.get("string") == "hello"
    for key in client.keys("*"):
        if client.type(key) != "string":
            client.delete(key)
    client.select(15)
    client.delete("key in 15")
    client.select(0)
    client.set("string", "changed")
    client.set("soon", "x", px=1)
    client.delete("string:int8")
    with client.pipeline() as pipe:
        for i in range(500):
            pipe.set(f"new:{i}", i, px=100000000 if i % 2 else None)
        pipe.execute()
    expected = keys_of(server.client)
    assert "in use by a server" in sherd("dump", "info", imported).stderr
    server.kill()
    before = files_of(imported)
    for path in (imported, imported / "layout-1"):
        lines = exported(path)
        found = {}
        for line in lines:
            found.setdefault(line["db"], {})[plain(line["key"])] = plain(line["value"])
        assert found == expected
        assert sum(line["expires_ms"] is not None for line in lines) == 251
    assert files_of(imported) == before


def test_a_directory_in_use_is_exported_with_a_warning(make_server, tmp_path):
    server = make_server(data=tmp_path / "data", args=["--appendfsync", "always"])
    server.client().set("k", "v")
    done = sherd("dump", "export", tmp_path / "data")
    assert done.returncode == 0 and "in use by a server" in done.stderr
    assert json.loads(done.stdout)["key"] == "k"
    assert server.client().set("k", "w")


def test_a_directory_whose_only_dump_is_damaged_is_refused(imported):
    path = dumps_of(imported)[0]
    path.write_bytes(path.read_bytes()[:-1])
    done = sherd("dump", "export", imported)
    assert done.returncode == 1 and done.stdout == ""
    assert str(imported) in done.stderr


def test_output_goes_into_a_file(tmp_path):
    done = sherd("dump", "export", RDB, "--output", tmp_path / "out.jsonl")
    assert done.returncode == 0 and done.stdout == ""
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 21
    assert "cannot" not in done.stderr
    assert sherd("dump", "export", RDB, "--output", tmp_path / "no" / "folder").returncode == 1
    full = sherd("dump", "export", RDB, "--output", "/dev/full")
    assert full.returncode == 1 and "No space left" in full.stderr


@pytest.mark.parametrize("name", ["dump/raw-1.dump", "dump/packed-1.dump", "rdb/redis-7.0.rdb", "wal/shard-1/0000000001.wal"])
def test_verify_finds_flipped_bits_and_names_the_place(name, tmp_path):
    source = os.path.join(GOLDEN, name)
    with open(source, "rb") as f:
        good = f.read()
    assert sherd("dump", "verify", source).stdout == "1 files, 0 faults\n"
    damaged, rng = tmp_path / os.path.basename(name), random.Random(3)
    tail = 100 if name.startswith("wal") else 0  # damage in the last epoch looks like a crash
    for at in [rng.randrange(len(good) - tail) for _ in range(20)]:
        damaged.write_bytes(good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :])
        done = sherd("dump", "verify", damaged)
        assert done.returncode == 1, at
        assert f"{damaged}: at byte " in done.stdout and not done.stdout.endswith(" 0 faults\n")


def test_verify_of_a_directory_looks_at_every_file(imported):
    assert sherd("dump", "verify", imported).stdout == "2 files, 0 faults\n"
    assert sherd("dump", "verify", imported / "layout-1").stdout == "2 files, 0 faults\n"
    path = dumps_of(imported)[1]
    bytes_ = bytearray(path.read_bytes())
    bytes_[100] ^= 1
    path.write_bytes(bytes_)
    done = sherd("dump", "verify", imported)
    assert done.returncode == 1
    assert done.stdout == f"{path}: at byte 48: the checksum of a block is wrong\n2 files, 1 faults\n"


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    for verb in ("info", "verify", "export"):
        assert sherd("dump", verb, tmp_path / "text").returncode == 1
        assert sherd("dump", verb, tmp_path / "missing").returncode == 1
        assert "neither a data directory" in sherd("dump", verb, tmp_path).stderr


def test_what_is_wrong_with_a_command_line_is_said():
    for args, what in (([], "info, verify or export is needed"), (["info"], "a path is missing"), (["look", "x"], "not look"), (["info", "a", "b"], "and not b"),
                       (["info", "a", "--output", "x"], "--output is for export"), (["export", "--output"], "a value is missing behind --output"), (["info", "-x"], "unknown option -x")):
        done = sherd("dump", *args)
        assert done.returncode == 2 and what in done.stderr and done.stderr.endswith("; see `sherd dump --help`\n")
    assert sherd("dump", "--help").returncode == 0


def test_a_terminal_gets_a_progress_bar(tmp_path):
    big = tmp_path / "big.rdb"
    key = lambda i: b"\x00\x0akey%07d\x0avalue-text" % i
    keys = b"".join(map(key, range(300_000)))
    with open(big, "wb") as f:  # large: what is done at once shows no bar
        f.write(b"REDIS0011")
        for _ in range(40):
            f.write(keys)
        f.write(b"\xff" + bytes(8))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([SHERD, "dump", "verify", str(big)], stderr=theirs, stdout=subprocess.PIPE, env=clean_env())
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 4096):
            shown += more
    except OSError:
        pass  # a closed terminal
    os.close(ours)
    assert process.communicate(timeout=60)[0] == b"1 files, 0 faults\n" and process.returncode == 0
    assert b"verify  [" in shown and b"/s" in shown and b" left" in shown
    assert shown.endswith(b"\x1b[K")
