/* Who waits for an answer of the raft thread, and for which entry, read or change. Private to raftthread.c; no thread or clock of its own. */
#pragma once
#include "cluster/raftthread.h"

struct raftledger_submit {
    uint64_t index, term;
    struct raftthread_answer answer;
};

struct raftledger_group {
    uint32_t id;
    bool leads;     /* as role() said last */
    bool stays;     /* there is nobody to hand leadership to */
    uint64_t stood; /* the last term in which it stood for election */
    bool changing;
    struct raftthread_answer change;
    struct raftledger_submit *submits; /* ascending by index, from `first` on */
    uint32_t first, n, cap;
};

struct raftledger {
    struct raftledger_group **groups; /* by ascending number */
    uint32_t n_groups, cap_groups;
    struct raftledger_read {
        struct raftthread_answer answer;
        uint32_t next_free; /* one more than its place; 0: none */
        bool open;
    } *reads; /* a read's ticket is its place */
    uint32_t n_reads, free_read;
    uint64_t waiting, uncertain; /* submits: not answered; answered with -ECANCELED */
};

void raftledger_fini(struct raftledger *l); /* ended before */

static inline void raftledger_tell(const struct raftthread_answer *a, int rc, uint64_t index)
{
    if (a->done) a->done(a->ctx, a->token, rc, index);
}

void raftledger_add(struct raftledger *l, uint32_t group);
void raftledger_del(struct raftledger *l, uint32_t group); /* nobody knows what becomes of what is open */
struct raftledger_group *raftledger_find(const struct raftledger *l, uint32_t group); /* NULL: it is not there */

void raftledger_submitted(struct raftledger *l, struct raftledger_group *g, uint64_t index, uint64_t term, struct raftthread_answer answer);
void raftledger_committed(struct raftledger *l, struct raftledger_group *g, const struct raftnode_entry *entries, uint32_t n);
/* What was submitted at this index and behind it is uncertain. */
void raftledger_void(struct raftledger *l, struct raftledger_group *g, uint64_t from);

uint64_t raftledger_read(struct raftledger *l, struct raftthread_answer answer); /* gives its ticket */
void raftledger_read_ended(struct raftledger *l, uint64_t ticket, int rc, uint64_t index);

void raftledger_changing(struct raftledger_group *g, struct raftthread_answer answer);
void raftledger_changed(struct raftledger_group *g, int rc);

void raftledger_end(struct raftledger *l, int rc); /* all that is open: submits are uncertain, the rest ends with rc */
