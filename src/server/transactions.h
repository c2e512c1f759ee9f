/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#pragma once
#include "server/conn.h"

void transactions_queue(struct conn *c, const struct command *cmd, const struct slice *argv, uint32_t argc); /* copies */
/* Gives an EXEC request its shards: those of all queued commands and watched keys. */
void transactions_route(struct conn *c, struct request *r);
void transactions_route_again(void *ctx, struct task *t, struct request *r); /* ctx: the server; see engine_hooks */
void transactions_reset(struct conn *c); /* forgets the queue; leaves MULTI */

extern const struct command_family transactions_family;
