/* Raft groups of a node, call by call. What they do under faults is the simulator's (tests/sim). */
#include "raftrig.h"

#include "cluster/raftlib.h"
#include "cluster/wireraft.h"

static void a_group_of_one_leads_at_once_and_commits_what_is_durable(void **state)
{
    struct rig *r = rig_new(1);
    struct rig_node *n = &r->n[1];
    rig_create(r, 3, 1);
    rig_settle(r);
    assert_int_equal(n->g[3].state, RAFTNODE_LEADER);
    assert_int_equal(n->g[3].handed, 2); /* its members, and the barrier of its reign */
    n->slow_disk = true;
    assert_int_equal(rig_submit(n, 3, "a"), 3);
    rig_settle(r);
    assert_int_equal(n->g[3].handed, 2);
    n->slow_disk = false;
    rig_settle(r);
    assert_int_equal(n->g[3].handed, 3);
    raftnode_read(n->raft, 3, 1);
    rig_settle(r);
    assert_int_equal(n->reads_ok, 1);
    assert_int_equal(n->read_index, 3);
    rig_free(r);
}

static void the_only_voter_takes_a_new_term_with_every_start(void **state)
{
    struct rig *r = rig_new(1);
    rig_create(r, 0, 1);
    rig_settle(r);
    uint64_t term = r->n[1].g[0].term;
    rig_stop(r, 1);
    assert_true(rig_start(r, 1));
    assert_int_equal(raftnode_group_resume(r->n[1].raft, 0, 0), 0);
    rig_settle(r);
    assert_int_equal(r->n[1].g[0].state, RAFTNODE_LEADER);
    assert_true(r->n[1].g[0].term > term);
    rig_free(r);
}

static void three_nodes_elect_one_leader_and_are_handed_the_same(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    for (int i = 0; i < 100; i++) rig_submit(leader, 0, i % 2 ? "odd" : "even");
    rig_run(r, 200);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(r->n[id].g[0].leader, leader->id);
        assert_int_equal(r->n[id].g[0].handed, leader->g[0].handed);
        assert_int_equal(r->n[id].g[0].hash, leader->g[0].hash);
    }
    assert_true(leader->g[0].handed >= 102);
    rig_free(r);
}

static void a_vote_leaves_only_when_it_is_durable(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    rig_settle(r);
    r->n[2].slow_disk = r->n[3].slow_disk = true;
    rig_run(r, 4000);
    assert_null(rig_leader(r, 0));
    r->n[2].slow_disk = r->n[3].slow_disk = false;
    rig_new_leader(r, 0);
    rig_free(r);
}

static void leadership_is_told_when_its_barrier_is_handed(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    bool seen_waiting = false;
    for (int i = 0; i < 300 && !rig_leader(r, 0); i++) {
        r->now += 10;
        for (uint64_t id = 1; id <= 3; id++) {
            struct rig_node *n = &r->n[id];
            struct raftnode_info info;
            raftnode_tick(n->raft, r->now);
            for (uint64_t from = 1; from <= 3; from++) rig_deliver(r, &r->n[from], id);
            raftnode_flush(n->raft);
            rig_write(n);
            assert_int_equal(raftnode_look(n->raft, 0, &info), 0);
            bool leads = info.members.n && info.match[id - 1] > 0; /* the engine's leader */
            seen_waiting |= leads && !info.ready;
            if (leads && !info.ready) {
                uint64_t index;
                assert_int_equal(raftnode_submit(n->raft, 0, info.term, SLICE("x"), &index), -EPERM);
            }
            if (info.ready) assert_true(n->g[0].handed >= 2);
        }
    }
    assert_non_null(rig_leader(r, 0));
    assert_true(seen_waiting);
    rig_free(r);
}

static void submits_of_a_turn_are_one_message_to_each_peer(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    uint32_t before = leader->frames[WIRE_APPEND], sends = leader->sends;
    for (int i = 0; i < 20; i++) rig_submit(leader, 0, "together");
    raftnode_flush(leader->raft);
    assert_int_equal(leader->frames[WIRE_APPEND], before + 2);
    assert_int_equal(leader->sends, sends + 2);
    rig_free(r);
}

static void large_entries_travel_alone(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    uint32_t before = leader->frames[WIRE_APPEND];
    uint64_t index;
    char *large = mem_zalloc(RAFTNODE_ENTRY_BYTES + 1);
    rig_submit(leader, 0, "small");
    assert_int_equal(raftnode_submit(leader->raft, 0, leader->g[0].term, slice_of(large, RAFTNODE_ENTRY_BYTES + 1), &index), 0);
    rig_submit(leader, 0, "small");
    raftnode_flush(leader->raft);
    assert_int_equal(leader->frames[WIRE_APPEND], before + 6);
    rig_run(r, 200);
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(r->n[id].g[0].hash, leader->g[0].hash);
    assert_true(rig_follower_of(r, leader)->g[0].handed > index);
    mem_free(large);
    rig_free(r);
}

static void what_cannot_be_proposed_is_refused(void **state)
{
    struct rig *r = rig_new(0);
    r->inflight_bytes = 1000;
    for (uint64_t id = 1; id <= 3; id++) assert_true(rig_start(r, id));
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *other = rig_follower_of(r, leader);
    uint64_t index, term = leader->g[0].term;
    static char bytes[900];
    assert_int_equal(raftnode_submit(leader->raft, 9, term, SLICE("x"), &index), -ENOENT);
    assert_int_equal(raftnode_submit(leader->raft, 0, term - 1, SLICE("x"), &index), -EPERM);
    assert_int_equal(raftnode_submit(other->raft, 0, term, SLICE("x"), &index), -EPERM);
    assert_int_equal(raftnode_submit(leader->raft, 0, term, slice_of(bytes, (size_t)RAFTNODE_ENTRY_BYTES_MAX + 1), &index), -EMSGSIZE);
    assert_int_equal(raftnode_submit(leader->raft, 0, term, slice_of(bytes, 900), &index), 0);
    assert_int_equal(raftnode_submit(leader->raft, 0, term, slice_of(bytes, 900), &index), -EAGAIN);
    rig_run(r, 100); /* committed: there is room again */
    assert_int_equal(raftnode_submit(leader->raft, 0, term, slice_of(bytes, 900), &index), 0);
    rig_free(r);
}

static void a_leader_without_room_in_its_log_refuses_and_takes_again_later(void **state)
{
    struct rig *r = rig_new(0);
    r->segment_bytes = 64 * 1024;
    for (uint64_t id = 1; id <= 3; id++) assert_true(rig_start(r, id));
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    file_sim_set_faults(leader->disk, (struct file_sim_faults){.space_bytes = 1});
    static char bytes[4000];
    uint64_t index;
    int rc = 0;
    for (int i = 0; i < 60 && rc == 0; i++) {
        rc = raftnode_submit(leader->raft, 0, leader->g[0].term, slice_of(bytes, sizeof bytes), &index);
        rig_run(r, 20);
    }
    assert_int_equal(rc, -ENOSPC);
    assert_int_equal(leader->g[0].state, RAFTNODE_LEADER);
    file_sim_set_faults(leader->disk, (struct file_sim_faults){0});
    raftlog_retry_chores(leader->log);
    rig_run(r, 100);
    assert_int_equal(raftnode_submit(leader->raft, 0, leader->g[0].term, slice_of(bytes, sizeof bytes), &index), 0);
    rig_run(r, 100);
    assert_int_equal(leader->g[0].handed, index);
    rig_free(r);
}

/* A read for each group that n leads, three times; gives how many. */
static uint64_t read_all(struct rig_node *n, uint32_t groups)
{
    static uint64_t ticket;
    uint64_t asked = 0;
    for (uint32_t g = 0; g < groups; g++)
        for (int i = 0; i < 3 && n->g[g].state == RAFTNODE_LEADER; i++, asked++) raftnode_read(n->raft, g, ++ticket);
    raftnode_flush(n->raft);
    return asked;
}

static void reads_of_many_groups_are_one_probe_to_each_peer_then_to_one(void **state)
{
    struct rig *r = rig_new(3);
    for (uint32_t g = 0; g < 20; g++) rig_create(r, g, 3);
    rig_run(r, 3000);
    for (uint64_t id = 1; id <= 3; id++) {
        struct rig_node *n = &r->n[id];
        uint64_t before = n->frames[WIRE_PROBE], ok = n->reads_ok, asked = read_all(n, 20);
        assert_int_equal(n->frames[WIRE_PROBE], before + (asked ? 2 : 0));
        assert_int_equal(n->reads_ok, ok); /* nobody answered yet */
        rig_settle(r);
        assert_int_equal(n->reads_ok, ok + asked);
        read_all(n, 20);
        assert_int_equal(n->frames[WIRE_PROBE], before + (asked ? 3 : 0)); /* who answered once is relied on */
        rig_settle(r);
        assert_int_equal(n->reads_ok, ok + 2 * asked);
    }
    assert_true(r->n[1].reads_ok + r->n[2].reads_ok + r->n[3].reads_ok == 120);
    rig_free(r);
}

static void reads_go_on_when_the_one_who_is_asked_is_silent(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0), *asked = &r->n[leader->id % 3 + 1]; /* the next one */
    read_all(leader, 1);
    rig_settle(r);
    assert_int_equal(leader->reads_ok, 3);
    asked->cut = true;
    uint64_t wanted = leader->reads_ok + read_all(leader, 1);
    rig_settle(r);
    assert_int_equal(leader->reads_ok, 3);
    for (int i = 0; i < 4; i++) { /* others come meanwhile, one behind the other */
        rig_run(r, 10);
        wanted += read_all(leader, 1);
    }
    rig_settle(r); /* what is late is asked of everybody, before the time of a heartbeat is over */
    assert_int_equal(leader->reads_ok, wanted);
    uint64_t before = leader->frames[WIRE_PROBE];
    wanted += read_all(leader, 1);
    assert_int_equal(leader->frames[WIRE_PROBE], before + 1); /* of the one who answers */
    rig_settle(r);
    assert_int_equal(leader->reads_ok, wanted);
    rig_free(r);
}

static void a_read_without_a_majority_is_not_confirmed_and_fails_with_the_role(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    leader->cut = true;
    raftnode_read(leader->raft, 0, 1);
    rig_run(r, 300);
    assert_int_equal(leader->reads_ok + leader->reads_failed, 0);
    rig_run(r, 3000);
    assert_int_equal(leader->reads_ok, 0);
    assert_int_equal(leader->reads_failed, 1);
    raftnode_read(leader->raft, 0, 2); /* not the leader: at once */
    raftnode_flush(leader->raft);
    assert_int_equal(leader->reads_failed, 2);
    rig_free(r);
}

static void a_read_outlives_a_lost_probe(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    leader->cut = true;
    raftnode_read(leader->raft, 0, 1);
    rig_run(r, 100);
    leader->cut = false;
    rig_run(r, 200);
    assert_int_equal(leader->reads_ok, 1);
    rig_free(r);
}

static void answer_probe(struct rig_node *leader, uint64_t from)
{
    struct buf b = {0};
    struct wire_frame f;
    const char *why = NULL;
    size_t frame = wireraft_probe_begin(&b, WIRE_PROBE_ACK, 0);
    wireraft_probe_add(&b, 0, leader->g[0].term);
    wire_end(&b, frame);
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(raftnode_receive(leader->raft, from, &f), 0);
    buf_fini(&b);
}

static void reads_go_on_when_a_leader_has_outlived_many_members(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    for (uint64_t gone = 0; gone < RAFTNODE_MEMBERS_MAX; gone++) answer_probe(leader, 100 + gone);
    uint64_t asked = read_all(leader, 1);
    rig_settle(r);
    assert_int_equal(leader->reads_ok, asked);
    rig_free(r);
}

static void heartbeats_of_all_groups_leave_in_one_piece(void **state)
{
    struct rig *r = rig_new(3);
    for (uint32_t g = 0; g < RIG_GROUPS; g++) rig_create(r, g, 3);
    rig_run(r, 3000);
    uint32_t frames = 0, sends = 0;
    for (uint64_t id = 1; id <= 3; id++) r->n[id].sends = r->n[id].frames[WIRE_APPEND] = 0;
    rig_run(r, 1000);
    for (uint64_t id = 1; id <= 3; id++) {
        frames += r->n[id].frames[WIRE_APPEND];
        sends += r->n[id].sends;
        assert_true(raftnode_next(r->n[id].raft) >= r->now); /* nothing is due */
    }
    assert_true(frames > RIG_GROUPS * 10);
    assert_true(sends < frames / 2); /* answers are among them */
    rig_free(r);
}

/* No time passes: group 0 is prompt, and group 1 waits for a heartbeat. */
static void what_is_committed_in_a_prompt_group_is_heard_of_without_a_heartbeat(void **state)
{
    struct rig *r = rig_new(3);
    r->prompt_groups = 1;
    for (uint64_t id = 1; id <= 3; id++) {
        rig_stop(r, id);
        assert_true(rig_start(r, id));
    }
    struct rig_node *leaders[2];
    for (uint32_t g = 0; g < 2; g++) rig_create(r, g, 3);
    for (uint32_t g = 0; g < 2; g++) leaders[g] = rig_new_leader(r, g);
    for (int i = 0; i < 5; i++) {
        for (uint32_t g = 0; g < 2; g++) rig_submit(leaders[g], g, "word");
        rig_settle(r);
        for (uint64_t id = 1; id <= 3; id++) assert_int_equal(r->n[id].g[0].handed, leaders[0]->g[0].handed);
        for (uint64_t id = 1; id <= 3; id++) assert_true(id == leaders[1]->id || r->n[id].g[1].handed < leaders[1]->g[1].handed);
        rig_run(r, 200);
    }
    uint32_t before = leaders[0]->frames[WIRE_APPEND];
    rig_settle(r); /* there is nothing new to tell */
    assert_int_equal(leaders[0]->frames[WIRE_APPEND], before);
    rig_free(r);
}

static void what_a_leader_submitted_in_vain_is_told_and_the_rest_handed_again(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *old = rig_new_leader(r, 0);
    rig_submit(old, 0, "kept");
    rig_run(r, 100);
    uint64_t kept = old->g[0].handed;
    old->cut = true;
    assert_int_equal(rig_submit(old, 0, "lost"), kept + 1);
    rig_submit(old, 0, "lost too");
    struct rig_node *leader = rig_new_leader(r, 0);
    assert_ptr_not_equal(leader, old);
    rig_submit(leader, 0, "new");
    rig_run(r, 100);
    assert_int_equal(old->g[0].truncations, 0);
    old->cut = false;
    rig_run(r, 500);
    assert_int_equal(old->g[0].truncations, 1);
    assert_int_equal(old->g[0].truncated, kept + 1);
    assert_int_equal(old->g[0].handed, kept); /* it waits for its caller */
    old->g[0].handed = old->g[0].hash = 0;
    assert_int_equal(raftnode_rewind(old->raft, 0, 0), 0);
    rig_run(r, 100);
    assert_int_equal(old->g[0].handed, leader->g[0].handed);
    assert_int_equal(old->g[0].hash, leader->g[0].hash);
    rig_free(r);
}

static void leadership_is_handed_over_within_a_round_trip(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *old = rig_new_leader(r, 0), *next = rig_follower_of(r, old);
    assert_int_equal(raftnode_transfer(old->raft, 0, old->id), -EINVAL);
    assert_int_equal(raftnode_transfer(next->raft, 0, old->id), -EPERM);
    assert_int_equal(raftnode_transfer(old->raft, 0, 5), -ENOENT);
    assert_int_equal(raftnode_transfer(old->raft, 0, next->id), 0);
    uint64_t index;
    assert_int_equal(raftnode_submit(old->raft, 0, old->g[0].term, SLICE("x"), &index), -EAGAIN);
    rig_settle(r);
    assert_ptr_equal(rig_leader(r, 0), next);
    rig_free(r);
}

static bool answers(struct rig_node *n, uint64_t member)
{
    struct raftnode_info info;
    assert_int_equal(raftnode_look(n->raft, 0, &info), 0);
    for (uint32_t i = 0; i < info.members.n; i++)
        if (info.members.m[i].node == member) return info.answers[i];
    return false;
}

static void leadership_is_not_handed_to_who_has_not_answered_lately(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *old = rig_new_leader(r, 0), *silent = rig_follower_of(r, old);
    struct rig_node *third = &r->n[6 - old->id - silent->id];
    uint64_t index;
    rig_run(r, 200);
    assert_true(answers(old, silent->id) && answers(old, third->id));
    silent->cut = true;
    rig_run(r, 900);
    assert_ptr_equal(rig_leader(r, 0), old);
    assert_true(!answers(old, silent->id) && answers(old, third->id));
    assert_int_equal(raftnode_transfer(old->raft, 0, silent->id), -EAGAIN);
    assert_int_equal(raftnode_submit(old->raft, 0, old->g[0].term, SLICE("x"), &index), 0); /* nobody is kept waiting */
    assert_int_equal(raftnode_transfer(old->raft, 0, 0), 0);
    rig_settle(r);
    assert_ptr_equal(rig_leader(r, 0), third);
    rig_free(r);
}

static void all_nodes_go_on_where_they_were_after_a_power_loss(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 7, 3);
    struct rig_node *leader = rig_new_leader(r, 7);
    for (int i = 0; i < 30; i++) rig_submit(leader, 7, "durable");
    rig_run(r, 100);
    uint64_t handed = leader->g[7].handed, hash = leader->g[7].hash;
    for (uint64_t id = 1; id <= 3; id++) {
        rig_stop(r, id);
        assert_true(rig_start(r, id));
        assert_int_equal(raftnode_group_resume(r->n[id].raft, 7, handed + 9), -EINVAL);
        assert_int_equal(raftnode_group_resume(r->n[id].raft, 8, 0), -ENOENT);
        assert_int_equal(raftnode_group_resume(r->n[id].raft, 7, 0), 0);
        assert_int_equal(raftnode_group_resume(r->n[id].raft, 7, 0), -EEXIST);
    }
    leader = rig_new_leader(r, 7);
    assert_true(leader->g[7].handed > handed);
    assert_int_equal(leader->g[7].hash, hash);
    rig_free(r);
}

static void a_node_whose_log_is_damaged_does_not_start(void **state)
{
    struct rig *r = rig_new(1);
    rig_create(r, 0, 1);
    rig_settle(r);
    for (int i = 0; i < 10; i++) {
        rig_submit(&r->n[1], 0, "text");
        rig_settle(r);
    }
    rig_stop(r, 1);
    struct buf *bytes = file_sim_bytes(r->n[1].disk, "/n/log/0000000001.raft");
    assert_non_null(bytes);
    bytes->p[4096 * 3 + 100] ^= 1;
    file_sim_crash(r->n[1].disk, false);
    assert_false(rig_start(r, 1));
    rig_free(r);
}

static void two_leaders_of_one_term_stop_the_group(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    struct rig_node *leader = rig_new_leader(r, 0);
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
    m.append_entries = (struct raft_append_entries){.version = 0, .term = leader->g[0].term, .prev_log_index = 1, .prev_log_term = 1, .leader_commit = 1};
    struct buf out = {0};
    assert_int_equal(wireraft_add(&out, 0, &m), 0);
    struct wire_frame f;
    const char *why;
    assert_int_equal(wire_frame(buf_slice(&out), &f, &why), WIRE_OK);
    raftnode_read(leader->raft, 0, 1);
    assert_int_equal(raftnode_receive(leader->raft, rig_follower_of(r, leader)->id, &f), 0);
    raftnode_flush(leader->raft);
    assert_string_equal(leader->broken, "another node leads in the same term");
    assert_int_equal(leader->reads_failed, 1);
    uint64_t index;
    assert_int_equal(raftnode_submit(leader->raft, 0, leader->g[0].term, SLICE("x"), &index), -EPERM);
    buf_fini(&out);
    rig_free(r);
}

static void frames_that_make_no_sense_are_refused(void **state)
{
    struct rig *r = rig_new(3);
    rig_create(r, 0, 3);
    rig_new_leader(r, 0);
    struct raft_entry down[] = {{.term = 3, .type = RAFT_COMMAND}, {.term = 2, .type = RAFT_COMMAND}};
    struct raft_entry members[] = {{.term = 3, .type = RAFT_CHANGE, .buf = {(void *)(uintptr_t) "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16}}};
    struct raft_append_entries bad[] = {
        {.term = 3, .entries = down, .n_entries = 2},                            /* terms go down */
        {.term = 1, .entries = down, .n_entries = 1},                            /* an entry of a later term than its leader's */
        {.term = 3, .prev_log_index = 4},                                        /* an entry of no term */
        {.term = 3, .prev_log_index = 4, .prev_log_term = 9},                    /* of a term that was not yet */
        {.term = 3, .entries = members, .n_entries = 1},                         /* nobody is a member */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .append_entries = bad[i]};
        struct buf out = {0};
        struct wire_frame f;
        const char *why;
        assert_int_equal(wireraft_add(&out, 0, &m), 0);
        assert_int_equal(wire_frame(buf_slice(&out), &f, &why), WIRE_OK);
        assert_int_equal(raftnode_receive(r->n[1].raft, 2, &f), -EBADMSG);
        assert_int_equal(raftnode_receive(r->n[1].raft, 1, &f), -EBADMSG); /* from itself */
        buf_fini(&out);
    }
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_of_one_leads_at_once_and_commits_what_is_durable),
        cmocka_unit_test(the_only_voter_takes_a_new_term_with_every_start),
        cmocka_unit_test(three_nodes_elect_one_leader_and_are_handed_the_same),
        cmocka_unit_test(a_vote_leaves_only_when_it_is_durable),
        cmocka_unit_test(leadership_is_told_when_its_barrier_is_handed),
        cmocka_unit_test(submits_of_a_turn_are_one_message_to_each_peer),
        cmocka_unit_test(large_entries_travel_alone),
        cmocka_unit_test(what_cannot_be_proposed_is_refused),
        cmocka_unit_test(a_leader_without_room_in_its_log_refuses_and_takes_again_later),
        cmocka_unit_test(reads_of_many_groups_are_one_probe_to_each_peer_then_to_one),
        cmocka_unit_test(reads_go_on_when_the_one_who_is_asked_is_silent),
        cmocka_unit_test(a_read_without_a_majority_is_not_confirmed_and_fails_with_the_role),
        cmocka_unit_test(a_read_outlives_a_lost_probe),
        cmocka_unit_test(reads_go_on_when_a_leader_has_outlived_many_members),
        cmocka_unit_test(heartbeats_of_all_groups_leave_in_one_piece),
        cmocka_unit_test(what_is_committed_in_a_prompt_group_is_heard_of_without_a_heartbeat),
        cmocka_unit_test(what_a_leader_submitted_in_vain_is_told_and_the_rest_handed_again),
        cmocka_unit_test(leadership_is_handed_over_within_a_round_trip),
        cmocka_unit_test(leadership_is_not_handed_to_who_has_not_answered_lately),
        cmocka_unit_test(all_nodes_go_on_where_they_were_after_a_power_loss),
        cmocka_unit_test(a_node_whose_log_is_damaged_does_not_start),
        cmocka_unit_test(two_leaders_of_one_term_stop_the_group),
        cmocka_unit_test(frames_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
