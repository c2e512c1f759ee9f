"""Damaged files under a real server: it never crashes, never shows data that nobody wrote, and never loses any without a word. The unit tests of log and dump flip every byte; here
a sample goes through the whole server, in both ways of recovery."""
import os
import random
import shutil
import subprocess

import pytest
import redis

from conftest import SHERD, clean_env, free_port, start_sherd

WRITES = 31  # the last one is on both shards: a log that ends before it on one of them is known to have lost something
MODES = ["strict", "lenient"]


def writes():
    """What is written, one after the other: each is an epoch of its own, for each is acknowledged before the next."""
    for i in range(WRITES):
        yield {f"k{i}": f"value {i} " * (1 + i % 4)} if i % 5 else {f"{x}{i}": str(i) for x in "abcdefghijkl"}


def state_after(n):
    out = {}
    for i, pairs in enumerate(writes()):
        if i < n:
            out.update(pairs)
    return out


def write_all(server):
    with server.client() as c:
        for pairs in writes():
            c.mset(pairs)


@pytest.fixture(scope="module")
def log_only(tmp_path_factory):
    """Everything is in the log."""
    folder = tmp_path_factory.mktemp("log")
    s = start_sherd(str(folder), workers=2, data=folder / "data", args=["--appendfsync", "always"])
    write_all(s)
    s.kill()
    return folder / "data"


@pytest.fixture(scope="module")
def dump_only(log_only, tmp_path_factory):
    """Everything is in a dump: that of another number of shards."""
    folder = tmp_path_factory.mktemp("dump")
    shutil.copytree(log_only, folder / "data")
    start_sherd(str(folder), workers=3, data=folder / "data").kill()
    return folder / "data"


def files_of(data, ending):
    return sorted(p.relative_to(data) for p in data.glob(f"layout-*/shard-*/*{ending}"))


class Outcome:
    """A start over a damaged directory: the values that it shows, None if it refused, and what it said."""

    def __init__(self, folder, data, workers, mode):
        port = free_port()
        log_path = folder / "log"
        command = [SHERD, "serve", "--port", str(port), "--workers", str(workers), "--data", str(data), "--recovery", mode]
        with open(log_path, "wb") as log:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean_env())
        try:
            self.values = read_all(p, port)
        finally:
            if p.poll() is None:
                p.kill()
            code = p.wait()
        self.log = log_path.read_text()
        assert self.values is not None or code == 1, f"ended with {code}:\n{self.log}"
        if self.values is None:
            assert "cannot recover the data" in self.log, self.log

    def said(self):
        return any(word in self.log for word in ("damaged", "cut", "lacks", "not valid"))


def read_all(p, port):
    """All strings of a server that is just starting; None: it refused to start."""
    with redis.Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=20, retry=None) as c:
        while p.poll() is None:
            try:
                keys = c.keys("*")
                return dict(zip(keys, c.mget(keys))) if keys else {}
            except redis.ConnectionError:  # not there yet, or loading
                pass
    return None


def copy_with(folder, original, file, change):
    """A copy of the directory in which one file was changed by change(bytearray)."""
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(original, data)
    content = bytearray((data / file).read_bytes())
    change(content)
    (data / file).write_bytes(content)
    return data


def damages(size, seed, n):
    """Flips of single bits and truncations, n of each."""
    r = random.Random(seed)

    def flip(at, bit):
        def change(content):
            content[at] ^= 1 << bit
        change.name = f"bit {bit} of byte {at} flipped"
        return change

    def cut(at):
        def change(content):
            del content[at:]
        change.name = f"cut to {at} bytes"
        return change

    yield from (flip(at, r.randrange(8)) for at in sorted(r.sample(range(size), min(n, size))))
    yield from (cut(at) for at in sorted(r.sample(range(size), min(n, size))))


def used_bytes(path):
    """Without the room at the end of a log."""
    return len(path.read_bytes().rstrip(b"\0"))


@pytest.mark.parametrize("mode", MODES)
def test_no_damage_of_the_log_is_silent(log_only, tmp_path, mode):
    whole = state_after(WRITES)
    outcomes = {"refused": 0, "all": 0, "part": 0}
    for file in files_of(log_only, ".wal"):
        for change in damages(used_bytes(log_only / file), str(file), 10):
            o = Outcome(tmp_path, copy_with(tmp_path, log_only, file, change), 2, mode)
            what = f"{file}, {change.name}:\n{o.log}"
            if o.values is None:
                outcomes["refused"] += 1
                continue
            assert o.values.items() <= whole.items(), f"data that nobody wrote: {what}"
            if o.values == whole:
                outcomes["all"] += 1
                continue
            outcomes["part"] += 1
            assert o.said(), f"data is gone without a word: {what}"
            if mode == "strict":
                assert any(o.values == state_after(n) for n in range(WRITES)), f"strict shows what never was: {what}"
    assert outcomes["refused"] > 0 if mode == "strict" else outcomes["part"] > outcomes["refused"], outcomes


@pytest.mark.parametrize("mode", MODES)
def test_a_damaged_dump_without_its_log_is_refused_and_left_alone(dump_only, tmp_path, mode):
    files = files_of(dump_only, ".dump")
    assert len(files) == 3
    for file in files:
        for change in damages((dump_only / file).stat().st_size, str(file), 5):
            data = copy_with(tmp_path, dump_only, file, change)
            damaged = (data / file).read_bytes()
            o = Outcome(tmp_path, data, 3, mode)
            assert o.values is None, f"{file}, {change.name}: started with {len(o.values)} keys\n{o.log}"
            assert str(file) in o.log, "the damaged file is not named"
            assert [f for f in files_of(data, ".dump")] == files, "files are gone"
            assert (data / file).read_bytes() == damaged


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [3, 2])
def test_a_dump_that_is_gone_is_missed(dump_only, tmp_path, mode, workers):
    """One file of the set, or all of them: the layout was made with a dump, and nothing is not the same as empty."""
    files = files_of(dump_only, ".dump")
    for gone in (files[:1], files):
        data = copy_with(tmp_path, dump_only, "SHERD", lambda content: None)
        for file in gone:
            (data / file).unlink()
        assert Outcome(tmp_path, data, workers, mode).values is None


@pytest.mark.parametrize("mode", MODES)
def test_the_damaged_log_of_a_layout_that_is_left_is_kept(log_only, tmp_path, mode):
    """Lenient, with another number of workers: what could be read goes into the new layout, and the old one stays, under another name, for whoever wants to look."""
    file = files_of(log_only, ".wal")[0]
    size = used_bytes(log_only / file)

    def change(content):
        content[size // 2] ^= 4

    data = copy_with(tmp_path, log_only, file, change)
    o = Outcome(tmp_path, data, 3, mode)
    if mode == "strict":
        assert o.values is None and os.path.exists(data / file)
    else:
        assert o.values.items() <= state_after(WRITES).items() and o.said()
        assert [p for p in data.rglob("*") if p.name.endswith(".corrupt")], "the damaged files are gone"


def test_a_damaged_identity_is_refused(log_only, tmp_path):
    size = (log_only / "SHERD").stat().st_size
    for change in damages(size, "identity", 15):
        port = free_port()
        data = copy_with(tmp_path, log_only, "SHERD", change)
        command = [SHERD, "serve", "--port", str(port), "--workers", "2", "--data", str(data)]
        p = subprocess.run(command, capture_output=True, timeout=20, env=clean_env())
        assert p.returncode == 1 and b"SHERD" in p.stdout + p.stderr, change.name


def test_dumps_of_two_histories_are_no_set_though_their_numbers_agree(log_only, tmp_path):
    """A crash cuts a history short, and its epochs are numbered again: the dump of one shard may be left of the old one."""
    folders = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copytree(log_only, folder / "data")
        s = start_sherd(str(folder), workers=2, data=folder / "data", args=["--appendfsync", "always"])
        with s.client() as c:
            c.mset({f"{x}": name for x in "abcdefgh"})
            assert c.execute_command("SAVE")
        s.kill()
        folders.append(folder / "data")
    one, two = (files_of(data, ".dump") for data in folders)
    assert one == two and len(one) == 2, "the two do not have the same epochs"
    shutil.copy(folders[1] / one[0], folders[0] / one[0])
    o = Outcome(tmp_path, folders[0], 2, "lenient")
    assert o.values is None or set(o.values[x] for x in "abcdefgh") == {"one"}, f"a mix of two histories: {o.log}"
