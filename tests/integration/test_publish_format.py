"""What Sherd publishes, looked at with Python's sqlite3, json and yaml alone: paths, header bytes, schema, JSON keys, run record."""
import hashlib
import json
import os
import re
import sqlite3
import struct
import subprocess

import pytest
import yaml

from conftest import SHERD
from s3server import s3, s3_open, s3_strict  # noqa: F401

TOOL = os.path.join(os.path.dirname(SHERD), "tools", "publish_tool")
TS = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z"

BUILD_META = [("run_id", "TEXT", 1, None), ("created_at", "TEXT", 1, None), ("num_dbs", "INTEGER", 1, None), ("s3_prefix", "TEXT", 1, None), ("key_col", "TEXT", 1, None),
              ("sharding", "TEXT", 1, None), ("db_path_template", "TEXT", 1, None), ("shard_prefix", "TEXT", 1, None), ("format_version", "INTEGER", 1, None),
              ("key_encoding", "TEXT", 1, None), ("custom", "TEXT", 1, "'{}'")]
SHARDS = [("db_id", "INTEGER", 1, None), ("db_url", "TEXT", 0, None), ("attempt", "INTEGER", 1, None), ("row_count", "INTEGER", 1, None), ("db_bytes", "INTEGER", 1, None),
          ("min_key", "TEXT", 0, None), ("max_key", "TEXT", 0, None), ("checkpoint_id", "TEXT", 0, None), ("writer_info", "TEXT", 1, "'{}'")]


class Published:
    """A snapshot in a folder, read without any of Sherd's code."""

    def __init__(self, folder, run_id, kind):
        self.folder, self.url = str(folder), f"file://{folder}"
        run = subprocess.run([TOOL, self.url, run_id, kind], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        self.manifest_ref, self.record_ref = run.stdout.split()

    def path(self, url):
        assert url.startswith(self.url + "/")
        return self.folder + url[len(self.url):]

    def read(self, url):
        with open(self.path(url), "rb") as f:
            return f.read()

    def manifest(self):
        db = sqlite3.connect(f"file:{self.path(self.manifest_ref)}?mode=ro&immutable=1", uri=True)
        db.row_factory = sqlite3.Row
        return db


@pytest.fixture(params=["hash", "cel"])
def published(request, tmp_path):
    return Published(tmp_path / "snap", "run-1", request.param)


def test_paths(published):
    files = sorted(os.path.relpath(os.path.join(d, f), published.folder) for d, _, names in os.walk(published.folder) for f in names if not f.startswith("."))
    assert files[0] == "_CURRENT"
    assert re.fullmatch(rf"manifests/{TS}_run_id=run-1/manifest", files[1])
    assert re.fullmatch(rf"runs/{TS}_run_id=run-1_[0-9a-f]{{32}}/run\.yaml", files[2])
    assert files[3:] == [f"shards/run_id=run-1/db={i:05d}/attempt=00/shard.db" for i in range(3)]  # the losing attempt is gone


def test_pointer_is_what_json_dumps_would_write(published):
    text = published.read(published.url + "/_CURRENT").decode("ascii")
    pointer = json.loads(text)
    assert text == json.dumps(pointer, sort_keys=True, separators=(",", ":"))
    assert set(pointer) == {"format_version", "manifest_content_type", "manifest_ref", "run_id", "updated_at"}
    assert pointer["format_version"] == 1 and pointer["manifest_content_type"] == "application/x-sqlite3" and pointer["run_id"] == "run-1"
    assert pointer["manifest_ref"] == published.manifest_ref
    assert re.fullmatch(TS, pointer["updated_at"])


def check_header(image, page_size):
    assert image[:16] == b"SQLite format 3\0"
    assert struct.unpack(">H", image[16:18])[0] == page_size
    assert image[18:20] == b"\1\1"  # no write-ahead log
    assert image[20] == 0           # no reserved bytes
    assert struct.unpack(">I", image[56:60])[0] == 1  # UTF-8
    assert struct.unpack(">II", image[60:64] + image[68:72]) == (0, 0)  # user_version, application_id
    assert len(image) % page_size == 0 and struct.unpack(">I", image[28:32])[0] == len(image) // page_size


def test_manifest_image(published):
    check_header(published.read(published.manifest_ref), 4096)
    db = published.manifest()
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    for table, columns in (("build_meta", BUILD_META), ("shards", SHARDS)):
        assert [(c["name"], c["type"], c["notnull"], c["dflt_value"]) for c in db.execute(f"PRAGMA table_info({table})")] == columns
    (meta,) = db.execute("SELECT * FROM build_meta").fetchall()
    assert meta["run_id"] == "run-1" and meta["format_version"] == 4 and meta["s3_prefix"] == published.url and meta["key_col"] == "_key"
    assert meta["db_path_template"] == "db={db_id:05d}" and meta["shard_prefix"] == "shards" and meta["db_path_template"].format(db_id=7) == "db=00007"
    assert re.fullmatch(TS, meta["created_at"])
    sharding = json.loads(meta["sharding"])
    assert meta["sharding"] == json.dumps(sharding, sort_keys=True)
    assert sharding["hash_algorithm"] == "xxh3_64" and set(sharding) == {"strategy", "hash_algorithm", "cel_expr", "cel_columns", "routing_values"}
    if sharding["strategy"] == "hash":
        assert (sharding["cel_expr"], sharding["cel_columns"], sharding["routing_values"]) == (None, None, None)
        assert meta["num_dbs"] == 3 and meta["key_encoding"] == "u64be"
    else:
        assert (sharding["cel_expr"], sharding["cel_columns"], sharding["routing_values"]) == ("region", {"region": "string"}, ["ap", "eu", "us", "nö"])
        assert meta["num_dbs"] == 4 and meta["key_encoding"] == "utf8"
    assert json.loads(meta["custom"]) == {"owner": "test"}


def test_shards_are_what_the_manifest_says(published):
    db = published.manifest()
    encoding = db.execute("SELECT key_encoding FROM build_meta").fetchone()[0]
    sums = {r["db_id"]: (r["sha256"], r["bytes"]) for r in db.execute("SELECT * FROM x_shards")}
    rows_seen = {}
    for i, shard in enumerate(db.execute("SELECT * FROM shards ORDER BY db_id")):
        assert shard["db_id"] == i and shard["attempt"] == 0 and shard["db_url"] == f"{published.url}/shards/run_id=run-1/db={i:05d}/attempt=00"
        assert isinstance(json.loads(shard["writer_info"]), dict)
        image = published.read(shard["db_url"] + "/shard.db")
        check_header(image, 4096)
        assert len(image) == shard["db_bytes"]
        assert sums[i] == (hashlib.sha256(image).hexdigest(), len(image))
        file = sqlite3.connect(f"file:{published.path(shard['db_url'])}/shard.db?mode=ro&immutable=1", uri=True)
        assert file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert [tuple(r) for r in file.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master")] == [
            ("table", "kv", "kv", 2, "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")]
        rows = file.execute("SELECT k, v FROM kv ORDER BY k").fetchall()
        keys = [int.from_bytes(k, "big") if encoding == "u64be" else k.decode() for k, _ in rows]
        assert len(rows) == shard["row_count"] and json.loads(shard["min_key"]) == keys[0] and json.loads(shard["max_key"]) == keys[-1]
        rows_seen.update((k, v) for k, (_, v) in zip(keys, rows))
    assert rows_seen == {(n if encoding == "u64be" else f"k{n:04d}"): b"v%d" % n for n in range(500)}


def test_run_record_is_what_yaml_safe_dump_would_write(published):
    text = published.read(published.record_ref).decode()
    record = yaml.safe_load(text)
    assert set(record) == {"db_path_template", "error_message", "error_type", "format_version", "lease_expires_at", "manifest_ref", "run_id", "s3_prefix", "shard_prefix", "started_at",
                           "status", "updated_at", "writer_type"}
    assert text == yaml.safe_dump(record, width=10000)  # lines are not folded
    assert record["status"] == "succeeded" and record["format_version"] == 1 and record["manifest_ref"] == published.manifest_ref and record["writer_type"] == "sherd"
    assert record["lease_expires_at"] == record["updated_at"] and isinstance(record["started_at"], str) and re.fullmatch(TS, record["started_at"])
    assert record["error_type"] is None and record["error_message"] is None


def test_a_second_publish_swaps_the_pointer_and_keeps_the_first(tmp_path):
    first = Published(tmp_path / "snap", "one", "hash")
    second = Published(tmp_path / "snap", "two", "hash")
    assert json.loads(second.read(second.url + "/_CURRENT"))["run_id"] == "two"
    assert os.path.exists(first.path(first.manifest_ref)) and first.manifest_ref < second.manifest_ref


def on_s3(server, *command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and not k.lower().endswith("_proxy")}
    env.update(server.env, HOME="/nonexistent")
    run = subprocess.run(command, env=env, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def test_publishing_to_s3(s3):  # noqa: F811
    url = s3.url + "/published"
    object_tool = os.path.join(os.path.dirname(SHERD), "tools", "object_tool")
    for run_id in ("one", "two"):
        ref = on_s3(s3, TOOL, url, run_id, "hash").split()[0].decode()
        pointer = json.loads(on_s3(s3, object_tool, url, "get", "_CURRENT"))
        assert pointer["run_id"] == run_id and pointer["manifest_ref"] == ref and ref.startswith(url + "/manifests/")
        db = sqlite3.connect(":memory:")
        db.deserialize(on_s3(s3, object_tool, url, "get", ref[len(url) + 1:]))
        assert db.execute("SELECT s3_prefix FROM build_meta").fetchone()[0] == url
        assert [r[0] for r in db.execute("SELECT db_url FROM shards")] == [f"{url}/shards/run_id={run_id}/db={i:05d}/attempt=00" for i in range(3)]
