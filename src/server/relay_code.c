/* Messages between the relays of two nodes, inside those of cluster/wirecall.h:
 *
 *     REQUEST  its arguments are, for each command: {u32 argc, u32 group, u64 range, u64 generation, and of a write u32 slot, u64 number, and if it says it u64 term}, then argc arguments. A ping has the flag RELAY_PING and one empty argument.
 *     ANSWER   the reply is, for each command: u8 status (enum wirecall_status), u32 length, reply
 *
 * Status of a command: DONE; NOT_LEADER: it bounced; BUSY: likewise, but it may come again to the same leader; TRYAGAIN: it was not tried, because one before it bounced or the answer was long enough; MUSTRETRY: it ran, but to no
 * effect, or (with a reply) the fence refused it (relay_fence.c); UNCERTAIN.
 * Of the first NOT_LEADER the answer has the leader. */
#include "base/le.h"
#include "server/relay_parts.h"

enum { ANSWER_HEAD = 5, FRONT_BITS = 16, SLOT_BITS = 24 };

void relay_code_add_head(struct buf *out, struct relay_head h)
{
    le_add_u32(out, h.argc);
    le_add_u32(out, h.group);
    le_add_u64(out, h.range);
    le_add_u64(out, h.generation);
    if (h.seq) {
        le_add_u32(out, h.slot);
        le_add_u64(out, h.seq);
    }
    if (h.term) le_add_u64(out, h.term);
}

/* The four lengths that a head can have are all different. */
static bool is_head(size_t n, bool *numbered, bool *termed)
{
    size_t more = n - RELAY_HEAD_BYTES;
    *numbered = more == RELAY_NUMBER_BYTES || more == RELAY_NUMBER_BYTES + RELAY_TERM_BYTES;
    *termed = more == RELAY_TERM_BYTES || more == RELAY_NUMBER_BYTES + RELAY_TERM_BYTES;
    return more == 0 || *numbered || *termed;
}

bool relay_code_head(const struct slice *argv, uint32_t argc, uint32_t *at, struct relay_head *h)
{
    bool numbered, termed;
    if (*at >= argc || !is_head(argv[*at].n, &numbered, &termed)) return false;
    const char *p = argv[*at].p;
    *h = (struct relay_head){.argc = le_u32(p), .group = le_u32(p + 4), .range = le_u64(p + 8), .generation = le_u64(p + 16)};
    p += RELAY_HEAD_BYTES;
    if (numbered) {
        h->slot = le_u32(p);
        h->seq = le_u64(p + 4);
        p += RELAY_NUMBER_BYTES;
    }
    if (termed) h->term = le_u64(p);
    ++*at;
    return h->argc >= 1 && h->argc <= argc - *at;
}

void relay_code_add_answer(struct buf *out, enum wirecall_status status, struct slice reply)
{
    CHECK(reply.n <= UINT32_MAX);
    buf_add_byte(out, (char)status);
    le_add_u32(out, (uint32_t)reply.n);
    buf_add_slice(out, reply);
}

bool relay_code_answer(struct slice *answers, enum wirecall_status *status, struct slice *reply)
{
    if (answers->n < ANSWER_HEAD) return false;
    uint32_t n = le_u32(answers->p + 1);
    unsigned char s = (unsigned char)answers->p[0];
    if (n > answers->n - ANSWER_HEAD || (s > WIRECALL_NO_GROUP && s != WIRECALL_BUSY)) return false;
    *status = (enum wirecall_status)s;
    *reply = slice_of(answers->p + ANSWER_HEAD, n);
    *answers = slice_of(answers->p + ANSWER_HEAD + n, answers->n - ANSWER_HEAD - n);
    return true;
}

uint64_t relay_code_id(uint32_t front, uint32_t slot, uint32_t serial)
{
    return (uint64_t)front | (uint64_t)slot << FRONT_BITS | (uint64_t)serial << (FRONT_BITS + SLOT_BITS);
}

uint32_t relay_code_front(uint64_t id) { return (uint32_t)(id & ((1u << FRONT_BITS) - 1)); }
uint32_t relay_code_slot(uint64_t id) { return (uint32_t)(id >> FRONT_BITS & ((1u << SLOT_BITS) - 1)); }

bool relay_code_message_id(struct slice message, uint64_t *id)
{
    if (message.n < 8) return false;
    *id = le_u64(message.p);
    return true;
}
