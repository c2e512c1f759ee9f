/* Waves of clients' requests.
 *
 * A wave goes in rounds. In a round every request that has no answer yet goes to where its group is led, all of a group to the same place: those of this node as one task, those of another node in
 * one message. When everything that was sent has come back, or is given up, the next round takes what is left, at once or after a pause, until nothing is left or the time is over. So a request never goes
 * again while one behind it, of the same group, is under way.
 *
 * Most waves need no rounds: when all requests are for groups that this node leads, they run as the connection's own task, and their replies are written where they belong. Such a wave is "whole". Only when
 * something comes in between, it is unfolded, and goes on in rounds. */
#include "server/relay_parts.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "server/stats.h"

enum {
    PAUSE_MIN_MS = 2, /* before a request goes again, doubling */
    PAUSE_MAX_MS = 50,
    PING_MS = 50,           /* between pings to a node that does not answer */
    SILENT_MS = 100,        /* a message of reads that has no answer for so long is given up when another node leads by now */
    SPARE_BYTES = 64 * 1024, /* buffers larger than this are not kept */
    SLOT_PING = 0xffffff,   /* of pings, which need none */
    NOWHERE = 0,
};

enum asked_state {
    ASKED_OPEN,      /* goes in the next round */
    ASKED_UNDER_WAY,
    ASKED_LOST,      /* it ran, or may have, to no effect: goes again if it is still its turn */
    ASKED_OVER,      /* has its reply */
};

struct asked { /* a request of an unfolded wave */
    uint32_t group;
    uint8_t state;
    bool here;   /* its reply is in here_out, else in replies */
    bool happened; /* or may have: those before it cannot go again */
    bool struck; /* its group has bounced: it goes last, so that it holds up no others */
    size_t at, n;
};

struct wave {
    struct wave *next, **back; /* of the front's, or of the spare ones */
    struct relay_front *rf;
    struct conn *conn;
    uint32_t first, end; /* requests of its batch */
    bool whole;
    bool running;        /* its task is on its way */
    bool forgotten;
    bool paused;         /* until retry_ms */
    bool bounced;        /* some request has */
    int64_t deadline_ms, round_ms; /* round_ms: when it began */
    int64_t retry_ms;    /* when the next round begins */
    uint32_t pause_ms;   /* after the next round without an answer */
    uint32_t left;       /* requests without an answer when the round began */
    /* Holds of what runs here: [first_hold, n_holds) of task, those before next_hold are settled. */
    struct task *task;   /* the connection's, or own */
    uint32_t first_hold, next_hold, n_holds;
    size_t out_from;     /* where their replies begin in the task's output */
    /* Unfolded: */
    struct asked *asked; /* [end - first] */
    uint32_t cap_asked;
    uint32_t under_way;
    struct task own;
    uint32_t *here, n_here, cap_here; /* requests of own */
    struct buf here_out, replies;
    size_t out_gap;      /* of a whole wave that was unfolded: what its holds' places are too high by */
    struct relay_message *messages;
};

struct relay_message { /* under way to another node */
    struct relay_message *next; /* of the wave */
    struct wave *wave;
    uint64_t id, peer;
    int64_t sent_ms;
    uint32_t group; /* of the first */
    bool writes;    /* one of them does */
    bool full;
    uint32_t n, cap;
    size_t bytes;
    uint32_t *requests; /* of the wave */
};

static const struct relay_cluster *cluster_of(const struct wave *w) { return &w->rf->relay->cluster; }
static struct task *batch_task(const struct wave *w) { return &w->conn->batch->task; }
static const struct request *request_of(const struct wave *w, uint32_t i) { return &batch_task(w)->requests[w->first + i]; }
static const struct slice *argv_of(const struct wave *w, uint32_t i) { return batch_task(w)->args + request_of(w, i)->first_arg; }
static uint32_t size_of(const struct wave *w) { return w->end - w->first; }
static bool is_write(const struct wave *w, uint32_t i) { return request_of(w, i)->cmd->flags & CMD_WRITE; }
static bool stops(const struct wave *w) { return w->rf->front->stopping; }

/* ---- life */

static struct wave *wave_new(struct conn *c, uint32_t end)
{
    struct relay_front *rf = c->front->relay;
    struct wave *w = rf->spare_waves;
    if (w) rf->spare_waves = w->next;
    else w = mem_zalloc(sizeof *w);
    w->rf = rf;
    w->conn = c;
    w->first = c->batch->task.pos;
    w->end = end;
    w->next = rf->waves;
    w->back = &rf->waves;
    if (w->next) w->next->back = &w->next;
    rf->waves = w;
    c->wave = w;
    c->away = true;
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
    mem_free(w);
}

static void empty(struct buf *b)
{
    b->len = 0;
    if (b->cap > SPARE_BYTES) buf_fini(b);
}

static void message_free(struct relay_message *m);

static void wave_put(struct wave *w)
{
    struct relay_front *rf = w->rf;
    while (w->messages) message_free(w->messages);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    task_clear(&w->own);
    empty(&w->here_out);
    empty(&w->replies);
    struct wave kept = {.own = w->own, .here_out = w->here_out, .replies = w->replies, .asked = w->asked, .cap_asked = w->cap_asked, .here = w->here, .cap_here = w->cap_here};
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

/* ---- messages */

static uint32_t take_slot(struct relay_front *rf)
{
    if (rf->n_free) return rf->free_slots[--rf->n_free];
    if (rf->n_slots == rf->cap_slots) {
        rf->cap_slots = rf->cap_slots ? rf->cap_slots * 2 : 64;
        rf->slots = mem_resize(rf->slots, rf->cap_slots * sizeof(struct relay_message *));
        rf->free_slots = mem_resize(rf->free_slots, rf->cap_slots * sizeof *rf->free_slots);
    }
    CHECK(rf->n_slots < SLOT_PING);
    return rf->n_slots++;
}

static struct relay_message *message_new(struct wave *w, uint64_t peer, uint32_t group)
{
    struct relay_front *rf = w->rf;
    struct relay_message *m = mem_zalloc(sizeof *m);
    uint32_t slot = take_slot(rf);
    m->wave = w;
    m->peer = peer;
    m->group = group;
    m->id = relay_code_id(rf->front->worker.id, slot, ++rf->serial);
    m->next = w->messages;
    w->messages = m;
    rf->slots[slot] = m;
    return m;
}

static void message_free(struct relay_message *m)
{
    struct relay_front *rf = m->wave->rf;
    struct relay_message **at = &m->wave->messages;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    uint32_t slot = relay_code_slot(m->id);
    rf->slots[slot] = NULL;
    rf->free_slots[rf->n_free++] = slot;
    mem_free(m->requests);
    mem_free(m);
}

static struct relay_message *message_find(const struct relay_front *rf, uint64_t id, uint64_t from)
{
    uint32_t slot = relay_code_slot(id);
    struct relay_message *m = slot < rf->n_slots ? rf->slots[slot] : NULL;
    return m && m->id == id && m->peer == from ? m : NULL;
}

static struct relay_message *message_to(struct wave *w, uint64_t peer, uint32_t group)
{
    for (struct relay_message *m = w->messages; m; m = m->next)
        if (m->peer == peer) return m;
    return message_new(w, peer, group);
}

/* False: the message is full, and so it is for all that follow. */
static bool message_add(struct relay_message *m, uint32_t i)
{
    struct wave *w = m->wave;
    size_t bytes = relay_args_bytes(argv_of(w, i), request_of(w, i)->argc) + RELAY_ARG_COST;
    m->full |= m->n && m->bytes + bytes > RELAY_ARGS_MAX;
    if (m->full) return false;
    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 16;
        m->requests = mem_resize(m->requests, m->cap * sizeof *m->requests);
    }
    m->requests[m->n++] = i;
    m->bytes += bytes;
    m->writes |= is_write(w, i);
    return true;
}

static void add_arg(struct relay_front *rf, uint32_t n, struct slice arg)
{
    if (n == rf->cap_argv) {
        rf->cap_argv = rf->cap_argv ? rf->cap_argv * 2 : 64;
        rf->argv = mem_resize(rf->argv, rf->cap_argv * sizeof *rf->argv);
    }
    rf->argv[n] = arg;
}

static void message_write(struct relay_message *m)
{
    struct wave *w = m->wave;
    struct relay_front *rf = w->rf;
    const struct conn *c = w->conn;
    uint32_t n = 0;
    rf->heads.len = 0;
    buf_room(&rf->heads, (size_t)m->n * RELAY_HEAD_BYTES); /* slices into it stay */
    for (uint32_t k = 0; k < m->n; k++) {
        const struct request *r = request_of(w, m->requests[k]);
        const struct slice *argv = argv_of(w, m->requests[k]);
        add_arg(rf, n++, slice_of(rf->heads.p + rf->heads.len, RELAY_HEAD_BYTES));
        relay_code_add_head(&rf->heads, (struct relay_head){r->argc, w->asked[m->requests[k]].group});
        for (uint32_t a = 0; a < r->argc; a++) add_arg(rf, n++, argv[a]);
    }
    struct wirecall_request call = {.id = m->id, .flags = c->no_touch ? RELAY_NO_TOUCH : 0, .timeout_ms = atomic_load(&rf->relay->timeout_ms), .db = c->db, .resp = c->resp, .argc = n};
    wirecall_add_request(&relay_peer(rf, m->peer)->frames, m->group, &call, rf->argv);
    m->sent_ms = w->round_ms;
    STAT_ADD(rf->counts.forwarded, m->n);
}

/* ---- replies */

static void answer(struct wave *w, uint32_t i, struct slice reply)
{
    struct asked *a = &w->asked[i];
    a->state = ASKED_OVER;
    a->here = false;
    a->at = w->replies.len;
    a->n = reply.n;
    buf_add_slice(&w->replies, reply);
}

static void __attribute__((format(printf, 3, 4))) answer_error(struct wave *w, uint32_t i, const char *fmt, ...)
{
    struct relay_front *rf = w->rf;
    struct buf text = {0}, line = {0};
    struct reply r = {.out = &line, .resp = w->conn->resp};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    buf_add_byte(&text, '\0');
    reply_error(&r, text.p);
    answer(w, i, buf_slice(&line));
    stats_note_error(rf->relay->server, &rf->front->worker, buf_slice(&line));
    buf_fini(&text);
    buf_fini(&line);
}

static void answer_uncertain(struct wave *w, uint32_t i)
{
    STAT_ADD(w->rf->counts.uncertain, 1);
    w->asked[i].happened = true;
    answer_error(w, i, "UNCERTAIN the leader of this key's shard was lost while the command was under way: it may have happened, or may yet");
}

static void answer_nobody(struct wave *w, uint32_t i)
{
    STAT_ADD(w->rf->counts.timed_out, 1);
    answer_error(w, i, "CLUSTERDOWN nobody leads the shard of this key: nothing was done");
}

/* What can never run here or there; true if it was that. */
static bool refuse(struct wave *w, uint32_t i)
{
    const struct request *r = request_of(w, i);
    const char *why = relay_unfit(r->cmd);
    if (why) answer_error(w, i, "ERR %s is not available in a cluster: it %s", r->cmd->name, why);
    else if (w->asked[i].group == SEATING_MIXED || w->asked[i].group == SEATING_NO_GROUP) answer_error(w, i, "CROSSSHARD keys of one command are in different shards: nothing was done");
    else if (relay_args_bytes(argv_of(w, i), r->argc) > RELAY_ARGS_MAX) answer_error(w, i, "ERR the arguments of one command exceed 8 MiB, which a cluster does not take");
    else return false;
    return true;
}

/* ---- unfolding */

/* Every request for itself. */
static void unfold(struct wave *w, enum asked_state state)
{
    uint32_t n = size_of(w);
    w->whole = false;
    if (n > w->cap_asked) {
        w->cap_asked = n < 16 ? 16 : n;
        w->asked = mem_resize(w->asked, w->cap_asked * sizeof *w->asked);
    }
    for (uint32_t i = 0; i < n; i++) w->asked[i] = (struct asked){.group = request_of(w, i)->group, .state = state};
}

static void add_here(struct wave *w, uint32_t i)
{
    if (w->n_here == w->cap_here) {
        w->cap_here = w->cap_here ? w->cap_here * 2 : 16;
        w->here = mem_resize(w->here, w->cap_here * sizeof *w->here);
    }
    w->here[w->n_here++] = i;
}

static void strike(struct wave *w, uint32_t group)
{
    STAT_ADD(w->rf->counts.bounced, 1);
    for (uint32_t i = 0; i < size_of(w); i++) w->asked[i].struck |= w->asked[i].group == group;
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
        *a = (struct asked){.group = a->group, .state = ASKED_OVER, .here = true, .happened = true, .at = from - w->out_gap, .n = h->reply_end - from};
        break;
    case SEAT_UNCERTAIN: answer_uncertain(w, i); break;
    default: a->state = ASKED_LOST;
    }
}

/* Something became of a request of a wave that was whole. Its replies stand behind those of earlier waves: they are taken from there. */
static void unfold_whole(struct wave *w)
{
    struct buf *out = &w->conn->out;
    unfold(w, ASKED_UNDER_WAY);
    w->under_way = size_of(w);
    for (uint32_t i = 0; i < size_of(w); i++) add_here(w, i);
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
        w->n_holds--;
        strike(w, w->asked[w->here[w->n_holds]].group);
        w->bounced = true;
    }
    for (uint32_t k = w->n_holds; k < w->n_here; k++) {
        w->asked[w->here[k]].state = ASKED_OPEN;
        w->under_way--;
    }
    relay_listen(w->rf);
}

static bool go_on(struct wave *w);
static void finish(struct wave *w);

static void own_came_home(struct worker *worker, struct task *t)
{
    struct wave *w = (struct wave *)((char *)t - offsetof(struct wave, own));
    own_ran(w);
    if (go_on(w)) finish(w);
}

static void start_own(struct wave *w)
{
    struct task *t = &w->own;
    const struct conn *c = w->conn;
    t->home = w->rf->front->worker.id;
    t->session = w->conn;
    t->finish = own_came_home;
    t->db = c->db;
    t->resp = c->resp;
    t->no_touch = c->no_touch;
    t->stale = c->stale;
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

/* ---- a round */

/* A node that was not heard of since its connection broke is asked whether it is there; by its relay, which has the messages of data groups. */
static bool is_reached(struct relay_front *rf, uint64_t peer, uint32_t group, int64_t now_ms)
{
    struct relay_peer *p = relay_peer(rf, peer);
    if (likely(p->reached)) return true;
    if (!p->ping || now_ms - p->ping_ms >= PING_MS) {
        struct slice none = {0};
        p->ping = relay_code_id(rf->front->worker.id, SLOT_PING, ++rf->serial);
        p->ping_ms = now_ms;
        wirecall_add_request(&p->frames, group, &(struct wirecall_request){.id = p->ping, .flags = RELAY_PING, .resp = 2, .argc = 1}, &none);
    }
    return false;
}

/* This replica is good enough for a client that said so. */
static bool is_stale_read(const struct wave *w, const struct request *r) { return w->conn->stale && r->cmd->flags & CMD_READONLY && r->kind == REQUEST_ONE && r->shard; }

static uint64_t leader_of(struct wave *w, uint32_t group)
{
    const struct relay_cluster *c = cluster_of(w);
    if (c->serves(c->ctx, group)) return c->self;
    uint64_t leader = c->leader(c->ctx, group);
    /* This node, but not yet: it has to catch up first. */
    return leader == c->self || !leader || !is_reached(w->rf, leader, group, w->round_ms) ? NOWHERE : leader;
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
    if (unlikely(w->conn->stale) && !a->struck && is_stale_read(w, request_of(w, i))) return cluster_of(w)->self;
    struct relay_place *p = place_of_group(rf, a->group);
    if (p->round != rf->round) *p = (struct relay_place){rf->round, leader_of(w, a->group)};
    return p->node;
}

static void place(struct wave *w, uint32_t i)
{
    struct asked *a = &w->asked[i];
    uint64_t node = place_of(w, i);
    if (node == NOWHERE) return;
    if (node == cluster_of(w)->self) {
        const struct request *r = request_of(w, i);
        add_here(w, i);
        task_add(&w->own, w->rf->front->worker.engine, r->cmd, argv_of(w, i), r->argc);
    } else if (!message_add(message_to(w, node, a->group), i)) {
        return;
    }
    a->state = ASKED_UNDER_WAY;
    w->under_way++;
}

/* The map may be another one since it was routed. */
static void find_groups_again(struct wave *w)
{
    struct task *t = &w->rf->finder;
    for (uint32_t i = 0; i < size_of(w); i++) {
        if (w->asked[i].state != ASKED_OPEN) continue;
        const struct request *r = request_of(w, i);
        task_clear(t);
        uint32_t group = task_add(t, w->rf->front->worker.engine, r->cmd, argv_of(w, i), r->argc)->group;
        if (group == w->asked[i].group) continue;
        w->asked[i].group = group;
        w->asked[i].struck = false;
        refuse(w, i);
    }
}

static uint32_t count_open(const struct wave *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < size_of(w); i++) n += w->asked[i].state == ASKED_OPEN;
    return n;
}

static void start_round(struct wave *w, int64_t now_ms)
{
    w->rf->round++;
    w->round_ms = now_ms;
    w->left = count_open(w);
    w->n_here = w->first_hold = w->next_hold = w->n_holds = 0;
    task_clear(&w->own);
    for (int struck = 0; struck < 2; struck++)
        for (uint32_t i = 0; i < size_of(w); i++)
            if (w->asked[i].state == ASKED_OPEN && w->asked[i].struck == struck) place(w, i);
    for (struct relay_message *m = w->messages; m; m = m->next) message_write(m);
    if (w->n_here) start_own(w);
}

/* ---- between rounds */

/* Whether a request that was lost can go again: not if one behind it, of the same group, has happened, or may have, and one of the two writes. */
static bool may_go_again(const struct wave *w, uint32_t i)
{
    for (uint32_t k = i + 1; k < size_of(w); k++)
        if (w->asked[k].group == w->asked[i].group && w->asked[k].happened && (is_write(w, i) || is_write(w, k))) return false;
    return true;
}

static void settle_lost(struct wave *w)
{
    for (uint32_t i = 0; i < size_of(w); i++) {
        if (w->asked[i].state != ASKED_LOST) continue;
        STAT_ADD(w->rf->counts.retried, 1);
        if (may_go_again(w, i)) w->asked[i].state = ASKED_OPEN;
        else answer_error(w, i, "TRYAGAIN the leader of this key's shard changed in the middle of a pipeline: nothing was done");
    }
}

/* How long to wait before the next round: not at all as long as some have their answer each time; nor the first time that one bounced, which told who leads. */
static uint32_t pause_after(struct wave *w, uint32_t open)
{
    bool first = !w->pause_ms;
    uint32_t pause_ms = w->pause_ms;
    if (open < w->left) return 0;
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
    if (now_ms < w->deadline_ms && !stops(w)) {
        w->retry_ms = now_ms + pause_after(w, open);
        if (w->retry_ms > now_ms) relay_look_at(w->rf, w->retry_ms);
        return true;
    }
    for (uint32_t i = 0; i < size_of(w); i++)
        if (w->asked[i].state == ASKED_OPEN) answer_nobody(w, i);
    return false;
}

/* Goes as far as it goes now. True: every request has its answer. */
static bool go_in_rounds(struct wave *w)
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

/* ---- a wave that is whole */

static bool is_here(struct wave *w, const struct request *r, uint32_t *last_group)
{
    const struct relay_cluster *c = cluster_of(w);
    if (relay_args_bytes(batch_task(w)->args + r->first_arg, r->argc) > RELAY_ARGS_MAX || relay_unfit(r->cmd)) return false;
    if (r->group == *last_group || (unlikely(w->conn->stale) && is_stale_read(w, r))) return true;
    if (r->group >= META_GROUPS_MAX || !c->serves(c->ctx, r->group)) return false;
    *last_group = r->group;
    return true;
}

static bool is_all_here(struct wave *w)
{
    uint32_t last_group = SEATING_NO_GROUP;
    for (uint32_t i = 0; i < size_of(w); i++)
        if (!is_here(w, request_of(w, i), &last_group)) return false;
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
        w->conn->out.len = w->n_holds > w->first_hold ? t->holds[w->n_holds - 1].reply_end : w->out_from;
    }
    STAT_ADD(w->rf->counts.here, w->n_holds - w->first_hold);
    if (t->pos > w->first) {
        w->end = t->pos;
        relay_listen(w->rf);
        return;
    }
    unfold(w, ASKED_OPEN);
    w->left = size_of(w);
    w->bounced = true;
    w->first_hold = w->n_holds = w->next_hold = 0;
    strike(w, w->asked[0].group);
}

static void whole_came_home(struct worker *worker, struct task *t)
{
    struct wave *w = ((struct conn *)t->session)->wave;
    whole_ran(w);
    if (go_on(w)) finish(w);
}

static void start_whole(struct wave *w)
{
    struct task *t = batch_task(w);
    conn_prepare_task(w->conn, w->end);
    t->finish = whole_came_home;
    w->whole = true;
    w->task = t;
    w->first_hold = w->next_hold = t->n_holds;
    w->out_from = w->conn->out.len;
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
            unfold_whole(w);
            return false;
        }
        w->next_hold++;
    }
    return true;
}

static bool go_on(struct wave *w)
{
    if (likely(w->whole) && whole_is_over(w)) return true;
    return !w->whole && go_in_rounds(w);
}

/* ---- the end */

static void put_replies(struct wave *w)
{
    struct buf *out = &w->conn->out;
    for (uint32_t i = 0; i < size_of(w); i++) {
        const struct asked *a = &w->asked[i];
        buf_add(out, (a->here ? w->here_out.p : w->replies.p) + a->at, a->n);
    }
    batch_task(w)->pos = w->end;
}

/* The connection has its answers, and goes on. */
static struct conn *end(struct wave *w)
{
    struct conn *c = w->conn;
    if (!w->whole && !w->forgotten) put_replies(w);
    c->wave = NULL;
    wave_put(w);
    return c;
}

static void finish(struct wave *w) { conn_wave_over(end(w)); }

bool relay_wants(const struct conn *c, uint32_t request)
{
    const struct task *t = &c->batch->task;
    const struct request *r = &t->requests[request];
    if (likely(r->group != SEATING_NO_GROUP)) return true;
    /* Keys that only a pattern names could be anywhere, and so could those of a command inside a command. */
    return r->cmd->class == CLASS_KEYED && (r->cmd->inner_at || command_keys(r->cmd, t->args + r->first_arg, r->argc, NULL, 0) > 0);
}

bool relay_run(struct conn *c, uint32_t end_at)
{
    struct wave *w = wave_new(c, end_at);
    int64_t now_ms = relay_now_ms();
    w->round_ms = now_ms;
    w->deadline_ms = now_ms + atomic_load_explicit(&w->rf->relay->timeout_ms, memory_order_relaxed);
    if (is_all_here(w)) {
        start_whole(w);
    } else {
        unfold(w, ASKED_OPEN);
        for (uint32_t i = 0; i < size_of(w); i++) refuse(w, i);
        start_round(w, now_ms);
    }
    if (!go_on(w)) return false;
    end(w)->away = false;
    return true;
}

void relay_forget(struct conn *c)
{
    struct wave *w = c->wave;
    w->forgotten = true;
    if (w->running) return;
    end(w)->away = false;
}

/* ---- what comes from elsewhere */

/* Nobody knows what became of it. */
static void lose(struct wave *w, uint32_t i)
{
    w->under_way--;
    if (is_write(w, i)) answer_uncertain(w, i);
    else w->asked[i].state = ASKED_LOST;
}

static void lose_message(struct relay_message *m)
{
    for (uint32_t k = 0; k < m->n; k++)
        if (m->wave->asked[m->requests[k]].state == ASKED_UNDER_WAY) lose(m->wave, m->requests[k]);
    message_free(m);
}

static void take_answer(struct relay_message *m, uint32_t i, enum wirecall_status status, struct slice reply)
{
    struct wave *w = m->wave;
    switch (status) {
    case WIRECALL_DONE:
        answer(w, i, reply);
        w->asked[i].happened = true;
        break;
    case WIRECALL_UNCERTAIN: answer_uncertain(w, i); break;
    case WIRECALL_MUSTRETRY: w->asked[i].state = ASKED_LOST; break;
    case WIRECALL_TRYAGAIN: w->asked[i].state = ASKED_OPEN; break;
    case WIRECALL_NOT_LEADER:
    case WIRECALL_NO_GROUP:
        w->asked[i].state = ASKED_OPEN;
        strike(w, w->asked[i].group);
        w->bounced = true;
        break;
    }
    w->under_way--;
}

static void take_answers(struct relay_message *m, const struct wirecall_answer *a)
{
    const struct relay_cluster *c = cluster_of(m->wave);
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

static void wake_waves(struct relay_front *rf);

void relay_wave_answered(struct relay_front *rf, uint64_t from, struct slice message)
{
    struct wirecall_answer a;
    if (wirecall_get_answer(message, &a) < 0) return;
    struct relay_peer *p = relay_peer(rf, from);
    if (relay_code_slot(a.id) == SLOT_PING) {
        if (a.id != p->ping) return;
        p->reached = true;
        wake_waves(rf);
        return;
    }
    struct relay_message *m = message_find(rf, a.id, from);
    if (!m) return; /* given up */
    struct wave *w = m->wave;
    take_answers(m, &a);
    if (go_on(w)) finish(w);
}

/* For each wave, some of which may end by it. Others do not end by the end of one: connections that come back run later. */
static void for_each(struct relay_front *rf, void (*fn)(struct wave *w, int64_t now_ms), int64_t now_ms)
{
    for (struct wave *w = rf->waves, *next; w; w = next) {
        next = w->next;
        if (fn) fn(w, now_ms);
        if (go_on(w)) finish(w);
    }
}

static void wake(struct wave *w, int64_t now_ms) { w->retry_ms = now_ms; }
static void wake_waves(struct relay_front *rf) { for_each(rf, wake, relay_now_ms()); }

void relay_wave_news(struct relay_front *rf) { for_each(rf, NULL, 0); }

void relay_wave_peer_down(struct relay_front *rf, uint64_t peer)
{
    for (struct wave *w = rf->waves, *next; w; w = next) {
        next = w->next;
        struct relay_message *m = w->messages;
        while (m && m->peer != peer) m = m->next;
        if (!m) continue;
        lose_message(m);
        if (go_on(w)) finish(w);
    }
}

/* ---- time */

/* A message that only reads, to a node that does not lead any more: nothing is lost by asking the new one. */
static bool is_vain(const struct relay_message *m, int64_t now_ms)
{
    const struct relay_cluster *c = cluster_of(m->wave);
    if (m->writes || now_ms - m->sent_ms < SILENT_MS) return false;
    uint64_t leader = c->leader(c->ctx, m->group);
    return leader && leader != m->peer;
}

/* Holds have no outcome for too long. */
static void lose_holds(struct wave *w)
{
    if (w->whole) unfold_whole(w);
    for (uint32_t k = w->next_hold; k < w->n_holds; k++) {
        uint32_t i = w->here[k - w->first_hold];
        if (w->asked[i].state == ASKED_UNDER_WAY) lose(w, i);
    }
    w->next_hold = w->n_holds;
}

static void check_time(struct wave *w, int64_t now_ms)
{
    int64_t limit_ms = stops(w) ? RELAY_STOP_MS : atomic_load_explicit(&w->rf->relay->timeout_ms, memory_order_relaxed);
    bool late = now_ms - w->round_ms > limit_ms;
    for (struct relay_message *m = w->messages, *next; m; m = next) {
        next = m->next;
        if (late || is_vain(m, now_ms)) lose_message(m);
    }
    if (late && !w->running) lose_holds(w);
    if (w->paused && stops(w)) w->retry_ms = now_ms;
    if (w->paused) relay_look_at(w->rf, w->retry_ms);
}

void relay_wave_time(struct relay_front *rf, int64_t now_ms) { for_each(rf, check_time, now_ms); }
