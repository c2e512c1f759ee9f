/* The state machines of groups 0 and 1 by hand: what each entry does, and why it is refused. The random walks are in test_metawalk.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cluster/holding.h"
#include "cluster/metaview.h"
#include "metakit.h"

#define assert_code(call, expected) assert_string_equal(meta_code_name(call), meta_code_name(expected))

static enum meta_code state(struct metakit *k, uint64_t node, enum metacode_node_state from, enum metacode_node_state to, bool dead)
{
    struct metacode_entry e = {.kind = METACODE_NODE_STATE};
    e.state.node = node;
    e.state.from = from;
    e.state.to = to;
    e.state.dead = dead;
    return metakit_propose(k, &e);
}

static enum meta_code join_as(struct metakit *k, uint64_t proposer, uint64_t sequence, struct metacode_node n)
{
    struct metacode_entry e = {.kind = METACODE_NODE_JOIN, .proposer = proposer, .sequence = sequence};
    e.join = n;
    return metakit_propose(k, &e);
}

static uint32_t group_at(const struct metakit *k, const char *key)
{
    return spaces_shard(k->groups->map, slice_str(key), keyhash(slice_str(key), k->groups->map->route.seed));
}

/* ---- group 0 */

static void a_new_cluster_knows_its_nodes_and_settings(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 16, 3, SPACE_BUCKET);
    assert_int_equal(k.nodes->n, 3);
    assert_int_equal(k.nodes->next_node, 4);
    assert_int_equal(k.nodes->format, META_FORMAT);
    assert_int_equal(k.nodes->settings[METACODE_REPLICATION], 3);
    assert_int_equal(metanodes_find(k.nodes, 2)->state, METACODE_UP);
    assert_int_equal(k.groups->n, 18);
    assert_int_equal(k.groups->map->n_hash, 16);
    assert_int_equal(k.groups->next_group, 18);
    metanodes_check(k.nodes);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void a_node_that_asks_again_is_told_the_number_it_has(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    assert_code(join_as(&k, 0, 0, metakit_node(&k, 7, 0)), META_DONE);
    assert_int_equal(k.r.id, 4);
    assert_code(join_as(&k, 0, 0, metakit_node(&k, 7, 0)), META_SAME);
    assert_int_equal(k.r.id, 4);
    assert_int_equal(k.nodes->next_node, 5);
    metakit_fini(&k);
}

static void a_machine_that_lost_its_directory_does_not_get_its_old_number(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    struct metacode_node again = metakit_node(&k, 1, 0);
    again.instance = 999;
    assert_code(join_as(&k, 0, 0, again), META_DUPLICATE);
    assert_int_equal(k.r.id, 2);
    assert_string_equal(k.r.why, "node 2 has that address for nodes");
    assert_code(state(&k, 2, METACODE_UP, METACODE_GONE, true), META_DONE);
    assert_code(join_as(&k, 0, 0, again), META_DONE);
    assert_int_equal(k.r.id, 4);
    assert_code(join_as(&k, 0, 0, metakit_node(&k, 1, 0)), META_STALE);
    metakit_fini(&k);
}

static void a_node_is_drained_before_it_goes_unless_it_is_dead(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    assert_code(state(&k, 1, METACODE_UP, METACODE_GONE, false), META_EARLY);
    assert_code(state(&k, 1, METACODE_UP, METACODE_DRAINING, false), META_DONE);
    assert_code(state(&k, 1, METACODE_UP, METACODE_GONE, true), META_STALE);
    assert_code(state(&k, 1, METACODE_DRAINING, METACODE_GONE, false), META_DONE);
    assert_code(state(&k, 1, METACODE_GONE, METACODE_UP, false), META_STALE);
    assert_code(state(&k, 1, METACODE_DRAINING, METACODE_GONE, false), META_SAME);
    assert_code(state(&k, 9, METACODE_UP, METACODE_DRAINING, false), META_UNKNOWN);
    assert_true(metanodes_gone(k.nodes, 1));
    assert_false(metanodes_gone(k.nodes, 9));
    assert_code(state(&k, 2, METACODE_UP, METACODE_DRAINING, false), META_DONE);
    assert_code(state(&k, 3, METACODE_UP, METACODE_DRAINING, false), META_INVALID);
    assert_code(state(&k, 3, METACODE_UP, METACODE_GONE, true), META_INVALID);
    assert_string_equal(k.r.why, "no other node would be left");
    metakit_fini(&k);
}

static void a_retried_proposal_is_applied_once(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    assert_code(join_as(&k, 1, 50, metakit_node(&k, 5, 0)), META_DONE);
    uint64_t version = k.nodes->version;
    assert_code(state(&k, 4, METACODE_UP, METACODE_GONE, true), META_DONE);
    /* The first answer, although the same proposal would be refused now. */
    assert_code(join_as(&k, 1, 50, metakit_node(&k, 5, 0)), META_DONE);
    assert_true(k.r.repeat);
    assert_int_equal(k.r.id, 4);
    assert_int_equal(k.nodes->version, version + 1);
    assert_int_equal(k.nodes->next_node, 5);
    metakit_fini(&k);
}

static void a_refused_proposal_stays_refused(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    struct metacode_node again = metakit_node(&k, 1, 0);
    again.instance = 999;
    assert_code(join_as(&k, 1, 1, again), META_DUPLICATE);
    assert_code(state(&k, 2, METACODE_UP, METACODE_GONE, true), META_DONE);
    assert_code(join_as(&k, 1, 1, again), META_DUPLICATE);
    assert_true(k.r.repeat);
    assert_code(join_as(&k, 1, 2, again), META_DONE);
    metakit_fini(&k);
}

static void what_is_older_than_the_memory_is_not_guessed(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    struct metacode_entry e = {.kind = METACODE_SETTING, .proposer = 1};
    e.setting.setting = METACODE_DEAD_AFTER_MS;
    for (uint64_t i = 1; i <= METASEEN_WINDOW + 1; i++) {
        e.sequence = i * 10;
        e.setting.value = 1000 + i;
        assert_code(metakit_propose(&k, &e), META_DONE);
    }
    e.sequence = 10;
    assert_code(metakit_propose(&k, &e), META_OLD);
    e.sequence = 20;
    assert_code(metakit_propose(&k, &e), META_DONE);
    assert_true(k.r.repeat);
    e.sequence = 25; /* it came late, but its place is remembered as empty */
    e.setting.value = 9999;
    assert_code(metakit_propose(&k, &e), META_DONE);
    assert_false(k.r.repeat);
    metakit_fini(&k);
}

static void settings_have_limits(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    struct metacode_entry e = {.kind = METACODE_SETTING};
    e.setting.setting = METACODE_REPLICATION;
    e.setting.value = 5;
    assert_code(metakit_propose(&k, &e), META_DONE);
    assert_code(metakit_propose(&k, &e), META_SAME);
    e.setting.value = 8;
    assert_code(metakit_propose(&k, &e), META_INVALID);
    assert_string_equal(k.r.why, "replication is a number from 1 to 7, not 8");
    metakit_fini(&k);
}

static void a_newer_program_s_entry_is_foreign_and_not_refused(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    uint64_t before = metanodes_digest(k.nodes);
    metanodes_apply(k.nodes, SLICE("\x02 whatever"), &k.r);
    assert_int_equal(k.r.code, META_FOREIGN);
    metanodes_apply(k.nodes, SLICE("\x01\x07 whatever"), &k.r);
    assert_int_equal(k.r.code, META_MALFORMED);
    struct metacode_entry e = {.kind = METACODE_FORMAT, .proposer = 1, .sequence = 1};
    e.format.from = META_FORMAT;
    e.format.to = META_FORMAT + 1;
    assert_code(metakit_propose(&k, &e), META_FOREIGN);
    assert_int_equal(metanodes_digest(k.nodes), before);
    metakit_fini(&k);
}

static void only_the_latest_of_the_gone_are_kept(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    for (uint32_t i = 0; i < METANODES_GONE_KEPT + 10; i++) {
        assert_code(join_as(&k, 0, 0, metakit_node(&k, 10 + i, 0)), META_DONE);
        assert_code(state(&k, k.r.id, METACODE_UP, METACODE_GONE, true), META_DONE);
        metanodes_check(k.nodes);
    }
    assert_int_equal(k.nodes->n, 3 + METANODES_GONE_KEPT);
    assert_null(metanodes_find(k.nodes, 4));
    assert_true(metanodes_gone(k.nodes, 4));
    metakit_fini(&k);
}

/* ---- group 1 */

/* Space "users" as one range in group 2, by a change of mode that moves nothing. */
static void make_users(struct metakit *k)
{
    struct metaops_range whole = {.group = 2};
    assert_code(metakit_begin(k, &(struct metaops_plan){.kind = METAOPS_CHANGE_MODE, .space = SLICE("users"), .mode = SPACE_RANGE, .ranges = &whole, .n_ranges = 1}), META_DONE);
    assert_code(metakit_step(k, k->r.id, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_DONE);
}

static const struct range_desc *users_at(const struct metakit *k, const char *key) { return spaces_range_of(k->groups->map, SLICE("users"), slice_str(key)); }

static struct metaops_plan split_at(const struct metakit *k, const char *key, bool new_group)
{
    const struct range_desc *d = users_at(k, key);
    return (struct metaops_plan){.kind = METAOPS_SPLIT, .new_group = new_group, .group = d->shard, .range = d->id, .generation = d->generation, .space = SLICE("users"), .key = slice_str(key)};
}

/* Its upper half is in a new group, whose keys have all arrived. */
static void split_off(struct metakit *k, const struct metaops_plan *plan)
{
    assert_code(metakit_begin(k, plan), META_DONE);
    uint64_t op = k->r.id;
    assert_code(metakit_step(k, op, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    assert_code(metakit_step(k, op, METAOPS_WALKING, METAOPS_CARRIED, SLICE("")), META_DONE);
    assert_code(metakit_step(k, op, METAOPS_CARRIED, METAOPS_DONE, SLICE("")), META_DONE);
}

static void a_split_into_a_new_group_shows_in_the_map_as_its_keys_walk(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    struct metaops_plan plan = split_at(&k, "users/m", true);
    uint64_t map = k.groups->map->version;
    assert_code(metakit_begin(&k, &plan), META_DONE);
    uint64_t op = k.r.id;
    assert_int_equal(k.groups->map->version, map);
    assert_int_equal(metagroups_op(k.groups, op)->plan.other, 6);
    assert_int_equal(metagroups_find(k.groups, 6)->wanted.n, 3);
    assert_code(metakit_begin(&k, &plan), META_BUSY);
    assert_int_equal(k.r.id, op);
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = 6, .from = 1, .to = 4}), META_EARLY);

    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_UNDONE, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/m"), 2);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("users/p")), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("users/n")), META_STALE);
    assert_int_equal(group_at(&k, "users/a"), 2);
    assert_int_equal(group_at(&k, "users/m"), 6);
    assert_int_equal(group_at(&k, "users/p"), 2);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_CARRIED, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/z"), 6);
    assert_code(metakit_step(&k, op, METAOPS_CARRIED, METAOPS_DONE, SLICE("")), META_DONE);
    assert_code(metakit_begin(&k, &plan), META_STALE);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void an_undone_split_leaves_nothing_but_a_burnt_number(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    struct metaops_plan plan = split_at(&k, "users/m", false);
    assert_code(metakit_begin(&k, &plan), META_DONE);
    uint64_t id = metagroups_op(k.groups, k.r.id)->plan.range2;
    assert_code(metakit_step(&k, k.r.id, METAOPS_PLANNED, METAOPS_UNDONE, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/m"), 2);
    assert_code(metakit_begin(&k, &plan), META_DONE);
    assert_int_equal(metagroups_op(k.groups, k.r.id)->plan.range2, id + 1);
    metakit_fini(&k);
}

static void ranges_of_two_groups_merge_by_freezing_and_absorbing(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    struct metaops_plan plan = split_at(&k, "users/m", true);
    split_off(&k, &plan);
    const struct range_desc *low = users_at(&k, "users/a"), *high = users_at(&k, "users/z");
    plan = (struct metaops_plan){.kind = METAOPS_MERGE, .group = low->shard, .other = high->shard, .range = low->id, .generation = low->generation, .range2 = high->id,
                                 .generation2 = high->generation, .space = SLICE("users")};
    uint64_t above = high->generation;
    assert_code(metakit_begin(&k, &plan), META_DONE);
    uint64_t op = k.r.id;
    struct metacode_entry retire = {.kind = METACODE_GROUP_RETIRE};
    retire.retire = 6;
    assert_code(metakit_propose(&k, &retire), META_BUSY);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_FROZEN, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/z"), 6);
    assert_code(metakit_step(&k, op, METAOPS_FROZEN, METAOPS_ABSORBED, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/z"), 2);
    assert_true(users_at(&k, "users/z")->generation > above);
    assert_code(metakit_step(&k, op, METAOPS_ABSORBED, METAOPS_UNDOING, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_ABSORBED, METAOPS_DONE, SLICE("")), META_DONE);
    assert_code(metakit_propose(&k, &retire), META_DONE);
    assert_code(metakit_propose(&k, &retire), META_SAME);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void intervals_of_the_hash_split_and_merge_across_groups(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 2, 3, SPACE_HASH);
    struct metaops_plan split = {.kind = METAOPS_SPLIT, .of_hash = true, .new_group = true, .group = 2, .range = 1, .generation = 1, .hash = 1ull << 62};
    split_off(&k, &split);
    assert_int_equal(k.groups->map->n_hash, 3);
    assert_int_equal(k.groups->map->hash[1].shard, 4);
    const struct hash_desc *h = k.groups->map->hash;
    struct metaops_plan merge = {.kind = METAOPS_MERGE, .of_hash = true, .group = 2, .other = 4, .range = h[0].id, .generation = h[0].generation, .range2 = h[1].id, .generation2 = h[1].generation};
    assert_code(metakit_begin(&k, &merge), META_DONE);
    uint64_t op = k.r.id;
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_FROZEN, SLICE("")), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_FROZEN, METAOPS_ABSORBED, SLICE("")), META_DONE);
    assert_int_equal(k.groups->map->n_hash, 2);
    assert_code(metakit_step(&k, op, METAOPS_ABSORBED, METAOPS_DONE, SLICE("")), META_DONE);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void no_space_changes_its_mode_while_an_interval_of_the_hash_walks(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 2, 3, SPACE_BUCKET);
    make_users(&k);
    const struct metaops_plan split = {.kind = METAOPS_SPLIT, .of_hash = true, .new_group = true, .group = 2, .range = 1, .generation = 1, .hash = 1ull << 62};
    const struct metaops_plan mode = {.kind = METAOPS_CHANGE_MODE, .space = SLICE("other"), .mode = SPACE_HASH};
    assert_code(metakit_begin(&k, &mode), META_DONE);
    uint64_t changing = k.r.id;
    assert_code(metakit_begin(&k, &split), META_BUSY);
    assert_code(metakit_step(&k, changing, METAOPS_PLANNED, METAOPS_UNDONE, SLICE("")), META_DONE);
    assert_code(metakit_begin(&k, &split), META_DONE);
    uint64_t op = k.r.id;
    assert_code(metakit_begin(&k, &mode), META_BUSY);
    assert_code(metakit_begin(&k, &split), META_BUSY);
    struct metaops_plan cut = split_at(&k, "users/m", false);
    assert_code(metakit_begin(&k, &cut), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    const struct hash_desc *h = spaces_hash_by_id(k.groups->map, metagroups_op(k.groups, op)->plan.range2);
    assert_true(h->moving && h->shard == 2 && h->to_shard == 4 && h->first == 1ull << 62);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("k")), META_DONE);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void a_replica_moves_as_the_group_tells(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 1, 3, SPACE_HASH);
    struct raftnode_members told = metagroups_find(k.groups, 2)->wanted;
    told.index = 5;
    assert_code(metakit_told(&k, 2, &told), META_DONE);
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = 2, .from = 1, .to = 4}), META_DONE);
    uint64_t op = k.r.id;
    assert_true(meta_members_has(&metagroups_find(k.groups, 2)->wanted, 4));
    assert_false(meta_members_has(&metagroups_find(k.groups, 2)->wanted, 1));
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_ADDED, SLICE("")), META_EARLY);
    meta_members_set(&told, 4, RAFTNODE_VOTER);
    assert_code(metakit_told(&k, 2, &told), META_STALE);
    told.index = 9;
    assert_code(metakit_told(&k, 2, &told), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_ADDED, SLICE("")), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_ADDED, METAOPS_DONE, SLICE("")), META_EARLY);
    meta_members_set(&told, 1, RAFTNODE_GONE);
    told.index = 12;
    assert_code(metakit_told(&k, 2, &told), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_ADDED, METAOPS_UNDOING, SLICE("")), META_STALE);
    assert_code(metakit_step(&k, op, METAOPS_ADDED, METAOPS_DONE, SLICE("")), META_DONE);
    assert_true(meta_members_equal(&metagroups_find(k.groups, 2)->wanted, &told));
    metakit_fini(&k);
}

static void a_move_of_a_replica_is_taken_back_to_where_it_was(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 1, 3, SPACE_HASH);
    struct raftnode_members before = metagroups_find(k.groups, 2)->wanted, told = before;
    told.index = 5;
    metakit_told(&k, 2, &told);
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = 2, .from = 1, .to = 4}), META_DONE);
    uint64_t op = k.r.id;
    meta_members_set(&told, 4, RAFTNODE_SPARE);
    told.index = 6;
    metakit_told(&k, 2, &told);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_UNDOING, SLICE("")), META_DONE);
    assert_true(meta_members_equal(&metagroups_find(k.groups, 2)->wanted, &before));
    assert_code(metakit_step(&k, op, METAOPS_UNDOING, METAOPS_UNDONE, SLICE("")), META_EARLY);
    before.index = 7;
    metakit_told(&k, 2, &before);
    assert_code(metakit_step(&k, op, METAOPS_UNDOING, METAOPS_UNDONE, SLICE("")), META_DONE);
    assert_int_equal(k.groups->n_ops, 0);
    metakit_fini(&k);
}

static void a_walking_boundary_only_goes_forward(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    const struct range_desc *d = users_at(&k, "users/a");
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_RANGE, .group = 2, .other = 3, .range = d->id, .generation = d->generation, .space = SLICE("users")}), META_DONE);
    uint64_t op = k.r.id;
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_SAME);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("users/g")), META_DONE);
    assert_int_equal(group_at(&k, "users/a"), 3);
    assert_int_equal(group_at(&k, "users/g"), 2);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("users/g")), META_SAME);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_WALKING, SLICE("users/b")), META_STALE);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_UNDONE, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_DONE, SLICE("")), META_INVALID);
    assert_code(metakit_step(&k, op, METAOPS_WALKING, METAOPS_CARRIED, SLICE("")), META_DONE);
    assert_int_equal(group_at(&k, "users/z"), 3);
    /* Its groups have records of it: until they say otherwise nothing else begins with these keys. */
    d = users_at(&k, "users/a");
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_RANGE, .group = 3, .other = 2, .range = d->id, .generation = d->generation, .space = SLICE("users")}), META_BUSY);
    uint64_t version = k.groups->map->version;
    assert_code(metakit_step(&k, op, METAOPS_CARRIED, METAOPS_DONE, SLICE("")), META_DONE);
    assert_int_equal(k.groups->map->version, version);
    assert_int_equal(k.groups->n_ops, 0);
    metakit_fini(&k);
}

/* The group has its wanted members, and says so. */
static void tell(struct metakit *k, uint32_t group)
{
    struct raftnode_members told = metagroups_find(k->groups, group)->wanted;
    told.index = 5;
    assert_code(metakit_told(k, group, &told), META_DONE);
}

static struct metaops_plan move_of(struct metakit *k, const char *key, uint32_t to)
{
    const struct range_desc *d = users_at(k, key);
    return (struct metaops_plan){.kind = METAOPS_MOVE_RANGE, .group = d->shard, .other = to, .range = d->id, .generation = d->generation, .space = SLICE("users")};
}

static void ranges_move_between_the_same_groups_side_by_side(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    static const char *const cuts[] = {"users/m", "users/t"};
    for (size_t i = 0; i < 2; i++) {
        struct metaops_plan cut = split_at(&k, cuts[i], false);
        assert_code(metakit_begin(&k, &cut), META_DONE);
        assert_code(metakit_step(&k, k.r.id, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_DONE);
    }
    struct metaops_plan low = move_of(&k, "users/a", 3), high = move_of(&k, "users/z", 3);
    assert_code(metakit_begin(&k, &low), META_DONE);
    uint64_t first = k.r.id;
    assert_code(metakit_begin(&k, &high), META_DONE);
    assert_code(metakit_step(&k, first, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    assert_code(metakit_step(&k, k.groups->ops[1]->id, METAOPS_PLANNED, METAOPS_WALKING, SLICE("")), META_DONE);
    metagroups_check(k.groups);
    /* What moves is left alone; what lies between is not. */
    struct metaops_plan again = move_of(&k, "users/a", 4), cut_moving = split_at(&k, "users/b", false), cut_other = split_at(&k, "users/p", false);
    assert_code(metakit_begin(&k, &again), META_BUSY);
    assert_code(metakit_begin(&k, &cut_moving), META_BUSY);
    assert_code(metakit_begin(&k, &cut_other), META_DONE);
    struct space_info info;
    spaces_info(k.groups->map, SLICE("users"), &info);
    assert_code(metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_CHANGE_MODE, .space = SLICE("users"), .mode = SPACE_HASH, .generation = info.generation}), META_BUSY);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void a_replica_moves_while_keys_walk_but_not_while_its_group_is_merged(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    tell(&k, 2);
    const struct metaops_plan replica = {.kind = METAOPS_MOVE_REPLICA, .group = 2, .from = 1, .to = 4};
    struct metaops_plan split = split_at(&k, "users/m", true);
    split_off(&k, &split);
    const struct range_desc *low = users_at(&k, "users/a"), *high = users_at(&k, "users/z");
    const struct metaops_plan walk = {.kind = METAOPS_MOVE_RANGE, .group = 2, .other = 3, .range = low->id, .generation = low->generation, .space = SLICE("users")};
    const struct metaops_plan merge = {.kind = METAOPS_MERGE, .group = low->shard, .other = high->shard, .range = low->id, .generation = low->generation, .range2 = high->id,
                                       .generation2 = high->generation, .space = SLICE("users")};
    assert_code(metakit_begin(&k, &merge), META_DONE);
    uint64_t op = k.r.id;
    assert_int_equal(metagroups_op_of(k.groups, 2)->id, op);
    assert_code(metakit_begin(&k, &walk), META_BUSY);
    assert_code(metakit_begin(&k, &replica), META_BUSY);
    assert_code(metakit_step(&k, op, METAOPS_PLANNED, METAOPS_UNDONE, SLICE("")), META_DONE);
    assert_code(metakit_begin(&k, &walk), META_DONE);
    assert_null(metagroups_op_of(k.groups, 2));
    assert_code(metakit_begin(&k, &replica), META_DONE);
    assert_code(metakit_begin(&k, &replica), META_BUSY);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void a_bucket_becomes_a_range_where_it_is_and_keeps_its_descriptor(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    uint64_t id = users_at(&k, "users/a")->id;
    struct metaops_range whole = {.group = 2};
    struct space_info info;
    spaces_info(k.groups->map, SLICE("users"), &info);
    struct metaops_plan plan = {.kind = METAOPS_CHANGE_MODE, .space = SLICE("users"), .mode = SPACE_BUCKET, .generation = info.generation, .ranges = &whole, .n_ranges = 1};
    assert_code(metakit_begin(&k, &plan), META_DONE);
    assert_code(metakit_step(&k, k.r.id, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_DONE);
    spaces_info(k.groups->map, SLICE("users"), &info);
    assert_int_equal(info.mode, SPACE_BUCKET);
    assert_int_equal(users_at(&k, "users/a")->id, id);
    assert_code(metakit_begin(&k, &plan), META_STALE);
    plan.generation = info.generation;
    assert_code(metakit_begin(&k, &plan), META_SAME);
    whole.group = 77;
    plan.mode = SPACE_RANGE;
    assert_code(metakit_begin(&k, &plan), META_UNKNOWN);
    metakit_fini(&k);
}

/* What moves has a plan that each group must be able to keep: a side of it has HOLDING_PIECES_MAX pieces at most. */
static void a_space_of_too_many_ranges_keeps_its_mode_until_some_are_merged(void **unused)
{
    struct metakit k;
    struct space_info info;
    struct metaops_plan hash = {.kind = METAOPS_CHANGE_MODE, .space = SLICE("users"), .mode = SPACE_HASH};
    char key[24];
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    for (int i = 1; i <= HOLDING_PIECES_MAX; i++) {
        snprintf(key, sizeof key, "users/%06d", i);
        struct metaops_plan cut = split_at(&k, key, false);
        assert_code(metakit_begin(&k, &cut), META_DONE);
        assert_code(metakit_step(&k, k.r.id, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_DONE);
    }
    spaces_info(k.groups->map, SLICE("users"), &info);
    assert_int_equal(info.n_ranges, HOLDING_PIECES_MAX + 1);
    hash.generation = info.generation;
    assert_code(metakit_begin(&k, &hash), META_LIMIT);
    assert_string_equal(k.r.why, "the space has 4097 ranges, and can change its mode with at most 4096: merge some of them first");
    assert_int_equal(k.groups->n_ops, 0);
    const struct range_desc *a = users_at(&k, "users/000000"), *b = users_at(&k, "users/000001");
    struct metaops_plan merge = {.kind = METAOPS_MERGE, .space = SLICE("users"), .group = 2, .other = 2, .range = a->id, .generation = a->generation, .range2 = b->id, .generation2 = b->generation};
    assert_code(metakit_begin(&k, &merge), META_DONE);
    assert_code(metakit_step(&k, k.r.id, METAOPS_PLANNED, METAOPS_DONE, SLICE("")), META_DONE);
    spaces_info(k.groups->map, SLICE("users"), &info);
    hash.generation = info.generation;
    assert_code(metakit_begin(&k, &hash), META_DONE);
    metagroups_check(k.groups);
    metakit_fini(&k);
}

static void a_lost_driver_is_replaced_by_one_of_two_that_try(void **unused)
{
    struct metakit k;
    metakit_init(&k, 3, 0, 4, 3, SPACE_BUCKET);
    make_users(&k);
    struct metaops_plan plan = split_at(&k, "users/m", false);
    metakit_begin(&k, &plan);
    struct metacode_entry e = {.kind = METACODE_OP_DRIVER};
    e.driver.op = k.r.id;
    e.driver.from = 1;
    e.driver.to = 2;
    assert_code(metakit_propose(&k, &e), META_DONE);
    assert_code(metakit_propose(&k, &e), META_SAME);
    e.driver.to = 3;
    assert_code(metakit_propose(&k, &e), META_STALE);
    assert_string_equal(k.r.why, "node 2 drives operation 2");
    metakit_fini(&k);
}

/* ---- the first placement */

static void replicas_of_a_new_cluster_are_spread_evenly(void **unused)
{
    struct rng rng;
    rng_init(&rng, 11);
    for (int round = 0; round < 300; round++) {
        struct metaplace_node nodes[12] = {0};
        struct raftnode_members groups[40];
        uint32_t n = 1 + (uint32_t)rng_below(&rng, 12), g = 1 + (uint32_t)rng_below(&rng, 40), rf = 1 + (uint32_t)rng_below(&rng, 5), zones = (uint32_t)rng_below(&rng, 4);
        static const struct slice zone_names[] = {SLICE("a"), SLICE("b"), SLICE("c")};
        for (uint32_t i = 0; i < n; i++) nodes[i] = (struct metaplace_node){.id = i + 1, .zone = zones ? zone_names[i % zones] : SLICE("")};
        metaplace_spread(nodes, n, g, rf, groups);
        uint32_t least = UINT32_MAX, most = 0, zones_there = zones == 0 ? 1 : zones < n ? zones : n;
        for (uint32_t i = 0; i < n; i++) {
            if (nodes[i].replicas < least) least = nodes[i].replicas;
            if (nodes[i].replicas > most) most = nodes[i].replicas;
        }
        if (zones_there == 1 || n % zones_there == 0) assert_true(most - least <= 1 + (zones_there > 1));
        for (uint32_t i = 0; i < g; i++) {
            bool seen[3] = {0};
            uint32_t distinct = 0, size = rf < n ? rf : n;
            assert_int_equal(groups[i].n, size);
            for (uint32_t j = 0; j < size; j++) {
                uint32_t z = zones ? (uint32_t)(groups[i].m[j].node - 1) % zones : 0;
                distinct += !seen[z];
                seen[z] = true;
            }
            assert_int_equal(distinct, size < zones_there ? size : zones_there);
        }
    }
}

/* ---- text */

static uint64_t leader_hint(void *ctx, uint32_t group) { return group == 2 ? 3 : 0; }
static bool alive_hint(void *ctx, uint64_t node) { return node != 2; }
static bool reached_hint(void *ctx, uint64_t node) { return node != 3; }

static void tables_show_nodes_groups_and_operations(void **unused)
{
    struct metakit k;
    struct buf out = {0};
    const struct metaview_hints h = {.myself = 1, .leader = leader_hint, .alive = alive_hint, .reached = reached_hint};
    metakit_init(&k, 3, 3, 2, 3, SPACE_BUCKET);
    tell(&k, 3);
    metakit_begin(&k, &(struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = 3, .from = 1, .to = 4});
    metaview_nodes(&out, k.nodes, k.groups, &h);
    metaview_groups(&out, k.groups, &h);
    metaview_ops(&out, k.groups, &h);
    metaview_cluster_nodes(&out, k.nodes, &h, NULL);
    buf_add_byte(&out, 0);
    assert_string_equal(out.p,
                        "node  name  state            peers          clients        zone  groups  leads\n"
                        "1*    n0    up               10.0.0.1:7001  10.0.0.1:6379  z0    4       0\n"
                        "2     n1    up, silent       10.0.0.2:7001  10.0.0.2:6379  z1    4       0\n"
                        "3     n2    up, unreachable  10.0.0.3:7001  10.0.0.3:6379  z2    4       1\n"
                        "group  leader  members    covers\n"
                        "0      ?       1 2 3      nodes and settings\n"
                        "1      ?       1 2 3      groups and the map\n"
                        "2      3       1 2 3      hash 0000000000000000-7fffffffffffffff\n"
                        "3      ?       1- 2 3 4+  hash 8000000000000000-ffffffffffffffff\n"
                        "operation  step     driver  what\n"
                        "1          planned  1       move-replica group=3 from=1 to=4 waits for group=3\n"
                        "6120636c7573746572206f660000000000000001 10.0.0.1:6379@7001 myself,master - 0 0 1 connected\n"
                        "6120636c7573746572206f660000000000000002 10.0.0.2:6379@7001 master,fail? - 0 0 1 disconnected\n"
                        "6120636c7573746572206f660000000000000003 10.0.0.3:6379@7001 master - 0 0 1 disconnected\n");
    buf_fini(&out);
    metakit_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_cluster_knows_its_nodes_and_settings),
        cmocka_unit_test(a_node_that_asks_again_is_told_the_number_it_has),
        cmocka_unit_test(a_machine_that_lost_its_directory_does_not_get_its_old_number),
        cmocka_unit_test(a_node_is_drained_before_it_goes_unless_it_is_dead),
        cmocka_unit_test(a_retried_proposal_is_applied_once),
        cmocka_unit_test(a_refused_proposal_stays_refused),
        cmocka_unit_test(what_is_older_than_the_memory_is_not_guessed),
        cmocka_unit_test(settings_have_limits),
        cmocka_unit_test(a_newer_program_s_entry_is_foreign_and_not_refused),
        cmocka_unit_test(only_the_latest_of_the_gone_are_kept),
        cmocka_unit_test(a_split_into_a_new_group_shows_in_the_map_as_its_keys_walk),
        cmocka_unit_test(an_undone_split_leaves_nothing_but_a_burnt_number),
        cmocka_unit_test(ranges_of_two_groups_merge_by_freezing_and_absorbing),
        cmocka_unit_test(intervals_of_the_hash_split_and_merge_across_groups),
        cmocka_unit_test(no_space_changes_its_mode_while_an_interval_of_the_hash_walks),
        cmocka_unit_test(a_replica_moves_as_the_group_tells),
        cmocka_unit_test(a_move_of_a_replica_is_taken_back_to_where_it_was),
        cmocka_unit_test(a_walking_boundary_only_goes_forward),
        cmocka_unit_test(ranges_move_between_the_same_groups_side_by_side),
        cmocka_unit_test(a_replica_moves_while_keys_walk_but_not_while_its_group_is_merged),
        cmocka_unit_test(a_bucket_becomes_a_range_where_it_is_and_keeps_its_descriptor),
        cmocka_unit_test(a_space_of_too_many_ranges_keeps_its_mode_until_some_are_merged),
        cmocka_unit_test(a_lost_driver_is_replaced_by_one_of_two_that_try),
        cmocka_unit_test(replicas_of_a_new_cluster_are_spread_evenly),
        cmocka_unit_test(tables_show_nodes_groups_and_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
