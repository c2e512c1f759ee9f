#!/usr/bin/env python3
"""Writes the golden files of this folder from a real server: generate.py PORT (a Redis 7.0 that may be flushed and has enable-debug-command).

Each file: the DUMP payload in hex, the type, then the parts of the value, one line each: a string or the elements of a list in their order, members,
"field value" or "member score" in any. Bytes are in hex; "78*63" is the byte 78, 63 times. What 7.0 no longer writes (ziplist, zipmap, text scores, quicklist of ziplists) is made here by hand
and passes through the server's own RESTORE, which is the witness for its contents."""
import pathlib
import struct
import sys

import redis

here = pathlib.Path(__file__).parent
r = redis.Redis(port=int(sys.argv[1]))
r.flushall()


def crc64(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


def text_of(s):
    return f"{s[:1].hex()}*{len(s)}" if len(s) > 8 and s == s[:1] * len(s) else s.hex()


def contents(key):
    kind = r.type(key).decode()
    if kind == "string":
        lines = [text_of(r.get(key))]
    elif kind == "list":
        lines = [text_of(v) for v in r.lrange(key, 0, -1)]
    elif kind == "set":
        lines = sorted(text_of(v) for v in r.smembers(key))
    elif kind == "hash":
        lines = sorted(text_of(f) + " " + text_of(v) for f, v in r.hgetall(key).items())
    else:
        lines = sorted(text_of(m) + " " + repr(s) for m, s in r.zrange(key, 0, -1, withscores=True))
    return [kind] + lines


def golden(name, key="k"):
    text = "\n".join([r.dump(key).hex()] + contents(key))
    (here / f"{name}.txt").write_text(text + "\n")
    r.delete(key)


def golden_raw(name, body):
    payload = body + struct.pack("<H", 9)
    payload += struct.pack("<Q", crc64(payload))
    r.restore("k", 0, payload)
    text = "\n".join([payload.hex()] + contents("k"))
    (here / f"{name}.txt").write_text(text + "\n")
    r.delete("k")


INTS = [0, 12, 13, -1, 127, 128, -128, -129, 4095, 4096, -4096, -4097, 32767, 32768, -32768, -32769, 8388607, 8388608, -8388608, -8388609, 2**31 - 1, 2**31,
        -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)]
ITEMS = [str(i).encode() for i in INTS] + [b"", b"a", b"\x00\xff\r\n", b"x" * 63, b"y" * 64, b"z" * 4095, b"w" * 4096]
BIG = ITEMS + [b"v" * 16378, b"u" * 16384]


def length(n):
    return bytes([n]) if n < 64 else struct.pack(">H", 1 << 14 | n) if n < 1 << 14 else b"\x80" + struct.pack(">I", n)


def string(s):
    return length(len(s)) + s


def ziplist(items):
    out, before, last = b"", 0, 10
    for s in items:
        back = bytes([before]) if before < 254 else b"\xfe" + struct.pack("<I", before)
        try:
            v = int(s)
            canonical = str(v).encode() == s
        except ValueError:
            canonical = False
        if canonical:
            if 0 <= v <= 12:
                body = bytes([0xF1 + v])
            elif -128 <= v < 128:
                body = b"\xfe" + struct.pack("<b", v)
            elif -(2**15) <= v < 2**15:
                body = b"\xc0" + struct.pack("<h", v)
            elif -(2**23) <= v < 2**23:
                body = b"\xf0" + struct.pack("<i", v)[:3]
            elif -(2**31) <= v < 2**31:
                body = b"\xd0" + struct.pack("<i", v)
            else:
                body = b"\xe0" + struct.pack("<q", v)
        elif len(s) < 64:
            body = bytes([len(s)]) + s
        elif len(s) < 1 << 14:
            body = struct.pack(">H", 1 << 14 | len(s)) + s
        else:
            body = b"\x80" + struct.pack(">I", len(s)) + s
        last = 10 + len(out)
        out += back + body
        before = len(back + body)
    return struct.pack("<IIH", 11 + len(out), last, len(items)) + out + b"\xff"


def zipmap_length(n):
    return bytes([n]) if n < 254 else b"\xfe" + struct.pack("<I", n)


def zipmap(pairs):
    out = bytes([len(pairs)])
    for i, (f, v) in enumerate(pairs):
        free = i % 3
        out += zipmap_length(len(f)) + f + zipmap_length(len(v)) + bytes([free]) + v + b"\0" * free
    return out + b"\xff"


def strings():
    for name, value in {"empty": b"", "int8": b"-128", "int16": b"32767", "int32": b"-2147483648", "int64": b"9223372036854775807", "short": b"hello",
                        "binary": bytes(range(256)), "compressed": b"abc" * 5000 + bytes(range(256)) + b"\0" * 3000}.items():
        r.set("k", value)
        golden("string-" + name)


def lists():
    r.rpush("k", *ITEMS[:30])
    golden("list-small")
    r.config_set("list-max-listpack-size", 4)
    r.rpush("k", *BIG)
    golden("list-nodes")
    r.config_set("list-max-listpack-size", -2)
    r.execute_command("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "4096b")
    r.rpush("k", *BIG)
    golden("list-plain-node")
    r.execute_command("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "0")
    golden_raw("list-plain", b"\x01" + length(len(ITEMS)) + b"".join(map(string, ITEMS)))
    golden_raw("list-ziplist", b"\x0a" + string(ziplist(BIG)))
    nodes = [ziplist(ITEMS[:10]), ziplist([]), ziplist(ITEMS[10:])]
    golden_raw("list-quicklist", b"\x0e" + length(len(nodes)) + b"".join(map(string, nodes)))


def sets():
    for width, limit in ((16, 2**15), (32, 2**31), (64, 2**63)):
        r.sadd("k", *[i for i in INTS if -limit <= i < limit])
        golden(f"set-intset{width}")
    r.sadd("k", *ITEMS)
    golden("set-table")


def hashes():
    small = dict(zip(ITEMS[:28], reversed(ITEMS[:28])))
    r.hset("k", mapping=small)
    golden("hash-listpack")
    r.config_set("hash-max-listpack-entries", 2)
    r.hset("k", mapping=dict(zip(ITEMS, reversed(ITEMS))))
    golden("hash-table")
    r.config_set("hash-max-listpack-entries", 512)
    golden_raw("hash-ziplist", b"\x0d" + string(ziplist([x for pair in small.items() for x in pair])))
    pairs = list(zip(ITEMS[:31], reversed(ITEMS[:31]))) + [(b"long", b"q" * 300)]
    golden_raw("hash-zipmap", b"\x09" + string(zipmap(pairs)))


def zsets():
    scores = [0.0, 1.5, -3.25, 1e300, 5e-324, float("inf"), float("-inf"), 17, 1 / 3, 2**53 + 2.0]
    members = {m: scores[i % len(scores)] for i, m in enumerate(ITEMS)}
    small = {m: s for m, s in members.items() if len(m) <= 64}
    r.zadd("k", small)
    golden("zset-listpack")
    r.zadd("k", members)
    golden("zset-tree")
    text = {float("inf"): b"inf", float("-inf"): b"-inf"}
    flat = [x for m, s in sorted(small.items(), key=lambda p: (p[1], p[0])) for x in (m, text.get(s, b"%.17g" % s))]
    golden_raw("zset-ziplist", b"\x0c" + string(ziplist(flat)))

    def old_score(s):
        if s in text:
            return b"\xfe" if s > 0 else b"\xff"
        t = b"%.17g" % s
        return bytes([len(t)]) + t

    golden_raw("zset-text-scores", b"\x03" + length(len(members)) + b"".join(string(m) + old_score(s) for m, s in members.items()))


for make in (strings, lists, sets, hashes, zsets):
    make()
