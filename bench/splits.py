#!/usr/bin/python3
"""A range of a million keys is cut while clients write to it, and one half goes to another group: how long does the slowest write take, and does a read along the order stay whole? Three nodes of sherd on this machine, durable.

Clients of all nodes write random keys of the range, one at a time each. Writes that were under way during a change, or within a tenth of a second after it, are told apart from those in between, which have the same machine: so what the
change costs shows also where others use it. A reader counts the space and walks over the cut meanwhile; it ends the run if a key is missing or twice."""
import argparse
import contextlib
import random
import shutil
import sys
import threading
import time

from cluster import Cluster
from peers import DATA, Resp, ServerError
from sections import LoadError, fill

SPACE, VALUE_BYTES = "big", 128
GOAL_MS = 50
AFTER_S = 0.1  # for other nodes to hear of a change


def key(number):
    return f"{SPACE}/{number:010}"


def patiently(c, *words, seconds=30):
    """A command that may be sent again: a change that waits for another one, or a read that a change has overtaken."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return c.call(*words)
        except ServerError as error:
            if time.monotonic() > deadline or not str(error).startswith(("TRYAGAIN", "CROSSSHARD")):
                raise
            time.sleep(0.01)


class Client:
    """Does something again and again through one node, until the end of the block."""

    def __init__(self, port, rest_s):
        self.port, self.rest_s, self.error = port, rest_s, None
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

    def run(self):
        try:
            with Resp(self.port) as c:
                while not self.ended.is_set():
                    self.once(c)
                    time.sleep(self.rest_s)
        except Exception as error:  # told at the end of the block
            self.error = error


class Writer(Client):
    def __init__(self, port, keys):
        super().__init__(port, 0.002)
        self.keys, self.took = keys, []  # of each write: when it began, seconds

    def once(self, c):
        began = time.monotonic()
        c.call("SET", key(random.randrange(self.keys)), "x" * VALUE_BYTES)
        self.took.append((began, time.monotonic() - began))


class Reader(Client):
    def __init__(self, port, keys):
        super().__init__(port, 0.02)
        self.keys, self.reads = keys, 0

    def once(self, c):
        count = int(patiently(c, "RANGE.COUNT", SPACE))
        first = self.keys // 2 - 500
        found = patiently(c, "RANGE.GET", SPACE, key(first), key(first + 1000), "KEYSONLY")[1]
        if count != self.keys or found != [key(i) for i in range(first, first + 1000)]:
            raise ServerError(f"a read is not whole: {count} of {self.keys} keys, {len(found)} of 1000")
        self.reads += 1


# ---- changes: each gives when it began and ended


def change(c, *words):
    began = time.monotonic()
    patiently(c, *words)
    return began, time.monotonic()


def ranges(c):
    return [dict(zip(r[::2], r[1::2])) for r in patiently(c, "RANGE.MAP", SPACE)]


def cut_and_merge(c, keys, times):
    for i in range(times):
        for word in ("RANGE.SPLIT", "RANGE.MERGE"):
            yield change(c, word, SPACE, key(keys * (1 + i % 7) // 8))
            time.sleep(0.5)


def move_half(c, keys):
    patiently(c, "RANGE.SPLIT", SPACE, key(keys // 2))
    time.sleep(0.5)
    home = int(ranges(c)[-1]["shard"])
    groups = [int(line.split()[0]) for line in c.call("CLUSTER", "STATUS").splitlines() if line[:1].isdigit() and " hash " in line]
    began = time.monotonic()
    patiently(c, "RANGE.MOVE", SPACE, key(keys // 2), str(next(g for g in groups if g != home)))
    while int(ranges(c)[-1]["shard"]) == home:
        if time.monotonic() > began + 120:
            raise ServerError("the move does not end")
        time.sleep(0.1)
    yield began, time.monotonic()


# ---- what came of it


def row(title, took):
    took = sorted(took)
    cells = [took[int(len(took) * q)] for q in (0.5, 0.99, 0.999)] + [took[-1]] if took else []
    return f"| {title} | {len(took)} | " + " | ".join(f"{1000 * t:.1f} ms" for t in cells) + " |"


def measure(cluster, keys, title, changes):
    with contextlib.ExitStack() as clients:
        reader = clients.enter_context(Reader(cluster.nodes[1].port, keys))
        writers = [clients.enter_context(Writer(node.port, keys)) for node in cluster.nodes * 2]
        time.sleep(1)
        with Resp(cluster.nodes[0].port) as c:
            spans = list(changes(c))
        time.sleep(1)
    during, between = [], []
    for began, seconds in (w for writer in writers for w in writer.took):
        meets = any(began <= end + AFTER_S and began + seconds >= begin for begin, end in spans)
        (during if meets else between).append(seconds)
    if not reader.reads or not during:
        raise ServerError("nothing was read or written meanwhile")
    print(row(f"{title}, {sum(end - begin for begin, end in spans) / len(spans) * 1000:.0f} ms each", during))
    print(row(f"between, {reader.reads} reads whole", between), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--keys", type=int, default=1_000_000)
    p.add_argument("--cuts", type=int, default=20)
    p.add_argument("--base-port", type=int, default=7670)
    args = p.parse_args()
    shutil.rmtree(DATA, ignore_errors=True)
    cluster = Cluster("sherd", args.base_port)
    try:
        cluster.start()
        for node in cluster.nodes:
            with Resp(node.port) as c:
                c.call("CONFIG", "SET", "ranges-auto", "no")
        with Resp(cluster.nodes[0].port) as c:
            patiently(c, "SPACE.SET", SPACE, "RANGE")
        fill(cluster, args.keys, VALUE_BYTES, prefix=SPACE + "/", threads=1, conns=20)
        print(f"{args.keys} keys in one range of three nodes; SET, the goal is {GOAL_MS} ms\n\n| | writes | p50 | p99 | p99.9 | slowest |\n|---|---:|---:|---:|---:|---:|")
        measure(cluster, args.keys, f"{2 * args.cuts} cuts and merges", lambda c: cut_and_merge(c, args.keys, args.cuts))
        measure(cluster, args.keys, "one half moves", lambda c: move_half(c, args.keys))
    except (ServerError, LoadError, OSError) as error:
        sys.exit(f"splits: {error}")
    finally:
        cluster.stop()
        shutil.rmtree(DATA, ignore_errors=True)


if __name__ == "__main__":
    main()
