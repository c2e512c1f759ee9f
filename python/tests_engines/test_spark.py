"""The Spark writer, on a local Spark of two workers."""
import os
import sys

import pytest
from pyspark.sql import SparkSession

import engines
import naive
from sherd import Reader, WriteConfig
from sherd.writers.spark import write_spark


@pytest.fixture(scope="module")
def frame():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]")  # a task may fail three times
    for name, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session.createDataFrame(engines.rows(), engines.COLUMNS)
    session.stop()


@pytest.mark.parametrize("name", engines.ROUTINGS)
def test_a_frame_is_published_under_every_routing(frame, url, name):
    routing, shard_of = engines.ROUTINGS[name]
    engines.check(url, write_spark(frame, WriteConfig(url, **routing), key="id", value="name"), shard_of, "spark")


def test_binary_keys_and_json_values(frame, url):
    engines.check_binary_keys_and_json(url, write_spark, frame, WriteConfig(url, num_dbs=2, key_encoding="raw"))


def test_a_task_that_is_repeated_has_an_attempt_of_its_own(frame, url, tmp_path):
    mark = str(tmp_path / "failed-once")

    def fails_once(row):
        if row["id"] == 5 and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the worker is lost")
        return row["name"]

    result = write_spark(frame, WriteConfig(url, num_dbs=4), key="id", value=fails_once)
    engines.check(url, result, lambda i: naive.shard_by_hash(i, 4), "spark")
    assert os.path.exists(mark) and all(shard.task_attempt_id is not None for shard in result.shards)


def test_a_build_that_fails_is_not_seen(frame, url):
    def fails_always(row):  # not of the module: workers know only the package
        raise RuntimeError("always")

    write_spark(frame, WriteConfig(url, num_dbs=2), key="id", value="name")
    with pytest.raises(Exception, match="always"):
        write_spark(frame, WriteConfig(url, num_dbs=2, run_id="broken"), key="id", value=fails_always)
    with Reader(url) as reader:
        assert reader.get(5) == b"n5"
    assert naive.run_records(url[len("file://"):])["broken"]["status"] == "failed"
