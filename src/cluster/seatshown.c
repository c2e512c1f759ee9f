#include "cluster/seatshown.h"

#include <string.h>

#include "base/keyhash.h"
#include "base/mem.h"
#include "store/op.h"

void seatshown_fini(struct seatshown *s) { mem_free(s->last); }

void seatshown_reset(struct seatshown *s)
{
    mem_free(s->last);
    *s = (struct seatshown){0};
}

void seatshown_add(struct seatshown *s, const struct op *op, uint64_t seed)
{
    if (op->kind == OP_FLUSH || op->kind == OP_SWAP || s->n_pending == SEATSHOWN_PENDING) s->pending_all = true;
    else s->pending[s->n_pending++] = (uint16_t)(keyhash(op->key, seed) % SEATSHOWN_SLOTS);
}

void seatshown_settle(struct seatshown *s, uint64_t sequence)
{
    if (!s->last) s->last = mem_zalloc(SEATSHOWN_SLOTS * sizeof *s->last);
    for (uint32_t i = 0; i < s->n_pending; i++) s->last[s->pending[i]] = sequence;
    if (s->pending_all) s->all = sequence;
    s->n_pending = 0;
    s->pending_all = false;
}
