/* Drivers of operations that carry keys, against groups that are naive models of cluster/carrycmd.h and a group 1 that is a naive model of cluster/metaops.h, over links that lose, delay and repeat. At any moment a driver is replaced by
 * one of a higher term, while the old one goes on as far as it can. Writers change keys all the time.
 *
 * What must hold, for every seed, whichever version of the map each node has:
 *   - no two groups serve a key;
 *   - the group that serves it has the value that was last written;
 *   - operations end, and then every key is in the one group that the map names, and no group has a record.
 * A seed proves something only if drivers were replaced within slices and old ones were refused: the test as a whole asks for that. And harnesses lie: so drivers with planted errors must be found. */
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
    uint64_t replaced, replaced_in_slice, refused_old, refused_late, again, dropped, writes, turned_away, slices, by_hash;
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

static void reply_given(struct world *w, const struct group *g, const struct op *o, const struct record *r, struct reply *out)
{
    size_t targets = 0, mark = reply_open(out);
    for (uint32_t t = 0; t < GROUPS; t++) {
        if (!names(&o->plan.new_side, t) || &w->groups[t] == g) continue;
        targets++;
        reply_array(out, 3);
        reply_int(out, FIRST_GROUP + t);
        size_t n = 0, inner = reply_open(out);
        for (uint32_t k = r->gone; k < r->high; k++) {
            char text[48];
            if (k < o->start || k >= o->end || !g->values[k] || place(w, o, &o->plan.new_side, k) != t || &w->groups[place(w, o, &o->plan.old_side, k)] != g) continue;
            snprintf(text, sizeof text, "%u %llu", k, (unsigned long long)g->values[k]);
            reply_bulk_str(out, text);
            n++;
        }
        reply_close_array(out, inner, n);
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

static void take(struct world *w, struct group *g, const struct op *o, struct record *r, const struct slice *argv, uint32_t argc, struct reply *out)
{
    uint32_t bound = bound_of(argv[3]), parts = (uint32_t)number_of(argv[4]), at = 5;
    reply_ok(out);
    if (bound <= r->low) return;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t n = (uint32_t)number_of(argv[at++]);
        while (n--) {
            unsigned key;
            unsigned long long value;
            assert_int_equal(sscanf(argv[at++].p, "%u %llu", &key, &value), 2);
            assert_true(key >= r->low && key < bound);
            g->values[key] = value;
        }
        assert_true(slice_eq(argv[at++], SLICE("locks")));
    }
    assert_int_equal(at, argc);
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
    bool is_begin = slice_is(argv[0], "carry.begin"), is_end = slice_is(argv[0], "carry.end"), has_term = !slice_is(argv[0], "carry.measure");
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

/* ---- group 1 */

static uint64_t step(struct world *w, const struct event *e)
{
    uint32_t at;
    struct op *o = find_op(w, e->op, &at);
    if (!o) return e->to == METAOPS_DONE ? w->version : 0;
    bool walks_on = e->from == METAOPS_WALKING && e->to == METAOPS_WALKING;
    if (w->plant == PLANT_ENDS_BEFORE_THE_MAP && e->to == METAOPS_CARRIED && chance(w, 2)) return w->version;
    if (o->step == e->to && !walks_on) return w->version;
    if (o->step != e->from || (walks_on && e->boundary < o->boundary)) {
        if (w->plant == PLANT_ENDS_BEFORE_THE_MAP && e->to == METAOPS_DONE) w->broken = true;
        return 0;
    }
    if (walks_on && e->boundary == o->boundary) return w->version;
    if (walks_on) {
        for (uint32_t g = 0; g < GROUPS; g++) expect(w, !names(&o->plan.new_side, g) || w->groups[g].records[at].low >= e->boundary, "the map says more than is true");
        o->boundary = e->boundary;
    }
    for (uint32_t g = 0; e->to == METAOPS_DONE && g < GROUPS; g++) expect(w, !w->groups[g].records[at].there, "an operation is done, and a group has a record of it");
    o->step = e->to;
    if (e->to != METAOPS_DONE) new_version(w);
    return w->version;
}

/* ---- links */

static struct event *add_event(struct world *w, int64_t delay_ms, enum event_kind kind)
{
    assert_true(w->n_events < EVENTS_MAX);
    struct event *e = &w->events[w->n_events++];
    *e = (struct event){.at_ms = w->now_ms + delay_ms, .order = w->order++, .kind = kind};
    return e;
}

static int64_t delay(struct world *w) { return chance(w, 40) ? pick(w, 1500) : pick(w, 4); }

static struct slice *copy_args(const struct slice *argv, uint32_t argc)
{
    struct slice *to = mem_alloc(argc * sizeof *to);
    for (uint32_t i = 0; i < argc; i++) {
        char *p = mem_zalloc(argv[i].n + 1);
        if (argv[i].n) memcpy(p, argv[i].p, argv[i].n);
        to[i] = slice_of(p, argv[i].n);
    }
    return to;
}

static void free_args(struct slice *argv, uint32_t argc)
{
    for (uint32_t i = 0; i < argc; i++) mem_free((void *)argv[i].p);
    mem_free(argv);
}

static struct call *add_call(struct driver *d, uint64_t op, uint32_t n)
{
    struct call *c = mem_zalloc(sizeof *c);
    *c = (struct call){.driver = d, .op = op, .left = n, .n = n, .answers = mem_zalloc((n + 1) * sizeof *c->answers), .replies = mem_zalloc((n + 1) * sizeof *c->replies)};
    d->world->calls[d->world->n_calls++] = c;
    return c;
}

static void free_call(struct world *w, struct call *c)
{
    for (uint32_t i = 0; i < w->n_calls; i++)
        if (w->calls[i] == c) w->calls[i--] = w->calls[--w->n_calls];
    for (uint32_t i = 0; i < c->n; i++) buf_fini(&c->replies[i]);
    mem_free(c->replies);
    mem_free(c->answers);
    mem_free(c);
}

static struct event *add_request(struct world *w, int64_t delay_ms, const struct txn_request *r)
{
    struct event *e = add_event(w, delay_ms, REQUEST);
    e->group = r->group;
    e->argc = r->argc;
    e->argv = copy_args(r->argv, r->argc);
    return e;
}

static void send(void *ctx, struct mover *m, uint64_t op, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct driver *d = ctx;
    struct call *c = add_call(d, op, n);
    for (uint32_t i = 0; i < n; i++) {
        struct event *e = add_request(d->world, delay(d->world), &requests[i]);
        e->call = c;
        e->request = i;
        if (chance(d->world, 20)) add_request(d->world, pick(d->world, 4000), &requests[i]);
    }
}

static void tell(void *ctx, struct mover *m, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    struct driver *d = ctx;
    struct call *c = add_call(d, op, 0);
    for (bool late = false;; late = true) {
        struct event *e = add_event(d->world, late ? pick(d->world, 3000) : delay(d->world), TELL);
        e->call = late ? NULL : c;
        e->op = op;
        e->from = from;
        e->to = to;
        e->boundary = boundary.n ? number_of_key(boundary) : 0;
        if (late || !chance(d->world, 20)) break;
    }
}

static void answer(struct world *w, struct call *c, uint32_t request, enum txn_fate fate)
{
    c->answers[request].fate = fate;
    add_event(w, delay(w), ANSWER)->call = c;
}

static void on_request(struct world *w, struct event *e)
{
    struct buf reply = {0};
    struct group *g = &w->groups[e->group - FIRST_GROUP];
    bool is_down = g->down_until_ms > w->now_ms, is_lost = chance(w, 40);
    if (!is_down && !is_lost) serve(w, e->group, e->argv, e->argc, &(struct reply){&reply, 2});
    if (e->call && (is_down || is_lost || chance(w, 40))) {
        bool may_be = !is_down && !slice_is(e->argv[0], "carry.measure");
        answer(w, e->call, e->request, may_be ? TXN_MAY_BE_DONE : TXN_NOT_DONE);
    } else if (e->call) {
        buf_add_slice(&e->call->replies[e->request], buf_slice(&reply));
        answer(w, e->call, e->request, TXN_ANSWERED);
    }
    buf_fini(&reply);
    free_args(e->argv, e->argc);
}

static void on_answer(struct world *w, struct call *c)
{
    if (--c->left) return;
    for (uint32_t i = 0; i < c->n; i++) c->answers[i].reply = buf_slice(&c->replies[i]);
    if (c->driver) mover_answered(c->driver->mover, c->op, c->answers, c->n);
    free_call(w, c);
}

static void on_event(struct world *w, struct event *e)
{
    switch (e->kind) {
    case REQUEST: on_request(w, e); break;
    case ANSWER: on_answer(w, e->call); break;
    case TELL: {
        bool is_lost = chance(w, 30);
        uint64_t version = is_lost ? 0 : step(w, e);
        if (!e->call) break;
        struct event *back = add_event(w, delay(w), TOLD);
        back->call = e->call;
        back->version = chance(w, 30) ? 0 : version;
        break;
    }
    case TOLD:
        if (e->call->driver) mover_told(e->call->driver->mover, e->call->op, e->version);
        free_call(w, e->call);
        break;
    }
}

/* ---- drivers */

static uint64_t now_ms(void *ctx) { return (uint64_t)((struct driver *)ctx)->world->now_ms; }

static void look(struct world *w)
{
    static const uint32_t all[GROUPS] = {FIRST_GROUP, FIRST_GROUP + 1, FIRST_GROUP + 2, FIRST_GROUP + 3};
    struct driver *d = &w->drivers[w->leader];
    struct mover_op ops[OPS];
    uint32_t n = 0;
    struct space_map *m = make_map(w);
    for (uint32_t i = 0; i < OPS; i++)
        if (w->ops[i].step != METAOPS_DONE) ops[n++] = (struct mover_op){.plan = w->ops[i].plan, .step = w->ops[i].step, .groups = all, .n_groups = GROUPS};
    if (chance(w, 10)) mover_drive(d->mover, 0, NULL, NULL, 0);
    else mover_drive(d->mover, d->term, m, ops, n);
    spaces_unref(m);
}

static void end_driver(struct world *w, struct driver *d)
{
    for (uint32_t i = 0; i < w->n_calls; i++)
        if (w->calls[i]->driver == d) w->calls[i]->driver = NULL;
    if (d->mover) totals.slices += mover_counts(d->mover)->slices;
    if (d->mover) mover_free(d->mover);
    d->mover = NULL;
}

/* Another node leads group 1; who led it does not know yet. */
static void replace(struct world *w)
{
    w->leader = (w->leader + 1) % DRIVERS;
    struct driver *d = &w->drivers[w->leader];
    end_driver(w, d);
    *d = (struct driver){.world = w, .term = ++w->term, .mover = mover_new(&(struct mover_host){d, send, tell, now_ms})};
    totals.replaced++;
    look(w);
}

/* ---- time */

static bool next_event(struct world *w, struct event *out)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < w->n_events; i++) {
        const struct event *e = &w->events[i], *f = first == UINT32_MAX ? NULL : &w->events[first];
        if (e->at_ms > w->now_ms) continue;
        if (!f || e->at_ms < f->at_ms || (e->at_ms == f->at_ms && e->order < f->order)) first = i;
    }
    if (first == UINT32_MAX) return false;
    *out = w->events[first];
    w->events[first] = w->events[--w->n_events];
    return true;
}

static bool is_any_under_way(const struct world *w)
{
    for (uint32_t i = 0; i < OPS; i++)
        if (w->ops[i].step != METAOPS_DONE) return true;
    return false;
}

static void turn(struct world *w)
{
    struct event e;
    w->now_ms++;
    if (chance(w, 300)) replace(w);
    if (chance(w, 400)) w->groups[pick(w, GROUPS)].down_until_ms = w->now_ms + pick(w, 1000);
    if (w->now_ms % 50 == 0) look(w);
    for (uint32_t i = 0; i < 3; i++) write_key(w);
    while (!w->broken && next_event(w, &e)) on_event(w, &e);
    for (uint32_t i = 0; i < DRIVERS; i++)
        if (w->drivers[i].mover && mover_wakes_ms(w->drivers[i].mover) <= (uint64_t)w->now_ms) mover_turn(w->drivers[i].mover);
}

static void check_end(struct world *w)
{
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t g = 0; g < GROUPS; g++) expect(w, w->groups[g].values[k] == (w->places[w->version][k] == g ? w->truth[k] : NO_VALUE), "a key is not where the map says, or not there alone");
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t i = 0; i < OPS; i++) expect(w, !w->groups[g].records[i].there, "a record is left");
}

static void forget_events(struct world *w)
{
    for (uint32_t i = 0; i < w->n_events; i++)
        if (w->events[i].kind == REQUEST) free_args(w->events[i].argv, w->events[i].argc);
    w->n_events = 0;
    while (w->n_calls) free_call(w, w->calls[0]);
}

/* Gives whether a rule was broken. */
static bool run(uint64_t seed, enum plant plant)
{
    struct world *w = mem_zalloc(sizeof *w);
    w->plant = plant;
    rng_init(&w->rng, seed * 0x9e3779b97f4a7c15ull);
    w->version = 1;
    for (uint32_t g = 0; g < GROUPS; g++) w->groups[g].own_map = 1;
    for (uint32_t i = 0; i < OPS; i++) w->ops[i].step = METAOPS_DONE;
    for (uint32_t round = 0; round < ROUNDS && !w->broken; round++) {
        for (uint32_t i = 0; i < OPS; i++) begin_op(w, i);
        replace(w);
        int64_t until_ms = w->now_ms + TIME_MAX_MS;
        while (!w->broken && is_any_under_way(w) && w->now_ms < until_ms) turn(w);
        expect(w, !is_any_under_way(w), "operations do not end");
        if (!w->broken) check_end(w);
        /* Messages that come late come to those that follow. */
    }
    bool broken = w->broken;
    forget_events(w);
    for (uint32_t i = 0; i < DRIVERS; i++) end_driver(w, &w->drivers[i]);
    mem_free(w);
    return broken;
}

static void keys_are_carried_whole_whoever_drives_and_whatever_is_lost(void **unused)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) assert_false(run(seed, PLANT_NONE));
    assert_true(totals.replaced > SEEDS * ROUNDS && totals.replaced_in_slice && totals.refused_old && totals.refused_late && totals.again && totals.dropped && totals.by_hash);
    assert_true(totals.slices > SEEDS * ROUNDS * OPS && totals.writes > totals.turned_away && totals.turned_away);
}

static void drivers_with_planted_errors_are_found(void **unused)
{
    for (enum plant p = PLANT_BEGINS_WITH_SOME; p < PLANTS; p++) {
        uint64_t seed = 1;
        while (seed <= 200 && !run(seed, p)) seed++;
        if (seed > 200) fail_msg("planted error %d was not found", (int)p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_carried_whole_whoever_drives_and_whatever_is_lost),
        cmocka_unit_test(drivers_with_planted_errors_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
