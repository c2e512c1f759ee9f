/* A driver of an operation that carries keys, step by step: what it asks of groups and tells group 1. tests/unit/test_mover.c has the walk at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "cluster/mover.h"
#include "route/spaces.h"

struct script {
    char command[16]; /* that was sent last; empty: none */
    bool tells;
    enum metaops_step to;
    struct buf boundary;
    uint64_t now_ms;
    uint32_t to_group, argc; /* of the first request */
    struct mover *mover;
    struct space_map *map;
};

static void script_send(void *ctx, struct mover *m, uint64_t op, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct script *s = ctx;
    snprintf(s->command, sizeof s->command, "%.*s", (int)requests[0].argv[0].n, requests[0].argv[0].p);
    s->to_group = requests[0].group;
    s->argc = requests[0].argc;
}

static void script_tell(void *ctx, struct mover *m, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    struct script *s = ctx;
    s->tells = true;
    s->to = to;
    s->boundary.len = 0;
    buf_add_slice(&s->boundary, boundary);
}

static uint64_t script_now(void *ctx) { return ((struct script *)ctx)->now_ms; }

static void begin(struct script *s)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX};
    *s = (struct script){.now_ms = 1, .map = spaces_new(&(struct route){.seed = 5}, SPACE_BUCKET, &all, 1, 7)};
    s->mover = mover_new(&(struct mover_host){s, script_send, script_tell, script_now});
}

static void end(struct script *s)
{
    mover_free(s->mover);
    spaces_unref(s->map);
    buf_fini(&s->boundary);
}

/* Group 1 has the operation, which carries all of space "s" from group 2 to group 3. */
static void drive(struct script *s, uint64_t term, uint32_t n)
{
    const struct holding_piece from = {.group = 2}, to = {.group = 3};
    const struct mover_op op = {.plan = {.op = 1, .space = SLICE("s"), .old_side = {.n = 1, .pieces = &from}, .new_side = {.n = 1, .pieces = &to}}, .step = METAOPS_WALKING};
    mover_drive(s->mover, term, s->map, &op, n);
}

#define AT_THE_BEGINNING SLICE("*3\r\n$1\r\n-\r\n$1\r\n-\r\n$1\r\n-\r\n")
#define ONE_ENTRY SLICE("*1\r\n*4\r\n:3\r\n*1\r\n$5\r\nentry\r\n*0\r\n$0\r\n\r\n")
#define NO_ENTRY SLICE("*1\r\n*4\r\n:3\r\n*0\r\n*0\r\n$0\r\n\r\n")
#define TWO_LARGE SLICE("*1\r\n*4\r\n:3\r\n*0\r\n*2\r\n$5\r\nlarge\r\n$5\r\nother\r\n$0\r\n\r\n")
#define PIECE SLICE("*2\r\n$4\r\nnext\r\n$5\r\npiece\r\n")
#define LAST_PIECE SLICE("*2\r\n$0\r\n\r\n$5\r\npiece\r\n")
#define OK SLICE("+OK\r\n")

/* What was asked is answered so, by all groups. */
static void answers(struct script *s, const char *command, uint32_t n, struct slice reply)
{
    struct txn_answer a[2] = {{TXN_ANSWERED, reply}, {TXN_ANSWERED, reply}};
    assert_string_equal(s->command, command);
    s->command[0] = 0;
    mover_answered(s->mover, 1, a, n);
}

static void nobody_answers(struct script *s, const char *command, uint32_t n)
{
    struct txn_answer a[2] = {{.fate = TXN_NOT_DONE}, {.fate = TXN_NOT_DONE}};
    assert_string_equal(s->command, command);
    s->command[0] = 0;
    mover_answered(s->mover, 1, a, n);
}

static void target_answers(struct script *s)
{
    assert_int_equal(s->to_group, 3);
    answers(s, "carry.measure", 1, SLICE("$1\r\n+\r\n"));
}

static void time_passes(struct script *s)
{
    assert_string_equal(s->command, "");
    assert_true(mover_wakes_ms(s->mover) > s->now_ms && mover_wakes_ms(s->mover) < s->now_ms + 1000);
    s->now_ms = mover_wakes_ms(s->mover);
    mover_turn(s->mover);
}

static void the_map_is_told_a_boundary_that_it_can_have(void **unused)
{
    struct script s;
    struct buf bound = {0};
    char key[META_KEY_MAX + 1000];
    memset(key, 'k', sizeof key);
    memcpy(key, "(s/", 3);
    buf_printf(&bound, "$%zu\r\n", sizeof key);
    buf_add(&bound, key, sizeof key);
    buf_add_str(&bound, "\r\n");

    begin(&s);
    drive(&s, 3, 1);
    answers(&s, "carry.begin", 2, AT_THE_BEGINNING);
    answers(&s, "carry.measure", 2, buf_slice(&bound));
    answers(&s, "carry.freeze", 1, ONE_ENTRY);
    answers(&s, "carry.take", 1, OK);
    assert_true(s.tells && s.to == METAOPS_WALKING && s.boundary.len == META_KEY_MAX && memcmp(s.boundary.p, key + 1, META_KEY_MAX) == 0);
    assert_true(mover_counts(s.mover)->keys == 1 && mover_counts(s.mover)->slices == 1);
    mover_told(s.mover, 1, 8);
    answers(&s, "carry.measure", 2, SLICE("$1\r\n+\r\n"));
    answers(&s, "carry.freeze", 1, NO_ENTRY);
    answers(&s, "carry.take", 1, OK);
    assert_true(s.to == METAOPS_CARRIED && s.boundary.len == 0);
    end(&s);
    buf_fini(&bound);
}

static void large_values_go_before_their_slice_and_one_that_has_expired_is_not_spoken_of(void **unused)
{
    struct script s;
    begin(&s);
    drive(&s, 3, 1);
    answers(&s, "carry.begin", 2, AT_THE_BEGINNING);
    answers(&s, "carry.measure", 2, SLICE("$1\r\n+\r\n"));
    answers(&s, "carry.freeze", 1, TWO_LARGE);
    assert_int_equal(s.to_group, 2);
    answers(&s, "carry.piece", 1, PIECE);
    assert_int_equal(s.to_group, 3);
    answers(&s, "carry.put", 1, OK);
    answers(&s, "carry.piece", 1, LAST_PIECE);
    answers(&s, "carry.put", 1, SLICE("-CARRYLACKS\r\n")); /* then all of it goes again */
    s.now_ms += 1000;
    mover_turn(s.mover);
    answers(&s, "carry.freeze", 1, TWO_LARGE);
    answers(&s, "carry.piece", 1, LAST_PIECE);
    answers(&s, "carry.put", 1, OK);
    answers(&s, "carry.piece", 1, SLICE("$-1\r\n"));
    assert_string_equal(s.command, "carry.take");
    assert_int_equal(s.argc, 9); /* its name, operation, term, bound; one part: no entry, one large value, locks */
    answers(&s, "carry.take", 1, OK);
    assert_true(s.to == METAOPS_CARRIED && mover_counts(s.mover)->bytes == 5);
    end(&s);
}

/* So that a command over all keys has its turn. */
static void a_source_that_is_busy_drops_what_has_arrived_before_it_is_asked_again(void **unused)
{
    struct script s;
    begin(&s);
    drive(&s, 3, 1);
    answers(&s, "carry.begin", 2, AT_THE_BEGINNING);
    answers(&s, "carry.measure", 2, SLICE("$4\r\n(s/b\r\n"));
    answers(&s, "carry.freeze", 1, SLICE("-CARRYBUSY a transaction\r\n"));
    assert_string_equal(s.command, ""); /* nothing was given out yet */
    assert_true(mover_wakes_ms(s.mover) > s.now_ms && mover_wakes_ms(s.mover) < s.now_ms + 1000);
    s.now_ms = mover_wakes_ms(s.mover);
    mover_turn(s.mover);
    target_answers(&s);
    answers(&s, "carry.freeze", 1, ONE_ENTRY);
    answers(&s, "carry.take", 1, OK);
    mover_told(s.mover, 1, 8);
    answers(&s, "carry.measure", 2, SLICE("$4\r\n(s/d\r\n"));
    answers(&s, "carry.freeze", 1, SLICE("-CARRYBUSY a command over all keys\r\n"));
    answers(&s, "carry.drop", 1, OK);
    assert_string_equal(s.command, "");
    s.now_ms = mover_wakes_ms(s.mover);
    mover_turn(s.mover);
    target_answers(&s);
    assert_string_equal(s.command, "carry.freeze");
    assert_int_equal(mover_counts(s.mover)->busy, 2);
    end(&s);
}

/* What it sent may still be under way. */
static void a_driver_goes_on_where_it_was_if_its_term_is_the_same_and_begins_anew_in_another(void **unused)
{
    struct script s;
    begin(&s);
    drive(&s, 3, 1);
    answers(&s, "carry.begin", 2, AT_THE_BEGINNING);
    answers(&s, "carry.measure", 2, SLICE("$4\r\n(s/b\r\n"));
    drive(&s, 0, 0);
    answers(&s, "carry.freeze", 1, ONE_ENTRY);
    assert_string_equal(s.command, "");
    drive(&s, 3, 1);
    assert_string_equal(s.command, "carry.take");
    drive(&s, 4, 1);
    answers(&s, "carry.take", 1, OK); /* of the driver before */
    answers(&s, "carry.begin", 2, SLICE("*3\r\n$4\r\n(s/b\r\n$4\r\n(s/b\r\n$4\r\n(s/b\r\n"));
    assert_true(s.tells && s.to == METAOPS_WALKING && slice_is(buf_slice(&s.boundary), "s/b"));
    mover_told(s.mover, 1, 9);
    answers(&s, "carry.measure", 2, SLICE("$1\r\n+\r\n"));
    answers(&s, "carry.freeze", 1, SLICE("-CARRYOLD\r\n"));
    assert_true(s.command[0] == 0 && mover_wakes_ms(s.mover) == UINT64_MAX);
    drive(&s, 4, 0);
    end(&s);
}

/* What is frozen and not taken can be used by nobody. */
static void nothing_is_frozen_while_the_target_does_not_answer(void **unused)
{
    struct script s;
    const struct txn_answer one[2] = {{TXN_ANSWERED, SLICE("$4\r\n(s/b\r\n")}, {.fate = TXN_NOT_DONE}}, both[2] = {{TXN_ANSWERED, SLICE("$4\r\n(s/a\r\n")}, {TXN_ANSWERED, SLICE("$1\r\n+\r\n")}};
    begin(&s);
    drive(&s, 3, 1);
    answers(&s, "carry.begin", 2, AT_THE_BEGINNING);
    for (int i = 0; i < 20; i++) {
        assert_string_equal(s.command, "carry.measure");
        s.command[0] = 0;
        mover_answered(s.mover, 1, one, 2); /* the source alone */
        time_passes(&s);
    }
    assert_string_equal(s.command, "carry.measure");
    mover_answered(s.mover, 1, both, 2);
    nobody_answers(&s, "carry.freeze", 1); /* it may have been frozen or not: the target is asked first */
    for (int i = 0; i < 20; i++) {
        time_passes(&s);
        assert_int_equal(s.to_group, 3);
        nobody_answers(&s, "carry.measure", 1);
    }
    time_passes(&s);
    target_answers(&s);
    answers(&s, "carry.freeze", 1, ONE_ENTRY);
    nobody_answers(&s, "carry.take", 1); /* from here on there is no way but on */
    time_passes(&s);
    answers(&s, "carry.take", 1, OK);
    assert_true(s.tells && slice_is(buf_slice(&s.boundary), "s/a"));
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_is_told_a_boundary_that_it_can_have),
        cmocka_unit_test(large_values_go_before_their_slice_and_one_that_has_expired_is_not_spoken_of),
        cmocka_unit_test(a_source_that_is_busy_drops_what_has_arrived_before_it_is_asked_again),
        cmocka_unit_test(nothing_is_frozen_while_the_target_does_not_answer),
        cmocka_unit_test(a_driver_goes_on_where_it_was_if_its_term_is_the_same_and_begins_anew_in_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
