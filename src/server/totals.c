#include "server/totals.h"

#include "base/clock.h"
#include "base/mem.h"
#include "server/front.h"

struct command_totals {
    uint64_t calls, ticks, rejected, failed;
};

/* Where the counters stood at the last reset. */
struct totals_base {
    pthread_mutex_t lock;
    size_t n_commands;
    struct totals totals;
    struct command_totals *commands; /* [n_commands] */
    struct hist **durations;         /* [n_commands]; NULL: none by then */
};

struct totals_base *totals_new(size_t commands)
{
    struct totals_base *b = mem_zalloc(sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    b->n_commands = commands;
    b->commands = mem_zalloc(commands * sizeof *b->commands);
    b->durations = mem_zalloc(commands * sizeof *b->durations);
    return b;
}

void totals_free(struct totals_base *b)
{
    for (size_t i = 0; i < b->n_commands; i++) mem_free(b->durations[i]);
    mem_free(b->durations);
    mem_free(b->commands);
    pthread_mutex_destroy(&b->lock);
    mem_free(b);
}

/* ---- since the start */

void totals_since_start(const struct server *s, struct totals *out)
{
    const struct engine *e = s->engine;
    *out = (struct totals){0};
    out->of[TOTAL_CONNECTIONS] = atomic_load_explicit(&s->connections_total, memory_order_relaxed);
    out->of[TOTAL_REJECTED] = atomic_load_explicit(&s->connections_rejected, memory_order_relaxed);
    out->of[TOTAL_CLOSED_BY_LIMIT] = atomic_load_explicit(&s->connections_closed_by_limit, memory_order_relaxed);
    out->of[TOTAL_CLOSED_BY_QUERY] = atomic_load_explicit(&s->connections_closed_by_query, memory_order_relaxed);
    for (uint32_t i = 0; i < e->n_workers; i++) {
        const struct loop *loop = __atomic_load_n(&s->fronts[i]->loop, __ATOMIC_ACQUIRE);
        out->of[TOTAL_COMMANDS] += STAT_GET(e->workers[i]->stats.commands);
        out->of[TOTAL_TURNS] += STAT_GET(e->workers[i]->stats.turns);
        if (!loop) continue; /* it is starting */
        out->of[TOTAL_BYTES_IN] += loop_bytes_in(loop);
        out->of[TOTAL_BYTES_OUT] += loop_bytes_out(loop);
    }
    for (uint32_t i = 0; i < e->route.shards; i++) {
        const struct store_stats *n = &e->stores[i]->stats;
        out->of[TOTAL_HITS] += STAT_GET(n->hits);
        out->of[TOTAL_MISSES] += STAT_GET(n->misses);
        out->of[TOTAL_EXPIRED] += STAT_GET(n->expired);
        out->of[TOTAL_EVICTED] += STAT_GET(n->evicted);
    }
}

static struct command_totals command_since_start(const struct server *s, size_t index)
{
    struct command_totals sum = {0};
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        const struct command_stat *c = &s->engine->workers[i]->commands[index];
        sum.calls += STAT_GET(c->calls);
        sum.ticks += STAT_GET(c->ticks);
        sum.rejected += STAT_GET(c->rejected);
        sum.failed += STAT_GET(c->failed);
    }
    return sum;
}

/* Adds to out; false if no worker has any. */
static bool durations_since_start(const struct server *s, size_t index, struct hist *out)
{
    bool any = false;
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        const struct hist *h = __atomic_load_n(&s->engine->workers[i]->commands[index].hist, __ATOMIC_ACQUIRE);
        if (h) hist_merge(out, h);
        any |= h != NULL;
    }
    return any;
}

/* ---- since the last reset */

void totals_read(struct server *s, struct totals *out)
{
    struct totals_base *b = s->totals;
    totals_since_start(s, out);
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < TOTAL_COUNT; i++) out->of[i] -= b->totals.of[i];
    pthread_mutex_unlock(&b->lock);
}

void totals_of_command(struct server *s, size_t index, struct totals_command *out)
{
    struct totals_base *b = s->totals;
    struct command_totals now = command_since_start(s, index);
    pthread_mutex_lock(&b->lock);
    struct command_totals then = b->commands[index];
    pthread_mutex_unlock(&b->lock);
    *out = (struct totals_command){.calls = now.calls - then.calls,
                                   .rejected = now.rejected - then.rejected,
                                   .failed = now.failed - then.failed,
                                   .us = (double)(now.ticks - then.ticks) / clock_ticks_per_us()};
}

bool totals_durations(struct server *s, size_t index, struct hist *out)
{
    struct totals_base *b = s->totals;
    struct hist h = {0};
    if (!durations_since_start(s, index, &h)) return false;
    pthread_mutex_lock(&b->lock);
    if (b->durations[index]) hist_subtract(&h, b->durations[index]);
    pthread_mutex_unlock(&b->lock);
    if (h.count == 0) return false;
    *out = h;
    return true;
}

static void note_durations(const struct server *s, size_t index, struct hist **base)
{
    struct hist h = {0};
    if (!durations_since_start(s, index, &h)) return;
    if (!*base) *base = mem_alloc(sizeof h);
    **base = h;
}

void totals_reset(struct server *s)
{
    struct totals_base *b = s->totals;
    pthread_mutex_lock(&b->lock);
    totals_since_start(s, &b->totals);
    for (size_t i = 0; i < b->n_commands; i++) {
        b->commands[i] = command_since_start(s, i);
        note_durations(s, i, &b->durations[i]);
    }
    pthread_mutex_unlock(&b->lock);
}
