#include "shard/wait.h"

#include "base/check.h"
#include "base/mem.h"
#include "shard/seating.h"

static void finish_attempt(struct worker *w, struct task *t) { t->waiter->served(w, t->waiter); }

/* A copy of the request with bytes of its own: the connection's input does not last. */
static void copy_request(struct waiter *wt, const struct task *t, const struct request *r)
{
    struct task *a = &wt->task;
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->argc; i++) bytes += t->args[r->first_arg + i].n;
    wt->bytes = mem_alloc(bytes + 1);
    a->args = mem_alloc(r->argc * sizeof *a->args);
    char *p = wt->bytes;
    for (uint32_t i = 0; i < r->argc; i++) {
        struct slice s = t->args[r->first_arg + i];
        if (s.n) memcpy(p, s.p, s.n);
        a->args[i] = slice_of(p, s.n);
        p += s.n;
    }
    a->requests = mem_dup(r, sizeof *r);
    a->requests[0].first_arg = a->requests[0].first_shard = 0;
    a->requests[0].n_hashes = 0;
    if (r->n_shards) a->shards = mem_dup(t->shards + r->first_shard, r->n_shards * sizeof *a->shards);
    a->n_requests = 1;
    a->n_args = r->argc;
    a->n_shards = r->n_shards;
}

static struct waiter *waiter_new(struct task *t, const struct exec *x, const struct request *r)
{
    struct waiter *wt = mem_zalloc(sizeof *wt + x->block.count * sizeof wt->interests[0]);
    copy_request(wt, t, r);
    wt->n = x->block.count;
    wt->timeout_ms = x->block.timeout_ms;
    wt->served = t->served;
    wt->turn = t->turn;
    wt->owner = t->owner;
    wt->task.waiter = wt;
    wt->task.finish = finish_attempt;
    wt->task.session = t->session;
    wt->task.home = t->home;
    wt->task.db = t->db;
    wt->task.resp = t->resp;
    wt->task.no_touch = t->no_touch;
    wt->task.out = &wt->answer;
    wt->task.end = 1;
    return wt;
}

/* In a cluster all keys are in the seat whose token is held, and the map may be another one by now. */
static struct interests *interests_of(const struct engine *e, const struct exec *x, struct slice key, uint64_t hash)
{
    return e->stores[e->seating ? x->shard : route_key(&e->route, key, hash)]->interests;
}

/* Leaves the waiter at each of its keys; where the keys have moved, at their new place instead of the old one. */
static void stand_in_line(struct worker *w, struct waiter *wt, const struct exec *x)
{
    for (uint32_t i = 0; i < wt->n; i++) {
        struct interest *in = &wt->interests[i];
        struct slice key = wt->task.args[x->block.first + i * x->block.step];
        uint64_t hash = keyhash(key, w->engine->route.seed);
        if (in->key) interest_remove(interest_home(in), in);
        in->waiter = wt;
        interest_add(interests_of(w->engine, x, key, hash), in, wt->task.db, key, hash);
    }
}

struct waiter *wait_again(struct worker *w, struct task *t, struct exec *x, struct request *r)
{
    struct waiter *wt = t->waiter;
    if (wt) { /* an attempt found nothing: ready again, as it was */
        if (r->strayed) {
            stand_in_line(w, wt, x);
            task_settle(t, w->engine);
        }
        t->pos = t->held = 0;
        t->end = 1;
        if (!wt->turn) atomic_store(&wt->state, WAIT_WAITING);
        return wt;
    }
    wt = waiter_new(t, x, r);
    stand_in_line(w, wt, x);
    return wt;
}

void wait_served(struct worker *w, struct waiter *wt)
{
    for (uint32_t i = 0; i < wt->n; i++) { /* the others in line for these keys may be due as well */
        struct interest *in = &wt->interests[i];
        if (!in->key) continue;
        struct interests *all = interest_home(in);
        interest_ready(all, in);
        interest_remove(all, in);
    }
    atomic_store(&wt->state, WAIT_SERVED);
}

/* What the commands of a group wait for. */
static bool waits_for(const struct waiter *wt, enum type t)
{
    const char *group = wt->task.requests[0].cmd->group;
    if (t == TYPE_LIST) return strcmp(group, "list") == 0;
    if (t == TYPE_ZSET) return strcmp(group, "sorted-set") == 0;
    return t == TYPE_STREAM && strcmp(group, "stream") == 0;
}

static struct shard *shard_of(const struct worker *w, const struct waiter *wt)
{
    const struct request *r = &wt->task.requests[0];
    return &w->engine->shards[r->kind == REQUEST_ONE ? r->shard : wt->task.shards[r->first_shard]];
}

static void take_turn(struct worker *w, struct mail *m)
{
    struct waiter *wt = (struct waiter *)m;
    wt->turn(w, wt);
}

static void call_home(struct worker *w, struct waiter *wt)
{
    wt->task.mail.to_worker = take_turn;
    engine_send(w->engine, wt->task.home, &wt->task.mail);
}

/* Tries to serve the first fitting waiter of a ready key. One that spans shards is tried by a task of its own, which calls the key ready
 * again when it has served; so does one that was served here: both ways the next in line gets its turn. While such a task is under way nobody
 * behind its waiter is served: it needs this shard too, so it will see what is there now. */
static void serve_key(struct worker *w, struct shard *s, enum type type, struct interest *i)
{
    for (; i; i = i->next) {
        struct waiter *wt = i->waiter;
        int state = WAIT_WAITING;
        if (i->dirty || !waits_for(wt, type)) continue;
        if (!atomic_compare_exchange_strong(&wt->state, &state, WAIT_ATTEMPT)) {
            if (state == WAIT_ATTEMPT) return;
            continue; /* cancelled, not yet out of line */
        }
        wt->task.blocked = NULL;
        if (wt->turn) call_home(w, wt);
        else if (wt->task.requests[0].kind == REQUEST_ONE || w->engine->seating) task_attempt(w, &wt->task, s);
        else task_schedule(w, &wt->task);
        return;
    }
}

/* The key has moved to another shard, and those who wait for it follow: their attempts will find nothing and stand in line there. */
static void send_on(struct worker *w, struct interest *i)
{
    for (; i; i = i->next) {
        struct waiter *wt = i->waiter;
        int state = WAIT_WAITING;
        if (i->dirty || !atomic_compare_exchange_strong(&wt->state, &state, WAIT_ATTEMPT)) continue;
        wt->task.blocked = NULL;
        task_schedule(w, &wt->task);
    }
}

/* In a cluster: the key goes to another group. Attempts find that out and bounce, each calls the key ready again for the next, and whoever waits asks anew where it is. Nobody needs a turn for that. */
static void turn_away(struct worker *w, struct shard *s, struct interest *i)
{
    for (; i; i = i->next) {
        struct waiter *wt = i->waiter;
        int state = WAIT_WAITING;
        if (i->dirty || !atomic_compare_exchange_strong(&wt->state, &state, WAIT_ATTEMPT)) continue;
        wt->task.blocked = NULL;
        task_attempt(w, &wt->task, s);
        return;
    }
}

static bool is_served_here(const struct engine *e, const struct shard *s, struct slice key)
{
    const struct seating *seating = e->seating;
    return !seating || !seating->serves || seating->serves(seating->ctx, s, key);
}

void wait_serve(struct worker *w, struct shard *s)
{
    struct interest *first;
    struct place at;
    uint16_t db;
    struct slice key;
    task_enter(w, s); /* what made the key ready may have taken longer than the key lives */
    while (interest_next_ready(s->store->interests, &db, &key, &first)) {
        uint64_t hash = keyhash(key, w->engine->route.seed);
        if (unlikely(!w->engine->seating && route_key(&w->engine->route, key, hash) != s->id)) {
            send_on(w, first);
            continue;
        }
        if (unlikely(!is_served_here(w->engine, s, key))) {
            turn_away(w, s, first);
            continue;
        }
        store_peek(s->store, db, hash, key, &at);
        if (at.e) serve_key(w, s, entry_type(at.e), first);
    }
}

/* ---- turns */

static bool try_now(struct worker *w, struct shard *s, struct mail *m)
{
    struct waiter *wt = (struct waiter *)m;
    task_enter(w, s);
    task_attempt(w, &wt->task, s);
    if (interest_any_ready(s->store->interests)) wait_serve(w, s);
    return true;
}

void wait_go(struct worker *w, struct waiter *wt)
{
    CHECK(wt->turn && atomic_load(&wt->state) == WAIT_ATTEMPT);
    wt->task.mail.to_shard = try_now;
    engine_post(w, shard_of(w, wt), &wt->task.mail);
}

/* What became ready meanwhile was left for it. */
static bool rejoin(struct worker *w, struct shard *s, struct mail *m)
{
    struct waiter *wt = (struct waiter *)m;
    for (uint32_t i = 0; i < wt->n; i++)
        if (wt->interests[i].key) interest_ready(interest_home(&wt->interests[i]), &wt->interests[i]);
    atomic_store(&wt->state, WAIT_WAITING);
    wait_serve(w, s);
    return true;
}

void wait_rejoin(struct worker *w, struct waiter *wt)
{
    CHECK(wt->turn && atomic_load(&wt->state) == WAIT_ATTEMPT);
    wt->task.mail.to_shard = rejoin;
    engine_post(w, shard_of(w, wt), &wt->task.mail);
}

/* ---- giving up */

/* Whoever is behind it in line may be due: while it was claimed, nobody was served. */
static bool clean_up(struct worker *w, struct shard *s, struct mail *m)
{
    struct waiter *wt = (struct waiter *)m;
    const struct request *r = &wt->task.requests[0];
    for (uint32_t i = 0; i < wt->n; i++) {
        if (!wt->interests[i].key || interest_home(&wt->interests[i]) != s->store->interests) continue;
        interest_ready(s->store->interests, &wt->interests[i]);
        interest_remove(s->store->interests, &wt->interests[i]);
    }
    if (r->kind == REQUEST_ONE || ++wt->cleaned == r->n_shards) wait_free(wt);
    else engine_post(w, &w->engine->shards[wt->task.shards[r->first_shard + wt->cleaned]], &wt->task.mail);
    if (interest_any_ready(s->store->interests)) wait_serve(w, s);
    return true;
}

static bool give_up(struct worker *w, struct waiter *wt, int from)
{
    if (!atomic_compare_exchange_strong(&wt->state, &from, WAIT_CANCELLED)) return false;
    if (wt->n == 0) { /* it waited for time alone */
        wait_free(wt);
        return true;
    }
    wt->task.mail.to_shard = clean_up;
    engine_post(w, shard_of(w, wt), &wt->task.mail);
    return true;
}

bool wait_cancel(struct worker *w, struct waiter *wt) { return give_up(w, wt, WAIT_WAITING); }

bool wait_claim(struct waiter *wt)
{
    int waiting = WAIT_WAITING;
    return atomic_compare_exchange_strong(&wt->state, &waiting, WAIT_ATTEMPT);
}

void wait_cancel_claimed(struct worker *w, struct waiter *wt)
{
    bool cancelled = give_up(w, wt, WAIT_ATTEMPT);
    CHECK(cancelled);
}

void wait_abandon(struct waiter *wt)
{
    for (uint32_t i = 0; i < wt->n; i++)
        if (wt->interests[i].key) interest_remove(interest_home(&wt->interests[i]), &wt->interests[i]);
    wait_free(wt);
}

void wait_free(struct waiter *wt)
{
    task_fini(&wt->task);
    buf_fini(&wt->answer);
    mem_free(wt->bytes);
    mem_free(wt);
}
