"""Pipelines: any length, any split, any size; the answers come in order and exact."""
import random
import socket
import threading
import time

import pytest

from backends import bulk, keys_by_shard, on_both_backends


@on_both_backends()
def test_a_pipeline_that_empties_the_database_in_between(server):
    with server.raw() as s:
        s.send(bulk("SET", "key1", "a") + bulk("SET", "key2", "b") + bulk("GET", "key1") + bulk("FLUSHDB") + bulk("GET", "key3"))
        s.expect(b"+OK\r\n+OK\r\n$1\r\na\r\n+OK\r\n$-1\r\n")


def counted_pipeline(seed, n):
    """n commands over keys in all shards, and their exact answers."""
    rng = random.Random(seed)
    model, requests, replies = {}, [], []
    for i in range(n):
        k = f"p{seed}:{rng.randrange(50)}"
        kind = rng.randrange(6)
        if kind < 2:
            model[k] = model.get(k, 0) + i
            requests.append(bulk("INCRBY", k, i))
            replies.append(b":%d\r\n" % model[k])
        elif kind < 4:
            requests.append(bulk("GET", k))
            v = model.get(k)
            replies.append(b"$-1\r\n" if v is None else b"$%d\r\n%d\r\n" % (len(str(v)), v))
        elif kind == 4:
            other = f"p{seed}:{rng.randrange(50)}"
            requests.append(bulk("MGET", k, other))
            replies.append(b"*2\r\n" + b"".join(b"$-1\r\n" if model.get(x) is None else b"$%d\r\n%d\r\n" % (len(str(model[x])), model[x]) for x in (k, other)))
        else:
            requests.append(bulk("DEL", k))
            replies.append(b":%d\r\n" % (model.pop(k, None) is not None))
    return b"".join(requests), b"".join(replies)


def exchange(server, data, want, piece=None):
    """Sends and receives at once, as a client with a deep pipeline does; gives what came."""
    got = bytearray()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        def send():
            if not piece:
                s.sendall(data)
                return
            for i in range(0, len(data), piece):
                s.sendall(data[i:i + piece])
        sender = threading.Thread(target=send)
        sender.start()
        while len(got) < want:
            more = s.recv(1 << 20)
            if not more:
                break
            got += more
        sender.join()
    return bytes(got)


@on_both_backends()
def test_a_hundred_thousand_commands_in_one_pipeline(server):
    requests, replies = counted_pipeline(1, 100_000)
    assert exchange(server, requests, len(replies)) == replies


@on_both_backends()
def test_deep_pipelines_beside_each_other(server):
    """Each has keys of its own, all want the same shards."""
    pipelines = [counted_pipeline(seed, 10_000) for seed in range(2, 10)]
    results = [None] * len(pipelines)

    def run(i):
        results[i] = exchange(server, pipelines[i][0], len(pipelines[i][1]))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(pipelines))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for got, (_, replies) in zip(results, pipelines):
        assert got == replies


@on_both_backends()
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_a_pipeline_in_pieces(server, piece):
    requests, replies = counted_pipeline(20 + piece, 60 if piece < 10 else 2000)
    assert exchange(server, requests, len(replies), piece) == replies


@on_both_backends()
@pytest.mark.parametrize("megabytes", [1, 16, 100])
def test_large_values(server, megabytes):
    value = random.Random(megabytes).randbytes(megabytes << 20)
    with server.client(decode_responses=False, socket_timeout=60) as c:
        assert c.set("large", value)
        assert c.strlen("large") == len(value)
        assert c.get("large") == value
        with c.pipeline(transaction=False) as p:
            p.set("small", "s").get("large").get("small").set("large", b"gone").get("large")
            assert p.execute() == [True, value, b"s", True, b"gone"]


@on_both_backends()
def test_a_large_value_behind_a_command_that_waits(server):
    """More arrives while the connection waits than is taken from a busy one: reading stops, and must go on."""
    value = b"x" * (16 << 20)
    with server.raw(timeout=20) as s:
        sender = threading.Thread(target=s.send, args=(bulk("BLPOP", "nobody", "0.5") + bulk("SET", "large", value) + bulk("STRLEN", "large"),))
        sender.start()
        s.expect(b"*-1\r\n+OK\r\n:%d\r\n" % len(value))
        sender.join()


@on_both_backends(workers=1)
def test_many_clients_that_wait_leave_room_for_others(server):
    """Each has sent more than the command that waits, so its bytes are kept: more of them than the event loop has buffers."""
    waiting = [server.raw(timeout=20) for _ in range(400)]
    for s in waiting:
        s.send(bulk("BLPOP", "q", "0") + bulk("PING"))
    with server.client() as c:
        deadline = time.monotonic() + 10
        while c.info("clients")["blocked_clients"] < len(waiting) and time.monotonic() < deadline:
            time.sleep(0.02)
        for i in range(len(waiting)):
            c.rpush("q", i)
    items = []
    for s in waiting:
        s.expect(b"*2\r\n$1\r\nq\r\n")
        s.line()
        items.append(int(s.line()))
        s.expect(b"+PONG\r\n")
        s.close()
    assert sorted(items) == list(range(len(waiting)))


@on_both_backends()
def test_a_client_that_ends_its_side_gets_all_answers(server):
    value = b"v" * (4 << 20)
    with server.client() as c:
        c.set("large", value)
    for requests in (1, 5):
        with server.raw(timeout=20) as s:
            s.send(bulk("GET", "large") * requests)
            s.sock.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
            assert s.read_to_end() == b"$%d\r\n%s\r\n" % (len(value), value) * requests


@on_both_backends()
def test_a_client_that_reads_nothing_stops_nobody(server):
    with server.client() as c:
        keys = keys_by_shard(c, "big:")
        for k in keys:
            c.set(k, b"v" * (1 << 20))
        with server.raw(timeout=30) as lazy:
            lazy.send(b"".join(bulk("GET", k) for k in keys) * 20)
            for _ in range(50):
                for k in keys:
                    assert c.strlen(k) == 1 << 20
            for _ in range(20 * len(keys)):
                assert lazy.line() == b"$1048576"
                lazy.read((1 << 20) + 2)


@on_both_backends()
def test_answers_of_a_busy_shard_join_those_that_are_still_being_sent(server):
    """A connection whose output waits for its reader asks a shard that others keep busy: its task answers on another thread while the loop goes on sending."""
    stop = threading.Event()
    with server.client(decode_responses=False) as c:
        busy, quiet = keys_by_shard(c, "s:")[:2]
        c.rpush(busy, *range(5_000))
        value = random.Random(6).randbytes(1 << 20)
        c.set(quiet, value)
        answer = b"$%d\r\n%s\r\n:5000\r\n$%d\r\n%s\r\n" % (len(value), value, len(value), value)

        def keep_busy():
            with server.client(socket_timeout=60) as hog:
                while not stop.is_set():
                    hog.execute_command("SORT", busy, "LIMIT", 0, 1)
        hogs = [threading.Thread(target=keep_busy) for _ in range(2)]
        for h in hogs:
            h.start()
        try:
            with server.raw(timeout=60) as s:
                s.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)  # so that the server has to wait for the reader
                request = bulk("GET", quiet) + bulk("LLEN", busy) + bulk("GET", quiet)
                for _ in range(3):
                    sender = threading.Thread(target=lambda: [(s.send(request), time.sleep(0.01)) for _ in range(12)])
                    sender.start()
                    for _ in range(12):
                        s.expect(answer)
                    sender.join()
        finally:
            stop.set()
            for h in hogs:
                h.join()


@on_both_backends(args=["--client-output-buffer-limit", "normal 1mb 0 0"])
def test_a_client_over_its_output_limit_is_closed_and_the_others_are_not(server):
    with server.client() as c:
        c.set("large", b"v" * (300 << 10))
        for _ in range(5):
            with server.raw(timeout=20) as lazy:
                try:
                    for _ in range(40):
                        lazy.send(bulk("GET", "large") * 5)
                        time.sleep(0.002)
                    assert len(lazy.read_to_end()) < 40 * 5 * (300 << 10)
                except ConnectionError:
                    pass
        assert c.ping()


@on_both_backends()
def test_connections_that_end_at_any_moment(server):
    """Half a request, a request without reading the answer, a pipeline cut in the middle: the server stays whole."""
    requests, _ = counted_pipeline(40, 400)
    rng = random.Random(5)
    for _ in range(300):
        with server.raw() as s:
            s.send(requests[:rng.randrange(len(requests))])
            if rng.randrange(2):
                s.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset instead of an end
    with server.client() as c:
        assert c.ping()
        deadline = time.monotonic() + 10
        while len(c.client_list()) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(c.client_list()) == 1


@on_both_backends()
def test_empty_lines_and_inline_requests_in_between(server):
    with server.raw() as s:
        s.send(b"\r\n\r\nPING\r\n\n" + bulk("ECHO", "x") + b"*0\r\nSET a 'b c'\r\nGET a\r\n")
        s.expect(b"+PONG\r\n$1\r\nx\r\n+OK\r\n$3\r\nb c\r\n")


@on_both_backends()
def test_what_stands_before_a_protocol_error_is_answered(server):
    with server.raw() as s:
        s.send(bulk("SET", "a", "1") + bulk("GET", "a") + b"*1\r\n$x\r\n")
        s.expect(b"+OK\r\n$1\r\n1\r\n")
        assert s.read_to_end().startswith(b"-ERR Protocol error: invalid bulk length")
