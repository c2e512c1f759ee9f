#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "server/front.h"
#include "server/rangekeeper_own.h"
#include "shard/topology.h"
#include "store/keyindex.h"

enum {
    ROUND_MS = 1000,
    SLICE_RANGES = 64, /* weighed in one go under a token: a few microseconds each */
    NONE = RANGEKEEPER_NONE,
};

int64_t rangekeeper_now_ms(void) { return clock_mono_us() / 1000; }

/* ---- life */

struct rangekeeper *rangekeeper_new(struct server *s)
{
    struct rangekeeper *k = mem_zalloc(sizeof *k);
    uint32_t shards = s->engine->route.shards;
    k->server = s;
    k->loads = loads_new(s->engine);
    k->splitter = splitter_new();
    k->visits = mem_zalloc(shards * sizeof *k->visits);
    k->n_shards = shards;
    k->shards = mem_zalloc(shards * sizeof *k->shards);
    for (uint32_t i = 0; i < shards; i++) k->visits[i] = (struct visit){.keeper = k, .shard = i};
    pthread_mutex_init(&k->lock, NULL);
    return k;
}

void rangekeeper_free(struct rangekeeper *k)
{
    for (uint32_t i = 0; i < k->server->engine->route.shards; i++) mem_free(k->visits[i].window);
    for (uint32_t i = 0; i < k->cap; i++) buf_fini(&k->kept[i].median);
    spaces_unref(k->map);
    task_fini(&k->change);
    buf_fini(&k->failed);
    splitter_free(k->splitter);
    loads_free(k->loads);
    pthread_mutex_destroy(&k->lock);
    mem_free(k->visits);
    mem_free(k->shards);
    mem_free(k->ranges);
    mem_free(k->kept);
    mem_free(k->asked);
    mem_free(k->firsts);
    mem_free(k->changes);
    mem_free(k);
}

/* ---- which ranges there are */

/* Gives its number. */
static uint32_t add_range(struct rangekeeper *k, struct slice space, const struct range_desc *d)
{
    if (k->n == k->cap) {
        uint32_t cap = k->cap * 2 + 16;
        k->ranges = mem_resize(k->ranges, cap * sizeof *k->ranges);
        k->kept = mem_resize(k->kept, cap * sizeof *k->kept);
        memset(k->kept + k->cap, 0, (cap - k->cap) * sizeof *k->kept);
        k->cap = cap;
    }
    k->ranges[k->n] = (struct splitter_range){.id = d->id, .generation = d->generation, .space = space, .start = d->start, .end = d->end, .shard = d->shard, .to_shard = d->to_shard, .moving = d->moving};
    return k->n++;
}

static void link_range(struct rangekeeper *k, uint32_t range)
{
    struct visit *v = &k->visits[k->ranges[range].shard];
    k->kept[range].next_in_shard = v->first;
    v->first = range;
}

/* Spaces whose mode changes are passed over until that is done. */
static void add_ranges(struct rangekeeper *k, enum space_mode mode)
{
    for (uint32_t i = 0; i < k->map->n_spaces; i++) {
        struct space_info info;
        spaces_describe(k->map->spaces[i], &info);
        if (info.moving || info.mode != mode) continue;
        for (uint32_t r = 0; r < info.n_ranges; r++) {
            uint32_t range = add_range(k, info.name, spaces_range(k->map->spaces[i], false, r));
            if (k->server->node) rangekeeper_cluster_link(k, range);
            else link_range(k, range);
        }
    }
}

/* ---- at a shard, under its token */

/* A cut need not be a key that is there: where the middle one is too long for that, its first bytes will do. It is of the same space, whose name is shorter. */
static struct slice as_cut(const struct rangekeeper *k, struct slice key)
{
    size_t most = k->server->node ? META_KEY_MAX : SPACES_BOUND_MAX;
    return slice_of(key.p, key.n < most ? key.n : most);
}

static void weigh(const struct rangekeeper *k, const struct shard *shard, struct splitter_range *r, struct buf *median)
{
    uint64_t most = 0;
    const struct store *s = shard->store;
    const struct slice *end = r->end.n ? &r->end : NULL;
    r->unready = !topology_is_ordered(k->server->topology, shard->id, r->space);
    median->len = 0;
    for (uint16_t db = 0; db < STORE_DBS && !r->unready; db++) {
        const struct keyindex *index = store_index(s, db, r->space);
        if (!index) continue;
        uint64_t bytes = keyindex_bytes(index, r->start, end);
        r->keys += keyindex_count(index, r->start, end);
        r->bytes += bytes;
        if (bytes <= most) continue;
        most = bytes; /* the database with most of it says where its middle is */
        median->len = 0;
        buf_add_slice(median, as_cut(k, entry_key(keyindex_median(index, r->start, end))));
    }
}

static bool visit_shard(struct worker *w, struct shard *s, struct mail *m)
{
    struct visit *v = (struct visit *)m;
    struct rangekeeper *k = v->keeper;
    if (!v->begun) {
        v->begun = true;
        v->taken_ms = rangekeeper_now_ms();
        v->window = loads_take(k->loads, v->shard, v->taken_ms, v->window);
        engine_publish(s);
    }
    for (unsigned n = 0; v->at != NONE && n < SLICE_RANGES; n++) {
        struct splitter_range *r = &k->ranges[v->at];
        if (!r->moving) weigh(k, s, r, &k->kept[v->at].median);
        v->at = k->kept[v->at].next_in_shard;
    }
    if (v->at != NONE) engine_post(w, s, m);
    else engine_send(w->engine, 0, m);
    return true;
}

/* ---- worker 0: summing up */

static void decide(struct rangekeeper *k, struct worker *w);

static void visit_is_back(struct worker *w, struct mail *m)
{
    struct visit *v = (struct visit *)m;
    struct rangekeeper *k = v->keeper;
    load_sort(v->window);
    for (uint32_t i = v->first; i != NONE; i = k->kept[i].next_in_shard) {
        struct splitter_range *r = &k->ranges[i];
        r->median = buf_slice(&k->kept[i].median);
        if (!r->moving) load_sum(v->window, v->taken_ms, r->space, r->start, r->end, &r->load);
    }
    pthread_mutex_lock(&k->lock);
    v->ops = load_all(v->window, v->taken_ms);
    pthread_mutex_unlock(&k->lock);
    k->shards[v->as] = (struct splitter_shard){.node = k->shards[v->as].node, .bytes = atomic_load_explicit(&w->engine->shards[v->shard].bytes, memory_order_relaxed),
                                               .ops = v->ops,
                                               .backlog = v->backlog_looks ? v->backlog_sum / v->backlog_looks : 0};
    v->backlog_sum = v->backlog_looks = 0;
    rangekeeper_is_back(k, w);
}

void rangekeeper_is_back(struct rangekeeper *k, struct worker *w)
{
    if (--k->away == 0) decide(k, w);
}

void rangekeeper_visit(struct rangekeeper *k, uint32_t shard, uint32_t as)
{
    struct visit *v = &k->visits[shard];
    if (!v->window) v->window = mem_zalloc(sizeof *v->window);
    v->mail = (struct mail){.to_shard = visit_shard, .to_worker = visit_is_back};
    v->begun = false;
    v->as = as;
    k->away++;
}

static void plan_visits(struct rangekeeper *k)
{
    for (uint32_t i = 0; i < k->server->engine->route.shards; i++) {
        k->visits[i].first = NONE;
        k->visits[i].as = NONE;
    }
    if (k->server->node) rangekeeper_cluster_prepare(k);
    else for (uint32_t i = 0; i < k->n_shards; i++) rangekeeper_visit(k, i, i);
}

static void begin_round(struct rangekeeper *k, struct worker *w, const struct space_map *m)
{
    const struct engine *e = w->engine;
    k->running = true;
    k->map = spaces_ref((struct space_map *)m);
    k->n = k->done = k->n_decisions = 0;
    k->away = 1; /* until all are on their way */
    plan_visits(k);
    add_ranges(k, SPACE_RANGE);
    k->n_by_range = k->n;
    add_ranges(k, SPACE_BUCKET);
    if (k->server->node) rangekeeper_cluster_ask(k, w);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct visit *v = &k->visits[i];
        if (v->as == NONE) continue;
        v->at = v->first;
        engine_post(w, &e->shards[i], &v->mail);
    }
    rangekeeper_is_back(k, w);
}

static void look_at_mailboxes(struct rangekeeper *k)
{
    const struct engine *e = k->server->engine;
    for (uint32_t i = 0; i < e->route.shards; i++) {
        k->visits[i].backlog_sum += atomic_load_explicit(&e->shards[i].depth, memory_order_relaxed);
        k->visits[i].backlog_looks++;
    }
}

/* Changes are writes: none while there is nothing to write to. */
static bool may_write(const struct server *s) { return !atomic_load(&s->loading) && !s->snapserve && atomic_load(&s->write_error) == 0; }

void rangekeeper_tick(struct rangekeeper *k, struct worker *w)
{
    const struct space_map *m = route_map(&w->engine->route);
    if (!m || !m->n_spaces || k->running || !may_write(k->server)) return;
    look_at_mailboxes(k);
    if (rangekeeper_now_ms() < k->next_ms || (k->server->node && rangekeeper_cluster_waits(k, m))) return;
    k->next_ms = rangekeeper_now_ms() + ROUND_MS;
    begin_round(k, w, m);
}

/* ---- worker 0: deciding */

static void read_limits(const struct config *c, struct splitter_limits *l)
{
    *l = (struct splitter_limits){.on = CONFIG_NUM(c, ranges.automatic) != 0,
                                  .split_bytes = (uint64_t)CONFIG_NUM(c, ranges.split_bytes),
                                  .merge_bytes = (uint64_t)CONFIG_NUM(c, ranges.merge_bytes),
                                  .split_ops = (double)CONFIG_NUM(c, ranges.split_ops),
                                  .merge_ops = (double)CONFIG_NUM(c, ranges.merge_ops),
                                  .split_backlog = (double)CONFIG_NUM(c, ranges.split_backlog),
                                  .sustain_ms = CONFIG_NUM(c, ranges.sustain_s) * 1000,
                                  .settle_ms = CONFIG_NUM(c, ranges.settle_s) * 1000,
                                  .max_changes = (uint32_t)CONFIG_NUM(c, ranges.max_changes)};
}

static int by_range(const void *a, const void *b)
{
    uint64_t x = ((const struct loads_figure *)a)->range, y = ((const struct loads_figure *)b)->range;
    return x < y ? -1 : x > y;
}

static void publish(struct rangekeeper *k)
{
    struct loads_figure *f = mem_alloc((k->n + 1) * sizeof *f);
    for (uint32_t i = 0; i < k->n; i++)
        f[i] = (struct loads_figure){k->ranges[i].id, i < k->n_by_range ? splitter_ops(k->splitter, k->ranges[i].id) : k->ranges[i].load.ops};
    qsort(f, k->n, sizeof *f, by_range);
    loads_publish(k->loads, f, k->n);
}

static void carry_out_next(struct rangekeeper *k, struct worker *w);

static void decide(struct rangekeeper *k, struct worker *w)
{
    struct splitter_limits limits;
    read_limits(k->server->config, &limits);
    pthread_mutex_lock(&k->lock);
    k->n_decisions = splitter_step(k->splitter, rangekeeper_now_ms(), &limits, k->ranges, k->n_by_range, k->shards, k->n_shards, &k->decisions);
    publish(k);
    k->looks++;
    pthread_mutex_unlock(&k->lock);
    carry_out_next(k, w);
}

/* ---- carrying out, with the tokens */

const struct range_desc *rangekeeper_find(const struct space_map *m, const struct splitter_decision *d)
{
    const struct space *s = spaces_find(m, d->space);
    struct space_info info = {0};
    if (s) spaces_describe(s, &info);
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *r = spaces_range(s, false, i);
        if (r->id == d->id) return r->generation == d->generation && r->shard == d->shard ? r : NULL;
    }
    return NULL;
}

static struct space_map *changed_map(struct topology *t, const struct splitter_decision *d, struct buf *why)
{
    const struct space_map *m = topology_map(t);
    const struct range_desc *r = rangekeeper_find(m, d);
    enum spaces_error error;
    if (!r) {
        buf_add_str(why, "it has changed meanwhile");
        return NULL;
    }
    switch (d->kind) {
    case SPLITTER_SPLIT: return spaces_split(m, d->space, d->key, topology_new_id(t), r->shard, &error, why);
    case SPLITTER_MERGE: return spaces_merge(m, d->space, d->key, &error, why);
    default: return spaces_move(m, d->space, d->id, d->to_shard, &error, why);
    }
}

static void change(struct worker *w, struct task *task)
{
    struct rangekeeper *k = task->session;
    struct topology *t = w->engine->topology;
    struct space_map *next = changed_map(t, &k->decisions[k->done], &k->failed);
    if (next) topology_put(t, w, next);
}

static void tell(const struct rangekeeper *k, const struct splitter_decision *d)
{
    static const char *const names[] = {[SPLITTER_SPLIT] = "range splits", [SPLITTER_MOVE] = "range moves", [SPLITTER_MERGE] = "range merges with the one before"};
    slog(&k->server->log, SLOG_VERBOSE, names[d->kind], "space=%.*s id=%llu key=%.*s shard=%u why=%.*s done=%s", (int)d->space.n, d->space.p, (unsigned long long)d->id, (int)d->key.n, d->key.p, d->to_shard, (int)d->why.n,
         d->why.p, k->failed.len ? "no" : "yes");
}

void rangekeeper_change_is_done(struct rangekeeper *k, struct worker *w)
{
    const struct splitter_decision *d = &k->decisions[k->done++];
    tell(k, d);
    pthread_mutex_lock(&k->lock);
    splitter_done(k->splitter, d, k->failed.len == 0, buf_slice(&k->failed));
    pthread_mutex_unlock(&k->lock);
    carry_out_next(k, w);
}

static void change_is_done(struct worker *w, struct task *task) { rangekeeper_change_is_done(task->session, w); }

static void carry_out(struct rangekeeper *k, struct worker *w)
{
    const struct splitter_decision *d = &k->decisions[k->done];
    uint32_t shards[3] = {0, d->shard, d->to_shard};
    task_fini(&k->change);
    k->change = (struct task){0};
    task_init_some(&k->change, w->engine, shards, 3, change);
    k->change.session = k;
    k->change.home = 0;
    k->change.finish = change_is_done;
    if (task_start(w, &k->change)) change_is_done(w, &k->change);
}

static void end_round(struct rangekeeper *k, struct worker *w)
{
    spaces_unref(k->map);
    k->map = NULL;
    k->running = false;
    topology_tick(k->server->topology, w);
}

static void carry_out_next(struct rangekeeper *k, struct worker *w)
{
    k->failed.len = 0;
    if (k->done == k->n_decisions) end_round(k, w);
    else if (k->server->node) rangekeeper_cluster_carry_out(k, w);
    else carry_out(k, w);
}

/* ---- telling */

void rangekeeper_info(struct rangekeeper *k, struct buf *out)
{
    const struct space_map *m = route_map(&k->server->engine->route);
    struct topology_stats t;
    struct splitter_stats s;
    uint32_t ranges = 0, moving = 0;
    for (uint32_t i = 0; m && i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        ranges += info.n_ranges;
        moving += info.moving;
        for (uint32_t r = 0; r < info.n_ranges; r++) moving += spaces_range(m->spaces[i], false, r)->moving;
    }
    topology_stats(k->server->topology, &t);
    pthread_mutex_lock(&k->lock);
    splitter_stats(k->splitter, &s);
    uint64_t looks = k->looks;
    pthread_mutex_unlock(&k->lock);
    buf_printf(out, "spaces:%u\r\nranges:%u\r\nmoves_under_way:%u\r\n", m ? m->n_spaces : 0, ranges, moving);
    const struct {
        const char *name;
        uint64_t n;
    } fields[] = {{"moves_done", t.moves}, {"keys_moved", t.moved_keys}, {"bytes_moved", t.moved_bytes}, {"move_slices", t.slices}, {"longest_slice_usec", t.longest_slice_us}, {"moves_stopped_by_cold_values", t.unreadable},
                  {"automatic_looks", looks}, {"automatic_splits", s.done[SPLITTER_SPLIT]}, {"automatic_moves", s.done[SPLITTER_MOVE]}, {"automatic_merges", s.done[SPLITTER_MERGE]}, {"automatic_refused", s.refused}, {"automatic_failed", s.failed}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) buf_printf(out, "%s:%llu\r\n", fields[i].name, (unsigned long long)fields[i].n);
}

void rangekeeper_past(struct rangekeeper *k, uint64_t range, struct splitter_past *out)
{
    pthread_mutex_lock(&k->lock);
    if (!splitter_past(k->splitter, range, out)) *out = (struct splitter_past){.hand_ago_ms = -1, .merged_ago_ms = -1, .spread_ago_ms = -1};
    pthread_mutex_unlock(&k->lock);
}

double rangekeeper_shard_ops(struct rangekeeper *k, uint32_t shard)
{
    pthread_mutex_lock(&k->lock);
    double ops = k->visits[shard].ops;
    pthread_mutex_unlock(&k->lock);
    return ops;
}
