#include "server/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "server/front.h"
#include "server/totals.h"
#include "store/hotkeys.h"

/* ---- errors by code: few codes, few errors, so one small table under a lock */

enum { CODES_MAX = 128, CODE_BYTES = 32 };

struct error_counts {
    pthread_mutex_t lock;
    uint32_t n;
    struct {
        char code[CODE_BYTES];
        uint64_t count;
    } of[CODES_MAX];
};

struct error_counts *stats_errors_new(void)
{
    struct error_counts *c = mem_zalloc(sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void stats_errors_free(struct error_counts *c)
{
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

/* The code is the first word behind the minus sign. */
static size_t code_of(struct slice text, char out[CODE_BYTES])
{
    size_t n = 0;
    for (size_t i = 1; i < text.n && n < CODE_BYTES - 1; i++) {
        char ch = text.p[i];
        if (ch == ' ' || ch == '\r' || ch == '\n') break;
        out[n++] = ch;
    }
    out[n] = '\0';
    return n;
}

void stats_note_error(void *server, struct worker *w, struct slice text)
{
    struct error_counts *c = ((struct server *)server)->errors;
    char code[CODE_BYTES];
    if (!code_of(text, code)) return;
    pthread_mutex_lock(&c->lock);
    uint32_t i = 0;
    while (i < c->n && strcmp(c->of[i].code, code) != 0) i++;
    if (i == c->n && c->n < CODES_MAX) memcpy(c->of[c->n++].code, code, CODE_BYTES);
    if (i < c->n) c->of[i].count++;
    pthread_mutex_unlock(&c->lock);
}

void stats_errors(struct server *s, void (*each)(void *ctx, const char *code, uint64_t n), void *ctx)
{
    struct error_counts *c = s->errors;
    pthread_mutex_lock(&c->lock);
    const char *last = ""; /* in order of codes without sorting in place: the next larger one each time */
    for (;;) {
        int next = -1;
        for (uint32_t i = 0; i < c->n; i++)
            if (strcmp(c->of[i].code, last) > 0 && (next < 0 || strcmp(c->of[i].code, c->of[next].code) < 0)) next = (int)i;
        if (next < 0) break;
        last = c->of[next].code;
        each(ctx, last, c->of[next].count);
    }
    pthread_mutex_unlock(&c->lock);
}

void stats_reset(struct server *s)
{
    pthread_mutex_lock(&s->errors->lock);
    s->errors->n = 0;
    memset(s->errors->of, 0, sizeof s->errors->of);
    pthread_mutex_unlock(&s->errors->lock);
}

/* ---- durations of commands */

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static double us(uint64_t ticks) { return (double)ticks / clock_ticks_per_us(); }

static void reply_latency(struct exec *x, const char *name, uint64_t calls, const struct hist *h)
{
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"usec-p50", 0.5}, {"usec-p99", 0.99}, {"usec-p999", 0.999}};
    reply_bulk_str(&x->out, name);
    reply_map(&x->out, 6);
    reply_bulk_str(&x->out, "calls");
    reply_int(&x->out, (int64_t)calls);
    reply_bulk_str(&x->out, "usec-mean");
    reply_double(&x->out, h->count ? us(h->sum) / (double)h->count : 0);
    for (unsigned i = 0; i < 3; i++) {
        reply_bulk_str(&x->out, quantiles[i].name);
        reply_double(&x->out, us(hist_quantile(h, quantiles[i].q)));
    }
    reply_bulk_str(&x->out, "usec-max");
    reply_double(&x->out, us(h->max));
}

static bool latency_wanted(const struct exec *x, const char *name)
{
    bool wanted = x->argc == 1;
    for (uint32_t i = 1; i < x->argc; i++) wanted |= slice_is(x->argv[i], name);
    return wanted;
}

/* STATS.LATENCY [command ...]: since the start or the last CONFIG RESETSTAT. */
static void latency_command(struct exec *x)
{
    struct server *s = server_of(x);
    struct hist *h = mem_alloc(sizeof *h);
    size_t mark = reply_open(&x->out), n = 0;
    for (size_t i = 0; i < command_places(s->commands); i++) {
        const char *name = command_place_name(s->commands, i);
        struct totals_command c;
        if (!latency_wanted(x, name)) continue;
        totals_of_command(s, i, &c);
        if (!c.calls) continue;
        if (!totals_durations(s, i, h)) *h = (struct hist){0}; /* latency-tracking is off */
        reply_latency(x, name, c.calls, h);
        n++;
    }
    reply_close_map(&x->out, mark, n);
    mem_free(h);
}

/* ---- hot keys */

static int by_hits(const void *a, const void *b)
{
    const struct hotkey *x = a, *y = b;
    return x->hits < y->hits ? 1 : x->hits > y->hits ? -1 : 0;
}

/* STATS.HOTKEYS [count]: each shard adds its top to what is carried; the last one sorts and answers. */
static void hotkeys_command(struct exec *x)
{
    int64_t want = 10;
    bool bad = x->argc == 2 && (!num_parse_i64(x->argv[1], &want) || want < 1);
    if (bad || x->argc > 2) {
        if (bad) reply_error(&x->out, "ERR count must be a positive number");
        else exec_syntax(x);
        x->done = true;
        return;
    }
    const struct hotkeys *h = x->stores[x->shard]->hotkeys;
    for (unsigned i = 0; i < HOTKEYS_TOP; i++)
        if (h->top[i].hash) buf_add(x->carry, &h->top[i], sizeof h->top[i]);
    if (x->shard + 1u < x->route->shards) return;
    size_t n = x->carry->len / sizeof(struct hotkey);
    struct hotkey *all = (struct hotkey *)x->carry->p;
    if (n) qsort(all, n, sizeof *all, by_hits);
    if (n > (size_t)want) n = (size_t)want;
    reply_array(&x->out, n);
    for (size_t i = 0; i < n; i++) {
        reply_array(&x->out, 2);
        reply_bulk(&x->out, slice_of(all[i].name, all[i].len < HOTKEYS_KEY_MAX ? all[i].len : HOTKEYS_KEY_MAX));
        reply_int(&x->out, (int64_t)all[i].hits);
    }
}

/* ---- memory by prefix */

struct prefix_sum {
    uint64_t keys, bytes;
};

static void add_entry(struct exec *x, struct prefix_sum *sums, const struct entry *e)
{
    struct slice key = entry_key(e);
    size_t bytes = 0;
    for (uint32_t i = 1; i < x->argc; i++) {
        struct slice p = x->argv[i];
        if (key.n < p.n || memcmp(key.p, p.p, p.n) != 0) continue;
        if (!bytes) bytes = store_entry_bytes(x->stores[x->shard], e);
        sums[i - 1].keys++;
        sums[i - 1].bytes += bytes;
    }
}

/* STATS.MEMORY prefix [prefix ...]: keys and bytes of the selected database under each prefix. Walks all keys, one shard at a time. */
static void memory_command(struct exec *x)
{
    size_t n = x->argc - 1;
    if (x->shard == 0) {
        memset(buf_room(x->carry, n * sizeof(struct prefix_sum)), 0, n * sizeof(struct prefix_sum));
        x->carry->len = n * sizeof(struct prefix_sum);
    }
    struct prefix_sum *sums = (struct prefix_sum *)x->carry->p;
    const struct db *db = x->stores[x->shard]->dbs[x->db];
    if (db) {
        struct table_iter it;
        table_iter_init(&it, &db->keys);
        for (struct entry *e; (e = table_iter_next(&it));) add_entry(x, sums, e);
    }
    if (x->shard + 1u < x->route->shards) return;
    reply_map(&x->out, n);
    for (size_t i = 0; i < n; i++) {
        reply_bulk(&x->out, x->argv[i + 1]);
        reply_map(&x->out, 2);
        reply_bulk_str(&x->out, "keys");
        reply_int(&x->out, (int64_t)sums[i].keys);
        reply_bulk_str(&x->out, "bytes");
        reply_int(&x->out, (int64_t)sums[i].bytes);
    }
}

/* ---- shards */

static void shard_numbers(struct exec *x)
{
    const struct shard *sh = &server_of(x)->engine->shards[x->shard];
    const struct store *s = sh->store;
    uint64_t keys = 0, expiring = 0;
    for (uint16_t d = 0; d < STORE_DBS; d++) {
        keys += store_keys(s, d);
        expiring += store_expiring(s, d);
    }
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"shard", sh->id},
        {"home", sh->home},
        {"keys", keys},
        {"expires", expiring},
        {"bytes", store_bytes(s)},
        {"ops", STAT_GET(sh->stats.ops)},
        {"local", STAT_GET(sh->stats.local)},
        {"foreign", STAT_GET(sh->stats.foreign)},
        {"mailbox", atomic_load_explicit(&sh->depth, memory_order_relaxed)},
        {"hits", s->stats.hits},
        {"misses", s->stats.misses},
    };
    reply_map(&x->out, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reply_bulk_str(&x->out, rows[i].name);
        reply_int(&x->out, (int64_t)rows[i].value);
    }
}

/* STATS.SHARDS: what each shard holds and does. */
static void shards_command(struct exec *x)
{
    if (x->shard == 0) reply_array(&x->out, x->route->shards);
    shard_numbers(x);
}

/* STATS.SHARD key: the number of the shard where the key lives, or would. */
static void shard_command(struct exec *x) { reply_int(&x->out, route_key(x->route, x->argv[1], exec_hash(x, x->argv[1]))); }

static const struct command rows[] = {
    {.name = "stats.hotkeys", .fn = hotkeys_command, .arity = -1, .class = CLASS_EACH, .flags = CMD_READONLY | CMD_STALE,
     .group = "stats", .since = "7.2.0", .summary = "Returns the hottest keys of the last half hour with estimated hit counts.", .args = "[count]"},
    {.name = "stats.latency", .fn = latency_command, .arity = -1, .class = CLASS_LOCAL, .flags = CMD_LOADING | CMD_STALE,
     .group = "stats", .since = "7.2.0", .summary = "Returns calls, mean, p50, p99, p999 and maximum time of commands in microseconds.", .args = "[command [command ...]]"},
    {.name = "stats.memory", .fn = memory_command, .arity = -2, .class = CLASS_EACH, .flags = CMD_READONLY,
     .group = "stats", .since = "7.2.0", .summary = "Returns how many keys and bytes there are under each prefix; looks at every key.", .args = "prefix [prefix ...]"},
    {.name = "stats.shards", .fn = shards_command, .arity = 1, .class = CLASS_EACH, .flags = CMD_READONLY | CMD_STALE | CMD_FAST,
     .group = "stats", .since = "7.2.0", .summary = "Returns what each shard holds and does.", .args = ""},
    {.name = "stats.shard", .fn = shard_command, .arity = 2, .class = CLASS_KEYED, .flags = CMD_READONLY | CMD_FAST, .first_key = 1, .last_key = 1, .key_step = 1,
     .group = "stats", .since = "7.2.0", .summary = "Returns the shard of a key.", .args = "key"},
};

const struct command_family stats_family = COMMAND_FAMILY(rows);
