"""Three nodes of sherd against three nodes of etcd: writes, linearizable reads, and both, durable, with the defaults of each; but a node of sherd has workers for its share of the processors, as three nodes on one machine should.

All six run on this machine all the time, because a stopped cluster would have to elect its leaders anew; what an idle one takes is measured and told. Both keep their data below build/bench/data, on the
same disk. The client is the same program for both, so that neither side pays for a heavier one; its own CPU is in the results.
"""
import concurrent.futures
import contextlib
import dataclasses
import os
import shutil
import time
import urllib.error
import urllib.request

from durable import FOREIGN_MAX
from peers import DATA, PEERS, Peer, Resp, Server, ServerError
from sections import LoadError, fill, load, run_cells

NODES = (1, 2, 3)
CONNS = 64
PREFIX, VALUE_BYTES = "bench:", 128  # ten digits follow: keys of 16 bytes
WORKERS = max(1, (os.cpu_count() or 1) // len(NODES))  # a node's share of the processors
READY_SECONDS = 20
LOAD_SECONDS_MAX = 40


class SherdNode(Server):
    def ask_ready(self):
        """Every group has a leader."""
        with Resp(self.port, timeout=2) as client:
            info = dict(line.split(":", 1) for line in client.call("CLUSTER", "INFO").splitlines() if ":" in line)
        if info.get("cluster_state") != "ok" or info.get("cluster_groups_led") != info.get("cluster_groups"):
            raise ServerError("groups without a leader")


class EtcdNode(Server):
    def ask_ready(self):
        """It has a leader and commits."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                if b'"true"' not in answer.read():
                    raise ServerError("not healthy")
        except urllib.error.HTTPError as error:
            raise ServerError(str(error)) from error


def sherd_peer(node, clients, peers):
    nodes = " ".join(f"{n}=127.0.0.1:{peers[n]}/127.0.0.1:{clients[n]}" for n in NODES)
    return dataclasses.replace(PEERS["sherd"], argv=(
        "serve", "--cluster", "yes", "--node-id", str(node), "--port", "{port}", "--cluster-port", str(peers[node]), "--data", "{data}", "--cluster-peers", nodes,
        "--log-level", "warning", "--workers", str(WORKERS)))


def etcd_peer(node, clients, peers):
    here, there = f"http://127.0.0.1:{clients[node]}", f"http://127.0.0.1:{peers[node]}"
    return Peer("etcd", "etcd", (
        "--name", f"n{node}", "--data-dir", "{data}", "--listen-client-urls", here, "--advertise-client-urls", here, "--listen-peer-urls", there,
        "--initial-advertise-peer-urls", there, "--initial-cluster", ",".join(f"n{n}=http://127.0.0.1:{peers[n]}" for n in NODES)))


KINDS = {"sherd": (SherdNode, sherd_peer, ()), "etcd": (EtcdNode, etcd_peer, ("--etcd",))}


class Cluster:
    """Three nodes of one kind; to sections.load() it looks like a server. beside: clusters that are idle while this one is measured."""

    def __init__(self, kind, first_port):
        node_class, peer, self.load_args = KINDS[kind]
        clients = {n: first_port + n - 1 for n in NODES}
        peers = {n: first_port + len(NODES) + n - 1 for n in NODES}
        self.name, self.beside = kind, []
        self.nodes = [node_class(peer(n, clients, peers), clients[n]) for n in NODES]

    def version(self):
        return self.nodes[0].peer.version()

    def start(self):
        """All at once: none is ready alone."""
        for node in self.nodes:
            os.makedirs(node.data_path(), mode=0o700)
        with concurrent.futures.ThreadPoolExecutor(len(self.nodes)) as pool:
            starts = [pool.submit(node.start, READY_SECONDS) for node in self.nodes]
        for start in starts:
            start.result()

    def stop(self):
        for node in self.nodes:
            node.stop()

    def client_args(self):
        args = list(self.load_args)
        for node in self.nodes:
            args += node.client_args()
        for node in (node for other in self.beside for node in other.nodes):
            args += ["--helper", str(node.pid)]
        return args

    def pause(self):
        """Goes on: its leaders are to stay."""

    def resume(self):
        """Was never stopped."""

    def cpu_seconds(self):
        return sum(node.cpu_seconds() for node in self.nodes)


@contextlib.contextmanager
def clusters(plan, options):
    """Starts and fills one of each kind. Gives ({kind: Cluster}, {kind: why it is missing}); no process and no file stays."""
    running, missing = {}, {}
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        for i, kind in enumerate(KINDS):
            cluster_ = running[kind] = Cluster(kind, plan.base_port + 2 * len(NODES) * i)
            try:
                cluster_.start()
                fill(cluster_, **options)
            except (ServerError, LoadError, OSError) as error:
                missing[kind] = str(error)
                plan.say(f"  {kind}: missing: {error}")
                running.pop(kind).stop()
        for cluster_ in running.values():
            cluster_.beside = [c for c in running.values() if c is not cluster_]
        yield running, missing
    finally:
        for cluster_ in running.values():
            cluster_.stop()
        shutil.rmtree(DATA, ignore_errors=True)
        os.sync()  # what is left to be written shall not disturb whoever comes next


def idle_ms_per_s(running, seconds):
    before, start = {kind: c.cpu_seconds() for kind, c in running.items()}, time.monotonic()
    time.sleep(seconds)
    wall = time.monotonic() - start
    return {kind: (c.cpu_seconds() - before[kind]) * 1000 / wall for kind, c in running.items()}


def cluster(plan):
    plan = dataclasses.replace(plan, foreign_max=max(plan.foreign_max, FOREIGN_MAX))  # both sync all the time, and the kernel's threads do the writing
    keys = plan.scale(100_000, 5_000)
    options = {"keys": keys, "value_bytes": VALUE_BYTES, "prefix": PREFIX, "threads": 2, "conns": CONNS // 2, "max_seconds": LOAD_SECONDS_MAX}
    timing = {"seconds": plan.seconds, "warmup": plan.scale(0.5, 0.1)}
    cells = {f"{w}/{p}": options | timing | {"workload": w, "pipeline": p} for p in (1, 16) for w in ("set", "get", "mix")}
    with clusters(plan, options) as (running, missing):
        for cluster_ in running.values():  # caches, buffers, leaders that change their place after a start
            with contextlib.suppress(LoadError):
                load(cluster_, workload="mix", **options, **(timing | {"seconds": plan.scale(2.0, 0.3)}))
        result = {"keys": keys, "missing": missing, "versions": {kind: c.version() for kind, c in running.items()}, "idle_ms_per_s": idle_ms_per_s(running, plan.scale(2.0, 0.5))}
        return result | {"cells": run_cells(plan, running, cells)}
