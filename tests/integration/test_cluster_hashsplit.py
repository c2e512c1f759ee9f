"""A hash shard is split: a part of its keys gets a group of its own while clients use them, and nodes are killed and started again meanwhile. At the end every key is there once, with its last value."""
from cluster import make_cluster, wait_for  # noqa: F401, one of them a fixture
from clusterload import Load, Refused, read_all
from test_cluster_move import MONEY, ACCOUNTS, Strikes, Transfers, answering, carried, change, leader, link, running, under_way

FEW_GROUPS = ["--cluster-shards", "2"]  # so that each has many keys
HALF = 1 << 63


def names(n):
    """Of buckets, of keys that are their own bucket, and of a key space that the hash divides; all of them in all groups."""
    return [(f"bucket{i % 97}/fill{i}", f"alone{i}", f"spread/fill{i}")[i % 3] for i in range(n)]


def put(cluster, n):
    c = link(cluster)
    change(cluster, "SPACE.SET", "spread", "HASH")
    wait_for(lambda: not under_way(cluster, 1), 30, lambda: "the space does not become one")
    keys = names(n)
    for at in range(0, n, 500):
        assert set(c.ask_all([("SET", k, f"v{at + i}") for i, k in enumerate(keys[at:at + 500])])) == {"OK"}
    c.close()


def split(cluster, group, *where):
    """Begins it, and gives the new group's number. Who was to decide it may just have been lost; then it may have begun all the same."""
    made = []

    def asked():
        answer = cluster.ask(answering(cluster), "CLUSTER", "SPLIT", group, *where, seconds=30)
        assert not isinstance(answer, Refused) or answer.code() in ("TRYAGAIN", "UNCERTAIN", "CLUSTERDOWN", "LOADING"), answer
        if answer and not isinstance(answer, Refused):
            made.append(int(answer))
        return made

    wait_for(asked, 60, lambda: f"group {group} is not split: {cluster.status(answering(cluster)).get('operation')}")
    return made[0]


def covers(cluster, number, group):
    return next((g["covers"] for g in cluster.status(number).get("group", []) if g["group"] == str(group)), "")


def wait_split(cluster, group):
    """Until every node sees the new group with its part of the hash, and nothing is under way."""
    there = lambda n: covers(cluster, n, group).startswith("hash") and "moving" not in covers(cluster, n, group) and not under_way(cluster, n)
    wait_for(lambda: all(there(n) for n in running(cluster)), 90, lambda: f"{[covers(cluster, n, group) for n in running(cluster)]} {under_way(cluster, answering(cluster))}")


def check_all(cluster, n):
    number = answering(cluster)
    values = read_all(cluster.port(number), names(n))
    wrong = [(k, v) for i, (k, v) in enumerate(zip(names(n), values)) if v != f"v{i}"]
    assert not wrong, f"{len(wrong)} keys are lost or wrong: {wrong[:5]}"
    c = link(cluster, number)
    keys = c.ask("KEYS", "*")
    assert len(keys) == len(set(keys)), "a key is in two groups"
    assert c.ask("DBSIZE") == len(keys)
    assert sum(map(int, c.ask("MGET", *ACCOUNTS))) == MONEY * len(ACCOUNTS)
    c.close()


def test_a_group_is_split_under_load_and_the_halves_again(make_cluster):
    n = 9000
    cluster = make_cluster(args=FEW_GROUPS)
    put(cluster, n)
    with Transfers(cluster) as transfers, Load(cluster.ports(), clients=6, seed=11) as load:
        load.run_for(0.5)
        for group, new, part in ((2, 4, "4000000000000000-7fffffffffffffff"), (4, 5, "6000000000000000-7fffffffffffffff"), (3, 6, "c000000000000000-ffffffffffffffff")):
            before = transfers.done
            assert split(cluster, group) == new
            wait_split(cluster, new)
            assert covers(cluster, 2, new) == f"hash {part}"
            wait_for(lambda: transfers.done > before + 3, 30, lambda: "no transaction happens any more")
    assert carried(cluster) > n // 3
    load.check(cluster.port(2))
    check_all(cluster, n)
    cluster.stop(*cluster.nodes)
    cluster.start(*cluster.nodes)
    cluster.wait_ok()
    assert covers(cluster, 3, 5) == "hash 6000000000000000-7fffffffffffffff"
    check_all(cluster, n)
    cluster.write_everywhere(1, "after")


def largest(cluster):
    """The group with the largest interval of the hash: it has most keys, so that its walk is long enough to be struck."""
    def width(g):
        part = g["covers"].removeprefix("hash ").split("-")
        return int(part[1], 16) - int(part[0], 16)

    return int(max((g for g in cluster.status(answering(cluster))["group"] if g["covers"].startswith("hash ")), key=width)["group"])


def test_nodes_that_drive_and_lead_are_killed_while_a_group_is_split(make_cluster):
    n = 60000
    cluster = make_cluster(args=FEW_GROUPS)
    put(cluster, n)
    strikes = Strikes(cluster)
    last = {}

    def split_the_largest():
        last["from"] = largest(cluster)
        last["to"] = split(cluster, last["from"])
        return lambda: wait_split(cluster, last["to"])

    with Transfers(cluster) as transfers, Load(cluster.ports(), clients=4, seed=12) as load:
        strikes.strike_at_last(lambda: leader(cluster, 1), split_the_largest)
        strikes.strike_at_last(lambda: leader(cluster, last["from"]), split_the_largest)
        strikes.strike_at_last(lambda: leader(cluster, last["to"]), split_the_largest)
        assert transfers.done > 20
    load.check(cluster.port(1))
    check_all(cluster, n)


def test_a_node_that_was_away_when_a_group_was_made_gets_its_replica(make_cluster):
    n = 3000
    cluster = make_cluster(args=FEW_GROUPS)
    put(cluster, n)
    c = link(cluster)
    assert set(c.ask_all([("SET", a, MONEY) for a in ACCOUNTS])) == {"OK"}
    c.close()
    away = next(number for number in cluster.nodes if leader(cluster, 1) != number)
    cluster.kill(away)
    new = split(cluster, 2)
    wait_split(cluster, new)
    cluster.start(away)
    cluster.wait_ok()
    # It has what the others have as soon as it can lead the group.
    asked = lambda: cluster.ask(away, "CLUSTER", "LEAD", new, away, seconds=30)
    wait_for(lambda: asked() == f"node {away} leads group {new}", 60, lambda: f"node {away} does not come to lead group {new}: {cluster.nodes[away].log()[-2000:]}")
    check_all(cluster, n)


def test_what_cannot_be_split_is_refused(make_cluster):
    cluster = make_cluster(args=["--cluster-shards", "2", "--cluster-seats", "5"])
    c = link(cluster)
    put(cluster, 9000)
    for words, why in (((1,), "groups 0 and 1 hold no keys"), ((9,), "there is no such group"), ((2, "x"), "a hash is a number of 1 to 16 hex digits"), ((2, f"{HALF:x}"), "that hash is another group's"),
                       ((2, "0"), "nothing of the interval would be left below that hash"), (("two",), "what it takes is the number of a group, and a hash or none")):
        assert why in c.ask("CLUSTER", "SPLIT", *words)
    answers = c.ask_all([("CLUSTER", "SPLIT", 2, "100"), ("CLUSTER", "SPLIT", 2), ("SPACE.SET", "other", "RANGE")])
    assert answers[0] == "4"
    for a in answers[1:]:
        assert a.code() == "TRYAGAIN" and "(split) is under way there" in a, a
    wait_split(cluster, 4)
    assert covers(cluster, 1, 2) == "hash 0000000000000000-00000000000000ff"
    assert c.ask("SPACE.SET", "other", "RANGE") == "OK"
    assert c.ask("CLUSTER", "SPLIT", 4) == "5"
    wait_split(cluster, 5)
    refused = c.ask("CLUSTER", "SPLIT", 5)
    assert refused == "ERR node 1 has no room for another replica: cluster-seats is too small"
    assert "6" not in [g["group"] for g in cluster.status(1)["group"]]
    c.close()


def test_a_command_line_splits(make_cluster):
    cluster = make_cluster(args=FEW_GROUPS)
    assert cluster.cli("split", 3, "--server", f"127.0.0.1:{cluster.port(2)}").strip() == "4"
    wait_split(cluster, 4)
    cluster.write_everywhere(3, "value")
