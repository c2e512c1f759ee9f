#include "cluster/links.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cluster/linkconn.h"
#include "cluster/linklanes.h"
#include "io/dial.h"

enum {
    OUT_MAX = 64 * 1024 * 1024,
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 1000,
    SILENCE_MS = 3000,
    PINGS_IN_SILENCE = 3,
    CALLERS_MAX = 64, /* that have not greeted yet */
    BACKLOG = 128,
    RESOLVE_LOOK_MS = 5,
    REFUSALS_TOLD_MS = 1000, /* at most one line about callers in this time */
};

static uint32_t ping_ms(const struct links *l) { return l->options.silence_ms / PINGS_IN_SILENCE; }

static struct linkpeer *find(const struct links *l, uint64_t node)
{
    for (uint32_t i = 0; i < l->n_peers; i++)
        if (l->peers[i]->node == node) return l->peers[i];
    return NULL;
}

/* ---- what the log says */

/* Of a peer nothing is said twice in a row: it may be away for days. */
static void tell(struct links *l, struct linkpeer *p, enum slog_level level, const char *what, const char *why)
{
    if (p->told == why) return;
    p->told = why;
    slog(l->options.log, level, what, "node=%llu address=%s reason=%s", (unsigned long long)p->node, p->address, why);
}

static void remote_name(int fd, char out[NI_MAXHOST + NI_MAXSERV + 4])
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    snprintf(out, 8, "?");
    if (getpeername(fd, (struct sockaddr *)&a, &n) < 0) return;
    if (getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV)) return;
    snprintf(out, NI_MAXHOST + NI_MAXSERV + 4, a.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* A caller was turned away. Anybody can call, as often as he likes: the lines are rationed. */
static void tell_refusal(struct links *l, const struct linkconn *c, const struct wire_hello *hello, const char *why)
{
    char remote[NI_MAXHOST + NI_MAXSERV + 4];
    l->refused++;
    if (l->told_refusal_at && l->now - l->told_refusal_at < REFUSALS_TOLD_MS) {
        l->untold++;
        return;
    }
    remote_name(c->stream.fd, remote);
    slog(l->options.log, SLOG_WARNING, "a caller of the cluster port was turned away", "from=%s node=%llu address=%s reason=%s others_untold=%llu", remote,
         hello ? (unsigned long long)hello->node : 0, hello ? hello->address : "", why, (unsigned long long)l->untold);
    l->told_refusal_at = l->now ? l->now : 1;
    l->untold = 0;
}

/* ---- peers */

static struct linkpeer *add_peer(struct links *l, uint64_t node)
{
    struct linkpeer *p = mem_zalloc(sizeof *p);
    p->node = node;
    p->retry_ms = l->options.retry_min_ms;
    if (l->n_peers == l->peers_room) {
        l->peers_room = l->peers_room ? l->peers_room * 2 : 8;
        l->peers = mem_resize(l->peers, l->peers_room * sizeof *l->peers);
    }
    return l->peers[l->n_peers++] = p;
}

static void free_peer(struct links *l, struct linkpeer *p)
{
    if (p->out) linkconn_close(p->out);
    if (p->in) linkconn_close(p->in);
    resolve_free(p->resolve);
    buf_fini(&p->queue);
    for (uint32_t i = 0; i < l->n_peers; i++)
        if (l->peers[i] == p) l->peers[i] = l->peers[--l->n_peers];
    mem_free(p);
}

/* The pause before the next attempt: half of it is chance, so that nodes that lost each other at once do not come back at once. */
static void wait_a_while(struct links *l, struct linkpeer *p)
{
    p->state = LINKS_WAITING;
    p->retry_at = l->now + p->retry_ms / 2 + rng_below(&l->rng, p->retry_ms / 2 + 1);
    p->retry_ms = p->retry_ms * 2 < l->options.retry_max_ms ? p->retry_ms * 2 : l->options.retry_max_ms;
}

static void cannot_reach(struct links *l, struct linkpeer *p, int error)
{
    p->stats.error = error;
    tell(l, p, SLOG_NOTICE, "cannot reach a node", err_text(error));
    wait_a_while(l, p);
}

/* It is there again, as its own call shows: our next attempt need not wait. */
static void hurry(struct links *l, struct linkpeer *p)
{
    uint64_t soon = l->now + rng_below(&l->rng, l->options.retry_min_ms);
    if (p->state == LINKS_WAITING && p->retry_at > soon) p->retry_at = soon;
}

void links_peer_put(struct links *l, uint64_t node, const char *address)
{
    struct linkpeer *p = find(l, node);
    CHECK(node && node != l->options.node && strlen(address) <= WIRE_ADDRESS_MAX);
    if (!p) p = add_peer(l, node);
    if (strcmp(p->address, address) == 0) return;
    memcpy(p->address, address, strlen(address) + 1);
    resolve_free(p->resolve);
    p->resolve = NULL;
    if (p->out) links_lost(l, p->out, 0, "its address has changed");
    p->state = LINKS_WAITING;
    p->retry_ms = l->options.retry_min_ms;
    p->retry_at = l->now;
}

void links_peer_del(struct links *l, uint64_t node)
{
    struct linkpeer *p = find(l, node);
    if (p) free_peer(l, p);
}

uint32_t links_peers(const struct links *l, uint64_t *out, uint32_t max)
{
    for (uint32_t i = 0; i < l->n_peers && i < max; i++) out[i] = l->peers[i]->node;
    return l->n_peers;
}

static size_t queued_for(const struct linkpeer *p) { return p->queue.len + (p->out ? stream_unsent(&p->out->stream) : 0); }

bool links_stats(const struct links *l, uint64_t node, struct links_stats *out)
{
    const struct linkpeer *p = find(l, node);
    if (!p) return false;
    *out = p->stats;
    out->state = p->state;
    out->in = p->in != NULL;
    out->incarnation = p->known.incarnation;
    out->queued = queued_for(p);
    memcpy(out->address, p->address, sizeof out->address);
    return true;
}

void links_totals(const struct links *l, struct links_totals *out) { *out = (struct links_totals){.refused = l->refused, .unproven = l->unproven, .callers = l->callers}; }

void links_hello(const struct links *l, uint64_t to, struct wire_hello *out)
{
    const struct links_options *o = &l->options;
    *out = (struct wire_hello){.version = WIRE_VERSION, .node = o->node, .to = to, .incarnation = o->incarnation, .lanes = o->lanes};
    memcpy(out->cluster, o->cluster, WIRE_CLUSTER_ID);
    memcpy(out->address, l->address, sizeof out->address);
    linkgreet_guard(out, o->secret.n);
}

bool links_lanes(const struct links *l, uint64_t node, struct links_lanes *out)
{
    const struct linkpeer *p = find(l, node);
    if (!p || p->state != LINKS_UP || p->known.version < WIRE_VERSION_LANES || !p->known.lanes || !l->options.lanes) return false;
    *out = (struct links_lanes){.lanes = p->known.lanes, .secret = l->options.secret, .known = p->known, .to.n = sizeof out->to.a};
    links_hello(l, node, &out->greeting);
    return getpeername(p->out->stream.fd, (struct sockaddr *)&out->to.a, &out->to.n) == 0;
}

/* ---- our connection to a peer */

/* The greeting is sent ahead: it leaves when the connection is there. */
static void connect_to(struct links *l, struct linkpeer *p, const struct resolve_address *to)
{
    int fd = dial_begin(to, l->options.silence_ms);
    if (fd < 0) {
        cannot_reach(l, p, fd);
        return;
    }
    p->state = LINKS_CONNECTING;
    p->out = linkconn_open(l, fd, LINKS_OUT, p);
    linkconn_call(p->out);
}

static void look_up(struct links *l, struct linkpeer *p)
{
    struct resolve_address to;
    int rc = resolve_look(p->resolve, &to);
    if (rc == 0) return;
    resolve_free(p->resolve);
    p->resolve = NULL;
    if (rc < 0) cannot_reach(l, p, rc);
    else connect_to(l, p, &to);
}

static void ping(struct links *l, struct linkpeer *p)
{
    p->ping_token = (uint64_t)clock_mono_us();
    p->ping_at = l->now + ping_ms(l);
    wire_add_ping(&p->queue, WIRE_PING, p->ping_token);
}

static void step(struct links *l, struct linkpeer *p)
{
    if (p->state == LINKS_WAITING && p->address[0] && l->now >= p->retry_at) {
        p->resolve = resolve_new(p->address);
        p->state = LINKS_RESOLVING;
    }
    if (p->state == LINKS_RESOLVING) look_up(l, p);
    if (p->state == LINKS_UP && l->now >= p->ping_at) ping(l, p);
}

/* ---- greetings */

static void out_is_up(struct links *l, struct linkconn *c, const struct wire_hello *hello)
{
    struct linkpeer *p = c->peer;
    linkgreet_remember(&p->known, hello);
    c->phase = LINKCONN_UP;
    p->state = LINKS_UP;
    p->up_at = l->now;
    p->ping_at = l->now + ping_ms(l);
    p->told = NULL;
    p->stats.error = 0;
    p->stats.connects++;
    slog(l->options.log, SLOG_NOTICE, "connected to a node", "node=%llu address=%s incarnation=%llu", (unsigned long long)p->node, p->address,
         (unsigned long long)hello->incarnation);
    l->calls.on_up(l->calls.ctx, p->node, LINKS_OUT);
}

static void in_is_up(struct links *l, struct linkconn *c, struct linkpeer *p, const struct wire_hello *hello)
{
    bool new_run = p->known.incarnation && hello->incarnation > p->known.incarnation;
    struct linkconn *old = p->in;
    linkgreet_remember(&p->known, hello);
    l->callers--;
    c->phase = LINKCONN_UP;
    c->peer = p;
    p->in = c;
    p->stats.accepts++;
    if (old) links_lost(l, old, 0, "it has connected anew");
    if (new_run && p->out) links_lost(l, p->out, 0, "it was started anew");
    linkconn_greet(c, hello->node);
    slog(l->options.log, SLOG_VERBOSE, "a node has connected", "node=%llu address=%s incarnation=%llu", (unsigned long long)p->node, hello->address,
         (unsigned long long)hello->incarnation);
    hurry(l, p);
    l->calls.on_up(l->calls.ctx, p->node, LINKS_IN);
}

/* Neither a peer where we know it to be: the owner decides. Gives the peer that the caller is from now on. */
static struct linkpeer *admit(struct links *l, struct linkpeer *p, const struct wire_hello *hello)
{
    if (l->calls.on_stranger ? !l->calls.on_stranger(l->calls.ctx, hello) : !p) return NULL;
    p = find(l, hello->node);
    return p ? p : add_peer(l, hello->node);
}

/* A lane is for a peer whose connection is there: with that one it ends. */
static bool takes_lane(const struct links *l, uint64_t peer, uint64_t incarnation)
{
    const struct linkpeer *p = find(l, peer);
    return l->options.lanes && p && p->in && p->known.incarnation == incarnation;
}

static void turn_away(struct links *l, struct linkconn *c, const struct wire_hello *hello, enum linkgreet verdict)
{
    if (verdict == LINKGREET_NO_LANE) l->refused++; /* it was on its way when its node's connection broke, or this node stops */
    else tell_refusal(l, c, hello, linkgreet_text(verdict));
    l->unproven += linkgreet_is_of_secret(verdict);
    l->callers--;
    linkconn_greet(c, 0); /* so that its log says something too */
    linkconn_leave(c);
}

static void lane_greeted(struct links *l, struct linkconn *c, const struct wire_hello *hello, enum linkgreet verdict)
{
    if (verdict == LINKGREET_WELCOME && !takes_lane(l, hello->node, hello->incarnation)) verdict = LINKGREET_NO_LANE;
    if (verdict != LINKGREET_WELCOME) {
        turn_away(l, c, hello, verdict);
        return;
    }
    l->callers--;
    linkconn_hand_over(c, hello);
}

/* It has proven what it has to. */
static void caller_greeted(struct links *l, struct linkconn *c, const struct wire_hello *hello)
{
    struct wire_hello mine;
    struct linkpeer *p = find(l, hello->node);
    links_hello(l, hello->node, &mine);
    enum linkgreet verdict = linkgreet_caller(&mine, hello, p ? &p->known : NULL);
    if (hello->lane) {
        lane_greeted(l, c, hello, verdict);
        return;
    }
    bool elsewhere = verdict == LINKGREET_WELCOME && p->address[0] && strcmp(p->address, hello->address) != 0;
    if (verdict == LINKGREET_STRANGER || elsewhere) {
        p = admit(l, p, hello);
        verdict = p ? LINKGREET_WELCOME : LINKGREET_STRANGER;
    }
    if (verdict == LINKGREET_WELCOME) in_is_up(l, c, p, hello);
    else turn_away(l, c, hello, verdict);
}

static void called_greeted(struct links *l, struct linkconn *c, const struct wire_hello *hello)
{
    enum linkgreet verdict = linkcaller_judge(&c->call, hello, c->peer->node, &c->peer->known);
    l->unproven += linkgreet_is_of_secret(verdict);
    if (verdict == LINKGREET_WELCOME) out_is_up(l, c, hello);
    else links_lost(l, c, -ECONNREFUSED, linkgreet_text(verdict));
}

void links_greeted(struct links *l, struct linkconn *c, const struct wire_hello *hello)
{
    struct wire_hello mine;
    if (c->way == LINKS_OUT) {
        called_greeted(l, c, hello);
        return;
    }
    links_hello(l, hello->node, &mine);
    enum linkgreet verdict = linkgreet_language(&mine, hello);
    if (verdict != LINKGREET_WELCOME) turn_away(l, c, hello, verdict);
    else if (mine.guarded) linkconn_challenge(c, hello);
    else caller_greeted(l, c, hello);
}

void links_proven(struct links *l, struct linkconn *c)
{
    if (c->proven) caller_greeted(l, c, &c->theirs);
    else turn_away(l, c, &c->theirs, LINKGREET_OTHER_SECRET);
}

/* ---- ends */

static void out_is_lost(struct links *l, struct linkconn *c, int error, const char *why)
{
    struct linkpeer *p = c->peer;
    bool was_up = c->phase == LINKCONN_UP;
    p->out = NULL;
    p->stats.error = error;
    p->stats.dropped += wire_count(buf_slice(&p->queue));
    buf_fini(&p->queue);
    linkconn_close(c);
    tell(l, p, was_up ? SLOG_NOTICE : SLOG_WARNING, was_up ? "the connection to a node is lost" : "cannot reach a node", why);
    if (was_up && l->now - p->up_at >= l->options.retry_max_ms) p->retry_ms = l->options.retry_min_ms;
    wait_a_while(l, p);
    if (was_up) l->calls.on_down(l->calls.ctx, p->node, LINKS_OUT);
}

/* A guest, who is known by no address, is forgotten with its last connection. */
static void in_is_lost(struct links *l, struct linkconn *c, int error, const char *why)
{
    struct linkpeer *p = c->peer;
    if (p->in == c) p->in = NULL;
    linkconn_close(c);
    /* Nodes come and go; one that speaks nonsense is worth a look. */
    slog(l->options.log, error == -EPROTO ? SLOG_WARNING : SLOG_VERBOSE, "a node is not connected any more", "node=%llu address=%s reason=%s", (unsigned long long)p->node, p->address, why);
    l->calls.on_down(l->calls.ctx, p->node, LINKS_IN);
    if (!p->in && !p->address[0]) free_peer(l, p);
}

void links_lost(struct links *l, struct linkconn *c, int error, const char *why)
{
    if (!error && c->phase < LINKCONN_UP) error = -ECONNREFUSED; /* closed before a word was said */
    if (!why) why = error ? err_text(error) : "it has closed the connection";
    if (c->phase >= LINKCONN_LEAVING) {
        linkconn_close(c);
    } else if (c->way == LINKS_OUT) {
        out_is_lost(l, c, error, why);
    } else if (c->peer) {
        in_is_lost(l, c, error, why);
    } else {
        tell_refusal(l, c, NULL, why);
        l->callers--;
        linkconn_close(c);
    }
}

void links_secret(struct links *l, const struct linksecret *secret)
{
    if (linksecret_same(&l->options.secret, secret)) return;
    l->options.secret = *secret;
    for (struct linkconn *c = l->conns; c; c = c->next)
        if (c->phase < LINKCONN_LEAVING) links_lost(l, c, 0, "the secret of this node has changed");
}

/* ---- the event loop */

static void on_accept(void *ctx, int tag, int fd)
{
    struct links *l = ctx;
    int on = 1;
    if (l->ending || l->callers >= CALLERS_MAX) {
        l->refused++;
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    l->callers++;
    linkconn_open(l, fd, LINKS_IN, NULL);
}

static void on_data(void *ctx, struct stream *s, struct chunk *chunk, char *p, size_t n) { linkconn_data(s->owner, slice_of(p, n)); }

static void on_end(void *ctx, struct stream *s, int error) { links_lost(ctx, s->owner, error, NULL); }

static bool on_drained(void *ctx, struct stream *s)
{
    struct linkconn *c = s->owner;
    linkconn_drained(c);
    return c->phase >= LINKCONN_HANDED || (c->peer && c->peer->out == c && c->peer->queue.len); /* which waits to be flushed */
}

static void hand_over(struct links *l, const struct linkconn *c)
{
    struct buf greeting = {0};
    if (!takes_lane(l, c->lane_of, c->lane_run)) { /* the owner has been told that it is down, and would keep the lane for ever */
        l->refused++;
        close(c->stream.fd);
        return;
    }
    linkconn_answer(c, c->lane_of, &greeting);
    l->calls.on_lane(l->calls.ctx, c->lane_of, c->lane, c->stream.fd, buf_slice(&greeting));
    buf_fini(&greeting);
}

static void on_closed(void *ctx, struct stream *s)
{
    const struct linkconn *c = s->owner;
    if (c->phase == LINKCONN_HANDED) hand_over(ctx, c);
    else if (s->released) close(s->fd);
    linkconn_free(s->owner);
}

static const struct loop_handler handler = {on_accept, on_data, on_end, on_drained, on_closed};

/* ---- life */

static void fill_in(struct links_options *o)
{
    if (!o->out_max) o->out_max = OUT_MAX;
    if (!o->retry_min_ms) o->retry_min_ms = RETRY_MIN_MS;
    if (!o->retry_max_ms) o->retry_max_ms = RETRY_MAX_MS;
    if (!o->silence_ms) o->silence_ms = SILENCE_MS;
}

struct links *links_new(const struct links_options *options, const struct links_calls *calls, char error[128])
{
    CHECK(options->node && options->incarnation && strlen(options->address) <= WIRE_ADDRESS_MAX);
    struct links *l = mem_zalloc(sizeof *l);
    l->options = *options;
    fill_in(&l->options);
    memcpy(l->address, options->address, strlen(options->address) + 1);
    l->calls = *calls;
    l->now = options->now;
    rng_init(&l->rng, options->seed);
    l->loop = loop_new(options->backend, options->wake_fd, &handler, l, error);
    if (l->loop) return l;
    mem_free(l);
    return NULL;
}

void links_free(struct links *l)
{
    if (!l) return;
    l->ending = true;
    loop_stop_listening(l->loop);
    while (l->n_peers) free_peer(l, l->peers[0]);
    for (struct linkconn *c = l->conns; c; c = c->next) linkconn_close(c);
    loop_turn(l->loop, 0); /* listeners are let go of by a turn, too: their ports are free then */
    while (l->conns) loop_turn(l->loop, 1);
    loop_free(l->loop);
    mem_free(l->peers);
    mem_free(l);
}

static int open_listener(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = -errno;
    close(fd);
    return error;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0) return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

int links_listen(struct links *l, const char *address)
{
    char host[DIAL_HOST_MAX];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    if (!dial_split(address, host, &port)) return -EINVAL;
    if (getaddrinfo(strcmp(host, "*") == 0 ? "0.0.0.0" : host, port, &hints, &found)) return -EADDRNOTAVAIL;
    int fd = open_listener(found);
    freeaddrinfo(found);
    if (fd < 0) return fd;
    l->port = port_of(fd);
    loop_listen(l->loop, fd, 0);
    return 0;
}

uint16_t links_port(const struct links *l) { return l->port; }

/* ---- frames that go out */

/* n frames; false: dropped. */
static bool queue(struct linkpeer *p, struct slice frames, uint32_t n, size_t queued_max)
{
    size_t queued = queued_for(p);
    bool slow = queued && queued + frames.n > queued_max;
    if (p->state != LINKS_UP || slow) {
        p->stats.dropped += n;
        if (p->state == LINKS_UP) p->stats.dropped_slow += n;
        return false;
    }
    buf_add_slice(&p->queue, frames);
    p->stats.frames_out += n;
    p->stats.bytes_out += frames.n;
    return true;
}

bool links_send(struct links *l, uint64_t peer, struct slice frames)
{
    struct linkpeer *p = find(l, peer);
    return p && frames.n && queue(p, frames, wire_count(frames), l->options.out_max);
}

uint64_t links_spread(struct links *l, struct slice frames, uint16_t version, size_t queued_max, uint64_t *dropped)
{
    uint32_t n = wire_count(frames);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < l->n_peers; i++) {
        struct linkpeer *p = l->peers[i];
        if (p->state != LINKS_UP || p->known.version < version) continue;
        if (queue(p, frames, n, queued_max)) sent += n;
        else *dropped += n;
    }
    return sent;
}

void links_flush(struct links *l)
{
    for (uint32_t i = 0; i < l->n_peers; i++) {
        struct linkpeer *p = l->peers[i];
        if (p->state != LINKS_UP || !p->queue.len || stream_unsent(&p->out->stream)) continue;
        stream_send(l->loop, &p->out->stream, &p->queue);
    }
}

void links_push(struct links *l) { loop_submit(l->loop); }

/* ---- turns */

int links_turn(struct links *l, int timeout_ms) { return loop_turn(l->loop, timeout_ms); }

static void listen_to_silence(struct links *l, struct linkconn *c)
{
    if (c->phase >= LINKCONN_HANDED || !linkconn_silent(c)) return;
    links_lost(l, c, -ETIMEDOUT, c->phase < LINKCONN_UP ? "it has not greeted in time" : "it has been silent for too long");
}

void links_tick(struct links *l, uint64_t now_ms)
{
    uint64_t passed = now_ms > l->now ? now_ms - l->now : 0;
    l->now += passed;
    l->awake_ms += passed < ping_ms(l) ? passed : ping_ms(l);
    loop_listen_again(l->loop);
    for (struct linkconn *c = l->conns; c; c = c->next) listen_to_silence(l, c);
    for (uint32_t i = 0; i < l->n_peers; i++) step(l, l->peers[i]);
}

uint64_t links_next(const struct links *l)
{
    uint64_t next = l->conns ? l->now + ping_ms(l) : UINT64_MAX;
    for (uint32_t i = 0; i < l->n_peers; i++) {
        const struct linkpeer *p = l->peers[i];
        uint64_t at = UINT64_MAX;
        if (p->state == LINKS_WAITING && p->address[0]) at = p->retry_at;
        else if (p->state == LINKS_RESOLVING) at = l->now + RESOLVE_LOOK_MS;
        else if (p->state == LINKS_UP) at = p->ping_at;
        if (at < next) next = at;
    }
    return next;
}
