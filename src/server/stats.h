/* What the server counts, gathered from all workers and shards; STATS.* commands. */
#pragma once
#include "server/server.h"

void stats_note_error(void *server, struct worker *w, struct slice text); /* the engine's hook: counts by error code */

extern const struct command_family stats_family;
