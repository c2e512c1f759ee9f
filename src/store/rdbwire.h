/* Lengths, strings and the extent of values in the bytes of Redis's RDB format; parts.c has the grammar. Pure.
 *
 * Each function takes its bytes off the front of `in`, and gives false if they are not there or not well formed; `in` is then anywhere. Nothing is asserted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum { RDBWIRE_STRING_MAX = 512 << 20 };

static inline const uint8_t *rdbwire_take(struct slice *in, size_t n)
{
    if (in->n < n) return NULL;
    const char *p = in->p;
    in->p += n;
    in->n -= n;
    return (const uint8_t *)p;
}

/* *special: not a length but one of the string encodings, its number in *n: 0, 1, 2 integers of 1, 2, 4 bytes; 3 LZF. */
bool rdbwire_length_or(struct slice *in, uint64_t *n, bool *special);
bool rdbwire_length(struct slice *in, uint64_t *n);

/* A string of any encoding. It points into the bytes of `in`, or into scratch, which is overwritten. */
bool rdbwire_string(struct slice *in, struct buf *scratch, struct slice *s);
bool rdbwire_skip_string(struct slice *in);

enum rdbwire_kind {
    RDBWIRE_VALUE,      /* a type that image_read knows */
    RDBWIRE_STREAM,
    RDBWIRE_MODULE,
    RDBWIRE_FIELD_TTLS, /* a hash whose fields expire: Redis 7.4 */
    RDBWIRE_UNKNOWN,
};
enum rdbwire_kind rdbwire_kind_of(uint8_t type);
/* The body of a value of this type: looks at no more than is needed to find its end. False for an unknown type too. */
bool rdbwire_skip_value(uint8_t type, struct slice *in);
bool rdbwire_skip_module(struct slice *in); /* what a module wrote, up to its end mark */
