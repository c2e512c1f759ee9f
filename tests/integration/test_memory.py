"""MEMORY: numbers that fit together and tell the truth."""
import os

import pytest

from wire import Error, Wire

MIB = 1 << 20
SANITIZED = "san" in os.environ.get("SHERD_BIN", "")  # another allocator, without statistics


@pytest.mark.parametrize("server", [{"workers": 1}, {"workers": 4}], indirect=True)
def test_usage_grows_with_the_value_and_of_nothing_is_null(client):
    client.set("small", "x")
    client.set("large", "x" * 100_000)
    client.rpush("list", *range(10_000))
    client.hset("hash", mapping={f"field:{i}": i for i in range(10_000)})
    assert 10 < client.memory_usage("small") < 100
    assert 100_000 < client.memory_usage("large") < 120_000
    assert 10_000 < client.memory_usage("list") < 200_000
    assert 10_000 * 20 < client.memory_usage("hash", samples=0) < 10_000 * 100
    before = client.memory_usage("small")
    client.expire("small", 1000)
    assert client.memory_usage("small") > before
    assert client.memory_usage("missing") is None


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_errors_of_usage_have_the_texts_of_redis(server, redis_reference):
    with Wire(server) as ours, Wire(redis_reference) as theirs:
        for words in (["MEMORY"], ["MEMORY", "NOPE"], ["MEMORY", "USAGE"], ["MEMORY", "USAGE", "k", "SAMPLES"],
                      ["MEMORY", "USAGE", "k", "SAMPLES", "x"], ["MEMORY", "USAGE", "k", "SAMPLES", "-1"], ["MEMORY", "USAGE", "k", "NOPE", "1"],
                      ["MEMORY", "DOCTOR", "x"], ["MEMORY", "PURGE", "x"], ["MEMORY", "STATS", "x"], ["MEMORY", "HELP", "x"]):
            answer = ours.ask(*words)
            assert isinstance(answer, Error) and answer == theirs.ask(*words)


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_stats_have_the_fields_of_redis_and_numbers_of_all_shards(server, redis_reference):
    with Wire(server, 3) as c, Wire(redis_reference, 3) as theirs:
        for i in range(20_000):
            c.command("SET", f"key:{i}", "v" * 100)
        for i in range(20_000):
            assert c.reply() == "OK"
        c.ask("EXPIRE", "key:1", 1000)
        c.ask("SELECT", 3)
        c.ask("SET", "elsewhere", 1)
        theirs.ask("SET", "a", 1)
        stats, fields = c.ask("MEMORY", "STATS"), theirs.ask("MEMORY", "STATS")
    assert set(fields) <= set(stats)
    assert all(type(stats[f]) is type(fields[f]) for f in fields)
    assert stats["keys.count"] == 20_001
    assert 20_000 * 100 < stats["dataset.bytes"] < 20_000 * 200
    assert stats["db.0"]["overhead.hashtable.main"] >= 20_000 * 64 / 7
    assert 0 < stats["db.0"]["overhead.hashtable.expires"] < 5000 and "db.3" in stats and "db.1" not in stats
    assert stats["total.allocated"] == stats["overhead.total"] + stats["dataset.bytes"]
    assert stats["total.allocated"] <= stats["peak.allocated"]
    assert 0 < stats["dataset.percentage"] <= 100 and 0 < stats["peak.percentage"] <= 100
    assert stats["shards.live"] <= stats["shards.mapped"]
    if not SANITIZED:
        assert 0 < stats["allocator.allocated"] <= stats["allocator.active"] <= stats["allocator.resident"]


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_the_sum_of_all_usages_is_what_the_shards_hold(server):
    with Wire(server, 3) as c:
        for i in range(3000):
            c.command("SET", f"key:{i}", "v" * (i % 300))
        for i in range(3000):
            c.reply()
        stats = c.ask("MEMORY", "STATS")
        total = sum(c.ask("MEMORY", "USAGE", f"key:{i}") for i in range(3000))
    tables = stats["db.0"]["overhead.hashtable.main"]
    assert stats["dataset.bytes"] == total - 3000 * 10  # a slot is counted as ten bytes
    assert stats["shards.live"] == stats["dataset.bytes"] + tables


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_the_doctor_finds_the_shard_with_the_large_key(server):
    with Wire(server) as c:
        assert "so little memory" in c.ask("MEMORY", "DOCTOR") or SANITIZED
        c.ask("SET", "whale", b"x" * (32 * MIB))
        report = c.ask("MEMORY", "DOCTOR")
        assert f"shard {c.ask('STATS.SHARD', 'whale')} of 4 holds 100%" in report
        c.ask("DEL", "whale")
        c.ask("DEBUG", "POPULATE", 100_000, "k", 100)
        assert "* Balance" not in c.ask("MEMORY", "DOCTOR")


def resident_bytes(server):
    with open(f"/proc/{server.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_purge_gives_back_what_was_freed(server):
    with Wire(server) as c:
        c.ask("DEBUG", "POPULATE", 100_000, "k", 400)
        full = resident_bytes(server)
        for i in range(100_000):
            c.command("DEL", f"k:{i}")
        for i in range(100_000):
            assert c.reply() == 1
        assert c.ask("MEMORY", "PURGE") == "OK"
        assert resident_bytes(server) < full - 30 * MIB
        c.ask("SET", "still", "here")
        assert c.ask("GET", "still") == "here"


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_the_allocator_reports_about_itself(server):
    with Wire(server) as c:
        report = c.ask("MEMORY", "MALLOC-STATS")
        assert "does not use jemalloc" in report if SANITIZED else "jemalloc" in report and "Allocated:" in report
        assert c.ask("MEMORY", "HELP")[0].startswith("MEMORY <subcommand>")


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_memory_commands_run_inside_a_transaction(server):
    with Wire(server) as c:
        c.ask("SET", "a", 1)
        c.ask("MULTI")
        for words in (["MEMORY", "USAGE", "a"], ["MEMORY", "STATS"], ["MEMORY", "DOCTOR"], ["MEMORY", "PURGE"]):
            assert c.ask(*words) == "QUEUED"
        usage, stats, text, ok = c.ask("EXEC")
        assert usage > 0 and "keys.count" in stats and text and ok == "OK"
