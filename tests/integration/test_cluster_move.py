"""Keys that are carried to other groups while clients use them: ranges move, a key space changes from mode to mode, and who drives or leads is killed meanwhile. At the end every key is there once, with its last value."""
import threading
import time

import pytest

from cluster import SPREAD, cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from clusterload import Link, Load, Lost, Refused, read_all
from conftest import PATIENCE

SPACE = "load"
ACCOUNTS = [f"{SPACE}/account{i}" for i in range(6)] + SPREAD[:6]  # in the space that is carried, and in many other groups
MONEY = 1000


def fill(i):
    return f"{SPACE}/fill{i:06d}"


def link(cluster, number=1):
    return Link(cluster.port(number), 30 * PATIENCE)


def answering(cluster):
    return next(n for n in cluster.nodes if cluster.running(n) and cluster.info(n))


def change(cluster, *words):
    """A change of the map, asked for until it is done: who was to decide it may just have been lost."""
    def asked():
        answer = cluster.ask(answering(cluster), *words, seconds=30)
        assert not isinstance(answer, Refused) or answer.code() in ("TRYAGAIN", "UNCERTAIN", "CLUSTERDOWN", "LOADING"), answer
        return answer == "OK"

    wait_for(asked, 60, lambda: f"{words} is not done: {cluster.status(answering(cluster)).get('operation')}")


def put(cluster, n):
    c = link(cluster)
    for at in range(0, n, 500):
        assert set(c.ask_all([("SET", fill(i), f"v{i}") for i in range(at, min(at + 500, n))])) == {"OK"}
    c.close()


def ranges(cluster, number):
    found = cluster.ask(number, "RANGE.MAP", SPACE)
    return None if found is None or isinstance(found, Refused) else [dict(zip(r[::2], r[1::2])) for r in found]


def range_of(cluster, number, key):
    return next((r for r in ranges(cluster, number) or [] if (r["start"] == "-" or r["start"] <= key) and (r["end"] == "+" or key < r["end"])), None)


def space(cluster, number):
    told = cluster.ask(number, "SPACE.INFO", SPACE)
    return {} if told is None or isinstance(told, Refused) else dict(zip(told[::2], told[1::2]))


def under_way(cluster, number):
    """Operations that walk, and how far each has come."""
    return [op for op in cluster.status(number).get("operation", []) if op["step"] in ("planned", "walking", "carried")]


def leader(cluster, group, number=None):
    found = next((g for g in cluster.status(number or answering(cluster)).get("group", []) if g["group"] == str(group)), {})
    return int(found["leader"]) if found.get("leader", "?").isdigit() else None


def running(cluster):
    return [n for n in cluster.nodes if cluster.running(n)]


def wait_moved(cluster, key, group):
    """Until every node's map has the range there, and nothing is under way."""
    there = lambda n: (range_of(cluster, n, key) or {}).get("shard") == group and "to-shard" not in range_of(cluster, n, key) and not under_way(cluster, n)
    wait_for(lambda: all(there(n) for n in running(cluster)), 60, lambda: f"{[range_of(cluster, n, key) for n in running(cluster)]} {under_way(cluster, answering(cluster))}")


def wait_mode(cluster, mode):
    there = lambda n: space(cluster, n).get("mode") == mode and "to-mode" not in space(cluster, n) and not under_way(cluster, n)
    wait_for(lambda: all(there(n) for n in running(cluster)), 60, lambda: f"{[space(cluster, n) for n in running(cluster)]} {under_way(cluster, answering(cluster))}")


def carried(cluster):
    """Keys, as counted by the nodes that run."""
    return sum(int(cluster.info(n).get("cluster_moves_keys", 0)) for n in running(cluster))


class Transfers(threading.Thread):
    """Moves money between accounts in many groups, by EXEC, and looks at all of them. None is made, and none is lost."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.over, self.done, self.looked, self.wrong = cluster, False, 0, 0, []

    def __enter__(self):
        c = link(self.cluster)
        assert set(c.ask_all([("SET", a, MONEY) for a in ACCOUNTS])) == {"OK"}
        c.close()
        self.start()
        return self

    def __exit__(self, *exc):
        self.over = True
        self.join(60 * PATIENCE)
        assert not self.is_alive() and not self.wrong, self.wrong[:3]

    def look(self, c):
        answers = c.ask_all([("MULTI",), *(("GET", a) for a in ACCOUNTS), ("EXEC",)])
        if isinstance(answers[-1], list):
            self.looked += 1
            if sum(map(int, answers[-1])) != MONEY * len(ACCOUNTS):
                self.wrong.append(answers[-1])

    def run(self):
        c, turn = None, 0
        while not self.over:
            turn += 1
            try:
                c = c or link(self.cluster, running(self.cluster)[turn % len(running(self.cluster))])
                a, b = ACCOUNTS[turn % len(ACCOUNTS)], ACCOUNTS[turn * 7 % len(ACCOUNTS)]
                answers = c.ask_all([("MULTI",), ("DECRBY", a, 3), ("INCRBY", b, 3), ("EXEC",)])
                self.done += isinstance(answers[-1], list)
                if turn % 5 == 0:
                    self.look(c)
            except (Lost, IndexError):
                c = None
            time.sleep(0.005)
        if c:
            c.close()


def check_all(cluster, n):
    """Every key is there, once, with its value; and as many as the commands over all keys say."""
    number = answering(cluster)
    values = read_all(cluster.port(number), [fill(i) for i in range(n)])
    wrong = [(fill(i), v) for i, v in enumerate(values) if v != f"v{i}"]
    assert not wrong, f"{len(wrong)} keys are lost or wrong: {wrong[:5]}"
    c = link(cluster, number)
    keys = c.ask("KEYS", "*")
    assert len(keys) == len(set(keys)), "a key is in two groups"
    assert c.ask("DBSIZE") == len(keys)
    money = c.ask("MGET", *ACCOUNTS)
    assert sum(map(int, money)) == MONEY * len(ACCOUNTS), money
    c.close()


def test_ranges_go_to_other_groups_and_back_under_load(cluster):
    n = 6000
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, n)
    home = range_of(cluster, 1, fill(0))["shard"]
    other, third = [g for g in (2, 3, 4) if g != home][:2]
    change(cluster, "RANGE.SPLIT", SPACE, fill(3000))
    with Transfers(cluster) as transfers, Load(cluster.ports(), clients=6, seed=7, before=f"{SPACE}/") as load:
        load.run_for(0.5)
        for key, group in ((fill(5000), other), (fill(0), third), (fill(5000), third), (fill(0), home)):
            began = time.monotonic_ns()
            change(cluster, "RANGE.MOVE", SPACE, key, group)
            wait_moved(cluster, key, group)
            assert load.answered(span=(began, time.monotonic_ns())) > 0
        with pytest.raises(AssertionError, match="the range is there already"):
            change(cluster, "RANGE.MOVE", SPACE, fill(0), home)
        change(cluster, "RANGE.MOVE", SPACE, fill(5000), home)
        wait_moved(cluster, fill(5000), home)
        change(cluster, "RANGE.MERGE", SPACE, fill(3000))
        assert transfers.done > 20 and transfers.looked > 5
    assert carried(cluster) >= 4 * n // 2
    load.check(cluster.port(2))
    check_all(cluster, n)


def test_a_space_goes_from_mode_to_mode_under_load(cluster):
    n = 3000
    put(cluster, n)
    with Transfers(cluster) as transfers, Load(cluster.ports(), clients=6, seed=8, before=f"{SPACE}/") as load:
        load.run_for(0.5)
        for mode in ("HASH", "RANGE", "BUCKET", "HASH", "BUCKET"):
            before = transfers.done
            change(cluster, "SPACE.SET", SPACE, mode)
            wait_mode(cluster, mode.lower())
            wait_for(lambda: transfers.done > before + 3, 30, lambda: "no transaction happens any more")
    assert carried(cluster) > 4 * n // 2
    load.check(cluster.port(3))
    check_all(cluster, n)


class Strikes:
    """Kills a node in the middle of a walk: some keys have been carried, not all. A walk may be over too soon for that, so there are several, one after the other."""

    def __init__(self, cluster):
        self.cluster = cluster

    def is_in_the_middle(self):
        return any(op["step"] == "walking" and "below=-" not in op["what"] for op in under_way(self.cluster, answering(self.cluster)))

    def strike(self, who, go):
        """go() begins a walk and gives what waits for its end. True: somebody was killed within it."""
        end = go()
        wait_for(lambda: self.is_in_the_middle() or not under_way(self.cluster, answering(self.cluster)), 60, lambda: "nothing is carried")
        number = who()
        struck = bool(number) and self.is_in_the_middle()
        if struck:
            self.cluster.kill(number)
        end()
        if struck:
            self.cluster.start(number)
            self.cluster.wait_ok(number)
        return struck

    def strike_at_last(self, who, go):
        for _ in range(10):
            if self.strike(who, go):
                return
        assert False, "nobody was killed while keys were carried"


def test_nodes_that_drive_and_lead_are_killed_meanwhile(cluster):
    n = 30000
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, n)
    home = range_of(cluster, 1, fill(0))["shard"]
    other = 3 if home != 3 else 4
    strikes = Strikes(cluster)

    def to_the_other_group():
        group = other if range_of(cluster, answering(cluster), fill(0))["shard"] == home else home
        change(cluster, "RANGE.MOVE", SPACE, fill(0), group)
        return lambda: wait_moved(cluster, fill(0), group)

    def to_the_other_mode():
        mode = "RANGE" if space(cluster, answering(cluster))["mode"] == "hash" else "HASH"
        change(cluster, "SPACE.SET", SPACE, mode)
        return lambda: wait_mode(cluster, mode.lower())

    with Transfers(cluster) as transfers, Load(cluster.ports(), clients=4, seed=9, before=f"{SPACE}/") as load:
        for group in (1, home, other):
            strikes.strike_at_last(lambda: leader(cluster, group), to_the_other_group)
        strikes.strike_at_last(lambda: leader(cluster, 1), to_the_other_mode)
        assert transfers.done > 20
    load.check(cluster.port(1))
    check_all(cluster, n)


def test_a_walk_goes_on_after_all_nodes_were_stopped(cluster):
    n = 20000
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, n)
    home = range_of(cluster, 1, fill(0))["shard"]
    groups = [3 if home != 3 else 4, home] * 5
    for group in groups:
        change(cluster, "RANGE.MOVE", SPACE, fill(0), group)
        wait_for(lambda: Strikes(cluster).is_in_the_middle() or not under_way(cluster, 1), 60, lambda: "nothing is carried")
        if Strikes(cluster).is_in_the_middle():
            break
    else:
        assert False, "every walk was over before anybody could be stopped"
    cluster.stop(1, 2, 3)
    cluster.start(1, 2, 3)
    cluster.wait_ok()
    wait_moved(cluster, fill(0), group)
    c = link(cluster)
    assert c.ask("DBSIZE") == n and c.ask("RANGE.COUNT", SPACE) == n
    c.close()
    values = read_all(cluster.port(2), [fill(i) for i in range(n)])
    assert values == [f"v{i}" for i in range(n)]


def test_a_range_that_moves_is_neither_cut_nor_moved_again(cluster):
    change(cluster, "SPACE.SET", SPACE, "RANGE")
    put(cluster, 20000)
    home = range_of(cluster, 1, fill(0))["shard"]
    other, third = [g for g in (2, 3, 4) if g != home][:2]
    c = link(cluster)
    answers = c.ask_all([("RANGE.MOVE", SPACE, fill(0), other), ("RANGE.SPLIT", SPACE, fill(5)), ("RANGE.MOVE", SPACE, fill(0), third), ("SPACE.SET", SPACE, "HASH")])
    assert answers[0] == "OK"
    for a in answers[1:]:
        assert a.code() == "TRYAGAIN" and "(move-range) is under way there" in a, a
    wait_moved(cluster, fill(0), other)
    assert c.ask("RANGE.SPLIT", SPACE, fill(5)) == "OK"
    c.close()
