"""Commands over all keys of a cluster, asked of any node: each group answers for its part, and there is no answer if one of them cannot. And what a node says of its health."""
from collections import Counter

import pytest

from cluster import SPREAD, cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from clusterload import Link, Refused


def link(cluster, number=1, seconds=30):
    return Link(cluster.port(number), seconds)


def fill(cluster, keys=SPREAD, db=0):
    c = link(cluster)
    assert c.ask("SELECT", db) == "OK"
    assert set(c.ask_all([("SET", k, "v") for k in keys])) == {"OK"}
    c.close()


def spread_over_nodes(cluster):
    """Nothing is shown if one node leads everything."""
    assert sum(cluster.leads(n) > 0 for n in cluster.nodes) >= 2


def sizes(cluster, number, dbs=(0, 1, 2)):
    c = link(cluster, number)
    found = []
    for db in dbs:
        assert c.ask("SELECT", db) == "OK"
        found.append(c.ask("DBSIZE"))
    c.close()
    return found


def test_every_node_knows_all_keys(cluster):
    spread_over_nodes(cluster)
    fill(cluster)
    for number in cluster.nodes:
        c = link(cluster, number)
        assert c.ask("DBSIZE") == len(SPREAD)
        assert sorted(c.ask("KEYS", "*")) == sorted(SPREAD)
        assert sorted(c.ask("KEYS", "spread1?")) == [f"spread1{i}" for i in range(10)]
        assert c.ask("KEYS", "nothing*") == []
        assert c.ask("SELECT", 3) == "OK"
        assert c.ask("DBSIZE") == 0 and c.ask("KEYS", "*") == [] and c.ask("RANDOMKEY") is None
        c.close()


def test_a_random_key_may_be_any_of_them(cluster):
    few = SPREAD[:32]
    fill(cluster, few)
    c = link(cluster, 2)
    # 32 keys, 2000 picks: that a given key is never picked has a chance of 0.97^2000.
    seen = Counter(c.ask_all([("RANDOMKEY",)] * 2000))
    assert set(seen) == set(few)
    c.close()


def test_answers_keep_their_places_in_a_pipeline(cluster):
    c = link(cluster, 3)
    for turn in range(10):
        answers = c.ask_all([("SET", SPREAD[turn], "v"), ("DBSIZE",), ("GET", SPREAD[turn]), ("KEYS", SPREAD[turn]), ("PING",)])
        assert answers == ["OK", turn + 1, "v", [SPREAD[turn]], "PONG"]
    c.close()


def test_flushing_and_swapping_reach_every_group(cluster):
    spread_over_nodes(cluster)
    for db, n in ((0, 256), (1, 100), (2, 50)):
        fill(cluster, SPREAD[:n], db)
    c = link(cluster, 2)
    assert c.ask("SWAPDB", 0, 1) == "OK"
    for number in cluster.nodes:
        assert sizes(cluster, number) == [100, 256, 50]
    assert c.ask("SELECT", 1) == "OK"
    assert c.ask("FLUSHDB") == "OK"
    for number in cluster.nodes:
        assert sizes(cluster, number) == [100, 0, 50]
    assert c.ask("FLUSHALL", "ASYNC") == "OK"
    for number in cluster.nodes:
        assert sizes(cluster, number) == [0, 0, 0]
    c.close()
    # It is in the groups' logs as any write.
    fill(cluster, SPREAD[:10])
    cluster.kill(*cluster.nodes)
    cluster.start(*cluster.nodes)
    cluster.wait_ok()
    assert sizes(cluster, 1) == [10, 0, 0]


def test_wrong_arguments_are_answered_as_by_one_server_and_change_nothing(cluster):
    fill(cluster, SPREAD[:10])
    c = link(cluster)
    assert c.ask("FLUSHALL", "NOW") == "ERR syntax error"
    assert c.ask("SWAPDB", 0, "x") == "ERR invalid second DB index"
    assert c.ask("SWAPDB", 0, 99) == "ERR DB index is out of range"
    assert c.ask("KEYS") == "ERR wrong number of arguments for 'keys' command"
    assert c.ask("DBSIZE") == 10
    c.close()


def test_without_a_majority_there_is_no_answer_rather_than_a_part_of_one(make_cluster):
    cluster = make_cluster(args=["--cluster-timeout-ms", "500"])
    fill(cluster)
    cluster.kill(2, 3)
    c = link(cluster)
    for words in (("DBSIZE",), ("KEYS", "*"), ("RANDOMKEY",), ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", 0, 1)):
        def refused():
            answer = c.ask(*words)  # a leader steps down only when it has missed the others for a while
            return isinstance(answer, Refused) and answer.code() == "CLUSTERDOWN"
        wait_for(refused, 20, lambda: f"{words} is answered")
    cluster.start(2, 3)
    cluster.wait_ok()
    wait_for(lambda: c.ask("DBSIZE") == len(SPREAD), 20, lambda: c.ask("DBSIZE"))
    c.close()


def test_while_a_node_is_killed_all_keys_are_counted_or_none(cluster):
    spread_over_nodes(cluster)
    fill(cluster)
    c = link(cluster, 1)
    cluster.kill(2)
    for _ in range(20):
        answer = c.ask("DBSIZE")
        assert answer == len(SPREAD) or answer.code() == "CLUSTERDOWN", answer
    wait_for(lambda: c.ask("DBSIZE") == len(SPREAD), 20, lambda: "nobody counts any more")
    assert sorted(c.ask("KEYS", "*")) == sorted(SPREAD)
    c.close()


def test_what_nodes_say_to_each_other_is_unknown_to_clients(cluster):
    c = link(cluster)
    unknown = c.ask("NO.SUCH", "a")
    for name in ("GROUP.KEYS", "group.flushall", "Group.Dbsize"):
        assert c.ask(name, "a") == unknown.replace("NO.SUCH", name)
    listed = c.ask("COMMAND", "LIST")
    assert "keys" in listed and not [name for name in listed if name.startswith("group.")]
    assert c.ask("COMMAND", "COUNT") == len([name for name in listed if "|" not in name])
    for words in (("INFO",), ("DOCS",), ("GETKEYS",)):
        assert c.ask("COMMAND", *words, "group.keys", "a") == c.ask("COMMAND", *words, "no.such", "a")
    c.close()


def health(cluster, number):
    """The state of all, and of each check."""
    pairs = cluster.ask(number, "HEALTH")
    found = dict(zip(pairs[::2], pairs[1::2]))
    return found.pop("state"), {check: finding[1] for check, finding in found.items()}


def test_the_health_of_a_node_is_that_of_its_cluster(cluster):
    well = {check: "ok" for check in ("node", "groups", "peers", "replicas", "disk")}
    for number in cluster.nodes:
        wait_for(lambda: health(cluster, number) == ("ok", well), 30, lambda: cluster.ask(number, "HEALTH"))
    cluster.kill(3)
    wait_for(lambda: health(cluster, 1) == ("warn", {**well, "peers": "warn"}), 30, lambda: cluster.ask(1, "HEALTH"))
    cluster.kill(2)
    wait_for(lambda: health(cluster, 1) == ("fail", {**well, "peers": "warn", "groups": "fail"}), 30, lambda: cluster.ask(1, "HEALTH"))


def leaders(cluster):
    """By group, as one node knows them; those of groups without one are missing."""
    return {int(g["group"]): int(g["leader"]) for g in cluster.status(1).get("group", []) if g["leader"].isdigit()}


def ranges(cluster, number):
    found = cluster.ask(number, "RANGE.MAP", "r")
    return [dict(zip(r[::2], r[1::2])) for r in found] if isinstance(found, list) else []


def rests_in(cluster, number, group):
    return [(r["shard"], "to-shard" in r) for r in ranges(cluster, number)] == [(group, False)]


def lead_elsewhere(cluster, blind, groups):
    """Whoever has a part in it is another node: that of the map, the ranges' groups, and the one that a scan begins with. False: not yet."""
    led = leaders(cluster)
    for group in groups:
        if led.get(group) == blind:
            cluster.ask(1, "CLUSTER", "LEAD", group, 1)
    return len(led) == 18 and all(led[group] != blind for group in groups)


def move_behind_its_back(cluster, blind, home, away, words):
    """A node is paused while the range goes to another group. Gives the answers to what it was asked meanwhile, which it looks at before it hears of anything else, or soon after."""
    other = next(n for n in cluster.nodes if n != blind)
    asked = [link(cluster, blind) for _ in range(8)]
    cluster.pause(blind)
    try:
        for a in asked:
            a.send(words)
        wait_for(lambda: cluster.ask(other, "RANGE.MOVE", "r", "r/0", away) == "OK", 10, lambda: "it does not begin to move")
        wait_for(lambda: rests_in(cluster, other, away), 10, lambda: f"it does not arrive: {ranges(cluster, other)}")
    finally:
        cluster.resume(blind)
    answers = [a.answer() for a in asked]
    for a in asked:
        a.close()
    return answers


def scanned(c, answer):
    """The scan may have to go on: its first call ends where a map is waited for."""
    found = set()
    while True:
        assert not isinstance(answer, Refused), answer
        found.update(answer[1])
        if answer[0] == "0":
            return len(found)
        answer = c.ask("SCAN", answer[0], "COUNT", 10000)


@pytest.mark.parametrize("words, counted", [(("DBSIZE",), lambda c, answer: answer), (("KEYS", "*"), lambda c, answer: len(set(answer))), (("SCAN", "0", "COUNT", "10000"), scanned)])
def test_a_node_whose_map_is_stale_waits_for_a_newer_one(cluster, words, counted):
    wait_for(lambda: cluster.ask(1, "SPACE.SET", "r", "RANGE") == "OK", 30, lambda: "there is no space of ranges")
    c = link(cluster)
    assert set(c.ask_all([("SET", f"r/{i:03d}", "v") for i in range(300)])) == {"OK"}
    waits = lambda: sum(int(cluster.info(n)["cluster_waits_for_map"]) for n in cluster.nodes)
    moves = 0

    def waited():
        nonlocal moves
        home = ranges(cluster, 1)[0]["shard"]
        away = 5 if home == 4 else 4
        wait_for(lambda: lead_elsewhere(cluster, 3, (1, 2, home, away)), 30, lambda: f"node 3 leads too much: {leaders(cluster)}")
        for answer in move_behind_its_back(cluster, 3, home, away, words):
            assert not isinstance(answer, Refused), answer
            assert counted(c, answer) == 300
        moves += 1
        return waits() > 0 and moves >= 3

    wait_for(waited, 60, lambda: f"nobody waited for a map in {moves} moves")
    c.close()
