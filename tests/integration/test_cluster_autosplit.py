"""Ranges of a cluster split, spread over its nodes and merge by themselves; and every node tells why."""
import functools
import time

import pytest
import redis

from beside import Pounding
from cluster import cluster, make_cluster, wait_for  # noqa: F401, fixtures
from conftest import PATIENCE

QUICK = ["--ranges-sustain", 1, "--ranges-settle", 2]


def connects(cluster):
    """A function for each node that gives a client of it."""
    return [functools.partial(redis.Redis, port=port, decode_responses=True, socket_timeout=60 * PATIENCE) for port in cluster.ports()]


def clients(cluster):
    return [connect() for connect in connects(cluster)]


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


def test_a_space_is_cut_by_its_size_and_every_node_has_the_figures_and_the_reasons_of_its_leaders(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-bytes", "512kb", "--ranges-split-ops", 0, "--ranges-merge-ops", 0])
    nodes = clients(cluster)
    a = nodes[0]
    a.execute_command("SPACE.SET", "big", "RANGE")
    wait_for(lambda: len(ranges(a, "big")) == 1, 30, lambda: "the space has no range")
    fill(a, "big", 10000)
    wait_for(lambda: len({r["leader"] for r in ranges(a, "big")}) == 3 and is_at_rest(a, "big"), 120, lambda: f"{ranges(a, 'big')} {explain(a, 'big')}")
    assert count(cluster, "automatic_splits") >= 2 and count(cluster, "automatic_moves") >= 2
    for c in nodes:
        wait_for(lambda: all("not split" in r["split"] for r in explain(c, "big")[0]), 60, lambda: explain(c, "big"))
        wait_for(lambda: is_at_rest(c, "big") and sum(r["keys"] for r in ranges(c, "big")) == 10000, 60, lambda: ranges(c, "big"))
        assert all(r["bytes"] > 100 * r["keys"] for r in ranges(c, "big"))
        why, decisions = explain(c, "big")
        assert sum("split at the middle of its bytes" in t for t in texts(decisions)) >= 2 and any("it was cut off, and that shard has the least bytes" in t for t in texts(decisions))
        assert all(d["node"] in (1, 2, 3) and abs(d["time"] / 1000 - time.time()) < 3600 for d in decisions)
    assert all_keys(nodes[1], "big") == [f"big/{i:06}" for i in range(10000)]


def test_a_range_of_keys_that_are_too_long_for_a_cut_is_cut_at_their_first_bytes(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-bytes", "512kb", "--ranges-split-ops", 0, "--ranges-merge-ops", 0])
    a = clients(cluster)[0]
    keys = [f"long/{i:03}" + 5000 * "k" for i in range(200)]
    a.execute_command("SPACE.SET", "long", "RANGE")
    with pytest.raises(redis.ResponseError, match="at keys of at most 4096 bytes"):
        a.execute_command("RANGE.SPLIT", "long", keys[100])
    for key in keys:
        a.set(key, "v")
    wait_for(lambda: len(ranges(a, "long")) > 1 and is_at_rest(a, "long"), 60, lambda: explain(a, "long"))
    assert any(len(r["start"]) == 4096 for r in ranges(a, "long"))
    assert all_keys(a, "long") == keys


def test_a_busy_half_is_parted_among_the_nodes_and_merged_again_when_it_rests(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-ops", 400])
    nodes = clients(cluster)
    a = nodes[0]
    a.execute_command("SPACE.SET", "hot", "RANGE")
    fill(a, "hot", 4000)
    expected = [f"hot/{i:06}" for i in range(4000)]
    with Pounding(connects(cluster), expected[3000:]):
        wait_for(lambda: count(cluster, "automatic_splits") >= 1, 120, lambda: explain(a, "hot"))
        wait_for(lambda: any("split at the middle of its load" in t for t in texts(explain(nodes[1], "hot")[1])), 60, lambda: explain(nodes[1], "hot"))
        cut = ranges(a, "hot")[0]["end"]
        assert "hot/003000" < cut < "hot/004000", "the busy part was cut"
        wait_for(lambda: len({r["leader"] for r in ranges(a, "hot")}) >= 2 and is_at_rest(a, "hot"), 180, lambda: f"{ranges(a, 'hot')} {explain(a, 'hot')}")
        wait_for(lambda: any("moved to shard" in t and "cut off" in t for t in texts(explain(nodes[2], "hot")[1])), 60, lambda: explain(nodes[2], "hot"))
        assert any(r["ops"] > 0 for r in ranges(nodes[2], "hot"))
    assert all_keys(nodes[1], "hot") == expected

    wait_for(lambda: len(ranges(a, "hot")) == 1, 240, lambda: f"{ranges(a, 'hot')} {explain(a, 'hot')}")
    assert count(cluster, "automatic_merges") >= 1
    for c in nodes:
        wait_for(lambda: any(" merged: " in t for t in texts(explain(c, "hot")[1])), 60, lambda: explain(c, "hot"))
    assert all_keys(nodes[2], "hot") == expected
    stays_so(cluster)


def stays_so(cluster):
    """Nothing is changed any more, however often it is looked at."""
    before, looks = changes(cluster), [c.info("spaces")["automatic_looks"] for c in clients(cluster)]
    wait_for(lambda: all(c.info("spaces")["automatic_looks"] >= n + 6 for c, n in zip(clients(cluster), looks)), 120, lambda: "the nodes look no more")
    assert changes(cluster) == before


def test_a_single_hot_key_is_refused_and_every_node_says_so(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-ops", 300])
    nodes = clients(cluster)
    nodes[0].execute_command("SPACE.SET", "hot", "RANGE")
    fill(nodes[0], "hot", 1000)
    with Pounding(connects(cluster), ["hot/000500"] * 100):
        wait_for(lambda: count(cluster, "automatic_refused") >= 1, 120, lambda: explain(nodes[0], "hot"))
        for c in nodes:
            wait_for(lambda: any("one key makes up" in t and "hot/000500" in t for t in texts(explain(c, "hot")[1])), 60, lambda: explain(c, "hot"))
    assert count(cluster, "automatic_splits") == 0 and len(ranges(nodes[0], "hot")) == 1


def test_who_takes_over_goes_on_judging_and_who_cannot_be_reached_is_told(make_cluster):
    cluster = make_cluster(args=QUICK + ["--ranges-split-ops", 0, "--ranges-merge-ops", 0])
    nodes = clients(cluster)
    nodes[0].execute_command("SPACE.SET", "big", "RANGE")
    fill(nodes[0], "big", 6000)
    wait_for(lambda: ranges(nodes[0], "big")[0]["leader"], 60, lambda: ranges(nodes[0], "big"))
    leader = ranges(nodes[0], "big")[0]["leader"]
    other = nodes[leader % 3]
    cluster.kill(leader)
    wait_for(lambda: ranges(other, "big")[0]["leader"] not in (0, leader), 60, lambda: ranges(other, "big"))
    for number in cluster.others(leader):
        redis.Redis(port=cluster.port(number)).config_set("ranges-split-bytes", "256kb")
    wait_for(lambda: len(ranges(other, "big")) >= 3, 120, lambda: f"{ranges(other, 'big')} {explain(other, 'big')}")
    assert all_keys(other, "big") == [f"big/{i:06}" for i in range(6000)]

    last = leader % 3 + 1
    cluster.kill(*[n for n in cluster.others(leader) if n != last])
    found = []

    def nobody_leads():
        found[:] = [as_dict(r) for r in other.execute_command("RANGE.MAP", "big")]
        return all("error" in r for r in found)

    wait_for(nobody_leads, 60, lambda: found)
    assert len(found) >= 3 and all(r["keys"] is None and r["bytes"] is None and r["ops"] is None and "CLUSTERDOWN" in r["error"] for r in found)
    assert all("CLUSTERDOWN" in r["split"] and "CLUSTERDOWN" in r["move"] for r in explain(other, "big")[0])
