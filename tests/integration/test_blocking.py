"""Waiting for keys: first come, first served, woken once, over shards."""
import threading
import time

import pytest

from backends import bulk, keys_by_shard, on_both_backends


def wait_blocked(client, n):
    deadline = time.monotonic() + 10
    while client.info("clients")["blocked_clients"] != n:
        assert time.monotonic() < deadline, f"{client.info('clients')['blocked_clients']} clients wait instead of {n}"
        time.sleep(0.005)


def no_answer(raw, seconds):
    """Nothing comes for that long."""
    raw.sock.settimeout(seconds)
    with pytest.raises(TimeoutError):
        raw.sock.recv(1)
    raw.sock.settimeout(10)


COMMANDS = {
    "blpop": (["BLPOP", "{0}", "0"], lambda c, k, v: c.rpush(k, v)),
    "brpop": (["BRPOP", "{0}", "0"], lambda c, k, v: c.rpush(k, v)),
    "blmove": (["BLMOVE", "{0}", "{1}", "LEFT", "RIGHT", "0"], lambda c, k, v: c.rpush(k, v)),
    "brpoplpush": (["BRPOPLPUSH", "{0}", "{1}", "0"], lambda c, k, v: c.rpush(k, v)),
    "blmpop": (["BLMPOP", "0", "2", "{0}", "{2}", "LEFT"], lambda c, k, v: c.rpush(k, v)),
    "bzpopmin": (["BZPOPMIN", "{0}", "{2}", "0"], lambda c, k, v: c.zadd(k, {v: 1})),
    "bzmpop": (["BZMPOP", "0", "1", "{0}", "MAX"], lambda c, k, v: c.zadd(k, {v: 1})),
}


@on_both_backends()
@pytest.mark.parametrize("how", COMMANDS)
def test_waiters_are_served_in_the_order_they_came_and_once(server, how):
    words, push = COMMANDS[how]
    with server.client() as c:
        keys = keys_by_shard(c, "q")
        waiting = []
        for i in range(10):
            waiting.append(server.raw())
            waiting[-1].command(*[w.format(*keys) for w in words])
            wait_blocked(c, i + 1)  # so that the order in which they came is known
        for i, s in enumerate(waiting):
            push(c, keys[0], f"item{i}")
            while f"item{i}\r\n".encode() not in s.pending:
                s.pending += s.sock.recv(4096)
            wait_blocked(c, 9 - i)
        for s in waiting:
            s.pending = b""
            no_answer(s, 0.02)
            s.close()
        assert c.exists(keys[0]) == 0


@on_both_backends()
def test_timeout_zero_waits_for_ever_and_fractions_count(server):
    with server.client() as c, server.raw() as forever, server.raw() as short:
        forever.command("BLPOP", "q", "0")
        start = time.monotonic()
        short.command("BLPOP", "q", "0.15")
        short.expect(b"*-1\r\n")
        assert time.monotonic() - start >= 0.15
        for command, nil in ((("BLMOVE", "q", "r", "LEFT", "LEFT", "0.01"), b"$-1\r\n"), (("BZPOPMAX", "q", "0.01"), b"*-1\r\n"),
                             (("BLMPOP", "0.01", "1", "q", "LEFT"), b"*-1\r\n"), (("BRPOP", "q", "x", "0.01"), b"*-1\r\n")):
            short.command(*command)
            short.expect(nil)
        no_answer(forever, 2)
        c.rpush("q", "x")
        forever.expect(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n")
        short.command("BLPOP", "q", "-1")
        assert short.line() == b"-ERR timeout is negative"


@on_both_backends()
def test_any_of_several_keys_in_several_shards_wakes(server):
    with server.client() as c, server.raw() as s:
        keys = keys_by_shard(c, "k")
        for i in range(40):
            s.command("BLPOP", *keys, "0")
            wait_blocked(c, 1)
            key = keys[i % len(keys)]
            c.rpush(key, i)
            s.expect(b"*2\r\n$%d\r\n%s\r\n$%d\r\n%d\r\n" % (len(key), key.encode(), len(str(i)), i))
        assert c.exists(*keys) == 0


@on_both_backends()
def test_a_transaction_that_pushes_wakes_when_it_is_over(server):
    with server.client() as c, server.raw() as s:
        s.command("BLPOP", "q", "0")
        wait_blocked(c, 1)
        with c.pipeline(transaction=True) as p:
            p.rpush("q", "a").lpop("q")
            assert p.execute() == [1, "a"]
        no_answer(s, 0.1)
        with c.pipeline(transaction=True) as p:
            p.rpush("q", "b").lpush("q", "c").llen("q")
            assert p.execute() == [1, 2, 2]
        s.expect(b"*2\r\n$1\r\nq\r\n$1\r\nc\r\n")
        assert c.lrange("q", 0, -1) == ["b"]


@on_both_backends()
def test_a_waiting_command_in_a_transaction_does_not_wait(server):
    with server.raw() as s:
        s.send(bulk("MULTI") + bulk("BLPOP", "q", "0") + bulk("BLMOVE", "q", "r", "LEFT", "LEFT", "0") + bulk("EXEC"))
        s.expect(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*-1\r\n$-1\r\n")


@on_both_backends()
def test_a_client_that_is_gone_waits_no_longer(server):
    with server.client() as c:
        keys = keys_by_shard(c, "q")
        for how in ("close", "kill"):
            gone = [server.raw() for _ in range(8)]
            for s in gone:
                s.command("CLIENT", "ID")
                s.id = int(s.line()[1:])
                s.command("BLPOP", *keys, "0")
            wait_blocked(c, len(gone))
            for s in gone:
                if how == "kill":
                    assert c.execute_command("CLIENT", "KILL", "ID", s.id) == 1
                else:
                    s.close()
            wait_blocked(c, 0)
            for k in keys:
                assert c.rpush(k, "stays") == 1
                assert c.lpop(k) == "stays"
            for s in gone:
                s.close()


@on_both_backends()
def test_clients_that_leave_while_they_are_being_served(server):
    """Closing races with being served: items go to somebody who stays, or stay, or went to one who had just left; nobody hangs."""
    with server.client() as c:
        keys = keys_by_shard(c, "q")
        for i in range(150):
            wait_blocked(c, 0)
            c.delete(*keys)  # what was pushed after the last one had left
            with server.raw() as s:
                s.command("BLPOP", *keys, "0")
                if i % 3:
                    wait_blocked(c, 1)
                threading.Thread(target=s.close).start() if i % 2 else s.close()
                c.rpush(keys[i % 4], i)
        wait_blocked(c, 0)
        with server.raw() as s:
            c.delete(*keys)
            s.command("BLPOP", *keys, "0")
            wait_blocked(c, 1)
            c.rpush(keys[3], "x")
            assert s.line() == b"*2"


@on_both_backends()
def test_client_unblock(server):
    with server.client() as c, server.raw() as s:
        keys = keys_by_shard(c, "q")
        s.command("CLIENT", "ID")
        me = int(s.line()[1:])
        s.command("BLPOP", *keys, "0")
        wait_blocked(c, 1)
        assert c.execute_command("CLIENT", "UNBLOCK", me) == 1
        s.expect(b"*-1\r\n")
        s.command("BLPOP", *keys, "0")
        wait_blocked(c, 1)
        assert c.execute_command("CLIENT", "UNBLOCK", me, "ERROR") == 1
        assert s.line().startswith(b"-UNBLOCKED")
        assert c.execute_command("CLIENT", "UNBLOCK", me) == 0


@on_both_backends()
def test_moves_that_wait_for_each_other_across_shards(server):
    with server.client() as c, server.raw() as last:
        keys = keys_by_shard(c, "c")
        movers = []
        last.command("BLPOP", keys[-1], "0")
        for a, b in reversed(list(zip(keys, keys[1:]))):
            movers.append(server.raw())
            movers[-1].command("BLMOVE", a, b, "LEFT", "RIGHT", "0")
        wait_blocked(c, len(movers) + 1)
        c.rpush(keys[0], "x")
        assert last.line() == b"*2"
        for m in movers:
            m.expect(b"$1\r\nx\r\n")
            m.close()
        assert c.exists(*keys) == 0


@on_both_backends()
def test_what_stands_behind_a_wait_runs_after_it(server):
    with server.client() as c, server.raw() as s:
        s.send(bulk("SET", "n", "1") + bulk("BLPOP", "q", "0") + bulk("INCR", "n") + bulk("BLPOP", "q", "0.05") + bulk("INCR", "n"))
        s.expect(b"+OK\r\n")
        wait_blocked(c, 1)
        assert c.get("n") == "1"
        c.rpush("q", "x")
        s.expect(b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n:2\r\n*-1\r\n:3\r\n")


@on_both_backends()
def test_keys_of_another_type_wake_nobody(server):
    with server.client() as c, server.raw() as s, server.raw() as z:
        s.command("BLPOP", "k", "0")
        z.command("BZPOPMIN", "k", "0")
        wait_blocked(c, 2)
        c.set("k", "v")
        c.delete("k")
        c.sadd("k", "m")
        no_answer(s, 0.05)
        c.delete("k")
        c.zadd("k", {"m": 1})
        z.expect(b"*3\r\n$1\r\nk\r\n$1\r\nm\r\n$1\r\n1\r\n")
        no_answer(s, 0.05)
        c.rpush("l", "x")
        c.rename("l", "k")
        s.expect(b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n")


@on_both_backends()
def test_each_item_goes_to_one_consumer(server):
    """20 producers, 20 consumers, 20,000 items, queues in all shards."""
    producers, consumers, each = 20, 20, 1000
    with server.client() as c:
        keys = keys_by_shard(c, "q")
    got = [[] for _ in range(consumers)]
    failures = []

    def produce(p):
        with server.client() as c:
            for i in range(0, each, 10):
                with c.pipeline(transaction=p % 2 == 0) as pipe:
                    for j in range(i, i + 10):
                        pipe.rpush(keys[(p + j) % len(keys)], p * each + j)
                    pipe.execute()

    def consume(n):
        order = keys[n % len(keys):] + keys[:n % len(keys)]
        with server.client(socket_timeout=60) as c:
            while True:
                if n % 3 == 0:
                    found = c.execute_command("BLMPOP", 30, len(order), *order, "LEFT", "COUNT", 1)
                    item = found[1][0]
                else:
                    item = c.blpop(order, timeout=30)[1]
                if item == "end":
                    return
                got[n].append(int(item))

    def guarded(f, n):
        try:
            f(n)
        except Exception as e:  # noqa: BLE001: raised below
            failures.append(e)
    threads = [threading.Thread(target=guarded, args=(consume, n)) for n in range(consumers)]
    makers = [threading.Thread(target=guarded, args=(produce, n)) for n in range(producers)]
    for t in threads + makers:
        t.start()
    for t in makers:
        t.join()
    with server.client() as c:
        deadline = time.monotonic() + 60
        while sum(map(len, got)) < producers * each and not failures and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(consumers):
            c.rpush(keys[0], "end")
        for t in threads:
            t.join()
        assert not failures, failures[0]
        assert sorted(sum(got, [])) == list(range(producers * each))
        assert c.exists(*keys) == 0
