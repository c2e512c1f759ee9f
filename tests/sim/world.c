#include "world.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "io/file_sim.h"

enum event_kind { FRAME, TIMER, TASK, FAULT, FAULT_END };
enum fault_kind { CRASH, LEADER_CRASH, POWER, CUT, ISOLATE, SLOW_DISK, FULL_DISK, JUMP, PAUSE, FAULTS };

struct event {
    uint64_t at, seq;
    enum event_kind kind;
    uint32_t node, from;
    uint64_t life, from_life; /* of the nodes when it was made: an event of a former life is void */
    uint32_t what;
    uint64_t arg;
    struct buf bytes;
};

struct machine {
    struct file_sim *disk;
    void *self;
    uint64_t life;
    uint64_t timer; /* number of the timer that counts */
    int64_t clock_base_us, drift_ppm;
    bool slow, full, restarting;
    uint64_t paused_until;
};

struct world {
    struct world_program program;
    struct rng rng;
    bool trace;
    uint32_t n;
    uint64_t now, seq, hash;
    struct event *heap;
    uint32_t n_heap, cap_heap;
    struct machine m[WORLD_NODES_MAX + 1];
    uint32_t cut[WORLD_NODES_MAX + 1][WORLD_NODES_MAX + 1]; /* how many faults cut this way */
    uint64_t arrives[WORLD_NODES_MAX + 1][WORLD_NODES_MAX + 1]; /* the last frame: later ones come not before */
    struct world_faults faults;
    uint64_t era; /* of the faults: world_set_faults and world_heal begin a new one */
    struct world_counts counts;
    char failure[512];
};

/* ---- events in order of time */

static bool earlier(const struct event *a, const struct event *b) { return a->at != b->at ? a->at < b->at : a->seq < b->seq; }

static struct event *insert(struct world *w, const struct event *e)
{
    if (w->n_heap == w->cap_heap) {
        w->cap_heap = w->cap_heap * 2 + 64;
        w->heap = mem_resize(w->heap, w->cap_heap * sizeof *w->heap);
    }
    uint32_t i = w->n_heap++;
    for (; i && earlier(e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = *e;
    return &w->heap[i];
}

static struct event *push(struct world *w, uint64_t at, enum event_kind kind, uint32_t node)
{
    return insert(w, &(struct event){.at = at, .seq = w->seq++, .kind = kind, .node = node, .life = w->m[node].life});
}

static struct event pop(struct world *w)
{
    struct event first = w->heap[0], last = w->heap[--w->n_heap];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        child += child + 1 < w->n_heap && earlier(&w->heap[child + 1], &w->heap[child]);
        if (!earlier(&w->heap[child], &last)) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return first;
}

/* ---- the run */

struct world *world_new(uint32_t nodes, uint64_t seed, const struct world_program *program, bool trace)
{
    CHECK(nodes > 0 && nodes <= WORLD_NODES_MAX);
    struct world *w = mem_zalloc(sizeof *w);
    w->program = *program;
    w->n = nodes;
    w->trace = trace;
    w->now = 1000ull * 1000 * 1000;
    rng_init(&w->rng, (seed + 1) * 0x9e3779b97f4a7c15ull);
    for (int i = 0; i < 8; i++) rng_u64(&w->rng);
    for (uint32_t i = 1; i <= nodes; i++) {
        w->m[i].disk = file_sim_new("/n", rng_u64(&w->rng));
        w->m[i].clock_base_us = (int64_t)rng_below(&w->rng, 1000ull * 1000 * 1000);
    }
    return w;
}

void world_free(struct world *w)
{
    for (uint32_t i = 1; i <= w->n; i++) {
        if (w->m[i].self) w->program.stop(w->program.ctx, w->m[i].self, true);
        file_sim_free(w->m[i].disk);
    }
    for (uint32_t i = 0; i < w->n_heap; i++) buf_fini(&w->heap[i].bytes);
    mem_free(w->heap);
    mem_free(w);
}

uint64_t world_now(const struct world *w) { return w->now; }
const struct world_counts *world_counts(const struct world *w) { return &w->counts; }
struct rng *world_rng(struct world *w) { return &w->rng; }
const char *world_failure(const struct world *w) { return w->failure[0] ? w->failure : NULL; }
uint64_t world_hash(const struct world *w) { return w->hash; }
void world_note(struct world *w, uint64_t what) { w->hash = (w->hash ^ what) * 0x9e3779b97f4a7c15ull + (w->hash >> 29); }

static double seconds(const struct world *w) { return (double)(w->now - 1000ull * 1000 * 1000) / 1e6; }

void world_trace(struct world *w, uint32_t node, const char *fmt, ...)
{
    if (!w->trace) return;
    va_list ap;
    va_start(ap, fmt);
    printf("%10.6f ", seconds(w));
    if (node) printf("node %u: ", node);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

void world_fail(struct world *w, const char *fmt, ...)
{
    if (w->failure[0]) return;
    va_list ap;
    va_start(ap, fmt);
    int n = snprintf(w->failure, sizeof w->failure, "at %.6f s: ", seconds(w));
    vsnprintf(w->failure + n, sizeof w->failure - (size_t)n, fmt, ap);
    va_end(ap);
    world_trace(w, 0, "FAILED %s", w->failure);
}

/* ---- nodes */

void *world_node(struct world *w, uint32_t node) { return w->m[node].self; }

void world_start(struct world *w, uint32_t node)
{
    struct machine *m = &w->m[node];
    if (m->self) return;
    m->life++;
    m->restarting = false;
    world_trace(w, node, "starts");
    m->self = w->program.start(w->program.ctx, w, node);
    if (!m->self) world_fail(w, "node %u refuses to start", node);
}

void world_crash(struct world *w, uint32_t node, bool power)
{
    struct machine *m = &w->m[node];
    if (!m->self) return;
    bool leads = w->program.leads && w->program.leads(w->program.ctx, m->self);
    world_trace(w, node, "%s%s", power ? "loses power" : "dies", leads ? ", a leader" : "");
    w->counts.crashes++;
    w->counts.leader_crashes += leads;
    w->counts.power_losses += power;
    w->program.stop(w->program.ctx, m->self, true);
    m->self = NULL;
    m->life++;
    m->full = false;
    m->paused_until = 0;
    file_sim_crash(m->disk, power);
}

uint64_t world_clock(const struct world *w, uint32_t node)
{
    const struct machine *m = &w->m[node];
    int64_t us = (int64_t)w->now + (int64_t)w->now / 1000 * m->drift_ppm / 1000 + m->clock_base_us;
    return (uint64_t)(us / WORLD_MS);
}

void world_jump(struct world *w, uint32_t node, int64_t ms)
{
    world_trace(w, node, "its clock jumps by %lld ms", (long long)ms);
    w->m[node].clock_base_us += ms * WORLD_MS;
    if (w->m[node].self && w->m[node].paused_until <= w->now) w->program.timer(w->program.ctx, w->m[node].self);
}

void world_timer(struct world *w, uint32_t node, uint64_t clock_ms)
{
    uint64_t clock = world_clock(w, node);
    uint64_t wait = clock_ms > clock ? clock_ms - clock : 0;
    if (wait > 1000) wait = 1000; /* the clock's pace may change meanwhile: who is woken early looks again */
    struct event *e = push(w, w->now + wait * WORLD_MS + 1, TIMER, node);
    e->arg = ++w->m[node].timer;
}

void world_after(struct world *w, uint32_t node, uint64_t us, uint32_t kind, uint64_t arg)
{
    struct event *e = push(w, w->now + us, TASK, node);
    e->what = kind;
    e->arg = arg;
}

/* ---- network */

void world_cut(struct world *w, uint32_t from, uint32_t to, bool cut)
{
    if (cut) w->cut[from][to]++;
    else if (w->cut[from][to]) w->cut[from][to]--;
}

bool world_reaches(const struct world *w, uint32_t from, uint32_t to) { return w->m[from].self && w->m[to].self && !w->cut[from][to]; }

void world_send(struct world *w, uint32_t from, uint32_t to, struct slice bytes)
{
    CHECK(to >= 1 && to <= w->n && to != from);
    w->counts.frames++;
    if (w->cut[from][to] || !w->m[to].self || rng_below(&w->rng, 1000) < w->faults.loss_permille) {
        w->counts.frames_lost++;
        return;
    }
    uint64_t at = w->now + 50 + rng_below(&w->rng, 1 + (uint64_t)w->faults.delay_ms * WORLD_MS);
    if (at < w->arrives[from][to]) at = w->arrives[from][to];
    w->arrives[from][to] = at;
    struct event *e = push(w, at, FRAME, to);
    e->from = from;
    e->from_life = w->m[from].life;
    buf_add_slice(&e->bytes, bytes);
}

static void deliver(struct world *w, struct event *e)
{
    struct machine *to = &w->m[e->node], *from = &w->m[e->from];
    /* What a dead process sent may still arrive, but not once it runs again. */
    bool old = to->life != e->life || (from->life != e->from_life && !(from->self == NULL && from->life == e->from_life + 1));
    if (to->self && !old && !w->cut[e->from][e->node]) w->program.receive(w->program.ctx, to->self, e->from, buf_slice(&e->bytes));
    else w->counts.frames_lost++;
}

/* ---- disks */

const struct file_ops *world_disk(struct world *w, uint32_t node) { return file_sim_ops(w->m[node].disk); }

uint64_t world_disk_us(struct world *w, uint32_t node)
{
    uint64_t us = 80 + rng_below(&w->rng, 2000);
    return w->m[node].slow ? us * 100 + rng_below(&w->rng, 400 * WORLD_MS) : us;
}

void world_forget_bytes(struct world *w, uint32_t node, const char *path, uint64_t at, uint64_t n)
{
    struct buf *b = file_sim_bytes(w->m[node].disk, path);
    if (b && at < b->len) memset(b->p + at, 0, n < b->len - at ? n : b->len - at);
    file_sim_crash(w->m[node].disk, false);
}

struct usage {
    const struct file_ops *ops;
    const char *dir;
    uint64_t bytes;
};

static void add_usage(void *arg, const char *name)
{
    struct usage *u = arg;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", u->dir, name);
    int fd = u->ops->open(u->ops->ctx, path, FILE_READ);
    if (fd < 0) { /* a directory */
        struct usage inside = {.ops = u->ops, .dir = path};
        u->ops->list(u->ops->ctx, path, add_usage, &inside);
        u->bytes += inside.bytes;
        return;
    }
    int64_t size = u->ops->size(u->ops->ctx, fd);
    if (size > 0) u->bytes += (uint64_t)size;
    u->ops->close(u->ops->ctx, fd);
}

static void set_full(struct world *w, uint32_t node, bool full)
{
    struct usage u = {.ops = world_disk(w, node), .dir = "/n"};
    u.ops->list(u.ops->ctx, "/n", add_usage, &u);
    w->m[node].full = full;
    file_sim_set_faults(w->m[node].disk, (struct file_sim_faults){.space_bytes = full ? u.bytes + 1 : 0});
}

/* ---- faults */

static uint32_t mean_ms(const struct world_faults *f, enum fault_kind kind)
{
    const uint32_t means[FAULTS] = {f->crash, f->leader_crash, f->power, f->cut, f->isolate, f->slow_disk, f->full_disk, f->jump, f->pause};
    return means[kind];
}

static void plan_fault(struct world *w, enum fault_kind kind)
{
    uint32_t mean = mean_ms(&w->faults, kind);
    if (mean == 0) return;
    struct event *e = push(w, w->now + (1 + rng_below(&w->rng, 2ull * mean)) * WORLD_MS, FAULT, 0);
    e->what = kind;
    e->arg = w->era;
}

static void end_later(struct world *w, enum fault_kind kind, uint32_t node, uint32_t peer, uint64_t ms)
{
    struct event *e = push(w, w->now + ms * WORLD_MS, FAULT_END, node);
    e->what = kind;
    e->from = peer;
    e->arg = w->era;
}

static uint32_t any_node(struct world *w) { return 1 + (uint32_t)rng_below(&w->rng, w->n); }

/* A node that leads, if there is one. */
static uint32_t leading_node(struct world *w)
{
    uint32_t node = any_node(w);
    for (uint32_t i = 0; i < w->n; i++, node = node % w->n + 1)
        if (w->m[node].self && w->program.leads && w->program.leads(w->program.ctx, w->m[node].self)) break;
    return node;
}

static void fault_crash(struct world *w, enum fault_kind kind, uint32_t node)
{
    if (!w->m[node].self) return;
    world_crash(w, node, kind == POWER || rng_below(&w->rng, 2));
    w->m[node].restarting = true;
    end_later(w, kind, node, 0, 20 + rng_below(&w->rng, rng_below(&w->rng, 4) ? 800 : 6000));
}

static void fault_cut(struct world *w)
{
    uint32_t a = any_node(w), b = any_node(w);
    if (a == b) return;
    world_trace(w, 0, "the way from %u to %u is cut", a, b);
    world_cut(w, a, b, true);
    end_later(w, CUT, a, b, 100 + rng_below(&w->rng, 4000));
}

/* From here on, not since the beginning. */
static void set_drift(struct world *w, uint32_t node, int64_t ppm)
{
    struct machine *m = &w->m[node];
    m->clock_base_us += (int64_t)w->now / 1000 * m->drift_ppm / 1000 - (int64_t)w->now / 1000 * ppm / 1000;
    m->drift_ppm = ppm;
}

static void isolate(struct world *w, uint32_t node, bool on)
{
    for (uint32_t i = 1; i <= w->n; i++) {
        if (i == node) continue;
        world_cut(w, node, i, on);
        world_cut(w, i, node, on);
    }
}

static void fault_node(struct world *w, enum fault_kind kind, uint32_t node)
{
    struct machine *m = &w->m[node];
    if (!m->self || (kind == SLOW_DISK && m->slow) || (kind == FULL_DISK && m->full)) return;
    uint64_t ms = 100 + rng_below(&w->rng, 3000);
    if (kind == ISOLATE) isolate(w, node, true);
    if (kind == ISOLATE && w->faults.jump && rng_below(&w->rng, 2)) set_drift(w, node, -900000); /* it hardly sees time pass, and does not know that it is alone */
    if (kind == SLOW_DISK) m->slow = true;
    if (kind == FULL_DISK) set_full(w, node, true);
    if (kind == PAUSE) m->paused_until = w->now + ms * WORLD_MS;
    w->counts.slow_disks += kind == SLOW_DISK;
    w->counts.full_disks += kind == FULL_DISK;
    w->counts.pauses += kind == PAUSE;
    world_trace(w, node, "%s", kind == ISOLATE ? "is cut off" : kind == SLOW_DISK ? "its disk is slow" : kind == FULL_DISK ? "its disk is full" : "stands still");
    end_later(w, kind, node, 0, ms);
}

static void fault_jump(struct world *w)
{
    uint32_t node = any_node(w);
    uint64_t size = rng_below(&w->rng, 4) ? 200 : 5000;
    w->counts.jumps++;
    w->counts.completed++;
    world_jump(w, node, (int64_t)rng_below(&w->rng, 2 * size) - (int64_t)size);
}

static void begin_fault(struct world *w, const struct event *e)
{
    if (e->arg != w->era) return;
    switch ((enum fault_kind)e->what) {
    case CRASH:
    case POWER: fault_crash(w, e->what, any_node(w)); break;
    case LEADER_CRASH: fault_crash(w, e->what, leading_node(w)); break;
    case CUT: fault_cut(w); break;
    case JUMP: fault_jump(w); break;
    default: fault_node(w, e->what, rng_below(&w->rng, 2) ? leading_node(w) : any_node(w));
    }
    w->counts.cuts += e->what == CUT || e->what == ISOLATE;
    plan_fault(w, e->what);
}

void world_strike(struct world *w, uint32_t node, enum world_strike kind)
{
    static const enum fault_kind kinds[WORLD_STRIKES] = {[WORLD_CRASH] = CRASH, [WORLD_POWER] = POWER, [WORLD_ISOLATE] = ISOLATE, [WORLD_PAUSE] = PAUSE};
    if (kind == WORLD_CRASH || kind == WORLD_POWER) fault_crash(w, kinds[kind], node);
    else fault_node(w, kinds[kind], node);
    w->counts.cuts += kind == WORLD_ISOLATE;
}

static void end_fault(struct world *w, const struct event *e)
{
    if (e->arg != w->era) return;
    struct machine *m = &w->m[e->node];
    w->counts.completed++;
    switch ((enum fault_kind)e->what) {
    case CUT:
        world_trace(w, 0, "the way from %u to %u is open", e->node, e->from);
        world_cut(w, e->node, e->from, false);
        break;
    case ISOLATE:
        world_trace(w, e->node, "is connected");
        isolate(w, e->node, false);
        set_drift(w, e->node, 0);
        break;
    case SLOW_DISK: m->slow = false; break;
    case PAUSE: break;
    case FULL_DISK:
        if (m->full) set_full(w, e->node, false);
        break;
    default:
        if (m->restarting) world_start(w, e->node);
    }
}

void world_set_faults(struct world *w, const struct world_faults *f)
{
    w->faults = *f;
    w->era++;
    for (uint32_t i = 1; i <= w->n; i++) {
        set_drift(w, i, f->drift_ppm ? (int64_t)rng_below(&w->rng, 2ull * f->drift_ppm) - f->drift_ppm : 0);
    }
    for (int kind = 0; kind < FAULTS; kind++) plan_fault(w, (enum fault_kind)kind);
}

void world_heal(struct world *w)
{
    world_trace(w, 0, "all faults end");
    w->faults = (struct world_faults){.delay_ms = 2};
    w->era++;
    memset(w->cut, 0, sizeof w->cut);
    for (uint32_t i = 1; i <= w->n; i++) {
        w->m[i].slow = false;
        w->m[i].paused_until = 0;
        set_drift(w, i, 0);
        if (w->m[i].full) set_full(w, i, false);
        world_start(w, i);
    }
}

/* ---- */

/* What comes to a node that stands still comes when it goes on, in the same order. */
static bool waits(struct world *w, struct event *e)
{
    const struct machine *m = &w->m[e->node];
    if (!m->self || m->paused_until <= w->now || e->kind > TASK) return false;
    e->at = m->paused_until;
    insert(w, e);
    e->bytes = (struct buf){0};
    return true;
}

static void happen(struct world *w, struct event *e)
{
    void *self = w->m[e->node].self;
    bool current = e->life == w->m[e->node].life;
    w->counts.events++;
    if (waits(w, e)) return;
    switch (e->kind) {
    case FRAME: deliver(w, e); break;
    case TIMER:
        if (self && current && e->arg == w->m[e->node].timer) w->program.timer(w->program.ctx, self);
        break;
    case TASK:
        if (e->node == 0 || (self && current)) w->program.task(w->program.ctx, self, e->what, e->arg);
        break;
    case FAULT: begin_fault(w, e); break;
    case FAULT_END: end_fault(w, e); break;
    }
}

void world_run(struct world *w, uint64_t us)
{
    uint64_t end = w->now + us;
    while (w->n_heap && w->heap[0].at <= end && !w->failure[0]) {
        struct event e = pop(w);
        if (e.at > w->now) w->now = e.at;
        happen(w, &e);
        buf_fini(&e.bytes);
    }
    if (w->now < end && !w->failure[0]) w->now = end;
}
