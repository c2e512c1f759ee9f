/* What a group serves while keys are carried, against a naive twin: each key judged by a direct reading of docs/decisions/023; and the records as bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/holding.h"
#include "cluster/meta.h"
#include "route/keyspace.h"
#include "route/spaces.h"
#include "store/op.h"
#include "store/store.h"

enum { SEED = 23, GROUPS = 5, WALKS = 400, NAMES = 3, KEYS = 1 + 5 + 25, PIECES = 6, OPS = 3, MAP_VERSION = 40 };

static const char *const names[NAMES] = {"users", "users/x", "orders"};

/* ---- all keys that there are, in byte order: a space's own name, then one or two letters behind the slash */

static char texts[NAMES][KEYS][16];

static void make_keys(void)
{
    for (int s = 0; s < NAMES; s++) {
        int n = 0;
        snprintf(texts[s][n++], 16, "%s", names[s]);
        for (char a = 'a'; a <= 'e'; a++) {
            snprintf(texts[s][n++], 16, "%s/%c", names[s], a);
            for (char b = 'a'; b <= 'e'; b++) snprintf(texts[s][n++], 16, "%s/%c%c", names[s], a, b);
        }
        assert_int_equal(n, KEYS);
    }
}

static struct slice key_at(int space, uint32_t i) { return slice_str(texts[space][i]); }

/* ---- random plans and maps. A bound is the number of a key, from 0, the beginning of the line, to KEYS, its end. */

struct world {
    struct rng rng;
    struct space_map *map;
    struct hash_desc hash[4];
    enum space_mode modes[NAMES];
    struct holding_piece pieces[OPS][2][PIECES];
    struct holding_op ops[OPS];
    uint32_t n;
    uint32_t group;
};

static uint32_t draw(struct world *w, uint32_t n) { return (uint32_t)rng_below(&w->rng, n); }
static struct slice start_at(int space, uint32_t i) { return i == 0 ? SLICE("") : key_at(space, i); }
static struct slice end_at(int space, uint32_t i) { return i == KEYS ? SLICE("") : key_at(space, i); }
static struct holding_bound bound_at(int space, uint32_t i) { return i == KEYS ? (struct holding_bound){.at_end = true} : (struct holding_bound){.key = start_at(space, i)}; }

static struct holding_side draw_side(struct world *w, int space, uint32_t from, uint32_t to, struct holding_piece *pieces)
{
    if (draw(w, 4) == 0) return (struct holding_side){.hashed = true};
    uint32_t n = 0, at = from;
    while (n < PIECES - 1 && at + 1 < to && draw(w, 3)) {
        at += 1 + draw(w, to - at - 1);
        pieces[n++] = (struct holding_piece){.end = key_at(space, at), .group = draw(w, GROUPS)};
    }
    pieces[n++] = (struct holding_piece){.end = end_at(space, to), .group = draw(w, GROUPS)};
    return (struct holding_side){.n = n, .pieces = pieces};
}

static void draw_op(struct world *w, uint32_t i)
{
    int space = (int)draw(w, NAMES);
    bool all = draw(w, 3) == 0;
    uint32_t from = all ? 0 : draw(w, KEYS), to = all ? KEYS : from + 1 + draw(w, KEYS - from);
    uint32_t high = draw(w, KEYS + 1), low = draw(w, high + 1), gone = draw(w, 2) ? high : draw(w, high + 1);
    struct holding_op *o = &w->ops[i];
    *o = (struct holding_op){.plan = {.op = 1 + i * 1000, .space = slice_str(names[space]), .start = start_at(space, from), .end = end_at(space, to)}, .term = draw(w, 9)};
    o->plan.old_side = draw_side(w, space, from, to, w->pieces[i][0]);
    o->plan.new_side = draw_side(w, space, from, to, w->pieces[i][1]);
    o->low = bound_at(space, low);
    o->gone = bound_at(space, gone);
    o->high = bound_at(space, high);
}

/* It is about an interval of the hash instead. */
static void make_of_hash(struct world *w, uint32_t i)
{
    const struct hash_desc *d = &w->hash[draw(w, 4)];
    struct holding_op *o = &w->ops[i];
    w->pieces[i][0][0] = (struct holding_piece){.group = draw(w, GROUPS)};
    w->pieces[i][1][0] = (struct holding_piece){.group = draw(w, GROUPS)};
    o->plan = (struct holding_plan){.op = o->plan.op, .of_hash = true, .first = d->first, .last = d->last};
    o->plan.old_side = (struct holding_side){.n = 1, .pieces = w->pieces[i][0]};
    o->plan.new_side = (struct holding_side){.n = 1, .pieces = w->pieces[i][1]};
}

/* Some spaces get modes and ranges of their own; others are buckets where the hash of their name says. */
static void set_modes(struct world *w)
{
    uint64_t id = 100;
    for (int s = 0; s < NAMES; s++) {
        struct range_desc ranges[2];
        uint32_t cut = 1 + draw(w, KEYS - 1);
        enum spaces_error error;
        ranges[0] = (struct range_desc){.id = id++, .shard = draw(w, GROUPS), .end = key_at(s, cut)};
        ranges[1] = (struct range_desc){.id = id++, .shard = draw(w, GROUPS), .start = key_at(s, cut)};
        static const enum space_mode modes[] = {SPACE_HASH, SPACE_BUCKET, SPACE_RANGE, SPACE_RANGE};
        enum space_mode mode = w->modes[s] = modes[draw(w, 4)];
        if (mode == SPACE_BUCKET) continue;
        struct space_map *next = spaces_set_mode(w->map, slice_str(names[s]), mode, ranges, mode == SPACE_RANGE ? 2 : 0, true, &error, NULL);
        assert_non_null(next);
        spaces_unref(w->map);
        w->map = next;
    }
}

static void make_world(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    rng_init(&w->rng, seed);
    struct route route = {.seed = seed, .shards = 64};
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t part = UINT64_MAX / 4 + 1;
        w->hash[i] = (struct hash_desc){.id = i + 1, .generation = 1, .shard = draw(w, GROUPS), .first = part * i, .last = part * i + (part - 1)};
    }
    w->map = spaces_new(&route, SPACE_BUCKET, w->hash, 4, MAP_VERSION);
    set_modes(w);
    w->group = draw(w, GROUPS);
    w->n = 1 + draw(w, OPS);
    for (uint32_t i = 0; i < w->n; i++) draw_op(w, i);
}

/* ---- the twin */

static uint32_t twin_by_hash(const struct world *w, struct slice key)
{
    uint64_t hash = keyhash(key, w->map->route.seed);
    for (uint32_t i = 0; i < 4; i++)
        if (w->hash[i].first <= hash && hash <= w->hash[i].last) return w->hash[i].shard;
    fail();
    return 0;
}

static uint32_t twin_side(const struct world *w, const struct holding_side *s, struct slice key)
{
    if (s->hashed) return twin_by_hash(w, key);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->pieces[i].end.n == 0 || slice_cmp(key, s->pieces[i].end) < 0) return s->pieces[i].group;
    fail();
    return 0;
}

static bool twin_below(struct slice key, struct holding_bound b) { return b.at_end || slice_cmp(key, b.key) < 0; }

static bool twin_covers_by_hash(const struct world *w, const struct holding_plan *p, struct slice key)
{
    for (int s = 0; s < NAMES; s++) {
        if (!slice_eq(space_of(key), slice_str(names[s])) || w->modes[s] == SPACE_RANGE) continue;
        uint64_t hash = keyhash(w->modes[s] == SPACE_HASH ? key : slice_str(names[s]), w->map->route.seed);
        return p->first <= hash && hash <= p->last;
    }
    return false;
}

static bool twin_covers(const struct world *w, const struct holding_plan *p, struct slice key)
{
    if (p->of_hash) return twin_covers_by_hash(w, p, key);
    return slice_eq(space_of(key), p->space) && slice_cmp(key, p->start) >= 0 && (p->end.n == 0 || slice_cmp(key, p->end) < 0);
}

static bool twin_op_serves(const struct world *w, const struct holding_op *o, struct slice key)
{
    if (!twin_covers(w, &o->plan, key)) return true;
    if (twin_below(key, o->low)) return twin_side(w, &o->plan.new_side, key) == w->group;
    if (!twin_below(key, o->high)) return twin_side(w, &o->plan.old_side, key) == w->group;
    return false;
}

static bool twin_serves(const struct world *w, struct slice key)
{
    bool all = true;
    for (uint32_t i = 0; i < w->n; i++) all &= twin_op_serves(w, &w->ops[i], key);
    return all;
}

struct piece_of {
    struct space_piece piece;
    struct slice key;
};

static bool note_piece(void *ctx, const struct space_piece *p)
{
    ((struct piece_of *)ctx)->piece = *p;
    return false;
}

static bool twin_has_hashes(const struct world *w)
{
    bool any = false;
    for (uint32_t i = 0; i < 4; i++) any |= w->hash[i].shard == w->group;
    return any;
}

/* Of all keys that there could be from this one to the next: whether those that the map gives to the group are served. Where a side goes by the hash, any key may be in any group; but the same in map and side. */
static bool twin_could_serve(const struct world *w, const struct holding_op *o, struct slice key)
{
    struct piece_of at = {.key = key};
    if (!twin_covers(w, &o->plan, key)) return true;
    spaces_overlap(w->map, o->plan.space, key, SLICE(""), note_piece, &at);
    if (at.piece.hashed ? !twin_has_hashes(w) : at.piece.shard != w->group) return true;
    bool below = twin_below(key, o->low);
    if (!below && twin_below(key, o->high)) return false;
    const struct holding_side *s = below ? &o->plan.new_side : &o->plan.old_side;
    return s->hashed ? at.piece.hashed : twin_side(w, s, key) == w->group;
}

static bool twin_serves_range(const struct world *w, int space, uint32_t from, uint32_t to)
{
    bool all = true;
    for (uint32_t k = from; k < to; k++)
        for (uint32_t i = 0; i < w->n; i++)
            if (slice_eq(w->ops[i].plan.space, slice_str(names[space]))) all &= twin_could_serve(w, &w->ops[i], key_at(space, k));
    return all;
}

/* ---- stores with records */

static void put(struct store *s, struct slice key, struct slice value)
{
    store_apply(s, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = key, .value = value}, NULL);
}

static void put_op(struct store *s, const struct holding_op *o)
{
    struct buf key = {0}, value = {0};
    holding_op_key(&key, o->plan.op);
    holding_op_encode(&value, o);
    put(s, buf_slice(&key), buf_slice(&value));
    buf_fini(&key);
    buf_fini(&value);
}

static void put_map_version(struct store *s, uint64_t version)
{
    struct buf value = {0};
    le_add_u64(&value, version);
    put(s, holding_map_key(), buf_slice(&value));
    buf_fini(&value);
}

static const struct store_limits limits = {.hash_entries = 128, .hash_value = 64};

static struct store *new_store(void) { return store_new(7, &limits, 7); }

static struct store *store_of(const struct world *w)
{
    struct store *s = new_store();
    put(s, SLICE("own/other"), SLICE("something that is no record of ours"));
    put(s, SLICE("txn/i/1"), SLICE("nor is this"));
    for (uint32_t i = 0; i < w->n; i++) put_op(s, &w->ops[i]);
    return s;
}

/* ---- walks */

static void every_key_is_judged_as_the_twin_does(void **state)
{
    uint32_t yes = 0, no = 0;
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct world w;
        make_world(&w, SEED * 1000 + seed);
        if (seed % 3 == 0) make_of_hash(&w, 0);
        struct store *s = store_of(&w);
        struct holding *h = holding_new(w.group);
        holding_load(h, s);
        assert_true(holding_any(h));
        assert_int_equal(holding_count(h), w.n);
        for (int space = 0; space < NAMES; space++) {
            for (uint32_t k = 0; k < KEYS; k++) {
                bool expected = twin_serves(&w, key_at(space, k));
                assert_int_equal(holding_serves(h, w.map, key_at(space, k)), expected);
                expected ? yes++ : no++;
            }
        }
        holding_free(h);
        store_free(s);
        spaces_unref(w.map);
    }
    assert_true(yes > 1000 && no > 1000);
}

static void every_range_is_judged_as_the_twin_does(void **state)
{
    uint32_t yes = 0, no = 0;
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct world w;
        make_world(&w, SEED * 2000 + seed);
        struct store *s = store_of(&w);
        struct holding *h = holding_new(w.group);
        holding_load(h, s);
        for (int i = 0; i < 100; i++) {
            int space = (int)draw(&w, NAMES);
            uint32_t from = draw(&w, KEYS), to = from + 1 + draw(&w, KEYS - from);
            bool expected = twin_serves_range(&w, space, from, to);
            assert_int_equal(holding_serves_range(h, w.map, slice_str(names[space]), start_at(space, from), end_at(space, to)), expected);
            expected ? yes++ : no++;
        }
        holding_free(h);
        store_free(s);
        spaces_unref(w.map);
    }
    assert_true(yes > 1000 && no > 1000);
}

static void the_groups_of_a_plan_are_those_of_its_sides(void **state)
{
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct world w;
        bool part[GROUPS] = {false};
        make_world(&w, SEED * 3000 + seed);
        const struct holding_plan *p = &w.ops[0].plan;
        for (int side = 0; side < 2; side++) {
            const struct holding_side *s = side ? &p->new_side : &p->old_side;
            for (uint32_t i = 0; i < s->n; i++) part[s->pieces[i].group] = true;
            for (uint32_t i = 0; s->hashed && i < 4; i++) part[w.hash[i].shard] = true;
        }
        uint32_t n, at = 0, *groups = holding_plan_groups(p, w.map, &n);
        for (uint32_t g = 0; g < GROUPS; g++)
            if (part[g]) assert_int_equal(groups[at++], g);
        assert_int_equal(at, n);
        mem_free(groups);
        spaces_unref(w.map);
    }
}

/* ---- loading */

static void a_store_without_records_lets_the_map_decide(void **state)
{
    struct world w;
    make_world(&w, SEED);
    struct store *s = new_store();
    struct holding *h = holding_new(2);
    holding_load(h, s);
    assert_false(holding_any(h));
    assert_true(holding_serves(h, w.map, SLICE("users/a")));
    assert_true(holding_serves_range(h, w.map, SLICE("users"), SLICE(""), SLICE("")));
    put(s, SLICE("own/other"), SLICE("no record"));
    holding_load(h, s);
    assert_false(holding_any(h));
    holding_free(h);
    store_free(s);
    spaces_unref(w.map);
}

static void a_map_that_is_too_old_serves_nothing(void **state)
{
    struct world w;
    make_world(&w, SEED);
    struct store *s = new_store();
    struct holding *h = holding_new(2);
    put_map_version(s, w.map->version);
    holding_load(h, s);
    assert_true(holding_any(h));
    assert_int_equal(holding_map_version(h), w.map->version);
    assert_true(holding_serves(h, w.map, SLICE("users/a")));
    put_map_version(s, w.map->version + 1);
    holding_load(h, s);
    assert_false(holding_serves(h, w.map, SLICE("users/a")));
    assert_false(holding_serves_range(h, w.map, SLICE("users"), SLICE(""), SLICE("")));
    holding_free(h);
    store_free(s);
    spaces_unref(w.map);
}

/* Below what has come or gone, the map has the key elsewhere than the plan. */
static bool is_unknown_to_map(const struct world *w, const struct holding_op *o, struct slice key)
{
    bool covered = slice_eq(space_of(key), o->plan.space) && slice_cmp(key, o->plan.start) >= 0 && (o->plan.end.n == 0 || slice_cmp(key, o->plan.end) < 0);
    if (!covered || (!holding_is_below(key, o->low) && !holding_is_below(key, o->gone))) return false;
    return spaces_shard(w->map, key, keyhash(key, w->map->route.seed)) != holding_side_group(&o->plan, &o->plan.new_side, w->map, key);
}

static void a_map_that_has_not_come_around_is_noticed(void **state)
{
    uint32_t ahead = 0, not_ahead = 0;
    for (uint64_t seed = 1; seed <= WALKS; seed++) {
        struct world w;
        make_world(&w, seed);
        struct store *s = store_of(&w);
        struct holding *h = holding_new(w.group);
        holding_load(h, s);
        bool is_ahead = holding_is_ahead(h, w.map);
        for (uint32_t i = 0; i < w.n; i++)
            for (int space = 0; space < NAMES; space++)
                for (uint32_t k = 0; k < KEYS; k++) assert_false(!is_ahead && is_unknown_to_map(&w, &w.ops[i], key_at(space, k)));
        *(is_ahead ? &ahead : &not_ahead) += 1;
        holding_free(h);
        store_free(s);
        spaces_unref(w.map);
    }
    assert_true(ahead > 20 && not_ahead > 20);
}

static struct space_map *changed(struct space_map *m, struct space_map *next)
{
    assert_non_null(next);
    spaces_unref(m);
    return next;
}

/* A range walks from group 2 to group 3. */
static void a_group_waits_for_the_map_as_far_as_it_has_come(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX};
    const struct range_desc range = {.id = 7, .shard = 2};
    const struct slice users = SLICE("users");
    const struct holding_piece from = {.group = 2}, to = {.group = 3};
    const struct holding_bound start = {0}, m = {.key = SLICE("users/m")}, end = {.at_end = true};
    struct holding_op o = {.plan = {.op = 1, .space = users, .old_side = {.n = 1, .pieces = &from}, .new_side = {.n = 1, .pieces = &to}}, .low = start, .gone = start, .high = start};
    enum spaces_error error;
    struct store *s = new_store();
    struct holding *h = holding_new(3);
    struct space_map *map = spaces_new(&(struct route){.seed = 5, .shards = 64}, SPACE_BUCKET, &all, 1, 1);
    map = changed(map, spaces_set_mode(map, users, SPACE_RANGE, &range, 1, true, &error, NULL));
    for (int step = 0; step < 4; step++) {
        const struct holding_bound taken[] = {start, m, end, end};
        o.low = o.gone = o.high = taken[step];
        put_op(s, &o);
        holding_load(h, s);
        assert_int_equal(holding_is_ahead(h, map), step == 1 || step == 2);
        if (step == 0) map = changed(map, spaces_move(map, users, 7, 3, &error, NULL));
        if (step == 1) map = changed(map, spaces_move_advance(map, users, 7, m.key, &error, NULL));
        if (step == 2) map = changed(map, spaces_move_finish(map, users, 7, &error, NULL));
        if (step == 1) assert_false(holding_is_ahead(h, map));
    }
    holding_free(h);
    store_free(s);
    spaces_unref(map);
}

/* So does an interval of the hash. */
static void a_group_waits_for_the_map_of_an_interval_as_far_as_it_has_come(void **state)
{
    const struct hash_desc halves[] = {{.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX / 2}, {.id = 2, .generation = 1, .shard = 2, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    const struct holding_piece from = {.group = 2}, to = {.group = 3};
    const struct holding_bound start = {0}, m = {.key = SLICE("users/m")}, end = {.at_end = true};
    struct holding_op o = {.plan = {.op = 1, .of_hash = true, .first = halves[1].first, .last = halves[1].last, .old_side = {.n = 1, .pieces = &from}, .new_side = {.n = 1, .pieces = &to}}};
    enum spaces_error error;
    struct store *s = new_store();
    struct holding *h = holding_new(3);
    struct space_map *map = spaces_new(&(struct route){.seed = 5, .shards = 64}, SPACE_BUCKET, halves, 2, 1);
    for (int step = 0; step < 4; step++) {
        const struct holding_bound taken[] = {start, m, end, end};
        o.low = o.gone = o.high = taken[step];
        put_op(s, &o);
        holding_load(h, s);
        assert_int_equal(holding_is_ahead(h, map), step == 1 || step == 2);
        if (step == 0) map = changed(map, spaces_hash_move(map, 2, 3, &error, NULL));
        if (step == 1) map = changed(map, spaces_hash_move_advance(map, 2, m.key, &error, NULL));
        if (step == 2) map = changed(map, spaces_hash_move_finish(map, 2, &error, NULL));
        if (step == 1) assert_false(holding_is_ahead(h, map));
    }
    holding_free(h);
    store_free(s);
    spaces_unref(map);
}

/* All of a bucket lies between some keys of others: it can be used as a whole before it goes and when it has come. */
static void a_bucket_with_open_ends_waits_only_while_keys_of_its_own_are_on_their_way(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX};
    const struct holding_piece from = {.group = 2}, to = {.group = 3};
    struct holding_op o = {.plan = {.op = 1, .of_hash = true, .last = UINT64_MAX, .old_side = {.n = 1, .pieces = &from}, .new_side = {.n = 1, .pieces = &to}}};
    const struct slice bounds[] = {SLICE("a/z"), SLICE("users"), SLICE("users/m"), SLICE("users0"), SLICE("v")};
    const struct slice users = SLICE("users");
    enum spaces_error error;
    struct space_map *map = spaces_new(&(struct route){.seed = 5, .shards = 64}, SPACE_BUCKET, &all, 1, 1);
    map = changed(map, spaces_hash_move(map, 1, 3, &error, NULL));
    struct store *s = new_store();
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        struct holding *source = holding_new(2), *target = holding_new(3);
        o.low = (struct holding_bound){0};
        o.gone = o.high = (struct holding_bound){.key = bounds[i]};
        put_op(s, &o);
        holding_load(source, s);
        o.low = o.high;
        put_op(s, &o);
        holding_load(target, s);
        assert_int_equal(holding_serves_range(source, map, users, SLICE(""), SLICE("")), i != 2 && i != 3);
        map = changed(map, spaces_hash_move_advance(map, 1, bounds[i], &error, NULL));
        assert_int_equal(holding_serves_range(source, map, users, SLICE(""), SLICE("")), true); /* as much as the map has there */
        assert_int_equal(holding_serves_range(target, map, users, SLICE(""), SLICE("")), true);
        holding_free(source);
        holding_free(target);
    }
    store_free(s);
    spaces_unref(map);
}

static void what_is_loaded_again_is_what_the_store_has_then(void **state)
{
    struct world w;
    make_world(&w, SEED);
    w.ops[0].gone = (struct holding_bound){0};
    w.ops[0].high = (struct holding_bound){.key = SLICE("users/b")};
    w.ops[0].low = (struct holding_bound){0};
    struct store *s = new_store();
    struct holding *h = holding_new(2);
    struct buf key = {0};
    put_op(s, &w.ops[0]);
    holding_load(h, s);
    assert_true(holding_gives_out(h));
    const struct holding_op *o = holding_find(h, w.ops[0].plan.op);
    assert_non_null(o);
    assert_ptr_equal(o, holding_at(h, 0));
    assert_true(slice_eq(o->high.key, SLICE("users/b")));
    assert_int_equal(o->term, w.ops[0].term);
    assert_null(holding_find(h, w.ops[0].plan.op + 1));

    w.ops[0].gone = w.ops[0].high;
    put_op(s, &w.ops[0]);
    holding_load(h, s);
    assert_false(holding_gives_out(h));
    holding_op_key(&key, w.ops[0].plan.op);
    store_apply(s, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key)}, NULL);
    holding_load(h, s);
    assert_false(holding_any(h));
    assert_int_equal(holding_count(h), 0);
    buf_fini(&key);
    holding_free(h);
    store_free(s);
    spaces_unref(w.map);
}

static void ops_on_records_are_told_from_others(void **state)
{
    struct op op = {.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("own/op/0000000000000001")};
    assert_true(holding_is_changed_by(&op));
    op.kind = OP_DEL;
    assert_true(holding_is_changed_by(&op));
    op.key = holding_map_key();
    assert_true(holding_is_changed_by(&op));
    op.db = 0; /* a client's key of that name */
    assert_false(holding_is_changed_by(&op));
    op.db = STORE_SYSTEM_DB;
    op.key = SLICE("txn/i/x");
    assert_false(holding_is_changed_by(&op));
    assert_true(holding_is_changed_by(&(struct op){.kind = OP_FLUSH, .db = STORE_SYSTEM_DB}));
    assert_false(holding_is_changed_by(&(struct op){.kind = OP_FLUSH, .db = 0}));
}

static void a_pause_ends_by_itself(void **state)
{
    struct holding *h = holding_new(2);
    assert_false(holding_is_paused(h, 1000));
    holding_ask_pause(h, 1000);
    assert_true(holding_is_paused(h, 1000));
    assert_false(holding_is_paused(h, 10 * 1000));
    holding_ask_pause(h, 3600 * 1000);
    assert_false(holding_is_paused(h, 1000)); /* the clock was set back */
    holding_free(h);
}

/* ---- bytes */

static void what_is_written_is_read_and_written_again(void **state)
{
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct world w;
        struct holding_op o;
        struct buf bytes = {0}, again = {0};
        void *storage;
        make_world(&w, SEED * 4000 + seed);
        if (seed % 4 == 0) make_of_hash(&w, 0);
        holding_op_encode(&bytes, &w.ops[0]);
        assert_int_equal(holding_op_decode(buf_slice(&bytes), &o, &storage), 0);
        holding_op_encode(&again, &o);
        assert_true(slice_eq(buf_slice(&bytes), buf_slice(&again)));
        assert_int_equal(o.plan.op, w.ops[0].plan.op);
        assert_int_equal(holding_bound_cmp(o.gone, w.ops[0].gone), 0);
        mem_free(storage);
        for (size_t n = 0; n < bytes.len; n++) { /* what was cut is none */
            assert_int_equal(holding_op_decode(slice_of(bytes.p, n), &o, &storage), -EBADMSG);
            mem_free(storage);
        }
        buf_fini(&bytes);
        buf_fini(&again);
        spaces_unref(w.map);
    }
}

static int decode_plan(const struct holding_plan *p)
{
    struct buf bytes = {0};
    struct holding_plan out;
    void *storage;
    holding_plan_encode(&bytes, p);
    int rc = holding_plan_decode(buf_slice(&bytes), &out, &storage);
    mem_free(storage);
    buf_fini(&bytes);
    return rc;
}

static void plans_whose_pieces_do_not_tile_are_refused(void **state)
{
    struct holding_piece one = {.end = SLICE("users/m"), .group = 2}, two[2] = {{.end = SLICE("users/c"), .group = 2}, {.end = SLICE("users/m"), .group = 3}};
    struct holding_plan p = {.op = 1, .space = SLICE("users"), .start = SLICE("users/a"), .end = SLICE("users/m"), .old_side = {.n = 1, .pieces = &one}, .new_side = {.n = 2, .pieces = two}};
    assert_int_equal(decode_plan(&p), 0);
    two[0].end = SLICE("users/a"); /* nothing is left of the first */
    assert_int_equal(decode_plan(&p), -EBADMSG);
    two[0].end = SLICE("users/z"); /* beyond the second */
    assert_int_equal(decode_plan(&p), -EBADMSG);
    two[0].end = SLICE("");
    assert_int_equal(decode_plan(&p), -EBADMSG);
    two[0].end = SLICE("users/c");
    two[1].end = SLICE("users/l"); /* a gap before the end */
    assert_int_equal(decode_plan(&p), -EBADMSG);
    two[1].end = SLICE("users/m");
    two[1].group = META_GROUPS_MAX;
    assert_int_equal(decode_plan(&p), -EBADMSG);
    two[1].group = 3;
    p.start = p.end; /* no room for a key */
    assert_int_equal(decode_plan(&p), -EBADMSG);
    p.start = SLICE("");
    assert_int_equal(decode_plan(&p), 0);
}

static void bounds_that_have_passed_each_other_are_refused(void **state)
{
    struct holding_piece all = {.group = 2};
    struct holding_op o = {.plan = {.op = 1, .space = SLICE("users"), .old_side = {.hashed = true}, .new_side = {.n = 1, .pieces = &all}}}, out;
    struct buf bytes = {0};
    void *storage;
    o.low.at_end = o.high.at_end = true;
    holding_op_encode(&bytes, &o);
    assert_int_equal(holding_op_decode(buf_slice(&bytes), &out, &storage), 0);
    assert_true(out.low.at_end && out.high.at_end && !out.gone.at_end);
    mem_free(storage);
    o.high = (struct holding_bound){.key = SLICE("users/b")};
    bytes.len = 0;
    holding_op_encode(&bytes, &o);
    assert_int_equal(holding_op_decode(buf_slice(&bytes), &out, &storage), -EBADMSG);
    mem_free(storage);
    o.low = (struct holding_bound){0};
    o.gone.key = SLICE("users/c");
    bytes.len = 0;
    holding_op_encode(&bytes, &o);
    assert_int_equal(holding_op_decode(buf_slice(&bytes), &out, &storage), -EBADMSG);
    mem_free(storage);
    buf_fini(&bytes);
}

static int set_up(void **state)
{
    make_keys();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_judged_as_the_twin_does),
        cmocka_unit_test(every_range_is_judged_as_the_twin_does),
        cmocka_unit_test(the_groups_of_a_plan_are_those_of_its_sides),
        cmocka_unit_test(a_store_without_records_lets_the_map_decide),
        cmocka_unit_test(a_map_that_is_too_old_serves_nothing),
        cmocka_unit_test(a_map_that_has_not_come_around_is_noticed),
        cmocka_unit_test(a_group_waits_for_the_map_as_far_as_it_has_come),
        cmocka_unit_test(a_group_waits_for_the_map_of_an_interval_as_far_as_it_has_come),
        cmocka_unit_test(a_bucket_with_open_ends_waits_only_while_keys_of_its_own_are_on_their_way),
        cmocka_unit_test(what_is_loaded_again_is_what_the_store_has_then),
        cmocka_unit_test(ops_on_records_are_told_from_others),
        cmocka_unit_test(a_pause_ends_by_itself),
        cmocka_unit_test(what_is_written_is_read_and_written_again),
        cmocka_unit_test(plans_whose_pieces_do_not_tile_are_refused),
        cmocka_unit_test(bounds_that_have_passed_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
