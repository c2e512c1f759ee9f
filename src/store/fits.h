/* Does an op fit the store that it is for? Ops that commands make always do; those read from a damaged log may not: what they build on can be lost.
 *
 * True exactly if store_apply would take the op without breaking a promise: the key is there where it has to be, of the right type, indexes and counts are in range, an image
 * is valid. The op's own numbers are looked at too, so any op may be asked about. hash is that of the op's key (any number for ops on whole databases). Fills `at` for store_apply (except for ops on whole databases), which
 * saves the second search; a key past its expiry counts as being there, as it does for store_apply. Under the store's token. */
#pragma once
#include <stdbool.h>

#include "store/store.h"

bool fits_op(struct store *s, const struct op *op, uint64_t hash, struct place *at);
