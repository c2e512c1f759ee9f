"""Keys that go to another group while clients wait for them: who waits goes on where the key is, on whatever node, and each element is popped once."""
import threading

import pytest

from cluster import maker, wait_for
from conftest import PATIENCE
from test_cluster_blocking import PASSING, TIMEOUT, Nodes

KEYS = 2000  # that move beside those that are waited for: several slices


def as_dict(row):
    return dict(zip(row[::2], row[1::2]))


class Movers(Nodes):
    """The key space Q has an order, and some keys."""

    def __init__(self, processes):
        super().__init__(processes)
        for i in range(0, KEYS, 500):
            self.push(1, "MSET", *(word for k in range(i, i + 500) for word in (f"Q/{k:04d}", k)))
        assert self.push(1, "SPACE.SET", "Q", "RANGE") == "OK"
        wait_for(lambda: as_dict(self.ask(1, "SPACE.INFO", "Q"))["state"] == "ready", 30, lambda: "the key space is not in order")
        self.groups = [g for g in (int(row["group"]) for row in self.status(1)["group"]) if g >= 2]

    def rows(self):
        rows = self.ask(1, "RANGE.MAP", "Q")
        return [as_dict(row) for row in rows] if isinstance(rows, list) else []

    def group(self):
        """The one that has all of it; None while it moves."""
        rows = self.rows()
        return int(rows[0]["shard"]) if len(rows) == 1 and "to-shard" not in rows[0] else None

    def move(self, group):
        """Until it is there."""
        assert self.push(1, "RANGE.MOVE", "Q", "Q/a", group) == "OK"
        wait_for(lambda: self.group() == group, 60, lambda: f"not in group {group}: {self.rows()}")


@pytest.fixture
def make_movers(processes):
    yield from maker(processes, Movers)


@pytest.fixture
def nodes(make_movers):
    return make_movers()


def test_who_waits_for_a_key_that_moves_is_served_where_it_is(nodes):
    waiters = [nodes.block(n, "BLPOP", "Q/queue", 0) for n in nodes.nodes for _ in range(2)]
    sorted_sets = [nodes.block(n, "BZPOPMIN", "Q/scores", 0) for n in nodes.nodes]
    others = [nodes.block(n, "BLPOP", "elsewhere", 0) for n in nodes.nodes]
    home = nodes.group()
    away = next(g for g in nodes.groups if g != home)
    nodes.move(away)
    for n in nodes.nodes:
        nodes.wait_blocked(n, 4)  # all of them wait on, there
    nodes.push(2, "RPUSH", "Q/queue", *range(len(waiters)))
    got = [w.reply()[1] for w in waiters]
    assert sorted(got, key=int) == [str(i) for i in range(len(waiters))]
    for i, w in enumerate(sorted_sets):
        assert nodes.push(1, "ZADD", "Q/scores", i, f"m{i}") == 1
    assert sorted(w.reply()[1] for w in sorted_sets) == [f"m{i}" for i in range(len(sorted_sets))]
    nodes.push(3, "RPUSH", "elsewhere", *range(len(others)))
    assert sorted(w.reply()[1] for w in others) == [str(i) for i in range(len(others))]
    assert nodes.ask(1, "EXISTS", "Q/queue", "Q/scores", "elsewhere") == 0


def test_a_wait_ends_in_time_wherever_its_key_has_gone(nodes):
    home = nodes.group()
    away = next(g for g in nodes.groups if g != home)
    forever = nodes.block(3, "BLPOP", "Q/queue", 0)
    w = nodes.block(2, "BLPOP", "Q/queue", 4 * PATIENCE)
    nodes.move(away)
    assert w.reply() is None
    nodes.push(1, "RPUSH", "Q/queue", "x")
    assert forever.reply() == ["Q/queue", "x"]


class Producer(threading.Thread):
    def __init__(self, nodes, number, count):
        super().__init__(daemon=True)
        self.nodes, self.number, self.count = nodes, number, count
        self.sent, self.doubtful, self.failure = [], [], None

    def run(self):
        try:
            for i in range(self.count):
                element = f"{self.number}-{i}"
                answer = self.nodes.ask(self.number, "RPUSH", "Q/queue", element, seconds=TIMEOUT)
                refused = isinstance(answer, str)
                assert not refused or answer.startswith(PASSING), answer
                if not refused:
                    self.sent.append(element)
                elif answer.startswith("UNCERTAIN"):
                    self.doubtful.append(element)
        except Exception as e:  # noqa: BLE001, shown by the test
            self.failure = e


class Consumer(threading.Thread):
    """Pops until it gets the word that ends it."""

    def __init__(self, nodes, number):
        super().__init__(daemon=True)
        self.wire = nodes.wire(number)
        self.got, self.uncertain, self.failure = [], 0, None

    def run(self):
        try:
            while True:
                self.wire.command("BLPOP", "Q/queue", 0)
                answer = self.wire.reply()
                if isinstance(answer, list) and answer[1] == "end":
                    return
                if isinstance(answer, list):
                    self.got.append(answer[1])
                    continue
                assert str(answer).startswith(PASSING), answer
                self.uncertain += str(answer).startswith("UNCERTAIN")
        except Exception as e:  # noqa: BLE001
            self.failure = e


def test_each_element_is_popped_once_while_its_key_goes_to_and_fro(nodes):
    home = nodes.group()
    away = next(g for g in nodes.groups if g != home)
    consumers = [Consumer(nodes, n) for n in nodes.nodes for _ in range(2)]
    producers = [Producer(nodes, n, 400) for n in nodes.nodes]
    for t in consumers + producers:
        t.start()
    moves = 0
    while moves < 4 or (any(p.is_alive() for p in producers) and moves < 40):
        nodes.move(away if moves % 2 == 0 else home)
        moves += 1
    for p in producers:
        p.join(TIMEOUT)
        assert not p.is_alive() and p.failure is None, p.failure
    for c in consumers:
        assert isinstance(nodes.push(1, "RPUSH", "Q/queue", "end"), int)
    for c in consumers:
        c.join(TIMEOUT)
        assert not c.is_alive() and c.failure is None, c.failure
    got = [e for c in consumers for e in c.got]
    sent = {e for p in producers for e in p.sent}
    doubtful = {e for p in producers for e in p.doubtful}
    assert len(got) == len(set(got)), "an element was popped twice"
    missing = sent - set(got)
    assert len(missing) <= sum(c.uncertain for c in consumers), f"missing: {sorted(missing)[:10]}"
    assert set(got) <= sent | doubtful
