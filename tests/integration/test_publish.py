"""SNAPSHOT.PUBLISH: what a live server holds, at one moment, as a published snapshot; and servers that serve it meanwhile."""
import os
import threading
import time

import pytest
import redis

from beside import Beside
from s3server import s3, s3_strict  # noqa: F401

WAIT_SECONDS = 60


def status(c):
    words = c.execute_command("SNAPSHOT.STATUS")
    return dict(zip(words[::2], words[1::2]))


def wait_for_end(c):
    deadline = time.monotonic() + WAIT_SECONDS
    while (s := status(c))["state"] in ("waiting", "reading", "writing"):
        assert time.monotonic() < deadline, s
        time.sleep(0.01)
    return s


def wait_until(what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def publish(c, url, *words):
    assert c.execute_command("SNAPSHOT.PUBLISH", url, *words) == "Publishing started"
    return wait_for_end(c)


def published(c, url, *words):
    s = publish(c, url, *words)
    assert s["state"] == "published", s
    return s


def serve(make_server, url, *args):
    return make_server(args=["--snapshot", url, *args])


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/store"


class Writers(Beside):
    """Threads that set all keys to one number after the other, each time in one transaction."""

    def __init__(self, server, keys, threads=2):
        super().__init__([server.client] * threads)
        self.keys = keys

    def work(self, c, number):
        while not self.stop.is_set():
            c.mset({k: number for k in self.keys})
            number += len(self.threads)


@pytest.mark.parametrize("args", [[], ["--ephemeral", "yes"]], ids=["durable", "ephemeral"])
def test_what_is_published_under_load_is_of_one_moment(make_server, url, args):
    live = make_server(workers=3, args=args)
    keys = [f"key{i}" for i in range(500)]
    with live.client() as c:
        c.mset({k: -1 for k in keys})
        c.mset({f"other{i}": "x" * 50 for i in range(20000)})
        with Writers(live, keys):
            for i in range(5):
                s = published(c, url, "SHARDS", 4)
                assert s["rows"] == s["keys_done"] == s["keys_total"] == 20500
                with serve(make_server, url).client() as reader:
                    values = reader.mget(keys)
                    assert len(set(values)) == 1 and values[0] is not None, set(values)
                    assert reader.dbsize() == 20500


def test_readers_switch_whole_while_snapshots_are_published(make_server, url):
    """Eight threads read without pause over a hundred publishes: never a mixed, missing or stale-after-refresh answer."""
    live = make_server(workers=2, args=["--ephemeral", "yes"])
    keys = [f"key{i}" for i in range(60)]
    stop, errors, refreshed, seen = threading.Event(), [], [0], [-1] * 8
    with live.client() as c:
        c.mset({k: 0 for k in keys})
        published(c, url, "SHARDS", 3)
        reader = serve(make_server, url, "--refresh", "0")

        def read(place):
            try:
                with reader.client() as r:
                    while not stop.is_set():
                        least = max(refreshed[0], seen[place])
                        values = set(r.mget(keys))
                        assert len(values) == 1 and None not in values, values
                        now = int(values.pop())
                        assert now >= least, (now, least)
                        seen[place] = now
            except Exception as e:  # noqa: BLE001
                errors.append(e)

        threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        with reader.client() as r:
            for i in range(1, 101):
                c.mset({k: i for k in keys})
                published(c, url, "SHARDS", 3)
                assert r.execute_command("SNAPSHOT.REFRESH") == "switched"
                refreshed[0] = i
                assert r.get(keys[i % len(keys)]) == str(i)
                wait_until(lambda: errors or min(seen) == i)
        stop.set()
        for t in threads:
            t.join()
    assert not errors and seen == [100] * 8


def test_a_server_follows_by_itself_and_can_be_rolled_back(make_server, url):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.set("k", "one")
        published(c, url, "RUNID", "first")
        with serve(make_server, url, "--refresh", "1s").client() as r:
            c.set("k", "two")
            published(c, url, "RUNID", "second")
            deadline = time.monotonic() + WAIT_SECONDS
            while r.get("k") != "two":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert "run_id=first/" in r.execute_command("SNAPSHOT.ROLLBACK")
            assert r.get("k") == "one"
            r.execute_command("SNAPSHOT.USE", "second")
            assert r.get("k") == "two"


def test_only_strings_of_the_database_that_have_not_expired_are_published(make_server, url):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client(db=3) as c:
        c.mset({"a": "1", "empty": "", "b": b"\x00\xff" * 5000})
        c.set("gone", "x", px=1)
        c.set("later", "x", ex=1000)
        c.lpush("list", 1)
        c.hset("hash", "f", 1)
        with live.client(db=0) as other:
            other.set("elsewhere", 1)
        time.sleep(0.01)
        s = published(c, url)
        assert s["rows"] == 4 and s["left_out"] == 2
        with serve(make_server, url).client(decode_responses=False) as r:
            assert sorted(r.keys("*")) == [b"a", b"b", b"empty", b"later"]
            assert r.get("b") == b"\x00\xff" * 5000 and r.get("empty") == b"" and r.ttl("later") == -1
        s = publish(c, url, "STRICT")
        assert s["state"] == "failed" and "no string" in s["error"]
        with serve(make_server, url).client() as r:
            assert r.dbsize() == 4


def test_values_that_lie_in_the_cold_tier_are_published_as_they_are(make_server, tmp_path, url):
    """All of them on disk, others read, changed, deleted and chilled again while it goes on: the snapshot has the moment of its cut."""
    live = make_server(workers=3, data=tmp_path / "data", args=["--maxmemory", "64mb", "--maxmemory-policy", "cold"])
    values = {f"key{i}": f"{i}:" + f"{i * 2654435761 % 2**32:08x}" * (10 + i % 50) for i in range(12000)}
    stop, rounds = threading.Event(), [0]

    def disturb():
        with live.client() as other:
            i = 0
            while not stop.is_set():
                key = f"key{i * 7919 % 6000 * 2}"
                other.get(key)
                other.append(key, "+")
                other.execute_command("DEBUG", "CHILL", key)
                other.delete(f"key{i * 104729 % 6000 * 2 + 1}")
                rounds[0], i = rounds[0] + 1, i + 1

    with live.client() as c:
        c.mset(values)
        c.hset("hash", mapping={f"f{i}": "x" * 100 for i in range(50)})
        wait_until(lambda: c.execute_command("DEBUG", "CHILL") == 0 and c.info("cold")["cold_pending_bytes"] == 0)
        assert c.info("cold")["cold_keys"] == len(values) + 1
        s = published(c, url, "SHARDS", 4)
        assert s["rows"] == len(values) and s["left_out"] == 1
        assert c.info("cold")["cold_keys"] == len(values) + 1, "publishing warms nothing"
        with serve(make_server, url).client() as r:
            assert r.dbsize() == len(values)
            for at in range(0, len(values), 1000):
                keys = list(values)[at:at + 1000]
                assert r.mget(keys) == [values[k] for k in keys]
        t = threading.Thread(target=disturb)
        t.start()
        for _ in range(3):
            s = published(c, url, "SHARDS", 2)
            with serve(make_server, url).client() as r:
                assert r.dbsize() == s["rows"]
                for key in r.scan_iter(count=1000):
                    assert r.get(key).rstrip("+") == values[key]
        stop.set()
        t.join()
        assert rounds[0] > 10 and c.info("cold")["cold_read_errors"] == 0


def test_keys_are_stored_as_the_encoding_says(make_server, tmp_path):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.mset({i: f"v{i}" for i in range(1000)})
        for encoding in ("u64be", "u32be", "utf8", "raw"):
            url = f"file://{tmp_path}/{encoding}"
            published(c, url, "KEY-ENCODING", encoding)
            with serve(make_server, url).client() as r:
                assert all(r.get(i) == f"v{i}" for i in range(0, 1000, 37)) and r.get("x") is None
                first = r.execute_command("SNAPSHOT.SCAN", "LIMIT", 3)[::2]
                assert first == (["0", "1", "2"] if encoding.startswith("u") and encoding != "utf8" else ["0", "1", "10"])
        c.set("letters", 1)
        c.set(b"\xff\xfe", 1)
        for encoding, words in (("u64be", "number"), ("utf8", "UTF-8")):
            s = publish(c, f"file://{tmp_path}/{encoding}", "KEY-ENCODING", encoding)
            assert s["state"] == "failed" and words in s["error"], s
        published(c, f"file://{tmp_path}/raw", "KEY-ENCODING", "raw")
        for words in (["SHARDS", 0], ["SHARDS"], ["KEY-ENCODING", "latin1"], ["RUNID", "a/b"], ["NONSENSE"]):
            with pytest.raises(redis.ResponseError):
                c.execute_command("SNAPSHOT.PUBLISH", f"file://{tmp_path}/raw", *words)


def test_a_cancelled_or_failed_publish_leaves_readers_where_they_were(make_server, tmp_path, url):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.mset({f"k{i}": "old" for i in range(20000)})
        assert c.execute_command("SNAPSHOT.CANCEL") == 0
        published(c, url)
        c.mset({f"k{i}": "new" for i in range(20000)})
        with c.pipeline(transaction=False) as p:
            p.execute_command("SNAPSHOT.PUBLISH", url)
            p.execute_command("SNAPSHOT.PUBLISH", url)
            p.execute_command("SNAPSHOT.CANCEL")
            started, refused, cancelled = p.execute(raise_on_error=False)
        assert started == "Publishing started" and "already" in str(refused) and cancelled == 1
        assert wait_for_end(c)["state"] == "cancelled"
        os.rename(tmp_path / "store" / "shards", tmp_path / "kept")
        (tmp_path / "store" / "shards").write_text("in the way")
        s = publish(c, url)
        assert s["state"] == "failed" and s["error"]
        os.remove(tmp_path / "store" / "shards")
        os.rename(tmp_path / "kept", tmp_path / "store" / "shards")
        with serve(make_server, url).client() as r:
            assert r.get("k1") == r.get("k19999") == "old"
        published(c, url)
        assert c.info("snapshot")["publish_published"] == 2 and c.info("snapshot")["publish_failed"] == 2


def test_a_store_that_goes_away_does_not_take_a_served_snapshot_along(make_server, tmp_path, url):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.set("k", "v")
        published(c, url)
        with serve(make_server, url).client() as r:
            os.rename(tmp_path / "store", tmp_path / "away")
            with pytest.raises(redis.ResponseError):
                r.execute_command("SNAPSHOT.REFRESH")
            assert r.get("k") == "v" and r.info("snapshot")["snapshot_refresh_status"] == "err"
            os.rename(tmp_path / "away", tmp_path / "store")
            assert r.execute_command("SNAPSHOT.REFRESH") == "unchanged" and r.get("k") == "v"


def test_dumps_and_publishing_wait_for_each_other_and_none_is_lost(make_server, url, tmp_path):
    live = make_server(workers=2, data=tmp_path / "data")
    with live.client() as c:
        c.mset({f"k{i}": "x" * 100 for i in range(50000)})
        for _ in range(3):
            with c.pipeline(transaction=False) as p:
                p.execute_command("BGSAVE")
                p.execute_command("SNAPSHOT.PUBLISH", url)
                p.execute_command("BGSAVE", "SCHEDULE")
                p.execute()
            assert wait_for_end(c)["state"] == "published"
            c.execute_command("SAVE")
        assert c.info("snapshot")["publish_published"] == 3 and c.info("persistence")["dump_failures"] == 0
        assert c.info("persistence")["dump_count"] >= 6
    assert live.stop() == 0


def test_a_stop_in_the_middle_of_publishing_is_clean(make_server, url):
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.mset({f"k{i}": "x" * 100 for i in range(50000)})
        c.execute_command("SNAPSHOT.PUBLISH", url)
    assert live.stop() == 0


def test_publishing_to_and_serving_from_an_s3_store(make_server, s3, monkeypatch):  # noqa: F811
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    live = make_server(args=["--ephemeral", "yes"])
    with live.client() as c:
        c.mset({f"k{i}": f"v{i}" for i in range(2000)})
        published(c, s3.url + "/live", "SHARDS", 2)
        with serve(make_server, s3.url + "/live", "--snapshot-mode", "range", "--refresh", "0").client() as r:
            assert r.mget("k0", "k1999", "nobody") == ["v0", "v1999", None]
            c.mset({f"k{i}": "new" for i in range(2000)})
            published(c, s3.url + "/live", "SHARDS", 2)
            assert r.execute_command("SNAPSHOT.REFRESH") == "switched"
            assert r.get("k7") == "new"


def pages(client, *query, limit):
    """All pages of a query, put together."""
    found, cursor = [], "0"
    while True:
        cursor, items = client.execute_command(*query, "LIMIT", limit, "CURSOR", cursor)
        found += items
        if cursor == "0":
            return found


@pytest.mark.parametrize("mode", ["download", "range"])
def test_key_spaces_are_read_as_on_the_live_server_that_was_published(make_server, url, mode):
    keys = ["users", "users-1", "users0", "users/", "users/a/1", "users/a/2", "users/b", "order/1", "orders"] + [f"users/{i:03d}" for i in range(40)]
    with make_server().client() as live:
        for key in keys:
            live.set(key, f"value of {key}")
        live.execute_command("SPACE.SET", "users", "RANGE")
        published(live, url, "SHARDS", 3)
        with serve(make_server, url, "--snapshot-mode", mode).client() as served:
            assert len(served.execute_command("RANGE.GET", "users")[1]) == 2 * 43  # users, users/, users/b and forty more
            for query in (["users"], ["users", "users/010", "users/020"], ["users", "-", "users/010"], ["users", "users/035"], ["users", "users/020", "users/010"]):
                assert served.execute_command("RANGE.GET", *query) == live.execute_command("RANGE.GET", *query), query
                assert served.execute_command("RANGE.GET", *query, "REVERSE", "KEYSONLY") == live.execute_command("RANGE.GET", *query, "REVERSE", "KEYSONLY"), query
                assert served.execute_command("RANGE.COUNT", *query) == live.execute_command("RANGE.COUNT", *query), query
            for reverse in ([], ["REVERSE"]):
                whole = live.execute_command("BUCKET.GET", "users/", *reverse)[1]
                assert pages(served, "BUCKET.GET", "users/", *reverse, limit=7) == whole
                assert pages(served, "RANGE.GET", "users", "-", "+", *reverse, limit=1) == whole
            assert served.execute_command("RANGE.GET", "users/a") == ["0", ["users/a/1", "value of users/a/1", "users/a/2", "value of users/a/2"]]
            for wrong in (["users", "7"], ["users", "LIMIT", "0"], ["users", "CURSOR", "x"]):
                with pytest.raises(redis.ResponseError):
                    served.execute_command("RANGE.GET", *wrong)
            with pytest.raises(redis.ResponseError, match="READONLY|read only"):
                served.execute_command("RANGE.DEL", "users")
