"""What durability costs: SET under each sync policy, dumps, dumps under load, and starts from a dump and from a log.

The peer is redis with its append-only file and its RDB files. Both write below build/bench/data, on the same disk; neither dumps or rewrites by itself.
"""
import contextlib
import os
import shutil
import statistics
import threading
import time

from peers import DATA, POLICIES, Resp, Server, ServerError, durable_peer
from sections import LoadError, fill, fleet, load, run_cells

PEERS = ("sherd", "redis")
DUMP_SECONDS_MAX = 120
FOREIGN_MAX = 0.25  # cores; the kernel's own threads, which write to the disk, are among them
TICKS = os.sysconf("SC_CLK_TCK")


def chosen(plan):
    return [name for name in PEERS if name in plan.peers]


@contextlib.contextmanager
def clean_data(plan, count):
    """Empty folders for the servers of the next `count` ports; they are gone afterwards."""
    shutil.rmtree(DATA, ignore_errors=True)
    for name in PEERS:
        for i in range(count):
            os.makedirs(os.path.join(DATA, f"{name}-{plan.base_port + i}"))
    try:
        yield
    finally:
        shutil.rmtree(DATA, ignore_errors=True)
        os.sync()  # what is left to be written shall not disturb whoever comes next


# ---- seconds of something that load does not measure

def machine_ticks():
    """CPU time that anybody has used, the hypervisor's share included."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, system, _, _, irq, softirq, steal = (int(x) for x in f.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal


def server_ticks(pid):
    """Of a server and of the children that it has waited for: a peer forks for a dump."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return sum(int(x) for x in f.read().rsplit(")", 1)[1].split()[11:15])


class Timed:
    """Seconds, and how many cores others used meanwhile. of() is for a server that was there before."""

    def __init__(self):
        self.start, self.machine, self.own, self.server = time.monotonic(), machine_ticks(), time.process_time(), 0

    def of(self, server):
        self.server = server_ticks(server.pid)
        return self

    def end(self, server, seconds=None):
        wall = time.monotonic() - self.start
        foreign = (machine_ticks() - self.machine - server_ticks(server.pid) + self.server) / TICKS - (time.process_time() - self.own)
        return {"seconds": wall if seconds is None else seconds, "foreign_cores": max(foreign, 0) / wall}


def median_entry(runs):
    """The median of the undisturbed runs, or of all if there is none."""
    clean = [r for r in runs if r["foreign_cores"] <= FOREIGN_MAX]
    return {"seconds": statistics.median(r["seconds"] for r in clean or runs), "runs": runs, "disturbed": not clean}


# ---- SET under each policy

def writes(plan, progress):
    keys, cells = plan.scale(1_000_000, 50_000), {}
    for policy in POLICIES:
        wanted = [(name, durable_peer(name, policy), 2) for name in chosen(plan)]
        todo = {f"set/{p}": {"workload": "set", "pipeline": p, "keys": keys, "seconds": plan.seconds} for p in (1, 16)}
        plan.say(f"  {policy}:")
        with clean_data(plan, len(wanted)), fleet(plan, wanted, keys) as (servers, missing):
            for cell, row in run_cells(plan, servers, todo).items():
                cells[f"{policy}/{cell.split('/')[1]}"] = row
        progress({"missing": missing, "cells": cells})
    return {"keys": keys, "missing": missing, "cells": cells}


# ---- dumps

def dumping(client):
    return any(line == "rdb_bgsave_in_progress:1" for line in client.call("INFO", "persistence").splitlines())


def dump(server, stop=None):
    """One BGSAVE; gives its time, or None if it was not waited for."""
    timed = Timed().of(server)
    with Resp(server.port) as client:
        client.call("BGSAVE")
        while dumping(client):
            if stop and stop.is_set():
                return None
            if time.monotonic() - timed.start > DUMP_SECONDS_MAX:
                raise ServerError("the dump does not end")
            time.sleep(0.002)
    return timed.end(server)


def dump_bytes(server):
    """The size of what a start would load: the newest dump of each shard, or the RDB file."""
    newest = {}
    for folder, _, files in os.walk(server.data_path()):
        for file in files:
            if file.endswith((".dump", ".rdb")):
                newest[folder] = max(newest.get(folder, ""), file)
    return sum(os.path.getsize(os.path.join(folder, file)) for folder, file in newest.items())


class Watch:
    """Dumps one after the other, and the server's largest resident memory meanwhile. A peer that forks has it in a child."""

    def __init__(self, server):
        self.server, self.stop, self.ended, self.rss, self.error = server, threading.Event(), 0, 0, None
        self.threads = [threading.Thread(target=self.dump), threading.Thread(target=self.sample)]

    def dump(self):
        try:
            while not self.stop.is_set():
                self.ended += dump(self.server, self.stop) is not None
        except (ServerError, OSError) as error:
            self.error = str(error)

    def sample(self):
        while not self.stop.is_set():
            self.rss = max(self.rss, self.server.rss_bytes())
            time.sleep(0.01)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()


def under_load(plan, server, keys):
    """SET by 50 connections: quiet, then while dumps follow one another."""
    options = {"workload": "set", "keys": keys, "seconds": plan.scale(4.0, 0.5)}
    quiet = load(server, **options)
    before = server.rss_bytes()
    with Watch(server) as watch:
        busy = load(server, helpers=[os.getpid()], **options)
    with Resp(server.port) as client:  # the last one may still be running
        while dumping(client):
            time.sleep(0.01)
    if watch.error:
        raise ServerError(watch.error)
    return {"quiet": quiet, "busy": busy, "rss": before, "rss_most": watch.rss, "dumps": watch.ended,
            "disturbed": max(quiet["foreign_cores"], busy["foreign_cores"]) > plan.foreign_max}


def dumps(plan, progress):
    keys, result = plan.scale(1_000_000, 50_000), {}
    wanted = [(name, durable_peer(name, "EverySecond", log=False), 2) for name in chosen(plan)]
    with clean_data(plan, len(wanted)), fleet(plan, wanted) as (servers, missing):
        empty = {label: server.rss_bytes() for label, server in servers.items()}
        for label, server in servers.items():
            server.resume()
            fill(server, keys, 256, distinct=True)
            server.pause()
        times = {label: [] for label in servers}
        for _ in range(plan.repeat):
            for label, server in servers.items():
                server.resume()
                times[label].append(dump(server))
                server.pause()
        for label, server in servers.items():
            server.resume()
            entry = result[label] = median_entry(times[label]) | {"bytes": dump_bytes(server), "payload": keys * (14 + 256), "rss_empty": empty[label]}
            try:
                entry["load"] = under_load(plan, server, keys)
            except (LoadError, ServerError, OSError) as error:
                entry["error"] = f"under load: {error}"
            server.pause()
            plan.say(f"  dump: {label} {entry['seconds']:.2f} s, {entry['bytes'] / 1e6:.0f} MB" + (
                f", SET p99 {entry['load']['quiet']['p99_us']:.0f} µs quiet, {entry['load']['busy']['p99_us']:.0f} µs while dumping" if "load" in entry else ""))
            progress({"dumps": result})
    return {"dumps": result, "missing": missing}


# ---- starts

def start_seconds(peer, port, keys):
    """From the start of the process until every key is there."""
    server, timed = Server(peer, port), Timed()
    try:
        server.start(ready_seconds=300)  # an answer to PING: both say LOADING before
        with Resp(port) as client:
            if client.call("DBSIZE") != str(keys):
                raise ServerError("not all keys came back")
        return timed.end(server, server.ready_at - timed.start)
    finally:
        server.stop()


def prepare(peer, port, keys, how):
    """A data folder with these keys in a dump or in a log, and nothing else."""
    server = Server(peer, port).start()
    try:
        fill(server, keys, 256, distinct=True)
        with Resp(port, timeout=DUMP_SECONDS_MAX) as client:
            if how == "dump":
                client.call("SAVE")
            client.pipeline([("SHUTDOWN", "NOSAVE")])
        server.process.wait(timeout=60)
    finally:
        server.stop()


def starts(plan, progress):
    keys, result = plan.scale(1_000_000, 50_000), {}
    for how in ("dump", "log"):
        peers = {name: durable_peer(name, "EverySecond", log=how == "log") for name in chosen(plan)}
        row, runs = result.setdefault(how, {}), {name: [] for name in peers}
        with clean_data(plan, len(peers)):
            for i, (label, peer) in enumerate(peers.items()):
                try:
                    prepare(peer, plan.base_port + i, keys, how)
                except (LoadError, ServerError, OSError) as error:
                    row[label] = {"error": str(error)}
            for _ in range(plan.repeat):
                for i, (label, peer) in enumerate(peers.items()):
                    if label in row and "error" in row[label]:
                        continue
                    try:
                        runs[label].append(start_seconds(peer, plan.base_port + i, keys))
                        row[label] = median_entry(runs[label])
                    except (ServerError, OSError) as error:
                        row[label] = {"error": str(error)}
        plan.say(f"  start from a {how}: " + ", ".join(f"{label} {e['seconds']:.2f} s" if "seconds" in e else f"{label} {e['error']}" for label, e in row.items()))
        progress({"starts": result})
    return {"starts": result}


def durable(plan):
    result, tell = {}, plan.progress
    plan.progress = lambda partial: None  # run_cells tells of its cells, which get other names here
    try:
        for part in (writes, dumps, starts):
            done = part(plan, lambda partial: tell(result | partial))
            result |= done | {"missing": result.get("missing", {}) | done.get("missing", {})}
    finally:
        plan.progress = tell
    return result
