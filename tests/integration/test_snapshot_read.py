"""Reading published snapshots with `sherd snapshot` and libsherd: what another writer published, from folders and from a real S3 server, in every way of reading, and the shapes of the output."""
import base64
import hashlib
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import ROOT, SHERD, clean_env
from s3server import Proxy, s3, s3_strict  # noqa: F401

GOLDEN = os.path.join(ROOT, "tests", "golden", "snapshots")
NAMES = sorted(f[: -len(".expected.json")] for f in os.listdir(GOLDEN) if f.endswith(".expected.json"))
TIMEOUT = 120


def sherd(*args, env=None, text=None, code=0):
    run = subprocess.run([SHERD, "snapshot", *args], input=text, env={**clean_env(), **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
    assert run.returncode == code, (run.returncode, run.stdout[-500:], run.stderr[-500:])
    return run


def answer(*args, **more):
    """The one line of JSON that a command answers with."""
    return json.loads(sherd(*args, "--output", "jsonl", **more).stdout)


def expected(name):
    with open(os.path.join(GOLDEN, f"{name}.expected.json")) as f:
        return json.load(f)


def word_of(key):
    """A key of the expected rows as the command line has it."""
    if isinstance(key, dict):
        return bytes.fromhex(key["hex"])
    return str(key).encode()


def check_rows(name, url, *args, env=None):
    """Every row has its value, by one call per routing context."""
    contexts = {}
    for row in expected(name)["rows"]:
        contexts.setdefault(tuple(sorted((row.get("ctx") or {}).items())), []).append(row)
    for context, rows in contexts.items():
        options = [o for k, v in context for o in ("--routing-context", f"{k}={v}")]
        got = answer("multiget", url, "-", *args, *options, env=env, text=b"".join(word_of(r["key"]) + b"\n" for r in rows))
        assert got["op"] == "multiget" and len(got["results"]) == len(rows)
        for row, result in zip(rows, got["results"]):
            assert result["found"], row
            value = base64.b64decode(result["value"])
            assert (len(value), hashlib.sha256(value).hexdigest()) == (row["len"], row["sha256"]), row
    return sum(len(rows) for rows in contexts.values())


WAYS = {"in place": [], "download": ["--mode", "download"], "range": ["--mode", "range"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_snapshots_of_another_writer_are_read_from_a_folder(name, way, tmp_path):
    cache = ["--cache", str(tmp_path)] if way == "download" else []
    url = f"file://{GOLDEN}/fx/{name}"
    assert check_rows(name, url, *WAYS[way], *cache) == len(expected(name)["rows"])
    if name != "cel-cat":
        assert answer("get", url, "77777777", *WAYS[way], *cache) == {"op": "get", "key": "77777777", "found": False, "value": None}


@pytest.fixture(scope="module")
def golden_bucket(s3):
    """The golden snapshots copied to the S3 server. Their manifests speak of a bucket of another name, as those of any copied snapshot."""
    root = os.path.join(GOLDEN, "fx")
    files = [os.path.relpath(os.path.join(folder, f), root) for folder, _, names in os.walk(root) for f in names]
    s3.ask(f"[s3.put_object(Bucket='{s3.bucket}', Key=f, Body=open('{root}/' + f, 'rb').read()) and 1 for f in {files!r}]")
    s3.golden = f"s3://{s3.bucket}"
    return s3


@pytest.mark.parametrize("mode", ["download", "range", "auto"])
@pytest.mark.parametrize("name", NAMES)
def test_snapshots_of_another_writer_are_read_from_s3(name, mode, golden_bucket, tmp_path):
    assert check_rows(name, f"{golden_bucket.golden}/{name}", "--mode", mode, "--cache", str(tmp_path), env=golden_bucket.env) == len(expected(name)["rows"])
    assert (list(tmp_path.glob("*.db")) != []) == (mode != "range" and len(expected(name)["shards"]) > 0)


def test_a_cold_lookup_by_ranges_is_one_request_for_data(golden_bucket):
    with Proxy(golden_bucket.port) as proxy:
        got = answer("get", golden_bucket.golden + "/hash-u64be", "1234", "--mode", "range", "--endpoint", proxy.endpoint, env=golden_bucket.env)
        assert got["found"]
        assert proxy.count("GET", "shard.db") == 1 and proxy.count("GET", "shard.sidecar") == 1 and proxy.count("HEAD") == 0
        assert len(proxy.requests) == 4  # pointer, manifest, sidecar, leaf


def test_a_cache_is_used_again_by_the_next_process(golden_bucket, tmp_path):
    args = ("multiget", golden_bucket.golden + "/hash-u64be", *map(str, range(50)), "--mode", "download", "--cache", str(tmp_path))
    with Proxy(golden_bucket.port) as proxy:
        first = answer(*args, "--endpoint", proxy.endpoint, env=golden_bucket.env)
        assert proxy.count("GET", "shard.db") == 4
        assert answer(*args, "--endpoint", proxy.endpoint, env=golden_bucket.env) == first
        assert proxy.count("GET", "shard.db") == 4


def test_processes_that_need_the_same_file_download_it_once(golden_bucket, tmp_path):
    with Proxy(golden_bucket.port) as proxy:
        command = [SHERD, "snapshot", "get", golden_bucket.golden + "/hash-u64be", "5", "--mode", "download", "--cache", str(tmp_path), "--endpoint", proxy.endpoint]
        runs = [subprocess.Popen(command, env={**clean_env(), **golden_bucket.env}, stdout=subprocess.PIPE) for _ in range(6)]
        assert {run.communicate(timeout=TIMEOUT)[0] for run in runs} == {b"5|5|5|5|5|5|\n"}
        assert proxy.count("GET", "shard.db") == 1


# ---- shapes


@pytest.fixture
def url():
    return f"file://{GOLDEN}/fx/hash-u64be"


def test_get_has_its_shapes(url):
    assert sherd("get", url, "5").stdout == b"5|5|5|5|5|5|\n"
    assert sherd("get", url, "5", "--value-encoding", "raw").stdout == b"5|5|5|5|5|5|"
    assert sherd("get", url, "5", "--value-encoding", "hex").stdout == b"5|5|5|5|5|5|".hex().encode() + b"\n"
    assert sherd("get", url, "5", "--output", "jsonl").stdout == b'{"op": "get", "key": "5", "found": true, "value": "NXw1fDV8NXw1fDV8"}\n'
    assert answer("get", url, "5", "--value-encoding", "utf8")["value"] == "5|5|5|5|5|5|"
    assert json.loads(sherd("get", url, "5", "--output", "json").stdout) == answer("get", url, "5")
    assert sherd("get", url, "99999").stdout == b"(not found)\n"
    assert b"found  true" in sherd("get", url, "5", "--output", "table").stdout
    sherd("get", url, "99999", "--strict", code=1)


def test_multiget_has_its_shapes(url):
    assert answer("multiget", url, "5", "99999")["results"] == [{"key": "5", "found": True, "value": "NXw1fDV8NXw1fDV8"}, {"key": "99999", "found": False, "value": None}]
    assert sherd("multiget", url, "5", "99999").stdout == b"5\t5|5|5|5|5|5|\n99999\t(not found)\n"
    assert sherd("multiget", url, "-", text=b"5\n6\n").stdout.count(b"\n") == 2
    table = sherd("multiget", url, "5", "6", "--output", "table").stdout.splitlines()
    assert table[0].split() == [b"key", b"found", b"value"] and len(table) == 3


def test_scans_are_in_order_and_bounded(url):
    keys = [json.loads(line)["key"] for line in sherd("scan", url, "--output", "jsonl").stdout.splitlines()]
    assert keys == sorted(r["key"] for r in expected("hash-u64be")["rows"])
    assert [r["key"] for r in json.loads(sherd("scan", url, "--start", "10", "--end", "13", "--output", "json").stdout)["rows"]] == [10, 11, 12]
    assert sherd("scan", url, "--after", "10", "--limit", "2", "--keys-only").stdout == b"11\n12\n"
    assert sherd("scan", url, "--end", "3", "--reverse", "--keys-only").stdout == b"2\n1\n0\n"
    assert json.loads(sherd("scan", url, "--start", "5", "--end", "5", "--output", "json").stdout) == {"op": "scan", "rows": []}
    of_shard = [json.loads(line)["key"] for line in sherd("scan", url, "--shard", "2", "--output", "jsonl").stdout.splitlines()]
    assert len(of_shard) == expected("hash-u64be")["shards"][2]["row_count"] and of_shard == sorted(of_shard)
    text = f"file://{GOLDEN}/fx/cel-cat"
    words = sorted(r["key"] for r in expected("cel-cat")["rows"])
    prefix = words[7][:-1]
    assert sherd("scan", text, "--prefix", prefix, "--keys-only").stdout.decode().split() == [w for w in words if w.startswith(prefix)]
    sherd("scan", url, "--prefix", "1", code=1)
    assert sherd("scan", url, "--start", "5", "--end", "6", "--output", "table").stdout.splitlines() == [b"key                   value", b"5                     NXw1fDV8NXw1fDV8"]
    assert sherd("scan", url, "--end", "2", "--keys-only", "--output", "table").stdout == b"key\n0\n1\n"


def test_info_shards_route_and_health_have_their_shapes(url):
    info = answer("info", url)
    assert list(info)[:9] == ["op", "run_id", "num_dbs", "sharding", "created_at", "manifest_ref", "row_count", "key_encoding", "hash_algorithm"]
    assert (info["run_id"], info["num_dbs"], info["sharding"], info["row_count"], info["key_encoding"], info["custom"]["owner"]) == ("run-hash-u64be", 4, "hash", 1503, "u64be", "fixture")
    shards = answer("shards", url)["shards"]
    for got, want in zip(shards, expected("hash-u64be")["shards"]):
        assert all(got[k] == want[k] for k in ("db_id", "row_count", "min_key", "max_key", "db_url", "db_bytes", "checkpoint_id"))
    sparse = answer("shards", f"file://{GOLDEN}/fx/hash-sparse-nosidecar")["shards"]
    assert [s["db_id"] for s in sparse] == list(range(16)) and sparse[0]["db_url"] is None
    assert sherd("route", url, "7").stdout == b"7 -> shard 3\n"
    assert answer("route", url, "7") == {"op": "route", "key": "7", "db_id": 3}
    health = answer("health", url)
    assert list(health) == ["op", "status", "manifest_ref", "manifest_age_seconds", "num_shards", "is_closed"] and health["status"] == "healthy"
    stale = answer("health", url, "--staleness-threshold", "1", code=1)
    assert stale["status"] == "degraded" and "older" in stale["reason"]


def test_errors_are_told_in_the_form_of_the_output(url, tmp_path):
    run = sherd("get", url, "abc", "--output", "jsonl", code=1)
    assert run.stdout == b"" and json.loads(run.stderr).keys() == {"op", "key", "error"}
    assert sherd("get", url, "abc", code=1).stderr.startswith(b"sherd: get abc: ")
    nothing = json.loads(sherd("info", f"file://{tmp_path}", "--output", "jsonl", code=1).stderr)
    assert nothing["op"] == "info" and "_CURRENT" in nothing["error"]
    assert "region" in json.loads(sherd("get", f"file://{GOLDEN}/fx/cel-cat", "x", "--output", "jsonl", code=1).stderr)["error"]
    unknown = answer("get", f"file://{GOLDEN}/fx/cel-cat", "x", "--routing-context", "region=moon")
    assert unknown["found"] is False
    sherd("route", f"file://{GOLDEN}/fx/cel-cat", "x", "--routing-context", "region=moon", code=1)


@pytest.mark.parametrize("words", [[], ["get"], ["get", "URL"], ["get", "URL", "1", "2"], ["get", "URL", "1", "--nonsense"], ["get", "URL", "1", "--mode", "fast"], ["rollback", "URL"],
                                   ["get", "URL", "1", "--ref", "x", "--offset", "1"], ["nonsense", "URL"], ["cleanup", "URL", "--older-than", "7"], ["info", "URL", "1"], ["history", "URL", "1"], ["scan", "URL", "1"],
                                   ["get", "URL", "1", "--dry-run"], ["history", "URL", "--offset", "1"], ["cleanup", "URL", "--offset", "1"], ["verify", "URL", "--keep-last", "1"]])
def test_wrong_command_lines_are_told(words, url):
    run = sherd(*[url if w == "URL" else w for w in words], code=2)
    assert run.stdout == b"" and run.stderr != b""


def test_every_command_has_help():
    names = re.findall(r"^  (\w+)  ", sherd("--help").stdout.decode(), re.M)
    assert {"get", "multiget", "scan", "info", "shards", "route", "health", "history", "rollback", "cleanup", "verify", "repl"} <= set(names)
    for name in names:
        assert b"usage: sherd snapshot " + name.encode() in sherd(name, "--help").stdout


def test_help_shows_the_options_of_the_command_alone():
    def shown(name):
        return set(re.findall(r"^  (--[a-z-]+)", sherd(name, "--help").stdout.decode(), re.M))
    assert {"--dry-run", "--keep-last", "--endpoint"} <= shown("cleanup") and "--prefix" not in shown("cleanup")
    assert {"--prefix", "--limit", "--mode", "--offset"} <= shown("scan") and "--dry-run" not in shown("scan")
    assert "--limit" in shown("history") and "--offset" not in shown("history")


# ---- several snapshots in one place


@pytest.fixture
def two(tmp_path):
    """A copy of a golden snapshot with a second manifest, older and with the same contents."""
    shutil.copytree(f"{GOLDEN}/fx/hash-u64be", tmp_path / "s")
    manifests = tmp_path / "s" / "manifests"
    (only,) = manifests.iterdir()
    shutil.copytree(only, manifests / "2026-01-02T03:04:05.000000Z_run_id=older")
    return f"file://{tmp_path}/s"


def test_history_pins_and_rollback(two):
    manifests = answer("history", two)["manifests"]
    assert [m["offset"] for m in manifests] == [0, 1] and [m["current"] for m in manifests] == [True, False]
    assert manifests[1]["run_id"] == "older" and manifests[1]["published_at"] == "2026-01-02T03:04:05.000000Z"
    assert list(manifests[0])[:4] == ["offset", "run_id", "published_at", "ref"]
    assert len(answer("history", two, "--limit", "1")["manifests"]) == 1
    for pin in (["--offset", "1"], ["--run-id", "older"], ["--ref", manifests[1]["ref"]]):
        info = answer("info", two, *pin)
        assert info["manifest_ref"] == manifests[1]["ref"] and info["pinned"]
    sherd("info", two, "--offset", "2", code=1)
    assert sherd("rollback", two, "--offset", "1").stdout.decode() == f"Rolled back _CURRENT to: {manifests[1]['ref']}\n"
    assert answer("info", two)["manifest_ref"] == manifests[1]["ref"]
    assert answer("get", two, "5")["found"]


def test_an_option_of_another_command_changes_nothing(two):
    before = answer("info", two)["manifest_ref"]
    assert b"--dry-run" in sherd("rollback", two, "--offset", "1", "--dry-run", code=2).stderr
    assert answer("info", two)["manifest_ref"] == before


def test_a_dry_run_says_how_much_would_go(two):
    told = sherd("cleanup", two, "--dry-run", "--keep-last", "1").stdout.decode().splitlines()
    assert told[0].startswith("would delete manifests/2026-01-02") and re.fullmatch(r"[1-9]\d* objects, .* would be deleted; 1 snapshots stay", told[-1])
    assert len(answer("history", two)["manifests"]) == 2
    assert re.fullmatch(r"[1-9]\d* objects, .* deleted; 1 snapshots kept", sherd("cleanup", two, "--keep-last", "1").stdout.decode().splitlines()[-1])
    assert len(answer("history", two)["manifests"]) == 1 and answer("verify", two)["ok"]


def test_verify_and_cleanup(two, tmp_path):
    verified = answer("verify", two)
    assert verified["ok"] and [s["state"] for s in verified["shards"]] == ["ok"] * 4
    report = answer("cleanup", two, "--dry-run")
    assert report["dry_run"] and report["items"] == [] and report["kept_snapshots"] == 2
    (shard,) = (tmp_path / "s").glob("shards/*/db=00002/*/shard.db")
    shard.unlink()
    run = sherd("verify", two, "--output", "jsonl", code=1)
    broken = json.loads(run.stdout)
    assert not broken["ok"] and [s["state"] for s in broken["shards"]] == ["ok", "ok", "missing", "ok"]
    failures = 0
    for key in range(40):
        on_two = answer("route", two, str(key))["db_id"] == 2
        run = sherd("get", two, str(key), code=1 if on_two else 0)
        failures += on_two
        assert not on_two or b"shard 2" in run.stderr
    assert failures > 0


# ---- the shell


def test_the_shell_works_without_a_terminal(two):
    lines = b"get 5\n\n# a remark\nuse --offset 1\noutput jsonl\ninfo\nuse --latest\nrefresh\nget '5'\nscan --limit 1\nquit\nget 6\n"
    out = sherd("repl", two, text=lines).stdout.decode().splitlines()
    assert out[0] == "5|5|5|5|5|5|"
    docs = [json.loads(line) for line in out if line.startswith("{")]
    assert [d.get("op") for d in docs] == ["info", "use", "refresh", "get", None]
    assert docs[0]["pinned"] and docs[1]["changed"] and not docs[2]["changed"]
    sherd("repl", two, text=b"nonsense\n", code=2)
    sherd("repl", two, text=b"get 'open\n", code=2)
    assert b"--offset" in sherd("repl", two, text=b"get 5 --offset 1\n", code=2).stderr  # `use` is for that


def test_the_shell_edits_lines_on_a_terminal(url, tmp_path):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(HOME=str(tmp_path), TERM="xterm")
        os.execv(SHERD, [SHERD, "snapshot", "repl", url])
    seen = b""

    def until(text):
        nonlocal seen
        end = time.monotonic() + 30
        while text not in seen:
            assert time.monotonic() < end, seen
            if select.select([fd], [], [], 1)[0]:
                seen += os.read(fd, 4096)
        seen = seen[seen.index(text) + len(text):]

    until(b"sherd> ")
    os.write(fd, b"get 66\x7f\n")  # a key that was mistyped, and the key that takes it back
    until(b"6|6|6|6|6|6|")
    os.write(fd, b"\x1b[A\n")  # the line before
    until(b"6|6|6|6|6|6|")
    os.write(fd, b"quit\n")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(fd)
    assert "get 6" in (tmp_path / ".sherd_snapshot_history").read_text().replace("\\040", " ")


# ---- the library


@pytest.fixture(scope="module")
def library():
    make = subprocess.run(["make", "--no-print-directory", "-C", ROOT, "BUILD=pic", "shared-lib"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200,
                          env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD", "O")})
    assert make.returncode == 0, make.stdout[-2000:]
    return os.path.join(ROOT, "build", "lib")


def test_the_library_shows_only_its_public_functions(library):
    names = subprocess.run(["nm", "-D", "--defined-only", f"{library}/libsherd.so"], check=True, stdout=subprocess.PIPE).stdout.decode().split("\n")
    shown = {line.split()[-1] for line in names if line}
    declared = set(re.findall(r"SHERD_API [^;]*?\*?(sherd_\w+)\(", open(os.path.join(ROOT, "include", "sherd.h")).read()))
    assert shown == declared and len(shown) >= 20


@pytest.mark.parametrize("compiler", [["gcc", "-std=c11"], ["g++", "-x", "c++", "-std=c++20"]])
def test_the_example_works(library, compiler, url, tmp_path):
    if not shutil.which(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    out = str(tmp_path / "lookup")
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", f"-I{library}", "-o", out, os.path.join(ROOT, "examples", "lookup.c"), f"-L{library}", "-lsherd", f"-Wl,-rpath,{library}"], check=True, timeout=TIMEOUT)
    run = subprocess.run([out, url, "get", "5", "99999"], check=True, stdout=subprocess.PIPE, timeout=TIMEOUT)
    assert run.stdout == b"5 = 5|5|5|5|5|5|\n99999 is not there\n"
    run = subprocess.run([out, f"file://{tmp_path}", "get", "5"], stderr=subprocess.PIPE, timeout=TIMEOUT)
    assert run.returncode == 1 and run.stderr.startswith(b"ERR_SNAPSHOT_NO_CURRENT: ")
