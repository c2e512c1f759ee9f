"""Every write command of the command table, logged and replayed, gives the same store; dumped and loaded too.

A command without a case here fails the test, and so does a case that changed nothing: what has no effect proves nothing.
"""
import time

import pytest

DBS = 16
FAR = 4_000_000_000  # unix seconds


def payload_of_text(text):
    """What RESTORE takes: type 0, a short string, version 9, and the checksum (CRC-64 Jones)."""
    body = bytes([0, len(text)]) + text + b"\x09\x00"
    crc = 0
    for byte in body:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return body + crc.to_bytes(8, "little")


# name: (what has to be there, calls of which each has to change something). Keys are named after the command, so a difference names its cause.
CASES = {
    "append": (["SET append a"], ["APPEND append bc", "APPEND append:new x"]),
    "bitfield": ([], ["BITFIELD bitfield SET u8 0 255 INCRBY u2 100 1", "BITFIELD bitfield OVERFLOW SAT INCRBY i8 0 99"]),
    "bitop": (["SET bitop:a abc", "SET bitop:b xyz"], ["BITOP AND bitop:and bitop:a bitop:b", "BITOP XOR bitop:xor bitop:a bitop:b", "BITOP NOT bitop:not bitop:a", "BITOP OR bitop:and bitop:none"]),
    "blmove": (["RPUSH blmove:a 1 2 3"], ["BLMOVE blmove:a blmove:b LEFT RIGHT 1", "BLMOVE blmove:a blmove:a LEFT RIGHT 1"]),
    "blmpop": (["RPUSH blmpop 1 2 3 4"], ["BLMPOP 1 2 blmpop:none blmpop LEFT COUNT 2"]),
    "blpop": (["RPUSH blpop 1 2 3"], ["BLPOP blpop:none blpop 1"]),
    "brpop": (["RPUSH brpop 1 2 3"], ["BRPOP brpop:none brpop 1"]),
    "brpoplpush": (["RPUSH brpoplpush:a 1 2 3"], ["BRPOPLPUSH brpoplpush:a brpoplpush:b 1"]),
    "bzmpop": (["ZADD bzmpop 1 a 2 b 3 c"], ["BZMPOP 1 2 bzmpop:none bzmpop MAX COUNT 2"]),
    "bzpopmax": (["ZADD bzpopmax 1 a 2 b"], ["BZPOPMAX bzpopmax 1"]),
    "bzpopmin": (["ZADD bzpopmin 1 a 2 b"], ["BZPOPMIN bzpopmin 1"]),
    "copy": (["RPUSH copy:a 1 2", f"SET copy:t x EXAT {FAR}", "SET copy:old y"], ["COPY copy:a copy:b", "COPY copy:t copy:old REPLACE", "COPY copy:a copy:a DB 5"]),
    "decr": ([], ["DECR decr"]),
    "decrby": (["SET decrby 10"], ["DECRBY decrby 3"]),
    "del": (["MSET del:a 1 del:b 2 del:c 3 del:stays 4"], ["DEL del:a del:b del:none", "DEL del:c"]),
    "expire": (["SET expire a", "SET expire:past a"], ["EXPIRE expire 100000", "EXPIRE expire:past -1"]),
    "expireat": (["HSET expireat f v"], [f"EXPIREAT expireat {FAR}"]),
    "getdel": (["SET getdel a"], ["GETDEL getdel"]),
    "getex": (["SET getex a", f"SET getex:p a EXAT {FAR}"], ["GETEX getex EX 100000", "GETEX getex:p PERSIST"]),
    "getset": (["SET getset a"], ["GETSET getset b", "GETSET getset:new b"]),
    "hdel": (["HSET hdel a 1 b 2 c 3", "HSET hdel:all a 1"], ["HDEL hdel a c", "HDEL hdel:all a"]),
    "hincrby": ([], ["HINCRBY hincrby f 7", "HINCRBY hincrby f -9"]),
    "hincrbyfloat": ([], ["HINCRBYFLOAT hincrbyfloat f 0.1", "HINCRBYFLOAT hincrbyfloat f 0.2"]),
    "hmset": ([], ["HMSET hmset a 1 b 2"]),
    "hset": ([], ["HSET hset a 1 b 2", "HSET hset a 3", ["HSET", "hset:big", *(f"{x}{i}" for i in range(400) for x in "fv")], ["HSET", "hset:big", "long", "x" * 5000]]),
    "hsetnx": ([], ["HSETNX hsetnx a 1"]),
    "incr": ([], ["INCR incr"]),
    "incrby": ([], ["INCRBY incrby 9223372036854775807"]),
    "incrbyfloat": ([], ["INCRBYFLOAT incrbyfloat 0.1", "INCRBYFLOAT incrbyfloat 0.2"]),
    "linsert": (["RPUSH linsert a b"], ["LINSERT linsert BEFORE b x", "LINSERT linsert AFTER a y"]),
    "lmove": (["RPUSH lmove:a 1 2 3"], ["LMOVE lmove:a lmove:b LEFT LEFT", "LMOVE lmove:a lmove:a RIGHT LEFT"]),
    "lmpop": (["RPUSH lmpop 1 2 3 4"], ["LMPOP 1 lmpop RIGHT COUNT 3", "LMPOP 2 lmpop:none lmpop LEFT"]),
    "lpop": (["RPUSH lpop 1 2 3 4"], ["LPOP lpop", "LPOP lpop 2", "LPOP lpop 5"]),
    "lpush": ([], ["LPUSH lpush a b c", ["LPUSH", "lpush:big", *range(3000)], ["LPUSH", "lpush:huge", "x" * 100_000]]),
    "lpushx": (["RPUSH lpushx a"], ["LPUSHX lpushx b c"]),
    "lrem": (["RPUSH lrem a b a c a"], ["LREM lrem -2 a", "LREM lrem 0 c"]),
    "lset": (["RPUSH lset a b c"], ["LSET lset -1 x", ["LSET", "lset", "0", "y" * 10_000]]),
    "ltrim": (["RPUSH ltrim 1 2 3 4 5", "RPUSH ltrim:all 1"], ["LTRIM ltrim 1 -2", "LTRIM ltrim:all 5 9"]),
    "move": (["ZADD move 1 a"], ["MOVE move 6"]),
    "mset": ([], ["MSET mset:a 1 mset:b 2 mset:c 3 mset:d 4 mset:e 5", "MSET mset:a 9 mset:a 8"]),
    "msetnx": ([], ["MSETNX msetnx:a 1 msetnx:b 2 msetnx:c 3"]),
    "persist": ([f"SET persist a EXAT {FAR}"], ["PERSIST persist"]),
    "pexpire": (["SADD pexpire a"], ["PEXPIRE pexpire 100000000"]),
    "pexpireat": (["SET pexpireat a"], [f"PEXPIREAT pexpireat {FAR}123"]),
    "pfadd": ([], ["PFADD pfadd a b c", ["PFADD", "pfadd:dense", *range(3000)], "PFADD pfadd:empty"]),
    "pfdebug": (["PFADD pfdebug a b c"], ["PFDEBUG TODENSE pfdebug"]),
    "pfmerge": (["PFADD pfmerge:a a b", "PFADD pfmerge:b c d"], ["PFMERGE pfmerge pfmerge:a pfmerge:b"]),
    "psetex": ([], ["PSETEX psetex 100000000 a"]),
    "rename": (["HSET rename:a f v", f"SET rename:t x EXAT {FAR}", "SET rename:old y"], ["RENAME rename:a rename:b", "RENAME rename:t rename:old"]),
    "renamenx": (["SADD renamenx:a 1 2"], ["RENAMENX renamenx:a renamenx:b"]),
    "restore": ([], [["RESTORE", "restore", "0", payload_of_text(b"text")], ["RESTORE", "restore:t", f"{FAR}000", payload_of_text(b"timed"), "ABSTTL"],
                     ["RESTORE", "restore", "100000000", payload_of_text(b"again"), "REPLACE"]]),
    "rpop": (["RPUSH rpop 1 2 3"], ["RPOP rpop", "RPOP rpop 9"]),
    "rpoplpush": (["RPUSH rpoplpush:a 1 2"], ["RPOPLPUSH rpoplpush:a rpoplpush:b"]),
    "rpush": ([], ["RPUSH rpush a", ["RPUSH", "rpush:big", *("e" * (i % 90) for i in range(2000))]]),
    "rpushx": (["RPUSH rpushx a"], ["RPUSHX rpushx b c"]),
    "sadd": ([], ["SADD sadd 1 2 3", "SADD sadd x", ["SADD", "sadd:big", *(f"m{i}" for i in range(900))], ["SADD", "sadd:ints", *range(900)]]),
    "sdiffstore": (["SADD sdiffstore:a 1 2 3", "SADD sdiffstore:b 2"], ["SDIFFSTORE sdiffstore sdiffstore:a sdiffstore:b", "SDIFFSTORE sdiffstore sdiffstore:none"]),
    "set": (["SET set:x old"], ["SET set v", "SET set 12345", "SET set:x new XX GET", f"SET set:at v PXAT {FAR}001", "SET set:ex v EX 100000 NX", "SET set:ex w KEEPTTL",
                                "SET set:ex u", ["SET", "set:binary", bytes(range(256)) * 9], ["SET", "set:large", "x" * 3_000_000], ["SET", "set:empty", ""]]),
    "setbit": ([], ["SETBIT setbit 100 1", "SETBIT setbit 100 0"]),
    "setex": ([], ["SETEX setex 100000 a"]),
    "setnx": ([], ["SETNX setnx a"]),
    "setrange": (["SET setrange Hello"], ["SETRANGE setrange 3 XYZ", "SETRANGE setrange:new 5 a"]),
    "sinterstore": (["SADD sinterstore:a 1 2 3", "SADD sinterstore:b 2 3 4"], ["SINTERSTORE sinterstore sinterstore:a sinterstore:b"]),
    "smove": (["SADD smove:a 1 2", "SADD smove:b 9"], ["SMOVE smove:a smove:b 1", "SMOVE smove:a smove:new 2"]),
    "sort": (["RPUSH sort 3 1 2", "MSET sort:w1 9 sort:w2 8 sort:w3 7"], ["SORT sort STORE sort:to", "SORT sort BY sort:w* GET # GET sort:w* STORE sort:by"]),
    "spop": (["SADD spop 1 2 3 4 5 6 7 8 9", ["SADD", "spop:big", *(f"m{i}" for i in range(500))], "SADD spop:all a b"], ["SPOP spop", "SPOP spop 3", "SPOP spop:big 100", "SPOP spop:all 5"]),
    "srem": (["SADD srem a b c", "SADD srem:all a"], ["SREM srem a c x", "SREM srem:all a"]),
    "sunionstore": (["SADD sunionstore:a 1 2", "SADD sunionstore:b x"], ["SUNIONSTORE sunionstore sunionstore:a sunionstore:b"]),
    "unlink": (["MSET unlink:a 1 unlink:b 2"], ["UNLINK unlink:a unlink:b"]),
    "zadd": ([], ["ZADD zadd 1 a 2.5 b inf c", "ZADD zadd XX GT CH 7 a", "ZADD zadd INCR 1.1 b", ["ZADD", "zadd:big", *(x for i in range(700) for x in (i / 7, f"m{i}"))]]),
    "zdiffstore": (["ZADD zdiffstore:a 1 a 2 b", "ZADD zdiffstore:b 1 a"], ["ZDIFFSTORE zdiffstore 2 zdiffstore:a zdiffstore:b"]),
    "zincrby": ([], ["ZINCRBY zincrby 0.1 a", "ZINCRBY zincrby 0.2 a"]),
    "zinterstore": (["ZADD zinterstore:a 1 a 2 b", "ZADD zinterstore:b 5 b"], ["ZINTERSTORE zinterstore 2 zinterstore:a zinterstore:b WEIGHTS 2 3"]),
    "zmpop": (["ZADD zmpop 1 a 2 b 3 c"], ["ZMPOP 2 zmpop:none zmpop MIN COUNT 2"]),
    "zpopmax": (["ZADD zpopmax 1 a 2 b 3 c"], ["ZPOPMAX zpopmax", "ZPOPMAX zpopmax 5"]),
    "zpopmin": (["ZADD zpopmin 1 a 2 b 3 c"], ["ZPOPMIN zpopmin 2"]),
    "zrangestore": (["ZADD zrangestore:a 1 a 2 b 3 c"], ["ZRANGESTORE zrangestore zrangestore:a 1 2", "ZRANGESTORE zrangestore zrangestore:a (1 +inf BYSCORE LIMIT 1 1"]),
    "zrem": (["ZADD zrem 1 a 2 b"], ["ZREM zrem a x", "ZREM zrem b"]),
    "zremrangebylex": (["ZADD zremrangebylex 0 a 0 b 0 c"], ["ZREMRANGEBYLEX zremrangebylex [a (c"]),
    "zremrangebyrank": (["ZADD zremrangebyrank 1 a 2 b 3 c"], ["ZREMRANGEBYRANK zremrangebyrank 0 1"]),
    "zremrangebyscore": (["ZADD zremrangebyscore 1 a 2 b 3 c"], ["ZREMRANGEBYSCORE zremrangebyscore (1 +inf"]),
    "zunionstore": (["ZADD zunionstore:a 1 a", "SADD zunionstore:s a b"], ["ZUNIONSTORE zunionstore 2 zunionstore:a zunionstore:s AGGREGATE SUM"]),
}

# These reach over everything: each in a life of its own, in this order.
GLOBAL_CASES = {
    "flushdb": (["MSET a 1 b 2 c 3", "SELECT 3", "MSET d 4 e 5", "SELECT 0"], ["FLUSHDB"]),
    "swapdb": (["MSET a 1 b 2 c 3", "SELECT 3", "MSET a x f 6", "SELECT 0"], ["SWAPDB 0 3", "SWAPDB 0 7"]),
    "flushall": (["MSET a 1 b 2", "SELECT 9", "SET z 1", "SELECT 0"], ["FLUSHALL"]),
}

# Of key spaces, in this order and in a life of their own: what they change besides keys is placed anew for another number of workers, so the digest of everything is not the same there.
SPACE_CASES = {
    "space.set": (["MSET s/a 1 s/b 2 s/c 3 s/d 4"], ["SPACE.SET s RANGE"]),
    "range.split": ([], ["RANGE.SPLIT s s/b", "RANGE.SPLIT s s/c"]),
    "range.merge": ([], ["RANGE.MERGE s s/b"]),
    "range.move": ([], [lambda c: ["RANGE.MOVE", "s", "s/c", 1 - bool(shard_of(c, "s/c"))]]),
    "range.exec": ([], [lambda c: ["RANGE.EXEC", *fence_of(c, "s/a"), "SET", "s/a", "fenced"]]),
    "range.lock": ([], ["RANGE.LOCK s - + me 10000000", "RANGE.LOCK s s/a s/b me 10000000"]),
    "range.extend": ([], ["RANGE.EXTEND s - + me 20000000"]),
    "range.unlock": ([], ["RANGE.UNLOCK s s/a s/b me"]),
    "range.del": ([], ["RANGE.DEL s s/d"]),
}

# Served by somebody else's write while they wait; the second is what serves them.
WAITING = [
    ("BLPOP waits:blpop 5", "RPUSH waits:blpop a b"),
    ("BRPOP waits:brpop 5", "RPUSH waits:brpop a b"),
    ("BLMOVE waits:blmove waits:blmove:to LEFT RIGHT 5", "RPUSH waits:blmove a b"),
    ("BRPOPLPUSH waits:brpoplpush waits:brpoplpush:to 5", "LPUSH waits:brpoplpush a b"),
    ("BLMPOP 5 1 waits:blmpop LEFT COUNT 2", "RPUSH waits:blmpop a b c"),
    ("BZPOPMIN waits:bzpopmin 5", "ZADD waits:bzpopmin 1 a 2 b"),
    ("BZPOPMAX waits:bzpopmax 5", "ZADD waits:bzpopmax 1 a 2 b"),
    ("BZMPOP 5 1 waits:bzmpop MIN", "ZADD waits:bzmpop 1 a 2 b"),
]


def range_of(client, key):
    """The last range that does not begin behind the key."""
    flat = client.execute_command("RANGE.MAP", key.rsplit("/", 1)[0])
    ranges = [r if isinstance(r, dict) else dict(zip(r[::2], r[1::2])) for r in flat]
    return [r for r in ranges if r["start"] == "-" or r["start"] <= key][-1]


def shard_of(client, key):
    return range_of(client, key)["shard"]


def fence_of(client, key):
    r = range_of(client, key)
    return r["id"], r["generation"]


def wait_for_moves(client):
    deadline = time.monotonic() + 20
    while any("to-shard" in r for r in client.execute_command("RANGE.MAP")) or any("to-mode" in s for s in client.execute_command("SPACE.LIST")):
        assert time.monotonic() < deadline


def words(call):
    return call.split() if isinstance(call, str) else call


def run(client, calls):
    for call in calls:
        client.execute_command(*words(call))


def keys_of(client):
    """Once what has expired is gone: the digest of everything would have it still."""
    deadline = time.monotonic() + 10
    while client.dbsize() != len(keys := client.execute_command("KEYS", "*")):
        assert time.monotonic() < deadline, "expired keys stay"
        time.sleep(0.02)
    return keys


def state(server, digest=True):
    """Value and expiry of every key of every database, and what the server makes of all of it."""
    out = {}
    with server.client(decode_responses=False, single_connection_client=True) as c:
        for db in range(DBS):
            c.execute_command("SELECT", db)
            for key in keys_of(c):
                out[db, key] = (c.execute_command("PEXPIRETIME", key), c.execute_command("DEBUG", "DIGEST-VALUE", key)[0], c.execute_command("TYPE", key))
        if digest:
            out["digest"] = c.execute_command("DEBUG", "DIGEST")
    return out


def run_case(client, name, before, calls):
    run(client, before)
    for call in calls:
        digest = client.execute_command("DEBUG", "DIGEST")
        client.execute_command(*words(call(client) if callable(call) else call))
        assert client.execute_command("DEBUG", "DIGEST") != digest, f"the case of {name} changed nothing: {str(call)[:100]}"


def run_waiting(server, client):
    for waiting, push in WAITING:
        with server.raw() as blocked:
            blocked.command(*waiting.split())
            deadline = time.monotonic() + 5
            while client.info("clients")["blocked_clients"] == 0:
                assert time.monotonic() < deadline
            client.execute_command(*push.split())
            assert blocked.line().startswith((b"*", b"$")), waiting


def run_rest(server, client):
    """Changes that no write command names: what expires, and is made anew; what a transaction does; what DEBUG does."""
    client.mset({f"expired:{i}": "9" for i in range(6)})
    for i in range(6):
        client.pexpire(f"expired:{i}", 1)
    client.set("expired:active", "v", px=1)
    time.sleep(0.05)
    client.incr("expired:0")
    client.append("expired:1", "x")
    client.rpush("expired:2", "x")
    client.execute_command("SET", "expired:3", "x", "KEEPTTL")
    client.setbit("expired:4", 9, 1)
    client.sunionstore("expired:to", "expired:5", "sadd")
    with client.pipeline(transaction=True) as p:
        p.set("exec:a", 1).rpush("exec:b", 1, 2).incr("exec:a").rename("exec:b", "exec:c").sadd("exec:d", "x").execute()
    client.execute_command("DEBUG", "POPULATE", 50, "populated", 20)
    client.execute_command("DEBUG", "RELOAD")


def check_lives(make_server, server, data, workers, digest=True):
    """The same state in every life that follows: after kill -9, with other workers, after SAVE, after a clean end."""
    expected = state(server, digest)
    server.kill()
    for how, n in (("log", workers), ("other workers", workers % 3 + 2), ("again", workers % 3 + 2), ("workers back", workers)):
        server = make_server(data=data, workers=n, args=["--appendfsync", "always"])
        assert state(server, digest) == expected, how
        server.kill()
    server = make_server(data=data, workers=workers)
    with server.client() as c:
        assert c.execute_command("SAVE")
    assert state(server, digest) == expected
    server.kill()
    server = make_server(data=data, workers=workers)
    assert state(server, digest) == expected, "after SAVE"
    if len(expected) > 1:
        assert "dump loaded" in server.log()
    with server.client() as c:
        assert c.execute_command("SAVE")
        c.set("behind the dump", "v")
    expected = state(server, digest)
    assert server.stop() == 0
    assert state(make_server(data=data, workers=workers), digest) == expected, "a dump and a log behind it"


@pytest.mark.parametrize("workers", [1, 3])
def test_every_write_command_is_the_same_after_replay(make_server, tmp_path, workers):
    server = make_server(data=tmp_path / "data", workers=workers, args=["--appendfsync", "always"])
    with server.client(single_connection_client=True) as c:
        c.set_response_callback("ZADD", lambda reply, **options: reply)  # with INCR it is no integer
        table = {name for name, row in c.command().items() if "write" in row["flags"]}
        assert len(table) > 60, "this is not the whole command table"
        assert table - set(CASES) - set(GLOBAL_CASES) - set(SPACE_CASES) == set(), "write commands without a case"
        for name, (before, calls) in CASES.items():
            assert all(words(call)[0].lower() == name for call in calls)
            run_case(c, name, before, calls)
        run_waiting(server, c)
        run_rest(server, c)
    check_lives(make_server, server, tmp_path / "data", workers)


@pytest.mark.parametrize("name", GLOBAL_CASES)
def test_commands_over_whole_databases_are_the_same_after_replay(make_server, tmp_path, name):
    server = make_server(data=tmp_path / "data", workers=3, args=["--appendfsync", "always"])
    with server.client(single_connection_client=True) as c:
        run_case(c, name, *GLOBAL_CASES[name])
        c.set("behind", "v")
    check_lives(make_server, server, tmp_path / "data", 3)


def test_commands_of_key_spaces_are_the_same_after_replay(make_server, tmp_path):
    server = make_server(data=tmp_path / "data", workers=3, args=["--appendfsync", "always"])
    with server.client(single_connection_client=True) as c:
        for name, (before, calls) in SPACE_CASES.items():
            run_case(c, name, before, calls)
            wait_for_moves(c)
    check_lives(make_server, server, tmp_path / "data", 3, digest=False)
