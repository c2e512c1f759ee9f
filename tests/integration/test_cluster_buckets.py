"""Key spaces of a cluster that nobody has set: each is a bucket, and BUCKET.GET and its kin work on it as on one that was set, without anything being kept for it."""
import random
import time

import pytest
import redis

from cluster import cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from test_cluster_hashsplit import covers, split, wait_split
from test_cluster_ranges import Crowd, as_dict, change, client, clients, eventually, ranges

CART = "cart/17"


def key(i, space=CART):
    return f"{space}/{i:05d}"


def fill(c, n, space=CART):
    for at in range(0, n, 2000):
        c.mset({key(i, space): f"v{i}" for i in range(at, min(n, at + 2000))})


def pages(c, *args, limit, command="BUCKET.GET"):
    """All pages; each may come from another node."""
    nodes = c if isinstance(c, list) else [c]
    cursor, found, at = "0", [], 0
    while True:
        cursor, page = nodes[at % len(nodes)].execute_command(command, CART, *args, "KEYSONLY", "LIMIT", limit, "CURSOR", cursor)
        assert len(page) <= limit and (cursor == "0" or len(page) == limit)
        found += page
        at += 1
        if cursor == "0":
            return found


def is_unset(c, space=CART):
    return as_dict(c.execute_command("SPACE.INFO", space))["state"] == "not set" and not any(as_dict(s)["space"] == space for s in c.execute_command("SPACE.LIST"))


# ---- reading


def test_a_bucket_is_whole_and_in_order_on_every_node(cluster):
    a = client(cluster)
    fill(a, 300)
    a.rpush(f"{CART}/list", "a", "b")
    a.hset(f"{CART}/hash", mapping={"f": "v"})
    a.zadd(f"{CART}/zset", {"m": 1.5})
    a.mset({f"{CART}/00007/deeper": "another space"})
    a.set(CART, "of space cart")
    a.set("cart/170", "another")
    line = sorted([key(i) for i in range(300)] + [f"{CART}/{kind}" for kind in ("list", "hash", "zset")])
    for c in clients(cluster):
        cursor, found = c.execute_command("BUCKET.GET", f"{CART}/")
        assert cursor == "0" and found[::2] == line
        values = dict(zip(found[::2], found[1::2]))
        assert values[key(17)] == "v17" and values[f"{CART}/list"] == ["a", "b"] and values[f"{CART}/hash"] == ["f", "v"] and values[f"{CART}/zset"] == ["m", "1.5"]
        assert c.execute_command("RANGE.GET", CART) == [cursor, found]
        assert c.execute_command("BUCKET.GET", CART, "KEYSONLY", "REVERSE") == ["0", line[::-1]]
        assert c.execute_command("RANGE.COUNT", CART) == len(line)
        assert c.execute_command("RANGE.COUNT", CART, key(100), key(110)) == 10
        assert c.execute_command("RANGE.GET", CART, key(5), key(7)) == ["0", [key(5), "v5", key(6), "v6"]]
        for limit in (1000, 100, 17):
            assert pages(c, limit=limit) == line and pages(c, "REVERSE", limit=limit) == line[::-1]
        assert pages(clients(cluster), key(50), key(250), limit=9, command="RANGE.GET") == [key(i) for i in range(50, 250)]
        assert c.execute_command("BUCKET.GET", "cart/18") == ["0", []]
        assert c.execute_command("BUCKET.GET", "cart", "KEYSONLY") == ["0", [CART, "cart/170"]]
        assert is_unset(c)
    other = redis.Redis(port=cluster.port(2), db=3, decode_responses=True)
    assert other.execute_command("BUCKET.GET", CART) == ["0", []]
    other.set(key(1), "x")
    assert other.execute_command("BUCKET.GET", CART) == ["0", [key(1), "x"]]
    assert other.execute_command("RANGE.DEL", CART) == 1


def test_a_key_without_a_slash_is_the_bucket_of_its_name(cluster):
    a, b, c = clients(cluster)
    a.set("alone", "1")
    assert b.execute_command("BUCKET.GET", "alone") == ["0", ["alone", "1"]]
    a.set("alone/too", "2")
    assert c.execute_command("BUCKET.GET", "alone") == ["0", ["alone", "1", "alone/too", "2"]]
    assert c.execute_command("RANGE.COUNT", "alone", "alone/") == 1


def test_a_part_of_it_is_deleted_from_any_node(cluster):
    a, b, c = clients(cluster)
    fill(a, 500)
    fill(a, 10, "cart/18")
    assert b.execute_command("RANGE.DEL", CART, key(100), key(400)) == 300
    assert c.execute_command("BUCKET.GET", CART, "KEYSONLY")[1] == [key(i) for i in [*range(100), *range(400, 500)]]
    assert c.execute_command("RANGE.DEL", CART) == 200
    assert a.execute_command("RANGE.DEL", CART) == 0 and a.execute_command("RANGE.COUNT", "cart/18") == 10


def test_what_has_expired_is_not_there(cluster):
    a, b, c = clients(cluster)
    fill(a, 100)
    pipe = a.pipeline(transaction=False)
    for i in range(0, 100, 2):
        pipe.pexpire(key(i), 300)
    pipe.execute()
    time.sleep(0.5)
    for node in (b, c, a):
        assert node.execute_command("RANGE.COUNT", CART) == 50
        assert node.execute_command("BUCKET.GET", CART, "KEYSONLY")[1] == [key(i) for i in range(1, 100, 2)]
    assert c.execute_command("RANGE.DEL", CART) == 50


def test_stale_reads_are_answered_by_any_replica(cluster):
    fill(client(cluster), 200)
    for number in cluster.nodes:
        c = redis.Redis(port=cluster.port(number), decode_responses=True, single_connection_client=True)
        assert c.execute_command("CLIENT", "CONSISTENCY", "STALE") == "OK"
        eventually(lambda: c.execute_command("BUCKET.GET", CART, "KEYSONLY")[1] == [key(i) for i in range(200)])
        assert c.execute_command("RANGE.COUNT", CART, key(190)) == 10
        c.close()


def test_inside_multi_it_is_as_with_one_that_was_set(cluster):
    c = client(cluster)
    fill(c, 3)
    change(c, "SPACE.SET", "other", "BUCKET")

    def refused(*words):
        c = redis.Redis(port=cluster.port(1), decode_responses=True, single_connection_client=True)
        c.execute_command("MULTI")
        with pytest.raises(redis.ResponseError) as e:
            c.execute_command(*words)
        c.close()
        return str(e.value)

    for name in ("BUCKET.GET", "RANGE.GET", "RANGE.COUNT", "RANGE.DEL"):
        assert refused(name, CART) == refused(name, "other")
    assert c.execute_command("RANGE.COUNT", CART) == 3


# ---- at one moment


def test_it_is_read_at_one_moment_while_transactions_write_it(cluster):
    """Money goes between accounts of the bucket, by transactions of its group alone and by some that write in another group, too. Whoever adds it up finds all of it."""
    n, money = 30, 100
    accounts = [key(i) for i in range(n)]
    client(cluster).mset({a: money for a in accounts})
    done = {"alone": 0, "wide": 0, "summed": 0}
    others = [f"elsewhere{i}" for i in range(8)]

    def move(c, chance, wide):
        a, b = chance.sample(accounts, 2)
        pipe = c.pipeline(transaction=True)
        pipe.decrby(a, 3)
        pipe.incrby(b, 3)
        if wide:
            pipe.incr(chance.choice(others))
        pipe.execute()
        done["wide" if wide else "alone"] += 1

    def add_up(c, *how):
        cursor, found = c.execute_command("BUCKET.GET", CART, *how)
        assert cursor == "0" and sorted(found[::2]) == accounts
        assert sum(map(int, found[1::2])) == n * money, found
        done["summed"] += 1

    with Crowd() as crowd:
        for i, wide in enumerate((False, True, True)):
            crowd.add(move, client(cluster, i + 1), random.Random(i), wide)
        for i, how in enumerate(((), ("REVERSE",), ("LIMIT", n))):
            crowd.add(add_up, client(cluster, i + 1), *how)
        crowd.until(lambda: done["alone"] > 100 and done["wide"] > 50 and done["summed"] > 100)
    assert is_unset(client(cluster))


def test_pages_show_what_is_there_all_the_time_once(cluster):
    c = client(cluster)
    n = 600
    fill(c, n)
    steady = [key(i) for i in range(0, n, 2)]
    seen = {"walks": 0, "written": 0}

    def write(c, chance):
        k = key(chance.randrange(0, n, 2) + 1)
        if not c.delete(k):
            c.set(k, "again")
        c.set(f"{key(chance.randrange(n))}+", "new", px=5)
        seen["written"] += 1

    def walk(nodes, *how):
        found = pages(nodes, *how, limit=37)
        assert found == sorted(set(found), reverse="REVERSE" in how)
        assert [k for k in sorted(found) if k in set(steady)] == steady
        seen["walks"] += 1

    with Crowd() as crowd:
        for i in cluster.nodes:
            crowd.add(write, client(cluster, i), random.Random(i))
        crowd.add(walk, clients(cluster))
        crowd.add(walk, clients(cluster), "REVERSE")
        crowd.until(lambda: seen["walks"] > 20 and seen["written"] > 200)


# ---- while it changes


class Readers:
    """Who reads the bucket over and over, whole and by pages, from every node: what a test does to it meanwhile they do not notice."""

    def __init__(self, cluster, n):
        self.line, self.reads, self.astride = [key(i) for i in range(n)], 0, 0
        self.cluster = cluster

    def read(self, c, *how):
        before = "to-shard" in ranges(c, CART)[0]
        assert c.execute_command("BUCKET.GET", CART, "KEYSONLY", *how)[1] == (self.line[::-1] if how else self.line)
        assert pages(c, *how, limit=len(self.line) // 3) == (self.line[::-1] if how else self.line)
        assert c.execute_command("RANGE.COUNT", CART) == len(self.line)
        self.reads += 1
        self.astride += before and "to-shard" in ranges(c, CART)[0]

    def go(self, crowd):
        for number, how in ((1, ()), (2, ("REVERSE",)), (3, ())):
            crowd.add(self.read, client(self.cluster, number), *how)

    def read_some(self, crowd):
        before = self.reads
        crowd.until(lambda: self.reads > before + 5)


def test_readers_do_not_notice_that_it_is_set(cluster):
    c = client(cluster)
    n = 3000
    fill(c, n)
    readers = Readers(cluster, n)
    with Crowd() as crowd:
        readers.go(crowd)
        readers.read_some(crowd)
        assert is_unset(c)
        for mode in ("BUCKET", "RANGE", "BUCKET"):
            change(c, "SPACE.SET", CART, mode)
            readers.read_some(crowd)
            eventually(lambda: all(as_dict(x.execute_command("SPACE.INFO", CART)).get("state") == "ready" for x in clients(cluster)))


def test_a_bucket_is_whole_while_its_group_is_split(make_cluster):
    cluster = make_cluster(args=["--cluster-shards", "2"])
    c = client(cluster)
    n = 6000
    fill(c, n)
    for i in range(10):
        fill(c, 500, f"{CART[:-1]}{i}{i}")
    token, _ = c.execute_command("RANGE.LOCK", CART, key(0), key(100), "me", 600000)
    readers = Readers(cluster, n)

    def split_off():
        """Nearly all of its group, and so the bucket, too."""
        group = ranges(c, CART)[0]["shard"]
        first = covers(cluster, 1, group).removeprefix("hash ").split("-")[0]
        new = split(cluster, group, f"{int(first, 16) + 1:x}")
        wait_split(cluster, new)
        readers.read_some(crowd)
        assert {ranges(x, CART)[0]["shard"] for x in clients(cluster)} == {new}
        return readers.astride >= 3

    with Crowd() as crowd:
        readers.go(crowd)
        readers.read_some(crowd)
        wait_for(split_off, 120, lambda: f"nobody reads while it is in two groups: {readers.reads}")
        assert is_unset(c)
    for x in clients(cluster):
        assert x.execute_command("RANGE.LOCK", CART, key(50), key(60), "you", 5000)[0] is None
    assert c.execute_command("RANGE.LOCK", CART, key(100), key(200), "you", 5000)[0] > token


def test_it_is_whole_when_its_leader_is_lost(cluster):
    c = client(cluster)
    fill(c, 500)
    eventually(lambda: ranges(c, CART)[0]["leader"])
    lost = ranges(c, CART)[0]["leader"]
    cluster.kill(lost)
    for number in cluster.others(lost):
        eventually(lambda: client(cluster, number).execute_command("BUCKET.GET", CART, "KEYSONLY") == ["0", [key(i) for i in range(500)]])


# ---- looking, and locks


def test_it_is_told_where_it_is_and_fenced_by_that(cluster):
    nodes = clients(cluster)
    fill(nodes[0], 3)
    for c in nodes:
        assert as_dict(c.execute_command("SPACE.INFO", CART)) == {"space": CART, "mode": "bucket", "generation": 0, "state": "not set"}
        (line,) = ranges(c, CART)
        assert (line["space"], line["start"], line["end"], line["replicas"]) == (CART, "-", "+", [1, 2, 3])
        assert (line["keys"], line["bytes"], line["ops"]) == (None, None, None) and "error" not in line
        assert line["shard"] == ranges(nodes[0], CART)[0]["shard"]
        assert c.execute_command("RANGE.EXEC", line["id"], line["generation"], "GET", key(1)) == "v1"
        with pytest.raises(redis.ResponseError, match="stale-generation"):
            c.execute_command("RANGE.EXEC", line["id"], line["generation"] + 1, "GET", key(1))
        assert c.execute_command("RANGE.MAP") == []
    for words, why in ((("RANGE.SPLIT", CART, key(1)), "was never given a mode: SPACE.SET does that"), (("RANGE.MOVE", CART, key(1), 5), "SPACE.SET it BUCKET or RANGE first"), (("RANGE.EXPLAIN", CART), "SPACE.SET it RANGE first")):
        with pytest.raises(redis.ResponseError, match=why):
            nodes[0].execute_command(*words)


def test_locks_on_it_are_those_of_a_bucket_and_stay_when_it_is_set(cluster):
    a, b, c = clients(cluster)
    first, holder = a.execute_command("RANGE.LOCK", CART, key(0), key(10), "a", 600000)
    assert first > 0 and holder is None
    token, holder = b.execute_command("RANGE.LOCK", CART, key(5), key(20), "b", 600000)
    assert token is None and as_dict(holder)["owner"] == "a"
    second, _ = b.execute_command("RANGE.LOCK", CART, key(10), key(20), "b", 600000)
    assert second > first
    assert c.execute_command("RANGE.EXTEND", CART, key(0), key(10), "a", 600000) == first
    assert is_unset(c)
    change(a, "SPACE.SET", CART, "RANGE")
    assert sorted(as_dict(lock)["owner"] for lock in c.execute_command("RANGE.LOCKS", CART)) == ["a", "b"]
    assert b.execute_command("RANGE.LOCK", CART, key(0), key(1), "b", 5000)[0] is None
    assert c.execute_command("RANGE.UNLOCK", CART, key(0), key(10), "a") == 1
    third, _ = b.execute_command("RANGE.LOCK", CART, key(0), key(1), "b", 5000)
    assert third > second
