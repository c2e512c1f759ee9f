#include "store/intset.h"

#include "base/check.h"

unsigned intset_width_of(int64_t v)
{
    if (v == (int16_t)v) return 2;
    return v == (int32_t)v ? 4 : 8;
}

unsigned intset_width(struct slice set) { return (uint8_t)set.p[0]; }

uint32_t intset_count(struct slice set) { return (uint32_t)((set.n - INTSET_HEADER) / intset_width(set)); }

static int64_t read_at(const char *set, unsigned width, uint32_t i)
{
    const char *p = set + intset_bytes(i, width);
    int16_t v16;
    int32_t v32;
    int64_t v64;
    switch (width) {
    case 2: memcpy(&v16, p, 2); return v16;
    case 4: memcpy(&v32, p, 4); return v32;
    default: memcpy(&v64, p, 8); return v64;
    }
}

/* The host is little endian, so the low bytes of an int64_t are its narrower forms. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "intset bytes are little endian");

static void write_at(char *set, unsigned width, uint32_t i, int64_t v) { memcpy(set + intset_bytes(i, width), &v, width); }

int64_t intset_get(struct slice set, uint32_t i)
{
    CHECK(i < intset_count(set));
    return read_at(set.p, intset_width(set), i);
}

bool intset_find(struct slice set, int64_t v, uint32_t *at)
{
    unsigned width = intset_width(set);
    uint32_t low = 0, high = intset_count(set);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (read_at(set.p, width, middle) < v)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return low < intset_count(set) && read_at(set.p, width, low) == v;
}

void intset_init(char *set, unsigned width)
{
    CHECK(width == 2 || width == 4 || width == 8);
    set[0] = (char)width;
}

void intset_write(char *set, uint32_t i, int64_t v)
{
    unsigned width = (uint8_t)set[0];
    CHECK(intset_width_of(v) <= width);
    write_at(set, width, i, v);
}

void intset_widen(char *set, uint32_t count, unsigned width)
{
    unsigned old = (uint8_t)set[0];
    CHECK(old < width);
    /* From the back: a wider integer never covers one that is still to be read. */
    for (uint32_t i = count; i-- > 0;) write_at(set, width, i, read_at(set, old, i));
    intset_init(set, width);
}

bool intset_valid(struct slice set)
{
    if (set.n < INTSET_HEADER) return false;
    unsigned width = intset_width(set);
    if (width != 2 && width != 4 && width != 8) return false;
    if ((set.n - INTSET_HEADER) % width) return false;
    for (uint32_t i = 1; i < intset_count(set); i++)
        if (read_at(set.p, width, i - 1) >= read_at(set.p, width, i)) return false;
    return true;
}
