/* Commands on a scratch store against the same commands on a real one: what they answer, write and tell of.
 *
 * `far` is where the keys are, `twin` runs every command itself. A command of `far` runs as a coordinator runs it: its keys' entries go to the scratch store, the command runs there, and its ops go to far. Replies must be equal, and
 * so must the stores. */
#include "harness.h"

#include "base/clock.h"
#include "base/keyhash.h"
#include "dump/dumpfile.h"
#include "log/opcode.h"
#include "shard/engine.h"
#include "shard/scratch.h"
#include "store/fits.h"

struct bench {
    struct harness *far, *twin;
    struct engine *engine;
    struct worker *worker;
    struct scratch *scratch;
    struct opcode_scratch read;
    struct buf out, text;
    struct buf events; /* of the last command on the scratch store, as harness_events has them */
    uint64_t ops;
};

static struct harness *all_commands(void)
{
    return harness_new(1, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family, &zranges_family, &zpops_family, &zstores_family, &bits_family, &hll_family, &sort_family,
                       &restore_family, NULL);
}

static void note_expiry(void *ctx, uint16_t db, struct slice key) { harness_note_event(ctx, NULL, NOTIFY_EXPIRED, "expired", key, db); }

static struct bench *bench_new(void)
{
    struct bench *b = mem_zalloc(sizeof *b);
    clock_calibrate();
    b->far = all_commands();
    b->twin = all_commands();
    b->twin->stores[0]->on_expire = note_expiry;
    b->twin->stores[0]->on_expire_ctx = b->twin;
    b->engine = engine_new(3, b->far->route.seed, 43, b->far->table);
    b->engine->limits = b->far->limits;
    b->worker = aligned_alloc(_Alignof(struct worker), sizeof *b->worker);
    engine_init_worker(b->worker, b->engine);
    b->scratch = scratch_new(b->engine);
    return b;
}

static void bench_free(struct bench *b)
{
    scratch_free(b->scratch);
    engine_fini_worker(b->worker);
    free(b->worker);
    engine_free(b->engine);
    harness_free(b->far);
    harness_free(b->twin);
    opcode_scratch_fini(&b->read);
    buf_fini(&b->out);
    buf_fini(&b->text);
    buf_fini(&b->events);
    mem_free(b);
}

/* ---- a command of far */

static void put_key(struct bench *b, struct slice key)
{
    struct store *s = b->far->stores[0];
    struct buf raw = {0};
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        struct table_slot *slot = s->dbs[db] ? table_find(&s->dbs[db]->keys, keyhash(key, s->seed), key) : NULL;
        if (!slot) continue;
        raw.len = 0;
        dumpfile_add_entry(&raw, db, table_entry(slot));
        assert_true(scratch_put(b->scratch, buf_slice(&raw)));
    }
    buf_fini(&raw);
}

static void apply(void *ctx, uint16_t db, struct slice key, struct slice bytes)
{
    struct bench *b = ctx;
    struct op op;
    struct place at;
    assert_true(opcode_read(bytes, &b->read, &op));
    assert_int_equal(op.db, db);
    assert_true(slice_eq(op.key, key));
    assert_true(fits_op(b->far->stores[0], &op, keyhash(key, b->far->route.seed), &at));
    store_apply(b->far->stores[0], &op, &at);
    b->ops++;
}

static void note_event(void *ctx, const struct scratch_event *e)
{
    struct bench *b = ctx;
    buf_printf(&b->events, "%s %.*s", e->name, (int)e->key.n, e->key.p);
    if (e->db) buf_printf(&b->events, "@%u", e->db);
    buf_add_byte(&b->events, ';');
}

static struct slice run_on_scratch(struct bench *b, const struct slice *argv, uint32_t argc)
{
    uint32_t at[64];
    const struct command *cmd = command_find(b->far->table, argv[0]);
    int n = command_keys(cmd, argv, argc, at, 64);
    scratch_clear(b->scratch);
    for (int i = 0; i < n; i++) put_key(b, argv[at[i]]);
    b->out.len = 0;
    struct exec before = b->worker->x;
    scratch_run(b->scratch, b->worker, &(struct scratch_request){.cmd = cmd, .argv = argv, .argc = argc, .db = b->twin->db, .resp = 2, .now_ms = b->twin->now_ms, .events = UINT32_MAX}, &b->out);
    assert_memory_equal(&before, &b->worker->x, sizeof before);
    scratch_ops(b->scratch, apply, b);
    b->events.len = 0;
    scratch_events(b->scratch, note_event, b);
    return buf_slice(&b->out);
}

/* ---- replies whose elements may come in any order */

static int by_bytes(const void *a, const void *b) { return slice_cmp(*(const struct slice *)a, *(const struct slice *)b); }

static size_t split(struct slice s, struct slice *lines, size_t max)
{
    size_t n = 0;
    while (s.n && n < max) {
        const char *end = memchr(s.p, '\n', s.n);
        size_t len = end ? (size_t)(end - s.p) + 1 : s.n;
        lines[n++] = slice_of(s.p, len);
        s = slice_of(s.p + len, s.n - len);
    }
    qsort(lines, n, sizeof *lines, by_bytes);
    return n;
}

static bool equal_in_any_order(struct slice a, struct slice b)
{
    enum { LINES = 4096 };
    static struct slice x[LINES], y[LINES];
    size_t n = split(a, x, LINES);
    if (split(b, y, LINES) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!slice_eq(x[i], y[i])) return false;
    return true;
}

static void run(struct bench *b, const char *words)
{
    struct slice expected = harness_run(b->twin, words);
    uint32_t argc = b->twin->last.argc;
    struct slice got = run_on_scratch(b, b->twin->last.argv, argc);
    if (!equal_in_any_order(got, expected)) fail_msg("%s\n  answered %.*s\n  expected %.*s", words, (int)got.n, got.p, (int)expected.n, expected.p);
    struct slice told = slice_str(harness_events(b->twin));
    if (!slice_eq(buf_slice(&b->events), told)) fail_msg("%s\n  told of %.*s\n  expected %.*s", words, (int)b->events.len, b->events.p, (int)told.n, told.p);
    b->far->stores[0]->now_ms = b->twin->now_ms;
    if (store_digest(b->far->stores[0]) != store_digest(b->twin->stores[0])) fail_msg("after %s the stores are not equal", words);
}

/* ---- a walk */

/* $s $l $t $z $h $p: a key that usually is a string, list, set, sorted set, hash, hyperloglog; $x: any key; $v: a word; $n: a number; $d: a database */
static const char *const fills[] = {
    "set $s $v",          "set $s $n",          "append $s $v",          "setrange $s 3 $v",   "set $s $v px $n00",  "setbit $s $n 1",
    "rpush $l $v $v $v",  "lpush $l $v $n",     "lset $l 0 $v",          "sadd $t $v $v $n",   "sadd $t $n $n $n",   "zadd $z $n $v $n $v",
    "hset $h $v $v $n $v", "pfadd $p $v $v $v", "pexpire $x $n00",       "persist $x",         "incrby $s $n",       "linsert $l before $v $n",
    "hdel $h $v",         "srem $t $n",         "zrem $z $v",            "lrem $l 1 $v",       "getex $s px $n00",   "move $x $d",
};

static const char *const over_keys[] = {
    "mset $s $v $s $v $s $n",      "msetnx $s $v $s $v",           "mget $s $s $x $x",             "del $x $x $x",                 "unlink $x $x",
    "exists $x $x $x $s",          "touch $x $x",                  "rename $x $x",                 "renamenx $x $x",               "copy $x $x",
    "copy $x $x db $d replace",    "rpoplpush $l $l",              "lmove $l $l left right",       "lmpop 2 $l $l left count 2",   "sinter $t $t $t",
    "sunion $t $t $x",             "sdiff $t $t $t",               "sintercard 2 $t $t limit 2",   "sinterstore $x $t $t",         "sunionstore $x $t $t $t",
    "sdiffstore $x $t $t",         "smove $t $t $n",               "zinter 2 $z $z withscores",    "zunion 2 $z $t weights 2 3",   "zdiff 2 $z $z withscores",
    "zintercard 2 $z $z",          "zinterstore $x 2 $z $z",       "zunionstore $x 2 $z $t aggregate max", "zdiffstore $x 2 $z $z", "zmpop 2 $z $z min count 2",
    "zrangestore $x $z 0 2",       "pfcount $p $p",                "pfmerge $p $p $p",             "bitop xor $x $s $s",           "bitop not $x $s",
    "lcs $s $s len",               "sort $l alpha store $x",       "sort $t by nosort get # limit 0 0",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void write_words(struct rng *rng, const char *pattern, struct buf *to)
{
    static const char types[] = "sltzhp";
    to->len = 0;
    for (const char *p = pattern; *p; p++) {
        if (*p != '$') buf_add_byte(to, *p);
        else if (p[1] == 'v') buf_printf(to, "w%u", (unsigned)rng_below(rng, 6));
        else if (p[1] == 'n') buf_printf(to, "%u", (unsigned)rng_below(rng, 9));
        else if (p[1] == 'd') buf_printf(to, "%u", (unsigned)rng_below(rng, 3));
        else buf_printf(to, "%c%u", p[1] == 'x' ? types[rng_below(rng, strlen(types))] : p[1], (unsigned)rng_below(rng, 4));
        if (*p == '$') p++;
    }
    buf_add_byte(to, '\0');
}

static void a_command_on_copies_answers_writes_and_tells_what_it_would_in_place(void **state)
{
    enum { STEPS = 20000 };
    struct bench *b = bench_new();
    struct rng rng;
    uint64_t wrote[COUNT(over_keys)] = {0}, good[COUNT(over_keys)] = {0};
    rng_init(&rng, 7);
    b->twin->check = false;
    for (int i = 0; i < STEPS; i++) {
        bool fill = rng_below(&rng, 2);
        size_t which = rng_below(&rng, fill ? COUNT(fills) : COUNT(over_keys));
        uint64_t ops = b->ops;
        write_words(&rng, fill ? fills[which] : over_keys[which], &b->text);
        run(b, b->text.p);
        if (!fill) wrote[which] += b->ops > ops, good[which] += b->out.p[0] != '-';
        b->twin->now_ms += (int64_t)rng_below(&rng, 40);
        if (rng_below(&rng, 50) == 0) b->twin->db = (uint16_t)rng_below(&rng, 3);
    }
    for (size_t i = 0; i < COUNT(over_keys); i++) {
        bool reads = command_find(b->far->table, slice_of(over_keys[i], strcspn(over_keys[i], " ")))->flags & CMD_READONLY;
        if (!good[i] || (!reads && !wrote[i])) fail_msg("%s never did anything: the walk proves nothing about it", over_keys[i]);
    }
    bench_free(b);
}

/* Every command with several keys is in the list above, or is one that waits for keys, which has its own way. */
static void the_walk_knows_every_command_with_several_keys(void **state)
{
    struct harness *h = all_commands();
    for (size_t i = 0; i < command_count(h->table); i++) {
        const struct command *c = command_at(h->table, i);
        bool several = c->class == CLASS_KEYED && (c->last_key != c->first_key || c->flags & CMD_MOVABLE_KEYS);
        bool known = !several || c->flags & CMD_BLOCKING;
        for (size_t k = 0; k < COUNT(over_keys); k++) known |= strncmp(over_keys[k], c->name, strlen(c->name)) == 0;
        if (!known) fail_msg("%s is not among the commands of the walk", c->name);
    }
    harness_free(h);
}

static void a_chain_of_commands_sees_its_own_writes(void **state)
{
    static const char *const lines[] = {"set a 1", "incr a", "append b x", "rename b c", "lpush l a b", "lpop l", "del a", "mget a c", NULL};
    struct bench *b = bench_new();
    run(b, "set b y");
    scratch_clear(b->scratch);
    put_key(b, SLICE("b"));
    struct buf twin = {0}, here = {0};
    for (int i = 0; lines[i]; i++) {
        buf_add_slice(&twin, harness_run(b->twin, lines[i]));
        const struct command *cmd = command_find(b->far->table, b->twin->last.argv[0]);
        scratch_run(b->scratch, b->worker, &(struct scratch_request){.cmd = cmd, .argv = b->twin->last.argv, .argc = b->twin->last.argc, .resp = 2, .now_ms = b->twin->now_ms}, &here);
    }
    assert_true(slice_eq(buf_slice(&twin), buf_slice(&here)));
    scratch_ops(b->scratch, apply, b);
    assert_true(store_digest(b->far->stores[0]) == store_digest(b->twin->stores[0]));
    buf_fini(&twin);
    buf_fini(&here);
    bench_free(b);
}

static void what_is_no_entry_is_not_put_in(void **state)
{
    struct bench *b = bench_new();
    struct buf raw = {0};
    run(b, "rpush l a b c");
    struct place at;
    store_find(b->far->stores[0], 0, keyhash(SLICE("l"), b->far->route.seed), SLICE("l"), &at);
    dumpfile_add_entry(&raw, 0, at.e);
    for (size_t n = 0; n < raw.len; n++) assert_false(scratch_put(b->scratch, slice_of(raw.p, n)));
    buf_add_byte(&raw, 'x');
    assert_false(scratch_put(b->scratch, buf_slice(&raw)));
    raw.len = 0;
    dumpfile_add_entry(&raw, STORE_SYSTEM_DB, at.e);
    assert_false(scratch_put(b->scratch, buf_slice(&raw)));
    buf_fini(&raw);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_on_copies_answers_writes_and_tells_what_it_would_in_place),
        cmocka_unit_test(the_walk_knows_every_command_with_several_keys),
        cmocka_unit_test(a_chain_of_commands_sees_its_own_writes),
        cmocka_unit_test(what_is_no_entry_is_not_put_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
