/* A call is a wave without a connection: its requests are a task of its own, and it always goes in rounds. It begins at the end of the turn in which it was sent, because a command may be running when it is. */
#include "server/relay_call.h"

#include "base/mem.h"
#include "cluster/meta.h"
#include "server/relay_wave.h"

struct call_result {
    enum call_fate fate;
    size_t at, n;
};

struct call_bytes { /* of one request's arguments */
    struct call_bytes *next;
    char p[];
};

struct call {
    struct call *next; /* of those that begin at the end of this turn */
    struct relay_front *rf;
    struct asker asker;
    struct task task;
    struct call_bytes *bytes;
    struct call_result *results; /* [task.n_requests], when it is over */
    struct buf replies;
    void (*done)(void *ctx, struct call *c);
    void *ctx;
};

struct call *call_new(struct front *f, uint16_t db, uint8_t resp, void (*done)(void *ctx, struct call *c), void *ctx)
{
    struct call *c = mem_zalloc(sizeof *c);
    c->rf = f->relay;
    c->asker = (struct asker){.call = c, .task = &c->task, .db = db, .resp = resp};
    c->done = done;
    c->ctx = ctx;
    return c;
}

void call_free(struct call *c)
{
    while (c->bytes) {
        struct call_bytes *b = c->bytes;
        c->bytes = b->next;
        mem_free(b);
    }
    task_fini(&c->task);
    mem_free(c->results);
    buf_fini(&c->replies);
    mem_free(c);
}

void call_add(struct call *c, uint32_t group, const struct command *cmd, const struct slice *argv, uint32_t argc)
{
    CHECK(group < META_GROUPS_MAX && argc > 0);
    size_t n = 0;
    for (uint32_t i = 1; i < argc; i++) n += argv[i].n;
    struct call_bytes *b = mem_alloc(sizeof *b + n);
    b->next = c->bytes;
    c->bytes = b;
    struct request *r = task_add_to(&c->task, c->rf->front->worker.engine, group, cmd, argv, argc);
    struct slice *args = c->task.args + r->first_arg;
    args[0] = slice_str(cmd->name);
    char *p = b->p;
    for (uint32_t i = 1; i < argc; i++) {
        if (argv[i].n) memcpy(p, argv[i].p, argv[i].n);
        args[i] = slice_of(p, argv[i].n);
        p += argv[i].n;
    }
}

void call_send(struct call *c, uint32_t timeout_ms)
{
    CHECK(c->task.n_requests > 0);
    c->asker.timeout_ms = timeout_ms;
    c->next = NULL;
    *c->rf->last_call = c;
    c->rf->last_call = &c->next;
}

enum call_fate call_fate(const struct call *c, uint32_t i, struct slice *reply)
{
    CHECK(c->results && i < c->task.n_requests);
    *reply = slice_of(c->replies.p + c->results[i].at, c->results[i].n);
    return c->results[i].fate;
}

uint32_t call_size(const struct call *c) { return c->task.n_requests; }

/* ---- its wave */

void relay_call_turn(struct relay_front *rf)
{
    struct call *c = rf->calls;
    rf->calls = NULL; /* what they send when they are over at once begins in the next turn */
    rf->last_call = &rf->calls;
    for (struct call *next; c; c = next) {
        next = c->next;
        relay_wave_start(rf, &c->asker);
    }
}

void relay_call_take(struct call *c, const struct wave *w)
{
    c->results = mem_alloc(c->task.n_requests * sizeof *c->results);
    for (uint32_t i = 0; i < c->task.n_requests; i++) {
        struct slice reply = relay_wave_reply(w, i);
        c->results[i] = (struct call_result){(enum call_fate)w->asked[i].fate, c->replies.len, reply.n};
        buf_add_slice(&c->replies, reply);
    }
}

void relay_call_over(struct call *c) { c->done(c->ctx, c); }

void relay_call_fini(struct relay_front *rf)
{
    for (struct call *c = rf->calls, *next; c; c = next) {
        next = c->next;
        call_free(c);
    }
    for (struct wave *w = rf->waves; w; w = w->next)
        if (w->asker.call) call_free(w->asker.call);
}
