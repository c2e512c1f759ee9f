/* Expiries: times, conditions, rounding, errors. */
#include "harness.h"

static struct harness *start(void) { return harness_new(4, &strings_family, &keys_family, &expiry_family, NULL); }

static void a_key_lives_until_its_time(void **state)
{
    struct harness *h = start();
    harness_run(h, "SET k v");
    harness_expect(h, "EXPIRE k 10", ":1\r\n");
    harness_expect(h, "TTL k", ":10\r\n");
    h->now_ms += 10000;
    harness_expect(h, "GET k", "$1\r\nv\r\n");
    h->now_ms += 1;
    harness_expect(h, "GET k", "$-1\r\n");
    harness_expect(h, "TTL k", ":-2\r\n");
    harness_expect(h, "PTTL k", ":-2\r\n");
    harness_expect(h, "EXPIRE k 10", ":0\r\n");
    harness_free(h);
}

static void seconds_are_rounded_to_the_nearest(void **state)
{
    struct harness *h = start();
    harness_run(h, "SET k v");
    harness_expect(h, "TTL k", ":-1\r\n");
    harness_expect(h, "PEXPIRE k 1499", ":1\r\n");
    harness_expect(h, "TTL k", ":1\r\n");
    harness_expect(h, "PTTL k", ":1499\r\n");
    harness_expect(h, "PEXPIRE k 1500", ":1\r\n");
    harness_expect(h, "TTL k", ":2\r\n");
    harness_expect(h, "PEXPIREAT k 1700000001600", ":1\r\n");
    harness_expect(h, "EXPIRETIME k", ":1700000002\r\n");
    harness_expect(h, "PEXPIRETIME k", ":1700000001600\r\n");
    harness_expect(h, "PEXPIREAT k 9223372036854775807", ":1\r\n");
    harness_expect(h, "EXPIRETIME k", ":9223372036854776\r\n");
    harness_expect(h, "PERSIST k", ":1\r\n");
    harness_expect(h, "PERSIST k", ":0\r\n");
    harness_expect(h, "EXPIRETIME k", ":-1\r\n");
    harness_expect(h, "EXPIRETIME nokey", ":-2\r\n");
    harness_free(h);
}

static void a_time_in_the_past_deletes(void **state)
{
    static const char *const commands[] = {"EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k -9223372036854775808", "EXPIREAT k 1", "PEXPIREAT k -5"};
    struct harness *h = start();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        harness_run(h, "SET k v");
        harness_events(h);
        harness_expect(h, commands[i], ":1\r\n");
        assert_string_equal(harness_events(h), "del k;");
        harness_expect(h, "EXISTS k", ":0\r\n");
    }
    harness_free(h);
}

static void conditions_compare_with_the_time_that_is_set(void **state)
{
    struct harness *h = start();
    harness_run(h, "SET k v");
    harness_expect(h, "EXPIRE k 100 XX", ":0\r\n");
    harness_expect(h, "EXPIRE k 100 GT", ":0\r\n");
    harness_expect(h, "EXPIRE k 100 NX", ":1\r\n");
    harness_expect(h, "EXPIRE k 200 NX", ":0\r\n");
    harness_expect(h, "EXPIRE k 50 GT", ":0\r\n");
    harness_expect(h, "EXPIRE k 200 XX GT", ":1\r\n");
    harness_expect(h, "EXPIRE k 300 LT", ":0\r\n");
    harness_expect(h, "EXPIRE k 150 lt", ":1\r\n");
    harness_expect(h, "TTL k", ":150\r\n");
    harness_run(h, "PERSIST k");
    harness_expect(h, "EXPIRE k 100 LT", ":1\r\n");
    harness_expect(h, "EXPIRE k 10 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
    harness_expect(h, "EXPIRE k 10 LT NX", "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
    harness_expect(h, "EXPIRE k 10 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n");
    harness_expect(h, "EXPIRE k 10 FOO", "-ERR Unsupported option FOO\r\n");
    harness_expect(h, "EXPIRE k x", "-ERR value is not an integer or out of range\r\n");
    harness_free(h);
}

static void times_beyond_the_clock_are_refused(void **state)
{
    struct harness *h = start();
    harness_run(h, "SET k v");
    harness_expect(h, "EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n");
    harness_expect(h, "EXPIRE k -9223372036854775808", "-ERR invalid expire time in 'expire' command\r\n");
    harness_expect(h, "EXPIREAT k 9223372036854775807", "-ERR invalid expire time in 'expireat' command\r\n");
    harness_expect(h, "PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command\r\n");
    harness_expect(h, "TTL k", ":-1\r\n");
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_lives_until_its_time),
        cmocka_unit_test(seconds_are_rounded_to_the_nearest),
        cmocka_unit_test(a_time_in_the_past_deletes),
        cmocka_unit_test(conditions_compare_with_the_time_that_is_set),
        cmocka_unit_test(times_beyond_the_clock_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
