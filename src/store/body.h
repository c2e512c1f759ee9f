/* What every type of value has: a body that an entry may point to. */
#pragma once
#include <stddef.h>

#include "store/entry.h"
#include "store/kit.h"

void body_drop(const struct kit *k, struct entry *e); /* the body goes, not the entry; nothing to do for a value in the entry itself */
uint64_t body_order(const struct entry *e);           /* of its inner table, for kit.order; 0: it has none */
size_t body_bytes(const struct entry *e);             /* arena bytes of the body */
