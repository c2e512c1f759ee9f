#include "cluster/seatmarks.h"

#include "base/keyhash.h"
#include "base/mem.h"
#include "store/op.h"
#include "store/store.h"

void seatmarks_fini(struct seatmarks *m) { mem_free(m->changes); }

void seatmarks_add(struct seatmarks *m, const struct op *op, uint64_t seed)
{
    if (!m->changes || op->db == STORE_SYSTEM_DB) return; /* nobody watches what is the system's */
    if (op->kind == OP_FLUSH || op->kind == OP_SWAP) m->all++;
    else m->changes[keyhash(op->key, seed) % SEATMARKS_SLOTS]++;
}

uint64_t seatmarks_of_key(struct seatmarks *m, uint64_t hash)
{
    if (!m->changes) m->changes = mem_zalloc(SEATMARKS_SLOTS * sizeof *m->changes);
    return (m->all << 32) + m->changes[hash % SEATMARKS_SLOTS];
}
