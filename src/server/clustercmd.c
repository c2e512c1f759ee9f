/* CLUSTER: what Redis's clients ask a cluster for, and how this one is changed.
 *
 * Most answers come from the raft thread (server/clusterquestion.h). */
#include <string.h>

#include "server/clusternode.h"
#include "server/clusterquestion.h"
#include "server/clustersecret.h"
#include "server/clusterslots.h"
#include "server/families.h"
#include "server/front.h"

static struct server *server_of(const struct exec *x) { return conn_of(x)->front->server; }

static void ask(struct exec *x, enum metahost_question asks, clusterquestion_shape *shape) { clusterquestion_ask(x, asks, 2, x->argc, shape); }

/* ---- forms of answers */

static void as_text(struct reply *out, struct slice text) { reply_verbatim(out, "txt", text); }
static void as_bulk(struct reply *out, struct slice text) { reply_bulk(out, text); }

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
static void cmd_leave(struct exec *x) { ask(x, METAHOST_LEAVE, clusterquestion_word); }
static void cmd_return(struct exec *x) { ask(x, METAHOST_RETURN, clusterquestion_word); }
static void cmd_remove(struct exec *x) { ask(x, METAHOST_REMOVE, clusterquestion_word); }
static void cmd_move(struct exec *x) { ask(x, METAHOST_MOVE, clusterquestion_word); }
static void cmd_lead(struct exec *x) { ask(x, METAHOST_LEAD, clusterquestion_word); }
static void cmd_split(struct exec *x) { ask(x, METAHOST_SPLIT_GROUP, clusterquestion_word); }
static void cmd_set(struct exec *x) { ask(x, METAHOST_SET, clusterquestion_word); }

/* The word behind the others, if it is there, is the proof of the secret. */
static void cmd_join(struct exec *x)
{
    enum { FIRST = 2, PROOF = 7 };
    struct linksecret secret;
    if (x->argc > PROOF + 1) {
        exec_syntax(x);
        return;
    }
    config_secret(server_of(x)->config, &secret);
    const char *why = clustersecret_check(&secret, x->argv + FIRST, PROOF - FIRST, x->argc > PROOF ? x->argv[PROOF] : SLICE(""));
    if (why) reply_errorf(&x->out, "ERR %s", why);
    else clusterquestion_ask(x, METAHOST_JOIN, FIRST, PROOF, as_bulk);
}

static const struct exec_subcommand cluster_subs[] = {
    {"info", cmd_info, 2},     {"join", cmd_join, -7},     {"keyslot", cmd_keyslot, 3}, {"lead", cmd_lead, 4},   {"leave", cmd_leave, 3},
    {"move", cmd_move, 5},     {"myid", cmd_myid, 2},     {"nodes", cmd_nodes, 2},     {"remove", cmd_remove, 3}, {"return", cmd_return, 3},
    {"set", cmd_set, 4},       {"shards", cmd_shards, 2}, {"slots", cmd_slots, 2},     {"split", cmd_split, -3},  {"status", cmd_status, 2}, {0},
};

static const char *const cluster_help[] = {
    "INFO", "    Return numbers about the cluster, as this node sees it.",
    "JOIN <instance> <cluster address> <client address> <name> <zone> [<proof of the secret>]", "    Let a node in, and return what it must know. For servers that join.",
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
    "SPLIT <group> [<hash>]", "    Cut the group's largest interval of the hash in the middle, or where it is said, let the upper part's keys go to a new group, and return its number.",
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
