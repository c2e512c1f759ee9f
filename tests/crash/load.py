"""What the clients of a crash test do: all write commands of all types, over keys that one client owns, in an order that it remembers.

A client owns two databases, or its part of one: the keys with its prefix. Its n-th step is one command, or a transaction, and behind it `SET seq:CLIENT n` in the control database: which of its steps are there after a crash is
told by that one number, if what is there is a prefix. A twin, a server that never crashes, is given the same steps as far as that number goes, and then has to have the same keys and
values. So nothing needs to be known here about what commands do; only chance (SPOP) has to be told to the twin.
"""
import random

CONTROL_DB = 0
KEYS = 6  # of each type and client

FAR = 4_000_000_000  # unix seconds of expiry times: no key expires while a test runs


class Step:
    """One command or transaction of a client."""

    __slots__ = ("commands", "db", "acked_at", "promised", "replies", "kind")

    def __init__(self, kind, db, commands):
        self.kind = kind  # "plain", "spop": the reply names the member, "total": increments the counter that all share, "space": changes where keys are, and none of them
        self.db = db
        self.commands = commands
        self.acked_at = None
        self.promised = False  # asked for and acknowledged while the policy was always
        self.replies = None

    def wire(self, client, n):
        return [("SELECT", self.db), *self.commands, ("SELECT", CONTROL_DB), ("SET", f"seq:{client}", n)]

    def for_twin(self):
        """The same without chance; None for a shared counter, which the twin does not have, and for what is no business of its."""
        if self.kind in ("total", "space"):
            return None
        if self.kind == "spop":
            gone = self.replies[0]
            gone = [gone] if isinstance(gone, bytes) else gone
            return [("SREM", self.commands[0][1], *gone)] if isinstance(gone, list) and gone else []
        return self.commands


class Maker:
    """Makes steps. Everything comes from one random generator, so a seed gives the same steps again."""

    def __init__(self, seed, dbs, prefix=""):
        self.r = random.Random(seed)
        self.dbs = dbs
        self.prefix = prefix
        self.made = 0
        self.space = f"{prefix}sp{dbs[0]}"  # a key space of this client's own, with half of its keys
        self.range = (1, 1)  # id and generation of one of its ranges, as last heard of
        self.simple = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("make_")]

    # ---- material

    def key(self, kind):
        n = self.r.randrange(KEYS)
        return f"{self.space}/{kind}{n}" if n % 2 else f"{self.prefix}{kind}{n}"

    def any_key(self):
        return self.key(self.r.choice("sslhtzbpmn"))

    def value(self):
        self.made += 1
        n = self.r.choices((8, 60, 700, 20_000), (50, 40, 9, 1))[0]
        return (b"%d:" % self.made) + self.r.randbytes(self.r.randrange(n))

    def values(self, most=5):
        return [self.value() for _ in range(self.r.randint(1, most))]

    def member(self):
        return f"m{self.r.randrange(40)}" if self.r.random() < 0.7 else str(self.r.randrange(200))

    def members(self, most=8):
        return [self.member() for _ in range(self.r.randint(1, most))]

    def score(self):
        return self.r.choice((self.r.randrange(-50, 50), round(self.r.uniform(-10, 10), 3), "inf", "-inf"))

    def end(self):
        return self.r.choice(("LEFT", "RIGHT"))

    def pick(self, *choices):
        return self.r.choice(choices)

    def far_s(self):
        return FAR + self.r.randrange(1_000_000_000)

    # ---- one command each; several where they are alike

    def make_set(self):
        k, v = self.key("s"), self.value()
        return self.pick(("SET", k, v), ("SET", k, v, "KEEPTTL"), ("SET", k, v, "NX"), ("SET", k, v, "XX", "GET"), ("SET", k, v, "EXAT", self.far_s()),
                         ("SET", k, v, "PXAT", self.far_s() * 1000), ("SET", k, v, "EX", 1_000_000 * self.r.randint(1, 9)), ("SETNX", k, v), ("GETSET", k, v),
                         ("SETEX", k, 1_000_000 * self.r.randint(1, 9), v), ("PSETEX", k, 1_000_000_000 * self.r.randint(1, 9), v))

    def make_string(self):
        k = self.key("s")
        return self.pick(("APPEND", k, self.value()), ("SETRANGE", k, self.r.randrange(300), self.value()), ("GETDEL", k), ("GETEX", k, "PERSIST"),
                         ("GETEX", k, "EXAT", self.far_s()), ("GETEX", k, "PX", 1_000_000_000 * self.r.randint(1, 9)))

    def make_number(self):
        k = self.key("n")
        return self.pick(("INCR", k), ("DECR", k), ("INCRBY", k, self.r.randrange(1000)), ("DECRBY", k, self.r.randrange(1000)),
                         ("INCRBYFLOAT", k, round(self.r.uniform(-9, 9), 4)), ("SET", k, self.r.randrange(10**6)))

    def make_bits(self):
        k = self.key("b")
        return self.pick(("SETBIT", k, self.r.randrange(2000), self.pick(0, 1)), ("BITFIELD", k, "SET", "u8", self.r.randrange(900), self.r.randrange(256), "INCRBY", "i5", 100, 3),
                         ("BITOP", self.pick("AND", "OR", "XOR"), k, self.key("b"), self.key("b")), ("BITOP", "NOT", k, self.key("b")))

    def make_many(self):
        pairs = [x for i in self.r.sample(range(KEYS * 3), self.r.randint(2, 9)) for x in (f"{self.prefix}m{i}", self.value())]
        return self.pick(("MSET", *pairs), ("MSET", *pairs), ("MSETNX", *pairs))

    def make_hash(self):
        k = self.key("h")
        pairs = [x for m in self.members() for x in (m, self.value())]
        return self.pick(("HSET", k, *pairs), ("HMSET", k, *pairs), ("HSETNX", k, self.member(), self.value()), ("HDEL", k, *self.members()),
                         ("HINCRBY", k, f"n{self.r.randrange(9)}", self.r.randrange(99)), ("HINCRBYFLOAT", k, f"f{self.r.randrange(9)}", 0.25))

    def make_list(self):
        k = self.key("l")
        return self.pick(("RPUSH", k, *self.values()), ("LPUSH", k, *self.values()), ("RPUSH", k, *self.values(20)), ("RPUSHX", k, *self.values()), ("LPUSHX", k, *self.values()),
                         ("LPOP", k), ("RPOP", k, self.r.randint(1, 4)), ("LTRIM", k, 0, self.r.randrange(60)), ("LSET", k, self.r.randrange(-5, 5), self.value()),
                         ("RPUSH", k, "pivot"), ("LINSERT", k, self.pick("BEFORE", "AFTER"), "pivot", self.value()), ("LREM", k, self.r.randrange(-2, 3), "pivot"))

    def make_list_move(self):
        a, b = self.key("l"), self.key("l")
        return self.pick(("LMOVE", a, b, self.end(), self.end()), ("RPOPLPUSH", a, b), ("LMPOP", 2, a, b, self.end(), "COUNT", self.r.randint(1, 3)),
                         ("BLMOVE", a, b, self.end(), self.end(), 0.001), ("BRPOPLPUSH", a, b, 0.001), ("BLPOP", a, b, 0.001), ("BRPOP", a, b, 0.001),
                         ("BLMPOP", 0.001, 2, a, b, self.end()))

    def make_set_type(self):
        k = self.key("t")
        return self.pick(("SADD", k, *self.members()), ("SADD", k, *self.members(30)), ("SREM", k, *self.members()), ("SMOVE", k, self.key("t"), self.member()))

    def make_set_store(self):
        return (self.pick("SDIFFSTORE", "SINTERSTORE", "SUNIONSTORE"), self.key("t"), *(self.key("t") for _ in range(self.r.randint(1, 3))))

    def make_zset(self):
        k = self.key("z")
        pairs = [x for m in self.members() for x in (self.score(), m)]
        low = self.r.randrange(-50, 50)
        return self.pick(("ZADD", k, *pairs), ("ZADD", k, "GT", "CH", *pairs), ("ZADD", k, *pairs), ("ZINCRBY", k, 1.5, self.member()), ("ZREM", k, *self.members()),
                         ("ZPOPMIN", k), ("ZPOPMAX", k, 2), ("ZREMRANGEBYRANK", k, 0, 1), ("ZREMRANGEBYSCORE", k, low, low + 5), ("ZREMRANGEBYLEX", k, "[m1", "[m2"),
                         ("ZMPOP", 2, k, self.key("z"), "MIN"), ("BZPOPMIN", k, 0.001), ("BZPOPMAX", k, 0.001), ("BZMPOP", 0.001, 1, k, "MAX"))

    def make_zset_store(self):
        k, n = self.key("z"), self.r.randint(1, 3)
        sources = [self.key("z") for _ in range(n)]
        return self.pick((self.pick("ZUNIONSTORE", "ZINTERSTORE"), k, n, *sources, "AGGREGATE", self.pick("MIN", "MAX")), ("ZDIFFSTORE", k, n, *sources),
                         ("ZRANGESTORE", k, sources[0], 0, self.r.randrange(9)))

    def make_hll(self):
        return self.pick(("PFADD", self.key("p"), *self.members(20)), ("PFMERGE", self.key("p"), self.key("p"), self.key("p")))

    def make_generic(self):
        k = self.any_key()
        return self.pick(("DEL", k, self.any_key()), ("UNLINK", k), ("RENAME", k, self.any_key()), ("RENAMENX", k, self.any_key()), ("COPY", k, self.any_key(), "REPLACE"),
                         ("EXPIREAT", k, self.far_s()), ("PEXPIREAT", k, self.far_s() * 1000), ("EXPIRE", k, 1_000_000 * self.r.randint(1, 9)),
                         ("PEXPIRE", k, 1_000_000_000 * self.r.randint(1, 9)), ("PERSIST", k), ("COPY", k, k, "DB", self.pick(*self.dbs)), ("MOVE", k, self.pick(*self.dbs)))

    def make_sort(self):
        return ("SORT", self.key("l"), "ALPHA", "STORE", self.key("l"))

    def make_restore(self):
        text = b"restored%d" % self.r.randrange(1000)
        body = bytes([0, len(text)]) + text + b"\x09\x00"
        return ("RESTORE", self.key("s"), self.pick(0, self.far_s() * 1000), body + crc64(body).to_bytes(8, "little"), "REPLACE", "ABSTTL")

    def make_again(self):
        """Types get mixed by RENAME and COPY: this makes a key of the right type again."""
        return ("DEL", *(self.any_key() for _ in range(4)))

    # ---- steps

    def space_step(self):
        """The client's keys move from shard to shard under it."""
        move = [("RANGE.MOVE", self.space, f"{self.space}/{self.r.choice('bhlmpstz')}0", self.r.randrange(3))]
        s, cut, lock = self.space, f"{self.space}/{self.r.choice('bhlmpstz')}{self.r.randrange(KEYS)}", f"{self.space}/b {self.space}/p me".split()
        return self.pick([("SPACE.SET", s, self.pick("RANGE", "RANGE", "BUCKET", "HASH"))], [("RANGE.SPLIT", s, cut)], [("RANGE.SPLIT", s, cut), ("RANGE.MERGE", s, cut)],
                         move, move, move, [("RANGE.DEL", s, f"{s}/~")], [("RANGE.MAP", s)], [("RANGE.EXEC", *self.range, "EXISTS", cut)],
                         [("RANGE.LOCK", s, *lock, 100000), ("RANGE.EXTEND", s, *lock, 200000), ("RANGE.UNLOCK", s, *lock)])

    def step(self, last):
        """The next one. Only the last of a batch may depend on chance: what it did has to be known before the next one."""
        x = self.r.random()
        db = self.r.choice(self.dbs)
        if x < 0.03:
            return Step("total", CONTROL_DB, [("INCR", "total")])
        if x < 0.06 and last:
            return Step("spop", db, [("SPOP", self.key("t")) if self.r.random() < 0.5 else ("SPOP", self.key("t"), 2)])
        if x < 0.16:
            inside = [self.r.choice(self.simple)() for _ in range(self.r.randint(2, 6))]
            return Step("plain", db, [("MULTI",), *inside, ("EXEC",)])
        if x < 0.164 and len(self.dbs) == 2:
            return Step("plain", db, [self.pick(("SWAPDB", *self.dbs), ("FLUSHDB",), ("FLUSHDB", "ASYNC"))])
        if 0.17 < x < 0.20:
            return Step("space", db, self.space_step())
        return Step("plain", db, [self.r.choice(self.simple)()])


def crc64(data):
    """The checksum of a RESTORE payload (Jones, reflected)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc
