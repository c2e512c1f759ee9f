#include "cluster/snapfetch.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"
#include "cluster/wiresnap.h"
#include "io/file.h"

enum { TRANSFERS_MAX = 2, WINDOW_BYTES = 4 << 20, RETRY_MS = 2000, GIVE_UP_MS = 60 * 1000, RESTARTS_MAX = 2 };

struct transfer {
    struct transfer *next;
    enum snapfetch_state state;
    uint64_t from;
    struct groupdir_file part;        /* the offer, as the partial file's name has it */
    int fd;                           /* of the partial file; -1: not open */
    uint64_t have, asked;             /* bytes in the file; asked for up to here */
    uint64_t lost_at;                 /* what was behind `have` then did not come in order and was asked for again; UINT64_MAX: nothing */
    uint64_t heard_ms, asked_ms;
    uint32_t restarts;
    struct groupsnap_reader *reader;  /* while verifying */
    bool has_name;                    /* the whole file was there already: it is only verified */
    int rc;                           /* when it has ended */
};

struct snapfetch {
    struct snapfetch_options o;
    struct transfer *all; /* in the order in which they came */
    uint64_t now;
    struct buf frame, why;
};

static void note_time(struct snapfetch *f, uint64_t now)
{
    if (now > f->now) f->now = now;
}

static struct transfer *find(const struct snapfetch *f, uint32_t group)
{
    struct transfer *t = f->all;
    while (t && t->part.group != group) t = t->next;
    return t;
}

/* ---- files */

static int path_of(const struct snapfetch *f, const struct transfer *t, enum groupdir_kind kind, char path[GROUPDIR_PATH_MAX])
{
    struct groupdir_file file = t->part;
    file.kind = kind;
    return groupdir_path(path, f->o.dir, &file);
}

static void close_files(struct snapfetch *f, struct transfer *t)
{
    groupsnap_close(t->reader);
    t->reader = NULL;
    if (t->fd >= 0) f->o.files->close(f->o.files->ctx, t->fd);
    t->fd = -1;
}

static void drop_part(struct snapfetch *f, const struct transfer *t)
{
    char path[GROUPDIR_PATH_MAX];
    if (path_of(f, t, GROUPDIR_PART, path) == 0) f->o.files->unlink(f->o.files->ctx, path);
}

/* ---- ending */

static void tell_peer(struct snapfetch *f, const struct transfer *t, enum wiresnap_status status)
{
    f->frame.len = 0;
    wiresnap_add_done(&f->frame, t->part.group, &(struct wiresnap_done){.id = t->part.checksum, .status = status});
    f->o.send(f->o.ctx, t->from, buf_slice(&f->frame));
}

/* What came is kept where the same bytes may go on coming: it is the peer that did not give them. */
static bool is_peers_fault(int rc) { return rc == -ETIMEDOUT || rc == -ENOENT || rc == -EREMOTEIO; }

static void end(struct snapfetch *f, struct transfer *t, int rc)
{
    CHECK(t->state != SNAPFETCH_ENDED);
    close_files(f, t);
    if (rc && !is_peers_fault(rc)) drop_part(f, t);
    if (t->state != SNAPFETCH_WAITING) tell_peer(f, t, rc ? WIRESNAP_FAILED : WIRESNAP_COMPLETE);
    t->state = SNAPFETCH_ENDED;
    t->rc = rc;
}

static void forget(struct snapfetch *f, struct transfer *t)
{
    struct transfer **at = &f->all;
    while (*at != t) at = &(*at)->next;
    *at = t->next;
    close_files(f, t);
    mem_free(t);
}

/* ---- asking */

static void ask(struct snapfetch *f, struct transfer *t)
{
    uint64_t left = t->part.bytes - t->asked, room = f->o.window_bytes - (t->asked - t->have), n = left < room ? left : room;
    if (n == 0 || (n < WIRESNAP_CHUNK_MAX && n < left && t->asked > t->have)) return; /* rather a whole chunk later */
    f->frame.len = 0;
    wiresnap_add_want(&f->frame, t->part.group, &(struct wiresnap_want){.id = t->part.checksum, .offset = t->asked, .bytes = (uint32_t)n});
    t->asked += n;
    t->asked_ms = f->now;
    f->o.send(f->o.ctx, t->from, buf_slice(&f->frame));
}

static void ask_again(struct snapfetch *f, struct transfer *t)
{
    t->asked = t->have;
    ask(f, t);
}

/* ---- beginning */

static void fetch(struct snapfetch *f, struct transfer *t)
{
    t->state = t->have == t->part.bytes ? SNAPFETCH_VERIFYING : SNAPFETCH_FETCHING;
    t->heard_ms = f->now;
    t->lost_at = UINT64_MAX;
    if (t->state == SNAPFETCH_FETCHING) ask_again(f, t);
}

/* The file may be there under its name: a crash came between that and whoever was to be told. */
static bool is_there(struct snapfetch *f, struct transfer *t)
{
    char path[GROUPDIR_PATH_MAX];
    f->why.len = 0;
    if (path_of(f, t, GROUPDIR_SNAPSHOT, path) || groupsnap_open(&t->reader, f->o.files, path, &f->why)) return false;
    struct groupsnap_totals totals = groupsnap_totals(t->reader);
    if (totals.checksum == t->part.checksum && totals.file_bytes == t->part.bytes) return true;
    close_files(f, t);
    return false;
}

static int open_part(struct snapfetch *f, struct transfer *t)
{
    char path[GROUPDIR_PATH_MAX];
    const struct file_ops *files = f->o.files;
    int rc = path_of(f, t, GROUPDIR_PART, path);
    if (rc) return rc;
    t->fd = files->open(files->ctx, path, FILE_CHANGE);
    if (t->fd == -ENOENT) t->fd = files->open(files->ctx, path, FILE_CREATE);
    int64_t size = t->fd < 0 ? t->fd : files->size(files->ctx, t->fd);
    if (size < 0) return (int)size;
    t->have = (uint64_t)size;
    if (t->have <= t->part.bytes) return 0;
    t->have = 0;
    return files->truncate(files->ctx, t->fd, 0);
}

static void begin(struct snapfetch *f, struct transfer *t)
{
    if (is_there(f, t)) {
        t->has_name = true;
        t->state = SNAPFETCH_VERIFYING;
        return;
    }
    groupdir_drop_parts(f->o.files, f->o.dir, t->part.group, &t->part); /* best effort: they only take room */
    int rc = open_part(f, t);
    if (rc) end(f, t, rc);
    else fetch(f, t);
}

static int read_offer(struct slice descriptor, struct groupdir_file *part)
{
    struct wire_frame frame;
    struct wiresnap_offer offer;
    struct groupdir_file named;
    char name[GROUPDIR_NAME_MAX] = "";
    const char *why;
    if (wire_frame(descriptor, &frame, &why) != WIRE_OK || frame.whole.n != descriptor.n || wiresnap_get_offer(&frame, &offer)) return -EBADMSG;
    if (offer.name.n >= sizeof name || offer.bytes == 0 || offer.id != offer.checksum) return -EBADMSG;
    memcpy(name, offer.name.p, offer.name.n);
    if (!groupdir_parse(name, &named) || named.kind != GROUPDIR_SNAPSHOT) return -EBADMSG;
    if (named.group != frame.group || named.index != offer.index || named.term != offer.term) return -EBADMSG;
    *part = (struct groupdir_file){.kind = GROUPDIR_PART, .group = frame.group, .index = offer.index, .term = offer.term, .checksum = offer.checksum, .bytes = offer.bytes};
    return 0;
}

static bool is_same(const struct groupdir_file *a, const struct groupdir_file *b)
{
    return a->group == b->group && a->index == b->index && a->term == b->term && a->checksum == b->checksum && a->bytes == b->bytes;
}

int snapfetch_start(struct snapfetch *f, uint64_t from, uint32_t group, uint64_t index, uint64_t term, struct slice descriptor, uint64_t now)
{
    struct groupdir_file part;
    note_time(f, now);
    if (read_offer(descriptor, &part) || part.group != group || part.index != index || part.term != term) return -EBADMSG;
    struct transfer *t = find(f, group);
    if (t && is_same(&t->part, &part) && t->state != SNAPFETCH_ENDED) {
        t->from = from;
        if (t->state == SNAPFETCH_FETCHING) fetch(f, t);
        return 0;
    }
    snapfetch_cancel(f, group);
    t = mem_zalloc(sizeof *t);
    *t = (struct transfer){.from = from, .part = part, .fd = -1, .lost_at = UINT64_MAX};
    struct transfer **at = &f->all;
    while (*at) at = &(*at)->next;
    *at = t;
    return 0;
}

void snapfetch_cancel(struct snapfetch *f, uint32_t group)
{
    struct transfer *t = find(f, group);
    if (!t) return;
    if (t->state != SNAPFETCH_ENDED) end(f, t, -ECANCELED);
    forget(f, t);
}

/* ---- what peers say */

static int receive_chunk(struct snapfetch *f, struct transfer *t, const struct wiresnap_chunk *c)
{
    if (c->offset > t->part.bytes || c->data.n > t->part.bytes - c->offset) return -EBADMSG;
    if (c->offset > t->have && t->lost_at != t->have) {
        t->lost_at = t->have;
        ask_again(f, t);
    }
    if (c->offset != t->have) return 0; /* asked for twice, or too early */
    int rc = file_write_all(f->o.files, t->fd, c->data, t->have);
    if (rc) {
        end(f, t, rc);
        return 0;
    }
    t->have += c->data.n;
    if (t->asked < t->have) t->asked = t->have;
    t->heard_ms = t->asked_ms = f->now;
    if (t->have == t->part.bytes) t->state = SNAPFETCH_VERIFYING;
    else ask(f, t);
    return 0;
}

static void receive_done(struct snapfetch *f, struct transfer *t, enum wiresnap_status status)
{
    if (status == WIRESNAP_GONE) end(f, t, -ENOENT);
    else if (status == WIRESNAP_FAILED) end(f, t, -EREMOTEIO);
}

int snapfetch_receive(struct snapfetch *f, uint64_t from, const struct wire_frame *frame, uint64_t now)
{
    struct transfer *t = find(f, frame->group);
    struct wiresnap_chunk chunk;
    struct wiresnap_done done;
    bool is_chunk = frame->type == WIRE_SNAP_CHUNK;
    note_time(f, now);
    if (is_chunk ? wiresnap_get_chunk(frame, &chunk) : wiresnap_get_done(frame, &done)) return -EBADMSG;
    bool is_ours = t && t->state == SNAPFETCH_FETCHING && t->from == from && t->part.checksum == (is_chunk ? chunk.id : done.id);
    if (!is_ours) return 0; /* of a transfer that has ended, or was given up */
    if (is_chunk) return receive_chunk(f, t, &chunk);
    receive_done(f, t, done.status);
    return 0;
}

void snapfetch_peer_up(struct snapfetch *f, uint64_t peer, uint64_t now)
{
    note_time(f, now);
    for (struct transfer *t = f->all; t; t = t->next)
        if (t->from == peer && t->state == SNAPFETCH_FETCHING) ask_again(f, t);
}

/* ---- verifying */

static int open_reader(struct snapfetch *f, struct transfer *t)
{
    char path[GROUPDIR_PATH_MAX];
    int rc = path_of(f, t, GROUPDIR_PART, path);
    if (rc == 0 && !t->reader) rc = groupsnap_open(&t->reader, f->o.files, path, &f->why);
    return rc;
}

static int compare_with_offer(struct snapfetch *f, struct transfer *t)
{
    struct groupsnap_totals totals = groupsnap_totals(t->reader);
    if (totals.checksum != t->part.checksum || totals.file_bytes != t->part.bytes) return -EINVAL;
    return groupsnap_compare(t->reader, &t->part, f->o.cluster, &f->why);
}

/* 1: there is more; 0: the file is what was offered, to its end. */
static int verify_block(struct snapfetch *f, struct transfer *t)
{
    struct slice raw;
    f->why.len = 0;
    int rc = open_reader(f, t);
    if (rc == 0) rc = compare_with_offer(f, t);
    return rc ? rc : groupsnap_next(t->reader, &raw, &f->why);
}

static int give_name(struct snapfetch *f, struct transfer *t)
{
    char from[GROUPDIR_PATH_MAX], to[GROUPDIR_PATH_MAX];
    const struct file_ops *files = f->o.files;
    if (t->has_name) return files->sync_dir(files->ctx, f->o.dir);
    int rc = files->sync(files->ctx, &t->fd, 1);
    if (rc == 0) rc = path_of(f, t, GROUPDIR_PART, from);
    if (rc == 0) rc = path_of(f, t, GROUPDIR_SNAPSHOT, to);
    if (rc == 0) rc = files->rename(files->ctx, from, to);
    return rc ? rc : files->sync_dir(files->ctx, f->o.dir);
}

/* Wrong bytes: from the first one on again, a few times. Of a file that was here under its name they are the disk's fault, and count like any others. */
static void start_over(struct snapfetch *f, struct transfer *t)
{
    close_files(f, t);
    t->has_name = false;
    t->have = 0;
    if (t->restarts++ == f->o.restarts_max) {
        end(f, t, -EBADMSG);
        return;
    }
    int rc = open_part(f, t);
    if (rc == 0) rc = f->o.files->truncate(f->o.files->ctx, t->fd, 0);
    t->have = 0;
    if (rc) end(f, t, rc);
    else fetch(f, t);
}

static void verify(struct snapfetch *f, struct transfer *t)
{
    int rc = verify_block(f, t);
    if (rc == 1) return;
    if (rc == -EINVAL) start_over(f, t);
    else end(f, t, rc ? rc : give_name(f, t));
}

/* ---- the turn */

static void look_at_time(struct snapfetch *f, struct transfer *t)
{
    if (f->now - t->heard_ms >= f->o.give_up_ms) end(f, t, -ETIMEDOUT);
    else if (f->now - t->asked_ms >= f->o.retry_ms) ask_again(f, t);
}

static void tell_ended(struct snapfetch *f)
{
    for (struct transfer *t = f->all, *next; t; t = next) {
        next = t->next;
        if (t->state != SNAPFETCH_ENDED) continue;
        struct groupdir_file part = t->part;
        int rc = t->rc;
        forget(f, t);
        f->o.done(f->o.ctx, part.group, part.index, part.term, rc);
        return; /* the call may have changed the list */
    }
}

static uint32_t under_way(const struct snapfetch *f)
{
    uint32_t n = 0;
    for (const struct transfer *t = f->all; t; t = t->next) n += t->state == SNAPFETCH_FETCHING || t->state == SNAPFETCH_VERIFYING;
    return n;
}

static bool is_busy(const struct snapfetch *f)
{
    bool has_room = under_way(f) < f->o.transfers_max;
    for (const struct transfer *t = f->all; t; t = t->next)
        if (t->state == SNAPFETCH_VERIFYING || t->state == SNAPFETCH_ENDED || (t->state == SNAPFETCH_WAITING && has_room)) return true;
    return false;
}

bool snapfetch_step(struct snapfetch *f, uint64_t now)
{
    note_time(f, now);
    for (struct transfer *t = f->all; t; t = t->next) {
        if (t->state == SNAPFETCH_WAITING && under_way(f) < f->o.transfers_max) begin(f, t);
        else if (t->state == SNAPFETCH_FETCHING) look_at_time(f, t);
        else if (t->state == SNAPFETCH_VERIFYING) verify(f, t);
    }
    tell_ended(f);
    return is_busy(f);
}

uint64_t snapfetch_next(const struct snapfetch *f)
{
    uint64_t first = UINT64_MAX;
    if (is_busy(f)) return f->now;
    for (const struct transfer *t = f->all; t; t = t->next) {
        if (t->state != SNAPFETCH_FETCHING) continue;
        uint64_t retry = t->asked_ms + f->o.retry_ms, give_up = t->heard_ms + f->o.give_up_ms, at = retry < give_up ? retry : give_up;
        if (at < first) first = at;
    }
    return first;
}

/* ---- life */

struct snapfetch *snapfetch_new(const struct snapfetch_options *options)
{
    struct snapfetch *f = mem_zalloc(sizeof *f);
    f->o = *options;
    f->o.dir = mem_strdup(options->dir);
    f->now = options->now;
    if (!f->o.transfers_max) f->o.transfers_max = TRANSFERS_MAX;
    if (!f->o.window_bytes) f->o.window_bytes = WINDOW_BYTES;
    if (!f->o.retry_ms) f->o.retry_ms = RETRY_MS;
    if (!f->o.give_up_ms) f->o.give_up_ms = GIVE_UP_MS;
    if (!f->o.restarts_max) f->o.restarts_max = RESTARTS_MAX;
    return f;
}

void snapfetch_free(struct snapfetch *f)
{
    while (f->all) forget(f, f->all);
    buf_fini(&f->frame);
    buf_fini(&f->why);
    mem_free((char *)f->o.dir);
    mem_free(f);
}

bool snapfetch_look(const struct snapfetch *f, uint32_t group, struct snapfetch_info *out)
{
    const struct transfer *t = find(f, group);
    if (!t) return false;
    *out = (struct snapfetch_info){.state = t->state, .from = t->from, .index = t->part.index, .term = t->part.term, .have = t->have, .bytes = t->part.bytes, .restarts = t->restarts};
    return true;
}

void snapfetch_check(const struct snapfetch *f)
{
    CHECK(under_way(f) <= f->o.transfers_max);
    for (const struct transfer *t = f->all; t; t = t->next) {
        CHECK(find(f, t->part.group) == t); /* one per group */
        CHECK(t->have <= t->part.bytes && t->restarts <= f->o.restarts_max + 1);
        if (t->state == SNAPFETCH_FETCHING) CHECK(t->fd >= 0 && t->have < t->part.bytes && t->asked >= t->have && t->asked - t->have <= f->o.window_bytes && t->asked <= t->part.bytes);
        if (t->state == SNAPFETCH_WAITING || t->state == SNAPFETCH_ENDED) CHECK(t->fd < 0 && !t->reader);
    }
}
