/* version u8 = 1, flags u8 (1: first piece, 2: last piece), 6 bytes of 0, unix_ms i64, then the bytes of gathered ops, all little endian: each op as its length u32 and what log/opcode.h writes. */
#include "cluster/seatentry.h"

#include <string.h>

#include "base/le.h"
#include "log/opcode.h"

enum { VERSION = 1, FIRST = 1, LAST = 2, HEAD = 16, OP_HEAD = 4 };

void seatentry_add_op(struct buf *ops, const struct op *op)
{
    size_t at = ops->len;
    buf_add(ops, "\0\0\0\0", OP_HEAD);
    opcode_write(ops, op);
    le_set_u32(ops->p + at, (uint32_t)(ops->len - at - OP_HEAD));
}

bool seatentry_next(struct slice ops, int64_t unix_ms, size_t *at, struct buf *out)
{
    if (*at >= ops.n) return false;
    size_t n = ops.n - *at;
    if (n > SEATENTRY_PIECE) n = SEATENTRY_PIECE;
    char head[HEAD - 8] = {VERSION, (char)((*at == 0 ? FIRST : 0) | (*at + n == ops.n ? LAST : 0))};
    buf_add(out, head, sizeof head);
    le_add_u64(out, (uint64_t)unix_ms);
    buf_add(out, ops.p + *at, n);
    *at += n;
    return true;
}

bool seatentry_read(struct slice entry, struct seatentry *out)
{
    static const char zeros[6];
    if (entry.n <= HEAD || entry.p[0] != VERSION || (entry.p[1] & ~(FIRST | LAST)) || memcmp(entry.p + 2, zeros, sizeof zeros) != 0) return false;
    *out = (struct seatentry){.first = entry.p[1] & FIRST, .last = entry.p[1] & LAST, .unix_ms = (int64_t)le_u64(entry.p + 8), .ops = slice_of(entry.p + HEAD, entry.n - HEAD)};
    return true;
}

bool seatentry_next_op(struct slice *ops, struct opcode_scratch *scratch, struct op *op, bool *bad)
{
    *bad = false;
    if (ops->n == 0) return false;
    *bad = true;
    if (ops->n < OP_HEAD) return false;
    size_t n = le_u32(ops->p);
    if (n > ops->n - OP_HEAD || !opcode_read(slice_of(ops->p + OP_HEAD, n), scratch, op)) return false;
    *ops = slice_of(ops->p + OP_HEAD + n, ops->n - OP_HEAD - n);
    *bad = false;
    return true;
}
