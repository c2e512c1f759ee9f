#include "cluster/raftfloor.h"

#include "base/check.h"
#include "cluster/raftlog.h"
#include "cluster/raftnode.h"

/* Of the two groups that hold the floor of a third one. */
static uint32_t vote_group(uint32_t group) { return RAFTNODE_GROUPS_MAX + group; }
static uint32_t last_group(uint32_t group) { return 2u * RAFTNODE_GROUPS_MAX + group; }

struct raftfloor raftfloor_of(const struct raftlog *log, uint32_t group)
{
    struct raftlog_state st;
    struct raftfloor f = {0};
    if (raftlog_state(log, vote_group(group), &st)) {
        f.term = st.term;
        f.vote = st.vote;
    }
    if (raftlog_state(log, last_group(group), &st)) {
        f.last_term = st.term;
        f.last_index = st.vote;
    }
    return f;
}

void raftfloor_keep(struct raftlog *log, uint32_t group)
{
    struct raftlog_state st;
    struct raftfloor before = raftfloor_of(log, group);
    CHECK(group < RAFTNODE_GROUPS_MAX && raftlog_state(log, group, &st));
    uint64_t last_term = st.last ? raftlog_term(log, group, st.last) : 0;
    raftlog_put_hard_state(log, vote_group(group), st.term, st.vote);
    if (!raftfloor_is_above(&before, last_term, st.last)) raftlog_put_hard_state(log, last_group(group), last_term, st.last);
}
