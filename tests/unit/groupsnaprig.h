/* Group snapshots for tests: random stores into files, files into stores. */
#pragma once
#include <errno.h>

#include "cluster/groupdir.h"
#include "cluster/groupsnap.h"
#include "dump/dumpfile.h"
#include "io/file.h"
#include "store/image.h"
#include "storerandom.h"

#define GROUPSNAPRIG_DIR "/d"
enum { GROUPSNAPRIG_GROUP = 7 };

static const uint8_t groupsnaprig_cluster[WIRE_CLUSTER_ID] = "one of its kind";

static inline struct groupsnap_header groupsnaprig_header(uint64_t index, struct slice owned)
{
    struct groupsnap_header h = {.group = GROUPSNAPRIG_GROUP, .index = index, .term = 3, .cut_ms = 1800000000000, .owned = owned};
    memcpy(h.cluster, groupsnaprig_cluster, sizeof h.cluster);
    h.members = (struct raftnode_members){.index = 5, .n = 3, .m = {{11, RAFTNODE_VOTER}, {12, RAFTNODE_STANDBY}, {UINT64_MAX, RAFTNODE_SPARE}}};
    return h;
}

/* A store with so many keys, some of them the system's. */
static inline struct storerandom groupsnaprig_store(uint64_t seed, unsigned keys)
{
    struct storerandom m;
    storerandom_init(&m, seed, 5, 1800000000000);
    m.dbs[2] = STORE_SYSTEM_DB;
    for (unsigned i = 0; i < keys; i++) storerandom_add(&m, i);
    return m;
}

static inline struct groupdir_file groupsnaprig_file(uint64_t index, enum groupdir_kind kind)
{
    return (struct groupdir_file){.kind = kind, .group = GROUPSNAPRIG_GROUP, .index = index, .term = 3};
}

static inline void groupsnaprig_path(char path[GROUPDIR_PATH_MAX], uint64_t index, enum groupdir_kind kind)
{
    struct groupdir_file f = groupsnaprig_file(index, kind);
    CHECK(groupdir_path(path, GROUPSNAPRIG_DIR, &f) == 0);
}

/* All entries of the store, handed over when there are so many bytes. */
static inline int groupsnaprig_feed(struct groupsnap_writer *w, const struct store *s, size_t slice_bytes)
{
    struct buf raw = {0};
    uint64_t entries = 0;
    int rc = 0;
    for (uint16_t d = 0; d < STORE_ALL_DBS && rc == 0; d++) {
        struct table_iter it;
        if (!s->dbs[d]) continue;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; rc == 0 && (e = table_iter_next(&it));) {
            dumpfile_add_entry(&raw, d, e);
            entries++;
            if (raw.len < slice_bytes) continue;
            rc = groupsnap_write(w, buf_slice(&raw), entries);
            raw.len = entries = 0;
        }
    }
    if (rc == 0) rc = groupsnap_write(w, buf_slice(&raw), entries);
    buf_fini(&raw);
    return rc;
}

static inline int groupsnaprig_write(const struct file_ops *f, const struct store *s, uint64_t index, enum compress_profile profile, size_t slice_bytes, struct groupsnap_totals *t)
{
    struct groupsnap_header h = groupsnaprig_header(index, SLICE("all of it"));
    struct groupsnap_writer *w;
    int rc = groupsnap_create(&w, f, GROUPSNAPRIG_DIR, &h, profile);
    if (rc == 0) rc = groupsnaprig_feed(w, s, slice_bytes);
    if (rc == 0) rc = groupsnap_finish(w, t);
    groupsnap_writer_free(w);
    return rc;
}

/* Reads to the end, into a store of its own if there is one. */
static inline int groupsnaprig_load(struct groupsnap_reader *r, struct store *into, uint64_t *entries, struct buf *why)
{
    struct slice raw;
    int rc;
    *entries = 0;
    while ((rc = groupsnap_next(r, &raw, why)) == 1) {
        struct dumpfile_entry e;
        for (size_t n; raw.n; raw = slice_of(raw.p + n, raw.n - n), ++*entries) {
            n = dumpfile_take_entry(raw, &e);
            CHECK(n);
            struct op op = {.kind = OP_RESTORE, .db = e.db, .key = e.key, .value = e.image, .expiry_ms = e.expiry_ms};
            if (into) store_apply(into, &op, NULL);
        }
    }
    return rc;
}

/* A store with so many keys, as a snapshot at that index. */
static inline void groupsnaprig_make(const struct file_ops *f, uint64_t seed, unsigned keys, uint64_t index, struct groupsnap_totals *t)
{
    struct storerandom m = groupsnaprig_store(seed, keys);
    CHECK(groupsnaprig_write(f, m.store, index, COMPRESS_BALANCED, 1000, t) == 0);
    store_free(m.store);
}
