/* Any bytes as a sidecar: refused, or every page and chain that it speaks of can be used. The first byte says whether the rest is a whole file, or a body that is packed well first, so that the
 * rules behind the checksum are reached. */
#include <stdint.h>
#include <zstd.h>

#include "base/check.h"
#include "base/le.h"
#include "snapshot/pagefile.h"
#include "snapshot/sidecar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void pack(struct buf *out, const uint8_t *body, size_t n)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    buf_add(out, "SQPC\x08", 5);
    le_add_u64(out, n);
    le_add_u32(out, PAGEFILE_SIZE_MIN);
    buf_add(out, "\1t", 2);
    size_t room = ZSTD_compressBound(n);
    out->len += ZSTD_compress2(z, buf_room(out, room), room, body, n);
    ZSTD_freeCCtx(z);
}

static uint32_t use(const struct sidecar *s)
{
    uint32_t sum = 0, held = 0;
    for (uint32_t i = 0; i <= sidecar_n_pages(s) + 1; i++) {
        const uint8_t *page = sidecar_page(s, i);
        const uint32_t *numbers;
        held += page != NULL;
        if (page) sum += page[0] + page[sidecar_page_size(s) - 1];
        for (uint32_t j = sidecar_chain(s, i, &numbers); j-- > 0;) {
            CHECK(numbers[j] >= 1 && numbers[j] <= sidecar_n_pages(s));
            sum += numbers[j];
        }
    }
    CHECK(held == sidecar_held(s));
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { DB_BYTES = 40 * PAGEFILE_SIZE_MIN };
    if (n == 0) return 0;
    struct buf file = {0};
    struct sidecar *s;
    if (data[0] & 1) pack(&file, data + 1, n - 1);
    else buf_add(&file, data + 1, n - 1);
    if (file.len && sidecar_new(&s, buf_slice(&file), SLICE("t"), DB_BYTES) == 0) use(s);
    else s = NULL;
    sidecar_free(s);
    buf_fini(&file);
    return 0;
}
