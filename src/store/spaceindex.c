#include "store/spaceindex.h"

#include "base/keyhash.h"
#include "route/keyspace.h"
#include "store/arena.h"
#include "store/store.h"

enum { REBUILD_STEP = 1024 };

/* ---- the table of spaces: an entry each, whose key is the space's name and whose body the index */

static struct entry *space_entry(const struct store *s, struct slice space)
{
    if (!s->spaces.entries) return NULL;
    struct table *t = (struct table *)(uintptr_t)&s->spaces; /* a search changes nothing */
    struct table_slot *slot = table_find(t, keyhash(space, s->seed), space);
    return slot ? table_entry(slot) : NULL;
}

struct keyindex *store_index(const struct store *s, struct slice space)
{
    const struct entry *e = space_entry(s, space);
    return e ? entry_body(e) : NULL;
}

static struct keyindex *index_new(struct store *s, struct slice space)
{
    struct arena *a = s->dbs[0]->arena;
    struct keyindex *k = arena_alloc(a, sizeof *k);
    struct entry *e = entry_new(a, TYPE_STRING, ENC_TREE, space, sizeof k, 0);
    entry_set_body(e, k);
    keyindex_init(k, a, entry_key(e));
    table_insert(&s->spaces, keyhash(space, s->seed), e);
    s->space_bytes += arena_round(entry_bytes(e)) + arena_round(sizeof *k);
    return k;
}

static void index_free(struct store *s, struct keyindex *k)
{
    struct arena *a = k->arena;
    struct entry *e = space_entry(s, k->prefix);
    uint64_t hash = keyhash(k->prefix, s->seed);
    table_remove(&s->spaces, hash, table_find_entry(&s->spaces, hash, e));
    s->space_bytes -= arena_round(entry_bytes(e)) + arena_round(sizeof *k);
    keyindex_fini(k);
    arena_release(a, k, sizeof *k);
    entry_release(a, e);
}

/* ---- one entry */

static struct keyindex *index_of(struct store *s, struct slice key)
{
    struct keyindex *k = store_index(s, space_of(key));
    CHECK(k);
    return k;
}

void spaceindex_changed(struct store *s, struct slice key, struct spaceindex_was was, struct entry *now)
{
    if (now) {
        now->flags |= ENTRY_ORDERED;
        if (now != was.e || keyindex_entry_bytes(now) != was.bytes) keyindex_replace(index_of(s, key), key, was.e, was.bytes, now);
        return;
    }
    struct keyindex *k = index_of(s, key);
    keyindex_remove(k, key, was.e, was.bytes);
    if (k->count == 0) index_free(s, k);
}

static bool is_wanted(const struct store *s, struct slice space) { return s->is_ordered && s->is_ordered(s->is_ordered_ctx, space); }

static void mark_and_add(struct store *s, struct entry *e, struct slice space)
{
    struct keyindex *k = store_index(s, space);
    e->flags |= ENTRY_ORDERED;
    keyindex_add(k ? k : index_new(s, space), e);
}

static void unmark_and_remove(struct store *s, struct entry *e)
{
    spaceindex_changed(s, entry_key(e), spaceindex_before(e), NULL);
    e->flags &= (uint8_t)~ENTRY_ORDERED;
}

void spaceindex_offer(struct store *s, struct entry *e)
{
    struct slice space = space_of(entry_key(e));
    if (is_wanted(s, space)) mark_and_add(s, e, space);
}

/* ---- many */

static void bring_in_line(void *ctx, struct entry *e)
{
    struct store *s = ctx;
    struct slice space = space_of(entry_key(e));
    bool marked = e->flags & ENTRY_ORDERED, wanted = is_wanted(s, space);
    if (wanted && !marked) mark_and_add(s, e, space);
    else if (marked && !wanted) unmark_and_remove(s, e);
}

bool store_order_step(struct store *s, uint64_t *cursor, size_t n)
{
    if (s->dbs[0]) table_scan(&s->dbs[0]->keys, cursor, n, bring_in_line, s);
    else *cursor = 0;
    return *cursor != 0;
}

bool store_drop_index(struct store *s, struct slice space, size_t n)
{
    struct keyindex *k = store_index(s, space);
    struct keyindex_at at;
    if (!k) return false;
    for (uint64_t left = k->count; left > 0 && n > 0; left--, n--) {
        unmark_and_remove(s, keyindex_last(k, &at));
        if (left == 1) return false; /* the index went with its last entry */
    }
    return true;
}

/* ---- whole databases */

void spaceindex_restart(struct store *s)
{
    s->space_bytes = 0;
    table_init(&s->spaces, s->dbs[0]->arena, s->seed, rng_u64(&s->rng), 0);
}

void spaceindex_leave(struct store *s)
{
    if (!s->dbs[0]) return;
    while (s->spaces.entries) {
        struct keyindex *k = entry_body(table_random(&s->spaces, rng_u64(&s->rng)));
        struct keyindex_at at;
        for (struct entry *e = keyindex_seek(k, SLICE(""), &at); e; e = keyindex_next(&at)) e->flags &= (uint8_t)~ENTRY_ORDERED;
        index_free(s, k);
    }
    table_fini(&s->spaces);
}

void spaceindex_enter(struct store *s)
{
    if (!s->dbs[0]) return;
    spaceindex_restart(s);
    if (!s->is_ordered) return;
    uint64_t cursor = 0;
    while (store_order_step(s, &cursor, REBUILD_STEP)) {
    }
}

/* ---- figures and checks */

size_t spaceindex_bytes(const struct store *s)
{
    if (!s->dbs[0]) return 0;
    size_t bytes = s->space_bytes + table_bytes(&s->spaces);
    struct table_iter it;
    table_iter_init(&it, &s->spaces);
    for (const struct entry *e; (e = table_iter_next(&it));) bytes += ((const struct keyindex *)entry_body(e))->node_bytes;
    return bytes;
}

/* Every entry of an index is one of the database, marked and in the right space. Gives how many there are. */
static uint64_t check_index(const struct store *s, const struct keyindex *k)
{
    struct table *keys = &s->dbs[0]->keys;
    struct keyindex_at at;
    keyindex_check(k);
    CHECK(k->count > 0);
    for (const struct entry *e = keyindex_seek(k, SLICE(""), &at); e; e = keyindex_next(&at)) {
        CHECK(e->flags & ENTRY_ORDERED && slice_eq(space_of(entry_key(e)), k->prefix));
        CHECK(table_find_entry(keys, keyhash(entry_key(e), s->seed), e));
    }
    return k->count;
}

static uint64_t marked_entries(const struct db *db)
{
    uint64_t n = 0;
    struct table_iter it;
    table_iter_init(&it, &db->keys);
    for (const struct entry *e; (e = table_iter_next(&it));) n += (e->flags & ENTRY_ORDERED) != 0;
    return n;
}

void spaceindex_check(const struct store *s)
{
    uint64_t indexed = 0;
    if (s->dbs[0]) {
        struct table_iter it;
        table_check(&s->spaces);
        table_iter_init(&it, &s->spaces);
        for (const struct entry *e; (e = table_iter_next(&it));) {
            CHECK(space_entry(s, entry_key(e)) == e);
            indexed += check_index(s, entry_body(e));
        }
    }
    for (unsigned i = 0; i < STORE_DBS; i++)
        if (s->dbs[i]) CHECK(marked_entries(s->dbs[i]) == (i ? 0 : indexed));
}
