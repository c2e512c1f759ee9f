"""CONFIG as clients use it."""
import os

import pytest
import redis


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as e:
        client.execute_command(*words)
    return str(e.value)


def test_what_clients_ask_for_is_there(client):
    for name, value in {"save": "3600 1", "appendonly": "yes", "appendfsync": "everysec", "sync-policy": "EverySecond", "max-wal-size": "67108864",
                        "compression-profile": "balanced", "maxmemory": "0", "maxmemory-policy": "noeviction", "databases": "16",
                        "bind": "127.0.0.1", "requirepass": "", "timeout": "0", "slowlog-max-len": "128",
                        "notify-keyspace-events": ""}.items():
        assert client.config_get(name) == {name: value}
    everything = client.config_get("*")
    assert {"dir", "port", "dbfilename", "appendfsync", "tcp-keepalive", "maxclients", "slowlog-log-slower-than"} <= set(everything)
    assert client.config_get("nosuch") == {}


def test_several_patterns_show_each_option_once(server):
    with server.raw() as s:
        s.command("CONFIG", "GET", "maxmemory", "maxmem*", "MAXMEMORY")
        words = []
        for _ in range(int(s.line()[1:])):
            words.append(s.read(int(s.line()[1:]) + 2)[:-2].decode())
        assert words[::2].count("maxmemory") == 1 and "maxmemory-policy" in words[::2]
        assert len(words[::2]) == len(set(words[::2]))
        s.command("HELLO", "3")
        s.command("CONFIG", "GET", "maxmemory")
        while s.line() != b"%1":
            pass
        s.expect(b"$9\r\nmaxmemory\r\n$1\r\n0\r\n")


def test_several_options_are_set_together_or_not_at_all(client):
    client.execute_command("CONFIG", "SET", "maxmemory", "10mb", "timeout", "5")
    assert client.config_get("maxmemory")["maxmemory"] == str(10 << 20) and client.config_get("timeout")["timeout"] == "5"
    assert "possibly related to argument 'timeout'" in refused(client, "CONFIG", "SET", "maxmemory", "20mb", "timeout", "x")
    assert client.config_get("maxmemory")["maxmemory"] == str(10 << 20)


def test_errors_are_those_of_redis(client, redis_reference):
    with redis_reference.client() as reference:
        for words in (["SET", "nosuch", "1"], ["SET", "maxmemory", "lots"], ["SET", "timeout", "x"], ["SET", "timeout", "1", "timeout", "2"],
                      ["SET", "maxmemory"], ["SET", "a", "b", "c"], ["GET"], ["nosuch"], ["RESETSTAT", "x"], ["REWRITE"],
                      ["SET", "maxmemory-policy", "some"], ["SET", "appendonly", "maybe"]):
            ours, theirs = refused(client, "CONFIG", *words), refused(reference, "CONFIG", *words)
            if words[1:2] in (["maxmemory-policy"], ["appendonly"]):  # the lists of words differ
                ours, theirs = ours.split(" - ")[0], theirs.split(" - ")[0]
            assert ours == theirs, words


def test_a_password_takes_effect_at_once_and_stays_out_of_the_slow_log(server, client):
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("requirepass", "secret")
    with server.client() as other, pytest.raises(redis.AuthenticationError):
        other.ping()
    client.config_set("requirepass", "")
    commands = [entry["command"] for entry in slow_entries(server)]
    assert b"CONFIG SET requirepass (redacted)" in commands and not any(b"secret" in c for c in commands)


def slow_entries(server):
    with redis.Redis(port=server.port) as c:
        return c.slowlog_get(100)


def test_rewrite_brings_the_file_up_to_date(make_server, processes):
    path = os.path.join(processes.folder, "sherd.toml")
    with open(path, "w") as f:
        f.write("# mine\ntimeout = 1 # seconds\n")
    server = make_server(args=["--config", path])
    with server.client() as c:
        assert c.config_get("timeout")["timeout"] == "1"
        c.config_set("timeout", 30)
        c.config_set("maxmemory", "1gb")
        assert c.config_rewrite()
    with open(path) as f:
        text = f.read()
    assert "# mine\ntimeout = 30 # seconds\n" in text and f"maxmemory = {1 << 30}" in text


def test_help_names_the_subcommands(client):
    lines = client.execute_command("CONFIG", "HELP")
    assert lines[0].startswith("CONFIG <subcommand>") and "RESETSTAT" in lines
