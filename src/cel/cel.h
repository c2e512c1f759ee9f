/* CEL, the Common Expression Language: an expression is compiled once against declared variables and evaluated often.
 *
 *     struct cel_variable columns[] = {{SLICE("key"), SLICE("int")}};
 *     struct cel_env env = {.variables = columns, .count = 1};
 *     struct cel_program *p = cel_compile(&env, SLICE("shard_hash(key) % 8u"), &error);
 *
 *     struct scratch s;
 *     scratch_init(&s);
 *     struct cel_value key = {.kind = CEL_INT, .integer = 42}, shard;
 *     if (cel_eval(p, &key, &s, &shard, &error) == 0) use(shard.natural);
 *
 * Pure but for one thing: a time zone given by name is read from the machine's zoneinfo files (zone.h). A program is
 * immutable and may be used by any number of threads at once, each with a scratch of its own. No expression, however
 * hostile, crashes or runs without end: what exceeds a limit is an error. docs/CEL.md says what the language has. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cel/scratch.h"

enum {
    CEL_SOURCE_MAX = 65536, /* bytes of an expression */
    CEL_DEPTH_MAX = 250,    /* levels of nesting of an expression, and of the values that it compares */
};

enum cel_kind {
    CEL_ABSENT, /* no value: a variable that has none; to read it is an error. Never a result. */
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TIMESTAMP,
    CEL_DURATION,
    CEL_TYPE,
    CEL_DYN, /* of a program: known only when it is evaluated. Never the kind of a value. */
};

/* A timestamp: seconds since 1970 in UTC, years 1 to 9999. A duration: up to 10,000 years either way. 0 <= nanos < 1e9 always,
 * so minus half a second is {-1, 500000000}. */
struct cel_time {
    int64_t seconds;
    int32_t nanos;
};

struct cel_entry;

/* A value owns nothing: text, items and entries lie in a scratch, in the program, or with the caller. */
struct cel_value {
    enum cel_kind kind;
    union {
        bool boolean;
        int64_t integer;
        uint64_t natural; /* CEL_UINT */
        double real;
        struct slice text; /* CEL_STRING: UTF-8; CEL_BYTES; CEL_TYPE: the type's name */
        struct {
            const struct cel_value *items;
            size_t count;
        } list;
        struct {
            const struct cel_entry *entries; /* keys are bool, int, uint or string, each once */
            size_t count;
            const uint32_t *index; /* for finding keys, made by an evaluation; NULL in maps of the caller */
        } map;
        struct cel_time time; /* CEL_TIMESTAMP, CEL_DURATION */
    };
};

struct cel_entry {
    struct cel_value key, value;
};

struct cel_variable {
    struct slice name; /* may be qualified: "request.key" */
    struct slice type; /* as CEL writes types: "int", "string", "bytes", "double", "bool", "uint", "list(int)",
                          "map(string, dyn)", "timestamp", "dyn", ... */
};

enum cel_flag {
    CEL_UNCHECKED = 1,  /* names and types are looked at when the expression is evaluated, not before */
    CEL_EXTENSIONS = 2, /* beyond the standard library: the functions and macros of docs/CEL.md, "Extensions" */
};

struct cel_env {
    const struct cel_variable *variables;
    size_t count;
    struct slice container; /* namespace of the expression, or empty: in "a.b" the name x is a.b.x, a.x or x */
    unsigned flags;         /* enum cel_flag */
};

struct cel_error {
    unsigned line, column; /* from 1; column counts characters */
    char message[232];
};

struct cel_program;

/* Compiles the source. Borrows both; gives a program for cel_program_free, or NULL with *error set. */
struct cel_program *cel_compile(const struct cel_env *env, struct slice source, struct cel_error *error);
void cel_program_free(struct cel_program *program); /* NULL is fine */

/* The type of the program's results: its kind, and as text ("uint", "list(int)"), which lives as long as the program. */
enum cel_kind cel_program_kind(const struct cel_program *program);
const char *cel_program_type(const struct cel_program *program);

/* Evaluates the program with variables[i] for the i-th declared one; borrows them. Each must be of its declared type or
 * CEL_ABSENT. Gives 0 and a result that lives until the scratch is used again (or as long as the program and the
 * variables it came from), or -1 with *error set. Once the scratch has grown to what the expression needs, nothing is
 * allocated. */
int cel_eval(const struct cel_program *program, const struct cel_value *variables, struct scratch *scratch,
             struct cel_value *result, struct cel_error *error);

/* Adds "1:5: message", the line of the source and a caret below the place. */
void cel_error_print(const struct cel_error *error, struct slice source, struct buf *out);

/* Adds the value as CEL would write it: 5u, "text", b"\x00", [1, 2], {"a": 1}, timestamp("..."). */
void cel_value_print(const struct cel_value *value, struct buf *out);

/* As == has it: 1 == 1.0, NaN is not itself. False for values nested deeper than CEL_DEPTH_MAX. */
bool cel_value_equal(const struct cel_value *a, const struct cel_value *b);
