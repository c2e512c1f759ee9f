/* Tables are made of cells in columns as wide as their widest cell. */
#include "cluster/metaview.h"

#include <inttypes.h>

#include "base/mem.h"

enum { COLUMNS_MAX = 8 };

/* Cells one after the other, ended by a zero byte each. */
struct table {
    uint32_t columns, width[COLUMNS_MAX];
    uint32_t at; /* column of the next cell */
    struct buf cells;
};

__attribute__((format(printf, 2, 3))) static void cell(struct table *t, const char *fmt, ...)
{
    size_t begin = t->cells.len;
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&t->cells, fmt, ap);
    va_end(ap);
    uint32_t n = (uint32_t)(t->cells.len - begin);
    if (n > t->width[t->at]) t->width[t->at] = n;
    buf_add_byte(&t->cells, 0);
    t->at = (t->at + 1) % t->columns;
}

static void head(struct table *t, const char *const *titles, uint32_t n)
{
    *t = (struct table){.columns = n};
    CHECK(n <= COLUMNS_MAX);
    for (uint32_t i = 0; i < n; i++) cell(t, "%s", titles[i]);
}

/* Writes the table and gives it up. */
static void lay_out(struct table *t, struct buf *out)
{
    CHECK(t->at == 0);
    uint32_t column = 0;
    for (const char *c = t->cells.p, *end = c + t->cells.len; c < end; c += strlen(c) + 1) {
        bool last = column == t->columns - 1;
        if (last)
            buf_printf(out, "%s\n", c);
        else
            buf_printf(out, "%-*s  ", (int)t->width[column], c);
        column = last ? 0 : column + 1;
    }
    buf_fini(&t->cells);
}

static uint64_t leader_of(const struct metaview_hints *h, uint32_t group) { return h->leader ? h->leader(h->ctx, group) : 0; }

static bool alive(const struct metaview_hints *h, uint64_t node) { return node == h->myself || !h->alive || h->alive(h->ctx, node); }

static bool linked(const struct metaview_hints *h, uint64_t node) { return node == h->myself || (alive(h, node) && (!h->reached || h->reached(h->ctx, node))); }

void metaview_name(char out[METAVIEW_NODE_NAME + 1], const uint8_t cluster[META_CLUSTER_ID], uint64_t node)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 12; i++) {
        out[2 * i] = digits[cluster[i] >> 4];
        out[2 * i + 1] = digits[cluster[i] & 15];
    }
    for (int i = 0; i < 16; i++) out[24 + i] = digits[node >> (60 - 4 * i) & 15];
    out[METAVIEW_NODE_NAME] = 0;
}

void metaview_node_name(char out[METAVIEW_NODE_NAME + 1], const struct metanodes *m, uint64_t node) { metaview_name(out, m->cluster, node); }

void metaview_nodes(struct buf *out, const struct metanodes *nodes, const struct metagroups *groups, const struct metaview_hints *h)
{
    static const char *const titles[] = {"node", "name", "state", "peers", "clients", "zone", "groups", "leads"};
    struct table t;
    head(&t, titles, 8);
    for (uint32_t i = 0; i < nodes->n; i++) {
        const struct metanodes_node *n = &nodes->nodes[i];
        uint32_t leads = 0;
        if (n->state == METACODE_GONE) continue;
        for (uint32_t j = 0; j < groups->n; j++) leads += leader_of(h, groups->groups[j].id) == n->id;
        cell(&t, "%" PRIu64 "%s", n->id, n->id == h->myself ? "*" : "");
        cell(&t, "%.*s", (int)n->is.name.n, n->is.name.p);
        cell(&t, "%s%s", metacode_node_state_name(n->state), !alive(h, n->id) ? ", silent" : linked(h, n->id) ? "" : ", unreachable");
        cell(&t, "%.*s", (int)n->is.peer.n, n->is.peer.p);
        cell(&t, "%.*s", (int)n->is.client.n, n->is.client.p);
        cell(&t, "%.*s", n->is.zone.n ? (int)n->is.zone.n : 1, n->is.zone.n ? n->is.zone.p : "-");
        cell(&t, "%u", metagroups_of_node(groups, n->id, NULL, 0));
        cell(&t, "%u", leads);
    }
    lay_out(&t, out);
}

/* Of groups 0 and 1, which are on every node, the log alone says who is a member: 1 4~: votes, only follows. */
static void text_own_members(struct buf *out, const struct raftnode_members *m)
{
    for (uint32_t i = 0; i < m->n; i++) buf_printf(out, "%s%" PRIu64 "%s", i ? " " : "", m->m[i].node, m->m[i].role == RAFTNODE_VOTER ? "" : "~");
}

/* 1 2+ 3-: member, wanted but not told yet, told but not wanted any more. */
static void text_members(struct buf *out, const struct metagroups_group *g)
{
    struct raftnode_members all = g->wanted;
    if (g->id < META_FIRST_DATA_GROUP && g->told.n) {
        text_own_members(out, &g->told);
        return;
    }
    for (uint32_t i = 0; i < g->told.n; i++)
        if (!meta_members_has(&all, g->told.m[i].node)) meta_members_set(&all, g->told.m[i].node, g->told.m[i].role);
    for (uint32_t i = 0; i < all.n; i++) {
        uint64_t id = all.m[i].node;
        const char *mark = !meta_members_has(&g->wanted, id) ? "-" : g->told.n && meta_members_role(&g->told, id) != meta_members_role(&g->wanted, id) ? "+" : "";
        buf_printf(out, "%s%" PRIu64 "%s", i ? " " : "", id, mark);
    }
}

struct cover_text {
    struct buf text;
    uint32_t n;
};

enum { COVERS_SHOWN = 3 };

static bool text_cover(void *ctx, const struct metagroups_cover *c)
{
    struct cover_text *t = ctx;
    if (t->n++ >= COVERS_SHOWN) return true;
    if (t->n > 1) buf_add_str(&t->text, ", ");
    if (c->hash) {
        buf_printf(&t->text, "hash %016" PRIx64 "-%016" PRIx64 "%s", c->hash->first, c->hash->last, c->hash->moving ? ", moving" : "");
        return true;
    }
    buf_add_str(&t->text, "space ");
    spaces_text_key(&t->text, c->space);
    buf_add_byte(&t->text, ' ');
    if (c->range->start.n)
        spaces_text_key(&t->text, c->range->start);
    else
        buf_add_byte(&t->text, '-');
    buf_add_str(&t->text, "..");
    if (c->range->end.n)
        spaces_text_key(&t->text, c->range->end);
    else
        buf_add_byte(&t->text, '+');
    return true;
}

static void text_covers(struct buf *out, const struct metagroups *m, uint32_t group)
{
    struct cover_text t = {0};
    metagroups_covers(m, group, text_cover, &t);
    if (t.n > COVERS_SHOWN) buf_printf(&t.text, " and %u more", t.n - COVERS_SHOWN);
    if (group < META_FIRST_DATA_GROUP)
        buf_add_str(out, group == META_NODES_GROUP ? "nodes and settings" : "groups and the map");
    else if (t.n == 0)
        buf_add_str(out, "nothing");
    buf_add_slice(out, buf_slice(&t.text));
    buf_fini(&t.text);
}

void metaview_groups(struct buf *out, const struct metagroups *groups, const struct metaview_hints *h)
{
    static const char *const titles[] = {"group", "leader", "members", "covers"};
    struct table t;
    head(&t, titles, 4);
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct metagroups_group *g = &groups->groups[i];
        struct buf members = {0}, covers = {0};
        uint64_t leader = leader_of(h, g->id);
        text_members(&members, g);
        text_covers(&covers, groups, g->id);
        cell(&t, "%u", g->id);
        if (leader)
            cell(&t, "%" PRIu64, leader);
        else
            cell(&t, "?");
        cell(&t, "%.*s", (int)members.len, members.p);
        cell(&t, "%.*s", (int)covers.len, covers.p);
        buf_fini(&members);
        buf_fini(&covers);
    }
    lay_out(&t, out);
}

/* How far what walks has come. */
static void text_progress(struct buf *out, const struct space_map *map, const struct metaops_plan *p)
{
    struct space_info info;
    spaces_info(map, p->space, &info);
    uint64_t range = p->kind == METAOPS_SPLIT ? p->range2 : p->range;
    const struct hash_desc *h = p->of_hash ? spaces_hash_by_id(map, range) : NULL;
    const struct range_desc *d = range && !p->of_hash ? spaces_range_by_id(map, range, NULL) : NULL;
    struct slice boundary = h ? h->boundary : d ? d->boundary : info.boundary;
    buf_add_str(out, " below=");
    if (boundary.n) spaces_text_key(out, boundary);
    else buf_add_byte(out, '-');
}

struct part {
    const struct metaops_plan *plan;
    bool hashed; /* keys go by their hashes before it, or will */
    bool found;
};

static bool find_part(void *ctx, const struct metagroups_cover *c)
{
    struct part *p = ctx;
    p->found |= c->hash ? p->hashed : slice_eq(c->space, p->plan->space);
    return !p->found;
}

/* A change of mode names the groups that keys go to; where they come from the map says. */
static bool has_part(const struct metagroups *groups, const struct metaops_plan *p, uint32_t group)
{
    struct space_info info;
    if (p->kind != METAOPS_CHANGE_MODE || metaops_names_group(p, group)) return metaops_names_group(p, group);
    spaces_info(groups->map, p->space, &info);
    struct part part = {.plan = p, .hashed = p->mode == SPACE_HASH || info.mode == SPACE_HASH};
    metagroups_covers(groups, group, find_part, &part);
    return part.found;
}

/* Nothing goes on without those that have a part in it. */
static void text_waits(struct buf *out, const struct metagroups *groups, const struct metaops_plan *p, const struct metaview_hints *h)
{
    const char *before = " waits for group=";
    for (uint32_t i = 0; i < groups->n; i++) {
        uint32_t group = groups->groups[i].id;
        if (!has_part(groups, p, group) || leader_of(h, group)) continue;
        buf_printf(out, "%s%u", before, group);
        before = ",";
    }
}

void metaview_ops(struct buf *out, const struct metagroups *groups, const struct metaview_hints *h)
{
    static const char *const titles[] = {"operation", "step", "driver", "what"};
    struct table t;
    if (groups->n_ops == 0) return;
    head(&t, titles, 4);
    for (uint32_t i = 0; i < groups->n_ops; i++) {
        const struct metaops_op *op = groups->ops[i];
        struct buf what = {0};
        metaops_text(&what, &op->plan);
        if (op->step == METAOPS_WALKING) text_progress(&what, groups->map, &op->plan);
        text_waits(&what, groups, &op->plan, h);
        cell(&t, "%" PRIu64, op->id);
        cell(&t, "%s", metaops_step_name(op->step));
        cell(&t, "%" PRIu64, op->driver);
        cell(&t, "%.*s", (int)what.len, what.p);
        buf_fini(&what);
    }
    lay_out(&t, out);
}

/* name ip:port@port,host flags master ping pong epoch link slots; every node is a master, for each answers for all keys. */
void metaview_cluster_nodes(struct buf *out, const struct metanodes *nodes, const struct metaview_hints *h, const char *slots)
{
    char name[METAVIEW_NODE_NAME + 1];
    for (uint32_t i = 0; i < nodes->n; i++) {
        const struct metanodes_node *n = &nodes->nodes[i];
        if (n->state == METACODE_GONE) continue;
        const char *colon = memrchr(n->is.peer.p, ':', n->is.peer.n);
        size_t port = (size_t)(n->is.peer.p + n->is.peer.n - colon) - 1;
        metaview_node_name(name, nodes, n->id);
        buf_printf(out, "%s %.*s@%.*s %smaster%s - 0 0 %" PRIu64 " %s", name, (int)n->is.client.n, n->is.client.p, (int)port, colon + 1, n->id == h->myself ? "myself," : "",
                   alive(h, n->id) ? "" : ",fail?", n->generation, linked(h, n->id) ? "connected" : "disconnected");
        buf_printf(out, "%s%s\n", slots ? " " : "", slots ? slots : "");
    }
}
