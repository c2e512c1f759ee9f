"""Commands over keys in several shards are atomic, and a slow one stops only the shards that it uses."""
import select
import threading
import time

import pytest
import redis

from backends import bulk, keys_by_shard, on_both_backends

SECONDS = 1.5


class Crowd:
    """Threads that repeat their function until the time is over; the first failure is the test's."""

    def __init__(self, server):
        self.server = server
        self.stop = threading.Event()
        self.failures = []
        self.threads = []
        self.turns = []

    def add(self, function, n=1):
        for _ in range(n):
            slot = len(self.turns)
            self.turns.append(0)

            def run(slot=slot):
                try:
                    with self.server.client() as c:
                        while not self.stop.is_set():
                            function(c, self.turns[slot])
                            self.turns[slot] += 1
                except Exception as e:  # noqa: BLE001: told by run
                    self.failures.append(e)
                    self.stop.set()
            self.threads.append(threading.Thread(target=run))

    def run(self, seconds=SECONDS):
        for t in self.threads:
            t.start()
        self.stop.wait(seconds)
        self.stop.set()
        for t in self.threads:
            t.join()
        if self.failures:
            raise self.failures[0]
        assert all(self.turns), "a thread never had its turn"


@on_both_backends()
def test_what_is_written_together_is_seen_together(server):
    with server.client() as c:
        keys = keys_by_shard(c, "t:")
        c.mset(dict.fromkeys(keys, "first"))

    def mset(c, i):
        c.mset(dict.fromkeys(keys, f"m{i}-{threading.get_ident()}"))

    def transaction(c, i):
        with c.pipeline(transaction=True) as p:
            for k in keys:
                p.set(k, f"t{i}-{threading.get_ident()}")
            p.execute()

    def read(c, _):
        values = c.mget(keys)
        assert len(set(values)) == 1, values

    def read_in_transaction(c, _):
        with c.pipeline(transaction=True) as p:
            for k in reversed(keys):
                p.get(k)
            values = p.execute()
        assert len(set(values)) == 1, values

    crowd = Crowd(server)
    crowd.add(mset, 2)
    crowd.add(transaction, 2)
    crowd.add(read, 2)
    crowd.add(read_in_transaction, 2)
    crowd.run()


@on_both_backends()
def test_one_of_many_wins_an_msetnx(server):
    with server.client() as c:
        keys = keys_by_shard(c, "nx:")
        for round_ in range(30):
            start = threading.Barrier(6)
            won = []

            def race(i):
                with server.client() as mine:
                    start.wait()
                    if mine.msetnx({k: i for k in (keys if i % 2 else reversed(keys))}):
                        won.append(i)
            threads = [threading.Thread(target=race, args=(i,)) for i in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert len(won) == 1, (round_, won)
            assert c.mget(keys) == [str(won[0])] * len(keys)
            c.delete(*keys)


MOVES = {
    "rename": (lambda c, a, b: c.set(a, "v"), lambda c, a, b: c.rename(a, b), lambda p, k: p.exists(k)),
    "smove": (lambda c, a, b: c.sadd(a, "v"), lambda c, a, b: c.smove(a, b, "v"), lambda p, k: p.scard(k)),
    "lmove": (lambda c, a, b: c.rpush(a, "v"), lambda c, a, b: c.lmove(a, b), lambda p, k: p.llen(k)),
    "renamenx": (lambda c, a, b: c.set(a, "v"), lambda c, a, b: c.renamenx(a, b), lambda p, k: p.exists(k)),
}


@on_both_backends()
@pytest.mark.parametrize("how", MOVES)
def test_what_moves_between_shards_is_always_in_one_place(server, how):
    put, move, count = MOVES[how]
    with server.client() as c:
        a, b = keys_by_shard(c, f"{how}:")[:2]
        put(c, a, b)

    def there_and_back(c, i):
        move(c, *((a, b) if i % 2 == 0 else (b, a)))

    def look(c, _):
        with c.pipeline(transaction=True) as p:
            count(p, a)
            count(p, b)
            found = p.execute()
        assert sorted(found) == [0, 1], found

    crowd = Crowd(server)
    crowd.add(there_and_back)
    crowd.add(look, 3)
    crowd.run(0.8)


STORES = {
    "copy": ("set", ["COPY", "{0}", "{2}", "REPLACE"], ["COPY", "{1}", "{2}", "REPLACE"], lambda c, k: c.get(k)),
    "sunionstore": ("sadd", ["SUNIONSTORE", "{2}", "{0}"], ["SUNIONSTORE", "{2}", "{1}"], lambda c, k: "".join(sorted(c.smembers(k)))),
    "zunionstore": ("zadd", ["ZUNIONSTORE", "{2}", "1", "{0}"], ["ZUNIONSTORE", "{2}", "1", "{1}"], lambda c, k: "".join(c.zrange(k, 0, -1))),
    "sort": ("rpush", ["SORT", "{0}", "ALPHA", "STORE", "{2}"], ["SORT", "{1}", "ALPHA", "STORE", "{2}"], lambda c, k: "".join(c.lrange(k, 0, -1))),
}


@on_both_backends()
@pytest.mark.parametrize("how", STORES)
def test_a_result_that_is_stored_in_another_shard_is_whole(server, how):
    kind, first, second, read = STORES[how]
    with server.client() as c:
        keys = keys_by_shard(c, f"{how}:")[:3]
        for key, members in zip(keys, ("abcdefgh", "ABCDEFGH")):
            if kind == "set":
                c.set(key, members)
            elif kind == "zadd":
                c.zadd(key, {m: 1 for m in members})
            else:
                getattr(c, kind)(key, *members)
        c.execute_command(*[w.format(*keys) for w in first])

    def store(c, i):
        c.execute_command(*[w.format(*keys) for w in (first if i % 2 else second)])

    def look(c, _):
        assert read(c, keys[2]) in ("abcdefgh", "ABCDEFGH")

    crowd = Crowd(server)
    crowd.add(store, 2)
    crowd.add(look, 3)
    crowd.run(0.8)


@on_both_backends()
def test_the_whole_keyspace_is_emptied_at_once(server):
    with server.client() as c:
        keys = keys_by_shard(c, "f:")

    def fill(c, i):
        c.mset(dict.fromkeys(keys, i))

    def empty(c, i):
        c.flushall() if i % 2 else c.flushdb()

    def look(c, _):
        values = c.mget(keys)
        assert len(set(values)) == 1, values

    crowd = Crowd(server)
    crowd.add(fill, 2)
    crowd.add(empty)
    crowd.add(look, 3)
    crowd.run()


@on_both_backends()
def test_a_slow_command_stops_only_its_own_shard(server):
    """GETs on other shards are answered while the slow command runs; only connections of the worker that runs it wait with it."""
    with server.client(socket_timeout=120) as c:
        keys = keys_by_shard(c, "slow:")
        slow, others = keys[0], keys[1:]
        for i in range(0, 1_000_000, 50_000):
            c.rpush(slow, *(f"{j * 7919 % 1_000_003:07}" for j in range(i, i + 50_000)))
        for k in others:
            c.set(k, "v")
        clients = [server.raw(timeout=120) for _ in range(16)]
        with server.raw(timeout=120) as s:
            s.send(bulk("SORT", slow, "ALPHA", "LIMIT", "0", "1"))
            time.sleep(0.02)
            for x in clients:
                x.send(b"".join(bulk("GET", k) for k in others))
            early = set()
            sockets = {x.sock: x for x in clients}
            while True:
                ready, _, _ = select.select([s.sock, *sockets], [], [], 120)
                if s.sock in ready:
                    break
                for sock in ready:
                    sockets.pop(sock).expect(b"$1\r\nv\r\n" * len(others))
                    early.add(sock)
            s.expect(b"*1\r\n$7\r\n0000000\r\n")
            for x in sockets.values():
                x.expect(b"$1\r\nv\r\n" * len(others))
        for x in clients:
            x.close()
        assert early, "no other connection was answered while the slow command ran"


@on_both_backends()
def test_a_connection_behind_a_busy_shard_still_hears_of_its_end(server):
    """Clients that ask for a key of a busy shard and go away: their tasks come home to nobody."""
    with server.client(socket_timeout=60) as c:
        keys = keys_by_shard(c, "gone:")
        for i in range(0, 300_000, 50_000):
            c.rpush(keys[0], *range(i, i + 50_000))
        with server.raw(timeout=60) as s:
            s.send(bulk("SORT", keys[0], "ALPHA", "LIMIT", "0", "1") * 3)
            for i in range(40):
                with server.raw() as gone:
                    gone.send(bulk("SET", f"{keys[0]}:x", "v") + bulk("LLEN", keys[0]) + bulk("MGET", *keys) + bulk("GET", keys[1]))
            for _ in range(3):
                assert s.line() == b"*1"
                s.line(), s.line()
        deadline = time.monotonic() + 10
        while len(c.client_list()) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(c.client_list()) == 1
        with pytest.raises(redis.ResponseError):
            c.get(keys[0])
