/* Where the requests of a task go: the shards that they need and the group that their keys are in, found when they are added, and again if the map has changed by the time their tokens are held. */
#include "base/mem.h"
#include "command/cursor.h"
#include "shard/seating.h"
#include "shard/task_own.h"

enum { KEYS_ON_STACK = 64 };

/* ---- building */

void task_add_shard(struct task *t, struct request *r, uint32_t shard)
{
    uint32_t i = r->first_shard + r->n_shards;
    for (; i > r->first_shard && t->shards[i - 1] >= shard; i--)
        if (t->shards[i - 1] == shard) return;
    t->shards = task_grown(t->shards, &t->cap_shards, t->n_shards + 1, sizeof *t->shards);
    memmove(t->shards + i + 1, t->shards + i, (t->n_shards - i) * sizeof *t->shards);
    t->shards[i] = (uint16_t)shard;
    t->n_shards++;
    r->n_shards++;
}

void task_add_all_shards(struct task *t, struct request *r, const struct engine *e)
{
    t->n_shards = r->first_shard;
    r->n_shards = e->route.shards;
    t->shards = task_grown(t->shards, &t->cap_shards, t->n_shards + r->n_shards, sizeof *t->shards);
    for (uint32_t i = 0; i < r->n_shards; i++) t->shards[t->n_shards++] = (uint16_t)i;
}

struct spreading {
    struct task *t;
    struct request *r;
    const struct engine *e;
};

static bool add_piece(void *ctx, const struct space_piece *p)
{
    struct spreading *to = ctx;
    if (p->hashed) task_add_all_shards(to->t, to->r, to->e);
    else task_add_shard(to->t, to->r, route_place(&to->e->route, p->shard));
    return !p->hashed;
}

static void route_extent(struct task *t, const struct engine *e, struct request *r, const struct slice *argv)
{
    struct slice space, start, end;
    const struct space_map *m = route_map(&e->route);
    r->kind = REQUEST_MANY;
    if (!r->cmd->extent(argv, r->argc, &space, &start, &end)) return;
    if (m) spaces_overlap(m, space, start, end, add_piece, &(struct spreading){t, r, e});
    else task_add_all_shards(t, r, e);
}

/* The keys of c, which is the request's command or the one that it runs. */
static void route_keys(struct task *t, const struct engine *e, struct request *r, const struct command *c, const struct slice *argv, uint32_t argc)
{
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack;
    int n = command_keys(c, argv, argc, at, KEYS_ON_STACK);
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(c, argv, argc, at, n);
    }
    if (n == 1) {
        r->hash = keyhash(argv[at[0]], e->route.seed);
        r->have_hash = c == r->cmd && at[0] == (uint32_t)c->first_key;
        r->shard = route_key(&e->route, argv[at[0]], r->hash);
        r->kind = REQUEST_ONE;
    } else {
        r->kind = REQUEST_MANY; /* n < 1: the command answers its own syntax error and touches nothing */
        r->n_hashes = n > 0 ? (uint32_t)n : 0;
        t->hashes = task_grown(t->hashes, &t->cap_hashes, t->n_hashes + r->n_hashes, sizeof *t->hashes);
        for (int i = 0; i < n; i++) {
            uint64_t hash = keyhash(argv[at[i]], e->route.seed);
            t->hashes[t->n_hashes++] = hash;
            task_add_shard(t, r, route_key(&e->route, argv[at[i]], hash));
        }
    }
    if (at != on_stack) mem_free(at);
}

static void route_inner(struct task *t, const struct engine *e, struct request *r, const struct slice *argv)
{
    const struct command *inner = command_inner(e->commands, r->cmd, argv, r->argc);
    uint32_t at = (uint32_t)r->cmd->inner_at;
    r->kind = REQUEST_MANY; /* of no shard: it answers what is wrong */
    if (inner) route_keys(t, e, r, inner, argv + at, r->argc - at);
}

uint32_t task_route_first_visited(const struct engine *e, const struct command *c, const struct slice *argv)
{
    return c->class == CLASS_CURSOR ? cursor_shard(argv[1], e->route.shards) : 0;
}

/* The seat of the group that was named. If there is none here it is shard 0, where nothing is admitted. */
static void route_to_group(const struct engine *e, struct request *r)
{
    CHECK(e->route.seats && r->group != SEATING_NO_GROUP);
    r->kind = REQUEST_ONE;
    r->shard = atomic_load_explicit(&e->route.seats[r->group], memory_order_relaxed);
}

static __attribute__((noinline)) void find_other_shards(struct task *t, const struct engine *e, struct request *r, const struct slice *argv)
{
    const struct command *c = r->cmd;
    if (c->flags & CMD_OF_GROUP) {
        route_to_group(e, r);
        return;
    }
    switch (c->class) {
    case CLASS_KEYED:
        if (c->needs_all && c->needs_all(argv, r->argc)) {
            r->kind = REQUEST_MANY;
            task_add_all_shards(t, r, e);
        } else if (unlikely(c->inner_at)) {
            route_inner(t, e, r, argv);
        } else {
            route_keys(t, e, r, c, argv, r->argc);
        }
        break;
    case CLASS_SPACE: route_extent(t, e, r, argv); break;
    case CLASS_ALL:
        r->kind = REQUEST_MANY;
        task_add_all_shards(t, r, e);
        break;
    case CLASS_EACH:
    case CLASS_CURSOR:
        r->kind = REQUEST_EACH;
        r->shard = task_route_first_visited(e, c, argv);
        break;
    case CLASS_LOCAL: r->kind = REQUEST_MANY; break;
    }
}

/* ---- in a cluster */

/* Where the keys of a request are: the one group of all of them, and the range of the first. */
struct whereabouts {
    uint32_t group;
    bool any;
    uint64_t range, generation;
};

static void join_place(struct whereabouts *w, uint32_t group, uint64_t range, uint64_t generation)
{
    if (!w->any) *w = (struct whereabouts){group, true, range, generation};
    else if (w->group != group) w->group = SEATING_MIXED;
}

static bool join_piece(void *ctx, const struct space_piece *p)
{
    join_place(ctx, p->hashed ? SEATING_MIXED : p->shard, p->id, p->generation);
    return !p->hashed;
}

/* Of a part of a key space. */
static void find_extent(const struct space_map *m, const struct command *c, const struct slice *argv, uint32_t argc, struct whereabouts *out)
{
    struct slice space, start, end;
    if (!c->extent(argv, argc, &space, &start, &end)) return; /* it answers what is wrong */
    if (m) spaces_overlap(m, space, start, end, join_piece, out);
    else out->group = SEATING_NO_MAP;
}

static void find_keys(const struct engine *e, const struct space_map *m, const struct command *c, const struct slice *argv, uint32_t argc, struct whereabouts *out)
{
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack;
    struct space_place place;
    int n = command_keys(c, argv, argc, at, KEYS_ON_STACK);
    if (n <= 0) return;
    if (!m) {
        out->group = SEATING_NO_MAP;
        return;
    }
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(c, argv, argc, at, n);
    }
    for (int i = 0; i < n && out->group != SEATING_MIXED; i++) {
        spaces_route(m, argv[at[i]], keyhash(argv[at[i]], e->route.seed), &place);
        join_place(out, place.shard, place.id, place.generation);
    }
    if (at != on_stack) mem_free(at);
}

static void find_places(const struct engine *e, const struct space_map *m, const struct command *c, const struct slice *argv, uint32_t argc, struct whereabouts *out)
{
    *out = (struct whereabouts){.group = SEATING_NO_GROUP};
    c = command_unwrap(e->commands, c, &argv, &argc);
    if (!c) return;
    if (c->class == CLASS_SPACE) find_extent(m, c, argv, argc, out);
    else if (c->class == CLASS_KEYED && !(c->needs_all && c->needs_all(argv, argc))) find_keys(e, m, c, argv, argc, out);
}

static bool is_stale(const struct ticket *t, const struct whereabouts *w, const struct space_map *m)
{
    if (!t->map || !w->any) return false;
    return w->group != t->group || (m->version > t->map && (w->range != t->range || w->generation != t->generation));
}

__attribute__((noinline)) uint32_t task_route_group(const struct engine *e, const struct task *t, const struct request *r, const struct slice *argv)
{
    const struct space_map *m = route_map(&e->route);
    struct whereabouts w;
    if (r->cmd->flags & CMD_OF_GROUP) return r->group;
    find_places(e, m, r->cmd, argv, r->argc, &w);
    return t->tickets && is_stale(&t->tickets[r - t->requests], &w, m) ? SEATING_STALE : w.group;
}

void task_fence(const struct engine *e, const struct command *cmd, const struct slice *argv, uint32_t argc, struct ticket *out)
{
    const struct space_map *m = route_map(&e->route);
    struct whereabouts w = {0};
    if (m && !(cmd->flags & CMD_OF_GROUP)) find_places(e, m, cmd, argv, argc, &w);
    *out = w.any ? (struct ticket){.map = m->version, .range = w.range, .generation = w.generation, .group = w.group} : (struct ticket){.group = SEATING_NO_GROUP};
}

static inline void find_shards(struct task *t, const struct engine *e, struct request *r, const struct slice *argv)
{
    const struct command *c = r->cmd;
    r->first_shard = t->n_shards;
    r->first_hash = t->n_hashes;
    r->n_shards = r->n_hashes = 0;
    r->have_hash = r->at_home = r->touched = r->strayed = false;
    r->routed = route_version(&e->route); /* before the map is looked at: it may be another one by then, and then this is too old */
    if (likely(c->class == CLASS_KEYED && c->first_key == c->last_key && c->first_key == 1 && !(c->flags & CMD_MOVABLE_KEYS))) {
        r->hash = keyhash(argv[1], e->route.seed);
        r->have_hash = true;
        r->shard = route_key(&e->route, argv[1], r->hash);
        r->kind = REQUEST_ONE;
    } else {
        find_other_shards(t, e, r, argv);
    }
    if (unlikely(e->seating != NULL)) r->group = task_route_group(e, t, r, argv);
}

struct request *task_add_to(struct task *t, const struct engine *e, uint32_t group, const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    t->requests = task_grown(t->requests, &t->cap_requests, t->n_requests + 1, sizeof *t->requests);
    t->args = task_grown(t->args, &t->cap_args, t->n_args + argc, sizeof *t->args);
    struct request *r = &t->requests[t->n_requests++];
    r->cmd = cmd;
    r->flaw = 0;
    r->group = group;
    r->first_arg = t->n_args;
    r->argc = argc;
    memcpy(t->args + t->n_args, argv, argc * sizeof *argv);
    t->n_args += argc;
    if (cmd) find_shards(t, e, r, argv);
    return r;
}

struct request *task_add(struct task *t, const struct engine *e, const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    return task_add_to(t, e, SEATING_NO_GROUP, cmd, argv, argc);
}

static void init_empty(struct task *t, void (*fn)(struct worker *w, struct task *t))
{
    *t = (struct task){.with_all = fn, .end = 1};
    t->requests = task_grown(NULL, &t->cap_requests, 1, sizeof *t->requests);
    t->n_requests = 1;
    t->requests[0] = (struct request){.kind = REQUEST_MANY};
}

void task_init_all(struct task *t, const struct engine *e, void (*fn)(struct worker *w, struct task *t))
{
    init_empty(t, fn);
    task_add_all_shards(t, &t->requests[0], e);
}

void task_init_some(struct task *t, const struct engine *e, const uint32_t *shards, uint32_t n, void (*fn)(struct worker *w, struct task *t))
{
    init_empty(t, fn);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(shards[i] < e->route.shards);
        task_add_shard(t, &t->requests[0], shards[i]);
    }
}

/* ---- routing again: the map has changed since the request was routed, and what it needs may be elsewhere. Asked under its tokens, when the answer is certain. */

static void route_again(struct task *t, const struct engine *e)
{
    struct request *r = &t->requests[t->pos];
    if (r->cmd->each_inner) {
        r->routed = route_version(&e->route);
        r->first_shard = t->n_shards;
        r->n_shards = 0;
        e->hooks.route(e->hooks.ctx, t, r);
    } else {
        find_shards(t, e, r, t->args + r->first_arg);
    }
}

/* An attempt must also hold the shards that it stands in line at. */
static void add_lines(struct task *t, struct request *r, const uint16_t *lines, uint32_t n)
{
    if (r->kind == REQUEST_ONE) task_add_shard(t, r, r->shard);
    r->kind = REQUEST_MANY;
    for (uint32_t i = 0; i < n; i++) task_add_shard(t, r, lines[i]);
    r->strayed = true;
}

bool task_route_is_here(struct task *t, const struct engine *e)
{
    struct request *r = &t->requests[t->pos];
    if (!r->cmd || task_visits_shards(r->cmd)) return true; /* all shards are held */
    struct request before = *r;
    uint16_t one = (uint16_t)before.shard, *held = &one;
    uint32_t n = before.kind == REQUEST_ONE ? 1 : before.n_shards;
    if (before.kind != REQUEST_ONE) {
        held = mem_alloc(n * sizeof *held + 1);
        if (n) memcpy(held, t->shards + before.first_shard, n * sizeof *held);
    }
    route_again(t, e);
    bool same = r->kind == before.kind;
    if (e->seating) same &= r->group == before.group;
    if (same && r->kind == REQUEST_ONE) same = r->shard == before.shard;
    else if (same) same = r->n_shards == n && (n == 0 || memcmp(t->shards + r->first_shard, held, n * sizeof *held) == 0);
    if (same) r->strayed = before.strayed;
    else if (t->waiter) add_lines(t, r, held, n);
    if (held != &one) mem_free(held);
    return same;
}

void task_settle(struct task *t, const struct engine *e)
{
    find_shards(t, e, &t->requests[0], t->args + t->requests[0].first_arg);
}
