#!/usr/bin/python3
"""A range of a million keys is cut while clients write to it, and one half goes to another group: how long does the slowest write take, and does a read along the order stay whole? Three nodes of sherd on this machine, durable.

Each row is one run: the same load with nothing going on, while the range is cut at many places and merged again, and while half of it moves. Writes go through all nodes, at a fixed rate, their time counted from when each was due.
A reader counts the space and walks over the cuts meanwhile; it ends the run if a key is missing or twice."""
import argparse
import contextlib
import shutil
import sys
import threading
import time

from cluster import Cluster
from peers import DATA, Resp, ServerError
from sections import LoadError, fill, load

SPACE, VALUE_BYTES, CONNS = "big", 128, 20
GOAL_MS = 50


def key(number):
    return f"{SPACE}/{number:010}"


class Reader:
    """Reads along the order until the end of the block, through one node."""

    def __init__(self, port, keys):
        self.port, self.keys, self.reads, self.error = port, keys, 0, None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        if self.error:
            raise self.error
        if not self.reads:
            raise ServerError("nothing was read meanwhile")

    def run(self):
        try:
            with Resp(self.port) as c:
                while not self.ended.is_set():
                    self.look(c)
                    time.sleep(0.02)
        except Exception as error:  # told at the end of the block
            self.error = error

    def look(self, c):
        count = int(c.call("RANGE.COUNT", SPACE))
        first = self.keys // 2 - 500
        found = c.call("RANGE.GET", SPACE, key(first), key(first + 1000), "KEYSONLY")[1]
        if count != self.keys or found != [key(i) for i in range(first, first + 1000)]:
            raise ServerError(f"a read is not whole: {count} of {self.keys} keys, {len(found)} of 1000")
        self.reads += 1


def patiently(c, *words, seconds=30):
    """A change that may have to wait for another one."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return c.call(*words)
        except ServerError as error:
            if time.monotonic() > deadline or not str(error).startswith(("TRYAGAIN", "ERR")):
                raise
            time.sleep(0.05)


def ranges(c):
    return [dict(zip(r[::2], r[1::2])) for r in c.call("RANGE.MAP", SPACE)]


def nothing(c, keys, until):
    """Nothing goes on."""
    return ""


def cut_and_merge(c, keys, until):
    cuts = 0
    while time.monotonic() < until:
        at = key(keys * (1 + cuts % 7) // 8)
        patiently(c, "RANGE.SPLIT", SPACE, at)
        cuts += 1
        time.sleep(0.2)
        patiently(c, "RANGE.MERGE", SPACE, at)
        time.sleep(0.2)
    return f"{cuts} cuts"


def cut_and_move(c, keys, until):
    patiently(c, "RANGE.SPLIT", SPACE, key(keys // 2))
    time.sleep(0.3)
    home = ranges(c)[1]
    groups = sorted({int(line.split()[0]) for line in c.call("CLUSTER", "STATUS").splitlines() if line[:1].isdigit() and "hash" in line})
    target = next(g for g in groups if g != int(home["shard"]))
    began = time.monotonic()
    patiently(c, "RANGE.MOVE", SPACE, key(keys // 2), str(target))
    while any("to-shard" in r or r["shard"] == home["shard"] for r in ranges(c)[1:]):
        if time.monotonic() > until + 60:
            raise ServerError("the move does not end")
        time.sleep(0.1)
    return f"{keys // 2} keys moved in {time.monotonic() - began:.1f} s"


def measure(cluster, what, args):
    """Gives the load's figures, and what was done meanwhile."""
    port, result = cluster.nodes[0].port, {}
    writer = threading.Thread(target=lambda: result.update(load(cluster, workload="set", prefix=SPACE + "/", keys=args.keys, value_bytes=VALUE_BYTES, threads=1, conns=CONNS, rate=args.rate, seconds=args.seconds, warmup=1.0)))
    with Reader(cluster.nodes[1].port, args.keys) as reader, Resp(port) as c:
        writer.start()
        time.sleep(1.5)
        done = what(c, args.keys, time.monotonic() + args.seconds - 2)
        writer.join()
    if not result:
        raise LoadError("the load has no result")
    return result, f"{done}{', ' if done else ''}{reader.reads} reads whole"


def prepare(cluster, args):
    cluster.start()
    for node in cluster.nodes:
        with Resp(node.port) as c:
            c.call("CONFIG", "SET", "ranges-auto", "no")
    with Resp(cluster.nodes[0].port) as c:
        c.call("SPACE.SET", SPACE, "RANGE")
    fill(cluster, args.keys, VALUE_BYTES, prefix=SPACE + "/", threads=1, conns=CONNS)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--keys", type=int, default=1_000_000)
    p.add_argument("--rate", type=int, default=2000, help="SETs a second in all (default %(default)s)")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--base-port", type=int, default=7670)
    args = p.parse_args()
    shutil.rmtree(DATA, ignore_errors=True)
    cluster = Cluster("sherd", args.base_port)
    try:
        prepare(cluster, args)
        print(f"{args.keys} keys in one range of three nodes, {args.rate} SET/s on {CONNS} connections\n\n| | p50 | p99 | p99.9 | slowest | |\n|---|---:|---:|---:|---:|---|")
        for title, what in (("nothing goes on", nothing), ("cut and merged", cut_and_merge), ("cut, and one half moves", cut_and_move)):
            r, done = measure(cluster, what, args)
            print(f"| {title} | " + " | ".join(f"{r[f] / 1000:.1f} ms" for f in ("p50_us", "p99_us", "p999_us", "max_us")) + f" | {done} |", flush=True)
        print(f"\nThe goal: no write takes longer than {GOAL_MS} ms for it.")
    except (ServerError, LoadError, OSError) as error:
        sys.exit(f"splits: {error}")
    finally:
        with contextlib.suppress(ServerError):
            cluster.stop()
        shutil.rmtree(DATA, ignore_errors=True)


if __name__ == "__main__":
    main()
