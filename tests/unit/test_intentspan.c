/* Spans of transactions against a naive twin: a list of keys and one of spans, looked through from end to end; and the records that they are made from again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cluster/intentturn.h"
#include "intentkit.h"

enum { IDS = 8, KEYS = 8, SPACES = 2, DBS = 2, HELD_MAX = 64, STEPS = 3000, SEED = 7 };

/* ---- the twin: a key is a span of one */

struct held {
    int id, space, from, to; /* keys [from, to) of the space */
    uint16_t db;
    bool is_span, writes;
};

struct twin {
    enum intents_state state[IDS];
    uint64_t since[IDS], closed, keys_turn, spans_turn;
    struct held key, span; /* whose turns those are */
    struct held held[HELD_MAX];
    int n;
};

/* What came up in all walks. */
static struct {
    uint64_t reserved, refused, taken_from_old, begun, allowed, kept_out, prepared, turns;
} saw;

struct pair {
    struct intents *n;
    struct twin twin;
    struct rng rng;
    uint64_t now;
    struct store *store;
};

static void twin_remove(struct twin *t, int id)
{
    int left = 0;
    for (int i = 0; i < t->n; i++)
        if (t->held[i].id != id) t->held[left++] = t->held[i];
    t->n = left;
    t->state[id] = INTENTS_NONE;
}

static bool meet(const struct held *a, const struct held *b) { return a->db == b->db && a->space == b->space && a->from < b->to && b->from < a->to; }

/* Whether h is in the way of one who wants w; id -1: no transaction. */
static bool is_in_the_way(const struct twin *t, const struct held *h, const struct held *w)
{
    if (h->id == w->id || !meet(h, w)) return false;
    if (w->writes) return true;
    return h->writes && (w->id >= 0 || t->state[h->id] != INTENTS_RESERVED);
}

static bool twin_is_free(struct pair *p, const struct held *w)
{
    struct twin *t = &p->twin;
    bool old[IDS] = {false};
    bool by_key = false, by_span = false;
    for (int i = 0; i < t->n; i++) {
        const struct held *h = &t->held[i];
        if (!is_in_the_way(t, h, w)) continue;
        if (t->state[h->id] == INTENTS_RESERVED && p->now - t->since[h->id] >= INTENTS_RESERVED_MS) old[h->id] = true;
        else *(h->is_span ? &by_span : &by_key) = true;
    }
    if (by_span && !by_key && !w->is_span && !(p->now < t->spans_turn && meet(&t->span, w))) {
        t->keys_turn = p->now + INTENTTURN_MS;
        t->key = *w;
    }
    if (by_key || by_span) return false;
    for (int i = 0; i < IDS; i++) {
        if (!old[i]) continue;
        twin_remove(t, i);
        saw.taken_from_old++;
    }
    return true;
}

/* ---- names */

struct names {
    char id[16], space[16], start[16], end[16];
};

static struct slice text(char out[16], const char *fmt, int a, int b) { return slice_of(out, (size_t)snprintf(out, 16, fmt, a, b)); }

static struct intentspan span_of(const struct held *w, struct names *s)
{
    return (struct intentspan){w->db, text(s->space, "s%d", w->space, 0), w->from ? text(s->start, "s%d/%d", w->space, w->from) : SLICE(""),
                               w->to < KEYS ? text(s->end, "s%d/%d", w->space, w->to) : SLICE("")};
}

static struct slice key_of(const struct held *w, struct names *s) { return text(s->start, "s%d/%d", w->space, w->from); }
static struct slice id_of(int id, struct names *s) { return text(s->id, "t%d", id, 0); }

/* ---- steps */

static struct held some(struct pair *p, int id)
{
    struct held w = {.id = id, .space = (int)rng_below(&p->rng, SPACES), .db = (uint16_t)rng_below(&p->rng, DBS), .is_span = rng_below(&p->rng, 2), .from = (int)rng_below(&p->rng, KEYS)};
    w.to = w.is_span ? w.from + 1 + (int)rng_below(&p->rng, (uint64_t)(KEYS - w.from)) : w.from + 1;
    w.writes = (!w.is_span || id < 0) && rng_below(&p->rng, 2);
    return w;
}

static struct held *find_held(struct twin *t, const struct held *w)
{
    for (int i = 0; i < t->n; i++) {
        struct held *h = &t->held[i];
        if (h->id == w->id && h->is_span == w->is_span && h->db == w->db && h->space == w->space && h->from == w->from && h->to == w->to) return h;
    }
    return NULL;
}

static bool twin_can(struct pair *p, const struct held *w)
{
    struct twin *t = &p->twin;
    bool is_new = t->state[w->id] == INTENTS_NONE;
    bool is_others_turn = w->is_span ? p->now < t->keys_turn && meet(&t->key, w) : p->now < t->spans_turn && meet(&t->span, w);
    saw.turns += is_new && is_others_turn;
    if (is_new && (p->now < t->closed || is_others_turn)) return false;
    if (twin_is_free(p, w)) return true;
    if (w->is_span && !is_others_turn) {
        t->spans_turn = p->now + INTENTTURN_MS;
        t->span = *w;
    }
    return false;
}

static void step_reserve(struct pair *p, int id)
{
    struct names names;
    struct twin *t = &p->twin;
    struct held w = some(p, id);
    struct intentspan s = span_of(&w, &names);
    if ((t->state[id] != INTENTS_NONE && t->state[id] != INTENTS_RESERVED) || t->n == HELD_MAX) return;
    bool can = twin_can(p, &w);
    char key[16];
    struct slice k = text(key, "s%d/%d", w.space, w.from), name = id_of(id, &names);
    assert_int_equal(w.is_span ? intents_can_span(p->n, name, &s) : intents_can(p->n, name, w.db, k, w.writes ? INTENTS_WRITES : INTENTS_READS), can);
    saw.refused += !can;
    if (!can) return;
    saw.reserved++;
    if (w.is_span) intents_reserve_span(p->n, name, 5, &s);
    else intents_reserve(p->n, name, 5, w.db, k, w.writes ? INTENTS_WRITES : INTENTS_READS);
    if (t->state[id] == INTENTS_NONE) t->since[id] = p->now;
    t->state[id] = INTENTS_RESERVED;
    struct held *h = find_held(t, &w);
    if (h) h->writes |= w.writes;
    else t->held[t->n++] = w;
}

static void step_use(struct pair *p)
{
    struct names names;
    struct held w = some(p, -1);
    bool allowed = twin_is_free(p, &w);
    struct intentspan s = span_of(&w, &names);
    enum intents_use use = w.writes ? INTENTS_WRITES : INTENTS_READS;
    uint64_t closed = p->now + (w.writes ? 100 : 20);
    if (w.is_span && !allowed && p->twin.closed < closed) p->twin.closed = closed;
    assert_int_equal(w.is_span ? intents_allows_span(p->n, &s, use) : intents_allows(p->n, w.db, key_of(&w, &names), use), allowed);
    saw.allowed += allowed;
    saw.kept_out += !allowed;
}

static void step_prepare(struct pair *p, int id)
{
    struct names names;
    if (p->twin.state[id] != INTENTS_RESERVED) return;
    intentkit_prepare(p->store, p->n, id_of(id, &names), 2);
    p->twin.state[id] = INTENTS_INTENT;
    saw.prepared++;
}

static void step_remove(struct pair *p, int id)
{
    struct names names;
    if (p->twin.state[id] == INTENTS_INTENT) intentkit_put(p->store, INTENTCODE_INTENTS, id_of(id, &names), SLICE(""));
    intents_remove(p->n, id_of(id, &names));
    twin_remove(&p->twin, id);
}

static void step_begin(struct pair *p)
{
    for (int id = 0; id < IDS; id++)
        if (p->twin.state[id] == INTENTS_RESERVED) twin_remove(&p->twin, id);
    p->twin.closed = p->twin.keys_turn = p->twin.spans_turn = 0;
    intents_begin(p->n, p->store);
    saw.begun++;
}

static void compare(struct pair *p)
{
    struct names names;
    char key[16];
    intents_check(p->n);
    assert_int_equal(intents_any(p->n), p->twin.n > 0);
    for (int i = 0; i < p->twin.n; i++) {
        const struct held *h = &p->twin.held[i];
        struct intentspan s = span_of(h, &names);
        struct slice id = id_of(h->id, &names);
        if (h->is_span) assert_true(intents_has_span(p->n, id, &s));
        else assert_true(intents_has(p->n, id, h->db, text(key, "s%d/%d", h->space, h->from), h->writes ? INTENTS_WRITES : INTENTS_READS));
    }
    struct held one = {.id = -1, .space = (int)rng_below(&p->rng, SPACES), .db = (uint16_t)rng_below(&p->rng, DBS), .from = (int)rng_below(&p->rng, KEYS)};
    one.to = one.from + 1;
    bool kept = false;
    for (int i = 0; i < p->twin.n; i++) kept |= meet(&p->twin.held[i], &one);
    assert_int_equal(intents_keeps(p->n, one.db, key_of(&one, &names)), kept);
}

static void step(struct pair *p)
{
    int id = (int)rng_below(&p->rng, IDS);
    uint64_t dice = rng_below(&p->rng, 100);
    if (dice < 40) step_reserve(p, id);
    else if (dice < 60) step_use(p);
    else if (dice < 68) step_prepare(p, id);
    else if (dice < 86) step_remove(p, id);
    else if (dice < 88) step_begin(p);
    else p->now += rng_below(&p->rng, rng_below(&p->rng, 2) ? 30 : 800);
    intents_set_time(p->n, p->now);
    compare(p);
}

static void spans_are_what_a_list_of_them_says(void **state)
{
    struct store_limits limits = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct pair p = {.n = intents_new(SEED), .now = 1000000, .store = store_new(SEED, &limits, seed)};
        rng_init(&p.rng, seed);
        intents_set_time(p.n, p.now);
        for (int i = 0; i < STEPS; i++) step(&p);
        intents_free(p.n);
        store_free(p.store);
    }
    assert_true(saw.reserved > 1000 && saw.refused > 1000 && saw.taken_from_old > 50 && saw.begun > 100 && saw.allowed > 1000 && saw.kept_out > 500 && saw.prepared > 100 && saw.turns > 50);
}

/* ---- one by one */

static void a_span_is_of_one_space_and_one_database(void **state)
{
    const struct intentspan s = {1, SLICE("a"), SLICE("a/m"), SLICE("")};
    assert_true(intentspan_has(&s, 1, SLICE("a/m")));
    assert_true(intentspan_has(&s, 1, SLICE("a/z")));
    assert_false(intentspan_has(&s, 0, SLICE("a/z")));
    assert_false(intentspan_has(&s, 1, SLICE("a/l")));
    assert_false(intentspan_has(&s, 1, SLICE("a/z/1"))); /* it is between them, and of another space */
}

static void who_wants_a_span_and_who_writes_in_it_take_turns(void **state)
{
    struct intents *n = intents_new(SEED);
    const struct intentspan s = {0, SLICE("a"), SLICE(""), SLICE("")};
    intents_set_time(n, 1000);
    intents_reserve(n, SLICE("t"), 7, 0, SLICE("a/1"), INTENTS_WRITES);
    assert_false(intents_can_span(n, SLICE("reader"), &s));
    assert_false(intents_can(n, SLICE("new"), 0, SLICE("a/2"), INTENTS_READS));
    assert_true(intents_can(n, SLICE("new"), 0, SLICE("b/1"), INTENTS_READS)); /* that is in nobody's way */
    assert_true(intents_can(n, SLICE("t"), 0, SLICE("a/2"), INTENTS_WRITES)); /* who is here already goes on */
    intents_remove(n, SLICE("t"));
    assert_true(intents_can_span(n, SLICE("reader"), &s));
    intents_reserve_span(n, SLICE("reader"), 8, &s);
    intents_set_time(n, 1060);
    assert_false(intents_can(n, SLICE("new"), 0, SLICE("a/1"), INTENTS_WRITES)); /* the turn is over, and the writers' begins */
    assert_false(intents_can_span(n, SLICE("another"), &s));
    intents_remove(n, SLICE("reader"));
    assert_false(intents_can_span(n, SLICE("another"), &s));
    assert_true(intents_can(n, SLICE("new"), 0, SLICE("a/1"), INTENTS_WRITES));
    intents_set_time(n, 1120);
    assert_true(intents_can_span(n, SLICE("another"), &s));
    intents_free(n);
}

static void who_just_writes_has_a_turn_too(void **state)
{
    struct intents *n = intents_new(SEED);
    const struct intentspan s = {0, SLICE("a"), SLICE(""), SLICE("")};
    intents_set_time(n, 1000);
    intents_reserve_span(n, SLICE("reader"), 8, &s);
    assert_true(intents_can_span(n, SLICE("another"), &s));
    assert_false(intents_allows(n, 0, SLICE("a/1"), INTENTS_WRITES));
    assert_false(intents_can_span(n, SLICE("another"), &s));
    intents_free(n);
}

static void a_span_reads_back_as_it_was_written(void **state)
{
    const struct intentspan s = {3, SLICE("space"), SLICE("space/b"), SLICE("space/x")};
    struct intentspan back;
    struct intentcode r;
    struct buf b = {0};
    intentcode_begin(&b, 4, 2);
    intentcode_add_key(&b, &(struct intents_key){STORE_SYSTEM_DB, INTENTS_WRITES, SLICE("k")});
    intentcode_add_span(&b, &s);
    assert_true(intentcode_read(buf_slice(&b), &r));
    assert_true(intentcode_next_span(&r.spans, &back) && intentspan_eq(&s, &back));
    assert_false(intentcode_next_span(&r.spans, &back));
    for (size_t n = 0; n < b.len; n++) assert_false(intentcode_read(slice_of(b.p, n), &r));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_what_a_list_of_them_says),
        cmocka_unit_test(a_span_is_of_one_space_and_one_database),
        cmocka_unit_test(who_wants_a_span_and_who_writes_in_it_take_turns),
        cmocka_unit_test(who_just_writes_has_a_turn_too),
        cmocka_unit_test(a_span_reads_back_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
