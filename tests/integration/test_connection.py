"""PING ECHO SELECT AUTH HELLO QUIT RESET."""
import pytest

from wire import Push, Wire

WRONGPASS = "WRONGPASS invalid username-password pair or user is disabled."


@pytest.fixture
def wire(server):
    with Wire(server) as w:
        yield w


def test_ping_and_echo_answer_what_they_were_given(wire):
    assert wire.ask("PING") == "PONG"
    assert wire.ask("PING", "hello there") == "hello there"
    assert wire.ask("ECHO", "a\r\nb") == "a\r\nb"
    assert wire.ask("PING", "a", "b") == "ERR wrong number of arguments for 'ping' command"
    assert wire.ask("ECHO") == "ERR wrong number of arguments for 'echo' command"


def test_select_changes_the_database_and_refuses_what_is_none(wire):
    wire.ask("SET", "k", "in 0")
    assert wire.ask("SELECT", 9) == "OK"
    assert wire.ask("GET", "k") is None
    assert wire.ask("SELECT", 16) == "ERR DB index is out of range"
    assert wire.ask("SELECT", -1) == "ERR DB index is out of range"
    assert wire.ask("SELECT", "x") == "ERR value is not an integer or out of range"
    assert "db=9 " in wire.ask("CLIENT", "INFO")
    assert wire.ask("SELECT", 0) == "OK"
    assert wire.ask("GET", "k") == "in 0"


def test_select_inside_a_transaction_holds_for_what_follows(wire):
    wire.ask("MULTI")
    for words in (("SET", "k", 0), ("SELECT", 1), ("SET", "k", 1)):
        assert wire.ask(*words) == "QUEUED"
    assert wire.ask("EXEC") == ["OK", "OK", "OK"]
    assert wire.ask("GET", "k") == "1"
    wire.ask("SELECT", 0)
    assert wire.ask("GET", "k") == "0"


def test_hello_introduces_the_server_and_switches_the_protocol(wire):
    described = wire.ask("HELLO")
    assert described[0:2] == ["server", "redis"] and described[4:6] == ["proto", 2]
    described = wire.ask("HELLO", 3, "SETNAME", "me")
    assert list(described) == ["server", "version", "proto", "id", "mode", "role", "modules"]
    assert described["proto"] == 3 and described["mode"] == "standalone" and described["role"] == "master" and described["modules"] == []
    assert described["id"] == wire.ask("CLIENT", "ID")
    assert wire.ask("CLIENT", "GETNAME") == "me"
    assert wire.ask("HGETALL", "nothing") == {}
    assert wire.ask("HELLO")["proto"] == 3
    assert wire.ask("HELLO", 2)[4:6] == ["proto", 2]


@pytest.mark.parametrize("words, error", [
    (("4",), "NOPROTO unsupported protocol version"),
    (("1",), "NOPROTO unsupported protocol version"),
    (("x",), "ERR Protocol version is not an integer or out of range"),
    (("3", "WHAT"), "ERR Syntax error in HELLO option 'WHAT'"),
    (("3", "SETNAME"), "ERR Syntax error in HELLO option 'SETNAME'"),
    (("3", "AUTH", "default"), "ERR Syntax error in HELLO option 'AUTH'"),
    (("3", "SETNAME", "a b"), "ERR Client names cannot contain spaces, newlines or special characters."),
    (("3", "AUTH", "nobody", "x"), WRONGPASS),
])
def test_a_bad_hello_changes_nothing(wire, words, error):
    assert wire.ask("HELLO", *words) == error
    assert wire.ask("HELLO")[4:6] == ["proto", 2]
    assert wire.ask("CLIENT", "GETNAME") is None


def test_auth_without_a_password_is_a_mistake_to_be_told(wire):
    assert wire.ask("AUTH", "x") == ("ERR AUTH <password> called without any password configured for the default user. "
                                     "Are you sure your configuration is correct?")
    assert wire.ask("AUTH", "default", "anything") == "OK"
    assert wire.ask("AUTH", "nobody", "x") == WRONGPASS
    assert wire.ask("AUTH", "a", "b", "c") == "ERR syntax error"


with_password = pytest.mark.parametrize("server", [{"args": ["--requirepass", "secret"]}], indirect=True)


@with_password
def test_a_password_opens_the_connection(wire):
    assert wire.ask("GET", "k") == "NOAUTH Authentication required."
    assert wire.ask("PING") == "NOAUTH Authentication required."
    assert wire.ask("AUTH", "wrong") == WRONGPASS
    assert wire.ask("AUTH", "nobody", "secret") == WRONGPASS
    assert wire.ask("GET", "k") == "NOAUTH Authentication required."
    assert wire.ask("AUTH", "secret") == "OK"
    assert wire.ask("GET", "k") is None
    assert wire.ask("AUTH", "wrong") == WRONGPASS
    assert wire.ask("PING") == "PONG", "a failed AUTH takes nothing away"


@with_password
def test_hello_needs_or_brings_the_password(wire):
    assert wire.ask("HELLO", 3).startswith("NOAUTH HELLO must be called with the client already authenticated")
    assert wire.ask("HELLO", 3, "AUTH", "default", "wrong") == WRONGPASS
    assert wire.ask("HELLO", 3, "AUTH", "default", "secret")["proto"] == 3
    assert wire.ask("PING") == "PONG"


@with_password
def test_a_pipeline_behind_auth_is_authenticated(wire):
    wire.send(b"PING\r\nAUTH secret\r\nPING\r\nSET k v\r\nGET k\r\n")
    assert [wire.reply() for _ in range(5)] == ["NOAUTH Authentication required.", "OK", "PONG", "OK", "v"]


def test_quit_answers_and_closes_and_runs_nothing_behind_it(server, wire):
    wire.send(b"SET a 1\r\nQUIT\r\nSET a 2\r\n")
    assert wire.reply() == "OK" and wire.reply() == "OK"
    assert wire.closed()
    with Wire(server) as other:
        assert other.ask("GET", "a") == "1"


def test_quit_leaves_a_transaction_too(wire):
    wire.ask("MULTI")
    assert wire.ask("QUIT") == "OK"
    assert wire.closed()


def test_reset_gives_a_connection_as_new(server):
    with Wire(server, protocol=3) as w:
        w.ask("SELECT", 3)
        w.ask("CLIENT", "SETNAME", "me")
        assert w.ask("SUBSCRIBE", "c") == Push(["subscribe", "c", 1])
        w.ask("WATCH", "k")
        w.ask("MULTI")
        w.ask("SET", "k", "v")
        w.command("RESET")
        w.expect(b"+RESET\r\n")
        assert w.ask("EXEC") == "ERR EXEC without MULTI"
        assert w.ask("CLIENT", "GETNAME") is None
        info = w.ask("CLIENT", "INFO")
        assert all(f" {part} " in info for part in ("db=0", "sub=0", "multi=-1", "watch=0", "flags=N", "resp=2"))
        assert w.ask("PUBLISH", "c", "x") == 0


def test_reset_frees_a_subscriber(wire):
    wire.ask("SUBSCRIBE", "c")
    assert wire.ask("GET", "k").startswith("ERR Can't execute 'get'")
    assert wire.ask("RESET") == "RESET"
    assert wire.ask("GET", "k") is None


@with_password
def test_reset_takes_the_authentication_back(wire):
    wire.ask("AUTH", "secret")
    assert wire.ask("RESET") == "RESET"
    assert wire.ask("PING") == "NOAUTH Authentication required."
    assert wire.ask("RESET") == "RESET"
