/* What the server counts, gathered from all workers and shards; STATS.* commands. */
#pragma once
#include "server/server.h"

struct error_counts;

struct error_counts *stats_errors_new(void);
void stats_errors_free(struct error_counts *c);
void stats_note_error(void *server, struct worker *w, struct slice text); /* the engine's hook: counts by error code */

/* Calls `each` with every error code that was answered since the start or the last stats_reset, in order of codes. Any thread. */
void stats_errors(struct server *s, void (*each)(void *ctx, const char *code, uint64_t n), void *ctx);
void stats_reset(struct server *s); /* CONFIG RESETSTAT, as far as this module counts; totals_reset does the rest */

extern const struct command_family stats_family;
