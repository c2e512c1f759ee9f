/* Key space events of a transaction over several groups, as bytes: what a group's leader tells subscribers of when it applies the transaction's ops. Pure. The layout stands at the top of intentevent.c.
 *
 * Bytes come from other nodes, logs and snapshots when read: every length is checked, and what is accepted is written as the same bytes again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { INTENTEVENT_NAME_MAX = 32 }; /* bytes of an event's name; it has at least one */

struct intentevent {
    unsigned event_class; /* one of enum notify_class (command/exec.h) */
    struct slice name, key;
    uint16_t db;
};

void intentevent_add(struct buf *events, const struct intentevent *e);
bool intentevent_next(struct slice *events, struct intentevent *e); /* takes the first one; false: there is none, or what follows is none */
bool intentevent_are(struct slice events);                          /* nothing else is there */
