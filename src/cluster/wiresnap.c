/* Bodies:
 *
 *     SNAP_OFFER  u64 id, u64 index, u64 term, u64 bytes, u64 checksum, u8 n, n bytes of name
 *     SNAP_WANT   u64 id, u64 offset, u32 bytes (not 0)
 *     SNAP_CHUNK  u64 id, u64 offset, data to the end (not empty)
 *     SNAP_DONE   u64 id, u8 status */
#include "cluster/wiresnap.h"

#include "cluster/wirefield.h"

static const uint64_t OFFSET_MAX = 1ull << 62;

/* A file in whatever folder the receiver chooses: nothing that leads elsewhere. */
static bool is_name(struct slice s)
{
    if (!s.n || s.p[0] == '.') return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '/' || s.p[i] <= ' ' || s.p[i] >= 0x7f) return false;
    return true;
}

void wiresnap_add_offer(struct buf *out, uint32_t group, const struct wiresnap_offer *m)
{
    CHECK(m->name.n <= WIRESNAP_NAME_MAX && is_name(m->name));
    size_t frame = wire_begin(out, WIRE_SNAP_OFFER, 0, group);
    le_add_u64(out, m->id);
    le_add_u64(out, m->index);
    le_add_u64(out, m->term);
    le_add_u64(out, m->bytes);
    le_add_u64(out, m->checksum);
    wirefield_add_u8(out, (uint8_t)m->name.n);
    buf_add_slice(out, m->name);
    wire_end(out, frame);
}

int wiresnap_get_offer(const struct wire_frame *f, struct wiresnap_offer *m)
{
    struct wirefield r = {f->body, f->type != WIRE_SNAP_OFFER};
    m->id = wirefield_u64(&r);
    m->index = wirefield_u64(&r);
    m->term = wirefield_u64(&r);
    m->bytes = wirefield_u64(&r);
    m->checksum = wirefield_u64(&r);
    m->name = wirefield_bytes(&r, wirefield_u8(&r));
    wirefield_expect(&r, m->bytes < OFFSET_MAX && is_name(m->name));
    return wirefield_end(&r);
}

void wiresnap_add_want(struct buf *out, uint32_t group, const struct wiresnap_want *m)
{
    CHECK(m->bytes);
    size_t frame = wire_begin(out, WIRE_SNAP_WANT, 0, group);
    le_add_u64(out, m->id);
    le_add_u64(out, m->offset);
    le_add_u32(out, m->bytes);
    wire_end(out, frame);
}

int wiresnap_get_want(const struct wire_frame *f, struct wiresnap_want *m)
{
    struct wirefield r = {f->body, f->type != WIRE_SNAP_WANT};
    m->id = wirefield_u64(&r);
    m->offset = wirefield_u64(&r);
    m->bytes = wirefield_u32(&r);
    wirefield_expect(&r, m->offset < OFFSET_MAX && m->bytes);
    return wirefield_end(&r);
}

void wiresnap_add_chunk(struct buf *out, uint32_t group, const struct wiresnap_chunk *m)
{
    CHECK(m->data.n && m->data.n <= WIRESNAP_CHUNK_MAX);
    size_t frame = wire_begin(out, WIRE_SNAP_CHUNK, 0, group);
    le_add_u64(out, m->id);
    le_add_u64(out, m->offset);
    buf_add_slice(out, m->data);
    wire_end(out, frame);
}

int wiresnap_get_chunk(const struct wire_frame *f, struct wiresnap_chunk *m)
{
    struct wirefield r = {f->body, f->type != WIRE_SNAP_CHUNK};
    m->id = wirefield_u64(&r);
    m->offset = wirefield_u64(&r);
    m->data = wirefield_bytes(&r, r.rest.n);
    wirefield_expect(&r, m->offset < OFFSET_MAX && m->data.n && m->data.n <= WIRESNAP_CHUNK_MAX);
    return wirefield_end(&r);
}

void wiresnap_add_done(struct buf *out, uint32_t group, const struct wiresnap_done *m)
{
    size_t frame = wire_begin(out, WIRE_SNAP_DONE, 0, group);
    le_add_u64(out, m->id);
    wirefield_add_u8(out, (uint8_t)m->status);
    wire_end(out, frame);
}

int wiresnap_get_done(const struct wire_frame *f, struct wiresnap_done *m)
{
    struct wirefield r = {f->body, f->type != WIRE_SNAP_DONE};
    m->id = wirefield_u64(&r);
    m->status = wirefield_choice(&r, WIRESNAP_FAILED + 1);
    return wirefield_end(&r);
}
