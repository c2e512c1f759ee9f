"""The Dask writer, with threads and with a cluster of processes."""
import json
import os

import dask
import dask.dataframe as dd
import distributed
import pandas
import pytest

import naive
from sherd import ConfigError, Reader, RoutingError, WriteConfig
from sherd.writers.dask import write_dask

COUNT = 3000
REGIONS = ["us", "eu", "ap"]


def frame():
    table = pandas.DataFrame({"id": range(COUNT), "name": [f"n{i}" for i in range(COUNT)], "region": [REGIONS[i % 3] for i in range(COUNT)], "half": [i / 2 for i in range(COUNT)]})
    return dd.from_pandas(table, npartitions=4)


def shout(row):
    return row["name"].upper()


ROUTINGS = [
    ({"num_dbs": 4}, lambda i: naive.shard_by_hash(i, 4)),
    ({"max_keys_per_shard": 700}, lambda i: naive.shard_by_hash(i, 5)),
    ({"cel_expr": "key % 3", "cel_columns": {"key": "int"}}, lambda i: i % 3),
    ({"cel_expr": "id % 5", "cel_columns": {"id": "int"}, "num_dbs": 7}, lambda i: i % 5),
    ({"cel_expr": "region", "cel_columns": {"region": "string"}, "infer_routing_values": True}, lambda i: sorted(REGIONS).index(REGIONS[i % 3])),
    ({"cel_expr": "region", "cel_columns": {"region": "string"}, "routing_values": REGIONS}, lambda i: i % 3),
]


@pytest.mark.parametrize("routing,shard_of", ROUTINGS)
def test_a_frame_is_published_under_every_routing(url, folder, routing, shard_of):
    with dask.config.set(scheduler="threads"):
        result = write_dask(frame(), WriteConfig(url, **routing), key="id", value="name")
    assert result.row_count == COUNT
    snapshot = naive.Snapshot(folder)
    snapshot.check()
    assert snapshot.contents() == {(shard_of(i), naive.stored(i, "u64be")): b"n%d" % i for i in range(COUNT)}
    assert naive.run_records(folder)[result.run_id]["writer_type"] == "dask"


def test_values_are_columns_json_or_made_by_a_function(url):
    config = WriteConfig(url, num_dbs=3)
    write_dask(frame(), config, key="id", value=["region", "half", "id"])
    with Reader(url) as reader:
        assert reader.get(5) == b'{"half":2.5,"id":5,"region":"ap"}' and json.loads(reader.get(7))["half"] == 3.5
    write_dask(frame(), config, key="id", value=shout)
    with Reader(url) as reader:
        assert reader.get(5) == b"N5"
    write_dask(frame(), WriteConfig(url, num_dbs=3, key_encoding="utf8"), key="name", value="region")
    with Reader(url) as reader:
        assert reader.get("n4") == b"eu"


def test_workers_of_a_cluster_build_the_shards(url):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster):
        result = write_dask(frame(), WriteConfig(url, num_dbs=4), key="id", value=os_pid)
    with Reader(url) as reader:
        builders = {value for _, value in reader.scan()}
    assert result.row_count == COUNT and str(os.getpid()).encode() not in builders


def os_pid(row):
    return str(os.getpid())


def test_what_is_wrong_publishes_nothing(url, folder):
    with pytest.raises(ConfigError, match="nothing"):
        write_dask(frame(), WriteConfig(url, num_dbs=2), key="id", value="nothing")
    with pytest.raises(RoutingError):
        write_dask(frame(), WriteConfig(url, cel_expr="id", cel_columns={"id": "string"}, num_dbs=2), key="id", value="name")
    assert not os.path.exists(f"{folder}/_CURRENT")
    assert {record["status"] for record in naive.run_records(folder).values()} == {"failed"}
