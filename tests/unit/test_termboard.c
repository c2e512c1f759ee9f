/* What workers are told of Raft groups: one thread writes, others read, and what they read belongs together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "cluster/termboard.h"

enum { GROUPS = 8, READERS = 3, PUTS = 200000 };

static void what_was_put_is_read(void **state)
{
    struct termboard *b = termboard_new(GROUPS);
    struct termboard_group got = {.term = 1, .n_voters = 1};
    for (uint32_t g = 0; g < GROUPS; g++) {
        termboard_get(b, g, &got);
        assert_int_equal(got.term, 0);
        assert_int_equal(got.n_voters, 0);
        assert_int_equal(termboard_term(b, g), 0);
    }
    struct termboard_group what = {.term = 7, .n_voters = 3, .voters = {1, 5, 9}};
    termboard_put(b, 3, &what);
    termboard_get(b, 3, &got);
    assert_int_equal(got.term, 7);
    assert_int_equal(got.n_voters, 3);
    assert_memory_equal(got.voters, what.voters, 3 * sizeof what.voters[0]);
    assert_int_equal(termboard_term(b, 3), 7);
    assert_int_equal(termboard_term(b, 2), 0);
    what.n_voters = RAFTNODE_MEMBERS_MAX;
    what.term = 8;
    termboard_put(b, 3, &what);
    termboard_get(b, 3, &got);
    assert_int_equal(got.term, 8);
    assert_int_equal(got.n_voters, RAFTNODE_MEMBERS_MAX);
    termboard_free(b);
}

static void a_group_that_is_dropped_or_was_never_there_has_no_term(void **state)
{
    struct termboard *b = termboard_new(GROUPS);
    struct termboard_group got;
    termboard_put(b, 0, &(struct termboard_group){.term = 7, .n_voters = 1, .voters = {1}});
    termboard_put(b, 0, &(struct termboard_group){0});
    termboard_get(b, 0, &got);
    assert_int_equal(got.term, 0);
    assert_int_equal(got.n_voters, 0);
    assert_int_equal(termboard_term(b, 0), 0);
    assert_int_equal(termboard_term(b, GROUPS), 0); /* others may ask for any number */
    assert_int_equal(termboard_term(b, UINT32_MAX), 0);
    termboard_get(b, UINT32_MAX, &got);
    assert_int_equal(got.term, 0);
    termboard_free(b);
}

/* ---- threads */

struct watch {
    struct termboard *board;
    atomic_bool over;
    _Atomic uint64_t reads, changes; /* of all readers */
};

/* All else follows from the term. */
static struct termboard_group of_term(uint64_t term)
{
    struct termboard_group g = {.term = term, .n_voters = 1 + (uint32_t)(term % RAFTNODE_MEMBERS_MAX)};
    for (uint32_t i = 0; i < g.n_voters; i++) g.voters[i] = term * 100 + i;
    return g;
}

static void check(const struct termboard_group *got, uint64_t last)
{
    struct termboard_group want = got->term ? of_term(got->term) : (struct termboard_group){0};
    CHECK(got->term >= last); /* never back */
    CHECK(got->n_voters == want.n_voters && memcmp(got->voters, want.voters, want.n_voters * sizeof want.voters[0]) == 0);
}

static void *read_on(void *arg)
{
    struct watch *w = arg;
    uint64_t last = 0;
    struct termboard_group got;
    while (!atomic_load(&w->over)) {
        termboard_get(w->board, 1, &got);
        check(&got, last);
        if (got.term != last) atomic_fetch_add(&w->changes, 1);
        last = got.term;
        uint64_t term = termboard_term(w->board, 1);
        CHECK(term >= last);
        atomic_fetch_add(&w->reads, 1);
    }
    return NULL;
}

static void readers_see_what_was_put_together(void **state)
{
    struct watch w = {.board = termboard_new(GROUPS)};
    pthread_t readers[READERS];
    uint64_t term = 0;
    for (uint32_t i = 0; i < READERS; i++) assert_int_equal(pthread_create(&readers[i], NULL, read_on, &w), 0);
    while (term < PUTS || atomic_load(&w.changes) < 1000) { /* until they have seen enough of it */
        struct termboard_group what = of_term(++term);
        termboard_put(w.board, 1, &what);
    }
    atomic_store(&w.over, true);
    for (uint32_t i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    assert_true(atomic_load(&w.reads) >= 1000);
    assert_int_equal(termboard_term(w.board, 1), term);
    termboard_free(w.board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_read),
        cmocka_unit_test(a_group_that_is_dropped_or_was_never_there_has_no_term),
        cmocka_unit_test(readers_see_what_was_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
