/* Groups that are naive models of cluster/carrycmd.h, with keys that are numbers, and writers that change them: what drivers of operations are tried against (test_mover.c). */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "cluster/mover.h"
#include "resp/reply.h"
#include "route/spaces.h"

enum {
    GROUPS = 4,
    FIRST_GROUP = 2,
    KEYS = 48,
    DRIVERS = 3,
    OPS = 2,     /* at a time: each has its part of the keys */
    ROUNDS = 3,  /* of a seed */
    SEEDS = 80,
    PIECES = 3,
    LARGE_PIECES = 3,
    VERSIONS_MAX = 4096,
    EVENTS_MAX = 8192,
    NO_VALUE = 0,
    TIME_MAX_MS = 600 * 1000,
};

enum plant { PLANT_NONE, PLANT_BEGINS_WITH_SOME, PLANT_TAKES_BEFORE_ALL_FROZE, PLANT_ENDS_BEFORE_THE_MAP, PLANTS };

struct record { /* of an operation, in a group. Bounds are numbers of keys; KEYS is the end */
    bool there;
    uint64_t term;
    uint32_t low, gone, high;
};

struct group {
    uint64_t own_map;
    struct record records[OPS];
    uint64_t values[KEYS];
    struct partial { /* of a large value that comes here */
        uint64_t value;
        uint32_t pieces;
    } partial[KEYS];
    int64_t down_until_ms;
};

struct op {
    uint64_t id;
    enum metaops_step step; /* done: there is none */
    uint32_t start, end, boundary;
    struct holding_piece pieces[2][PIECES];
    struct holding_plan plan;
};

struct world;
struct driver {
    struct world *world;
    struct mover *mover; /* NULL: none */
    uint64_t term;
};

struct call {
    struct driver *driver; /* NULL: nobody waits for it */
    uint64_t op;
    uint32_t left, n;
    struct txn_answer *answers;
    struct buf *replies;
};

enum event_kind { REQUEST, ANSWER, TELL, TOLD };

struct event {
    int64_t at_ms;
    uint64_t order;
    enum event_kind kind;
    struct call *call; /* NULL: a copy that nobody waits for */
    uint32_t request, group, argc;
    struct slice *argv;
    enum metaops_step from, to;
    uint32_t boundary;
    uint64_t op, version;
};

struct world {
    struct rng rng;
    enum plant plant;
    bool broken; /* a rule was broken */
    int64_t now_ms;
    uint64_t order, next_op, next_value, term;
    struct group groups[GROUPS];
    struct op ops[OPS];
    uint64_t truth[KEYS];
    uint64_t version;
    uint8_t places[VERSIONS_MAX][KEYS]; /* by version of the map: the group, less FIRST_GROUP */
    struct driver drivers[DRIVERS];
    uint32_t leader;
    struct event events[EVENTS_MAX];
    uint32_t n_events;
    struct call *calls[EVENTS_MAX];
    uint32_t n_calls;
    bool calm;
};

static struct totals {
    uint64_t replaced, replaced_in_slice, refused_old, refused_late, again, dropped, writes, turned_away, slices, by_hash, pieces, late_pieces, lacked, large;
} totals;

static bool chance(struct world *w, uint32_t one_in) { return !w->calm && rng_below(&w->rng, one_in) == 0; }
static uint32_t pick(struct world *w, uint32_t n) { return (uint32_t)rng_below(&w->rng, n); }

static void expect(struct world *w, bool holds, const char *what)
{
    if (!holds && w->plant == PLANT_NONE) fail_msg("%s", what);
    w->broken |= !holds;
}

/* ---- keys and bounds */

static char key_names[KEYS][16];

static struct slice key_of(uint32_t i)
{
    if (!key_names[i][0]) snprintf(key_names[i], sizeof key_names[i], "s/%02u", i);
    return slice_str(key_names[i]);
}

static struct slice end_of(uint32_t i) { return i == KEYS ? slice_of(NULL, 0) : key_of(i); }

static uint32_t number_of_key(struct slice key) { return (uint32_t)(key.p[2] - '0') * 10 + (uint32_t)(key.p[3] - '0'); }

static uint32_t bound_of(struct slice word)
{
    if (slice_eq(word, SLICE("-"))) return 0;
    if (slice_eq(word, SLICE("+"))) return KEYS;
    assert_int_equal(word.p[0], '(');
    return number_of_key(slice_of(word.p + 1, word.n - 1));
}

static void reply_bound(struct reply *out, uint32_t bound)
{
    char text[24];
    snprintf(text, sizeof text, "(%s", bound < KEYS ? key_of(bound).p : "");
    reply_bulk_str(out, bound == 0 ? "-" : bound == KEYS ? "+" : text);
}

static uint64_t number_of(struct slice s)
{
    uint64_t n = 0;
    assert_true(num_parse_u64(s, &n));
    return n;
}

/* ---- the map */

static struct space_map *make_map(const struct world *w)
{
    struct hash_desc hash[GROUPS];
    uint64_t width = UINT64_MAX / GROUPS;
    for (uint32_t i = 0; i < GROUPS; i++)
        hash[i] = (struct hash_desc){.id = i + 1, .generation = 1, .shard = FIRST_GROUP + i, .first = i ? i * width + 1 : 0, .last = i + 1 < GROUPS ? (i + 1) * width : UINT64_MAX};
    return spaces_new(&(struct route){.seed = 5}, SPACE_BUCKET, hash, GROUPS, w->version);
}

static uint32_t place(const struct world *w, const struct op *o, const struct holding_side *s, uint32_t key)
{
    struct space_map *m = make_map(w);
    uint32_t group = holding_side_group(&o->plan, s, m, key_of(key));
    spaces_unref(m);
    return group - FIRST_GROUP;
}

static struct op *op_at(struct world *w, uint32_t key)
{
    for (uint32_t i = 0; i < OPS; i++)
        if (w->ops[i].step != METAOPS_DONE && key >= w->ops[i].start && key < w->ops[i].end) return &w->ops[i];
    return NULL;
}

static void new_version(struct world *w)
{
    assert_true(w->version + 1 < VERSIONS_MAX);
    uint8_t *now = w->places[w->version + 1], *before = w->places[w->version];
    w->version++;
    for (uint32_t k = 0; k < KEYS; k++) {
        const struct op *o = op_at(w, k);
        bool moved = o && (o->step == METAOPS_CARRIED || (o->step == METAOPS_WALKING && k < o->boundary));
        now[k] = moved ? (uint8_t)place(w, o, &o->plan.new_side, k) : before[k];
    }
}

/* ---- operations */

static void make_side(struct world *w, struct op *o, struct holding_side *side, struct holding_piece *pieces)
{
    uint32_t n = 1 + pick(w, 2);
    if (pick(w, 3) == 0) {
        *side = (struct holding_side){.hashed = true};
        totals.by_hash++;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t end = i + 1 == n ? o->end : o->start + (o->end - o->start) / 2;
        pieces[i] = (struct holding_piece){.end = end_of(end), .group = FIRST_GROUP + pick(w, GROUPS)};
    }
    *side = (struct holding_side){.n = n, .pieces = pieces};
}

/* The new side of the last one, or at first any, is where the keys are. */
static void begin_op(struct world *w, uint32_t i)
{
    struct op *o = &w->ops[i], last = *o;
    *o = (struct op){.id = ++w->next_op, .step = METAOPS_PLANNED, .start = i * (KEYS / OPS), .end = (i + 1) * (KEYS / OPS)};
    o->plan = (struct holding_plan){.op = o->id, .space = SLICE("s"), .start = i ? key_of(o->start) : slice_of(NULL, 0), .end = end_of(o->end)};
    make_side(w, o, &o->plan.new_side, o->pieces[1]);
    if (!last.id) {
        make_side(w, o, &o->plan.old_side, o->pieces[0]);
        for (uint32_t k = o->start; k < o->end; k++) {
            uint32_t g = place(w, o, &o->plan.old_side, k);
            w->places[w->version][k] = (uint8_t)g;
            w->truth[k] = pick(w, 3) ? ++w->next_value : NO_VALUE;
            w->groups[g].values[k] = w->truth[k];
        }
        return;
    }
    o->plan.old_side = last.plan.new_side;
    memcpy(o->pieces[0], last.pieces[1], sizeof o->pieces[0]);
    o->plan.old_side.pieces = o->pieces[0];
}

static struct op *find_op(struct world *w, uint64_t id, uint32_t *at)
{
    for (*at = 0; *at < OPS; ++*at)
        if (w->ops[*at].id == id) return &w->ops[*at];
    return NULL;
}

/* ---- what a group serves */

static bool is_given_by_some_map(const struct world *w, uint32_t group, uint32_t key)
{
    for (uint64_t v = w->groups[group].own_map; v <= w->version; v++)
        if (w->places[v][key] == group) return true;
    return false;
}

/* As it would, if its leader had the least suitable map. */
static bool may_serve(struct world *w, uint32_t group, uint32_t key)
{
    uint32_t i = key / (KEYS / OPS);
    const struct record *r = &w->groups[group].records[i];
    const struct op *o = &w->ops[i];
    if (!r->there) return is_given_by_some_map(w, group, key);
    if (key < r->low) return place(w, o, &o->plan.new_side, key) == group;
    return key >= r->high && place(w, o, &o->plan.old_side, key) == group;
}

static void write_key(struct world *w)
{
    uint32_t key = pick(w, KEYS), by = GROUPS;
    for (uint32_t g = 0; g < GROUPS; g++) {
        if (!may_serve(w, g, key)) continue;
        expect(w, by == GROUPS, "two groups serve a key");
        by = g;
    }
    if (by == GROUPS) {
        totals.turned_away++;
        return;
    }
    uint64_t *value = &w->groups[by].values[key];
    expect(w, *value == w->truth[key], "a group serves a key and has not its last value");
    totals.writes++;
    *value = w->truth[key] = pick(w, 4) ? ++w->next_value : NO_VALUE;
}

/* ---- groups' commands */

static void drop_given(struct world *w, struct group *g, const struct op *o, struct record *r)
{
    for (uint32_t k = r->gone; k < r->high; k++)
        if (k >= o->start && k < o->end && &w->groups[place(w, o, &o->plan.new_side, k)] != g) g->values[k] = NO_VALUE;
    r->gone = r->high;
}

static bool names(const struct holding_side *s, uint32_t group)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->pieces[i].group == FIRST_GROUP + group) return true;
    return s->hashed;
}

/* A value that goes in pieces: as many as LARGE_PIECES. */
static bool is_large(uint64_t value) { return value % 3 == 0; }

static void reply_given(struct world *w, const struct group *g, const struct op *o, const struct record *r, struct reply *out)
{
    size_t targets = 0, mark = reply_open(out);
    for (uint32_t t = 0; t < GROUPS; t++) {
        if (!names(&o->plan.new_side, t) || &w->groups[t] == g) continue;
        targets++;
        reply_array(out, 4);
        reply_int(out, FIRST_GROUP + t);
        for (int large = 0; large < 2; large++) {
            size_t n = 0, inner = reply_open(out);
            for (uint32_t k = r->gone; k < r->high; k++) {
                char text[48];
                if (k < o->start || k >= o->end || !g->values[k] || is_large(g->values[k]) != large || place(w, o, &o->plan.new_side, k) != t || &w->groups[place(w, o, &o->plan.old_side, k)] != g) continue;
                snprintf(text, sizeof text, "%u %llu", k, (unsigned long long)g->values[k]);
                reply_bulk_str(out, text);
                n++;
            }
            reply_close_array(out, inner, n);
        }
        reply_bulk_str(out, "locks");
    }
    reply_close_array(out, mark, targets);
}

static void begin(struct world *w, struct group *g, struct record *r, const struct slice *argv, struct reply *out)
{
    uint64_t term = number_of(argv[2]);
    if (!r->there && number_of(argv[3]) < g->own_map) {
        totals.refused_late++;
        reply_error(out, "CARRYLATE it has ended");
        return;
    }
    if (!r->there) *r = (struct record){.there = true};
    else totals.replaced_in_slice += r->high != r->low && term > r->term;
    bool forgets = w->plant == PLANT_BEGINS_WITH_SOME && g == &w->groups[0];
    if (!forgets || !r->term) r->term = term;
    reply_array(out, 3);
    reply_bound(out, r->low);
    reply_bound(out, r->gone);
    reply_bound(out, r->high);
}

static void measure(struct world *w, const struct group *g, const struct op *o, const struct record *r, struct reply *out)
{
    uint32_t left = 1 + pick(w, 4);
    for (uint32_t k = r->high; k < o->end; k++) {
        if (!g->values[k] || k < o->start || &w->groups[place(w, o, &o->plan.old_side, k)] != g) continue;
        if (left-- == 0) {
            reply_bound(out, k);
            return;
        }
    }
    reply_bound(out, KEYS);
}

static void freeze(struct world *w, struct group *g, const struct op *o, struct record *r, uint32_t bound, struct reply *out)
{
    if (w->plant == PLANT_TAKES_BEFORE_ALL_FROZE && chance(w, 4)) {
        reply_array(out, 0);
        return;
    }
    if (bound < r->high) {
        reply_error(out, "CARRYOLD late");
    } else if (bound > r->high && chance(w, 8)) {
        reply_error(out, "CARRYBUSY later");
    } else {
        totals.again += bound == r->high;
        if (bound > r->high) {
            drop_given(w, g, o, r);
            r->high = bound;
        }
        reply_given(w, g, o, r, out);
    }
}

static void parse_value(struct slice text, unsigned *key, unsigned long long *value)
{
    char copy[48];
    snprintf(copy, sizeof copy, "%.*s", (int)text.n, text.p);
    assert_int_equal(sscanf(copy, "%u %llu", key, value), 2);
}

static void piece(struct world *w, const struct group *g, const struct record *r, const struct slice *argv, struct reply *out)
{
    unsigned key, from = argv[3].n ? (unsigned)number_of(argv[3]) : 1;
    unsigned long long value;
    char text[64];
    parse_value(argv[2], &key, &value);
    if (key < r->gone || key >= r->high) {
        reply_error(out, "CARRYOLD it is not given out");
        return;
    }
    assert_int_equal(g->values[key], value);
    reply_array(out, 2);
    snprintf(text, sizeof text, "%u", from + 1);
    reply_bulk_str(out, from == LARGE_PIECES ? "" : text);
    snprintf(text, sizeof text, "%u %llu %u", key, value, from);
    reply_bulk_str(out, text);
}

static void put(struct world *w, struct group *g, const struct record *r, const struct slice *argv, struct reply *out)
{
    unsigned key, from = argv[3].n ? (unsigned)number_of(argv[3]) : 1, number;
    unsigned long long value;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)argv[4].n, argv[4].p);
    assert_int_equal(sscanf(text, "%u %llu %u", &key, &value, &number), 3);
    assert_int_equal(number, from);
    struct partial *p = &g->partial[key];
    if (key < r->low) {
        totals.late_pieces++;
    } else if (from > p->pieces + 1 || chance(w, 50)) {
        reply_error(out, "CARRYLACKS some are missing");
        totals.lacked++;
        return;
    } else {
        expect(w, p->pieces == 0 || p->value == value, "pieces of two values come together");
        *p = (struct partial){value, from > p->pieces ? from : p->pieces};
        totals.pieces++;
    }
    reply_ok(out);
}

/* Whether some value that is to be taken is not all here. */
static bool lacks(const struct group *g, const struct slice *argv)
{
    uint32_t parts = (uint32_t)number_of(argv[4]), at = 5;
    bool lacking = false;
    for (uint32_t p = 0; p < parts; p++) {
        at += (uint32_t)number_of(argv[at]) + 1;
        for (uint32_t n = (uint32_t)number_of(argv[at++]); n; n--) {
            unsigned key;
            unsigned long long value;
            parse_value(argv[at++], &key, &value);
            lacking |= g->partial[key].pieces != LARGE_PIECES || g->partial[key].value != value;
        }
        at++;
    }
    return lacking;
}

static void take(struct world *w, struct group *g, const struct op *o, struct record *r, const struct slice *argv, uint32_t argc, struct reply *out)
{
    uint32_t bound = bound_of(argv[3]), parts = (uint32_t)number_of(argv[4]), at = 5;
    if (bound > r->low && lacks(g, argv)) {
        expect(w, false, "a slice is taken before its large values are there");
        reply_error(out, "CARRYLACKS a large value is not all here");
        return;
    }
    reply_ok(out);
    if (bound <= r->low) return;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t n = (uint32_t)number_of(argv[at++]);
        while (n--) {
            unsigned key;
            unsigned long long value;
            parse_value(argv[at++], &key, &value);
            assert_true(key >= r->low && key < bound);
            g->values[key] = value;
        }
        for (n = (uint32_t)number_of(argv[at++]); n; n--) {
            unsigned key;
            unsigned long long value;
            parse_value(argv[at++], &key, &value);
            g->values[key] = value;
        }
        assert_true(slice_eq(argv[at++], SLICE("locks")));
    }
    assert_int_equal(at, argc);
    for (uint32_t k = r->low > o->start ? r->low : o->start; k < bound && k < o->end; k++) g->partial[k] = (struct partial){0};
    r->low = bound;
    if (!names(&o->plan.old_side, (uint32_t)(g - w->groups))) r->gone = r->high = bound;
}

static void end(struct world *w, struct group *g, const struct op *o, struct record *r, uint64_t version, struct reply *out)
{
    for (uint32_t k = o ? o->start : 0; r && r->there && k < o->end; k++)
        if (&w->groups[place(w, o, &o->plan.new_side, k)] != g) g->values[k] = NO_VALUE;
    if (r) *r = (struct record){0};
    if (version > g->own_map) g->own_map = version;
    reply_ok(out);
}

static void serve(struct world *w, uint32_t group, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct group *g = &w->groups[group - FIRST_GROUP];
    uint32_t at;
    const struct op *o = find_op(w, number_of(argv[1]), &at);
    struct record *r = o ? &g->records[at] : NULL;
    bool is_begin = slice_is(argv[0], "carry.begin"), is_end = slice_is(argv[0], "carry.end"), is_piece = slice_is(argv[0], "carry.piece"), has_term = !is_piece && !slice_is(argv[0], "carry.measure");
    if (!o && is_begin) { /* of an operation that nobody knows any more */
        assert_true(number_of(argv[3]) < g->own_map);
        totals.refused_late++;
        reply_error(out, "CARRYLATE it has ended");
    } else if (has_term && r && r->there && number_of(argv[2]) < r->term) {
        totals.refused_old++;
        reply_error(out, "CARRYOLD");
    } else if (is_begin) {
        begin(w, g, r, argv, out);
    } else if (is_end) {
        end(w, g, o, r, number_of(argv[3]), out);
    } else if (!r || !r->there) {
        reply_error(out, "CARRYNONE");
    } else if (is_piece) {
        piece(w, g, r, argv, out);
    } else if (slice_is(argv[0], "carry.put")) {
        put(w, g, r, argv, out);
    } else if (!has_term) {
        measure(w, g, o, r, out);
    } else if (slice_is(argv[0], "carry.freeze")) {
        freeze(w, g, o, r, bound_of(argv[3]), out);
    } else if (slice_is(argv[0], "carry.take")) {
        take(w, g, o, r, argv, argc, out);
    } else {
        assert_true(slice_is(argv[0], "carry.drop"));
        totals.dropped++;
        if (bound_of(argv[3]) == r->high) drop_given(w, g, o, r);
        reply_ok(out);
    }
}
