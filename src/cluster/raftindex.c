#include "cluster/raftindex.h"

#include "base/mem.h"
#include "cluster/raftbatch.h"

enum { INDEX_MAX_BITS = 62 };

/* --- groups --- */

static uint32_t place_of(const struct raftindex *x, uint32_t id)
{
    uint32_t from = 0, to = x->n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (x->v[mid]->id < id) from = mid + 1;
        else to = mid;
    }
    return from;
}

struct raftindex_group *raftindex_find(const struct raftindex *x, uint32_t id)
{
    uint32_t i = place_of(x, id);
    return i < x->n && x->v[i]->id == id ? x->v[i] : NULL;
}

struct raftindex_group *raftindex_make(struct raftindex *x, uint32_t id)
{
    uint32_t i = place_of(x, id);
    CHECK(i == x->n || x->v[i]->id != id);
    x->v = mem_resize(x->v, (x->n + 1) * sizeof(struct raftindex_group *));
    memmove(x->v + i + 1, x->v + i, (x->n - i) * sizeof(struct raftindex_group *));
    x->n++;
    x->v[i] = mem_zalloc(sizeof(struct raftindex_group));
    x->v[i]->id = id;
    x->v[i]->mark.first = x->v[i]->open_first = x->v[i]->flight_first = 1;
    return x->v[i];
}

static void group_free(struct raftindex_group *g)
{
    buf_fini(&g->configuration);
    buf_fini(&g->cache);
    mem_free(g->v);
    mem_free(g);
}

void raftindex_fini(struct raftindex *x)
{
    for (uint32_t i = 0; i < x->n; i++) group_free(x->v[i]);
    mem_free(x->v);
}

/* --- entries --- */

struct raftindex_entry *raftindex_at(const struct raftindex_group *g, uint64_t index)
{
    return index > g->base && index - g->base <= g->n ? &g->v[g->head + index - g->base - 1] : NULL;
}

static uint64_t record_bytes(const struct raftindex_entry *e) { return RAFTBATCH_RECORD_BYTES + (uint64_t)e->bytes; }

static void let_go(struct raftindex *x, struct raftindex_group *g, const struct raftindex_entry *e)
{
    g->bytes -= record_bytes(e);
    if (e->segment) raftsegs_release(x->segs, e->segment, x->batch);
}

/* Room at the end: the places before head are used again once they are half of all. */
static void make_room(struct raftindex_group *g)
{
    if (g->head + g->n < g->cap) return;
    if (g->head > g->cap / 2) {
        memmove(g->v, g->v + g->head, g->n * sizeof *g->v);
        g->head = 0;
        return;
    }
    g->cap = g->cap ? 2 * g->cap : 16;
    g->v = mem_resize(g->v, g->cap * sizeof *g->v);
}

void raftindex_append(struct raftindex_group *g, struct raftindex_entry e)
{
    make_room(g);
    g->v[g->head + g->n++] = e;
    g->bytes += record_bytes(&e);
}

/* Neither points behind the last entry, nor before the first. */
static void clamp_firsts(struct raftindex_group *g)
{
    uint64_t *firsts[] = {&g->open_first, &g->flight_first};
    for (int i = 0; i < 2; i++) {
        if (*firsts[i] > raftindex_last(g) + 1) *firsts[i] = raftindex_last(g) + 1;
        if (*firsts[i] <= g->base) *firsts[i] = g->base + 1;
    }
}

void raftindex_truncate(struct raftindex *x, struct raftindex_group *g, uint64_t from)
{
    while (g->n && raftindex_last(g) >= from) {
        let_go(x, g, &g->v[g->head + g->n - 1]);
        g->n--;
    }
    if (raftindex_last(g) >= from) g->base = from - 1; /* of entries that are not here */
    clamp_firsts(g);
}

/* Entries up to and with this one go; there may be none so far. */
static void drop_front(struct raftindex *x, struct raftindex_group *g, uint64_t to)
{
    while (g->n && g->base < to) {
        let_go(x, g, &g->v[g->head]);
        g->head++;
        g->n--;
        g->base++;
    }
    if (g->n) return;
    g->head = 0;
    if (g->base < to) g->base = to;
}

static void keep_mark(struct raftindex *x, struct raftindex_group *g, const struct raftlog_mark *m)
{
    struct buf configuration = {0};
    buf_add_slice(&configuration, m->configuration); /* first: it may be the one that is replaced */
    x->configuration_bytes += configuration.len - g->configuration.len;
    buf_fini(&g->configuration);
    g->configuration = configuration;
    g->mark = *m;
    g->mark.configuration = buf_slice(&g->configuration);
}

void raftindex_mark(struct raftindex *x, struct raftindex_group *g, const struct raftlog_mark *m)
{
    uint64_t to = m->index > raftindex_last(g) ? m->index : m->first - 1;
    keep_mark(x, g, m);
    drop_front(x, g, to);
    clamp_firsts(g);
}

void raftindex_remove(struct raftindex *x, struct raftindex_group *g)
{
    uint32_t i = place_of(x, g->id);
    raftindex_truncate(x, g, g->base + 1);
    x->configuration_bytes -= g->configuration.len;
    x->n--;
    memmove(x->v + i, x->v + i + 1, (x->n - i) * sizeof(struct raftindex_group *));
    group_free(g);
}

void raftindex_restate(struct raftindex *x, struct raftindex_group *g, uint64_t term, uint64_t vote, uint64_t last, const struct raftlog_mark *m)
{
    CHECK(g->n == 0);
    g->term = term;
    g->vote = vote;
    g->base = last;
    g->open_first = g->flight_first = last + 1;
    keep_mark(x, g, m);
}

/* --- what may follow --- */

const char *raftindex_bars_entry(const struct raftindex_group *g, uint64_t index)
{
    return index == raftindex_last(g) + 1 ? NULL : "an entry does not follow the one before";
}

const char *raftindex_bars_truncate(const struct raftindex_group *g, uint64_t from)
{
    if (from <= g->mark.index) return "a truncation goes into a snapshot";
    return from <= raftindex_last(g) + 1 ? NULL : "a truncation begins behind the last entry";
}

const char *raftindex_bars_mark(const struct raftindex_group *g, const struct raftlog_mark *m)
{
    if (m->index < g->mark.index || m->first < g->mark.first) return "a mark goes back";
    if (m->index >> INDEX_MAX_BITS || m->first > m->index + 1) return "a mark makes no sense";
    return m->index <= raftindex_last(g) || m->first == m->index + 1 ? NULL : "a mark keeps entries that are not there";
}

const char *raftindex_bars_state(uint64_t last, const struct raftlog_mark *m)
{
    return last >> INDEX_MAX_BITS || m->index > last || m->first == 0 || m->first > m->index + 1 ? "a state makes no sense" : NULL;
}

/* --- checking --- */

static void check_group(const struct raftindex_group *g, uint64_t *entries, uint64_t oldest)
{
    uint64_t bytes = 0;
    CHECK(g->mark.index <= raftindex_last(g) && g->mark.first <= g->mark.index + 1 && g->mark.first == g->base + 1);
    CHECK(g->open_first > g->base && g->open_first <= raftindex_last(g) + 1 && g->flight_first > g->base && g->head + g->n <= g->cap);
    for (uint64_t i = 0; i < g->n; i++) {
        const struct raftindex_entry *e = &g->v[g->head + i], *before = i ? e - 1 : NULL;
        CHECK((e->segment == 0) == (g->base + 1 + i >= g->open_first));
        CHECK(!before || e->segment == 0 || e->segment > before->segment || (e->segment == before->segment && e->at > before->at));
        if (e->segment) entries[e->segment - oldest]++;
        bytes += record_bytes(e);
    }
    CHECK(bytes == g->bytes);
}

void raftindex_check(const struct raftindex *x)
{
    const struct raftsegs_list *live = &x->segs->live;
    uint64_t *entries = mem_zalloc((live->n + 1) * sizeof *entries), configurations = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        CHECK(i == 0 || x->v[i - 1]->id < x->v[i]->id);
        check_group(x->v[i], entries, live->n ? live->v[0].number : 0);
        configurations += x->v[i]->configuration.len;
    }
    CHECK(configurations == x->configuration_bytes);
    for (uint32_t i = 0; i < live->n; i++) CHECK(entries[i] == live->v[i].entries && live->v[i].number == live->v[0].number + i);
    mem_free(entries);
}

/* --- the cache --- */

/* When it is full its older half goes, so each byte is moved about once. */
uint64_t raftindex_cache(struct raftindex_group *g, struct slice data, uint64_t limit)
{
    if (data.n > limit / 2) return 0;
    if (g->cache.len + data.n > limit) {
        size_t gone = g->cache.len - limit / 2;
        memmove(g->cache.p, g->cache.p + gone, g->cache.len - gone);
        g->cache.len -= gone;
        g->cache_start += gone;
    }
    buf_add_slice(&g->cache, data);
    return g->cache_start + g->cache.len - data.n + 1;
}

bool raftindex_cached(const struct raftindex_group *g, const struct raftindex_entry *e, struct slice *data)
{
    if (e->cached == 0 || e->cached - 1 < g->cache_start) return false;
    *data = e->bytes == 0 ? SLICE("") : slice_of(g->cache.p + (e->cached - 1 - g->cache_start), e->bytes);
    return true;
}
