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

struct keyindex *store_line(const struct store *s, uint16_t db) { return s->dbs[db] ? s->dbs[db]->line : NULL; }

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

static struct keyindex *index_of(struct store *s, struct db *db, struct slice key, bool in_line)
{
    struct keyindex *k = in_line ? db->line : find_index(s, db, space_of(key));
    CHECK(k);
    return k;
}

static void release_if_empty(struct store *s, struct db *db, struct keyindex *k)
{
    if (k->count) return;
    if (k != db->line) {
        index_free(s, db, k);
        return;
    }
    keyindex_fini(k);
    db->line = NULL;
    db->space_bytes -= arena_round(sizeof *k);
    arena_release(db->arena, k, sizeof *k);
}

void spaceindex_changed(struct store *s, struct db *db, struct slice key, struct spaceindex_was was, struct entry *now)
{
    struct keyindex *k;
    if (now) {
        now->flags |= (uint8_t)(ENTRY_ORDERED | (was.in_line ? ENTRY_IN_LINE : 0));
        if (now != was.e || keyindex_entry_bytes(now) != was.bytes) keyindex_replace(index_of(s, db, key, was.in_line), key, was.e, was.bytes, now);
        return;
    }
    k = index_of(s, db, key, was.in_line);
    keyindex_remove(k, key, was.e, was.bytes);
    release_if_empty(s, db, k);
}

/* Which index an entry should be in: its marks. All of the system database is ordered: whoever keeps records there finds those of one kind without looking at the others. */
static uint8_t marks_for(const struct store *s, const struct db *db, struct slice space)
{
    if (db == s->dbs[STORE_SYSTEM_DB] || (s->is_ordered && s->is_ordered(s->is_ordered_ctx, space))) return ENTRY_ORDERED;
    return s->in_line ? ENTRY_ORDERED | ENTRY_IN_LINE : 0;
}

static struct keyindex *line_of(struct db *db)
{
    if (db->line) return db->line;
    db->line = arena_alloc(db->arena, sizeof *db->line);
    keyindex_init(db->line, db->arena, SLICE(""));
    db->space_bytes += arena_round(sizeof *db->line);
    return db->line;
}

static void mark_and_add(struct store *s, struct db *db, struct entry *e, struct slice space, uint8_t marks)
{
    struct keyindex *k = marks & ENTRY_IN_LINE ? line_of(db) : find_index(s, db, space);
    e->flags |= marks;
    keyindex_add(k ? k : index_new(s, db, space), e);
}

static void unmark_and_remove(struct store *s, struct db *db, struct entry *e)
{
    spaceindex_changed(s, db, entry_key(e), spaceindex_before(e), NULL);
    e->flags &= (uint8_t) ~(ENTRY_ORDERED | ENTRY_IN_LINE);
}

void spaceindex_offer(struct store *s, struct db *db, struct entry *e)
{
    struct slice space = space_of(entry_key(e));
    uint8_t marks = marks_for(s, db, space);
    if (marks) mark_and_add(s, db, e, space, marks);
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
    uint8_t marks = e->flags & (ENTRY_ORDERED | ENTRY_IN_LINE), wanted = marks_for(l->store, l->db, space);
    if (marks && marks != wanted) unmark_and_remove(l->store, l->db, e);
    if (wanted && marks != wanted) mark_and_add(l->store, l->db, e, space, wanted);
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
    db->line = NULL;
    table_init(&db->spaces, db->arena, s->seed, rng_u64(&s->rng), 0);
}

/* ---- figures and checks */

size_t spaceindex_bytes(const struct db *db)
{
    size_t bytes = db->space_bytes + table_bytes(&db->spaces) + (db->line ? db->line->node_bytes : 0);
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
        CHECK(e->flags & ENTRY_ORDERED && (k == db->line) == !!(e->flags & ENTRY_IN_LINE));
        CHECK(k == db->line || slice_eq(space_of(entry_key(e)), k->prefix));
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
    if (db->line) indexed += check_index(s, db, db->line);
    CHECK(marked_entries(db) == indexed);
}
