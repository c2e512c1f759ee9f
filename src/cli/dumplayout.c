/* A layout is loaded as a start would, but without the last step, which changes files. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/slog.h"
#include "cli/dumptool.h"
#include "cli/progress.h"
#include "io/file.h"
#include "server/loader.h"
#include "store/image.h"
#include "store/store.h"

enum { POLL_US = 50000 };

struct loading {
    struct loader *loader;
    struct store **stores;
    struct buf error;
    int rc;
    _Atomic bool done;
};

static void *load(void *arg)
{
    struct loading *l = arg;
    l->rc = loader_survey(l->loader, &l->error);
    if (l->rc == 0) l->rc = loader_run(l->loader, l->stores, &l->error);
    atomic_store(&l->done, true);
    return NULL;
}

static bool load_watched(struct loading *l, struct loader_progress *state)
{
    struct progress p;
    pthread_t thread;
    if (pthread_create(&thread, NULL, load, l) != 0) {
        buf_add_str(&l->error, "no thread can be started");
        return false;
    }
    progress_begin(&p, "load", 0, PROGRESS_BYTES);
    while (!atomic_load(&l->done)) {
        p.total = atomic_load(&state->total_bytes);
        progress_set(&p, atomic_load(&state->loaded_bytes));
        usleep(POLL_US);
    }
    pthread_join(thread, NULL);
    progress_end(&p);
    return l->rc == 0;
}

static void export_store(struct dumpexport *x, struct store *s, struct progress *p, uint64_t *done)
{
    struct buf image = {0};
    for (uint16_t d = 0; d < STORE_DBS && !x->error; d++) {
        struct table_iter it;
        if (!s->dbs[d]) continue;
        table_iter_init(&it, &s->dbs[d]->keys);
        for (struct entry *e; !x->error && (e = table_iter_next(&it)); progress_set(p, ++*done)) {
            int64_t expiry_ms = entry_expiry_ms(e);
            if (expiry_ms && expiry_ms <= s->now_ms) continue; /* a server would not show it */
            image.len = 0;
            image_write(&image, e);
            dumpexport_key(x, d, entry_key(e), expiry_ms, buf_slice(&image));
        }
    }
    buf_fini(&image);
}

static void export_stores(struct dumpexport *x, struct store **stores, uint32_t shards)
{
    struct progress p;
    uint64_t keys = 0, done = 0;
    for (uint32_t i = 0; i < shards; i++)
        for (uint16_t d = 0; d < STORE_DBS; d++) keys += store_keys(stores[i], d);
    progress_begin(&p, "export", keys, PROGRESS_COUNT);
    for (uint32_t i = 0; i < shards; i++) export_store(x, stores[i], &p, &done);
    progress_end(&p);
}

/* Encodings do not show in what is exported, so any limits do. */
static const struct store_limits limits = {.hash_entries = 128, .hash_value = 64, .set_ints = 512, .set_entries = 128, .set_value = 64,
                                           .zset_entries = 128, .zset_value = 64, .list_size = -2, .hll_sparse_bytes = 3000};

bool dumplayout_load(struct dumplayout *d, const char *layout, uint32_t shards, uint64_t seed, int64_t now_ms)
{
    struct slog log;
    struct loader_progress state = {0};
    *d = (struct dumplayout){.stores = mem_zalloc(shards * sizeof *d->stores), .shards = shards};
    for (uint32_t i = 0; i < shards; i++) {
        d->stores[i] = store_new(seed, &limits, i + 1);
        d->stores[i]->now_ms = now_ms;
    }
    if (slog_open(&log, NULL, SLOG_TEXT, SLOG_WARNING) < 0) return false;
    struct loader_options o = {.files = &file_disk, .dir = layout, .shards = shards, .seed = seed, .threads = true, .log = &log, .progress = &state};
    struct loading l = {.loader = loader_new(&o), .stores = d->stores};
    bool loaded = load_watched(&l, &state);
    if (loaded) {
        struct loader_result result;
        loader_result(l.loader, &result);
        if (result.errors) fprintf(stderr, "sherd: %s: %" PRIu64 " damaged or missing records were left out\n", layout, result.errors);
        d->complete = result.errors == 0;
    } else {
        fprintf(stderr, "sherd: %s: %.*s\n", layout, (int)l.error.len, l.error.p);
    }
    loader_free(l.loader);
    buf_fini(&l.error);
    slog_close(&log);
    return loaded;
}

void dumplayout_free(struct dumplayout *d)
{
    for (uint32_t i = 0; i < d->shards; i++) store_free(d->stores[i]);
    mem_free(d->stores);
    *d = (struct dumplayout){0};
}

bool dumplayout_export(struct dumpexport *x, const char *layout, uint32_t shards, uint64_t seed, int64_t now_ms)
{
    struct dumplayout d;
    bool loaded = dumplayout_load(&d, layout, shards, seed, now_ms);
    if (loaded) export_stores(x, d.stores, shards);
    loaded = loaded && d.complete;
    dumplayout_free(&d);
    return loaded;
}
