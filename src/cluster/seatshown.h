/* Which of a leader's entries a read may have shown, and so has to wait for (docs/decisions/016): the last one that has an op on the key that it read, not the last one of the group. Where much is written, most reads find that none of the entries under
 * way is about their key.
 *
 * Keys are told apart by some bits of their hash: those that share them wait for each other's entries, which is longer than they must and never wrong. W: whoever has the seat's token. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct op;

enum { SEATSHOWN_SLOTS = 4096, SEATSHOWN_PENDING = 64 };

struct seatshown { /* zeroed, it knows of no entry */
    uint64_t *last;  /* by hash: the sequence of the last entry; NULL: nothing was written yet */
    uint64_t all;    /* of the last entry that may be about any key */
    /* Ops of the command that runs: they have no sequence yet. */
    uint32_t n_pending;
    bool pending_all; /* some may be about any key, or there are too many */
    uint16_t pending[SEATSHOWN_PENDING];
};

void seatshown_fini(struct seatshown *s);
void seatshown_reset(struct seatshown *s); /* everything in the store is committed */
void seatshown_add(struct seatshown *s, const struct op *op, uint64_t seed);
/* What was added is in the entry with this sequence. */
void seatshown_settle(struct seatshown *s, uint64_t sequence);
/* The sequence that whoever read this key has to wait for; 0: none. */
static inline uint64_t seatshown_of_key(const struct seatshown *s, uint64_t hash)
{
    uint64_t last = s->last ? s->last[hash % SEATSHOWN_SLOTS] : 0;
    return last > s->all ? last : s->all;
}
