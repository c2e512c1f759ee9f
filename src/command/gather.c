#include "command/gather.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"

enum { CHUNK_BYTES = 4096 - 64, FIRST_ITEMS = 16 };

struct gather_chunk {
    struct gather_chunk *next;
    size_t used, cap;
    char bytes[];
};

void gather_init(struct gather *g, uint64_t seed) { *g = (struct gather){.seed = seed}; }

void gather_fini(struct gather *g)
{
    for (struct gather_chunk *c = g->chunks, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    mem_free(g->items);
    mem_free(g->index);
}

/* Chunks never move, so the slices into them stay good while more is added. */
static struct slice copied(struct gather *g, struct slice s)
{
    struct gather_chunk *c = g->chunks;
    if (!c || c->cap - c->used < s.n) {
        size_t cap = s.n > CHUNK_BYTES ? s.n : CHUNK_BYTES;
        c = mem_alloc(sizeof *c + cap);
        *c = (struct gather_chunk){.next = g->chunks, .cap = cap};
        g->chunks = c;
    }
    char *at = c->bytes + c->used;
    if (s.n) memcpy(at, s.p, s.n);
    c->used += s.n;
    return slice_of(at, s.n);
}

void gather_add(struct gather *g, struct slice member, bool copy)
{
    if (g->n == g->cap) {
        CHECK(g->cap < UINT32_MAX / 2);
        g->cap = g->cap ? g->cap * 2 : FIRST_ITEMS;
        g->items = mem_resize(g->items, g->cap * sizeof *g->items);
    }
    g->items[g->n++] = copy ? copied(g, member) : member;
}

/* ---- the index */

/* The slot that names the member, or the empty one where it belongs. */
static uint32_t *slot_of(struct gather *g, struct slice member)
{
    for (uint32_t at = (uint32_t)keyhash(member, g->seed);; at++) {
        uint32_t *slot = &g->index[at & g->index_mask];
        if (!*slot || slice_eq(g->items[*slot - 1], member)) return slot;
    }
}

static void grow_index(struct gather *g)
{
    uint64_t slots = g->index ? ((uint64_t)g->index_mask + 1) * 2 : FIRST_ITEMS * 2;
    CHECK(slots <= UINT32_MAX);
    mem_free(g->index);
    g->index = mem_zalloc(slots * sizeof *g->index);
    g->index_mask = (uint32_t)(slots - 1);
    for (uint32_t i = 0; i < g->n; i++) *slot_of(g, g->items[i]) = i + 1;
}

uint32_t gather_number(struct gather *g, struct slice member, bool copy, bool *is_new)
{
    if (!g->index || g->n > g->index_mask / 2) grow_index(g);
    uint32_t *slot = slot_of(g, member);
    *is_new = *slot == 0;
    if (*is_new) {
        gather_add(g, member, copy);
        *slot = g->n;
    }
    return *slot - 1;
}

bool gather_new(struct gather *g, struct slice member, bool copy)
{
    bool is_new;
    gather_number(g, member, copy, &is_new);
    return is_new;
}

bool gather_find(struct gather *g, struct slice member, uint32_t *number)
{
    if (!g->index) return false;
    uint32_t *slot = slot_of(g, member);
    *number = *slot - 1;
    return *slot != 0;
}
