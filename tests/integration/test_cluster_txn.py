"""Transactions in a cluster: EXEC and WATCH, and commands whose keys are in several groups. They happen whole or not at all, whoever is killed meanwhile, and nobody sees half of one."""
import random
import threading
import time

import pytest

from cluster import SPREAD, cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from clusterload import Link, Lost, Refused
from conftest import PATIENCE

COUNTED = "cluster_transactions_committed"


def link(cluster, number=1, seconds=30):
    return Link(cluster.port(number), seconds * PATIENCE)


def counted(cluster, name=COUNTED):
    """Over all nodes that answer."""
    return sum(int(cluster.info(n).get(name, 0)) for n in cluster.nodes if cluster.running(n))


def intents_are_gone(cluster, seconds=60):
    """A node looks at its groups twice a second: what it says is of its last look, so it must say so again and again."""
    quiet = []

    def look():
        quiet.append(counted(cluster, "cluster_intents") == 0 and counted(cluster, "cluster_transactions_under_way") == 0)
        time.sleep(0.3)
        return len(quiet) >= 6 and all(quiet[-6:])

    wait_for(look, seconds, lambda: f"{counted(cluster, 'cluster_intents')} intents are left")


def by_exec(c, *commands):
    answers = c.ask_all([("MULTI",), *commands, ("EXEC",)])
    if any(isinstance(a, Refused) and a.code() == "LOADING" for a in answers):
        raise Lost("its node has only just started")
    assert answers[0] == "OK" and set(answers[1:-1]) <= {"QUEUED"}, answers
    return answers[-1]


# ---- what one server answers

FILLS = """
set $s $v|set $s $n|append $s $v|setrange $s 3 $v|setbit $s $n 1|rpush $l $v $v $v|lpush $l $v $n|sadd $t $v $v $n|sadd $t $n $n $n|zadd $z $n $v $n $v|hset $h $v $v|pfadd $p $v $v $v|pexpireat $x 9999999999999
""".strip().split("|")

OVER_KEYS = """
mset $s $v $s $v $s $n|msetnx $s $v $s $v|mget $s $s $x $x|del $x $x $x|unlink $x $x|exists $x $x $x $s|touch $x $x|rename $x $x|renamenx $x $x|copy $x $x|copy $x $x db 1 replace|rpoplpush $l $l
lmove $l $l left right|lmpop 2 $l $l left count 2|sinter $t $t $t|sunion $t $t $x|sdiff $t $t $t|sintercard 2 $t $t limit 2|sinterstore $x $t $t|sunionstore $x $t $t $t|sdiffstore $x $t $t|smove $t $t $n
zinter 2 $z $z withscores|zunion 2 $z $t weights 2 3|zdiff 2 $z $z withscores|zintercard 2 $z $z|zinterstore $x 2 $z $z|zunionstore $x 2 $z $t aggregate max|zdiffstore $x 2 $z $z|zmpop 2 $z $z min count 2
zrangestore $x $z 0 2|pfcount $p $p|pfmerge $p $p $p|bitop xor $x $s $s|bitop not $x $s|lcs $s $s len|sort $l alpha store $x
""".strip().replace("\n", "|").split("|")


def words(r, pattern):
    made = []
    for w in pattern.split():
        if w.startswith("$") and len(w) == 2:
            kind = w[1]
            if kind == "v":
                w = f"w{r.randrange(6)}"
            elif kind == "n":
                w = str(r.randrange(9))
            else:
                w = (r.choice("sltzhp") if kind == "x" else kind) + str(r.randrange(5))
        made.append(w)
    return made


def plain(answer):
    """Members come in any order."""
    return sorted(map(repr, answer)) if isinstance(answer, list) else answer


def state_of(c, keys):
    dumps = c.ask_all([("TYPE", k) for k in keys])
    asks = {"string": ("GET",), "list": ("LRANGE", 0, -1), "set": ("SMEMBERS",), "zset": ("ZRANGE", 0, -1, "WITHSCORES"), "hash": ("HGETALL",), "none": ("EXISTS",)}
    found = c.ask_all([(asks[t][0], k, *asks[t][1:]) for t, k in zip(dumps, keys)])
    return {k: (t, sorted(map(str, v)) if t in ("set", "hash") else v) for k, t, v in zip(keys, dumps, found)}


def test_every_command_over_several_groups_answers_as_one_server_does(cluster, make_server):
    r = random.Random(20)
    one = Link(make_server().port, 30 * PATIENCE)
    nodes = [link(cluster, n) for n in cluster.nodes]
    did = set()
    keys = [f"{t}{i}" for t in "sltzhp" for i in range(5)]
    for step in range(1500):
        pattern = r.choice(FILLS if r.randrange(2) else OVER_KEYS)
        command = words(r, pattern)
        c = r.choice(nodes)
        expected, got = one.ask(*command), c.ask(*command)
        assert plain(got) == plain(expected), command
        if pattern in OVER_KEYS and not isinstance(got, Refused):
            did.add(pattern)
        if step % 100 == 99:
            assert state_of(c, keys) == state_of(one, keys)
    assert did == set(OVER_KEYS), "nothing is shown about these"
    assert counted(cluster) > 200, "most of these were within one group"
    intents_are_gone(cluster)


def test_exec_answers_as_one_server_does(cluster, make_server):
    one = Link(make_server().port, 30 * PATIENCE)
    c = link(cluster, 2)
    a, b, d = SPREAD[:3]
    for each in one, c:
        each.ask("MSET", a, "1", b, "2")
    queues = [
        [("INCR", a), ("INCRBY", b, 5), ("MGET", a, b, d), ("RENAME", a, d), ("EXISTS", a, b, d), ("GET", d)],
        [("LPUSH", d, "x"), ("SET", a, "v"), ("INCR", a), ("PING",), ("ECHO", "e"), ("GET", a)],
        [("SELECT", 3), ("SET", a, "three"), ("SELECT", 0), ("GET", a), ("SELECT", 99), ("SET", b, "zero")],
        [("SELECT", 3), ("GET", a), ("MOVE", a, 4), ("SELECT", 4), ("GET", a), ("COPY", a, b, "DB", 5), ("SELECT", 5), ("GET", b), ("SELECT", 0)],
        [("PING",), ("ECHO", "alone")],
        [("GET",)],
        [("SET", a, "1"), ("NOSUCH",)],
        [],
    ]
    for queue in queues:
        script = [("MULTI",), *queue, ("EXEC",)]
        expected, got = one.ask_all(script), c.ask_all(script)
        assert got == expected, queue
    for script in [("EXEC",)], [("DISCARD",)], [("MULTI",), ("MULTI",), ("WATCH", a), ("DISCARD",), ("EXEC",)], [("MULTI",), ("SET", a, "no"), ("DISCARD",), ("GET", a)]:
        assert c.ask_all(script) == one.ask_all(script), script
    assert counted(cluster) > 0


def test_exec_within_one_group_goes_there_at_once(cluster):
    c = link(cluster)
    before = counted(cluster, "cluster_transactions_in_one_group")
    committed = counted(cluster)
    assert by_exec(c, ("SET", "cart/7/items", "3"), ("INCRBY", "cart/7/total", "12"), ("PING",), ("GET", "cart/7/items")) == ["OK", 12, "PONG", "3"]
    c.ask("WATCH", "cart/7/total")
    assert link(cluster, 2).ask("INCR", "cart/7/total") == 13
    assert by_exec(c, ("SET", "cart/7/items", "4")) is None
    assert c.ask("GET", "cart/7/items") == "3"
    assert counted(cluster, "cluster_transactions_in_one_group") == before + 2
    assert counted(cluster) == committed


@pytest.mark.parametrize("other", ["cart/7/total", "elsewhere"])
def test_a_watched_key_that_changes_stops_exec(cluster, other):
    """In the group of the transaction's keys, and in others."""
    c, d = link(cluster, 1), link(cluster, 3)
    item = "cart/7/items"
    d.ask("MSET", item, "a", other, "b")

    def watched(*meanwhile):
        assert c.ask("WATCH", other, item) == "OK"
        for command in meanwhile:
            d.ask(*command)
        return by_exec(c, ("SET", item, "c"), ("GET", other))

    assert watched() == ["OK", "b"]
    assert watched(("SET", other, "x")) is None
    assert watched(("DEL", other)) is None
    assert watched() == ["OK", None]
    assert watched(("SET", other, "back")) is None
    assert watched(("EXPIRE", other, 1000)) is None
    assert watched(("PERSIST", other)) is None
    assert watched(("GET", other), ("TTL", other)) == ["OK", "back"]
    assert watched(("SET", other, "x"), ("SET", other, "back")) is None  # who read it in between has seen another value
    c.ask("WATCH", other)
    d.ask("SET", other, "1")
    assert c.ask("UNWATCH") == "OK"
    assert by_exec(c, ("GET", other)) == ["1"]
    c.ask("WATCH", other)
    d.ask("SET", other, "2")
    c.ask("MULTI")
    assert c.ask("DISCARD") == "OK"
    assert by_exec(c, ("GET", other)) == ["2"]


def test_what_cannot_be_part_of_a_transaction_is_refused_when_it_is_queued(cluster):
    c = link(cluster)
    for words in ("DBSIZE",), ("KEYS", "*"), ("FLUSHALL",), ("SWAPDB", 0, 1), ("CLUSTER", "NODES"), ("INFO",):
        answers = c.ask_all([("MULTI",), ("SET", SPREAD[0], "no"), words, ("EXEC",)])
        assert isinstance(answers[2], Refused), words
        assert isinstance(answers[3], Refused) and answers[3].code() == "EXECABORT"
    assert c.ask("GET", SPREAD[0]) is None


def test_a_transaction_may_have_as_many_arguments_as_a_client_can_send(cluster):
    """A million of them, the limit of a request, are few enough bytes; on their way to another node they have some more beside them."""
    pairs = (1024 * 1024 - 1) // 2
    longest = b"*%d\r\n$4\r\nMSET\r\n" % (2 * pairs + 1) + b"$0\r\n\r\n" * (2 * pairs - 1) + b"$1\r\n7\r\n"
    for number in cluster.nodes:
        c = link(cluster, number)
        assert c.ask("MULTI") == "OK"
        c.sock.sendall(longest)
        assert c.answer() == "QUEUED"
        assert c.ask("GET", "") == "QUEUED"
        assert c.ask("EXEC") == ["OK", "7"]


def test_a_pipeline_keeps_its_order_around_transactions(cluster):
    c = link(cluster, 3)
    a, b = SPREAD[10], SPREAD[11]
    answers = c.ask_all([("SET", a, 1), ("MSET", a, 2, b, 2), ("GET", a), ("GET", b), ("MULTI",), ("INCR", a), ("INCR", b), ("EXEC",), ("MGET", a, b), ("INCR", a), ("DEL", a, b), ("EXISTS", a, b)])
    assert answers == ["OK", "OK", "2", "2", "OK", "QUEUED", "QUEUED", [3, 3], ["3", "3"], 4, 2, 0]


# ---- the bank

MONEY = 1000
ACCOUNTS = SPREAD[:24]
SETS = [f"tokens{i}" for i in range(8)]
TOKENS = 40


class Teller(threading.Thread):
    """Moves money and tokens through any node, or looks at all of it."""

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.r = cluster, random.Random(seed)
        self.ends = threading.Event()
        self.done, self.stopped, self.refused, self.looks = 0, 0, 0, 0
        self.failure = None

    def by_counting(self, c, a, b, sum):
        return by_exec(c, ("DECRBY", a, sum), ("INCRBY", b, sum))

    def by_watching(self, c, a, b, sum):
        self.expect("OK", c.ask("WATCH", a, b))
        have = c.ask("MGET", a, b)
        self.expect(list, have)
        return by_exec(c, ("SET", a, int(have[0]) - sum), ("SET", b, int(have[1]) + sum))

    def by_mset(self, c, a, b, sum):
        """What both have, divided anew: MSET alone, and EXEC only as a guard."""
        self.expect("OK", c.ask("WATCH", a, b))
        have = c.ask("MGET", a, b)
        self.expect(list, have)
        both = int(have[0]) + int(have[1])
        return by_exec(c, ("MSET", a, both - sum, b, sum))

    def by_smove(self, c, a, b, sum):
        token = self.r.randrange(TOKENS)
        return c.ask("SMOVE", self.r.choice(SETS), self.r.choice(SETS), token)

    def look_at_money(self, c, *_):
        found = c.ask("MGET", *ACCOUNTS) if self.r.randrange(2) else by_exec(c, *[("GET", k) for k in ACCOUNTS])
        self.expect(list, found)
        assert sum(map(int, found)) == MONEY * len(ACCOUNTS), found
        self.looks += 1

    def look_at_tokens(self, c, *_):
        found = by_exec(c, *[("SCARD", k) for k in SETS])
        self.expect(list, found)
        assert sum(found) == TOKENS, found
        self.looks += 1

    @staticmethod
    def expect(what, answer):
        if isinstance(answer, Refused):
            raise Lost(answer)
        assert answer == what or isinstance(answer, what if isinstance(what, type) else ()), answer

    def step(self, c):
        a, b = self.r.sample(ACCOUNTS, 2)
        way = self.r.choice([self.by_counting, self.by_watching, self.by_mset, self.by_smove, self.look_at_money, self.look_at_tokens])
        answer = way(c, a, b, self.r.randrange(1, 50))
        if isinstance(answer, Refused):
            assert answer.code() in ("CLUSTERDOWN", "TRYAGAIN", "UNCERTAIN", "LOADING"), answer
            self.refused += 1
        elif answer is None:
            self.stopped += 1
        else:
            self.done += 1

    def run(self):
        c = None
        while not self.ends.is_set() and not self.failure:
            try:
                if c is None or self.r.randrange(20) == 0:
                    if c:
                        c.close()
                    c = None
                    c = Link(self.cluster.port(self.r.choice(list(self.cluster.nodes))), 30 * PATIENCE)
                self.step(c)
            except Lost:
                c = None
                time.sleep(0.02)
            except Exception as e:  # the test's thread tells of it
                self.failure = e


class Bank:
    def __init__(self, cluster, tellers=6):
        self.cluster = cluster
        c = link(cluster)
        assert c.ask("MSET", *[w for k in ACCOUNTS for w in (k, MONEY)]) == "OK"
        for i in range(TOKENS):
            assert c.ask("SADD", SETS[i % len(SETS)], i) == 1
        c.close()
        self.tellers = [Teller(cluster, seed) for seed in range(tellers)]

    def __enter__(self):
        for t in self.tellers:
            t.start()
        return self

    def __exit__(self, *exc):
        for t in self.tellers:
            t.ends.set()
        for t in self.tellers:
            t.join(60 * PATIENCE)

    def did(self, what="done"):
        for t in self.tellers:
            if t.failure:
                raise t.failure
        return sum(getattr(t, what) for t in self.tellers)

    def wait_for_more(self, n, seconds=60):
        """Until so many more transfers are done, and looks taken."""
        done, looks = self.did() + n, self.did("looks") + n // 4
        wait_for(lambda: self.did() >= done and self.did("looks") >= looks, seconds, lambda: f"only {self.did()} of {done}, {self.did('looks')} of {looks}")

    def check(self):
        """When it is closed: nothing is locked, nothing half done, and everything can be changed."""
        self.did()
        self.cluster.wait_ok()
        intents_are_gone(self.cluster)
        for number in self.cluster.nodes:
            c = link(self.cluster, number)
            assert sum(map(int, c.ask("MGET", *ACCOUNTS))) == MONEY * len(ACCOUNTS)
            assert sum(c.ask_all([("SCARD", k) for k in SETS])) == TOKENS
            assert len(c.ask("SUNION", *SETS)) == TOKENS
            assert all(isinstance(a, int) for a in c.ask_all([("INCRBY", k, 0) for k in ACCOUNTS]))
            c.close()


def test_transfers_between_groups_keep_the_sum(cluster):
    with Bank(cluster) as bank:
        bank.wait_for_more(300)
    bank.check()
    assert bank.did("refused") == 0, "nobody was lost"
    assert bank.did("stopped") > 0, "no WATCH was in anybody's way: nothing is shown about it"
    assert counted(cluster) > 100


class Recoveries:
    """What nodes brought to its end for others, over all their lives."""

    def __init__(self, cluster):
        self.cluster, self.total, self.last = cluster, 0, {}

    def look(self):
        for n in self.cluster.others(0):
            now = int(self.cluster.info(n).get("cluster_transactions_recovered", 0))
            self.total += max(0, now - self.last.get(n, 0))
            self.last[n] = max(now, self.last.get(n, 0))
        return self.total

    def forget(self, number):
        """Its next life begins at 0."""
        self.last.pop(number, None)


def test_coordinators_that_are_killed_leave_nothing_half_done(cluster):
    """Killed while they work: sooner or later between prepare and decide, or between decide and commit. Then others bring it to its end."""
    recoveries, rounds = Recoveries(cluster), 0
    deadline = time.monotonic() + 300 * PATIENCE
    with Bank(cluster) as bank:
        while recoveries.look() < 3 or rounds < 4:
            assert time.monotonic() < deadline, f"after {rounds} kills {recoveries.total} transactions were found"
            victim = 1 + rounds % 3
            bank.wait_for_more(40)
            cluster.kill(victim)
            recoveries.forget(victim)
            bank.wait_for_more(20)
            # Orphans are looked after when they are two seconds old. Perhaps there are none: then another one is killed.
            found, until = recoveries.look(), time.monotonic() + 5
            while recoveries.look() == found and time.monotonic() < until:
                time.sleep(0.1)
            cluster.start(victim)
            cluster.wait_ok(victim)
            rounds += 1
    bank.check()


def test_nodes_that_stop_and_go_on_do_no_harm(cluster):
    with Bank(cluster) as bank:
        for turn in range(3):
            victim = 1 + turn
            bank.wait_for_more(40)
            cluster.pause(victim)
            bank.wait_for_more(20)
            cluster.resume(victim)
            cluster.wait_ok()
    bank.check()


def test_all_nodes_killed_at_once_leave_nothing_half_done(cluster):
    with Bank(cluster) as bank:
        bank.wait_for_more(80)
        cluster.kill(*cluster.nodes)
        cluster.start(*cluster.nodes)
        cluster.wait_ok()
        bank.wait_for_more(40)
    bank.check()


def test_without_a_majority_the_error_says_what_happened(make_cluster):
    cluster = make_cluster(args=["--cluster-timeout-ms", 1500])
    c = link(cluster, 1)
    assert c.ask("MSET", *[w for k in ACCOUNTS for w in (k, MONEY)]) == "OK"
    cluster.kill(2, 3)
    answers = [c.ask("MSET", ACCOUNTS[0], 1, ACCOUNTS[1], 1, ACCOUNTS[2], 1), c.ask("MGET", *ACCOUNTS), by_exec(c, ("INCR", ACCOUNTS[0]), ("INCR", ACCOUNTS[1]))]
    assert all(isinstance(a, Refused) and a.code() in ("CLUSTERDOWN", "TRYAGAIN", "UNCERTAIN") for a in answers), answers
    cluster.start(2, 3)
    cluster.wait_ok()
    intents_are_gone(cluster)
    now = c.ask("MGET", *ACCOUNTS)
    if answers[0].code() != "UNCERTAIN" and answers[2].code() != "UNCERTAIN":
        assert now == [str(MONEY)] * len(ACCOUNTS)
