#include "shard/task_own.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "log/wal.h"
#include "shard/seating.h"
#include "shard/thaw.h"
#include "shard/wait.h"
#include "store/interest.h"

enum {
    HOLD_MAX = 64,      /* requests run under one hold of a token before others get their turn */
    LOOK_AHEAD = 12,    /* requests whose entries are touched in advance */
    TOUCH_KEYS = 32,    /* of a command with many keys, before it runs */
    CLOCKS_APART_MS = 10 * 1000, /* more than workers' clocks ever are, each having looked at the machine's at another moment */
};

/* ---- in a cluster */

static struct hold *add_hold(struct task *t)
{
    t->holds = task_grown(t->holds, &t->cap_holds, t->n_holds + 1, sizeof *t->holds);
    struct hold *h = &t->holds[t->n_holds++];
    *h = (struct hold){.reply_end = t->out->len};
    return h;
}

/* It goes elsewhere. Those behind it wait, so that they do not overtake it: the task ends here. */
static void end_at_bounce(struct task *t) { t->end = t->pos + 1; }

static void bounce(struct task *t)
{
    add_hold(t)->bounced = true;
    end_at_bounce(t);
}

static bool is_admitted(const struct worker *w, const struct task *t, const struct shard *s)
{
    const struct seating *seating = w->engine->seating;
    const struct request *r = &t->requests[t->pos];
    return r->group == SEATING_NO_GROUP || (s && seating->admits(seating->ctx, t, r, s));
}

static void note_hold(const struct worker *w, struct task *t, const struct shard *s, const struct exec *x)
{
    const struct seating *seating = w->engine->seating;
    const struct request *r = &t->requests[t->pos];
    struct hold *h = add_hold(t);
    if (r->group != SEATING_NO_GROUP) seating->ran(seating->ctx, t, r, s, x, h);
    if (unlikely(h->bounced)) end_at_bounce(t);
}

/* True: the request at pos, which another node sent, does not run, because it has happened before. */
static bool is_repeated(const struct worker *w, struct task *t, const struct shard *s)
{
    const struct seating *seating = w->engine->seating;
    const struct request *r = &t->requests[t->pos];
    const struct ticket *ticket = &t->tickets[t->pos];
    struct hold h = {0};
    if ((!ticket->seq && !ticket->again) || r->group == SEATING_NO_GROUP || !seating->repeats || !seating->repeats(seating->ctx, t, r, s, &h)) return false;
    struct hold *noted = add_hold(t);
    h.reply_end = noted->reply_end;
    *noted = h;
    if (unlikely(h.bounced)) end_at_bounce(t);
    return true;
}

/* ---- */

void task_clear(struct task *t)
{
    t->n_requests = t->n_args = t->n_shards = t->n_hashes = t->n_holds = t->pos = t->end = t->held = 0;
    t->blocked = NULL;
    t->epoch = t->seen = 0;
}

void task_fini(struct task *t)
{
    mem_free(t->requests);
    mem_free(t->args);
    mem_free(t->shards);
    mem_free(t->hashes);
    mem_free(t->holds);
    buf_fini(&t->carry);
}

/* ---- running */

/* The shard's clock does not go back, unless the machine's was set back: else what is written from then on would be past its time as soon as it is there. */
void task_enter(struct worker *w, struct shard *s)
{
    int64_t ahead_ms = s->store->now_ms - w->now_ms;
    if (ahead_ms < 0 || unlikely(ahead_ms > CLOCKS_APART_MS)) s->store->now_ms = w->now_ms;
}

static void count_command(struct worker *w, const struct task *t, struct exec *x, uint64_t ticks, bool failed)
{
    struct engine *e = w->engine;
    struct command_stat *c = &w->commands[command_place(e->commands, x->cmd, x->sub)];
    bool is_new = !x->retry; /* a further attempt belongs to the call that began to wait */
    STAT_ADD(c->calls, is_new);
    STAT_ADD(c->ticks, ticks);
    STAT_ADD(w->stats.commands, is_new);
    if (unlikely(failed)) STAT_ADD(c->failed, 1);
    if (likely(is_new && atomic_load_explicit(&e->track_latency, memory_order_relaxed))) {
        if (unlikely(!c->hist)) __atomic_store_n(&c->hist, mem_zalloc(sizeof *c->hist), __ATOMIC_RELEASE);
        hist_add(c->hist, ticks);
    }
    /* One that goes to wait is told of when it has its answer. */
    if (unlikely(ticks >= atomic_load_explicit(&e->slow_ticks, memory_order_relaxed)) && e->hooks.slow && !x->block.wanted)
        e->hooks.slow(e->hooks.ctx, t, x, ticks);
}

/* A command that visits shards in turn counts once, with the time of all its visits. True: this was the last. */
static bool count_visit(const struct worker *w, struct exec *x, uint64_t *ticks)
{
    x->carry_ticks += *ticks;
    *ticks = x->carry_ticks;
    return x->done || x->shard + 1u == w->engine->route.shards;
}

/* Calls the command's function and accounts for it. A command inside EXEC has the time of EXEC: what a transaction sees does not expire under it. */
static void call(struct worker *w, const struct task *t, struct exec *x)
{
    struct engine *e = w->engine;
    uint64_t start = clock_ticks();
    if (likely(!x->in_multi)) x->now_ms = w->now_ms;
    struct buf *out = x->out.out;
    size_t reply_at = out->len;
    bool was_occupied = w->occupied;
    w->occupied = true; /* what the command posts or releases runs after it: x is in use */
    x->cmd->fn(x);
    w->occupied = was_occupied;
    bool failed = out->len > reply_at && out->p[reply_at] == '-';
    uint64_t end = clock_ticks(), ticks = end - start;
    if (unlikely(end - w->now_ticks > e->ticks_per_ms)) engine_clock(w); /* before the next one, and before its shard is entered */
    if (unlikely(x->cmd->class >= CLASS_EACH) && !count_visit(w, x, &ticks)) return;
    count_command(w, t, x, ticks, failed);
    if (unlikely(failed) && e->hooks.error)
        e->hooks.error(e->hooks.ctx, w, slice_of(out->p + reply_at, out->len - reply_at));
}

static struct exec *set_up(struct worker *w, struct task *t, const struct request *r)
{
    struct exec *x = &w->x;
    x->cmd = r->cmd;
    x->sub = NULL;
    x->argv = t->args + r->first_arg;
    x->argc = r->argc;
    x->db = t->db;
    x->out = (struct reply){.out = t->out, .resp = t->resp};
    x->session = t->session;
    x->key_hash = r->hash;
    x->have_hash = r->have_hash;
    x->key_hashes = t->hashes + r->first_hash;
    x->n_key_hashes = r->cmd->flags & CMD_MOVABLE_KEYS ? 0 : r->n_hashes;
    x->next_key_hash = 0;
    x->in_multi = x->unreadable = false;
    x->no_touch = t->no_touch;
    x->retry = t->waiter != NULL;
    x->block.wanted = false;
    x->ops = 0;
    x->writes = r->cmd->flags & CMD_WRITE;
    x->reads = r->cmd->flags & CMD_READONLY;
    return x;
}

/* A command that visits shards in turn, all of them held: the visits from `first` on. */
static void call_each(struct worker *w, struct task *t, struct exec *x, uint32_t first)
{
    t->carry.len = 0;
    x->carry = &t->carry;
    x->carry_n = 0;
    x->carry_ticks = 0;
    x->done = false;
    for (uint32_t s = first; s < w->engine->route.shards && !x->done; s++) {
        x->shard = (uint16_t)s;
        call(w, t, x);
    }
}

void task_run_command(struct worker *w, struct task *t, const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    struct exec *x = &w->x;
    x->cmd = cmd;
    x->sub = NULL;
    x->argv = argv;
    x->argc = argc;
    x->db = t->db;
    x->have_hash = false;
    x->n_key_hashes = 0;
    x->in_multi = true;
    x->retry = false;
    x->block.wanted = false;
    x->writes |= (cmd->flags & CMD_WRITE) != 0;
    x->reads |= (cmd->flags & CMD_READONLY) != 0;
    if (unlikely(task_visits_shards(cmd))) call_each(w, t, x, task_route_first_visited(w->engine, cmd, argv));
    else call(w, t, x);
}

/* An op of this command went into the log's open epoch, which cannot close while we hold a token. A write that found nothing to do (DEL of what another client has just
 * deleted) promises as much as the write that it saw, and waits for it. So does a read, if what is shown shall be as safe as what is acknowledged. */
static void note_epoch(const struct worker *w, struct task *t, const struct exec *x)
{
    const struct wal *log = w->engine->wal;
    if (!log) return;
    if (x->ops) t->epoch = wal_open_epoch(log);
    else if (x->writes && !x->block.wanted) t->epoch = wal_last_epoch(log);
    else if (x->reads && atomic_load_explicit(&w->engine->reads_wait, memory_order_relaxed)) t->seen = wal_last_epoch(log);
}

/* The value of a key that the request at pos needs cannot be read: that is its answer. */
static void answer_unreadable(struct worker *w, struct task *t)
{
    struct exec *x = set_up(w, t, &t->requests[t->pos]);
    size_t reply_at = t->out->len;
    x->unreadable = true;
    if (x->cmd->each_inner) x->cmd->fn(x);
    else exec_unreadable(x);
    count_command(w, t, x, 0, true);
    if (w->engine->hooks.error) w->engine->hooks.error(w->engine->hooks.ctx, w, slice_of(t->out->p + reply_at, t->out->len - reply_at));
    if (t->waiter) wait_served(w, t->waiter);
}

/* Runs the request at pos, all its tokens held. False: it blocked, and the task ends here. */
static bool run_request(struct worker *w, struct task *t, const struct shard *s)
{
    struct request *r = &t->requests[t->pos];
    if (unlikely(t->with_all != NULL)) {
        t->with_all(w, t);
        return true;
    }
    t->reply_at = t->out->len;
    if (unlikely(t->tickets != NULL) && is_repeated(w, t, s)) return true;
    struct exec *x = set_up(w, t, r);
    x->shard = s ? s->id : EXEC_NO_SHARD;
    if (unlikely(task_visits_shards(r->cmd)) && r->n_shards) call_each(w, t, x, r->shard);
    else call(w, t, x);
    note_epoch(w, t, x);
    if (unlikely(w->engine->seating != NULL)) note_hold(w, t, s, x);
    if (unlikely(t->thaw != NULL)) thaw_settle(w, t, x->ops);
    if (unlikely(x->block.wanted)) {
        t->blocked = wait_again(w, t, x, r);
        return false;
    }
    if (unlikely(t->waiter != NULL)) wait_served(w, t->waiter);
    return true;
}

static void count_shard(struct worker *w, struct shard *s, const struct task *t, uint32_t ops)
{
    if (unlikely(atomic_load_explicit(&w->engine->count_bytes, memory_order_relaxed))) engine_publish(s);
    STAT_ADD(s->stats.ops, ops);
    if (s->home == t->home) STAT_ADD(s->stats.local, ops);
    else STAT_ADD(s->stats.foreign, ops);
}

/* Touches the entries that the next requests for this shard will need: their misses overlap instead of adding up. */
static void look_ahead(const struct task *t, const struct shard *s)
{
    const struct db *db = s->store->dbs[t->db];
    if (!db) return;
    uint32_t end = t->pos + LOOK_AHEAD < t->end ? t->pos + LOOK_AHEAD : t->end;
    for (uint32_t i = t->pos; i < end; i++) {
        struct request *r = &t->requests[i];
        if (r->shard != s->id || r->touched || !r->have_hash || r->kind != REQUEST_ONE) continue;
        r->touched = true;
        table_prefetch_entry(&db->keys, r->hash);
    }
}

void task_touch(struct worker *w, struct task *t)
{
    struct request *r = &t->requests[t->pos];
    if (t->pos == t->n_requests || !r->have_hash || r->kind != REQUEST_ONE || r->touched) return;
    struct shard *s = &w->engine->shards[r->shard];
    if (!engine_try(s)) return;
    const struct db *db = s->store->dbs[t->db];
    if (db) table_prefetch_entry(&db->keys, r->hash);
    r->touched = true;
    engine_release(w, s);
}

/* The request at pos has run. */
static void step(struct task *t)
{
    t->pos++;
    if (unlikely(t->out_max && t->out->len >= t->out_max)) t->end = t->pos;
}

/* Runs the requests from pos on that need just this shard, whose token is held. False: the task has gone to read a cold value. */
static bool run_on(struct worker *w, struct task *t, struct shard *s)
{
    uint32_t n = 0;
    bool go_on = true;
    enum thaw_state cold = THAW_READY;
    while (go_on && t->pos < t->end && n < HOLD_MAX) {
        const struct request *r = &t->requests[t->pos];
        if (r->kind != REQUEST_ONE || r->shard != s->id) break;
        if (unlikely(!task_still_here(t, w->engine))) break;
        if (!r->touched && t->end - t->pos > 1) look_ahead(t, s);
        task_enter(w, s);
        if (thaw_may_need(t, s)) cold = thaw_prepare(w, t);
        if (unlikely(cold == THAW_AWAY)) break;
        if (unlikely(cold == THAW_UNREADABLE)) answer_unreadable(w, t);
        else if (unlikely(w->engine->seating != NULL) && !is_admitted(w, t, s)) bounce(t);
        else go_on = run_request(w, t, s);
        cold = THAW_READY;
        step(t);
        n++;
        if (unlikely(interest_any_ready(s->store->interests))) wait_serve(w, s);
    }
    count_shard(w, s, t, n);
    if (!go_on) t->end = t->pos;
    if (likely(cold != THAW_AWAY)) return true;
    thaw_send(w, t);
    return false;
}

/* Keys went from shard to shard between two visits: some may have been met twice, others never. It begins again, holding all shards. */
static void visit_at_once(const struct engine *e, struct task *t, struct request *r)
{
    r->kind = REQUEST_MANY;
    r->first_shard = t->n_shards;
    task_add_all_shards(t, r, e);
    t->held = 0;
}

/* One shard of a request that visits each; the token is held. */
static void run_each(struct worker *w, struct task *t, struct shard *s)
{
    task_enter(w, s);
    struct request *r = &t->requests[t->pos];
    if (t->held == 0) {
        r->routed = route_version(&w->engine->route);
        t->carry.len = 0;
        t->carry_n = 0;
        t->carry_ticks = 0;
    } else if (unlikely(r->routed != route_version(&w->engine->route))) {
        visit_at_once(w->engine, t, r);
        return;
    }
    struct exec *x = set_up(w, t, r);
    x->shard = s->id;
    x->carry = &t->carry;
    x->carry_n = t->carry_n;
    x->done = false;
    x->carry_ticks = t->carry_ticks;
    call(w, t, x);
    note_epoch(w, t, x);
    t->carry_n = x->carry_n;
    t->carry_ticks = x->carry_ticks;
    count_shard(w, s, t, 1);
    if (x->done || r->shard + ++t->held == w->engine->route.shards) {
        t->held = 0;
        step(t);
    }
}

static bool go_to(struct worker *w, struct task *t, struct shard *s);

/* Takes the tokens that the request at pos still lacks. False: the task went to the first busy one. */
static bool acquire(struct worker *w, struct task *t)
{
    const struct request *r = &t->requests[t->pos];
    while (t->held < r->n_shards) {
        struct shard *s = &w->engine->shards[t->shards[r->first_shard + t->held]];
        if (!engine_try(s)) return go_to(w, t, s);
        t->held++;
    }
    return true;
}

/* The entries of all keys at once, under their tokens: the misses overlap. */
static void touch_keys(const struct worker *w, const struct task *t, const struct request *r)
{
    const struct engine *e = w->engine;
    if (unlikely(route_map(&e->route) != NULL)) return; /* by the hash alone nothing is found */
    for (uint32_t i = 0; i < r->n_hashes && i < TOUCH_KEYS; i++) {
        uint64_t hash = t->hashes[r->first_hash + i];
        const struct db *db = e->stores[route_shard(&e->route, hash)]->dbs[t->db];
        if (db) table_prefetch_entry(&db->keys, hash);
    }
}

/* The lowest last: as long as it is held nobody can end the waiter that owns ids. */
static void release_many(struct worker *w, struct shard *shards, const uint16_t *ids, uint32_t n, const struct shard *keep)
{
    for (uint32_t i = n; i-- > 0;) {
        struct shard *s = &shards[ids[i]];
        if (s != keep) engine_release(w, s);
    }
}

/* Whether the request at pos, whose tokens are held, can run as far as cold values are concerned. */
static enum thaw_state thaw_many(struct worker *w, struct task *t, const uint16_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (thaw_may_need(t, &w->engine->shards[ids[i]])) return t->with_all ? THAW_READY : thaw_prepare(w, t);
    return THAW_READY;
}

/* Runs a request that holds several shards and releases all but `keep`. False: it has gone to read cold values; or it was an attempt that found nothing; its waiter is
 * back in line, and as soon as the tokens are free another thread may try again: the task is not ours any more. */
static bool run_many(struct worker *w, struct task *t, const struct shard *keep)
{
    struct request *r = &t->requests[t->pos];
    struct shard *shards = w->engine->shards;
    uint32_t first = r->first_shard, n = r->n_shards;
    if (unlikely(!task_still_here(t, w->engine))) {
        t->held = 0;
        release_many(w, shards, t->shards + first, n, keep);
        return true;
    }
    touch_keys(w, t, r);
    const uint16_t *ids = t->shards + r->first_shard;
    uint16_t *own = r->strayed ? mem_dup(ids, n * sizeof *ids) : NULL; /* its waiter will stand elsewhere, and others may use the list before the last token here is released */
    if (own) ids = own;
    for (uint32_t i = 0; i < n; i++) task_enter(w, &shards[ids[i]]);
    enum thaw_state cold = thaw_many(w, t, ids, n);
    if (unlikely(cold == THAW_AWAY)) {
        t->held = 0;
        release_many(w, shards, ids, n, keep);
        mem_free(own);
        thaw_send(w, t);
        return false;
    }
    bool go_on = true;
    const struct shard *seat = w->engine->seating && n == 1 ? &shards[ids[0]] : NULL;
    if (unlikely(cold == THAW_UNREADABLE)) answer_unreadable(w, t);
    else if (unlikely(w->engine->seating && !t->with_all && !is_admitted(w, t, seat))) bounce(t);
    else go_on = run_request(w, t, seat);
    for (uint32_t i = 0; i < n; i++) {
        struct shard *s = &shards[ids[i]];
        count_shard(w, s, t, 1);
        if (unlikely(interest_any_ready(s->store->interests))) wait_serve(w, s);
    }
    bool ours = go_on || !t->waiter;
    if (ours) {
        step(t);
        t->held = 0;
        if (!go_on) t->end = t->pos;
    }
    release_many(w, shards, ids, n, keep);
    mem_free(own);
    if (n == 0) engine_release_rest(w);
    return ours;
}

static void deliver(struct worker *w, struct mail *m)
{
    struct task *t = (struct task *)m;
    t->finish(w, t);
}

static void go_home(struct worker *w, struct task *t)
{
    t->mail.to_worker = deliver;
    engine_send(w->engine, t->home, &t->mail);
}

static void resume_at_home(struct worker *w, struct mail *m)
{
    struct task *t = (struct task *)m;
    if (run_many(w, t, NULL)) task_schedule(w, t);
}

/* The request at pos has its tokens but must run on the home worker, which this is not: the task goes there, tokens and all. */
static bool sent_home(struct worker *w, struct task *t)
{
    if (likely(!t->requests[t->pos].at_home || w->id == t->home)) return false;
    t->mail.to_worker = resume_at_home;
    engine_send(w->engine, t->home, &t->mail);
    return true;
}

/* The token of the shard the task was waiting for is here. */
static bool arrive(struct worker *w, struct shard *s, struct mail *m)
{
    struct task *t = (struct task *)m;
    switch (t->requests[t->pos].kind) {
    case REQUEST_ONE:
        if (!run_on(w, t, s)) return true;
        break;
    case REQUEST_EACH: run_each(w, t, s); break;
    default:
        t->held++;
        if (!acquire(w, t) || sent_home(w, t)) return false; /* the token went along */
        if (!run_many(w, t, s)) return true;
    }
    if (t->pos == t->end) go_home(w, t);
    else task_schedule(w, t);
    return true;
}

static bool go_to(struct worker *w, struct task *t, struct shard *s)
{
    t->sync = false;
    t->mail.to_shard = arrive;
    engine_post(w, s, &t->mail);
    return false;
}

/* True: done. False: on its way, not ours any more. */
static bool advance(struct worker *w, struct task *t)
{
    struct shard *shards = w->engine->shards;
    while (t->pos < t->end) {
        const struct request *r = &t->requests[t->pos];
        struct shard *s = NULL;
        if (likely(r->kind == REQUEST_ONE)) s = &shards[r->shard];
        else if (r->kind == REQUEST_EACH) s = &shards[r->shard + t->held];
        if (!s) {
            if (!acquire(w, t) || sent_home(w, t)) return false;
            if (!run_many(w, t, NULL)) return false;
            continue;
        }
        if (!engine_try(s)) return go_to(w, t, s);
        bool ours = true;
        if (r->kind == REQUEST_ONE) ours = run_on(w, t, s);
        else run_each(w, t, s);
        engine_release(w, s);
        if (!ours) return false;
    }
    return true;
}

bool task_start(struct worker *w, struct task *t)
{
    t->sync = true;
    return advance(w, t);
}

void task_schedule(struct worker *w, struct task *t)
{
    t->next_runnable = NULL;
    *w->runnable_end = t;
    w->runnable_end = &t->next_runnable;
}

void task_pump(struct worker *w)
{
    while (w->runnable) {
        struct task *t = w->runnable;
        w->runnable = t->next_runnable;
        if (!w->runnable) w->runnable_end = &w->runnable;
        if (advance(w, t)) go_home(w, t);
    }
}

/* In a cluster: whether a waiter's command may still run in this seat. */
static bool is_still_admitted(const struct worker *w, struct task *t, const struct shard *s)
{
    const struct engine *e = w->engine;
    struct request *r = &t->requests[0];
    uint64_t version = route_version(&e->route); /* before the map is looked at */
    if (r->routed != version && task_route_group(e, t, r, t->args + r->first_arg) != r->group) return false;
    r->routed = version;
    return is_admitted(w, t, s);
}

bool task_attempt(struct worker *w, struct task *t, struct shard *s)
{
    t->pos = t->n_holds = 0;
    enum thaw_state cold = thaw_may_need(t, s) ? thaw_prepare(w, t) : THAW_READY;
    if (unlikely(cold == THAW_AWAY)) {
        thaw_send(w, t);
        return false;
    }
    if (unlikely(cold == THAW_UNREADABLE)) {
        answer_unreadable(w, t);
    } else if (unlikely(w->engine->seating && !is_still_admitted(w, t, s))) {
        bounce(t);
        wait_served(w, t->waiter);
    } else if (!run_request(w, t, s) && !t->waiter->turn) {
        return false;
    }
    t->pos = t->end = 1;
    go_home(w, t);
    return true;
}
