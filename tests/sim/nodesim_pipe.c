/* Pipelines, and reads that may be old, of counters that nobody else uses.
 *
 * A pipeline is three increments of one counter, sent together. Whatever becomes of them, those that are answered were done in their order, and none behind one that was sent away. A read of a replica may show an old value, or one that is
 * not acknowledged yet; but none that nobody has asked for. */
#include <stdio.h>

#include "base/mem.h"
#include "nodesim_own.h"
#include "resp/answer.h"

enum { COUNTERS = 3, DEPTH = 3, WAIT_MS = 700, REST_MS = 300 };

struct pipe {
    uint32_t first;     /* the attempt that its first command is */
    uint32_t counter, n_open;
    bool busy, stale, away[DEPTH], done[DEPTH]; /* away: it certainly did not happen */
    int64_t numbers[DEPTH];
    size_t ops[DEPTH]; /* of the history */
};

struct nodesim_pipes {
    struct pipe pipes[NODESIM_PIPES];
    int64_t asked[COUNTERS]; /* increments that may have happened */
    uint32_t hints[COUNTERS]; /* who leads; 0 */
};

static void rest(struct nodesim *s, uint32_t number)
{
    struct pipe *p = &s->pipes->pipes[number];
    p->busy = false;
    p->first += DEPTH; /* what else comes is not heard */
    world_after(s->w, 0, 1 + rng_below(world_rng(s->w), REST_MS * WORLD_MS), NODESIM_PIPE, number);
}

static void begin(struct nodesim *s, uint32_t number)
{
    struct nodesim_pipes *all = s->pipes;
    struct pipe *p = &all->pipes[number];
    struct rng *rng = world_rng(s->w);
    if (!s->load) return;
    bool stale = rng_below(rng, 3) == 0;
    uint32_t counter = (uint32_t)rng_below(rng, COUNTERS), node = all->hints[counter];
    if (!node || node > NODESIM_NODES || stale || rng_below(rng, 10) == 0) node = 1 + (uint32_t)rng_below(rng, NODESIM_NODES);
    struct nodesim_request r = {.client = NODESIM_FIRST_PIPE + number, .attempt = p->first, .argc = 2, .times = stale ? 1 : DEPTH, .stale = stale};
    *p = (struct pipe){.first = p->first, .counter = counter, .n_open = r.times, .busy = true, .stale = stale};
    snprintf(r.words[0], NODESIM_WORD_BYTES, "%s", stale ? "get" : "incr");
    snprintf(r.words[1], NODESIM_WORD_BYTES, "counter%u", p->counter);
    if (!nodesim_client_post(s, node, &r)) {
        rest(s, number);
        return;
    }
    const struct wgl_part part = {.kind = WGL_INCR, .key = slice_str(r.words[1]), .by = 1};
    for (uint32_t i = 0; !stale && i < DEPTH; i++) p->ops[i] = wgl_call(s->history, r.client, (int64_t)world_now(s->w), &part, 1);
    if (!stale) all->asked[p->counter] += DEPTH;
    world_after(s->w, 0, WAIT_MS * WORLD_MS, NODESIM_PIPE, (uint64_t)(p->first + 1) << 32 | number);
}

/* Time is up, or a rest over: the upper half says which. */
void nodesim_pipe_event(struct nodesim *s, uint64_t arg)
{
    uint32_t number = (uint32_t)arg, waited = (uint32_t)(arg >> 32);
    struct pipe *p = &s->pipes->pipes[number];
    if (!waited && !p->busy) begin(s, number);
    else if (waited == p->first + 1 && p->busy) rest(s, number);
}

/* ---- answers */

static void check_order(struct nodesim *s, uint32_t number)
{
    const struct pipe *p = &s->pipes->pipes[number];
    bool all = true;
    int64_t last = 0;
    for (uint32_t i = 0; i < DEPTH; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (p->done[i] && p->away[k]) world_fail(s->w, "a command of a pipeline was done, and one before it was not");
        all &= p->done[i];
        if (!p->done[i]) continue;
        if (p->numbers[i] <= last) world_fail(s->w, "the commands of a pipeline on counter%u were answered %lld after %lld", p->counter, (long long)p->numbers[i], (long long)last);
        last = p->numbers[i];
    }
    s->result->pipelines += all;
}

static void take_stale(struct nodesim *s, const struct pipe *p, struct slice reply)
{
    struct answer a;
    if (!answer_next(&reply, &a) || (a.type != '$' && a.type != '_')) world_fail(s->w, "a stale read is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    int64_t value = 0;
    for (size_t i = 0; a.type == '$' && i < a.text.n; i++) value = value * 10 + a.text.p[i] - '0';
    if (value > s->pipes->asked[p->counter]) world_fail(s->w, "a stale read of counter%u shows %lld, and only %lld were asked for", p->counter, (long long)value, (long long)s->pipes->asked[p->counter]);
    s->result->stale_reads++;
}

static void take_increment(struct nodesim *s, struct pipe *p, uint32_t i, const struct nodesim_answer *a)
{
    struct slice reply = buf_slice(&a->reply);
    struct answer number;
    if (a->status == NODESIM_UNCERTAIN) return; /* it stays open in the history */
    if (a->status != NODESIM_DONE) {
        bool bounced = a->status != NODESIM_LOST; /* and those behind it were not tried */
        for (uint32_t k = i; k < (bounced ? DEPTH : i + 1); k++) {
            p->away[k] = true;
            wgl_refused(s->history, p->ops[k]);
        }
        if (bounced) p->n_open -= DEPTH - 1 - i;
        s->pipes->hints[p->counter] = a->leader;
        return;
    }
    if (!answer_next(&reply, &number) || number.type != ':') world_fail(s->w, "a counter is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    p->done[i] = true;
    p->numbers[i] = number.n;
    wgl_return(s->history, p->ops[i], (int64_t)world_now(s->w), &(struct wgl_answer){.number = number.n});
}

void nodesim_pipe_answer(struct nodesim *s, const struct nodesim_answer *a)
{
    uint32_t number = a->client - NODESIM_FIRST_PIPE, i;
    struct pipe *p = &s->pipes->pipes[number];
    i = a->attempt - p->first;
    if (!p->busy || i >= DEPTH) return;
    if (!p->stale) take_increment(s, p, i, a);
    else if (a->status == NODESIM_DONE) take_stale(s, p, buf_slice(&a->reply));
    if (--p->n_open) return;
    if (!p->stale) check_order(s, number);
    rest(s, number);
}

/* ---- */

void nodesim_pipe_new(struct nodesim *s) { s->pipes = mem_zalloc(sizeof *s->pipes); }
void nodesim_pipe_free(struct nodesim *s) { mem_free(s->pipes); }

void nodesim_pipe_start(struct nodesim *s)
{
    for (uint32_t i = 0; i < NODESIM_PIPES; i++) world_after(s->w, 0, 600 * WORLD_MS, NODESIM_PIPE, i);
}
