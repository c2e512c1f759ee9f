/* Ops <-> bytes: what a log record carries. Pure.
 *
 * Bytes come from a disk when read: every length is checked, nothing is asserted, and an op that decodes is well formed (kinds, counts, an
 * OP_RESTORE image that image_valid accepts), so applying it cannot abort for its own sake. An op has exactly one encoding: what decodes
 * encodes to the same bytes again. The byte layout stands at the top of opcode.c. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "store/op.h"

/* Appends type byte and payload. The op is one that store_apply takes; others are a broken promise and abort. */
void opcode_write(struct buf *out, const struct op *op);

/* What a decoded op's items and scores live in; reused from op to op. Zeroed at first. */
struct opcode_scratch {
    struct slice *items;
    double *scores;
    uint32_t cap;
};
void opcode_scratch_fini(struct opcode_scratch *s);

/* Decodes one op; its slices point into record and scratch. False: not a valid op. */
bool opcode_read(struct slice record, struct opcode_scratch *s, struct op *op);

/* Only database and key, of a record that need not be valid: for touching memory ahead. False: there is none. */
bool opcode_peek_key(struct slice record, uint16_t *db, struct slice *key);

/* Type bytes of ops stay below this; those from here on are for records that the log itself needs. */
enum { OPCODE_TYPES_END = 0x80 };
