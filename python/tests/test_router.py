"""The router against an independent one: the same keys, the same shards."""
import array
import os
import pickle
import random

import numpy
import pandas
import pytest

import naive
from conftest import ROOT
from sherd import ConfigError, InvalidKeyError, Router, RoutingError, SherdError, UnknownTokenError

SEED = 4021


def random_key(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randrange(-(2**63), 2**63)
    if kind == 1:
        return rng.randrange(-300, 300)
    text = "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xA0, 0xD7FF), rng.randrange(0x10000, 0x10FFFF)])) for _ in range(rng.randrange(40)))
    return text if kind == 2 else rng.randbytes(rng.randrange(300))


def test_hash_routing_is_that_of_an_independent_implementation():
    rng = random.Random(SEED)
    for _ in range(50):
        keys = [random_key(rng) for _ in range(200)]
        num_dbs = rng.choice([1, 2, 3, 7, 16, 256, 1000, 4096, rng.randrange(1, 100000)])
        assert list(Router.hash(num_dbs).route(keys)) == [naive.shard_by_hash(key, num_dbs) for key in keys]


def test_the_vectors_of_the_format_are_met():
    tried = 0
    with open(os.path.join(ROOT, "tests", "golden", "route", "vectors.txt")) as f:
        for line in f:
            if line.startswith("#"):
                continue
            kind, word, _, _, *places = line.split()
            raw = b"" if word == "-" or kind == "int" else bytes.fromhex(word)
            key = int(word) if kind == "int" else raw if kind == "bytes" else raw.decode()
            for num_dbs, shard in (place.split(":") for place in places):
                assert Router.hash(int(num_dbs)).get_shard(key) == int(shard)
                tried += 1
    assert tried > 2000


def test_arrays_of_integers_are_routed_like_lists_of_them():
    numbers = [random.Random(SEED).randrange(-(2**63), 2**63) for _ in range(1000)]
    wanted = [naive.shard_by_hash(n, 17) for n in numbers]
    router = Router.hash(17)
    for given in (numbers, tuple(numbers), array.array("q", numbers), numpy.array(numbers), pandas.Series(numbers), iter(numbers), memoryview(array.array("q", numbers))):
        assert list(router.route(given)) == wanted
    assert list(router.route(numpy.array(numbers)[::3])) == wanted[::3]
    assert list(router.route(numpy.array([1, 2, 3], dtype="int32"))) == [naive.shard_by_hash(n, 17) for n in (1, 2, 3)]
    assert list(numpy.asarray(router.route(numbers))) == wanted


def test_bytes_like_keys_are_routed_as_bytes():
    router = Router.hash(1000)
    assert router.get_shard(b"hello") == router.get_shard("hello") == router.get_shard(bytearray(b"hello")) == router.get_shard(memoryview(b"hello"))
    assert router.get_shard(True) == router.get_shard(1) != router.get_shard("1")


def test_what_is_no_key_is_refused():
    router = Router.hash(4)
    for bad in (1.5, None, [1], 2**64, -(2**63) - 1, "\ud800"):
        with pytest.raises(InvalidKeyError):
            router.get_shard(bad)
    with pytest.raises(SherdError):
        router.get_shard(2**63)
    with pytest.raises(ConfigError):
        router.route("one key")


def test_a_direct_expression_gives_the_shard():
    rng = random.Random(SEED)
    keys = [rng.randrange(0, 2**40) for _ in range(500)]
    assert list(Router.cel("key % 5", {"key": "int"}, 5).route(keys)) == [key % 5 for key in keys]
    texts = [random_key(rng) for _ in range(500)]
    texts = [key if isinstance(key, str) else repr(key) for key in texts]
    assert list(Router.cel("shard_hash(key) % 7u", {"key": "string"}, 7).route(texts)) == [naive.hashed(key) % 7 for key in texts]


def test_a_direct_number_that_is_no_shard_is_unknown():
    router = Router.cel("key", {"key": "int"}, 3)
    assert router.get_shard(2) == 2
    for key in (3, -1):
        with pytest.raises(UnknownTokenError):
            router.get_shard(key)
    assert list(router.route([0, 3, -1, 2], allow_missing=True)) == [0, -1, -1, 2]


def test_columns_of_every_type_reach_the_expression():
    columns = {"i": "int", "u": "uint", "d": "double", "b": "bool", "s": "string", "x": "bytes"}
    router = Router.cel('i == -1 && u == 2u && d == 0.5 && b && s == "é" && x == b"\\x00\\xff" ? 1 : 0', columns, 2)
    good = {"i": -1, "u": 2, "d": 0.5, "b": True, "s": "é", "x": b"\x00\xff"}
    assert router.needs_context and router.get_shard("any", good) == 1 and router.route_with_context(good) == 1
    for name, other in {"i": 5, "u": 3, "d": 0.25, "b": False, "s": "e", "x": b""}.items():
        assert router.get_shard("any", {**good, name: other}) == 0
    for name, bad in {"i": "1", "u": -2, "d": "half", "b": "true", "s": 5, "x": 5}.items():
        with pytest.raises(RoutingError):
            router.get_shard("any", {**good, name: bad})


def test_columns_of_many_rows_may_be_lists_arrays_or_one_value():
    router = Router.cel('region + ":" + string(tier)', {"region": "string", "tier": "int"}, routing_values=["eu:1", "eu:2", "us:1"])
    assert list(router.route(["a", "b", "c"], {"region": ["us", "eu", "eu"], "tier": numpy.array([1, 2, 1])})) == [2, 1, 0]
    assert list(router.route(["a", "b"], {"region": "eu", "tier": pandas.Series([1, 2])})) == [0, 1]
    assert list(router.route_with_context({"region": ["us", "eu"], "tier": 1})) == [2, 0]
    with pytest.raises(RoutingError):
        router.route(["a", "b"], {"region": ["eu"], "tier": 1})
    with pytest.raises(RoutingError, match="tier"):
        router.route(["a"], {"region": "eu"})
    with pytest.raises(RoutingError):
        router.route(["a"])


def test_tokens_are_what_the_expression_gives():
    assert Router.cel("key % 3", {"key": "int"}, 3).tokens([7, 8, 9]) == [1, 2, 0]
    assert Router.cel("region", {"region": "string"}, routing_values=[]).tokens(["k"], {"region": "eu"}) == ["eu"]


def test_keys_are_grouped_in_their_order_and_missing_ones_told():
    router = Router.cel("key", {"key": "string"}, routing_values=["a", "b"])
    assert router.group_keys(["b", "a", "b"]) == {1: ["b", "b"], 0: ["a"]}
    assert router.group_keys_allow_missing(["b", "z", "a"]) == ({1: ["b"], 0: ["a"]}, ["z"])
    with pytest.raises(UnknownTokenError):
        router.group_keys(["b", "z"])
    by_hash = Router.hash(3)
    keys = list(range(100))
    assert sorted(k for group in by_hash.group_keys(keys).values() for k in group) == keys


def test_a_router_travels():
    for router in (Router.hash(9), Router.cel("key % 4", {"key": "int"}, 4), Router.cel("r", {"r": "string"}, routing_values=["x", "y"])):
        again = pickle.loads(pickle.dumps(router))
        assert again == router and again.num_dbs == router.num_dbs and again.strategy == router.strategy
    assert list(pickle.loads(pickle.dumps(Router.hash(9))).route([1, 2, 3])) == list(Router.hash(9).route([1, 2, 3]))


def test_faulty_routers_are_refused_with_the_place():
    with pytest.raises(ConfigError, match="1:6"):
        Router.cel("key +", {"key": "int"}, 2)
    for arguments in (
        {"num_dbs": 0},
        {},
        {"num_dbs": 2, "routing_values": ["a", "b"]},
        {"cel_expr": "key", "cel_columns": {"key": "int"}},
        {"cel_expr": "key", "cel_columns": {"key": "number"}, "num_dbs": 1},
        {"cel_expr": "key", "cel_columns": {"key": "int"}, "routing_values": [1, "a"]},
        {"cel_expr": "key", "cel_columns": {"key": "int"}, "routing_values": [1, 1]},
        {"cel_expr": "key", "cel_columns": {"key": "int"}, "routing_values": [1, 2], "num_dbs": 3},
        {"cel_expr": "true", "cel_columns": {"key": "int"}, "num_dbs": 3},
    ):
        with pytest.raises(ConfigError):
            Router(**arguments)
