"""Dumps while the server runs: one cut over all shards, durable before the log goes; asked for, by size of the log, by age."""
import glob
import os
import threading
import time

import pytest

from conftest import Raw
from test_durable import fill, state


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def dumps(data):
    """Epochs of the dumps of each shard."""
    out = {}
    for path in glob.glob(f"{data}/layout-*/shard-*"):
        out[os.path.basename(path)] = sorted(int(os.path.basename(f)[:-5]) for f in glob.glob(f"{path}/[0-9]*.dump"))
    return out


def log_bytes(data):
    return sum(os.path.getsize(f) for f in glob.glob(f"{data}/layout-*/shard-*/*.wal"))


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_save_answers_when_every_shard_has_a_dump_and_the_log_that_it_covers_goes(make_server, data):
    s = make_server(data=data, workers=3, args=["--appendfsync", "always"])
    c = s.client()
    fill(c)
    before = state(s)
    assert c.save()
    first = dumps(data)
    assert len(first) == 3 and all(len(e) == 1 for e in first.values()) and len({e[0] for e in first.values()}) == 1
    wait_for(lambda: log_bytes(data) == 0)
    c.set("later", 1)
    assert c.save()
    second = dumps(data)
    assert all(len(e) == 1 for e in second.values()) and second["shard-0"] > first["shard-0"]
    c.set("last", 1)
    s.kill()
    again = make_server(data=data, workers=3)
    after = state(again)
    assert after.pop((0, b"later")) and after.pop((0, b"last"))
    assert after == before


def test_a_dump_alone_brings_everything_back(make_server, data):
    s = make_server(data=data, workers=2)
    fill(s.client())
    before = state(s)
    s.client().save()
    wait_for(lambda: log_bytes(data) == 0)
    assert s.stop() == 0
    again = make_server(data=data, workers=2)
    assert state(again) == before
    assert again.client().info("persistence")["loading"] == 0


def test_another_number_of_workers_loads_any_dump(make_server, data):
    s = make_server(data=data, workers=2)
    fill(s.client())
    before = state(s)
    s.client().save()
    s.client().set("behind", "the dump")
    assert s.stop() == 0
    for workers in (5, 1, 3):
        s = make_server(data=data, workers=workers)
        assert s.client().get("behind") == "the dump"
        after = state(s)
        del after[0, b"behind"]
        assert after == before
        s.client().save()
        assert s.stop() == 0


def test_dumps_kept_leaves_that_many_sets_and_their_log(make_server, data):
    s = make_server(data=data, workers=2, args=["--dumps-kept", "3"])
    c = s.client()
    for i in range(6):
        c.mset({f"k{i}.{j}": "x" * 100 for j in range(50)})
        c.save()
    wait_for(lambda: all(len(e) == 3 for e in dumps(data).values()))
    assert log_bytes(data) > 10000  # of the two rounds behind the oldest set that is kept


def test_a_long_log_begins_a_dump_by_itself_and_stays_short(make_server, data):
    s = make_server(data=data, workers=2, args=["--max-wal-size", "256kb"])
    c = s.client()
    for round in range(40):
        with c.pipeline(transaction=False) as p:
            for i in range(200):
                p.set(f"key:{i}", f"{round}:" + "x" * 1000)
            p.execute()
    wait_for(lambda: len(dumps(data)) == 2 and log_bytes(data) <= 2 * 300_000)  # of 8 MB
    assert len(state(s)) == 200
    s.kill()
    assert len(state(make_server(data=data, workers=2))) == 200


def test_the_log_of_an_earlier_process_counts_too(make_server, data):
    """It is a part of what the next start has to read: what is written now and what was there before are long together."""
    args = ["--max-wal-size", "256kb", "--snapshot-interval", "0"]
    s = make_server(data=data, workers=1, args=args)
    c = s.client()
    for i in range(20):
        c.set(f"k{i}", "x" * 10000)
    assert c.info("persistence")["dump_count"] == 0
    s.stop()
    s = make_server(data=data, workers=1, args=args)
    c = s.client()
    for i in range(10):
        c.set(f"l{i}", "x" * 10000)
    wait_for(lambda: c.info("persistence")["dump_count"] == 1)
    wait_for(lambda: log_bytes(data) == 0)


def test_age_begins_a_dump_only_when_something_changed(make_server, data):
    s = make_server(data=data, workers=2, args=["--snapshot-interval", "1"])
    c = s.client()
    c.set("k", 1)
    wait_for(lambda: all(len(e) == 1 for e in dumps(data).values()) and len(dumps(data)) == 2)
    at = dumps(data)
    time.sleep(2.5)
    assert dumps(data) == at
    c.set("k", 2)
    wait_for(lambda: dumps(data)["shard-0"] > at["shard-0"] and dumps(data)["shard-1"] > at["shard-1"])


def test_writes_go_on_while_dumps_are_written_and_each_dump_is_one_moment(make_server, data):
    """Every transaction sets all keys to one number: a dump in which two numbers meet was no cut."""
    s = make_server(data=data, workers=4)
    c = s.client()
    with c.pipeline(transaction=False) as p:
        for i in range(20000):
            p.set(f"fill:{i}", "x" * 200)
        p.execute()
    keys = [f"same:{i}" for i in range(40)]
    stop = threading.Event()
    rounds = [0]

    def write():
        with s.client() as w:
            n = 0
            while not stop.is_set():
                n += 1
                w.mset({k: n for k in keys})
                w.set(f"fill:{n % 20000}", n)
                rounds[0] = n

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(10):
            c.save()
    finally:
        stop.set()
        thread.join()
    assert rounds[0] > 100
    stopped = s.stop()
    assert stopped == 0
    for f in glob.glob(f"{data}/layout-*/shard-*/*.wal"):
        os.unlink(f)  # what the last dump has is all there is
    again = make_server(data=data, workers=4)
    values = again.client().mget(keys)
    assert len(set(values)) == 1 and values[0] is not None
    assert again.client().dbsize() == 20040


def test_a_dump_that_fails_says_so_and_leaves_everything(make_server, data):
    s = make_server(data=data, workers=2)
    c = s.client()
    c.set("k", "v")
    c.save()
    before = dumps(data)
    in_the_way = glob.glob(f"{data}/layout-*/shard-1")[0] + "/unfinished.dump"
    os.mkdir(in_the_way)
    c.set("k2", "v2")
    with Raw(s.port) as raw:
        raw.send(b"PING\r\nSAVE\r\nGET k\r\n")
        assert raw.line() == b"+PONG"
        assert raw.line() == b"-ERR the dump failed: Is a directory"
        assert (raw.line(), raw.line()) == (b"$1", b"v")
    assert dumps(data) == before and log_bytes(data) > 0
    os.rmdir(in_the_way)
    assert c.save()
    assert dumps(data) != before
    s.kill()
    assert make_server(data=data, workers=2).client().mget("k", "k2") == ["v", "v2"]


def test_bgsave_and_bgrewriteaof_answer_at_once(make_server, data):
    s = make_server(data=data, workers=2)
    c = s.client()
    c.set("k", "v")
    at = c.lastsave()
    time.sleep(1.1)
    assert c.execute_command("BGSAVE") in (True, "Background saving started")
    wait_for(lambda: c.lastsave() > at)
    assert all(len(e) == 1 for e in dumps(data).values())
    c.set("k", "w")
    assert c.execute_command("BGREWRITEAOF") in (True, "Background append only file rewriting started")
    wait_for(lambda: log_bytes(data) == 0)
    with pytest.raises(Exception, match="syntax error"):
        c.execute_command("BGSAVE", "NOW")


def test_other_clients_go_on_during_save(make_server, data):
    s = make_server(data=data, workers=2)
    c = s.client()
    c.execute_command("DEBUG", "POPULATE", 400_000, "key", 200)
    with Raw(s.port) as raw:
        raw.send(b"SAVE\r\n")
        raw.sock.setblocking(False)
        answered = 0
        while not raw.pending:
            c.set("k", answered)
            answered += 1
            try:
                raw.pending += raw.sock.recv(100)
            except BlockingIOError:
                pass
        assert raw.pending == b"+OK\r\n"
        assert answered > 1  # those before the last were answered while SAVE waited


def test_a_dump_that_is_running_does_not_delay_the_end(make_server, data):
    s = make_server(data=data, workers=2)
    c = s.client()
    with c.pipeline(transaction=False) as p:
        for i in range(100000):
            p.set(f"key:{i}", "x" * 100)
        p.execute()
    c.execute_command("BGSAVE")
    assert s.stop() == 0
    assert not glob.glob(f"{data}/layout-*/shard-*/unfinished.dump")
    assert make_server(data=data, workers=2).client().dbsize() == 100000
