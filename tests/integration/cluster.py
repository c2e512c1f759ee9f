"""Nodes of a cluster as real processes, for tests that do to them what happens to machines: they are killed, paused, started again, run out of disk, come and go.

The fixture `cluster` has three nodes that answer; `make_cluster(...)` starts one as a test wants it. Tests import both from here."""
import os
import re
import signal
import subprocess
import time

import pytest

from clusterload import Link, Lost, Refused
from conftest import PATIENCE, SHERD, Process, clean_env, free_port
from wire import Wire

# Keys that are in every group: of 256 keys at random none in one of 16 groups is a chance of one in a million, and the hash's seed is another one in each cluster.
SPREAD = [f"spread{i}" for i in range(256)]


class At:
    """What Wire wants to know of a server."""

    def __init__(self, port):
        self.port = port


class Life(Process):
    """A node from its start to its end."""

    name = "node"

    def stop(self, **options):
        if self.running():
            self.process.send_signal(signal.SIGCONT)
        return super().stop(**options)


class Node:
    """What stays of a node over its lives."""

    def __init__(self, number, folder, data=None):
        self.number = number
        self.port, self.cluster_port = free_port(), free_port()
        self.data = data or os.path.join(folder, f"node{number}")
        self.log_path = os.path.join(folder, f"node{number}.log")
        self.life = None
        self.started = []  # arguments of its first start

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def knows(self, number):
        """Where the other node is, over its own lives too."""
        with open(os.path.join(self.data, "cluster", "PEERS")) as f:
            return any(line.split()[0] == str(number) for line in f)


class Cluster:
    """processes: the fixture, which ends every life with the test and shows the logs of one that failed. data: folders of nodes by number, where they are not the usual; workers: likewise."""

    def __init__(self, processes, nodes=3, args=(), data=None, workers=None):
        self.processes = processes
        self.workers = workers or {}
        self.args = list(args)
        self.nodes = {n: Node(n, processes.folder, (data or {}).get(n)) for n in range(1, nodes + 1)}
        peers = ",".join(f"{n.number}=127.0.0.1:{n.cluster_port}/127.0.0.1:{n.port}" for n in self.nodes.values())
        for n in self.nodes.values():
            n.started = ["--node-id", n.number, "--peers", peers]
        self.start(*self.nodes)
        self.wait_ok()

    # ---- lives

    def start(self, *numbers):
        for number in numbers:
            node = self.nodes[number]
            assert not self.running(number)
            command = [SHERD, "serve", "--cluster", "yes", "--port", node.port, "--cluster-port", node.cluster_port, "--data", node.data, "--workers", self.workers.get(number, 2), *node.started, *self.args]
            node.life = self.processes(lambda folder: Life([str(w) for w in command], SHERD, node.port, node.log_path))

    def running(self, number):
        return self.nodes[number].life is not None and self.nodes[number].life.running()

    def kill(self, *numbers):
        for number in numbers:
            self.nodes[number].life.process.send_signal(signal.SIGKILL)
        for number in numbers:
            self.nodes[number].life.kill()

    def stop(self, *numbers):
        """SIGTERM, to all at once; each must end well."""
        for number in numbers:
            self.nodes[number].life.process.send_signal(signal.SIGTERM)
        for number in numbers:
            code = self.nodes[number].life.process.wait(20 * PATIENCE)
            assert code == 0, f"node {number} ended with {code}"

    def pause(self, number):
        self.nodes[number].life.process.send_signal(signal.SIGSTOP)

    def resume(self, number):
        self.nodes[number].life.process.send_signal(signal.SIGCONT)

    def join(self, number, through=1, args=()):
        """A new node, with the number that it will get."""
        node = self.nodes[number] = Node(number, self.processes.folder)
        node.started = ["--join", f"127.0.0.1:{self.nodes[through].port}", *args]
        self.start(number)

    def end(self):
        """Whatever they are at, nobody waits for it."""
        for number in self.nodes:
            if self.running(number):
                self.kill(number)

    # ---- looking

    def wire(self, number, protocol=2):
        return Wire(At(self.port(number)), protocol, timeout=60 * PATIENCE)  # nothing is measured by it

    def port(self, number):
        return self.nodes[number].port

    def ports(self):
        return [n.port for n in self.nodes.values()]

    def others(self, number):
        return [n for n in self.nodes if n != number and self.running(n)]

    def ask(self, number, *words, seconds=5):
        """None: no answer."""
        try:
            link = Link(self.port(number), seconds * PATIENCE)
        except Lost:
            return None
        try:
            return link.ask(*words)
        except Lost:
            return None
        finally:
            link.close()

    def info(self, number):
        text = self.ask(number, "CLUSTER", "INFO")
        if text is None or isinstance(text, Refused):
            return {}
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def status(self, number):
        """CLUSTER STATUS as lists of dicts by the first word of each table's head: node, group, operation."""
        text = self.ask(number, "CLUSTER", "STATUS")
        return tables(text) if isinstance(text, str) and not isinstance(text, Refused) else {}

    def member(self, number, through):
        """The node's line of the status, or None."""
        return next((n for n in self.status(through).get("node", []) if n["node"].rstrip("*") == str(number)), None)

    def leads(self, number, through=None):
        """How many groups it leads."""
        line = self.member(number, through or number)
        return int(line["leads"]) if line else 0

    def wait_ok(self, *numbers, seconds=30):
        """Until every group is led, as each of these nodes (all that run, if none is named) sees it."""
        for number in numbers or [n for n in self.nodes if self.running(n)]:
            wait_for(lambda: self.info(number).get("cluster_state") == "ok" and not self.loads(number) or self.still(number), seconds, lambda: f"node {number} does not come up: {self.info(number)}")

    def loads(self, number):
        """It knows of leaders a moment before its clients are let in."""
        answer = self.ask(number, "GET", SPREAD[0])
        return isinstance(answer, Refused) and answer.code() == "LOADING"

    def still(self, number):
        assert self.running(number), f"node {number} has ended:\n{self.nodes[number].log()[-4000:]}"

    def write_everywhere(self, number, value, seconds=30):
        """Through a node to every group, until all of them have it. Gives the seconds that it took."""
        began = time.monotonic()
        missing = SPREAD
        while missing:
            assert time.monotonic() < began + seconds * PATIENCE, f"{len(missing)} of {len(SPREAD)} keys cannot be written: {failed}"
            try:
                link = Link(self.port(number), seconds * PATIENCE)
                answers = link.ask_all([("SET", k, value) for k in missing])
                link.close()
                failed = next((a for a in answers if a != "OK"), None)
                missing = [k for k, a in zip(missing, answers) if a != "OK"]
            except Lost as e:
                failed = e
        return time.monotonic() - began

    def cli(self, *words):
        done = subprocess.run([SHERD, "cluster", *map(str, words)], capture_output=True, text=True, timeout=60 * PATIENCE, env=clean_env())
        assert done.returncode == 0, f"sherd cluster {words}: {done.stdout}{done.stderr}"
        return done.stdout


def maker(processes, kind, ready=lambda c: None):
    """What a fixture yields to make clusters of some kind; they end with the test."""
    made = []

    def make(**options):
        made.append(kind(processes, **options))
        ready(made[-1])
        return made[-1]

    yield make
    for c in made:
        c.end()


@pytest.fixture
def make_cluster(processes):
    yield from maker(processes, Cluster)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


def tables(text):
    """Tables with a head line and columns under its words."""
    found, rows, columns = {}, None, []
    for line in text.splitlines():
        head = re.match(r"(node|group|operation) ", line)
        if head:
            starts = [m.start() for m in re.finditer(r"\S+", line)]
            columns = list(zip(line.split(), starts, starts[1:] + [None]))
            rows = found.setdefault(head[1], [])
        elif line.strip() and rows is not None:
            rows.append({name: line[a:b].strip() for name, a, b in columns})
    return found


def wait_for(what, seconds, why):
    deadline = time.monotonic() + seconds * PATIENCE
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)
