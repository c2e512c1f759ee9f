"""A server from the outside: each of the usual clients does something real, with one worker and with several."""
import os
import re
import subprocess
import threading

import pytest

from conftest import SHERD, clean_env

WORKERS = [{"workers": 1}, {"workers": 4}]


def run(*command, timeout=60, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, env=clean_env(), **options)


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_redis_py_uses_every_type(client):
    assert client.set("text", "hello") and client.get("text") == "hello"
    assert client.incrby("number", 41) == 41 and client.incr("number") == 42
    assert client.hset("hash", mapping={"a": 1, "b": 2}) == 2 and client.hgetall("hash") == {"a": "1", "b": "2"}
    assert client.rpush("list", "x", "y", "z") == 3 and client.lrange("list", 0, -1) == ["x", "y", "z"]
    assert client.sadd("set", "m", "n") == 2 and client.smembers("set") == {"m", "n"}
    assert client.zadd("zset", {"one": 1, "two": 2}) == 2 and client.zrange("zset", 0, -1, withscores=True) == [("one", 1.0), ("two", 2.0)]
    assert client.expire("text", 100) and 0 < client.ttl("text") <= 100
    assert client.dbsize() == 6
    assert sorted(client.scan_iter(count=2)) == ["hash", "list", "number", "set", "text", "zset"]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_keys_of_many_shards_work_together(client):
    pairs = {f"key:{i}": f"value:{i}" for i in range(500)}
    assert client.mset(pairs)
    assert client.mget(list(pairs)) == list(pairs.values())
    assert client.delete(*pairs) == 500
    assert client.dbsize() == 0


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_transactions_and_pipelines_answer_in_order(client):
    with client.pipeline(transaction=True) as p:
        p.set("a", 1).incr("a").get("a").lpush("l", "x").lrange("l", 0, -1)
        assert p.execute() == [True, 2, "2", 1, ["x"]]
    with client.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set(f"k{i}", i).get(f"k{i}")
        assert p.execute()[1::2] == [str(i) for i in range(1000)]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_a_blocked_client_gets_what_another_pushes(server):
    got = []
    with server.client() as waiting, server.client() as pushing:
        thread = threading.Thread(target=lambda: got.append(waiting.blpop(["one", "two"], timeout=20)))
        thread.start()
        while not any("blpop" in c["cmd"] for c in pushing.client_list()):
            pass
        pushing.rpush("two", "v")
        thread.join(20)
    assert got == [("two", "v")]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_published_messages_arrive(server):
    with server.client() as listening, server.client() as publishing, listening.pubsub() as channel:
        channel.subscribe("news")
        assert channel.get_message(timeout=10)["type"] == "subscribe"
        assert publishing.publish("news", "hello") == 1
        assert channel.get_message(timeout=10)["data"] == "hello"


def test_redis_cli_speaks_both_protocols(server):
    def cli(*words):
        return run("redis-cli", "-p", str(server.port), *words).stdout.strip()

    assert cli("set", "k", "v") == "OK"
    assert cli("get", "k") == "v"
    assert cli("-3", "hset", "h", "f", "1") == "1"
    assert cli("-3", "hgetall", "h").split() == ["f", "1"]
    assert "sherd_version" in cli("info", "server") and "redis_version:7." in cli("info", "server")
    assert "WRONGTYPE" in cli("lpush", "k", "x")


def test_redis_cli_finds_big_keys(server, client):
    client.rpush("long", *range(100))
    client.set("short", "x")
    out = run("redis-cli", "-p", str(server.port), "--bigkeys").stdout
    assert '"long"' in out and "100 items" in out


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_redis_benchmark_runs_through(server, client):
    out = run("redis-benchmark", "-p", str(server.port), "-q", "-n", "2000", "-c", "20", "-P", "4", "-r", "1000",
              "-t", "ping,set,get,incr,lpush,lpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset", timeout=120)
    assert out.returncode == 0, out.stdout
    rates = re.findall(r"^(\S[^:\r]*): [\d.]+ requests per second", out.stdout.replace("\r", "\n"), re.M)
    assert len(rates) >= 14, out.stdout
    assert "error" not in out.stdout.lower()
    assert client.dbsize() > 100


def test_raw_bytes_get_raw_answers(server):
    with server.raw() as s:
        s.send(b"PING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n")
        s.expect(b"+PONG\r\n$3\r\na\r\n\r\n")
        s.send(b"*1\r\n$6\r\nnosuch\r\n")
        assert s.line().startswith(b"-ERR unknown command 'nosuch'")
        s.send(b"*1\r\n!\r\n")
        assert s.line().startswith(b"-ERR Protocol error: expected '$'")
        assert s.read_to_end() == b""


@pytest.mark.parametrize("server", [{"args": ["--requirepass", "secret"]}], indirect=True)
def test_a_password_is_asked_for(server):
    with server.raw() as s:
        s.command("GET", "k")
        assert s.line() == b"-NOAUTH Authentication required."
        s.command("AUTH", "wrong")
        assert s.line().startswith(b"-WRONGPASS")
        s.command("AUTH", "secret")
        s.expect(b"+OK\r\n")
    with server.client(password="secret") as c:
        assert c.set("k", "v")


def test_config_is_read_and_changed(client):
    assert client.config_get("maxmemory*")["maxmemory"] == "0"
    assert client.config_set("maxmemory", "100mb")
    assert client.config_get("maxmemory")["maxmemory"] == str(100 << 20)
    with pytest.raises(Exception, match="argument must be a memory value"):
        client.config_set("maxmemory", "lots")


def test_a_server_ends_well_on_sigterm(make_server):
    server = make_server()
    with server.client() as c:
        c.set("k", "v")
        assert server.stop() == 0


def test_the_data_directory_is_locked_and_found_again(make_server, processes):
    data = os.path.join(processes.folder, "data")
    first = make_server(data=data)
    second = run(SHERD, "serve", "--port", str(first.port + 1), "--data", data)
    assert second.returncode != 0 and f"is in use by pid {first.pid}" in second.stdout
    with open(os.path.join(data, "SHERD")) as f:
        identity = f.read()
    first.kill()
    make_server(data=data)
    with open(os.path.join(data, "SHERD")) as f:
        assert f.read() == identity


def test_bad_options_stop_the_start(tmp_path):
    config = tmp_path / "sherd.toml"
    config.write_text("port = 7000\nmax-memory = 1\n")
    cases = [(["--prot", "1"], "unknown option 'prot' (did you mean 'port'?)"),
             (["--config", str(config)], f"{config}:2: unknown option 'max-memory' (did you mean 'maxmemory'?)"),
             (["--bind", "0.0.0.0"], "without a password the server would be open")]
    for args, text in cases:
        out = run(SHERD, "serve", "--ephemeral", *args)
        assert out.returncode == 2 and text in out.stdout, out.stdout


def test_the_program_explains_itself():
    version = run(SHERD, "--version")
    assert version.returncode == 0 and re.match(r"sherd \d+\.\d+\.\d+ .*libraft 0\.(2[2-9]|[3-9]\d)\.", version.stdout)
    assert "--maxmemory <bytes>" in run(SHERD, "serve", "--help").stdout
    assert "| `get` |" in run(SHERD, "commands", "--markdown").stdout.lower()
    unknown = run(SHERD, "nosuch")
    assert unknown.returncode == 2 and "nosuch" in unknown.stdout
