"""Shard files against SQLite itself and against the files of the format's own writer: what one writes, the other reads."""
import glob
import hashlib
import json
import os
import random
import sqlite3
import struct
import subprocess

import pytest

from conftest import ROOT, SHERD

TOOL = os.path.join(os.path.dirname(SHERD), "tools", "shard_tool")
SNAPSHOTS = os.path.join(ROOT, "tests", "golden", "snapshots")
NAMES = sorted(os.path.basename(p)[: -len(".expected.json")] for p in glob.glob(SNAPSHOTS + "/*.expected.json"))
SQL = "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
PAGE_SIZES = [4096, 8192, 16384, 32768, 65536]


def tool(*args, **kwargs):
    return subprocess.run([TOOL, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **kwargs)


def read_rows(path):
    """{key: (length, SHA-256)} as our reader finds them, which must be in order."""
    done = tool("rows", path)
    assert done.returncode == 0, done.stderr
    rows = []
    for line in done.stdout.decode().splitlines():
        key, length, digest = line.split(" ")
        rows.append((bytes.fromhex(key), (int(length), digest)))
    assert [k for k, _ in rows] == sorted({k for k, _ in rows})
    return dict(rows)


def digests(rows):
    return {k: (len(v), hashlib.sha256(v).hexdigest()) for k, v in rows.items()}


def refusal(path):
    done = tool("rows", path)
    assert done.returncode == 1, (done.returncode, done.stderr)
    return done.stderr.decode()


# ---- the format's own writer


def stored(key, name):
    if isinstance(key, dict):
        return bytes.fromhex(key["hex"])
    if isinstance(key, str):
        return key.encode()
    return struct.pack(">I" if "u32be" in name else ">Q", key)


def test_there_are_golden_snapshots():
    assert len(NAMES) == 8


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_the_golden_snapshots_is_read(name):
    with open(f"{SNAPSHOTS}/{name}.expected.json") as f:
        expected = json.load(f)
    found = {}
    for shard in expected["shards"]:
        path = os.path.join(SNAPSHOTS, shard["db_url"][len("s3://"):], "shard.db")
        rows = read_rows(path)
        assert len(rows) == shard["row_count"]
        assert os.path.getsize(path) == shard["db_bytes"]
        found.update(rows)
    assert found == {stored(row["key"], name): (row["len"], row["sha256"]) for row in expected["rows"]}


# ---- our writer, read by SQLite


def write(path, rows, page_size):
    data = b"".join(struct.pack("<II", len(k), len(v)) + k + v for k, v in sorted(rows.items()))
    done = tool("write", path, page_size, input=data)
    assert done.returncode == 0, done.stderr


def check_written(path, rows, page_size):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA page_size").fetchone() == (page_size,)
    assert db.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema").fetchall() == [("table", "kv", "kv", 2, SQL)]
    assert dict(db.execute("SELECT k, v FROM kv")) == rows
    assert db.execute("SELECT count(*) FROM kv WHERE typeof(k) <> 'blob' OR typeof(v) <> 'blob'").fetchone() == (0,)
    for key in list(rows)[:50]:
        assert db.execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone() == (rows[key],)
    db.close()
    assert read_rows(path) == digests(rows)


def random_rows(rng, n, key_max, value_max):
    return {rng.randbytes(rng.randint(0, key_max)): rng.randbytes(rng.choice([rng.randint(0, min(value_max, 40)), rng.randint(0, value_max)])) for _ in range(n)}


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_sqlite_finds_our_files_sound_and_reads_every_row(tmp_path, page_size):
    rng = random.Random(page_size)
    shapes = [(0, 1, 1), (1, 8, 8), (1, 0, 0), (2, 8, page_size), (37, 8, 100), (300, 8, 30), (500, 2 * page_size, 50), (200, 20, 3 * page_size), (4000, 12, 60), (1500, 300, 300)]
    for n, key_max, value_max in shapes:
        rows = random_rows(rng, n, key_max, value_max)
        path = str(tmp_path / "shard.db")
        write(path, rows, page_size)
        check_written(path, rows, page_size)


def test_sqlite_agrees_around_the_sizes_where_a_page_is_full(tmp_path):
    """Every number of rows while the first leaf, and then the first interior page, fills up."""
    path = str(tmp_path / "shard.db")
    for size in (40, 900):
        for n in list(range(1, 90, 7)) + list(range(88, 100)) + list(range(4, 24)):
            rows = {b"%06d" % i: bytes([i % 256]) * size for i in range(n)}
            write(path, rows, 4096)
            check_written(path, rows, 4096)


def test_our_header_is_that_of_the_formats_writer(tmp_path):
    path = str(tmp_path / "shard.db")
    theirs = glob.glob(SNAPSHOTS + "/fx/cel-cat/shards/*/db=00000/*/shard.db")[0]
    with open(theirs, "rb") as f:
        want = f.read(100)
    for page_size in PAGE_SIZES:
        write(path, {b"k": b"v"}, page_size)
        with open(path, "rb") as f:
            got = f.read(100)
        assert got[16:18] == struct.pack(">H", 1 if page_size == 65536 else page_size)
        assert got[:16] + got[18:24] == want[:16] + want[18:24]
        assert got[28:32] == struct.pack(">I", 2)
        assert got[32:40] == want[32:40]  # no free pages
        assert got[44:92] == want[44:92]
        assert got[24:28] == got[92:96]


# ---- SQLite's files, read by us


def make_database(path, page_size, statements, rows=(), sql=SQL):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size={page_size}")
    db.execute("BEGIN")
    db.execute(sql)
    db.executemany("INSERT OR REPLACE INTO kv(k, v) VALUES (?, ?)", rows)
    db.execute("COMMIT")
    for statement in statements:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize("page_size", [512, 1024, *PAGE_SIZES])
def test_files_that_sqlite_wrote_in_random_order_are_read(tmp_path, page_size):
    rng = random.Random(7 * page_size)
    for n, key_max, value_max in [(0, 1, 1), (1, 1, 1), (900, 12, 90), (300, 2 * page_size, 3 * page_size), (2500, 9, 20)]:
        rows = random_rows(rng, n, key_max, value_max)
        items = list(rows.items())
        rng.shuffle(items)
        path = str(tmp_path / f"{n}-{key_max}.db")
        make_database(path, page_size, ["DELETE FROM kv WHERE abs(random()) % 3 = 0", "VACUUM"] if n == 900 else [], items)
        db = sqlite3.connect(path)
        rows = dict(db.execute("SELECT k, v FROM kv"))
        db.close()
        assert read_rows(path) == digests(rows)


def test_text_values_are_read_and_rows_with_text_keys_passed_over(tmp_path):
    path = str(tmp_path / "text.db")
    rows = [(b"a", "text"), (b"b", "\u65e5\u672c" * 3000), ("a", b"never found"), ("zz", b"nor this"), (5, b"nor a number"), (b"", b"empty key"), (b"c", b"")]
    make_database(path, 4096, [], rows)
    assert read_rows(path) == digests({k: v.encode() if isinstance(v, str) else v for k, v in rows if isinstance(k, bytes)})


def test_other_tables_and_indices_do_no_harm(tmp_path):
    path = str(tmp_path / "more.db")
    rows = {b"%d" % i: b"v%d" % i for i in range(1000)}
    more = [f"CREATE TABLE x_{i} (a INTEGER PRIMARY KEY, b TEXT DEFAULT '{'long' * 100}')" for i in range(60)]
    make_database(path, 1024, [*more, "CREATE INDEX by_value ON kv(v)", "CREATE VIEW w AS SELECT k FROM kv", "ANALYZE"], rows.items())
    assert read_rows(path) == digests(rows)


@pytest.mark.parametrize("sql", [
    'create  table "kv"\n(\tk blob primary key,v blob not null) without rowid',
    "CREATE TABLE [kv] (k BLOB PRIMARY KEY, v BLOB NOT NULL)WITHOUT ROWID",
])
def test_spaces_case_and_quotes_of_the_schema_are_free(tmp_path, sql):
    path = str(tmp_path / "free.db")
    make_database(path, 4096, [], [(b"k", b"v")], sql)
    assert read_rows(path) == digests({b"k": b"v"})


@pytest.mark.parametrize("sql", [
    "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL)",
    "CREATE TABLE kv (k BLOB, v BLOB NOT NULL, PRIMARY KEY (k DESC)) WITHOUT ROWID",
    "CREATE TABLE kv (v BLOB NOT NULL, k BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE kv (k TEXT PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID",
])
def test_tables_of_another_form_are_refused(tmp_path, sql):
    path = str(tmp_path / "other.db")
    make_database(path, 4096, [], [(b"k", b"v")], sql)
    assert refusal(path) == "ERR_SHARD_UNSUPPORTED: kv is not a table kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID\n"


def test_databases_in_write_ahead_mode_or_without_the_table_are_refused(tmp_path):
    path = str(tmp_path / "wal.db")
    make_database(path, 4096, ["PRAGMA journal_mode=WAL"], [(b"k", b"v")])
    assert "write-ahead" in refusal(path)
    path = str(tmp_path / "none.db")
    make_database(path, 4096, ["ALTER TABLE kv RENAME TO vk"])
    assert "there is no table kv" in refusal(path)
