#include "harness.h"

#include "base/rng.h"
#include "store/cut.h"
#include "store/image.h"

enum { KEYS = 150, ROUNDS = 60 };

/* What a cut gives out, put into a store of its own. */
struct copy {
    struct store *store;
    const struct chill_tier *tier; /* where the values of cold entries are */
    uint64_t emitted;
};

static void take(void *ctx, uint16_t db, const struct entry *e)
{
    struct copy *c = ctx;
    struct buf image = {0};
    struct place at;
    if (chill_is_cold(e)) {
        struct buf bytes = {0};
        assert_int_equal(c->tier->get(c->tier->ctx, chill_ref_of(e), entry_key(e), &bytes), 0);
        buf_add_slice(&image, chill_image(buf_slice(&bytes)));
        buf_fini(&bytes);
    } else {
        image_write(&image, e);
    }
    store_peek(c->store, db, keyhash(entry_key(e), c->store->seed), entry_key(e), &at);
    assert_null(at.e); /* no key twice */
    store_apply(c->store, &(struct op){.kind = OP_RESTORE, .db = db, .key = entry_key(e), .value = buf_slice(&image), .expiry_ms = entry_expiry_ms(e)}, NULL);
    buf_fini(&image);
    c->emitted++;
}

static struct copy copy_new(const struct harness *h) { return (struct copy){.store = store_new(h->stores[0]->seed, &h->limits, 1), .tier = h->stores[0]->tier}; }

static unsigned marks(const struct store *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < STORE_ALL_DBS; i++) {
        if (!s->dbs[i]) continue;
        struct table_iter it;
        table_iter_init(&it, &s->dbs[i]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) n += (e->flags & ENTRY_AFTER_CUT) != 0;
    }
    return n;
}

/* One write of any kind to a random key, often enough to the same ones for every passage between types and encodings. */
static void write_something(struct harness *h, struct rng *rng)
{
    static const char *const forms[] = {
        "SET k%u v%u", "SET k%u %0300u", "APPEND k%u %u", "SETRANGE k%u 20 %u", "DEL k%u", "EXPIRE k%u 1%u", "PERSIST k%u", "SET k%u %u KEEPTTL", "SET k%u v EX 2%u",
        "LPUSH k%u a %u", "RPUSH k%u %0100u b", "LPOP k%u", "RPOP k%u 2", "LSET k%u 0 %u", "HSET k%u f%u v", "HSET k%u g %u h%u x", "HDEL k%u g", "SADD k%u %u", "SADD k%u m%u n",
        "SREM k%u n", "ZADD k%u 1 %u", "ZADD k%u 2 m", "ZREM k%u m", "RENAME k%u k%u", "COPY k%u k%u REPLACE", "INCRBY k%u %u", "UNLINK k%u", "MSET k%u a k%u b",
    };
    char line[400];
    unsigned k = (unsigned)rng_below(rng, KEYS), v = (unsigned)rng_below(rng, KEYS);
    h->db = (uint16_t)rng_below(rng, 3);
    uint64_t choice = rng_below(rng, 4000);
    if (choice == 0) snprintf(line, sizeof line, "FLUSHDB");
    else if (choice < 10) snprintf(line, sizeof line, "SWAPDB %u %u", k % 3, v % 3);
    else if (choice < 30) h->now_ms += 1500, snprintf(line, sizeof line, "GET k%u", k);
    else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
        snprintf(line, sizeof line, forms[choice % (sizeof forms / sizeof *forms)], k, v, v, v);
#pragma GCC diagnostic pop
    }
    harness_run(h, line);
}

static struct harness *world(void)
{
    struct harness *h = harness_new(1, &strings_family, &keys_family, &expiry_family, &lists_family, &hashes_family, &sets_family, &zsets_family, NULL);
    h->check = false;
    return h;
}

static void a_cut_gives_out_exactly_what_was_there_whatever_changes_meanwhile(void **state)
{
    struct rng rng;
    struct harness *h = world();
    uint64_t saved_ahead = 0;
    rng_init(&rng, 4711);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned changes_per_step = (unsigned)rng_below(&rng, 60), want = 1 + (unsigned)rng_below(&rng, 10);
        for (unsigned i = (unsigned)rng_below(&rng, 2000); i; i--) write_something(h, &rng);
        struct copy copy = copy_new(h);
        uint64_t digest = store_digest(h->stores[0]), before;
        struct cut *c = cut_begin(h->stores[0], take, &copy);
        do {
            before = copy.emitted;
            for (unsigned i = changes_per_step; i; i--) write_something(h, &rng);
            saved_ahead += copy.emitted - before;
        } while (cut_step(c, want));
        assert_int_equal(cut_done(c), cut_total(c));
        assert_int_equal(copy.emitted, cut_total(c));
        assert_true(store_digest(copy.store) == digest);
        assert_int_equal(marks(h->stores[0]), 0);
        store_check(h->stores[0]);
        cut_free(c);
        store_free(copy.store);
    }
    assert_true(saved_ahead > ROUNDS); /* writers were ahead of the walk */
    harness_free(h);
}

static void a_flushed_database_still_goes_out_and_is_freed_behind(void **state)
{
    struct harness *h = world();
    for (unsigned i = 0; i < 500; i++) {
        char line[64];
        snprintf(line, sizeof line, "SET key:%u %u", i, i);
        harness_run(h, line);
    }
    struct copy copy = copy_new(h);
    uint64_t digest = store_digest(h->stores[0]);
    struct cut *c = cut_begin(h->stores[0], take, &copy);
    assert_true(cut_step(c, 100));
    harness_expect(h, "FLUSHDB", "+OK\r\n");
    harness_expect(h, "SET key:1 new", "+OK\r\n");
    harness_expect(h, "FLUSHALL", "+OK\r\n");
    harness_expect(h, "SET key:2 newer", "+OK\r\n");
    while (cut_step(c, 100)) continue;
    assert_int_equal(copy.emitted, 500);
    assert_true(store_digest(copy.store) == digest);
    cut_free(c);
    store_free(copy.store);
    assert_int_equal(store_keys(h->stores[0], 0), 1);
    harness_free(h);
}

static void an_abandoned_cut_gives_out_nothing_more_and_leaves_no_mark(void **state)
{
    struct rng rng;
    struct harness *h = world();
    rng_init(&rng, 5);
    for (unsigned i = 0; i < 3000; i++) write_something(h, &rng);
    struct copy copy = copy_new(h);
    struct cut *c = cut_begin(h->stores[0], take, &copy);
    cut_step(c, 20);
    for (unsigned i = 0; i < 100; i++) write_something(h, &rng);
    assert_true(marks(h->stores[0]) > 0);
    uint64_t emitted = copy.emitted;
    cut_abandon(c);
    while (cut_step(c, 20)) write_something(h, &rng);
    assert_int_equal(copy.emitted, emitted);
    assert_int_equal(marks(h->stores[0]), 0);
    cut_free(c);
    store_free(copy.store);
    harness_free(h);
}

static void a_cut_of_an_empty_store_is_at_its_end(void **state)
{
    struct harness *h = world();
    struct copy copy = copy_new(h);
    struct cut *c = cut_begin(h->stores[0], take, &copy);
    harness_expect(h, "SET k v", "+OK\r\n");
    assert_false(cut_step(c, 10));
    assert_int_equal(copy.emitted, 0);
    cut_free(c);
    store_free(copy.store);
    harness_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_gives_out_exactly_what_was_there_whatever_changes_meanwhile),
        cmocka_unit_test(a_flushed_database_still_goes_out_and_is_freed_behind),
        cmocka_unit_test(an_abandoned_cut_gives_out_nothing_more_and_leaves_no_mark),
        cmocka_unit_test(a_cut_of_an_empty_store_is_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
