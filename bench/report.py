"""From results.json's content to Markdown, goals and plots. Pure: numbers in, text out."""
from peers import ORDER, PEERS
import plot

LIMIT_SHARE = {1: 0.95, 16: 0.65, 64: 0.45}
MULTI_FACTOR = 2.0
BYTES_PER_KEY = {"16": 56, "64": 104, "256": 304}
CPU_OVER_LIMIT = 1.05
GROWTH_OVER_NOISE_US = 1000
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


def ratio_text(r):
    return "–" if r is None else f"{r:.2f}"


def labels_of(section, default=ORDER):
    """Every server that was measured or is known to be missing, in the usual order."""
    seen = {label for row in section.get("cells", {}).values() for label in row} | set(section.get("missing", {}))
    return [x for x in default if x in seen] + sorted(seen - set(default))


def problems(section):
    """What did not work, said aloud."""
    lines = [f"- **{label}** is missing: {why}" for label, why in section.get("missing", {}).items()]
    groups = ("cells", "sizes")
    for cell, row in ((c, r) for g in groups for c, r in section.get(g, {}).items()):
        lines += [f"- **{label}**, {cell}: {e['error']}" for label, e in row.items() if "error" in e]
    for group in ("fills", "busy"):
        lines += [f"- **{label}**: {e['error']}" for label, e in section.get(group, {}).items() if "error" in e]
    return "\n".join(lines)


def own_limit(section):
    """The limit program on the same kind of event loop as sherd; epoll if sherd does not say."""
    return "limit-uring" if section.get("sherd_io") == "uring" else "limit-epoll"


# ---- goals: (what, measured, goal, reached or None when it could not be measured)

def goal(what, measured, target, reached, form="{:.2f}"):
    known = measured is not None and target is not None
    return {"what": what, "measured": form.format(measured) if measured is not None else "–",
            "goal": ("≤ " if reached == "<=" else "< " if reached == "<" else "≥ ") + form.format(target) if target is not None else "–",
            "reached": None if not known else
            measured <= target if reached == "<=" else measured < target if reached == "<" else measured >= target}


def throughput_goals(s):
    cells, limit, out = s["cells"], own_limit(s), []
    for cell in cells:
        word, pipeline = cell.split("/")
        name = f"{WORDS[word]}, pipeline {pipeline}"
        share = ratio(value(cells, cell, "sherd", "ops_per_s"), value(cells, cell, limit, "ops_per_s"))
        out.append(goal(f"{name}: throughput / {limit}", share, LIMIT_SHARE[int(pipeline)], ">="))
        cpu = value(cells, cell, "sherd", "server_us_per_op")
        out.append(goal(f"{name}: CPU µs/op below valkey's", cpu, value(cells, cell, "valkey", "server_us_per_op"), "<"))
        if pipeline == "1":
            out.append(goal(f"{name}: CPU / {limit}'s", ratio(cpu, value(cells, cell, limit, "server_us_per_op")), CPU_OVER_LIMIT, "<="))
            out.append(goal(f"{name}: p99 µs, not above redis's", value(cells, cell, "sherd", "p99_us"),
                            value(cells, cell, "redis", "p99_us"), "<=", "{:.0f}"))
    return out


def multi_goals(s):
    cells = s["cells"]
    return [goal(f"{WORDS[c.split('/')[0]]}, pipeline {c.split('/')[1]}: throughput / valkey",
                 ratio(value(cells, c, "sherd", "ops_per_s"), value(cells, c, "valkey", "ops_per_s")), MULTI_FACTOR, ">=") for c in cells]


def latency_goals(s):
    cells = s["cells"]
    return [goal(f"at {int(c.split('/')[1]):,} operations/s: p99 µs, not above redis's", value(cells, c, "sherd", "p99_us"),
                 value(cells, c, "redis", "p99_us"), "<=", "{:.0f}") for c in cells]


def memory_goals(s):
    return [goal(f"bytes per key, values of {size}", row.get("sherd", {}).get("per_key"), BYTES_PER_KEY[size], "<=", "{:.1f}")
            for size, row in s["sizes"].items()]


def growth_goals(s):
    noise = s["fills"].get("limit-epoll", {}).get("max_us")
    return [goal("slowest batch of a growing table, ms, against the noise on limit + 1 ms",
                 scaled(s["fills"].get("sherd", {}).get("max_us"), 1e-3), scaled(noise and noise + GROWTH_OVER_NOISE_US, 1e-3), "<=")]


def scaled(x, factor):
    return None if x is None else x * factor


def idle_goals(s):
    return [goal("idle, ms of CPU per second, not above redis's", s["idle"].get("sherd", {}).get("cpu_ms_per_s"),
                 s["idle"].get("redis", {}).get("cpu_ms_per_s"), "<=")]


def busy_goals(s):
    theirs = s["busy"].get("redis", {}).get("same", {}).get("p99_us")
    return [goal(f"one shard busy, {label}: p99 µs of other shards' GETs below redis's",
                 s["busy"].get(label, {}).get("other", {}).get("p99_us"), theirs, "<", "{:.0f}") for label in ("sherd", "sherd-8")]


GOALS = {"throughput": throughput_goals, "multi": multi_goals, "latency": latency_goals, "memory": memory_goals, "growth": growth_goals, "idle": idle_goals,
         "busy": busy_goals}


def all_goals(results):
    return {name: make(results["sections"][name]) for name, make in GOALS.items() if name in results["sections"]}


def goal_rows(goals):
    sign = {True: "reached", False: "**not reached**", None: "not measured"}
    return [[g["what"], g["measured"], g["goal"], sign[g["reached"]]] for g in goals]


# ---- tables

def cell_tables(s, limit):
    """One table per cell group: a row per server, with its ratios."""
    out = []
    for cell, row in s["cells"].items():
        word, pipeline = cell.split("/")
        rows = []
        for label in labels_of(s):
            e = row.get(label, {})
            rate = e.get("ops_per_s")
            rows.append([label, figure(e, "ops_per_s", 1e-3), ratio_text(ratio(rate, value(s["cells"], cell, limit, "ops_per_s"))),
                         ratio_text(ratio(rate, value(s["cells"], cell, "valkey", "ops_per_s"))),
                         ratio_text(ratio(rate, value(s["cells"], cell, "redis", "ops_per_s"))),
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
    counters = "\n".join(f"- {x}: " + (", ".join(f"{k} {v.strip()}" for k, v in c.items()) or "INFO has no local/foreign counters")
                         for x, c in s["counters"].items())
    return ("With n workers, (n-1)/n of the keys live on another worker's shard than the connection's. More workers than cores "
            "also cost scheduling.\n\n" + table(head, rows) + ("\n\nCounters of INFO after the runs:\n\n" + counters if counters else ""))


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


TEXT = {"throughput": ("1. Throughput and CPU", throughput_text), "multi": ("2. Multi-key commands", multi_text),
        "latency": ("3. Latency at a fixed rate", latency_text), "memory": ("4. Memory", memory_text), "growth": ("5. Growth", growth_text), "idle": ("6. Idle", idle_text),
        "workers": ("7. Foreign keys", workers_text), "busy": ("8. One busy shard", busy_text)}


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
    reached, missed = sum(g["reached"] is True for g in flat), sum(g["reached"] is False for g in flat)
    m = results["machine"]
    parts = ["# Benchmark results",
             "Written by `make bench`; how to read it: [bench/README.md](../../bench/README.md). Figures compare within this run only."
             + ("\n\n**A quick run: it shows that everything works, not how fast it is.**" if results.get("quick") else ""),
             f"{m['cores']} cores ({m['cpu']}), {m['memory_gib']} GiB, Linux {m['kernel']}; client and server share the cores. "
             + "Versions: " + ", ".join(f"{n} {v}" for n, v in m["versions"].items() if v) + ". "
             "`~` marks a figure for which no undisturbed runs could be had.",
             f"## Goals: {reached} reached, {missed} not reached, {len(flat) - reached - missed} not measured"]
    parts.append(table(["goal", "measured", "wanted", "result"], goal_rows(flat)))
    for name, (title, text) in TEXT.items():
        section = results["sections"].get(name)
        if section:
            parts += [f"## {title}", f"Taken {section['taken']}.", text(section), problems(section)]
    return "\n\n".join(p for p in parts if p) + "\n"
