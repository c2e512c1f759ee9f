"""Records of the system database: in every log and dump, and in no client's sight."""
import glob
import json
import subprocess
import time

import pytest
import redis

from conftest import SHERD, clean_env

WORKERS = 3
ARGS = ["--enable-debug-command", "yes", "--appendfsync", "always"]


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def put(c, shard, key, value, *ms):
    assert c.execute_command("DEBUG", "SYSTEM", shard, key, value, *ms) in (b"OK", "OK", True)


def get(c, shard, key):
    return c.execute_command("DEBUG", "SYSTEM", shard, key)


def start(make_server, data, workers=WORKERS):
    s = make_server(data=data, workers=workers, args=ARGS)
    return s, s.client()


def fill(c):
    for i in range(WORKERS):
        put(c, i, "about", f"shard {i}")
        put(c, i, f"only/{i}", "x" * 5000)
    for i in range(200):
        c.set(f"k{i}", i)


def all_there(c, shards=WORKERS):
    return all(get(c, i % shards, f"only/{i}") == "x" * 5000 for i in range(WORKERS)) and c.dbsize() == 200


def test_a_record_is_found_after_a_crash_and_after_a_dump(make_server, data):
    s, c = start(make_server, data)
    fill(c)
    digest = c.execute_command("DEBUG", "DIGEST")
    s.kill()
    s, c = start(make_server, data)
    assert all_there(c) and [get(c, i, "about") for i in range(WORKERS)] == [f"shard {i}" for i in range(WORKERS)]
    assert c.execute_command("DEBUG", "DIGEST") == digest
    assert c.save()
    s.kill()
    s, c = start(make_server, data)
    assert all_there(c) and c.execute_command("DEBUG", "DIGEST") == digest


@pytest.mark.parametrize("dumped", [False, True])
def test_a_record_is_found_with_more_workers_and_with_fewer(make_server, data, dumped):
    s, c = start(make_server, data)
    fill(c)
    if dumped:
        assert c.save()
    assert s.stop() == 0
    s, c = start(make_server, data, 5)
    assert all_there(c, 5) and get(c, 2, "about") == "shard 2"
    assert s.stop() == 0
    s, c = start(make_server, data, 2)
    assert all_there(c, 2)


def test_a_record_expires_and_nobody_hears_of_it(make_server, data):
    s, c = start(make_server, data)
    c.config_set("notify-keyspace-events", "KEA")
    heard = c.pubsub()
    heard.psubscribe("__key*__:*")
    assert heard.get_message(timeout=5)["type"] == "psubscribe"
    put(c, 1, "soon", "gone", 30)
    put(c, 1, "later", "gone", 30)
    time.sleep(0.1)
    assert get(c, 1, "soon") is None
    c.set("told", 1)
    assert heard.get_message(timeout=5)["channel"] == "__keyspace@0__:told"
    assert c.info("stats")["expired_keys"] == 0
    s.kill()
    s, c = start(make_server, data)
    assert get(c, 1, "later") is None


def test_clients_neither_see_the_system_database_nor_reach_it(make_server, data):
    s, c = start(make_server, data)
    fill(c)
    for i in range(WORKERS):
        put(c, i, "k1", "the system's")
    for command in ("SELECT 16", "SWAPDB 0 16", "SWAPDB 16 0", "MOVE k1 16", "COPY k1 k2 DB 16", "DEBUG HTSTATS 16"):
        with pytest.raises(redis.ResponseError):
            c.execute_command(*command.split())
    assert c.dbsize() == 200 and len(c.keys()) == 200 and len(list(c.scan_iter())) == 200
    assert set(c.info("keyspace")) == {"db0"} and c.info("keyspace")["db0"]["keys"] == 200
    assert c.get("k1") == "1"
    c.flushdb()
    assert c.randomkey() is None
    c.flushall()
    assert c.dbsize() == 0 and c.info("keyspace") == {}
    assert get(c, 0, "k1") == "the system's" and get(c, 2, "only/2") == "x" * 5000


def test_memory_that_is_short_costs_no_record(make_server, data):
    s, c = start(make_server, data)
    fill(c)
    c.config_set("maxmemory-policy", "allkeys-random")
    c.config_set("maxmemory", "20mb")
    for i in range(3000):
        c.set(f"large{i}", "y" * 10000)
    assert c.info("stats")["evicted_keys"] > 0
    assert all(get(c, i, f"only/{i}") == "x" * 5000 for i in range(WORKERS))


def test_the_export_of_a_dump_leaves_records_out_and_its_check_knows_them(make_server, data):
    s, c = start(make_server, data)
    fill(c)
    assert c.save()
    assert s.stop() == 0
    files = sorted(glob.glob(f"{data}/layout-*/shard-*/*.dump"))
    assert len(files) == WORKERS
    lines = []
    for f in files:
        subprocess.run([SHERD, "dump", "verify", f], check=True, env=clean_env(), timeout=60)
        out = subprocess.run([SHERD, "dump", "export", f], check=True, env=clean_env(), timeout=60, capture_output=True, text=True)
        lines += [json.loads(line) for line in out.stdout.splitlines()]
    assert len(lines) == 200 and {line.get("db", 0) for line in lines} == {0}
