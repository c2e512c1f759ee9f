/* Any bytes as a dump of Redis: reading ends, twice with the same items, and each image ends where it was said to end. The first byte says whether a header is put before
 * and a right checksum behind, so that what lies between is reached. */
#include <errno.h>
#include <stdint.h>

#include "base/keyhash.h"
#include "base/le.h"
#include "dump/rdbfile.h"
#include "store/crc64.h"
#include "store/image.h"
#include "store/rdbwire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int read_all(struct slice file, uint64_t *sum)
{
    struct rdbfile_reader r;
    struct rdbfile_item item;
    int rc = rdbfile_reader_init(&r, file);
    *sum = 0;
    while (rc >= 0 && (rc = rdbfile_next(&r, &item)) == 1) {
        *sum = keyhash(item.key, *sum + item.db) ^ keyhash(item.image, *sum + (uint64_t)item.expiry_ms);
        if (item.kind != RDBFILE_KEY) continue;
        struct slice body = slice_of(item.image.p + 1, item.image.n - 1);
        CHECK(rdbwire_skip_value((uint8_t)item.image.p[0], &body) && body.n == 0);
        *sum += image_valid(item.image);
    }
    CHECK(rc == 0 || (rc == -EINVAL && r.fault && r.fault_at <= file.n));
    rdbfile_reader_fini(&r);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    struct buf file = {0};
    uint64_t first, second;
    if (data[0] & 1) buf_add_str(&file, "REDIS0012");
    buf_add(&file, data + 1, n - 1);
    if (data[0] & 1) {
        buf_add_byte(&file, (char)0xff);
        le_add_u64(&file, crc64(0, buf_slice(&file)));
    }
    CHECK(read_all(buf_slice(&file), &first) == read_all(buf_slice(&file), &second));
    CHECK(first == second);
    buf_fini(&file);
    return 0;
}
