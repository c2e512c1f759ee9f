"""Key spaces of a cluster: their modes, ranges and locks are the same on every node, survive its leaders and all of its processes; reads along their order are consistent."""

import threading
import time

import pytest
import redis

from cluster import cluster, make_cluster  # noqa: F401, fixtures
from conftest import PATIENCE


def clients(cluster):
    return [redis.Redis(port=port, decode_responses=True, socket_timeout=60 * PATIENCE) for port in cluster.ports()]


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def key(i):
    return f"users/{i:06d}"


def eventually(condition, seconds=60):
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        try:
            if condition():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.02)


def ranges(c, space="users"):
    return [as_dict(r) for r in c.execute_command("RANGE.MAP", space)]


def ready_everywhere(cluster, space, mode):
    nodes = clients(cluster)

    def is_ready():
        infos = [as_dict(c.execute_command("SPACE.INFO", space)) for c in nodes]
        return all(i["mode"] == mode and i.get("state") == "ready" for i in infos)

    eventually(is_ready)


def all_keys(c, *args):
    cursor, found = "0", []
    while True:
        cursor, page = c.execute_command("RANGE.GET", "users", *args, "KEYSONLY", "LIMIT", 700, "CURSOR", cursor)
        found += page
        if cursor == "0":
            return found


def test_a_space_has_order_on_every_node(cluster):
    a, b, c = clients(cluster)
    n = 3000
    for i in range(0, n, 500):
        a.mset({key(k): k for k in range(i, i + 500)})  # one space is in one group
    assert all_keys(b) == [key(i) for i in range(n)]  # a bucket has an order, too; but a walk takes its group's time
    assert b.execute_command("SPACE.SET", "users", "RANGE") in ("OK", True)
    ready_everywhere(cluster, "users", "range")
    for node in (a, b, c):
        assert all_keys(node) == [key(i) for i in range(n)]
        assert node.execute_command("RANGE.COUNT", "users", key(100), key(200)) == 100
        assert node.execute_command("RANGE.GET", "users", key(5), key(8))[1] == [key(5), "5", key(6), "6", key(7), "7"]
    assert c.execute_command("RANGE.DEL", "users", key(0), key(1000)) == 1000
    assert a.execute_command("RANGE.COUNT", "users") == n - 1000
    cart = {f"cart/17/{i}": str(i) for i in range(30)}
    for k, v in cart.items():
        b.set(k, v)
    assert a.execute_command("SPACE.SET", "cart/17", "BUCKET") in ("OK", True)
    ready_everywhere(cluster, "cart/17", "bucket")
    cursor, flat = c.execute_command("BUCKET.GET", "cart/17/")
    assert cursor == "0" and dict(zip(flat[::2], flat[1::2])) == cart and flat[::2] == sorted(cart)


def test_ranges_are_cut_and_joined_and_say_who_has_them(cluster):
    a, b, c = clients(cluster)
    a.execute_command("SPACE.SET", "users", "RANGE")
    ready_everywhere(cluster, "users", "range")
    a.mset({key(k): k for k in range(100)})
    for at in (25, 50, 75):
        assert b.execute_command("RANGE.SPLIT", "users", key(at)) in ("OK", True)
    eventually(lambda: all(len(ranges(node)) == 4 for node in (a, b, c)))
    for node in (a, b, c):
        found = ranges(node)
        assert [(r["start"], r["end"]) for r in found] == [("-", key(25)), (key(25), key(50)), (key(50), key(75)), (key(75), "+")]
        assert len({r["id"] for r in found}) == 4 and len({r["shard"] for r in found}) == 1
        assert all(r["replicas"] == [1, 2, 3] for r in found)
    eventually(lambda: all(r["leader"] in (1, 2, 3) and r["keys"] == 25 for node in (a, b, c) for r in ranges(node)))
    assert all_keys(c) == [key(i) for i in range(100)]
    with pytest.raises(redis.ResponseError, match=f'no range of space "users" begins at "{key(30)}": the one that holds it begins at "{key(25)}"'):
        a.execute_command("RANGE.MERGE", "users", key(30))
    assert c.execute_command("RANGE.MERGE", "users", key(50)) in ("OK", True)
    eventually(lambda: all([r["start"] for r in ranges(node)] == ["-", key(25), key(75)] for node in (a, b, c)))
    with pytest.raises(redis.ResponseError, match="there is no group 99"):
        a.execute_command("RANGE.MOVE", "users", key(0), 99)


def test_locks_and_modes_survive_a_leader_and_all_processes(cluster):
    a = clients(cluster)[0]
    a.execute_command("SPACE.SET", "users", "RANGE")
    ready_everywhere(cluster, "users", "range")
    a.mset({key(k): k for k in range(500)})
    first, holder = a.execute_command("RANGE.LOCK", "users", key(0), key(100), "alice", 600000)
    assert first > 0 and holder is None
    eventually(lambda: ranges(a)[0]["leader"])
    led_by = ranges(a)[0]["leader"]
    cluster.kill(led_by)
    c, d = (clients(cluster)[n - 1] for n in cluster.others(led_by))

    def refused():
        token, holder = c.execute_command("RANGE.LOCK", "users", key(50), key(60), "bob", 600000)
        return token is None and as_dict(holder)["owner"] == "alice" and as_dict(holder)["token"] == first

    eventually(refused)
    second, _ = d.execute_command("RANGE.LOCK", "users", key(100), key(200), "bob", 600000)
    assert second > first
    assert all_keys(c) == [key(i) for i in range(500)]
    cluster.kill(*cluster.others(led_by))
    cluster.start(1, 2, 3)
    c = clients(cluster)[0]
    eventually(lambda: c.execute_command("RANGE.COUNT", "users") == 500)
    assert sorted(as_dict(lock)["owner"] for lock in c.execute_command("RANGE.LOCKS", "users")) == ["alice", "bob"]
    assert c.execute_command("RANGE.UNLOCK", "users", key(0), key(100), "alice") == 1


def test_a_read_along_the_order_sees_one_moment(cluster):
    """Each write moves a mark from key to key with one MSET of the space: every page has exactly one."""
    a, b, c = clients(cluster)
    n = 200
    a.execute_command("SPACE.SET", "users", "RANGE")
    ready_everywhere(cluster, "users", "range")
    a.mset({key(i): int(i == 0) for i in range(n)})
    a.execute_command("RANGE.SPLIT", "users", key(n // 2))
    stop, moves, errors = threading.Event(), [0], []

    def write():
        try:
            while not stop.is_set():
                at = moves[0] % n
                b.mset({key(at): 0, key((at + 77) % n): 1})
                b.mset({key((at + 77) % n): 0, key((at + 1) % n): 1})
                moves[0] += 1
        except Exception as e:
            errors.append(e)

    writer = threading.Thread(target=write)
    writer.start()
    deadline, read = time.monotonic() + 60 * PATIENCE, 0
    while read < 300 or moves[0] < 100:
        assert time.monotonic() < deadline and not errors
        _, flat = (a, c)[read % 2].execute_command("RANGE.GET", "users")
        assert flat[1::2].count("1") == 1 and len(flat) == 2 * n
        read += 1
    stop.set()
    writer.join(30)
    assert not errors
