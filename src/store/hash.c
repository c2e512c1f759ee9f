#include "store/hash.h"

#include "base/check.h"
#include "store/members.h"
#include "store/pack.h"
#include "store/pack_entry.h"
#include "store/store.h"

/* However the limits are set, a pack stays far below what an entry's length field can say. */
enum { HASH_PACK_BYTES_MAX = 1 << 30 };

static bool is_table(const struct entry *e) { return entry_encoding(e) == ENC_TABLE; }

static uint32_t limit(const uint32_t *configured) { return __atomic_load_n(configured, __ATOMIC_RELAXED); }

static size_t find_field(struct slice pack, struct slice field) { return pack_find(pack, field, 2, pack_first(pack)); }

struct entry *hash_new(const struct kit *k, struct slice key) { return pack_entry_new(k->arena, TYPE_HASH, key); }

void hash_drop(const struct kit *k, struct entry *e)
{
    if (is_table(e)) members_free(entry_body(e));
}

/* ---- the pack becomes a table */

/* Whether the pack may stay a pack with these bytes in it, whatever the number of its fields. */
static bool fits_pack(const struct kit *k, struct slice pack, struct slice field, struct slice value)
{
    uint32_t longest = limit(&k->limits->hash_value);
    return field.n <= longest && value.n <= longest && pack.n + field.n + value.n <= HASH_PACK_BYTES_MAX;
}

static struct entry *become_table(const struct kit *k, struct entry *e)
{
    struct slice pack = entry_value(e);
    struct members *m = members_new(k, pack_count(pack) / 2 + 1);
    for (size_t off = pack_first(pack); off < pack.n;) {
        struct slice field = pack_get(pack, off);
        off = pack_next(pack, off);
        bool added;
        members_put(m, field, pack_get(pack, off), &added);
        off = pack_next(pack, off);
        CHECK(added);
    }
    e = entry_resize_value(k->arena, e, sizeof(void *));
    entry_set_kind(e, TYPE_HASH, ENC_TABLE);
    entry_set_body(e, m);
    return e;
}

/* ---- changing */

struct entry *hash_put(const struct kit *k, struct entry *e, struct slice field, struct slice value, bool *added)
{
    if (!is_table(e)) {
        struct slice pack = entry_value(e);
        size_t off = find_field(pack, field);
        *added = off == pack.n;
        if (fits_pack(k, pack, field, value)) {
            if (!*added) return pack_entry_replace(k->arena, e, pack_next(pack, off), value);
            if (pack_count(pack) / 2 < limit(&k->limits->hash_entries))
                return pack_entry_insert(k->arena, e, pack.n, (struct slice[]){field, value}, 2);
        }
        e = become_table(k, e);
    }
    members_put(entry_body(e), field, value, added);
    return e;
}

struct entry *hash_del(const struct kit *k, struct entry *e, struct slice field, bool *removed)
{
    if (is_table(e)) {
        *removed = members_del(entry_body(e), field);
        return e;
    }
    struct slice pack = entry_value(e);
    size_t off = find_field(pack, field);
    *removed = off < pack.n;
    return *removed ? pack_entry_remove(k->arena, e, off, 2) : e;
}

/* ---- reading */

uint64_t hash_len(const struct entry *e)
{
    return is_table(e) ? members_count(entry_body(e)) : pack_count(entry_value(e)) / 2;
}

bool hash_get(const struct entry *e, struct slice field, struct slice *value)
{
    if (is_table(e)) {
        const struct entry *inner = members_find(entry_body(e), field);
        if (!inner) return false;
        *value = entry_value(inner);
        return true;
    }
    struct slice pack = entry_value(e);
    size_t off = find_field(pack, field);
    if (off == pack.n) return false;
    *value = pack_get(pack, pack_next(pack, off));
    return true;
}

size_t hash_body_bytes(const struct entry *e) { return is_table(e) ? members_bytes(entry_body(e)) : 0; }

bool hash_random(const struct entry *e, uint64_t r, struct slice *field, struct slice *value)
{
    uint64_t n = hash_len(e);
    if (n == 0) return false;
    if (is_table(e)) {
        const struct entry *inner = members_random(entry_body(e), r);
        *field = entry_key(inner);
        *value = entry_value(inner);
        return true;
    }
    struct slice pack = entry_value(e);
    uint64_t pick = (uint64_t)(((unsigned __int128)r * n) >> 64);
    size_t off = pack_seek(pack, (int64_t)pick * 2);
    *field = pack_get(pack, off);
    *value = pack_get(pack, pack_next(pack, off));
    return true;
}

struct walk {
    struct slice pack; /* .p NULL: the table is walked */
    size_t off;
    struct members_iter members;
};
_Static_assert(sizeof(struct walk) <= sizeof(struct hash_iter), "an iterator's state fits its storage");

void hash_iter_init(struct hash_iter *it, const struct entry *e)
{
    struct walk *w = (struct walk *)it->state;
    if (is_table(e)) {
        w->pack = slice_of(NULL, 0);
        members_iter_init(&w->members, entry_body(e));
    } else {
        w->pack = entry_value(e);
        w->off = pack_first(w->pack);
    }
}

bool hash_iter_next(struct hash_iter *it, struct slice *field, struct slice *value)
{
    struct walk *w = (struct walk *)it->state;
    if (!w->pack.p) {
        const struct entry *inner = members_iter_next(&w->members);
        if (!inner) return false;
        *field = entry_key(inner);
        *value = entry_value(inner);
        return true;
    }
    if (w->off >= w->pack.n) return false;
    *field = pack_get(w->pack, w->off);
    w->off = pack_next(w->pack, w->off);
    *value = pack_get(w->pack, w->off);
    w->off = pack_next(w->pack, w->off);
    return true;
}

struct visitor {
    void (*visit)(void *ctx, struct slice field, struct slice value);
    void *ctx;
};

static void visit_entry(void *ctx, struct entry *e)
{
    struct visitor *v = ctx;
    v->visit(v->ctx, entry_key(e), entry_value(e));
}

void hash_scan(const struct entry *e, uint64_t *cursor, size_t want,
               void (*visit)(void *ctx, struct slice field, struct slice value), void *ctx)
{
    if (is_table(e)) {
        members_scan(entry_body(e), cursor, want, visit_entry, &(struct visitor){visit, ctx});
        return;
    }
    struct hash_iter it;
    struct slice field, value;
    hash_iter_init(&it, e);
    while (hash_iter_next(&it, &field, &value)) visit(ctx, field, value);
    *cursor = 0;
}
