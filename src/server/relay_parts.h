/* What the parts of the relay (server/relay.h) share: relay.c has its life and the threads' meeting points, relay_wave.c, relay_round.c and relay_message.c the waves of clients, relay_guest.c the requests of other nodes,
 * relay_call.c this node's own requests, relay_lane.c and relay_proof.c the lanes between workers and what they tell each other (server/relay_lane.h), relay_fence.c what the fence says, relay_wait.c and relay_stay.c commands that wait (server/relay_wait.h), relay_code.c the messages, relay_node.c the real cluster.
 *
 * Everything of a struct relay_front belongs to its front's thread, but for what is marked. */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"
#include "cluster/seat.h"
#include "cluster/wirecall.h"
#include "route/place.h"
#include "server/front.h"
#include "server/relay.h"
#include "shard/seating.h"
#include "shard/task.h"

enum {
    RELAY_ARGS_MAX = 8 * 1024 * 1024,    /* bytes of one command's arguments, and from where on a message is full */
    RELAY_OWN_MORE = 64 * 1024,          /* that a group's own commands may have besides: they carry what came with a command of a client's, and say something of it */
    RELAY_ARG_COST = 8,                  /* of each argument, besides its bytes: so that there cannot be too many for a message */
    RELAY_TIMEOUT_MS = 5000,
    RELAY_LATE_MS = 20,                  /* an answer to a probe takes a round trip */
    RELAY_STOP_MS = 1000,                /* what is under way when the server stops has so long */
};

_Static_assert((RELAY_ARGS_MAX + RELAY_OWN_MORE) / RELAY_ARG_COST < WIRECALL_ARGS_MAX, "what is not too long has not too many arguments either, and a head besides");

/* The cluster, as far as the relay needs it: relay_set_node gives that of a node, tests have their own. Any thread. */
struct relay_cluster {
    void *ctx;
    uint64_t self;                                                        /* this node's number */
    bool (*serves)(void *ctx, uint32_t group);                            /* seats_serves */
    uint64_t (*leader)(void *ctx, uint32_t group);                        /* node_leader */
    void (*leader_is)(void *ctx, uint32_t group, uint64_t leader);
    enum seat_outcome (*outcome)(void *ctx, const struct hold *h);
    void (*hurry)(void *ctx);                                             /* there are new holds, or frames were sent */
    void (*send)(void *ctx, uint64_t peer, struct slice frames);          /* leaves with the next hurry */
    void (*ask)(void *ctx, struct hold *h);                               /* seat_ask */
    const struct termboard *board;                                        /* NULL: there are no lanes */
};

struct call;
struct probing;
struct proof;
struct relay_lane;
struct relay_message;
struct wave;
struct guest;
struct relay_wait;
struct stay;

/* A node that something was sent to. Frames that are sent while it cannot be reached vanish without a word, so nothing goes there until it has answered a ping. */
struct relay_peer {
    uint64_t id;
    struct buf frames; /* of this turn */
    bool reached;      /* it has answered a ping that went since the connection broke */
    uint64_t ping;     /* the number of the last one; 0: none */
    int64_t ping_ms;   /* and when it went */
};

struct relay_counts { /* one writer, read by anyone: relaxed */
    uint64_t waves, here, forwarded, bounced, retried, guests, stale, repeated, uncertain, timed_out, lanes, proven;
};

struct relay_place {
    uint64_t round; /* it is of another one: not known */
    uint64_t node;
};

/* Numbers of the writes that a front sends to other nodes (cluster/once.h). */
struct relay_numbers {
    uint64_t session, last;
    uint32_t made; /* slots, from 1 on */
    uint32_t *free, n_free, cap;
};

struct relay_front {
    struct relay *relay;
    struct front *front;
    struct relay_peer *peers;
    uint32_t n_peers;
    struct relay_message **slots; /* messages under way, by the slot that is in their number */
    uint32_t n_slots, cap_slots;
    uint32_t *free_slots, n_free;
    uint32_t serial;
    struct relay_numbers numbers;
    struct wave *waves, *spare_waves;
    struct call *calls, **last_call; /* that begin at the end of this turn */
    struct guest *guests, *spare_guests;
    struct relay_letter *early, **last_early; /* requests by a map that is not here yet */
    struct relay_wait *waits, **waits_by_id; /* of this front's clients: relay_wait.c */
    struct stay *stays, **stays_by_id;       /* on this front: relay_stay.c */
    uint32_t n_held_stays;                   /* of them, whose answer has a hold */
    struct relay_lane *lanes;                /* relay_lane.c */
    uint64_t lane_serial;
    struct proof *proofs;                    /* by group: relay_proof.c */
    uint32_t n_proofs;
    struct probing *probing;                 /* groups that the next probe asks for */
    uint32_t n_probing, cap_probing;
    uint64_t probe;                          /* the number of the last */
    struct slice *argv; /* scratch, for messages */
    uint32_t cap_argv;
    struct buf heads;
    struct task finder; /* scratch, for finding groups again */
    struct relay_place *places; /* of groups, in this round */
    uint32_t n_places;
    uint64_t round;
    int64_t look_ms;    /* when waves and guests are looked at for the sake of time; INT64_MAX: nothing is under way */
    bool hurry;         /* there are new holds, or frames were sent */
    struct mail told_mail;
    atomic_bool told;     /* that mail is on its way */
    struct mail mapped_mail;
    atomic_bool mapped;   /* likewise */
    atomic_bool listens;  /* any thread: there are holds to look at when the raft thread has news */
    struct relay_counts counts;
};

struct relay {
    struct server *server;
    struct relay_cluster cluster;
    struct relay_front *fronts; /* [engine->n_workers] */
    uint32_t n_fronts;
    _Atomic uint32_t timeout_ms;
    uint32_t late_ms; /* who has no answer to a probe by then asks Raft */
};

/* ---- relay.c */

void relay_set_cluster(struct relay *r, const struct relay_cluster *c);
int64_t relay_now_ms(void); /* of a clock that does not go back */
struct relay_peer *relay_peer(struct relay_front *rf, uint64_t id);
void relay_look_at(struct relay_front *rf, int64_t when_ms); /* at the latest */
/* There are holds now: from here on news of them come, so they are to be looked at (again) after this. */
void relay_listen(struct relay_front *rf);

static inline struct engine *relay_engine(const struct relay_front *rf) { return rf->front->worker.engine; }
static inline uint64_t relay_map_version(const struct relay_front *rf) { return route_version(&relay_engine(rf)->route); }

void relay_news(struct relay_front *rf); /* some hold may have its outcome */
enum seat_outcome relay_outcome(struct relay_front *rf, struct hold *h);

/* Why a command cannot go by relay at all; NULL: it can. */
const char *relay_unfit(const struct command *cmd);
size_t relay_args_bytes(const struct slice *argv, uint32_t argc);
bool relay_is_too_long(const struct command *cmd, const struct slice *argv, uint32_t argc); /* for a message */

/* ---- relay_wave.c */

void relay_wave_answered(struct relay_front *rf, uint64_t from, struct slice message);
void relay_wave_peer_down(struct relay_front *rf, uint64_t peer);
void relay_wave_lane_down(struct relay_front *rf, uint64_t lane);
void relay_wave_wake(struct relay_front *rf); /* a node can be reached again */
void relay_wave_news(struct relay_front *rf); /* some hold may have its outcome */
void relay_wave_mapped(struct relay_front *rf); /* another map is in force */
void relay_wave_time(struct relay_front *rf, int64_t now_ms);
void relay_wave_fini(struct relay_front *rf);

/* ---- relay_call.c */

void relay_call_turn(struct relay_front *rf); /* begins those that were sent */
void relay_call_fini(struct relay_front *rf);

/* ---- relay_guest.c */

struct relay_letter { /* a message of another node: on its way from the raft thread to a front, or there */
    struct mail mail;
    struct relay_letter *next; /* of those that are early */
    int64_t until_ms;          /* how long it may be; 0: it has just come */
    uint64_t from;
    uint64_t lane; /* on which it came, and its answer goes; 0: none */
    uint32_t group;
    uint32_t n;
    char bytes[];
};

void relay_guest_begin(struct relay_front *rf, struct relay_letter *l); /* takes l */
void relay_guest_news(struct relay_front *rf);
void relay_guest_mapped(struct relay_front *rf);
void relay_guest_time(struct relay_front *rf, int64_t now_ms);
void relay_guest_fini(struct relay_front *rf);

/* ---- relay_fence.c */

/* What the map here says of a request's first key, for one that the fence refused. False: nothing, there is no map or no key. */
bool relay_fence_text(const struct relay_front *rf, const struct command *cmd, const struct slice *argv, uint32_t argc, struct buf *out);
/* The same for who sent it: with the version of that map. */
void relay_fence_refuse(const struct relay_front *rf, const struct command *cmd, const struct slice *argv, uint32_t argc, struct buf *out);
bool relay_fence_read(struct slice reply, uint64_t *map, struct slice *text); /* false: that it is not */

/* ---- relay_code.c */

enum { /* flags of a request */
    RELAY_PING = 1,
    RELAY_NO_TOUCH = 2,
    RELAY_AGAIN = 4, /* some of its commands were sent before, and may have happened */
    /* relay_wait.h */
    RELAY_WAIT = 16, /* one command, which waits */
    RELAY_WAIT_GO = 32, /* of the one with this number; and no command, as a ping */
    RELAY_WAIT_LEAVE = 64,
    RELAY_WAIT_THERE = 128,
    RELAY_WAITS = RELAY_WAIT | RELAY_WAIT_GO | RELAY_WAIT_LEAVE | RELAY_WAIT_THERE,
};

struct relay_head { /* of a command in a message */
    uint32_t argc, group;
    uint64_t range, generation; /* the fence; both 0: none */
    uint32_t slot;              /* a write's number (cluster/once.h); seq 0: none */
    uint64_t seq;
    uint64_t term;              /* of the sender's replica of the group; 0: not said. By lanes alone */
};
void relay_code_add_head(struct buf *out, struct relay_head h);
/* The head at argv[*at], which moves on to the command's first argument; false: there is none, or its arguments are not all there. */
bool relay_code_head(const struct slice *argv, uint32_t argc, uint32_t *at, struct relay_head *h);
enum { RELAY_HEAD_BYTES = 24, RELAY_NUMBER_BYTES = 12, RELAY_TERM_BYTES = 8 }; /* number and term are there if there are any */

/* Answers: one for each command of the message, in order. */
void relay_code_add_answer(struct buf *out, enum wirecall_status status, struct slice reply);
/* Takes the first; false: it is none. */
bool relay_code_answer(struct slice *answers, enum wirecall_status *status, struct slice *reply);

/* Numbers of messages: the asking front, its slot, and a serial number that tells it from those that had the slot before. */
uint64_t relay_code_id(uint32_t front, uint32_t slot, uint32_t serial);
uint32_t relay_code_front(uint64_t id);
uint32_t relay_code_slot(uint64_t id);
bool relay_code_message_id(struct slice message, uint64_t *id); /* of a whole request or answer; false: it is too short */
