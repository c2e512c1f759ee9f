#include "command/setops.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "command/gather.h"
#include "store/set.h"

/* ---- sources: the sets a command reads */

enum { SOURCES_FEW = 16, STORE_CHUNK_ITEMS = 4096 };

struct sources {
    const struct entry **sets;
    uint32_t n;       /* sets that are there, in the order of the arguments */
    uint32_t missing; /* keys that are not there */
    bool first_there; /* the first key is there: sets[0] is its set */
    const struct entry *few[SOURCES_FEW];
};

static void sources_fini(struct sources *s)
{
    if (s->sets != s->few) mem_free(s->sets);
}

/* Finds the sets of argv[first .. first + n). All keys are looked at, so a key of another type is an error wherever it stands; false if so. Finding a key may
 * delete another that has expired, but moves no living entry. */
static bool sources_find(struct exec *x, uint32_t first, uint32_t n, struct sources *s)
{
    s->sets = n > SOURCES_FEW ? mem_alloc(n * sizeof(void *)) : s->few;
    s->n = s->missing = 0;
    s->first_there = false;
    for (uint32_t i = 0; i < n; i++) {
        struct place at;
        if (!exec_find_type(x, x->argv[first + i], TYPE_SET, &at)) {
            sources_fini(s);
            return false;
        }
        if (i == 0) s->first_there = at.e != NULL;
        if (at.e)
            s->sets[s->n++] = at.e;
        else
            s->missing++;
    }
    return true;
}

/* ---- the algebra: each gives its members one by one, none twice */

struct sink {
    bool (*put)(void *ctx, struct slice member); /* a member is good for the call only; false: enough */
    void *ctx;
};

static int by_length(const void *a, const void *b)
{
    uint64_t la = set_len(*(const struct entry *const *)a), lb = set_len(*(const struct entry *const *)b);
    return la < lb ? -1 : la > lb;
}

/* From the smallest set on, asking the next larger ones first: most candidates fail early and cheaply. */
static void intersect(struct sources *s, struct sink sink)
{
    if (s->missing || s->n == 0) return;
    qsort(s->sets, s->n, sizeof(void *), by_length);
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, s->sets[0]);
    while (set_iter_next(&it, &member)) {
        uint32_t i = 1;
        while (i < s->n && set_has(s->sets[i], member)) i++;
        if (i == s->n && !sink.put(sink.ctx, member)) return;
    }
}

static void subtract(struct sources *s, struct sink sink)
{
    if (!s->first_there) return;
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, s->sets[0]);
    while (set_iter_next(&it, &member)) {
        uint32_t i = 1;
        while (i < s->n && !set_has(s->sets[i], member)) i++;
        if (i == s->n && !sink.put(sink.ctx, member)) return;
    }
}

/* What was given already is known by a gather. Members are borrowed from their sets; only integers need a copy, which are formatted in the iterator. */
static void unite(struct sources *s, struct sink sink, uint64_t seed)
{
    struct gather known;
    bool more = true;
    gather_init(&known, seed);
    for (uint32_t i = 0; i < s->n && more; i++) {
        struct set_iter it;
        struct slice member;
        bool passing = entry_encoding(s->sets[i]) == ENC_INTS;
        set_iter_init(&it, s->sets[i]);
        while (more && set_iter_next(&it, &member))
            if (s->n == 1 || gather_new(&known, member, passing)) more = sink.put(sink.ctx, member);
    }
    gather_fini(&known);
}

enum algebra { INTER, UNION, DIFF };

static void compute(struct exec *x, enum algebra what, struct sources *s, struct sink sink)
{
    switch (what) {
    case INTER: intersect(s, sink); break;
    case UNION: unite(s, sink, rng_u64(x->rng)); break;
    case DIFF: subtract(s, sink); break;
    }
}

/* ---- answering */

struct answer {
    struct reply *out;
    size_t n;
};

static bool put_in_answer(void *ctx, struct slice member)
{
    struct answer *a = ctx;
    reply_bulk(a->out, member);
    a->n++;
    return true;
}

static void answer(struct exec *x, enum algebra what)
{
    struct sources s;
    if (!sources_find(x, 1, x->argc - 1, &s)) return;
    struct answer a = {.out = &x->out};
    size_t mark = reply_open(&x->out);
    compute(x, what, &s, (struct sink){put_in_answer, &a});
    reply_close_set(&x->out, mark, a.n);
    sources_fini(&s);
}

void setops_inter(struct exec *x) { answer(x, INTER); }
void setops_union(struct exec *x) { answer(x, UNION); }
void setops_diff(struct exec *x) { answer(x, DIFF); }

/* ---- storing */

static bool put_in_gather(void *ctx, struct slice member)
{
    gather_add(ctx, member, true);
    return true;
}

/* The destination becomes exactly these members, whatever it was before; without members it goes. In chunks, so that no single op of the log is huge. */
static void store(struct exec *x, const struct gather *members, const char *event)
{
    struct slice key = x->argv[1];
    struct place at;
    exec_peek(x, key, &at);
    bool was_there = at.e != NULL;
    if (was_there) exec_del(x, &at);
    for (uint32_t done = 0; done < members->n; done += STORE_CHUNK_ITEMS) {
        uint32_t n = members->n - done < STORE_CHUNK_ITEMS ? members->n - done : STORE_CHUNK_ITEMS;
        struct op op = {.kind = OP_SET_ADD, .items = members->items + done, .n_items = n};
        exec_apply(x, &op, &at);
    }
    if (members->n)
        exec_notify(x, NOTIFY_SET, event, key);
    else if (was_there)
        exec_notify(x, NOTIFY_GENERIC, "del", key);
    reply_int(&x->out, members->n);
}

/* The result is complete, and copied, before anything changes: the destination may be one of the sources. */
static void compute_and_store(struct exec *x, enum algebra what, const char *event)
{
    struct sources s;
    if (!sources_find(x, 2, x->argc - 2, &s)) return;
    struct gather members;
    gather_init(&members, 0);
    compute(x, what, &s, (struct sink){put_in_gather, &members});
    sources_fini(&s);
    store(x, &members, event);
    gather_fini(&members);
}

void setops_interstore(struct exec *x) { compute_and_store(x, INTER, "sinterstore"); }
void setops_unionstore(struct exec *x) { compute_and_store(x, UNION, "sunionstore"); }
void setops_diffstore(struct exec *x) { compute_and_store(x, DIFF, "sdiffstore"); }

/* ---- SINTERCARD numkeys key [key ...] [LIMIT limit] */

/* How many keys there are; 0 if the number is not one or is larger than the arguments. */
static uint32_t intercard_numkeys(const struct slice *argv, uint32_t argc)
{
    int64_t n;
    return num_parse_i64(argv[1], &n) && n > 0 && n <= (int64_t)argc - 2 ? (uint32_t)n : 0;
}

int setops_intercard_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    uint32_t n = argc < 3 ? 0 : intercard_numkeys(argv, argc);
    if (n == 0) return -1;
    for (uint32_t i = 0; i < n && i < (uint32_t)max; i++) at[i] = 2 + i;
    return (int)n;
}

static bool read_intercard(struct exec *x, uint32_t *numkeys, int64_t *limit)
{
    int64_t n;
    *limit = 0;
    *numkeys = intercard_numkeys(x->argv, x->argc);
    if (*numkeys == 0) {
        bool positive = num_parse_i64(x->argv[1], &n) && n > 0;
        reply_error(&x->out, positive ? "ERR Number of keys can't be greater than number of args" : "ERR numkeys should be greater than 0");
        return false;
    }
    for (uint32_t i = 2 + *numkeys; i < x->argc; i += 2) {
        if (i + 1 == x->argc || !slice_is(x->argv[i], "limit")) {
            exec_syntax(x);
            return false;
        }
        if (!num_parse_i64(x->argv[i + 1], limit) || *limit < 0) {
            reply_error(&x->out, "ERR LIMIT can't be negative");
            return false;
        }
    }
    return true;
}

struct tally {
    int64_t n, limit; /* limit 0: none */
};

static bool put_in_tally(void *ctx, struct slice member)
{
    struct tally *t = ctx;
    return ++t->n != t->limit;
}

void setops_intercard(struct exec *x)
{
    struct sources s;
    struct tally t = {0};
    uint32_t numkeys;
    if (!read_intercard(x, &numkeys, &t.limit) || !sources_find(x, 2, numkeys, &s)) return;
    intersect(&s, (struct sink){put_in_tally, &t});
    sources_fini(&s);
    reply_int(&x->out, t.n);
}
