/* Carrying keys from shard to shard: one slice of a move (route/spaces.h), with the tokens of all shards concerned held.
 *
 * The keys between the boundary and some key not far above it go where the new routing says, in every database; those that are there already stay. The boundary goes up behind them in the map that carry_slice gives. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shard/engine.h"

struct carry_job {
    struct slice space; /* all slices live as long as the map that they were found in */
    uint64_t range;     /* the range that moves; 0: the space changes its mode */
    struct slice boundary, end; /* what is left of the way; end empty: to the end of the line */
    bool all_shards;    /* keys may be anywhere */
    uint32_t from, to;  /* else: the two shards */
};

/* The first move that a map has under way; false: none. */
bool carry_find(const struct space_map *m, struct carry_job *job);

/* Whether these shards, which are held, are enough: shard 0 for the map, and those of the job. */
bool carry_has_token(uint32_t shard, const uint16_t *held, uint32_t n);
bool carry_has_tokens(const struct carry_job *job, const struct engine *e, const uint16_t *held, uint32_t n);

struct carry_result {
    uint64_t keys, bytes;
    bool done;       /* the move is over */
    bool unreadable; /* it stands still before a key whose value is cold and cannot be read now */
};

/* Gives the map that must come into force before a token is released; NULL: nothing changed. */
struct space_map *carry_slice(struct engine *e, const struct space_map *m, const struct carry_job *job, struct carry_result *r);
