"""A seeded random walk over the commands of all value types, its every reply compared with that of a real Redis.

Few keys and few words, so that keys of the wrong type, members that are there, options that contradict each other and numbers at their limits
come up all the time; in other walks many words, for large collections. Both servers get the same commands in pipelines; replies must be equal
byte for byte, except that collections without an order are compared as such.
"""
import random

import pytest

from wire import Error, Wire

KEYS = [f"k{i}" for i in range(6)]
LEX_KEYS = ["l0", "l1"]  # sorted sets with one score: with several, what a range of members means is not specified
FEW_WORDS = ["a", "b", "c", "abc", "", "10", "-3", "x y"]
MANY_WORDS = FEW_WORDS + [f"word{i}" for i in range(500)] + [str(i) for i in range(-50, 1000)] + ["long" * 20 + str(i) for i in range(5)]
INTEGERS = [0, 1, 2, 3, -1, -2, -3, 5, 10, 100, 9223372036854775807, -9223372036854775808]
BAD_INTEGERS = ["x", "", "1.5", "9223372036854775808", " 1", "+1"]
SCORES = ["1", "2", "-1.5", "inf", "-inf", "0", "3e2", "1", "2", "2"]
BOUNDS = SCORES + ["(1", "(2", "(inf", "-inf", "+inf"]
LEX = ["-", "+", "[a", "(a", "[b", "(c", "[abc", "[", "("]
FAR = 4102444800  # an expiry that no test lives to see
ALL = 10000  # more than any collection here holds: random picks and scans then give everything
BATCH = 250


class Walk:
    def __init__(self, seed, all_words=FEW_WORDS):
        self.r = random.Random(seed)
        self.all_words = all_words

    def pick(self, choices):
        return self.r.choice(choices)

    def key(self):
        return self.pick(KEYS)

    def keys(self, most=3):
        return [self.key() for _ in range(self.r.randint(1, most))]

    def word(self):
        return self.pick(self.all_words)

    def words(self):
        return [self.word() for _ in range(self.r.randint(1, max(4, len(self.all_words) // 10)))]

    def integer(self):
        return self.pick(BAD_INTEGERS) if self.r.random() < 0.04 else self.pick(INTEGERS[:10] if self.r.random() < 0.9 else INTEGERS)

    def small(self):
        return self.r.randint(-4, 4)

    def score(self):
        return "nan" if self.r.random() < 0.02 else self.pick(SCORES)

    def some(self, *options):
        """Some of the options, in any order; each a word or a list of words."""
        chosen = [o for o in options if self.r.random() < 0.25]
        self.r.shuffle(chosen)
        return [w for o in chosen for w in (o if isinstance(o, list) else [o])]

    def limit(self):
        return ["LIMIT", self.small(), self.small()]

    def numkeys(self):
        keys = self.keys()
        return [len(keys) if self.r.random() < 0.95 else self.small(), *keys]


STRINGS = [
    lambda w: ["SET", w.key(), w.word(), *w.some("NX", "XX", "GET", "KEEPTTL", ["EXAT", FAR], ["PXAT", FAR * 1000])],
    lambda w: ["GET", w.key()],
    lambda w: ["GETSET", w.key(), w.word()],
    lambda w: ["GETDEL", w.key()],
    lambda w: ["GETEX", w.key(), *w.some("PERSIST", ["EXAT", FAR])],
    lambda w: ["SETNX", w.key(), w.word()],
    lambda w: ["SETEX", w.key(), w.pick([0, -1, "x", 9223372036854775807]), w.word()],
    lambda w: ["APPEND", w.key(), w.word()],
    lambda w: ["STRLEN", w.key()],
    lambda w: ["GETRANGE", w.key(), w.integer(), w.integer()],
    lambda w: ["SUBSTR", w.key(), w.small(), w.small()],
    lambda w: ["SETRANGE", w.key(), w.pick([0, 1, 5, -1, 600000000, "x"]), w.word()],
    lambda w: ["INCR", w.key()],
    lambda w: ["DECRBY", w.key(), w.integer()],
    lambda w: ["INCRBY", w.key(), w.integer()],
    lambda w: ["INCRBYFLOAT", w.key(), w.pick(["1.5", "-0.1", "3e2", "inf", "nan", "x", "10"])],
    lambda w: ["MGET", *w.keys()],
    lambda w: ["MSET", *sum(([w.key(), w.word()] for _ in range(w.r.randint(1, 3))), [])],
    lambda w: ["MSETNX", *sum(([w.key(), w.word()] for _ in range(w.r.randint(1, 2))), [])],
    lambda w: ["LCS", w.key(), w.key(), *w.some("LEN", "IDX", "WITHMATCHLEN", ["MINMATCHLEN", w.small()])],
    lambda w: ["SETBIT", w.key(), w.pick([0, 1, 7, 30, -1, 4294967296]), w.pick([0, 1, 2])],
    lambda w: ["GETBIT", w.key(), w.pick([0, 1, 7, 30, -1])],
    lambda w: ["BITCOUNT", w.key(), *w.pick([[], [w.small(), w.small()], [w.small(), w.small(), w.pick(["BIT", "BYTE"])]])],
    lambda w: ["BITPOS", w.key(), w.pick([0, 1, 2]), *w.pick([[], [w.small()], [w.small(), w.small()], [w.small(), w.small(), w.pick(["BIT", "BYTE"])]])],
    lambda w: ["BITOP", w.pick(["AND", "OR", "XOR", "NOT", "x"]), w.key(), *w.keys()],
    lambda w: ["BITFIELD", w.key(), *w.some(["GET", "u4", 0], ["OVERFLOW", w.pick(["SAT", "FAIL", "WRAP"])], ["SET", "i8", "#1", w.integer()],
                                            ["INCRBY", "u5", 3, w.small()], ["GET", w.pick(["i64", "u64", "i0"]), 0])],
]
KEYSPACE = [
    lambda w: ["DEL", *w.keys()],
    lambda w: ["UNLINK", w.key()],
    lambda w: ["EXISTS", *w.keys()],
    lambda w: ["TYPE", w.key()],
    lambda w: ["TOUCH", *w.keys()],
    lambda w: ["RENAME", w.key(), w.key()],
    lambda w: ["RENAMENX", w.key(), w.key()],
    lambda w: ["COPY", w.key(), w.key(), *w.some("REPLACE", ["DB", w.pick([0, 1, 99, "x"])])],
    lambda w: ["MOVE", w.key(), w.pick([0, 1, 99, "x"])],
    lambda w: ["EXPIREAT", w.key(), w.pick([FAR, FAR + 1, 1, 0, -5, "x"]), *w.some("NX", "XX", "GT", "LT")],
    lambda w: ["PEXPIREAT", w.key(), w.pick([FAR * 1000, 9223372036854775807])],
    lambda w: ["EXPIRE", w.key(), w.pick([-1, 0, 9223372036854775807, "x"])],
    lambda w: ["EXPIRETIME", w.key()],
    lambda w: ["PEXPIRETIME", w.key()],
    lambda w: ["PERSIST", w.key()],
    lambda w: ["KEYS", w.pick(["*", "k[1-3]", "k?", "x*", "[^k]*"])],
    lambda w: ["DBSIZE"],
    lambda w: ["SORT", w.key(), *w.some("ASC", "DESC", "ALPHA", w.limit(), ["GET", "#"], ["GET", "k*"], ["STORE", w.key()])],
    lambda w: ["SORT", w.key(), "BY", "k*", *w.some("DESC", w.limit(), ["GET", "#"])],
    lambda w: ["OBJECT", "REFCOUNT", w.word()],
    lambda w: ["SELECT", w.pick([0, 0, 0, 1, 16, "x"])],
]
LISTS = [
    lambda w: [w.pick(["LPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), w.key(), *w.words()],
    lambda w: [w.pick(["LPOP", "RPOP"]), w.key(), *w.pick([[], [], [w.small()], [w.integer()]])],
    lambda w: ["LLEN", w.key()],
    lambda w: ["LRANGE", w.key(), w.integer(), w.integer()],
    lambda w: ["LINDEX", w.key(), w.integer()],
    lambda w: ["LSET", w.key(), w.integer(), w.word()],
    lambda w: ["LINSERT", w.key(), w.pick(["BEFORE", "AFTER", "x"]), w.word(), w.word()],
    lambda w: ["LREM", w.key(), w.small(), w.word()],
    lambda w: ["LTRIM", w.key(), w.small(), w.integer()],
    lambda w: ["LPOS", w.key(), w.word(), *w.some(["RANK", w.small()], ["COUNT", w.small()], ["MAXLEN", w.small()])],
    lambda w: ["RPOPLPUSH", w.key(), w.key()],
    lambda w: ["LMOVE", w.key(), w.key(), w.pick(["LEFT", "RIGHT", "x"]), w.pick(["LEFT", "RIGHT"])],
    lambda w: ["LMPOP", *w.numkeys(), w.pick(["LEFT", "RIGHT", "x"]), *w.some(["COUNT", w.small()])],
    lambda w: ["SORT", w.key(), "BY", "nosort", *w.some("DESC", w.limit(), ["GET", "#"], ["STORE", w.key()])],
    lambda w: [w.pick(["BLPOP", "BRPOP"]), w.key(), w.pick(["x", -1])],
]
HASHES = [
    lambda w: [w.pick(["HSET", "HMSET"]), w.key(), *w.words()],
    lambda w: ["HSETNX", w.key(), w.word(), w.word()],
    lambda w: ["HGET", w.key(), w.word()],
    lambda w: ["HMGET", w.key(), *w.words()],
    lambda w: ["HDEL", w.key(), *w.words()],
    lambda w: ["HLEN", w.key()],
    lambda w: ["HSTRLEN", w.key(), w.word()],
    lambda w: ["HEXISTS", w.key(), w.word()],
    lambda w: ["HGETALL", w.key()],
    lambda w: [w.pick(["HKEYS", "HVALS"]), w.key()],
    lambda w: ["HINCRBY", w.key(), w.word(), w.integer()],
    lambda w: ["HINCRBYFLOAT", w.key(), w.word(), w.pick(["1.5", "-0.1", "inf", "nan", "x", "10"])],
    lambda w: ["HRANDFIELD", w.key(), w.pick([0, ALL, "x"]), *w.some("WITHVALUES")],
    lambda w: ["HSCAN", w.key(), w.pick([0, 0, "x"]), "COUNT", w.pick([ALL, ALL, 0, "x"]), *w.some(["MATCH", "a*"])],
]
SETS = [
    lambda w: ["SADD", w.key(), *w.words()],
    lambda w: ["SREM", w.key(), *w.words()],
    lambda w: ["SISMEMBER", w.key(), w.word()],
    lambda w: ["SMISMEMBER", w.key(), *w.words()],
    lambda w: ["SCARD", w.key()],
    lambda w: ["SMEMBERS", w.key()],
    lambda w: ["SMOVE", w.key(), w.key(), w.word()],
    lambda w: [w.pick(["SINTER", "SUNION", "SDIFF"]), *w.keys()],
    lambda w: [w.pick(["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]), w.key(), *w.keys()],
    lambda w: ["SINTERCARD", *w.numkeys(), *w.some(["LIMIT", w.small()])],
    lambda w: ["SRANDMEMBER", w.key(), w.pick([0, ALL, "x"])],
    lambda w: ["SPOP", w.key(), w.pick([0, ALL, -1, "x"])],
]
ZSETS = [
    lambda w: ["ZADD", w.key(), *w.some("NX", "XX", "GT", "LT", "CH", "INCR"), *sum(([w.score(), word] for word in w.words()), [])],
    lambda w: ["ZINCRBY", w.key(), w.score(), w.word()],
    lambda w: ["ZREM", w.pick(KEYS + LEX_KEYS), *w.words()],
    lambda w: ["ZSCORE", w.key(), w.word()],
    lambda w: ["ZMSCORE", w.key(), *w.words()],
    lambda w: ["ZCARD", w.key()],
    lambda w: [w.pick(["ZRANK", "ZREVRANK"]), w.key(), w.word()],
    lambda w: ["ZCOUNT", w.key(), w.pick(BOUNDS), w.pick(BOUNDS)],
    lambda w: ["ZADD", w.pick(LEX_KEYS), *sum(([0, word] for word in w.words()), [])],
    lambda w: ["ZLEXCOUNT", w.pick(LEX_KEYS), w.pick(LEX), w.pick(LEX)],
    lambda w: ["ZRANGE", w.key(), w.small(), w.small(), *w.some("REV", "WITHSCORES")],
    lambda w: ["ZRANGE", w.key(), w.pick(BOUNDS), w.pick(BOUNDS), "BYSCORE", *w.some("REV", "WITHSCORES", w.limit())],
    lambda w: ["ZRANGE", w.pick(LEX_KEYS), w.pick(LEX), w.pick(LEX), "BYLEX", *w.some("REV", "WITHSCORES", w.limit())],
    lambda w: ["ZRANGESTORE", w.key(), w.key(), w.small(), w.small(), *w.some("REV", "BYSCORE", w.limit())],
    lambda w: ["ZREVRANGE", w.key(), w.small(), w.small(), *w.some("WITHSCORES")],
    lambda w: [w.pick(["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]), w.key(), w.pick(BOUNDS), w.pick(BOUNDS), *w.some("WITHSCORES", w.limit())],
    lambda w: [w.pick(["ZRANGEBYLEX", "ZREVRANGEBYLEX"]), w.pick(LEX_KEYS), w.pick(LEX), w.pick(LEX), *w.some(w.limit())],
    lambda w: ["ZREMRANGEBYRANK", w.key(), w.small(), w.small()],
    lambda w: ["ZREMRANGEBYSCORE", w.key(), w.pick(BOUNDS), w.pick(BOUNDS)],
    lambda w: ["ZREMRANGEBYLEX", w.pick(LEX_KEYS), w.pick(LEX), w.pick(LEX)],
    lambda w: [w.pick(["ZPOPMIN", "ZPOPMAX"]), w.key(), *w.pick([[], [w.small()]])],
    lambda w: ["ZMPOP", *w.numkeys(), w.pick(["MIN", "MAX", "x"]), *w.some(["COUNT", w.small()])],
    lambda w: [w.pick(["ZUNION", "ZINTER"]), *w.numkeys(), *w.some(["WEIGHTS", 2, "0.5"], ["AGGREGATE", w.pick(["SUM", "MIN", "MAX", "x"])], "WITHSCORES")],
    lambda w: [w.pick(["ZUNIONSTORE", "ZINTERSTORE"]), w.key(), *w.numkeys(), *w.some(["WEIGHTS", 2], ["AGGREGATE", w.pick(["SUM", "MIN", "MAX"])])],
    lambda w: ["ZDIFF", *w.numkeys(), *w.some("WITHSCORES")],
    lambda w: ["ZDIFFSTORE", w.key(), *w.numkeys()],
    lambda w: ["ZINTERCARD", *w.numkeys(), *w.some(["LIMIT", w.small()])],
    lambda w: ["ZSCAN", w.key(), 0, "COUNT", ALL, *w.some(["MATCH", "a*"])],
    lambda w: ["ZRANDMEMBER", w.key(), w.pick([0, "x"])],
]
HLLS = [
    lambda w: ["PFADD", w.key(), *w.words()],
    lambda w: ["PFCOUNT", *w.keys()],
    lambda w: ["PFMERGE", w.key(), *w.keys()],
]
FAMILIES = {"strings": STRINGS, "lists": LISTS, "hashes": HASHES, "sets": SETS, "zsets": ZSETS, "hlls": HLLS}
UNORDERED = {"KEYS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "SRANDMEMBER", "SPOP", "HKEYS", "HVALS", "HRANDFIELD"}
PAIRS = {"HGETALL"}
SCANS = {"HSCAN", "ZSCAN"}


def comparable(command, reply):
    """The reply without what is left to the server: the order of collections that have none."""
    name = command[0]
    if isinstance(reply, list) and name in SCANS:
        return [reply[0], comparable(["HGETALL"], reply[1])]
    if isinstance(reply, list) and name in PAIRS:
        return sorted(zip(reply[::2], reply[1::2]))
    if isinstance(reply, list) and name in UNORDERED:
        return sorted(map(repr, reply))
    return reply


def ask_all(c, commands):
    for command in commands:
        c.command(*command)
    return [c.reply() for _ in commands]


def walk(server, reference, seed, family, all_words, steps, protocol):
    w = Walk(seed, all_words)
    choices = FAMILIES[family] * 2 + KEYSPACE
    errors = 0
    with Wire(server, protocol) as ours, Wire(reference, protocol) as theirs:
        history = []
        for _ in range(0, steps, BATCH):
            commands = [w.pick(choices)(w) for _ in range(BATCH)]
            for command, got, wanted in zip(commands, ask_all(ours, commands), ask_all(theirs, commands)):
                history.append(command)
                errors += isinstance(wanted, Error)
                assert comparable(command, got) == comparable(command, wanted), f"seed {seed}: {command}, after {history[-12:-1]}"
    assert steps * 0.02 < errors < steps * 0.8, "the walk must meet errors, and more than errors"


@pytest.mark.parametrize("server", [{"workers": 3}], indirect=True)
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("all_words, steps", [(FEW_WORDS, 3000), (MANY_WORDS, 1000)], ids=["few", "many"])
def test_replies_are_those_of_redis(server, redis_reference, family, all_words, steps, protocol):
    walk(server, redis_reference, 1000 + protocol, family, all_words, steps, protocol)
