"""Waiting for a list or a sorted set, where the moment matters: as a client of Redis expects it."""
import time

import pytest

from wire import Wire

WORKERS = [{"workers": 1}, {"workers": 4}]


def wait_blocked(client, n):
    deadline = time.monotonic() + 10
    while client.info("clients")["blocked_clients"] != n:
        assert time.monotonic() < deadline, f"never {n} blocked clients"
        time.sleep(0.005)


@pytest.mark.parametrize("server", WORKERS, indirect=True)
@pytest.mark.parametrize("push, pop", [(("RPUSH", "key", "a"), ("BLPOP", "key")), (("ZADD", "key", 1, "a"), ("BZPOPMIN", "key")),
                                       (("RPUSH", "key", "a"), ("BLPOP", "key", "other", "third"))])
def test_a_key_that_expires_in_the_transaction_that_made_it_wakes_nobody(server, client, push, pop):
    client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    with Wire(server) as waiting, Wire(server) as c:
        waiting.command(*pop, 1)
        wait_blocked(client, 1)
        c.ask("MULTI")
        c.ask(*push)
        c.ask("PEXPIRE", "key", 50)
        c.ask("DEBUG", "SLEEP", 0.1)
        c.ask("EXISTS", "key")
        assert c.ask("EXEC") == [1, 1, "OK", 1]  # inside, time stands still
        assert waiting.reply() is None
        assert client.exists("key") == 0


@pytest.mark.parametrize("server", WORKERS, indirect=True)
@pytest.mark.parametrize("keys", [["list"], ["list", "other", "third"]])
def test_a_command_that_waits_counts_as_one_call(server, client, keys):
    client.config_resetstat()
    with Wire(server) as waiting:
        waiting.command("BLPOP", *keys, 0)
        wait_blocked(client, 1)
        client.rpush("list", "a")
        assert waiting.reply() == ["list", "a"]
    stats = client.info("commandstats")["cmdstat_blpop"]
    assert stats["calls"] == 1 and stats["failed_calls"] == 0


def test_time_goes_on_within_a_pipeline(server):
    with Wire(server) as c:
        c.ask("SET", "key", 1, "PX", 50)
        for words in [("DEBUG", "SLEEP", 0.1), ("GET", "key"), ("PTTL", "key")]:
            c.command(*words)
        assert [c.reply() for _ in range(3)] == ["OK", None, -2]
