/* Memory that is given back all at once: compiling and evaluating CEL take theirs from here. Owned by one thread at a time.
 * Blocks are kept over a reset, so a scratch that has been used once asks the heap for nothing. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct scratch_block;

struct scratch {
    struct scratch_block *first, *current;
    size_t used_bytes;  /* since the last reset */
    size_t bytes_max;   /* what one evaluation may take; more is its error */
    uint64_t steps_max; /* how much one evaluation may work: about one step per operation, element or 64 bytes looked at */
};

enum { SCRATCH_BYTES_MAX = 16 << 20, SCRATCH_STEPS_MAX = 1000000 };

void scratch_init(struct scratch *s); /* with the limits above; the caller may set others */
void scratch_fini(struct scratch *s);
void scratch_reset(struct scratch *s);

/* Memory until the next reset, aligned for anything; NULL if that passed bytes_max. */
void *scratch_alloc(struct scratch *s, size_t bytes);

/* A copy of the bytes, with a zero byte behind them; p is NULL if that passed bytes_max. */
struct slice scratch_copy(struct scratch *s, struct slice bytes);
