/* The inside of a history (wgl.h), for the search. Keys and values are numbers; transactions join keys to groups. */
#pragma once
#include "intern.h"
#include "wgl.h"

enum { WGLHISTORY_ABSENT = 0 /* the number of the value that is none */ };

#define WGLHISTORY_NEVER INT64_MAX

struct op {
    uint32_t client, n_parts;
    int64_t call, returned; /* NEVER: outcome unknown */
    bool answered, refused;
    bool counted; /* DEL has found something at `found` of its keys */
    uint32_t found;
    struct part *parts;
};

/* A part, with everything turned to numbers. */
struct part {
    enum wgl_kind kind;
    uint32_t key;
    uint32_t arg, expect, value; /* of values: what is written, expected, answered */
    int64_t by, number;
    bool nil, unseen; /* the answer */
    struct slice piece; /* of APPEND: the bytes */
};

struct key {
    struct slice name;
    uint32_t group; /* of keys that transactions join: a parent, the root is its own */
    uint32_t place; /* in the states of its group */
};

struct wgl {
    struct op *ops;
    size_t n_ops, cap_ops;
    struct key *keys;
    uint32_t n_keys, cap_keys;
    uint32_t *key_slots, key_mask; /* open addressing over keys */
    struct intern values;
};

/* The value after the part, and whether the answer (if one was seen) is right. */
bool wglhistory_apply(struct wgl *w, const struct part *p, bool answered, uint32_t v, uint32_t *after);
/* By its answer the operation changed nothing, whatever the values were. */
bool wglhistory_pure(const struct op *op);
/* The key that stands for all keys which transactions join to this one. */
uint32_t wglhistory_group(struct wgl *w, uint32_t key);
void wglhistory_text_value(const struct wgl *w, uint32_t value, struct buf *out);
