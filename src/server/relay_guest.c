/* Guests: messages of other nodes. Their commands run as one task, in order, up to the first that bounces or until the answers are long enough; when all that ran have their outcome, one message answers for all.
 * Nothing is sent on from here.
 *
 * A message by a newer map than the one here is early: it waits for that map, which is on its way, so that it is not sent back and forth until then. */
#include "server/relay_lane.h"
#include "server/relay_wait.h"

#include <stddef.h>

#include "base/mem.h"
#include "cluster/meta.h"

enum {
    ANSWER_SLICE = 1024 * 1024,       /* bytes of answers, then the rest of the commands has to come again */
    REPLY_MAX = 64 * 1024 * 1024,     /* of one command: beyond it, it is an error */
    SPARE_BYTES = 64 * 1024,          /* buffers larger than this are not kept */
    SPARE_ARGS = 4096,
    EARLY_PARTS = 10,                 /* a message waits for its map for this part of the time-out; then it is judged by the one that is here */
};

struct command_of_guest {
    bool refused;  /* it has not run: the reply is in `errors` */
    size_t at, n;
};

struct guest {
    struct task task; /* first: a task of a guest is the guest; its requests are the commands that were not refused */
    struct guest *next, **back; /* of the front's, or of the spare ones */
    struct relay_front *rf;
    struct relay_letter *letter; /* its bytes are the arguments */
    struct wirecall_request call;
    struct slice *argv;
    uint32_t argv_room;
    struct command_of_guest *commands;
    uint32_t n, cap;
    struct ticket *tickets; /* of the task's requests */
    uint32_t cap_tickets;
    struct buf out, errors;
    uint32_t settled; /* holds that have their outcome */
    bool running;
    int64_t deadline_ms;
};

/* ---- life */

static struct guest *guest_new(struct relay_front *rf, struct relay_letter *l)
{
    struct guest *g = rf->spare_guests;
    if (g) rf->spare_guests = g->next;
    else g = mem_zalloc(sizeof *g);
    g->rf = rf;
    g->letter = l;
    g->next = rf->guests;
    g->back = &rf->guests;
    if (g->next) g->next->back = &g->next;
    rf->guests = g;
    return g;
}

static void guest_fini(struct guest *g)
{
    task_fini(&g->task);
    buf_fini(&g->out);
    buf_fini(&g->errors);
    mem_free(g->argv);
    mem_free(g->commands);
    mem_free(g->tickets);
    mem_free(g);
}

static void guest_put(struct guest *g)
{
    struct relay_front *rf = g->rf;
    *g->back = g->next;
    if (g->next) g->next->back = g->back;
    mem_free(g->letter);
    if (g->out.cap > SPARE_BYTES || g->argv_room > SPARE_ARGS) { /* grew large once: not kept */
        guest_fini(g);
        return;
    }
    task_clear(&g->task);
    g->out.len = g->errors.len = 0;
    g->n = g->settled = 0;
    g->next = rf->spare_guests;
    rf->spare_guests = g;
}

static struct relay_letter *take_early(struct relay_front *rf)
{
    struct relay_letter *l = rf->early;
    rf->early = NULL;
    rf->last_early = &rf->early;
    return l;
}

void relay_guest_fini(struct relay_front *rf)
{
    for (struct relay_letter *l = take_early(rf), *next; l; l = next) {
        next = l->next;
        mem_free(l);
    }
    while (rf->guests) guest_put(rf->guests);
    while (rf->spare_guests) {
        struct guest *g = rf->spare_guests;
        rf->spare_guests = g->next;
        guest_fini(g);
    }
}

/* ---- the answer */

/* Request k bounced. */
static enum wirecall_status status_of_bounce(const struct guest *g, uint32_t k)
{
    const struct relay_cluster *c = &g->rf->relay->cluster;
    uint32_t group = g->task.requests[k].group;
    if (group == SEATING_STALE) return WIRECALL_MUSTRETRY;
    return group < META_GROUPS_MAX && c->serves(c->ctx, group) ? WIRECALL_BUSY : WIRECALL_NOT_LEADER;
}

static enum wirecall_status status_of(struct guest *g, uint32_t k)
{
    struct hold *h = &g->task.holds[k];
    if (h->bounced) return status_of_bounce(g, k);
    switch (relay_outcome(g->rf, h)) {
    case SEAT_DONE: return WIRECALL_DONE;
    case SEAT_LOST: return WIRECALL_MUSTRETRY;
    case SEAT_UNCERTAIN: return WIRECALL_UNCERTAIN;
    case SEAT_WAIT: break;
    }
    return h->wrote ? WIRECALL_UNCERTAIN : WIRECALL_MUSTRETRY; /* given up */
}

static void add_too_long(struct buf *to, const struct hold *h)
{
    struct buf line = {0};
    struct reply r = {.out = &line, .resp = 2};
    reply_errorf(&r, "ERR the reply is too long to be passed from node to node%s", h->wrote ? "; the command was executed" : "");
    relay_code_add_answer(to, WIRECALL_DONE, buf_slice(&line));
    buf_fini(&line);
}

static void add_stale(struct guest *g, struct buf *to, uint32_t k)
{
    const struct request *r = &g->task.requests[k];
    struct buf reply = {0};
    relay_fence_refuse(g->rf, r->cmd, g->task.args + r->first_arg, r->argc, &reply);
    relay_code_add_answer(to, WIRECALL_MUSTRETRY, buf_slice(&reply));
    STAT_ADD(g->rf->counts.stale, 1);
    buf_fini(&reply);
}

static void add_reply(struct guest *g, struct buf *to, uint32_t k)
{
    const struct hold *h = &g->task.holds[k];
    size_t from = k ? h[-1].reply_end : 0;
    enum wirecall_status status = status_of(g, k);
    struct slice reply = slice_of(g->out.p + from, h->reply_end - from);
    STAT_ADD(g->rf->counts.repeated, h->repeated);
    if (h->bounced && status == WIRECALL_MUSTRETRY) add_stale(g, to, k);
    else if (status == WIRECALL_DONE && reply.n > REPLY_MAX) add_too_long(to, h);
    else relay_code_add_answer(to, status, status == WIRECALL_DONE ? reply : slice_of(NULL, 0));
}

static uint64_t leader_after_bounce(const struct guest *g)
{
    const struct relay_cluster *c = &g->rf->relay->cluster;
    const struct task *t = &g->task;
    if (!t->n_holds || !t->holds[t->n_holds - 1].bounced) return 0;
    uint32_t group = t->requests[t->n_holds - 1].group;
    uint64_t leader = group < META_GROUPS_MAX ? c->leader(c->ctx, group) : 0;
    return leader == c->self ? 0 : leader; /* it asked here because it thought so, too */
}

/* NULL: it is gone, and who asked knows. */
static struct buf *way_back(const struct guest *g)
{
    const struct relay_letter *l = g->letter;
    if (!l->lane) return &relay_peer(g->rf, l->from)->frames;
    struct relay_lane *lane = relay_lane_find(g->rf, l->lane);
    return lane ? &lane->out : NULL;
}

static void answer(struct guest *g)
{
    struct buf body = {0};
    uint32_t k = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct command_of_guest *c = &g->commands[i];
        if (c->refused) relay_code_add_answer(&body, WIRECALL_DONE, slice_of(g->errors.p + c->at, c->n));
        else if (k < g->task.n_holds) add_reply(g, &body, k++);
        else relay_code_add_answer(&body, WIRECALL_TRYAGAIN, slice_of(NULL, 0));
    }
    struct wirecall_answer a = {.id = g->call.id, .status = WIRECALL_DONE, .leader = leader_after_bounce(g), .reply = buf_slice(&body)};
    struct buf *way = way_back(g);
    if (way) wirecall_add_answer(way, g->letter->group, &a);
    buf_fini(&body);
    guest_put(g);
}

/* True: every hold has its outcome. */
static bool is_over(struct guest *g)
{
    while (g->settled < g->task.n_holds) {
        struct hold *h = &g->task.holds[g->settled];
        if (!h->bounced && relay_outcome(g->rf, h) == SEAT_WAIT) return false;
        g->settled++;
    }
    return true;
}

/* ---- the commands */

static void __attribute__((format(printf, 3, 4))) refuse(struct guest *g, struct command_of_guest *c, const char *fmt, ...)
{
    struct buf text = {0};
    struct reply r = {.out = &g->errors, .resp = g->call.resp};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    buf_add_byte(&text, '\0');
    c->refused = true;
    c->at = g->errors.len;
    reply_error(&r, text.p);
    c->n = g->errors.len - c->at;
    buf_fini(&text);
}

/* As admit_request refuses it to a client of this node. */
static bool is_refused(struct guest *g, struct command_of_guest *c, const struct command *cmd)
{
    const struct server *s = g->rf->relay->server;
    int error = atomic_load_explicit(&s->write_error, memory_order_relaxed);
    int64_t limit = CONFIG_NUM(s->config, maxmemory);
    if (cmd->flags & CMD_DENYOOM && limit > 0 && server_used_bytes(s) > (uint64_t)limit) refuse(g, c, "OOM command not allowed when used memory > 'maxmemory'.");
    else if (error && cmd->flags & CMD_WRITE) refuse(g, c, "MISCONF Errors writing to the log: %s. Writes are refused, reads go on.", strerror(-error));
    else return false;
    return true;
}

/* Before the request is added that it is of. */
static void add_ticket(struct guest *g, struct relay_head h)
{
    if (g->task.n_requests == g->cap_tickets) {
        g->cap_tickets = g->cap_tickets ? g->cap_tickets * 2 : 16;
        g->tickets = mem_resize(g->tickets, g->cap_tickets * sizeof *g->tickets);
        g->task.tickets = g->tickets;
    }
    g->tickets[g->task.n_requests] = (struct ticket){
        .map = g->call.map,
        .range = h.range,
        .generation = h.generation,
        .group = h.group,
        .front = relay_code_front(g->call.id),
        .slot = h.slot,
        .node = g->letter->from,
        .session = g->call.session,
        .seq = h.seq,
        .again = g->call.flags & RELAY_AGAIN,
        .term = h.term,
    };
}

static void add_command(struct guest *g, struct relay_head h, const struct slice *argv)
{
    const struct engine *e = relay_engine(g->rf);
    uint32_t argc = h.argc;
    if (g->n == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 16;
        g->commands = mem_resize(g->commands, g->cap * sizeof *g->commands);
    }
    struct command_of_guest *c = &g->commands[g->n++];
    *c = (struct command_of_guest){0};
    const struct command *cmd = command_find_any(e->commands, argv[0]);
    const char *why = cmd ? relay_unfit(cmd) : NULL;
    if (!cmd) refuse(g, c, "ERR unknown command '%.*s' on the node that leads its shard", (int)(argv[0].n < 128 ? argv[0].n : 128), argv[0].p);
    else if (!command_arity_ok(cmd, argc)) refuse(g, c, "ERR wrong number of arguments for '%s' command", cmd->name);
    else if (why) refuse(g, c, "ERR %s is not available in a cluster: it %s", cmd->name, why);
    else if (cmd->flags & CMD_OF_GROUP && h.group >= META_GROUPS_MAX) refuse(g, c, "ERR there is no group %u", h.group);
    if (c->refused || is_refused(g, c, cmd)) return;
    add_ticket(g, h);
    uint32_t group = task_add_to(&g->task, e, h.group, cmd, argv, argc)->group;
    if (group != SEATING_MIXED && group != SEATING_NO_GROUP) return;
    g->task.n_requests--; /* its arguments stay, and are passed over */
    refuse(g, c, "CROSSSHARD keys of one command are in different shards: nothing was done");
}

static bool read_call(struct guest *g) { return wirecall_get_request(slice_of(g->letter->bytes, g->letter->n), &g->call, &g->argv, &g->argv_room) == 0; }

/* False: the message makes no sense. */
static bool read_commands(struct guest *g)
{
    struct relay_head h;
    uint32_t at = 0;
    if (g->call.flags & RELAY_PING) return true;
    while (at < g->call.argc) {
        if (!relay_code_head(g->argv, g->call.argc, &at, &h)) return false;
        add_command(g, h, g->argv + at);
        at += h.argc;
    }
    return g->call.db < STORE_DBS;
}

static void ran(struct guest *g)
{
    g->running = false;
    for (uint32_t k = 0; k < g->task.n_holds; k++) relay_proof_by(g->rf, &g->task.holds[k], &g->tickets[k]);
    relay_proof_begin(g->rf, g->task.holds, g->task.n_holds);
    relay_listen(g->rf);
    if (is_over(g)) answer(g);
}

static void came_home(struct worker *w, struct task *t) { ran((struct guest *)t); }

static void start(struct guest *g)
{
    struct task *t = &g->task;
    t->home = g->rf->front->worker.id;
    t->finish = came_home;
    t->session = NULL;
    t->db = (uint16_t)g->call.db;
    t->resp = g->call.resp;
    t->no_touch = g->call.flags & RELAY_NO_TOUCH;
    t->proves = relay_lane_is_any(g->rf);
    t->out = &g->out;
    t->out_max = ANSWER_SLICE;
    t->pos = 0;
    t->end = t->n_requests;
    g->running = true;
    if (task_start(&g->rf->front->worker, t)) ran(g);
}

/* True: its map is not here yet, and it waits for it. A letter that has waited long enough does not. */
static bool is_early(struct guest *g)
{
    struct relay_front *rf = g->rf;
    struct relay_letter *l = g->letter;
    int64_t now_ms;
    if (likely(g->call.map <= relay_map_version(rf)) || g->call.flags & (RELAY_PING | RELAY_WAITS)) return false;
    now_ms = relay_now_ms();
    if (!l->until_ms) l->until_ms = now_ms + relay_timeout_ms(rf->relay) / EARLY_PARTS;
    if (now_ms >= l->until_ms) return false;
    l->next = NULL;
    *rf->last_early = l;
    rf->last_early = &l->next;
    g->letter = NULL;
    relay_look_at(rf, l->until_ms);
    return true;
}

void relay_guest_begin(struct relay_front *rf, struct relay_letter *l)
{
    struct guest *g = guest_new(rf, l);
    if (!read_call(g) || is_early(g)) {
        guest_put(g); /* a message that makes no sense: its asker's time-out says so */
        return;
    }
    if (g->call.flags & RELAY_WAITS) {
        g->letter = NULL;
        relay_stay_message(rf, l, &g->call, g->argv);
        guest_put(g);
        return;
    }
    if (!read_commands(g)) {
        guest_put(g);
        return;
    }
    STAT_ADD(rf->counts.guests, g->n);
    g->deadline_ms = relay_now_ms() + relay_timeout_ms(rf->relay);
    if (atomic_load_explicit(&rf->relay->server->loading, memory_order_acquire)) answer(g); /* nothing was tried */
    else start(g);
}

/* Those that are still early stand in line again, in their order. */
void relay_guest_mapped(struct relay_front *rf)
{
    for (struct relay_letter *l = take_early(rf), *next; l; l = next) {
        next = l->next;
        relay_guest_begin(rf, l);
    }
}

void relay_guest_news(struct relay_front *rf)
{
    for (struct guest *g = rf->guests, *next; g; g = next) {
        next = g->next;
        if (!g->running && is_over(g)) answer(g);
    }
}

void relay_guest_time(struct relay_front *rf, int64_t now_ms)
{
    if (rf->early) relay_guest_mapped(rf);
    for (struct guest *g = rf->guests, *next; g; g = next) {
        next = g->next;
        if (!g->running && now_ms >= g->deadline_ms) answer(g);
    }
}
