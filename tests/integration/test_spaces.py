"""Key spaces as clients see them: modes, ordered reads, splits and moves under load, crashes in the middle of them, locks and fenced commands."""
import random
import threading
import time

import pytest
import redis

WORKERS = 4
SAFE = ["--appendfsync", "always"]


# ---- helpers


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def ranges(c, *space):
    return [as_dict(r) for r in c.execute_command("RANGE.MAP", *space)]


def info(c, space):
    return as_dict(c.execute_command("SPACE.INFO", space))


def is_moving(c):
    return any("to-shard" in r for r in ranges(c)) or any("to-mode" in as_dict(s) for s in c.execute_command("SPACE.LIST"))


def wait_for_moves(c, seconds=30):
    deadline = time.monotonic() + seconds
    while is_moving(c):
        assert time.monotonic() < deadline, "a move does not end"
        time.sleep(0.002)


def set_mode(c, space, mode):
    assert c.execute_command("SPACE.SET", space, mode) in ("OK", True)
    wait_for_moves(c)
    deadline = time.monotonic() + 30
    while info(c, space).get("state", "ready") != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.002)


def get(c, *args):
    """Cursor and pairs of RANGE.GET or BUCKET.GET."""
    cursor, flat = c.execute_command(*args)
    return cursor, dict(zip(flat[::2], flat[1::2]))


def all_pages(c, *args, limit=10):
    cursor, out = "0", []
    while True:
        cursor, flat = c.execute_command(*args, "LIMIT", limit, "CURSOR", cursor)
        out += flat
        if cursor == "0":
            return out


def key(i, space="users"):
    return f"{space}/{i:05d}"


def fill(c, n, space="users"):
    for i in range(0, n, 1000):
        c.mset({key(k, space): k for k in range(i, min(n, i + 1000))})


def refused(c, *args):
    with pytest.raises(redis.ResponseError) as e:
        c.execute_command(*args)
    return str(e.value)


def split_evenly(c, n, parts, space="users"):
    for i in range(1, parts):
        c.execute_command("RANGE.SPLIT", space, key(n * i // parts, space))


def spread(c, n, parts, workers, space="users"):
    """Ranges of equal length, in turn on all shards."""
    split_evenly(c, n, parts, space)
    for i, r in enumerate(ranges(c, space)):
        if r["shard"] != i % workers:
            c.execute_command("RANGE.MOVE", space, key(n * i // parts, space), i % workers)
    wait_for_moves(c)


def check_map(c, space="users"):
    """The ranges tile the line."""
    reached = "-"
    for r in ranges(c, space):
        assert r["start"] == reached
        reached = r["end"]
    assert reached == "+"


@pytest.fixture
def four(make_server):
    server = make_server(workers=WORKERS)
    with server.client() as c:
        yield c


# ---- modes


def test_a_space_has_a_mode_and_tells_it(four):
    c = four
    assert info(c, "users") == {"space": "users", "mode": "hash", "generation": 0}
    assert c.execute_command("SPACE.LIST") == [] and ranges(c) == []
    fill(c, 500)
    set_mode(c, "users", "RANGE")
    told = info(c, "users")
    assert (told["mode"], told["state"], told["keys"]) == ("range", "ready", 500) and told["bytes"] > 500
    (only,) = ranges(c, "users")
    assert (only["start"], only["end"], only["keys"], only["space"]) == ("-", "+", 500, "users")
    set_mode(c, "cfg/eu", "BUCKET")
    assert [as_dict(s)["space"] for s in c.execute_command("SPACE.LIST")] == ["cfg/eu", "users"]
    assert len(ranges(c)) == 2 and len(ranges(c, "cfg/eu")) == 1 and ranges(c, "none") == []
    set_mode(c, "users", "hash")
    assert info(c, "users")["mode"] == "hash" and ranges(c, "users") == []
    assert [int(v) for v in c.mget([key(i) for i in range(500)])] == list(range(500)) and c.dbsize() == 500
    assert c.execute_command("SPACE.SET", "users", "HASH")  # again: nothing to do


def test_answers_are_maps_in_resp3(make_server):
    server = make_server(workers=2)
    with server.client() as c, server.raw() as raw:
        set_mode(c, "s", "BUCKET")
        raw.command("HELLO", 3)
        while not raw.line().endswith(b"modules"):
            pass
        raw.expect(b"*0\r\n")
        raw.command("ZADD", "s/z", "1.5", "m")
        raw.expect(b":1\r\n")
        raw.command("SPACE.INFO", "s")
        raw.expect(b"%6\r\n$5\r\nspace\r\n$1\r\ns\r\n$4\r\nmode\r\n$6\r\nbucket\r\n$10\r\ngeneration\r\n:1\r\n$5\r\nstate\r\n$5\r\nready\r\n$4\r\nkeys\r\n:1\r\n$5\r\nbytes\r\n:")
        raw.line()
        raw.command("BUCKET.GET", "s")
        raw.expect(b"*2\r\n$1\r\n0\r\n*2\r\n$3\r\ns/z\r\n*2\r\n$1\r\nm\r\n,1.5\r\n")
        raw.command("RANGE.LOCK", "s", "-", "+", "me", 1000)
        raw.expect(b"*2\r\n:")
        raw.line()
        raw.expect(b"_\r\n")
        raw.command("RANGE.LOCK", "s", "-", "+", "you", 1000)
        raw.expect(b"*2\r\n_\r\n%6\r\n$5\r\nowner\r\n$2\r\nme\r\n")


@pytest.mark.parametrize("call, error", [
    ("SPACE.SET users LIST", "the mode of a key space is HASH, BUCKET or RANGE"),
    ("SPACE.SET users/ RANGE", 'the name of a space has no \'/\' at its end: keys that begin with "users/" are in space "users"'),
    ("SPACE.SET users/* RANGE", 'a space is named, not matched: the keys "users/*" are those of space "users"'),
    ("RANGE.GET hashed", 'the key space "hashed" has no order: SPACE.SET it BUCKET or RANGE first'),
    ("BUCKET.GET hashed", 'the key space "hashed" has no order: SPACE.SET it BUCKET or RANGE first'),
    ("RANGE.COUNT hashed", 'the key space "hashed" has no order: SPACE.SET it BUCKET or RANGE first'),
    ("RANGE.GET users a", '"a" is no key of space "users": whole keys are wanted, as in "users/a"'),
    ("RANGE.GET users - m", '"m" is no key of space "users": whole keys are wanted, as in "users/m"'),
    ("RANGE.DEL users - z", '"z" is no key of space "users": whole keys are wanted, as in "users/z"'),
    ("RANGE.GET users other/x", '"other/x" is no key of space "users": the space of a key is what stands before its last \'/\', here "other"'),
    ("RANGE.GET users LIMIT 0", "LIMIT must be a positive integer"),
    ("RANGE.GET users LIMIT x", "LIMIT must be a positive integer"),
    ("RANGE.GET users LIMIT", "syntax error"),
    ("RANGE.GET users - + + +", "syntax error"),
    ("RANGE.GET users CURSOR 7", "invalid cursor: it is not one of this command with these options"),
    ("RANGE.GET users REVERSE CURSOR >users/a", "invalid cursor: it is not one of this command with these options"),
    ("RANGE.COUNT users LIMIT 3", '"LIMIT" is no key of space "users": whole keys are wanted, as in "users/LIMIT"'),
    ("RANGE.SPLIT hashed hashed/a", 'space "hashed" was never given a mode: SPACE.SET does that'),
    ("RANGE.SPLIT bucket bucket/a", 'space "bucket" has no ranges: its mode is bucket; SPACE.SET "bucket" RANGE gives it some'),
    ("RANGE.SPLIT users a", '"a" is no key of space "users": whole keys are wanted, as in "users/a"'),
    ("RANGE.MERGE users users/a", '"users/a" is in the first range of space "users", which has none before it'),
    ("RANGE.MOVE users users/a 9", "there are shards 0 to 3"),
    ("RANGE.MOVE users users/a x", "value is not an integer or out of range"),
    ("RANGE.MOVE users carts/a 0", '"carts/a" is no key of space "users": the space of a key is what stands before its last \'/\', here "carts"'),
    ("RANGE.MOVE users - 9", "there are shards 0 to 3"),
    ("RANGE.MOVE hashed hashed/a 0", "the key space has no ranges: SPACE.SET it BUCKET or RANGE first"),
    ("RANGE.MAP users users", "wrong number of arguments for 'range.map' command"),
    ("RANGE.LOCK users users/b users/a me 10", "the end of what is locked must lie behind its start"),
    ("RANGE.LOCK users - + me -1", "invalid expire time in 'range.lock' command"),
    ("RANGE.LOCK users - + me 10 NEVER", "syntax error"),
    ("RANGE.LOCK users - + me 10 SHARED SHARED", "syntax error"),
    ("RANGE.LOCKS users - + +", "wrong number of arguments for 'range.locks' command"),
    ("RANGE.EXEC 1 0 GET users/a", "range-id and generation are positive integers, as RANGE.MAP shows them"),
    ("RANGE.EXEC 1 1 NOSUCH users/a", "unknown command 'NOSUCH'"),
    ("RANGE.EXEC 1 1 DBSIZE users/a", "RANGE.EXEC runs commands that name their keys, with the right number of arguments"),
    ("RANGE.EXEC 1 1 WATCH users/a", "RANGE.EXEC runs commands that name their keys, with the right number of arguments"),
    ("RANGE.EXEC 1 1 RANGE.EXEC 1 1 GET a", "RANGE.EXEC runs commands that name their keys, with the right number of arguments"),
])
def test_mistakes_are_told_with_what_was_meant(four, call, error):
    set_mode(four, "users", "RANGE")
    set_mode(four, "bucket", "BUCKET")
    assert refused(four, *call.split()) == error


# ---- ordered reads


def test_counting_leaves_out_what_has_expired(four):
    c = four
    set_mode(c, "m", "RANGE")
    wait_for_moves(c)
    c.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for brief, lasting in ((3, 50), (60, 10)):
        c.flushall()
        for i in range(lasting):
            c.set(f"m/l{i:03d}", "stays")
        for i in range(brief):
            c.set(f"m/b{i:03d}", "goes", px=1)
            c.set(f"other/b{i:03d}", "goes", px=1)
        c.set("m/later", "goes later", ex=1000)
        time.sleep(0.01)
        assert c.execute_command("RANGE.COUNT", "m") == lasting + 1
        assert c.execute_command("RANGE.COUNT", "m", "m/b", "m/c") == 0
        assert c.execute_command("RANGE.COUNT", "m", "m/b001", "m/l005") == 5
        assert c.dbsize() == lasting + 2 * brief + 1, "they were removed before they were counted"


def test_every_type_of_value_is_read_in_order_and_so_is_a_part_of_it(four):
    c = four
    set_mode(c, "m", "RANGE")
    c.execute_command("RANGE.SPLIT", "m", "m/c")
    c.execute_command("RANGE.MOVE", "m", "m/c", 1 - bool(ranges(c, "m")[0]["shard"]))
    c.zadd("m/e", {"x": 1, "y": 2.5})
    c.hset("m/a", mapping={"f": "v"})
    c.rpush("m/d", "1", "2")
    c.set("m/b", "text")
    c.sadd("m/c", "only")
    c.set("m", "the key without a slash is in the space of its name")
    c.set("m/x/y", "another space")
    wait_for_moves(c)
    everything = {"m": "the key without a slash is in the space of its name", "m/a": ["f", "v"], "m/b": "text", "m/c": ["only"], "m/d": ["1", "2"], "m/e": ["x", "1", "y", "2.5"]}
    assert get(c, "RANGE.GET", "m") == ("0", everything)
    assert get(c, "BUCKET.GET", "m/") == ("0", everything)
    assert list(get(c, "RANGE.GET", "m", "REVERSE")[1]) == list(reversed(everything))
    assert get(c, "RANGE.GET", "m", "m/b", "m/d") == ("0", {"m/b": "text", "m/c": ["only"]})
    assert c.execute_command("RANGE.GET", "m", "m/b", "KEYSONLY") == ["0", ["m/b", "m/c", "m/d", "m/e"]]
    assert c.execute_command("RANGE.GET", "m", "-", "m/b", "KEYSONLY") == ["0", ["m", "m/a"]]
    assert c.execute_command("RANGE.GET", "m", "m/d", "m0", "KEYSONLY") == ["0", ["m/d", "m/e"]]  # an end behind the space
    assert c.execute_command("RANGE.GET", "m", "m/d", "m/b") == ["0", []]
    assert c.execute_command("RANGE.COUNT", "m") == 6 and c.execute_command("RANGE.COUNT", "m", "m/b", "m/d") == 2
    assert c.execute_command("RANGE.DEL", "m", "m/b", "m/d") == 2
    assert c.exists("m/b", "m/c") == 0 and c.exists("m/a", "m/d", "m/x/y") == 3


def test_pages_have_every_key_once(four):
    c = four
    fill(c, 400)
    set_mode(c, "users", "RANGE")
    spread(c, 400, 9, WORKERS)
    keys = [key(i) for i in range(400)]
    for limit in (1, 7, 399, 400, 1000):
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", limit=limit) == keys
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", "REVERSE", limit=limit) == keys[::-1]
    assert all_pages(c, "RANGE.GET", "users", key(13), key(277), "KEYSONLY", limit=50) == keys[13:277]
    assert all_pages(c, "RANGE.GET", "users", key(13), key(277), "KEYSONLY", "REVERSE", limit=50) == keys[13:277][::-1]
    assert all_pages(c, "BUCKET.GET", "users", "KEYSONLY", limit=33) == keys


def test_bytes_are_ordered_as_bytes(make_server):
    server = make_server(workers=WORKERS)
    with server.client(decode_responses=False) as c, server.client(encoding="latin-1") as text:
        set_mode(text, "\xff\x00", "RANGE")
        suffixes = [b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"b", b"\x80", b"\xff", b"\xff\xff"]
        for s in suffixes:
            c.set(b"\xff\x00/" + s, s)
        c.execute_command("RANGE.SPLIT", b"\xff\x00", b"\xff\x00/\x80")
        _, flat = c.execute_command("RANGE.GET", b"\xff\x00")
        assert flat[1::2] == sorted(suffixes)


def test_expired_keys_are_not_shown(four):
    c = four
    set_mode(c, "users", "RANGE")
    fill(c, 10)
    for i in (0, 4, 9):
        c.pexpire(key(i), 1)
    time.sleep(0.05)
    assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", limit=3) == [key(i) for i in (1, 2, 3, 5, 6, 7, 8)]
    deadline = time.monotonic() + 10
    while c.execute_command("RANGE.COUNT", "users") != 7:
        assert time.monotonic() < deadline
    c.persist(key(1))
    c.expire(key(2), 1000)
    c.execute_command("RANGE.MOVE", "users", key(0), 1 - bool(ranges(c)[0]["shard"]))
    wait_for_moves(c)
    assert c.ttl(key(1)) == -1 and 900 < c.ttl(key(2)) <= 1000


@pytest.mark.parametrize("direction", [[], ["REVERSE"]])
def test_who_reads_a_range_past_an_expired_key_ends_it(four, direction):
    """A key that an answer did not show is gone: nobody with another clock shows it again."""
    set_mode(four, "late", "RANGE")
    four.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    for i in range(30):
        four.set(f"late/{i:02}", i, px=1 if i % 3 else None)
    stay = sorted(f"late/{i:02}" for i in range(0, 30, 3))
    deadline = time.monotonic() + 30
    while sorted(get(four, "RANGE.GET", "late", *direction)[1]) != stay:
        assert time.monotonic() < deadline
    assert four.execute_command("RANGE.COUNT", "late") == len(stay)
    four.execute_command("RANGE.DEL", "late")
    four.set("late/alone", 1, px=1)  # the last key of its space
    while get(four, "RANGE.GET", "late", *direction)[1]:
        assert time.monotonic() < deadline
    assert four.execute_command("RANGE.COUNT", "late") == 0


def test_a_space_is_one_in_all_databases_and_commands_see_the_selected_one(make_server):
    with make_server(workers=WORKERS).client(single_connection_client=True) as c:
        fill(c, 50)
        c.select(3)
        c.mset({key(i): "three" for i in range(20, 120)})
        set_mode(c, "users", "RANGE")
        spread(c, 100, 5, WORKERS)
        assert c.execute_command("RANGE.COUNT", "users") == 100
        assert c.execute_command("RANGE.DEL", "users", key(100)) == 20
        c.select(0)
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY") == [key(i) for i in range(50)]
        assert sum(r["keys"] for r in ranges(c, "users")) == 130
        c.execute_command("SWAPDB", 0, 3)
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY") == [key(i) for i in range(20, 100)]
        c.flushdb()
        assert c.execute_command("RANGE.COUNT", "users") == 0
        c.select(3)
        assert c.execute_command("RANGE.COUNT", "users") == 50
        c.execute_command("MOVE", key(7), 0)
        c.execute_command("COPY", key(8), "users/copy", "DB", 0)
        c.select(0)
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY") == [key(7), "users/copy"]
        before = ranges(c, "users")
        c.flushall()
        assert [r["id"] for r in ranges(c, "users")] == [r["id"] for r in before] and all(r["keys"] == 0 for r in ranges(c, "users"))
        c.mset({key(i): i for i in range(100)})
        assert c.execute_command("RANGE.COUNT", "users") == 100
        c.rename(key(5), "elsewhere")
        c.rename("elsewhere", "users/zz")
        assert all_pages(c, "RANGE.GET", "users", key(98), "KEYSONLY") == [key(98), key(99), "users/zz"]


# ---- under load


class Load(threading.Thread):
    """Calls step(client) over and over; what it raises is raised by stop()."""

    def __init__(self, server, step, pause=0.0):
        super().__init__(daemon=True)
        self.server, self.step_fn, self.pause = server, step, pause
        self.done, self.rounds, self.error = threading.Event(), 0, None
        self.start()

    def run(self):
        try:
            with self.server.client(single_connection_client=True) as c:
                while not self.done.is_set():
                    self.step_fn(c)
                    self.rounds += 1
                    time.sleep(self.pause)
        except Exception as e:  # it belongs to the test's thread
            self.error = e

    def stop(self):
        self.done.set()
        self.join(60)
        assert not self.is_alive()
        if self.error:
            raise self.error
        return self.rounds


def stir(rng, n, workers, space="users", modes=False):
    """A step of a Load that splits, merges, moves and perhaps changes the mode."""
    counts = {"done": 0}

    def step(c):
        k = key(rng.randrange(0, n, max(1, n // 16)), space)
        calls = [["RANGE.SPLIT", space, k], ["RANGE.MERGE", space, k], ["RANGE.MOVE", space, k, rng.randrange(workers)], ["RANGE.MOVE", space, k, rng.randrange(workers)]]
        if modes and rng.random() < 0.15:
            calls = [["SPACE.SET", space, rng.choice(["RANGE", "RANGE", "BUCKET", "HASH"])]]
        try:
            c.execute_command(*rng.choice(calls))
            counts["done"] += 1
        except redis.ResponseError:
            pass
    step.counts = counts
    return step


def test_pages_stay_right_while_ranges_split_and_move_under_writers(make_server):
    n, rng = 4000, random.Random(5)
    server = make_server(workers=WORKERS)
    with server.client() as c:
        fill(c, n)
        set_mode(c, "users", "RANGE")
        spread(c, n, 8, WORKERS)
        stable = [key(i) for i in range(n)]

        def write(w):
            i = rng.randrange(n)
            w.mset({key(i): i, f"{key(i)}x": "comes and goes", key((i * 7) % n): (i * 7) % n})
            w.delete(f"{key(i)}x")

        loads = [Load(server, write), Load(server, stir(rng, n, WORKERS), pause=0.002)]
        for round in range(6):
            seen = all_pages(c, "RANGE.GET", "users", "KEYSONLY", *(["REVERSE"] if round % 2 else []), limit=37 + round * 100)
            assert seen == sorted(set(seen), reverse=bool(round % 2)), "in order, and none twice"
            assert [k for k in seen if not k.endswith("x")] == (stable[::-1] if round % 2 else stable)
            assert n <= c.execute_command("RANGE.COUNT", "users") <= n + 1
        assert all(load.stop() for load in loads) and loads[1].step_fn.counts["done"] > 5
        wait_for_moves(c)
        check_map(c)
        assert [int(v) for v in c.mget(stable)] == list(range(n)) and c.dbsize() == n


def transfer(rng, keys):
    """A step that moves an amount from one key to another; only this one writes to them."""
    balances = {k: 100 for k in keys}
    pending = {}

    def step(c):
        a, b = rng.sample(keys, 2)
        amount = rng.randrange(1, 10)
        pending.clear()
        pending.update({a: balances[a] - amount, b: balances[b] + amount})
        c.mset(pending)
        balances.update(pending)
    step.balances, step.pending = balances, pending
    return step


def test_one_request_sees_one_moment_whatever_moves(make_server):
    n, rng = 600, random.Random(6)
    server = make_server(workers=WORKERS)
    with server.client(single_connection_client=True) as c:
        c.mset({key(i): 100 for i in range(n)})
        set_mode(c, "users", "RANGE")
        split_evenly(c, n, 8)
        loads = [Load(server, transfer(random.Random(i), [key(k) for k in range(i, n, 2)])) for i in range(2)]
        loads.append(Load(server, stir(rng, n, WORKERS, modes=True), pause=0.002))
        deadline, read = time.monotonic() + 4, 0
        while time.monotonic() < deadline:
            try:
                cursor, pairs = get(c, "RANGE.GET", "users")
                assert cursor == "0" and len(pairs) == n and sum(map(int, pairs.values())) == 100 * n
                read += 1
            except redis.ResponseError as e:
                assert str(e).startswith(("TRYAGAIN", "the key space")), e  # by hash just then, or not yet in order
            values = c.mget([key(i) for i in range(n)])
            assert sum(map(int, values)) == 100 * n
        assert all(load.stop() for load in loads) and read > 5 and loads[2].step_fn.counts["done"] > 5
        wait_for_moves(c)
        assert c.dbsize() == n


def test_transactions_and_waiting_clients_follow_their_keys(make_server):
    server = make_server(workers=WORKERS)
    with server.client(single_connection_client=True) as c, server.client() as other:
        fill(c, 3000)
        set_mode(c, "users", "RANGE")
        here = ranges(c)[0]["shard"]

        def move():
            nonlocal here
            here = (here + 1) % WORKERS
            other.execute_command("RANGE.MOVE", "users", key(0), here)

        # A transaction that is queued while its keys go away.
        for i in range(8):
            with c.pipeline(transaction=True) as p:
                p.incr(key(1)).incr(key(2999)).get("plain").execute_command("RANGE.COUNT", "users")
                move()
                assert p.execute()[2:] == [None, 3000]
            wait_for_moves(other)
        assert (c.get(key(1)), c.get(key(2999))) == ("9", "3007")

        # A watched key that is carried away may end the transaction, never fail to notice a change.
        committed = 0
        for i in range(8):
            with c.pipeline() as p:
                p.watch(key(5))
                value = int(p.get(key(5)))
                move()
                if i % 2:
                    other.incrby(key(5), 1000)
                p.multi()
                p.set(key(5), value + 1)
                try:
                    p.execute()
                    committed += 1
                    assert i % 2 == 0
                except redis.WatchError:
                    pass
            wait_for_moves(other)

        # Who waits for a list is served wherever that is by then.
        for i in range(6):
            got = []
            waiter = threading.Thread(target=lambda: got.append(c.blpop(["users/list", "users/zlist"], timeout=20)))
            waiter.start()
            deadline = time.monotonic() + 10
            while other.info("clients")["blocked_clients"] == 0:
                assert time.monotonic() < deadline
            move()
            if i % 2:
                wait_for_moves(other)
            other.rpush("users/zlist", i)
            waiter.join(20)
            assert got == [("users/zlist", str(i))]
            wait_for_moves(other)


def test_databases_are_swapped_and_flushed_while_their_keys_move(make_server):
    n = 8000
    server = make_server(workers=WORKERS)
    with server.client(single_connection_client=True) as c:
        fill(c, n)
        c.select(1)
        c.mset({key(i): "one" for i in range(0, n, 4)})
        c.select(0)
        assert c.execute_command("SPACE.SET", "users", "RANGE")
        caught = 0
        for i in range(40):
            caught += is_moving(c)
            c.execute_command("SWAPDB", 0, 1)
            assert c.dbsize() == (n if i % 2 else n // 4)
            if not is_moving(c) and i < 30:
                c.execute_command("RANGE.MOVE", "users", key(0), (ranges(c)[0]["shard"] + 1) % WORKERS)
        wait_for_moves(c)
        assert caught > 3 and c.execute_command("RANGE.COUNT", "users") == n
        assert [int(v) for v in c.mget([key(i) for i in range(n)])] == list(range(n))
        c.execute_command("RANGE.MOVE", "users", key(0), (ranges(c)[0]["shard"] + 1) % WORKERS)
        c.flushall()
        wait_for_moves(c)
        assert c.dbsize() == 0 and c.execute_command("RANGE.GET", "users") == ["0", []]


def test_cold_values_are_read_in_order_and_move(make_server, tmp_path):
    server = make_server(data=tmp_path / "data", workers=WORKERS, args=["--maxmemory", "64mb", "--maxmemory-policy", "cold"])
    with server.client() as c:
        values = {f"{key(i)}": f"{i:05d}" * 100 for i in range(300)}
        for k, v in values.items():
            c.set(k, v)
        c.rpush("users/list", *(f"{i:0100}" for i in range(100)))
        set_mode(c, "users", "RANGE")
        for _ in range(3):
            chilled = c.execute_command("DEBUG", "CHILL", *values, "users/list")
            deadline = time.monotonic() + 20
            while c.info("cold")["cold_pending_bytes"]:
                assert time.monotonic() < deadline
            assert chilled > 200
            c.execute_command("RANGE.MOVE", "users", key(0), (ranges(c)[0]["shard"] + 1) % WORKERS)
            _, pairs = get(c, "RANGE.GET", "users", key(0), "users/l")
            assert pairs == values
            wait_for_moves(c)
            assert dict(zip(values, c.mget(list(values)))) == values and c.lindex("users/list", 99) == f"{99:0100}"
            c.execute_command("DEBUG", "CHILL", key(5))
            r = ranges(c)[0]
            assert c.execute_command("RANGE.EXEC", r["id"], r["generation"], "GET", key(5)) == values[key(5)]


# ---- restarts


def slow_move(c, workers):
    """Begins to move the first range to the next shard; gives where its boundary was seen on its way, or None."""
    first = ranges(c, "users")[0]
    c.execute_command("RANGE.MOVE", "users", key(0), (first["shard"] + 1) % workers)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        r = ranges(c, "users")[0]
        if "to-shard" not in r:
            return None
        if r["boundary"] != "-":
            return r["boundary"]
    return None


def test_commands_over_all_keys_see_each_of_them_once_while_keys_move(make_server):
    n = 20000
    server = make_server(workers=4)
    c, mover = server.client(), server.client()
    fill(c, n)
    set_mode(c, "users", "RANGE")
    sizes, counts, moves = set(), set(), 0
    deadline = time.monotonic() + 60
    while moves < 6:
        assert time.monotonic() < deadline
        moves += slow_move(mover, 4) is not None
        while "to-shard" in ranges(mover, "users")[0]:
            p = c.pipeline(transaction=False)
            for _ in range(50):
                p.dbsize()
            p.keys("users/*")
            *several, keys = p.execute()
            sizes |= set(several)
            counts.add((len(keys), len(set(keys))))
    assert sizes == {n} and counts == {(n, n)}


def test_another_number_of_workers_finds_everything_even_in_the_middle_of_a_move(make_server, tmp_path):
    n, half_done, before = 30000, 0, 2
    data = tmp_path / "data"
    server = make_server(data=data, workers=before, args=SAFE)
    c = server.client()
    fill(c, n)
    fill(c, 500, "bucket")
    c.mset({f"plain{i}": i for i in range(500)})
    set_mode(c, "users", "RANGE")
    set_mode(c, "bucket", "BUCKET")
    c.execute_command("RANGE.SPLIT", "users", key(n - 1000))
    c.execute_command("RANGE.SPLIT", "users", key(n - 500))
    c.execute_command("RANGE.MOVE", "users", key(n - 1), 1 - ranges(c, "users")[2]["shard"])
    wait_for_moves(c)
    tokens = [c.execute_command("RANGE.LOCK", "users", key(5), key(n - 700), "me", 10_000_000)[0]]
    seen = ranges(c, "users")
    for workers in (5, 3, 1, 4):
        if before > 1:
            half_done += slow_move(c, before) is not None
        before = workers
        server.kill()
        server = make_server(data=data, workers=workers, args=SAFE)
        c = server.client()
        assert c.dbsize() == n + 1000
        assert [int(v) for v in c.mget([key(i) for i in range(n)])] == list(range(n))
        wait_for_moves(c)
        check_map(c)
        assert [(r["id"], r["start"], r["end"]) for r in ranges(c, "users")] == [(r["id"], r["start"], r["end"]) for r in seen]
        assert all(r["shard"] < workers for r in ranges(c))
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", limit=10000) == [key(i) for i in range(n)]
        assert all_pages(c, "BUCKET.GET", "bucket", "KEYSONLY", limit=1000) == [key(i, "bucket") for i in range(500)]
        assert [int(v) for v in c.mget([f"plain{i}" for i in range(500)])] == list(range(500))
        assert c.dbsize() == n + 1000, "no key is twice"
        refusal, holder = c.execute_command("RANGE.LOCK", "users", key(n - 701), "+", "you", 1000)
        assert refusal is None and as_dict(holder)["owner"] == "me"
        tokens.append(c.execute_command("RANGE.LOCK", "users", key(n - 700), "+", "you", 1)[0])
        tokens.append(c.execute_command("RANGE.LOCK", "users", key(5), key(n - 700), "me", 10_000_000)[0])
        assert tokens == sorted(set(tokens)), "tokens rise"
    assert half_done >= 1, "no crash was in the middle of a move"


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_there_twice_after_crashes_during_moves_and_changes_of_mode(make_server, tmp_path, seed):
    n, rng = 3000, random.Random(seed)
    data = tmp_path / "data"
    accounts = [[key(i) for i in range(w, n, 2)] for w in range(2)]
    steps = [transfer(random.Random(seed * 10 + w), accounts[w]) for w in range(2)]
    server = make_server(data=data, workers=3, args=SAFE)
    c = server.client()
    c.mset({k: 100 for keys in accounts for k in keys})
    set_mode(c, "users", "RANGE")
    split_evenly(c, n, 6)
    changes = 0
    for life in range(5):
        stirring = stir(rng, n, 3, modes=True)
        loads = [Load(server, step) for step in steps] + [Load(server, stirring)]
        saver = c.bgsave() if life % 2 else None
        time.sleep(rng.uniform(0.05, 0.6))
        if life == 3:
            for load in loads:
                load.stop()
            for step in steps:
                step.pending.clear()
            assert server.stop() == 0
        else:
            server.kill()
        for load in loads:
            load.done.set()
            load.join(30)
            assert life == 3 or isinstance(load.error, (redis.ConnectionError, type(None))), load.error
        changes += stirring.counts["done"]
        assert saver is None or saver
        server = make_server(data=data, workers=3, args=SAFE)
        c = server.client()
        for step in steps:
            found = dict(zip(step.balances, map(int, c.mget(list(step.balances)))))
            assert sum(found.values()) == 100 * len(found)
            if found != step.balances:  # the call that had no answer may have happened, but then all of it
                step.balances.update(step.pending)
                assert found == step.balances
            step.pending.clear()
        assert c.dbsize() == n
        wait_for_moves(c)
        assert c.dbsize() == n
        if info(c, "users")["mode"] != "hash":
            check_map(c)
            assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", limit=500) == [key(i) for i in range(n)]
    assert changes > 10 and all(step.balances != {k: 100 for k in step.balances} for step in steps)


def test_a_dump_that_is_taken_while_keys_move_has_each_of_them_once(make_server, tmp_path):
    n, data = 20000, tmp_path / "data"
    server = make_server(data=data, workers=3, args=SAFE)
    c = server.client()
    fill(c, n)
    set_mode(c, "users", "RANGE")
    overlapped = 0
    for _ in range(4):
        boundary = slow_move(c, 3)
        c.bgsave()
        overlapped += boundary is not None
        deadline = time.monotonic() + 30
        while c.info("persistence")["rdb_bgsave_in_progress"]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        server.kill()
        server = make_server(data=data, workers=3, args=SAFE)
        c = server.client()
        assert "dump loaded" in server.log()
        assert c.dbsize() == n
        wait_for_moves(c)
        assert all_pages(c, "RANGE.GET", "users", "KEYSONLY", limit=10000) == [key(i) for i in range(n)]
    assert overlapped


# ---- locks


def lock(c, *args):
    token, holder = c.execute_command("RANGE.LOCK", *args)
    assert (token is None) != (holder is None)
    return token, holder and as_dict(holder)


def test_a_lock_keeps_others_out_until_it_ends(four):
    c = four
    set_mode(c, "jobs", "RANGE")
    first, _ = lock(c, "jobs", "jobs/a", "jobs/m", "alice", 60000)
    assert first > 0
    token, holder = lock(c, "jobs", "jobs/c", "jobs/d", "bob", 1000)
    assert token is None and holder["owner"] == "alice" and holder["token"] == first and holder["mode"] == "exclusive" and 0 < holder["ttl-ms"] <= 60000
    assert (holder["start"], holder["end"]) == ("jobs/a", "jobs/m")
    second, _ = lock(c, "jobs", "jobs/m", "+", "bob", 60000)  # unrelated
    assert lock(c, "jobs", "-", "jobs/a", "bob", 60000)[0]
    assert [as_dict(x)["owner"] for x in c.execute_command("RANGE.LOCKS", "jobs", "jobs/l")] == ["alice", "bob"]
    assert len(c.execute_command("RANGE.LOCKS", "jobs")) == 3 and c.execute_command("RANGE.LOCKS", "other") == []
    again, _ = lock(c, "jobs", "jobs/a", "jobs/m", "alice", 60000)
    assert again > first and len(c.execute_command("RANGE.LOCKS", "jobs")) == 3
    assert c.execute_command("RANGE.EXTEND", "jobs", "jobs/a", "jobs/m", "alice", 90000) == again
    assert c.execute_command("RANGE.EXTEND", "jobs", "jobs/a", "jobs/m", "bob", 90000) is None
    assert c.execute_command("RANGE.UNLOCK", "jobs", "jobs/a", "jobs/m", "bob") == 0
    assert c.execute_command("RANGE.UNLOCK", "jobs", "jobs/a", "jobs/m", "alice") == 1
    assert c.execute_command("RANGE.UNLOCK", "jobs", "jobs/a", "jobs/m", "alice") == 0
    third, _ = lock(c, "jobs", "jobs/c", "jobs/d", "bob", 20)
    assert third > again
    deadline = time.monotonic() + 10
    while (fourth := lock(c, "jobs", "jobs/c", "jobs/d", "carol", 60000)[0]) is None:
        assert time.monotonic() < deadline
    assert fourth > third and c.dbsize() == 0


def test_shared_locks_keep_only_exclusive_ones_out(four):
    c = four
    assert lock(c, "jobs", "-", "jobs/m", "a", 60000, "SHARED")[0]
    assert lock(c, "jobs", "jobs/b", "+", "b", 60000, "SHARED")[0]
    assert lock(c, "jobs", "jobs/c", "jobs/d", "c", 60000)[1]["mode"] == "shared"
    assert lock(c, "jobs", "-", "jobs/m", "a", 60000, "EXCLUSIVE")[1]["owner"] == "b"  # no way up past another
    assert c.execute_command("RANGE.UNLOCK", "jobs", "jobs/b", "+", "b") == 1
    assert lock(c, "jobs", "-", "jobs/m", "a", 60000, "EXCLUSIVE")[0]
    assert lock(c, "jobs", "jobs/b", "+", "b", 60000, "SHARED")[1]["mode"] == "exclusive"


def test_only_one_holds_a_part_while_it_moves_and_tokens_rise(make_server):
    n, rng = 2000, random.Random(8)
    server = make_server(workers=WORKERS)
    with server.client() as c:
        fill(c, n)
        set_mode(c, "users", "RANGE")
        split_evenly(c, n, 8)
        inside, granted, guard = {}, [], threading.Lock()
        parts = [(key(0), key(n)), (key(300), key(900)), (key(800), key(801)), (key(1500), "+")]

        def work(owner):
            mine = random.Random(owner)

            def step(w):
                start, end = mine.choice(parts)
                token, _ = lock(w, "users", start, end, f"o{owner}", 60000)
                if token is None:
                    return
                with guard:
                    overlapping = [o for o, (s, e, _) in inside.items() if s < (e2 := end if end != "+" else "~") and start < (e if e != "+" else "~") and e2]
                    assert overlapping == [], "two were inside at a time"
                    inside[owner] = (start, end, token)
                    last = max((t for s, e, t in granted if s < (end if end != "+" else "~") and start < (e if e != "+" else "~")), default=0)
                    assert token > last, "a later grant has a lower token"
                    granted.append((start, end, token))
                time.sleep(0.001)
                with guard:
                    del inside[owner]
                assert w.execute_command("RANGE.UNLOCK", "users", start, end, f"o{owner}") == 1
            return step

        loads = [Load(server, work(i)) for i in range(3)] + [Load(server, stir(rng, n, WORKERS, modes=True), pause=0.002)]
        time.sleep(3)
        assert all(load.stop() for load in loads)
        assert len(granted) > 50 and len({t for _, _, t in granted}) == len(granted)
        assert c.execute_command("RANGE.LOCKS", "users") == []


@pytest.mark.parametrize("clean", [False, True])
def test_locks_and_their_expiry_survive_a_restart(make_server, tmp_path, clean):
    data = tmp_path / "data"
    server = make_server(data=data, workers=3, args=SAFE)
    c = server.client()
    set_mode(c, "jobs", "RANGE")
    long, _ = lock(c, "jobs", "jobs/a", "jobs/m", "alice", 600000)
    short, _ = lock(c, "jobs", "jobs/m", "+", "alice", 1500)
    at = time.monotonic()
    assert server.stop() == 0 if clean else server.kill() is None
    server = make_server(data=data, workers=3, args=SAFE)
    c = server.client()
    held = {as_dict(x)["token"]: as_dict(x) for x in c.execute_command("RANGE.LOCKS", "jobs")}
    assert long in held and held[long]["ttl-ms"] < 600000
    assert lock(c, "jobs", "jobs/b", "jobs/c", "bob", 1000)[0] is None
    while (token := lock(c, "jobs", "jobs/x", "+", "bob", 60000)[0]) is None:
        assert time.monotonic() < at + 20
    assert time.monotonic() - at > 1.4 and token > short


# ---- fenced commands


def test_a_fenced_command_tells_what_is_so_now(four):
    c = four
    set_mode(c, "users", "RANGE")
    fill(c, 3000)
    r = ranges(c, "users")[0]
    run = lambda *call: c.execute_command("RANGE.EXEC", r["id"], r["generation"], *call)
    assert run("SET", key(1), "x") in ("OK", True) and run("GET", key(1)) == "x"
    assert run("MSET", key(1), "a", key(2), "b") in ("OK", True) and run("MGET", key(1), key(2)) == ["a", "b"]
    c.execute_command("RANGE.SPLIT", "users", key(1500))
    error = refused(c, "RANGE.EXEC", r["id"], r["generation"], "SET", key(1), "stale")
    assert error.startswith(f'MUSTRETRY stale-generation space="users" id={r["id"]} generation={r["generation"] + 1} ') and error.endswith(f'start=- end="{key(1500)}"')
    r = ranges(c, "users")[0]
    error = refused(c, "RANGE.EXEC", r["id"], r["generation"], "MGET", key(1), key(2000))
    assert error.startswith('MUSTRETRY key-elsewhere space="users" id=') and f'start="{key(1500)}" end=+' in error
    assert refused(c, "RANGE.EXEC", 999, 1, "GET", "plain") == 'MUSTRETRY no-such-range space="plain" mode=hash'
    assert c.get(key(1)) == "a"
    assert c.execute_command("COMMAND GETKEYS", "RANGE.EXEC", 1, 1, "MSET", "a", 1, "b", 2) == ["a", "b"]
    with c.pipeline(transaction=True) as p:
        p.execute_command("RANGE.EXEC", r["id"], r["generation"], "INCR", "users/00000n")
        p.execute_command("RANGE.EXEC", r["id"], 77, "INCR", "users/00000n")
        one, two = p.execute(raise_on_error=False)
    assert one == 1 and str(two).startswith("MUSTRETRY stale-generation")


def test_clients_that_route_for_themselves_lose_nothing_while_ranges_change(make_server):
    n, rng = 800, random.Random(9)
    server = make_server(workers=WORKERS)
    with server.client() as c:
        fill(c, n)
        set_mode(c, "users", "RANGE")
        counted, retried = {}, [0]

        def route(w, k):
            return next(r for r in ranges(w, "users") if (r["start"] == "-" or r["start"] <= k) and (r["end"] == "+" or k < r["end"]))

        def step(w):
            k = f"users/n{rng.randrange(20)}"
            r = route(w, k)
            try:
                w.execute_command("RANGE.EXEC", r["id"], r["generation"], "INCR", k)
                counted[k] = counted.get(k, 0) + 1
            except redis.ResponseError as e:
                assert str(e).startswith("MUSTRETRY "), e
                retried[0] += 1

        loads = [Load(server, step), Load(server, stir(rng, n, WORKERS))]
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (retried[0] < 3 or len(counted) < 20):
            time.sleep(0.01)
        assert all(load.stop() for load in loads)
        assert {k: int(c.get(k)) for k in counted} == counted and retried[0] >= 3
