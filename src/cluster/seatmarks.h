/* How often keys of a seat were changed, for who watches some (WATCH): a value that changed and changed back is the same, but whoever read it in between has seen another.
 *
 * Keys are told apart by some bits of their hash: one that shares them with a key that was changed seems to have been changed, too. Nothing is counted until somebody asks. W: whoever has the seat's token. */
#pragma once
#include <stdint.h>

struct op;

enum { SEATMARKS_SLOTS = 4096 };

struct seatmarks { /* zeroed, nobody has asked */
    uint32_t *changes; /* by hash */
    uint64_t all;      /* changes that may be to any key */
};

void seatmarks_fini(struct seatmarks *m);
void seatmarks_add(struct seatmarks *m, const struct op *op, uint64_t seed);
/* Another number after every op on this key that was added. */
uint64_t seatmarks_of_key(struct seatmarks *m, uint64_t hash);
