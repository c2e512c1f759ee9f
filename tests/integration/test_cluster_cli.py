"""sherd cluster and the commands that it stands on: what they print, and what they say when they cannot do it. What a cluster promises is tested elsewhere."""
import os
import random
import shlex
import signal
import socket
import subprocess
import time

import pytest
import redis
import redis.cluster

from conftest import PATIENCE, SHERD, Raw, clean_env, free_port


def sherd(*args, env=None):
    return subprocess.run([SHERD, *map(str, args)], capture_output=True, text=True, timeout=60, env={**clean_env(), **(env or {})})


def test_init_prints_command_lines_that_a_server_understands():
    done = sherd("cluster", "init", "127.0.0.1:7001", "127.0.0.1:7002", "[::1]:7003", "--shards", 8, "--replication", 3)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3, done.stderr
    for i, line in enumerate(lines, 1):
        words = shlex.split(line)
        assert words[:2] == ["sherd", "serve"] and words[words.index("--node-id") + 1] == str(i)
        checked = sherd(*words[1:], "--check-config")
        assert checked.returncode == 0 and checked.stdout == "configuration is good\n", checked.stderr
    assert len({line.split("--peers")[1] for line in lines}) == 1
    assert '1=127.0.0.1:17001/127.0.0.1:7001,2=127.0.0.1:17002/127.0.0.1:7002,3=[::1]:17003/[::1]:7003' in lines[0]


def test_init_writes_files_that_a_server_understands(tmp_path):
    done = sherd("cluster", "init", "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003", "--write", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / f"node-{i}.toml") for i in (1, 2, 3)]
    for path in done.stdout.split():
        checked = sherd("serve", "--config", path, "--check-config")
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("args, says", [
    (["init"], "a HOST for each node is needed"),
    (["init", "a", "a"], "there twice: a"),
    (["init", "a:x"], "neither HOST nor HOST:PORT"),
    (["init", "a", "a:16379"], "'2=a:26379/a:16379': another node has one of these addresses"),
    (["init", "a b"], "a node is number=host:cluster-port/host:port"),
    (["init", "a", "--write"], "a value is missing behind --write"),
    (["move", "1", "2"], "needed is: GROUP FROM TO"),
    (["split"], "needed is: GROUP [HASH]"),
    (["split", "2", "8000000000000000", "3"], "needed is: GROUP [HASH]"),
    (["leave"], "needed is: NODE"),
    (["status", "3"], "nothing follows status"),
    (["status", "--wait"], "--wait is for leave"),
    (["frobnicate"], "unknown command frobnicate"),
    (["join"], "HOST:PORT of a node of the cluster is needed"),
    (["demo", "--nodes", "0"], "at least one node"),
    (["demo", "--nodes", "99"], "--nodes cannot be '99', at most 16"),
    (["demo", "three"], "nothing belongs here: three"),
])
def test_a_command_line_that_makes_no_sense_is_refused(args, says):
    done = sherd("cluster", *args)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_nobody_there_and_no_cluster_there_are_told(server):
    done = sherd("cluster", "status", "--server", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "Connection refused" in done.stderr
    done = sherd("cluster", "leave", 2, "--server", f"127.0.0.1:{server.port}")
    assert done.returncode == 1 and "This instance has cluster support disabled" in done.stderr


@pytest.mark.parametrize("server", [{"args": ["--requirepass", "sesame"]}], indirect=True)
def test_a_password_is_given_or_taken_from_the_environment(server):
    to = ["--server", f"127.0.0.1:{server.port}"]
    assert "NOAUTH" in sherd("cluster", "status", *to).stderr
    assert "cluster support disabled" in sherd("cluster", "status", *to, "--password", "sesame").stderr
    assert "cluster support disabled" in sherd("cluster", "status", *to, env={"REDISCLI_AUTH": "sesame"}).stderr
    assert "WRONGPASS" in sherd("cluster", "status", *to, "--password", "open").stderr


def test_every_command_has_help():
    assert sherd("cluster").returncode == 2
    for words in (["--help"], ["status", "--help"]):
        done = sherd("cluster", *words)
        assert done.returncode == 0 and "leave NODE" in done.stdout
    for verb in ("init", "demo"):
        done = sherd("cluster", verb, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: sherd cluster {verb}")


# ---- a cluster on this machine

class Demo:
    """`sherd cluster demo` with nodes that answer."""

    def __init__(self, tmp_path, nodes=3):
        self.port = steady_port(nodes)
        self.env = {**clean_env(), "TMPDIR": str(tmp_path)}
        self.process = subprocess.Popen([SHERD, "cluster", "demo", "--nodes", str(nodes), "--port", str(self.port)], stdout=subprocess.PIPE, text=True, env=self.env)
        self.said = ""
        while "Ctrl-C ends them" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.said}"
            self.said += line

    def client(self, node=1):
        return redis.Redis(port=self.port + node - 1, socket_timeout=20 * PATIENCE)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=60 * PATIENCE)
        return rest


def steady_port(nodes):
    """Below what the kernel gives to outgoing connections, with the ports of nodes 10000 above."""
    for first in random.sample(range(12000, 20000), 100):
        if all(is_free(port) for i in range(nodes + 1) for port in (first + i, first + i + 10000)):
            return first
    raise AssertionError("no free ports")


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    d = Demo(tmp_path_factory.mktemp("demo"))
    yield d
    if d.process.poll() is None:
        d.end()


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as e:
        client.execute_command(*words)
    return str(e.value)


def test_demo_starts_nodes_says_what_to_try_and_leaves_nothing_behind(tmp_path):
    d = Demo(tmp_path, nodes=2)
    pids = [int(line.split(" pid ")[1].split()[0]) for line in d.said.splitlines() if " pid " in line]
    assert len(pids) == 2 and len(os.listdir(tmp_path)) == 1
    d.client(1).set("k", "v")
    assert d.client(2).get("k") == b"v"
    second = sherd("cluster", "demo", "--port", d.port, env={"TMPDIR": str(tmp_path)})
    assert second.returncode == 1 and f"port {d.port} is in use" in second.stderr
    assert "ending the nodes" in d.end()
    assert d.process.returncode == 0 and os.listdir(tmp_path) == []
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_demo_says_how_a_node_that_has_ended_is_started_again(tmp_path):
    d = Demo(tmp_path, nodes=3)
    pid = next(int(line.split(" pid ")[1].split()[0]) for line in d.said.splitlines() if line.startswith("  node 3 "))
    d.client(1).set("k", "v")
    os.kill(pid, signal.SIGKILL)
    assert "node 3 has ended" in d.process.stdout.readline()
    words = shlex.split(d.process.stdout.readline())
    assert words[:2] == ["sherd", "serve"]
    node = subprocess.Popen([SHERD, *words[1:], "--workers", "1"], stderr=subprocess.DEVNULL, env=clean_env())
    try:
        until = time.monotonic() + 30 * PATIENCE
        while True:
            try:
                assert d.client(3).get("k") == b"v"
                break
            except redis.RedisError as e:
                assert time.monotonic() < until, e
                time.sleep(0.1)
    finally:
        node.terminate()
        assert node.wait(30 * PATIENCE) == 0
        d.end()


def test_cluster_commands_answer_as_clients_of_redis_expect(demo):
    names = set()
    for node in (1, 2, 3):
        c = demo.client(node)
        info = c.execute_command("CLUSTER INFO")
        assert info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3" and info["cluster_groups"] == info["cluster_groups_led"] == "18"
        me = c.execute_command("CLUSTER MYID").decode()
        names.add(me)
        nodes = c.execute_command("CLUSTER NODES")
        assert len(nodes) == 3 and "myself" in nodes[f"127.0.0.1:{demo.port + node - 1}"]["flags"]
        with Raw(demo.port + node - 1) as raw:
            raw.command("CLUSTER", "SLOTS")
            raw.expect(b"*1\r\n*5\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:%d\r\n$40\r\n%s\r\n*0\r\n" % (demo.port + node - 1, me.encode()))
        assert c.execute_command("CLUSTER KEYSLOT", "foo") == 12182
        assert c.info("cluster")["cluster_enabled"] == 1 and c.info("server")["redis_mode"] == "cluster"
        assert c.execute_command("READONLY") and len(c.execute_command("CLUSTER SHARDS")) == 1
    assert len(names) == 3


def test_a_client_of_redis_cluster_works(demo):
    c = redis.cluster.RedisCluster(host="127.0.0.1", port=demo.port)
    for i in range(50):
        c.set(f"rc{i}", i)
    assert [c.get(f"rc{i}") for i in range(50)] == [b"%d" % i for i in range(50)]
    c.close()


def test_what_a_cluster_does_not_do_is_refused_by_name(demo):
    c = demo.client(2)
    for words in (["BGSAVE"], ["SAVE"]):
        assert refused(c, *words) == f"{words[0]} is not available in a cluster"
    assert refused(c, "SORT", "k", "BY", "w_*") == "SORT over all keys is not available in a cluster"
    assert refused(c, "CLUSTER", "LEAVE", "9") == "there is no node 9"
    assert refused(c, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru").startswith("CONFIG SET failed - a node of a cluster evicts nothing")
    c.execute_command("SELECT", 3)
    assert c.execute_command("SELECT", 0) and c.ping()


def test_a_connection_may_be_content_with_what_the_node_has(demo):
    writer = demo.client(1)
    writer.set("stale", "1")
    for node in (1, 2, 3):
        with redis.Redis(port=demo.port + node - 1, single_connection_client=True) as c:
            assert c.execute_command("CLIENT", "CONSISTENCY", "STALE") == b"OK"
            until = time.monotonic() + 10 * PATIENCE
            while c.get("stale") != b"1":
                assert time.monotonic() < until, "a replica does not follow"
            assert c.set("stale2", node) and c.execute_command("CLIENT", "CONSISTENCY", "linearizable") == b"OK"
            assert c.get("stale2") == b"%d" % node
            assert refused(c, "CLIENT", "CONSISTENCY", "maybe") == "syntax error"


def test_questions_keep_their_place_in_a_pipeline(demo):
    with Raw(demo.port) as raw:
        for words in (["SET", "p", "1"], ["CLUSTER", "MYID"], ["CLUSTER", "NODES"], ["GET", "p"], ["CLUSTER", "LEAVE", "9"], ["PING"]):
            raw.command(*words)
        raw.expect(b"+OK\r\n$40\r\n")
        raw.read(42)
        head = raw.line()
        assert raw.read(int(head[1:]) + 2).count(b"\n") == 4
        raw.expect(b"$1\r\n1\r\n-ERR there is no node 9\r\n+PONG\r\n")


def test_status_has_colours_on_a_terminal_only(demo):
    plain = sherd("cluster", "status", "--server", f"127.0.0.1:{demo.port + 1}")
    assert plain.returncode == 0 and plain.stdout.startswith("state ok: 3 nodes, 3 of them heard of; 18 groups, 18 of them led"), plain.stderr
    assert "\x1b" not in plain.stdout and "\ngroup  leader" in plain.stdout
    ours, theirs = os.openpty()
    done = subprocess.run([SHERD, "cluster", "status", "--server", f"127.0.0.1:{demo.port}"], stdout=theirs, timeout=60, env=clean_env())
    os.close(theirs)
    shown = b""
    while b"f000000000000000" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0 and b"\x1b[1mnode" in shown


# ---- data directories

def serve(tmp_path, *args):
    return sherd("serve", "--port", steady_port(0), "--data", tmp_path / "data", *args)


def test_a_new_node_must_be_told_which_cluster_it_is_of(tmp_path):
    done = serve(tmp_path, "--cluster")
    assert done.returncode == 1 and "this node is in no cluster yet" in done.stderr


def test_a_node_that_joins_has_no_number_of_its_own_and_is_told_who_refused_it(tmp_path, server):
    done = serve(tmp_path, "--cluster", "--join", f"127.0.0.1:{server.port}", "--node-id", 2)
    assert done.returncode == 1 and "a node that joins gets its number from the cluster" in done.stderr
    done = serve(tmp_path, "--cluster", "--join", f"127.0.0.1:{server.port}")
    assert done.returncode == 1 and f"cannot join the cluster node=127.0.0.1:{server.port} error=" in done.stderr and "cluster support disabled" in done.stderr


def test_what_keeps_a_node_from_joining_is_not_told_twice_a_second(tmp_path):
    nobody = [free_port(), free_port()]
    with pytest.raises(subprocess.TimeoutExpired) as e:
        subprocess.run([SHERD, "cluster", "join", ",".join(f"127.0.0.1:{p}" for p in nobody), "--port", str(steady_port(0)), "--data", tmp_path / "data"], capture_output=True, timeout=4, env=clean_env())
    for port in nobody:
        assert e.value.stderr.count(b"cannot join the cluster yet node=127.0.0.1:%d" % port) == 1, e.value.stderr


def test_directories_of_nodes_and_of_other_servers_are_not_mixed_up(tmp_path, make_server):
    serve(tmp_path, "--cluster")
    done = serve(tmp_path)
    assert done.returncode == 1 and "is that of a node of a cluster" in done.stderr
    server = make_server(data=str(tmp_path / "other"))
    server.stop()
    done = sherd("serve", "--cluster", "--port", steady_port(0), "--data", tmp_path / "other")
    assert done.returncode == 1 and "holds the data of a server that is no node of a cluster" in done.stderr
