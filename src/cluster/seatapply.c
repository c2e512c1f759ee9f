#include "cluster/seatapply.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "cluster/seatentry.h"
#include "dump/dumpfile.h"
#include "store/fits.h"
#include "store/store.h"

void seatapply_init(struct seatapply *a, struct store *s) { *a = (struct seatapply){.store = s}; }

void seatapply_fini(struct seatapply *a)
{
    buf_fini(&a->pieces);
    opcode_scratch_fini(&a->scratch);
}

/* ---- entries */

enum { HEAD = 8 + 8 + 4 + 4 }; /* index, term, type, length */

void seatapply_add(struct buf *out, const struct raftnode_entry *e)
{
    le_add_u64(out, e->index);
    le_add_u64(out, e->term);
    le_add_u32(out, (uint32_t)e->type);
    le_add_u32(out, (uint32_t)e->data.n);
    buf_add_slice(out, e->data);
}

static void apply_op(struct seatapply *a, const struct op *op)
{
    struct place at;
    bool keyed = op->kind != OP_FLUSH && op->kind != OP_SWAP;
    bool fits = fits_op(a->store, op, keyed ? keyhash(op->key, a->store->seed) : 0, &at);
    CHECK(fits);
    store_apply(a->store, op, keyed ? &at : NULL);
}

static void apply_ops(struct seatapply *a, struct slice ops)
{
    struct op op;
    bool bad;
    a->busy = true;
    while (seatentry_next_op(&ops, &a->scratch, &op, &bad)) apply_op(a, &op);
    CHECK(!bad);
    a->busy = false;
}

static void apply_command(struct seatapply *a, uint64_t term, struct slice data)
{
    struct seatentry e;
    bool known = seatentry_read(data, &e);
    CHECK(known);
    if (e.first) {
        a->pieces.len = 0; /* the rest of another one will never come: its leader lost its place in between */
        a->pieces_term = term;
        a->before_index = a->index;
        a->before_term = a->term;
    } else if (a->pieces.len == 0 || a->pieces_term != term) {
        a->pieces.len = 0;
        return;
    }
    if (e.first && e.last) {
        apply_ops(a, e.ops);
        return;
    }
    buf_add_slice(&a->pieces, e.ops);
    if (!e.last) return;
    apply_ops(a, buf_slice(&a->pieces));
    buf_fini(&a->pieces);
}

void seatapply_entries(struct seatapply *a, struct slice gathered, uint64_t *index, uint64_t *term)
{
    a->index = *index;
    a->term = *term;
    while (gathered.n) {
        uint64_t entry_index = le_u64(gathered.p), entry_term = le_u64(gathered.p + 8);
        uint32_t type = le_u32(gathered.p + 16), n = le_u32(gathered.p + 20);
        if (type == RAFTNODE_COMMAND) {
            CHECK(entry_index == a->index + 1); /* entries of this node's own, which are in the store already, are noted before those of a later leader come */
            apply_command(a, entry_term, slice_of(gathered.p + HEAD, n));
        }
        if (entry_index > a->index) {
            a->index = entry_index;
            a->term = entry_term;
        }
        gathered = slice_of(gathered.p + HEAD + n, gathered.n - HEAD - n);
    }
    *index = a->index;
    *term = a->term;
}

void seatapply_drop_pieces(struct seatapply *a) { buf_fini(&a->pieces); }

/* ---- filling */

void seatapply_empty(struct seatapply *a)
{
    a->busy = a->filling = true;
    for (uint16_t db = 0; db < STORE_ALL_DBS; db++)
        if (a->store->dbs[db]) store_apply(a->store, &(struct op){.kind = OP_FLUSH, .db = db}, NULL);
    a->busy = false;
    a->pieces.len = 0;
}

void seatapply_fill(struct seatapply *a, struct slice raw)
{
    struct dumpfile_entry e;
    a->busy = true;
    while (raw.n) {
        size_t n = dumpfile_take_entry(raw, &e);
        CHECK(n && e.db < STORE_ALL_DBS);
        apply_op(a, &(struct op){.kind = OP_RESTORE, .db = e.db, .key = e.key, .value = e.image, .expiry_ms = e.expiry_ms});
        raw = slice_of(raw.p + n, raw.n - n);
    }
    a->busy = false;
}

void seatapply_filled(struct seatapply *a) { a->filling = false; }

void seatapply_whole_index(const struct seatapply *a, uint64_t *index, uint64_t *term)
{
    if (a->pieces.len == 0) return;
    *index = a->before_index;
    *term = a->before_term;
}
