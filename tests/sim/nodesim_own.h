/* The inside of nodesim.h, for its files. */
#pragma once
#include "cluster/metahost.h"
#include "cluster/raftlog.h"
#include "cluster/raftnode.h"
#include "cluster/seat.h"
#include "cluster/snapfetch.h"
#include "cluster/snapsend.h"
#include "cluster/snapshelf.h"
#include "cluster/txn.h"
#include "nodesim.h"
#include "shard/engine.h"
#include "shard/seating.h"
#include "wgl.h"

enum {
    NODESIM_NODES = 5,
    NODESIM_DATA = 4, /* groups in the beginning; */
    NODESIM_NEW = 2,  /* and so many that are made by splits, at most */
    NODESIM_GROUPS = META_FIRST_DATA_GROUP + NODESIM_DATA + NODESIM_NEW,
    NODESIM_CLIENTS = 8,
    NODESIM_PLAIN_KEYS = 18,
    NODESIM_PAIRS = 6, /* of keys that transactions use together */
    NODESIM_LINE = NODESIM_PLAIN_KEYS + 2 * NODESIM_PAIRS, /* from here on: keys of one key space, that has an order (nodesim_range.c) */
    NODESIM_LINE_KEYS = 8,
    NODESIM_KEYS = NODESIM_LINE + NODESIM_LINE_KEYS,
    NODESIM_KEY_BYTES = 16,
    NODESIM_OPS = 256, /* operations of a run, mostly */
    NODESIM_FIRST_LOCKER = NODESIM_CLIENTS + NODESIM_KEYS, /* numbers of clients: those that lock ranges, */
    NODESIM_LOCKERS = 4,
    NODESIM_FIRST_PIPE = NODESIM_FIRST_LOCKER + NODESIM_LOCKERS, /* send pipelines, */
    NODESIM_PIPES = 2,
    NODESIM_FIRST_LISTER = NODESIM_FIRST_PIPE + NODESIM_PIPES, /* list all keys, */
    NODESIM_LISTERS = 2,
    NODESIM_FIRST_TXN = NODESIM_FIRST_LISTER + NODESIM_LISTERS, /* want transactions */
    NODESIM_WORDS = 8,
    NODESIM_WORD_BYTES = 40,
};

#define NODESIM_SPACE "line" /* the key space whose order is used; nobody has set it at first */

/* What happens to a node, and (from CLIENT on) to nobody's. */
enum nodesim_task {
    NODESIM_TURN, /* of the raft thread */
    NODESIM_WRITTEN,
    NODESIM_CHORE,
    NODESIM_RETRY,
    NODESIM_WORK,    /* the worker's inbox */
    NODESIM_UPKEEP,  /* the worker's clock: expiry */
    NODESIM_REQUEST, /* a client's message */
    NODESIM_LEG,     /* a request to a group, */
    NODESIM_LEG_ANSWER, /* the answer to one, */
    NODESIM_LEG_TIME,   /* none came */
    NODESIM_TXN_BEGIN,
    NODESIM_TXN_WAKE,
    NODESIM_WIDE_WAKE,
    NODESIM_LIST_WAKE, /* commands over all keys: a map has come, or it is time */
    NODESIM_FORWARD, /* the next round of a write that is sent on */
    NODESIM_PROBE,   /* another worker asks in which term this node is, */
    NODESIM_PROBE_ACK,  /* the answer to that, */
    NODESIM_PROBE_TIME, /* none came */
    NODESIM_CARE,
    NODESIM_MOVER,   /* the mover's turn, */
    NODESIM_MOVER_FOUND, /* what there is to drive, */
    NODESIM_MOVER_TOLD,  /* what group 1 was told */
    NODESIM_LOOK,    /* answers that wait */
    NODESIM_MOVER_LOOK, /* from here on the raft thread's */
    NODESIM_MOVER_TELL,
    NODESIM_JOB,     /* the snapper */
    NODESIM_COURIER,
    NODESIM_BEGIN,
    NODESIM_CLIENT,
    NODESIM_ANSWER,
    NODESIM_TIMEOUT,
    NODESIM_ADMIN,
    NODESIM_TXN_CLIENT,
    NODESIM_TXN_END,
    NODESIM_TXN_TIMEOUT,
    NODESIM_LOCK,
    NODESIM_PIPE,
    NODESIM_LIST,
    NODESIM_TOPOLOGY, /* the key space's administrator */
    NODESIM_STRIKE,
};

/* ---- clients */

struct nodesim_request { /* on its way to a node: it may arrive when the client has long given up */
    uint32_t client, attempt, argc;
    uint16_t db;
    uint32_t times; /* a pipeline of so many of the same; 0: of one. They have numbers of attempts of their own, from this one on */
    bool stale;     /* a read: whoever gets it answers it, if it has a replica */
    bool forward;   /* a write: whoever gets it sends it on to who leads */
    char words[NODESIM_WORDS][NODESIM_WORD_BYTES];
};

enum nodesim_status {
    NODESIM_DONE,
    NODESIM_BOUNCED,
    NODESIM_LOST,
    NODESIM_UNCERTAIN,
    NODESIM_ASTRIDE, /* nothing happened: its keys are in several groups */
};

struct nodesim_answer {
    uint32_t client, attempt;
    enum nodesim_status status;
    uint32_t leader; /* BOUNCED: a hint; 0 */
    struct buf reply;
};

struct nodesim_guest { /* ran, and its answer waits */
    uint32_t client, attempt;
    bool is_leg; /* no client's, but a request to a group (nodesim_leg.c) */
    struct hold hold;
    struct buf reply;
};

struct nodesim_client {
    bool busy, write, last; /* last: one of the reads at the end */
    bool range;             /* a command on a range */
    uint32_t key, attempt;
    uint64_t deadline;
    size_t op; /* of the history */
    uint32_t n_parts;
    struct wgl_part parts[NODESIM_LINE_KEYS];
    char names[NODESIM_LINE_KEYS][NODESIM_KEY_BYTES]; /* of the keys of a range */
    uint32_t n_names;
    uint32_t page, next_page; /* which of them this page begins with, and the next one; 0: there is none */
    struct nodesim_request request;
    uint32_t leader_of[NODESIM_KEYS]; /* as it was told; 0 */
};

/* ---- nodes */

enum nodesim_job_kind { NODESIM_RECOVER, NODESIM_REFILL, NODESIM_INSTALL, NODESIM_MARK, NODESIM_TAKE };

struct nodesim_job {
    enum nodesim_job_kind kind;
    uint32_t group, tries, trailing;
    uint64_t index, term, at_ms;
    bool is_filled; /* REFILL: the seat is not what the log thinks */
    int rc;         /* INSTALL: it could not be had */
};

enum nodesim_stage { NODESIM_IDLE, NODESIM_BEGUN, NODESIM_FILLING, NODESIM_FILLED, NODESIM_CUT, NODESIM_WRITING };

struct nodesim_snap {
    struct snapshelf shelf;
    struct snapsend *send;
    struct snapfetch *fetch;
    struct nodesim_job jobs[4 * NODESIM_GROUPS];
    uint32_t n_jobs;
    struct nodesim_job now; /* under way */
    struct seat *seat;      /* that it fills */
    enum nodesim_stage stage;
    uint64_t serial;  /* of the job: who tells of an older one is not heard */
    bool planned;     /* a JOB is on its way */
    bool unwanted;    /* the group of the job was dropped */
    uint64_t courier_at; /* UINT64_MAX: no COURIER is on its way */
    uint64_t marked[NODESIM_GROUPS], delete_at[NODESIM_GROUPS]; /* older snapshots go then */
    struct groupsnap_reader *reader; /* BEGUN: what the seat is to be filled with; NULL: nothing */
    struct groupsnap_header header;
    struct seat_mark mark;           /* CUT */
    struct buf raw;
    uint64_t entries;
    struct groupsnap_writer *writer; /* WRITING */
};

struct nodesim_node { /* a process. As long as the machine has no node of the cluster it is nothing but the first two */
    struct nodesim *sim;
    uint32_t id;
    bool member;
    uint64_t clock, mono; /* the machine's, and one made of it that does not go back */

    struct raftlog *log; /* NULL: it has crashed */
    struct raftnode *raft;
    struct termboard *board;
    struct raftlog_write write;
    struct raftlog_chore chore;
    bool writing, choring, woken;
    uint32_t turns;
    struct metahost *meta;
    char peers[NODESIM_NODES + 1][32]; /* addresses; empty: none */
    bool leads[NODESIM_GROUPS];
    bool ends; /* it was declared gone */
    uint64_t raft_until; /* the raft thread stands still until then, by the world's time, */
    struct buf late;     /* and finds these frames: sender u32, its incarnation u32, length u32, bytes */

    struct engine *engine;
    struct worker *worker;
    struct seats *seats;
    struct seating seating; /* goes between the engine and the seats' own, */
    const struct seating *real; /* which is this */
    uint64_t admitted;      /* the reign in which the running command was */
    bool busy;              /* a command stands still in the middle */
    bool planned_work, planned_look;
    struct nodesim_guest *guests;
    uint32_t n_guests, cap_guests;

    struct nodesim_snap snap;
    struct nodesim_txn_node *txns;
    struct nodesim_forward_node *forwards;
    struct nodesim_list *lists; /* commands over all keys, under way */
    struct nodesim_wide *wide; /* commands over several groups, under way */
    struct nodesim_mover_node *mover;
};

/* What a machine has besides its disk. */
struct nodesim_machine {
    bool member, gone, joining, leaving;
    uint64_t incarnation, instance;
    char address[32], clients[32], name[16];
    char peers[NODESIM_NODES + 1][32]; /* the file PEERS */
    int64_t skew_ms; /* between the world's clock of it and the time of day */
};

struct nodesim {
    struct world *w;
    enum nodesim_mutant mutant;
    struct command_table *commands;
    struct slog log;
    uint32_t founders;
    bool load, admin, changes; /* there are clients; and faults; the line's topology changes */
    uint32_t split_node;  /* until then every other client reaches this node alone, and reads; the others do not reach it */
    uint64_t split_until;
    bool impatient; /* silent nodes are given up */
    struct nodesim_topology *topology;
    struct nodesim_moves *moves;
    struct nodesim_locks *locks;
    struct nodesim_pipes *pipes;
    struct nodesim_lists *lists;
    uint32_t think_us;
    uint32_t held; /* a command stands still somewhere */
    struct nodesim_machine machines[NODESIM_NODES + 1];
    struct nodesim_client clients[NODESIM_CLIENTS + NODESIM_KEYS]; /* the last ones read each key in the end */
    uint64_t unique;
    struct nodesim_request *requests;
    uint32_t n_requests, cap_requests;
    struct nodesim_answer *answers;
    uint32_t n_answers, cap_answers;
    struct nodesim_txns *txns;
    uint64_t wides; /* numbers of commands over several groups */
    struct nodesim_legs *legs;
    struct nodesim_probe *probes;
    uint32_t n_probes, cap_probes;
    struct wgl *history;
    struct nodesim_result *result;
};

extern const uint8_t nodesim_cluster[META_CLUSTER_ID];

/* ---- nodesim.c */
extern const struct world_program nodesim_program;
void nodesim_become(struct nodesim_node *n);  /* the machine has a node of the cluster now */
void nodesim_wake(struct nodesim_node *n);    /* the raft thread shall turn soon */
void nodesim_plan_work(struct nodesim_node *n);
void nodesim_send(struct nodesim_node *n, uint64_t peer, struct slice frames);
int64_t nodesim_unix_ms(const struct nodesim_node *n);
void nodesim_hold_raft(struct nodesim_node *n, uint64_t us); /* it stands still */
bool nodesim_raft_runs(const struct nodesim_node *n); /* else nothing of it may be called */
void nodesim_begin_turn(struct nodesim_node *n);
void nodesim_end_turn(struct nodesim_node *n);
void nodesim_free_rest(struct nodesim_node *n); /* of a process that died in the middle of a command, which has ended now */
struct rng *nodesim_rng(const struct nodesim_node *n);

/* ---- nodesim_calls.c */
extern const struct raftnode_out nodesim_upcalls;       /* ctx is a node, as below */
extern const struct metahost_calls nodesim_meta_calls;
void nodesim_make_seats(struct nodesim_node *n); /* of its engine */

/* ---- nodesim_snap.c */
void nodesim_snap_open(struct nodesim_node *n);
void nodesim_snap_close(struct nodesim_node *n);
void nodesim_snap_put(struct nodesim_node *n, const struct nodesim_job *job);
void nodesim_snap_drop(struct nodesim_node *n, uint32_t group);
void nodesim_snap_job(struct nodesim_node *n);
void nodesim_snap_courier(struct nodesim_node *n);
void nodesim_snap_plan(struct nodesim_node *n);
void nodesim_snap_frame(struct nodesim_node *n, uint64_t from, const struct wire_frame *f);
void nodesim_snap_describe(struct nodesim_node *n, uint32_t group, uint64_t index, struct buf *out);
void nodesim_snap_install(struct nodesim_node *n, uint32_t group, uint64_t from, uint64_t index, uint64_t term, struct slice descriptor);
void nodesim_snap_marked(struct nodesim_node *n, uint32_t group, uint64_t index);

/* ---- nodesim_client.c */
/* A client's message has come. False: the process died in the middle of it. */
bool nodesim_client_request(struct nodesim_node *n, uint32_t request);
struct nodesim_run {
    uint32_t group; /* of a coordinator, which names it; else SEATING_NO_GROUP */
    const struct slice *argv;
    uint32_t argc, times;
    uint16_t db;
    bool stale;
    const struct ticket *ticket; /* of a write that another node may have sent; NULL */
    uint32_t from; /* the node that has sent it, */
    uint64_t term; /* and in which term of the group that was then; 0: it did not say */
};
/* Runs a command, for the guest g. False as above. */
bool nodesim_client_run(struct nodesim_node *n, const struct nodesim_guest *g, const struct nodesim_run *r);
void nodesim_client_tell(struct nodesim *s, uint32_t client, uint32_t attempt, enum nodesim_status status, struct slice reply); /* an answer goes to it */
bool nodesim_client_post(struct nodesim *s, uint32_t node, const struct nodesim_request *r); /* false: no such node is there */
bool nodesim_is_sum(uint32_t pair); /* else of words */
void nodesim_key_name(char out[NODESIM_KEY_BYTES], uint32_t key);
uint32_t nodesim_pair_key(uint32_t pair, uint32_t side);
void nodesim_client_look(struct nodesim_node *n); /* what can be answered now */
void nodesim_client_begin(struct nodesim *s, uint32_t client);
void nodesim_client_answer(struct nodesim *s, uint32_t answer);
void nodesim_client_timeout(struct nodesim *s, uint32_t client, uint32_t attempt);
void nodesim_client_read_all(struct nodesim *s); /* each key, by clients that do not give up */
void nodesim_client_judge(struct nodesim *s);

/* ---- nodesim_range.c */
void nodesim_range_key(char out[NODESIM_KEY_BYTES], uint32_t i); /* of the line */
bool nodesim_range_is_sum(uint32_t i);
uint32_t nodesim_range_sum(uint32_t which); /* two of them are sums, which transactions use together */
void nodesim_range_ask(struct nodesim *s, struct nodesim_client *c, bool reads); /* a command on a range that begins with the client's key */
void nodesim_range_go_on(struct nodesim_client *c); /* the next page of it */
bool nodesim_range_refuses(struct slice reply); /* nothing happened, and that may be */
void nodesim_range_return(struct nodesim *s, struct nodesim_client *c, struct slice reply); /* its answer, for the history */

/* ---- nodesim_lock.c */
void nodesim_lock_new(struct nodesim *s);
void nodesim_lock_start(struct nodesim *s);
void nodesim_lock_free(struct nodesim *s);
void nodesim_lock_event(struct nodesim *s, uint64_t arg);
void nodesim_lock_answer(struct nodesim *s, const struct nodesim_answer *a);

/* ---- nodesim_pipe.c */
void nodesim_pipe_new(struct nodesim *s);
void nodesim_pipe_start(struct nodesim *s);
void nodesim_pipe_free(struct nodesim *s);
void nodesim_pipe_event(struct nodesim *s, uint64_t arg);
void nodesim_pipe_answer(struct nodesim *s, const struct nodesim_answer *a);

/* ---- nodesim_list.c */
void nodesim_list_new(struct nodesim *s);
void nodesim_list_start(struct nodesim *s);
void nodesim_list_free(struct nodesim *s);
void nodesim_list_event(struct nodesim *s, uint64_t arg);
void nodesim_list_answer(struct nodesim *s, const struct nodesim_answer *a);
bool nodesim_list_begin(struct nodesim_node *n, const struct nodesim_request *r); /* false: the command is not over all keys */
void nodesim_list_wake(struct nodesim_node *n);
void nodesim_list_close(struct nodesim_node *n);

/* ---- nodesim_leg.c */
struct nodesim_call { /* what is called when all requests have their answers */
    void (*done)(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n);
    void *ctx; /* lives as long as the node, or until then */
    uint64_t arg;
    uint16_t db; /* that the requests are about */
};
void nodesim_leg_new(struct nodesim *s);
void nodesim_leg_free(struct nodesim *s);
void nodesim_leg_close(struct nodesim_node *n); /* its calls are not answered any more */
void nodesim_leg_send(struct nodesim_node *n, const struct nodesim_call *who, const struct txn_request *requests, uint32_t count, uint32_t timeout_ms);
/* The same with one request, which is a client's write and has a number. */
void nodesim_leg_send_numbered(struct nodesim_node *n, const struct nodesim_call *who, const struct txn_request *request, const struct ticket *ticket, uint32_t timeout_ms);
bool nodesim_leg_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg); /* false: the process died in the middle of it */
void nodesim_leg_reply(struct nodesim_node *n, const struct nodesim_guest *g, enum nodesim_status status, uint32_t leader, struct slice reply);

/* ---- nodesim_proof.c */
enum seat_outcome nodesim_proof(struct nodesim_node *n, struct hold *h); /* of one that is unproven: LOST, or it is asked for */
void nodesim_proof_by(struct nodesim_node *n, struct hold *h, uint32_t node, uint64_t term); /* the node that sent the request was in this term then */
void nodesim_proof_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t probe);

/* ---- nodesim_txn.c */
void nodesim_txn_new(struct nodesim *s);
void nodesim_txn_start(struct nodesim *s); /* its clients */
void nodesim_txn_free(struct nodesim *s);  /* when the world is gone */
void nodesim_txn_open(struct nodesim_node *n);
void nodesim_txn_close(struct nodesim_node *n);
void nodesim_txn_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg);
void nodesim_txn_event(struct nodesim *s, enum nodesim_task kind, uint64_t arg);     /* of clients */
void nodesim_txn_check(struct nodesim *s, struct nodesim_node *leader, uint32_t group); /* in the end */

/* ---- nodesim_forward.c */
void nodesim_forward_open(struct nodesim_node *n);
void nodesim_forward_close(struct nodesim_node *n);
void nodesim_forward_begin(struct nodesim_node *n, const struct nodesim_request *r);
void nodesim_forward_go_on(struct nodesim_node *n, uint64_t id);

/* ---- nodesim_wide.c */
void nodesim_wide_begin(struct nodesim_node *n, const struct nodesim_guest *g, const struct nodesim_run *r); /* a command on a range, of a client */
void nodesim_wide_wake(struct nodesim_node *n, uint64_t id);
void nodesim_wide_close(struct nodesim_node *n);
void nodesim_wide_spoil(const struct nodesim *s, uint32_t group, struct slice command, struct slice reply, struct buf *out); /* a mutant: what is heard of a group's reply */

/* ---- nodesim_mover.c */
void nodesim_mover_new(struct nodesim *s);
void nodesim_mover_free(struct nodesim *s);
void nodesim_mover_open(struct nodesim_node *n);
void nodesim_mover_close(struct nodesim_node *n);
void nodesim_mover_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg);
void nodesim_mover_raft(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg); /* on the raft thread */
void nodesim_mover_spoil(struct nodesim *s, struct slice *argv, uint32_t argc, char *word, size_t size); /* a mutant: the request says another thing, perhaps with this word */
void nodesim_mover_check(struct nodesim *s, struct nodesim_node *leader, uint32_t group); /* in the end */

/* ---- nodesim_topology.c */
void nodesim_topology_new(struct nodesim *s);
void nodesim_topology_free(struct nodesim *s);
void nodesim_topology_start(struct nodesim *s);
void nodesim_topology_admin(struct nodesim *s);
bool nodesim_topology_is_set(const struct nodesim *s); /* the line is, by the latest map; else it is a bucket by default */
void nodesim_topology_no_group(struct nodesim *s); /* that was asked for will come */
void nodesim_topology_strike(struct nodesim *s, uint64_t arg);
void nodesim_topology_step(struct nodesim_node *n, enum metaops_step to); /* the driver is about to say it */
void nodesim_topology_order(struct nodesim_node *n, uint32_t driver, struct slice name); /* the driver's order has come to this node, which may lead the group */
void nodesim_topology_map(struct nodesim_node *n, const struct space_map *m); /* the node has this map now */
uint32_t nodesim_topology_blind(const struct nodesim *s); /* a node that is cut off from the map; 0 */
bool nodesim_topology_blinds(const struct nodesim *s, uint32_t from, uint32_t to, const struct wire_frame *f); /* the frame is lost: one of them is cut off from the map */

/* ---- nodesim_story.c */
bool nodesim_story_has_group(struct nodesim *s, uint32_t group); /* some node knows of it */
void nodesim_story_ask(struct nodesim *s, enum metahost_question kind, uint32_t node, const struct slice *argv, uint32_t argc); /* some node */
void nodesim_story_admin(struct nodesim *s);
