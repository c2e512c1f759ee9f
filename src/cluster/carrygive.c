#include "cluster/carrygive.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/carrypieces.h"
#include "dump/dumpfile.h"
#include "resp/reply.h"
#include "store/keyindex.h"

struct target {
    uint32_t group, n, n_large;
    struct buf entries, larges; /* replies */
};

struct giving {
    struct target *targets; /* ascending by group */
    uint32_t n;
    uint64_t room; /* bytes that may yet go along with the slice */
};

/* The groups of the new side, but this one. */
static void find_targets(const struct carryslice *s, uint64_t bytes, struct giving *g)
{
    struct holding_plan only_new = *s->plan;
    uint32_t n;
    only_new.old_side = (struct holding_side){0};
    uint32_t *groups = holding_plan_groups(&only_new, s->map, &n);
    *g = (struct giving){.targets = mem_zalloc(n * sizeof *g->targets), .room = bytes};
    for (uint32_t i = 0; i < n; i++)
        if (groups[i] != s->group) g->targets[g->n++].group = groups[i];
    mem_free(groups);
}

static struct target *target_of(const struct giving *g, uint32_t group)
{
    uint32_t low = 0, high = g->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->targets[middle].group < group) low = middle + 1;
        else high = middle;
    }
    CHECK(low < g->n && g->targets[low].group == group);
    return &g->targets[low];
}

static void give_whole(struct target *t, uint16_t db, const struct entry *e)
{
    struct buf raw = {0};
    dumpfile_add_entry(&raw, db, e);
    reply_bulk(&(struct reply){&t->entries, 2}, buf_slice(&raw));
    t->n++;
    buf_fini(&raw);
}

static void give_large(struct target *t, uint16_t db, const struct entry *e)
{
    struct buf large = {0};
    carrypieces_add_large(&large, db, e);
    reply_bulk(&(struct reply){&t->larges, 2}, buf_slice(&large));
    t->n_large++;
    buf_fini(&large);
}

static void give(void *ctx, uint32_t to, uint16_t db, const struct entry *e)
{
    struct giving *g = ctx;
    uint64_t bytes = keyindex_entry_bytes(e);
    bool goes_along = bytes <= g->room;
    (goes_along ? give_whole : give_large)(target_of(g, to), db, e);
    if (goes_along) g->room -= bytes;
}

static void reply_target(struct reply *out, struct target *t, struct slice locks)
{
    reply_array(out, 4);
    reply_int(out, t->group);
    reply_array(out, t->n);
    buf_add_slice(out->out, buf_slice(&t->entries));
    reply_array(out, t->n_large);
    buf_add_slice(out->out, buf_slice(&t->larges));
    reply_bulk(out, locks);
    buf_fini(&t->entries);
    buf_fini(&t->larges);
}

void carrygive_reply(struct reply *out, const struct carryslice *s, uint64_t bytes, struct slice locks)
{
    struct giving g;
    find_targets(s, bytes, &g);
    carryslice_each_leaving(s, give, &g);
    reply_array(out, g.n);
    for (uint32_t i = 0; i < g.n; i++) reply_target(out, &g.targets[i], locks);
    mem_free(g.targets);
}
