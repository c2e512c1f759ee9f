/* Members with scores outside any store: what a sorted-set command found, pops, adds or stores. For the length of one command. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"
#include "command/gather.h"
#include "command/zspan.h"

struct zpicks {
    struct gather found; /* the members, in found.items */
    double *scores;      /* [found.n] */
    uint32_t cap;
};

void zpicks_init(struct zpicks *p, uint64_t seed);
void zpicks_fini(struct zpicks *p);

/* Adds a member at the end. With `copy` its bytes are copied, otherwise they must stay as they are until fini. */
void zpicks_add(struct zpicks *p, struct slice member, double score, bool copy);
/* The place of a member's score: where it was put, or (find) NULL. Good until the next change. Not to be mixed with zpicks_add. */
double *zpicks_put_score(struct zpicks *p, struct slice member, bool copy, bool *is_new);
double *zpicks_find_score(struct zpicks *p, struct slice member);
/* Adds a span of a sorted set, from its low end or (back) from its high one. */
void zpicks_add_span(struct zpicks *p, const struct entry *e, struct zspan s, bool back);
void zpicks_sort(struct zpicks *p); /* by (score, member) */

/* Adds or updates the members at `at`, which is a sorted set or nothing; tells of `event`. */
void zpicks_apply(struct exec *x, struct place *at, const struct zpicks *p, const char *event);
/* Removes the members, which are distinct and all there, from the set at `at`; tells of `event`, and of del if none is left. */
void zpicks_remove(struct exec *x, struct place *at, const struct zpicks *p, const char *event);
/* key becomes the sorted set of exactly these, whatever it was before; without any, it is deleted. Answers their number. */
void zpicks_store(struct exec *x, struct slice key, const struct zpicks *p, const char *event);

void zpicks_reply(struct exec *x, const struct zpicks *p, bool with_scores);
