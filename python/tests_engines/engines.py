"""What the tests of all engines ask for: the same rows, the same ways of routing, the same snapshot."""
import naive
from sherd import Reader

COUNT = 2000
REGIONS = ["us", "eu", "ap"]
COLUMNS = ["id", "name", "region", "raw"]

ROUTINGS = {
    "hash": ({"num_dbs": 4}, lambda i: naive.shard_by_hash(i, 4)),
    "keys per shard": ({"max_keys_per_shard": 700}, lambda i: naive.shard_by_hash(i, 3)),
    "direct": ({"cel_expr": "id % 5", "cel_columns": {"id": "int"}}, lambda i: i % 5),
    "direct by key": ({"cel_expr": "key % 3", "cel_columns": {"key": "int"}, "num_dbs": 3}, lambda i: i % 3),
    "inferred": ({"cel_expr": "region", "cel_columns": {"region": "string"}, "infer_routing_values": True}, lambda i: sorted(REGIONS).index(REGIONS[i % 3])),
}


def rows():
    return [(i, f"n{i}", REGIONS[i % 3], b"\x00\xff%d" % i) for i in range(COUNT)]


def check(url, result, shard_of, writer_type):
    folder = url[len("file://"):]
    snapshot = naive.Snapshot(folder)
    snapshot.check()
    assert result.row_count == COUNT
    assert snapshot.contents() == {(shard_of(i), naive.stored(i, "u64be")): b"n%d" % i for i in range(COUNT)}
    record = naive.run_records(folder)[result.run_id]
    assert (record["status"], record["writer_type"]) == ("succeeded", writer_type)


def check_binary_keys_and_json(url, write, frame, config):
    write(frame, config, key="raw", value=["region", "id"])
    with Reader(url) as reader:
        assert reader.get(b"\x00\xff7") == b'{"id":7,"region":"eu"}' and len(list(reader.scan())) == COUNT
