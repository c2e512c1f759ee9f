"""Three nodes of a cluster as real processes, under a load that remembers everything: they are killed, paused, started again, one has no disk left, one comes and one goes. Nothing that was acknowledged is
lost, no read is stale, and clients get no error that is not documented."""
import os
import shutil
import statistics
import subprocess
import time

import pytest

from cluster import SPREAD, cluster, make_cluster, wait_for  # noqa: F401, two of them fixtures
from clusterload import Link, Load, Refused, read_all
from conftest import PATIENCE, free_port

LED_AGAIN_SECONDS = 10  # far more than it takes: nothing is measured here


def check_went_on(load, span, what):
    """Without requests during the disturbance nothing is shown about it."""
    counts = {kind: load.answered(kind, span) for kind in ("GET", "SET", "GETSET", "SETNX", "DEL", "GETDEL", "INCR", "APPEND")}
    enough = counts["GET"] >= 30 and counts["SET"] >= 20 and counts["INCR"] >= 10 and min(counts.values()) >= 1
    assert enough, f"little was answered while {what}: {counts}; refusals: {load.refusals}"


def read_alike(cluster, load, numbers):
    """Every one of these nodes has what was acknowledged, and history is whole."""
    load.check(cluster.port(numbers[0]))
    for number in numbers[1:]:
        load.check_ledger(cluster.port(number))


def sleep_and_wake(cluster, load, sleeper):
    """Requests lie in a node's sockets when it wakes up, and it does not know yet that others lead by now. They were sent after what others have written was acknowledged: how many of 40 were answered rightly, and not refused."""
    cluster.write_everywhere(sleeper, "old")
    links = [Link(cluster.port(sleeper), 20) for _ in range(40)]
    assert all(k.ask("GET", SPREAD[i]) == "old" for i, k in enumerate(links))
    began = time.monotonic_ns()
    cluster.pause(sleeper)
    cluster.write_everywhere(cluster.others(sleeper)[0], f"new{sleeper}")
    for i, k in enumerate(links):
        k.send(("GET", SPREAD[i]))
    load.run_for(load.timeout + 0.7)
    check_went_on(load, (began, time.monotonic_ns()), f"node {sleeper} slept")
    cluster.resume(sleeper)
    answers = [k.answer() for k in links]
    for k in links:
        k.close()
    assert all(a == f"new{sleeper}" or isinstance(a, Refused) for a in answers), f"node {sleeper} woke up and said {answers}"
    return answers.count(f"new{sleeper}")


def take_naps(cluster, load, lengths):
    began = time.monotonic_ns()
    for seconds in lengths:
        for sleeper in cluster.nodes:
            cluster.pause(sleeper)
            time.sleep(seconds)
            cluster.resume(sleeper)
            time.sleep(0.1)
    check_went_on(load, (began, time.monotonic_ns()), "nodes took naps")


# ---- nothing happens

def test_every_node_answers_for_every_key(cluster):
    for number in cluster.nodes:
        cluster.write_everywhere(number, f"by{number}")
        for reader in cluster.nodes:
            assert set(read_all(cluster.port(reader), SPREAD)) == {f"by{number}"}, f"written through {number}, read through {reader}"
    assert sum(cluster.leads(n) > 0 for n in cluster.nodes) >= 2, "one node leads everything: nothing was forwarded"
    with Load(cluster.ports()) as load:
        span = load.run_for(2)
    check_went_on(load, span, "nothing happened")
    assert not load.refusals, load.refusals
    read_alike(cluster, load, [1, 2, 3])


def test_answers_stand_in_the_order_of_a_pipeline(cluster):
    link = Link(cluster.port(2), 10)
    for turn in range(5):
        commands = [c for k in SPREAD for c in (("SET", k, f"{k}.{turn}"), ("GET", k), ("PING",), ("APPEND", k, "x"), ("STRLEN", k))]
        answers = link.ask_all(commands)
        for i, k in enumerate(SPREAD):
            n = len(f"{k}.{turn}") + 1
            assert answers[5 * i:5 * i + 5] == ["OK", f"{k}.{turn}", "PONG", n, n]
    link.close()


# ---- kill -9

def test_each_node_is_killed_in_turn(cluster):
    seconds = []
    with Load(cluster.ports(), seed=11) as load:
        load.run_for(0.5)
        for victim in (1, 2, 3):
            assert cluster.leads(victim, through=victim) > 0, f"node {victim} leads nothing: to kill it shows little"
            began = time.monotonic_ns()
            cluster.kill(victim)
            seconds.append(cluster.write_everywhere(cluster.others(victim)[0], f"without{victim}"))
            load.run_for(0.7)
            check_went_on(load, (began, time.monotonic_ns()), f"node {victim} was dead")
            cluster.start(victim)
            cluster.wait_ok()
            wait_for(lambda: cluster.leads(victim) > 0, 15, lambda: f"node {victim} gets nothing to lead: {cluster.status(victim)}")
    print(f"all groups are led again after {sorted(round(s, 2) for s in seconds)} s, median {statistics.median(seconds):.2f} s")
    assert max(seconds) < LED_AGAIN_SECONDS, seconds
    read_alike(cluster, load, [1, 2, 3])
    print(f"{load.answered()} answers, {load.uncertain()} uncertain, refusals {dict(load.refusals)}")


def test_all_three_are_killed_at_once_and_nothing_acknowledged_is_lost(cluster):
    with Load(cluster.ports(), seed=12) as load:
        for _ in range(2):
            span = load.run_for(1)
            check_went_on(load, span, "all was well")
            cluster.kill(1, 2, 3)
            cluster.start(1, 2, 3)
            cluster.wait_ok()
        span = load.run_for(1)
    check_went_on(load, span, "they were back")
    read_alike(cluster, load, [1, 2, 3])


def test_all_three_are_stopped_and_started(cluster):
    with Load(cluster.ports(), seed=13) as load:
        load.run_for(1)
        cluster.stop(1, 2, 3)
        cluster.start(1, 2, 3)
        cluster.wait_ok()
        span = load.run_for(1)
    check_went_on(load, span, "they were back")
    read_alike(cluster, load, [3, 2, 1])


def test_each_node_is_stopped_and_started_in_turn(cluster):
    """As for a new version."""
    with Load(cluster.ports(), seed=19) as load:
        load.run_for(0.3)
        for number in (1, 2, 3):
            began = time.monotonic_ns()
            cluster.stop(number)
            cluster.write_everywhere(cluster.others(number)[0], f"without{number}")
            load.run_for(0.5)
            check_went_on(load, (began, time.monotonic_ns()), f"node {number} was away")
            cluster.start(number)
            cluster.wait_ok()
    read_alike(cluster, load, [1, 2, 3])
    print(f"{load.answered()} answers, {load.uncertain()} uncertain, refusals {dict(load.refusals)}")


def test_one_node_alone_answers_nothing_and_lies_about_nothing(make_cluster):
    cluster = make_cluster(args=["--cluster-timeout-ms", 500])
    with Load(cluster.ports(), seed=14) as load:
        load.run_for(0.5)
        cluster.kill(1, 2)
        time.sleep(1)
        span = load.run_for(1.5)
        assert load.answered(span=span) == 0, "without a majority something was answered"
        assert load.refusals["CLUSTERDOWN"] > 0, load.refusals
        cluster.start(1, 2)
        cluster.wait_ok()
        span = load.run_for(1)
    check_went_on(load, span, "they were back")
    read_alike(cluster, load, [1, 2, 3])


# ---- SIGSTOP

def test_a_paused_leader_that_comes_back_shows_nothing_old(cluster):
    right = 0
    with Load(cluster.ports(), seed=15) as load:
        load.run_for(0.3)
        for sleeper in (1, 2, 3):
            wait_for(lambda: cluster.leads(sleeper) > 0, 15, lambda: f"node {sleeper} leads nothing: {cluster.status(sleeper)}")
            right += sleep_and_wake(cluster, load, sleeper)
            cluster.wait_ok()
    assert right >= 60, f"only {right} of 120 reads were answered at all"
    read_alike(cluster, load, [1, 2, 3])


def test_naps_shorter_and_longer_than_an_election(cluster):
    with Load(cluster.ports(), seed=16) as load:
        take_naps(cluster, load, (0.1, 0.3, 0.6, 0.9, 1.5))
        cluster.wait_ok()
    read_alike(cluster, load, [1, 2, 3])


# ---- a full disk

@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(place)], capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(place):
    with open(place / "ballast", "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(1 << 16))
        except OSError:
            pass


def fill_log(cluster):
    """Writes more than what is left of node 3's log: two files of it at most."""
    for i in range(60):
        link = Link(cluster.port(1), 30)
        link.ask_all([("SET", k, f"{i}" + "x" * 2000) for k in SPREAD])
        link.close()


SMALL_LOG = ["--cluster-segment-bytes", "8mb", "--cluster-timeout-ms", 1000]


def test_one_node_has_no_disk_left_and_the_others_go_on(make_cluster, small_disk):
    cluster = make_cluster(data={3: str(small_disk / "data")}, args=SMALL_LOG)
    with Load(cluster.ports(), seed=17) as load:
        load.run_for(0.5)
        fill_up(small_disk)
        fill_log(cluster)
        span = load.run_for(4)
        check_went_on(load, span, "node 3 had no disk left")
        assert "No space left on device" in cluster.nodes[3].log()
        assert cluster.running(3)
        os.unlink(small_disk / "ballast")
        cluster.write_everywhere(3, "there is room")
        cluster.kill(1)  # from now on nothing is acknowledged without node 3
        cluster.write_everywhere(2, "with3")
        span = load.run_for(1)
    check_went_on(load, span, "node 3 was needed again")
    read_alike(cluster, load, [3, 2])


def test_a_leader_without_disk_hands_its_groups_over(make_cluster, small_disk):
    cluster = make_cluster(data={3: str(small_disk / "data")}, args=SMALL_LOG)
    assert cluster.leads(3) > 0
    fill_up(small_disk)
    fill_log(cluster)
    wait_for(lambda: cluster.leads(3) == 0, 10, lambda: f"it leads on: {cluster.ask(1, 'CLUSTER', 'STATUS')}")
    cluster.write_everywhere(1, "led by others", seconds=8)
    assert cluster.leads(3) == 0


# ---- coming and going

def test_a_fourth_node_joins_and_the_first_leaves(cluster):
    with Load(cluster.ports(), seed=18) as load:
        load.run_for(0.5)
        began = time.monotonic_ns()
        cluster.join(4, through=2)
        cluster.wait_ok(4)
        load.ports.append(cluster.port(4))
        wait_for(lambda: int((cluster.member(4, through=4) or {"groups": 0})["groups"]) >= 8, 20, lambda: f"the fourth gets no replicas: {cluster.status(2)}")
        check_went_on(load, (began, time.monotonic_ns()), "the fourth joined")
        began = time.monotonic_ns()
        cluster.cli("leave", 1, "--server", f"127.0.0.1:{cluster.port(2)}")
        load.ports.remove(cluster.port(1))
        wait_for(lambda: cluster.status(2) and not cluster.member(1, through=2), 25, lambda: f"the first does not get away: {cluster.ask(2, 'CLUSTER', 'STATUS')}")
        if cluster.running(1):
            cluster.nodes[1].life.stop()
        cluster.nodes[1].life.process.returncode = 0  # it may have ended by itself, as a node that is gone does
        load.run_for(0.5)
        check_went_on(load, (began, time.monotonic_ns()), "the first left")
        cluster.kill(3)  # two of three are enough, if the fourth has everything that the first had
        cluster.write_everywhere(4, "two of three")
        span = load.run_for(load.timeout + 0.7)
    check_went_on(load, span, "the fourth was needed")
    read_alike(cluster, load, [4, 2])


def test_a_node_that_tells_a_wrong_address_gets_nothing_until_it_tells_the_right_one(cluster):
    cluster.join(4, args=["--advertise", f"127.0.0.1:{free_port()}"])
    wait_for(lambda: (cluster.member(4, through=1) or {"state": ""})["state"] == "up, unreachable", 20, lambda: f"node 4 is not seen as it is: {cluster.status(1)}")
    time.sleep(2.5)  # two looks at the placement
    status = cluster.status(1)
    assert not status.get("operation") and all("4" not in g["members"].split() for g in status["group"]), status
    assert "cannot be reached at the address" in str(cluster.ask(1, "HEALTH")) and "heard nothing of the cluster" in str(cluster.ask(4, "HEALTH"))
    cluster.kill(4)
    cluster.nodes[4].started = []
    cluster.start(4)
    cluster.wait_ok(4)
    wait_for(lambda: int((cluster.member(4, through=1) or {"groups": 0})["groups"]) >= 8, 20, lambda: f"node 4 gets no replicas: {cluster.status(1)}")
    assert cluster.member(4, through=1)["state"] == "up"


def test_a_node_that_was_removed_while_it_was_away_is_told_when_it_comes_back(cluster):
    through = f"127.0.0.1:{cluster.port(1)}"
    cluster.kill(3)
    wait_for(lambda: "silent" in (cluster.member(3, through=1) or {"state": ""})["state"], 20, lambda: f"node 3 is not missed: {cluster.status(1)}")
    cluster.cli("remove", 3, "--server", through)
    wait_for(lambda: not any(cluster.member(3, through=n) for n in (1, 2)), 20, lambda: f"node 3 stays: {cluster.status(1)}")
    cluster.kill(1, 2)  # while they would say farewell to it, if it were there
    cluster.start(1, 2)
    cluster.wait_ok(1, 2)
    wait_for(lambda: not any(cluster.nodes[n].knows(3) for n in (1, 2)), 20, lambda: "node 3 is not forgotten")
    cluster.start(3)
    assert cluster.nodes[3].life.process.wait(20 * PATIENCE) != 0
    cluster.nodes[3].life.process.returncode = 0  # as it should
    assert "another node says that this one was declared gone" in cluster.nodes[3].log()
    cluster.write_everywhere(1, "without node 3")


def test_a_node_that_has_lost_who_it_is_does_not_start_on_its_log(cluster):
    cluster.stop(3)
    os.remove(os.path.join(cluster.nodes[3].data, "cluster", "NODE"))
    cluster.start(3)
    assert cluster.nodes[3].life.process.wait(20 * PATIENCE) == 1
    cluster.nodes[3].life.process.returncode = 0  # as it should
    assert "there is a log here, but no file NODE" in cluster.nodes[3].log()
    cluster.write_everywhere(1, "without node 3")


def test_a_node_that_has_lost_its_log_does_not_start_and_vote_again(cluster):
    for node in cluster.nodes.values():
        wait_for(lambda: "log 1\n" in open(os.path.join(node.data, "cluster", "NODE")).read(), 10, lambda: "it is not noted that there is a log")
    cluster.kill(2)
    cluster.write_everywhere(1, "on 1 and 3")
    cluster.kill(1, 3)
    shutil.rmtree(os.path.join(cluster.nodes[3].data, "cluster", "raft"))
    cluster.start(2, 3)
    assert cluster.nodes[3].life.process.wait(20 * PATIENCE) == 1
    cluster.nodes[3].life.process.returncode = 0  # as it should
    assert "the log of this node is lost" in cluster.nodes[3].log()
    cluster.start(1)
    cluster.wait_ok(1, 2)
    assert set(read_all(cluster.port(2), SPREAD)) == {"on 1 and 3"}


def test_a_node_with_more_replicas_than_seats_does_not_start(make_cluster):
    cluster = make_cluster(nodes=1, args=["--cluster-shards", 8])
    cluster.write_everywhere(1, "v")
    cluster.stop(1)
    cluster.args = ["--cluster-shards", 2, "--cluster-seats", 8]
    cluster.start(1)
    assert cluster.nodes[1].life.process.wait(20 * PATIENCE) == 1
    cluster.nodes[1].life.process.returncode = 0  # as it should
    assert "this node has 8 replicas, and room for 7: cluster-seats is too small" in cluster.nodes[1].log()
    cluster.args = ["--cluster-shards", 2, "--cluster-seats", 9]
    cluster.start(1)
    cluster.wait_ok()
    assert set(read_all(cluster.port(1), SPREAD)) == {"v"}
