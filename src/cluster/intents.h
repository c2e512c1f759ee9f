/* Who may touch which keys of a group while transactions over several groups are under way (docs/decisions/020): the reservations of a leader, its group's intents and decisions.
 *
 *   reservation   this leader's memory: others may read the key, but not write it. Of one transaction, or shared by several that only read it. Those of one transaction are held together: they end with the reign, at their time, or
 *                 when one of them is older than INTENTS_RESERVED_MS and another wants that key
 *   intent        a record of the group's system database, replicated: nobody writes its keys, and nobody reads those that it writes, until it is committed or dropped
 *   decision      a record of the deciding group: the transaction has happened; with the groups that must still hear of it. It locks nothing
 *
 * Besides single keys a transaction can have spans (cluster/intentspan.h), which it has read as a whole: nobody writes keys in them, there or not. Readers pass, and so do others who read spans.
 *
 * A transaction is one of these here, or nothing. A seat has one struct intents, used under its token by the leader alone; at the beginning of a reign it is made anew from the records. Keys are told apart by database. While there are
 * none, all that a request pays is one comparison. Time is told: ms of a clock that does not go back, nor jumps. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cluster/intentspan.h"

struct intents;
struct store;

enum {
    INTENTS_ID_MAX = 32,         /* bytes of a transaction's name; it has at least one, and no '/' */
    INTENTS_RESERVED_MS = 1000,  /* reservations that are older are gone when another wants one of the keys */
    INTENTS_SWEPT_MS = 10000,    /* and those are gone in any case */
};

enum intents_use { INTENTS_READS, INTENTS_WRITES };
enum intents_state { INTENTS_NONE, INTENTS_RESERVED, INTENTS_INTENT, INTENTS_DECISION };

struct intents *intents_new(uint64_t seed); /* of the hash of keys */
void intents_free(struct intents *n);
/* A reign begins: reservations are gone, and the records of the store's system database say what is locked. A record that makes no sense is a broken promise of whoever wrote it, and aborts. */
void intents_begin(struct intents *n, const struct store *s);
void intents_set_time(struct intents *n, uint64_t now_ms); /* before anything below */
/* Reservations that nobody gave back go. */
void intents_sweep(struct intents *n);

/* ---- for whoever is no transaction */

bool intents_any(const struct intents *n); /* some key is reserved or locked */
/* Whether a command may use the key so. */
bool intents_allows(struct intents *n, uint16_t db, struct slice key, enum intents_use use);
/* Whether a command may read or change all keys: what an intent will write may have happened already, and whoever knows that must see it. If not, new transactions are kept out for a moment, so that its turn comes. */
bool intents_allows_all(struct intents *n, enum intents_use use);
/* Whether a command may use all keys of a span so. If not, new transactions are kept out likewise. */
bool intents_allows_span(struct intents *n, const struct intentspan *s, enum intents_use use);
/* Some keys, in all databases, are about to leave the group. */
struct intents_leaving {
    void *ctx;
    bool (*has)(void *ctx, struct slice key);                       /* the key is one of them */
    bool (*has_some)(void *ctx, const struct intentspan *s); /* one of the span's keys is, or would be */
};
/* Reservations of any of them are gone, with their transactions. False: intents have some; new transactions are kept out likewise. */
bool intents_make_way(struct intents *n, const struct intents_leaving *keys);
bool intents_make_way_at(struct intents *n, uint16_t db, struct slice key); /* the same of one key, which is about to change whoever has reserved it */
/* Some transaction has the key: it does not expire now. */
bool intents_keeps(const struct intents *n, uint16_t db, struct slice key);

/* ---- for transactions */

enum intents_state intents_state(const struct intents *n, struct slice id);

/* Whether the transaction, which is nothing yet or has reservations, can have one more key so: true also if it has it already. Reading becomes writing if it alone reads. */
bool intents_can(struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use);
/* It has it now: it can. If it had none before, token is that of its reservations; it is not 0. */
void intents_reserve(struct intents *n, struct slice id, uint64_t token, uint16_t db, struct slice key, enum intents_use use);
uint64_t intents_token(const struct intents *n, struct slice id); /* 0: it has no reservations */
/* It has the key, reserved or locked. */
bool intents_has(const struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use);

/* The same for spans, which are read. Who waits for a span, and who for a key that others' spans have, take turns (cluster/intentturn.h). */
bool intents_can_span(struct intents *n, struct slice id, const struct intentspan *s);
void intents_reserve_span(struct intents *n, struct slice id, uint64_t token, const struct intentspan *s); /* copied */
bool intents_has_span(const struct intents *n, struct slice id, const struct intentspan *s);

struct intents_key {
    uint16_t db;
    enum intents_use use;
    struct slice key;
};
/* Its keys, one after the other; *at is NULL at first. False: that was the last. */
bool intents_next_key(const struct intents *n, struct slice id, const void **at, struct intents_key *k);

bool intents_next_span(const struct intents *n, struct slice id, const void **at, struct intentspan *s);

/* Its record was written: its reservations are an intent; or are gone, and it is decided (groups are copied; also of a decision, whose groups are others now). */
void intents_prepared(struct intents *n, struct slice id, uint32_t decider);
void intents_decided(struct intents *n, struct slice id, const uint32_t *groups, uint32_t n_groups);
/* It is nothing any more. */
void intents_remove(struct intents *n, struct slice id);

/* Intents or decisions, the oldest first; *at is NULL at first. age_ms: since this leader has known it. False: that was the last. */
struct intents_info {
    struct slice id;
    uint64_t age_ms;
    uint32_t decider;       /* of an intent */
    const uint32_t *groups; /* of a decision */
    uint32_t n_groups;
};
bool intents_next(const struct intents *n, enum intents_state state, const void **at, struct intents_info *out);

void intents_check(const struct intents *n);
