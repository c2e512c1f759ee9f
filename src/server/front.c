#include "server/front.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/evictor.h"
#include "server/pause.h"
#include "server/movers.h"
#include "server/rangekeeper.h"
#include "server/recover.h"
#include "server/relay_lane.h"
#include "server/sampler.h"
#include "server/subscribe.h"
#include "server/wide.h"
#include "server/widerange.h"
#include "server/widetxn.h"
#include "shard/journal.h"
#include "shard/seating.h"
#include "shard/topology.h"
#include "store/chill.h"

enum {
    CRON_MS = 100,
    UPKEEP_US = 1000,          /* of expiry per shard and slice */
    UPKEEP_SOON_MS = 2,        /* pause before the next slice when there is more to do */
    GROW_BUCKETS = 64,         /* moved per slice */
    COMPACT_ENTRIES = 2000,    /* looked at for moving, per slice */
    BURY_ENTRIES = 2000,       /* of flushed databases, per slice */
    STOP_MAX_MS = 5000,        /* answers that cannot be sent by then are given up */
    SPARE_BATCH_BYTES = 64 * 1024,
    KEEP_BATCH_ARGS = 16 * 1024,
    TOUCH_MAX = 32,            /* connections whose first entry is fetched ahead: about what a core can have in flight */
};

/* ---- batches */

struct batch *front_batch(struct front *f)
{
    struct batch *b = f->spare_batches;
    if (!b) return mem_zalloc(sizeof *b);
    f->spare_batches = b->next;
    return b;
}

void front_batch_put(struct front *f, struct batch *b)
{
    if (b->chunk) {
        chunk_unref(b->chunk);
        b->chunk = NULL;
    }
    if (b->bytes.p) buf_fini(&b->bytes);
    if (unlikely(b->task.cap_args > KEEP_BATCH_ARGS || b->task.carry.cap > SPARE_BATCH_BYTES)) { /* grew large once: not kept */
        task_fini(&b->task);
        mem_free(b);
        return;
    }
    task_clear(&b->task);
    b->next = f->spare_batches;
    f->spare_batches = b;
}

/* ---- ready connections */

void front_ready(struct front *f, struct conn *c)
{
    if (c->ready) return;
    c->ready = true;
    c->next_ready = NULL;
    *f->ready_end = c;
    f->ready_end = &c->next_ready;
}

/* Entries of all that will run in this turn are touched first: the misses of many connections overlap. */
static void touch_ready(struct front *f)
{
    unsigned n = 0;
    for (struct conn *c = f->ready; c && n < TOUCH_MAX; c = c->next_ready, n++) {
        if (!c->batch || c->away) continue;
        c->batch->task.db = c->db;
        task_touch(&f->worker, &c->batch->task);
    }
}

static void run_ready(struct front *f)
{
    if (f->ready && f->ready->next_ready) touch_ready(f);
    struct conn *c = f->ready, *next;
    f->ready = NULL; /* what becomes ready meanwhile has its turn after the next look at the sockets */
    f->ready_end = &f->ready;
    for (; c; c = next) {
        next = c->next_ready;
        c->ready = false;
        conn_run(c);
        if (unlikely(f->worker.runnable)) task_pump(&f->worker);
    }
}

/* ---- connections whose replies wait for the log */

void front_hold(struct front *f, struct conn *c)
{
    c->held = true;
    c->next_held = f->held;
    f->held = c;
}

void front_unhold(struct front *f, struct conn *c)
{
    if (!c->held) return;
    struct conn **p = &f->held;
    while (*p != c) p = &(*p)->next_held;
    *p = c->next_held;
    c->held = false;
}

static void release_held(struct worker *w, struct mail *m)
{
    struct front *f = front_of(w);
    const struct journal *j = f->server->journal;
    atomic_store(&f->journal_told, false); /* before looking: what comes later tells again */
    for (struct conn **p = &f->held; *p;) {
        struct conn *c = *p;
        if (!journal_broken(j) && !conn_may_send(c)) {
            p = &c->next_held;
            continue;
        }
        *p = c->next_held;
        if (!journal_broken(j) || !c->epoch) {
            conn_release(c);
        } else { /* whether the ops are on disk is not known, so neither yes nor no is true */
            c->held = false;
            c->out.len = 0;
            conn_close(c);
        }
    }
}

void front_journal_advanced(struct front *f)
{
    if (!atomic_exchange(&f->journal_told, true)) engine_send(f->worker.engine, f->worker.id, &f->journal_mail);
}

/* ---- timers: a binary heap, each connection knowing its place */

static void place_timer(struct front *f, uint32_t i, struct conn *c)
{
    f->timers[i] = c;
    c->timer = (int)i;
}

static void sift_up(struct front *f, uint32_t i, struct conn *c)
{
    for (; i && f->timers[(i - 1) / 2]->deadline_ms > c->deadline_ms; i = (i - 1) / 2) place_timer(f, i, f->timers[(i - 1) / 2]);
    place_timer(f, i, c);
}

static void sift_down(struct front *f, uint32_t i, struct conn *c)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= f->n_timers) break;
        if (child + 1 < f->n_timers && f->timers[child + 1]->deadline_ms < f->timers[child]->deadline_ms) child++;
        if (f->timers[child]->deadline_ms >= c->deadline_ms) break;
        place_timer(f, i, f->timers[child]);
        i = child;
    }
    place_timer(f, i, c);
}

static void remove_timer(struct front *f, struct conn *c)
{
    uint32_t i = (uint32_t)c->timer;
    struct conn *last = f->timers[--f->n_timers];
    c->timer = -1;
    if (last == c) return;
    sift_up(f, i, last);
    sift_down(f, (uint32_t)last->timer, last);
}

void front_set_timer(struct front *f, struct conn *c, int64_t deadline_ms)
{
    if (c->timer >= 0) remove_timer(f, c);
    c->deadline_ms = deadline_ms;
    if (!deadline_ms) return;
    if (f->n_timers == f->cap_timers) {
        f->cap_timers = f->cap_timers ? f->cap_timers * 2 : 64;
        f->timers = mem_resize(f->timers, f->cap_timers * sizeof *f->timers);
    }
    sift_up(f, f->n_timers++, c);
}

static void fire_timers(struct front *f)
{
    while (f->n_timers && f->timers[0]->deadline_ms <= f->worker.mono_ms) {
        struct conn *c = f->timers[0];
        remove_timer(f, c);
        conn_timeout(c);
    }
}

/* ---- upkeep */

/* Its next request is one that a pause still holds. */
static bool stays_paused(const struct conn *c)
{
    if (!c->batch || c->batch->task.pos == c->batch->task.n_requests) return false;
    const struct request *r = &c->batch->task.requests[c->batch->task.pos];
    return r->cmd && !r->flaw && pause_holds(c, r->cmd);
}

void front_unpause(struct front *f)
{
    for (struct conn *c = f->conns; c; c = c->next) {
        if (!c->paused || stays_paused(c)) continue;
        c->paused = false;
        front_ready(f, c);
    }
}

void front_starve(struct front *f, struct conn *c)
{
    c->paused = true;
    f->starving = true;
}

static void check_pause(struct front *f)
{
    struct server *s = f->server;
    int64_t until = atomic_load(&s->pause_until_ms);
    if (until && f->worker.mono_ms >= until) atomic_compare_exchange_strong(&s->pause_until_ms, &until, 0);
    front_unpause(f);
}

static bool may_expire(const struct engine *e, const struct shard *s) { return !e->seating || e->seating->rules(e->seating->ctx, s); }

/* A slice of background work on each shard at home here whose token is free. */
static void upkeep(struct front *f)
{
    struct engine *e = f->worker.engine;
    f->more_upkeep = false;
    if (atomic_load(&f->server->loading)) return;
    bool compact = evictor_wants_compaction(f->server);
    bool expire = atomic_load(&f->server->active_expire) && !pause_active(f->server);
    for (uint32_t i = f->worker.id; i < e->route.shards; i += e->n_workers) {
        struct shard *s = &e->shards[i];
        if (!engine_try(s)) {
            f->more_upkeep = true;
            continue;
        }
        task_enter(&f->worker, s);
        if (expire && may_expire(e, s)) f->more_upkeep |= store_expire_step(s->store, UPKEEP_US, clock_mono_us);
        f->more_upkeep |= store_grow_step(s->store, GROW_BUCKETS);
        f->more_upkeep |= chill_bury_step(s->store, BURY_ENTRIES);
        f->more_upkeep |= store_compact_step(s->store, COMPACT_ENTRIES, compact);
        if (e->seating) e->seating->settle(e->seating->ctx, s);
        engine_publish_numbers(s);
        engine_release(&f->worker, s);
    }
    if (f->worker.id == 0) f->more_upkeep |= evictor_step(&f->worker, f->server);
}

static void check_conn(struct front *f, struct conn *c)
{
    int64_t timeout_s = CONFIG_NUM(f->server->config, timeout_s);
    if (!conn_check_limits(c, f->worker.mono_ms)) return;
    if (timeout_s && conn_idle(c) && !c->subs && f->worker.mono_ms - c->active_ms > timeout_s * 1000) conn_close(c);
}

/* Looks at a tenth of the connections, so at each once a second. */
static void check_conns(struct front *f)
{
    uint32_t n = f->n_conns / 10 + 1;
    while (n--) {
        struct conn *c = f->cron_at ? f->cron_at : f->conns;
        if (!c) return;
        f->cron_at = c->next;
        check_conn(f, c);
    }
}

static void cron(struct front *f)
{
    int64_t now = f->worker.mono_ms;
    if (f->worker.id == 0) {
        evictor_tick(f->server, now);
        topology_tick(f->server->topology, &f->worker);
    }
    if (now < f->next_cron_ms) {
        if (f->more_upkeep) upkeep(f);
        if (f->starving) {
            f->starving = false;
            front_unpause(f);
        }
        return;
    }
    f->next_cron_ms = now + CRON_MS;
    f->cron_count++;
    __atomic_store_n(&f->worker.stats.cpu_us, (uint64_t)clock_thread_us(), __ATOMIC_RELAXED);
    upkeep(f);
    check_conns(f);
    loop_listen_again(f->loop);
    check_pause(f);
    if (f->worker.id != 0) return;
    rangekeeper_tick(f->server->rangekeeper, &f->worker);
    sampler_tick(f->server, now);
    recover_tick(f->server, f->worker.now_ms);
}

/* ---- the loop's events */

static void on_accept(void *ctx, int tag, int fd)
{
    struct front *f = ctx;
    struct server *s = f->server;
    unsigned n = atomic_fetch_add(&s->connections, 1) + 1;
    atomic_fetch_add(&s->connections_total, 1);
    if (n <= (unsigned)CONFIG_NUM(s->config, maxclients)) {
        conn_new(f, fd, tag);
        return;
    }
    static const char full[] = "-ERR max number of clients reached\r\n";
    ssize_t rc = write(fd, full, sizeof full - 1);
    (void)rc;
    close(fd);
    atomic_fetch_sub(&s->connections, 1);
    atomic_fetch_add(&s->connections_rejected, 1);
}

/* A stream is a client's connection, or, aside from those, a lane to another node. What a lane brings runs at once, before the turn has its time: the worker may have slept since the last one. */
static struct relay_lane *lane_of(struct front *f, struct stream *st)
{
    engine_clock(&f->worker);
    return st->owner;
}

static void on_data(void *ctx, struct stream *st, struct chunk *chunk, char *p, size_t n)
{
    if (unlikely(st->aside)) relay_lane_data(lane_of(ctx, st), slice_of(p, n));
    else conn_data(st->owner, chunk, p, n);
}

static void on_end(void *ctx, struct stream *st, int error)
{
    if (st->aside) relay_lane_ended(lane_of(ctx, st));
    else conn_ended(st->owner, error);
}

static bool on_drained(void *ctx, struct stream *st) { return !st->aside && conn_drained(st->owner); }

static void on_closed(void *ctx, struct stream *st)
{
    if (st->aside) relay_lane_closed(st->owner);
    else conn_freed(st->owner);
}

static const struct loop_handler handler = {on_accept, on_data, on_end, on_drained, on_closed};

/* ---- stopping */

static void begin_stop(struct worker *w, struct mail *m)
{
    struct front *f = front_of(w);
    f->stopping = true;
    loop_stop_listening(f->loop);
}

/* Closes what is idle; true when nothing is left, here and on all other fronts: as long as one has work, a token or a task may come
 * here and must be taken care of. */
static bool stopped(struct front *f)
{
    for (struct conn *c = f->conns, *next; c; c = next) {
        next = c->next;
        if (conn_idle(c) || c->waiter || c->waits || c->paused) conn_close(c);
    }
    if (f->n_unfreed || atomic_load(&f->server->connections)) return false;
    return !f->relay || relay_lane_stop(f->relay);
}

/* ---- the thread */

static int sleep_ms(struct front *f)
{
    if (f->ready || f->worker.runnable) return 0;
    int64_t until = f->stopping ? f->worker.mono_ms + UPKEEP_SOON_MS : f->next_cron_ms;
    if ((f->more_upkeep || f->starving) && until > f->worker.mono_ms + UPKEEP_SOON_MS) until = f->worker.mono_ms + UPKEEP_SOON_MS;
    if (f->n_timers && f->timers[0]->deadline_ms < until) until = f->timers[0]->deadline_ms;
    int slice_ms = f->worker.id == 0 ? topology_wait_ms(f->server->topology) : -1;
    if (slice_ms >= 0 && f->worker.mono_ms + slice_ms < until) until = f->worker.mono_ms + slice_ms;
    int64_t ms = until - f->worker.mono_ms;
    int relay_ms = f->relay ? relay_wait_ms(f) : -1;
    int txns_ms = f->txns ? widetxn_wait_ms(f) : -1;
    int ranges_ms = f->ranges ? widerange_wait_ms(f) : -1;
    if (relay_ms >= 0 && relay_ms < ms) ms = relay_ms;
    if (txns_ms >= 0 && txns_ms < ms) ms = txns_ms;
    if (ranges_ms >= 0 && ranges_ms < ms) ms = ranges_ms;
    int wides_ms = f->wides ? wide_wait_ms(f) : -1;
    if (wides_ms >= 0 && wides_ms < ms) ms = wides_ms;
    int moves_ms = f->movers ? movers_wait_ms(f) : -1;
    if (moves_ms >= 0 && moves_ms < ms) ms = moves_ms;
    return ms < 0 ? 0 : (int)ms;
}

static void turn(struct front *f)
{
    struct worker *w = &f->worker;
    int ms = sleep_ms(f);
    if (ms > 0 && !engine_may_sleep(w)) ms = 0;
    loop_turn(f->loop, ms);
    engine_awake(w);
    engine_clock(w);
    STAT_ADD(w->stats.turns, 1);
    engine_receive(w);
    if (unlikely(w->runnable)) task_pump(w);
    fire_timers(f);
    cron(f);
    run_ready(f);
    if (f->held) journal_hurry(f->server->journal, w);
    if (unlikely(f->txns != NULL)) widetxn_turn(f);
    if (unlikely(f->ranges != NULL)) widerange_turn(f);
    if (unlikely(f->wides != NULL)) wide_turn(f);
    if (unlikely(f->movers != NULL)) movers_turn(f);
    if (unlikely(f->relay != NULL)) relay_turn(f);
}

static void *run(void *arg)
{
    struct front *f = arg;
    char error[128];
    static const enum loop_backend backends[] = {LOOP_AUTO, LOOP_EPOLL, LOOP_URING};
    struct loop *loop = loop_new(backends[CONFIG_NUM(f->server->config, io_backend)], f->worker.wake_fd, &handler, f, error);
    __atomic_store_n(&f->loop, loop, __ATOMIC_RELEASE); /* the sampler of a front that runs already looks at it */
    f->start_failed = !loop;
    if (!loop) {
        slog(&f->server->log, SLOG_WARNING, "no event loop", "error=%s", error);
        sem_post(f->started);
        return NULL;
    }
    for (int i = 0; i < f->n_listeners; i++) loop_listen(f->loop, f->listeners[i].fd, f->listeners[i].is_unix);
    f->server->io_backend = loop_name(f->loop);
    sem_post(f->started);
    int64_t give_up_ms = 0;
    while (!f->stopping || !stopped(f)) {
        turn(f);
        if (!f->stopping) continue;
        if (!give_up_ms) give_up_ms = f->worker.mono_ms + STOP_MAX_MS;
        else if (f->worker.mono_ms > give_up_ms) break;
    }
    return NULL;
}

struct front *front_new(struct server *s)
{
    struct front *f = aligned_alloc(_Alignof(struct front), sizeof *f);
    CHECK(f);
    memset(f, 0, sizeof *f);
    engine_init_worker(&f->worker, s->engine);
    f->server = s;
    f->ready_end = &f->ready;
    f->topics = subscribe_topics_new();
    f->stop_mail.to_worker = begin_stop;
    f->journal_mail.to_worker = release_held;
    f->argv_cap = 64;
    f->argv = mem_alloc(f->argv_cap * sizeof *f->argv);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

bool front_start(struct front *f)
{
    sem_t started;
    sem_init(&started, 0, 0);
    f->started = &started;
    int rc = pthread_create(&f->thread, NULL, run, f);
    CHECK(rc == 0);
    char name[16];
    snprintf(name, sizeof name, "worker-%u", f->worker.id);
    pthread_setname_np(f->thread, name);
    while (sem_wait(&started) < 0 && errno == EINTR) {
    }
    sem_destroy(&started);
    return !f->start_failed;
}

void front_join(struct front *f) { pthread_join(f->thread, NULL); }

void front_free(struct front *f)
{
    if (f->loop) loop_free(f->loop);
    while (f->spare_batches) {
        struct batch *b = f->spare_batches;
        f->spare_batches = b->next;
        task_fini(&b->task);
        mem_free(b);
    }
    subscribe_topics_free(f->topics);
    engine_fini_worker(&f->worker);
    mem_free(f->argv);
    mem_free(f->timers);
    mem_free(f->listeners);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
