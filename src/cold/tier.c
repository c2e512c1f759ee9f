/* How it is laid out:
 *
 *   segment   a file and its index (cold/coldsegment.h). The slots that are not written yet are in batches.
 *   batch     a buffer of values of one segment, raw: u32 key length | u32 value length | key | value. The one being filled is the last of the queue; full ones are compressed and
 *             written by the tier's thread, the oldest first, and readable until that is done.
 *
 * Reading: under the lock find out where the record is and pin its segment, then read without the lock. */
#include "cold/tier.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/slog.h"
#include "cold/coldrecord.h"
#include "cold/coldsegment.h"

enum {
    BATCH_BYTES = 256 << 10,
    SEGMENT_BYTES = 64 << 20, /* of raw keys and values */
    PENDING_MAX = 8 << 20,
    PENDING_MIN = 4 * BATCH_BYTES,
    CLEAN_VALUES = 128,       /* that one step of cleaning moves */
    CLEAN_BYTES = 256 << 10,
    WAIT_MS = 1000,           /* before a failed write is tried again */
    HEAD_BYTES = 8,           /* before a value in a batch */
};

struct batch {
    struct batch *next;
    struct coldsegment *segment;
    uint32_t first, n; /* slots */
    struct buf raw;
};

struct tier {
    const struct slog *log;
    struct chill_tier hooks;
    pthread_mutex_t lock;
    pthread_cond_t work, room;
    pthread_t thread;
    bool running, stop;

    struct coldsegments segments;
    struct coldsegment *open;  /* takes what is put; NULL: none yet */
    struct batch *queue, *filling;
    size_t pending_max;
    bool clean_wanted;
    int failing;               /* -errno of the last write */
    struct tier_stats stats;   /* counters only */
    _Atomic size_t pending;    /* bytes of memory; written under the lock */
    _Atomic int profile;
    _Atomic size_t min_size;

    /* The thread's. */
    void (*moved)(void *ctx, struct tier_moves *m);
    void *ctx;
    struct compress compress;
    struct buf out;
    struct tier_moves moves;
    bool moves_out;            /* under the lock: owners are being told */
};

/* Called wherever one of the reasons to keep a segment has gone. */
static void bury_if_dead(struct tier *t, struct coldsegment *s)
{
    if (coldsegment_bury_if_dead(&t->segments, s)) pthread_cond_signal(&t->work);
}

/* ---- batches */

static void set_pending(struct tier *t, size_t bytes) { atomic_store_explicit(&t->pending, bytes, memory_order_relaxed); }
static size_t pending(const struct tier *t) { return atomic_load_explicit(&t->pending, memory_order_relaxed); }

/* What died while the segment was open was no reason to clean or to bury it; now it is. */
static void seal_open(struct tier *t)
{
    struct coldsegment *s = t->open;
    coldsegment_seal(&t->segments, s);
    t->open = NULL;
    t->clean_wanted |= coldsegment_needs_cleaning(s);
    bury_if_dead(t, s);
}

static void new_batch(struct tier *t, size_t bytes)
{
    if (t->open && t->open->put_bytes >= SEGMENT_BYTES) seal_open(t);
    if (!t->open) t->open = coldsegment_new(&t->segments);
    struct batch *b = mem_zalloc(sizeof *b), **end = &t->queue;
    b->segment = t->open;
    b->first = t->open->n;
    buf_grow(&b->raw, bytes > BATCH_BYTES ? bytes : BATCH_BYTES);
    while (*end) end = &(*end)->next;
    *end = t->filling = b;
    t->open->waiting++;
    set_pending(t, pending(t) + b->raw.cap);
    pthread_cond_signal(&t->work);
}

static void add_value(struct batch *b, struct slice key, struct slice value)
{
    uint32_t head[2] = {(uint32_t)key.n, (uint32_t)value.n};
    buf_add(&b->raw, head, sizeof head);
    buf_add_slice(&b->raw, key);
    buf_add_slice(&b->raw, value);
}

static void raw_value(const struct batch *b, uint32_t at, struct slice *key, struct slice *value)
{
    uint32_t head[2];
    memcpy(head, b->raw.p + at, sizeof head);
    *key = slice_of(b->raw.p + at + HEAD_BYTES, head[0]);
    *value = slice_of(key->p + key->n, head[1]);
}

static const struct batch *batch_of(const struct tier *t, const struct coldsegment *s, uint32_t slot)
{
    for (const struct batch *b = t->queue; b; b = b->next)
        if (b->segment == s && slot - b->first < b->n) return b;
    CHECK(!"a value that is not written is in a batch");
    return NULL;
}

/* ---- putting and dropping */

static bool has_room(const struct tier *t, size_t bytes)
{
    const struct batch *b = t->filling;
    if (b && b->raw.len + bytes <= b->raw.cap) return true;
    return !t->queue || pending(t) + (bytes > BATCH_BYTES ? bytes : BATCH_BYTES) <= t->pending_max;
}

/* There is no room: the buffer that is being filled is written too. */
static void refuse(struct tier *t)
{
    t->filling = NULL;
    pthread_cond_signal(&t->work);
}

static struct chill_ref put(struct tier *t, struct slice key, struct slice value)
{
    size_t bytes = HEAD_BYTES + key.n + value.n;
    if (!t->filling || t->filling->raw.len + bytes > t->filling->raw.cap) new_batch(t, bytes);
    struct batch *b = t->filling;
    uint32_t slot = coldsegment_add(&t->segments, b->segment, (uint32_t)b->raw.len, bytes);
    b->n++;
    add_value(b, key, value);
    t->stats.values++;
    return (struct chill_ref){b->segment->id, slot};
}

enum tier_answer tier_put(struct tier *t, struct slice key, struct slice value, struct chill_ref *ref)
{
    enum tier_answer answer = TIER_TAKEN;
    pthread_mutex_lock(&t->lock);
    if (t->failing) {
        answer = TIER_FAILING;
    } else if (!has_room(t, HEAD_BYTES + key.n + value.n)) {
        refuse(t);
        answer = TIER_FULL;
    } else {
        *ref = put(t, key, value);
        t->stats.puts++;
    }
    pthread_mutex_unlock(&t->lock);
    return answer;
}

enum tier_answer tier_would(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    enum tier_answer answer = t->failing ? TIER_FAILING : has_room(t, BATCH_BYTES / 16) ? TIER_TAKEN : TIER_FULL;
    if (answer == TIER_FULL) refuse(t);
    pthread_mutex_unlock(&t->lock);
    return answer;
}

void tier_flush(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    refuse(t);
    pthread_mutex_unlock(&t->lock);
}

void tier_wait(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->failing && !t->stop && !has_room(t, BATCH_BYTES)) {
        refuse(t);
        pthread_cond_wait(&t->room, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
}

void tier_drop(struct tier *t, struct chill_ref ref)
{
    pthread_mutex_lock(&t->lock);
    struct coldsegment *s = coldsegment_of(&t->segments, ref);
    coldsegment_drop(s, ref.slot);
    t->stats.values--;
    if (unlikely(coldsegment_needs_cleaning(s)) && !t->clean_wanted) {
        t->clean_wanted = true;
        pthread_cond_signal(&t->work);
    }
    bury_if_dead(t, s);
    pthread_mutex_unlock(&t->lock);
}

void tier_pin(struct tier *t, struct chill_ref ref)
{
    pthread_mutex_lock(&t->lock);
    struct coldsegment *s = coldsegment_of(&t->segments, ref);
    CHECK(coldsegment_lives(s, ref.slot));
    s->pins++;
    pthread_mutex_unlock(&t->lock);
}

static void unpin(struct tier *t, struct coldsegment *s)
{
    CHECK(s->pins > 0);
    s->pins--;
    bury_if_dead(t, s);
}

void tier_unpin(struct tier *t, struct chill_ref ref)
{
    pthread_mutex_lock(&t->lock);
    unpin(t, coldsegment_of(&t->segments, ref));
    pthread_mutex_unlock(&t->lock);
}

/* ---- reading */

static void note_read_error(struct tier *t, const struct coldsegment *s, const struct coldsegment_span *from, int rc)
{
    t->stats.read_errors++;
    if (!t->log) return;
    struct buf path = {0};
    coldsegment_path(&t->segments, s, &path);
    slog(t->log, SLOG_WARNING, "a cold value cannot be read", "file=%s offset=%llu error=%s", path.p, (unsigned long long)from->at,
         rc == -EBADMSG ? "not what was written" : strerror(-rc));
    buf_fini(&path);
}

/* Copies a value that is still in memory. Under the lock. */
static bool get_pending(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value)
{
    const struct coldsegment *s = coldsegment_of(&t->segments, ref);
    if (ref.slot < s->written) return false;
    struct slice found, bytes;
    raw_value(batch_of(t, s, ref.slot), s->at[ref.slot], &found, &bytes);
    CHECK(slice_eq(found, key));
    buf_add_slice(value, bytes);
    t->stats.gets++;
    return true;
}

bool tier_get_now(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value)
{
    pthread_mutex_lock(&t->lock);
    bool got = get_pending(t, ref, key, value);
    pthread_mutex_unlock(&t->lock);
    return got;
}

int tier_get(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value)
{
    pthread_mutex_lock(&t->lock);
    if (get_pending(t, ref, key, value)) {
        pthread_mutex_unlock(&t->lock);
        return 0;
    }
    struct coldsegment *s = coldsegment_of(&t->segments, ref);
    struct coldsegment_span from = coldsegment_span(s, ref.slot);
    s->pins++;
    pthread_mutex_unlock(&t->lock);
    struct buf record = {0};
    int rc = coldsegment_read(&t->segments, &from, &key, &record, value);
    buf_fini(&record);
    pthread_mutex_lock(&t->lock);
    t->stats.gets++;
    t->stats.reads++;
    if (rc < 0) note_read_error(t, s, &from, rc);
    unpin(t, s);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* ---- the thread: writing */

/* Takes the segment's live values of a batch into t->out; offsets[i] is where each begins. Gives their raw bytes. */
static uint64_t encode(struct tier *t, const struct batch *b, const uint8_t *wanted, uint32_t *offsets)
{
    uint64_t raw = 0;
    int profile = atomic_load(&t->profile);
    if (t->compress.profile != (enum compress_profile)profile) {
        compress_fini(&t->compress);
        compress_init(&t->compress, (enum compress_profile)profile, atomic_load(&t->min_size));
    }
    t->compress.min_size = atomic_load(&t->min_size);
    t->out.len = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        struct slice key, value;
        raw_value(b, at, &key, &value);
        at += HEAD_BYTES + (uint32_t)(key.n + value.n);
        offsets[i] = (uint32_t)t->out.len;
        if (!wanted[i]) continue;
        coldrecord_add(&t->out, &t->compress, key, value);
        raw += value.n;
    }
    return raw;
}

/* Under the lock again: the batch is in the file. */
static void batch_written(struct tier *t, struct batch *b, const uint32_t *offsets, uint64_t raw)
{
    struct coldsegment *s = b->segment;
    CHECK(b->first == s->written);
    coldsegment_appended(&t->segments, s, offsets, b->n, t->out.len, raw);
    s->waiting--;
    CHECK(t->queue == b);
    t->queue = b->next;
    set_pending(t, pending(t) - b->raw.cap);
    buf_fini(&b->raw);
    mem_free(b);
    t->clean_wanted |= coldsegment_needs_cleaning(s);
    bury_if_dead(t, s);
    pthread_cond_broadcast(&t->room);
}

static void note_write(struct tier *t, int rc)
{
    if (rc < 0) t->stats.write_errors++;
    if (rc < 0 && !t->failing && t->log)
        slog(t->log, SLOG_WARNING, "the cold tier cannot write, values stay in memory", "dir=%s error=%s", t->segments.dir, strerror(-rc));
    if (rc == 0 && t->failing && t->log) slog(t->log, SLOG_NOTICE, "the cold tier can write again", "");
    t->failing = rc;
    if (rc < 0) pthread_cond_broadcast(&t->room);
}

/* Writes the oldest full batch. Called and left with the lock held. */
static bool write_batch(struct tier *t)
{
    struct batch *b = t->queue;
    if (!b || b == t->filling) return false;
    uint32_t *offsets = mem_alloc(b->n * sizeof *offsets);
    uint8_t *wanted = mem_alloc(b->n);
    /* What is dead by now nobody can ask for any more, unless it was pinned before it died. */
    for (uint32_t i = 0; i < b->n; i++) wanted[i] = b->segment->pins || coldsegment_lives(b->segment, b->first + i);
    pthread_mutex_unlock(&t->lock);
    uint64_t raw = encode(t, b, wanted, offsets);
    int rc = coldsegment_append(&t->segments, b->segment, buf_slice(&t->out));
    pthread_mutex_lock(&t->lock);
    note_write(t, rc);
    if (rc == 0) batch_written(t, b, offsets, raw);
    mem_free(offsets);
    mem_free(wanted);
    return rc == 0;
}

/* ---- the thread: removing and cleaning */

static bool remove_dead(struct tier *t)
{
    struct coldsegment *s = coldsegment_take_dead(&t->segments);
    if (!s) return false;
    pthread_mutex_unlock(&t->lock);
    coldsegment_remove(&t->segments, s);
    pthread_mutex_lock(&t->lock);
    return true;
}

static struct coldsegment *segment_to_clean(struct tier *t)
{
    for (uint32_t i = 0; i < t->segments.n; i++) {
        struct coldsegment *s = t->segments.by_id[i];
        if (s && coldsegment_needs_cleaning(s)) return s;
    }
    t->clean_wanted = false;
    return NULL;
}

static void add_move(struct tier *t, struct chill_ref from, struct slice key, struct slice value)
{
    struct tier_moves *m = &t->moves;
    if (m->n == m->cap) {
        m->cap = m->cap * 2 + 16;
        m->move = mem_resize(m->move, m->cap * sizeof *m->move);
    }
    m->move[m->n++] = (struct tier_move){.from = from, .to = put(t, key, value), .key_at = m->keys.len, .key_len = key.n};
    buf_add_slice(&m->keys, key);
    t->stats.moved++;
}

/* Puts the next living values of a segment again, as many as fit a step and the buffers. Called and left with the lock held. */
static void clean_some(struct tier *t, struct coldsegment *s)
{
    struct buf record = {0}, value = {0};
    size_t bytes = 0;
    while (s->clean_at < s->n && t->moves.n < CLEAN_VALUES && bytes < CLEAN_BYTES && has_room(t, BATCH_BYTES)) {
        uint32_t slot = s->clean_at++;
        if (!coldsegment_lives(s, slot)) continue;
        struct coldsegment_span from = coldsegment_span(s, slot);
        struct slice key = {0};
        pthread_mutex_unlock(&t->lock);
        value.len = 0;
        int rc = coldsegment_read(&t->segments, &from, &key, &record, &value);
        pthread_mutex_lock(&t->lock);
        bytes += from.n;
        if (rc < 0) note_read_error(t, s, &from, rc);
        else if (coldsegment_lives(s, slot)) add_move(t, (struct chill_ref){s->id, slot}, key, buf_slice(&value));
    }
    s->cleaned = s->clean_at == s->n;
    t->stats.cleaned += s->cleaned;
    buf_fini(&record);
    buf_fini(&value);
}

static bool cleaning_is_due(const struct tier *t) { return t->moved && !t->moves_out && t->clean_wanted && !t->failing; }

static bool clean(struct tier *t)
{
    if (!cleaning_is_due(t)) return false;
    if (!has_room(t, BATCH_BYTES)) { /* then the buffer being filled is all there is to write, or it would have been written before this */
        refuse(t);
        return true;
    }
    struct coldsegment *s = segment_to_clean(t);
    if (!s) return false;
    s->pins++;
    clean_some(t, s);
    unpin(t, s);
    if (!t->moves.n) return true;
    t->moves_out = true;
    pthread_mutex_unlock(&t->lock);
    t->moved(t->ctx, &t->moves);
    pthread_mutex_lock(&t->lock);
    return true;
}

void tier_moves_done(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    t->moves.n = 0;
    t->moves.keys.len = 0;
    t->moves_out = false;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
}

bool tier_step(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    bool did = remove_dead(t) || write_batch(t) || clean(t);
    pthread_mutex_unlock(&t->lock);
    return did;
}

/* Waits for work, or for the time to try a failed write again. */
static void wait_for_work(struct tier *t)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&t->lock);
    bool idle = !t->segments.dead && (t->failing || !t->queue || t->queue == t->filling) && !cleaning_is_due(t);
    if (idle && !t->stop) pthread_cond_timedwait(&t->work, &t->lock, &until);
    pthread_mutex_unlock(&t->lock);
}

static bool is_stopping(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

static void *run(void *arg)
{
    struct tier *t = arg;
    while (!is_stopping(t))
        if (!tier_step(t)) wait_for_work(t);
    return NULL;
}

/* ---- life */

static bool hook_put(void *ctx, struct slice key, struct slice value, struct chill_ref *ref) { return tier_put(ctx, key, value, ref) == TIER_TAKEN; }
static int hook_get(void *ctx, struct chill_ref ref, struct slice key, struct buf *value) { return tier_get(ctx, ref, key, value); }
static void hook_drop(void *ctx, struct chill_ref ref) { tier_drop(ctx, ref); }

/* How long the thread waits does not depend on a clock that may be set. */
static void init_lock(struct tier *t)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->work, &attr);
    pthread_cond_init(&t->room, NULL);
    pthread_condattr_destroy(&attr);
}

struct tier *tier_open(const struct file_ops *files, const char *dir, const struct slog *log, struct buf *error)
{
    struct tier *t = mem_zalloc(sizeof *t);
    t->log = log;
    t->hooks = (struct chill_tier){t, hook_put, hook_get, hook_drop};
    t->pending_max = PENDING_MAX;
    init_lock(t);
    atomic_init(&t->profile, COMPRESS_BALANCED);
    atomic_init(&t->min_size, COMPRESS_MIN_SIZE);
    compress_init(&t->compress, COMPRESS_BALANCED, COMPRESS_MIN_SIZE);
    int rc = coldsegment_init(&t->segments, files, dir);
    if (rc == 0) return t;
    buf_printf(error, "the cold tier's directory %s: %s", dir, strerror(-rc));
    tier_close(t);
    return NULL;
}

void tier_hook_moves(struct tier *t, void (*moved)(void *ctx, struct tier_moves *m), void *ctx)
{
    t->moved = moved;
    t->ctx = ctx;
}

void tier_start(struct tier *t, void (*moved)(void *ctx, struct tier_moves *m), void *ctx)
{
    tier_hook_moves(t, moved, ctx);
    int rc = pthread_create(&t->thread, NULL, run, t);
    CHECK(rc == 0);
    pthread_setname_np(t->thread, "cold");
    t->running = true;
}

static void stop_thread(struct tier *t)
{
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_cond_broadcast(&t->room);
    pthread_mutex_unlock(&t->lock);
    if (t->running) pthread_join(t->thread, NULL);
}

void tier_close(struct tier *t)
{
    stop_thread(t);
    while (t->queue) {
        struct batch *b = t->queue;
        t->queue = b->next;
        buf_fini(&b->raw);
        mem_free(b);
    }
    coldsegment_fini(&t->segments);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->room);
    compress_fini(&t->compress);
    buf_fini(&t->out);
    buf_fini(&t->moves.keys);
    mem_free(t->moves.move);
    mem_free(t);
}

/* ---- settings and figures */

void tier_set_compression(struct tier *t, enum compress_profile profile, size_t min_size)
{
    atomic_store(&t->profile, (int)profile);
    atomic_store(&t->min_size, min_size);
}

void tier_set_pending_max(struct tier *t, size_t bytes)
{
    pthread_mutex_lock(&t->lock);
    t->pending_max = bytes > PENDING_MIN ? bytes : PENDING_MIN;
    pthread_cond_broadcast(&t->room);
    pthread_mutex_unlock(&t->lock);
}

const struct chill_tier *tier_hooks(struct tier *t) { return &t->hooks; }

size_t tier_bytes(const struct tier *t) { return pending(t) + atomic_load_explicit(&t->segments.index_bytes, memory_order_relaxed); }

void tier_get_stats(struct tier *t, struct tier_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->stats;
    out->pending_bytes = pending(t);
    out->index_bytes = atomic_load(&t->segments.index_bytes);
    out->segments = t->segments.count;
    out->disk_bytes = t->segments.disk_bytes;
    out->failing = t->failing != 0;
    for (uint32_t i = 0; i < t->segments.n; i++) {
        const struct coldsegment *s = t->segments.by_id[i];
        if (!s || !s->bytes) continue;
        out->live_bytes += s->live_bytes;
        out->raw_bytes += (uint64_t)((double)s->live_bytes * (double)s->raw_bytes / (double)s->bytes);
    }
    pthread_mutex_unlock(&t->lock);
}

void tier_check(struct tier *t)
{
    size_t in_buffers = 0;
    pthread_mutex_lock(&t->lock);
    CHECK(coldsegment_check(&t->segments) == t->stats.values);
    for (const struct batch *b = t->queue; b; b = b->next) {
        CHECK(b->first >= b->segment->written && (!b->next || b != t->filling));
        in_buffers += b->raw.cap;
    }
    CHECK(in_buffers == pending(t));
    pthread_mutex_unlock(&t->lock);
}
