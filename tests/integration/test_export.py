"""SNAPSHOT.EXPORT, and `sherd snapshot build --from` on it: what a live server holds, at one moment, handed to a client piece by piece."""
import json
import random
import socket
import subprocess
import threading
import time

import pytest
import redis

from beside import Beside
from conftest import SHERD, clean_env
from wire import Error, Wire

ACCOUNTS, START = 400, 1000


def build(url, server, *args):
    return subprocess.run([SHERD, "snapshot", "build", "--to", url, "--shards", "3", "--from", f"127.0.0.1:{server.port}", *args], capture_output=True, text=True, timeout=120, env=clean_env())


def rows_of(url):
    out = subprocess.run([SHERD, "snapshot", "scan", url, "--output", "jsonl", "--value-encoding", "utf8"], capture_output=True, text=True, timeout=60, check=True, env=clean_env()).stdout
    return {r["key"]: r["value"] for r in map(json.loads, out.splitlines())}


def pieces_of(ask):
    """The pieces of the export that a connection has begun."""
    while True:
        piece = ask("SNAPSHOT.EXPORT", "NEXT")
        piece = piece if isinstance(piece, dict) else dict(zip(piece[::2], piece[1::2]))
        piece["rows"] = dict(zip(piece["rows"][::2], piece["rows"][1::2]))
        yield piece
        if not piece["more"]:
            return


def rest_of(ask):
    """All rows, the names of others, and the last piece."""
    rows, others = {}, []
    for piece in pieces_of(ask):
        rows.update(piece["rows"])
        others += piece["others"]
    return rows, others, piece


def exported(ask, *words):
    assert ask("SNAPSHOT.EXPORT", "BEGIN", *words) in ("OK", True)
    return rest_of(ask)


def info(client):
    return {k: v for k, v in client.info("snapshot").items() if k.startswith("exports_")}


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Movers(Beside):
    """Threads that move amounts between accounts, with MSET under WATCH and with MULTI: the sum never changes."""

    def __init__(self, server, threads=2):
        super().__init__([server.client] * threads)
        self.moves = [0] * threads

    def work(self, c, number):
        rng = random.Random(number)
        mine = range(number, ACCOUNTS, len(self.threads))  # no two threads have an account in common
        have = {i: START for i in mine}
        while not self.stop.is_set():
            a, b = rng.sample(mine, 2)
            amount = rng.randint(1, 50)
            have[a] -= amount
            have[b] += amount
            if rng.random() < 0.5:
                c.mset({f"account{a}": have[a], f"account{b}": have[b]})
            else:
                with c.pipeline(transaction=True) as p:
                    p.decrby(f"account{a}", amount)
                    p.incrby(f"account{b}", amount)
                    p.execute()
            self.moves[number] += 1

    def __exit__(self, *exc):
        super().__exit__(*exc)
        assert all(self.moves)


@pytest.mark.parametrize("args", [{"data": True}, {}], ids=["durable", "ephemeral"])
def test_a_build_from_a_server_under_load_is_of_one_moment(make_server, tmp_path, args):
    live = make_server(workers=3, **({"data": tmp_path / "data"} if args else {}))
    with live.client() as c:
        c.mset({f"account{i}": START for i in range(ACCOUNTS)})
        c.mset({f"other{i}": "x" * 50 for i in range(20000)})
        with Movers(live):
            for i in range(5):
                url = f"file://{tmp_path}/snap{i}"
                done = build(url, live)
                assert done.returncode == 0 and done.stderr == "", done.stderr
                assert json.loads(done.stdout)["one_cut"] is True
                rows = rows_of(url)
                amounts = [int(rows[f"account{i}"]) for i in range(ACCOUNTS)]
                assert sum(amounts) == ACCOUNTS * START and len(rows) == ACCOUNTS + 20000
                assert set(amounts) != {START}


def test_a_slow_reader_holds_up_neither_writers_nor_dumps_and_gets_the_old_values(make_server, tmp_path):
    live = make_server(workers=2, data=tmp_path / "data")
    with live.client() as c, Wire(live) as slow:
        old = {f"k{i}": f"old{i}" + "x" * 1000 for i in range(40000)}
        for i in range(0, 40000, 5000):
            c.mset({k: old[k] for k in list(old)[i:i + 5000]})
        assert slow.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        wait_until(lambda: info(c)["exports_completed"] == 1)  # the walk is over, and nobody has fetched anything
        assert info(c)["exports_file_bytes"] > 40_000_000
        before = c.info("memory")["used_memory"]
        for i in range(0, 40000, 5000):
            c.mset({f"k{k}": "new" + "y" * 1000 for k in range(i, i + 5000)})
        wait_until(lambda: c.info("memory")["used_memory"] < before + 10_000_000)  # when the log has written what it holds
        c.execute_command("SAVE")  # no dump waits for a client that does not fetch
        assert rest_of(slow.ask)[0] == old
        wait_until(lambda: info(c)["exports_running"] == info(c)["exports_file_bytes"] == 0)


@pytest.mark.parametrize("protocol", [2, 3])
def test_any_client_can_export(make_server, protocol):
    live = make_server(workers=2)
    with live.client(db=3, decode_responses=False) as c, live.client(db=0) as elsewhere, Wire(live, protocol) as w:
        rows = {b"k%d" % i: b"v%d" % i for i in range(30000)} | {b"empty": b"", b"number": b"12345", b"\xff\r\n": bytes(range(256)) * 3000}
        c.mset(rows)
        c.set("gone", "x", px=1)
        c.set("later", "x", ex=1000)
        c.rpush("list", 1)
        c.hset("hash", "f", 1)
        elsewhere.set("elsewhere", 1)
        time.sleep(0.01)
        expected = {k.decode("latin-1"): v.decode("latin-1") for k, v in (rows | {b"later": b"x"}).items()}
        assert w.ask("SELECT", 3) == "OK"
        got, others, last = exported(w.ask)
        assert got == expected and others == [] and last["left_out"] == 2
        assert last["keys_done"] == last["keys_total"] >= len(rows) + 4 and abs(last["cut_ms"] / 1000 - time.time()) < 60
        got, others, last = exported(w.ask, "OTHERS")
        assert got == expected and sorted(others) == ["hash", "list"] and last["left_out"] == 0
        w.ask("SNAPSHOT.EXPORT", "BEGIN")
        assert sum(bool(p["rows"]) for p in pieces_of(w.ask)) >= 2
        c.flushall()
        assert exported(w.ask)[:2] == ({}, [])
        with live.client(db=3, single_connection_client=True) as usual:
            usual.mset({"a": 1, "b": 2})
            assert exported(usual.execute_command)[0] == {"a": "1", "b": "2"}


def test_a_client_that_vanishes_takes_its_export_along(make_server, tmp_path):
    live = make_server(workers=2, data=tmp_path / "data")
    with live.client() as c:
        c.mset({f"k{i}": "x" * 1000 for i in range(20000)})
        for pieces in (0, 1, 3) * 4:
            with Wire(live) as w:
                assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
                for _ in range(pieces):
                    w.ask("SNAPSHOT.EXPORT", "NEXT")
                w.command("SNAPSHOT.EXPORT", "NEXT")  # nobody will read it
        wait_until(lambda: info(c)["exports_running"] == 0)
        assert info(c)["exports_begun"] == 12 and info(c)["exports_file_bytes"] == 0
        with Wire(live) as good:
            assert len(exported(good.ask)[0]) == 20000
        c.execute_command("SAVE")
    assert live.stop() == 0


def test_a_client_that_asks_and_does_not_read_is_told_and_costs_little(make_server):
    live = make_server()
    with live.client() as c, Wire(live) as w:
        for i in range(30):
            c.set(f"k{i}", "x" * 1_000_000)
        before = c.info("memory")["used_memory"]
        assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        wait_until(lambda: info(c)["exports_completed"] == 1)
        for _ in range(100):
            w.command("SNAPSHOT.EXPORT", "NEXT")
        time.sleep(0.5)
        assert c.info("memory")["used_memory"] < before + 20_000_000
        answers = [w.reply() for _ in range(100)]
        refused = [a for a in answers if isinstance(a, Error)]
        assert refused and all("not read" in a or "no export" in a for a in refused)
        rows = [r for a in answers if not isinstance(a, Error) for r in a[a.index("rows") + 1][::2]]
        while not any("no export" in a for a in refused):
            a = w.ask("SNAPSHOT.EXPORT", "NEXT")
            rows += a[a.index("rows") + 1][::2]
            if a[1] == 0:
                break
        assert sorted(rows) == sorted(f"k{i}" for i in range(30))  # none was lost by being refused


def test_what_cannot_be_done_is_said(make_server, tmp_path):
    live = make_server()
    with Wire(live) as w:
        assert w.ask("SNAPSHOT.EXPORT", "NEXT") == "ERR no export is running on this connection; SNAPSHOT.EXPORT BEGIN begins one"
        assert w.ask("SNAPSHOT.EXPORT", "END") == 0
        assert "syntax" in w.ask("SNAPSHOT.EXPORT", "BEGIN", "NONSENSE") and "syntax" in w.ask("SNAPSHOT.EXPORT", "BEGIN", "OTHERS", "x")
        assert w.ask("SNAPSHOT.EXPORT", "NONSENSE").startswith("ERR unknown subcommand")
        assert w.ask("SNAPSHOT.EXPORT").startswith("ERR wrong number of arguments")
        assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        assert "already" in w.ask("SNAPSHOT.EXPORT", "BEGIN")
        assert w.ask("SNAPSHOT.EXPORT", "END") == 1
        assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        assert w.ask("RESET") == "RESET" and "no export" in w.ask("SNAPSHOT.EXPORT", "NEXT")
        assert w.ask("MULTI") == "OK" and "not allowed inside a transaction" in w.ask("SNAPSHOT.EXPORT", "BEGIN") and w.ask("DISCARD")
        with live.client() as c:
            wait_until(lambda: info(c)["exports_running"] == 0)
    several = [Wire(live) for _ in range(5)]
    answers = [s.ask("SNAPSHOT.EXPORT", "BEGIN") for s in several]
    assert answers[:4] == ["OK"] * 4 and answers[4] == "ERR 4 exports are running, and there may not be more"
    done = build(f"file://{tmp_path}/snap", live)
    assert done.returncode == 1 and "4 exports are running" in done.stderr
    for s in several:
        s.close()


def test_a_temporary_file_that_cannot_be_made_is_the_error_of_the_export(make_server, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    live = make_server()
    with live.client() as c, Wire(live) as w:
        c.set("k", "v")
        assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        assert w.ask("SNAPSHOT.EXPORT", "NEXT") == f"ERR the export failed: no temporary file in {tmp_path}/missing: No such file or directory"
        assert "no export" in w.ask("SNAPSHOT.EXPORT", "NEXT") and c.get("k") == "v"
        wait_until(lambda: info(c)["exports_running"] == 0)
        assert info(c)["exports_failed"] == 1


def test_a_stop_in_the_middle_of_an_export_is_clean(make_server, tmp_path):
    live = make_server(workers=2, data=tmp_path / "data")
    with live.client() as c, Wire(live) as waiting, Wire(live) as idle:
        c.mset({f"k{i}": "x" * 1000 for i in range(20000)})
        for w in (waiting, idle):
            assert w.ask("SNAPSHOT.EXPORT", "BEGIN") == "OK"
        waiting.command("SNAPSHOT.EXPORT", "NEXT")
        assert live.stop() == 0


def test_exports_and_dumps_and_publishing_wait_for_each_other(make_server, tmp_path):
    live = make_server(workers=2, data=tmp_path / "data")
    with live.client() as c, Wire(live) as e:
        c.mset({f"k{i}": "x" * 100 for i in range(30000)})
        for i in range(3):
            c.execute_command("BGSAVE", "SCHEDULE")
            c.execute_command("SNAPSHOT.PUBLISH", f"file://{tmp_path}/snap")
            assert len(exported(e.ask)[0]) == 30000
            wait_until(lambda: c.info("snapshot")["publish_published"] == i + 1)  # noqa: B023
        assert c.info("persistence")["dump_failures"] == 0


def test_another_server_is_read_by_scan_and_that_is_said(redis_reference, make_server, tmp_path):
    with redis_reference.client() as c:
        c.mset({f"k{i}": i for i in range(5000)})
    done = build(f"file://{tmp_path}/a", redis_reference)
    assert done.returncode == 0 and json.loads(done.stdout)["one_cut"] is False
    assert f"127.0.0.1:{redis_reference.port}: source is not a sherd server: read by SCAN, not at one cut" in done.stderr
    assert rows_of(f"file://{tmp_path}/a") == {f"k{i}": str(i) for i in range(5000)}
    reader = make_server(args=["--snapshot", f"file://{tmp_path}/a"])
    with Wire(reader) as w:
        assert w.ask("SNAPSHOT.EXPORT", "BEGIN").startswith("NODATA")
    done = build(f"file://{tmp_path}/b", reader)
    assert done.returncode == 0 and json.loads(done.stdout)["one_cut"] is False and "source serves a snapshot" in done.stderr, done
    assert rows_of(f"file://{tmp_path}/b") == rows_of(f"file://{tmp_path}/a")


def test_an_old_password_and_a_server_that_ends_meanwhile_are_errors(make_server, tmp_path):
    live = make_server(args=["--requirepass", "secret"])
    done = build(f"file://{tmp_path}/a", live)
    assert done.returncode == 1 and "NOAUTH" in done.stderr
    assert build(f"file://{tmp_path}/a", live, "--password", "wrong").returncode == 1
    with live.client(password="secret") as c:
        for i in range(20):
            c.mset({f"k{k}": "x" * 1000 for k in range(i * 5000, i * 5000 + 5000)})
    command = [SHERD, "snapshot", "build", "--to", f"file://{tmp_path}/a", "--shards", "3", "--from", f"127.0.0.1:{live.port}", "--password", "secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_env()) as p:
        with live.client(password="secret") as c:
            wait_until(lambda: info(c)["exports_begun"] == 1)
        live.kill()
        out, err = p.communicate(timeout=60)
    assert p.returncode == 1 and out == "" and "nothing was published" in err, err
    with pytest.raises(redis.ConnectionError):
        live.client(password="secret").ping()


FIRST = b"*14\r\n$4\r\nmore\r\n:1\r\n$6\r\ncut_ms\r\n:5\r\n$9\r\nkeys_done\r\n:1\r\n$10\r\nkeys_total\r\n:2\r\n$8\r\nleft_out\r\n:0\r\n$6\r\nothers\r\n*0\r\n$4\r\nrows\r\n"
GOOD = FIRST + b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n"


@pytest.mark.parametrize("answer, reason", [
    (b"", "closed the connection"), (b"+OK\r\n", "makes no sense"), (b"*-1\r\n", "makes no sense"), (b"*1\r\n$4\r\nrows\r\n*0\r\n", "makes no sense"), (b"*2\r\n$4\r\nrows\r\n*1\r\n$1\r\nk\r\n", "makes no sense"),
    (b"*2\r\n$4\r\nmore\r\n$1\r\n1\r\n", "makes no sense"), (b"*2\r\n$99\r\n", "makes no sense"), (b"*0\r\n", "makes no sense"), (FIRST + b"*99999999999\r\n", "makes no sense"),
    (FIRST + b"*2\r\n$1\r\nk\r\n$-1\r\n", "makes no sense"), (FIRST + b"*2\r\n$99999999999\r\n", "makes no sense"), (GOOD + b"-ERR the export failed: no room\r\n", "ERR the export failed: no room"),
    (GOOD + GOOD[:-9], "closed the connection"), (GOOD * 3, "closed the connection"), (b"-" + b"x" * 100000 + b"\r\n", "xxx"), (b"\x00\xff" * 1000, "closed the connection"),
])
def test_a_server_whose_answers_make_no_sense_ends_the_build(tmp_path, answer, reason):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with listener.accept()[0] as s:
                s.recv(1000)
                s.sendall(b"+OK\r\n+OK\r\n")  # SELECT, BEGIN
                s.recv(1000)
                s.sendall(answer)
                s.shutdown(socket.SHUT_WR)
                while s.recv(1000):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        done = subprocess.run([SHERD, "snapshot", "build", "--to", f"file://{tmp_path}/a", "--shards", "3", "--from", f"127.0.0.1:{listener.getsockname()[1]}"], capture_output=True, text=True, timeout=60,
                              env=clean_env())
        thread.join()
    assert done.returncode == 1 and reason in done.stderr and done.stdout == "", done
