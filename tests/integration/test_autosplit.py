"""Ranges that split, move and merge by themselves, and tell why."""
import time

import pytest
import redis

from beside import Pounding

QUICK = ["--ranges-sustain", "1", "--ranges-settle", "1"]


def as_dict(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def ranges(c, space):
    return [as_dict(r) for r in c.execute_command("RANGE.MAP", space)]


def counters(c):
    return c.info("spaces")


def explain(c, space):
    out = as_dict(c.execute_command("RANGE.EXPLAIN", space))
    return [as_dict(r) for r in out["ranges"]], [as_dict(d) for d in out["decisions"]]


def wait_until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.1)


def fill(c, space, n, size=100):
    for first in range(0, n, 2000):
        c.mset({f"{space}/{i:06}": "x" * size for i in range(first, min(n, first + 2000))})


def all_keys(c, space, limit=1000):
    cursor, out = "0", []
    while True:
        cursor, keys = c.execute_command("RANGE.GET", space, "LIMIT", limit, "CURSOR", cursor, "KEYSONLY")
        out += keys
        if cursor == "0":
            return out


def is_at_rest(c, space):
    return all("to-shard" not in r for r in ranges(c, space))


def test_a_space_is_cut_by_its_size_and_spread_over_all_shards_then_merged_when_it_is_empty_again(make_server):
    s = make_server(workers=3, args=QUICK + ["--ranges-split-bytes", "512kb", "--ranges-split-ops", "0", "--ranges-merge-ops", "100000000", "--ranges-merge-bytes", "128kb"])
    c = s.client()
    c.execute_command("SPACE.SET", "big", "RANGE")
    fill(c, "big", 20000)
    wait_until(lambda: len({r["shard"] for r in ranges(c, "big")}) == 3 and len(ranges(c, "big")) >= 4 and is_at_rest(c, "big"))
    assert all_keys(c, "big") == [f"big/{i:06}" for i in range(20000)]
    n = counters(c)
    assert n["automatic_splits"] >= 3 and n["automatic_moves"] >= 2 and n["keys_moved"] > 0 and n["move_slices"] > 0
    assert n["spaces"] == 1 and n["ranges"] == len(ranges(c, "big"))
    why, decisions = explain(c, "big")
    assert len(why) == len(ranges(c, "big"))
    assert any("split at the middle of its bytes" in d["text"] for d in decisions) and any("moved to shard" in d["text"] for d in decisions)
    assert all(abs(d["time"] / 1000 - time.time()) < 600 for d in decisions)
    assert all("not split" in r["split"] for r in why)

    assert c.execute_command("RANGE.DEL", "big", "big/000100") == 19900
    wait_until(lambda: len(ranges(c, "big")) == 1)
    assert all_keys(c, "big") == [f"big/{i:06}" for i in range(100)]
    assert counters(c)["automatic_merges"] >= 3


def test_pages_stay_right_while_a_space_under_writers_is_cut_by_itself(make_server):
    s = make_server(workers=3, args=QUICK + ["--ranges-split-bytes", "10gb", "--ranges-split-ops", "0"])
    c = s.client()
    c.execute_command("SPACE.SET", "big", "RANGE")
    fill(c, "big", 20000)
    expected = [f"big/{i:06}" for i in range(20000)]
    with Pounding([s.client] * 2, expected[::97]):
        c.config_set("ranges-split-bytes", "256kb")
        rounds = 0
        deadline = time.monotonic() + 60
        while counters(c)["automatic_moves"] < 4 or not is_at_rest(c, "big") or rounds < 3:
            assert all_keys(c, "big", 500) == expected
            assert c.execute_command("RANGE.COUNT", "big") == 20000
            rounds += 1
            assert time.monotonic() < deadline
    assert len(ranges(c, "big")) >= 5


def test_a_range_with_much_to_do_is_parted_in_the_middle_of_its_load(make_server):
    s = make_server(workers=2, args=QUICK + ["--ranges-split-ops", "500", "--ranges-merge-ops", "0"])
    c = s.client()
    c.execute_command("SPACE.SET", "hot", "RANGE")
    fill(c, "hot", 10000)
    with Pounding([s.client] * 2, [f"hot/{i:06}" for i in range(9000, 9500)]):  # far from the middle of the bytes
        wait_until(lambda: counters(c)["automatic_splits"] >= 1)
        cut = ranges(c, "hot")[0]["end"]
        assert "hot/009000" < cut < "hot/009500"
        wait_until(lambda: any(r["ops"] > 500 for r in ranges(c, "hot")))
        _, decisions = explain(c, "hot")
        assert any("split at the middle of its load" in d["text"] for d in decisions)
        wait_until(lambda: len({r["shard"] for r in ranges(c, "hot")}) == 2)
    assert c.execute_command("RANGE.COUNT", "hot") == 10000


def test_a_single_hot_key_is_refused_and_told(make_server):
    s = make_server(workers=2, args=QUICK + ["--ranges-split-ops", "500"])
    c = s.client()
    c.execute_command("SPACE.SET", "hot", "RANGE")
    fill(c, "hot", 1000)
    with Pounding([s.client] * 2, ["hot/000500"] * 100):
        wait_until(lambda: counters(c)["automatic_refused"] >= 1)
        why, decisions = explain(c, "hot")
        assert "one key makes up" in decisions[0]["text"] and "hot/000500" in decisions[0]["text"]
        assert len(why) == 1 and "refused to split" in why[0]["split"]
    assert counters(c)["automatic_splits"] == 0 and len(ranges(c, "hot")) == 1


def test_what_is_off_does_nothing_and_says_so(make_server, tmp_path):
    config = tmp_path / "sherd.toml"
    config.write_text('[ranges]\nauto = false\nsplit_bytes = "64kb"\nsplit_ops = 7\nmax_changes = 2\n')
    s = make_server(workers=2, args=["--config", str(config)])
    c = s.client()
    assert c.config_get("ranges-*")["ranges-split-ops"] == "7" and c.config_get("ranges-max-changes")["ranges-max-changes"] == "2"
    c.execute_command("SPACE.SET", "big", "RANGE")
    fill(c, "big", 5000)
    wait_until(lambda: "ranges-auto is off" in explain(c, "big")[0][0]["split"])
    assert len(ranges(c, "big")) == 1
    c.config_set("ranges-auto", "yes")
    wait_until(lambda: len(ranges(c, "big")) > 1)


def test_explain_needs_a_space_with_ranges(server, client):
    for mode in (None, "BUCKET"):
        if mode:
            client.execute_command("SPACE.SET", "s", mode)
        with pytest.raises(redis.ResponseError, match="has no ranges: SPACE.SET it RANGE first"):
            client.execute_command("RANGE.EXPLAIN", "s")
