/* The members of a group, and their changes. */
#include "raftrig.h"

#include "base/rng.h"
#include "cluster/raftlib.h"
#include "cluster/raftmember.h"

/* A fourth node joins as its leader calls; its log does not begin at 1 any more. */
static struct rig_node *add_fourth(struct rig *r, struct rig_node *leader)
{
    for (int i = 0; i < 50; i++) rig_submit(leader, 0, "before");
    rig_run(r, 100);
    assert_int_equal(raftnode_snapshotted(leader->raft, 0, leader->g[0].handed, 0), 0);
    assert_true(rig_start(r, 4));
    assert_int_equal(raftnode_change(leader->raft, 0, 4, RAFTNODE_VOTER), 0);
    rig_run(r, 300);
    assert_true(r->n[4].g[0].strangers > 0);
    assert_int_equal(raftnode_group_join(r->n[4].raft, 0), 0);
    rig_run(r, 1000);
    return &r->n[4];
}

static void a_newcomer_is_filled_by_a_snapshot_and_promoted(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *n = add_fourth(r, leader);
    assert_int_equal(n->g[0].wanted, 52);
    assert_int_equal(raftnode_change(leader->raft, 0, 2, RAFTNODE_GONE), -EAGAIN); /* one at a time */
    n->g[0].handed = n->g[0].wanted;
    n->g[0].hash = n->g[0].wanted_from; /* the descriptor says all there is */
    assert_int_equal(raftnode_installed(n->raft, 0, 51, 0), -EINVAL);
    assert_int_equal(raftnode_installed(n->raft, 0, 52, 0), 0);
    rig_run(r, 1000);
    assert_int_equal(n->g[0].marked, 52);
    for (uint64_t id = 1; id <= 4; id++) assert_int_equal(r->n[id].g[0].members, 4);
    assert_int_equal(leader->g[0].changes, 1);
    assert_int_equal(leader->g[0].changed, 0);
    struct raftnode_info info;
    assert_int_equal(raftnode_look(n->raft, 0, &info), 0);
    assert_int_equal(info.members.n, 4);
    assert_int_equal(info.members.m[3].role, RAFTNODE_VOTER);
    assert_int_equal(n->g[0].handed, leader->g[0].handed);
    assert_int_equal(n->g[0].hash, leader->g[0].hash);
    rig_free(r);
}

static void an_install_ends_even_if_its_mark_is_seen_on_disk_by_others_first(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *n = add_fourth(r, rig_new_leader(r, 0));
    n->g[0].handed = n->g[0].wanted;
    n->g[0].hash = n->g[0].wanted_from;
    n->flushes_first = true;
    assert_int_equal(raftnode_installed(n->raft, 0, 52, 0), 0);
    rig_write(n);
    assert_int_equal(n->g[0].marked, 52);
    struct raftnode_info info;
    assert_int_equal(raftnode_look(n->raft, 0, &info), 0);
    assert_false(info.installing);
    rig_run(r, 1000);
    assert_int_equal(n->g[0].handed, rig_leader(r, 0)->g[0].handed);
    rig_free(r);
}

static void an_install_that_fails_is_asked_for_again(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *n = add_fourth(r, leader);
    n->g[0].wanted = 0;
    assert_int_equal(raftnode_installed(n->raft, 0, 52, -EIO), 0);
    rig_run(r, 1000);
    assert_int_equal(n->g[0].wanted, 52);
    rig_free(r);
}

static void members_are_removed_and_demoted_but_the_leader_stays(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *other = rig_follower_of(r, leader);
    assert_int_equal(raftnode_change(leader->raft, 0, leader->id, RAFTNODE_GONE), -EBUSY);
    assert_int_equal(raftnode_change(leader->raft, 0, 5, RAFTNODE_GONE), -ENOENT);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_VOTER), -EEXIST);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_STANDBY), 0);
    rig_run(r, 500);
    struct raftnode_info info;
    assert_int_equal(raftnode_look(leader->raft, 0, &info), 0);
    assert_int_equal(info.members.m[other->id - 1].role, RAFTNODE_STANDBY);
    assert_int_equal(leader->g[0].changes, 1);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_GONE), 0);
    rig_run(r, 500);
    assert_int_equal(raftnode_look(leader->raft, 0, &info), 0);
    assert_int_equal(info.members.n, 2);
    assert_int_equal(leader->g[0].changes, 2);
    assert_int_equal(leader->g[0].changed, 0);
    rig_free(r);
}

static void a_standby_of_an_idle_group_is_promoted(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *other = rig_follower_of(r, leader);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_STANDBY), 0);
    rig_run(r, 1000);
    assert_int_equal(leader->g[0].changes, 1);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_VOTER), 0);
    rig_run(r, 3000); /* nothing is submitted meanwhile */
    assert_int_equal(leader->g[0].changes, 2);
    assert_int_equal(leader->g[0].changed, 0);
    rig_free(r);
}

/* The other voter has a write before it is asked to go, and answers it afterwards; the leader, now the only voter, loses power before the change is on its disk. */
static void of_two_voters_one_can_be_demoted_while_the_other_loses_power(void **state)
{
    struct rig *r = rig_new(2);
    rig_create(r, 0, 2);
    struct rig_node *leader = rig_new_leader(r, 0), *other = &r->n[3 - leader->id];
    leader->slow_disk = true;
    uint64_t written = rig_submit(leader, 0, "under way");
    raftnode_flush(leader->raft);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_STANDBY), 0);
    rig_settle(r);
    struct raftnode_info ours, theirs;
    assert_int_equal(raftnode_look(leader->raft, 0, &ours), 0);
    assert_int_equal(raftnode_look(other->raft, 0, &theirs), 0);
    assert_int_equal(ours.last, written + 1); /* the change */
    assert_int_equal(ours.match[other->id - 1], written); /* the answer has come */
    assert_int_equal(theirs.last, written);
    rig_stop(r, leader->id);
    assert_true(rig_start(r, leader->id));
    assert_int_equal(raftnode_group_resume(leader->raft, 0, 0), 0);
    leader = rig_new_leader(r, 0);
    assert_true(leader->g[0].handed > written);
    assert_int_equal(raftnode_change(leader->raft, 0, 3 - leader->id, RAFTNODE_STANDBY), 0);
    rig_run(r, 1000);
    assert_int_equal(leader->g[0].changes, 1);
    assert_int_equal(leader->g[0].changed, 0);
    assert_int_equal(r->n[3 - leader->id].g[0].handed, leader->g[0].handed);
    rig_free(r);
}

static void a_group_can_be_left_and_joined_again(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *other = rig_follower_of(r, leader);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_GONE), 0);
    rig_run(r, 300);
    assert_int_equal(raftnode_group_drop(other->raft, 0), 0);
    raftnode_flush(other->raft);
    assert_int_equal(other->g[0].gone, 0);
    assert_int_equal(raftnode_group_join(other->raft, 0), -EAGAIN); /* a crash would bring its former life back */
    rig_run(r, 100);
    assert_int_equal(other->g[0].gone, 1);
    memset(&other->g[0], 0, sizeof other->g[0]);
    rig_submit(leader, 0, "meanwhile");
    assert_int_equal(raftnode_group_join(other->raft, 0), 0);
    assert_int_equal(raftnode_change(leader->raft, 0, other->id, RAFTNODE_VOTER), 0);
    rig_run(r, 1000);
    assert_int_equal(leader->g[0].changes, 2);
    assert_int_equal(leader->g[0].changed, 0);
    assert_int_equal(other->g[0].hash, leader->g[0].hash);
    rig_stop(r, other->id);
    assert_true(rig_start(r, other->id)); /* the log tells both lives apart */
    assert_int_equal(raftnode_group_resume(other->raft, 0, 0), 0);
    rig_run(r, 500);
    assert_int_equal(other->g[0].hash, leader->g[0].hash);
    rig_free(r);
}

/* The caller's side of an install. */
static void install(struct rig_node *n)
{
    n->g[0].handed = n->g[0].wanted;
    n->g[0].hash = n->g[0].wanted_from;
    assert_int_equal(raftnode_installed(n->raft, 0, n->g[0].wanted, 0), 0);
}

/* One member is away while another is removed, ends its replica and joins again, and so knows little. For the one who comes back it is a voter still, and both together are a majority of before. */
static void one_who_left_and_came_back_elects_nobody_who_has_less_than_it_had(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *left = rig_follower_of(r, leader), *away = rig_follower_of(r, left), *fourth = add_fourth(r, leader);
    rig_stop(r, away->id);
    install(fourth);
    rig_run(r, 500);
    assert_int_equal(raftnode_change(leader->raft, 0, left->id, RAFTNODE_GONE), 0);
    rig_run(r, 300);
    assert_int_equal(leader->g[0].changes, 2);
    assert_int_equal(leader->g[0].changed, 0); /* by the leader and the fourth */
    assert_int_equal(raftnode_group_drop(left->raft, 0), 0);
    rig_run(r, 100);
    memset(&left->g[0], 0, sizeof left->g[0]);
    assert_int_equal(raftnode_group_join(left->raft, 0), 0);
    assert_int_equal(raftnode_change(leader->raft, 0, left->id, RAFTNODE_VOTER), 0);
    rig_run(r, 300);
    assert_int_equal(left->g[0].wanted, 52);
    rig_stop(r, leader->id);
    rig_stop(r, fourth->id);
    install(left); /* where it is a voter, as in the log of the one who was away */
    assert_true(rig_start(r, away->id));
    assert_int_equal(raftnode_group_resume(away->raft, 0, 0), 0);
    rig_run(r, 5000);
    assert_null(rig_leader(r, 0));
    rig_free(r);
}

static void members_are_encoded_as_the_engine_does_it(void **state)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (int round = 0; round < 200; round++) {
        struct raftnode_members m = {0}, again = {0};
        for (uint64_t n = 1 + rng_below(&rng, RAFTNODE_MEMBERS_MAX); m.n < n;) {
            uint64_t id = 1 + (rng_u64(&rng) >> rng_below(&rng, 63));
            if (raftmember_role(&m, id) == RAFTNODE_GONE) m.m[m.n++] = (struct raftnode_member){id, (enum raftnode_role)(1 + rng_below(&rng, 3))};
        }
        struct buf ours = {0};
        struct raft_configuration conf;
        struct raft_buffer theirs;
        raftmember_encode(&ours, &m);
        raftmember_configuration(&m, &conf);
        assert_int_equal(raft_configuration_encode(&conf, &theirs), 0);
        assert_int_equal(ours.len, theirs.len);
        assert_memory_equal(ours.p, theirs.base, ours.len);
        assert_int_equal(raftmember_decode(buf_slice(&ours), &again), 0);
        assert_memory_equal(&again, &m, sizeof m);
        ours.p[rng_below(&rng, ours.len)] ^= (char)(1 << rng_below(&rng, 8)); /* other bytes are other members, or none */
        struct buf third = {0};
        if (raftmember_decode(buf_slice(&ours), &again) == 0) {
            raftmember_encode(&third, &again);
            assert_true(slice_eq(buf_slice(&third), buf_slice(&ours)));
        }
        for (size_t cut = 0; cut + 8 < ours.len; cut += 3) assert_int_equal(raftmember_decode(slice_of(ours.p, cut), &again), -EBADMSG);
        raft_configuration_close(&conf);
        raft_free(theirs.base);
        buf_fini(&ours);
        buf_fini(&third);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newcomer_is_filled_by_a_snapshot_and_promoted),
        cmocka_unit_test(an_install_ends_even_if_its_mark_is_seen_on_disk_by_others_first),
        cmocka_unit_test(an_install_that_fails_is_asked_for_again),
        cmocka_unit_test(members_are_removed_and_demoted_but_the_leader_stays),
        cmocka_unit_test(a_standby_of_an_idle_group_is_promoted),
        cmocka_unit_test(of_two_voters_one_can_be_demoted_while_the_other_loses_power),
        cmocka_unit_test(a_group_can_be_left_and_joined_again),
        cmocka_unit_test(one_who_left_and_came_back_elects_nobody_who_has_less_than_it_had),
        cmocka_unit_test(members_are_encoded_as_the_engine_does_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
