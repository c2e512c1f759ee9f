#include "wglhistory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { OPEN_MAX = 64, SAMPLES_MAX = 6, CONFIGS_DEFAULT = 4000000 };

/* ---- the search over one group of keys */

/* Where the search is: the operations whose return is before `event` are all in the order; of those that are open, the ones in `known`; of those that never return, the ones in the set `lost`. */
struct config {
    uint32_t event, state, lost;
    uint32_t fresh; /* 0, or 1 + the place in `unknown` of the one that came last, which nobody has seen yet */
    uint64_t known;
};

struct frame {
    struct config at;
    uint32_t choice; /* the next one to try */
};

struct tried {
    uint32_t lost, next;
};

/* A value that some operation must find at a key. */
struct wanted {
    uint32_t place, value;
};

struct read {
    uint32_t op, next;
};

/* An operation that returned and surely put something else in the place of what a key held. */
struct overwrite {
    uint32_t place;
    int64_t call, first_return; /* the first return among this one and those of the key that were called later */
};

struct search {
    struct wgl *w;
    uint32_t n_keys;
    uint32_t *returns;       /* operations that return, in that order: the events */
    uint32_t n_returns;
    uint32_t foresight;      /* reads that return at this event or later are not looked ahead to */
    uint32_t *open_at;       /* [n_returns + 1]: where the event's open operations begin in `open` */
    uint32_t *open;
    uint8_t *bit;            /* [all operations of the history]: the place in config.known. Lent. */
    uint32_t *unknown;       /* operations that never return, as they were called */
    uint32_t n_unknown;
    uint32_t *twin;          /* [n_unknown]: the one before it that asks for the same, + 1 */
    uint32_t *called;        /* [n_returns]: so many of `unknown` were called before the event */
    uint32_t *event;         /* [all operations of the history]: the place in `returns`. Lent. */
    struct intern wanted;
    uint32_t *writers;       /* [wanted]: how many operations write the value */
    int64_t *written;        /* [wanted]: when the first of them was called */
    uint32_t *writer;        /* [wanted]: one of them */
    struct overwrite *overwrites; /* by key, then by call */
    uint32_t n_overwrites;
    uint32_t *readers;       /* [wanted]: head + 1 of a chain of those that must find it */
    struct read *reads;
    uint32_t n_reads;
    bool *computed;          /* [n_keys]: values come from sums or appends too, so their writers cannot be counted */
    struct intern states, losts, places;
    struct tried *tried;     /* chains of sets that were tried at a place */
    uint32_t *chain;         /* [places]: head + 1 */
    uint32_t n_tried, cap_tried, cap_chain;
    struct frame *stack;
    size_t depth, cap_stack;
    uint32_t *scratch;       /* [n_keys] */
    uint32_t deepest;        /* the event that was never passed */
    uint32_t samples[SAMPLES_MAX], n_samples; /* states there */
    bool too_open;
};

static bool op_apply(struct search *s, const struct op *op, uint32_t state, uint32_t *after)
{
    uint32_t found = 0;
    memcpy(s->scratch, intern_get(&s->states, state), s->n_keys * sizeof *s->scratch);
    for (uint32_t i = 0; i < op->n_parts; i++) {
        uint32_t *v = &s->scratch[s->w->keys[op->parts[i].key].place];
        found += op->parts[i].kind == WGL_DEL && *v != WGLHISTORY_ABSENT;
        if (!wglhistory_apply(s->w, &op->parts[i], op->answered, *v, v)) return false;
    }
    if (op->counted && found != op->found) return false;
    *after = intern_put(&s->states, s->scratch);
    return true;
}

static bool lost_has(const struct search *s, uint32_t set, uint32_t i) { return ((const uint64_t *)intern_get(&s->losts, set))[i / 64] >> i % 64 & 1; }

static uint32_t lost_with(struct search *s, uint32_t set, uint32_t i)
{
    uint64_t *bits = mem_dup(intern_get(&s->losts, set), s->losts.width);
    bits[i / 64] |= 1ull << i % 64;
    uint32_t made = intern_put(&s->losts, bits);
    mem_free(bits);
    return made;
}

static bool lost_within(const struct search *s, uint32_t small, uint32_t large)
{
    const uint64_t *a = intern_get(&s->losts, small), *b = intern_get(&s->losts, large);
    for (size_t i = 0; i < s->losts.width / 8; i++)
        if (a[i] & ~b[i]) return false;
    return true;
}

struct place {
    uint32_t event, state, fresh, zero;
    uint64_t known;
};

static bool tried_at(struct search *s, const struct place *place, uint32_t lost, uint32_t *at)
{
    *at = intern_put(&s->places, place);
    if (*at >= s->cap_chain) {
        uint32_t cap = *at * 2 + 64;
        s->chain = mem_resize(s->chain, cap * sizeof *s->chain);
        memset(s->chain + s->cap_chain, 0, (cap - s->cap_chain) * sizeof *s->chain);
        s->cap_chain = cap;
    }
    for (uint32_t i = s->chain[*at]; i; i = s->tried[i - 1].next)
        if (lost_within(s, s->tried[i - 1].lost, lost)) return true;
    return false;
}

/* Whether something at least as good was tried here (fewer operations with unknown outcome used, or none that wants to be seen); if not, it is from now on. */
static bool tried_before(struct search *s, const struct config *c)
{
    struct place place = {.event = c->event, .state = c->state, .known = c->known};
    uint32_t at;
    if (tried_at(s, &place, c->lost, &at)) return true;
    place.fresh = c->fresh;
    if (c->fresh && tried_at(s, &place, c->lost, &at)) return true;
    if (s->n_tried == s->cap_tried) {
        s->cap_tried = s->cap_tried * 2 + 64;
        s->tried = mem_resize(s->tried, s->cap_tried * sizeof *s->tried);
    }
    s->tried[s->n_tried] = (struct tried){.lost = c->lost, .next = s->chain[at]};
    s->chain[at] = ++s->n_tried;
    return false;
}

/* Puts into the order what cannot be in the way, and goes over returns whose operations are in it. True: there is nothing left. */
static bool settle(struct search *s, struct config *c)
{
    for (; c->event < s->n_returns; c->event++) {
        uint32_t same;
        for (uint32_t i = s->open_at[c->event]; i < s->open_at[c->event + 1]; i++) {
            const struct op *op = &s->w->ops[s->open[i]];
            uint64_t bit = 1ull << s->bit[s->open[i]];
            if ((c->known & bit) || !wglhistory_pure(op) || !op_apply(s, op, c->state, &same)) continue;
            c->known |= bit;
            c->fresh = 0;
        }
        uint64_t bit = 1ull << s->bit[s->returns[c->event]];
        if (!(c->known & bit)) return false;
        c->known &= ~bit;
    }
    return true;
}

static bool touches(const struct op *op, uint32_t key)
{
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (op->parts[i].key == key) return true;
    return false;
}

/* What it leaves does not depend on what it found, nor does its answer. */
static bool op_blind(const struct op *op)
{
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (op->parts[i].kind != WGL_SET && !(op->parts[i].kind == WGL_DEL && !op->answered && !op->counted)) return false;
    return true;
}

/* Whether it makes a difference to `next` that `lost`, whose outcome is unknown, came just before it. If next has none of its keys, lost may as well come after it (two lost ones are not told to do so: both would
 * wait for the other); if next writes over all of them unseen, lost may as well never happen. So both orders need not be tried. */
static bool notices(const struct op *lost, const struct op *next)
{
    uint32_t shared = 0;
    for (uint32_t i = 0; i < lost->n_parts; i++) shared += touches(next, lost->parts[i].key);
    if (shared == 0) return next->returned == WGLHISTORY_NEVER;
    return !(shared == lost->n_parts && op_blind(next));
}

/* Whether a value went away that some operation has still to find, while the only one that writes it has happened. */
static bool spoils(const struct search *s, const struct config *from, const struct config *c)
{
    const uint32_t *before = intern_get(&s->states, from->state), *after = intern_get(&s->states, c->state);
    int64_t now = s->w->ops[s->returns[c->event]].returned;
    for (uint32_t k = 0; k < s->n_keys; k++) {
        struct wanted wanted = {k, before[k]};
        uint32_t at = before[k] == after[k] || s->computed[k] ? 0 : *intern_slot(&s->wanted, &wanted);
        if (at == 0 || s->writers[at - 1] != 1) continue;
        for (uint32_t i = s->readers[at - 1]; i; i = s->reads[i - 1].next) {
            uint32_t op = s->reads[i - 1].op;
            if (s->event[op] < c->event || s->event[op] >= s->foresight) continue;
            if (s->w->ops[op].call > now || !(c->known >> s->bit[op] & 1)) return true;
        }
    }
    return false;
}

/* The configuration after one more operation, the choice-th: first the one whose return is due, then others that are open, then those with unknown outcome, the latest first. False: that one cannot come next. */
static bool choose(struct search *s, const struct config *from, uint32_t choice, struct config *c)
{
    uint32_t n_open = s->open_at[from->event + 1] - s->open_at[from->event];
    const struct op *unseen = from->fresh ? &s->w->ops[s->unknown[from->fresh - 1]] : NULL;
    *c = *from;
    c->fresh = 0;
    if (choice <= n_open) {
        uint32_t due = s->returns[from->event], op = choice == 0 ? due : s->open[s->open_at[from->event] + choice - 1];
        if ((choice > 0 && op == due) || (from->known >> s->bit[op] & 1) || (unseen && !notices(unseen, &s->w->ops[op]))) return false;
        c->known |= 1ull << s->bit[op];
        return op_apply(s, &s->w->ops[op], from->state, &c->state) && !spoils(s, from, c);
    }
    uint32_t i = s->called[from->event] - (choice - n_open);
    if (unseen && !notices(unseen, &s->w->ops[s->unknown[i]])) return false;
    if (lost_has(s, from->lost, i) || (s->twin[i] && !lost_has(s, from->lost, s->twin[i] - 1))) return false;
    if (!op_apply(s, &s->w->ops[s->unknown[i]], from->state, &c->state) || c->state == from->state) return false;
    c->lost = lost_with(s, from->lost, i);
    c->fresh = i + 1;
    return !spoils(s, from, c);
}

static void push(struct search *s, const struct config *c)
{
    if (s->depth == s->cap_stack) {
        s->cap_stack = s->cap_stack * 2 + 64;
        s->stack = mem_resize(s->stack, s->cap_stack * sizeof *s->stack);
    }
    s->stack[s->depth++] = (struct frame){.at = *c};
    if (c->event > s->deepest) {
        s->deepest = c->event;
        s->n_samples = 0;
    }
    for (uint32_t i = 0; i < s->n_samples; i++)
        if (s->samples[i] == c->state) return;
    if (c->event == s->deepest && s->n_samples < SAMPLES_MAX) s->samples[s->n_samples++] = c->state;
}

/* When the first operation returned that was called after `time` and overwrote the key. */
static int64_t overwritten_after(const struct search *s, uint32_t place, int64_t time)
{
    uint32_t low = 0, high = s->n_overwrites;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct overwrite *o = &s->overwrites[mid];
        if (o->place < place || (o->place == place && o->call <= time))
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->n_overwrites && s->overwrites[low].place == place ? s->overwrites[low].first_return : WGLHISTORY_NEVER;
}

/* Two mistakes need no search: a value is found that nobody can have written yet, or one whose only write had returned before another began that had returned before it was looked for. Gives the first event of that
 * kind, or n_returns. */
static uint32_t first_plain_mistake(const struct search *s)
{
    uint32_t first = s->n_returns;
    for (uint32_t i = 0; i < s->wanted.n; i++) {
        uint32_t place = ((const struct wanted *)intern_get(&s->wanted, i))->place;
        int64_t gone = s->writers[i] == 1 ? overwritten_after(s, place, s->w->ops[s->writer[i]].returned) : WGLHISTORY_NEVER;
        for (uint32_t j = s->readers[i]; j && !s->computed[place]; j = s->reads[j - 1].next) {
            uint32_t op = s->reads[j - 1].op;
            bool written = s->writers[i] && s->written[i] <= s->w->ops[op].returned;
            if ((!written || gone < s->w->ops[op].call) && s->event[op] < first) first = s->event[op];
        }
    }
    return first;
}

/* Whether there is an order for the first n_returns returns. Adds what it tries to *configs. */
static enum wgl_verdict search_run(struct search *s, uint64_t *configs, uint64_t limit)
{
    uint64_t *none = mem_zalloc(s->losts.width);
    memset(s->scratch, 0, s->n_keys * sizeof *s->scratch);
    struct config c = {.state = intern_put(&s->states, s->scratch), .lost = intern_put(&s->losts, none)};
    mem_free(none);
    intern_fini(&s->places);
    intern_init(&s->places, sizeof(struct place));
    if (s->chain) memset(s->chain, 0, s->cap_chain * sizeof *s->chain);
    s->n_tried = s->n_samples = s->deepest = 0;
    s->depth = 0;
    if (settle(s, &c)) return WGL_LINEARIZABLE;
    tried_before(s, &c);
    push(s, &c);
    while (s->depth) {
        struct frame *f = &s->stack[s->depth - 1];
        uint32_t choices = 1 + s->open_at[f->at.event + 1] - s->open_at[f->at.event] + s->called[f->at.event];
        if (f->choice == choices) {
            s->depth--;
            continue;
        }
        if (!choose(s, &f->at, f->choice++, &c)) continue;
        if (settle(s, &c)) return WGL_LINEARIZABLE;
        if (tried_before(s, &c)) continue;
        if (++*configs > limit) return WGL_GAVE_UP;
        push(s, &c);
    }
    return WGL_NOT;
}

/* There is no order for all returns: finds the first return that has none together with those before it, and what its keys can have held. With bounded effort: in a
 * history that is hard to judge it is a later one. */
static void find_culprit(struct search *s)
{
    uint32_t good = 0, bad = s->n_returns;
    uint64_t configs = 0;
    enum { EFFORT = 300000, SAMPLING = 20000 };
    while (bad - good > 1) {
        s->n_returns = s->foresight = good + (bad - good) / 2;
        enum wgl_verdict verdict = search_run(s, &configs, EFFORT);
        if (verdict == WGL_GAVE_UP) break;
        if (verdict == WGL_NOT)
            bad = s->n_returns;
        else
            good = s->n_returns;
    }
    s->n_returns = bad;
    s->foresight = bad - 1;
    configs = 0;
    search_run(s, &configs, SAMPLING);
}

/* ---- setting a search up */

struct timed {
    int64_t time;
    uint32_t op;
};

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static bool same_request(const struct op *a, const struct op *b)
{
    if (a->n_parts != b->n_parts) return false;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const struct part *p = &a->parts[i], *q = &b->parts[i];
        if (p->kind != q->kind || p->key != q->key || p->arg != q->arg || p->expect != q->expect || p->by != q->by) return false;
    }
    return true;
}

/* Walks through calls and returns in time: which operations are open at each return, each with a bit of its own while it is. */
static void sweep(struct search *s, const struct timed *calls, uint32_t n)
{
    uint32_t now[OPEN_MAX], n_now = 0, next = 0, at = 0, cap = 0, lost = 0;
    uint64_t used = 0;
    for (uint32_t e = 0; e < s->n_returns && !s->too_open; e++) {
        uint32_t due = s->returns[e];
        for (; next < n && calls[next].time <= s->w->ops[due].returned; next++) {
            if (s->w->ops[calls[next].op].returned == WGLHISTORY_NEVER) {
                lost++;
                continue;
            }
            if (n_now == OPEN_MAX) {
                s->too_open = true;
                return;
            }
            s->bit[calls[next].op] = (uint8_t)__builtin_ctzll(~used);
            used |= 1ull << s->bit[calls[next].op];
            now[n_now++] = calls[next].op;
        }
        if (at + n_now > cap) {
            cap = (at + n_now) * 2 + 64;
            s->open = mem_resize(s->open, cap * sizeof *s->open);
        }
        memcpy(s->open + at, now, n_now * sizeof *now);
        s->open_at[e] = at;
        at += n_now;
        s->called[e] = lost;
        used &= ~(1ull << s->bit[due]);
        for (uint32_t i = 0; i < n_now; i++)
            if (now[i] == due) now[i--] = now[--n_now];
    }
    s->open_at[s->n_returns] = at;
}

/* The part finds what was there before its operation. */
static bool finds(const struct op *op, uint32_t i)
{
    const struct part *p = &op->parts[i];
    for (uint32_t j = 0; j < i; j++)
        if (op->parts[j].key == p->key) return false;
    return op->answered && ((p->kind == WGL_GET && p->value != WGLHISTORY_ABSENT) || (p->kind == WGL_CAS && p->number == 1 && p->expect != WGLHISTORY_ABSENT));
}

static void want_value(struct search *s, uint32_t op, const struct part *p)
{
    struct wanted wanted = {s->w->keys[p->key].place, p->kind == WGL_GET ? p->value : p->expect};
    uint32_t at = intern_put(&s->wanted, &wanted);
    s->reads[s->n_reads] = (struct read){.op = op, .next = s->readers[at]};
    s->readers[at] = ++s->n_reads;
}

static void count_writer(struct search *s, const struct op *op, const struct part *p)
{
    struct wanted written = {s->w->keys[p->key].place, p->arg};
    uint32_t at = *intern_slot(&s->wanted, &written);
    if (p->kind == WGL_INCR || p->kind == WGL_APPEND) s->computed[written.place] = true;
    if (!at || (p->kind != WGL_SET && p->kind != WGL_CAS)) return;
    if (s->writers[at - 1]++ == 0 || op->call < s->written[at - 1]) s->written[at - 1] = op->call;
    s->writer[at - 1] = (uint32_t)(op - s->w->ops);
}

static void note_overwrite(struct search *s, const struct op *op, const struct part *p)
{
    bool surely = p->kind == WGL_SET || p->kind == WGL_DEL || (p->kind == WGL_CAS && op->answered && p->number == 1);
    if (surely && op->returned != WGLHISTORY_NEVER) s->overwrites[s->n_overwrites++] = (struct overwrite){s->w->keys[p->key].place, op->call, op->returned};
}

static int by_place_and_call(const void *a, const void *b)
{
    const struct overwrite *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return (x->call > y->call) - (x->call < y->call);
}

/* Which values must be found, by whom, and how many operations write them. */
static void collect_wanted(struct search *s, const struct timed *calls, uint32_t n)
{
    uint32_t parts = 1;
    for (uint32_t i = 0; i < n; i++) parts += s->w->ops[calls[i].op].n_parts;
    intern_init(&s->wanted, sizeof(struct wanted));
    s->reads = mem_alloc(parts * sizeof *s->reads);
    s->readers = mem_zalloc(parts * sizeof *s->readers);
    s->writers = mem_zalloc(parts * sizeof *s->writers);
    s->written = mem_zalloc(parts * sizeof *s->written);
    s->writer = mem_zalloc(parts * sizeof *s->writer);
    s->overwrites = mem_alloc(parts * sizeof *s->overwrites);
    s->computed = mem_zalloc(s->n_keys * sizeof *s->computed);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < s->w->ops[calls[i].op].n_parts; j++)
            if (finds(&s->w->ops[calls[i].op], j)) want_value(s, calls[i].op, &s->w->ops[calls[i].op].parts[j]);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < s->w->ops[calls[i].op].n_parts; j++) {
            count_writer(s, &s->w->ops[calls[i].op], &s->w->ops[calls[i].op].parts[j]);
            note_overwrite(s, &s->w->ops[calls[i].op], &s->w->ops[calls[i].op].parts[j]);
        }
    qsort(s->overwrites, s->n_overwrites, sizeof *s->overwrites, by_place_and_call);
    for (uint32_t i = s->n_overwrites; i-- > 1;) {
        struct overwrite *o = &s->overwrites[i - 1];
        if (o->place == o[1].place && o[1].first_return < o->first_return) o->first_return = o[1].first_return;
    }
}

/* Over the group of keys whose operations these are. */
static void search_init(struct search *s, struct wgl *w, const uint32_t *ops, uint32_t n_ops, uint32_t n_keys, uint8_t *bit, uint32_t *event)
{
    struct timed *calls = mem_alloc((n_ops + 1) * sizeof *calls), *returns = mem_alloc((n_ops + 1) * sizeof *returns);
    uint32_t n = 0, m = 0;
    *s = (struct search){.w = w, .n_keys = n_keys, .bit = bit, .event = event};
    for (uint32_t i = 0; i < n_ops; i++) {
        const struct op *op = &w->ops[ops[i]];
        /* What never returned and changes nothing needs no explanation. */
        if (op->refused || (op->returned == WGLHISTORY_NEVER && wglhistory_pure(op))) continue;
        calls[n++] = (struct timed){op->call, ops[i]};
        if (op->returned != WGLHISTORY_NEVER) returns[m++] = (struct timed){op->returned, ops[i]};
    }
    qsort(calls, n, sizeof *calls, by_time);
    qsort(returns, m, sizeof *returns, by_time);
    s->n_returns = s->foresight = m;
    s->returns = mem_alloc((m + 1) * sizeof *s->returns);
    s->called = mem_zalloc((m + 1) * sizeof *s->called);
    s->open_at = mem_zalloc((m + 1) * sizeof *s->open_at);
    s->unknown = mem_alloc((n - m + 1) * sizeof *s->unknown);
    s->twin = mem_zalloc((n - m + 1) * sizeof *s->twin);
    s->scratch = mem_zalloc(s->n_keys * sizeof *s->scratch);
    for (uint32_t i = 0; i < m; i++) {
        s->returns[i] = returns[i].op;
        event[returns[i].op] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        if (w->ops[calls[i].op].returned == WGLHISTORY_NEVER) s->unknown[s->n_unknown++] = calls[i].op;
    for (uint32_t i = 0; i < s->n_unknown; i++)
        for (uint32_t j = i; j-- > 0 && !s->twin[i];)
            if (same_request(&w->ops[s->unknown[i]], &w->ops[s->unknown[j]])) s->twin[i] = j + 1;
    sweep(s, calls, n);
    collect_wanted(s, calls, n);
    intern_init(&s->states, s->n_keys * sizeof(uint32_t));
    intern_init(&s->losts, (s->n_unknown / 64 + 1) * 8);
    intern_init(&s->places, sizeof(struct place));
    mem_free(calls);
    mem_free(returns);
}

static void search_fini(struct search *s)
{
    intern_fini(&s->states);
    intern_fini(&s->losts);
    intern_fini(&s->places);
    intern_fini(&s->wanted);
    mem_free(s->reads);
    mem_free(s->readers);
    mem_free(s->writers);
    mem_free(s->written);
    mem_free(s->writer);
    mem_free(s->overwrites);
    mem_free(s->computed);
    mem_free(s->returns);
    mem_free(s->open_at);
    mem_free(s->open);
    mem_free(s->unknown);
    mem_free(s->twin);
    mem_free(s->called);
    mem_free(s->tried);
    mem_free(s->chain);
    mem_free(s->stack);
    mem_free(s->scratch);
}

static void explain(const struct search *s, struct buf *why)
{
    const struct wgl *w = s->w;
    uint32_t due = s->returns[s->deepest];
    buf_printf(why, "operation %u (", due);
    wgl_text(w, due, why);
    buf_add_str(why, ") fits into no order of what returned before it:");
    for (uint32_t i = 0; i < w->ops[due].n_parts; i++) {
        const struct key *k = &w->keys[w->ops[due].parts[i].key];
        buf_printf(why, "%s \"%.*s\" can have been", i ? ";" : "", (int)k->name.n, k->name.p);
        for (uint32_t j = 0; j < s->n_samples; j++) {
            uint32_t v = ((const uint32_t *)intern_get(&s->states, s->samples[j]))[k->place];
            buf_add_str(why, j ? " or " : " ");
            wglhistory_text_value(w, v, why);
        }
        if (s->n_samples == SAMPLES_MAX) buf_add_str(why, " or others");
    }
}

/* Numbers the keys within their groups. Gives how many keys each root has. */
static uint32_t *place_keys(struct wgl *w)
{
    uint32_t *members = mem_zalloc((w->n_keys + 1) * sizeof *members);
    for (uint32_t i = 0; i < w->n_keys; i++) w->keys[i].place = members[wglhistory_group(w, i)]++;
    return members;
}

/* The operations of each group together; those of root r begin at first[r]. */
static uint32_t *group_ops(struct wgl *w, uint32_t *first)
{
    uint32_t *ops = mem_alloc((w->n_ops + 1) * sizeof *ops);
    for (size_t i = 0; i < w->n_ops; i++) first[wglhistory_group(w, w->ops[i].parts[0].key) + 1]++;
    for (uint32_t i = 0; i < w->n_keys; i++) first[i + 1] += first[i];
    for (size_t i = w->n_ops; i-- > 0;) ops[--first[wglhistory_group(w, w->ops[i].parts[0].key) + 1]] = (uint32_t)i;
    /* Each entry went down to where its group begins, which is one further up than asked for. */
    memmove(first, first + 1, w->n_keys * sizeof *first);
    first[w->n_keys] = (uint32_t)w->n_ops;
    return ops;
}

static enum wgl_verdict judge(struct search *s, uint64_t *configs, uint64_t limit, size_t *op, struct buf *why)
{
    enum wgl_verdict verdict = WGL_GAVE_UP;
    uint32_t mistake = s->too_open ? 0 : first_plain_mistake(s);
    if (s->too_open) {
        if (why) buf_printf(why, "gave up: more than %u operations are open at once", OPEN_MAX);
        return verdict;
    }
    if (mistake < s->n_returns) {
        s->n_returns = s->foresight = mistake + 1;
        verdict = WGL_NOT;
    } else {
        verdict = search_run(s, configs, limit);
    }
    if (verdict == WGL_GAVE_UP && why) buf_printf(why, "gave up after %" PRIu64 " configurations", limit);
    if (verdict != WGL_NOT) return verdict;
    find_culprit(s);
    if (op) *op = s->returns[s->deepest];
    if (why) explain(s, why);
    return verdict;
}

enum wgl_verdict wgl_check(const struct wgl *history, const struct wgl_limits *limits, size_t *op, struct buf *why)
{
    struct wgl *w = (struct wgl *)history; /* values that come up on the way are added to its table, which nobody sees */
    uint64_t configs = 0, limit = limits && limits->configs ? limits->configs : CONFIGS_DEFAULT;
    enum wgl_verdict verdict = WGL_LINEARIZABLE;
    uint32_t *members = place_keys(w), *first = mem_zalloc((w->n_keys + 2) * sizeof *first), *ops = group_ops(w, first);
    uint8_t *bit = mem_zalloc(w->n_ops + 1);
    uint32_t *event = mem_zalloc((w->n_ops + 1) * sizeof *event);
    for (uint32_t root = 0; root < w->n_keys && verdict == WGL_LINEARIZABLE; root++) {
        struct search s;
        if (wglhistory_group(w, root) != root) continue;
        search_init(&s, w, ops + first[root], first[root + 1] - first[root], members[root], bit, event);
        verdict = judge(&s, &configs, limit, op, why);
        search_fini(&s);
    }
    mem_free(event);
    mem_free(bit);
    mem_free(ops);
    mem_free(first);
    mem_free(members);
    return verdict;
}
