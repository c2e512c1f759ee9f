#include "snapshot/tokens.h"

#include <stdlib.h>

#include "base/keyhash.h"
#include "base/mem.h"

struct token {
    bool is_text;
    int64_t i;
    struct slice text; /* owned */
    uint32_t number;
};

struct tokens {
    struct token *all; /* by number */
    uint32_t n, cap;
    uint32_t *places;  /* open addressing: number + 1; 0: free */
    uint32_t n_places;
    uint32_t texts;
    int64_t *sorted_ints;
    struct slice *sorted_texts;
};

struct tokens *tokens_new(void)
{
    struct tokens *t = mem_zalloc(sizeof *t);
    t->n_places = 64;
    t->places = mem_zalloc(t->n_places * sizeof *t->places);
    return t;
}

void tokens_free(struct tokens *t)
{
    if (!t) return;
    for (uint32_t i = 0; i < t->n; i++) mem_free((void *)(uintptr_t)t->all[i].text.p);
    mem_free(t->all);
    mem_free(t->places);
    mem_free(t->sorted_ints);
    mem_free(t->sorted_texts);
    mem_free(t);
}

static uint64_t hash_of(bool is_text, int64_t i, struct slice text) { return is_text ? keyhash(text, 1) : keyhash(slice_of(&i, sizeof i), 0); }

static void rehash(struct tokens *t)
{
    t->n_places *= 2;
    t->places = mem_resize(t->places, t->n_places * sizeof *t->places);
    memset(t->places, 0, t->n_places * sizeof *t->places);
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t at = (uint32_t)(hash_of(t->all[i].is_text, t->all[i].i, t->all[i].text) % t->n_places);
        while (t->places[at]) at = (at + 1) % t->n_places;
        t->places[at] = i + 1;
    }
}

static uint32_t add(struct tokens *t, const struct router_token *x, uint32_t place)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 32;
        t->all = mem_resize(t->all, t->cap * sizeof *t->all);
    }
    struct token *k = &t->all[t->n];
    *k = (struct token){.is_text = x->is_text, .i = x->i, .number = t->n};
    if (x->is_text) {
        char *copy = mem_alloc(x->text.n + 1);
        if (x->text.n) memcpy(copy, x->text.p, x->text.n);
        k->text = slice_of(copy, x->text.n);
        t->texts++;
    }
    t->places[place] = ++t->n;
    if (2 * t->n > t->n_places) rehash(t);
    return t->n - 1;
}

uint32_t tokens_put(struct tokens *t, const struct router_token *x)
{
    uint32_t at = (uint32_t)(hash_of(x->is_text, x->i, x->text) % t->n_places);
    for (; t->places[at]; at = (at + 1) % t->n_places) {
        const struct token *k = &t->all[t->places[at] - 1];
        if (k->is_text == x->is_text && (k->is_text ? slice_eq(k->text, x->text) : k->i == x->i)) return k->number;
    }
    return add(t, x, at);
}

uint32_t tokens_count(const struct tokens *t) { return t->n; }

static int by_value(const void *a, const void *b)
{
    const struct token *x = *(const struct token *const *)a, *y = *(const struct token *const *)b;
    if (x->is_text) return slice_cmp(x->text, y->text);
    return x->i < y->i ? -1 : x->i > y->i;
}

bool tokens_sort(struct tokens *t, uint32_t *order, struct router_cel *c)
{
    if (t->texts && t->texts != t->n) return false;
    const struct token **sorted = mem_alloc((t->n + 1) * sizeof *sorted);
    for (uint32_t i = 0; i < t->n; i++) sorted[i] = &t->all[i];
    qsort(sorted, t->n, sizeof *sorted, by_value);
    t->sorted_ints = mem_resize(t->sorted_ints, (t->n + 1) * sizeof *t->sorted_ints);
    t->sorted_texts = mem_resize(t->sorted_texts, (t->n + 1) * sizeof *t->sorted_texts);
    for (uint32_t i = 0; i < t->n; i++) {
        order[i] = sorted[i]->number;
        t->sorted_ints[i] = sorted[i]->i;
        t->sorted_texts[i] = sorted[i]->text;
    }
    mem_free(sorted);
    c->tokens = t->texts || t->n == 0 ? ROUTER_TOKENS_TEXT : ROUTER_TOKENS_INT;
    c->ints = t->sorted_ints;
    c->texts = t->sorted_texts;
    c->n_tokens = t->n;
    return true;
}
