"""LATENCY: what the times of commands look like from outside."""
import pytest

from wire import Error, Wire

pytestmark = pytest.mark.parametrize("server", [{"workers": 2}], indirect=True)


def test_a_histogram_counts_every_call_under_rising_powers_of_two(server):
    with Wire(server, 3) as c:
        for i in range(300):
            c.ask("SET", f"k{i}", i)
        c.ask("GET", "k1")
        answer = c.ask("LATENCY", "HISTOGRAM", "set", "GET", "nonsense", "lpush")
    assert set(answer) == {"set", "get"}
    assert answer["set"]["calls"] == 300 and answer["get"]["calls"] == 1
    for one in answer.values():
        bounds, counts = list(one["histogram_usec"]), list(one["histogram_usec"].values())
        assert all(b & (b - 1) == 0 for b in bounds) and bounds == sorted(bounds)
        assert counts == sorted(set(counts)) and counts[-1] == one["calls"]


def test_without_names_all_commands_that_ran_have_a_histogram(server):
    with Wire(server, 3) as c:
        c.ask("SET", "a", 1)
        c.ask("DBSIZE")
        assert {"set", "dbsize"} <= set(c.ask("LATENCY", "HISTOGRAM")) and "zadd" not in c.ask("LATENCY", "HISTOGRAM")
        assert c.ask("LATENCY", "HISTOGRAM", "dbsize")["dbsize"]["calls"] == 1


def test_resetstat_starts_the_histograms_anew(server):
    with Wire(server, 3) as c:
        c.ask("SET", "a", 1)
        c.ask("CONFIG", "RESETSTAT")
        assert c.ask("LATENCY", "HISTOGRAM", "set") == {}
        c.ask("SET", "a", 1)
        assert c.ask("LATENCY", "HISTOGRAM", "set")["set"]["calls"] == 1


def test_a_resp2_client_gets_flat_arrays(server):
    with Wire(server) as c:
        c.ask("SET", "a", 1)
        name, (calls, n, word, histogram) = c.ask("LATENCY", "HISTOGRAM", "set")
    assert (name, calls, n, word) == ("set", "calls", 1, "histogram_usec") and len(histogram) == 2 and histogram[1] == 1


def test_events_that_are_not_monitored_are_answered_as_empty(server):
    with Wire(server) as c:
        assert c.ask("LATENCY", "LATEST") == []
        assert c.ask("LATENCY", "HISTORY", "command") == []
        assert c.ask("LATENCY", "RESET") == 0 and c.ask("LATENCY", "RESET", "a", "b") == 0
        assert c.ask("LATENCY", "GRAPH", "command") == Error("ERR No samples available for event 'command'")
        assert "STATS.LATENCY" in c.ask("LATENCY", "DOCTOR")
        assert c.ask("LATENCY", "HELP")[0].startswith("LATENCY <subcommand>")


def test_errors_of_latency_have_the_texts_of_redis(server, redis_reference):
    with Wire(server) as ours, Wire(redis_reference) as theirs:
        for words in (["LATENCY"], ["LATENCY", "NOPE"], ["LATENCY", "HISTORY"], ["LATENCY", "LATEST", "x"], ["LATENCY", "GRAPH"],
                      ["LATENCY", "GRAPH", "e"], ["LATENCY", "DOCTOR", "x"], ["LATENCY", "HELP", "x"]):
            answer = ours.ask(*words)
            assert isinstance(answer, Error) and answer == theirs.ask(*words)
