#include "shard/load.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "route/keyspace.h"
#include "shard/engine.h"
#include "store/hotkeys.h"

enum { FEW_SAMPLES = 16 };

/* ---- one window */

void load_clear(struct load_window *w, int64_t now_ms)
{
    w->since_ms = now_ms;
    w->all = w->seen = w->n = 0;
}

void load_add(struct load_window *w, struct rng *rng, struct slice key)
{
    struct slice space = space_of(key);
    w->all++;
    if (space.n >= LOAD_KEY_MAX) return;
    uint64_t place = w->seen++;
    if (place >= LOAD_SAMPLES) place = rng_below(rng, w->seen); /* stays with the right chance if it falls below LOAD_SAMPLES */
    else w->n++;
    if (place >= LOAD_SAMPLES) return;
    struct load_sample *s = &w->of[place];
    s->space = (uint8_t)space.n;
    s->n = (uint8_t)(key.n < LOAD_KEY_MAX ? key.n : LOAD_KEY_MAX);
    memcpy(s->key, key.p, s->n);
}

static double per_second(const struct load_window *w, int64_t now_ms, double drawn)
{
    double seconds = now_ms > w->since_ms ? (double)(now_ms - w->since_ms) / 1000 : 1;
    return drawn * HOTKEYS_SAMPLE / seconds;
}

double load_all(const struct load_window *w, int64_t now_ms) { return per_second(w, now_ms, (double)w->all); }

static struct slice key_of(const struct load_sample *s) { return slice_of(s->key, s->n); }
static struct slice space_of_sample(const struct load_sample *s) { return slice_of(s->key, s->space); }

static int compare(struct slice space_a, struct slice key_a, struct slice space_b, struct slice key_b)
{
    int d = slice_cmp(space_a, space_b);
    return d ? d : slice_cmp(key_a, key_b);
}

static int compare_samples(const void *a, const void *b) { return compare(space_of_sample(a), key_of(a), space_of_sample(b), key_of(b)); }

void load_sort(struct load_window *w) { qsort(w->of, w->n, sizeof *w->of, compare_samples); }

/* The first sample at or after a key of a space; after all of the space if past. */
static uint32_t find(const struct load_window *w, struct slice space, struct slice key, bool past)
{
    uint32_t low = 0, high = w->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int d = slice_cmp(space_of_sample(&w->of[mid]), space);
        bool before = d < 0 || (d == 0 && (past || slice_cmp(key_of(&w->of[mid]), key) < 0));
        if (before) low = mid + 1;
        else high = mid;
    }
    return low;
}

static uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

/* Looks at runs of the same key: the longest one is the hottest key, and the begin of one that is nearest to the middle is the best cut. */
static void look_at_runs(const struct load_window *w, uint32_t first, uint32_t end, struct load_figures *f)
{
    uint32_t longest = 0, best = 0, middle = first + (end - first) / 2;
    for (uint32_t i = first, next; i < end; i = next) {
        for (next = i + 1; next < end && slice_eq(key_of(&w->of[i]), key_of(&w->of[next])); next++) {}
        if (next - i > longest) {
            longest = next - i;
            f->hot_key = key_of(&w->of[i]);
        }
        if (i > first && (!best || distance(i, middle) < distance(best, middle))) best = i;
    }
    f->hottest = (double)longest / (double)(end - first);
    if (best) f->cut = key_of(&w->of[best]);
}

void load_sum(const struct load_window *w, int64_t now_ms, struct slice space, struct slice start, struct slice end, struct load_figures *f)
{
    uint32_t first = find(w, space, start, false), last = find(w, space, end, end.n == 0), n = last > first ? last - first : 0;
    *f = (struct load_figures){0};
    if (!n) return;
    f->ops = per_second(w, now_ms, (double)n * ((double)w->seen / (double)w->n));
    look_at_runs(w, first, last, f);
    if (n < FEW_SAMPLES) return;
    f->n_cuts = LOAD_CUTS;
    for (uint32_t i = 0; i < LOAD_CUTS; i++) f->cuts[i] = key_of(&w->of[first + n * (i + 1) / (LOAD_CUTS + 1)]);
}

/* ---- an engine's */

struct load { /* of one shard, under its token */
    struct store *store;
    struct load_window *window; /* NULL: not begun */
    struct rng rng;
};

struct loads {
    struct engine *engine;
    struct load *of; /* [shards] */
    pthread_mutex_t lock;
    struct loads_figure *figures; /* under the lock */
    uint32_t n_figures;
};

static void note(void *ctx, struct slice key)
{
    struct load *l = ctx;
    const struct store *s = l->store;
    if (s->is_ordered && s->is_ordered(s->is_ordered_ctx, space_of(key))) load_add(l->window, &l->rng, key);
    else l->window->all++;
}

struct loads *loads_new(struct engine *e)
{
    struct loads *l = mem_zalloc(sizeof *l);
    l->engine = e;
    l->of = mem_zalloc(e->route.shards * sizeof *l->of);
    pthread_mutex_init(&l->lock, NULL);
    for (uint32_t i = 0; i < e->route.shards; i++) {
        l->of[i] = (struct load){.store = e->stores[i]};
        rng_init(&l->of[i].rng, e->random + i);
    }
    e->loads = l;
    return l;
}

void loads_free(struct loads *l)
{
    for (uint32_t i = 0; i < l->engine->route.shards; i++) {
        l->of[i].store->hotkeys->on_sample = NULL;
        mem_free(l->of[i].window);
    }
    l->engine->loads = NULL;
    pthread_mutex_destroy(&l->lock);
    mem_free(l->figures);
    mem_free(l->of);
    mem_free(l);
}

struct load_window *loads_take(struct loads *l, uint32_t shard, int64_t now_ms, struct load_window *empty)
{
    struct load *of = &l->of[shard];
    struct load_window *full = of->window;
    if (!full) {
        full = mem_zalloc(sizeof *full);
        load_clear(full, now_ms);
        of->store->hotkeys->on_sample_ctx = of;
        of->store->hotkeys->on_sample = note;
    }
    load_clear(empty, now_ms);
    of->window = empty;
    return full;
}

void loads_publish(struct loads *l, struct loads_figure *figures, uint32_t n)
{
    pthread_mutex_lock(&l->lock);
    struct loads_figure *before = l->figures;
    l->figures = figures;
    l->n_figures = n;
    pthread_mutex_unlock(&l->lock);
    mem_free(before);
}

static double find_ops(const struct loads_figure *f, uint32_t n, uint64_t range)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (f[mid].range == range) return f[mid].ops;
        if (f[mid].range < range) low = mid + 1;
        else high = mid;
    }
    return 0;
}

double loads_ops(struct loads *l, uint64_t range)
{
    if (!l) return 0;
    pthread_mutex_lock(&l->lock);
    double ops = find_ops(l->figures, l->n_figures, range);
    pthread_mutex_unlock(&l->lock);
    return ops;
}
