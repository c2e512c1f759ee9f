/* SCAN against a twin that knows which keys were there all the time, while keys come, go and are carried from shard to shard, and the server starts anew between the calls. */
#include "harness.h"

enum { KEYS = 300, SHARDS_MOST = 6, NOWHERE = -1 };

struct world {
    struct harness *h;
    struct rng rng;
    int at[KEYS];      /* the shard that it is in */
    bool stayed[KEYS]; /* there since the scan began */
    int seen[KEYS];
    uint64_t cursor;
};

static struct slice name_of(int k)
{
    static char text[16];
    return slice_of(text, (size_t)snprintf(text, sizeof text, "key:%d", k));
}

static void put(struct world *w, int k, uint16_t db, enum op_kind kind)
{
    store_apply(w->h->stores[w->at[k]], &(struct op){.kind = kind, .db = db, .key = name_of(k), .value = SLICE("v")}, NULL);
}

static uint32_t any_shard(struct world *w) { return (uint32_t)rng_below(&w->rng, w->h->route.shards); }

/* ---- what happens between two calls */

static void add_key(struct world *w, int k)
{
    if (w->at[k] != NOWHERE) return;
    w->at[k] = (int)any_shard(w);
    put(w, k, 0, OP_SET);
}

static void remove_key(struct world *w, int k)
{
    if (w->at[k] == NOWHERE) return;
    put(w, k, 0, OP_DEL);
    w->at[k] = NOWHERE;
    w->stayed[k] = false;
}

static void carry_some(struct world *w)
{
    for (int i = 0; i < 20; i++) {
        int k = (int)rng_below(&w->rng, KEYS);
        if (w->at[k] == NOWHERE) continue;
        put(w, k, 0, OP_DEL);
        w->at[k] = (int)any_shard(w);
        put(w, k, 0, OP_SET);
    }
    atomic_fetch_add(&w->h->route.shifts, 1);
}

static void empty_shard(struct world *w)
{
    int s = (int)any_shard(w);
    for (int k = 0; k < KEYS; k++)
        if (w->at[k] == s) remove_key(w, k);
}

static void make_stores(struct world *w, uint32_t shards)
{
    struct harness *h = w->h;
    h->route.shards = shards;
    for (uint32_t i = 0; i < shards; i++) h->stores[i] = store_new(h->route.seed, &h->limits, rng_u64(&w->rng));
    atomic_store(&h->route.shifts, rng_u64(&w->rng));
}

/* With some other number of shards, half of the times. */
static void start_anew(struct world *w)
{
    uint32_t before = w->h->route.shards;
    for (uint32_t i = 0; i < before; i++) store_free(w->h->stores[i]);
    make_stores(w, rng_below(&w->rng, 2) ? before : 1 + (uint32_t)rng_below(&w->rng, SHARDS_MOST));
    for (int k = 0; k < KEYS; k++) {
        if (w->at[k] == NOWHERE) continue;
        if (w->h->route.shards != before) w->at[k] = (int)any_shard(w);
        put(w, k, 0, OP_SET);
    }
}

/* The same keys come out of another database. */
static void swap_databases(struct world *w)
{
    for (int k = KEYS - 1; k >= 0; k--)
        if (w->at[k] != NOWHERE) put(w, k, 1, OP_SET);
    for (uint32_t i = 0; i < w->h->route.shards; i++) {
        store_apply(w->h->stores[i], &(struct op){.kind = OP_SWAP, .db = 0, .index = 1}, NULL);
        store_apply(w->h->stores[i], &(struct op){.kind = OP_FLUSH, .db = 1}, NULL);
    }
}

static void disturb(struct world *w)
{
    int few = (int)rng_below(&w->rng, 10);
    for (int i = 0; i < few; i++) add_key(w, (int)rng_below(&w->rng, KEYS));
    for (int i = 0; i < few; i++) remove_key(w, (int)rng_below(&w->rng, KEYS));
    switch (rng_below(&w->rng, 8)) {
    case 0: carry_some(w); break;
    case 1: empty_shard(w); break;
    case 2: start_anew(w); break;
    case 3: swap_databases(w); break;
    default: break;
    }
}

/* ---- the scan */

static void scan(struct world *w, unsigned count)
{
    char words[64], text[32];
    snprintf(words, sizeof words, "SCAN %llu COUNT %u", (unsigned long long)w->cursor, count);
    struct slice got = harness_run(w->h, words);
    struct buf copy = {0};
    buf_add_slice(&copy, got);
    buf_add_byte(&copy, 0);
    assert_int_equal(sscanf(copy.p, "*2 $%*d %31s", text), 1);
    w->cursor = strtoull(text, NULL, 10);
    assert_true(w->cursor <= INT64_MAX);
    for (const char *p = copy.p; (p = strstr(p, "key:"));) w->seen[atoi(p += 4)]++;
    buf_fini(&copy);
}

static void world_init(struct world *w, uint64_t seed)
{
    *w = (struct world){.h = harness_new(1, &keys_family, NULL)};
    rng_init(&w->rng, seed);
    w->h->check = w->h->cold = false;
    store_free(w->h->stores[0]);
    make_stores(w, 1 + (uint32_t)rng_below(&w->rng, SHARDS_MOST));
    for (int k = 0; k < KEYS; k++) w->at[k] = NOWHERE;
    for (int k = 0; k < KEYS; k++)
        if (rng_below(&w->rng, 3)) add_key(w, k);
    for (int k = 0; k < KEYS; k++) w->stayed[k] = w->at[k] != NOWHERE;
}

/* Gives how many keys were given more than once. */
static int check_scan(uint64_t seed, int disturbed_calls)
{
    struct world w;
    int repeated = 0, calls = 0;
    unsigned count;
    world_init(&w, seed);
    count = 1 + (unsigned)rng_below(&w.rng, 40);
    do {
        scan(&w, count);
        assert_true(calls < disturbed_calls + 2 * KEYS + 2 * SHARDS_MOST);
        if (calls++ < disturbed_calls) disturb(&w);
    } while (w.cursor);
    for (int k = 0; k < KEYS; k++) {
        if (w.stayed[k] && !w.seen[k]) fail_msg("seed %llu: key:%d was there all the time and was not given", (unsigned long long)seed, k);
        repeated += w.seen[k] > 1;
    }
    harness_free(w.h);
    return repeated;
}

static void a_scan_misses_nothing_that_was_there_all_the_time(void **state)
{
    int repeated = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) repeated += check_scan(seed, 1 + (int)(seed % 40));
    assert_true(repeated > 1000); /* it had to begin again */
}

static void an_undisturbed_scan_repeats_nothing(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++) assert_int_equal(check_scan(seed, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_misses_nothing_that_was_there_all_the_time),
        cmocka_unit_test(an_undisturbed_scan_repeats_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
