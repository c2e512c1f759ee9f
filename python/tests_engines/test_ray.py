"""The Ray writer, on a local Ray of two workers."""
import os

import pandas
import pytest

os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
import ray  # noqa: E402

import engines  # noqa: E402
import naive  # noqa: E402
from sherd import Reader, WriteConfig  # noqa: E402
from sherd.writers.ray import write_ray  # noqa: E402


@pytest.fixture(scope="module")
def dataset():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=256 << 20)
    yield ray.data.from_pandas(pandas.DataFrame(engines.rows(), columns=engines.COLUMNS)).repartition(3)
    ray.shutdown()


@pytest.mark.parametrize("name", engines.ROUTINGS)
def test_a_dataset_is_published_under_every_routing(dataset, url, name):
    routing, shard_of = engines.ROUTINGS[name]
    engines.check(url, write_ray(dataset, WriteConfig(url, **routing), key="id", value="name"), shard_of, "ray")


def test_binary_keys_and_json_values(dataset, url):
    engines.check_binary_keys_and_json(url, write_ray, dataset, WriteConfig(url, num_dbs=2, key_encoding="raw"))


def test_a_build_that_fails_is_not_seen(dataset, url):
    write_ray(dataset, WriteConfig(url, num_dbs=2), key="id", value="name")
    with pytest.raises(Exception):
        write_ray(dataset, WriteConfig(url, num_dbs=2, run_id="broken"), key="id", value=lambda row: 1 / 0)
    with Reader(url) as reader:
        assert reader.get(5) == b"n5"
    assert naive.run_records(url[len("file://"):])["broken"]["status"] == "failed"
