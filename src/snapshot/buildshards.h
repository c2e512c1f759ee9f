/* The second half of a build: from sorted rows to shard files in the store. Several threads write shards, others upload those that are finished. */
#pragma once
#include "snapshot/build.h"
#include "snapshot/buildrows.h"
#include "snapshot/manifest.h"

struct buildshards {
    const struct build_options *o;
    const struct buildrows *rows;
    const char *run_id;
    const struct manifest *old; /* whose shards may be used again; NULL: none */
    /* results: */
    struct publish_attempt *attempts; /* [n_attempts] in no order; those that failed are among them, without a file */
    size_t n_attempts, cap_attempts;
    uint32_t written, reused;
    uint64_t keys, bytes, uploaded_bytes;
};

/* Fill in the first four, the rest zeroed. buildshards_fini in any case. Errors and `error` as build_run. */
int buildshards_run(struct buildshards *b, struct buf *error);
void buildshards_fini(struct buildshards *b);
