/* Is a history of operations linearizable? Each operation must seem to happen at one moment between its call and its return, so that every answer is right.
 *
 * The search is that of Wing and Gong with Lowe's two improvements: an operation is put into the order just in time, when another one's return asks for it; and what was tried in vain (which open operations are
 * in the order, and the values then) is remembered. Keys that no transaction joins are judged one by one (a history is linearizable if that of each of them is). Some more rules keep it fast:
 *
 *   - an operation that by its answer cannot have changed anything (a read, a CAS that failed) is put into the order as soon as its answer fits: it cannot be in anybody's way;
 *   - an operation with unknown outcome need never happen, so having used fewer of them is never worse: what failed with some of them in the order fails with more;
 *   - it is used only if the next operation in the order notices;
 *   - of two such operations that ask for the same, the one that was called first is used first.
 *
 * Times are the test's own; a call and a return at the same time overlap. Everything starts absent. One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum wgl_kind {
    WGL_GET,    /* -> value, or nil */
    WGL_SET,    /* arg */
    WGL_CAS,    /* arg if the value is expect (nil_expect: if there is none) -> number: 1 done, 0 not */
    WGL_DEL,    /* -> number: 1 there was one, 0 none */
    WGL_INCR,   /* by -> number: the sum; nil: refused, the value is no number */
    WGL_APPEND, /* arg -> number: bytes now */
    WGL_EXPIRE, /* an event, no request: the value arg goes away if it is still there. Called when it may first happen; returns when it must have, or never. */
};

/* What is done to one key; an operation is one of these, or several at once (a transaction). */
struct wgl_part {
    enum wgl_kind kind;
    struct slice key, arg, expect;
    bool nil_expect;
    int64_t by;
};

struct wgl_answer {
    bool nil;
    bool unseen; /* of GET: it was not told */
    struct slice value;
    int64_t number;
};

struct wgl;

struct wgl *wgl_new(void);
void wgl_free(struct wgl *w);

/* An operation begins: gives its number, from 0 on. Until more is said its outcome is unknown: it may happen at any later moment, or never. Copies. */
size_t wgl_call(struct wgl *w, uint32_t client, int64_t time, const struct wgl_part *parts, uint32_t n);
/* It returned with these answers, one for each part; NULL: it happened, but the answers were not seen. */
void wgl_return(struct wgl *w, size_t op, int64_t time, const struct wgl_answer *answers);
/* It returned, and told at how many of its keys DEL has found something; not at which. */
void wgl_return_count(struct wgl *w, size_t op, int64_t time, uint32_t found);
/* It certainly did not happen and will not. */
void wgl_refused(struct wgl *w, size_t op);

size_t wgl_ops(const struct wgl *w);

enum wgl_verdict {
    WGL_LINEARIZABLE,
    WGL_NOT,
    WGL_GAVE_UP, /* the search grew too large: this is no verdict, and no pass */
};

struct wgl_limits {
    uint64_t configs; /* remembered at most, for all keys together; 0: four million */
};

/* If not linearizable, *op (may be NULL) is an operation that fits into no order of all that returned before it, and why gets a sentence with it and with what its keys can have held. why may be NULL. */
enum wgl_verdict wgl_check(const struct wgl *w, const struct wgl_limits *limits, size_t *op, struct buf *why);

/* The operation as text: client 3: GET "k" -> "v", from 10 to 20 */
void wgl_text(const struct wgl *w, size_t op, struct buf *out);
