#include "server/recover.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/file.h"
#include "log/wal.h"
#include "store/image.h"

enum {
    SEGMENT_BYTES = 64 << 20,
    WRITE_BYTES = 4 << 20,        /* of a new layout collected before they are written */
    COMPACT_MIN_BYTES = 64 << 20, /* a log below this is never worth writing anew */
    COMPACT_RATIO = 4,            /* log bytes per live byte from which on it is */
};

/* The state as the old layout has it, shard by shard. */
struct replayed {
    struct store **stores;
    uint32_t shards;
};

static void apply(void *ctx, uint32_t shard, const struct op *op)
{
    struct replayed *r = ctx;
    store_apply(r->stores[shard], op, NULL);
}

static struct replayed replay_into(struct server *s, uint32_t shards)
{
    struct replayed r = {.shards = shards, .stores = s->engine->stores};
    if (shards == s->engine->route.shards) return r;
    r.stores = mem_zalloc(shards * sizeof *r.stores);
    for (uint32_t i = 0; i < shards; i++) r.stores[i] = store_new(s->engine->route.seed, &s->engine->limits, i + 1);
    return r;
}

static void release(struct server *s, struct replayed *r)
{
    if (r->stores == s->engine->stores) return;
    for (uint32_t i = 0; i < r->shards; i++) store_free(r->stores[i]);
    mem_free(r->stores);
}

static uint64_t count_keys(const struct replayed *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->shards; i++)
        for (uint16_t d = 0; d < STORE_DBS; d++) n += store_keys(r->stores[i], d);
    return n;
}

static uint64_t live_bytes(const struct replayed *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->shards; i++) n += store_bytes(r->stores[i]);
    return n;
}

/* ---- a new layout */

struct writer {
    struct server *server;
    struct wal *wal;
    int error;
};

static void write_out(struct writer *w, size_t at_least)
{
    if (w->error || wal_pending_bytes(w->wal) < at_least) return;
    wal_cut(w->wal);
    w->error = wal_write(w->wal);
}

/* One entry into the new log and, if the old layout was another one, into the store where it belongs now. */
static void write_entry(struct writer *w, uint16_t db, const struct entry *e, bool move)
{
    struct engine *en = w->server->engine;
    struct buf image = {0};
    image_write(&image, e);
    struct op op = {.kind = OP_RESTORE, .db = db, .key = entry_key(e), .value = buf_slice(&image), .expiry_ms = entry_expiry_ms(e)};
    uint32_t shard = route_shard(&en->route, keyhash(op.key, en->route.seed));
    wal_append(w->wal, shard, &op);
    if (move) store_apply(en->stores[shard], &op, NULL);
    buf_fini(&image);
    write_out(w, WRITE_BYTES);
}

static void write_store(struct writer *w, const struct store *from, bool move)
{
    for (uint16_t d = 0; d < STORE_DBS; d++) {
        if (!from->dbs[d]) continue;
        struct table_iter it;
        table_iter_init(&it, &from->dbs[d]->keys);
        for (struct entry *e; !w->error && (e = table_iter_next(&it));) write_entry(w, d, e, move);
    }
}

static bool write_layout(struct server *s, struct datadir *d, struct replayed *r, struct buf *error)
{
    if (datadir_make_layout(d, d->layout + 1, error) < 0) return false;
    char *path = datadir_layout_path(d, d->layout + 1);
    struct writer w = {.server = s, .wal = wal_open(s->files, path, s->engine->route.shards, 0, SEGMENT_BYTES, error)};
    mem_free(path);
    if (!w.wal) return false;
    for (uint32_t i = 0; i < r->shards; i++) write_store(&w, r->stores[i], r->stores != s->engine->stores);
    write_out(&w, 1);
    if (!w.error) w.error = wal_sync(w.wal);
    if (w.error) {
        buf_printf(error, "writing the new layout: %s", strerror(-w.error));
        wal_close(w.wal);
        return false;
    }
    if (datadir_set_layout(d, d->layout + 1, s->engine->route.shards, error) < 0) {
        wal_close(w.wal);
        return false;
    }
    s->wal = w.wal;
    return true;
}

/* ---- all of it */

static bool open_in_place(struct server *s, const struct datadir *d, wal_epoch last, struct buf *error)
{
    char *path = datadir_layout_path(d, d->layout);
    s->wal = wal_open(s->files, path, d->shards, last, SEGMENT_BYTES, error);
    mem_free(path);
    return s->wal != NULL;
}

static bool worth_compacting(const struct wal_replay *log, const struct replayed *r)
{
    return log->bytes > COMPACT_MIN_BYTES && log->bytes > COMPACT_RATIO * live_bytes(r);
}

static bool load(struct server *s, struct datadir *d, struct replayed *r, struct buf *error)
{
    struct wal_replay log = {0};
    if (datadir_make_layout(d, d->layout, error) < 0) return false;
    char *path = datadir_layout_path(d, d->layout);
    int64_t start_us = clock_mono_us();
    int rc = wal_replay_all(&file_disk, path, d->shards, 0, true, apply, r, &log, error);
    mem_free(path);
    if (rc < 0) return false;
    double seconds = (double)(clock_mono_us() - start_us) / 1e6;
    if (log.records || log.torn_bytes)
        slog(&s->log, SLOG_NOTICE, "log replayed", "records=%llu bytes=%llu keys=%llu seconds=%.2f torn_bytes=%llu",
             (unsigned long long)log.records, (unsigned long long)log.bytes, (unsigned long long)count_keys(r), seconds,
             (unsigned long long)(log.torn_bytes));
    if (d->shards == s->engine->route.shards && !worth_compacting(&log, r)) return open_in_place(s, d, log.last, error);
    slog(&s->log, SLOG_NOTICE, "laying the data out anew", "from_shards=%u to_shards=%u log_bytes=%llu", d->shards,
         s->engine->route.shards, (unsigned long long)log.bytes);
    return write_layout(s, d, r, error);
}

bool recover(struct server *s, struct datadir *d)
{
    struct buf error = {0};
    datadir_remove_other_layouts(d); /* what a crash left of a new one */
    for (uint32_t i = 0; i < s->engine->route.shards; i++) s->engine->stores[i]->now_ms = clock_unix_ms();
    struct replayed r = replay_into(s, d->shards);
    bool ok = load(s, d, &r, &error);
    release(s, &r);
    if (ok) {
        datadir_remove_other_layouts(d); /* the one that is no longer in use */
    } else {
        buf_add_byte(&error, '\0');
        slog(&s->log, SLOG_WARNING, "cannot recover the data", "dir=%s error=%s", d->path, error.p);
    }
    buf_fini(&error);
    return ok;
}
