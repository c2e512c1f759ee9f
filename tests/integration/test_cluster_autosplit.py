"""Ranges of a cluster split, spread over its nodes and merge by themselves; and every node tells why."""
import threading
import time

import pytest
import redis

from cluster import cluster, make_cluster, wait_for  # noqa: F401, fixtures
from conftest import PATIENCE

QUICK = ["--ranges-sustain", 1, "--ranges-settle", 2]


def clients(cluster):
    return [redis.Redis(port=port, decode_responses=True, socket_timeout=60 * PATIENCE) for port in cluster.ports()]


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def ranges(c, space):
    """Of a moment in which all leaders could be asked."""
    deadline = time.monotonic() + 60 * PATIENCE
    while True:
        found = [as_dict(r) for r in c.execute_command("RANGE.MAP", space)]
        errors = [r["error"] for r in found if "error" in r]
        if not errors:
            return found
        assert time.monotonic() < deadline, errors
        time.sleep(0.1)


def explain(c, space):
    out = as_dict(c.execute_command("RANGE.EXPLAIN", space))
    return [as_dict(r) for r in out["ranges"]], [as_dict(d) for d in out["decisions"]]


def count(cluster, field):
    """Over all nodes."""
    return sum(c.info("spaces")[field] for c in clients(cluster))


def changes(cluster):
    return sum(count(cluster, f"automatic_{what}") for what in ("splits", "moves", "merges"))


def is_at_rest(c, space):
    return all("to-shard" not in r for r in ranges(c, space))


def fill(c, space, n, size=100):
    for first in range(0, n, 500):
        p = c.pipeline(transaction=False)
        for i in range(first, min(n, first + 500)):
            p.set(f"{space}/{i:06}", "x" * size)
        p.execute()


def all_keys(c, space):
    cursor, out = "0", []
    while True:
        cursor, keys = c.execute_command("RANGE.GET", space, "LIMIT", 1000, "CURSOR", cursor, "KEYSONLY")
        out += keys
        if cursor == "0":
            return out


def texts(decisions):
    return [d["text"] for d in decisions]


class Pounding:
    """Clients of all nodes that set the same keys again and again, until the end of the block."""

    def __init__(self, cluster, keys):
        self.stop = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self.run, args=(c, keys)) for c in clients(cluster)]

    def run(self, c, keys):
        try:
            p = c.pipeline(transaction=False)
            while not self.stop.is_set():
                for key in keys:
                    p.set(key, "y")
                p.execute()
        except Exception as e:  # told in __exit__
            self.errors.append(e)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for t in self.threads:
            t.join()
        assert not self.errors


def test_a_space_is_cut_by_its_size_and_every_node_has_the_figures_and_the_reasons_of_its_leaders(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-bytes", "512kb", "--ranges-split-ops", 0, "--ranges-merge-ops", 0])
    nodes = clients(cluster)
    a = nodes[0]
    a.execute_command("SPACE.SET", "big", "RANGE")
    wait_for(lambda: len(ranges(a, "big")) == 1, 30, lambda: "the space has no range")
    fill(a, "big", 10000)
    wait_for(lambda: len(ranges(a, "big")) >= 4 and is_at_rest(a, "big"), 120, lambda: f"{ranges(a, 'big')} {explain(a, 'big')}")
    assert count(cluster, "automatic_splits") >= 3
    for c in nodes:
        wait_for(lambda: all("not split" in r["split"] for r in explain(c, "big")[0]), 60, lambda: explain(c, "big"))
        found = ranges(c, "big")
        assert sum(r["keys"] for r in found) == 10000 and all(r["bytes"] > 100 * r["keys"] for r in found)
        why, decisions = explain(c, "big")
        assert [r["id"] for r in why] == [r["id"] for r in found]
        assert sum("split at the middle of its bytes" in t for t in texts(decisions)) >= 3
        assert all(d["node"] in (1, 2, 3) and abs(d["time"] / 1000 - time.time()) < 3600 for d in decisions)
    assert all_keys(nodes[1], "big") == [f"big/{i:06}" for i in range(10000)]
