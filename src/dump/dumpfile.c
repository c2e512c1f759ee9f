/* A dump
 *
 * One file per shard and cut, DIR/shard-S/<epoch as 20 digits>.dump. All numbers little endian.
 *
 *   header, 48 bytes    0  "SHERDDMP"
 *                       8  u32 version, 1
 *                      12  u32 shard
 *                      16  u32 shards of this dump
 *                      20  u64 epoch: the shard after all epochs of its log up to this one
 *                      28  u64 seed of the key hash
 *                      36  i64 time of the cut, unix ms
 *                      44  u32 CRC-32C of the bytes before
 *   then blocks         0  u32 raw length, 1 to DUMPFILE_BLOCK_BYTES
 *                       4  u32 stored length, 1 to raw length
 *                       8  u8  codec: 0 raw, 1 LZ4 (the block format, without a frame)
 *                       9  u8  goes on: 1 if the entry that this block holds a piece of goes on in the next block
 *                      10  u16 0
 *                      12  u32 CRC-32C of the stored bytes
 *                      16  the stored bytes
 *   trailer, 40 bytes   0  u32 0, where a block has its raw length
 *                       4  u64 entries
 *                      12  u64 blocks
 *                      20  u64 raw bytes, the sum over all blocks
 *                      28  u64 stored bytes, likewise
 *                      36  u32 CRC-32C of header, heads of all blocks (16 bytes each) and the trailer before this
 *
 *   entry               u8 form | [u8 db] | key length | image length | [i64 expiry, unix ms] | key | image (store/image.h)
 *
 *   form                bit 0     an expiry is there
 *                       bit 1     the key's length has 4 bytes, else 1
 *                       bits 2-3  the image's length has 1, 2, 4 or 8 bytes
 *                       bit 4     a database is there, else it is 0
 *                       bits 5-7  0
 *
 * A block holds whole entries. One that is longer than a block has blocks of its own, one piece of it in each; all but the last of these say that it goes on.
 *
 * A file is valid if header and trailer are, the file ends with the trailer, every block's lengths and codec are as above with stored = raw for codec 0, all
 * checksums agree, every block that does not go on ends with an entry's end, and the trailer's counts are those of the blocks. Each byte lies under a checksum, and the checksums of the blocks lie
 * under that of the trailer: any single flipped bit, any truncation and any block lost, doubled or moved is found, and each byte is summed once.
 *
 * Lengths inside entries are not bound to their shortest form: whoever adds a collection does not know its image's length before it is written. */
#include "dump/dumpfile.h"

#include <errno.h>

#include "base/crc32c.h"
#include "base/le.h"
#include "store/image.h"

enum {
    HEAD_BYTES = DUMPFILE_HEAD_BYTES,
    TRAILER_BYTES = 40,
    CODEC_RAW = 0,
    CODEC_LZ4 = 1,
    FORM_EXPIRES = 1,
    FORM_LONG_KEY = 2,
    FORM_WIDTH_SHIFT = 2,
    FORM_WIDTH_MASK = 3 << 2,
    FORM_DB = 16,
    FORM_ALL = 31,
    IMAGE_OVERHEAD_MAX = 16, /* of a string's image over the string */
};

static const char magic[8] = {'S', 'H', 'E', 'R', 'D', 'D', 'M', 'P'};

/* --- adding entries --- */

static unsigned width_for(uint64_t image_n) { return image_n <= UINT8_MAX ? 0 : image_n <= UINT16_MAX ? 1 : image_n <= UINT32_MAX ? 2 : 3; }

static void set_length(char *p, unsigned width, uint64_t n)
{
    n = htole64(n);
    memcpy(p, &n, (size_t)1 << width);
}

/* Everything before the image; gives the offset of the image's length, which is left open. */
static size_t add_head(struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, unsigned width)
{
    CHECK(db <= UINT8_MAX && key.n <= UINT32_MAX);
    bool long_key = key.n > UINT8_MAX;
    char *start = buf_room(raw, 32 + key.n), *p = start, *length;
    *p++ = (char)((expiry_ms ? FORM_EXPIRES : 0) | (long_key ? FORM_LONG_KEY : 0) | width << FORM_WIDTH_SHIFT | (db ? FORM_DB : 0));
    if (db) *p++ = (char)db;
    set_length(p, long_key ? 2 : 0, key.n);
    p += long_key ? 4 : 1;
    length = p;
    p += (size_t)1 << width;
    if (expiry_ms) {
        set_length(p, 3, (uint64_t)expiry_ms);
        p += 8;
    }
    if (key.n) memcpy(p, key.p, key.n);
    p += key.n;
    size_t at = raw->len + (size_t)(length - start);
    raw->len += (size_t)(p - start);
    return at;
}

void dumpfile_add_image(struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    unsigned width = width_for(image.n);
    size_t length_at = add_head(raw, db, key, expiry_ms, width);
    set_length(raw->p + length_at, width, image.n);
    buf_add_slice(raw, image);
}

void dumpfile_add_entry(struct buf *raw, uint16_t db, const struct entry *e)
{
    size_t start = raw->len;
    unsigned width = entry_type(e) == TYPE_STRING ? width_for((uint64_t)entry_value_len(e) + IMAGE_OVERHEAD_MAX) : 2;
    size_t length_at = add_head(raw, db, entry_key(e), entry_expiry_ms(e), width), image_at = raw->len;
    image_write(raw, e);
    uint64_t n = raw->len - image_at;
    if (unlikely(width_for(n) > width)) { /* only a collection over 4 GB */
        static const char wider[4];
        CHECK(width == 2);
        buf_insert(raw, length_at + 4, wider, sizeof wider);
        raw->p[start] |= 3 << FORM_WIDTH_SHIFT;
        width = 3;
    }
    set_length(raw->p + length_at, width, n);
}

/* --- entries out of bytes --- */

static uint64_t get_length(const char *p, unsigned width)
{
    uint64_t n = 0;
    memcpy(&n, p, (size_t)1 << width);
    return le64toh(n);
}

size_t dumpfile_take_entry(struct slice in, struct dumpfile_entry *e)
{
    if (in.n == 0) return 0;
    unsigned form = (uint8_t)in.p[0], width = form >> FORM_WIDTH_SHIFT & 3;
    size_t key_width = form & FORM_LONG_KEY ? 4 : 1, db_width = form & FORM_DB ? 1 : 0, expiry_width = form & FORM_EXPIRES ? 8 : 0;
    size_t head = 1 + db_width + key_width + ((size_t)1 << width) + expiry_width;
    if (form & ~(unsigned)FORM_ALL || in.n < head) return 0;
    const char *p = in.p + 1 + db_width;
    uint64_t key_n = get_length(p, form & FORM_LONG_KEY ? 2 : 0), image_n = get_length(p + key_width, width);
    if (key_n > in.n - head || image_n > in.n - head - key_n) return 0;
    if (e) {
        e->db = db_width ? (uint8_t)in.p[1] : 0;
        e->expiry_ms = expiry_width ? (int64_t)le_u64(in.p + head - 8) : 0;
        e->key = slice_of(in.p + head, key_n);
        e->image = slice_of(in.p + head + key_n, image_n);
    }
    return head + key_n + image_n;
}

/* --- sealing --- */

static void add_summed(struct dumpfile_writer *w, const struct buf *out, size_t from) { w->crc = crc32c(w->crc, out->p + from, out->len - from); }

void dumpfile_begin_blocks(struct dumpfile_writer *w, enum compress_profile profile, size_t min_size)
{
    *w = (struct dumpfile_writer){.crc = CRC32C_START};
    compress_init(&w->compress, profile, min_size);
}

void dumpfile_begin(struct dumpfile_writer *w, struct buf *out, const struct dumpfile_header *h, enum compress_profile profile, size_t min_size)
{
    size_t start = out->len;
    dumpfile_begin_blocks(w, profile, min_size);
    buf_add(out, magic, sizeof magic);
    le_add_u32(out, DUMPFILE_VERSION);
    le_add_u32(out, h->shard);
    le_add_u32(out, h->shards);
    le_add_u64(out, h->epoch);
    le_add_u64(out, h->seed);
    le_add_u64(out, (uint64_t)h->cut_ms);
    le_add_u32(out, crc32c(CRC32C_START, out->p + start, out->len - start));
    CHECK(out->len - start == DUMPFILE_HEADER_BYTES);
    add_summed(w, out, start);
}

static void seal_block(struct dumpfile_writer *w, struct buf *out, struct slice raw, bool goes_on)
{
    CHECK(raw.n >= 1 && raw.n <= DUMPFILE_BLOCK_BYTES);
    size_t head = out->len;
    buf_room(out, HEAD_BYTES + raw.n);
    out->len += HEAD_BYTES;
    bool packed = compress_pack(&w->compress, out, raw);
    if (!packed) buf_add_slice(out, raw);
    size_t stored = out->len - head - HEAD_BYTES;
    char *p = out->p + head;
    le_set_u32(p, (uint32_t)raw.n);
    le_set_u32(p + 4, (uint32_t)stored);
    p[8] = packed ? CODEC_LZ4 : CODEC_RAW;
    p[9] = goes_on;
    p[10] = p[11] = 0;
    le_set_u32(p + 12, crc32c(CRC32C_START, p + HEAD_BYTES, stored));
    w->crc = crc32c(w->crc, p, HEAD_BYTES);
    w->blocks++;
    w->raw_bytes += raw.n;
    w->stored_bytes += stored;
}

static void seal_long_entry(struct dumpfile_writer *w, struct buf *out, struct slice entry)
{
    while (entry.n > 0) {
        size_t n = entry.n < DUMPFILE_BLOCK_BYTES ? entry.n : DUMPFILE_BLOCK_BYTES;
        seal_block(w, out, slice_of(entry.p, n), n < entry.n);
        entry = slice_of(entry.p + n, entry.n - n);
    }
}

void dumpfile_seal(struct dumpfile_writer *w, struct buf *out, struct slice raw, uint64_t entries)
{
    uint64_t found = 0;
    for (size_t block = 0, at = 0; at < raw.n; found++) {
        size_t n = dumpfile_take_entry(slice_of(raw.p + at, raw.n - at), NULL);
        CHECK(n > 0);
        if (at > block && at + n - block > DUMPFILE_BLOCK_BYTES) {
            seal_block(w, out, slice_of(raw.p + block, at - block), false);
            block = at;
        }
        at += n;
        if (n > DUMPFILE_BLOCK_BYTES) seal_long_entry(w, out, slice_of(raw.p + block, n));
        else if (at == raw.n) seal_block(w, out, slice_of(raw.p + block, at - block), false);
        else continue;
        block = at;
    }
    CHECK(found == entries);
    w->entries += entries;
}

void dumpfile_end(struct dumpfile_writer *w, struct buf *out)
{
    size_t start = out->len;
    le_add_u32(out, 0);
    le_add_u64(out, w->entries);
    le_add_u64(out, w->blocks);
    le_add_u64(out, w->raw_bytes);
    le_add_u64(out, w->stored_bytes);
    add_summed(w, out, start);
    le_add_u32(out, w->crc);
    CHECK(out->len - start == TRAILER_BYTES);
}

void dumpfile_fini(struct dumpfile_writer *w) { compress_fini(&w->compress); }

/* --- reading --- */

enum dumpfile_state dumpfile_read_header(struct slice file, struct dumpfile_header *h)
{
    const char *p = file.p;
    if (file.n < DUMPFILE_HEADER_BYTES || memcmp(p, magic, sizeof magic) != 0 || le_u32(p + 44) != crc32c(CRC32C_START, p, 44)) return DUMPFILE_DAMAGED;
    *h = (struct dumpfile_header){
        .shard = le_u32(p + 12), .shards = le_u32(p + 16), .epoch = le_u64(p + 20), .seed = le_u64(p + 28), .cut_ms = (int64_t)le_u64(p + 36)};
    return le_u32(p + 8) == DUMPFILE_VERSION ? DUMPFILE_GOOD : DUMPFILE_NEWER;
}

enum dumpfile_state dumpfile_reader_init(struct dumpfile_reader *r, struct slice file)
{
    *r = (struct dumpfile_reader){.file = file};
    enum dumpfile_state state = dumpfile_read_header(file, &r->info.header);
    if (state != DUMPFILE_GOOD) {
        r->fault = state == DUMPFILE_NEWER ? "a version that this program does not know" : "no header of a dump, or a damaged one";
        return state;
    }
    r->crc = crc32c(CRC32C_START, file.p, DUMPFILE_HEADER_BYTES);
    r->at = DUMPFILE_HEADER_BYTES;
    return state;
}

void dumpfile_reader_fini(struct dumpfile_reader *r) { buf_fini(&r->raw); }

/* The reader stays where it is for good. */
static int fail(struct dumpfile_reader *r, const char *fault)
{
    r->fault = fault;
    r->fault_at = r->at;
    r->left = (struct slice){0};
    return -EINVAL;
}

bool dumpfile_get_head(const char *p, struct dumpfile_block *b)
{
    *b = (struct dumpfile_block){.raw_n = le_u32(p), .stored_n = le_u32(p + 4), .crc = le_u32(p + 12), .packed = p[8] == CODEC_LZ4, .goes_on = p[9] == 1};
    return b->raw_n <= DUMPFILE_BLOCK_BYTES && b->stored_n >= 1 && b->stored_n <= b->raw_n && (b->packed || (p[8] == CODEC_RAW && b->stored_n == b->raw_n)) &&
           (p[9] == 0 || p[9] == 1) && p[10] == 0 && p[11] == 0;
}

struct block {
    struct dumpfile_block head;
    struct slice stored;
};

/* 1: a block, checked and passed; 0: the trailer, and it is right. */
static int take_block(struct dumpfile_reader *r, struct block *b)
{
    const char *p = r->file.p + r->at;
    size_t left = r->file.n - r->at;
    if (left < 4) return fail(r, "the file ends before its trailer");
    if (le_u32(p) == 0) {
        const struct dumpfile_info *i = &r->info;
        if (left != TRAILER_BYTES) return fail(r, left < TRAILER_BYTES ? "the trailer is cut off" : "the file goes on behind its trailer, or a block has no length");
        if (le_u32(p + 36) != crc32c(r->crc, p, 36)) return fail(r, "the checksum of the whole file is wrong");
        bool agrees = le_u64(p + 12) == i->blocks && le_u64(p + 20) == i->raw_bytes && le_u64(p + 28) == i->stored_bytes;
        return agrees ? 0 : fail(r, "the trailer counts other blocks than there are");
    }
    if (left < HEAD_BYTES) return fail(r, "the file ends in the head of a block");
    if (!dumpfile_get_head(p, &b->head)) return fail(r, "the head of a block is wrong");
    if (b->head.stored_n > left - HEAD_BYTES) return fail(r, "the file ends in a block");
    b->stored = slice_of(p + HEAD_BYTES, b->head.stored_n);
    if (crc32c(CRC32C_START, b->stored.p, b->stored.n) != b->head.crc) return fail(r, "the checksum of a block is wrong");
    r->crc = crc32c(r->crc, p, HEAD_BYTES);
    r->at += HEAD_BYTES + b->stored.n;
    r->info.blocks++;
    r->info.raw_bytes += b->head.raw_n;
    r->info.stored_bytes += b->stored.n;
    return 1;
}

enum dumpfile_state dumpfile_check(struct slice file, struct dumpfile_info *info, struct buf *why)
{
    struct dumpfile_reader r;
    struct block b = {0};
    enum dumpfile_state state = dumpfile_reader_init(&r, file);
    if (state == DUMPFILE_GOOD) {
        int rc;
        while ((rc = take_block(&r, &b)) == 1) {}
        if (rc == 0 && b.head.goes_on) rc = fail(&r, "the last entry has no end");
        if (rc == 0) r.info.entries = le_u64(file.p + r.at + 4);
        if (rc < 0) state = DUMPFILE_DAMAGED;
    }
    if (state != DUMPFILE_GOOD) buf_printf(why, "at byte %zu: %s", r.fault_at, r.fault);
    *info = r.info;
    dumpfile_reader_fini(&r);
    return state;
}

bool dumpfile_unpack(const struct dumpfile_block *b, struct slice stored, struct buf *raw)
{
    CHECK(stored.n == b->stored_n);
    char *room = buf_room(raw, b->raw_n);
    if (!b->packed) memcpy(room, stored.p, b->raw_n);
    else if (!compress_unpack(stored, room, b->raw_n)) return false;
    raw->len += b->raw_n;
    return true;
}

/* The block's bytes go behind those in r->raw. */
static int unpack(struct dumpfile_reader *r, const struct block *b)
{
    return dumpfile_unpack(&b->head, b->stored, &r->raw) ? 1 : fail(r, "a block cannot be unpacked");
}

/* The next block, or the next entry of several blocks, into r->left. A block stored raw is read where it stands. */
static int refill(struct dumpfile_reader *r)
{
    struct block b;
    r->raw.len = 0;
    int rc = take_block(r, &b);
    if (rc == 0 && le_u64(r->file.p + r->at + 4) != r->info.entries) return fail(r, "the trailer counts other entries than there are");
    if (rc <= 0) return rc;
    if (!b.head.packed && !b.head.goes_on) {
        r->left = b.stored;
        return 1;
    }
    bool pieces = b.head.goes_on;
    while ((rc = unpack(r, &b)) == 1 && b.head.goes_on) {
        rc = take_block(r, &b);
        if (rc == 0) return fail(r, "the last entry has no end");
        if (rc < 0) return rc;
    }
    if (rc < 0) return rc;
    r->left = buf_slice(&r->raw);
    return pieces && dumpfile_take_entry(r->left, NULL) != r->left.n ? fail(r, "the pieces of an entry do not give one") : 1;
}

int dumpfile_next(struct dumpfile_reader *r, struct dumpfile_entry *e)
{
    if (unlikely(r->fault)) return -EINVAL;
    if (r->left.n == 0) {
        int rc = refill(r);
        if (rc <= 0) return rc;
    }
    size_t n = dumpfile_take_entry(r->left, e);
    if (unlikely(n == 0)) return fail(r, "an entry is wrong");
    r->left = slice_of(r->left.p + n, r->left.n - n);
    r->info.entries++;
    return 1;
}
