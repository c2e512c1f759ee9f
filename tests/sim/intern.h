/* Equal runs of `width` bytes get the same small number, from 0 on. One thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct intern {
    size_t width;
    uint32_t n, cap, mask; /* mask + 1 slots, at most half of them used */
    char *items;
    uint32_t *slots; /* number + 1; 0: empty */
};

void intern_init(struct intern *t, size_t width);
void intern_fini(struct intern *t);
uint32_t intern_put(struct intern *t, const void *item);
/* Where the number of an item is, + 1; 0: it is not there. */
uint32_t *intern_slot(const struct intern *t, const void *item);

/* Good until the next put. */
static inline const void *intern_get(const struct intern *t, uint32_t i) { return t->items + i * t->width; }
