"""A cluster whose nodes prove a secret to each other: it works as any other does, keeps nodes out that know another one or none, and gets a new one while it runs."""
import os
import subprocess
import time

import pytest

from cluster import Node, make_cluster, wait_for  # noqa: F401, one of them a fixture
from clusterload import Load
from conftest import PATIENCE, SHERD, clean_env
from test_cluster import check_went_on, read_alike

OLD, NEW, WRONG = "the-first-secret-of-it", "the-second-secret-of-it", "what-somebody-else-uses"
WORKERS = 2


class Guarded:
    """A cluster with a file of secrets that all its nodes share, and each reads when it is told to."""

    def __init__(self, make_cluster, folder):
        self.path = os.path.join(folder, "secret")
        self.write(OLD)
        self.cluster = make_cluster(args=["--cluster-secret-file", self.path])

    def write(self, *secrets):
        with open(self.path, "w") as f:
            f.write("\n".join(secrets) + "\n")

    def read_again(self, number):
        assert self.cluster.ask(number, "CONFIG", "SET", "cluster-secret-file", self.path) == "OK"

    def refused(self, number):
        return int(self.cluster.info(number)["cluster_secrets_refused"])

    def wait_connected(self, *numbers):
        """By lanes too, which end with the nodes' connections."""
        lanes = str(WORKERS * (len(numbers) - 1))
        for n in numbers:
            wait_for(lambda: self.cluster.info(n).get("cluster_lanes") == lanes, 20, lambda: f"node {n}: {self.cluster.info(n)}")


@pytest.fixture
def guarded(make_cluster, processes):
    g = Guarded(make_cluster, processes.folder)
    g.wait_connected(1, 2, 3)
    return g


def test_it_works_and_goes_on_when_nodes_are_killed_and_come_back(guarded):
    cluster = guarded.cluster
    with Load(cluster.ports(), seed=71) as load:
        for victim in (1, 2, 3):
            began = time.monotonic_ns()
            cluster.kill(victim)
            cluster.write_everywhere(cluster.others(victim)[0], f"without{victim}")
            guarded.wait_connected(*cluster.others(victim))
            load.run_for(1)
            check_went_on(load, (began, time.monotonic_ns()), f"node {victim} was dead")
            cluster.start(victim)
            cluster.wait_ok()
            guarded.wait_connected(1, 2, 3)
    assert all(guarded.refused(n) == 0 for n in (1, 2, 3))
    read_alike(cluster, load, [1, 2, 3])


def join(cluster, number, *secret):
    """`sherd cluster join` as an operator types it, who is refused: what it says."""
    node = Node(number, cluster.processes.folder)
    done = subprocess.run([SHERD, "cluster", "join", f"127.0.0.1:{cluster.port(1)}", "--port", str(node.port), "--cluster-port", str(node.cluster_port), "--data", node.data, *secret],
                          capture_output=True, text=True, timeout=60 * PATIENCE, env=clean_env())
    assert done.returncode == 1, done
    return done.stdout + done.stderr


def test_a_node_with_another_secret_or_none_cannot_join(guarded):
    cluster = guarded.cluster
    assert "the node that is to join has another cluster-secret than this cluster" in join(cluster, 5, "--cluster-secret", WRONG)
    assert "this cluster has a cluster-secret, and the node that is to join has none" in join(cluster, 6)
    assert len(cluster.status(1)["node"]) == 3, "a node was let in"
    cluster.join(4)
    cluster.wait_ok(4)
    guarded.wait_connected(1, 2, 3, 4)
    assert cluster.member(4, through=1) is not None


def test_a_node_with_a_secret_cannot_join_a_cluster_without_one(make_cluster):
    cluster = make_cluster()
    assert "the node that is to join has a cluster-secret, and this cluster has none" in join(cluster, 4, "--cluster-secret", WRONG)
    assert len(cluster.status(1)["node"]) == 3, "a node was let in"


def test_a_node_that_comes_back_with_another_secret_is_kept_out_until_it_has_the_right_one(guarded):
    cluster = guarded.cluster
    cluster.kill(3)
    guarded.write(WRONG)
    cluster.start(3)
    said = "it does not accept this node's cluster-secret"
    wait_for(lambda: said in cluster.nodes[3].log(), 20, lambda: cluster.nodes[3].log()[-3000:])
    for n in (1, 2):
        wait_for(lambda: "it has another cluster-secret" in cluster.nodes[n].log(), 20, lambda: cluster.nodes[n].log()[-3000:])
        wait_for(lambda: guarded.refused(n) > 0, 5, lambda: cluster.info(n))
    cluster.write_everywhere(1, "without it")
    assert cluster.info(3)["cluster_state"] == "fail" and cluster.loads(3), "it is in the cluster"
    guarded.write(OLD)
    guarded.read_again(3)
    cluster.wait_ok()
    guarded.wait_connected(1, 2, 3)
    assert guarded.refused(3) > 0, "it counts nothing"


def test_the_secret_is_changed_node_by_node_while_the_cluster_works(guarded):
    cluster = guarded.cluster
    with Load(cluster.ports(), seed=72) as load:
        for step in ((OLD, NEW), (NEW, OLD), (NEW,)):
            guarded.write(*step)
            for n in (1, 2, 3):
                began = time.monotonic_ns()
                guarded.read_again(n)
                guarded.wait_connected(1, 2, 3)
                load.run_for(1)
                check_went_on(load, (began, time.monotonic_ns()), f"node {n} had {len(step)} secrets")
        cluster.kill(2)
        cluster.start(2)
        cluster.wait_ok()
        guarded.wait_connected(1, 2, 3)
    assert all(guarded.refused(n) == 0 for n in (1, 2, 3)), "somebody was turned away meanwhile"
    read_alike(cluster, load, [1, 2, 3])
    assert "another cluster-secret" in join(cluster, 4, "--cluster-secret", OLD)


def test_a_cluster_without_a_secret_gets_one(make_cluster):
    cluster = make_cluster()
    with Load(cluster.ports(), seed=73) as load:
        load.run_for(1)
        for n in (1, 2, 3):
            assert cluster.ask(n, "CONFIG", "SET", "cluster-secret", NEW) == "OK"
        cluster.write_everywhere(1, "with it")
        cluster.wait_ok()
        span = load.run_for(2)
        check_went_on(load, span, "all nodes had the secret")
    read_alike(cluster, load, [1, 2, 3])
    assert "this cluster has a cluster-secret" in join(cluster, 4)


def test_clients_do_not_hear_the_secret(guarded):
    ask = lambda *words: guarded.cluster.ask(1, *words)
    assert ask("CONFIG", "SET", "slowlog-log-slower-than", "0") == "OK"
    assert ask("CONFIG", "SET", "cluster-secret-file", "", "cluster-secret", OLD) == "OK"
    assert ask("CONFIG", "SET", "cluster-secret", "short").startswith("ERR CONFIG SET failed")
    shown = ask("CONFIG", "GET", "cluster-secret")
    assert shown == ["cluster-secret", "(hidden)"], shown
    assert OLD not in str(ask("CONFIG", "GET", "*")) and OLD not in str(ask("INFO", "everything"))
    log = str(ask("SLOWLOG", "GET", "100"))
    assert "(redacted)" in log and OLD not in log and OLD not in guarded.cluster.nodes[1].log()
