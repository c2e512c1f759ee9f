/* A node's life on its shared Raft log, for tests of cluster/raftlog.h: random records of several groups on a simulated disk, beside a naive twin that knows what must be there after each batch. */
#pragma once
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/raftbatch.h"
#include "cluster/raftlog.h"
#include "io/file_sim.h"

enum { GROUPS = 7, ENTRIES_MAX = 4096, SEGMENT = 64 << 10, LARGE = 100000 };

/* --- the naive twin: of each group what Raft would know --- */

struct twin_entry {
    uint64_t term;
    uint32_t len, nonce;
    uint8_t type;
};

struct twin_group {
    bool known;
    uint64_t term, vote, mark_index, mark_term, first, last, configuration_index;
    uint32_t configuration_len, configuration_nonce;
    struct twin_entry e[ENTRIES_MAX]; /* by index */
};

struct twin {
    uint64_t batch; /* the state is that after this one */
    struct twin_group g[GROUPS];
};

static inline uint32_t number_of(uint32_t i) { return i * 3 + (i > 4 ? 100000 : 0); } /* groups have any numbers */

static inline struct slice bytes_of(struct buf *scratch, uint32_t nonce, uint32_t len)
{
    struct rng r;
    rng_init(&r, nonce * 0x9e3779b97f4a7c15ull + 1);
    scratch->len = 0;
    while (scratch->len < len) {
        uint64_t x = rng_u64(&r);
        buf_add(scratch, &x, len - scratch->len < 8 ? len - scratch->len : 8);
    }
    return slice_of(scratch->len ? scratch->p : "", len);
}

/* --- a log on the simulated disk --- */

struct bench {
    struct file_sim *disk;
    struct raftlog *log;
    struct raftlog_options options;
    struct rng rng;
    struct buf scratch, error;
    struct twin *now, *flying, *durable; /* after all that was put, after the batch that is being written, after the one before */
    struct raftlog_write write;
    bool writing;
    uint32_t nonce;
    unsigned puts, batches, segments_max;
    uint32_t large; /* the size of a rare entry that is larger than a segment; 0: none */
};

static inline struct bench *bench_new(uint64_t seed)
{
    struct bench *b = mem_zalloc(sizeof *b);
    b->disk = file_sim_new("d", seed);
    b->options = (struct raftlog_options){.segment_bytes = SEGMENT, .cache_bytes = 4096, .random = 0x5eedf00d + seed};
    rng_init(&b->rng, seed * 0x9e3779b97f4a7c15ull + 7);
    b->now = mem_zalloc(sizeof *b->now);
    b->flying = mem_zalloc(sizeof *b->flying);
    b->durable = mem_zalloc(sizeof *b->durable);
    for (uint32_t i = 0; i < GROUPS; i++) b->now->g[i].first = 1;
    *b->durable = *b->flying = *b->now;
    return b;
}

static inline void bench_free(struct bench *b)
{
    if (b->log) raftlog_close(b->log);
    file_sim_free(b->disk);
    buf_fini(&b->scratch);
    buf_fini(&b->error);
    mem_free(b->now);
    mem_free(b->flying);
    mem_free(b->durable);
    mem_free(b);
}

static inline bool open_log(struct bench *b)
{
    b->error.len = 0;
    b->log = raftlog_open(file_sim_ops(b->disk), "d/raft", &b->options, &b->error);
    assert_true(b->log || b->error.len);
    return b->log;
}

static inline void close_log(struct bench *b)
{
    if (b->log) raftlog_close(b->log);
    b->log = NULL;
    b->writing = false;
}

/* --- comparing --- */

static inline bool has_same_entry(struct bench *b, uint32_t i, const struct twin_group *g, uint64_t index)
{
    struct raftlog_entry e;
    const struct twin_entry *want = &g->e[index];
    return raftlog_read(b->log, number_of(i), index, &e) == 0 && e.term == want->term && e.type == want->type && raftlog_term(b->log, number_of(i), index) == want->term &&
           slice_eq(e.data, bytes_of(&b->scratch, want->nonce, want->len));
}

static inline bool has_same_state(struct bench *b, uint32_t i, const struct twin_group *g)
{
    struct raftlog_state s;
    struct raftlog_entry e;
    if (raftlog_state(b->log, number_of(i), &s) != g->known) return false;
    if (!g->known) return raftlog_read(b->log, number_of(i), 1, &e) == -ENOENT;
    return s.term == g->term && s.vote == g->vote && s.mark_index == g->mark_index && s.mark_term == g->mark_term && s.first == g->first && s.last == g->last &&
           s.configuration_index == g->configuration_index && slice_eq(s.configuration, bytes_of(&b->scratch, g->configuration_nonce, g->configuration_len)) &&
           raftlog_read(b->log, number_of(i), s.first - 1, &e) == -ENOENT && raftlog_read(b->log, number_of(i), s.last + 1, &e) == -ENOENT;
}

static inline bool is_same(struct bench *b, const struct twin *t)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < GROUPS; i++) {
        const struct twin_group *g = &t->g[i];
        known += g->known;
        if (!has_same_state(b, i, g)) return false;
        for (uint64_t index = g->first; g->known && index <= g->last; index++)
            if (!has_same_entry(b, i, g, index)) return false;
    }
    return raftlog_groups(b->log, NULL, 0) == known;
}

/* After a crash: the log is at the batch that was durable or at the one that was being written, and that one exactly. */
static inline void assert_recovered(struct bench *b)
{
    uint64_t at = raftlog_durable(b->log);
    assert_true(at == b->durable->batch || at == b->flying->batch);
    *b->now = at == b->flying->batch ? *b->flying : *b->durable;
    *b->durable = *b->flying = *b->now;
    raftlog_check(b->log);
    assert_true(is_same(b, b->now));
}

/* --- random records --- */

static inline void put_entries(struct bench *b, uint32_t i)
{
    struct twin_group *g = &b->now->g[i];
    for (uint64_t n = 1 + rng_below(&b->rng, 4); n > 0 && g->last + 1 < ENTRIES_MAX; n--) {
        uint64_t kind = rng_below(&b->rng, 200);
        uint32_t len = (uint32_t)(kind == 0 ? b->large : kind < 10 ? rng_below(&b->rng, 9000) : rng_below(&b->rng, 300));
        struct twin_entry e = {.term = g->term + rng_below(&b->rng, 2), .len = len, .nonce = ++b->nonce, .type = (uint8_t)rng_below(&b->rng, 256)};
        g->e[++g->last] = e;
        raftlog_put_entry(b->log, number_of(i), g->last, e.term, e.type, bytes_of(&b->scratch, e.nonce, e.len));
    }
    g->known = true;
}

static inline void put_hard_state(struct bench *b, uint32_t i)
{
    struct twin_group *g = &b->now->g[i];
    g->known = true;
    g->term++;
    g->vote = rng_u64(&b->rng);
    raftlog_put_hard_state(b->log, number_of(i), g->term, g->vote);
}

static inline void put_truncate(struct bench *b, uint32_t i)
{
    struct twin_group *g = &b->now->g[i];
    uint64_t from = g->mark_index + 1 + rng_below(&b->rng, g->last - g->mark_index + 1);
    g->known = true;
    g->last = from - 1;
    raftlog_put_truncate(b->log, number_of(i), from);
}

static inline void put_mark(struct bench *b, uint32_t i, uint64_t index, uint64_t first)
{
    struct twin_group *g = &b->now->g[i];
    g->known = true;
    g->mark_term = index <= g->last && index >= g->first ? g->e[index].term : g->term;
    g->mark_index = index;
    g->first = first;
    if (index > g->last) g->last = index;
    g->configuration_index = index / 2;
    g->configuration_len = (uint32_t)rng_below(&b->rng, 60);
    g->configuration_nonce = ++b->nonce;
    raftlog_put_mark(b->log, number_of(i), &(struct raftlog_mark){index, g->mark_term, first, g->configuration_index, bytes_of(&b->scratch, g->configuration_nonce, g->configuration_len)});
}

/* A snapshot of this node's own, with some entries kept. */
static inline void put_own_mark(struct bench *b, uint32_t i)
{
    const struct twin_group *g = &b->now->g[i];
    uint64_t index = g->mark_index + rng_below(&b->rng, g->last - g->mark_index + 1);
    put_mark(b, i, index, g->first + rng_below(&b->rng, index + 1 - g->first + 1));
}

/* A leader's snapshot: everything that is here goes. */
static inline void put_install(struct bench *b, uint32_t i)
{
    const struct twin_group *g = &b->now->g[i];
    if (g->last + 20 >= ENTRIES_MAX) return;
    uint64_t index = g->last + 1 + rng_below(&b->rng, 10);
    put_mark(b, i, index, index + 1);
}

static inline void put_gone(struct bench *b, uint32_t i)
{
    raftlog_put_gone(b->log, number_of(i));
    b->now->g[i].known = false;
    memset(&b->now->g[i], 0, offsetof(struct twin_group, e));
    b->now->g[i].first = 1;
}

static inline void put_something(struct bench *b)
{
    uint32_t i = (uint32_t)rng_below(&b->rng, GROUPS);
    uint64_t what = rng_below(&b->rng, 100);
    b->puts++;
    if (what < 60) put_entries(b, i);
    else if (what < 72) put_hard_state(b, i);
    else if (what < 82) put_truncate(b, i);
    else if (what < 94) put_own_mark(b, i);
    else if (what < 97) put_install(b, i);
    else if (what < 98) put_gone(b, i);
    else raftlog_seal(b->log);
}

/* --- writing --- */

static inline void begin_write(struct bench *b)
{
    uint64_t batch = raftlog_open_batch(b->log);
    if (b->writing || !raftlog_begin_write(b->log, &b->write)) return;
    assert_int_equal(b->write.batch, batch);
    assert_true(b->write.at % RAFTBATCH_BLOCK == 0 && b->write.bytes.n % RAFTBATCH_BLOCK == 0 && (uintptr_t)b->write.bytes.p % RAFTBATCH_BLOCK == 0);
    b->writing = true;
    b->now->batch = batch;
    *b->flying = *b->now;
    b->batches++;
}

static inline int end_write(struct bench *b)
{
    if (!b->writing) return 0;
    int rc = raftlog_write_run(file_sim_ops(b->disk), &b->write);
    raftlog_written(b->log, b->write.batch, rc);
    b->writing = false;
    if (rc) return rc;
    assert_int_equal(raftlog_durable(b->log), b->write.batch);
    *b->durable = *b->flying;
    return 0;
}

static inline int do_chore(struct bench *b)
{
    struct raftlog_chore c;
    if (!raftlog_begin_chore(b->log, &c)) return 0;
    int rc = raftlog_chore_run(file_sim_ops(b->disk), &c);
    raftlog_chore_done(b->log, rc);
    return rc;
}

/* Everything that was put becomes durable; chores are done as they come. */
static inline int write_all(struct bench *b)
{
    int rc = 0;
    for (uint64_t calls = 0; rc == 0 && (b->writing || calls != file_sim_calls(b->disk));) {
        calls = file_sim_calls(b->disk);
        rc = end_write(b);
        if (rc == 0) begin_write(b);
        if (rc == 0 && !b->writing) rc = do_chore(b);
    }
    return rc;
}

static inline void look_around(struct bench *b)
{
    uint32_t i = (uint32_t)rng_below(&b->rng, GROUPS), holder;
    uint64_t behind;
    const struct twin_group *g = &b->now->g[i];
    struct raftlog_info info;
    raftlog_check(b->log);
    assert_true(has_same_state(b, i, g));
    if (g->known && g->last >= g->first) assert_true(has_same_entry(b, i, g, g->first + rng_below(&b->rng, g->last - g->first + 1)));
    raftlog_info(b->log, &info);
    if (info.segments > b->segments_max) b->segments_max = (unsigned)info.segments;
    if (!raftlog_oldest_holder(b->log, &holder, &behind) || behind < 4) return;
    for (i = 0; number_of(i) != holder; i++) continue;
    put_mark(b, i, b->now->g[i].last, b->now->g[i].last + 1);
}

/* One step of a node's life; fails when the disk did. */
static inline int step(struct bench *b)
{
    put_something(b);
    if (rng_below(&b->rng, 3) == 0) begin_write(b);
    int rc = rng_below(&b->rng, 2) ? end_write(b) : 0;
    if (rc == 0 && rng_below(&b->rng, 3) == 0) rc = do_chore(b);
    if (rc == 0) look_around(b);
    return rc;
}

static inline int live(struct bench *b, unsigned steps)
{
    int rc = 0;
    for (unsigned i = 0; i < steps && rc == 0; i++) rc = step(b);
    return rc;
}
