"""Values that are too large to go along with their slice are carried in pieces. Whoever is killed meanwhile: in the end each is there, whole, in the group that it was to go to, and nowhere else."""
import time

from cluster import cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from test_cluster_move import SPACE, answering, change, fill, leader, link, put, range_of, running, wait_moved

MB = 1 << 20
STRING, LIST, SET, ZSET, HASH = (fill(i) + kind for i, kind in ((100, ".string"), (200, ".list"), (300, ".set"), (400, ".zset"), (500, ".hash")))
# The longest value that a cluster takes: 8 MiB for all arguments, and eight bytes for each of them.
LONGEST = 8 * MB - 4 * 8 - len("HSET") - len(HASH) - len("longest")


def in_batches(c, command, items, each):
    for at in range(0, len(items), each):
        answer = c.ask(*command, *items[at:at + each])
        assert isinstance(answer, int), answer


def put_hash(c, megabytes):
    """Of a kilobyte for each field."""
    in_batches(c, ("HSET", HASH), [w for i in range(megabytes * 1000) for w in (f"f{i:08d}", f"{i:08d}" * 125)], 1000)


def put_string(c, megabytes):
    for i in range(megabytes):
        assert c.ask("APPEND", STRING, f"{i:08d}" * (MB // 8)) == (i + 1) * MB


def whole(c):
    """All that there is of them."""
    hash = c.ask("HGETALL", HASH)
    return {
        "string": c.ask("GET", STRING),
        "list": c.ask("LRANGE", LIST, 0, -1),
        "set": sorted(c.ask("SMEMBERS", SET)),
        "zset": c.ask("ZRANGE", ZSET, 0, -1, "WITHSCORES"),
        "hash": dict(zip(hash[::2], hash[1::2])),
    }


def large_values(cluster):
    return sum(int(cluster.info(n).get("cluster_moves_large_values", 0)) for n in running(cluster))


def check_whole(cluster, c, before, keys):
    after = whole(c)
    for kind, value in before.items():
        assert after[kind] == value, f"the {kind} is another one"
    found = c.ask("KEYS", f"{SPACE}/*")
    assert len(found) == len(set(found)) == keys and c.ask("DBSIZE") == keys


def two_groups(cluster):
    home = range_of(cluster, 1, fill(0))["shard"]
    return home, 3 if home != 3 else 4


def test_large_values_of_every_type_move(cluster):
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, 1000)
    home, other = two_groups(cluster)
    c = link(cluster)
    put_string(c, 12)
    put_hash(c, 8)
    assert c.ask("HSET", HASH, "longest", "x" * LONGEST) == 1
    in_batches(c, ("RPUSH", LIST), [f"e{i}" * 20 for i in range(60000)], 5000)
    in_batches(c, ("SADD", SET), [f"m{i}" * 20 for i in range(60000)], 5000)
    in_batches(c, ("ZADD", ZSET), [w for i in range(60000) for w in (i % 977, f"m{i}" * 20)], 5000)
    assert c.ask("EXPIRE", ZSET, 10000) == 1
    before = whole(c)
    for turn, group in enumerate((other, home)):
        change(cluster, "RANGE.MOVE", SPACE, fill(0), group)
        wait_moved(cluster, HASH, group)
        wait_for(lambda: large_values(cluster) >= 5 * (turn + 1), 10, lambda: f"only {large_values(cluster)} values went in pieces")
        check_whole(cluster, c, before, 1005)
        assert 9000 < c.ask("TTL", ZSET) <= 10000 and c.ask("TTL", HASH) == -1
    # They can be used where they are now.
    assert c.ask("HDEL", HASH, "longest") == 1 and c.ask("APPEND", STRING, "x") == 12 * MB + 1 and c.ask("LPOP", LIST) == "e0" * 20
    c.close()


def strike_in_pieces(cluster, key, group, to):
    """Kills the leader of a group while the value is carried: all before it has arrived, and it has not. None: it was over too soon."""
    victim = leader(cluster, group)
    other = next(n for n in running(cluster) if n != victim)
    found = {}
    while victim and (found.get("shard") != to or "to-shard" in found):
        found = range_of(cluster, other, key) or {}
        if found.get("boundary") == key:
            cluster.kill(victim)
            return victim
    return None


def test_whoever_is_killed_large_values_arrive_whole(cluster):
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, 1000)
    home, other = two_groups(cluster)
    c = link(cluster)
    put_string(c, 30)
    put_hash(c, 60)
    assert c.ask("RPUSH", LIST, "a") == c.ask("SADD", SET, "a") == c.ask("ZADD", ZSET, 1, "a") == 1
    before = whole(c)
    c.close()
    for key, group in ((STRING, 1), (HASH, 1), (HASH, home), (HASH, other)):
        for _ in range(10):
            to = other if range_of(cluster, answering(cluster), key)["shard"] == home else home  # the range may have been cut meanwhile
            change(cluster, "RANGE.MOVE", SPACE, key, to)
            victim = strike_in_pieces(cluster, key, group, to)
            if victim:
                time.sleep(0.5)
                cluster.start(victim)
                cluster.wait_ok(victim)
            wait_moved(cluster, key, to)
            if victim:
                break
        else:
            assert False, f"the leader of {group} was never killed while {key} went in pieces"
    c = link(cluster)
    check_whole(cluster, c, before, 1005)
    c.close()
