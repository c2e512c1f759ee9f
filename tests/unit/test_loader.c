/* Layouts on a simulated disk: which dump set is taken, what damage does, and that laying out anew loses nothing wherever the power fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dump/dumpfile.h"
#include "dump/dumpset.h"
#include "io/file_sim.h"
#include "log/logdir.h"
#include "route/route.h"
#include "server/loader.h"
#include "server/relayout.h"
#include "store/store.h"

enum { SHARDS = 3, SEED = 99, KEYS = 40 };

static const struct store_limits limits = {.hash_entries = 8, .hash_value = 20, .set_ints = 6, .set_entries = 8, .set_value = 20, .zset_entries = 8,
                                           .zset_value = 20, .list_size = 5};

/* A server without clients: stores, their log, and dumps when asked. */
struct world {
    struct file_sim *sim;
    const struct file_ops *files;
    struct wal *wal;
    struct store *stores[SHARDS];
    uint64_t digest; /* of everything */
    int keys, dbs;   /* that an epoch writes to */
};

static uint64_t digest_of(struct store *const *stores, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += store_digest(stores[i]);
    return sum;
}

static void world_init(struct world *w, uint64_t seed)
{
    struct buf error = {0};
    *w = (struct world){.sim = file_sim_new("/d", seed), .keys = KEYS, .dbs = 3};
    w->files = file_sim_ops(w->sim);
    assert_int_equal(w->files->mkdir(w->files->ctx, "/d/layout-1"), 0);
    assert_int_equal(w->files->sync_dir(w->files->ctx, "/d"), 0);
    w->wal = wal_open(w->files, "/d/layout-1", SHARDS, 0, 1 << 20, &error);
    assert_non_null(w->wal);
    for (int i = 0; i < SHARDS; i++) w->stores[i] = store_new(SEED, &limits, 1);
}

static void world_fini(struct world *w)
{
    if (w->wal) wal_close(w->wal);
    for (int i = 0; i < SHARDS; i++) store_free(w->stores[i]);
    file_sim_free(w->sim);
}

/* One epoch: some keys get another value, some a list grows. */
static wal_epoch write_epoch(struct world *w, int n)
{
    struct route route = {.seed = SEED, .shards = SHARDS};
    for (int i = 0; i < w->keys; i++) {
        char key[32], value[64];
        snprintf(key, sizeof key, "%c%d", i % 2 ? 'l' : 's', i);
        snprintf(value, sizeof value, "value %d of epoch %d", i, n);
        struct slice v = slice_str(value);
        struct op op = {.kind = i % 2 ? OP_PUSH_TAIL : OP_SET, .db = (uint16_t)(i % w->dbs), .key = slice_str(key), .value = v, .items = &v, .n_items = 1};
        uint32_t shard = route_shard(&route, keyhash(op.key, SEED));
        wal_append(w->wal, shard, &op);
        store_apply(w->stores[shard], &op, NULL);
    }
    wal_epoch e = wal_cut(w->wal);
    assert_int_equal(wal_write(w->wal), 0);
    assert_int_equal(wal_sync(w->wal), 0);
    w->digest = digest_of(w->stores, SHARDS);
    return e;
}

static uint64_t add_all(const struct store *s, struct buf *raw)
{
    uint64_t n = 0;
    for (uint16_t d = 0; d < STORE_ALL_DBS; d++) {
        struct table_iter it;
        if (!s->dbs[d]) continue;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; (e = table_iter_next(&it)); n++) dumpfile_add_entry(raw, d, e);
    }
    return n;
}

/* A dump set of now; the log is rotated, as a dumper does. */
static void dump(struct world *w, wal_epoch epoch)
{
    struct dumpset *set;
    struct buf raw = {0};
    assert_int_equal(dumpset_new(&set, w->files, "/d/layout-1", SHARDS), 0);
    dumpset_begin(set, &(struct dumpset_header){.epoch = epoch, .seed = SEED}, COMPRESS_FAST, 128);
    for (uint32_t i = 0; i < SHARDS; i++) {
        raw.len = 0;
        uint64_t n = add_all(w->stores[i], &raw);
        assert_int_equal(dumpset_write(set, i, buf_slice(&raw), n), 0);
    }
    assert_int_equal(dumpset_finish(set), 0);
    dumpset_free(set);
    buf_fini(&raw);
    wal_rotate(w->wal);
}

static struct buf *dump_bytes(struct world *w, uint32_t shard, wal_epoch epoch)
{
    char path[LOGDIR_PATH_MAX];
    logdir_dump(path, "/d/layout-1", shard, epoch);
    return file_sim_bytes(w->sim, path);
}

static void damage_dump(struct world *w, uint32_t shard, wal_epoch epoch)
{
    struct buf *b = dump_bytes(w, shard, epoch);
    assert_non_null(b);
    b->p[b->len / 2] ^= 1;
}

struct outcome {
    int rc;
    uint64_t digest;
    struct loader_result result;
    struct buf error;
};

/* What a start would find; without the last step, nothing on disk changes. */
static struct outcome look(struct world *w, const char *dir, uint32_t shards, bool strict, bool finish)
{
    struct outcome o = {0};
    struct store **stores = mem_zalloc(shards * sizeof *stores);
    for (uint32_t i = 0; i < shards; i++) stores[i] = store_new(SEED, &limits, 2);
    struct loader *l = loader_new(&(struct loader_options){.files = w->files, .dir = dir, .shards = shards, .seed = SEED, .strict = strict});
    o.rc = loader_survey(l, &o.error);
    if (o.rc == 0) o.rc = loader_run(l, stores, &o.error);
    if (o.rc == 0 && finish) o.rc = loader_finish(l, &o.error);
    if (o.rc == 0) loader_result(l, &o.result);
    if (o.rc == 0) o.digest = digest_of(stores, shards);
    loader_free(l);
    for (uint32_t i = 0; i < shards; i++) store_free(stores[i]);
    mem_free(stores);
    return o;
}

static struct outcome load(struct world *w, const char *dir, uint32_t shards, bool strict) { return look(w, dir, shards, strict, true); }

/* The process ends and starts again. */
static struct outcome restart(struct world *w, bool strict)
{
    wal_close(w->wal);
    w->wal = NULL;
    file_sim_crash(w->sim, false);
    return load(w, "/d/layout-1", SHARDS, strict);
}

static void expect_refusal(struct outcome *o, const char *text)
{
    buf_add_byte(&o->error, '\0');
    assert_true(o->rc < 0);
    if (!strstr(o->error.p, text)) fail_msg("refused with: %s", o->error.p);
    buf_fini(&o->error);
}

static void the_newest_set_and_the_log_behind_it_are_loaded(void **state)
{
    struct world w;
    world_init(&w, 1);
    write_epoch(&w, 1);
    dump(&w, write_epoch(&w, 2));
    dump(&w, write_epoch(&w, 3));
    assert_int_equal(wal_drop_before(w.wal, 4), 0);
    write_epoch(&w, 4);
    struct outcome o = restart(&w, true);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result.dump.epoch, 3);
    assert_int_equal(o.result.log.records, KEYS);
    assert_int_equal(o.result.errors, 0);
    assert_true(o.digest == w.digest);
    world_fini(&w);
}

static void a_damaged_set_gives_way_to_the_one_before_if_the_log_is_there(void **state)
{
    struct world w;
    world_init(&w, 2);
    dump(&w, write_epoch(&w, 1));
    write_epoch(&w, 2);
    dump(&w, write_epoch(&w, 3));
    write_epoch(&w, 4);
    damage_dump(&w, 1, 3);
    struct outcome o = restart(&w, true);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result.dump.epoch, 1);
    assert_true(o.digest == w.digest);
    assert_null(dump_bytes(&w, 0, 3)); /* of no use any more */
    assert_null(dump_bytes(&w, 1, 3));
    assert_non_null(file_sim_bytes(w.sim, "/d/layout-1/shard-1/00000000000000000003.dump.corrupt"));
    o = load(&w, "/d/layout-1", SHARDS, true);
    assert_int_equal(o.rc, 0);
    assert_true(o.digest == w.digest);
    world_fini(&w);
}

static void without_any_valid_set_the_whole_log_will_do(void **state)
{
    struct world w;
    world_init(&w, 3);
    write_epoch(&w, 1);
    dump(&w, write_epoch(&w, 2));
    damage_dump(&w, 2, 2);
    struct outcome o = restart(&w, false);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result.dump.epoch, 0);
    assert_true(o.digest == w.digest);
    world_fini(&w);
}

static void a_damaged_set_whose_log_was_dropped_is_refused(void **state)
{
    for (int strict = 0; strict < 2; strict++) {
        struct world w;
        world_init(&w, 4);
        dump(&w, write_epoch(&w, 1));
        write_epoch(&w, 2);
        dump(&w, write_epoch(&w, 3));
        assert_int_equal(wal_drop_before(w.wal, 4), 0);
        if (strict) write_epoch(&w, 4); /* else there is no log at all */
        damage_dump(&w, 0, 3);
        struct outcome o = restart(&w, strict);
        expect_refusal(&o, strict ? "the log begins with epoch 4" : "the log does not have everything since epoch 1");
        assert_non_null(dump_bytes(&w, 0, 3)); /* nothing was changed */
        world_fini(&w);
    }
}

static void a_set_that_not_every_shard_has_does_not_count(void **state)
{
    struct world w;
    world_init(&w, 5);
    dump(&w, write_epoch(&w, 1));
    dump(&w, write_epoch(&w, 2));
    assert_int_equal(w.files->unlink(w.files->ctx, "/d/layout-1/shard-2/00000000000000000002.dump"), 0);
    struct outcome o = restart(&w, true);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result.dump.epoch, 1);
    assert_true(o.digest == w.digest);
    assert_null(dump_bytes(&w, 0, 2));
    world_fini(&w);
}

static void a_dump_of_another_directory_is_not_taken(void **state)
{
    struct world w;
    world_init(&w, 6);
    dump(&w, write_epoch(&w, 1));
    struct buf *from = dump_bytes(&w, 0, 1), *to = dump_bytes(&w, 1, 1);
    size_t n = from->len < to->len ? from->len : to->len;
    memcpy(to->p, from->p, n); /* the dump of another shard, or a torn one */
    struct outcome o = restart(&w, false);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result.dump.epoch, 0);
    assert_true(o.digest == w.digest);
    world_fini(&w);
}

/* ---- every byte */

/* What may come of a disk that is not as it was: a refusal, a loss that is told, the last epoch missing as after a crash; or all is there. */
struct verdicts {
    uint64_t all, without_last; /* digests */
    unsigned refused, told, torn, whole;
};

static void judge(struct world *w, struct verdicts *v, bool strict)
{
    struct outcome o = look(w, "/d/layout-1", SHARDS, strict, false);
    if (o.rc < 0) v->refused++;
    else if (o.result.errors) v->told++;
    else if (o.digest == v->all) v->whole++;
    else if (o.digest == v->without_last) v->torn++;
    else fail_msg("data that is wrong, and not a word about it");
    assert_false(strict && o.rc == 0 && o.result.errors);
    buf_fini(&o.error);
}

static void hurt_file(struct world *w, const char *path, struct verdicts *v)
{
    struct buf *b = file_sim_bytes(w->sim, path);
    assert_non_null(b);
    size_t len = b->len;
    for (size_t i = 0; i < len; i++) {
        char was = b->p[i];
        b->p[i] = (char)(was ^ 1 << i % 8);
        judge(w, v, i % 2);
        b->p[i] = was;
        b->len = i;
        judge(w, v, i / 2 % 2);
        b->len = len;
    }
}

static void hurt_everything(struct world *w, struct verdicts *v)
{
    char path[LOGDIR_PATH_MAX];
    for (uint32_t s = 0; s < SHARDS; s++) {
        struct logdir_numbers n;
        assert_int_equal(logdir_list(w->files, "/d/layout-1", s, &n), 0);
        for (uint32_t i = 0; i < n.n; i++) {
            logdir_segment(path, "/d/layout-1", s, n.v[i]);
            hurt_file(w, path, v);
        }
        mem_free(n.v);
        assert_int_equal(logdir_list_dumps(w->files, "/d/layout-1", s, &n), 0);
        for (uint32_t i = 0; i < n.n; i++) {
            logdir_dump(path, "/d/layout-1", s, n.v[i]);
            hurt_file(w, path, v);
        }
        mem_free(n.v);
    }
}

static void no_flipped_byte_and_no_truncation_gives_wrong_data_unnoticed(void **state)
{
    for (int dropped = 0; dropped < 2; dropped++) {
        struct world w;
        struct verdicts v = {0};
        world_init(&w, 8);
        w.keys = 8; /* few: a start for every byte of the files */
        w.dbs = 1;
        write_epoch(&w, 1);
        dump(&w, write_epoch(&w, 2));
        if (dropped) assert_int_equal(wal_drop_before(w.wal, 3), 0);
        write_epoch(&w, 3);
        v.without_last = w.digest;
        write_epoch(&w, 4);
        v.all = w.digest;
        wal_close(w.wal);
        w.wal = NULL;
        file_sim_crash(w.sim, false);
        judge(&w, &v, true);
        assert_int_equal(v.whole, 1);
        hurt_everything(&w, &v);
        assert_true(v.refused > 100 && v.told > 100 && v.torn > 100);
        assert_true(dropped || v.whole > 100); /* a damaged dump gives way to the log */
        world_fini(&w);
    }
}

/* ---- laying out anew */

enum { NEW_SHARDS = 5 };

/* All of it, as recovery does: the state goes into layout-2, then SHERD names it. */
static int lay_out_anew(struct world *w)
{
    struct buf error = {0};
    struct store *to[NEW_SHARDS];
    struct dumper_past written;
    for (int i = 0; i < NEW_SHARDS; i++) to[i] = store_new(SEED, &limits, 3);
    struct relayout r = {.files = w->files, .dir = "/d/layout-2", .shards = NEW_SHARDS, .seed = SEED, .profile = COMPRESS_BALANCED, .min_size = 128};
    int rc = w->files->mkdir(w->files->ctx, "/d/layout-2");
    if (rc == 0) rc = w->files->sync_dir(w->files->ctx, "/d");
    if (rc == 0) rc = relayout_write(&r, w->stores, SHARDS, to, &written, &error);
    if (rc == 0) assert_true(digest_of(to, NEW_SHARDS) == w->digest);
    if (rc == 0) rc = file_put_whole(w->files, "/d", "/d/SHERD", SLICE("2"));
    for (int i = 0; i < NEW_SHARDS; i++) store_free(to[i]);
    buf_fini(&error);
    return rc;
}

/* One key in every shard, wherever its hash would put it: what a shard knows about itself. */
static void write_system_records(struct world *w, const char *value)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s %u", value, i);
        struct op op = {.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("about this shard"), .value = slice_str(text)};
        wal_append(w->wal, i, &op);
        store_apply(w->stores[i], &op, NULL);
    }
}

static void system_records_stay_with_their_shard_in_the_log_in_dumps_and_among_other_shards(void **state)
{
    for (int dumped = 0; dumped < 2; dumped++) {
        struct world w;
        world_init(&w, 9);
        write_system_records(&w, "first");
        wal_epoch e = write_epoch(&w, 1);
        if (dumped) dump(&w, e);
        write_system_records(&w, dumped ? "first" : "second");
        write_epoch(&w, 2);
        struct outcome o = restart(&w, true);
        assert_int_equal(o.rc, 0);
        assert_true(o.digest == w.digest);
        assert_int_equal(lay_out_anew(&w), 0);
        o = load(&w, "/d/layout-2", NEW_SHARDS, true);
        assert_int_equal(o.rc, 0);
        assert_true(o.digest == w.digest);
        world_fini(&w);
    }
}

static void power_lost_at_any_step_of_laying_out_anew_loses_nothing(void **state)
{
    unsigned old = 0, new = 0;
    for (uint64_t k = 1; new == 0 || k % 7; k++) {
        struct world w;
        world_init(&w, k);
        dump(&w, write_epoch(&w, 1));
        write_epoch(&w, 2);
        assert_int_equal(file_put_whole(w.files, "/d", "/d/SHERD", SLICE("1")), 0);
        uint64_t before = file_sim_calls(w.sim);
        file_sim_set_faults(w.sim, (struct file_sim_faults){.power_off_at = before + k});
        int rc = lay_out_anew(&w);
        file_sim_crash(w.sim, true);
        struct buf *identity = file_sim_bytes(w.sim, "/d/SHERD");
        assert_non_null(identity);
        bool is_new = identity->p[0] == '2';
        assert_true(is_new || rc < 0);
        struct outcome o = load(&w, is_new ? "/d/layout-2" : "/d/layout-1", is_new ? NEW_SHARDS : SHARDS, true);
        assert_int_equal(o.rc, 0);
        assert_true(o.digest == w.digest);
        if (is_new) new++;
        else old++;
        world_fini(&w);
    }
    assert_true(old > 10 && new > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_set_and_the_log_behind_it_are_loaded),
        cmocka_unit_test(a_damaged_set_gives_way_to_the_one_before_if_the_log_is_there),
        cmocka_unit_test(without_any_valid_set_the_whole_log_will_do),
        cmocka_unit_test(a_damaged_set_whose_log_was_dropped_is_refused),
        cmocka_unit_test(a_set_that_not_every_shard_has_does_not_count),
        cmocka_unit_test(a_dump_of_another_directory_is_not_taken),
        cmocka_unit_test(no_flipped_byte_and_no_truncation_gives_wrong_data_unnoticed),
        cmocka_unit_test(system_records_stay_with_their_shard_in_the_log_in_dumps_and_among_other_shards),
        cmocka_unit_test(power_lost_at_any_step_of_laying_out_anew_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
