/* Writes that a node sends to a leader are applied once, however often they are sent (docs/decisions/024).
 *
 * A front of a node numbers what it sends: each write has a slot, which no other write of that front has at the time, and a number, which rises. When it is applied the leader leaves a record of it in the group's system database,
 * in the same entry of the log, so every replica, every snapshot and every later leader has the one with the other:
 *
 *   once/NODE-FRONT-SLOT (hexadecimal)    u64 session, u64 number, u8 1: the reply follows, 0: it was too long to be kept
 *
 * The next write with the slot takes its place: there are as many records as there have been writes under way at a time. A session is a life of the sender's process: what one of them wrote means nothing to the next.
 *
 * Thread: whoever has the seat's token. */
#pragma once
#include "base/slice.h"

struct store;
struct ticket;

enum { ONCE_REPLY_MAX = 1024 };

enum once_state {
    ONCE_NEW,       /* it has not happened */
    ONCE_HAPPENED,  /* and this is its reply */
    ONCE_FORGOTTEN, /* it has, but its reply was not kept */
    ONCE_LATE,      /* a later write has its slot: its sender has given it up, and nobody waits for it */
};
/* Of a ticket with a number. The reply is good until the store changes. */
enum once_state once_look(struct store *s, const struct ticket *t, struct slice *reply);
/* It has just been applied: its record is. */
void once_note(struct store *s, const struct ticket *t, struct slice reply);
