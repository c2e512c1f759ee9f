/* CLUSTER: what Redis's clients ask a cluster for, and how this one is changed.
 *
 * Most answers come from the raft thread (node_ask). The connection is away meanwhile, as for an errand (server/errands.h). */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/node.h"
#include "server/clusternode.h"
#include "server/clusterslots.h"
#include "server/families.h"
#include "server/front.h"
#include "server/stats.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

/* ---- questions for the raft thread */

typedef void shape(struct reply *out, struct slice text); /* the answer's form */

struct question {
    struct mail home;
    struct front *front;
    struct conn *conn;
    enum metahost_question asks;
    shape *shape;
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
    return rc == -EAGAIN || rc == -EBUSY ? "TRYAGAIN" : "ERR";
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

static void ask(struct exec *x, enum metahost_question asks, shape *form)
{
    struct conn *c = conn_of(x);
    struct server *s = server_of(x);
    struct question *q = mem_zalloc(sizeof *q);
    *q = (struct question){.home.to_worker = come_home, .front = c->front, .conn = c, .asks = asks, .shape = form, .resp = x->out.resp};
    c->errand = true;
    node_ask(s->node, asks, x->argv + 2, x->argc - 2, (uint32_t)CONFIG_NUM(s->config, cluster.timeout_ms), answered, q);
}

/* ---- forms of answers */

static void as_text(struct reply *out, struct slice text) { reply_verbatim(out, "txt", text); }
static void as_bulk(struct reply *out, struct slice text) { reply_bulk(out, text); }

/* A word or two, or nothing to say. */
static void as_word(struct reply *out, struct slice text)
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

/* ---- the subcommands */

static void cmd_info(struct exec *x)
{
    struct buf text = {0};
    clusternode_info(server_of(x), &text);
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

static void cmd_myid(struct exec *x)
{
    char name[41];
    clusternode_name(server_of(x), name);
    reply_bulk_str(&x->out, name);
}

static void cmd_keyslot(struct exec *x) { reply_int(&x->out, clusterslots_of(x->argv[2])); }
static void cmd_nodes(struct exec *x) { ask(x, METAHOST_NODES, as_text); }
static void cmd_slots(struct exec *x) { ask(x, METAHOST_NODES, clusterslots_slots); }
static void cmd_shards(struct exec *x) { ask(x, METAHOST_NODES, clusterslots_shards); }
static void cmd_status(struct exec *x) { ask(x, METAHOST_STATUS, as_text); }
static void cmd_join(struct exec *x) { ask(x, METAHOST_JOIN, as_bulk); }
static void cmd_leave(struct exec *x) { ask(x, METAHOST_LEAVE, as_word); }
static void cmd_return(struct exec *x) { ask(x, METAHOST_RETURN, as_word); }
static void cmd_remove(struct exec *x) { ask(x, METAHOST_REMOVE, as_word); }
static void cmd_move(struct exec *x) { ask(x, METAHOST_MOVE, as_word); }
static void cmd_lead(struct exec *x) { ask(x, METAHOST_LEAD, as_word); }
static void cmd_set(struct exec *x) { ask(x, METAHOST_SET, as_word); }

static const struct exec_subcommand cluster_subs[] = {
    {"info", cmd_info, 2},     {"join", cmd_join, 7},     {"keyslot", cmd_keyslot, 3}, {"lead", cmd_lead, 4},   {"leave", cmd_leave, 3},
    {"move", cmd_move, 5},     {"myid", cmd_myid, 2},     {"nodes", cmd_nodes, 2},     {"remove", cmd_remove, 3}, {"return", cmd_return, 3},
    {"set", cmd_set, 4},       {"shards", cmd_shards, 2}, {"slots", cmd_slots, 2},     {"status", cmd_status, 2}, {0},
};

static const char *const cluster_help[] = {
    "INFO", "    Return numbers about the cluster, as this node sees it.",
    "JOIN <instance> <cluster address> <client address> <name> <zone>", "    Let a node in, and return what it must know. For servers that join.",
    "KEYSLOT <key>", "    Return the slot that Redis would give the key.",
    "LEAD <group> <node>", "    Hand the group's leadership to a node that has a replica of it.",
    "LEAVE <node>", "    Move its replicas away; when none is left, it is no node any more.",
    "MOVE <group> <from> <to>", "    Move a replica of the group from node to node.",
    "MYID", "    Return this node's name.",
    "NODES", "    Return the nodes, a line each.",
    "REMOVE <node>", "    It is dead for good: make its replicas anew elsewhere.",
    "RETURN <node>", "    Call LEAVE off.",
    "SET <setting> <number>", "    Change a setting of the cluster.",
    "SHARDS", "    Return this node as the one that has all slots.",
    "SLOTS", "    Return the same in the older form.",
    "STATUS", "    Return tables of nodes, groups and what is under way.",
    NULL,
};

static bool is_node(struct exec *x)
{
    if (server_of(x)->node) return true;
    reply_error(&x->out, "ERR This instance has cluster support disabled");
    return false;
}

static void cmd_cluster(struct exec *x)
{
    if (is_node(x)) exec_subcommand(x, cluster_subs, cluster_help);
}

/* Any node answers for any key already. */
static void cmd_any_node(struct exec *x)
{
    if (is_node(x)) reply_ok(&x->out);
}

#define CLUSTER .class = CLASS_LOCAL, .group = "cluster"

static const struct command rows[] = {
    {.name = "cluster", CLUSTER, .fn = cmd_cluster, .arity = -2, .flags = CMD_LOADING | CMD_STALE, .subs = cluster_subs, .since = "3.0.0",
     .summary = "Shows and changes the cluster that this server is a node of; an error if it is none.", .args = "subcommand [argument ...]"},
    {.name = "readonly", CLUSTER, .fn = cmd_any_node, .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .since = "3.0.0",
     .summary = "Has no effect: any node answers for any key; an error if the server is no node of a cluster.", .args = ""},
    {.name = "readwrite", CLUSTER, .fn = cmd_any_node, .arity = 1, .flags = CMD_LOADING | CMD_STALE | CMD_FAST, .since = "3.0.0",
     .summary = "Has no effect: any node answers for any key; an error if the server is no node of a cluster.", .args = ""},
};

const struct command_family clustercmd_family = COMMAND_FAMILY(rows);
