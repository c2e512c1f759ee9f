#include "cluster/snapfill.h"

#include <errno.h>

#include "base/err.h"
#include "cluster/meta.h"
#include "cluster/seat.h"
#include "cluster/snapstate.h"
#include "dump/dumpfile.h"

enum {
    PROGRESS_MS = 5000,     /* between lines in the log */
    AHEAD_BYTES = 16 << 20, /* read, and not in the seat yet */
};

/* ---- finding */

int snapfill_open(const struct snapcore *c, uint32_t group, uint64_t index, struct groupsnap_reader **out, struct buf *why)
{
    int rc = groupsnap_find(out, c->o.files, c->o.dir, c->o.cluster, group, index, why);
    if (rc == 1 && groupsnap_header(*out)->index == index) return 0;
    groupsnap_close(*out);
    *out = NULL;
    if (rc < 0) buf_printf(why, "the folder %s cannot be read: %s", c->o.dir, err_text(rc));
    else if (why->len == 0) buf_printf(why, "%s has no snapshot of group %u at index %llu", c->o.dir, group, (unsigned long long)index);
    return rc < 0 ? rc : -ENOENT;
}

/* ---- progress */

struct progress {
    const struct snapcore *core;
    uint32_t group;
    uint64_t bytes, of; /* of entries */
    uint64_t told_ms;
};

static void tell_progress(struct progress *p, size_t bytes)
{
    uint64_t now = snapcore_ms();
    p->bytes += bytes;
    if (now - p->told_ms < PROGRESS_MS) return;
    p->told_ms = now;
    slog(p->core->o.log, SLOG_NOTICE, "a group is filled from its snapshot", "group=%u bytes=%llu of=%llu", p->group, (unsigned long long)p->bytes, (unsigned long long)p->of);
}

/* ---- seats */

/* The file is read faster than a store takes it: what is between them stays bounded. */
static void wait_for_seat(const struct snapcore *c, uint32_t group, const struct snapwait_tether *tether)
{
    struct snapwait *reached = snapwait_new();
    seat_fill_reached(c->o.seats, group, snapwait_filled, reached);
    snapwait_end(reached, tether);
}

static int fill_seat(const struct snapcore *c, uint32_t group, struct groupsnap_reader *r, const struct snapwait_tether *tether, struct buf *why)
{
    struct progress p = {.core = c, .group = group, .of = r ? groupsnap_totals(r).raw_bytes : 0, .told_ms = snapcore_ms()};
    struct slice raw;
    size_t ahead = 0;
    int rc = 0;
    seat_fill_begin(c->o.seats, group);
    while (r && snapwait_goes_on(tether) && (rc = groupsnap_next(r, &raw, why)) == 1) {
        seat_fill(c->o.seats, group, raw);
        tell_progress(&p, raw.n);
        ahead += raw.n;
        if (ahead < AHEAD_BYTES) continue;
        wait_for_seat(c, group, tether);
        ahead = 0;
    }
    if (rc < 0) return rc;
    if (!snapwait_goes_on(tether)) return -EINTR;
    struct snapwait *filled = snapwait_new();
    seat_filled(c->o.seats, group, r ? groupsnap_header(r)->index : 0, r ? groupsnap_header(r)->term : 0, snapwait_filled, filled);
    return snapwait_end(filled, tether);
}

/* ---- groups 0 and 1 */

struct restore {
    const struct snapcore *core;
    uint32_t group;
    uint64_t index;
    struct buf state;
    bool taken;
};

static void restore(void *ctx)
{
    struct restore *s = ctx;
    s->taken = s->core->o.restore(s->core->o.ctx, s->group, buf_slice(&s->state), s->index);
}

static int read_state(struct groupsnap_reader *r, struct buf *state, struct buf *why)
{
    struct slice raw;
    uint64_t pieces = 0;
    int rc;
    while ((rc = groupsnap_next(r, &raw, why)) == 1)
        if (!snapstate_take(raw, &pieces, state)) return -EINVAL;
    return rc;
}

static int fill_state(const struct snapcore *c, uint32_t group, struct groupsnap_reader *r, const struct snapwait_tether *tether, struct buf *why)
{
    struct restore s = {.core = c, .group = group, .index = r ? groupsnap_header(r)->index : 0};
    int rc = r ? read_state(r, &s.state, why) : 0;
    if (rc == 0) rc = snapwait_run(c->o.raft, restore, &s, tether);
    if (rc == 0 && !s.taken) rc = -EINVAL;
    if (rc == -EINVAL && why->len == 0) buf_printf(why, "the snapshot of group %u at index %llu has no state that this program knows", group, (unsigned long long)s.index);
    buf_fini(&s.state);
    return rc;
}

int snapfill_run(const struct snapcore *c, uint32_t group, struct groupsnap_reader *r, const struct snapwait_tether *tether, struct buf *why)
{
    return group < META_FIRST_DATA_GROUP ? fill_state(c, group, r, tether, why) : fill_seat(c, group, r, tether, why);
}
