"""INFO persistence and HEALTH: what they say is what is on disk."""
import glob
import os
import time

import pytest

REDIS_FIELDS = ("rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec "
                "rdb_saves rdb_last_cow_size aof_enabled aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec "
                "aof_last_bgrewrite_status aof_rewrites aof_last_write_status aof_last_cow_size current_save_keys_processed current_save_keys_total").split()


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def health(server):
    """The overall state and {check: (state, detail)}."""
    with server.client() as c:
        reply = pairs(c.execute_command("HEALTH"))
    state = reply.pop("state")
    return state, {name: (pairs(check)["state"], pairs(check)["detail"]) for name, check in reply.items()}


def size_of(data, pattern):
    return sum(os.path.getsize(f) for f in glob.glob(f"{data}/layout-*/shard-*/{pattern}"))


def test_a_server_without_trouble_passes_every_check(make_server, data):
    state, checks = health(make_server(data=data, workers=2))
    assert state == "ok" and list(checks) == ["wal", "dump", "crc", "disk"]
    assert all(c[0] == "ok" and len(c[1]) > 20 for c in checks.values())


def test_health_is_a_map_of_maps_in_resp3(server):
    with server.raw() as s:
        s.command("HELLO", "3")
        s.command("HEALTH")
        while s.line() != b"%5":
            pass
        s.expect(b"$5\r\nstate\r\n$2\r\nok\r\n$3\r\nwal\r\n%2\r\n$5\r\nstate\r\n$2\r\nok\r\n$6\r\ndetail\r\n")


def test_an_ephemeral_server_has_nothing_to_check(make_server):
    s = make_server(args=["--ephemeral"])
    state, checks = health(s)
    assert state == "ok" and all("ephemeral" in c[1] for c in checks.values())
    with s.client() as c:
        info = c.info("persistence")
        assert info["aof_enabled"] == 0 and "log_bytes" not in info


def test_what_exporters_read_is_there_and_moves(make_server, data):
    s = make_server(data=data, workers=2)
    with s.client() as c:
        info = c.info("persistence")
        assert not [f for f in REDIS_FIELDS if f not in info]
        assert info["rdb_changes_since_last_save"] == 0 and info["rdb_saves"] == 0 and info["rdb_last_bgsave_time_sec"] == -1
        for i in range(500):
            c.set(f"k{i}", "v" * 200)
        assert c.info("persistence")["rdb_changes_since_last_save"] == 500
        before = int(time.time())
        c.save()
        info = c.info("persistence")
        assert info["rdb_changes_since_last_save"] == 0 and info["rdb_saves"] == 1 and info["rdb_last_bgsave_time_sec"] >= 0
        assert before - 1 <= info["rdb_last_save_time"] <= int(time.time()) and info["rdb_last_bgsave_status"] == "ok"
        assert info["aof_base_size"] == size_of(data, "[0-9]*.dump")


def test_the_log_and_the_dump_are_told_as_they_lie_on_disk(make_server, data):
    s = make_server(data=data, workers=2, args=["--sync-policy", "EveryWrite"])
    with s.client() as c:
        for i in range(300):
            c.set(f"k{i}", "v" * 300)
        info = c.info("persistence")
        shards = [info["log_shard0"], info["log_shard1"]]
        assert info["log_records"] == sum(x["records"] for x in shards) == 300
        assert info["log_bytes"] == sum(x["bytes"] for x in shards) > 300 * 300 and info["log_segments"] == 2
        assert info["log_pending_bytes"] == 0 and info["log_sync_policy"] == "EveryWrite" and info["log_last_sync_age_ms"] < 60_000
        assert info["log_written_epoch"] == info["log_synced_epoch"]
        c.save()
        info = c.info("persistence")
        assert info["dump_in_progress"] == 0 and info["dump_last_status"] == "ok" and info["dump_last_keys"] == 300
        assert info["dump_last_bytes"] == size_of(data, "[0-9]*.dump") and 0 < info["dump_last_compression_ratio"] < 0.5
        assert info["dump_last_age_sec"] < 60 and info["dump_last_epoch"] > 0 and info["dump_last_duration_ms"] >= 0
        c.config_set("sync-policy", "OsManaged")
        assert c.info("persistence")["log_sync_policy"] == "OsManaged"
    free = os.statvfs(data)
    assert info["disk_total_bytes"] == free.f_blocks * free.f_frsize


def test_changes_of_an_earlier_life_count_until_they_are_dumped(make_server, data):
    s = make_server(data=data, workers=2)
    with s.client() as c:
        c.set("a", 1)
        c.save()
        c.set("b", 1)
    assert s.stop() == 0
    s = make_server(data=data, workers=2)
    with s.client() as c:
        assert c.info("persistence")["rdb_changes_since_last_save"] > 0
        c.save()
        assert c.info("persistence")["rdb_changes_since_last_save"] == 0


def test_damage_at_the_start_fails_the_check_of_checksums(make_server, data):
    s = make_server(data=data, workers=1, args=["--sync-policy", "EveryWrite"])
    with s.client() as c:
        for i in range(50):
            c.set(f"k{i}", "v" * 100)
    s.kill()
    path = glob.glob(f"{data}/layout-*/shard-0/*.wal")[0]
    with open(path, "r+b") as f:
        f.seek(1000)
        byte = f.read(1)
        f.seek(1000)
        f.write(bytes([byte[0] ^ 1]))
    s = make_server(data=data, workers=1)
    state, checks = health(s)
    assert state == "fail" and checks["crc"][0] == "fail" and "damaged" in checks["crc"][1]
    with s.client() as c:
        assert c.info("persistence")["wal_replay_errors"] >= 1 and c.dbsize() >= 49
