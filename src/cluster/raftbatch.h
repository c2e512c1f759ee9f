/* The bytes of the shared Raft log (cluster/raftlog.h): the file with its identity, batches, records. Pure. The layout stands at the top of raftbatch.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cluster/raftlog.h"

enum { RAFTBATCH_VERSION = 1, RAFTBATCH_BLOCK = 4096, RAFTBATCH_ID_BYTES = 24, RAFTBATCH_HEADER_BYTES = 64, RAFTBATCH_RECORD_BYTES = 32 };

/* ---- raftlog.id */

enum raftbatch_id { RAFTBATCH_ID_GOOD, RAFTBATCH_ID_DAMAGED, RAFTBATCH_ID_NEWER /* a whole one of another version */ };
void raftbatch_write_id(struct buf *out, uint64_t log);
enum raftbatch_id raftbatch_read_id(struct slice file, uint64_t *log);

/* ---- batches */

struct raftbatch_header {
    uint64_t log;           /* the number in raftlog.id */
    uint64_t segment;       /* the one in the file's name */
    uint64_t batch;         /* one more than that of the batch before, in the whole log */
    uint64_t oldest;        /* no segment before this one was needed when this was written */
    uint64_t segment_bytes; /* of the whole file */
    uint64_t bytes;         /* of the records */
};

static inline uint64_t raftbatch_blocks(uint64_t bytes) { return (bytes + RAFTBATCH_BLOCK - 1) / RAFTBATCH_BLOCK * RAFTBATCH_BLOCK; }
/* Of a whole batch with this many bytes of records. */
static inline uint64_t raftbatch_size(uint64_t bytes) { return raftbatch_blocks(RAFTBATCH_HEADER_BYTES + bytes); }

/* Writes the header in front of the records, zeros behind them, and the checksum: all of p[0 .. raftbatch_size(h->bytes)). */
void raftbatch_seal(char *p, const struct raftbatch_header *h);
/* Looks at the first RAFTBATCH_HEADER_BYTES bytes. False if they cannot be a batch of this log and segment in the `room` bytes up to the end of the file. The checksum is not looked at. */
bool raftbatch_read_header(const char *p, uint64_t log, uint64_t segment, uint64_t room, struct raftbatch_header *h);
bool raftbatch_is_whole(struct slice batch); /* all of its bytes: does the checksum agree? */

/* ---- records */

enum raftbatch_kind { RAFTBATCH_ENTRY = 1, RAFTBATCH_HARD_STATE, RAFTBATCH_TRUNCATE, RAFTBATCH_MARK, RAFTBATCH_GONE, RAFTBATCH_STATE, RAFTBATCH_KINDS_END };

struct raftbatch_record {
    uint32_t group;
    uint8_t kind, type;
    uint64_t index, term;
    struct slice data;
};

void raftbatch_add(struct buf *out, const struct raftbatch_record *r);
/* The record at the beginning of bytes; gives its length, or 0 if there is none that is whole and right. */
size_t raftbatch_read(struct slice bytes, struct raftbatch_record *r);

void raftbatch_add_mark(struct buf *out, uint32_t group, const struct raftlog_mark *m);
void raftbatch_add_state(struct buf *out, uint32_t group, uint64_t term, uint64_t vote, uint64_t last, const struct raftlog_mark *m);
bool raftbatch_read_mark(const struct raftbatch_record *r, struct raftlog_mark *m);                  /* of a RAFTBATCH_MARK */
bool raftbatch_read_state(const struct raftbatch_record *r, uint64_t *vote, struct raftlog_mark *m); /* of a RAFTBATCH_STATE */
