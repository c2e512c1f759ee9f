#include "server/relay_lane.h"
#include "server/relay_wait.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    LOOK_MS = 50,     /* between looks at what is under way */
    FRAMES_KEPT = 256 * 1024, /* a peer's buffer larger than this is not kept */
};

int64_t relay_now_ms(void) { return clock_mono_us() / 1000; }

/* ---- life */

static void told(struct worker *w, struct mail *m);
static void map_came(struct worker *w, struct mail *m);

struct relay *relay_new(struct server *s)
{
    struct relay *r = mem_zalloc(sizeof *r);
    r->server = s;
    r->n_fronts = s->engine->n_workers;
    r->fronts = mem_zalloc(r->n_fronts * sizeof *r->fronts);
    atomic_init(&r->timeout_ms, RELAY_TIMEOUT_MS);
    r->late_ms = RELAY_LATE_MS;
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        struct relay_front *rf = &r->fronts[i];
        rf->relay = r;
        rf->front = s->fronts[i];
        rf->look_ms = INT64_MAX;
        rf->numbers.session = s->engine->random; /* of this life of the process */
        rf->last_call = &rf->calls;
        rf->last_early = &rf->early;
        rf->told_mail.to_worker = told;
        rf->mapped_mail.to_worker = map_came;
        s->fronts[i]->relay = rf;
    }
    return r;
}

void relay_free(struct relay *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        struct relay_front *rf = &r->fronts[i];
        relay_call_fini(rf);
        relay_wave_fini(rf);
        relay_guest_fini(rf);
        relay_wait_fini(rf);
        relay_stay_fini(rf);
        relay_lane_fini(rf);
        relay_proof_fini(rf);
        for (uint32_t k = 0; k < rf->n_peers; k++) buf_fini(&rf->peers[k].frames);
        mem_free(rf->peers);
        mem_free(rf->argv);
        mem_free(rf->places);
        task_fini(&rf->finder);
        buf_fini(&rf->heads);
        mem_free(rf->numbers.free);
    }
    mem_free(r->fronts);
    mem_free(r);
}

void relay_set_cluster(struct relay *r, const struct relay_cluster *c) { r->cluster = *c; }
void relay_set_timeout(struct relay *r, uint32_t ms) { atomic_store(&r->timeout_ms, ms); }
uint32_t relay_timeout_ms(const struct relay *r) { return atomic_load_explicit(&r->timeout_ms, memory_order_relaxed); }

void relay_look(struct relay *r, struct relay_info *out)
{
    *out = (struct relay_info){0};
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        const struct relay_counts *c = &r->fronts[i].counts;
        out->waves += STAT_GET(c->waves);
        out->here += STAT_GET(c->here);
        out->forwarded += STAT_GET(c->forwarded);
        out->bounced += STAT_GET(c->bounced);
        out->retried += STAT_GET(c->retried);
        out->stale += STAT_GET(c->stale);
        out->repeated += STAT_GET(c->repeated);
        out->guests += STAT_GET(c->guests);
        out->uncertain += STAT_GET(c->uncertain);
        out->timed_out += STAT_GET(c->timed_out);
        out->lanes += STAT_GET(c->lanes);
        out->proven += STAT_GET(c->proven);
    }
}

/* ---- what may go */

/* What waits would have to wait elsewhere, and what changes the connection cannot do so from there. */
const char *relay_unfit(const struct command *cmd)
{
    if (cmd->flags & CMD_BLOCKING) return "waits";
    if (cmd->flags & CMD_AT_ONCE || cmd->each_inner) return "is part of a transaction";
    return cmd->class == CLASS_KEYED || cmd->class == CLASS_SPACE ? NULL : "has no keys"; /* a group's own is CLASS_KEYED, too */
}

size_t relay_args_bytes(const struct slice *argv, uint32_t argc)
{
    size_t n = 0;
    for (uint32_t i = 0; i < argc; i++) n += argv[i].n + RELAY_ARG_COST;
    return n;
}

bool relay_is_too_long(const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    size_t most = cmd->flags & CMD_OF_GROUP ? RELAY_ARGS_MAX + RELAY_OWN_MORE : RELAY_ARGS_MAX;
    return relay_args_bytes(argv, argc) > most;
}

/* ---- holds */

enum seat_outcome relay_outcome(struct relay_front *rf, struct hold *h)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    if (unlikely(h->overtaken)) return SEAT_LOST;
    enum seat_outcome o = h->seat ? c->outcome(c->ctx, h) : SEAT_DONE;
    return o == SEAT_DONE && h->unproven ? relay_proof(rf, h) : o;
}

void relay_news(struct relay_front *rf)
{
    relay_wave_news(rf);
    relay_guest_news(rf);
    relay_stay_news(rf);
}

/* ---- the turn */

struct relay_peer *relay_peer(struct relay_front *rf, uint64_t id)
{
    for (uint32_t i = 0; i < rf->n_peers; i++)
        if (rf->peers[i].id == id) return &rf->peers[i];
    rf->peers = mem_resize(rf->peers, (rf->n_peers + 1) * sizeof *rf->peers);
    rf->peers[rf->n_peers] = (struct relay_peer){.id = id};
    return &rf->peers[rf->n_peers++];
}

void relay_look_at(struct relay_front *rf, int64_t when_ms)
{
    if (when_ms < rf->look_ms) rf->look_ms = when_ms;
}

void relay_listen(struct relay_front *rf)
{
    rf->hurry = true;
    if (!atomic_load_explicit(&rf->listens, memory_order_relaxed)) atomic_store(&rf->listens, true);
}

/* Something is under way that time may end. */
static bool is_busy(const struct relay_front *rf) { return rf->waves || rf->guests || rf->early || rf->waits || rf->stays; }

static void look(struct relay_front *rf)
{
    int64_t now_ms = relay_now_ms();
    if (now_ms < rf->look_ms) return;
    rf->look_ms = INT64_MAX;
    relay_wave_time(rf, now_ms);
    relay_guest_time(rf, now_ms);
    relay_stay_time(rf, now_ms);
    relay_wait_time(rf, now_ms);
    relay_lane_time(rf, now_ms);
    relay_proof_time(rf, now_ms);
    if (is_busy(rf)) relay_look_at(rf, now_ms + LOOK_MS);
}

static void send_frames(struct relay_front *rf)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    for (uint32_t i = 0; i < rf->n_peers; i++) {
        struct relay_peer *p = &rf->peers[i];
        if (!p->frames.len) continue;
        c->send(c->ctx, p->id, buf_slice(&p->frames));
        rf->hurry = true;
        p->frames.len = 0;
        if (p->frames.cap > FRAMES_KEPT) buf_fini(&p->frames);
    }
}

void relay_turn(struct front *f)
{
    struct relay_front *rf = f->relay;
    const struct relay_cluster *c = &rf->relay->cluster;
    if (rf->calls) relay_call_turn(rf);
    if (rf->look_ms != INT64_MAX) look(rf);
    else if (is_busy(rf)) relay_look_at(rf, relay_now_ms() + LOOK_MS);
    relay_proof_turn(rf);
    relay_lane_turn(rf);
    send_frames(rf);
    if (!rf->waves && !rf->guests && !rf->n_held_stays && atomic_load_explicit(&rf->listens, memory_order_relaxed)) atomic_store(&rf->listens, false);
    if (!rf->hurry) return;
    rf->hurry = false;
    c->hurry(c->ctx);
}

int relay_wait_ms(const struct front *f)
{
    const struct relay_front *rf = f->relay;
    if (rf->calls) return 0;
    if (rf->look_ms == INT64_MAX) return -1;
    int64_t ms = rf->look_ms - relay_now_ms();
    return ms < 0 ? 0 : (int)ms;
}

/* ---- from the raft thread to the fronts, which it wakes when its turn is over (node_calls) */

static struct relay_front *relay_of(struct worker *w) { return front_of(w)->relay; }

static void told(struct worker *w, struct mail *m)
{
    struct relay_front *rf = relay_of(w);
    atomic_store(&rf->told, false); /* before looking: what comes later tells again */
    relay_news(rf);
}

void relay_told(void *ctx)
{
    struct relay *r = ctx;
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        struct relay_front *rf = &r->fronts[i];
        if (atomic_load(&rf->listens) && !atomic_exchange(&rf->told, true)) engine_put(r->server->engine, i, &rf->told_mail);
    }
}

static void map_came(struct worker *w, struct mail *m)
{
    struct relay_front *rf = relay_of(w);
    atomic_store(&rf->mapped, false); /* before looking, as above */
    relay_guest_mapped(rf);
    relay_stay_mapped(rf);
    relay_wave_mapped(rf);
    relay_wait_wake(rf);
}

void relay_mapped(struct relay *r)
{
    for (uint32_t i = 0; i < r->n_fronts; i++) {
        struct relay_front *rf = &r->fronts[i];
        if (!atomic_exchange(&rf->mapped, true)) engine_send(r->server->engine, i, &rf->mapped_mail);
    }
}

static void post(struct relay *r, uint32_t front, uint64_t from, uint32_t group, struct slice bytes, void (*to_worker)(struct worker *w, struct mail *m))
{
    struct relay_letter *l = mem_alloc(sizeof *l + bytes.n);
    *l = (struct relay_letter){.mail.to_worker = to_worker};
    l->from = from;
    l->group = group;
    l->n = (uint32_t)bytes.n;
    if (bytes.n) memcpy(l->bytes, bytes.p, bytes.n);
    engine_put(r->server->engine, front % r->n_fronts, &l->mail);
}

static void request_came(struct worker *w, struct mail *m)
{
    relay_guest_begin(relay_of(w), (struct relay_letter *)m);
}

int relay_request(void *ctx, uint64_t from, uint32_t group, struct slice message)
{
    uint64_t id;
    if (!relay_code_message_id(message, &id) || message.n > UINT32_MAX) return -1;
    /* What one front asks is run by one front, in the order in which it was asked. */
    post(ctx, relay_code_front(id) + (uint32_t)from, from, group, message, request_came);
    return 0;
}

static void answer_came(struct worker *w, struct mail *m)
{
    struct relay_letter *l = (struct relay_letter *)m;
    relay_wave_answered(relay_of(w), l->from, slice_of(l->bytes, l->n));
    mem_free(l);
}

int relay_answer(void *ctx, uint64_t from, uint32_t group, struct slice message)
{
    struct relay *r = ctx;
    uint64_t id;
    if (!relay_code_message_id(message, &id) || message.n > UINT32_MAX || relay_code_front(id) >= r->n_fronts) return -1;
    post(r, relay_code_front(id), from, group, message, answer_came);
    return 0;
}

static void peer_went(struct worker *w, struct mail *m)
{
    struct relay_letter *l = (struct relay_letter *)m;
    struct relay_front *rf = relay_of(w);
    struct relay_peer *p = relay_peer(rf, l->from);
    p->reached = false;
    p->ping = 0; /* its answer would tell of the time before */
    relay_lane_peer_down(rf, l->from);
    relay_wave_peer_down(rf, l->from);
    relay_wait_peer_down(rf, l->from);
    relay_stay_peer_down(rf, l->from);
    mem_free(l);
}

void relay_down(void *ctx, uint64_t peer)
{
    struct relay *r = ctx;
    for (uint32_t i = 0; i < r->n_fronts; i++) post(r, i, peer, 0, slice_of(NULL, 0), peer_went);
}
