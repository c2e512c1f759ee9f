/* Any bytes as the only segment of a one-shard log: recovery ends, what it hands out are ops, and a second recovery finds nothing left to cut and, if nothing was damaged, the same ops. The
 * first byte says how: strict or not, whether the checksums are made right first, so that what lies behind them is reached too, and whether the file gets a whole header. */
#include <stdint.h>

#include "base/crc32c.h"
#include "base/keyhash.h"
#include "io/file_sim.h"
#include "log/segment.h"
#include "log/wal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { STRICT = 1, RIGHT_CHECKSUMS = 2, RIGHT_HEADER = 4 };

static void digest(void *ctx, uint32_t shard, const struct op *op)
{
    uint64_t *sum = ctx;
    struct buf bytes = {0};
    opcode_write(&bytes, op);
    *sum = keyhash(buf_slice(&bytes), *sum);
    buf_fini(&bytes);
}

static void make_right(struct buf *file, size_t from)
{
    for (size_t at = from; at + 9 <= file->len;) {
        uint32_t len, crc;
        memcpy(&len, file->p + at, 4);
        if (len == 0 || len > file->len - at - 8) break;
        crc = crc32c(CRC32C_START, file->p + at + 4, len);
        memcpy(file->p + at + 4 + len, &crc, 4);
        at += 8 + (size_t)len;
    }
}

static void put_file(struct file_sim *disk, const uint8_t *data, size_t n, uint8_t how)
{
    const struct file_ops *f = file_sim_ops(disk);
    struct buf file = {0};
    if (how & RIGHT_HEADER) segment_write_header(&file, &(struct segment_header){.shard = 0, .shards = 1, .number = 1, .first_epoch = 1});
    buf_add(&file, data, n);
    if (how & RIGHT_CHECKSUMS) make_right(&file, SEGMENT_HEADER_BYTES);
    CHECK(f->mkdir(f->ctx, "d/shard-0") == 0);
    CHECK(file_put_whole(f, "d/shard-0", "d/shard-0/0000000001.wal", buf_slice(&file)) == 0);
    buf_fini(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    struct file_sim *disk = file_sim_new("d", 1);
    struct buf error = {0};
    struct wal_replay first, second;
    uint64_t sum = 0, again = 0;
    put_file(disk, data + 1, n - 1, data[0]);
    int rc = wal_replay_all(file_sim_ops(disk), "d", 1, 0, data[0] & STRICT, digest, &sum, &first, &error);
    CHECK(rc == 0 || error.len);
    if (rc == 0) {
        CHECK(wal_replay_all(file_sim_ops(disk), "d", 1, 0, false, digest, &again, &second, &error) == 0);
        CHECK(first.bad_records || (sum == again && first.last == second.last && first.records == second.records));
        CHECK(second.torn_bytes == 0 && second.dropped_records == 0);
        CHECK(!(data[0] & STRICT) || first.bad_records == 0);
    }
    buf_fini(&error);
    file_sim_free(disk);
    return 0;
}
