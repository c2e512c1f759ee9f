"""What a hostile, broken or merely unlucky client can do: it gets an error or is closed, and nobody else notices."""
import os
import resource
import socket
import subprocess
import threading
import time

import pytest

from conftest import SHERD, clean_env, free_port
from wire import Error, Wire

WORKERS = [{"workers": 1}, {"workers": 4}]
MIB = 1 << 20


def wait_until(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def info(c, field):
    for line in c.ask("INFO").splitlines():
        if line.startswith(field + ":"):
            return line.split(":", 1)[1]
    raise AssertionError(f"INFO has no {field}")


@pytest.fixture
def alive(server):
    """Whatever the test did, the server still serves."""
    yield
    with Wire(server) as c:
        assert c.ask("SET", "alive", "yes") == "OK" and c.ask("GET", "alive") == "yes"


# ---- the protocol

PROTOCOL_ERRORS = [
    (b"*100000000000\r\n", "invalid multibulk length"),
    (b"*99999999999999999999999999\r\n", "invalid multibulk length"),
    (b"*abc\r\n", "invalid multibulk length"),
    (b"*1x\r\n", "invalid multibulk length"),
    (b"*1\r\n$999999999999\r\n", "invalid bulk length"),
    (b"*1\r\n$536870913\r\n", "invalid bulk length"),
    (b"*1\r\n$-5\r\n", "invalid bulk length"),
    (b"*1\r\n$abc\r\n", "invalid bulk length"),
    (b"*2\r\n$3\r\nGET\r\n*1\r\n", "expected '$', got '*'"),
    (b"*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"),
    (b"*1\r\n:5\r\n", "expected '$', got ':'"),
    (b"*" + b"1" * 70000, "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70000, "too big bulk count string"),
    (b"x" * 70000, "too big inline request"),
    (b'SET "open quote\r\n', "unbalanced quotes in request"),
]


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_a_protocol_error_is_named_as_redis_names_it_and_ends_the_connection(server, redis_reference, alive):
    for sent, named in PROTOCOL_ERRORS:
        answers = []
        for s in (server, redis_reference):
            with s.raw() as c:
                c.send(b"PING\r\n" + sent)
                answers.append(c.read_to_end())
        assert answers[0] == b"+PONG\r\n-ERR Protocol error: " + named.encode() + b"\r\n"
        assert answers[0] == answers[1], sent[:40]


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_more_than_a_million_arguments_are_refused(server, alive):
    with server.raw() as c:
        c.send(b"*1048577\r\n")
        assert c.read_to_end() == b"-ERR Protocol error: invalid multibulk length\r\n"


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_empty_requests_are_skipped(server, alive):
    with server.raw() as c:
        c.send(b"\r\n\r\n*0\r\n*-1\r\nPING\r\n*1\r\n$4\r\nPING\r\n")
        c.expect(b"+PONG\r\n+PONG\r\n")


@pytest.mark.parametrize("server", [{"workers": 2, "args": ["--requirepass", "secret"]}], indirect=True)
def test_a_stranger_may_send_little(server):
    for sent, named in ((b"*11\r\n", b"unauthenticated multibulk length"), (b"*1\r\n$16385\r\n", b"unauthenticated bulk length")):
        with server.raw() as c:
            c.send(sent)
            assert c.read_to_end() == b"-ERR Protocol error: " + named + b"\r\n"
    with Wire(server) as c:
        assert c.ask("GET", "k") == Error("NOAUTH Authentication required.")
        assert c.ask("AUTH", "secret") == "OK"
        assert c.ask("SET", "k", "x" * 100_000) == "OK" and c.ask("MGET", *["k"] * 20) == ["x" * 100_000] * 20


@pytest.mark.parametrize("server", [{"workers": 2, "args": ["--proto-max-bulk-len", "1mb"]}], indirect=True)
def test_a_value_above_proto_max_bulk_len_is_refused_before_it_is_sent(server, alive):
    with Wire(server) as c:
        assert c.ask("SET", "just", "x" * MIB) == "OK"
        c.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (MIB + 1))
        assert c.read_to_end() == b"-ERR Protocol error: invalid bulk length\r\n"
    with Wire(server) as c:
        assert c.ask("STRLEN", "just") == MIB and c.ask("EXISTS", "k") == 0


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_command_with_a_million_arguments_works(server, alive):
    n = MIB - 2
    words = [b"SADD", b"s"] + [b"%d" % i for i in range(n)]
    with Wire(server, timeout=60) as c:
        c.command(*words)
        assert c.reply() == n
        words = [b"DEL"] + [b"%d" % i for i in range(n + 1)]
        c.command(*words)
        assert c.reply() == 0
        assert c.ask("SCARD", "s") == n


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_a_request_in_single_bytes_is_understood(server):
    with server.raw() as c:
        for byte in b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n":
            c.send(bytes([byte]))
            time.sleep(0.001)
        c.expect(b"$5\r\nhello\r\n")


# ---- commands

MAX = 2**63 - 1
MIN = -(2**63)
REFUSED = [
    (["SET", "k", "v", "EX", MAX], "ERR invalid expire time in 'set' command"),
    (["SET", "k", "v", "PX", MAX], "ERR invalid expire time in 'set' command"),
    (["SET", "k", "v", "EX", 0], "ERR invalid expire time in 'set' command"),
    (["SET", "k", "v", "EX", "9" * 30], "ERR value is not an integer or out of range"),
    (["SET", "k", "v", "EX"], "ERR syntax error"),
    (["GETEX", "n", "EX", MAX], "ERR invalid expire time in 'getex' command"),
    (["INCR", "max"], "ERR increment or decrement would overflow"),
    (["INCRBY", "max", 1], "ERR increment or decrement would overflow"),
    (["DECR", "min"], "ERR increment or decrement would overflow"),
    (["DECRBY", "n", MIN], "ERR decrement would overflow"),
    (["INCRBY", "n", "9" * 30], "ERR value is not an integer or out of range"),
    (["INCR", "text"], "ERR value is not an integer or out of range"),
    (["INCRBYFLOAT", "n", "inf"], "ERR increment would produce NaN or Infinity"),
    (["INCRBYFLOAT", "n", "x"], "ERR value is not a valid float"),
    (["HINCRBY", "h", "max", 1], "ERR increment or decrement would overflow"),
    (["EXPIRE", "n", MAX], "ERR invalid expire time in 'expire' command"),
    (["PEXPIRE", "n", MAX], "ERR invalid expire time in 'pexpire' command"),
    (["EXPIREAT", "n", MAX], "ERR invalid expire time in 'expireat' command"),
    (["EXPIRE", "n", MIN], "ERR invalid expire time in 'expire' command"),
    (["SETEX", "k", MAX, "v"], "ERR invalid expire time in 'setex' command"),
    (["PSETEX", "k", -1, "v"], "ERR invalid expire time in 'psetex' command"),
    (["SETRANGE", "k", MAX, "x"], "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
    (["SETRANGE", "k", 512 * MIB, "x"], "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
    (["SETRANGE", "k", -1, "x"], "ERR offset is out of range"),
    (["SETBIT", "k", MAX, 1], "ERR bit offset is not an integer or out of range"),
    (["SETBIT", "k", 2**32, 1], "ERR bit offset is not an integer or out of range"),
    (["SETBIT", "k", -1, 1], "ERR bit offset is not an integer or out of range"),
    (["SETBIT", "k", 1, 2], "ERR bit is not an integer or out of range"),
    (["GETBIT", "k", MAX], "ERR bit offset is not an integer or out of range"),
    (["BITFIELD", "k", "SET", "u64", 0, 1], None),
    (["BITFIELD", "k", "SET", "u8", MAX, 1], None),
    (["LSET", "list", MAX, "x"], "ERR index out of range"),
    (["LSET", "list", MIN, "x"], "ERR index out of range"),
    (["ZADD", "z", "nan", "m"], "ERR value is not a valid float"),
    (["ZINCRBY", "z", "nan", "m"], "ERR value is not a valid float"),
    (["HRANDFIELD", "h", MIN, "WITHVALUES"], "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"),
    (["SPOP", "set", -1], "ERR value is out of range, must be positive"),
    (["LPOP", "list", -1], "ERR value is out of range, must be positive"),
    (["BLPOP", "list2", -1], "ERR timeout is negative"),
    (["BLPOP", "list2", "x"], "ERR timeout is not a float or out of range"),
    (["SCAN", "x"], "ERR invalid cursor"),
    (["SCAN", 0, "COUNT", 0], "ERR syntax error"),
    (["SELECT", 16], "ERR DB index is out of range"),
    (["SELECT", -1], "ERR DB index is out of range"),
    (["RESTORE", "k", 0, "nonsense"], "ERR DUMP payload version or checksum are wrong"),
    (["LPUSH", "text", "x"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["GET", "list"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["INCR", "list"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["HSET", "list", "f", "v"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["SADD", "list", "m"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["ZADD", "list", 1, "m"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["SUNION", "set", "list"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["RPOPLPUSH", "list", "set"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["SETBIT", "list", 1, 1], "WRONGTYPE Operation against a key holding the wrong kind of value"),
    (["PFADD", "text", "x"], "WRONGTYPE Key is not a valid HyperLogLog string value."),
    (["GET"], "ERR wrong number of arguments for 'get' command"),
    (["get", "a", "b"], "ERR wrong number of arguments for 'get' command"),
    (["MSET", "a"], "ERR wrong number of arguments for 'mset' command"),
    (["MSET", "a", "b", "c"], "ERR wrong number of arguments for 'mset' command"),
    (["HSET", "h", "f"], "ERR wrong number of arguments for 'hset' command"),
    (["CONFIG", "GET"], "ERR wrong number of arguments for 'config|get' command"),
    (["NOPE", "a", "b"], "ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
    (["NO\r\nPE"], "ERR unknown command 'NO  PE', with args beginning with: "),
    (["NOPE", "a\r\n+OK\r\n"], "ERR unknown command 'NOPE', with args beginning with: 'a  +OK  ' "),
    (["", "a"], "ERR unknown command '', with args beginning with: 'a' "),
    (["x" * 1000], "ERR unknown command '" + "x" * 128 + "', with args beginning with: "),
    (["CONFIG", "NO\r\nPE"], "ERR unknown subcommand 'NO  PE'. Try CONFIG HELP."),
]


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_bad_arguments_are_answered_in_the_words_of_redis_and_change_nothing(server, redis_reference, alive):
    with Wire(server) as ours, Wire(redis_reference) as theirs:
        for c in (ours, theirs):
            c.ask("MSET", "n", 1, "max", MAX, "min", MIN, "text", "hello")
            c.ask("RPUSH", "list", "a", "b")
            c.ask("SADD", "set", "a", "b")
            c.ask("HSET", "h", "max", MAX)
        before = ours.ask("DEBUG", "DIGEST")
        different = []
        for words, text in REFUSED:
            answer, reference = ours.ask(*words), theirs.ask(*words)
            assert isinstance(answer, Error), words
            if answer != reference or (text and answer != text):
                different.append((words, answer, reference, text))
        assert not different, "\n".join(map(str, different))
        assert ours.ask("DEBUG", "DIGEST") == before


# ---- buffers

def flood(c, request, seconds=20):
    """Sends for as long as the server takes it; True if it closed the connection."""
    c.sock.settimeout(1)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            c.send(request)
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def peak_bytes(server):
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


@pytest.mark.parametrize("server", [{"workers": w, "args": ["--client-output-buffer-limit", "normal 1mb 0 0", "--io-backend", io]}
                                    for w, io in ((1, "epoll"), (4, "epoll"), (4, "auto"))], indirect=True)
def test_a_client_that_does_not_read_is_closed(server, alive):
    with Wire(server) as watching, Wire(server) as slow:
        watching.ask("SET", "large", "x" * 200_000)
        assert flood(slow, b"GET large\r\n" * 100)
        wait_until(lambda: len(watching.ask("CLIENT", "LIST").splitlines()) == 1)
        assert "output buffer limit reached" in server.log()
        assert watching.ask("STRLEN", "large") == 200_000
        assert peak_bytes(server) < 1 << 30  # what it asked for would be tens of gigabytes


@pytest.mark.parametrize("server", [{"workers": 2, "args": ["--client-output-buffer-limit", "normal 0 1mb 1"]}], indirect=True)
def test_above_the_soft_limit_a_client_has_some_seconds(server, alive):
    with Wire(server) as watching, Wire(server) as slow:
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        watching.ask("SET", "large", "x" * 1_000_000)
        for _ in range(20):
            slow.command("GET", "large")
        time.sleep(0.3)
        assert len(watching.ask("CLIENT", "LIST").splitlines()) == 2
        wait_until(lambda: len(watching.ask("CLIENT", "LIST").splitlines()) == 1)


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_a_slow_reader_without_limit_gets_every_byte(server):
    with Wire(server, timeout=60) as c:
        c.ask("SET", "large", "x" * 1_000_000)
        for i in range(60):
            c.command("GET", "large")
            c.command("ECHO", i)
        time.sleep(0.5)
        for i in range(60):
            assert len(c.reply()) == 1_000_000 and c.reply() == str(i)


@pytest.mark.parametrize("server", [{"workers": w, "args": ["--client-query-buffer-limit", "1mb"]} for w in (1, 4)], indirect=True)
def test_a_request_larger_than_the_query_buffer_closes_the_connection(server, alive):
    with Wire(server) as c:
        assert c.ask("SET", "k", "x" * 900_000) == "OK"
        try:
            c.command("SET", "k", "x" * (3 * MIB))
        except OSError:
            pass
        assert c.closed()
    with Wire(server) as c:
        assert c.ask("STRLEN", "k") == 900_000
    assert "query buffer limit reached" in server.log()


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_pipeline_much_larger_than_any_buffer_is_answered_in_order(server):
    n = 300_000
    with Wire(server, timeout=60) as c:
        sender = threading.Thread(target=lambda: c.send(b"".join(b"ECHO %d\r\n" % i for i in range(n))))
        sender.start()
        for i in range(n):
            assert c.reply() == str(i)
        sender.join()


# ---- connections

@pytest.mark.parametrize("server", [{"workers": w, "args": ["--maxclients", "5"]} for w in (1, 4)], indirect=True)
def test_above_maxclients_a_connection_is_told_and_closed(server):
    clients = [Wire(server)]
    wait_until(lambda: info(clients[0], "connected_clients") == "1")  # whoever waited for the start is gone
    clients += [Wire(server) for _ in range(4)]
    assert all(c.ask("PING") == "PONG" for c in clients)
    with server.raw() as c:
        assert c.read_to_end() == b"-ERR max number of clients reached\r\n"
    wait_until(lambda: info(clients[0], "rejected_connections") == "1")
    clients.pop().close()

    def room():
        with server.raw() as c:
            c.send(b"PING\r\n")
            return c.line() == b"+PONG"
    wait_until(room)
    for c in clients:
        c.close()


@pytest.mark.parametrize("server", [{"workers": 2, "args": ["--timeout", "1"]}], indirect=True)
def test_an_idle_connection_is_closed_and_a_busy_or_blocked_one_is_not(server):
    with Wire(server) as idle, Wire(server) as busy, Wire(server) as blocked, Wire(server) as subscriber:
        assert idle.ask("PING") == "PONG"
        blocked.command("BLPOP", "nothing", 0)
        subscriber.ask("SUBSCRIBE", "news")
        deadline = time.monotonic() + 3.5
        while time.monotonic() < deadline:
            assert busy.ask("PING") == "PONG"
            time.sleep(0.1)
        assert idle.closed()
        assert busy.ask("RPUSH", "nothing", "x") == 1 and blocked.reply() == ["nothing", "x"]
        assert busy.ask("PUBLISH", "news", "hello") == 1 and subscriber.reply() == ["message", "news", "hello"]


@pytest.mark.parametrize("server", [{"workers": w, "args": ["--io-backend", io]} for w in (1, 4) for io in ("epoll", "auto")], indirect=True)
def test_a_client_that_closed_its_side_gets_all_its_answers(server, alive):
    n = 20_000
    with Wire(server, timeout=30) as c:
        c.ask("SET", "large", "x" * 1000)
        c.send(b"".join(b"GET large\r\nECHO %d\r\n" % i for i in range(n)))
        c.sock.shutdown(socket.SHUT_WR)
        for i in range(n):
            assert c.reply() == "x" * 1000 and c.reply() == str(i)
        assert c.read_to_end() == b""


@pytest.mark.parametrize("server", [{"workers": w, "args": ["--io-backend", io]} for w in (1, 4) for io in ("epoll", "auto")], indirect=True)
def test_answers_under_way_reach_a_client_that_closes_its_side_later(server, alive):
    with Wire(server, timeout=30) as c:
        c.ask("SET", "large", "x" * (16 * MIB))
        c.command("GET", "large")
        time.sleep(0.5)  # the answer does not fit into the socket, and nothing else is to do
        c.sock.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
        assert len(c.reply()) == 16 * MIB
        assert c.read_to_end() == b""


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_an_unfinished_request_of_a_client_that_left_is_forgotten(server, alive):
    with Wire(server) as c:
        c.send(b"SET a 1\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$5\r\nhal")
        c.sock.shutdown(socket.SHUT_WR)
        assert c.read_to_end() == b"+OK\r\n"
    with Wire(server) as c:
        assert c.ask("EXISTS", "a", "b") == 1
        wait_until(lambda: len(c.ask("CLIENT", "LIST").splitlines()) == 1)


def reset(c):
    """The connection ends at once, without a goodbye."""
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()


@pytest.mark.parametrize("server", WORKERS, indirect=True)
@pytest.mark.parametrize("leave", [lambda c: c.close(), reset], ids=["close", "reset"])
def test_what_is_pushed_later_is_not_lost_to_a_client_that_is_gone(server, leave):
    with Wire(server) as c:
        for round in range(20):
            keys = [f"q:{round}:{i}" for i in range(5)]
            gone = Wire(server)
            gone.command("BLPOP", *keys, 0)
            wait_until(lambda: info(c, "blocked_clients") == "1")
            leave(gone)
            wait_until(lambda: info(c, "blocked_clients") == "0")
            assert c.ask("RPUSH", keys[3], "v") == 1
            assert c.ask("LRANGE", keys[3], 0, -1) == ["v"]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_nothing_of_an_unfinished_transaction_is_done(server):
    with Wire(server) as c:
        c.ask("SET", "watched", 1)
        gone = Wire(server)
        gone.ask("WATCH", "watched", "other")
        gone.ask("MULTI")
        assert gone.ask("SET", "a", 1) == "QUEUED" and gone.ask("INCR", "watched") == "QUEUED"
        gone.close()
        wait_until(lambda: len(c.ask("CLIENT", "LIST").splitlines()) == 1)
        assert c.ask("EXISTS", "a", "other") == 0 and c.ask("GET", "watched") == "1"
        for i in range(100):  # a watch that stayed behind would be touched here
            assert c.ask("SET", "watched", i) == "OK" and c.ask("DEL", "other") == 0
        c.ask("WATCH", "watched")
        c.ask("MULTI")
        c.ask("GET", "watched")
        assert c.ask("EXEC") == ["99"]


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_clients_that_come_and_go_leave_nothing_behind(server, alive):
    def come_and_go(seed):
        for i in range(50):
            c = Wire(server)
            kind = (seed + i) % 5
            if kind == 0:
                c.send(b"*3\r\n$3\r\nSET\r\n")
            elif kind == 1:
                c.command("BLPOP", "x", f"y{i}", 0)
            elif kind == 2:
                c.command("SUBSCRIBE", "a", "b")
            elif kind == 3:
                c.command("WATCH", "x", f"y{i}")
                c.command("MULTI")
                c.command("SET", "x", 1)
            else:
                c.send(b"PING\r\n" * 1000)
            (reset if i % 2 else lambda c: c.close())(c)

    threads = [threading.Thread(target=come_and_go, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with Wire(server) as c:
        wait_until(lambda: len(c.ask("CLIENT", "LIST").splitlines()) == 1)
        wait_until(lambda: info(c, "blocked_clients") == "0" and info(c, "connected_clients") == "1")
        wait_until(lambda: c.ask("PUBLISH", "a", "m") == 0)
        assert c.ask("DBSIZE") == 0


# ---- memory

LIMIT = 8 * MIB
VALUE = "x" * 1000


def write_until(c, bytes_total, prefix="k", expiring=False):
    """Writes that much in batches; gives the errors."""
    errors, sent = set(), 0
    while sent < bytes_total:
        for i in range(100):
            words = ["SET", f"{prefix}:{sent // len(VALUE) + i}", VALUE]
            c.command(*words, *(["EX", 10_000 + sent // 1000] if expiring else []))
        for _ in range(100):
            answer = c.reply()
            if isinstance(answer, Error):
                errors.add(answer)
        sent += 100 * len(VALUE)
    return errors


def live_bytes(c):
    return sum(s["bytes"] for s in c.ask("STATS.SHARDS"))


def limited(policy, workers=4):
    return {"workers": workers, "args": ["--maxmemory", LIMIT, "--maxmemory-policy", policy]}


OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")


@pytest.mark.parametrize("server", [limited("noeviction")], indirect=True)
def test_without_eviction_a_full_server_refuses_writes_and_allows_the_rest(server):
    with Wire(server, 3) as c:
        assert write_until(c, 2 * LIMIT) == {OOM}
        assert live_bytes(c) <= LIMIT + 100_000
        assert c.ask("GET", "k:1") == VALUE
        assert c.ask("LPUSH", "l", "x") == OOM and c.ask("HSET", "h", "f", "v") == OOM
        c.ask("MULTI")
        assert c.ask("SET", "a", 1) == OOM
        assert c.ask("EXEC").startswith("EXECABORT")
        for i in range(2000):
            c.ask("DEL", f"k:{i}")
        assert c.ask("SET", "room", "again") == "OK"
        assert info(c, "evicted_keys") == "0"


@pytest.mark.parametrize("server", [limited(p, w) for p in ("allkeys-lru", "allkeys-lfu", "allkeys-random") for w in (1, 4)], indirect=True)
def test_eviction_keeps_the_bytes_of_all_shards_within_the_limit(server):
    with Wire(server, 3) as c:
        for _ in range(4):
            assert write_until(c, LIMIT, prefix=f"p{_}") == set()
            assert live_bytes(c) <= LIMIT + 100_000
        assert c.ask("DBSIZE") > LIMIT / 1200 / 2  # and not much more than needed goes
        wait_until(lambda: int(info(c, "evicted_keys")) > 3000)


@pytest.mark.parametrize("server", [limited("allkeys-lru")], indirect=True)
def test_writers_on_all_threads_share_one_limit(server):
    errors = []

    def write(number):
        with Wire(server, 3) as c:
            errors.extend(write_until(c, 2 * LIMIT, prefix=f"w{number}"))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    with Wire(server, 3) as c:
        while any(t.is_alive() for t in threads):
            assert live_bytes(c) <= LIMIT + 1 * MIB
            time.sleep(0.05)
        assert live_bytes(c) <= LIMIT + 100_000
    assert not errors


@pytest.mark.parametrize("server", [limited("allkeys-lru")], indirect=True)
def test_keys_in_use_survive_the_least_recently_used_policy(server):
    with Wire(server, 3) as c:
        write_until(c, LIMIT // 2, prefix="old")
        time.sleep(2.1)  # the clock of LRU counts seconds
        for i in range(200):
            c.ask("GET", f"old:{i}")
        write_until(c, LIMIT * 3 // 4, prefix="new")
        assert sum(c.ask("EXISTS", f"old:{i}") for i in range(200)) > 190
        assert sum(c.ask("EXISTS", f"old:{i}") for i in range(200, 4000)) < 3000


@pytest.mark.parametrize("server", [limited("allkeys-lfu")], indirect=True)
def test_keys_in_use_survive_the_least_frequently_used_policy(server):
    with Wire(server, 3) as c:
        write_until(c, LIMIT // 2, prefix="old")
        for _ in range(300):
            for i in range(50):
                c.command("GET", f"old:{i}")
            for i in range(50):
                c.reply()
        write_until(c, 2 * LIMIT, prefix="new")
        assert sum(c.ask("EXISTS", f"old:{i}") for i in range(50)) > 45


@pytest.mark.parametrize("server", [limited("volatile-ttl")], indirect=True)
def test_what_expires_soonest_goes_first_and_what_does_not_expire_stays(server):
    with Wire(server, 3) as c:
        write_until(c, LIMIT // 4, prefix="keep")
        assert write_until(c, 2 * LIMIT, prefix="fleeting", expiring=True) == set()
        assert live_bytes(c) <= LIMIT + 100_000
        kept = LIMIT // 4 // 1000
        assert sum(c.ask("EXISTS", f"keep:{i}") for i in range(kept)) == kept
        last = 2 * LIMIT // 1000
        newest = sum(c.ask("EXISTS", f"fleeting:{i}") for i in range(last - 1000, last))
        oldest = sum(c.ask("EXISTS", f"fleeting:{i}") for i in range(1000))
        assert newest > 900 and oldest < 100


@pytest.mark.parametrize("server", [limited(p) for p in ("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl")], indirect=True)
def test_with_nothing_volatile_a_volatile_policy_refuses(server):
    with Wire(server, 3) as c:
        assert write_until(c, 2 * LIMIT) == {OOM}
        assert live_bytes(c) <= LIMIT + 100_000
        c.ask("EXPIRE", "k:1", 1000)
        assert c.ask("EXISTS", "k:1") == 1
        c.ask("SET", "room", "now")
        assert c.ask("EXISTS", "k:1") == 0  # the only one that may go


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_limit_set_later_counts_from_then_on(server):
    with Wire(server, 3) as c:
        write_until(c, 2 * LIMIT)
        assert c.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", LIMIT) == "OK"
        assert c.ask("SET", "a", 1) == "OK"
        assert live_bytes(c) <= LIMIT
        c.ask("CONFIG", "SET", "maxmemory", 0)
        assert write_until(c, 2 * LIMIT, prefix="more") == set() and live_bytes(c) > 2 * LIMIT


# ---- start

def start_and_end(*args):
    return subprocess.run([SHERD, "serve", "--ephemeral", "--port", str(free_port()), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=20, env=clean_env())


def test_a_server_open_to_everyone_without_a_password_does_not_start():
    for bind in ("0.0.0.0", "::", "127.0.0.1 0.0.0.0"):
        ended = start_and_end("--bind", bind)
        assert ended.returncode != 0 and "requirepass" in ended.stdout


def test_an_open_server_with_a_password_starts(make_server):
    server = make_server(args=["--bind", "0.0.0.0", "--requirepass", "secret"])
    with Wire(server) as c:
        assert c.ask("PING") == Error("NOAUTH Authentication required.")
        assert c.ask("AUTH", "secret") == "OK"
        assert c.ask("CONFIG", "SET", "requirepass", "").startswith("ERR CONFIG SET failed")


@pytest.mark.parametrize("io", ["auto", "epoll"])
def test_a_server_without_free_descriptors_refuses_and_goes_on(make_server, io):
    server = make_server(workers=2, args=["--io-backend", io])
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (40, 40))  # from outside: at its start it would raise the limit
    first = Wire(server)
    assert first.ask("PING") == "PONG"
    clients = []
    try:
        for _ in range(60):
            clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
    except OSError:
        pass
    assert first.ask("PING") == "PONG"
    time.sleep(0.5)
    with open(f"/proc/{server.pid}/stat") as f:
        before = sum(map(int, f.read().split()[13:15]))
    time.sleep(1)
    with open(f"/proc/{server.pid}/stat") as f:
        used = sum(map(int, f.read().split()[13:15])) - before
    for c in [first, *clients]:
        c.close()
    assert used < os.sysconf("SC_CLK_TCK") / 2, "it spins on connections that it cannot accept"

    def serves():
        try:
            with Wire(server) as c:
                return c.ask("PING") == "PONG"
        except (OSError, AssertionError):  # the others are still being closed
            return False
    wait_until(serves)
