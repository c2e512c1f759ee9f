/* Snapshots of a node's groups with everything real: logs that are cut under load, followers that are filled, starts from snapshot and log, seats that are spoilt. */
#include "snaprig.h"

#include "cluster/snapstate.h"

/* Until each node has marked that many times more entries of each group. */
static void write_until_marked(struct snaprig *r, uint64_t more)
{
    uint64_t from[SNAPRIG_NODES + 1][SNAPRIG_GROUPS], number = 0;
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++)
        for (uint32_t g = 0; g < SNAPRIG_GROUPS; g++) from[id][g] = snaprig_marked(r, id, g);
    snaprig_let_write(r, true);
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++)
        for (uint32_t i = 0; i < SNAPRIG_N_GROUPS && r->nodes[id].up; i++) {
            uint32_t g = snaprig_groups[i];
            SNAPRIG_AWAIT((snaprig_add(r, number++), snaprig_marked(r, id, g) > from[id][g] + more));
        }
}

static uint32_t files_of(struct snaprig *r, uint64_t id, uint32_t group)
{
    struct groupdir_list l;
    char dir[128];
    uint32_t n = 0;
    snaprig_folder(r, id, "snapshots", dir);
    CHECK(groupdir_list(&file_disk, dir, &l) == 0);
    for (uint32_t i = 0; i < l.n; i++) n += l.v[i].group == group;
    mem_free(l.v);
    return n;
}

static void start_all(struct snaprig *r)
{
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) snaprig_start(r, id);
    SNAPRIG_AWAIT(snaprig_leader(r, 0) && snaprig_leader(r, 2) && snaprig_leader(r, 3));
}

static void logs_are_cut_under_load_and_a_follower_that_was_away_is_filled(void **state)
{
    struct snaprig *r = snaprig_new(3);
    start_all(r);
    write_until_marked(r, 10);
    uint64_t away = snaprig_leader(r, 2) % SNAPRIG_NODES + 1;
    snaprig_stop(r, away, 0);
    write_until_marked(r, 500);
    write_until_marked(r, 500);
    snaprig_start(r, away);
    SNAPRIG_AWAIT(snaprig_info(r, away).recovering == 0 && snaprig_info(r, away).fetched >= SNAPRIG_N_GROUPS);
    snaprig_await_alike(r);
    struct snaphost_info info = snaprig_info(r, away);
    assert_true(info.fetched_bytes > 0 && info.filled >= info.fetched && !info.fetching);
    uint64_t sent = 0;
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
        info = snaprig_info(r, id);
        sent += info.sent_bytes;
        assert_int_equal(info.failed, 0);
        for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) SNAPRIG_AWAIT(files_of(r, id, snaprig_groups[i]) == 1); /* older ones go */
    }
    assert_true(sent > 0);
    write_until_marked(r, 10); /* the one that was filled takes its own again */
    snaprig_await_alike(r);
    snaprig_free(r);
}

static void a_start_goes_on_from_snapshots_and_log(void **state)
{
    struct snaprig *r = snaprig_new(3);
    start_all(r);
    for (int round = 0; round < 3; round++) {
        if (round < 2) write_until_marked(r, 20);
        snaprig_await_alike(r);
        uint64_t keys = r->nodes[1].keys[2], commands = r->nodes[1].keys[0];
        for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) snaprig_stop(r, id, id == 1 ? 500 : 0);
        for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) snaprig_start(r, id);
        snaprig_await_alike(r);
        for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
            assert_int_equal(snaprig_info(r, id).recovering, 0);
            assert_true(snaprig_info(r, id).filled >= SNAPRIG_N_GROUPS);
            assert_true(r->nodes[id].keys[2] == keys && r->nodes[id].keys[0] == commands);
        }
    }
    snaprig_free(r);
}

static void find_snapshot(struct snaprig *r, uint64_t id, uint32_t group, char path[GROUPDIR_PATH_MAX])
{
    struct groupdir_list l;
    char dir[128];
    snaprig_folder(r, id, "snapshots", dir);
    CHECK(groupdir_list(&file_disk, dir, &l) == 0);
    path[0] = 0;
    for (uint32_t i = 0; i < l.n; i++)
        if (l.v[i].group == group && l.v[i].kind == GROUPDIR_SNAPSHOT) CHECK(groupdir_path(path, dir, &l.v[i]) == 0);
    mem_free(l.v);
    assert_true(path[0]);
}

static void a_snapshot_that_is_damaged_or_missing_ends_the_start_with_its_name(void **state)
{
    static const uint32_t groups[] = {2, 0, 3};
    struct snaprig *r = snaprig_new(3);
    char path[GROUPDIR_PATH_MAX], byte;
    start_all(r);
    write_until_marked(r, 20);
    snaprig_await_alike(r);
    for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) SNAPRIG_AWAIT(files_of(r, 2, groups[i]) == 1);
    snaprig_stop(r, 2, 0);
    for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) {
        find_snapshot(r, 2, groups[i], path);
        int fd = file_disk.open(file_disk.ctx, path, FILE_CHANGE);
        int64_t at = file_disk.size(file_disk.ctx, fd) / 2;
        assert_int_equal(file_disk.read(file_disk.ctx, fd, &byte, 1, (uint64_t)at), 1);
        byte ^= 0x10;
        assert_int_equal(file_disk.write(file_disk.ctx, fd, &byte, 1, (uint64_t)at), 1);
        snaprig_start(r, 2);
        SNAPRIG_AWAIT(snaprig_has_failed(r, 2));
        assert_non_null(strstr(r->nodes[2].failed, strrchr(path, '/') + 1));
        snaprig_stop(r, 2, 0);
        byte ^= 0x10;
        assert_int_equal(file_disk.write(file_disk.ctx, fd, &byte, 1, (uint64_t)at), 1);
        file_disk.close(file_disk.ctx, fd);
    }
    snaprig_start(r, 2); /* whole again */
    snaprig_await_alike(r);
    for (uint32_t i = 0; i < SNAPRIG_N_GROUPS; i++) SNAPRIG_AWAIT(files_of(r, 2, groups[i]) == 1);
    snaprig_stop(r, 2, 0);
    find_snapshot(r, 2, 3, path);
    assert_int_equal(unlink(path), 0);
    snaprig_start(r, 2);
    SNAPRIG_AWAIT(snaprig_has_failed(r, 2));
    assert_non_null(strstr(r->nodes[2].failed, "no snapshot of group 3"));
    snaprig_free(r);
}

/* Leadership goes round while its holder runs ahead of the log: what was not proposed when it went is in the store of one node alone. */
static void a_spoilt_seat_is_filled_again(void **state)
{
    struct snaprig *r = snaprig_new(3);
    start_all(r);
    write_until_marked(r, 10);
    uint64_t refills = 0, until = (uint64_t)clock_mono_us() + 20 * 1000 * 1000;
    while (refills < 3 && (uint64_t)clock_mono_us() < until) {
        uint64_t leader = snaprig_leader(r, 2);
        snaprig_let_write(r, true);
        if (leader) raftthread_transfer(r->nodes[leader].raft, 2, leader % SNAPRIG_NODES + 1, (struct raftthread_answer){0});
        usleep(100 * 1000);
        refills = 0;
        for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) {
            pthread_mutex_lock(&r->nodes[id].lock);
            refills += r->nodes[id].refills;
            pthread_mutex_unlock(&r->nodes[id].lock);
        }
    }
    assert_true(refills > 0);
    snaprig_await_alike(r);
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) assert_false(snaprig_has_failed(r, id));
    snaprig_free(r);
}

static void nodes_that_stop_in_the_midst_of_everything_go_on(void **state)
{
    struct snaprig *r = snaprig_new(3);
    struct rng rng;
    rng_init(&rng, 5);
    start_all(r);
    for (int round = 0; round < 12; round++) {
        uint64_t id = 1 + rng_below(&rng, SNAPRIG_NODES), number = 0;
        snaprig_let_write(r, true);
        for (uint64_t ms = rng_below(&rng, 400); number < ms; number += 2) {
            snaprig_add(r, number);
            usleep(2000);
        }
        uint64_t began = (uint64_t)clock_mono_us();
        snaprig_stop(r, id, 0);
        assert_true((uint64_t)clock_mono_us() - began < 5 * 1000 * 1000);
        snaprig_let_write(r, true);
        usleep((useconds_t)rng_below(&rng, 300 * 1000));
        snaprig_start(r, id);
    }
    snaprig_await_alike(r);
    for (uint64_t id = 1; id <= SNAPRIG_NODES; id++) assert_false(snaprig_has_failed(r, id));
    snaprig_free(r);
}

/* Whoever drops a replica says so on the raft thread; here the group goes on all the same, and takes new ones. */
static void a_group_that_is_dropped_leaves_no_file(void **state)
{
    struct snaprig *r = snaprig_new(3);
    char path[GROUPDIR_PATH_MAX];
    start_all(r);
    write_until_marked(r, 10);
    snaprig_await_alike(r);
    find_snapshot(r, 1, 2, path);
    snaphost_drop(r->nodes[1].host, 2);
    SNAPRIG_AWAIT(access(path, F_OK) != 0);
    assert_true(files_of(r, 1, 3) > 0);
    write_until_marked(r, 10);
    snaprig_await_alike(r);
    snaprig_free(r);
}

/* The end of a replica is durable before its files go: a node that ends in between has them still. */
static void a_start_deletes_what_is_left_of_a_group_that_is_gone(void **state)
{
    struct snaprig *r = snaprig_new(3);
    char path[GROUPDIR_PATH_MAX], dir[128], left[GROUPDIR_PATH_MAX];
    start_all(r);
    write_until_marked(r, 10);
    snaprig_await_alike(r);
    snaprig_stop(r, 1, 0);
    find_snapshot(r, 1, 2, path);
    snaprig_folder(r, 1, "snapshots", dir);
    CHECK(groupdir_path(left, dir, &(struct groupdir_file){.kind = GROUPDIR_SNAPSHOT, .group = 77, .index = 5, .term = 1}) == 0);
    assert_int_equal(link(path, left), 0);
    assert_int_equal(files_of(r, 1, 77), 1);
    snaprig_start(r, 1);
    assert_int_equal(files_of(r, 1, 77), 0);
    snaprig_await_alike(r);
    assert_int_equal(access(path, F_OK), 0);
    snaprig_free(r);
}

static void a_state_of_any_length_comes_back_from_its_pieces(void **state)
{
    static const size_t lengths[] = {0, 1, 3, 100, SNAPSTATE_PIECE_BYTES - 1, SNAPSTATE_PIECE_BYTES, SNAPSTATE_PIECE_BYTES + 1, 3 * SNAPSTATE_PIECE_BYTES + 11};
    struct buf bytes = {0}, raw = {0}, back = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bytes.len = raw.len = back.len = 0;
        while (bytes.len < lengths[i]) buf_add_byte(&bytes, (char)('0' + bytes.len % 10)); /* a short one looks like a number */
        uint64_t pieces = 0, n = snapstate_add(&raw, buf_slice(&bytes));
        assert_int_equal(n, (lengths[i] + SNAPSTATE_PIECE_BYTES - 1) / SNAPSTATE_PIECE_BYTES);
        assert_true(snapstate_take(buf_slice(&raw), &pieces, &back));
        assert_true(pieces == n && slice_eq(buf_slice(&bytes), buf_slice(&back)));
        pieces = 1;
        if (n) assert_false(snapstate_take(buf_slice(&raw), &pieces, &back)); /* one is missing */
    }
    buf_fini(&bytes);
    buf_fini(&raw);
    buf_fini(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_deletes_what_is_left_of_a_group_that_is_gone),
        cmocka_unit_test(a_state_of_any_length_comes_back_from_its_pieces),
        cmocka_unit_test(logs_are_cut_under_load_and_a_follower_that_was_away_is_filled),
        cmocka_unit_test(a_start_goes_on_from_snapshots_and_log),
        cmocka_unit_test(a_snapshot_that_is_damaged_or_missing_ends_the_start_with_its_name),
        cmocka_unit_test(a_spoilt_seat_is_filled_again),
        cmocka_unit_test(nodes_that_stop_in_the_midst_of_everything_go_on),
        cmocka_unit_test(a_group_that_is_dropped_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
