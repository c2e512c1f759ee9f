#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "store/hotkeys.h"

static void hit(struct hotkeys *h, const char *name, int64_t now_ms)
{
    struct slice key = slice_str(name);
    hotkeys_hit(h, now_ms, 0, keyhash(key, 7), key);
}

static const struct hotkey *find(const struct hotkeys *h, const char *name)
{
    for (unsigned i = 0; i < HOTKEYS_TOP; i++)
        if (h->top[i].hash && slice_eq(slice_of(h->top[i].name, h->top[i].len), slice_str(name))) return &h->top[i];
    return NULL;
}

/* Ten keys take a tenth of the traffic each thousandth; a million others take the rest. */
static void hot_keys_are_found_among_a_million_others_with_counts_near_the_truth(void **state)
{
    struct hotkeys *h = hotkeys_new(42);
    struct rng r;
    rng_init(&r, 9);
    char name[32];
    uint64_t truth[10] = {0};
    for (int i = 0; i < 2000000; i++) {
        if (rng_below(&r, 10) == 0) {
            unsigned k = (unsigned)rng_below(&r, 10);
            snprintf(name, sizeof name, "hot:%u", k);
            truth[k]++;
        } else {
            snprintf(name, sizeof name, "cold:%u", (unsigned)rng_below(&r, 1000000));
        }
        hit(h, name, 1000);
    }
    for (unsigned k = 0; k < 10; k++) {
        snprintf(name, sizeof name, "hot:%u", k);
        const struct hotkey *f = find(h, name);
        assert_non_null(f);
        assert_in_range(f->hits, truth[k] * 8 / 10, truth[k] * 12 / 10);
    }
    hotkeys_free(h);
}

static void counts_are_halved_every_ten_minutes(void **state)
{
    struct hotkeys *h = hotkeys_new(1);
    for (int i = 0; i < 100000; i++) hit(h, "k", 1000);
    uint64_t before = find(h, "k")->hits;
    for (int i = 0; i < 100; i++) hit(h, "other", 1000 + 11 * 60 * 1000);
    assert_in_range(find(h, "k")->hits, before / 2 - 1, before / 2 + 1);
    hotkeys_free(h);
}

static void a_name_longer_than_the_slot_is_cut_but_its_length_is_known(void **state)
{
    struct hotkeys *h = hotkeys_new(3);
    char name[200];
    for (int i = 0; i < 199; i++) name[i] = (char)('a' + i % 26);
    name[199] = 0;
    for (int i = 0; i < 1000; i++) hit(h, name, 1);
    assert_int_equal(h->top[0].len, 199);
    assert_memory_equal(h->top[0].name, name, HOTKEYS_KEY_MAX);
    hotkeys_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_keys_are_found_among_a_million_others_with_counts_near_the_truth),
        cmocka_unit_test(counts_are_halved_every_ten_minutes),
        cmocka_unit_test(a_name_longer_than_the_slot_is_cut_but_its_length_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
