/* Which proposals a state machine has met, so that one which is proposed again after a lost answer is applied once. Part of the replicated state: bounded, and equal on all replicas.
 *
 * A proposer is a node; its sequence numbers rise, over restarts too (the node's incarnation in the upper half sees to that). It has at most METASEEN_WINDOW proposals open at a time:
 * the answers of that many are remembered, and what is older than the oldest of them is refused rather than guessed. Of proposers METASEEN_PROPOSERS are remembered; the one that has been silent
 * for longest makes room. Proposer 0 is nobody: such proposals are not remembered (the first entry of a group). */
#pragma once
#include "base/buf.h"
#include "cluster/meta.h"
#include "cluster/wirefield.h"

enum { METASEEN_WINDOW = 32, METASEEN_PROPOSERS = 256 };

struct metaseen_answer {
    uint64_t sequence, id;
    enum meta_code code;
};

struct metaseen_proposer {
    uint64_t node, turn; /* turn: when it last proposed, counted in proposals */
    uint32_t n;
    struct metaseen_answer answers[METASEEN_WINDOW]; /* ascending by sequence */
};

/* A zeroed struct remembers nothing. */
struct metaseen {
    uint64_t turn;
    uint32_t n;
    struct metaseen_proposer *proposers; /* ascending by node */
};

void metaseen_fini(struct metaseen *s);
/* True: the proposal is new. False: it was answered before, or is too old; the answer is in r. */
bool metaseen_new(const struct metaseen *s, uint64_t proposer, uint64_t sequence, struct meta_result *r);
void metaseen_note(struct metaseen *s, uint64_t proposer, uint64_t sequence, const struct meta_result *r);

void metaseen_encode(const struct metaseen *s, struct buf *out);
void metaseen_decode(struct metaseen *s, struct wirefield *in); /* into a zeroed one; says in->bad, and may then be filled in part */
void metaseen_check(const struct metaseen *s);
