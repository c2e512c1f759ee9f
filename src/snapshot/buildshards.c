/* Writers take the shards one after another, the largest first, so that no large one is left for the end. A finished file waits in a short queue for an uploader, of which there are several:
 * an upload is mostly waiting. The first failure that stays stops everything. */
#include "snapshot/buildshards.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "object/object.h"
#include "snapshot/shardbuild.h"
#include "snapshot/sidecar.h"
#include "snapshot/snappath.h"
#include "snapshot/tempfile.h"

enum {
    UPLOADERS = 4,
    WAITING_MAX = 2 * UPLOADERS, /* finished files that wait: writers wait then */
    PAUSE_MS = 1000,             /* before the second attempt; doubles */
};

struct job {
    uint32_t db_id, bucket;
    uint64_t bytes; /* of its rows */
    struct shardbuild file;
    int64_t start_us;
    struct job *next;
};

struct works {
    struct buildshards *b;
    struct job *jobs; /* [n_jobs] the largest first */
    size_t n_jobs;
    const char *tmp_dir;
    atomic_bool stop; /* something failed */

    pthread_mutex_t lock; /* for all below, and the results of b */
    pthread_cond_t changed;
    size_t next_job, writing;
    struct job *waiting; /* for their upload */
    size_t n_waiting;
    int rc;
    struct buf *error;
};

/* ---- results */

static void fail(struct works *w, int rc, const struct job *j, const char *what, const char *detail)
{
    pthread_mutex_lock(&w->lock);
    if (w->rc == 0) {
        w->rc = rc;
        if (rc == ERR_OBJECT_CANCELLED) buf_add_str(w->error, "interrupted");
        else buf_printf(w->error, "shard %u: %s%s%s", j->db_id, what, *detail ? ": " : "", detail);
    }
    atomic_store(&w->stop, true);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static char *copy_text(struct slice s) { return s.n ? mem_dup(s.p, s.n) : NULL; }

static struct manifest_shard describe(const struct works *w, const struct job *j, uint32_t attempt)
{
    const struct shardbuild *f = &j->file;
    enum snapkey_encoding e = w->b->o->key_encoding;
    struct buf min = {0}, max = {0}, info = {0};
    struct manifest_shard s = {.db_id = j->db_id, .attempt = attempt, .row_count = sorter_added(w->b->rows->sorter, j->bucket), .db_bytes = f->bytes, .has_sha256 = true};
    char id[33];
    for (int i = 0; i < 16; i++) snprintf(id + 2 * i, 3, "%02x", f->sha256[i]);
    memcpy(s.sha256, f->sha256, sizeof s.sha256);
    bool known = shardbuild_key_json(e, buf_slice(&f->min_key), &min) && shardbuild_key_json(e, buf_slice(&f->max_key), &max);
    buf_printf(&info, "{\"attempt\": %u, \"duration_ms\": %" PRId64 ", \"stage_id\": null, \"task_attempt_id\": null}%c", attempt, (clock_mono_us() - j->start_us) / 1000, '\0');
    s.min_key = known ? copy_text(buf_slice(&min)) : NULL;
    s.max_key = known ? copy_text(buf_slice(&max)) : NULL;
    s.writer_info = copy_text(buf_slice(&info));
    s.checkpoint_id = mem_strdup(id);
    buf_fini(&min);
    buf_fini(&max);
    buf_fini(&info);
    return s;
}

/* Notes an attempt; its strings are the results' from now on. */
static void note(struct works *w, const struct manifest_shard *s)
{
    struct buildshards *b = w->b;
    pthread_mutex_lock(&w->lock);
    if (b->n_attempts == b->cap_attempts) {
        b->cap_attempts = b->cap_attempts ? 2 * b->cap_attempts : 64;
        b->attempts = mem_resize(b->attempts, b->cap_attempts * sizeof *b->attempts);
    }
    b->attempts[b->n_attempts++] = (struct publish_attempt){.shard = *s, .task_attempt_id = PUBLISH_NO_TASK};
    pthread_mutex_unlock(&w->lock);
}

static void count(struct works *w, const struct job *j, bool is_new)
{
    pthread_mutex_lock(&w->lock);
    w->b->written += is_new;
    w->b->reused += !is_new;
    w->b->keys += j->file.rows;
    w->b->bytes += j->file.bytes;
    if (is_new) w->b->uploaded_bytes += j->file.bytes;
    pthread_mutex_unlock(&w->lock);
}

/* ---- reuse */

/* A shard of the old snapshot with these very bytes, that is still there and lies in this store. */
static const struct manifest_shard *find_old(const struct works *w, const struct job *j, struct object_call *call)
{
    const struct manifest *old = w->b->old;
    for (uint32_t i = 0; old && i < old->n_shards; i++) {
        const struct manifest_shard *s = &old->shards[i];
        struct object_meta meta;
        struct buf key = {0};
        if (!s->db_url || !s->has_sha256 || s->db_bytes != j->file.bytes || memcmp(s->sha256, j->file.sha256, sizeof s->sha256) != 0) continue;
        const char *folder = object_key_of(w->b->o->store, s->db_url);
        if (!folder) continue;
        buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", folder, '\0');
        bool there = object_head(w->b->o->store, call, key.p, &meta) == 0 && meta.size == s->db_bytes;
        buf_fini(&key);
        if (there) return s;
    }
    return NULL;
}

static bool reuse(struct works *w, struct job *j)
{
    struct object_call call = {.cancel = w->b->o->cancel};
    const struct manifest_shard *old = w->b->o->no_reuse ? NULL : find_old(w, j, &call);
    if (!old) return false;
    struct manifest_shard s = describe(w, j, old->attempt);
    s.db_url = mem_strdup(old->db_url);
    if (old->checkpoint_id) { /* readers know the file by it */
        mem_free((void *)(uintptr_t)s.checkpoint_id);
        s.checkpoint_id = mem_strdup(old->checkpoint_id);
    }
    note(w, &s);
    count(w, j, false);
    return true;
}

/* ---- uploading */

/* A shard does without a sidecar: its failure is none of the build. */
static void put_sidecar(struct works *w, struct job *j, const char *folder, const char *etag)
{
    struct buf bound = {0}, key = {0};
    struct object_call call = {.cancel = w->b->o->cancel};
    struct object_put_options options = {.content_type = SNAPPATH_TYPE_SIDECAR};
    if (j->file.sidecar.len == 0 || !*etag) return;
    buf_add_slice(&bound, buf_slice(&j->file.sidecar)); /* each attempt has an ETag of its own */
    buf_printf(&key, "%s/" SNAPPATH_SIDECAR_FILE "%c", folder, '\0');
    if (sidecar_bind(&bound, 0, slice_str(etag))) object_put(w->b->o->store, &call, key.p, buf_slice(&bound), &options, NULL);
    buf_fini(&bound);
    buf_fini(&key);
}

static int put_shard(struct works *w, struct job *j, const char *folder, struct object_call *call)
{
    struct object_meta meta;
    struct buf key = {0};
    buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", folder, '\0');
    int rc = object_put_temp(w->b->o->store, call, key.p, j->file.fd, SNAPPATH_TYPE_SQLITE, &meta);
    if (rc == 0 && !*meta.etag) object_head(w->b->o->store, call, key.p, &meta);
    if (rc == 0) put_sidecar(w, j, folder, meta.etag);
    buf_fini(&key);
    return rc;
}

/* Another attempt may go better: the store was overloaded, silent or gone, and the requests' own repetitions did not help. */
static bool is_passing(int rc) { return rc == ERR_OBJECT_TIMEOUT || rc == ERR_OBJECT_CONNECTION || rc == ERR_OBJECT_BUSY || rc == ERR_OBJECT_REPLY; }

static void pause_before(struct works *w, uint32_t attempt)
{
    const atomic_bool *cancel = w->b->o->cancel;
    for (uint32_t ms = PAUSE_MS << (attempt - 1); ms > 0 && !atomic_load(&w->stop) && !(cancel && atomic_load(cancel)); ms -= 50) usleep(50000);
}

/* One attempt into a folder of its own. A failed one is noted too, without a URL: it may have left something behind. */
static int upload_once(struct works *w, struct job *j, uint32_t attempt, struct object_call *call)
{
    struct buf url = {0};
    buf_printf(&url, "%s/", object_url(w->b->o->store));
    size_t folder = url.len;
    snappath_attempt(&url, w->b->run_id, j->db_id, attempt);
    buf_add_byte(&url, '\0');
    int rc = put_shard(w, j, url.p + folder, call);
    struct manifest_shard s = rc == 0 ? describe(w, j, attempt) : (struct manifest_shard){.db_id = j->db_id, .attempt = attempt};
    if (rc == 0) s.db_url = mem_strdup(url.p);
    note(w, &s);
    buf_fini(&url);
    return rc;
}

static void upload(struct works *w, struct job *j)
{
    struct object_call call = {.cancel = w->b->o->cancel};
    int rc = 0;
    for (uint32_t attempt = 0; attempt < BUILD_ATTEMPTS; attempt++) {
        if (attempt) pause_before(w, attempt);
        if (atomic_load(&w->stop)) return;
        rc = upload_once(w, j, attempt, &call);
        if (!is_passing(rc)) break;
    }
    if (rc == 0) count(w, j, true);
    else fail(w, rc, j, err_text(rc), call.detail);
}

/* ---- threads */

static bool write_job(struct works *w, struct job *j)
{
    const struct build_options *o = w->b->o;
    struct shardbuild_options fo = {.sorter = w->b->rows->sorter, .bucket = j->bucket, .tmp_dir = w->tmp_dir, .page_size = o->page_size, .sidecar = !o->no_sidecars,
                                   .page_guess = pagesize_pick(w->b->rows->sizes), .cancel = o->cancel, .stop = &w->stop, .done_bytes = o->progress ? &o->progress->done_bytes : NULL};
    j->start_us = clock_mono_us();
    int rc = shardbuild_write(&j->file, &fo);
    if (rc == 0) return true;
    char where[300];
    snprintf(where, sizeof where, "temporary file in %s", tempfile_dir(w->tmp_dir));
    fail(w, rc, j, rc == ERR_OBJECT_CANCELLED ? "" : where, rc == ERR_OBJECT_CANCELLED ? "" : err_text(rc));
    return false;
}

/* Under the lock. */
static struct job *take_job(struct works *w)
{
    while (!atomic_load(&w->stop) && w->next_job < w->n_jobs && w->n_waiting >= WAITING_MAX) pthread_cond_wait(&w->changed, &w->lock);
    if (atomic_load(&w->stop) || w->next_job == w->n_jobs) return NULL;
    w->writing++;
    return &w->jobs[w->next_job++];
}

static void *write_shards(void *arg)
{
    struct works *w = arg;
    pthread_mutex_lock(&w->lock);
    for (struct job *j; (j = take_job(w));) {
        pthread_mutex_unlock(&w->lock);
        bool has_to_go = write_job(w, j) && !reuse(w, j);
        if (!has_to_go) shardbuild_fini(&j->file);
        pthread_mutex_lock(&w->lock);
        w->writing--;
        if (has_to_go) {
            j->next = w->waiting;
            w->waiting = j;
            w->n_waiting++;
        }
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void *upload_shards(void *arg)
{
    struct works *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->waiting && !atomic_load(&w->stop) && (w->writing || w->next_job < w->n_jobs)) pthread_cond_wait(&w->changed, &w->lock);
        struct job *j = w->waiting;
        if (!j) break;
        w->waiting = j->next;
        w->n_waiting--;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        upload(w, j);
        shardbuild_fini(&j->file);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the whole */

static int by_size(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->db_id < y->db_id ? -1 : 1;
}

static void plan(struct works *w)
{
    const struct buildrows *r = w->b->rows;
    uint64_t total = 0;
    w->jobs = mem_zalloc((r->num_dbs + 1) * sizeof *w->jobs);
    for (uint32_t i = 0; i < r->num_dbs; i++) {
        uint32_t bucket = r->buckets ? r->buckets[i] : i;
        if (sorter_added(r->sorter, bucket) == 0) continue; /* an empty shard has no file */
        w->jobs[w->n_jobs++] = (struct job){.db_id = i, .bucket = bucket, .bytes = sorter_added_bytes(r->sorter, bucket), .file.fd = -1};
        total += sorter_added_bytes(r->sorter, bucket);
    }
    qsort(w->jobs, w->n_jobs, sizeof *w->jobs, by_size);
    if (!w->b->o->progress) return;
    atomic_store(&w->b->o->progress->done_bytes, 0);
    atomic_store(&w->b->o->progress->total_bytes, total);
}

static void run_threads(struct works *w, uint32_t writers)
{
    pthread_t threads[64];
    uint32_t n = 0, limit = sizeof threads / sizeof *threads;
    if (writers > limit - UPLOADERS) writers = limit - UPLOADERS;
    if (writers > w->n_jobs) writers = (uint32_t)w->n_jobs;
    for (uint32_t i = 0; i < writers + UPLOADERS && w->n_jobs; i++) {
        bool uploads = i >= writers;
        if (pthread_create(&threads[n], NULL, uploads ? upload_shards : write_shards, w) == 0) n++;
        else CHECK(i > 0 && i != writers); /* one of each kind is enough */
    }
    for (uint32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

int buildshards_run(struct buildshards *b, struct buf *error)
{
    /* Where the store is a folder, files that are made in it need no copy. */
    const char *folder = b->o->tmp_dir ? NULL : object_folder(b->o->store);
    struct works w = {.b = b, .error = error, .tmp_dir = folder && access(folder, W_OK) == 0 ? folder : b->o->tmp_dir};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    plan(&w);
    run_threads(&w, b->o->jobs);
    for (struct job *j = w.waiting; j; j = j->next) shardbuild_fini(&j->file);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    mem_free(w.jobs);
    return w.rc;
}

void buildshards_fini(struct buildshards *b)
{
    for (size_t i = 0; i < b->n_attempts; i++) {
        const struct manifest_shard *s = &b->attempts[i].shard;
        const char *const texts[] = {s->db_url, s->min_key, s->max_key, s->checkpoint_id, s->writer_info};
        for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++) mem_free((void *)(uintptr_t)texts[k]);
    }
    mem_free(b->attempts);
}
