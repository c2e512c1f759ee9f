"""COMMAND: what clients and redis-cli learn about the commands."""
import subprocess

import pytest
import redis

from conftest import clean_env


def refused(client, *words):
    with pytest.raises(redis.ResponseError) as e:
        client.execute_command(*words)
    return str(e.value)


def test_redis_py_reads_the_whole_table(client):
    commands = client.command()
    assert client.command_count() == len(commands) > 150
    get = commands["get"]
    assert (get["arity"], get["first_key_pos"], get["last_key_pos"], get["step_count"]) == (2, 1, 1, 1)
    assert set(get["flags"]) == {"readonly", "fast"}
    assert set(commands["mset"]["flags"]) == {"write", "denyoom"} and commands["mset"]["step_count"] == 2
    assert "movablekeys" in commands["zunion"]["flags"] and "blocking" in commands["blpop"]["flags"]


def test_rows_agree_with_redis(client, redis_reference):
    """Arity, key positions and the flags that change how clients treat a command."""
    with redis_reference.client() as reference:
        ours, theirs = client.command(), reference.command()
    told = {"write", "readonly", "denyoom", "admin", "pubsub", "blocking", "movablekeys"}
    compared, different = 0, []
    for name in sorted(set(ours) & set(theirs)):
        a, b = ours[name], theirs[name]
        compared += 1
        for field in ("arity", "first_key_pos", "last_key_pos", "step_count"):
            if a[field] != b[field]:
                different.append((name, field, a[field], b[field]))
        if name not in CONTAINERS and set(a["flags"]) & told != set(b["flags"]) & told:
            different.append((name, "flags", set(a["flags"]) & told, set(b["flags"]) & told))
    assert compared > 150
    assert not [d for d in different if d[:2] not in EXPECTED], different


# Here a container has the flags of its subcommands, in Redis it has none.
CONTAINERS = {"client", "command", "config", "cluster", "latency", "memory", "module", "object", "pubsub", "slowlog"}
POSITIONS = ("first_key_pos", "last_key_pos", "step_count")
EXPECTED = {
    ("zrank", "arity"), ("zrevrank", "arity"),  # WITHSCORE came with Redis 7.2
    ("wait", "flags"),  # blocking since Redis 7.2
    ("sort_ro", "flags"),  # BY and GET name patterns, not keys
    *(("object", p) for p in POSITIONS), *(("memory", p) for p in POSITIONS),  # the key stands in the container's own row
    *((name, p) for name in ("spublish", "ssubscribe", "sunsubscribe") for p in POSITIONS),  # shard channels do not follow the shards of keys
}


def test_info_has_the_ten_parts_and_nil_for_the_unknown(server):
    with redis.Redis(port=server.port) as c:
        c.set_response_callback("COMMAND INFO", lambda r: r)
        get, unknown, store, config = c.execute_command("COMMAND INFO", "GET", "nosuch", "sunionstore", "config")
    assert unknown is None and get[0] == b"get" and len(get) == 10
    assert get[6] == [b"@read", b"@string", b"@fast"]
    assert get[8] == [[b"flags", [b"RO", b"access"], b"begin_search", [b"type", b"index", b"spec", [b"index", 1]],
                       b"find_keys", [b"type", b"range", b"spec", [b"lastkey", 0, b"keystep", 1, b"limit", 0]]]]
    assert [spec[1] for spec in store[8]] == [[b"OW", b"update"], [b"RO", b"access"]]
    assert {s[0] for s in config[9]} >= {b"config|get", b"config|set"}


def test_docs_tell_summary_since_group_and_arguments(server):
    with server.raw() as s:
        s.command("HELLO", "3")
        s.command("COMMAND", "DOCS", "get", "nosuch")
        while s.line() != b"%1":
            pass
        s.expect(b"$3\r\nget\r\n%4\r\n$7\r\nsummary\r\n")
    with redis.Redis(port=server.port) as c:
        flat = c.execute_command("COMMAND DOCS", "set")
    docs = dict(zip(flat[1][::2], flat[1][1::2]))
    assert docs[b"group"] == b"string" and docs[b"since"] == b"1.0.0"
    assert docs[b"arguments"][0] == [b"name", b"key", b"type", b"key"]


def test_redis_cli_shows_help_from_the_server(server):
    out = subprocess.run(["redis-cli", "-p", str(server.port)], input="help lpush\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=20, env=clean_env()).stdout
    assert "key element [element ...]" in out and "group:" in out


@pytest.mark.parametrize("words,keys", [
    ("get k", ["k"]), ("mset a 1 b 2", ["a", "b"]), ("zunion 2 a b", ["a", "b"]), ("del x y z", ["x", "y", "z"]),
    ("sort l store d", ["l", "d"]), ("lmove a b left right", ["a", "b"]), ("blpop a b 0", ["a", "b"])])
def test_keys_are_found_in_any_command(client, words, keys):
    assert client.command_getkeys(*words.split()) == keys


def test_keys_come_with_their_access(client, redis_reference):
    with redis_reference.client() as reference:
        for words in ("get k", "set k v", "del k", "lpush k v", "lmove a b left right", "sunionstore d a b", "mset a 1 b 2", "getset k v",
                      "incr k", "rename a b", "copy a b", "zunion 2 a b", "sort l store d", "expire k 1", "hset k f v", "spop k", "ttl k"):
            ours = client.execute_command("COMMAND GETKEYSANDFLAGS", *words.split())
            assert ours == reference.execute_command("COMMAND GETKEYSANDFLAGS", *words.split()), words


def test_keys_that_cannot_be_found_are_errors(client):
    assert refused(client, "COMMAND", "GETKEYS", "nosuch", "a") == "Invalid command specified"
    assert refused(client, "COMMAND", "GETKEYS", "ping", "a") == "The command has no key arguments"
    assert refused(client, "COMMAND", "GETKEYS", "get", "a", "b") == "Invalid number of arguments specified for command"
    assert refused(client, "COMMAND", "GETKEYS", "zunion", "x", "b") == "Invalid arguments specified for command"


def test_names_are_listed_and_filtered(client):
    def names(*words):
        return client.execute_command("COMMAND LIST", *words)

    every = names()
    assert len([name for name in every if "|" not in name]) == client.command_count() and {"get", "client|list"} <= set(every)
    assert set(names("FILTERBY", "PATTERN", "hs*")) == {"hscan", "hset", "hsetnx", "hstrlen"}
    assert "pfadd" in names("FILTERBY", "ACLCAT", "hyperloglog")
    assert names("FILTERBY", "MODULE", "json") == []
    assert refused(client, "COMMAND", "LIST", "FILTERBY", "COLOUR", "red") == "syntax error"
    assert "unknown subcommand 'nosuch'. Try COMMAND HELP." in refused(client, "COMMAND", "nosuch")
