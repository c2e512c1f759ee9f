/* Three views of the same subscriptions:
 *
 *   registry  struct total         (kind, name) -> how many subscribe on each front      all threads, under a lock
 *   front     struct topic         (kind, name) -> its subscriptions                     the front's thread
 *   client    struct subscription  (kind, name) -> this client takes part                the front's thread
 *
 * A publisher looks into the registry only: which fronts are concerned, and how many receivers there are. The publication is one block of
 * memory, copied once, shared by the fronts that it is sent to; each front renders it at most once per protocol and topic.
 *
 * Which subscriptions a publication reaches is decided at the look into the registry: every new subscription gets the next number under the
 * lock, a publication carries the number of the moment, and a front skips subscriptions that are younger. */
#include "server/subscribe.h"

#include <sys/queue.h>

#include "base/check.h"
#include "base/glob.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "server/clusterpub.h"
#include "server/datadir.h"
#include "server/front.h"
#include "server/names.h"

enum {
    KINDS = 3,
    FRONTS_MAX = 1024,            /* as the option `workers` */
    KEEP_RENDERED_MAX = 64 * 1024, /* a larger buffer is not kept */
    UNDELIVERED_MAX = 16 * 1024 * 1024, /* bytes on their way; beyond it publishers are held for a moment */
};

/* ---- the registry */

struct total {
    struct name name;
    LIST_ENTRY(total) link; /* patterns only */
    uint64_t n;
    uint32_t on[]; /* by front; the name's text follows */
};

struct pubsub {
    pthread_rwlock_t lock;
    struct names totals;
    LIST_HEAD(, total) patterns;
    uint64_t n_names[KINDS];
    uint64_t subscribed;    /* the number of the youngest subscription */
    uint64_t seed;
    uint32_t fronts;
    atomic_size_t size;     /* totals.n, to be read without the lock */
    atomic_size_t undelivered; /* bytes of publications that some front has not had yet */
};

struct pubsub *subscribe_registry_new(uint32_t fronts)
{
    CHECK(fronts <= FRONTS_MAX);
    struct pubsub *p = mem_zalloc(sizeof *p);
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP); /* a storm of publishing keeps no subscriber out */
    pthread_rwlock_init(&p->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    LIST_INIT(&p->patterns);
    p->seed = datadir_random_seed();
    p->fronts = fronts;
    return p;
}

void subscribe_registry_free(struct pubsub *p)
{
    for (struct name *n = names_next(&p->totals, NULL), *next; n; n = next) {
        next = names_next(&p->totals, n);
        mem_free(n);
    }
    names_fini(&p->totals);
    pthread_rwlock_destroy(&p->lock);
    mem_free(p);
}

static uint64_t hash_of(const struct pubsub *p, enum subscribe_kind kind, struct slice text) { return keyhash(text, p->seed + kind); }

static struct total *total_new(struct pubsub *p, const struct name *like)
{
    size_t head = sizeof(struct total) + p->fronts * sizeof(uint32_t);
    struct total *t = mem_zalloc(head + like->text.n);
    char *text = (char *)t + head;
    if (like->text.n) memcpy(text, like->text.p, like->text.n);
    t->name = (struct name){.hash = like->hash, .kind = like->kind, .text = slice_of(text, like->text.n)};
    names_add(&p->totals, &t->name);
    p->n_names[like->kind]++;
    if (like->kind == SUBSCRIBE_PATTERN) LIST_INSERT_HEAD(&p->patterns, t, link);
    return t;
}

static void total_free(struct pubsub *p, struct total *t)
{
    names_remove(&p->totals, &t->name);
    p->n_names[t->name.kind]--;
    if (t->name.kind == SUBSCRIBE_PATTERN) LIST_REMOVE(t, link);
    mem_free(t);
}

static struct total *total_find(const struct pubsub *p, const struct name *name)
{
    return (struct total *)names_find(&p->totals, name->hash, name->kind, name->text);
}

/* Gives the new subscription's number. */
static uint64_t registry_join(struct pubsub *p, const struct name *name, uint32_t front)
{
    pthread_rwlock_wrlock(&p->lock);
    struct total *t = total_find(p, name);
    if (!t) t = total_new(p, name);
    t->n++;
    t->on[front]++;
    uint64_t number = ++p->subscribed;
    atomic_store(&p->size, p->totals.n);
    pthread_rwlock_unlock(&p->lock);
    return number;
}

static void registry_leave(struct pubsub *p, const struct name *name, uint32_t front)
{
    pthread_rwlock_wrlock(&p->lock);
    struct total *t = total_find(p, name);
    CHECK(t && t->on[front]);
    t->on[front]--;
    if (--t->n == 0) total_free(p, t);
    atomic_store(&p->size, p->totals.n);
    pthread_rwlock_unlock(&p->lock);
}

uint64_t subscribe_names(struct server *s, enum subscribe_kind kind)
{
    struct pubsub *p = s->pubsub;
    pthread_rwlock_rdlock(&p->lock);
    uint64_t n = p->n_names[kind];
    pthread_rwlock_unlock(&p->lock);
    return n;
}

/* ---- a front's topics and a client's subscriptions */

struct subscription {
    struct name name; /* text: the topic's */
    struct topic *topic;
    struct conn *conn;
    uint64_t number;
    TAILQ_ENTRY(subscription) of_topic, of_conn;
};

struct topic {
    struct name name;
    LIST_ENTRY(topic) link; /* patterns only */
    TAILQ_HEAD(, subscription) subs;
    char text[];
};

struct topics {
    struct names names;
    LIST_HEAD(, topic) patterns;
    struct buf rendered[2]; /* the publication at hand in RESP2 and RESP3; empty: not yet */
};

TAILQ_HEAD(subscription_list, subscription);

struct subscriptions {
    struct names names;
    struct subscription_list lists[KINDS]; /* oldest first */
    uint32_t n[KINDS];                     /* CLIENT LIST reads them from other threads */
};

struct topics *subscribe_topics_new(void)
{
    struct topics *t = mem_zalloc(sizeof *t);
    LIST_INIT(&t->patterns);
    return t;
}

void subscribe_topics_free(struct topics *t)
{
    names_fini(&t->names); /* topics go with their last subscription */
    buf_fini(&t->rendered[0]);
    buf_fini(&t->rendered[1]);
    mem_free(t);
}

static struct topic *topic_new(struct topics *t, const struct name *like)
{
    struct topic *topic = mem_zalloc(sizeof *topic + like->text.n);
    if (like->text.n) memcpy(topic->text, like->text.p, like->text.n);
    topic->name = (struct name){.hash = like->hash, .kind = like->kind, .text = slice_of(topic->text, like->text.n)};
    TAILQ_INIT(&topic->subs);
    names_add(&t->names, &topic->name);
    if (like->kind == SUBSCRIBE_PATTERN) LIST_INSERT_HEAD(&t->patterns, topic, link);
    return topic;
}

static void topic_free(struct topics *t, struct topic *topic)
{
    names_remove(&t->names, &topic->name);
    if (topic->name.kind == SUBSCRIBE_PATTERN) LIST_REMOVE(topic, link);
    mem_free(topic);
}

static void show_subscriptions(struct conn *c, struct subscriptions *subs)
{
    pthread_mutex_lock(&c->front->lock);
    c->subs = subs;
    pthread_mutex_unlock(&c->front->lock);
}

static struct subscriptions *subscriptions_of(struct conn *c)
{
    if (c->subs) return c->subs;
    struct subscriptions *s = mem_zalloc(sizeof *s);
    for (int k = 0; k < KINDS; k++) TAILQ_INIT(&s->lists[k]);
    show_subscriptions(c, s);
    return s;
}

static void drop_if_empty(struct conn *c)
{
    struct subscriptions *s = c->subs;
    if (!s || s->names.n) return;
    show_subscriptions(c, NULL);
    names_fini(&s->names);
    mem_free(s);
}

static struct pubsub *registry_of(const struct conn *c) { return c->front->server->pubsub; }

static void join(struct conn *c, enum subscribe_kind kind, struct slice text)
{
    struct subscriptions *subs = subscriptions_of(c);
    struct topics *topics = c->front->topics;
    struct name name = {.hash = hash_of(registry_of(c), kind, text), .kind = (uint8_t)kind, .text = text};
    if (names_find(&subs->names, name.hash, name.kind, text)) return;
    struct topic *topic = (struct topic *)names_find(&topics->names, name.hash, name.kind, text);
    if (!topic) topic = topic_new(topics, &name);
    struct subscription *s = mem_zalloc(sizeof *s);
    s->name = topic->name;
    s->topic = topic;
    s->conn = c;
    s->number = registry_join(registry_of(c), &name, c->front->worker.id);
    TAILQ_INSERT_TAIL(&topic->subs, s, of_topic);
    TAILQ_INSERT_TAIL(&subs->lists[kind], s, of_conn);
    names_add(&subs->names, &s->name);
    STAT_ADD(subs->n[kind], 1);
}

static void leave(struct subscription *s)
{
    struct conn *c = s->conn;
    struct subscriptions *subs = c->subs;
    enum subscribe_kind kind = s->name.kind;
    registry_leave(registry_of(c), &s->name, c->front->worker.id);
    names_remove(&subs->names, &s->name);
    TAILQ_REMOVE(&subs->lists[kind], s, of_conn);
    TAILQ_REMOVE(&s->topic->subs, s, of_topic);
    STAT_ADD(subs->n[kind], -1u);
    if (TAILQ_EMPTY(&s->topic->subs)) topic_free(c->front->topics, s->topic);
    mem_free(s);
}

void subscribe_drop(struct conn *c)
{
    if (!c->subs) return;
    for (int k = 0; k < KINDS; k++)
        for (struct subscription *s; (s = TAILQ_FIRST(&c->subs->lists[k]));) leave(s);
    drop_if_empty(c);
}

uint32_t subscribe_count(const struct conn *c, enum subscribe_kind kind) { return c->subs ? STAT_GET(c->subs->n[kind]) : 0; }

/* ---- publishing */

struct publication { /* shared by the fronts that get it */
    atomic_uint refs;
    size_t bytes; /* of this block */
    enum subscribe_kind kind;
    uint64_t hash;   /* of the channel */
    uint64_t number; /* subscriptions beyond it are too young */
    struct slice channel, message;
};

struct parcel { /* a publication on its way to one front */
    struct mail mail;
    struct publication *of;
};

static void render(struct buf *out, uint8_t resp, const struct topic *topic, const struct publication *p)
{
    static const char *const words[KINDS] = {"message", "pmessage", "smessage"};
    bool pattern = topic->name.kind == SUBSCRIBE_PATTERN;
    struct reply r = {.out = out, .resp = resp};
    reply_push(&r, pattern ? 4 : 3);
    reply_bulk_str(&r, words[topic->name.kind]);
    if (pattern) reply_bulk(&r, topic->name.text);
    reply_bulk(&r, p->channel);
    reply_bulk(&r, p->message);
}

static void deliver_to(struct topics *t, const struct topic *topic, const struct publication *p)
{
    const struct subscription *s;
    TAILQ_FOREACH(s, &topic->subs, of_topic)
    {
        if (s->number > p->number) continue;
        struct buf *out = &t->rendered[s->conn->resp - 2];
        if (!out->len) render(out, s->conn->resp, topic, p);
        conn_push(s->conn, buf_slice(out));
    }
    for (int i = 0; i < 2; i++) {
        t->rendered[i].len = 0;
        if (t->rendered[i].cap > KEEP_RENDERED_MAX) buf_fini(&t->rendered[i]);
    }
}

static void deliver(struct worker *w, struct mail *m)
{
    struct publication *p = ((struct parcel *)m)->of;
    struct topics *t = front_of(w)->topics;
    const struct topic *topic = (struct topic *)names_find(&t->names, p->hash, (uint8_t)p->kind, p->channel);
    if (topic) deliver_to(t, topic, p);
    if (p->kind == SUBSCRIBE_CHANNEL) {
        LIST_FOREACH(topic, &t->patterns, link)
        if (glob_match(topic->name.text, p->channel, false)) deliver_to(t, topic, p);
    }
    if (atomic_fetch_sub(&p->refs, 1) > 1) return;
    atomic_fetch_sub(&front_of(w)->server->pubsub->undelivered, p->bytes);
    mem_free(p);
}

/* The fronts concerned, as bits, and the receivers there. */
struct audience {
    uint64_t fronts[FRONTS_MAX / 64];
    uint64_t receivers;
};

static void add_audience(const struct pubsub *p, struct audience *a, const struct total *t)
{
    a->receivers += t->n;
    for (uint32_t f = 0; f < p->fronts; f++)
        if (t->on[f]) a->fronts[f / 64] |= 1ull << f % 64;
}

/* Gives the number of the youngest subscription of the moment. */
static uint64_t find_audience(struct pubsub *p, const struct name *channel, struct audience *a)
{
    pthread_rwlock_rdlock(&p->lock);
    const struct total *t = total_find(p, channel);
    if (t) add_audience(p, a, t);
    if (channel->kind == SUBSCRIBE_CHANNEL) {
        LIST_FOREACH(t, &p->patterns, link)
        if (glob_match(t->name.text, channel->text, false)) add_audience(p, a, t);
    }
    uint64_t number = p->subscribed;
    pthread_rwlock_unlock(&p->lock);
    return number;
}

/* One block: publication, parcels, bytes. */
static struct publication *publication_new(const struct name *channel, struct slice message, uint64_t number, uint32_t parcels)
{
    size_t head = sizeof(struct publication) + parcels * sizeof(struct parcel);
    size_t size = head + channel->text.n + message.n;
    struct publication *p = mem_alloc(size);
    char *bytes = (char *)p + head;
    *p = (struct publication){.bytes = size, .kind = channel->kind, .hash = channel->hash, .number = number};
    atomic_init(&p->refs, parcels);
    p->channel = slice_of(bytes, channel->text.n);
    p->message = slice_of(bytes + channel->text.n, message.n);
    if (channel->text.n) memcpy(bytes, channel->text.p, channel->text.n);
    if (message.n) memcpy(bytes + channel->text.n, message.p, message.n);
    return p;
}

static void send_to(struct engine *e, const struct audience *a, struct publication *p)
{
    struct parcel *next = (struct parcel *)(p + 1);
    uint32_t left = atomic_load(&p->refs); /* once the last is sent, the block may be gone */
    for (uint32_t f = 0; left; f++) {
        if (!(a->fronts[f / 64] >> f % 64 & 1)) continue;
        struct parcel *parcel = next++;
        *parcel = (struct parcel){.mail = {.to_worker = deliver}, .of = p};
        left--;
        engine_send(e, f, &parcel->mail);
    }
}

bool subscribe_any(const struct server *s) { return atomic_load(&s->pubsub->size) > 0; }
size_t subscribe_undelivered(const struct server *s) { return atomic_load(&s->pubsub->undelivered); }

uint64_t subscribe_deliver(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message)
{
    struct pubsub *p = s->pubsub;
    if (likely(!subscribe_any(s))) return 0;
    struct name name = {.hash = hash_of(p, kind, channel), .kind = (uint8_t)kind, .text = channel};
    struct audience a = {.receivers = 0};
    uint64_t number = find_audience(p, &name, &a);
    if (!a.receivers) return 0;
    uint32_t fronts = 0;
    for (uint32_t i = 0; i < FRONTS_MAX / 64; i++) fronts += (uint32_t)__builtin_popcountll(a.fronts[i]);
    struct publication *pub = publication_new(&name, message, number, fronts);
    atomic_fetch_add(&p->undelivered, pub->bytes);
    send_to(s->engine, &a, pub);
    return a.receivers;
}

uint64_t subscribe_publish(struct server *s, enum subscribe_kind kind, struct slice channel, struct slice message)
{
    if (unlikely(s->node != NULL)) clusterpub_send(s, kind, channel, message);
    return subscribe_deliver(s, kind, channel, message);
}

/* ---- commands */

/* The count that confirmations show: channels and patterns together, sharded channels apart. */
static int64_t shown_count(const struct conn *c, enum subscribe_kind kind)
{
    if (kind == SUBSCRIBE_SHARD) return subscribe_count(c, SUBSCRIBE_SHARD);
    return (int64_t)subscribe_count(c, SUBSCRIBE_CHANNEL) + subscribe_count(c, SUBSCRIBE_PATTERN);
}

static void subscribe_all(struct exec *x, enum subscribe_kind kind)
{
    struct conn *c = conn_of(x);
    for (uint32_t i = 1; i < x->argc; i++) {
        join(c, kind, x->argv[i]);
        reply_push(&x->out, 3);
        reply_bulk_str(&x->out, x->cmd->name);
        reply_bulk(&x->out, x->argv[i]);
        reply_int(&x->out, shown_count(c, kind));
    }
}

/* s is NULL if there was no such subscription. */
static void leave_and_confirm(struct exec *x, enum subscribe_kind kind, struct subscription *s, struct slice text)
{
    reply_push(&x->out, 3);
    reply_bulk_str(&x->out, x->cmd->name);
    reply_bulk(&x->out, text); /* may be the topic's, which may go now */
    if (s) leave(s);
    reply_int(&x->out, shown_count(conn_of(x), kind));
}

static void leave_every(struct exec *x, enum subscribe_kind kind)
{
    struct conn *c = conn_of(x);
    if (!subscribe_count(c, kind)) {
        reply_push(&x->out, 3);
        reply_bulk_str(&x->out, x->cmd->name);
        reply_null(&x->out);
        reply_int(&x->out, shown_count(c, kind));
        return;
    }
    for (struct subscription *s; (s = TAILQ_FIRST(&c->subs->lists[kind]));) leave_and_confirm(x, kind, s, s->name.text);
}

static void unsubscribe(struct exec *x, enum subscribe_kind kind)
{
    struct conn *c = conn_of(x);
    if (x->argc == 1) leave_every(x, kind);
    for (uint32_t i = 1; i < x->argc; i++) {
        struct slice text = x->argv[i];
        struct name *n = c->subs ? names_find(&c->subs->names, hash_of(registry_of(c), kind, text), (uint8_t)kind, text) : NULL;
        leave_and_confirm(x, kind, (struct subscription *)n, text);
    }
    drop_if_empty(c);
}

static void subscribe_command(struct exec *x) { subscribe_all(x, SUBSCRIBE_CHANNEL); }
static void psubscribe_command(struct exec *x) { subscribe_all(x, SUBSCRIBE_PATTERN); }
static void ssubscribe_command(struct exec *x) { subscribe_all(x, SUBSCRIBE_SHARD); }
static void unsubscribe_command(struct exec *x) { unsubscribe(x, SUBSCRIBE_CHANNEL); }
static void punsubscribe_command(struct exec *x) { unsubscribe(x, SUBSCRIBE_PATTERN); }
static void sunsubscribe_command(struct exec *x) { unsubscribe(x, SUBSCRIBE_SHARD); }

static void publish(struct exec *x, enum subscribe_kind kind)
{
    struct conn *c = conn_of(x);
    struct server *s = c->front->server;
    struct slice channel = x->argv[1], message = x->argv[2];
    if (unlikely(s->node && channel.n + message.n > CLUSTERPUB_BYTES_MAX)) {
        reply_error(&x->out, "ERR the arguments of one command exceed 8 MiB, which a cluster does not take");
        return;
    }
    uint64_t n = subscribe_publish(s, kind, channel, message);
    /* The fronts, or the links to other nodes, cannot keep up: this client goes on when its front looks for paused ones, a tenth of a second from now at the latest. */
    if (unlikely(subscribe_undelivered(s) > UNDELIVERED_MAX || (s->node && clusterpub_is_much(s)))) c->paused = true;
    reply_int(&x->out, (int64_t)n);
}

static void publish_command(struct exec *x) { publish(x, SUBSCRIBE_CHANNEL); }
static void spublish_command(struct exec *x) { publish(x, SUBSCRIBE_SHARD); }

static void list_channels(struct exec *x, enum subscribe_kind kind)
{
    if (x->argc > 3) {
        reply_errorf(&x->out, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try PUBSUB HELP.", (int)x->argv[1].n,
                     x->argv[1].p);
        return;
    }
    struct pubsub *p = registry_of(conn_of(x));
    size_t mark = reply_open(&x->out), n = 0;
    pthread_rwlock_rdlock(&p->lock);
    for (const struct name *name = names_next(&p->totals, NULL); name; name = names_next(&p->totals, name)) {
        if (name->kind != kind || (x->argc == 3 && !glob_match(x->argv[2], name->text, false))) continue;
        reply_bulk(&x->out, name->text);
        n++;
    }
    pthread_rwlock_unlock(&p->lock);
    reply_close_array(&x->out, mark, n);
}

static void count_subscribers(struct exec *x, enum subscribe_kind kind)
{
    struct pubsub *p = registry_of(conn_of(x));
    reply_array(&x->out, (x->argc - 2) * 2);
    pthread_rwlock_rdlock(&p->lock);
    for (uint32_t i = 2; i < x->argc; i++) {
        struct name name = {.hash = hash_of(p, kind, x->argv[i]), .kind = (uint8_t)kind, .text = x->argv[i]};
        const struct total *t = total_find(p, &name);
        reply_bulk(&x->out, x->argv[i]);
        reply_int(&x->out, t ? (int64_t)t->n : 0);
    }
    pthread_rwlock_unlock(&p->lock);
}

static void pubsub_channels(struct exec *x) { list_channels(x, SUBSCRIBE_CHANNEL); }
static void pubsub_shardchannels(struct exec *x) { list_channels(x, SUBSCRIBE_SHARD); }
static void pubsub_numsub(struct exec *x) { count_subscribers(x, SUBSCRIBE_CHANNEL); }
static void pubsub_shardnumsub(struct exec *x) { count_subscribers(x, SUBSCRIBE_SHARD); }

static void pubsub_numpat(struct exec *x)
{
    reply_int(&x->out, (int64_t)subscribe_names(conn_of(x)->front->server, SUBSCRIBE_PATTERN));
}

static const struct exec_subcommand pubsub_subs[] = {
    {"channels", pubsub_channels, -2},           {"numpat", pubsub_numpat, 2},
    {"numsub", pubsub_numsub, -2},               {"shardchannels", pubsub_shardchannels, -2},
    {"shardnumsub", pubsub_shardnumsub, -2},     {0},
};

static const char *const pubsub_help[] = {
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    NULL};

static void pubsub_command(struct exec *x) { exec_subcommand(x, pubsub_subs, pubsub_help); }

#define SUBSCRIBER (CMD_PUBSUB | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_IN_SUBSCRIBE)
#define PUBLISHER (CMD_PUBSUB | CMD_LOADING | CMD_STALE | CMD_FAST)

static const struct command rows[] = {
    {.name = "subscribe", .fn = subscribe_command, .arity = -2, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "2.0.0", .summary = "Listens for messages published to channels.", .args = "channel [channel ...]"},
    {.name = "unsubscribe", .fn = unsubscribe_command, .arity = -1, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "2.0.0", .summary = "Stops listening to messages posted to channels.", .args = "[channel [channel ...]]"},
    {.name = "psubscribe", .fn = psubscribe_command, .arity = -2, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "2.0.0", .summary = "Listens for messages published to channels that match one or more patterns.",
     .args = "pattern [pattern ...]"},
    {.name = "punsubscribe", .fn = punsubscribe_command, .arity = -1, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "2.0.0", .summary = "Stops listening to messages published to channels that match one or more patterns.",
     .args = "[pattern [pattern ...]]"},
    {.name = "ssubscribe", .fn = ssubscribe_command, .arity = -2, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "7.0.0", .summary = "Listens for messages published to shard channels.",
     .args = "shardchannel [shardchannel ...]"},
    {.name = "sunsubscribe", .fn = sunsubscribe_command, .arity = -1, .class = CLASS_LOCAL, .flags = SUBSCRIBER,
     .group = "pubsub", .since = "7.0.0", .summary = "Stops listening to messages posted to shard channels.",
     .args = "[shardchannel [shardchannel ...]]"},
    {.name = "publish", .fn = publish_command, .arity = 3, .class = CLASS_LOCAL, .flags = PUBLISHER,
     .group = "pubsub", .since = "2.0.0", .summary = "Posts a message to a channel.", .args = "channel message"},
    {.name = "spublish", .fn = spublish_command, .arity = 3, .class = CLASS_LOCAL, .flags = PUBLISHER,
     .group = "pubsub", .since = "7.0.0", .summary = "Posts a message to a shard channel.", .args = "shardchannel message"},
    {.name = "pubsub", .fn = pubsub_command, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_PUBSUB | CMD_LOADING | CMD_STALE, .subs = pubsub_subs,
     .group = "pubsub", .since = "2.8.0", .summary = "A container for Pub/Sub commands.",
     .args = "CHANNELS [pattern] | NUMPAT | NUMSUB [channel ...] | SHARDCHANNELS [pattern] | SHARDNUMSUB [shardchannel ...] | HELP"},
};

const struct command_family subscribe_family = COMMAND_FAMILY(rows);
