#include "shard/scratch.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "log/opcode.h"
#include "shard/task.h"
#include "store/fits.h"

struct scratch {
    struct route route; /* of one shard, whatever the engine's map says: every key is here */
    struct store *store;
    struct exec_host host; /* that tells nobody */
    bool notes;            /* what is applied is a command's doing */
    struct buf ops;
    size_t *ends; /* in ops, of each */
    uint32_t n_ops, cap_ops;
};

static void note(void *ctx, const struct op *op)
{
    struct scratch *s = ctx;
    if (!s->notes) return;
    if (s->n_ops == s->cap_ops) {
        s->cap_ops = s->cap_ops ? s->cap_ops * 2 : 16;
        s->ends = mem_resize(s->ends, s->cap_ops * sizeof *s->ends);
    }
    opcode_write(&s->ops, op);
    s->ends[s->n_ops++] = s->ops.len;
}

struct scratch *scratch_new(const struct engine *e)
{
    struct scratch *s = mem_zalloc(sizeof *s);
    s->route = (struct route){.seed = e->route.seed, .shards = 1};
    s->store = store_new(e->route.seed, &e->limits, e->random);
    s->store->on_op = note;
    s->store->on_op_ctx = s;
    return s;
}

void scratch_free(struct scratch *s)
{
    store_free(s->store);
    buf_fini(&s->ops);
    mem_free(s->ends);
    mem_free(s);
}

void scratch_clear(struct scratch *s)
{
    for (uint16_t db = 0; db < STORE_DBS; db++)
        if (store_keys(s->store, db)) store_apply(s->store, &(struct op){.kind = OP_FLUSH, .db = db}, NULL);
    s->ops.len = 0;
    s->n_ops = 0;
}

bool scratch_put(struct scratch *s, struct slice raw)
{
    struct dumpfile_entry e;
    struct place at;
    size_t n = dumpfile_take_entry(raw, &e);
    if (!n || n != raw.n || e.db >= STORE_DBS) return false;
    struct op op = {.kind = OP_RESTORE, .db = e.db, .key = e.key, .value = e.image, .expiry_ms = e.expiry_ms};
    if (!fits_op(s->store, &op, keyhash(e.key, s->store->seed), &at)) return false;
    store_apply(s->store, &op, &at);
    return true;
}

void scratch_run(struct scratch *s, struct worker *w, const struct scratch_request *r, struct buf *out)
{
    struct exec *x = &w->x, before = *x;
    struct task t = {.session = r->session, .db = r->db, .resp = r->resp, .out = out};
    x->route = &s->route;
    x->stores = &s->store;
    x->host = &s->host;
    x->out = (struct reply){.out = out, .resp = r->resp};
    x->session = r->session;
    x->now_ms = s->store->now_ms = r->now_ms;
    x->no_touch = false;
    x->ops = 0;
    s->notes = true;
    task_run_command(w, &t, r->cmd, r->argv, r->argc);
    s->notes = false;
    *x = before;
}

void scratch_ops(const struct scratch *s, void (*each)(void *ctx, uint16_t db, struct slice key, struct slice op), void *ctx)
{
    for (uint32_t i = 0; i < s->n_ops; i++) {
        size_t from = i ? s->ends[i - 1] : 0;
        struct slice op = slice_of(s->ops.p + from, s->ends[i] - from), key;
        uint16_t db;
        bool has_key = opcode_peek_key(op, &db, &key);
        CHECK(has_key); /* commands on whole databases are not for a scratch store */
        each(ctx, db, key, op);
    }
}
