#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cold/tier.h"
#include "io/file_sim.h"

enum { VALUES_MAX = 20000 };

/* What the tier should have. */
struct value {
    struct chill_ref ref;
    uint32_t id, size;
    bool there;
};

struct world {
    struct file_sim *disk;
    struct tier *tier;
    struct rng rng;
    struct value values[VALUES_MAX];
    uint32_t n;
    struct tier_moves *moves; /* not yet told to the owners */
    uint64_t taken, full, failing, read, moved, moved_in_vain;
};

static void keep_moves(void *ctx, struct tier_moves *m) { ((struct world *)ctx)->moves = m; }

static struct world *world_new(uint64_t seed)
{
    struct world *w = mem_zalloc(sizeof *w);
    struct buf error = {0};
    rng_init(&w->rng, seed);
    w->disk = file_sim_new("/cold", seed);
    w->tier = tier_open(file_sim_ops(w->disk), "/cold/tier", NULL, &error);
    assert_non_null(w->tier);
    tier_hook_moves(w->tier, keep_moves, w);
    return w;
}

static void world_free(struct world *w)
{
    tier_close(w->tier);
    file_sim_free(w->disk);
    mem_free(w);
}

static void key_of(char out[16], uint32_t id) { snprintf(out, 16, "key:%u", id); }

static void content_of(struct buf *b, const struct value *v)
{
    struct rng r;
    rng_init(&r, v->id + 1);
    b->len = 0;
    for (uint32_t i = 0; i < v->size; i++) buf_add_byte(b, (char)(v->id % 3 ? 'a' + v->id % 20 + (i % 50 == 0) : rng_u64(&r)));
}

static enum tier_answer put(struct world *w, uint32_t size)
{
    if (w->n == VALUES_MAX) return TIER_FULL;
    struct value *v = &w->values[w->n];
    *v = (struct value){.id = w->n, .size = size};
    char key[16];
    struct buf b = {0};
    key_of(key, v->id);
    content_of(&b, v);
    enum tier_answer a = tier_put(w->tier, slice_str(key), buf_slice(&b), &v->ref);
    buf_fini(&b);
    v->there = a == TIER_TAKEN;
    w->n += v->there;
    w->taken += a == TIER_TAKEN;
    w->full += a == TIER_FULL;
    w->failing += a == TIER_FAILING;
    return a;
}

static void must_have(struct world *w, const struct value *v)
{
    char key[16];
    struct buf expected = {0}, got = {0};
    key_of(key, v->id);
    content_of(&expected, v);
    assert_int_equal(tier_get(w->tier, v->ref, slice_str(key), &got), 0);
    assert_true(slice_eq(buf_slice(&got), buf_slice(&expected)));
    buf_fini(&expected);
    buf_fini(&got);
    w->read++;
}

static void drop(struct world *w, struct value *v)
{
    tier_drop(w->tier, v->ref);
    v->there = false;
}

static struct value *any(struct world *w)
{
    for (int i = 0; i < 50 && w->n; i++) {
        struct value *v = &w->values[rng_below(&w->rng, w->n)];
        if (v->there) return v;
    }
    return NULL;
}

/* The owners are told of what cleaning has moved: as shard/thaw.c does it. */
static void tell_owners(struct world *w)
{
    struct tier_moves *m = w->moves;
    if (!m) return;
    w->moves = NULL;
    for (uint32_t i = 0; i < m->n; i++) {
        unsigned id;
        char key[16] = {0};
        memcpy(key, m->keys.p + m->move[i].key_at, m->move[i].key_len);
        assert_int_equal(sscanf(key, "key:%u", &id), 1);
        struct value *v = &w->values[id];
        bool found = v->there && chill_same(v->ref, m->move[i].from);
        if (found) v->ref = m->move[i].to;
        tier_drop(w->tier, found ? m->move[i].from : m->move[i].to);
        w->moved += found;
        w->moved_in_vain += !found;
    }
    tier_moves_done(w->tier);
}

static void any_walk_agrees_with_the_naive_twin(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world *w = world_new(seed);
        tier_set_pending_max(w->tier, 2 << 20);
        for (int i = 0; i < 60000; i++) {
            struct value *v;
            switch (rng_below(&w->rng, 12)) {
            case 0:
            case 1:
            case 2:
            case 3: put(w, (uint32_t)rng_below(&w->rng, rng_below(&w->rng, 50) ? 9000 : 600000)); break;
            case 4:
            case 5:
            case 6:
            case 7:
                if ((v = any(w)) && w->n > 500) drop(w, v);
                break;
            case 8:
            case 9:
                if ((v = any(w))) must_have(w, v);
                break;
            case 10: tell_owners(w); break;
            default: tier_step(w->tier);
            }
            if (i % 4000 == 0) tier_check(w->tier);
        }
        for (int i = 0; i < 2000; i++) {
            tier_step(w->tier);
            tell_owners(w);
        }
        tier_check(w->tier);
        for (uint32_t i = 0; i < w->n; i++)
            if (w->values[i].there) must_have(w, &w->values[i]);
        struct tier_stats s;
        tier_get_stats(w->tier, &s);
        assert_true(s.cleaned > 0 && w->moved > 0 && w->moved_in_vain > 0 && w->full > 0 && s.reads > 100 && s.gets > s.reads);
        assert_true(s.live_bytes * 2 >= s.disk_bytes || s.disk_bytes < 80u << 20); /* only the open segment may be emptier */
        for (uint32_t i = 0; i < w->n; i++)
            if (w->values[i].there) drop(w, &w->values[i]);
        tier_check(w->tier);
        world_free(w);
    }
}

static void fill(struct world *w, uint32_t values, uint32_t size)
{
    while (values--)
        while (put(w, size) != TIER_TAKEN) assert_true(tier_step(w->tier));
}

static void nothing_that_died_in_the_buffer_is_written(void **state)
{
    struct world *w = world_new(1);
    for (int i = 0; i < 3000; i++) {
        put(w, 1000);
        drop(w, &w->values[w->n - 1]);
        while (tier_step(w->tier)) {
        }
    }
    struct tier_stats s;
    tier_get_stats(w->tier, &s);
    assert_int_equal(s.disk_bytes, 0);
    assert_int_equal(s.values, 0);
    world_free(w);
}

static void what_is_pinned_can_be_read_after_it_was_dropped(void **state)
{
    struct world *w = world_new(1);
    put(w, 5000);
    struct value v = w->values[0];
    tier_pin(w->tier, v.ref);
    drop(w, &w->values[0]); /* while it is in the buffer: it must be written all the same */
    fill(w, 15000, 6000);
    for (uint32_t i = 1; i < w->n; i++) drop(w, &w->values[i]);
    while (tier_step(w->tier)) {
    }
    must_have(w, &v);
    struct tier_stats s;
    tier_get_stats(w->tier, &s);
    uint64_t before = s.disk_bytes;
    tier_unpin(w->tier, v.ref);
    while (tier_step(w->tier)) {
    }
    tier_get_stats(w->tier, &s);
    assert_true(s.disk_bytes < before);
    world_free(w);
}

static void a_full_disk_stops_putting_and_loses_nothing(void **state)
{
    struct world *w = world_new(3);
    file_sim_set_faults(w->disk, (struct file_sim_faults){.space_bytes = 1 << 20, .short_writes = true});
    for (int i = 0; i < 3000; i++) {
        put(w, 3001);
        tier_step(w->tier);
    }
    struct tier_stats s;
    tier_get_stats(w->tier, &s);
    assert_true(s.failing && s.write_errors > 0 && w->failing > 0);
    for (uint32_t i = 0; i < w->n; i++) must_have(w, &w->values[i]);
    file_sim_set_faults(w->disk, (struct file_sim_faults){0});
    assert_true(tier_step(w->tier));
    assert_int_equal(put(w, 3000), TIER_TAKEN);
    for (uint32_t i = 0; i < w->n; i++) must_have(w, &w->values[i]);
    tier_check(w->tier);
    world_free(w);
}

static void settle(struct world *w)
{
    for (int i = 0; i < 100000; i++) {
        bool did = tier_step(w->tier);
        tell_owners(w);
        if (!did && !tier_step(w->tier)) return;
    }
    fail_msg("the tier does not come to rest");
}

static void a_file_whose_values_died_before_it_was_full_is_removed_when_it_is(void **state)
{
    struct world *w = world_new(4);
    struct tier_stats s;
    for (int i = 0; i < 300; i++) { /* more than a file takes, and nothing of it lives for long */
        fill(w, 40, 6000);
        tier_flush(w->tier);
        settle(w);
        for (uint32_t k = w->n - 40; k < w->n; k++) drop(w, &w->values[k]);
    }
    settle(w);
    tier_check(w->tier);
    tier_get_stats(w->tier, &s);
    assert_int_equal(s.segments, 1);
    assert_in_range(s.disk_bytes, 1, 12 << 20);
    world_free(w);
}

static void long_keys_fill_a_file_as_values_do(void **state)
{
    enum { KEY_BYTES = 1 << 20, N = 200 };
    struct world *w = world_new(5);
    struct buf key = {0};
    struct chill_ref refs[N];
    struct tier_stats s;
    for (uint32_t i = 0; i < N; i++) {
        key.len = 0;
        buf_printf(&key, "%u:", i);
        while (key.len < KEY_BYTES) buf_add_str(&key, "a long key, ");
        while (tier_put(w->tier, buf_slice(&key), SLICE("short"), &refs[i]) != TIER_TAKEN) assert_true(tier_step(w->tier));
    }
    tier_get_stats(w->tier, &s);
    assert_in_range(s.segments, 3, 5); /* offsets in a file have 32 bits */
    for (uint32_t i = 0; i < N; i++) tier_drop(w->tier, refs[i]);
    tier_flush(w->tier);
    settle(w);
    tier_check(w->tier);
    buf_fini(&key);
    world_free(w);
}

static void a_large_value_in_the_buffer_does_not_keep_files_from_being_cleaned(void **state)
{
    struct world *w = world_new(6);
    struct tier_stats s;
    tier_set_pending_max(w->tier, 1 << 20);
    fill(w, 11300, 6000);
    tier_flush(w->tier);
    settle(w);
    fill(w, 60, 6000);
    tier_flush(w->tier);
    settle(w);
    assert_int_equal(put(w, 3 << 20), TIER_TAKEN); /* it fills the buffers beyond what they may hold, and nothing comes after it */
    for (uint32_t i = 0; i < 11000; i++)
        if (i % 4) drop(w, &w->values[i]);
    settle(w);
    tier_get_stats(w->tier, &s);
    assert_int_equal(s.cleaned, 1);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->values[i].there) must_have(w, &w->values[i]);
    tier_check(w->tier);
    world_free(w);
}

/* One byte of the file after the other, and the file cut. */
static void a_damaged_value_is_an_error_and_the_others_are_not(void **state)
{
    struct world *w = world_new(1);
    fill(w, 1000, 400);
    while (tier_step(w->tier)) {
    }
    struct buf *file = file_sim_bytes(w->disk, "/cold/tier/0000000000.cold"), got = {0};
    assert_non_null(file);
    struct value *v = &w->values[1];
    unsigned errors = 0;
    for (size_t i = 0; i < 3000; i++) {
        file->p[i] ^= 0x10;
        int rc = tier_get(w->tier, v->ref, SLICE("key:1"), &got);
        file->p[i] ^= 0x10;
        assert_true(rc == 0 || rc == -EBADMSG);
        if (rc < 0) assert_int_equal(got.len, 0);
        got.len = 0;
        errors += rc < 0;
    }
    assert_in_range(errors, 30, 600); /* exactly the bytes of its record */
    file->len = 10;
    assert_int_equal(tier_get(w->tier, v->ref, SLICE("key:1"), &got), -EBADMSG);
    struct tier_stats s;
    tier_get_stats(w->tier, &s);
    assert_int_equal(s.read_errors, errors + 1);
    drop(w, v);
    buf_fini(&got);
    world_free(w);
}

static void files_of_before_are_removed_and_others_left_alone(void **state)
{
    struct file_sim *disk = file_sim_new("/cold", 1);
    const struct file_ops *ops = file_sim_ops(disk);
    struct buf error = {0};
    struct tier *t = tier_open(ops, "/cold/tier", NULL, &error);
    assert_non_null(t);
    assert_true(ops->open(ops->ctx, "/cold/tier/0000000009.cold", FILE_CREATE) >= 0);
    assert_true(ops->open(ops->ctx, "/cold/tier/mine.txt", FILE_CREATE) >= 0);
    tier_close(t);
    t = tier_open(ops, "/cold/tier", NULL, &error);
    assert_non_null(t);
    assert_null(file_sim_bytes(disk, "/cold/tier/0000000009.cold"));
    assert_non_null(file_sim_bytes(disk, "/cold/tier/mine.txt"));
    tier_close(t);
    file_sim_free(disk);
}

/* ---- with its thread, on a real disk */

enum { THREADS = 3, PER_THREAD = 4000 };

struct user {
    struct tier *tier;
    unsigned id;
    struct chill_ref refs[PER_THREAD];
};

static void *use(void *arg)
{
    struct user *u = arg;
    struct buf got = {0};
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        char key[32], value[900];
        snprintf(key, sizeof key, "%u:%u", u->id, i);
        memset(value, 'a' + (int)(i % 26), sizeof value);
        while (tier_put(u->tier, slice_str(key), slice_of(value, sizeof value), &u->refs[i]) != TIER_TAKEN) tier_wait(u->tier);
        if (i % 3 == 2) tier_drop(u->tier, u->refs[i - 1]);
        if (i % 7 == 6 && i > 600) {
            uint32_t k = (i - 600) / 3 * 3;
            got.len = 0;
            snprintf(key, sizeof key, "%u:%u", u->id, k);
            int rc = tier_get(u->tier, u->refs[k], slice_str(key), &got);
            CHECK(rc == 0 && got.len == sizeof value && got.p[7] == 'a' + (int)(k % 26));
        }
    }
    buf_fini(&got);
    return NULL;
}

static void several_threads_put_get_and_drop(void **state)
{
    char dir[] = "/tmp/sherd-tier-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct buf error = {0};
    struct tier *t = tier_open(&file_disk, dir, NULL, &error);
    assert_non_null(t);
    tier_set_pending_max(t, 1 << 20);
    tier_start(t, NULL, NULL);
    pthread_t threads[THREADS];
    struct user *users = mem_zalloc(THREADS * sizeof *users);
    for (unsigned i = 0; i < THREADS; i++) {
        users[i].tier = t;
        users[i].id = i;
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    tier_check(t);
    struct tier_stats s;
    tier_get_stats(t, &s);
    assert_true(s.reads > 0 && s.disk_bytes > 0);
    tier_close(t);
    mem_free(users);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_walk_agrees_with_the_naive_twin),
        cmocka_unit_test(nothing_that_died_in_the_buffer_is_written),
        cmocka_unit_test(what_is_pinned_can_be_read_after_it_was_dropped),
        cmocka_unit_test(a_full_disk_stops_putting_and_loses_nothing),
        cmocka_unit_test(a_file_whose_values_died_before_it_was_full_is_removed_when_it_is),
        cmocka_unit_test(long_keys_fill_a_file_as_values_do),
        cmocka_unit_test(a_large_value_in_the_buffer_does_not_keep_files_from_being_cleaned),
        cmocka_unit_test(a_damaged_value_is_an_error_and_the_others_are_not),
        cmocka_unit_test(files_of_before_are_removed_and_others_left_alone),
        cmocka_unit_test(several_threads_put_get_and_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
