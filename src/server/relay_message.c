#include "server/relay_wave.h"

#include "cluster/termboard.h"
#include "server/relay_lane.h"

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
    m->once |= relay_wave_writes(w, i) && !relay_wave_numbers(w, i);
    return true;
}

/* ---- numbers of writes */

static void number(struct wave *w, uint32_t i)
{
    struct relay_numbers *n = &w->rf->numbers;
    struct asked *a = &w->asked[i];
    if (a->seq || !relay_wave_numbers(w, i)) return;
    a->slot = n->n_free ? n->free[--n->n_free] : ++n->made;
    a->seq = ++n->last;
    w->numbered = true;
}

void relay_message_free_numbers(struct wave *w, uint32_t from)
{
    struct relay_numbers *n = &w->rf->numbers;
    if (!w->numbered) return;
    if (n->cap < n->made) {
        n->cap = n->made < 64 ? 64 : n->made * 2;
        n->free = mem_resize(n->free, n->cap * sizeof *n->free);
    }
    for (uint32_t i = from; i < relay_wave_size(w); i++)
        if (w->asked[i].seq) n->free[n->n_free++] = w->asked[i].slot;
}

void relay_message_ticket(const struct wave *w, uint32_t i, struct ticket *out)
{
    const struct relay_front *rf = w->rf;
    const struct request *r = relay_wave_request(w, i);
    const struct asked *a = &w->asked[i];
    task_fence(relay_engine(rf), r->cmd, relay_wave_argv(w, i), r->argc, out);
    out->group = a->group;
    out->node = rf->relay->cluster.self;
    out->front = rf->front->worker.id;
    out->session = rf->numbers.session;
    out->slot = a->slot;
    out->seq = a->seq;
    out->again = w->unsure;
}

/* ---- writing */

static void add_arg(struct relay_front *rf, uint32_t n, struct slice arg)
{
    if (n == rf->cap_argv) {
        rf->cap_argv = rf->cap_argv ? rf->cap_argv * 2 : 64;
        rf->argv = mem_resize(rf->argv, rf->cap_argv * sizeof *rf->argv);
    }
    rf->argv[n] = arg;
}

/* Appends the command and its head; gives how many arguments there are then. */
static uint32_t add_command(struct relay_message *m, uint32_t i, uint32_t n, uint64_t *map)
{
    struct wave *w = m->wave;
    struct relay_front *rf = w->rf;
    const struct request *r = relay_wave_request(w, i);
    const struct slice *argv = relay_wave_argv(w, i);
    struct ticket t;
    number(w, i);
    relay_message_ticket(w, i, &t);
    if (t.map) *map = t.map;
    size_t at = rf->heads.len;
    relay_code_add_head(&rf->heads, (struct relay_head){.argc = r->argc, .group = t.group, .range = t.range, .generation = t.generation, .slot = t.slot, .seq = t.seq, .term = m->lane ? termboard_term(rf->relay->cluster.board, t.group) : 0});
    add_arg(rf, n++, slice_of(rf->heads.p + at, rf->heads.len - at));
    for (uint32_t k = 0; k < r->argc; k++) add_arg(rf, n++, argv[k]);
    return n;
}

void relay_message_write(struct relay_message *m)
{
    struct wave *w = m->wave;
    struct relay_front *rf = w->rf;
    const struct asker *a = &w->asker;
    uint32_t n = 0, flags = (a->no_touch ? RELAY_NO_TOUCH : 0) | (w->unsure ? RELAY_AGAIN : 0);
    uint64_t map = 0;
    rf->heads.len = 0;
    struct relay_lane *lane = relay_lane_to(rf, m->peer);
    m->lane = lane ? lane->serial : 0;
    buf_room(&rf->heads, (size_t)m->n * (RELAY_HEAD_BYTES + RELAY_NUMBER_BYTES + RELAY_TERM_BYTES)); /* slices into it stay */
    for (uint32_t k = 0; k < m->n; k++) n = add_command(m, m->requests[k], n, &map);
    struct wirecall_request call = {.id = m->id, .session = rf->numbers.session, .map = map, .flags = flags, .timeout_ms = a->timeout_ms, .db = a->db, .resp = a->resp, .argc = n};
    wirecall_add_request(lane ? &lane->out : &relay_peer(rf, m->peer)->frames, m->group, &call, rf->argv);
    m->sent_ms = w->round_ms;
    STAT_ADD(rf->counts.forwarded, m->n);
}

/* ---- pings */

bool relay_message_reaches(struct relay_front *rf, uint64_t peer, uint32_t group, int64_t now_ms)
{
    struct relay_peer *p = relay_peer(rf, peer);
    if (p->reached || relay_lane_to(rf, peer)) return true;
    if (!p->ping || now_ms - p->ping_ms >= PING_MS) {
        struct slice none = {0};
        p->ping = relay_code_id(rf->front->worker.id, SLOT_PING, ++rf->serial);
        p->ping_ms = now_ms;
        wirecall_add_request(&p->frames, group, &(struct wirecall_request){.id = p->ping, .flags = RELAY_PING, .resp = 2, .argc = 1}, &none);
    }
    return false;
}

bool relay_message_is_pong(uint64_t id) { return relay_code_slot(id) == SLOT_PING; }
