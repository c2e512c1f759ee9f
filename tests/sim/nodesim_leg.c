/* Requests to groups on their way: of coordinators of transactions, of the care for what those leave behind, of movers, and of nodes that send writes on; as server/relay_call.h sends them to whoever leads. The requests of a call go side by side. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/intents.h"
#include "cluster/seatentry.h"
#include "cluster/termboard.h"
#include "log/opcode.h"
#include "nodesim_own.h"

enum {
    TRY_MS = 400, /* a request without an answer is asked again then, or if it writes, given up */
    ATTEMPT_BITS = 16,
    ARGS_MAX = 96,
};

/* A request on its way: of a call, whose requests go side by side. */
struct leg {
    uint32_t call, index, group;
    uint32_t attempt, hint; /* hint: who is said to lead; 0 */
    bool writes, open, rests;
    struct buf args; /* each: length u32, bytes */
    struct ticket ticket; /* seq 0: it has no number */
    uint64_t term;        /* of the sender's replica of the group, when it was sent */
    enum txn_fate fate;
    struct buf reply;
};

struct call {
    uint32_t node, first_leg, n, n_open;
    bool over; /* answered, or its node is gone */
    uint64_t deadline;
    struct nodesim_call who;
};

/* A node's answer to a leg, on its way. */
struct letter {
    uint32_t to, attempt;
    enum nodesim_status status;
    uint32_t leader;
    struct buf bytes;
};

struct nodesim_legs {
    struct leg *legs;
    struct call *calls;
    struct letter *letters;
    uint32_t n_legs, cap_legs, n_calls, cap_calls, n_letters, cap_letters;
};

static void *grown(void *array, uint32_t n, uint32_t *cap, size_t each)
{
    if (n < *cap) return array;
    *cap = *cap * 2 + 64;
    return mem_resize(array, *cap * each);
}

static uint32_t add_letter(struct nodesim *s, const struct letter *l)
{
    struct nodesim_legs *t = s->legs;
    t->letters = grown(t->letters, t->n_letters, &t->cap_letters, sizeof *t->letters);
    t->letters[t->n_letters] = *l;
    return t->n_letters++;
}

/* Mostly soon; some copies come late, the more so orders of drivers: another one may be at work by then. */
static uint64_t way_us(struct nodesim *s, bool is_order)
{
    struct rng *rng = world_rng(s->w);
    if (is_order) return 50 + rng_below(rng, rng_below(rng, 12) ? 10 * WORLD_MS : 900 * WORLD_MS);
    return 50 + rng_below(rng, rng_below(rng, 40) ? 500 : 900 * WORLD_MS);
}

/* Of a mover. */
static bool is_order(const struct leg *l)
{
    static const char prefix[] = "carry.";
    return l->args.len > 4 + sizeof prefix && memcmp(l->args.p + 4, prefix, sizeof prefix - 1) == 0;
}

static bool reaches(struct nodesim *s, uint32_t from, uint32_t to)
{
    const struct nodesim_node *n = world_node(s->w, to);
    return n && n->member && (from == to || world_reaches(s->w, from, to));
}

/* ---- legs, where they come from */

static uint64_t ticket(uint32_t leg, uint32_t attempt) { return (uint64_t)leg << ATTEMPT_BITS | (attempt & 0xffff); }
static uint32_t leg_of(uint64_t arg) { return (uint32_t)(arg >> ATTEMPT_BITS); }
static bool is_attempt(const struct leg *l, uint64_t arg) { return (l->attempt & 0xffff) == (arg & 0xffff); }

static uint32_t choose_node(struct nodesim_node *n, const struct leg *l)
{
    struct rng *rng = nodesim_rng(n);
    uint64_t leader = l->hint ? l->hint : metahost_leader(n->meta, l->group);
    if (leader == 0 || leader > NODESIM_NODES || rng_below(rng, 20) == 0) leader = 1 + rng_below(rng, NODESIM_NODES);
    return (uint32_t)leader;
}

static void rest(struct nodesim_node *n, uint32_t leg)
{
    struct leg *l = &n->sim->legs->legs[leg];
    l->attempt++; /* what else comes of this one is not heard */
    l->rests = true;
    world_after(n->sim->w, n->id, (2 + rng_below(nodesim_rng(n), 48)) * WORLD_MS, NODESIM_LEG_TIME, ticket(leg, l->attempt));
}

static void post(struct nodesim_node *n, uint32_t leg)
{
    struct nodesim *s = n->sim;
    struct leg *l = &s->legs->legs[leg];
    uint32_t to = choose_node(n, l);
    l->hint = 0;
    if (!reaches(s, n->id, to)) {
        rest(n, leg);
        return;
    }
    l->attempt++;
    l->term = termboard_term(n->board, l->group);
    world_after(s->w, to, way_us(s, is_order(l)), NODESIM_LEG, ticket(leg, l->attempt));
    world_after(s->w, n->id, TRY_MS * WORLD_MS, NODESIM_LEG_TIME, ticket(leg, l->attempt));
}

static bool is_late(const struct nodesim *s, const struct leg *l) { return world_now(s->w) >= s->legs->calls[l->call].deadline; }

static void answered(struct nodesim_node *n, uint32_t call);

static void finish(struct nodesim_node *n, uint32_t leg, enum txn_fate fate, struct slice reply)
{
    struct leg *l = &n->sim->legs->legs[leg];
    l->open = false;
    l->fate = fate;
    buf_add_slice(&l->reply, reply);
    if (--n->sim->legs->calls[l->call].n_open == 0) answered(n, l->call);
}

/* Nothing happened there. */
static void try_again(struct nodesim_node *n, uint32_t leg)
{
    if (is_late(n->sim, &n->sim->legs->legs[leg])) finish(n, leg, TXN_NOT_DONE, SLICE(""));
    else rest(n, leg);
}

/* Nobody knows. What only looks can be asked again. */
static void lose_sight(struct nodesim_node *n, uint32_t leg)
{
    if (n->sim->legs->legs[leg].writes) finish(n, leg, TXN_MAY_BE_DONE, SLICE(""));
    else try_again(n, leg);
}

static void on_leg_time(struct nodesim_node *n, uint64_t arg)
{
    struct leg *l = &n->sim->legs->legs[leg_of(arg)];
    if (n->sim->legs->calls[l->call].over || !l->open || !is_attempt(l, arg)) return;
    if (!l->rests) {
        lose_sight(n, leg_of(arg));
    } else if (is_late(n->sim, l)) {
        finish(n, leg_of(arg), TXN_NOT_DONE, SLICE(""));
    } else {
        l->rests = false;
        post(n, leg_of(arg));
    }
}

static bool is_command(const struct leg *l, const char *name) { return l->args.len > 4 && slice_is(slice_of(l->args.p + 4, le_u32(l->args.p)), name); }

static void on_leg_answer(struct nodesim_node *n, uint32_t letter)
{
    const struct letter a = n->sim->legs->letters[letter];
    struct leg *l = &n->sim->legs->legs[a.to];
    struct slice reply = buf_slice(&a.bytes);
    if (n->sim->legs->calls[l->call].over || !l->open || !is_attempt(l, a.attempt)) return;
    switch (a.status) {
    case NODESIM_DONE:
        if (n->sim->mutant == NODESIM_UNHELD_READ && is_command(l, "txn.done")) reply = SLICE("+OK\r\n");
        finish(n, a.to, TXN_ANSWERED, reply);
        break;
    case NODESIM_ASTRIDE:
    case NODESIM_BOUNCED:
    case NODESIM_LOST:
        l->hint = a.leader;
        try_again(n, a.to);
        break;
    case NODESIM_UNCERTAIN: lose_sight(n, a.to); break;
    }
}

/* ---- calls */

static void add_leg(struct nodesim_node *n, uint32_t call, uint32_t index, const struct txn_request *r)
{
    struct nodesim_legs *t = n->sim->legs;
    const struct command *cmd = command_find_any(n->sim->commands, r->argv[0]);
    CHECK(cmd);
    t->legs = grown(t->legs, t->n_legs, &t->cap_legs, sizeof *t->legs);
    struct leg *l = &t->legs[t->n_legs++];
    *l = (struct leg){.call = call, .index = index, .group = r->group, .writes = cmd->flags & CMD_WRITE, .open = true};
    for (uint32_t i = 0; i < r->argc; i++) {
        le_add_u32(&l->args, (uint32_t)r->argv[i].n);
        buf_add_slice(&l->args, r->argv[i]);
    }
}

/* Gives its first leg. */
static uint32_t open_call(struct nodesim_node *n, const struct nodesim_call *who, const struct txn_request *requests, uint32_t count, uint32_t timeout_ms)
{
    struct nodesim_legs *t = n->sim->legs;
    t->calls = grown(t->calls, t->n_calls, &t->cap_calls, sizeof *t->calls);
    uint32_t call = t->n_calls++, first = t->n_legs;
    t->calls[call] = (struct call){.node = n->id, .first_leg = first, .n = count, .n_open = count, .deadline = world_now(n->sim->w) + (uint64_t)timeout_ms * WORLD_MS, .who = *who};
    for (uint32_t i = 0; i < count; i++) add_leg(n, call, i, &requests[i]);
    return first;
}

void nodesim_leg_send(struct nodesim_node *n, const struct nodesim_call *who, const struct txn_request *requests, uint32_t count, uint32_t timeout_ms)
{
    uint32_t first = open_call(n, who, requests, count, timeout_ms);
    for (uint32_t i = 0; i < count; i++) post(n, first + i);
}

void nodesim_leg_send_numbered(struct nodesim_node *n, const struct nodesim_call *who, const struct txn_request *request, const struct ticket *ticket, uint32_t timeout_ms)
{
    uint32_t leg = open_call(n, who, request, 1, timeout_ms);
    n->sim->legs->legs[leg].ticket = *ticket;
    post(n, leg);
}

static void answered(struct nodesim_node *n, uint32_t call)
{
    struct nodesim_legs *t = n->sim->legs;
    struct call k = t->calls[call];
    struct txn_answer *answers = mem_alloc(k.n * sizeof *answers);
    for (uint32_t i = 0; i < k.n; i++) answers[i] = (struct txn_answer){t->legs[k.first_leg + i].fate, buf_slice(&t->legs[k.first_leg + i].reply)};
    t->calls[call].over = true;
    k.who.done(k.who.ctx, k.who.arg, answers, k.n);
    mem_free(answers);
}

/* ---- legs, where they arrive */

static uint32_t read_args(struct slice in, struct slice argv[ARGS_MAX])
{
    uint32_t n = 0;
    while (in.n) {
        size_t len = le_u32(in.p);
        CHECK(n < ARGS_MAX);
        argv[n++] = slice_of(in.p + 4, len);
        in = slice_of(in.p + 4 + len, in.n - 4 - len);
    }
    return n;
}

/* A mutant: the reservations that a decision stands on need not be there. */
static void make_reservations(struct nodesim_node *n, uint32_t group, const struct slice *argv, uint32_t argc)
{
    struct seat_info info;
    struct opcode_scratch scratch = {0};
    struct op op;
    struct slice ops = argv[argc - 1];
    bool bad;
    if (!slice_is(argv[0], "txn.decide") || !seats_look(n->seats, group, &info) || !info.serves) return;
    struct intents *i = n->real->intents(n->real->ctx, &n->engine->shards[info.shard]);
    uint64_t token = strtoull(argv[2].p, NULL, 16);
    if (intents_state(i, argv[1]) == INTENTS_NONE)
        while (seatentry_next_op(&ops, &scratch, &op, &bad))
            if (intents_can(i, argv[1], op.db, op.key, INTENTS_WRITES)) intents_reserve(i, argv[1], token, op.db, op.key, INTENTS_WRITES);
    opcode_scratch_fini(&scratch);
}

/* Runs it for the leg; under a number of an attempt that there is not, nobody hears the answer. */
static bool run_leg(struct nodesim_node *n, uint64_t arg, uint32_t attempt, uint32_t group, const struct slice *argv, uint32_t argc)
{
    const struct leg *l = &n->sim->legs->legs[leg_of(arg)];
    const struct ticket ticket = l->ticket;
    uint16_t db = n->sim->legs->calls[l->call].who.db;
    const struct nodesim_run run = {.group = group, .argv = argv, .argc = argc, .times = 1, .db = db, .ticket = ticket.seq ? &ticket : NULL, .from = n->sim->legs->calls[l->call].node, .term = l->term};
    return nodesim_client_run(n, &(struct nodesim_guest){.client = leg_of(arg), .attempt = attempt, .is_leg = true}, &run);
}

/* A mutant: what a source has just given out is gone at once. */
static bool drop_early(struct nodesim_node *n, uint64_t arg, uint32_t group, const struct slice *argv)
{
    const struct slice drop[] = {SLICE("carry.drop"), argv[1], argv[2], argv[3]};
    return run_leg(n, arg, ((uint32_t)arg & 0xffff) ^ 0x8000, group, drop, 4);
}

/* False: the process died in the middle of it. */
static bool on_leg(struct nodesim_node *n, uint64_t arg)
{
    const struct leg *l = &n->sim->legs->legs[leg_of(arg)];
    uint32_t group = l->group;
    struct slice argv[ARGS_MAX];
    char word[24];
    char *copy = mem_dup(l->args.p, l->args.len); /* legs may be elsewhere when the command has ended */
    uint32_t argc = read_args(slice_of(copy, l->args.len), argv);
    if (is_order(l)) nodesim_topology_order(n, n->sim->legs->calls[l->call].node, argv[0]);
    if (is_order(l)) nodesim_mover_spoil(n->sim, argv, argc, word, sizeof word);
    if (n->sim->mutant == NODESIM_NO_RESERVATION) make_reservations(n, l->group, argv, argc);
    bool lives = run_leg(n, arg, (uint32_t)arg & 0xffff, group, argv, argc);
    if (lives && n->sim->mutant == NODESIM_EARLY_DROP && slice_is(argv[0], "carry.freeze")) lives = drop_early(n, arg, group, argv);
    mem_free(copy);
    return lives;
}

void nodesim_leg_reply(struct nodesim_node *n, const struct nodesim_guest *g, enum nodesim_status status, uint32_t leader, struct slice reply)
{
    struct nodesim *s = n->sim;
    const struct leg *l = &s->legs->legs[g->client];
    uint32_t owner = s->legs->calls[l->call].node;
    struct letter a = {.to = g->client, .attempt = g->attempt, .status = status, .leader = leader};
    if (s->legs->calls[l->call].over || !reaches(s, n->id, owner)) return;
    nodesim_wide_spoil(s, l->group, slice_of(l->args.p + 4, le_u32(l->args.p)), reply, &a.bytes);
    world_after(s->w, owner, way_us(s, false), NODESIM_LEG_ANSWER, add_letter(s, &a));
}

/* ---- the whole */

bool nodesim_leg_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    if (kind == NODESIM_LEG) return on_leg(n, arg);
    if (kind == NODESIM_LEG_ANSWER) on_leg_answer(n, (uint32_t)arg);
    if (kind == NODESIM_LEG_TIME) on_leg_time(n, arg);
    return true;
}

void nodesim_leg_close(struct nodesim_node *n)
{
    struct nodesim_legs *t = n->sim->legs;
    for (uint32_t i = 0; i < t->n_calls; i++)
        if (t->calls[i].node == n->id) t->calls[i].over = true;
}

void nodesim_leg_new(struct nodesim *s) { s->legs = mem_zalloc(sizeof *s->legs); }

void nodesim_leg_free(struct nodesim *s)
{
    struct nodesim_legs *t = s->legs;
    for (uint32_t i = 0; i < t->n_legs; i++) {
        buf_fini(&t->legs[i].args);
        buf_fini(&t->legs[i].reply);
    }
    for (uint32_t i = 0; i < t->n_letters; i++) buf_fini(&t->letters[i].bytes);
    mem_free(t->legs);
    mem_free(t->calls);
    mem_free(t->letters);
    mem_free(t);
}
