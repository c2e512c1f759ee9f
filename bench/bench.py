#!/usr/bin/python3
"""Measures sherd side by side with real peers and with the limit of the socket path. See bench/README.md."""
import argparse
import datetime
import json
import os
import platform
import re
import signal
import sys
import time

import report
from cluster import cluster
from durable import durable
from peers import ORDER, PEERS, ROOT
from sections import LOAD, SECTIONS, Plan

SECTIONS = SECTIONS | {"durable": durable, "cluster": cluster}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*:\s*(.+)", f.read())
    with open("/proc/meminfo", encoding="ascii") as f:
        memory_kib = int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1))
    return {"cores": os.cpu_count(), "cpu": model.group(1).strip() if model else platform.machine(), "kernel": platform.release(),
            "memory_gib": round(memory_kib / 2**20), "versions": {name: peer.version() for name, peer in PEERS.items()}}


def replace_file(path, content):
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(content)
    os.replace(path + ".new", path)


class Results:
    """results.json and what is rendered from it. Saved after every round, so that an interrupted run keeps what it has."""

    def __init__(self, folder, quick):
        self.folder, self.path = folder, os.path.join(folder, "results.json")
        os.makedirs(folder, exist_ok=True)
        self.data = {"sections": {}}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                self.data = json.load(f)
        self.quick = quick

    def put(self, name, section):
        taken = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.data["sections"][name] = section | {"taken": taken, "quick": self.quick}
        replace_file(self.path, json.dumps(self.data, indent=1) + "\n")

    def render(self):
        for file, svg in report.plots(self.data).items():
            replace_file(os.path.join(self.folder, file), svg)
        replace_file(os.path.join(self.folder, "results.md"), report.markdown(self.data))


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--only", default="", help="sections, comma-separated: " + ",".join(SECTIONS))
    p.add_argument("--peers", default=",".join(ORDER), help="servers, comma-separated (default: %(default)s)")
    p.add_argument("--quick", action="store_true", help="short runs and few keys: to see that it works")
    p.add_argument("--repeat", type=int, help="runs of each cell (default 3, quick 1)")
    p.add_argument("--seconds", type=float, help="measured time of a run (default 2, quick 0.3)")
    p.add_argument("--foreign-max", type=float, default=0.10, help="a run is disturbed if others use more cores than this (default %(default)s)")
    p.add_argument("--budget-minutes", type=float, default=20, help="repeat no disturbed runs after this time (default %(default)s)")
    p.add_argument("--base-port", type=int, default=7570, help="the servers' ports begin here (default %(default)s)")
    p.add_argument("--out", default=os.path.join(ROOT, "docs", "bench"), help="folder of the results (default docs/bench)")
    p.add_argument("--report", action="store_true", help="measure nothing: write the report again from results.json")
    args = p.parse_args()
    args.only = [x for x in args.only.split(",") if x] or list(SECTIONS)
    args.peers = [x for x in args.peers.split(",") if x]
    for given, known in ((args.only, SECTIONS), (args.peers, PEERS)):
        unknown = [x for x in given if x not in known]
        if unknown:
            p.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return args


def measure(args, results):
    plan = Plan(quick=args.quick, repeat=args.repeat or (1 if args.quick else 3), seconds=args.seconds or (0.3 if args.quick else 2.0),
                foreign_max=args.foreign_max, base_port=args.base_port, peers=args.peers,
                deadline=time.monotonic() + args.budget_minutes * 60)
    plan.say = lambda line: print(line, flush=True)
    for name in args.only:
        started = time.monotonic()
        plan.say(f"{name}:")
        plan.progress = lambda partial, name=name: results.put(name, {"missing": {}, "keys": 0} | partial)
        results.put(name, SECTIONS[name](plan))
        results.render()
        plan.say(f"  {name} took {time.monotonic() - started:.0f} s")


def main():
    args = options()
    results = Results(args.out, args.quick)
    if not args.report:
        if not os.path.exists(LOAD):
            sys.exit("bench: build/bench/load is not built; run `make bench`")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped too
        results.data["machine"] = machine()
        measure(args, results)
    results.render()
    for section, goals in report.all_goals(results.data).items():
        print(f"\n{section}\n" + report.table(["goal", "measured", "wanted", "result"], report.goal_rows(goals)))
    print(f"\nwritten to {os.path.relpath(args.out)}")


if __name__ == "__main__":
    main()
