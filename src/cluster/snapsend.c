#include "cluster/snapsend.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"
#include "cluster/wiresnap.h"
#include "io/file.h"

enum {
    STREAMS_MAX = 8,
    IDLE_MS = 30 * 1000,
    ASKED_MAX = 16 << 20, /* of one stream: what a receiver asks for beyond is not remembered */
    BURST_MS = 100,       /* budget that was not used is kept for so long */
};

struct offer {
    struct offer *next;
    struct groupdir_file file;
    uint64_t bytes, checksum;
};

struct stream {
    uint64_t peer;
    const struct offer *offer;
    int fd;           /* -1: not opened yet */
    uint64_t at, end; /* is to be sent */
    uint64_t asked_ms;
};

struct snapsend {
    struct snapsend_options o;
    struct offer *offers;
    struct stream *streams; /* [streams_max] */
    uint32_t n, turn;       /* turn: the stream that comes next */
    int64_t budget;         /* bytes; negative: a debt of time */
    uint64_t budget_ms, now;
    uint64_t sent_bytes;
    struct buf piece, frame;
};

/* ---- offers */

void snapsend_add_offer(struct buf *out, const struct groupdir_file *f, const struct groupsnap_totals *t)
{
    char name[GROUPDIR_NAME_MAX];
    CHECK(f->kind == GROUPDIR_SNAPSHOT);
    groupdir_name(name, f);
    wiresnap_add_offer(out, f->group, &(struct wiresnap_offer){.id = t->checksum, .index = f->index, .term = f->term, .bytes = t->file_bytes, .checksum = t->checksum, .name = slice_str(name)});
}

static const struct offer *find_offer(const struct snapsend *s, uint32_t group, uint64_t id)
{
    const struct offer *o = s->offers;
    while (o && !(o->file.group == group && o->checksum == id)) o = o->next;
    return o;
}

void snapsend_put(struct snapsend *s, const struct groupdir_file *f, const struct groupsnap_totals *t)
{
    CHECK(f->kind == GROUPDIR_SNAPSHOT && t->file_bytes > 0);
    if (find_offer(s, f->group, t->checksum)) return;
    struct offer *o = mem_zalloc(sizeof *o);
    *o = (struct offer){.next = s->offers, .file = *f, .bytes = t->file_bytes, .checksum = t->checksum};
    s->offers = o;
}

/* ---- streams */

static void end_stream(struct snapsend *s, uint32_t i)
{
    if (s->streams[i].fd >= 0) s->o.files->close(s->o.files->ctx, s->streams[i].fd);
    s->streams[i] = s->streams[--s->n];
}

static void tell(struct snapsend *s, uint64_t peer, uint32_t group, uint64_t id, enum wiresnap_status status)
{
    s->frame.len = 0;
    wiresnap_add_done(&s->frame, group, &(struct wiresnap_done){.id = id, .status = status});
    s->o.send(s->o.ctx, peer, buf_slice(&s->frame));
}

static void give_up(struct snapsend *s, uint32_t i, enum wiresnap_status status)
{
    struct stream *t = &s->streams[i];
    tell(s, t->peer, t->offer->file.group, t->offer->checksum, status);
    end_stream(s, i);
}

static bool is_before(const struct offer *o, uint32_t group, uint64_t index) { return o->file.group == group && (o->file.index < index || index == UINT64_MAX); }

void snapsend_drop_before(struct snapsend *s, uint32_t group, uint64_t index)
{
    for (uint32_t i = s->n; i-- > 0;)
        if (is_before(s->streams[i].offer, group, index)) give_up(s, i, WIRESNAP_GONE);
    for (struct offer **at = &s->offers, *o; (o = *at);) {
        if (is_before(o, group, index)) {
            *at = o->next;
            mem_free(o);
        } else {
            at = &o->next;
        }
    }
}

bool snapsend_is_wanted_before(const struct snapsend *s, uint32_t group, uint64_t index)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (is_before(s->streams[i].offer, group, index)) return true;
    return false;
}

void snapsend_peer_down(struct snapsend *s, uint64_t peer)
{
    for (uint32_t i = s->n; i-- > 0;)
        if (s->streams[i].peer == peer) end_stream(s, i);
}

static void forget_idle(struct snapsend *s)
{
    for (uint32_t i = s->n; i-- > 0;)
        if (s->now - s->streams[i].asked_ms >= s->o.idle_ms) end_stream(s, i);
}

/* ---- what peers say */

static void note_time(struct snapsend *s, uint64_t now)
{
    if (now > s->now) s->now = now;
}

static struct stream *find_stream(struct snapsend *s, uint64_t peer, const struct offer *o)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->streams[i].peer == peer && s->streams[i].offer == o) return &s->streams[i];
    return NULL;
}

/* The next bytes in order are added to what was asked for; an offset of its own means that something was lost, and takes its place. */
static void ask(struct stream *t, const struct wiresnap_want *want)
{
    uint64_t most = t->offer->bytes - want->offset;
    if (t->at == t->end || want->offset != t->end) t->at = want->offset;
    t->end = want->offset + (want->bytes < most ? want->bytes : most);
    if (t->end - t->at > ASKED_MAX) t->end = t->at + ASKED_MAX;
}

static int receive_want(struct snapsend *s, uint64_t from, uint32_t group, const struct wiresnap_want *want)
{
    const struct offer *o = find_offer(s, group, want->id);
    if (!o) {
        tell(s, from, group, want->id, WIRESNAP_GONE);
        return 0;
    }
    if (want->offset >= o->bytes) return -EBADMSG;
    struct stream *t = find_stream(s, from, o);
    if (!t) {
        forget_idle(s);
        if (s->n == s->o.streams_max) return 0;
        t = &s->streams[s->n++];
        *t = (struct stream){.peer = from, .offer = o, .fd = -1};
    }
    t->asked_ms = s->now;
    ask(t, want);
    return 0;
}

int snapsend_receive(struct snapsend *s, uint64_t from, const struct wire_frame *f, uint64_t now)
{
    struct wiresnap_want want;
    struct wiresnap_done done;
    note_time(s, now);
    if (f->type == WIRE_SNAP_WANT) return wiresnap_get_want(f, &want) ? -EBADMSG : receive_want(s, from, f->group, &want);
    if (wiresnap_get_done(f, &done)) return -EBADMSG;
    const struct offer *o = find_offer(s, f->group, done.id);
    struct stream *t = o ? find_stream(s, from, o) : NULL;
    if (t) end_stream(s, (uint32_t)(t - s->streams));
    return 0;
}

/* ---- the budget */

static void earn(struct snapsend *s)
{
    int64_t most = (int64_t)(s->o.bytes_per_s / 1000 * BURST_MS);
    uint64_t ms = s->now - s->budget_ms;
    if (ms > 60 * 1000) ms = 60 * 1000;
    int64_t earned = (int64_t)(s->o.bytes_per_s * ms / 1000);
    if (earned == 0) return;
    s->budget += earned;
    if (s->budget > most) s->budget = most;
    s->budget_ms = s->now;
}

static bool is_broke(struct snapsend *s)
{
    if (s->o.bytes_per_s == 0) return false;
    earn(s);
    return s->budget < 0;
}

/* ---- sending */

static bool is_asked_for(const struct snapsend *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->streams[i].at < s->streams[i].end) return true;
    return false;
}

/* Gives the bytes that are in s->piece now, or -errno. */
static ssize_t read_piece(struct snapsend *s, struct stream *t)
{
    char path[GROUPDIR_PATH_MAX];
    const struct file_ops *files = s->o.files;
    size_t want = t->end - t->at < s->o.chunk_bytes ? (size_t)(t->end - t->at) : s->o.chunk_bytes;
    if (t->fd < 0) {
        int rc = groupdir_path(path, s->o.dir, &t->offer->file);
        if (rc == 0) rc = files->open(files->ctx, path, FILE_READ);
        if (rc < 0) return rc;
        t->fd = rc;
    }
    s->piece.len = 0;
    ssize_t n = files->read(files->ctx, t->fd, buf_room(&s->piece, want), want, t->at);
    if (n > 0) s->piece.len = (size_t)n;
    return n ? n : -ENOENT; /* shorter than what was offered: it is not that file any more */
}

static void send_piece(struct snapsend *s, uint32_t i)
{
    struct stream *t = &s->streams[i];
    ssize_t n = read_piece(s, t);
    if (n < 0) {
        give_up(s, i, n == -ENOENT ? WIRESNAP_GONE : WIRESNAP_FAILED);
        return;
    }
    s->frame.len = 0;
    wiresnap_add_chunk(&s->frame, t->offer->file.group, &(struct wiresnap_chunk){.id = t->offer->checksum, .offset = t->at, .data = buf_slice(&s->piece)});
    t->at += (size_t)n;
    s->sent_bytes += (size_t)n;
    if (s->o.bytes_per_s) s->budget -= n;
    s->o.send(s->o.ctx, t->peer, buf_slice(&s->frame));
}

bool snapsend_step(struct snapsend *s, uint64_t now)
{
    note_time(s, now);
    forget_idle(s);
    if (!is_asked_for(s) || is_broke(s)) return false;
    uint32_t i = s->turn % s->n;
    while (s->streams[i].at == s->streams[i].end) i = (i + 1) % s->n;
    s->turn = i + 1;
    send_piece(s, i);
    return is_asked_for(s) && !is_broke(s);
}

uint64_t snapsend_next(const struct snapsend *s)
{
    if (!is_asked_for(s)) return UINT64_MAX;
    if (s->o.bytes_per_s == 0 || s->budget >= 0) return s->now;
    return s->budget_ms + ((uint64_t)-s->budget * 1000 + s->o.bytes_per_s - 1) / s->o.bytes_per_s;
}

/* ---- life */

struct snapsend *snapsend_new(const struct snapsend_options *options)
{
    struct snapsend *s = mem_zalloc(sizeof *s);
    s->o = *options;
    s->o.dir = mem_strdup(options->dir);
    if (!s->o.streams_max) s->o.streams_max = STREAMS_MAX;
    if (!s->o.idle_ms) s->o.idle_ms = IDLE_MS;
    if (!s->o.chunk_bytes || s->o.chunk_bytes > WIRESNAP_CHUNK_MAX) s->o.chunk_bytes = WIRESNAP_CHUNK_MAX;
    s->now = s->budget_ms = options->now;
    s->streams = mem_zalloc(s->o.streams_max * sizeof *s->streams);
    return s;
}

void snapsend_free(struct snapsend *s)
{
    while (s->n) end_stream(s, 0);
    for (struct offer *o = s->offers, *next; o; o = next) {
        next = o->next;
        mem_free(o);
    }
    buf_fini(&s->piece);
    buf_fini(&s->frame);
    mem_free(s->streams);
    mem_free((char *)s->o.dir);
    mem_free(s);
}

uint32_t snapsend_streams(const struct snapsend *s) { return s->n; }
uint64_t snapsend_sent_bytes(const struct snapsend *s) { return s->sent_bytes; }

void snapsend_check(const struct snapsend *s)
{
    CHECK(s->n <= s->o.streams_max && s->budget_ms <= s->now);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct stream *t = &s->streams[i];
        CHECK(find_offer(s, t->offer->file.group, t->offer->checksum) == t->offer);
        CHECK(t->at <= t->end && t->end <= t->offer->bytes && t->end - t->at <= ASKED_MAX && t->asked_ms <= s->now);
        for (uint32_t k = 0; k < i; k++) CHECK(s->streams[k].peer != t->peer || s->streams[k].offer != t->offer);
    }
}
