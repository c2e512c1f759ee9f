/* The file format of a dump: the image of one shard after one epoch. Pure. The bytes stand at the top of dumpfile.c.
 *
 * Writing goes in two steps, so that a shard's thread pays only for copying: entries are added raw to a buffer, under the shard's token; elsewhere the buffer is sealed into blocks,
 * compressed and with checksums. Reading takes any bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compress.h"
#include "base/slice.h"

struct entry;

enum { DUMPFILE_VERSION = 1, DUMPFILE_HEADER_BYTES = 48, DUMPFILE_BLOCK_BYTES = 256 << 10, DUMPFILE_HEAD_BYTES = 16 /* of a block */ };

struct dumpfile_header {
    uint32_t shard, shards;
    uint64_t epoch; /* everything up to this epoch of the log is in it, and nothing later */
    uint64_t seed;  /* of the key hash that placed the keys */
    int64_t cut_ms; /* unix ms of the cut */
};

/* ---- adding entries: any thread that may read the entry */
void dumpfile_add_entry(struct buf *raw, uint16_t db, const struct entry *e);
void dumpfile_add_image(struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image); /* expiry_ms 0: none */

/* ---- sealing: one thread per writer. What is appended to `out` is the file, piece by piece; the caller may write it away and empty `out` after each call. */
struct dumpfile_writer {
    struct compress compress;
    uint32_t crc; /* of the header and the heads of all blocks so far */
    uint64_t entries, blocks, raw_bytes, stored_bytes;
};
void dumpfile_begin(struct dumpfile_writer *w, struct buf *out, const struct dumpfile_header *h, enum compress_profile profile, size_t min_size);
/* Whole entries, as many as told, any number of bytes. Each call makes blocks of its own, so a call pays off from some DUMPFILE_BLOCK_BYTES on. */
void dumpfile_seal(struct dumpfile_writer *w, struct buf *out, struct slice raw, uint64_t entries);
void dumpfile_end(struct dumpfile_writer *w, struct buf *out);
/* Instead of dumpfile_begin, for files of another kind that hold the same blocks: writes nothing. Such a file has an end of its own, too. */
void dumpfile_begin_blocks(struct dumpfile_writer *w, enum compress_profile profile, size_t min_size);
void dumpfile_fini(struct dumpfile_writer *w);

/* ---- reading */
enum dumpfile_state {
    DUMPFILE_GOOD,
    DUMPFILE_DAMAGED, /* or no dump at all */
    DUMPFILE_NEWER,   /* a whole header of another version */
};

struct dumpfile_info {
    struct dumpfile_header header;
    uint64_t entries, blocks;
    uint64_t raw_bytes, stored_bytes; /* of the blocks' contents, before and after compression */
};

enum dumpfile_state dumpfile_read_header(struct slice file, struct dumpfile_header *h);
/* Every checksum and every length but those inside blocks, which the reader looks at: what is good here reads to its end, unless the writer itself was wrong. Damaged: `why` gets a
 * sentence that names the offset. `info` is filled as far as the file was good. */
enum dumpfile_state dumpfile_check(struct slice file, struct dumpfile_info *info, struct buf *why);

struct dumpfile_entry {
    uint16_t db; /* any that fits a byte: the caller compares with STORE_ALL_DBS */
    int64_t expiry_ms; /* 0: none */
    struct slice key, image; /* the image was not looked at: image_read does */
};

struct dumpfile_reader {
    struct slice file;
    size_t at;                 /* of the next block: what was read so far */
    struct slice left;         /* entries of the block that were not handed out yet */
    struct buf raw;            /* a block unpacked, or an entry put together from several */
    uint32_t crc;
    struct dumpfile_info info; /* counts: what was read so far */
    const char *fault;         /* after a negative result: what is wrong */
    size_t fault_at;           /* and where in the file: the block's offset */
};

/* Keeps file until dumpfile_reader_fini, which must follow. Gives the header's state; unless it is good, dumpfile_next gives -EINVAL. */
enum dumpfile_state dumpfile_reader_init(struct dumpfile_reader *r, struct slice file);
/* 1: an entry, its slices valid until the next call. 0: that was all, and the file ends as it should. -EINVAL: not valid; all further calls say the same.
 * Checks everything that dumpfile_check does on its way, so that nothing wrong is handed out; but what is handed out of a damaged file before the fault is not all of it. */
int dumpfile_next(struct dumpfile_reader *r, struct dumpfile_entry *e);
void dumpfile_reader_fini(struct dumpfile_reader *r);

/* ---- blocks one by one, for readers that do not have the whole file before them */
struct dumpfile_block {
    uint32_t raw_n, stored_n; /* at most DUMPFILE_BLOCK_BYTES */
    uint32_t crc;             /* of the stored bytes */
    bool packed;
    bool goes_on; /* what it holds is a piece of an entry that goes on in the next block */
};

/* False: these DUMPFILE_HEAD_BYTES are no head of a block. */
bool dumpfile_get_head(const char *head, struct dumpfile_block *b);
/* Appends the block's entries, or its piece of one, to raw; false: they cannot be unpacked. stored has stored_n bytes, whose checksum was compared. */
bool dumpfile_unpack(const struct dumpfile_block *b, struct slice stored, struct buf *raw);
/* The number of bytes of the entry at the start of `in`, or 0 if there is no whole one. `e` may be NULL; its slices are those of `in`. */
size_t dumpfile_take_entry(struct slice in, struct dumpfile_entry *e);
