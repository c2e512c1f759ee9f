#include "cluster/snapstate.h"

#include <stdio.h>

#include "dump/dumpfile.h"
#include "store/image.h"
#include "store/store.h"

enum { KEY_BYTES = 32 };

static struct slice key_of(uint64_t piece, char key[KEY_BYTES])
{
    int n = snprintf(key, KEY_BYTES, "meta/%08llu", (unsigned long long)piece);
    return slice_of(key, (size_t)n);
}

uint64_t snapstate_add(struct buf *raw, struct slice state)
{
    struct buf image = {0};
    uint64_t pieces = 0;
    char key[KEY_BYTES];
    for (size_t at = 0, n; at < state.n; at += n) {
        n = state.n - at < SNAPSTATE_PIECE_BYTES ? state.n - at : SNAPSTATE_PIECE_BYTES;
        image.len = 0;
        image_write_plain(&image, slice_of(state.p + at, n));
        dumpfile_add_image(raw, STORE_SYSTEM_DB, key_of(pieces++, key), 0, buf_slice(&image));
    }
    buf_fini(&image);
    return pieces;
}

bool snapstate_take(struct slice raw, uint64_t *pieces, struct buf *state)
{
    struct dumpfile_entry e;
    struct slice value;
    char key[KEY_BYTES];
    for (size_t n; raw.n; raw = slice_of(raw.p + n, raw.n - n)) {
        n = dumpfile_take_entry(raw, &e);
        if (!n || e.db != STORE_SYSTEM_DB || !slice_eq(e.key, key_of((*pieces)++, key)) || !image_plain_string(e.image, &value)) return false;
        buf_add_slice(state, value);
    }
    return true;
}
