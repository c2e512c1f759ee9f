"""A server on a published snapshot (`sherd serve --snapshot`), over real sockets. The snapshots are those that the format's original writer made (tests/golden/snapshots)."""
import hashlib
import json
import os

import pytest
import redis

from conftest import ROOT

GOLDEN = os.path.join(ROOT, "tests", "golden", "snapshots")
HASHED = ["hash-empty", "hash-raw-ascii-auto", "hash-sparse-nosidecar", "hash-u32be-p16k", "hash-u64be", "hash-utf8-overflow"]


def url_of(name):
    return "file://" + os.path.join(GOLDEN, "fx", name)


def expected(name):
    with open(os.path.join(GOLDEN, name + ".expected.json")) as f:
        rows = json.load(f)["rows"]
    for row in rows:
        if isinstance(row["key"], dict):
            row["key"] = bytes.fromhex(*row["key"].values()).decode()
    return rows


def serve(make_server, url, *args):
    return make_server(args=["--snapshot", url, *args])


def is_row(value, row):
    return value is not None and len(value) == row["len"] and hashlib.sha256(value).hexdigest() == row["sha256"]


@pytest.fixture(params=["download", "range"])
def mode(request):
    return request.param


@pytest.mark.parametrize("name", HASHED)
def test_every_row_is_served_whatever_the_encoding_and_the_way_of_reading(make_server, name, mode):
    rows = expected(name)
    with serve(make_server, url_of(name), "--snapshot-mode", mode).client(decode_responses=False) as c:
        assert c.dbsize() >= len(rows)
        for row in rows:
            assert is_row(c.get(row["key"]), row), row
        values = c.mget([r["key"] for r in rows] + ["999999999999"]) if rows else []
        assert all(is_row(v, r) for v, r in zip(values, rows)) and (not rows or values[-1] is None)
        keys = {k.decode() for k in c.scan_iter(count=7)}
        assert keys == {str(r["key"]) for r in rows}
        assert {k.decode() for k in c.keys("*")} == keys
        seen = {c.randomkey() for _ in range(300)}
        assert {k.decode() for k in seen} <= keys and len(seen) >= min(len(keys), 20) if keys else seen == {None}


def test_reads_of_strings_are_those_of_a_live_server(make_server, mode):
    with serve(make_server, url_of("hash-utf8-overflow"), "--snapshot-mode", mode).client() as c:
        value = c.get("user-0")
        assert c.strlen("user-0") == len(value) and c.strlen("nobody") == 0
        assert c.getrange("user-0", 1, -2) == value[1:-1] and c.getrange("user-0", -3, -1) == value[-3:] and c.getrange("nobody", 0, -1) == ""
        assert c.exists("user-0", "user-1", "user-0", "nobody") == 3
        assert (c.ttl("user-0"), c.pttl("user-0"), c.ttl("nobody")) == (-1, -1, -2)
        assert (c.type("user-0"), c.type("nobody")) == ("string", "none")
        assert set(c.scan_iter(match="user-1?")) == {k for k in c.keys("*") if k.startswith("user-1") and len(k) == 7}
        assert c.info("snapshot")["snapshot_reads"] == ("ranged" if mode == "range" else "local")
        with pytest.raises(redis.ResponseError, match="invalid cursor"):
            c.execute_command("SCAN", 424242)


def test_pipelines_keep_their_order_when_every_read_goes_to_the_store(make_server):
    rows = expected("hash-u64be")[:300]
    with serve(make_server, url_of("hash-u64be"), "--snapshot-mode", "range").client(decode_responses=False) as c:
        with c.pipeline(transaction=False) as p:
            for i, row in enumerate(rows):
                p.get(row["key"]).echo(str(i))
            answers = p.execute()
        assert all(is_row(answers[2 * i], row) and answers[2 * i + 1] == str(i).encode() for i, row in enumerate(rows))


def test_writes_and_other_types_are_refused(make_server):
    with serve(make_server, url_of("hash-utf8-overflow")).client() as c:
        for words in (["SET", "a", "1"], ["DEL", "user-0"], ["FLUSHALL"], ["INCR", "n"], ["LPUSH", "l", "x"], ["EXPIRE", "user-0", "1"]):
            with pytest.raises(redis.ReadOnlyError, match="You can't write against a read only snapshot"):
                c.execute_command(*words)
        with pytest.raises(redis.ResponseError, match="holds strings only"):
            c.hget("user-0", "f")
        with pytest.raises(redis.ResponseError):
            c.execute_command("SELECT", 1)
        assert c.get("user-0") and c.ping()


def test_transactions_of_reads_run_on_local_shards_and_are_refused_on_ranged_ones(make_server, mode):
    with serve(make_server, url_of("hash-utf8-overflow"), "--snapshot-mode", mode).client() as c:
        p = c.pipeline()
        p.get("user-0").get("user-1")
        if mode == "download":
            assert p.execute() == [c.get("user-0"), c.get("user-1")]
        else:
            with pytest.raises(redis.ResponseError, match="cannot run inside a transaction"):
                p.execute()


def test_a_snapshot_routed_by_more_than_the_key_wants_its_context(make_server):
    with serve(make_server, url_of("cel-cat")).client(decode_responses=False) as c:
        for row in expected("cel-cat"):
            assert is_row(c.execute_command("SNAPSHOT.GET", row["key"], "region", row["ctx"]["region"]), row)
        assert c.execute_command("SNAPSHOT.GET", "t0", "region", "nowhere") is None
        with pytest.raises(redis.ResponseError, match=r"routing context.*SNAPSHOT.GET"):
            c.get("t0")
    with serve(make_server, url_of("cel-direct")).client(decode_responses=False) as c:
        assert all(is_row(c.get(row["key"]), row) for row in expected("cel-direct"))


def test_rows_come_in_order_by_range_and_prefix(make_server):
    with serve(make_server, url_of("hash-u64be")).client() as c:
        keys = sorted(int(k) for k in c.keys("*"))
        rows = c.execute_command("SNAPSHOT.SCAN", "RANGE", keys[10], keys[20])
        assert rows[::2] == [str(k) for k in keys[10:20]] and rows[1] == c.get(keys[10])
        assert c.execute_command("SNAPSHOT.SCAN", "RANGE", "-", "+", "LIMIT", 3, "REVERSE")[::2] == [str(k) for k in reversed(keys[-3:])]
        with pytest.raises(redis.ResponseError, match="natural number"):
            c.execute_command("SNAPSHOT.SCAN", "RANGE", "a", "b")
    with serve(make_server, url_of("hash-utf8-overflow")).client() as c:
        found = c.execute_command("SNAPSHOT.SCAN", "PREFIX", "user-1")[::2]
        assert found == sorted(k for k in c.keys("*") if k.startswith("user-1"))


def test_where_keys_are_numbers_there_are_no_key_spaces(make_server):
    with serve(make_server, url_of("hash-u64be")).client() as c, pytest.raises(redis.ResponseError, match="numbers"):
        c.execute_command("RANGE.GET", "17")


def test_what_is_served_can_be_looked_at_and_pinned(make_server):
    with serve(make_server, url_of("hash-u64be")).client() as c:
        info = c.execute_command("SNAPSHOT.INFO")
        info = dict(zip(info[::2], info[1::2]))
        assert info["run_id"] == "run-hash-u64be" and info["key_encoding"] == "u64be" and info["pinned"] == 0
        [entry] = c.execute_command("SNAPSHOT.HISTORY")
        entry = dict(zip(entry[::2], entry[1::2]))
        assert entry["run_id"] == "run-hash-u64be" and entry["current"] == 1
        assert c.execute_command("SNAPSHOT.REFRESH") == "unchanged"
        c.execute_command("SNAPSHOT.USE", entry["ref"])
        assert c.info("snapshot")["snapshot_pinned"] == 1
        with pytest.raises(redis.ResponseError):
            c.execute_command("SNAPSHOT.USE", "no-such-run")
        c.execute_command("SNAPSHOT.USE", "LATEST")
        assert c.info("snapshot")["snapshot_pinned"] == 0


def test_a_live_server_serves_no_snapshot_and_says_so(client):
    with pytest.raises(redis.ResponseError, match="serves no snapshot"):
        client.execute_command("SNAPSHOT.INFO")


def test_a_start_without_a_snapshot_there_is_refused(make_server, tmp_path):
    with pytest.raises(RuntimeError, match="nothing is published here"):
        serve(make_server, f"file://{tmp_path}")
