"""The format once more, in plain Python, from its description: xxhash, sqlite3 and json, nothing of Sherd's."""
import json
import os
import sqlite3

import xxhash


def canonical(key):
    if isinstance(key, int):
        return key.to_bytes(8, "little", signed=True)
    return key.encode() if isinstance(key, str) else bytes(key)


def hashed(key):
    return xxhash.xxh3_64_intdigest(canonical(key), seed=0)


def shard_by_hash(key, num_dbs):
    return hashed(key) % num_dbs


def stored(key, encoding):
    if encoding == "u64be":
        return key.to_bytes(8, "big")
    if encoding == "u32be":
        return key.to_bytes(4, "big")
    return key.encode() if isinstance(key, str) else bytes(key)


class Snapshot:
    """A published snapshot below file://, read with SQLite itself."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "_CURRENT")) as f:
            self.current = json.load(f)
        ref = self.current["manifest_ref"]
        assert ref.startswith(f"file://{folder}/")
        self.manifest = self.rows(ref[len("file://"):], "SELECT * FROM build_meta")[0]
        self.sharding = json.loads(self.manifest["sharding"])
        self.shards = {row["db_id"]: row for row in self.rows(ref[len("file://"):], "SELECT * FROM shards")}

    @staticmethod
    def rows(path, sql, args=()):
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return connection.execute(sql, args).fetchall()
        finally:
            connection.close()

    def file(self, db_id):
        return self.shards[db_id]["db_url"][len("file://"):] + "/shard.db"

    def check(self):
        for db_id in self.shards:
            assert [tuple(r) for r in self.rows(self.file(db_id), "PRAGMA integrity_check")] == [("ok",)]

    def contents(self):
        """{(shard, stored key): value}"""
        return {(db_id, bytes(k)): v for db_id in self.shards for k, v in self.rows(self.file(db_id), "SELECT k, v FROM kv")}


def run_records(folder):
    """{run_id: status} of the run records."""
    found = {}
    runs = os.path.join(folder, "runs")
    for name in sorted(os.listdir(runs)) if os.path.isdir(runs) else []:
        with open(os.path.join(runs, name, "run.yaml")) as f:
            fields = dict(line.rstrip("\n").split(": ", 1) for line in f if ": " in line)
        found[fields["run_id"].strip("'")] = fields
    return found
