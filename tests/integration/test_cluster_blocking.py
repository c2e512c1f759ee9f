"""Commands that wait, in a cluster of three nodes: for keys that another node leads, in line with clients of all nodes; and what ends a wait: time, the client, its node, the leader. Each element is popped once."""
import random
import socket
import struct
import threading
import time

import pytest

from cluster import Cluster, maker, wait_for
from conftest import PATIENCE
from wire import Error, Push

TIMEOUT = 60 * PATIENCE
PASSING = ("CLUSTERDOWN", "TRYAGAIN", "UNCERTAIN", "LOADING")


class Nodes(Cluster):
    def blocked(self, number):
        text = self.ask(number, "INFO", "clients")
        return int(text.split("blocked_clients:")[1].split()[0]) if text else -1

    def wait_blocked(self, number, count):
        wait_for(lambda: self.blocked(number) == count, 30, lambda: f"{self.blocked(number)} clients of node {number} wait, not {count}")

    def block(self, number, *words, protocol=2):
        """A client whose command is in line."""
        before = self.blocked(number)
        w = self.wire(number, protocol)
        w.command(*words)
        self.wait_blocked(number, before + 1)
        return w

    def here(self, number):
        return int(self.info(number)["cluster_requests_here"])

    def leader(self, key):
        """Of the key's group: the node that does not send a request on. Nobody else uses the cluster meanwhile."""
        for n in self.nodes:
            if not self.running(n):
                continue
            before = self.here(n)
            self.ask(n, "EXISTS", key)
            if self.here(n) > before:
                return n
        return None

    def key_led_by(self, number, name="k"):
        for i in range(200):
            key = f"{name}{i}"
            if self.leader(key) == number:
                return key
        raise AssertionError(f"node {number} leads none of 200 keys")

    def push(self, number, *words):
        """Until it is done: for when the leader was lost. The command must bear being done twice."""
        answer = None
        deadline = time.monotonic() + 30 * PATIENCE
        while answer is None or (isinstance(answer, str) and answer.startswith(PASSING)):
            assert time.monotonic() < deadline, f"{words}: {answer}"
            answer = self.ask(number, *words, seconds=30)
        return answer


@pytest.fixture
def make_nodes(processes):
    yield from maker(processes, Nodes)


@pytest.fixture
def nodes(make_nodes):
    return make_nodes()


# ---- being served

COMMANDS = [
    (("BLPOP", "Q/a", "Q/b", 0), ("RPUSH", "Q/b", "1", "2"), ["Q/b", "1"]),
    (("BRPOP", "Q/a", 0), ("RPUSH", "Q/a", "1", "2"), ["Q/a", "2"]),
    (("BLMOVE", "Q/a", "Q/to", "LEFT", "RIGHT", 0), ("RPUSH", "Q/a", "1"), "1"),
    (("BRPOPLPUSH", "Q/a", "Q/to", 0), ("RPUSH", "Q/a", "1"), "1"),
    (("BLMPOP", 0, 2, "Q/a", "Q/b", "LEFT", "COUNT", 2), ("RPUSH", "Q/a", "1", "2", "3"), ["Q/a", ["1", "2"]]),
    (("BZPOPMIN", "Q/z", 0), ("ZADD", "Q/z", "1", "a", "2", "b"), ["Q/z", "a", "1"]),
    (("BZPOPMAX", "Q/z", 0), ("ZADD", "Q/z", "1", "a", "2", "b"), ["Q/z", "b", "2"]),
    (("BZMPOP", 0, 1, "Q/z", "MIN"), ("ZADD", "Q/z", "1", "a", "2", "b"), ["Q/z", [["a", "1"]]]),
]


def test_every_command_waits_for_keys_of_every_node_and_is_served_from_every_node(nodes):
    """A key space is in one group, whose leader is known."""
    spaces = {n: nodes.key_led_by(n, "s") for n in nodes.nodes}
    for asker in nodes.nodes:
        for leader, space in spaces.items():
            for turn, (words, push, expected) in enumerate(COMMANDS):
                def named(ws):
                    return [str(w).replace("Q/", f"{space}/") for w in ws]

                waiter = nodes.block(asker, *named(words))
                assert nodes.ask(turn % 3 + 1, *named(push)) in (1, 2, 3)
                assert str(waiter.reply()) == str(expected).replace("Q/", f"{space}/"), f"{words} by node {asker}, led by {leader}"
                waiter.close()
                nodes.ask(asker, "DEL", *[f"{space}/{k}" for k in ("a", "b", "z", "to")])
    for n in nodes.nodes:
        nodes.wait_blocked(n, 0)
    assert sum(int(nodes.info(n)["cluster_requests_guests"]) > 0 for n in nodes.nodes) >= 2, "nobody waited on another node"


def test_what_is_there_is_taken_at_once_and_errors_come_back(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        for asker in nodes.nodes:
            assert nodes.ask(asker, "RPUSH", f"{key}x", "1") == 1
            assert nodes.ask(asker, "BLPOP", f"{key}x", 0) == [f"{key}x", "1"]
            nodes.ask(asker, "SET", key, "no list")
            assert nodes.ask(asker, "BLPOP", key, 0).startswith("WRONGTYPE")
            assert nodes.ask(asker, "BLPOP", key, "soon") == "ERR timeout is not a float or out of range"
            assert nodes.ask(asker, "BLPOP", key, -1) == "ERR timeout is negative"
            nodes.ask(asker, "DEL", key)
    assert nodes.ask(1, "BLPOP", *[f"other{i}" for i in range(64)], 0).startswith("CROSSSHARD")
    assert nodes.ask(2, "WAIT", 0, 0) == 0


def test_clients_of_all_nodes_are_served_in_the_order_in_which_they_came(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        waiters = [nodes.block(n, "BLPOP", key, 0) for n in (1, 2, 3, 3, 1, 2)]
        assert nodes.ask(leader % 3 + 1, "RPUSH", key, *"abcdef") in (1, 2, 3, 4, 5, 6)
        assert [w.reply() for w in waiters] == [[key, c] for c in "abcdef"]
        assert nodes.ask(1, "EXISTS", key) == 0
        for w in waiters:
            w.close()


def test_a_pipeline_stops_at_it_and_goes_on_behind_it(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        w = nodes.wire(1)
        for words in (("SET", f"{key}.before", leader), ("BLPOP", key, 0), ("GET", f"{key}.before"), ("PING",)):
            w.command(*words)
        assert w.reply() == "OK", "what stands before it is answered while it waits"
        nodes.wait_blocked(1, 1)
        nodes.ask(2, "RPUSH", key, "x")
        assert [w.reply() for _ in range(3)] == [[key, "x"], str(leader), "PONG"]
        w.close()


def test_messages_reach_a_client_while_it_waits(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        w = nodes.wire(1, 3)
        assert w.ask("SUBSCRIBE", "news") == ["subscribe", "news", 1]
        w.command("BLPOP", key, 0)
        nodes.wait_blocked(1, 1)
        assert nodes.ask(1, "PUBLISH", "news", "meanwhile") == 1
        message = w.reply()
        assert isinstance(message, Push) and message == ["message", "news", "meanwhile"]
        nodes.ask(2, "RPUSH", key, "x")
        assert w.reply() == [key, "x"]
        w.close()


# ---- the end of a wait

def test_after_a_time_out_nothing_is_taken(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        for asker in nodes.nodes:
            began = time.monotonic()
            w = nodes.wire(asker)
            assert w.ask("BLPOP", key, 0.15) is None
            assert w.ask("BLMOVE", key, key, "LEFT", "LEFT", 0.05) is None
            assert time.monotonic() - began >= 0.2
            w.close()
            assert nodes.blocked(asker) == 0
            assert nodes.ask(asker, "RPUSH", key, "stays") == 1
            assert nodes.ask(asker, "LPOP", key) == "stays"


@pytest.mark.parametrize("close", ["closes", "is killed", "resets"])
def test_a_client_that_is_gone_swallows_nothing(nodes, close):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        for asker in nodes.nodes:
            gone = nodes.wire(asker)
            number = gone.ask("CLIENT", "ID")
            gone.command("BLPOP", key, 0)
            nodes.wait_blocked(asker, 1)
            heir = nodes.block(asker % 3 + 1, "BLPOP", key, 0)
            if close == "is killed":
                assert nodes.ask(asker, "CLIENT", "KILL", "ID", number) == 1
            elif close == "resets":
                gone.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.close()
            else:
                gone.close()
            nodes.wait_blocked(asker, 0)
            nodes.ask(leader, "RPUSH", key, "1", "2")
            assert heir.reply() == [key, "1"], "the first in line was gone, the second has it"
            assert nodes.ask(asker, "LPOP", key) == "2"
            heir.close()


def test_a_client_is_unblocked(nodes):
    for leader in nodes.nodes:
        key = nodes.key_led_by(leader)
        w = nodes.wire(1)
        number = w.ask("CLIENT", "ID")
        for how, answer in (("TIMEOUT", None), ("ERROR", "UNBLOCKED client unblocked via CLIENT UNBLOCK")):
            w.command("BLPOP", key, 0)
            nodes.wait_blocked(1, 1)
            assert " flags=b " in next(line for line in nodes.ask(1, "CLIENT", "LIST").splitlines() if line.startswith(f"id={number} "))
            assert nodes.ask(1, "CLIENT", "UNBLOCK", number, how) == 1
            assert w.reply() == answer
        assert nodes.ask(1, "CLIENT", "UNBLOCK", number) == 0
        assert nodes.ask(2, "RPUSH", key, "x") == 1
        assert w.ask("LPOP", key) == "x"
        w.close()


# ---- leaders that are lost

@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_leader_is_lost_while_clients_wait_and_each_is_served_once(nodes, how):
    victim = 2
    key = nodes.key_led_by(victim)
    waiters = [nodes.block(n, "BLPOP", key, 0) for n in (1, 3)]
    if how == "killed":
        nodes.kill(victim)
    else:
        nodes.stop(victim)
    for i in range(2):
        nodes.push(1, "RPUSH", key, f"e{i}")
    got = [w.reply() for w in waiters]
    assert sorted(g[1] for g in got) == ["e0", "e1"], got
    nodes.start(victim)
    nodes.wait_ok()
    assert nodes.push(3, "LLEN", key) == 0
    late = nodes.block(victim, "BLPOP", key, 0)
    nodes.push(1, "RPUSH", key, "later")
    assert late.reply() == [key, "later"]


def test_leadership_moves_while_clients_wait(nodes):
    key = nodes.key_led_by(1)
    waiters = {n: nodes.block(n, "BLPOP", key, 0) for n in nodes.nodes}
    asked_again = {n: int(nodes.info(n)["cluster_requests_retried"]) for n in nodes.nodes}

    def moved():
        """Leaders are spread evenly again before long: it is enough that each of them was another one for a while."""
        for g in nodes.status(1)["group"]:
            if int(g["group"]) >= 2 and g["leader"] == "1":
                nodes.cli("lead", g["group"], 2, "--server", f"127.0.0.1:{nodes.port(1)}")
        return all(int(nodes.info(n)["cluster_requests_retried"]) > asked_again[n] for n in nodes.nodes)

    wait_for(moved, 60, lambda: "no wait had to look for another leader")
    for i in range(3):
        nodes.push(3, "RPUSH", key, f"e{i}")
    got = {n: w.reply() for n, w in waiters.items()}
    assert sorted(g[1] for g in got.values()) == ["e0", "e1", "e2"], got
    assert nodes.push(1, "EXISTS", key) == 0


def test_a_time_out_counts_on_over_a_change_of_leaders(nodes):
    key = nodes.key_led_by(2)
    w = nodes.block(1, "BLPOP", key, 6)
    began = time.monotonic()
    nodes.kill(2)
    assert w.reply() is None
    assert 4 <= time.monotonic() - began
    assert nodes.push(1, "RPUSH", key, "stays") >= 1


# ---- a history

class Consumer(threading.Thread):
    def __init__(self, nodes, seed, keys):
        super().__init__()
        self.nodes, self.rng, self.keys = nodes, random.Random(seed), keys
        self.popped, self.uncertain, self.odd = [], 0, []
        self.done = False

    def run(self):
        wire = None
        while not self.done:
            try:
                if wire is None:
                    wire = self.nodes.wire(self.rng.choice([1, 2, 3]))
                answer = wire.ask("BLPOP", self.rng.choice(self.keys), self.rng.choice(["0.05", "0.3", "1"]))
            except (OSError, ConnectionError, EOFError, AssertionError):
                self.uncertain += wire is not None  # it may have been popped for us
                wire = None
                time.sleep(0.05)
                continue
            if isinstance(answer, Error):
                self.uncertain += answer.startswith("UNCERTAIN")
                if not answer.startswith(PASSING):
                    self.odd.append(answer)
            elif answer:
                self.popped.append(answer[1])


def test_every_element_is_popped_once_while_leaders_are_lost(nodes):
    keys = [nodes.key_led_by(n, "queue") for n in nodes.nodes]
    consumers = [Consumer(nodes, i, keys) for i in range(8)]
    for c in consumers:
        c.start()
    pushed, unsure = set(), set()
    rng = random.Random(1)

    def produce(seconds):
        until = time.monotonic() + seconds
        wires = {}
        while time.monotonic() < until:
            n = rng.choice([m for m in nodes.nodes if nodes.running(m)])
            value = f"v{len(pushed) + len(unsure)}"
            try:
                if n not in wires:
                    wires[n] = nodes.wire(n)
                answer = wires[n].ask("RPUSH", rng.choice(keys), value)
            except (OSError, ConnectionError, EOFError, AssertionError):
                wires.pop(n, None)
                unsure.add(value)
                continue
            (unsure if isinstance(answer, Error) else pushed).add(value)
            time.sleep(0.002)

    produce(1.5)
    for victim in (2, 3):
        nodes.kill(victim)
        produce(2)
        nodes.start(victim)
        nodes.wait_ok()
        produce(1)
    wait_for(lambda: all(nodes.push(1, "LLEN", k) == 0 for k in keys), 60, lambda: "the queues do not become empty")
    for c in consumers:
        c.done = True
    for c in consumers:
        c.join(TIMEOUT)
    popped = [v for c in consumers for v in c.popped]
    missing = pushed - set(popped)
    uncertain = sum(c.uncertain for c in consumers)
    assert not [o for c in consumers for o in c.odd]
    assert len(pushed) > 200 and len(popped) > 200, "little happened"
    assert len(popped) == len(set(popped)), "popped twice"
    assert set(popped) <= pushed | unsure
    assert len(missing) <= uncertain, f"{len(missing)} elements are nowhere, {uncertain} pops had an uncertain end"
