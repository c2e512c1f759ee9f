/* Replies byte by byte, in both protocol versions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "resp/reply.h"

/* Makes one reply with `make` in RESP2 and RESP3 and compares the bytes. */
static void expect(void (*make)(struct reply *r), const char *resp2, const char *resp3)
{
    for (uint8_t v = 2; v <= 3; v++) {
        struct buf b = {0};
        struct reply r = {&b, v};
        make(&r);
        buf_add_byte(&b, 0);
        assert_string_equal(b.p, v == 2 ? resp2 : resp3);
        buf_fini(&b);
    }
}

static void make_nulls(struct reply *r)
{
    reply_null(r);
    reply_null_array(r);
}

static void make_numbers(struct reply *r)
{
    reply_int(r, 0);
    reply_int(r, -1);
    reply_int(r, INT64_MIN);
    reply_int(r, INT64_MAX);
    reply_bulk_i64(r, 42);
    reply_bool(r, true);
    reply_bool(r, false);
}

static void make_doubles(struct reply *r)
{
    reply_double(r, 1.5);
    reply_double(r, 3);
    reply_double(r, INFINITY);
    reply_double(r, -INFINITY);
}

static void make_strings(struct reply *r)
{
    reply_ok(r);
    reply_simple(r, "PONG");
    reply_bulk(r, SLICE("a\r\nb"));
    reply_bulk(r, SLICE(""));
    reply_bulk_str(r, "twelve chars");
    reply_verbatim(r, "txt", SLICE("hi"));
}

static void make_aggregates(struct reply *r)
{
    reply_array(r, 10);
    reply_map(r, 2);
    reply_set(r, 3);
    reply_push(r, 4);
}

static void make_late_aggregates(struct reply *r)
{
    reply_int(r, 7);
    size_t outer = reply_open(r);
    size_t inner = reply_open(r);
    reply_int(r, 1);
    reply_int(r, 2);
    reply_close_map(r, inner, 1);
    inner = reply_open(r);
    reply_int(r, 3);
    reply_close_set(r, inner, 1);
    reply_close_array(r, outer, 2);
}

static void make_errors(struct reply *r)
{
    reply_error(r, reply_syntax);
    reply_errorf(r, "ERR unknown '%s'", "a\r\nb");
}

static void every_value_has_its_form_in_both_versions(void **state)
{
    expect(make_nulls, "$-1\r\n*-1\r\n", "_\r\n_\r\n");
    expect(make_numbers, ":0\r\n:-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n$2\r\n42\r\n:1\r\n:0\r\n",
           ":0\r\n:-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n$2\r\n42\r\n#t\r\n#f\r\n");
    expect(make_doubles, "$3\r\n1.5\r\n$1\r\n3\r\n$3\r\ninf\r\n$4\r\n-inf\r\n", ",1.5\r\n,3\r\n,inf\r\n,-inf\r\n");
    expect(make_strings, "+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$12\r\ntwelve chars\r\n$2\r\nhi\r\n",
           "+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$12\r\ntwelve chars\r\n=6\r\ntxt:hi\r\n");
    expect(make_aggregates, "*10\r\n*4\r\n*3\r\n*4\r\n", "*10\r\n%2\r\n~3\r\n>4\r\n");
}

static void aggregates_may_learn_their_length_late(void **state)
{
    expect(make_late_aggregates, ":7\r\n*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n:3\r\n", ":7\r\n*2\r\n%1\r\n:1\r\n:2\r\n~1\r\n:3\r\n");
}

static void client_bytes_cannot_break_an_error_line(void **state)
{
    expect(make_errors, "-ERR syntax error\r\n-ERR unknown 'a  b'\r\n", "-ERR syntax error\r\n-ERR unknown 'a  b'\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_has_its_form_in_both_versions),
        cmocka_unit_test(aggregates_may_learn_their_length_late),
        cmocka_unit_test(client_bytes_cannot_break_an_error_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
