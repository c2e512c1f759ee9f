/* What all workers and shards have counted together, since the start or the last CONFIG RESETSTAT.
 *
 * Every counter has one writer and never goes back; a reset only notes where each stood. Any thread may call these. */
#pragma once
#include "base/hist.h"
#include "server/server.h"

enum total {
    TOTAL_COMMANDS,
    TOTAL_CONNECTIONS,
    TOTAL_REJECTED,        /* connections beyond maxclients */
    TOTAL_CLOSED_BY_LIMIT, /* connections that did not read their answers */
    TOTAL_CLOSED_BY_QUERY, /* connections whose request was too long */
    TOTAL_TURNS,           /* of all event loops */
    TOTAL_BYTES_IN,
    TOTAL_BYTES_OUT,
    TOTAL_HITS,
    TOTAL_MISSES,
    TOTAL_EXPIRED,
    TOTAL_EVICTED,
    TOTAL_COUNT,
};

struct totals {
    uint64_t of[TOTAL_COUNT];
};

struct totals_command {
    uint64_t calls, rejected, failed;
    double us; /* spent in it */
};

struct totals_base;
struct totals_base *totals_new(size_t commands); /* commands: places of the table */
void totals_free(struct totals_base *b);

void totals_read(struct server *s, struct totals *out);
void totals_since_start(const struct server *s, struct totals *out); /* resets do not count */
/* One command or subcommand, by its place in the table. */
void totals_of_command(struct server *s, size_t index, struct totals_command *out);
/* Its durations in ticks (clock_ticks_per_us); false, and out is not touched, if there are none. */
bool totals_durations(struct server *s, size_t index, struct hist *out);
void totals_reset(struct server *s);
