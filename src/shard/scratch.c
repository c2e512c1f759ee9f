#include "shard/scratch.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "log/opcode.h"
#include "shard/task.h"
#include "store/fits.h"

struct event {
    unsigned event_class;
    const char *name;
    uint16_t db;
    size_t at, n; /* its key, in event_keys */
};

struct scratch {
    struct route route; /* of one shard, whatever the engine's map says: every key is here */
    struct store *store;
    struct exec_host host; /* that notes events */
    bool notes;            /* what is applied is a command's doing */
    unsigned events_wanted;
    struct buf ops;
    size_t *ends; /* in ops, of each */
    uint32_t n_ops, cap_ops;
    struct event *events;
    uint32_t n_events, cap_events;
    struct buf event_keys;
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

static void note_event(struct scratch *s, unsigned event_class, const char *name, uint16_t db, struct slice key)
{
    if (!s->notes || !(s->events_wanted & event_class)) return;
    if (s->n_events == s->cap_events) {
        s->cap_events = s->cap_events ? s->cap_events * 2 : 16;
        s->events = mem_resize(s->events, s->cap_events * sizeof *s->events);
    }
    s->events[s->n_events++] = (struct event){event_class, name, db, s->event_keys.len, key.n};
    buf_add_slice(&s->event_keys, key);
}

static void of_command(void *ctx, struct exec *x, unsigned event_class, const char *name, struct slice key, uint16_t db) { note_event(ctx, event_class, name, db, key); }
static void of_expiry(void *ctx, uint16_t db, struct slice key) { note_event(ctx, NOTIFY_EXPIRED, "expired", db, key); }

struct scratch *scratch_new(const struct engine *e)
{
    struct scratch *s = mem_zalloc(sizeof *s);
    s->route = (struct route){.seed = e->route.seed, .shards = 1};
    s->store = store_new(e->route.seed, &e->limits, e->random);
    s->store->on_op = note;
    s->store->on_op_ctx = s;
    s->store->on_expire = of_expiry;
    s->store->on_expire_ctx = s;
    s->host = (struct exec_host){.notify = of_command, .ctx = s};
    return s;
}

void scratch_free(struct scratch *s)
{
    store_free(s->store);
    buf_fini(&s->ops);
    mem_free(s->ends);
    mem_free(s->events);
    buf_fini(&s->event_keys);
    mem_free(s);
}

void scratch_clear(struct scratch *s)
{
    for (uint16_t db = 0; db < STORE_DBS; db++)
        if (store_keys(s->store, db)) store_apply(s->store, &(struct op){.kind = OP_FLUSH, .db = db}, NULL);
    s->ops.len = s->event_keys.len = 0;
    s->n_ops = s->n_events = 0;
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
    s->events_wanted = r->events;
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

void scratch_events(const struct scratch *s, void (*each)(void *ctx, const struct scratch_event *e), void *ctx)
{
    for (uint32_t i = 0; i < s->n_events; i++) {
        const struct event *e = &s->events[i];
        each(ctx, &(struct scratch_event){e->event_class, e->name, e->db, slice_of(s->event_keys.p + e->at, e->n)});
    }
}
