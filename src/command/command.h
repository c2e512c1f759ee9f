/* What a command is, and what a running one may touch.
 *
 * A command is a row of data and a function. The function runs while the tokens of all shards that its keys live on are held; it reads stores, answers
 * into x->out and changes stores by exec_apply. It sees one keyspace: exec_find routes each key to its store. It never blocks, never
 * touches a socket or a clock. Families (strings, lists, ...) each export an array of rows; command_table_init joins them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/slice.h"
#include "resp/reply.h"
#include "route/route.h"
#include "store/store.h"

struct exec;

/* Where a command runs (docs/COMMANDS.md shows it for each). */
enum command_class {
    CLASS_LOCAL,  /* needs no shard: answered where the connection lives; a barrier in a pipeline */
    CLASS_KEYED,  /* the shards of its keys, one or several, all held at once: atomic */
    CLASS_ALL,    /* all shards, all held at once: atomic */
    CLASS_EACH,   /* every shard in turn, one held at a time; fn runs once per shard, x->shard tells which */
    CLASS_CURSOR, /* the one shard that the cursor in argv[1] names (exec_cursor_shard) */
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
};

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
    const char *group;    /* "string", "generic", "list", ... as in COMMAND DOCS */
    const char *since;    /* Redis version */
    const char *summary;
    const char *args;     /* human syntax for docs: "key value [NX | XX] [GET] [EX seconds | ...]" */
};

/* What lies outside: given by the server, so that commands stay pure. */
struct exec_host {
    void (*notify)(void *ctx, struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db);
    void *ctx;
};

struct exec {
    const struct command *cmd;
    const struct slice *argv;
    uint32_t argc;
    uint16_t db;
    uint16_t shard;            /* CLASS_EACH, CLASS_CURSOR: the shard whose token is held */
    struct reply out;
    const struct route *route; /* keeps */
    struct store *const *stores; /* [route->shards]; only those whose token is held may be touched */
    int64_t now_ms;
    struct rng *rng;
    const struct exec_host *host;
    void *session;             /* the connection, for commands of src/server/ */
    uint64_t key_hash;         /* hash of argv[first_key]; have_hash tells if it is there */
    bool have_hash;
    bool in_multi;             /* inside EXEC: a blocking command must not block */
    bool retry;                /* a blocked command tries again because a key became ready */
    struct buf *carry;         /* CLASS_EACH: bytes kept from shard to shard */
    int64_t carry_n;           /* and a number */
    struct {
        bool wanted;           /* set by exec_block */
        int64_t timeout_ms;    /* 0: for ever */
        uint32_t first, count, step; /* the keys to wait for, as argument indexes */
    } block;
    uint64_t ops;              /* applied by this command */
};

/* ---- the keyspace */
uint64_t exec_hash(struct exec *x, struct slice key);
struct store *exec_store(struct exec *x, uint64_t hash);
void exec_find(struct exec *x, struct slice key, struct place *at);  /* counts a hit or miss */
void exec_peek(struct exec *x, struct slice key, struct place *at);
/* As exec_find, and the value must be of this type if it is there: otherwise answers WRONGTYPE and gives false. */
bool exec_find_type(struct exec *x, struct slice key, enum type t, struct place *at);
/* Applies op (db, key and the place's store are filled in from `at`). */
int64_t exec_apply(struct exec *x, struct op *op, struct place *at);
/* Shorthands. */
void exec_set(struct exec *x, struct place *at, struct slice value, int64_t expiry_ms);
void exec_set_value(struct exec *x, struct place *at, struct slice value); /* expiry kept */
void exec_del(struct exec *x, struct place *at);
void exec_expire(struct exec *x, struct place *at, int64_t expiry_ms);

/* ---- keyspace notifications: classes as in notify-keyspace-events */
enum notify_class {
    NOTIFY_KEYSPACE = 1 << 0, /* K */
    NOTIFY_KEYEVENT = 1 << 1, /* E */
    NOTIFY_GENERIC = 1 << 2,  /* g */
    NOTIFY_STRING = 1 << 3,   /* $ */
    NOTIFY_LIST = 1 << 4,     /* l */
    NOTIFY_SET = 1 << 5,      /* s */
    NOTIFY_HASH = 1 << 6,     /* h */
    NOTIFY_ZSET = 1 << 7,     /* z */
    NOTIFY_EXPIRED = 1 << 8,  /* x */
    NOTIFY_EVICTED = 1 << 9,  /* e */
    NOTIFY_STREAM = 1 << 10,  /* t */
    NOTIFY_KEY_MISS = 1 << 11, /* m */
    NOTIFY_MODULE = 1 << 13,  /* d */
    NOTIFY_NEW = 1 << 14,     /* n */
};
void exec_notify(struct exec *x, unsigned event_class, const char *event, struct slice key);

/* ---- blocking: nothing was there; wait for any of the keys argv[first + i * step], i < count. In MULTI the caller answers nil instead
 * (exec_may_block tells). When a key becomes ready the command function runs again with x->retry set. */
bool exec_may_block(const struct exec *x);
void exec_block(struct exec *x, int64_t timeout_ms, uint32_t first, uint32_t count, uint32_t step);
/* A timeout argument in seconds (fractions allowed): answers the error itself and gives false if it is bad. */
bool exec_timeout(struct exec *x, struct slice arg, int64_t *timeout_ms);

/* ---- arguments: each answers the standard error itself and gives false if the argument is bad */
bool exec_arg_i64(struct exec *x, struct slice arg, int64_t *v);
bool exec_arg_f64(struct exec *x, struct slice arg, double *v);
void exec_wrong_arity(struct exec *x);
void exec_syntax(struct exec *x);
/* "ERR unknown subcommand 'x'. Try OBJECT HELP." */
void exec_unknown_subcommand(struct exec *x);
void exec_help(struct exec *x, const char *const *lines); /* NULL-terminated; HELP subcommands */

/* ---- SCAN cursors: a hash position and a shard in one number */
uint64_t exec_cursor_make(uint64_t position, uint32_t shard, uint32_t shards);
bool exec_cursor_parse(struct slice arg, uint32_t shards, uint64_t *position, uint32_t *shard);

/* ---- the command table */
struct command_family {
    const struct command *rows;
    size_t n;
};
#define COMMAND_FAMILY(rows) {rows, sizeof(rows) / sizeof((rows)[0])}

struct command_table;
struct command_table *command_table_new(const struct command_family *families, size_t n);
void command_table_free(struct command_table *t);
const struct command *command_find(const struct command_table *t, struct slice name); /* any case; NULL if unknown */
size_t command_count(const struct command_table *t);
const struct command *command_at(const struct command_table *t, size_t i); /* sorted by name */
size_t command_index(const struct command_table *t, const struct command *c);
bool command_arity_ok(const struct command *c, uint32_t argc);
/* Indexes of the key arguments; -1 if the syntax is wrong. at[] has room for max. */
int command_keys(const struct command *c, const struct slice *argv, uint32_t argc, uint32_t *at, int max);
