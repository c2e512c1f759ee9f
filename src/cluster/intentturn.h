/* Whose turn it is, where some write keys and others read spans that have them (cluster/intents.h): readers share a span, so one who writes there might never find it free; and where many write, one who reads the whole might not. Who waits has
 * a turn of INTENTTURN_MS, in which those of the other kind do not begin anything that is in its way; then the others have theirs, if they wait.
 *
 * Zeroed: nobody waits. One thread. Times as intents_set_time tells them. */
#pragma once
#include "cluster/intentspan.h"

enum { INTENTTURN_MS = 60 }; /* longer than the pauses of those who wait: they come again within it */

struct intentturn {
    uint64_t key_until_ms, span_until_ms;
    uint16_t db;
    struct buf key, span_bytes;
    struct intentspan span;
};

void intentturn_clear(struct intentturn *t);
/* A span was in the way of who writes the key; a key in that of who reads the span. */
void intentturn_key_waits(struct intentturn *t, uint64_t now_ms, uint16_t db, struct slice key);
void intentturn_span_waits(struct intentturn *t, uint64_t now_ms, const struct intentspan *s);
/* Whether it may begin now. */
bool intentturn_lets_key(const struct intentturn *t, uint64_t now_ms, uint16_t db, struct slice key);
bool intentturn_lets_span(const struct intentturn *t, uint64_t now_ms, const struct intentspan *s);
