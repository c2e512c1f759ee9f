#include "server/errands.h"

#include "base/mem.h"
#include "cold/readers.h"
#include "server/front.h"
#include "server/stats.h"

struct errands {
    struct server *server;
    struct readers *threads;
};

struct errand {
    struct readers_job job; /* first: a job of ours is its errand */
    struct mail home;
    struct conn *conn;
    errands_fn *fn;
    const struct slice *argv; /* of the connection's batch, which stays until it is back */
    uint32_t argc;
    uint8_t resp;
    struct buf answer;
};

struct errands *errands_new(struct server *s, unsigned threads)
{
    struct errands *e = mem_zalloc(sizeof *e);
    e->server = s;
    e->threads = readers_new(threads);
    return e;
}

void errands_free(struct errands *e)
{
    readers_free(e->threads);
    mem_free(e);
}

/* On the connection's worker. */
static void come_home(struct worker *w, struct mail *m)
{
    struct errand *d = (struct errand *)((char *)m - offsetof(struct errand, home));
    if (d->answer.len && d->answer.p[0] == '-') stats_note_error(d->conn->front->server, w, buf_slice(&d->answer));
    conn_errand_done(d->conn, buf_slice(&d->answer));
    buf_fini(&d->answer);
    mem_free(d);
}

/* On a thread of the pool. */
static void run(struct readers_job *j)
{
    struct errand *d = (struct errand *)j;
    struct front *f = d->conn->front;
    struct reply out = {.out = &d->answer, .resp = d->resp};
    d->fn(&(struct errands_call){.server = f->server, .conn = d->conn, .argv = d->argv, .argc = d->argc, .out = &out});
    engine_send(f->server->engine, f->worker.id, &d->home);
}

void errands_send(struct errands *e, struct exec *x, errands_fn *fn)
{
    struct errand *d = mem_zalloc(sizeof *d);
    d->job.run = run;
    d->home.to_worker = come_home;
    d->conn = conn_of(x);
    d->fn = fn;
    d->argv = x->argv;
    d->argc = x->argc;
    d->resp = x->out.resp;
    d->conn->errand = true;
    readers_add(e->threads, &d->job);
}

void errands_run_here(struct exec *x, errands_fn *fn)
{
    fn(&(struct errands_call){.server = conn_of(x)->front->server, .conn = conn_of(x), .argv = x->argv, .argc = x->argc, .out = &x->out});
}
