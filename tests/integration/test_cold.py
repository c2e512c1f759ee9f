"""maxmemory-policy cold: values on disk are as good as values in memory, for every type and every way to ask for them."""
import os
import random
import threading
import time

import pytest

COLD = ["--maxmemory", "64mb", "--maxmemory-policy", "cold"]


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def cold(make_server, data):
    return make_server(data=data, workers=2, args=COLD)


def info(c):
    return c.info("cold")


def wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def chill(c, *keys):
    """Sends values to disk, and waits until they are there."""
    n = c.execute_command("DEBUG", "CHILL", *keys)
    wait_for(lambda: info(c)["cold_pending_bytes"] == 0)
    return n


def is_cold(c, key):
    """A cold key costs no more than its name and a reference."""
    return c.memory_usage(key) < 120


BIG = "abcdefghij" * 100


def fill(c):
    c.set("string", BIG)
    c.set("expiring", BIG, ex=1000)
    c.set("binary", bytes(range(256)) * 4)
    c.set("counter", 41)
    c.rpush("list", *(f"{i:0100}" for i in range(300)))
    c.hset("hash", mapping={f"f{i}": "x" * i for i in range(300)})
    c.hset("small", mapping={f"f{i}": i for i in range(50)})
    c.sadd("ints", *range(200))
    c.sadd("set", *(f"member{i}" for i in range(500)))
    c.zadd("zset", {f"m{i}": i / 3 for i in range(500)})
    c.setbit("bits", 10_000, 1)
    c.pfadd("hll", *range(1000))
    c.execute_command("SELECT", 3)
    c.set("elsewhere", BIG)
    c.execute_command("SELECT", 0)


def digests(server):
    out = {}
    with server.client(decode_responses=False) as c:
        for db in range(4):
            c.execute_command("SELECT", db)
            for key in c.scan_iter(count=1000):
                out[db, key] = (c.execute_command("PEXPIRETIME", key), c.execute_command("DEBUG", "DIGEST-VALUE", key))
    return out


def test_every_type_comes_back_as_it_was(cold):
    c = cold.client()
    fill(c)
    before = digests(cold)
    whole = c.execute_command("DEBUG", "DIGEST")
    assert chill(c) == len(before)
    assert info(c)["cold_keys"] == len(before)
    assert c.execute_command("DEBUG", "DIGEST") == whole
    assert c.get("string") == BIG and c.lindex("list", 7) == f"{7:0100}" and c.hget("hash", "f9") == "x" * 9
    assert c.zscore("zset", "m9") == 3 and c.sismember("set", "member1") and c.getbit("bits", 10_000) == 1 and c.pfcount("hll") > 900
    assert c.append("string", "!") == len(BIG) + 1 and c.incr("counter") == 42 and c.rpop("list") == f"{299:0100}"
    assert info(c)["cold_reads"] >= 7
    c.setrange("string", 0, "A")
    assert c.get("string") == "A" + BIG[1:] + "!"


def test_keys_are_looked_at_without_reading(cold):
    c = cold.client()
    fill(c)
    keys = sorted(c.keys("*"))
    chill(c)
    reads = info(c)["cold_hits"]
    assert sorted(c.keys("*")) == keys and sorted(c.scan_iter()) == keys and c.dbsize() == len(keys) and c.randomkey() in keys
    assert c.exists(*keys) == len(keys) and c.touch("string") == 1 and c.type("hash") == "hash" and 0 < c.ttl("expiring") <= 1000
    assert c.expire("string", 500) and c.persist("string") and c.object("idletime", "list") >= 0
    c.set("string", "new")
    c.mset({"list": "a", "hash": "b"})
    c.setex("set", 100, "c")
    assert not c.setnx("zset", "d") and c.delete("zset", "ints") == 2 and c.unlink("bits") == 1
    assert c.mget("string", "list", "hash", "set", "zset") == ["new", "a", "b", "c", None]
    assert info(c)["cold_hits"] == reads
    assert is_cold(c, "small") and is_cold(c, "expiring")


def test_replies_of_a_pipeline_stay_in_order(cold):
    c = cold.client()
    for i in range(400):
        c.set(f"k{i}", f"{i}:" + BIG)
    chill(c)
    rng = random.Random(1)
    for _ in range(5):
        p, expected = c.pipeline(transaction=False), []
        for _ in range(200):
            i = rng.randrange(400)
            what = rng.randrange(4)
            if what == 0:
                p.mget(f"k{i}", f"k{(i + 1) % 400}", "none")
                expected.append([f"{i}:" + BIG, f"{(i + 1) % 400}:" + BIG, None])
            elif what == 1:
                p.exists(f"k{i}")
                expected.append(1)
            else:
                p.get(f"k{i}")
                expected.append(f"{i}:" + BIG)
        assert p.execute() == expected
        chill(c)
    assert info(c)["cold_reads"] > 100


def test_a_transaction_reads_what_it_needs_and_is_atomic(cold):
    c, other = cold.client(), cold.client()
    c.mset({f"t{i}": BIG for i in range(20)})
    c.rpush("l", *(BIG for _ in range(5)))
    c.execute_command("SELECT", 1)
    c.set("t0", "in one" + BIG)
    c.execute_command("SELECT", 0)
    chill(c)
    p = c.pipeline(transaction=True)
    for i in range(20):
        p.append(f"t{i}", "+")
    p.lpop("l")
    p.execute_command("SELECT", 1)
    p.get("t0")
    p.swapdb(0, 1)
    p.get("t0")
    p.execute_command("SELECT", 0)
    out = p.execute()
    assert out[:20] == [len(BIG) + 1] * 20 and out[20] == BIG and out[22] == "in one" + BIG and out[24] == BIG + "+"
    c.swapdb(0, 1)
    chill(c)
    with c.pipeline() as w:
        w.watch("t1")
        chill(other, "t1")
        other.get("t1")  # it comes back: no change
        w.multi()
        w.get("t1")
        assert w.execute() == [BIG + "+"]


def test_a_key_with_another_name_or_database_keeps_its_value(cold):
    c = cold.client()
    for i in range(30):
        c.set(f"a{i}", f"{i}" + BIG, ex=1000)
    chill(c)
    for i in range(10):
        c.rename(f"a{i}", f"b{i}")
        c.copy(f"a{i + 10}", f"b{i + 10}")
        assert c.execute_command("MOVE", f"a{i + 20}", 2)
    chill(c)
    c.swapdb(0, 2)
    assert [c.get(f"a{i + 20}") for i in range(10)] == [f"{i + 20}" + BIG for i in range(10)]
    c.swapdb(0, 2)
    assert [c.get(f"b{i}") for i in range(20)] == [f"{i}" + BIG for i in range(20)]
    assert 0 < c.ttl("b3") <= 1000
    chill(c)
    c.flushall()
    wait_for(lambda: info(c)["cold_bytes"] == 0 and info(c)["cold_keys"] == 0)
    c.set("after", BIG)
    assert c.get("after") == BIG


def test_sort_looks_values_up_by_patterns(cold):
    c = cold.client()
    c.rpush("ids", 3, 1, 2)
    for i, w in ((1, 30), (2, 10), (3, 20)):
        c.set(f"w{i}", w)
        c.hset(f"o{i}", mapping={"name": f"n{i}" + BIG})
    chill(c)
    assert c.sort("ids", by="w*", get="o*->name") == [f"n{i}" + BIG for i in (2, 3, 1)]


def test_a_blocked_client_is_served_from_a_cold_list(cold):
    c, waiting = cold.client(), cold.client()
    got = []
    t = threading.Thread(target=lambda: got.append(waiting.blpop("queue", 20)))
    t.start()
    wait_for(lambda: c.info("clients")["blocked_clients"] == 1)
    c.execute_command("SELECT", 1)
    c.rpush("queue", "first" + BIG, "second")
    chill(c, "queue")
    c.swapdb(0, 1)
    t.join(20)
    assert got == [("queue", "first" + BIG)]
    c.execute_command("SELECT", 0)
    assert c.lrange("queue", 0, -1) == ["second"]


@pytest.mark.parametrize("how, workers", [("stop", 2), ("kill", 2), ("stop", 3), ("kill", 1)])
def test_cold_values_are_there_in_the_next_process(make_server, data, how, workers):
    s = make_server(data=data, workers=2, args=COLD)
    c = s.client()
    fill(c)
    chill(c)
    c.append("string", "more")
    c.hset("hash", "late", "x")
    chill(c)
    c.delete("counter")
    before = digests(s)
    chill(c)
    c.execute_command("SAVE")
    s.stop() if how == "stop" else s.kill()
    s = make_server(data=data, workers=workers, args=COLD)
    wait_for(lambda: s.client().info("persistence")["loading"] == 0)
    assert digests(s) == before
    assert info(s.client())["cold_read_errors"] == 0


def test_a_dump_has_the_cold_values_of_its_moment(make_server, data):
    s = make_server(data=data, workers=2, args=COLD)
    c = s.client()
    for i in range(3000):
        c.set(f"k{i}", f"{i}:" + BIG)
    fill(c)
    chill(c)
    stop, writes = threading.Event(), [0]

    def disturb():
        """Changes, reads and drops cold values while the dump walks over them."""
        with s.client() as other:
            rng = random.Random(5)
            while not stop.is_set():
                i = rng.randrange(3000)
                other.append(f"k{i}", "x" * 10)
                other.get(f"k{rng.randrange(3000)}")
                other.delete(f"gone{i}")
                other.execute_command("DEBUG", "CHILL", f"k{i}")
                writes[0] += 1

    t = threading.Thread(target=disturb)
    t.start()
    for _ in range(3):
        c.execute_command("SAVE")
    stop.set()
    t.join(20)
    before = digests(s)
    assert writes[0] > 10 and info(c)["cold_read_errors"] == 0
    c.execute_command("SAVE")
    s.kill()
    s = make_server(data=data, workers=2, args=COLD)
    wait_for(lambda: s.client().info("persistence")["loading"] == 0)
    assert digests(s) == before


def test_a_damaged_value_is_an_error_and_no_loss(make_server, data):
    s = make_server(data=data, workers=2, args=COLD)
    c = s.client()
    c.set("good", BIG)
    c.set("bad", "z" * 5000)
    c.set("bad2", "y" * 5000)
    c.execute_command("SAVE")
    chill(c, "bad", "bad2")
    folder = data / "cold"
    for name in os.listdir(folder):
        with open(folder / name, "r+b") as f:
            f.write(b"\0" * os.path.getsize(folder / name))
    for ask in (lambda: c.get("bad"), lambda: c.append("bad", "x"), lambda: c.mget("good", "bad"), lambda: c.rename("bad", "new")):
        with pytest.raises(Exception, match="COLD the value of a key cannot be read"):
            ask()
    with pytest.raises(Exception, match="COLD"):
        p = c.pipeline()
        p.set("good", "changed")
        p.get("bad")
        p.execute()
    assert c.get("good") == BIG, "a transaction that cannot read does nothing"
    assert c.exists("bad") == 1 and c.strlen("good") == len(BIG)
    assert info(c)["cold_read_errors"] >= 4 and "a cold value cannot be read" in s.log()
    c.set("bad2", "replaced")
    assert c.get("bad2") == "replaced"
    with pytest.raises(Exception):  # a dump without it would let the log be cut
        c.execute_command("SAVE")
    s.kill()
    c = make_server(data=data, workers=2, args=COLD).client()
    wait_for(lambda: c.info("persistence")["loading"] == 0)
    assert c.get("bad") == "z" * 5000


def test_without_a_data_directory_the_policy_is_refused(make_server):
    s = make_server(args=["--ephemeral", "yes"])
    with pytest.raises(Exception, match="cold needs a data directory"):
        s.client().config_set("maxmemory-policy", "cold")
    assert s.client().config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def rss(server):
    with open(f"/proc/{server.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


LIMIT = 64 << 20
VALUES = 320_000  # of 1 KiB: five times the limit


def value(i, generation):
    return (f"{i}:{generation}:" + f"{i * 2654435761 % 2**32:08x}" * 16 + "0123456789abcdef" * 64)[:1024]


@pytest.mark.plain_build
def test_memory_stays_within_the_limit_with_five_times_as_much_data(make_server, data):
    s = make_server(data=data, workers=2, args=["--maxmemory", LIMIT, "--maxmemory-policy", "cold"])
    c = s.client()
    generation, highest = [0] * VALUES, 0
    for at in range(0, VALUES, 2000):
        p = c.pipeline(transaction=False)
        for i in range(at, at + 2000):
            p.set(f"key:{i}", value(i, 0))
        assert all(p.execute())
        highest = max(highest, rss(s))
    rng = random.Random(7)
    for _ in range(60):
        p, expected = c.pipeline(transaction=False), []
        for _ in range(500):
            i = rng.randrange(VALUES)
            if rng.random() < 0.5:
                generation[i] += 1
                p.set(f"key:{i}", value(i, generation[i]))
                expected.append(True)
            else:
                p.get(f"key:{i}")
                expected.append(value(i, generation[i]))
        assert p.execute() == expected
        highest = max(highest, rss(s))
    n = info(c)
    assert c.dbsize() == VALUES and n["cold_keys"] > VALUES / 2 and n["cold_reads"] > 1000 and n["cold_ratio"] > 2
    assert highest < LIMIT * 1.1, f"{highest / LIMIT:.3f}"
