/* Runs commands against real stores without a server: for the tests of command families.
 *
 *     struct harness *h = harness_new(4, &strings_family, &keys_family, NULL);    4 shards, these families
 *     harness_expect(h, "SET k v", "+OK\r\n");            words as in an inline request: quotes and \x escapes work
 *     harness_expect(h, "GET k", "$1\r\nv\r\n");
 *     struct slice r = harness_run(h, "KEYS *");          the reply's bytes, good until the next command
 *     harness_argv(h, argv, argc);                        any bytes as arguments
 *     harness_expect_sorted(h, "SMEMBERS s", "a b c");    an array of bulks in any order, its elements sorted, joined by blanks
 *     assert_string_equal(harness_events(h), "new k;set k;");   keyspace events since the last call: "event key;", "event key@db;" outside db 0
 *     h->now_ms += 1000;                                  time passes only like this
 *     h->db, h->resp, h->in_multi                         the session: database, protocol version, inside EXEC
 *     h->blocked                                          the last command asked to wait; harness_retry runs it again as a woken one
 *     harness_free(h);
 *
 * As in the server, a command sees only the shards whose tokens it would hold: the others are NULL, so touching a key that the row does not
 * name aborts. CLASS_EACH commands run over all shards in turn, CLASS_CURSOR ones from the shard of their cursor on. After each command every
 * store is checked (store_check); set h->check = false for long walks.
 *
 * With HARNESS_COLD defined, every command is followed by some values, chosen at random, going to a cold tier of the test's own (shelf.h): nobody may notice. A
 * test about encodings sets h->cold = false: a value that comes back is built anew, in the smallest encoding that holds it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "command/command.h"
#include "command/cursor.h"
#include "command/families.h"
#include "resp/parse.h"
#include "shelf.h"

enum { HARNESS_SHARDS_MAX = 64, HARNESS_FAMILIES_MAX = 32 };

struct harness {
    struct store *stores[HARNESS_SHARDS_MAX];
    struct store *held[HARNESS_SHARDS_MAX]; /* what the running command may see */
    struct store_limits limits;
    struct route route;
    struct command_table *table;
    struct exec_host host;
    struct rng rng;
    int64_t now_ms;
    uint16_t db;
    uint8_t resp;
    bool in_multi, check;
    bool cold; /* values go to the shelf between commands */
    struct shelf shelf;
    bool blocked;
    struct exec last; /* as the last command left it */
    struct buf out, carry, events, words;
    struct slice *argv; /* of the last command given as words */
    uint32_t argv_cap;
};

static inline void harness_note_event(void *ctx, struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db)
{
    struct harness *h = ctx;
    buf_printf(&h->events, "%s %.*s", event, (int)key.n, key.p);
    if (db) buf_printf(&h->events, "@%u", db);
    buf_add_byte(&h->events, ';');
}

/* Families end with NULL. */
static inline struct harness *harness_new(uint32_t shards, ...)
{
    struct harness *h = mem_zalloc(sizeof *h);
    struct command_family families[HARNESS_FAMILIES_MAX];
    size_t n = 0;
    va_list ap;
    va_start(ap, shards);
    for (const struct command_family *f; (f = va_arg(ap, const struct command_family *));) {
        assert_true(n < HARNESS_FAMILIES_MAX);
        families[n++] = *f;
    }
    va_end(ap);
    assert_true(shards > 0 && shards <= HARNESS_SHARDS_MAX);
    h->limits = (struct store_limits){.hash_entries = 128, .hash_value = 64, .set_ints = 512, .set_entries = 128, .set_value = 64,
                                      .zset_entries = 128, .zset_value = 64, .list_size = -2, .hll_sparse_bytes = 3000, .lfu_log_factor = 10,
                                      .lfu_decay_minutes = 1};
    h->route = (struct route){.seed = 42, .shards = shards};
    h->table = command_table_new(families, n);
    h->host = (struct exec_host){.notify = harness_note_event, .ctx = h};
    h->now_ms = 1700000000000;
    h->resp = 2;
    h->check = true;
    rng_init(&h->rng, 1);
    shelf_init(&h->shelf);
    for (uint32_t i = 0; i < shards; i++) {
        h->stores[i] = store_new(h->route.seed, &h->limits, i + 1);
        h->stores[i]->tier = &h->shelf.tier;
    }
#ifdef HARNESS_COLD
    h->cold = true;
#endif
    return h;
}

static inline void harness_free(struct harness *h)
{
    for (uint32_t i = 0; i < h->route.shards; i++) store_free(h->stores[i]);
    shelf_fini(&h->shelf);
    command_table_free(h->table);
    buf_fini(&h->out);
    buf_fini(&h->carry);
    buf_fini(&h->events);
    buf_fini(&h->words);
    mem_free(h->argv);
    mem_free(h);
}

static inline void harness_hold(struct harness *h, uint32_t shard) { h->held[shard] = h->stores[shard]; }

static inline void harness_hold_keys(struct harness *h, struct exec *x)
{
    enum { KEYS_MAX = 4096 };
    static uint32_t at[KEYS_MAX];
    int n = command_keys(x->cmd, x->argv, x->argc, at, KEYS_MAX);
    assert_true(n <= KEYS_MAX);
    for (int i = 0; i < n; i++) {
        assert_true(at[i] < x->argc);
        harness_hold(h, route_shard(&h->route, keyhash(x->argv[at[i]], h->route.seed)));
    }
    if (n > 0 && !(x->cmd->flags & CMD_MOVABLE_KEYS)) {
        x->key_hash = keyhash(x->argv[x->cmd->first_key], h->route.seed);
        x->have_hash = true;
    }
}

static inline void harness_run_class(struct harness *h, struct exec *x)
{
    uint32_t shard = 0;
    memset(h->held, 0, sizeof h->held);
    switch (x->cmd->class) {
    case CLASS_LOCAL: break;
    case CLASS_KEYED:
        harness_hold_keys(h, x);
        if (x->cmd->needs_all && x->cmd->needs_all(x->argv, x->argc)) memcpy(h->held, h->stores, sizeof h->held);
        break;
    case CLASS_SPACE:
    case CLASS_ALL: memcpy(h->held, h->stores, sizeof h->held); break;
    case CLASS_CURSOR:
    case CLASS_EACH:
        if (x->cmd->class == CLASS_CURSOR) shard = cursor_shard(x->argv[1], h->route.shards);
        for (uint32_t i = shard; i < h->route.shards && !x->done; i++) {
            memset(h->held, 0, sizeof h->held);
            harness_hold(h, i);
            x->shard = (uint16_t)i;
            x->cmd->fn(x);
        }
        return;
    }
    x->cmd->fn(x);
}

static inline struct slice harness_exec(struct harness *h, const struct slice *argv, uint32_t argc, bool retry)
{
    struct exec x = {.argv = argv, .argc = argc, .db = h->db, .out = {&h->out, h->resp}, .route = &h->route, .stores = h->held,
                     .now_ms = h->now_ms, .rng = &h->rng, .host = &h->host, .in_multi = h->in_multi, .retry = retry, .carry = &h->carry};
    h->out.len = h->carry.len = 0;
    h->blocked = false;
    for (uint32_t i = 0; i < h->route.shards; i++) h->stores[i]->now_ms = h->now_ms;
    x.cmd = command_find(h->table, argv[0]);
    if (!x.cmd) fail_msg("no command %.*s in the harness", (int)argv[0].n, argv[0].p);
    if (command_arity_ok(x.cmd, argc))
        harness_run_class(h, &x);
    else
        exec_wrong_arity(&x);
    h->blocked = x.block.wanted;
    h->last = x;
    if (!h->blocked && h->out.len == 0) fail_msg("%s answered nothing", x.cmd->name);
    for (uint32_t i = 0; h->cold && i < h->route.shards; i++) {
        shelf_chill_some(h->stores[i], &h->shelf.rng, 2);
        while (chill_bury_step(h->stores[i], 10)) {
        }
    }
    if (h->check)
        for (uint32_t i = 0; i < h->route.shards; i++) store_check(h->stores[i]);
    return buf_slice(&h->out);
}

static inline struct slice harness_argv(struct harness *h, const struct slice *argv, uint32_t argc)
{
    return harness_exec(h, argv, argc, false);
}

static inline struct slice harness_run(struct harness *h, const char *words)
{
    static const struct parse_limits limits = {1 << 20, 512u << 20, UINT32_MAX};
    struct parser p;
    uint32_t argc;
    size_t used;
    parse_init(&p);
    h->words.len = 0;
    buf_add_str(&h->words, words);
    buf_add_byte(&h->words, '\n');
    enum parse_result r = parse_request(&p, &limits, h->words.p, h->words.len, &used, &h->argv, &h->argv_cap, &argc);
    parse_fini(&p);
    assert_true(r == PARSE_OK && argc > 0);
    return harness_exec(h, h->argv, argc, false);
}

/* The last command runs again, as when a key that it waits for became ready. */
static inline struct slice harness_retry(struct harness *h) { return harness_exec(h, h->last.argv, h->last.argc, true); }

static inline void harness_expect(struct harness *h, const char *words, const char *reply)
{
    struct slice got = harness_run(h, words);
    if (!slice_eq(got, slice_str(reply))) fail_msg("%s\n  answered %.*s\n  expected %s", words, (int)got.n, got.p, reply);
}

/* Compares the start of the reply only. */
static inline void harness_expect_start(struct harness *h, const char *words, const char *start)
{
    struct slice got = harness_run(h, words);
    if (got.n < strlen(start) || memcmp(got.p, start, strlen(start)) != 0)
        fail_msg("%s\n  answered %.*s\n  expected %s...", words, (int)got.n, got.p, start);
}

static inline int harness_by_bytes(const void *a, const void *b) { return slice_cmp(*(const struct slice *)a, *(const struct slice *)b); }

/* The elements of a flat array (or set) of bulks, sorted and joined by blanks. */
static inline void harness_expect_sorted(struct harness *h, const char *words, const char *joined)
{
    struct slice got = harness_run(h, words);
    if (got.n == 0 || (got.p[0] != '*' && got.p[0] != '~')) fail_msg("%s\n  answered %.*s", words, (int)got.n, got.p);
    const char *at = got.p;
    size_t n = (size_t)strtoul(at + 1, NULL, 10);
    struct slice *items = mem_alloc((n + 1) * sizeof *items);
    at = (const char *)memchr(at, '\n', got.n) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t len = (size_t)strtoul(at + 1, NULL, 10);
        at = strchr(at, '\n') + 1;
        items[i] = slice_of(at, len);
        at += len + 2;
    }
    qsort(items, n, sizeof *items, harness_by_bytes);
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        if (i) buf_add_byte(&text, ' ');
        buf_add_slice(&text, items[i]);
    }
    buf_add_byte(&text, 0);
    if (strcmp(text.p, joined) != 0) fail_msg("%s\n  holds %s\n  expected %s", words, text.p, joined);
    buf_fini(&text);
    mem_free(items);
}

/* The events since the last call, as text good until the next command. */
static inline const char *harness_events(struct harness *h)
{
    buf_add_byte(&h->events, 0);
    h->events.len = 0;
    return h->events.p;
}
