#include "shard/topology.h"

#include <errno.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/le.h"
#include "base/mem.h"
#include "route/spacerecord.h"
#include "shard/carry.h"
#include "shard/locks.h"
#include "shard/task.h"

enum {
    ORDER_ENTRIES = 2000, /* of a store, looked at in one slice */
    /* A rest as long as the slice follows each: half of the time at least is everybody else's, whatever there is to move. A slice that took long because the machine is busy is no reason to rest longer than this. */
    REST_MOST_US = 5000,
    STALLED_US = 100 * 1000,
};

static const char id_counter[] = "counter/range"; /* in shard 0's system database: the next id, u64 little endian */

struct unordered { /* a space whose keys are not all in the index yet */
    uint64_t stamp;
    struct buf name;
};

struct ordering { /* of one shard, under its token */
    _Atomic uint64_t wanted, done; /* stamps of changes; any thread may look */
    uint64_t walks_for;            /* the stamp that the walk under way takes in; 0: none is */
    uint64_t line;                 /* the stamp since which the line is wanted */
    struct store_ordering at;
    struct unordered *unordered;
    uint32_t n, cap;
};

struct followed { /* a map that waits for its turn */
    struct followed *next;
    struct space_map *map;
};

struct topology {
    struct engine *engine;
    struct space_map *empty;    /* what changes are made from before the first one */
    struct ordering *orderings; /* of each shard */
    struct task slice;          /* worker 0's */
    struct task follow;         /* worker 0's, too: puts a map from elsewhere into force */
    struct space_map *following; /* that map; the task's while it is away */
    bool follows;               /* worker 0: the task is away */
    struct followed *followed, **followed_end; /* worker 0: maps that wait */
    bool running;
    bool stalled;          /* the last slice could not go on: not before STALLED_US */
    int64_t slice_us;      /* that the last slice took */
    int64_t rest_until_us; /* of the monotonic clock: the next slice comes then */
    atomic_bool busy;
    _Atomic uint32_t lines; /* stores whose line is wanted */
    struct topology_stats stats; /* relaxed; one writer at a time */
};

/* ---- what is ordered */

static bool space_is_ordered(const struct space_map *m, struct slice name)
{
    struct space_info info;
    const struct space *s = spaces_find(m, name);
    if (!s) return false;
    spaces_describe(s, &info);
    return info.mode != SPACE_HASH || (info.moving && info.to_mode != SPACE_HASH);
}

static bool asked_if_ordered(void *ctx, struct slice space)
{
    const struct engine *e = ctx;
    const struct space_map *m = route_map(&e->route);
    return m && space_is_ordered(m, space);
}

/* From the first ordered space on, the stores ask. All tokens are held. */
static void have_stores_ask(struct engine *e)
{
    for (uint32_t i = 0; i < e->route.shards; i++) {
        e->stores[i]->is_ordered = asked_if_ordered;
        e->stores[i]->is_ordered_ctx = e;
    }
}

bool topology_is_ordered(const struct topology *t, uint32_t shard, struct slice space)
{
    const struct space_map *m = route_map(&t->engine->route);
    const struct ordering *o = &t->orderings[shard];
    if (!m || !space_is_ordered(m, space)) return false;
    for (uint32_t i = 0; i < o->n; i++)
        if (slice_eq(buf_slice(&o->unordered[i].name), space)) return false;
    return true;
}

/* ---- life */

static struct space_map *take_followed(struct topology *t)
{
    struct followed *f = t->followed;
    struct space_map *m = f->map;
    t->followed = f->next;
    if (!f->next) t->followed_end = &t->followed;
    mem_free(f);
    return m;
}

struct topology *topology_new(struct engine *e)
{
    struct topology *t = mem_zalloc(sizeof *t);
    t->engine = e;
    t->orderings = mem_zalloc(e->route.shards * sizeof *t->orderings);
    t->empty = spaces_new(&e->route, SPACE_HASH, NULL, 0, 0);
    t->followed_end = &t->followed;
    e->topology = t;
    return t;
}

void topology_free(struct topology *t)
{
    for (uint32_t i = 0; i < t->engine->route.shards; i++) {
        for (uint32_t k = 0; k < t->orderings[i].n; k++) buf_fini(&t->orderings[i].unordered[k].name);
        mem_free(t->orderings[i].unordered);
    }
    mem_free(t->orderings);
    spaces_unref(t->following);
    while (t->followed) spaces_unref(take_followed(t));
    task_fini(&t->follow);
    task_fini(&t->slice);
    t->engine->topology = NULL;
    spaces_unref(t->empty);
    mem_free(t);
}

static const struct entry *find_record(const struct topology *t, uint32_t shard, struct slice key)
{
    struct place at;
    store_peek(t->engine->stores[shard], STORE_SYSTEM_DB, keyhash(key, t->engine->route.seed), key, &at);
    return at.e;
}

static void put(const struct topology *t, uint32_t shard, enum op_kind kind, struct slice key, struct slice value)
{
    store_apply(t->engine->stores[shard], &(struct op){.kind = kind, .db = STORE_SYSTEM_DB, .key = key, .value = value}, NULL);
}

uint64_t topology_new_id(struct topology *t)
{
    struct slice key = slice_of(id_counter, sizeof id_counter - 1);
    const struct entry *e = find_record(t, 0, key);
    uint64_t id = e && entry_value(e).n == 8 ? le_u64(entry_value(e).p) : spaces_max_id(topology_map(t)) + 1;
    struct buf next = {0};
    le_add_u64(&next, id + 1);
    put(t, 0, OP_SET, key, buf_slice(&next));
    buf_fini(&next);
    return id;
}

/* ---- from records to a map */

struct records {
    struct spacerecord *r;
    uint32_t n, cap;
};

static void collect(struct records *all, uint32_t shard, const struct store *s)
{
    const struct db *db = s->dbs[STORE_SYSTEM_DB];
    struct table_iter it;
    if (!db) return;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; (e = table_iter_next(&it));) {
        if (spacerecord_kind(entry_key(e)) == SPACERECORD_NONE) continue;
        if (all->n == all->cap) {
            all->cap = all->cap * 2 + 64;
            all->r = mem_resize(all->r, all->cap * sizeof *all->r);
        }
        all->r[all->n++] = (struct spacerecord){shard, entry_key(e), entry_value(e)};
    }
}

struct space_map *topology_read(const struct route *route, struct store *const *stores, struct buf *error)
{
    struct records all = {0};
    for (uint32_t i = 0; i < route->shards; i++) collect(&all, i, stores[i]);
    struct space_map *m = all.n ? spacerecord_map(route, SPACE_HASH, 1, all.r, all.n, error) : NULL;
    mem_free(all.r);
    return m;
}

int topology_load(struct topology *t, struct buf *error)
{
    struct engine *e = t->engine;
    struct space_map *m = topology_read(&t->empty->route, e->stores, error);
    if (!m) return error->len ? -EINVAL : 0;
    engine_set_map(e, NULL, m);
    have_stores_ask(e);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct store_ordering at = {0};
        while (store_order_step(e->stores[i], &at, ORDER_ENTRIES)) {}
    }
    atomic_store(&t->busy, true); /* a move may be half done */
    return 0;
}

/* ---- changes */

const struct space_map *topology_map(struct topology *t)
{
    const struct space_map *m = route_map(&t->engine->route);
    return m ? m : t->empty;
}

static void put_record(void *ctx, const struct spacerecord *r, bool remove)
{
    put(ctx, r->shard, remove ? OP_DEL : OP_SET, r->key, r->value);
}

static void want_order(struct ordering *o, struct slice name, bool index)
{
    uint64_t stamp = atomic_fetch_add(&o->wanted, 1) + 1;
    if (!index) return;
    if (o->n == o->cap) {
        o->cap = o->cap * 2 + 4;
        o->unordered = mem_resize(o->unordered, o->cap * sizeof *o->unordered);
    }
    struct unordered *u = &o->unordered[o->n++];
    *u = (struct unordered){.stamp = stamp};
    buf_add_slice(&u->name, name);
}

/* Spaces that are ordered in one of the maps and not in the other. Only changes of a mode, which are made with all tokens, make such. */
static bool note_orders(struct topology *t, const struct space_map *before, const struct space_map *next)
{
    bool any = false;
    for (uint32_t i = 0; i < next->n_spaces; i++) {
        struct space_info info;
        spaces_describe(next->spaces[i], &info);
        bool was = space_is_ordered(before, info.name), is = space_is_ordered(next, info.name);
        for (uint32_t s = 0; was != is && s < t->engine->route.shards; s++) {
            CHECK(atomic_load(&t->engine->shards[s].token));
            have_stores_ask(t->engine);
            want_order(&t->orderings[s], info.name, is);
            any = true;
        }
    }
    return any;
}

/* A space whose mode changes without a move (it holds no keys) takes its locks along here; all tokens are held. Those of a move go with its slices. */
static void take_locks_along(struct topology *t, const struct space_map *before, const struct space_map *next)
{
    uint32_t shards = t->engine->route.shards;
    bool *all = mem_alloc(shards * sizeof *all);
    memset(all, true, shards);
    for (uint32_t i = 0; i < next->n_spaces; i++) {
        struct space_info was, is;
        spaces_describe(next->spaces[i], &is);
        spaces_info(before, is.name, &was);
        if (was.generation != is.generation) locks_follow(t->engine, all, next, is.name, SLICE(""), SLICE(""));
    }
    mem_free(all);
}

/* ---- ordering */

static void ordered(struct ordering *o)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->unordered[i].stamp > o->walks_for) o->unordered[kept++] = o->unordered[i];
        else buf_fini(&o->unordered[i].name);
    }
    o->n = kept;
    atomic_store(&o->done, o->walks_for);
    o->walks_for = 0;
}

/* A walk that a change overtakes goes on to its end, and another one follows. */
static void order_slice(struct topology *t, uint32_t shard)
{
    struct ordering *o = &t->orderings[shard];
    if (!o->walks_for) {
        o->walks_for = atomic_load(&o->wanted);
        o->at = (struct store_ordering){0};
    }
    STAT_ADD(t->stats.ordered, ORDER_ENTRIES);
    if (!store_order_step(t->engine->stores[shard], &o->at, ORDER_ENTRIES)) ordered(o);
}

/* What is done in a moment is done at once, so that a space on a small server is ready when SPACE.SET has answered. With the shard's token. */
static void order_if_small(struct topology *t, uint32_t shard)
{
    uint64_t keys = 0;
    for (uint16_t db = 0; db < STORE_DBS; db++) keys += store_keys(t->engine->stores[shard], db);
    while (keys <= ORDER_ENTRIES && atomic_load(&t->orderings[shard].done) < atomic_load(&t->orderings[shard].wanted)) order_slice(t, shard);
}

/* All tokens are held. */
static void order_small_stores(struct topology *t)
{
    for (uint32_t i = 0; i < t->engine->route.shards; i++) order_if_small(t, i);
}

/* ---- lines */

static void want_line(struct topology *t, uint32_t shard, bool in_line)
{
    struct store *s = t->engine->stores[shard];
    struct ordering *o = &t->orderings[shard];
    if (s->in_line == in_line) return;
    s->in_line = in_line;
    o->line = atomic_fetch_add(&o->wanted, 1) + 1;
    atomic_fetch_add(&t->lines, in_line ? 1 : UINT32_MAX);
    order_if_small(t, shard);
    atomic_store(&t->busy, true);
}

bool topology_line_is_ordered(struct topology *t, uint32_t shard)
{
    want_line(t, shard, true);
    return atomic_load(&t->orderings[shard].done) >= t->orderings[shard].line;
}

void topology_let_line_go(struct topology *t, uint32_t shard) { want_line(t, shard, false); }

static bool moves_hash(const struct space_map *m)
{
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (m->hash[i].moving) return true;
    return false;
}

/* Who was asked for a line and led no longer when the interval had moved. Whoever leads drops what is left over by its line, after the map says that all has moved: so not with that map. */
static bool leaves_lines(const struct topology *t, const struct space_map *before, const struct space_map *next)
{
    return atomic_load(&t->lines) && !moves_hash(before) && !moves_hash(next);
}

void topology_put(struct topology *t, struct worker *w, struct space_map *next)
{
    const struct space_map *before = topology_map(t);
    spacerecord_diff(before, next, put_record, t);
    take_locks_along(t, before, next);
    bool orders = note_orders(t, before, next);
    engine_set_map(t->engine, w, next);
    if (orders) order_small_stores(t);
    atomic_store(&t->busy, true);
}

/* ---- a map from elsewhere */

static bool changes_order(const struct space_map *before, const struct space_map *next)
{
    for (uint32_t i = 0; i < next->n_spaces; i++) {
        struct space_info info;
        spaces_describe(next->spaces[i], &info);
        if (space_is_ordered(before, info.name) != space_is_ordered(next, info.name)) return true;
    }
    return false;
}

/* All tokens are held: what is ordered from now on is known to be in disorder before anybody can ask. */
static void follow_held(struct worker *w, struct task *task)
{
    struct topology *t = task->session;
    for (uint32_t i = 0; leaves_lines(t, topology_map(t), t->following) && i < t->engine->route.shards; i++) topology_let_line_go(t, i);
    note_orders(t, topology_map(t), t->following);
    engine_set_map(t->engine, w, t->following);
    t->following = NULL;
    order_small_stores(t);
    atomic_store(&t->busy, true);
}

static void follow_next(struct topology *t, struct worker *w);

static void follow_came_home(struct worker *w, struct task *task)
{
    struct topology *t = task->session;
    t->follows = false;
    follow_next(t, w);
}

static bool follow_with_tokens(struct topology *t, struct worker *w, struct space_map *next)
{
    task_fini(&t->follow);
    task_init_all(&t->follow, t->engine, follow_held);
    t->follow.session = t;
    t->follow.home = 0;
    t->follow.finish = follow_came_home;
    t->following = next;
    return task_start(w, &t->follow);
}

/* Puts maps into force until one needs tokens that are not free: it goes on when they are. */
static void follow_next(struct topology *t, struct worker *w)
{
    while (t->followed && !t->follows) {
        struct space_map *next = take_followed(t);
        if (!changes_order(topology_map(t), next) && !leaves_lines(t, topology_map(t), next)) engine_set_map(t->engine, w, next);
        else t->follows = !follow_with_tokens(t, w, next);
    }
}

void topology_follow(struct topology *t, struct worker *w, struct space_map *next)
{
    struct followed *f = mem_alloc(sizeof *f);
    *f = (struct followed){.map = next};
    *t->followed_end = f;
    t->followed_end = &f->next;
    follow_next(t, w);
}

/* The first shard whose key indexes are not what the map wants. */
static bool must_order(const struct topology *t, uint32_t *shard)
{
    for (*shard = 0; *shard < t->engine->route.shards; ++*shard)
        if (atomic_load(&t->orderings[*shard].done) < atomic_load(&t->orderings[*shard].wanted)) return true;
    return false;
}

/* ---- moving */

/* Carries some keys, and the boundary behind them. */
static void move_slice(struct topology *t, struct worker *w, const struct carry_job *job)
{
    struct carry_result r;
    int64_t start = clock_mono_us();
    struct space_map *next = carry_slice(t->engine, topology_map(t), job, &r);
    t->stalled = !next;
    if (next) topology_put(t, w, next);
    int64_t us = clock_mono_us() - start;
    STAT_ADD(t->stats.moved_keys, r.keys);
    STAT_ADD(t->stats.moved_bytes, r.bytes);
    STAT_ADD(t->stats.moves, r.done);
    STAT_ADD(t->stats.unreadable, r.unreadable);
    STAT_ADD(t->stats.slices, 1);
    if ((uint64_t)us > STAT_GET(t->stats.longest_slice_us)) STAT_ADD(t->stats.longest_slice_us, (uint64_t)us - t->stats.longest_slice_us);
}

/* In a cluster keys are carried from group to group, by others (cluster/mover.h). */
static bool next_move(struct topology *t, struct carry_job *job)
{
    const struct space_map *m = route_map(&t->engine->route);
    return m && !t->engine->route.seats && carry_find(m, job);
}

/* ---- slices: with their tokens */

static void run_slice(struct worker *w, struct task *task)
{
    struct topology *t = task->session;
    struct carry_job job;
    uint32_t shard;
    int64_t start = clock_mono_us();
    if (must_order(t, &shard)) {
        if (carry_has_token(shard, task->shards, task->n_shards)) order_slice(t, shard);
    } else if (next_move(t, &job) && carry_has_tokens(&job, t->engine, task->shards, task->n_shards)) {
        move_slice(t, w, &job);
    }
    t->slice_us = clock_mono_us() - start;
}

static void slice_came_home(struct worker *w, struct task *task);

/* Makes the next slice, with the tokens that it needs; false: nothing is to be done. What is looked at here without a token is looked at again under it. */
static bool prepare_slice(struct topology *t)
{
    struct carry_job job;
    uint32_t shards[3] = {0}, n = 1;
    task_fini(&t->slice);
    t->slice = (struct task){0};
    bool order = must_order(t, &shards[0]);
    if (!order) {
        shards[0] = 0; /* maps change under its token */
        if (!next_move(t, &job)) return false;
        shards[n++] = job.from;
        shards[n++] = job.to;
    }
    if (!order && job.all_shards) task_init_all(&t->slice, t->engine, run_slice);
    else task_init_some(&t->slice, t->engine, shards, n, run_slice);
    t->slice.session = t;
    t->slice.home = 0;
    t->slice.finish = slice_came_home;
    return true;
}

static void slice_came_home(struct worker *w, struct task *task)
{
    struct topology *t = task->session;
    int64_t rest_us = t->stalled ? STALLED_US : t->slice_us < REST_MOST_US ? t->slice_us : REST_MOST_US;
    t->rest_until_us = clock_mono_us() + rest_us;
    t->stalled = t->running = false;
}

void topology_tick(struct topology *t, struct worker *w)
{
    if (t->running || !atomic_load(&t->busy) || clock_mono_us() < t->rest_until_us) return;
    atomic_store(&t->busy, false); /* before looking: a change meanwhile sets it again */
    if (!prepare_slice(t)) return;
    atomic_store(&t->busy, true);
    t->running = true;
    if (task_start(w, &t->slice)) slice_came_home(w, &t->slice);
}

int topology_wait_ms(const struct topology *t)
{
    if (t->running || !atomic_load(&t->busy)) return -1;
    int64_t left_us = t->rest_until_us - clock_mono_us();
    return left_us <= 0 ? 0 : (int)((left_us + 999) / 1000);
}

bool topology_step(struct topology *t, struct worker *w)
{
    if (!prepare_slice(t)) return false;
    bool done = task_start(w, &t->slice);
    CHECK(done);
    return true;
}

void topology_stats(const struct topology *t, struct topology_stats *out)
{
    *out = (struct topology_stats){STAT_GET(t->stats.ordered),   STAT_GET(t->stats.moved_keys), STAT_GET(t->stats.moved_bytes),      STAT_GET(t->stats.moves),
                                   STAT_GET(t->stats.slices), STAT_GET(t->stats.longest_slice_us), STAT_GET(t->stats.unreadable)};
}
