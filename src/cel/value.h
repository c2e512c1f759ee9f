/* Values: equality, order, names of their kinds. */
#pragma once
#include "cel/cel.h"

const char *value_kind_name(enum cel_kind kind); /* as type() names it: "int", "google.protobuf.Timestamp" */

/* a == b; its work is taken from *steps. -1: that was not enough, or the values are nested too deep. */
int value_equal(const struct cel_value *a, const struct cel_value *b, uint64_t *steps);

enum value_order { VALUE_LESS, VALUE_EQUAL, VALUE_GREATER, VALUE_UNORDERED /* NaN */ };

/* Of two values that have an order: numbers of any kind, else both of one kind and that bool, string, bytes, timestamp
 * or duration. */
enum value_order value_compare(const struct cel_value *a, const struct cel_value *b);

static inline bool value_is_number(const struct cel_value *v) { return v->kind >= CEL_INT && v->kind <= CEL_DOUBLE; }
static inline bool value_is_key(const struct cel_value *v)
{
    return v->kind == CEL_STRING || v->kind == CEL_INT || v->kind == CEL_UINT || v->kind == CEL_BOOL;
}

static inline struct cel_value value_bool(bool b) { return (struct cel_value){.kind = CEL_BOOL, .boolean = b}; }
static inline struct cel_value value_int(int64_t i) { return (struct cel_value){.kind = CEL_INT, .integer = i}; }
static inline struct cel_value value_uint(uint64_t u) { return (struct cel_value){.kind = CEL_UINT, .natural = u}; }
static inline struct cel_value value_double(double d) { return (struct cel_value){.kind = CEL_DOUBLE, .real = d}; }
static inline struct cel_value value_string(struct slice s) { return (struct cel_value){.kind = CEL_STRING, .text = s}; }
static inline struct cel_value value_bytes(struct slice s) { return (struct cel_value){.kind = CEL_BYTES, .text = s}; }

enum { VALUE_DOUBLE_CHARS = 40 };

/* The shortest digits that read back as d, with an exponent below 1e-04 and from 1e+06 on: what string(d) is. Gives the
 * length. */
size_t value_print_double(char out[VALUE_DOUBLE_CHARS], double d);
