/* A key space of four groups (seatrig.h) as its clients know it: a twin has every key's value, every lock, and the one transaction that may be under way. What is read is compared with it, whoever carries what meanwhile; a client that is turned away has done nothing. */
#pragma once
#include "seatrig.h"

#include "cluster/holding.h"
#include "cluster/intents.h"
#include "log/opcode.h"
#include "shard/locks.h"
#include "shard/seating.h"

enum { KEYS = 40, DBS = 2, LOCKS_MAX = 400 };

static const struct slice space = SLICE("s");
static const uint16_t db_of[DBS] = {0, 3};

struct known { /* of a key in a database */
    bool there, list;
    char value[64]; /* of a list: its elements, each behind a comma */
    int64_t expiry_ms;
};

struct granted {
    uint64_t token;
    char start[8], end[8]; /* empty as in struct spacelock */
    int64_t expiry_ms;
    bool gone;
};

struct txn {
    enum { TXN_NONE, TXN_RESERVED, TXN_INTENT } state;
    uint32_t group, db, key;
    char id[16], token[TXNCMD_TOKEN_BYTES];
};

static struct {
    struct seatrig r;
    struct rng rng;
    bool expires; /* some keys do */
    struct known keys[DBS][KEYS];
    struct granted locks[LOCKS_MAX];
    uint32_t n_locks;
    struct txn txn;
    uint32_t txns;
    struct {
        uint32_t reads, writes, turned_away, sums, grants, seen_locks, commits;
    } saw;
} k;

static uint32_t below(uint32_t n) { return (uint32_t)rng_below(&k.rng, n); }
static bool one_in(uint32_t n) { return below(n) == 0; }
static const struct space_map *map(void) { return seatrig_map(&k.r); }
static int64_t now(void) { return k.r.w->now_ms; }
static struct slice name_key(char out[8], uint32_t i) { return slice_of(out, (size_t)snprintf(out, 8, "s/%02u", i)); }

static struct holding *holding_of(uint32_t group)
{
    const struct seating *s = k.r.rig->engine->seating;
    return s->holding(s->ctx, seatrig_shard(&k.r, group));
}

static bool says(const char *error) { return k.r.out.len > strlen(error) && memcmp(k.r.out.p, error, strlen(error)) == 0; }

static void is_ok(void) { seatrig_replied(&k.r, "+OK\r\n"); }

static bool is_there(const struct known *v) { return v->there && !(v->expiry_ms && now() > v->expiry_ms); }

/* ---- clients */

/* False: it was turned away. */
static bool client(uint16_t db, const struct slice *argv, uint32_t argc)
{
    bool served = seatrig_ask(&k.r, 0, db, argv, argc);
    k.saw.turned_away += !served;
    return served;
}

static void write_string(struct known *v, uint16_t db, struct slice key)
{
    char value[16], until[24];
    int n = snprintf(value, sizeof value, "v%u", below(100000));
    int64_t expiry_ms = k.expires && one_in(3) ? now() + 1 + below(3000) : 0;
    snprintf(until, sizeof until, "%lld", (long long)expiry_ms);
    const struct slice argv[] = {SLICE("set"), key, slice_of(value, (size_t)n), SLICE("pxat"), slice_str(until)};
    if (!client(db, argv, expiry_ms ? 5 : 3)) return;
    *v = (struct known){.there = true, .expiry_ms = expiry_ms};
    snprintf(v->value, sizeof v->value, "%s", value);
    k.saw.writes++;
}

static void write_list(struct known *v, uint16_t db, struct slice key)
{
    char element[8];
    snprintf(element, sizeof element, "e%u", below(1000));
    const struct slice argv[] = {SLICE("rpush"), key, slice_str(element)};
    if (!is_there(v)) *v = (struct known){0};
    if ((v->there && !v->list) || strlen(v->value) > sizeof v->value - 10 || !client(db, argv, 3)) return;
    size_t n = strlen(v->value);
    snprintf(v->value + n, sizeof v->value - n, ",%s", element);
    v->there = v->list = true;
    k.saw.writes++;
}

static void write_key(void)
{
    char text[8];
    uint32_t db = below(DBS), i = below(KEYS);
    struct slice key = name_key(text, i);
    const struct slice del[] = {SLICE("del"), key};
    if (one_in(5)) {
        if (client(db_of[db], del, 2)) k.keys[db][i] = (struct known){0};
    } else if (one_in(3)) {
        write_list(&k.keys[db][i], db_of[db], key);
    } else {
        write_string(&k.keys[db][i], db_of[db], key);
    }
}

static void is_value(const struct known *v)
{
    size_t at = 0;
    struct buf got = {0};
    struct seatrig_value first = seatrig_value(&k.r, &at);
    if (v->list) {
        for (long long i = 0; i < first.n; i++) {
            buf_add_byte(&got, ',');
            buf_add_slice(&got, seatrig_value(&k.r, &at).text);
        }
    } else if (first.n >= 0) {
        buf_add_slice(&got, first.text);
    }
    struct slice expected = is_there(v) ? slice_str(v->value) : SLICE("");
    if (!slice_eq(buf_slice(&got), expected)) fail_msg("a key has \"%.*s\" and not \"%.*s\"", (int)got.len, got.p, (int)expected.n, expected.p);
    buf_fini(&got);
}

/* False: it was turned away. */
static bool read_key(uint32_t db, uint32_t i)
{
    char text[8];
    const struct known *v = &k.keys[db][i];
    const struct slice get[] = {SLICE("get"), name_key(text, i)}, range[] = {SLICE("lrange"), get[1], SLICE("0"), SLICE("-1")};
    if (!(v->list ? client(db_of[db], range, 4) : client(db_of[db], get, 2))) return false;
    is_value(v);
    k.saw.reads++;
    return true;
}

/* Over all keys: it is told nothing by groups that have keys which are elsewhere, too. */
static void count_keys(void)
{
    uint32_t db = below(DBS), expected = 0;
    long long n = 0;
    const struct slice argv[] = {SLICE("group.dbsize")};
    for (uint32_t i = 0; i < KEYS; i++) expected += k.keys[db][i].there;
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        size_t at = 0;
        if (seatrig_run(&k.r, g, db_of[db], argv, 1).bounced) return;
        assert_int_equal(seatrig_value(&k.r, &at).n, 2);
        assert_int_equal(seatrig_value(&k.r, &at).n, map()->version);
        n += seatrig_value(&k.r, &at).n;
    }
    seatrig_settle(&k.r);
    if (k.expires) return;
    assert_int_equal(n, expected);
    k.saw.sums++;
}

/* ---- locks: as one who holds the tokens of all seats concerned makes them */

struct stretch {
    bool in[SEATRIG_END]; /* by shard */
    struct slice start, end;
};

static void hold_all(bool hold)
{
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        struct shard *s = seatrig_shard(&k.r, g);
        if (hold) {
            rig_hold(k.r.rig, s->id);
            task_enter(k.r.w, s);
        } else {
            const struct seating *seating = k.r.rig->engine->seating;
            seating->settle(seating->ctx, s);
            rig_let_go(k.r.rig, 0, s->id);
        }
    }
    if (!hold) seatrig_settle(&k.r);
}

/* Where it is by the map; false: some of it is not served. */
static bool find_stretch(struct stretch *s)
{
    struct engine *e = k.r.rig->engine;
    bool served = true;
    locks_shards(map(), &e->route, space, s->start, s->end, s->in);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) served &= !s->in[seatrig_shard(&k.r, g)->id] || holding_serves_range(holding_of(g), map(), space, s->start, s->end);
    return served;
}

static bool overlap(const struct granted *l, const struct stretch *s)
{
    struct spacelock lock = {.start = slice_str(l->start), .end = slice_str(l->end)};
    return spacelock_overlaps(&lock, s->start, s->end);
}

static bool is_held(const struct granted *l) { return !l->gone && now() < l->expiry_ms; }

/* Whether one who asks the seats of the stretch finds a lock on it. */
static bool finds_lock(const struct stretch *s)
{
    for (uint32_t i = 0; i < SEATRIG_END; i++) {
        struct locks_walk w;
        struct spacelock l;
        int64_t expiry_ms;
        if (!s->in[i]) continue;
        for (locks_begin(&w, k.r.rig->engine->stores[i], space, 0); locks_next(&w, &l, &expiry_ms);)
            if (spacelock_overlaps(&l, s->start, s->end)) return true;
    }
    return false;
}

static void check_token(const struct granted *new, const struct stretch *s)
{
    for (uint32_t i = 0; i < k.n_locks; i++) {
        assert_true(k.locks[i].token != new->token);
        if (overlap(&k.locks[i], s)) assert_true(new->token > k.locks[i].token);
    }
}

static void lock_some(void)
{
    uint32_t first = below(KEYS), n = 1 + below(KEYS / 3);
    struct granted l = {.expiry_ms = now() + 1 + below(20000)};
    if (k.n_locks == LOCKS_MAX) return;
    if (!one_in(8)) name_key(l.start, first);
    if (!one_in(8) && first + n < KEYS) name_key(l.end, first + n);
    struct stretch s = {.start = slice_str(l.start), .end = slice_str(l.end)};
    hold_all(true);
    if (find_stretch(&s)) {
        bool taken = false;
        for (uint32_t i = 0; i < k.n_locks; i++) taken |= is_held(&k.locks[i]) && overlap(&k.locks[i], &s);
        assert_int_equal(finds_lock(&s), taken);
        k.saw.seen_locks += taken;
        if (!taken) {
            l.token = locks_new_token(k.r.rig->engine, s.in);
            check_token(&l, &s);
            locks_put(k.r.rig->engine, s.in, space, &(struct spacelock){.token = l.token, .exclusive = true, .start = s.start, .end = s.end, .owner = SLICE("me")}, l.expiry_ms);
            k.locks[k.n_locks++] = l;
            k.saw.grants++;
        }
    }
    hold_all(false);
}

static void unlock_some(void)
{
    if (k.n_locks == 0) return;
    struct granted *l = &k.locks[below(k.n_locks)];
    struct stretch s = {.start = slice_str(l->start), .end = slice_str(l->end)};
    hold_all(true);
    if (find_stretch(&s)) {
        locks_remove(k.r.rig->engine, s.in, space, l->token);
        l->gone = true;
    }
    hold_all(false);
}

static void check_locks(void)
{
    for (uint32_t i = 0; i < k.n_locks; i++) {
        const struct granted *l = &k.locks[i];
        struct stretch s = {.start = slice_str(l->start), .end = slice_str(l->end)};
        if (!l->gone && !is_held(l)) continue;
        assert_true(find_stretch(&s));
        for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
            const struct shard *shard = seatrig_shard(&k.r, g);
            assert_int_equal(locks_has(shard->store, space, l->token), !l->gone && s.in[shard->id]);
        }
    }
}

/* ---- a transaction, one at a time: of one key */

static void txn_fetch(void)
{
    struct txn *t = &k.txn;
    char key[8], db[8];
    *t = (struct txn){.db = below(DBS), .key = below(KEYS)};
    snprintf(t->id, sizeof t->id, "t%u", k.txns++);
    snprintf(db, sizeof db, "%u", db_of[t->db]);
    const struct slice argv[] = {SLICE("txn.fetch"), slice_str(t->id), SLICE("1"), slice_str(db), SLICE("w"), name_key(key, t->key)};
    t->group = spaces_shard(map(), argv[5], keyhash(argv[5], map()->route.seed));
    assert_true(seatrig_ask(&k.r, t->group, 0, argv, 6));
    size_t at = 0;
    if (says("-TXNMOVED") || says("-TXNBUSY")) return;
    assert_int_equal(seatrig_value(&k.r, &at).n, 2);
    memcpy(t->token, seatrig_value(&k.r, &at).text.p, sizeof t->token);
    t->state = TXN_RESERVED;
}

static void txn_prepare(void)
{
    struct txn *t = &k.txn;
    char key[8];
    struct buf op = {0}, ops = {0};
    opcode_write(&op, &(struct op){.kind = OP_SET, .db = db_of[t->db], .key = name_key(key, t->key), .value = slice_str(t->id)});
    txncmd_add_op(&ops, buf_slice(&op));
    const struct slice argv[] = {SLICE("txn.prepare"), slice_str(t->id), slice_of(t->token, sizeof t->token), SLICE("2"), buf_slice(&ops)};
    assert_true(seatrig_ask(&k.r, t->group, 0, argv, 5));
    t->state = says("-TXNGONE") ? TXN_NONE : TXN_INTENT;
    buf_fini(&op);
    buf_fini(&ops);
}

static void txn_end(void)
{
    struct txn *t = &k.txn;
    bool commits = t->state == TXN_INTENT && !one_in(4);
    const struct slice argv[] = {commits ? SLICE("txn.commit") : SLICE("txn.drop"), slice_str(t->id)};
    assert_true(seatrig_ask(&k.r, t->group, 0, argv, 2));
    is_ok();
    t->state = TXN_NONE;
    if (!commits) return;
    struct known *v = &k.keys[t->db][t->key];
    *v = (struct known){.there = true};
    snprintf(v->value, sizeof v->value, "%s", t->id);
    k.saw.commits++;
}

static void txn_step(void)
{
    if (k.txn.state == TXN_NONE) txn_fetch();
    else if (k.txn.state == TXN_RESERVED && !one_in(4)) txn_prepare();
    else txn_end();
}

/* ---- */

static void pass(uint32_t ms)
{
    k.r.w->now_ms += ms;
    k.r.now += ms;
    seatrig_settle(&k.r);
}

static void check_key(uint32_t db, uint32_t i)
{
    char text[8];
    struct slice key = name_key(text, i);
    uint64_t hash = keyhash(key, map()->route.seed);
    if (k.keys[db][i].there && !is_there(&k.keys[db][i])) return;
    hold_all(true);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        struct place at;
        store_peek(seatrig_store(&k.r, g), db_of[db], hash, key, &at);
        assert_int_equal(at.e != NULL, k.keys[db][i].there && spaces_shard(map(), key, hash) == g);
        if (at.e) assert_int_equal(entry_expiry_ms(at.e), k.keys[db][i].expiry_ms);
    }
    hold_all(false);
    assert_true(read_key(db, i));
}

/* Nothing is carried: every key and every lock is where the map says, once. */
static void check_world(void)
{
    if (k.txn.state != TXN_NONE) txn_end();
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t i = 0; i < KEYS; i++) check_key(db, i);
    hold_all(true);
    check_locks();
    hold_all(false);
    seatrig_check(&k.r);
}

static void begin_world(uint64_t seed)
{
    rng_init(&k.rng, seed * 7919 + 1);
    seatrig_new(&k.r);
    memset(k.keys, 0, sizeof k.keys);
    k.n_locks = 0;
    k.txn.state = TXN_NONE;
    k.expires = seed % 2;
}
