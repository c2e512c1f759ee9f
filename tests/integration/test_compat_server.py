"""What programs written for Redis rely on beside the commands' own answers: side effects, counters and error texts."""
import time

import pytest
import redis

WORKERS = [{"workers": 1}, {"workers": 4}]
BOTH = pytest.mark.parametrize("server", WORKERS, indirect=True)


def wait_until(what, seconds=10):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


@BOTH
def test_watched_keys_that_are_not_there_survive_flushes_and_swaps(client):
    for emptying in ("FLUSHALL", "FLUSHDB", "SWAPDB 0 1"):
        with client.pipeline() as p:
            p.watch("absent")
            p.execute_command(*emptying.split())
            p.multi()
            p.ping()
            assert p.execute() == [True], emptying


def test_subscriptions_are_confirmed_while_replies_are_off(server, client):
    with server.raw() as s:
        s.command("HELLO", "3")
        wait_until(lambda: s.line().startswith(b"$7") and s.line() == b"modules")
        s.expect(b"*0\r\n")
        s.command("CLIENT", "REPLY", "OFF")
        s.command("SUBSCRIBE", "c")
        s.expect(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
        s.command("GET", "nothing")
        s.command("SUBSCRIBE")  # an error is a reply
        wait_until(lambda: client.publish("c", "m") == 1)
        s.expect(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n")
        s.command("UNSUBSCRIBE", "c")
        s.expect(b">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n")
        s.command("CLIENT", "REPLY", "ON")
        s.expect(b"+OK\r\n")
        s.command("CLIENT", "REPLY", "SKIP")
        s.command("SUBSCRIBE", "d")
        s.expect(b">3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:1\r\n")
        s.command("ECHO", "x")
        s.expect(b"$1\r\nx\r\n")


def test_a_transaction_that_needs_memory_is_discarded_whole_above_the_limit(server, client):
    client.set("filler", "x" * 1000)
    with server.raw() as s:
        for words, answer in (("MULTI", b"+OK"), ("SET a 1", b"+QUEUED"), ("GET filler", b"+QUEUED")):
            s.command(*words.split())
            assert s.line() == answer
        client.config_set("maxmemory", 1)
        wait_until(lambda: client.info("memory")["used_memory_dataset"] > 1000)
        s.command("EXEC")
        assert s.line() == b"-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'."
        s.command("EXEC")
        assert s.line() == b"-ERR EXEC without MULTI"
    assert not client.exists("a")


def test_a_blocking_command_is_slow_only_once_it_has_its_answer(server, client):
    client.config_set("slowlog-log-slower-than", 0)

    def logged():
        return [e for e in client.slowlog_get(100) if e["command"].startswith(b"BLPOP")]

    with server.raw() as s:
        s.command("BLPOP", "queue", "0")
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
        assert not logged()
        client.rpush("queue", "x")
        s.expect(b"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n")
        assert len(logged()) == 1


@BOTH
def test_no_touch_leaves_the_access_time_alone(server, client):
    client.set("k", "v")
    with server.client() as quiet:
        connection = quiet.connection_pool.get_connection("x")
        connection.send_command("CLIENT", "NO-TOUCH", "ON")
        assert connection.read_response() == "OK"
        wait_until(lambda: client.object("idletime", "k") >= 2)
        connection.send_command("GET", "k")
        assert connection.read_response() == "v"
        assert client.object("idletime", "k") >= 2
        connection.send_command("TOUCH", "k")
        assert connection.read_response() == 1
        assert client.object("idletime", "k") < 2


def test_an_unblocked_client_counts_as_an_error(server, client):
    with server.raw() as s:
        s.command("CLIENT", "ID")
        number = int(s.line()[1:])
        s.command("BLPOP", "queue", "0")
        wait_until(lambda: client.client_unblock(number, error=True))
        assert s.line().startswith(b"-UNBLOCKED")
    assert client.info("errorstats")["errorstat_UNBLOCKED"] == "count=1"


def test_clients_are_counted_by_what_they_do(server, client):
    def counts():
        info = client.info("clients")
        return info["pubsub_clients"], info["watching_clients"]

    assert counts() == (0, 0)
    with server.raw() as subscriber, server.raw() as watcher:
        subscriber.command("PSUBSCRIBE", "*")
        subscriber.read(4)
        watcher.command("WATCH", "a", "b")
        watcher.expect(b"+OK\r\n")
        assert counts() == (1, 1)
        watcher.command("UNWATCH")
        watcher.expect(b"+OK\r\n")
        assert counts() == (1, 0)
    wait_until(lambda: counts() == (0, 0))


@pytest.mark.parametrize("server", [{"workers": 2, "args": ["--client-query-buffer-limit", "1mb"]}], indirect=True)
def test_a_client_closed_for_too_long_a_request_is_counted(server, client):
    with server.raw() as s:
        s.send(b"*2\r\n$4\r\nECHO\r\n$3000000\r\n")
        try:
            for _ in range(30):
                s.send(b"x" * 100000)
        except OSError:
            pass
        s.read_to_end()
    assert client.info("stats")["client_query_buffer_limit_disconnections"] == 1


def test_a_clients_traffic_is_shown(client):
    def mine():
        line = client.client_info()
        return [int(line[f]) for f in ("tot-net-in", "tot-net-out", "tot-cmds")]

    before = mine()
    now = mine()
    assert now[0] == before[0] + len("*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n")
    assert now[1] > before[1] and now[2] == before[2] + 1


def test_the_age_of_clients_to_kill_is_a_positive_number(client):
    with pytest.raises(redis.ResponseError, match="not an integer or out of range"):
        client.execute_command("CLIENT", "KILL", "MAXAGE", "str")
    with pytest.raises(redis.ResponseError, match="greater than 0"):
        client.execute_command("CLIENT", "KILL", "MAXAGE", "0")


def test_a_pause_neither_shortens_nor_weakens_another(server, client):
    client.set("k", "v")
    started = time.monotonic()
    client.client_pause(700, all=True)
    client.execute_command("CLIENT", "PAUSE", 20000, "WRITE")
    client.execute_command("CLIENT", "PAUSE", 10, "WRITE")
    with server.raw() as reader, server.raw() as writer:
        reader.command("GET", "k")
        writer.command("SET", "k", "w")
        reader.expect(b"$1\r\nv\r\n")
        assert time.monotonic() - started >= 0.7
        assert [c["flags"] for c in client.client_list() if c["addr"].endswith(f":{writer.sock.getsockname()[1]}")] == ["b"]
        client.execute_command("CLIENT", "UNPAUSE")
        writer.expect(b"+OK\r\n")


def test_clients_that_a_pause_holds_count_as_blocked(server, client):
    client.execute_command("CLIENT", "PAUSE", 20000, "WRITE")
    with server.raw() as s:
        s.command("SET", "k", "v")
        wait_until(lambda: client.info("clients")["blocked_clients"] == 1)
        client.execute_command("CLIENT", "UNPAUSE")
        s.expect(b"+OK\r\n")
    assert client.info("clients")["blocked_clients"] == 0


def test_output_memory_of_a_client_is_what_the_limit_counts(server, client):
    """It rises as far as the limit and not a message further: what is seen is what is enforced."""
    client.config_set("client-output-buffer-limit", "pubsub 5000000 0 0")
    with server.raw() as s:
        s.command("SUBSCRIBE", "c")
        s.read(4)
        seen = [0]
        for _ in range(400):
            client.publish("c", "x" * 100000)
            subscribers = client.client_list(_type="pubsub")
            if not subscribers:
                break
            seen.append(int(subscribers[0]["omem"]))
        assert not client.client_list(_type="pubsub"), "the limit was not enforced"
        assert 2000000 < max(seen) < 5000000 + 2 * 100100


@BOTH
def test_a_lowered_memory_limit_evicts_without_another_write(client):
    for n in range(1000):
        client.set(f"k{n}", "x" * 1000)
    client.config_set("maxmemory-policy", "allkeys-random")
    client.config_set("maxmemory", 300000)
    wait_until(lambda: client.info("memory")["used_memory_dataset"] <= 300000)
    assert 100 < client.dbsize() < 300
    assert client.info("stats")["evicted_keys"] == 1000 - client.dbsize()
    client.config_set("maxmemory", 1)
    wait_until(lambda: client.dbsize() == 0)
    client.config_set("maxmemory", 0)
    assert client.set("k", "v")


def test_percentiles_of_durations_are_chosen_by_configuration(client):
    client.set("k", "v")
    assert list(client.info("latencystats")["latency_percentiles_usec_set"]) == ["p50", "p99", "p99.9"]
    client.config_set("latency-tracking-info-percentiles", "0.0 50.0 100.0")
    assert client.config_get("latency-tracking-info-percentiles") == {"latency-tracking-info-percentiles": "0 50 100"}
    shown = client.info("latencystats")["latency_percentiles_usec_set"]
    assert list(shown) == ["p0", "p50", "p100"] and 0 < shown["p0"] <= shown["p100"]
    for bad in ("10.0 50.0 a", "10 101", "-1", "nan"):
        with pytest.raises(redis.ResponseError, match="CONFIG SET failed"):
            client.config_set("latency-tracking-info-percentiles", bad)
    client.config_set("latency-tracking-info-percentiles", "")
    assert client.info("latencystats")["latency_percentiles_usec_set"] == ""


def test_subcommands_are_counted_and_timed_apart(client):
    client.config_resetstat()
    client.client_id()
    client.client_id()
    client.client_getname()
    client.execute_command("DEBUG", "SLEEP", "0")
    stats = client.info("commandstats")
    assert stats["cmdstat_client|id"]["calls"] == 2 and stats["cmdstat_client|getname"]["calls"] == 1
    assert "cmdstat_client" not in stats and stats["cmdstat_debug"]["calls"] == 1
    assert "latency_percentiles_usec_client|id" in client.info("latencystats")

    def histograms(*names):
        answer = client.execute_command("LATENCY", "HISTOGRAM", *names)
        return dict(zip(answer[::2], (dict(zip(a[::2], a[1::2]))["calls"] for a in answer[1::2])))

    client.pipeline().set("k", "v").execute_command("CLIENT", "ID").execute()
    stats = client.info("commandstats")
    assert stats["cmdstat_exec"]["calls"] == 1 and stats["cmdstat_client|id"]["calls"] == 3
    assert histograms("client|id", "nosuch") == {"client|id": 3}
    assert histograms("CLIENT") == {"client|id": 3, "client|getname": 1}
    assert histograms()["client|id"] == 3


def test_containers_tell_of_their_subcommands(server):
    with server.client() as c:
        c.response_callbacks.pop("COMMAND INFO", None)
        c.response_callbacks.pop("COMMAND", None)
        client, pubsub, debug = ({sub[0] for sub in row[9]} for row in c.execute_command("COMMAND", "INFO", "client", "pubsub", "debug"))
    assert {"client|id", "client|no-touch"} <= client and "pubsub|numsub" in pubsub and not debug


def test_command_list_names_subcommands(client):
    def names(*filterby):
        return set(client.execute_command("COMMAND LIST", *filterby))

    assert {"get", "client", "client|list", "config|get"} <= names()
    assert names("FILTERBY", "PATTERN", "config|re*") == {"config|resetstat", "config|rewrite"}
    assert {"config", "config|set"} <= names("FILTERBY", "ACLCAT", "admin")


def test_keys_that_positions_do_not_tell_are_marked(client):
    def flags(name):
        return client.execute_command("COMMAND", "INFO", name)[name]["flags"]

    assert "movablekeys" in flags("sort") and "movablekeys" in flags("sort_ro") and "movablekeys" in flags("zunion")
    assert "movablekeys" not in flags("memory") and "movablekeys" not in flags("get")
