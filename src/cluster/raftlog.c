/* The open batch, the batch that is being written, and reading back. Formats: raftbatch.c. Recovery: raftrecover.c. Which entries are alive: raftindex.c. Which files there are: raftsegs.c.
 *
 * Records of the open batch gather in `records`. Where they will stand is known only when the batch is closed: behind the last one, or, if it does not fit there, at the head of the next segment, behind the states of all
 * groups. Those states are from before the batch. So when a batch touches a group for the first time, its state is written down in `states`, and used if the batch does begin a segment.
 *
 * A batch that is larger than a segment waits until the next segment has been made as large as it needs. */
#include "cluster/raftlog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cluster/raftbatch.h"
#include "cluster/raftindex.h"
#include "cluster/raftrecover.h"
#include "cluster/raftsegs.h"
#include "io/file.h"

enum {
    SEGMENT_BYTES = 64 << 20,
    SEGMENT_BYTES_MIN = 64 << 10,
    CACHE_BYTES = 1 << 20,
    WINDOW_BYTES = 128 << 10, /* read from disk at once, since whoever reads one entry reads the next */
    KEEP_BYTES = 4 << 20,     /* buffers that grew beyond this in a burst are given back */
    STATE_BYTES = RAFTBATCH_RECORD_BYTES + 40, /* without the configuration */
    RESERVE_SHARE = 16,       /* this part of a segment is for batches without entries */
    RESERVE_BYTES_MIN = 3 * RAFTBATCH_BLOCK,
};

struct flight { /* the batch that is being written */
    bool on;
    uint64_t batch, segment, at;
    char *p; /* aligned for O_DIRECT */
    uint64_t bytes, cap;
};

struct raftlog {
    const struct file_ops *files;
    uint64_t log, cache_bytes;
    struct raftsegs segs;
    struct raftindex index;
    struct buf records, states; /* of the open batch */
    uint64_t n_records;
    uint32_t *touched; /* groups that have records in it */
    uint32_t n_touched, cap_touched;
    uint64_t open_batch, durable;
    bool seal;   /* the open batch is to be written even if it is empty */
    bool sealed; /* the last closed batch was empty, or there was none */
    bool broken;
    struct flight flight;
    struct buf window; /* read from disk last */
    uint64_t window_segment, window_at;
    struct raftlog_info info; /* counters only */
};

/* --- open, close --- */

static int complain(struct buf *error, const char *path, const char *what, int rc)
{
    buf_printf(error, "%s: %s: %s", path, what, strerror(-rc));
    return rc;
}

static int make_dir(const struct file_ops *files, const char *dir, struct buf *error)
{
    char parent[RAFTLOG_PATH_MAX] = ".";
    const char *slash = strrchr(dir, '/');
    int rc = files->mkdir(files->ctx, dir);
    if (rc == -EEXIST) return 0;
    if (slash && (size_t)(slash - dir) < sizeof parent) {
        memcpy(parent, dir, (size_t)(slash - dir));
        parent[slash - dir] = '\0';
    }
    if (rc == 0) rc = files->sync_dir(files->ctx, slash == dir ? "/" : parent);
    return rc ? complain(error, dir, "cannot be made", rc) : 0;
}

static void count_segment(void *arg, const char *name)
{
    uint64_t number;
    if (raftsegs_number(name, &number)) ++*(uint32_t *)arg;
}

static int make_id(struct raftlog *l, const char *path, uint64_t random, struct buf *error)
{
    uint32_t segments = 0;
    struct buf bytes = {0};
    int rc = l->files->list(l->files->ctx, l->segs.dir, count_segment, &segments);
    if (rc) return complain(error, l->segs.dir, "cannot be listed", rc);
    if (segments) return complain(error, path, "is missing, though there are segments", -EBADMSG);
    l->log = random;
    raftbatch_write_id(&bytes, l->log);
    rc = file_put_whole(l->files, l->segs.dir, path, buf_slice(&bytes));
    buf_fini(&bytes);
    return rc ? complain(error, path, "cannot be written", rc) : 0;
}

static int read_id(struct raftlog *l, uint64_t random, struct buf *error)
{
    char path[RAFTLOG_PATH_MAX];
    struct buf bytes = {0};
    int n = snprintf(path, sizeof path, "%s/raftlog.id", l->segs.dir);
    CHECK(n > 0 && n < (int)sizeof path);
    int rc = file_read_whole(l->files, path, &bytes);
    enum raftbatch_id id = raftbatch_read_id(buf_slice(&bytes), &l->log);
    buf_fini(&bytes);
    if (rc == -ENOENT) return make_id(l, path, random, error);
    if (rc) return complain(error, path, "cannot be read", rc);
    if (id == RAFTBATCH_ID_GOOD) return 0;
    return complain(error, path, id == RAFTBATCH_ID_NEWER ? "written by another version of this program" : "is damaged", -EBADMSG);
}

static void retire_segments(struct raftlog *l)
{
    struct raftsegs_file file;
    while (raftsegs_retire(&l->segs, l->durable, &file))
        if (file.fd >= 0) l->files->close(l->files->ctx, file.fd);
}

static int make_first_ready(struct raftlog *l, struct buf *error)
{
    struct raftlog_chore c;
    int rc = 0;
    while (rc == 0 && l->segs.live.n == 0 && l->segs.ready.n == 0 && raftlog_begin_chore(l, &c)) {
        rc = raftlog_chore_run(l->files, &c);
        raftlog_chore_done(l, rc);
        if (rc) complain(error, c.path, "cannot be made", rc);
    }
    return rc;
}

static int open_log(struct raftlog *l, const char *dir, uint64_t random, struct buf *error)
{
    struct raftrecover found;
    int rc = make_dir(l->files, dir, error);
    if (rc == 0) rc = read_id(l, random, error);
    if (rc == 0) rc = raftrecover_run(l->files, l->log, &l->segs, &l->index, &found, error);
    if (rc) return rc;
    l->durable = found.last;
    l->open_batch = l->index.batch = found.last + 1;
    l->sealed = found.sealed;
    l->info.torn_bytes = found.torn_bytes;
    retire_segments(l);
    return make_first_ready(l, error);
}

struct raftlog *raftlog_open(const struct file_ops *files, const char *dir, const struct raftlog_options *options, struct buf *error)
{
    struct raftlog *l = mem_zalloc(sizeof *l);
    uint64_t segment_bytes = options->segment_bytes ? options->segment_bytes : SEGMENT_BYTES;
    CHECK(segment_bytes % RAFTBATCH_BLOCK == 0 && segment_bytes >= SEGMENT_BYTES_MIN);
    l->files = files;
    l->cache_bytes = options->cache_bytes ? options->cache_bytes : CACHE_BYTES;
    int rc = raftsegs_init(&l->segs, dir, segment_bytes, options->ready ? options->ready : 1);
    l->index.segs = &l->segs;
    if (rc) complain(error, dir, "cannot be opened", rc);
    else rc = open_log(l, dir, options->random, error);
    if (rc == 0) return l;
    raftlog_close(l);
    return NULL;
}

void raftlog_close(struct raftlog *l)
{
    for (uint32_t i = 0; i < l->segs.live.n; i++)
        if (l->segs.live.v[i].fd >= 0) l->files->close(l->files->ctx, l->segs.live.v[i].fd);
    raftindex_fini(&l->index);
    raftsegs_fini(&l->segs);
    buf_fini(&l->records);
    buf_fini(&l->states);
    buf_fini(&l->window);
    mem_free(l->touched);
    free(l->flight.p);
    mem_free(l);
}

/* --- groups --- */

uint32_t raftlog_groups(const struct raftlog *l, uint32_t *ids, uint32_t max)
{
    for (uint32_t i = 0; i < l->index.n && i < max; i++) ids[i] = l->index.v[i]->id;
    return l->index.n;
}

bool raftlog_state(const struct raftlog *l, uint32_t group, struct raftlog_state *state)
{
    const struct raftindex_group *g = raftindex_find(&l->index, group);
    if (!g) return false;
    *state = (struct raftlog_state){.term = g->term, .vote = g->vote, .mark_index = g->mark.index, .mark_term = g->mark.term, .first = g->mark.first, .last = raftindex_last(g),
                                    .configuration_index = g->mark.configuration_index, .configuration = g->mark.configuration};
    return true;
}

uint64_t raftlog_term(const struct raftlog *l, uint32_t group, uint64_t index)
{
    const struct raftindex_group *g = raftindex_find(&l->index, group);
    const struct raftindex_entry *e = g ? raftindex_at(g, index) : NULL;
    if (e) return e->term;
    return g && index == g->mark.index ? g->mark.term : 0;
}

uint64_t raftlog_group_bytes(const struct raftlog *l, uint32_t group)
{
    const struct raftindex_group *g = raftindex_find(&l->index, group);
    return g ? g->bytes : 0;
}

/* Entries of a group lie in the order of their indexes, so its first one is its oldest. */
bool raftlog_oldest_holder(const struct raftlog *l, uint32_t *group, uint64_t *segments)
{
    const struct raftsegs_file *current = raftsegs_current(&l->segs);
    uint64_t oldest = current ? current->number : 0;
    for (uint32_t i = 0; i < l->index.n; i++) {
        const struct raftindex_group *g = l->index.v[i];
        if (g->n == 0 || g->v[g->head].segment == 0 || g->v[g->head].segment >= oldest) continue;
        oldest = g->v[g->head].segment;
        *group = g->id;
    }
    *segments = current ? current->number - oldest + 1 : 0;
    return *segments > 1;
}

/* --- putting --- */

static void note_touched(struct raftlog *l, struct raftindex_group *g)
{
    if (l->n_touched == l->cap_touched) {
        l->cap_touched = l->cap_touched ? 2 * l->cap_touched : 16;
        l->touched = mem_resize(l->touched, l->cap_touched * sizeof *l->touched);
    }
    l->touched[l->n_touched++] = g->id;
    g->touched = l->open_batch;
}

static void add_state(struct buf *out, const struct raftindex_group *g) { raftbatch_add_state(out, g->id, g->term, g->vote, raftindex_last(g), &g->mark); }

/* The group gets a record in the open batch. */
static struct raftindex_group *touch(struct raftlog *l, uint32_t group)
{
    struct raftindex_group *g = raftindex_find(&l->index, group);
    l->n_records++;
    if (g && g->touched == l->open_batch) return g;
    if (g) add_state(&l->states, g);
    else g = raftindex_make(&l->index, group);
    note_touched(l, g);
    return g;
}

void raftlog_put_hard_state(struct raftlog *l, uint32_t group, uint64_t term, uint64_t vote)
{
    struct raftindex_group *g = touch(l, group);
    g->term = term;
    g->vote = vote;
    raftbatch_add(&l->records, &(struct raftbatch_record){.group = group, .kind = RAFTBATCH_HARD_STATE, .index = vote, .term = term});
}

void raftlog_put_entry(struct raftlog *l, uint32_t group, uint64_t index, uint64_t term, uint8_t type, struct slice data)
{
    struct raftindex_group *g = touch(l, group);
    CHECK(!raftindex_bars_entry(g, index) && data.n <= RAFTLOG_ENTRY_MAX);
    raftindex_append(g, (struct raftindex_entry){.term = term, .at = l->records.len, .type = type, .bytes = (uint32_t)data.n, .cached = raftindex_cache(g, data, l->cache_bytes)});
    raftbatch_add(&l->records, &(struct raftbatch_record){.group = group, .kind = RAFTBATCH_ENTRY, .type = type, .index = index, .term = term, .data = data});
}

void raftlog_put_truncate(struct raftlog *l, uint32_t group, uint64_t from)
{
    struct raftindex_group *g = touch(l, group);
    CHECK(!raftindex_bars_truncate(g, from));
    raftindex_truncate(&l->index, g, from);
    raftbatch_add(&l->records, &(struct raftbatch_record){.group = group, .kind = RAFTBATCH_TRUNCATE, .index = from});
}

void raftlog_put_mark(struct raftlog *l, uint32_t group, const struct raftlog_mark *mark)
{
    struct raftindex_group *g = touch(l, group);
    CHECK(!raftindex_bars_mark(g, mark) && mark->configuration.n <= RAFTLOG_CONFIGURATION_MAX);
    raftbatch_add_mark(&l->records, group, mark);
    raftindex_mark(&l->index, g, mark);
}

void raftlog_put_gone(struct raftlog *l, uint32_t group)
{
    if (!raftindex_find(&l->index, group)) return;
    raftindex_remove(&l->index, touch(l, group));
    raftbatch_add(&l->records, &(struct raftbatch_record){.group = group, .kind = RAFTBATCH_GONE});
}

void raftlog_seal(struct raftlog *l) { l->seal = !l->sealed; }

/* --- batches --- */

uint64_t raftlog_open_batch(const struct raftlog *l) { return l->open_batch; }
uint64_t raftlog_durable(const struct raftlog *l) { return l->durable; }
bool raftlog_broken(const struct raftlog *l) { return l->broken; }

uint64_t raftlog_durable_index(const struct raftlog *l, uint32_t group)
{
    const struct raftindex_group *g = raftindex_find(&l->index, group);
    if (!g) return 0;
    return (l->flight.on && g->flight_batch == l->flight.batch ? g->flight_first : g->open_first) - 1;
}

/* The batch goes behind the last one or, if that is not to be, alone to the head of the next segment. */
uint64_t raftlog_capacity(const struct raftlog *l)
{
    const struct raftsegs_file *current = raftsegs_current(&l->segs);
    uint64_t room = current ? current->bytes - current->used : 0, next = l->segs.ready.n ? l->segs.ready.v[0].bytes : 0;
    uint64_t states = l->states.len + l->index.n * STATE_BYTES + l->index.configuration_bytes;
    uint64_t reserve = l->segs.segment_bytes / RESERVE_SHARE, taken = RAFTBATCH_BLOCK + l->records.len + (reserve > RESERVE_BYTES_MIN ? reserve : RESERVE_BYTES_MIN);
    next = next > states ? next - states : 0;
    if (next > room) room = next;
    return room > taken && !l->broken ? room - taken : 0;
}

/* The states of the groups that the batch does not touch, behind those that were written down. */
static void complete_states(struct raftlog *l)
{
    for (uint32_t i = 0; i < l->index.n; i++)
        if (l->index.v[i]->touched != l->open_batch) add_state(&l->states, l->index.v[i]);
}

/* A new segment is begun if it is there and the batch fits; if not, it is asked for. */
static bool begin_segment(struct raftlog *l)
{
    struct raftsegs *s = &l->segs;
    if (s->ready.n == 0 || (s->busy && s->chore.kind == RAFTLOG_GROW)) return false;
    size_t known = l->states.len;
    complete_states(l);
    uint64_t size = raftbatch_size(l->states.len + l->records.len);
    if (size > s->ready.v[0].bytes) {
        l->states.len = known;
        s->grow_to = size;
        return false;
    }
    raftsegs_advance(s, l->open_batch);
    return true;
}

static bool fits(const struct raftsegs_file *current, uint64_t bytes) { return current && raftbatch_size(bytes) <= current->bytes - current->used; }

static void flight_room(struct flight *f, uint64_t bytes)
{
    if (f->cap >= bytes && f->cap <= (bytes > KEEP_BYTES ? 2 * bytes : KEEP_BYTES)) return;
    free(f->p);
    f->cap = bytes < KEEP_BYTES / 4 ? KEEP_BYTES / 4 : bytes;
    f->p = aligned_alloc(RAFTBATCH_BLOCK, f->cap);
    CHECK(f->p);
}

/* The entries of the open batch get their places; their records begin at this offset of the segment. */
static void place_entries(struct raftlog *l, struct raftsegs_file *file, uint64_t records_at)
{
    for (uint32_t i = 0; i < l->n_touched; i++) {
        struct raftindex_group *g = raftindex_find(&l->index, l->touched[i]);
        if (!g) continue; /* gone */
        for (uint64_t index = g->open_first; index <= raftindex_last(g); index++) {
            struct raftindex_entry *e = raftindex_at(g, index);
            e->segment = (uint32_t)file->number;
            e->at += records_at;
            file->entries++;
        }
        g->flight_first = g->open_first;
        g->flight_batch = l->open_batch;
        g->open_first = raftindex_last(g) + 1;
    }
}

static void empty(struct buf *b)
{
    if (b->cap > KEEP_BYTES) buf_fini(b);
    b->len = 0;
}

/* The open batch becomes the flight, in the current segment; states: it is the first one there. */
static void take_off(struct raftlog *l, struct raftsegs_file *file, bool states)
{
    struct flight *f = &l->flight;
    uint64_t states_bytes = states ? l->states.len : 0, bytes = states_bytes + l->records.len;
    flight_room(f, raftbatch_size(bytes));
    f->bytes = raftbatch_size(bytes);
    if (states_bytes) memcpy(f->p + RAFTBATCH_HEADER_BYTES, l->states.p, states_bytes);
    if (l->records.len) memcpy(f->p + RAFTBATCH_HEADER_BYTES + states_bytes, l->records.p, l->records.len);
    raftbatch_seal(f->p, &(struct raftbatch_header){.log = l->log, .segment = file->number, .batch = l->open_batch, .oldest = l->segs.live.v[0].number, .segment_bytes = file->bytes, .bytes = bytes});
    f->batch = l->open_batch;
    f->segment = file->number;
    f->at = file->used;
    f->on = true;
    place_entries(l, file, file->used + RAFTBATCH_HEADER_BYTES + states_bytes);
    file->used += f->bytes;
}

static void open_next(struct raftlog *l)
{
    l->info.batches++;
    l->info.records += l->n_records;
    l->sealed = l->n_records == 0;
    l->seal = false;
    l->n_records = 0;
    l->n_touched = 0;
    empty(&l->records);
    empty(&l->states);
    l->index.batch = ++l->open_batch;
}

bool raftlog_has_more(const struct raftlog *l) { return !l->broken && !l->flight.on && (l->n_records || l->seal); }

bool raftlog_begin_write(struct raftlog *l, struct raftlog_write *w)
{
    if (!raftlog_has_more(l)) return false;
    bool states = !fits(raftsegs_current(&l->segs), l->records.len);
    if (states && !begin_segment(l)) return false;
    take_off(l, raftsegs_current(&l->segs), states);
    open_next(l);
    w->batch = l->flight.batch;
    w->segment = l->flight.segment;
    w->at = l->flight.at;
    w->bytes = slice_of(l->flight.p, l->flight.bytes);
    raftsegs_path(&l->segs, w->segment, w->path);
    return true;
}

void raftlog_written(struct raftlog *l, uint64_t batch, int rc)
{
    CHECK(l->flight.on && batch == l->flight.batch);
    if (rc) {
        l->broken = true;
        return;
    }
    l->flight.on = false;
    l->durable = batch;
    l->info.written_bytes += l->flight.bytes;
    retire_segments(l);
}

/* --- reading --- */

/* How far the segment may be read: what is being written is not there yet. */
static uint64_t readable(const struct raftlog *l, const struct raftsegs_file *file) { return l->flight.on && l->flight.segment == file->number ? l->flight.at : file->used; }

/* Fills the window with at least n bytes from `at` on. */
static int fill_window(struct raftlog *l, struct raftsegs_file *file, uint64_t at, uint64_t n)
{
    uint64_t rest = readable(l, file) - at, want = n > WINDOW_BYTES ? n : WINDOW_BYTES < rest ? WINDOW_BYTES : rest;
    char path[RAFTLOG_PATH_MAX];
    CHECK(n <= rest);
    empty(&l->window);
    raftsegs_path(&l->segs, file->number, path);
    if (file->fd < 0) file->fd = l->files->open(l->files->ctx, path, FILE_READ);
    if (file->fd < 0) return file->fd;
    buf_room(&l->window, want);
    l->window_segment = file->number;
    l->window_at = at;
    while (l->window.len < n) {
        ssize_t got = l->files->read(l->files->ctx, file->fd, l->window.p + l->window.len, want - l->window.len, at + l->window.len);
        l->info.reads_disk++;
        if (got <= 0) return got ? (int)got : -EBADMSG;
        l->window.len += (size_t)got;
    }
    return 0;
}

static int read_disk(struct raftlog *l, uint32_t group, uint64_t index, const struct raftindex_entry *e, struct slice *data)
{
    uint64_t n = RAFTBATCH_RECORD_BYTES + (uint64_t)e->bytes;
    struct raftbatch_record r;
    if (l->window_segment != e->segment || e->at < l->window_at || e->at + n > l->window_at + l->window.len) {
        int rc = fill_window(l, raftsegs_live(&l->segs, e->segment), e->at, n);
        if (rc) {
            l->window.len = 0;
            return rc;
        }
    }
    if (raftbatch_read(slice_of(l->window.p + (e->at - l->window_at), n), &r) != n) return -EBADMSG;
    if (r.kind != RAFTBATCH_ENTRY || r.group != group || r.index != index || r.term != e->term) return -EBADMSG;
    *data = r.data;
    return 0;
}

int raftlog_read(struct raftlog *l, uint32_t group, uint64_t index, struct raftlog_entry *out)
{
    const struct raftindex_group *g = raftindex_find(&l->index, group);
    const struct raftindex_entry *e = g ? raftindex_at(g, index) : NULL;
    if (!e) return -ENOENT;
    out->term = e->term;
    out->type = e->type;
    bool flies = l->flight.on && e->segment == l->flight.segment && e->at >= l->flight.at;
    l->info.reads_memory++;
    if (raftindex_cached(g, e, &out->data)) return 0;
    if (e->segment == 0 || flies) {
        const char *record = e->segment ? l->flight.p + (e->at - l->flight.at) : l->records.p + e->at;
        out->data = slice_of(record + RAFTBATCH_RECORD_BYTES, e->bytes);
        return 0;
    }
    l->info.reads_memory--;
    return read_disk(l, group, index, e, &out->data);
}

/* --- chores --- */

bool raftlog_begin_chore(struct raftlog *l, struct raftlog_chore *c) { return !l->broken && raftsegs_begin_chore(&l->segs, c); }
void raftlog_chore_done(struct raftlog *l, int rc) { raftsegs_chore_done(&l->segs, rc); }
void raftlog_retry_chores(struct raftlog *l) { l->segs.halted = false; }
int raftlog_chore_error(const struct raftlog *l) { return l->segs.error; }

/* --- for whoever does I/O --- */

int raftlog_write_run(const struct file_ops *files, const struct raftlog_write *w)
{
    int fd = files->open(files->ctx, w->path, FILE_CHANGE);
    if (fd < 0) return fd;
    struct file_piece piece = {.fd = fd, .bytes = w->bytes, .at = w->at};
    file_commit(files, &piece, 1);
    files->close(files->ctx, fd);
    return piece.write_rc ? piece.write_rc : piece.sync_rc;
}

static int write_zeros(const struct file_ops *files, int fd, uint64_t from, uint64_t to)
{
    enum { CHUNK = 1 << 20 };
    char *zeros = mem_zalloc(CHUNK);
    int rc = 0;
    for (uint64_t at = from; at < to && rc == 0; at += CHUNK) rc = file_write_all(files, fd, slice_of(zeros, to - at < CHUNK ? to - at : CHUNK), at);
    mem_free(zeros);
    return rc ? rc : files->sync(files->ctx, &fd, 1);
}

/* Under another name until it is whole, so that a file with a segment's name always has its size. */
static int make_segment(const struct file_ops *files, const struct raftlog_chore *c)
{
    char temp[RAFTLOG_PATH_MAX + 8];
    snprintf(temp, sizeof temp, "%s.new", c->path);
    int fd = files->open(files->ctx, temp, FILE_CREATE);
    if (fd < 0) return fd;
    int rc = write_zeros(files, fd, 0, c->bytes);
    files->close(files->ctx, fd);
    if (rc == 0) rc = files->rename(files->ctx, temp, c->path);
    if (rc) files->unlink(files->ctx, temp);
    return rc ? rc : files->sync_dir(files->ctx, c->dir);
}

static int grow_segment(const struct file_ops *files, const struct raftlog_chore *c)
{
    int fd = files->open(files->ctx, c->path, FILE_CHANGE);
    if (fd < 0) return fd;
    int64_t size = files->size(files->ctx, fd);
    int rc = size < 0 ? (int)size : write_zeros(files, fd, (uint64_t)size, c->bytes);
    if (rc && size >= 0) files->truncate(files->ctx, fd, (uint64_t)size);
    files->close(files->ctx, fd);
    return rc;
}

int raftlog_chore_run(const struct file_ops *files, const struct raftlog_chore *c)
{
    int rc = 0;
    switch (c->kind) {
    case RAFTLOG_MAKE: return make_segment(files, c);
    case RAFTLOG_GROW: return grow_segment(files, c);
    case RAFTLOG_DROP: return files->unlink(files->ctx, c->path);
    case RAFTLOG_REUSE:
        rc = files->rename(files->ctx, c->from, c->path);
        return rc ? rc : files->sync_dir(files->ctx, c->dir);
    }
    return -EINVAL;
}

/* --- numbers --- */

void raftlog_info(const struct raftlog *l, struct raftlog_info *info)
{
    *info = l->info;
    info->segments = l->segs.live.n;
    info->ready = l->segs.ready.n;
    info->spare = l->segs.spare.n;
    info->segment_bytes = 0;
    for (uint32_t i = 0; i < l->segs.live.n; i++) info->segment_bytes += l->segs.live.v[i].bytes;
}

void raftlog_check(const struct raftlog *l)
{
    const struct raftsegs_file *current = raftsegs_current(&l->segs);
    raftindex_check(&l->index);
    CHECK(!current || current->used <= current->bytes);
    CHECK(l->index.batch == l->open_batch && l->open_batch == (l->flight.on ? l->flight.batch : l->durable) + 1);
    for (uint32_t i = 0; i < l->segs.ready.n; i++) CHECK(i == 0 || l->segs.ready.v[i].number == l->segs.ready.v[0].number + i);
    CHECK(!current || l->segs.ready.n == 0 || l->segs.ready.v[0].number == current->number + 1);
}
