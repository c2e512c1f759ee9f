/* DEBUG: what tests of clients and of servers ask for. All shards are held, so it sees, and changes, one state of everything. */
#include <time.h>

#include "base/glob.h"
#include "base/mem.h"
#include "base/num.h"
#include "server/conn.h"
#include "server/debug_data.h"
#include "server/families.h"
#include "server/front.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static void cmd_ok(struct exec *x) { reply_ok(&x->out); }

/* ---- time */

enum { NAP_US = 20000, SLEEP_MAX_S = 1000000 };

/* Holds every shard, as Redis stops as a whole; in naps, so that a server that is to end does not sleep on. */
static void cmd_sleep(struct exec *x)
{
    double seconds;
    if (!exec_arg_f64(x, x->argv[2], &seconds)) return;
    int64_t left_us = seconds < SLEEP_MAX_S ? (int64_t)(seconds * 1e6) : SLEEP_MAX_S * INT64_C(1000000);
    for (; left_us > 0 && !atomic_load(&server_of(x)->stopping); left_us -= NAP_US) {
        int64_t nap_us = left_us < NAP_US ? left_us : NAP_US;
        nanosleep(&(struct timespec){.tv_nsec = nap_us * 1000}, NULL);
    }
    reply_ok(&x->out);
}

static void cmd_set_active_expire(struct exec *x)
{
    int64_t on;
    if (!exec_arg_i64(x, x->argv[2], &on)) return;
    atomic_store(&server_of(x)->active_expire, on != 0);
    reply_ok(&x->out);
}

/* ---- texts */

static void cmd_error(struct exec *x)
{
    struct slice text = x->argv[2];
    reply_errorf(&x->out, "%.*s", (int)text.n, text.p);
}

static void cmd_log(struct exec *x)
{
    struct slice text = x->argv[2];
    slog(&server_of(x)->log, SLOG_WARNING, "DEBUG LOG", "text=%.*s", (int)text.n, text.p);
    reply_ok(&x->out);
}

static void cmd_quicklist_packed_threshold(struct exec *x)
{
    uint64_t bytes;
    bool ok = num_parse_bytes(x->argv[2], &bytes) && bytes < 1ull << 32;
    if (ok) reply_ok(&x->out);
    else reply_error(&x->out, "ERR argument must be a memory value bigger than 1 and smaller than 4gb");
}

enum { MATCH_TEXT_MAX = 1 << 20 };

/* Whether the pattern matches that many times the letter a. */
static void cmd_stringmatch_len(struct exec *x)
{
    int64_t n;
    if (!exec_arg_i64(x, x->argv[2], &n)) return;
    if (n < 0 || n > MATCH_TEXT_MAX) {
        reply_error(&x->out, reply_notint);
        return;
    }
    char *text = mem_alloc((size_t)n + 1);
    memset(text, 'a', (size_t)n);
    reply_int(&x->out, glob_match(x->argv[3], slice_of(text, (size_t)n), false));
    mem_free(text);
}

/* ---- one reply of each type of the protocol */

static void protocol_string(struct reply *r) { reply_bulk_str(r, "Hello World"); }
static void protocol_integer(struct reply *r) { reply_int(r, 12345); }
static void protocol_double(struct reply *r) { reply_double(r, 3.141); }
static void protocol_true(struct reply *r) { reply_bool(r, true); }
static void protocol_false(struct reply *r) { reply_bool(r, false); }
static void protocol_verbatim(struct reply *r) { reply_verbatim(r, "txt", SLICE("This is a verbatim\nstring")); }

static void three_numbers(struct reply *r)
{
    for (int i = 0; i < 3; i++) reply_int(r, i);
}

static void protocol_array(struct reply *r)
{
    reply_array(r, 3);
    three_numbers(r);
}

static void protocol_set(struct reply *r)
{
    reply_set(r, 3);
    three_numbers(r);
}

static void protocol_map(struct reply *r)
{
    reply_map(r, 3);
    for (int i = 0; i < 3; i++) {
        reply_int(r, i);
        reply_bool(r, i == 1);
    }
}

static void protocol_attrib(struct reply *r)
{
    if (r->resp > 2) {
        buf_add_str(r->out, "|1\r\n");
        reply_bulk_str(r, "key-popularity");
        reply_array(r, 2);
        reply_bulk_str(r, "key:123");
        reply_int(r, 90);
    }
    reply_bulk_str(r, "Some real reply following the attribute");
}

static void protocol_push(struct reply *r)
{
    if (r->resp == 2) {
        reply_error(r, "ERR RESP2 is not supported by this command");
        return;
    }
    reply_push(r, 2);
    reply_bulk_str(r, "server-cpu-usage");
    reply_int(r, 42);
    reply_bulk_str(r, "Some real reply following the push reply");
}

static void protocol_bignum(struct reply *r)
{
    static const char digits[] = "1234567999999999999999999999999999999";
    if (r->resp == 2) reply_bulk_str(r, digits);
    else buf_printf(r->out, "(%s\r\n", digits);
}

static void cmd_protocol(struct exec *x)
{
    static const struct {
        const char *name;
        void (*write)(struct reply *r);
    } types[] = {
        {"string", protocol_string},     {"integer", protocol_integer}, {"double", protocol_double}, {"bignum", protocol_bignum},
        {"null", reply_null},            {"array", protocol_array},     {"set", protocol_set},       {"map", protocol_map},
        {"attrib", protocol_attrib},     {"push", protocol_push},       {"verbatim", protocol_verbatim},
        {"true", protocol_true},         {"false", protocol_false},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!slice_is(x->argv[2], types[i].name)) continue;
        types[i].write(&x->out);
        return;
    }
    reply_error(&x->out, "ERR Wrong protocol type name. Please use one of the following: "
                         "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false");
}

/* ---- rows */

static const struct exec_subcommand subs[] = {
    {"change-repl-id", cmd_ok, 2},
    {"chill", debug_data_chill, -2},
    {"digest", debug_data_digest, 2},
    {"digest-value", debug_data_digest_value, -3},
    {"error", cmd_error, 3},
    {"htstats", debug_data_htstats, 3},
    {"htstats-key", debug_data_htstats_key, 3},
    {"jmap", cmd_ok, 2},
    {"listpack", debug_data_listpack, 3},
    {"loadaof", debug_data_reload, 2},
    {"log", cmd_log, 3},
    {"object", debug_data_object, 3},
    {"populate", debug_data_populate, -3},
    {"protocol", cmd_protocol, 3},
    {"quicklist-packed-threshold", cmd_quicklist_packed_threshold, 3},
    {"reload", debug_data_reload, -2},
    {"set-active-expire", cmd_set_active_expire, 3},
    {"sleep", cmd_sleep, 3},
    {"stringmatch-len", cmd_stringmatch_len, 4},
    {"system", debug_data_system, -4},
    {"ziplist", debug_data_listpack, 3},
    {0},
};

static const char *const help[] = {
    "CHANGE-REPL-ID",
    "    Does nothing: there is no replication here.",
    "CHILL [<key> ...]",
    "    Send the values of these keys, or all values, to the cold tier.",
    "DIGEST",
    "    Output a hex signature representing the whole content, whatever the number",
    "    of shards.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Return a protocol error with <string> as message. Useful for clients",
    "    unit tests to simulate errors.",
    "HTSTATS <dbid>",
    "    Return hash table statistics of the specified database, by shard.",
    "HTSTATS-KEY <key>",
    "    Like HTSTATS but for the hash table stored at <key>'s value.",
    "JMAP",
    "    Does nothing.",
    "LISTPACK <key>",
    "    Show the elements of a compact value. ZIPLIST is the same.",
    "LOADAOF",
    "    The same as RELOAD.",
    "LOG <message>",
    "    Write <message> to the server log.",
    "OBJECT <key>",
    "    Show low level info about `key` and associated value.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> string keys named key:<num>. If <prefix> is specified then",
    "    it is used instead of the 'key' prefix. Values are cut or filled to <size>.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Does nothing: large elements of lists need no threshold.",
    "RELOAD [MERGE] [NOFLUSH]",
    "    Serialize every value of every shard, flush, and load them all again.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys in background when they are not",
    "    accessed. Setting it to 1 reenables back the default.",
    "SLEEP <seconds>",
    "    Hold all shards for <seconds>. Decimals allowed.",
    "STRINGMATCH-LEN <len> <pattern>",
    "    Return 1 if <pattern> matches a string of <len> times the letter a, else 0.",
    "SYSTEM <shard> <key> [<value> [<milliseconds>]]",
    "    Show a record of the shard's system database, or write one, perhaps with a",
    "    time to live.",
    NULL,
};

static bool is_allowed(const struct conn *c)
{
    int64_t who = CONFIG_NUM(c->front->server->config, enable_debug_command);
    if (who != CONFIG_DEBUG_LOCAL) return who == CONFIG_DEBUG_YES;
    return c->is_unix || strncmp(c->peer, "127.", 4) == 0 || strncmp(c->peer, "[::1]", 5) == 0;
}

static void cmd_debug(struct exec *x)
{
    if (is_allowed(conn_of(x))) exec_subcommand(x, subs, help);
    else
        reply_error(&x->out, "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local "
                             "connection, otherwise you need to set this option in the configuration file, and then restart the server.");
}

static const struct command rows[] = {
    {.name = "debug", .fn = cmd_debug, .arity = -2, .class = CLASS_ALL, .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
     .group = "server", .since = "1.0.0", .summary = "Looks inside, for tests.",
     .args = "SLEEP seconds | OBJECT key | RELOAD | POPULATE count [prefix [size]] | DIGEST | PROTOCOL type | ... | HELP"},
};

const struct command_family debug_family = COMMAND_FAMILY(rows);
