#include "shard/journal.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "shard/task.h"

enum {
    TICK_MS = 50,         /* how long an op waits before it is written, at most */
    SYNC_MS = 1000,
    RETRY_MS = 100,       /* after a failed write */
    PENDING_MAX = 256 << 20, /* bytes not yet written from which on answers wait, whatever the policy: the disk is too slow */
};

struct hook { /* what a store's op hook needs to know */
    struct journal *journal;
    uint32_t shard;
};

struct cut_request {
    journal_cut *call;
    void *ctx;
};

struct journal {
    struct engine *engine;
    struct wal *wal;
    void (*told)(void *ctx);
    void *ctx;
    struct hook *hooks; /* [shards] */
    _Atomic int policy;
    atomic_bool busy;     /* an epoch is being closed or written */
    atomic_int parts;     /* of being busy that are not over: the closer is on its way, the epoch is not written */
    struct task closer;   /* takes all tokens and closes the epoch */
    struct mail start;    /* asks worker 0 to run the closer */
    _Atomic int error;
    struct cut_request cut_request;
    _Atomic(struct cut_request *) cut;  /* &cut_request: asked for and not yet taken */
    _Atomic wal_epoch rotate_behind;    /* there was a cut: new segments behind this epoch; 0: none */
    _Atomic wal_epoch drop_before;      /* 0: nothing to drop */
    atomic_int drop_error;              /* of the last time; 0: none */
    atomic_bool hold_back;
    _Atomic int64_t synced_ms; /* unix: to be told */
    int64_t synced_mono_ms;    /* the thread's: when the next sync is due does not depend on a clock that may be set */
    pthread_t thread;
    pthread_mutex_t lock; /* the fields below */
    pthread_cond_t cond;
    bool closed, stop, running; /* closed: an epoch waits to be written */
};

static void append(void *ctx, const struct op *op)
{
    const struct hook *h = ctx;
    wal_append(h->journal->wal, h->shard, op);
}

/* ---- closing an epoch */

static void wake(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    j->closed = true;
    pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->lock);
}

static void part_done(struct journal *j)
{
    if (atomic_fetch_sub(&j->parts, 1) == 1) atomic_store(&j->busy, false);
}

static void close_epoch(struct worker *w, struct task *t)
{
    struct journal *j = t->session;
    bool closed = wal_cut(j->wal) != 0;
    struct cut_request *cut = atomic_exchange(&j->cut, NULL);
    if (cut) {
        wal_epoch last = wal_open_epoch(j->wal) - 1;
        atomic_store(&j->rotate_behind, last);
        cut->call(cut->ctx, last);
    }
    if (closed) wake(j);
    else part_done(j); /* nothing had been appended */
}

static void closer_came_home(struct worker *w, struct task *t) { part_done(t->session); }

/* The caller has set busy. */
static void run_closer(struct journal *j, struct worker *w)
{
    struct task *t = &j->closer;
    t->pos = t->held = 0;
    t->end = 1;
    t->home = w->id;
    atomic_store(&j->parts, 2);
    if (task_start(w, t)) closer_came_home(w, t);
    task_pump(w);
}

static void start_closer(struct worker *w, struct mail *m)
{
    run_closer((struct journal *)((char *)m - offsetof(struct journal, start)), w);
}

void journal_hurry(struct journal *j, struct worker *w)
{
    if (!atomic_exchange(&j->busy, true)) run_closer(j, w);
}

/* ---- the thread */

static void set_error(struct journal *j, int error)
{
    if (atomic_exchange(&j->error, error) != error) j->told(j->ctx);
}

static void note_synced(struct journal *j)
{
    atomic_store(&j->synced_ms, clock_unix_ms());
    j->synced_mono_ms = clock_mono_us() / 1000;
}

static void sync_files(struct journal *j)
{
    int rc = wal_sync(j->wal);
    if (rc == 0) note_synced(j);
    else set_error(j, rc);
}

static bool stopping(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    bool stop = j->stop;
    pthread_mutex_unlock(&j->lock);
    return stop;
}

/* Writes the closed epoch, however long the disk is full, and syncs it if that is wanted. False: it cannot be written any more. */
static bool write_epoch(struct journal *j)
{
    bool sync = atomic_load(&j->policy) == JOURNAL_EVERY_WRITE;
    for (;;) {
        int rc = wal_broken(j->wal) ? -EIO : sync ? wal_commit(j->wal) : wal_write(j->wal);
        if (rc == 0 && sync) note_synced(j);
        set_error(j, rc);
        if (rc == 0) return true;
        if (wal_broken(j->wal) || stopping(j)) return false;
        struct timespec pause = {.tv_nsec = RETRY_MS * 1000000l};
        nanosleep(&pause, NULL);
    }
}

static void handle_epoch(struct journal *j)
{
    bool written = write_epoch(j);
    if (!written && !wal_broken(j->wal)) { /* stopped while the disk was full: journal_stop tries once more */
        pthread_mutex_lock(&j->lock);
        j->closed = true;
        pthread_mutex_unlock(&j->lock);
        return;
    }
    if (written) part_done(j); /* a broken log stays busy: it closes no further epoch */
    j->told(j->ctx);
}

static bool needs_tick(struct journal *j)
{
    bool wanted = wal_pending_bytes(j->wal) || atomic_load(&j->cut);
    return wanted && !wal_broken(j->wal) && !atomic_exchange(&j->busy, true);
}

/* Comes after every write, so between the epoch of a cut and the next one. What stays because of an error is tried again with the next dump. */
static void tidy_segments(struct journal *j)
{
    wal_epoch behind = atomic_load(&j->rotate_behind);
    if (behind && wal_written_epoch(j->wal) >= behind) {
        atomic_store(&j->rotate_behind, 0);
        wal_rotate(j->wal);
    }
    wal_epoch epoch = atomic_exchange(&j->drop_before, 0);
    int rc = epoch ? wal_drop_before(j->wal, epoch) : 0;
    if (epoch && atomic_exchange(&j->drop_error, rc) != rc) j->told(j->ctx);
}

static void tick(struct journal *j)
{
    if (needs_tick(j)) engine_send(j->engine, 0, &j->start);
    tidy_segments(j);
    if (wal_broken(j->wal) || atomic_load(&j->policy) == JOURNAL_OS_MANAGED) return;
    bool due = clock_mono_us() / 1000 - j->synced_mono_ms >= SYNC_MS;
    if (due && wal_synced_epoch(j->wal) < wal_written_epoch(j->wal)) {
        sync_files(j);
        j->told(j->ctx);
    }
}

/* Waits for a closed epoch or the next tick, with the lock held. */
static void wait_a_tick(struct journal *j)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_cond_timedwait(&j->cond, &j->lock, &until);
}

static void *run(void *arg)
{
    struct journal *j = arg;
    pthread_mutex_lock(&j->lock);
    while (!j->stop) {
        if (!j->closed) wait_a_tick(j);
        bool closed = j->closed;
        j->closed = false;
        pthread_mutex_unlock(&j->lock);
        if (closed) handle_epoch(j);
        tick(j);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* ---- life */

static void init_lock(struct journal *j)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->cond, &attr);
    pthread_condattr_destroy(&attr);
}

struct journal *journal_new(struct engine *e, struct wal *w, enum journal_policy policy, void (*told)(void *ctx), void *ctx)
{
    struct journal *j = mem_zalloc(sizeof *j);
    j->engine = e;
    j->wal = w;
    j->told = told;
    j->ctx = ctx;
    journal_set_policy(j, policy);
    note_synced(j);
    init_lock(j);
    task_init_all(&j->closer, e, close_epoch);
    j->closer.session = j;
    j->closer.finish = closer_came_home;
    j->start.to_worker = start_closer;
    j->hooks = mem_zalloc(e->route.shards * sizeof *j->hooks);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        j->hooks[i] = (struct hook){j, i};
        e->stores[i]->on_op = append;
        e->stores[i]->on_op_ctx = &j->hooks[i];
    }
    e->wal = w;
    return j;
}

void journal_start(struct journal *j)
{
    int rc = pthread_create(&j->thread, NULL, run, j);
    CHECK(rc == 0);
    pthread_setname_np(j->thread, "journal");
    j->running = true;
}

int journal_stop(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    j->stop = true;
    pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->lock);
    if (j->running) pthread_join(j->thread, NULL);
    int rc = wal_broken(j->wal) ? -EIO : j->closed ? wal_write(j->wal) : 0; /* closed, but the thread had seen the stop first */
    if (rc == 0 && wal_cut(j->wal)) rc = wal_write(j->wal);
    if (rc == 0) rc = wal_sync(j->wal);
    return rc;
}

void journal_free(struct journal *j)
{
    task_fini(&j->closer);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->cond);
    mem_free(j->hooks);
    mem_free(j);
}

/* ---- questions */

void journal_set_policy(struct journal *j, enum journal_policy policy)
{
    atomic_store(&j->policy, policy);
    atomic_store(&j->engine->reads_wait, policy == JOURNAL_EVERY_WRITE);
}

bool journal_allows(const struct journal *j, uint64_t epoch)
{
    if (!epoch) return true;
    if (atomic_load(&j->policy) == JOURNAL_EVERY_WRITE) return wal_synced_epoch(j->wal) >= epoch;
    bool free = wal_pending_bytes(j->wal) < PENDING_MAX && !atomic_load_explicit(&j->hold_back, memory_order_relaxed);
    return free || wal_written_epoch(j->wal) >= epoch;
}

bool journal_shows(const struct journal *j, uint64_t epoch)
{
    return wal_synced_epoch(j->wal) >= epoch || atomic_load(&j->policy) != JOURNAL_EVERY_WRITE || atomic_load(&j->error);
}

/* ---- dumps */

void journal_ask_cut(struct journal *j, journal_cut *cut, void *ctx)
{
    CHECK(!atomic_load(&j->cut));
    j->cut_request = (struct cut_request){cut, ctx};
    atomic_store(&j->cut, &j->cut_request);
}

bool journal_take_back_cut(struct journal *j) { return atomic_exchange(&j->cut, NULL) != NULL; }
void journal_drop_before(struct journal *j, wal_epoch epoch) { atomic_store(&j->drop_before, epoch); }

void journal_hold_back(struct journal *j, bool hold)
{
    if (atomic_exchange(&j->hold_back, hold) && !hold) j->told(j->ctx);
}

int journal_error(const struct journal *j) { return atomic_load(&j->error); }
int journal_drop_error(const struct journal *j) { return atomic_load(&j->drop_error); }
bool journal_broken(const struct journal *j) { return wal_broken(j->wal); }
int64_t journal_last_sync_ms(const struct journal *j) { return atomic_load(&j->synced_ms); }
