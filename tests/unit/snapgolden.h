/* The snapshots under tests/golden/snapshots, which another writer made: their objects, and what is expected of them. */
#pragma once
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define SNAPGOLDEN "tests/golden/snapshots/"

static const char *const snapgolden_names[] = {"hash-u64be", "hash-u32be-p16k", "hash-utf8-overflow", "hash-raw-ascii-auto", "hash-sparse-nosidecar", "hash-empty", "cel-cat", "cel-direct"};
enum { SNAPGOLDEN_COUNT = sizeof snapgolden_names / sizeof snapgolden_names[0] };

static inline void snapgolden_read(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    size_t n;
    if (!f) {
        fprintf(stderr, "%s is missing: tests run in the project's folder\n", path);
        exit(1);
    }
    do {
        n = fread(buf_room(out, 65536), 1, 65536, f);
        out->len += n;
    } while (n > 0);
    fclose(f);
}

/* The object that a URL s3://fx/... names. */
static inline void snapgolden_object(const char *url, struct buf *out)
{
    char path[500];
    snprintf(path, sizeof path, SNAPGOLDEN "%s", url + strlen("s3://"));
    snapgolden_read(path, out);
}

static inline json_t *snapgolden_expected(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, SNAPGOLDEN "%s.expected.json", name);
    json_t *j = json_load_file(path, 0, NULL);
    if (!j) exit(1);
    return j;
}

static inline const char *snapgolden_text(json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static inline void snapgolden_manifest(const char *name, struct buf *out)
{
    json_t *e = snapgolden_expected(name);
    snapgolden_object(snapgolden_text(e, "manifest_ref"), out);
    json_decref(e);
}
