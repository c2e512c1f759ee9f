/* LZF as it stands in RDB strings: reading only, for we never write it. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

/* The most that n compressed bytes can become: a 3-byte reference gives 264 bytes. */
#define LZF_EXPANSION_MAX 88

/* True exactly if `packed` is well formed and gives out_n bytes, no more and no less. */
bool lzf_unpack(struct slice packed, char *out, size_t out_n);
