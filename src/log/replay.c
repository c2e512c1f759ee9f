/* Which epochs of a log count
 *
 * Epochs are numbered without gaps over the whole log. An epoch on a shard is its records and its end record (segment.c); it is *whole* there if in the
 * bytes that the end record names every record is valid, and there are as many as it says. An epoch is *complete* if it is whole on every shard
 * that its end records name, and these agree on who that is.
 *
 *   after   the caller has the epochs up to this one (a dump): they do not matter
 *   W       the largest `synced` in any valid end record or mark: everything up to W was once durable on all shards
 *   last    from max(after, W) on, the last epoch of the unbroken run of complete ones
 *
 * Replayed are the valid records of all epochs in (after, last]. Everything behind `last` is cut off, on all shards.
 *
 * Up to W, what is not whole was damaged after it had been durable: bad disks, not crashes. Its valid records are still replayed, the rest is counted and told, the file kept aside, and
 * strict refuses. Above W, what is not complete never was: a crash took it, or took a part. Epochs behind it are dropped though they may be complete, for their commands
 * saw what is lost now. A file of which complete epochs are dropped that way is kept aside too, for damage above W looks the same.
 *
 * What a crash leaves, and why it is read right
 *   - while a segment is made: no file, an empty one, or a piece of its header. No record is written before header and name are durable: it is unborn, and holds nothing.
 *   - while an epoch is written: whole on some shards, on others in part or not at all: not complete, dropped everywhere. The process alone dying is the same, without losses elsewhere.
 *   - after some epochs were written and not synced, power lost: any of their bytes may be missing, also with later ones there. The first that is not complete ends the run. One that is
 *     lost without any trace (all its shards lost it) leaves a gap in the numbers, and ends the run too.
 *   - while syncing: the same. The sync was not reported, so nobody was promised anything.
 *   - after a sync: the epochs are whole on all shards and in the run, since those before them are too.
 *   - after a failed write was undone, or in the middle of that: the epoch was not complete anywhere, and its second try writes the same bytes at the same place.
 *   - while a shard starts a new segment: all that was written had been synced just before, on all shards. So only the last segment of a shard is ever at risk.
 *   - while recovery cuts: an epoch behind `last` that lost bytes to the cut is still not complete: the next recovery finds the same `last`. No new epoch is written
 *     before the cut is durable, so the numbers behind `last` can be given again. What was replayed is made durable too: W of the new log may say so.
 *     If there is damage up to W, the cut could take the only end record that knows of W, and the next recovery would take damage for a crash: so a mark
 *     with `last` is written behind it, after everything is synced.
 *   - while wal_drop_before deletes: what it deletes is not after `after`. */
#include "log/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/fileview.h"
#include "log/logdir.h"
#include "log/segment.h"

enum { AHEAD = 12 }; /* records: about what a core can have in flight */

struct part { /* a segment */
    uint64_t number;
    enum segment_state state;
    uint64_t size, used, keep; /* used: without the room at the end; keep: bytes that count, set by replay_shard */
    wal_epoch first_epoch; /* as its header says; 0: not known */
    bool keep_aside;
    bool clean;          /* the survey met nothing bad */
};

struct seen { /* an end record above the W of its time */
    wal_epoch epoch;
    uint32_t shards, who; /* how many take part, and the checksum of the bitmap */
    bool whole, first;    /* first: this shard is the lowest that takes part */
};

struct damage {
    wal_epoch epoch; /* of the end record behind it; 0: none, the header */
    uint64_t at, records;
    uint32_t part;
    const char *what;
};

struct log { /* of one shard */
    struct part *parts;
    struct seen *tail; /* ascending, without those up to the W known when room was needed */
    struct damage *damages;
    uint32_t n_parts, n_tail, cap_tail, n_damages;
    wal_epoch last_end;               /* the last end record's; 0: none yet */
    wal_epoch durable;                /* the largest `synced` in this shard's files */
    uint64_t epochs, ends, ends_named; /* of tail entries that were let go, in (after, W]; ends_named: as their lowest shards name them */
    uint64_t records; /* of epochs after `after` */
    bool is_marked; /* a mark says that `last` is durable */
    struct wal_replay result;
};

struct replay {
    const struct file_ops *files;
    char *dir;
    uint32_t shards;
    bool strict;
    wal_epoch after, durable, last; /* durable: W */
    wal_epoch first;                /* that some segment may hold; 0: not known */
    uint64_t bad, missing;
    char note[256];
    struct log *logs;
    const atomic_bool *stop; /* may be NULL, as the next */
    _Atomic uint64_t *done;
    void (*ahead)(void *ctx, uint16_t db, struct slice key);
};

/* --- reading files --- */

static int complain(struct buf *error, const char *path, const char *what, int rc)
{
    buf_printf(error, "%s: %s%s%s", path, what, rc ? ": " : "", rc ? strerror(-rc) : "");
    return rc ? rc : -EINVAL;
}

static int view(const struct replay *r, uint32_t shard, uint64_t number, struct fileview *file, struct buf *error)
{
    char path[LOGDIR_PATH_MAX];
    *file = (struct fileview){0};
    int rc = logdir_segment(path, r->dir, shard, number);
    if (rc == 0) rc = fileview_open(file, r->files, path);
    return rc ? complain(error, path, "cannot be read", rc) : 0;
}

static bool is_stopped(const struct replay *r) { return r->stop && atomic_load_explicit(r->stop, memory_order_relaxed); }

/* A file of another log or version is refused, whatever else is asked: replaying it, or cutting it, can only do harm. */
static int check_header(struct replay *r, uint32_t shard, struct part *p, struct slice file, struct buf *error)
{
    struct segment_header h;
    char path[LOGDIR_PATH_MAX];
    p->size = p->used = file.n;
    p->state = segment_read_header(file, &h);
    logdir_segment(path, r->dir, shard, p->number);
    if (p->state == SEGMENT_NEWER) return complain(error, path, "is of a format version that this server does not know", 0);
    if (p->state == SEGMENT_GOOD && (h.shard != shard || h.shards != r->shards || h.number != p->number))
        return complain(error, path, "belongs to another log, shard or place", 0);
    if (p->state == SEGMENT_GOOD) p->first_epoch = h.first_epoch;
    return 0;
}

/* --- the first reading: what is there --- */

static void note_damage(struct log *log, struct damage d)
{
    log->damages = mem_resize(log->damages, (log->n_damages + 1) * sizeof *log->damages);
    log->damages[log->n_damages++] = d;
}

static void tally(struct log *log, const struct seen *s)
{
    log->ends++;
    if (!s->first) return;
    log->epochs++;
    log->ends_named += s->shards;
}

/* Lets go of entries that need no decision any more: those up to `durable`. */
static void shrink_tail(const struct replay *r, struct log *log, wal_epoch durable)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < log->n_tail; i++) {
        if (log->tail[i].epoch > durable) log->tail[kept++] = log->tail[i];
        else if (log->tail[i].epoch > r->after) tally(log, &log->tail[i]);
    }
    log->n_tail = kept;
}

static void push_tail(const struct replay *r, struct log *log, struct seen s)
{
    if (log->n_tail == log->cap_tail) {
        shrink_tail(r, log, log->durable);
        if (log->n_tail > log->cap_tail / 2 || log->cap_tail == 0) {
            log->cap_tail = log->cap_tail ? log->cap_tail * 2 : 64;
            log->tail = mem_resize(log->tail, log->cap_tail * sizeof *log->tail);
        }
    }
    log->tail[log->n_tail++] = s;
}

static struct seen describe(const struct segment_end *e, uint32_t shard, bool whole)
{
    struct seen s = {.epoch = e->epoch, .whole = whole, .first = true, .who = crc32c(CRC32C_START, e->takes_part, (e->shards + 7) / 8)};
    for (uint32_t i = 0; i < e->shards; i++) {
        if (!segment_takes_part(e, i)) continue;
        s.shards++;
        if (i < shard) s.first = false;
    }
    return s;
}

struct region { /* between two end records */
    uint64_t at, records, bad, bad_at;
};

static void count_item(struct region *g, const struct segment_item *item)
{
    g->records += item->kind == SEGMENT_RECORD;
    if (item->kind == SEGMENT_BAD && g->bad++ == 0) g->bad_at = item->at;
}

/* The epoch's own bytes, where others lie before them whose end record is lost. */
static struct region own_region(const struct replay *r, uint32_t shard, struct slice file, const struct segment_item *end)
{
    struct region g = {.at = end->at - end->end.bytes};
    struct segment_reader reader;
    struct segment_item item;
    segment_reader_init(&reader, slice_of(file.p, end->at + end->bytes), shard, r->shards, g.at);
    while (segment_next(&reader, &item) && item.at < end->at) count_item(&g, &item);
    return g;
}

static void end_of_region(const struct replay *r, struct log *log, uint32_t shard, uint32_t part, struct slice file, const struct segment_item *item, struct region g)
{
    const struct segment_end *e = &item->end;
    if (e->epoch <= log->last_end) { /* a number that was there already */
        note_damage(log, (struct damage){e->epoch, item->at, 1, part, "an end record out of order"});
        return;
    }
    if (e->bytes != item->at - g.at) {
        note_damage(log, (struct damage){e->epoch - 1, g.bad ? g.bad_at : g.at, g.bad ? g.bad : 1, part, "damaged records"});
        g = own_region(r, shard, file, item);
    }
    bool whole = g.bad == 0 && e->records == g.records;
    if (e->epoch > r->after) log->records += g.records;
    uint64_t missing = e->records > g.records ? e->records - g.records : 1;
    if (!whole) note_damage(log, (struct damage){e->epoch, g.bad ? g.bad_at : g.at, missing > g.bad ? missing : g.bad, part, "damaged records"});
    push_tail(r, log, describe(e, shard, whole));
    log->last_end = e->epoch;
}

static int survey(struct replay *r, uint32_t shard, uint32_t part, struct slice file)
{
    struct log *log = &r->logs[shard];
    struct part *p = &log->parts[part];
    struct segment_reader reader;
    struct segment_item item;
    struct region g = {.at = SEGMENT_HEADER_BYTES};
    if (p->state == SEGMENT_UNBORN) return 0;
    if (p->state == SEGMENT_DAMAGED) note_damage(log, (struct damage){0, 0, 1, part, "a damaged header"});
    p->clean = true;
    segment_reader_init(&reader, file, shard, r->shards, SEGMENT_HEADER_BYTES);
    while (segment_next(&reader, &item)) {
        count_item(&g, &item);
        p->clean &= item.kind != SEGMENT_BAD;
        if (item.kind != SEGMENT_END && item.kind != SEGMENT_MARK) continue;
        if (item.kind == SEGMENT_END) end_of_region(r, log, shard, part, file, &item, g);
        if (item.end.synced > log->durable) log->durable = item.end.synced;
        g = (struct region){.at = reader.at};
        if (is_stopped(r)) return -ECANCELED;
    }
    p->used = reader.at;
    return 0;
}

static int survey_part(struct replay *r, uint32_t shard, uint32_t part, struct buf *error)
{
    struct part *p = &r->logs[shard].parts[part];
    struct fileview file;
    int rc = view(r, shard, p->number, &file, error);
    if (rc == 0) rc = check_header(r, shard, p, file.bytes, error);
    if (rc == 0) rc = survey(r, shard, part, file.bytes);
    fileview_close(&file);
    return rc;
}

int replay_survey(struct replay *r, uint32_t shard, struct buf *error)
{
    struct log *log = &r->logs[shard];
    struct logdir_numbers numbers;
    int rc = logdir_list(r->files, r->dir, shard, &numbers);
    if (rc) return complain(error, r->dir, "cannot be listed", rc);
    log->parts = mem_zalloc((numbers.n ? numbers.n : 1) * sizeof *log->parts);
    log->n_parts = numbers.n;
    for (uint32_t i = 0; i < numbers.n; i++) log->parts[i].number = numbers.v[i];
    for (uint32_t i = 0; i < numbers.n && rc == 0; i++) rc = survey_part(r, shard, i, error);
    mem_free(numbers.v);
    return rc;
}

/* --- the decision --- */

/* Is e complete? Cursors stand at the first tail entry of each shard that is not before e. */
static bool is_complete(const struct replay *r, wal_epoch e, uint32_t *cursors)
{
    const struct seen *one = NULL;
    uint32_t present = 0;
    for (uint32_t i = 0; i < r->shards; i++) {
        const struct log *log = &r->logs[i];
        while (cursors[i] < log->n_tail && log->tail[cursors[i]].epoch < e) cursors[i]++;
        if (cursors[i] == log->n_tail || log->tail[cursors[i]].epoch != e) continue;
        const struct seen *s = &log->tail[cursors[i]];
        if (!s->whole || (one && (one->who != s->who || one->shards != s->shards))) return false;
        one = s;
        present++;
    }
    return one && present == one->shards;
}

static void find_last(struct replay *r)
{
    uint32_t *cursors = mem_zalloc(r->shards * sizeof *cursors);
    r->last = r->durable > r->after ? r->durable : r->after;
    while (is_complete(r, r->last + 1, cursors)) r->last++;
    mem_free(cursors);
}

static void note(struct replay *r, uint32_t shard, const struct damage *d)
{
    if (r->note[0]) return;
    char path[LOGDIR_PATH_MAX];
    logdir_segment(path, r->dir, shard, r->logs[shard].parts[d->part].number);
    snprintf(r->note, sizeof r->note, "%.180s: %s at offset %" PRIu64, path, d->what, d->at);
}

/* Damage to what the caller has, or to what is cut off, does not matter. */
static bool counts(const struct replay *r, const struct damage *d) { return !d->epoch || (d->epoch > r->after && d->epoch <= r->last); }

static void count_damage(struct replay *r, uint32_t shard)
{
    struct log *log = &r->logs[shard];
    for (uint32_t i = 0; i < log->n_damages; i++) {
        const struct damage *d = &log->damages[i];
        if (!counts(r, d)) continue;
        note(r, shard, d);
        r->bad += d->records;
        log->parts[d->part].keep_aside = true;
    }
}

/* Epochs up to W that some shard, or all of them, have no end record of. */
static uint64_t missing_ends(struct replay *r)
{
    uint64_t epochs = 0, ends = 0, named = 0;
    for (uint32_t i = 0; i < r->shards; i++) {
        shrink_tail(r, &r->logs[i], r->durable);
        epochs += r->logs[i].epochs;
        ends += r->logs[i].ends;
        named += r->logs[i].ends_named;
    }
    uint64_t expected = r->durable > r->after ? r->durable - r->after : 0;
    uint64_t no_epoch = expected > epochs ? expected - epochs : 0, no_end = named > ends ? named - ends : 0;
    return no_epoch > no_end ? no_epoch : no_end;
}

/* The first epoch that some segment may hold; 0: there is no segment, or one whose header does not say. Segments are made durable before their records, and numbers have no gaps: if
 * anything follows `after`, a segment says that it may hold the next epoch. */
static wal_epoch first_held(const struct replay *r)
{
    wal_epoch first = 0;
    for (uint32_t i = 0; i < r->shards; i++) {
        for (uint32_t k = 0; k < r->logs[i].n_parts; k++) {
            const struct part *p = &r->logs[i].parts[k];
            if (p->state == SEGMENT_UNBORN) continue;
            if (p->first_epoch == 0) return 0;
            if (first == 0 || p->first_epoch < first) first = p->first_epoch;
        }
    }
    return first;
}

int replay_decide(struct replay *r, struct buf *error)
{
    r->first = first_held(r);
    if (r->first > r->after + 1) {
        buf_printf(error, "the log begins with epoch %" PRIu64 ", but what is there besides it ends with epoch %" PRIu64 ": the dump between them is missing or damaged", r->first,
                   r->after);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < r->shards; i++)
        if (r->logs[i].durable > r->durable) r->durable = r->logs[i].durable;
    r->missing = missing_ends(r);
    find_last(r);
    for (uint32_t i = 0; i < r->shards; i++) count_damage(r, i);
    if (r->missing && !r->note[0])
        snprintf(r->note, sizeof r->note, "%.180s: %" PRIu64 " ends of epochs up to %" PRIu64 " are missing", r->dir, r->missing, r->durable);
    r->bad += r->missing;
    if (!r->strict || r->bad == 0) return 0;
    buf_printf(error, "the log is damaged: %s", r->note);
    return -EINVAL;
}

struct replay *replay_new(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict)
{
    struct replay *r = mem_zalloc(sizeof *r);
    *r = (struct replay){.files = files, .dir = mem_strdup(dir), .shards = shards, .strict = strict, .after = after};
    r->logs = mem_zalloc(shards * sizeof *r->logs);
    return r;
}

struct replay *replay_open(const struct file_ops *files, const char *dir, uint32_t shards, wal_epoch after, bool strict, struct buf *error)
{
    struct replay *r = replay_new(files, dir, shards, after, strict);
    int rc = 0;
    for (uint32_t i = 0; i < shards && rc == 0; i++) rc = replay_survey(r, i, error);
    if (rc == 0) rc = replay_decide(r, error);
    if (rc == 0) return r;
    replay_free(r);
    return NULL;
}

void replay_look_ahead(struct replay *r, void (*fn)(void *ctx, uint16_t db, struct slice key)) { r->ahead = fn; }

void replay_watch(struct replay *r, const atomic_bool *stop, _Atomic uint64_t *done)
{
    r->stop = stop;
    r->done = done;
}

void replay_free(struct replay *r)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        mem_free(r->logs[i].parts);
        mem_free(r->logs[i].tail);
        mem_free(r->logs[i].damages);
    }
    mem_free(r->logs);
    mem_free(r->dir);
    mem_free(r);
}

bool replay_is_damaged(const struct replay *r) { return r->bad > 0; }
uint64_t replay_missing(const struct replay *r) { return r->missing; }
bool replay_reaches_back(const struct replay *r) { return r->first && r->first <= r->after + 1; }

uint64_t replay_records(const struct replay *r, uint32_t shard) { return r->logs[shard].records; }

uint64_t replay_bytes(const struct replay *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->shards; i++)
        for (uint32_t k = 0; k < r->logs[i].n_parts; k++) sum += r->logs[i].parts[k].size;
    return sum;
}

void replay_each_damage(const struct replay *r, void (*each)(void *ctx, const char *path, uint64_t at, uint64_t records, const char *what), void *ctx)
{
    for (uint32_t i = 0; i < r->shards; i++) {
        const struct log *log = &r->logs[i];
        for (uint32_t k = 0; k < log->n_damages; k++) {
            const struct damage *d = &log->damages[k];
            char path[LOGDIR_PATH_MAX];
            if (!counts(r, d)) continue;
            logdir_segment(path, r->dir, i, log->parts[d->part].number);
            each(ctx, path, d->at, d->records, d->what);
        }
    }
}

/* --- the second reading: handing out --- */

struct hand_out {
    struct replay *r;
    uint32_t shard, part;
    void (*apply)(void *ctx, uint32_t shard, const struct op *op);
    void *ctx;
    struct segment_ops ops;
    wal_epoch last_end;
    bool dropping; /* an end record behind `last` was met: nothing from here on counts */
    struct buf *error;
};

/* Checksum and all are right, yet it is no op: written by a fault of ours, or by a newer server. */
static int not_an_op(struct hand_out *h, uint64_t at)
{
    struct log *log = &h->r->logs[h->shard];
    char path[LOGDIR_PATH_MAX];
    logdir_segment(path, h->r->dir, h->shard, log->parts[h->part].number);
    log->result.bad_records++;
    log->parts[h->part].keep_aside = true;
    if (!log->result.note[0]) snprintf(log->result.note, sizeof log->result.note, "%.180s: not an op at offset %" PRIu64, path, at);
    if (!h->r->strict) return 0;
    buf_printf(h->error, "the log is damaged: %s", log->result.note);
    return -EINVAL;
}

/* Some records ahead of the hand-out, and as far in the same bytes. */
struct scout {
    struct segment_reader reader;
    size_t to;
    bool on;
};

static void go_ahead(struct hand_out *h, struct scout *s, int records)
{
    struct segment_item item;
    uint16_t db;
    struct slice key;
    while (s->on && records-- > 0) {
        s->on = segment_next(&s->reader, &item) == SEGMENT_RECORD && item.at < s->to;
        if (s->on && opcode_peek_key(item.record, &db, &key)) h->r->ahead(h->ctx, db, key);
    }
}

/* Hands out the records in [from, to) of a file that ends with the end record behind them. */
static int hand_out(struct hand_out *h, struct slice file, size_t from, size_t to)
{
    struct segment_reader reader;
    struct segment_item item;
    struct op op;
    segment_reader_init(&reader, file, h->shard, h->r->shards, from);
    reader.trusted = h->r->logs[h->shard].parts[h->part].clean;
    struct scout scout = {.reader = reader, .to = to, .on = h->r->ahead && reader.trusted};
    segment_ops_reset(&h->ops);
    go_ahead(h, &scout, AHEAD);
    while (segment_next(&reader, &item) && item.at + item.bytes <= to) {
        go_ahead(h, &scout, 1);
        if (item.kind != SEGMENT_RECORD) {
            segment_ops_reset(&h->ops);
            continue;
        }
        enum segment_op got = segment_op_step(&h->ops, item.record, &op);
        if (got == SEGMENT_OP) {
            h->apply(h->ctx, h->shard, &op);
            h->r->logs[h->shard].result.records++;
        }
        int rc = got == SEGMENT_OP_INVALID ? not_an_op(h, item.at) : 0;
        if (rc) return rc;
    }
    return 0;
}

/* What lies between two end records is the later one's epoch, and before it, if its own end record is damaged, that of others between the two.
 * These are replayed only if all of them can be: it is not known where one ends and the next begins. */
static int hand_out_region(struct hand_out *h, struct slice file, size_t from, const struct segment_item *end)
{
    size_t own = end->at - end->end.bytes;
    file.n = end->at + end->bytes;
    struct log *log = &h->r->logs[h->shard];
    int rc = own > from && h->last_end >= h->r->after ? hand_out(h, file, from, own) : 0;
    if (rc == 0) rc = hand_out(h, file, own, end->at);
    log->result.bytes += end->at + end->bytes - from;
    if (h->r->done) atomic_fetch_add_explicit(h->r->done, end->at + end->bytes - from, memory_order_relaxed);
    return rc == 0 && is_stopped(h->r) ? -ECANCELED : rc;
}

/* At an end record: hands out what lies before it, from offset `from` on, or drops it. */
static int pass_end(struct hand_out *h, struct slice file, size_t from, uint64_t records, const struct segment_item *end)
{
    const struct replay *r = h->r;
    struct log *log = &r->logs[h->shard];
    wal_epoch epoch = end->end.epoch;
    h->dropping |= epoch > r->last;
    if (h->dropping) {
        log->result.dropped_records += records;
        log->parts[h->part].keep_aside |= epoch > r->last + 1;
        return 0;
    }
    log->parts[h->part].keep = end->at + end->bytes;
    if (epoch <= h->last_end) return 0; /* out of order: noted at the first reading */
    int rc = epoch > r->after ? hand_out_region(h, file, from, end) : 0;
    h->last_end = epoch;
    return rc;
}

static void pass_mark(struct hand_out *h, const struct segment_item *mark)
{
    struct log *log = &h->r->logs[h->shard];
    if (h->dropping) return;
    log->is_marked |= mark->end.synced == h->r->last;
    log->parts[h->part].keep = mark->at + mark->bytes;
}

static int hand_out_part(struct hand_out *h, struct slice file)
{
    struct log *log = &h->r->logs[h->shard];
    struct part *p = &log->parts[h->part];
    struct segment_reader reader;
    struct segment_item item;
    uint64_t records = 0;
    if (p->state != SEGMENT_UNBORN) {
        p->keep = SEGMENT_HEADER_BYTES;
        segment_reader_init(&reader, file, h->shard, h->r->shards, SEGMENT_HEADER_BYTES);
        reader.trusted = p->clean;
        for (size_t from = reader.at; segment_next(&reader, &item);) {
            records += item.kind == SEGMENT_RECORD;
            if (item.kind != SEGMENT_END && item.kind != SEGMENT_MARK) continue;
            int rc = 0;
            if (item.kind == SEGMENT_END) rc = pass_end(h, file, from, records, &item);
            else pass_mark(h, &item);
            if (rc) return rc;
            from = reader.at;
            records = 0;
        }
    }
    log->result.dropped_records += records;
    log->result.torn_bytes += p->used - p->keep;
    p->keep_aside |= h->r->bad > 0 && p->keep < p->used;
    return 0;
}

static int replay_part(struct hand_out *h)
{
    struct replay *r = h->r;
    const struct part *p = &r->logs[h->shard].parts[h->part];
    struct fileview file;
    int rc = view(r, h->shard, p->number, &file, h->error);
    if (rc == 0 && file.bytes.n != p->size) rc = complain(h->error, r->dir, "changed while it was read", 0);
    if (rc == 0) rc = hand_out_part(h, file.bytes);
    fileview_close(&file);
    return rc;
}

int replay_shard(struct replay *r, uint32_t shard, void (*apply)(void *ctx, uint32_t shard, const struct op *op), void *ctx, struct buf *error)
{
    struct hand_out h = {.r = r, .shard = shard, .apply = apply, .ctx = ctx, .error = error};
    int rc = 0;
    for (; h.part < r->logs[shard].n_parts && rc == 0; h.part++) rc = replay_part(&h);
    segment_ops_fini(&h.ops);
    return rc;
}

/* --- the cut --- */

static int keep_aside(const struct replay *r, uint32_t shard, const struct part *p, struct buf *error)
{
    char path[LOGDIR_PATH_MAX], dir[LOGDIR_PATH_MAX], aside[LOGDIR_PATH_MAX + 16];
    struct fileview file = {0};
    logdir_shard(dir, r->dir, shard);
    logdir_segment(path, r->dir, shard, p->number);
    snprintf(aside, sizeof aside, "%s.corrupt", path);
    int fd = r->files->open(r->files->ctx, aside, FILE_READ), rc = 0;
    if (fd >= 0) r->files->close(r->files->ctx, fd); /* kept by an earlier recovery, which saw more of it */
    else rc = view(r, shard, p->number, &file, error);
    if (rc == 0 && fd < 0) {
        rc = file_put_whole(r->files, dir, aside, file.bytes);
        if (rc) complain(error, aside, "cannot be written", rc);
    }
    fileview_close(&file);
    return rc;
}

/* Every last segment is synced, cut or not: it may hold epochs that were written and not synced. */
static int cut_part(const struct replay *r, uint32_t shard, const struct part *p, struct buf *error)
{
    const struct file_ops *f = r->files;
    char path[LOGDIR_PATH_MAX];
    logdir_segment(path, r->dir, shard, p->number);
    int fd = f->open(f->ctx, path, FILE_CHANGE);
    if (fd < 0) return complain(error, path, "cannot be opened for writing", fd);
    int rc = p->keep < p->size ? f->truncate(f->ctx, fd, p->keep) : 0;
    if (rc == 0) rc = f->sync(f->ctx, &fd, 1);
    f->close(f->ctx, fd);
    return rc ? complain(error, path, "cannot be cut", rc) : 0;
}

static int finish_shard(const struct replay *r, uint32_t shard, struct buf *error)
{
    const struct log *log = &r->logs[shard];
    int rc = 0;
    for (uint32_t i = 0; i < log->n_parts && rc == 0; i++) {
        const struct part *p = &log->parts[i];
        if (p->keep_aside) rc = keep_aside(r, shard, p, error);
        if (rc == 0 && (p->keep < p->size || i == log->n_parts - 1)) rc = cut_part(r, shard, p, error);
    }
    return rc;
}

/* Behind what is kept of the shard's last segment that was born; the file is synced. */
static int mark(const struct replay *r, uint32_t shard, struct buf *error)
{
    const struct log *log = &r->logs[shard];
    const struct file_ops *f = r->files;
    struct buf bytes = {0};
    char path[LOGDIR_PATH_MAX];
    uint32_t i = log->n_parts;
    while (i > 0 && log->parts[i - 1].keep == 0) i--;
    if (i == 0 || log->is_marked) return 0;
    logdir_segment(path, r->dir, shard, log->parts[i - 1].number);
    int fd = f->open(f->ctx, path, FILE_CHANGE);
    if (fd < 0) return complain(error, path, "cannot be opened for writing", fd);
    segment_add_mark(&bytes, r->last);
    int rc = file_write_all(f, fd, buf_slice(&bytes), log->parts[i - 1].keep);
    if (rc == 0) rc = f->sync(f->ctx, &fd, 1);
    f->close(f->ctx, fd);
    buf_fini(&bytes);
    return rc ? complain(error, path, "cannot be marked", rc) : 0;
}

static int finish_files(const struct replay *r, struct buf *error)
{
    int rc = 0;
    for (uint32_t i = 0; i < r->shards && rc == 0; i++) rc = finish_shard(r, i, error);
    for (uint32_t i = 0; i < r->shards && rc == 0 && r->bad; i++) rc = mark(r, i, error);
    return rc;
}

void replay_result(const struct replay *r, struct wal_replay *result)
{
    *result = (struct wal_replay){.last = r->last, .bad_records = r->bad, .epochs = r->last - r->after};
    memcpy(result->note, r->note, sizeof r->note);
    for (uint32_t i = 0; i < r->shards; i++) {
        const struct wal_replay *one = &r->logs[i].result;
        result->records += one->records;
        result->bytes += one->bytes;
        result->dropped_records += one->dropped_records;
        result->torn_bytes += one->torn_bytes;
        result->bad_records += one->bad_records;
        if (!result->note[0]) memcpy(result->note, one->note, sizeof one->note);
    }
    if (!result->note[0] && result->torn_bytes)
        snprintf(result->note, sizeof result->note, "%.100s: %" PRIu64 " bytes behind epoch %" PRIu64 " were not complete and are cut off", r->dir,
                 result->torn_bytes, r->last);
}

int replay_finish(struct replay *r, struct wal_replay *result, struct buf *error)
{
    int rc = finish_files(r, error);
    if (rc == 0) replay_result(r, result);
    return rc;
}
