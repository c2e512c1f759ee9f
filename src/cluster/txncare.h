/* The care for transactions whose coordinator is gone (docs/decisions/020). Every node looks after the groups that it leads: what became of old intents is asked, and old decisions are carried out. Pure, as cluster/txn.h is, and
 * with the same requests.
 *
 * A look goes in three steps: list what there is; ask about old intents, and commit what was decided here; commit or drop the intents, and note decisions that every group has carried out. They are forgotten when no coordinator
 * asks about them any more (cluster/txncmd.h).
 *
 * One thread. */
#pragma once
#include "cluster/txn.h"

struct txncare;

enum {
    TXNCARE_AFTER_MS = 2000, /* an intent or a decision that is older is looked after: its coordinator is gone, or slow */
};

struct txncare_host {
    void *ctx;
    bool (*leads)(void *ctx, uint32_t group); /* this node leads that data group now, as far as it knows */
    uint32_t groups; /* numbers of groups are below this */
    void (*send)(void *ctx, struct txncare *c, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms); /* as txn_host's; ends with txncare_answered */
};

struct txncare_counts {
    uint64_t committed, dropped; /* intents */
    uint64_t settled, forgotten; /* decisions: carried out here, and gone */
    uint64_t intents;            /* there were at the last look, of any age */
};

struct txncare *txncare_new(const struct txncare_host *host);
void txncare_free(struct txncare *c);

void txncare_look(struct txncare *c); /* begins one, unless one is under way */
void txncare_answered(struct txncare *c, const struct txn_answer *answers, uint32_t n);
const struct txncare_counts *txncare_counts(const struct txncare *c);
