/* The driver of Raft groups with everything real: threads, sockets on loopback, files. Whatever happens to nodes, disks and links, what was acknowledged stays and nothing is
 * applied twice. */
#include "raftfleet.h"

enum { WRITERS = 4, EACH = 200 };

static void write_from_several_threads(struct fleet *f, uint64_t first, uint64_t each)
{
    struct fleet_writer w[WRITERS];
    for (uint32_t i = 0; i < WRITERS; i++) fleet_writer_begin(&w[i], f, first + i * each, each);
    for (uint32_t i = 0; i < WRITERS; i++) fleet_writer_end(&w[i]);
}

static void three_nodes_elect_leaders_and_commit_what_several_threads_submit(void **state)
{
    struct fleet *f = fleet_running(4);
    write_from_several_threads(f, 0, EACH);
    fleet_await_alike(f);
    struct raftthread_stats s;
    struct raftthread_peer peers[FLEET_NODES];
    uint64_t commits = 0, leaders = 0;
    usleep(200 * 1000); /* numbers are a tenth of a second old */
    for (uint64_t id = 1; id <= 3; id++) {
        raftthread_stats(f->nodes[id].thread, &s);
        assert_int_equal(s.groups, 4);
        assert_int_equal(s.waiting, 0);
        assert_true(s.turns > 0 && s.slowest_turn_us > 0 && s.log.batches > 0 && s.capacity > 0);
        leaders += s.leaders;
        commits += s.commits;
        assert_int_equal(raftthread_peers(f->nodes[id].thread, peers, FLEET_NODES), 3);
    }
    assert_int_equal(leaders, 4);
    assert_true(commits >= 3 * WRITERS * EACH * 9 / 10); /* a few may be uncertain, were a leader to change */
    fleet_free(f);
}

static void a_read_is_confirmed_where_the_leader_is_and_refused_elsewhere(void **state)
{
    struct fleet *f = fleet_running(1);
    for (uint64_t id = 0; id < 10; id++) fleet_write(f, 0, id);
    uint32_t confirmed = 0, refused = 0;
    for (int i = 0; i < 200 && (!confirmed || !refused); i++) {
        struct fleet_call call;
        struct fleet_node *n = &f->nodes[i % 3 + 1];
        pthread_mutex_lock(&f->lock);
        uint64_t applied = n->g[0].state.applied;
        bool leads = n->g[0].leads;
        raftthread_read(n->thread, 0, fleet_call_begin(&call));
        pthread_mutex_unlock(&f->lock);
        int rc = fleet_call_wait(&call);
        assert_true(rc == 0 || rc == -EPERM);
        if (rc == 0) assert_true(leads && call.index >= applied);
        confirmed += rc == 0;
        refused += rc != 0;
    }
    assert_true(confirmed && refused);
    struct fleet_call call;
    raftthread_read(f->nodes[1].thread, 99, fleet_call_begin(&call));
    assert_int_equal(fleet_call_wait(&call), -EPERM);
    fleet_free(f);
}

static void what_was_acknowledged_survives_nodes_that_are_killed_and_started_again(void **state)
{
    struct fleet *f = fleet_running(3);
    struct fleet_writer w[2];
    for (uint32_t i = 0; i < 2; i++) fleet_writer_begin(&w[i], f, i * 10000, 10000);
    for (int round = 0; round < 3; round++) {
        unsigned long long before = w[0].acked;
        FLEET_AWAIT(f, w[0].acked > before + 50);
        pthread_mutex_lock(&f->lock);
        struct fleet_node *victim = fleet_leader(f, 0);
        uint64_t id = victim ? victim->id : 1;
        pthread_mutex_unlock(&f->lock);
        fleet_stop(f, id, 0);
        before = w[0].acked;
        FLEET_AWAIT(f, w[0].acked > before + 20); /* the other two go on */
        fleet_start(f, id);
    }
    for (uint32_t i = 0; i < 2; i++) w[i].stop = true;
    for (uint32_t i = 0; i < 2; i++) fleet_writer_end(&w[i]);
    assert_true(w[0].acked + w[1].acked > 200);
    fleet_await_alike(f);
    fleet_free(f);
}

/* A node whose log is not durable that far refuses: it has applied what others have. */
static void snapshot_in_the_end(struct fleet *f, uint64_t id)
{
    uint64_t marked = 0;
    for (int i = 0; i < FLEET_PATIENCE_MS / 10 && !marked; i++) {
        fleet_snapshot(&f->nodes[id], 0);
        usleep(10 * 1000);
        pthread_mutex_lock(&f->lock);
        marked = f->nodes[id].g[0].marked;
        pthread_mutex_unlock(&f->lock);
    }
    assert_true(marked > 0);
}

static void a_node_goes_on_from_its_snapshot_and_log(void **state)
{
    struct fleet *f = fleet_running(2);
    for (uint64_t id = 0; id < 40; id++) assert_int_equal(fleet_write(f, id % 2, id), 0);
    fleet_await_alike(f);
    for (uint64_t id = 1; id <= 3; id++) snapshot_in_the_end(f, id);
    for (uint64_t id = 40; id < 80; id++) assert_int_equal(fleet_write(f, id % 2, id), 0);
    for (uint64_t id = 1; id <= 3; id++) fleet_stop(f, id, id == 1 ? 0 : 500);
    for (uint64_t id = 1; id <= 3; id++) fleet_start(f, id);
    assert_int_equal(fleet_write(f, 0, 80), 0);
    fleet_await_alike(f);
    assert_int_equal(f->nodes[1].g[0].state.commands, 41);
    fleet_free(f);
}

static bool leads_soon(struct fleet *f, uint64_t id)
{
    bool leads = false;
    for (int i = 0; i < 500 && !leads; i++) {
        if (i) usleep(2000);
        pthread_mutex_lock(&f->lock);
        leads = f->nodes[id].g[0].leads;
        pthread_mutex_unlock(&f->lock);
    }
    return leads;
}

/* Who is to lead may be held up for longer than an election takes: then who led goes on, and can be asked again. */
static void hand_over_in_the_end(struct fleet *f, uint64_t to)
{
    uint32_t begun = 0;
    for (int i = 0; i < FLEET_PATIENCE_MS / 1000; i++) {
        struct fleet_call call;
        pthread_mutex_lock(&f->lock);
        struct fleet_node *from = fleet_leader(f, 0);
        bool asks = from && from->id != to;
        if (asks) raftthread_transfer(from->thread, 0, to, fleet_call_begin(&call));
        pthread_mutex_unlock(&f->lock);
        if (asks) begun += fleet_call_wait(&call) == 0;
        if (leads_soon(f, to)) break;
    }
    assert_true(begun > 0 && leads_soon(f, to));
}

static void leadership_is_handed_over_when_asked_and_before_a_stop(void **state)
{
    struct fleet *f = fleet_running(3);
    FLEET_AWAIT(f, fleet_all_led(f));
    pthread_mutex_lock(&f->lock);
    struct fleet_node *from = fleet_leader(f, 0);
    uint64_t to = (from ? from->id : 1) % 3 + 1;
    pthread_mutex_unlock(&f->lock);
    hand_over_in_the_end(f, to);

    for (uint64_t id = 0; id < 30; id++) fleet_write(f, id % 3, id);
    FLEET_AWAIT(f, f->nodes[to].g[0].leads && fleet_all_led(f));
    uint64_t begun = (uint64_t)clock_mono_us();
    fleet_stop(f, to, 10 * 1000);
    FLEET_AWAIT(f, fleet_all_led(f));
    assert_true((uint64_t)clock_mono_us() - begun < 10 * 1000 * 1000); /* it did not wait for its end */
    for (uint64_t id = 30; id < 60; id++) assert_int_equal(fleet_write(f, id % 3, id), 0);
    fleet_start(f, to);
    fleet_await_alike(f);
    fleet_free(f);
}

static int change(struct fleet *f, uint32_t group, uint64_t node, enum raftnode_role role)
{
    struct fleet_call call;
    pthread_mutex_lock(&f->lock);
    struct fleet_node *leader = fleet_leader(f, group);
    if (leader) raftthread_change(leader->thread, group, node, role, fleet_call_begin(&call));
    pthread_mutex_unlock(&f->lock);
    return leader ? fleet_call_wait(&call) : -EPERM;
}

static void change_in_the_end(struct fleet *f, uint32_t group, uint64_t node, enum raftnode_role role, int already)
{
    int rc = -EAGAIN;
    for (int i = 0; i < 100 && rc != 0 && rc != already; i++) {
        rc = change(f, group, node, role);
        if (rc == -EBUSY) {
            pthread_mutex_lock(&f->lock);
            raftthread_transfer(f->nodes[node].thread, group, 0, (struct raftthread_answer){0});
            pthread_mutex_unlock(&f->lock);
        }
        if (rc != 0) usleep(50 * 1000);
    }
    assert_true(rc == 0 || rc == already);
}

static void a_fourth_node_comes_by_a_snapshot_and_the_first_one_leaves(void **state)
{
    struct fleet *f = fleet_running(1);
    struct fleet_writer w;
    for (uint64_t id = 0; id < 50; id++) fleet_write(f, 0, id);
    fleet_await_alike(f);
    for (uint64_t id = 1; id <= 3; id++) snapshot_in_the_end(f, id);
    fleet_writer_begin(&w, f, 1000, 10000);
    fleet_start(f, 4);
    change_in_the_end(f, 0, 4, RAFTNODE_VOTER, -EEXIST);
    FLEET_AWAIT(f, f->nodes[4].g[0].installs > 0 && f->nodes[4].g[0].members == 4);
    change_in_the_end(f, 0, 1, RAFTNODE_GONE, -ENOENT);
    FLEET_AWAIT(f, f->nodes[4].g[0].members == 3 && fleet_leader(f, 0) && fleet_leader(f, 0)->id != 1);
    struct fleet_call call;
    raftthread_drop(f->nodes[1].thread, 0, fleet_call_begin(&call));
    assert_int_equal(fleet_call_wait(&call), 0);
    fleet_stop(f, 1, 0);
    unsigned long long before = w.acked;
    FLEET_AWAIT(f, w.acked > before + 20);
    w.stop = true;
    fleet_writer_end(&w);
    fleet_await_alike(f);
    fleet_free(f);
}

static uint64_t reigns_so_far(struct fleet *f)
{
    uint64_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (uint64_t id = 1; id <= 3; id++)
        for (uint32_t g = 0; g < f->groups; g++) n += f->nodes[id].g[g].reigns;
    pthread_mutex_unlock(&f->lock);
    return n;
}

static void set_sync_us(struct fleet *f, int us)
{
    for (uint64_t id = 1; id <= 3; id++) f->nodes[id].disk.sync_us = us;
}

/* Each sync takes longer than an election time-out. A busy machine may unseat a leader meanwhile, and while disks are that slow there is no other: then the next attempt counts. */
static void a_slow_disk_holds_answers_up_but_unseats_nobody(void **state)
{
    enum { SLOW_US = 1300 * 1000 };
    struct fleet *f = fleet_running(2);
    bool undisturbed = false;
    for (uint64_t first = 0; first < 5 && !undisturbed; first++) {
        struct fleet_writer w;
        fleet_await_alike(f);
        uint64_t reigns = reigns_so_far(f), begun = (uint64_t)clock_mono_us(), took = 0;
        set_sync_us(f, SLOW_US);
        fleet_writer_begin(&w, f, first, 1);
        while (took < 5 * SLOW_US && !w.acked) {
            usleep(5000);
            took = (uint64_t)clock_mono_us() - begun;
        }
        undisturbed = w.acked && reigns_so_far(f) == reigns;
        if (undisturbed) assert_true(took >= SLOW_US);
        set_sync_us(f, 0);
        fleet_writer_end(&w);
    }
    assert_true(undisturbed);
    fleet_await_alike(f);
    fleet_free(f);
}

/* Writes until there is no room. */
struct filler {
    struct fleet *fleet;
    pthread_t thread;
    atomic_ullong taken;
    atomic_int rc;
    atomic_bool stop;
};

static void *fill(void *arg)
{
    struct filler *l = arg;
    for (uint64_t id = 100; id < FLEET_IDS && l->rc != -ENOSPC && !l->stop; id++) {
        l->rc = fleet_try(l->fleet, 0, id, 4096);
        if (l->rc == 0) l->taken++;
        else usleep(1000);
    }
    return NULL;
}

/* The leader refuses what it has no room for, or finds no majority that has: then the entry waits, as others do in an outage. */
static void a_full_disk_refuses_or_waits_and_goes_on_when_there_is_room(void **state)
{
    enum { STUCK_MS = 3000 };
    struct fleet *f = fleet_new(1, 3);
    f->segment_bytes = 256 * 1024;
    f->reserve_bytes = 48 * 1024;
    f->no_snapshots = true;
    for (uint64_t id = 1; id <= 3; id++) fleet_start(f, id);
    assert_int_equal(fleet_write(f, 0, 0), 0);
    for (uint64_t id = 1; id <= 3; id++) f->nodes[id].disk.full = true;
    struct filler l = {.fleet = f};
    CHECK(pthread_create(&l.thread, NULL, fill, &l) == 0);
    unsigned long long last = 0;
    for (int idle_ms = 0; idle_ms < STUCK_MS && l.rc != -ENOSPC; idle_ms = l.taken == last ? idle_ms + 10 : 0) {
        last = l.taken;
        usleep(10 * 1000);
    }
    assert_true(l.taken > 10 && l.taken < 1000);
    struct fleet_call call;
    raftthread_read(f->nodes[1].thread, 0, fleet_call_begin(&call)); /* the nodes are there all the same */
    int rc = fleet_call_wait(&call);
    assert_true(rc == 0 || rc == -EPERM);
    for (uint64_t n = 1; n <= 3; n++) f->nodes[n].disk.full = false;
    assert_int_equal(fleet_write(f, 0, 1), 0);
    l.stop = true;
    pthread_join(l.thread, NULL);
    fleet_await_alike(f);
    fleet_free(f);
}

static void a_long_log_asks_for_snapshots_and_its_segments_are_used_again(void **state)
{
    struct fleet *f = fleet_new(2, 3);
    f->segment_bytes = 64 * 1024;
    for (uint64_t id = 1; id <= 3; id++) fleet_start(f, id);
    bool marked = false;
    for (uint64_t id = 0; id < 3000 && !marked; id++) {
        if (fleet_try(f, (uint32_t)(id % 2), id, 4096) != 0) usleep(5000);
        pthread_mutex_lock(&f->lock);
        marked = f->nodes[1].g[0].marked;
        pthread_mutex_unlock(&f->lock);
    }
    FLEET_AWAIT(f, f->nodes[1].g[0].marked && f->nodes[2].g[0].marked && f->nodes[3].g[0].marked);
    fleet_await_alike(f);
    fleet_free(f);
}

static void a_write_that_fails_ends_the_node_and_the_others_go_on(void **state)
{
    struct fleet *f = fleet_running(2);
    struct fleet_writer w;
    fleet_writer_begin(&w, f, 0, 20000);
    FLEET_AWAIT(f, w.acked > 20);
    pthread_mutex_lock(&f->lock);
    struct fleet_node *n = fleet_leader(f, 0);
    if (!n) n = &f->nodes[1];
    pthread_mutex_unlock(&f->lock);
    n->disk.broken = true;
    FLEET_AWAIT(f, n->failed[0]);
    assert_non_null(strstr(n->failed, "a write of the Raft log failed"));
    struct fleet_call call;
    raftthread_submit(n->thread, 0, 1, SLICE("12345678"), fleet_call_begin(&call));
    assert_int_equal(fleet_call_wait(&call), -EIO);
    unsigned long long before = w.acked;
    FLEET_AWAIT(f, w.acked > before + 20);
    n->disk.broken = false;
    fleet_stop(f, n->id, 0);
    fleet_start(f, n->id);
    w.stop = true;
    fleet_writer_end(&w);
    fleet_await_alike(f);
    fleet_free(f);
}

static void part(struct fleet *f, uint64_t a, bool together)
{
    for (uint64_t b = 1; b <= 3; b++) {
        if (a == b) continue;
        if (together) {
            fleet_meet(&f->nodes[a], b);
            fleet_meet(&f->nodes[b], a);
        } else {
            raftthread_peer_del(f->nodes[a].thread, b);
            raftthread_peer_del(f->nodes[b].thread, a);
        }
    }
}

static void what_a_leader_without_peers_takes_is_uncertain_and_its_reads_fail(void **state)
{
    struct fleet *f = fleet_running(1);
    for (uint64_t id = 0; id < 10; id++) fleet_write(f, 0, id);
    FLEET_AWAIT(f, fleet_all_led(f));
    struct fleet_call writes[8], read;
    pthread_mutex_lock(&f->lock);
    struct fleet_node *lonely = fleet_leader(f, 0);
    assert_non_null(lonely);
    part(f, lonely->id, false);
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t id = htole64(100 + i);
        raftthread_submit(lonely->thread, 0, lonely->g[0].term, slice_of(&id, 8), fleet_call_begin(&writes[i]));
    }
    raftthread_read(lonely->thread, 0, fleet_call_begin(&read));
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(fleet_call_wait(&read), -EPERM);
    FLEET_AWAIT(f, fleet_leader(f, 0) && fleet_leader(f, 0) != lonely);
    for (uint64_t id = 10; id < 20; id++) assert_int_equal(fleet_write(f, 0, id), 0);
    part(f, lonely->id, true);
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(fleet_call_wait(&writes[i]), -ECANCELED);
    fleet_await_alike(f);
    assert_int_equal(lonely->g[0].truncations, 1);
    assert_false(bit(lonely->g[0].state.seen, 100));
    fleet_free(f);
}

static void count_up(void *ctx) { atomic_fetch_add((atomic_int *)ctx, 1); }

static void note_look(void *ctx, uint32_t group, int rc, const struct raftnode_info *info)
{
    CHECK((rc == 0) == (info != NULL) && (rc == 0 || rc == -ENOENT || rc == -ESHUTDOWN));
    CHECK(!info || info->members.n == 3);
    atomic_fetch_add((atomic_int *)ctx, rc == 0 ? 1 : 100);
}

static void frames_of_other_kinds_and_functions_travel_too(void **state)
{
    struct fleet *f = fleet_running(1);
    FLEET_AWAIT(f, fleet_all_led(f) && f->nodes[1].ups >= 4);
    atomic_int ran = 0, looks = 0;
    struct buf b = {0};
    wire_end(&b, wire_begin(&b, WIRE_STATUS, 0, 0));
    FLEET_AWAIT(f, (raftthread_send(f->nodes[1].thread, 2, buf_slice(&b)), f->nodes[2].frames > 0 && f->nodes[2].frame_from == 1)); /* a link may lose some */
    raftthread_run(f->nodes[1].thread, count_up, &ran);
    raftthread_look(f->nodes[1].thread, 0, note_look, &looks);
    raftthread_look(f->nodes[1].thread, 7, note_look, &looks);
    FLEET_AWAIT(f, ran == 1 && looks == 101);
    buf_fini(&b);
    fleet_free(f);
}

static void whoever_asks_a_thread_that_has_ended_is_told(void **state)
{
    struct fleet *f = fleet_running(1);
    struct fleet_node *n = &f->nodes[1];
    struct raftthread *t = n->thread;
    struct fleet_call before, call;
    atomic_int ran = 0, looks = 0;
    raftthread_submit(t, 0, 1000, SLICE("12345678"), fleet_call_begin(&before));
    assert_int_equal(fleet_call_wait(&before), -EPERM);
    raftthread_stop(t, 200);
    raftthread_submit(t, 0, 1, SLICE("12345678"), fleet_call_begin(&call));
    raftthread_look(t, 0, note_look, &looks);
    raftthread_run(t, count_up, &ran);
    fleet_stop(f, 1, 0);
    assert_int_equal(fleet_call_wait(&call), -ESHUTDOWN);
    assert_true(ran == 1 && looks == 100);
    fleet_free(f);
}

static void a_port_that_is_taken_is_a_reason_not_to_start(void **state)
{
    struct fleet *f = fleet_running(1);
    char listen[32], dir[96];
    struct buf error = {0};
    fleet_address(f, 1, listen);
    snprintf(dir, sizeof dir, "%s/n4", f->dir);
    struct raftthread_options o = {.listen = listen, .dir = dir, .files = &file_disk, .writes = &file_disk, .log.segment_bytes = 1 << 20};
    o.links = (struct links_options){.node = 4, .incarnation = 1, .log = &f->log};
    struct raftthread *t = raftthread_open(&o, &fleet_app, &error);
    assert_non_null(t);
    assert_true(raftthread_start(t, &error) < 0);
    buf_add_byte(&error, 0);
    assert_non_null(strstr(error.p, "cannot listen for other nodes at 127.0.0.1:"));
    raftthread_close(t);
    buf_fini(&error);
    fleet_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_elect_leaders_and_commit_what_several_threads_submit),
        cmocka_unit_test(a_read_is_confirmed_where_the_leader_is_and_refused_elsewhere),
        cmocka_unit_test(what_was_acknowledged_survives_nodes_that_are_killed_and_started_again),
        cmocka_unit_test(a_node_goes_on_from_its_snapshot_and_log),
        cmocka_unit_test(leadership_is_handed_over_when_asked_and_before_a_stop),
        cmocka_unit_test(a_fourth_node_comes_by_a_snapshot_and_the_first_one_leaves),
        cmocka_unit_test(a_slow_disk_holds_answers_up_but_unseats_nobody),
        cmocka_unit_test(a_full_disk_refuses_or_waits_and_goes_on_when_there_is_room),
        cmocka_unit_test(a_long_log_asks_for_snapshots_and_its_segments_are_used_again),
        cmocka_unit_test(a_write_that_fails_ends_the_node_and_the_others_go_on),
        cmocka_unit_test(what_a_leader_without_peers_takes_is_uncertain_and_its_reads_fail),
        cmocka_unit_test(frames_of_other_kinds_and_functions_travel_too),
        cmocka_unit_test(whoever_asks_a_thread_that_has_ended_is_told),
        cmocka_unit_test(a_port_that_is_taken_is_a_reason_not_to_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
