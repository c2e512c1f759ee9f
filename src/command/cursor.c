#include "command/cursor.h"

#include "base/check.h"
#include "base/num.h"
#include "store/table.h"

enum { POSITION_BITS = 22 };

/* Each has 63 bits: some clients read cursors as signed numbers. A server has up to 1024 shards, a cluster up to 16384 groups. */
const struct cursor_shape cursor_of_server = {.order_bits = 13, .place_bits = 10, .pass_bits = 18};
const struct cursor_shape cursor_of_cluster = {.order_bits = 17, .place_bits = 14, .pass_bits = 10};
const struct cursor_shape cursor_of_members = {.order_bits = 41};

_Static_assert((UINT64_C(1) << POSITION_BITS) * TABLE_CURSOR_UNIT == UINT64_C(1) << 32, "each point that a cursor may stand at has its number");

static uint64_t low_bits(uint64_t v, unsigned n) { return v & ((UINT64_C(1) << n) - 1); }

/* ---- within one table */

static unsigned place_at(const struct cursor_shape *s) { return POSITION_BITS + s->order_bits; }
static unsigned pass_at(const struct cursor_shape *s) { return place_at(s) + s->place_bits; }

/* The upper bits: a scramble is odd. */
static uint64_t order_tag(const struct cursor_shape *s, uint64_t scramble) { return scramble >> (64 - s->order_bits); }

uint64_t cursor_in_table(const struct cursor_shape *s, uint64_t position, uint64_t scramble)
{
    CHECK(position >> 32 == 0 && position % TABLE_CURSOR_UNIT == 0);
    return position ? order_tag(s, scramble) << POSITION_BITS | position / TABLE_CURSOR_UNIT : 0;
}

uint64_t cursor_position(const struct cursor_shape *s, uint64_t cursor, uint64_t scramble)
{
    return cursor >> POSITION_BITS == order_tag(s, scramble) ? low_bits(cursor, POSITION_BITS) * TABLE_CURSOR_UNIT : 0;
}

bool cursor_is_in_table(const struct cursor_shape *s, uint64_t cursor) { return cursor >> place_at(s) == 0; }

/* ---- of SCAN */

uint32_t cursor_pass(const struct cursor_shape *s, uint64_t carried) { return 1 + (uint32_t)(carried % ((UINT64_C(1) << s->pass_bits) - 1)); }

uint64_t cursor_make(const struct cursor_shape *s, const struct cursor *c)
{
    CHECK(cursor_is_in_table(s, c->in_table) && c->place >> s->place_bits == 0 && c->pass && c->pass >> s->pass_bits == 0);
    return (uint64_t)c->pass << pass_at(s) | (uint64_t)c->place << place_at(s) | c->in_table;
}

bool cursor_parse(const struct cursor_shape *s, struct slice arg, uint32_t places, struct cursor *c)
{
    uint64_t v;
    if (!num_parse_u64(arg, &v)) return false;
    *c = (struct cursor){low_bits(v, place_at(s)), (uint32_t)low_bits(v >> place_at(s), s->place_bits), (uint32_t)low_bits(v >> pass_at(s), s->pass_bits)};
    if (c->pass == 0 || c->place >= places || v >> 63) *c = (struct cursor){0};
    return true;
}

uint32_t cursor_shard(struct slice arg, uint32_t shards)
{
    struct cursor c;
    return cursor_parse(&cursor_of_server, arg, shards, &c) ? c.place : 0;
}
