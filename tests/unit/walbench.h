/* A log on the simulated disk beside a naive twin that knows every op and its epoch, for tests of the log. cmocka's header goes before it. */
#pragma once
#include "base/mem.h"
#include "io/file_sim.h"
#include "log/logdir.h"
#include "log/opcode.h"
#include "log/wal.h"
#include "oprandom.h"

enum { SHARDS_MAX = 9, OPS_MAX = 1024 };

/* --- the naive twin: ops as bytes, with the epoch that each belongs to --- */

struct told {
    struct buf bytes;
    wal_epoch epoch;
};

struct twin {
    struct told ops[SHARDS_MAX][OPS_MAX];
    uint32_t n[SHARDS_MAX];
    wal_epoch cut, synced;
};

static inline struct twin *twin_new(void) { return mem_zalloc(sizeof(struct twin)); }

static inline void twin_free(struct twin *t)
{
    for (uint32_t s = 0; s < SHARDS_MAX; s++)
        for (uint32_t i = 0; i < t->n[s]; i++) buf_fini(&t->ops[s][i].bytes);
    mem_free(t);
}

static inline void twin_add(void *ctx, uint32_t shard, const struct op *op)
{
    struct twin *t = ctx;
    assert_in_range(t->n[shard], 0, OPS_MAX - 1);
    opcode_write(&t->ops[shard][t->n[shard]++].bytes, op);
}

/* Forgets what came after `last`. */
static inline void twin_cut(struct twin *t, wal_epoch last)
{
    for (uint32_t s = 0; s < SHARDS_MAX; s++)
        while (t->n[s] && t->ops[s][t->n[s] - 1].epoch > last) {
            t->n[s]--;
            buf_fini(&t->ops[s][t->n[s]].bytes);
        }
    t->cut = last;
}

static inline uint32_t ops_in(const struct twin *t, uint32_t shard, wal_epoch after, wal_epoch last, uint32_t *first)
{
    uint32_t n = 0;
    *first = 0;
    for (uint32_t i = 0; i < t->n[shard]; i++) {
        if (t->ops[shard][i].epoch <= after) *first = i + 1;
        else if (t->ops[shard][i].epoch <= last) n++;
    }
    return n;
}

static inline bool is_same_run(const struct twin *got, const struct twin *want, wal_epoch after, wal_epoch last)
{
    for (uint32_t s = 0; s < SHARDS_MAX; s++) {
        uint32_t first, n = ops_in(want, s, after, last, &first);
        if (got->n[s] != n) return false;
        for (uint32_t i = 0; i < n; i++)
            if (!slice_eq(buf_slice(&got->ops[s][i].bytes), buf_slice(&want->ops[s][first + i].bytes))) return false;
    }
    return true;
}

/* Every op that was replayed had been written, and in this order. */
static inline bool is_subsequence(const struct twin *got, const struct twin *want)
{
    for (uint32_t s = 0; s < SHARDS_MAX; s++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < got->n[s]; i++, k++) {
            while (k < want->n[s] && !slice_eq(buf_slice(&got->ops[s][i].bytes), buf_slice(&want->ops[s][k].bytes))) k++;
            if (k == want->n[s]) return false;
        }
    }
    return true;
}

/* --- a log on the simulated disk --- */

struct bench {
    struct file_sim *disk;
    struct wal *wal;
    struct twin *truth;
    struct oprandom ops;
    struct buf error;
    uint32_t shards;
    uint64_t segment_bytes;
};

static inline struct bench *bench_new(uint32_t shards, uint64_t segment_bytes, uint64_t seed)
{
    struct bench *b = mem_zalloc(sizeof *b);
    b->disk = file_sim_new("d", seed);
    file_sim_commit_together(b->disk, seed % 2);
    b->truth = twin_new();
    oprandom_init(&b->ops, seed);
    b->ops.string_max = 30;
    b->shards = shards;
    b->segment_bytes = segment_bytes;
    return b;
}

static inline void bench_free(struct bench *b)
{
    if (b->wal) wal_close(b->wal);
    file_sim_free(b->disk);
    twin_free(b->truth);
    buf_fini(&b->error);
    mem_free(b);
}

static inline bool open_log(struct bench *b, wal_epoch after)
{
    b->error.len = 0;
    b->wal = wal_open(file_sim_ops(b->disk), "d", b->shards, after, b->segment_bytes, &b->error);
    return b->wal;
}

static inline void append(struct bench *b, uint32_t shard)
{
    struct op op = oprandom_next(&b->ops);
    struct told *told = &b->truth->ops[shard][b->truth->n[shard]];
    twin_add(b->truth, shard, &op);
    told->epoch = wal_open_epoch(b->wal);
    wal_append(b->wal, shard, &op);
}

static inline wal_epoch cut(struct bench *b)
{
    wal_epoch e = wal_cut(b->wal);
    if (e) {
        assert_true(e == b->truth->cut + 1);
        b->truth->cut = e;
    }
    assert_int_equal(wal_pending_bytes(b->wal), 0);
    return e;
}

static inline int sync_log(struct bench *b)
{
    int rc = wal_sync(b->wal);
    if (rc == 0) b->truth->synced = wal_synced_epoch(b->wal);
    return rc;
}

/* One op on each of the shards in the mask, as an epoch. */
static inline void epoch_on(struct bench *b, unsigned mask)
{
    for (uint32_t s = 0; s < b->shards; s++)
        if (mask >> s & 1) append(b, s);
    assert_true(cut(b) > 0);
    assert_int_equal(wal_write(b->wal), 0);
}

static inline void close_log(struct bench *b, bool power)
{
    if (b->wal) wal_close(b->wal);
    b->wal = NULL;
    file_sim_crash(b->disk, power);
}

static inline int replay(struct bench *b, wal_epoch after, bool strict, struct twin *got, struct wal_replay *result)
{
    b->error.len = 0;
    return wal_replay_all(file_sim_ops(b->disk), "d", b->shards, after, strict, twin_add, got, result, &b->error);
}

/* Replays and compares with the truth up to result->last. */
static inline struct wal_replay replay_run(struct bench *b, wal_epoch after)
{
    struct twin *got = twin_new();
    struct wal_replay result;
    if (replay(b, after, false, got, &result)) fail_msg("%.*s", (int)b->error.len, b->error.p);
    assert_true(is_same_run(got, b->truth, after, result.last));
    twin_free(got);
    return result;
}

static inline struct buf *bytes_of(struct bench *b, uint32_t shard, uint64_t segment)
{
    char path[LOGDIR_PATH_MAX];
    logdir_segment(path, "d", shard, segment);
    return file_sim_bytes(b->disk, path);
}
