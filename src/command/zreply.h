/* How members and scores of sorted sets are answered: a flat array in RESP2, pairs in RESP3. */
#pragma once
#include "resp/reply.h"

static inline void zreply_pair(struct reply *r, struct slice member, double score)
{
    reply_array(r, 2);
    reply_bulk(r, member);
    reply_double(r, score);
}

/* The head of a list of n members, and each of them. */
static inline void zreply_list(struct reply *r, size_t n, bool with_scores)
{
    reply_array(r, with_scores && r->resp == 2 ? 2 * n : n);
}

static inline void zreply_item(struct reply *r, struct slice member, double score, bool with_scores)
{
    if (with_scores && r->resp > 2) {
        zreply_pair(r, member, score);
        return;
    }
    reply_bulk(r, member);
    if (with_scores) reply_double(r, score);
}
