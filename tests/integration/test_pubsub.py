"""Channels, patterns, sharded channels: publishers and subscribers on different threads."""
import os
import threading
import time

import pytest

from wire import Push, Wire

both_protocols = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture
def server(request, make_server):
    return make_server(workers=4, args=getattr(request, "param", ()))


@pytest.fixture
def open_wires(server):
    wires = []

    def open_many(n, protocol=2):
        fresh = [Wire(server, protocol) for _ in range(n)]
        wires.extend(fresh)
        return fresh

    yield open_many
    for w in wires:
        w.close()


@both_protocols
def test_confirmations_count_channels_and_patterns_together(open_wires, protocol):
    (w,) = open_wires(1, protocol)
    shape = Push if protocol == 3 else list
    w.command("SUBSCRIBE", "a", "b", "a")
    assert [w.reply() for _ in range(3)] == [["subscribe", "a", 1], ["subscribe", "b", 2], ["subscribe", "a", 2]]
    answer = w.ask("PSUBSCRIBE", "x*")
    assert type(answer) is shape and answer == ["psubscribe", "x*", 3]
    assert w.ask("SSUBSCRIBE", "s") == ["ssubscribe", "s", 1]
    assert w.ask("UNSUBSCRIBE", "nothing") == ["unsubscribe", "nothing", 3]
    assert w.ask("UNSUBSCRIBE", "a") == ["unsubscribe", "a", 2]
    assert w.ask("UNSUBSCRIBE") == ["unsubscribe", "b", 1]
    assert w.ask("UNSUBSCRIBE") == ["unsubscribe", None, 1]
    assert w.ask("PUNSUBSCRIBE") == ["punsubscribe", "x*", 0]
    assert w.ask("SUNSUBSCRIBE") == ["sunsubscribe", "s", 0]
    assert w.ask("SUNSUBSCRIBE") == ["sunsubscribe", None, 0]
    assert w.ask("GET", "k") is None, "no subscriber any more"


@both_protocols
def test_a_message_has_the_form_of_its_kind(open_wires, protocol):
    w, publisher = open_wires(2, protocol)
    w.ask("SUBSCRIBE", "news.a")
    w.ask("PSUBSCRIBE", "news.*")
    w.ask("SSUBSCRIBE", "news.a")
    assert publisher.ask("PUBLISH", "news.a", "hello") == 2
    assert publisher.ask("SPUBLISH", "news.a", "shard") == 1
    assert publisher.ask("PUBLISH", "other", "x") == 0
    messages = [w.reply() for _ in range(3)]
    assert messages == [["message", "news.a", "hello"], ["pmessage", "news.*", "news.a", "hello"], ["smessage", "news.a", "shard"]]
    assert {type(m) for m in messages} == {Push if protocol == 3 else list}


def test_a_resp2_subscriber_may_do_little_and_gets_pong_as_a_message(open_wires):
    (w,) = open_wires(1)
    w.ask("SUBSCRIBE", "c")
    assert w.ask("PING") == ["pong", ""]
    assert w.ask("PING", "x") == ["pong", "x"]
    assert w.ask("SET", "k", "v") == ("ERR Can't execute 'set': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
                                      "are allowed in this context")
    w.ask("UNSUBSCRIBE", "c")
    assert w.ask("PING") == "PONG"


def test_a_resp3_subscriber_may_do_everything_and_hears_itself_after_the_reply(open_wires):
    (w,) = open_wires(1, 3)
    w.ask("SUBSCRIBE", "c")
    assert w.ask("PING") == "PONG"
    assert w.ask("SET", "k", "v") == "OK"
    assert w.ask("PUBLISH", "c", "mine") == 1
    assert w.reply() == Push(["message", "c", "mine"])
    w.ask("MULTI")
    w.ask("PUBLISH", "c", "in a transaction")
    w.ask("GET", "k")
    assert w.ask("EXEC") == [1, "v"]
    assert w.reply() == Push(["message", "c", "in a transaction"])


def test_pubsub_tells_who_listens_over_all_threads(open_wires):
    wires = open_wires(12)
    for i, w in enumerate(wires):
        w.ask("SUBSCRIBE", "all", f"c{i % 3}")
        w.reply()
        w.ask("SSUBSCRIBE", "s1")
        w.ask("PSUBSCRIBE", "p*" if i % 2 else "q*")
    (asker,) = open_wires(1)
    assert sorted(asker.ask("PUBSUB", "CHANNELS")) == ["all", "c0", "c1", "c2"]
    assert sorted(asker.ask("PUBSUB", "CHANNELS", "c[01]")) == ["c0", "c1"]
    assert asker.ask("PUBSUB", "NUMSUB", "all", "c1", "none") == ["all", 12, "c1", 4, "none", 0]
    assert asker.ask("PUBSUB", "NUMSUB") == []
    assert asker.ask("PUBSUB", "NUMPAT") == 2
    assert asker.ask("PUBSUB", "SHARDCHANNELS") == ["s1"]
    assert asker.ask("PUBSUB", "SHARDNUMSUB", "s1", "all") == ["s1", 12, "all", 0]
    assert asker.ask("PUBSUB", "NOTHING") == "ERR unknown subcommand 'NOTHING'. Try PUBSUB HELP."
    assert asker.ask("PUBSUB", "HELP")[0].startswith("PUBSUB <subcommand>")
    assert asker.ask("PUBLISH", "pq", "x") == 6
    for w in wires:
        w.close()
    deadline = time.monotonic() + 10
    while asker.ask("PUBSUB", "CHANNELS") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert asker.ask("PUBSUB", "CHANNELS") == []
    assert asker.ask("PUBSUB", "NUMPAT") == 0


def test_redis_py_subscribes_and_listens(server):
    with server.client() as c, c.pubsub() as p:
        p.subscribe("chan")
        p.psubscribe("ch*")
        assert [p.get_message(timeout=5)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
        assert c.publish("chan", "m") == 2
        assert [p.get_message(timeout=5)["data"] for _ in range(2)] == ["m", "m"]
        assert c.pubsub_channels() == ["chan"] and c.pubsub_numpat() == 1 and c.pubsub_numsub("chan") == [("chan", 1)]


def read_messages(wire, n, into):
    into.extend(wire.reply() for _ in range(n))


@both_protocols
def test_fifty_subscribers_get_a_thousand_messages_in_order(open_wires, protocol):
    subscribers = open_wires(50, protocol)
    for w in subscribers:
        w.ask("SUBSCRIBE", "flood")
    (publisher,) = open_wires(1)
    got = [[] for _ in subscribers]
    readers = [threading.Thread(target=read_messages, args=(w, 1000, g)) for w, g in zip(subscribers, got)]
    for r in readers:
        r.start()
    for start in range(0, 1000, 100):
        publisher.send(b"".join(b"PUBLISH flood %d\r\n" % i for i in range(start, start + 100)))
        assert [publisher.reply() for _ in range(100)] == [50] * 100
    for r in readers:
        r.join(60)
    expected = [["message", "flood", str(i)] for i in range(1000)]
    assert all(g == expected for g in got)


def test_messages_of_several_publishers_each_keep_their_order(open_wires):
    subscribers, publishers = open_wires(8), open_wires(6)
    for w in subscribers:
        w.ask("PSUBSCRIBE", "from-*")

    def publish(n, w):
        w.send(b"".join(b"PUBLISH from-%d %d\r\n" % (n, i) for i in range(300)))
        assert [w.reply() for _ in range(300)] == [8] * 300

    threads = [threading.Thread(target=publish, args=(n, w)) for n, w in enumerate(publishers)]
    for t in threads:
        t.start()
    for w in subscribers:
        last = {}
        for _ in range(300 * len(publishers)):
            _, _, channel, text = w.reply()
            assert int(text) == last.get(channel, -1) + 1
            last[channel] = int(text)
        assert set(last.values()) == {299}
    for t in threads:
        t.join(60)


def test_nothing_comes_after_an_unsubscription_is_confirmed(open_wires):
    subscribers = open_wires(10)
    (publisher,) = open_wires(1)
    stop = threading.Event()

    def publish():
        while not stop.is_set():
            publisher.send(b"PUBLISH busy x\r\n" * 20)
            for _ in range(20):
                publisher.reply()
            time.sleep(0.001)  # Python reads more slowly than it publishes

    thread = threading.Thread(target=publish)
    thread.start()
    heard = 0
    try:
        for round_ in range(30):
            for w in subscribers:
                assert w.ask("SUBSCRIBE", "busy") == ["subscribe", "busy", 1]
            for w in subscribers:
                w.command("UNSUBSCRIBE", "busy")
                while (m := w.reply())[0] == "message":
                    heard += 1
                assert m == ["unsubscribe", "busy", 0]
                assert w.ask("PING") == "PONG", "a message after the confirmation"
    finally:
        stop.set()
        thread.join(60)
    assert heard > 0


def test_a_message_never_reaches_who_subscribed_after_it(open_wires):
    early = open_wires(8)
    for w in early:
        w.ask("SUBSCRIBE", "c")
    (publisher,) = open_wires(1)
    for i in range(100):
        assert publisher.ask("PUBLISH", "c", f"before {i}") == 8
        (late,) = open_wires(1)
        assert late.ask("SUBSCRIBE", "c") == ["subscribe", "c", 1]
        assert publisher.ask("PUBLISH", "c", f"after {i}") == 9
        assert late.reply() == ["message", "c", f"after {i}"]
        assert late.ask("UNSUBSCRIBE") == ["unsubscribe", "c", 0]
        late.close()


def test_subscribers_that_go_away_while_messages_fly_do_no_harm(open_wires, server):
    (publisher,) = open_wires(1)
    for _ in range(20):
        crowd = [Wire(server) for _ in range(10)]
        for w in crowd:
            w.ask("SUBSCRIBE", "c")
        publisher.send(b"PUBLISH c x\r\n" * 50)
        for w in crowd:
            w.close()
        for _ in range(50):
            assert 0 <= publisher.reply() <= 20
    assert publisher.ask("PING") == "PONG"


LIMITED = ["--client-output-buffer-limit", "pubsub 1mb 0 0"]
SHADOW = 3 if "san" in os.environ.get("SHERD_BIN", "") else 1  # sanitizers have memory of their own beside the program's


@pytest.mark.parametrize("server", [LIMITED], indirect=True)
def test_a_subscriber_that_does_not_read_is_closed_and_the_others_live_on(open_wires):
    lazy, reader, publisher = open_wires(3)
    lazy.ask("SUBSCRIBE", "c")
    reader.ask("SUBSCRIBE", "c")
    payload = "x" * 100_000
    for i in range(400):
        receivers = publisher.ask("PUBLISH", "c", payload)
        assert reader.reply() == ["message", "c", payload]
        if receivers == 1:
            break
    else:
        pytest.fail("40 MB unread and still there")
    assert lazy.closed()
    assert publisher.ask("PUBSUB", "NUMSUB", "c") == ["c", 1]
    assert publisher.ask("PUBLISH", "c", "on") == 1
    assert reader.reply() == ["message", "c", "on"]


def peak_memory(server):
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) * 1024


@pytest.mark.parametrize("server", [LIMITED], indirect=True)
def test_a_burst_costs_each_subscriber_no_more_than_its_limit(server, open_wires):
    """All messages of the transaction reach a thread at once: 60 subscribers x 80 MB, were it not for the limit."""
    lazy = open_wires(60)
    for w in lazy:
        w.ask("SUBSCRIBE", "c")
    (publisher,) = open_wires(1)
    payload = b"x" * 20_000
    publisher.ask("MULTI")
    publisher.send(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$20000\r\n%s\r\n" % payload * 4000)
    assert [publisher.reply() for _ in range(4000)] == ["QUEUED"] * 4000
    assert publisher.ask("EXEC")[0] == 60
    assert all(w.closed() for w in lazy)
    assert peak_memory(server) < 1_000_000_000 * SHADOW


UNLIMITED = ["--client-output-buffer-limit", "pubsub 0 0 0"]


@pytest.mark.parametrize("server", [UNLIMITED], indirect=True)
def test_publishers_faster_than_delivery_are_held_and_lose_nothing(open_wires):
    """More than 16 MB on their way at once, from transactions: nothing else outruns the other threads for sure."""
    subscribers, publishers = open_wires(2), open_wires(2)
    for w in subscribers:
        w.ask("SUBSCRIBE", "c")
    payload = b"x" * 20_000

    def publish(w):
        message = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$20000\r\n%s\r\n" % payload
        w.send(b"MULTI\r\n" + message * 1000 + b"EXEC\r\n" + message * 10 + b"PING\r\n")
        assert [w.reply() for _ in range(1001)] == ["OK"] + ["QUEUED"] * 1000
        assert [w.reply() for _ in range(12)] == [[2] * 1000] + [2] * 10 + ["PONG"]
        finished.append(w)

    finished = []
    threads = [threading.Thread(target=publish, args=(w,)) for w in publishers]
    for t in threads:
        t.start()
    for w in subscribers:
        for _ in range(len(publishers) * 1010):
            assert w.reply() == ["message", "c", payload.decode()]
    for t in threads:
        t.join(60)
    assert len(finished) == len(publishers)


def test_large_and_binary_and_empty_messages_arrive_whole(open_wires):
    subscribers = open_wires(6, 3)
    (publisher,) = open_wires(1)
    for w in subscribers:
        w.ask("SUBSCRIBE", "", b"\x00\r\n")
        w.reply()
    for channel, message in (("", ""), ("\x00\r\n", "a\x00b\r\n"), ("", "y" * 3_000_000)):
        assert publisher.ask("PUBLISH", channel.encode("latin-1"), message.encode("latin-1")) == 6
        for w in subscribers:
            assert w.reply() == Push(["message", channel, message])


KEY_EVENTS = ["--notify-keyspace-events", "KEA"]


@pytest.mark.parametrize("server", [KEY_EVENTS], indirect=True)
def test_key_events_of_all_shards_arrive(open_wires):
    listener, writer = open_wires(2, 3)
    listener.ask("PSUBSCRIBE", "__keyevent@0__:set")
    for i in range(200):
        writer.ask("SET", f"k{i}", "v")
    assert [listener.reply()[3] for _ in range(200)] == [f"k{i}" for i in range(200)]
    listener.ask("SUBSCRIBE", "__keyspace@0__:k1")
    writer.ask("DEL", "k1")
    assert listener.reply() == Push(["message", "__keyspace@0__:k1", "del"])


@pytest.mark.parametrize("server", [KEY_EVENTS], indirect=True)
def test_a_client_whose_commands_travel_still_gets_messages_between_its_replies(open_wires):
    """Pushes may arrive while its task is on another thread: they must not land inside a reply."""
    clients = open_wires(6, 3)
    for w in clients:
        w.ask("PSUBSCRIBE", "__keyevent@0__:incrby")
    rounds, batch = 20, 50

    def work(w, results):
        replies, pushes = [], 0
        for _ in range(rounds):
            w.send(b"".join(b"INCR shared%d\r\n" % (i % 5) for i in range(batch)))
            n = 0
            while n < batch:
                r = w.reply()
                if isinstance(r, Push):
                    pushes += 1
                else:
                    assert isinstance(r, int)
                    n += 1
        results.append(pushes)

    results = []
    threads = [threading.Thread(target=work, args=(w, results)) for w in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(results) == len(clients)
    assert min(results) > 0 and max(results) <= len(clients) * rounds * batch


def test_subscribing_works_inside_a_transaction(open_wires):
    (w,) = open_wires(1, 3)
    w.ask("MULTI")
    w.ask("SUBSCRIBE", "c")
    w.ask("SET", "k", "v")
    assert w.ask("EXEC") == [["subscribe", "c", 1], "OK"]
    assert w.ask("PUBLISH", "c", "x") == 1
    assert w.reply() == ["message", "c", "x"]
