/* Snapshots for tests of the reader, made from rows by the parts that real ones are made of: router, shard writer, sidecar, manifest, publish. In a folder of its own. */
#pragma once
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "snapshot/manifest.h"
#include "snapshot/publish.h"
#include "snapshot/shardwrite.h"
#include "snapshot/sidecar.h"
#include "snapshot/snappath.h"

struct snapmake {
    char dir[64], url[80];
    struct object_store *store;
};

static inline void snapmake_init(struct snapmake *s)
{
    char error[OBJECT_DETAIL_BYTES];
    /* In memory where that is possible: the store syncs every object. */
    snprintf(s->dir, sizeof s->dir, "%s/sherd-snapmake-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(s->dir));
    snprintf(s->url, sizeof s->url, "file://%s", s->dir);
    CHECK(object_open(&s->store, s->url, NULL, error) == 0);
}

static inline int snapmake_remove(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

static inline void snapmake_fini(struct snapmake *s)
{
    object_close(s->store);
    nftw(s->dir, snapmake_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* The rows of a snapshot: keys 0 .. n - 1 of u64be, or texts "key-%06u"; the value of key i in version v is "v:i", padded to value_bytes with dots. */
struct snapmake_plan {
    uint32_t rows, shards, version, value_bytes, page_size;
    bool text, no_sidecar, no_sha256;
    uint32_t keep_shards; /* so many shards, from 0 on, are not written but taken from `before` */
    const struct manifest *before;
};

static inline size_t snapmake_value(const struct snapmake_plan *p, uint32_t i, char *out)
{
    int n = sprintf(out, "%u:%u;", p->version, i);
    while ((uint32_t)n < p->value_bytes) out[n++] = '.';
    return (size_t)n;
}

static inline struct snapkey snapmake_key(const struct snapmake_plan *p, uint32_t i, char text[16])
{
    if (!p->text) return snapkey_int(i);
    return snapkey_text(slice_of(text, (size_t)sprintf(text, "key-%06u", i)));
}

static inline void snapmake_digest(struct manifest_shard *shard, struct slice bytes);

/* Writes shard id with the rows that the router sends there; rows come in order of keys. */
static inline bool snapmake_shard(struct snapmake *s, const struct snapmake_plan *p, struct router *router, uint32_t id, const char *folder, struct manifest_shard *shard)
{
    FILE *file = tmpfile();
    char *value = mem_alloc(p->value_bytes + 64);
    struct router_scratch scratch = {0};
    struct shardwrite_result result;
    struct shardwrite *w = shardwrite_new(fileno(file), p->page_size ? p->page_size : 4096);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < p->rows; i++) {
        char text[16], eight[8];
        struct slice stored;
        uint32_t to;
        struct snapkey key = snapmake_key(p, i, text);
        CHECK(router_shard(router, &scratch, &key, &to) == ROUTER_FOUND);
        if (to != id) continue;
        CHECK(!snapkey_encode(p->text ? SNAPKEY_UTF8 : SNAPKEY_U64BE, &key, eight, &stored));
        CHECK(shardwrite_add(w, stored, slice_of(value, snapmake_value(p, i, value))) == 0);
        rows++;
    }
    CHECK(shardwrite_end(w, &result) == 0);
    shardwrite_free(w);
    mem_free(value);
    if (rows) {
        struct buf bytes = {0}, key = {0}, sidecar = {0};
        struct object_meta meta;
        CHECK(pread(fileno(file), buf_room(&bytes, result.bytes), result.bytes, 0) == (ssize_t)result.bytes);
        bytes.len = result.bytes;
        buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", folder, 0);
        CHECK(object_put(s->store, NULL, key.p, buf_slice(&bytes), NULL, &meta) == 0);
        struct page_source source;
        CHECK(pages_of_bytes(&source, buf_slice(&bytes), NULL) == 0);
        if (!p->no_sidecar) {
            CHECK(sidecar_build(&source, &sidecar) == 0 && sidecar_bind(&sidecar, 0, slice_str(meta.etag)));
            key.len = 0;
            buf_printf(&key, "%s/" SNAPPATH_SIDECAR_FILE "%c", folder, 0);
            CHECK(object_put(s->store, NULL, key.p, buf_slice(&sidecar), NULL, NULL) == 0);
        }
        shard->row_count = rows;
        shard->db_bytes = bytes.len;
        if (!p->no_sha256) snapmake_digest(shard, buf_slice(&bytes));
        buf_fini(&bytes);
        buf_fini(&key);
        buf_fini(&sidecar);
    }
    fclose(file);
    return rows > 0;
}

#include <openssl/evp.h>
static inline void snapmake_digest(struct manifest_shard *shard, struct slice bytes)
{
    shard->has_sha256 = EVP_Digest(bytes.p, bytes.n, shard->sha256, NULL, EVP_sha256(), NULL) == 1;
}

static inline void snapmake_add_shard(struct snapmake *s, const struct snapmake_plan *p, struct manifest *m, struct router *router, uint32_t id)
{
    if (id < p->keep_shards) {
        const struct manifest_shard *old = manifest_find(p->before, id);
        if (old) manifest_add_shard(m, old);
        return;
    }
    struct buf folder = {0}, url = {0};
    char checkpoint[SNAPPATH_ID_CHARS + 1];
    snappath_attempt(&folder, m->run_id, id, 0);
    buf_add_byte(&folder, 0);
    buf_printf(&url, "%s/%s%c", s->url, folder.p, 0);
    snappath_new_id(checkpoint);
    struct manifest_shard shard = {.db_id = id, .db_url = url.p, .checkpoint_id = checkpoint};
    if (snapmake_shard(s, p, router, id, folder.p, &shard)) manifest_add_shard(m, &shard);
    buf_fini(&folder);
    buf_fini(&url);
}

/* The manifest of a snapshot whose shards are put now. */
static inline struct manifest *snapmake_manifest(struct snapmake *s, const struct snapmake_plan *p)
{
    struct manifest *m = manifest_new();
    char run_id[SNAPPATH_ID_CHARS + 1];
    snappath_new_id(run_id);
    m->run_id = manifest_copy(m, slice_str(run_id));
    m->s3_prefix = manifest_copy(m, slice_str(s->url));
    m->num_dbs = p->shards;
    m->key_encoding = p->text ? SNAPKEY_UTF8 : SNAPKEY_U64BE;
    manifest_set_created(m, clock_unix_us());
    if (!p->no_sidecar) CHECK(manifest_add_custom(m, "sqlite_sidecar", "{\"codec\":\"zstd\",\"filename\":\"shard.sidecar\",\"format_version\":8,\"page_size\":4096}"));
    struct router *router = router_new_hash(p->shards);
    for (uint32_t id = 0; id < p->shards; id++) snapmake_add_shard(s, p, m, router, id);
    router_free(router);
    return m;
}

/* Publishes it; gives the manifest's URL, for mem_free. */
static inline char *snapmake_publish(struct snapmake *s, const struct manifest *m)
{
    struct publish_base base = {0};
    struct publish_result result = {0};
    struct buf why = {0};
    CHECK(publish_observe(s->store, NULL, &base, &why) == 0);
    int rc = publish_snapshot(s->store, NULL, m, &base, clock_unix_us(), &result, &why);
    if (rc < 0) fprintf(stderr, "publish: %s: %.*s\n", err_text(rc), (int)why.len, why.p);
    CHECK(rc >= 0);
    char *ref = mem_strdup(result.manifest_ref);
    publish_base_fini(&base);
    publish_result_fini(&result);
    buf_fini(&why);
    return ref;
}

static inline char *snapmake_snapshot(struct snapmake *s, const struct snapmake_plan *p)
{
    struct manifest *m = snapmake_manifest(s, p);
    char *ref = snapmake_publish(s, m);
    manifest_free(m);
    return ref;
}
