#include "server/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/slog.h"
#include "dump/dumpfile.h"
#include "dump/dumpset.h"
#include "io/file.h"
#include "io/fileview.h"
#include "log/logdir.h"
#include "log/replay.h"
#include "store/fits.h"
#include "store/image.h"

enum {
    SETS_MAX = 1024,  /* that are looked at */
    RELIEVE_OPS = 256, /* between two calls of relieve */
    BATCH = 16,       /* entries whose places in the table are fetched ahead: about what a core can have in flight */
    DAMAGES_TOLD = 20,
};

struct part { /* a shard's */
    struct loader *loader;
    uint32_t shard;
    struct store *store;
    struct fileview dump; /* open while a set is looked at, and of the chosen one */
    struct dumpfile_info info;
    uint64_t dump_bytes;  /* of the chosen set's file */
    bool dump_damaged;
    uint64_t entries, unfit;
    unsigned since_relief; /* ops */
    struct buf error;
};

struct loader {
    struct loader_options o;
    wal_epoch epoch;      /* of the chosen set, if has_set */
    bool has_set;
    bool fell_back;       /* a newer set, or a part of one, is there but cannot be used */
    struct buf damaged;   /* paths of damaged dumps, one behind the other, each with its zero */
    struct replay *replay;
    struct part *parts;   /* [shards] */
};

/* ---- threads */

struct lane {
    int (*step)(void *ctx, uint32_t i);
    void *ctx;
    uint32_t i;
    int rc;
    pthread_t thread;
};

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    lane->rc = lane->step(lane->ctx, lane->i);
    return NULL;
}

static void start_lane(struct lane *lane)
{
    int rc = pthread_create(&lane->thread, NULL, run_lane, lane);
    CHECK(rc == 0);
    char name[16];
    snprintf(name, sizeof name, "loader-%u", lane->i);
    pthread_setname_np(lane->thread, name);
}

int loader_parallel(uint32_t n, bool threads, int (*step)(void *ctx, uint32_t i), void *ctx)
{
    struct lane *lanes = mem_zalloc(n * sizeof *lanes);
    int rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        lanes[i] = (struct lane){.step = step, .ctx = ctx, .i = i};
        if (threads) start_lane(&lanes[i]);
        else run_lane(&lanes[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (threads) pthread_join(lanes[i].thread, NULL);
        if (rc == 0) rc = lanes[i].rc;
    }
    mem_free(lanes);
    return rc;
}

/* The same over the parts; the first reason is the loader's. */
static int on_parts(struct loader *l, int (*step)(void *ctx, uint32_t i), struct buf *error)
{
    int rc = loader_parallel(l->o.shards, l->o.threads, step, l);
    for (uint32_t i = 0; i < l->o.shards; i++) {
        if (rc && error->len == 0) buf_add_slice(error, buf_slice(&l->parts[i].error));
        l->parts[i].error.len = 0;
    }
    return rc;
}

static bool is_stopped(const struct loader *l) { return l->o.stop && atomic_load_explicit(l->o.stop, memory_order_relaxed); }

struct loader *loader_new(const struct loader_options *o)
{
    struct loader *l = mem_zalloc(sizeof *l);
    l->o = *o;
    l->parts = mem_zalloc(o->shards * sizeof *l->parts);
    for (uint32_t i = 0; i < o->shards; i++) l->parts[i] = (struct part){.loader = l, .shard = i};
    return l;
}

static void close_dumps(struct loader *l)
{
    for (uint32_t i = 0; i < l->o.shards; i++) fileview_close(&l->parts[i].dump);
}

void loader_free(struct loader *l)
{
    close_dumps(l);
    for (uint32_t i = 0; i < l->o.shards; i++) buf_fini(&l->parts[i].error);
    if (l->replay) replay_free(l->replay);
    buf_fini(&l->damaged);
    mem_free(l->parts);
    mem_free(l);
}

/* ---- which dump set */

/* Why a file cannot be this shard's dump of that epoch; NULL: it can. */
static const char *mismatch(const struct part *p, const struct dumpfile_header *h)
{
    const struct loader *l = p->loader;
    if (h->shard != p->shard || h->shards != l->o.shards) return "it belongs to another shard or layout";
    if (h->epoch != l->epoch) return "it is the dump of another epoch";
    return h->seed == l->o.seed ? NULL : "it belongs to another data directory";
}

static int check_dump(void *ctx, uint32_t i)
{
    struct loader *l = ctx;
    struct part *p = &l->parts[i];
    char path[LOGDIR_PATH_MAX];
    logdir_dump(path, l->o.dir, i, l->epoch);
    buf_printf(&p->error, "%s: ", path);
    int rc = is_stopped(l) ? -ECANCELED : fileview_open(&p->dump, l->o.files, path);
    if (rc == -ECANCELED) return rc;
    p->dump_damaged = true;
    if (rc) {
        buf_add_str(&p->error, strerror(-rc));
        return 0;
    }
    enum dumpfile_state state = dumpfile_check(p->dump.bytes, &p->info, &p->error);
    if (state == DUMPFILE_NEWER) return -EINVAL;
    const char *why = state == DUMPFILE_GOOD ? mismatch(p, &p->info.header) : "";
    if (why) buf_add_str(&p->error, why);
    else p->dump_damaged = false;
    return 0;
}

static void note_damaged_dumps(struct loader *l)
{
    for (uint32_t i = 0; i < l->o.shards; i++) {
        struct part *p = &l->parts[i];
        char path[LOGDIR_PATH_MAX];
        if (!p->dump_damaged) continue;
        logdir_dump(path, l->o.dir, i, l->epoch);
        buf_add(&l->damaged, path, strlen(path) + 1);
        if (l->o.log) slog(l->o.log, SLOG_WARNING, "a damaged dump is passed over", "error=%.*s", (int)p->error.len, p->error.p);
    }
}

/* Epochs of a history that a crash cut short are numbered again: files of the same number are one set only if they are of the same moment. */
static bool is_of_one_cut(const struct loader *l)
{
    for (uint32_t i = 1; i < l->o.shards; i++)
        if (l->parts[i].info.header.cut_ms != l->parts[0].info.header.cut_ms) return false;
    return true;
}

/* 1: all files of the set are valid, and open; 0: not. */
static int try_set(struct loader *l, wal_epoch epoch, struct buf *error)
{
    bool good = true;
    l->epoch = epoch;
    int rc = loader_parallel(l->o.shards, l->o.threads, check_dump, l);
    for (uint32_t i = 0; i < l->o.shards; i++) good &= !l->parts[i].dump_damaged;
    if (rc == 0 && !good) note_damaged_dumps(l);
    good = good && is_of_one_cut(l);
    for (uint32_t i = 0; i < l->o.shards; i++) {
        if (rc && rc != -ECANCELED && error->len == 0 && l->parts[i].dump_damaged) buf_add_slice(error, buf_slice(&l->parts[i].error));
        l->parts[i].error.len = 0;
    }
    if (rc || !good) close_dumps(l);
    return rc ? rc : good;
}

/* The newest dump that any shard has; 0: there is none. */
static int newest_dump(const struct loader *l, wal_epoch *newest)
{
    int rc = 0;
    *newest = 0;
    for (uint32_t i = 0; i < l->o.shards && rc == 0; i++) {
        struct logdir_numbers here;
        rc = logdir_list_dumps(l->o.files, l->o.dir, i, &here);
        if (here.n && here.v[here.n - 1] > *newest) *newest = here.v[here.n - 1];
        mem_free(here.v);
    }
    return rc;
}

static int choose_set(struct loader *l, struct buf *error)
{
    wal_epoch newest, *epochs = mem_alloc(SETS_MAX * sizeof *epochs);
    int rc = newest_dump(l, &newest), n = rc ? rc : dumpset_list(l->o.files, l->o.dir, l->o.shards, epochs, SETS_MAX);
    rc = n < 0 ? n : 0;
    if (rc) buf_printf(error, "%s: cannot be listed: %s", l->o.dir, strerror(-rc));
    for (int i = 0; i < n && rc == 0 && !l->has_set; i++) {
        rc = try_set(l, epochs[i], error);
        l->has_set = rc == 1;
        if (rc == 1) rc = 0;
    }
    if (!l->has_set) l->epoch = 0;
    l->fell_back = newest > l->epoch;
    if (l->fell_back && rc == 0 && l->o.log)
        slog(l->o.log, SLOG_WARNING, "the newest dump is not whole or not valid, an older state and the log since are used", "newest=%llu used=%llu",
             (unsigned long long)newest, (unsigned long long)l->epoch);
    mem_free(epochs);
    return rc;
}

/* ---- the log */

static int survey_log(void *ctx, uint32_t i)
{
    struct loader *l = ctx;
    return replay_survey(l->replay, i, &l->parts[i].error);
}

struct told {
    const struct slog *log;
    unsigned n;
};

static void tell_damage(void *ctx, const char *path, uint64_t at, uint64_t records, const char *what)
{
    struct told *told = ctx;
    if (told->n++ < DAMAGES_TOLD)
        slog(told->log, SLOG_WARNING, "the log is damaged, records are skipped", "file=%s offset=%llu what=%s records=%llu", path, (unsigned long long)at, what,
             (unsigned long long)records);
}

static void tell_damages(const struct loader *l)
{
    struct told told = {l->o.log, 0};
    if (!l->o.log || !replay_is_damaged(l->replay)) return;
    replay_each_damage(l->replay, tell_damage, &told);
    if (told.n > DAMAGES_TOLD) slog(l->o.log, SLOG_WARNING, "the log is damaged in further places", "places=%u", told.n - DAMAGES_TOLD);
    if (replay_missing(l->replay))
        slog(l->o.log, SLOG_WARNING, "the log lacks ends of epochs", "dir=%s epochs=%llu", l->o.dir, (unsigned long long)replay_missing(l->replay));
}

static int decide(struct loader *l, struct buf *error)
{
    int rc = replay_decide(l->replay, error);
    if (rc) return rc;
    if (l->fell_back && (replay_missing(l->replay) || !replay_reaches_back(l->replay))) {
        buf_printf(error, "the newest dump is not whole or not valid, and the log does not have everything since epoch %" PRIu64, l->epoch);
        return -EINVAL;
    }
    if (l->o.needs_dump && !l->has_set) {
        buf_printf(error, "%s: began with a dump, and there is none that is whole and valid", l->o.dir);
        return -EINVAL;
    }
    tell_damages(l);
    return 0;
}

int loader_survey(struct loader *l, struct buf *error)
{
    int rc = choose_set(l, error);
    if (rc) return rc;
    l->replay = replay_new(l->o.files, l->o.dir, l->o.shards, l->epoch, l->o.strict);
    replay_watch(l->replay, l->o.stop, l->o.progress ? &l->o.progress->loaded_bytes : NULL);
    rc = on_parts(l, survey_log, error);
    if (rc == 0) rc = decide(l, error);
    if (rc || !l->o.progress) return rc;
    uint64_t total = replay_bytes(l->replay);
    for (uint32_t i = 0; i < l->o.shards; i++) total += l->parts[i].dump.bytes.n;
    atomic_store(&l->o.progress->total_bytes, total);
    return 0;
}

/* ---- filling a store */

static void add_op(struct part *p, const struct op *op, uint64_t hash)
{
    struct place at;
    bool keyed = op->kind != OP_FLUSH && op->kind != OP_SWAP;
    if (likely(fits_op(p->store, op, hash, &at))) store_apply(p->store, op, keyed ? &at : NULL);
    else p->unfit++;
    const struct loader_options *o = &p->loader->o;
    if (likely(++p->since_relief < RELIEVE_OPS) || !o->relieve) return;
    p->since_relief = 0;
    o->relieve(o->relieve_ctx, p->store);
}

static void add_entry(struct part *p, const struct dumpfile_entry *e, uint64_t hash)
{
    struct op op = {.kind = OP_RESTORE, .db = e->db, .key = e->key, .expiry_ms = e->expiry_ms};
    if (image_plain_string(e->image, &op.value)) op.kind = OP_SET;
    else op.value = e->image;
    add_op(p, &op, hash);
}

/* Up to BATCH entries of one block: within it they stay where they are. */
static int take_batch(struct dumpfile_reader *r, struct dumpfile_entry batch[BATCH])
{
    int n = dumpfile_next(r, &batch[0]);
    if (n <= 0) return n;
    while (n < BATCH && r->left.n) {
        int rc = dumpfile_next(r, &batch[n]);
        if (rc <= 0) return rc;
        n++;
    }
    return n;
}

static void add_batch(struct part *p, const struct dumpfile_entry *batch, int n)
{
    uint64_t hashes[BATCH];
    for (int i = 0; i < n; i++) {
        hashes[i] = keyhash(batch[i].key, p->store->seed);
        if (batch[i].db < STORE_ALL_DBS) store_prefetch(p->store, batch[i].db, hashes[i]);
    }
    for (int i = 0; i < n; i++) add_entry(p, &batch[i], hashes[i]);
    p->entries += (uint64_t)n;
}

/* The file was checked as a whole: what is wrong now is its writer's fault, or the disk's since. */
static int read_dump(struct part *p, struct dumpfile_reader *r)
{
    struct loader *l = p->loader;
    struct dumpfile_entry batch[BATCH];
    size_t told = 0;
    for (int n; (n = take_batch(r, batch)) != 0;) {
        if (n < 0) {
            buf_printf(&p->error, "the dump of shard %u at byte %zu: %s", p->shard, r->fault_at, r->fault);
            return n;
        }
        if (p->entries == 0 && batch[0].db < STORE_DBS) store_expect(p->store, batch[0].db, p->info.entries / 11 * 9);
        add_batch(p, batch, n);
        if (r->at == told) continue;
        if (l->o.progress) atomic_fetch_add_explicit(&l->o.progress->loaded_bytes, r->at - told, memory_order_relaxed);
        told = r->at;
        if (is_stopped(l)) return -ECANCELED;
    }
    return 0;
}

static int load_dump(struct part *p)
{
    struct dumpfile_reader r;
    dumpfile_reader_init(&r, p->dump.bytes);
    p->dump_bytes = p->dump.bytes.n;
    int rc = read_dump(p, &r);
    dumpfile_reader_fini(&r);
    fileview_close(&p->dump);
    return rc;
}

static void apply(void *ctx, uint32_t shard, const struct op *op)
{
    struct part *p = ctx;
    add_op(p, op, keyhash(op->key, p->store->seed));
}

static void touch(void *ctx, uint16_t db, struct slice key)
{
    const struct part *p = ctx;
    store_prefetch(p->store, db, keyhash(key, p->store->seed));
}

/* Without a dump the log makes everything: its records are at most as many keys. A table that turns out too large shrinks in the background. */
static void expect_keys(struct part *p)
{
    enum { FEW = 4096 };
    uint64_t records = replay_records(p->loader->replay, p->shard);
    if (!p->loader->has_set && records > FEW) store_expect(p->store, 0, records / 11 * 9);
}

static int load_part(void *ctx, uint32_t i)
{
    struct loader *l = ctx;
    struct part *p = &l->parts[i];
    expect_keys(p);
    int rc = l->has_set ? load_dump(p) : 0;
    if (rc == 0) rc = replay_shard(l->replay, i, apply, p, &p->error);
    if (rc == 0 && p->unfit && l->o.strict) {
        buf_printf(&p->error, "%s/shard-%u: %llu operations do not fit the data that they change", l->o.dir, i, (unsigned long long)p->unfit);
        return -EINVAL;
    }
    if (rc == 0 && p->unfit && l->o.log)
        slog(l->o.log, SLOG_WARNING, "operations do not fit what is there and are skipped", "shard=%u operations=%llu", i, (unsigned long long)p->unfit);
    return rc;
}

int loader_run(struct loader *l, struct store *const *stores, struct buf *error)
{
    for (uint32_t i = 0; i < l->o.shards; i++) l->parts[i].store = stores[i];
    replay_look_ahead(l->replay, touch);
    return on_parts(l, load_part, error);
}

/* ---- afterwards */

static void keep_damaged_dumps_aside(struct loader *l)
{
    for (const char *path = l->damaged.p, *end = path + l->damaged.len; path < end; path += strlen(path) + 1) {
        char aside[LOGDIR_PATH_MAX + 16];
        snprintf(aside, sizeof aside, "%s.corrupt", path);
        l->o.files->rename(l->o.files->ctx, path, aside);
    }
}

/* What is left of dumps that were not finished, and of sets that cannot be used: the state is whole without them, so that one of them that stays does no harm. */
static void remove_leftovers(struct loader *l, uint32_t shard)
{
    const struct file_ops *f = l->o.files;
    char path[LOGDIR_PATH_MAX];
    struct logdir_numbers dumps;
    if (logdir_unfinished_dump(path, l->o.dir, shard) == 0) f->unlink(f->ctx, path);
    if (logdir_list_dumps(f, l->o.dir, shard, &dumps)) return;
    for (uint32_t i = 0; i < dumps.n; i++)
        if (dumps.v[i] > l->epoch && logdir_dump(path, l->o.dir, shard, dumps.v[i]) == 0) f->unlink(f->ctx, path);
    mem_free(dumps.v);
}

int loader_finish(struct loader *l, struct buf *error)
{
    struct wal_replay result;
    int rc = replay_finish(l->replay, &result, error);
    if (rc) return rc;
    keep_damaged_dumps_aside(l);
    for (uint32_t i = 0; i < l->o.shards; i++) remove_leftovers(l, i);
    return 0;
}

void loader_result(const struct loader *l, struct loader_result *out)
{
    *out = (struct loader_result){.dump = {.any = l->has_set, .epoch = l->epoch, .cut_ms = l->parts[0].info.header.cut_ms}};
    replay_result(l->replay, &out->log);
    out->errors = out->log.bad_records;
    for (uint32_t i = 0; i < l->o.shards; i++) {
        const struct part *p = &l->parts[i];
        out->dump.entries += p->entries;
        out->dump.raw_bytes += p->info.raw_bytes;
        out->dump.stored_bytes += p->info.stored_bytes;
        out->dump.file_bytes += p->dump_bytes;
        out->errors += p->unfit;
    }
    if (!l->has_set) out->dump = (struct dumper_past){0};
}
