"""The fence between nodes: requests carry what their sender's map says, a stale one is refused and finds its way, and clients that route for themselves are told what is so now."""

import random
import threading
import time

import pytest
import redis

from cluster import cluster, make_cluster, wait_for  # noqa: F401, fixtures
from conftest import PATIENCE

KEYS = [f"users/{i:03d}" for i in range(40)]


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def client(cluster, number):
    return redis.Redis(port=cluster.port(number), decode_responses=True, socket_timeout=60 * PATIENCE)


def ranges(c, space="users"):
    return [as_dict(r) for r in c.execute_command("RANGE.MAP", space)]


def refused(c, *call):
    with pytest.raises(redis.ResponseError) as e:
        c.execute_command(*call)
    return str(e.value)


def fence(r):
    return [(x["id"], x["generation"], x["start"]) for x in r]


def wait_same_map(cluster, nodes):
    """Until every node has the map of the first."""
    wait_for(lambda: all(fence(ranges(c)) == fence(ranges(nodes[0])) for c in nodes), 60, lambda: f"maps differ: {[fence(ranges(c)) for c in nodes]}")


@pytest.fixture
def nodes(cluster):
    """A client of each node; "users" is a space of ranges."""
    clients = [client(cluster, n) for n in cluster.nodes]
    clients[0].execute_command("SPACE.SET", "users", "RANGE")
    wait_for(lambda: all(as_dict(c.execute_command("SPACE.INFO", "users")).get("state") == "ready" for c in clients), 60, lambda: "the space is not ready")
    wait_same_map(cluster, clients)
    return clients


def stale_everywhere(cluster):
    return sum(int(cluster.info(n).get("cluster_requests_stale", 0)) for n in cluster.nodes)


def test_a_fenced_command_runs_from_any_node_and_tells_what_is_so_now(cluster, nodes):
    r = ranges(nodes[0])[0]
    for i, c in enumerate(nodes):
        assert c.execute_command("RANGE.EXEC", r["id"], r["generation"], "MSET", KEYS[1], f"a{i}", KEYS[30], f"b{i}")
        assert c.execute_command("RANGE.EXEC", r["id"], r["generation"], "MGET", KEYS[1], KEYS[30]) == [f"a{i}", f"b{i}"]
    nodes[1].execute_command("RANGE.SPLIT", "users", KEYS[20])
    wait_for(lambda: all(len(ranges(c)) == 2 for c in nodes), 60, lambda: "a node does not hear of the split")
    low, high = ranges(nodes[0])
    for c in nodes:
        error = refused(c, "RANGE.EXEC", r["id"], r["generation"], "SET", KEYS[1], "stale")
        assert error.startswith(f'MUSTRETRY stale-generation space="users" id={r["id"]} generation={r["generation"] + 1} shard=') and error.endswith(f'start=- end="{KEYS[20]}"')
        error = refused(c, "RANGE.EXEC", low["id"], low["generation"], "MGET", KEYS[1], KEYS[30])
        assert error.startswith(f'MUSTRETRY key-elsewhere space="users" id={high["id"]} ') and error.endswith(f'start="{KEYS[20]}" end=+')
        assert refused(c, "RANGE.EXEC", 99999, 1, "GET", "plain").startswith("MUSTRETRY no-such-range id=")
        assert refused(c, "RANGE.EXEC", 1, 1, "NOSUCH", "plain") == "unknown command 'NOSUCH'"
        assert c.get(KEYS[1]) == "a2"
        assert c.execute_command("RANGE.EXEC", high["id"], high["generation"], "GET", KEYS[30]) == "b2"


def test_an_interval_of_the_hash_is_a_range_as_well(cluster, nodes):
    told = refused(nodes[0], "RANGE.EXEC", 99999, 1, "GET", "plain")
    words = dict(w.split("=") for w in told.split() if "=" in w)
    for c in nodes:
        assert c.execute_command("RANGE.EXEC", words["id"], words["generation"], "SET", "plain", "here")
        assert refused(c, "RANGE.EXEC", words["id"], int(words["generation"]) + 1, "GET", "plain").startswith("MUSTRETRY stale-generation id=")
    assert nodes[0].get("plain") == "here"


class Load:
    """A thread for each node's client, which does the same again and again until it is told to stop."""

    def __init__(self, cluster, step):
        self.failed = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(client(cluster, n), step, random.Random(n))) for n in cluster.nodes]

    def run(self, c, step, rng):
        try:
            while not self.stopped.is_set():
                step(c, rng)
        except Exception as e:
            self.failed.append(e)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for t in self.threads:
            t.join(120 * PATIENCE)
            assert not t.is_alive()


class Counts:
    def __init__(self):
        self.lock = threading.Lock()
        self.of = dict.fromkeys(KEYS, 0)

    def add(self, key):
        with self.lock:
            self.of[key] += 1


def stir(nodes, rng):
    """Splits or merges somewhere, through some node."""
    at = rng.choice(KEYS[1:])
    try:
        rng.choice(nodes).execute_command(rng.choice(["RANGE.SPLIT", "RANGE.MERGE"]), "users", at)
    except redis.ResponseError:
        pass  # there is a range from here already, or none


def stir_until(nodes, load, done, seconds=60):
    rng, deadline = random.Random(5), time.monotonic() + seconds * PATIENCE
    for i in range(1000000):
        stir(nodes, rng)
        assert not load.failed, load.failed
        if i % 20 == 19 and done():
            return
        assert time.monotonic() < deadline, "in vain"


def test_requests_with_a_stale_map_find_their_way(cluster, nodes):
    counts = Counts()

    def count(c, rng):
        keys = [rng.choice(KEYS) for _ in range(4)]
        with c.pipeline(transaction=False) as p:
            for k in keys:
                p.incr(k)
            p.execute()
        for k in keys:
            counts.add(k)

    began = time.monotonic()
    with Load(cluster, count) as load:
        stir_until(nodes, load, lambda: stale_everywhere(cluster) > 0 and time.monotonic() > began + 2)
    assert not load.failed, load.failed
    assert [int(v or 0) for v in nodes[1].mget(KEYS)] == list(counts.of.values())


def test_clients_that_route_for_themselves_lose_nothing_while_ranges_change(cluster, nodes):
    counts, refusals = Counts(), [0]

    def count(c, rng):
        k = rng.choice(KEYS)
        # Of a node's map another node may know more, or less.
        r = next(r for r in ranges(rng.choice(nodes)) if (r["start"] == "-" or r["start"] <= k) and (r["end"] == "+" or k < r["end"]))
        try:
            c.execute_command("RANGE.EXEC", r["id"], r["generation"], "INCR", k)
        except redis.ResponseError as e:
            assert str(e).startswith("MUSTRETRY "), e
            refusals[0] += 1
        else:
            counts.add(k)

    with Load(cluster, count) as load:
        stir_until(nodes, load, lambda: refusals[0] > 0 and sum(counts.of.values()) > 100)
    assert not load.failed, load.failed
    assert [int(v or 0) for v in nodes[2].mget(KEYS)] == list(counts.of.values())


def groups_of(c):
    return [r["shard"] for r in ranges(c)]


def move(c, to):
    """The whole space's range to another group, and until it is there."""
    c.execute_command("RANGE.MOVE", "users", KEYS[0], to)
    wait_for(lambda: groups_of(c) == [to] and "to-shard" not in ranges(c)[0], 60, lambda: f"it does not arrive: {ranges(c)}")


def test_requests_follow_a_range_to_another_group(cluster, nodes):
    counts = Counts()
    home = groups_of(nodes[0])[0]
    others = [g for g in range(2, 10) if g != home]

    def count(c, rng):
        k = rng.choice(KEYS)
        c.incr(k)
        counts.add(k)

    with Load(cluster, count) as load:
        wait_for(lambda: sum(counts.of.values()) > 100, 60, lambda: "nothing is counted")
        for to in others[:6] + [home]:
            before = sum(counts.of.values())
            move(nodes[0], to)
            assert not load.failed, load.failed
            wait_for(lambda: sum(counts.of.values()) > before + 50 or load.failed, 60, lambda: "nothing is counted")
    assert not load.failed, load.failed
    assert [int(v or 0) for v in nodes[1].mget(KEYS)] == list(counts.of.values())
    assert sum(int(cluster.info(n)["cluster_requests_bounced"]) for n in cluster.nodes) > 0
