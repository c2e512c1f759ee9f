/* What the commands on ranges over several groups share: widerange.c drives them, widepage.c has those on keys, widelock.c those on locks. */
#pragma once
#include "base/buf.h"
#include "cluster/txn.h"
#include "server/front.h"
#include "server/rangelock.h"
#include "server/rangequery.h"

struct widerange;

struct widerange_kind {
    const char *name; /* of the command */
    /* Reads the arguments. False: something is wrong, and that is answered. */
    bool (*parse)(struct widerange *w, struct exec *x);
    void (*asks)(struct widerange *w, struct txn *t);
    /* Makes the answer from what was told, and says what is written. False: some of it makes no sense. */
    bool (*run)(struct widerange *w, struct txn *t, struct reply *out);
};

struct widerange {
    struct widerange *next, **back; /* of the front's */
    struct front *front;
    struct conn *conn; /* NULL: it has its answer */
    const struct widerange_kind *kind;
    uint16_t db;
    uint8_t resp;
    struct txn *txn;
    struct rangequery q;   /* of those on keys; what it points to is in the connection's batch */
    struct rangelock lock; /* of those on locks */
    struct buf at;         /* how far the walk of this attempt is, */
    bool at_end;           /* or that it has no more to ask for */
    uint32_t pieces, most_pieces; /* asked for in this attempt, and in the one that got farthest */
    bool senseless;        /* what a group told is nothing */
    struct buf answer;
};

/* A piece of the line, and its group; or, if it is hashed, all that hashes go to. Lives as long as the map. */
struct widerange_piece {
    struct slice start, end;
    bool hashed;
    uint32_t group;
};
/* Those that hold keys of [start, end), in order; mem_free the array. NULL: nobody knows yet. */
struct widerange_piece *widerange_pieces(const struct widerange *w, struct slice space, struct slice start, struct slice end, uint32_t *n);
/* Asks the groups of a piece: the command, the span, and these words. Gives how many were asked. */
uint32_t widerange_ask(const struct widerange *w, const char *command, struct slice space, const struct widerange_piece *p, const struct slice *words, uint32_t n);
/* All groups of [start, end), if nothing has been asked in this attempt yet. */
void widerange_ask_all(const struct widerange *w, const char *command, struct slice space, struct slice start, struct slice end, const struct slice *words, uint32_t n);
void widerange_write(struct widerange *w, uint32_t ask, const struct op *op);

extern const struct widerange_kind widepage_get, widepage_bucket, widepage_count, widepage_del, widelock_kind;
