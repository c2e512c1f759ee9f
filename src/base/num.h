/* Numbers as text, in the forms that Redis clients see. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define NUM_I64_MAX_CHARS 21 /* sign, 19 digits, room for one more */
#define NUM_F64_MAX_CHARS 400 /* fixed notation of the largest double, with room */

/* A whole slice as a canonical integer: no spaces, no "+", no leading zeros, no "-0"; false when it is not one
 * or does not fit. (So a string value is an integer exactly if it would be printed the same.) */
bool num_parse_i64(struct slice s, int64_t *value);
bool num_parse_u64(struct slice s, uint64_t *value);

/* A whole slice as a floating-point number as Redis reads them ("inf", "-inf", "+inf", "1e3"; no spaces, no NaN). */
bool num_parse_f64(struct slice s, double *value);
bool num_parse_f80(struct slice s, long double *value);

/* Each writes text without a terminator and gives its length. */
size_t num_format_i64(char out[NUM_I64_MAX_CHARS], int64_t value);
size_t num_format_u64(char out[NUM_I64_MAX_CHARS], uint64_t value);
size_t num_format_f64(char out[NUM_F64_MAX_CHARS], double value);        /* shortest that reads back: scores */
size_t num_format_f80(char *out, size_t cap, long double value);         /* %.17Lf, trailing zeros cut: INCRBYFLOAT; cap >= 5120 */

/* "2gb", "64mb", "100k", "512": k/m/g are powers of 1000, kb/mb/gb powers of 1024, as in redis.conf. */
bool num_parse_bytes(struct slice s, uint64_t *bytes);
