/* What the engine asks of a seat: may this run here now, and what does its answer wait for. Everything here is W. */
#include "base/check.h"
#include "base/mem.h"
#include "cluster/holding.h"
#include "cluster/intents.h"
#include "cluster/seat_own.h"
#include "cluster/once.h"
#include "cluster/seatentry.h"
#include "cluster/txncmd.h"
#include "shard/engine.h"

static struct seat *of_shard(const struct seats *s, const struct shard *shard) { return atomic_load_explicit(&s->by_shard[shard->id], memory_order_acquire); }

void seat_serve_soil(struct seat *seat)
{
    atomic_store_explicit(&seat->dirty, true, memory_order_release);
    atomic_store(&seat->all->dirty, true);
}

void seat_serve_tell_time(const struct seat *seat) { intents_set_time(seat->intents, atomic_load_explicit(&seat->all->now, memory_order_relaxed)); }
static bool keeps(void *ctx, uint16_t db, struct slice key) { return intents_keeps(ctx, db, key); }

/* A replica that does not rule never deletes a key by itself; nor does one that does, if a transaction has it. */
static bool set_rule(const struct seat *seat)
{
    if (!seat) return false;
    bool serves = atomic_load(&seat->serves);
    struct store *store = seat->shard->store;
    store->lazy_expire_paused = !serves;
    store->keeps = NULL;
    if (likely(!intents_any(seat->intents))) return serves;
    seat_serve_tell_time(seat);
    store->keeps = keeps;
    store->keeps_ctx = seat->intents;
    return serves;
}

/* Those that name their group come with keys that must be the group's, which without a map nobody here can tell. */
static bool has_map(const struct seat *seat, const struct request *r) { return !(r->cmd->flags & CMD_OF_GROUP) || route_map(&seat->all->o.engine->route); }

/* What transactions have locked waits for them. */
static bool is_unlocked(const struct seat *seat, const struct task *t, const struct request *r)
{
    if (likely(!intents_any(seat->intents))) return true;
    return txncmd_admits(seat->intents, seat->all->o.engine->commands, r->cmd, t->args + r->first_arg, r->argc, t->db);
}

/* ---- what the group serves while keys are carried */

static struct holding *holding_of(struct seat *seat)
{
    if (unlikely(seat->reloads)) {
        holding_load(seat->holding, seat->shard->store);
        seat->reloads = false;
        seat->judges = holding_any(seat->holding);
    }
    return seat->holding;
}

struct judging {
    const struct seat *seat;
    const struct space_map *map;
};

/* Of a command that was routed by its keys the map has said that they are the group's. */
static bool is_served(void *ctx, const struct command *c, uint16_t db, struct slice key)
{
    const struct judging *j = ctx;
    return holding_serves(j->seat->holding, j->map, key);
}

/* One that names its group finds out by itself that a key is another's, and says so: its sender must look again. But what the map has as the group's own waits until the map has come around. */
static bool is_served_or_elsewhere(void *ctx, const struct command *c, uint16_t db, struct slice key)
{
    const struct judging *j = ctx;
    return spaces_shard(j->map, key, keyhash(key, j->map->route.seed)) != j->seat->group || is_served(ctx, c, db, key);
}

/* Some of the keys may be here and elsewhere, or nobody knows where they are now. */
static bool may_see_all(const struct judging *j)
{
    struct holding *h = j->seat->holding;
    if (holding_gives_out(h)) holding_ask_pause(h, (uint64_t)j->seat->shard->store->now_ms);
    return !holding_gives_out(h) && j->map->version >= holding_map_version(h) && !holding_is_ahead(h, j->map);
}

static bool is_range_served(const struct judging *j, const struct command *c, const struct slice *argv, uint32_t argc)
{
    struct slice space, start, end;
    return !c->extent(argv, argc, &space, &start, &end) || holding_serves_range(j->seat->holding, j->map, space, start, end);
}

static __attribute__((noinline)) bool is_all_served(struct seat *seat, const struct task *t, const struct request *r)
{
    const struct engine *e = seat->all->o.engine;
    struct judging j = {.seat = seat, .map = route_map(&e->route)};
    const struct command *c = r->cmd;
    const struct slice *argv = t->args + r->first_arg;
    const struct holding *h = holding_of(seat);
    if (!seat->judges) return true;
    if (!j.map) return false;
    if (holding_count(h) == 0 && j.map->version >= holding_map_version(h)) {
        seat->judges = false; /* from now on: maps do not get older here */
        return c->flags & CMD_OF_GROUP || r->routed >= holding_map_version(h);
    }
    if (c->flags & CMD_ALL_KEYS) return may_see_all(&j);
    if (c->flags & CMD_OF_GROUP) return txncmd_all_keys(e->commands, c, argv, r->argc, t->db, is_served_or_elsewhere, &j);
    if (j.map->version != r->routed) return false; /* just now there came another one: it is routed anew */
    if (c->class == CLASS_SPACE) return is_range_served(&j, c, argv, r->argc);
    return txncmd_all_keys(e->commands, c, argv, r->argc, t->db, is_served, &j);
}

/* ---- */

static bool admits(void *ctx, const struct task *t, const struct request *r, const struct shard *shard)
{
    struct seat *seat = of_shard(ctx, shard);
    if (!seat || seat->group != r->group) return false;
    bool serves = set_rule(seat);
    if (unlikely(seat->judges) && !is_all_served(seat, t, r)) return false;
    if (t->stale && r->cmd->flags & CMD_READONLY) return serves || seatapply_is_whole(&seat->apply);
    return serves && has_map(seat, r) && is_unlocked(seat, t, r);
}

static bool rules(void *ctx, const struct shard *shard)
{
    const struct seat *seat = of_shard(ctx, shard);
    bool serves = set_rule(seat);
    if (serves) intents_sweep(seat->intents);
    return serves;
}

static struct intents *intents(void *ctx, const struct shard *shard)
{
    const struct seat *seat = of_shard(ctx, shard);
    seat_serve_tell_time(seat);
    return seat->intents;
}

static struct holding *holding(void *ctx, const struct shard *shard) { return holding_of(of_shard(ctx, shard)); }
static uint64_t mark(void *ctx, const struct shard *shard, uint64_t hash)
{
    struct seat *seat = of_shard(ctx, shard);
    pthread_mutex_lock(&seat->lock);
    uint64_t term = seat->term;
    pthread_mutex_unlock(&seat->lock);
    const uint64_t what[] = {seat->group, term, seatmarks_of_key(&seat->marks, hash)};
    return keyhash(slice_of(what, sizeof what), 0);
}

static uint32_t group(void *ctx, const struct shard *shard) { return of_shard(ctx, shard)->group; }

static bool serves(void *ctx, const struct shard *shard, struct slice key)
{
    struct seat *seat = of_shard(ctx, shard);
    if (likely(!seat || !seat->judges)) return true;
    const struct space_map *m = route_map(&seat->all->o.engine->route);
    return !m || holding_serves(holding_of(seat), m, key);
}

/* On replicas that do not lead, too, and while a seat is emptied and filled. */
void seat_serve_on_op(void *ctx, const struct op *op)
{
    struct seat *seat = ctx;
    if (unlikely(holding_is_changed_by(op))) seat->judges = seat->reloads = true; /* not now: the command that did it may be in the midst of what it was */
    if (seatapply_is_busy(&seat->apply)) return;
    seatentry_add_op(&seat->pending, op);
    seatshown_add(&seat->shows, op, seat->shard->store->seed);
    seatmarks_add(&seat->marks, op, seat->shard->store->seed);
}

void seat_serve_close_batch(struct seat *seat)
{
    if (!seat->open) return;
    *seat->last = seat->open;
    seat->last = &seat->open->next;
    seat->open = NULL;
    seat->taken = seat->made;
}

/* The reign in which the running command was admitted still goes on. */
static bool still_leads(const struct seat *seat) { return seat->leads && seat->reign == seat->served; }

/* The command's ops go into the open batch. False: its reign is over, and the store has what will never be proposed. */
static bool put_pending(struct seat *seat)
{
    if (!still_leads(seat)) {
        seat->spoilt = true;
        return false;
    }
    if (!seat->open) {
        seat->open = mem_zalloc(sizeof *seat->open);
        seat->open->sequence = ++seat->made;
    }
    buf_add_slice(&seat->open->ops, buf_slice(&seat->pending));
    seat->shown = seat->made;
    if (seat->open->ops.len >= SEATENTRY_BYTES) seat_serve_close_batch(seat);
    return true;
}

static bool settle_locked(struct seat *seat)
{
    if (seat->pending.len == 0) return true;
    bool ok = put_pending(seat);
    seatshown_settle(&seat->shows, seat->made);
    seat->pending.len = 0;
    seat_serve_soil(seat);
    return ok;
}

/* All that it shows is one key. */
static bool has_one_key(const struct command *c)
{
    return c->class == CLASS_KEYED && c->first_key == 1 && c->last_key == 1 && !(c->flags & (CMD_MOVABLE_KEYS | CMD_OF_GROUP));
}

/* ---- requests that come again */

static const struct ticket *ticket_of(const struct task *t, const struct request *r) { return t->tickets ? &t->tickets[r - t->requests] : NULL; }

/* Whether one behind it in its task, of the same group, has happened before: then this one has had its turn, and what it would do now is out of order. */
static bool is_overtaken(struct store *store, const struct task *t, const struct request *r)
{
    struct slice reply;
    for (const struct request *k = r + 1; k < t->requests + t->n_requests; k++) {
        const struct ticket *ticket = ticket_of(t, k);
        if (k->group != r->group || !ticket->seq) continue;
        enum once_state state = once_look(store, ticket, &reply);
        if (state == ONCE_HAPPENED || state == ONCE_FORGOTTEN) return true;
    }
    return false;
}

void seat_serve_ask(struct seat *seat, struct hold *h)
{
    h->round = seat->rounds + 1;
    seat->wants_round = true;
    seat_serve_soil(seat);
}

/* Locked. What is shown of the store, by an answer that comes with no entry of its own, is good when all that went into it is committed and this node is known to lead. */
static void hold_shown(struct seat *seat, const struct task *t, struct hold *h, uint64_t sequence)
{
    h->sequence = sequence;
    h->unproven = t->proves;
    h->group = seat->group;
    h->term = seat->term;
    if (!t->proves) seat_serve_ask(seat, h);
}

static void hold_repeated(struct seat *seat, const struct task *t, struct hold *h)
{
    pthread_mutex_lock(&seat->lock);
    h->bounced = !still_leads(seat);
    h->repeated = true;
    h->seat = seat;
    h->reign = seat->reign;
    hold_shown(seat, t, h, seat->shown);
    pthread_mutex_unlock(&seat->lock);
}

static bool repeats(void *ctx, const struct task *t, const struct request *r, const struct shard *shard, struct hold *h)
{
    struct seat *seat = of_shard(ctx, shard);
    const struct ticket *ticket = ticket_of(t, r);
    struct reply out = {.out = t->out, .resp = t->resp};
    struct slice reply;
    switch (ticket->seq ? once_look(seat->shard->store, ticket, &reply) : ONCE_NEW) {
    case ONCE_NEW:
        h->overtaken = ticket->again && is_overtaken(seat->shard->store, t, r);
        return h->overtaken;
    case ONCE_LATE: h->bounced = true; return true;
    case ONCE_HAPPENED: buf_add_slice(t->out, reply); break;
    case ONCE_FORGOTTEN: reply_error(&out, "UNCERTAIN the leader of this key's shard was lost while the command was under way: it has happened, but its reply was too long to be kept"); break;
    }
    hold_repeated(seat, t, h);
    return true;
}

/* True: there is a record of it now. One that was sent before leaves one also if it found nothing to do: else it might still do something, if the first copy comes late. */
static bool note_once(struct seat *seat, const struct task *t, const struct request *r, const struct exec *x)
{
    const struct ticket *ticket = ticket_of(t, r);
    if (!ticket || !ticket->seq || (!x->ops && !ticket->again)) return false;
    once_note(seat->shard->store, ticket, slice_of(t->out->p + t->reply_at, t->out->len - t->reply_at));
    return true;
}

static void ran(void *ctx, const struct task *t, const struct request *r, const struct shard *shard, const struct exec *x, struct hold *h)
{
    struct seat *seat = of_shard(ctx, shard);
    if (t->stale && !(r->cmd->flags & CMD_WRITE)) return;
    bool noted = note_once(seat, t, r, x);
    pthread_mutex_lock(&seat->lock);
    h->bounced = !settle_locked(seat) || !still_leads(seat);
    if (!h->bounced) {
        h->seat = seat;
        h->reign = seat->reign;
        h->wrote = noted || x->ops > 0;
        h->sequence = seat->shown;
        if (!h->wrote) hold_shown(seat, t, h, has_one_key(r->cmd) ? seatshown_of_key(&seat->shows, r->hash) : seat->shown); /* one that found nothing to do has only looked */
    }
    pthread_mutex_unlock(&seat->lock);
}

static void settle(void *ctx, const struct shard *shard)
{
    struct seat *seat = of_shard(ctx, shard);
    if (!seat || seat->pending.len == 0) return;
    pthread_mutex_lock(&seat->lock);
    settle_locked(seat);
    pthread_mutex_unlock(&seat->lock);
    seats_hurry(seat->all);
}

const struct seating seat_serve = {.admits = admits, .repeats = repeats, .ran = ran, .rules = rules, .settle = settle, .intents = intents, .holding = holding, .group = group, .mark = mark, .serves = serves};
