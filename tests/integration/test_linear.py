"""The judge of histories and the load that writes them: right about what is known, and about a server that is honest; and a liar is caught."""
import random
import re

import pytest

import clusterload
from clusterload import Load, judge, judge_text, went_back


def verdict(text):
    return judge_text(re.sub(r"\n\s+", "\n", text.strip()) + "\n")


def is_fine(text):
    code, words = verdict(text)
    assert code == 0 and words.startswith("linearizable: "), words


def is_wrong(text, *mentions):
    code, words = verdict(text)
    assert code == 1 and words.startswith("not linearizable: "), words
    for m in mentions:
        assert m in words, words


# ---- known verdicts

def test_requests_one_after_the_other():
    is_fine("""1 k GET - 1 2 nil
               1 k SET a 3 4 ok
               1 k GET - 5 6 =a
               2 k GETSET b 7 8 =a
               2 k SETNX c 9 10 :0
               1 k DEL - 11 12 :1
               1 k SETNX c 13 14 :1
               1 k GETDEL - 15 16 =c
               1 k INCR 5 17 18 :5
               2 k INCR -2 19 20 :3
               1 k APPEND xy 21 22 :3
               1 k INCR 1 23 24 nil
               1 k GET - 25 26 =3xy""")


def test_a_stale_read_is_told_with_what_contradicts_it():
    is_wrong("""1 k SET a 1 2 ok
                2 k GET - 3 4 =a
                1 k SET b 5 6 ok
                2 k GET - 7 8 =b
                3 k GET - 9 10 =a""", "key k, line 5", "the least that contradicts itself, of 5 requests:\n", "line 5: client 3: GET k -> \"a\", from 9 to 10")


def test_what_contradicts_itself_is_told_without_the_rest():
    lines = [f"1 k SET v{i} {10 * i} {10 * i + 5} ok\n2 k GET - {10 * i + 6} {10 * i + 7} =v{i}" for i in range(1, 300)]
    code, words = judge_text("\n".join(lines) + "\n3 k GET - 3000 3001 =v7\n")
    assert code == 1 and len(words.splitlines()) <= 8, words
    assert "SET k v7" in words and "GET k -> \"v7\", from 3000" in words, words


def test_requests_at_the_same_time_may_have_happened_in_any_order():
    is_fine("1 k SET a 1 10 ok\n2 k SET b 1 10 ok\n3 k GET - 2 3 =b\n3 k GET - 4 5 =a")
    is_wrong("1 k SET a 1 10 ok\n2 k SET b 1 10 ok\n3 k GET - 2 3 =b\n3 k GET - 4 5 =a\n3 k GET - 6 7 =b", "key k")


def test_what_is_unknown_may_have_happened_late_or_never_but_once():
    is_fine("1 k SET a 1 2 ?\n2 k GET - 3 4 nil\n2 k GET - 5 6 =a")
    is_fine("1 k SET a 1 2 ?\n2 k GET - 3 4 nil")
    is_fine("1 k INCR 1 1 2 ?\n2 k INCR 1 3 4 :1\n2 k INCR 1 5 6 :3")
    is_wrong("1 k INCR 1 1 2 ?\n2 k INCR 1 3 4 :1\n2 k INCR 1 5 6 :4", "line 3")
    is_wrong("1 k SET a 1 2 ?\n2 k GET - 3 4 =a\n2 k DEL - 5 6 :1\n2 k GET - 7 8 =a", "line 4")


def test_what_was_refused_did_not_happen():
    is_fine("1 k SET a 1 2 no\n2 k GET - 3 4 nil")
    is_wrong("1 k SET a 1 2 no\n2 k GET - 3 4 =a", "line 2")


def test_a_lost_acknowledged_write_is_found_by_every_kind_of_request():
    for op in ("GET - 3 4 nil", "SETNX b 3 4 :1", "DEL - 3 4 :0", "GETSET b 3 4 nil", "GETDEL - 3 4 nil", "APPEND b 3 4 :1", "INCR 1 3 4 :1"):
        is_wrong(f"1 k SET 7 1 2 ok\n2 k {op}", "key k, line 2")


def test_an_increment_that_happened_twice_is_found():
    is_wrong("1 k INCR 1 1 2 :1\n2 k GET - 3 4 =2", "line 2")
    is_wrong("1 k INCR 1 1 2 :1\n2 k INCR 1 3 4 :1", "line 2")


def test_keys_are_judged_one_by_one():
    is_wrong("1 a SET x 1 2 ok\n1 b SET y 1 2 ok\n2 a GET - 3 4 =x\n2 b GET - 3 4 =x", "key b, line 4")


def test_a_history_that_makes_no_sense_is_refused():
    for line in ("1 k GET - 1 2", "1 k GET - 1 2 :1", "1 k SET a 1 2 =a", "1 k WHAT - 1 2 ok", "1 k GET - 2 1 nil", "x k GET - 1 2 nil", "1 k INCR a 1 2 :1", "1 k GET - 1 2 nil nil"):
        code, words = judge_text(f"1 k SET a 1 2 ok\n{line}\n")
        assert code == 3 and words.startswith("line 2 makes no sense"), words


def test_random_histories_of_one_place_are_fine_and_a_changed_answer_is_not():
    """Requests of several clients happen at one moment between call and return. Then one read tells of what was never written."""
    for seed in range(20):
        r = random.Random(seed)
        now, value, done = 0, None, []
        for i in range(300):
            now += r.randrange(1, 5)
            called, returned = now - r.randrange(0, 20), now + r.randrange(0, 20)
            if r.random() < 0.5:
                done.append([i % 60, "k", "SET", f"v{i}", called, returned, "ok"])
                value = f"v{i}"
            else:
                done.append([i % 60, "k", "GET", "-", called, returned, f"={value}" if value else "nil"])
        assert judge_text("".join(" ".join(map(str, d)) + "\n" for d in done))[0] == 0
        reads = [d for d in done if d[2] == "GET"]
        r.choice(reads)[6] = "=never"
        assert judge_text("".join(" ".join(map(str, d)) + "\n" for d in done))[0] == 1


# ---- the load

SECONDS = 2


def enough(load):
    """A history that has little of something proves little of it."""
    for kind, least in (("GET", 200), ("SET", 100), ("GETSET", 20), ("SETNX", 20), ("DEL", 10), ("GETDEL", 10), ("INCR", 50), ("APPEND", 20)):
        assert load.answered(kind) >= least, f"{kind}: {load.answered(kind)} answers"
    assert load.pipelines >= 10


def test_a_server_alone_is_linearizable(make_server):
    s = make_server()
    with Load([s.port], clients=8, seed=1) as load:
        load.run_for(SECONDS)
    enough(load)
    load.check(s.port)
    assert load.uncertain() == 0 and not load.errors


def test_a_server_that_is_killed_and_comes_back_is_linearizable(make_server, tmp_path):
    args = ["--appendfsync", "always"]
    s = make_server(data=tmp_path / "data", args=args)
    with Load([s.port], clients=8, seed=2) as load:
        load.run_for(1)
        s.kill()
        again = make_server(data=tmp_path / "data", args=args, port=s.port)
        load.run_for(1)
    enough(load)
    assert load.uncertain() > 0
    load.check(again.port)


def test_two_servers_that_know_nothing_of_each_other_are_caught(make_server):
    a, b = make_server(), make_server()
    with Load([a.port, b.port], clients=6, seed=3) as load:
        load.run_for(SECONDS)
    enough(load)
    code, words = judge(load.history())
    assert code == 1, words
    assert went_back(load.history())
    with pytest.raises(AssertionError):
        load.check_ledger(a.port)


def test_a_liar_is_caught_whatever_he_lies_about(make_server):
    """Each kind of lie, told once in an honest history, alone."""
    s = make_server()
    with Load([s.port], clients=4, seed=4) as load:
        load.run_for(1)
    honest = load.history()
    assert judge(honest)[0] == 0 and not went_back(honest)
    r = random.Random(5)
    caught = 0
    for kind in clusterload.KINDS:
        for _ in range(3):
            lied = clusterload.with_a_lie(honest, kind, r)
            caught += judge(lied, "-q")[0] == 1
    assert caught == 3 * len(clusterload.KINDS), caught


def test_an_acknowledged_write_that_is_gone_is_missed(make_server):
    s = make_server()
    with Load([s.port], clients=4, seed=6) as load:
        load.run_for(1)
    load.check_ledger(s.port)
    with s.client() as c:
        victim = load.clients[2].written[3]
        kept = c.get(victim)
        c.delete(victim)
        with pytest.raises(AssertionError, match="acknowledged and not there"):
            load.check_ledger(s.port)
        c.set(victim, kept)
        load.check_ledger(s.port)
        c.incr(load.clients[1].counter)
        with pytest.raises(AssertionError, match="counted"):
            load.check_ledger(s.port)
