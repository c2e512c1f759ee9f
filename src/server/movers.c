#include "server/movers.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/mover.h"
#include "cluster/node.h"
#include "server/front.h"
#include "server/relay_call.h"
#include "server/relay_parts.h"

enum {
    LOOK_EVERY_MS = 100, /* at what group 1 has, while this node leads it */
    TELL_MS = 2000,
};

/* Something that was asked of groups or of group 1, and is not answered yet. */
struct errand {
    struct mail home; /* of what group 1 was told */
    struct errand *next, **back;
    struct movers *movers;
    uint64_t op, version;
};

struct movers {
    struct front *front;
    struct mover *mover;
    struct errand *errands;
    struct {
        struct mail home;
        bool under_way;
        struct metahost_moves *found;
    } look;
    int64_t next_look_ms;
    bool leads; /* group 1, as it last was found */
    struct movers_info counts; /* one writer, read by anyone: relaxed */
};

static struct errand *errand_new(struct movers *m, uint64_t op)
{
    struct errand *e = mem_zalloc(sizeof *e);
    *e = (struct errand){.movers = m, .op = op, .next = m->errands, .back = &m->errands};
    if (e->next) e->next->back = &e->next;
    return m->errands = e;
}

static void errand_free(struct errand *e)
{
    *e->back = e->next;
    if (e->next) e->next->back = e->back;
    mem_free(e);
}

static void show(struct movers *m, uint32_t under_way)
{
    const struct mover_counts *k = mover_counts(m->mover);
    struct movers_info *to = &m->counts;
    __atomic_store_n(&to->operations, k->operations, __ATOMIC_RELAXED);
    __atomic_store_n(&to->slices, k->slices, __ATOMIC_RELAXED);
    __atomic_store_n(&to->keys, k->keys, __ATOMIC_RELAXED);
    __atomic_store_n(&to->bytes, k->bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&to->busy, k->busy, __ATOMIC_RELAXED);
    __atomic_store_n(&to->large, k->large, __ATOMIC_RELAXED);
    __atomic_store_n(&to->longest_slice_ms, k->longest_slice_ms, __ATOMIC_RELAXED);
    __atomic_store_n(&to->under_way, under_way, __ATOMIC_RELAXED);
}

/* ---- the host: groups */

static void answered(void *ctx, struct call *c)
{
    static const enum txn_fate fates[] = {[CALL_ANSWERED] = TXN_ANSWERED, [CALL_NOBODY] = TXN_NOT_DONE, [CALL_UNCERTAIN] = TXN_MAY_BE_DONE};
    struct errand *e = ctx;
    struct movers *m = e->movers;
    struct txn_answer *a = mem_alloc(call_size(c) * sizeof *a);
    for (uint32_t i = 0; i < call_size(c); i++) a[i].fate = fates[call_fate(c, i, &a[i].reply)];
    uint64_t op = e->op;
    errand_free(e);
    mover_answered(m->mover, op, a, call_size(c));
    mem_free(a);
    call_free(c);
}

static void send(void *ctx, struct mover *mover, uint64_t op, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct movers *m = ctx;
    struct call *c = call_new(m->front, 0, 2, answered, errand_new(m, op));
    for (uint32_t i = 0; i < n; i++) {
        const struct command *cmd = command_find_any(m->front->worker.engine->commands, requests[i].argv[0]);
        CHECK(cmd);
        call_add(c, requests[i].group, cmd, requests[i].argv, requests[i].argc);
    }
    call_send(c, timeout_ms);
}

/* ---- the host: group 1 */

static void told(struct worker *w, struct mail *mail)
{
    struct errand *e = (struct errand *)mail;
    struct movers *m = e->movers;
    uint64_t op = e->op, version = e->version;
    errand_free(e);
    mover_told(m->mover, op, version);
}

/* On the raft thread. */
static void stepped(void *ctx, uint64_t version)
{
    struct errand *e = ctx;
    e->version = version;
    engine_send(e->movers->front->worker.engine, 0, &e->home);
}

static void tell(void *ctx, struct mover *mover, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    struct movers *m = ctx;
    struct errand *e = errand_new(m, op);
    e->home.to_worker = told;
    node_step(m->front->server->node, op, from, to, boundary, TELL_MS, stepped, e);
}

static uint64_t now_ms(void *ctx) { return (uint64_t)relay_now_ms(); }

/* ---- looking what there is */

static void found(struct worker *w, struct mail *mail)
{
    struct movers *m = front_of(w)->movers;
    struct metahost_moves *f = m->look.found;
    m->look.under_way = false;
    m->look.found = NULL;
    if (!f) return;
    m->leads = f->term != 0;
    mover_drive(m->mover, f->term, f->map, f->ops, f->n);
    show(m, f->n);
    metahost_moves_free(f);
}

/* On the raft thread. */
static void looked(void *ctx, struct metahost_moves *f)
{
    struct movers *m = ctx;
    m->look.found = f;
    engine_send(m->front->worker.engine, 0, &m->look.home);
}

static void look(struct movers *m)
{
    struct node *n = m->front->server->node;
    if (node_leader(n, META_MAP_GROUP) != node_id(n) && !m->leads) return;
    m->look.under_way = true;
    m->look.home.to_worker = found;
    node_moves(n, looked, m);
}

/* ---- a front's */

struct movers *movers_new(struct front *f)
{
    struct movers *m = mem_zalloc(sizeof *m);
    m->front = f;
    m->mover = mover_new(&(struct mover_host){m, send, tell, now_ms});
    return m;
}

void movers_free(struct movers *m)
{
    while (m->errands) errand_free(m->errands);
    if (m->look.found) metahost_moves_free(m->look.found);
    mover_free(m->mover);
    mem_free(m);
}

void movers_turn(struct front *f)
{
    struct movers *m = f->movers;
    int64_t now = relay_now_ms();
    if (f->stopping) return;
    if (mover_wakes_ms(m->mover) <= (uint64_t)now) mover_turn(m->mover);
    if (m->look.under_way || now < m->next_look_ms) return;
    m->next_look_ms = now + LOOK_EVERY_MS;
    look(m);
}

int movers_wait_ms(const struct front *f)
{
    const struct movers *m = f->movers;
    int64_t now = relay_now_ms(), until = now + LOOK_EVERY_MS;
    uint64_t wakes = mover_wakes_ms(m->mover);
    if (!m->look.under_way) until = m->next_look_ms;
    if (wakes < (uint64_t)until) until = (int64_t)wakes;
    return until < now ? 0 : (int)(until - now);
}

void movers_look(const struct server *s, struct movers_info *out)
{
    const struct movers_info *from = &s->fronts[0]->movers->counts;
    *out = (struct movers_info){
        .operations = STAT_GET(from->operations), .slices = STAT_GET(from->slices), .keys = STAT_GET(from->keys), .bytes = STAT_GET(from->bytes),
        .busy = STAT_GET(from->busy), .large = STAT_GET(from->large), .longest_slice_ms = STAT_GET(from->longest_slice_ms), .under_way = STAT_GET(from->under_way),
    };
}
