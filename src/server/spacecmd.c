/* SPACE.SET, SPACE.LIST, SPACE.INFO; RANGE.SPLIT, RANGE.MERGE, RANGE.MOVE: what key spaces there are, how they are routed, and changing that. */
#include "base/num.h"
#include "route/keyspace.h"
#include "server/families.h"
#include "server/rangefigures.h"
#include "server/spacereply.h"
#include "shard/engine.h"
#include "shard/topology.h"

static struct topology *topology_of(struct exec *x) { return engine_worker_of(x)->engine->topology; }

/* ---- changing: all shards are held */

static void refuse(struct exec *x, enum spaces_error error, const struct buf *why)
{
    reply_errorf(&x->out, "%s %.*s", error == SPACES_MOVING ? "TRYAGAIN" : "ERR", (int)why->len, why->p);
}

/* Puts the new map into force, or answers why there is none. */
static void put(struct exec *x, struct space_map *next, enum spaces_error error, const struct buf *why)
{
    struct topology *t = topology_of(x);
    if (!next) {
        refuse(x, error, why);
        return;
    }
    topology_put(t, engine_worker_of(x), next);
    x->ops++; /* records have changed: the answer waits for the log */
    reply_ok(&x->out);
}

static bool has_keys(const struct exec *x)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < x->route->shards; i++)
        for (uint16_t db = 0; db < STORE_DBS; db++) n += store_keys(x->stores[i], db);
    return n > 0;
}

/* The shard that a space begins in: where the hash of its name says, so that spaces spread. */
static uint32_t first_shard(const struct exec *x, struct slice name) { return route_shard(x->route, keyhash(name, x->route->seed)); }

static struct space_map *set_mode(struct exec *x, struct slice name, enum space_mode mode, enum spaces_error *error, struct buf *why)
{
    struct topology *t = topology_of(x);
    const struct space_map *m = topology_map(t);
    struct space_map *next = mode == SPACE_HASH ? NULL : spaces_retitle(m, name, mode, error, NULL);
    if (next || (mode != SPACE_HASH && *error == SPACES_SAME)) return next;
    struct range_desc whole = {.id = mode == SPACE_HASH ? 0 : topology_new_id(t), .generation = 1, .shard = first_shard(x, name)};
    return spaces_set_mode(m, name, mode, &whole, mode != SPACE_HASH, !has_keys(x), error, why);
}

static void space_set(struct exec *x)
{
    enum space_mode mode;
    enum spaces_error error = SPACES_OK;
    struct buf why = {0};
    if (!space_mode_parse(x->argv[2], &mode)) {
        reply_error(&x->out, "ERR the mode of a key space is HASH, BUCKET or RANGE");
        return;
    }
    struct space_map *next = set_mode(x, x->argv[1], mode, &error, &why);
    if (!next && error == SPACES_SAME) reply_ok(&x->out);
    else put(x, next, error, &why);
    buf_fini(&why);
}

static void range_split(struct exec *x)
{
    struct topology *t = topology_of(x);
    const struct space_map *m = topology_map(t);
    enum spaces_error error = SPACES_OK;
    struct buf why = {0};
    const struct range_desc *d = spaces_range_of(m, x->argv[1], x->argv[2]);
    struct space_map *next = spaces_split(m, x->argv[1], x->argv[2], topology_new_id(t), d ? d->shard : 0, &error, &why);
    put(x, next, error, &why);
    buf_fini(&why);
}

static void range_merge(struct exec *x)
{
    enum spaces_error error = SPACES_OK;
    struct buf why = {0};
    put(x, spaces_merge(topology_map(topology_of(x)), x->argv[1], x->argv[2], &error, &why), error, &why);
    buf_fini(&why);
}

static void range_move(struct exec *x)
{
    const struct space_map *m = topology_map(topology_of(x));
    enum spaces_error error = SPACES_NO_RANGE;
    struct buf why = {0};
    int64_t shard;
    if (!exec_arg_i64(x, x->argv[3], &shard)) return;
    struct space_map *next = NULL;
    const struct range_desc *d = spaces_range_named(m, x->argv[1], x->argv[2], &why);
    if (d && (shard < 0 || shard >= (int64_t)x->route->shards)) buf_printf(&why, "there are shards 0 to %u", x->route->shards - 1);
    else if (d) next = spaces_move(m, x->argv[1], d->id, (uint32_t)shard, &error, &why);
    put(x, next, error, &why);
    buf_fini(&why);
}

/* ---- showing */

struct weighing {
    struct exec *x;
    struct slice space;
    uint64_t keys, bytes;
};

/* A part of the space where the map has it: what is left over of a slice that has been carried away is elsewhere, too. */
static bool weigh_piece(void *ctx, const struct space_piece *p)
{
    struct weighing *w = ctx;
    const struct route *r = w->x->route;
    uint32_t first = p->hashed ? 0 : route_place(r, p->shard), n = p->hashed ? r->shards : 1;
    for (uint32_t i = 0; i < n; i++) rangefigures_weigh(w->x->stores[first + i], w->space, p->start, p->end, &w->keys, &w->bytes);
    return true;
}

static const char *state_of(const struct exec *x, const struct topology *t, const struct space_info *info)
{
    bool ordered = true;
    for (uint32_t i = 0; i < x->route->shards; i++) ordered &= topology_is_ordered(t, i, info->name);
    return !info->set ? "not set" : info->moving ? "moving" : ordered ? "ready" : "being put in order";
}

static void add_space(struct exec *x, const struct space_info *info)
{
    struct reply *r = &x->out;
    struct topology *t = topology_of(x);
    struct weighing sum = {.x = x, .space = info->name};
    spaces_overlap(topology_map(t), info->name, SLICE(""), SLICE(""), weigh_piece, &sum);
    bool by_hash = info->mode == SPACE_HASH && !info->moving;
    reply_map(r, 3 + (by_hash ? 0 : 1) + (by_hash || !info->set ? 0 : 2) + (info->moving ? 2 : 0));
    reply_bulk_str(r, "space");
    reply_bulk(r, info->name);
    spacereply_text(r, "mode", space_mode_name(info->mode));
    spacereply_int(r, "generation", info->generation);
    if (!by_hash) spacereply_text(r, "state", state_of(x, t, info));
    if (!by_hash && info->set) { /* what is not set is not indexed, and so nobody counts it */
        spacereply_int(r, "keys", sum.keys); /* as far as they are in order */
        spacereply_int(r, "bytes", sum.bytes);
    }
    if (!info->moving) return;
    spacereply_text(r, "to-mode", space_mode_name(info->to_mode));
    spacereply_bound(r, "boundary", info->boundary, "-");
}

static void space_info(struct exec *x)
{
    struct space_info info;
    spaces_info(topology_map(topology_of(x)), x->argv[1], &info);
    info.name = x->argv[1];
    add_space(x, &info);
}

static void space_list(struct exec *x)
{
    const struct space_map *m = topology_map(topology_of(x));
    reply_array(&x->out, m->n_spaces);
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        add_space(x, &info);
    }
}

static const struct command rows[] = {
    {.name = "space.set", .fn = space_set, .arity = 3, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "space", .since = "7.2.0",
     .summary = "Sets how a key space, the keys that have this name before their last slash, is routed; its keys move on line.", .args = "space HASH | BUCKET | RANGE"},
    {.name = "space.list", .fn = space_list, .arity = 1, .class = CLASS_ALL, .flags = CMD_READONLY, .group = "space", .since = "7.2.0",
     .summary = "The key spaces that were set, with what SPACE.INFO tells of each.", .args = ""},
    {.name = "space.info", .fn = space_info, .arity = 2, .class = CLASS_ALL, .flags = CMD_READONLY, .group = "space", .since = "7.2.0",
     .summary = "How a key space is routed, what it holds and, while it moves, how far that is.", .args = "space"},
    {.name = "range.split", .fn = range_split, .arity = 3, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "range", .since = "7.2.0",
     .summary = "Cuts the range that holds a key in two, before that key; no data moves.", .args = "space key"},
    {.name = "range.merge", .fn = range_merge, .arity = 3, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "range", .since = "7.2.0",
     .summary = "Joins the range that begins at a key with the one before it; both must be in one shard.", .args = "space key"},
    {.name = "range.move", .fn = range_move, .arity = 4, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "range", .since = "7.2.0",
     .summary = "Moves the range that holds a key to another shard, in a cluster to another group, on line.", .args = "space key | - shard"},
};

const struct command_family spacecmd_family = COMMAND_FAMILY(rows);
