"""Makes redis-7.0.rdb with a real redis-server: python3 tests/golden/rdb/generate.py [PORT]

All types that Redis 7.0 writes, in their packed and large encodings, with expiries, in three databases; streams and a function library, which
Sherd leaves out."""
import os
import subprocess
import sys
import tempfile
import time

import redis

FAR = 32503680000000  # the year 3000


def fill(r, db3, db15):
    r.set("string", "hello")
    r.set("string:int8", -7)
    r.set("string:int16", 12345)
    r.set("string:int32", 1234567890)
    r.set("string:int64", 1234567890123)
    r.set("string:binary", bytes(range(256)))
    r.set("string:lzf", "abc" * 400)
    r.set("string:expiring", "x")
    r.pexpireat("string:expiring", FAR)
    r.rpush("list", *range(20), "text")
    r.rpush("list:nodes", *["item-%d" % i for i in range(3000)])
    r.rpush("list:plain-node", "x" * 20000)
    r.pexpireat("list", FAR + 1)
    r.sadd("set:ints", *range(-5, 50))
    r.sadd("set:ints64", 1 << 60, -(1 << 60))
    r.sadd("set:table", *["member-%d" % i for i in range(300)])
    r.hset("hash", mapping={"f%d" % i: "v%d" % i for i in range(10)})
    r.hset("hash:table", mapping={"field-%d" % i: i for i in range(600)})
    r.zadd("zset", {"a": 1, "b": -2.5, "c": float("inf"), "d": float("-inf")})
    r.zadd("zset:tree", {"member-%d" % i: i / 7 for i in range(300)})
    db3.set("key in 3", "3")
    db3.set(b"key \xff\x00 binary", "3")
    db15.hset("key in 15", "f", "v")
    r.xadd("stream", {"f": "v"}, id="1-1")
    r.xadd("stream", {"f": "w"}, id="1-2")
    r.xgroup_create("stream", "group", id="0")
    r.xreadgroup("group", "consumer", {"stream": ">"}, count=1)
    r.execute_command("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 7219
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(["redis-server", "--port", str(port), "--dir", folder, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
        try:
            clients = [redis.Redis(port=port, db=db) for db in (0, 3, 15)]
            for _ in range(100):
                try:
                    clients[0].ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.05)
            fill(*clients)
            clients[0].save()
        finally:
            server.terminate()
            server.wait()
        with open(os.path.join(folder, "dump.rdb"), "rb") as made, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "redis-7.0.rdb"), "wb") as kept:
            kept.write(made.read())


if __name__ == "__main__":
    main()
