"""A disk that fails: nothing is acknowledged that is not there, reads go on, and what was promised is there in the next process."""
import errno
import os
import resource
import select
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

import conftest
from faults import Faults, build_library

PLAIN = ["--io-backend", "epoll"]  # the failing disk sees plain calls only


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(str(tmp_path_factory.mktemp("preload")))


@pytest.fixture
def faults(tmp_path, data, library):
    return Faults(str(tmp_path), data, library)


@pytest.fixture
def faulty(processes, faults, data, monkeypatch):
    """Starts a server over the failing disk."""

    def start(policy="always", workers=2, args=()):
        with monkeypatch.context() as m:
            for name, value in faults.env().items():
                m.setenv(name, value)
            return processes(conftest.start_sherd, data=data, workers=workers, args=["--appendfsync", policy, *PLAIN, *args])

    return start


def write(client, key, value="v"):
    """True: acknowledged. False: refused, or the connection was closed without an answer."""
    try:
        return bool(client.set(key, value))
    except redis.ConnectionError:
        return False
    except redis.ResponseError as e:
        assert str(e).startswith("MISCONF"), str(e)
        return False


def write_until_refused(client, acked, limit=2000):
    """Writes until one is not acknowledged; `acked` gets those that were."""
    for i in range(limit):
        key = f"k{len(acked)}:{i}"
        if not write(client, key):
            return
        acked.append(key)
    pytest.fail("no write was refused")


def wait_for(what, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return
        time.sleep(0.02)
    pytest.fail("did not come about in time")


def status(client):
    return client.info("persistence")["log_status"]


def check_next_life(make_server, data, acked, gone=()):
    with make_server(data=data, workers=2).client() as c:
        missing = [k for k in acked if not c.exists(k)]
        assert not missing, f"acknowledged and gone: {missing[:5]}"
        assert not any(c.exists(k) for k in gone), "refused, and there all the same"


# ---- a failed sync

@pytest.mark.parametrize("k", range(12))
def test_after_a_failed_sync_nothing_is_acknowledged_until_the_next_start(faulty, faults, make_server, data, k):
    s = faulty()
    c = s.client(retry=None)
    acked = []
    for i in range(3):
        assert write(c, f"before{i}")
        acked.append(f"before{i}")
    faults.fail("sync", after=k, times=1)
    write_until_refused(c, acked)
    faults.mend()
    assert status(c) == "broken"
    for i in range(20):
        assert not write(c, f"after{i}"), "a write was acknowledged after a failed sync"
    assert all(c.exists(key) for key in acked), "reads do not go on"
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        c.execute_command("SAVE")
    s.kill()
    check_next_life(make_server, data, acked)


def test_a_failed_sync_of_the_second_stops_writes_too(faulty, faults, make_server, data):
    s = faulty("everysec")
    c = s.client(retry=None)
    assert write(c, "before")
    c.execute_command("SAVE")
    faults.fail("sync", times=1)
    wait_for(lambda: not write(c, "during"))
    faults.mend()
    assert status(c) == "broken"
    assert not write(c, "after")
    assert c.get("before") == "v"
    s.kill()
    check_next_life(make_server, data, ["before"])


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_transaction_queued_before_the_log_broke_is_refused(faulty, faults, make_server, data, policy):
    s = faulty(policy)
    c, multi = s.client(retry=None), s.raw()
    assert write(c, "before") and c.execute_command("SAVE")
    for command in (("MULTI",), ("SET", "queued", "v"), ("GET", "before")):
        multi.command(*command)
        multi.line()
    faults.fail("sync", times=1)
    wait_for(lambda: not write(c, "during"))
    multi.command("EXEC")
    assert multi.line().startswith(b"-EXECABORT Transaction discarded because of: MISCONF")
    multi.command("MULTI")
    multi.expect(b"+OK\r\n")
    multi.command("GET", "before")
    multi.expect(b"+QUEUED\r\n")
    multi.command("EXEC")
    multi.expect(b"*1\r\n$1\r\nv\r\n")  # reads go on here too
    s.kill()
    check_next_life(make_server, data, ["before"], gone=["queued"])


@pytest.mark.parametrize("policy", ["always", "everysec"])
@pytest.mark.parametrize("kind", ["sync", "write"])
def test_a_server_whose_log_failed_ends_when_asked_and_says_so(faulty, faults, make_server, data, policy, kind):
    s = faulty(policy)
    c, held = s.client(retry=None), s.raw()
    assert write(c, "before") and c.execute_command("SAVE")
    faults.fail(kind, match=".wal")
    held.command("SET", "held", "v")
    wait_for(lambda: status(c) != "ok")
    with pytest.raises(redis.ConnectionError):
        c.execute_command("SHUTDOWN")
    s.process.wait(10)
    assert s.process.returncode == 1
    assert "the last writes could not be made durable" in s.log()
    s.process.returncode = 0  # known, and as it should be
    check_next_life(make_server, data, ["before"])


# ---- a failed write

@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_failed_write_is_tried_again_and_writes_go_on(faulty, faults, make_server, data, error, policy):
    s = faulty(policy)
    c, held = s.client(retry=None), s.raw()
    assert write(c, "before")
    faults.fail("write", error=error, match=".wal")
    held.command("SET", "held", "v")
    wait_for(lambda: status(c) == "failing")
    with pytest.raises(redis.ResponseError, match=f"MISCONF .*{os.strerror(error)}"):
        c.set("refused", "v")
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        c.execute_command("SAVE")
    assert c.get("before") == "v"
    if policy == "always":
        held.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            held.line()
        held.sock.settimeout(10)
    faults.mend()
    assert held.line() == b"+OK"
    wait_for(lambda: status(c) == "ok")
    acked = ["before", "held"]
    for i in range(50):
        assert write(c, f"after{i}")
        acked.append(f"after{i}")
    c.execute_command("SAVE")
    s.kill()
    check_next_life(make_server, data, acked, gone=["refused"])


@pytest.mark.parametrize("kind", ["write", "truncate", "create", "sync_dir"])
@pytest.mark.parametrize("k", range(6))
def test_any_call_may_fail_once_and_what_was_acknowledged_is_there(faulty, faults, make_server, data, kind, k):
    s = faulty()
    c = s.client(retry=None)
    acked = []
    faults.fail(kind, after=k, times=1, error=errno.ENOSPC, match="layout")
    if kind == "truncate":
        faults.fail("write", after=k, times=1, error=errno.ENOSPC, match=".wal")
    for i in range(30):
        if write(c, f"k{i}"):
            acked.append(f"k{i}")
    assert len(acked) > 5 or status(c) == "broken"
    s.kill()
    check_next_life(make_server, data, acked)


# ---- dumps

def dumps_of(data):
    return sorted(str(p) for p in data.glob("layout-*/shard-*/*.dump") if not p.name.startswith("unfinished"))


@pytest.mark.parametrize("kind, match", [("create", "dump"), ("write", "dump"), ("sync", "dump"), ("rename", "dump"), ("sync_dir", "shard-")])
@pytest.mark.parametrize("k", range(3))
def test_a_dump_that_fails_says_so_and_leaves_the_older_one_and_the_log(faulty, faults, make_server, data, kind, match, k):
    s = faulty("always")
    c = s.client(retry=None)
    acked = []
    for i in range(20):
        assert write(c, f"old{i}", "x" * 1000)
        acked.append(f"old{i}")
    assert c.execute_command("SAVE")
    before = dumps_of(data)
    assert len(before) == 2
    assert write(c, "new")
    acked.append("new")
    faults.fail(kind, after=k, error=errno.ENOSPC, match=match)
    failed = None
    try:
        c.execute_command("SAVE")
    except redis.ResponseError as e:
        failed = str(e)
    faults.mend()
    if failed is None:
        assert k > 0, "SAVE succeeded though its files could not be written"
    else:
        assert os.strerror(errno.ENOSPC) in failed or "MISCONF" in failed, failed
        assert set(before) <= set(dumps_of(data)), "the older dump is gone"
        assert c.info("persistence")["rdb_last_bgsave_status"] == "err"
        if status(c) == "ok":
            assert write(c, "later"), "writes are refused though the log is well"
            acked.append("later")
            assert c.execute_command("SAVE"), "the next dump fails too"
    s.kill()
    check_next_life(make_server, data, acked)


def test_a_dump_that_replaces_its_like_may_end_between_two_files(faulty, faults, make_server, data):
    """Nothing was written between two dumps: the second has the names of the first. One file of each stands there when the server dies, and they are the same state."""
    s = faulty("always")
    c = s.client(retry=None)
    acked = [f"k{i}" for i in range(20)]
    for k in acked:
        assert write(c, k)
    assert c.execute_command("SAVE")
    before = dumps_of(data)
    first = [os.stat(p).st_ino for p in before]
    wait_for(lambda: c.info("persistence")["log_segments"] == 0)  # there is nothing but the dump
    faults.fail("rename", after=1, match="dump")
    with pytest.raises(redis.ResponseError, match="the dump failed"):
        c.execute_command("SAVE")
    assert dumps_of(data) == before
    assert [os.stat(p).st_ino == i for p, i in zip(before, first)] == [False, True]
    s.kill()
    faults.mend()
    check_next_life(make_server, data, acked)


# ---- real limits

def test_a_full_file_system_refuses_writes_until_there_is_room(make_server, tmp_path):
    """A file system of three megabytes, filled to the brim, and space that comes back."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        (place / "ballast").write_bytes(bytes(1 << 20))
        s = make_server(data=place / "data", workers=2, args=["--appendfsync", "always"])
        c = s.client(retry=None, socket_timeout=1)
        acked = []
        for i in range(1000):
            try:
                c.set(f"k{i}", "v" * 10_000)
                acked.append(f"k{i}")
            except redis.TimeoutError:  # held: neither yes nor no
                break
        assert 20 < len(acked) < 1000
        wait_for(lambda: status(c) == "failing")
        with pytest.raises(redis.ResponseError, match="MISCONF .*No space left"):
            c.set("refused", "v")
        assert c.get(acked[0]) == "v" * 10_000
        (place / "ballast").unlink()
        wait_for(lambda: status(c) == "ok")
        assert c.set("again", "v")
        s.kill()
        s = make_server(data=place / "data", workers=2)
        with s.client() as c:
            assert c.exists("again") and all(c.exists(k) for k in acked)
        s.kill()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_limit_on_file_sizes_refuses_writes_and_does_not_end_the_server(make_server, data):
    s = make_server(data=data, workers=1, args=["--appendfsync", "always"])
    resource.prlimit(s.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
    c = s.client(retry=None, socket_timeout=1)
    acked = []
    for i in range(100):
        try:
            c.set(f"k{i}", "v" * 10_000)
            acked.append(f"k{i}")
        except redis.TimeoutError:
            break
    assert s.running(), "the server was ended by the signal of the limit"
    assert 5 <= len(acked) < 12
    wait_for(lambda: status(c) == "failing")
    with pytest.raises(redis.ResponseError, match="MISCONF .*too large"):
        c.set("refused", "v")
    assert c.exists(acked[0])
    s.kill()
    check_next_life(make_server, data, acked)


# ---- answers that tell of what is not durable yet

def test_an_answer_without_effect_waits_for_what_it_tells_of(faulty, faults, make_server, data):
    """Another client's write is on its way to the disk. "It is there already" is as much a promise as "it is there now"."""
    s = faulty()
    c = s.client()
    c.set("deleted", "v")
    calls = [("SETNX", "set", "w"), ("DEL", "deleted"), ("SADD", "members", "a"), ("PERSIST", "set")]
    faults.delay("sync", 3000)
    first = s.raw()
    began = faults.calls("sync")
    for command in (("SET", "set", "v"), ("DEL", "deleted"), ("SADD", "members", "a")):
        first.command(*command)
    others = [s.raw() for _ in calls]
    time.sleep(0.2)
    for other, call in zip(others, calls):
        other.command(*call)
    time.sleep(0.3)
    answered = [call for other, call in zip(others, calls) if select.select([other.sock], [], [], 0)[0]]
    if faults.calls("sync") == began:  # else the machine was so slow that the sync is over
        assert not answered, f"answered before it was durable: {answered}"
    faults.mend()
    for other in others:
        assert other.line().startswith(b":")


def test_a_read_shows_nothing_that_could_still_be_lost(faulty, faults, make_server, data):
    """Another client's write that waits for its sync is not shown before; commands that read nothing do not wait."""
    s = faulty("always")
    with s.client() as c:
        c.set("k", "old")
    with s.raw() as writer, s.raw() as reader, s.raw() as pinger, s.raw() as transaction:
        faults.delay("sync", 3000)
        writer.command("SET", "k", "new")
        time.sleep(0.3)
        reader.command("GET", "k")
        transaction.send(b"MULTI\r\nGET k\r\nEXEC\r\n")
        pinger.command("PING")
        pinger.expect(b"+PONG\r\n")
        readable, _, _ = select.select([writer.sock, reader.sock], [], [], 0.5)
        assert not readable
        s.kill()
        assert reader.read_to_end() == b"" and b"new" not in transaction.read_to_end()
    faults.mend()


def test_a_walk_over_all_keys_shows_nothing_that_could_still_be_lost(faulty, faults, make_server, data):
    """What visits the shards in turn shows as much as a read of one key."""
    s = faulty("always")
    calls = [("KEYS", "*"), ("SCAN", "0"), ("DBSIZE",), ("RANDOMKEY",)]
    with s.raw() as writer:
        faults.delay("sync", 3000)
        writer.command("SET", "k", "new")
        time.sleep(0.3)
        readers = [s.raw() for _ in calls]
        for reader, call in zip(readers, calls):
            reader.command(*call)
        answered, _, _ = select.select([writer.sock] + [r.sock for r in readers], [], [], 0.5)
        assert not answered, f"{len(answered)} answered before it was durable"
        faults.mend()
        writer.expect(b"+OK\r\n")
        assert all(r.line() for r in readers)


def test_reads_go_on_while_the_log_fails(faulty, faults, make_server, data):
    s = faulty("always")
    with s.client() as c:
        c.set("k", "old")
        with s.raw() as writer:
            faults.fail("write", error=errno.ENOSPC)
            writer.command("SET", "k", "new")
            wait_for(lambda: "cannot write the log" in s.log())
            assert c.get("k") in ("old", "new")
            faults.mend()
            writer.expect(b"+OK\r\n")


def test_files_that_a_dump_covers_and_that_cannot_be_deleted_are_told_of(faulty, faults, make_server, data):
    s = faulty("always")
    with s.client() as c:
        c.set("k", "first")
        c.save()
        c.set("k", "second")
        faults.fail("unlink", error=errno.EROFS)
        assert c.save()
        wait_for(lambda: "log files that a dump covers cannot be deleted" in s.log())
        assert "older dumps cannot be deleted" in s.log()
        faults.mend()
        c.set("k", "third")
        c.save()
    s.kill()
    assert make_server(data=data, workers=2).client().get("k") == "third"
    assert len(list(data.glob("layout-*/shard-0/[0-9]*.dump"))) == 1


# ---- a clock that is set

@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_clock_that_is_set_keeps_nothing_from_the_disk(faulty, faults, make_server, data, ahead_s):
    s = faulty("everysec")
    c = s.client()
    assert write(c, "before")

    def synced():
        return c.info("persistence")["log_synced_epoch"]

    wait_for(lambda: synced() > 0)
    epoch = synced()
    faults.set_clock(ahead_s)
    for i in range(2):  # one wait may have begun before
        assert write(c, f"after{i}")
        wait_for(lambda: synced() > epoch)
        epoch = synced()
    s.kill()
    check_next_life(make_server, data, ["before", "after0", "after1"])


def test_a_clock_that_is_set_does_not_keep_the_cold_tier_from_trying_again(faulty, faults, data):
    s = faulty("no", args=["--maxmemory", "16mb", "--maxmemory-policy", "cold"])
    c = s.client()

    def status():
        return c.info("cold")["cold_write_status"]

    faults.fail("write", error=errno.ENOSPC, match=".cold")
    for i in range(200):
        try:
            c.set(f"k{i}", f"{i}" * 50_000)
        except redis.ResponseError as e:
            assert str(e).startswith("OOM"), str(e)
    wait_for(lambda: status() == "err")
    faults.set_clock(3600)
    time.sleep(1.5)  # the wait that had begun before is over
    faults.mend()
    wait_for(lambda: status() == "ok")


def test_a_clock_that_is_set_back_does_not_put_off_the_next_dump(faulty, faults, data):
    s = faulty("no", args=["--snapshot-interval", "1"])
    c = s.client()

    def dumps():
        return c.info("persistence")["dump_count"]

    assert write(c, "before")
    wait_for(lambda: dumps() == 1)
    faults.set_clock(-3600)
    for n in (2, 3):
        assert write(c, f"after{n}")
        wait_for(lambda: dumps() == n)


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_a_clock_that_is_set_changes_nothing_for_who_waits(faulty, faults, data, ahead_s):
    s = faulty("no")
    c, waiting = s.client(), s.client()
    c.ping()
    waiting.execute_command("CLIENT", "NO-EVICT", "ON")  # connected before the clock is set
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        answer = pool.submit(waiting.blpop, "list", 1.5)
        wait_for(lambda: c.info("clients")["blocked_clients"] == 1)
        faults.set_clock(ahead_s)
        assert answer.result(timeout=20) is None
        assert 1.4 < time.monotonic() - began < 10
    c.set("k", "v", px=100)
    wait_for(lambda: c.info("stats")["expired_keys"] == 1)  # by itself: nobody asks for it
    c.execute_command("CLIENT", "PAUSE", "300")
    began = time.monotonic()
    assert c.get("other") is None
    assert 0.2 < time.monotonic() - began < 10
    ages = [int(client["age"]) for client in c.client_list()]
    assert len(ages) == 2 and max(ages) < 60
