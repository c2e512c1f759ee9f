/* The state of group 1 as bytes, numbers in little endian:
 *
 *   version of the snapshot u8, 1 | version u64 | next group u32 | next range u64 | next operation u64
 *   the map, unless version is 0: seed u64 | default mode u8 | version u64 | records u32, each: shard u32 | length of key u32 | length of value u32 | key | value (route/spacerecord.h)
 *   groups u32, each: id u32 | generation u64 | members wanted | members told (metacode.c)
 *   operations u32, each: id u64 | step u8 | driver u64 | plan (metaops.c)
 *   ended operations u8, each: id u64 | kind u8 | step u8
 *   the memory of proposals (metaseen.c)
 *
 * What is read is trusted as little as an entry: a map that is not whole, a group that is named and not there, an id at or above its counter are refused. */
#include "cluster/metagroups.h"

#include "base/keyhash.h"
#include "base/mem.h"
#include "route/spacerecord.h"

enum { SNAPSHOT_VERSION = 1 };

/* ---- out */

struct writing {
    struct buf *out;
    uint32_t n;
};

static void write_record(void *ctx, const struct spacerecord *r, bool remove)
{
    struct writing *w = ctx;
    CHECK(!remove);
    le_add_u32(w->out, r->shard);
    le_add_u32(w->out, (uint32_t)r->key.n);
    le_add_u32(w->out, (uint32_t)r->value.n);
    buf_add_slice(w->out, r->key);
    buf_add_slice(w->out, r->value);
    w->n++;
}

static void write_map(const struct space_map *map, struct buf *out)
{
    le_add_u64(out, map->route.seed);
    wirefield_add_u8(out, (uint8_t)map->default_mode);
    le_add_u64(out, map->version);
    size_t count = out->len;
    struct writing w = {.out = out};
    le_add_u32(out, 0);
    spacerecord_diff(NULL, map, write_record, &w);
    le_set_u32(out->p + count, w.n);
}

static void write_ops(const struct metagroups *m, struct buf *out)
{
    le_add_u32(out, m->n_ops);
    for (uint32_t i = 0; i < m->n_ops; i++) {
        le_add_u64(out, m->ops[i]->id);
        wirefield_add_u8(out, (uint8_t)m->ops[i]->step);
        le_add_u64(out, m->ops[i]->driver);
        metaops_plan_encode(&m->ops[i]->plan, out);
    }
    wirefield_add_u8(out, (uint8_t)m->n_ended);
    for (uint32_t i = 0; i < m->n_ended; i++) {
        le_add_u64(out, m->ended[i].op);
        wirefield_add_u8(out, (uint8_t)m->ended[i].kind);
        wirefield_add_u8(out, (uint8_t)m->ended[i].step);
    }
}

void metagroups_snapshot(const struct metagroups *m, struct buf *out)
{
    size_t begin = out->len;
    wirefield_add_u8(out, SNAPSHOT_VERSION);
    le_add_u64(out, m->version);
    le_add_u32(out, m->next_group);
    le_add_u64(out, m->next_range);
    le_add_u64(out, m->next_op);
    if (m->version) write_map(m->map, out);
    le_add_u32(out, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        le_add_u32(out, m->groups[i].id);
        le_add_u64(out, m->groups[i].generation);
        metacode_add_members(out, &m->groups[i].wanted);
        metacode_add_members(out, &m->groups[i].told);
    }
    write_ops(m, out);
    metaseen_encode(&m->seen, out);
    CHECK(out->len - begin <= META_SNAPSHOT_MAX);
}

uint64_t metagroups_digest(const struct metagroups *m)
{
    struct buf b = {0};
    metagroups_snapshot(m, &b);
    uint64_t digest = keyhash(buf_slice(&b), 0);
    buf_fini(&b);
    return digest;
}

/* ---- in */

static struct spacerecord *read_records(struct wirefield *in, uint32_t *n)
{
    uint32_t count = wirefield_u32(in);
    /* Before room is made for them: each takes 12 bytes at least. */
    wirefield_expect(in, count <= in->rest.n / 12);
    if (in->bad) return NULL;
    struct spacerecord *records = mem_zalloc((count + 1) * sizeof *records);
    for (*n = 0; *n < count && !in->bad; (*n)++) {
        uint32_t shard = wirefield_u32(in), key = wirefield_u32(in), value = wirefield_u32(in);
        records[*n] = (struct spacerecord){.shard = shard, .key = wirefield_bytes(in, key), .value = wirefield_bytes(in, value)};
        wirefield_expect(in, spacerecord_kind(records[*n].key) != SPACERECORD_NONE);
    }
    return records;
}

static void read_map(struct metagroups *m, struct wirefield *in, struct buf *why)
{
    struct route route = {.shards = 1};
    route.seed = wirefield_u64(in);
    enum space_mode mode = (enum space_mode)wirefield_choice(in, SPACE_RANGE); /* hash or bucket */
    uint64_t version = wirefield_u64(in);
    uint32_t n = 0;
    struct spacerecord *records = read_records(in, &n);
    if (!in->bad) m->map = spacerecord_map(&route, mode, version, records, n, why);
    mem_free(records);
    wirefield_expect(in, m->map && m->map->n_hash && version && spaces_max_id(m->map) < m->next_range);
}

static void read_group(struct metagroups *m, struct wirefield *in)
{
    uint32_t id = wirefield_u32(in);
    uint64_t generation = wirefield_u64(in);
    struct raftnode_members wanted, told;
    metacode_get_members(in, &wanted);
    metacode_get_members(in, &told);
    wirefield_expect(in, wanted.n && generation && id < m->next_group && (m->n == 0 || id > m->groups[m->n - 1].id));
    if (in->bad) return;
    struct metagroups_group *g = metagroups_add(m, id, &wanted);
    g->generation = generation;
    g->wanted.index = wanted.index;
    g->told = told;
}

static bool fits(const struct metagroups *m, const struct metaops_op *op)
{
    const struct metaops_plan *p = &op->plan;
    if (op->id == 0 || op->id >= m->next_op || op->driver == 0 || metaops_step_ends(op->step)) return false;
    if (m->n_ops && op->id <= m->ops[m->n_ops - 1]->id) return false;
    if (p->kind != METAOPS_CHANGE_MODE && !metagroups_find(m, p->group)) return false;
    if (p->space.n > SPACES_NAME_MAX || p->key.n > META_KEY_MAX || p->range >= m->next_range || p->range2 >= m->next_range) return false;
    if (p->kind == METAOPS_SPLIT && (p->new_group ? !metagroups_find(m, p->other) : p->other != p->group)) return false;
    if ((p->kind == METAOPS_MERGE || p->kind == METAOPS_MOVE_RANGE) && !metagroups_find(m, p->other)) return false;
    for (uint32_t i = 0; i < p->n_ranges; i++)
        if (p->ranges[i].id >= m->next_range || !metagroups_find(m, p->ranges[i].group)) return false;
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (metaops_conflict(&m->ops[i]->plan, p)) return false;
    return true;
}

static void read_op(struct metagroups *m, struct wirefield *in)
{
    struct metaops_plan plan;
    void *storage = NULL;
    uint64_t id = wirefield_u64(in);
    uint8_t step = wirefield_choice(in, METAOPS_STEPS);
    uint64_t driver = wirefield_u64(in);
    metaops_plan_decode(&plan, &storage, in);
    if (!in->bad) {
        struct metaops_op *op = metaops_new(&plan);
        op->id = id;
        op->step = (enum metaops_step)step;
        op->driver = driver;
        wirefield_expect(in, fits(m, op));
        m->ops = mem_resize(m->ops, (m->n_ops + 1) * sizeof(*m->ops));
        m->ops[m->n_ops++] = op;
    }
    mem_free(storage);
}

static void read_ops(struct metagroups *m, struct wirefield *in)
{
    uint32_t n = wirefield_u32(in);
    wirefield_expect(in, n <= META_OPS_MAX && (m->version || n == 0));
    for (uint32_t i = 0; i < n && !in->bad; i++) read_op(m, in);
    m->n_ended = wirefield_choice(in, METAGROUPS_ENDED_KEPT + 1);
    for (uint32_t i = 0; i < m->n_ended; i++) {
        m->ended[i].op = wirefield_u64(in);
        m->ended[i].kind = (enum metaops_kind)wirefield_choice(in, METAOPS_KINDS);
        m->ended[i].step = (enum metaops_step)wirefield_choice(in, METAOPS_STEPS);
        wirefield_expect(in, m->ended[i].op && m->ended[i].op < m->next_op && metaops_step_ends(m->ended[i].step));
    }
}

static void read_state(struct metagroups *m, struct wirefield *in, struct buf *why)
{
    m->version = wirefield_u64(in);
    m->next_group = wirefield_u32(in);
    m->next_range = wirefield_u64(in);
    m->next_op = wirefield_u64(in);
    if (m->version && !in->bad) read_map(m, in, why);
    uint32_t n = wirefield_u32(in);
    wirefield_expect(in, n <= META_GROUPS_MAX && (m->version || n == 0));
    for (uint32_t i = 0; i < n && !in->bad; i++) read_group(m, in);
    if (in->bad) return;
    wirefield_expect(in, !m->version || metagroups_places_exist(m));
    read_ops(m, in);
    metaseen_decode(&m->seen, in);
}

struct metagroups *metagroups_restore(struct slice snapshot, struct buf *why)
{
    struct wirefield in = {.rest = snapshot};
    struct metagroups *m = metagroups_new();
    uint8_t version = wirefield_u8(&in);
    wirefield_expect(&in, version);
    if (version <= SNAPSHOT_VERSION) read_state(m, &in, why);
    if (version <= SNAPSHOT_VERSION && !wirefield_end(&in)) return m;
    if (version > SNAPSHOT_VERSION)
        buf_add_str(why, "the snapshot of group 1 is of a newer version of this program");
    else if (why->len == 0)
        buf_add_str(why, "the snapshot of group 1 is malformed");
    metagroups_free(m);
    return NULL;
}
