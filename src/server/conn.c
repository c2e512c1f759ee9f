#include "server/conn.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/mem.h"
#include "server/admit.h"
#include "server/conn_own.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/snapcmd.h"
#include "server/subscribe.h"
#include "server/transactions.h"
#include "server/wide.h"
#include "shard/dumper.h"
#include "shard/journal.h"

enum {
    BATCH_MAX = 1024,             /* requests parsed at once */
    BUSY_INPUT_MAX = 1024 * 1024, /* taken from a connection that cannot go on before its socket is left alone */
    KEEP_INPUT_MAX = 64 * 1024,   /* an input buffer larger than this is not kept when empty */
    LOOK_AT_LIMITS = 64 * 1024,   /* unsent bytes from which on the output limits are looked at after each flush */
    OUTPUT_SLICE = 256 * 1024,    /* answers made in one turn before they are sent and other connections are served */
};

static struct server *server_of(const struct conn *c) { return c->front->server; }

/* ---- life */

static void name_side(struct conn *c, char to[64], const struct sockaddr_storage *a)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof ip);
        snprintf(to, 64, "%s:%d", ip, ntohs(in->sin_port));
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;
        inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof ip);
        snprintf(to, 64, "[%s]:%d", ip, ntohs(in->sin6_port));
    } else {
        snprintf(to, 64, "%.60s:0", server_of(c)->config->unixsocket);
    }
}

static void note_addresses(struct conn *c, int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    getpeername(fd, (struct sockaddr *)&a, &n);
    name_side(c, c->peer, &a);
    n = sizeof a;
    getsockname(fd, (struct sockaddr *)&a, &n);
    name_side(c, c->local, &a);
}

static void set_options(struct conn *c, int fd)
{
    if (c->is_unix) return;
    int on = 1, idle = (int)CONFIG_NUM(server_of(c)->config, tcp_keepalive_s);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (idle <= 0) return;
    int interval = idle / 3 > 0 ? idle / 3 : 1, count = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

struct conn *conn_new(struct front *f, int fd, bool is_unix)
{
    struct conn *c = mem_zalloc(sizeof *c);
    c->front = f;
    c->id = atomic_fetch_add(&f->server->next_client_id, 1) + 1;
    c->resp = 2;
    c->timer = -1;
    c->is_unix = is_unix;
    c->since_ms = c->active_ms = f->worker.mono_ms;
    c->authenticated = !CONFIG_NUM(f->server->config, has_password);
    parse_init(&c->parser);
    note_addresses(c, fd);
    set_options(c, fd);
    pthread_mutex_lock(&f->lock);
    c->next = f->conns;
    if (c->next) c->next->prev = c;
    f->conns = c;
    f->n_conns++;
    pthread_mutex_unlock(&f->lock);
    f->n_unfreed++;
    stream_open(f->loop, &c->stream, fd, c);
    return c;
}

static void unlink_conn(struct conn *c)
{
    struct front *f = c->front;
    pthread_mutex_lock(&f->lock);
    if (f->cron_at == c) f->cron_at = c->next;
    if (c->prev) c->prev->next = c->next;
    else f->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    f->n_conns--;
    pthread_mutex_unlock(&f->lock);
}

bool conn_idle(const struct conn *c) { return !c->away && !c->waiter && !c->batch && !c->held && !stream_unsent(&c->stream); }

void conn_close(struct conn *c)
{
    struct front *f = c->front;
    c->closing = true;
    if (c->stream.closed) return;
    if (unlikely(c->wave != NULL)) relay_forget(c);
    if (unlikely(c->wait != NULL)) relay_wait_forget(c);
    if (c->away || c->ready) { /* its task comes home, or its turn comes, first */
        stream_read(f->loop, &c->stream, false);
        return;
    }
    if (c->waiter && !conn_cancel_wait(c)) { /* being served right now */
        front_set_timer(f, c, f->worker.mono_ms + 1);
        return;
    }
    front_set_timer(f, c, 0);
    front_unhold(f, c);
    transactions_unwatch(c);
    subscribe_drop(c);
    unlink_conn(c);
    stream_close(f->loop, &c->stream);
}

void conn_freed(struct conn *c)
{
    struct server *s = server_of(c);
    transactions_reset(c);
    snapcmd_end_export(c);
    c->front->n_unfreed--;
    if (c->batch) front_batch_put(c->front, c->batch);
    parse_fini(&c->parser);
    buf_fini(&c->in);
    buf_fini(&c->out);
    buf_fini(&c->pushes);
    mem_free(c->protocol_error);
    mem_free(c->name);
    mem_free(c->lib_name);
    mem_free(c->lib_ver);
    mem_free(c);
    atomic_fetch_sub(&s->connections, 1);
}

/* ---- bytes in */

static void prefetch(const struct conn *c, const struct task *t, const struct request *r)
{
    const struct engine *e = c->front->worker.engine;
    if (r->have_hash) store_prefetch(e->stores[r->shard], c->db, r->hash);
    for (uint32_t i = 0; i < r->n_hashes && !route_map(&e->route); i++) {
        uint64_t hash = t->hashes[r->first_hash + i];
        store_prefetch(e->stores[route_shard(&e->route, hash)], c->db, hash);
    }
}

/* Pipelines repeat themselves: the name of the last command found is looked at first. */
static const struct command *find_command(struct front *f, struct slice name)
{
    if (likely(name.n == f->last_name_len && memcmp(name.p, f->last_name, name.n) == 0)) return f->last_command;
    const struct command *cmd = command_find(f->worker.engine->commands, name);
    if (cmd && name.n <= sizeof f->last_name) {
        memcpy(f->last_name, name.p, name.n);
        f->last_name_len = (uint32_t)name.n;
        f->last_command = cmd;
    }
    return cmd;
}

static void add_request(struct conn *c, struct task *t, const struct slice *argv, uint32_t argc)
{
    struct engine *e = c->front->worker.engine;
    const struct command *cmd = find_command(c->front, argv[0]);
    if (likely(cmd && command_arity_ok(cmd, argc))) {
        struct request *r = task_add(t, e, cmd, argv, argc);
        prefetch(c, t, r);
        return;
    }
    struct request *r = task_add(t, e, NULL, argv, argc);
    r->flaw = cmd ? ADMIT_FLAW_ARITY : ADMIT_FLAW_UNKNOWN;
    r->cmd = cmd;
}

/* Parses requests from p[0..n) into the batch; gives the bytes used. */
static size_t parse_into(struct conn *c, struct batch *b, char *p, size_t n)
{
    struct front *f = c->front;
    struct parse_limits limits = admit_limits(c);
    size_t done = 0;
    while (done < n && b->task.n_requests < BATCH_MAX) {
        size_t used;
        uint32_t argc;
        enum parse_result r = parse_request(&c->parser, &limits, p + done, n - done, &used, &f->argv, &f->argv_cap, &argc);
        if (r == PARSE_MORE) break;
        if (r == PARSE_ERROR) {
            c->protocol_error = mem_strdup(c->parser.error);
            return n;
        }
        if (argc) add_request(c, &b->task, f->argv, argc);
        done += used;
        if (!c->authenticated && b->task.n_requests) break; /* AUTH changes the limits for what follows */
    }
    return done;
}

static void came_home(struct worker *w, struct task *t);

static struct batch *open_batch(struct conn *c)
{
    struct batch *b = front_batch(c->front);
    b->task.home = c->front->worker.id;
    b->task.session = c;
    b->task.served = conn_served;
    return b;
}

static bool worth_running(const struct conn *c, const struct batch *b) { return b->task.n_requests || c->protocol_error; }

/* Makes a batch of what is in c->in. The batch takes the buffer, the unfinished rest stays with the connection. */
static bool parse_kept(struct conn *c)
{
    if (!c->in.len || c->protocol_error) return false;
    struct batch *b = open_batch(c);
    size_t used = parse_into(c, b, c->in.p, c->in.len);
    if (!worth_running(c, b)) {
        if (used) { /* empty lines only */
            memmove(c->in.p, c->in.p + used, c->in.len - used);
            c->in.len -= used;
        }
        front_batch_put(c->front, b);
        return false;
    }
    struct buf rest = {0};
    if (used < c->in.len) buf_add(&rest, c->in.p + used, c->in.len - used);
    b->bytes = c->in;
    c->in = rest;
    c->batch = b;
    return true;
}

/* Makes a batch of bytes that just came: they stay where they are, only an unfinished rest is copied. */
static bool parse_fresh(struct conn *c, struct chunk *chunk, char *p, size_t n)
{
    struct batch *b = open_batch(c);
    size_t used = parse_into(c, b, p, n);
    if (used < n) {
        size_t wants = parse_wants(&c->parser, n - used);
        buf_room(&c->in, n - used + (wants < BUSY_INPUT_MAX ? wants : BUSY_INPUT_MAX));
        buf_add(&c->in, p + used, n - used);
    }
    if (!worth_running(c, b)) {
        front_batch_put(c->front, b);
        return false;
    }
    chunk_ref(chunk);
    b->chunk = chunk;
    c->batch = b;
    return true;
}

static bool over_query_limit(struct conn *c)
{
    if (likely(c->in.len <= (size_t)CONFIG_NUM(server_of(c)->config, client_query_buffer_limit))) return false;
    slog(&server_of(c)->log, SLOG_WARNING, "query buffer limit reached, client closed", "id=%llu bytes=%zu",
         (unsigned long long)c->id, c->in.len);
    atomic_fetch_add(&server_of(c)->connections_closed_by_query, 1);
    return true;
}

void conn_data(struct conn *c, struct chunk *chunk, char *p, size_t n)
{
    struct front *f = c->front;
    if (c->closing || c->close_after_reply || c->protocol_error) return;
    STAT_ADD(c->bytes_in, n);
    __atomic_store_n(&c->active_ms, f->worker.mono_ms, __ATOMIC_RELAXED);
    bool ready, busy = c->batch || c->away || c->waiter || c->paused || c->held;
    if (likely(!busy && !c->in.len)) {
        ready = parse_fresh(c, chunk, p, n);
    } else {
        buf_add(&c->in, p, n);
        if (unlikely(over_query_limit(c))) {
            conn_close(c);
            return;
        }
        if (busy && c->in.len > BUSY_INPUT_MAX) stream_read(f->loop, &c->stream, false);
        ready = !busy && parse_kept(c);
    }
    if (ready) front_ready(f, c);
}

static bool is_in_line(const struct conn *c) { return atomic_load_explicit(&c->waits, memory_order_relaxed); }

/* Everything asked for is answered and sent: nothing keeps a connection that is to close. */
static void close_if_done(struct conn *c)
{
    if (c->away || c->ready || c->stream.closed || stream_unsent(&c->stream)) return;
    if (c->close_after_reply || c->closing || (c->ended && !c->batch && !c->waiter)) conn_close(c);
}

void conn_ended(struct conn *c, int error)
{
    c->ended = true;
    /* A client that closed its side after a pipeline still gets its answers; one that waits for a key is gone. */
    if (error < 0 || c->waiter || is_in_line(c)) conn_close(c);
    else close_if_done(c);
}

/* ---- requests */

static void finish_batch(struct conn *c)
{
    front_batch_put(c->front, c->batch);
    c->batch = NULL;
    if (c->in.len == 0 && c->in.cap > KEEP_INPUT_MAX) buf_fini(&c->in);
}

/* A connection that can go on reads, however much it has kept: it may all be one request, whose rest is still to come. */
static void read_again(struct conn *c)
{
    if (!c->stream.reading && !c->ended && !c->closing && !c->batch && !c->waiter && !c->paused) stream_read(c->front->loop, &c->stream, true);
}

/* All requests of the batch have run, or one of them, the last, waits. A batch holds memory of the loop, so it does not wait along. */
static bool is_used_up(const struct conn *c)
{
    return c->batch && c->batch->task.pos == c->batch->task.n_requests && !(c->waiter && c->protocol_error);
}

/* Confirmations of subscriptions are messages, not replies. */
static bool answers_by_message(const struct command *cmd) { return (cmd->flags & (CMD_PUBSUB | CMD_IN_SUBSCRIBE)) == (CMD_PUBSUB | CMD_IN_SUBSCRIBE); }

void conn_settle_reply(struct conn *c, const struct command *cmd, size_t from)
{
    if (likely(c->reply_mode == REPLY_ON)) return;
    if (c->reply_mode != REPLY_SKIP_NEXT && !(cmd && answers_by_message(cmd))) c->out.len = from;
    if (c->reply_mode == REPLY_SKIP) c->reply_mode = REPLY_ON;
    else if (c->reply_mode == REPLY_SKIP_NEXT) c->reply_mode = REPLY_SKIP;
}

void conn_note_epoch(struct conn *c, const struct task *t)
{
    if (t->epoch > c->epoch) c->epoch = t->epoch;
    if (t->seen > c->seen) c->seen = t->seen;
}

void conn_prepare_task(struct conn *c, uint32_t end)
{
    struct task *t = &c->batch->task;
    t->end = end;
    t->finish = came_home;
    t->db = c->db;
    t->resp = c->resp;
    t->no_touch = c->no_touch;
    t->stale = c->stale;
    t->out = &c->out;
    t->out_max = c->out.len + OUTPUT_SLICE;
}

/* Runs requests [pos, end) of the batch. False: the task is away. */
static bool run_task(struct conn *c, uint32_t end)
{
    struct task *t = &c->batch->task;
    conn_prepare_task(c, end);
    c->away = true;
    if (!task_start(&c->front->worker, t) || unlikely(c->errand)) return false;
    c->away = false;
    conn_note_epoch(c, t);
    if (unlikely(t->blocked)) conn_start_waiting(c, t->blocked);
    return true;
}

static void take_pushes(struct conn *c)
{
    buf_add(&c->out, c->pushes.p, c->pushes.len);
    c->pushes.len = 0;
}

static void came_home(struct worker *w, struct task *t)
{
    struct conn *c = t->session;
    c->away = false;
    if (t->blocked) conn_start_waiting(c, t->blocked);
    if (!c->waiter) conn_settle_reply(c, NULL, c->reply_from);
    conn_note_epoch(c, t);
    take_pushes(c);
    if (c->closing) conn_close(c);
    else front_ready(front_of(w), c);
}

/* What it was away for is answered. */
static void come_back(struct conn *c)
{
    c->away = false;
    conn_settle_reply(c, NULL, c->reply_from);
    take_pushes(c);
    if (c->closing) conn_close(c);
    else front_ready(c->front, c);
}

void conn_errand_done(struct conn *c, struct slice answer)
{
    c->errand = false;
    buf_add_slice(&c->out, answer);
    come_back(c);
}

void conn_wave_over(struct conn *c) { come_back(c); }

/* How many requests from pos on can go as one task: all that are plainly admitted. 0: the first was answered, or must wait. */
static uint32_t admitted_run(struct conn *c, bool *wait)
{
    struct task *t = &c->batch->task;
    uint32_t i = t->pos;
    for (; i < t->n_requests; i++) {
        bool first = i == t->pos;
        enum admit_result a = admit_request(c, &t->requests[i], first);
        if (likely(a == ADMIT_RUN)) continue;
        if (first) {
            *wait = a == ADMIT_WAIT;
            return a == ADMIT_RUN_ALONE;
        }
        break;
    }
    return i - t->pos;
}

static bool goes_alone(const struct conn *c, uint32_t request) { return wide_wants(c, request) || relay_wait_wants(c, request); }

/* In a cluster: of n requests from pos on, how many go the way of the first: by relay, here, or alone. */
static uint32_t one_way(const struct conn *c, uint32_t n)
{
    uint32_t pos = c->batch->task.pos, i = 1;
    if (goes_alone(c, pos)) return 1;
    bool by_relay = relay_wants(c, pos);
    while (i < n && relay_wants(c, pos + i) == by_relay && !goes_alone(c, pos + i)) i++;
    return i;
}

/* Runs requests [pos, end), which go one way. False: the connection is away. */
static bool run_requests(struct conn *c, uint32_t end)
{
    if (likely(!server_of(c)->relay)) return run_task(c, end);
    if (unlikely(wide_wants(c, c->batch->task.pos))) return wide_run(c);
    if (unlikely(relay_wait_wants(c, c->batch->task.pos))) {
        relay_wait_run(c);
        return false;
    }
    return relay_wants(c, c->batch->task.pos) ? relay_run(c, end) : run_task(c, end);
}

/* One step through the batch. False: stop for now (away, waiting, paused, closing). */
static bool run_some(struct conn *c)
{
    struct task *t = &c->batch->task;
    c->reply_from = c->out.len;
    bool wait = false;
    uint32_t n = admitted_run(c, &wait);
    if (wait) return false;
    if (unlikely(server_of(c)->relay && n > 1)) n = one_way(c, n);
    const struct command *last = n ? t->requests[t->pos + n - 1].cmd : NULL;
    if (n == 0) {
        t->pos++; /* answered or queued */
    } else {
        __atomic_store_n(&c->last_command, last, __ATOMIC_RELAXED);
        STAT_ADD(c->commands, n);
        if (!run_requests(c, t->pos + n)) return false;
    }
    if (c->waiter) return false;
    conn_settle_reply(c, last, c->reply_from);
    return !c->close_after_reply && !c->paused;
}

static void answer_protocol_error(struct conn *c)
{
    struct reply r = {.out = &c->out, .resp = c->resp};
    reply_errorf(&r, "ERR %s", c->protocol_error);
    c->close_after_reply = true;
}

/* SAVE had answered OK on the understanding that it waits: when the dump failed, an error takes that answer's place. */
static void settle_save(struct conn *c)
{
    static const char ok[] = "+OK\r\n";
    int error = 0;
    if (!c->dump_ticket) return;
    dumper_is_done(server_of(c)->dumper, c->dump_ticket, &error);
    c->dump_ticket = 0;
    size_t end = c->save_at + strlen(ok);
    if (!error || c->out.len < end || memcmp(c->out.p + c->save_at, ok, strlen(ok)) != 0) return; /* CLIENT REPLY OFF took the answer away */
    struct buf behind = {0};
    buf_add(&behind, c->out.p + end, c->out.len - end);
    c->out.len = c->save_at;
    struct reply r = {.out = &c->out, .resp = c->resp};
    reply_errorf(&r, "ERR the dump failed: %s", strerror(-error));
    buf_add_slice(&c->out, buf_slice(&behind));
    buf_fini(&behind);
}

/* The replies tell of ops that the log has not made durable, or of a dump: they wait, and the connection with them. */
static bool hold(struct conn *c)
{
    if (likely(!server_of(c)->journal) || !(c->epoch | c->seen | c->dump_ticket)) return false;
    if (conn_may_send(c)) {
        settle_save(c);
        c->epoch = c->seen = 0;
        return false;
    }
    front_hold(c->front, c);
    return true;
}

bool conn_may_send(const struct conn *c)
{
    const struct server *s = server_of(c);
    int error;
    return journal_allows(s->journal, c->epoch) && journal_shows(s->journal, c->seen) && (!c->dump_ticket || dumper_is_done(s->dumper, c->dump_ticket, &error));
}

/* False: the connection was closed, perhaps freed. */
static bool flush(struct conn *c)
{
    if (c->stream.closed) return false;
    if (c->held || hold(c)) return true;
    STAT_ADD(c->bytes_out, c->out.len);
    stream_send(c->front->loop, &c->stream, &c->out);
    return likely(stream_unsent(&c->stream) <= LOOK_AT_LIMITS) || conn_check_limits(c, c->front->worker.mono_ms);
}

/* A slice of answers is due: true, and the rest of the requests have their turn later. A pipeline of small requests for large values
 * would otherwise fill memory before its first byte is sent. */
static bool take_turns(struct conn *c)
{
    if (likely(c->out.len < OUTPUT_SLICE)) return false;
    front_ready(c->front, c);
    return true;
}

/* Its command waits on some node: what was answered before goes out, and so do messages. A batch does not wait along. */
static void run_in_line(struct conn *c)
{
    if (c->batch && !c->protocol_error && is_used_up(c)) finish_batch(c);
    if (!flush(c)) return;
    if (c->ended) conn_close(c); /* nobody is there to be served */
}

void conn_run(struct conn *c)
{
    if (c->stream.closed) return;
    if (c->away) {
        if (unlikely(is_in_line(c))) run_in_line(c);
        return;
    }
    if (c->closing) {
        conn_close(c);
        return;
    }
    if (unlikely(c->out.len >= OUTPUT_SLICE) && !flush(c)) return;
    loop_buffer(c->front->loop, &c->out);
    bool go_on = !c->waiter && !c->paused && !c->held;
    if (c->waiter && is_used_up(c)) finish_batch(c);
    while (go_on && (c->batch || parse_kept(c))) {
        while (go_on && c->batch->task.pos < c->batch->task.n_requests) go_on = run_some(c) && !take_turns(c);
        if (c->away) return;
        if (!is_used_up(c)) break;
        if (c->protocol_error) answer_protocol_error(c);
        finish_batch(c);
        go_on = go_on && !c->protocol_error;
    }
    read_again(c);
    if (!flush(c)) return;
    if (c->waiter && c->ended) conn_close(c); /* nobody is there to be served */
    else close_if_done(c);
}

/* ---- bytes out */

bool conn_drained(struct conn *c)
{
    close_if_done(c);
    return c->stream.closed;
}

void conn_release(struct conn *c)
{
    c->held = false;
    settle_save(c);
    c->epoch = c->seen = 0;
    take_pushes(c);
    front_ready(c->front, c);
}

/* While it is away, and does not merely wait, its replies are not ours to look at. */
static bool is_elsewhere(const struct conn *c) { return c->away && !is_in_line(c); }

static size_t unsent_bytes(const struct conn *c)
{
    return stream_unsent(&c->stream) + c->pushes.len + (is_elsewhere(c) ? 0 : c->out.len);
}

void conn_push(struct conn *c, struct slice message)
{
    if (c->closing || c->stream.closed) return;
    if (is_elsewhere(c) || c->held) {
        buf_add_slice(&c->pushes, message);
    } else {
        loop_buffer(c->front->loop, &c->out);
        buf_add_slice(&c->out, message);
        front_ready(c->front, c);
    }
    /* Now, not when they are sent: a burst for many clients must not use up the memory before the turn ends. */
    if (unlikely(unsent_bytes(c) > LOOK_AT_LIMITS)) conn_check_limits(c, c->front->worker.mono_ms);
}

bool conn_check_limits(struct conn *c, int64_t mono_ms)
{
    if (c->closing || c->stream.closed) return true;
    struct config *cfg = server_of(c)->config;
    int class = c->subs ? CONFIG_CLIENT_PUBSUB : CONFIG_CLIENT_NORMAL;
    int64_t hard = CONFIG_NUM(cfg, client_output_buffer_limit.of[class].hard_bytes);
    int64_t soft = CONFIG_NUM(cfg, client_output_buffer_limit.of[class].soft_bytes);
    int64_t seconds = CONFIG_NUM(cfg, client_output_buffer_limit.of[class].soft_seconds);
    int64_t unsent = (int64_t)unsent_bytes(c);
    bool over = hard && unsent >= hard;
    if (!soft || unsent < soft) c->over_soft_since_ms = 0;
    else if (!c->over_soft_since_ms) c->over_soft_since_ms = mono_ms;
    else over |= mono_ms - c->over_soft_since_ms > seconds * 1000;
    if (!over) return true;
    slog(&server_of(c)->log, SLOG_WARNING, "output buffer limit reached, client closed", "id=%llu bytes=%lld",
         (unsigned long long)c->id, (long long)unsent);
    atomic_fetch_add(&server_of(c)->connections_closed_by_limit, 1);
    conn_close(c);
    return false;
}
