/* A group is split: a part of what it has of the hash goes to a new group, whose replicas are on the same nodes. The placer evens that out later. */
#include <inttypes.h>

#include "cluster/metahost_own.h"

/* ---- where */

/* The largest interval of the group; NULL: it has none. */
static const struct hash_desc *largest_of(const struct space_map *m, uint32_t group)
{
    const struct hash_desc *best = NULL;
    for (uint32_t i = 0; i < m->n_hash; i++) {
        const struct hash_desc *d = &m->hash[i];
        if (d->shard == group && (!best || d->last - d->first > best->last - best->first)) best = d;
    }
    return best;
}

static const struct hash_desc *holder_of(const struct space_map *m, uint64_t hash)
{
    uint32_t i = 0;
    while (m->hash[i].last < hash) i++;
    return &m->hash[i];
}

static bool parse_hash(struct slice digits, uint64_t *hash)
{
    *hash = 0;
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return false;
        *hash = *hash << 4 | (uint64_t)digit;
    }
    return digits.n > 0 && digits.n <= 16;
}

/* ---- room */

/* What room the others have is theirs to know, but nodes are started alike. */
bool metahost_hash_room(const struct metahost *h, uint64_t node) { return metagroups_of_node(h->groups, node, NULL, 0) < META_FIRST_DATA_GROUP + h->seats; }

/* A member that has no room for another replica; 0: none. */
static uint64_t member_without_room(const struct metahost *h, const struct metagroups_group *g)
{
    for (uint32_t i = 0; i < g->wanted.n; i++)
        if (!metahost_hash_room(h, g->wanted.m[i].node)) return g->wanted.m[i].node;
    return 0;
}

const char *metahost_hash_plan(const struct metahost *h, uint64_t group, struct slice hash, struct metaops_plan *p, struct buf *sentence)
{
    const struct space_map *m = h->groups->map;
    const struct metagroups_group *g = group <= UINT32_MAX ? metagroups_find(h->groups, (uint32_t)group) : NULL;
    uint64_t at = 0;
    if (group < META_FIRST_DATA_GROUP) return "groups 0 and 1 hold no keys";
    if (!g) return "there is no such group";
    if (hash.n && !parse_hash(hash, &at)) return "a hash is a number of 1 to 16 hex digits";
    const struct hash_desc *d = hash.n ? holder_of(m, at) : largest_of(m, g->id);
    if (!d) return "the group has no interval of the hash: only ranges, which RANGE.SPLIT and RANGE.MOVE are for";
    if (d->shard != g->id) return "that hash is another group's";
    if (!hash.n) at = d->first + (d->last - d->first) / 2 + 1;
    if (at <= d->first || at > d->last) return "nothing of the interval would be left below that hash";
    uint64_t full = member_without_room(h, g);
    if (full) {
        buf_printf(sentence, METAHOST_HASH_NO_ROOM, full);
        return "no room";
    }
    *p = (struct metaops_plan){.kind = METAOPS_SPLIT, .of_hash = true, .new_group = true, .group = g->id, .range = d->id, .generation = d->generation, .hash = at};
    return NULL;
}
