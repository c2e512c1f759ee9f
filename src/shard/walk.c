#include "shard/walk.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "shard/journal.h"
#include "shard/task.h"
#include "shard/thaw.h"
#include "store/chill.h"
#include "store/cut.h"

enum {
    TICK_MS = 100,
    SLICE_ENTRIES = 64,            /* of a walk in one turn of a worker's loop */
    SLICE_BYTES = 64 << 10,        /* or so many bytes */
    STEP_ENTRIES = 8,
    CHUNK_BYTES = 256 << 10,       /* handed over at once */
    WALK_AHEAD_BYTES = 4 << 20,    /* copied and not taken: from here on the walks wait */
    HOLD_BACK_MIN_BYTES = 16 << 20, /* from here on, or from a part of the data's size, the writers do */
    HOLD_BACK_SHARE = 32,
};

/* Entries on their way to the thread. */
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

struct lane { /* one shard's part */
    struct walk *walk;
    struct cut *cut;
    struct chunk *open;    /* the token's holder's: being filled */
    struct mail slice;     /* the walk of the shard is this message; it belongs to whoever it was sent to */
    atomic_bool waits;     /* it stands still until the thread has caught up */
    _Atomic uint64_t done; /* entries */
};

struct place_in_line {
    struct place_in_line *next;
    const struct walk_sink *sink;
    const uint32_t *shards; /* that are walked */
    uint32_t n_shards;
    bool at_epoch;          /* the log makes the cut */
    void (*at_cut)(void *ctx);
    bool walking;   /* the cut is made */
    uint64_t total; /* entries, then */
};

struct walk {
    struct engine *engine;
    struct journal *journal;
    struct lane *lanes; /* [shards] */
    uint32_t *all;      /* [shards] their numbers */
    struct task cutter; /* where the log does not: takes the tokens and makes the cut */
    struct mail start;  /* asks worker 0 to run it */

    /* the one that is under way */
    const struct place_in_line *run;
    const struct walk_sink *sink; /* its */
    struct walk_moment moment;    /* set by the cut */
    _Atomic(struct chunk *) full; /* chunks on their way to the thread, newest first */
    _Atomic uint64_t backlog;     /* bytes in them and in the open ones */
    _Atomic uint64_t backlog_max; /* see walk_set_backlog_max */
    _Atomic uint64_t hold_back_bytes; /* backlog from which on answers to writes wait */
    atomic_bool abandoned, cut_made;

    atomic_bool stop;
    atomic_bool sleeping; /* the thread: somebody must wake it */
    pthread_mutex_t lock; /* the line; and sleeping is set under it */
    pthread_cond_t changed;
    struct place_in_line *line; /* the first one walks */
};

/* ---- sleeping and waking */

static void wake(struct walk *w)
{
    if (!atomic_exchange(&w->sleeping, false)) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* With the lock held: for a tick, or until something has changed. */
static void wait_a_tick(struct walk *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
}

/* Announces sleep, then looks whether there is still no reason to be awake: whoever makes one looks at `sleeping` afterwards. */
static void sleep_unless(struct walk *w, bool (*awake)(const struct walk *w))
{
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->sleeping, true);
    if (!awake(w) && !atomic_load(&w->stop)) wait_a_tick(w);
    atomic_store(&w->sleeping, false);
    pthread_mutex_unlock(&w->lock);
}

/* ---- under tokens: copying */

static struct chunk *chunk_new(const struct lane *l)
{
    struct chunk *c = mem_zalloc(sizeof *c);
    c->shard = (uint32_t)(l - l->walk->lanes);
    return c;
}

static void chunk_free(struct chunk *c)
{
    buf_fini(&c->raw);
    buf_fini(&c->cold);
    mem_free(c);
}

static void hand_over(struct lane *l, bool last)
{
    struct walk *w = l->walk;
    struct chunk *c = l->open;
    if (!c) {
        if (!last) return;
        c = chunk_new(l);
    }
    l->open = NULL;
    c->last = last;
    c->next = atomic_load(&w->full);
    while (!atomic_compare_exchange_weak(&w->full, &c->next, c)) continue;
    wake(w);
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

static void copy(struct walk *w, struct chunk *c, uint16_t db, const struct entry *e)
{
    const struct walk_sink *sink = w->sink;
    if (likely(!chill_is_cold(e))) c->entries += sink->copy(sink->ctx, &c->raw, db, e);
    else if (sink->wants_cold(sink->ctx, db, e)) add_cold(c, w->engine->thaws->tier, db, e);
}

static void emit(void *ctx, uint16_t db, const struct entry *e)
{
    struct lane *l = ctx;
    struct walk *w = l->walk;
    if (!l->open) {
        l->open = chunk_new(l);
        buf_room(&l->open->raw, CHUNK_BYTES + (CHUNK_BYTES >> 3));
    }
    struct chunk *c = l->open;
    size_t before = c->raw.len + c->cold.len;
    copy(w, c, db, e);
    size_t now = c->raw.len + c->cold.len;
    uint64_t backlog = atomic_fetch_add_explicit(&w->backlog, now - before, memory_order_relaxed);
    if (now >= CHUNK_BYTES) hand_over(l, false);
    bool too_much = backlog > atomic_load_explicit(&w->hold_back_bytes, memory_order_relaxed);
    if (unlikely(too_much) && w->journal) journal_hold_back(w->journal, true);
}

/* ---- under tokens: walking */

/* One slice. True while there is more. */
static bool walk_slice(struct lane *l)
{
    struct walk *w = l->walk;
    if (atomic_load_explicit(&w->abandoned, memory_order_relaxed)) cut_abandon(l->cut);
    uint64_t from = atomic_load_explicit(&w->backlog, memory_order_relaxed);
    bool more = true;
    for (unsigned n = 0; more && n < SLICE_ENTRIES; n += STEP_ENTRIES) {
        more = cut_step(l->cut, STEP_ENTRIES);
        if (atomic_load_explicit(&w->backlog, memory_order_relaxed) > from + SLICE_BYTES) break;
    }
    atomic_store_explicit(&l->done, cut_done(l->cut), memory_order_relaxed);
    return more;
}

static void send_slice(struct lane *l)
{
    struct engine *e = l->walk->engine;
    engine_send(e, e->shards[l - l->walk->lanes].home, &l->slice);
}

static uint64_t ahead_bytes(struct walk *w)
{
    uint64_t half = atomic_load_explicit(&w->hold_back_bytes, memory_order_relaxed) / 2;
    return half < WALK_AHEAD_BYTES ? half : WALK_AHEAD_BYTES;
}

static bool run_slice(struct worker *worker, struct shard *s, struct mail *m)
{
    struct lane *l = (struct lane *)((char *)m - offsetof(struct lane, slice));
    struct walk *w = l->walk;
    if (!walk_slice(l)) {
        hand_over(l, true);
    } else if (atomic_load_explicit(&w->backlog, memory_order_relaxed) < ahead_bytes(w)) {
        send_slice(l);
    } else {
        hand_over(l, false);
        atomic_store(&l->waits, true);
        wake(w); /* it may have caught up before it could see that we wait */
    }
    return true;
}

static void start_slice(struct worker *worker, struct mail *m)
{
    struct lane *l = (struct lane *)((char *)m - offsetof(struct lane, slice));
    engine_post(worker, &worker->engine->shards[l - l->walk->lanes], m);
}

/* ---- the tokens held: the cut */

static void cut_all(struct walk *w, uint64_t epoch)
{
    const struct place_in_line *run = w->run;
    uint64_t bytes = 0;
    w->moment = (struct walk_moment){.epoch = epoch, .unix_ms = clock_unix_ms()};
    for (uint32_t i = 0; i < run->n_shards; i++) {
        uint32_t shard = run->shards[i];
        struct lane *l = &w->lanes[shard];
        l->cut = cut_begin(w->engine->stores[shard], emit, l);
        atomic_store_explicit(&l->done, 0, memory_order_relaxed);
        bytes += store_bytes(w->engine->stores[shard]);
        w->moment.entries += cut_total(l->cut);
    }
    if (run->at_cut) run->at_cut(w->sink->ctx);
    uint64_t may = bytes / HOLD_BACK_SHARE > HOLD_BACK_MIN_BYTES ? bytes / HOLD_BACK_SHARE : HOLD_BACK_MIN_BYTES, max = atomic_load(&w->backlog_max);
    atomic_store(&w->hold_back_bytes, max && max < may ? max : may);
}

static void tell_cut_made(struct walk *w)
{
    atomic_store(&w->cut_made, true);
    wake(w);
}

static void cut_at_epoch(void *ctx, wal_epoch epoch)
{
    cut_all(ctx, epoch);
    tell_cut_made(ctx);
}

static void cut_without_log(struct worker *worker, struct task *t) { cut_all(t->session, 0); }
static void cutter_came_home(struct worker *worker, struct task *t) { tell_cut_made(t->session); }

static void start_cutter(struct worker *worker, struct mail *m)
{
    struct walk *w = (struct walk *)((char *)m - offsetof(struct walk, start));
    struct task *t = &w->cutter;
    t->pos = t->held = 0;
    t->end = 1;
    t->home = worker->id;
    if (task_start(worker, t)) cutter_came_home(worker, t);
    task_pump(worker);
}

/* ---- the thread: the cut */

static bool is_cut_made(const struct walk *w) { return atomic_load(&w->cut_made); }

static bool is_unwanted(const struct walk *w) { return atomic_load(&w->stop) || !w->sink->goes_on(w->sink->ctx); }

/* The log cannot close an epoch now, or nobody wants the cut: it is taken back, unless it is just being made. Where the log does not make it, it is as good as made. */
static bool take_back(struct walk *w, int *error)
{
    *error = w->run->at_epoch ? journal_error(w->journal) : 0;
    if (!*error && is_unwanted(w)) *error = -ECANCELED;
    if (!*error) return false;
    return w->run->at_epoch ? journal_take_back_cut(w->journal) : atomic_load(&w->stop);
}

static void prepare_cutter(struct walk *w)
{
    task_fini(&w->cutter);
    task_init_some(&w->cutter, w->engine, w->run->shards, w->run->n_shards, cut_without_log);
    w->cutter.session = w;
    w->cutter.finish = cutter_came_home;
}

static void ask_for_cut(struct walk *w)
{
    atomic_store(&w->cut_made, false);
    if (w->run->at_epoch) {
        journal_ask_cut(w->journal, cut_at_epoch, w);
    } else {
        prepare_cutter(w);
        engine_send(w->engine, 0, &w->start);
    }
}

static int wait_for_cut(struct walk *w)
{
    int error;
    ask_for_cut(w);
    while (!is_cut_made(w)) {
        sleep_unless(w, is_cut_made);
        if (!is_cut_made(w) && take_back(w, &error)) return error;
    }
    return 0;
}

/* ---- the thread: taking */

struct run {
    struct walk *w;
    uint32_t lanes_left;
    int error;
};

static void fail(struct run *r, int error)
{
    if (!r->error) r->error = error;
    atomic_store(&r->w->abandoned, true);
}

static void take_raw(struct run *r, struct chunk *c)
{
    const struct walk_sink *sink = r->w->sink;
    int rc = r->error || !c->entries ? 0 : sink->take(sink->ctx, c->shard, buf_slice(&c->raw), c->entries);
    if (rc < 0) fail(r, rc);
    c->raw.len = c->entries = 0;
}

/* Cold values come by way of c->raw, which has been taken. One that cannot be read fails the walk: what is not whole is worth nothing. */
static void take_cold(struct run *r, struct chunk *c)
{
    const struct walk_sink *sink = r->w->sink;
    struct tier *t = r->w->engine->thaws->tier;
    struct buf bytes = {0};
    struct cold_entry cold;
    for (size_t at = 0; at < c->cold.len; at += sizeof cold + cold.key_len) {
        memcpy(&cold, c->cold.p + at, sizeof cold);
        struct slice key = slice_of(c->cold.p + at + sizeof cold, cold.key_len);
        bytes.len = 0;
        int rc = r->error ? 0 : tier_get(t, cold.ref, key, &bytes);
        tier_unpin(t, cold.ref);
        if (rc == 0 && !r->error) rc = sink->copy_cold(sink->ctx, &c->raw, cold.db, key, cold.expiry_ms, chill_image(buf_slice(&bytes)));
        if (rc < 0) fail(r, rc);
        if (r->error) continue;
        c->entries++;
        if (c->raw.len >= CHUNK_BYTES) take_raw(r, c);
    }
    take_raw(r, c);
    buf_fini(&bytes);
}

static void take_chunk(struct run *r, struct chunk *c)
{
    struct walk *w = r->w;
    size_t bytes = c->raw.len + c->cold.len;
    take_raw(r, c);
    if (c->cold.len) take_cold(r, c);
    if (c->last) r->lanes_left--;
    uint64_t left = atomic_fetch_sub(&w->backlog, bytes) - bytes;
    if (w->journal && left < atomic_load(&w->hold_back_bytes) / 2) journal_hold_back(w->journal, false);
    chunk_free(c);
}

/* Chunks of a shard are taken in the order in which they were filled. */
static struct chunk *oldest_first(struct chunk *newest)
{
    struct chunk *first = NULL;
    for (struct chunk *next; newest; newest = next) {
        next = newest->next;
        newest->next = first;
        first = newest;
    }
    return first;
}

static bool is_there_a_chunk(const struct walk *w) { return atomic_load(&w->full) != NULL; }

/* What is left when nothing is there to be taken stands in chunks that are still filled, by writers perhaps: they come with the walks that are to fill them, so these do not wait for them. */
static void let_slices_go_on(struct walk *w)
{
    if (is_there_a_chunk(w) && atomic_load(&w->backlog) >= ahead_bytes(w) / 2) return;
    for (uint32_t i = 0; i < w->run->n_shards; i++) {
        struct lane *l = &w->lanes[w->run->shards[i]];
        if (atomic_exchange(&l->waits, false)) send_slice(l);
    }
}

/* Until all shards are at their end; or, when the server stops, until then: its workers do not walk any more. */
static void take_all(struct run *r)
{
    struct walk *w = r->w;
    while (r->lanes_left && !atomic_load(&w->stop)) {
        struct chunk *c = oldest_first(atomic_exchange(&w->full, NULL));
        for (struct chunk *next; c; c = next) {
            next = c->next;
            take_chunk(r, c);
        }
        let_slices_go_on(w);
        if (is_unwanted(w)) fail(r, -ECANCELED);
        if (r->lanes_left) sleep_unless(w, is_there_a_chunk);
    }
}

static void release_cuts(struct walk *w)
{
    for (uint32_t i = 0; i < w->engine->route.shards; i++) {
        if (w->lanes[i].cut) cut_free(w->lanes[i].cut);
        w->lanes[i].cut = NULL;
    }
}

static void note_begun(struct walk *w, struct place_in_line *me)
{
    pthread_mutex_lock(&w->lock);
    me->walking = true;
    me->total = w->moment.entries;
    pthread_mutex_unlock(&w->lock);
}

static int run_first_in_line(struct walk *w, struct place_in_line *me)
{
    w->run = me;
    w->sink = me->sink;
    atomic_store(&w->abandoned, false);
    int error = wait_for_cut(w);
    if (error) return error;
    struct run r = {.w = w, .lanes_left = me->n_shards};
    note_begun(w, me);
    w->sink->begin(w->sink->ctx, &w->moment);
    for (uint32_t i = 0; i < me->n_shards; i++) send_slice(&w->lanes[me->shards[i]]);
    take_all(&r);
    if (r.lanes_left) return -ECANCELED; /* walk_free releases what is under way, when nothing else runs */
    release_cuts(w);
    if (w->journal) journal_hold_back(w->journal, false);
    return r.error;
}

/* ---- the line */

static void leave_line(struct walk *w, struct place_in_line *me)
{
    struct place_in_line **at = &w->line;
    while (*at != me) at = &(*at)->next;
    *at = me->next;
    pthread_cond_broadcast(&w->changed);
}

static int wait_in_line(struct walk *w, struct place_in_line *me)
{
    int error = 0;
    struct place_in_line **at = &w->line;
    pthread_mutex_lock(&w->lock);
    while (*at) at = &(*at)->next;
    *at = me;
    while (w->line != me && !error) {
        wait_a_tick(w);
        if (atomic_load(&w->stop) || !me->sink->goes_on(me->sink->ctx)) error = -ECANCELED;
    }
    if (error) leave_line(w, me);
    pthread_mutex_unlock(&w->lock);
    return error;
}

static int run_in_turn(struct walk *w, struct place_in_line *me)
{
    int error = wait_in_line(w, me);
    if (error) return error;
    error = run_first_in_line(w, me);
    pthread_mutex_lock(&w->lock);
    leave_line(w, me);
    pthread_mutex_unlock(&w->lock);
    return error;
}

int walk_run(struct walk *w, const struct walk_sink *sink)
{
    struct place_in_line me = {.sink = sink, .shards = w->all, .n_shards = w->engine->route.shards, .at_epoch = w->journal != NULL};
    return run_in_turn(w, &me);
}

int walk_run_some(struct walk *w, const struct walk_sink *sink, const uint32_t *shards, uint32_t n, void (*at_cut)(void *ctx))
{
    struct place_in_line me = {.sink = sink, .shards = shards, .n_shards = n, .at_cut = at_cut};
    CHECK(n > 0 && shards[n - 1] < w->engine->route.shards);
    for (uint32_t i = 1; i < n; i++) CHECK(shards[i - 1] < shards[i]);
    return run_in_turn(w, &me);
}

struct walk_progress walk_progress(struct walk *w, const struct walk_sink *sink)
{
    struct walk_progress p = {0};
    pthread_mutex_lock(&w->lock);
    for (const struct place_in_line *at = w->line; at; at = at->next) {
        if (at->sink != sink) continue;
        p.waits = !at->walking;
        p.total = at->total;
        if (!at->walking) break;
        p.backlog_bytes = atomic_load(&w->backlog);
        for (uint32_t i = 0; i < at->n_shards; i++) p.done += atomic_load_explicit(&w->lanes[at->shards[i]].done, memory_order_relaxed);
    }
    pthread_mutex_unlock(&w->lock);
    return p;
}

/* ---- life */

struct walk *walk_new(struct engine *e, struct journal *j)
{
    struct walk *w = mem_zalloc(sizeof *w);
    pthread_condattr_t attr;
    w->engine = e;
    w->journal = j;
    w->start.to_worker = start_cutter;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    w->lanes = mem_zalloc(e->route.shards * sizeof *w->lanes);
    w->all = mem_alloc(e->route.shards * sizeof *w->all);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        w->all[i] = i;
        w->lanes[i].walk = w;
        w->lanes[i].slice = (struct mail){.to_worker = start_slice, .to_shard = run_slice};
    }
    return w;
}

void walk_set_backlog_max(struct walk *w, uint64_t bytes) { atomic_store(&w->backlog_max, bytes); }

void walk_stop(struct walk *w)
{
    atomic_store(&w->stop, true);
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void walk_free(struct walk *w)
{
    CHECK(!w->line);
    release_cuts(w);
    for (struct chunk *c = atomic_load(&w->full), *next; c; c = next) {
        next = c->next;
        chunk_free(c);
    }
    for (uint32_t i = 0; i < w->engine->route.shards; i++)
        if (w->lanes[i].open) chunk_free(w->lanes[i].open);
    task_fini(&w->cutter);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    mem_free(w->lanes);
    mem_free(w->all);
    mem_free(w);
}
