/* The keeper's round under way: for the keeper's own files alone. Worker 0's, but for visits. */
#pragma once
#include "server/rangekeeper.h"
#include "shard/load.h"
#include "shard/splitter.h"
#include "shard/task.h"

struct call;

enum { RANGEKEEPER_NONE = UINT32_MAX };

struct visit { /* of one of the engine's shards; its mail is the visitor's way there and back */
    struct mail mail;
    struct rangekeeper *keeper;
    uint32_t shard;
    uint32_t as;                 /* what the map calls it: itself; in a cluster the group whose seat it is */
    uint32_t first, at;          /* of its ranges, linked by next_in_shard; at: what is left to weigh */
    bool begun;
    struct load_window *window;  /* an empty one on the way there, a full one on the way back */
    int64_t taken_ms;
    double ops;                  /* of the last visit; under the keeper's lock */
    double backlog_sum;          /* of looks at the mailbox since the last round */
    unsigned backlog_looks;
};

struct kept_range {
    uint32_t next_in_shard; /* of those that are weighed by one visit, or of which one group is asked */
    struct buf median;
    struct splitter_past past;
};

/* A decision that was carried out, until the map shows it. */
struct kept_change {
    uint64_t id, generation;
};

struct rangekeeper {
    struct server *server;
    struct loads *loads;

    bool running;
    int64_t next_ms;
    struct space_map *map;        /* shares */
    struct splitter_range *ranges; /* of spaces by range, then those of buckets */
    struct kept_range *kept;      /* of each */
    uint32_t n, n_by_range, cap;
    struct visit *visits;         /* of each of the engine's shards */
    struct splitter_shard *shards; /* by the numbers that the map has for them */
    uint32_t n_shards;
    uint32_t away;                /* visits that are not back, and the call */
    const struct splitter_decision *decisions;
    uint32_t n_decisions, done;
    struct task change;           /* that carries out decisions[done] */
    struct buf failed;            /* why it could not; empty: it could */

    /* In a cluster. */
    uint32_t *asked;              /* groups of the call under way, in its order */
    uint32_t *firsts;             /* of each group: its first range, if another node leads it; as visit.first */
    uint32_t n_asked, cap_groups;
    struct mail home;             /* of the decision that the raft thread sees to */
    struct kept_change *changes;  /* of the last round */
    uint32_t n_changes;
    int64_t changes_until_ms;     /* when waiting for them ends */

    pthread_mutex_t lock;
    struct splitter *splitter;    /* under the lock, also where worker 0 uses it */
    uint64_t looks;               /* rounds in which it was asked; likewise */
};

int64_t rangekeeper_now_ms(void);
void rangekeeper_visit(struct rangekeeper *k, uint32_t shard, uint32_t as); /* a visit of this round */
void rangekeeper_is_back(struct rangekeeper *k, struct worker *w); /* one that was away: the last one lets it decide */
void rangekeeper_change_is_done(struct rangekeeper *k, struct worker *w); /* decisions[done], unless k->failed says why not */
const struct range_desc *rangekeeper_find(const struct space_map *m, const struct splitter_decision *d); /* NULL: it is no more, or has changed */

/* ---- on a node of a cluster (rangekeeper_cluster.c): groups are visited if this node leads them, their other leaders are asked, and group 1 is told what to change */
bool rangekeeper_cluster_waits(struct rangekeeper *k, const struct space_map *m); /* what was decided last does not show in the map yet */
void rangekeeper_cluster_prepare(struct rangekeeper *k);                     /* before ranges are noted */
void rangekeeper_cluster_link(struct rangekeeper *k, uint32_t range);        /* a range was noted: who weighs it */
void rangekeeper_cluster_ask(struct rangekeeper *k, struct worker *w);       /* after they were */
void rangekeeper_cluster_carry_out(struct rangekeeper *k, struct worker *w); /* decisions[done] */
