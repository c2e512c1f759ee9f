/* What the threads of cluster/snaphost.h share. Private to its files. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/snaphost.h"
#include "cluster/snapshelf.h"

struct courier;
struct snapper;

struct snapcore {
    struct snaphost_options o; /* dir is ours */
    struct snapshelf shelf;
    struct snapper *snapper;
    struct courier *courier;
    atomic_bool stop;   /* the threads end */
    atomic_bool failed; /* said; nothing more is done */
    struct buf why;     /* of that: whoever set it wrote it, and it stays */

    pthread_mutex_t lock; /* of what follows */
    struct snaphost_info info;
};

void snapcore_init(struct snapcore *c, const struct snaphost_options *options);
void snapcore_fini(struct snapcore *c);
/* This node cannot go on: logs it, and says options.failed, the first time. */
void snapcore_fail(struct snapcore *c, uint32_t group, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static inline bool snapcore_goes_on(const struct snapcore *c) { return !atomic_load_explicit(&c->stop, memory_order_relaxed) && !atomic_load_explicit(&c->failed, memory_order_relaxed); }

uint64_t snapcore_ms(void); /* of a clock that does not go back */
