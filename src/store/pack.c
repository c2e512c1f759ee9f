#include "store/pack.h"

#include "base/check.h"

enum { MARK_U16 = 0xf1, MARK_U32 = 0xf2, TINY_MAX = 0xef };

/* What a mark says: its own size, and the length of the bytes beside it. */
struct mark {
    size_t size;
    size_t len;
};

static size_t mark_size(size_t len) { return len <= TINY_MAX ? 1 : len < 0x10000 ? 3 : 5; }

static uint32_t read_le(const unsigned char *p, unsigned n)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < n; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static void write_le(unsigned char *p, uint32_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static inline struct mark mark_front(const char *at)
{
    const unsigned char *p = (const unsigned char *)at;
    if (likely(*p <= TINY_MAX)) return (struct mark){1, *p};
    if (*p == MARK_U16) return (struct mark){3, read_le(p + 1, 2)};
    CHECK(*p == MARK_U32);
    return (struct mark){5, read_le(p + 1, 4)};
}

/* `end` is the byte behind the mark. */
static inline struct mark mark_back(const char *end)
{
    const unsigned char *p = (const unsigned char *)end;
    if (likely(p[-1] <= TINY_MAX)) return (struct mark){1, p[-1]};
    if (p[-1] == MARK_U16) return (struct mark){3, read_le(p - 3, 2)};
    CHECK(p[-1] == MARK_U32);
    return (struct mark){5, read_le(p - 5, 4)};
}

size_t pack_element_bytes(size_t len) { return len + 2 * mark_size(len); }

size_t pack_write_element(char *at, struct slice s)
{
    CHECK(s.n <= UINT32_MAX);
    size_t m = mark_size(s.n);
    unsigned char *front = (unsigned char *)at, *back = front + m + s.n;
    if (m == 1) {
        *front = *back = (unsigned char)s.n;
    } else {
        front[0] = back[m - 1] = m == 3 ? MARK_U16 : MARK_U32;
        write_le(front + 1, (uint32_t)s.n, (unsigned)m - 1);
        write_le(back, (uint32_t)s.n, (unsigned)m - 1);
    }
    if (s.n) memcpy(at + m, s.p, s.n);
    return s.n + 2 * m;
}

void pack_init(char *pack) { pack_set_count(pack, 0); }

static uint32_t stored_count(const char *pack) { return read_le((const unsigned char *)pack, 2); }

uint32_t pack_count(struct slice pack)
{
    uint32_t n = stored_count(pack.p);
    if (likely(n != PACK_COUNT_UNKNOWN)) return n;
    n = 0;
    for (size_t off = pack_first(pack); off < pack.n; off = pack_next(pack, off)) n++;
    return n;
}

void pack_set_count(char *pack, uint32_t count)
{
    write_le((unsigned char *)pack, count < PACK_COUNT_UNKNOWN ? count : PACK_COUNT_UNKNOWN, 2);
}

void pack_add_count(char *pack, int64_t n)
{
    uint32_t stored = stored_count(pack);
    if (unlikely(stored == PACK_COUNT_UNKNOWN)) return;
    CHECK((int64_t)stored + n >= 0 && (int64_t)stored + n <= UINT32_MAX);
    pack_set_count(pack, (uint32_t)((int64_t)stored + n));
}

size_t pack_first(struct slice pack) { return PACK_HEADER < pack.n ? PACK_HEADER : pack.n; }

size_t pack_last(struct slice pack) { return pack.n > PACK_HEADER ? pack_prev(pack, pack.n) : pack.n; }

size_t pack_next(struct slice pack, size_t off)
{
    struct mark m = mark_front(pack.p + off);
    return off + m.len + 2 * m.size;
}

size_t pack_prev(struct slice pack, size_t off)
{
    struct mark m = mark_back(pack.p + off);
    return off - m.len - 2 * m.size;
}

struct slice pack_get(struct slice pack, size_t off)
{
    struct mark m = mark_front(pack.p + off);
    return slice_of(pack.p + off + m.size, m.len);
}

static size_t seek_forward(struct slice pack, uint64_t steps)
{
    size_t off = pack_first(pack);
    while (steps-- && off < pack.n) off = pack_next(pack, off);
    return off;
}

/* The element `steps` before the end: 1 is the last one. */
static size_t seek_back(struct slice pack, uint64_t steps)
{
    size_t off = pack.n;
    for (; steps; steps--) {
        if (off <= PACK_HEADER) return pack.n;
        off = pack_prev(pack, off);
    }
    return off;
}

size_t pack_seek(struct slice pack, int64_t index)
{
    uint32_t count = stored_count(pack.p);
    if (index < 0) return seek_back(pack, -(uint64_t)index);
    if (count == PACK_COUNT_UNKNOWN) return seek_forward(pack, (uint64_t)index);
    if (index >= count) return pack.n;
    /* From the nearer end: the back marks are as good as the front ones. */
    return index > count / 2 ? seek_back(pack, count - (uint64_t)index) : seek_forward(pack, (uint64_t)index);
}

size_t pack_find(struct slice pack, struct slice s, unsigned stride, size_t from)
{
    for (size_t off = from; off < pack.n;) {
        struct mark m = mark_front(pack.p + off);
        /* Most elements differ in length or first byte: neither costs a call. */
        if (m.len == s.n && (s.n == 0 || (pack.p[off + m.size] == s.p[0] && memcmp(pack.p + off + m.size, s.p, s.n) == 0)))
            return off;
        off += m.len + 2 * m.size;
        for (unsigned i = 1; i < stride && off < pack.n; i++) off = pack_next(pack, off);
    }
    return pack.n;
}

/* The mark of an element that must end within the pack, in its shortest form; false if it is not one. */
static bool mark_valid(struct slice pack, size_t off, struct mark *m)
{
    unsigned char tag = (unsigned char)pack.p[off];
    if (tag > TINY_MAX && tag != MARK_U16 && tag != MARK_U32) return false;
    if (pack.n - off < (tag <= TINY_MAX ? 1u : tag == MARK_U16 ? 3u : 5u)) return false;
    *m = mark_front(pack.p + off);
    return m->size == mark_size(m->len) && pack.n - off >= m->len + 2 * m->size;
}

bool pack_valid(struct slice pack)
{
    if (pack.n < PACK_HEADER) return false;
    uint32_t walked = 0;
    for (size_t off = PACK_HEADER; off < pack.n; walked++) {
        struct mark m;
        if (!mark_valid(pack, off, &m)) return false;
        off += m.len + 2 * m.size;
        unsigned char tag = (unsigned char)pack.p[off - 1], want = (unsigned char)pack.p[off - m.len - 2 * m.size];
        if (tag != want) return false;
        struct mark b = mark_back(pack.p + off);
        if (b.size != m.size || b.len != m.len) return false;
    }
    uint32_t stored = stored_count(pack.p);
    return stored == PACK_COUNT_UNKNOWN || stored == walked;
}
