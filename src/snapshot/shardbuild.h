/* One shard file on its way from the sorter to the store: written to a temporary file, looked at, hashed. One thread per file. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "route/snapkey.h"

struct sorter;

struct shardbuild {
    int fd;             /* -1: none */
    uint64_t rows, bytes;
    uint32_t page_size;
    struct buf min_key, max_key; /* as stored */
    uint8_t sha256[32];
    struct buf sidecar; /* not bound yet; empty: there is none */
};

struct shardbuild_options {
    const struct sorter *sorter;
    uint32_t bucket;
    const char *tmp_dir;
    uint32_t page_size;   /* 0: by the format's rule, for which `guess` is tried first */
    uint32_t page_guess;
    bool sidecar;
    const atomic_bool *cancel, *stop; /* either ends it with ERR_OBJECT_CANCELLED; may be NULL */
    _Atomic uint64_t *done_bytes;     /* bytes of rows are added as they are written; NULL: nobody counts */
};

/* shardbuild_fini in any case. 0, ERR_OBJECT_CANCELLED, or -errno of the temporary file. */
int shardbuild_write(struct shardbuild *f, const struct shardbuild_options *o);
void shardbuild_fini(struct shardbuild *f);

/* A stored key as JSON with a NUL behind it; false: it has no such form. */
bool shardbuild_key_json(enum snapkey_encoding e, struct slice stored, struct buf *out);
