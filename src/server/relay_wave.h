/* A wave and its messages: what relay_wave.c (life, events), relay_round.c (rounds), relay_message.c (messages to other nodes) and relay_call.c (waves of this node itself) share. */
#pragma once
#include "server/relay_call.h"
#include "server/relay_parts.h"

enum asked_state {
    ASKED_OPEN,      /* goes in the next round */
    ASKED_UNDER_WAY,
    ASKED_LOST,      /* it ran, or may have, to no effect: goes again if it is still its turn */
    ASKED_OVER,      /* has its reply */
};

enum asked_why { ASKED_NOBODY, ASKED_BUSY, ASKED_STALE };

struct asked { /* a request of an unfolded wave */
    uint32_t group;
    uint8_t state;
    bool here;   /* its reply is in here_out, else in replies */
    bool happened; /* or may have: those before it cannot go again */
    bool struck; /* its group has bounced: it goes last, so that it holds up no others */
    uint8_t why; /* enum asked_why: why it did not run the last time */
    uint8_t fate; /* enum call_fate, when it is over */
    bool unsure; /* a write with a number: it may have happened, and who leads will know it again */
    uint32_t slot; /* its number; seq 0: it has none, because it was never sent to another node */
    uint64_t seq;
    size_t at, n; /* its reply; or, if it was refused, what the newer map says */
};

/* Who asks: a connection, or this node itself. */
struct asker {
    struct conn *conn; /* one of the two is NULL */
    struct call *call;
    struct task *task; /* has the requests */
    uint32_t timeout_ms;
    uint16_t db;
    uint8_t resp;
    bool no_touch, stale;
};

struct wave {
    struct wave *next, **back; /* of the front's, or of the spare ones */
    struct relay_front *rf;
    struct asker asker;
    uint32_t first, end; /* of its requests */
    bool whole;
    bool running;        /* its task is on its way */
    bool forgotten;
    bool paused;         /* until retry_ms */
    bool bounced;        /* some request has */
    bool numbered;       /* some request has a number */
    bool unsure;         /* some request is, or was */
    int64_t deadline_ms, round_ms; /* round_ms: when it began */
    int64_t retry_ms;    /* when the next round begins */
    uint32_t pause_ms;   /* after the next round without an answer */
    uint64_t map;        /* its version when the round began */
    uint64_t needs_map;  /* somebody refused a request by a map of this version */
    uint32_t left;       /* requests without an answer when the round began */
    /* Holds of what runs here: [first_hold, n_holds) of task, those before next_hold are settled. */
    struct task *task;   /* the connection's, or own */
    uint32_t first_hold, next_hold, n_holds;
    size_t out_from;     /* where their replies begin in the task's output */
    /* Unfolded: */
    struct asked *asked; /* [end - first] */
    uint32_t cap_asked;
    uint32_t under_way;
    struct task own;
    struct ticket *tickets; /* of its requests, if some have a number */
    uint32_t cap_tickets;
    uint32_t *here, n_here, cap_here; /* requests of own */
    struct buf here_out, replies;
    size_t out_gap;      /* of a whole wave that was unfolded: what its holds' places are too high by */
    struct relay_message *messages;
};

struct relay_message { /* under way to another node */
    struct relay_message *next; /* of the wave */
    struct wave *wave;
    uint64_t id, peer;
    uint64_t lane; /* by which it went; 0: by none */
    int64_t sent_ms;
    uint32_t group; /* of the first */
    bool once;      /* one of them writes and has no number: if it is lost, nobody can tell what became of it */
    bool full;
    uint32_t n, cap;
    size_t bytes;
    uint32_t *requests; /* of the wave */
};

static inline const struct relay_cluster *relay_wave_cluster(const struct wave *w) { return &w->rf->relay->cluster; }
static inline struct task *relay_wave_task(const struct wave *w) { return w->asker.task; }
static inline const struct request *relay_wave_request(const struct wave *w, uint32_t i) { return &relay_wave_task(w)->requests[w->first + i]; }
static inline const struct slice *relay_wave_argv(const struct wave *w, uint32_t i) { return relay_wave_task(w)->args + relay_wave_request(w, i)->first_arg; }
static inline uint32_t relay_wave_size(const struct wave *w) { return w->end - w->first; }
static inline bool relay_wave_writes(const struct wave *w, uint32_t i) { return relay_wave_request(w, i)->cmd->flags & CMD_WRITE; }
/* Whether it gets a number when it goes to another node. Most of groups' own commands need none: whoever sends them sends them again if need be. */
static inline bool relay_wave_numbers(const struct wave *w, uint32_t i)
{
    uint32_t flags = relay_wave_request(w, i)->cmd->flags;
    return flags & CMD_WRITE && (!(flags & CMD_OF_GROUP) || flags & CMD_ONCE);
}
static inline bool relay_wave_stops(const struct wave *w) { return w->rf->front->stopping; }

/* ---- relay_wave.c */

void relay_wave_go_on(struct wave *w); /* as far as it goes; it may end */
void relay_wave_start(struct relay_front *rf, const struct asker *a); /* of this node itself: all its requests */
struct slice relay_wave_reply(const struct wave *w, uint32_t i); /* of one that is over */

/* ---- relay_call.c */

void relay_call_take(struct call *c, const struct wave *w); /* the replies of its wave, which has ended */
void relay_call_over(struct call *c);                       /* done */

/* ---- relay_round.c */

void relay_round_unfold(struct wave *w, enum asked_state state); /* every request for itself */
/* Something became of a request of a wave that was whole. Its replies stand behind those of earlier waves: they are taken from there. */
void relay_round_unfold_whole(struct wave *w);
void relay_round_begin(struct wave *w, int64_t now_ms); /* the first: of a wave that was unfolded, all open */
bool relay_round_go(struct wave *w); /* goes as far as it goes now; true: every request has its answer */
void relay_round_struck(struct wave *w, uint32_t i, enum asked_why why); /* request i has bounced, and with it those of its group */
void relay_round_refused(struct wave *w, uint32_t i, struct slice reply); /* the fence refused it: relay_fence_read */
void relay_round_answer(struct wave *w, uint32_t i, struct slice reply);
void relay_round_doubt(struct wave *w, uint32_t i); /* it is a write, and may have happened */
void relay_round_lose(struct wave *w, uint32_t i);  /* nobody knows what became of it */
void relay_round_lose_holds(struct wave *w);       /* which have no outcome for too long */
enum asked_why relay_round_why(const struct wave *w, uint32_t i); /* request i bounced here */
bool relay_round_is_stale_read(const struct wave *w, const struct request *r); /* this replica is good enough for it: its client said so */

/* ---- relay_message.c */

struct relay_message *relay_message_to(struct wave *w, uint64_t peer, uint32_t group); /* the wave's, or a new one */
bool relay_message_add(struct relay_message *m, uint32_t i); /* false: it is full, and so it is for all that follow */
void relay_message_write(struct relay_message *m);
/* What a request of the wave says of itself where it is sent. */
void relay_message_ticket(const struct wave *w, uint32_t i, struct ticket *out);
void relay_message_free_numbers(struct wave *w, uint32_t from); /* requests from this one on are over, or not the wave's any more */
void relay_message_free(struct relay_message *m);
struct relay_message *relay_message_find(const struct relay_front *rf, uint64_t id, uint64_t from); /* NULL: it was given up */
/* Whether messages reach a node: it has answered since its connection broke. If not it is asked whether it is there; by its relay, which has the messages of data groups. */
bool relay_message_reaches(struct relay_front *rf, uint64_t peer, uint32_t group, int64_t now_ms);
bool relay_message_is_pong(uint64_t id);
