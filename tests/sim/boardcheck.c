#include "boardcheck.h"

#include "base/check.h"
#include "cluster/raftlib.h"
#include "cluster/raftnode.h"
#include "cluster/termboard.h"
#include "cluster/wireraft.h"

static uint64_t term_of(const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_REQUEST_VOTE: return m->request_vote.pre_vote ? 0 : m->request_vote.term; /* who only asks whether it would be elected is not in that term, */
    case RAFT_REQUEST_VOTE_RESULT: return m->request_vote_result.pre_vote ? 0 : m->request_vote_result.term; /* nor who answers that */
    case RAFT_APPEND_ENTRIES: return m->append_entries.term;
    case RAFT_APPEND_ENTRIES_RESULT: return m->append_entries_result.term;
    case RAFT_INSTALL_SNAPSHOT: return m->install_snapshot.term;
    case RAFT_TIMEOUT_NOW: return m->timeout_now.term;
    default: return 0;
    }
}

uint64_t boardcheck_frames(struct world *w, uint32_t node, const struct raftnode *raft, const struct termboard *board, struct slice frames)
{
    struct wire_frame f;
    struct raft_message m;
    struct raftnode_info info;
    const char *why;
    uint64_t n = 0;
    for (; frames.n && wire_frame(frames, &f, &why) == WIRE_OK; frames = slice_of(frames.p + f.whole.n, frames.n - f.whole.n)) {
        if (!wireraft_is(f.type) || raftnode_look(raft, f.group, &info) != 0) continue; /* what a replica said before it was dropped may leave after it */
        CHECK(wireraft_get(&f, node, &m) == 0);
        uint64_t shown = termboard_term(board, f.group);
        if (term_of(&m) > shown) world_fail(w, "group %u: node %u sends %s of term %llu, and its board says %llu", f.group, node, wire_type_name(f.type), (unsigned long long)term_of(&m), (unsigned long long)shown);
        n += shown > 0;
        wireraft_discard(&m);
    }
    return n;
}
