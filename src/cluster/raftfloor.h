/* What a node remembers of a replica that it has dropped: its term and vote, and how far its log went.
 *
 * A member that was removed may be asked for its vote by one who has not heard of that, and counts it among the voters still. If it kept its log it would say no to whoever has less than it had: that is what lets majorities of before and after
 * the change meet. So when it comes back with an empty log, as a newcomer, it votes for nobody whose log is behind its former one, does not stand for election before its own log is not, and knows no older term than it did.
 *
 * Kept in the log as hard states of groups of its own, beyond RAFTNODE_GROUPS_MAX, in the batch in which the replica ends. Pure; for the owner of the log. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct raftlog;

struct raftfloor {
    uint64_t term, vote;
    uint64_t last_term, last_index; /* of the log; 0, 0: there was none */
};

void raftfloor_keep(struct raftlog *log, uint32_t group); /* its replica ends: call before raftlog_put_gone */
struct raftfloor raftfloor_of(const struct raftlog *log, uint32_t group); /* zeros: it never had one */

/* Is a log that ends there behind the former one? As Raft compares logs. */
static inline bool raftfloor_is_above(const struct raftfloor *f, uint64_t last_term, uint64_t last_index)
{
    return last_term < f->last_term || (last_term == f->last_term && last_index < f->last_index);
}
