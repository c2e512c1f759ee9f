#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/keyhash.h"
#include "oprandom.h"
#include "store/fits.h"

static const struct store_limits limits = {
    .hash_entries = 8, .hash_value = 20, .set_ints = 6, .set_entries = 8, .set_value = 20, .zset_entries = 8, .zset_value = 20,
    .list_size = 5, .lfu_log_factor = 10, .lfu_decay_minutes = 1,
};

static const struct slice keys[] = {{"a", 1}, {"bb", 2}, {"", 0}, {"a rather long key, but not too long", 35}};

/* Few keys in two databases, small numbers: ops meet entries of every type, and fit about as often as not. */
static struct op next_op(struct oprandom *r)
{
    struct op op = oprandom_next(r);
    op.db %= 2;
    if (op.kind == OP_SWAP) op.index %= 2;
    else if (op.kind != OP_FLUSH) op.key = keys[rng_below(&r->rng, 4)];
    if (op.kind != OP_SWAP && rng_below(&r->rng, 4)) op.index %= 6;
    if (rng_below(&r->rng, 4)) op.count %= 6;
    if (op.kind == OP_WRITE_RANGE) op.index %= 1000;
    if (op.kind == OP_FLUSH && rng_below(&r->rng, 8)) op.kind = OP_SWAP;
    return op;
}

static bool aborts(struct store *s, const struct op *op)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit no_core = {0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        store_apply(s, op, NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void ops_that_fit_are_applied_and_others_would_have_aborted(void **state)
{
    enum { STEPS = 30000, TRIED = 400 };
    struct store *s = store_new(7, &limits, 1);
    struct oprandom *r = malloc(sizeof *r);
    unsigned long fit[OP_KINDS] = {0}, unfit[OP_KINDS] = {0}, tried = 0;
    oprandom_init(r, 11);
    r->string_max = 200;
    for (int i = 0; i < STEPS; i++) {
        struct op op = next_op(r);
        struct place at;
        if (fits_op(s, &op, keyhash(op.key, s->seed), &at)) {
            fit[op.kind]++;
            store_apply(s, &op, op.kind == OP_FLUSH || op.kind == OP_SWAP ? NULL : &at);
        } else if (unfit[op.kind]++ < TRIED / 16) {
            assert_true(aborts(s, &op));
            tried++;
        }
        if (i % 1000 == 0) store_check(s);
    }
    for (int k = 0; k < OP_KINDS; k++) assert_true(fit[k] > 10);
    assert_true(tried > TRIED / 2);
    assert_int_equal(unfit[OP_SET] + unfit[OP_DEL] + unfit[OP_FLUSH] + unfit[OP_SWAP] + unfit[OP_RESTORE], 0);
    store_check(s);
    store_free(s);
    free(r);
}

static void numbers_that_no_store_takes_do_not_fit(void **state)
{
    struct store *s = store_new(7, &limits, 1);
    struct slice item = SLICE("m");
    double nan_score = NAN;
    struct place at;
    const struct op ops[] = {
        {.kind = OP_DEL, .db = STORE_ALL_DBS, .key = item},
        {.kind = OP_SWAP, .index = STORE_SYSTEM_DB},
        {.kind = OP_SWAP, .db = STORE_SYSTEM_DB},
        {.kind = OP_SWAP, .index = -1},
        {.kind = OP_KINDS, .key = item},
        {.kind = OP_PUSH_TAIL, .key = item},
        {.kind = OP_HASH_SET, .key = item, .items = &item, .n_items = 1},
        {.kind = OP_ZSET_ADD, .key = item, .items = &item, .scores = &nan_score, .n_items = 1},
        {.kind = OP_WRITE_RANGE, .key = item, .value = item, .index = UINT32_MAX},
        {.kind = OP_WRITE_RANGE, .key = item, .value = item, .index = -1},
        {.kind = OP_RESTORE, .key = item, .value = SLICE("\x01")},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) assert_false(fits_op(s, &ops[i], keyhash(ops[i].key, s->seed), &at));
    store_free(s);
}

static void a_key_past_its_expiry_is_still_there(void **state)
{
    struct store *s = store_new(7, &limits, 1);
    struct place at;
    s->now_ms = 1000;
    store_apply(s, &(struct op){.kind = OP_SET, .key = SLICE("k"), .value = SLICE("v"), .expiry_ms = 10}, NULL);
    struct op append = {.kind = OP_APPEND, .key = SLICE("k"), .value = SLICE("w")};
    assert_true(fits_op(s, &append, keyhash(append.key, s->seed), &at));
    assert_non_null(at.e);
    store_apply(s, &append, &at);
    assert_int_equal(entry_expiry_ms(at.e), 10);
    assert_true(slice_eq(entry_value(at.e), SLICE("vw")));
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_that_fit_are_applied_and_others_would_have_aborted),
        cmocka_unit_test(numbers_that_no_store_takes_do_not_fit),
        cmocka_unit_test(a_key_past_its_expiry_is_still_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
