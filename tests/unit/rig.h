/* Clients of an engine without a server: for the tests of src/shard/.
 *
 *     struct rig *r = rig_new(2, 3);                        2 workers, 3 shards
 *     struct client *c = rig_client(r, 0);                  at home with worker 0
 *     rig_ask(c, "SET k %d", 1);                            adds a request; words are split at blanks
 *     rig_queue(c, "INCR k"); rig_exec(c, false);           adds an EXEC of what was queued since the last one
 *     rig_go(c);                                            starts the task; c->away or c->waiter tell how it went
 *     rig_turn(r, 1);                                       worker 1 runs its inbox and what it can go on with
 *     rig_expect(c, "+OK\r\n:2\r\n");                       all replies since the last call
 *     rig_free(r);                                          fails if a token, a message or a waiter was left behind
 *
 * Without threads of its own every step is the test's: a token is made busy by rig_hold and set free by rig_let_go. Beside the families named in rig_new there are
 *     EXEC                 what transactions.c does: runs the queue if no watched key changed
 *     WATCH key ...        watches for the client
 *     UNWATCH              forgets the watches without holding a token
 *     SPIN key us          holds the key's token for that long
 * Time stands still: it passes by r->workers[i]->now_ms += 1000, or by engine_clock.
 * A failure inside a worker thread ends the process with a message: cmocka's jumps are for the main thread alone. */
#pragma once
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/carrycmd.h"
#include "cluster/txncmd.h"
#include "command/families.h"
#include "server/families.h"
#include "server/spancmd.h"
#include "shard/engine.h"
#include "shard/task.h"
#include "shard/topology.h"
#include "shard/wait.h"
#include "shard/watch.h"

enum { RIG_QUEUE_MAX = 16, RIG_WORDS_MAX = 64, RIG_WORKERS_MAX = 8 };

struct rig_queued {
    const struct command *cmd;
    struct slice argv[RIG_WORDS_MAX];
    uint32_t argc;
};

struct client {
    struct task task; /* first: a task of a client is the client */
    struct client *next;
    struct rig *rig;
    struct worker *worker;
    uint32_t id;
    bool away;
    struct buf out, expected;
    char *words; /* of the requests' arguments: kept until the task is done */
    size_t words_used, words_cap;
    struct rig_queued queue[RIG_QUEUE_MAX];
    uint32_t queued;
    struct waiter *waiter;
    struct watch_set watches;
    uint64_t execs, aborted; /* EXECs that ran, and that a watch stopped */
    uint64_t served, served_over_shards; /* waits that ended with an answer */
    uint64_t brought_home;               /* EXECs that ran at home after a journey */
    void (*on_idle)(struct client *c);   /* told when a task or a wait has ended; may be NULL */
    void *role;                          /* the test's */
};

struct rig {
    struct engine *engine;
    struct topology *topology;
    struct command_table *table;
    struct worker *workers[RIG_WORKERS_MAX];
    uint32_t n_workers, n_clients;
    struct client *clients;
};

#define RIG_CHECK(x, ...) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #x); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            abort(); \
        } \
    } while (0)

/* ---- commands */

static inline struct worker *rig_worker_of(struct exec *x) { return (struct worker *)((char *)x - offsetof(struct worker, x)); }

static void rig_exec_command(struct exec *x)
{
    struct client *c = x->session;
    struct worker *w = rig_worker_of(x);
    const struct command *self = x->cmd;
    const struct request *r = &c->task.requests[c->task.pos];
    if (r->at_home) RIG_CHECK(w == c->worker, "an EXEC for home ran elsewhere");
    if (r->at_home && !c->task.sync) c->brought_home++;
    if (watch_dirty(x, &c->watches)) {
        reply_null_array(&x->out);
        c->aborted++;
    } else {
        reply_array(&x->out, c->queued);
        for (uint32_t i = 0; i < c->queued; i++)
            task_run_command(w, &c->task, c->queue[i].cmd, c->queue[i].argv, c->queue[i].argc);
        x->cmd = self;
        c->execs++;
    }
    watch_drop(w, &c->watches);
}

static void rig_each_queued(void *session, command_visit *one, void *ctx)
{
    const struct client *c = session;
    for (uint32_t i = 0; i < c->queued; i++) one(ctx, c->queue[i].cmd, c->queue[i].argv, c->queue[i].argc, 0);
}

static void rig_watch_command(struct exec *x)
{
    struct client *c = x->session;
    for (uint32_t i = 1; i < x->argc; i++) watch_add(x, &c->watches, x->argv[i]);
    reply_ok(&x->out);
}

static void rig_unwatch_command(struct exec *x)
{
    struct client *c = x->session;
    watch_drop(rig_worker_of(x), &c->watches);
    reply_ok(&x->out);
}

static void rig_spin_command(struct exec *x)
{
    int64_t us, end;
    if (!exec_arg_i64(x, x->argv[2], &us)) return;
    for (end = clock_mono_us() + us; clock_mono_us() < end;) sched_yield(); /* as if preempted: the others come and find the token busy */
    reply_ok(&x->out);
}

static const struct command rig_rows[] = {
    {.name = "exec", .fn = rig_exec_command, .arity = 1, .class = CLASS_LOCAL, .each_inner = rig_each_queued, .group = "test"},
    {.name = "watch", .fn = rig_watch_command, .arity = -2, .class = CLASS_KEYED, .first_key = 1, .last_key = -1, .key_step = 1, .group = "test"},
    {.name = "unwatch", .fn = rig_unwatch_command, .arity = 1, .class = CLASS_LOCAL, .group = "test"},
    {.name = "spin", .fn = rig_spin_command, .arity = 3, .class = CLASS_KEYED, .first_key = 1, .last_key = 1, .key_step = 1, .group = "test"},
};

static const struct command_family rig_family = COMMAND_FAMILY(rig_rows);

/* ---- routing of EXEC: the shards of all that is queued and watched */

struct rig_routing {
    struct task *task;
    struct request *r;
};

static void rig_add_shard(void *ctx, uint32_t shard)
{
    struct rig_routing *to = ctx;
    task_add_shard(to->task, to->r, shard);
}

static void rig_route_again(void *ctx, struct task *t, struct request *r)
{
    struct client *c = (struct client *)t;
    for (uint32_t i = 0; i < c->queued; i++) {
        struct task probe = {0};
        const struct request *q = task_add(&probe, c->rig->engine, c->queue[i].cmd, c->queue[i].argv, c->queue[i].argc);
        if (q->kind == REQUEST_ONE) task_add_shard(t, r, q->shard);
        for (uint32_t k = 0; k < q->n_shards; k++) task_add_shard(t, r, probe.shards[q->first_shard + k]);
        task_fini(&probe);
    }
    watch_shards(&c->watches, rig_add_shard, &(struct rig_routing){t, r});
}

/* ---- life */

static inline struct rig *rig_new(uint32_t workers, uint32_t shards)
{
    const struct command_family families[] = {strings_family, keys_family, expiry_family, lists_family, hashes_family, sets_family,
                                              zsets_family, zpops_family, spacecmd_family, rangecmd_family, rangelock_family, rangeexec_family, groups_family, txncmd_family, carrycmd_family, spancmd_family, rig_family};
    struct rig *r = mem_zalloc(sizeof *r);
    clock_calibrate();
    r->table = command_table_new(families, sizeof families / sizeof families[0]);
    r->engine = engine_new(shards, 42, 43, r->table);
    r->engine->hooks.route = rig_route_again;
    r->topology = topology_new(r->engine);
    r->engine->ticks_per_ms = UINT64_MAX; /* no worker looks at the clock of its own accord */
    r->n_workers = workers;
    for (uint32_t i = 0; i < workers; i++) {
        r->workers[i] = aligned_alloc(_Alignof(struct worker), sizeof **r->workers);
        engine_init_worker(r->workers[i], r->engine);
        r->workers[i]->now_ms = r->workers[0]->now_ms;
    }
    return r;
}

static inline struct client *rig_client(struct rig *r, uint32_t worker)
{
    enum { WORDS_BYTES = 64 * 1024 };
    struct client *c = mem_zalloc(sizeof *c);
    c->rig = r;
    c->worker = r->workers[worker];
    c->id = r->n_clients++;
    c->words = mem_alloc(WORDS_BYTES);
    c->words_cap = WORDS_BYTES;
    c->next = r->clients;
    r->clients = c;
    return c;
}

static inline bool rig_turn(struct rig *r, uint32_t worker)
{
    struct worker *w = r->workers[worker];
    bool any = atomic_load(&w->inbox) || w->runnable;
    engine_receive(w);
    task_pump(w);
    return any;
}

/* Lets all workers run until none has anything to do. */
static inline void rig_settle(struct rig *r)
{
    bool any = true;
    while (any) {
        any = false;
        for (uint32_t i = 0; i < r->n_workers; i++) any |= rig_turn(r, i);
    }
}

/* Nothing is under way and nothing was forgotten. */
static inline void rig_check_quiet(struct rig *r)
{
    for (uint32_t i = 0; i < r->engine->route.shards; i++) {
        struct shard *s = &r->engine->shards[i];
        RIG_CHECK(!atomic_load(&s->token), "the token of shard %u is still held", i);
        RIG_CHECK(!atomic_load(&s->inbox) && !s->backlog && !atomic_load(&s->depth), "messages are left in shard %u", i);
        store_check(s->store);
    }
    for (uint32_t i = 0; i < r->n_workers; i++)
        RIG_CHECK(!atomic_load(&r->workers[i]->inbox) && !r->workers[i]->runnable && !r->workers[i]->n_release_later,
                  "work is left with worker %u", i);
}

static inline void rig_free(struct rig *r)
{
    for (struct client *c = r->clients; c; c = c->next) {
        RIG_CHECK(!c->away && !c->waiter, "client %u is still %s", c->id, c->away ? "away" : "waiting");
        watch_drop(c->worker, &c->watches);
    }
    rig_settle(r);
    rig_check_quiet(r);
    for (uint32_t i = 0; i < r->engine->route.shards; i++) RIG_CHECK(interests_empty(r->engine->stores[i]->interests), "interests are left");
    for (struct client *c = r->clients, *next; c; c = next) {
        next = c->next;
        task_fini(&c->task);
        buf_fini(&c->out);
        buf_fini(&c->expected);
        mem_free(c->words);
        mem_free(c);
    }
    for (uint32_t i = 0; i < r->n_workers; i++) {
        engine_fini_worker(r->workers[i]);
        free(r->workers[i]);
    }
    topology_free(r->topology);
    engine_free(r->engine);
    command_table_free(r->table);
    mem_free(r);
}

/* ---- asking */

static inline uint32_t rig_split(struct client *c, struct slice argv[RIG_WORDS_MAX], const char *fmt, va_list ap)
{
    int n = vsnprintf(c->words + c->words_used, c->words_cap - c->words_used, fmt, ap);
    RIG_CHECK(n >= 0 && (size_t)n < c->words_cap - c->words_used, "too many words");
    char *p = c->words + c->words_used, *end = p + n;
    uint32_t argc = 0;
    c->words_used += (size_t)n + 1;
    while (p < end) {
        char *blank = memchr(p, ' ', (size_t)(end - p));
        if (!blank) blank = end;
        RIG_CHECK(argc < RIG_WORDS_MAX, "too many words");
        argv[argc++] = slice_of(p, (size_t)(blank - p));
        p = blank + 1;
    }
    return argc;
}

static inline const struct command *rig_command(const struct client *c, struct slice name)
{
    const struct command *cmd = command_find(c->rig->table, name);
    RIG_CHECK(cmd, "no command %.*s", (int)name.n, name.p);
    return cmd;
}

static inline void __attribute__((format(printf, 2, 3))) rig_ask(struct client *c, const char *fmt, ...)
{
    struct slice argv[RIG_WORDS_MAX];
    va_list ap;
    va_start(ap, fmt);
    uint32_t argc = rig_split(c, argv, fmt, ap);
    va_end(ap);
    task_add(&c->task, c->rig->engine, rig_command(c, argv[0]), argv, argc);
}

static inline void __attribute__((format(printf, 2, 3))) rig_queue(struct client *c, const char *fmt, ...)
{
    RIG_CHECK(c->queued < RIG_QUEUE_MAX, "the queue is full");
    struct rig_queued *q = &c->queue[c->queued++];
    va_list ap;
    va_start(ap, fmt);
    q->argc = rig_split(c, q->argv, fmt, ap);
    va_end(ap);
    q->cmd = rig_command(c, q->argv[0]);
}


/* One EXEC per task, its last request. */
static inline void rig_exec(struct client *c, bool at_home)
{
    rig_ask(c, "EXEC");
    struct request *r = &c->task.requests[c->task.n_requests - 1];
    r->at_home = at_home;
    rig_route_again(NULL, &c->task, r);
}

/* ---- running */

static inline void rig_take_answer(struct client *c, struct waiter *wt)
{
    buf_add(&c->out, wt->answer.p, wt->answer.len);
    c->served++;
    if (wt->task.n_shards > 1) c->served_over_shards++;
    wait_free(wt);
}

static inline void rig_idle(struct client *c)
{
    if (c->task.pos < c->task.n_requests || c->waiter) return;
    task_clear(&c->task);
    c->words_used = 0;
    c->queued = 0;
    if (c->on_idle) c->on_idle(c);
}

static inline bool rig_busy(const struct client *c) { return c->away || c->waiter || c->task.n_requests; }

static inline void rig_note_block(struct client *c)
{
    struct waiter *wt = c->task.blocked;
    if (!wt) return;
    c->task.blocked = NULL;
    if (wt->came_early) rig_take_answer(c, wt);
    else c->waiter = wt;
}

static inline void rig_go(struct client *c);

static void rig_go_on(struct client *c)
{
    rig_note_block(c);
    if (!c->waiter && c->task.pos < c->task.n_requests) rig_go(c);
    else rig_idle(c);
}

static void rig_came_home(struct worker *w, struct task *t)
{
    struct client *c = (struct client *)t;
    RIG_CHECK(w == c->worker && c->away, "a task ended away from home");
    c->away = false;
    rig_go_on(c);
}

static void rig_served(struct worker *w, struct waiter *wt)
{
    struct client *c = wt->task.session;
    RIG_CHECK(w == c->worker, "an answer came to another worker");
    if (!c->waiter) {
        wt->came_early = true;
        return;
    }
    RIG_CHECK(c->waiter == wt, "an answer for another wait");
    c->waiter = NULL;
    rig_take_answer(c, wt);
    rig_go_on(c);
}

static inline void rig_go(struct client *c)
{
    struct task *t = &c->task;
    t->finish = rig_came_home;
    t->served = rig_served;
    t->session = c;
    t->home = c->worker->id;
    t->resp = 2;
    t->out = &c->out;
    t->end = t->n_requests;
    c->away = true;
    if (!task_start(c->worker, t)) return;
    c->away = false;
    rig_go_on(c);
}

/* Adds one request and starts. */
#define rig_do(c, ...) (rig_ask(c, __VA_ARGS__), rig_go(c))

/* Gives up waiting; false: an attempt is under way. */
static inline bool rig_cancel(struct client *c)
{
    struct waiter *wt = c->waiter;
    if (!wait_cancel(c->worker, wt)) return false;
    c->waiter = NULL;
    rig_go_on(c);
    return true;
}

static inline void rig_expect(struct client *c, const char *replies)
{
    struct slice got = buf_slice(&c->out);
    if (!slice_eq(got, slice_str(replies))) fail_msg("client %u got %.*s\n  expected %s", c->id, (int)got.n, got.p ? got.p : "", replies);
    c->out.len = 0;
}

/* ---- tokens by hand, and keys by shard */

static inline void rig_hold(struct rig *r, uint32_t shard) { assert_true(engine_try(&r->engine->shards[shard])); }
static inline void rig_let_go(struct rig *r, uint32_t worker, uint32_t shard) { engine_release(r->workers[worker], &r->engine->shards[shard]); }

static inline uint32_t rig_shard(struct rig *r, const char *key)
{
    return route_shard(&r->engine->route, keyhash(slice_str(key), r->engine->route.seed));
}

/* A key with this stem that lives in that shard; static storage per call site is the caller's. */
static inline const char *rig_key(struct rig *r, char to[32], const char *stem, uint32_t shard)
{
    for (unsigned i = 0;; i++) {
        snprintf(to, 32, "%s%u", stem, i);
        if (rig_shard(r, to) == shard) return to;
    }
}

/* ---- replies */

/* The next value: its type byte, its text (of a bulk or line) and, for an array or number, n; a nil has n = -1. */
struct rig_value {
    char type;
    struct slice text;
    long long n;
};

static inline struct rig_value rig_value(const struct client *c, size_t *at)
{
    RIG_CHECK(*at < c->out.len, "client %u: a reply is missing after %.*s", c->id, (int)c->out.len, c->out.p ? c->out.p : "");
    const char *p = c->out.p + *at, *end = memchr(p, '\n', c->out.len - *at);
    RIG_CHECK(end, "half a reply");
    struct rig_value v = {.type = *p, .text = slice_of(p + 1, (size_t)(end - p) - 2), .n = strtoll(p + 1, NULL, 10)};
    *at += (size_t)(end - p) + 1;
    if (v.type != '$' || v.n < 0) return v;
    v.text = slice_of(c->out.p + *at, (size_t)v.n);
    *at += (size_t)v.n + 2;
    return v;
}
