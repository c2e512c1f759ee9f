"""CLIENT: looking at connections on all threads, naming them, ending them."""
import re
import threading
import time

import pytest

from wire import Wire

FIELDS = ("id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll omem tot-mem "
          "events cmd user redir resp lib-name lib-ver tot-net-in tot-net-out tot-cmds").split()


@pytest.fixture
def server(make_server):
    return make_server(workers=4)


@pytest.fixture
def open_wires(server):
    wires = []

    def open_many(n, protocol=2):
        fresh = [Wire(server, protocol) for _ in range(n)]
        for w in fresh:
            w.id = w.ask("CLIENT", "ID")
        wires.extend(fresh)
        return fresh

    yield open_many
    for w in wires:
        w.close()


@pytest.fixture
def wire(open_wires):
    return open_wires(1)[0]


def fields(line):
    return dict(part.split("=", 1) for part in line.strip("\n").split(" "))


def listed(w, *words):
    return [fields(line) for line in w.ask("CLIENT", "LIST", *words).splitlines()]


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def blocked_on(asker, w):
    return listed(asker, "ID", w.id)[0]["flags"] == "b"


# ---- looking

def test_info_has_the_fields_of_redis_in_their_order(wire):
    line = wire.ask("CLIENT", "INFO")
    assert line.endswith("\n") and line.count("\n") == 1
    assert [part.split("=", 1)[0] for part in line.strip().split(" ")] == FIELDS
    f = fields(line)
    assert f["id"] == str(wire.id) and f["cmd"] == "client|info" and f["user"] == "default" and f["resp"] == "2" and f["flags"] == "N"
    assert re.fullmatch(r"127\.0\.0\.1:\d+", f["addr"]) and f["addr"].endswith(f":{wire.sock.getsockname()[1]}")


def test_list_shows_the_clients_of_all_threads_oldest_first(open_wires):
    wires = open_wires(20)
    ids = [int(f["id"]) for f in listed(wires[0])]
    assert ids == sorted(ids) and set(ids) >= {w.id for w in wires}


def test_list_shows_what_each_client_is_doing(open_wires):
    asker, subscriber, transaction, watcher, waiter = open_wires(5)
    subscriber.ask("SUBSCRIBE", "a", "b")
    subscriber.reply()
    subscriber.ask("PSUBSCRIBE", "p")
    subscriber.ask("SSUBSCRIBE", "s")
    transaction.ask("SELECT", 7)
    transaction.ask("MULTI")
    transaction.ask("SET", "k", "v")
    transaction.ask("SET", "k", "w")
    watcher.ask("WATCH", "k1", "k2", "k1")
    waiter.command("BLPOP", "nothing", 0)
    until(lambda: blocked_on(asker, waiter))
    f = {int(f["id"]): f for f in listed(asker)}
    assert (f[subscriber.id]["flags"], f[subscriber.id]["sub"], f[subscriber.id]["psub"], f[subscriber.id]["ssub"]) == ("P", "2", "1", "1")
    assert (f[transaction.id]["flags"], f[transaction.id]["multi"], f[transaction.id]["db"]) == ("x", "2", "7")
    assert (f[watcher.id]["watch"], f[watcher.id]["multi"]) == ("2", "-1")
    assert f[waiter.id]["cmd"] == "blpop"
    assert [int(x["id"]) for x in listed(asker, "TYPE", "pubsub")] == [subscriber.id]
    assert subscriber.id not in [int(x["id"]) for x in listed(asker, "TYPE", "normal")]
    assert listed(asker, "TYPE", "replica") == [] and listed(asker, "TYPE", "master") == []
    assert [int(x["id"]) for x in listed(asker, "ID", waiter.id, 999999, asker.id)] == [waiter.id, asker.id]


def test_list_refuses_what_it_does_not_know(wire):
    assert wire.ask("CLIENT", "LIST", "TYPE", "wrong") == "ERR Unknown client type 'wrong'"
    assert wire.ask("CLIENT", "LIST", "ID", "x") == "ERR Invalid client ID"
    assert wire.ask("CLIENT", "LIST", "ID", 1, 0) == "ERR Invalid client ID"
    for words in (("ID",), ("TYPE",), ("TYPE", "normal", "x"), ("what",)):
        assert wire.ask("CLIENT", "LIST", *words) == "ERR syntax error"


def test_lists_are_read_while_clients_come_go_and_change(server, open_wires):
    """Other threads read what its own thread changes: nothing may break."""
    stop = threading.Event()
    failures = []

    def churn(n):
        try:
            while not stop.is_set():
                with Wire(server) as w:
                    w.ask("CLIENT", "SETNAME", f"churn-{n}")
                    w.ask("CLIENT", "SETINFO", "LIB-NAME", "x" * 100)
                    w.ask("MULTI")
                    w.ask("SET", f"k{n}", "v")
                    w.ask("EXEC")
                    w.ask("SUBSCRIBE", f"c{n}")
        except Exception as e:  # the thread's failure is the test's
            failures.append(e)

    threads = [threading.Thread(target=churn, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    (asker,) = open_wires(1)
    seen = set()
    for _ in range(200):
        for f in listed(asker):
            assert list(f) == FIELDS
            seen.add(f["name"])
    stop.set()
    for t in threads:
        t.join(30)
    assert not failures
    assert {f"churn-{n}" for n in range(4)} & seen


# ---- names

def test_a_client_has_the_name_it_gave_itself(open_wires):
    wire, other = open_wires(2)
    assert wire.ask("CLIENT", "GETNAME") is None
    assert wire.ask("CLIENT", "SETNAME", "worker:1") == "OK"
    assert wire.ask("CLIENT", "GETNAME") == "worker:1"
    assert listed(other, "ID", wire.id)[0]["name"] == "worker:1"
    for bad in ("a b", "a\nb", b"\xc3\xa4", "\x7f"):
        assert wire.ask("CLIENT", "SETNAME", bad) == "ERR Client names cannot contain spaces, newlines or special characters."
    assert wire.ask("CLIENT", "GETNAME") == "worker:1"
    assert wire.ask("CLIENT", "SETNAME", "") == "OK"
    assert wire.ask("CLIENT", "GETNAME") is None


def test_a_library_says_what_it_is(wire):
    assert wire.ask("CLIENT", "SETINFO", "LIB-NAME", "redis-py") == "OK"
    assert wire.ask("CLIENT", "SETINFO", "lib-ver", "1.2.3") == "OK"
    f = fields(wire.ask("CLIENT", "INFO"))
    assert (f["lib-name"], f["lib-ver"]) == ("redis-py", "1.2.3")
    assert wire.ask("CLIENT", "SETINFO", "LIB-NAME", "a b") == "ERR LIB-NAME cannot contain spaces, newlines or special characters."
    assert wire.ask("CLIENT", "SETINFO", "what", "x") == "ERR Unrecognized option 'what'"


# ---- KILL

def gone(w):
    w.sock.settimeout(10)
    return w.closed()


def test_kill_by_id_ends_a_client_on_any_thread(open_wires):
    wires = open_wires(12)
    for victim in wires[1:]:
        assert wires[0].ask("CLIENT", "KILL", "ID", victim.id) == 1
        assert wires[0].ask("CLIENT", "KILL", "ID", victim.id) == 0, "killed once only"
        assert listed(wires[0], "ID", victim.id) == []
        assert gone(victim)
    assert wires[0].ask("PING") == "PONG"


def test_kill_by_address_old_and_new(open_wires):
    wire, a, b, c = open_wires(4)
    address = lambda w: "127.0.0.1:%d" % w.sock.getsockname()[1]
    assert wire.ask("CLIENT", "KILL", address(a)) == "OK"
    assert gone(a)
    assert wire.ask("CLIENT", "KILL", "127.0.0.1:1") == "ERR No such client"
    assert wire.ask("CLIENT", "KILL", "ADDR", address(b)) == 1
    assert gone(b)
    assert wire.ask("CLIENT", "KILL", "LADDR", "127.0.0.1:%d" % c.sock.getpeername()[1], "ID", c.id) == 1
    assert gone(c)


def test_kill_spares_the_caller_unless_told_otherwise(open_wires):
    wire, other = open_wires(2)
    assert wire.ask("CLIENT", "KILL", "TYPE", "normal") >= 1
    assert gone(other)
    assert wire.ask("CLIENT", "KILL", "ID", wire.id) == 0
    assert wire.ask("CLIENT", "KILL", "ID", wire.id, "SKIPME", "no") == 1
    assert gone(wire)


def test_kill_by_type_user_and_age(open_wires):
    wire, subscriber, waiter = open_wires(3)
    subscriber.ask("SUBSCRIBE", "c")
    waiter.command("BLPOP", "nothing", 0)
    until(lambda: blocked_on(wire, waiter))
    assert wire.ask("CLIENT", "KILL", "MAXAGE", 1000) == 0
    assert wire.ask("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert gone(subscriber)
    assert wire.ask("CLIENT", "KILL", "USER", "default", "ID", waiter.id) == 1
    assert gone(waiter)
    until(lambda: wire.ask("PUBSUB", "NUMSUB", "c") == ["c", 0])
    assert wire.ask("LPUSH", "nothing", "x") == 1, "nobody waits for it any more"
    assert wire.ask("LLEN", "nothing") == 1


def test_kill_refuses_what_it_does_not_know(wire):
    for words, error in [
        (("ID", 0), "ERR client-id should be greater than 0"),
        (("ID", "x"), "ERR client-id should be greater than 0"),
        (("MAXAGE", "0"), "ERR maxage should be greater than 0"),
        (("TYPE", "zz"), "ERR Unknown client type 'zz'"),
        (("USER", "nobody"), "ERR No such user 'nobody'"),
        (("SKIPME", "maybe"), "ERR syntax error"),
        (("ID", 1, "TYPE"), "ERR syntax error"),
        (("WHAT", 1), "ERR syntax error"),
    ]:
        assert wire.ask("CLIENT", "KILL", *words) == error


# ---- UNBLOCK

def test_unblock_ends_a_wait_as_a_timeout_or_with_an_error(open_wires):
    wires = open_wires(9)
    asker = wires[0]
    for i, w in enumerate(wires[1:]):
        w.command("BLPOP", "nothing", "nothing either", 0)
        until(lambda: blocked_on(asker, w))
        assert asker.ask("CLIENT", "UNBLOCK", w.id, *(["ERROR"], ["TIMEOUT"], [])[i % 3]) == 1
        assert w.reply() == ("UNBLOCKED client unblocked via CLIENT UNBLOCK" if i % 3 == 0 else None)
        assert w.ask("PING") == "PONG"
        assert asker.ask("CLIENT", "UNBLOCK", w.id) == 0
    assert asker.ask("CLIENT", "UNBLOCK", asker.id) == 0
    assert asker.ask("CLIENT", "UNBLOCK", 999999) == 0
    assert asker.ask("CLIENT", "UNBLOCK", "x") == "ERR value is not an integer or out of range"
    assert asker.ask("CLIENT", "UNBLOCK", 1, "WHAT") == "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"


def test_unblock_and_a_push_at_the_same_time_serve_one_of_them(open_wires):
    """The answer 1 means that the client got nothing, 0 that it was served: an element is never lost and never doubled."""
    asker, pusher, *waiters = open_wires(6)
    served = unblocked = 0
    for i in range(150):
        w = waiters[i % len(waiters)]
        w.command("BLPOP", f"q{i}", 0)
        until(lambda: blocked_on(asker, w))
        pusher.command("RPUSH", f"q{i}", "x")
        asker.command("CLIENT", "UNBLOCK", w.id)
        pusher.reply()
        if asker.reply() == 1:
            unblocked += 1
            assert w.reply() is None
            assert pusher.ask("LLEN", f"q{i}") == 1
        else:
            served += 1
            assert w.reply() == [f"q{i}", "x"]
            assert pusher.ask("LLEN", f"q{i}") == 0
    assert served + unblocked == 150


# ---- PAUSE

def test_a_pause_holds_writes_until_it_is_ended(open_wires):
    asker, *others = open_wires(9)
    assert asker.ask("CLIENT", "PAUSE", 60000, "WRITE") == "OK"
    for w in others:
        assert w.ask("GET", "k") is None
        w.command("SET", "k", w.id)
    assert all(w.silent(0.05) for w in others)
    assert asker.ask("CLIENT", "UNPAUSE") == "OK"
    assert [w.reply() for w in others] == ["OK"] * 8


def test_a_pause_of_all_ends_by_itself(open_wires):
    asker, other = open_wires(2)
    begun = time.monotonic()
    assert asker.ask("CLIENT", "PAUSE", 300) == "OK"
    assert other.ask("GET", "k") is None
    assert time.monotonic() - begun > 0.2


def test_pause_refuses_what_is_no_time(wire):
    assert wire.ask("CLIENT", "PAUSE", "x") == "ERR timeout is not an integer or out of range"
    assert wire.ask("CLIENT", "PAUSE", -1) == "ERR timeout is negative"
    assert wire.ask("CLIENT", "PAUSE", 10, "what") == "ERR CLIENT PAUSE mode must be WRITE or ALL"
    assert wire.ask("SET", "k", "v") == "OK"


# ---- REPLY and the rest

def test_replies_are_kept_back_on_request(wire):
    wire.send(b"CLIENT REPLY OFF\r\nSET k 1\r\nINCR k\r\nNOSUCH\r\nCLIENT REPLY ON\r\nGET k\r\n")
    assert [wire.reply(), wire.reply()] == ["OK", "2"]
    wire.send(b"CLIENT REPLY SKIP\r\nINCR k\r\nGET k\r\n")
    assert wire.reply() == "3"
    assert wire.ask("CLIENT", "REPLY", "what") == "ERR syntax error"


def test_replies_stay_kept_back_when_commands_travel_between_threads(open_wires):
    wires = open_wires(6)

    def work(w):
        for _ in range(50):
            w.send(b"CLIENT REPLY OFF\r\n" + b"INCR shared\r\n" * 20 + b"CLIENT REPLY ON\r\n" + b"PING\r\n")
            assert [w.reply(), w.reply()] == ["OK", "PONG"]
            w.send(b"CLIENT REPLY SKIP\r\nINCR shared\r\nECHO x\r\n")
            assert w.reply() == "x"
        done.append(w)

    done = []
    threads = [threading.Thread(target=work, args=(w,)) for w in wires]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(done) == 6
    assert wires[0].ask("GET", "shared") == str(6 * 50 * 21)


def test_switches_show_in_the_flags(wire):
    assert wire.ask("CLIENT", "NO-EVICT", "ON") == "OK"
    assert wire.ask("CLIENT", "NO-TOUCH", "on") == "OK"
    assert fields(wire.ask("CLIENT", "INFO"))["flags"] == "eT"
    wire.ask("CLIENT", "NO-EVICT", "OFF")
    wire.ask("CLIENT", "NO-TOUCH", "OFF")
    assert fields(wire.ask("CLIENT", "INFO"))["flags"] == "N"
    assert wire.ask("CLIENT", "NO-EVICT", "maybe") == "ERR syntax error"


def test_tracking_is_refused_clearly(open_wires):
    (wire,) = open_wires(1, 3)
    assert wire.ask("CLIENT", "TRACKING", "ON") == "ERR client tracking is not available"
    assert wire.ask("CLIENT", "TRACKING", "OFF") == "OK"
    assert wire.ask("CLIENT", "TRACKING", "x") == "ERR syntax error"
    assert wire.ask("CLIENT", "TRACKINGINFO") == {"flags": ["off"], "redirect": -1, "prefixes": []}
    assert wire.ask("CLIENT", "GETREDIR") == -1
    assert wire.ask("CLIENT", "CACHING", "YES").startswith("ERR CLIENT CACHING can be called only when the client is in tracking mode")


def test_unknown_and_misused_subcommands_get_the_standard_texts(wire):
    assert wire.ask("CLIENT", "MAINT_NOTIFICATIONS", "ON") == "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."
    assert wire.ask("CLIENT") == "ERR wrong number of arguments for 'client' command"
    assert wire.ask("CLIENT", "SETNAME") == "ERR wrong number of arguments for 'client|setname' command"
    assert wire.ask("CLIENT", "ID", "x") == "ERR wrong number of arguments for 'client|id' command"
    help_lines = wire.ask("CLIENT", "HELP")
    assert help_lines[0].startswith("CLIENT <subcommand>") and "UNPAUSE" in help_lines and help_lines[-2] == "HELP"


def test_redis_py_reads_the_list(server):
    with server.client(client_name="py") as c:
        assert c.client_getname() == "py"
        assert any(int(f["id"]) == c.client_id() for f in c.client_list())
        assert c.client_info()["name"] == "py"
        assert c.client_kill_filter(_id="123456") == 0
