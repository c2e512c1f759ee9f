/* Width: the value length always has the narrowest field that holds it: one byte below 256, two below ENTRY_WIDE_MIN, four (and a
 * capacity) from there on. So an entry changes its width exactly when its value's length crosses one of those marks, in either direction;
 * it is copied then.
 *
 * Capacity: a value that is made wide is as large as asked. One that outgrows its block gets a quarter more, to whole pages,
 * so n appends copy O(n) bytes. One that shrinks below a third of its capacity gives the rest back. */
#include "store/entry.h"

#include "base/check.h"
#include "store/arena.h"

enum { WIDTH_BYTE, WIDTH_SHORT, WIDTH_WIDE };

#define HEADER(expires, long_key, width) (5 + ((long_key) ? 4 : 1) + (width) + ((expires) ? 8 : 0))
#define HEADERS(width) HEADER(0, 0, width), HEADER(1, 0, width), HEADER(0, 1, width), HEADER(1, 1, width)
const uint8_t entry_header_bytes[16] = {HEADERS(1), HEADERS(2), HEADERS(8), HEADERS(8)};

static unsigned width_of(size_t value_len)
{
    return value_len < 256 ? WIDTH_BYTE : value_len < ENTRY_WIDE_MIN ? WIDTH_SHORT : WIDTH_WIDE;
}

static unsigned entry_width(const struct entry *e) { return e->flags >> ENTRY_WIDTH_SHIFT & 3; }

static uint8_t *value_len_at(const struct entry *e)
{
    return (uint8_t *)(uintptr_t)e->rest + (e->flags & ENTRY_LONG_KEY ? 4 : 1);
}

static uint32_t entry_capacity(const struct entry *e)
{
    uint32_t capacity;
    memcpy(&capacity, value_len_at(e) + 4, 4);
    return capacity;
}

static void set_capacity(struct entry *e, size_t capacity)
{
    uint32_t v = (uint32_t)capacity;
    memcpy(value_len_at(e) + 4, &v, 4);
}

static void set_value_len(struct entry *e, size_t len)
{
    uint8_t *p = value_len_at(e);
    uint16_t v16 = (uint16_t)len;
    uint32_t v32 = (uint32_t)len;
    switch (entry_width(e)) {
    case WIDTH_BYTE: *p = (uint8_t)len; break;
    case WIDTH_SHORT: memcpy(p, &v16, 2); break;
    default: memcpy(p, &v32, 4);
    }
}

static void set_key(struct entry *e, struct slice key)
{
    uint32_t n = (uint32_t)key.n;
    if (e->flags & ENTRY_LONG_KEY) memcpy(e->rest, &n, 4);
    else e->rest[0] = (uint8_t)n;
    if (key.n) memcpy((char *)e + entry_header_bytes[e->flags & 15], key.p, key.n);
}

static uint8_t *expiry_at(const struct entry *e)
{
    return (uint8_t *)(uintptr_t)e + entry_header_bytes[e->flags & 15] - 8;
}

/* An entry whose value field is `room` bytes long, value_len of them in use; room differs from value_len only if wide. */
static struct entry *make(struct arena *a, uint8_t kind, struct slice key, size_t value_len, size_t room, int64_t expiry_ms)
{
    CHECK(key.n <= UINT32_MAX && room <= UINT32_MAX);
    unsigned width = width_of(value_len);
    unsigned flags = (expiry_ms ? ENTRY_EXPIRES : 0u) | (key.n > 255 ? ENTRY_LONG_KEY : 0u) | width << ENTRY_WIDTH_SHIFT;
    struct entry *e = arena_alloc(a, entry_header_bytes[flags] + key.n + room);
    e->kind = kind;
    e->flags = (uint8_t)flags;
    entry_set_access(e, 0);
    set_key(e, key);
    set_value_len(e, value_len);
    if (width == WIDTH_WIDE) set_capacity(e, room);
    if (expiry_ms) memcpy(expiry_at(e), &expiry_ms, 8);
    return e;
}

/* A copy of e in a new block, with other measures; the value keeps its common prefix. */
static struct entry *remake(struct arena *a, const struct entry *e, struct slice key, size_t value_len, size_t room, int64_t expiry_ms)
{
    struct entry *copy = make(a, e->kind, key, value_len, room, expiry_ms);
    memcpy(copy->access, e->access, sizeof copy->access);
    struct slice v = entry_value(e);
    memcpy(entry_value_ptr(copy), v.p, v.n < value_len ? v.n : value_len);
    return copy;
}

static size_t value_room(const struct entry *e)
{
    return entry_width(e) == WIDTH_WIDE ? entry_capacity(e) : entry_value_len(e);
}

/* The room for a value that grew to value_len bytes behind a head (header and key): a quarter more, ending where a page ends that
 * also holds the arena's own 64 bytes before a large block. */
static size_t grown_room(size_t head, size_t value_len)
{
    if (width_of(value_len) != WIDTH_WIDE) return value_len;
    size_t room = ((head + value_len + value_len / 4 + 64 + 4095) & ~(size_t)4095) - 64 - head;
    return room <= UINT32_MAX ? room : value_len;
}

struct entry *entry_new(struct arena *a, enum type t, enum encoding c, struct slice key, size_t value_len, int64_t expiry_ms)
{
    return make(a, (uint8_t)(t << 4 | c), key, value_len, value_len, expiry_ms);
}

size_t entry_bytes(const struct entry *e)
{
    return entry_header_bytes[e->flags & 15] + entry_key_len(e) + value_room(e);
}

void entry_release(struct arena *a, struct entry *e) { arena_release(a, e, entry_bytes(e)); }

int64_t entry_expiry_ms(const struct entry *e)
{
    int64_t ms = 0;
    if (e->flags & ENTRY_EXPIRES) memcpy(&ms, expiry_at(e), 8);
    return ms;
}

bool entry_fits_value(const struct entry *e, size_t value_len)
{
    if (width_of(value_len) != entry_width(e)) return false;
    size_t head = entry_header_bytes[e->flags & 15] + entry_key_len(e), room = value_room(e);
    if (entry_width(e) == WIDTH_WIDE) return value_len <= room && value_len >= room / 3;
    return arena_round(head + value_len) == arena_round(head + room);
}

struct entry *entry_resize_value(struct arena *a, struct entry *e, size_t value_len)
{
    unsigned width = width_of(value_len), others = e->flags & (ENTRY_EXPIRES | ENTRY_LONG_KEY);
    size_t head = entry_header_bytes[others | width << ENTRY_WIDTH_SHIFT] + entry_key_len(e), room = value_room(e);
    if (width != entry_width(e)) {
        size_t new_room = value_len > room ? grown_room(head, value_len) : value_len;
        struct entry *copy = remake(a, e, entry_key(e), value_len, new_room, entry_expiry_ms(e));
        entry_release(a, e);
        return copy;
    }
    if (width == WIDTH_WIDE) {
        size_t new_room = value_len > room ? grown_room(head, value_len) : value_len < room / 3 ? value_len : room;
        if (new_room != room) e = arena_resize(a, e, head + room, head + new_room);
        set_capacity(e, new_room);
    } else if (value_len != room) {
        e = arena_resize(a, e, head + room, head + value_len);
    }
    set_value_len(e, value_len);
    return e;
}

struct entry *entry_splice_value(struct arena *a, struct entry *e, size_t at, size_t cut, size_t gap)
{
    size_t len = entry_value_len(e), new_len = len - cut + gap, tail = len - cut - at;
    CHECK(at + cut <= len);
    if (gap > cut) e = entry_resize_value(a, e, new_len);
    char *v = entry_value_ptr(e);
    if (gap != cut && tail) memmove(v + at + gap, v + at + cut, tail);
    if (gap < cut) e = entry_resize_value(a, e, new_len);
    return e;
}

struct entry *entry_set_expiry(struct arena *a, struct entry *e, int64_t expiry_ms)
{
    if (!(e->flags & ENTRY_EXPIRES) == !expiry_ms) {
        if (expiry_ms) memcpy(expiry_at(e), &expiry_ms, 8);
        return e;
    }
    struct entry *copy = remake(a, e, entry_key(e), entry_value_len(e), value_room(e), expiry_ms);
    entry_release(a, e);
    return copy;
}

struct entry *entry_rekey(struct arena *a, const struct entry *e, struct slice key)
{
    return remake(a, e, key, entry_value_len(e), value_room(e), entry_expiry_ms(e));
}
