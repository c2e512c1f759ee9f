/* The file format of one log segment: header, records, end records. Pure. The bytes stand at the top of segment.c.
 *
 * Writing builds an epoch's bytes in a buffer: ops are added with checksums left open, so that whoever adds them (under a shard's token) pays for no
 * checksum; segment_seal ends the epoch and fills them in. Reading takes any bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "log/opcode.h"

enum { SEGMENT_VERSION = 1, SEGMENT_HEADER_BYTES = 40, SEGMENT_PART_BYTES = 16 << 20 };

struct segment_header {
    uint32_t shard, shards;
    uint64_t number;      /* the one in its name */
    uint64_t first_epoch; /* all epochs here are this one or later */
};

struct segment_end {
    uint64_t epoch;
    uint64_t synced;  /* every epoch up to this one was durable on all shards when this was written */
    uint64_t records; /* of the epoch on this shard, without this one */
    uint64_t bytes;   /* of these */
    uint32_t shards;
    const uint8_t *takes_part; /* bit i % 8 of byte i / 8: shard i has records in this epoch */
};

static inline bool segment_takes_part(const struct segment_end *e, uint32_t shard) { return e->takes_part[shard / 8] >> shard % 8 & 1; }

/* ---- writing */
void segment_write_header(struct buf *out, const struct segment_header *h);
uint32_t segment_add_op(struct buf *epoch, const struct op *op);           /* gives the number of records it took */
void segment_seal(struct buf *epoch, const struct segment_end *end);       /* end->bytes is filled in here */
void segment_add_mark(struct buf *out, uint64_t synced);                   /* whole, with its checksum */

/* ---- reading */
enum segment_state {
    SEGMENT_GOOD,
    SEGMENT_UNBORN,  /* ends before its first record could begin, and the header is not whole: its creation did not finish */
    SEGMENT_DAMAGED, /* the header is wrong, but there are bytes behind it */
    SEGMENT_NEWER,   /* a whole header of another version */
};
enum segment_state segment_read_header(struct slice file, struct segment_header *h);

struct segment_reader {
    struct slice file;
    uint32_t shard, shards;
    size_t at;       /* of the next item */
    size_t epoch_at; /* behind the last end record or mark, or behind the header */
    bool trusted;    /* set by the caller: a reader has been through these bytes and met nothing bad, so checksums are not computed again */
};

enum segment_kind { SEGMENT_NOTHING, SEGMENT_RECORD, SEGMENT_END, SEGMENT_MARK, SEGMENT_BAD };

struct segment_item {
    enum segment_kind kind;
    size_t at, bytes;       /* in the file */
    struct slice record;    /* SEGMENT_RECORD: type and payload */
    struct segment_end end; /* SEGMENT_END; points into the file. SEGMENT_MARK: only `synced` */
};

/* Reads from offset `from`, which is behind the header or behind an end record. The reader borrows file until its end. */
void segment_reader_init(struct segment_reader *r, struct slice file, uint32_t shard, uint32_t shards, size_t from);
/* The next record, end record, mark, or run of bytes that are neither; SEGMENT_NOTHING at the end of the file, or where only room is left: `at` stays there. */
enum segment_kind segment_next(struct segment_reader *r, struct segment_item *item);

/* Puts the parts of long ops together and decodes. Zeroed at first. */
struct segment_ops {
    struct buf parts;
    struct opcode_scratch scratch;
    bool in_parts;
};
enum segment_op { SEGMENT_OP, SEGMENT_OP_MORE /* needs the next record */, SEGMENT_OP_INVALID };
enum segment_op segment_op_step(struct segment_ops *o, struct slice record, struct op *op);
void segment_ops_reset(struct segment_ops *o); /* a record is missing here */
void segment_ops_fini(struct segment_ops *o);
