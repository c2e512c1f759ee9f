/* The column "sharding" of a manifest: JSON text that tells how keys find their shards. Pure. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

struct manifest;

/* Appends {"cel_columns": ..., "cel_expr": ..., "hash_algorithm": "xxh3_64", "routing_values": ..., "strategy": ...}, keys sorted, as the format's writers do. False: a text in it is not UTF-8. */
bool sharding_write(const struct manifest *m, struct buf *out);

/* Fills m->is_cel and m->cel; m->num_dbs is set. Gives NULL, or why the text is refused: a static sentence. What is allowed stands at the top of sharding.c. */
const char *sharding_parse(struct manifest *m, struct slice json);
