/* Reads wait for the entries that are about their key, and for no older ones than they must. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "base/rng.h"
#include "cluster/seatshown.h"
#include "store/op.h"

enum { SEED = 7, KEYS = 300, ENTRIES = 2000 };

static struct slice key_of(uint32_t k, char room[64]) { return slice_of(room, (size_t)snprintf(room, 64, "key:%u", k)); }

static uint64_t shown(const struct seatshown *s, uint32_t k)
{
    char room[64];
    return seatshown_of_key(s, keyhash(key_of(k, room), SEED));
}

static void add(struct seatshown *s, enum op_kind kind, uint32_t k)
{
    char room[64];
    seatshown_add(s, &(struct op){.kind = kind, .key = key_of(k, room)}, SEED);
}

static void a_key_shows_the_last_entry_that_is_about_it(void **state)
{
    struct seatshown s = {0};
    assert_int_equal(shown(&s, 1), 0);
    add(&s, OP_SET, 1);
    assert_int_equal(shown(&s, 1), 0); /* not in an entry yet */
    seatshown_settle(&s, 5);
    add(&s, OP_SET, 2);
    seatshown_settle(&s, 6);
    assert_int_equal(shown(&s, 1), 5);
    assert_int_equal(shown(&s, 2), 6);
    assert_int_equal(shown(&s, 3), 0);
    seatshown_reset(&s);
    assert_int_equal(shown(&s, 1), 0);
    seatshown_fini(&s);
}

static void what_is_about_all_keys_is_shown_by_all(void **state)
{
    static const enum op_kind kinds[] = {OP_FLUSH, OP_SWAP};
    for (size_t i = 0; i < 2; i++) {
        struct seatshown s = {0};
        add(&s, OP_SET, 1);
        seatshown_settle(&s, 5);
        seatshown_add(&s, &(struct op){.kind = kinds[i]}, SEED);
        seatshown_settle(&s, 6);
        assert_int_equal(shown(&s, 1), 6);
        assert_int_equal(shown(&s, 2), 6);
        add(&s, OP_SET, 1);
        seatshown_settle(&s, 7);
        assert_int_equal(shown(&s, 1), 7);
        assert_int_equal(shown(&s, 2), 6);
        seatshown_fini(&s);
    }
}

/* Never less than the truth, and seldom more. */
static void entries_of_any_size_are_never_missed(void **state)
{
    struct seatshown s = {0};
    struct rng rng;
    uint64_t truth[KEYS] = {0};
    uint32_t exact = 0, asked = 0;
    rng_init(&rng, 3);
    for (uint64_t sequence = 1; sequence <= ENTRIES; sequence++) {
        uint32_t n = 1 + (uint32_t)rng_below(&rng, sequence % 100 == 0 ? 2 * SEATSHOWN_PENDING : 4);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = (uint32_t)rng_below(&rng, KEYS);
            add(&s, OP_DEL, k);
            truth[k] = sequence;
        }
        seatshown_settle(&s, sequence);
        for (uint32_t i = 0; i < 10; i++, asked++) {
            uint32_t k = (uint32_t)rng_below(&rng, KEYS);
            assert_true(shown(&s, k) >= truth[k] && shown(&s, k) <= sequence);
            exact += shown(&s, k) == truth[k];
        }
    }
    assert_true(exact > asked / 2);
    seatshown_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_shows_the_last_entry_that_is_about_it),
        cmocka_unit_test(what_is_about_all_keys_is_shown_by_all),
        cmocka_unit_test(entries_of_any_size_are_never_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
