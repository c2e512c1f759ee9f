"""STATS.*: what the server says about its own work."""
import pytest

from wire import Error, Wire

WORKERS = [{"workers": 1}, {"workers": 4}]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_the_hottest_keys_come_first(server):
    with Wire(server) as c:
        for i in range(200):
            c.command("SET", f"cold:{i}", i)
        for i in range(20_000):
            c.command("GET", "hottest")
            if i % 4 == 0:
                c.command("INCR", "warm")
        for _ in range(200 + 20_000 + 5000):
            c.reply()
        top = c.ask("STATS.HOTKEYS", 2)
        assert [name for name, _ in top] == ["hottest", "warm"]
        assert 15_000 < top[0][1] < 25_000 and 2500 < top[1][1] < 7500
        assert len(c.ask("STATS.HOTKEYS")) <= 10
        assert c.ask("STATS.HOTKEYS", 0) == Error("ERR count must be a positive number")
        assert c.ask("STATS.HOTKEYS", "x") == Error("ERR count must be a positive number")
        assert c.ask("STATS.HOTKEYS", 1, 2) == Error("ERR syntax error")
        assert c.ask("PING") == "PONG"


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_latencies_are_counted_for_each_command(server):
    with Wire(server, 3) as c:
        for i in range(500):
            c.ask("SET", f"k{i}", i)
        c.ask("GET", "k1")
        answer = c.ask("STATS.LATENCY", "set", "GET", "zadd")
        assert set(answer) == {"set", "get"} and answer["set"]["calls"] == 500
        one = answer["set"]
        assert 0 < one["usec-p50"] <= one["usec-p99"] <= one["usec-p999"] <= one["usec-max"] and 0 < one["usec-mean"] <= one["usec-max"]
        assert {"set", "get", "stats.latency"} <= set(c.ask("STATS.LATENCY"))
        c.ask("CONFIG", "RESETSTAT")
        assert c.ask("STATS.LATENCY", "set") == {}


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_without_tracking_calls_are_counted_all_the_same(server):
    with Wire(server, 3) as c:
        c.ask("CONFIG", "SET", "latency-tracking", "no")
        c.ask("SET", "a", 1)
        assert c.ask("STATS.LATENCY", "set")["set"] == {"calls": 1, "usec-mean": 0, "usec-p50": 0, "usec-p99": 0, "usec-p999": 0, "usec-max": 0}


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_command_that_visits_every_shard_is_one_call(server):
    with Wire(server, 3) as c:
        for _ in range(3):
            c.ask("DBSIZE")
            c.ask("STATS.SHARDS")
        c.ask("STATS.HOTKEYS", "nonsense")
        c.ask("MULTI")
        c.ask("DBSIZE")
        c.ask("EXEC")
        answer = c.ask("STATS.LATENCY", "dbsize", "stats.shards")
        assert answer["dbsize"]["calls"] == 4 and answer["stats.shards"]["calls"] == 3
        info = c.ask("INFO", "commandstats")
        assert "cmdstat_dbsize:calls=4," in info
        line = next(text for text in info.splitlines() if text.startswith("cmdstat_stats.hotkeys:"))
        assert "calls=1," in line and line.endswith("failed_calls=1")


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_memory_is_summed_by_prefix(server):
    with Wire(server, 3) as c:
        for i in range(1000):
            c.command("SET", f"user:{i}", "x" * 50)
            c.command("SET", f"session:{i}", "x" * 500)
        for _ in range(2000):
            c.reply()
        answer = c.ask("STATS.MEMORY", "user:", "session:", "nobody:", "")
        assert answer["user:"]["keys"] == answer["session:"]["keys"] == 1000
        assert 50_000 < answer["user:"]["bytes"] < 100_000 and 500_000 < answer["session:"]["bytes"] < 550_000
        assert answer["nobody:"] == {"keys": 0, "bytes": 0}
        assert answer[""] == {"keys": 2000, "bytes": answer["user:"]["bytes"] + answer["session:"]["bytes"]}
        c.ask("SELECT", 1)
        assert c.ask("STATS.MEMORY", "user:") == {"user:": {"keys": 0, "bytes": 0}}


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_shards_tell_what_they_hold_and_where_a_key_is(server):
    with Wire(server, 3) as c:
        c.ask("DEBUG", "POPULATE", 4000)
        for i in range(100):
            c.ask("EXPIRE", f"key:{i}", 1000)
        shards = c.ask("STATS.SHARDS")
        assert [s["shard"] for s in shards] == [0, 1, 2, 3] and sorted(s["home"] for s in shards) == [0, 1, 2, 3]
        assert sum(s["keys"] for s in shards) == 4000 and sum(s["expires"] for s in shards) == 100
        assert all(s["keys"] > 800 and s["bytes"] > 8000 and s["ops"] == s["local"] + s["foreign"] for s in shards)
        where = [c.ask("STATS.SHARD", f"key:{i}") for i in range(4000)]
        assert [where.count(s) for s in range(4)] == [s["keys"] for s in shards]
