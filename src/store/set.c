#include "store/set.h"

#include "base/check.h"
#include "base/num.h"
#include "store/intset.h"
#include "store/members.h"
#include "store/pack.h"
#include "store/pack_entry.h"
#include "store/store.h"

/* However the limits are set, a value stays far below what an entry's length field can say. */
enum { SET_PACK_BYTES_MAX = 1 << 30, SET_INTS_MAX = 1 << 27 };

static const struct slice nothing = {"", 0}; /* the value of every member in a table */

static uint32_t limit(const uint32_t *configured) { return __atomic_load_n(configured, __ATOMIC_RELAXED); }

static uint32_t ints_limit(const struct kit *k)
{
    uint32_t n = limit(&k->limits->set_ints);
    return n < SET_INTS_MAX ? n : SET_INTS_MAX;
}

static size_t find_member(struct slice pack, struct slice member) { return pack_find(pack, member, 1, pack_first(pack)); }

/* An empty set goes into an encoding that takes its first member, so that set_add need not convert at once. */
struct entry *set_new(const struct kit *k, struct slice key, struct slice first_member)
{
    int64_t v;
    if (ints_limit(k) == 0 || !num_parse_i64(first_member, &v)) return pack_entry_new(k->arena, TYPE_SET, key);
    struct entry *e = entry_new(k->arena, TYPE_SET, ENC_INTS, key, intset_bytes(0, 2), 0);
    intset_init(entry_value_ptr(e), 2);
    return e;
}

void set_drop(const struct kit *k, struct entry *e)
{
    if (entry_encoding(e) == ENC_TABLE) members_free(entry_body(e));
}

/* ---- from one encoding to a larger one */

static struct entry *become_table(const struct kit *k, struct entry *e)
{
    struct members *m = members_new(k, set_len(e) + 1);
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, e);
    while (set_iter_next(&it, &member)) {
        bool added;
        members_put(m, member, nothing, &added);
        CHECK(added);
    }
    e = entry_resize_value(k->arena, e, sizeof(void *));
    entry_set_kind(e, TYPE_SET, ENC_TABLE);
    entry_set_body(e, m);
    return e;
}

static size_t ints_as_pack_bytes(struct slice ints)
{
    char text[NUM_I64_MAX_CHARS];
    size_t bytes = PACK_HEADER;
    for (uint32_t i = 0; i < intset_count(ints); i++) bytes += pack_element_bytes(num_format_i64(text, intset_get(ints, i)));
    return bytes;
}

/* Elements of a pack are wider than those of an intset (text and two lengths against 2 to 8 bytes), but not always: -1 takes four bytes in a pack and
 * perhaps eight in an intset. So the pack is built in an entry of its own. */
static struct entry *ints_become_pack(const struct kit *k, struct entry *e)
{
    struct slice ints = entry_value(e);
    struct entry *fresh = entry_rekey(k->arena, e, entry_key(e));
    fresh = entry_resize_value(k->arena, fresh, ints_as_pack_bytes(ints));
    char *pack = entry_value_ptr(fresh), *at = pack + PACK_HEADER, text[NUM_I64_MAX_CHARS];
    pack_init(pack);
    for (uint32_t i = 0; i < intset_count(ints); i++)
        at += pack_write_element(at, slice_of(text, num_format_i64(text, intset_get(ints, i))));
    pack_set_count(pack, intset_count(ints));
    entry_set_kind(fresh, TYPE_SET, ENC_PACK);
    entry_release(k->arena, e);
    return fresh;
}

/* The longest member of an intset as text: the ends of the order are the longest on each side of zero. */
static size_t longest_int(struct slice ints)
{
    if (intset_count(ints) == 0) return 0;
    char text[NUM_I64_MAX_CHARS];
    size_t low = num_format_i64(text, intset_get(ints, 0));
    size_t high = num_format_i64(text, intset_get(ints, intset_count(ints) - 1));
    return low > high ? low : high;
}

/* ---- adding */

static struct entry *ints_insert(const struct kit *k, struct entry *e, int64_t v, uint32_t at)
{
    uint32_t count = intset_count(entry_value(e));
    unsigned width = intset_width_of(v), have = intset_width(entry_value(e));
    if (width > have) {
        e = entry_resize_value(k->arena, e, intset_bytes(count, width));
        intset_widen(entry_value_ptr(e), count, width);
        have = width;
    }
    e = entry_splice_value(k->arena, e, intset_bytes(at, have), 0, have);
    intset_write(entry_value_ptr(e), at, v);
    return e;
}

/* A set of n members may take this one as a pack. */
static bool fits_pack(const struct kit *k, size_t pack_bytes, uint64_t n, size_t longest)
{
    return n < limit(&k->limits->set_entries) && longest <= limit(&k->limits->set_value) &&
           pack_bytes + longest <= SET_PACK_BYTES_MAX;
}

static struct entry *table_add(struct entry *e, struct slice member, bool *added)
{
    members_put(entry_body(e), member, nothing, added);
    return e;
}

static struct entry *pack_add(const struct kit *k, struct entry *e, struct slice member, bool *added)
{
    struct slice pack = entry_value(e);
    *added = find_member(pack, member) == pack.n;
    if (!*added) return e;
    if (!fits_pack(k, pack.n, pack_count(pack), member.n)) return table_add(become_table(k, e), member, added);
    return pack_entry_insert(k->arena, e, pack.n, &member, 1);
}

static struct entry *ints_add(const struct kit *k, struct entry *e, struct slice member, bool *added)
{
    struct slice ints = entry_value(e);
    uint32_t at;
    int64_t v;
    if (num_parse_i64(member, &v)) {
        *added = !intset_find(ints, v, &at);
        if (!*added) return e;
        if (intset_count(ints) < ints_limit(k)) return ints_insert(k, e, v, at);
        return table_add(become_table(k, e), member, added);
    }
    size_t longest = longest_int(ints);
    if (member.n > longest) longest = member.n;
    if (!fits_pack(k, 0, intset_count(ints), longest)) return table_add(become_table(k, e), member, added);
    return pack_add(k, ints_become_pack(k, e), member, added);
}

struct entry *set_add(const struct kit *k, struct entry *e, struct slice member, bool *added)
{
    switch (entry_encoding(e)) {
    case ENC_INTS: return ints_add(k, e, member, added);
    case ENC_PACK: return pack_add(k, e, member, added);
    default: return table_add(e, member, added);
    }
}

/* ---- removing */

static struct entry *ints_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed)
{
    struct slice ints = entry_value(e);
    uint32_t at;
    int64_t v;
    *removed = num_parse_i64(member, &v) && intset_find(ints, v, &at);
    if (!*removed) return e;
    unsigned width = intset_width(ints);
    return entry_splice_value(k->arena, e, intset_bytes(at, width), width, 0);
}

static struct entry *pack_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed)
{
    struct slice pack = entry_value(e);
    size_t off = find_member(pack, member);
    *removed = off < pack.n;
    return *removed ? pack_entry_remove(k->arena, e, off, 1) : e;
}

struct entry *set_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed)
{
    switch (entry_encoding(e)) {
    case ENC_INTS: return ints_rem(k, e, member, removed);
    case ENC_PACK: return pack_rem(k, e, member, removed);
    default: *removed = members_del(entry_body(e), member); return e;
    }
}

/* ---- reading */

uint64_t set_len(const struct entry *e)
{
    switch (entry_encoding(e)) {
    case ENC_INTS: return intset_count(entry_value(e));
    case ENC_PACK: return pack_count(entry_value(e));
    default: return members_count(entry_body(e));
    }
}

bool set_has(const struct entry *e, struct slice member)
{
    struct slice value = entry_value(e);
    uint32_t at;
    int64_t v;
    switch (entry_encoding(e)) {
    case ENC_INTS: return num_parse_i64(member, &v) && intset_find(value, v, &at);
    case ENC_PACK: return find_member(value, member) < value.n;
    default: return members_find(entry_body(e), member) != NULL;
    }
}

size_t set_body_bytes(const struct entry *e)
{
    return entry_encoding(e) == ENC_TABLE ? members_bytes(entry_body(e)) : 0;
}

struct walk {
    enum encoding encoding;
    uint32_t index;     /* ENC_INTS */
    struct slice bytes; /* ENC_INTS, ENC_PACK */
    union {
        size_t off; /* ENC_PACK */
        struct members_iter members;
        char text[NUM_I64_MAX_CHARS]; /* ENC_INTS: the member given last */
    };
};
_Static_assert(sizeof(struct walk) <= sizeof(struct set_iter), "an iterator's state fits its storage");

void set_iter_init(struct set_iter *it, const struct entry *e)
{
    struct walk *w = (struct walk *)it->state;
    w->encoding = entry_encoding(e);
    w->index = 0;
    w->bytes = entry_value(e);
    if (w->encoding == ENC_PACK) w->off = pack_first(w->bytes);
    if (w->encoding == ENC_TABLE) members_iter_init(&w->members, entry_body(e));
}

static bool next_int(struct walk *w, struct slice *member)
{
    if (w->index == intset_count(w->bytes)) return false;
    *member = slice_of(w->text, num_format_i64(w->text, intset_get(w->bytes, w->index++)));
    return true;
}

static bool next_packed(struct walk *w, struct slice *member)
{
    if (w->off >= w->bytes.n) return false;
    *member = pack_get(w->bytes, w->off);
    w->off = pack_next(w->bytes, w->off);
    return true;
}

bool set_iter_next(struct set_iter *it, struct slice *member)
{
    struct walk *w = (struct walk *)it->state;
    if (w->encoding == ENC_INTS) return next_int(w, member);
    if (w->encoding == ENC_PACK) return next_packed(w, member);
    const struct entry *inner = members_iter_next(&w->members);
    if (!inner) return false;
    *member = entry_key(inner);
    return true;
}

bool set_random(const struct entry *e, uint64_t r, char text[24], struct slice *member)
{
    uint64_t n = set_len(e);
    if (n == 0) return false;
    struct slice value = entry_value(e);
    uint32_t pick = (uint32_t)(((unsigned __int128)r * n) >> 64);
    switch (entry_encoding(e)) {
    case ENC_INTS: *member = slice_of(text, num_format_i64(text, intset_get(value, pick))); break;
    case ENC_PACK: *member = pack_get(value, pack_seek(value, pick)); break;
    default: *member = entry_key(members_random(entry_body(e), r)); break;
    }
    return true;
}

struct visitor {
    void (*visit)(void *ctx, struct slice member);
    void *ctx;
};

static void visit_entry(void *ctx, struct entry *e)
{
    struct visitor *v = ctx;
    v->visit(v->ctx, entry_key(e));
}

void set_scan(const struct entry *e, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct slice member), void *ctx)
{
    if (entry_encoding(e) == ENC_TABLE) {
        members_scan(entry_body(e), cursor, want, visit_entry, &(struct visitor){visit, ctx});
        return;
    }
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, e);
    while (set_iter_next(&it, &member)) visit(ctx, member);
    *cursor = 0;
}
