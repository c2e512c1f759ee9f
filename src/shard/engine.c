#include "shard/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"

/* How often a worker empties a mailbox that keeps filling before the token goes to the home worker's inbox: a helper soon, so that no connection's thread is captured
 * by a hot shard; the home worker later, to itself, so that its connections and other shards have their turn in between. */
enum { HELPER_ROUNDS = 4, HOME_ROUNDS = 16 };

struct engine_maps { /* a list, and its lock */
    pthread_mutex_t lock;
    struct old_map *first;
};

struct engine *engine_new(uint32_t shards, uint64_t seed, uint64_t r, const struct command_table *commands)
{
    CHECK(shards >= 1 && shards <= UINT16_MAX);
    struct engine *e = mem_zalloc(sizeof *e);
    e->route = (struct route){.seed = seed, .shards = shards, .shifts = r};
    e->random = r;
    e->commands = commands;
    e->limits = (struct store_limits){.hash_entries = 128,
                                      .hash_value = 64,
                                      .set_ints = 512,
                                      .set_entries = 128,
                                      .set_value = 64,
                                      .zset_entries = 128,
                                      .zset_value = 64,
                                      .list_size = -2,
                                      .lfu_log_factor = 10,
                                      .lfu_decay_minutes = 1};
    e->ticks_per_ms = (uint64_t)(1000 * clock_ticks_per_us());
    atomic_init(&e->slow_ticks, UINT64_MAX);
    e->stores = mem_zalloc(shards * sizeof *e->stores);
    e->maps = mem_zalloc(sizeof *e->maps);
    pthread_mutex_init(&e->maps->lock, NULL);
    e->shards = aligned_alloc(_Alignof(struct shard), shards * sizeof *e->shards);
    CHECK(e->shards);
    memset(e->shards, 0, shards * sizeof *e->shards);
    for (uint32_t i = 0; i < shards; i++) {
        e->stores[i] = store_new(seed, &e->limits, r + i + 1);
        e->shards[i].id = (uint16_t)i;
        e->shards[i].store = e->stores[i];
    }
    return e;
}

/* ---- maps: an old one is freed when every worker has been seen between two pieces of work, for none looks at a map longer than that */

struct old_map {
    struct mail mail;
    struct old_map *next;
    struct engine *engine;
    struct space_map *map;
    uint32_t seen; /* workers */
};

static void forget_map(struct engine *e, struct old_map *o)
{
    pthread_mutex_lock(&e->maps->lock);
    struct old_map **at = &e->maps->first;
    while (*at != o) at = &(*at)->next;
    *at = o->next;
    pthread_mutex_unlock(&e->maps->lock);
    spaces_unref(o->map);
    mem_free(o);
}

static void pass_worker(struct worker *w, struct mail *m)
{
    struct old_map *o = (struct old_map *)m;
    if (++o->seen == o->engine->n_workers) forget_map(o->engine, o);
    else engine_send(o->engine, o->seen, m);
}

void engine_set_map(struct engine *e, struct worker *w, struct space_map *m)
{
    struct space_map *before = (struct space_map *)atomic_exchange(&e->route.map, m);
    CHECK(!before || before->version < m->version);
    if (!before || !w) {
        spaces_unref(before);
        return;
    }
    struct old_map *o = mem_zalloc(sizeof *o);
    *o = (struct old_map){.mail.to_worker = pass_worker, .engine = e, .map = before};
    pthread_mutex_lock(&e->maps->lock);
    o->next = e->maps->first;
    e->maps->first = o;
    pthread_mutex_unlock(&e->maps->lock);
    engine_send(e, 0, &o->mail);
    if (e->hooks.mapped) e->hooks.mapped(e->hooks.ctx);
}

void engine_free(struct engine *e)
{
    while (e->maps->first) forget_map(e, e->maps->first);
    pthread_mutex_destroy(&e->maps->lock);
    mem_free(e->maps);
    spaces_unref((struct space_map *)atomic_load(&e->route.map));
    for (uint32_t i = 0; i < e->route.shards; i++) store_free(e->stores[i]);
    free(e->shards);
    mem_free(e->stores);
    mem_free(e->workers);
    mem_free(e);
}

void engine_init_worker(struct worker *w, struct engine *e)
{
    memset(w, 0, sizeof *w);
    w->engine = e;
    w->id = (uint16_t)e->n_workers;
    w->runnable_end = &w->runnable;
    w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(w->wake_fd >= 0);
    rng_init(&w->rng, e->random ^ (0x9e3779b97f4a7c15ull * (w->id + 1u)));
    w->commands = mem_zalloc(command_places(e->commands) * sizeof *w->commands);
    w->x = (struct exec){.route = &e->route, .stores = e->stores, .rng = &w->rng, .host = &e->host};
    engine_clock(w);
    e->workers = mem_resize(e->workers, (e->n_workers + 1) * sizeof *e->workers);
    e->workers[e->n_workers++] = w;
    for (uint32_t i = 0; i < e->route.shards; i++) e->shards[i].home = (uint16_t)(i % e->n_workers);
}

void engine_fini_worker(struct worker *w)
{
    for (size_t i = 0; i < command_places(w->engine->commands); i++) mem_free(w->commands[i].hist);
    mem_free(w->commands);
    mem_free(w->release_later);
    close(w->wake_fd);
}

void engine_clock(struct worker *w)
{
    w->now_ms = clock_unix_ms();
    w->mono_ms = clock_mono_us() / 1000;
    w->now_ticks = clock_ticks();
}

/* ---- mailboxes: a stack that is emptied at once and reversed, so FIFO */

static void mailbox_push(mailbox *box, struct mail *m)
{
    struct mail *head = atomic_load_explicit(box, memory_order_relaxed);
    do m->next = head;
    while (!atomic_compare_exchange_weak_explicit(box, &head, m, memory_order_seq_cst, memory_order_relaxed));
}

static struct mail *mailbox_take(mailbox *box)
{
    struct mail *m = atomic_exchange_explicit(box, NULL, memory_order_acquire), *oldest = NULL;
    while (m) {
        struct mail *next = m->next;
        m->next = oldest;
        oldest = m;
        m = next;
    }
    return oldest;
}

/* ---- tokens */

static void receive_token(struct worker *w, struct mail *m)
{
    struct shard *s = (struct shard *)((char *)m - offsetof(struct shard, handover));
    engine_release(w, s);
}

void engine_send_token_home(struct engine *e, struct shard *s)
{
    s->handover = (struct mail){.to_worker = receive_token};
    engine_send(e, s->home, &s->handover);
}

/* Runs the shard's mailbox. False: the token is no longer ours. */
static bool drain(struct worker *w, struct shard *s)
{
    for (int round = 0;; round++) {
        struct mail *m = s->backlog;
        if (m) s->backlog = NULL;
        else if (likely(!atomic_load(&s->inbox)) || !(m = mailbox_take(&s->inbox))) return true;
        if (unlikely(round >= (s->home == w->id ? HOME_ROUNDS : HELPER_ROUNDS))) {
            s->backlog = m;
            if (s->home != w->id) STAT_ADD(w->stats.handovers, 1);
            engine_send_token_home(w->engine, s);
            return false;
        }
        while (m) {
            s->backlog = m->next; /* before: a task that takes the token along may be past its end elsewhere when to_shard returns */
            atomic_fetch_sub_explicit(&s->depth, 1, memory_order_relaxed);
            STAT_ADD(w->stats.helped, 1);
            if (!m->to_shard(w, s, m)) return false;
            m = s->backlog;
        }
    }
}

static void release_later(struct worker *w, struct shard *s)
{
    if (w->n_release_later == w->cap_release_later) {
        w->cap_release_later = w->cap_release_later * 2 + 16;
        w->release_later = mem_resize(w->release_later, w->cap_release_later * sizeof *w->release_later);
    }
    w->release_later[w->n_release_later++] = s;
}

void engine_release(struct worker *w, struct shard *s)
{
    if (unlikely(w->occupied)) {
        release_later(w, s);
        return;
    }
    w->occupied = true;
    for (;;) {
        while (drain(w, s)) {
            atomic_store(&s->token, 0);
            if (likely(!atomic_load(&s->inbox)) || !engine_try(s)) break;
        }
        if (likely(!w->n_release_later)) break;
        s = w->release_later[--w->n_release_later];
    }
    w->occupied = false;
}

void engine_release_rest(struct worker *w)
{
    if (likely(w->occupied || !w->n_release_later)) return;
    engine_release(w, w->release_later[--w->n_release_later]);
}

void engine_publish(struct shard *s) { atomic_store_explicit(&s->bytes, store_bytes(s->store), memory_order_relaxed); }

static void publish(uint64_t *to, uint64_t n) { __atomic_store_n(to, n, __ATOMIC_RELAXED); }

void engine_publish_numbers(struct shard *s)
{
    const struct store *from = s->store;
    struct shard_numbers *n = &s->numbers;
    engine_publish(s);
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        publish(&n->keys[db], store_keys(from, db));
        publish(&n->expiring[db], store_expiring(from, db));
    }
    publish(&n->heap_bytes, store_heap_bytes(from));
    publish(&n->cold, from->cold);
}

void engine_post(struct worker *w, struct shard *s, struct mail *m)
{
    atomic_fetch_add_explicit(&s->depth, 1, memory_order_relaxed);
    STAT_ADD(w->stats.travelled, 1);
    mailbox_push(&s->inbox, m);
    if (engine_try(s)) engine_release(w, s); /* the holder left in between: run the mailbox ourselves */
}

/* ---- workers */

static void wake(struct worker *w)
{
    if (!atomic_load(&w->sleeping) || !atomic_exchange(&w->sleeping, false)) return;
    uint64_t one = 1;
    ssize_t n = write(w->wake_fd, &one, sizeof one);
    CHECK(n == sizeof one || errno == EAGAIN); /* EAGAIN: the counter is full, so it will wake */
}

void engine_send(struct engine *e, uint32_t to, struct mail *m)
{
    mailbox_push(&e->workers[to]->inbox, m);
    wake(e->workers[to]);
}

void engine_put(struct engine *e, uint32_t to, struct mail *m) { mailbox_push(&e->workers[to]->inbox, m); }

void engine_wake(struct engine *e)
{
    for (uint32_t i = 0; i < e->n_workers; i++)
        if (atomic_load(&e->workers[i]->inbox)) wake(e->workers[i]);
}

void engine_receive(struct worker *w)
{
    if (likely(!atomic_load_explicit(&w->inbox, memory_order_relaxed))) return;
    for (struct mail *m = mailbox_take(&w->inbox); m;) {
        struct mail *next = m->next;
        m->to_worker(w, m);
        m = next;
    }
}

bool engine_may_sleep(struct worker *w)
{
    atomic_store(&w->sleeping, true);
    if (!atomic_load(&w->inbox)) return true;
    atomic_store_explicit(&w->sleeping, false, memory_order_relaxed);
    return false;
}

void engine_awake(struct worker *w)
{
    if (atomic_load_explicit(&w->sleeping, memory_order_relaxed))
        atomic_store_explicit(&w->sleeping, false, memory_order_relaxed);
}
