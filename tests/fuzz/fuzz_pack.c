/* Packs under any input. The first byte picks: the rest is taken for a pack and, if it is a valid one, walked both ways; or it is a script of
 * edits, three bytes each, on a pack in an entry and on its naive twin, an array. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/arena.h"
#include "store/pack.h"
#include "store/pack_entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void walk_both_ways(struct slice pack)
{
    uint32_t count = 0;
    size_t bytes = PACK_HEADER, off = pack_first(pack);
    for (; off < pack.n; off = pack_next(pack, off), count++) {
        struct slice s = pack_get(pack, off);
        bytes += pack_element_bytes(s.n);
        CHECK(pack_find(pack, s, 1, PACK_HEADER) <= off);
    }
    CHECK(off == pack.n && bytes == pack.n && pack_count(pack) == count);
    for (uint32_t i = count; i-- > 0;) {
        off = pack_prev(pack, off);
        if (count < 100) CHECK(pack_seek(pack, i) == off && pack_seek(pack, (int64_t)i - count) == off);
    }
    CHECK(off == PACK_HEADER);
}

enum { TWIN_MAX = 200 };

/* An element is known by its length and the byte that fills it. */
struct twin {
    struct {
        size_t len;
        char fill;
    } v[TWIN_MAX];
    uint32_t n;
};

static struct slice make(char *room, uint8_t kind, uint8_t fill)
{
    static const size_t lengths[] = {0, 1, 5, 20, 0xef, 0xf0, 0xff, 300, 3000, 0xffff, 0x10000};
    size_t len = kind < 0xe0 ? kind & 15 : lengths[kind % (sizeof lengths / sizeof *lengths)];
    memset(room, fill, len);
    return slice_of(room, len);
}

static void twin_move(struct twin *t, uint32_t from, uint32_t to)
{
    memmove(t->v + to, t->v + from, (t->n - from) * sizeof t->v[0]);
    t->n += to - from;
}

static void twin_put(struct twin *t, uint32_t at, struct slice s, uint8_t fill)
{
    t->v[at].len = s.n;
    t->v[at].fill = (char)fill;
}

/* One edit: place and verb in the first byte, the element in the other two. */
static struct entry *edit(struct arena *a, struct entry *e, struct twin *t, const uint8_t step[3], char *room)
{
    uint32_t at = step[0] % (t->n + 1);
    size_t off = pack_seek(entry_value(e), at);
    struct slice s = make(room, step[1], step[2]), items[2] = {s, s};
    uint32_t count = 1 + (step[2] & 1);
    switch (step[0] >> 6) {
    case 0:
    case 1:
        if (t->n + count > TWIN_MAX) break;
        e = pack_entry_insert(a, e, off, items, count);
        twin_move(t, at, at + count);
        for (uint32_t i = 0; i < count; i++) twin_put(t, at + i, s, step[2]);
        break;
    case 2:
        if (at + count > t->n) break;
        e = pack_entry_remove(a, e, off, count);
        twin_move(t, at + count, at);
        break;
    default:
        if (at == t->n) break;
        e = pack_entry_replace(a, e, off, s);
        twin_put(t, at, s, step[2]);
    }
    return e;
}

static void compare(const struct entry *e, const struct twin *t)
{
    struct slice pack = entry_value(e);
    CHECK(pack_valid(pack) && pack_count(pack) == t->n);
    size_t off = pack_first(pack);
    for (uint32_t i = 0; i < t->n; i++, off = pack_next(pack, off)) {
        struct slice s = pack_get(pack, off);
        CHECK(s.n == t->v[i].len);
        CHECK(s.n == 0 || (s.p[0] == t->v[i].fill && s.p[s.n - 1] == t->v[i].fill));
    }
}

static void run_script(const uint8_t *data, size_t n)
{
    struct arena *a = arena_new();
    struct entry *e = pack_entry_new(a, TYPE_LIST, SLICE("key"));
    struct twin *t = mem_zalloc(sizeof *t);
    char *room = mem_alloc(0x10000);
    for (size_t i = 0; i + 3 <= n; i += 3) e = edit(a, e, t, data + i, room);
    compare(e, t);
    walk_both_ways(entry_value(e));
    mem_free(room);
    mem_free(t);
    entry_release(a, e);
    CHECK(arena_live_bytes(a) == 0);
    arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1) return 0;
    if (data[0] & 1) {
        struct slice pack = slice_of(data + 1, n - 1);
        if (pack_valid(pack)) walk_both_ways(pack);
    } else {
        run_script(data + 1, n - 1);
    }
    return 0;
}
