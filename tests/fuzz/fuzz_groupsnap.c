/* Any bytes as a group snapshot: reading ends, with everything or with a reason, and what reads well survives being written and read again. The first byte says whether
 * the checksums are made right first, so that what lies behind them is reached too. */
#include <stdint.h>

#include "base/crc32c.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"
#include "dump/dumpfile.h"
#include "io/file_sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { HEADER_MIN = 80, FOOTER = 48 };

static void make_right(struct buf *file)
{
    if (file->len < HEADER_MIN + FOOTER) return;
    size_t at = le_u32(file->p + 12), footer = file->len - FOOTER;
    if (at < HEADER_MIN || at > footer) return;
    le_set_u32(file->p + at - 4, crc32c(CRC32C_START, file->p, at - 4));
    uint64_t sum = keyhash(slice_of(file->p, at), 0);
    while (footer - at >= DUMPFILE_HEAD_BYTES) {
        char *p = file->p + at;
        size_t stored = le_u32(p + 4);
        if (stored > footer - at - DUMPFILE_HEAD_BYTES) break;
        le_set_u32(p + 12, crc32c(CRC32C_START, p + DUMPFILE_HEAD_BYTES, stored));
        sum = keyhash(slice_of(p, DUMPFILE_HEAD_BYTES + stored), sum);
        at += DUMPFILE_HEAD_BYTES + stored;
    }
    char *p = file->p + footer;
    uint64_t le = htole64(sum);
    memcpy(p + 36, &le, sizeof le);
    le_set_u32(p + FOOTER - 4, crc32c(CRC32C_START, p, FOOTER - 4));
}

/* Gives the last result; `w`, if there is one, gets the entries. */
static int read_all(struct groupsnap_reader *r, struct groupsnap_writer *w, struct buf *why)
{
    struct slice raw;
    int rc;
    while ((rc = groupsnap_next(r, &raw, why)) == 1) {
        uint64_t entries = 0;
        for (size_t at = 0; at < raw.n; entries++) {
            size_t n = dumpfile_take_entry(slice_of(raw.p + at, raw.n - at), NULL);
            CHECK(n);
            at += n;
        }
        if (w) CHECK(groupsnap_write(w, raw, entries) == 0);
    }
    CHECK((rc < 0) == (why->len > 0));
    return rc;
}

static void write_again(const struct file_ops *f, struct groupsnap_reader *r)
{
    const struct groupsnap_header *h = groupsnap_header(r);
    struct groupsnap_writer *w;
    struct groupsnap_reader *again;
    struct groupsnap_totals t, was = groupsnap_totals(r);
    struct buf why = {0};
    CHECK(groupsnap_create(&w, f, "/d", h, COMPRESS_BALANCED) == 0);
    CHECK(read_all(r, w, &why) == 0);
    CHECK(groupsnap_finish(w, &t) == 0);
    groupsnap_writer_free(w);
    CHECK(groupsnap_find(&again, f, "/d", h->cluster, h->group, UINT64_MAX, &why) == 1);
    CHECK(t.entries == was.entries && t.raw_bytes == was.raw_bytes && slice_eq(groupsnap_header(again)->owned, h->owned));
    groupsnap_close(again);
    buf_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    struct file_sim *disk = file_sim_new("/d", 1);
    const struct file_ops *f = file_sim_ops(disk);
    struct buf file = {0}, why = {0};
    struct groupsnap_reader *r;
    buf_add(&file, data + 1, n - 1);
    if (data[0] & 1) make_right(&file);
    CHECK(file_put_whole(f, "/d", "/d/any", buf_slice(&file)) == 0);
    if (groupsnap_open(&r, f, "/d/any", &why) == 0) {
        if (groupsnap_verify(r, &why) == 0) write_again(f, r);
    } else {
        CHECK(!r && why.len);
    }
    groupsnap_close(r);
    buf_fini(&file);
    buf_fini(&why);
    file_sim_free(disk);
    return 0;
}
