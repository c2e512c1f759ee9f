/* The request parser: grammar, errors, and pieces. Every case also runs byte by byte: the result must be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "resp/parse.h"

static const struct parse_limits full = {1 << 20, 512u << 20, 64 << 10};
static const struct parse_limits unauthenticated = {10, 16384, 64 << 10};

/* Reads all of in, handed over in steps of `step` bytes, and writes what came out as text: words in <>, requests ended by ";". */
static void transcript(struct slice in, const struct parse_limits *limits, size_t step, struct buf *text)
{
    struct parser p;
    parse_init(&p);
    struct slice *argv = NULL;
    uint32_t cap = 0, argc = 0;
    struct buf input = {0};
    text->len = 0;
    for (size_t fed = 0; fed < in.n;) {
        size_t more = in.n - fed < step ? in.n - fed : step, used;
        /* The bytes may move between calls: make sure that they do. */
        char *moved = mem_alloc(input.len + more + 1);
        if (input.len) memcpy(moved, input.p, input.len);
        mem_free(input.p);
        input = (struct buf){moved, input.len, input.len + more + 1};
        buf_add(&input, in.p + fed, more);
        fed += more;
        enum parse_result r;
        while ((r = parse_request(&p, limits, input.p, input.len, &used, &argv, &cap, &argc)) == PARSE_OK) {
            for (uint32_t i = 0; i < argc; i++) {
                buf_add_byte(text, '<');
                buf_add_slice(text, argv[i]);
                buf_add_byte(text, '>');
            }
            buf_add_byte(text, ';');
            assert_true(used > 0 && used <= input.len);
            memmove(input.p, input.p + used, input.len - used);
            input.len -= used;
        }
        if (r == PARSE_ERROR) {
            buf_printf(text, "!%s", p.error);
            break;
        }
    }
    buf_add_byte(text, 0);
    buf_fini(&input);
    mem_free(argv);
    parse_fini(&p);
}

static void expect_limits(struct slice in, const struct parse_limits *limits, const char *want)
{
    struct buf text = {0};
    for (size_t step = 1; step < in.n + 8; step = step * 2 + 1) {
        transcript(in, limits, step, &text);
        assert_string_equal(text.p, want);
    }
    transcript(in, limits, in.n, &text);
    assert_string_equal(text.p, want);
    buf_fini(&text);
}

static void expect(const char *in, const char *want) { expect_limits(slice_str(in), &full, want); }

static void arrays_of_bulks_become_arguments(void **state)
{
    expect("*1\r\n$4\r\nPING\r\n", "<PING>;");
    expect("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n", "<SET><k><>;");
    expect("*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n*1\r\n$1\r\nx\r\n", "<GET><\r\n\r\n>;<x>;");
    expect("*2\r\n$12\r\nabcdefghijkl\r\n$1\r\nx\r\n", "<abcdefghijkl><x>;");
}

static void empty_requests_are_skipped(void **state)
{
    expect("*0\r\n*-1\r\n\r\n\n   \r\n*1\r\n$1\r\nx\r\n", ";;;;;<x>;");
}

static void inline_lines_are_split_as_by_a_shell(void **state)
{
    expect("PING\r\n", "<PING>;");
    expect("GET k\n", "<GET><k>;");
    expect("  set  k\t\"a b\"  \r\n", "<set><k><a b>;");
    expect("set k \"\\x41\\n\\\"\\q\" 'it\\'s \\n'\r\n", "<set><k><A\n\"q><it's \\n>;");
    expect("set k \"\"\r\n", "<set><k><>;");
    expect("a\"b c\"\r\n", "<ab c>;");
    expect("set k \"open\r\n", "!Protocol error: unbalanced quotes in request");
    expect("set k \"a\"b\r\n", "!Protocol error: unbalanced quotes in request");
    expect("set k 'open\\'\r\n", "!Protocol error: unbalanced quotes in request");
}

static void wrong_requests_name_their_fault(void **state)
{
    expect("*x\r\n", "!Protocol error: invalid multibulk length");
    expect("*\r\n", "!Protocol error: invalid multibulk length");
    expect("*01\r\n$1\r\nx\r\n", "!Protocol error: invalid multibulk length");
    expect("*1048577\r\n", "!Protocol error: invalid multibulk length");
    expect("*99999999999999999999\r\n", "!Protocol error: invalid multibulk length");
    expect("*1\r\nPING\r\n", "!Protocol error: expected '$', got 'P'");
    expect("*1\r\n$-1\r\n", "!Protocol error: invalid bulk length");
    expect("*1\r\n$x\r\n", "!Protocol error: invalid bulk length");
    expect("*1\r\n$00\r\n\r\n", "!Protocol error: invalid bulk length");
    expect("*1\r\n$536870913\r\n", "!Protocol error: invalid bulk length");
    expect("*1\r\n$1\rxa\r\n", "!Protocol error: invalid bulk length");
    expect("*2\r\n$1\r\na\r\n$4\r\nPINGxx*", "!Protocol error: expected CRLF after bulk");
}

static void endless_lines_are_cut(void **state)
{
    struct buf b = {0};
    memset(buf_room(&b, 70000), '1', 70000);
    b.len = 70000;
    expect_limits(buf_slice(&b), &full, "!Protocol error: too big inline request");
    b.p[0] = '*';
    expect_limits(buf_slice(&b), &full, "!Protocol error: too big mbulk count string");
    memcpy(b.p, "*1\r\n$", 5);
    expect_limits(buf_slice(&b), &full, "!Protocol error: too big bulk count string");
    buf_fini(&b);
}

static void strangers_get_small_limits(void **state)
{
    expect_limits(SLICE("*11\r\n"), &unauthenticated, "!Protocol error: unauthenticated multibulk length");
    expect_limits(SLICE("*1\r\n$16385\r\n"), &unauthenticated, "!Protocol error: unauthenticated bulk length");
    expect_limits(SLICE("*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n"), &unauthenticated, "<AUTH><pw>;");
}

static void the_unfinished_bulk_says_what_it_needs(void **state)
{
    struct parser p;
    parse_init(&p);
    struct slice *argv = NULL;
    uint32_t cap = 0, argc;
    size_t used;
    char in[] = "*2\r\n$3\r\nSET\r\n$100000\r\nabc";
    assert_int_equal(parse_wants(&p, 0), 0);
    assert_int_equal(parse_request(&p, &full, in, sizeof in - 1, &used, &argv, &cap, &argc), PARSE_MORE);
    assert_int_equal(parse_wants(&p, sizeof in - 1), 100000 + 2 - 3);
    mem_free(argv);
    parse_fini(&p);
}

static void add_bulk(struct buf *in, struct buf *want, struct rng *rng)
{
    size_t len = rng_below(rng, 100) < 80 ? rng_below(rng, 30) : rng_below(rng, 3000);
    buf_printf(in, "$%zu\r\n", len);
    buf_add_byte(want, '<');
    for (size_t i = 0; i < len; i++) {
        char c = "ab\r\n$*1"[rng_below(rng, 7)];
        buf_add_byte(in, c);
        buf_add_byte(want, c);
    }
    buf_add_str(in, "\r\n");
    buf_add_byte(want, '>');
}

static void random_pipelines_read_back_in_any_pieces(void **state)
{
    struct rng rng;
    rng_init(&rng, 17);
    struct buf in = {0}, want = {0}, text = {0};
    for (int round = 0; round < 60; round++) {
        in.len = want.len = 0;
        for (uint64_t n = 1 + rng_below(&rng, 20); n-- > 0;) {
            uint64_t argc = rng_below(&rng, 10) ? rng_below(&rng, 6) : rng_below(&rng, 1500);
            buf_printf(&in, "*%u\r\n", (unsigned)argc);
            while (argc-- > 0) add_bulk(&in, &want, &rng);
            buf_add_byte(&want, ';');
        }
        size_t step = rng_below(&rng, 4) ? 1 + rng_below(&rng, 5000) : in.len;
        transcript(buf_slice(&in), &full, step, &text);
        assert_int_equal(text.len, want.len + 1);
        assert_memory_equal(text.p, want.p, want.len);
    }
    buf_fini(&in);
    buf_fini(&want);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_bulks_become_arguments),
        cmocka_unit_test(empty_requests_are_skipped),
        cmocka_unit_test(inline_lines_are_split_as_by_a_shell),
        cmocka_unit_test(wrong_requests_name_their_fault),
        cmocka_unit_test(endless_lines_are_cut),
        cmocka_unit_test(strangers_get_small_limits),
        cmocka_unit_test(the_unfinished_bulk_says_what_it_needs),
        cmocka_unit_test(random_pipelines_read_back_in_any_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
