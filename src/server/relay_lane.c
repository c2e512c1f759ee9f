#include "server/relay_lane.h"

#include <stddef.h>
#include <unistd.h>

#include "base/mem.h"
#include "cluster/meta.h"
#include "io/dial.h"

enum {
    PAUSE_MIN_MS = 20,                 /* before a lane is opened again, doubling */
    PAUSE_MAX_MS = 1000,
    PATIENCE_MS = 3000,                /* with bytes that nobody takes */
    UNSENT_MAX = 256 * 1024 * 1024,    /* a lane that takes nothing is given up */
    IN_KEPT_MAX = 1024 * 1024,         /* a larger buffer is not kept for the next frame */
    OUT_KEPT_MAX = 256 * 1024,
};

/* ---- finding */

struct relay_lane *relay_lane_to(const struct relay_front *rf, uint64_t peer)
{
    for (struct relay_lane *l = rf->lanes; l; l = l->next)
        if (l->peer == peer && l->phase == LANE_UP && l->number == rf->front->worker.id) return l;
    return NULL;
}

struct relay_lane *relay_lane_find(const struct relay_front *rf, uint64_t serial)
{
    for (struct relay_lane *l = rf->lanes; l; l = l->next)
        if (l->serial == serial && l->phase == LANE_UP) return l;
    return NULL;
}

bool relay_lane_is_any(const struct relay_front *rf)
{
    for (const struct relay_lane *l = rf->lanes; l; l = l->next)
        if (l->phase == LANE_UP) return true;
    return false;
}

static struct relay_lane *find_number(const struct relay_front *rf, uint64_t peer, uint16_t number)
{
    for (struct relay_lane *l = rf->lanes; l; l = l->next)
        if (l->peer == peer && l->number == number && !l->unwanted) return l;
    return NULL;
}

/* ---- life */

static struct relay_lane *lane_new(struct relay_front *rf, uint64_t peer, uint16_t number)
{
    struct relay_lane *l = mem_zalloc(sizeof *l);
    l->rf = rf;
    l->peer = peer;
    l->number = number;
    l->pause_ms = PAUSE_MIN_MS;
    l->next = rf->lanes;
    rf->lanes = l;
    return l;
}

static void lane_free(struct relay_lane *l)
{
    struct relay_lane **at = &l->rf->lanes;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    wirecall_joiner_free(l->joiner);
    buf_fini(&l->in);
    buf_fini(&l->out);
    mem_free(l);
}

static struct loop *loop_of(const struct relay_lane *l) { return l->rf->front->loop; }

static void begin(struct relay_lane *l, int fd)
{
    l->serial = ++l->rf->lane_serial;
    l->joiner = wirecall_joiner_new(WIRECALL_JOIN_MAX);
    l->in.len = l->out.len = 0;
    l->asked_ms = l->spared_until_ms = 0;
    stream_open(loop_of(l), &l->stream, fd, l);
    l->stream.aside = true;
}

static void is_up(struct relay_lane *l)
{
    l->phase = LANE_UP;
    STAT_ADD(l->rf->counts.lanes, 1);
    relay_wave_wake(l->rf);
}

/* What was under way on it is lost. */
static void hang_up(struct relay_lane *l)
{
    bool was_up = l->phase == LANE_UP;
    if (l->phase == LANE_CLOSING || l->phase == LANE_RESTS) return;
    l->phase = LANE_CLOSING;
    stream_close(loop_of(l), &l->stream);
    if (!was_up) return;
    STAT_ADD(l->rf->counts.lanes, (uint64_t)-1);
    relay_wave_lane_down(l->rf, l->serial);
    relay_proof_lost(l->rf);
    relay_news(l->rf);
}

static void rest(struct relay_lane *l)
{
    l->phase = LANE_RESTS;
    l->dial_ms = relay_now_ms() + l->pause_ms;
    l->pause_ms = l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
    relay_look_at(l->rf, l->dial_ms);
}

static void call(struct relay_lane *l)
{
    struct wire_hello mine = l->how.greeting;
    int fd = dial_begin(&l->how.to, PATIENCE_MS);
    if (fd < 0) {
        rest(l);
        return;
    }
    mine.lane = (uint16_t)(l->number + 1);
    begin(l, fd);
    l->phase = LANE_GREETING;
    linkcaller_begin(&l->call, &mine, &l->how.secret, &l->out);
    stream_send(loop_of(l), &l->stream, &l->out);
}

/* Nobody wants it any more. */
static void dismiss(struct relay_lane *l)
{
    l->unwanted = true;
    if (l->phase == LANE_RESTS) lane_free(l);
    else hang_up(l);
}

void relay_lane_closed(struct relay_lane *l)
{
    wirecall_joiner_free(l->joiner);
    l->joiner = NULL;
    if (l->ours && !l->unwanted) rest(l);
    else lane_free(l);
}

void relay_lane_ended(struct relay_lane *l) { hang_up(l); }

void relay_lane_peer_down(struct relay_front *rf, uint64_t peer)
{
    for (struct relay_lane *l = rf->lanes, *next; l; l = next) {
        next = l->next;
        if (l->peer == peer && !l->unwanted) dismiss(l);
    }
}

void relay_lane_time(struct relay_front *rf, int64_t now_ms)
{
    for (struct relay_lane *l = rf->lanes, *next; l; l = next) {
        next = l->next;
        if (l->phase != LANE_RESTS) continue;
        if (now_ms >= l->dial_ms) call(l);
        else relay_look_at(rf, l->dial_ms);
    }
}

bool relay_lane_stop(struct relay_front *rf)
{
    for (struct relay_lane *l = rf->lanes, *next; l; l = next) {
        next = l->next;
        if (!l->unwanted) dismiss(l);
    }
    return !rf->lanes;
}

void relay_lane_fini(struct relay_front *rf)
{
    while (rf->lanes) lane_free(rf->lanes);
}

/* ---- frames */

void relay_lane_turn(struct relay_front *rf)
{
    for (struct relay_lane *l = rf->lanes, *next; l; l = next) {
        next = l->next;
        if (l->phase != LANE_UP || !l->out.len) continue;
        if (stream_unsent(&l->stream) > UNSENT_MAX) {
            hang_up(l);
            continue;
        }
        stream_send(loop_of(l), &l->stream, &l->out);
        if (l->out.cap > OUT_KEPT_MAX) buf_fini(&l->out);
    }
}

static int take_request(struct relay_lane *l, uint32_t group, struct slice message)
{
    if (message.n > UINT32_MAX || group < META_FIRST_DATA_GROUP) return -1;
    struct relay_letter *letter = mem_alloc(sizeof *letter + message.n);
    *letter = (struct relay_letter){.from = l->peer, .lane = l->serial, .group = group, .n = (uint32_t)message.n};
    memcpy(letter->bytes, message.p, message.n);
    relay_guest_begin(l->rf, letter);
    return 0;
}

static int take_call(struct relay_lane *l, const struct wire_frame *f)
{
    struct slice message;
    switch (wirecall_join(l->joiner, f, &message)) {
    case WIRE_NEED_MORE: return 0;
    case WIRE_BAD: return -1;
    case WIRE_OK: break;
    }
    if (f->type == WIRE_REQUEST) return take_request(l, f->group, message);
    relay_wave_answered(l->rf, l->peer, message);
    return 0;
}

static int take_frame(struct relay_lane *l, const struct wire_frame *f)
{
    switch (f->type) {
    case WIRE_REQUEST:
    case WIRE_ANSWER: return take_call(l, f);
    case WIRE_PROBE:
    case WIRE_PROBE_ACK: return relay_proof_frame(l, f);
    default: return -1;
    }
}

/* Gives how many bytes it took. */
static size_t take_greeting(struct relay_lane *l, struct slice bytes)
{
    struct wire_hello theirs;
    size_t used = 0;
    const char *why;
    enum wire_result result = linkcaller_take(&l->call, bytes, &theirs, &used, &l->out, &why);
    if (l->out.len) stream_send(loop_of(l), &l->stream, &l->out); /* a proof */
    if (result == WIRE_NEED_MORE) return used;
    if (result == WIRE_BAD || linkcaller_judge(&l->call, &theirs, l->peer, &l->how.known) != LINKGREET_WELCOME) {
        hang_up(l);
        return 0;
    }
    l->pause_ms = PAUSE_MIN_MS;
    is_up(l);
    return used;
}

static size_t take(struct relay_lane *l, struct slice bytes)
{
    size_t at = l->phase == LANE_GREETING ? take_greeting(l, bytes) : 0;
    struct wire_frame f;
    const char *why;
    while (l->phase == LANE_UP) {
        enum wire_result result = wire_frame(slice_of(bytes.p + at, bytes.n - at), &f, &why);
        if (result == WIRE_NEED_MORE) break;
        if (result == WIRE_BAD || take_frame(l, &f) < 0) {
            slog(&l->rf->relay->server->log, SLOG_WARNING, "a lane to a node is closed: what came makes no sense", "node=%llu lane=%u", (unsigned long long)l->peer, l->number);
            hang_up(l);
            break;
        }
        at += f.whole.n;
    }
    return at;
}

void relay_lane_data(struct relay_lane *l, struct slice bytes)
{
    if (l->phase == LANE_CLOSING) return;
    bool waited = l->in.len;
    if (waited) {
        buf_add_slice(&l->in, bytes);
        bytes = buf_slice(&l->in);
    }
    size_t used = take(l, bytes);
    if (!waited) {
        buf_add(&l->in, bytes.p + used, bytes.n - used);
        return;
    }
    memmove(l->in.p, l->in.p + used, l->in.len - used);
    l->in.len -= used;
    if (!l->in.len && l->in.cap > IN_KEPT_MAX) buf_fini(&l->in);
}

/* ---- from the raft thread */

struct lane_mail {
    struct mail mail;
    uint64_t peer;
    struct links_lanes how; /* relay_up */
    uint16_t number;        /* relay_lane */
    int fd;
    struct buf greeting;
};

static void peer_came(struct worker *w, struct mail *mail)
{
    struct lane_mail *m = (struct lane_mail *)mail;
    struct relay_front *rf = front_of(w)->relay;
    uint32_t fronts = rf->relay->n_fronts, lanes = m->how.lanes > fronts ? m->how.lanes : fronts;
    for (uint32_t k = w->id; k < lanes && !front_of(w)->stopping; k += fronts) {
        struct relay_lane *l = find_number(rf, m->peer, (uint16_t)k);
        if (!l) l = lane_new(rf, m->peer, (uint16_t)k);
        l->ours = true;
        l->how = m->how;
        if (l->phase == LANE_RESTS) call(l);
    }
    mem_free(m);
}

static void lane_came(struct worker *w, struct mail *mail)
{
    struct lane_mail *m = (struct lane_mail *)mail;
    struct relay_front *rf = front_of(w)->relay;
    struct relay_lane *old = find_number(rf, m->peer, m->number);
    if (old) dismiss(old); /* its other end is gone */
    if (front_of(w)->stopping) {
        close(m->fd);
    } else {
        struct relay_lane *l = lane_new(rf, m->peer, m->number);
        begin(l, m->fd);
        stream_send(loop_of(l), &l->stream, &m->greeting);
        is_up(l);
    }
    buf_fini(&m->greeting);
    mem_free(m);
}

static struct lane_mail *lane_mail(uint64_t peer, void (*to_worker)(struct worker *w, struct mail *m))
{
    struct lane_mail *m = mem_zalloc(sizeof *m);
    m->mail.to_worker = to_worker;
    m->peer = peer;
    return m;
}

void relay_up(void *ctx, uint64_t peer, const struct links_lanes *how)
{
    struct relay *r = ctx;
    if (peer < r->cluster.self) return; /* it calls */
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        struct lane_mail *m = lane_mail(peer, peer_came);
        m->how = *how;
        engine_put(r->server->engine, i, &m->mail);
    }
}

void relay_lane(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting)
{
    struct relay *r = ctx;
    struct lane_mail *m = lane_mail(peer, lane_came);
    m->number = lane;
    m->fd = fd;
    buf_add_slice(&m->greeting, greeting);
    engine_put(r->server->engine, lane % r->n_fronts, &m->mail);
}
