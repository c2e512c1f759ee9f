/* Pages of RANGE.GET and its kin: keys and values by turns, as they are sent. */
#pragma once
#include "server/rangequery.h"

/* Walks until there are as many as the query's limit. n: how many keys; cursor (may be NULL): that of the next page, empty if there is none. False: a value cannot be read, and that has been answered. */
bool rangepage_fill(struct exec *x, struct rangequery_walk *w, struct buf *page, size_t *n, struct buf *cursor);
/* The whole answer: a cursor, 0 if it is empty, and the page. */
void rangepage_reply(struct reply *out, const struct rangequery *q, struct slice cursor, size_t n, struct slice page);
