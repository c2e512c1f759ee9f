"""DEBUG: what test suites lean on must itself be tested."""
import re
import threading
import time

import pytest

from wire import Error, Wire

WORKERS = [{"workers": 1}, {"workers": 4}]


def fill(client):
    """One of everything, small and large, in two databases."""
    client.set("text", "hello")
    client.set("number", 42)
    client.set("binary", bytes(range(256)))
    client.set("long", "x" * 100_000)
    client.set("fleeting", "v", px=600_000)
    client.rpush("list", *range(20))
    client.rpush("long-list", *(f"element:{i}" for i in range(5000)))
    client.sadd("ints", *range(100))
    client.sadd("set", "a", "b", "c")
    client.sadd("large-set", *(f"member:{i}" for i in range(3000)))
    client.hset("hash", mapping={"f": "v", "g": "w"})
    client.hset("large-hash", mapping={f"field:{i}": f"value:{i}" for i in range(3000)})
    client.zadd("zset", {"one": 1, "two": 2.5, "inf": float("inf")})
    client.zadd("large-zset", {f"member:{i}": i * 1.5 for i in range(3000)})
    client.expire("large-zset", 5000)
    client.select(9)
    client.set("elsewhere", "v")
    client.select(0)


@pytest.mark.parametrize("server", WORKERS, indirect=True)
@pytest.mark.parametrize("how", ["RELOAD", "LOADAOF"])
def test_reload_keeps_every_value_and_expiry(server, how):
    with server.client(decode_responses=False) as c:
        fill(c)
        before, size, expiry = c.execute_command("DEBUG", "DIGEST"), c.dbsize(), c.pexpiretime("fleeting")
        assert c.execute_command("DEBUG", how) == b"OK"
        assert c.execute_command("DEBUG", "DIGEST") == before and c.dbsize() == size
        assert c.pexpiretime("fleeting") == expiry
        assert c.lrange("long-list", 0, -1) == [b"element:%d" % i for i in range(5000)]
        assert c.zrange("large-zset", 0, -1) == [b"member:%d" % i for i in range(3000)]
        c.select(9)
        assert c.get("elsewhere") == b"v"


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_reload_leaves_out_what_is_over(client):
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    client.set("short", "v", px=1)
    client.set("stays", "v")
    time.sleep(0.05)
    assert client.dbsize() == 2
    client.execute_command("DEBUG", "RELOAD", "MERGE", "NOFLUSH")
    assert client.dbsize() == 1


def test_a_digest_does_not_depend_on_the_number_of_shards(make_server):
    digests, values = set(), set()
    for workers in (1, 2, 4):
        with make_server(workers=workers).client(decode_responses=False) as c:
            fill(c)
            c.persist("fleeting")
            c.persist("large-zset")
            digests.add(c.execute_command("DEBUG", "DIGEST"))
            values.add(tuple(c.execute_command("DEBUG", "DIGEST-VALUE", "text", "large-hash", "large-set", "nothing")))
    assert len(digests) == 1 and len(values) == 1
    assert all(re.fullmatch(rb"[0-9a-f]{40}", d) for d in digests)


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_digest_sees_every_change_and_is_zero_of_nothing(client):
    digest = lambda: client.execute_command("DEBUG", "DIGEST")
    assert digest() == "0" * 40
    seen = {digest()}
    for change in (lambda: client.set("a", 1), lambda: client.set("a", 2), lambda: client.expire("a", 100), lambda: client.rpush("l", "x", "y"),
                   lambda: client.lset("l", 0, "z"), lambda: client.rename("l", "m"), lambda: client.hset("h", "f", "v"),
                   lambda: client.zadd("z", {"m": 1}), lambda: client.zadd("z", {"m": 2})):
        change()
        assert digest() not in seen
        seen.add(digest())
    client.flushall()
    assert digest() == "0" * 40


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_equal_values_under_different_keys_have_equal_digests(client):
    client.sadd("s1", *range(1000))
    client.sadd("s2", *reversed(range(1000)))
    client.set("t", 1)
    one, two, three, none = client.execute_command("DEBUG", "DIGEST-VALUE", "s1", "s2", "t", "missing")
    assert one == two and one != three and none == "0" * 40


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_populate_makes_the_keys_that_redis_makes(server, redis_reference):
    with Wire(server) as ours:
        ours.ask("SET", "key:3", "mine")
        assert ours.ask("DEBUG", "POPULATE", 1000) == "OK"
        assert ours.ask("DBSIZE") == 1000
        assert ours.ask("GET", "key:999") == "value:999" and ours.ask("GET", "key:3") == "mine"
        assert ours.ask("DEBUG", "POPULATE", 5, "p", 10) == "OK"
        assert ours.ask("GET", "p:4") == "value:4\0\0\0"
        assert ours.ask("DEBUG", "POPULATE", 1, "q", 3) == "OK" and ours.ask("GET", "q:0") == "val"
        for bad in (["-1"], ["x"], ["5", "p", "-1"], ["1", "p", "999999999999"]):
            assert ours.ask("DEBUG", "POPULATE", *bad) == Error("ERR value is out of range, must be positive")


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_sleep_holds_all_shards(server):
    with Wire(server) as sleeper, Wire(server) as other:
        started = time.monotonic()
        sleeper.command("DEBUG", "SLEEP", "0.5")
        time.sleep(0.1)
        other.ask("SET", "any", "key")
        assert 0.4 < time.monotonic() - started
        assert sleeper.reply() == "OK"


def test_a_sleeping_server_can_be_stopped(make_server):
    server = make_server(workers=2)
    with Wire(server) as c:
        c.command("DEBUG", "SLEEP", "1000")
        time.sleep(0.2)
        assert server.stop(timeout=10) == 0


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_active_expiry_can_be_switched_off_and_on(client):
    assert client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for i in range(200):
        client.set(f"k{i}", "v", px=1)
    time.sleep(0.5)
    assert client.dbsize() == 200
    assert client.get("k0") is None and client.dbsize() == 199  # a look still finds out
    assert client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    deadline = time.monotonic() + 10
    while client.dbsize() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert client.dbsize() == 0


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_object_tells_what_redis_tells_and_the_shard(server):
    with Wire(server) as c:
        c.ask("SET", "k", "hello")
        line = c.ask("DEBUG", "OBJECT", "k")
        found = re.fullmatch(r"Value at:0x[0-9a-f]+ refcount:1 encoding:embstr serializedlength:6 lru:\d+ lru_seconds_idle:0 type:string shard:(\d+)", line)
        assert found and int(found[1]) == c.ask("STATS.SHARD", "k")
        assert c.ask("DEBUG", "OBJECT", "missing") == Error("ERR no such key")
        c.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        c.ask("SET", "counted", "v")
        assert "lfu_freq:5" in c.ask("DEBUG", "OBJECT", "counted")


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
@pytest.mark.parametrize("protocol", [2, 3])
def test_every_protocol_type_is_byte_for_byte_that_of_redis(server, processes, protocol):
    from conftest import start_redis
    reference = processes(start_redis, args=["--enable-debug-command", "yes"])
    types = "string integer double bignum null array set map attrib push verbatim true false nonsense".split()
    with Wire(server, protocol) as ours, Wire(reference, protocol) as theirs:
        for kind in types:
            seen = []
            for c in (ours, theirs):
                c.command("DEBUG", "PROTOCOL", kind)
                c.command("ECHO", "the end")
                seen.append(until(c, b"$7\r\nthe end\r\n"))
            assert seen[0] == seen[1]


def until(c, end):
    out = b""
    while not out.endswith(end):
        out += c.read(1)
    return out


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_an_error_is_answered_as_it_was_asked_for(server):
    with Wire(server) as c:
        assert c.ask("DEBUG", "ERROR", "MYCODE a text") == Error("MYCODE a text")
        assert c.ask("DEBUG", "ERROR", "two\r\nlines") == Error("two  lines")
        assert c.ask("PING") == "PONG"


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_a_log_line_can_be_written(server):
    with Wire(server) as c:
        assert c.ask("DEBUG", "LOG", "find me\nand not a second line") == "OK"
    assert '"find me\\nand not a second line"' in server.log()


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_tables_and_packs_are_described(server):
    with Wire(server) as c:
        assert "No stats available" in c.ask("DEBUG", "HTSTATS", 0)
        c.ask("DEBUG", "POPULATE", 1000)
        c.ask("EXPIRE", "key:1", 1000)
        text = c.ask("DEBUG", "HTSTATS", 0)
        entries = [int(n) for n in re.findall(r"entries: (\d+)", text)]
        assert sum(entries) == 1001 and "[Expires HT]" in text
        assert c.ask("DEBUG", "HTSTATS", 99) == Error("ERR Out of range database")
        c.ask("HSET", "small", "field", "val\x01ue")
        assert "field" in c.ask("DEBUG", "LISTPACK", "small") and "val\\x01ue" in c.ask("DEBUG", "ZIPLIST", "small")
        assert c.ask("DEBUG", "LISTPACK", "key:1") == Error("ERR Not a listpack encoded object.")
        assert c.ask("DEBUG", "HTSTATS-KEY", "small").startswith("ERR The value stored at the specified key")
        c.ask("SADD", "large", *range(-1000, 1000), "x")
        assert "entries: 2001" in c.ask("DEBUG", "HTSTATS-KEY", "large")


@pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)
def test_what_is_without_effect_says_ok_and_what_is_unknown_says_so(server):
    with Wire(server) as c:
        for words in (["JMAP"], ["CHANGE-REPL-ID"], ["QUICKLIST-PACKED-THRESHOLD", "100b"], ["QUICKLIST-PACKED-THRESHOLD", "0"]):
            assert c.ask("DEBUG", *words) == "OK"
        assert c.ask("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "x").startswith("ERR argument must be a memory value")
        assert c.ask("DEBUG", "STRINGMATCH-LEN", 1000, "a*") == 1 and c.ask("DEBUG", "STRINGMATCH-LEN", 1000, "*b") == 0
        for words in (["REPLYBUFFER", "RESIZING", "0"], ["CLIENT-EVICTION"], ["SEGFAULT"], ["PANIC"]):
            assert isinstance(c.ask("DEBUG", *words), Error)
        assert c.ask("DEBUG", "RELOAD", "NOSAVE").startswith("ERR DEBUG RELOAD NOSAVE")
        assert c.ask("DEBUG", "RELOAD", "NOPE") == Error("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
        assert c.ask("DEBUG", "HELP")[0].startswith("DEBUG <subcommand>")
        assert c.ask("PING") == "PONG"


@pytest.mark.parametrize("server", [{"workers": 4}], indirect=True)
def test_reload_in_the_middle_of_traffic_loses_nothing(server):
    stop, errors = threading.Event(), []

    def count(number):
        with server.client() as c:
            n = 0
            while not stop.is_set():
                n += 1
                if c.incr(f"counter:{number}") != n:
                    errors.append(f"counter:{number} is not {n}")
                    return

    threads = [threading.Thread(target=count, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    with Wire(server) as c:
        for _ in range(20):
            assert c.ask("DEBUG", "RELOAD") == "OK"
            time.sleep(0.01)
    stop.set()
    for t in threads:
        t.join()
    assert not errors
