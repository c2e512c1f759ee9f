/* A message on its way:
 *
 *     REQUEST, ANSWER  u64 id, u32 number of the piece (from 0), bytes of the message; the flag WIRE_MORE is set on every piece but the last
 *
 * A whole message is the first piece's body with the bytes of the others behind it:
 *
 *     REQUEST  u64 id, u32 zero, u64 session, u64 map, u32 flags, u32 time-out in ms, u32 database, u8 protocol of the answer,
 *              u32 argc, argc times {u32 length, bytes}
 *     ANSWER   u64 id, u32 zero, u8 status, u64 leader, reply to the end */
#include "cluster/wirecall.h"

#include "base/mem.h"
#include "cluster/wirefield.h"

enum { PIECE_HEAD = 12 };

/* ---- writing */

static size_t begin(struct buf *out, enum wire_type type, uint8_t flags, uint32_t group, uint64_t id, uint32_t piece)
{
    size_t frame = wire_begin(out, type, flags, group);
    le_add_u64(out, id);
    le_add_u32(out, piece);
    return frame;
}

/* Ends a message that was written as if it fitted in one piece: if it does not, it is cut. */
static void end(struct buf *out, size_t frame, enum wire_type type, uint32_t group, uint64_t id)
{
    size_t head = WIRE_HEAD + PIECE_HEAD, n = out->len - frame - head;
    if (n <= WIRECALL_PIECE) {
        wire_end(out, frame);
        return;
    }
    char *bytes = mem_dup(out->p + frame + head, n);
    out->len = frame;
    size_t at = 0;
    for (uint32_t piece = 0; at < n; piece++) {
        size_t part = n - at < WIRECALL_PIECE ? n - at : WIRECALL_PIECE;
        size_t f = begin(out, type, at + part < n ? WIRE_MORE : 0, group, id, piece);
        buf_add(out, bytes + at, part);
        wire_end(out, f);
        at += part;
    }
    mem_free(bytes);
}

void wirecall_add_request(struct buf *out, uint32_t group, const struct wirecall_request *r, const struct slice *argv)
{
    CHECK(r->argc && r->argc <= WIRECALL_ARGS_MAX && (r->resp == 2 || r->resp == 3));
    size_t frame = begin(out, WIRE_REQUEST, 0, group, r->id, 0);
    le_add_u64(out, r->session);
    le_add_u64(out, r->map);
    le_add_u32(out, r->flags);
    le_add_u32(out, r->timeout_ms);
    le_add_u32(out, r->db);
    wirefield_add_u8(out, r->resp);
    le_add_u32(out, r->argc);
    for (uint32_t i = 0; i < r->argc; i++) {
        CHECK(argv[i].n <= UINT32_MAX);
        le_add_u32(out, (uint32_t)argv[i].n);
        buf_add_slice(out, argv[i]);
    }
    end(out, frame, WIRE_REQUEST, group, r->id);
}

void wirecall_add_answer(struct buf *out, uint32_t group, const struct wirecall_answer *a)
{
    size_t frame = begin(out, WIRE_ANSWER, 0, group, a->id, 0);
    wirefield_add_u8(out, (uint8_t)a->status);
    le_add_u64(out, a->leader);
    buf_add_slice(out, a->reply);
    end(out, frame, WIRE_ANSWER, group, a->id);
}

/* ---- joining */

/* A message of which pieces are missing. */
struct partial {
    struct partial *next;
    enum wire_type type;
    uint64_t id;
    uint32_t pieces; /* that are here */
    struct buf bytes;
};

struct wirecall_joiner {
    size_t max_bytes, held_bytes; /* of partials */
    struct partial *partials;     /* few: a message stays only while its pieces arrive one behind the other */
    struct buf whole;             /* what the last call gave */
};

struct wirecall_joiner *wirecall_joiner_new(size_t max_bytes)
{
    struct wirecall_joiner *j = mem_zalloc(sizeof *j);
    j->max_bytes = max_bytes;
    return j;
}

static struct partial **find(struct wirecall_joiner *j, enum wire_type type, uint64_t id)
{
    struct partial **at = &j->partials;
    while (*at && ((*at)->type != type || (*at)->id != id)) at = &(*at)->next;
    return at;
}

static void forget(struct wirecall_joiner *j, struct partial **at)
{
    struct partial *p = *at;
    *at = p->next;
    j->held_bytes -= p->bytes.len;
    buf_fini(&p->bytes);
    mem_free(p);
}

void wirecall_joiner_free(struct wirecall_joiner *j)
{
    if (!j) return;
    while (j->partials) forget(j, &j->partials);
    buf_fini(&j->whole);
    mem_free(j);
}

size_t wirecall_joiner_bytes(const struct wirecall_joiner *j) { return j->held_bytes; }

static struct partial **add_partial(struct wirecall_joiner *j, enum wire_type type, uint64_t id)
{
    struct partial *p = mem_zalloc(sizeof *p);
    p->type = type;
    p->id = id;
    p->next = j->partials;
    j->partials = p;
    return &j->partials;
}

/* The last piece is here: hands the bytes over. */
static struct slice complete(struct wirecall_joiner *j, struct partial **at)
{
    struct buf old = j->whole;
    j->held_bytes -= (*at)->bytes.len;
    j->whole = (*at)->bytes;
    (*at)->bytes = (struct buf){0};
    forget(j, at);
    buf_fini(&old);
    return buf_slice(&j->whole);
}

enum wire_result wirecall_join(struct wirecall_joiner *j, const struct wire_frame *f, struct slice *message)
{
    struct wirefield r = {f->body, f->type != WIRE_REQUEST && f->type != WIRE_ANSWER};
    uint64_t id = wirefield_u64(&r);
    uint32_t piece = wirefield_u32(&r);
    bool more = f->flags & WIRE_MORE;
    if (r.bad || r.rest.n > WIRECALL_PIECE || (more && !r.rest.n)) return WIRE_BAD;
    struct partial **at = find(j, f->type, id);
    /* A piece that does not follow the one before: frames between them were lost, and with them the message. */
    if (*at && (*at)->pieces != piece) {
        forget(j, at);
        at = find(j, f->type, id);
    }
    if (piece == 0 && !more) {
        *message = f->body;
        return WIRE_OK;
    }
    if (piece == 0) at = add_partial(j, f->type, id);
    if (!*at) return WIRE_NEED_MORE;
    struct slice part = piece == 0 ? f->body : r.rest;
    if (part.n > j->max_bytes - j->held_bytes) {
        forget(j, at);
        return WIRE_NEED_MORE;
    }
    buf_add_slice(&(*at)->bytes, part);
    j->held_bytes += part.n;
    (*at)->pieces++;
    if (more) return WIRE_NEED_MORE;
    *message = complete(j, at);
    return WIRE_OK;
}

/* ---- reading */

int wirecall_get_request(struct slice message, struct wirecall_request *q, struct slice **argv, uint32_t *argv_room)
{
    struct wirefield r = {message, false};
    q->id = wirefield_u64(&r);
    wirefield_expect(&r, wirefield_u32(&r) == 0);
    q->session = wirefield_u64(&r);
    q->map = wirefield_u64(&r);
    q->flags = wirefield_u32(&r);
    q->timeout_ms = wirefield_u32(&r);
    q->db = wirefield_u32(&r);
    q->resp = wirefield_u8(&r);
    q->argc = wirefield_u32(&r);
    wirefield_expect(&r, q->argc && q->argc <= WIRECALL_ARGS_MAX && q->argc <= r.rest.n / 4 && (q->resp == 2 || q->resp == 3));
    if (r.bad) return -EBADMSG;
    if (*argv_room < q->argc) {
        *argv = mem_resize(*argv, q->argc * sizeof **argv);
        *argv_room = q->argc;
    }
    for (uint32_t i = 0; i < q->argc; i++) (*argv)[i] = wirefield_bytes(&r, wirefield_u32(&r));
    return wirefield_end(&r);
}

int wirecall_get_answer(struct slice message, struct wirecall_answer *a)
{
    struct wirefield r = {message, false};
    a->id = wirefield_u64(&r);
    wirefield_expect(&r, wirefield_u32(&r) == 0);
    a->status = wirefield_choice(&r, WIRECALL_BUSY + 1);
    a->leader = wirefield_u64(&r);
    a->reply = r.rest;
    return r.bad ? -EBADMSG : 0;
}
