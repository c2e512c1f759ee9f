"""Clients that ask any node for anything at the same time, and remember what they asked, what they were told, and when.

    with Load([port, port, port], clients=8, seed=1) as load:
        load.run_for(2)
        ... a disturbance ...
    load.check(port)

What is checked, all of it against one clock of one machine:
    - the history of every shared key is linearizable (tests/tools/linear.c). Few keys are hot, many are cold;
    - no read of a counter shows less than what an earlier one, of anybody, has shown;
    - the ledger: each client sets keys of its own to values that are there once, and counts on a counter of its own. What was acknowledged is there at the end, what was refused is not,
      and a counter has counted what was acknowledged and at most what is uncertain besides;
    - requests of one key in one pipeline were run in its order;
    - every error that a client got is one of those that are documented.
"""
import os
import random
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter

from conftest import PATIENCE, SHERD

TOOL = os.path.join(os.path.dirname(SHERD), "tools", "linear")
KINDS = ("GET", "SET", "GETSET", "SETNX", "DEL", "GETDEL", "INCR", "APPEND")
# The errors that a client of a cluster must expect. Of all but the last it knows that nothing happened.
REFUSALS = ("CLUSTERDOWN", "TRYAGAIN", "MUSTRETRY", "LOADING")
UNCERTAIN = "UNCERTAIN"
TEXT_BYTES_MAX = 100
# Shared keys are new ones every other second, and the old ones are only read. A request of unknown outcome may have happened at any later moment, so the search for an order grows fast with how many
# of them a key has.
ERA_SECONDS = 2


class Lost(Exception):
    """The connection broke, or the answer did not come in time."""


class Refused(str):
    """An error as an answer."""

    def code(self):
        return self.split(" ", 1)[0]


class Link:
    """A connection: as little between a client and its socket as can be, because Python is slow enough."""

    def __init__(self, port, timeout):
        try:
            self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        except OSError as e:
            raise Lost(str(e))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb", 1 << 16)

    def send(self, *commands):
        out = []
        for words in commands:
            out.append(f"*{len(words)}\r\n")
            out.extend(f"${len(w)}\r\n{w}\r\n" for w in map(str, words))
        try:
            self.sock.sendall("".join(out).encode())
        except OSError as e:
            raise Lost(str(e))

    def answer(self):
        try:
            line = self.file.readline()
            if not line.endswith(b"\r\n"):
                raise Lost("closed")
            mark, rest = line[:1], line[1:-2].decode()
            if mark == b"$":
                if rest == "-1":
                    return None
                body = self.file.read(int(rest) + 2)
                if len(body) != int(rest) + 2:
                    raise Lost("closed")
                return body[:-2].decode(errors="surrogateescape")
        except OSError as e:
            raise Lost(str(e))
        if mark == b"*":
            return None if rest == "-1" else [self.answer() for _ in range(int(rest))]
        return int(rest) if mark == b":" else Refused(rest) if mark == b"-" else rest

    def ask(self, *words):
        self.send(words)
        return self.answer()

    def ask_all(self, commands):
        """In one pipeline."""
        self.send(*commands)
        return [self.answer() for _ in commands]

    def close(self):
        self.file.close()
        self.sock.close()


def outcome(kind, answer):
    """As linear.c reads it."""
    if kind == "SET":
        return "ok"
    if answer is None:
        return "nil"
    return f":{answer}" if isinstance(answer, int) else f"={answer}"


def command(request, before=""):
    """The words that are sent."""
    kind, key, arg = request
    key = before + key
    return ("INCRBY", key, arg) if kind == "INCR" else (kind, key) if arg == "-" else (kind, key, arg)


class Client(threading.Thread):
    def __init__(self, load, number, seed):
        super().__init__(daemon=True)
        self.load, self.number = load, number
        self.r = random.Random(seed)
        self.links, self.avoid = {}, {}
        self.history = []  # (client, key, op, arg, called, returned, outcome)
        self.made = 0
        self.counter = f"count{number}"
        self.counted = self.perhaps_counted = 0
        self.written, self.perhaps, self.refused = [], [], []  # keys of its own
        self.failure = None

    # ---- asking

    def link(self):
        """To a node at random, but for those that have just failed if there are others."""
        now = time.monotonic()
        ports = self.load.ports
        port = self.r.choice([p for p in ports if self.avoid.get(p, 0) < now] or ports)
        if port not in self.links:
            try:
                self.links[port] = Link(port, self.load.timeout)
            except Lost:
                self.avoid[port] = now + 0.2
                raise
        return port, self.links[port]

    def drop(self, port):
        self.avoid[port] = time.monotonic() + 1
        self.links.pop(port).close()

    def ask(self, kind, key, arg="-"):
        """Gives what became of it as linear.c says it, and the answer; None if nobody could be asked."""
        told = self.ask_all([(kind, key, arg)])
        return told[0] if told else (None, None)

    def ask_all(self, requests):
        """The same for several, in one pipeline."""
        try:
            port, link = self.link()
        except Lost:
            time.sleep(0.01)
            return []
        told = []
        called = time.monotonic_ns()
        try:
            link.send(*(command(q, self.load.before) for q in requests))
            for request in requests:
                answer = link.answer()
                returned = time.monotonic_ns()
                became = self.refusal(port, request, answer) if isinstance(answer, Refused) else outcome(request[0], answer)
                self.history.append((self.number, request[1], request[0], request[2], called, returned, became))
                told.append((became, answer))
        except Lost:
            for kind, key, arg in requests[len(told):]:
                self.history.append((self.number, key, kind, arg, called, time.monotonic_ns(), "?"))
                told.append(("?", None))
            self.drop(port)
        return told

    def refusal(self, port, request, answer):
        self.load.refusals[answer.code()] += 1
        if answer.code() in REFUSALS:
            time.sleep(0.005)
            return "no"
        if answer.code() != UNCERTAIN:
            self.load.errors.append(f"{' '.join(map(str, request))} on port {port}: {answer}")
        return "?"

    # ---- what is asked

    def value(self):
        self.made += 1
        return f"v{self.number}.{self.made}"

    def ask_register(self):
        era = self.load.era()
        key = f"reg%d.{self.r.randrange(4)}" if self.r.random() < 0.6 else f"cold%d.{self.r.randrange(20)}/{self.r.randrange(10)}"
        if era and self.r.random() < 0.15:
            return self.ask("GET", key % self.r.randrange(era))
        key %= era
        kind = self.r.choices(("GET", "SET", "GETSET", "SETNX", "DEL", "GETDEL"), (45, 20, 10, 10, 8, 7))[0]
        return self.ask(kind, key, self.value() if "SET" in kind else "-")

    def ask_number(self):
        key = f"sum{self.r.randrange(3)}"
        self.ask(*self.r.choice((("GET", key), ("INCR", key, 1))))

    def ask_text(self):
        key = f"text{self.load.era()}.{self.r.randrange(2)}"
        if self.r.random() < 0.4:
            self.ask("GET", key)
        else:
            became, length = self.ask("APPEND", key, self.value())
            if became and became[0] == ":" and length > TEXT_BYTES_MAX:
                self.ask("SET", key, self.value())

    def ledger(self, requests, told):
        for (kind, key, _), (became, _) in zip(requests, told):
            if kind == "SET":
                {"ok": self.written, "no": self.refused, "?": self.perhaps}[became].append(key)
            elif kind == "INCR":
                self.counted += became[0] == ":"
                self.perhaps_counted += became == "?"

    def own_set(self):
        return "SET", f"own{self.number}.{self.made}", self.value()

    def ask_ledger(self):
        request = ("INCR", self.counter, 1) if self.r.random() < 0.5 else self.own_set()
        self.ledger([request], self.ask_all([request]))

    def ask_pipeline(self):
        """Requests of one key are run in the order of the pipeline, whatever happens to some of them."""
        requests = [q for _ in range(4) for q in (("INCR", self.counter, 1), self.own_set(), ("GET", self.counter, "-"))]
        told = self.ask_all(requests)
        self.ledger(requests, told)
        numbers = [int(answer) for (kind, _, _), (became, answer) in zip(requests, told) if kind != "SET" and became[0] in ":="]
        if numbers != sorted(numbers):
            self.load.errors.append(f"a pipeline was run out of its order: {told}")
        self.load.pipelines += len(numbers) == 8

    def run(self):
        try:
            while not self.load.over:
                self.r.choices((self.ask_register, self.ask_number, self.ask_text, self.ask_ledger, self.ask_pipeline), (56, 15, 8, 18, 3))[0]()
                time.sleep(self.load.rest)
        except Exception as e:  # told by whoever joins the thread
            self.failure = e
        for link in self.links.values():
            link.close()


class Load:
    """ports may be changed while it runs. timeout: seconds after which a client gives an answer up; rest: seconds between a client's requests. before: what every key begins with, so that they are of one key space."""

    def __init__(self, ports, clients=8, seed=1, timeout=1.5, rest=0.001, before=""):
        self.ports = list(ports)
        self.before = before
        self.timeout, self.rest = timeout * PATIENCE, rest
        self.over, self.began = False, 0
        self.errors = []
        self.refusals = Counter()
        self.pipelines = 0  # that were answered whole
        self.clients = [Client(self, i, seed * 1000 + i) for i in range(clients)]

    def era(self):
        return int((time.monotonic() - self.began) / ERA_SECONDS)

    def __enter__(self):
        self.began = time.monotonic()
        for c in self.clients:
            c.start()
        return self

    def __exit__(self, kind, *exc):
        self.over = True
        for c in self.clients:
            c.join(60 * PATIENCE)
        if kind is None:
            assert not any(c.is_alive() for c in self.clients), "a client hangs"
            for c in self.clients:
                if c.failure:
                    raise c.failure

    def run_for(self, seconds):
        """Gives the moments of its begin and its end, for answered()."""
        began = time.monotonic_ns()
        time.sleep(seconds)
        return began, time.monotonic_ns()

    def history(self):
        return sorted((e for c in self.clients for e in list(c.history)), key=lambda e: e[4])

    def answered(self, kind=None, span=(0, 1 << 63)):
        """How many requests, of a kind, were made and answered well in a span of time."""
        return sum(kind in (None, e[2]) and e[6] not in ("no", "?") and span[0] <= e[4] and e[5] <= span[1] for c in self.clients for e in list(c.history))

    def uncertain(self):
        return sum(e[6] == "?" for c in self.clients for e in c.history)

    # ---- what is checked at the end

    def check(self, port):
        assert not self.errors, f"{len(self.errors)} errors that no client must see: {self.errors[:5]}"
        history = self.history()
        back = went_back(history)
        assert not back, f"reads went back: {back[:3]}"
        code, words = judge(history)
        assert code == 0, words
        self.check_ledger(port)

    def check_ledger(self, port):
        told = lambda keys: dict(zip(keys, read_all(port, [self.before + k for k in keys])))
        for c in self.clients:
            values = {e[1]: e[3] for e in c.history if e[2] == "SET"}
            missing = [k for k, v in told(c.written).items() if v != values[k]]
            assert not missing, f"acknowledged and not there: {missing[:5]}, {len(missing)} of {len(c.written)}"
            there = [k for k, v in told(c.refused).items() if v is not None]
            assert not there, f"refused, and there all the same: {there[:5]}"
            wrong = [k for k, v in told(c.perhaps).items() if v not in (None, values[k])]
            assert not wrong, f"neither there nor not: {wrong[:5]}"
            counted = int(read_all(port, [self.before + c.counter])[0] or 0)
            assert c.counted <= counted <= c.counted + c.perhaps_counted, f"{c.counter} has counted {counted}; {c.counted} are acknowledged, {c.perhaps_counted} uncertain"


def read_all(port, keys, seconds=20):
    """The values of keys, however often that has to be asked."""
    deadline = time.monotonic() + seconds * PATIENCE
    values = []
    while len(values) < len(keys):
        part = keys[len(values):len(values) + 200]
        try:
            link = Link(port, seconds * PATIENCE)
            got = link.ask_all([("GET", k) for k in part])
            link.close()
            bad = [v for v in got if isinstance(v, Refused)]
            if not bad:
                values += got
                continue
        except Lost as e:
            bad = [e]
        assert time.monotonic() < deadline, f"cannot be read: {bad[0]}"
        time.sleep(0.05)
    return values


def judge_text(text, *options):
    """The judge's exit status and words."""
    with tempfile.NamedTemporaryFile("w", suffix=".history") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([TOOL, *options, f.name], capture_output=True, text=True, timeout=120 * PATIENCE)
    assert done.returncode in (0, 1, 2, 3), f"the judge ended with {done.returncode}: {done.stderr}"
    return done.returncode, done.stdout


def judge(history, *options):
    return judge_text("".join("%d %s %s %s %d %d %s\n" % e for e in history), *options)


def went_back(history):
    """Answers that show less of a counter than one that had come before they were asked for."""
    back = []
    numbers = {}
    for e in history:
        if e[1].startswith(("sum", "count")) and e[6] not in ("no", "?"):
            numbers.setdefault(e[1], []).append((e[4], e[5], 0 if e[6] == "nil" else int(e[6][1:]), e))
    for seen in numbers.values():
        returns = sorted(seen, key=lambda s: s[1])
        most, at = 0, 0
        for called, _, number, e in sorted(seen, key=lambda s: s[0]):
            while returns[at][1] < called:
                most = max(most, returns[at][2])
                at += 1
            if number < most:
                back.append((e, most))
    return back


def with_a_lie(history, kind, r):
    """The history with one answer of this kind that cannot be true."""
    read = {e[6][1:] for e in history if e[6][0] == "="}
    tells = [i for i, e in enumerate(history) if e[2] == kind and e[6] not in ("no", "?")]
    if kind in ("SET", "SETNX"):  # "it did not happen", though others have read it
        tells = [i for i in tells if history[i][3] in read and history[i][6] in ("ok", ":1")]
    lie = {"SET": "no", "SETNX": ":0", "DEL": ":2", "INCR": ":1000000000", "APPEND": ":1000000000"}.get(kind, "=1000000000")
    i = r.choice(tells)
    return history[:i] + [(*history[i][:6], lie)] + history[i + 1:]
