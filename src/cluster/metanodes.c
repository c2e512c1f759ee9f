/* The snapshot, numbers in little endian:
 *
 *   version of the snapshot u8, 1 | version u64 | cluster 16 bytes | format u32 | next node u64 | number of settings u8, each u64
 *   nodes u32, each: id u64 | generation u64 | state u8 | a node (metacode.c)
 *   the memory of proposals (metaseen.c) */
#include "cluster/metanodes.h"

#include <inttypes.h>

#include "base/keyhash.h"
#include "base/mem.h"

enum { SNAPSHOT_VERSION = 1 };

const struct metanodes_setting metanodes_settings[METACODE_SETTINGS] = {
    [METACODE_REPLICATION] = {"replication", 1, 7, 3},
    [METACODE_DEAD_AFTER_MS] = {"dead-after-ms", 1000, 7ull * 24 * 3600 * 1000, 300000},
    [METACODE_MOVES_PER_NODE] = {"moves-per-node", 1, 64, 2},
};

struct metanodes *metanodes_new(void) { return mem_zalloc(sizeof(struct metanodes)); }

void metanodes_free(struct metanodes *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->n; i++) mem_free(m->nodes[i].bytes);
    mem_free(m->nodes);
    metaseen_fini(&m->seen);
    mem_free(m);
}

/* ---- records */

static struct metanodes_node *find(const struct metanodes *m, uint64_t id)
{
    uint32_t low = 0, high = m->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (m->nodes[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->n && m->nodes[low].id == id ? &m->nodes[low] : NULL;
}

const struct metanodes_node *metanodes_find(const struct metanodes *m, uint64_t id) { return find(m, id); }

bool metanodes_gone(const struct metanodes *m, uint64_t id)
{
    const struct metanodes_node *n = find(m, id);
    return n ? n->state == METACODE_GONE : id > 0 && id < m->next_node;
}

static struct slice keep(char **at, struct slice s)
{
    struct slice kept = slice_of(*at, s.n);
    if (s.n) memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

/* The record's text becomes a copy of this. */
static void describe(struct metanodes_node *n, const struct metacode_node *is)
{
    char *bytes = mem_alloc(is->peer.n + is->client.n + is->name.n + is->zone.n + 1), *at = bytes;
    struct metacode_node kept = {.instance = is->instance, .peer = keep(&at, is->peer), .client = keep(&at, is->client), .name = keep(&at, is->name), .zone = keep(&at, is->zone)};
    mem_free(n->bytes);
    n->bytes = bytes;
    n->is = kept;
}

static struct metanodes_node *append(struct metanodes *m, uint64_t id, const struct metacode_node *is)
{
    m->nodes = mem_resize(m->nodes, (m->n + 1) * sizeof *m->nodes);
    struct metanodes_node *n = &m->nodes[m->n++];
    *n = (struct metanodes_node){.id = id, .generation = 1};
    describe(n, is);
    return n;
}

/* Those that are gone are kept for a while; the one with the lowest number makes room. */
static void forget_old(struct metanodes *m)
{
    uint32_t gone = 0, first = m->n;
    for (uint32_t i = m->n; i-- > 0;)
        if (m->nodes[i].state == METACODE_GONE) gone++, first = i;
    if (gone <= METANODES_GONE_KEPT) return;
    mem_free(m->nodes[first].bytes);
    memmove(m->nodes + first, m->nodes + first + 1, (--m->n - first) * sizeof *m->nodes);
}

/* ---- what is asked for */

static bool text_free(const struct metanodes *m, const struct metacode_node *is, uint64_t but, struct meta_result *r)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metanodes_node *n = &m->nodes[i];
        if (n->state == METACODE_GONE || n->id == but) continue;
        const char *what = slice_eq(n->is.peer, is->peer) ? "address for nodes" : slice_eq(n->is.client, is->client) ? "address for clients" : slice_eq(n->is.name, is->name) ? "name" : NULL;
        if (!what) continue;
        r->id = n->id;
        return meta_refuse(r, META_DUPLICATE, "node %" PRIu64 " has that %s", n->id, what);
    }
    return true;
}

static struct metanodes_node *find_living(const struct metanodes *m, uint64_t id, struct meta_result *r)
{
    struct metanodes_node *n = find(m, id);
    if (n && n->state != METACODE_GONE) return n;
    if (metanodes_gone(m, id))
        meta_refuse(r, META_STALE, "node %" PRIu64 " is gone", id);
    else
        meta_refuse(r, META_UNKNOWN, "there is no node %" PRIu64, id);
    return NULL;
}

static bool setting_ok(unsigned i, uint64_t value, struct meta_result *r)
{
    const struct metanodes_setting *s = &metanodes_settings[i];
    if (value >= s->min && value <= s->max) return true;
    return meta_refuse(r, META_INVALID, "%s is a number from %" PRIu64 " to %" PRIu64 ", not %" PRIu64, s->name, s->min, s->max, value);
}

static bool format_ok(uint32_t format, struct meta_result *r)
{
    if (format > META_FORMAT) return meta_refuse(r, META_FOREIGN, "format %u of the cluster is newer than this program, which knows %d", format, META_FORMAT);
    return format ? true : meta_refuse(r, META_INVALID, "formats begin with 1");
}

/* ---- the entries */

static bool found(struct metanodes *m, const struct metacode_found_cluster *f, struct meta_result *r)
{
    static const uint8_t nobody[META_CLUSTER_ID];
    if (m->version) return meta_refuse(r, memcmp(m->cluster, f->cluster, META_CLUSTER_ID) ? META_INVALID : META_SAME, "the cluster is founded already");
    if (!format_ok(f->format, r)) return false;
    if (memcmp(f->cluster, nobody, META_CLUSTER_ID) == 0) return meta_refuse(r, META_INVALID, "the identity of a cluster is not all zero");
    if (f->n == 0) return meta_refuse(r, META_INVALID, "a cluster begins with one node at least");
    for (unsigned i = 0; i < METACODE_SETTINGS; i++)
        if (!setting_ok(i, f->settings[i], r)) return false;
    for (uint32_t i = 0; i < f->n; i++) {
        const char *flaw = metacode_node_flaw(&f->nodes[i]);
        if (flaw) return meta_refuse(r, META_INVALID, "%s", flaw);
        for (uint32_t j = 0; j < i; j++)
            if (f->nodes[j].instance == f->nodes[i].instance || slice_eq(f->nodes[j].peer, f->nodes[i].peer) || slice_eq(f->nodes[j].client, f->nodes[i].client) ||
                slice_eq(f->nodes[j].name, f->nodes[i].name))
                return meta_refuse(r, META_DUPLICATE, "two of the nodes have the same instance, address or name");
    }
    memcpy(m->cluster, f->cluster, META_CLUSTER_ID);
    memcpy(m->settings, f->settings, sizeof m->settings);
    m->format = f->format;
    for (uint32_t i = 0; i < f->n; i++) append(m, i + 1, &f->nodes[i]);
    m->next_node = f->n + 1;
    return true;
}

static bool join(struct metanodes *m, const struct metacode_node *is, struct meta_result *r)
{
    uint32_t living = 0;
    const char *flaw = metacode_node_flaw(is);
    if (flaw) return meta_refuse(r, META_INVALID, "%s", flaw);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metanodes_node *n = &m->nodes[i];
        living += n->state != METACODE_GONE;
        if (n->is.instance != is->instance) continue;
        if (n->state == METACODE_GONE) return meta_refuse(r, META_STALE, "node %" PRIu64 " is gone and does not come back: join with an empty data directory", n->id);
        r->id = n->id;
        return meta_refuse(r, META_SAME, "it is node %" PRIu64 " already", n->id);
    }
    if (!text_free(m, is, 0, r)) return false;
    if (living >= META_NODES_MAX) return meta_refuse(r, META_LIMIT, "a cluster has at most %d nodes", META_NODES_MAX);
    r->id = m->next_node++;
    append(m, r->id, is);
    return true;
}

static bool same_text(const struct metacode_node *a, const struct metacode_node *b)
{
    return slice_eq(a->peer, b->peer) && slice_eq(a->client, b->client) && slice_eq(a->name, b->name) && slice_eq(a->zone, b->zone);
}

static bool change(struct metanodes *m, const struct metacode_entry *e, struct meta_result *r)
{
    const struct metacode_node *to = &e->change.to;
    struct metanodes_node *n = find_living(m, e->change.node, r);
    const char *flaw = metacode_node_flaw(to);
    if (!n) return false;
    if (flaw) return meta_refuse(r, META_INVALID, "%s", flaw);
    if (to->instance != n->is.instance) return meta_refuse(r, META_INVALID, "the instance of a node never changes: another one is another node");
    if (same_text(to, &n->is)) return meta_refuse(r, META_SAME, "node %" PRIu64 " is described so already", n->id);
    if (e->change.generation != n->generation) return meta_refuse(r, META_STALE, "the record of node %" PRIu64 " has generation %" PRIu64 " meanwhile", n->id, n->generation);
    if (!text_free(m, to, n->id, r)) return false;
    describe(n, to);
    n->generation++;
    return true;
}

static bool any_other_is_up(const struct metanodes *m, uint64_t but)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->nodes[i].id != but && m->nodes[i].state == METACODE_UP) return true;
    return false;
}

static bool state(struct metanodes *m, const struct metacode_entry *e, struct meta_result *r)
{
    enum metacode_node_state from = e->state.from, to = e->state.to;
    if (to == METACODE_GONE && metanodes_gone(m, e->state.node)) return meta_refuse(r, META_SAME, "node %" PRIu64 " is gone already", e->state.node);
    struct metanodes_node *n = find_living(m, e->state.node, r);
    if (!n) return false;
    if (n->state == to) return meta_refuse(r, META_SAME, "node %" PRIu64 " is %s already", n->id, metacode_node_state_name(to));
    if (n->state != from) return meta_refuse(r, META_STALE, "node %" PRIu64 " is %s", n->id, metacode_node_state_name(n->state));
    if (from == METACODE_UP && to == METACODE_GONE && !e->state.dead) return meta_refuse(r, META_EARLY, "node %" PRIu64 " has to be drained before it goes, or to be dead", n->id);
    if (from == METACODE_UP && !any_other_is_up(m, n->id)) return meta_refuse(r, META_INVALID, "no other node would be left");
    n->state = to;
    n->generation++;
    if (to == METACODE_GONE) forget_old(m);
    return true;
}

static bool setting(struct metanodes *m, const struct metacode_entry *e, struct meta_result *r)
{
    unsigned i = e->setting.setting;
    if (!setting_ok(i, e->setting.value, r)) return false;
    if (m->settings[i] == e->setting.value) return meta_refuse(r, META_SAME, "%s is %" PRIu64 " already", metanodes_settings[i].name, e->setting.value);
    m->settings[i] = e->setting.value;
    return true;
}

/* A program that does not know the new format must not go on: format_ok says so. */
static bool format(struct metanodes *m, const struct metacode_entry *e, struct meta_result *r)
{
    if (e->format.to == m->format) return meta_refuse(r, META_SAME, "the format is %u already", m->format);
    if (e->format.from != m->format) return meta_refuse(r, META_STALE, "the format is %u", m->format);
    if (e->format.to != m->format + 1) return meta_refuse(r, META_INVALID, "the format rises by one at a time");
    if (!format_ok(e->format.to, r)) return false;
    m->format = e->format.to;
    return true;
}

static bool judge(struct metanodes *m, const struct metacode_entry *e, struct meta_result *r)
{
    if (m->version == 0 && e->kind != METACODE_FOUND_CLUSTER) return meta_refuse(r, META_EARLY, "the cluster is not founded yet");
    switch (e->kind) {
    case METACODE_FOUND_CLUSTER: return found(m, &e->found_cluster, r);
    case METACODE_NODE_JOIN: return join(m, &e->join, r);
    case METACODE_NODE_CHANGE: return change(m, e, r);
    case METACODE_NODE_STATE: return state(m, e, r);
    case METACODE_SETTING: return setting(m, e, r);
    case METACODE_FORMAT: return format(m, e, r);
    default: return meta_refuse(r, META_INVALID, "an entry %s is none of group 0", metacode_kind_name(e->kind));
    }
}

void metanodes_apply(struct metanodes *m, struct slice entry, struct meta_result *r)
{
    struct metacode_entry e;
    *r = (struct meta_result){.code = metacode_decode(&e, entry)};
    if (r->code != META_DONE)
        meta_refuse(r, r->code, r->code == META_FOREIGN ? "the entry is of a newer version of this program" : "the entry is malformed");
    else if (metaseen_new(&m->seen, e.proposer, e.sequence, r)) {
        if (judge(m, &e, r)) m->version++;
        if (r->code != META_FOREIGN) metaseen_note(&m->seen, e.proposer, e.sequence, r);
    }
    metacode_fini(&e);
}

/* ---- snapshots */

void metanodes_snapshot(const struct metanodes *m, struct buf *out)
{
    wirefield_add_u8(out, SNAPSHOT_VERSION);
    le_add_u64(out, m->version);
    buf_add(out, m->cluster, META_CLUSTER_ID);
    le_add_u32(out, m->format);
    le_add_u64(out, m->next_node);
    wirefield_add_u8(out, METACODE_SETTINGS);
    for (int i = 0; i < METACODE_SETTINGS; i++) le_add_u64(out, m->settings[i]);
    le_add_u32(out, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metanodes_node *n = &m->nodes[i];
        le_add_u64(out, n->id);
        le_add_u64(out, n->generation);
        wirefield_add_u8(out, (uint8_t)n->state);
        metacode_add_node(out, &n->is);
    }
    metaseen_encode(&m->seen, out);
}

static void read_node(struct metanodes *m, struct wirefield *in)
{
    uint64_t id = wirefield_u64(in), generation = wirefield_u64(in);
    uint8_t state_is = wirefield_choice(in, METACODE_NODE_STATES);
    struct metacode_node is = {0};
    metacode_get_node(in, &is);
    wirefield_expect(in, id > (m->n ? m->nodes[m->n - 1].id : 0) && id < m->next_node && generation && !metacode_node_flaw(&is));
    if (in->bad) return;
    struct metanodes_node *n = append(m, id, &is);
    n->generation = generation;
    n->state = (enum metacode_node_state)state_is;
}

static void read_state(struct metanodes *m, struct wirefield *in)
{
    struct meta_result ignored;
    m->version = wirefield_u64(in);
    struct slice cluster = wirefield_bytes(in, META_CLUSTER_ID);
    if (in->bad) return;
    memcpy(m->cluster, cluster.p, META_CLUSTER_ID);
    m->format = wirefield_u32(in);
    m->next_node = wirefield_u64(in);
    wirefield_expect(in, wirefield_u8(in) == METACODE_SETTINGS);
    for (unsigned i = 0; i < METACODE_SETTINGS; i++) {
        m->settings[i] = wirefield_u64(in);
        wirefield_expect(in, m->version == 0 || setting_ok(i, m->settings[i], &ignored));
    }
    uint32_t n = wirefield_u32(in);
    wirefield_expect(in, n <= META_NODES_MAX + METANODES_GONE_KEPT && (m->version || n == 0));
    for (uint32_t i = 0; i < n && !in->bad; i++) read_node(m, in);
    metaseen_decode(&m->seen, in);
}

struct metanodes *metanodes_restore(struct slice snapshot, const char **why)
{
    struct wirefield in = {.rest = snapshot};
    struct metanodes *m = metanodes_new();
    uint8_t version = wirefield_u8(&in);
    bool foreign = version > SNAPSHOT_VERSION;
    wirefield_expect(&in, version);
    if (!foreign) read_state(m, &in);
    foreign = foreign || (!in.bad && m->format > META_FORMAT);
    if (!foreign && !wirefield_end(&in)) return m;
    *why = foreign ? "the snapshot of group 0 is of a newer version of this program" : "the snapshot of group 0 is malformed";
    metanodes_free(m);
    return NULL;
}

uint64_t metanodes_digest(const struct metanodes *m)
{
    struct buf b = {0};
    metanodes_snapshot(m, &b);
    uint64_t digest = keyhash(buf_slice(&b), 0);
    buf_fini(&b);
    return digest;
}

void metanodes_check(const struct metanodes *m)
{
    uint32_t gone = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const struct metanodes_node *n = &m->nodes[i];
        CHECK(n->id < m->next_node && n->generation && (i == 0 || m->nodes[i - 1].id < n->id));
        gone += n->state == METACODE_GONE;
        for (uint32_t j = 0; j < i && n->state != METACODE_GONE; j++)
            CHECK(m->nodes[j].state == METACODE_GONE || (m->nodes[j].is.instance != n->is.instance && !slice_eq(m->nodes[j].is.peer, n->is.peer)));
    }
    CHECK(gone <= METANODES_GONE_KEPT && m->n - gone <= META_NODES_MAX);
    metaseen_check(&m->seen);
}
