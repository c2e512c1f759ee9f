/* How much shards have to do, and the nodes of a cluster that lead them; and which ranges move for it: those that were cut off (S3), and those of a shard that has far more to do than the others (S4). */
#include "base/check.h"
#include "base/mem.h"
#include "shard/splitter_memory.h"

#define FAR_MORE 1.5 /* S4: than the average */
#define IMPROVES 0.9 /* a move leaves the busier of both with at most this */
#define LITTLE 32    /* of a shard's work: what is less than a part in so many changes nothing */

/* ---- figures */

void splitter_smooth(const struct step *st, double *value, double now, int64_t over_ms)
{
    *value += (now - *value) * (double)st->passed / (double)(st->passed + over_ms);
}

/* Shards are compared, so the noise of both figures counts: longer. */
int64_t splitter_shard_smooth_ms(const struct step *st) { return splitter_later(st->l->sustain_ms, SPLITTER_SMOOTH_MS); }

static void take_shard(const struct step *st, struct shard_memory *m, const struct splitter_shard *now, int64_t over_ms)
{
    if (m->away && !now->away) *m = (struct shard_memory){.ops = now->ops, .over_ms = SPLITTER_NEVER};
    m->away = now->away;
    m->node = now->node;
    if (now->away) return;
    m->bytes = now->bytes;
    m->last_ops = now->ops;
    splitter_smooth(st, &m->ops, now->ops, over_ms);
    splitter_smooth(st, &m->backlog, now->backlog, SPLITTER_SMOOTH_MS);
}

/* Sums up what each node has, in the view: at its first shard. */
static void sum_up_nodes(struct splitter *s)
{
    uint32_t *firsts = mem_alloc((s->n_shards + 1) * sizeof *firsts), n = 0;
    for (uint32_t i = 0; i < s->n_shards; i++) {
        struct shard_memory *m = &s->view[i];
        if (m->away) continue;
        uint32_t k = 0;
        while (k < n && s->view[firsts[k]].node != m->node) k++;
        if (k == n) {
            firsts[n++] = i;
            m->node_ops = 0;
            m->node_bytes = 0;
        }
        m->first = firsts[k];
        s->view[m->first].node_ops += m->ops;
        s->view[m->first].node_bytes += m->bytes;
    }
    mem_free(firsts);
}

void splitter_take_shards(struct step *st, const struct splitter_shard *shards, uint32_t n)
{
    struct splitter *s = st->s;
    int64_t over_ms = splitter_shard_smooth_ms(st);
    if (s->n_shards < n) {
        s->shards = mem_resize(s->shards, n * sizeof *s->shards);
        s->view = mem_resize(s->view, n * sizeof *s->view);
        for (uint32_t i = s->n_shards; i < n; i++) s->shards[i] = (struct shard_memory){.away = true};
    }
    s->n_shards = n;
    s->n_there = 0;
    for (uint32_t i = 0; i < n; i++) {
        take_shard(st, &s->shards[i], &shards[i], over_ms);
        s->view[i] = s->shards[i];
        s->n_there += !shards[i].away;
    }
    sum_up_nodes(s);
}

static void lessen(struct shard_memory *m, struct shard_memory *node, const struct splitter_memory *by)
{
    m->bytes -= by->bytes < m->bytes ? by->bytes : m->bytes;
    m->ops -= by->steady_ops < m->ops ? by->steady_ops : m->ops;
    node->node_bytes -= by->bytes < node->node_bytes ? by->bytes : node->node_bytes;
    node->node_ops -= by->steady_ops < node->node_ops ? by->steady_ops : node->node_ops;
}

void splitter_shift(struct splitter *s, const struct splitter_memory *m, uint32_t from, uint32_t to)
{
    struct shard_memory *a = &s->view[from], *b = &s->view[to];
    if (!a->away) lessen(a, &s->view[a->first], m);
    if (b->away) return;
    b->bytes += m->bytes;
    b->ops += m->steady_ops;
    s->view[b->first].node_bytes += m->bytes;
    s->view[b->first].node_ops += m->steady_ops;
}

double splitter_least_ops(const struct splitter *s)
{
    double least = -1;
    for (uint32_t i = 0; i < s->n_shards; i++)
        if (!s->view[i].away && (least < 0 || s->view[i].ops < least)) least = s->view[i].ops;
    return least < 0 ? 0 : least;
}

/* ---- where to */

static bool is_less(const struct splitter *s, const struct shard_memory *a, const struct shard_memory *b, bool by_bytes)
{
    const struct shard_memory *x = &s->view[a->first], *y = &s->view[b->first]; /* of their nodes */
    if (x != y && by_bytes && x->node_bytes != y->node_bytes) return x->node_bytes < y->node_bytes;
    if (x != y && !by_bytes && x->node_ops != y->node_ops) return x->node_ops < y->node_ops;
    return by_bytes ? a->bytes < b->bytes : a->ops < b->ops || (a->ops == b->ops && a->bytes < b->bytes);
}

/* Both shards are less loaded than the one is now, and the other one's node is no more loaded than this one's was. */
static bool is_better(const struct splitter *s, const struct splitter_memory *m, uint32_t to, bool by_bytes)
{
    const struct shard_memory *a = &s->view[m->shard], *b = &s->view[to];
    if (to == m->shard || a->away || b->away) return false;
    const struct shard_memory *x = &s->view[a->first], *y = &s->view[b->first];
    if (by_bytes) return b->bytes + m->bytes <= a->bytes && (x == y || y->node_bytes + m->bytes <= x->node_bytes);
    return b->ops + m->steady_ops <= a->ops * IMPROVES && (x == y || y->node_ops + m->steady_ops <= x->node_ops);
}

/* The shard that the range would best move to; false: it is well where it is. The node with the least comes first: shards of one node share its cores. */
static bool find_target(const struct splitter *s, const struct splitter_memory *m, bool by_bytes, uint32_t *to)
{
    bool any = false;
    for (uint32_t i = 0; i < s->n_shards; i++) {
        if (!is_better(s, m, i, by_bytes) || (any && !is_less(s, &s->view[i], &s->view[*to], by_bytes))) continue;
        *to = i;
        any = true;
    }
    return any;
}

/* ---- S3 */

static void place(struct step *st, uint32_t i)
{
    struct splitter_memory *m = st->of[i];
    bool by_bytes = m->cut_off == CUT_OFF_BY_BYTES;
    uint32_t to = 0;
    if (splitter_is_too_large(m)) {
        m->move = MOVE_WAITS;
    } else if (!find_target(st->s, m, by_bytes, &to)) {
        m->move = MOVE_STAYS;
        m->cut_off = CUT_OFF_NOT;
    } else if (!st->budget) {
        m->move = MOVE_BUDGET;
    } else {
        struct plan *p = splitter_decide(st, SPLITTER_MOVE, i, st->ranges[i].start, to);
        m->move = by_bytes ? MOVE_CUT_OFF_BYTES : MOVE_CUT_OFF_OPS;
        splitter_say_move(m, st->l, st->now, &p->why);
        splitter_shift(st->s, m, m->shard, to);
    }
}

void splitter_place_cut_off(struct step *st)
{
    for (uint32_t i = 0; i < st->n; i++) {
        struct splitter_memory *m = st->of[i];
        const struct splitter_range *r = &st->ranges[i];
        if (!st->l->on) m->move = MOVE_OFF;
        else if (r->moving) m->move = MOVE_UNDER_WAY;
        else if (r->elsewhere) m->move = MOVE_ELSEWHERE;
        else if (m->move != MOVE_STAYS || m->changed_ms == st->now) m->move = MOVE_NO_NEED;
        if (r->moving) m->target = r->to_shard;
        if (st->l->on && m->cut_off && !r->moving && !r->unready && !st->taken[i]) place(st, i);
    }
}

/* ---- S4 */

static void note_overload(struct step *st)
{
    struct splitter *s = st->s;
    double sum = 0;
    for (uint32_t i = 0; i < s->n_shards; i++) sum += s->shards[i].away ? 0 : s->shards[i].ops;
    for (uint32_t i = 0; i < s->n_shards; i++) {
        struct shard_memory *m = &s->shards[i];
        bool over = !m->away && st->l->split_ops > 0 && m->ops >= st->l->split_ops && m->last_ops >= SPLITTER_STILL_HOT * st->l->split_ops && m->ops * s->n_there >= FAR_MORE * sum;
        if (!over) m->over_ms = SPLITTER_NEVER;
        else if (m->over_ms == SPLITTER_NEVER) m->over_ms = st->now;
    }
}

static bool may_spread(const struct step *st, uint32_t i, uint32_t from)
{
    const struct splitter_range *r = &st->ranges[i];
    const struct splitter_memory *m = st->of[i];
    return r->shard == from && !r->elsewhere && !r->moving && !r->unready && !st->taken[i] && splitter_passed(st, m->changed_ms, splitter_wait(m, st->l)) && splitter_passed(st, m->hand_ms, SPLITTER_HAND_MS);
}

/* The busiest range that leaves both shards less loaded than the one is now. */
static void spread(struct step *st, uint32_t from)
{
    uint32_t to = 0, best_to = 0, best = st->n;
    for (uint32_t i = 0; i < st->n; i++) {
        if (!may_spread(st, i, from) || (best != st->n && st->of[i]->ops <= st->of[best]->ops) || !find_target(st->s, st->of[i], false, &to)) continue;
        best = i;
        best_to = to;
    }
    if (best == st->n || st->of[best]->steady_ops * LITTLE < st->s->view[from].ops) return; /* so little would change nothing */
    struct splitter_memory *m = st->of[best];
    m->least_ops = st->s->view[best_to].ops;
    struct plan *p = splitter_decide(st, SPLITTER_MOVE, best, st->ranges[best].start, best_to);
    m->move = MOVE_SPREAD;
    splitter_say_move(m, st->l, st->now, &p->why);
    splitter_shift(st->s, m, from, best_to);
    st->s->shards[from].over_ms = SPLITTER_NEVER; /* the next one after another while */
}

void splitter_spread_overload(struct step *st)
{
    note_overload(st);
    for (uint32_t i = 0; i < st->s->n_shards && st->l->on; i++) {
        const struct shard_memory *m = &st->s->shards[i];
        if (st->budget && m->over_ms != SPLITTER_NEVER && splitter_passed(st, m->over_ms, st->l->sustain_ms)) spread(st, i);
    }
}
