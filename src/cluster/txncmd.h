/* The group's own commands of transactions (docs/decisions/020): what a coordinator, and whoever cleans up after one, asks of a group. Each runs under the seat's token on the leader, as any command does: ops go into the group's
 * log, and the answer waits for it. Replies are RESP2.
 *
 *   ID     the transaction's name: 1 to INTENTS_ID_MAX bytes, none of them '/'; never used again
 *   TOKEN  of the reservations that a fetch made: opaque, given back as it came. It is good as long as all of them are held without a break. Another fetch of the same name, a late copy of a message perhaps, cannot renew what was lost.
 *   OPS    what the transaction writes in this group: ops as log/opcode writes them, each behind its length (txncmd_add_op). Of keys that were fetched for writing, and of no others
 *   EVENTS key space events, as cluster/intentevent.h writes them: who applies the ops tells subscribers of them
 *
 *   txn.digest key                                    a read: 8 bytes that are others whenever the key was changed, its group has another leader, or the key another group; and the digest of its value and time of expiry, 16 bytes, if it is there. Names no group: goes to where the key is
 *   txn.run NCHECKS (db key digest)* NCOMMANDS (db argc arg*)*
 *                                                     a write: EXEC within one group. If a digest is another now: a null array, and nothing is done; else the array of replies. One that may not run so: -ERR, and nothing is done; likewise -TXNMOVED
 *   txn.fetch ID NKEYS (db use key)* [NCHECKS (db key digest)*]
 *                                                     a read: reserves all of the keys, or none; again: what is held stays, with its token. An array: TOKEN, then for each key its entry as dump/dumpfile writes it, or null.
 *                                                     use: r, to read; w, to read and write; e and k likewise, if all there is to know is whether the key exists, its type and expiry: its value is another one then
 *                                                     taken by others: -TXNBUSY. -TXNCHANGED: a digest is another now; nothing was reserved. -TXNGONE: it was prepared or decided here before. -TXNMOVED: the group does not serve a key, or not yet, or its leader's map is an older one: who asks looks again where it is
 *   txn.done ID TOKEN                                 a read: of a transaction that wrote nothing. +OK: its reservations were held to this moment, and now they are not. -TXNGONE: they were not
 *   txn.prepare ID TOKEN DECIDER OPS [EVENTS]         a write: the reservations become an intent. +OK, also if there is that intent already; -TXNGONE
 *   txn.decide ID TOKEN NGROUPS group* OPS [EVENTS]   a write, in the deciding group: applies its ops; from now on the transaction has happened, and these groups must hear of it. +OK, also if it is decided already; -TXNGONE
 *   txn.commit ID                                     a write: the intent's ops are applied, and it is gone. +OK, also if there is none
 *   txn.drop ID                                       a write: reservations and intent are gone. +OK
 *   txn.ask ID                                        a read, in the deciding group: +committed, or +none: it has not happened and never will, for its reservations are gone, too
 *   txn.settled ID                                    a write, in the deciding group, by who is not the coordinator: all groups have heard of it. The decision stays, with no groups: the coordinator may not know yet, and ask. +OK
 *   txn.forget ID                                     a write, in the deciding group: the decision is gone. +OK. By the coordinator, when it knows and all groups have committed; or by others, when the coordinator cannot ask any more
 *   txn.list AGE                                      a read: an array of two: intents (ID, DECIDER, age), decisions (ID, (group*), age), of those that this leader has had for AGE ms and more, the oldest first, at most TXNCMD_LIST_MAX of each
 *
 * "+none" is final, but it is also what is said of a decision that was forgotten. So whoever but the coordinator forgets one does it TXNCMD_KEPT_MS after it was made at the earliest, and a coordinator that does not know the fate of its
 * decision believes "none" only within TXNCMD_ASKED_MS of the moment when it first sent it; later, the fate is uncertain. */
#pragma once
#include "base/buf.h"
#include "base/slice.h"
#include "cluster/txnargs.h"
#include "command/command.h"

enum {
    TXNCMD_DIGEST_BYTES = 24,
    TXNCMD_TOKEN_BYTES = 16,
    TXNCMD_LIST_MAX = 1000,
    TXNCMD_KEPT_MS = 120 * 1000,
    TXNCMD_ASKED_MS = 60 * 1000,
};

struct intents;

extern const struct command_family txncmd_family;

/* Whether a request of the group may run now: no lock of a transaction (there are some) is in the way of what it does to its keys. These commands, too, may have to wait: run and digest, as others do. */
bool txncmd_admits(struct intents *n, const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db);

/* Whether `one` says true of every key that a request names: its own, or those of a command within it, also within txn.run. Not those of txn.fetch, which answers for itself. */
bool txncmd_all_keys(const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db, txnargs_key_fn *one, void *ctx);

void txncmd_add_op(struct buf *ops, struct slice op);
