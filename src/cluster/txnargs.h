/* The arguments of a group's own commands, one after the other, and the keys among them (cluster/txncmd.h has their forms). Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "command/command.h"

struct txnargs {
    const struct slice *argv; /* borrowed */
    uint32_t argc, at;
};

/* Each takes what is next. False: it is not there, or is none. */
bool txnargs_take(struct txnargs *a, struct slice *out);
bool txnargs_take_number(struct txnargs *a, uint32_t max, uint32_t *out); /* up to max */
bool txnargs_take_count(struct txnargs *a, uint32_t each, uint32_t *out); /* how many things of so many arguments each follow: all of them are there */
bool txnargs_take_db(struct txnargs *a, uint16_t *db);
static inline bool txnargs_is_at_end(const struct txnargs *a) { return a->at == a->argc; }

/* ---- of txn.run */

struct txnargs_check {
    uint16_t db;
    struct slice key, digest;
};
bool txnargs_take_check(struct txnargs *a, struct txnargs_check *out);

struct txnargs_part {
    const struct command *cmd; /* NULL: there is none of that name that a transaction may have */
    uint16_t db;
    const struct slice *argv;
    uint32_t argc;
};
bool txnargs_take_part(struct txnargs *a, const struct command_table *t, struct txnargs_part *out);

/* ---- keys: whether `one` says true of each. c is the command that it is a key of; NULL: it is only looked at. */

typedef bool txnargs_key_fn(void *ctx, const struct command *c, uint16_t db, struct slice key);
bool txnargs_all_of_command(const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db, txnargs_key_fn *one, void *ctx);
bool txnargs_all_of_run(struct txnargs a, const struct command_table *t, txnargs_key_fn *one, void *ctx); /* checks and commands; up to what makes no sense */
