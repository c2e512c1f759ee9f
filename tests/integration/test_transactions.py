"""MULTI, EXEC, WATCH over shards, as clients see them."""
import threading
import time

import pytest
import redis

from backends import bulk, keys_by_shard, on_both_backends

CLIENTS, INCREMENTS = 8, 200


@on_both_backends()
def test_queued_commands_run_at_exec(server):
    with server.client() as c, server.raw() as s:
        s.send(bulk("MULTI") + bulk("SET", "a", "1") + bulk("INCR", "a"))
        s.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
        assert c.get("a") is None
        s.send(bulk("EXEC"))
        s.expect(b"*2\r\n+OK\r\n:2\r\n")
        assert c.get("a") == "2"


@on_both_backends()
def test_a_refused_command_aborts_the_transaction(server):
    with server.raw() as s:
        for bad in (bulk("NOSUCH", "x"), bulk("GET")):
            s.send(bulk("MULTI") + bulk("SET", "a", "1") + bad + bulk("EXEC") + bulk("GET", "a"))
            s.expect(b"+OK\r\n+QUEUED\r\n")
            assert s.line().startswith(b"-ERR")
            assert s.line().startswith(b"-EXECABORT Transaction discarded")
            s.expect(b"$-1\r\n")


@on_both_backends()
def test_a_command_that_fails_when_it_runs_stops_no_other(server):
    with server.raw() as s:
        s.send(bulk("SET", "a", "text") + bulk("MULTI") + bulk("INCR", "a") + bulk("SET", "b", "1") + bulk("EXEC") + bulk("GET", "b"))
        s.expect(b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR value is not an integer or out of range\r\n+OK\r\n$1\r\n1\r\n")


@on_both_backends()
def test_the_words_around_a_transaction(server):
    with server.raw() as s:
        s.send(bulk("EXEC") + bulk("DISCARD") + bulk("MULTI") + bulk("MULTI") + bulk("WATCH", "a") + bulk("DISCARD") + bulk("MULTI") + bulk("EXEC"))
        s.expect(b"-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n+OK\r\n-ERR MULTI calls can not be nested\r\n"
                 b"-ERR WATCH inside MULTI is not allowed\r\n+OK\r\n+OK\r\n*0\r\n")


@on_both_backends()
def test_a_transaction_changes_its_database_in_between(server):
    with server.raw() as s:
        s.send(bulk("MULTI") + bulk("SET", "a", "0") + bulk("SELECT", "3") + bulk("SET", "a", "3") + bulk("EXEC") + bulk("GET", "a") +
               bulk("SELECT", "0") + bulk("GET", "a"))
        s.expect(b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\n3\r\n+OK\r\n$1\r\n0\r\n")


@on_both_backends()
def test_commands_over_all_shards_in_a_transaction(server):
    with server.client() as c:
        keys = keys_by_shard(c, "k")
        with c.pipeline(transaction=True) as p:
            p.mset(dict.fromkeys(keys, 1)).dbsize().keys("k*").flushdb().dbsize()
            result = p.execute()
        assert result[0] and result[1] == len(keys) and sorted(result[2]) == sorted(keys) and result[3] and result[4] == 0


CHANGES = {
    "set": lambda c, k: c.set(k, "other"),
    "del": lambda c, k: c.delete(k),
    "expire": lambda c, k: c.pexpire(k, 100_000),
    "flushall": lambda c, k: c.flushall(),
    "flushdb": lambda c, k: c.flushdb(),
    "swapdb": lambda c, k: c.swapdb(0, 1),
    "rename": lambda c, k: c.rename(k, "elsewhere"),
    "expiry": lambda c, k: (c.pexpire(k, 30), time.sleep(0.1)),
    "transaction": lambda c, k: c.pipeline(transaction=True).set(k, "other").execute(),
}


@on_both_backends()
@pytest.mark.parametrize("change", CHANGES)
def test_a_watched_key_that_changes_stops_the_exec(server, change):
    with server.client() as c, server.raw() as s:
        for key in keys_by_shard(c, "w"):
            c.set(key, "v")
            s.send(bulk("WATCH", "unrelated", key))
            s.expect(b"+OK\r\n")
            CHANGES[change](c, key)
            s.send(bulk("MULTI") + bulk("SET", "result", "ran") + bulk("EXEC"))
            s.expect(b"+OK\r\n+QUEUED\r\n*-1\r\n")
            assert c.get("result") is None


@on_both_backends()
def test_a_watch_that_nothing_touched_lets_the_exec_run(server):
    with server.client() as c, server.raw() as s:
        for ends in (b"", bulk("UNWATCH"), bulk("MULTI") + bulk("DISCARD")):
            s.send(bulk("WATCH", "w"))
            s.expect(b"+OK\r\n")
            if ends:
                c.set("w", time.monotonic())
            s.send(ends + bulk("MULTI") + bulk("PING") + bulk("EXEC"))
            s.expect(b"+OK\r\n" * (ends.count(b"*")) + b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n")
        s.send(bulk("WATCH", "w") + bulk("SET", "w", "own") + bulk("MULTI") + bulk("EXEC"))
        s.expect(b"+OK\r\n+OK\r\n+OK\r\n*-1\r\n")  # its own change counts as well


def all_of(functions):
    failures = []

    def guarded(f):
        try:
            f()
        except Exception as e:  # noqa: BLE001: raised below
            failures.append(e)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


@on_both_backends()
def test_optimistic_counters_lose_nothing(server):
    """Each client reads under WATCH and writes both keys, which live in different shards."""
    with server.client() as c:
        keys = keys_by_shard(c, "n")[:2]
        c.mset(dict.fromkeys(keys, 0))
    retries = []

    def count():
        with server.client() as c, c.pipeline() as p:
            for _ in range(INCREMENTS):
                while True:
                    try:
                        p.watch(*keys)
                        values = p.mget(keys)
                        assert values[0] == values[1]
                        p.multi()
                        p.mset(dict.fromkeys(keys, int(values[0]) + 1))
                        p.execute()
                        break
                    except redis.WatchError:
                        retries.append(1)
    all_of([count] * CLIENTS)
    with server.client() as c:
        assert c.mget(keys) == [str(CLIENTS * INCREMENTS)] * 2
    assert retries, "nobody was in anybody's way"


@on_both_backends()
def test_clients_that_leave_in_the_middle_of_a_transaction(server):
    with server.client() as c:
        keys = keys_by_shard(c, "m")
        for i in range(200):
            with server.raw() as s:
                s.send(bulk("WATCH", *keys) + bulk("MULTI") + bulk("INCR", keys[i % 4]) + (bulk("EXEC") if i % 3 == 0 else b""))
                if i % 2:
                    s.line()
            c.incr(keys[i % 4])
        c.mset(dict.fromkeys(keys, 0))
        with c.pipeline() as p:
            p.watch(*keys)
            p.multi()
            p.mset(dict.fromkeys(keys, 1))
            p.execute()
        assert c.mget(keys) == ["1"] * 4
