"""Key spaces whose ranges lie in several groups: along their order everything is as in one group. What is shown was so at one moment, what is deleted is deleted as a whole, and a lock is held everywhere or nowhere."""
import random
import threading
import time

import pytest
import redis

from cluster import cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from conftest import PATIENCE

CUTS = ["r/250", "r/500", "r/750"]
PASSING = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.TryAgainError, redis.exceptions.ClusterDownError, redis.BusyLoadingError)  # some versions of the client have classes for codes, and take them off the text


def key(i):
    return f"r/{i:03d}"


def client(cluster, number=1, timeout=60):
    return redis.Redis(port=cluster.port(number), decode_responses=True, socket_timeout=timeout * PATIENCE)


def clients(cluster):
    return [client(cluster, n) for n in cluster.nodes]


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def ranges(c, space="r"):
    return [as_dict(r) for r in c.execute_command("RANGE.MAP", space)]


def passing(error):
    return isinstance(error, PASSING) or str(error).split(" ")[0] in ("TRYAGAIN", "CLUSTERDOWN", "UNCERTAIN", "LOADING")


def eventually(condition, seconds=60):
    """Until it is so; errors that pass are waited out."""
    last = None

    def tried():
        nonlocal last
        try:
            return condition()
        except redis.RedisError as e:
            assert passing(e), e
            last = e

    wait_for(tried, seconds, lambda: f"in vain: {last}")


def change(c, *words):
    """Asked for until it is done."""
    eventually(lambda: c.execute_command(*words) == "OK")


def at_rest(cluster, groups):
    """Every node has the ranges in these groups, in this order, and none moves."""
    def so(number):
        found = ranges(client(cluster, number))
        return [r["shard"] for r in found] == groups and not any("to-shard" in r for r in found)

    eventually(lambda: all(so(n) for n in cluster.nodes if cluster.running(n)))


def others(groups):
    """Groups that have no range yet. Not ascending: who takes them in the order of the line would meet those who take them in the order of their numbers."""
    return [g for g in (9, 4, 12, 6, 3, 16, 5) if g not in groups]


def cut(cluster, cuts=tuple(CUTS)):
    """The space r, from each cut on in another group. Gives the groups in the order of the line."""
    c = client(cluster)
    change(c, "SPACE.SET", "r", "RANGE")
    eventually(lambda: len(ranges(c)) == 1)
    home = ranges(c)[0]["shard"]
    groups = [home, *others([home])[:len(cuts)]]
    for at, group in zip(cuts, groups[1:]):
        change(c, "RANGE.SPLIT", "r", at)
        change(c, "RANGE.MOVE", "r", at, group)
    at_rest(cluster, groups)
    return groups


def fill(c, n=1000, value=lambda i: f"v{i}"):
    pipe = c.pipeline(transaction=False)
    for i in range(n):
        pipe.set(key(i), value(i))
    pipe.execute()


def pages(c, *args, limit):
    cursor, found = "0", []
    while True:
        cursor, page = c.execute_command("RANGE.GET", "r", *args, "LIMIT", limit, "CURSOR", cursor)
        assert len(page) <= 2 * limit and (cursor == "0" or len(page) == 2 * limit)
        found += page
        if cursor == "0":
            return found


class Crowd:
    """Threads that do something over and over, until told to stop; what one of them throws fails the test."""

    def __init__(self):
        self.stops = threading.Event()
        self.threads = []
        self.failed = []

    def add(self, once, *args):
        def run():
            while not self.stops.is_set() and not self.failed:
                try:
                    once(*args)
                except redis.RedisError as e:
                    if not passing(e):
                        self.failed.append(e)
                except Exception as e:
                    self.failed.append(e)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def until(self, condition, seconds=60):
        wait_for(lambda: self.failed or condition(), seconds, lambda: "in vain")
        assert not self.failed, repr(self.failed[0])

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        self.stops.set()
        for t in self.threads:
            t.join(60 * PATIENCE)
        if kind is None:
            assert not self.failed, repr(self.failed[0])


# ---- reading


def test_a_line_over_several_groups_is_one_line(cluster):
    groups = cut(cluster)
    assert len(set(groups)) == 4
    c = client(cluster)
    fill(c)
    c.rpush("r/100:list", "a", "b")
    c.hset("r/600:hash", mapping={"f": "v"})
    c.zadd("r/800:zset", {"m": 1.5})
    c.set("r/100/deeper", "another space")
    line = sorted([key(i) for i in range(1000)] + ["r/100:list", "r/600:hash", "r/800:zset"])
    for c in clients(cluster):
        cursor, found = c.execute_command("RANGE.GET", "r")
        assert cursor == "0" and found[::2] == line
        values = dict(zip(found[::2], found[1::2]))
        assert values[key(251)] == "v251" and values["r/100:list"] == ["a", "b"] and values["r/600:hash"] == ["f", "v"] and values["r/800:zset"] == ["m", "1.5"]
        assert c.execute_command("RANGE.GET", "r", "-", "+", "KEYSONLY", "REVERSE") == ["0", line[::-1]]
        assert c.execute_command("RANGE.COUNT", "r") == len(line)
        assert c.execute_command("RANGE.COUNT", "r", "r/240", "r/760") == len([k for k in line if "r/240" <= k < "r/760"])
        assert c.execute_command("RANGE.GET", "r", "r/249", "r/252", "KEYSONLY") == ["0", ["r/249", "r/250", "r/251"]]
        assert c.execute_command("RANGE.GET", "r", "r/249", "LIMIT", 1, "KEYSONLY") == [">r/250", ["r/249"]]
        assert c.execute_command("RANGE.GET", "r", "-", "r/251", "LIMIT", 1, "KEYSONLY", "REVERSE") == ["<r/250", ["r/250"]]
        for limit in (1000, 333, 97):
            assert pages(c, limit=limit)[::2] == line
            assert pages(c, "REVERSE", limit=limit)[::2] == line[::-1]
            assert pages(c, "r/123", "r/877", limit=limit)[::2] == [k for k in line if "r/123" <= k < "r/877"]
        assert c.execute_command("BUCKET.GET", "r", "KEYSONLY")[1] == line
    other = redis.Redis(port=cluster.port(2), db=3, decode_responses=True)
    assert other.execute_command("RANGE.COUNT", "r") == 0
    other.set(key(300), "x")
    other.set(key(800), "x")
    assert other.execute_command("RANGE.GET", "r", "KEYSONLY") == ["0", [key(300), key(800)]]


def test_a_pipeline_with_ranges_over_groups_keeps_its_order(cluster):
    cut(cluster)
    c = client(cluster, 2)
    pipe = c.pipeline(transaction=False)
    for i in range(20):
        pipe.set(key(i * 50), i)
        pipe.execute_command("RANGE.COUNT", "r")
        pipe.get(key(i * 50))
    pipe.execute_command("RANGE.DEL", "r")
    pipe.execute_command("RANGE.COUNT", "r")
    expected = [x for i in range(20) for x in (True, i + 1, str(i))] + [20, 0]
    assert pipe.execute() == expected


ACCOUNTS, MONEY = 40, 100


def accounts():
    return [key(i * (1000 // ACCOUNTS)) for i in range(ACCOUNTS)]


class Bank:
    """Money that is carried between accounts all over the line, and readers who add it up."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.moved, self.summed = 0, 0
        c = client(cluster)
        for a in accounts():
            c.set(a, MONEY)

    def move(self, c, random):
        a, b = random.sample(accounts(), 2)
        n = random.randrange(1, 5)
        pipe = c.pipeline(transaction=True)
        pipe.decrby(a, n)
        pipe.incrby(b, n)
        pipe.execute()
        self.moved += 1

    def add_up(self, c, random):
        how = [("LIMIT", ACCOUNTS + 3), (), ("REVERSE",), ("r/1", "+")][random.randrange(4)]
        cursor, found = c.execute_command("RANGE.GET", "r", *how)
        if "r/1" in how:  # a part: nobody knows its sum, but its keys are all there
            assert found[::2] == [a for a in accounts() if a >= "r/1"]
            return
        assert cursor == "0" and sorted(found[::2]) == accounts()
        assert sum(int(n) for n in found[1::2]) == ACCOUNTS * MONEY, found
        self.summed += 1

    def people(self, crowd, movers=4, readers=3):
        numbers = list(self.cluster.nodes)
        for i in range(movers):
            crowd.add(self.move, client(self.cluster, numbers[i % len(numbers)]), random.Random(i))
        for i in range(readers):
            crowd.add(self.add_up, client(self.cluster, numbers[i % len(numbers)]), random.Random(100 + i))


def test_sums_over_groups_are_right_while_money_goes_between_them(cluster):
    cut(cluster)
    bank = Bank(cluster)
    with Crowd() as crowd:
        bank.people(crowd)
        crowd.until(lambda: bank.moved > 500 and bank.summed > 100)


def test_sums_are_right_while_ranges_move_and_split(cluster):
    groups = cut(cluster)
    bank = Bank(cluster)
    c = client(cluster, 2)
    with Crowd() as crowd:
        bank.people(crowd)
        for group in (others(groups)[0], groups[0], others(groups)[1]):
            change(c, "RANGE.MOVE", "r", "r/300", group)
            eventually(lambda: ranges(c)[1]["shard"] == group and not any("to-shard" in r for r in ranges(c)))
            done = bank.summed, bank.moved
            crowd.until(lambda: bank.summed > done[0] + 10 and bank.moved > done[1] + 10)
        change(c, "RANGE.SPLIT", "r", "r/600")
        change(c, "RANGE.MOVE", "r", "r/600", groups[0])
        done = bank.summed, bank.moved
        crowd.until(lambda: bank.summed > done[0] + 10 and bank.moved > done[1] + 10)


def leader_of(cluster, group, through):
    found = next((g for g in cluster.status(through).get("group", []) if g["group"] == str(group)), {})
    return int(found["leader"]) if found.get("leader", "?").isdigit() else None


def test_sums_are_right_when_leaders_are_killed(cluster):
    groups = cut(cluster)
    bank = Bank(cluster)
    with Crowd() as crowd:
        bank.people(crowd)
        for group in groups[1:3]:
            crowd.until(lambda: bank.summed > 5)
            victim = leader_of(cluster, group, next(n for n in cluster.nodes if cluster.running(n)))
            assert victim
            cluster.kill(victim)
            done = bank.summed, bank.moved
            crowd.until(lambda: bank.summed > done[0] + 10 and bank.moved > done[1] + 10)
            cluster.start(victim)
            cluster.wait_ok()


def test_a_cursor_goes_on_over_moves_splits_and_merges(cluster):
    groups = cut(cluster)
    c = client(cluster)
    fill(c)
    there, away = others(groups)[:2]
    turns = [("RANGE.MOVE", "r", "r/500", there), ("RANGE.SPLIT", "r", "r/333"), ("RANGE.MOVE", "r", "r/333", away), ("RANGE.MOVE", "r", "r/250", away), ("RANGE.MERGE", "r", "r/333"), ("RANGE.MOVE", "r", "r/900", groups[0])]
    for reverse in (False, True):
        cursor, found, at = "0", [], 0
        while True:
            cursor, page = clients(cluster)[at % 3].execute_command("RANGE.GET", "r", "LIMIT", 150, "KEYSONLY", "CURSOR", cursor, *(["REVERSE"] if reverse else []))
            found += page
            if cursor == "0":
                break
            if not reverse:
                change(c, *turns[at])
                if turns[at][0] == "RANGE.MOVE" and at % 2:  # others are under way while the next page is read
                    eventually(lambda: not any("to-shard" in r for r in ranges(c)))
            at += 1
        expected = [key(i) for i in range(1000)]
        assert at == 6 and found == (expected[::-1] if reverse else expected)


# ---- deleting


def test_what_is_deleted_over_groups_is_gone_at_one_moment(cluster):
    cut(cluster)
    c = client(cluster)
    seen = set()

    def count(c):
        seen.add(c.execute_command("RANGE.COUNT", "r", "r/200", "r/800"))

    with Crowd() as crowd:
        for round in range(5):
            crowd.until(lambda: c.execute_command("RANGE.COUNT", "r") == 0)
            fill(c)
            seen.clear()
            if round == 0:
                for n in (2, 3):
                    crowd.add(count, client(cluster, n))
            crowd.until(lambda: 600 in seen)
            seen.clear()
            assert c.execute_command("RANGE.DEL", "r", "r/200", "r/800") == 600
            crowd.until(lambda: 0 in seen)
            assert seen <= {600, 0}, seen
            assert c.execute_command("RANGE.GET", "r", "KEYSONLY")[1] == [key(i) for i in range(1000) if not 200 <= i < 800]
            crowd.stops.set() if round == 4 else None
            assert c.execute_command("RANGE.DEL", "r") == 400
    assert client(cluster, 3).execute_command("RANGE.DEL", "r") == 0


def test_too_many_keys_to_delete_at_once_are_refused_and_stay(cluster):
    cut(cluster, ["r/5"])
    c = client(cluster)
    n = 66000
    for at in range(0, n, 6000):
        c.execute_command("MSET", *[w for i in range(at, at + 6000) for w in (f"r/1{i:06d}", "v")])
    c.set("r/6", "v")
    with pytest.raises(redis.ResponseError, match="65536 keys.*nothing was deleted"):
        c.execute_command("RANGE.DEL", "r")
    assert c.execute_command("RANGE.COUNT", "r") == n + 1
    assert c.execute_command("RANGE.DEL", "r", "r/1001000", "r/7") == n - 1000 + 1  # as many as can be
    assert c.execute_command("RANGE.COUNT", "r") == 1000


def cut_off(cluster, group):
    """Three nodes: the group's leader, which will not answer; one that will be lost; and one who looks on."""
    silent = leader_of(cluster, group, 1)
    assert silent
    lost, looking = [n for n in cluster.nodes if n != silent]
    return silent, lost, looking


def lose_coordinator(cluster, group, *words):
    """A command's coordinator is killed while it waits for a leader who does not answer. Gives the node who looked on."""
    silent, lost, looking = cut_off(cluster, group)

    def ask():
        try:
            client(cluster, lost).execute_command(*words)
        except redis.RedisError as e:
            assert passing(e)

    asking = threading.Thread(target=ask, daemon=True)
    under_way = lambda: int(cluster.info(lost)["cluster_transactions_under_way"])
    assert under_way() == 0
    cluster.pause(silent)
    try:
        asking.start()
        wait_for(lambda: under_way() == 1 or not asking.is_alive(), 60, lambda: "it has not begun")
        cluster.kill(lost)
    finally:
        cluster.resume(silent)
    asking.join(60 * PATIENCE)
    assert not asking.is_alive()
    return looking, lost


def test_a_deletion_whose_coordinator_is_lost_happens_as_a_whole_or_not_at_all(cluster):
    groups = cut(cluster)
    fill(client(cluster))
    looking, lost = lose_coordinator(cluster, groups[2], "RANGE.DEL", "r")
    c = client(cluster, looking)
    counts = []
    eventually(lambda: counts.append(c.execute_command("RANGE.COUNT", "r")) or True)
    assert counts[-1] in (0, 1000), counts
    for i in range(0, 1000, 100):
        eventually(lambda: c.set(key(i), "again"))  # nothing is left that keeps writers out
    cluster.start(lost)
    cluster.wait_ok()
    assert client(cluster, lost).execute_command("RANGE.COUNT", "r") == max(counts[-1], 10)


# ---- locks


def lock(c, start, end, owner, ttl=60000, *mode):
    return c.execute_command("RANGE.LOCK", "r", start, end, owner, ttl, *mode)


def test_a_lock_over_groups_is_held_everywhere_or_nowhere(cluster):
    cut(cluster)
    a, b, c = clients(cluster)
    token, holder = lock(a, "r/100", "r/600", "a")
    assert token > 0 and holder is None
    for part in (("r/100", "r/110"), ("r/260", "r/270"), ("r/550", "r/900"), ("-", "+")):
        refused, holder = lock(b, *part, "b")
        assert refused is None and as_dict(holder)["owner"] == "a" and as_dict(holder)["token"] == token
    for one in (a, b, c):
        shown = [as_dict(l) for l in one.execute_command("RANGE.LOCKS", "r")]
        assert [(l["owner"], l["token"], l["start"], l["end"], l["mode"]) for l in shown] == [("a", token, "r/100", "r/600", "exclusive")]
        assert 0 < shown[0]["ttl-ms"] <= 60000
    beside, _ = lock(b, "r/600", "+", "b")  # beside it, in two groups
    assert beside > 0
    renewed, _ = lock(c, "r/100", "r/600", "a")
    assert renewed > token
    assert c.execute_command("RANGE.EXTEND", "r", "r/100", "r/600", "a", 90000) == renewed
    assert c.execute_command("RANGE.EXTEND", "r", "r/100", "r/600", "b", 90000) is None
    assert any(as_dict(l)["ttl-ms"] > 60000 for l in a.execute_command("RANGE.LOCKS", "r"))
    assert b.execute_command("RANGE.UNLOCK", "r", "r/100", "r/600", "a") == 1
    assert b.execute_command("RANGE.UNLOCK", "r", "r/100", "r/600", "a") == 0
    within, _ = lock(b, "r/300", "r/310", "b")  # in one group of those
    assert within > renewed
    assert a.execute_command("RANGE.UNLOCK", "r", "r/600", "+", "b") == 1
    shared = [lock(x, "r/700", "+", f"s{i}", 60000, "SHARED")[0] for i, x in enumerate((a, b, c))]
    assert shared == sorted(shared) and shared[0] > beside and len(set(shared)) == 3
    assert lock(a, "-", "+", "x")[0] is None
    assert [as_dict(l)["owner"] for l in a.execute_command("RANGE.LOCKS", "r", "r/700")] == ["s0", "s1", "s2"]


def test_a_lock_over_groups_ends_by_its_time(cluster):
    cut(cluster)
    a, b, _ = clients(cluster)
    first, _ = lock(a, "-", "+", "a", 300)
    assert first
    granted = []
    eventually(lambda: granted.append(lock(b, "r/400", "r/600", "b")[0]) or granted[-1] is not None)
    assert granted[-1] > first
    assert a.execute_command("RANGE.EXTEND", "r", "-", "+", "a", 1000) is None


class Ward:
    """Lockers of parts that overlap, from all sides: no two are inside at a time, and each has a higher token than those before."""

    def __init__(self):
        self.guard = threading.Lock()
        self.inside = {}
        self.highest = [0] * 10
        self.granted = [0] * 4

    def visit(self, c, who, random):
        first = random.randrange(0, 9)
        last = random.randrange(first + 1, 11)
        start, end = (f"r/{first}" if first else "-"), (f"r/{last}" if last < 10 else "+")
        token, _ = lock(c, start, end, f"w{who}", 600000)
        if token is None:
            return
        with self.guard:
            for other, (f, l) in self.inside.items():
                assert l <= first or last <= f, f"{other} and {who} are inside"
            for i in range(first, last):
                assert token > self.highest[i]
                self.highest[i] = token
            self.inside[who] = (first, last)
        time.sleep(0.001)
        with self.guard:
            del self.inside[who]
            self.granted[who] += 1
        while True:
            try:
                assert c.execute_command("RANGE.UNLOCK", "r", start, end, f"w{who}") in (0, 1)
                return
            except redis.RedisError as e:
                assert passing(e)


def test_lockers_from_all_sides_keep_out_each_other_and_get_their_turns(cluster):
    cut(cluster)
    ward = Ward()
    with Crowd() as crowd:
        for i in range(4):
            crowd.add(ward.visit, client(cluster, i % 3 + 1), i, random.Random(i))
        crowd.until(lambda: min(ward.granted) >= 15)


def test_a_lock_over_groups_survives_their_leaders(cluster):
    groups = cut(cluster)
    token, _ = lock(client(cluster), "r/100", "r/900", "a", 600000)
    victim = leader_of(cluster, groups[1], 1)
    cluster.kill(victim)
    c = client(cluster, cluster.others(victim)[0])
    eventually(lambda: lock(c, "r/200", "r/300", "b")[0] is None)
    eventually(lambda: c.execute_command("RANGE.EXTEND", "r", "r/100", "r/900", "a", 600000) == token)
    cluster.start(victim)
    cluster.wait_ok()
    eventually(lambda: c.execute_command("RANGE.UNLOCK", "r", "r/100", "r/900", "a") == 1)
    assert lock(c, "-", "+", "b")[0] > token


def test_a_lock_goes_along_when_its_keys_do(cluster):
    there = others(cut(cluster))[0]
    a, b, _ = clients(cluster)
    token, _ = lock(a, "r/100", "r/600", "a", 600000)
    change(a, "RANGE.MOVE", "r", "r/300", there)
    eventually(lambda: ranges(a)[1]["shard"] == there and not any("to-shard" in r for r in ranges(a)))
    refused, holder = lock(b, "r/300", "r/310", "b")
    assert refused is None and as_dict(holder)["token"] == token
    assert len(b.execute_command("RANGE.LOCKS", "r")) == 1
    assert b.execute_command("RANGE.UNLOCK", "r", "r/100", "r/600", "a") == 1
    assert lock(b, "r/300", "r/310", "b")[0] > token


def test_a_lock_whose_coordinator_is_lost_is_whole_or_not_there_and_ends_by_its_time(cluster):
    groups = cut(cluster)
    looking, lost = lose_coordinator(cluster, groups[2], "RANGE.LOCK", "r", "r/100", "r/900", "lost", 5000)
    c = client(cluster, looking)
    shown = []
    eventually(lambda: shown.append([as_dict(l)["owner"] for l in c.execute_command("RANGE.LOCKS", "r")]) or True)
    assert shown[-1] in ([], ["lost"])
    for i, part in enumerate([("r/100", "r/110"), ("r/300", "r/310"), ("r/600", "r/610"), ("r/800", "r/810")]):  # each in another group
        eventually(lambda: lock(c, *part, f"b{i}")[0])
    assert [as_dict(l)["owner"] for l in c.execute_command("RANGE.LOCKS", "r")] == ["b0", "b1", "b2", "b3"]


# ---- spaces without an order


def difference(found, line):
    """Where a walk went wrong, in short."""
    if isinstance(found, int):
        return found
    missing = [k for k in line if k not in set(found)]
    return f"{len(found)} keys, {len(set(found))} different; missing {missing[:3]}...{missing[-3:]} ({len(missing)}); in order: {sorted(found) in (found, found[::-1])}"


def test_a_line_stays_whole_while_its_space_changes_to_hashes_and_back(cluster):
    cut(cluster)
    c = client(cluster)
    n = 20000
    line = [f"r/{i:05d}" for i in range(n)]
    for at in range(0, n, 5000):
        c.mset({k: "v" for k in line[at:at + 5000]})
    seen = {"whole": 0, "moving": 0, "none": 0}

    def moves(c):
        return "to-mode" in as_dict(c.execute_command("SPACE.INFO", "r"))

    def look(c, how):
        before = moves(c)
        try:
            found = pages(c, *how, limit=7000)[::2] if how else c.execute_command("RANGE.COUNT", "r")
        except redis.ResponseError as e:
            if "has no order" not in str(e):
                raise
            seen["none"] += 1
            return
        assert found == n if not how else found == (line[::-1] if "REVERSE" in how else line), difference(found, line)
        seen["whole"] += 1
        seen["moving"] += before and moves(c)

    with Crowd() as crowd:
        crowd.add(look, client(cluster, 1), ())
        crowd.add(look, client(cluster, 2), ("-", "+"))
        crowd.add(look, client(cluster, 3), ("REVERSE",))

        def turn(mode, what):
            change(c, "SPACE.SET", "r", mode)
            eventually(lambda: all(as_dict(x.execute_command("SPACE.INFO", "r"))["mode"] == mode.lower() and not moves(x) for x in clients(cluster)))
            before = seen[what]
            crowd.until(lambda: seen[what] > before + 5)

        def there_and_back():
            turn("HASH", "none")
            turn("RANGE", "whole")
            return seen["moving"] >= 3

        wait_for(there_and_back, 120, lambda: f"nobody looks while keys are carried: {seen}")
    assert c.execute_command("RANGE.GET", "r", "KEYSONLY") == ["0", line]


def test_ranges_of_a_space_without_order_are_refused_and_its_locks_work(cluster):
    a, b, _ = clients(cluster)
    change(a, "SPACE.SET", "h", "HASH")
    eventually(lambda: all(as_dict(c.execute_command("SPACE.INFO", "h"))["mode"] == "hash" for c in clients(cluster)))
    for words in (("RANGE.GET", "h"), ("RANGE.COUNT", "h"), ("RANGE.DEL", "h"), ("BUCKET.GET", "h")):
        with pytest.raises(redis.ResponseError, match='the key space "h" has no order'):
            a.execute_command(*words)
    token, _ = a.execute_command("RANGE.LOCK", "h", "h/a", "h/m", "a", 60000)
    assert b.execute_command("RANGE.LOCK", "h", "h/b", "h/z", "b", 60000)[0] is None
    assert b.execute_command("RANGE.LOCK", "h", "h/m", "h/z", "b", 60000)[0] > token
    with pytest.raises(redis.ResponseError, match="invalid expire time"):
        a.execute_command("RANGE.LOCK", "h", "h/a", "h/m", "a", 0)
    with pytest.raises(redis.ResponseError, match="syntax"):
        a.execute_command("RANGE.LOCK", "h", "h/a", "h/m", "a", 5, "NEITHER")
