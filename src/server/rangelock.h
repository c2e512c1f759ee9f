/* What RANGE.LOCK and its kin ask for, and how a lock is shown: for those that run where the locks are (rangelock.c), and over several groups (widelock.c). */
#pragma once
#include "command/exec.h"
#include "route/spacelock.h"

enum rangelock_does { RANGELOCK_LOCK, RANGELOCK_EXTEND, RANGELOCK_UNLOCK, RANGELOCK_SHOW };

struct rangelock {
    enum rangelock_does does;
    struct slice space;
    struct spacelock wanted; /* without a token; of RANGE.LOCKS: its bounds */
    int64_t ttl_ms;          /* RANGE.LOCK, RANGE.EXTEND */
};

/* Of x only the command, its arguments and the reply are used. False: something is wrong, and that is answered. */
bool rangelock_parse(struct exec *x, struct rangelock *r);
/* A lock is known by its bounds and owner. */
bool rangelock_is_same(const struct spacelock *a, const struct spacelock *b);
void rangelock_reply(struct reply *r, const struct spacelock *l, int64_t ttl_ms);
