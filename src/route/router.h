/* The router of a published snapshot: which shard a row goes to, and a key is found in. One function for the writer, the reader, the command line and Python. Pure.
 *
 *   hash   XXH3-64 of the key's canonical bytes, modulo the number of shards
 *   cel    an expression over declared columns. Direct: its result is the shard. Categorical: its result is a token, and the shard its place in the list of routing values.
 *
 * A router is immutable and may be used by any number of threads, each with a struct router_scratch of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cel/scratch.h"
#include "route/snapkey.h"

struct cel_value;
struct router;

struct router_column {
    struct slice name, type; /* int, uint, double, bool, string or bytes */
};

enum router_token_kind { ROUTER_TOKENS_NONE /* direct */, ROUTER_TOKENS_INT, ROUTER_TOKENS_TEXT };

struct router_cel {
    struct slice expr;
    const struct router_column *columns;
    uint32_t n_columns;
    enum router_token_kind tokens;
    const int64_t *ints;        /* [n_tokens] if INT */
    const struct slice *texts;  /* [n_tokens] if TEXT */
    uint32_t n_tokens;
};

/* shards at least 1. */
struct router *router_new_hash(uint32_t shards);
/* Borrows everything. Categorical: shards must be max(1, n_tokens), tokens distinct. Gives NULL and why (for a faulty expression with its place). */
struct router *router_new_cel(const struct router_cel *c, uint32_t shards, struct buf *error);
void router_free(struct router *r);

uint32_t router_shards(const struct router *r);
bool router_is_cel(const struct router *r);
/* The expression needs columns other than the key alone: lookups must bring them. */
bool router_needs_context(const struct router *r);
uint32_t router_columns(const struct router *r);
struct slice router_column_name(const struct router *r, uint32_t i);
struct slice router_column_type(const struct router *r, uint32_t i);

/* What one thread works with. */
struct router_scratch {
    struct scratch cel;
    struct cel_value *values; /* [columns] */
    struct buf why;           /* of the last ROUTER_ERROR */
};
void router_scratch_init(struct router_scratch *s, const struct router *r);
void router_scratch_fini(struct router_scratch *s);

/* Sets column i for the next calls from text: numbers and booleans as CEL writes them. False, and why in s->why: it is no value of the column's type. Keeps text. */
bool router_set_column(const struct router *r, struct router_scratch *s, uint32_t i, struct slice text);
int router_find_column(const struct router *r, struct slice name); /* -1: no such column */

enum router_result {
    ROUTER_FOUND,
    ROUTER_UNKNOWN,  /* no such token, or (direct) a number that is no shard: a miss for a reader, an error for a writer */
    ROUTER_ERROR,    /* s->why says */
};

/* The shard of a key. CEL with the key as its only column takes it from `key`; else the columns are those set in s, and key does not matter. */
enum router_result router_shard(const struct router *r, struct router_scratch *s, const struct snapkey *key, uint32_t *shard);

/* CEL only: the expression's result with the columns set in s, before it is looked up: what an inferring writer collects, and the shard number of direct mode. Text lies in s. */
struct router_token {
    bool is_text;
    int64_t i;
    struct slice text;
};
enum router_result router_token(const struct router *r, struct router_scratch *s, const struct snapkey *key, struct router_token *token);

/* Shards of many keys: shards[i], UINT32_MAX where ROUTER_UNKNOWN. Gives ROUTER_FOUND or the first ROUTER_ERROR. */
enum router_result router_many(const struct router *r, struct router_scratch *s, const struct snapkey *keys, size_t n, uint32_t *shards);
/* Order of visiting: fills order[] with the indexes 0..n-1 sorted by shard (stable), so that the keys of one shard stand together; those without a shard come last. starts[] has shards + 2
 * places: keys of shard i are order[starts[i]..starts[i + 1]). */
void router_group(uint32_t n_shards, const uint32_t *shards, size_t n, uint32_t *order, uint32_t *starts);
