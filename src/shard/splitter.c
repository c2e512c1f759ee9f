#include "shard/splitter.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "shard/splitter_memory.h"

enum { FLAPS_MAX = 6, SOON = 32, LONG = 64 }; /* S6: in waiting times */
enum { RETRY_MS = 5000 }; /* what could not be done is not tried again before */

#define STAYS_HOT 0.8       /* of what made it hot: less than this ends it */
#define ONE_KEY_SHARE 0.5   /* a cut leaves at least that much on one side */
#define CLEARLY_LESS 1.4    /* S2: so much more has the range's shard to do */
#define BACKLOG_SHARE 4     /* the range that a backlog is put down to does a fourth of the shard's work, */
#define BACKLOG_LEAST 16    /* and a sixteenth of what would make it split for its rate alone */

/* ---- life */

struct splitter *splitter_new(void)
{
    struct splitter *s = mem_zalloc(sizeof *s);
    s->now_ms = SPLITTER_NEVER;
    return s;
}

static void forget(struct splitter_memory *m)
{
    buf_fini(&m->middle);
    buf_fini(&m->hot_key);
    mem_free(m);
}

static void drop_plans(struct splitter *s)
{
    for (uint32_t i = 0; i < s->n_plans; i++) {
        buf_fini(&s->plans[i].space);
        buf_fini(&s->plans[i].key);
        buf_fini(&s->plans[i].why);
    }
    s->n_plans = 0;
}

void splitter_free(struct splitter *s)
{
    for (uint32_t i = 0; i < s->n; i++) forget(s->memories[i]);
    drop_plans(s);
    for (unsigned i = 0; i < SPLITTER_LOG; i++) {
        buf_fini(&s->log[i].space);
        buf_fini(&s->log[i].text);
    }
    mem_free(s->memories);
    mem_free(s->shards);
    mem_free(s->view);
    mem_free(s->plans);
    mem_free(s->decisions);
    mem_free(s);
}

static void copy(struct buf *to, struct slice from)
{
    to->len = 0;
    buf_add_slice(to, from);
}

/* ---- the log */

static struct buf *log_line(struct splitter *s, struct slice space)
{
    struct log_line *line = &s->log[s->logged++ % SPLITTER_LOG];
    line->at_ms = s->now_ms;
    copy(&line->space, space);
    line->text.len = 0;
    return &line->text;
}

void splitter_log(const struct splitter *s, struct slice space, splitter_log_fn *each, void *ctx)
{
    uint64_t n = s->logged < SPLITTER_LOG ? s->logged : SPLITTER_LOG;
    for (uint64_t i = 1; i <= n; i++) {
        const struct log_line *line = &s->log[(s->logged - i) % SPLITTER_LOG];
        if (slice_eq(buf_slice(&line->space), space)) each(ctx, line->at_ms, buf_slice(&line->text));
    }
}

/* ---- times */

static int64_t after(int64_t since, int64_t ms) { return since == SPLITTER_NEVER ? SPLITTER_NEVER : since + ms; }

static void note_flap(struct splitter_memory *m, const struct splitter_limits *l, int64_t now, int64_t last)
{
    if (last == SPLITTER_NEVER || now - last >= SOON * splitter_wait(m, l)) return;
    if (m->flaps < FLAPS_MAX) m->flaps++;
    m->flap_ms = now;
}

static void fade(const struct step *st, struct splitter_memory *m)
{
    if (!m->flaps || !splitter_passed(st, splitter_later(m->flap_ms, m->changed_ms), LONG * splitter_wait(m, st->l))) return;
    m->flaps--;
    m->flap_ms = st->now;
}

/* ---- recalling what is known of each range */

static struct splitter_memory *find(const struct splitter *s, uint64_t id)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (s->memories[mid]->id == id) return s->memories[mid];
        if (s->memories[mid]->id < id) low = mid + 1;
        else high = mid;
    }
    return NULL;
}

/* A range that was not there before. If one below it in the same space was, it has been cut off from that one. */
static struct splitter_memory *get_to_know(const struct step *st, const struct splitter_range *r, const struct splitter_memory *from)
{
    struct splitter_memory *m = mem_zalloc(sizeof *m);
    *m = (struct splitter_memory){.id = r->id, .generation = r->generation, .since_ms = st->now, .ops = r->load.ops, .steady_ops = r->load.ops, .hottest = r->load.hottest, .shard = r->shard, .elsewhere = r->elsewhere, .changed_ms = st->now, .flap_ms = st->now};
    m->hand_ms = m->hot_ms = m->cold_ms = m->merged_ms = m->spread_ms = m->failed_ms = SPLITTER_NEVER;
    if (!from) return m;
    m->flaps = from->flaps;
    m->merged_ms = from->merged_ms;
    m->cut_off = r->elsewhere ? CUT_OFF_NOT : from->splitting;
    if (!from->splitting && !r->elsewhere && !from->elsewhere) m->hand_ms = st->now;
    return m;
}

/* The range's descriptor has changed since the last step: by us, or by hand; or by others, where they judge it. */
static void note_change(const struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    if (m->generation == r->generation) return;
    bool others = m->elsewhere || r->elsewhere;
    m->generation = r->generation;
    m->changed_ms = st->now;
    m->hot_ms = SPLITTER_NEVER;
    m->splitting = CUT_OFF_NOT;
    if (!m->ours && !others) m->hand_ms = st->now;
    if (!m->ours && others && m->shard != r->shard) {
        note_flap(m, st->l, st->now, m->spread_ms);
        m->spread_ms = st->now;
    }
    if (!r->moving && !r->unready) m->ops = m->steady_ops = r->load.ops;
    if (!r->moving) m->ours = false;
}

static int64_t before(int64_t now, int64_t ago_ms) { return ago_ms < 0 ? SPLITTER_NEVER : now - ago_ms; }

static void take_past(struct splitter_memory *m, const struct splitter_past *p, int64_t now)
{
    if (p->flaps > m->flaps) m->flap_ms = now;
    m->flaps = p->flaps < FLAPS_MAX ? p->flaps : FLAPS_MAX;
    m->hand_ms = before(now, p->hand_ago_ms);
    m->merged_ms = before(now, p->merged_ago_ms);
    m->spread_ms = before(now, p->spread_ago_ms);
}

/* S9: whoever judges it has told; from the moment on that it is judged here, it is observed anew. */
static void note_judge(const struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    if (r->elsewhere != m->elsewhere) m->hot_ms = m->cold_ms = SPLITTER_NEVER;
    m->elsewhere = r->elsewhere;
    if (!r->elsewhere) return;
    m->cut_off = CUT_OFF_NOT;
    m->ours = false;
    if (r->past) take_past(m, r->past, st->now);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = (*(struct splitter_memory *const *)a)->id, y = (*(struct splitter_memory *const *)b)->id;
    return x < y ? -1 : x > y;
}

/* Ranges that are no more are forgotten. */
static void keep_present(struct step *st)
{
    struct splitter *s = st->s;
    struct splitter_memory **now = mem_alloc((st->n + 1) * sizeof(*now));
    for (uint32_t i = 0; i < st->n; i++) now[i] = st->of[i];
    qsort(now, st->n, sizeof(*now), by_id);
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        while (k < st->n && now[k]->id < s->memories[i]->id) k++;
        if (k == st->n || now[k] != s->memories[i]) forget(s->memories[i]);
    }
    mem_free(s->memories);
    s->memories = now;
    s->n = st->n;
}

static void recall(struct step *st)
{
    struct splitter_memory *known = NULL; /* the last one of this space that was there before */
    for (uint32_t i = 0; i < st->n; i++) {
        const struct splitter_range *r = &st->ranges[i];
        if (i && !slice_eq(r->space, st->ranges[i - 1].space)) known = NULL;
        st->of[i] = find(st->s, r->id);
        if (st->of[i]) known = st->of[i];
        else st->of[i] = get_to_know(st, r, known);
    }
    for (uint32_t i = 0; i < st->n; i++) {
        note_change(st, &st->ranges[i], st->of[i]);
        note_judge(st, &st->ranges[i], st->of[i]);
    }
    keep_present(st);
}

/* ---- figures */

/* S1: the same limit for all ranges of a space. */
static void set_byte_limits(struct step *st)
{
    for (uint32_t i = 0, end; i < st->n; i = end) {
        uint64_t bytes = 0, share;
        for (end = i; end < st->n && slice_eq(st->ranges[end].space, st->ranges[i].space); end++) bytes += st->of[end]->bytes;
        share = bytes / ((uint64_t)(st->s->n_there ? st->s->n_there : 1) * SPLITTER_PIECES);
        uint64_t limit = !st->l->split_bytes ? 0 : share > st->l->split_bytes ? share : st->l->split_bytes;
        for (uint32_t k = i; k < end; k++) st->of[k]->byte_limit = limit;
    }
}

static bool is_over_rate(const struct step *st, const struct splitter_memory *m, double part) { return st->l->split_ops > 0 && m->ops >= part * st->l->split_ops; }

static bool is_backed_up(const struct step *st, const struct splitter_memory *m, double part)
{
    const struct shard_memory *s = &st->s->shards[m->shard];
    return st->l->split_backlog > 0 && s->backlog >= part * st->l->split_backlog && m->ops * BACKLOG_SHARE >= part * s->ops && m->ops * BACKLOG_LEAST >= part * st->l->split_ops;
}

static void begin_hot(const struct step *st, struct splitter_memory *m, struct slice middle)
{
    m->hot_ms = st->now;
    copy(&m->middle, middle);
}

static void note_heat(const struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    double part = m->hot_ms == SPLITTER_NEVER ? 1 : STAYS_HOT;
    bool rate = is_over_rate(st, m, part) && r->load.ops >= SPLITTER_STILL_HOT * st->l->split_ops, backlog = is_backed_up(st, m, part);
    m->hot_by_backlog = backlog && !rate;
    if (!rate && !backlog) {
        m->hot_ms = SPLITTER_NEVER;
        if (!splitter_is_too_large(m)) m->refused = SPLIT_NO_NEED;
    } else if (m->hot_ms == SPLITTER_NEVER) {
        begin_hot(st, m, r->load.cut);
    }
}

static void take_figures(struct step *st, uint32_t i)
{
    const struct splitter_range *r = &st->ranges[i];
    struct splitter_memory *m = st->of[i];
    m->shard = r->shard;
    if (r->moving || r->unready) return;
    m->keys = r->keys;
    m->bytes = r->bytes;
    splitter_smooth(st, &m->ops, r->load.ops, SPLITTER_SMOOTH_MS);
    splitter_smooth(st, &m->steady_ops, r->load.ops, splitter_shard_smooth_ms(st));
    if (r->load.n_cuts) {
        splitter_smooth(st, &m->hottest, r->load.hottest, SPLITTER_SMOOTH_MS);
        if (r->load.hottest > m->hottest) m->hottest = r->load.hottest; /* it rises at once: a cut beside a hot key is a cut for nothing */
        copy(&m->hot_key, r->load.hot_key);
    }
    if (!r->elsewhere) note_heat(st, r, m);
    fade(st, m);
}

/* ---- decisions */

struct plan *splitter_decide(struct step *st, enum splitter_kind kind, uint32_t i, struct slice key, uint32_t to_shard)
{
    struct splitter *s = st->s;
    const struct splitter_range *r = &st->ranges[i];
    CHECK(st->budget > 0 && s->n_plans < s->cap_plans && !st->taken[i]);
    struct plan *p = &s->plans[s->n_plans++];
    *p = (struct plan){.d = {.kind = kind, .id = r->id, .generation = r->generation, .shard = r->shard, .to_shard = to_shard}, .m = st->of[i]};
    copy(&p->space, r->space);
    copy(&p->key, key);
    st->taken[i] = true;
    st->budget--;
    st->of[i]->target = to_shard;
    return p;
}

/* ---- splitting */

static bool is_inside(const struct splitter_range *r, struct slice key)
{
    return key.n && slice_cmp(key, r->start) > 0 && (!r->end.n || slice_cmp(key, r->end) < 0);
}

/* Where the middle of the load was when it became too much, it must still be, roughly: else it will be elsewhere again when the cut is made. */
static bool travels(const struct splitter_range *r, const struct splitter_memory *m)
{
    uint32_t below = 0;
    if (!r->load.n_cuts || !m->middle.len) return false;
    for (uint32_t i = 0; i < r->load.n_cuts; i++) below += slice_cmp(r->load.cuts[i], buf_slice(&m->middle)) < 0;
    return below == 0 || below == LOAD_CUTS; /* the best cut of a load without a key as hot as ONE_KEY_SHARE has a quarter on each side at least */
}

static struct slice load_cut(const struct splitter_range *r) { return is_inside(r, r->load.cut) ? r->load.cut : r->median; }

static enum split_verdict judge_load(const struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    if (m->hot_ms == SPLITTER_NEVER) return SPLIT_NO_NEED;
    if (!splitter_passed(st, m->hot_ms, st->l->sustain_ms)) return SPLIT_NOT_YET;
    if (r->keys < 2) return SPLIT_ONE_KEY;
    if (m->hottest >= ONE_KEY_SHARE) return SPLIT_HOT_KEY;
    m->split_wait_ms = after(m->changed_ms, st->l->settle_ms);
    if (st->now < m->split_wait_ms) return SPLIT_SETTLING;
    if (m->shard_ops < m->least_ops * CLEARLY_LESS) return SPLIT_EVEN;
    if (travels(r, m)) return SPLIT_TRAVELS;
    if (!is_inside(r, load_cut(r))) return SPLIT_ONE_KEY;
    return m->hot_by_backlog ? SPLIT_BY_BACKLOG : SPLIT_BY_OPS;
}

static enum split_verdict judge_split(const struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    if (!st->l->on) return SPLIT_OFF;
    if (r->elsewhere) return SPLIT_ELSEWHERE;
    if (st->s->n_there < 2) return SPLIT_ALONE;
    if (r->moving) return SPLIT_MOVING;
    if (r->unready) return SPLIT_UNREADY;
    if (!splitter_is_too_large(m)) return judge_load(st, r, m);
    return r->keys < 2 || !is_inside(r, r->median) ? SPLIT_ONE_KEY : SPLIT_BY_BYTES;
}

/* A refusal is told once for each time that the range needs to split. */
static void tell_refusal(struct step *st, const struct splitter_range *r, struct splitter_memory *m)
{
    if (m->split == m->refused) return;
    m->refused = m->split;
    st->s->stats.refused++;
    struct buf *text = log_line(st->s, r->space);
    buf_printf(text, "range %llu: ", (unsigned long long)r->id);
    splitter_say_split(m, st->l, st->now, text);
}

static void consider_split(struct step *st, uint32_t i)
{
    const struct splitter_range *r = &st->ranges[i];
    struct splitter_memory *m = st->of[i];
    m->shard_ops = st->s->view[m->shard].ops;
    m->backlog = st->s->shards[m->shard].backlog;
    m->least_ops = splitter_least_ops(st->s);
    m->split = judge_split(st, r, m);
    if (st->taken[i]) return;
    if (m->split == SPLIT_BY_BYTES) st->urgency[i] = 1e6 * (double)m->bytes / (double)m->byte_limit; /* before those with load: it only grows */
    else if (m->split > SPLIT_BY_BYTES) st->urgency[i] = m->ops;
    if (splitter_is_refusal(m->split)) tell_refusal(st, r, m);
    if (m->split == SPLIT_TRAVELS) begin_hot(st, m, r->load.cut); /* it may come to rest */
}

static bool most_urgent(const struct step *st, uint32_t *i)
{
    *i = 0;
    for (uint32_t k = 1; k < st->n; k++)
        if (st->urgency[k] > st->urgency[*i]) *i = k;
    return st->n && st->urgency[*i] > 0;
}

static void decide_splits(struct step *st)
{
    uint32_t i;
    for (i = 0; i < st->n; i++) consider_split(st, i);
    while (st->budget && most_urgent(st, &i)) {
        bool by_bytes = st->of[i]->split == SPLIT_BY_BYTES;
        struct plan *p = splitter_decide(st, SPLITTER_SPLIT, i, by_bytes ? st->ranges[i].median : load_cut(&st->ranges[i]), st->ranges[i].shard);
        splitter_say_split(p->m, st->l, st->now, &p->why);
        st->urgency[i] = 0;
    }
    for (i = 0; i < st->n; i++)
        if (st->urgency[i] > 0) st->of[i]->split = SPLIT_BUDGET;
}

/* ---- merging */

uint64_t splitter_merge_bytes(const struct splitter_limits *l) { return l->split_bytes && l->split_bytes / 2 < l->merge_bytes ? l->split_bytes / 2 : l->merge_bytes; }
double splitter_merge_ops(const struct splitter_limits *l) { return l->split_ops > 0 && l->split_ops / 2 < l->merge_ops ? l->split_ops / 2 : l->merge_ops; }

/* When the pair may merge at the earliest, as far as it stays as it is. */
static int64_t merge_time(const struct step *st, const struct splitter_memory *a, const struct splitter_memory *b)
{
    int64_t wait = splitter_later(splitter_wait(a, st->l), splitter_wait(b, st->l));
    int64_t changed = splitter_later(a->changed_ms, b->changed_ms), hand = splitter_later(a->hand_ms, b->hand_ms);
    return splitter_later(splitter_later(after(changed, wait), after(b->cold_ms, wait)), after(hand, SPLITTER_HAND_MS));
}

static bool have_joined(const struct splitter_memory *a, const struct splitter_memory *b) { return a->shard == b->shard && (a->join == b->id || b->join == a->id); }

static void no_longer_join(struct splitter_memory *a, struct splitter_memory *b)
{
    if (a->join == b->id) a->join = 0;
    if (b->join == a->id) b->join = 0;
}

static bool is_busy(const struct step *st, uint32_t i) { return st->taken[i] || st->ranges[i].moving || st->ranges[i].unready || st->of[i]->cut_off; }

/* On b, with the range a before it. */
static enum merge_verdict judge_merge(const struct step *st, struct splitter_memory *a, struct splitter_memory *b)
{
    b->pair_bytes = a->bytes + b->bytes;
    b->pair_ops = a->ops + b->ops;
    bool large = b->pair_bytes > splitter_merge_bytes(st->l), warm = b->pair_ops > splitter_merge_ops(st->l);
    if (large || warm) {
        if (b->cold_ms != SPLITTER_NEVER) a->flap_ms = b->flap_ms = st->now; /* it was right to wait: no reason to forget */
        b->cold_ms = SPLITTER_NEVER;
        no_longer_join(a, b);
        return large ? MERGE_LARGE : MERGE_WARM;
    }
    if (b->cold_ms == SPLITTER_NEVER) b->cold_ms = st->now;
    if (have_joined(a, b)) return MERGE_NOW;
    b->merge_wait_ms = merge_time(st, a, b);
    if (st->now < b->merge_wait_ms) return b->merge_wait_ms == after(splitter_later(a->hand_ms, b->hand_ms), SPLITTER_HAND_MS) ? MERGE_HAND : MERGE_NOT_YET;
    return a->shard == b->shard ? MERGE_NOW : MERGE_MOVES_FIRST;
}

/* Whoever judges the smaller one has it moved. */
static void move_together(struct step *st, uint32_t i)
{
    uint32_t small = st->of[i]->bytes <= st->of[i - 1]->bytes ? i : i - 1, large = small == i ? i - 1 : i;
    if (st->ranges[small].elsewhere) return;
    struct plan *p = splitter_decide(st, SPLITTER_MOVE, small, st->ranges[small].start, st->ranges[large].shard);
    p->other = st->of[large];
    st->taken[large] = true;
    st->of[small]->move = MOVE_JOINS;
    splitter_say_move(st->of[small], st->l, st->now, &p->why);
    splitter_shift(st->s, st->of[small], st->ranges[small].shard, st->ranges[large].shard);
}

static void merge(struct step *st, uint32_t i)
{
    struct plan *p = splitter_decide(st, SPLITTER_MERGE, i, st->ranges[i].start, st->ranges[i].shard);
    p->other = st->of[i - 1];
    st->taken[i - 1] = true;
    splitter_say_merge(p->m, st->l, st->now, &p->why);
}

static void consider_merge(struct step *st, uint32_t i)
{
    struct splitter_memory *m = st->of[i];
    if (!st->l->on) m->merge = MERGE_OFF;
    else if (!i || !slice_eq(st->ranges[i].space, st->ranges[i - 1].space)) m->merge = MERGE_FIRST;
    else if (st->ranges[i].elsewhere && st->ranges[i - 1].elsewhere) m->merge = MERGE_ELSEWHERE;
    else if (is_busy(st, i) || is_busy(st, i - 1)) m->merge = MERGE_BUSY;
    else m->merge = judge_merge(st, st->of[i - 1], m);
    if (m->merge < MERGE_MOVES_FIRST) return;
    if (!st->budget) m->merge = MERGE_BUDGET;
    else if (m->merge == MERGE_NOW) merge(st, i);
    else move_together(st, i);
}

/* ---- a step */

static void begin(struct step *st, const struct splitter_shard *shards, uint32_t n_shards)
{
    struct splitter *s = st->s;
    drop_plans(s);
    s->now_ms = st->now;
    s->limits = *st->l;
    if (s->cap_plans < st->l->max_changes) {
        s->cap_plans = st->l->max_changes;
        s->plans = mem_resize(s->plans, s->cap_plans * sizeof *s->plans);
        s->decisions = mem_resize(s->decisions, s->cap_plans * sizeof *s->decisions);
    }
    splitter_take_shards(st, shards, n_shards);
    recall(st);
    st->budget = st->l->max_changes;
    for (uint32_t i = 0; i < st->n; i++) {
        take_figures(st, i);
        st->taken[i] = !splitter_passed(st, st->of[i]->failed_ms, RETRY_MS);
        if (!st->ranges[i].moving) continue;
        if (st->budget) st->budget--;
        splitter_shift(s, st->of[i], st->ranges[i].shard, st->ranges[i].to_shard);
    }
    set_byte_limits(st);
}

static void finish(struct step *st)
{
    struct splitter *s = st->s;
    for (uint32_t i = 0; i < s->n_plans; i++) {
        struct plan *p = &s->plans[i];
        p->d.space = buf_slice(&p->space);
        p->d.key = buf_slice(&p->key);
        p->d.why = buf_slice(&p->why);
        s->decisions[i] = p->d;
    }
    mem_free(st->of);
    mem_free(st->taken);
    mem_free(st->urgency);
}

uint32_t splitter_step(struct splitter *s, int64_t now_ms, const struct splitter_limits *limits, const struct splitter_range *ranges, uint32_t n, const struct splitter_shard *shards, uint32_t n_shards,
                       const struct splitter_decision **decisions)
{
    struct step st = {.s = s, .now = now_ms, .passed = s->now_ms == SPLITTER_NEVER || now_ms < s->now_ms ? 0 : now_ms - s->now_ms, .l = limits, .ranges = ranges, .n = n};
    st.of = mem_zalloc((n + 1) * sizeof(*st.of));
    st.taken = mem_zalloc((n + 1) * sizeof *st.taken);
    st.urgency = mem_zalloc((n + 1) * sizeof *st.urgency);
    begin(&st, shards, n_shards);
    decide_splits(&st);
    splitter_place_cut_off(&st);
    splitter_spread_overload(&st);
    for (uint32_t i = 0; i < n; i++) consider_merge(&st, i);
    finish(&st);
    *decisions = s->decisions;
    return s->n_plans;
}

/* ---- how it went */

static void split_done(struct splitter *s, struct plan *p)
{
    note_flap(p->m, &s->limits, s->now_ms, p->m->merged_ms);
    p->m->splitting = p->m->split == SPLIT_BY_BYTES ? CUT_OFF_BY_BYTES : CUT_OFF_BY_LOAD;
}

static void move_done(struct splitter *s, struct plan *p)
{
    p->m->cut_off = CUT_OFF_NOT;
    p->m->join = p->other ? p->other->id : 0;
    if (p->m->move != MOVE_SPREAD) return;
    note_flap(p->m, &s->limits, s->now_ms, p->m->spread_ms);
    p->m->spread_ms = s->now_ms;
}

static void merge_done(struct splitter *s, struct plan *p)
{
    struct splitter_memory *lower = p->other;
    lower->merged_ms = s->now_ms;
    if (p->m->flaps > lower->flaps) lower->flaps = p->m->flaps;
    lower->ours = true;
    lower->join = 0;
}

void splitter_done(struct splitter *s, const struct splitter_decision *d, bool ok, struct slice why)
{
    static void (*const done[])(struct splitter *s, struct plan *p) = {[SPLITTER_SPLIT] = split_done, [SPLITTER_MOVE] = move_done, [SPLITTER_MERGE] = merge_done};
    CHECK(d >= s->decisions && d < s->decisions + s->n_plans);
    struct plan *p = &s->plans[d - s->decisions];
    struct buf *text = log_line(s, d->space);
    buf_printf(text, "range %llu %.*s", (unsigned long long)d->id, (int)d->why.n, d->why.p);
    if (ok) {
        s->stats.done[d->kind]++;
        p->m->ours = true;
        done[d->kind](s, p);
    } else {
        s->stats.failed++;
        p->m->failed_ms = s->now_ms;
        buf_printf(text, "; could not be done: %.*s", (int)why.n, why.p);
    }
}

/* ---- looking inside */

static int64_t ago(const struct splitter *s, int64_t at_ms) { return at_ms == SPLITTER_NEVER ? -1 : s->now_ms - at_ms; }

bool splitter_past(const struct splitter *s, uint64_t id, struct splitter_past *out)
{
    const struct splitter_memory *m = find(s, id);
    if (!m || m->elsewhere) return false;
    *out = (struct splitter_past){.flaps = m->flaps, .hand_ago_ms = ago(s, m->hand_ms), .merged_ago_ms = ago(s, m->merged_ms), .spread_ago_ms = ago(s, m->spread_ms)};
    return true;
}

void splitter_stats(const struct splitter *s, struct splitter_stats *out) { *out = s->stats; }

double splitter_ops(const struct splitter *s, uint64_t id)
{
    const struct splitter_memory *m = find(s, id);
    return m ? m->ops : 0;
}

bool splitter_explain(const struct splitter *s, uint64_t id, struct splitter_words *out)
{
    const struct splitter_memory *m = find(s, id);
    if (!m) return false;
    splitter_say_split(m, &s->limits, s->now_ms, &out->split);
    splitter_say_merge(m, &s->limits, s->now_ms, &out->merge);
    splitter_say_move(m, &s->limits, s->now_ms, &out->move);
    return true;
}

void splitter_check(const struct splitter *s)
{
    CHECK(s->n_plans <= s->cap_plans);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct splitter_memory *m = s->memories[i];
        CHECK(m->id && m->flaps <= FLAPS_MAX && m->ops >= 0 && m->shard < s->n_shards);
        CHECK(i == 0 || s->memories[i - 1]->id < m->id);
        CHECK(m->changed_ms <= s->now_ms && m->hot_ms <= s->now_ms && m->cold_ms <= s->now_ms);
    }
}
