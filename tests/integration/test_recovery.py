"""Start: loading while clients can connect, damage, fallbacks, another number of workers."""
import os
import signal
import subprocess
import time

import pytest
import redis

from conftest import SHERD, Raw, Sherd, clean_env, free_port


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def start_loading(processes, data, workers=2, args=()):
    """A server that is not waited for."""
    def starter(folder):
        port = free_port()
        command = [SHERD, "serve", "--port", str(port), "--workers", str(workers), "--data", str(data), *map(str, args)]
        return Sherd(command, SHERD, port, os.path.join(folder, f"sherd-{port}.log"))
    return processes(starter)


def sync(c):
    """Ends an epoch and makes it durable: under `always` a write that changes nothing is answered when everything before it is."""
    c.config_set("appendfsync", "always")
    c.delete("nothing")
    c.config_set("appendfsync", "everysec")


def fill(server, keys=1000, size=50, prefix="k"):
    with server.client() as c:
        for i in range(0, keys, 1000):
            p = c.pipeline(transaction=False)
            for k in range(i, min(i + 1000, keys)):
                p.set(f"{prefix}{k}", f"{k}:" + "v" * size)
            p.execute()
        sync(c)


def fill_all_types(server):
    with server.client() as c:
        for i in range(200):
            c.set(f"s{i}", i, ex=1000 if i % 2 else None)
            c.rpush(f"l{i}", *range(i + 1))
            c.hset(f"h{i}", mapping={f"f{n}": n for n in range(i % 70 + 1)})
            c.sadd(f"set{i}", *range(i + 1))
            c.zadd(f"z{i}", {f"m{n}": n / 3 for n in range(i + 1)})
        with server.client(db=7) as other:
            other.set("elsewhere", "yes")


def digest(server):
    with server.client() as c:
        return c.execute_command("DEBUG", "DIGEST")


def shard_files(data, suffix):
    return sorted(p for p in data.glob("layout-*/shard-*/*") if p.name.endswith(suffix))


def damage(path, at, what=b"\xff\x00\xff\x00"):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(what)


def epochs(server, n, keys=100):
    """Several epochs in the log, so that damage in an early one is no torn tail."""
    for e in range(n):
        fill(server, keys, prefix=f"e{e}-")


def wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        got = what()
        if got:
            return got
        time.sleep(0.001)
    raise AssertionError("did not happen in time")


def first_answer(process, *command):
    """The answer to the first connection that the server takes."""
    def ask():
        try:
            with Raw(process.port, timeout=5) as s:
                s.command(*command)
                return s.line()
        except (OSError, AssertionError):
            return None
    return wait_for(ask)


@pytest.fixture
def large(make_server, data):
    """A data directory that takes a while to load."""
    s = make_server(data=data, workers=2)
    with s.client() as c:
        for i in range(60):
            c.execute_command("DEBUG", "POPULATE", 20000, f"p{i}", 200)
    assert s.stop() == 0
    return data


def test_clients_can_connect_while_the_data_is_loaded(large, processes):
    s = start_loading(processes, large)
    assert first_answer(s, "GET", "k") == b"-LOADING Sherd is loading the dataset in memory"
    with s.client() as c:
        info = c.info("persistence")
        assert info["loading"] == 1 and info["loading_start_time"] > 0
        assert 0 <= info["loading_loaded_perc"] <= 100
        assert info["loading_loaded_bytes"] <= info["loading_total_bytes"] or info["loading_total_bytes"] == 0
        assert c.config_get("recovery") == {"recovery": "lenient"}
        for command in (["PING"], ["SET", "k", "v"], ["DBSIZE"], ["WATCH", "k"], ["DEBUG", "DIGEST"], ["STATS.SHARDS"]):
            with pytest.raises(redis.exceptions.BusyLoadingError):
                c.execute_command(*command)
        assert c.execute_command("ECHO", "x") == "x"
        assert c.execute_command("SELECT", 3)
        assert c.execute_command("INFO", "persistence")["loading"] == 1, "it was loaded before the test had asked everything"
    with s.raw() as c:
        c.send(b"MULTI\r\nSET k v\r\nEXEC\r\n")
        assert [c.line()[:10] for _ in range(3)] == [b"+OK", b"-LOADING S", b"-EXECABORT"]
    s.wait_ready()
    assert "sherd is ready" in s.log()
    with s.client() as c:
        assert c.dbsize() == 60 * 20000
        info = c.info("persistence")
        assert info["loading"] == 0 and info["wal_replay_errors"] == 0 and "loading_total_bytes" not in info
        assert c.set("k", "v") and c.get("k") == "v"


@pytest.mark.parametrize("end", ["sigterm", "shutdown"])
def test_a_server_that_loads_ends_at_once_and_leaves_the_disk_as_it_was(large, processes, end):
    before = {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in large.glob("layout-*/**/*") if p.is_file()}
    s = start_loading(processes, large)
    first_answer(s, "PING")
    started = time.monotonic()
    if end == "sigterm":
        s.process.send_signal(signal.SIGTERM)
    else:
        with Raw(s.port) as c:
            c.command("SHUTDOWN")
            c.read_to_end()
    assert s.process.wait(20) == 0
    assert time.monotonic() - started < 10
    assert "sherd is ready" not in s.log(), "it was loaded before the signal came"
    assert before == {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in large.glob("layout-*/**/*") if p.is_file()}


def test_progress_is_told_on_the_log(large, processes):
    s = start_loading(processes, large)
    wait_for(lambda: "sherd is ready" in s.log(), 60)
    assert "log replayed" in s.log()
    if "seconds=0." not in s.log().split("log replayed")[1].splitlines()[0]:
        assert " loading bytes=" in s.log()


def test_a_torn_tail_is_cut_and_told(make_server, data):
    s = make_server(data=data, workers=1)
    epochs(s, 3)
    s.kill()
    [segment] = shard_files(data, ".wal")
    os.truncate(segment, len(segment.read_bytes().rstrip(b"\0")) - 7)  # behind it may be room for more
    s = make_server(data=data, workers=1, args=["--recovery", "strict"])
    with s.client() as c:
        assert c.dbsize() >= 200
        assert c.info("persistence")["wal_replay_errors"] == 0
    assert "the end of the log was cut" in s.log()
    assert not shard_files(data, ".corrupt")


def damaged_in_the_middle(make_server, data, workers=1):
    s = make_server(data=data, workers=workers)
    epochs(s, 4)
    with s.client() as c:
        for i in range(50):
            c.rpush("list", i)
            c.append("text", "x")
        sync(c)
        for i in range(50):
            c.lpop("list")
        sync(c)
    assert s.stop() == 0
    segment = shard_files(data, ".wal")[0]
    damage(segment, len(segment.read_bytes().rstrip(b"\0")) // 3)
    return segment


def test_a_bad_record_in_the_middle_is_skipped_and_told(make_server, data):
    segment = damaged_in_the_middle(make_server, data)
    broken = segment.read_bytes()
    s = make_server(data=data, workers=1)
    with s.client() as c:
        assert 390 < c.dbsize() < 402
        assert c.info("persistence")["wal_replay_errors"] >= 1
    log = s.log()
    assert "records are skipped" in log and str(segment) in log and "offset=" in log
    assert segment.with_name(segment.name + ".corrupt").read_bytes() == broken


def test_operations_that_lost_their_ground_are_skipped(make_server, data):
    """The record that made the list is lost: the pops behind it do not fit."""
    s = make_server(data=data, workers=1)
    with s.client() as c:
        c.set("before", 1)
        sync(c)
        c.rpush("list", *["a unique element"] * 3)
        sync(c)
        c.lpop("list")
        c.expire("list", 1000)
        c.set("after", 1)
        sync(c)
    assert s.stop() == 0
    [segment] = shard_files(data, ".wal")
    damage(segment, segment.read_bytes().index(b"a unique element"))
    s = make_server(data=data, workers=1)
    with s.client() as c:
        assert c.get("before") == "1" and c.get("after") == "1" and not c.exists("list")
        assert c.info("persistence")["wal_replay_errors"] == 3
    assert "do not fit" in s.log()


def test_a_strict_start_refuses_a_bad_record(make_server, data):
    segment = damaged_in_the_middle(make_server, data)
    broken = segment.read_bytes()
    with pytest.raises(RuntimeError, match="cannot recover the data.*the log is damaged.*offset"):
        make_server(data=data, workers=1, args=["--recovery", "strict"])
    assert segment.read_bytes() == broken, "a refused start changed the log"


def test_a_damaged_layout_is_kept_aside_when_the_data_moves(make_server, data):
    damaged_in_the_middle(make_server, data)
    s = make_server(data=data, workers=3)
    with s.client() as c:
        assert 390 < c.dbsize() < 402
    assert s.stop() == 0
    assert sorted(p.name for p in data.glob("layout-*")) == ["layout-1.corrupt", "layout-2"]
    with make_server(data=data, workers=3).client() as c:
        assert 390 < c.dbsize() < 402


def moved(make_server, data, workers=2):
    """A data directory with a dump set: that of another number of workers."""
    s = make_server(data=data, workers=1)
    fill_all_types(s)
    was = digest(s)
    assert s.stop() == 0
    s = make_server(data=data, workers=workers)
    assert digest(s) == was
    assert s.stop() == 0
    dumps = shard_files(data, ".dump")
    assert len(dumps) == workers
    return was, dumps


def test_a_dump_and_the_log_behind_it_are_loaded(make_server, data):
    moved(make_server, data)
    s = make_server(data=data, workers=2)
    fill(s, 500)
    was = digest(s)
    s.kill()
    s = make_server(data=data, workers=2)
    assert "dump loaded" in s.log() and "log replayed records=500" in s.log()
    assert digest(s) == was
    with s.client() as c:
        assert 900 < c.ttl("s1") <= 1000 and c.ttl("s0") == -1 and c.lrange("l5", 0, -1) == list("012345")


def test_a_damaged_dump_without_the_log_before_it_is_refused(make_server, data):
    _, dumps = moved(make_server, data)
    damage(dumps[1], dumps[1].stat().st_size // 2)
    with pytest.raises(RuntimeError, match="a damaged dump is passed over.*at byte(.|\n)*cannot recover the data.*the log does not have everything since epoch 0"):
        make_server(data=data, workers=2)
    assert shard_files(data, ".dump") == dumps, "a refused start changed the files"


def test_a_missing_dump_is_refused_once_the_log_has_gone_on(make_server, data):
    _, dumps = moved(make_server, data)
    s = make_server(data=data, workers=2)
    fill(s, 10)
    assert s.stop() == 0
    for d in dumps:
        d.unlink()
    with pytest.raises(RuntimeError, match="cannot recover the data.*the log begins with epoch 2"):
        make_server(data=data, workers=2)


def test_any_number_of_workers_finds_the_same_data(make_server, data):
    was, _ = moved(make_server, data, workers=2)
    for workers in (8, 3, 1):
        s = make_server(data=data, workers=workers)
        assert digest(s) == was
        with s.client() as c:
            assert c.set("extra", workers)
            assert c.delete("extra") == 1
        assert s.stop() == 0
        assert len(list(data.glob("layout-*"))) == 1


def names(data):
    """What is there now; os.walk passes over a folder that goes while it is looked at."""
    return {os.path.relpath(os.path.join(folder, name), data) for folder, folders, files in os.walk(data) for name in folders + files}


# What is on disk at a step of laying out anew, in their order; the old layout is 1.
STEPS = {
    "the new folder is there": lambda d: "layout-2" in names(d),
    "files are being written": lambda d: any(n.endswith("unfinished.dump") for n in names(d)),
    "some files have their names": lambda d: any(n.startswith("layout-2") and n.endswith(".dump") and "unfinished" not in n for n in names(d)),
    "the identity names the new one": lambda d: b"layout=2" in (d / "SHERD").read_bytes(),
    "the old one is gone": lambda d: "layout-1" not in names(d),
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_while_laying_out_anew_at_every_step(make_server, processes, data, step):
    s = make_server(data=data, workers=2)
    fill_all_types(s)
    with s.client() as c:
        c.execute_command("DEBUG", "POPULATE", 100000, "p", 100)
    was = digest(s)
    assert s.stop() == 0
    s = start_loading(processes, data, workers=8)
    wait_for(lambda: STEPS[step](data))
    s.kill()
    for workers in (3, 2):
        s = make_server(data=data, workers=workers)
        assert digest(s) == was
        assert s.stop() == 0
    assert len(list(data.glob("layout-*"))) == 1


def test_a_second_server_is_refused_while_the_first_loads(large, processes):
    s = start_loading(processes, large)
    first_answer(s, "PING")
    second = subprocess.run([SHERD, "serve", "--port", str(free_port()), "--data", str(large)], capture_output=True, text=True, timeout=20, env=clean_env())
    assert second.returncode == 1 and "in use by pid" in second.stderr
