/* The records of transactions in a group's system database, as bytes (cluster/intents.h). Pure. The layouts stand at the top of intentcode.c.
 *
 * Bytes come from logs and snapshots when read: every length is checked, and what is accepted is written as the same bytes again. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cluster/intents.h"

#define INTENTCODE_INTENTS SLICE("txn/i") /* the spaces of their keys */
#define INTENTCODE_DECISIONS SLICE("txn/d")

/* A transaction's name may be one. */
bool intentcode_is_id(struct slice id);
/* The record's key, and back. */
void intentcode_key(struct buf *out, struct slice space, struct slice id);
struct slice intentcode_id(struct slice key, struct slice space); /* of a key in that space */

/* ---- intents: begin, each key, each span, events if there are some, end with the ops (cluster/seatentry.h) */
void intentcode_begin(struct buf *out, uint32_t decider, uint32_t n); /* keys and spans together */
void intentcode_add_key(struct buf *out, const struct intents_key *k);
void intentcode_add_span(struct buf *out, const struct intentspan *s);
void intentcode_add_events(struct buf *record, struct slice events); /* as cluster/intentevent.h writes them; nothing but this record is in the buffer */
void intentcode_end(struct buf *out, struct slice ops);

struct intentcode {
    uint32_t decider, n;
    struct slice keys;  /* for intentcode_next_key */
    struct slice spans; /* for intentcode_next_span */
    struct slice events; /* for intentevent_next */
    struct slice ops;
};
bool intentcode_read(struct slice record, struct intentcode *out); /* false: it is none. That the ops are ops was looked at, too */
bool intentcode_next_key(struct slice *keys, struct intents_key *k);
bool intentcode_next_span(struct slice *spans, struct intentspan *s);

/* ---- decisions */
void intentcode_add_decision(struct buf *out, const uint32_t *groups, uint32_t n);
bool intentcode_read_decision(struct slice record, uint32_t *n);
uint32_t intentcode_group(struct slice record, uint32_t i); /* of a decision that was read */

/* ---- ops */

/* All of them decode, and are about single keys of databases that clients have, or about locks on parts of key spaces (route/spacelock.h). */
bool intentcode_are_ops(struct slice ops);
