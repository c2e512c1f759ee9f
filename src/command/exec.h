/* What a running command may touch.
 *
 * A command's function runs while the tokens of all shards that its keys live on are held; it reads stores, answers into x->out and
 * changes stores by exec_apply. It sees one keyspace: exec_find routes each key to its store. It never blocks, never touches a socket or a clock. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/slice.h"
#include "resp/reply.h"
#include "route/place.h"
#include "store/store.h"

struct command;
struct exec;

/* What lies outside: given by the server, so that commands stay pure. */
struct exec_host {
    void (*notify)(void *ctx, struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db);
    void *ctx;
};

enum { EXEC_NO_SHARD = UINT16_MAX };

struct exec {
    const struct command *cmd;
    const struct exec_subcommand *sub; /* of cmd->subs, once exec_subcommand has chosen it; else NULL */
    const struct slice *argv;
    uint32_t argc;
    uint16_t db;
    uint16_t shard;            /* CLASS_EACH, CLASS_CURSOR: the shard whose token is held; EXEC_NO_SHARD: it runs without one, because none can be had while the server loads */
    struct reply out;
    const struct route *route; /* keeps */
    struct store *const *stores; /* [route->shards]; only those whose token is held may be touched */
    int64_t now_ms;
    struct rng *rng;
    const struct exec_host *host;
    void *session;             /* the connection, for commands of src/server/ */
    uint64_t key_hash;         /* hash of argv[first_key]; have_hash tells if it is there */
    bool have_hash;
    const uint64_t *key_hashes; /* of the keys argv[first_key + i * key_step], if there are several: commands ask in that order */
    uint32_t n_key_hashes, next_key_hash;
    bool no_touch;             /* looking a key up is no use of it: CLIENT NO-TOUCH */
    bool in_multi;             /* inside EXEC: a blocking command must not block */
    bool retry;                /* a blocked command tries again because a key became ready */
    bool unreadable;           /* a command with each_inner: one of the values that its commands need cannot be read, so it must not run them */
    bool done;                 /* CLASS_EACH, CLASS_CURSOR: it has answered, no further shard is needed */
    struct buf *carry;         /* CLASS_EACH, CLASS_CURSOR: bytes kept from shard to shard (ascending; the last one answers); empty at first */
    int64_t carry_n;           /* and a number; 0 at first */
    uint64_t carry_ticks;      /* the caller's: time spent on the shards so far */
    struct {
        bool wanted;           /* set by exec_block */
        int64_t timeout_ms;    /* 0: for ever */
        uint32_t first, count, step; /* the keys to wait for, as argument indexes */
    } block;
    uint64_t ops;              /* applied by this command */
    bool reads, writes;        /* a command that reads, or writes, data ran, with effect or without */
};

/* ---- the keyspace */
uint64_t exec_hash(struct exec *x, struct slice key);
struct store *exec_store(struct exec *x, struct slice key, uint64_t hash);
void exec_find(struct exec *x, struct slice key, struct place *at);  /* counts a hit or miss, and as a use unless no_touch */
void exec_peek(struct exec *x, struct slice key, struct place *at);
/* Both find values that are in memory, unless the command needs none (CMD_KEY_ONLY): those of its keys were read before it began, and one that is found cold all the same
 * (SORT's patterns) is read here and now. If it cannot be read, the entry stays cold: who may meet that asks exec_readable, which answers the error. */
bool exec_readable(struct exec *x, struct place *at);
void exec_unreadable(struct exec *x); /* that error */
/* As exec_find, and the value must be of this type if it is there: otherwise answers WRONGTYPE and gives false. */
bool exec_find_type(struct exec *x, struct slice key, enum type t, struct place *at);
/* Applies op (db, key and the place's store are filled in from `at`); a key that comes into being is told as the event "new". */
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
void exec_notify_in(struct exec *x, unsigned event_class, const char *event, struct slice key, uint16_t db); /* another database */

/* ---- blocking: nothing was there; wait for any of the keys argv[first + i * step], i < count (0: for time alone). In MULTI the caller answers nil instead
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
/* Commands that are containers (CLIENT, PUBSUB): argv[1] chooses a row; the last row has no name. Answers the error if there is none, or if the number
 * of arguments is wrong; HELP shows the lines. */
struct exec_subcommand {
    const char *name; /* lower case */
    void (*fn)(struct exec *x);
    int16_t arity; /* as Redis: command and subcommand included; negative: at least */
};
void exec_subcommand(struct exec *x, const struct exec_subcommand *rows, const char *const *help);
/* A HELP subcommand: the lines (NULL-terminated) between the usual heading and the line about HELP itself. */
void exec_help(struct exec *x, const char *const *lines);
