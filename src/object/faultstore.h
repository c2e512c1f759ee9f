/* A store that wraps another and goes wrong on purpose: the twin of a real store for fault tests ("the k-th request fails, for every k").
 *
 *     struct object_store *faulty = faultstore_wrap(real);
 *     faultstore_plan(faulty, (struct faultstore_plan){.at = k, .kind = FAULTSTORE_LOSE, .code = ERR_OBJECT_TIMEOUT});
 *
 * Every call of object.h on the wrapper that would make at least one request counts as one, in the order in which they begin; faultstore_plan starts the count anew.
 * Threads: as object.h; the order in which several threads are counted is theirs. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct object_store;

enum faultstore_kind {
    FAULTSTORE_FAIL, /* nothing happens, the call fails */
    FAULTSTORE_LOSE, /* it happens, and the call fails all the same: the answer was lost */
    FAULTSTORE_HALF, /* half of it happens: half of the keys are deleted, half of the list is given, half of the bytes are read; a put, being whole or not, does not happen */
};

struct faultstore_plan {
    uint64_t at; /* the request that goes wrong, from 1; 0: none */
    enum faultstore_kind kind;
    int code;     /* what the call gives; 0: ERR_OBJECT_CONNECTION. A conditional put whose answer is lost gives ERR_OBJECT_UNCERTAIN whatever stands here */
    bool for_good; /* all later ones fail too (FAULTSTORE_FAIL): the network is gone, or the process is about to be */
};

/* Takes the inner store, which is closed with the wrapper (object_close). The wrapper has the inner store's URL. */
struct object_store *faultstore_wrap(struct object_store *inner);

void faultstore_plan(struct object_store *s, struct faultstore_plan plan);
uint64_t faultstore_requests(const struct object_store *s); /* counted since the last plan */
bool faultstore_fired(const struct object_store *s);        /* the planned one was reached */

/* What the conditions of the wrapper's puts are worth: as the inner store has them (OBJECT_CONDITIONS_ALL), ignored without a word (NONE), or refused. For tests of callers that
 * must live without. */
enum faultstore_conditions { FAULTSTORE_CONDITIONS_KEPT, FAULTSTORE_CONDITIONS_IGNORED, FAULTSTORE_CONDITIONS_REFUSED };
void faultstore_set_conditions(struct object_store *s, enum faultstore_conditions conditions);

/* Calls `each` before every counted request, e.g. to let another publisher act in between. NULL: none. `each` may use the inner store, not the wrapper. */
void faultstore_on_request(struct object_store *s, void (*each)(void *arg, uint64_t number, const char *verb, const char *key), void *arg);
struct object_store *faultstore_inner(const struct object_store *s);
