/* Commands of a client that run as one transaction, in one group or over several (docs/decisions/020): EXEC, and commands whose keys are in several groups. Here cluster/txn.h, cluster/txncare.h and shard/scratch.h meet calls,
 * connections and time. server/wideexec.h has the commands.
 *
 * Commands that have keys run where the keys are, or on copies of them; those that have none run here, in their order, when the others have happened.
 *
 *   -CLUSTERDOWN   a group could not be reached in time: nothing happened
 *   -TRYAGAIN      other transactions had the keys all the time: nothing happened
 *   -UNCERTAIN     nobody could say in time whether it happened
 *
 * A front's thread alone, unless told. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct command;
struct conn;
struct front;
struct multi;
struct server;
struct widetxn;
struct widetxns;

struct widetxns *widetxn_front_new(struct front *f); /* kept in f->txns; before the front starts */
void widetxn_front_free(struct widetxns *w);         /* after it has ended, and before its relay goes */
void widetxn_turn(struct front *f);                  /* at the end of each turn, before the relay's */
int widetxn_wait_ms(const struct front *f);          /* until something is due; -1: nothing is */

struct slice widetxn_name(struct front *f, char *out, size_t max); /* of a new transaction, of these or others: no other has it */

/* ---- making one. is_exec: the answer is an array, and a transaction that a watch stops is a null array. */
struct widetxn *widetxn_new(struct conn *c, bool is_exec);
void widetxn_add(struct widetxn *w, const struct command *cmd, const struct slice *argv, uint32_t argc, uint16_t db); /* what they point to is kept until it is answered */
void widetxn_check(struct widetxn *w, uint16_t db, struct slice key, struct slice digest);                            /* as txn.digest gave it; both are copied */
void widetxn_keep(struct widetxn *w, struct multi *m); /* takes what is in m, to free it in the end */
/* True: it is answered, in c->out. False: its connection is away, and comes back by conn_errand_done. */
bool widetxn_start(struct widetxn *w);

struct widetxn_info {
    uint64_t committed, aborted, uncertain; /* by how they ended, of those over several groups */
    uint64_t in_one_group;                        /* EXEC within one group */
    uint64_t under_way;
    uint64_t recovered, forgotten; /* intents and decisions of others that this node brought to their end, and decisions that it forgot */
    uint64_t intents;              /* in the groups that this node leads, when it last looked */
};
void widetxn_look(const struct server *s, struct widetxn_info *out); /* any thread */
