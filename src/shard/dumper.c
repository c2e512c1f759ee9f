#include "shard/dumper.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "log/wal.h"
#include "shard/journal.h"
#include "shard/walk.h"

enum {
    TICK_MS = 100,
    PROGRESS_MS = 1000,
    RESULTS = 16,
    RETRY_MS = 10 * 1000, /* a dump that failed is not tried again by itself before */
};

struct lane { /* what is known of one shard */
    uint64_t log_written_now;            /* bytes ever written to the shard's log when the running dump's cut was made */
    _Atomic uint64_t log_written_at_cut; /* the same for the last dump that is durable; the thread's to change */
    _Atomic uint64_t last_file_bytes;    /* of the shard's last dump; likewise */
};

struct dumper {
    struct engine *engine;
    struct walk *walk;
    struct journal *journal;
    struct wal *wal;
    const struct file_ops *files;
    char *dir;
    void (*told)(void *ctx, enum dumper_event event);
    void *ctx;
    struct lane *lanes; /* [shards] */
    pthread_t thread;
    bool running; /* the thread is there */
    atomic_bool stop;
    struct walk_sink sink;
    struct dump *dump; /* the thread's: the one that is under way */
    struct dumpset_header header; /* the thread's: of the last one, whatever came of it; cut_ms 0: there was none */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t asked;
    struct dumper_options options;
    struct dumper_info info;
    uint64_t begun, wanted; /* dumps are numbered from 1: tickets */
    uint64_t ended;
    int results[RESULTS];   /* of ticket t: [t % RESULTS] */
    int64_t failed_ms;      /* mono; when the last one failed; 0: it did not */
};

/* ---- the thread: one dump, as the walk's sink */

struct dump {
    struct dumpset *set;
    struct dumper_options options;
    uint64_t ticket;
    enum dumper_reason reason;
    int64_t began_ms, began_mono_ms, told_mono_ms;
    uint64_t epoch;
    int error;
};

/* Under the shard's token. */
static bool copy(void *ctx, struct buf *raw, uint16_t db, const struct entry *e)
{
    dumpfile_add_entry(raw, db, e);
    return true;
}

static bool wants_cold(void *ctx, uint16_t db, const struct entry *e) { return true; }

static int copy_cold(void *ctx, struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    dumpfile_add_image(raw, db, key, expiry_ms, image);
    return 0;
}

static uint64_t log_written(const struct dumper *d, uint32_t shard)
{
    struct wal_info info;
    wal_shard_info(d->wal, shard, &info);
    return info.written;
}

/* Dumps of one epoch are of one state, and the second takes the place of the first file by file. A crash may leave files of both, so they say the same moment: by that the files of a set are
 * known to belong together. */
static void head(struct dumper *d, const struct walk_moment *m)
{
    if (d->header.cut_ms && d->header.epoch == m->epoch) return;
    d->header = (struct dumpset_header){.epoch = m->epoch, .seed = d->engine->route.seed, .cut_ms = m->unix_ms};
}

static void begin(void *ctx, const struct walk_moment *m)
{
    struct dumper *d = ctx;
    struct dump *u = d->dump;
    u->epoch = m->epoch;
    head(d, m);
    dumpset_begin(u->set, &d->header, u->options.profile, u->options.min_size);
    for (uint32_t i = 0; i < d->engine->route.shards; i++) d->lanes[i].log_written_now = log_written(d, i);
}

static void tell_progress(struct dumper *d)
{
    int64_t now_ms = clock_mono_us() / 1000;
    if (now_ms - d->dump->told_mono_ms < PROGRESS_MS) return;
    d->dump->told_mono_ms = now_ms;
    d->told(d->ctx, DUMPER_PROGRESS);
}

static int take(void *ctx, uint32_t shard, struct slice raw, uint64_t entries)
{
    struct dumper *d = ctx;
    tell_progress(d);
    return dumpset_write(d->dump->set, shard, raw, entries);
}

static bool goes_on(void *ctx)
{
    const struct dumper *d = ctx;
    return !atomic_load(&d->stop);
}

/* The kept sets stay, and the log from the oldest of them on. */
static void drop_what_is_covered(struct dumper *d, const struct dump *u)
{
    uint32_t shards = d->engine->route.shards, kept = u->options.kept;
    uint64_t *epochs = mem_alloc(kept * sizeof *epochs);
    int n = dumpset_list(d->files, d->dir, shards, epochs, kept);
    uint64_t oldest = n > 0 ? epochs[n - 1] : u->epoch;
    mem_free(epochs);
    if (n > 0) journal_drop_before(d->journal, oldest + 1);
    int rc = n > 0 ? dumpset_drop_before(d->files, d->dir, shards, oldest) : n;
    pthread_mutex_lock(&d->lock);
    d->info.drop_error = rc;
    pthread_mutex_unlock(&d->lock);
}

static void note_success(struct dumper *d, const struct dump *u)
{
    struct dumpset_totals t = dumpset_totals(u->set);
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        d->lanes[i].last_file_bytes = dumpset_file_bytes(u->set, i);
        d->lanes[i].log_written_at_cut = d->lanes[i].log_written_now;
    }
    pthread_mutex_lock(&d->lock);
    d->info.last = dumper_past_of(t, u->epoch, u->began_ms);
    d->info.last_duration_ms = clock_mono_us() / 1000 - u->began_mono_ms;
    pthread_mutex_unlock(&d->lock);
}

static void run_dump(struct dumper *d, struct dump *u)
{
    d->dump = u;
    u->error = dumpset_new(&u->set, d->files, d->dir, d->engine->route.shards);
    if (!u->error) u->error = walk_run(d->walk, &d->sink);
    if (!u->error) u->error = dumpset_finish(u->set);
    if (!u->error) {
        note_success(d, u);
        drop_what_is_covered(d, u);
    }
    dumpset_free(u->set);
    d->dump = NULL;
}

/* ---- the thread: when */

/* The difference alone counts: what earlier processes wrote lies below zero. */
static uint64_t log_since_dump(const struct dumper *d, uint32_t shard)
{
    uint64_t at_cut = atomic_load_explicit(&d->lanes[shard].log_written_at_cut, memory_order_relaxed), since = log_written(d, shard) - at_cut;
    return since <= INT64_MAX ? since : 0;
}

static uint64_t log_limit(const struct dumper *d, uint32_t shard, const struct dumper_options *o)
{
    uint64_t last = atomic_load_explicit(&d->lanes[shard].last_file_bytes, memory_order_relaxed);
    return last > o->log_bytes_max ? last : o->log_bytes_max;
}

static bool is_log_long(const struct dumper *d, const struct dumper_options *o)
{
    for (uint32_t i = 0; i < d->engine->route.shards; i++)
        if (log_since_dump(d, i) > log_limit(d, i, o)) return true;
    return false;
}

static bool is_changed(const struct dumper *d) { return wal_open_epoch(d->wal) - 1 != d->info.last.epoch || wal_pending_bytes(d->wal); }

/* One of the future is of before the clock was set back, and may be of any age. */
static bool is_old(const struct dumper *d)
{
    int64_t age_ms = clock_unix_ms() - d->info.last.cut_ms;
    return age_ms < 0 || age_ms >= d->options.interval_s * 1000;
}

/* With the lock held. */
static bool is_due(struct dumper *d, enum dumper_reason *reason)
{
    if (d->wanted > d->begun) {
        *reason = DUMPER_ASKED;
        return true;
    }
    if (d->failed_ms && clock_mono_us() / 1000 - d->failed_ms < RETRY_MS) return false;
    if (is_log_long(d, &d->options)) {
        *reason = DUMPER_LOG_LONG;
        return true;
    }
    *reason = DUMPER_AGE;
    return d->options.interval_s && is_old(d) && is_changed(d);
}

static bool begin_if_due(struct dumper *d, struct dump *u)
{
    pthread_mutex_lock(&d->lock);
    bool due = is_due(d, &u->reason);
    if (due) {
        u->ticket = ++d->begun;
        u->options = d->options;
        u->began_ms = d->info.began_ms = clock_unix_ms();
        u->began_mono_ms = u->told_mono_ms = clock_mono_us() / 1000;
        d->info.running = true;
        d->info.reason = u->reason;
    }
    pthread_mutex_unlock(&d->lock);
    return due;
}

static void end(struct dumper *d, const struct dump *u)
{
    pthread_mutex_lock(&d->lock);
    d->info.running = false;
    d->info.last_error = u->error;
    if (u->error) d->info.failed++;
    else d->info.ended++;
    d->failed_ms = u->error ? clock_mono_us() / 1000 : 0;
    d->results[u->ticket % RESULTS] = u->error;
    d->ended = u->ticket;
    pthread_mutex_unlock(&d->lock);
    d->told(d->ctx, u->error ? DUMPER_FAILED : DUMPER_ENDED);
}

static void sleep_until_asked(struct dumper *d)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_mutex_lock(&d->lock);
    if (d->wanted <= d->begun && !atomic_load(&d->stop)) pthread_cond_timedwait(&d->asked, &d->lock, &until);
    pthread_mutex_unlock(&d->lock);
}

static void *run(void *arg)
{
    struct dumper *d = arg;
    while (!atomic_load(&d->stop)) {
        struct dump u = {0};
        if (begin_if_due(d, &u)) {
            d->told(d->ctx, DUMPER_BEGUN);
            run_dump(d, &u);
            end(d, &u);
        } else {
            sleep_until_asked(d);
        }
    }
    return NULL;
}

/* ---- life */

static void init_lock(struct dumper *d)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->asked, &attr);
    pthread_condattr_destroy(&attr);
}

struct dumper *dumper_new(struct engine *e, struct walk *walk, struct journal *j, struct wal *w, const struct file_ops *files, const char *dir, const struct dumper_options *options,
                          const struct dumper_past *past, void (*told)(void *ctx, enum dumper_event event), void *ctx)
{
    struct dumper *d = mem_zalloc(sizeof *d);
    d->engine = e;
    d->walk = walk;
    d->journal = j;
    d->wal = w;
    d->files = files;
    d->dir = mem_strdup(dir);
    d->told = told;
    d->ctx = ctx;
    d->options = *options;
    d->info = (struct dumper_info){.last = *past, .last_duration_ms = -1};
    if (!past->any) d->info.last.cut_ms = clock_unix_ms(); /* the interval begins now */
    else d->header = (struct dumpset_header){.epoch = past->epoch, .seed = e->route.seed, .cut_ms = past->cut_ms};
    d->sink = (struct walk_sink){.ctx = d, .copy = copy, .wants_cold = wants_cold, .copy_cold = copy_cold, .begin = begin, .take = take, .goes_on = goes_on};
    init_lock(d);
    d->lanes = mem_zalloc(e->route.shards * sizeof *d->lanes);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct wal_info info;
        wal_shard_info(w, i, &info);
        d->lanes[i].log_written_at_cut = info.written - info.bytes; /* what is on disk already counts, too */
        d->lanes[i].last_file_bytes = past->file_bytes / e->route.shards;
    }
    return d;
}

void dumper_start(struct dumper *d)
{
    int rc = pthread_create(&d->thread, NULL, run, d);
    CHECK(rc == 0);
    pthread_setname_np(d->thread, "dumper");
    d->running = true;
}

void dumper_stop(struct dumper *d)
{
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->stop, true);
    pthread_cond_signal(&d->asked);
    pthread_mutex_unlock(&d->lock);
    if (d->running) pthread_join(d->thread, NULL);
    d->running = false;
}

void dumper_free(struct dumper *d)
{
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->asked);
    mem_free(d->lanes);
    mem_free(d->dir);
    mem_free(d);
}

/* ---- any thread */

void dumper_set_options(struct dumper *d, const struct dumper_options *o)
{
    pthread_mutex_lock(&d->lock);
    d->options = *o;
    pthread_mutex_unlock(&d->lock);
}

uint64_t dumper_ask(struct dumper *d)
{
    pthread_mutex_lock(&d->lock);
    uint64_t ticket = d->wanted = d->begun + 1;
    pthread_cond_signal(&d->asked);
    pthread_mutex_unlock(&d->lock);
    return ticket;
}

bool dumper_is_done(struct dumper *d, uint64_t ticket, int *error)
{
    pthread_mutex_lock(&d->lock);
    bool done = d->ended >= ticket;
    *error = !done ? 0 : d->results[ticket % RESULTS];
    pthread_mutex_unlock(&d->lock);
    return done;
}

void dumper_info(struct dumper *d, struct dumper_info *info)
{
    pthread_mutex_lock(&d->lock);
    struct dumper_options o = d->options;
    *info = d->info;
    bool asked = d->wanted > d->ended;
    pthread_mutex_unlock(&d->lock);
    if (asked && !info->running) { /* it begins as soon as the thread has woken up */
        info->running = true;
        info->reason = DUMPER_ASKED;
        info->began_ms = clock_unix_ms();
    }
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        uint64_t bytes = log_since_dump(d, i), limit = log_limit(d, i, &o);
        if (i > 0 && (double)bytes / (double)limit <= (double)info->log_bytes / (double)info->log_limit) continue;
        info->log_shard = i;
        info->log_bytes = bytes;
        info->log_limit = limit;
    }
    struct walk_progress p = walk_progress(d->walk, &d->sink);
    info->backlog_bytes = p.backlog_bytes;
    info->entries_done = p.done;
    info->entries_total = p.total;
}
