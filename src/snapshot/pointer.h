/* _CURRENT: the one object of a snapshot that changes, and says which manifest counts. Between memory and its JSON. Pure. */
#pragma once
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { POINTER_BYTES_MAX = 1 << 20 };

#define POINTER_TYPE "application/json"

struct pointer {
    char *manifest_ref; /* URL */
    char *manifest_content_type;
    char *run_id;
    int64_t updated_us; /* microseconds of Unix time */
    int64_t format_version; /* 1; never checked, as the format has it */
};

/* Any JSON with the required fields; others are ignored. Gives 0 and a pointer for pointer_fini, or ERR_SNAPSHOT_BAD_CURRENT and why (may be NULL). */
int pointer_parse(struct slice json, struct pointer *p, struct buf *why);
void pointer_fini(struct pointer *p); /* zeroed is allowed */

/* Appends the JSON: keys sorted, compact, ASCII. */
void pointer_write(struct buf *out, const char *manifest_ref, const char *run_id, int64_t updated_us);
