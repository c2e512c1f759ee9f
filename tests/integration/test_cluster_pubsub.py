"""Pub/sub over three nodes: every node to every node, once each, in order; nodes that die; and key space events, which reach subscribers of any node."""
import threading
import time

import pytest

from cluster import SPREAD, Cluster, maker, wait_for
from conftest import PATIENCE
from wire import Error, Push


class Nodes(Cluster):
    """Links between nodes come up when they come up: nothing is published in earnest before each has heard each other."""

    def meet(self):
        running = [n for n in self.nodes if self.running(n)]
        for hearer in running:
            ear = self.wire(hearer)
            assert ear.ask("SUBSCRIBE", "meeting") == ["subscribe", "meeting", 1]
            missing = set(running) - {hearer}

            def heard():
                for n in missing:
                    self.ask(n, "PUBLISH", "meeting", n)
                while not ear.silent(0.05):
                    missing.discard(int(ear.reply()[2]))
                return not missing

            wait_for(heard, 30, lambda: f"node {hearer} does not hear {missing}")
            ear.close()


@pytest.fixture
def make_nodes(processes):
    yield from maker(processes, Nodes, Nodes.meet)


@pytest.fixture
def nodes(make_nodes):
    return make_nodes()


def messages(wire, n):
    return [wire.reply() for _ in range(n)]


@pytest.mark.parametrize("protocol", [2, 3])
def test_every_node_reaches_the_subscribers_of_every_node_once(nodes, protocol):
    ears = {}
    for n in nodes.nodes:
        ears[n] = nodes.wire(n, protocol)
        assert ears[n].ask("SUBSCRIBE", "news.a") == ["subscribe", "news.a", 1]
        assert ears[n].ask("PSUBSCRIBE", "news.*") == ["psubscribe", "news.*", 2]
        assert ears[n].ask("SSUBSCRIBE", "news.a") == ["ssubscribe", "news.a", 1]
    for n in nodes.nodes:
        mouth = nodes.wire(n, protocol)
        assert mouth.ask("PUBLISH", "news.a", f"from {n}") == 2, "receivers on the node that was asked"
        assert mouth.ask("SPUBLISH", "news.a", f"shard from {n}") == 1
        assert mouth.ask("PUBLISH", "news.b", f"other from {n}") == 1
        assert mouth.ask("PUBLISH", "nobody", "x") == 0
        expected = [["message", "news.a", f"from {n}"], ["pmessage", "news.*", "news.a", f"from {n}"], ["smessage", "news.a", f"shard from {n}"], ["pmessage", "news.*", "news.b", f"other from {n}"]]
        for hearer, ear in ears.items():
            got = messages(ear, 4)
            assert got == expected, f"from {n} to {hearer}"
            assert {type(m) for m in got} == {Push if protocol == 3 else list}
        mouth.close()
    for n in nodes.nodes:  # nothing came twice: the next thing is this one
        nodes.ask(n, "SPUBLISH", "news.a", "the end")
        for ear in ears.values():
            assert ear.reply() == ["smessage", "news.a", "the end"]


def test_a_node_counts_its_own_subscribers(nodes):
    ear = nodes.wire(2)
    ear.ask("SUBSCRIBE", "here")
    ear.ask("PSUBSCRIBE", "h*")
    ear.ask("SSUBSCRIBE", "shard")
    own, other = nodes.wire(2), nodes.wire(1)
    assert own.ask("PUBSUB", "CHANNELS") == ["here"] and other.ask("PUBSUB", "CHANNELS") == []
    assert own.ask("PUBSUB", "NUMSUB", "here") == ["here", 1] and other.ask("PUBSUB", "NUMSUB", "here") == ["here", 0]
    assert own.ask("PUBSUB", "NUMPAT") == 1 and other.ask("PUBSUB", "NUMPAT") == 0
    assert own.ask("PUBSUB", "SHARDCHANNELS") == ["shard"] and other.ask("PUBSUB", "SHARDNUMSUB", "shard") == ["shard", 0]
    assert other.ask("PUBLISH", "here", "x") == 0
    assert messages(ear, 2) == [["message", "here", "x"], ["pmessage", "h*", "here", "x"]]


def test_what_one_client_publishes_arrives_in_its_order(nodes):
    count, publishers = 3000, 4
    ears = [nodes.wire(n) for n in (1, 2, 3)]
    for ear in ears:
        ear.ask("SUBSCRIBE", "order")

    def publish(number):
        mouth = nodes.wire(number % 3 + 1)
        for start in range(0, count, 100):
            for i in range(start, start + 100):
                mouth.command("PUBLISH", "order", f"{number}:{i}")
            assert all(not isinstance(mouth.reply(), Error) for _ in range(100))
        mouth.close()

    threads = [threading.Thread(target=publish, args=(k,)) for k in range(publishers)]
    for t in threads:
        t.start()
    for ear in ears:
        last = [-1] * publishers
        for _ in range(count * publishers):
            kind, channel, text = ear.reply()
            who, i = map(int, text.split(":"))
            assert (kind, channel, i) == ("message", "order", last[who] + 1)
            last[who] = i
    for t in threads:
        t.join()
    for n in nodes.nodes:
        assert nodes.info(n)["cluster_stats_messages_publish_dropped"] == "0"
        assert int(nodes.info(n)["cluster_stats_messages_publish_received"]) >= count


def test_long_messages_arrive_whole_and_longer_ones_are_refused(nodes):
    ear, mouth = nodes.wire(1), nodes.wire(3)
    ear.ask("SUBSCRIBE", "long")
    text = "0123456789abcdef" * (7 * 1024 * 1024 // 16)
    assert mouth.ask("PUBLISH", "long", text) == 0
    assert ear.reply() == ["message", "long", text]
    refusal = mouth.ask("PUBLISH", "long", "x" * (8 * 1024 * 1024))
    assert isinstance(refusal, Error) and "8 MiB" in refusal
    assert mouth.ask("PUBLISH", "long", "after") == 0
    assert ear.reply() == ["message", "long", "after"]


def test_a_killed_node_costs_its_own_subscribers_and_nobody_else(nodes):
    ears = {n: nodes.wire(n) for n in (1, 2)}
    for ear in ears.values():
        ear.ask("SUBSCRIBE", "c")
    nodes.kill(3)
    for i in range(20):
        assert nodes.ask(1, "PUBLISH", "c", f"while away {i}") == 1
    for ear in ears.values():
        assert messages(ear, 20) == [["message", "c", f"while away {i}"] for i in range(20)]
    nodes.start(3)
    nodes.wait_ok(3)
    nodes.meet()
    late = nodes.wire(3)
    late.ask("SUBSCRIBE", "c")
    assert nodes.ask(3, "PUBLISH", "c", "back") == 1
    assert nodes.ask(2, "PUBLISH", "c", "welcome") == 1
    assert sorted(m[2] for m in messages(late, 2)) == ["back", "welcome"], "what was published while it was away is not repeated"
    for ear in ears.values():
        assert sorted(m[2] for m in messages(ear, 2)) == ["back", "welcome"]


def test_a_paused_node_holds_up_no_publisher_and_what_waits_for_it_is_bounded(nodes):
    """A node that reads nothing: the others publish more than any buffer between them takes."""
    ear = nodes.wire(2)
    ear.ask("SUBSCRIBE", "flood")
    mouth = nodes.wire(1)
    text = "x" * 1024 * 1024
    nodes.pause(3)
    try:
        sent, began = 0, time.monotonic()
        while int(nodes.info(1)["cluster_stats_messages_publish_dropped"]) == 0:
            assert time.monotonic() < began + 60 * PATIENCE, f"nothing was dropped after {sent} messages"
            assert mouth.ask("PUBLISH", "flood", f"{sent}:{text}") == 0
            assert ear.reply()[2].split(":")[0] == str(sent)
            sent += 1
            if nodes.info(1).get("cluster_state") is None:
                raise AssertionError("node 1 does not answer")
    finally:
        nodes.resume(3)
    nodes.wait_ok()
    nodes.meet()


def test_events_of_keys_reach_subscribers_of_every_node_once(make_nodes):
    nodes = make_nodes(args=["--notify-keyspace-events", "KEA"])
    keys = SPREAD[:64]
    for n in nodes.nodes:
        ear = nodes.wire(n)
        ear.ask("PSUBSCRIBE", "__keyevent@0__:*")
        writer = nodes.wire(n % 3 + 1)
        for k in keys:
            assert writer.ask("SET", k, n) == "OK"
        got = messages(ear, len(keys))
        assert sorted(m[3] for m in got) == sorted(keys)
        assert {m[2] for m in got} == {"__keyevent@0__:set"}
        assert writer.ask("SET", keys[0], "soon gone", "PX", "50") == "OK"
        assert {ear.reply()[2] for _ in range(2)} == {"__keyevent@0__:set", "__keyevent@0__:expire"}
        assert ear.reply()[2:] == ["__keyevent@0__:expired", keys[0]]
        assert writer.ask("DEL", keys[1]) == 1
        assert ear.reply()[2:] == ["__keyevent@0__:del", keys[1]]
        ear.close()
