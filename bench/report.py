"""From results.json's content to Markdown, goals and plots. Pure: numbers in, text out."""
from peers import ORDER, PEERS
import plot

LIMIT_SHARE = {1: 0.95, 16: 0.65, 64: 0.45}
MULTI_FACTOR = 2.0
BYTES_PER_KEY = {"16": 56, "64": 104, "256": 304}
CPU_OVER_LIMIT = 1.05
GROWTH_OVER_NOISE_US = 1000
EVERY_WRITE_FACTOR = 2.0
DUMP_SIZE_FACTOR = 1.05
DUMP_P99_FACTOR = 2.0
DUMP_MEMORY_SHARE = 0.10
START_FACTOR = 3.0
# Three nodes: ten times what the original of this design publishes for its durable mode (7,879 requests/s, p50 of GET 1.5 ms, of SET 14 ms).
CLUSTER_MIX_PER_S = 78_790
CLUSTER_P50_MS = {"get": 0.15, "set": 1.4}
CLUSTER_OVER_ETCD = {"set": 2.0, "get": 5.0}
WORDS = {"get": "GET", "set": "SET", "mix": "GET + SET 1:1", "mget": "MGET of 10", "mset": "MSET of 10"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i == 0 else "---:" for i in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def figure(entry, name, scale=1.0, digits=0):
    """One number of a measurement as text: – where there is none, ~ behind a disturbed one."""
    if not entry or name not in entry:
        return "failed" if entry and "error" in entry else "–"
    return f"{entry[name] * scale:.{digits}f}" + ("~" if entry.get("disturbed") else "")


def value(cells, cell, label, name):
    return cells.get(cell, {}).get(label, {}).get(name)


def ratio(a, b):
    return a / b if a is not None and b else None


def ratio_text(name, ours, theirs):
    r = ratio(ours.get(name), theirs.get(name))
    return "–" if r is None else f"{r:.2f}" + ("~" if ours.get("disturbed") or theirs.get("disturbed") else "")


def scaled(x, factor):
    return None if x is None else x * factor


def labels_of(section, default=ORDER):
    """Every server that was measured or is known to be missing, in the usual order."""
    seen = {label for row in section.get("cells", {}).values() for label in row} | set(section.get("missing", {}))
    return [x for x in default if x in seen] + sorted(seen - set(default))


def problems(section):
    """What did not work, said aloud."""
    lines = [f"- **{label}** is missing: {why}" for label, why in section.get("missing", {}).items()]
    groups = ("cells", "sizes", "starts")
    for cell, row in ((c, r) for g in groups for c, r in section.get(g, {}).items()):
        lines += [f"- **{label}**, {cell}: {e['error']}" for label, e in row.items() if "error" in e]
    for group in ("fills", "busy", "dumps"):
        lines += [f"- **{label}**: {e['error']}" for label, e in section.get(group, {}).items() if "error" in e]
    return "\n".join(lines)


def own_limit(section):
    """The limit program on the same kind of event loop as sherd; epoll if sherd does not say."""
    return "limit-uring" if section.get("sherd_io") == "uring" else "limit-epoll"


# ---- goals. Figures of disturbed runs are shown but never judged: they tell about the machine's other users.

COMPARE = {"<=": ("≤", lambda a, b: a <= b), "<": ("<", lambda a, b: a < b), ">=": ("≥", lambda a, b: a >= b)}


def goal(what, measured, how, target, entries=(), form="{:.2f}"):
    """entries: the measurements that the two numbers come from."""
    sign, holds = COMPARE[how]
    verdict = "not measured" if measured is None or target is None else "disturbed" if any(e.get("disturbed") for e in entries) \
        else "reached" if holds(measured, target) else "not reached"
    return {"what": what, "measured": form.format(measured) if measured is not None else "–",
            "goal": f"{sign} {form.format(target)}" if target is not None else "–", "verdict": verdict}


def versus(what, name, ours, how, theirs, form="{:.2f}"):
    """A goal that another server's figure sets."""
    return goal(what, ours.get(name), how, theirs.get(name), (ours, theirs), form)


def share(what, name, ours, how, theirs, target):
    """A goal for the ratio to another server's figure."""
    return goal(what, ratio(ours.get(name), theirs.get(name)), how, target, (ours, theirs))


def extra_memory(entry):
    """What dumping added to the resident memory, as a share of what the data takes."""
    busy = entry.get("load", {})
    if "rss_most" not in busy or busy["rss"] <= entry["rss_empty"]:
        return None
    return max(busy["rss_most"] - busy["rss"], 0) / (busy["rss"] - entry["rss_empty"])


def throughput_goals(s):
    limit, out = own_limit(s), []
    for cell, row in s["cells"].items():
        word, pipeline = cell.split("/")
        name = f"{WORDS[word]}, pipeline {pipeline}"
        sherd, top, valkey, redis = (row.get(x, {}) for x in ("sherd", limit, "valkey", "redis"))
        out.append(share(f"{name}: throughput / {limit}", "ops_per_s", sherd, ">=", top, LIMIT_SHARE[int(pipeline)]))
        out.append(versus(f"{name}: CPU µs/op below valkey's", "server_us_per_op", sherd, "<", valkey))
        if pipeline == "1":
            out.append(share(f"{name}: CPU / {limit}'s", "server_us_per_op", sherd, "<=", top, CPU_OVER_LIMIT))
            out.append(versus(f"{name}: p99 µs, not above redis's", "p99_us", sherd, "<=", redis, "{:.0f}"))
    return out


def multi_goals(s):
    return [share(f"{WORDS[cell.split('/')[0]]}, pipeline {cell.split('/')[1]}: throughput / valkey", "ops_per_s", row.get("sherd", {}), ">=",
                  row.get("valkey", {}), MULTI_FACTOR) for cell, row in s["cells"].items()]


def latency_goals(s):
    return [versus(f"at {int(cell.split('/')[1]):,} operations/s: p99 µs, not above redis's", "p99_us", row.get("sherd", {}), "<=",
                   row.get("redis", {}), "{:.0f}") for cell, row in s["cells"].items()]


def memory_goals(s):
    return [goal(f"bytes per key, values of {size}", row.get("sherd", {}).get("per_key"), "<=", BYTES_PER_KEY[size], form="{:.1f}")
            for size, row in s["sizes"].items()]


def growth_goals(s):
    sherd, limit = (s["fills"].get(x, {}) for x in ("sherd", "limit-epoll"))
    bound = limit["max_us"] + GROWTH_OVER_NOISE_US if "max_us" in limit else None
    return [goal("slowest batch of a growing table, µs, against the noise on limit + 1 ms", sherd.get("max_us"), "<=", bound, (sherd, limit),
                 "{:.0f}")]


def idle_goals(s):
    return [versus("idle, ms of CPU per second, not above redis's", "cpu_ms_per_s", s["idle"].get("sherd", {}), "<=", s["idle"].get("redis", {}))]


def busy_goals(s):
    redis = s["busy"].get("redis", {}).get("same", {})
    return [versus(f"one shard busy, {label}: p99 µs of other shards' GETs below redis's", "p99_us",
                   s["busy"].get(label, {}).get("other", {}), "<", redis, "{:.0f}") for label in ("sherd", "sherd-8")]


def durable_goals(s):
    out, dumps = [], s.get("dumps", {})
    for cell, row in s.get("cells", {}).items():
        policy, pipeline = cell.split("/")
        wanted = EVERY_WRITE_FACTOR if cell == "EveryWrite/16" else 1.0
        out.append(share(f"SET with {policy}, pipeline {pipeline}: throughput / redis", "ops_per_s", row.get("sherd", {}), ">=", row.get("redis", {}), wanted))
    sherd, redis = dumps.get("sherd", {}), dumps.get("redis", {})
    out.append(versus("a dump of 1M keys, seconds, not above redis's", "seconds", sherd, "<=", redis))
    out.append(goal("a dump's bytes / redis's, values that do not compress", ratio(sherd.get("bytes"), redis.get("bytes")), "<=", DUMP_SIZE_FACTOR, (sherd, redis)))
    busy = sherd.get("load", {})
    out.append(goal("p99 of SET while dumping / p99 without", ratio(busy.get("busy", {}).get("p99_us"), busy.get("quiet", {}).get("p99_us")), "<=", DUMP_P99_FACTOR, (busy,)))
    out.append(goal("extra memory while dumping, share of the data", extra_memory(sherd), "<", DUMP_MEMORY_SHARE, (busy,)))
    for how, row in s.get("starts", {}).items():
        out.append(goal(f"start from a {how}: redis's seconds / sherd's", ratio(row.get("redis", {}).get("seconds"), row.get("sherd", {}).get("seconds")), ">=",
                        START_FACTOR, (row.get("sherd", {}), row.get("redis", {}))))
    return out


def cluster_goals(s):
    cells, mix = s.get("cells", {}), s.get("cells", {}).get("mix/1", {}).get("sherd", {})
    out = [goal("three nodes, GET + SET 1:1: requests per second", mix.get("ops_per_s"), ">=", CLUSTER_MIX_PER_S, (mix,), "{:.0f}")]
    for word, most in CLUSTER_P50_MS.items():
        out.append(goal(f"three nodes, GET + SET 1:1: p50 of {WORDS[word]}, ms", scaled(mix.get(f"{word}_p50_us"), 1e-3), "<=", most, (mix,)))
    for word, factor in CLUSTER_OVER_ETCD.items():
        row = cells.get(f"{word}/1", {})
        out.append(share(f"three nodes, {WORDS[word]}: throughput / etcd", "ops_per_s", row.get("sherd", {}), ">=", row.get("etcd", {}), factor))
    return out


GOALS = {"throughput": throughput_goals, "multi": multi_goals, "latency": latency_goals, "memory": memory_goals, "growth": growth_goals, "idle": idle_goals,
         "busy": busy_goals, "durable": durable_goals, "cluster": cluster_goals}


def all_goals(results):
    """{section: goals}. The goals are set for full-sized runs, so a quick one is not judged."""
    goals = {name: make(results["sections"][name]) for name, make in GOALS.items() if name in results["sections"]}
    for g in (g for name, section in goals.items() if results["sections"][name].get("quick") for g in section):
        g["verdict"] = "quick run" if g["verdict"] != "not measured" else g["verdict"]
    return goals


def goal_rows(goals):
    words = {"not reached": "**not reached**", "disturbed": "not judged: disturbed", "quick run": "not judged: quick run"}
    return [[g["what"], g["measured"], g["goal"], words.get(g["verdict"], g["verdict"])] for g in goals]


# ---- tables

def cell_tables(s, limit):
    """One table per cell group: a row per server, with its ratios."""
    out = []
    for cell, row in s["cells"].items():
        word, pipeline = cell.split("/")
        rows = []
        for label in labels_of(s):
            e = row.get(label, {})
            rows.append([label, figure(e, "ops_per_s", 1e-3)] + [ratio_text("ops_per_s", e, row.get(x, {})) for x in (limit, "valkey", "redis")] + [
                         figure(e, "server_us_per_op", 1, 2), figure(e, "client_us_per_op", 1, 2),
                         figure(e, "p50_us"), figure(e, "p99_us"), figure(e, "p999_us"), figure(e, "spread", 100)])
        out.append(f"### {WORDS[word]}, pipeline {pipeline}\n\n" + table(
            ["server", "kops/s", f"/ {limit}", "/ valkey", "/ redis", "server CPU µs/op", "client CPU µs/op", "p50 µs", "p99 µs",
             "p99.9 µs", "spread %"], rows))
    return "\n\n".join(out)


def throughput_text(s):
    limit = own_limit(s)
    matrix = [[label] + [figure(s["cells"].get(c, {}).get(label), "ops_per_s", 1e-3) + " / "
                         + figure(s["cells"].get(c, {}).get(label), "server_us_per_op", 1, 2) for c in s["cells"]] for label in labels_of(s)]
    return (f"{s['keys']:,} keys, 256-byte values, 50 connections, 2 workers. Shares of the limit are taken from `{limit}`.\n\n"
            "![throughput](throughput.svg)\n\n![CPU per operation](cpu.svg)\n\n"
            "Thousand operations per second / server CPU in µs per operation:\n\n"
            + table(["server"] + [c.replace("/", " P") for c in s["cells"]], matrix) + "\n\n" + cell_tables(s, limit))


def multi_text(s):
    return ("An operation is one command with 10 keys.\n\n![multi-key commands](multi.svg)\n\n" + cell_tables(s, "limit-epoll"))


def latency_text(s):
    out = []
    for cell, row in s["cells"].items():
        rows = [[x] + [figure(row.get(x), n, f, d) for n, f, d in (("ops_per_s", 1e-3, 1), ("p50_us", 1, 0), ("p99_us", 1, 0), ("p999_us", 1, 0),
                                                                   ("max_us", 1, 0), ("server_us_per_op", 1, 2))] for x in labels_of(s)]
        out.append(f"### {int(cell.split('/')[1]):,} operations per second\n\n"
                   + table(["server", "kops/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "server CPU µs/op"], rows))
    return ("GET + SET 1:1 without pipelining, 50 connections, at a fixed rate. A latency counts from the moment that the operation was due.\n\n"
            + "\n\n".join(out))


def memory_text(s):
    names = [x for x in ORDER if PEERS[x].stores]
    rows = [[f"{size} bytes", str(int(size) + 14), str(BYTES_PER_KEY[size])] + [figure(row.get(x), "per_key", 1, 1) for x in names]
            for size, row in s["sizes"].items()]
    return (f"Resident memory that {s['keys']:,} keys of 14 bytes added to the empty server, per key.\n\n![bytes per key](memory.svg)\n\n"
            + table(["value", "payload", "goal"] + names, rows))


def growth_text(s):
    rows = [[x, figure(e, "seconds", 1, 1), figure(e, "p50_us"), figure(e, "p999_us"), figure(e, "max_us", 1e-3, 2),
             f"{e['max_at_op']:,}" if "max_at_op" in e else "–", ", ".join(f"{r['max_us'] / 1000:.2f}" for r in e.get("runs", []))]
            for x, e in s["fills"].items()]
    return (f"One connection fills {s['keys']:,} keys, 16 SETs at a time; how long did the slowest batch take? `limit` has no table, so its "
            "slowest is what the machine's scheduling costs. The smallest maximum of the fills counts: a stall of the server's own comes back each time.\n\n"
            + table(["server", "fill s", "p50 µs", "p99.9 µs", "slowest ms", "at key", "slowest of each fill"], rows))


def idle_text(s):
    return (f"{s['keys']:,} keys, {s['conns']} open connections, nothing to do.\n\n"
            + table(["server", "CPU ms per s"], [[x, figure(e, "cpu_ms_per_s", 1, 2)] for x, e in s["idle"].items()]))


def workers_text(s):
    names = [f"sherd-{n}" for n in (2, 8, 32)]
    rows = [[x] + [figure(s["cells"].get(c, {}).get(x), n, f, d) for c in s["cells"]
                   for n, f, d in (("ops_per_s", 1e-3, 0), ("server_us_per_op", 1, 2), ("p99_us", 1, 0))] for x in names]
    head = ["workers"] + [f"{c.replace('/', ' P')} {n}" for c in s["cells"] for n in ("kops/s", "CPU µs/op", "p99 µs")]
    counters = "\n".join(f"- {x}: " + (", ".join(f"{k} {v:,}" for k, v in c.items()) or "INFO has no local/foreign counters")
                         for x, c in s["counters"].items())
    return ("With n workers, (n-1)/n of the keys live on another worker's shard than the connection's. More workers than cores "
            "also cost scheduling.\n\n" + table(head, rows) + ("\n\nCommands by where they ran, from INFO after fill and runs:\n\n" + counters if counters else ""))


def busy_text(s):
    rows = []
    for x, e in s["busy"].items():
        rows.append([x, f"`{e['command']}` {e['slow_ms']:.1f} ms" if "command" in e else "–"]
                    + [f"{figure(e.get(p), 'ops_per_s', 1e-3)} / {figure(e.get(p), 'p50_us')} / {figure(e.get(p), 'p99_us')}"
                       for p in ("quiet", "other", "same")])
    notes = "\n".join(f"- {x}: {e['note']}" for x, e in s["busy"].items() if e.get("note"))
    return ("A second client runs a slow read of one key, half of the time. GETs of 50 connections, thousand per second / p50 µs / p99 µs. A server "
            "with one thread has one shard: its keys are all \"same\".\n\n"
            + table(["server", "slow command", "quiet", "other shards", "same shard"], rows) + ("\n\n" + notes if notes else ""))


def durable_text(s):
    parts = [f"{s['keys']:,} keys, 256-byte values, 50 connections, 2 workers; log and dumps on the same disk for both, none made by itself."]
    rows = []
    for cell, row in s.get("cells", {}).items():
        sherd, redis = row.get("sherd", {}), row.get("redis", {})
        rows.append([f"{cell.split('/')[0]}, pipeline {cell.split('/')[1]}"] + [figure(e, "ops_per_s", 1e-3) for e in (sherd, redis)]
                    + [ratio_text("ops_per_s", sherd, redis)] + [figure(e, n) for n in ("p50_us", "p99_us") for e in (sherd, redis)]
                    + [figure(e, "server_us_per_op", 1, 2) for e in (sherd, redis)])
    parts.append("### SET under each policy\n\nredis with `appendfsync` `always`, `everysec` and `no`.\n\n" + table(
        ["policy", "sherd kops/s", "redis", "sherd / redis", "p50 µs sherd", "redis", "p99 µs sherd", "redis", "CPU µs/op sherd", "redis"], rows))
    rows = []
    for label, e in s.get("dumps", {}).items():
        busy, extra = e.get("load", {}), extra_memory(e)
        mark = "~" if busy.get("disturbed") else ""
        rows.append([label, figure(e, "seconds", 1, 2), figure(e, "bytes", 1e-6, 1), f"{e['bytes'] / e['payload']:.2f}"]
                    + [f"{busy[x]['p99_us']:.0f}{mark}" if x in busy else "–" for x in ("quiet", "busy")]
                    + [f"{busy[x]['ops_per_s'] / 1000:.0f}{mark}" if x in busy else "–" for x in ("quiet", "busy")]
                    + [f"{extra * 100:.1f} %" if extra is not None else "–", str(busy.get("dumps", "–"))])
    parts.append("### Dumps\n\nBGSAVE of an idle server; then SET without pipelining by 50 connections, and the same while dumps follow one another. Every key has a value of its own that "
                 "does not compress. Extra memory is that of the server's own process: redis's child is not in it.\n\n" + table(
                     ["server", "dump s", "MB", "/ payload", "SET p99 µs quiet", "dumping", "SET kops/s quiet", "dumping", "extra memory", "dumps"], rows))
    rows = [[f"from a {how}"] + [figure(row.get(x), "seconds", 1, 2) for x in ("sherd", "redis")] + [ratio_text("seconds", row.get("redis", {}), row.get("sherd", {}))]
            for how, row in s.get("starts", {}).items()]
    parts.append("### Starts\n\nFrom the start of the process to its first answer with all keys there; the files are in the page cache.\n\n"
                 + table(["start", "sherd s", "redis s", "redis / sherd"], rows))
    return "\n\n".join(parts)


def client_cores(e):
    """How many cores the load client took."""
    return {"cores": e["client_us_per_op"] * e["ops_per_s"] / 1e6, "disturbed": e.get("disturbed")} if "client_us_per_op" in e else {}


def cluster_text(s):
    rows = []
    for cell, row in s.get("cells", {}).items():
        word, pipeline = cell.split("/")
        for label in ("sherd", "etcd"):
            e = row.get(label, {})
            rows.append([f"{WORDS[word]}, pipeline {pipeline}", label, figure(e, "ops_per_s"), ratio_text("ops_per_s", e, row.get("etcd", {}))]
                        + [figure(e, n, 1e-3, 2) for n in ("p50_us", "p99_us", "get_p50_us", "set_p50_us")]
                        + [figure(e, "server_us_per_op", 1, 1), figure(e, "client_us_per_op", 1, 1), figure(client_cores(e), "cores", 1, 2), figure(e, "spread", 100)])
    idle = ", ".join(f"{label} {ms:.0f}" for label, ms in s.get("idle_ms_per_s", {}).items())
    versions = ", ".join(f"{label} {v}" for label, v in s.get("versions", {}).items() if v)
    return (f"Three nodes of each on this machine ({versions}), all with their defaults (but as many workers in a node of sherd as its share of the processors), durable, data on one file system; {s['keys']:,} keys of 16 bytes, 128-byte values, "
            "64 connections spread over the nodes, reads linearizable. The same client for both, `bench/load`, which speaks Redis's protocol to one and gRPC to the other; at pipeline 16 etcd has "
            "16 calls at once on a connection. CPU of the servers is that of all three nodes. Nobody is stopped while the other is measured"
            + (f"; idle, the three nodes take together, in ms of CPU per second: {idle}" if idle else "") + ".\n\n"
            + table(["load", "system", "requests/s", "/ etcd", "p50 ms", "p99 ms", "GET p50 ms", "SET p50 ms", "server CPU µs/req", "client CPU µs/req", "client cores", "spread %"], rows))


TEXT = {"throughput": ("1. Throughput and CPU", throughput_text), "multi": ("2. Multi-key commands", multi_text),
        "latency": ("3. Latency at a fixed rate", latency_text), "memory": ("4. Memory", memory_text), "growth": ("5. Growth", growth_text), "idle": ("6. Idle", idle_text),
        "workers": ("7. Foreign keys", workers_text), "busy": ("8. One busy shard", busy_text), "durable": ("9. Durability", durable_text),
        "cluster": ("10. Three nodes", cluster_text)}


# ---- plots

def cells_panel(s, words, pipeline, name, factor, limit=None):
    series = [x for x in labels_of(s) if any(x in row for row in s["cells"].values())] or labels_of(s)
    values = {x: {w: scaled(value(s["cells"], f"{w}/{pipeline}", x, name), factor) for w in words} for x in series}
    goals = {}
    if limit:
        for w in words:
            top = value(s["cells"], f"{w}/{pipeline}", limit, name)
            if top:
                goals[w] = top * LIMIT_SHARE[pipeline] * factor
    return {"title": f"pipeline {pipeline}", "groups": words, "series": series, "values": values, "goals": goals}


def plots(results):
    """{file name: SVG}"""
    out, have = {}, results["sections"]
    if have.get("throughput", {}).get("cells"):
        s = have["throughput"]
        words = ["get", "set", "mix"]
        out["throughput.svg"] = plot.bars("Throughput", "operations per second, more is better; each panel has its own scale",
                                          [cells_panel(s, words, p, "ops_per_s", 1, own_limit(s)) for p in (1, 16, 64)])
        out["cpu.svg"] = plot.bars("Server CPU", "µs per operation, less is better; each panel has its own scale",
                                   [cells_panel(s, words, p, "server_us_per_op", 1) for p in (1, 16, 64)])
    if have.get("multi", {}).get("cells"):
        out["multi.svg"] = plot.bars("Multi-key commands", "commands of 10 keys per second, more is better",
                                     [cells_panel(have["multi"], ["mget", "mset"], p, "ops_per_s", 1) for p in (1, 16)])
    if have.get("memory", {}).get("sizes"):
        sizes = have["memory"]["sizes"]
        series = [x for x in ORDER if any(x in row for row in sizes.values())]
        values = {x: {f"{size} B": row.get(x, {}).get("per_key") for size, row in sizes.items()} for x in series}
        out["memory.svg"] = plot.bars("Memory", "resident bytes per key by value size, keys of 14 bytes, less is better", [
            {"title": "bytes per key", "groups": [f"{size} B" for size in sizes], "series": series, "values": values,
             "goals": {f"{size} B": BYTES_PER_KEY[size] for size in sizes}}])
    return out


def markdown(results):
    goals = all_goals(results)
    flat = [g for section in goals.values() for g in section]
    count = {v: sum(g["verdict"] == v for g in flat) for v in ("reached", "not reached")}
    m = results["machine"]
    parts = ["# Benchmark results",
             "Written by `make bench`; how to read it: [bench/README.md](../../bench/README.md). Figures compare within this run only."
             + ("\n\n**Holds quick runs: they show that everything works, not how fast it is.**"
                if any(s.get("quick") for s in results["sections"].values()) else ""),
             f"{m['cores']} cores ({m['cpu']}), {m['memory_gib']} GiB, Linux {m['kernel']}; client and server share the cores. "
             + "Versions: " + ", ".join(f"{n} {v}" for n, v in m["versions"].items() if v) + ". "
             "`~` marks a figure for which too few undisturbed runs could be had; no goal is judged by it.",
             f"## Goals: {count['reached']} reached, {count['not reached']} not reached, {len(flat) - sum(count.values())} not judged"]
    parts.append(table(["goal", "measured", "wanted", "result"], goal_rows(flat)))
    for name, (title, text) in TEXT.items():
        section = results["sections"].get(name)
        if section:
            parts += [f"## {title}", f"Taken {section['taken']}.", text(section), problems(section)]
    return "\n\n".join(p for p in parts if p) + "\n"
