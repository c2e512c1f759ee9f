"""SLOWLOG, and the commands about the server as a whole."""
import time

import pytest
import redis


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as e:
        client.execute_command(*words)
    return str(e.value)


@pytest.fixture
def slow(client):
    """A client of a server to which everything is slow."""
    client.config_set("slowlog-log-slower-than", 0)
    client.execute_command("SLOWLOG", "RESET")
    return client


def entries(client, *count):
    """As the server tells them: two words, so that the library leaves them alone."""
    names = ("id", "time", "us", "command", "address", "name")
    return [dict(zip(names, e)) for e in client.execute_command("SLOWLOG", "GET", *count)]


def test_slow_commands_are_noted_newest_first(server, slow):
    slow.client_setname("me")
    before = int(time.time())
    slow.set("k", "v")
    slow.get("k")
    got = entries(slow, 2)
    assert [e["command"] for e in got] == [["GET", "k"], ["SET", "k", "v"]]
    assert got[0]["id"] == got[1]["id"] + 1
    assert before <= got[0]["time"] <= time.time() and got[0]["us"] >= 0
    assert got[0]["address"].startswith("127.0.0.1:") and got[0]["name"] == "me"
    assert slow.slowlog_get(1)[0]["command"] == b"SLOWLOG GET 2", "redis-py reads them too"


def test_long_commands_are_cut(slow):
    slow.execute_command("RPUSH", "l", *range(100))
    slow.set("k", "x" * 1000)
    cut, many = entries(slow, 2)
    assert cut["command"] == ["SET", "k", "x" * 128 + "... (872 more bytes)"]
    assert many["command"][-2:] == ["28", "... (71 more arguments)"] and len(many["command"]) == 32


def test_the_ring_keeps_the_newest(slow):
    slow.config_set("slowlog-max-len", 5)
    for i in range(20):
        slow.set("k", i)
    assert slow.slowlog_len() == 5
    last = entries(slow, -1)
    assert len(last) == 5 and last[1]["command"] == ["SET", "k", "19"]
    slow.config_set("slowlog-max-len", 100)
    for i in range(60):
        slow.set("k", i)
    assert 60 <= slow.slowlog_len() <= 70 and len(entries(slow)) == 10
    assert slow.slowlog_reset() and slow.slowlog_len() == 1  # RESET itself came after the emptying


def test_fast_commands_are_not_noted(client):
    client.slowlog_reset()
    client.set("k", "v")
    assert client.slowlog_len() == 0
    client.config_set("slowlog-log-slower-than", -1)
    client.set("k", "v")
    assert client.slowlog_len() == 0


def test_slowlog_errors(client, redis_reference):
    with redis_reference.client() as reference:
        for words in (["GET", "-2"], ["GET", "x"], ["LEN", "x"], ["nosuch"], ["RESET", "x"]):
            assert refused(client, "SLOWLOG", *words) == refused(reference, "SLOWLOG", *words)


@pytest.mark.parametrize("server", [{"workers": 3}], indirect=True)
def test_secrets_stay_out_whichever_thread_notes(server, slow):
    slow.config_set("slowlog-max-len", 1000)
    with server.raw() as s:
        s.command("AUTH", "default", "hidden")
        s.command("HELLO", "2", "AUTH", "default", "hidden")
        s.command("PING")
        while s.line() != b"+PONG":
            pass
    clients = [server.client() for _ in range(6)]
    for i in range(50):
        for c in clients:
            c.set(f"k{i}", i)
    for c in clients:
        c.close()
    ids = [e["id"] for e in entries(slow, 100)]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids) == 100
    commands = [e["command"] for e in entries(slow, 1000)]
    assert len(commands) > 300 and "hidden" not in sum(commands, [])


# ---- the server as a whole

def test_time_and_role(client):
    seconds, micros = client.time()
    assert abs(seconds - time.time()) < 5 and 0 <= micros < 1000000
    assert client.role() == ["master", 0, []]


def test_wait_answers_at_once_or_at_the_timeout(client):
    client.set("k", "v")
    assert client.wait(0, 0) == 0
    start = time.monotonic()
    assert client.wait(1, 200) == 0
    assert time.monotonic() - start > 0.15
    with client.pipeline(transaction=True) as p:
        p.set("k", "v")
        p.execute_command("WAIT", 1, 0)
        assert p.execute() == [True, 0]
    for words, text in (("0 x", "timeout is not an integer or out of range"), ("x 0", "value is not an integer or out of range"),
                        ("0 -1", "timeout is negative")):
        assert refused(client, "WAIT", *words.split()) == text


def test_a_waiting_client_may_leave_and_be_woken(server, client):
    with server.raw() as s:
        s.command("CLIENT", "ID")
        name = s.line()[1:].decode()
        s.command("WAIT", 3, 0)
        deadline = time.monotonic() + 5
        while not client.execute_command("CLIENT", "UNBLOCK", name):
            assert time.monotonic() < deadline
        s.expect(b":0\r\n")
        s.command("WAIT", 3, 0)
    assert client.ping()


def test_what_does_not_exist_says_so(client):
    for words in (["SAVE"], ["BGSAVE"], ["BGREWRITEAOF"], ["SHUTDOWN", "SAVE"]):
        assert refused(client, *words) == "the server is ephemeral: it keeps nothing on disk"
    for words in (["CLUSTER", "INFO"], ["READONLY"], ["READWRITE"]):
        assert refused(client, *words) == "This instance has cluster support disabled"
    assert client.execute_command("REPLICAOF", "NO", "ONE") in (True, "OK")
    assert "replication is not available" in refused(client, "REPLICAOF", "127.0.0.1", "1")
    assert client.execute_command("MODULE", "LIST") == []
    assert "unknown command 'FUNCTION'" in refused(client, "FUNCTION", "FLUSH")
    assert "Sherd ver." in str(client.execute_command("LOLWUT"))


def test_shutdown_ends_the_server(make_server):
    server = make_server()
    with server.raw() as s:
        s.command("SHUTDOWN", "MAYBE")
        assert s.line() == b"-ERR syntax error"
        s.command("SHUTDOWN", "ABORT")
        assert s.line() == b"-ERR No shutdown in progress."
        s.command("SHUTDOWN", "NOSAVE")
        assert s.read_to_end() == b""
    assert server.process.wait(10) == 0
