/* How it is laid out:
 *
 *   segment   a file DIR/NNNNNNNNNN.cold of records (cold/coldrecord.h) one after the other, and in memory, for each slot, where its record begins (4 bytes) and whether it lives (1 bit).
 *             Slots are numbered as values are put. Those below `written` are in the file; the others in batches.
 *   batch     a buffer of values of one segment, raw: u32 key length | u32 value length | key | value. The one being filled is the last of the queue; full ones are compressed and
 *             written by the tier's thread, the oldest first, and readable until that is done.
 *
 * A slot's record ends where the next one begins, so a value that was dropped before it was written costs nothing but its place in the index.
 *
 * Reading: under the lock find out where the record is and pin its segment, then read without the lock. A segment goes when it takes no more values, none of it lives, none waits to be
 * written and nobody has pinned it. */
#include "cold/tier.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/slog.h"
#include "cold/coldrecord.h"

enum {
    BATCH_BYTES = 256 << 10,
    SEGMENT_BYTES = 64 << 20, /* of raw values */
    PENDING_MAX = 8 << 20,
    PENDING_MIN = 4 * BATCH_BYTES,
    CLEAN_VALUES = 128,       /* that one step of cleaning moves */
    CLEAN_BYTES = 256 << 10,
    WAIT_MS = 1000,           /* before a failed write is tried again */
    HEAD_BYTES = 8,           /* before a value in a batch */
};

struct segment {
    uint32_t id, n, cap;
    uint32_t written;
    uint32_t *at;       /* in the file, or in the batch */
    uint64_t *live;     /* bits */
    int fd;             /* -1: nothing written yet */
    uint64_t bytes;     /* of the file */
    uint64_t raw_bytes; /* of the values in it */
    uint64_t put_bytes; /* raw bytes of all that was put */
    uint64_t live_bytes, values;
    uint32_t pins, batches;
    uint32_t clean_at;  /* the next slot that cleaning looks at */
    bool sealed;        /* takes no more values */
    bool cleaned;       /* all of it was looked at: what still lives could not be read */
    struct segment *next_dead;
};

struct batch {
    struct batch *next;
    struct segment *segment;
    uint32_t first, n; /* slots */
    struct buf raw;
};

struct tier {
    const struct file_ops *files;
    const struct slog *log;
    char *dir;
    struct chill_tier hooks;
    pthread_mutex_t lock;
    pthread_cond_t work, room;
    pthread_t thread;
    bool running, stop;

    struct segment **segments; /* by id - first_id; NULL: gone */
    uint32_t first_id, n_segments, cap_segments;
    struct segment *open;      /* takes what is put; NULL: none yet */
    struct batch *queue, *filling;
    struct segment *dead;      /* to be removed */
    size_t pending_max;
    bool clean_wanted;
    int failing;               /* -errno of the last write */
    struct tier_stats stats;   /* counters only */
    _Atomic size_t pending, index; /* bytes of memory; written under the lock */
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

/* ---- segments */

static struct segment *segment_of(const struct tier *t, struct chill_ref ref)
{
    CHECK(ref.segment >= t->first_id && ref.segment - t->first_id < t->n_segments);
    struct segment *s = t->segments[ref.segment - t->first_id];
    CHECK(s && ref.slot < s->n);
    return s;
}

static bool is_live(const struct segment *s, uint32_t slot) { return s->live[slot / 64] >> slot % 64 & 1; }

static uint64_t record_bytes(const struct segment *s, uint32_t slot)
{
    return (slot + 1 < s->written ? s->at[slot + 1] : s->bytes) - s->at[slot];
}

static void add_index_bytes(struct tier *t, size_t more, size_t less)
{
    atomic_store_explicit(&t->index, atomic_load_explicit(&t->index, memory_order_relaxed) + more - less, memory_order_relaxed);
}

static size_t index_bytes(const struct segment *s) { return s->cap * sizeof *s->at + s->cap / 8; }

static void resize_index(struct tier *t, struct segment *s, uint32_t cap)
{
    size_t before = index_bytes(s), words = s->cap / 64;
    s->cap = cap;
    s->at = mem_resize(s->at, cap * sizeof *s->at);
    s->live = mem_resize(s->live, cap / 8);
    if (cap / 64 > words) memset(s->live + words, 0, (cap / 64 - words) * sizeof *s->live);
    add_index_bytes(t, index_bytes(s), before);
}

/* Ids in front whose segments are gone need no place. */
static void trim_ids(struct tier *t)
{
    uint32_t gone = 0;
    while (gone < t->n_segments && !t->segments[gone]) gone++;
    if (gone < 64 || gone < t->n_segments / 2) return;
    t->n_segments -= gone;
    t->first_id += gone;
    memmove(t->segments, t->segments + gone, t->n_segments * sizeof *t->segments);
}

static struct segment *new_segment(struct tier *t)
{
    trim_ids(t);
    if (t->n_segments == t->cap_segments) {
        t->cap_segments = t->cap_segments * 2 + 64;
        t->segments = mem_resize(t->segments, t->cap_segments * sizeof *t->segments);
    }
    struct segment *s = mem_zalloc(sizeof *s);
    s->id = t->first_id + t->n_segments;
    s->fd = -1;
    t->segments[t->n_segments++] = s;
    t->stats.segments++;
    return s;
}

static void free_segment(struct tier *t, struct segment *s)
{
    add_index_bytes(t, 0, index_bytes(s));
    mem_free(s->at);
    mem_free(s->live);
    mem_free(s);
}

/* Called wherever one of the reasons to keep a segment has gone. */
static void bury_if_dead(struct tier *t, struct segment *s)
{
    if (!s->sealed || s->values || s->pins || s->batches) return;
    t->segments[s->id - t->first_id] = NULL;
    t->stats.segments--;
    s->next_dead = t->dead;
    t->dead = s;
    pthread_cond_signal(&t->work);
}

static bool needs_cleaning(const struct segment *s)
{
    return s->sealed && !s->cleaned && !s->batches && s->live_bytes * 2 < s->bytes;
}

static void segment_path(const struct tier *t, const struct segment *s, struct buf *path)
{
    buf_printf(path, "%s/%010u.cold", t->dir, s->id);
    buf_add_byte(path, '\0');
}

/* ---- batches */

static void set_pending(struct tier *t, size_t bytes) { atomic_store_explicit(&t->pending, bytes, memory_order_relaxed); }
static size_t pending(const struct tier *t) { return atomic_load_explicit(&t->pending, memory_order_relaxed); }

static void seal_segment(struct tier *t)
{
    struct segment *s = t->open;
    s->sealed = true;
    resize_index(t, s, (s->n + 63) / 64 * 64);
    t->open = NULL;
}

static void new_batch(struct tier *t, size_t bytes)
{
    if (t->open && t->open->put_bytes >= SEGMENT_BYTES) seal_segment(t);
    if (!t->open) t->open = new_segment(t);
    struct batch *b = mem_zalloc(sizeof *b), **end = &t->queue;
    b->segment = t->open;
    b->first = t->open->n;
    buf_grow(&b->raw, bytes > BATCH_BYTES ? bytes : BATCH_BYTES);
    while (*end) end = &(*end)->next;
    *end = t->filling = b;
    t->open->batches++;
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

static const struct batch *batch_of(const struct tier *t, const struct segment *s, uint32_t slot)
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
    struct segment *s = b->segment;
    uint32_t slot = s->n;
    if (slot == s->cap) resize_index(t, s, s->cap + (s->cap / 2 + 1024) / 64 * 64);
    s->n++;
    s->at[slot] = (uint32_t)b->raw.len;
    s->live[slot / 64] |= UINT64_C(1) << slot % 64;
    s->values++;
    s->put_bytes += value.n;
    b->n++;
    add_value(b, key, value);
    t->stats.values++;
    return (struct chill_ref){s->id, slot};
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
    struct segment *s = segment_of(t, ref);
    CHECK(is_live(s, ref.slot));
    s->live[ref.slot / 64] &= ~(UINT64_C(1) << ref.slot % 64);
    s->values--;
    t->stats.values--;
    if (ref.slot < s->written) s->live_bytes -= record_bytes(s, ref.slot);
    if (unlikely(needs_cleaning(s)) && !t->clean_wanted) {
        t->clean_wanted = true;
        pthread_cond_signal(&t->work);
    }
    bury_if_dead(t, s);
    pthread_mutex_unlock(&t->lock);
}

void tier_pin(struct tier *t, struct chill_ref ref)
{
    pthread_mutex_lock(&t->lock);
    struct segment *s = segment_of(t, ref);
    CHECK(is_live(s, ref.slot));
    s->pins++;
    pthread_mutex_unlock(&t->lock);
}

static void unpin(struct tier *t, struct segment *s)
{
    CHECK(s->pins > 0);
    s->pins--;
    bury_if_dead(t, s);
}

void tier_unpin(struct tier *t, struct chill_ref ref)
{
    pthread_mutex_lock(&t->lock);
    unpin(t, segment_of(t, ref));
    pthread_mutex_unlock(&t->lock);
}

/* ---- reading */

struct span { /* of a file */
    int fd;
    uint64_t at;
    size_t n;
};

static int read_span(const struct tier *t, const struct span *from, struct buf *record)
{
    buf_room(record, from->n);
    while (record->len < from->n) {
        ssize_t n = t->files->read(t->files->ctx, from->fd, record->p + record->len, from->n - record->len, from->at + record->len);
        if (n < 0) return (int)n;
        if (n == 0) return -EBADMSG; /* the file is shorter than it was */
        record->len += (size_t)n;
    }
    return 0;
}

/* Reads and checks one record; `key` must be its key unless it is NULL, and then gets it. */
static int read_record(const struct tier *t, const struct span *from, struct slice *key, struct buf *record, struct buf *value)
{
    struct slice found;
    record->len = 0;
    size_t value_at = value->len;
    int rc = read_span(t, from, record);
    if (rc == 0) rc = coldrecord_read(buf_slice(record), &found, value);
    if (rc == 0 && key->p && !slice_eq(found, *key)) rc = -EBADMSG;
    if (rc == 0) *key = found;
    else value->len = value_at;
    return rc;
}

static void note_read_error(struct tier *t, const struct segment *s, const struct span *from, int rc)
{
    t->stats.read_errors++;
    if (!t->log) return;
    struct buf path = {0};
    segment_path(t, s, &path);
    slog(t->log, SLOG_WARNING, "a cold value cannot be read", "file=%s offset=%llu error=%s", path.p, (unsigned long long)from->at,
         rc == -EBADMSG ? "not what was written" : strerror(-rc));
    buf_fini(&path);
}

/* Copies a value that is still in memory. Under the lock. */
static bool get_pending(struct tier *t, struct chill_ref ref, struct slice key, struct buf *value)
{
    const struct segment *s = segment_of(t, ref);
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
    struct segment *s = segment_of(t, ref);
    struct span from = {s->fd, s->at[ref.slot], record_bytes(s, ref.slot)};
    s->pins++;
    pthread_mutex_unlock(&t->lock);
    struct buf record = {0};
    int rc = read_record(t, &from, &key, &record, value);
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

static int write_out(struct tier *t, struct segment *s)
{
    if (!t->out.len) return 0;
    if (s->fd < 0) {
        struct buf path = {0};
        segment_path(t, s, &path);
        int fd = t->files->open(t->files->ctx, path.p, FILE_CREATE);
        buf_fini(&path);
        if (fd < 0) return fd;
        s->fd = fd; /* nobody reads it before `written` says that there is something */
    }
    return file_write_all(t->files, s->fd, buf_slice(&t->out), s->bytes);
}

/* Under the lock again: the batch is in the file. */
static void batch_written(struct tier *t, struct batch *b, const uint32_t *offsets, uint64_t raw)
{
    struct segment *s = b->segment;
    for (uint32_t i = 0; i < b->n; i++) s->at[b->first + i] = (uint32_t)(s->bytes + offsets[i]);
    s->written = b->first + b->n;
    s->bytes += t->out.len;
    s->raw_bytes += raw;
    t->stats.disk_bytes += t->out.len;
    for (uint32_t i = 0; i < b->n; i++)
        if (is_live(s, b->first + i)) s->live_bytes += record_bytes(s, b->first + i);
    s->batches--;
    CHECK(t->queue == b);
    t->queue = b->next;
    set_pending(t, pending(t) - b->raw.cap);
    buf_fini(&b->raw);
    mem_free(b);
    t->clean_wanted |= needs_cleaning(s);
    bury_if_dead(t, s);
    pthread_cond_broadcast(&t->room);
}

static void note_write(struct tier *t, int rc)
{
    if (rc < 0) t->stats.write_errors++;
    if (rc < 0 && !t->failing && t->log)
        slog(t->log, SLOG_WARNING, "the cold tier cannot write, values stay in memory", "dir=%s error=%s", t->dir, strerror(-rc));
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
    for (uint32_t i = 0; i < b->n; i++) wanted[i] = b->segment->pins || is_live(b->segment, b->first + i);
    pthread_mutex_unlock(&t->lock);
    uint64_t raw = encode(t, b, wanted, offsets);
    int rc = write_out(t, b->segment);
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
    struct segment *s = t->dead;
    if (!s) return false;
    t->dead = s->next_dead;
    t->stats.disk_bytes -= s->bytes;
    pthread_mutex_unlock(&t->lock);
    if (s->fd >= 0) {
        struct buf path = {0};
        segment_path(t, s, &path);
        t->files->close(t->files->ctx, s->fd);
        t->files->unlink(t->files->ctx, path.p);
        buf_fini(&path);
    }
    pthread_mutex_lock(&t->lock);
    free_segment(t, s);
    return true;
}

static struct segment *segment_to_clean(struct tier *t)
{
    for (uint32_t i = 0; i < t->n_segments; i++)
        if (t->segments[i] && needs_cleaning(t->segments[i])) return t->segments[i];
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
    m->move[m->n++] = (struct tier_move){from, put(t, key, value), m->keys.len, key.n};
    buf_add_slice(&m->keys, key);
    t->stats.moved++;
}

/* Puts the next living values of a segment again, as many as fit a step and the buffers. Called and left with the lock held. */
static void clean_some(struct tier *t, struct segment *s)
{
    struct buf record = {0}, value = {0};
    size_t bytes = 0;
    while (s->clean_at < s->n && t->moves.n < CLEAN_VALUES && bytes < CLEAN_BYTES && has_room(t, BATCH_BYTES)) {
        uint32_t slot = s->clean_at++;
        if (!is_live(s, slot)) continue;
        struct span from = {s->fd, s->at[slot], record_bytes(s, slot)};
        struct slice key = {0};
        pthread_mutex_unlock(&t->lock);
        value.len = 0;
        int rc = read_record(t, &from, &key, &record, &value);
        pthread_mutex_lock(&t->lock);
        bytes += from.n;
        if (rc < 0) note_read_error(t, s, &from, rc);
        else if (is_live(s, slot)) add_move(t, (struct chill_ref){s->id, slot}, key, buf_slice(&value));
    }
    s->cleaned = s->clean_at == s->n;
    t->stats.cleaned += s->cleaned;
    buf_fini(&record);
    buf_fini(&value);
}

static bool clean(struct tier *t)
{
    if (!t->moved || t->moves_out || !t->clean_wanted || t->failing || !has_room(t, BATCH_BYTES)) return false;
    struct segment *s = segment_to_clean(t);
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
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    pthread_mutex_lock(&t->lock);
    bool idle = !t->dead && (t->failing || !t->queue || t->queue == t->filling) && (!t->clean_wanted || t->moves_out || t->failing || !t->moved);
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

struct emptying {
    struct tier *t;
    struct buf names; /* each with its terminator */
};

static void note_name(void *arg, const char *name)
{
    struct emptying *e = arg;
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".cold") == 0) buf_add(&e->names, name, n + 1);
}

static int empty_dir(struct tier *t)
{
    struct emptying e = {.t = t};
    int rc = t->files->mkdir(t->files->ctx, t->dir);
    if (rc == -EEXIST) rc = t->files->list(t->files->ctx, t->dir, note_name, &e);
    for (size_t at = 0; rc == 0 && at < e.names.len; at += strlen(e.names.p + at) + 1) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", t->dir, e.names.p + at);
        buf_add_byte(&path, '\0');
        rc = t->files->unlink(t->files->ctx, path.p);
        buf_fini(&path);
    }
    buf_fini(&e.names);
    return rc;
}

static bool hook_put(void *ctx, struct slice key, struct slice value, struct chill_ref *ref) { return tier_put(ctx, key, value, ref) == TIER_TAKEN; }
static int hook_get(void *ctx, struct chill_ref ref, struct slice key, struct buf *value) { return tier_get(ctx, ref, key, value); }
static void hook_drop(void *ctx, struct chill_ref ref) { tier_drop(ctx, ref); }

struct tier *tier_open(const struct file_ops *files, const char *dir, const struct slog *log, struct buf *error)
{
    struct tier *t = mem_zalloc(sizeof *t);
    t->files = files;
    t->log = log;
    t->dir = mem_strdup(dir);
    t->hooks = (struct chill_tier){t, hook_put, hook_get, hook_drop};
    t->pending_max = PENDING_MAX;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->room, NULL);
    atomic_init(&t->profile, COMPRESS_BALANCED);
    atomic_init(&t->min_size, COMPRESS_MIN_SIZE);
    compress_init(&t->compress, COMPRESS_BALANCED, COMPRESS_MIN_SIZE);
    int rc = empty_dir(t);
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
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->n_segments; i++) {
        if (!t->segments[i]) continue;
        t->segments[i]->next_dead = t->dead;
        t->dead = t->segments[i];
    }
    while (remove_dead(t)) {
    }
    pthread_mutex_unlock(&t->lock);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->room);
    compress_fini(&t->compress);
    buf_fini(&t->out);
    buf_fini(&t->moves.keys);
    mem_free(t->moves.move);
    mem_free(t->segments);
    mem_free(t->dir);
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

size_t tier_bytes(const struct tier *t) { return pending(t) + atomic_load_explicit(&t->index, memory_order_relaxed); }

void tier_get_stats(struct tier *t, struct tier_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->stats;
    out->pending_bytes = pending(t);
    out->index_bytes = atomic_load(&t->index);
    out->failing = t->failing != 0;
    for (uint32_t i = 0; i < t->n_segments; i++) {
        const struct segment *s = t->segments[i];
        if (!s || !s->bytes) continue;
        out->live_bytes += s->live_bytes;
        out->raw_bytes += (uint64_t)((double)s->live_bytes * (double)s->raw_bytes / (double)s->bytes);
    }
    pthread_mutex_unlock(&t->lock);
}

void tier_check(struct tier *t)
{
    uint64_t values = 0, disk = 0, segments = 0;
    size_t in_buffers = 0, index = 0;
    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->n_segments; i++) {
        const struct segment *s = t->segments[i];
        if (!s) continue;
        uint64_t live = 0, live_bytes = 0;
        for (uint32_t k = 0; k < s->n; k++) {
            if (!is_live(s, k)) continue;
            live++;
            if (k < s->written) live_bytes += record_bytes(s, k);
        }
        CHECK(s->id == t->first_id + i && live == s->values && live_bytes == s->live_bytes && s->written <= s->n && s->n <= s->cap);
        CHECK(s->values || !s->sealed || s->pins || s->batches);
        values += live;
        disk += s->bytes;
        index += index_bytes(s);
        segments++;
    }
    for (const struct segment *s = t->dead; s; s = s->next_dead) {
        disk += s->bytes;
        index += index_bytes(s);
    }
    for (const struct batch *b = t->queue; b; b = b->next) {
        CHECK(b->first >= b->segment->written && (!b->next || b != t->filling));
        in_buffers += b->raw.cap;
    }
    CHECK(values == t->stats.values && disk == t->stats.disk_bytes && segments == t->stats.segments);
    CHECK(in_buffers == pending(t) && index == atomic_load(&t->index));
    pthread_mutex_unlock(&t->lock);
}
