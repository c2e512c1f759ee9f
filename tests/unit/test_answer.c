/* Replies of other nodes, read value by value. */
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
#include "base/rng.h"
#include "resp/answer.h"
#include "resp/reply.h"

static struct answer next_of(const char *text)
{
    struct answer a;
    struct slice in = slice_str(text);
    assert_true(answer_next(&in, &a));
    return a;
}

static void values_are_what_they_were_written_as(void **state)
{
    assert_true(slice_eq(next_of("+OK\r\n").text, SLICE("OK")));
    assert_true(slice_eq(next_of("-ERR no\r\n").text, SLICE("ERR no")));
    assert_int_equal(next_of(":-17\r\n").n, -17);
    assert_true(slice_eq(next_of("$4\r\na\r\nb\r\n").text, SLICE("a\r\nb")));
    assert_true(slice_eq(next_of("$0\r\n\r\n").text, SLICE("")));
    assert_int_equal(next_of("*3\r\n").n, 3);
    assert_int_equal(next_of("%2\r\n").n, 2);
    assert_true(slice_eq(next_of(",1.5\r\n").text, SLICE("1.5")));
    assert_int_equal(next_of("$-1\r\n").type, '_');
    assert_int_equal(next_of("*-1\r\n").type, '_');
    assert_int_equal(next_of("_\r\n").type, '_');
}

static void what_is_no_value_is_refused(void **state)
{
    static const char *const texts[] = {"", "\r\n", "+OK", "+OK\r", "x\r\n", ":\r\n", ":1x\r\n", "$5\r\nabc\r\n", "$3\r\nabcd\r\n", "$-2\r\n", "*-7\r\n", "$99999999999999999999\r\n", "$\r\n"};
    struct answer a;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct slice in = slice_str(texts[i]);
        if (answer_next(&in, &a)) fail_msg("%s is taken for a value", texts[i]);
    }
}

static void errors_are_known_by_their_code(void **state)
{
    assert_true(answer_is_error(SLICE("-TXNBUSY taken\r\n"), "TXNBUSY"));
    assert_true(answer_is_error(SLICE("-TXNBUSY\r\n"), "TXNBUSY"));
    assert_false(answer_is_error(SLICE("-TXNBUSYBODY\r\n"), "TXNBUSY"));
    assert_false(answer_is_error(SLICE("+TXNBUSY\r\n"), "TXNBUSY"));
    assert_false(answer_is_error(SLICE("-TXN"), "TXNBUSY"));
    assert_false(answer_is_error(SLICE(""), "TXNBUSY"));
}

/* A random value, with random values in it. */
static void write_value(struct rng *rng, struct reply *r, int depth)
{
    uint64_t n = rng_below(rng, 4);
    switch (rng_below(rng, depth > 4 ? 7 : 10)) {
    case 0: reply_ok(r); break;
    case 1: reply_int(r, (int64_t)rng_u64(rng)); break;
    case 2: reply_bulk(r, SLICE("*3\r\n$1\r\n")); break; /* bytes that look like one */
    case 3: reply_null(r); break;
    case 4: reply_double(r, 0.5); break;
    case 5: reply_error(r, "ERR no"); break;
    case 6: reply_bool(r, true); break;
    case 7:
        reply_array(r, n);
        for (uint64_t i = 0; i < n; i++) write_value(rng, r, depth + 1);
        break;
    case 8:
        reply_map(r, n);
        for (uint64_t i = 0; i < 2 * n; i++) write_value(rng, r, depth + 1);
        break;
    default:
        reply_set(r, n);
        for (uint64_t i = 0; i < n; i++) write_value(rng, r, depth + 1);
    }
}

static void whole_values_end_where_they_were_written_to(void **state)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (int turn = 0; turn < 3000; turn++) {
        struct buf out = {0};
        struct reply r = {.out = &out, .resp = turn % 2 ? 3 : 2};
        size_t ends[5];
        for (int i = 0; i < 5; i++) {
            write_value(&rng, &r, 0);
            ends[i] = out.len;
        }
        struct slice in = buf_slice(&out), value;
        for (int i = 0; i < 5; i++) {
            assert_true(answer_whole(&in, &value));
            assert_ptr_equal(value.p, out.p + (i ? ends[i - 1] : 0));
            assert_ptr_equal(in.p, out.p + ends[i]);
        }
        struct slice cut = slice_of(mem_dup(out.p, ends[0]), ends[0] - 1); /* the last byte is missing */
        const char *copy = cut.p;
        assert_false(answer_whole(&cut, &value));
        mem_free((void *)copy);
        buf_fini(&out);
    }
}

static void values_that_are_too_deep_are_refused(void **state)
{
    struct buf out = {0};
    for (int i = 0; i < 100; i++) buf_add_str(&out, "*1\r\n");
    buf_add_str(&out, ":1\r\n");
    struct slice in = buf_slice(&out), value;
    assert_false(answer_whole(&in, &value));
    buf_fini(&out);
}

static void any_bytes_do_no_harm(void **state)
{
    static const char letters[] = "+-:$*%~_,#\r\n0123456789a";
    struct rng rng;
    rng_init(&rng, 6);
    for (int turn = 0; turn < 20000; turn++) {
        size_t n = rng_below(&rng, 40);
        char *bytes = mem_alloc(n + 1);
        for (size_t i = 0; i < n; i++) bytes[i] = letters[rng_below(&rng, sizeof letters - 1)];
        char *own = mem_dup(bytes, n ? n : 1); /* of exactly this length: a sanitizer sees what is read behind it */
        struct slice in = slice_of(own, n), value;
        while (answer_whole(&in, &value)) assert_true(value.n > 0);
        mem_free(own);
        mem_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_what_they_were_written_as),
        cmocka_unit_test(what_is_no_value_is_refused),
        cmocka_unit_test(errors_are_known_by_their_code),
        cmocka_unit_test(whole_values_end_where_they_were_written_to),
        cmocka_unit_test(values_that_are_too_deep_are_refused),
        cmocka_unit_test(any_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
