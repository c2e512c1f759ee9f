/* The group's own commands of ranges that lie in several groups: what their coordinator (server/widerange.h) asks of a group. They reserve a span of a key space, or the locks on it, for a transaction (cluster/intents.h) and tell what is there;
 * txn.done, txn.prepare and the others of cluster/txncmd.h go on from there. Each runs under the seat's token on the leader, in the client's database.
 *
 *   ID                  a transaction's name
 *   SPACE START END     the span: ends are empty where there are none
 *   HASHES              empty: all of the span is this group's. Else its keys go by their hashes, and what is told are those of this group: which intervals of the hash there are, as the sender knows it (spancmd_hashes). All groups are asked
 *                       by the same, or something would be told twice, or by nobody
 *   answers             an array: TOKEN, null if nothing was reserved; and what is told
 *
 *   span.get ID SPACE START END HASHES LIMIT HOW    a read: reserves the span. Tells an array of keys and values by turns, as RANGE.GET shows them; at most LIMIT keys. HOW: letters, in any order. r: from the end on. k: keys alone.
 *                                                   o: if there are LIMIT of them it is not reserved, for no other group will be asked
 *   span.count ID SPACE START END HASHES            a read: reserves the span. Tells the number of its keys
 *   span.keys ID SPACE START END HASHES             a read: reserves the span, and its keys to be written. Tells an array of them; more than SPANCMD_KEYS_MAX, or than SPANCMD_BYTES_MAX of their names: -ERR
 *   span.locks ID SPACE START END HASHES USE        a read: reserves the counter of the group's tokens, so that nobody else changes locks here; USE is r or w, as of a key. Tells an array: the counter's number, this leader's time in ms, and an array of the
 *                                                   space's locks that overlap the span: token, 1 if it is exclusive, start, end, owner, time of expiry
 *
 *   -TXNBUSY    something is taken by another transaction
 *   -TXNGONE    it was prepared or decided here before
 *   -TXNMOVED   the group does not serve all of the span, or not now; or knows other intervals of the hash */
#pragma once
#include "command/command.h"

enum {
    SPANCMD_KEYS_MAX = 65536, /* in each group */
    SPANCMD_BYTES_MAX = 2 * 1024 * 1024,
};

struct space_map;

enum { SPANCMD_HASHES_BYTES = 16 };
struct slice spancmd_hashes(const struct space_map *m, char out[SPANCMD_HASHES_BYTES + 1]);

extern const struct command_family spancmd_family;
