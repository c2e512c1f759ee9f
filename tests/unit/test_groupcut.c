/* Snapshots of a group, taken while everything is written to. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rig.h"

#include "cluster/groupcut.h"
#include "groupsnaprig.h"
#include "io/file_sim.h"
#include "shard/walk.h"

#define DIR GROUPSNAPRIG_DIR

enum { SHARDS = 3, SEAT = 1, KEYS = 600, RECORDS = 20, TRIES_MAX = 20 * 1000 * 1000 };

struct replica {
    struct rig *rig;
    struct rng rng;
    struct walk *walk;
    struct file_sim *disk;
    struct groupcut_source source;
    struct groupcut_result result;
    pthread_t thread;
    struct store *twin; /* what the group had at the cut */
    uint64_t index;
    int header_rc, rc;
    atomic_bool cut, committed, unwanted, ended;
};

static void keep_in_twin(struct replica *p, uint16_t db, const struct entry *e)
{
    struct buf image = {0};
    image_write(&image, e);
    store_apply(p->twin, &(struct op){.kind = OP_RESTORE, .db = db, .key = entry_key(e), .value = buf_slice(&image), .expiry_ms = entry_expiry_ms(e)}, NULL);
    buf_fini(&image);
}

static void at_cut(void *ctx)
{
    struct replica *p = ctx;
    const struct store *s = p->rig->engine->stores[SEAT];
    if (p->twin) store_free(p->twin);
    p->twin = store_new(1, s->limits, 1);
    p->twin->now_ms = s->now_ms;
    for (uint16_t d = 0; d < STORE_ALL_DBS; d++) {
        struct table_iter it;
        if (!s->dbs[d]) continue;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) keep_in_twin(p, d, e);
    }
    atomic_store(&p->cut, true);
}

/* Waits until the entry that the store had run ahead to is committed. */
static int header(void *ctx, struct groupsnap_header *h)
{
    struct replica *p = ctx;
    while (!atomic_load(&p->committed)) sched_yield();
    *h = groupsnaprig_header(p->index, SLICE("all of it"));
    return p->header_rc;
}

static bool goes_on(void *ctx)
{
    struct replica *p = ctx;
    return !atomic_load(&p->unwanted);
}

static void *run(void *arg)
{
    struct replica *p = arg;
    p->rc = groupcut_run(p->walk, SEAT, &p->source, file_sim_ops(p->disk), DIR, COMPRESS_BALANCED, &p->result);
    atomic_store(&p->ended, true);
    return NULL;
}

static void start(struct replica *p)
{
    p->index++;
    atomic_store(&p->cut, false);
    atomic_store(&p->ended, false);
    atomic_store(&p->committed, false);
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
}

static void turn_until(struct replica *p, atomic_bool *flag)
{
    for (unsigned i = 0; !atomic_load(flag); i++) {
        RIG_CHECK(i < TRIES_MAX, "it never came");
        for (uint32_t k = 0; k < p->rig->n_workers; k++) rig_turn(p->rig, k);
        sched_yield();
    }
}

static void commit_and_join(struct replica *p)
{
    atomic_store(&p->committed, true);
    turn_until(p, &p->ended);
    pthread_join(p->thread, NULL);
}

/* ---- writers */

static void write_something(struct replica *p, struct client *c)
{
    unsigned k = (unsigned)rng_below(&p->rng, KEYS), v = (unsigned)rng_below(&p->rng, 1000);
    switch (rng_below(&p->rng, 9)) {
    case 0: rig_do(c, "SET k%u %u", k, v); break;
    case 1: rig_do(c, "SET k%u %0400u EX 100%u", k, v, v); break;
    case 2: rig_do(c, "RPUSH k%u a b %u", k, v); break;
    case 3: rig_do(c, "SADD k%u %u x%u", k, v, v); break;
    case 4: rig_do(c, "ZADD k%u 1 m%u 2.5 n", k, v); break;
    case 5: rig_do(c, "DEL k%u", k); break;
    case 6: rig_do(c, "EXPIRE k%u 50%u", k, v); break;
    case 7: rig_do(c, "APPEND k%u %u", k, v); break;
    default: rig_do(c, "LPOP k%u", k);
    }
    if (c->out.len > 1 << 16) c->out.len = 0;
}

static void write_much(struct replica *p, struct client *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++) write_something(p, c);
    c->out.len = 0;
    rig_hold(p->rig, SEAT);
    for (unsigned i = 0; i < RECORDS; i++) {
        char key[32], value[32];
        snprintf(key, sizeof key, "m%u", i);
        snprintf(value, sizeof value, "%u", (unsigned)rng_below(&p->rng, 1000));
        store_apply(p->rig->engine->stores[SEAT], &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = slice_str(key), .value = slice_str(value)}, NULL);
    }
    rig_let_go(p->rig, 0, SEAT);
}

/* ---- the world */

static void replica_init(struct replica *p, uint64_t seed)
{
    *p = (struct replica){.rig = rig_new(2, SHARDS), .disk = file_sim_new(DIR, seed)};
    rng_init(&p->rng, seed * 0x9e3779b97f4a7c15ull);
    p->walk = walk_new(p->rig->engine, NULL);
    p->source = (struct groupcut_source){.ctx = p, .at_cut = at_cut, .header = header, .goes_on = goes_on};
}

static void replica_fini(struct replica *p)
{
    if (p->twin) store_free(p->twin);
    walk_free(p->walk);
    rig_free(p->rig);
    file_sim_free(p->disk);
}

static void expect_twin(struct replica *p)
{
    struct groupsnap_reader *r;
    struct buf why = {0};
    uint64_t entries;
    struct store *again = store_new(2, p->twin->limits, 1);
    again->now_ms = p->twin->now_ms;
    assert_int_equal(groupsnap_find(&r, file_sim_ops(p->disk), DIR, groupsnaprig_cluster, GROUPSNAPRIG_GROUP, UINT64_MAX, &why), 1);
    assert_int_equal(groupsnap_header(r)->index, p->index);
    assert_true(groupsnap_header(r)->cut_ms == p->result.cut_ms && p->result.cut_ms > 0);
    assert_true(slice_eq(groupsnap_header(r)->owned, SLICE("all of it")));
    assert_int_equal(groupsnaprig_load(r, again, &entries, &why), 0);
    assert_int_equal(entries, storerandom_keys(p->twin));
    assert_int_equal(entries, p->result.totals.entries);
    assert_true(store_digest(again) == store_digest(p->twin));
    groupsnap_close(r);
    store_free(again);
    buf_fini(&why);
}

static uint32_t files_of(struct replica *p)
{
    struct groupdir_list l;
    assert_int_equal(groupdir_list(file_sim_ops(p->disk), DIR, &l), 0);
    mem_free(l.v);
    return l.n;
}

static void a_snapshot_has_what_the_group_had_at_the_cut_whatever_is_written_meanwhile(void **state)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct replica p;
        replica_init(&p, seed);
        struct client *c = rig_client(p.rig, 0);
        for (unsigned round = 0; round < 4; round++) {
            write_much(&p, c, 1500);
            start(&p);
            turn_until(&p, &p.cut);
            assert_true(storerandom_keys(p.twin) > RECORDS);
            write_much(&p, c, round % 2 ? 1500 : 20);
            commit_and_join(&p);
            assert_int_equal(p.rc, 0);
            expect_twin(&p);
        }
        assert_int_equal(files_of(&p), 4);
        assert_int_equal(groupdir_drop_before(file_sim_ops(p.disk), DIR, GROUPSNAPRIG_GROUP, p.index), 0);
        assert_int_equal(files_of(&p), 1);
        replica_fini(&p);
    }
}

static void an_empty_group_has_a_snapshot_too(void **state)
{
    struct replica p;
    replica_init(&p, 1);
    start(&p);
    commit_and_join(&p);
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.result.totals.entries, 0);
    expect_twin(&p);
    replica_fini(&p);
}

static void what_was_never_committed_leaves_no_snapshot(void **state)
{
    struct replica p;
    replica_init(&p, 2);
    write_much(&p, rig_client(p.rig, 0), 1000);
    start(&p);
    p.header_rc = -EPERM;
    commit_and_join(&p);
    assert_int_equal(p.rc, -EPERM);
    assert_int_equal(files_of(&p), 0);
    p.header_rc = 0;
    start(&p);
    commit_and_join(&p);
    assert_int_equal(p.rc, 0);
    expect_twin(&p);
    replica_fini(&p);
}

static void one_that_is_not_wanted_or_finds_no_room_leaves_nothing(void **state)
{
    struct replica p;
    replica_init(&p, 3);
    write_much(&p, rig_client(p.rig, 0), 1000);
    start(&p);
    turn_until(&p, &p.cut);
    atomic_store(&p.unwanted, true);
    commit_and_join(&p);
    assert_int_equal(p.rc, -ECANCELED);
    assert_int_equal(files_of(&p), 0);
    atomic_store(&p.unwanted, false);
    file_sim_set_faults(p.disk, (struct file_sim_faults){.space_bytes = 1000});
    start(&p);
    commit_and_join(&p);
    assert_int_equal(p.rc, -ENOSPC);
    assert_int_equal(files_of(&p), 0);
    file_sim_set_faults(p.disk, (struct file_sim_faults){0});
    start(&p);
    commit_and_join(&p);
    assert_int_equal(p.rc, 0);
    expect_twin(&p);
    replica_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_has_what_the_group_had_at_the_cut_whatever_is_written_meanwhile),
        cmocka_unit_test(an_empty_group_has_a_snapshot_too),
        cmocka_unit_test(what_was_never_committed_leaves_no_snapshot),
        cmocka_unit_test(one_that_is_not_wanted_or_finds_no_room_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
