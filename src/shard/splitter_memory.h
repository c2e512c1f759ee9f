/* What the splitter remembers of a range, and how it says so: for splitter.c and splitter_text.c alone. */
#pragma once
#include "shard/splitter.h"

#define SPLITTER_NEVER INT64_MIN

enum split_verdict {
    SPLIT_NO_NEED,
    SPLIT_OFF,
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

enum merge_verdict { MERGE_FIRST /* nothing is before it */, MERGE_OFF, MERGE_BUSY, MERGE_LARGE, MERGE_WARM, MERGE_NOT_YET, MERGE_HAND, MERGE_BUDGET, MERGE_MOVES_FIRST, MERGE_NOW };
enum move_verdict { MOVE_NO_NEED, MOVE_OFF, MOVE_UNDER_WAY, MOVE_WAITS, MOVE_STAYS, MOVE_BUDGET, MOVE_CUT_OFF_BYTES, MOVE_CUT_OFF_OPS, MOVE_SPREAD, MOVE_JOINS };
enum cut_off { CUT_OFF_NOT, CUT_OFF_BY_BYTES, CUT_OFF_BY_LOAD };

struct splitter_memory {
    uint64_t id, generation;
    int64_t since_ms; /* first seen */

    /* As of the last step. */
    uint32_t shard;
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
    unsigned flaps;                   /* S6: waiting times are doubled so often */
    bool hot_by_backlog;
    struct buf middle;                /* where the load was parted evenly at hot_ms */
    bool ours;                        /* its next change is known: we made it */
    enum cut_off splitting;           /* it was split by us: what is cut off will be this */
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

/* Each appends one sentence without a full stop. */
void splitter_say_split(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);
void splitter_say_merge(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);
void splitter_say_move(const struct splitter_memory *m, const struct splitter_limits *l, int64_t now_ms, struct buf *out);

/* What two ranges may have together to merge: never more than half of what makes one split. */
uint64_t splitter_merge_bytes(const struct splitter_limits *l);
double splitter_merge_ops(const struct splitter_limits *l);
