/* What the commands on ranges over several groups share: rangetxn.c makes transactions of them, widepage.c has those on keys, widelock.c those on locks. */
#pragma once
#include "base/buf.h"
#include "server/rangelock.h"
#include "server/rangequery.h"
#include "server/rangetxn.h"
#include "shard/engine.h"

struct rangetxn_kind {
    const char *name; /* of the command */
    /* Reads the arguments. False: something is wrong, and that is answered. */
    bool (*parse)(struct rangetxn *w, struct exec *x);
    void (*asks)(struct rangetxn *w, struct txn *t);
    /* Makes the answer from what was told, and says what is written. False: some of it makes no sense. */
    bool (*run)(struct rangetxn *w, struct txn *t, struct reply *out);
};

struct rangetxn {
    struct rangetxn_host host;
    const struct engine *engine;
    const struct rangetxn_kind *kind;
    uint16_t db;
    uint8_t resp;
    struct txn *txn;
    struct rangequery q;   /* of those on keys; what it points to is the host's */
    struct rangelock lock; /* of those on locks */
    struct buf at;         /* how far the walk of this attempt is, */
    bool at_end;           /* or that it has no more to ask for */
    uint32_t pieces, most_pieces; /* asked for in this attempt, and in the one that got farthest */
    struct buf answer;
};

/* A piece of the line, and its group; or, if it is hashed, all that hashes go to. Lives as long as the map. */
struct rangetxn_piece {
    struct slice start, end;
    bool hashed;
    uint32_t group;
};
/* Those that hold keys of [start, end), in order; mem_free the array. NULL: nobody knows yet. */
struct rangetxn_piece *rangetxn_pieces(const struct rangetxn *w, struct slice space, struct slice start, struct slice end, uint32_t *n);
/* Asks the groups of a piece: the command, the span, and these words. Gives how many were asked. */
uint32_t rangetxn_ask(const struct rangetxn *w, const char *command, struct slice space, const struct rangetxn_piece *p, const struct slice *words, uint32_t n);
/* All groups of [start, end), if nothing has been asked in this attempt yet. */
void rangetxn_ask_all(const struct rangetxn *w, const char *command, struct slice space, struct slice start, struct slice end, const struct slice *words, uint32_t n);
void rangetxn_write(struct rangetxn *w, uint32_t ask, const struct op *op);
void rangetxn_event(struct rangetxn *w, uint32_t ask, unsigned event_class, const char *event, struct slice key); /* of a key that is written there, if it is told */

extern const struct rangetxn_kind widepage_get, widepage_bucket, widepage_count, widepage_del, widelock_kind;
