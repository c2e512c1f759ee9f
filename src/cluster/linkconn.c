#include "cluster/linkconn.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    IN_KEPT_MAX = 1024 * 1024,     /* a larger buffer is not kept for the next frame */
    ANSWERS_UNSENT_MAX = 64 * 1024, /* PONGs that a peer does not read */
};

struct linkconn *linkconn_open(struct links *l, int fd, enum links_way way, struct linkpeer *peer)
{
    struct linkconn *c = mem_zalloc(sizeof *c);
    c->links = l;
    c->way = way;
    c->peer = peer;
    c->heard_ms = l->awake_ms;
    c->next = l->conns;
    c->place = &l->conns;
    if (c->next) c->next->place = &c->next;
    l->conns = c;
    stream_open(l->loop, &c->stream, fd, c);
    return c;
}

void linkconn_free(struct linkconn *c)
{
    *c->place = c->next;
    if (c->next) c->next->place = c->place;
    buf_fini(&c->in);
    mem_free(c);
}

void linkconn_close(struct linkconn *c)
{
    if (c->phase == LINKCONN_CLOSED) return;
    c->phase = LINKCONN_CLOSED;
    c->peer = NULL;
    stream_close(c->links->loop, &c->stream);
}

void linkconn_leave(struct linkconn *c)
{
    c->phase = LINKCONN_LEAVING;
    if (!stream_unsent(&c->stream)) linkconn_close(c);
}

/* ---- our greetings */

static void send_all(struct linkconn *c, struct buf *b)
{
    if (b->len) stream_send(c->links->loop, &c->stream, b);
    buf_fini(b);
}

void linkconn_call(struct linkconn *c)
{
    struct wire_hello mine;
    struct buf b = {0};
    links_hello(c->links, c->peer->node, &mine);
    linkcaller_begin(&c->call, &mine, &c->links->options.secret, &b);
    send_all(c, &b);
}

void linkconn_challenge(struct linkconn *c, const struct wire_hello *theirs)
{
    struct buf b = {0};
    c->phase = LINKCONN_PROVING;
    c->theirs = *theirs;
    linksecret_nonce(c->nonce);
    wire_add_proof(&b, WIRE_CHALLENGE, c->nonce);
    send_all(c, &b);
}

void linkconn_answer(const struct linkconn *c, uint64_t to, struct buf *out)
{
    struct wire_hello mine;
    links_hello(c->links, to, &mine);
    memcpy(mine.nonce, c->nonce, sizeof mine.nonce);
    if (c->proven) linksecret_prove_called(&c->links->options.secret, &c->theirs, &mine);
    wire_add_hello(out, &mine);
}

void linkconn_greet(struct linkconn *c, uint64_t to)
{
    struct buf b = {0};
    linkconn_answer(c, to, &b);
    send_all(c, &b);
}

void linkconn_hand_over(struct linkconn *c, const struct wire_hello *hello)
{
    c->phase = LINKCONN_HANDED;
    c->lane_of = hello->node;
    c->lane_run = hello->incarnation;
    c->lane = (uint16_t)(hello->lane - 1);
    if (!stream_unsent(&c->stream)) stream_release(c->links->loop, &c->stream);
}

/* A challenge that was answered has been sent, but the event loop may hear of the answer first. */
void linkconn_drained(struct linkconn *c)
{
    if (c->phase == LINKCONN_LEAVING) linkconn_close(c);
    else if (c->phase == LINKCONN_HANDED) stream_release(c->links->loop, &c->stream);
}

/* ---- bytes that come in */

static enum wire_result read_answer(struct linkconn *c, struct slice bytes, struct wire_hello *hello, size_t *used, const char **why)
{
    struct buf b = {0};
    enum wire_result result = linkcaller_take(&c->call, bytes, hello, used, &b, why);
    send_all(c, &b);
    return result;
}

static size_t take_hello(struct linkconn *c, struct slice bytes)
{
    struct wire_hello hello;
    size_t used = 0;
    const char *why = NULL;
    switch (c->way == LINKS_OUT ? read_answer(c, bytes, &hello, &used, &why) : wire_hello(bytes, &hello, &used, &why)) {
    case WIRE_OK: links_greeted(c->links, c, &hello); break;
    case WIRE_BAD: links_lost(c->links, c, -EPROTO, why); break;
    case WIRE_NEED_MORE: break;
    }
    return used;
}

static size_t take_proof(struct linkconn *c, struct slice bytes)
{
    uint8_t proof[WIRE_PROOF_BYTES];
    size_t used = 0;
    const char *why = NULL;
    switch (wire_proof(bytes, WIRE_PROOF, proof, &used, &why)) {
    case WIRE_OK:
        c->proven = linksecret_check_caller(&c->links->options.secret, &c->theirs, c->nonce, proof);
        links_proven(c->links, c);
        break;
    case WIRE_BAD: links_lost(c->links, c, -EPROTO, why); break;
    case WIRE_NEED_MORE: break;
    }
    return used;
}

static void answer_ping(struct linkconn *c, const struct wire_frame *f)
{
    uint64_t token;
    struct buf b = {0};
    if (wire_get_ping(f, &token) || stream_unsent(&c->stream) > ANSWERS_UNSENT_MAX) {
        links_lost(c->links, c, -EPROTO, "a ping makes no sense");
        return;
    }
    wire_add_ping(&b, WIRE_PONG, token);
    stream_send(c->links->loop, &c->stream, &b);
    buf_fini(&b);
}

static void take_pong(struct linkconn *c, const struct wire_frame *f)
{
    uint64_t token;
    if (wire_get_ping(f, &token)) links_lost(c->links, c, -EPROTO, "a pong makes no sense");
    else if (token == c->peer->ping_token) c->peer->stats.round_trip_us = (uint64_t)clock_mono_us() - token;
}

/* Frames come with the peer's connection, and only answers to pings against it. */
static void take_frame(struct linkconn *c, const struct wire_frame *f)
{
    struct links *l = c->links;
    if (c->way == LINKS_OUT) {
        if (f->type == WIRE_PONG) take_pong(c, f);
        else links_lost(l, c, -EPROTO, "a frame came against its direction");
        return;
    }
    c->peer->stats.frames_in++;
    c->peer->stats.bytes_in += f->whole.n;
    if (f->type == WIRE_PING) answer_ping(c, f);
    else if (f->type <= WIRE_PROOF) links_lost(l, c, -EPROTO, "a frame came that has no place here");
    else if (l->calls.on_frame(l->calls.ctx, c->peer->node, f) < 0 && c->phase == LINKCONN_UP) links_lost(l, c, -EPROTO, "a frame makes no sense");
}

/* Handles what is whole and gives how many bytes that was. The connection may be closed behind it, by what came or by the owner. */
static size_t take(struct linkconn *c, struct slice bytes)
{
    size_t at = c->phase == LINKCONN_GREETING ? take_hello(c, bytes) : 0;
    if (c->phase == LINKCONN_PROVING) at += take_proof(c, slice_of(bytes.p + at, bytes.n - at));
    struct wire_frame f;
    const char *why = NULL;
    while (c->phase == LINKCONN_UP) {
        enum wire_result result = wire_frame(slice_of(bytes.p + at, bytes.n - at), &f, &why);
        if (result == WIRE_BAD) links_lost(c->links, c, -EPROTO, why);
        if (result != WIRE_OK) break;
        take_frame(c, &f);
        at += f.whole.n;
    }
    return at;
}

void linkconn_data(struct linkconn *c, struct slice bytes)
{
    c->heard = true;
    if (c->phase >= LINKCONN_LEAVING) return;
    bool waited = c->in.len;
    if (waited) {
        buf_add_slice(&c->in, bytes);
        bytes = buf_slice(&c->in);
    }
    size_t used = take(c, bytes);
    if (c->phase >= LINKCONN_LEAVING) return;
    if (!waited) {
        buf_add(&c->in, bytes.p + used, bytes.n - used);
        return;
    }
    memmove(c->in.p, c->in.p + used, c->in.len - used);
    c->in.len -= used;
    if (!c->in.len && c->in.cap > IN_KEPT_MAX) buf_fini(&c->in);
}

/* A ping behind much else is answered late. As long as the other reads on, it is alive: where bytes wait to be sent, its buffers are full, and what it acknowledges
 * makes room for what it has read. */
static bool reads_on(struct linkconn *c)
{
    uint64_t before = c->acked;
    if (!stream_unsent(&c->stream)) return false;
    c->acked = stream_acked(&c->stream);
    return c->acked > before;
}

/* A greeting that comes drop by drop is none: there is one time for all of it. */
bool linkconn_silent(struct linkconn *c)
{
    if (c->phase == LINKCONN_UP && (c->heard || reads_on(c))) c->heard_ms = c->links->awake_ms;
    c->heard = false;
    return c->links->awake_ms - c->heard_ms >= c->links->options.silence_ms;
}
