"""What is measured: one function per section, each giving a plain dictionary for results.json.

The machine is never quiet, so all servers of a section run at once, all but the one under test stopped (SIGSTOP); the runs interleave
A B C A B C; a run during which others used the processors is discarded and repeated; what is reported is the median of the rest.
"""
import contextlib
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from peers import ORDER, PEERS, ROOT, Resp, Server, ServerError

LOAD = os.path.join(ROOT, "build", "bench", "load")
STORING = [name for name in ORDER if PEERS[name].stores]


@dataclass
class Plan:
    """How much to measure. `quick` shrinks everything: it shows that all works, not how fast it is."""
    quick: bool = False
    repeat: int = 3
    seconds: float = 2.0
    foreign_max: float = 0.10     # cores that others may use during a run
    base_port: int = 7570
    peers: list = field(default_factory=lambda: list(ORDER))
    deadline: float = float("inf")
    say: callable = print
    progress: callable = lambda partial: None  # called with a section's results so far

    def scale(self, full, quick):
        return quick if self.quick else full


class LoadError(Exception):
    """The client could not finish its run."""


def load(server, helpers=(), **options):
    """Runs bench/load once against a server, or whatever else has its client_args(); gives its result."""
    argv = [LOAD, *server.client_args()]
    for pid in helpers:
        argv += ["--helper", str(pid)]
    for name, value in options.items():
        argv += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()
        raise LoadError(reason[-1] if reason else f"load ended with status {done.returncode}")
    return json.loads(done.stdout)


def fill(server, keys, value_bytes, **options):
    return load(server, workload="fill", pipeline=64, keys=keys, value_bytes=value_bytes, **options)


@contextlib.contextmanager
def fleet(plan, wanted, fill_keys=0, value_bytes=256):
    """Starts servers, fills and stops them. wanted: (label, peer or its name, workers). Gives ({label: Server}, {label: why it is missing})."""
    servers, missing = {}, {}
    try:
        for i, (label, peer, workers) in enumerate(wanted):
            peer = PEERS.get(peer, peer)
            server = Server(peer, plan.base_port + i, workers, value_bytes)
            try:
                server.start()
                servers[label] = server
                if fill_keys and peer.stores:
                    fill(server, fill_keys, value_bytes)
                server.pause()
            except (ServerError, LoadError) as error:
                missing[label] = str(error)
                plan.say(f"  {label}: missing: {error}")
                servers.pop(label, None)
                server.stop()
        yield servers, missing
    finally:
        for server in servers.values():
            server.stop()


def one_each(plan, names=None):
    return [(name, name, 2) for name in plan.peers if names is None or name in names]


# ---- interleaved runs

FIGURES = ("ops_per_s", "p50_us", "p99_us", "p999_us", "max_us", "server_us_per_op", "client_us_per_op", "foreign_cores")
KIND_FIGURES = ("get_p50_us", "get_p99_us", "set_p50_us", "set_p99_us")  # of a mix without pipelining


def summary(runs, foreign_max, repeat):
    """Medians over the undisturbed runs; if there are too few, over the least disturbed ones, and says so."""
    runs = sorted(runs, key=lambda r: r["foreign_cores"])
    clean = [r for r in runs if r["foreign_cores"] <= foreign_max]
    used = clean if len(clean) >= min(repeat, 2) else runs[:max(repeat, 1)]
    result = {name: statistics.median(r[name] for r in used) for name in FIGURES + KIND_FIGURES if name in used[0]}
    rates = [r["ops_per_s"] for r in used]
    result["spread"] = (max(rates) - min(rates)) / result["ops_per_s"]
    result["used"], result["discarded"] = len(used), len(runs) - len(used)
    result["disturbed"] = used is not clean
    return result


def run_cells(plan, servers, cells, extra_rounds=2):
    """cells: {cell: options of load}. Gives {cell: {label: summary with its runs, or {"error": why}}}."""
    runs = {(cell, label): [] for cell in cells for label in servers}
    errors = {}

    def short_of_clean(key):
        return sum(r["foreign_cores"] <= plan.foreign_max for r in runs[key]) < plan.repeat

    def collect():
        out = {}
        for (cell, label), done in runs.items():
            entry = {"error": errors[cell, label]} if (cell, label) in errors else None
            if entry is None and done:
                entry = summary(done, plan.foreign_max, plan.repeat) | {"runs": done}
            if entry:
                out.setdefault(cell, {})[label] = entry
        return out

    for turn in range(plan.repeat + extra_rounds):
        extra = turn >= plan.repeat
        if extra and time.monotonic() > plan.deadline:
            break
        for cell, options in cells.items():
            todo = [label for label in servers if (cell, label) not in errors and (not extra or short_of_clean((cell, label)))]
            for label in todo:
                servers[label].resume()
                try:
                    runs[cell, label].append(load(servers[label], **options))
                except LoadError as error:
                    errors[cell, label] = str(error)
                servers[label].pause()
            if todo:
                plan.say(f"  round {turn + 1}: {cell}: " + ", ".join(
                    brief(label, runs[cell, label], errors.get((cell, label)), plan.foreign_max) for label in todo))
        plan.progress({"cells": collect()})
    return collect()


def brief(label, done, error, foreign_max):
    if error:
        return f"{label} failed ({error})"
    mark = "~" if done[-1]["foreign_cores"] > foreign_max else ""
    return f"{label} {done[-1]['ops_per_s'] / 1000:.0f}k{mark}"


def io_of(server):
    """Which kind of event loop a server says it runs on: "uring", "epoll" or None."""
    for name, value in server.info().items():
        if ("io" in name or "multiplexing" in name) and value.strip() in ("uring", "io_uring", "epoll"):
            return value.strip().removeprefix("io_")
    return None


# ---- 1 and 2: throughput, CPU per operation, latency

def throughput(plan):
    keys = plan.scale(1_000_000, 100_000)
    cells = {f"{w}/{p}": {"workload": w, "pipeline": p, "keys": keys, "seconds": plan.seconds}
             for p in (1, 16, 64) for w in ("get", "set", "mix")}
    with fleet(plan, one_each(plan), keys) as (servers, missing):
        result = {"keys": keys, "missing": missing}
        if "sherd" in servers:
            servers["sherd"].resume()
            result["sherd_io"] = io_of(servers["sherd"])
        return result | {"cells": run_cells(plan, servers, cells)}


def multi(plan):
    keys = plan.scale(1_000_000, 100_000)
    cells = {f"{w}/{p}": {"workload": w, "pipeline": p, "keys": keys, "seconds": plan.seconds}
             for p in (1, 16) for w in ("mget", "mset")}
    with fleet(plan, one_each(plan), keys) as (servers, missing):
        return {"keys": keys, "missing": missing, "cells": run_cells(plan, servers, cells)}


def latency(plan):
    """At a rate that every server can keep, so that waiting is the server's doing and not a full machine's."""
    keys = plan.scale(1_000_000, 100_000)
    cells = {f"mix/{rate}": {"workload": "mix", "pipeline": 1, "keys": keys, "seconds": plan.seconds, "rate": rate}
             for rate in (20_000, 60_000)}
    with fleet(plan, one_each(plan), keys) as (servers, missing):
        return {"keys": keys, "missing": missing, "cells": run_cells(plan, servers, cells)}


# ---- 3: memory

def memory(plan):
    keys = plan.scale(5_000_000, 500_000)
    sizes, missing = {}, {}
    for value_bytes in (16, 64, 256):
        row = sizes.setdefault(str(value_bytes), {})
        for label, name, workers in one_each(plan, STORING):
            with fleet(plan, [(label, name, workers)]) as (servers, failed):
                missing |= failed
                if label not in servers:
                    continue
                server = servers[label]
                server.resume()
                empty = server.rss_bytes()
                try:
                    done = fill(server, keys, value_bytes)
                except LoadError as error:
                    row[label] = {"error": str(error)}
                    continue
                time.sleep(0.5)
                full = server.rss_bytes()
                row[label] = {"rss": full, "rss_empty": empty, "per_key": (full - empty) / keys, "fill_seconds": done["seconds"]}
            plan.say(f"  {value_bytes} B: {label} {row[label]['per_key']:.1f} bytes/key")
        plan.progress({"keys": keys, "missing": missing, "sizes": sizes})
    return {"keys": keys, "missing": missing, "sizes": sizes}


# ---- 4: growth

def growth(plan):
    """A stall that belongs to the server comes back in every fill, one that the scheduler made does not: so the smallest of the maxima counts."""
    keys = plan.scale(10_000_000, 500_000)
    fills, missing = {}, {}
    for turn in range(plan.scale(2, 1)):
        for label, name, workers in one_each(plan):
            if name == "limit-uring":
                continue
            with fleet(plan, [(label, name, workers)]) as (servers, failed):
                missing |= failed
                if label not in servers:
                    continue
                servers[label].resume()
                try:
                    done = load(servers[label], workload="fill", threads=1, conns=1, pipeline=16, keys=keys, value_bytes=16)
                except LoadError as error:
                    fills[label] = {"error": str(error)}
                    continue
            entry = fills.setdefault(label, {"runs": []})
            entry.setdefault("runs", []).append(done)
            best = min(entry["runs"], key=lambda r: r["max_us"])
            entry |= {k: best[k] for k in ("max_us", "max_at_op", "p999_us", "p99_us", "p50_us", "seconds", "foreign_cores")}
            entry["disturbed"] = best["foreign_cores"] > plan.foreign_max
            plan.say(f"  fill {turn + 1}: {label} {done['seconds']:.1f} s, slowest batch {done['max_us'] / 1000:.2f} ms")
            plan.progress({"keys": keys, "missing": missing, "fills": fills})
    return {"keys": keys, "missing": missing, "fills": fills}


# ---- 5: idle

def idle(plan):
    keys, seconds = plan.scale(1_000_000, 100_000), plan.scale(5, 2)
    used = {}
    with fleet(plan, one_each(plan), keys) as (servers, missing):
        for label, server in servers.items():
            server.resume()
            with contextlib.ExitStack() as stack:
                for _ in range(50):
                    stack.enter_context(Resp(server.port)).call("PING")
                time.sleep(1)
                before = server.cpu_seconds()
                time.sleep(seconds)
                used[label] = {"cpu_ms_per_s": (server.cpu_seconds() - before) * 1000 / seconds}
            server.pause()
            plan.say(f"  {label}: {used[label]['cpu_ms_per_s']:.2f} ms of CPU per second")
    return {"keys": keys, "conns": 50, "seconds": seconds, "missing": missing, "idle": used}


# ---- 6: what a foreign key costs

def shard_counters(info):
    """INFO's lines "shardN:keys=...,local=...,foreign=..." added up; empty if there are none."""
    total = {}
    for name, fields in info.items():
        if re.fullmatch(r"shard\d+", name):
            for word, count in re.findall(r"\b(local|foreign)=(\d+)", fields):
                total[word] = total.get(word, 0) + int(count)
    return total


def workers(plan):
    """The more workers, the more keys belong to another worker's shard than the connection's: 1/2, 7/8, 31/32 of them."""
    keys = plan.scale(1_000_000, 100_000)
    wanted = [(f"sherd-{n}", "sherd", n) for n in (2, 8, 32)] if "sherd" in plan.peers else []
    cells = {f"mix/{p}": {"workload": "mix", "pipeline": p, "keys": keys, "seconds": plan.seconds} for p in (1, 16)}
    with fleet(plan, wanted, keys) as (servers, missing):
        result = {"keys": keys, "missing": missing, "cells": run_cells(plan, servers, cells), "counters": {}}
        for label, server in servers.items():
            server.resume()
            result["counters"][label] = shard_counters(server.info())
            server.pause()
    return result


# ---- 7: one shard busy

SLOW = (("LPOS", "{key}", "absent"), ("SORT", "{key}", "LIMIT", "0", "1"))
SLOW_KEY = "bench:slow"
SLOW_MS = 10


def shards_of(client, keys):
    """The shard of each key, or None if the server does not tell."""
    for command, pattern in ((("DEBUG", "OBJECT"), r"\bshard:(\d+)"), (("STATS.SHARD",), r"^(\d+)$")):
        replies = client.pipeline([(*command, k) for k in keys])
        found = [re.search(pattern, r) if isinstance(r, str) else None for r in replies]
        if all(found):
            return [int(f.group(1)) for f in found]
    return None


def median_ms(client, command):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        client.call(*command)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def slow_command(client):
    """The first slow read that the server knows, and its milliseconds now."""
    error = None
    for template in SLOW:
        command = [word.format(key=SLOW_KEY) for word in template]
        try:
            return command, median_ms(client, command)
        except ServerError as refused:
            error = refused
    raise error


def make_slow(client):
    """Grows a list until a read of it takes about SLOW_MS. Gives (command, milliseconds), or raises ServerError."""
    length, step, elements_max = 0, 20_000, 4_000_000
    client.call("DEL", SLOW_KEY)
    while length < elements_max:
        for at in range(length, length + step, 1000):
            client.call("RPUSH", SLOW_KEY, *range(at, at + 1000))
        length += step
        command, took_ms = slow_command(client)
        if took_ms >= SLOW_MS * 0.8:
            return command, took_ms
        wanted = length * (SLOW_MS / took_ms - 1)
        step = 1000 * round(max(20_000, min(wanted, length, elements_max - length)) / 1000)
    raise ServerError(f"{command[0]} of {length} elements takes only {took_ms:.1f} ms")


def abuse(port, command):
    """Keeps one shard busy half of the time, until killed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Resp(port) as client:
        while True:
            start = time.perf_counter()
            client.call(*command)
            time.sleep(time.perf_counter() - start)


def chosen_file(server, part, numbers):
    path = os.path.join(ROOT, "build", "bench", f"chosen-{server.port}-{part}")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"{n}\n" for n in numbers)
    return path


def busy_parts(server, keys):
    """Which keys are read while the shard is busy: {"same": options, "other": options}, or the whole keyspace as "same"."""
    with Resp(server.port) as client:
        shards = shards_of(client, [SLOW_KEY] + [f"key:{n:010d}" for n in range(min(keys, 20_000))])
    if not shards:
        return {"same": {"keys": keys}}, "the server does not tell a key's shard"
    parts = {"same": [n for n, s in enumerate(shards[1:]) if s == shards[0]],
             "other": [n for n, s in enumerate(shards[1:]) if s != shards[0]]}
    return {part: {"chosen": chosen_file(server, part, numbers)} for part, numbers in parts.items() if numbers}, None


def judged(plan, run):
    return run | {"disturbed": run["foreign_cores"] > plan.foreign_max}


def busy_one(plan, server, keys):
    with Resp(server.port) as client:
        command, slow_ms = make_slow(client)
    parts, note = ({"same": {"keys": keys}}, "one thread, one keyspace") if server.name != "sherd" else busy_parts(server, keys)
    seconds = plan.scale(3.0, 1.0)
    entry = {"command": " ".join(command), "slow_ms": slow_ms, "note": note,
             "quiet": judged(plan, load(server, workload="get", keys=keys, seconds=seconds))}
    abuser = multiprocessing.Process(target=abuse, args=(server.port, command), daemon=True)
    abuser.start()
    try:
        for part, options in parts.items():
            entry[part] = judged(plan, load(server, helpers=[abuser.pid], workload="get", seconds=seconds, **options))
    finally:
        abuser.terminate()
        abuser.join()
    return entry


def busy(plan):
    keys, result = 100_000, {}
    wanted = one_each(plan, STORING)
    if "sherd" in plan.peers:
        wanted.append(("sherd-8", "sherd", 8))
    with fleet(plan, wanted, keys) as (servers, missing):
        for label, server in servers.items():
            server.resume()
            try:
                result[label] = busy_one(plan, server, keys)
                plan.say(f"  {label}: " + ", ".join(f"{part} p99 {result[label][part]['p99_us'] / 1000:.2f} ms"
                                                    for part in ("quiet", "other", "same") if part in result[label]))
            except (LoadError, ServerError, OSError) as error:
                result[label] = {"error": f"skipped: {error}"}
                plan.say(f"  {label}: skipped: {error}")
            server.pause()
            plan.progress({"keys": keys, "missing": missing, "busy": result})
    return {"keys": keys, "missing": missing, "busy": result}


SECTIONS = {"throughput": throughput, "multi": multi, "latency": latency, "memory": memory, "growth": growth, "idle": idle, "workers": workers, "busy": busy}
