/* What becomes of each command on a node of a cluster. The one place that says so: the node's table of commands is made by these rules, so that nothing on a request's way asks again. */
#pragma once
#include "command/command.h"

enum clusterrule {
    CLUSTERRULE_RELAYED, /* has keys, or a part of a key space: runs on the node that leads their group (server/relay.h) */
    CLUSTERRULE_NARROW,  /* likewise, except for calls that would need all shards (struct command, needs_all): they are refused */
    CLUSTERRULE_WAITS,   /* has keys, and waits on that node (server/relay_wait.h) */
    CLUSTERRULE_WIDE,    /* is about all keys: asks every group (server/wide.h) */
    CLUSTERRULE_LEADERS, /* is about ranges: asks those who lead their groups (server/rangeask.h) */
    CLUSTERRULE_TRANSACTION, /* MULTI, EXEC and their like (server/wideexec.h) */
    CLUSTERRULE_HERE,    /* is about the connection or about this node, which answers it by itself */
    CLUSTERRULE_ASKED,   /* changes the cluster's map: the raft thread sees to it */
    CLUSTERRULE_REFUSED, /* "ERR SAVE is not available in a cluster" */
};

enum clusterrule clusterrules_of(const struct command *c);

/* The table of commands of a node. Freed as that of server_commands. */
struct command_table *clusterrules_commands(void);
