/* Who cares about a key: clients that watch it (WATCH) and clients that wait for it (BLPOP and its kin).
 * Part of a store; used under its token only. An interest belongs to its owner, who removes it under the same token. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct interests;

struct interest {
    struct interest *next, *prev;   /* FIFO within the key */
    struct interest_key *key;       /* NULL when not registered */
    atomic_bool *dirty;             /* WATCH: set when the key changes; NULL for a waiter */
    void *waiter;                   /* waiter: its owner (shard/wait.h) */
};

struct interests *interests_new(void);
void interests_free(struct interests *in);
bool interests_empty(const struct interests *in);

void interest_add(struct interests *in, struct interest *i, uint16_t db, struct slice key, uint64_t hash);
void interest_remove(struct interests *in, struct interest *i); /* no-op if not registered */

/* store_apply calls this for every changed key: watchers become dirty; if somebody waits, the key joins the ready list once. */
void interest_touch(struct interests *in, uint16_t db, struct slice key, uint64_t hash);
/* FLUSHDB, SWAPDB: the same for every key of that database that somebody watches or waits for and that `changes` says is concerned. */
void interest_touch_if(struct interests *in, uint16_t db, bool (*changes)(void *ctx, struct slice key, uint64_t hash), void *ctx);

/* Where a registered interest is registered. */
struct interests *interest_home(const struct interest *i);
/* Puts the interest's key on the ready list once more, if not there: the next in line may be due. No watcher becomes dirty. */
void interest_ready(struct interests *in, struct interest *i);

/* The ready list, oldest first: takes one key off, false if there is none. The first waiter is given; walk on with ->next (skip watchers).
 * The key's name is good until the next call, also when its last waiter is removed meanwhile. */
bool interest_next_ready(struct interests *in, uint16_t *db, struct slice *key, struct interest **first);
bool interest_any_ready(const struct interests *in);
