#include "command/cursor.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/num.h"
#include "store/table.h"

enum { POSITION_BITS = 22, SHARD_BITS = 10, PASS_BITS = 18, SHARD_AT = POSITION_BITS + CURSOR_SCAN_ORDER_BITS, PASS_AT = SHARD_AT + SHARD_BITS };

_Static_assert(CURSOR_SHARDS_MAX == 1 << SHARD_BITS, "each shard has its number");
_Static_assert((UINT64_C(1) << POSITION_BITS) * TABLE_CURSOR_UNIT == UINT64_C(1) << 32, "each place that a cursor may stand at has its number");
_Static_assert(PASS_AT + PASS_BITS == 63 && POSITION_BITS + CURSOR_ORDER_BITS == 63, "some clients read cursors as signed numbers");

static uint64_t low_bits(uint64_t v, unsigned n) { return v & ((UINT64_C(1) << n) - 1); }

/* ---- within one table */

/* The upper bits: a scramble is odd. */
static uint64_t order_tag(uint64_t scramble, unsigned bits) { return scramble >> (64 - bits); }

uint64_t cursor_in_table(uint64_t position, uint64_t scramble, unsigned order_bits)
{
    CHECK(position >> 32 == 0 && position % TABLE_CURSOR_UNIT == 0);
    return position ? order_tag(scramble, order_bits) << POSITION_BITS | position / TABLE_CURSOR_UNIT : 0;
}

uint64_t cursor_position(uint64_t cursor, uint64_t scramble, unsigned order_bits)
{
    return cursor >> POSITION_BITS == order_tag(scramble, order_bits) ? low_bits(cursor, POSITION_BITS) * TABLE_CURSOR_UNIT : 0;
}

/* ---- of SCAN */

uint32_t cursor_pass(const struct route *r) { return 1 + (uint32_t)(atomic_load(&r->shifts) % ((UINT64_C(1) << PASS_BITS) - 1)); }

uint64_t cursor_make(const struct cursor *c)
{
    CHECK(c->in_table >> SHARD_AT == 0 && c->shard < CURSOR_SHARDS_MAX && c->pass && c->pass >> PASS_BITS == 0);
    return (uint64_t)c->pass << PASS_AT | (uint64_t)c->shard << SHARD_AT | c->in_table;
}

bool cursor_parse(struct slice arg, uint32_t shards, struct cursor *c)
{
    uint64_t v;
    if (!num_parse_u64(arg, &v)) return false;
    *c = (struct cursor){low_bits(v, SHARD_AT), (uint32_t)low_bits(v >> SHARD_AT, SHARD_BITS), (uint32_t)low_bits(v >> PASS_AT, PASS_BITS)};
    if (c->pass == 0 || c->shard >= shards || v >> 63) *c = (struct cursor){0};
    return true;
}

uint32_t cursor_shard(struct slice arg, uint32_t shards)
{
    struct cursor c;
    return cursor_parse(arg, shards, &c) ? c.shard : 0;
}
