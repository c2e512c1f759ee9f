#include "server/clusterpub.h"

#include "base/mem.h"
#include "cluster/node.h"
#include "cluster/wirepub.h"
#include "server/front.h"

enum {
    INBOX_MAX = 16 * 1024 * 1024,       /* bytes that a front has not looked at yet */
    UNDELIVERED_MAX = 64 * 1024 * 1024, /* and bytes that fronts have not handed to their subscribers */
};

/* From the raft thread to a front: messages one behind the other. */
struct inbox {
    struct mail mail; /* first: the mail is the inbox */
    struct clusterpub *of;
    pthread_mutex_t lock;
    struct buf messages; /* under the lock */
    bool posted;         /* likewise: the mail is on its way */
};

struct clusterpub {
    struct server *server;
    struct inbox *inboxes; /* one per front */
    uint32_t n;
    _Atomic uint64_t received, dropped;
};

/* What stands before a message in an inbox. */
struct head {
    enum subscribe_kind kind;
    uint32_t channel_bytes, message_bytes;
};

static void deliver(struct worker *w, struct mail *m);

struct clusterpub *clusterpub_new(struct server *s)
{
    struct clusterpub *p = mem_zalloc(sizeof *p);
    p->server = s;
    p->n = s->engine->n_workers;
    p->inboxes = mem_zalloc(p->n * sizeof *p->inboxes);
    for (uint32_t i = 0; i < p->n; i++) {
        p->inboxes[i].mail.to_worker = deliver;
        p->inboxes[i].of = p;
        pthread_mutex_init(&p->inboxes[i].lock, NULL);
    }
    return p;
}

void clusterpub_free(struct clusterpub *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n; i++) {
        buf_fini(&p->inboxes[i].messages);
        pthread_mutex_destroy(&p->inboxes[i].lock);
    }
    mem_free(p->inboxes);
    mem_free(p);
}

/* ---- to the others */

void clusterpub_send(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message)
{
    node_spread(s->node, &(struct wirepub){.kind = kind == SUBSCRIBE_SHARD ? WIREPUB_SHARD : WIREPUB_CHANNEL, .channel = channel, .message = message});
}

bool clusterpub_is_much(const struct server *s) { return node_spreads_much(s->node); }

/* ---- from the others */

/* A front's thread: finding out whom it reaches takes as long as there are patterns, so it is not the raft thread's work. */
static void deliver(struct worker *w, struct mail *m)
{
    struct inbox *in = (struct inbox *)m;
    pthread_mutex_lock(&in->lock);
    struct buf messages = in->messages;
    in->messages = (struct buf){0};
    in->posted = false;
    pthread_mutex_unlock(&in->lock);
    for (size_t at = 0; at < messages.len;) {
        struct head h;
        memcpy(&h, messages.p + at, sizeof h);
        const char *bytes = messages.p + at + sizeof h;
        subscribe_deliver(in->of->server, h.kind, slice_of(bytes, h.channel_bytes), slice_of(bytes + h.channel_bytes, h.message_bytes));
        at += sizeof h + h.channel_bytes + h.message_bytes;
    }
    buf_fini(&messages);
}

/* False: there is no room for it. */
static bool put(struct inbox *in, const struct head *h, const struct wirepub *what)
{
    pthread_mutex_lock(&in->lock);
    bool room = in->messages.len <= INBOX_MAX && subscribe_undelivered(in->of->server) <= UNDELIVERED_MAX;
    bool post = room && !in->posted;
    if (room) {
        buf_add(&in->messages, h, sizeof *h);
        buf_add_slice(&in->messages, what->channel);
        buf_add_slice(&in->messages, what->message);
        in->posted = true;
    }
    pthread_mutex_unlock(&in->lock);
    if (post) engine_send(in->of->server->engine, (uint32_t)(in - in->of->inboxes), &in->mail);
    return room;
}

void clusterpub_came(struct clusterpub *p, uint64_t from, const struct wirepub *what)
{
    struct head h = {.kind = what->kind == WIREPUB_SHARD ? SUBSCRIBE_SHARD : SUBSCRIBE_CHANNEL, .channel_bytes = (uint32_t)what->channel.n, .message_bytes = (uint32_t)what->message.n};
    atomic_fetch_add_explicit(&p->received, 1, memory_order_relaxed);
    if (!subscribe_any(p->server)) return;
    if (!put(&p->inboxes[from % p->n], &h, what)) atomic_fetch_add_explicit(&p->dropped, 1, memory_order_relaxed);
}

void clusterpub_look(struct server *s, struct clusterpub_info *out)
{
    struct node_info i;
    node_look(s->node, &i);
    *out = (struct clusterpub_info){.sent = i.spread, .received = atomic_load(&s->clusterpub->received), .dropped = i.spread_dropped + atomic_load(&s->clusterpub->dropped)};
}
