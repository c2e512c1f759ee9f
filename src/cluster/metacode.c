/* An entry, numbers in little endian:
 *
 *   0 version u8, 1 | 1 kind u8 | 2 proposer u64 | 10 sequence u64 | 18 the kind's fields, to the end
 *
 *   found-cluster  cluster 16 bytes | format u32 | number of settings u8, each u64 | nodes u16, each a node
 *   node-join      a node
 *   node-change    node u64 | generation u64 | a node
 *   node-state     node u64 | from u8 | to u8 | dead u8
 *   setting        setting u8 | value u64
 *   format         from u32 | to u32
 *   found-map      seed u64 | default mode u8 | groups u16, each a set of members
 *   group-create   a set of members
 *   group-retire   group u32
 *   members        group u32 | a set of members
 *   op-begin       driver u64 | a plan (metaops.c)
 *   op-step        op u64 | from u8 | to u8 | length of the boundary u16, boundary
 *   op-driver      op u64 | from u64 | to u64
 *
 * A version above ours is META_FOREIGN; everything else that is not exactly this is META_MALFORMED, for every reader of this version alike. */
#include "cluster/metacode.h"

#include "base/mem.h"

static const char *const node_state_names[METACODE_NODE_STATES] = {[METACODE_UP] = "up", [METACODE_DRAINING] = "draining", [METACODE_GONE] = "gone"};

const char *metacode_node_state_name(enum metacode_node_state s)
{
    CHECK((unsigned)s < METACODE_NODE_STATES);
    return node_state_names[s];
}

/* ---- parts */

void metacode_add_members(struct buf *out, const struct raftnode_members *m)
{
    le_add_u64(out, m->index);
    wirefield_add_u8(out, (uint8_t)m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        le_add_u64(out, m->m[i].node);
        wirefield_add_u8(out, (uint8_t)m->m[i].role);
    }
}

void metacode_get_members(struct wirefield *in, struct raftnode_members *m)
{
    *m = (struct raftnode_members){.index = wirefield_u64(in), .n = wirefield_choice(in, RAFTNODE_MEMBERS_MAX + 1)};
    for (uint32_t i = 0; i < m->n; i++) {
        m->m[i].node = wirefield_u64(in);
        m->m[i].role = (enum raftnode_role)wirefield_choice(in, RAFTNODE_VOTER + 1);
    }
    wirefield_expect(in, m->n == 0 || meta_members_valid(m));
}

static void add_text(struct buf *out, struct slice s)
{
    CHECK(s.n <= META_TEXT_MAX);
    wirefield_add_u8(out, (uint8_t)s.n);
    buf_add_slice(out, s);
}

static struct slice get_text(struct wirefield *in) { return wirefield_bytes(in, wirefield_u8(in)); }

void metacode_add_node(struct buf *out, const struct metacode_node *n)
{
    le_add_u64(out, n->instance);
    add_text(out, n->peer);
    add_text(out, n->client);
    add_text(out, n->name);
    add_text(out, n->zone);
}

void metacode_get_node(struct wirefield *in, struct metacode_node *n)
{
    n->instance = wirefield_u64(in);
    n->peer = get_text(in);
    n->client = get_text(in);
    n->name = get_text(in);
    n->zone = get_text(in);
}

/* They stand in CLUSTER NODES and in tables, where a space would end a column. */
static bool is_word(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '@' || s.p[i] == ',') return false;
    return true;
}

static bool is_address(struct slice s)
{
    const char *colon = s.n ? memrchr(s.p, ':', s.n) : NULL;
    if (!colon || colon == s.p || !is_word(s)) return false;
    uint32_t port = 0;
    for (const char *c = colon + 1; c < s.p + s.n; c++) {
        if (*c < '0' || *c > '9' || c > colon + 5) return false;
        port = port * 10 + (uint32_t)(*c - '0');
    }
    return port > 0 && port < 65536;
}

const char *metacode_node_flaw(const struct metacode_node *n)
{
    if (n->instance == 0) return "the instance of a node is not 0";
    if (n->peer.n > META_TEXT_MAX || n->client.n > META_TEXT_MAX || n->name.n > META_TEXT_MAX || n->zone.n > META_TEXT_MAX) return "an address, the name and the zone of a node have at most 255 bytes each";
    if (!is_address(n->peer)) return "the address for other nodes is host:port";
    if (!is_address(n->client)) return "the address for clients is host:port";
    if (n->name.n == 0 || !is_word(n->name)) return "the name of a node is a word of printable ASCII without '@' and ','";
    if (!is_word(n->zone)) return "the zone of a node is a word of printable ASCII without '@' and ','";
    return NULL;
}

/* ---- kinds */

typedef void encode_fn(const struct metacode_entry *e, struct buf *out);
typedef void decode_fn(struct metacode_entry *e, struct wirefield *in);

static void encode_found_cluster(const struct metacode_entry *e, struct buf *out)
{
    const struct metacode_found_cluster *f = &e->found_cluster;
    CHECK(f->n <= META_NODES_MAX);
    buf_add(out, f->cluster, META_CLUSTER_ID);
    le_add_u32(out, f->format);
    wirefield_add_u8(out, METACODE_SETTINGS);
    for (int i = 0; i < METACODE_SETTINGS; i++) le_add_u64(out, f->settings[i]);
    wirefield_add_u16(out, (uint16_t)f->n);
    for (uint32_t i = 0; i < f->n; i++) metacode_add_node(out, &f->nodes[i]);
}

static void decode_found_cluster(struct metacode_entry *e, struct wirefield *in)
{
    struct metacode_found_cluster *f = &e->found_cluster;
    struct slice cluster = wirefield_bytes(in, META_CLUSTER_ID);
    if (in->bad) return;
    memcpy(f->cluster, cluster.p, META_CLUSTER_ID);
    f->format = wirefield_u32(in);
    wirefield_expect(in, wirefield_u8(in) == METACODE_SETTINGS);
    for (int i = 0; i < METACODE_SETTINGS; i++) f->settings[i] = wirefield_u64(in);
    uint32_t n = wirefield_u16(in);
    wirefield_expect(in, n <= META_NODES_MAX);
    if (in->bad) return;
    struct metacode_node *nodes = e->storage = mem_zalloc((n + 1) * sizeof *nodes);
    f->nodes = nodes;
    for (; f->n < n && !in->bad; f->n++) metacode_get_node(in, &nodes[f->n]);
}

static void encode_join(const struct metacode_entry *e, struct buf *out) { metacode_add_node(out, &e->join); }
static void decode_join(struct metacode_entry *e, struct wirefield *in) { metacode_get_node(in, &e->join); }

static void encode_change(const struct metacode_entry *e, struct buf *out)
{
    le_add_u64(out, e->change.node);
    le_add_u64(out, e->change.generation);
    metacode_add_node(out, &e->change.to);
}

static void decode_change(struct metacode_entry *e, struct wirefield *in)
{
    e->change.node = wirefield_u64(in);
    e->change.generation = wirefield_u64(in);
    metacode_get_node(in, &e->change.to);
}

static void encode_state(const struct metacode_entry *e, struct buf *out)
{
    le_add_u64(out, e->state.node);
    wirefield_add_u8(out, (uint8_t)e->state.from);
    wirefield_add_u8(out, (uint8_t)e->state.to);
    wirefield_add_u8(out, e->state.dead);
}

static void decode_state(struct metacode_entry *e, struct wirefield *in)
{
    e->state.node = wirefield_u64(in);
    e->state.from = (enum metacode_node_state)wirefield_choice(in, METACODE_NODE_STATES);
    e->state.to = (enum metacode_node_state)wirefield_choice(in, METACODE_NODE_STATES);
    e->state.dead = wirefield_bool(in);
}

static void encode_setting(const struct metacode_entry *e, struct buf *out)
{
    wirefield_add_u8(out, (uint8_t)e->setting.setting);
    le_add_u64(out, e->setting.value);
}

static void decode_setting(struct metacode_entry *e, struct wirefield *in)
{
    e->setting.setting = (enum metacode_setting)wirefield_choice(in, METACODE_SETTINGS);
    e->setting.value = wirefield_u64(in);
}

static void encode_format(const struct metacode_entry *e, struct buf *out)
{
    le_add_u32(out, e->format.from);
    le_add_u32(out, e->format.to);
}

static void decode_format(struct metacode_entry *e, struct wirefield *in)
{
    e->format.from = wirefield_u32(in);
    e->format.to = wirefield_u32(in);
}

static void encode_found_map(const struct metacode_entry *e, struct buf *out)
{
    const struct metacode_found_map *f = &e->found_map;
    CHECK(f->n <= META_GROUPS_MAX);
    le_add_u64(out, f->seed);
    wirefield_add_u8(out, (uint8_t)f->default_mode);
    wirefield_add_u16(out, (uint16_t)f->n);
    for (uint32_t i = 0; i < f->n; i++) metacode_add_members(out, &f->groups[i]);
}

static void decode_found_map(struct metacode_entry *e, struct wirefield *in)
{
    struct metacode_found_map *f = &e->found_map;
    f->seed = wirefield_u64(in);
    f->default_mode = (enum space_mode)wirefield_choice(in, SPACE_MODES);
    uint32_t n = wirefield_u16(in);
    /* Before room is made for them: each takes nine bytes at least. */
    wirefield_expect(in, n <= META_GROUPS_MAX && n <= in->rest.n / 9);
    if (in->bad) return;
    struct raftnode_members *groups = e->storage = mem_zalloc((n + 1) * sizeof *groups);
    f->groups = groups;
    for (; f->n < n && !in->bad; f->n++) metacode_get_members(in, &groups[f->n]);
}

static void encode_create(const struct metacode_entry *e, struct buf *out) { metacode_add_members(out, &e->create); }
static void decode_create(struct metacode_entry *e, struct wirefield *in) { metacode_get_members(in, &e->create); }

static void encode_retire(const struct metacode_entry *e, struct buf *out) { le_add_u32(out, e->retire); }
static void decode_retire(struct metacode_entry *e, struct wirefield *in) { e->retire = wirefield_u32(in); }

static void encode_members(const struct metacode_entry *e, struct buf *out)
{
    le_add_u32(out, e->members.group);
    metacode_add_members(out, &e->members.members);
}

static void decode_members(struct metacode_entry *e, struct wirefield *in)
{
    e->members.group = wirefield_u32(in);
    metacode_get_members(in, &e->members.members);
}

static void encode_begin(const struct metacode_entry *e, struct buf *out)
{
    le_add_u64(out, e->begin.driver);
    metaops_plan_encode(&e->begin.plan, out);
}

static void decode_begin(struct metacode_entry *e, struct wirefield *in)
{
    e->begin.driver = wirefield_u64(in);
    metaops_plan_decode(&e->begin.plan, &e->storage, in);
}

static void encode_step(const struct metacode_entry *e, struct buf *out)
{
    CHECK(e->step.boundary.n <= META_KEY_MAX);
    le_add_u64(out, e->step.op);
    wirefield_add_u8(out, (uint8_t)e->step.from);
    wirefield_add_u8(out, (uint8_t)e->step.to);
    wirefield_add_u16(out, (uint16_t)e->step.boundary.n);
    buf_add_slice(out, e->step.boundary);
}

static void decode_step(struct metacode_entry *e, struct wirefield *in)
{
    e->step.op = wirefield_u64(in);
    e->step.from = (enum metaops_step)wirefield_choice(in, METAOPS_STEPS);
    e->step.to = (enum metaops_step)wirefield_choice(in, METAOPS_STEPS);
    e->step.boundary = wirefield_bytes(in, wirefield_u16(in));
    wirefield_expect(in, e->step.boundary.n <= META_KEY_MAX);
}

static void encode_driver(const struct metacode_entry *e, struct buf *out)
{
    le_add_u64(out, e->driver.op);
    le_add_u64(out, e->driver.from);
    le_add_u64(out, e->driver.to);
}

static void decode_driver(struct metacode_entry *e, struct wirefield *in)
{
    e->driver.op = wirefield_u64(in);
    e->driver.from = wirefield_u64(in);
    e->driver.to = wirefield_u64(in);
}

static const struct {
    const char *name;
    encode_fn *encode;
    decode_fn *decode;
} kinds[] = {
    [METACODE_FOUND_CLUSTER] = {"found-cluster", encode_found_cluster, decode_found_cluster},
    [METACODE_NODE_JOIN] = {"node-join", encode_join, decode_join},
    [METACODE_NODE_CHANGE] = {"node-change", encode_change, decode_change},
    [METACODE_NODE_STATE] = {"node-state", encode_state, decode_state},
    [METACODE_SETTING] = {"setting", encode_setting, decode_setting},
    [METACODE_FORMAT] = {"format", encode_format, decode_format},
    [METACODE_FOUND_MAP] = {"found-map", encode_found_map, decode_found_map},
    [METACODE_GROUP_CREATE] = {"group-create", encode_create, decode_create},
    [METACODE_GROUP_RETIRE] = {"group-retire", encode_retire, decode_retire},
    [METACODE_MEMBERS] = {"members", encode_members, decode_members},
    [METACODE_OP_BEGIN] = {"op-begin", encode_begin, decode_begin},
    [METACODE_OP_STEP] = {"op-step", encode_step, decode_step},
    [METACODE_OP_DRIVER] = {"op-driver", encode_driver, decode_driver},
};

static bool known(unsigned kind) { return kind < sizeof kinds / sizeof *kinds && kinds[kind].name; }

const char *metacode_kind_name(enum metacode_kind kind) { return known(kind) ? kinds[kind].name : "unknown"; }

void metacode_encode(const struct metacode_entry *e, struct buf *out)
{
    CHECK(known(e->kind));
    wirefield_add_u8(out, METACODE_VERSION);
    wirefield_add_u8(out, (uint8_t)e->kind);
    le_add_u64(out, e->proposer);
    le_add_u64(out, e->sequence);
    kinds[e->kind].encode(e, out);
}

enum meta_code metacode_decode(struct metacode_entry *e, struct slice in)
{
    struct wirefield r = {.rest = in};
    memset(e, 0, sizeof *e); /* an initialiser need not reach all of a union */
    uint8_t version = wirefield_u8(&r);
    if (version > METACODE_VERSION) return META_FOREIGN;
    unsigned kind = wirefield_u8(&r);
    if (version == 0 || !known(kind) || in.n > META_ENTRY_MAX) return META_MALFORMED;
    e->kind = (enum metacode_kind)kind;
    e->proposer = wirefield_u64(&r);
    e->sequence = wirefield_u64(&r);
    kinds[kind].decode(e, &r);
    return wirefield_end(&r) ? META_MALFORMED : META_DONE;
}

void metacode_fini(struct metacode_entry *e)
{
    mem_free(e->storage);
    e->storage = NULL;
}
