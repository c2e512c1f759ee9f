"""The measuring tools themselves: `make bench-test`. Nothing here looks at speed."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
from peers import ORDER, PEERS, Resp, Server, ServerError  # noqa: E402
from sections import LOAD, LoadError, load, make_slow, shard_counters, shards_of, summary  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(params=["limit-epoll", "limit-uring"])
def limit(request):
    server = Server(PEERS[request.param], free_port(), workers=2, value_bytes=32)
    server.start()
    yield server
    server.stop()


def request_bytes():
    """Commands whose payloads look like commands."""
    nasty = b"\r\n*2\r\n$3\r\nGET\r\n"
    return b"".join([Resp.encode(("GET", "a")), Resp.encode(("SET", "b", nasty)), Resp.encode(("mget", "a", nasty, "c")),
                     Resp.encode(("MSET", "a", "", "b", nasty)), Resp.encode(("PING",))])


VALUE = b"$32\r\n" + b"x" * 32 + b"\r\n"
REPLY = VALUE + b"+OK\r\n" + b"*3\r\n" + VALUE * 3 + b"+OK\r\n" + b"+OK\r\n"


def exchange(port, pieces, want):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            s.sendall(piece)
        got = b""
        while len(got) < want:
            more = s.recv(65536)
            if not more:
                break
            got += more
        return got


def test_limit_answers_a_request_cut_at_any_byte(limit):
    data = request_bytes()
    for cut in range(1, len(data)):
        assert exchange(limit.port, [data[:cut], data[cut:]], len(REPLY)) == REPLY, cut


def test_limit_answers_a_request_sent_byte_by_byte(limit):
    data = request_bytes()
    assert exchange(limit.port, [data[i:i + 1] for i in range(len(data))], len(REPLY)) == REPLY


def test_limit_answers_a_long_pipeline(limit):
    assert exchange(limit.port, [request_bytes() * 500], len(REPLY) * 500) == REPLY * 500


@pytest.mark.parametrize("junk", [b"GET a\r\n", b"*x\r\n", b"*0\r\n", b"*1\r\n$0\r\n\r\n", b"*1\r\n$99\r\n", b"*" + b"1" * 100])
def test_limit_closes_on_what_is_not_resp_and_goes_on_serving(limit, junk):
    try:
        assert exchange(limit.port, [junk], 1) == b""
    except ConnectionResetError:
        pass
    assert exchange(limit.port, [request_bytes()], len(REPLY)) == REPLY


@pytest.mark.parametrize("workload", ["get", "set", "mix", "mget", "mset"])
@pytest.mark.parametrize("pipeline", [1, 16])
def test_load_measures_every_workload(limit, workload, pipeline):
    done = load(limit, workload=workload, pipeline=pipeline, value_bytes=32, keys=1000, seconds=0.05, warmup=0.02, conns=4)
    assert done["ops"] > 0 and done["p50_us"] <= done["p99_us"] <= done["max_us"] * 1.02
    assert done["server_us_per_op"] > 0 and done["client_us_per_op"] > 0


def test_load_keeps_to_a_rate(limit):
    done = load(limit, workload="get", value_bytes=32, keys=1000, seconds=0.5, rate=2000, conns=4)
    assert 200 < done["ops"] < 1500


def test_load_fills_each_key_once(limit):
    assert load(limit, workload="fill", value_bytes=32, keys=1000, pipeline=10, conns=4)["ops"] == 1000


def test_load_can_give_every_key_its_own_value():
    server = Server(PEERS["sherd"], free_port(), workers=1)
    try:
        server.start()
    except ServerError as why:
        pytest.skip(str(why))
    try:
        load(server, workload="fill", keys=100, value_bytes=50, pipeline=7, distinct=True)
        with Resp(server.port) as client:
            values = client.call("MGET", *[f"key:{n:010d}" for n in range(100)])
        assert len(set(values)) == 100 and {len(v) for v in values} == {50}
    finally:
        server.stop()


def test_load_fails_when_replies_have_another_length(limit):
    with pytest.raises(LoadError):
        load(limit, workload="get", value_bytes=8, keys=10, seconds=0.2)


def test_load_fails_when_nobody_listens():
    done = subprocess.run([LOAD, "--port", str(free_port())], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "connect" in done.stderr


def test_load_ends_when_its_time_is_over(limit):
    os.kill(limit.pid, signal.SIGSTOP)
    done = subprocess.run([LOAD, "--port", str(limit.port), "--max-seconds", "1"], capture_output=True, check=False, timeout=10)
    os.kill(limit.pid, signal.SIGCONT)
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize("tool", [LOAD, PEERS["limit-epoll"].program])
def test_tools_explain_themselves(tool):
    done = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--port" in done.stdout
    assert subprocess.run([tool, "--nonsense"], capture_output=True, check=False).returncode == 2


def run_of(rate, foreign):
    return {"ops_per_s": rate, "p50_us": 1, "p99_us": 2, "p999_us": 3, "max_us": 4, "server_us_per_op": 1.0, "client_us_per_op": 1.0,
            "foreign_cores": foreign}


def test_disturbed_runs_do_not_count():
    s = summary([run_of(10, 0.9), run_of(100, 0.0), run_of(102, 0.01)], 0.1, 3)
    assert s["ops_per_s"] == 101 and s["discarded"] == 1 and not s["disturbed"]


def test_without_clean_runs_the_figure_is_marked():
    assert summary([run_of(10, 0.9), run_of(12, 0.8)], 0.1, 3)["disturbed"]


class Told:
    """A client that answers from a function of the command."""

    def __init__(self, answer):
        self.answer = answer

    def call(self, *command):
        reply = self.answer(command)
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def pipeline(self, commands):
        return [self.answer(c) for c in commands]


def test_a_keys_shard_is_read_from_either_command():
    refuse = ServerError("ERR unknown command")
    assert shards_of(Told(lambda c: "Value at:0x1 refcount:1 shard:3 lru:1" if c[0] == "DEBUG" else refuse), ["a", "b"]) == [3, 3]
    assert shards_of(Told(lambda c: refuse if c[0] == "DEBUG" else str(len(c[1]))), ["a", "bb"]) == [1, 2]
    assert shards_of(Told(lambda c: "Value at:0x1 refcount:1" if c[0] == "DEBUG" else refuse), ["a"]) is None


def test_counters_of_all_shards_are_added_up():
    assert shard_counters({"shard0": "keys=9,local=1,foreign=2,mailbox=0,home=0", "shard1": "keys=1,local=10,foreign=20,mailbox=3", "shards": "2"}) \
        == {"local": 11, "foreign": 22}
    assert shard_counters({"redis_version": "7"}) == {}


def test_a_server_without_a_slow_command_says_so():
    with pytest.raises(ServerError, match="unknown"):
        make_slow(Told(lambda c: "1" if c[0] in ("DEL", "RPUSH") else ServerError("ERR unknown command")))


def sample_results():
    def cells(words, pipelines, rates):
        return {f"{w}/{p}": {label: run_of(rates[label], 0) | {"spread": 0, "disturbed": False} for label in rates}
                for p in pipelines for w in words}
    rates = {"limit-epoll": 100.0, "sherd": 96.0, "valkey": 40.0}
    return {"machine": {"cores": 2, "cpu": "x", "kernel": "y", "memory_gib": 1, "versions": {"redis": "7"}}, "sections": {
        "throughput": {"taken": "now", "keys": 1, "missing": {"redis": "not installed"}, "cells": cells(("get", "set", "mix"), (1, 16, 64), rates)},
        "multi": {"taken": "now", "keys": 1, "missing": {}, "cells": cells(("mget", "mset"), (1, 16), rates)},
        "memory": {"taken": "now", "keys": 1, "missing": {}, "sizes": {"16": {"sherd": {"per_key": 57.0}, "redis": {"error": "died"}}}},
        "busy": {"taken": "now", "keys": 1, "missing": {}, "busy": {"redis": {"error": "skipped: no such command"}}}}}


def test_the_report_tells_goals_and_what_is_missing():
    text = report.markdown(sample_results())
    assert "GET, pipeline 1: throughput / limit-epoll | 0.96 | ≥ 0.95 | reached" in text
    assert "bytes per key, values of 16 | 57.0 | ≤ 56.0 | **not reached**" in text
    assert "**redis** is missing: not installed" in text and "died" in text and "skipped: no such command" in text
    assert re.search(r"p99 µs, not above redis's \| 2 \| – \| not measured", text)


def test_no_goal_is_judged_by_a_disturbed_figure():
    results = sample_results()
    results["sections"]["throughput"]["cells"]["get/1"]["limit-epoll"]["disturbed"] = True
    text = report.markdown(results)
    assert "GET, pipeline 1: throughput / limit-epoll | 0.96 | ≥ 0.95 | not judged: disturbed" in text
    assert "SET, pipeline 1: throughput / limit-epoll | 0.96 | ≥ 0.95 | reached" in text


def test_no_goal_is_judged_by_a_quick_run():
    results = sample_results()
    results["sections"]["memory"]["quick"] = True
    assert "values of 16 | 57.0 | ≤ 56.0 | not judged: quick run" in report.markdown(results)


def durable_sample():
    run = {"ops_per_s": 2e5, "p50_us": 100, "p99_us": 300, "server_us_per_op": 3}
    load_run = {"quiet": run, "busy": run | {"p99_us": 450}, "rss": 400e6, "rss_most": 430e6, "dumps": 3, "disturbed": False}
    dump = {"seconds": 1.0, "bytes": 250e6, "payload": 270e6, "rss_empty": 100e6, "disturbed": False, "load": load_run}
    return {"keys": 1000000, "missing": {}, "taken": "now", "quick": False,
            "cells": {"EveryWrite/16": {"sherd": run, "redis": run | {"ops_per_s": 125e3}}, "OsManaged/1": {"sherd": run, "redis": {"error": "gone"}}},
            "dumps": {"sherd": dump, "redis": dump | {"seconds": 1.5, "bytes": 500e6}},
            "starts": {"dump": {"sherd": {"seconds": 0.5}, "redis": {"seconds": 2.0}}, "log": {"sherd": {"seconds": 1.0}, "redis": {"error": "lost"}}}}


def test_durability_is_judged_against_redis():
    results = sample_results()
    results["sections"] = {"durable": durable_sample()}
    text = report.markdown(results)
    for row in ("EveryWrite, pipeline 16: throughput / redis | 1.60 | ≥ 2.00 | **not reached**", "OsManaged, pipeline 1: throughput / redis | – | ≥ 1.00 | not measured",
                "not above redis's | 1.00 | ≤ 1.50 | reached", "do not compress | 0.50 | ≤ 1.05 | reached", "p99 without | 1.50 | ≤ 2.00 | reached",
                "share of the data | 0.10 | < 0.10 | **not reached**", "from a dump: redis's seconds / sherd's | 4.00 | ≥ 3.00 | reached", "**redis**, log: lost"):
        assert row in text, row


def test_undisturbed_times_count_alone():
    runs = [{"seconds": s, "foreign_cores": f} for s, f in ((1.0, 0.0), (9.0, 1.0), (2.0, 0.1))]
    assert durable.median_entry(runs)["seconds"] == 1.5 and not durable.median_entry(runs)["disturbed"]
    assert durable.median_entry(runs[1:2])["disturbed"]


def test_plots_are_well_formed_and_know_every_server():
    drawn = report.plots(sample_results())
    assert set(drawn) == {"throughput.svg", "cpu.svg", "multi.svg", "memory.svg"}
    for svg in drawn.values():
        xml.etree.ElementTree.fromstring(svg)
    assert all(f".c-{name}" in plot.STYLE for name in ORDER)


def test_results_survive_json():
    assert report.markdown(json.loads(json.dumps(sample_results()))) == report.markdown(sample_results())
