/* The linearizability checker itself: histories with known verdicts, small random ones against a checker that tries every order, large ones from an object that is linearizable by construction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "wgl.h"

/* ---- histories as text
 *
 *     1 0-10 SET k a            client 1, from 0 to 10
 *     2 5-20 GET k = a          the answer; nil is none
 *     3 7-?  SET k b            outcome unknown
 *     3 7-!  SET k c            refused
 *     4 8-30 SET a 1; GET b = 2    a transaction
 *     4 8-30 INCR n 1 ~         happened, the answer was not seen
 *     4 8-30 GET a = 1; GET b = ?  nor was one of them
 *     4 8-30 DEL a; DEL b # 1   there was one of them */

enum { PARTS_MAX = 8 };

static bool next_word(const char **p, struct slice *word)
{
    while (**p == ' ') (*p)++;
    size_t n = strcspn(*p, " ;\n");
    *word = slice_of(*p, n);
    *p += n;
    return n > 0;
}

static int64_t number_of(struct slice word)
{
    char digits[24] = {0};
    assert_true(word.n < sizeof digits);
    memcpy(digits, word.p, word.n);
    return strtoll(digits, NULL, 10);
}

static void read_part(const char **p, struct wgl_part *part, struct wgl_answer *answer, bool *unseen, int64_t *found)
{
    static const char *const names[] = {"GET", "SET", "CAS", "DEL", "INCR", "APPEND", "EXPIRE"};
    struct slice word;
    *part = (struct wgl_part){0};
    *answer = (struct wgl_answer){0};
    assert_true(next_word(p, &word));
    while (part->kind < 7 && !slice_is(word, names[part->kind])) part->kind++;
    assert_true(part->kind < 7 && next_word(p, &part->key));
    if (part->kind == WGL_CAS) {
        assert_true(next_word(p, &part->expect));
        part->nil_expect = slice_is(part->expect, "nil");
    }
    if (part->kind == WGL_SET || part->kind == WGL_CAS || part->kind == WGL_APPEND || part->kind == WGL_EXPIRE) assert_true(next_word(p, &part->arg));
    if (part->kind == WGL_INCR && next_word(p, &word)) part->by = number_of(word);
    if (!next_word(p, &word)) return;
    if (slice_is(word, "~")) {
        *unseen = true;
        return;
    }
    if (slice_is(word, "#")) {
        assert_true(next_word(p, &word));
        *found = number_of(word);
        return;
    }
    assert_true(slice_is(word, "=") && next_word(p, &answer->value));
    answer->nil = slice_is(answer->value, "nil");
    answer->unseen = slice_is(answer->value, "?");
    answer->number = number_of(answer->value);
}

static void read_line(struct wgl *w, const char *line)
{
    struct wgl_part parts[PARTS_MAX];
    struct wgl_answer answers[PARTS_MAX];
    unsigned client, call;
    int used;
    uint32_t n = 0;
    bool unseen = false;
    int64_t found = -1; /* not told */
    assert_int_equal(sscanf(line, "%u %u-%n", &client, &call, &used), 2);
    const char *p = line + used;
    char outcome = *p;
    int64_t returned = strtoll(p, (char **)&p, 10);
    if (outcome == '?' || outcome == '!') p++;
    do {
        assert_true(n < PARTS_MAX);
        read_part(&p, &parts[n], &answers[n], &unseen, &found);
        n++;
        p += strspn(p, " ");
    } while (*p++ == ';');
    size_t op = wgl_call(w, client, call, parts, n);
    if (outcome == '!')
        wgl_refused(w, op);
    else if (found >= 0)
        wgl_return_count(w, op, returned, (uint32_t)found);
    else if (outcome != '?')
        wgl_return(w, op, returned, unseen ? NULL : answers);
}

static struct wgl *history(const char *text)
{
    struct wgl *w = wgl_new();
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        read_line(w, line);
        if (!strchr(line, '\n')) break;
    }
    return w;
}

static void expect_good(const char *text)
{
    struct wgl *w = history(text);
    struct buf why = {0};
    if (wgl_check(w, NULL, NULL, &why) != WGL_LINEARIZABLE) fail_msg("%s\n%.*s", text, (int)why.len, why.p);
    buf_fini(&why);
    wgl_free(w);
}

static void expect_bad(const char *text, size_t at)
{
    struct wgl *w = history(text);
    struct buf why = {0};
    size_t op = SIZE_MAX;
    if (wgl_check(w, NULL, &op, &why) != WGL_NOT) fail_msg("passed:\n%s", text);
    if (op != at) fail_msg("%s\n%.*s", text, (int)why.len, why.p);
    buf_fini(&why);
    wgl_free(w);
}

/* ---- known verdicts */

static void what_follows_each_other_has_to_agree(void **state)
{
    expect_good("1 0-1 GET k = nil\n1 2-3 SET k a\n2 4-5 GET k = a\n1 6-7 DEL k = 1\n2 8-9 DEL k = 0\n1 10-11 GET k = nil");
    expect_good("1 0-1 INCR n 5 = 5\n2 2-3 INCR n -7 = -2\n1 4-5 APPEND n 1 = 3\n1 6-7 GET n = -21\n1 8-9 INCR n 1 = -20");
    expect_good("1 0-1 CAS k nil a = 1\n1 2-3 CAS k nil b = 0\n1 4-5 CAS k a b = 1\n1 6-7 GET k = b\n1 8-9 INCR k 1 = nil");
}

static void what_overlaps_may_come_in_any_order(void **state)
{
    expect_good("1 0-10 SET k a\n2 1-9 SET k b\n3 11-12 GET k = a\n3 13-14 GET k = a");
    expect_good("1 0-10 SET k a\n2 1-9 SET k b\n3 11-12 GET k = b");
    expect_good("1 0-100 SET k a\n2 1-2 GET k = nil\n2 3-4 GET k = a\n2 5-6 GET k = a");
    expect_good("1 0-5 SET k a\n2 5-6 GET k = nil");
}

/* The write of what is there already must not be spent early. */
static void a_write_that_changes_nothing_now_may_be_needed_later(void **state)
{
    expect_good("1 0-1 SET k a\n1 2-20 SET k a\n2 3-10 SET k b\n3 4-5 GET k = a\n3 6-8 GET k = b\n3 11-12 GET k = a");
    expect_good("1 2-20 DEL k ~\n2 3-10 SET k b\n3 4-5 GET k = nil\n3 6-8 GET k = b\n3 11-12 GET k = nil");
}

static void a_stale_read_is_found(void **state)
{
    expect_bad("1 0-1 SET k a\n1 2-3 SET k b\n2 4-5 GET k = a", 2);
    expect_bad("1 0-1 SET k a\n1 2-30 SET k b\n2 4-5 GET k = b\n3 6-7 GET k = a", 3);
}

static void a_lost_update_is_found(void **state)
{
    expect_bad("1 0-10 INCR n 1 = 1\n2 0-10 INCR n 1 = 1", 1);
    expect_bad("1 0-1 SET k a\n1 2-10 CAS k a b = 1\n2 2-10 CAS k a c = 1", 2);
    expect_bad("1 0-1 SET k a\n2 5-6 GET k = nil", 1);
}

static void an_effect_that_comes_twice_is_found(void **state)
{
    expect_bad("1 0-1 APPEND k x = 1\n1 2-3 GET k = xx", 1);
    expect_bad("1 0-? INCR n 1\n2 1-2 GET n = 1\n2 3-4 GET n = 2", 2);
    expect_bad("1 0-? SET k a\n2 1-2 GET k = a\n2 3-4 SET k b\n2 5-6 GET k = a", 3);
}

static void a_read_from_the_future_is_found(void **state)
{
    expect_bad("2 0-1 GET k = a\n1 2-3 SET k a", 0);
    expect_bad("2 0-1 GET k = a\n1 2-? SET k a", 0);
}

static void a_deleted_value_that_comes_back_is_found(void **state)
{
    expect_bad("1 0-1 SET k a\n1 2-3 DEL k = 1\n2 4-5 GET k = nil\n2 6-7 GET k = a", 3);
    expect_bad("1 0-1 SET k a\n1 2-3 DEL k = 1\n2 4-5 DEL k = 1", 2);
}

static void a_deletion_of_several_keys_tells_how_many_there_were(void **state)
{
    expect_good("1 0-1 SET a 1\n1 2-3 DEL a; DEL b # 1\n2 4-5 GET a = nil\n2 6-7 DEL a; DEL b # 0");
    expect_good("1 0-10 SET a 1\n2 0-10 SET b 1\n3 0-10 DEL a; DEL b # 1\n3 11-12 GET a = nil; GET b = 1");
    expect_good("1 0-? SET a 1\n2 1-2 DEL a; DEL b # 1");
    expect_bad("1 0-1 SET a 1\n1 2-3 SET b 1\n1 4-5 DEL a; DEL b # 1", 2);
    expect_bad("1 0-1 SET a 1\n1 2-3 DEL a; DEL b # 1\n1 4-5 DEL a; DEL b # 1", 2);
    expect_bad("1 0-? SET a 1\n2 1-2 DEL a; DEL b # 1\n2 3-4 GET a = 1", 2);
}

static void what_was_not_shown_may_be_anything(void **state)
{
    expect_good("1 0-1 SET a 1; SET b 2\n2 2-3 GET a = 1; GET b = ?\n2 4-5 GET a = ?; GET b = 2");
    expect_bad("1 0-1 SET a 1; SET b 2\n1 2-3 SET a 3; SET b 4\n2 4-5 GET a = 1; GET b = ?", 2);
}

static void a_transaction_seen_by_half_is_found(void **state)
{
    expect_good("1 0-10 SET x 1; SET y 1\n2 1-2 GET x = nil; GET y = nil\n2 3-4 GET x = 1; GET y = 1");
    expect_bad("1 0-10 SET x 1; SET y 1\n2 1-2 GET x = 1; GET y = nil", 1);
    expect_bad("1 0-10 SET x 1; SET y 1\n2 1-2 GET x = 1\n2 3-4 GET y = nil", 2);
    expect_bad("1 0-? SET x 1; SET y 1\n2 1-2 GET x = 1\n2 3-4 GET y = nil", 2);
}

/* Each key alone is fine; the two readers disagree about which write was first. */
static void two_readers_that_see_two_writes_in_different_order_are_found(void **state)
{
    expect_bad("1 0-20 SET x 1\n2 0-20 SET y 1\n3 5-6 GET x = 1; GET y = nil\n4 7-8 GET x = nil; GET y = 1", 3);
    expect_good("1 0-20 SET x 1\n2 0-20 SET y 1\n3 5-6 GET x = 1\n3 7-8 GET y = nil\n4 7-8 GET y = 1");
}

static void a_sum_over_accounts_is_kept_by_transfers(void **state)
{
    expect_good("1 0-1 SET a 10; SET b 0\n1 2-9 INCR a -3 = 7; INCR b 3 = 3\n2 2-9 INCR a -1 = 6; INCR b 1 = 4\n3 3-8 GET a = 7; GET b = 3\n3 10-11 GET a = 6; GET b = 4");
    expect_bad("1 0-1 SET a 10; SET b 0\n1 2-9 INCR a -3 = 7; INCR b 3 = 3\n3 3-8 GET a = 7; GET b = 0", 2);
}

static void an_unknown_outcome_may_come_late_or_never(void **state)
{
    expect_good("1 0-? SET k a\n2 1-2 GET k = nil\n2 3-4 SET k b\n2 5-6 GET k = b\n2 7-8 GET k = a\n2 9-10 GET k = a");
    expect_good("1 0-? SET k a\n2 1-2 GET k = nil\n2 300-400 GET k = nil");
    expect_good("1 0-? INCR n 1\n1 1-? INCR n 1\n1 2-? INCR n 1\n2 3-4 GET n = 2\n2 5-6 INCR n 1 = 4");
    expect_good("1 0-1 SET k a\n1 2-? CAS k a b\n2 3-4 SET k c\n2 5-6 GET k = c\n2 7-8 SET k a\n2 9-10 GET k = b");
    expect_good("1 0-9 INCR n 1 ~\n2 10-11 GET n = 1");
    expect_bad("1 0-9 INCR n 1 ~\n2 10-11 GET n = nil", 1);
    expect_bad("1 0-1 SET k x\n1 2-? CAS k a b\n2 3-4 GET k = b", 2);
}

static void what_was_refused_must_not_be_seen(void **state)
{
    expect_good("1 0-! SET k a\n2 1-2 GET k = nil");
    expect_bad("1 0-! SET k a\n2 1-2 GET k = a", 1);
}

static void a_value_expires_after_its_time_and_not_before(void **state)
{
    expect_good("1 0-1 SET k a\n0 100-? EXPIRE k a\n2 90-110 GET k = nil\n2 120-130 GET k = nil");
    expect_good("1 0-1 SET k a\n0 100-? EXPIRE k a\n2 101-110 GET k = a\n2 120-130 GET k = nil");
    expect_good("1 0-1 SET k a\n1 2-3 SET k b\n0 100-200 EXPIRE k a\n2 300-301 GET k = b");
    expect_bad("1 0-1 SET k a\n0 100-? EXPIRE k a\n2 50-60 GET k = nil", 2);
    expect_bad("1 0-1 SET k a\n0 100-200 EXPIRE k a\n2 201-210 GET k = a", 2);
    expect_bad("1 0-1 SET k a\n0 100-? EXPIRE k a\n2 101-102 GET k = nil\n2 103-104 GET k = a", 3);
}

static void the_sentence_names_the_operation_and_what_could_have_been(void **state)
{
    struct wgl *w = history("1 0-1 SET k a\n1 2-3 SET k b\n2 4-? SET k c\n3 4-5 GET k = a");
    struct buf why = {0};
    assert_int_equal(wgl_check(w, NULL, NULL, &why), WGL_NOT);
    buf_add_byte(&why, 0);
    assert_string_equal(why.p, "operation 3 (client 3: GET \"k\" -> \"a\", from 4 to 5) fits into no order of what returned before it: \"k\" can have been \"b\" or \"c\"");
    why.len = 0;
    wgl_text(w, 2, &why);
    buf_add_byte(&why, 0);
    assert_string_equal(why.p, "client 2: SET \"k\" \"c\", from 4, outcome unknown");
    buf_fini(&why);
    wgl_free(w);
}

static void giving_up_is_no_verdict(void **state)
{
    struct wgl *w = history("1 0-9 SET k a\n2 0-9 SET k b\n3 0-9 SET k c\n4 0-9 SET k d\n5 10-11 GET k = nil");
    struct buf why = {0};
    assert_int_equal(wgl_check(w, &(struct wgl_limits){.configs = 3}, NULL, &why), WGL_GAVE_UP);
    assert_true(why.len > 0);
    assert_int_equal(wgl_check(w, NULL, NULL, NULL), WGL_NOT);
    wgl_free(w);
    w = wgl_new();
    for (uint32_t i = 0; i < 70; i++) wgl_return(w, wgl_call(w, i, 0, &(struct wgl_part){.kind = WGL_GET, .key = SLICE("k")}, 1), 10, &(struct wgl_answer){.nil = true});
    assert_int_equal(wgl_check(w, NULL, NULL, &why), WGL_GAVE_UP);
    wgl_free(w);
    buf_fini(&why);
}

/* ---- every order, tried one after the other: values are small numbers, -1 is none */

enum { TINY_OPS = 7, TINY_KEYS = 2, TINY_PARTS = 2 };

struct tiny_part {
    enum wgl_kind kind; /* not APPEND, not EXPIRE */
    int key, arg, expect, answer;
};

struct tiny_op {
    int call, returned, n; /* returned -1: never */
    struct tiny_part parts[TINY_PARTS];
};

static bool tiny_apply(const struct tiny_op *op, int *v)
{
    for (int i = 0; i < op->n; i++) {
        const struct tiny_part *p = &op->parts[i];
        int *x = &v[p->key], old = *x, answer = 0;
        if (p->kind == WGL_GET) answer = old;
        if (p->kind == WGL_SET) *x = p->arg, answer = p->answer;
        if (p->kind == WGL_CAS && old == p->expect) *x = p->arg, answer = 1;
        if (p->kind == WGL_DEL) *x = -1, answer = old != -1;
        if (p->kind == WGL_INCR) answer = *x = (old == -1 ? 0 : old) + p->arg;
        if (op->returned != -1 && answer != p->answer) return false;
    }
    return true;
}

static bool tiny_orders(const struct tiny_op *ops, int n, unsigned used, const int *v)
{
    int first_return = INT32_MAX;
    for (int i = 0; i < n; i++)
        if (!(used >> i & 1) && ops[i].returned != -1 && ops[i].returned < first_return) first_return = ops[i].returned;
    if (first_return == INT32_MAX) return true;
    for (int i = 0; i < n; i++) {
        int after[TINY_KEYS];
        memcpy(after, v, sizeof after);
        if (!(used >> i & 1) && ops[i].call <= first_return && tiny_apply(&ops[i], after) && tiny_orders(ops, n, used | 1u << i, after)) return true;
    }
    return false;
}

static struct slice tiny_text(int value, char text[12]) { return slice_of(text, (size_t)snprintf(text, 12, "%d", value)); }

static struct slice tiny_key(int key) { return key ? SLICE("y") : SLICE("x"); }

static void tiny_add(struct wgl *w, const struct tiny_op *op)
{
    struct wgl_part parts[TINY_PARTS];
    struct wgl_answer answers[TINY_PARTS];
    char text[TINY_PARTS][3][12];
    for (int i = 0; i < op->n; i++) {
        const struct tiny_part *p = &op->parts[i];
        parts[i] = (struct wgl_part){.kind = p->kind, .key = tiny_key(p->key), .arg = tiny_text(p->arg, text[i][0]), .expect = tiny_text(p->expect, text[i][1]), .nil_expect = p->expect == -1, .by = p->arg};
        answers[i] = (struct wgl_answer){.nil = p->kind == WGL_GET && p->answer == -1, .value = tiny_text(p->answer, text[i][2]), .number = p->answer};
    }
    size_t number = wgl_call(w, 0, op->call, parts, (uint32_t)op->n);
    if (op->returned != -1) wgl_return(w, number, op->returned, answers);
}

static struct tiny_op tiny_random(struct rng *r)
{
    struct tiny_op op = {.call = (int)rng_below(r, 20), .n = rng_below(r, 4) ? 1 : 2};
    op.returned = rng_below(r, 5) ? op.call + (int)rng_below(r, 12) : -1;
    for (int i = 0; i < op.n; i++) {
        struct tiny_part *p = &op.parts[i];
        *p = (struct tiny_part){.kind = (enum wgl_kind)rng_below(r, WGL_INCR + 1), .key = (int)rng_below(r, TINY_KEYS), .arg = 1 + (int)rng_below(r, 2), .expect = (int)rng_below(r, 4) - 1};
        if (p->kind == WGL_GET) p->answer = (int)rng_below(r, 4) - 1;
        if (p->kind == WGL_CAS || p->kind == WGL_DEL) p->answer = (int)rng_below(r, 2);
        if (p->kind == WGL_INCR) p->answer = 1 + (int)rng_below(r, 4);
    }
    return op;
}

static void small_random_histories_get_the_verdict_of_trying_every_order(void **state)
{
    struct rng r;
    unsigned good = 0, bad = 0;
    rng_init(&r, 11);
    for (int round = 0; round < 30000; round++) {
        struct tiny_op ops[TINY_OPS];
        int n = 2 + (int)rng_below(&r, TINY_OPS - 1), nothing[TINY_KEYS] = {-1, -1};
        struct wgl *w = wgl_new();
        for (int i = 0; i < n; i++) {
            ops[i] = tiny_random(&r);
            tiny_add(w, &ops[i]);
        }
        bool want = tiny_orders(ops, n, 0, nothing);
        struct buf text = {0};
        if (wgl_check(w, NULL, NULL, NULL) != (want ? WGL_LINEARIZABLE : WGL_NOT)) {
            for (int i = 0; i < n; i++) {
                wgl_text(w, (size_t)i, &text);
                buf_add_byte(&text, '\n');
            }
            fail_msg("round %d should be %s:\n%.*s", round, want ? "good" : "bad", (int)text.len, text.p);
        }
        buf_fini(&text);
        good += want;
        bad += !want;
        wgl_free(w);
    }
    assert_true(good > 3000 && bad > 3000);
}

/* ---- an object that is linearizable by construction: every operation happens at one moment between call and return */

enum { LARGE_CLIENTS = 12, LARGE_KEYS_MAX = 8, LARGE_LOST_MAX = 64 };

struct large_op {
    size_t number;
    struct wgl_part part;
    uint32_t key;
    char name[16], arg[24], expect[24];
    int stage; /* 0 none, 1 called, 2 happened */
    struct wgl_answer answer;
    char value[24];
};

struct large {
    struct wgl *w;
    struct rng rng;
    uint32_t keys, lost_percent;
    char values[LARGE_KEYS_MAX][24]; /* "": none */
    struct large_op clients[LARGE_CLIENTS], lost[LARGE_LOST_MAX];
    uint32_t n_lost, n_values;
    int64_t time;
};

static void large_begin(struct large *l, uint32_t client)
{
    struct large_op *op = &l->clients[client];
    uint32_t key = (uint32_t)rng_below(&l->rng, l->keys), dice = (uint32_t)rng_below(&l->rng, 10);
    *op = (struct large_op){.stage = 1, .key = key};
    snprintf(op->name, sizeof op->name, "k%u", key);
    snprintf(op->arg, sizeof op->arg, "v%u", l->n_values++);
    memcpy(op->expect, l->values[key], sizeof op->expect);
    op->part = (struct wgl_part){.kind = dice < 5 ? WGL_GET : dice < 8 ? WGL_SET : dice < 9 ? WGL_CAS : WGL_DEL, .key = slice_str(op->name), .arg = slice_str(op->arg), .expect = slice_str(op->expect),
                                 .nil_expect = !op->expect[0]};
    op->number = wgl_call(l->w, client, l->time++, &op->part, 1);
}

static void large_happen(struct large *l, struct large_op *op)
{
    char *v = l->values[op->key];
    op->stage = 2;
    memcpy(op->value, v, sizeof op->value);
    op->answer = (struct wgl_answer){.nil = op->part.kind == WGL_GET && !v[0], .value = slice_str(op->value), .number = op->part.kind == WGL_DEL ? v[0] != 0 : strcmp(v, op->expect) == 0};
    if (op->part.kind == WGL_SET || (op->part.kind == WGL_CAS && op->answer.number)) memcpy(v, op->arg, sizeof op->arg);
    if (op->part.kind == WGL_DEL) v[0] = 0;
}

static void large_step(struct large *l)
{
    uint32_t client = (uint32_t)rng_below(&l->rng, LARGE_CLIENTS);
    struct large_op *op = &l->clients[client];
    if (l->n_lost && rng_below(&l->rng, 20) == 0) {
        uint32_t i = (uint32_t)rng_below(&l->rng, l->n_lost);
        if (rng_below(&l->rng, 2)) large_happen(l, &l->lost[i]);
        l->lost[i] = l->lost[--l->n_lost];
    }
    if (op->stage == 0) {
        large_begin(l, client);
    } else if (op->stage == 1) {
        if (l->n_lost < LARGE_LOST_MAX && rng_below(&l->rng, 100) < l->lost_percent) {
            l->lost[l->n_lost++] = *op;
            op->stage = 0;
        } else {
            large_happen(l, op);
        }
    } else {
        op->answer.value = slice_str(op->value);
        wgl_return(l->w, op->number, l->time++, &op->answer);
        op->stage = 0;
    }
}

static void large_init(struct large *l, uint64_t seed, uint32_t keys, uint32_t lost_percent, size_t ops)
{
    *l = (struct large){.w = wgl_new(), .keys = keys, .lost_percent = lost_percent};
    rng_init(&l->rng, seed);
    while (wgl_ops(l->w) < ops) large_step(l);
}

static void expect_large(struct large *l, enum wgl_verdict want)
{
    struct buf why = {0};
    enum wgl_verdict got = wgl_check(l->w, NULL, NULL, &why);
    if (got != want) fail_msg("%zu operations: verdict %d, not %d: %.*s", wgl_ops(l->w), got, want, (int)why.len, why.p);
    buf_fini(&why);
    wgl_free(l->w);
}

static void histories_of_a_real_object_pass(void **state)
{
    struct large l;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        large_init(&l, seed, 1 + (uint32_t)(seed % LARGE_KEYS_MAX), (uint32_t)(seed % 4) * 3, 1000);
        expect_large(&l, WGL_LINEARIZABLE);
    }
}

static void ten_thousand_operations_on_one_key_are_judged(void **state)
{
    struct large l;
    large_init(&l, 5, 1, 0, 10000);
    expect_large(&l, WGL_LINEARIZABLE);
    large_init(&l, 6, 1, 2, 10000);
    expect_large(&l, WGL_LINEARIZABLE);
}

/* One wrong answer at the very end: a value that was never written, and one that was replaced long ago. */
static void one_wrong_answer_among_many_is_caught(void **state)
{
    static const struct wgl_part get = {.kind = WGL_GET, .key = SLICE("k0")}, set = {.kind = WGL_SET, .key = SLICE("k0"), .arg = SLICE("old")}, newer = {.kind = WGL_SET, .key = SLICE("k0"), .arg = SLICE("new")};
    struct large l;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        uint32_t lost = (uint32_t)(seed % 2) * 2;
        large_init(&l, seed, 1, lost, 3000);
        wgl_return(l.w, wgl_call(l.w, 99, l.time, &get, 1), l.time + 1, &(struct wgl_answer){.value = SLICE("never")});
        expect_large(&l, WGL_NOT);

        large_init(&l, seed, 1, lost, 2000);
        wgl_return(l.w, wgl_call(l.w, 99, l.time, &set, 1), l.time + 1, &(struct wgl_answer){0});
        wgl_return(l.w, wgl_call(l.w, 99, l.time + 2, &newer, 1), l.time + 3, &(struct wgl_answer){0});
        strcpy(l.values[0], "new");
        l.time += 4;
        for (int i = 0; i < 500; i++) large_step(&l);
        wgl_return(l.w, wgl_call(l.w, 99, l.time, &get, 1), l.time + 1, &(struct wgl_answer){.value = SLICE("old")});
        expect_large(&l, WGL_NOT);
    }
}

static void ten_thousand_appends_do_not_make_ten_thousand_strings(void **state)
{
    struct wgl *w = wgl_new();
    struct wgl_part part = {.kind = WGL_APPEND, .key = SLICE("list"), .arg = SLICE("0123456789")};
    for (int64_t i = 0; i < 10000; i++) wgl_return(w, wgl_call(w, 1, i * 2, &part, 1), i * 2 + 1, &(struct wgl_answer){.number = (i + 1) * 10});
    assert_int_equal(wgl_check(w, NULL, NULL, NULL), WGL_LINEARIZABLE);
    wgl_return(w, wgl_call(w, 1, 20000, &part, 1), 20001, &(struct wgl_answer){.number = 100020});
    assert_int_equal(wgl_check(w, NULL, NULL, NULL), WGL_NOT);
    wgl_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_each_other_has_to_agree),
        cmocka_unit_test(what_overlaps_may_come_in_any_order),
        cmocka_unit_test(a_write_that_changes_nothing_now_may_be_needed_later),
        cmocka_unit_test(a_stale_read_is_found),
        cmocka_unit_test(a_lost_update_is_found),
        cmocka_unit_test(an_effect_that_comes_twice_is_found),
        cmocka_unit_test(a_read_from_the_future_is_found),
        cmocka_unit_test(a_deleted_value_that_comes_back_is_found),
        cmocka_unit_test(a_deletion_of_several_keys_tells_how_many_there_were),
        cmocka_unit_test(what_was_not_shown_may_be_anything),
        cmocka_unit_test(a_transaction_seen_by_half_is_found),
        cmocka_unit_test(two_readers_that_see_two_writes_in_different_order_are_found),
        cmocka_unit_test(a_sum_over_accounts_is_kept_by_transfers),
        cmocka_unit_test(an_unknown_outcome_may_come_late_or_never),
        cmocka_unit_test(what_was_refused_must_not_be_seen),
        cmocka_unit_test(a_value_expires_after_its_time_and_not_before),
        cmocka_unit_test(the_sentence_names_the_operation_and_what_could_have_been),
        cmocka_unit_test(giving_up_is_no_verdict),
        cmocka_unit_test(small_random_histories_get_the_verdict_of_trying_every_order),
        cmocka_unit_test(histories_of_a_real_object_pass),
        cmocka_unit_test(ten_thousand_operations_on_one_key_are_judged),
        cmocka_unit_test(one_wrong_answer_among_many_is_caught),
        cmocka_unit_test(ten_thousand_appends_do_not_make_ten_thousand_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
