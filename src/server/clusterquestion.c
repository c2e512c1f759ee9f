#include "server/clusterquestion.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/node.h"
#include "server/front.h"
#include "server/stats.h"

struct question {
    struct mail home;
    struct front *front;
    struct conn *conn;
    enum metahost_question asks;
    clusterquestion_shape *shape;
    uint8_t resp;
    struct buf answer;
};

/* On the connection's worker. */
static void come_home(struct worker *w, struct mail *m)
{
    struct question *q = (struct question *)m;
    if (q->answer.p[0] == '-') stats_note_error(q->front->server, w, buf_slice(&q->answer));
    conn_errand_done(q->conn, buf_slice(&q->answer));
    buf_fini(&q->answer);
    mem_free(q);
}

/* A change that was not answered in time may yet come; looking changes nothing. */
static const char *code_of(const struct question *q, int rc)
{
    bool looks = q->asks == METAHOST_STATUS || q->asks == METAHOST_NODES;
    if (rc == -ETIMEDOUT) return looks ? "CLUSTERDOWN" : "UNCERTAIN";
    return rc == -EAGAIN || rc == -EBUSY || rc == -ESTALE ? "TRYAGAIN" : "ERR";
}

static void add_error(struct reply *out, const char *code, int rc, struct slice text)
{
    struct buf line = {0};
    buf_printf(&line, "%s ", code);
    if (text.n) buf_add_slice(&line, text);
    else buf_add_str(&line, strerror(-rc));
    for (size_t i = 0; i < line.len; i++) {
        if (line.p[i] == '\r' || line.p[i] == '\n' || line.p[i] == '\0') line.p[i] = ' ';
    }
    buf_add_byte(&line, '\0');
    reply_error(out, line.p);
    buf_fini(&line);
}

/* On the raft thread. */
static void answered(void *ctx, int rc, struct slice text)
{
    struct question *q = ctx;
    struct reply out = {.out = &q->answer, .resp = q->resp};
    if (rc < 0) add_error(&out, code_of(q, rc), rc, text);
    else q->shape(&out, text);
    engine_send(q->front->server->engine, q->front->worker.id, &q->home);
}

void clusterquestion_ask(struct exec *x, enum metahost_question asks, uint32_t first, uint32_t end, clusterquestion_shape *form)
{
    struct conn *c = conn_of(x);
    struct server *s = c->front->server;
    struct question *q = mem_zalloc(sizeof *q);
    *q = (struct question){.home.to_worker = come_home, .front = c->front, .conn = c, .asks = asks, .shape = form, .resp = x->out.resp};
    c->errand = true;
    node_ask(s->node, asks, x->argv + first, end - first, (uint32_t)CONFIG_NUM(s->config, cluster.timeout_ms), answered, q);
}

void clusterquestion_word(struct reply *out, struct slice text)
{
    char word[256];
    if (text.n == 0) {
        reply_ok(out);
    } else if (text.n >= sizeof word || memchr(text.p, '\n', text.n)) {
        reply_bulk(out, text);
    } else {
        memcpy(word, text.p, text.n);
        word[text.n] = '\0';
        reply_simple(out, word);
    }
}
