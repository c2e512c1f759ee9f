/* SLOWLOG: the latest commands that took long. A ring under a lock; only slow commands touch it. */
#pragma once
#include "server/server.h"
#include "shard/task.h"

struct slowlog *slowlog_new(void);
void slowlog_free(struct slowlog *l);
void slowlog_note(void *server, const struct task *t, const struct exec *x, uint64_t ticks); /* the engine's hook */
uint64_t slowlog_length(struct server *s);

extern const struct command_family slowlog_family;
