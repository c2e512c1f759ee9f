/* Any bytes as the segments of a shared Raft log: recovery ends, with a log or with a reason. A log can be read to its end, written to, and recovered again with the same groups.
 *
 * The first byte says how: bits 0..1 how many segments the bytes are cut into, bit 2 whether the bytes are records that get batches, with right checksums, built around them, so that what lies
 * behind the checksums is reached; bit 3: whether the records get right checksums, too. */
#include <stdint.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "base/le.h"
#include "cluster/raftbatch.h"
#include "cluster/raftlog.h"
#include "io/file_sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { SEGMENTS = 3, IN_BATCHES = 4, RIGHT_RECORDS = 8, LOG = 7, SEGMENT_BYTES = 64 << 10 };

/* Follows the lengths; where one leads out of the bytes, it is made to fit. */
static void make_records_right(char *p, size_t n)
{
    while (n >= RAFTBATCH_RECORD_BYTES) {
        size_t data = le_u32(p + 4) % 64;
        if (data > n - RAFTBATCH_RECORD_BYTES || n - RAFTBATCH_RECORD_BYTES - data < RAFTBATCH_RECORD_BYTES) data = n - RAFTBATCH_RECORD_BYTES;
        le_set_u32(p + 4, (uint32_t)data);
        le_set_u32(p, crc32c(CRC32C_START, p + 4, RAFTBATCH_RECORD_BYTES - 4 + data));
        p += RAFTBATCH_RECORD_BYTES + data;
        n -= RAFTBATCH_RECORD_BYTES + data;
    }
}

/* The bytes as batches of at most 256 bytes of records. */
static void add_batches(struct buf *file, struct slice bytes, uint64_t segment, uint64_t *batch, bool right_records)
{
    while (bytes.n) {
        size_t n = bytes.n < 256 ? bytes.n : 256;
        char *p = buf_room(file, RAFTBATCH_BLOCK);
        memcpy(p + RAFTBATCH_HEADER_BYTES, bytes.p, n);
        if (right_records) make_records_right(p + RAFTBATCH_HEADER_BYTES, n);
        raftbatch_seal(p, &(struct raftbatch_header){.log = LOG, .segment = segment, .batch = ++*batch, .oldest = 1, .bytes = n});
        file->len += RAFTBATCH_BLOCK;
        bytes = slice_of(bytes.p + n, bytes.n - n);
    }
}

static void put_files(struct file_sim *disk, struct slice bytes, uint8_t how)
{
    const struct file_ops *f = file_sim_ops(disk);
    uint64_t batch = 0, segments = 1 + how % SEGMENTS;
    struct buf id = {0};
    raftbatch_write_id(&id, LOG);
    CHECK(f->mkdir(f->ctx, "d/raft") == 0 && file_put_whole(f, "d/raft", "d/raft/raftlog.id", buf_slice(&id)) == 0);
    for (uint64_t segment = 1; segment <= segments; segment++) {
        struct buf file = {0};
        char path[64];
        size_t n = segment < segments ? bytes.n / 2 : bytes.n;
        snprintf(path, sizeof path, "d/raft/%010d.raft", (int)segment);
        if (how & IN_BATCHES) add_batches(&file, slice_of(bytes.p, n), segment, &batch, how & RIGHT_RECORDS);
        else buf_add(&file, bytes.p, n);
        while (file.len % RAFTBATCH_BLOCK) buf_add_byte(&file, 0);
        CHECK(file_put_whole(f, "d/raft", path, buf_slice(&file)) == 0);
        bytes = slice_of(bytes.p + n, bytes.n - n);
        buf_fini(&file);
    }
    buf_fini(&id);
}

static struct raftlog *open_log(struct file_sim *disk)
{
    struct buf error = {0};
    struct raftlog *l = raftlog_open(file_sim_ops(disk), "d/raft", &(struct raftlog_options){.segment_bytes = SEGMENT_BYTES}, &error);
    CHECK(l || error.len);
    buf_fini(&error);
    return l;
}

static void read_all(struct raftlog *l)
{
    uint32_t ids[64], n = raftlog_groups(l, ids, 64);
    for (uint32_t i = 0; i < n && i < 64; i++) {
        struct raftlog_state s;
        struct raftlog_entry e;
        CHECK(raftlog_state(l, ids[i], &s) && s.first >= 1 && s.first <= s.mark_index + 1 && s.last >= s.mark_index);
        for (uint64_t index = s.first; index <= s.last; index++) CHECK(raftlog_read(l, ids[i], index, &e) == 0);
    }
}

/* The next life of the node: every group gets a hard state, all is written, chores are done. */
static void write_more(struct file_sim *disk, struct raftlog *l)
{
    uint32_t ids[64], n = raftlog_groups(l, ids, 64);
    struct raftlog_write w;
    struct raftlog_chore c;
    for (uint32_t i = 0; i < n && i < 64; i++) raftlog_put_hard_state(l, ids[i], 1, 1);
    for (int i = 0; i < 20 && raftlog_durable(l) + 1 == raftlog_open_batch(l); i++) {
        if (raftlog_begin_chore(l, &c)) raftlog_chore_done(l, raftlog_chore_run(file_sim_ops(disk), &c));
        if (raftlog_begin_write(l, &w)) raftlog_written(l, w.batch, raftlog_write_run(file_sim_ops(disk), &w));
    }
    CHECK(!raftlog_broken(l));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) return 0;
    struct file_sim *disk = file_sim_new("d", 1);
    put_files(disk, slice_of(data + 1, n - 1), data[0]);
    struct raftlog *l = open_log(disk);
    if (l) {
        uint32_t groups = raftlog_groups(l, NULL, 0);
        read_all(l);
        write_more(disk, l);
        raftlog_close(l);
        l = open_log(disk);
        CHECK(l && raftlog_groups(l, NULL, 0) == groups);
        read_all(l);
        raftlog_close(l);
    }
    file_sim_free(disk);
    return 0;
}
