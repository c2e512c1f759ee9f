/* Any bytes as a dump: the check and the reader end and agree, and what reads well survives being written and read again. The first byte says whether
 * the checksums are made right first, so that what lies behind them is reached too. */
#include <errno.h>
#include <stdint.h>

#include "base/crc32c.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "dump/dumpfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void make_right(struct buf *file)
{
    uint32_t whole = CRC32C_START;
    if (file->len < DUMPFILE_HEADER_BYTES) return;
    le_set_u32(file->p + 44, crc32c(CRC32C_START, file->p, 44));
    whole = crc32c(whole, file->p, DUMPFILE_HEADER_BYTES);
    for (size_t at = DUMPFILE_HEADER_BYTES; file->len - at >= 16;) {
        char *p = file->p + at;
        if (le_u32(p) == 0) {
            if (file->len - at >= 40) le_set_u32(p + 36, crc32c(whole, p, 36));
            return;
        }
        if (le_u32(p + 4) > file->len - at - 16) return;
        le_set_u32(p + 12, crc32c(CRC32C_START, p + 16, le_u32(p + 4)));
        whole = crc32c(whole, p, 16);
        at += 16 + le_u32(p + 4);
    }
}

/* Gives the last result; `again` gets the entries, `sum` a digest of them. */
static int read_all(struct slice file, struct buf *again, uint64_t *entries, uint64_t *sum)
{
    struct dumpfile_reader r;
    struct dumpfile_entry e;
    int rc;
    *entries = *sum = 0;
    dumpfile_reader_init(&r, file);
    for (; (rc = dumpfile_next(&r, &e)) == 1; ++*entries) {
        *sum = keyhash(e.key, *sum + e.db) ^ keyhash(e.image, *sum + (uint64_t)e.expiry_ms);
        if (again) dumpfile_add_image(again, e.db, e.key, e.expiry_ms, e.image);
    }
    dumpfile_reader_fini(&r);
    return rc;
}

static void write_again(struct slice raw, uint64_t entries, uint64_t sum)
{
    struct dumpfile_writer w;
    struct dumpfile_header h = {.shards = 1};
    struct buf file = {0};
    uint64_t entries2, sum2;
    dumpfile_begin(&w, &file, &h, COMPRESS_BALANCED, 16);
    dumpfile_seal(&w, &file, raw, entries);
    dumpfile_end(&w, &file);
    CHECK(read_all(buf_slice(&file), NULL, &entries2, &sum2) == 0);
    CHECK(entries2 == entries && sum2 == sum);
    dumpfile_fini(&w);
    buf_fini(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    struct buf file = {0}, why = {0}, raw = {0};
    struct dumpfile_info info;
    uint64_t entries, sum;
    buf_add(&file, data + 1, n - 1);
    if (data[0] & 1) make_right(&file);
    enum dumpfile_state state = dumpfile_check(buf_slice(&file), &info, &why);
    CHECK((state == DUMPFILE_GOOD) == (why.len == 0));
    int rc = read_all(buf_slice(&file), &raw, &entries, &sum);
    CHECK(rc == 0 || rc == -EINVAL);
    CHECK(rc || (state == DUMPFILE_GOOD && info.entries == entries));
    if (rc == 0) write_again(buf_slice(&raw), entries, sum);
    buf_fini(&file);
    buf_fini(&why);
    buf_fini(&raw);
    return 0;
}
