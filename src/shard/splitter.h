/* When ranges split, move and merge by themselves: the policy alone. Pure: time and figures come in, decisions go out; the same inputs give the same decisions.
 *
 * Once a second (or as often as the owner likes) splitter_step gets the figures of all ranges and shards and says what to change; the owner does it, tells splitter_done how that went, and shows the result with the next
 * figures. Whatever was changed by others shows there too.
 *
 * The rules
 *  S1. A range splits when it is too large: beyond split_bytes, and beyond an even share of its space (PIECES ranges per shard; the number of splits so grows with the logarithm of the data, not with the data). It is cut at its byte median.
 *  S2. A range splits when it has too much to do for `sustain`: split_ops accesses per second; or most of the work of a shard in whose mailbox split_backlog tasks wait. It is cut where the load is parted most evenly, if
 *      there is a shard with clearly less to do; not if one key makes up half of the load, nor if the load travels along the keys, for then no cut parts it.
 *  S3. What a split has cut off moves to the least loaded shard (by bytes or by accesses, as the split was), once it is not about to be split again: no byte is copied for each of a chain of splits.
 *  S4. A shard that has far more to do than the others for `sustain` gives a range away, if that makes both less loaded than it was.
 *  S5. Two neighbours that are small and cold together for `settle` merge; if they are in different shards the smaller one moves first. What two ranges have to be together to merge is at most half of what makes one split.
 *  S6. After any change a range is left alone for `settle`, except by S1. One that splits again soon after it was merged, or moves again soon after a move, remembers: every time doubles its waiting time before the next merge or
 *      move of S4, up to 64-fold. Memory fades: a long rest halves it again.
 *  S7. What was cut or moved by hand is merged or moved by S4 and S5 only after HAND_MS.
 *  S8. At most max_changes changes are under way at a time, moves that go on included; the most urgent come first.
 *
 * In a cluster a shard is a group, and each node has a policy of its own, which sees all ranges and decides about those alone whose groups its node leads
 *  S9. A range that another node judges is known by what that node tells of it: figures, and what it remembers (S6, S7). When it comes to be judged here, that goes on, and its load and its cold are observed anew.
 * S10. A range moves to the node with the least to do, and there to the shard with the least, if both nodes and both shards are no worse off for it. Of two neighbours that merge the one that moves is moved by who judges it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "shard/load.h"

enum {
    SPLITTER_PIECES = 4, /* ranges per shard that a space may be cut into by its size alone: enough to even out shards */
    SPLITTER_HAND_MS = 3600 * 1000,
    SPLITTER_LOG = 64,   /* decisions that are remembered */
};

struct splitter_limits {
    bool on;
    uint64_t split_bytes, merge_bytes;
    double split_ops, merge_ops; /* per second */
    double split_backlog;        /* tasks in the mailbox, on average */
    int64_t sustain_ms, settle_ms;
    uint32_t max_changes;
};

/* What a range's judge remembers, for the next one. Negative: never. */
struct splitter_past {
    unsigned flaps;
    int64_t hand_ago_ms, merged_ago_ms, spread_ago_ms;
};

/* The ranges come in the order of spaces and keys, those of one space without a gap. Slices are borrowed for the step. */
struct splitter_range {
    uint64_t id, generation;
    struct slice space, start, end;
    uint32_t shard, to_shard;
    bool moving;       /* to to_shard; figures may be missing */
    bool unready;      /* figures are missing: it is not all in order yet, or who judges it does not answer */
    bool elsewhere;    /* another node judges it; of the load only ops are known */
    const struct splitter_past *past; /* as that node tells; NULL: not known */
    uint64_t keys, bytes;
    struct slice median; /* of its bytes; empty: none */
    struct load_figures load;
};

struct splitter_shard {
    bool away;           /* there is no such shard, or nothing is known of it: nothing moves there */
    uint64_t node;       /* that leads it; 0: there is one node only */
    uint64_t bytes;
    double ops, backlog; /* of everything that is in it */
};

enum splitter_kind { SPLITTER_SPLIT, SPLITTER_MOVE, SPLITTER_MERGE, SPLITTER_KINDS };

struct splitter_decision {
    enum splitter_kind kind;
    uint64_t id, generation; /* of the range; of two that merge: the upper one */
    struct slice space, key; /* key: where to cut; of a merge: where the upper one begins. They live until the next step */
    uint32_t shard, to_shard;
    struct slice why;        /* a sentence without a full stop */
};

struct splitter;

struct splitter *splitter_new(void);
void splitter_free(struct splitter *s);

/* Gives the number of decisions; they are to be carried out in order, and live until the next step. */
uint32_t splitter_step(struct splitter *s, int64_t now_ms, const struct splitter_limits *limits, const struct splitter_range *ranges, uint32_t n, const struct splitter_shard *shards, uint32_t n_shards,
                       const struct splitter_decision **decisions);
/* A decision was carried out, or could not be: then why says so. */
void splitter_done(struct splitter *s, const struct splitter_decision *d, bool ok, struct slice why);

struct splitter_stats {
    uint64_t done[SPLITTER_KINDS]; /* carried out */
    uint64_t failed;               /* could not be carried out: something had changed meanwhile */
    uint64_t refused;              /* times that a range should have split and could not be parted */
};
void splitter_stats(const struct splitter *s, struct splitter_stats *out);

double splitter_ops(const struct splitter *s, uint64_t id); /* accesses per second, smoothed over some seconds; 0: not known */

/* Of a range that is judged here. False: it is not. */
bool splitter_past(const struct splitter *s, uint64_t id, struct splitter_past *out);

/* In words, as of the last step: why the range did or did not split, merge and move. False: it was not there. */
struct splitter_words {
    struct buf split, merge, move;
};
bool splitter_explain(const struct splitter *s, uint64_t id, struct splitter_words *out); /* appends */
/* The last decisions and refusals about a space, newest first. Slices are borrowed. */
typedef void splitter_log_fn(void *ctx, int64_t at_ms, struct slice text);
void splitter_log(const struct splitter *s, struct slice space, splitter_log_fn *each, void *ctx);

void splitter_check(const struct splitter *s);
