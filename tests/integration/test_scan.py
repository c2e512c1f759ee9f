"""SCAN and its kin give whatever is there from the first call to the last: while keys are carried from shard to shard, over crashes, with other numbers of workers, and while tables are emptied and filled again."""
import random

import pytest
import redis

from test_spaces import fill, key, ranges, set_mode, split_evenly, wait_for_moves

SAFE = ["--appendfsync", "always"]
MOST_CALLS = 100_000


class Scan:
    """A scan that is gone on with call by call; `scan` is what makes a call: cursor in, cursor and items out."""

    def __init__(self, scan):
        self.scan, self.cursor, self.seen, self.calls = scan, 0, [], 0

    def step(self):
        cursor, items = self.scan(self.cursor)
        self.cursor = int(cursor)
        assert 0 <= self.cursor < 2**63
        self.seen += items
        self.calls += 1
        assert self.calls < MOST_CALLS, "the scan does not end"
        return self.cursor != 0

    def finish(self):
        while self.step():
            pass
        return set(self.seen)


def scan_of(c, count, **options):
    return Scan(lambda cursor: c.scan(cursor, count=count, **options))


def shard_of(c, k):
    return c.execute_command("STATS.SHARD", k)


# ---- keys that are carried


def test_a_range_that_goes_to_a_shard_already_scanned_is_not_missed(make_server):
    server = make_server(workers=4)
    with server.client() as c:
        plain = {f"plain{i}" for i in range(400)}
        c.mset({k: 1 for k in plain})
        fill(c, 400)
        set_mode(c, "users", "RANGE")
        if ranges(c, "users")[0]["shard"] != 3:
            c.execute_command("RANGE.MOVE", "users", key(0), 3)
            wait_for_moves(c)
        scan = scan_of(c, 5)
        while scan.step() and shard_of(c, scan.seen[-1]) < 1:
            pass
        assert not any(k.startswith("users/") for k in scan.seen), "the range's turn was not to come yet"
        c.execute_command("RANGE.MOVE", "users", key(0), 0)
        wait_for_moves(c)
        assert scan.finish() == plain | {key(i) for i in range(400)}
        assert len(scan.seen) < 2 * 800 and len(scan.seen) > 800, "one further pass"
        undisturbed = scan_of(c, 7)
        undisturbed.finish()
        assert len(undisturbed.seen) == 800, "nothing moves any more"


def test_a_scan_by_type_or_pattern_misses_nothing_either(make_server):
    server = make_server(workers=3)
    with server.client() as c:
        fill(c, 900)
        for i in range(0, 900, 3):
            c.delete(key(i))
            c.rpush(key(i), "x")
        set_mode(c, "users", "RANGE")
        split_evenly(c, 900, 9)
        lists, twos = scan_of(c, 20, _type="list"), scan_of(c, 20, match="users/*2")
        for i in range(18):
            lists.step()
            twos.step()
            c.execute_command("RANGE.MOVE", "users", key(i * 50), (ranges(c, "users")[i // 2]["shard"] + 1) % 3)
            wait_for_moves(c)
        assert lists.cursor and twos.cursor, "they are still under way"
        assert lists.finish() == {key(i) for i in range(0, 900, 3)}
        assert twos.finish() == {key(i) for i in range(900) if i % 10 == 2}


def test_a_space_that_changes_its_mode_in_the_middle_of_a_scan_is_not_missed(make_server):
    server = make_server(workers=4)
    with server.client() as c:
        fill(c, 2000)
        scan = scan_of(c, 50)
        for mode in ("RANGE", "HASH", "BUCKET", "HASH"):
            for _ in range(7):
                assert scan.step()
            set_mode(c, "users", mode)
        assert scan.finish() == {key(i) for i in range(2000)}


# ---- servers that start anew


@pytest.mark.parametrize("workers", [3, 1, 2, 6])
def test_a_scan_goes_on_after_a_crash_with_any_number_of_workers(make_server, tmp_path, workers):
    data, n = tmp_path / "data", 3000
    server = make_server(data=data, workers=3, args=SAFE)
    with server.client() as c:
        fill(c, n)
        scans = [scan_of(c, 100) for _ in range(12)]
        for i, scan in enumerate(scans):
            for _ in range(2 * i + 1):
                assert scan.step()
    server.kill()
    server = make_server(data=data, workers=workers, args=SAFE)
    with server.client() as c:
        for scan in scans:
            scan.scan = lambda cursor: c.scan(cursor, count=100)
            assert scan.finish() == {key(i) for i in range(n)}


@pytest.mark.parametrize("kind", ["hash", "set", "zset"])
def test_a_scan_of_members_goes_on_after_a_crash(make_server, tmp_path, kind):
    data, n = tmp_path / "data", 2000
    put = {"hash": lambda c, m: c.hset("k", m, "v"), "set": lambda c, m: c.sadd("k", m), "zset": lambda c, m: c.zadd("k", {m: 1})}[kind]
    command = {"hash": "HSCAN", "set": "SSCAN", "zset": "ZSCAN"}[kind]

    def members(c, cursor):
        cursor, items = c.execute_command(command, "k", cursor, "COUNT", 50)
        if isinstance(items, dict):
            items = list(items)
        elif items and isinstance(items[0], (tuple, list)):
            items = [m for m, _ in items]
        return cursor, items

    server = make_server(data=data, workers=2, args=SAFE)
    with server.client() as c:
        with c.pipeline(transaction=False) as p:
            for i in range(n):
                put(p, f"m{i}")
            p.execute()
        scans = [Scan(lambda cursor: members(c, cursor)) for _ in range(8)]
        for i, scan in enumerate(scans):
            for _ in range(3 * i + 1):
                assert scan.step()
    server.kill()
    server = make_server(data=data, workers=2, args=SAFE)
    with server.client() as c:
        for scan in scans:
            scan.scan = lambda cursor: members(c, cursor)
            assert scan.finish() == {f"m{i}" for i in range(n)}
        whole = Scan(lambda cursor: members(c, cursor))
        whole.finish()
        assert len(whole.seen) == n and whole.calls > 10


# ---- tables that come and go


def test_a_database_that_is_swapped_in_has_its_keys_scanned(make_server):
    server = make_server(workers=2)
    with server.client() as c, server.client(db=1) as other:
        fill(c, 1000)
        fill(other, 1000)
        scan = scan_of(c, 30)
        for _ in range(9):
            assert scan.step()
            c.swapdb(0, 1)
        assert scan.finish() == {key(i) for i in range(1000)}


def test_tables_that_are_emptied_and_filled_again_hold_a_scan_up_no_longer_than_that(make_server):
    server = make_server(workers=3)
    with server.client() as c:
        scan = scan_of(c, 10)
        for round in range(60):
            c.delete(*(key(i) for i in range(100))) if round % 2 else c.flushall()
            fill(c, 100)
            if not scan.step():
                break
        calls = scan.calls
        if scan.cursor:
            scan.finish()
        assert scan.calls - calls <= 20


def test_cursors_that_no_server_gave_do_no_harm(make_server):
    server = make_server(workers=3)
    rng = random.Random(1)
    with server.client() as c:
        fill(c, 500)
        c.hset("h", mapping={f"f{i}": "v" for i in range(1000)})
        for cursor in [1, 2**22, 2**31, 2**32 - 1, 2**45, 2**63 - 1, 2**63, 2**64 - 1] + [rng.getrandbits(rng.randrange(1, 65)) for _ in range(200)]:
            scan, members = scan_of(c, 100), Scan(lambda at: c.execute_command("HSCAN", "h", at, "NOVALUES"))
            scan.cursor = members.cursor = cursor
            scan.finish()
            members.finish()
            assert scan.calls < 30 and members.calls < 300
        for text in ("x", "-1", "", str(2**64), "1.5"):
            for command in (("SCAN", text), ("HSCAN", "h", text)):
                with pytest.raises(redis.ResponseError, match="invalid cursor"):
                    c.execute_command(*command)


# ---- all of it


def try_to_move(c, rng, n, workers):
    try:
        c.execute_command("RANGE.MOVE", "users", key(rng.randrange(n)), rng.randrange(workers))
    except redis.ResponseError as e:
        assert "TRYAGAIN" in str(e) or "already" in str(e)
        return 0
    return 1


@pytest.mark.parametrize("seed", range(3))
def test_whatever_stays_is_given_however_keys_move_and_servers_end(make_server, tmp_path, seed):
    rng, n, data, workers, moves = random.Random(seed), 1500, tmp_path / "data", 4, 0
    server = make_server(data=data, workers=workers, args=SAFE)
    c = server.client()
    fill(c, n)
    c.mset({f"plain{i}": i for i in range(300)})
    stays = {key(i) for i in range(0, n, 2)} | {f"plain{i}" for i in range(300)}
    set_mode(c, "users", "RANGE")
    split_evenly(c, n, 6)
    for _ in range(4):
        scan = Scan(lambda cursor: c.scan(cursor, count=10))
        crash_at = rng.randrange(40)
        for i in range(40):
            assert scan.step()
            if i == crash_at:
                server.kill()
                workers = rng.choice([workers, rng.randrange(1, 6)])
                server = make_server(data=data, workers=workers, args=SAFE)
                c = server.client()
            elif rng.random() < 0.7:
                moves += try_to_move(c, rng, n, workers)
            else:
                wait_for_moves(c)
            k = key(rng.randrange(n // 2) * 2 + 1)
            c.set(k, 1) if rng.random() < 0.5 else c.delete(k)
        assert stays <= scan.finish()
    assert moves > 10
