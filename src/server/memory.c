/* MEMORY: where the bytes are. Numbers of the data are exact, taken with all shards held; those of the allocator and the kernel are at most a second old (server/sampler.h). */
#include <stdio.h>

#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/sampler.h"
#include "store/arena.h"

/* jemalloc's; sanitizer builds have another allocator, and these are NULL. */
int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len) __attribute__((weak));
void malloc_stats_print(void (*write)(void *ctx, const char *text), void *ctx, const char *options) __attribute__((weak));

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

/* ---- USAGE */

enum { SLOT_BYTES = (sizeof(struct table_bucket) + TABLE_SLOTS - 1) / TABLE_SLOTS };

/* What a key costs: entry, body, and a slot in each table that points to it. Collections know their bytes, so nothing is sampled. */
static uint64_t key_bytes(const struct place *at)
{
    return store_entry_bytes(at->store, at->e) + (entry_expiry_ms(at->e) ? 2 : 1) * (uint64_t)SLOT_BYTES;
}

static void cmd_usage(struct exec *x)
{
    for (uint32_t i = 3; i < x->argc; i += 2) {
        int64_t samples;
        if (!slice_is(x->argv[i], "samples") || i + 1 == x->argc) {
            exec_syntax(x);
            return;
        }
        if (!exec_arg_i64(x, x->argv[i + 1], &samples)) return;
        if (samples < 0) {
            exec_syntax(x);
            return;
        }
    }
    struct place at;
    exec_peek(x, x->argv[2], &at); /* asking about a key is no use of it */
    if (at.e) reply_int(&x->out, (int64_t)key_bytes(&at));
    else reply_null(&x->out);
}

/* ---- the whole server */

struct picture {
    struct sampler_memory m;
    uint64_t keys;
    uint64_t main[STORE_ALL_DBS], expires[STORE_ALL_DBS]; /* bytes of the tables of each database */
    uint64_t tables;      /* and of all together */
    uint64_t mapped;      /* address space of the shards' arenas */
    uint64_t clients;     /* what was added outside the data since the start: connections and their buffers */
    uint64_t largest;     /* bytes of the shard that has most */
    uint32_t largest_shard;
    unsigned connections;
};

static void add_shard(struct picture *p, const struct store *s)
{
    for (unsigned d = 0; d < STORE_ALL_DBS; d++) {
        const struct db *db = s->dbs[d];
        if (!db) continue;
        if (d != STORE_SYSTEM_DB) p->keys += db->keys.entries;
        p->main[d] += table_bytes(&db->keys);
        p->expires[d] += table_bytes(&db->expiring);
        p->tables += table_bytes(&db->keys) + table_bytes(&db->expiring);
        p->mapped += arena_mapped_bytes(db->arena);
    }
}

/* All tokens are held. */
static void take_picture(struct exec *x, struct picture *p)
{
    struct server *s = server_of(x);
    struct engine *e = s->engine;
    *p = (struct picture){.connections = atomic_load(&s->connections)};
    for (uint32_t i = 0; i < e->route.shards; i++) {
        engine_publish(&e->shards[i]);
        add_shard(p, e->stores[i]);
        uint64_t bytes = store_bytes(e->stores[i]);
        if (bytes <= p->largest) continue;
        p->largest = bytes;
        p->largest_shard = i;
    }
    sampler_memory(s, &p->m);
    uint64_t fixed = p->m.data + p->m.startup;
    p->clients = p->m.used > fixed ? p->m.used - fixed : 0;
    if (p->tables > p->m.data) p->tables = p->m.data; /* parts of tables on the move are away and not live */
}

static size_t reply_number(struct reply *r, const char *name, uint64_t v)
{
    reply_bulk_str(r, name);
    reply_int(r, (int64_t)v);
    return 1;
}

static size_t reply_ratio(struct reply *r, const char *name, double v)
{
    reply_bulk_str(r, name);
    reply_double(r, v);
    return 1;
}

/* A pair of fields: how many times as large a is as b, and the bytes between them (less than 0 if a is the smaller one). */
static size_t reply_excess(struct reply *r, const char *ratio_name, const char *bytes_name, uint64_t a, uint64_t b)
{
    reply_ratio(r, ratio_name, ratio(a, b));
    return 1 + reply_number(r, bytes_name, a - b);
}

static size_t reply_databases(struct reply *r, const struct picture *p)
{
    size_t n = 0;
    for (unsigned d = 0; d < STORE_DBS; d++) {
        if (!p->main[d]) continue;
        char name[8];
        snprintf(name, sizeof name, "db.%u", d);
        reply_bulk_str(r, name);
        reply_map(r, 2);
        reply_number(r, "overhead.hashtable.main", p->main[d]);
        reply_number(r, "overhead.hashtable.expires", p->expires[d]);
        n++;
    }
    return n;
}

static size_t reply_overview(struct reply *r, const struct picture *p)
{
    const struct sampler_memory *m = &p->m;
    size_t n = reply_number(r, "peak.allocated", m->peak);
    n += reply_number(r, "total.allocated", m->used);
    n += reply_number(r, "startup.allocated", m->startup);
    n += reply_number(r, "replication.backlog", 0);
    n += reply_number(r, "clients.slaves", 0);
    n += reply_number(r, "clients.normal", p->clients);
    n += reply_number(r, "cluster.links", 0);
    n += reply_number(r, "aof.buffer", 0);
    n += reply_number(r, "lua.caches", 0);
    n += reply_number(r, "functions.caches", 0);
    return n + reply_databases(r, p);
}

static size_t reply_dataset(struct reply *r, const struct picture *p)
{
    const struct sampler_memory *m = &p->m;
    uint64_t since_start = m->used > m->startup ? m->used - m->startup : 0;
    uint64_t dataset = m->data - p->tables;
    size_t n = reply_number(r, "overhead.total", m->used - dataset);
    n += reply_number(r, "keys.count", p->keys);
    n += reply_number(r, "keys.bytes-per-key", p->keys ? since_start / p->keys : 0);
    n += reply_number(r, "dataset.bytes", dataset);
    n += reply_ratio(r, "dataset.percentage", 100 * ratio(dataset, since_start));
    n += reply_ratio(r, "peak.percentage", 100 * ratio(m->used, m->peak));
    n += reply_number(r, "shards.live", m->data);
    return n + reply_number(r, "shards.mapped", p->mapped);
}

static size_t reply_allocator(struct reply *r, const struct picture *p)
{
    const struct sampler_memory *m = &p->m;
    size_t n = reply_number(r, "allocator.allocated", m->allocated);
    n += reply_number(r, "allocator.active", m->active);
    n += reply_number(r, "allocator.resident", m->resident);
    n += reply_excess(r, "allocator-fragmentation.ratio", "allocator-fragmentation.bytes", m->active, m->allocated);
    n += reply_excess(r, "allocator-rss.ratio", "allocator-rss.bytes", m->resident, m->active);
    n += reply_excess(r, "rss-overhead.ratio", "rss-overhead.bytes", m->rss, m->resident + p->mapped);
    return n + reply_excess(r, "fragmentation", "fragmentation.bytes", m->rss, m->used);
}

static void cmd_stats(struct exec *x)
{
    struct picture p;
    take_picture(x, &p);
    size_t mark = reply_open(&x->out);
    size_t n = reply_overview(&x->out, &p);
    n += reply_dataset(&x->out, &p);
    n += reply_allocator(&x->out, &p);
    reply_close_map(&x->out, mark, n);
}

/* ---- DOCTOR */

enum { KIB = 1 << 10, MIB = 1 << 20, SMALL_BYTES = 5 * MIB, LARGE_CLIENT_BYTES = 200 * KIB };

static double mib(uint64_t bytes) { return (double)bytes / MIB; }

static void look_at_peak(const struct picture *p, struct buf *text)
{
    if (ratio(p->m.peak, p->m.used) <= 1.5) return;
    buf_printf(text, "* Peak: %.1f MiB were in use at some time, %.1f MiB are now. The rest may still be held for later use; MEMORY PURGE gives it back.\n",
               mib(p->m.peak), mib(p->m.used));
}

static void look_at_fragmentation(const struct picture *p, struct buf *text)
{
    if (ratio(p->m.rss, p->m.used) <= 1.4 || p->m.rss - p->m.used < 10 * MIB) return;
    buf_printf(text, "* Fragmentation: the process occupies %.1f MiB (%.2f times) for %.1f MiB in use. MEMORY PURGE gives back what is entirely free.\n",
               mib(p->m.rss), ratio(p->m.rss, p->m.used), mib(p->m.used));
}

static void look_at_clients(const struct picture *p, struct buf *text)
{
    if (!p->connections || p->clients / p->connections < LARGE_CLIENT_BYTES) return;
    buf_printf(text, "* Clients: %u connections take %.1f MiB, mostly unread answers or unfinished requests. CLIENT LIST shows whose (omem, qbuf).\n",
               p->connections, mib(p->clients));
}

static void look_at_shards(const struct picture *p, uint32_t shards, struct buf *text)
{
    double share = ratio(p->largest, p->m.data);
    if (shards < 2 || share * shards <= 1.5) return;
    buf_printf(text, "* Balance: shard %u of %u holds %.0f%% of the data: some keys are large. STATS.SHARDS and MEMORY USAGE help to find them.\n",
               p->largest_shard, shards, 100 * share);
}

static void cmd_doctor(struct exec *x)
{
    struct picture p;
    struct buf text = {0}, found = {0};
    take_picture(x, &p);
    if (p.m.used < SMALL_BYTES) {
        buf_printf(&text, "This server uses so little memory (%.1f MiB) that nothing can be said about it.\n", mib(p.m.used));
    } else {
        look_at_peak(&p, &found);
        look_at_fragmentation(&p, &found);
        look_at_clients(&p, &found);
        look_at_shards(&p, x->route->shards, &found);
        buf_printf(&text, "%s %.1f MiB are in use, %.1f MiB of it for %llu keys; the process occupies %.1f MiB.\n", found.len ? "Found:" : "All is well:",
                   mib(p.m.used), mib(p.m.data), (unsigned long long)p.keys, mib(p.m.rss));
        buf_add_slice(&text, buf_slice(&found));
    }
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&found);
    buf_fini(&text);
}

/* ---- PURGE, MALLOC-STATS */

static void cmd_purge(struct exec *x)
{
    for (uint32_t i = 0; i < x->route->shards; i++)
        for (unsigned d = 0; d < STORE_ALL_DBS; d++)
            if (x->stores[i]->dbs[d]) arena_trim(x->stores[i]->dbs[d]->arena);
    if (mallctl) mallctl("arena.4096.purge", NULL, NULL, NULL, 0); /* 4096: all of them (MALLCTL_ARENAS_ALL) */
    reply_ok(&x->out);
}

static void add_text(void *ctx, const char *text) { buf_add_str(ctx, text); }

static void cmd_malloc_stats(struct exec *x)
{
    struct buf text = {0};
    if (malloc_stats_print) malloc_stats_print(add_text, &text, "");
    else buf_add_str(&text, "This build does not use jemalloc: its allocator keeps no statistics.\n");
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

/* ---- rows */

static int usage_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    if (argc < 3 || !slice_is(argv[1], "usage")) return 0;
    if (max > 0) at[0] = 2;
    return 1;
}

static bool needs_all(const struct slice *argv, uint32_t argc)
{
    return slice_is(argv[1], "stats") || slice_is(argv[1], "doctor") || slice_is(argv[1], "purge");
}

static const struct exec_subcommand subs[] = {
    {"doctor", cmd_doctor, 2},
    {"malloc-stats", cmd_malloc_stats, 2},
    {"purge", cmd_purge, 2},
    {"stats", cmd_stats, 2},
    {"usage", cmd_usage, -3},
    {0},
};

static const char *const help[] = {
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Give memory that is entirely free back to the kernel.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. The number is exact,",
    "    so <count> has no effect.",
    NULL,
};

static void cmd_memory(struct exec *x) { exec_subcommand(x, subs, help); }

static const struct command rows[] = {
    {.name = "memory", .fn = cmd_memory, .arity = -2, .class = CLASS_KEYED, .flags = CMD_READONLY | CMD_MOVABLE_KEYS | CMD_KEY_ONLY, .first_key = 2, .last_key = 2, .key_step = 1,
     .keys = usage_keys, .needs_all = needs_all, .subs = subs, .group = "server", .since = "4.0.0", .summary = "Shows where the memory is.",
     .args = "USAGE key [SAMPLES count] | STATS | DOCTOR | PURGE | MALLOC-STATS | HELP"},
};

const struct command_family memory_family = COMMAND_FAMILY(rows);
