"""What the writer writes, the reader reads, and so does SQLite: random rows of every encoding under every way of routing."""
import random

import numpy
import pytest

import naive
from sherd import ConfigError, InvalidKeyError, Reader, Router, RoutingError, UnknownTokenError, WriteConfig, write, write_columns

SEED = 77


def random_keys(rng, encoding, n):
    if encoding == "u64be":
        return [rng.choice([rng.randrange(2**63), rng.randrange(1000)]) for _ in range(n)]
    if encoding == "u32be":
        return [rng.choice([rng.randrange(2**32), rng.randrange(1000)]) for _ in range(n)]
    if encoding == "utf8":
        return ["".join(chr(rng.choice([rng.randrange(1, 127), rng.randrange(0xA0, 0xD7FF)])) for _ in range(rng.randrange(30))) for _ in range(n)]
    return [rng.randbytes(rng.randrange(40)) for _ in range(n)]


def random_value(rng):
    size = rng.choice([0, 1, rng.randrange(100), rng.randrange(2000), rng.randrange(20000) if rng.random() < 0.05 else 5])
    return rng.randbytes(size)


def random_rows(rng, encoding, n):
    rows = [(key, random_value(rng)) for key in random_keys(rng, encoding, n)]
    rows += [(key, random_value(rng)) for key, _ in rng.sample(rows, n // 10)]  # some keys come again
    return rows


def check(url, rows, shard_of, num_dbs, encoding, context_of=lambda key: None):
    """The snapshot holds the last value of each key, in the shard that shard_of says; in all ways of reading."""
    wanted = dict(rows)
    snapshot = naive.Snapshot(url[len("file://"):])
    snapshot.check()
    assert snapshot.manifest["num_dbs"] == num_dbs and snapshot.manifest["key_encoding"] == encoding
    assert snapshot.contents() == {(shard_of(key), naive.stored(key, encoding)): value for key, value in wanted.items()}
    assert sum(row["row_count"] for row in snapshot.shards.values()) == len(rows)
    for mode in ("download", "range"):
        with Reader(url, mode=mode) as reader:
            for key, value in wanted.items():
                assert reader.get(key, context_of(key)) == value
                assert reader.route(key, context_of(key)) == shard_of(key)
            scanned = list(reader.scan())
            assert scanned == sorted(wanted.items(), key=lambda row: naive.stored(row[0], encoding))
            assert list(reader.scan(reverse=True)) == scanned[::-1]


@pytest.mark.parametrize("encoding", ["u64be", "u32be", "utf8", "raw"])
@pytest.mark.parametrize("page_size", [4096, 65536, "auto"])
def test_rows_routed_by_hash_come_back(url, encoding, page_size):
    rng = random.Random(f"{SEED} {encoding} {page_size}")
    num_dbs = rng.randrange(1, 9)
    rows = random_rows(rng, encoding, 400)
    result = write(rows, WriteConfig(url, num_dbs=num_dbs, key_encoding=encoding, page_size=page_size))
    assert result.row_count == len(rows) and result.num_dbs == num_dbs
    check(url, rows, lambda key: naive.shard_by_hash(key, num_dbs), num_dbs, encoding)
    with Reader(url) as reader:
        assert reader.multi_get([key for key, _ in rows]) == dict(rows)


@pytest.mark.parametrize("encoding", ["u64be", "u32be"])
def test_rows_routed_directly_by_an_expression_come_back(url, encoding):
    rng = random.Random(f"{SEED} direct {encoding}")
    rows = random_rows(rng, encoding, 400)
    result = write(rows, WriteConfig(url, cel_expr="key % 6", cel_columns={"key": "int"}, key_encoding=encoding))
    assert result.num_dbs == 6
    check(url, rows, lambda key: key % 6, 6, encoding)


@pytest.mark.parametrize("encoding", ["utf8", "raw"])
def test_rows_routed_by_the_hash_in_an_expression_come_back(url, encoding):
    rng = random.Random(f"{SEED} hash expression {encoding}")
    rows = random_rows(rng, encoding, 300)
    kind = "string" if encoding == "utf8" else "bytes"
    write(rows, WriteConfig(url, num_dbs=5, cel_expr="shard_hash(key) % 5u", cel_columns={"key": kind}, key_encoding=encoding))
    check(url, rows, lambda key: naive.hashed(key) % 5, 5, encoding)


@pytest.mark.parametrize("inferred", [False, True])
def test_rows_routed_by_category_come_back(url, inferred):
    rng = random.Random(f"{SEED} category {inferred}")
    regions = ["us", "eu", "ap", "sa"]
    rows = list(dict(random_rows(rng, "utf8", 300)).items())
    region = {key: rng.choice(regions) for key, _ in rows}
    routing = {"infer_routing_values": True} if inferred else {"routing_values": regions}
    order = sorted(regions) if inferred else regions
    config = WriteConfig(url, cel_expr="region", cel_columns={"region": "string"}, key_encoding="utf8", **routing)
    write(((key, value, {"region": region[key]}) for key, value in rows), config)
    check(url, rows, lambda key: order.index(region[key]), 4, "utf8", lambda key: {"region": region[key]})
    with Reader(url) as reader:
        assert reader.get(rows[0][0], {"region": "mars"}) is None
        with pytest.raises(UnknownTokenError):
            reader.route(rows[0][0], {"region": "mars"})
        with pytest.raises(RoutingError):
            reader.get(rows[0][0])


def test_columns_come_back(url):
    rng = random.Random(SEED)
    keys = numpy.array(rng.sample(range(2**40), 30000))
    values = [b"%d" % key for key in keys]
    write_columns(keys, values, WriteConfig(url, max_keys_per_shard=4000))
    check(url, list(zip(keys.tolist(), values)), lambda key: naive.shard_by_hash(key, 8), 8, "u64be")


def test_columns_with_a_context_come_back(url):
    keys = list(range(20000))
    context = {"tier": numpy.arange(20000) % 3, "unused": None}
    write_columns(keys, ["é"] * 20000, WriteConfig(url, cel_expr="tier * 1", cel_columns={"tier": "int"}), context=context)
    check(url, [(key, "é".encode()) for key in keys], lambda key: key % 3, 3, "u64be", lambda key: {"tier": key % 3})
    with pytest.raises(RoutingError, match="tier"):
        write_columns(keys, ["x"] * 20000, WriteConfig(url, cel_expr="tier", cel_columns={"tier": "int"}))


def test_more_rows_than_memory_come_back(url):
    rng = random.Random(SEED)
    rows = [(rng.randrange(10**6), rng.randbytes(200)) for _ in range(20000)]
    write(iter(rows), WriteConfig(url, num_dbs=3, memory_bytes=256 << 10))
    check(url, rows, lambda key: naive.shard_by_hash(key, 3), 3, "u64be")


def test_an_empty_snapshot_is_one(url):
    result = write([], WriteConfig(url, num_dbs=3))
    assert result.shards == [] and result.row_count == 0
    with Reader(url) as reader:
        assert reader.get(5) is None and list(reader.scan()) == [] and [s.row_count for s in reader.shards()] == [0, 0, 0]


def test_edges_of_keys_and_values(url):
    write([("", b"empty key"), ("empty value", b"")], WriteConfig(url, num_dbs=1, key_encoding="utf8"))
    with Reader(url) as reader:
        assert reader.get("") == b"empty key" and reader.get("empty value") == b"" and reader.get("none") is None
    write([(0, b"0"), (2**63 - 1, b"last")], WriteConfig(url, num_dbs=2))
    with Reader(url) as reader:
        assert reader.get(0) == b"0" and reader.get(2**63 - 1) == b"last"
        for bad in (-1, 1.5, None):
            with pytest.raises(InvalidKeyError):
                reader.get(bad)
    write([(2**64 - 1, b"beyond")], WriteConfig(url, cel_expr="key % 2u", cel_columns={"key": "uint"}, num_dbs=2))
    with Reader(url) as reader:
        assert reader.get(2**64 - 1) == b"beyond"


def test_least_and_greatest_key_are_told_and_binary_ones_are_not(url):
    write([("b", b""), ("a", b""), ("é", b"")], WriteConfig(url, num_dbs=1, key_encoding="utf8"))
    with Reader(url) as reader:
        assert (reader.shards()[0].min_key, reader.shards()[0].max_key) == ("a", "é")
    write([(7, b""), (300, b"")], WriteConfig(url, num_dbs=1))
    with Reader(url) as reader:
        assert (reader.shards()[0].min_key, reader.shards()[0].max_key) == (7, 300)
    write([(b"\xff\xfe", b"")], WriteConfig(url, num_dbs=1, key_encoding="raw"))
    with Reader(url) as reader:
        assert (reader.shards()[0].min_key, reader.shards()[0].max_key) == (None, None) and reader.get(b"\xff\xfe") == b""


def test_what_cannot_be_stored_or_routed_publishes_nothing(url, folder):
    write([(1, b"old")], WriteConfig(url, num_dbs=1))
    before = naive.Snapshot(folder).current
    for rows, config, error in (
        ([(1, b"x"), ("text", b"y")], WriteConfig(url, num_dbs=2), InvalidKeyError),
        ([(-1, b"x")], WriteConfig(url, num_dbs=2), InvalidKeyError),
        ([(2**32, b"x")], WriteConfig(url, num_dbs=2, key_encoding="u32be"), InvalidKeyError),
        ([(1, 5)], WriteConfig(url, num_dbs=2), TypeError),
        ([(1, b"x")], WriteConfig(url, cel_expr="r", cel_columns={"r": "string"}, infer_routing_values=True), RoutingError),
        ([(1, b"x", {"r": "c"})], WriteConfig(url, cel_expr="r", cel_columns={"r": "string"}, routing_values=["a"]), UnknownTokenError),
        ([(1, b"x"), (3, b"x")], WriteConfig(url, cel_expr="key", cel_columns={"key": "int"}), ConfigError),
        (iter([(1, b"x")]), WriteConfig(url, max_keys_per_shard=2), ConfigError),
    ):
        with pytest.raises(error):
            write(rows, config)
        assert naive.Snapshot(folder).current == before


def test_the_routers_of_writer_and_reader_are_one(url):
    router = Router.hash(11)
    write([(i, b"") for i in range(500)], WriteConfig(url, num_dbs=11))
    with Reader(url) as reader:
        assert [reader.route(i) for i in range(500)] == list(router.route(range(500)))
