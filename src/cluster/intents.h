/* Who may touch which keys of a group while transactions over several groups are under way (docs/decisions/020): the reservations of a leader, its group's intents and decisions.
 *
 *   reservation   this leader's memory: others may read the key, but not write it. Of one transaction, or shared by several that only read it. Ends with the reign, or at its time
 *   intent        a record of the group's system database, replicated: nobody writes its keys, and nobody reads those that it writes, until it is committed or dropped
 *   decision      a record of the deciding group: the transaction has happened; with the groups that must still hear of it
 *
 * A seat has one of these, used under its token by the leader alone; at the beginning of a reign it is made anew from the records. Keys are told apart by database. An empty one costs one comparison per request. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct intents;
struct store;

enum {
    INTENTS_ID_MAX = 32,         /* bytes of a transaction's name */
    INTENTS_RESERVED_MS = 1000,  /* a reservation that is older is gone when another wants the key */
};

enum intents_use { INTENTS_READS, INTENTS_WRITES };

struct intents *intents_new(void);
void intents_free(struct intents *n);
/* A reign begins: reservations are gone, and the records of the store's system database say what is locked. */
void intents_begin(struct intents *n, struct store *s, int64_t now_ms);
bool intents_any(const struct intents *n); /* there are reservations or intents: the seat's keys neither expire nor are flushed now */

/* Whether a command that is no part of a transaction may use the key so. */
bool intents_allows(struct intents *n, uint16_t db, struct slice key, enum intents_use use, int64_t now_ms);

/* Reserves one more key for a transaction; true also if it has it already (reading becomes writing if it alone reads). */
bool intents_reserve(struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use, int64_t now_ms);
bool intents_holds(const struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use); /* reserved, and not lost since */
void intents_release(struct intents *n, struct slice id); /* all of its reservations */
