/* A connection whose command waits for a key: it begins to, is served, or ends without. */
#include "base/check.h"
#include "server/conn_own.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/stats.h"

static struct server *server_of(const struct conn *c) { return c->front->server; }

/* Other threads look at the waiter under the lock (CLIENT UNBLOCK). */
static void show_waiter(struct conn *c, struct waiter *wt)
{
    pthread_mutex_lock(&c->front->lock);
    c->waiter = wt;
    pthread_mutex_unlock(&c->front->lock);
}

bool conn_cancel_wait(struct conn *c)
{
    struct waiter *wt = c->waiter;
    show_waiter(c, NULL); /* first: once cancelled it may be gone */
    if (!wait_cancel(&c->front->worker, wt)) {
        show_waiter(c, wt);
        return false;
    }
    atomic_fetch_sub(&server_of(c)->blocked, 1);
    return true;
}

void conn_start_waiting(struct conn *c, struct waiter *wt)
{
    c->batch->task.blocked = NULL;
    if (wt->came_early) { /* served while the task was still on its way home */
        buf_add(&c->out, wt->answer.p, wt->answer.len);
        conn_note_epoch(c, &wt->task);
        wait_free(wt);
        return;
    }
    show_waiter(c, wt);
    atomic_fetch_add(&server_of(c)->blocked, 1);
    if (wt->timeout_ms) front_set_timer(c->front, c, c->front->worker.mono_ms + wt->timeout_ms + 1); /* mono_ms is rounded down: never early */
}

void conn_served(struct worker *w, struct waiter *wt)
{
    struct conn *c = wt->task.session;
    if (!c->waiter) {
        wt->came_early = true;
        return;
    }
    CHECK(c->waiter == wt);
    show_waiter(c, NULL);
    atomic_fetch_sub(&server_of(c)->blocked, 1);
    front_set_timer(c->front, c, 0);
    loop_buffer(c->front->loop, &c->out);
    size_t from = c->out.len;
    buf_add(&c->out, wt->answer.p, wt->answer.len);
    conn_settle_reply(c, NULL, from);
    conn_note_epoch(c, &wt->task);
    wait_free(wt);
    if (c->closing) conn_close(c);
    else front_ready(c->front, c);
}

/* ---- without a key */

static void answer_timeout(struct conn *c, const struct command *cmd)
{
    struct reply r = {.out = &c->out, .resp = c->resp};
    if (strcmp(cmd->name, "blmove") == 0 || strcmp(cmd->name, "brpoplpush") == 0) reply_null(&r);
    else if (strcmp(cmd->name, "wait") == 0) reply_int(&r, 0);
    else reply_null_array(&r);
}

static const struct command *waiting_command(const struct conn *c) { return c->waiter->task.requests[0].cmd; }

void conn_add_unserved(struct conn *c, const struct command *cmd)
{
    size_t from = c->out.len;
    if (cmd) {
        answer_timeout(c, cmd);
    } else {
        struct reply r = {.out = &c->out, .resp = c->resp};
        reply_error(&r, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
        stats_note_error(server_of(c), &c->front->worker, slice_of(c->out.p + from, c->out.len - from));
    }
}

/* The wait is over without a key; cmd is NULL if the answer is an error. */
static void answer_unserved(struct conn *c, const struct command *cmd)
{
    front_set_timer(c->front, c, 0);
    loop_buffer(c->front->loop, &c->out);
    size_t from = c->out.len;
    conn_add_unserved(c, cmd);
    conn_settle_reply(c, NULL, from);
    front_ready(c->front, c);
}

void conn_timeout(struct conn *c)
{
    if (c->closing) {
        conn_close(c);
        return;
    }
    if (c->wait) relay_wait_timeout(c);
    if (!c->waiter) return;
    const struct command *cmd = waiting_command(c);
    if (conn_cancel_wait(c)) answer_unserved(c, cmd);
    else front_set_timer(c->front, c, c->front->worker.mono_ms + 1);
}

void conn_unblock(struct conn *c, bool with_error)
{
    struct waiter *wt = c->waiter;
    const struct command *cmd = with_error ? NULL : waiting_command(c);
    show_waiter(c, NULL);
    wait_cancel_claimed(&c->front->worker, wt);
    atomic_fetch_sub(&server_of(c)->blocked, 1);
    answer_unserved(c, cmd);
}
