/* An op: the effect of a write. Commands read the store, decide, and hand ops to store_apply, the only function that changes a store.
 * Ops carry results, never questions: absolute times, the sum of an INCR, the member that a random pop chose. Applying the
 * same ops to the same store gives the same store, so a log of ops is a log of everything.
 *
 * All slices are borrowed for the call. `items` of a hash alternate field, value. */
#pragma once
#include <stdint.h>

#include "base/slice.h"

enum op_kind {
    OP_SET,          /* key = value (a string), expiry_ms (0: none); replaces any type */
    OP_SET_VALUE,    /* string value replaced, expiry kept as it is; creates without expiry */
    OP_APPEND,       /* value behind the string; creates */
    OP_WRITE_RANGE,  /* value at byte offset `index` of the string, zero-padded; creates */
    OP_DEL,          /* key gone */
    OP_EXPIRE,       /* expiry_ms (0: persist); key exists */
    OP_PUSH_HEAD,    /* items to the list, one after the other, each at the head; creates */
    OP_PUSH_TAIL,
    OP_POP_HEAD,     /* count elements */
    OP_POP_TAIL,
    OP_LIST_SET,     /* element `index` = value; index from 0 at the head */
    OP_LIST_INSERT,  /* value before element `index` (== length: at the tail) */
    OP_LIST_REMOVE,  /* `count` elements from `index` on */
    OP_HASH_SET,     /* items: field, value, ...; creates. result: new fields */
    OP_HASH_DEL,     /* items: fields. result: fields that were there */
    OP_SET_ADD,      /* items: members; creates. result: new members */
    OP_SET_REM,      /* items: members. result: members that were there */
    OP_ZSET_ADD,     /* items with scores; creates, updates. result: new members */
    OP_ZSET_REM,     /* items: members. result: members that were there */
    OP_RESTORE,      /* key = value image (store/image.h) with expiry_ms; replaces any type */
    OP_FLUSH,        /* the whole database db */
    OP_SWAP,         /* databases db and `index` change places */
    OP_KINDS
};

struct place;

struct op {
    enum op_kind kind;
    uint16_t db;
    struct slice key;
    struct slice value;
    const struct slice *items;
    const double *scores;
    uint32_t n_items;
    int64_t index, count;
    int64_t expiry_ms;
};
/* A collection that becomes empty is deleted by the same op that took its last element. */
