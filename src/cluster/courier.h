/* The thread that gives snapshots to other nodes and fetches theirs (cluster/snapsend.h, cluster/snapfetch.h), and deletes those that are not needed any more. Private to cluster/snaphost.h's files.
 *
 * Everything is a message to it, from any thread, done in the order in which it came; nothing here waits. What it has fetched goes to the snapper. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cluster/snapcore.h"

struct courier;
struct wire_frame;

struct courier *courier_new(struct snapcore *core);
int courier_start(struct courier *c); /* 0 or -errno */
void courier_stop(struct courier *c); /* after core->stop was set: waits for its end */
void courier_free(struct courier *c);

void courier_fetch(struct courier *c, uint64_t from, uint32_t group, uint64_t index, uint64_t term, struct slice descriptor);
void courier_frame(struct courier *c, uint64_t from, const struct wire_frame *f); /* SNAP_*, well formed. Lost if too many wait. */
void courier_up(struct courier *c, uint64_t peer);
void courier_down(struct courier *c, uint64_t peer);
void courier_put(struct courier *c, const struct snapshelf_item *item); /* can be had from now on */
void courier_marked(struct courier *c, uint32_t group, uint64_t index); /* older ones go, when nobody is at them */
void courier_drop(struct courier *c, uint32_t group);                  /* all of the group's go at once */
