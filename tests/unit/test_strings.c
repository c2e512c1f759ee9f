/* Strings over four shards: replies, error texts, events. */
#include "harness.h"

static struct harness *start(void) { return harness_new(4, &strings_family, &keys_family, &expiry_family, &lists_family, NULL); }

static void a_value_comes_back_as_it_was_set(void **state)
{
    struct harness *h = start();
    harness_expect(h, "GET k", "$-1\r\n");
    harness_expect(h, "SET k \"a\\x00\\r\\nb\"", "+OK\r\n");
    struct slice got = harness_run(h, "GET k");
    assert_int_equal(got.n, 4 + 5 + 2);
    assert_memory_equal(got.p, "$5\r\na\0\r\nb\r\n", 11);
    assert_string_equal(harness_events(h), "new k;set k;");
    harness_expect(h, "STRLEN k", ":5\r\n");
    harness_expect(h, "SET \"\" \"\"", "+OK\r\n");
    harness_expect(h, "GET \"\"", "$0\r\n\r\n");
    harness_free(h);
}

static void set_obeys_its_conditions(void **state)
{
    struct harness *h = start();
    harness_expect(h, "SET k 1 XX", "$-1\r\n");
    harness_expect(h, "SET k 1 NX", "+OK\r\n");
    harness_expect(h, "SET k 2 NX", "$-1\r\n");
    harness_expect(h, "SET k 2 XX GET", "$1\r\n1\r\n");
    harness_expect(h, "SET k 3 NX GET", "$1\r\n2\r\n");
    harness_expect(h, "SET new 3 GET", "$-1\r\n");
    harness_expect(h, "GET k", "$1\r\n2\r\n");
    harness_expect(h, "RPUSH l a", ":1\r\n");
    harness_expect(h, "SET l x GET", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    harness_expect(h, "TYPE l", "+list\r\n");
    harness_expect(h, "SET l x", "+OK\r\n");
    harness_expect(h, "TYPE l", "+string\r\n");
    harness_expect(h, "SETNX k v", ":0\r\n");
    harness_expect(h, "SETNX n v", ":1\r\n");
    harness_expect(h, "GETSET n w", "$1\r\nv\r\n");
    harness_free(h);
}

static void set_gives_and_keeps_expiries(void **state)
{
    struct harness *h = start();
    harness_expect(h, "SET k v EX 100", "+OK\r\n");
    assert_string_equal(harness_events(h), "new k;set k;expire k;");
    harness_expect(h, "PTTL k", ":100000\r\n");
    harness_expect(h, "SET k w KEEPTTL", "+OK\r\n");
    harness_expect(h, "PTTL k", ":100000\r\n");
    harness_expect(h, "SET k v", "+OK\r\n");
    harness_expect(h, "PTTL k", ":-1\r\n");
    harness_expect(h, "SET k v PX 1500", "+OK\r\n");
    harness_expect(h, "TTL k", ":2\r\n");
    harness_expect(h, "SET k v EXAT 1700000010", "+OK\r\n");
    harness_expect(h, "TTL k", ":10\r\n");
    harness_expect(h, "SET k v PXAT 1700000010001", "+OK\r\n");
    harness_expect(h, "PTTL k", ":10001\r\n");
    h->now_ms += 10002;
    harness_expect(h, "GET k", "$-1\r\n");
    harness_expect(h, "SETEX k 10 v", "+OK\r\n");
    harness_expect(h, "TTL k", ":10\r\n");
    harness_expect(h, "PSETEX k 10 v", "+OK\r\n");
    harness_expect(h, "PTTL k", ":10\r\n");
    harness_expect(h, "SET k v PXAT 1", "+OK\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_expect(h, "RPUSH l a", ":1\r\n");
    harness_expect(h, "EXPIRE l 7", ":1\r\n");
    harness_expect(h, "SET l x KEEPTTL", "+OK\r\n");
    harness_expect(h, "TTL l", ":7\r\n");
    harness_free(h);
}

static void bad_options_and_times_are_refused(void **state)
{
    static const char *const syntax[] = {"SET k v EX",        "SET k v NX XX",    "SET k v EX 5 PX 5", "SET k v KEEPTTL EX 4",
                                         "SET k v FOO",       "SET k v PERSIST",  "GETEX k PERSIST EX 4", "GETEX k NX",
                                         "GETEX k KEEPTTL"};
    static const char *const times[] = {"SET k v EX 9223372036854775807", "SET k v EX 0",   "SET k v PX -5", "SET k v EXAT 0",
                                        "SET k v PX 9223372036854775807", "SET k v EXAT 9223372036854775807"};
    struct harness *h = start();
    for (size_t i = 0; i < sizeof syntax / sizeof *syntax; i++) harness_expect(h, syntax[i], "-ERR syntax error\r\n");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        harness_expect(h, times[i], "-ERR invalid expire time in 'set' command\r\n");
    harness_expect(h, "SET k v EX 5 EX 0", "-ERR invalid expire time in 'set' command\r\n"); /* the later one counts */
    harness_expect(h, "SET k v EX x", "-ERR value is not an integer or out of range\r\n");
    harness_expect(h, "SETEX k 0 v", "-ERR invalid expire time in 'setex' command\r\n");
    harness_expect(h, "PSETEX k 9223372036854775807 v", "-ERR invalid expire time in 'psetex' command\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_free(h);
}

static void getex_and_getdel_read_and_change(void **state)
{
    struct harness *h = start();
    harness_expect(h, "GETEX k EX 0", "$-1\r\n");
    harness_expect(h, "GETDEL k", "$-1\r\n");
    harness_run(h, "SET k v");
    harness_events(h);
    harness_expect(h, "GETEX k EX 0", "-ERR invalid expire time in 'getex' command\r\n");
    harness_expect(h, "GETEX k", "$1\r\nv\r\n");
    harness_expect(h, "GETEX k PERSIST", "$1\r\nv\r\n");
    assert_string_equal(harness_events(h), "");
    harness_expect(h, "GETEX k EX 10", "$1\r\nv\r\n");
    harness_expect(h, "TTL k", ":10\r\n");
    harness_expect(h, "GETEX k PERSIST", "$1\r\nv\r\n");
    harness_expect(h, "TTL k", ":-1\r\n");
    harness_expect(h, "GETEX k PXAT 5", "$1\r\nv\r\n");
    assert_string_equal(harness_events(h), "expire k;persist k;del k;");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_run(h, "SET k v");
    harness_expect(h, "GETDEL k", "$1\r\nv\r\n");
    harness_expect(h, "EXISTS k", ":0\r\n");
    harness_free(h);
}

static void several_keys_are_one_command_over_shards(void **state)
{
    struct harness *h = start();
    harness_expect(h, "MSET a 1 b 2 c 3 d 4 a 5", "+OK\r\n");
    harness_run(h, "RPUSH l x");
    harness_expect(h, "MGET a b nokey l d", "*5\r\n$1\r\n5\r\n$1\r\n2\r\n$-1\r\n$-1\r\n$1\r\n4\r\n");
    harness_expect(h, "MSETNX e 1 b 2", ":0\r\n");
    harness_expect(h, "EXISTS e", ":0\r\n");
    harness_expect(h, "MSETNX e 1 f 2", ":1\r\n");
    harness_expect(h, "MGET e f", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    harness_expect(h, "MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n");
    harness_expect(h, "MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command\r\n");
    h->resp = 3;
    harness_expect(h, "MGET nokey", "*1\r\n_\r\n");
    harness_free(h);
}

static void integers_count_and_never_overflow(void **state)
{
    struct harness *h = start();
    harness_expect(h, "INCR n", ":1\r\n");
    harness_expect(h, "INCRBY n 41", ":42\r\n");
    harness_expect(h, "DECR n", ":41\r\n");
    harness_expect(h, "DECRBY n 100", ":-59\r\n");
    assert_string_equal(harness_events(h), "new n;incrby n;incrby n;incrby n;incrby n;");
    harness_run(h, "SET n 9223372036854775807");
    harness_expect(h, "INCR n", "-ERR increment or decrement would overflow\r\n");
    harness_expect(h, "DECRBY n -9223372036854775808", "-ERR decrement would overflow\r\n");
    harness_run(h, "SET n -9223372036854775808");
    harness_expect(h, "DECR n", "-ERR increment or decrement would overflow\r\n");
    harness_expect(h, "INCRBY n x", "-ERR value is not an integer or out of range\r\n");
    harness_run(h, "SET n \" 1\"");
    harness_expect(h, "INCR n", "-ERR value is not an integer or out of range\r\n");
    harness_run(h, "SET n 1 EX 100");
    harness_expect(h, "INCR n", ":2\r\n");
    harness_expect(h, "TTL n", ":100\r\n");
    harness_free(h);
}

static void floats_count(void **state)
{
    struct harness *h = start();
    harness_expect(h, "INCRBYFLOAT f 10.5", "$4\r\n10.5\r\n");
    harness_expect(h, "INCRBYFLOAT f 0.1", "$4\r\n10.6\r\n");
    harness_expect(h, "INCRBYFLOAT f -5", "$3\r\n5.6\r\n");
    harness_expect(h, "INCRBYFLOAT f x", "-ERR value is not a valid float\r\n");
    harness_expect(h, "INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity\r\n");
    harness_run(h, "SET f 3.0e3");
    harness_expect(h, "INCRBYFLOAT f 200", "$4\r\n3200\r\n");
    harness_run(h, "SET f x");
    harness_expect(h, "INCRBYFLOAT f 1", "-ERR value is not a valid float\r\n");
    harness_free(h);
}

static void parts_of_strings_are_read_and_written(void **state)
{
    struct harness *h = start();
    harness_expect(h, "APPEND s \"This is \"", ":8\r\n");
    harness_expect(h, "APPEND s \"a string\"", ":16\r\n");
    harness_expect(h, "GETRANGE s 0 3", "$4\r\nThis\r\n");
    harness_expect(h, "GETRANGE s -3 -1", "$3\r\ning\r\n");
    harness_expect(h, "GETRANGE s 0 -1", "$16\r\nThis is a string\r\n");
    harness_expect(h, "GETRANGE s 10 100", "$6\r\nstring\r\n");
    harness_expect(h, "GETRANGE s 100 200", "$0\r\n\r\n");
    harness_expect(h, "GETRANGE s -1 -5", "$0\r\n\r\n");
    harness_expect(h, "GETRANGE s -100 -90", "$1\r\nT\r\n");
    harness_expect(h, "SUBSTR s -9223372036854775808 9223372036854775807", "$16\r\nThis is a string\r\n");
    harness_expect(h, "GETRANGE nokey 0 -1", "$0\r\n\r\n");
    harness_expect(h, "SETRANGE s 8 \"THE\"", ":16\r\n");
    harness_expect(h, "GET s", "$16\r\nThis is THEtring\r\n");
    harness_expect(h, "SETRANGE z 3 x", ":4\r\n");
    struct slice got = harness_run(h, "GET z");
    assert_memory_equal(got.p, "$4\r\n\0\0\0x\r\n", got.n);
    harness_expect(h, "SETRANGE e 5 \"\"", ":0\r\n");
    harness_expect(h, "EXISTS e", ":0\r\n");
    harness_expect(h, "SETRANGE s -1 x", "-ERR offset is out of range\r\n");
    harness_expect(h, "SETRANGE s 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    harness_expect(h, "SETRANGE s 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    harness_free(h);
}

static void lcs_finds_what_two_strings_share(void **state)
{
    struct harness *h = start();
    harness_run(h, "MSET a ohmytext b mynewtext");
    harness_run(h, "RPUSH l x");
    harness_expect(h, "LCS a b", "$6\r\nmytext\r\n");
    harness_expect(h, "LCS a b LEN", ":6\r\n");
    harness_expect(h, "LCS a b IDX", "*4\r\n$7\r\nmatches\r\n*2\r\n*2\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n*2\r\n*2\r\n:2\r\n:3\r\n*2\r\n:0\r\n:1\r\n"
                                     "$3\r\nlen\r\n:6\r\n");
    harness_expect(h, "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
                   "*4\r\n$7\r\nmatches\r\n*1\r\n*3\r\n*2\r\n:4\r\n:7\r\n*2\r\n:5\r\n:8\r\n:4\r\n$3\r\nlen\r\n:6\r\n");
    harness_expect(h, "LCS a nokey", "$0\r\n\r\n");
    harness_expect(h, "LCS a nokey IDX", "*4\r\n$7\r\nmatches\r\n*0\r\n$3\r\nlen\r\n:0\r\n");
    harness_expect(h, "LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX.\r\n");
    harness_expect(h, "LCS a l", "-ERR The specified keys must contain string values\r\n");
    harness_expect(h, "LCS a b FOO", "-ERR syntax error\r\n");
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_comes_back_as_it_was_set),
        cmocka_unit_test(set_obeys_its_conditions),
        cmocka_unit_test(set_gives_and_keeps_expiries),
        cmocka_unit_test(bad_options_and_times_are_refused),
        cmocka_unit_test(getex_and_getdel_read_and_change),
        cmocka_unit_test(several_keys_are_one_command_over_shards),
        cmocka_unit_test(integers_count_and_never_overflow),
        cmocka_unit_test(floats_count),
        cmocka_unit_test(parts_of_strings_are_read_and_written),
        cmocka_unit_test(lcs_finds_what_two_strings_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
