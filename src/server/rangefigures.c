#include "server/rangefigures.h"

#include "command/exec.h"
#include "route/place.h"
#include "server/families.h"
#include "server/front.h"
#include "server/rangekeeper.h"
#include "server/wide_own.h"
#include "shard/load.h"
#include "shard/topology.h"
#include "store/keyindex.h"
#include "store/store.h"

enum { GROUP_NUMBERS = 2, RANGE_NUMBERS = 10 };

void rangefigures_weigh(const struct store *s, struct slice space, struct slice start, struct slice end, uint64_t *keys, uint64_t *bytes)
{
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        const struct keyindex *k = store_index(s, db, space);
        if (!k) continue;
        *keys += keyindex_count(k, start, end.n ? &end : NULL);
        *bytes += keyindex_bytes(k, start, end.n ? &end : NULL);
    }
}

/* ---- telling: under the token of the group's seat */

/* A part of a range: what is above the boundary of a move, or below it. Keys that were given out are in two groups for a moment, and count once. */
struct part {
    struct slice space, boundary;
    bool above, below; /* neither: all of it */
};

static void weigh(const struct store *s, const struct range_desc *d, const struct part *part, uint64_t *keys, uint64_t *bytes)
{
    struct slice start = d->start, end = d->end;
    if (part->below && (!part->boundary.n || slice_cmp(part->boundary, start) <= 0)) return; /* nothing has come yet */
    if (part->below && (!end.n || slice_cmp(part->boundary, end) < 0)) end = part->boundary;
    if (part->above && slice_cmp(part->boundary, start) > 0) start = part->boundary;
    if (!end.n || slice_cmp(start, end) < 0) rangefigures_weigh(s, part->space, start, end, keys, bytes);
}

static void add_ago(struct reply *out, int64_t ms) { reply_int(out, ms < 0 ? 0 : ms + 1); }

static void add_range(struct exec *x, const struct range_desc *d, const struct part *part)
{
    struct worker *w = engine_worker_of(x);
    struct splitter_past past;
    uint64_t keys = 0, bytes = 0;
    rangekeeper_past(front_of(w)->server->rangekeeper, d->id, &past);
    weigh(x->stores[x->shard], d, part, &keys, &bytes);
    reply_int(&x->out, (int64_t)d->id);
    reply_int(&x->out, (int64_t)d->generation);
    reply_int(&x->out, topology_is_ordered(w->engine->topology, x->shard, part->space));
    reply_int(&x->out, (int64_t)keys);
    reply_int(&x->out, (int64_t)bytes);
    reply_int(&x->out, (int64_t)loads_ops(w->engine->loads, d->id));
    reply_int(&x->out, past.flaps);
    add_ago(&x->out, past.hand_ago_ms);
    add_ago(&x->out, past.merged_ago_ms);
    add_ago(&x->out, past.spread_ago_ms);
}

/* Those of one side of a space whose mode changes, or of a space. Gives how many are in this group. */
static size_t add_ranges(struct exec *x, const struct space *s, const struct space_info *info, bool of_new)
{
    size_t added = 0;
    for (uint32_t i = 0; i < (of_new ? info->n_to : info->n_ranges); i++) {
        const struct range_desc *d = spaces_range(s, of_new, i);
        bool from = route_place(x->route, d->shard) == x->shard, to = d->moving && route_place(x->route, d->to_shard) == x->shard;
        struct part part = {.space = info->name, .boundary = info->moving ? info->boundary : d->boundary, .above = info->moving ? !of_new : d->moving && from, .below = info->moving ? of_new : to};
        if (!from && !to) continue;
        add_range(x, d, &part);
        added++;
    }
    return added;
}

static void range_figures(struct exec *x)
{
    struct worker *w = engine_worker_of(x);
    const struct space_map *m = route_map(x->route);
    struct shard *s = &w->engine->shards[x->shard];
    size_t mark = reply_open(&x->out), n = 0;
    engine_publish(s);
    reply_int(&x->out, (int64_t)atomic_load_explicit(&s->bytes, memory_order_relaxed));
    reply_int(&x->out, (int64_t)rangekeeper_shard_ops(front_of(w)->server->rangekeeper, x->shard));
    for (uint32_t i = 0; m && i < m->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->spaces[i], &info);
        n += add_ranges(x, m->spaces[i], &info, false);
        n += add_ranges(x, m->spaces[i], &info, true);
    }
    reply_close_array(&x->out, mark, GROUP_NUMBERS + n * RANGE_NUMBERS);
}

/* ---- reading */

bool rangefigures_begin(struct rangefigures *f, struct slice reply)
{
    int64_t n, bytes, ops;
    if (!wide_take_number(&reply, '*', &n) || n < GROUP_NUMBERS || (n - GROUP_NUMBERS) % RANGE_NUMBERS) return false;
    if (!wide_take_number(&reply, ':', &bytes) || !wide_take_number(&reply, ':', &ops)) return false;
    *f = (struct rangefigures){(uint64_t)bytes, (uint64_t)ops, reply, (n - GROUP_NUMBERS) / RANGE_NUMBERS};
    return true;
}

bool rangefigures_next(struct rangefigures *f, struct rangefigures_range *out)
{
    int64_t n[RANGE_NUMBERS];
    if (f->left-- <= 0) return false;
    for (unsigned i = 0; i < RANGE_NUMBERS; i++)
        if (!wide_take_number(&f->rest, ':', &n[i])) return false;
    *out = (struct rangefigures_range){.id = (uint64_t)n[0],
                                       .generation = (uint64_t)n[1],
                                       .ordered = n[2] != 0,
                                       .keys = (uint64_t)n[3],
                                       .bytes = (uint64_t)n[4],
                                       .ops = (uint64_t)n[5],
                                       .past = {.flaps = n[6] < UINT8_MAX ? (unsigned)n[6] : UINT8_MAX, .hand_ago_ms = n[7] - 1, .merged_ago_ms = n[8] - 1, .spread_ago_ms = n[9] - 1}};
    return true;
}

static const struct command rows[] = {
    {.name = "range.figures", .fn = range_figures, .arity = 1, .class = CLASS_KEYED, .flags = CMD_OF_GROUP | CMD_READONLY, .group = "cluster", .since = "0.1.0",
     .summary = "What the ranges of a group hold and how much they are used.", .args = ""},
};

const struct command_family rangefigures_family = COMMAND_FAMILY(rows);
