#include "cel/scratch.h"

#include <stdalign.h>

#include "base/mem.h"

enum { BLOCK_BYTES = 4096 };

struct scratch_block {
    struct scratch_block *next;
    size_t size, used;
    alignas(max_align_t) char bytes[];
};

void scratch_init(struct scratch *s)
{
    *s = (struct scratch){.bytes_max = SCRATCH_BYTES_MAX, .steps_max = SCRATCH_STEPS_MAX};
}

void scratch_fini(struct scratch *s)
{
    for (struct scratch_block *b = s->first, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    s->first = s->current = NULL;
}

void scratch_reset(struct scratch *s)
{
    s->current = s->first;
    if (s->first) s->first->used = 0;
    s->used_bytes = 0;
}

/* The next block with room for so many bytes. Blocks behind the current one are empty leftovers of earlier rounds: one
 * that is too small is skipped, and used again after the next reset. */
static struct scratch_block *next_block(struct scratch *s, size_t bytes)
{
    struct scratch_block *b = s->current;
    while (b && b->next) {
        b = b->next;
        b->used = 0;
        if (b->size >= bytes) return b;
    }
    size_t size = b ? b->size * 2 : BLOCK_BYTES;
    if (size > 1 << 20) size = 1 << 20;
    if (size < bytes) size = bytes;
    struct scratch_block *fresh = mem_alloc(sizeof *fresh + size);
    *fresh = (struct scratch_block){.size = size};
    if (b) b->next = fresh;
    else s->first = fresh;
    return fresh;
}

void *scratch_alloc(struct scratch *s, size_t bytes)
{
    if (bytes > s->bytes_max - s->used_bytes) return NULL;
    size_t rounded = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!s->current || s->current->size - s->current->used < rounded) s->current = next_block(s, rounded);
    void *p = s->current->bytes + s->current->used;
    s->current->used += rounded;
    s->used_bytes = rounded > s->bytes_max - s->used_bytes ? s->bytes_max : s->used_bytes + rounded;
    return p;
}

struct slice scratch_copy(struct scratch *s, struct slice bytes)
{
    char *p = bytes.n < SIZE_MAX ? scratch_alloc(s, bytes.n + 1) : NULL;
    if (!p) return slice_of(NULL, 0);
    if (bytes.n) memcpy(p, bytes.p, bytes.n);
    p[bytes.n] = '\0';
    return slice_of(p, bytes.n);
}
