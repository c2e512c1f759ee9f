#include "snapshot/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/pages.h"
#include "snapshot/shardread.h"
#include "snapshot/snappath.h"
#include "snapshot/storebook.h"

struct verify {
    struct storebook *stores;
    struct object_call *call;
    const struct manifest *m;
    const struct verify_options *o;
    struct router *router; /* NULL: rows cannot be routed without their columns */
    struct router_scratch scratch;
    struct buf why;
    struct verify_shard now; /* the shard in hand */
    int first_error;         /* of the store */
    bool damaged;
};

const char *verify_state_name(enum verify_state s)
{
    static const char *const names[] = {"ok", "missing", "size", "checksum", "structure", "unreadable"};
    return names[s];
}

static bool fault(struct verify *v, enum verify_state state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fault(struct verify *v, enum verify_state state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&v->why, fmt, ap);
    va_end(ap);
    v->now.state = state;
    return false;
}

static bool store_fault(struct verify *v, int rc)
{
    if (rc == ERR_OBJECT_NOT_FOUND) return fault(v, VERIFY_MISSING, "the object is not there");
    if (v->first_error == 0) v->first_error = rc;
    return fault(v, VERIFY_UNREADABLE, "%s%s%s", err_text(rc), v->call->detail[0] ? ": " : "", v->call->detail);
}

static bool check_size(struct verify *v, uint64_t size)
{
    uint64_t told = v->now.shard->db_bytes;
    return size == told ? true : fault(v, VERIFY_SIZE, "%llu bytes, the manifest tells %llu", (unsigned long long)size, (unsigned long long)told);
}

/* ---- the downloaded file */

static bool check_sum(struct verify *v, struct slice file)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!v->now.shard->has_sha256) return true;
    CHECK(EVP_Digest(file.p, file.n, sum, &n, EVP_sha256(), NULL) == 1 && n == sizeof v->now.shard->sha256);
    v->now.checksum_known = true;
    return memcmp(sum, v->now.shard->sha256, n) == 0 ? true : fault(v, VERIFY_CHECKSUM, "the SHA-256 is not the manifest's");
}

static bool check_row(struct verify *v, struct slice stored)
{
    struct snapkey key;
    uint32_t shard = UINT32_MAX;
    if (!snapkey_decode(v->m->key_encoding, stored, &key)) return fault(v, VERIFY_STRUCTURE, "a key of %zu bytes is none of the snapshot's encoding", stored.n);
    if (!v->router) return true;
    if (router_shard(v->router, &v->scratch, &key, &shard) == ROUTER_FOUND && shard == v->now.shard->db_id) return true;
    return fault(v, VERIFY_STRUCTURE, "a key lies here that is looked for in another shard");
}

static bool check_rows(struct verify *v, const struct shardread *r)
{
    struct shardread_cursor c;
    bool ok = true;
    shardread_cursor_init(&c, r);
    int rc = shardread_seek(&c, SLICE(""));
    while (rc == 1 && ok) {
        ok = check_row(v, shardread_key(&c));
        rc = shardread_next(&c);
    }
    if (ok && rc < 0) ok = fault(v, VERIFY_STRUCTURE, "%s", err_text(rc));
    shardread_cursor_fini(&c);
    return ok;
}

static bool check_structure(struct verify *v, const struct page_source *source)
{
    struct shardread r;
    struct shardread_stats stats;
    const char *why = NULL;
    int rc = shardread_open(&r, source, &why);
    if (rc == 0) rc = shardread_check(&r, &stats);
    if (rc != 0) return fault(v, VERIFY_STRUCTURE, "%s%s%s", err_text(rc), why ? ": " : "", why ? why : "");
    v->now.rows = stats.rows;
    if (stats.rows > v->now.shard->row_count) return fault(v, VERIFY_STRUCTURE, "more rows than the manifest tells");
    return check_rows(v, &r);
}

static bool check_file(struct verify *v, const char *path)
{
    struct pages_file f = {0};
    const char *why = NULL;
    int rc = pages_file_open(&f, path, &why);
    bool ok = rc == 0 ? check_sum(v, f.map) && check_structure(v, &f.source) : fault(v, VERIFY_STRUCTURE, "%s%s%s", err_text(rc), why ? ": " : "", why ? why : "");
    pages_file_close(&f);
    return ok;
}

/* ---- one shard */

static bool download(struct verify *v, struct object_store *s, const char *key)
{
    struct object_meta meta;
    struct buf path = {0};
    const char *dir = v->o->scratch_dir ? v->o->scratch_dir : getenv("TMPDIR");
    buf_printf(&path, "%s/sherd-verify-XXXXXX", dir && *dir ? dir : "/tmp");
    buf_add_byte(&path, '\0');
    int fd = mkostemp(path.p, O_CLOEXEC);
    int rc = fd < 0 ? -errno : object_get_fd(s, v->call, key, fd, &meta);
    bool ok = rc == 0 ? check_size(v, meta.size) && check_file(v, path.p) : store_fault(v, rc);
    if (fd >= 0) {
        unlink(path.p);
        close(fd);
    }
    buf_fini(&path);
    return ok;
}

static bool check_shard(struct verify *v)
{
    struct object_store *s;
    struct object_meta meta;
    struct buf key = {0};
    const char *folder;
    int rc = storebook_find(v->stores, v->m->s3_prefix, v->now.shard->db_url, &s, &folder, &v->why);
    if (rc != 0) return store_fault(v, rc);
    buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE, folder);
    buf_add_byte(&key, '\0');
    rc = object_head(s, v->call, key.p, &meta);
    bool ok = rc == 0 ? check_size(v, meta.size) && (v->o->shallow || download(v, s, key.p)) : store_fault(v, rc);
    buf_fini(&key);
    return ok;
}

/* ---- all of them */

/* A faulty expression is every shard's fault, and shows when the first row is routed by a reader; here the structure is still worth looking at. */
static void make_router(struct verify *v)
{
    v->router = manifest_router(v->m, &v->why);
    v->why.len = 0;
    if (v->router && router_needs_context(v->router)) {
        router_free(v->router);
        v->router = NULL;
    }
    if (v->router) router_scratch_init(&v->scratch, v->router);
}

int verify_snapshot(struct object_store *s, struct object_call *call, const struct manifest *m, const struct verify_options *o,
                    void (*each)(void *arg, const struct verify_shard *v), void *arg)
{
    struct object_call none = {0};
    struct verify v = {.stores = storebook_new(s, o->objects), .call = call ? call : &none, .m = m, .o = o};
    make_router(&v);
    for (uint32_t i = 0; i < m->n_shards; i++) {
        v.now = (struct verify_shard){.shard = &m->shards[i]};
        v.why.len = 0;
        if (!check_shard(&v) && v.now.state != VERIFY_UNREADABLE) v.damaged = true;
        buf_add_byte(&v.why, '\0');
        v.now.detail = v.why.p;
        if (each) each(arg, &v.now);
    }
    if (v.router) router_scratch_fini(&v.scratch);
    router_free(v.router);
    storebook_free(v.stores);
    buf_fini(&v.why);
    return v.damaged ? ERR_SNAPSHOT_DAMAGED : v.first_error;
}
