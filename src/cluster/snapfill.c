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

/* Of what a call of seat.h will tell, if the group sits there still; -EINTR: it does not, and nobody needs the rest. */
static int wait_if(bool sits, struct snapwait *w, const struct snapwait_tether *tether)
{
    if (!sits) snapwait_filled(w, 0, 0);
    int rc = snapwait_end(w, tether);
    return sits ? rc : -EINTR;
}

/* The file is read faster than a store takes it: what is between them stays bounded. */
static int wait_for_seat(struct seat *seat, const struct snapwait_tether *tether)
{
    struct snapwait *reached = snapwait_new();
    return wait_if(seat_fill_reached(seat, snapwait_filled, reached), reached, tether);
}

/* Gives 0 at the end of the file. */
static int fill_pieces(struct seat *seat, struct groupsnap_reader *r, struct progress *p, const struct snapwait_tether *tether, struct buf *why)
{
    struct slice raw;
    size_t ahead = 0;
    int rc;
    while (snapwait_goes_on(tether) && (rc = groupsnap_next(r, &raw, why)) != 0) {
        if (rc < 0) return rc;
        if (!seat_fill(seat, raw)) return -EINTR;
        tell_progress(p, raw.n);
        ahead += raw.n;
        if (ahead < AHEAD_BYTES) continue;
        if ((rc = wait_for_seat(seat, tether)) < 0) return rc;
        ahead = 0;
    }
    return snapwait_goes_on(tether) ? 0 : -EINTR;
}

static int fill_seat(const struct snapcore *c, uint32_t group, struct groupsnap_reader *r, const struct snapwait_tether *tether, struct buf *why)
{
    struct progress p = {.core = c, .group = group, .of = r ? groupsnap_totals(r).raw_bytes : 0, .told_ms = snapcore_ms()};
    struct seat *seat = seats_find(c->o.seats, group);
    if (!seat || !seat_fill_begin(seat)) return -EINTR;
    int rc = r ? fill_pieces(seat, r, &p, tether, why) : 0;
    if (rc < 0) return rc;
    struct snapwait *filled = snapwait_new();
    return wait_if(seat_filled(seat, r ? groupsnap_header(r)->index : 0, r ? groupsnap_header(r)->term : 0, snapwait_filled, filled), filled, tether);
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
