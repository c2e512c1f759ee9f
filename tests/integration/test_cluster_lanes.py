"""Nodes with different numbers of workers, which speak to each other by lanes: what they prove of reads holds while nodes are killed and paused."""
import os
import socket
import struct
import time

import pytest

from cluster import SPREAD, make_cluster, wait_for  # noqa: F401, one of them a fixture
from clusterload import Link, Load
from conftest import PATIENCE
from test_cluster import check_went_on, read_alike, sleep_and_wake, take_naps

WORKERS = {1: 1, 2: 2, 3: 3}


def lanes_of(number, nodes):
    """As many to each other node as the one with more workers has."""
    return sum(max(WORKERS[number], WORKERS[n]) for n in nodes if n != number)


def figures(cluster, number):
    text = cluster.ask(number, "INFO", "cluster") or ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def wait_for_lanes(cluster, *nodes):
    """All that there can be between these nodes, and none to others."""
    for n in nodes:
        wait_for(lambda: figures(cluster, n).get("cluster_lanes") == str(lanes_of(n, nodes)), 20, lambda: f"node {n} has {figures(cluster, n).get('cluster_lanes')} lanes of {lanes_of(n, nodes)}")


def proven(cluster, number):
    return int(figures(cluster, number)["cluster_reads_proven_by_lanes"])


def check_proves(cluster, load, *nodes):
    """Reads of what each of them leads are proven by lanes."""
    for n in nodes:
        wait_for(lambda: cluster.leads(n) > 0, 15, lambda: f"node {n} leads nothing: {cluster.status(n)}")
    before = {n: proven(cluster, n) for n in nodes}
    load.run_for(0.5)
    for n in nodes:
        wait_for(lambda: proven(cluster, n) >= before[n] + 5, 10, lambda: f"node {n} proves nothing by lanes: {figures(cluster, n)}")


@pytest.fixture
def uneven(make_cluster):
    c = make_cluster(workers=WORKERS)
    wait_for_lanes(c, 1, 2, 3)
    return c


def test_each_node_is_killed_in_turn(uneven):
    with Load(uneven.ports(), seed=41) as load:
        check_proves(uneven, load, 1, 2, 3)
        for victim in (1, 2, 3):
            began = time.monotonic_ns()
            uneven.kill(victim)
            left = uneven.others(victim)
            uneven.write_everywhere(left[0], f"without{victim}")
            wait_for_lanes(uneven, *left)
            check_proves(uneven, load, *left)
            load.run_for(1)
            check_went_on(load, (began, time.monotonic_ns()), f"node {victim} was dead")
            uneven.start(victim)
            uneven.wait_ok()
            wait_for_lanes(uneven, 1, 2, 3)
            check_proves(uneven, load, victim)
    read_alike(uneven, load, [1, 2, 3])


def test_a_paused_leader_that_comes_back_proves_nothing_old(uneven):
    """Reads lie in lanes to it, too."""
    right = 0
    with Load(uneven.ports(), seed=42) as load:
        for sleeper in (1, 2, 3):
            check_proves(uneven, load, sleeper)
            right += sleep_and_wake(uneven, load, sleeper)
            uneven.wait_ok()
            wait_for_lanes(uneven, 1, 2, 3)
    assert right >= 60, f"only {right} of 120 reads were answered at all"
    read_alike(uneven, load, [1, 2, 3])


def test_naps_shorter_and_longer_than_an_election(uneven):
    with Load(uneven.ports(), seed=43) as load:
        take_naps(uneven, load, (0.02, 0.06, 0.3, 0.9, 1.5))
        uneven.wait_ok()
        wait_for_lanes(uneven, 1, 2, 3)
        check_proves(uneven, load, 1, 2, 3)
    read_alike(uneven, load, [1, 2, 3])


# ---- one of the two connections between nodes

def test_a_key_lives_for_its_time_though_the_worker_of_its_leader_had_slept(uneven):
    """Its time begins when it is set, not when the worker went to sleep before."""
    links = {n: Link(uneven.port(n), 30 * PATIENCE) for n in uneven.nodes}
    sent_before = {n: int(figures(uneven, n)["cluster_requests_forwarded"]) for n in links}
    for i in range(40):
        time.sleep(0.03 + i % 5 * 0.02)
        for n, c in links.items():
            key, began_ms = f"short{i}", time.time_ns() // 1_000_000
            assert c.ask("SET", key, "v", "PX", 60_000) == "OK"
            assert c.ask("PEXPIRETIME", key) >= began_ms + 60_000, f"set by node {n}"
    for n in links:
        assert int(figures(uneven, n)["cluster_requests_forwarded"]) > sent_before[n], "nothing went by a lane"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def greeting(cluster, number, to, lane=0):
    """As this run of the node says it (cluster/wire.c)."""
    with open(os.path.join(cluster.nodes[number].data, "cluster", "NODE")) as f:
        known = dict(line.split(" ", 1) for line in f)
    address = f"127.0.0.1:{cluster.nodes[number].cluster_port}".encode()
    body = struct.pack("<HH16sQQQB", 4, 3, bytes.fromhex(known["cluster"].strip()), number, to, int(known["incarnation"]), len(address)) + address + struct.pack("<HH", WORKERS[number], lane)
    head = b"\x89sherd\r\n" + struct.pack("<I", 16 + len(body))
    return head + struct.pack("<I", crc32c(head + body)) + body


def call_as(cluster, number, to, lane=0):
    s = socket.create_connection(("127.0.0.1", cluster.nodes[to].cluster_port), 5)
    s.sendall(greeting(cluster, number, to, lane))
    assert s.recv(100).startswith(b"\x89sherd"), f"node {to} did not take it for node {number}"
    return s


def ping():
    head, rest = struct.pack("<I", 24), struct.pack("<BBHIQ", 1, 0, 0, 0, 7)
    return head + struct.pack("<I", crc32c(head + rest)) + rest


def ended(s):
    """Whether the other side has closed; what it said before is dropped."""
    s.settimeout(0.3)
    try:
        while s.recv(65536):
            pass
        return True
    except socket.timeout:
        return False
    except ConnectionError:
        return True


def test_lanes_come_back_when_only_the_connection_of_the_other_node_broke(uneven):
    """Node 1, which calls, is still connected to the others then: it is their connections to it that end, because somebody else takes their place for a moment."""
    for other in (2, 3):
        reached = lambda: uneven.nodes[other].log().count("connected to a node node=1 ")
        before = reached()
        with call_as(uneven, other, 1):
            wait_for(lambda: reached() > before, 20, lambda: f"node {other} did not lose its connection: {uneven.nodes[other].log()[-2000:]}")
    assert uneven.nodes[1].log().count("connected to a node ") == 2, "node 1 lost its own connections, too"
    wait_for_lanes(uneven, 1, 2, 3)
    with Load(uneven.ports(), seed=44) as load:
        check_proves(uneven, load, 1, 2, 3)
    read_alike(uneven, load, [1, 2, 3])


def test_lanes_of_a_node_that_is_forgotten_end(uneven):
    """It was removed, calls again with a lane, and does not end when it is told. After a while it is forgotten, which the connection that its lane belongs to does not say."""
    uneven.kill(3)
    wait_for(lambda: "silent" in (uneven.member(3, through=1) or {"state": ""})["state"], 20, lambda: f"node 3 is not missed: {uneven.status(1)}")
    uneven.cli("remove", 3, "--server", f"127.0.0.1:{uneven.port(1)}")
    wait_for(lambda: not uneven.nodes[1].knows(3), 30, lambda: "node 1 does not forget node 3")
    wait_for_lanes(uneven, 1, 2)
    with call_as(uneven, 3, 1) as link, call_as(uneven, 3, 1, lane=1) as lane:
        wait_for(lambda: figures(uneven, 1)["cluster_lanes"] == str(lanes_of(1, [1, 2]) + 1), 10, lambda: f"node 1 has no lane of node 3: {figures(uneven, 1)}")
        assert uneven.nodes[1].knows(3) and not ended(lane)
        deadline = time.monotonic() + 20 * PATIENCE
        while not ended(link):
            assert time.monotonic() < deadline, "node 1 does not forget node 3 again"
            link.sendall(ping())
        assert not uneven.nodes[1].knows(3), "its connection ended before it was forgotten"
        wait_for(lambda: ended(lane), 10, lambda: f"node 1 keeps the lane of node 3: {figures(uneven, 1)}")
    wait_for_lanes(uneven, 1, 2)


def test_the_longest_reply_that_nodes_pass_on_comes_by_a_lane(uneven):
    most = 64 * 1024 * 1024 - len("$67108840\r\n\r\n")
    link = Link(uneven.port(1), 60)
    assert link.ask("SETRANGE", SPREAD[0], most - 1, "x") == most
    link.close()
    for number in (1, 2, 3):
        link = Link(uneven.port(number), 60)
        assert len(link.ask("GET", SPREAD[0])) == most, f"through node {number}"
        assert link.ask("STRLEN", SPREAD[0]) == most
        link.close()
