/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#pragma once
#include "server/conn.h"

void transactions_queue(struct conn *c, const struct command *cmd, const struct slice *argv, uint32_t argc); /* copies */
/* Gives an EXEC request its shards: those of all queued commands and watched keys. */
void transactions_route(struct conn *c, struct request *r);
void transactions_route_again(void *ctx, struct task *t, struct request *r); /* ctx: the server; see engine_hooks */
void transactions_reset(struct conn *c); /* forgets the queue; leaves MULTI */
void transactions_free_queue(struct multi *m); /* what is in it */
void transactions_unwatch(struct conn *c); /* all watched keys */
/* Answers why EXEC may not run the queue, if there is a reason. */
bool transactions_refuse(const struct conn *c, struct reply *out);

extern const struct command_family transactions_family;
