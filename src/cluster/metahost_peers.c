/* The other nodes, by what they report of themselves. */
#include "base/mem.h"
#include "cluster/metahost_own.h"

/* ---- the table of nodes */

static uint32_t place_of(const struct metahost *h, uint64_t id)
{
    uint32_t at = 0;
    while (at < h->n_peers && h->peers[at].id < id) at++;
    return at;
}

struct metahost_peer *metahost_peers_find(const struct metahost *h, uint64_t id)
{
    uint32_t at = place_of(h, id);
    return at < h->n_peers && h->peers[at].id == id ? &h->peers[at] : NULL;
}

static struct metahost_peer *find_or_add(struct metahost *h, uint64_t id)
{
    uint32_t at = place_of(h, id);
    if (at < h->n_peers && h->peers[at].id == id) return &h->peers[at];
    h->peers = mem_resize(h->peers, (h->n_peers + 1) * sizeof *h->peers);
    memmove(h->peers + at + 1, h->peers + at, (h->n_peers++ - at) * sizeof *h->peers);
    h->peers[at] = (struct metahost_peer){.id = id, .since = h->now, .alive = true};
    return &h->peers[at];
}

void metahost_peers_put(struct metahost *h, uint64_t id, struct slice address)
{
    CHECK(id != h->me && address.n <= WIRE_ADDRESS_MAX);
    struct metahost_peer *p = find_or_add(h, id);
    if (slice_eq(slice_str(p->address), address)) return;
    memcpy(p->address, address.p, address.n);
    p->address[address.n] = 0;
    h->calls.peer_put(h->calls.ctx, id, p->address);
}

void metahost_peer(struct metahost *h, uint64_t node, const char *address)
{
    if (node != h->me) metahost_peers_put(h, node, slice_str(address));
}

static void remove_peer(struct metahost *h, uint32_t at)
{
    uint64_t id = h->peers[at].id;
    memmove(h->peers + at, h->peers + at + 1, (--h->n_peers - at) * sizeof *h->peers);
    h->calls.peer_del(h->calls.ctx, id);
}

static void say_farewell(struct metahost *h, struct metahost_peer *p)
{
    p->gone = true;
    p->farewell_until = h->now + METAHOST_FAREWELL_MS;
}

/* ---- nodes that come and go */

static void sync_node(struct metahost *h, const struct metanodes_node *n)
{
    struct metahost_peer *p = metahost_peers_find(h, n->id);
    if (n->id == h->me) return;
    if (n->state == METACODE_GONE) {
        if (!p || p->gone) return;
        slog(h->log, SLOG_NOTICE, "a node is gone", "node=%llu", (unsigned long long)n->id);
        say_farewell(h, p);
        return;
    }
    if (!p) slog(h->log, SLOG_NOTICE, "a node is part of the cluster", "node=%llu address=%.*s", (unsigned long long)n->id, (int)n->is.peer.n, n->is.peer.p);
    metahost_peers_put(h, n->id, n->is.peer);
    p = metahost_peers_find(h, n->id);
    if (p->leaving == (n->state == METACODE_DRAINING)) return;
    p->leaving = !p->leaving;
    slog(h->log, SLOG_NOTICE, p->leaving ? "a node leaves: its replicas are moved away" : "a node stays after all", "node=%llu", (unsigned long long)n->id);
}

void metahost_peers_sync(struct metahost *h)
{
    for (uint32_t i = 0; i < h->nodes->n; i++) sync_node(h, &h->nodes->nodes[i]);
    /* Those that are gone for so long that there is no record of them. */
    for (uint32_t i = 0; i < h->n_peers; i++)
        if (!h->peers[i].gone && metanodes_gone(h->nodes, h->peers[i].id)) say_farewell(h, &h->peers[i]);
}

bool metahost_caller(struct metahost *h, const struct wire_hello *hello)
{
    if (hello->node == h->me || memcmp(hello->cluster, h->cluster, META_CLUSTER_ID) != 0) return false;
    /* A number that is not known yet was given by an entry that did not come here yet. */
    bool gone = metanodes_gone(h->nodes, hello->node);
    metahost_peers_put(h, hello->node, slice_str(hello->address));
    if (gone) say_farewell(h, metahost_peers_find(h, hello->node));
    return true;
}

/* ---- time */

void metahost_peers_pass(struct metahost *h, uint64_t gap)
{
    for (uint32_t i = 0; i < h->n_peers; i++) {
        h->peers[i].since += gap;
        if (h->peers[i].heard) h->peers[i].heard += gap;
    }
}

uint64_t metahost_peers_silent_since(const struct metahost *h, uint64_t id)
{
    const struct metahost_peer *p = id == h->me ? NULL : metahost_peers_find(h, id);
    if (id == h->me) return 0;
    if (!p) return h->started;
    if (p->heard && h->now - p->heard < METAHOST_ALIVE_MS) return 0;
    return p->heard ? p->heard : p->since;
}

bool metahost_alive(const struct metahost *h, uint64_t node)
{
    const struct metahost_peer *p = node == h->me ? NULL : metahost_peers_find(h, node);
    return node == h->me || (p && p->heard && h->now - p->heard < METAHOST_ALIVE_MS);
}

bool metahost_reaches(const struct metahost *h, uint64_t node) { return node == h->me || !h->calls.reaches || h->calls.reaches(h->calls.ctx, node); }

bool metahost_peers_lively(const struct metahost *h, uint64_t id)
{
    const struct metahost_peer *p = metahost_peers_find(h, id);
    return p && p->heard && h->now - p->heard < METAHOST_LIVELY_MS && metahost_reaches(h, id);
}

bool metahost_peers_lost(const struct metahost *h, uint64_t id)
{
    if (metanodes_gone(h->nodes, id)) return true;
    return !metahost_alive(h, id) && h->now - metahost_peers_silent_since(h, id) >= h->nodes->settings[METACODE_DEAD_AFTER_MS];
}

/* ---- groups */

static uint32_t group_place(const struct metahost *h, uint32_t id)
{
    uint32_t low = 0, high = h->n_known;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (h->known[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct metahost_group *metahost_peers_group_known(const struct metahost *h, uint32_t id)
{
    uint32_t at = group_place(h, id);
    return at < h->n_known && h->known[at].id == id ? &h->known[at] : NULL;
}

struct metahost_group *metahost_peers_group(struct metahost *h, uint32_t id)
{
    uint32_t at = group_place(h, id);
    if (at < h->n_known && h->known[at].id == id) return &h->known[at];
    h->known = mem_resize(h->known, (h->n_known + 1) * sizeof *h->known);
    memmove(h->known + at + 1, h->known + at, (h->n_known++ - at) * sizeof *h->known);
    h->known[at] = (struct metahost_group){.id = id};
    return &h->known[at];
}

bool metahost_peers_is_behind(const struct metahost_group *g, uint64_t node)
{
    for (uint32_t i = 0; i < g->n_behind; i++)
        if (g->behind[i] == node) return true;
    return false;
}

/* Of the replica here and the word of another node the one of the later term holds. */
uint64_t metahost_leader(const struct metahost *h, uint32_t group)
{
    const struct metahost_group *g = metahost_peers_group_known(h, group);
    if (!g) return 0;
    bool own = g->here && g->leader && (!g->hint || g->term >= g->hint_term);
    if (own) return g->leader;
    return g->here && g->hint_term < g->term ? 0 : g->hint;
}

uint64_t metahost_live_leader(const struct metahost *h, uint32_t group)
{
    uint64_t leader = metahost_leader(h, group);
    return leader && metahost_alive(h, leader) ? leader : 0;
}

/* ---- reports, out */

static void find_behind(struct metahost *h, struct metahost_group *g)
{
    struct raftnode_info info;
    g->n_behind = 0;
    if (h->calls.look(h->calls.ctx, g->id, &info) < 0) return;
    for (uint32_t i = 0; i < info.members.n; i++)
        if (info.members.m[i].node != h->me && (!info.match[i] || info.match[i] + METAHOST_LAG_MAX < info.last)) g->behind[g->n_behind++] = info.members.m[i].node;
}

static enum wirestatus_state own_state(const struct metahost *h)
{
    const struct metanodes_node *n = metanodes_find(h->nodes, h->me);
    if (!n) return WIRESTATUS_JOINING;
    if (n->state != METACODE_UP) return WIRESTATUS_LEAVING;
    return h->report.full ? WIRESTATUS_FULL : WIRESTATUS_SERVING;
}

static void add_leads(struct metahost *h, struct wirestatus *s, struct buf *leads)
{
    for (uint32_t i = 0; i < h->n_known; i++) {
        struct metahost_group *g = &h->known[i];
        s->groups += g->here;
        if (!g->here || g->state != RAFTNODE_LEADER) continue;
        struct wirestatus_lead l = {.group = g->id, .term = g->term};
        find_behind(h, g);
        l.n_behind = g->n_behind;
        memcpy(l.behind, g->behind, g->n_behind * sizeof *g->behind);
        wirestatus_add_lead(leads, &l);
        s->leaders++;
    }
}

static void make_report(struct metahost *h, struct buf *out)
{
    struct wirestatus s = {.node = h->me,
                           .incarnation = h->incarnation,
                           .version = ++h->report_version,
                           .state = own_state(h),
                           .keys = h->report.keys,
                           .bytes = h->report.bytes,
                           .free_bytes = h->report.free_bytes,
                           .ops_per_s = h->report.ops_per_s,
                           .map_version = h->groups->version,
                           .address = h->is.peer};
    struct buf leads = {0};
    add_leads(h, &s, &leads);
    s.leads = buf_slice(&leads);
    size_t frame = wirestatus_begin(out);
    wirestatus_add(out, &s);
    wire_end(out, frame);
    buf_fini(&leads);
}

static void send_reports(struct metahost *h)
{
    h->scratch.len = 0;
    make_report(h, &h->scratch);
    for (uint32_t i = 0; i < h->n_peers; i++)
        if (!h->peers[i].gone) h->calls.send(h->calls.ctx, h->peers[i].id, buf_slice(&h->scratch));
}

/* ---- reports, in */

/* Numbers of groups come from outside: what is far from those that there are is not remembered. */
static bool is_plausible(const struct metahost *h, uint32_t group) { return group < (uint64_t)h->groups->next_group + 1024; }

static bool take_lead(struct metahost *h, uint64_t from, const struct wirestatus_lead *l)
{
    struct metahost_group *g = metahost_peers_group(h, l->group);
    if (g->hint && g->hint_term > l->term) return false;
    bool other = g->hint != from || g->hint_term != l->term;
    g->hint = from;
    g->hint_term = l->term;
    if (!(g->here && g->state == RAFTNODE_LEADER)) {
        g->n_behind = l->n_behind;
        memcpy(g->behind, l->behind, l->n_behind * sizeof *l->behind);
    }
    return other;
}

/* Groups that it does not lead any more. */
static void forget_leads(struct metahost *h, uint64_t from, struct slice leads)
{
    struct wirestatus_lead l;
    bool more = wirestatus_next_lead(&leads, &l);
    for (uint32_t i = 0; i < h->n_known; i++) {
        struct metahost_group *g = &h->known[i];
        while (more && l.group < g->id) more = wirestatus_next_lead(&leads, &l);
        if (g->hint == from && !(more && l.group == g->id)) g->hint = 0;
    }
}

static void take_report(struct metahost *h, const struct wirestatus *s)
{
    if (metanodes_gone(h->nodes, s->node)) return;
    struct metahost_peer *p = find_or_add(h, s->node);
    struct wirestatus_lead l;
    if (s->incarnation < p->incarnation || (s->incarnation == p->incarnation && s->version <= p->version)) return;
    h->dirty |= p->heard == 0 || s->map_version != p->map_version;
    p->heard = h->now ? h->now : 1;
    p->incarnation = s->incarnation;
    p->version = s->version;
    p->bytes = s->bytes;
    p->map_version = s->map_version;
    p->full = s->state == WIRESTATUS_FULL;
    forget_leads(h, s->node, s->leads);
    for (struct slice rest = s->leads; wirestatus_next_lead(&rest, &l);) {
        if (!is_plausible(h, l.group)) continue;
        bool other = take_lead(h, s->node, &l);
        if (other && l.group < META_FIRST_DATA_GROUP) metahost_ask_hurry(h, l.group);
    }
}

static int take_status(struct metahost *h, uint64_t from, const struct wire_frame *f)
{
    struct wirestatus_list list;
    struct wirestatus s;
    int rc = wirestatus_get(f, &list);
    while (rc == 0 && wirestatus_next(&list, &s))
        if (s.node == from) take_report(h, &s);
    return rc;
}

int metahost_frame(struct metahost *h, uint64_t from, const struct wire_frame *f)
{
    if (from == h->me || from == 0) return -EBADMSG;
    return f->type == WIRE_STATUS ? take_status(h, from, f) : metahost_ask_frame(h, from, f);
}

void metahost_up(struct metahost *h, uint64_t peer, enum links_way way)
{
    if (way != LINKS_OUT) return;
    find_or_add(h, peer);
    h->status_at = h->now;
    metahost_ask_hurry(h, META_NODES_GROUP);
    metahost_ask_hurry(h, META_MAP_GROUP);
}

/* ---- the turn */

static void note_silence(struct metahost *h, struct metahost_peer *p)
{
    uint64_t since = metahost_peers_silent_since(h, p->id);
    bool silent = since && h->now - since >= METAHOST_ALIVE_MS;
    if (silent != p->alive || p->gone) return;
    p->alive = !silent;
    h->dirty = true;
    if (silent)
        slog(h->log, SLOG_WARNING, "a node is silent", "node=%llu for_ms=%llu", (unsigned long long)p->id, (unsigned long long)(h->now - since));
    else
        slog(h->log, SLOG_NOTICE, "a node is back", "node=%llu", (unsigned long long)p->id);
}

void metahost_peers_tick(struct metahost *h)
{
    bool due = h->now >= h->status_at;
    for (uint32_t i = h->n_peers; i-- > 0;) {
        struct metahost_peer *p = &h->peers[i];
        note_silence(h, p);
        if (!p->gone) continue;
        if (h->now >= p->farewell_until)
            remove_peer(h, i);
        else if (due)
            metahost_ask_say_gone(h, p->id);
    }
    if (!due) return;
    h->status_at = h->now + METAHOST_STATUS_MS;
    send_reports(h);
}
