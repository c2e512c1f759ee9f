/* A wave goes in rounds. In a round every request that has no answer yet goes to where its group is led, all of a group to the same place: those of this node as one task, those of another node in
 * one message. When everything that was sent has come back, or is given up, the next round takes what is left, at once or after a pause, until nothing is left or the time is over. So a request never goes
 * again while one behind it, of the same group, is under way. */
#include "server/relay_wave.h"

#include <stddef.h>

#include "base/mem.h"
#include "cluster/meta.h"
#include "server/relay_lane.h"
#include "server/stats.h"

enum {
    PAUSE_MIN_MS = 2, /* before a request goes again, doubling */
    PAUSE_MAX_MS = 50,
    NOWHERE = 0,
};

/* ---- replies */

void relay_round_answer(struct wave *w, uint32_t i, struct slice reply)
{
    struct asked *a = &w->asked[i];
    a->state = ASKED_OVER;
    a->here = false;
    a->fate = CALL_ANSWERED;
    a->at = w->replies.len;
    a->n = reply.n;
    buf_add_slice(&w->replies, reply);
}

static void __attribute__((format(printf, 4, 5))) answer_error(struct wave *w, uint32_t i, enum call_fate fate, const char *fmt, ...)
{
    struct relay_front *rf = w->rf;
    struct buf text = {0}, line = {0};
    struct reply r = {.out = &line, .resp = w->asker.resp};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    buf_add_byte(&text, '\0');
    reply_error(&r, text.p);
    relay_round_answer(w, i, buf_slice(&line));
    w->asked[i].fate = (uint8_t)fate;
    if (w->asker.conn) stats_note_error(rf->relay->server, &rf->front->worker, buf_slice(&line));
    buf_fini(&text);
    buf_fini(&line);
}

static void answer_uncertain(struct wave *w, uint32_t i)
{
    STAT_ADD(w->rf->counts.uncertain, 1);
    w->asked[i].happened = true;
    answer_error(w, i, CALL_UNCERTAIN, "UNCERTAIN the leader of this key's shard was lost while the command was under way: it may have happened, or may yet");
}

void relay_round_doubt(struct wave *w, uint32_t i)
{
    struct asked *a = &w->asked[i];
    if (!a->seq) {
        answer_uncertain(w, i);
        return;
    }
    a->unsure = w->unsure = true;
    a->state = ASKED_LOST;
}

static void answer_nobody(struct wave *w, uint32_t i)
{
    const struct asked *a = &w->asked[i];
    if (a->unsure) {
        answer_uncertain(w, i);
        return;
    }
    STAT_ADD(w->rf->counts.timed_out, 1);
    switch ((enum asked_why)a->why) {
    case ASKED_NOBODY: answer_error(w, i, CALL_NOBODY, "CLUSTERDOWN nobody leads the shard of this key: nothing was done"); break;
    case ASKED_BUSY: answer_error(w, i, CALL_NOBODY, "TRYAGAIN a transaction has this key, or it is on its way to another shard: nothing was done"); break;
    case ASKED_STALE: answer_error(w, i, CALL_NOBODY, "MUSTRETRY stale-map %.*s", (int)a->n, w->replies.p + a->at); break;
    }
}

/* Its keys are in several groups. Those of a command that names its range are not all there, then. */
static void refuse_mixed(struct wave *w, uint32_t i)
{
    const struct request *r = relay_wave_request(w, i);
    struct buf text = {0};
    if (r->cmd->inner_at && relay_fence_text(w->rf, r->cmd, relay_wave_argv(w, i), r->argc, &text)) answer_error(w, i, CALL_ANSWERED, "MUSTRETRY key-elsewhere %.*s", (int)text.len, text.p);
    else answer_error(w, i, CALL_ANSWERED, "CROSSSHARD keys of one command are in different shards: nothing was done");
    buf_fini(&text);
}

/* What can never run here or there; true if it was that. */
static bool refuse(struct wave *w, uint32_t i)
{
    const struct request *r = relay_wave_request(w, i);
    const char *why = relay_unfit(r->cmd);
    if (why) answer_error(w, i, CALL_ANSWERED, "ERR %s is not available in a cluster: it %s", r->cmd->name, why);
    else if (w->asked[i].group == SEATING_MIXED || w->asked[i].group == SEATING_NO_GROUP) refuse_mixed(w, i);
    else if (relay_is_too_long(r->cmd, relay_wave_argv(w, i), r->argc)) answer_error(w, i, CALL_ANSWERED, "ERR the arguments of one command exceed 8 MiB, which a cluster does not take");
    else return false;
    return true;
}

/* ---- unfolding */

void relay_round_unfold(struct wave *w, enum asked_state state)
{
    uint32_t n = relay_wave_size(w);
    w->whole = false;
    if (n > w->cap_asked) {
        w->cap_asked = n < 16 ? 16 : n;
        w->asked = mem_resize(w->asked, w->cap_asked * sizeof *w->asked);
    }
    for (uint32_t i = 0; i < n; i++) w->asked[i] = (struct asked){.group = relay_wave_request(w, i)->group, .state = state};
}

static void add_here(struct wave *w, uint32_t i)
{
    if (w->n_here == w->cap_here) {
        w->cap_here = w->cap_here ? w->cap_here * 2 : 16;
        w->here = mem_resize(w->here, w->cap_here * sizeof *w->here);
    }
    w->here[w->n_here++] = i;
}

void relay_round_struck(struct wave *w, uint32_t i, enum asked_why why)
{
    uint32_t group = w->asked[i].group;
    STAT_ADD(w->rf->counts.bounced, 1);
    w->bounced = true;
    w->asked[i].state = ASKED_OPEN;
    for (uint32_t k = 0; k < relay_wave_size(w); k++) {
        struct asked *a = &w->asked[k];
        if (a->group != group || a->state == ASKED_OVER) continue;
        a->struck = true;
        a->why = (uint8_t)why;
    }
}

enum asked_why relay_round_why(const struct wave *w, uint32_t i)
{
    const struct relay_cluster *c = relay_wave_cluster(w);
    uint32_t group = w->asked[i].group;
    return group < META_GROUPS_MAX && c->serves(c->ctx, group) ? ASKED_BUSY : ASKED_NOBODY;
}

void relay_round_refused(struct wave *w, uint32_t i, struct slice reply)
{
    struct asked *a = &w->asked[i];
    struct slice text = {0};
    uint64_t map = 0;
    relay_fence_read(reply, &map, &text);
    relay_round_struck(w, i, ASKED_NOBODY);
    if (map > w->needs_map) w->needs_map = map;
    a->why = ASKED_STALE;
    a->at = w->replies.len;
    a->n = text.n;
    buf_add_slice(&w->replies, text);
}

/* ---- what runs here */

static void settle_hold(struct wave *w, uint32_t k, enum seat_outcome outcome)
{
    const struct hold *h = w->task->holds + k;
    uint32_t i = w->here[k - w->first_hold];
    struct asked *a = &w->asked[i];
    size_t from = k == w->first_hold ? w->out_from : h[-1].reply_end;
    w->under_way--;
    switch (outcome) {
    case SEAT_DONE:
        *a = (struct asked){.group = a->group, .state = ASKED_OVER, .here = true, .happened = true, .slot = a->slot, .seq = a->seq, .at = from - w->out_gap, .n = h->reply_end - from};
        break;
    case SEAT_UNCERTAIN: relay_round_doubt(w, i); break;
    default: a->state = ASKED_LOST;
    }
}

void relay_round_unfold_whole(struct wave *w)
{
    struct buf *out = &w->asker.conn->out;
    relay_round_unfold(w, ASKED_UNDER_WAY);
    w->under_way = relay_wave_size(w);
    for (uint32_t i = 0; i < relay_wave_size(w); i++) add_here(w, i);
    buf_add(&w->here_out, out->p + w->out_from, out->len - w->out_from);
    out->len = w->out_gap = w->out_from;
    for (uint32_t k = w->first_hold; k < w->next_hold; k++) settle_hold(w, k, SEAT_DONE);
}

static void settle_holds(struct wave *w)
{
    for (uint32_t k = w->next_hold; k < w->n_holds; k++) {
        if (w->asked[w->here[k - w->first_hold]].state != ASKED_UNDER_WAY) continue;
        enum seat_outcome o = relay_outcome(w->rf, &w->task->holds[k]);
        if (o != SEAT_WAIT) settle_hold(w, k, o);
    }
    while (w->next_hold < w->n_holds && w->asked[w->here[w->next_hold - w->first_hold]].state != ASKED_UNDER_WAY) w->next_hold++;
}

/* The task has run as far as it goes: to its end, or to the first that bounced. */
static void own_ran(struct wave *w)
{
    struct task *t = &w->own;
    w->running = false;
    w->n_holds = t->n_holds;
    STAT_ADD(w->rf->counts.here, t->n_holds);
    if (t->n_holds && t->holds[t->n_holds - 1].bounced) {
        uint32_t i = w->here[--w->n_holds];
        relay_round_struck(w, i, relay_round_why(w, i));
    }
    for (uint32_t k = w->n_holds; k < w->n_here; k++) {
        w->asked[w->here[k]].state = ASKED_OPEN;
        w->under_way--;
    }
    relay_proof_begin(w->rf, t->holds, w->n_holds);
    relay_listen(w->rf);
}

static void own_came_home(struct worker *worker, struct task *t)
{
    struct wave *w = (struct wave *)((char *)t - offsetof(struct wave, own));
    own_ran(w);
    relay_wave_go_on(w);
}

static void start_own(struct wave *w)
{
    struct task *t = &w->own;
    const struct asker *a = &w->asker;
    t->home = w->rf->front->worker.id;
    t->session = a->conn;
    t->finish = own_came_home;
    t->db = a->db;
    t->resp = a->resp;
    t->no_touch = a->no_touch;
    t->stale = a->stale;
    t->proves = relay_lane_is_any(w->rf);
    t->out = &w->here_out;
    t->pos = 0;
    t->end = t->n_requests;
    w->task = t;
    w->first_hold = w->next_hold = w->n_holds = 0;
    w->out_from = w->here_out.len;
    w->out_gap = 0;
    w->running = true;
    if (task_start(&w->rf->front->worker, t)) own_ran(w);
}

void relay_round_lose(struct wave *w, uint32_t i)
{
    w->under_way--;
    if (relay_wave_writes(w, i)) relay_round_doubt(w, i);
    else w->asked[i].state = ASKED_LOST;
}

void relay_round_lose_holds(struct wave *w)
{
    if (w->whole) relay_round_unfold_whole(w);
    for (uint32_t k = w->next_hold; k < w->n_holds; k++) {
        uint32_t i = w->here[k - w->first_hold];
        if (w->asked[i].state == ASKED_UNDER_WAY) relay_round_lose(w, i);
    }
    w->next_hold = w->n_holds;
}

/* ---- a round */

bool relay_round_is_stale_read(const struct wave *w, const struct request *r)
{
    return w->asker.stale && r->cmd->flags & CMD_READONLY && r->kind == REQUEST_ONE && r->shard;
}

static uint64_t leader_of(struct wave *w, uint32_t group)
{
    const struct relay_cluster *c = relay_wave_cluster(w);
    if (c->serves(c->ctx, group)) return c->self;
    uint64_t leader = c->leader(c->ctx, group);
    /* This node, but not yet: it has to catch up first. */
    return leader == c->self || !leader || !relay_message_reaches(w->rf, leader, group, w->round_ms) ? NOWHERE : leader;
}

static struct relay_place *place_of_group(struct relay_front *rf, uint32_t group)
{
    if (unlikely(group >= rf->n_places)) {
        rf->places = mem_resize(rf->places, (group + 1) * sizeof *rf->places);
        memset(rf->places + rf->n_places, 0, (group + 1 - rf->n_places) * sizeof *rf->places);
        rf->n_places = group + 1;
    }
    return &rf->places[group];
}

/* Where request i goes. All of a group go to the same place, though who leads may change meanwhile. */
static uint64_t place_of(struct wave *w, uint32_t i)
{
    const struct asked *a = &w->asked[i];
    struct relay_front *rf = w->rf;
    if (unlikely(a->group >= META_GROUPS_MAX)) return NOWHERE; /* there is no map yet */
    if (unlikely(w->asker.stale) && !a->struck && relay_round_is_stale_read(w, relay_wave_request(w, i))) return relay_wave_cluster(w)->self;
    struct relay_place *p = place_of_group(rf, a->group);
    if (p->round != rf->round) *p = (struct relay_place){rf->round, leader_of(w, a->group)};
    return p->node;
}

/* Of a request of own that is about to be added. What has a number must leave its record here, too, and be known again. */
static void add_ticket(struct wave *w, uint32_t i)
{
    uint32_t n = w->own.n_requests;
    if (n == w->cap_tickets) {
        w->cap_tickets = n ? n * 2 : 16;
        w->tickets = mem_resize(w->tickets, w->cap_tickets * sizeof *w->tickets);
    }
    w->own.tickets = w->tickets;
    relay_message_ticket(w, i, &w->tickets[n]);
}

static void place(struct wave *w, uint32_t i)
{
    struct asked *a = &w->asked[i];
    uint64_t node = place_of(w, i);
    if (node == NOWHERE) return;
    if (node == relay_wave_cluster(w)->self) {
        const struct request *r = relay_wave_request(w, i);
        add_here(w, i);
        if (unlikely(w->numbered)) add_ticket(w, i);
        task_add_to(&w->own, w->rf->front->worker.engine, a->group, r->cmd, relay_wave_argv(w, i), r->argc);
    } else if (!relay_message_add(relay_message_to(w, node, a->group), i)) {
        return;
    }
    a->state = ASKED_UNDER_WAY;
    w->under_way++;
}

/* Its keys have come to be in several groups: the wave ends before it, and its connection has it run over them (server/wide.h). Not if something behind it has gone by now, or may have: that would be done twice. */
static bool hand_back(struct wave *w, uint32_t i)
{
    if (w->asked[i].group != SEATING_MIXED || !w->asker.conn || relay_wave_request(w, i)->cmd->inner_at) return false;
    for (uint32_t k = i + 1; k < relay_wave_size(w); k++)
        if (w->asked[k].state != ASKED_OPEN || w->asked[k].unsure) return false;
    relay_message_free_numbers(w, i);
    w->end = w->first + i;
    relay_wave_task(w)->requests[w->end].group = SEATING_MIXED;
    return true;
}

/* The map may be another one since it was routed. */
static void find_groups_again(struct wave *w)
{
    struct task *t = &w->rf->finder;
    for (uint32_t i = 0; i < relay_wave_size(w); i++) {
        if (w->asked[i].state != ASKED_OPEN) continue;
        const struct request *r = relay_wave_request(w, i);
        task_clear(t);
        uint32_t group = task_add_to(t, w->rf->front->worker.engine, r->group, r->cmd, relay_wave_argv(w, i), r->argc)->group;
        if (group == w->asked[i].group && group < META_GROUPS_MAX) continue;
        if (w->asked[i].unsure) { /* another group does not know it */
            answer_uncertain(w, i);
            continue;
        }
        w->asked[i].group = group;
        w->asked[i].struck = false;
        if (!hand_back(w, i)) refuse(w, i);
    }
}

static uint32_t count_open(const struct wave *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < relay_wave_size(w); i++) n += w->asked[i].state == ASKED_OPEN;
    return n;
}

static void start_round(struct wave *w, int64_t now_ms)
{
    w->rf->round++;
    w->round_ms = now_ms;
    w->map = relay_map_version(w->rf);
    w->left = count_open(w);
    w->n_here = w->first_hold = w->next_hold = w->n_holds = 0;
    task_clear(&w->own);
    w->own.tickets = NULL;
    for (int struck = 0; struck < 2; struck++)
        for (uint32_t i = 0; i < relay_wave_size(w); i++)
            if (w->asked[i].state == ASKED_OPEN && w->asked[i].struck == struck) place(w, i);
    for (struct relay_message *m = w->messages; m; m = m->next) relay_message_write(m);
    if (w->n_here) start_own(w);
}

static bool is_routed_before(const struct wave *w)
{
    for (uint32_t i = 0; i < relay_wave_size(w); i++)
        if (relay_wave_request(w, i)->routed != relay_map_version(w->rf)) return true;
    return false;
}

void relay_round_begin(struct wave *w, int64_t now_ms)
{
    for (uint32_t i = 0; i < relay_wave_size(w); i++) refuse(w, i);
    if (unlikely(is_routed_before(w))) find_groups_again(w);
    start_round(w, now_ms);
}

/* ---- between rounds */

/* Whether a request that was lost can go again: not if one behind it, of the same group, has happened, or may have, and one of the two writes. */
static bool may_go_again(const struct wave *w, uint32_t i)
{
    for (uint32_t k = i + 1; k < relay_wave_size(w); k++)
        if (w->asked[k].group == w->asked[i].group && w->asked[k].happened && (relay_wave_writes(w, i) || relay_wave_writes(w, k))) return false;
    return true;
}

static void settle_lost(struct wave *w)
{
    for (uint32_t i = 0; i < relay_wave_size(w); i++) {
        if (w->asked[i].state != ASKED_LOST) continue;
        STAT_ADD(w->rf->counts.retried, 1);
        if (may_go_again(w, i)) w->asked[i].state = ASKED_OPEN;
        else if (w->asked[i].unsure) answer_uncertain(w, i);
        else answer_error(w, i, CALL_NOBODY, "TRYAGAIN the leader of this key's shard changed in the middle of a pipeline: nothing was done");
    }
}

/* How long to wait before the next round: not at all as long as some have their answer each time; nor if the map has changed since the round began, for it may say now where they are; nor the first time that one bounced, which told
 * who leads. One that was refused for an old map waits for a newer one, which ends the pause when it comes (relay_wave_mapped). */
static uint32_t pause_after(struct wave *w, uint32_t open)
{
    bool first = !w->pause_ms;
    uint32_t pause_ms = w->pause_ms;
    uint64_t map = relay_map_version(w->rf);
    if (open < w->left) return 0;
    if (map < w->needs_map) return PAUSE_MAX_MS;
    if (map != w->map) return 0;
    w->pause_ms = first ? PAUSE_MIN_MS : pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    return first && w->bounced ? 0 : first ? PAUSE_MIN_MS : pause_ms;
}

/* A round has ended. False: nothing is left to do. */
static bool plan_next(struct wave *w)
{
    int64_t now_ms = relay_now_ms();
    settle_lost(w);
    uint32_t open = count_open(w);
    if (!open || w->forgotten) return false;
    if (now_ms < w->deadline_ms && !relay_wave_stops(w)) {
        w->retry_ms = now_ms + pause_after(w, open);
        if (w->retry_ms > now_ms) relay_look_at(w->rf, w->retry_ms);
        return true;
    }
    for (uint32_t i = 0; i < relay_wave_size(w); i++)
        if (w->asked[i].state == ASKED_OPEN) answer_nobody(w, i);
    return false;
}

bool relay_round_go(struct wave *w)
{
    for (;;) {
        if (w->running) return false;
        settle_holds(w);
        if (w->under_way && !w->forgotten) return false;
        if (!w->paused && !plan_next(w)) return true;
        int64_t now_ms = relay_now_ms();
        w->paused = now_ms < w->retry_ms;
        if (w->paused) return false;
        find_groups_again(w);
        start_round(w, now_ms);
    }
}
