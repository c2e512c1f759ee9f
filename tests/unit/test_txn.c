/* The coordinator of transactions: answer by answer, as told by hand. Whole crowds of them, with groups, faults and the care, are in test_txncrowd.c. */
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
#include "cluster/txn.h"
#include "cluster/txncmd.h"

/* Three keys: a in group 5, b and c in group 3. */
static const struct txn_key keys[] = {{.use = 'w', .key = {"a", 1}}, {.use = 'w', .key = {"b", 1}}, {.db = 1, .use = 'r', .key = {"c", 1}}};
#define TOKEN "0123456789abcdef"

struct desk {
    struct txn *txn;
    struct buf sent;   /* "3 txn.fetch name.000 ...; 5 ..." of the last call */
    uint32_t n_sent;
    uint32_t sends;
    int64_t now_ms;
    bool no_map, stop, writes_a, writes_b;
    uint32_t group_of_a;
    bool settled, over;
    enum txn_outcome outcome;
    unsigned runs;
    uint32_t reached; /* of a walk: how many groups it had got to */
};

static uint32_t group_of(void *ctx, struct slice key)
{
    const struct desk *d = ctx;
    return d->no_map ? TXN_NO_GROUP : key.p[0] == 'a' ? d->group_of_a : 3;
}

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct desk *d = ctx;
    assert_true(timeout_ms > 0);
    d->sent.len = 0;
    for (uint32_t i = 0; i < n; i++) {
        buf_printf(&d->sent, "%s%u", i ? "; " : "", requests[i].group);
        for (uint32_t k = 0; k < requests[i].argc; k++) buf_printf(&d->sent, " %.*s", (int)requests[i].argv[k].n, requests[i].argv[k].p);
    }
    buf_add_byte(&d->sent, '\0');
    d->n_sent = n;
    d->sends++;
}

static bool run(void *ctx, struct txn *t)
{
    struct desk *d = ctx;
    struct slice raw;
    d->runs++;
    assert_true(txn_entry(t, 0, &raw) && slice_eq(raw, SLICE("A")));
    assert_true(txn_entry(t, 1, &raw) && slice_eq(raw, SLICE("B")));
    assert_false(txn_entry(t, 2, &raw));
    if (d->writes_a) txn_write(t, 0, SLICE("x"));
    if (d->writes_b) txn_write(t, 1, SLICE("yy")); /* more: its group decides */
    return !d->stop;
}

static void settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct desk *d = ctx;
    assert_false(d->settled);
    d->settled = true;
    d->outcome = o;
}

static void over(void *ctx, struct txn *t)
{
    struct desk *d = ctx;
    assert_true(d->settled && !d->over);
    d->over = true;
}

static struct desk *desk_with(const struct txn_key *of)
{
    struct desk *d = mem_zalloc(sizeof *d);
    d->writes_a = d->writes_b = true;
    d->group_of_a = 5;
    d->now_ms = 1000000;
    struct txn_host host = {d, group_of, send, run, settled, over, NULL};
    d->txn = txn_new(&host, SLICE("name"), of, 3);
    return d;
}

static struct desk *desk_new(void) { return desk_with(keys); }

static struct desk *started(void)
{
    struct desk *d = desk_new();
    txn_start(d->txn, d->now_ms, 5000);
    return d;
}

static void desk_free(struct desk *d)
{
    assert_true(d->over);
    txn_free(d->txn);
    buf_fini(&d->sent);
    mem_free(d);
}

static void expect_sent(const struct desk *d, const char *text)
{
    if (strncmp(d->sent.p, text, strlen(text)) != 0) fail_msg("sent      %s\nexpected  %s", d->sent.p, text);
}

/* "?" nobody knows, "-" nobody did it; else the reply. */
static struct txn_answer answer_of(const char *text)
{
    if (strcmp(text, "?") == 0) return (struct txn_answer){.fate = TXN_MAY_BE_DONE};
    if (strcmp(text, "-") == 0) return (struct txn_answer){.fate = TXN_NOT_DONE};
    return (struct txn_answer){.fate = TXN_ANSWERED, .reply = slice_str(text)};
}

static void reply(struct desk *d, const char *first, const char *second)
{
    struct txn_answer a[2] = {answer_of(first), answer_of(second ? second : "-")};
    assert_int_equal(d->n_sent, second ? 2 : 1);
    d->now_ms += 1;
    txn_answered(d->txn, d->now_ms, a, d->n_sent);
}

static void wake(struct desk *d)
{
    assert_true(txn_wakes_ms(d->txn) > d->now_ms && txn_wakes_ms(d->txn) < INT64_MAX);
    d->now_ms = txn_wakes_ms(d->txn);
    txn_wake(d->txn, d->now_ms);
}

#define OK "+OK\r\n"
#define BUSY "-TXNBUSY taken\r\n"
#define GONE "-TXNGONE lost\r\n"
#define MOVED "-TXNMOVED not here\r\n"
#define ENTRIES_3 "*3\r\n$16\r\n" TOKEN "\r\n$1\r\nB\r\n$-1\r\n"
#define ENTRIES_5 "*2\r\n$16\r\n" TOKEN "\r\n$1\r\nA\r\n"

static void fetch(struct desk *d) { reply(d, ENTRIES_3, ENTRIES_5); }
static void prepare(struct desk *d) { fetch(d), reply(d, OK, NULL); }

static void end_with(struct desk *d, enum txn_outcome o)
{
    assert_true(d->settled && d->over);
    assert_int_equal(d->outcome, o);
    desk_free(d);
}

/* ---- */

static void it_fetches_prepares_decides_commits_and_forgets(void **state)
{
    struct desk *d = started();
    expect_sent(d, "3 txn.fetch name.000 2 0 w b 1 r c; 5 txn.fetch name.000 1 0 w a");
    fetch(d);
    expect_sent(d, "5 txn.prepare name.000 " TOKEN " 3 ");
    reply(d, OK, NULL);
    expect_sent(d, "3 txn.decide name.000 " TOKEN " 1 5 ");
    assert_false(d->settled);
    reply(d, OK, NULL);
    assert_true(d->settled && !d->over);
    expect_sent(d, "5 txn.commit name.000");
    reply(d, OK, NULL);
    expect_sent(d, "3 txn.forget name.000");
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void a_commit_that_is_not_answered_leaves_the_decision(void **state)
{
    struct desk *d = started();
    prepare(d);
    reply(d, OK, NULL);
    uint32_t sends = d->sends;
    reply(d, "?", NULL);
    assert_int_equal(d->sends, sends);
    end_with(d, TXN_DONE);
}

static void a_read_is_whole_if_all_was_held_to_the_end(void **state)
{
    struct desk *d = desk_new();
    d->writes_a = d->writes_b = false;
    txn_start(d->txn, d->now_ms, 5000);
    fetch(d);
    expect_sent(d, "3 txn.done name.000 " TOKEN "; 5 txn.done name.000 " TOKEN);
    assert_false(d->settled);
    reply(d, OK, GONE);
    assert_false(d->settled);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    expect_sent(d, "3 txn.fetch name.001 ");
    reply(d, ENTRIES_3, NULL);
    expect_sent(d, "5 txn.fetch name.001 ");
    reply(d, ENTRIES_5, NULL);
    reply(d, OK, OK);
    assert_int_equal(d->runs, 2);
    end_with(d, TXN_DONE);
}

static void what_is_taken_is_waited_for_in_ascending_order(void **state)
{
    struct desk *d = started();
    reply(d, ENTRIES_3, BUSY);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, "-");
    expect_sent(d, "3 txn.fetch name.001 ");
    reply(d, BUSY, NULL);
    uint32_t sends = d->sends;
    for (int i = 0; i < 10; i++) {
        wake(d);
        assert_int_equal(d->sends, ++sends);
        expect_sent(d, "3 txn.fetch name.001 ");
        if (i < 9) reply(d, BUSY, NULL);
    }
    reply(d, ENTRIES_3, NULL);
    expect_sent(d, "5 txn.fetch name.001 "); /* the lower one is held meanwhile */
    reply(d, BUSY, NULL);
    wake(d);
    expect_sent(d, "5 txn.fetch name.001 ");
    reply(d, ENTRIES_5, NULL);
    expect_sent(d, "5 txn.prepare name.001 ");
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, "-", NULL);
    end_with(d, TXN_DONE);
}

static void what_stays_taken_ends_it_in_time(void **state)
{
    struct desk *d = started();
    int64_t began = d->now_ms;
    reply(d, BUSY, ENTRIES_5);
    reply(d, OK, OK);
    while (!d->settled) {
        reply(d, BUSY, NULL);
        if (!d->settled) wake(d);
    }
    assert_in_range(d->now_ms - began, 5000, 5100);
    expect_sent(d, "3 txn.drop name.001");
    reply(d, OK, NULL);
    end_with(d, TXN_BUSY);
}

static void a_key_that_has_moved_is_looked_for_where_it_is_now(void **state)
{
    struct desk *d = started();
    d->group_of_a = 7;
    reply(d, ENTRIES_3, MOVED);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    expect_sent(d, "3 txn.fetch name.001 2 0 w b 1 r c; 7 txn.fetch name.001 1 0 w a"); /* nobody was in its way: side by side */
    reply(d, ENTRIES_3, ENTRIES_5);
    expect_sent(d, "7 txn.prepare name.001 ");
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    assert_int_equal(d->runs, 1);
    end_with(d, TXN_DONE);
}

static void a_key_that_moves_is_waited_for_if_the_map_does_not_know_yet(void **state)
{
    struct desk *d = started();
    uint32_t sends = 0;
    for (int i = 0; i < 3; i++) {
        reply(d, BUSY, MOVED); /* that it moves weighs more: where it is looked for is wrong */
        reply(d, OK, OK);
        sends = d->sends;
        d->group_of_a = i == 2 ? 3 : 5;
        wake(d);
    }
    assert_int_equal(d->sends, sends + 1);
    expect_sent(d, "3 txn.fetch name.003 3 0 w a 0 w b 1 r c"); /* by now it is in the other group */
    reply(d, "*4\r\n$16\r\n" TOKEN "\r\n$1\r\nA\r\n$1\r\nB\r\n$-1\r\n", NULL);
    expect_sent(d, "3 txn.decide name.003 ");
    reply(d, OK, NULL);
    expect_sent(d, "3 txn.forget name.003");
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void a_key_that_is_never_found_ends_it_in_time(void **state)
{
    struct desk *d = started();
    int64_t began = d->now_ms;
    while (!d->settled) {
        reply(d, ENTRIES_3, MOVED);
        reply(d, OK, OK);
        if (!d->settled) wake(d);
    }
    assert_in_range(d->now_ms - began, 5000, 5100);
    end_with(d, TXN_BUSY);
}

static void a_lost_reservation_makes_it_begin_anew(void **state)
{
    struct desk *d = started();
    fetch(d);
    reply(d, GONE, NULL);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    expect_sent(d, "3 txn.fetch name.001 ");
    reply(d, ENTRIES_3, NULL);
    reply(d, ENTRIES_5, NULL);
    reply(d, OK, NULL);
    reply(d, GONE, NULL); /* in the deciding group */
    expect_sent(d, "3 txn.drop name.001; 5 txn.drop name.001");
    reply(d, "-", "?"); /* an intent may be left: it is looked after by others */
    expect_sent(d, "3 txn.fetch name.002 ");
    reply(d, "-", NULL);
    expect_sent(d, "3 txn.drop name.002");
    reply(d, OK, NULL);
    end_with(d, TXN_NOBODY);
}

static void a_group_that_nobody_leads_means_that_nothing_happened(void **state)
{
    struct desk *d = started();
    reply(d, ENTRIES_3, "-");
    reply(d, OK, OK);
    end_with(d, TXN_NOBODY);
    d = started();
    fetch(d);
    reply(d, "?", NULL); /* an intent decides nothing */
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    end_with(d, TXN_NOBODY);
    d = started();
    prepare(d);
    reply(d, "-", NULL); /* nor does a decision that certainly was not made */
    reply(d, OK, OK);
    end_with(d, TXN_NOBODY);
}

static void a_decision_that_may_have_been_made_is_asked_for(void **state)
{
    struct desk *d = started();
    prepare(d);
    reply(d, "?", NULL);
    expect_sent(d, "3 txn.ask name.000");
    reply(d, "-", NULL);
    wake(d);
    expect_sent(d, "3 txn.ask name.000");
    reply(d, "+committed\r\n", NULL);
    assert_true(d->settled);
    expect_sent(d, "5 txn.commit name.000");
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void a_decision_that_was_not_made_is_tried_again_under_another_name(void **state)
{
    struct desk *d = started();
    prepare(d);
    reply(d, "?", NULL);
    reply(d, "+none\r\n", NULL);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    expect_sent(d, "3 txn.fetch name.001 ");
    reply(d, ENTRIES_3, NULL);
    reply(d, ENTRIES_5, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void a_decision_that_nobody_can_tell_of_is_uncertain_and_nothing_is_dropped(void **state)
{
    struct desk *d = started();
    prepare(d);
    reply(d, "?", NULL);
    uint32_t sends = d->sends;
    while (!d->over) {
        expect_sent(d, "3 txn.ask name.000");
        reply(d, "-", NULL);
        if (!d->over) wake(d), sends++;
    }
    assert_int_equal(d->sends, sends);
    end_with(d, TXN_UNCERTAIN);
}

static void none_is_not_believed_when_a_decision_may_have_been_forgotten(void **state)
{
    struct desk *d = started();
    prepare(d);
    reply(d, "?", NULL);
    d->now_ms += TXNCMD_ASKED_MS;
    reply(d, "+none\r\n", NULL);
    end_with(d, TXN_UNCERTAIN);
}

static void an_error_of_a_group_is_the_answer(void **state)
{
    struct desk *d = started();
    fetch(d);
    reply(d, "-OOM no room\r\n", NULL);
    assert_true(slice_eq(txn_error(d->txn), SLICE("-OOM no room\r\n")));
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    end_with(d, TXN_REFUSED);
    d = started();
    reply(d, "*1\r\n$16\r\n" TOKEN "\r\n", ENTRIES_5); /* of too few keys */
    reply(d, OK, OK);
    end_with(d, TXN_REFUSED);
}

static void what_is_not_to_happen_is_dropped(void **state)
{
    struct desk *d = desk_new();
    d->stop = true;
    txn_start(d->txn, d->now_ms, 5000);
    fetch(d);
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    end_with(d, TXN_STOPPED);
}

static void watched_keys_are_checked_where_they_are_fetched(void **state)
{
    struct txn_key watched[3];
    memcpy(watched, keys, sizeof keys);
    watched[0].digest = SLICE("as-it-was");
    watched[2].digest = SLICE("so");
    struct desk *d = desk_with(watched);
    txn_start(d->txn, d->now_ms, 5000);
    expect_sent(d, "3 txn.fetch name.000 2 0 w b 1 r c 1 1 c so; 5 txn.fetch name.000 1 0 w a 1 0 a as-it-was");
    reply(d, ENTRIES_3, "-TXNCHANGED a watched key is another now\r\n");
    expect_sent(d, "3 txn.drop name.000; 5 txn.drop name.000");
    reply(d, OK, OK);
    end_with(d, TXN_CHANGED);
}

static void without_a_map_it_waits(void **state)
{
    struct desk *d = desk_new();
    d->no_map = true;
    txn_start(d->txn, d->now_ms, 5000);
    wake(d);
    wake(d);
    assert_int_equal(d->sends, 0);
    d->no_map = false;
    wake(d);
    assert_int_equal(d->sends, 1);
    reply(d, ENTRIES_3, "-");
    reply(d, OK, OK);
    end_with(d, TXN_NOBODY);
    d = desk_new();
    d->no_map = true;
    txn_start(d->txn, d->now_ms, 5000);
    while (!d->over) wake(d);
    end_with(d, TXN_NOBODY);
}

/* ---- asks: a walk over the groups 5 and 3, in this order, instead of keys */

static void walk_on(void *ctx, struct txn *t)
{
    static const uint32_t groups[] = {5, 3};
    struct desk *d = ctx;
    const struct slice words[] = {SLICE("from"), SLICE("to")};
    uint32_t from = txn_asked(t), to = from ? 2 : d->reached ? d->reached : 1;
    if (d->stop) to = 1; /* what is there is enough */
    for (uint32_t i = from; i < to; i++) txn_ask(t, groups[i], "walk", words, 2);
    if (to > d->reached) d->reached = to;
}

static bool run_walk(void *ctx, struct txn *t)
{
    struct desk *d = ctx;
    d->runs++;
    assert_int_equal(txn_asked(t), d->stop ? 1 : 2);
    for (uint32_t i = 0; i < txn_asked(t); i++) assert_true(slice_eq(txn_told(t, i), txn_group(t, i) == 5 ? SLICE("*1\r\n:5\r\n") : SLICE(":3\r\n")));
    if (d->writes_a) txn_write_there(t, 0, SLICE("x"));
    if (d->writes_b) txn_write_there(t, 1, SLICE("yy"));
    return true;
}

static struct desk *walking(bool writes, bool enough)
{
    struct desk *d = mem_zalloc(sizeof *d);
    d->writes_a = d->writes_b = writes;
    d->stop = enough;
    d->now_ms = 1000000;
    struct txn_host host = {.ctx = d, .send = send, .run = run_walk, .settled = settled, .over = over, .asks = walk_on};
    d->txn = txn_new(&host, SLICE("name"), NULL, 0);
    txn_start(d->txn, d->now_ms, 5000);
    return d;
}

#define TOLD_5 "*2\r\n$16\r\n" TOKEN "\r\n*1\r\n:5\r\n"
#define TOLD_3 "*2\r\n$16\r\n" TOKEN "\r\n:3\r\n"

static void a_walk_asks_one_group_after_the_other_and_is_confirmed_in_all(void **state)
{
    struct desk *d = walking(false, false);
    expect_sent(d, "5 walk name.000 from to");
    reply(d, TOLD_5, NULL);
    expect_sent(d, "3 walk name.000 from to");
    reply(d, TOLD_3, NULL);
    expect_sent(d, "5 txn.done name.000 " TOKEN "; 3 txn.done name.000 " TOKEN);
    assert_false(d->settled);
    reply(d, OK, OK);
    end_with(d, TXN_DONE);
}

static void a_walk_that_was_not_held_to_the_end_begins_anew(void **state)
{
    struct desk *d = walking(false, false);
    reply(d, TOLD_5, NULL);
    reply(d, TOLD_3, NULL);
    reply(d, GONE, OK);
    expect_sent(d, "5 txn.drop name.000; 3 txn.drop name.000");
    reply(d, OK, OK);
    expect_sent(d, "3 walk name.001 from to");
    reply(d, TOLD_3, NULL);
    expect_sent(d, "5 walk name.001 from to");
    reply(d, TOLD_5, NULL);
    reply(d, OK, OK);
    assert_int_equal(d->runs, 2);
    end_with(d, TXN_DONE);
}

/* Two spans of one group. */
static void ask_twice(void *ctx, struct txn *t)
{
    const struct slice words[] = {SLICE("span")};
    if (txn_asked(t)) return;
    txn_ask(t, 5, "walk", words, 1);
    txn_ask(t, 5, "walk", words, 1);
}

static bool run_twice(void *ctx, struct txn *t)
{
    ((struct desk *)ctx)->runs++;
    return true;
}

static void a_group_that_lost_what_it_reserved_between_two_answers_is_asked_anew(void **state)
{
    struct desk *d = mem_zalloc(sizeof *d);
    struct txn_host host = {.ctx = d, .send = send, .run = run_twice, .settled = settled, .over = over, .asks = ask_twice};
    d->now_ms = 1000000;
    d->txn = txn_new(&host, SLICE("name"), NULL, 0);
    txn_start(d->txn, d->now_ms, 5000);
    expect_sent(d, "5 walk name.000 span; 5 walk name.000 span");
    reply(d, TOLD_5, "*2\r\n$16\r\nfedcba9876543210\r\n*1\r\n:5\r\n"); /* of another leader */
    expect_sent(d, "5 txn.drop name.000");
    assert_int_equal(d->runs, 0);
    reply(d, OK, NULL);
    expect_sent(d, "5 walk name.001 span; 5 walk name.001 span");
    reply(d, TOLD_5, TOLD_5);
    expect_sent(d, "5 txn.done name.001 " TOKEN);
    reply(d, OK, NULL);
    assert_int_equal(d->runs, 1);
    end_with(d, TXN_DONE);
}

static void a_walk_never_waits_at_a_group_below_one_that_it_has(void **state)
{
    struct desk *d = walking(false, false);
    reply(d, TOLD_5, NULL);
    reply(d, BUSY, NULL);
    expect_sent(d, "5 txn.drop name.000; 3 txn.drop name.000"); /* who has 3 may be waiting for 5 */
    reply(d, OK, OK);
    expect_sent(d, "3 walk name.001 from to"); /* in ascending order now: here it can wait */
    reply(d, BUSY, NULL);
    wake(d);
    expect_sent(d, "3 walk name.001 from to");
    reply(d, TOLD_3, NULL);
    reply(d, BUSY, NULL);
    wake(d);
    expect_sent(d, "5 walk name.001 from to");
    reply(d, TOLD_5, NULL);
    reply(d, OK, OK);
    end_with(d, TXN_DONE);
}

static void a_walk_goes_where_its_keys_have_moved(void **state)
{
    struct desk *d = walking(false, true);
    reply(d, MOVED, NULL);
    expect_sent(d, "5 txn.drop name.000");
    reply(d, OK, NULL);
    if (txn_wakes_ms(d->txn) < INT64_MAX) wake(d);
    expect_sent(d, "5 walk name.001 from to");
    reply(d, TOLD_5, NULL);
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void what_one_group_tells_and_keeps_nothing_for_needs_no_confirmation(void **state)
{
    struct desk *d = walking(false, true);
    uint32_t sends = d->sends;
    reply(d, "*2\r\n$-1\r\n*1\r\n:5\r\n", NULL);
    assert_int_equal(d->sends, sends);
    end_with(d, TXN_DONE);
}

static void what_a_walk_writes_is_written_where_it_was_asked(void **state)
{
    struct desk *d = walking(true, false);
    reply(d, TOLD_5, NULL);
    reply(d, TOLD_3, NULL);
    expect_sent(d, "5 txn.prepare name.000 " TOKEN " 3 ");
    reply(d, OK, NULL);
    expect_sent(d, "3 txn.decide name.000 " TOKEN " 1 5 ");
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    reply(d, OK, NULL);
    end_with(d, TXN_DONE);
}

static void an_answer_to_a_walk_that_makes_no_sense_is_an_error(void **state)
{
    static const char *const answers[] = {"*1\r\n:1\r\n", "*2\r\n$3\r\nabc\r\n:1\r\n", "*2\r\n:1\r\n:1\r\n", "*2\r\n$-1\r\n", "*2\r\n$-1\r\n:1\r\n:1\r\n", ":1\r\n"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct desk *d = walking(false, true);
        reply(d, answers[i], NULL);
        expect_sent(d, "5 txn.drop name.000");
        reply(d, OK, NULL);
        end_with(d, TXN_REFUSED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_fetches_prepares_decides_commits_and_forgets),
        cmocka_unit_test(a_commit_that_is_not_answered_leaves_the_decision),
        cmocka_unit_test(a_read_is_whole_if_all_was_held_to_the_end),
        cmocka_unit_test(what_is_taken_is_waited_for_in_ascending_order),
        cmocka_unit_test(what_stays_taken_ends_it_in_time),
        cmocka_unit_test(a_key_that_has_moved_is_looked_for_where_it_is_now),
        cmocka_unit_test(a_key_that_moves_is_waited_for_if_the_map_does_not_know_yet),
        cmocka_unit_test(a_key_that_is_never_found_ends_it_in_time),
        cmocka_unit_test(a_lost_reservation_makes_it_begin_anew),
        cmocka_unit_test(a_group_that_nobody_leads_means_that_nothing_happened),
        cmocka_unit_test(a_decision_that_may_have_been_made_is_asked_for),
        cmocka_unit_test(a_decision_that_was_not_made_is_tried_again_under_another_name),
        cmocka_unit_test(a_decision_that_nobody_can_tell_of_is_uncertain_and_nothing_is_dropped),
        cmocka_unit_test(none_is_not_believed_when_a_decision_may_have_been_forgotten),
        cmocka_unit_test(an_error_of_a_group_is_the_answer),
        cmocka_unit_test(what_is_not_to_happen_is_dropped),
        cmocka_unit_test(watched_keys_are_checked_where_they_are_fetched),
        cmocka_unit_test(without_a_map_it_waits),
        cmocka_unit_test(a_walk_asks_one_group_after_the_other_and_is_confirmed_in_all),
        cmocka_unit_test(a_group_that_lost_what_it_reserved_between_two_answers_is_asked_anew),
        cmocka_unit_test(a_walk_that_was_not_held_to_the_end_begins_anew),
        cmocka_unit_test(a_walk_never_waits_at_a_group_below_one_that_it_has),
        cmocka_unit_test(a_walk_goes_where_its_keys_have_moved),
        cmocka_unit_test(what_one_group_tells_and_keeps_nothing_for_needs_no_confirmation),
        cmocka_unit_test(what_a_walk_writes_is_written_where_it_was_asked),
        cmocka_unit_test(an_answer_to_a_walk_that_makes_no_sense_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
