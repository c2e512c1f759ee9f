/* What the files of shard/task.h share: task_route.c finds where requests go, task.c runs them there. */
#pragma once
#include "base/mem.h"
#include "shard/task.h"

/* The array, with room for that many elements. */
static inline void *task_grown(void *array, uint32_t *cap, uint32_t need, size_t each)
{
    if (likely(need <= *cap)) return array;
    uint32_t c = *cap ? *cap : 16;
    while (c < need) c *= 2;
    *cap = c;
    return mem_resize(array, c * each);
}

static inline bool task_visits_shards(const struct command *c) { return c->class == CLASS_EACH || c->class == CLASS_CURSOR; }
uint32_t task_route_first_visited(const struct engine *e, const struct command *c, const struct slice *argv); /* of those */
/* The one group that all keys of a request are in, or that was named (shard/seating.h). */
uint32_t task_route_group(const struct engine *e, const struct task *t, const struct request *r, const struct slice *argv);
/* Routes the request at pos again, whose tokens are held. True: it needs no others. */
bool task_route_is_here(struct task *t, const struct engine *e);

/* True: the request at pos needs no shards but those that are held. */
static inline bool task_still_here(struct task *t, const struct engine *e)
{
    return likely(t->requests[t->pos].routed == route_version(&e->route)) || task_route_is_here(t, e);
}
