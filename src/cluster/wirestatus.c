/* The body of a STATUS: one record behind the other to the end.
 *
 *     u64 node (not 0), u64 incarnation, u64 version, u8 state, u32 groups, u32 leaders, u64 keys, u64 bytes, u64 free bytes, u64 ops per second,
 *     u64 version of the map, u8 n, n bytes of address, and for each of the leaders, ascending by group:
 *         u32 group, u64 term, u8 n, n times u64 node (of a member that is behind) */
#include "cluster/wirestatus.h"

#include "cluster/wirefield.h"

size_t wirestatus_begin(struct buf *out) { return wire_begin(out, WIRE_STATUS, 0, 0); }

void wirestatus_add(struct buf *out, const struct wirestatus *s)
{
    CHECK(s->node && s->address.n <= WIRE_ADDRESS_MAX);
    le_add_u64(out, s->node);
    le_add_u64(out, s->incarnation);
    le_add_u64(out, s->version);
    wirefield_add_u8(out, (uint8_t)s->state);
    le_add_u32(out, s->groups);
    le_add_u32(out, s->leaders);
    le_add_u64(out, s->keys);
    le_add_u64(out, s->bytes);
    le_add_u64(out, s->free_bytes);
    le_add_u64(out, s->ops_per_s);
    le_add_u64(out, s->map_version);
    wirefield_add_u8(out, (uint8_t)s->address.n);
    buf_add_slice(out, s->address);
    buf_add_slice(out, s->leads);
}

void wirestatus_add_lead(struct buf *leads, const struct wirestatus_lead *l)
{
    CHECK(l->n_behind <= WIRESTATUS_BEHIND_MAX);
    le_add_u32(leads, l->group);
    le_add_u64(leads, l->term);
    wirefield_add_u8(leads, (uint8_t)l->n_behind);
    for (uint32_t i = 0; i < l->n_behind; i++) le_add_u64(leads, l->behind[i]);
}

static void read_lead(struct wirefield *r, struct wirestatus_lead *l)
{
    l->group = wirefield_u32(r);
    l->term = wirefield_u64(r);
    l->n_behind = wirefield_choice(r, WIRESTATUS_BEHIND_MAX + 1);
    for (uint32_t i = 0; i < l->n_behind; i++) l->behind[i] = wirefield_u64(r);
}

/* Skips them, looking at each. */
static struct slice read_leads(struct wirefield *r, uint32_t n)
{
    struct slice all = r->rest;
    struct wirestatus_lead l;
    uint64_t least = 0;
    for (; n && !r->bad; n--) {
        read_lead(r, &l);
        wirefield_expect(r, l.group >= least);
        least = (uint64_t)l.group + 1;
    }
    return slice_of(all.p, all.n - r->rest.n);
}

static void read_one(struct wirefield *r, struct wirestatus *s)
{
    s->node = wirefield_u64(r);
    s->incarnation = wirefield_u64(r);
    s->version = wirefield_u64(r);
    s->state = wirefield_choice(r, WIRESTATUS_FULL + 1);
    s->groups = wirefield_u32(r);
    s->leaders = wirefield_u32(r);
    s->keys = wirefield_u64(r);
    s->bytes = wirefield_u64(r);
    s->free_bytes = wirefield_u64(r);
    s->ops_per_s = wirefield_u64(r);
    s->map_version = wirefield_u64(r);
    s->address = wirefield_bytes(r, wirefield_u8(r));
    wirefield_expect(r, s->node != 0 && s->leaders <= s->groups);
    s->leads = read_leads(r, s->leaders);
}

int wirestatus_get(const struct wire_frame *f, struct wirestatus_list *list)
{
    struct wirefield r = {f->body, f->type != WIRE_STATUS};
    *list = (struct wirestatus_list){.rest = f->body};
    struct wirestatus s;
    for (; r.rest.n && !r.bad; list->n++) {
        read_one(&r, &s);
        wirefield_expect(&r, list->n < WIRESTATUS_NODES_MAX);
    }
    return wirefield_end(&r);
}

bool wirestatus_next(struct wirestatus_list *list, struct wirestatus *out)
{
    if (!list->rest.n) return false;
    struct wirefield r = {list->rest, false};
    read_one(&r, out);
    CHECK(!r.bad); /* wirestatus_get has looked */
    list->rest = r.rest;
    return true;
}

bool wirestatus_next_lead(struct slice *leads, struct wirestatus_lead *out)
{
    if (!leads->n) return false;
    struct wirefield r = {*leads, false};
    read_lead(&r, out);
    CHECK(!r.bad);
    *leads = r.rest;
    return true;
}
