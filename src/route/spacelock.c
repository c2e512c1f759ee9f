/* The value of a lock's record, numbers little endian; it ends exactly where its last field does:
 *
 *   0 version u8, 1 | 1 exclusive u8, 0 or 1 | 2 zero u16 | 4 lengths of start, end and owner u32 each | 16 start, end, owner */
#include "route/spacelock.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/le.h"
#include "route/spacemap.h"

enum { VERSION = 1, HEAD = 16 };

static const struct slice lock_word = SLICE("lock/");
const struct slice spacelock_counter = SLICE("counter/lock");

/* ---- keys */

void spacelock_space(struct buf *out, struct slice name)
{
    buf_add_slice(out, lock_word);
    buf_add_slice(out, name);
}

bool spacelock_space_parse(struct slice key, struct slice *name)
{
    bool is_one = key.n >= lock_word.n && memcmp(key.p, lock_word.p, lock_word.n) == 0;
    if (is_one) *name = slice_of(key.p + lock_word.n, key.n - lock_word.n);
    return is_one;
}

void spacelock_key(struct buf *out, struct slice name, uint64_t token)
{
    spacelock_space(out, name);
    buf_printf(out, "/%016" PRIx64, token);
}

bool spacelock_key_parse(struct slice key, struct slice *name, uint64_t *token)
{
    if (key.n < lock_word.n + 1 + SPACEMAP_ID_DIGITS || memcmp(key.p, lock_word.p, lock_word.n) != 0) return false;
    size_t slash = key.n - SPACEMAP_ID_DIGITS - 1;
    *name = slice_of(key.p + lock_word.n, slash - lock_word.n);
    return key.p[slash] == '/' && spacemap_id_parse(slice_of(key.p + slash + 1, SPACEMAP_ID_DIGITS), token);
}

/* ---- values */

void spacelock_value(struct buf *out, const struct spacelock *l)
{
    CHECK(l->token && l->owner.n && l->owner.n <= SPACELOCK_OWNER_MAX && spacemap_below(l->start, l->end));
    buf_add_byte(out, VERSION);
    buf_add_byte(out, l->exclusive);
    buf_add_byte(out, 0);
    buf_add_byte(out, 0);
    le_add_u32(out, (uint32_t)l->start.n);
    le_add_u32(out, (uint32_t)l->end.n);
    le_add_u32(out, (uint32_t)l->owner.n);
    buf_add_slice(out, l->start);
    buf_add_slice(out, l->end);
    buf_add_slice(out, l->owner);
}

bool spacelock_parse(struct spacelock *l, struct slice key, struct slice v)
{
    struct slice name;
    uint64_t token;
    if (!spacelock_key_parse(key, &name, &token) || v.n < HEAD || v.p[0] != VERSION || (unsigned char)v.p[1] > 1 || v.p[2] || v.p[3]) return false;
    uint64_t start = le_u32(v.p + 4), end = le_u32(v.p + 8), owner = le_u32(v.p + 12);
    if (start + end + owner != v.n - HEAD || owner == 0 || owner > SPACELOCK_OWNER_MAX) return false;
    const char *p = v.p + HEAD;
    *l = (struct spacelock){.token = token, .exclusive = v.p[1], .start = slice_of(p, start), .end = slice_of(p + start, end), .owner = slice_of(p + start + end, owner)};
    return spacemap_below(l->start, l->end);
}

/* ---- one beside another */

bool spacelock_overlaps(const struct spacelock *l, struct slice start, struct slice end) { return spacemap_below(l->start, end) && spacemap_below(start, l->end); }

bool spacelock_excludes(const struct spacelock *a, const struct spacelock *b)
{
    return (a->exclusive || b->exclusive) && spacelock_overlaps(a, b->start, b->end) && !slice_eq(a->owner, b->owner);
}
