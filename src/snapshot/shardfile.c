#include "snapshot/shardfile.h"

#include <errno.h>
#include <pthread.h>

#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "object/objurl.h"
#include "snapshot/cache.h"
#include "snapshot/leafindex.h"
#include "snapshot/manifest.h"
#include "snapshot/snappath.h"
#include "snapshot/storebook.h"

/* One way into the file. */
struct view {
    struct rangeread *range; /* NULL: mapped */
    struct page_source mapped;
    struct shardread read;
};

struct shardfile {
    _Atomic uint32_t refs;
    struct shardfile_env *env;
    struct object_store *store;
    char *key, *sidecar_key;
    uint64_t bytes;
    struct cache_file file;
    pthread_mutex_t lock;     /* held while the second view is made */
    _Atomic uint32_t current; /* 1: the sidecar proved to be of another file, and the first view is not used any more */
    struct view views[2];
};

/* ---- opening */

static int open_table(struct view *v, struct buf *why)
{
    const char *fault = NULL;
    int rc = shardread_open(&v->read, v->range ? rangeread_source(v->range) : &v->mapped, &fault);
    if (rc == 0 && !v->range) v->read.index = leafindex_new(&v->mapped, v->read.root);
    if (rc < 0 && fault) buf_add_str(why, fault);
    if (rc < 0 && !fault && v->range) rangeread_why(v->range, why);
    return rc;
}

static int open_range(struct shardfile *f, struct view *v, const char *sidecar_key, struct buf *why)
{
    struct rangeread_file file = {.store = f->store, .pages = f->env->pages, .pool = f->env->pool, .counts = &f->env->counts, .key = f->key, .sidecar_key = sidecar_key, .bytes = f->bytes};
    int rc = rangeread_open(&v->range, &file, why);
    return rc < 0 ? rc : open_table(v, why);
}

static void close_view(struct view *v)
{
    leafindex_free(v->read.index);
    rangeread_close(v->range);
    *v = (struct view){0};
}

/* From now on the file is read without its sidecar. Those who still read the first view get its error and come here too. */
static int leave_sidecar(struct shardfile *f, struct buf *why)
{
    int rc = 0;
    pthread_mutex_lock(&f->lock);
    if (atomic_load(&f->current) == 0) {
        rc = open_range(f, &f->views[1], NULL, why);
        if (rc < 0)
            close_view(&f->views[1]);
        else
            atomic_store(&f->current, 1);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int open_remote(struct shardfile *f, struct buf *why)
{
    int rc = open_range(f, &f->views[0], f->sidecar_key, why);
    return rc == ERR_SIDECAR_STALE ? leave_sidecar(f, why) : rc;
}

static int open_mapped(struct shardfile *f, struct buf *why)
{
    const char *fault = NULL;
    struct view *v = &f->views[0];
    int rc = pages_of_bytes(&v->mapped, slice_of(f->file.map, f->file.bytes), &fault);
    if (rc < 0 && fault) buf_add_str(why, fault);
    return rc < 0 ? rc : open_table(v, why);
}

/* The store is a folder: nothing needs to be copied. */
static int open_in_place(struct shardfile *f, struct buf *why)
{
    struct objurl u;
    const char *fault = objurl_parse(&u, slice_str(object_url(f->store)));
    if (fault || u.scheme != OBJURL_FILE || !objurl_is_plain_path(slice_str(f->key))) {
        buf_printf(why, "%s/%s is no plain file", object_url(f->store), f->key);
        return ERR_OBJECT_KEY;
    }
    struct buf path = {0};
    buf_printf(&path, "%.*s/%s", (int)u.path.n, u.path.p, f->key);
    buf_add_byte(&path, 0);
    int rc = cache_map(path.p, &f->file);
    buf_fini(&path);
    if (rc == -ENOENT) rc = ERR_OBJECT_NOT_FOUND;
    if (rc < 0) return rc;
    if (f->bytes && f->file.bytes != f->bytes) {
        buf_add_str(why, "the file has another size than the manifest says");
        return ERR_SNAPSHOT_SHARD;
    }
    return open_mapped(f, why);
}

static int open_download(struct shardfile *f, const struct manifest_shard *s, struct buf *why)
{
    struct object_call call = {0};
    struct cache_want want = {
        .store = f->store, .key = f->key, .url = s->db_url, .checkpoint_id = s->checkpoint_id, .bytes = s->db_bytes, .sha256 = s->has_sha256 ? s->sha256 : NULL};
    int rc = cache_get(f->env->cache, &want, &call, &f->file);
    if (rc < 0) {
        buf_add_str(why, call.detail);
        return rc;
    }
    if (f->file.reused) {
        atomic_fetch_add(&f->env->reuses, 1);
    } else {
        atomic_fetch_add(&f->env->downloads, 1);
        atomic_fetch_add(&f->env->counts.requests, 1);
        atomic_fetch_add(&f->env->counts.bytes, f->file.bytes);
    }
    return open_mapped(f, why);
}

static char *join(const char *folder, const char *name)
{
    struct buf b = {0};
    buf_printf(&b, "%s/%s", folder, name);
    buf_add_byte(&b, 0);
    return b.p;
}

int shardfile_open(struct shardfile **out, struct shardfile_env *env, const struct manifest *m, const struct manifest_shard *s, enum shardfile_way way, bool sidecar, struct buf *why)
{
    struct object_store *store;
    const char *folder;
    int rc = storebook_find(env->stores, m->s3_prefix, s->db_url, &store, &folder, why);
    if (rc < 0) return rc;
    struct shardfile *f = mem_zalloc(sizeof *f);
    atomic_init(&f->refs, 1);
    f->env = env;
    f->store = store;
    f->key = join(folder, SNAPPATH_SHARD_FILE);
    f->sidecar_key = sidecar ? join(folder, SNAPPATH_SIDECAR_FILE) : NULL;
    f->bytes = s->db_bytes;
    f->file.fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    switch (way) {
    case SHARDFILE_IN_PLACE: rc = open_in_place(f, why); break;
    case SHARDFILE_DOWNLOAD: rc = open_download(f, s, why); break;
    case SHARDFILE_RANGE: rc = open_remote(f, why); break;
    }
    if (rc < 0) {
        shardfile_unref(f);
        return rc;
    }
    *out = f;
    return 0;
}

struct shardfile *shardfile_ref(struct shardfile *f)
{
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void shardfile_unref(struct shardfile *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1) return;
    close_view(&f->views[0]);
    close_view(&f->views[1]);
    cache_release(&f->file);
    pthread_mutex_destroy(&f->lock);
    mem_free(f->key);
    mem_free(f->sidecar_key);
    mem_free(f);
}

/* ---- reading */

static struct view *view_of(struct shardfile *f) { return &f->views[atomic_load_explicit(&f->current, memory_order_acquire)]; }

bool shardfile_is_remote(const struct shardfile *f) { return f->views[0].range != NULL; }

/* Whether what was just read by the view counts: 0 yes, 1 no, but now it can be read again, or an error. */
static int judge(struct shardfile *f, struct view *v, int rc)
{
    if (!v->range) return rc < 0 ? rc : 0;
    if (rc >= 0) rc = rangeread_confirm(v->range);
    if (rc != ERR_SIDECAR_STALE) return rc;
    struct buf why = {0};
    rc = leave_sidecar(f, &why);
    buf_fini(&why);
    return rc < 0 ? rc : 1;
}

int shardfile_get(struct shardfile *f, struct slice key, struct buf *buf, struct slice *value)
{
    for (;;) {
        struct view *v = view_of(f);
        int found = shardread_get(&v->read, key, buf, value);
        int again = judge(f, v, found);
        if (again < 0) return again;
        if (again == 0) return found;
    }
}

int shardfile_get_many(struct shardfile *f, struct shardread_ask *asks, size_t n, struct buf *buf)
{
    for (;;) {
        struct view *v = view_of(f);
        int rc = shardread_get_many(&v->read, asks, n, buf);
        int again = judge(f, v, rc);
        if (again <= 0) return again;
    }
}

const struct shardread *shardfile_mapped(const struct shardfile *f) { return f->views[0].range ? NULL : &f->views[0].read; }

int shardfile_walk(struct shardfile *f, const struct shardread **r)
{
    int again;
    do {
        struct view *v = view_of(f);
        *r = &v->read;
        again = judge(f, v, 0);
    } while (again > 0);
    return again;
}

void shardfile_why(struct shardfile *f, struct buf *why)
{
    struct view *v = view_of(f);
    if (v->range) rangeread_why(v->range, why);
}
