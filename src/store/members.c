#include "store/members.h"

#include "base/check.h"
#include "base/rng.h"
#include "store/arena.h"

struct members {
    struct table table;
    size_t entry_bytes; /* arena bytes of all entries together */
};

static struct table *table_of(const struct members *m) { return (struct table *)&m->table; }

static size_t occupied(const struct entry *e) { return arena_round(entry_bytes(e)); }

static void write_value(struct entry *e, struct slice value)
{
    if (value.n) memcpy(entry_value_ptr(e), value.p, value.n);
}

struct members *members_new(const struct kit *k, size_t expected)
{
    struct members *m = arena_alloc(k->arena, sizeof *m);
    table_init(&m->table, k->arena, k->seed, rng_u64(k->rng), expected);
    if (k->order) table_set_order(&m->table, k->order);
    m->entry_bytes = 0;
    return m;
}

void members_free(struct members *m)
{
    struct arena *a = m->table.arena;
    struct table_iter it;
    table_iter_init(&it, &m->table);
    for (struct entry *e; (e = table_iter_next(&it));) entry_release(a, e);
    table_fini(&m->table);
    arena_release(a, m, sizeof *m);
}

uint64_t members_order(const struct members *m) { return m->table.scramble; }

uint64_t members_count(const struct members *m) { return m->table.entries; }

size_t members_bytes(const struct members *m)
{
    return arena_round(sizeof *m) + table_bytes(&m->table) + m->entry_bytes;
}

struct entry *members_find(const struct members *m, struct slice member)
{
    struct table_slot *slot = table_find(table_of(m), table_hash(&m->table, member), member);
    return slot ? table_entry(slot) : NULL;
}

/* The entry in the slot gets a value of another length; its block may move, the slot follows. */
static void replace_value(struct members *m, struct table_slot *slot, struct slice value)
{
    m->entry_bytes -= occupied(table_entry(slot));
    table_repoint(slot, entry_resize_value(m->table.arena, table_entry(slot), value.n));
    m->entry_bytes += occupied(table_entry(slot));
}

struct entry *members_put(struct members *m, struct slice member, struct slice value, bool *added)
{
    uint64_t hash = table_hash(&m->table, member);
    struct table_slot *slot = table_find(&m->table, hash, member);
    *added = !slot;
    if (!slot) {
        struct entry *e = entry_new(m->table.arena, TYPE_STRING, ENC_BYTES, member, value.n, 0);
        m->entry_bytes += occupied(e);
        slot = table_insert(&m->table, hash, e);
    } else if (entry_value_len(table_entry(slot)) != value.n) {
        replace_value(m, slot, value);
    }
    write_value(table_entry(slot), value);
    return table_entry(slot);
}

bool members_del(struct members *m, struct slice member)
{
    uint64_t hash = table_hash(&m->table, member);
    struct table_slot *slot = table_find(&m->table, hash, member);
    if (!slot) return false;
    struct entry *e = table_entry(slot);
    table_remove(&m->table, hash, slot);
    m->entry_bytes -= occupied(e);
    entry_release(m->table.arena, e);
    return true;
}

struct entry *members_random(const struct members *m, uint64_t r) { return table_random(table_of(m), r); }

void members_scan(const struct members *m, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct entry *e), void *ctx)
{
    table_scan(table_of(m), cursor, want, visit, ctx);
}

void members_iter_init(struct members_iter *it, const struct members *m) { table_iter_init(&it->at, &m->table); }
struct entry *members_iter_next(struct members_iter *it) { return table_iter_next(&it->at); }

void members_check(const struct members *m)
{
    table_check(&m->table);
    uint64_t count = 0;
    size_t bytes = 0;
    struct members_iter it;
    members_iter_init(&it, m);
    for (struct entry *e; (e = members_iter_next(&it)); count++) {
        CHECK(members_find(m, entry_key(e)) == e);
        bytes += occupied(e);
    }
    CHECK(count == members_count(m));
    CHECK(bytes == m->entry_bytes);
}
