"""The reader: other writers' snapshots, threads, refreshes, pins, scans, errors."""
import glob
import hashlib
import json
import os
import threading
import time

import pytest

import sherd
from conftest import ROOT
from sherd import ConfigError, ManifestError, NoSnapshotError, Reader, ReaderClosedError, SherdError, WriteConfig, write

GOLDEN = os.path.join(ROOT, "tests", "golden", "snapshots")
NAMES = sorted(os.path.basename(path)[: -len(".expected.json")] for path in glob.glob(os.path.join(GOLDEN, "*.expected.json")))


def publish_round(url, n, count=200):
    return write([(i, b"%d" % n) for i in range(count)], WriteConfig(url, num_dbs=4))


@pytest.mark.parametrize("mode", ["auto", "download", "range"])
@pytest.mark.parametrize("name", NAMES)
def test_snapshots_of_the_original_writer_are_read(name, mode, tmp_path):
    with open(os.path.join(GOLDEN, f"{name}.expected.json")) as f:
        expected = json.load(f)
    with Reader(f"file://{GOLDEN}/fx/{name}", mode=mode, cache_dir=str(tmp_path)) as reader:
        for row in expected["rows"]:
            key = bytes.fromhex(row["key"]["hex"]) if isinstance(row["key"], dict) else row["key"]
            value = reader.get(key, row.get("ctx"))
            assert value is not None and len(value) == row["len"] and hashlib.sha256(value).hexdigest() == row["sha256"]
        assert reader.info().row_count == sum(shard["row_count"] for shard in expected["shards"])
        assert [s.min_key for s in reader.shards() if s.db_url] == [s["min_key"] for s in expected["shards"]]
        assert len(list(reader.scan())) == len(expected["rows"])


def test_threads_read_while_snapshots_are_swapped(url):
    publish_round(url, 0)
    stop = threading.Event()
    failures, seen = [], [-1] * 8
    with Reader(url) as reader:
        latest = [0]

        def work(me):
            while not stop.is_set():
                floor = latest[0]
                rounds = set(reader.get_list(list(range(0, 200, 7))))
                if len(rounds) != 1 or None in rounds or int(next(iter(rounds))) < floor:
                    failures.append((floor, rounds))
                    return
                seen[me] = int(next(iter(rounds)))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for n in range(1, 26):
            publish_round(url, n)
            assert reader.refresh() is True and reader.refresh() is False
            latest[0] = n
            while min(seen) < n and not failures:
                time.sleep(0.001)
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures and seen == [25] * 8


def test_a_scan_stays_on_the_snapshot_on_which_it_began(url):
    publish_round(url, 1)
    with Reader(url) as reader:
        scan = reader.scan()
        assert next(scan) == (0, b"1")
        publish_round(url, 2)
        assert reader.refresh()
        assert {value for _, value in scan} == {b"1"} and reader.get(0) == b"2"


def test_scans_have_bounds(url):
    keys = ["a", "ab", "abc", "b", "ba", "é"]
    write([(key, key) for key in keys], WriteConfig(url, num_dbs=3, key_encoding="utf8"))
    with Reader(url) as reader:
        def scanned(**range_):
            return [key for key, _ in reader.scan(**range_)]

        assert scanned() == keys
        assert scanned(prefix="ab") == ["ab", "abc"]
        assert scanned(start="ab", end="b") == ["ab", "abc"]
        assert scanned(start="ab", end="b", after_start=True, with_end=True) == ["abc", "b"]
        assert scanned(reverse=True) == keys[::-1]
        assert sorted(key for shard in range(3) for key in scanned(shard=shard)) == keys
        scan = reader.scan()
        next(scan)
        scan.close()
        assert list(scan) == []


def test_pins_choose_an_older_snapshot(url):
    results = [publish_round(url, n) for n in range(3)]
    for pin in ({"offset": 1}, {"run_id": results[1].run_id}, {"ref": results[1].manifest_ref}):
        with Reader(url, **pin) as reader:
            assert reader.get(0) == b"1" and reader.info().pinned and not reader.refresh()
            assert reader.use() and reader.get(0) == b"2" and not reader.info().pinned
            assert reader.use(offset=2) and reader.get(0) == b"0"
    with pytest.raises(NoSnapshotError):
        Reader(url, run_id="nobody")


def test_what_is_wrong_has_its_own_exception(url, folder):
    with pytest.raises(NoSnapshotError) as caught:
        Reader(url)
    assert caught.value.code == "ERR_SNAPSHOT_NO_CURRENT" and "nothing is published" in str(caught.value)
    with pytest.raises(ConfigError):
        Reader(url, mode="fast")
    with pytest.raises(ConfigError):
        Reader("nonsense")
    publish_round(url, 1)
    with open(f"{folder}/_CURRENT", "w") as f:
        f.write("{")
    with pytest.raises(ManifestError):
        Reader(url)
    for name in sherd.__all__:
        kind = getattr(sherd, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, SherdError)


def test_a_malformed_newer_manifest_keeps_the_old_snapshot(url, folder):
    publish_round(url, 1)
    with Reader(url) as reader:
        newer = publish_round(url, 2)
        with open(newer.manifest_ref[len("file://"):], "wb") as f:
            f.write(b"not a database")
        assert reader.refresh() is False and reader.get(5) == b"1"
        assert reader.health().status == "degraded" and reader.health().reason
    with Reader(url) as reader:
        assert reader.info().fell_back and reader.get(5) == b"1"
    with pytest.raises(ManifestError):
        Reader(url, max_fallback_attempts=0)


def test_a_closed_reader_says_so_and_scans_end_in_peace(url):
    publish_round(url, 1)
    reader = Reader(url)
    scan = reader.scan()
    reader.close()
    reader.close()
    for call in (lambda: reader.get(1), lambda: reader.multi_get([1]), reader.refresh, reader.info, reader.shards, reader.health, reader.stats, reader.scan):
        with pytest.raises(ReaderClosedError):
            call()
    assert len(list(scan)) == 200


def test_health_info_and_stats_tell(url):
    publish_round(url, 1)
    with Reader(url) as reader:
        assert reader.get(1) == b"1" and reader.get(10**6) is None
        health = reader.health(staleness_seconds=3600)
        assert (health.status, health.num_shards) == ("healthy", 4) and 0 <= health.age_seconds < 3600
        assert reader.stats()["gets"] == 2 and reader.stats()["hits"] == 1
        info = reader.info()
        assert (info.num_dbs, info.row_count, info.sharding, info.key_encoding) == (4, 200, "hash", "u64be")


def test_many_threads_close_one_reader_while_others_read(url):
    publish_round(url, 1)
    for _ in range(20):
        reader = Reader(url)
        barrier = threading.Barrier(4)

        def work(closes):
            barrier.wait()
            try:
                reader.close() if closes else [reader.get(i) for i in range(50)]
            except ReaderClosedError:
                pass

        threads = [threading.Thread(target=work, args=(i == 3,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(ReaderClosedError):
            reader.get(1)
