/* Each event: db u8, class u8 (its bit in enum notify_class), length of the name u8, 0 u8, length of the key u32, little endian; the name, the key. */
#include "cluster/intentevent.h"

#include "base/check.h"
#include "base/le.h"
#include "command/exec.h"
#include "store/store.h"

enum {
    HEAD = 8,
    CLASS_BITS = 15,
    CLASSES = NOTIFY_GENERIC | NOTIFY_STRING | NOTIFY_LIST | NOTIFY_SET | NOTIFY_HASH | NOTIFY_ZSET | NOTIFY_EXPIRED | NOTIFY_EVICTED | NOTIFY_STREAM | NOTIFY_KEY_MISS | NOTIFY_MODULE | NOTIFY_NEW,
};

static bool is_class(unsigned bit) { return bit < CLASS_BITS && CLASSES >> bit & 1; }

void intentevent_add(struct buf *events, const struct intentevent *e)
{
    unsigned bit = (unsigned)__builtin_ctz(e->event_class);
    const char head[4] = {(char)e->db, (char)bit, (char)e->name.n};
    CHECK(e->event_class == 1u << bit && is_class(bit) && e->db < STORE_DBS && e->name.n > 0 && e->name.n <= INTENTEVENT_NAME_MAX && e->key.n <= UINT32_MAX);
    buf_add(events, head, sizeof head);
    le_add_u32(events, (uint32_t)e->key.n);
    buf_add_slice(events, e->name);
    buf_add_slice(events, e->key);
}

bool intentevent_next(struct slice *events, struct intentevent *e)
{
    if (events->n < HEAD) return false;
    uint8_t db = (uint8_t)events->p[0], bit = (uint8_t)events->p[1], name = (uint8_t)events->p[2];
    size_t key = le_u32(events->p + 4), left = events->n - HEAD;
    if (db >= STORE_DBS || !is_class(bit) || name == 0 || name > INTENTEVENT_NAME_MAX || events->p[3] || name > left || key > left - name) return false;
    const char *p = events->p + HEAD;
    *e = (struct intentevent){.event_class = 1u << bit, .name = slice_of(p, name), .key = slice_of(p + name, key), .db = db};
    *events = slice_of(p + name + key, left - name - key);
    return true;
}

bool intentevent_are(struct slice events)
{
    struct intentevent e;
    while (intentevent_next(&events, &e)) {}
    return events.n == 0;
}
