#include "server/names.h"

#include "base/check.h"
#include "base/mem.h"

enum { SLOTS_MIN = 8 };

static struct name **slot_of(const struct names *t, uint64_t hash) { return &t->slots[hash & (t->cap - 1)]; }

static void resize(struct names *t, size_t cap)
{
    struct names old = *t;
    t->cap = cap;
    t->slots = mem_zalloc(cap * sizeof(struct name *));
    for (size_t i = 0; i < old.cap; i++) {
        for (struct name *n = old.slots[i], *next; n; n = next) {
            next = n->next;
            struct name **slot = slot_of(t, n->hash);
            n->next = *slot;
            *slot = n;
        }
    }
    mem_free(old.slots);
}

struct name *names_find(const struct names *t, uint64_t hash, uint8_t kind, struct slice text)
{
    if (!t->n) return NULL;
    struct name *n = *slot_of(t, hash);
    while (n && (n->hash != hash || n->kind != kind || !slice_eq(n->text, text))) n = n->next;
    return n;
}

void names_add(struct names *t, struct name *n)
{
    if (t->n == t->cap) resize(t, t->cap ? t->cap * 2 : SLOTS_MIN);
    struct name **slot = slot_of(t, n->hash);
    n->next = *slot;
    *slot = n;
    t->n++;
}

void names_remove(struct names *t, struct name *n)
{
    struct name **at = slot_of(t, n->hash);
    while (*at != n) {
        CHECK(*at);
        at = &(*at)->next;
    }
    *at = n->next;
    t->n--;
    if (t->cap > SLOTS_MIN && t->n < t->cap / 8) resize(t, t->cap / 4);
}

struct name *names_next(const struct names *t, const struct name *n)
{
    if (n && n->next) return n->next;
    size_t i = n ? (n->hash & (t->cap - 1)) + 1 : 0;
    while (i < t->cap && !t->slots[i]) i++;
    return i < t->cap ? t->slots[i] : NULL;
}

void names_fini(struct names *t)
{
    mem_free(t->slots);
    *t = (struct names){0};
}
