/* Any bytes as a manifest image: refused with a reason, or a manifest that keeps its promises and that our writer can write. */
#include <stdint.h>

#include "base/check.h"
#include "base/err.h"
#include "snapshot/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest *m;
    struct buf why = {0}, image = {0};
    if (size > 65536) return 0;
    if (manifest_parse(slice_of(data, size), &m, &why) != 0) {
        CHECK(why.len > 0);
        buf_fini(&why);
        return 0;
    }
    CHECK(m->num_dbs >= 1 && m->num_dbs <= MANIFEST_SHARDS_MAX && m->n_shards <= m->num_dbs);
    for (uint32_t i = 0; i < m->n_shards; i++) {
        const struct manifest_shard *s = &m->shards[i];
        CHECK(s->db_id < m->num_dbs && s->db_url && s->db_url[0] && s->writer_info && (i == 0 || m->shards[i - 1].db_id < s->db_id));
        CHECK(manifest_find(m, s->db_id) == s);
    }
    CHECK(manifest_write(m, &image, &why) == 0);
    buf_fini(&image);
    buf_fini(&why);
    manifest_free(m);
    return 0;
}
