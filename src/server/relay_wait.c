/* Commands that wait, in a cluster.
 *
 * Two objects, each of one front's thread:
 *   the wait (here)           of a client, on the node that it is connected to. It has the command, the client's time, and knows whom it asked.
 *   the stay (relay_stay.c)   on the node that leads the keys' group. It has the waiter (shard/wait.h), which stands in line at the keys with those of all other clients of the cluster, in the order in which they came.
 * The client's pipeline stops at such a command: it goes alone, when everything before it is answered, and nothing behind it runs before it has its answer.
 *
 * Nothing is taken from a key but by the word of the wait: once by the request itself, whose first attempt takes what is there, and then each time it is the stay's turn. So in between, when the command merely waits, whatever ends
 * the stay or the wait ends it without effect, and nobody has to be asked what became of it: not when the client's time is over, when it leaves or is unblocked, when the link breaks, when the leader is lost.
 *
 *     wait                                   stay
 *     SEEKS   looks for the leader
 *     ASKED   -- the command -->             tries: there is something, or it stands in line
 *     WAITS   <-- waits, its time-out --
 *             <-- it is your turn --         is first in line, and a key is ready. It keeps its place, and nobody behind it is served
 *     GOES    -- go -->                      tries: has it, or somebody without patience (LPOP) was faster, and it waits again
 *             <-- the reply --               when its entry is committed
 *
 * What ends it before the reply:
 *   the client's time is over,   WAITS: its answer is nil, and the stay is told to leave. ASKED, GOES: it is asked what it is going to be, which takes a moment; if that is to wait, it leaves.
 *   CLIENT UNBLOCK               likewise, but ASKED and GOES: it comes too late
 *   the client is gone           the stay is told to leave. A turn that comes for a wait that is not there any more is answered so, too: what it was for is the next one's
 *   the reign ends               the stay ends, and says so; the wait looks for the new leader, with what is left of its time, and stands at the end of the line there. So it does for a stay that bounced, or lost its place
 *   the link breaks              the stay leaves by itself. WAITS: as when the reign ends. ASKED, GOES: a write was under way, its fate is unknown: UNCERTAIN
 *   nobody leads                 for as long as the time-out of requests: CLUSTERDOWN, nothing happened
 * A frame may be lost without the link breaking, when it is overloaded: a wait asks from time to time whether its stay is there, and gets the last word again.
 *
 * If this node leads, the stay is on the same front and needs no word: it is tried at once when a key is ready. */
#include "server/relay_wait.h"

#include <stddef.h>

#include "base/le.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "server/relay_wave.h"
#include "server/stats.h"

enum {
    BUCKETS = 1024,       /* of waits by number, a power of two */
    SLOT_WAIT = 0xfffffe, /* of the numbers of waits */
    PAUSE_MIN_MS = 2,     /* before the leader is looked for again, doubling */
    PAUSE_MAX_MS = 50,
    THERE_MS = 5000,      /* between questions whether the stay is there */
};

enum state { SEEKS, ASKED, WAITS, GOES };

struct relay_wait {
    struct relay_wait *next, **back;      /* of the front's */
    struct relay_wait *same, **same_back; /* of the bucket; same_back is NULL: in none */
    struct relay_front *rf;
    struct conn *conn;
    const struct command *cmd;
    struct slice *argv; /* [argc], then their bytes */
    uint32_t argc, group;
    enum state state;
    uint64_t id, peer;  /* of what was asked, and whom; 0: a stay of this front */
    struct stay *stay;
    int64_t since_ms;   /* in this state */
    int64_t seeks_ms;   /* since when it is neither in line nor served: somebody must lead before its time-out */
    int64_t retry_ms, there_ms;
    uint32_t pause_ms;
    bool timed;         /* its time-out is known */
    bool expired;       /* and over */
    bool asking;        /* a stay of this front is being made: what it tells is kept until that is done */
    bool has_verdict;
    enum wirecall_status verdict;
    struct buf told;
};

static const struct relay_cluster *cluster_of(const struct relay_wait *w) { return &w->rf->relay->cluster; }

/* ---- life */

static struct relay_wait **bucket(struct relay_front *rf, uint64_t id)
{
    if (!rf->waits_by_id) rf->waits_by_id = mem_zalloc(BUCKETS * sizeof(struct relay_wait *));
    return &rf->waits_by_id[(id >> 40) & (BUCKETS - 1)];
}

static struct relay_wait *find(struct relay_front *rf, uint64_t id)
{
    struct relay_wait *w = *bucket(rf, id);
    while (w && w->id != id) w = w->same;
    return w;
}

static void forget_number(struct relay_wait *w)
{
    if (!w->same_back) return;
    *w->same_back = w->same;
    if (w->same) w->same->same_back = w->same_back;
    w->same_back = NULL;
    w->id = w->peer = 0;
}

static void take_number(struct relay_wait *w, uint64_t peer)
{
    struct relay_front *rf = w->rf;
    do w->id = relay_code_id(rf->front->worker.id, SLOT_WAIT, ++rf->serial);
    while (find(rf, w->id));
    struct relay_wait **same = bucket(rf, w->id);
    w->same = *same;
    w->same_back = same;
    if (w->same) w->same->same_back = &w->same;
    *same = w;
    w->peer = peer;
}

static struct relay_wait *wait_new(struct conn *c)
{
    struct relay_front *rf = c->front->relay;
    const struct task *t = &c->batch->task;
    const struct request *r = &t->requests[t->pos];
    const struct slice *argv = t->args + r->first_arg;
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->argc; i++) bytes += argv[i].n;
    struct relay_wait *w = mem_zalloc(sizeof *w);
    w->rf = rf;
    w->conn = c;
    w->cmd = r->cmd;
    w->argc = r->argc;
    w->group = r->group;
    w->argv = mem_alloc(r->argc * sizeof *w->argv + bytes);
    char *p = (char *)(w->argv + r->argc);
    for (uint32_t i = 0; i < r->argc; i++) {
        if (argv[i].n) memcpy(p, argv[i].p, argv[i].n);
        w->argv[i] = slice_of(p, argv[i].n);
        p += argv[i].n;
    }
    w->next = rf->waits;
    w->back = &rf->waits;
    if (w->next) w->next->back = &w->next;
    rf->waits = w;
    return w;
}

static void wait_put(struct relay_wait *w)
{
    forget_number(w);
    *w->back = w->next;
    if (w->next) w->next->back = w->back;
    buf_fini(&w->told);
    mem_free(w->argv);
    mem_free(w);
}

static void set_state(struct relay_wait *w, enum state state)
{
    w->state = state;
    w->since_ms = relay_now_ms();
}

/* ---- the client */

/* Whether others see it wait, and messages may be pushed to it: from when it first stood in line to its end. */
static void show(struct relay_wait *w, bool waits)
{
    struct conn *c = w->conn;
    if (atomic_load_explicit(&c->waits, memory_order_relaxed) == waits) return;
    atomic_store(&c->waits, waits);
    if (waits) atomic_fetch_add(&w->rf->relay->server->blocked, 1);
    else atomic_fetch_sub(&w->rf->relay->server->blocked, 1);
}

/* The connection has nothing to do with it any more. */
static struct conn *detach(struct relay_wait *w)
{
    struct conn *c = w->conn;
    show(w, false);
    front_set_timer(c->front, c, 0);
    c->wait = NULL;
    c->reply_from = c->out.len;
    wait_put(w);
    return c;
}

/* Each of these ends the wait. The reply goes behind what messages were pushed meanwhile. */
static void end_with(struct relay_wait *w, struct slice reply)
{
    struct buf kept = w->told;
    w->told = (struct buf){0};
    struct conn *c = detach(w);
    buf_add_slice(&c->out, reply);
    buf_fini(&kept);
    conn_wave_over(c);
}

static void end_with_error(struct relay_wait *w, const char *text)
{
    struct relay_front *rf = w->rf;
    struct buf line = {0};
    struct reply r = {.out = &line, .resp = w->conn->resp};
    reply_error(&r, text);
    stats_note_error(rf->relay->server, &rf->front->worker, buf_slice(&line));
    end_with(w, buf_slice(&line));
    buf_fini(&line);
}

static void end_uncertain(struct relay_wait *w)
{
    STAT_ADD(w->rf->counts.uncertain, 1);
    end_with_error(w, "UNCERTAIN the leader of this key's shard was lost while the command was under way: it may have happened, or may yet");
}

static void end_unserved(struct relay_wait *w, bool with_error)
{
    const struct command *cmd = w->cmd;
    struct conn *c = detach(w);
    conn_add_unserved(c, with_error ? NULL : cmd);
    conn_wave_over(c);
}

/* ---- words to the leader's node */

static void say(struct relay_wait *w, uint32_t flags)
{
    struct slice none = {0};
    wirecall_add_request(&relay_peer(w->rf, w->peer)->frames, w->group, &(struct wirecall_request){.id = w->id, .flags = flags, .resp = 2, .argc = 1}, &none);
}

static void say_to(struct relay_front *rf, uint64_t peer, uint64_t id, uint32_t flags)
{
    struct slice none = {0};
    wirecall_add_request(&relay_peer(rf, peer)->frames, META_FIRST_DATA_GROUP, &(struct wirecall_request){.id = id, .flags = flags, .resp = 2, .argc = 1}, &none);
}

static void send_command(struct relay_wait *w, uint64_t peer)
{
    struct relay_front *rf = w->rf;
    const struct conn *c = w->conn;
    struct buf head = {0};
    struct slice *argv = mem_alloc((w->argc + 1) * sizeof *argv);
    struct ticket fence;
    task_fence(relay_engine(rf), w->cmd, w->argv, w->argc, &fence);
    relay_code_add_head(&head, (struct relay_head){.argc = w->argc, .group = w->group, .range = fence.range, .generation = fence.generation});
    argv[0] = buf_slice(&head);
    memcpy(argv + 1, w->argv, w->argc * sizeof *argv);
    take_number(w, peer);
    struct wirecall_request call = {.id = w->id, .flags = RELAY_WAIT | (c->no_touch ? RELAY_NO_TOUCH : 0), .map = fence.map, .timeout_ms = atomic_load(&rf->relay->timeout_ms), .db = c->db, .resp = c->resp, .argc = w->argc + 1};
    wirecall_add_request(&relay_peer(rf, peer)->frames, w->group, &call, argv);
    STAT_ADD(rf->counts.forwarded, 1);
    buf_fini(&head);
    mem_free(argv);
}

/* ---- seeking */

/* The map may be another one since it was routed. */
static void find_group(struct relay_wait *w)
{
    struct task *t = &w->rf->finder;
    task_clear(t);
    w->group = task_add(t, w->rf->front->worker.engine, w->cmd, w->argv, w->argc)->group;
}

static uint64_t leader_of(const struct relay_wait *w, int64_t now_ms)
{
    const struct relay_cluster *c = cluster_of(w);
    if (w->group >= META_GROUPS_MAX) return 0; /* there is no map yet */
    if (c->serves(c->ctx, w->group)) return c->self;
    uint64_t leader = c->leader(c->ctx, w->group);
    return leader && leader != c->self && relay_message_reaches(w->rf, leader, w->group, now_ms) ? leader : 0;
}

static void take_verdict(struct relay_wait *w);

static void ask(struct relay_wait *w, uint64_t leader)
{
    const struct conn *c = w->conn;
    set_state(w, ASKED);
    if (leader != cluster_of(w)->self) {
        send_command(w, leader);
        return;
    }
    const struct relay_wait_command command = {.group = w->group, .argc = w->argc, .argv = w->argv, .db = c->db, .resp = c->resp, .no_touch = c->no_touch};
    w->asking = true;
    w->stay = relay_stay_begin(w->rf, &command, w);
    w->asking = false;
    if (w->has_verdict) take_verdict(w);
}

static bool stops(const struct relay_wait *w) { return w->rf->front->stopping; }

/* Nobody leads just now, as far as is known. */
static void pause_seeking(struct relay_wait *w, int64_t now_ms)
{
    if (stops(w) || now_ms - w->seeks_ms >= atomic_load_explicit(&w->rf->relay->timeout_ms, memory_order_relaxed)) {
        STAT_ADD(w->rf->counts.timed_out, 1);
        end_with_error(w, "CLUSTERDOWN nobody leads the shard of this key: nothing was done");
        return;
    }
    w->pause_ms = !w->pause_ms ? PAUSE_MIN_MS : w->pause_ms * 2 < PAUSE_MAX_MS ? w->pause_ms * 2 : PAUSE_MAX_MS;
    w->retry_ms = now_ms + w->pause_ms;
    relay_look_at(w->rf, w->retry_ms);
}

static void seek(struct relay_wait *w)
{
    int64_t now_ms = relay_now_ms();
    find_group(w);
    if (w->group == SEATING_MIXED || w->group == SEATING_NO_GROUP) {
        end_with_error(w, "CROSSSHARD keys of one command are in different shards: nothing was done");
        return;
    }
    uint64_t leader = leader_of(w, now_ms);
    if (leader) ask(w, leader);
    else pause_seeking(w, now_ms);
}

/* Nothing was done: from the beginning. */
static void seek_again(struct relay_wait *w)
{
    int64_t now_ms = relay_now_ms();
    bool stood = w->state == WAITS || w->state == GOES;
    forget_number(w);
    w->stay = NULL;
    if (w->expired) {
        end_unserved(w, false);
        return;
    }
    STAT_ADD(w->rf->counts.retried, 1);
    set_state(w, SEEKS);
    if (stood) {
        w->pause_ms = 0;
        w->seeks_ms = now_ms;
    }
    pause_seeking(w, now_ms);
}

/* ---- what the stay says */

static void stand_in_line(struct relay_wait *w, struct slice reply)
{
    struct conn *c = w->conn;
    set_state(w, WAITS);
    w->there_ms = w->since_ms + THERE_MS;
    if (!w->timed) {
        int64_t timeout_ms = reply.n == RELAY_WAIT_TIMEOUT_BYTES ? (int64_t)le_u64(reply.p) : 0;
        w->timed = true;
        if (timeout_ms) front_set_timer(c->front, c, c->front->worker.mono_ms + timeout_ms + 1); /* mono_ms is rounded down: never early */
    }
    if (w->expired) front_set_timer(c->front, c, c->front->worker.mono_ms); /* it may leave now */
    show(w, true);
    front_ready(c->front, c); /* what was answered before it goes out */
}

static void take_word(struct relay_wait *w, enum wirecall_status status, struct slice reply)
{
    if (w->state == SEEKS) return;
    switch (status) {
    case WIRECALL_DONE: end_with(w, reply); break;
    case WIRECALL_UNCERTAIN: end_uncertain(w); break;
    case WIRECALL_WAITS:
        if (w->state != WAITS) stand_in_line(w, reply);
        break;
    case WIRECALL_TURN:
        if (w->state != WAITS) break; /* said twice */
        set_state(w, GOES);
        say(w, RELAY_WAIT_GO);
        break;
    case WIRECALL_MUSTRETRY:
    case WIRECALL_TRYAGAIN:
    case WIRECALL_NOT_LEADER:
    case WIRECALL_BUSY:
    case WIRECALL_NO_GROUP: seek_again(w); break;
    }
}

static void take_verdict(struct relay_wait *w)
{
    struct buf reply = w->told;
    w->told = (struct buf){0};
    w->has_verdict = false;
    take_word(w, w->verdict, buf_slice(&reply));
    buf_fini(&reply);
}

void relay_wait_told(struct relay_wait *w, enum wirecall_status status, struct slice reply)
{
    if (!w->asking) {
        take_word(w, status, reply);
        return;
    }
    /* The last word counts: that it waits is no news any more when it has its answer. */
    w->has_verdict = true;
    w->verdict = status;
    w->told.len = 0;
    buf_add_slice(&w->told, reply);
}

bool relay_wait_is(uint64_t id) { return relay_code_slot(id) == SLOT_WAIT; }

void relay_wait_answered(struct relay_front *rf, uint64_t from, const struct wirecall_answer *a)
{
    struct relay_wait *w = find(rf, a->id);
    struct slice rest = a->reply, reply = a->reply;
    enum wirecall_status status = a->status;
    if (!w || w->peer != from) { /* nobody waits any more: whoever is next shall have it */
        if (status == WIRECALL_TURN || status == WIRECALL_WAITS) say_to(rf, from, a->id, RELAY_WAIT_LEAVE);
        return;
    }
    if (status == WIRECALL_DONE && !relay_code_answer(&rest, &status, &reply)) return;
    if (status == WIRECALL_NOT_LEADER && a->leader) cluster_of(w)->leader_is(cluster_of(w)->ctx, w->group, a->leader);
    take_word(w, status, reply);
}

/* ---- what happens meanwhile */

/* For each, some of which may end by it. */
static void for_each(struct relay_front *rf, void (*fn)(struct relay_wait *w, int64_t now_ms, uint64_t peer), int64_t now_ms, uint64_t peer)
{
    for (struct relay_wait *w = rf->waits, *next; w; w = next) {
        next = w->next;
        fn(w, now_ms, peer);
    }
}

static void lose(struct relay_wait *w, int64_t now_ms, uint64_t peer)
{
    if (w->peer != peer || w->state == SEEKS) return;
    if (w->state == WAITS) seek_again(w);
    else end_uncertain(w);
}

void relay_wait_peer_down(struct relay_front *rf, uint64_t peer) { for_each(rf, lose, 0, peer); }

static void wake(struct relay_wait *w, int64_t now_ms, uint64_t peer)
{
    if (w->state == SEEKS) seek(w);
}

void relay_wait_wake(struct relay_front *rf) { for_each(rf, wake, 0, 0); }

static void check_time(struct relay_wait *w, int64_t now_ms, uint64_t peer)
{
    int64_t limit_ms = stops(w) ? RELAY_STOP_MS : atomic_load_explicit(&w->rf->relay->timeout_ms, memory_order_relaxed);
    if (w->state == SEEKS) {
        if (now_ms >= w->retry_ms) seek(w);
        else relay_look_at(w->rf, w->retry_ms);
    } else if (!w->peer) {
        return; /* the stay has a limit of its own */
    } else if (w->state == WAITS && now_ms >= w->there_ms) {
        w->there_ms = now_ms + THERE_MS;
        say(w, RELAY_WAIT_THERE);
    } else if (w->state != WAITS && now_ms - w->since_ms > limit_ms) {
        say(w, RELAY_WAIT_LEAVE);
        end_uncertain(w);
    }
}

void relay_wait_time(struct relay_front *rf, int64_t now_ms) { for_each(rf, check_time, now_ms, 0); }

/* ---- the client's wishes */

/* True: the stay takes nothing for it any more. */
static bool leave(struct relay_wait *w)
{
    if (w->state == SEEKS) return true;
    if (w->state != WAITS) return false;
    if (w->peer) say(w, RELAY_WAIT_LEAVE);
    else if (!relay_stay_leave(w->stay)) return false;
    w->stay = NULL;
    return true;
}

void relay_wait_timeout(struct conn *c)
{
    struct relay_wait *w = c->wait;
    w->expired = true;
    if (leave(w)) end_unserved(w, false);
    else if (w->state == WAITS) front_set_timer(c->front, c, c->front->worker.mono_ms + 1); /* it is being tried */
}

void relay_wait_unblock(struct conn *c, bool with_error)
{
    struct relay_wait *w = c->wait;
    if (leave(w)) end_unserved(w, with_error);
}

void relay_wait_forget(struct conn *c)
{
    struct relay_wait *w = c->wait;
    if (w->peer && w->state != SEEKS) say(w, RELAY_WAIT_LEAVE);
    else if (w->stay && w->state != SEEKS) relay_stay_forget(w->stay);
    detach(w);
    c->away = false;
}

bool relay_wait_wants(const struct conn *c, uint32_t request)
{
    return c->batch->task.requests[request].cmd->flags & CMD_BLOCKING && relay_wants(c, request);
}

/* It may be over before this returns: then the connection comes back in this turn. */
void relay_wait_run(struct conn *c)
{
    struct relay_wait *w = wait_new(c);
    size_t bytes = relay_args_bytes(w->argv, w->argc);
    c->batch->task.pos++;
    c->wait = w;
    c->away = true;
    w->since_ms = w->seeks_ms = relay_now_ms();
    if (bytes > RELAY_ARGS_MAX) end_with_error(w, "ERR the arguments of one command exceed 8 MiB, which a cluster does not take");
    else seek(w);
}

void relay_wait_fini(struct relay_front *rf)
{
    while (rf->waits) wait_put(rf->waits);
    mem_free(rf->waits_by_id);
}
