/* Keys are carried between four groups by a driver that is lost at random, while clients write, read, lock parts of the key space and make transactions, leaders change, and orders come twice or late. A twin knows every key's value and every lock: each key is served by one group at most, what is
 * read is what was written last, and in the end every key and every lock is where the map says, once. */
#include "seatrig.h"

#include "cluster/holding.h"
#include "cluster/intents.h"
#include "log/opcode.h"
#include "route/keyspace.h"
#include "shard/locks.h"
#include "shard/seating.h"

enum { KEYS = 40, DBS = 2, LOCKS_MAX = 400, SENT_MAX = 24, ARGS_MAX = 512, SEEDS = 100, OPERATIONS = 5, PIECES_MAX = 5 };

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

struct sent { /* an order, to be repeated */
    uint32_t group, argc;
    struct buf bytes;
    size_t at[ARGS_MAX];
};

struct txn {
    enum { TXN_NONE, TXN_RESERVED, TXN_INTENT } state;
    uint32_t group, db, key;
    char id[16], token[TXNCMD_TOKEN_BYTES];
};

struct bounds {
    struct buf low, gone, high; /* as replies have them */
};

static struct {
    struct seatrig r;
    struct rng rng;
    bool expires; /* some keys do */
    struct known keys[DBS][KEYS];
    struct granted locks[LOCKS_MAX];
    uint32_t n_locks;
    struct sent sent[SENT_MAX];
    uint32_t n_sent;
    struct txn txn;
    uint32_t txns;
    uint64_t next_id, next_op, term;
    /* the operation under way */
    struct holding_plan plan;
    char ends[2][PIECES_MAX][8];
    struct holding_piece pieces[2][PIECES_MAX];
    uint64_t range; /* that moves; 0: the mode changes */
    struct bounds bounds[SEATRIG_END];
    struct buf given[SEATRIG_END][SEATRIG_END]; /* by source and target: the part of a take, as values one after the other, each behind its length */
    struct {
        uint32_t operations, slices, busy, late, refused, lost_drivers, reads, writes, turned_away, grants, seen_locks, commits, sums, ended_without_order;
    } saw;
} k;

static uint32_t below(uint32_t n) { return (uint32_t)rng_below(&k.rng, n); }
static bool one_in(uint32_t n) { return below(n) == 0; }
static const struct space_map *map(void) { return route_map(&k.r.rig->engine->route); }
static int64_t now(void) { return k.r.w->now_ms; }
static struct slice name_key(char out[8], uint32_t i) { return slice_of(out, (size_t)snprintf(out, 8, "s/%02u", i)); }

static struct holding *holding_of(uint32_t group)
{
    const struct seating *s = k.r.rig->engine->seating;
    return s->holding(s->ctx, seatrig_shard(&k.r, group));
}

/* ---- orders, which may come again */

static void keep_sent(uint32_t group, const struct slice *argv, uint32_t argc)
{
    struct sent *s = &k.sent[k.n_sent++ % SENT_MAX];
    s->bytes.len = 0;
    s->group = group;
    s->argc = argc;
    for (uint32_t i = 0; i < argc; i++) {
        s->at[i] = s->bytes.len;
        buf_add_slice(&s->bytes, argv[i]);
    }
}

static void check_served(void);

/* The reply is in k.r.out, and everything is committed. */
static void order(uint32_t group, const struct slice *argv, uint32_t argc)
{
    assert_true(argc <= ARGS_MAX);
    keep_sent(group, argv, argc);
    struct hold h = seatrig_run(&k.r, group, 0, argv, argc);
    assert_false(h.bounced);
    seatrig_settle(&k.r);
    assert_int_equal(seat_outcome(&h), SEAT_DONE);
    check_served();
}

static void send_again(void)
{
    if (k.n_sent == 0) return;
    const struct sent *s = &k.sent[below(k.n_sent < SENT_MAX ? k.n_sent : SENT_MAX)];
    struct slice argv[ARGS_MAX];
    for (uint32_t i = 0; i < s->argc; i++) argv[i] = slice_of(s->bytes.p + s->at[i], (i + 1 < s->argc ? s->at[i + 1] : s->bytes.len) - s->at[i]);
    struct hold h = seatrig_run(&k.r, s->group, 0, argv, s->argc);
    assert_false(h.bounced);
    seatrig_settle(&k.r);
    k.saw.late++;
    k.saw.refused += k.r.out.p[0] == '-';
    check_served();
}

static bool says(const char *error) { return k.r.out.len > strlen(error) && memcmp(k.r.out.p, error, strlen(error)) == 0; }
static bool is_busy(void) { return says("-CARRYBUSY"); }

static void is_ok(void)
{
    if (!slice_eq(buf_slice(&k.r.out), SLICE("+OK\r\n"))) fail_msg("got %.*s", (int)k.r.out.len, k.r.out.p);
}

struct numbers {
    char text[4][24];
};
static struct slice number(struct numbers *n, int i, uint64_t v) { return slice_of(n->text[i], (size_t)snprintf(n->text[i], sizeof n->text[i], "%llu", (unsigned long long)v)); }

/* ---- what must hold at each moment */

static void check_served(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        char text[8];
        struct slice key = name_key(text, i);
        uint32_t n = 0;
        if (slice_cmp(key, k.plan.start) < 0 || (k.plan.end.n && slice_cmp(key, k.plan.end) >= 0)) continue;
        for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) n += holding_find(holding_of(g), k.plan.op) && holding_serves(holding_of(g), map(), key);
        assert_true(n <= 1);
    }
}

static bool is_there(const struct known *v) { return v->there && !(v->expiry_ms && now() > v->expiry_ms); }

/* ---- clients */

/* False: it was turned away. */
static bool client(uint16_t db, const struct slice *argv, uint32_t argc)
{
    struct hold h = seatrig_run(&k.r, 0, db, argv, argc);
    k.saw.turned_away += h.bounced;
    if (h.bounced) return false;
    seatrig_settle(&k.r);
    assert_int_equal(seat_outcome(&h), SEAT_DONE);
    return true;
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
    struct hold h = seatrig_run(&k.r, t->group, 0, argv, 6);
    assert_false(h.bounced);
    seatrig_settle(&k.r);
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
    struct hold h = seatrig_run(&k.r, t->group, 0, argv, 5);
    assert_false(h.bounced);
    seatrig_settle(&k.r);
    t->state = says("-TXNGONE") ? TXN_NONE : TXN_INTENT;
    buf_fini(&op);
    buf_fini(&ops);
}

static void txn_end(void)
{
    struct txn *t = &k.txn;
    bool commits = t->state == TXN_INTENT && !one_in(4);
    const struct slice argv[] = {commits ? SLICE("txn.commit") : SLICE("txn.drop"), slice_str(t->id)};
    struct hold h = seatrig_run(&k.r, t->group, 0, argv, 2);
    assert_false(h.bounced);
    seatrig_settle(&k.r);
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

static void chaos(void)
{
    for (uint32_t n = below(4); n > 0; n--) {
        switch (below(14)) {
        case 0: lock_some(); break;
        case 1: unlock_some(); break;
        case 2: txn_step(); break;
        case 3: send_again(); break;
        case 4: pass(below(100)); break;
        case 5: count_keys(); break;
        case 6: seatrig_lead_anew(&k.r, SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)); break;
        case 7:
        case 8: read_key(below(DBS), below(KEYS)); break;
        default: write_key();
        }
    }
}

/* ---- plans */

/* Cuts the line at n - 1 keys; pieces are in random groups. */
static void make_pieces(int side, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at += 1 + below(KEYS / n - 1);
        struct slice end = i + 1 < n ? name_key(k.ends[side][i], at) : SLICE("");
        k.pieces[side][i] = (struct holding_piece){.end = end, .group = SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)};
    }
}

static struct holding_side side_of(int side, uint32_t n) { return (struct holding_side){.hashed = n == 0, .n = n, .pieces = n ? k.pieces[side] : NULL}; }

static void copy_pieces(int side, const struct space *s, uint32_t n)
{
    assert_true(n <= PIECES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        snprintf(k.ends[side][i], sizeof k.ends[side][i], "%.*s", (int)d->end.n, d->end.n ? d->end.p : "");
        k.pieces[side][i] = (struct holding_piece){.end = slice_str(k.ends[side][i]), .group = d->shard};
    }
}

static void follow(struct space_map *next)
{
    assert_non_null(next);
    topology_follow(k.r.rig->topology, k.r.w, next);
    while (topology_step(k.r.rig->topology, k.r.w)) {}
    seatrig_work(&k.r);
    assert_ptr_equal(map(), next);
}

/* The map with the move that the plan says, at its beginning. */
static struct space_map *moving_map(enum space_mode mode)
{
    enum spaces_error error;
    struct range_desc ranges[PIECES_MAX];
    const struct holding_side *to = &k.plan.new_side;
    if (k.range) return spaces_move(map(), space, k.range, to->pieces[0].group, &error, NULL);
    for (uint32_t i = 0; i < to->n; i++) ranges[i] = (struct range_desc){.id = k.next_id++, .shard = to->pieces[i].group, .start = i ? to->pieces[i - 1].end : SLICE(""), .end = to->pieces[i].end};
    return spaces_set_mode(map(), space, mode, ranges, to->n, false, &error, NULL);
}

static struct space_map *advanced_map(struct slice bound)
{
    enum spaces_error error;
    if (k.range) return bound.n ? spaces_move_advance(map(), space, k.range, bound, &error, NULL) : spaces_move_finish(map(), space, k.range, &error, NULL);
    return bound.n ? spaces_advance(map(), space, bound, &error, NULL) : spaces_finish(map(), space, &error, NULL);
}

static void plan_move(const struct space_info *info)
{
    const struct range_desc *d = spaces_range(spaces_find(map(), space), false, below(info->n_ranges));
    static char start[8], end[8];
    snprintf(start, sizeof start, "%.*s", (int)d->start.n, d->start.n ? d->start.p : "");
    snprintf(end, sizeof end, "%.*s", (int)d->end.n, d->end.n ? d->end.p : "");
    k.range = d->id;
    k.pieces[0][0] = (struct holding_piece){.end = slice_str(end), .group = d->shard};
    do k.pieces[1][0] = (struct holding_piece){.end = slice_str(end), .group = SEATRIG_FIRST + below(SEATRIG_END - SEATRIG_FIRST)};
    while (k.pieces[1][0].group == d->shard);
    k.plan = (struct holding_plan){.op = k.next_op++, .space = space, .start = slice_str(start), .end = slice_str(end), .old_side = side_of(0, 1), .new_side = side_of(1, 1)};
}

static enum space_mode plan_mode(const struct space_info *info)
{
    enum space_mode mode;
    do mode = (enum space_mode)below(SPACE_MODES);
    while (mode == info->mode);
    uint32_t n = mode == SPACE_HASH ? 0 : mode == SPACE_BUCKET ? 1 : 1 + below(PIECES_MAX);
    k.range = 0;
    copy_pieces(0, spaces_find(map(), space), info->n_ranges);
    make_pieces(1, n);
    k.plan = (struct holding_plan){.op = k.next_op++, .space = space, .old_side = side_of(0, info->n_ranges), .new_side = side_of(1, n)};
    return mode;
}

static bool has_part(const struct holding_side *s, uint32_t group)
{
    bool has = s->hashed;
    for (uint32_t i = 0; i < s->n; i++) has |= s->pieces[i].group == group;
    return has;
}

static bool is_source(uint32_t group) { return has_part(&k.plan.old_side, group); }
static bool is_target(uint32_t group) { return has_part(&k.plan.new_side, group); }

/* ---- the driver: it knows what groups have told it, and nothing else */

static int cmp_bounds(struct slice a, struct slice b)
{
    bool a_at_end = a.p[0] == '+', b_at_end = b.p[0] == '+';
    if (a_at_end || b_at_end) return a_at_end - b_at_end;
    return slice_cmp(slice_of(a.p + 1, a.n - 1), slice_of(b.p + 1, b.n - 1));
}

static void take_bulk(size_t *at, struct buf *out)
{
    out->len = 0;
    buf_add_slice(out, seatrig_value(&k.r, at).text);
}

static uint32_t shuffled(uint32_t out[SEATRIG_END])
{
    uint32_t n = 0;
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++)
        if (is_source(g) || is_target(g)) out[n++] = g;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other = below(i), swap = out[i - 1];
        out[i - 1] = out[other];
        out[other] = swap;
    }
    return n;
}

/* A group may not have heard that an operation before this one has ended. */
static void end_others(uint32_t group)
{
    struct numbers n;
    while (holding_count(holding_of(group))) {
        uint64_t op = holding_at(holding_of(group), 0)->plan.op;
        assert_true(op != k.plan.op);
        const struct slice argv[] = {SLICE("carry.end"), number(&n, 0, op), number(&n, 1, k.term), number(&n, 2, map()->version)};
        order(group, argv, 4);
        is_ok();
    }
}

static void begin_everywhere(void)
{
    struct numbers n;
    struct buf plan = {0};
    uint32_t groups[SEATRIG_END], count = shuffled(groups);
    holding_plan_encode(&plan, &k.plan);
    for (uint32_t i = 0; i < count; i++) {
        const struct slice argv[] = {SLICE("carry.begin"), number(&n, 0, k.plan.op), number(&n, 1, k.term), number(&n, 2, map()->version), buf_slice(&plan)};
        size_t at = 0;
        order(groups[i], argv, 5);
        if (is_busy()) {
            end_others(groups[i]);
            order(groups[i], argv, 5);
        }
        assert_int_equal(seatrig_value(&k.r, &at).n, 3);
        struct bounds *b = &k.bounds[groups[i]];
        take_bulk(&at, &b->low);
        take_bulk(&at, &b->gone);
        take_bulk(&at, &b->high);
        chaos();
    }
    buf_fini(&plan);
}

/* The bound of the slice under way, or else of the next one. */
static void find_bound(struct buf *bound)
{
    struct numbers n;
    bool under_way = false;
    buf_add_str(bound, "-");
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        if (!is_source(g) || cmp_bounds(buf_slice(&k.bounds[g].high), buf_slice(bound)) <= 0) continue;
        bound->len = 0;
        buf_add_slice(bound, buf_slice(&k.bounds[g].high));
    }
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        under_way |= is_source(g) && cmp_bounds(buf_slice(&k.bounds[g].high), buf_slice(bound)) < 0;
        under_way |= is_target(g) && cmp_bounds(buf_slice(&k.bounds[g].low), buf_slice(bound)) < 0;
    }
    if (under_way || bound->p[0] == '+') return;
    bound->len = 0;
    buf_add_str(bound, "+");
    uint32_t keys = 1 + below(10), bytes = 50 + below(2000);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        const struct slice argv[] = {SLICE("carry.measure"), number(&n, 0, k.plan.op), number(&n, 1, keys), number(&n, 2, bytes)};
        size_t at = 0;
        if (!is_source(g)) continue;
        order(g, argv, 4);
        struct slice said = seatrig_value(&k.r, &at).text;
        if (cmp_bounds(said, buf_slice(bound)) < 0) take_bulk(&(size_t){0}, bound);
    }
}

static void add_arg(struct buf *out, struct slice arg)
{
    uint32_t n = (uint32_t)arg.n;
    buf_add(out, &n, sizeof n);
    buf_add_slice(out, arg);
}

static void keep_given(uint32_t source)
{
    struct numbers text;
    size_t at = 0;
    for (uint32_t g = 0; g < SEATRIG_END; g++) k.given[source][g].len = 0;
    for (long long n = seatrig_value(&k.r, &at).n; n > 0; n--) {
        assert_int_equal(seatrig_value(&k.r, &at).n, 3);
        struct buf *to = &k.given[source][seatrig_value(&k.r, &at).n];
        long long entries = seatrig_value(&k.r, &at).n;
        add_arg(to, number(&text, 0, (uint64_t)entries));
        while (entries-- >= 0) add_arg(to, seatrig_value(&k.r, &at).text); /* and the locks */
    }
}

static void freeze(uint32_t group, struct slice bound)
{
    struct numbers n;
    const struct slice argv[] = {SLICE("carry.freeze"), number(&n, 0, k.plan.op), number(&n, 1, k.term), bound};
    for (int tries = 0; order(group, argv, 4), is_busy(); tries++) {
        assert_true(tries < 20);
        k.saw.busy++;
        if (k.txn.state != TXN_NONE) txn_end();
        pass(200);
    }
    keep_given(group);
}

static void take(uint32_t group, struct slice bound)
{
    struct numbers n;
    uint32_t argc = 5, parts = 0;
    struct slice argv[ARGS_MAX] = {SLICE("carry.take"), number(&n, 0, k.plan.op), number(&n, 1, k.term), bound};
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        struct slice in = buf_slice(&k.given[g][group]);
        if (g == group || !is_source(g)) continue;
        assert_true(in.n > 0);
        for (parts++; in.n;) {
            uint32_t length;
            memcpy(&length, in.p, sizeof length);
            assert_true(argc < ARGS_MAX);
            argv[argc++] = slice_of(in.p + sizeof length, length);
            in = slice_of(in.p + sizeof length + length, in.n - sizeof length - length);
        }
    }
    argv[4] = number(&n, 2, parts);
    order(group, argv, argc);
    is_ok();
}

static void drop(uint32_t group, struct slice bound)
{
    struct numbers n;
    const struct slice argv[] = {SLICE("carry.drop"), number(&n, 0, k.plan.op), number(&n, 1, k.term), bound};
    order(group, argv, 4);
    is_ok();
}

/* False: the driver was lost on the way. */
static bool carry_slice_to(struct slice bound)
{
    uint32_t groups[SEATRIG_END], n = shuffled(groups);
    for (uint32_t i = 0; i < n; i++) {
        if (is_source(groups[i])) freeze(groups[i], bound);
        chaos();
        if (one_in(40)) return false;
    }
    n = shuffled(groups);
    for (uint32_t i = 0; i < n; i++) {
        if (is_target(groups[i])) take(groups[i], bound);
        chaos();
        if (one_in(40)) return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_source(groups[i]) && one_in(4)) drop(groups[i], bound);
    k.saw.slices++;
    return true;
}

static void tell_map(struct slice bound)
{
    if (bound.p[0] == '+') follow(advanced_map(SLICE("")));
    else follow(advanced_map(slice_of(bound.p + 1, bound.n - 1)));
}

static void end_everywhere(void)
{
    struct numbers n;
    uint32_t groups[SEATRIG_END], count = shuffled(groups);
    for (uint32_t i = 0; i < count; i++) {
        const struct slice argv[] = {SLICE("carry.end"), number(&n, 0, k.plan.op), number(&n, 1, k.term), number(&n, 2, map()->version)};
        if (one_in(10)) continue; /* whoever begins the next one finds it */
        k.saw.ended_without_order += holding_gives_out(holding_of(groups[i])) && !topology_is_ordered(k.r.rig->topology, seatrig_shard(&k.r, groups[i])->id, space);
        order(groups[i], argv, 4);
        is_ok();
        chaos();
    }
}

static void run_operation(enum space_mode mode)
{
    bool told = false;
    for (bool lost = false, over = false; !over;) {
        struct buf bound = {0};
        if (lost) k.term++;
        k.saw.lost_drivers += lost;
        begin_everywhere();
        if (!told) follow(moving_map(mode));
        told = true;
        find_bound(&bound);
        lost = !carry_slice_to(buf_slice(&bound));
        over = !lost && bound.p[0] == '+';
        if (!lost && bound.p[0] != '-') tell_map(buf_slice(&bound));
        buf_fini(&bound);
    }
    end_everywhere();
    k.saw.operations++;
}

/* ---- the end */

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

static void check_all(void)
{
    if (k.txn.state != TXN_NONE) txn_end();
    k.plan.op = 0;
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) end_others(g);
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t i = 0; i < KEYS; i++) check_key(db, i);
    hold_all(true);
    check_locks();
    hold_all(false);
    seatrig_check(&k.r);
}

static void walk(uint64_t seed)
{
    enum spaces_error error;
    struct space_info info;
    rng_init(&k.rng, seed * 7919 + 1);
    seatrig_new(&k.r);
    memset(k.keys, 0, sizeof k.keys);
    k.n_locks = k.n_sent = 0;
    k.txn.state = TXN_NONE;
    k.expires = seed % 2;
    k.next_id = 100;
    k.next_op = k.term = 1;
    k.plan = (struct holding_plan){0};
    follow(spaces_set_mode(map(), space, SPACE_HASH, NULL, 0, true, &error, NULL));
    for (int i = 0; i < 2 * KEYS; i++) write_key();
    for (int i = 0; i < OPERATIONS; i++) {
        enum space_mode mode = SPACE_HASH;
        spaces_info(map(), space, &info);
        if (info.n_ranges && one_in(2)) plan_move(&info);
        else mode = plan_mode(&info);
        run_operation(mode);
        if (one_in(2)) check_all();
    }
    check_all();
    seatrig_free(&k.r);
}

static void free_all(void)
{
    for (uint32_t i = 0; i < SENT_MAX; i++) buf_fini(&k.sent[i].bytes);
    for (uint32_t g = 0; g < SEATRIG_END; g++) {
        buf_fini(&k.bounds[g].low);
        buf_fini(&k.bounds[g].gone);
        buf_fini(&k.bounds[g].high);
        for (uint32_t to = 0; to < SEATRIG_END; to++) buf_fini(&k.given[g][to]);
    }
}

static void keys_are_served_once_and_arrive_whatever_is_lost_or_comes_late(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) walk(seed);
    free_all();
    assert_int_equal(k.saw.operations, SEEDS * OPERATIONS);
    assert_true(k.saw.slices > 1000 && k.saw.busy > 50 && k.saw.late > 500 && k.saw.refused > 100 && k.saw.lost_drivers > 100);
    assert_true(k.saw.reads > 5000 && k.saw.writes > 5000 && k.saw.turned_away > 300 && k.saw.sums > 100);
    assert_true(k.saw.grants > 800 && k.saw.seen_locks > 300 && k.saw.commits > 100 && k.saw.ended_without_order > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_served_once_and_arrive_whatever_is_lost_or_comes_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
