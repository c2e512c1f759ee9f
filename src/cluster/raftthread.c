#include "cluster/raftthread.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cluster/raftthread_own.h"
#include "cluster/wireraft.h"
#include "io/file.h"

enum {
    STALL_MS = 100,    /* later than this is a stall */
    HOUSE_MS = 1000,   /* between looks at the length of logs */
    PUBLISH_MS = 100,  /* the age of statistics */
    REST_MS = 100,     /* without a write: the log is sealed */
    LEAVE_LOOK_MS = 10,
    SEAL_LOOK_MS = 10,
    ROUNDS = 3,        /* of collecting writes in a turn */
    RETRY_CHORES_MS = 5000,
    SNAPSHOT_SEGMENTS = 4,
};
static const uint64_t SNAPSHOT_BYTES = 64 << 20;

/* ---- time */

static uint64_t clock_ms(void) { return (uint64_t)clock_mono_us() / 1000; }

/* The turn gets its time with its first frame, or when it has waited. If the thread could not run for a while, frames that came meanwhile were not heard yet, so that time does not
 * count: a node that was held up must not take the others for dead. */
static void begin_turn(struct raftthread *t)
{
    if (t->timed) return;
    t->timed = true;
    t->turn_us = clock_mono_us();
    uint64_t now = (uint64_t)t->turn_us / 1000, passed = now - t->now, most = t->planned + STALL_MS;
    t->now = now;
    if (passed > most) {
        t->stats.stalls++;
        t->stats.stalled_ms += passed - most;
        passed = most;
    }
    t->awake += passed;
    raftnode_tick(t->node, t->awake);
}

static uint64_t sooner(uint64_t wait, uint64_t at, uint64_t now)
{
    uint64_t left = at > now ? at - now : 0;
    return left < wait ? left : wait;
}

static uint64_t wait_ms(const struct raftthread *t)
{
    if (t->hurry) return 0;
    uint64_t wait = sooner(HOUSE_MS, t->house_at, t->now);
    wait = sooner(wait, raftnode_next(t->node), t->awake);
    wait = sooner(wait, links_next(t->links), t->now);
    if (t->app.next) wait = sooner(wait, t->app.next(t->app.ctx), t->now);
    if (t->retry_at) wait = sooner(wait, t->retry_at, t->now);
    if (t->unsealed && !raftwriter_busy(t->writer)) wait = sooner(wait, t->wrote_at + REST_MS, t->now); /* else the end of the write is the next turn */
    if (t->phase == LEAVING) wait = sooner(wait, t->now + LEAVE_LOOK_MS, t->now);
    return wait;
}

/* ---- failure */

static void fail(struct raftthread *t, const char *why)
{
    if (!t->failure) t->failure = why;
}

/* ---- upcalls of raftnode */

static void on_send(void *ctx, uint64_t peer, struct slice frames)
{
    struct raftthread *t = ctx;
    if (!t->failure) links_send(t->links, peer, frames);
}

static void on_committed(void *ctx, uint32_t group, const struct raftnode_entry *entries, uint32_t n)
{
    struct raftthread *t = ctx;
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].type != RAFTNODE_COMMAND) continue;
        t->stats.commits++;
        t->stats.commit_bytes += entries[i].data.n;
    }
    t->app.committed(t->app.ctx, group, entries, n);
    raftledger_committed(&t->ledger, raftledger_find(&t->ledger, group), entries, n);
}

static void on_role(void *ctx, uint32_t group, enum raftnode_state state, uint64_t term, uint64_t leader)
{
    struct raftthread *t = ctx;
    struct raftledger_group *g = raftledger_find(&t->ledger, group);
    t->stats.elections += state == RAFTNODE_CANDIDATE && term != g->stood;
    if (state == RAFTNODE_CANDIDATE) g->stood = term;
    t->stats.reigns += state == RAFTNODE_LEADER;
    g->leads = state == RAFTNODE_LEADER;
    t->app.role(t->app.ctx, group, state, term, leader);
}

static void on_truncated(void *ctx, uint32_t group, uint64_t index)
{
    struct raftthread *t = ctx;
    t->app.truncated(t->app.ctx, group, index);
    raftledger_void(&t->ledger, raftledger_find(&t->ledger, group), index);
}

static void on_members(void *ctx, uint32_t group, const struct raftnode_members *members)
{
    struct raftthread *t = ctx;
    if (t->app.members) t->app.members(t->app.ctx, group, members);
}

static void on_read_ok(void *ctx, uint64_t ticket, uint64_t index) { raftledger_read_ended(&((struct raftthread *)ctx)->ledger, ticket, 0, index); }

static void on_read_failed(void *ctx, uint64_t ticket)
{
    struct raftthread *t = ctx;
    t->stats.reads_failed++;
    raftledger_read_ended(&t->ledger, ticket, -EPERM, 0);
}

static void on_changed(void *ctx, uint32_t group, uint64_t node, enum raftnode_role role, int rc)
{
    struct raftthread *t = ctx;
    struct raftledger_group *g = raftledger_find(&t->ledger, group);
    if (g) raftledger_changed(g, rc); /* else it was dropped, and told then */
}

static void on_describe(void *ctx, uint32_t group, uint64_t index, struct buf *out)
{
    struct raftthread *t = ctx;
    t->app.describe(t->app.ctx, group, index, out);
}

static void on_install_wanted(void *ctx, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor)
{
    struct raftthread *t = ctx;
    t->app.install_wanted(t->app.ctx, group, from, index, term, descriptor);
    raftledger_void(&t->ledger, raftledger_find(&t->ledger, group), 0);
}

static void on_marked(void *ctx, uint32_t group, uint64_t index)
{
    struct raftthread *t = ctx;
    if (t->app.marked) t->app.marked(t->app.ctx, group, index);
}

static void on_gone(void *ctx, uint32_t group)
{
    struct raftthread *t = ctx;
    if (t->app.gone) t->app.gone(t->app.ctx, group);
}

static void on_group_stranger(void *ctx, uint32_t group, uint64_t from)
{
    struct raftthread *t = ctx;
    if (t->app.stranger) t->app.stranger(t->app.ctx, group, from);
}

static void on_broken(void *ctx, uint32_t group, const char *why)
{
    struct raftthread *t = ctx;
    slog(t->options.links.log, SLOG_WARNING, "a Raft group is broken", "group=%u reason=%s", group, why);
    fail(t, why);
}

static const struct raftnode_out raft_calls = {
    .send = on_send,
    .committed = on_committed,
    .role = on_role,
    .truncated = on_truncated,
    .members = on_members,
    .read_ok = on_read_ok,
    .read_failed = on_read_failed,
    .changed = on_changed,
    .describe = on_describe,
    .install_wanted = on_install_wanted,
    .marked = on_marked,
    .stranger = on_group_stranger,
    .broken = on_broken,
    .gone = on_gone,
};

/* ---- calls of links */

static int on_frame(void *ctx, uint64_t from, const struct wire_frame *f)
{
    struct raftthread *t = ctx;
    begin_turn(t);
    if (wireraft_is(f->type) || f->type == WIRE_PROBE || f->type == WIRE_PROBE_ACK) return raftnode_receive(t->node, from, f);
    return t->app.frame(t->app.ctx, from, f);
}

static void on_up(void *ctx, uint64_t peer, enum links_way way)
{
    struct raftthread *t = ctx;
    if (t->app.up) t->app.up(t->app.ctx, peer, way);
}

static void on_down(void *ctx, uint64_t peer, enum links_way way)
{
    struct raftthread *t = ctx;
    if (t->app.down) t->app.down(t->app.ctx, peer, way);
}

static bool on_caller(void *ctx, const struct wire_hello *hello)
{
    struct raftthread *t = ctx;
    return t->app.caller(t->app.ctx, hello);
}

static void on_lane(void *ctx, uint64_t peer, uint16_t lane, int fd, struct slice greeting)
{
    struct raftthread *t = ctx;
    t->app.lane(t->app.ctx, peer, lane, fd, greeting);
}

bool raftthread_reaches(struct raftthread *t, uint64_t peer)
{
    struct links_stats s;
    return links_stats(t->links, peer, &s) && s.state == LINKS_UP;
}

bool raftthread_lanes(struct raftthread *t, uint64_t peer, struct links_lanes *out) { return links_lanes(t->links, peer, out); }

/* ---- now and then */

static void want_snapshots(struct raftthread *t)
{
    uint32_t holder = 0;
    uint64_t segments = 0;
    bool held = raftlog_oldest_holder(t->log, &holder, &segments) && segments >= t->options.snapshot_segments;
    for (uint32_t i = 0; i < t->ledger.n_groups && t->app.snapshot_wanted; i++) {
        uint32_t group = t->ledger.groups[i]->id;
        uint64_t bytes = raftlog_group_bytes(t->log, group);
        if (bytes > t->options.snapshot_bytes || (held && group == holder)) t->app.snapshot_wanted(t->app.ctx, group, bytes);
    }
}

static void look_at_chores(struct raftthread *t)
{
    int error = raftlog_chore_error(t->log);
    if (error != t->told_chore_error && error)
        slog(t->options.links.log, SLOG_WARNING, "no room can be made for the Raft log", "folder=%s reason=%s", t->options.dir, err_text(error));
    t->told_chore_error = error;
    if (!error) t->retry_at = 0;
    else if (!t->retry_at) t->retry_at = t->now + t->options.retry_chores_ms;
    if (!t->retry_at || t->now < t->retry_at) return;
    raftlog_retry_chores(t->log);
    t->retry_at = t->now + t->options.retry_chores_ms;
}

static void publish(struct raftthread *t)
{
    struct raftthread_stats *s = &t->stats;
    uint32_t n = t->links ? links_peers(t->links, NULL, 0) : 0;
    uint64_t *nodes = mem_alloc((n + 1) * sizeof *nodes);
    if (n) links_peers(t->links, nodes, n);
    s->waiting = t->ledger.waiting;
    s->uncertain = t->ledger.uncertain;
    s->groups = t->ledger.n_groups;
    s->leaders = 0;
    for (uint32_t i = 0; i < s->groups; i++) s->leaders += t->ledger.groups[i]->leads;
    s->capacity = raftlog_capacity(t->log);
    s->chore_error = raftlog_chore_error(t->log);
    raftlog_info(t->log, &s->log);
    s->log_rings = raftwriter_rings(t->writer);
    if (t->links) links_totals(t->links, &s->links);
    pthread_mutex_lock(&t->lock);
    t->published = *s;
    t->peers = mem_resize(t->peers, (n + 1) * sizeof *t->peers);
    t->n_peers = n;
    for (uint32_t i = 0; i < n; i++) {
        t->peers[i].node = nodes[i];
        links_stats(t->links, nodes[i], &t->peers[i].link);
    }
    pthread_mutex_unlock(&t->lock);
    mem_free(nodes);
}

/* Leadership goes to the others as long as there is time; what was submitted here is waited for. */
static void leave(struct raftthread *t)
{
    bool waits = t->ledger.waiting > 0;
    for (uint32_t i = 0; i < t->ledger.n_groups; i++) {
        struct raftledger_group *g = t->ledger.groups[i];
        if (!g->leads || g->stays) continue;
        g->stays = raftnode_transfer(t->node, g->id, 0) == -ENOENT;
        waits |= !g->stays;
    }
    if (!waits || t->now >= t->leave_by) t->phase = ENDING;
}

static void do_timers(struct raftthread *t)
{
    look_at_chores(t);
    if (t->unsealed && t->now >= t->wrote_at + REST_MS && !raftwriter_busy(t->writer)) {
        raftlog_seal(t->log);
        t->unsealed = false;
    }
    if (t->now >= t->house_at) {
        want_snapshots(t);
        t->house_at = t->now + HOUSE_MS;
    }
    if (t->now >= t->publish_at) {
        publish(t);
        t->publish_at = t->now + PUBLISH_MS;
    }
    if (t->phase == LEAVING) leave(t);
}

/* ---- the turn */

/* What the turn brought is told and submitted, then the log writes it; what it has written meanwhile brings more. After raftnode_persisted there may be frames to send. */
static void advance(struct raftthread *t)
{
    t->hurry = true;
    for (int i = 0; i < ROUNDS && t->hurry && !t->failure; i++) {
        raftnode_flush(t->node);
        int rc = raftwriter_look(t->writer);
        if (rc) {
            slog(t->options.links.log, SLOG_WARNING, "a write of the Raft log failed", "folder=%s reason=%s", t->options.dir, err_text(rc));
            fail(t, "a write of the Raft log failed: what is on disk is not known any more");
            return;
        }
        t->hurry = raftlog_durable(t->log) != t->durable;
        if (!t->hurry) return;
        t->durable = raftlog_durable(t->log);
        raftnode_persisted(t->node);
        t->wrote_at = t->now;
        t->unsealed = true;
    }
}

/* What may leave before it is durable is on its way; then nothing is to be done until it is. */
static void write_log(struct raftthread *t)
{
    if (t->failure || !raftlog_has_more(t->log)) return;
    links_push(t->links);
    t->hurry |= raftwriter_write(t->writer);
}

static void turn(struct raftthread *t)
{
    uint64_t wait = wait_ms(t);
    t->timed = false;
    t->planned = wait && raftmail_sleeps(&t->box) ? wait : 0;
    links_turn(t->links, (int)t->planned);
    raftmail_wakes(&t->box);
    begin_turn(t);
    links_tick(t->links, t->now);
    raftthread_take_mail(t, 0);
    do_timers(t);
    if (t->app.turn && !t->failure) t->app.turn(t->app.ctx, t->now);
    advance(t);
    if (t->app.turned && !t->failure) t->hurry |= t->app.turned(t->app.ctx);
    links_flush(t->links);
    uint64_t took = (uint64_t)(clock_mono_us() - t->turn_us);
    t->stats.turns++;
    if (took > t->stats.slowest_turn_us) t->stats.slowest_turn_us = took;
    write_log(t);
}

/* ---- ends */

static void hang_up(struct raftthread *t)
{
    links_free(t->links);
    t->links = NULL;
}

/* Nothing is promised any more; whoever asks is told so until the owner has enough of it. */
static void stand_still(struct raftthread *t)
{
    hang_up(t);
    raftledger_end(&t->ledger, -EIO);
    publish(t);
    t->app.failed(t->app.ctx, t->failure);
    while (t->phase == RUNNING) {
        raftmail_wait(&t->box, -1);
        raftthread_take_mail(t, -EIO);
    }
}

/* All that was put becomes durable, and an empty batch behind it. */
static void seal(struct raftthread *t)
{
    bool last = false;
    while (clock_ms() < t->end_by && raftwriter_step(t->writer) == 0) {
        if (raftwriter_busy(t->writer)) {
            raftmail_wait(&t->box, SEAL_LOOK_MS);
            continue;
        }
        if (last) return;
        raftlog_seal(t->log);
        last = true;
    }
}

/* ---- the thread */

static bool open_links(struct raftthread *t)
{
    struct links_calls calls = {t, on_frame, on_up, on_down, t->app.caller ? on_caller : NULL, on_lane};
    char error[128];
    struct links_options *o = &t->options.links;
    o->now = t->now;
    t->links = links_new(o, &calls, error);
    if (!t->links) {
        buf_printf(&t->start_error, "no event loop for the cluster's links: %s", error);
        return false;
    }
    int rc = links_listen(t->links, t->listen);
    if (rc == 0) return true;
    buf_printf(&t->start_error, "cannot listen for other nodes at %s: %s", t->listen, err_text(rc));
    hang_up(t);
    return false;
}

static bool begin(struct raftthread *t)
{
    t->now = clock_ms();
    pthread_mutex_lock(&t->lock);
    bool begun_well = open_links(t);
    t->start = begun_well ? STARTED : START_FAILED;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return begun_well;
}

/* The event loop belongs to the thread that made it, so the links are made here. */
static void *run(void *arg)
{
    struct raftthread *t = arg;
    if (!begin(t)) return NULL;
    while (t->phase != ENDING && !t->failure) turn(t);
    if (t->failure) {
        stand_still(t);
        return NULL;
    }
    hang_up(t);
    if (t->end_by) seal(t);
    raftledger_end(&t->ledger, -ESHUTDOWN);
    raftthread_take_mail(t, -ESHUTDOWN);
    publish(t);
    return NULL;
}

/* ---- life */

static uint64_t random_number(void)
{
    uint64_t n;
    CHECK(getrandom(&n, sizeof n, 0) == sizeof n);
    return n;
}

static void wake(void *ctx) { raftmail_wake(ctx); }

static void fill_in(struct raftthread *t)
{
    struct raftthread_options *o = &t->options;
    t->listen = mem_strdup(o->listen);
    t->address = mem_strdup(o->links.address ? o->links.address : o->listen);
    t->dir = mem_strdup(o->dir);
    o->listen = t->listen;
    o->dir = t->dir;
    o->links.address = t->address;
    o->links.seed = random_number();
    o->links.wake_fd = t->box.fd;
    o->raft.id = o->links.node;
    o->raft.seed = random_number();
    o->raft.now = t->awake = clock_ms();
    o->log.random = random_number();
    if (!o->snapshot_bytes) o->snapshot_bytes = SNAPSHOT_BYTES;
    if (!o->snapshot_segments) o->snapshot_segments = SNAPSHOT_SEGMENTS;
    if (!o->retry_chores_ms) o->retry_chores_ms = RETRY_CHORES_MS;
}

static bool open_log(struct raftthread *t, struct buf *error)
{
    const struct raftthread_options *o = &t->options;
    t->log = raftlog_open(o->files, o->dir, &o->log, error);
    if (!t->log) return false;
    struct raftwriter_options w = {.files = o->files, .writes = o->writes, .wake = wake, .ctx = &t->box, .wake_fd = t->box.fd};
    t->durable = raftlog_durable(t->log);
    t->writer = raftwriter_new(t->log, &w, error);
    return t->writer != NULL;
}

struct raftthread *raftthread_open(const struct raftthread_options *options, const struct raftthread_app *app, struct buf *error)
{
    struct raftthread *t = mem_zalloc(sizeof *t);
    t->options = *options;
    t->app = *app;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    int rc = raftmail_init(&t->box);
    if (rc < 0) buf_printf(error, "no wake-up for the Raft thread: %s", err_text(rc));
    fill_in(t);
    if (rc < 0 || !open_log(t, error)) {
        raftthread_close(t);
        return NULL;
    }
    struct raftnode_out out = raft_calls;
    out.ctx = t;
    t->node = raftnode_new(&t->options.raft, t->log, &out);
    return t;
}

uint32_t raftthread_found(const struct raftthread *t, struct raftthread_found *out, uint32_t max)
{
    uint32_t n = raftnode_found(t->log, NULL, 0);
    uint32_t *ids = mem_alloc((n + 1) * sizeof *ids);
    raftnode_found(t->log, ids, n);
    for (uint32_t i = 0; i < n && i < max; i++) {
        struct raftlog_state st;
        CHECK(raftlog_state(t->log, ids[i], &st));
        out[i] = (struct raftthread_found){ids[i], st.mark_index, st.first, st.last};
    }
    mem_free(ids);
    return n;
}

int raftthread_start(struct raftthread *t, struct buf *error)
{
    CHECK(!t->started);
    t->start = STARTING;
    int rc = -pthread_create(&t->thread, NULL, run, t);
    if (rc) {
        buf_printf(error, "no thread for Raft: %s", err_text(rc));
        return rc;
    }
    pthread_setname_np(t->thread, "raft");
    pthread_mutex_lock(&t->lock);
    while (t->start == STARTING) pthread_cond_wait(&t->changed, &t->lock);
    t->started = t->start == STARTED;
    buf_add_slice(error, buf_slice(&t->start_error));
    buf_fini(&t->start_error);
    pthread_mutex_unlock(&t->lock);
    if (t->started) return 0;
    pthread_join(t->thread, NULL);
    return -EADDRNOTAVAIL;
}

void raftthread_stop(struct raftthread *t, uint32_t grace_ms)
{
    if (!t->started) return;
    raftmail_post(&t->box, &(struct raftmail){.kind = RAFTMAIL_STOP, .index = grace_ms}, SLICE(""));
    pthread_join(t->thread, NULL);
    t->started = false;
}

void raftthread_close(struct raftthread *t)
{
    raftthread_stop(t, 0);
    raftthread_take_mail(t, -ESHUTDOWN);
    if (t->writer) raftwriter_free(t->writer);
    if (t->node) raftnode_free(t->node);
    if (t->log) raftlog_close(t->log);
    raftledger_fini(&t->ledger);
    raftmail_fini(&t->box);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->peers);
    mem_free(t->listen);
    mem_free(t->address);
    mem_free(t->dir);
    mem_free(t);
}

/* ---- numbers */

void raftthread_stats(struct raftthread *t, struct raftthread_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->published;
    pthread_mutex_unlock(&t->lock);
}

uint32_t raftthread_peers(struct raftthread *t, struct raftthread_peer *out, uint32_t max)
{
    pthread_mutex_lock(&t->lock);
    uint32_t n = t->n_peers;
    for (uint32_t i = 0; i < n && i < max; i++) out[i] = t->peers[i];
    pthread_mutex_unlock(&t->lock);
    return n;
}
