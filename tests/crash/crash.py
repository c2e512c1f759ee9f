#!/usr/bin/env python3
"""Kills servers at random moments and looks whether what they had acknowledged is there in the next process.

    tests/crash/crash.py [--kills 45] [--policies always,everysec,no,always+power,everysec+power,switch+power,always+cold] [--seed N]

A round: start (sometimes with another number of workers, sometimes killed while it starts), compare with the model, let many clients write, dump now and then, kill. What each policy promises:

    always     nothing that was acknowledged is missing
    everysec   nothing is missing that was acknowledged more than a second (and what a busy machine adds) before the kill
    switch     CONFIG SET changes between always and everysec all the time: nothing is missing that was asked for and acknowledged between two changes, under always
    no         the same here: the process dies, not the machine, and the log is handed to the kernel within 50 ms

    +power     with it, the machine dies too: what was not synced is gone, or there in part (power.py); "no" promises nothing then but that what is there is whole
    +cold      most values are on disk, not in memory

and under all of them what is there is a prefix of what each client did, the shared counter tells the same order over all clients, and no transaction is there in part.
A run in which nothing was killed, no log was replayed or, if the server makes dumps, none was loaded, fails.
"""
import argparse
import glob
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time

from load import CONTROL_DB, Maker
from node import Gone, Node, Refused
from power import Disk

CLIENTS = 14
OWNERS = 5     # clients with two databases of their own; the others share one, by prefix
SHARED_DB = 1
CONSUMERS = 2
BALLAST = 20_000  # keys that nobody changes: starting, dumping and laying out anew take a while, so that kills come in the middle
SLACK_S = 1.0  # what a busy machine may add to a policy's second
TTL_SLACK_MS = 600_000  # a relative expiry is given to the twin later than to the server


class Lost(Exception):
    """Data that should be there is not, or data is there that should not be."""


def values_of(connection, dbs, prefix):
    """Digest and expiry of every key of a client."""
    out = {}
    for db in dbs:
        connection.ask("SELECT", db)
        keys = [k for k in connection.ask("KEYS", prefix + "*") if k != b"ready?"]
        if not keys:
            continue
        digests = connection.ask("DEBUG", "DIGEST-VALUE", *keys)
        expiries = connection.many([("PEXPIRETIME", k) for k in keys])
        for k, digest, expiry in zip(keys, digests, expiries):
            out[db, k] = (digest, expiry)
    return out


def differences(have, want):
    out = []
    for key in sorted(set(have) | set(want)):
        a, b = have.get(key), want.get(key)
        if a and b and a[0] == b[0] and (a[1] == b[1] or min(a[1], b[1]) > 0 and abs(a[1] - b[1]) < TTL_SLACK_MS):
            continue
        out.append(f"{key}: there {a}, should be {b}")
    return out


def ballast(i):
    return b"%d " % i * 20


def load_ballast(connection):
    for i in range(0, BALLAST, 1000):
        answer = connection.ask("MSET", *(x for j in range(i, i + 1000) for x in (f"ballast:{j}", ballast(j))))
        if answer not in (b"OK", "OK"):
            raise Lost(f"what the run begins with was refused: {answer}")
    connection.ask("SAVE")


def verify_ballast(connection):
    for i in range(0, BALLAST, 1000):
        there = connection.ask("MGET", *(f"ballast:{j}" for j in range(i, i + 1000)))
        wrong = [i + j for j, value in enumerate(there) if value != ballast(i + j)]
        if wrong:
            raise Lost(f"{len(wrong)} of the keys that nobody changes are not as they were, the first one is ballast:{wrong[0]}")


class Client:
    """One connection's history. n is the number of its last step that is known to be in the server."""

    def __init__(self, number, seed):
        self.number = number
        self.dbs = [2 + 2 * number, 3 + 2 * number] if number < OWNERS else [SHARED_DB]
        self.prefix = "" if number < OWNERS else f"c{number}:"
        self.maker = Maker(f"{seed}/{number}", self.dbs, self.prefix)
        self.always = lambda: None  # gives the number of the present stretch under always, None if it is none
        self.n = self.seq = 0  # seq: what SET seq left there; one less than n if just that was lost
        self.steps = []  # n + 1, n + 2, ...
        self.used = set()
        self.failure = None

    # ---- writing

    def write(self, node, pace):
        """Until the server is gone."""
        try:
            connection = node.connect()
            while True:
                self.batch(connection)
                if pace:
                    time.sleep(self.maker.r.random() * pace)
        except Gone:
            pass
        except Exception as e:  # shown by the main thread
            self.failure = e

    def batch(self, connection):
        count = self.maker.r.choice((1, 1, 1, 2, 5, 12))
        steps = [self.maker.step(last=i == count - 1) for i in range(count)]
        first = self.n + len(self.steps) + 1
        self.steps += steps
        stretch = self.always()
        connection.send([c for i, s in enumerate(steps) for c in s.wire(self.number, first + i)])
        for s in steps:
            connection.reply()
            s.replies = [connection.reply() for _ in s.commands]
            s.acked_at = time.monotonic()
            s.promised = stretch is not None and stretch == self.always()
            connection.reply()
            if connection.reply() != b"OK":
                raise Lost(f"client {self.number}: SET seq refused")
            self.look_at(s)

    def look_at(self, step):
        for command, reply in zip(step.commands, step.replies):
            if isinstance(reply, Refused) and not reply.startswith(("ERR ", "WRONGTYPE ", "EXECABORT", "TRYAGAIN ", "MUSTRETRY ")):
                raise Lost(f"client {self.number}: {command[0]} answered {reply}")
            if not isinstance(reply, Refused):
                self.used.add(command[0].lower())
            if command[0] == "RANGE.MAP" and not isinstance(reply, Refused) and reply:
                told = dict(zip(reply[0][::2], reply[0][1::2]))
                self.maker.range = told[b"id"], told[b"generation"]

    # ---- verifying

    def verify(self, server, twin, killed_at, limit_s):
        """Brings the twin to where the server is; gives (acknowledged steps, those that are gone, age of the oldest gone one at the kill)."""
        seq = int(server.ask("GET", f"seq:{self.number}") or 0)
        k = 0 if seq == self.seq else seq - self.n
        acked = sum(s.acked_at is not None for s in self.steps)
        if not 0 <= k <= len(self.steps):
            raise Lost(f"client {self.number}: step {seq} is there, {self.n} to {self.n + len(self.steps)} are possible")
        for s in self.steps[:k]:
            self.give(twin, s)
        have = values_of(server, self.dbs, self.prefix)
        kept = self.settle(have, twin, k)
        age = killed_at - self.steps[kept].acked_at if kept < acked else 0
        if age > limit_s or any(s.promised for s in self.steps[kept:]):
            raise Lost(f"client {self.number}: step {self.n + kept + 1} of {self.n + acked} acknowledged ones was acknowledged {age:.3f} s before the kill and is gone: "
                       f"{self.steps[kept].commands}")
        self.kept, self.seq = kept, seq
        return acked, max(0, acked - kept), age

    def settle(self, have, twin, k):
        """The number of steps that are there: k, or one more whose SET seq is missing."""
        wrong = differences(have, values_of(twin, self.dbs, self.prefix))
        if k < len(self.steps) and self.steps[k].kind == "total":
            return k if not wrong else self.fail(k, wrong)
        if not wrong:
            return k
        if k == len(self.steps):
            return self.fail(k, wrong)
        before = len(wrong)
        self.give(twin, self.steps[k], have)
        wrong = differences(have, values_of(twin, self.dbs, self.prefix))
        return k + 1 if not wrong else self.fail(k, wrong, f" ({before} differences without it)")

    def fail(self, k, wrong, more=""):
        step = self.steps[k].commands if k < len(self.steps) else "the last one"
        raise Lost(f"client {self.number}: after step {self.n + k}, perhaps with {step}{more}: " + "; ".join(wrong[:6]))

    def give(self, twin, step, have=None):
        commands = step.for_twin() if step.kind != "spop" or step.replies else self.unanswered_spop(twin, step, have)
        if not commands:
            return
        replies = twin.many([("SELECT", step.db), *commands])[1:]
        for command, reply, expected in zip(commands, replies, step.replies or ()):
            if step.kind == "plain" and isinstance(expected, (int, Refused)) and reply != expected:
                raise Lost(f"client {self.number}: {command} had answered {expected}, the twin says {reply}: they were not alike before")

    def unanswered_spop(self, twin, step, have):
        """What a SPOP took whose answer never came: what the twin has and the server has not. More than it may take is no explanation."""
        key = step.commands[0][1]
        most = step.commands[0][2] if len(step.commands[0]) > 2 else 1
        twin.ask("SELECT", step.db)
        members = twin.ask("SMEMBERS", key)
        if not isinstance(members, list):
            return []
        self.server_connection.ask("SELECT", step.db)
        there = self.server_connection.ask("SMEMBERS", key)
        self.server_connection.ask("SELECT", CONTROL_DB)
        gone = sorted(set(members) - set(there)) if isinstance(there, list) else []
        return [("SREM", key, *gone)] if 0 < len(gone) <= most else []

    def go_on(self):
        self.n += self.kept
        self.steps = []


class Queue:
    """Producers push numbers, consumers pop them, waiting: what was handed out must not be there again, and what was pushed is there or was handed out."""

    def __init__(self):
        self.next = 0
        self.lock = threading.Lock()
        self.cleared, self.cleared_at = set(), 0  # what a DEL after the last kill took, and when
        self.begin()

    def begin(self):
        self.pushed, self.taken, self.sent, self.asked = {}, {}, set(), 0

    def produce(self, node):
        try:
            c = node.connect()
            while True:
                with self.lock:
                    self.next += 1
                    n = self.next
                    self.sent.add(n)
                c.ask("RPUSH", f"queue:{n % 3}", n)
                self.pushed[n] = time.monotonic()
                time.sleep(0.002)
        except Gone:
            pass

    def consume(self, node):
        try:
            c = node.connect()
            while True:
                self.asked += 1
                got = c.ask("BLPOP", "queue:0", "queue:1", "queue:2", 0)
                self.taken[int(got[1])] = time.monotonic()
                self.asked -= 1
        except (Gone, TypeError):
            pass

    def verify(self, server, killed_at, limit_s):
        there = {int(x) for i in range(3) for x in server.ask("LRANGE", f"queue:{i}", 0, -1)}
        back = [n for n in there if n in self.taken and killed_at - self.taken[n] > limit_s]
        if back:
            raise Lost(f"handed out by BLPOP and there again: {back[:5]}")
        missing = [n for n, at in self.pushed.items() if n not in there and n not in self.taken and killed_at - at > limit_s]
        if len(missing) > CONSUMERS:  # one per consumer may have been taken without the answer arriving
            raise Lost(f"pushed, acknowledged, never handed out and gone: {missing[:5]}")
        strangers = there - self.sent
        if killed_at - self.cleared_at <= limit_s:
            strangers -= self.cleared  # the DEL was among the writes that the policy lets go
        if strangers:
            raise Lost(f"in the queue, though nobody pushed it: {sorted(strangers)[:5]}")
        server.many([("DEL", "queue:0"), ("DEL", "queue:1"), ("DEL", "queue:2")])
        self.cleared, self.cleared_at = there, time.monotonic()
        self.begin()


class Run:
    """One policy."""

    def __init__(self, policy, kills, seed, folder, say):
        self.name, self.policy, self.kills, self.say = policy, policy.split("+")[0], kills, say
        self.seed = f"{seed}/{policy}"
        self.r = random.Random(self.seed)
        self.limit_s = 0 if self.policy == "always" else float("inf") if policy == "no+power" else 1.0 + SLACK_S
        self.folder = folder
        self.data = os.path.join(folder, "data")
        self.log_path = os.path.join(folder, "server.log")
        self.cold = policy.endswith("+cold")
        self.disk = Disk(folder, self.data, self.r) if policy.endswith("+power") else None
        self.clients = [Client(i, self.seed) for i in range(CLIENTS)]
        self.queue = Queue()
        self.node = None
        self.stretch, self.stretches = None, 0
        for c in self.clients:
            c.always = lambda: self.stretch
        self.total = 0
        self.workers = 2
        self.sums = dict.fromkeys(("kills", "kills while starting", "clean stops", "acknowledged", "acknowledged by several workers", "promised", "verified", "lost", "records replayed", "dumps loaded", "dumps made",
                                   "worker changes", "keys", "cold keys"), 0)
        self.oldest_lost_s = 0.0
        self.twin = Node(["--ephemeral", "--workers", 2], os.path.join(folder, "twin.log")).wait_ready()

    # ---- the server

    def args(self):
        args = ["--data", self.data, "--workers", self.workers, "--appendfsync", "everysec" if self.policy == "switch" else self.policy]
        if self.disk:
            args += ["--io-backend", "epoll"]  # the library sees plain calls only
        if self.cold:
            args += ["--maxmemory", "3500kb", "--maxmemory-policy", "cold"]
        return args + ["--max-wal-size", "512kb"]  # dumps all the time

    def new_node(self):
        if self.disk:
            self.disk.lose_power()
        self.node = Node(self.args(), self.log_path, self.disk.env() if self.disk else None)
        return self.node

    def start(self):
        if self.r.random() < 0.3:
            before, self.workers = self.workers, self.r.choice([n for n in (1, 2, 3, 4, 7) if n != self.workers])
            self.sums["worker changes"] += before != self.workers
        while self.r.random() < 0.3:
            node = self.new_node()
            time.sleep(self.r.random() ** 2 * 0.25)
            if node.process.poll() not in (None, 0):
                raise Lost(f"the server ended with {node.process.returncode} at start:\n{node.log()[-3000:]}")
            self.sums["kills while starting"] += node.kill()[1]
        try:
            return self.new_node().wait_ready()
        except RuntimeError as e:
            raise Lost(str(e))

    def count_recovery(self, node):
        text = node.log()
        self.sums["records replayed"] += sum(map(int, re.findall(r"log replayed.*?records=(\d+)", text)))
        self.sums["dumps loaded"] += len(re.findall(r"dump loaded", text))
        if re.search(r"AddressSanitizer|ThreadSanitizer|runtime error|CHECK failed", text):
            raise Lost(f"the server complained:\n{text[-3000:]}")

    # ---- a round

    def verify(self, node, killed_at):
        server, twin = node.connect(), self.twin.connect()
        acked = lost = 0
        for c in self.clients:
            server.ask("SELECT", CONTROL_DB)
            c.server_connection = server
            a, gone, age = c.verify(server, twin, killed_at, self.limit_s)
            acked, lost = acked + a, lost + gone
            self.oldest_lost_s = max(self.oldest_lost_s, age)
            self.sums["verified"] += c.kept
        server.ask("SELECT", CONTROL_DB)
        verify_ballast(server)
        self.verify_total(int(server.ask("GET", "total") or 0))
        self.queue.verify(server, killed_at, self.limit_s)
        for c in self.clients:
            c.go_on()
        self.sums["acknowledged"] += acked
        self.sums["lost"] += lost
        self.sums["keys"] = sum(int(n) for n in re.findall(r"keys=(\d+)", server.ask("INFO", "keyspace").decode()))
        self.sums["cold keys"] = max([self.sums["cold keys"], *map(int, re.findall(r"cold_keys:(\d+)", server.ask("INFO").decode()))])
        return acked, lost

    def verify_total(self, value):
        """Every increment's answer says where it stands in the one order of all clients: exactly the first ones are there."""
        least = most = self.total
        for c in self.clients:
            for i, s in enumerate(c.steps):
                if s.kind != "total":
                    continue
                place = s.replies[0] if s.replies else None
                if i < c.kept:
                    least, most = least + 1, most + 1
                    if place and place > value:
                        raise Lost(f"client {c.number}: increment {place} of the shared counter should be there, which is {value}")
                elif i == c.kept:
                    most += 1
                elif place and place <= value:
                    raise Lost(f"client {c.number}: increment {place} of the shared counter is there ({value}), the client's step {c.n + c.kept + 1} before it is not")
        if not least <= value <= most:
            raise Lost(f"the shared counter is {value}, possible is {least} to {most}")
        self.total = value

    def load(self, node):
        """Clients write for a while, then the server is killed. Gives the moment."""
        pace = self.r.choice((0, 0, 0.002, 0.02))
        threads = [threading.Thread(target=c.write, args=(node, pace)) for c in self.clients]
        threads += [threading.Thread(target=self.queue.produce, args=(node,))]
        threads += [threading.Thread(target=self.queue.consume, args=(node,)) for _ in range(CONSUMERS)]
        for t in threads:
            t.start()
        seconds = self.r.choice((0.05, 0.1, 0.2, 0.3, 0.5)) * (0.5 + self.r.random())
        if self.policy != "always" and self.r.random() < 0.15:
            seconds += 2
        end = time.monotonic() + seconds
        if self.policy == "switch":
            threads += [threading.Thread(target=self.switch, args=(node, self.r.random()))]
            threads[-1].start()
        self.disturb(node, end)
        if self.r.random() < 0.05:
            self.sums["clean stops"] += 1
            node.stop()
            at = time.monotonic() + 1000  # whatever was acknowledged has to be there: all of it is older than any policy's limit
        else:
            at, was_running = node.kill()
            self.sums["kills"] += was_running
            if not was_running:
                raise Lost(f"the server ended with {node.process.returncode} under load:\n{node.log()[-3000:]}")
        for t in threads:
            t.join()
        self.sums["promised"] += sum(s.promised for c in self.clients for s in c.steps)
        self.stretch = None
        for c in self.clients:
            if c.failure:
                raise c.failure
        return at

    def switch(self, node, seed):
        """Changes the policy until the server is gone. The clients know a stretch under always by its number."""
        r = random.Random(seed)
        try:
            connection = node.connect()
            while True:
                connection.ask("CONFIG", "SET", "appendfsync", "always")
                self.stretches += 1
                self.stretch = self.stretches
                time.sleep(r.random() * 0.06)
                self.stretch = None
                connection.ask("CONFIG", "SET", "appendfsync", "everysec")
                time.sleep(r.random() * 0.06)
        except Gone:
            pass  # the last stretch lasts to the end

    def disturb(self, node, until):
        """Dumps while the clients write, so that kills come before, during and after them."""
        want_dump = self.r.random() < 0.5
        moment = until - self.r.random() * 0.15
        if want_dump:
            time.sleep(max(0, moment - time.monotonic()))
            connection = node.connect()
            connection.send([("BGSAVE",)])
        time.sleep(max(0, until - time.monotonic()))
        if want_dump:
            connection.close()
        self.sums["dumps made"] += bool(glob.glob(os.path.join(self.data, "layout-*", "shard-*", "*.dump")))

    def run(self):
        node = self.start()
        load_ballast(node.connect())
        while self.sums["kills"] + self.sums["kills while starting"] < self.kills:
            several = self.workers > 1
            killed_at = self.load(node)
            node = self.start()
            self.count_recovery(node)
            acked, lost = self.verify(node, killed_at)
            self.sums["acknowledged by several workers"] += acked * several
            self.say(f"{self.name:14} kill {self.sums['kills'] + self.sums['kills while starting']:3}/{self.kills}  workers {self.workers}  acknowledged {acked:6}  lost {lost:4}  "
                     f"keys {self.sums['keys']:5}  total {self.total}")
        self.check_itself(node)
        node.stop()
        self.twin.stop()

    def check_itself(self, node):
        s = self.sums
        if s["kills"] == 0 or s["acknowledged"] < 20 * s["kills"] or s["verified"] == 0:
            raise Lost(f"nothing was tested: {s}")
        if self.policy == "switch" and not 0 < s["promised"] < s["acknowledged"]:
            raise Lost("the policy did not change, or nothing was written in between")
        if s["records replayed"] == 0 and s["dumps loaded"] == 0:
            raise Lost("no log was replayed")
        if self.disk and self.disk.torn_bytes == 0:
            raise Lost("no byte was lost with the power")
        if self.cold and s["cold keys"] == 0:
            raise Lost("no value was cold")
        if s["dumps loaded"] == 0:
            raise Lost("no dump was loaded")
        flagged = {name.decode() for name in node.connect().ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "write")}
        never = flagged - set().union(*(c.used for c in self.clients)) - {"flushall", "pfdebug"}
        if s["acknowledged by several workers"] < 20_000:
            never -= {"range.move"}  # one worker has nowhere to move a range to
        if never and s["acknowledged"] > 20_000:
            raise Lost(f"write commands that were never acknowledged: {sorted(never)}")

    def end(self):
        """Leaves no process behind, however the run went."""
        for node in (self.node, self.twin):
            if node:
                node.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=35, help="per policy")
    parser.add_argument("--policies", default="always,everysec,no,always+power,everysec+power,switch+power,always+cold")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--keep", action="store_true", help="keep the data of a failed run")
    o = parser.parse_args()
    print(f"seed {o.seed}", flush=True)
    passed = failed = 0
    for policy in o.policies.split(","):
        folder = tempfile.mkdtemp(prefix="sherd-crash-")
        run = Run(policy, o.kills, o.seed, folder, lambda line: print(line, flush=True))
        try:
            run.run()
            passed += 1
            shutil.rmtree(folder, ignore_errors=True)
        except Lost as e:
            failed += 1
            print(f"{policy}: FAILED: {e}\nseed {o.seed}; files in {folder}", flush=True)
        finally:
            run.end()
        print(f"{policy}: " + ", ".join(f"{k} {v}" for k, v in run.sums.items()) + f", oldest lost {run.oldest_lost_s:.3f} s before the kill", flush=True)
    print(f"crash: {passed} passed, {failed} failed", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
