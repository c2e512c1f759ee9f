/* What the files of a connection share (server/conn.c, server/conn_wait.c). Its front's thread alone. */
#pragma once
#include "server/conn.h"

/* CLIENT REPLY: what stands in the output from `from` on is a command's whole reply; keeps it or not. cmd is NULL if it did not run. */
void conn_settle_reply(struct conn *c, const struct command *cmd, size_t from);
/* The replies tell of what the task wrote and saw. */
void conn_note_epoch(struct conn *c, const struct task *t);

void conn_start_waiting(struct conn *c, struct waiter *wt); /* the command before pos waits for a key, or has been served already. Takes wt */
void conn_served(struct worker *w, struct waiter *wt);      /* as a task wants it (shard/task.h) */
bool conn_cancel_wait(struct conn *c);                      /* false: an attempt to serve it is under way */
