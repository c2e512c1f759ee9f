/* The log while the server runs. Formats: segment.c. Recovery, and why every crash is read right: replay.c.
 *
 * A shard has two buffers: `open`, which wal_append fills under the shard's token, and `closed`, which the log thread writes and empties. wal_cut swaps them with all tokens held, so
 * neither side ever waits for the other, and the bytes of an op are copied once. The end record and the checksums are added by the log thread. Between wal_cut and the end of wal_write the closed
 * buffers belong to the log thread; the caller orders the two (the cut is told to the log thread, the written epoch to the next cut). */
#include "log/wal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/file.h"
#include "log/logdir.h"
#include "log/replay.h"
#include "log/segment.h"

enum {
    KEEP_BYTES = 1 << 20,    /* a buffer that grew beyond this in a burst is cut back to it when it was written */
    ROOM_BYTES = 256 << 10,  /* zeros written ahead of small epochs that are synced one by one */
    ROOM_EPOCH_MAX = ROOM_BYTES / 4,
};

struct segment { /* a file on disk */
    uint64_t number;
    wal_epoch last; /* its last epoch, or a later one */
    uint64_t bytes;
};

struct wal_shard {
    _Alignas(64) struct buf open; /* the token's holder's */
    uint64_t open_records;
    _Atomic size_t open_bytes;    /* open.len, for any thread */
    _Alignas(64) struct buf closed; /* the log thread's, as all below */
    uint64_t closed_records;
    struct segment *segments; /* ascending; the last one is written to if fd >= 0 */
    uint32_t n_segments;
    int fd; /* -1: there is none to write to yet */
    bool unsynced, rotate; /* rotate: the next write starts a new segment, though this one is not full */
    uint64_t next_number;
    uint64_t room_end; /* the file's length, if there is room in it; else not more than the segment's bytes */
    _Atomic uint64_t info_bytes, info_segments, info_records, info_written;
};

struct wal {
    const struct file_ops *files;
    char *dir;
    uint32_t n_shards;
    uint64_t segment_bytes;
    struct wal_shard *shards;
    wal_epoch closed;    /* the epoch in the closed buffers; 0: none */
    bool sealed;         /* they have their end records */
    uint8_t *takes_part; /* in the closed epoch */
    int *fds;            /* room for the call that syncs */
    struct file_piece *pieces; /* and for the one that commits */
    _Atomic wal_epoch open_epoch, last_epoch, written, synced; /* last_epoch: has an op; written to once per epoch */
    atomic_bool broken;
};

/* --- open, close --- */

/* Room is cut off to be tidy: recovery does not mind it. */
static void cut_room(struct wal *w, struct wal_shard *s)
{
    if (s->fd < 0 || s->room_end <= s->segments[s->n_segments - 1].bytes) return;
    if (w->files->truncate(w->files->ctx, s->fd, s->segments[s->n_segments - 1].bytes) == 0) s->unsynced = true;
    s->room_end = 0;
}

static void retire_segment(struct wal *w, struct wal_shard *s)
{
    if (s->fd < 0) return;
    w->files->close(w->files->ctx, s->fd);
    s->fd = -1;
    s->room_end = 0;
}

static int complain(struct buf *error, const char *path, const char *what, int rc)
{
    buf_printf(error, "%s: %s: %s", path, what, strerror(-rc));
    return rc;
}

static int segment_size(const struct wal *w, uint32_t shard, struct segment *g)
{
    char path[LOGDIR_PATH_MAX];
    int rc = logdir_segment(path, w->dir, shard, g->number);
    int fd = rc ? rc : w->files->open(w->files->ctx, path, FILE_READ);
    if (fd < 0) return fd;
    int64_t size = w->files->size(w->files->ctx, fd);
    w->files->close(w->files->ctx, fd);
    g->bytes = size < 0 ? 0 : (uint64_t)size;
    return size < 0 ? (int)size : 0;
}

static void add_segment(struct wal_shard *s, struct segment g)
{
    s->segments = mem_resize(s->segments, (s->n_segments + 1) * sizeof *s->segments);
    s->segments[s->n_segments++] = g;
    atomic_fetch_add_explicit(&s->info_bytes, g.bytes, memory_order_relaxed);
    atomic_store_explicit(&s->info_segments, s->n_segments, memory_order_relaxed);
}

/* Numbers do not come again while a segment is there that had one, or what was kept of it. */
static int find_next_number(struct wal *w, uint32_t shard, const struct logdir_numbers *segments)
{
    struct logdir_numbers kept;
    int rc = logdir_list_kept(w->files, w->dir, shard, &kept);
    uint64_t last = segments->n ? segments->v[segments->n - 1] : 0;
    if (kept.n && kept.v[kept.n - 1] > last) last = kept.v[kept.n - 1];
    w->shards[shard].next_number = last + 1;
    mem_free(kept.v);
    return rc;
}

static int open_shard(struct wal *w, uint32_t shard, wal_epoch after, struct buf *error)
{
    struct wal_shard *s = &w->shards[shard];
    struct logdir_numbers numbers;
    char path[LOGDIR_PATH_MAX];
    int rc = logdir_shard(path, w->dir, shard);
    if (rc == 0) rc = w->files->mkdir(w->files->ctx, path);
    if (rc == -EEXIST) rc = 0;
    if (rc) return complain(error, path, "cannot be made", rc);
    rc = logdir_list(w->files, w->dir, shard, &numbers);
    for (uint32_t i = 0; i < numbers.n && rc == 0; i++) {
        struct segment g = {.number = numbers.v[i], .last = after};
        rc = segment_size(w, shard, &g);
        add_segment(s, g);
    }
    if (rc == 0) rc = find_next_number(w, shard, &numbers);
    mem_free(numbers.v);
    return rc ? complain(error, path, "cannot be read", rc) : 0;
}

struct wal *wal_open(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, uint64_t segment_bytes, struct buf *error)
{
    CHECK(shards >= 1);
    struct wal *w = mem_zalloc(sizeof *w);
    *w = (struct wal){.files = files, .dir = mem_strdup(dir), .n_shards = shards, .segment_bytes = segment_bytes, .open_epoch = after + 1, .last_epoch = after, .written = after,
                      .synced = after};
    w->shards = aligned_alloc(_Alignof(struct wal_shard), shards * sizeof *w->shards);
    CHECK(w->shards);
    memset(w->shards, 0, shards * sizeof *w->shards);
    w->takes_part = mem_zalloc((shards + 7) / 8);
    w->fds = mem_zalloc(shards * sizeof *w->fds);
    w->pieces = mem_zalloc(shards * sizeof *w->pieces);
    for (uint32_t i = 0; i < shards; i++) w->shards[i].fd = -1;
    int rc = 0;
    for (uint32_t i = 0; i < shards && rc == 0; i++) rc = open_shard(w, i, after, error);
    if (rc == 0 && (rc = files->sync_dir(files->ctx, dir))) complain(error, dir, "cannot be synced", rc);
    if (rc == 0) return w;
    wal_close(w);
    return NULL;
}

void wal_close(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards; i++) {
        struct wal_shard *s = &w->shards[i];
        if (!wal_broken(w)) cut_room(w, s);
        retire_segment(w, s);
        buf_fini(&s->open);
        buf_fini(&s->closed);
        mem_free(s->segments);
    }
    free(w->shards);
    mem_free(w->takes_part);
    mem_free(w->fds);
    mem_free(w->pieces);
    mem_free(w->dir);
    mem_free(w);
}

int wal_replay_all(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict,
                   void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct wal_replay *result, struct buf *error)
{
    struct replay *r = replay_open(files, dir, shards, after, strict, error);
    if (!r) return -EINVAL;
    int rc = 0;
    for (uint32_t i = 0; i < shards && rc == 0; i++) rc = replay_shard(r, i, apply, ctx, error);
    if (rc == 0) rc = replay_finish(r, result, error);
    replay_free(r);
    return rc;
}

/* --- under tokens --- */

void wal_append(struct wal *w, uint32_t shard, const struct op *op)
{
    struct wal_shard *s = &w->shards[shard];
    s->open_records += segment_add_op(&s->open, op);
    atomic_store_explicit(&s->open_bytes, s->open.len, memory_order_relaxed);
    if (unlikely(wal_last_epoch(w) != wal_open_epoch(w))) atomic_store_explicit(&w->last_epoch, wal_open_epoch(w), memory_order_relaxed);
}

wal_epoch wal_last_epoch(const struct wal *w) { return atomic_load_explicit(&w->last_epoch, memory_order_relaxed); }
wal_epoch wal_open_epoch(const struct wal *w) { return atomic_load_explicit(&w->open_epoch, memory_order_relaxed); }

size_t wal_pending_bytes(const struct wal *w)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < w->n_shards; i++) sum += atomic_load_explicit(&w->shards[i].open_bytes, memory_order_relaxed);
    return sum;
}

static void swap_buffers(struct wal_shard *s)
{
    struct buf empty = s->closed;
    CHECK(empty.len == 0);
    s->closed = s->open;
    s->closed_records = s->open_records;
    s->open = empty;
    s->open_records = 0;
    atomic_store_explicit(&s->open_bytes, 0, memory_order_relaxed);
}

wal_epoch wal_cut(struct wal *w)
{
    bool any = false;
    CHECK(w->closed == 0);
    memset(w->takes_part, 0, (w->n_shards + 7) / 8);
    for (uint32_t i = 0; i < w->n_shards; i++) {
        if (w->shards[i].open.len == 0) continue;
        swap_buffers(&w->shards[i]);
        w->takes_part[i / 8] |= (uint8_t)(1u << i % 8);
        any = true;
    }
    if (!any) return 0;
    w->sealed = false;
    w->closed = atomic_fetch_add_explicit(&w->open_epoch, 1, memory_order_relaxed);
    return w->closed;
}

/* --- the log thread: syncing --- */

static int break_log(struct wal *w, int rc)
{
    atomic_store(&w->broken, true);
    return rc;
}

static void note_synced(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards; i++) w->shards[i].unsynced = false;
    atomic_store_explicit(&w->synced, wal_written_epoch(w), memory_order_release);
}

int wal_sync(struct wal *w)
{
    uint32_t n = 0;
    if (wal_broken(w)) return -EIO;
    for (uint32_t i = 0; i < w->n_shards; i++)
        if (w->shards[i].unsynced) w->fds[n++] = w->shards[i].fd;
    int rc = n ? w->files->sync(w->files->ctx, w->fds, n) : 0;
    if (rc) return break_log(w, rc);
    note_synced(w);
    return 0;
}

/* --- the log thread: segments --- */

static int write_header(const struct wal *w, uint32_t shard, int fd)
{
    struct buf header = {0};
    segment_write_header(&header, &(struct segment_header){shard, w->n_shards, w->shards[shard].next_number, w->closed});
    int rc = file_write_all(w->files, fd, buf_slice(&header), 0);
    buf_fini(&header);
    return rc;
}

/* Header and name are durable before the first record comes. If the file or its header cannot be written, the next try makes the same file anew. */
static int start_segment(struct wal *w, uint32_t shard)
{
    struct wal_shard *s = &w->shards[shard];
    char path[LOGDIR_PATH_MAX], dir[LOGDIR_PATH_MAX];
    int rc = logdir_segment(path, w->dir, shard, s->next_number);
    if (rc == 0) rc = logdir_shard(dir, w->dir, shard);
    int fd = rc ? rc : w->files->open(w->files->ctx, path, FILE_CREATE);
    if (fd < 0) return fd;
    rc = write_header(w, shard, fd);
    if (rc == 0) {
        rc = w->files->sync(w->files->ctx, &fd, 1);
        if (rc == 0) rc = w->files->sync_dir(w->files->ctx, dir);
        if (rc) break_log(w, rc);
    }
    if (rc) {
        w->files->close(w->files->ctx, fd);
        return rc;
    }
    s->fd = fd;
    s->rotate = false;
    s->next_number++;
    add_segment(s, (struct segment){.number = s->next_number - 1, .last = w->closed - 1, .bytes = SEGMENT_HEADER_BYTES});
    return 0;
}

static bool is_full(const struct wal *w, const struct wal_shard *s)
{
    return s->fd >= 0 && (s->rotate || s->segments[s->n_segments - 1].bytes >= w->segment_bytes);
}

/* Before a shard leaves a segment, everything written is synced: recovery relies on only last segments being at risk. */
static int leave_full_segments(struct wal *w)
{
    bool any = false;
    for (uint32_t i = 0; i < w->n_shards; i++) {
        if (!w->shards[i].closed.len || !is_full(w, &w->shards[i])) continue;
        cut_room(w, &w->shards[i]);
        any = true;
    }
    int rc = any ? wal_sync(w) : 0;
    for (uint32_t i = 0; i < w->n_shards && rc == 0; i++)
        if (is_full(w, &w->shards[i]) && w->shards[i].closed.len) retire_segment(w, &w->shards[i]);
    return rc;
}

static int prepare_segments(struct wal *w)
{
    int rc = leave_full_segments(w);
    for (uint32_t i = 0; i < w->n_shards && rc == 0; i++)
        if (w->shards[i].closed.len && w->shards[i].fd < 0) rc = start_segment(w, i);
    return rc;
}

/* --- the log thread: writing --- */

static void seal(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards && !w->sealed; i++) {
        struct wal_shard *s = &w->shards[i];
        if (s->closed.len == 0) continue;
        segment_seal(&s->closed, &(struct segment_end){.epoch = w->closed, .synced = wal_synced_epoch(w), .records = s->closed_records,
                                                       .shards = w->n_shards, .takes_part = w->takes_part});
    }
    w->sealed = true;
}

/* Shards 0..n-1 may have bytes of an epoch that shall not stay. If the cut fails too, they stand there until the next try writes the same ones over them, and
 * a crash before that finds an epoch that is not complete. */
static void undo(struct wal *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct wal_shard *s = &w->shards[i];
        if (!s->closed.len) continue;
        w->files->truncate(w->files->ctx, s->fd, s->segments[s->n_segments - 1].bytes);
        s->room_end = 0;
    }
}

static void empty_closed(struct wal_shard *s)
{
    s->closed.len = 0;
    if (s->closed.cap <= KEEP_BYTES) return;
    s->closed.p = mem_resize(s->closed.p, KEEP_BYTES);
    s->closed.cap = KEEP_BYTES;
}

static void note_shard_written(const struct wal *w, struct wal_shard *s)
{
    struct segment *g = &s->segments[s->n_segments - 1];
    g->bytes += s->closed.len;
    g->last = w->closed;
    s->unsynced = true;
    atomic_fetch_add_explicit(&s->info_bytes, s->closed.len, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->info_records, s->closed_records, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->info_written, s->closed.len, memory_order_relaxed);
}

static void note_written(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards; i++) {
        if (w->shards[i].closed.len == 0) continue;
        note_shard_written(w, &w->shards[i]);
        empty_closed(&w->shards[i]);
    }
    atomic_store_explicit(&w->written, w->closed, memory_order_release);
    w->closed = 0;
}

static int write_epoch(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards; i++) {
        struct wal_shard *s = &w->shards[i];
        if (s->closed.len == 0) continue;
        int rc = file_write_all(w->files, s->fd, buf_slice(&s->closed), s->segments[s->n_segments - 1].bytes);
        if (rc == 0) continue;
        undo(w, i + 1);
        return rc;
    }
    return 0;
}

int wal_write(struct wal *w)
{
    if (wal_broken(w)) return -EIO;
    if (w->closed == 0) return 0;
    int rc = prepare_segments(w);
    if (rc) return rc;
    seal(w);
    rc = write_epoch(w);
    if (rc == 0) note_written(w);
    return rc;
}

/* --- the log thread: both in one --- */

/* A sync of bytes that make a file longer, or lie where it has none yet, must wait for the file system's own journal too; a sync of bytes that replace others need
 * not, and takes half the time or less. So when epochs are small and each is synced, zeros are written for several of them at once. Without space for zeros it goes the usual way. */
static void make_room(struct wal *w, struct wal_shard *s)
{
    static const char zeros[ROOM_BYTES];
    uint64_t end = s->segments[s->n_segments - 1].bytes + s->closed.len;
    if (end <= s->room_end || s->closed.len > ROOM_EPOCH_MAX || end >= w->segment_bytes) return;
    uint64_t n = w->segment_bytes - end < ROOM_BYTES ? w->segment_bytes - end : ROOM_BYTES;
    s->room_end = file_write_all(w->files, s->fd, slice_of(zeros, n), end) == 0 ? end + n : 0;
    if (!s->room_end) w->files->truncate(w->files->ctx, s->fd, s->segments[s->n_segments - 1].bytes);
}

/* What each file gets: the bytes of the closed epoch, and a sync if it has bytes that are not durable, of this epoch or earlier ones. */
static uint32_t lay_out(struct wal *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_shards; i++) {
        struct wal_shard *s = &w->shards[i];
        if (s->closed.len == 0 && !s->unsynced) continue;
        if (s->closed.len) make_room(w, s);
        w->pieces[n++] = (struct file_piece){.fd = s->fd, .bytes = buf_slice(&s->closed), .at = s->segments[s->n_segments - 1].bytes};
    }
    return n;
}

/* A failed sync counts whatever else happened: it leaves unknown what is durable. A file that was written and synced beside one that could not be written is no
 * harm: its epoch is not complete, and goes like that of the others. */
int wal_commit(struct wal *w)
{
    if (wal_broken(w)) return -EIO;
    if (w->closed == 0) return wal_sync(w);
    int rc = prepare_segments(w), write_rc = 0, sync_rc = 0;
    if (rc) return rc;
    seal(w);
    uint32_t n = lay_out(w);
    file_commit(w->files, w->pieces, n);
    for (uint32_t i = 0; i < n; i++) {
        if (w->pieces[i].write_rc) write_rc = w->pieces[i].write_rc;
        if (w->pieces[i].sync_rc && w->pieces[i].sync_rc != -ECANCELED) sync_rc = w->pieces[i].sync_rc;
    }
    if (sync_rc) return break_log(w, sync_rc);
    if (write_rc) {
        undo(w, w->n_shards);
        return write_rc;
    }
    note_written(w);
    note_synced(w);
    return 0;
}

/* --- the log thread: dropping --- */

void wal_rotate(struct wal *w)
{
    for (uint32_t i = 0; i < w->n_shards; i++) w->shards[i].rotate = true;
}

/* The segment that will be written to stays. */
static bool may_drop(const struct wal_shard *s, wal_epoch epoch)
{
    bool writes = s->fd >= 0 && !s->rotate;
    return s->n_segments > writes && s->segments[0].last < epoch;
}

static int drop_oldest(struct wal *w, uint32_t shard)
{
    struct wal_shard *s = &w->shards[shard];
    char path[LOGDIR_PATH_MAX];
    logdir_segment(path, w->dir, shard, s->segments[0].number);
    int rc = w->files->unlink(w->files->ctx, path);
    if (rc && rc != -ENOENT) return rc;
    atomic_fetch_sub_explicit(&s->info_bytes, s->segments[0].bytes, memory_order_relaxed);
    s->n_segments--;
    memmove(s->segments, s->segments + 1, s->n_segments * sizeof *s->segments);
    atomic_store_explicit(&s->info_segments, s->n_segments, memory_order_relaxed);
    if (s->n_segments == 0) {
        retire_segment(w, s);
        s->unsynced = false;
    }
    return 0;
}

int wal_drop_before(struct wal *w, wal_epoch epoch)
{
    int rc = 0;
    for (uint32_t i = 0; i < w->n_shards && rc == 0; i++) {
        char dir[LOGDIR_PATH_MAX];
        if (!may_drop(&w->shards[i], epoch)) continue;
        while (rc == 0 && may_drop(&w->shards[i], epoch)) rc = drop_oldest(w, i);
        logdir_shard(dir, w->dir, i);
        if (rc == 0) rc = w->files->sync_dir(w->files->ctx, dir);
    }
    return rc;
}

/* --- numbers --- */

bool wal_broken(const struct wal *w) { return atomic_load(&w->broken); }
wal_epoch wal_written_epoch(const struct wal *w) { return atomic_load_explicit(&w->written, memory_order_acquire); }
wal_epoch wal_synced_epoch(const struct wal *w) { return atomic_load_explicit(&w->synced, memory_order_acquire); }

void wal_shard_info(const struct wal *w, uint32_t shard, struct wal_info *info)
{
    const struct wal_shard *s = &w->shards[shard];
    info->bytes = atomic_load_explicit(&s->info_bytes, memory_order_relaxed);
    info->segments = atomic_load_explicit(&s->info_segments, memory_order_relaxed);
    info->records = atomic_load_explicit(&s->info_records, memory_order_relaxed);
    info->written = atomic_load_explicit(&s->info_written, memory_order_relaxed);
}
