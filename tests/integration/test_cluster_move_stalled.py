"""A range that moves to a group which has lost its majority: what has not gone yet stays usable, the status says what is waited for, and it goes on when the nodes are back."""
from itertools import combinations

from cluster import make_cluster, wait_for  # noqa: F401, a fixture
from clusterload import Link
from conftest import PATIENCE

KEYS = [f"r/{i:03d}" for i in range(400)]


def voters(status):
    """By group: of groups 0 and 1 those without a mark."""
    return {int(g["group"]): {int(m) for m in g["members"].split() if m.isdigit()} for g in status.get("group", [])}


def choose(status, home):
    """A group, and two nodes without which it stands still, but neither the one where the range is nor those of the cluster itself."""
    by_group = voters(status)
    for group, nodes in by_group.items():
        for pair in combinations(sorted(nodes), 2):
            if group > 1 and len(nodes) == 3 and all(len(set(pair) & by_group[g]) < 2 for g in (0, 1, home)):
                return group, pair
    return None


def ranges(cluster, number):
    found = cluster.ask(number, "RANGE.MAP", "r", seconds=30)
    return [dict(zip(r[::2], r[1::2])) for r in found] if isinstance(found, list) else []


def test_what_cannot_go_stays_where_it_is_and_goes_when_its_target_is_back(make_cluster):
    cluster = make_cluster(nodes=5)
    change = lambda *words: wait_for(lambda: cluster.ask(1, *words, seconds=30) == "OK", 60, lambda: f"{words} is not done")
    change("SPACE.SET", "r", "RANGE")
    c = Link(cluster.port(1), 60 * PATIENCE)
    assert set(c.ask_all([("SET", k, "v") for k in KEYS])) == {"OK"}
    c.close()
    home = ranges(cluster, 1)[0]["shard"]
    wait_for(lambda: choose(cluster.status(1), home), 30, lambda: f"no two nodes will do: {voters(cluster.status(1))}")
    target, pair = choose(cluster.status(1), home)
    other = next(n for n in cluster.nodes if n not in pair)
    leader = lambda group: next((g["leader"] for g in cluster.status(other).get("group", []) if g["group"] == str(group)), None)
    cluster.kill(*pair)
    wait_for(lambda: leader(target) == "?" and leader(home) not in ("?", None) and leader(1) not in ("?", None), 60, lambda: f"group {target}: {leader(target)}, group {home}: {leader(home)}")
    wait_for(lambda: cluster.ask(other, "RANGE.MOVE", "r", KEYS[0], target, seconds=30) == "OK", 60, lambda: "it does not begin to move")
    waits = lambda: [op for op in cluster.status(other).get("operation", []) if op["what"].startswith("move-range") and f"waits for group={target}" in op["what"]]
    wait_for(waits, 30, lambda: cluster.status(other).get("operation"))
    c = Link(cluster.port(other), 60 * PATIENCE)
    for turn in range(5):
        assert set(c.ask_all([("SET", k, f"v{turn}") for k in KEYS])) == {"OK"}
        assert c.ask_all([("GET", k) for k in KEYS]) == [f"v{turn}"] * len(KEYS)
    assert waits() and ranges(cluster, other)[0]["to-shard"] == target
    cluster.start(*pair)
    arrived = lambda: [(r["shard"], "to-shard" in r) for r in ranges(cluster, other)] == [(target, False)]
    wait_for(arrived, 60, lambda: f"{ranges(cluster, other)} {cluster.status(other).get('operation')}")
    assert c.ask_all([("GET", k) for k in KEYS]) == ["v4"] * len(KEYS)
    assert not waits()
    c.close()
