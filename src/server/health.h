/* Is the server's durability as it should be, or that of a cluster's node? A few checks, each with a state and a sentence. Pure: facts in, findings out; server/durability.c and server/clusternode.c collect the facts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>


enum health_state { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL };
enum health_check { HEALTH_WAL, HEALTH_DUMP, HEALTH_CRC, HEALTH_DISK, HEALTH_CHECKS };

struct health_facts {
    bool durable; /* false: ephemeral, and nothing else counts */
    bool loading; /* the data is not there yet */
    int64_t now_ms, started_ms;

    /* The log. Of the shard whose log since the last dump is longest, measured by what a dump would begin at. */
    uint32_t shard;
    uint64_t log_bytes, log_limit;
    int log_error; /* 0, or the errno of what fails now */
    bool log_broken;

    /* Dumps. */
    bool dumped, dumping;  /* there is a dump; one is being made */
    int64_t dumped_ms;     /* the newest one's cut */
    uint64_t dump_bytes;   /* all of its files */
    int64_t interval_s;    /* 0: none are made by age */
    uint64_t changes;      /* since that cut */
    int dump_error;        /* of the last one that ended; 0: well */

    uint64_t replay_errors; /* damaged records that the last start met */

    uint64_t disk_free, disk_total; /* for the server; total 0: the file system does not tell */
    uint64_t data_bytes;            /* in memory: what a first dump may amount to */
};

struct health_finding {
    enum health_state state;
    char text[200];
};

void health_judge(const struct health_facts *f, struct health_finding found[HEALTH_CHECKS]);

/* ---- of a node */

enum health_node_check { HEALTH_NODE, HEALTH_GROUPS, HEALTH_PEERS, HEALTH_REPLICAS, HEALTH_NODE_DISK, HEALTH_NODE_CHECKS };

struct health_node_facts {
    bool up;                     /* its replicas are back, and the map is known */
    uint32_t nodes, nodes_alive; /* of the cluster, as heard of here */
    uint32_t nodes_reached;      /* those of them that there is a connection to */
    uint32_t groups, groups_led;
    uint32_t recovering, filling; /* replicas here that are not up to date */
    int log_error;                /* 0, or the errno of why the log gets no more room */
    uint64_t disk_free, disk_total; /* total 0: the file system does not tell */
};
void health_judge_node(const struct health_node_facts *f, struct health_finding found[HEALTH_NODE_CHECKS]);
const char *health_node_check_name(enum health_node_check c); /* "groups" */

/* ---- */

enum health_state health_worst(const struct health_finding *found, int n);
const char *health_state_name(enum health_state s); /* "ok" */
const char *health_check_name(enum health_check c); /* "wal" */
