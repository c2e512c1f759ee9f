/* A segment
 *
 * One file of a shard's log, DIR/shard-S/NNNNNNNNNN.wal. All numbers little endian.
 *
 *   header, 40 bytes    0  "SHERDWAL"
 *                       8  u32 version, 1
 *                      12  u32 shard
 *                      16  u32 shards in this log
 *                      20  u64 number of the segment, that of its name
 *                      28  u64 first epoch that may be here
 *                      36  u32 CRC-32C of the bytes before
 *   then epochs         each: records, then one end record
 *   then room           zeros to the end of the file, or nothing: bytes that epochs to come will be written over
 *
 *   record              u32 n | type u8 | payload, n - 1 bytes | u32 CRC-32C of type and payload
 *
 *   type 0x01..0x7f     an op (opcode.c)
 *        0x80           the first part of an op longer than SEGMENT_PART_BYTES; the next record goes on with it
 *        0x81, 0x82     a part between, the last part. The payloads of the parts, one behind the other, are the op, its own type first
 *        0x90           end of an epoch on this shard:
 *                         u64 epoch      one more than that of the epoch before, in the whole log; this shard may not have been in that one
 *                         u64 synced     every epoch up to this one was durable on all shards when this record was written; less than epoch
 *                         u64 records    of this epoch in this file, the end record not counted
 *                         u64 bytes      of these
 *                         u32 shards     as in the header
 *                         u8[]           (shards + 7) / 8 bytes: bit i % 8 of byte i / 8 is set if shard i has records in this epoch
 *        0x91           mark, between epochs: u64 synced, as above. Recovery of a damaged log leaves one when it cuts off the end records that said so
 *
 * A record is valid if n is between 1 and SEGMENT_PART_BYTES + 1, all of it lies in the file and the checksum agrees. An end record is valid if further its
 * length is that of its bitmap, synced < epoch, its own shard takes part, and no more bytes are named than lie between it and the end record before.
 * Which epochs count is decided over all shards together: replay.c.
 *
 * Finding the way behind a record that is not valid: if n leads to a valid record and on to an end record whose epoch this one is in,
 * only this one is lost. Else n itself may be wrong, and the next valid end record is searched for, byte by byte; only there reading goes on. Op records are never searched for: their bytes could stand inside somebody's value. An
 * end record in a value would have to tell the right number of bytes back to the epoch's start, and would matter only if the record that holds it were damaged in just those four bytes. */
#include "log/segment.h"

#include <endian.h>

#include "base/crc32c.h"

enum {
    TYPE_FIRST_PART = 0x80,
    TYPE_PART = 0x81,
    TYPE_LAST_PART = 0x82,
    TYPE_END = 0x90,
    TYPE_MARK = 0x91,
    MARK_BYTES = 1 + 8,
    LEN_BYTES = 4,
    CRC_BYTES = 4,
    FRAME_BYTES = LEN_BYTES + CRC_BYTES,
    END_FIXED_BYTES = 1 + 4 * 8 + 4,
    RECORD_MAX = SEGMENT_PART_BYTES + 1,
};

_Static_assert((int)TYPE_FIRST_PART >= (int)OPCODE_TYPES_END, "records of the log are no ops");

static const char magic[8] = {'S', 'H', 'E', 'R', 'D', 'W', 'A', 'L'};

/* --- numbers --- */

static void set_u32(char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, 4);
}

static void add_u32(struct buf *out, uint32_t v)
{
    set_u32(buf_room(out, 4), v);
    out->len += 4;
}

static void add_u64(struct buf *out, uint64_t v)
{
    v = htole64(v);
    buf_add(out, &v, 8);
}

static uint32_t get_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return le32toh(v);
}

static uint64_t get_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

/* --- writing --- */

void segment_write_header(struct buf *out, const struct segment_header *h)
{
    size_t start = out->len;
    buf_add(out, magic, sizeof magic);
    add_u32(out, SEGMENT_VERSION);
    add_u32(out, h->shard);
    add_u32(out, h->shards);
    add_u64(out, h->number);
    add_u64(out, h->first_epoch);
    add_u32(out, crc32c(CRC32C_START, out->p + start, out->len - start));
    CHECK(out->len - start == SEGMENT_HEADER_BYTES);
}

/* A record begins: room for its length, which close_record sets. */
static size_t open_record(struct buf *out)
{
    buf_room(out, LEN_BYTES);
    out->len += LEN_BYTES;
    return out->len;
}

static void close_record(struct buf *out, size_t start)
{
    size_t n = out->len - start;
    CHECK(n >= 1 && n <= RECORD_MAX);
    buf_room(out, CRC_BYTES);
    set_u32(out->p + start - LEN_BYTES, (uint32_t)n);
    out->len += CRC_BYTES;
}

/* The op's bytes, from start to the end of the buffer, become several records. */
static uint32_t split(struct buf *out, size_t start)
{
    uint32_t records = 0;
    struct buf op = {0};
    buf_add(&op, out->p + start, out->len - start);
    out->len = start - LEN_BYTES;
    for (size_t at = 0; at < op.len; records++) {
        size_t n = op.len - at < SEGMENT_PART_BYTES ? op.len - at : SEGMENT_PART_BYTES;
        size_t record = open_record(out);
        buf_add_byte(out, (char)(at == 0 ? TYPE_FIRST_PART : at + n < op.len ? TYPE_PART : TYPE_LAST_PART));
        buf_add(out, op.p + at, n);
        close_record(out, record);
        at += n;
    }
    buf_fini(&op);
    return records;
}

uint32_t segment_add_op(struct buf *epoch, const struct op *op)
{
    size_t start = open_record(epoch);
    opcode_write(epoch, op);
    if (unlikely(epoch->len - start > SEGMENT_PART_BYTES)) return split(epoch, start);
    close_record(epoch, start);
    return 1;
}

static void fill_checksums(struct buf *epoch)
{
    for (size_t at = 0; at < epoch->len;) {
        uint32_t n = get_u32(epoch->p + at);
        char *record = epoch->p + at + LEN_BYTES;
        set_u32(record + n, crc32c(CRC32C_START, record, n));
        at += FRAME_BYTES + n;
        CHECK(at <= epoch->len);
    }
}

void segment_seal(struct buf *epoch, const struct segment_end *end)
{
    size_t bytes = epoch->len, start = open_record(epoch);
    CHECK(end->synced < end->epoch && end->records > 0);
    buf_add_byte(epoch, (char)TYPE_END);
    add_u64(epoch, end->epoch);
    add_u64(epoch, end->synced);
    add_u64(epoch, end->records);
    add_u64(epoch, bytes);
    add_u32(epoch, end->shards);
    buf_add(epoch, end->takes_part, (end->shards + 7) / 8);
    close_record(epoch, start);
    fill_checksums(epoch);
}

void segment_add_mark(struct buf *out, uint64_t synced)
{
    struct buf mark = {0};
    size_t start = open_record(&mark);
    buf_add_byte(&mark, (char)TYPE_MARK);
    add_u64(&mark, synced);
    close_record(&mark, start);
    fill_checksums(&mark);
    buf_add_slice(out, buf_slice(&mark));
    buf_fini(&mark);
}

/* --- reading --- */

enum segment_state segment_read_header(struct slice file, struct segment_header *h)
{
    if (file.n < SEGMENT_HEADER_BYTES) return SEGMENT_UNBORN;
    const char *p = file.p;
    if (memcmp(p, magic, sizeof magic) != 0 || get_u32(p + 36) != crc32c(CRC32C_START, p, 36))
        return file.n == SEGMENT_HEADER_BYTES ? SEGMENT_UNBORN : SEGMENT_DAMAGED;
    *h = (struct segment_header){.shard = get_u32(p + 12), .shards = get_u32(p + 16), .number = get_u64(p + 20), .first_epoch = get_u64(p + 28)};
    return get_u32(p + 8) == SEGMENT_VERSION ? SEGMENT_GOOD : SEGMENT_NEWER;
}

void segment_reader_init(struct segment_reader *r, struct slice file, uint32_t shard, uint32_t shards, size_t from)
{
    CHECK(from <= file.n);
    *r = (struct segment_reader){.file = file, .shard = shard, .shards = shards, .at = from, .epoch_at = from};
}

/* The record's length if the whole of it would lie in the file, else 0. */
static uint32_t stated_length(const struct segment_reader *r, size_t at)
{
    if (r->file.n - at < FRAME_BYTES + 1) return 0;
    uint32_t n = get_u32(r->file.p + at);
    return n <= RECORD_MAX && n <= r->file.n - at - FRAME_BYTES ? n : 0;
}

static bool is_record(const struct segment_reader *r, size_t at)
{
    uint32_t n = stated_length(r, at);
    const char *record = r->file.p + at + LEN_BYTES;
    return n > 0 && (r->trusted || crc32c(CRC32C_START, record, n) == get_u32(record + n));
}

static size_t end_length(const struct segment_reader *r) { return END_FIXED_BYTES + ((size_t)r->shards + 7) / 8; }

/* A valid record at `at` is an end record: is it a valid one? */
static bool read_end(const struct segment_reader *r, size_t at, struct segment_end *e)
{
    const char *p = r->file.p + at + LEN_BYTES + 1;
    if (get_u32(r->file.p + at) != end_length(r)) return false;
    *e = (struct segment_end){.epoch = get_u64(p), .synced = get_u64(p + 8), .records = get_u64(p + 16), .bytes = get_u64(p + 24),
                              .shards = get_u32(p + 32), .takes_part = (const uint8_t *)p + 36};
    return e->shards == r->shards && e->synced < e->epoch && segment_takes_part(e, r->shard) && e->bytes <= at - r->epoch_at;
}

/* Length and type are compared first: checksums are computed only for what looks like one. */
static bool is_end(const struct segment_reader *r, size_t at)
{
    struct segment_end e;
    return stated_length(r, at) == end_length(r) && (uint8_t)r->file.p[at + LEN_BYTES] == TYPE_END && is_record(r, at) && read_end(r, at, &e);
}

/* The offset behind the record at `at`, going by its length: the record is valid or, if not, at least the one behind it is. 0: neither. */
static size_t step_over(const struct segment_reader *r, size_t at)
{
    size_t next = at + FRAME_BYTES + stated_length(r, at);
    return is_record(r, at) || (next > at + FRAME_BYTES && next < r->file.n && is_record(r, next)) ? next : 0;
}

/* From the invalid record at `at`, going by lengths, is the next end record that of its own epoch? If not, its length led over that one. */
static bool leads_to_own_end(const struct segment_reader *r, size_t at)
{
    struct segment_end e;
    for (size_t p = at; p < r->file.n;) {
        if (is_end(r, p)) return read_end(r, p, &e) && p - e.bytes <= at;
        p = step_over(r, p);
        if (p == 0) return false;
    }
    return false;
}

/* Where reading goes on behind the invalid record at `at`. */
static size_t behind_bad(const struct segment_reader *r, size_t at)
{
    if (leads_to_own_end(r, at)) return step_over(r, at);
    for (size_t next = at + 1; next < r->file.n; next++)
        if (is_end(r, next)) return next;
    return r->file.n;
}

/* What a record with a right checksum is. */
static enum segment_kind classify(const struct segment_reader *r, struct segment_item *item)
{
    switch ((uint8_t)item->record.p[0]) {
    case TYPE_END: return read_end(r, item->at, &item->end) ? SEGMENT_END : SEGMENT_BAD;
    case TYPE_MARK:
        if (item->record.n != MARK_BYTES || item->at != r->epoch_at) return SEGMENT_BAD;
        item->end.synced = get_u64(item->record.p + 1);
        return SEGMENT_MARK;
    default: return SEGMENT_RECORD;
    }
}

/* Zeros behind the last epoch. No record begins with them, so that one look at a record is enough. */
static bool is_room(const struct segment_reader *r)
{
    const char *p = r->file.p + r->at;
    size_t n = r->file.n - r->at;
    return r->at == r->epoch_at && (n < LEN_BYTES || get_u32(p) == 0) && (n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0));
}

enum segment_kind segment_next(struct segment_reader *r, struct segment_item *item)
{
    *item = (struct segment_item){.at = r->at};
    if (r->at == r->file.n || is_room(r)) return SEGMENT_NOTHING;
    if (is_record(r, r->at)) {
        item->record = slice_of(r->file.p + r->at + LEN_BYTES, get_u32(r->file.p + r->at));
        item->bytes = FRAME_BYTES + item->record.n;
        item->kind = classify(r, item);
    } else {
        item->bytes = behind_bad(r, r->at) - r->at;
        item->kind = SEGMENT_BAD;
    }
    r->at += item->bytes;
    if (item->kind == SEGMENT_END || item->kind == SEGMENT_MARK) r->epoch_at = r->at;
    return item->kind;
}

/* --- long ops --- */

void segment_ops_reset(struct segment_ops *o)
{
    o->parts.len = 0;
    o->in_parts = false;
}

static enum segment_op decode(struct segment_ops *o, struct slice bytes, struct op *op)
{
    return opcode_read(bytes, &o->scratch, op) ? SEGMENT_OP : SEGMENT_OP_INVALID;
}

/* A part without its first one is nobody's: its bytes are a piece of a value and could say anything. */
enum segment_op segment_op_step(struct segment_ops *o, struct slice record, struct op *op)
{
    uint8_t type = (uint8_t)record.p[0];
    bool goes_on = type == TYPE_PART || type == TYPE_LAST_PART;
    if (!goes_on) segment_ops_reset(o);
    if (!goes_on && type != TYPE_FIRST_PART) return decode(o, record, op);
    if (goes_on && !o->in_parts) return SEGMENT_OP_INVALID;
    buf_add(&o->parts, record.p + 1, record.n - 1);
    o->in_parts = type != TYPE_LAST_PART;
    return o->in_parts ? SEGMENT_OP_MORE : decode(o, buf_slice(&o->parts), op);
}

void segment_ops_fini(struct segment_ops *o)
{
    buf_fini(&o->parts);
    opcode_scratch_fini(&o->scratch);
}
