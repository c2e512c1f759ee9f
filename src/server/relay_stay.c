/* Stays: commands that wait in this node, the leader of their group; see relay_wait.c.
 *
 *   RUNNING  its first attempt is on its way. It may find something, bounce, or leave a waiter in line.
 *   IN_LINE  the waiter is there (shard/wait.h).
 *   CALLED   of an asker on another node: it is its turn, and the asker was told. Nothing is done before it says so.
 *   TRYING   it did: the attempt is on its way.
 *   HELD     it has its reply, which waits for its entry to be committed.
 *
 * An asker of this very front needs no call: the waiter is tried as soon as a key is ready. */
#include <stddef.h>

#include "base/le.h"
#include "base/mem.h"
#include "server/relay_wait.h"

enum {
    BUCKETS = 1024,    /* of stays by number, a power of two */
    CALL_MS = 2000,    /* an asker that says nothing for so long loses its turn, and its place: others wait behind it */
};

enum stay_state { RUNNING, IN_LINE, CALLED, TRYING, HELD };

struct stay {
    struct task task; /* its first attempt */
    struct stay *next, **back;       /* of the front's */
    struct stay *same, **same_back;  /* of the bucket */
    struct relay_front *rf;
    struct relay_wait *asker;    /* of this front; NULL: of another node, or nobody */
    struct relay_letter *letter; /* of another node: its bytes are the arguments; NULL: it is of this one */
    char *bytes;                 /* of this node: the arguments' */
    struct ticket ticket;        /* of another node */
    uint64_t from, id;
    uint32_t group;
    enum stay_state state;
    bool leaving; /* nobody wants it any more */
    bool early;   /* it was its turn before the first attempt came home */
    bool over;    /* the reign is: it is to end as soon as it can */
    struct waiter *waiter;
    struct hold hold; /* of the first attempt: the reign in which it waits; then of the reply */
    struct buf out;
    int64_t since_ms; /* in this state */
};

static struct worker *worker_of(const struct stay *s) { return &s->rf->front->worker; }
static bool is_remote(const struct stay *s) { return s->letter != NULL; }

/* ---- life */

static struct stay **bucket(struct relay_front *rf, uint64_t from, uint64_t id)
{
    if (!rf->stays_by_id) rf->stays_by_id = mem_zalloc(BUCKETS * sizeof(struct stay *));
    return &rf->stays_by_id[((id >> 40) + id + from) & (BUCKETS - 1)];
}

static struct stay *find(struct relay_front *rf, uint64_t from, uint64_t id)
{
    struct stay *s = *bucket(rf, from, id);
    while (s && (s->from != from || s->id != id)) s = s->same;
    return s;
}

static struct stay *stay_new(struct relay_front *rf, uint64_t from, uint64_t id, uint32_t group)
{
    struct stay *s = mem_zalloc(sizeof *s), **same = bucket(rf, from, id);
    s->rf = rf;
    s->from = from;
    s->id = id;
    s->group = group;
    s->next = rf->stays;
    s->back = &rf->stays;
    if (s->next) s->next->back = &s->next;
    rf->stays = s;
    s->same = *same;
    s->same_back = same;
    if (s->same) s->same->same_back = &s->same;
    *same = s;
    return s;
}

static void stay_free(struct stay *s)
{
    *s->back = s->next;
    if (s->next) s->next->back = s->back;
    *s->same_back = s->same;
    if (s->same) s->same->same_back = s->same_back;
    if (s->state == HELD) s->rf->n_held_stays--;
    task_fini(&s->task);
    buf_fini(&s->out);
    mem_free(s->letter);
    mem_free(s->bytes);
    mem_free(s);
}

static void set_state(struct stay *s, enum stay_state state)
{
    s->state = state;
    s->since_ms = relay_now_ms();
    if (state == HELD) s->rf->n_held_stays++;
}

/* ---- what the asker is told */

static void tell_node(struct relay_front *rf, uint64_t to, uint32_t group, const struct wirecall_answer *a) { wirecall_add_answer(&relay_peer(rf, to)->frames, group, a); }

static void tell_waits(struct stay *s)
{
    struct buf reply = {0};
    le_add_u64(&reply, (uint64_t)s->waiter->timeout_ms);
    if (is_remote(s)) tell_node(s->rf, s->from, s->group, &(struct wirecall_answer){.id = s->id, .status = WIRECALL_WAITS, .reply = buf_slice(&reply)});
    else if (s->asker) relay_wait_told(s->asker, WIRECALL_WAITS, buf_slice(&reply));
    buf_fini(&reply);
}

static void tell_turn(const struct stay *s) { tell_node(s->rf, s->from, s->group, &(struct wirecall_answer){.id = s->id, .status = WIRECALL_TURN}); }

static void tell_node_end(struct relay_front *rf, uint64_t to, uint64_t id, uint32_t group, enum wirecall_status status, struct slice reply)
{
    const struct relay_cluster *c = &rf->relay->cluster;
    struct buf body = {0};
    uint64_t leader = status == WIRECALL_NOT_LEADER ? c->leader(c->ctx, group) : 0;
    relay_code_add_answer(&body, status, reply);
    tell_node(rf, to, group, &(struct wirecall_answer){.id = id, .status = WIRECALL_DONE, .leader = leader == c->self ? 0 : leader, .reply = buf_slice(&body)});
    buf_fini(&body);
}

/* It is over: the asker is told, and the stay is gone. */
static void end(struct stay *s, enum wirecall_status status)
{
    struct slice reply = status == WIRECALL_DONE ? buf_slice(&s->out) : slice_of(NULL, 0);
    CHECK(!s->waiter);
    if (is_remote(s) && !s->leaving) tell_node_end(s->rf, s->from, s->id, s->group, status, reply);
    struct relay_wait *asker = s->asker;
    if (!asker) {
        stay_free(s);
        return;
    }
    struct buf kept = s->out; /* the asker may be asking anew before this returns */
    s->out = (struct buf){0};
    stay_free(s);
    relay_wait_told(asker, status, reply);
    buf_fini(&kept);
}

/* ---- the reply */

static enum wirecall_status status_of(const struct stay *s, enum seat_outcome o)
{
    switch (o) {
    case SEAT_DONE: return WIRECALL_DONE;
    case SEAT_LOST: return WIRECALL_MUSTRETRY;
    case SEAT_UNCERTAIN: return WIRECALL_UNCERTAIN;
    case SEAT_WAIT: break;
    }
    return s->hold.wrote ? WIRECALL_UNCERTAIN : WIRECALL_MUSTRETRY; /* given up */
}

static void settle(struct stay *s, bool give_up)
{
    enum seat_outcome o = relay_outcome(s->rf, &s->hold);
    if (o != SEAT_WAIT || give_up) end(s, status_of(s, o));
}

static void hold_reply(struct stay *s, const struct hold *h)
{
    s->hold = *h;
    set_state(s, HELD);
    relay_listen(s->rf);
    settle(s, false);
}

/* ---- giving up */

/* False: not now. It is tried again later. */
static bool leave_line(struct stay *s)
{
    struct waiter *wt = s->waiter;
    if (s->state == CALLED) wait_cancel_claimed(worker_of(s), wt);
    else if (s->state != IN_LINE || !wait_cancel(worker_of(s), wt)) return false;
    s->waiter = NULL;
    return true;
}

static void end_if_unwanted(struct stay *s)
{
    if ((s->leaving || s->over) && leave_line(s)) end(s, WIRECALL_NOT_LEADER);
}

bool relay_stay_leave(struct stay *s)
{
    if (!leave_line(s)) return false;
    s->asker = NULL;
    end(s, WIRECALL_TRYAGAIN);
    return true;
}

void relay_stay_forget(struct stay *s)
{
    s->asker = NULL;
    s->leaving = true;
    end_if_unwanted(s);
}

/* ---- in line */

static void stand_in_line(struct stay *s)
{
    set_state(s, IN_LINE);
    tell_waits(s);
}

static void on_turn(struct worker *w, struct waiter *wt)
{
    struct stay *s = wt->owner;
    if (s->state == RUNNING) {
        s->early = true;
        return;
    }
    set_state(s, CALLED);
    if (s->leaving || s->over) end_if_unwanted(s);
    else tell_turn(s);
}

/* Of an attempt that came home: served, bounced, or of no avail. */
static void on_served(struct worker *w, struct waiter *wt)
{
    struct stay *s = wt->owner;
    if (s->state == RUNNING) {
        wt->came_early = true;
        return;
    }
    if (atomic_load(&wt->state) == WAIT_ATTEMPT) {
        set_state(s, CALLED); /* the turn is still its own */
        if (s->leaving || s->over) {
            end_if_unwanted(s);
        } else {
            stand_in_line(s);
            wait_rejoin(w, wt);
        }
        return;
    }
    struct hold h = wt->task.holds[wt->task.n_holds - 1];
    buf_fini(&s->out);
    s->out = wt->answer;
    wt->answer = (struct buf){0};
    s->waiter = NULL;
    wait_free(wt);
    if (h.bounced) end(s, WIRECALL_NOT_LEADER);
    else hold_reply(s, &h);
}

/* ---- the first attempt */

static void ran(struct stay *s)
{
    struct task *t = &s->task;
    CHECK(t->n_holds == 1);
    const struct hold *h = &t->holds[0];
    if (!t->blocked) {
        if (h->bounced) end(s, WIRECALL_NOT_LEADER);
        else hold_reply(s, h);
        return;
    }
    s->waiter = t->blocked;
    s->hold = *h;
    s->over = h->bounced;
    stand_in_line(s);
    if (s->waiter->came_early) on_served(worker_of(s), s->waiter);
    else if (s->early) on_turn(worker_of(s), s->waiter);
    else end_if_unwanted(s);
}

static void came_home(struct worker *w, struct task *t) { ran(t->owner); }

static void start(struct stay *s, const struct relay_wait_command *c, const struct command *cmd)
{
    struct task *t = &s->task;
    t->tickets = is_remote(s) ? &s->ticket : NULL;
    task_add(t, worker_of(s)->engine, cmd, c->argv, c->argc);
    t->home = worker_of(s)->id;
    t->finish = came_home;
    t->served = on_served;
    t->turn = is_remote(s) ? on_turn : NULL;
    t->owner = s;
    t->db = c->db;
    t->resp = c->resp;
    t->no_touch = c->no_touch;
    t->out = &s->out;
    t->end = 1;
    set_state(s, RUNNING);
    STAT_ADD(s->rf->counts.here, !is_remote(s));
    if (task_start(worker_of(s), t)) ran(s);
}

/* ---- askers of this front */

struct stay *relay_stay_begin(struct relay_front *rf, const struct relay_wait_command *c, struct relay_wait *asker)
{
    uint64_t self = rf->relay->cluster.self, id = relay_code_id(rf->front->worker.id, 0, ++rf->serial);
    while (find(rf, self, id)) id = relay_code_id(rf->front->worker.id, 0, ++rf->serial);
    struct stay *s = stay_new(rf, self, id, c->group);
    struct relay_wait_command own = *c;
    struct slice *argv = mem_alloc(c->argc * sizeof *argv);
    size_t bytes = 1;
    for (uint32_t i = 0; i < c->argc; i++) bytes += c->argv[i].n;
    char *p = s->bytes = mem_alloc(bytes);
    for (uint32_t i = 0; i < c->argc; i++, p += argv[i - 1].n) {
        if (c->argv[i].n) memcpy(p, c->argv[i].p, c->argv[i].n);
        argv[i] = slice_of(p, c->argv[i].n);
    }
    own.argv = argv;
    s->asker = asker;
    start(s, &own, command_find(rf->front->worker.engine->commands, argv[0]));
    mem_free(argv);
    return find(rf, self, id);
}

/* ---- askers of other nodes */

/* As for a guest's; NULL: it is fine. */
static const char *why_not(const struct command *cmd, uint32_t argc)
{
    if (!cmd || !(cmd->flags & CMD_BLOCKING) || cmd->class != CLASS_KEYED) return "ERR unknown command on the node that leads its shard";
    return command_arity_ok(cmd, argc) ? NULL : "ERR wrong number of arguments on the node that leads its shard";
}

static void refuse(struct relay_front *rf, const struct relay_letter *l, const struct wirecall_request *call, const char *why)
{
    struct buf line = {0};
    struct reply r = {.out = &line, .resp = call->resp};
    reply_error(&r, why);
    tell_node_end(rf, l->from, call->id, l->group, WIRECALL_DONE, buf_slice(&line));
    buf_fini(&line);
}

static void begin(struct relay_front *rf, struct relay_letter *l, const struct wirecall_request *call, const struct slice *argv)
{
    struct relay_head h;
    uint32_t at = 0;
    if (!relay_code_head(argv, call->argc, &at, &h) || call->db >= STORE_DBS || find(rf, l->from, call->id)) {
        mem_free(l); /* its asker's time-out says so */
        return;
    }
    const struct command *cmd = command_find(rf->front->worker.engine->commands, argv[at]);
    const char *why = why_not(cmd, h.argc);
    bool loading = atomic_load_explicit(&rf->relay->server->loading, memory_order_acquire);
    STAT_ADD(rf->counts.guests, 1);
    if (why || loading) {
        if (why) refuse(rf, l, call, why);
        else tell_node_end(rf, l->from, call->id, l->group, WIRECALL_TRYAGAIN, slice_of(NULL, 0));
        mem_free(l);
        return;
    }
    struct stay *s = stay_new(rf, l->from, call->id, l->group);
    s->letter = l;
    s->ticket = (struct ticket){.map = call->map, .range = h.range, .generation = h.generation, .group = h.group};
    start(s, &(struct relay_wait_command){.group = l->group, .argc = h.argc, .argv = argv + at, .db = (uint16_t)call->db, .resp = call->resp, .no_touch = call->flags & RELAY_NO_TOUCH}, cmd);
}

/* The number of a stay that is not there any more: without a word of its asker nothing was done for it, and it was told; but that may have been lost. */
static void miss(struct relay_front *rf, const struct relay_letter *l, const struct wirecall_request *call)
{
    if (!(call->flags & RELAY_WAIT_LEAVE)) tell_node_end(rf, l->from, call->id, l->group, WIRECALL_TRYAGAIN, slice_of(NULL, 0));
}

static void say(struct stay *s, uint32_t flags)
{
    if (flags & RELAY_WAIT_LEAVE) {
        relay_stay_forget(s);
    } else if (s->state == CALLED) {
        if (!(flags & RELAY_WAIT_GO)) {
            tell_turn(s); /* it may have been lost */
            return;
        }
        set_state(s, TRYING);
        wait_go(worker_of(s), s->waiter);
    }
}

void relay_stay_message(struct relay_front *rf, struct relay_letter *l, const struct wirecall_request *call, const struct slice *argv)
{
    if (call->flags & RELAY_WAIT) {
        begin(rf, l, call, argv);
        return;
    }
    struct stay *s = find(rf, l->from, call->id);
    if (s) say(s, call->flags);
    else miss(rf, l, call);
    mem_free(l);
}

/* ---- what happens meanwhile */

void relay_stay_peer_down(struct relay_front *rf, uint64_t peer)
{
    for (struct stay *s = rf->stays, *next; s; s = next) {
        next = s->next;
        if (is_remote(s) && s->from == peer) relay_stay_forget(s);
    }
}

void relay_stay_news(struct relay_front *rf)
{
    if (!rf->n_held_stays) return;
    for (struct stay *s = rf->stays, *next; s; s = next) {
        next = s->next;
        if (s->state == HELD) settle(s, false);
    }
}

/* Whether the reign has ended in which it began to wait. */
static bool is_over(struct stay *s)
{
    const struct relay_cluster *c = &s->rf->relay->cluster;
    return s->over || !c->serves(c->ctx, s->group) || relay_outcome(s->rf, &s->hold) == SEAT_LOST;
}

/* Whether its keys are still the group's. */
static bool has_moved(struct stay *s)
{
    const struct task *own = &s->waiter->task;
    const struct request *r = &own->requests[0];
    struct task *t = &s->rf->finder;
    task_clear(t);
    return task_add(t, worker_of(s)->engine, r->cmd, own->args + r->first_arg, r->argc)->group != s->group;
}

void relay_stay_mapped(struct relay_front *rf)
{
    for (struct stay *s = rf->stays, *next; s; s = next) {
        next = s->next;
        if (s->state != IN_LINE && s->state != CALLED) continue;
        s->over |= has_moved(s);
        end_if_unwanted(s);
    }
}

void relay_stay_time(struct relay_front *rf, int64_t now_ms)
{
    int64_t limit_ms = atomic_load_explicit(&rf->relay->timeout_ms, memory_order_relaxed);
    for (struct stay *s = rf->stays, *next; s; s = next) {
        next = s->next;
        if (s->state == HELD) {
            settle(s, now_ms - s->since_ms > limit_ms);
        } else if (s->state == IN_LINE || s->state == CALLED) {
            s->over = is_over(s) || (s->state == CALLED && now_ms - s->since_ms > CALL_MS);
            end_if_unwanted(s);
        }
    }
}

void relay_stay_fini(struct relay_front *rf)
{
    while (rf->stays) {
        struct stay *s = rf->stays;
        if (s->waiter) wait_abandon(s->waiter);
        stay_free(s);
    }
    mem_free(rf->stays_by_id);
}
