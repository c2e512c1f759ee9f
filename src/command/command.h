/* What a command is: a row of data and a function, and the table of all rows.
 *
 * Families (strings, lists, ...) each export an array of rows (command/families.h); command_table_new joins them. What a running command may
 * touch stands in command/exec.h. A table does not change once made: any thread may search it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "command/exec.h"

/* Where a command runs (docs/COMMANDS.md shows it for each). */
enum command_class {
    CLASS_LOCAL,  /* needs no shard: answered where the connection lives; a barrier in a pipeline */
    CLASS_KEYED,  /* the shards of its keys, one or several, all held at once: atomic */
    CLASS_SPACE,  /* the shards that a part of a key space lies in, all held at once: atomic; `extent` says which part */
    CLASS_ALL,    /* all shards, all held at once: atomic */
    CLASS_EACH,   /* every shard in turn, one held at a time unless keys are moving between them; fn runs once per shard, x->shard tells which */
    CLASS_CURSOR, /* as CLASS_EACH, from the shard that the cursor in argv[1] names on and until the command sets x->done */
};

enum command_flag {
    CMD_WRITE = 1 << 0,
    CMD_READONLY = 1 << 1,
    CMD_DENYOOM = 1 << 2,
    CMD_ADMIN = 1 << 3,
    CMD_PUBSUB = 1 << 4,
    CMD_NOSCRIPT = 1 << 5,
    CMD_BLOCKING = 1 << 6,
    CMD_LOADING = 1 << 7,
    CMD_STALE = 1 << 8,
    CMD_FAST = 1 << 9,
    CMD_NO_AUTH = 1 << 10,
    CMD_NO_MULTI = 1 << 11,
    CMD_MOVABLE_KEYS = 1 << 12, /* keys found by the `keys` function */
    CMD_SKIP_SLOWLOG = 1 << 13,
    CMD_IN_SUBSCRIBE = 1 << 15, /* allowed to a RESP2 subscriber */
    CMD_AT_ONCE = 1 << 16,      /* never queued by MULTI: EXEC, DISCARD, WATCH, MULTI, QUIT, RESET */
    CMD_KEY_ONLY = 1 << 17,     /* looks at keys, types and expiries, or replaces values: a cold value (store/chill.h) is not read for it */
    CMD_OF_GROUP = 1 << 18,     /* a Raft group's own: nodes send it to each other, to a group that they name (server/relay_call.h); no client may. CLASS_KEYED without keys; x->shard is the group's seat */
    CMD_ALL_KEYS = 1 << 19,     /* of these: it is about all keys of the group */
    CMD_OF_LOCKS = 1 << 20,     /* CLASS_SPACE: it is about the locks on the part that it names, not about its keys */
    CMD_OF_NODES = 1 << 21,     /* nodes send it to each other, no client may; but it goes to where its keys are, as any */
    CMD_ONCE = 1 << 22,         /* CMD_OF_GROUP: it must not run twice, as whatever clients send must not (cluster/once.h). Others are made so that they may */
};

struct command;
/* db is UINT16_MAX if it can be any: a command before it may have changed it. */
typedef void command_visit(void *ctx, const struct command *c, const struct slice *argv, uint32_t argc, uint16_t db);

struct command {
    const char *name;     /* lower case; "config|get" style for subcommands is not used: containers dispatch inside */
    void (*fn)(struct exec *x);
    int16_t arity;        /* as Redis: including the name; negative: at least */
    enum command_class class;
    uint32_t flags;
    int16_t first_key, last_key, key_step; /* as Redis: last_key may be negative (from the end); all 0: none */
    /* CMD_MOVABLE_KEYS: indexes of the key arguments into at[], at most max; gives how many there are, or -1 if the syntax is wrong
     * (then the command runs with no keys held and must answer the error). */
    int (*keys)(const struct slice *argv, uint32_t argc, uint32_t *at, int max);
    /* CLASS_KEYED whose arguments may name keys only by a pattern (SORT BY and GET): true if this call must hold all shards, as CLASS_ALL does.
     * NULL: never. */
    bool (*needs_all)(const struct slice *argv, uint32_t argc);
    /* CLASS_SPACE: the keys [start, end) of this space, ends empty where there are none. False: the arguments are wrong; the command runs with no shard held and answers that. */
    bool (*extent)(const struct slice *argv, uint32_t argc, struct slice *space, struct slice *start, struct slice *end);
    /* CMD_KEY_ONLY but for some calls (SET with GET): true if this is one of them. NULL: never. */
    bool (*needs_values)(const struct slice *argv, uint32_t argc);
    /* CLASS_KEYED whose arguments from here on are another command, whose keys are its own (RANGE.EXEC); 0: none. See command_inner. */
    int16_t inner_at;
    /* A command that runs others (EXEC): calls one() for each that it would run now, with its database. NULL: it runs none. */
    void (*each_inner)(void *session, command_visit *one, void *ctx);
    const struct exec_subcommand *subs; /* CONFIG and its like: what exec_subcommand chooses from, for COMMAND to show and for counters; NULL: none */
    const char *group;    /* "string", "generic", "list", ... as in COMMAND DOCS */
    const char *since;    /* Redis version */
    const char *summary;
    const char *args;     /* human syntax for docs: "key value [NX | XX] [GET] [EX seconds | ...]" */
};

/* ---- the command table */
struct command_family {
    const struct command *rows;
    size_t n;
};
#define COMMAND_FAMILY(rows) {rows, sizeof(rows) / sizeof((rows)[0])}

struct command_table;
struct command_table *command_table_new(const struct command_family *families, size_t n);
void command_table_free(struct command_table *t);
const struct command *command_find(const struct command_table *t, struct slice name); /* any case; NULL if unknown, which to clients a group's own is */
const struct command *command_find_any(const struct command_table *t, struct slice name); /* a group's own, too */
size_t command_count(const struct command_table *t); /* of those that clients may send */
size_t command_rows(const struct command_table *t);  /* of all */
const struct command *command_at(const struct command_table *t, size_t i); /* sorted by name, groups' own behind all others */
size_t command_index(const struct command_table *t, const struct command *c); /* of a row that find or at gave */
/* Places for counters: one for each row, and one for each of its subcommands. sub is NULL or one of c->subs. */
size_t command_places(const struct command_table *t);
size_t command_place(const struct command_table *t, const struct command *c, const struct exec_subcommand *sub);
const struct command *command_of_place(const struct command_table *t, size_t place); /* the row, or that of the subcommand */
const char *command_place_name(const struct command_table *t, size_t place); /* "get", "config|get" */
/* The command that c, which has inner_at, runs with these arguments of its own: NULL if it is unknown, has the wrong number of arguments, or could touch other shards than those of its keys. */
const struct command *command_inner(const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc);
/* The command whose keys a request's keys are, and its arguments: the inner one if it has one. NULL: it has one that cannot run, and so it has no keys. */
const struct command *command_unwrap(const struct command_table *t, const struct command *c, const struct slice **argv, uint32_t *argc);
bool command_needs_values(const struct command *c, const struct slice *argv, uint32_t argc); /* the values of its keys must be in memory */
bool command_arity_ok(const struct command *c, uint32_t argc);
/* How many key arguments there are, the first max of their indexes in at[]; -1 if the syntax is wrong. */
int command_keys(const struct command *c, const struct slice *argv, uint32_t argc, uint32_t *at, int max);
