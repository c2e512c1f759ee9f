"""What was acknowledged is there in the next process: after SIGTERM, after SAVE, with another number of workers, with damaged files. tests/crash kills in the middle of writes."""
import os
import random
import subprocess
import time

import pytest

from conftest import SHERD, clean_env
from faults import build_library


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def fill(c):
    """One key of each type and encoding, one with an expiry, two databases."""
    c.set("string", "value")
    c.set("expiring", "soon", ex=1000)
    c.set("binary", bytes(range(256)))
    c.incrby("counter", 41)
    c.incr("counter")
    c.rpush("list", *range(1000))
    c.lpop("list", 10)
    c.hset("hash", mapping={f"f{i}": "x" * i for i in range(200)})
    c.sadd("ints", *range(100))
    c.sadd("set", *(f"m{i}" for i in range(500)))
    c.zadd("zset", {f"m{i}": i / 3 for i in range(500)})
    c.zrem("zset", "m7")
    c.setbit("bits", 10_000, 1)
    c.pfadd("hll", *range(1000))
    c.mset({f"many:{i}": i for i in range(300)})
    c.rename("many:0", "renamed")
    c.delete("many:1")
    c.execute_command("SELECT", 3)
    c.set("elsewhere", "db3")
    c.execute_command("SELECT", 0)


def state(server):
    """Everything in all databases, as bytes."""
    out = {}
    with server.client(decode_responses=False) as c:
        for db in range(4):
            c.execute_command("SELECT", db)
            for key in c.scan_iter(count=1000):
                expiry = c.execute_command("PEXPIRETIME", key)
                out[db, key] = (expiry, c.execute_command("DEBUG", "DIGEST-VALUE", key))
        c.execute_command("SELECT", 0)
    return out


def test_everything_is_there_after_sigterm_and_a_new_start(make_server, data):
    s = make_server(data=data, workers=3)
    fill(s.client())
    before = state(s)
    assert len(before) > 300
    assert s.stop() == 0
    assert state(make_server(data=data, workers=3)) == before


def test_what_was_saved_is_there_after_sigkill(make_server, data):
    s = make_server(data=data, workers=2)
    c = s.client()
    fill(c)
    assert c.execute_command("SAVE")
    before = state(s)
    s.kill()
    assert state(make_server(data=data, workers=2)) == before


@pytest.mark.parametrize("counts", [(2, 3, 1, 4), (4, 1)])
def test_another_number_of_workers_finds_every_key(make_server, data, counts):
    before = None
    for n in counts:
        s = make_server(data=data, workers=n)
        if before is None:
            fill(s.client())
            before = state(s)
        assert state(s) == before
        with s.client() as c:
            assert c.dbsize() == sum(1 for db, _ in before if db == 0)
            assert c.set(f"written-with-{n}", "v")
            before = state(s)
        assert s.stop() == 0
    layouts = [d for d in os.listdir(data) if d.startswith("layout-")]
    assert len(layouts) == 1, "the old layout is still there"


def test_killed_while_laying_out_anew_nothing_is_lost(make_server, data):
    s = make_server(data=data, workers=2)
    with s.client() as c:
        for i in range(0, 200_000, 1000):
            c.mset({f"k:{j}": f"value {j}" for j in range(i, i + 1000)})
        assert s.stop() == 0
    interrupted = 0
    for delay in (0.02, 0.05, 0.1, 0.15, 0.2):
        command = [SHERD, "serve", "--port", "0", "--unixsocket", str(data.parent / "s"), "--data", str(data), "--workers", "3"]
        p = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=clean_env())
        time.sleep(delay)
        p.kill()
        p.wait()
        interrupted += b"shards=2" in (data / "SHERD").read_bytes()
    assert interrupted, "no kill came before the new layout was in use"
    with make_server(data=data, workers=3).client() as c:
        assert c.dbsize() == 200_000
        for j in random.Random(1).sample(range(200_000), 500):
            assert c.get(f"k:{j}") == f"value {j}"


def test_a_damaged_log_stops_a_strict_start_with_a_message(make_server, data):
    s = make_server(data=data, workers=1)
    with s.client() as c:
        for i in range(1000):
            c.set(f"k{i}", "v" * 50)
            if i % 100 == 0:
                c.execute_command("SAVE")  # ends an epoch: what follows proves that the damage is no torn tail
    assert s.stop() == 0
    folder = data / "layout-1" / "shard-0"
    log = sorted(folder.iterdir())[0]
    with open(log, "r+b") as f:
        f.seek(os.path.getsize(log) // 2)
        f.write(b"\xff\x00\xff\x00")
    with pytest.raises(RuntimeError, match="cannot recover the data"):
        make_server(data=data, workers=1, args=["--recovery", "strict"])


def test_a_second_server_on_the_same_data_is_refused(make_server, data):
    make_server(data=data)
    with pytest.raises(RuntimeError, match="in use by pid"):
        make_server(data=data)


@pytest.mark.parametrize("backend, log_io", [("epoll", "plain"), ("uring", "io_uring")])
def test_the_policy_can_change_while_the_server_runs(make_server, data, backend, log_io):
    s = make_server(data=data, workers=3, args=["--io-backend", backend])
    with s.client() as c:
        assert c.info("persistence")["log_io"] == log_io
        assert c.config_set("appendfsync", "always")
        before = int(c.info("persistence")["log_synced_epoch"])
        c.set("k", "v")
        after = int(c.info("persistence")["log_synced_epoch"])
        assert after > before, "an acknowledged write was not synced"
        assert c.config_set("appendfsync", "no")
        c.set("k", "w")


def test_expired_and_evicted_keys_do_not_come_back(make_server, data):
    s = make_server(data=data, args=["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"])
    with s.client() as c:
        c.set("gone", "v", px=50)
        for i in range(20_000):
            c.set(f"k{i}", "v" * 200)
        evicted = int(c.info("stats")["evicted_keys"])
        assert evicted > 1000
        time.sleep(0.1)
        assert c.get("gone") is None
        n = c.dbsize()
    assert s.stop() == 0
    with make_server(data=data).client() as c:
        assert c.dbsize() == n
        assert c.get("gone") is None


def test_a_key_that_expires_while_the_server_is_down_is_gone_whatever_was_written_to_it(make_server, data):
    """Replay comes later than the writes did: an op for a key that has expired since must not make a new one of it."""
    s = make_server(data=data, workers=2, args=["--appendfsync", "always"])
    with s.client() as c:
        for key, write in (("list", lambda: c.rpush("list", "b")), ("hash", lambda: c.hset("hash", "b", "2")), ("set", lambda: c.sadd("set", "b")), ("zset", lambda: c.zadd("zset", {"b": 2})),
                           ("string", lambda: c.append("string", "b")), ("bits", lambda: c.setbit("bits", 9, 1))):
            write()
            c.pexpire(key, 700)
            write()
        c.set("renamed:from", "v", px=700)
        c.rename("renamed:from", "renamed")
        c.set("kept", "v", px=700)
        c.set("kept", "w", keepttl=True)
        c.set("stays", "v")
        assert c.dbsize() == 9
        s.kill()
    time.sleep(0.8)
    for workers in (2, 3):
        s = make_server(data=data, workers=workers)
        with s.client() as c:
            assert [k for k in c.keys() if c.exists(k)] == ["stays"]
        s.kill()


def test_a_new_data_directory_is_durable_up_to_the_folders_that_were_there(make_server, tmp_path, monkeypatch):
    """The name of each folder that was made is synced in the one above it."""
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    with monkeypatch.context() as m:
        for name, value in (("LD_PRELOAD", build_library(str(tmp_path))), ("FAULT_DIR", str(tmp_path)), ("FAULT_LEDGER", str(ledger))):
            m.setenv(name, value)
        s = make_server(data=tmp_path / "a" / "b", workers=1)
    s.kill()
    synced = [line.split(" ", 2) for line in (ledger / "ledger").read_text().splitlines() if line.startswith("D ")]
    for above, name in ((tmp_path, "a"), (tmp_path / "a", "b"), (tmp_path / "a" / "b", "layout-1"), (tmp_path / "a" / "b" / "layout-1", "shard-0")):
        assert any(path == str(above) and f":{name}/" in names for _, path, names in synced), f"{above}/{name} is not durable"
