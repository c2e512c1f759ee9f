/* Records of locks: what is written is read again, and of anything else nothing is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "route/spacelock.h"

static const struct spacelock sample = {.token = 65537, .exclusive = true, .start = SLICE("users/a"), .end = SLICE("users/m"), .owner = SLICE("me")};

static void a_lock_is_what_its_record_says(void **state)
{
    struct buf key = {0}, value = {0};
    struct spacelock back;
    struct slice name;
    uint64_t token;
    spacelock_key(&key, SLICE("eu/users"), sample.token);
    spacelock_value(&value, &sample);
    assert_true(slice_eq(buf_slice(&key), SLICE("lock/eu/users/0000000000010001")));
    assert_true(spacelock_key_parse(buf_slice(&key), &name, &token) && slice_eq(name, SLICE("eu/users")) && token == sample.token);
    assert_true(spacelock_parse(&back, buf_slice(&key), buf_slice(&value)));
    assert_true(back.token == sample.token && back.exclusive && slice_eq(back.start, sample.start) && slice_eq(back.end, sample.end) && slice_eq(back.owner, sample.owner));
    buf_fini(&key);
    buf_fini(&value);
}

static void what_is_no_lock_is_refused(void **state)
{
    static const struct slice keys[] = {SLICE(""), SLICE("lock/"), SLICE("lock/users"), SLICE("lock/users/0000000000000000"), SLICE("lock/users/00000000000A0001"), SLICE("lock/users-0000000000010001"),
                                        SLICE("rock/users/0000000000010001")};
    struct slice name, key = SLICE("lock/users/0000000000010001");
    struct buf value = {0};
    struct spacelock l;
    uint64_t token;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_false(spacelock_key_parse(keys[i], &name, &token));
    spacelock_value(&value, &sample);
    for (size_t n = 0; n < value.len; n++) assert_false(spacelock_parse(&l, key, slice_of(value.p, n)));
    for (size_t i = 0; i < 16; i++) { /* every byte of the head counts */
        value.p[i] = (char)(value.p[i] + 2);
        assert_false(spacelock_parse(&l, key, buf_slice(&value)));
        value.p[i] = (char)(value.p[i] - 2);
    }
    value.p[16 + 6] = 'z'; /* the start is behind the end */
    assert_false(spacelock_parse(&l, key, buf_slice(&value)));
    buf_fini(&value);
}

static void locks_exclude_each_other_where_they_overlap(void **state)
{
    struct spacelock other = {.token = 9, .start = SLICE("users/l"), .owner = SLICE("you")};
    assert_true(spacelock_excludes(&sample, &other) && spacelock_excludes(&other, &sample));
    other.owner = sample.owner;
    assert_false(spacelock_excludes(&sample, &other));
    other = (struct spacelock){.token = 9, .start = SLICE("users/m"), .owner = SLICE("you"), .exclusive = true};
    assert_false(spacelock_excludes(&sample, &other));
    other = (struct spacelock){.token = 9, .end = SLICE("users/a"), .owner = SLICE("you"), .exclusive = true};
    assert_false(spacelock_excludes(&sample, &other));
    struct spacelock a = {.token = 1, .owner = SLICE("a")}, b = {.token = 2, .owner = SLICE("b")};
    assert_false(spacelock_excludes(&a, &b)); /* both are shared */
    assert_true(spacelock_overlaps(&a, SLICE("x"), SLICE("")) && spacelock_token(3, 7) > spacelock_token(2, 65535));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_what_its_record_says),
        cmocka_unit_test(what_is_no_lock_is_refused),
        cmocka_unit_test(locks_exclude_each_other_where_they_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
