/* HyperLogLog values: strings in exactly the format that Redis keeps them in, so that a value written by either is the other's too. Pure.
 *
 * A value counts distinct elements in 16384 registers with a standard error of 0.81 %. It starts sparse (runs of equal registers) and becomes
 * dense (6 bits each) when a register or the value grows too large; it never goes back. Values come from outside: one that is damaged is
 * told, never asserted. Functions that change a value work on a copy in a buffer; hyll_is must be true of it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum {
    HYLL_REGISTERS = 1 << 14,
    HYLL_SPARSE_MAX = 3000,  /* what hll-sparse-max-bytes is by default */
    HYLL_CACHE_AT = 8,       /* offset and size of the cached estimate */
    HYLL_CACHE_BYTES = 8,
};

bool hyll_is(struct slice v);    /* magic, encoding and, if dense, length are right */
bool hyll_dense(struct slice v);
void hyll_new(struct buf *v);    /* an empty sparse value into an empty buffer */

/* What an element does to a value: raises register `index` to `count`, if that is more than it has. */
struct hyll_hit {
    unsigned index;
    unsigned count; /* 1..51 */
};
struct hyll_hit hyll_hit(struct slice element);

/* 1 if the register was raised, 0 if it was that high already, -1 if the value is damaged. A sparse value that would become longer than
 * sparse_max becomes dense. */
int hyll_raise(struct buf *v, struct hyll_hit hit, size_t sparse_max);
unsigned hyll_dense_get(struct slice v, unsigned index); /* v is dense */
bool hyll_to_dense(struct buf *v);                       /* false: damaged */

/* All registers, one byte each; false: damaged. */
bool hyll_registers(struct slice v, uint8_t registers[HYLL_REGISTERS]);
uint64_t hyll_estimate(const uint8_t registers[HYLL_REGISTERS]);

/* The estimate that the value carries; false if a change made it invalid. */
bool hyll_cached(struct slice v, uint64_t *count);
void hyll_cache_bytes(uint64_t count, char bytes[HYLL_CACHE_BYTES]); /* what stands at HYLL_CACHE_AT */
void hyll_cache_clear(struct buf *v);

/* A sparse value's runs as text: "Z:12 v:3,1 z:4" (Z, z: registers at 0 in long and short form; v: value, how many). False: damaged. */
bool hyll_describe(struct slice v, struct buf *text);
