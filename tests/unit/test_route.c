#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "route/route.h"

/* Chi-square of 1M numbered keys over 8 shards: at 7 degrees of freedom, 99.98 % of fair spreads lie between 0.30 and 29.88. Below is as suspicious as
 * above: a spread that is too even is not random. The seeds are fixed, so the test cannot fail by chance. */
static void numbered_keys_spread_over_the_shards_like_random_ones(void **state)
{
    enum { KEYS = 1000000, SHARDS = 8 };
    uint64_t seeds[] = {0, 0x5eed, 0x9e3779b97f4a7c15ull};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        struct route r = {.seed = seeds[s], .shards = SHARDS};
        unsigned count[SHARDS] = {0};
        for (unsigned i = 0; i < KEYS; i++) {
            char key[256];
            int n = snprintf(key, sizeof key, "key:%010u", i);
            count[route_shard(&r, keyhash(slice_of(key, (size_t)n), r.seed))]++;
        }
        double chi = 0, expected = (double)KEYS / SHARDS;
        for (unsigned i = 0; i < SHARDS; i++) chi += (count[i] - expected) * (count[i] - expected) / expected;
        if (chi < 0.3000 || chi > 29.8775) fail_msg("chi-square %.3f with seed %zu", chi, s);
    }
}

static void every_shard_count_gives_a_shard_below_it(void **state)
{
    for (uint32_t shards = 1; shards < 200; shards++) {
        struct route r = {.shards = shards};
        for (uint64_t h = 0; h < 64; h++) assert_true(route_shard(&r, keyhash(slice_of(&h, sizeof h), 0)) < shards);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbered_keys_spread_over_the_shards_like_random_ones),
        cmocka_unit_test(every_shard_count_gives_a_shard_below_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
