#include "cluster/snaptake.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "cluster/groupcut.h"
#include "cluster/meta.h"
#include "cluster/seat.h"
#include "cluster/snapstate.h"

enum { LOOK_MS = 2, COMMIT_MS = 2000 /* what is not committed then may not be for long: there is no majority, or no room; other groups are not to wait for that */ };

struct taking {
    struct snapcore *core;
    uint32_t group;
    const struct snapwait_tether *tether;
    const atomic_bool *hurry;
    struct seat_mark mark;
    struct groupsnap_header header;
    struct buf state; /* of groups 0 and 1 */
};

static bool goes_on(void *ctx)
{
    const struct taking *t = ctx;
    return snapwait_goes_on(t->tether);
}

/* The header as far as it is known without a cut. */
static void begin_header(struct taking *t)
{
    t->header = (struct groupsnap_header){.group = t->group};
    memcpy(t->header.cluster, t->core->o.cluster, sizeof t->header.cluster);
}

/* A name that is there is not written again: what it has is what the log goes on from. */
static int look_for_it(struct taking *t)
{
    struct snapshelf_item item;
    return t->header.index == 0 || snapshelf_find(&t->core->shelf, t->group, t->header.index, &item) ? -EALREADY : 0;
}

/* ---- of a seat */

static void at_cut(void *ctx)
{
    struct taking *t = ctx;
    seat_mark(t->core->o.seats, t->group, &t->mark);
}

static void ask_members(void *ctx)
{
    struct taking *t = ctx;
    t->core->o.members(t->core->o.ctx, t->group, &t->header.members);
}

/* The store runs ahead of the log: what it had at the cut is worth a snapshot when it is committed. */
static int wait_for_commit(struct taking *t)
{
    uint64_t by = snapcore_ms() + COMMIT_MS;
    for (;;) {
        int rc = seat_mark_index(t->core->o.seats, t->group, &t->mark);
        if (rc != -EAGAIN) return rc;
        if (!goes_on(t) || atomic_load(t->hurry) || snapcore_ms() > by) return -ECANCELED;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
}

/* A seat that is spoilt, or being emptied, has what no log has. */
static int look_at_seat(const struct taking *t)
{
    struct seat_info seat;
    return !seats_look(t->core->o.seats, t->group, &seat) || seat.spoilt || seat.filling ? -ECANCELED : 0;
}

static int header(void *ctx, struct groupsnap_header *h)
{
    struct taking *t = ctx;
    int rc = wait_for_commit(t);
    if (rc == 0) rc = look_at_seat(t);
    t->header.index = t->mark.index;
    t->header.term = t->mark.term;
    if (rc == 0) rc = look_for_it(t);
    if (rc == 0) rc = snapwait_run(t->core->o.raft, ask_members, t, t->tether);
    *h = t->header;
    return rc;
}

static int take_seat(struct taking *t, struct snapshelf_item *out)
{
    const struct groupcut_source source = {.ctx = t, .at_cut = at_cut, .header = header, .goes_on = goes_on};
    const struct snaphost_options *o = &t->core->o;
    struct seat_info seat;
    struct groupcut_result result;
    if (!seats_look(o->seats, t->group, &seat) || seat.spoilt || seat.filling) return -ECANCELED;
    int rc = groupcut_run(o->walk, seat.shard, &source, o->files, o->dir, o->profile, &result);
    if (rc == 0) *out = (struct snapshelf_item){result.file, result.totals};
    return rc;
}

/* ---- of groups 0 and 1 */

static void ask_state(void *ctx)
{
    struct taking *t = ctx;
    t->core->o.state(t->core->o.ctx, t->group, &t->state, &t->header.index, &t->header.term);
    ask_members(t);
}

static int write_state(struct taking *t, struct snapshelf_item *out)
{
    const struct snaphost_options *o = &t->core->o;
    struct groupsnap_writer *w;
    struct buf raw = {0};
    uint64_t entries = snapstate_add(&raw, buf_slice(&t->state));
    t->header.cut_ms = clock_unix_ms();
    int rc = groupsnap_create(&w, o->files, o->dir, &t->header, o->profile);
    if (rc == 0 && entries) rc = groupsnap_write(w, buf_slice(&raw), entries);
    if (rc == 0) rc = groupsnap_finish(w, &out->totals);
    groupsnap_writer_free(w);
    buf_fini(&raw);
    out->file = (struct groupdir_file){.kind = GROUPDIR_SNAPSHOT, .group = t->group, .index = t->header.index, .term = t->header.term};
    return rc;
}

static int take_state(struct taking *t, struct snapshelf_item *out)
{
    int rc = snapwait_run(t->core->o.raft, ask_state, t, t->tether);
    if (rc == 0) rc = look_for_it(t);
    if (rc == 0) rc = write_state(t, out);
    buf_fini(&t->state);
    return rc;
}

int snaptake_run(struct snapcore *c, uint32_t group, const struct snapwait_tether *tether, const atomic_bool *hurry, struct snapshelf_item *out)
{
    struct taking t = {.core = c, .group = group, .tether = tether, .hurry = hurry};
    begin_header(&t);
    return group < META_FIRST_DATA_GROUP ? take_state(&t, out) : take_seat(&t, out);
}
