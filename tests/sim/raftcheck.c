#include "raftcheck.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/le.h"
#include "base/mem.h"

struct truth {
    uint64_t term, id, hash; /* hash: of the state behind it */
};

struct ack {
    uint64_t index, id;
};

struct group {
    struct truth *log; /* of index 1.. */
    uint64_t n, cap;
    struct ack *acks;
    uint64_t n_acks, cap_acks;
    uint64_t floor;
};

struct raftcheck {
    struct world *w;
    uint64_t reads;
    struct group g[RAFTCHECK_GROUPS];
};

/* ---- the state machine */

void raftcheck_command(struct buf *out, uint64_t id, uint32_t reg, uint32_t filler)
{
    le_add_u64(out, id);
    le_add_u32(out, reg);
    memset(buf_room(out, filler), (int)(id & 0xff), filler);
    out->len += filler;
}

uint64_t raftcheck_id(const struct raftnode_entry *e) { return e->type == RAFTNODE_COMMAND && e->data.n >= 12 ? le_u64(e->data.p) : 0; }

void raftcheck_apply(struct raftcheck_state *s, uint64_t index, enum raftnode_entry_type type, struct slice data)
{
    s->applied = index;
    if (type != RAFTNODE_COMMAND) return;
    uint64_t id = le_u64(data.p);
    s->registers[le_u32(data.p + 8) % RAFTCHECK_REGISTERS] = id;
    s->hash = (s->hash ^ id) * 0x9e3779b97f4a7c15ull + 1;
}

/* ---- the truth */

struct raftcheck *raftcheck_new(struct world *w)
{
    struct raftcheck *c = mem_zalloc(sizeof *c);
    c->w = w;
    return c;
}

void raftcheck_free(struct raftcheck *c)
{
    for (int i = 0; i < RAFTCHECK_GROUPS; i++) {
        mem_free(c->g[i].log);
        mem_free(c->g[i].acks);
    }
    mem_free(c);
}

void raftcheck_committed(struct raftcheck *c, uint32_t node, uint32_t group, const struct raftnode_entry *e, const struct raftcheck_state *after)
{
    struct group *g = &c->g[group];
    uint64_t id = raftcheck_id(e);
    world_note(c->w, id ^ e->index << 20 ^ (uint64_t)node << 50 ^ (uint64_t)group << 56);
    if (e->index > g->n + 1) {
        world_fail(c->w, "group %u: node %u was handed entry %llu, but nobody %llu", group, node, (unsigned long long)e->index, (unsigned long long)g->n + 1);
        return;
    }
    if (e->index == g->n + 1) {
        if (g->n == g->cap) {
            g->cap = g->cap * 2 + 256;
            g->log = mem_resize(g->log, g->cap * sizeof *g->log);
        }
        uint64_t hash = g->n ? g->log[g->n - 1].hash : 0;
        if (id) hash = (hash ^ id) * 0x9e3779b97f4a7c15ull + 1;
        g->log[g->n++] = (struct truth){e->term, id, hash};
    }
    const struct truth *t = &g->log[e->index - 1];
    if (t->id != id || t->term != e->term)
        world_fail(c->w, "group %u: at index %llu node %u was handed command %llu of term %llu, others had %llu of term %llu", group, (unsigned long long)e->index, node,
                   (unsigned long long)id, (unsigned long long)e->term, (unsigned long long)t->id, (unsigned long long)t->term);
    else if (after && (after->applied != e->index || after->hash != t->hash))
        world_fail(c->w, "group %u: node %u has another state behind entry %llu", group, node, (unsigned long long)e->index);
}

void raftcheck_acked(struct raftcheck *c, uint32_t group, uint64_t index, uint64_t id)
{
    struct group *g = &c->g[group];
    if (g->n_acks == g->cap_acks) {
        g->cap_acks = g->cap_acks * 2 + 256;
        g->acks = mem_resize(g->acks, g->cap_acks * sizeof *g->acks);
    }
    g->acks[g->n_acks++] = (struct ack){index, id};
    if (index > g->floor) g->floor = index;
}

uint64_t raftcheck_floor(const struct raftcheck *c, uint32_t group) { return c->g[group].floor; }
uint64_t raftcheck_last(const struct raftcheck *c, uint32_t group) { return c->g[group].n; }
uint64_t raftcheck_acks(const struct raftcheck *c, uint32_t group) { return c->g[group].n_acks; }
uint64_t raftcheck_reads(const struct raftcheck *c) { return c->reads; }

/* The log is the order of all writes, so a read is linearizable if it shows the state at some index of it that is not older than what any client knew when it began. */
void raftcheck_read(struct raftcheck *c, uint32_t node, uint32_t group, uint64_t floor, const struct raftcheck_state *shown)
{
    struct group *g = &c->g[group];
    uint64_t at = shown->applied;
    c->reads++;
    if (at < floor)
        world_fail(c->w, "group %u: a read on node %u is stale: it shows entry %llu, clients knew of %llu", group, node, (unsigned long long)at, (unsigned long long)floor);
    else if (at > g->n || (at && g->log[at - 1].hash != shown->hash))
        world_fail(c->w, "group %u: a read on node %u shows a state that never was, at entry %llu", group, node, (unsigned long long)at);
    else if (at > g->floor)
        g->floor = at;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void check_unique(struct raftcheck *c, uint32_t group)
{
    struct group *g = &c->g[group];
    uint64_t *ids = mem_alloc((g->n + 1) * sizeof *ids), n = 0;
    for (uint64_t i = 0; i < g->n; i++)
        if (g->log[i].id) ids[n++] = g->log[i].id;
    qsort(ids, n, sizeof *ids, by_number);
    for (uint64_t i = 1; i < n; i++)
        if (ids[i] == ids[i - 1]) world_fail(c->w, "group %u: command %llu was applied twice", group, (unsigned long long)ids[i]);
    mem_free(ids);
}

void raftcheck_end(struct raftcheck *c)
{
    for (uint32_t i = 0; i < RAFTCHECK_GROUPS; i++) {
        struct group *g = &c->g[i];
        for (uint64_t k = 0; k < g->n_acks; k++) {
            const struct ack *a = &g->acks[k];
            if (a->index > g->n || g->log[a->index - 1].id != a->id)
                world_fail(c->w, "group %u: command %llu was acknowledged at index %llu and is lost", i, (unsigned long long)a->id, (unsigned long long)a->index);
        }
        check_unique(c, i);
    }
}
