"""Building in workers and publishing from one place: attempts, winners, failures, races."""
import concurrent.futures
import multiprocessing
import os
import pickle
import re

import pytest

import naive
from sherd import (
    Buckets,
    ConfigError,
    CoverageError,
    NoSnapshotError,
    Publication,
    PublishRaceError,
    Reader,
    Router,
    Shard,
    ShardBuilder,
    SherdError,
    StoreError,
    WriteConfig,
    publish,
    write,
)


def build(job, db_id, rows, attempt=None):
    builder = ShardBuilder(job, db_id)
    for key, value in rows:
        builder.add(key, value)
    return builder.finish(attempt)


def rows_of(router, count, db_id):
    return [(key, b"v%d" % key) for key in range(count) if router.get_shard(key) == db_id]


def build_in_worker(pickled, count, db_id):
    job, router = pickle.loads(pickled)
    return build(job, db_id, rows_of(router, count, db_id))


def test_shards_built_in_other_processes_are_published_once(url):
    router = Router.hash(4)
    context = multiprocessing.get_context("spawn")
    with Publication(WriteConfig(url, num_dbs=4), "workers") as publication:
        pickled = pickle.dumps((publication.job, router))
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            shards = [future.result() for future in [pool.submit(build_in_worker, pickled, 1000, db_id) for db_id in range(4)]]
        with pytest.raises(NoSnapshotError):
            Reader(url)
        result = publication.publish(router, shards)
    assert result.row_count == 1000 and result.attempts == 4
    with Reader(url) as reader:
        assert dict(reader.scan()) == {key: b"v%d" % key for key in range(1000)}
    assert naive.run_records(url[len("file://"):])[result.run_id]["status"] == "succeeded"


def test_the_smallest_attempt_wins_and_losers_are_deleted(url, folder):
    with Publication(WriteConfig(url, num_dbs=1)) as publication:
        shards = [build(publication.job, 0, [(1, b"attempt %d" % n)], n) for n in (2, 0, 1)]
        assert [shard.attempt for shard in shards] == [2, 0, 1]
        result = publication.publish(Router.hash(1), shards)
    assert [shard.attempt for shard in result.shards] == [0] and result.attempts == 3
    with Reader(url) as reader:
        assert reader.get(1) == b"attempt 0"
    assert sorted(os.listdir(f"{folder}/shards/run_id={result.run_id}/db=00000")) == ["attempt=00"]


def test_a_second_build_of_a_shard_takes_the_next_free_attempt(url):
    with Publication(WriteConfig(url, num_dbs=1)) as publication:
        assert [build(publication.job, 0, [(1, b"x")]).attempt for _ in range(3)] == [0, 1, 2]


def test_a_shard_without_rows_is_none(url):
    with Publication(WriteConfig(url, num_dbs=2)) as publication:
        shards = [build(publication.job, 0, [(1, b"x")]), build(publication.job, 1, [])]
        assert shards[1] is None
        assert len(publication.publish(Router.hash(2), shards).shards) == 1


def test_each_shard_has_a_sidecar_beside_it(url, folder):
    result = write([(i, b"x" * 100) for i in range(2000)], WriteConfig(url, num_dbs=2))
    for shard in result.shards:
        where = shard.db_url[len("file://"):]
        with open(f"{where}/shard.sidecar", "rb") as f:
            assert f.read(5) == b"SQPC\x08"
        assert os.path.getsize(f"{where}/shard.db") == shard.db_bytes


def test_unchanged_shards_are_reused(url, folder):
    rows = [(i, b"v%d" % i) for i in range(1000)]
    first = write(rows, WriteConfig(url, num_dbs=4))
    changed = Router.hash(4).get_shard(17)
    second = write([(k, b"new" if k == 17 else v) for k, v in rows], WriteConfig(url, num_dbs=4))
    assert second.reused == 3
    for old, new in zip(first.shards, second.shards):
        assert (old.db_url == new.db_url) == (old.db_id != changed)
    with Reader(url) as reader:
        assert reader.get(17) == b"new" and reader.get(18) == b"v18"
    assert write(rows, WriteConfig(url, num_dbs=4, reuse=False)).reused == 0


def test_a_block_that_fails_leaves_a_failed_run_and_the_old_snapshot(url, folder):
    write([(1, b"old")], WriteConfig(url, num_dbs=1))
    before = naive.Snapshot(folder).current
    with pytest.raises(ZeroDivisionError):
        with Publication(WriteConfig(url, num_dbs=1, run_id="broken")) as publication:
            build(publication.job, 0, [(1, b"new")])
            1 / 0
    record = naive.run_records(folder)["broken"]
    assert record["status"] == "failed" and record["error_type"] == "ZeroDivisionError" and "division" in record["error_message"]
    assert naive.Snapshot(folder).current == before


def test_a_block_without_publish_counts_as_failed(url, folder):
    with Publication(WriteConfig(url, num_dbs=1, run_id="idle")):
        assert naive.run_records(folder)["idle"]["status"] == "running"
    assert naive.run_records(folder)["idle"]["status"] == "failed"
    assert not os.path.exists(f"{folder}/_CURRENT")


def test_of_two_publishers_the_second_is_refused(url):
    first, second = (Publication(WriteConfig(url, num_dbs=1)) for _ in range(2))
    with first, second:
        shards = [build(p.job, 0, [(1, name)]) for p, name in ((first, b"first"), (second, b"second"))]
        first.publish(Router.hash(1), shards[:1])
        with pytest.raises(PublishRaceError) as caught:
            second.publish(Router.hash(1), shards[1:])
        assert caught.value.code == "ERR_SNAPSHOT_RACE"
    with Reader(url) as reader:
        assert reader.get(1) == b"first"


def test_a_shard_beyond_the_number_of_shards_is_refused(url):
    with pytest.raises(CoverageError):
        with Publication(WriteConfig(url, num_dbs=2)) as publication:
            publication.publish(Router.hash(2), [build(publication.job, 5, [(1, b"x")])])
    with pytest.raises(NoSnapshotError):
        Reader(url)


def test_shards_of_elsewhere_can_be_published_in_one_call(url):
    first = write([(1, b"one")], WriteConfig(url, num_dbs=1))
    second = publish(WriteConfig(url, num_dbs=1), Router.hash(1), first.shards)
    assert second.run_id != first.run_id and second.shards == first.shards
    with Reader(url) as reader:
        assert reader.get(1) == b"one" and reader.info().run_id == second.run_id


def test_the_manifest_says_what_the_format_asks_for(url, folder):
    config = WriteConfig(url, cel_expr="r", cel_columns={"r": "string"}, routing_values=["b", "a"], key_encoding="raw", key_col="id", custom={"owner": {"x": [1]}}, run_id="run-7")
    result = write([(b"k", b"v", {"r": "a"})], config)
    snapshot = naive.Snapshot(folder)
    assert snapshot.current["run_id"] == snapshot.manifest["run_id"] == "run-7"
    assert re.fullmatch(re.escape(url) + r"/manifests/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z_run_id=run-7/manifest", result.manifest_ref)
    assert snapshot.sharding == {"strategy": "cel", "hash_algorithm": "xxh3_64", "cel_expr": "r", "cel_columns": {"r": "string"}, "routing_values": ["b", "a"]}
    assert (snapshot.manifest["key_col"], snapshot.manifest["format_version"]) == ("id", 4)
    shard = snapshot.shards[1]
    assert shard["db_url"] == f"{url}/shards/run_id=run-7/db=00001/attempt=00"
    assert shard["writer_info"].startswith('{"attempt": 0, "duration_ms": ') and len(shard["checkpoint_id"]) == 32
    with Reader(url) as reader:
        assert reader.info().custom["owner"] == {"x": [1]} and reader.info().custom["sqlite_sidecar"]["format_version"] == 8


def test_wrong_settings_are_refused_before_anything_happens(url, folder):
    for bad in (
        {},
        {"num_dbs": 1, "max_keys_per_shard": 5},
        {"num_dbs": 0},
        {"num_dbs": 1, "key_encoding": "u128"},
        {"num_dbs": 1, "page_size": 1000},
        {"num_dbs": 1, "custom": {"vector": {}}},
        {"num_dbs": 1, "routing_values": ["a"]},
        {"cel_expr": "key +", "cel_columns": {"key": "int"}},
        {"cel_expr": "key", "cel_columns": {"key": "int"}, "max_keys_per_shard": 5},
        {"cel_expr": "key", "cel_columns": {"key": "int"}, "infer_routing_values": True, "routing_values": [1]},
    ):
        with pytest.raises(ConfigError):
            WriteConfig(url, **bad)
    with pytest.raises(ConfigError):
        Publication(WriteConfig(url, num_dbs=1, run_id="a/b"))
    with pytest.raises(ConfigError):
        Publication(WriteConfig("ftp://nowhere", num_dbs=1))
    assert not os.path.exists(folder)


def test_rows_come_before_the_build_and_by_one_thread(url):
    with Publication(WriteConfig(url, num_dbs=1)) as publication:
        buckets = Buckets(publication.job)
        with pytest.raises(ConfigError):
            buckets.build(0, 0)
        buckets.add([1], [b"x"])
        buckets.finish()
        with pytest.raises(ConfigError):
            buckets.add([2], [b"x"])
        with pytest.raises(ValueError):
            ShardBuilder(publication.job, 0).add_many([1, 2], [b"x"])
        buckets.cancel()
        with pytest.raises(StoreError) as caught:
            buckets.build(0, 0)
        assert caught.value.code == "ERR_OBJECT_CANCELLED"


def test_exceptions_travel_whole():
    from sherd.errors import _from_code

    error = pickle.loads(pickle.dumps(_from_code("ERR_OBJECT_BUSY", -5016, "the store is tired")))
    assert isinstance(error, StoreError) and error.retryable and error.code == "ERR_OBJECT_BUSY" and str(error) == "the store is tired"
    assert issubclass(PublishRaceError, SherdError)


def test_a_shard_travels(url):
    shard = write([(1, b"x")], WriteConfig(url, num_dbs=1)).shards[0]
    assert isinstance(shard, Shard) and pickle.loads(pickle.dumps(shard)) == shard
