/* PUBLISH  u8 kind (enum wirepub_kind), u32 length of the channel's name, name, message to the end. Has no group. Since version 2. */
#include "cluster/wirepub.h"

#include "cluster/wirefield.h"

void wirepub_add(struct buf *out, const struct wirepub *p)
{
    CHECK(p->channel.n <= WIREPUB_BYTES_MAX && p->message.n <= WIREPUB_BYTES_MAX - p->channel.n);
    size_t frame = wire_begin(out, WIRE_PUBLISH, 0, 0);
    wirefield_add_u8(out, (uint8_t)p->kind);
    le_add_u32(out, (uint32_t)p->channel.n);
    buf_add_slice(out, p->channel);
    buf_add_slice(out, p->message);
    wire_end(out, frame);
}

int wirepub_get(const struct wire_frame *f, struct wirepub *p)
{
    struct wirefield r = {f->body, f->type != WIRE_PUBLISH};
    p->kind = wirefield_choice(&r, WIREPUB_SHARD + 1);
    p->channel = wirefield_bytes(&r, wirefield_u32(&r));
    p->message = r.rest;
    return r.bad ? -EBADMSG : 0;
}
