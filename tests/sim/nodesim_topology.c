/* Changes of the line's topology: its mode, where its ranges are cut, in which groups they are; and faults that come at the steps of such a change.
 *
 * A fault strikes who has a part in the change: whoever hears of it, whoever drives it, whoever leads group 1, whoever leads a group that has a part of the line. And nodes are blinded: for a while they hear nothing of group 1, but are well else; then they
 * lead their groups by a map that is old. */
#include <stdio.h>

#include "base/mem.h"
#include "cluster/wire.h"
#include "nodesim_own.h"

enum { STRIKE_BITS = 8, BLIND_MS = 3000, BLIND_LEAST_MS = 300, BLIND_LONG_MS = 4000, UNSET_TURNS = 6 };

struct nodesim_topology {
    /* As of the latest map that any node had. */
    uint64_t version;
    enum space_mode mode;
    bool set;
    uint32_t unset_turns; /* of the administrator, in which the line stays the bucket that it is by default, */
    struct hash_desc home; /* of that bucket; its boundary is not kept */
    uint32_t n_ranges, n_moving; /* moving: ranges, and the space itself; also the bucket that it is before it is set */
    char starts[NODESIM_LINE_KEYS][NODESIM_KEY_BYTES]; /* of its ranges but the first */
    uint32_t n_hash, n_hash_moving; /* intervals of the hash */
    uint32_t group_splits; /* that were asked for: each makes a group, if it is heard */
    uint32_t blind; /* a node; 0 */
    uint64_t blind_until;
};

/* ---- strikes */

static uint32_t leader_of(struct nodesim *s, uint32_t group)
{
    for (uint32_t id = 1; id <= NODESIM_NODES; id++) {
        const struct nodesim_node *n = world_node(s->w, id);
        if (n && n->member && n->leads[group]) return id;
    }
    return 0;
}

static void plan_strike(struct nodesim *s, uint32_t node)
{
    struct rng *rng = world_rng(s->w);
    if (node) world_after(s->w, 0, rng_below(rng, 4) ? rng_below(rng, 3 * WORLD_MS) : rng_below(rng, 60 * WORLD_MS), NODESIM_STRIKE, (uint64_t)node << STRIKE_BITS | rng_below(rng, WORLD_STRIKES));
}

/* Group 1 gets another leader, and with it the operations another driver; the old one may not know for a while. */
static void hand_over(struct nodesim *s)
{
    uint32_t id = leader_of(s, META_MAP_GROUP);
    struct nodesim_node *n = id ? world_node(s->w, id) : NULL;
    if (!n || !nodesim_raft_runs(n)) return;
    world_trace(s->w, id, "hands group 1 over");
    nodesim_begin_turn(n);
    raftnode_transfer(n->raft, META_MAP_GROUP, 0);
    nodesim_end_turn(n);
    s->result->handed_over++;
}

void nodesim_topology_strike(struct nodesim *s, uint64_t arg)
{
    if (!s->admin) return; /* it is peace by now */
    if (arg == 0) {
        hand_over(s);
        return;
    }
    world_trace(s->w, (uint32_t)(arg >> STRIKE_BITS), "is struck");
    s->result->strikes++;
    world_strike(s->w, (uint32_t)(arg >> STRIKE_BITS), (enum world_strike)(arg & ((1 << STRIKE_BITS) - 1)));
}

/* One of those who have a part in what happens: this node, and this one. */
static bool strike_some(struct nodesim *s, uint32_t here, uint32_t driver, uint32_t one_of)
{
    struct rng *rng = world_rng(s->w);
    uint32_t group = META_FIRST_DATA_GROUP + (uint32_t)rng_below(rng, NODESIM_DATA);
    if (!s->admin || rng_below(rng, one_of)) return false;
    const uint32_t victims[] = {here, driver, leader_of(s, META_MAP_GROUP), leader_of(s, group)};
    plan_strike(s, victims[rng_below(rng, sizeof victims / sizeof victims[0])]);
    return true;
}

/* ---- nodes that hear nothing of the map */

/* The bug of this mutant shows if a group comes and gets keys while somebody hears nothing of it: somebody is blinded before each comes, and for long, also when other faults have ended. */
static bool blinds_for_groups(const struct nodesim *s) { return s->mutant == NODESIM_OLD_LIST; }

static void blind(struct nodesim *s, uint32_t node)
{
    struct nodesim_topology *t = s->topology;
    if (!node || world_now(s->w) < t->blind_until) return;
    t->blind = node;
    world_trace(s->w, t->blind, "hears nothing of the map");
    uint32_t least_ms = blinds_for_groups(s) ? BLIND_LONG_MS : BLIND_LEAST_MS;
    t->blind_until = world_now(s->w) + (least_ms + rng_below(world_rng(s->w), BLIND_MS)) * WORLD_MS;
    s->result->blinded++;
}

uint32_t nodesim_topology_blind(const struct nodesim *s)
{
    return (s->admin || blinds_for_groups(s)) && world_now(s->w) < s->topology->blind_until ? s->topology->blind : 0;
}

bool nodesim_topology_blinds(const struct nodesim *s, uint32_t from, uint32_t to, const struct wire_frame *f)
{
    uint32_t blind = nodesim_topology_blind(s);
    return blind && f->group == META_MAP_GROUP && (from == blind || to == blind);
}

/* ---- the steps of a move */

void nodesim_topology_step(struct nodesim_node *n, enum metaops_step to)
{
    struct nodesim_result *r = n->sim->result;
    bool struck = strike_some(n->sim, n->id, n->id, 12);
    if (to == METAOPS_WALKING) r->struck[NODESIM_AT_BOUNDARY] += struck;
    else r->struck[NODESIM_AT_DONE] += struck;
}

void nodesim_topology_order(struct nodesim_node *n, uint32_t driver, struct slice name)
{
    static const char *const names[] = {[NODESIM_AT_BEGIN] = "carry.begin", [NODESIM_AT_MEASURE] = "carry.measure", [NODESIM_AT_FREEZE] = "carry.freeze", [NODESIM_AT_PIECE] = "carry.piece", [NODESIM_AT_PUT] = "carry.put", [NODESIM_AT_TAKE] = "carry.take", [NODESIM_AT_END] = "carry.end"};
    struct nodesim *s = n->sim;
    struct rng *rng = world_rng(s->w);
    if (s->admin && slice_is(name, "carry.begin") && rng_below(rng, 5) == 0) blind(s, n->id);
    if (s->admin && !slice_is(name, "carry.end") && rng_below(rng, 15) == 0) world_after(s->w, 0, rng_below(rng, 5 * WORLD_MS), NODESIM_STRIKE, 0);
    if (!strike_some(s, n->id, driver, 20)) return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) s->result->struck[i] += slice_is(name, names[i]);
}

/* ---- what there is */

static uint32_t count_moving(const struct nodesim_topology *t, const struct space_map *m, const struct space_info *info)
{
    const struct space *line = spaces_find(m, SLICE(NODESIM_SPACE));
    uint32_t n = info->set ? info->moving : t->home.moving;
    for (uint32_t i = 0; line && i < info->n_ranges; i++) n += spaces_range(line, false, i)->moving;
    return n;
}

static void note_starts(struct nodesim_topology *t, const struct space *line)
{
    for (uint32_t i = 1; i < t->n_ranges && i < NODESIM_LINE_KEYS; i++) {
        struct slice start = spaces_range(line, false, i)->start;
        snprintf(t->starts[i - 1], NODESIM_KEY_BYTES, "%.*s", (int)start.n, start.p);
    }
}

static void note_hash(struct nodesim *s, const struct space_map *m)
{
    struct nodesim_topology *t = s->topology;
    uint32_t moving = 0;
    for (uint32_t i = 0; i < m->n_hash; i++) moving += m->hash[i].moving;
    s->result->group_splits += moving < t->n_hash_moving;
    if (m->n_hash != t->n_hash || moving != t->n_hash_moving) world_trace(s->w, 0, "the hash has %u intervals, %u are on their way", m->n_hash, moving);
    t->n_hash = m->n_hash;
    t->n_hash_moving = moving;
}

static void note_home(struct nodesim_topology *t, const struct space_map *m)
{
    struct range_desc bucket;
    if (!spaces_unset_bucket(m, SLICE(NODESIM_SPACE), &bucket)) return;
    t->home = *spaces_hash_by_id(m, bucket.id);
    t->home.boundary = SLICE("");
}

void nodesim_topology_map(struct nodesim_node *n, const struct space_map *m)
{
    struct nodesim *s = n->sim;
    struct nodesim_topology *t = s->topology;
    struct space_info info;
    spaces_check(m); /* ranges tile their spaces, whoever looks */
    if (m->version <= t->version) return;
    t->version = m->version;
    note_hash(s, m);
    note_home(t, m);
    spaces_info(m, SLICE(NODESIM_SPACE), &info);
    uint32_t moving = count_moving(t, m, &info);
    bool changed = info.set && (!t->set || info.mode != t->mode || info.n_ranges != t->n_ranges || moving != t->n_moving);
    s->result->range_moves += moving < t->n_moving;
    t->n_moving = moving;
    s->result->modes += info.set && (!t->set || info.mode != t->mode);
    s->result->splits += t->set && info.n_ranges > t->n_ranges;
    s->result->merges += t->set && info.n_ranges < t->n_ranges;
    t->set = info.set;
    t->mode = info.mode;
    t->n_ranges = info.n_ranges;
    if (info.set) note_starts(t, spaces_find(m, SLICE(NODESIM_SPACE)));
    if (!changed) return;
    world_trace(s->w, n->id, "the line is %s with %u ranges, %u are on their way", space_mode_name(info.mode), info.n_ranges, moving);
    strike_some(s, n->id, n->id, 5);
}

/* ---- the administrator */

static void ask(struct nodesim *s, enum metahost_question kind, const char *word)
{
    const struct slice argv[] = {SLICE(NODESIM_SPACE), slice_str(word)};
    nodesim_story_ask(s, kind, 0, argv, 2);
}

static void ask_split(struct nodesim *s)
{
    char key[NODESIM_KEY_BYTES];
    nodesim_range_key(key, 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_LINE_KEYS - 1));
    ask(s, METAHOST_SPLIT, key);
}

static void ask_merge(struct nodesim *s)
{
    const struct nodesim_topology *t = s->topology;
    if (t->n_ranges > 1) ask(s, METAHOST_MERGE, t->starts[rng_below(world_rng(s->w), t->n_ranges - 1)]);
}

static void ask_move(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    char key[NODESIM_KEY_BYTES], group[8];
    nodesim_range_key(key, (uint32_t)rng_below(rng, NODESIM_LINE_KEYS));
    snprintf(group, sizeof group, "%u", META_FIRST_DATA_GROUP + (unsigned)rng_below(rng, NODESIM_DATA));
    const struct slice argv[] = {SLICE(NODESIM_SPACE), slice_str(key), slice_str(group)};
    nodesim_story_ask(s, METAHOST_MOVE_RANGE, 0, argv, 3);
}

static void ask_to_split(struct nodesim *s, const struct slice *argv, uint32_t n)
{
    if (s->topology->group_splits == NODESIM_NEW) return;
    s->topology->group_splits++;
    if (blinds_for_groups(s)) blind(s, 1 + (uint32_t)rng_below(world_rng(s->w), NODESIM_NODES));
    nodesim_story_ask(s, METAHOST_SPLIT_GROUP, 0, argv, n);
}

/* Intervals of the hash go to groups of their own, with all keys that go by them. */
static void ask_group(struct nodesim *s)
{
    char group[8];
    snprintf(group, sizeof group, "%u", META_FIRST_DATA_GROUP + (unsigned)rng_below(world_rng(s->w), NODESIM_DATA));
    const struct slice argv[] = {slice_str(group)};
    ask_to_split(s, argv, 1);
}

/* Nearly all of its interval goes, and so does the bucket. */
static void ask_group_of_line(struct nodesim *s)
{
    const struct hash_desc *home = &s->topology->home;
    char group[8], hash[20];
    snprintf(group, sizeof group, "%u", home->shard);
    snprintf(hash, sizeof hash, "%llx", (unsigned long long)home->first + 1);
    const struct slice argv[] = {slice_str(group), slice_str(hash)};
    ask_to_split(s, argv, 2);
}

void nodesim_topology_no_group(struct nodesim *s) { s->topology->group_splits--; }

static void ask_mode(struct nodesim *s)
{
    static const char *const modes[] = {"hash", "bucket", "range", "range"};
    ask(s, METAHOST_SPACE, modes[rng_below(world_rng(s->w), sizeof modes / sizeof modes[0])]);
}

bool nodesim_topology_is_set(const struct nodesim *s) { return s->topology->set; }

/* In some runs the line is not set for a while, and goes to a group that is split off its own. */
static void begin_line(struct nodesim *s)
{
    struct nodesim_topology *t = s->topology;
    if (t->unset_turns == 0) {
        ask(s, METAHOST_SPACE, "range");
        return;
    }
    t->unset_turns--;
    if (rng_below(world_rng(s->w), 3) == 0) ask_group_of_line(s);
}

void nodesim_topology_start(struct nodesim *s)
{
    struct rng *rng = world_rng(s->w);
    s->topology->unset_turns = rng_below(rng, 4) ? 0 : 1 + (uint32_t)rng_below(rng, UNSET_TURNS);
    world_after(s->w, 0, 1000 * WORLD_MS, NODESIM_TOPOLOGY, 0);
}

void nodesim_topology_admin(struct nodesim *s)
{
    const struct nodesim_topology *t = s->topology;
    struct rng *rng = world_rng(s->w);
    if (!s->changes) return;
    world_after(s->w, 0, rng_below(rng, 600 * WORLD_MS), NODESIM_TOPOLOGY, 0);
    if (s->admin && rng_below(rng, 12) == 0) blind(s, leader_of(s, META_FIRST_DATA_GROUP + (uint32_t)rng_below(rng, NODESIM_DATA)));
    if (!t->set) begin_line(s);
    else if (rng_below(rng, t->mode == SPACE_RANGE ? 12 : 3) == 0) ask_mode(s);
    else if (rng_below(rng, 12) == 0) ask_group(s);
    else if (rng_below(rng, 2)) ask_move(s);
    else if (rng_below(rng, 5) < (t->n_ranges < 4 ? 3 : 1)) ask_split(s);
    else ask_merge(s);
}

/* ---- */

void nodesim_topology_new(struct nodesim *s) { s->topology = mem_zalloc(sizeof *s->topology); }
void nodesim_topology_free(struct nodesim *s) { mem_free(s->topology); }
