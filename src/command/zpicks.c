#include "command/zpicks.h"

#include <stdlib.h>

#include "base/mem.h"
#include "command/zreply.h"
#include "store/zset.h"

void zpicks_init(struct zpicks *p, uint64_t seed)
{
    gather_init(&p->found, seed);
    p->scores = NULL;
    p->cap = 0;
}

void zpicks_fini(struct zpicks *p)
{
    gather_fini(&p->found);
    mem_free(p->scores);
}

/* The scores follow found.items in capacity. */
static double *score_at(struct zpicks *p, uint32_t number)
{
    if (p->cap < p->found.cap) {
        p->cap = p->found.cap;
        p->scores = mem_resize(p->scores, p->cap * sizeof *p->scores);
    }
    return &p->scores[number];
}

void zpicks_add(struct zpicks *p, struct slice member, double score, bool copy)
{
    gather_add(&p->found, member, copy);
    *score_at(p, p->found.n - 1) = score;
}

double *zpicks_put_score(struct zpicks *p, struct slice member, bool copy, bool *is_new)
{
    return score_at(p, gather_number(&p->found, member, copy, is_new));
}

double *zpicks_find_score(struct zpicks *p, struct slice member)
{
    uint32_t number;
    return gather_find(&p->found, member, &number) ? &p->scores[number] : NULL;
}

void zpicks_add_span(struct zpicks *p, const struct entry *e, struct zspan s, bool back)
{
    struct zset_iter it;
    struct slice member;
    double score;
    uint64_t left = zspan_len(s);
    if (left == 0) return;
    zset_iter_init(&it, e, back ? s.end - 1 : s.start, back);
    while (left-- > 0 && zset_iter_next(&it, &member, &score)) zpicks_add(p, member, score, true);
}

struct pair {
    struct slice member;
    double score;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;
    if (p->score != q->score) return p->score < q->score ? -1 : 1;
    return slice_cmp(p->member, q->member);
}

void zpicks_sort(struct zpicks *p)
{
    uint32_t n = p->found.n;
    if (n < 2) return;
    struct pair *pairs = mem_alloc(n * sizeof *pairs);
    for (uint32_t i = 0; i < n; i++) pairs[i] = (struct pair){p->found.items[i], p->scores[i]};
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    for (uint32_t i = 0; i < n; i++) {
        p->found.items[i] = pairs[i].member;
        p->scores[i] = pairs[i].score;
    }
    mem_free(pairs);
}

void zpicks_apply(struct exec *x, struct place *at, const struct zpicks *p, const char *event)
{
    if (p->found.n == 0) return;
    struct op op = {.kind = OP_ZSET_ADD, .items = p->found.items, .scores = p->scores, .n_items = p->found.n};
    exec_apply(x, &op, at);
    exec_notify(x, NOTIFY_ZSET, event, at->key);
}

void zpicks_remove(struct exec *x, struct place *at, const struct zpicks *p, const char *event)
{
    if (p->found.n == 0) return;
    if (p->found.n == zset_len(at->e)) {
        exec_del(x, at);
    } else {
        struct op op = {.kind = OP_ZSET_REM, .items = p->found.items, .n_items = p->found.n};
        exec_apply(x, &op, at);
    }
    exec_notify(x, NOTIFY_ZSET, event, at->key);
    if (!at->e) exec_notify(x, NOTIFY_GENERIC, "del", at->key);
}

void zpicks_store(struct exec *x, struct slice key, const struct zpicks *p, const char *event)
{
    struct place at;
    exec_peek(x, key, &at);
    bool had = at.e != NULL;
    if (had) exec_del(x, &at);
    if (p->found.n > 0) zpicks_apply(x, &at, p, event);
    else if (had) exec_notify(x, NOTIFY_GENERIC, "del", key);
    reply_int(&x->out, p->found.n);
}

void zpicks_reply(struct exec *x, const struct zpicks *p, bool with_scores)
{
    zreply_list(&x->out, p->found.n, with_scores);
    for (uint32_t i = 0; i < p->found.n; i++) zreply_item(&x->out, p->found.items[i], p->scores[i], with_scores);
}
