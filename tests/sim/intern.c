#include "intern.h"

#include <string.h>

#include "base/keyhash.h"
#include "base/mem.h"

void intern_init(struct intern *t, size_t width) { *t = (struct intern){.width = width, .mask = 63, .slots = mem_zalloc(64 * sizeof *t->slots)}; }

void intern_fini(struct intern *t)
{
    mem_free(t->items);
    mem_free(t->slots);
}

uint32_t *intern_slot(const struct intern *t, const void *item)
{
    uint32_t at = (uint32_t)keyhash(slice_of(item, t->width), 0) & t->mask;
    while (t->slots[at] && memcmp(intern_get(t, t->slots[at] - 1), item, t->width) != 0) at = (at + 1) & t->mask;
    return &t->slots[at];
}

static void intern_widen(struct intern *t)
{
    mem_free(t->slots);
    t->mask = t->mask * 2 + 1;
    t->slots = mem_zalloc(((size_t)t->mask + 1) * sizeof *t->slots);
    for (uint32_t i = 0; i < t->n; i++) *intern_slot(t, intern_get(t, i)) = i + 1;
}

uint32_t intern_put(struct intern *t, const void *item)
{
    uint32_t *slot = intern_slot(t, item);
    if (*slot) return *slot - 1;
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 32;
        t->items = mem_resize(t->items, t->cap * t->width);
    }
    memcpy(t->items + t->n * t->width, item, t->width);
    *slot = ++t->n;
    if (t->n * 2 > t->mask) intern_widen(t);
    return t->n - 1;
}
