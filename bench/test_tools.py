"""The measuring tools themselves: `make bench-test`. Nothing here looks at speed."""
import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import xml.etree.ElementTree

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster  # noqa: E402
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


# ---- etcd's protocol, against a server of a few lines: what it reads and how its answers are cut is the test's

def h2_frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def varint(file):
    value, shift = 0, 0
    while True:
        byte = file.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7


def protobuf(message):
    """{field: bytes} of a message that has only such fields."""
    file, fields = io.BytesIO(message), {}
    while tag := file.read(1):
        assert tag[0] & 7 == 2
        fields[tag[0] >> 3] = file.read(varint(file))
    return fields


class TinyEtcd:
    """Answers Put and Range as etcd frames its answers, `cut` bytes at a time. refuse: which call of a connection gets an error, as trailers alone."""
    DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6

    def __init__(self, cut=1 << 20, refuse=None):
        self.cut, self.refuse, self.store, self.asked, self.acks = cut, refuse, {}, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.pid = self.listener.getsockname()[1], os.getpid()
        threading.Thread(target=self.accept, daemon=True).start()

    def client_args(self):
        return ["--etcd", "--port", str(self.port), "--server", str(self.pid)]

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError, IndexError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            assert file.read(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            self.send(connection, h2_frame(self.SETTINGS, 0, 0, b"\0\3\0\0\0\x64"))
            paths, calls = {}, 0
            while head := file.read(9):
                payload, kind, stream = file.read(int.from_bytes(head[:3], "big")), head[3], int.from_bytes(head[5:], "big")
                if kind == self.HEADERS:
                    paths[stream] = b"Put" if b"/etcdserverpb.KV/Put" in payload else b"Range" if b"/etcdserverpb.KV/Range" in payload else b"?"
                elif kind == self.DATA:
                    calls += 1
                    self.send(connection, self.answer(stream, paths.pop(stream), payload, calls == self.refuse))
                elif head[4] & 1:
                    self.acks.append((kind, payload))

    def answer(self, stream, call, payload, refused):
        assert payload[0] == 0 and int.from_bytes(payload[1:5], "big") == len(payload) - 5
        fields = protobuf(payload[5:])
        self.asked.append((call, stream))
        if refused:
            return h2_frame(self.HEADERS, 4 | 1, stream, b"\x88")
        if call == b"Put":
            self.store[fields[1]] = fields[2]
        value = self.store.get(fields[1], b"") if call == b"Range" else b""
        message = b"\n\x04head" + (b"\x12" + bytes([len(fields[1] + value)]) + fields[1] + value if value else b"")
        return (h2_frame(self.PING, 0, 0, b"are you?") + h2_frame(self.HEADERS, 4, stream, b"\x88")
                + h2_frame(self.DATA, 0, stream, b"\0" + len(message).to_bytes(4, "big") + message) + h2_frame(self.HEADERS, 4 | 1, stream, b"\x88"))

    def send(self, connection, data):
        for i in range(0, len(data), self.cut):
            connection.sendall(data[i:i + self.cut])


@pytest.fixture
def tiny_etcd():
    made = []

    def make(**options):
        made.append(TinyEtcd(**options))
        return made[-1]
    yield make
    for server in made:
        server.listener.close()


SMALL = {"value_bytes": 30, "keys": 20, "threads": 1, "conns": 2, "prefix": "bench:"}


@pytest.mark.parametrize("cut", [1, 7, 1 << 20])
@pytest.mark.parametrize("pipeline", [1, 5])
def test_load_speaks_to_etcd_however_its_answers_are_cut(tiny_etcd, cut, pipeline):
    server = tiny_etcd(cut=cut)
    assert load(server, workload="fill", pipeline=5, **SMALL)["ops"] == 20
    assert set(server.store) == {b"bench:%010d" % n for n in range(20)} and {len(v) for v in server.store.values()} == {30}
    done = load(server, workload="mix", pipeline=pipeline, seconds=0.2, warmup=0.02, **SMALL)
    assert done["ops"] > 0 and {call for call, _ in server.asked} == {b"Put", b"Range"}
    assert ("get_p50_us" in done) == (pipeline == 1)
    assert (TinyEtcd.SETTINGS, b"") in server.acks and (TinyEtcd.PING, b"are you?") in server.acks


def test_load_fails_when_etcd_has_no_such_key(tiny_etcd):
    with pytest.raises(LoadError, match="does every key exist"):
        load(tiny_etcd(), workload="get", seconds=0.2, **SMALL)


def test_load_fails_when_etcd_refuses_one_call_of_many(tiny_etcd):
    with pytest.raises(LoadError, match="refused"):
        load(tiny_etcd(refuse=7), workload="set", pipeline=5, seconds=0.2, **SMALL)


def test_load_spreads_connections_over_ports(tiny_etcd):
    servers = [tiny_etcd() for _ in range(3)]

    class Together:
        @staticmethod
        def client_args():
            return [word for server in servers for word in server.client_args()]
    load(Together, workload="set", seconds=0.2, **(SMALL | {"conns": 4}))
    assert all(server.asked for server in servers)


# ---- three nodes

def test_nodes_of_a_cluster_know_each_other_and_the_client_knows_them_all():
    for kind in cluster.KINDS:
        made, idle = cluster.Cluster(kind, 7000), cluster.Cluster(kind, 8000)
        for node in made.nodes + idle.nodes:
            node.process = subprocess.Popen(["true"])
            node.process.wait()
        made.beside = [idle]
        args = made.client_args()
        assert [args[i + 1] for i, word in enumerate(args) if word == "--port"] == ["7000", "7001", "7002"]
        assert args.count("--server") == args.count("--helper") == 3 and ("--etcd" in args) == (kind == "etcd")
        for node in made.nodes:
            assert all(f"127.0.0.1:{port}" in " ".join(node.peer.argv) for port in (7003, 7004, 7005))


def cluster_sample():
    def entry(rate, **more):
        return run_of(rate, 0) | {"spread": 0, "disturbed": False} | more
    return {"keys": 100000, "missing": {}, "taken": "now", "versions": {"etcd": "3.4"}, "idle_ms_per_s": {"sherd": 4.0, "etcd": 20.0}, "cells": {
        "set/1": {"sherd": entry(30000), "etcd": entry(10000)}, "get/1": {"sherd": entry(80000), "etcd": entry(20000)},
        "mix/1": {"sherd": entry(80000, get_p50_us=140.0, set_p50_us=1500.0), "etcd": {"error": "gone"}}}}


def test_three_nodes_are_judged_against_etcd_and_against_figures():
    results = sample_results()
    results["sections"] = {"cluster": cluster_sample()}
    text = report.markdown(results)
    for row in ("requests per second | 80000 | ≥ 78790 | reached", "p50 of GET, ms | 0.14 | ≤ 0.15 | reached", "p50 of SET, ms | 1.50 | ≤ 1.40 | **not reached**",
                "SET: throughput / etcd | 3.00 | ≥ 2.00 | reached", "GET: throughput / etcd | 4.00 | ≥ 5.00 | **not reached**", "**etcd**, mix/1: gone", "sherd 4, etcd 20"):
        assert row in text, row


def test_without_etcd_the_ratios_are_not_judged():
    results, section = sample_results(), cluster_sample()
    for row in section["cells"].values():
        row.pop("etcd")
    results["sections"] = {"cluster": section | {"missing": {"etcd": "not installed"}}}
    text = report.markdown(results)
    assert "SET: throughput / etcd | – | ≥ 2.00 | not measured" in text and "**etcd** is missing: not installed" in text


def test_plots_are_well_formed_and_know_every_server():
    drawn = report.plots(sample_results())
    assert set(drawn) == {"throughput.svg", "cpu.svg", "multi.svg", "memory.svg"}
    for svg in drawn.values():
        xml.etree.ElementTree.fromstring(svg)
    assert all(f".c-{name}" in plot.STYLE for name in ORDER)


def test_results_survive_json():
    assert report.markdown(json.loads(json.dumps(sample_results()))) == report.markdown(sample_results())
