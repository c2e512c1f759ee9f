/* The shared Raft log on disk
 *
 * DIR/raftlog.id says which log this is, DIR/NNNNNNNNNN.raft are its segments. All numbers little endian.
 *
 *   raftlog.id, 24 bytes  0  "SHERDRL" and a zero
 *                         8  u32 version, 1
 *                        12  u64 log: a random number
 *                        20  u32 CRC-32C of the bytes before
 *
 *   segment               batches, one behind the other from offset 0 on, then bytes that mean nothing: zeros, or what the file held when it had another number
 *
 *   batch                 0  "SRB1"
 *                         4  u32 CRC-32C of all that follows in the batch, padding included
 *                         8  u64 log
 *                        16  u64 segment, the number in the file's name
 *                        24  u64 batch, from 1 without gaps over all segments
 *                        32  u64 oldest segment that was needed when this was written
 *                        40  u64 size of the file
 *                        48  u64 bytes of records
 *                        56  u64 zero
 *                        64  records, then zeros up to a multiple of 4096
 *
 *   record                0  u32 CRC-32C of what follows, data included
 *                         4  u32 bytes of data
 *                         8  u32 group
 *                        12  u8 kind, u8 type of an entry (else 0), u16 zero
 *                        16  u64 index
 *                        24  u64 term
 *                        32  data
 *
 *   kind  1 entry         index, term, type, data
 *         2 hard state    term; index is the vote
 *         3 truncation    entries from index on are void
 *         4 mark          a snapshot holds everything up to index, whose entry has this term; entries before `first` are void, and all are if index is behind the last one.
 *                         data: u64 first, u64 index of the configuration, configuration
 *         5 gone          the group has nothing here any more
 *         6 state         what was known of a group when the segment was begun: index of its last entry, its term.
 *                         data: u64 vote, u64 index, u64 term, u64 first and u64 index of the configuration of its mark, configuration
 *
 * A batch is valid if it bears the log's number and that of its segment, lies in the file as a whole, and its checksum agrees. So what a file held under another number is never valid, and neither is any value that
 * a client made up, since the log's number is known to nobody. A record has a checksum of its own because entries are read one by one.
 *
 * The first batch of a segment begins with a state record for every group that there was. Together with the entries that are alive it makes the segments before superfluous: raftrecover.c. */
#include "cluster/raftbatch.h"

#include "base/crc32c.h"
#include "base/le.h"

enum { ID_CRC_AT = 20, CRC_AT = 4, CRC_END = 8, MARK_FIXED_BYTES = 16, STATE_FIXED_BYTES = 40 };

static const char id_magic[8] = "SHERDRL", batch_magic[4] = {'S', 'R', 'B', '1'};

/* --- the log's identity --- */

void raftbatch_write_id(struct buf *out, uint64_t log)
{
    size_t start = out->len;
    buf_add(out, id_magic, sizeof id_magic);
    le_add_u32(out, RAFTBATCH_VERSION);
    le_add_u64(out, log);
    le_add_u32(out, crc32c(CRC32C_START, out->p + start, ID_CRC_AT));
    CHECK(out->len - start == RAFTBATCH_ID_BYTES);
}

enum raftbatch_id raftbatch_read_id(struct slice file, uint64_t *log)
{
    if (file.n != RAFTBATCH_ID_BYTES || memcmp(file.p, id_magic, sizeof id_magic) != 0 || crc32c(CRC32C_START, file.p, ID_CRC_AT) != le_u32(file.p + ID_CRC_AT))
        return RAFTBATCH_ID_DAMAGED;
    *log = le_u64(file.p + 12);
    return le_u32(file.p + 8) == RAFTBATCH_VERSION ? RAFTBATCH_ID_GOOD : RAFTBATCH_ID_NEWER;
}

/* --- batches --- */

static void set_u64(char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, 8);
}

void raftbatch_seal(char *p, const struct raftbatch_header *h)
{
    uint64_t size = raftbatch_size(h->bytes);
    const uint64_t numbers[] = {h->log, h->segment, h->batch, h->oldest, h->segment_bytes, h->bytes, 0};
    memcpy(p, batch_magic, sizeof batch_magic);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) set_u64(p + CRC_END + 8 * i, numbers[i]);
    memset(p + RAFTBATCH_HEADER_BYTES + h->bytes, 0, size - RAFTBATCH_HEADER_BYTES - h->bytes);
    le_set_u32(p + CRC_AT, crc32c(CRC32C_START, p + CRC_END, size - CRC_END));
}

bool raftbatch_read_header(const char *p, uint64_t log, uint64_t segment, uint64_t room, struct raftbatch_header *h)
{
    if (room < RAFTBATCH_BLOCK || memcmp(p, batch_magic, sizeof batch_magic) != 0) return false;
    *h = (struct raftbatch_header){.log = le_u64(p + 8), .segment = le_u64(p + 16), .batch = le_u64(p + 24), .oldest = le_u64(p + 32), .segment_bytes = le_u64(p + 40), .bytes = le_u64(p + 48)};
    return h->log == log && h->segment == segment && h->batch > 0 && h->batch < UINT64_MAX && h->bytes <= room - RAFTBATCH_HEADER_BYTES && raftbatch_size(h->bytes) <= room;
}

bool raftbatch_is_whole(struct slice batch) { return crc32c(CRC32C_START, batch.p + CRC_END, batch.n - CRC_END) == le_u32(batch.p + CRC_AT); }

/* --- records --- */

/* A record begins; close_record sets length and checksum when its data is there. */
static size_t open_record(struct buf *out, uint32_t group, uint8_t kind, uint8_t type, uint64_t index, uint64_t term)
{
    size_t start = out->len;
    char *p = buf_room(out, RAFTBATCH_RECORD_BYTES);
    le_set_u32(p + 8, group);
    le_set_u32(p + 12, kind | (uint32_t)type << 8);
    set_u64(p + 16, index);
    set_u64(p + 24, term);
    out->len += RAFTBATCH_RECORD_BYTES;
    return start;
}

static void close_record(struct buf *out, size_t start)
{
    size_t data = out->len - start - RAFTBATCH_RECORD_BYTES;
    CHECK(data <= UINT32_MAX);
    le_set_u32(out->p + start + 4, (uint32_t)data);
    le_set_u32(out->p + start, crc32c(CRC32C_START, out->p + start + 4, out->len - start - 4));
}

void raftbatch_add(struct buf *out, const struct raftbatch_record *r)
{
    size_t start = open_record(out, r->group, r->kind, r->type, r->index, r->term);
    buf_add_slice(out, r->data);
    close_record(out, start);
}

size_t raftbatch_read(struct slice bytes, struct raftbatch_record *r)
{
    if (bytes.n < RAFTBATCH_RECORD_BYTES) return 0;
    const char *p = bytes.p;
    uint32_t n = le_u32(p + 4), kinds = le_u32(p + 12);
    if (n > bytes.n - RAFTBATCH_RECORD_BYTES || crc32c(CRC32C_START, p + 4, RAFTBATCH_RECORD_BYTES - 4 + n) != le_u32(p)) return 0;
    *r = (struct raftbatch_record){.group = le_u32(p + 8), .kind = (uint8_t)kinds, .type = (uint8_t)(kinds >> 8), .index = le_u64(p + 16), .term = le_u64(p + 24),
                                   .data = slice_of(p + RAFTBATCH_RECORD_BYTES, n)};
    return RAFTBATCH_RECORD_BYTES + n;
}

void raftbatch_add_mark(struct buf *out, uint32_t group, const struct raftlog_mark *m)
{
    size_t start = open_record(out, group, RAFTBATCH_MARK, 0, m->index, m->term);
    le_add_u64(out, m->first);
    le_add_u64(out, m->configuration_index);
    buf_add_slice(out, m->configuration);
    close_record(out, start);
}

void raftbatch_add_state(struct buf *out, uint32_t group, uint64_t term, uint64_t vote, uint64_t last, const struct raftlog_mark *m)
{
    size_t start = open_record(out, group, RAFTBATCH_STATE, 0, last, term);
    le_add_u64(out, vote);
    le_add_u64(out, m->index);
    le_add_u64(out, m->term);
    le_add_u64(out, m->first);
    le_add_u64(out, m->configuration_index);
    buf_add_slice(out, m->configuration);
    close_record(out, start);
}

bool raftbatch_read_mark(const struct raftbatch_record *r, struct raftlog_mark *m)
{
    if (r->data.n < MARK_FIXED_BYTES) return false;
    *m = (struct raftlog_mark){.index = r->index, .term = r->term, .first = le_u64(r->data.p), .configuration_index = le_u64(r->data.p + 8),
                                 .configuration = slice_of(r->data.p + MARK_FIXED_BYTES, r->data.n - MARK_FIXED_BYTES)};
    return true;
}

bool raftbatch_read_state(const struct raftbatch_record *r, uint64_t *vote, struct raftlog_mark *m)
{
    if (r->data.n < STATE_FIXED_BYTES) return false;
    const char *p = r->data.p;
    *vote = le_u64(p);
    *m = (struct raftlog_mark){.index = le_u64(p + 8), .term = le_u64(p + 16), .first = le_u64(p + 24), .configuration_index = le_u64(p + 32),
                                 .configuration = slice_of(p + STATE_FIXED_BYTES, r->data.n - STATE_FIXED_BYTES)};
    return true;
}
