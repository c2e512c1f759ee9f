"""SCAN and its kin in a cluster give whatever is there from the first call to the last, whichever node each call goes to, and whoever leads."""
import pytest

from cluster import SPREAD, cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from clusterload import Link, Refused

KEYS = [f"key:{i}" for i in range(1600)]
MOST_CALLS = 20_000


def fill(cluster, keys=KEYS):
    c = Link(cluster.port(1), 30)
    assert set(c.ask_all([("SET", k, "v") for k in keys])) == {"OK"}
    c.close()


def group_of(cursor):
    """The group that a scan is in the middle of, or None: it is at the beginning of one."""
    return cursor >> 39 & 0x3FFF if cursor & 0x3FFFFF else None


class Scan:
    """A scan that goes on through any node, call by call. A call that finds no leader is made again."""

    def __init__(self, cluster, *options, command=("SCAN",)):
        self.cluster, self.options, self.command, self.cursor, self.seen, self.calls = cluster, options, command, 0, [], 0

    def step(self, number):
        answers = []

        def answered():
            answer = self.cluster.ask(number, *self.command, self.cursor, *self.options, seconds=20)
            if isinstance(answer, list):
                answers.append(answer)
            else:
                assert answer is None or answer.code() in ("CLUSTERDOWN", "LOADING"), answer
            return answers

        wait_for(answered, 60, lambda: f"node {number} does not go on with the scan")
        cursor, items = answers[0]
        self.cursor = int(cursor)
        assert 0 <= self.cursor < 2**63
        self.seen += items
        self.calls += 1
        assert self.calls < MOST_CALLS, "the scan does not end"
        return self.cursor != 0

    def finish(self, *numbers):
        while self.step(numbers[self.calls % len(numbers)]):
            pass
        return set(self.seen)


def leader_of(cluster, group, through):
    found = []

    def known():
        line = next((g for g in cluster.status(through).get("group", []) if g["group"] == str(group)), None)
        if line and line["leader"].isdigit():
            found.append(int(line["leader"]))
        return found

    wait_for(known, 30, lambda: f"nobody leads group {group}")
    return found[-1]


def go_into_a_group(scan, through=1):
    """Steps until the scan is in the middle of a group; gives its number and its leader."""
    while scan.step(through):
        group = group_of(scan.cursor)
        if group is not None:
            return group, leader_of(scan.cluster, group, through)
    pytest.fail("the scan was never in the middle of a group")


def test_calls_of_one_scan_may_go_to_any_node_and_give_each_key_once(cluster):
    fill(cluster)

    def undisturbed(count, calls):
        scan = Scan(cluster, "COUNT", count)
        assert scan.finish(*cluster.nodes) == set(KEYS)
        return len(scan.seen) == len(KEYS) and scan.calls <= calls

    for count in (50, 100_000):  # each call goes on until it has looked at so many; a new leader in the middle, on a machine that is very busy, would have keys given again
        wait_for(lambda: undisturbed(count, len(KEYS) // count + 1), 60, lambda: f"scans by {count} are longer than they should be")


def test_patterns_types_and_databases_are_minded(cluster):
    fill(cluster, SPREAD)
    c = Link(cluster.port(2), 30)
    c.ask_all([("RPUSH", f"list:{i}", "x") for i in range(100)])
    assert Scan(cluster, "MATCH", "spread1?", "COUNT", 20).finish(3) == {f"spread1{i}" for i in range(10)}
    assert Scan(cluster, "TYPE", "list").finish(1, 2) == {f"list:{i}" for i in range(100)}
    assert Scan(cluster, "TYPE", "list", "MATCH", "*9").finish(1) == {f"list:{i}" for i in range(9, 100, 10)}
    assert c.ask("SELECT", 3) == "OK"
    assert c.ask("SCAN", 0) == ["0", []]
    answers = c.ask_all([("SET", "k", "v"), ("SCAN", 0), ("DEL", "k"), ("SCAN", 0), ("PING",)])
    assert answers == ["OK", ["0", ["k"]], 1, ["0", []], "PONG"]
    c.close()


def test_wrong_arguments_are_answered_as_by_one_server(cluster):
    c = Link(cluster.port(1), 30)
    for cursor in ("x", "-1", "", 2**64):
        assert c.ask("SCAN", cursor) == "ERR invalid cursor"
    assert c.ask("SCAN", 0, "COUNT", 0) == "ERR syntax error" == c.ask("SCAN", 0, "MATCH") == c.ask("SCAN", 0, "NO", 1)
    assert c.ask("SCAN", 0, "COUNT", "x") == "ERR value is not an integer or out of range"
    fill(cluster, SPREAD)
    for cursor in (1, 77, 2**22, 2**39, 2**53, 2**53 + 77, 2**63 - 1, 2**63, 2**64 - 1):  # that no node gave
        scan = Scan(cluster, "COUNT", 100)
        scan.cursor = cursor
        scan.finish(1)
        assert scan.calls < 20
    c.close()


def test_a_scan_goes_on_when_the_leader_of_the_group_that_it_is_in_is_killed(cluster):
    fill(cluster)
    scan = Scan(cluster, "COUNT", 7)
    group, leader = go_into_a_group(scan)
    cluster.kill(leader)
    left = cluster.others(leader)
    assert scan.finish(*left) == set(KEYS)
    assert len(scan.seen) > len(KEYS), "its group began again"
    assert leader_of(cluster, group, left[0]) != leader


def test_a_scan_goes_on_while_leadership_is_handed_around(cluster):
    fill(cluster)
    scan = Scan(cluster, "COUNT", 20)
    for _ in range(4):
        group, leader = go_into_a_group(scan)
        to = leader % 3 + 1
        cluster.cli("lead", group, to, "--server", f"127.0.0.1:{cluster.port(1)}")
        wait_for(lambda: leader_of(cluster, group, 1) == to, 30, lambda: f"node {to} does not lead group {group}")
    assert scan.finish(1, 2, 3) == set(KEYS) and len(scan.seen) > len(KEYS)


def test_a_scan_goes_on_after_all_nodes_were_started_anew(cluster):
    fill(cluster)
    scan = Scan(cluster, "COUNT", 20)
    for _ in range(10):
        assert scan.step(2)
    cluster.kill(*cluster.nodes)
    cluster.start(*cluster.nodes)
    cluster.wait_ok()
    assert scan.finish(1, 2, 3) == set(KEYS)


@pytest.mark.parametrize("kind", ["hash", "set", "zset"])
def test_a_scan_of_members_goes_on_under_another_leader(cluster, kind):
    add, command = {"hash": (lambda m: ("HSET", "k", m, "v"), "HSCAN"), "set": (lambda m: ("SADD", "k", m), "SSCAN"), "zset": (lambda m: ("ZADD", "k", "1", m), "ZSCAN")}[kind]
    members = {f"m{i}" for i in range(1000)}
    c = Link(cluster.port(1), 30)
    assert set(c.ask_all([add(m) for m in members])) == {1}
    c.close()
    scan = Scan(cluster, "COUNT", 10, command=(command, "k"))
    for _ in range(20):
        assert scan.step(1)
    cluster.stop(1)  # hands over what it leads
    cluster.start(1)
    cluster.wait_ok()
    cluster.stop(2)
    cluster.start(2)
    cluster.wait_ok()
    cluster.stop(3)
    assert members <= scan.finish(1, 2)


def test_without_a_majority_a_scan_is_refused_and_goes_on_later(make_cluster):
    cluster = make_cluster(args=["--cluster-timeout-ms", "500"])
    fill(cluster)
    scan = Scan(cluster, "COUNT", 100)
    for _ in range(5):
        assert scan.step(1)
    cluster.kill(2, 3)

    def refused():
        answer = cluster.ask(1, "SCAN", scan.cursor, "COUNT", 100, seconds=20)
        return isinstance(answer, Refused) and answer.code() == "CLUSTERDOWN"

    wait_for(refused, 30, lambda: "it is answered")
    cluster.start(2, 3)
    cluster.wait_ok()
    assert scan.finish(1, 2, 3) == set(KEYS)
