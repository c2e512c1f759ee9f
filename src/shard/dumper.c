#include "shard/dumper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "log/wal.h"
#include "shard/journal.h"
#include "shard/thaw.h"
#include "store/chill.h"
#include "store/cut.h"

enum {
    TICK_MS = 100,
    PROGRESS_MS = 1000,
    SLICE_ENTRIES = 64,            /* of a walk in one turn of a worker's loop */
    SLICE_BYTES = 64 << 10,        /* or so many bytes */
    STEP_ENTRIES = 8,
    CHUNK_BYTES = 256 << 10,       /* handed over at once */
    WALK_AHEAD_BYTES = 4 << 20,    /* copied and not written: from here on the walks wait */
    HOLD_BACK_MIN_BYTES = 16 << 20, /* from here on, or from a part of the data's size, the writers do */
    HOLD_BACK_SHARE = 32,
    RESULTS = 16,
    RETRY_MS = 10 * 1000, /* a dump that failed is not tried again by itself before */
};

/* Entries on their way to the file. */
struct chunk {
    struct chunk *next;
    uint32_t shard;
    bool last; /* of its shard */
    uint64_t entries;
    struct buf raw;
    struct buf cold; /* entries whose values the thread reads: struct cold_entry and the key, one behind the other; each is pinned in the tier */
};

struct cold_entry {
    struct chill_ref ref;
    int64_t expiry_ms;
    uint32_t key_len;
    uint16_t db;
};

struct lane { /* one shard's part of a dump */
    struct dumper *dumper;
    struct cut *cut;
    struct chunk *open;     /* the token's holder's: being filled */
    struct mail walk;       /* the walk is this message; it belongs to whoever it was sent to */
    atomic_bool waits;      /* the walk stands still until the thread has caught up */
    _Atomic uint64_t done;  /* entries */
    uint64_t log_written_now;            /* bytes ever written to the shard's log when the running dump's cut was made */
    _Atomic uint64_t log_written_at_cut; /* the same for the last dump that is durable; the thread's to change */
    _Atomic uint64_t last_file_bytes;    /* of the shard's last dump; likewise */
};

struct dumper {
    struct engine *engine;
    struct journal *journal;
    struct wal *wal;
    const struct file_ops *files;
    char *dir;
    void (*told)(void *ctx, enum dumper_event event);
    void *ctx;
    struct lane *lanes; /* [shards] */
    pthread_t thread;
    bool running; /* the thread is there */
    int wake_fd;

    /* the running dump */
    _Atomic(struct chunk *) full; /* chunks on their way to the thread, newest first */
    _Atomic uint64_t backlog;     /* bytes in them and in the open ones */
    _Atomic uint64_t backlog_max; /* of the options */
    _Atomic uint64_t hold_back_bytes; /* backlog from which on answers to writes wait */
    atomic_bool abandoned, sleeping, stop;
    _Atomic uint64_t cut_epoch;   /* set by the cut */
    atomic_bool cut_made;

    pthread_mutex_t lock; /* all below */
    struct dumper_options options;
    struct dumper_info info;
    uint64_t begun, wanted; /* dumps are numbered from 1: tickets */
    uint64_t ended;
    int results[RESULTS];   /* of ticket t: [t % RESULTS] */
    int64_t failed_ms;      /* mono; when the last one failed; 0: it did not */
};

/* ---- under tokens: copying */

static void wake(struct dumper *d)
{
    if (!atomic_exchange(&d->sleeping, false)) return;
    uint64_t one = 1;
    ssize_t n = write(d->wake_fd, &one, sizeof one);
    CHECK(n == sizeof one);
}

static void hand_over(struct lane *l, bool last)
{
    struct dumper *d = l->dumper;
    struct chunk *c = l->open;
    if (!c) {
        if (!last) return;
        c = mem_zalloc(sizeof *c);
        c->shard = (uint32_t)(l - d->lanes);
    }
    l->open = NULL;
    c->last = last;
    c->next = atomic_load(&d->full);
    while (!atomic_compare_exchange_weak(&d->full, &c->next, c)) continue;
    wake(d);
}

/* The value stays where it is; that it is there until the thread has read it, whatever becomes of the entry, is what the pin is for. */
static void add_cold(struct chunk *c, struct tier *t, uint16_t db, const struct entry *e)
{
    struct slice key = entry_key(e);
    struct cold_entry cold;
    memset(&cold, 0, sizeof cold);
    cold.ref = chill_ref_of(e);
    cold.expiry_ms = entry_expiry_ms(e);
    cold.key_len = (uint32_t)key.n;
    cold.db = db;
    tier_pin(t, cold.ref);
    buf_add(&c->cold, &cold, sizeof cold);
    buf_add_slice(&c->cold, key);
}

static void emit(void *ctx, uint16_t db, const struct entry *e)
{
    struct lane *l = ctx;
    struct dumper *d = l->dumper;
    if (!l->open) {
        l->open = mem_zalloc(sizeof *l->open);
        l->open->shard = (uint32_t)(l - d->lanes);
        buf_room(&l->open->raw, CHUNK_BYTES + (CHUNK_BYTES >> 3));
    }
    struct chunk *c = l->open;
    size_t before = c->raw.len + c->cold.len;
    if (unlikely(chill_is_cold(e))) {
        add_cold(c, d->engine->thaws->tier, db, e);
    } else {
        dumpfile_add_entry(&c->raw, db, e);
        c->entries++;
    }
    size_t now = c->raw.len + c->cold.len;
    uint64_t backlog = atomic_fetch_add_explicit(&d->backlog, now - before, memory_order_relaxed);
    if (now >= CHUNK_BYTES) hand_over(l, false);
    if (unlikely(backlog > atomic_load_explicit(&d->hold_back_bytes, memory_order_relaxed))) journal_hold_back(d->journal, true);
}

/* ---- under tokens: the walk */

/* One slice. True while there is more. */
static bool walk_slice(struct lane *l)
{
    struct dumper *d = l->dumper;
    if (atomic_load_explicit(&d->abandoned, memory_order_relaxed)) cut_abandon(l->cut);
    uint64_t from = atomic_load_explicit(&d->backlog, memory_order_relaxed);
    bool more = true;
    for (unsigned n = 0; more && n < SLICE_ENTRIES; n += STEP_ENTRIES) {
        more = cut_step(l->cut, STEP_ENTRIES);
        if (atomic_load_explicit(&d->backlog, memory_order_relaxed) > from + SLICE_BYTES) break;
    }
    atomic_store_explicit(&l->done, cut_done(l->cut), memory_order_relaxed);
    return more;
}

static void send_walk(struct lane *l)
{
    struct engine *e = l->dumper->engine;
    engine_send(e, e->shards[l - l->dumper->lanes].home, &l->walk);
}

static uint64_t walk_ahead(struct dumper *d)
{
    uint64_t half = atomic_load_explicit(&d->hold_back_bytes, memory_order_relaxed) / 2;
    return half < WALK_AHEAD_BYTES ? half : WALK_AHEAD_BYTES;
}

static bool run_walk(struct worker *w, struct shard *s, struct mail *m)
{
    struct lane *l = (struct lane *)((char *)m - offsetof(struct lane, walk));
    struct dumper *d = l->dumper;
    if (!walk_slice(l)) {
        hand_over(l, true);
    } else if (atomic_load_explicit(&d->backlog, memory_order_relaxed) < walk_ahead(d)) {
        send_walk(l);
    } else {
        hand_over(l, false);
        atomic_store(&l->waits, true);
        wake(d); /* it may have caught up before it could see that we wait */
    }
    return true;
}

static void start_walk(struct worker *w, struct mail *m)
{
    struct lane *l = (struct lane *)((char *)m - offsetof(struct lane, walk));
    engine_post(w, &w->engine->shards[l - l->dumper->lanes], m);
}

/* ---- all tokens held: the cut */

static void make_cut(void *ctx, wal_epoch epoch)
{
    struct dumper *d = ctx;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        struct lane *l = &d->lanes[i];
        l->cut = cut_begin(d->engine->stores[i], emit, l);
        atomic_store_explicit(&l->done, 0, memory_order_relaxed);
        bytes += store_bytes(d->engine->stores[i]);
    }
    uint64_t may = bytes / HOLD_BACK_SHARE > HOLD_BACK_MIN_BYTES ? bytes / HOLD_BACK_SHARE : HOLD_BACK_MIN_BYTES, max = atomic_load(&d->backlog_max);
    atomic_store(&d->hold_back_bytes, max && max < may ? max : may);
    atomic_store(&d->cut_epoch, epoch);
    atomic_store(&d->cut_made, true);
    wake(d);
}

/* ---- the thread: waiting */

static void sleep_until_woken(struct dumper *d, int timeout_ms)
{
    struct pollfd p = {.fd = d->wake_fd, .events = POLLIN};
    uint64_t count;
    if (poll(&p, 1, timeout_ms) > 0) {
        ssize_t n = read(d->wake_fd, &count, sizeof count);
        CHECK(n == sizeof count || errno == EAGAIN);
    }
    atomic_store(&d->sleeping, false);
}

/* ---- the thread: one dump */

struct dump {
    struct dumper *d;
    struct dumpset *set;
    struct dumper_options options;
    uint64_t ticket;
    enum dumper_reason reason;
    int64_t began_ms, began_mono_ms, told_mono_ms;
    uint64_t epoch;
    uint32_t lanes_left;
    int error;
};

/* Waits until the cut is made. False: the log cannot close an epoch now, or the server stops. */
static bool wait_for_cut(struct dump *u)
{
    struct dumper *d = u->d;
    atomic_store(&d->cut_made, false);
    journal_ask_cut(d->journal, make_cut, d);
    while (!atomic_load(&d->cut_made)) {
        atomic_store(&d->sleeping, true);
        if (!atomic_load(&d->cut_made)) sleep_until_woken(d, TICK_MS);
        int error = journal_error(d->journal);
        if ((error || atomic_load(&d->stop)) && journal_take_back_cut(d->journal)) {
            u->error = error ? error : -ECANCELED;
            return false;
        }
    }
    return true;
}

static uint64_t log_written(const struct dumper *d, uint32_t shard)
{
    struct wal_info info;
    wal_shard_info(d->wal, shard, &info);
    return info.written;
}

static void fail(struct dump *u, int error)
{
    if (!u->error) u->error = error;
    atomic_store(&u->d->abandoned, true);
}

static void begin(struct dump *u)
{
    struct dumper *d = u->d;
    uint64_t total = 0;
    u->epoch = atomic_load(&d->cut_epoch);
    u->lanes_left = d->engine->route.shards;
    dumpset_begin(u->set, &(struct dumpset_header){.epoch = u->epoch, .seed = d->engine->route.seed, .cut_ms = clock_unix_ms()}, u->options.profile, u->options.min_size);
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        struct lane *l = &d->lanes[i];
        l->log_written_now = log_written(d, i);
        total += cut_total(l->cut);
    }
    pthread_mutex_lock(&d->lock);
    d->info.entries_total = total;
    pthread_mutex_unlock(&d->lock);
    for (uint32_t i = 0; i < d->engine->route.shards; i++) send_walk(&d->lanes[i]);
}

static void write_raw(struct dump *u, struct chunk *c)
{
    int rc = u->error || !c->entries ? 0 : dumpset_write(u->set, c->shard, buf_slice(&c->raw), c->entries);
    if (rc) fail(u, rc);
    c->raw.len = c->entries = 0;
}

/* Cold values go into the file by way of c->raw, which has been written. One that cannot be read fails the dump: without it the log must not be cut. */
static void write_cold(struct dump *u, struct chunk *c)
{
    struct buf bytes = {0};
    struct cold_entry cold;
    for (size_t at = 0; at < c->cold.len; at += sizeof cold + cold.key_len) {
        memcpy(&cold, c->cold.p + at, sizeof cold);
        struct slice key = slice_of(c->cold.p + at + sizeof cold, cold.key_len);
        struct tier *t = u->d->engine->thaws->tier;
        bytes.len = 0;
        int rc = u->error ? 0 : tier_get(t, cold.ref, key, &bytes);
        tier_unpin(t, cold.ref);
        if (rc) fail(u, rc);
        if (u->error) continue;
        dumpfile_add_image(&c->raw, cold.db, key, cold.expiry_ms, chill_image(buf_slice(&bytes)));
        c->entries++;
        if (c->raw.len >= CHUNK_BYTES) write_raw(u, c);
    }
    write_raw(u, c);
    buf_fini(&bytes);
}

static void write_chunk(struct dump *u, struct chunk *c)
{
    struct dumper *d = u->d;
    size_t bytes = c->raw.len + c->cold.len;
    write_raw(u, c);
    if (c->cold.len) write_cold(u, c);
    if (c->last) u->lanes_left--;
    uint64_t left = atomic_fetch_sub(&d->backlog, bytes) - bytes;
    if (left < atomic_load(&d->hold_back_bytes) / 2) journal_hold_back(d->journal, false);
    buf_fini(&c->raw);
    buf_fini(&c->cold);
    mem_free(c);
}

static void let_walks_go_on(struct dumper *d)
{
    if (atomic_load(&d->backlog) >= walk_ahead(d) / 2) return;
    for (uint32_t i = 0; i < d->engine->route.shards; i++)
        if (atomic_exchange(&d->lanes[i].waits, false)) send_walk(&d->lanes[i]);
}

static void tell_progress(struct dump *u)
{
    int64_t now_ms = clock_mono_us() / 1000;
    if (now_ms - u->told_mono_ms < PROGRESS_MS) return;
    u->told_mono_ms = now_ms;
    u->d->told(u->d->ctx, DUMPER_PROGRESS);
}

/* Until all walks have ended; or, when the server stops, until then: its workers do not walk any more. */
static void write_all(struct dump *u)
{
    struct dumper *d = u->d;
    while (u->lanes_left && !atomic_load(&d->stop)) {
        struct chunk *c = atomic_exchange(&d->full, NULL);
        for (struct chunk *next; c; c = next) {
            next = c->next;
            write_chunk(u, c);
        }
        let_walks_go_on(d);
        tell_progress(u);
        atomic_store(&d->sleeping, true);
        if (u->lanes_left && !atomic_load(&d->full)) sleep_until_woken(d, TICK_MS);
    }
}

/* The kept sets stay, and the log from the oldest of them on. */
static void drop_what_is_covered(struct dump *u)
{
    struct dumper *d = u->d;
    uint32_t shards = d->engine->route.shards, kept = u->options.kept;
    uint64_t *epochs = mem_alloc(kept * sizeof *epochs);
    int n = dumpset_list(d->files, d->dir, shards, epochs, kept);
    uint64_t oldest = n > 0 ? epochs[n - 1] : u->epoch;
    mem_free(epochs);
    if (n > 0) journal_drop_before(d->journal, oldest + 1);
    if (n > 0) dumpset_drop_before(d->files, d->dir, shards, oldest);
}

static void note_success(struct dump *u)
{
    struct dumper *d = u->d;
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

static void release_cuts(struct dumper *d)
{
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        if (d->lanes[i].cut) cut_free(d->lanes[i].cut);
        d->lanes[i].cut = NULL;
    }
}

static void run_dump(struct dump *u)
{
    struct dumper *d = u->d;
    atomic_store(&d->abandoned, false);
    u->error = dumpset_new(&u->set, d->files, d->dir, d->engine->route.shards);
    if (!u->error && wait_for_cut(u)) {
        begin(u);
        write_all(u);
        if (u->lanes_left) { /* dumper_free releases what is under way, when nothing else runs */
            fail(u, -ECANCELED);
            dumpset_free(u->set);
            return;
        }
        release_cuts(d);
        journal_hold_back(d->journal, false);
        if (!u->error) u->error = dumpset_finish(u->set);
        if (!u->error) {
            note_success(u);
            drop_what_is_covered(u);
        }
    }
    dumpset_free(u->set);
}

/* ---- the thread: when */

static uint64_t log_since_dump(const struct dumper *d, uint32_t shard)
{
    uint64_t at_cut = atomic_load_explicit(&d->lanes[shard].log_written_at_cut, memory_order_relaxed), now = log_written(d, shard);
    return now > at_cut ? now - at_cut : 0;
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
    return d->options.interval_s && clock_unix_ms() - d->info.last.cut_ms >= d->options.interval_s * 1000 && is_changed(d);
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
        d->info.entries_total = 0;
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

static void *run(void *arg)
{
    struct dumper *d = arg;
    while (!atomic_load(&d->stop)) {
        struct dump u = {.d = d};
        if (begin_if_due(d, &u)) {
            d->told(d->ctx, DUMPER_BEGUN);
            run_dump(&u);
            end(d, &u);
        } else {
            atomic_store(&d->sleeping, true);
            sleep_until_woken(d, TICK_MS);
        }
    }
    return NULL;
}

/* ---- life */

struct dumper *dumper_new(struct engine *e, struct journal *j, struct wal *w, const struct file_ops *files, const char *dir, const struct dumper_options *options,
                          const struct dumper_past *past, void (*told)(void *ctx, enum dumper_event event), void *ctx)
{
    struct dumper *d = mem_zalloc(sizeof *d);
    d->engine = e;
    d->journal = j;
    d->wal = w;
    d->files = files;
    d->dir = mem_strdup(dir);
    d->told = told;
    d->ctx = ctx;
    d->options = *options;
    atomic_init(&d->backlog_max, options->backlog_max);
    d->info = (struct dumper_info){.last = *past, .last_duration_ms = -1};
    if (!past->any) d->info.last.cut_ms = clock_unix_ms(); /* the interval begins now */
    d->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(d->wake_fd >= 0);
    pthread_mutex_init(&d->lock, NULL);
    d->lanes = mem_zalloc(e->route.shards * sizeof *d->lanes);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        struct wal_info info;
        wal_shard_info(w, i, &info);
        d->lanes[i].dumper = d;
        d->lanes[i].walk = (struct mail){.to_worker = start_walk, .to_shard = run_walk};
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
    atomic_store(&d->stop, true);
    atomic_store(&d->sleeping, true);
    wake(d);
    if (d->running) pthread_join(d->thread, NULL);
    d->running = false;
}

void dumper_free(struct dumper *d)
{
    release_cuts(d);
    for (struct chunk *c = atomic_load(&d->full), *next; c; c = next) {
        next = c->next;
        buf_fini(&c->raw);
        buf_fini(&c->cold);
        mem_free(c);
    }
    for (uint32_t i = 0; i < d->engine->route.shards; i++) {
        struct chunk *c = d->lanes[i].open;
        if (!c) continue;
        buf_fini(&c->raw);
        buf_fini(&c->cold);
        mem_free(c);
    }
    close(d->wake_fd);
    pthread_mutex_destroy(&d->lock);
    mem_free(d->lanes);
    mem_free(d->dir);
    mem_free(d);
}

/* ---- any thread */

void dumper_set_options(struct dumper *d, const struct dumper_options *o)
{
    pthread_mutex_lock(&d->lock);
    d->options = *o;
    atomic_store(&d->backlog_max, o->backlog_max);
    pthread_mutex_unlock(&d->lock);
}

uint64_t dumper_ask(struct dumper *d)
{
    pthread_mutex_lock(&d->lock);
    uint64_t ticket = d->wanted = d->begun + 1;
    pthread_mutex_unlock(&d->lock);
    wake(d);
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
    info->backlog_bytes = atomic_load(&d->backlog);
    for (uint32_t i = 0; i < d->engine->route.shards; i++) info->entries_done += atomic_load_explicit(&d->lanes[i].done, memory_order_relaxed);
}
