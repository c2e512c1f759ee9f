/* LATENCY: how long commands took. Every command is timed, so there are histograms; Redis's monitor of single slow events is not here: what it would show is empty, and
 * DOCTOR says where to look instead. */
#include "base/clock.h"
#include "base/mem.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/totals.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

/* One bound with the calls within it, if they are more than the `told` ones before. */
static size_t reply_bound(struct reply *out, uint64_t bound_us, uint64_t calls, uint64_t *told)
{
    if (calls == *told) return 0;
    reply_int(out, (int64_t)bound_us);
    reply_int(out, (int64_t)calls);
    *told = calls;
    return 1;
}

/* Cumulative counts at 1, 2, 4, ... microseconds. A bucket is within a bound if even its largest value is. */
static void reply_histogram(struct reply *out, const struct hist *h)
{
    double per_us = clock_ticks_per_us();
    uint64_t bound_us = 1, calls = 0, told = 0;
    size_t mark = reply_open(out), pairs = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        if (h->bucket[i] == 0) continue;
        uint64_t ticks = hist_value(i) < h->max ? hist_value(i) : h->max;
        for (; (double)ticks > (double)bound_us * per_us; bound_us *= 2) pairs += reply_bound(out, bound_us, calls, &told);
        calls += h->bucket[i];
    }
    pairs += reply_bound(out, bound_us, calls, &told);
    reply_close_map(out, mark, pairs);
}

/* False: the command has not run, or its times are not kept (latency-tracking no). */
static bool reply_place(struct exec *x, size_t place, struct hist *h)
{
    struct server *s = server_of(x);
    if (!totals_durations(s, place, h)) return false;
    reply_bulk_str(&x->out, command_place_name(s->commands, place));
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "calls");
    reply_int(&x->out, (int64_t)h->count);
    reply_bulk_str(&x->out, "histogram_usec");
    reply_histogram(&x->out, h);
    return true;
}

/* Named itself, or as a subcommand of what is named. */
static bool is_wanted(const struct exec *x, const char *name)
{
    size_t container = strcspn(name, "|");
    for (uint32_t i = 2; i < x->argc; i++) {
        struct slice word = x->argv[i];
        if (slice_is(word, name) || (word.n == container && strncasecmp(word.p, name, container) == 0)) return true;
    }
    return x->argc == 2;
}

static void cmd_histogram(struct exec *x)
{
    const struct command_table *commands = server_of(x)->commands;
    struct hist *h = mem_alloc(sizeof *h);
    size_t mark = reply_open(&x->out), n = 0;
    for (size_t i = 0; i < command_places(commands); i++)
        if (is_wanted(x, command_place_name(commands, i))) n += reply_place(x, i, h);
    reply_close_map(&x->out, mark, n);
    mem_free(h);
}

static void cmd_empty(struct exec *x) { reply_array(&x->out, 0); }

static void cmd_reset(struct exec *x) { reply_int(&x->out, 0); }

static void cmd_graph(struct exec *x)
{
    struct slice event = x->argv[2];
    reply_errorf(&x->out, "ERR No samples available for event '%.*s'", (int)(event.n < 128 ? event.n : 128), event.p);
}

static void cmd_doctor(struct exec *x)
{
    reply_verbatim(&x->out, "txt",
                   SLICE("The monitor of single latency events is off: this server has none. It times every command instead. STATS.LATENCY shows the mean, "
                         "p50, p99, p999 and maximum of each command, LATENCY HISTOGRAM the whole distribution, SLOWLOG GET the slowest calls with their arguments.\n"));
}

static const struct exec_subcommand subs[] = {
    {"doctor", cmd_doctor, 2},
    {"graph", cmd_graph, 3},
    {"histogram", cmd_histogram, -2},
    {"history", cmd_empty, 3},
    {"latest", cmd_empty, 2},
    {"reset", cmd_reset, -2},
    {0},
};

static const char *const help[] = {
    "DOCTOR",
    "    Say where this server shows how long commands take.",
    "GRAPH <event>",
    "    Answer that there are no samples of the <event> class.",
    "HISTOGRAM [COMMAND ...]",
    "    Return how many calls took at most 1, 2, 4, ... microseconds, for the",
    "    specified command names or for all commands.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class: always empty.",
    "LATEST",
    "    Return the latest latency samples for all events: always empty.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes: there are none.",
    NULL,
};

static void cmd_latency(struct exec *x) { exec_subcommand(x, subs, help); }

static const struct command rows[] = {
    {.name = "latency", .fn = cmd_latency, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE, .subs = subs,
     .group = "server", .since = "2.8.13", .summary = "Shows how long commands took.",
     .args = "HISTOGRAM [command [command ...]] | LATEST | HISTORY event | GRAPH event | RESET [event [event ...]] | DOCTOR | HELP"},
};

const struct command_family latency_family = COMMAND_FAMILY(rows);
