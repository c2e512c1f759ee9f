#include "command/sample.h"

#include "base/mem.h"

void sample_seen_init(struct sample_seen *s, uint64_t capacity)
{
    uint64_t slots = 8;
    while (slots < capacity * 2) slots *= 2;
    s->slots = mem_zalloc(slots * sizeof *s->slots);
    s->mask = slots - 1;
}

void sample_seen_fini(struct sample_seen *s) { mem_free(s->slots); }

bool sample_seen_add(struct sample_seen *s, const void *p)
{
    uint64_t at = (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15ull >> 20;
    for (;; at++) {
        const void **slot = &s->slots[at & s->mask];
        if (*slot == p) return false;
        if (!*slot) {
            *slot = p;
            return true;
        }
    }
}
