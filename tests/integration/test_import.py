"""sherd import: a dump.rdb that a real Redis wrote, brought into a server and into a data directory, compared key by key."""
import importlib.util
import os
import random
import subprocess
import time

import pytest

from conftest import ROOT, SHERD, clean_env

GOLDEN = os.path.join(ROOT, "tests", "golden", "rdb")


def sherd(*args, env=None):
    return subprocess.run([SHERD, *map(str, args)], capture_output=True, text=True, timeout=120, env={**clean_env(), **(env or {})})


def golden_fill():
    spec = importlib.util.spec_from_file_location("generate", os.path.join(GOLDEN, "generate.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fill


def fill(reference):
    """Everything that the golden file has, and keys of random types, sizes and expiries."""
    golden_fill()(*[reference.client(db=db) for db in (0, 3, 15)])
    r, rng = reference.client(db=1), random.Random(1)
    text = lambda: "".join(rng.choice("abcdefgh ") for _ in range(rng.choice([1, 5, 30, 70, 300])))
    number = lambda: rng.choice([rng.randrange(-10, 10), rng.randrange(-70000, 70000), rng.randrange(-(1 << 62), 1 << 62)])
    item = lambda: rng.choice([text, number])()
    with r.pipeline(transaction=False) as pipe:
        for i in range(400):
            n = rng.choice([1, 3, 40, 200])
            [
                lambda k: pipe.set(k, item()),
                lambda k: pipe.rpush(k, *[item() for _ in range(n)]),
                lambda k: pipe.sadd(k, *[number() for _ in range(n)]),
                lambda k: pipe.sadd(k, *[item() for _ in range(n)]),
                lambda k: pipe.hset(k, mapping={item(): item() for _ in range(n)}),
                lambda k: pipe.zadd(k, {item(): rng.choice([number(), rng.random()]) for _ in range(n)}),
            ][i % 6](f"random:{i}")
            if i % 4 == 0:
                pipe.pexpireat(f"random:{i}", int(time.time() * 1000) + rng.randrange(3600000, 1 << 40))
        pipe.execute()


def content(client):
    """{key: (type, value, expiry)} of a database, without streams."""
    read = {
        "string": client.get,
        "list": lambda k: client.lrange(k, 0, -1),
        "set": client.smembers,
        "hash": client.hgetall,
        "zset": lambda k: client.zrange(k, 0, -1, withscores=True),
    }
    found = {}
    for key in client.keys("*"):
        kind = client.type(key).decode()
        if kind != "stream":
            found[key] = (kind, read[kind](key), client.execute_command("PEXPIRETIME", key))
    return found


def contents(server):
    return {db: content(server.client(db=db, decode_responses=False)) for db in range(16)}


def save(reference, processes):
    reference.client().save()
    return os.path.join(processes.folder, "dump.rdb")


@pytest.fixture
def source(redis_reference, processes):
    """A Redis with data, and its dump."""
    fill(redis_reference)
    return redis_reference, save(redis_reference, processes)


@pytest.mark.parametrize("limits", [{}, {"list-max-listpack-size": "3", "hash-max-listpack-entries": "2", "zset-max-listpack-entries": "2", "set-max-intset-entries": "2", "rdbcompression": "no"}])
def test_a_server_has_every_key_of_the_dump(redis_reference, make_server, processes, limits):
    for name, value in limits.items():
        redis_reference.client().config_set(name, value)
    fill(redis_reference)
    server = make_server(workers=3)
    done = sherd("import", save(redis_reference, processes), "--to", f"127.0.0.1:{server.port}")
    assert done.returncode == 3, done.stderr
    expected = contents(redis_reference)
    assert sum(map(len, expected.values())) == 421
    assert done.stdout == "421 keys imported, left out: 1 x function library, left out: 1 x stream\n"
    assert "left out: stream in database 0: stream\n" in done.stderr
    assert contents(server) == expected


@pytest.mark.parametrize("workers", [2, 5])
def test_a_data_directory_has_every_key_of_the_dump(source, make_server, tmp_path, workers):
    """With as many workers as the directory was made for, and with others; and what is written afterwards joins it."""
    reference, dump = source
    done = sherd("import", dump, "--data", tmp_path / "data", "--workers", 2)
    assert done.returncode == 3 and done.stdout.startswith("421 keys imported"), done.stderr
    server = make_server(data=tmp_path / "data", workers=workers)
    expected = contents(reference)
    assert contents(server) == expected
    server.client().set("later", "x")
    server.stop()
    server = make_server(data=tmp_path / "data", workers=workers)
    expected[0][b"later"] = ("string", b"x", -1)
    assert contents(server) == expected


def test_keys_that_are_there_already_are_an_error_or_replaced_or_kept(source, server):
    reference, dump = source
    client = server.client()
    client.set("string", "mine")
    to = f"127.0.0.1:{server.port}"
    refused = sherd("import", dump, "--to", to)
    assert refused.returncode == 1
    assert "string: BUSYKEY" in refused.stderr and "--skip-existing" in refused.stderr
    assert client.get("string") == "mine"
    client.flushall()
    client.set("string", "mine")
    kept = sherd("import", dump, "--to", to, "--skip-existing")
    assert kept.returncode == 3 and "420 keys imported, 1 were there already" in kept.stdout
    assert client.get("string") == "mine"
    replaced = sherd("import", dump, "--to", to, "--replace")
    assert replaced.returncode == 3 and "421 keys imported" in replaced.stdout
    assert contents(server) == contents(reference)


def test_strict_imports_nothing_if_something_would_be_left_out(source, server):
    done = sherd("import", source[1], "--to", f"127.0.0.1:{server.port}", "--strict")
    assert done.returncode == 1 and "nothing was imported" in done.stderr
    assert server.client().dbsize() == 0


def test_one_database_can_go_into_another(source, server):
    reference, dump = source
    done = sherd("import", dump, "--to", f"127.0.0.1:{server.port}", "--db", 3, "--into-db", 7)
    assert "2 keys imported" in done.stdout
    assert content(server.client(db=7, decode_responses=False)) == content(reference.client(db=3, decode_responses=False))
    assert server.client().info("keyspace").keys() == {"db7"}


def test_a_password_is_asked_for_and_used(redis_reference, make_server, processes):
    redis_reference.client().set("k", "v")
    dump = save(redis_reference, processes)
    server = make_server(args=["--requirepass", "secret"])
    to = f"127.0.0.1:{server.port}"
    assert "NOAUTH" in sherd("import", dump, "--to", to).stderr
    assert "WRONGPASS" in sherd("import", dump, "--to", to, "--password", "guess").stderr
    assert sherd("import", dump, "--to", to, "--user", "default", "--password", "secret").returncode == 0
    assert sherd("import", dump, "--to", to, "--replace", env={"REDISCLI_AUTH": "secret"}).returncode == 0
    assert server.client(password="secret").get("k") == "v"


def test_expired_keys_stay_behind(redis_reference, server, processes):
    r = redis_reference.client()
    r.set("stays", "x")
    r.set("gone", "x", px=300)
    dump = save(redis_reference, processes)
    assert r.exists("gone")
    time.sleep(0.4)
    done = sherd("import", dump, "--to", f"127.0.0.1:{server.port}")
    assert done.returncode == 0 and done.stdout == "1 keys imported, 1 had expired\n"
    assert server.client().keys("*") == ["stays"]


def test_a_damaged_dump_changes_nothing(source, server, tmp_path):
    with open(source[1], "rb") as f:
        good = f.read()
    rng, damaged = random.Random(7), tmp_path / "damaged.rdb"
    for at in [len(good) - 1, 7] + [rng.randrange(len(good)) for _ in range(20)]:
        damaged.write_bytes(good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :])
        done = sherd("import", damaged, "--to", f"127.0.0.1:{server.port}")
        assert done.returncode == 1 and "at byte" in done.stderr
    damaged.write_bytes(good[: len(good) // 2])
    assert sherd("import", damaged, "--data", tmp_path / "data").returncode == 1
    assert not (tmp_path / "data").exists()
    assert server.client().dbsize() == 0


def test_a_data_directory_with_data_or_of_somebody_else_is_refused(source, make_server, tmp_path):
    data = tmp_path / "data"
    server = make_server(data=data)
    assert "in use" in sherd("import", source[1], "--data", data).stderr
    server.client().set("k", "v")
    server.stop()
    refused = sherd("import", source[1], "--data", data)
    assert refused.returncode == 1 and "data in it already" in refused.stderr
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").write_text("x")
    assert "not a data directory" in sherd("import", source[1], "--data", tmp_path / "foreign").stderr


def test_nobody_answers(source):
    done = sherd("import", source[1], "--to", "127.0.0.1:1")
    assert done.returncode == 1 and "127.0.0.1:1: Connection refused" in done.stderr


@pytest.mark.parametrize(
    "args, what",
    [([], "a file is missing"), (["f"], "--data or --to"), (["f", "--data", "d", "--to", "h:1"], "one of them"), (["f", "--to", "h:1", "--replace", "--skip-existing"], "exclude each other"),
     (["f", "--data", "d", "--replace"], "are for --to"), (["f", "--to", "h:1", "--into-db", "3"], "needs --db"), (["f", "--data", "d", "--db", "x"], "--db cannot be 'x'"), (["f", "g", "--data", "d"], "not g"),
     (["f", "--to", "h:1", "--workers", "2"], "--workers is for --data"), (["f", "--data", "d", "--workers=2000"], "at most 1024"), (["f", "--data"], "a value is missing behind --data"),
     (["f", "--data", "d", "--strict=1"], "no value belongs to --strict"), (["--", "--data", "d"], "not d")],
)
def test_what_is_wrong_with_a_command_line_is_said(args, what):
    done = sherd("import", *args)
    assert done.returncode == 2 and what in done.stderr and done.stderr.endswith("; see `sherd import --help`\n"), done.stderr
