"""INFO: what tools parse is there, and it is true."""
import time

import pytest

WORKERS = [{"workers": 1}, {"workers": 4}]

# Read by clients, exporters and consoles.
FIELDS = {
    "server": "redis_version sherd_version server_name redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds uptime_in_days hz",
    "clients": "connected_clients blocked_clients maxclients",
    "memory": "used_memory used_memory_human used_memory_rss used_memory_peak used_memory_peak_human used_memory_dataset maxmemory "
              "maxmemory_policy mem_fragmentation_ratio mem_allocator total_system_memory",
    "persistence": "loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status aof_enabled "
                   "aof_rewrite_in_progress aof_last_write_status",
    "stats": "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes total_net_output_bytes "
             "rejected_connections expired_keys evicted_keys keyspace_hits keyspace_misses total_error_replies pubsub_channels pubsub_patterns",
    "replication": "role connected_slaves master_replid master_repl_offset",
    "cpu": "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children",
    "cluster": "cluster_enabled",
}


def titles(text):
    return [line[2:].lower() for line in text.split("\r\n") if line.startswith("# ")]


def raw_info(server, *sections):
    with server.raw() as s:
        s.command("INFO", *sections)
        return s.read(int(s.line()[1:])).decode()


def test_every_field_that_tools_parse_is_there(client):
    for section, fields in FIELDS.items():
        missing = set(fields.split()) - set(client.info(section))
        assert not missing, f"{section}: {missing}"
    assert client.info()["redis_version"] >= "7.2"


def test_sections_are_chosen_by_name_and_by_set(server):
    default, everything = titles(raw_info(server)), titles(raw_info(server, "everything"))
    assert {"server", "keyspace", "errorstats", "modules"} <= set(default) and "commandstats" not in default
    assert set(default) < set(everything) and {"commandstats", "latencystats", "shards"} <= set(everything)
    assert titles(raw_info(server, "default")) == default
    assert set(titles(raw_info(server, "all"))) == set(everything) - {"modules"}
    assert titles(raw_info(server, "CPU", "server", "cpu")) == ["server", "cpu"]
    assert raw_info(server, "nosuch") == ""


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_key_counts_are_exact_right_after_a_write(server, client):
    for n in range(1, 60):
        client.set(f"k{n}", n, px=1000000 if n % 2 else None)
        db = client.info("keyspace")["db0"]
        assert (db["keys"], db["expires"]) == (n, (n + 1) // 2)
    assert 900000 < db["avg_ttl"] <= 1000000
    with server.client(db=3) as other:
        other.set("x", 1)
        assert other.info("keyspace")["db3"] == {"keys": 1, "expires": 0, "avg_ttl": 0}
    client.flushall()
    assert client.info("keyspace") == {}


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_what_happened_is_counted_once(server, client):
    client.config_resetstat()
    client.set("k", "v")
    client.get("k")
    client.get("nothing")
    client.dbsize()
    client.set("gone", "v", px=1)
    time.sleep(0.01)
    client.get("gone")
    with pytest.raises(Exception):
        client.lpush("k", "x")
    with pytest.raises(Exception):
        client.execute_command("GET")
    stats = client.info("stats")
    assert (stats["keyspace_hits"], stats["keyspace_misses"], stats["expired_keys"]) == (2, 2, 1)  # LPUSH found the key
    assert stats["total_error_replies"] == 2
    commands = client.info("commandstats")
    assert commands["cmdstat_set"]["calls"] == 2 and commands["cmdstat_set"]["failed_calls"] == 0
    assert commands["cmdstat_get"]["calls"] == 3 and commands["cmdstat_get"]["rejected_calls"] == 1
    assert commands["cmdstat_dbsize"]["calls"] == 1, "a command that visits every shard is one command"
    assert commands["cmdstat_lpush"]["failed_calls"] == 1
    assert raw_info(server, "errorstats") == "# Errorstats\r\nerrorstat_ERR:count=1\r\nerrorstat_WRONGTYPE:count=1\r\n"
    assert "p50" in client.info("latencystats")["latency_percentiles_usec_get"]


@pytest.mark.parametrize("server", WORKERS, indirect=True)
def test_resetstat_starts_anew(client):
    client.get("nothing")
    client.config_resetstat()
    stats = client.info("stats")
    assert stats["keyspace_misses"] == 0 and stats["total_connections_received"] == 0
    assert stats["total_commands_processed"] <= 1  # RESETSTAT itself
    assert "cmdstat_get" not in client.info("commandstats")
    assert "latency_percentiles_usec_get" not in client.info("latencystats")


def test_memory_follows_the_data(client):
    before = client.info("memory")
    for i in range(20):
        client.set(f"big{i}", "x" * (300 << 10))
    for i in range(20):
        client.set(f"huge{i}", "x" * (2 << 20))
    after = client.info("memory")
    grown = after["used_memory"] - before["used_memory"]
    assert 45 << 20 < grown < 60 << 20
    assert 45 << 20 < after["used_memory_dataset"] < 50 << 20
    assert after["used_memory_peak"] >= after["used_memory"]
    client.flushall()
    freed = client.info("memory")
    assert freed["used_memory_dataset"] < 1 << 20 and freed["used_memory_peak"] >= after["used_memory"]


def test_rates_are_measured(client):
    with client.pipeline(transaction=False) as p:
        for i in range(1000):
            p.set("k", i)
        for _ in range(20):
            p.execute()
            for i in range(1000):
                p.set("k", i)
    deadline = time.monotonic() + 5
    while client.info("stats")["instantaneous_ops_per_sec"] < 100:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("server", [{"workers": 3}], indirect=True)
def test_shards_and_workers_add_up(server, client):
    for i in range(300):
        client.set(f"k{i}", i)
    shards = client.info("shards")
    assert sum(shards[f"shard{i}"]["keys"] for i in range(3)) == 300
    assert all(shards[f"shard{i}"]["keys"] > 50 and shards[f"shard{i}"]["bytes"] > 0 for i in range(3))
    assert sum(shards[f"shard{i}"]["ops"] for i in range(3)) >= 300
    assert all(s["local"] + s["foreign"] == s["ops"] for s in (shards[f"shard{i}"] for i in range(3)))
    assert sum(shards[f"worker{i}"]["connections"] for i in range(3)) == client.info("clients")["connected_clients"]
    assert all("cpu_seconds" in shards[f"worker{i}"] for i in range(3))


def test_info_is_verbatim_text_in_resp3_and_works_in_a_transaction(server):
    with server.raw() as s:
        s.command("HELLO", "3")
        s.command("SET", "k", "v")
        s.command("MULTI")
        s.command("SET", "k2", "v")
        s.command("INFO", "keyspace")
        s.command("EXEC")
        while s.line() != b"*2":
            pass
        s.expect(b"+OK\r\n")
        head = s.line()
        assert head.startswith(b"=")
        assert s.read(int(head[1:])).startswith(b"txt:# Keyspace\r\ndb0:keys=2,")


def test_clients_are_counted(server, client):
    with server.raw() as waiting, server.client() as other:
        other.ping()
        waiting.command("BLPOP", "nothing", "0")
        deadline = time.monotonic() + 5
        while client.info("clients")["blocked_clients"] != 1:
            assert time.monotonic() < deadline
        assert client.info("clients")["connected_clients"] == 3
