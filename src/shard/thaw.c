#include "shard/thaw.h"

#include "base/check.h"
#include "base/mem.h"
#include "cold/readers.h"
#include "store/chill.h"
#include "store/evict.h"

enum { READER_THREADS = 4, KEYS_ON_STACK = 64 };

/* A value that is to be read, or that was lent. */
struct thaw_item {
    struct slice key; /* of the request's arguments */
    uint64_t hash;
    struct chill_ref ref;
    const struct entry *e; /* lent: the warm one */
    struct buf bytes;
    int error;
    uint16_t db;
};

struct thaw {
    struct readers_job job;
    struct task *task;
    struct thaws *all;
    struct thaw_item *items, *lent;
    uint32_t n, cap, n_lent, cap_lent;
};

static struct thaw *thaw_of(struct worker *w, struct task *t)
{
    if (t->thaw) return t->thaw;
    t->thaw = mem_zalloc(sizeof *t->thaw);
    t->thaw->task = t;
    t->thaw->all = w->engine->thaws;
    return t->thaw;
}

static void free_thaw(struct task *t)
{
    struct thaw *th = t->thaw;
    if (!th) return;
    for (uint32_t i = 0; i < th->n; i++) buf_fini(&th->items[i].bytes);
    mem_free(th->items);
    mem_free(th->lent);
    mem_free(th);
    t->thaw = NULL;
}

static struct thaw_item *add_item(struct thaw_item **items, uint32_t *n, uint32_t *cap)
{
    if (*n == *cap) {
        *cap = *cap * 2 + 4;
        *items = mem_resize(*items, *cap * sizeof **items);
    }
    return &(*items)[(*n)++];
}

/* ---- putting values in place */

/* Bytes of all shards, as they were published. */
static uint64_t used_bytes(const struct engine *e)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < e->route.shards; i++) sum += atomic_load_explicit(&e->shards[i].bytes, memory_order_relaxed);
    return sum;
}

static bool stays(const struct thaws *all, const struct store *s, const struct entry *e)
{
    uint64_t used = used_bytes(all->engine);
    if (used < atomic_load_explicit(&all->plenty_below, memory_order_relaxed)) return true;
    if (used > atomic_load_explicit(&all->keep_below, memory_order_relaxed)) return false;
    return evict_idle_ms(s->now_ms, entry_access(e)) <= atomic_load_explicit(&all->horizon_ms, memory_order_relaxed);
}

static bool find_cold(struct worker *w, uint16_t db, uint64_t hash, struct slice key, struct place *at)
{
    struct store *s = w->engine->stores[route_key(&w->engine->route, key, hash)];
    *at = (struct place){s, s->dbs[db], db, hash, key, NULL};
    if (!at->db || !at->db->cold) return false;
    struct table_slot *slot = table_find(&at->db->keys, hash, key);
    if (slot) at->e = table_entry(slot);
    return at->e && chill_is_cold(at->e);
}

/* The cold entry at this place gets its value. False: these bytes are no such value. */
static bool install(struct worker *w, struct task *t, struct place *at, struct slice bytes)
{
    struct thaw *th = thaw_of(w, t);
    struct chill_ref ref = chill_ref_of(at->e);
    bool lend = !stays(th->all, at->store, at->e);
    if (!chill_warm(at, bytes, lend)) return false;
    atomic_fetch_add_explicit(&th->all->hits, 1, memory_order_relaxed);
    if (lend) *add_item(&th->lent, &th->n_lent, &th->cap_lent) = (struct thaw_item){.key = at->key, .hash = at->hash, .ref = ref, .e = at->e, .db = at->db_id};
    return true;
}

/* What the readers brought. False: a value that is still needed could not be read. */
static bool install_read(struct worker *w, struct task *t)
{
    struct thaw *th = t->thaw;
    bool ok = true;
    for (uint32_t i = 0; i < th->n; i++) {
        struct thaw_item *it = &th->items[i];
        struct place at;
        if (find_cold(w, it->db, it->hash, it->key, &at) && chill_same(chill_ref_of(at.e), it->ref))
            ok &= it->error == 0 && install(w, t, &at, buf_slice(&it->bytes));
        buf_fini(&it->bytes);
    }
    th->n = 0;
    return ok;
}

/* ---- finding out what is needed */

struct looking {
    struct worker *w;
    struct task *t;
    bool unreadable;
};

static void look_in(struct looking *l, uint16_t db, uint64_t hash, struct slice key)
{
    struct place at;
    if (!find_cold(l->w, db, hash, key, &at)) return;
    struct thaw *th = thaw_of(l->w, l->t);
    struct chill_ref ref = chill_ref_of(at.e);
    struct buf bytes = {0};
    if (tier_get_now(th->all->tier, ref, key, &bytes)) {
        l->unreadable |= !install(l->w, l->t, &at, buf_slice(&bytes));
        buf_fini(&bytes);
        return;
    }
    tier_pin(th->all->tier, ref);
    *add_item(&th->items, &th->n, &th->cap) = (struct thaw_item){.key = key, .hash = hash, .ref = ref, .db = db};
}

static void look_at(struct looking *l, uint16_t db, uint64_t hash, struct slice key)
{
    if (db < STORE_DBS) look_in(l, db, hash, key);
    else for (uint16_t d = 0; d < STORE_DBS; d++) look_in(l, d, hash, key);
}

static void look_at_command(void *ctx, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db)
{
    struct looking *l = ctx;
    if (c->inner_at) {
        const struct command *inner = command_inner(l->w->engine->commands, c, argv, argc);
        if (inner) look_at_command(l, inner, argv + c->inner_at, argc - (uint32_t)c->inner_at, db);
        return;
    }
    if (!command_needs_values(c, argv, argc) || (!c->first_key && !(c->flags & CMD_MOVABLE_KEYS))) return;
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack;
    int n = command_keys(c, argv, argc, at, KEYS_ON_STACK);
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(c, argv, argc, at, n);
    }
    for (int i = 0; i < n; i++) look_at(l, db, keyhash(argv[at[i]], l->w->engine->route.seed), argv[at[i]]);
    if (at != on_stack) mem_free(at);
}

static void look_at_request(struct looking *l)
{
    const struct task *t = l->t;
    const struct request *r = &t->requests[t->pos];
    const struct slice *argv = t->args + r->first_arg;
    if (r->cmd->each_inner) r->cmd->each_inner(t->session, look_at_command, l);
    else if (r->kind != REQUEST_ONE || !r->have_hash) look_at_command(l, r->cmd, argv, r->argc, t->db);
    else if (command_needs_values(r->cmd, argv, r->argc)) look_in(l, t->db, r->hash, argv[r->cmd->first_key]);
}

/* What was lent stays, for the request does not run yet. */
static void keep_lent(struct thaw *th)
{
    for (uint32_t i = 0; i < th->n_lent; i++) tier_drop(th->all->tier, th->lent[i].ref);
    th->n_lent = 0;
}

static void forget_items(struct thaw *th)
{
    for (uint32_t i = 0; i < th->n; i++) tier_unpin(th->all->tier, th->items[i].ref);
    th->n = 0;
}

enum thaw_state thaw_prepare(struct worker *w, struct task *t)
{
    struct looking l = {w, t, false};
    if (!t->requests[t->pos].cmd) return THAW_READY;
    if (t->thaw) l.unreadable = !install_read(w, t);
    if (!l.unreadable) look_at_request(&l);
    struct thaw *th = t->thaw;
    if (!th || (!th->n && !l.unreadable)) return THAW_READY;
    keep_lent(th);
    if (!l.unreadable) return THAW_AWAY;
    forget_items(th);
    free_thaw(t);
    return THAW_UNREADABLE;
}

void thaw_settle(struct worker *w, struct task *t, uint64_t ops)
{
    struct thaw *th = t->thaw;
    for (uint32_t i = 0; i < th->n_lent; i++) {
        const struct thaw_item *it = &th->lent[i];
        struct store *s = w->engine->stores[route_key(&w->engine->route, it->key, it->hash)];
        struct place at = {s, s->dbs[it->db], it->db, it->hash, it->key, NULL};
        struct table_slot *slot = ops == 0 && at.db ? table_find(&at.db->keys, it->hash, it->key) : NULL;
        if (slot && table_entry(slot) == it->e) {
            at.e = table_entry(slot);
            chill_back(&at, it->ref);
            atomic_fetch_add_explicit(&th->all->lent, 1, memory_order_relaxed);
        } else {
            tier_drop(th->all->tier, it->ref);
        }
    }
    free_thaw(t);
}

/* ---- the way to the readers and back */

static bool attempt_again(struct worker *w, struct shard *s, struct mail *m)
{
    struct task *t = (struct task *)m;
    task_enter(w, s);
    if (t->requests[t->pos].routed == route_version(&w->engine->route)) task_attempt(w, t, s);
    else task_schedule(w, t);
    return true;
}

/* The attempt of a blocked command on one shard is made in that shard's mailbox, as it would have been by whoever made its key ready. */
static void come_back(struct worker *w, struct mail *m)
{
    struct task *t = (struct task *)m;
    const struct request *r = &t->requests[t->pos];
    if (!t->waiter || r->kind != REQUEST_ONE) {
        task_schedule(w, t);
        return;
    }
    t->mail.to_shard = attempt_again;
    engine_post(w, &w->engine->shards[r->shard], &t->mail);
}

static void read_values(struct readers_job *j)
{
    struct thaw *th = (struct thaw *)j;
    struct tier *tier = th->all->tier;
    struct task *t = th->task;
    for (uint32_t i = 0; i < th->n; i++) {
        struct thaw_item *it = &th->items[i];
        it->error = tier_get(tier, it->ref, it->key, &it->bytes);
        tier_unpin(tier, it->ref);
    }
    t->mail.to_worker = come_back;
    engine_send(th->all->engine, t->home, &t->mail);
}

void thaw_send(struct worker *w, struct task *t)
{
    struct thaw *th = t->thaw;
    CHECK(th && th->n);
    t->sync = false;
    th->job.run = read_values;
    readers_add(th->all->readers, &th->job);
}

/* ---- what cleaning has moved: the news goes from shard to shard */

static bool tell_shard(struct worker *w, struct shard *s, struct mail *m)
{
    struct thaws *all = (struct thaws *)((char *)m - offsetof(struct thaws, relay));
    struct tier_moves *moves = all->moves;
    bool last = ++all->next_shard == w->engine->route.shards;
    for (uint32_t i = 0; i < moves->n; i++) {
        struct tier_move *v = &moves->move[i];
        struct slice key = slice_of(moves->keys.p + v->key_at, v->key_len);
        if (route_key(&w->engine->route, key, keyhash(key, w->engine->route.seed)) == s->id && chill_move(s->store, key, v->from, v->to)) {
            tier_drop(all->tier, v->from);
            v->told = true;
        }
        if (last && !v->told) tier_drop(all->tier, v->to); /* no entry has it any more */
    }
    if (!last) engine_post(w, &w->engine->shards[all->next_shard], m);
    else tier_moves_done(all->tier);
    return true;
}

static void begin_telling(struct worker *w, struct mail *m) { engine_post(w, &w->engine->shards[0], m); }

static void moved(void *ctx, struct tier_moves *m)
{
    struct thaws *all = ctx;
    all->moves = m;
    all->next_shard = 0;
    all->relay = (struct mail){.to_worker = begin_telling, .to_shard = tell_shard};
    engine_send(all->engine, 0, &all->relay);
}

/* ---- life */

struct thaws *thaw_open(struct engine *e, struct tier *t)
{
    struct thaws *all = mem_zalloc(sizeof *all);
    all->engine = e;
    all->tier = t;
    all->readers = readers_new(READER_THREADS);
    atomic_init(&all->plenty_below, UINT64_MAX);
    atomic_init(&all->keep_below, UINT64_MAX);
    for (uint32_t i = 0; i < e->route.shards; i++) e->stores[i]->tier = tier_hooks(t);
    e->thaws = all;
    tier_start(t, moved, all);
    return all;
}

void thaw_close(struct thaws *all)
{
    all->engine->thaws = NULL;
    readers_free(all->readers);
    tier_close(all->tier);
    mem_free(all);
}
