/* Requests about transactions, put together word by word: for cluster/txn.c and cluster/txncare.c. Zeroed: none. */
#pragma once
#include "base/buf.h"
#include "cluster/txn.h"

struct txnask {
    struct buf words;
    struct txnask_word { size_t at, n; } *args;
    uint32_t n_args, cap_args;
    struct txnask_request { uint32_t group, first_arg; } *requests;
    uint32_t n, cap; /* requests */
    struct slice *argv;
    struct txn_request *made;
};

void txnask_fini(struct txnask *a);
void txnask_clear(struct txnask *a);
void txnask_add(struct txnask *a, uint32_t group, const char *command); /* a request: its words follow */
void txnask_word(struct txnask *a, struct slice w);
void txnask_number(struct txnask *a, uint64_t n);
const struct txn_request *txnask_requests(struct txnask *a); /* [a->n]; good until the next change */
