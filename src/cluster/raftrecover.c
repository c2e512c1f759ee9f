/* What a crash leaves
 *
 * One batch is written at a time, and the next one only when it is durable. So a crash at any moment leaves the batches 1..n whole, and of n + 1 nothing, a part, or all of it. Batches of a segment lie behind one another
 * from its beginning and segments are used in order of their numbers, so the bytes of n + 1 lie right behind n, or at the beginning of the next segment. A batch n + 1 that is not whole was never told to be durable:
 * it is cut, and the next one written takes its number, and often its place.
 *
 * What must be damage
 *
 * A batch that is not valid though a later one is: the later one would not have been written. Hence:
 *  1. Behind the last valid batch of the newest segment in use no valid one is found, at any block; the newest segment in use is the newest one with a valid batch anywhere.
 *  2. From segment to segment the numbers of batches go on without a gap.
 *  3. A file is as long as its batches say.
 * Damage in the very last batch looks like a torn write. raftlog_seal writes an empty batch behind it: where that was done, all records are behind a later batch.
 *
 * Where reading begins
 *
 * A segment's first batch tells the state of all groups, so reading may begin with any segment from which on all entries that are alive are there. The last batch names one, and files before it
 * are not looked at. If segments from that one on are not there (they were let go after it was written), reading begins behind the gap, and at the end every group must have its entries from the first
 * one that its mark keeps: if not, a file is missing that should be there. Where reading did begin earlier, a segment whose first batch leaves a group out is damage all the same: reading may begin with it the next
 * time, and must come to the same end. */
#include "cluster/raftrecover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cluster/raftbatch.h"
#include "cluster/raftindex.h"
#include "io/file.h"

enum { SCAN_BYTES = 1 << 20 };

struct numbers { /* of the segments in the directory, ascending once they are sorted */
    uint64_t *v;
    uint32_t n;
    char (*unfinished)[64]; /* names of files that are */
    uint32_t n_unfinished;
};

struct reading {
    const struct file_ops *files;
    uint64_t log;
    struct raftsegs *segs;
    struct raftindex *index;
    struct raftrecover *result;
    struct buf *error;
    uint64_t oldest; /* segment that the last batch needs */
    /* the segment that is open */
    int fd;
    uint64_t segment, size;
    uint32_t untold; /* known groups whose state its first batch has not repeated yet */
    char path[RAFTLOG_PATH_MAX];
    struct buf batch, blocks;
};

/* --- errors --- */

static int fail(struct reading *r, const char *what, int rc)
{
    buf_printf(r->error, "%s: %s: %s", r->path, what, strerror(-rc));
    return rc;
}

static int damaged(struct reading *r, uint64_t at, const char *what)
{
    buf_printf(r->error, "%s: segment %" PRIu64 ", offset %" PRIu64 ": %s", r->path, r->segment, at, what);
    return -EBADMSG;
}

/* --- one segment --- */

static int open_segment(struct reading *r, uint64_t number, enum file_mode mode)
{
    raftsegs_path(r->segs, number, r->path);
    r->segment = number;
    r->fd = r->files->open(r->files->ctx, r->path, mode);
    if (r->fd < 0) return r->fd == -ENOENT ? damaged(r, 0, "the file is missing") : fail(r, "cannot be opened", r->fd);
    int64_t size = r->files->size(r->files->ctx, r->fd);
    r->size = size < 0 ? 0 : (uint64_t)size / RAFTBATCH_BLOCK * RAFTBATCH_BLOCK;
    return size < 0 ? fail(r, "its size cannot be had", (int)size) : 0;
}

static void close_segment(struct reading *r)
{
    if (r->fd >= 0) r->files->close(r->files->ctx, r->fd);
    r->fd = -1;
}

/* Into a buffer that is emptied first. */
static int read_bytes(struct reading *r, struct buf *into, uint64_t n, uint64_t at)
{
    into->len = 0;
    buf_room(into, n);
    while (into->len < n) {
        ssize_t got = r->files->read(r->files->ctx, r->fd, into->p + into->len, n - into->len, at + into->len);
        if (got <= 0) return fail(r, "cannot be read", got ? (int)got : -EIO);
        into->len += (size_t)got;
    }
    return 0;
}

/* Is there a valid batch at `at`? 1: it is in r->batch; 0: no. `block` holds the first bytes there. */
static int take_batch(struct reading *r, const char *block, uint64_t at, struct raftbatch_header *h)
{
    if (!raftbatch_read_header(block, r->log, r->segment, r->size - at, h)) return 0;
    int rc = read_bytes(r, &r->batch, raftbatch_size(h->bytes), at);
    return rc ? rc : raftbatch_is_whole(buf_slice(&r->batch));
}

static int read_batch(struct reading *r, uint64_t at, struct raftbatch_header *h)
{
    if (r->size - at < RAFTBATCH_BLOCK) return 0;
    int rc = read_bytes(r, &r->blocks, RAFTBATCH_BLOCK, at);
    return rc ? rc : take_batch(r, r->blocks.p, at, h);
}

/* The first valid batch at or behind `from`. 1: found, 0: none. */
static int find_batch(struct reading *r, uint64_t from, uint64_t *found)
{
    struct raftbatch_header h;
    for (uint64_t at = from; at < r->size;) {
        uint64_t n = r->size - at < SCAN_BYTES ? r->size - at : SCAN_BYTES;
        int rc = read_bytes(r, &r->blocks, n, at);
        for (uint64_t i = 0; rc == 0 && i < n; i += RAFTBATCH_BLOCK) {
            *found = at + i;
            rc = take_batch(r, r->blocks.p + i, at + i, &h);
        }
        if (rc) return rc;
        at += n;
    }
    return 0;
}

/* Calls `each` for the batches of the open segment as long as they are valid and follow one another. *expected is the number of the first one (0: any), and then that of the one that would be next; *end is
 * the offset behind the last. */
static int walk(struct reading *r, uint64_t *expected, uint64_t *end, int (*each)(struct reading *r, uint64_t at, const struct raftbatch_header *h))
{
    struct raftbatch_header h = {0};
    int rc;
    for (*end = 0; (rc = read_batch(r, *end, &h)) == 1; *end += raftbatch_size(h.bytes)) {
        if (*expected && h.batch != *expected) return 0;
        if (h.segment_bytes > r->size) return damaged(r, r->size, "the file is shorter than it was");
        rc = each(r, *end, &h);
        if (rc) return rc;
        *expected = h.batch + 1;
    }
    return rc;
}

/* --- records --- */

static const char *apply_entry(struct reading *r, struct raftindex_group *g, const struct raftbatch_record *rec, uint64_t at)
{
    const char *why = raftindex_bars_entry(g, rec->index);
    if (why) return why;
    raftindex_append(g, (struct raftindex_entry){.term = rec->term, .at = at, .type = rec->type, .segment = (uint32_t)r->segment, .bytes = (uint32_t)rec->data.n});
    raftsegs_live(r->segs, r->segment)->entries++;
    return NULL;
}

static const char *apply_truncate(struct reading *r, struct raftindex_group *g, uint64_t from)
{
    const char *why = raftindex_bars_truncate(g, from);
    if (!why) raftindex_truncate(r->index, g, from);
    return why;
}

static const char *apply_mark(struct reading *r, struct raftindex_group *g, const struct raftbatch_record *rec)
{
    struct raftlog_mark m;
    if (!raftbatch_read_mark(rec, &m)) return "a mark is too short";
    const char *why = raftindex_bars_mark(g, &m);
    if (!why) raftindex_mark(r->index, g, &m);
    return why;
}

static bool is_same_mark(const struct raftlog_mark *a, const struct raftlog_mark *b)
{
    return a->index == b->index && a->term == b->term && a->first == b->first && a->configuration_index == b->configuration_index && slice_eq(a->configuration, b->configuration);
}

static const char *repeat_state(struct reading *r, struct raftindex_group *g, const struct raftbatch_record *rec, uint64_t vote, const struct raftlog_mark *m)
{
    if (g->term != rec->term || g->vote != vote || raftindex_last(g) != rec->index || !is_same_mark(&g->mark, m)) return "a state is not what the records before it say";
    if (r->untold && g->touched != r->index->batch) r->untold--;
    g->touched = r->index->batch;
    return NULL;
}

/* A state tells of a group for the first time where reading begins; later ones repeat what is known. */
static const char *apply_state(struct reading *r, const struct raftbatch_record *rec)
{
    struct raftindex_group *g = raftindex_find(r->index, rec->group);
    struct raftlog_mark m;
    uint64_t vote;
    if (!raftbatch_read_state(rec, &vote, &m)) return "a state is too short";
    const char *why = raftindex_bars_state(rec->index, &m);
    if (why) return why;
    if (g) return repeat_state(r, g, rec, vote, &m);
    if (r->segment != r->segs->live.v[0].number) return "a state of a group that the records before it do not know";
    raftindex_restate(r->index, raftindex_make(r->index, rec->group), rec->term, vote, rec->index, &m);
    return NULL;
}

static const char untold[] = "the first batch of a segment does not tell of all groups";

static const char *apply(struct reading *r, const struct raftbatch_record *rec, uint64_t at)
{
    if (rec->kind == RAFTBATCH_STATE) return apply_state(r, rec);
    if (r->untold) return untold;
    struct raftindex_group *g = raftindex_find(r->index, rec->group);
    if (rec->kind == RAFTBATCH_GONE) {
        if (g) raftindex_remove(r->index, g);
        return g ? NULL : "a group is gone that was not there";
    }
    if (!g) g = raftindex_make(r->index, rec->group);
    switch (rec->kind) {
    case RAFTBATCH_ENTRY: return apply_entry(r, g, rec, at);
    case RAFTBATCH_TRUNCATE: return apply_truncate(r, g, rec->index);
    case RAFTBATCH_MARK: return apply_mark(r, g, rec);
    case RAFTBATCH_HARD_STATE:
        g->term = rec->term;
        g->vote = rec->index;
        return NULL;
    default: return "a record of a kind that is not known";
    }
}

static int replay_batch(struct reading *r, uint64_t at, const struct raftbatch_header *h)
{
    struct slice records = slice_of(r->batch.p + RAFTBATCH_HEADER_BYTES, h->bytes);
    uint64_t place = at + RAFTBATCH_HEADER_BYTES;
    r->index->batch = h->batch;
    r->untold = at == 0 && r->segs->live.n > 1 ? r->index->n : 0;
    while (records.n) {
        struct raftbatch_record rec;
        size_t n = raftbatch_read(records, &rec);
        const char *why = n ? apply(r, &rec, place) : "a record is not valid";
        if (why) return damaged(r, place, why);
        records = slice_of(records.p + n, records.n - n);
        place += n;
    }
    if (r->untold) return damaged(r, place, untold);
    struct raftsegs_file *file = raftsegs_live(r->segs, r->segment);
    if (at == 0) file->first_batch = h->batch;
    file->used = at + r->batch.len;
    r->result->last = h->batch;
    r->result->sealed = h->bytes == 0;
    return 0;
}

/* --- the directory --- */

static void note_name(void *arg, const char *name)
{
    struct numbers *all = arg;
    uint64_t number;
    size_t n = strlen(name);
    if (raftsegs_number(name, &number)) {
        all->v = mem_resize(all->v, (all->n + 1) * sizeof *all->v);
        all->v[all->n++] = number;
    } else if (n > 4 && n < sizeof *all->unfinished && strcmp(name + n - 4, ".new") == 0) {
        all->unfinished = mem_resize(all->unfinished, (all->n_unfinished + 1) * sizeof *all->unfinished);
        memcpy(all->unfinished[all->n_unfinished++], name, n + 1);
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int list_files(struct reading *r, struct numbers *all)
{
    int rc = r->files->list(r->files->ctx, r->segs->dir, note_name, all);
    if (rc) {
        buf_printf(r->error, "%s: cannot be listed: %s", r->segs->dir, strerror(-rc));
        return rc;
    }
    if (all->n) qsort(all->v, all->n, sizeof *all->v, by_number);
    for (uint32_t i = 0; i < all->n_unfinished; i++) {
        char path[RAFTLOG_PATH_MAX + sizeof *all->unfinished];
        snprintf(path, sizeof path, "%s/%s", r->segs->dir, all->unfinished[i]);
        r->files->unlink(r->files->ctx, path);
    }
    return 0;
}

/* The position among all of the newest segment that has a valid batch; all->n: none has. */
static int find_newest(struct reading *r, const struct numbers *all, uint32_t *newest)
{
    *newest = all->n;
    for (uint32_t i = all->n; i-- > 0 && *newest == all->n;) {
        uint64_t found = 0;
        int rc = open_segment(r, all->v[i], FILE_READ);
        if (rc == 0) rc = find_batch(r, 0, &found);
        if (rc == 1 && found > 0) rc = damaged(r, 0, "the first batch is not valid, but a later one is");
        close_segment(r);
        if (rc < 0) return rc;
        if (rc == 1) *newest = i;
    }
    if (*newest < all->n || all->n == 0 || all->v[0] == 1) return 0;
    return damaged(r, 0, "no segment has a valid batch, but this is not the first one that there was");
}

/* --- all of it --- */

static int note_oldest(struct reading *r, uint64_t at, const struct raftbatch_header *h)
{
    r->oldest = h->oldest;
    return 0;
}

/* Looks through the newest segment in use: its last batch is that of the log, and what lies behind was never whole. */
static int look_at_newest(struct reading *r, uint64_t number)
{
    uint64_t expected = 0, end = 0, found;
    int rc = open_segment(r, number, FILE_READ);
    if (rc == 0) rc = walk(r, &expected, &end, note_oldest);
    if (rc == 0) rc = find_batch(r, end, &found);
    if (rc == 1) rc = damaged(r, end, "a batch is not valid, but a later one is");
    close_segment(r);
    return rc;
}

/* If a batch was begun behind the last one: how large it would have become. */
static int measure_tear(struct reading *r, uint64_t end)
{
    struct raftbatch_header h;
    if (r->size - end < RAFTBATCH_BLOCK) return 0;
    int rc = read_bytes(r, &r->blocks, RAFTBATCH_BLOCK, end);
    if (rc == 0 && raftbatch_read_header(r->blocks.p, r->log, r->segment, r->size - end, &h)) r->result->torn_bytes = raftbatch_size(h.bytes);
    return rc;
}

/* No batch of the open segment follows what was read before: either its first one is not valid, or the segment before should have gone on. */
static int explain_break(struct reading *r)
{
    struct raftbatch_header h;
    int rc = read_batch(r, 0, &h);
    if (rc <= 0 || r->segs->live.n < 2) return rc < 0 ? rc : damaged(r, 0, "the first batch is not valid, but a later one is");
    close_segment(r);
    const struct raftsegs_file *before = &r->segs->live.v[r->segs->live.n - 2];
    raftsegs_path(r->segs, before->number, r->path);
    r->segment = before->number;
    return damaged(r, before->used, "a batch is not valid, but a later one is");
}

/* Replays one segment, which is the next of the live ones. The newest one is made durable: what a process wrote before it died may only be in the system's memory, and now it will be relied on. */
static int replay_segment(struct reading *r, uint64_t number, bool newest, uint64_t *expected)
{
    uint64_t end, first = *expected;
    int rc = open_segment(r, number, newest ? FILE_CHANGE : FILE_READ);
    if (rc == 0) {
        raftsegs_add(&r->segs->live, (struct raftsegs_file){.number = number, .bytes = r->size, .fd = -1});
        rc = walk(r, expected, &end, replay_batch);
    }
    if (rc == 0 && *expected == first) rc = explain_break(r);
    if (rc == 0 && newest) rc = measure_tear(r, end);
    if (rc == 0 && newest) {
        rc = r->files->sync(r->files->ctx, &r->fd, 1);
        if (rc) rc = fail(r, "cannot be synced", rc);
    }
    close_segment(r);
    return rc;
}

static int replay_all(struct reading *r, const struct numbers *all, uint32_t start, uint32_t newest)
{
    uint64_t expected = 0;
    int rc = 0;
    for (uint32_t i = start; i <= newest && rc == 0; i++) rc = replay_segment(r, all->v[i], i == newest, &expected);
    return rc;
}

static int check_groups(struct reading *r)
{
    for (uint32_t i = 0; i < r->index->n; i++) {
        struct raftindex_group *g = r->index->v[i];
        g->open_first = g->flight_first = raftindex_last(g) + 1;
        if (raftindex_is_whole(g)) continue;
        buf_printf(r->error, "%s: entries %" PRIu64 " to %" PRIu64 " of group %" PRIu32 " are missing: a segment before %" PRIu64 " is not there", r->segs->dir, g->mark.first, g->base, g->id,
                   r->segs->live.v[0].number);
        return -EBADMSG;
    }
    return 0;
}

/* The files before those that were read are spare, those behind are ready as far as their numbers follow; others nobody can have made. */
static int sort_files(struct reading *r, const struct numbers *all, uint32_t start, uint32_t newest)
{
    int rc = 0;
    bool follows = true;
    uint64_t next = newest < all->n ? all->v[newest] + 1 : 1;
    for (uint32_t i = 0; i < all->n && rc == 0; i++) {
        bool before = newest < all->n && i < start;
        if (newest < all->n && i >= start && i <= newest) continue;
        rc = open_segment(r, all->v[i], FILE_READ);
        close_segment(r);
        if (rc) break;
        struct raftsegs_file file = {.number = all->v[i], .bytes = r->size, .fd = -1};
        follows = before || (follows && file.number == next && file.bytes > 0);
        if (before) raftsegs_add(&r->segs->spare, file);
        else if (follows) raftsegs_add(&r->segs->ready, file);
        else rc = r->files->unlink(r->files->ctx, r->path);
        if (!before) next++;
    }
    return rc;
}

/* Where reading begins: see the top. */
static uint32_t find_start(const struct reading *r, const struct numbers *all, uint32_t newest)
{
    uint32_t start = newest;
    while (start > 0 && all->v[start - 1] + 1 == all->v[start] && all->v[start - 1] >= r->oldest) start--;
    return start;
}

static int run(struct reading *r, struct numbers *all)
{
    uint32_t newest, start = 0;
    int rc = list_files(r, all);
    if (rc == 0) rc = find_newest(r, all, &newest);
    if (rc) return rc;
    if (newest < all->n) {
        rc = look_at_newest(r, all->v[newest]);
        start = find_start(r, all, newest);
        if (rc == 0) rc = replay_all(r, all, start, newest);
        if (rc == 0) rc = check_groups(r);
    }
    if (rc == 0) rc = sort_files(r, all, start, newest);
    if (rc == 0) rc = r->files->sync_dir(r->files->ctx, r->segs->dir);
    if (rc && r->error->len == 0) buf_printf(r->error, "%s: %s", r->segs->dir, strerror(-rc));
    return rc;
}

int raftrecover_run(const struct file_ops *files, uint64_t log, struct raftsegs *segs, struct raftindex *index, struct raftrecover *result, struct buf *error)
{
    *result = (struct raftrecover){.sealed = true};
    struct reading r = {.files = files, .log = log, .segs = segs, .index = index, .result = result, .error = error, .fd = -1};
    struct numbers all = {0};
    int rc = run(&r, &all);
    buf_fini(&r.batch);
    buf_fini(&r.blocks);
    mem_free(all.v);
    mem_free(all.unfinished);
    return rc;
}
