/* EXEC and WATCH on a node of a cluster, and commands whose keys are in several groups: what a client sends, as a transaction (server/widetxn.h).
 *
 * WATCH keeps a digest of each key; EXEC compares. A front's thread alone. */
#pragma once
#include <stdbool.h>

struct command;
struct conn;

/* Whether a command is one of a transaction's that a node has its own way for, and what its row is there. */
bool wideexec_has(const struct command *c);
void wideexec_make_row(struct command *row);

/* The request at pos, whose keys are in several groups. As wide_run. */
bool wideexec_run(struct conn *c);

void wideexec_unwatch(struct conn *c);
