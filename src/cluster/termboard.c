#include "cluster/termboard.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/check.h"
#include "base/mem.h"

/* One writer; readers try again when they find that it was at it. */
struct slot {
    _Atomic uint64_t changes; /* odd while it is written */
    _Atomic uint64_t term;
    _Atomic uint32_t n_voters;
    _Atomic uint64_t voters[RAFTNODE_MEMBERS_MAX];
};

struct termboard {
    uint32_t groups;
    _Atomic(struct slot *) slots[]; /* made when they are needed */
};

struct termboard *termboard_new(uint32_t groups)
{
    struct termboard *b = mem_zalloc(sizeof *b + groups * sizeof b->slots[0]);
    b->groups = groups;
    return b;
}

void termboard_free(struct termboard *b)
{
    if (!b) return;
    for (uint32_t i = 0; i < b->groups; i++) mem_free(atomic_load(&b->slots[i]));
    mem_free(b);
}

static struct slot *slot_of(const struct termboard *b, uint32_t group)
{
    return group < b->groups ? atomic_load_explicit(&b->slots[group], memory_order_acquire) : NULL;
}

static void write_slot(struct slot *s, const struct termboard_group *what)
{
    uint64_t changes = atomic_load_explicit(&s->changes, memory_order_relaxed);
    atomic_store_explicit(&s->changes, changes + 1, memory_order_relaxed);
    atomic_store(&s->term, what->term);
    atomic_store_explicit(&s->n_voters, what->n_voters, memory_order_release);
    for (uint32_t i = 0; i < what->n_voters; i++) atomic_store_explicit(&s->voters[i], what->voters[i], memory_order_release);
    atomic_store(&s->changes, changes + 2);
}

void termboard_put(struct termboard *b, uint32_t group, const struct termboard_group *what)
{
    CHECK(group < b->groups && what->n_voters <= RAFTNODE_MEMBERS_MAX);
    struct slot *s = slot_of(b, group), *made = s ? NULL : mem_zalloc(sizeof *made);
    write_slot(made ? made : s, what);
    if (made) atomic_store(&b->slots[group], made);
}

uint64_t termboard_term(const struct termboard *b, uint32_t group)
{
    const struct slot *s = slot_of(b, group);
    return s ? atomic_load(&s->term) : 0;
}

static bool read_slot(const struct slot *s, struct termboard_group *out)
{
    uint64_t changes = atomic_load_explicit(&s->changes, memory_order_acquire);
    out->term = atomic_load_explicit(&s->term, memory_order_acquire);
    out->n_voters = atomic_load_explicit(&s->n_voters, memory_order_acquire);
    for (uint32_t i = 0; i < out->n_voters; i++) out->voters[i] = atomic_load_explicit(&s->voters[i], memory_order_acquire);
    return changes % 2 == 0 && atomic_load_explicit(&s->changes, memory_order_relaxed) == changes;
}

void termboard_get(const struct termboard *b, uint32_t group, struct termboard_group *out)
{
    const struct slot *s = slot_of(b, group);
    out->term = out->n_voters = 0;
    while (s && !read_slot(s, out)) continue;
}
