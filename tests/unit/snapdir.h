/* A snapshot store in a temporary folder, behind the twin that goes wrong on purpose, and small snapshots to publish in it. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/faultstore.h"
#include "object/object.h"
#include "snapshot/history.h"
#include "snapshot/manifest.h"
#include "snapshot/publish.h"
#include "snapshot/snappath.h"

struct snapdir {
    char folder[64];
    char url[80];
    struct object_store *s;     /* the faulty twin */
    struct object_store *inner; /* the folder itself */
};

/* Some moment: 2026-11-15 12:00. */
#define SNAPDIR_NOW 1794744000000000ll

static inline int snapdir_set_up(void **state)
{
    struct snapdir *d = calloc(1, sizeof *d);
    char error[OBJECT_DETAIL_BYTES];
    /* In memory where that is possible: the store syncs every object, and these tests write thousands. */
    strcpy(d->folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sherd-snapdir-XXXXXX" : "/tmp/sherd-snapdir-XXXXXX");
    if (!mkdtemp(d->folder)) return -1;
    snprintf(d->url, sizeof d->url, "file://%s", d->folder);
    if (object_open(&d->inner, d->url, NULL, error) != 0) return -1;
    d->s = faultstore_wrap(d->inner);
    *state = d;
    return 0;
}

static inline int snapdir_remove_item(void *arg, const struct object_item *item) { return object_delete(arg, NULL, &item->key, 1, NULL); }

static inline void snapdir_clear(struct snapdir *d) { object_list(d->inner, NULL, NULL, snapdir_remove_item, d->inner); }

static inline int snapdir_tear_down(void **state)
{
    struct snapdir *d = *state;
    char command[100];
    object_close(d->s);
    snprintf(command, sizeof command, "rm -rf '%s'", d->folder);
    int rc = system(command);
    free(d);
    return rc;
}

static inline int snapdir_count_item(void *arg, const struct object_item *item)
{
    ++*(size_t *)arg;
    return 0;
}

static inline size_t snapdir_count(struct snapdir *d, const char *prefix)
{
    size_t n = 0;
    object_list(d->inner, NULL, &(struct object_list_options){.prefix = prefix}, snapdir_count_item, &n);
    return n;
}

static inline bool snapdir_has(struct snapdir *d, const char *key)
{
    struct object_meta meta;
    return object_head(d->inner, NULL, key, &meta) == 0;
}

static inline void snapdir_put(struct snapdir *d, const char *key, const char *bytes) { object_put(d->inner, NULL, key, slice_str(bytes), NULL, NULL); }

/* A manifest of two shards without files behind them; the shards of `from`, if it is given, are those of that run. */
static inline struct manifest *snapdir_manifest(const struct snapdir *d, const char *run_id, const char *from)
{
    struct manifest *m = manifest_new();
    m->run_id = manifest_copy(m, slice_str(run_id));
    m->s3_prefix = manifest_copy(m, slice_str(d->url));
    m->num_dbs = 4;
    manifest_set_created(m, SNAPDIR_NOW);
    for (uint32_t id = 1; id <= 2; id++) {
        struct buf url = {0};
        buf_printf(&url, "%s/", d->url);
        snappath_attempt(&url, from ? from : run_id, id, 0);
        buf_add_byte(&url, '\0');
        manifest_add_shard(m, &(struct manifest_shard){.db_id = id, .db_url = url.p, .row_count = 7, .db_bytes = 5, .min_key = "1", .max_key = "\"z\"", .checkpoint_id = "c"});
        buf_fini(&url);
    }
    return m;
}

/* Puts objects where an attempt has its files. */
static inline void snapdir_attempt(struct snapdir *d, const char *run_id, uint32_t db_id, uint32_t attempt)
{
    struct buf key = {0};
    snappath_attempt(&key, run_id, db_id, attempt);
    buf_add_str(&key, "/shard.db");
    buf_add_byte(&key, '\0');
    snapdir_put(d, key.p, "12345");
    key.len -= strlen("/shard.db") + 1;
    buf_add_str(&key, "/shard.sidecar");
    buf_add_byte(&key, '\0');
    snapdir_put(d, key.p, "side");
    buf_fini(&key);
}

/* Publishes upon what is current, through the inner store or the twin. */
static inline int snapdir_publish(struct snapdir *d, struct object_store *s, const char *run_id, int64_t now_us)
{
    struct publish_base base;
    struct publish_result r = {0};
    struct manifest *m = snapdir_manifest(d, run_id, NULL);
    int rc = publish_observe(s, NULL, &base, NULL);
    if (rc == 0) rc = publish_snapshot(s, NULL, m, &base, now_us, &r, NULL);
    publish_result_fini(&r);
    publish_base_fini(&base);
    manifest_free(m);
    return rc;
}

/* The run id of what a reader sees, by _CURRENT and its manifest, in out; the error if it sees nothing. */
static inline int snapdir_current(struct snapdir *d, char out[64])
{
    struct pointer p;
    struct manifest *m = NULL;
    int rc = history_current(d->inner, NULL, &p, &m, NULL);
    if (rc == 0) snprintf(out, 64, "%s", m->run_id);
    if (rc == 0 && strcmp(p.run_id, m->run_id) != 0) rc = -1;
    pointer_fini(&p);
    manifest_free(m);
    return rc;
}
