/* What the splitter remembers of ranges and shards, the step that it is in, and how it says so: for the splitter's own files alone. */
#pragma once
#include "shard/splitter.h"

#define SPLITTER_NEVER INT64_MIN
#define SPLITTER_STILL_HOT 0.4 /* of what makes a range or a shard hot, in a single second: smoothing must not make a peak longer than it is */
enum { SPLITTER_SMOOTH_MS = 3000 }; /* of figures: a second's is noise, half a minute's is too late */

enum split_verdict {
    SPLIT_NO_NEED,
    SPLIT_OFF,
    SPLIT_ELSEWHERE,
    SPLIT_ALONE,     /* there is one shard only */
    SPLIT_MOVING,
    SPLIT_UNREADY,
    SPLIT_NOT_YET,   /* hot, but not for long enough */
    SPLIT_SETTLING,
    SPLIT_EVEN,      /* no shard has clearly less to do */
    SPLIT_BUDGET,
    SPLIT_ONE_KEY,   /* from here on: refused, for no cut parts it */
    SPLIT_HOT_KEY,
    SPLIT_TRAVELS,
    SPLIT_BY_BYTES,  /* from here on: it splits */
    SPLIT_BY_OPS,
    SPLIT_BY_BACKLOG,
};
static inline bool splitter_is_refusal(enum split_verdict v) { return v >= SPLIT_ONE_KEY && v <= SPLIT_TRAVELS; }

enum merge_verdict { MERGE_FIRST /* nothing is before it */, MERGE_OFF, MERGE_ELSEWHERE, MERGE_BUSY, MERGE_LARGE, MERGE_WARM, MERGE_NOT_YET, MERGE_HAND, MERGE_BUDGET, MERGE_MOVES_FIRST, MERGE_NOW };
enum move_verdict { MOVE_NO_NEED, MOVE_OFF, MOVE_ELSEWHERE, MOVE_UNDER_WAY, MOVE_WAITS, MOVE_STAYS, MOVE_BUDGET, MOVE_CUT_OFF_BYTES, MOVE_CUT_OFF_OPS, MOVE_SPREAD, MOVE_JOINS };
enum cut_off { CUT_OFF_NOT, CUT_OFF_BY_BYTES, CUT_OFF_BY_LOAD };

struct splitter_memory {
    uint64_t id, generation;
    int64_t since_ms; /* first seen */

    /* As of the last step. */
    uint32_t shard;
    bool elsewhere;
    uint64_t keys, bytes, byte_limit; /* the limit: that of its space now */
    double ops, hottest;              /* smoothed; the share of the hottest key falls slowly and rises at once */
    double steady_ops;                /* smoothed as those of shards are */
    double shard_ops, least_ops, backlog;
    struct buf hot_key;
    uint64_t pair_bytes;              /* together with the one before */
    double pair_ops;

    /* What happened, and when. */
    int64_t changed_ms, hand_ms;      /* the last change, the last by hand */
    int64_t hot_ms, cold_ms;          /* since when it has too much to do; is small and cold with the one before; NEVER: it is not */
    int64_t merged_ms, spread_ms;     /* the last merge; the last move of S4 */
    int64_t flap_ms;                  /* when flaps changed */
    int64_t failed_ms;                /* a decision about it that could not be carried out */
    unsigned flaps;                   /* S6: waiting times are doubled so often */
    bool hot_by_backlog;
    struct buf middle;                /* where the load was parted evenly at hot_ms */
    bool ours;                        /* its next change is known: we made it */
    enum cut_off splitting;           /* it was split by us, which will show in its next generation: what is cut off will be this */
    enum cut_off cut_off;             /* it is the upper part of a split and has yet to find its shard */
    uint64_t join;                    /* it moved to be merged with this one */
    enum split_verdict refused;       /* told already; NO_NEED: not */

    /* What came of it. */
    enum split_verdict split;
    enum merge_verdict merge;
    enum move_verdict move;
    int64_t split_wait_ms, merge_wait_ms; /* until then, if it waits */
    uint32_t target;                  /* of a move */
};

struct shard_memory {
    bool away;
    double ops, backlog; /* smoothed */
    double last_ops;     /* of the last second alone */
    uint64_t bytes;
    int64_t over_ms;     /* S4; NEVER: it is not */
    uint64_t node;
    uint32_t first;      /* the first shard of the same node, which has the sums of all of them: */
    double node_ops;
    uint64_t node_bytes;
};

struct plan {
    struct splitter_decision d;
    struct splitter_memory *m, *other; /* the range; the one that it merges with, or moves to */
    struct buf space, key, why;
};

struct log_line {
    int64_t at_ms;
    struct buf space, text;
};

struct splitter {
    struct splitter_memory **memories; /* ascending by id */
    uint32_t n;
    struct shard_memory *shards;
    struct shard_memory *view; /* the same, as they will be when all that is under way and decided is done */
    uint32_t n_shards, n_there; /* there: not away */
    struct plan *plans;
    struct splitter_decision *decisions;
    uint32_t n_plans, cap_plans;
    int64_t now_ms; /* of the last step; NEVER: there was none */
    struct splitter_limits limits;
    struct splitter_stats stats;
    struct log_line log[SPLITTER_LOG];
    uint64_t logged;
};

struct step {
    struct splitter *s;
    int64_t now, passed;
    const struct splitter_limits *l;
    const struct splitter_range *ranges;
    struct splitter_memory **of; /* of each range */
    bool *taken;                 /* it is part of a decision of this step */
    double *urgency;             /* of a split */
    uint32_t n, budget;
};

/* ---- times */

static inline bool splitter_passed(const struct step *st, int64_t since, int64_t ms) { return since == SPLITTER_NEVER || st->now - since >= ms; }
static inline int64_t splitter_later(int64_t a, int64_t b) { return a > b ? a : b; }
/* S6: what a range waits for before it merges or is spread. */
static inline int64_t splitter_wait(const struct splitter_memory *m, const struct splitter_limits *l) { return l->settle_ms << m->flaps; }

static inline bool splitter_is_too_large(const struct splitter_memory *m) { return m->byte_limit && m->bytes > m->byte_limit; }

/* ---- decisions: there is a budget, and the range is not taken */
struct plan *splitter_decide(struct step *st, enum splitter_kind kind, uint32_t i, struct slice key, uint32_t to_shard);

/* ---- splitter_shards.c: how much shards and nodes have to do, and where ranges move */

void splitter_smooth(const struct step *st, double *value, double now, int64_t over_ms);
int64_t splitter_shard_smooth_ms(const struct step *st);
void splitter_take_shards(struct step *st, const struct splitter_shard *shards, uint32_t n);
/* A move that was decided, or goes on, counts as done for what is decided next. */
void splitter_shift(struct splitter *s, const struct splitter_memory *m, uint32_t from, uint32_t to);
double splitter_least_ops(const struct splitter *s); /* of those that are there */
void splitter_place_cut_off(struct step *st);  /* S3 */
void splitter_spread_overload(struct step *st); /* S4 */

/* ---- splitter_text.c */

/* Each appends one sentence without a full stop. */
void splitter_say_split(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);
void splitter_say_merge(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);
void splitter_say_move(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);

/* What two ranges may have together to merge: never more than half of what makes one split. */
uint64_t splitter_merge_bytes(const struct splitter_limits *l);
double splitter_merge_ops(const struct splitter_limits *l);
