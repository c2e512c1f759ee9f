/* Waves of requests: how they begin and end, and what happens to them. Most are a connection's; those of this node itself are calls (relay_call.c).
 *
 * Most waves need no rounds (relay_round.c): when all requests are for groups that this node leads, they run as the connection's own task, and their replies are written where they belong. Such a wave is "whole". Only when
 * something comes in between, it is unfolded, and goes on in rounds. */
#include "server/relay_wave.h"

#include <stddef.h>

#include "base/mem.h"
#include "cluster/meta.h"
#include "server/relay_lane.h"
#include "server/relay_wait.h"

enum {
    SILENT_MS = 100,         /* a message that has no answer for so long is given up when another node leads by now */
    SPARE_BYTES = 64 * 1024, /* buffers larger than this are not kept */
};

/* ---- life */

static struct wave *wave_new(struct relay_front *rf, const struct asker *a, uint32_t first, uint32_t end)
{
    struct wave *w = rf->spare_waves;
    if (w) rf->spare_waves = w->next;
    else w = mem_zalloc(sizeof *w);
    w->rf = rf;
    w->asker = *a;
    w->first = first;
    w->end = end;
    w->round_ms = relay_now_ms();
    w->deadline_ms = w->round_ms + a->timeout_ms;
    w->next = rf->waves;
    w->back = &rf->waves;
    if (w->next) w->next->back = &w->next;
    rf->waves = w;
    STAT_ADD(rf->counts.waves, 1);
    return w;
}

static void wave_fini(struct wave *w)
{
    task_fini(&w->own);
    buf_fini(&w->here_out);
    buf_fini(&w->replies);
    mem_free(w->asked);
    mem_free(w->here);
    mem_free(w->tickets);
    mem_free(w);
}

static void empty(struct buf *b)
{
    b->len = 0;
    if (b->cap > SPARE_BYTES) buf_fini(b);
}

static void wave_put(struct wave *w)
{
    struct relay_front *rf = w->rf;
    while (w->messages) relay_message_free(w->messages);
    relay_message_free_numbers(w, 0);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    task_clear(&w->own);
    empty(&w->here_out);
    empty(&w->replies);
    struct wave kept = {.own = w->own, .here_out = w->here_out, .replies = w->replies, .asked = w->asked, .cap_asked = w->cap_asked, .here = w->here, .cap_here = w->cap_here, .tickets = w->tickets, .cap_tickets = w->cap_tickets};
    *w = kept;
    w->next = rf->spare_waves;
    rf->spare_waves = w;
}

void relay_wave_fini(struct relay_front *rf)
{
    while (rf->waves) wave_put(rf->waves);
    while (rf->spare_waves) {
        struct wave *w = rf->spare_waves;
        rf->spare_waves = w->next;
        wave_fini(w);
    }
    mem_free(rf->slots);
    mem_free(rf->free_slots);
}

/* ---- a wave that is whole */

static bool is_here(struct wave *w, const struct request *r, uint32_t *last_group)
{
    const struct relay_cluster *c = relay_wave_cluster(w);
    if (relay_is_too_long(r->cmd, relay_wave_task(w)->args + r->first_arg, r->argc) || relay_unfit(r->cmd)) return false;
    if (r->group == *last_group || (unlikely(w->asker.stale) && relay_round_is_stale_read(w, r))) return true;
    if (r->group >= META_GROUPS_MAX || !c->serves(c->ctx, r->group)) return false;
    *last_group = r->group;
    return true;
}

static bool is_all_here(struct wave *w)
{
    uint32_t last_group = SEATING_NO_GROUP;
    for (uint32_t i = 0; i < relay_wave_size(w); i++)
        if (!is_here(w, relay_wave_request(w, i), &last_group)) return false;
    return true;
}

/* The connection's task has run as far as it goes. What bounced, and what is behind it, is left for the next wave; unless it is the first: it has to wait. */
static void whole_ran(struct wave *w)
{
    struct task *t = w->task;
    w->running = false;
    w->n_holds = t->n_holds;
    if (t->n_holds > w->first_hold && t->holds[t->n_holds - 1].bounced) {
        t->n_holds = --w->n_holds;
        t->pos--;
        w->asker.conn->out.len = w->n_holds > w->first_hold ? t->holds[w->n_holds - 1].reply_end : w->out_from;
    }
    STAT_ADD(w->rf->counts.here, w->n_holds - w->first_hold);
    if (t->pos > w->first) {
        w->end = t->pos;
        relay_proof_begin(w->rf, t->holds + w->first_hold, w->n_holds - w->first_hold);
        relay_listen(w->rf);
        return;
    }
    relay_round_unfold(w, ASKED_OPEN);
    w->left = relay_wave_size(w);
    w->map = relay_map_version(w->rf);
    w->first_hold = w->n_holds = w->next_hold = 0;
    relay_round_struck(w, 0, relay_round_why(w, 0));
}

static void whole_came_home(struct worker *worker, struct task *t)
{
    struct wave *w = ((struct conn *)t->session)->wave;
    whole_ran(w);
    relay_wave_go_on(w);
}

static void start_whole(struct wave *w)
{
    struct task *t = relay_wave_task(w);
    conn_prepare_task(w->asker.conn, w->end);
    t->finish = whole_came_home;
    t->proves = relay_lane_is_any(w->rf);
    w->whole = true;
    w->task = t;
    w->first_hold = w->next_hold = t->n_holds;
    w->out_from = w->asker.conn->out.len;
    w->running = true;
    if (task_start(&w->rf->front->worker, t)) whole_ran(w);
}

/* True: all replies may go. Else it waits, or it is whole no longer. */
static bool whole_is_over(struct wave *w)
{
    if (w->running) return false;
    while (w->next_hold < w->n_holds) {
        enum seat_outcome o = relay_outcome(w->rf, &w->task->holds[w->next_hold]);
        if (o == SEAT_WAIT) return w->forgotten;
        if (o != SEAT_DONE) {
            relay_round_unfold_whole(w);
            return false;
        }
        w->next_hold++;
    }
    return true;
}

static bool go_on(struct wave *w)
{
    if (likely(w->whole) && whole_is_over(w)) return true;
    return !w->whole && relay_round_go(w);
}

/* ---- the end */

struct slice relay_wave_reply(const struct wave *w, uint32_t i)
{
    const struct asked *a = &w->asked[i];
    return slice_of((a->here ? w->here_out.p : w->replies.p) + a->at, a->n);
}

static void put_replies(struct wave *w)
{
    for (uint32_t i = 0; i < relay_wave_size(w); i++) buf_add_slice(&w->asker.conn->out, relay_wave_reply(w, i));
    relay_wave_task(w)->pos = w->end;
}

/* Who asked has the answers. */
static void end(struct wave *w)
{
    struct conn *c = w->asker.conn;
    if (!c) relay_call_take(w->asker.call, w);
    else if (!w->whole && !w->forgotten) put_replies(w);
    if (c) c->wave = NULL;
    wave_put(w);
}

void relay_wave_go_on(struct wave *w)
{
    if (!go_on(w)) return;
    struct asker a = w->asker;
    end(w);
    if (a.conn) conn_wave_over(a.conn);
    else relay_call_over(a.call);
}

void relay_wave_start(struct relay_front *rf, const struct asker *a)
{
    struct wave *w = wave_new(rf, a, 0, a->task->n_requests);
    relay_round_unfold(w, ASKED_OPEN);
    relay_round_begin(w, w->round_ms);
    relay_wave_go_on(w);
}

bool relay_wants(const struct conn *c, uint32_t request)
{
    const struct task *t = &c->batch->task;
    const struct request *r = &t->requests[request];
    if (likely(r->group != SEATING_NO_GROUP)) return true;
    /* Keys that only a pattern names could be anywhere. A command inside another one that cannot run has none. */
    return r->cmd->class == CLASS_KEYED && !r->cmd->inner_at && command_keys(r->cmd, t->args + r->first_arg, r->argc, NULL, 0) > 0;
}

bool relay_run(struct conn *c, uint32_t end_at)
{
    struct relay_front *rf = c->front->relay;
    struct task *t = &c->batch->task;
    const struct asker a = {.conn = c, .task = t, .timeout_ms = relay_timeout_ms(rf->relay), .db = c->db, .resp = c->resp, .no_touch = c->no_touch, .stale = c->stale};
    struct wave *w = wave_new(rf, &a, t->pos, end_at);
    c->wave = w;
    c->away = true;
    if (is_all_here(w)) {
        start_whole(w);
    } else {
        relay_round_unfold(w, ASKED_OPEN);
        relay_round_begin(w, w->round_ms);
    }
    if (!go_on(w)) return false;
    end(w);
    c->away = false;
    return true;
}

void relay_forget(struct conn *c)
{
    struct wave *w = c->wave;
    w->forgotten = true;
    if (w->running) return;
    end(w);
    c->away = false;
}

/* ---- what comes from elsewhere */

static void lose_message(struct relay_message *m)
{
    for (uint32_t k = 0; k < m->n; k++)
        if (m->wave->asked[m->requests[k]].state == ASKED_UNDER_WAY) relay_round_lose(m->wave, m->requests[k]);
    relay_message_free(m);
}

static void take_answer(struct relay_message *m, uint32_t i, enum wirecall_status status, struct slice reply)
{
    struct wave *w = m->wave;
    switch (status) {
    case WIRECALL_DONE:
        relay_round_answer(w, i, reply);
        w->asked[i].happened = true;
        break;
    case WIRECALL_UNCERTAIN: relay_round_doubt(w, i); break;
    case WIRECALL_MUSTRETRY:
        if (reply.n) relay_round_refused(w, i, reply);
        else w->asked[i].state = ASKED_LOST;
        break;
    case WIRECALL_TRYAGAIN: w->asked[i].state = ASKED_OPEN; break;
    case WIRECALL_BUSY: relay_round_struck(w, i, ASKED_BUSY); break;
    case WIRECALL_NOT_LEADER:
    case WIRECALL_NO_GROUP: relay_round_struck(w, i, ASKED_NOBODY); break;
    case WIRECALL_WAITS: /* never of a command in a wave: relay_code_answer takes none such */
    case WIRECALL_TURN: return;
    }
    w->under_way--;
}

static void take_answers(struct relay_message *m, const struct wirecall_answer *a)
{
    const struct relay_cluster *c = relay_wave_cluster(m->wave);
    struct slice rest = a->reply, reply;
    enum wirecall_status status;
    bool first = true;
    for (uint32_t k = 0; k < m->n && relay_code_answer(&rest, &status, &reply); k++) {
        if (status == WIRECALL_NOT_LEADER && first && a->leader) c->leader_is(c->ctx, m->wave->asked[m->requests[k]].group, a->leader);
        first &= status != WIRECALL_NOT_LEADER;
        take_answer(m, m->requests[k], status, reply);
    }
    lose_message(m); /* what the answer says nothing of */
}

void relay_wave_answered(struct relay_front *rf, uint64_t from, struct slice message)
{
    struct wirecall_answer a;
    if (wirecall_get_answer(message, &a) < 0) return;
    struct relay_peer *p = relay_peer(rf, from);
    if (relay_message_is_pong(a.id)) {
        if (a.id != p->ping) return;
        p->reached = true;
        relay_wave_wake(rf);
        relay_wait_wake(rf);
        return;
    }
    if (relay_wait_is(a.id)) {
        relay_wait_answered(rf, from, &a);
        return;
    }
    struct relay_message *m = relay_message_find(rf, a.id, from);
    if (!m) return; /* given up */
    struct wave *w = m->wave;
    take_answers(m, &a);
    relay_wave_go_on(w);
}

/* For each wave, some of which may end by it. Others do not end by the end of one: connections that come back run later. */
static void for_each(struct relay_front *rf, void (*fn)(struct wave *w, int64_t now_ms), int64_t now_ms)
{
    for (struct wave *w = rf->waves, *next; w; w = next) {
        next = w->next;
        if (fn) fn(w, now_ms);
        relay_wave_go_on(w);
    }
}

static void wake(struct wave *w, int64_t now_ms) { w->retry_ms = now_ms; }
void relay_wave_wake(struct relay_front *rf) { for_each(rf, wake, relay_now_ms()); }

static void wake_if_new_enough(struct wave *w, int64_t now_ms)
{
    if (relay_map_version(w->rf) >= w->needs_map) wake(w, now_ms);
}

void relay_wave_mapped(struct relay_front *rf) { for_each(rf, wake_if_new_enough, relay_now_ms()); }

void relay_wave_news(struct relay_front *rf) { for_each(rf, NULL, 0); }

void relay_wave_peer_down(struct relay_front *rf, uint64_t peer)
{
    for (struct wave *w = rf->waves, *next; w; w = next) {
        next = w->next;
        struct relay_message *m = w->messages;
        while (m && m->peer != peer) m = m->next;
        if (!m) continue;
        lose_message(m);
        relay_wave_go_on(w);
    }
}

void relay_wave_lane_down(struct relay_front *rf, uint64_t lane)
{
    for (struct wave *w = rf->waves, *next; w; w = next) {
        next = w->next;
        struct relay_message *m = w->messages;
        while (m && m->lane != lane) m = m->next;
        if (!m) continue;
        lose_message(m);
        relay_wave_go_on(w);
    }
}

/* ---- time */

/* A message to a node that does not lead any more: nothing is lost by asking the new one, which knows what has happened. */
static bool is_vain(const struct relay_message *m, int64_t now_ms)
{
    const struct relay_cluster *c = relay_wave_cluster(m->wave);
    if (m->once || now_ms - m->sent_ms < SILENT_MS) return false;
    uint64_t leader = c->leader(c->ctx, m->group);
    return leader && leader != m->peer;
}

static void check_time(struct wave *w, int64_t now_ms)
{
    int64_t limit_ms = relay_wave_stops(w) ? RELAY_STOP_MS : w->asker.timeout_ms;
    bool late = now_ms - w->round_ms > limit_ms;
    for (struct relay_message *m = w->messages, *next; m; m = next) {
        next = m->next;
        if (late || is_vain(m, now_ms)) lose_message(m);
    }
    if (late && !w->running) relay_round_lose_holds(w);
    if (w->paused && relay_wave_stops(w)) w->retry_ms = now_ms;
    if (w->paused) relay_look_at(w->rf, w->retry_ms);
}

void relay_wave_time(struct relay_front *rf, int64_t now_ms) { for_each(rf, check_time, now_ms); }
