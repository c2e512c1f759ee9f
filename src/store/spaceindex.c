#include "store/spaceindex.h"

#include "base/keyhash.h"
#include "route/keyspace.h"
#include "store/arena.h"
#include "store/store.h"

/* ---- the table of spaces: an entry each, whose key is the space's name and whose body the index */

static struct entry *space_entry(const struct store *s, struct db *db, struct slice space)
{
    if (!db->spaces.entries) return NULL;
    struct table_slot *slot = table_find(&db->spaces, keyhash(space, s->seed), space);
    return slot ? table_entry(slot) : NULL;
}

static struct keyindex *find_index(const struct store *s, struct db *db, struct slice space)
{
    const struct entry *e = space_entry(s, db, space);
    return e ? entry_body(e) : NULL;
}

struct keyindex *store_index(const struct store *s, uint16_t db, struct slice space)
{
    return s->dbs[db] ? find_index(s, s->dbs[db], space) : NULL;
}

static struct keyindex *index_new(struct store *s, struct db *db, struct slice space)
{
    struct arena *a = db->arena;
    struct keyindex *k = arena_alloc(a, sizeof *k);
    struct entry *e = entry_new(a, TYPE_STRING, ENC_TREE, space, sizeof k, 0);
    entry_set_body(e, k);
    keyindex_init(k, a, entry_key(e));
    table_insert(&db->spaces, keyhash(space, s->seed), e);
    db->space_bytes += arena_round(entry_bytes(e)) + arena_round(sizeof *k);
    return k;
}

static void index_free(struct store *s, struct db *db, struct keyindex *k)
{
    struct arena *a = k->arena;
    struct entry *e = space_entry(s, db, k->prefix);
    uint64_t hash = keyhash(k->prefix, s->seed);
    table_remove(&db->spaces, hash, table_find_entry(&db->spaces, hash, e));
    db->space_bytes -= arena_round(entry_bytes(e)) + arena_round(sizeof *k);
    keyindex_fini(k);
    arena_release(a, k, sizeof *k);
    entry_release(a, e);
}

/* ---- one entry */

static struct keyindex *index_of(struct store *s, struct db *db, struct slice key)
{
    struct keyindex *k = find_index(s, db, space_of(key));
    CHECK(k);
    return k;
}

void spaceindex_changed(struct store *s, struct db *db, struct slice key, struct spaceindex_was was, struct entry *now)
{
    if (now) {
        now->flags |= ENTRY_ORDERED;
        if (now != was.e || keyindex_entry_bytes(now) != was.bytes) keyindex_replace(index_of(s, db, key), key, was.e, was.bytes, now);
        return;
    }
    struct keyindex *k = index_of(s, db, key);
    keyindex_remove(k, key, was.e, was.bytes);
    if (k->count == 0) index_free(s, db, k);
}

/* All of the system database is: whoever keeps records there finds those of one kind without looking at the others. */
static bool is_wanted(const struct store *s, const struct db *db, struct slice space)
{
    return db == s->dbs[STORE_SYSTEM_DB] || (s->is_ordered && s->is_ordered(s->is_ordered_ctx, space));
}

static void mark_and_add(struct store *s, struct db *db, struct entry *e, struct slice space)
{
    struct keyindex *k = find_index(s, db, space);
    e->flags |= ENTRY_ORDERED;
    keyindex_add(k ? k : index_new(s, db, space), e);
}

static void unmark_and_remove(struct store *s, struct db *db, struct entry *e)
{
    spaceindex_changed(s, db, entry_key(e), spaceindex_before(e), NULL);
    e->flags &= (uint8_t)~ENTRY_ORDERED;
}

void spaceindex_offer(struct store *s, struct db *db, struct entry *e)
{
    struct slice space = space_of(entry_key(e));
    if (is_wanted(s, db, space)) mark_and_add(s, db, e, space);
}

/* ---- many */

struct lining_up {
    struct store *store;
    struct db *db;
};

static void bring_in_line(void *ctx, struct entry *e)
{
    const struct lining_up *l = ctx;
    struct slice space = space_of(entry_key(e));
    bool marked = e->flags & ENTRY_ORDERED, wanted = is_wanted(l->store, l->db, space);
    if (wanted && !marked) mark_and_add(l->store, l->db, e, space);
    else if (marked && !wanted) unmark_and_remove(l->store, l->db, e);
}

bool store_order_step(struct store *s, struct store_ordering *at, size_t n)
{
    if (at->swaps != s->swaps) *at = (struct store_ordering){.swaps = s->swaps}; /* databases have changed places: what was seen is not known any more */
    struct db *db = s->dbs[at->db];
    if (db) table_scan(&db->keys, &at->cursor, n, bring_in_line, &(struct lining_up){s, db});
    else at->cursor = 0;
    if (at->cursor) return true;
    at->db++;
    return at->db < STORE_DBS;
}

/* ---- whole databases */

void spaceindex_init(struct store *s, struct db *db)
{
    db->space_bytes = 0;
    table_init(&db->spaces, db->arena, s->seed, rng_u64(&s->rng), 0);
}

/* ---- figures and checks */

size_t spaceindex_bytes(const struct db *db)
{
    size_t bytes = db->space_bytes + table_bytes(&db->spaces);
    struct table_iter it;
    table_iter_init(&it, &db->spaces);
    for (const struct entry *e; (e = table_iter_next(&it));) bytes += ((const struct keyindex *)entry_body(e))->node_bytes;
    return bytes;
}

/* Every entry of an index is one of the database, marked and in the right space. Gives how many there are. */
static uint64_t check_index(const struct store *s, struct db *db, const struct keyindex *k)
{
    struct keyindex_at at;
    keyindex_check(k);
    CHECK(k->count > 0);
    for (const struct entry *e = keyindex_seek(k, SLICE(""), &at); e; e = keyindex_next(&at)) {
        CHECK(e->flags & ENTRY_ORDERED && slice_eq(space_of(entry_key(e)), k->prefix));
        CHECK(table_find_entry(&db->keys, keyhash(entry_key(e), s->seed), e));
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

void spaceindex_check(const struct store *s, struct db *db)
{
    uint64_t indexed = 0;
    struct table_iter it;
    table_check(&db->spaces);
    table_iter_init(&it, &db->spaces);
    for (const struct entry *e; (e = table_iter_next(&it));) {
        CHECK(space_entry(s, db, entry_key(e)) == e);
        indexed += check_index(s, db, entry_body(e));
    }
    CHECK(marked_entries(db) == indexed);
}
