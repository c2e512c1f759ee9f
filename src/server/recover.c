#include "server/recover.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "io/file.h"
#include "log/wal.h"
#include "server/evictor.h"
#include "server/loader.h"
#include "server/relayout.h"
#include "shard/topology.h"
#include "store/chill.h"

enum {
    SEGMENT_BYTES = 64 << 20,
    TELL_MS = 1000, /* between two lines about the progress */
};

struct recovery {
    struct server *server;
    struct datadir *dir;
    recover_loaded *loaded;
    struct dumper_past newest; /* dump set of the layout in use */
    pthread_t thread;
    bool failed;
    bool moving; /* the stores that are filled now are those of the new layout */
    int64_t start_ms, next_tell_ms; /* next_tell_ms: front 0's */
    struct loader_progress progress;
};

/* ---- loading the layout in use */

/* While the data is laid out anew there are two stores for each key. */
static void relieve(void *ctx, struct store *store)
{
    struct recovery *r = ctx;
    struct server *s = r->server;
    uint32_t n = s->engine->route.shards;
    if (r->dir->shards == n) evictor_load(s, store, n);
    else evictor_load(s, store, r->moving ? 2 * n : 2 * r->dir->shards);
}

static struct loader *make_loader(struct recovery *r, const char *dir)
{
    struct server *s = r->server;
    return loader_new(&(struct loader_options){.files = &file_disk,
                                               .dir = dir,
                                               .shards = r->dir->shards,
                                               .seed = r->dir->seed,
                                               .strict = CONFIG_NUM(s->config, recovery) == CONFIG_RECOVERY_STRICT,
                                               .needs_dump = r->dir->layout > 1, /* relayout.h */
                                               .threads = true,
                                               .log = &s->log,
                                               .stop = &s->stopping,
                                               .progress = &r->progress,
                                               .relieve = relieve,
                                               .relieve_ctx = r});
}

static uint64_t count_keys(struct store *const *stores, uint32_t n)
{
    uint64_t keys = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint16_t d = 0; d < STORE_DBS; d++) keys += store_keys(stores[i], d);
    return keys;
}

static void tell_result(const struct recovery *r, const struct loader_result *n, uint64_t keys)
{
    const struct slog *log = &r->server->log;
    double seconds = (double)(clock_unix_ms() - r->start_ms) / 1000;
    if (n->dump.entries)
        slog(log, SLOG_NOTICE, "dump loaded", "epoch=%llu entries=%llu", (unsigned long long)n->dump.epoch, (unsigned long long)n->dump.entries);
    if (n->log.records || n->log.torn_bytes || n->dump.entries)
        slog(log, SLOG_NOTICE, "log replayed", "records=%llu bytes=%llu keys=%llu seconds=%.2f torn_bytes=%llu", (unsigned long long)n->log.records,
             (unsigned long long)n->log.bytes, (unsigned long long)keys, seconds, (unsigned long long)n->log.torn_bytes);
    if (n->log.note[0] && !n->errors) slog(log, SLOG_NOTICE, "the end of the log was cut", "what=%s", n->log.note);
    if (n->errors) slog(log, SLOG_WARNING, "what was damaged is lost", "records=%llu first=%s", (unsigned long long)n->errors, n->log.note);
}

static bool open_log(struct server *s, const char *dir, wal_epoch last, struct buf *error)
{
    s->wal = wal_open(s->files, dir, s->engine->route.shards, last, SEGMENT_BYTES, error);
    return s->wal != NULL;
}

static bool load_in_place(struct recovery *r, struct loader *l, const char *dir, struct buf *error)
{
    struct server *s = r->server;
    struct loader_result n;
    if (loader_run(l, s->engine->stores, error) || loader_finish(l, error)) return false;
    loader_result(l, &n);
    atomic_store(&s->replay_errors, n.errors);
    tell_result(r, &n, count_keys(s->engine->stores, s->engine->route.shards));
    r->newest = n.dump;
    return open_log(s, dir, n.log.last, error);
}

/* ---- another number of shards */

static struct store **old_stores(const struct recovery *r)
{
    struct store **stores = mem_zalloc(r->dir->shards * sizeof *stores);
    for (uint32_t i = 0; i < r->dir->shards; i++) {
        stores[i] = store_new(r->dir->seed, &r->server->engine->limits, i + 1);
        stores[i]->tier = r->server->engine->stores[0]->tier;
    }
    return stores;
}

static void free_stores(struct store **stores, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        chill_drop_all(stores[i]);
        store_free(stores[i]);
    }
    mem_free(stores);
}

static bool write_layout(struct recovery *r, struct store *const *from, const char *dir, struct buf *error)
{
    struct server *s = r->server;
    struct engine *e = s->engine;
    struct relayout to = {.files = &file_disk,
                          .dir = dir,
                          .shards = e->route.shards,
                          .seed = e->route.seed,
                          .profile = (enum compress_profile)CONFIG_NUM(s->config, compression_profile),
                          .min_size = (size_t)CONFIG_NUM(s->config, compression_min_size),
                          .threads = true,
                          .stop = &s->stopping,
                          .relieve = relieve,
                          .relieve_ctx = r};
    r->moving = true;
    return datadir_make_layout(r->dir, r->dir->layout + 1, error) == 0 && relayout_write(&to, from, r->dir->shards, e->stores, &r->newest, error) == 0;
}

/* The old layout is as it was until the identity names the new one; its log is not cut. */
static bool move(struct recovery *r, const struct loader_result *n, struct store *const *from, struct buf *error)
{
    struct datadir *d = r->dir;
    struct server *s = r->server;
    uint32_t old = d->layout, shards = s->engine->route.shards;
    slog(&s->log, SLOG_NOTICE, "laying the data out anew", "from_shards=%u to_shards=%u", d->shards, shards);
    char *dir = datadir_layout_path(d, old + 1);
    bool written = write_layout(r, from, dir, error), named = written && datadir_set_layout(d, old + 1, shards, error) == 0;
    if (named && n->errors) datadir_keep_layout_aside(d, old);
    if (named || !written) datadir_remove_other_layouts(d); /* if naming it failed, both stay: which one the disk names is not known */
    bool ok = named && open_log(s, dir, RELAYOUT_EPOCH, error);
    mem_free(dir);
    return ok;
}

static bool load_and_move(struct recovery *r, struct loader *l, struct buf *error)
{
    struct loader_result n;
    uint32_t shards = r->dir->shards;
    struct store **stores = old_stores(r);
    bool ok = loader_run(l, stores, error) == 0;
    if (ok) {
        loader_result(l, &n);
        atomic_store(&r->server->replay_errors, n.errors);
        tell_result(r, &n, count_keys(stores, shards));
        ok = move(r, &n, stores, error);
    }
    free_stores(stores, shards);
    return ok;
}

/* ---- all of it */

static bool load(struct recovery *r, struct buf *error)
{
    struct datadir *d = r->dir;
    datadir_remove_other_layouts(d); /* what a crash left of one, old or new */
    if (datadir_make_layout(d, d->layout, error) < 0) return false;
    char *dir = datadir_layout_path(d, d->layout);
    struct loader *l = make_loader(r, dir);
    bool ok = loader_survey(l, error) == 0;
    if (ok) ok = d->shards == r->server->engine->route.shards ? load_in_place(r, l, dir, error) : load_and_move(r, l, error);
    loader_free(l);
    mem_free(dir);
    return ok;
}

static void give_up(struct recovery *r, struct buf *error)
{
    struct server *s = r->server;
    if (atomic_load(&s->stopping)) {
        slog(&s->log, SLOG_NOTICE, "loading was ended before its time", "");
        return;
    }
    buf_add_byte(error, '\0');
    slog(&s->log, SLOG_WARNING, "cannot recover the data", "dir=%s error=%s", r->dir->path, error->p);
    r->failed = true;
    server_stop(s);
}

static void prepare_shards(struct engine *e)
{
    for (uint32_t i = 0; i < e->route.shards; i++) {
        __atomic_store_n(&e->stores[i]->stats.changes, 0, __ATOMIC_RELAXED); /* what was loaded is no change */
        engine_publish_numbers(&e->shards[i]);
    }
}

static void *run(void *arg)
{
    struct recovery *r = arg;
    struct server *s = r->server;
    struct buf error = {0};
    if (load(r, &error) && topology_load(s->topology, &error) == 0) {
        prepare_shards(s->engine);
        char *layout = datadir_layout_path(r->dir, r->dir->layout);
        r->loaded(s, layout, &r->newest);
        mem_free(layout);
    } else {
        give_up(r, &error);
    }
    buf_fini(&error);
    for (uint32_t i = 0; i < s->engine->route.shards; i++) engine_send_token_home(s->engine, &s->engine->shards[i]);
    return NULL;
}

void recover_hold(struct server *s)
{
    struct recovery *r = mem_zalloc(sizeof *r);
    r->server = s;
    r->start_ms = clock_unix_ms();
    r->next_tell_ms = r->start_ms + TELL_MS;
    s->recovery = r;
    atomic_store(&s->loading, true);
    for (uint32_t i = 0; i < s->engine->route.shards; i++) {
        bool free_token = engine_try(&s->engine->shards[i]);
        CHECK(free_token);
        s->engine->stores[i]->now_ms = r->start_ms;
    }
}

void recover_start(struct server *s, struct datadir *d, recover_loaded *loaded)
{
    struct recovery *r = s->recovery;
    r->dir = d;
    r->loaded = loaded;
    int rc = pthread_create(&r->thread, NULL, run, r);
    CHECK(rc == 0);
    pthread_setname_np(r->thread, "recovery");
}

bool recover_join(struct server *s)
{
    struct recovery *r = s->recovery;
    pthread_join(r->thread, NULL);
    return !r->failed;
}

void recover_free(struct server *s) { mem_free(s->recovery); }

/* ---- how far it is */

void recover_progress(const struct server *s, struct recover_progress *out)
{
    const struct recovery *r = s->recovery;
    *out = (struct recover_progress){.start_ms = r->start_ms,
                                     .total_bytes = atomic_load(&r->progress.total_bytes),
                                     .loaded_bytes = atomic_load(&r->progress.loaded_bytes)};
}

void recover_tick(struct server *s, int64_t now_ms)
{
    struct recovery *r = s->recovery;
    struct recover_progress p;
    if (!r || !atomic_load(&s->loading) || now_ms < r->next_tell_ms) return;
    r->next_tell_ms = now_ms + TELL_MS;
    recover_progress(s, &p);
    slog(&s->log, SLOG_NOTICE, "loading", "bytes=%llu of=%llu percent=%.1f seconds=%.1f", (unsigned long long)p.loaded_bytes, (unsigned long long)p.total_bytes,
         p.total_bytes ? 100 * (double)p.loaded_bytes / (double)p.total_bytes : 0, (double)(now_ms - p.start_ms) / 1000);
}
