#include "server/relay_wave.h"

#include "base/mem.h"

enum {
    PING_MS = 50,         /* between pings to a node that does not answer */
    SLOT_PING = 0xffffff, /* of pings, which need none */
};

static uint32_t take_slot(struct relay_front *rf)
{
    if (rf->n_free) return rf->free_slots[--rf->n_free];
    if (rf->n_slots == rf->cap_slots) {
        rf->cap_slots = rf->cap_slots ? rf->cap_slots * 2 : 64;
        rf->slots = mem_resize(rf->slots, rf->cap_slots * sizeof(struct relay_message *));
        rf->free_slots = mem_resize(rf->free_slots, rf->cap_slots * sizeof *rf->free_slots);
    }
    CHECK(rf->n_slots < SLOT_PING);
    return rf->n_slots++;
}

static struct relay_message *message_new(struct wave *w, uint64_t peer, uint32_t group)
{
    struct relay_front *rf = w->rf;
    struct relay_message *m = mem_zalloc(sizeof *m);
    uint32_t slot = take_slot(rf);
    m->wave = w;
    m->peer = peer;
    m->group = group;
    m->id = relay_code_id(rf->front->worker.id, slot, ++rf->serial);
    m->next = w->messages;
    w->messages = m;
    rf->slots[slot] = m;
    return m;
}

void relay_message_free(struct relay_message *m)
{
    struct relay_front *rf = m->wave->rf;
    struct relay_message **at = &m->wave->messages;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    uint32_t slot = relay_code_slot(m->id);
    rf->slots[slot] = NULL;
    rf->free_slots[rf->n_free++] = slot;
    mem_free(m->requests);
    mem_free(m);
}

struct relay_message *relay_message_find(const struct relay_front *rf, uint64_t id, uint64_t from)
{
    uint32_t slot = relay_code_slot(id);
    struct relay_message *m = slot < rf->n_slots ? rf->slots[slot] : NULL;
    return m && m->id == id && m->peer == from ? m : NULL;
}

struct relay_message *relay_message_to(struct wave *w, uint64_t peer, uint32_t group)
{
    for (struct relay_message *m = w->messages; m; m = m->next)
        if (m->peer == peer) return m;
    return message_new(w, peer, group);
}

bool relay_message_add(struct relay_message *m, uint32_t i)
{
    struct wave *w = m->wave;
    size_t bytes = relay_args_bytes(relay_wave_argv(w, i), relay_wave_request(w, i)->argc) + RELAY_ARG_COST;
    m->full |= m->n && m->bytes + bytes > RELAY_ARGS_MAX;
    if (m->full) return false;
    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 16;
        m->requests = mem_resize(m->requests, m->cap * sizeof *m->requests);
    }
    m->requests[m->n++] = i;
    m->bytes += bytes;
    m->writes |= relay_wave_writes(w, i);
    return true;
}

static void add_arg(struct relay_front *rf, uint32_t n, struct slice arg)
{
    if (n == rf->cap_argv) {
        rf->cap_argv = rf->cap_argv ? rf->cap_argv * 2 : 64;
        rf->argv = mem_resize(rf->argv, rf->cap_argv * sizeof *rf->argv);
    }
    rf->argv[n] = arg;
}

void relay_message_write(struct relay_message *m)
{
    struct wave *w = m->wave;
    struct relay_front *rf = w->rf;
    const struct asker *a = &w->asker;
    struct ticket fence;
    uint64_t map = 0;
    uint32_t n = 0;
    rf->heads.len = 0;
    buf_room(&rf->heads, (size_t)m->n * RELAY_HEAD_BYTES); /* slices into it stay */
    for (uint32_t k = 0; k < m->n; k++) {
        const struct request *r = relay_wave_request(w, m->requests[k]);
        const struct slice *argv = relay_wave_argv(w, m->requests[k]);
        add_arg(rf, n++, slice_of(rf->heads.p + rf->heads.len, RELAY_HEAD_BYTES));
        task_fence(relay_engine(rf), r->cmd, argv, r->argc, &fence);
        if (fence.map) map = fence.map;
        relay_code_add_head(&rf->heads, (struct relay_head){r->argc, w->asked[m->requests[k]].group, fence.range, fence.generation});
        for (uint32_t i = 0; i < r->argc; i++) add_arg(rf, n++, argv[i]);
    }
    struct wirecall_request call = {.id = m->id, .map = map, .flags = a->no_touch ? RELAY_NO_TOUCH : 0, .timeout_ms = a->timeout_ms, .db = a->db, .resp = a->resp, .argc = n};
    wirecall_add_request(&relay_peer(rf, m->peer)->frames, m->group, &call, rf->argv);
    m->sent_ms = w->round_ms;
    STAT_ADD(rf->counts.forwarded, m->n);
}

/* ---- pings */

bool relay_message_reaches(struct relay_front *rf, uint64_t peer, uint32_t group, int64_t now_ms)
{
    struct relay_peer *p = relay_peer(rf, peer);
    if (likely(p->reached)) return true;
    if (!p->ping || now_ms - p->ping_ms >= PING_MS) {
        struct slice none = {0};
        p->ping = relay_code_id(rf->front->worker.id, SLOT_PING, ++rf->serial);
        p->ping_ms = now_ms;
        wirecall_add_request(&p->frames, group, &(struct wirecall_request){.id = p->ping, .flags = RELAY_PING, .resp = 2, .argc = 1}, &none);
    }
    return false;
}

bool relay_message_is_pong(uint64_t id) { return relay_code_slot(id) == SLOT_PING; }
