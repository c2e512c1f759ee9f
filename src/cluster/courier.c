#include "cluster/courier.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "cluster/groupdir.h"
#include "cluster/raftthread.h"
#include "cluster/snapfetch.h"
#include "cluster/snapper.h"
#include "cluster/snapsend.h"

enum {
    CHUNK_BYTES = 64 << 10,   /* heartbeats go the same way, and wait for one */
    WINDOW_BYTES = 2 << 20,   /* of a transfer: what may be under way, and so before a heartbeat */
    QUEUE_BYTES = 32 << 20,   /* of frames that wait here; more are lost, and asked for again */
    HOLD_MS = 10 * 60 * 1000, /* an old snapshot that somebody is at is kept so long */
    HOLD_LOOK_MS = 500,
    LINGER_MS = 2000, /* an old snapshot is kept so long: it may just have been offered */
    REFUSE_MS = 500, /* before the leader is told that its snapshot could not be had: it offers the next one at once */
    IDLE_MS = 10 * 1000,
};

enum kind { FETCH, FRAME, UP, DOWN, PUT, MARKED, DROP };

struct message {
    struct message *next;
    enum kind kind;
    uint32_t group;
    uint64_t peer, index, term;
    struct snapshelf_item item;
    size_t n;
    char data[]; /* a descriptor, or a frame */
};

/* Something for later. */
struct chore {
    struct chore *next;
    enum { DELETE_OLD, REFUSE } kind;
    uint32_t group;
    uint64_t index, at_ms, by_ms;
    int rc;
};

struct courier {
    struct snapcore *core;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* of the queue */
    pthread_cond_t came;
    struct message *first, **end;
    size_t queued_bytes;

    /* the thread's */
    struct snapsend *send;
    struct snapfetch *fetch;
    struct chore *chores;
    uint32_t *fetching; /* groups */
    uint32_t n_fetching, cap_fetching;
    uint64_t now;
};

/* ---- messages: any thread */

static void post(struct courier *c, const struct message *m, struct slice data)
{
    struct message *copy = mem_alloc(sizeof *copy + data.n);
    *copy = *m;
    copy->next = NULL;
    copy->n = data.n;
    if (data.n) memcpy(copy->data, data.p, data.n);
    pthread_mutex_lock(&c->lock);
    bool lost = m->kind == FRAME && c->queued_bytes + data.n > QUEUE_BYTES;
    if (!lost) {
        *c->end = copy;
        c->end = &copy->next;
        c->queued_bytes += data.n;
        pthread_cond_signal(&c->came);
    }
    pthread_mutex_unlock(&c->lock);
    if (lost) mem_free(copy);
}

void courier_fetch(struct courier *c, uint64_t from, uint32_t group, uint64_t index, uint64_t term, struct slice descriptor)
{
    post(c, &(struct message){.kind = FETCH, .peer = from, .group = group, .index = index, .term = term}, descriptor);
}

void courier_frame(struct courier *c, uint64_t from, const struct wire_frame *f) { post(c, &(struct message){.kind = FRAME, .peer = from}, f->whole); }
void courier_up(struct courier *c, uint64_t peer) { post(c, &(struct message){.kind = UP, .peer = peer}, slice_of(NULL, 0)); }
void courier_down(struct courier *c, uint64_t peer) { post(c, &(struct message){.kind = DOWN, .peer = peer}, slice_of(NULL, 0)); }
void courier_put(struct courier *c, const struct snapshelf_item *item) { post(c, &(struct message){.kind = PUT, .item = *item}, slice_of(NULL, 0)); }
void courier_marked(struct courier *c, uint32_t group, uint64_t index) { post(c, &(struct message){.kind = MARKED, .group = group, .index = index}, slice_of(NULL, 0)); }
void courier_drop(struct courier *c, uint32_t group) { post(c, &(struct message){.kind = DROP, .group = group}, slice_of(NULL, 0)); }

static struct message *take_messages(struct courier *c, uint64_t until_ms)
{
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
    pthread_mutex_lock(&c->lock);
    while (!c->first && snapcore_goes_on(c->core) && snapcore_ms() < until_ms) pthread_cond_timedwait(&c->came, &c->lock, &until);
    struct message *first = c->first;
    c->first = NULL;
    c->end = &c->first;
    c->queued_bytes = 0;
    pthread_mutex_unlock(&c->lock);
    return first;
}

/* ---- for later */

static void add_chore(struct courier *c, const struct chore *chore)
{
    struct chore *copy = mem_alloc(sizeof *copy);
    *copy = *chore;
    copy->next = c->chores;
    c->chores = copy;
}

static void warn(const struct courier *c, uint32_t group, const char *what, int rc)
{
    slog(c->core->o.log, SLOG_WARNING, what, "group=%u folder=%s reason=%s", group, c->core->o.dir, err_text(rc));
}

static void delete_old(struct courier *c, uint32_t group, uint64_t index)
{
    snapshelf_drop_before(&c->core->shelf, group, index);
    snapsend_drop_before(c->send, group, index);
    int rc = groupdir_drop_before(c->core->o.files, c->core->o.dir, group, index);
    if (rc < 0) warn(c, group, "an old snapshot cannot be deleted", rc);
}

static void refuse(struct courier *c, uint32_t group, uint64_t index, int rc) { raftthread_installed(c->core->o.raft, group, index, rc, (struct raftthread_answer){0}); }

/* False: not yet. */
static bool do_chore(struct courier *c, struct chore *chore)
{
    if (c->now < chore->at_ms) return false;
    if (chore->kind == REFUSE) {
        refuse(c, chore->group, chore->index, chore->rc);
        return true;
    }
    if (c->now < chore->by_ms && snapsend_is_wanted_before(c->send, chore->group, chore->index)) {
        chore->at_ms = c->now + HOLD_LOOK_MS;
        return false;
    }
    delete_old(c, chore->group, chore->index);
    return true;
}

static void do_chores(struct courier *c)
{
    for (struct chore **at = &c->chores, *chore; (chore = *at);) {
        if (do_chore(c, chore)) {
            *at = chore->next;
            mem_free(chore);
        } else {
            at = &chore->next;
        }
    }
}

static void forget_chores(struct courier *c, uint32_t group)
{
    for (struct chore **at = &c->chores, *chore; (chore = *at);) {
        if (chore->group == group) {
            *at = chore->next;
            mem_free(chore);
        } else {
            at = &chore->next;
        }
    }
}

/* ---- what messages do */

static void note_fetching(struct courier *c, uint32_t group)
{
    for (uint32_t i = 0; i < c->n_fetching; i++)
        if (c->fetching[i] == group) return;
    if (c->n_fetching == c->cap_fetching) {
        c->cap_fetching = c->cap_fetching ? 2 * c->cap_fetching : 16;
        c->fetching = mem_resize(c->fetching, c->cap_fetching * sizeof *c->fetching);
    }
    c->fetching[c->n_fetching++] = group;
}

static void on_fetch(struct courier *c, const struct message *m)
{
    int rc = snapfetch_start(c->fetch, m->peer, m->group, m->index, m->term, slice_of(m->data, m->n), c->now);
    if (rc < 0) {
        add_chore(c, &(struct chore){.kind = REFUSE, .group = m->group, .index = m->index, .at_ms = c->now + REFUSE_MS, .rc = rc});
        return;
    }
    slog(c->core->o.log, SLOG_NOTICE, "a snapshot is fetched", "group=%u index=%llu from=%llu", m->group, (unsigned long long)m->index, (unsigned long long)m->peer);
    note_fetching(c, m->group);
}

/* Who says DONE may be one who gives or one who gets. What makes no sense, although it is well formed, is passed over: the connection is not ours to close. */
static void on_frame(struct courier *c, const struct message *m)
{
    struct wire_frame f;
    const char *why;
    CHECK(wire_frame(slice_of(m->data, m->n), &f, &why) == WIRE_OK);
    if (f.type != WIRE_SNAP_CHUNK) snapsend_receive(c->send, m->peer, &f, c->now);
    if (f.type != WIRE_SNAP_WANT) snapfetch_receive(c->fetch, m->peer, &f, c->now);
}

static void on_drop(struct courier *c, uint32_t group)
{
    snapfetch_cancel(c->fetch, group);
    snapsend_drop_before(c->send, group, UINT64_MAX);
    snapshelf_drop_before(&c->core->shelf, group, UINT64_MAX);
    forget_chores(c, group);
    int rc = groupdir_drop_group(c->core->o.files, c->core->o.dir, group);
    if (rc < 0) warn(c, group, "the snapshots of a group that is gone cannot be deleted", rc);
}

static void do_message(struct courier *c, const struct message *m)
{
    switch (m->kind) {
    case FETCH: on_fetch(c, m); return;
    case FRAME: on_frame(c, m); return;
    case UP: snapfetch_peer_up(c->fetch, m->peer, c->now); return;
    case DOWN: snapsend_peer_down(c->send, m->peer); return;
    case PUT: snapsend_put(c->send, &m->item.file, &m->item.totals); return;
    case MARKED: add_chore(c, &(struct chore){.kind = DELETE_OLD, .group = m->group, .index = m->index, .at_ms = c->now + LINGER_MS, .by_ms = c->now + HOLD_MS}); return;
    case DROP: on_drop(c, m->group); return;
    }
}

/* ---- calls of snapsend and snapfetch */

static void send_frame(void *ctx, uint64_t peer, struct slice frame)
{
    struct courier *c = ctx;
    raftthread_send(c->core->o.raft, peer, frame);
}

static void fetched(void *ctx, uint32_t group, uint64_t index, uint64_t term, int rc)
{
    struct courier *c = ctx;
    if (rc == 0) {
        snapper_put(c->core->snapper, &(struct snapper_job){.kind = SNAPPER_INSTALL, .group = group, .index = index, .term = term});
        return;
    }
    warn(c, group, "a snapshot could not be fetched", rc);
    add_chore(c, &(struct chore){.kind = REFUSE, .group = group, .index = index, .at_ms = c->now + REFUSE_MS, .rc = rc});
}

/* ---- the thread */

static void publish(struct courier *c)
{
    struct snapfetch_info info;
    for (uint32_t i = c->n_fetching; i-- > 0;)
        if (!snapfetch_look(c->fetch, c->fetching[i], &info)) c->fetching[i] = c->fetching[--c->n_fetching];
    pthread_mutex_lock(&c->core->lock);
    c->core->info.sent_bytes = snapsend_sent_bytes(c->send);
    c->core->info.sending = snapsend_streams(c->send);
    c->core->info.fetching = c->n_fetching;
    pthread_mutex_unlock(&c->core->lock);
}

static uint64_t next_ms(const struct courier *c)
{
    uint64_t next = c->now + IDLE_MS, at = snapsend_next(c->send);
    if (at < next) next = at;
    at = snapfetch_next(c->fetch);
    if (at < next) next = at;
    for (const struct chore *chore = c->chores; chore; chore = chore->next)
        if (chore->at_ms < next) next = chore->at_ms;
    return next;
}

static void turn(struct courier *c, uint64_t until_ms)
{
    struct message *m = take_messages(c, until_ms);
    c->now = snapcore_ms();
    for (struct message *next; m; m = next) {
        next = m->next;
        do_message(c, m);
        mem_free(m);
    }
    do_chores(c);
    snapsend_step(c->send, c->now);
    snapfetch_step(c->fetch, c->now);
    publish(c);
}

static void *run(void *arg)
{
    struct courier *c = arg;
    while (snapcore_goes_on(c->core)) turn(c, next_ms(c));
    return NULL;
}

/* ---- life */

struct courier *courier_new(struct snapcore *core)
{
    struct courier *c = mem_zalloc(sizeof *c);
    pthread_condattr_t attr;
    c->core = core;
    c->end = &c->first;
    c->now = snapcore_ms();
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->came, &attr);
    pthread_condattr_destroy(&attr);
    c->send = snapsend_new(&(struct snapsend_options){.files = core->o.files, .dir = core->o.dir, .now = c->now, .chunk_bytes = CHUNK_BYTES, .send = send_frame, .ctx = c});
    struct snapfetch_options o = {.files = core->o.files, .dir = core->o.dir, .now = c->now, .window_bytes = WINDOW_BYTES, .send = send_frame, .done = fetched, .ctx = c};
    memcpy(o.cluster, core->o.cluster, sizeof o.cluster);
    c->fetch = snapfetch_new(&o);
    return c;
}

int courier_start(struct courier *c)
{
    int rc = -pthread_create(&c->thread, NULL, run, c);
    if (rc == 0) pthread_setname_np(c->thread, "courier");
    c->started = rc == 0;
    return rc;
}

void courier_stop(struct courier *c)
{
    if (!c->started) return;
    pthread_mutex_lock(&c->lock);
    pthread_cond_signal(&c->came);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->started = false;
}

void courier_free(struct courier *c)
{
    for (struct message *m = c->first, *next; m; m = next) {
        next = m->next;
        mem_free(m);
    }
    for (struct chore *chore = c->chores, *next; chore; chore = next) {
        next = chore->next;
        mem_free(chore);
    }
    snapsend_free(c->send);
    snapfetch_free(c->fetch);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->came);
    mem_free(c->fetching);
    mem_free(c);
}
