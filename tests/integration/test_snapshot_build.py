"""sherd snapshot build: what it writes is read with Python's sqlite3 and compared, row by row, with routing done here by Python's xxhash: nothing of this knows the writer's code."""
import base64
import csv
import glob
import io
import json
import os
import random
import signal
import sqlite3
import struct
import subprocess
import time
from urllib.parse import unquote

import pytest

from conftest import SHERD, clean_env
from s3server import s3, s3_strict  # noqa: F401

xxhash = pytest.importorskip("xxhash")


def command(url, *args):
    return [SHERD, "snapshot", "build", "--to", url, *map(str, args)]


def run(url, *args, data=None, env=None):
    done = subprocess.run(command(url, *args), input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, env={**clean_env(), **(env or {})})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def build(url, *args, data=None, env=None, code=0):
    rc, out, err = run(url, *args, data=data, env=env)
    assert rc == code, err
    return json.loads(out)


def refuse(url, *args, data=None, code=1):
    rc, out, err = run(url, *args, data=data)
    assert rc == code and out == "", (rc, out, err)
    return err


def csv_of(rows, header=("key", "value")):
    out = io.StringIO()
    w = csv.writer(out)
    w.writerow(header)
    w.writerows(rows)
    return out.getvalue().encode()


# ---- reading without Sherd


def local(url):
    assert url.startswith("file://")
    return unquote(url[len("file://"):])


class Snapshot:
    def __init__(self, root):
        self.pointer = json.load(open(os.path.join(root, "_CURRENT")))
        image = local(self.pointer["manifest_ref"])
        db = sqlite3.connect(f"file:{image}?mode=ro", uri=True)
        db.row_factory = sqlite3.Row
        (self.meta,) = [dict(r) for r in db.execute("SELECT * FROM build_meta")]
        self.shards = {r["db_id"]: dict(r) for r in db.execute("SELECT * FROM shards")}
        db.close()
        self.sharding = json.loads(self.meta["sharding"])

    def rows(self, shard):
        """Key to value, in the file's order; the file is checked on the way."""
        path = os.path.join(local(self.shards[shard]["db_url"]), "shard.db")
        assert os.path.getsize(path) == self.shards[shard]["db_bytes"]
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema").fetchall() == [
            ("table", "kv", "kv", 2, "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")]
        rows = db.execute("SELECT k, v FROM kv ORDER BY k").fetchall()
        db.close()
        assert all(type(k) is bytes and type(v) is bytes for k, v in rows)
        return dict(rows)

    def page_size(self, shard):
        with open(os.path.join(local(self.shards[shard]["db_url"]), "shard.db"), "rb") as f:
            n = struct.unpack(">H", f.read(18)[16:])[0]
        return 65536 if n == 1 else n

    def all_rows(self):
        return {i: self.rows(i) for i in self.shards}


def hash_shard(key, n):
    data = key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key.encode() if isinstance(key, str) else key
    return xxhash.xxh3_64_intdigest(data) % n


def stored(key, encoding):
    if encoding == "u64be":
        return struct.pack(">Q", key)
    if encoding == "u32be":
        return struct.pack(">I", key)
    return key.encode() if isinstance(key, str) else key


def expected(rows, route, encoding):
    """Shard to stored key to value; of equal keys the last one counts."""
    shards = {}
    for row in rows:
        shards.setdefault(route(row), {})[stored(row[0], encoding)] = row[1]
    return shards


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "snapshot")


def url_of(folder):
    return "file://" + folder


# ---- routing, encodings, strategies


def random_key(rng, encoding):
    if encoding == "u64be":
        return rng.choice([rng.randrange(100), rng.randrange(2**32), rng.randrange(2**63)])
    if encoding == "u32be":
        return rng.randrange(2**32)
    return "".join(rng.choice("abc/é日 \t\"',") for _ in range(rng.randrange(12)))


def jsonl_of(rows, names=("key", "value")):
    return "".join(json.dumps(dict(zip(names, r)), ensure_ascii=False) + "\n" for r in rows).encode()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("encoding", ["u64be", "u32be", "utf8", "raw"])
def test_every_row_lies_where_its_hash_says(folder, encoding, seed):
    rng = random.Random(seed)
    n = rng.choice([1, 3, 7, 16, 100])
    rows = [(random_key(rng, encoding), "v" * rng.randrange(50) + str(i)) for i in range(2000)]
    form = rng.choice(["csv", "jsonl"])
    data = csv_of(rows) if form == "csv" else jsonl_of(rows)
    result = build(url_of(folder), "--shards", n, "--key-encoding", encoding, "--format", form, "--jobs", 1 + seed, "-", data=data)
    snapshot = Snapshot(folder)
    want = expected([(k, v.encode()) for k, v in rows], lambda r: hash_shard(r[0], n), encoding)
    assert snapshot.all_rows() == want
    assert snapshot.meta["num_dbs"] == n == result["num_dbs"] and snapshot.meta["key_encoding"] == encoding and snapshot.meta["format_version"] == 4
    assert snapshot.sharding == {"strategy": "hash", "hash_algorithm": "xxh3_64", "cel_expr": None, "cel_columns": None, "routing_values": None}
    assert result["rows"] == 2000 and result["keys"] == sum(map(len, want.values()))
    keys = {}
    for k, _ in rows:
        keys.setdefault(hash_shard(k, n), []).append(k)
    for i, shard in snapshot.shards.items():
        assert shard["row_count"] == len(keys[i])
        assert json.loads(shard["min_key"]) == min(keys[i], key=lambda k: stored(k, encoding))
        assert json.loads(shard["max_key"]) == max(keys[i], key=lambda k: stored(k, encoding))
        assert set(json.loads(shard["writer_info"])) == {"attempt", "duration_ms", "stage_id", "task_attempt_id"}


COUNTRIES = ["de", "fr", "it", "us", "日本"]


def rows_with_columns(rng, n=3000):
    return [(i, f"v{i}", rng.choice(COUNTRIES), rng.randrange(5)) for i in rng.sample(range(10**6), n)]


@pytest.mark.parametrize("expression, columns, options, route, values", [
    ("key % 5", ["key:int"], [], lambda r: r[0] % 5, None),
    ("key % 5u", ["key:uint"], ["--shards", 5], lambda r: r[0] % 5, None),
    ("shard_hash(key) % 8u", ["key:int"], [], lambda r: hash_shard(r[0], 8), None),
    ("level", ["level:int"], [], lambda r: r[3], None),
    ("string(level)", ["level:int"], [], lambda r: r[3], None),
    ("country", ["country:string"], ["--routing-values", ",".join(reversed(COUNTRIES))], lambda r: COUNTRIES[::-1].index(r[2]), COUNTRIES[::-1]),
    ("country", ["country:string"], ["--infer-routing-values"], lambda r: sorted(COUNTRIES).index(r[2]), sorted(COUNTRIES)),
    ("-level * 10", ["level:int"], ["--infer-routing-values"], lambda r: 4 - r[3], [-40, -30, -20, -10, 0]),
    ("level + key % 2", ["level:int", "key:int"], ["--routing-values", "5,4,3,2,1,0"], lambda r: 5 - (r[3] + r[0] % 2), [5, 4, 3, 2, 1, 0]),
    ("shard_hash(country + ':' + string(level)) % 4u", ["country:string", "level:int"], [], lambda r: hash_shard(f"{r[2]}:{r[3]}", 4), None),
])
def test_every_row_lies_where_the_expression_says(folder, expression, columns, options, route, values):
    rows = rows_with_columns(random.Random(7))
    wanted = [x for c in columns for x in ("--cel-column", c)]
    for data in (csv_of(rows, ("key", "value", "country", "level")), jsonl_of(rows, ("key", "value", "country", "level"))):
        build(url_of(folder), "--cel", expression, *wanted, *options, "-", data=data)
        snapshot = Snapshot(folder)
        want = expected([(r[0], r[1].encode(), *r[2:]) for r in rows], route, "u64be")
        assert snapshot.all_rows() == want
        assert snapshot.meta["num_dbs"] == max(want) + 1
        assert snapshot.sharding == {"strategy": "cel", "hash_algorithm": "xxh3_64", "cel_expr": expression, "cel_columns": dict(c.split(":") for c in columns), "routing_values": values}


def test_shards_by_number_of_keys(folder):
    rows = [(i, "v") for i in range(1001)]
    assert build(url_of(folder), "--max-keys-per-shard", 100, "-", data=csv_of(rows))["num_dbs"] == 11
    assert Snapshot(folder).all_rows() == expected([(k, b"v") for k, _ in rows], lambda r: hash_shard(r[0], 11), "u64be")
    assert build(url_of(folder), "--max-keys-per-shard", 5000, "-", data=csv_of(rows))["num_dbs"] == 1
    assert build(url_of(folder), "--max-keys-per-shard", 1, "-", data=csv_of([]))["num_dbs"] == 1


# ---- rows of every kind


def test_of_equal_keys_the_last_one_counts(folder, tmp_path):
    (tmp_path / "a.csv").write_bytes(csv_of([(1, "a"), (1, "b"), (2, "c")]))
    (tmp_path / "b.csv").write_bytes(csv_of([(1, "z")]))
    result = build(url_of(folder), "--shards", 1, tmp_path / "a.csv", tmp_path / "b.csv")
    assert (result["rows"], result["keys"]) == (4, 2)
    snapshot = Snapshot(folder)
    assert snapshot.rows(0) == {struct.pack(">Q", 1): b"z", struct.pack(">Q", 2): b"c"}
    assert snapshot.shards[0]["row_count"] == 4  # rows fed, as the format's other writers count


def test_nothing_at_all_is_published_too(folder):
    assert build(url_of(folder), "--shards", 4, "-", data=csv_of([]))["rows"] == 0
    snapshot = Snapshot(folder)
    assert snapshot.shards == {} and snapshot.meta["num_dbs"] == 4
    build(url_of(folder), "--cel", "key", "--cel-column", "key:string", "--infer-routing-values", "-", data=csv_of([]))
    assert Snapshot(folder).sharding["routing_values"] == [] and Snapshot(folder).meta["num_dbs"] == 1


def test_binary_keys_have_no_smallest_and_greatest_in_json(folder):
    keys = [bytes(random.Random(i).randrange(256) for _ in range(i % 9)) for i in range(300)]
    rows = [(k, b"v%d" % i) for i, k in enumerate(keys)]
    data = "".join(json.dumps({"key": {"base64": base64.b64encode(k).decode()}, "value": v.decode()}) + "\n" for k, v in rows).encode()
    build(url_of(folder), "--shards", 2, "--key-encoding", "raw", "-", data=data)
    snapshot = Snapshot(folder)
    assert snapshot.all_rows() == expected(rows, lambda r: hash_shard(r[0], 2), "raw")
    assert [(s["min_key"], s["max_key"]) for s in snapshot.shards.values()] == [(None, None)] * 2


def test_values_made_of_several_fields(folder):
    build(url_of(folder), "--shards", 1, "--key", "id", "--value-json", "name,age", "-", data=b'{"id":1,"age":3,"name":"caf\xc3\xa9","x":0}\n{"id":2,"name":null}\n')
    assert Snapshot(folder).rows(0) == {struct.pack(">Q", 1): b'{"age":3,"name":"caf\\u00e9"}', struct.pack(">Q", 2): b'{"age":null,"name":null}'}
    assert Snapshot(folder).meta["key_col"] == "id"
    build(url_of(folder), "--shards", 1, "--value-json", "a", "-", data=csv_of([(1, "x,\"y\"\n")], ("key", "a")))
    assert Snapshot(folder).rows(0) == {struct.pack(">Q", 1): b'{"a":"x,\\"y\\"\\n"}'}


@pytest.mark.parametrize("sizes, page", [([100] * 50, 4096), ([3000] * 50, 16384), ([20] * 94 + [6000] * 6, 32768), ([20] * 96 + [6000] * 4, 4096), ([50000] * 20, 65536)])
def test_the_page_size_follows_the_sizes_of_values(folder, sizes, page):
    rows = [(i, "x" * n) for i, n in enumerate(sizes)]
    build(url_of(folder), "--shards", 1, "-", data=csv_of(rows))
    assert Snapshot(folder).page_size(0) == page
    assert Snapshot(folder).rows(0) == {struct.pack(">Q", k): v.encode() for k, v in rows}
    build(url_of(folder), "--shards", 1, "--page-size", 8192, "-", data=csv_of(rows))
    assert Snapshot(folder).page_size(0) == 8192


def test_a_page_size_that_only_holds_without_duplicates_is_found(folder):
    rows = [(1, "x" * 6000)] * 100 + [(i, "small") for i in range(100)]
    build(url_of(folder), "--shards", 1, "-", data=csv_of(rows))
    assert Snapshot(folder).page_size(0) == 4096


def test_more_rows_than_memory(folder, tmp_path):
    rng = random.Random(3)
    rows = [(rng.randrange(200000), f"{i}" + "x" * rng.randrange(300)) for i in range(250000)]
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_of(rows))
    result = build(url_of(folder), "--shards", 5, "--memory", "16mb", "--jobs", 3, path)
    want = expected([(k, v.encode()) for k, v in rows], lambda r: hash_shard(r[0], 5), "u64be")
    assert Snapshot(folder).all_rows() == want
    assert result["keys"] == sum(map(len, want.values()))


# ---- dumps and servers


def fill(client, n=500):
    rows = {b"k%d" % i: b"v%d" % i for i in range(n)}
    rows[b"\xff\x00bin"] = bytes(range(256))
    rows[b"number"] = b"12345"
    rows[b"long"] = b"ab" * 5000
    client.mset(rows)
    client.set("gone", "x", px=1)
    time.sleep(0.01)
    return rows


def all_of(folder):
    return {k: v for rows in Snapshot(folder).all_rows().values() for k, v in rows.items()}


def test_a_running_server_is_published(folder, server):
    client = server.client(decode_responses=False)
    rows = fill(client, 5000)
    result = build(url_of(folder), "--shards", 3, "--from", f"127.0.0.1:{server.port}")
    assert all_of(folder) == rows and result["keys"] == len(rows)
    assert Snapshot(folder).meta["key_encoding"] == "raw"
    client.rpush("list", "a")
    assert "only strings can be published" in refuse(url_of(folder), "--shards", 3, "--from", f"127.0.0.1:{server.port}")
    assert build(url_of(folder), "--shards", 3, "--from", f"127.0.0.1:{server.port}", "--skip-other-types")["left_out"] == 1
    assert all_of(folder) == rows


def test_a_data_directory_is_published(folder, make_server, tmp_path):
    data = str(tmp_path / "data")
    server = make_server(workers=2, data=data)
    rows = fill(server.client(decode_responses=False))
    assert "is in use by a server" in refuse(url_of(folder), "--shards", 2, data)
    server.stop()
    build(url_of(folder), "--shards", 2, data)
    assert all_of(folder) == rows


def test_a_dump_of_redis_is_published(folder, redis_reference):
    client = redis_reference.client(decode_responses=False)
    rows = fill(client)
    path = os.path.join(client.config_get("dir")["dir"], "dump.rdb")
    client.save()
    build(url_of(folder), "--shards", 2, path)
    assert all_of(folder) == rows
    client.hset("hash", "f", "v")
    client.save()
    assert "a hash cannot be published" in refuse(url_of(folder), "--shards", 2, path)
    assert build(url_of(folder), "--shards", 2, "--skip-other-types", path)["left_out"] >= 1
    assert all_of(folder) == rows


# ---- reuse


def test_shards_that_did_not_change_are_used_again(folder):
    rows = [(i, f"v{i}") for i in range(4000)]
    first = build(url_of(folder), "--shards", 8, "-", data=csv_of(rows))
    before = Snapshot(folder).shards
    rows[17] = (17, "changed")
    second = build(url_of(folder), "--shards", 8, "-", data=csv_of(reversed(rows)))
    after = Snapshot(folder)
    assert (first["shards_written"], second["shards_written"], second["shards_reused"]) == (8, 1, 7)
    assert second["uploaded_bytes"] < second["bytes"]
    changed = hash_shard(17, 8)
    for i in range(8):
        same = (before[i]["db_url"], before[i]["checkpoint_id"]) == (after.shards[i]["db_url"], after.shards[i]["checkpoint_id"])
        assert same == (i != changed)
    assert after.all_rows() == expected([(k, v.encode()) for k, v in rows], lambda r: hash_shard(r[0], 8), "u64be")
    assert build(url_of(folder), "--shards", 8, "--no-reuse", "-", data=csv_of(rows))["shards_reused"] == 0
    assert build(url_of(folder), "--shards", 8, "-", data=csv_of(rows))["shards_written"] == 0


def test_a_shard_that_is_gone_is_not_used_again(folder):
    rows = csv_of([(i, "v") for i in range(100)])
    build(url_of(folder), "--shards", 2, "-", data=rows)
    os.remove(os.path.join(local(Snapshot(folder).shards[1]["db_url"]), "shard.db"))
    result = build(url_of(folder), "--shards", 2, "-", data=rows)
    assert (result["shards_written"], result["shards_reused"]) == (1, 1)
    assert len(all_of(folder)) == 100


# ---- what goes wrong


def run_records(folder):
    runs = os.path.join(folder, "runs")
    return [open(os.path.join(runs, name, "run.yaml")).read() for name in sorted(os.listdir(runs))]


def test_bad_rows_end_the_build_with_file_and_line(folder, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"key,value\n1,a\nx,b\n2,\"c\"d\n3,e,f\n4,g\n")
    assert f"{path}:3: key 'x': the key is not a natural number" in refuse(url_of(folder), "--shards", 2, path)
    assert not os.path.exists(os.path.join(folder, "_CURRENT")) and not os.path.exists(os.path.join(folder, "manifests"))
    (record,) = run_records(folder)
    assert "status: failed" in record and "rows.csv:3" in record
    rc, out, err = run(url_of(folder), "--shards", 2, "--bad-rows", "skip", path)
    assert rc == 3 and json.loads(out)["bad_rows"] == 3 and err.count("left out") == 3
    assert sorted(all_of(folder)) == [struct.pack(">Q", 1), struct.pack(">Q", 4)]


@pytest.mark.parametrize("args, data, what", [
    (["--shards", 2, "--key-encoding", "u32be"], b"key,value\n4294967296,a\n", "does not fit 32 bits"),
    (["--shards", 2], b"key,value\n9223372036854775808,a\n", "has no place under hash routing"),
    (["--shards", 2, "--key-encoding", "utf8"], b"key,value\n\xff,a\n", "not UTF-8"),
    (["--shards", 2, "--key-encoding", "utf8"], b'{"key":5,"value":"a"}\n', "the encoding is for text or bytes"),
    (["--cel", "country", "--cel-column", "country:string", "--routing-values", "de,fr"], b"key,value,country\n1,a,xx\n", "gives 'xx', which is none of the routing values"),
    (["--cel", "key * 2", "--cel-column", "key:int"], b"key,value\n0,a\n1,b\n", "gave shards up to 2, but never 1"),
    (["--cel", "key - 5", "--cel-column", "key:int"], b"key,value\n0,a\n", "gives -5, which is no shard"),
    (["--cel", "n", "--cel-column", "n:int"], b"key,value,n\n0,a,1x\n", "column n: '1x' is no int"),
    (["--cel", "n", "--cel-column", "n:int"], b"key,value\n0,a\n", "no field 'n' in the header"),
    (["--cel", "1 / key", "--cel-column", "key:int"], b"key,value\n0,a\n", "divi"),
    (["--cel", "key", "--cel-column", "key:int", "--shards", 3], b"key,value\n0,a\n1,b\n", "makes 2 shards, not 3"),
    (["--shards", 2, "--key", "id"], b"key,value\n0,a\n", "no field 'id' in the header"),
])
def test_what_cannot_be_published_is_named(folder, args, data, what):
    assert what in refuse(url_of(folder), *args, "-", data=data)
    assert not os.path.exists(os.path.join(folder, "_CURRENT"))


@pytest.mark.parametrize("args", [
    ["-"], ["--shards", 2, "--max-keys-per-shard", 2, "-"], ["--shards", 0, "-"], ["--shards", 2], ["--shards", 2, "--page-size", 5000, "-"], ["--shards", 2, "--key-encoding", "x", "-"],
    ["--cel", "key", "-"], ["--cel", "key +", "--cel-column", "key:int", "-"], ["--cel", "true", "--cel-column", "key:int", "-"], ["--cel", "key", "--cel-column", "key", "-"],
    ["--shards", 2, "--value", "a", "--value-json", "b", "-"], ["--shards", 2, "--run-id", "a/b", "-"], ["--shards", 2, "--nonsense", "-"], ["--shards", 70000, "-"],
])
def test_wrong_command_lines_have_their_own_exit_status(folder, args):
    refuse(url_of(folder), *args, data=b"key,value\n", code=2)
    assert not os.path.exists(os.path.join(folder, "_CURRENT"))


def test_missing_inputs_and_stores_are_told(folder, tmp_path):
    assert "No such file" in refuse(url_of(folder), "--shards", 2, tmp_path / "none.csv")
    assert not os.path.exists(folder)
    assert "ftp" in refuse("ftp://x/y", "--shards", 2, "-", data=b"key,value\n")
    assert "temporary" in refuse(url_of(folder), "--shards", 2, "--tmp", "/nowhere/at/all", "-", data=csv_of([(1, 2)]))


# ---- interrupted, killed, overtaken


def begin(folder, *args):
    """A build that waits for more rows on its standard input, and has written its run record."""
    p = subprocess.Popen(command(url_of(folder), "--shards", 2, *args, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env())
    p.stdin.write(b"key,value\n" + b"".join(b"%d,v\n" % i for i in range(1000)))
    p.stdin.flush()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not any("status: running" in open(p).read() for p in glob.glob(folder + "/runs/*/run.yaml")):
        time.sleep(0.02)
    assert any("status: running" in r for r in run_records(folder))
    return p


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_a_failed_record_and_nothing_visible(folder, sign):
    p = begin(folder)
    p.send_signal(sign)
    assert p.wait(30) == 1
    assert p.stdout.read() == b"" and b"interrupted" in p.stderr.read()
    (record,) = run_records(folder)
    assert "status: failed" in record and "error_type: KeyboardInterrupt" in record
    assert sorted(os.listdir(folder)) == ["runs"]


def test_a_killed_build_leaves_no_visible_trace(folder, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    build(url_of(folder), "--shards", 2, "-", data=csv_of([(1, "old")]))
    before = Snapshot(folder).pointer
    p = begin(folder, "--tmp", str(scratch))
    p.kill()
    p.wait(30)
    assert Snapshot(folder).pointer == before and all_of(folder) == {struct.pack(">Q", 1): b"old"}
    assert os.listdir(scratch) == []
    assert len(os.listdir(folder + "/manifests")) == 1 and len(os.listdir(folder + "/shards")) == 1


def test_two_builds_at_once_do_not_overwrite_each_other(folder):
    p = begin(folder)
    build(url_of(folder), "--shards", 1, "-", data=csv_of([(7, "theirs")]))
    p.stdin.close()
    assert p.wait(60) == 1
    assert b"somebody else has published meanwhile" in p.stderr.read()
    assert all_of(folder) == {struct.pack(">Q", 7): b"theirs"}
    assert any("status: failed" in r and "PublishCurrentError" in r for r in run_records(folder))


# ---- the other commands, and S3


def test_what_was_built_is_verified_and_read_by_the_other_commands(folder):
    rows = [(i, f"v{i}" * (1 + i % 700)) for i in range(2000)]
    build(url_of(folder), "--shards", 4, "-", data=csv_of(rows))
    verify = subprocess.run([SHERD, "snapshot", "verify", url_of(folder)], stdout=subprocess.PIPE, timeout=60, env=clean_env())
    assert verify.returncode == 0, verify.stdout
    for mode in ("download", "range"):
        got = subprocess.run([SHERD, "snapshot", "get", url_of(folder), "1234", "--mode", mode, "--cache", folder + "-cache"], stdout=subprocess.PIPE, timeout=60, env=clean_env())
        assert got.stdout.rstrip(b"\n") == rows[1234][1].encode()


def test_a_bucket_holds_a_snapshot_with_its_sidecars(s3, tmp_path):
    url = s3.url + "/snap"
    rows = csv_of([(i, "v" * 500) for i in range(3000)])
    first = build(url, "--shards", 3, "-", data=rows, env=s3.env)
    assert first["shards_written"] == 3 and first["guard"] in ("store", "reread")
    second = build(url, "--shards", 3, "-", data=rows, env=s3.env)
    assert second["shards_reused"] == 3
    verify = subprocess.run([SHERD, "snapshot", "verify", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, env={**clean_env(), **s3.env})
    assert verify.returncode == 0, verify.stderr
    for mode in ("download", "range"):
        got = subprocess.run([SHERD, "snapshot", "get", url, "77", "--mode", mode, "--cache", str(tmp_path / "cache")], stdout=subprocess.PIPE, timeout=60, env={**clean_env(), **s3.env})
        assert got.stdout.rstrip(b"\n") == b"v" * 500


def test_a_missing_bucket_is_told(s3):
    rc, out, err = run(s3.url.replace(s3.bucket, "no-such-bucket-here") + "/x", "--shards", 1, "-", data=b"key,value\n", env=s3.env)
    assert rc == 1 and "NoSuchBucket" in err
