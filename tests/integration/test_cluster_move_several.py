"""Commands on several keys, and transactions, while their keys are carried to other groups: each is done whole, or not at all, and none is refused because its keys came to be in different groups."""
import threading

from cluster import wait_for
from test_cluster_blocking import PASSING, TIMEOUT
from test_cluster_move_waiting import KEYS, make_movers, nodes  # noqa: F401, fixtures

LOW, HIGH = "Q/0000", f"Q/{KEYS - 1:04d}"
MOVES = 6


class Worker(threading.Thread):
    """Does the same until it is told to end."""

    def __init__(self, nodes, number):
        super().__init__(daemon=True)
        self.wire = nodes.wire(number)
        self.number = number
        self.ends = False
        self.done, self.failure = 0, None

    def run(self):
        try:
            while not self.ends:
                self.done += self.turn()
        except Exception as e:  # noqa: BLE001, shown by the test
            self.failure = e

    def ask(self, *words):
        """None: it was refused for a reason that passes, or nobody knows."""
        self.wire.command(*words)
        answer = self.wire.reply()
        return None if str(answer).startswith(PASSING) else answer


class Writer(Worker):
    """Both keys always get the same value."""

    def turn(self):
        value = f"{self.number}-{self.done}"
        answer = self.ask("MSET", LOW, value, HIGH, value)
        assert answer in (None, "OK"), answer
        return answer is not None


class Reader(Worker):
    def turn(self):
        answer = self.ask("MGET", LOW, HIGH)
        assert answer is None or (isinstance(answer, list) and answer[0] == answer[1]), answer
        return answer is not None


class Adder(Worker):
    """EXEC, of a transaction that a watched key may stop. Uncertain ones are counted: they may have happened."""

    uncertain = 0

    def turn(self):
        answer = self.ask("WATCH", "Q/sum1")
        assert answer in (None, "OK"), answer
        for words in (("MULTI",), ("INCR", "Q/sum1"), ("INCR", "Q/sum2")):
            assert self.ask(*words) in ("OK", "QUEUED")
        self.wire.command("EXEC")
        answer = self.wire.reply()
        self.uncertain += str(answer).startswith("UNCERTAIN")
        assert answer is None or isinstance(answer, list) or str(answer).startswith(PASSING), answer
        return isinstance(answer, list)


def test_commands_on_several_keys_are_whole_while_these_move(nodes):  # noqa: F811
    for key, value in (("Q/sum1", 0), ("Q/sum2", 0), (LOW, "begin"), (HIGH, "begin")):
        nodes.push(1, "SET", key, value)
    home = nodes.group()
    away = [g for g in nodes.groups if g != home]
    workers = [kind(nodes, n) for n in nodes.nodes for kind in (Writer, Reader, Adder)]
    for w in workers:
        w.start()
    for i in range(MOVES):
        before = [w.done for w in workers]
        nodes.move(away[i] if i % 2 == 0 else home)
        wait_for(lambda: all(w.failure or w.done > b for w, b in zip(workers, before) if not isinstance(w, Adder)), 60, lambda: f"somebody stands still: {[(w.done, b) for w, b in zip(workers, before)]}")
    for w in workers:
        w.ends = True
    for w in workers:
        w.join(TIMEOUT)
        assert not w.is_alive() and w.failure is None, f"{type(w).__name__}: {w.failure}"
    adders = [w for w in workers if isinstance(w, Adder)]
    done = sum(w.done for w in adders)
    assert done > 0
    sums = [int(v) for v in nodes.push(1, "MGET", "Q/sum1", "Q/sum2")]
    assert sums[0] == sums[1] and done <= sums[0] <= done + sum(w.uncertain for w in adders)
    values = nodes.push(2, "MGET", LOW, HIGH)
    assert values[0] == values[1] != "begin"
    assert nodes.push(3, "RANGE.COUNT", "Q") == KEYS + 2
