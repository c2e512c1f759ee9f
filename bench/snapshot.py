#!/usr/bin/env python3
"""Building a snapshot and looking keys up in it, side by side with what the format's original does in Python: make bench-snapshot.

Building: the same rows, in random order, from the same CSV file to 16 shards in a folder. The other side is a loop over Python's csv, xxhash and sqlite3 modules with the original's pragmas, batches
and statements (INSERT OR REPLACE, one transaction per shard, 50000 rows at a time), which then copies the files, as its upload would. Looking up: multi_get of 100 keys against one SELECT per
key. Every result is checked: each side's shards have all rows, and a sample of them the right values.

Wall-clock time on a machine that does other things is not worth much, so the processor seconds of both sides are shown too.
"""
import argparse
import csv
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHERD = os.path.join(ROOT, "build", "sherd")
PRAGMAS = ("page_size=4096", "journal_mode=OFF", "synchronous=OFF", "cache_size=-2000", "locking_mode=EXCLUSIVE", "temp_store=MEMORY")
BATCH = 50000


def make_rows(path, n, value_bytes):
    """id,value with the ids 0..n-1 shuffled; values of so many hexadecimal digits."""
    if os.path.exists(path):
        return
    rng = random.Random(1)
    ids = list(range(n))
    rng.shuffle(ids)
    with open(path + ".part", "w") as f:
        f.write("key,value\n")
        for at in range(0, n, 10000):
            f.write("".join(f"{i},{value_of(i, value_bytes)}\n" for i in ids[at:at + 10000]))
    os.rename(path + ".part", path)


def value_of(i, value_bytes):
    return (f"{i * 0x9E3779B97F4A7C15 & (1 << 64) - 1:016x}" * (value_bytes // 16 + 1))[:value_bytes]


def measured(action):
    """Runs it in a child process of its own: gives wall seconds, processor seconds and the peak of its memory in MB."""
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as e:
            print(e, file=sys.stderr)
            os._exit(1)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit("a side failed")
    return {"wall_s": time.monotonic() - start, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}


def shard_of(key, shards):
    import xxhash
    return xxhash.xxh3_64_intdigest(key.to_bytes(8, "little", signed=True)) % shards


def build_in_python(rows, out, work, shards):
    import xxhash
    hash64 = xxhash.xxh3_64_intdigest
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    paths = [os.path.join(work, f"{i}.db") for i in range(shards)]
    connections = []
    for path in paths:
        c = sqlite3.connect(path, isolation_level=None)
        for p in PRAGMAS:
            c.execute("PRAGMA " + p)
        c.execute("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
        c.execute("BEGIN")
        connections.append(c)
    batches = [[] for _ in range(shards)]
    insert = "INSERT OR REPLACE INTO kv(k, v) VALUES (?, ?)"
    with open(rows, newline="") as f:
        reader = csv.reader(f)
        next(reader)
        for key, value in reader:
            key = int(key)
            at = hash64(key.to_bytes(8, "little", signed=True)) % shards
            batches[at].append((key.to_bytes(8, "big"), value.encode()))
            if len(batches[at]) >= BATCH:
                connections[at].executemany(insert, batches[at])
                batches[at] = []
    for i, c in enumerate(connections):
        c.executemany(insert, batches[i])
        c.execute("COMMIT")
        c.execute("PRAGMA optimize")
        c.close()
        folder = os.path.join(out, f"db={i:05d}")
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(paths[i], os.path.join(folder, "shard.db"))
    shutil.rmtree(work)


def build_alone(rows, out, shards, args):
    """In place of this process, so that what is measured is the program."""
    fd = os.open(os.path.join(out, "result.json"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(fd, 1)
    os.execv(SHERD, [SHERD, "snapshot", "build", "--to", "file://" + out, "--shards", str(shards), *args, rows])


def sherd_shards(out):
    result = json.load(open(os.path.join(out, "result.json")))
    folder = os.path.join(out, "shards", "run_id=" + result["run_id"])
    return {int(name[3:]): os.path.join(folder, name, "attempt=00", "shard.db") for name in os.listdir(folder)}


def python_shards(out):
    return {int(name[3:]): os.path.join(out, name, "shard.db") for name in os.listdir(out)}


def check(shards, n_shards, n, value_bytes):
    connections = {i: sqlite3.connect(f"file:{path}?mode=ro", uri=True) for i, path in shards.items()}
    assert sum(c.execute("SELECT count(*) FROM kv").fetchone()[0] for c in connections.values()) == n
    for i in random.Random(2).sample(range(n), 2000):
        found = connections[shard_of(i, n_shards)].execute("SELECT v FROM kv WHERE k = ?", (i.to_bytes(8, "big"),)).fetchone()
        assert found == (value_of(i, value_bytes).encode(),), i
    for c in connections.values():
        c.close()
    return sum(os.path.getsize(p) for p in shards.values())


def look_up_in_python(shards, n_shards, n, calls):
    """Keys per second: one SELECT per key, grouped by shard, as the original's multi_get."""
    connections = {i: sqlite3.connect(f"file:{path}?mode=ro", uri=True) for i, path in shards.items()}
    for c in connections.values():
        c.execute("PRAGMA mmap_size=268435456")
        c.execute("PRAGMA cache_size=-8000")
    rng = random.Random(3)
    asks = [rng.sample(range(n), 100) for _ in range(calls)]
    start, cpu = time.monotonic(), time.process_time()
    for keys in asks:
        groups, results = {}, {}
        for k in keys:
            groups.setdefault(shard_of(k, n_shards), []).append(k)
        for at, members in groups.items():
            for k in members:
                row = connections[at].execute("SELECT v FROM kv WHERE k = ?", (k.to_bytes(8, "big"),)).fetchone()
                results[k] = row[0] if row else None
        assert len(results) == 100 and None not in results.values()
    return calls * 100 / (time.monotonic() - start), calls * 100 / (time.process_time() - cpu)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rows", type=int, default=5_000_000)
    p.add_argument("--value-bytes", type=int, default=100)
    p.add_argument("--shards", type=int, default=16)
    p.add_argument("--dir", default=os.path.join(ROOT, "build", "bench", "snapshot"))
    p.add_argument("--repeat", type=int, default=1, help="of Sherd's side; the best counts")
    p.add_argument("--build-arg", action="append", default=[], help="for sherd snapshot build")
    p.add_argument("--lookup-calls", type=int, default=2000)
    o = p.parse_args()
    os.makedirs(o.dir, exist_ok=True)
    rows = os.path.join(o.dir, f"rows-{o.rows}-{o.value_bytes}.csv")
    make_rows(rows, o.rows, o.value_bytes)
    ours, theirs = os.path.join(o.dir, "sherd"), os.path.join(o.dir, "python")
    runs = []
    for _ in range(o.repeat):
        shutil.rmtree(ours, ignore_errors=True)
        os.makedirs(ours)
        runs.append(measured(lambda: build_alone(rows, ours, o.shards, o.build_arg)))
    sherd = min(runs, key=lambda r: r["wall_s"])
    sherd["bytes"] = check(sherd_shards(ours), o.shards, o.rows, o.value_bytes)
    shutil.rmtree(theirs, ignore_errors=True)
    python = measured(lambda: build_in_python(rows, theirs, os.path.join(o.dir, "work"), o.shards))
    python["bytes"] = check(python_shards(theirs), o.shards, o.rows, o.value_bytes)
    print(f"{o.rows} rows of {o.value_bytes} bytes, {o.shards} shards, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for name, r in (("python", python), ("sherd", sherd)):
        print(f"  build  {name:7} {r['wall_s']:8.2f} s  {r['cpu_s']:8.2f} s of processor  {r['peak_mb']:7.0f} MB peak  {r['bytes'] / 1e6:7.0f} MB of shards")
    print(f"  build  {python['wall_s'] / sherd['wall_s']:.1f} times as fast, with {python['cpu_s'] / sherd['cpu_s']:.1f} times less processor time")
    wall, cpu = look_up_in_python(python_shards(theirs), o.shards, o.rows, o.lookup_calls)
    print(f"  lookup python  {wall:10.0f} keys/s  {cpu:10.0f} per second of processor, multi_get of 100")
    tool = os.path.join(ROOT, "build", "bench", "snaplookup")
    if os.path.exists(tool):
        run = subprocess.run([tool, "file://" + ours, "multiget", "--keys", str(o.rows), "--batch", "100", "--seconds", "3"], stdout=subprocess.PIPE, check=True)
        print("  lookup sherd  ", run.stdout.decode().strip())
    print(json.dumps({"python": python, "sherd": sherd, "python_keys_per_s": wall}))


if __name__ == "__main__":
    main()
