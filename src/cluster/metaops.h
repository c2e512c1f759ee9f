/* Topology operations: what is being done to groups, ranges and spaces, as durable little state machines in group 1, so that whoever leads next goes on or goes back. Pure.
 *
 * The log of the data group decides, the map follows: a step is proposed to group 1 after the entry that makes it true is committed in the data group named below. So at each step the map
 * knows a little less than is true, never more; whoever takes an operation over asks the data group how far it really is, and says that step. Every entry in a data group carries the number of the operation
 * and is refused there if the operation was ended the other way (the group keeps "done" and "undone" marks): of two drivers with different minds the first entry wins, and a step said twice is META_SAME.
 *
 *   kind          step       the map says                        what may be true in the data groups                          how it goes on
 *   split         planned    one range; the id of the upper      nothing                                                      -> done: two ranges in the group; or -> undone
 *                            half is taken
 *   split into a  planned    one range; the new group is there,  nothing; or groups' logs have the begin                      every first member makes its replica; begin -> walking
 *   new group                without keys
 *                 walking    two ranges, the upper one moving,   the true boundary is at or above the map's                   carry the next keys -> walking; the last -> carried
 *                            with a boundary
 *                 carried    two ranges, in two groups           groups may still have their records of it                    end -> done
 *   merge         planned    two ranges                          nothing; or (one group) the merge is in its log; or (two     propose merge -> done; or freeze -> frozen
 *                                                                groups) the upper range is frozen in its group's log         propose "no merge", thaw    -> undone
 *                 frozen     two ranges                          the upper group serves nothing of its range; the lower       propose absorb to the lower group -> absorbed
 *                                                                group's log may have the absorb                              propose "no absorb" to it         -> undoing
 *                 absorbed   one range, in the lower group       the upper group may still have its frozen range              propose release to the upper group -> done
 *                 undoing    two ranges                          the lower group will never absorb; the upper may be frozen   propose thaw to the upper group    -> undone
 *   move-range    planned    where it was                        nothing; or groups' logs have the begin                      begin -> walking; no group has begun -> undone
 *                 walking    moving, with a boundary             the true boundary is at or above the map's                   carry the next keys -> walking; the last -> carried
 *                 carried    where it is now                     groups may still have their records of it                    end -> done
 *   move-replica  planned    the members that are wanted         the newcomer may be a member with any role                   add it, wait until it votes -> added
 *                                                                                                                             remove it -> undoing
 *                 added      the same                            the newcomer votes; the other one may have left already      transfer leadership away, remove the other -> done
 *                                                                a leader with an old map may have removed the newcomer       add it again
 *                                                                                                                             (it is still there) remove the newcomer -> undoing
 *                 undoing    the members as they were before     the newcomer may still be a member                           remove it -> undone
 *   change-mode   planned    the old mode; ids of ranges taken   nothing; or the groups' logs have the begin                  begin -> walking; no key has to move -> done
 *                                                                                                                             "no change" -> undone
 *                 walking    both modes, with a boundary         the true boundary is at or above the map's                   carry the next keys -> walking; the last -> carried
 *                 carried    the new mode                        groups may still have their records of it                    end -> done
 *
 * Everything that walks only goes forward: keys that were carried over are not carried back.
 *
 * Two operations never work on the same keys, nor one on a space while its mode changes. Keys that walk (cluster/mover.h), by a change of mode or a move of a range, may take long, and each operation has its own record in its groups: so
 * several may go between the same groups side by side, of different ranges or spaces. (But while keys of an interval of the hash walk, no space changes its mode: which spaces the hash places must not change.) They do not care on which nodes a group is: its replicas may move meanwhile, or a dead one could not be replaced. Nor do they care for splits and merges of other
 * ranges, as long as those are the map's affair alone; but a group does not go meanwhile.
 *
 * A group that an operation makes has the members that its parent is wanted to have. Each of them makes its replica with this list when it sees the group (cluster/metahost_tend.c), so the list stays as it is until the group has told of itself. */
#pragma once
#include "base/buf.h"
#include "cluster/meta.h"
#include "cluster/wirefield.h"
#include "route/spaces.h"

enum metaops_kind { METAOPS_SPLIT, METAOPS_MERGE, METAOPS_MOVE_RANGE, METAOPS_MOVE_REPLICA, METAOPS_CHANGE_MODE, METAOPS_KINDS };
enum metaops_step { METAOPS_PLANNED, METAOPS_FROZEN, METAOPS_ABSORBED, METAOPS_WALKING, METAOPS_ADDED, METAOPS_UNDOING, METAOPS_DONE, METAOPS_UNDONE, METAOPS_CARRIED, METAOPS_STEPS };

const char *metaops_kind_name(enum metaops_kind k); /* "move-replica" */
const char *metaops_step_name(enum metaops_step s); /* "planned" */

/* A range that a change of mode makes. The id is 0 in a proposal and given when it is applied. */
struct metaops_range {
    uint64_t id;
    uint32_t group;
    struct slice start, end;
};

/* What an operation is about. Fields that a kind has no use for are 0. */
struct metaops_plan {
    enum metaops_kind kind;
    bool of_hash;      /* split, merge: of an interval of the hash, else of a range of `space` */
    bool new_group;    /* split: the upper half gets a group of its own */
    uint32_t group;    /* split: the range's. merge: the lower range's. move-range: where it is. move-replica: which one. */
    uint32_t other;    /* merge: the upper range's, which may be the same. move-range: where it goes. split: the new group, given when it is applied; the same group if not new_group */
    uint64_t range, generation;             /* split, move-range: of the range. merge: of the lower one */
    uint64_t range2, generation2;           /* merge: of the upper one. split: range2 is the new range's, given when it is applied */
    uint64_t from, to;                      /* move-replica: nodes; 0: only add, or only remove */
    uint64_t hash;                          /* split of_hash: where the upper half begins */
    enum space_mode mode;                   /* change-mode: the new one; generation is the space's (0: never set) */
    struct slice space, key;                /* key: split: where the upper half begins */
    const struct metaops_range *ranges;     /* change-mode: what spaces_set_mode takes */
    uint32_t n_ranges;
};

struct metaops_op {
    uint64_t id;
    enum metaops_step step;
    uint64_t driver; /* the node that sees to it; whoever leads group 1 names another when it is lost */
    struct metaops_plan plan; /* its bytes are the operation's own */
};

/* Whether the fields that the kind needs are there, and no others. NULL, or a sentence. */
const char *metaops_plan_flaw(const struct metaops_plan *p);
/* Whether the table above has this step for the kind. */
bool metaops_step_allowed(const struct metaops_plan *p, enum metaops_step from, enum metaops_step to);
bool metaops_step_ends(enum metaops_step s); /* done or undone */
/* Whether the two may not be under way together. */
bool metaops_conflict(const struct metaops_plan *a, const struct metaops_plan *b);
bool metaops_names_group(const struct metaops_plan *p, uint32_t group);

struct metaops_op *metaops_new(const struct metaops_plan *plan); /* copies; metaops_free */
void metaops_free(struct metaops_op *op);

/* All fields as they stand; for proposals and snapshots. Decoded slices lie in the input; the ranges in *storage, which the caller frees with mem_free (also if bad). */
void metaops_plan_encode(const struct metaops_plan *p, struct buf *out);
void metaops_plan_decode(struct metaops_plan *p, void **storage, struct wirefield *in);

/* "split group=4 range=9 at "users/m" to group=21", on one line. */
void metaops_text(struct buf *out, const struct metaops_plan *p);
