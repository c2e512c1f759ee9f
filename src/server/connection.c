/* Commands about the connection itself: PING ECHO SELECT AUTH HELLO QUIT RESET. */
#include "base/mem.h"
#include "base/num.h"
#include "base/version.h"
#include "server/clients.h"
#include "server/families.h"
#include "server/front.h"
#include "server/snapcmd.h"
#include "server/subscribe.h"
#include "server/transactions.h"

static struct config *config_of(const struct exec *x) { return conn_of(x)->front->server->config; }

static void ping_command(struct exec *x)
{
    if (x->argc > 2) {
        exec_wrong_arity(x);
        return;
    }
    if (conn_of(x)->subs && x->out.resp == 2) { /* a subscriber reads messages only: the answer looks like one */
        reply_array(&x->out, 2);
        reply_bulk_str(&x->out, "pong");
        reply_bulk(&x->out, x->argc == 2 ? x->argv[1] : SLICE(""));
    } else if (x->argc == 2) {
        reply_bulk(&x->out, x->argv[1]);
    } else {
        reply_simple(&x->out, "PONG");
    }
}

static void echo_command(struct exec *x) { reply_bulk(&x->out, x->argv[1]); }

static void select_command(struct exec *x)
{
    int64_t db;
    if (!exec_arg_i64(x, x->argv[1], &db)) return;
    if (db < 0 || db >= CONFIG_NUM(config_of(x), databases)) {
        reply_error(&x->out, "ERR DB index is out of range");
        return;
    }
    conn_of(x)->db = (uint16_t)db;
    reply_ok(&x->out);
}

/* ---- who is there */

/* There is one user, `default`; without a password any will do. Answers the error if it is not this one. */
static bool authenticate(struct exec *x, struct slice user, struct slice password)
{
    struct config *cfg = config_of(x);
    bool known = slice_eq(user, SLICE("default"));
    if (!known || (CONFIG_NUM(cfg, has_password) && !config_password_ok(cfg, password))) {
        reply_error(&x->out, "WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    conn_of(x)->authenticated = true;
    return true;
}

static void auth_command(struct exec *x)
{
    if (x->argc > 3) {
        exec_syntax(x);
    } else if (x->argc == 2 && !CONFIG_NUM(config_of(x), has_password)) {
        reply_error(&x->out, "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
                             "configuration is correct?");
    } else {
        struct slice user = x->argc == 3 ? x->argv[1] : SLICE("default");
        if (authenticate(x, user, x->argv[x->argc - 1])) reply_ok(&x->out);
    }
}

struct hello {
    int64_t version; /* 0: not given */
    const struct slice *user, *password, *name; /* NULL: not given */
};

/* Answers the error and gives false if the arguments are bad. */
static bool parse_hello(struct exec *x, struct hello *h)
{
    if (x->argc >= 2) {
        if (!num_parse_i64(x->argv[1], &h->version)) {
            reply_error(&x->out, "ERR Protocol version is not an integer or out of range");
            return false;
        }
        if (h->version < 2 || h->version > 3) {
            reply_error(&x->out, "NOPROTO unsupported protocol version");
            return false;
        }
    }
    for (uint32_t i = 2; i < x->argc; i++) {
        uint32_t more = x->argc - 1 - i;
        if (slice_is(x->argv[i], "auth") && more >= 2) {
            h->user = &x->argv[++i];
            h->password = &x->argv[++i];
        } else if (slice_is(x->argv[i], "setname") && more >= 1) {
            h->name = &x->argv[++i];
            if (!clients_check_name(x, *h->name)) return false;
        } else {
            reply_errorf(&x->out, "ERR Syntax error in HELLO option '%.*s'", (int)x->argv[i].n, x->argv[i].p);
            return false;
        }
    }
    return true;
}

static void introduce(struct exec *x)
{
    reply_map(&x->out, 7);
    reply_bulk_str(&x->out, "server");
    reply_bulk_str(&x->out, "redis");
    reply_bulk_str(&x->out, "version");
    reply_bulk_str(&x->out, REDIS_VERSION);
    reply_bulk_str(&x->out, "proto");
    reply_int(&x->out, x->out.resp);
    reply_bulk_str(&x->out, "id");
    reply_int(&x->out, (int64_t)conn_of(x)->id);
    reply_bulk_str(&x->out, "mode");
    reply_bulk_str(&x->out, "standalone");
    reply_bulk_str(&x->out, "role");
    reply_bulk_str(&x->out, "master");
    reply_bulk_str(&x->out, "modules");
    reply_array(&x->out, 0);
}

static void hello_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    struct hello h = {0};
    if (!parse_hello(x, &h)) return;
    if (h.user && !authenticate(x, *h.user, *h.password)) return;
    if (!c->authenticated) {
        reply_error(&x->out, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
                             "option can be used to authenticate the client and select the RESP protocol version at the same time");
        return;
    }
    if (h.name) clients_set_text(c, &c->name, *h.name);
    if (h.version) x->out.resp = c->resp = (uint8_t)h.version;
    introduce(x);
}

/* ---- the end, and a new beginning */

static void quit_command(struct exec *x)
{
    conn_of(x)->close_after_reply = true;
    reply_ok(&x->out);
}

static void reset_command(struct exec *x)
{
    struct conn *c = conn_of(x);
    transactions_reset(c);
    transactions_unwatch(c);
    subscribe_drop(c);
    snapcmd_end_export(c);
    clients_set_text(c, &c->name, SLICE(""));
    c->db = 0;
    x->out.resp = c->resp = 2;
    c->reply_mode = REPLY_ON;
    c->no_evict = c->no_touch = c->stale = false;
    c->authenticated = !CONFIG_NUM(config_of(x), has_password);
    reply_simple(&x->out, "RESET");
}

#define ALWAYS (CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH)

static const struct command rows[] = {
    {.name = "ping", .fn = ping_command, .arity = -1, .class = CLASS_LOCAL, .flags = CMD_FAST | CMD_IN_SUBSCRIBE,
     .group = "connection", .since = "1.0.0", .summary = "Returns the server's liveliness response.", .args = "[message]"},
    {.name = "echo", .fn = echo_command, .arity = 2, .class = CLASS_LOCAL, .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
     .group = "connection", .since = "1.0.0", .summary = "Returns the given string.", .args = "message"},
    {.name = "select", .fn = select_command, .arity = 2, .class = CLASS_LOCAL, .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
     .group = "connection", .since = "1.0.0", .summary = "Changes the selected database.", .args = "index"},
    {.name = "auth", .fn = auth_command, .arity = -2, .class = CLASS_LOCAL, .flags = ALWAYS | CMD_SKIP_SLOWLOG,
     .group = "connection", .since = "1.0.0", .summary = "Authenticates the connection.", .args = "[username] password"},
    {.name = "hello", .fn = hello_command, .arity = -1, .class = CLASS_LOCAL, .flags = ALWAYS | CMD_SKIP_SLOWLOG,
     .group = "connection", .since = "6.0.0", .summary = "Handshakes with the server: protocol version, authentication, name.",
     .args = "[protover [AUTH username password] [SETNAME clientname]]"},
    {.name = "quit", .fn = quit_command, .arity = -1, .class = CLASS_LOCAL, .flags = ALWAYS | CMD_IN_SUBSCRIBE | CMD_AT_ONCE,
     .group = "connection", .since = "1.0.0", .summary = "Closes the connection.", .args = ""},
    {.name = "reset", .fn = reset_command, .arity = 1, .class = CLASS_LOCAL, .flags = ALWAYS | CMD_IN_SUBSCRIBE | CMD_AT_ONCE,
     .group = "connection", .since = "6.2.0", .summary = "Resets the connection to the state it had when it was new.", .args = ""},
};

const struct command_family connection_family = COMMAND_FAMILY(rows);
