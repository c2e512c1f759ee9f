#include "store/pack_entry.h"

#include "base/check.h"
#include "store/pack.h"

struct entry *pack_entry_new(struct arena *a, enum type t, struct slice key)
{
    struct entry *e = entry_new(a, t, ENC_PACK, key, PACK_HEADER, 0);
    pack_init(entry_value_ptr(e));
    return e;
}

struct entry *pack_entry_insert(struct arena *a, struct entry *e, size_t off, const struct slice *items, uint32_t n)
{
    size_t gap = 0;
    for (uint32_t i = 0; i < n; i++) gap += pack_element_bytes(items[i].n);
    e = entry_splice_value(a, e, off, 0, gap);
    char *pack = entry_value_ptr(e), *at = pack + off;
    for (uint32_t i = 0; i < n; i++) at += pack_write_element(at, items[i]);
    pack_add_count(pack, n);
    return e;
}

struct entry *pack_entry_remove(struct arena *a, struct entry *e, size_t off, uint32_t n)
{
    struct slice pack = entry_value(e);
    size_t end = off;
    for (uint32_t i = 0; i < n; i++) {
        CHECK(end < pack.n);
        end = pack_next(pack, end);
    }
    e = entry_splice_value(a, e, off, end - off, 0);
    pack_add_count(entry_value_ptr(e), -(int64_t)n);
    return e;
}

struct entry *pack_entry_replace(struct arena *a, struct entry *e, size_t off, struct slice s)
{
    struct slice pack = entry_value(e);
    CHECK(off < pack.n);
    size_t cut = pack_next(pack, off) - off, gap = pack_element_bytes(s.n);
    if (cut != gap) e = entry_splice_value(a, e, off, cut, gap);
    pack_write_element(entry_value_ptr(e) + off, s);
    return e;
}
