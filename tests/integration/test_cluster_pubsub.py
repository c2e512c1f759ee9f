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


class Ear:
    """A subscriber of all events, on one node. What was told is what it hears up to a word of its own from each node: messages of one node stay in their order."""

    def __init__(self, nodes, number):
        self.nodes = nodes
        self.end = f"that is all for {number}"
        self.wire = nodes.wire(number)
        self.wire.ask("PSUBSCRIBE", "__key*@*__:*")
        self.wire.ask("SUBSCRIBE", self.end)

    def heard(self, n):
        """The next n messages of one channel of each event, as (event, key, database), sorted: events of different groups have no order."""
        told = {"keyspace": [], "keyevent": []}
        for _ in range(2 * n):
            kind, pattern, channel, text = self.wire.reply()
            head, name = channel.split("__:", 1)
            channel, db = head.lstrip("_").split("@")
            told[channel].append((text, name, int(db)) if channel == "keyspace" else (name, text, int(db)))
        assert sorted(told["keyspace"]) == sorted(told["keyevent"])
        return sorted(told["keyspace"])

    def is_all(self):
        for n in self.nodes.nodes:
            self.nodes.ask(n, "PUBLISH", self.end, n)
        assert sorted(self.wire.reply() for _ in self.nodes.nodes) == [["message", self.end, str(n)] for n in self.nodes.nodes], "there was more"


def events(name, keys, db=0):
    return [(name, k, db) for k in keys]


def all_hear(ears, expected):
    for ear in ears:
        assert ear.heard(len(expected)) == sorted(expected)


def test_events_of_commands_over_groups_reach_subscribers_of_every_node_once(make_nodes):
    nodes = make_nodes(args=["--notify-keyspace-events", "KEAn"])
    keys = SPREAD[:64]  # four times as many as there are groups
    some = keys[:24]
    ears = [Ear(nodes, n) for n in nodes.nodes]
    for n in nodes.nodes:
        writer = nodes.wire(n)
        began = int(nodes.info(n)["cluster_transactions_committed"])
        assert writer.ask("MSET", *(w for k in keys for w in (k, n))) == "OK"
        all_hear(ears, events("set", keys) + events("new", keys))
        assert writer.ask("DEL", *some, "not there") == len(some)
        all_hear(ears, events("del", some))
        assert writer.ask("MULTI") == "OK"
        for k in some:
            assert writer.ask("RPUSH", k, "a", "b") == "QUEUED"
        assert [writer.ask("RENAME", some[0], some[1]), writer.ask("EXPIRE", some[2], 0), writer.ask("SELECT", 3), writer.ask("SET", some[3], "x"), writer.ask("GET", some[4])] == ["QUEUED"] * 5
        assert writer.ask("EXEC") == [2] * len(some) + ["OK", 1, "OK", "OK", None]
        all_hear(ears, events("new", some) + events("rpush", some) + [("rename_from", some[0], 0), ("rename_to", some[1], 0), ("del", some[2], 0), ("new", some[3], 3), ("set", some[3], 3)])
        assert writer.ask("DEL", some[3]) == 1 and writer.ask("SELECT", 0) == "OK"
        all_hear(ears, [("del", some[3], 3)])
        assert writer.ask("MSETNX", some[4], "x", keys[-1], "x") == 0 and len(writer.ask("MGET", *keys[24:])) == 40
        for ear in ears:
            ear.is_all()
        assert int(nodes.info(n)["cluster_transactions_committed"]) >= began + 3, "they did not go over groups"
        assert writer.ask("DEL", *keys) == 62
        all_hear(ears, events("del", [k for k in keys if k not in (some[0], some[2])]))


def test_what_stops_a_transaction_over_groups_stops_its_events(make_nodes):
    nodes = make_nodes(args=["--notify-keyspace-events", "KEA"])
    keys = SPREAD[:32]
    ear, writer, other = Ear(nodes, 1), nodes.wire(2), nodes.wire(3)
    assert writer.ask("WATCH", *keys) == "OK" and other.ask("SET", keys[5], "changed") == "OK"
    assert writer.ask("MULTI") == "OK" and writer.ask("MSET", *(w for k in keys for w in (k, "x"))) == "QUEUED"
    assert writer.ask("EXEC") is None
    assert ear.heard(1) == events("set", [keys[5]])
    ear.is_all()


def test_events_of_a_node_on_which_they_are_switched_off_are_not_told(make_nodes):
    """Who leads says what is told of single groups; over groups the client's node has a say, too."""
    nodes = make_nodes(args=["--notify-keyspace-events", "KEA"])
    keys = SPREAD[:32]
    ear, writer = Ear(nodes, 1), nodes.wire(2)
    assert writer.ask("CONFIG", "SET", "notify-keyspace-events", "") == "OK"
    assert writer.ask("MSET", *(w for k in keys for w in (k, "x"))) == "OK"
    assert writer.ask("CONFIG", "SET", "notify-keyspace-events", "KEA") == "OK"
    assert nodes.wire(3).ask("DEL", *keys) == len(keys)  # each by whoever has written it, so what was told of that would come first
    all_hear([ear], events("del", keys))
    ear.is_all()


def wait_at_rest(nodes, group):
    def there(n):
        found = nodes.ask(n, "RANGE.MAP", "r")
        last = dict(zip(found[-1][::2], found[-1][1::2])) if isinstance(found, list) and len(found) == 2 else {}
        return last.get("shard") == group and "to-shard" not in last

    wait_for(lambda: all(there(n) for n in nodes.nodes), 60, lambda: [nodes.ask(n, "RANGE.MAP", "r") for n in nodes.nodes])


def test_keys_that_are_carried_are_no_event_and_a_range_over_groups_that_is_deleted_is_one_for_each_key(make_nodes):
    nodes = make_nodes(args=["--notify-keyspace-events", "KEAn"])
    writer = nodes.wire(1)
    keys = [f"r/{i:03d}" for i in range(400)]
    change = lambda *words: wait_for(lambda: nodes.ask(1, *words) == "OK", 30, lambda: f"{words} is not done: {nodes.ask(1, *words)}")
    change("SPACE.SET", "r", "RANGE")
    change("RANGE.SPLIT", "r", "r/200")
    ears = [Ear(nodes, n) for n in nodes.nodes]
    assert writer.ask("MSET", *(w for k in keys for w in (k, "v"))) == "OK"
    all_hear(ears, events("new", keys) + events("set", keys))
    home = dict(zip(*[iter(nodes.ask(1, "RANGE.MAP", "r")[0])] * 2))["shard"]
    away = next(g for g in (3, 4) if g != home)
    change("RANGE.MOVE", "r", "r/200", away)
    wait_at_rest(nodes, away)
    for ear in ears:
        ear.is_all()
    assert writer.ask("RANGE.DEL", "r", "r/100", "r/300") == 200
    all_hear(ears, events("del", keys[100:300]))
    for ear in ears:
        ear.is_all()
    assert writer.ask("SET", keys[399], "x", "PX", 50) == "OK", "which the other group has now"
    all_hear(ears, [("expire", keys[399], 0), ("expired", keys[399], 0), ("set", keys[399], 0)])
    for ear in ears:
        ear.is_all()
