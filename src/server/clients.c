/* CLIENT: looking at connections, naming them, ending them.
 *
 * Connections live on several threads. Whoever wants to see one that is not its own holds its front's lock, which keeps it and its texts alive;
 * whoever wants to change one sends a message to its front. */
#include "server/clients.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/pause.h"
#include "server/subscribe.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }
static int64_t mono_ms(const struct exec *x) { return conn_of(x)->front->worker.mono_ms; }

static struct conn *find(const struct front *f, uint64_t id)
{
    struct conn *c = f->conns;
    while (c && c->id != id) c = c->next;
    return c;
}

/* ---- names */

static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < '!' || text.p[i] > '~') return false;
    return true;
}

bool clients_check_name(struct exec *x, struct slice name)
{
    if (is_plain(name)) return true;
    reply_error(&x->out, "ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
}

void clients_set_text(struct conn *c, char **which, struct slice text)
{
    char *fresh = NULL;
    if (text.n) {
        fresh = mem_alloc(text.n + 1);
        memcpy(fresh, text.p, text.n);
        fresh[text.n] = 0;
    }
    pthread_mutex_lock(&c->front->lock);
    char *old = *which;
    *which = fresh;
    pthread_mutex_unlock(&c->front->lock);
    mem_free(old);
}

static void client_id(struct exec *x) { reply_int(&x->out, (int64_t)conn_of(x)->id); }

static void client_getname(struct exec *x)
{
    const char *name = conn_of(x)->name;
    if (name) reply_bulk_str(&x->out, name);
    else reply_null(&x->out);
}

static void client_setname(struct exec *x)
{
    if (!clients_check_name(x, x->argv[2])) return;
    clients_set_text(conn_of(x), &conn_of(x)->name, x->argv[2]);
    reply_ok(&x->out);
}

static void client_setinfo(struct exec *x)
{
    struct conn *c = conn_of(x);
    struct slice option = x->argv[2];
    bool is_name = slice_is(option, "lib-name"), is_version = slice_is(option, "lib-ver");
    if (!is_name && !is_version) {
        reply_errorf(&x->out, "ERR Unrecognized option '%.*s'", (int)option.n, option.p);
    } else if (!is_plain(x->argv[3])) {
        reply_errorf(&x->out, "ERR %.*s cannot contain spaces, newlines or special characters.", (int)option.n, option.p);
    } else {
        clients_set_text(c, is_name ? &c->lib_name : &c->lib_ver, x->argv[3]);
        reply_ok(&x->out);
    }
}

/* ---- looking */

enum client_type { TYPE_ANY, TYPE_NORMAL, TYPE_MASTER, TYPE_REPLICA, TYPE_PUBSUB };

static enum client_type type_of(const struct conn *c) { return c->subs ? TYPE_PUBSUB : TYPE_NORMAL; }

/* Answers the error and gives TYPE_ANY if there is no such type. */
static enum client_type parse_type(struct exec *x, struct slice word)
{
    if (slice_is(word, "normal")) return TYPE_NORMAL;
    if (slice_is(word, "master")) return TYPE_MASTER;
    if (slice_is(word, "replica") || slice_is(word, "slave")) return TYPE_REPLICA;
    if (slice_is(word, "pubsub")) return TYPE_PUBSUB;
    reply_errorf(&x->out, "ERR Unknown client type '%.*s'", (int)word.n, word.p);
    return TYPE_ANY;
}

/* Numbers of a connection that its own thread may be changing. */
struct glance {
    size_t in, in_cap, out, out_cap;
    size_t sending; /* taken by the stream, not yet by the kernel */
    int fd, multi, watch;
    uint16_t db;
    uint8_t resp;
    bool blocked, closing, close_after_reply, no_evict, no_touch;
    const struct command *last;
};

#define SEE(field) (*(const volatile __typeof__(field) *)&(field))

/* Each number is one that was true a moment ago; they need not fit together. That is all a list of clients promises, and it costs
 * the threads that serve them nothing. */
__attribute__((no_sanitize("thread"))) static struct glance glance_at(const struct conn *c)
{
    struct glance g;
    g.fd = SEE(c->stream.fd);
    g.in = SEE(c->in.len);
    g.in_cap = SEE(c->in.cap);
    g.out = SEE(c->out.len);
    g.out_cap = SEE(c->out.cap);
    size_t taken = SEE(c->stream.out.len) + SEE(c->stream.flying.len), sent = SEE(c->stream.sent);
    g.sending = taken > sent ? taken - sent : 0;
    g.multi = SEE(c->in_multi) ? (int)SEE(c->multi.n) : -1;
    g.watch = (int)SEE(c->watches.n);
    g.db = SEE(c->db);
    g.resp = SEE(c->resp);
    g.blocked = SEE(c->waiter) != NULL || atomic_load_explicit(&c->waits, memory_order_relaxed) || SEE(c->paused);
    g.closing = SEE(c->closing);
    g.close_after_reply = SEE(c->close_after_reply);
    g.no_evict = SEE(c->no_evict);
    g.no_touch = SEE(c->no_touch);
    g.last = SEE(c->last_command);
    return g;
}

static void add_flags(struct buf *out, const struct conn *c, const struct glance *g)
{
    size_t before = out->len;
    if (c->subs) buf_add_byte(out, 'P');
    if (g->multi >= 0) buf_add_byte(out, 'x');
    if (g->blocked) buf_add_byte(out, 'b');
    if (g->close_after_reply) buf_add_byte(out, 'c');
    if (g->closing) buf_add_byte(out, 'A');
    if (c->is_unix) buf_add_byte(out, 'U');
    if (g->no_evict) buf_add_byte(out, 'e');
    if (g->no_touch) buf_add_byte(out, 'T');
    if (out->len == before) buf_add_byte(out, 'N');
}

/* The command, with the subcommand that is running if it is this one. */
static void add_command(struct buf *out, const struct exec *x, const struct conn *c, const struct glance *g)
{
    buf_add_str(out, g->last ? g->last->name : "NULL");
    if (c != conn_of(x) || g->last != x->cmd) return;
    buf_add_byte(out, '|');
    for (size_t i = 0; i < x->argv[1].n; i++) buf_add_byte(out, (char)(x->argv[1].p[i] | 0x20));
}

static const char *text_or_empty(const char *s) { return s ? s : ""; }

/* One line; the front's lock is held. */
static void describe(struct buf *out, const struct exec *x, const struct conn *c)
{
    struct glance g = glance_at(c);
    int64_t age = (mono_ms(x) - c->since_ms) / 1000;
    int64_t idle = (mono_ms(x) - __atomic_load_n(&c->active_ms, __ATOMIC_RELAXED)) / 1000;
    size_t multi_bytes = g.multi > 0 ? (size_t)g.multi * sizeof(struct multi_command) : 0;
    buf_printf(out, "id=%llu addr=%s laddr=%s fd=%d name=%s age=%lld idle=%lld flags=", (unsigned long long)c->id, c->peer, c->local,
               g.fd, text_or_empty(c->name), (long long)(age < 0 ? 0 : age), (long long)(idle < 0 ? 0 : idle));
    add_flags(out, c, &g);
    buf_printf(out, " db=%d sub=%u psub=%u ssub=%u multi=%d watch=%d qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=%zu", g.db,
               subscribe_count(c, SUBSCRIBE_CHANNEL), subscribe_count(c, SUBSCRIBE_PATTERN), subscribe_count(c, SUBSCRIBE_SHARD), g.multi,
               g.watch, g.in, g.in_cap > g.in ? g.in_cap - g.in : 0, multi_bytes);
    /* omem is what client-output-buffer-limit limits. */
    buf_printf(out, " rbs=%zu rbp=%zu obl=%zu oll=0 omem=%zu tot-mem=%zu events=%s cmd=", g.out_cap, g.out_cap, g.out, g.out + g.sending,
               sizeof *c + g.in_cap + g.out_cap + g.sending + multi_bytes, g.out || g.sending ? "rw" : "r");
    add_command(out, x, c, &g);
    buf_printf(out, " user=default redir=-1 resp=%d lib-name=%s lib-ver=%s tot-net-in=%llu tot-net-out=%llu tot-cmds=%llu\n", g.resp,
               text_or_empty(c->lib_name), text_or_empty(c->lib_ver), (unsigned long long)STAT_GET(c->bytes_in),
               (unsigned long long)STAT_GET(c->bytes_out), (unsigned long long)STAT_GET(c->commands));
}

static void client_info(struct exec *x)
{
    struct buf line = {0};
    describe(&line, x, conn_of(x)); /* its own thread: no lock is needed to look */
    reply_verbatim(&x->out, "txt", buf_slice(&line));
    buf_fini(&line);
}

/* ---- choosing */

struct filter { /* what is not set fits all */
    enum client_type type;
    uint64_t id;
    struct slice addr, laddr; /* p is NULL: not set */
    int64_t max_age_s;
    bool skip_me;
};

static bool fits(const struct filter *f, const struct exec *x, const struct conn *c)
{
    if (f->type != TYPE_ANY && f->type != type_of(c)) return false;
    if (f->id && f->id != c->id) return false;
    if (f->addr.p && !slice_eq(f->addr, slice_str(c->peer))) return false;
    if (f->laddr.p && !slice_eq(f->laddr, slice_str(c->local))) return false;
    if (f->max_age_s && (mono_ms(x) - c->since_ms) / 1000 < f->max_age_s) return false;
    return !f->skip_me || c != conn_of(x);
}

/* Visits the connections that fit, front by front, each under its front's lock. */
static void each_client(const struct exec *x, const struct filter *f, void (*visit)(void *ctx, struct conn *c), void *ctx)
{
    const struct server *s = server_of(x);
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        struct front *front = s->fronts[i];
        pthread_mutex_lock(&front->lock);
        for (struct conn *c = front->conns; c; c = c->next)
            if (!atomic_load(&c->killed) && fits(f, x, c)) visit(ctx, c);
        pthread_mutex_unlock(&front->lock);
    }
}

/* ---- CLIENT LIST */

struct line {
    uint64_t id;
    size_t at, n; /* in listing.text */
};

struct listing {
    const struct exec *x;
    struct buf text, lines;
};

static void add_line(void *ctx, struct conn *c)
{
    struct listing *l = ctx;
    struct line line = {.id = c->id, .at = l->text.len};
    describe(&l->text, l->x, c);
    line.n = l->text.len - line.at;
    buf_add(&l->lines, &line, sizeof line);
}

static int older_first(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void answer_listing(struct exec *x, struct listing *l, bool sort)
{
    struct line *lines = (struct line *)l->lines.p;
    size_t n = l->lines.len / sizeof *lines;
    if (sort && n) qsort(lines, n, sizeof *lines, older_first);
    struct buf out = {0};
    for (size_t i = 0; i < n; i++) buf_add(&out, l->text.p + lines[i].at, lines[i].n);
    reply_verbatim(&x->out, "txt", buf_slice(&out));
    buf_fini(&out);
    buf_fini(&l->text);
    buf_fini(&l->lines);
}

static void list_ids(struct exec *x)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        int64_t id;
        if (!num_parse_i64(x->argv[i], &id) || id <= 0) {
            reply_error(&x->out, "ERR Invalid client ID");
            return;
        }
    }
    struct listing l = {.x = x};
    for (uint32_t i = 3; i < x->argc; i++) {
        struct filter f = {0};
        num_parse_u64(x->argv[i], &f.id);
        each_client(x, &f, add_line, &l);
    }
    answer_listing(x, &l, false);
}

static void client_list(struct exec *x)
{
    struct filter f = {0};
    if (x->argc > 3 && slice_is(x->argv[2], "id")) {
        list_ids(x);
        return;
    }
    if (x->argc == 4 && slice_is(x->argv[2], "type")) {
        f.type = parse_type(x, x->argv[3]);
        if (f.type == TYPE_ANY) return;
    } else if (x->argc != 2) {
        exec_syntax(x);
        return;
    }
    struct listing l = {.x = x};
    each_client(x, &f, add_line, &l);
    answer_listing(x, &l, true);
}

/* ---- CLIENT KILL */

struct kill_mail { /* to the front of the connections */
    struct mail mail;
    size_t n;
    uint64_t ids[];
};

static void kill_here(struct worker *w, struct mail *m)
{
    const struct kill_mail *k = (struct kill_mail *)m;
    for (size_t i = 0; i < k->n; i++) {
        struct conn *c = find(front_of(w), k->ids[i]);
        if (c) conn_close(c);
    }
    mem_free(m);
}

struct victims {
    const struct conn *me;
    struct buf *ids; /* [fronts], each a list of uint64_t */
    int64_t n;
    bool self;
};

static void add_victim(void *ctx, struct conn *c)
{
    struct victims *v = ctx;
    v->n++;
    if (c == v->me) {
        v->self = true;
        return;
    }
    atomic_store(&c->killed, true);
    buf_add(&v->ids[c->front->worker.id], &c->id, sizeof c->id);
}

/* Gives how many there were. The caller itself goes after its reply. */
static int64_t kill_all(struct exec *x, const struct filter *f)
{
    struct engine *e = server_of(x)->engine;
    struct victims v = {.me = conn_of(x), .ids = mem_zalloc(e->n_workers * sizeof(struct buf))};
    each_client(x, f, add_victim, &v);
    for (uint32_t i = 0; i < e->n_workers; i++) {
        struct buf *ids = &v.ids[i];
        if (ids->len) {
            struct kill_mail *k = mem_alloc(sizeof *k + ids->len);
            k->mail = (struct mail){.to_worker = kill_here};
            k->n = ids->len / sizeof k->ids[0];
            memcpy(k->ids, ids->p, ids->len);
            engine_send(e, i, &k->mail);
        }
        buf_fini(ids);
    }
    mem_free(v.ids);
    if (v.self) conn_of(x)->close_after_reply = true;
    return v.n;
}

/* One option with its value. Answers the error and gives false if it is bad. */
static bool parse_kill_option(struct exec *x, struct filter *f, struct slice option, struct slice value)
{
    int64_t n;
    if (slice_is(option, "id")) {
        if (!num_parse_i64(value, &n) || n <= 0) {
            reply_error(&x->out, "ERR client-id should be greater than 0");
            return false;
        }
        f->id = (uint64_t)n;
    } else if (slice_is(option, "maxage")) {
        if (!num_parse_i64(value, &n)) {
            reply_error(&x->out, "ERR maxage is not an integer or out of range");
            return false;
        }
        if (n <= 0) {
            reply_error(&x->out, "ERR maxage should be greater than 0");
            return false;
        }
        f->max_age_s = n;
    } else if (slice_is(option, "type")) {
        f->type = parse_type(x, value);
        return f->type != TYPE_ANY;
    } else if (slice_is(option, "addr")) {
        f->addr = value;
    } else if (slice_is(option, "laddr")) {
        f->laddr = value;
    } else if (slice_is(option, "user")) {
        if (slice_eq(value, SLICE("default"))) return true; /* the only one: fits all */
        reply_errorf(&x->out, "ERR No such user '%.*s'", (int)value.n, value.p);
        return false;
    } else if (slice_is(option, "skipme") && (slice_is(value, "yes") || slice_is(value, "no"))) {
        f->skip_me = slice_is(value, "yes");
    } else {
        exec_syntax(x);
        return false;
    }
    return true;
}

static void client_kill(struct exec *x)
{
    struct filter f = {0};
    if (x->argc == 3) { /* the old form, which may name the caller itself */
        f.addr = x->argv[2];
        if (kill_all(x, &f)) reply_ok(&x->out);
        else reply_error(&x->out, "ERR No such client");
        return;
    }
    f.skip_me = true;
    for (uint32_t i = 2; i < x->argc; i += 2) {
        if (i + 1 == x->argc) {
            exec_syntax(x);
            return;
        }
        if (!parse_kill_option(x, &f, x->argv[i], x->argv[i + 1])) return;
    }
    reply_int(&x->out, kill_all(x, &f));
}

/* ---- CLIENT UNBLOCK */

struct unblock_mail {
    struct mail mail;
    uint64_t id;
    bool with_error;
    bool claimed; /* nobody else can end the wait; else, in a cluster, it may have ended */
};

static void unblock_here(struct worker *w, struct mail *m)
{
    const struct unblock_mail *u = (struct unblock_mail *)m;
    struct conn *c = find(front_of(w), u->id);
    CHECK(!u->claimed || (c && c->waiter)); /* a connection whose wait is claimed does not go away */
    if (u->claimed) conn_unblock(c, u->with_error);
    else if (c && c->wait) relay_wait_unblock(c, u->with_error);
    mem_free(m);
}

/* The front on which this client waited for a key until now, claimed for us (in a cluster it waits on some node, and cannot be); or NULL. */
static struct front *claim_wait(const struct server *s, uint64_t id, bool *claimed)
{
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        struct front *f = s->fronts[i];
        pthread_mutex_lock(&f->lock);
        const struct conn *c = find(f, id);
        *claimed = c && c->waiter && wait_claim(c->waiter);
        bool waits = *claimed || (c && atomic_load(&c->waits));
        pthread_mutex_unlock(&f->lock);
        if (waits) return f;
        if (c) return NULL;
    }
    return NULL;
}

static void client_unblock(struct exec *x)
{
    int64_t id;
    bool with_error = x->argc == 4 && slice_is(x->argv[3], "error");
    if (x->argc > 4 || (x->argc == 4 && !with_error && !slice_is(x->argv[3], "timeout"))) {
        reply_error(&x->out, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        return;
    }
    if (!exec_arg_i64(x, x->argv[2], &id)) return;
    bool claimed = false;
    struct front *f = claim_wait(server_of(x), (uint64_t)id, &claimed);
    if (f) {
        struct unblock_mail *u = mem_alloc(sizeof *u);
        *u = (struct unblock_mail){.mail = {.to_worker = unblock_here}, .id = (uint64_t)id, .with_error = with_error, .claimed = claimed};
        engine_send(server_of(x)->engine, f->worker.id, &u->mail);
    }
    reply_int(&x->out, f != NULL);
}

/* ---- CLIENT PAUSE */

static void client_pause(struct exec *x)
{
    bool writes_only = x->argc == 4 && slice_is(x->argv[3], "write");
    int64_t ms;
    if (x->argc > 4 || (x->argc == 4 && !writes_only && !slice_is(x->argv[3], "all"))) {
        reply_error(&x->out, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    } else if (!num_parse_i64(x->argv[2], &ms) || ms > INT64_MAX - mono_ms(x)) {
        reply_error(&x->out, "ERR timeout is not an integer or out of range");
    } else if (ms < 0) {
        reply_error(&x->out, "ERR timeout is negative");
    } else {
        pause_start(server_of(x), mono_ms(x) + ms, writes_only);
        reply_ok(&x->out);
    }
}

static void unpause_here(struct worker *w, struct mail *m)
{
    front_unpause(front_of(w));
    mem_free(m);
}

static void client_unpause(struct exec *x)
{
    struct engine *e = server_of(x)->engine;
    pause_end(server_of(x));
    for (uint32_t i = 0; i < e->n_workers; i++) {
        struct mail *m = mem_zalloc(sizeof *m);
        m->to_worker = unpause_here;
        engine_send(e, i, m);
    }
    reply_ok(&x->out);
}

/* ---- how the caller wants to be treated */

static void client_reply(struct exec *x)
{
    struct conn *c = conn_of(x);
    if (slice_is(x->argv[2], "on")) {
        c->reply_mode = REPLY_ON;
        reply_ok(&x->out);
    } else if (slice_is(x->argv[2], "off")) {
        c->reply_mode = REPLY_OFF;
    } else if (slice_is(x->argv[2], "skip")) {
        if (c->reply_mode != REPLY_OFF) c->reply_mode = REPLY_SKIP_NEXT;
    } else {
        exec_syntax(x);
    }
}

static void set_switch(struct exec *x, bool *which)
{
    bool on = slice_is(x->argv[2], "on");
    if (!on && !slice_is(x->argv[2], "off")) {
        exec_syntax(x);
        return;
    }
    *which = on;
    reply_ok(&x->out);
}

static void client_no_evict(struct exec *x) { set_switch(x, &conn_of(x)->no_evict); }
static void client_no_touch(struct exec *x) { set_switch(x, &conn_of(x)->no_touch); }

/* What reads of this connection show in a cluster: everything that was acknowledged before, or what the node's own replica has. A single server has one copy only, and both are the same. */
static void client_consistency(struct exec *x)
{
    bool stale = slice_is(x->argv[2], "stale");
    if (!stale && !slice_is(x->argv[2], "linearizable")) {
        exec_syntax(x);
        return;
    }
    conn_of(x)->stale = stale;
    reply_ok(&x->out);
}

/* ---- client-side caching, which is not there: what asks for it is refused, what asks about it is told so */

static void client_tracking(struct exec *x)
{
    if (slice_is(x->argv[2], "off")) reply_ok(&x->out);
    else if (slice_is(x->argv[2], "on")) reply_error(&x->out, "ERR client tracking is not available");
    else exec_syntax(x);
}

static void client_trackinginfo(struct exec *x)
{
    reply_map(&x->out, 3);
    reply_bulk_str(&x->out, "flags");
    reply_set(&x->out, 1);
    reply_bulk_str(&x->out, "off");
    reply_bulk_str(&x->out, "redirect");
    reply_int(&x->out, -1);
    reply_bulk_str(&x->out, "prefixes");
    reply_array(&x->out, 0);
}

static void client_caching(struct exec *x)
{
    reply_error(&x->out, "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
}

static void client_getredir(struct exec *x) { reply_int(&x->out, -1); }

/* ---- the command */

static const struct exec_subcommand subcommands[] = {
    {"caching", client_caching, 3},
    {"consistency", client_consistency, 3},
    {"getname", client_getname, 2},
    {"getredir", client_getredir, 2},
    {"id", client_id, 2},
    {"info", client_info, 2},
    {"kill", client_kill, -3},
    {"list", client_list, -2},
    {"no-evict", client_no_evict, 3},
    {"no-touch", client_no_touch, 3},
    {"pause", client_pause, -3},
    {"reply", client_reply, 3},
    {"setinfo", client_setinfo, 4},
    {"setname", client_setname, 3},
    {"tracking", client_tracking, -3},
    {"trackinginfo", client_trackinginfo, 2},
    {"unblock", client_unblock, -3},
    {"unpause", client_unpause, 2},
    {0},
};

static const char *const help[] = {
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "CONSISTENCY (LINEARIZABLE|STALE)",
    "    In a cluster: reads show everything that was acknowledged, or what this node has.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "    * ID <client-id>",
    "      Kill connections by client id.",
    "    * MAXAGE <maxage>",
    "      Kill connections older than the specified age.",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "    * ID <client-id> [<client-id> ...]",
    "      Return the clients with these ids.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF)",
    "    Client side caching is not available: ON is refused.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
    NULL,
};

static void client_command(struct exec *x) { exec_subcommand(x, subcommands, help); }

static const struct command rows[] = {
    {.name = "client", .fn = client_command, .arity = -2, .class = CLASS_LOCAL, .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE, .subs = subcommands,
     .group = "connection", .since = "2.4.0", .summary = "A container for client connection commands.",
     .args = "ID | INFO | GETNAME | SETNAME name | SETINFO (LIB-NAME | LIB-VER) value | LIST [TYPE type | ID id [id ...]] | KILL ip:port | KILL option "
             "value [option value ...] | PAUSE timeout [WRITE | ALL] | UNPAUSE | REPLY (ON | OFF | SKIP) | NO-EVICT (ON | OFF) | NO-TOUCH (ON | OFF) | CONSISTENCY (LINEARIZABLE | STALE) | "
             "UNBLOCK id [TIMEOUT | ERROR] | TRACKING (ON | OFF) | TRACKINGINFO | CACHING (YES | NO) | GETREDIR | HELP"},
};

const struct command_family clients_family = COMMAND_FAMILY(rows);
