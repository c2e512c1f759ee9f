/* Snapshots travel between two simulated disks over a link that loses frames and breaks; they arrive byte for byte, or there is a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "cluster/snapfetch.h"
#include "cluster/snapsend.h"
#include "cluster/wiresnap.h"
#include "groupsnaprig.h"
#include "io/file_sim.h"

#define DIR GROUPSNAPRIG_DIR

enum { GROUPS = 3, INDEX = 100, SENDER = 1, RECEIVER = 2, STEPS_MAX = 200 * 1000, RUNNING = 1 };

struct way { /* frames to one node, in order */
    struct buf *frames;
    uint32_t n, at;
};

struct world {
    struct rng rng;
    uint64_t now;
    struct file_sim *from, *to;
    struct snapsend *send;
    struct snapfetch *fetch;
    struct snapsend_options send_options;
    struct snapfetch_options fetch_options;
    struct way to_sender, to_receiver;
    unsigned loss;     /* of 1000 frames */
    unsigned spoil;    /* of 1000 chunks: a byte of the partial file is wrong afterwards */
    uint64_t carried;  /* bytes of chunks that arrived */
    struct groupdir_file file[GROUPS];
    struct groupsnap_totals totals[GROUPS];
    int result[GROUPS]; /* RUNNING: not ended */
};

/* ---- the link */

static void put_frame(struct world *w, struct way *way, struct slice frame)
{
    if (rng_below(&w->rng, 1000) < w->loss) return;
    way->frames = mem_resize(way->frames, (way->n + 1) * sizeof *way->frames);
    way->frames[way->n] = (struct buf){0};
    buf_add_slice(&way->frames[way->n++], frame);
}

static void clear_way(struct way *way)
{
    for (; way->at < way->n; way->at++) buf_fini(&way->frames[way->at]);
    way->at = way->n = 0;
}

static void break_link(struct world *w)
{
    clear_way(&w->to_sender);
    clear_way(&w->to_receiver);
    snapsend_peer_down(w->send, RECEIVER);
    if (rng_below(&w->rng, 2)) snapfetch_peer_up(w->fetch, SENDER, w->now);
}

static void sender_sends(void *ctx, uint64_t peer, struct slice frame)
{
    struct world *w = ctx;
    assert_int_equal(peer, RECEIVER);
    put_frame(w, &w->to_receiver, frame);
}

static void receiver_sends(void *ctx, uint64_t peer, struct slice frame)
{
    struct world *w = ctx;
    assert_int_equal(peer, SENDER);
    put_frame(w, &w->to_sender, frame);
}

static bool take_frame(struct way *way, struct buf *bytes, struct wire_frame *frame)
{
    const char *why;
    if (way->at == way->n) {
        way->at = way->n = 0;
        return false;
    }
    *bytes = way->frames[way->at++];
    assert_int_equal(wire_frame(buf_slice(bytes), frame, &why), WIRE_OK);
    return true;
}

static void part_path(const struct world *w, unsigned group, char path[GROUPDIR_PATH_MAX])
{
    struct groupdir_file f = w->file[group];
    f.kind = GROUPDIR_PART;
    f.checksum = w->totals[group].checksum;
    f.bytes = w->totals[group].file_bytes;
    assert_int_equal(groupdir_path(path, DIR, &f), 0);
}

static struct buf *part_bytes(const struct world *w, unsigned group)
{
    char path[GROUPDIR_PATH_MAX];
    part_path(w, group, path);
    return file_sim_bytes(w->to, path);
}

static void spoil_part(struct world *w, unsigned group)
{
    struct buf *b = part_bytes(w, group);
    if (b && b->len) b->p[rng_below(&w->rng, b->len)] ^= 0x10;
}

static void deliver(struct world *w)
{
    struct buf bytes;
    struct wire_frame f;
    if (take_frame(&w->to_sender, &bytes, &f)) {
        assert_int_equal(snapsend_receive(w->send, RECEIVER, &f, w->now), 0);
        buf_fini(&bytes);
    }
    if (take_frame(&w->to_receiver, &bytes, &f)) {
        assert_int_equal(snapfetch_receive(w->fetch, SENDER, &f, w->now), 0);
        if (f.type == WIRE_SNAP_CHUNK) {
            w->carried += f.body.n;
            if (rng_below(&w->rng, 1000) < w->spoil) spoil_part(w, f.group - GROUPSNAPRIG_GROUP);
        }
        buf_fini(&bytes);
    }
}

/* ---- the two nodes */

static void ended(void *ctx, uint32_t group, uint64_t index, uint64_t term, int rc)
{
    struct world *w = ctx;
    unsigned i = group - GROUPSNAPRIG_GROUP;
    assert_true(i < GROUPS && index == w->file[i].index && term == w->file[i].term && w->result[i] == RUNNING);
    w->result[i] = rc;
}

static void start_sender(struct world *w)
{
    w->send_options.now = w->now;
    w->send = snapsend_new(&w->send_options);
    for (unsigned i = 0; i < GROUPS; i++) snapsend_put(w->send, &w->file[i], &w->totals[i]);
}

static void start_receiver(struct world *w)
{
    w->fetch_options.now = w->now;
    w->fetch = snapfetch_new(&w->fetch_options);
}

static void start(struct world *w, unsigned group)
{
    struct buf offer = {0};
    snapsend_add_offer(&offer, &w->file[group], &w->totals[group]);
    w->result[group] = RUNNING;
    assert_int_equal(snapfetch_start(w->fetch, SENDER, w->file[group].group, w->file[group].index, w->file[group].term, buf_slice(&offer), w->now), 0);
    buf_fini(&offer);
}

static void make_snapshot(struct world *w, unsigned i, unsigned keys)
{
    struct storerandom m = groupsnaprig_store(100 + i + rng_below(&w->rng, 50), keys);
    struct groupsnap_header h = groupsnaprig_header(INDEX + i, SLICE("mine"));
    struct groupsnap_writer *s;
    h.group = GROUPSNAPRIG_GROUP + i;
    w->file[i] = (struct groupdir_file){.kind = GROUPDIR_SNAPSHOT, .group = h.group, .index = h.index, .term = h.term};
    assert_int_equal(groupsnap_create(&s, file_sim_ops(w->from), DIR, &h, COMPRESS_BALANCED), 0);
    assert_int_equal(groupsnaprig_feed(s, m.store, 1000), 0);
    assert_int_equal(groupsnap_finish(s, &w->totals[i]), 0);
    groupsnap_writer_free(s);
    store_free(m.store);
}

static void world_init(struct world *w, uint64_t seed, uint32_t window_bytes, unsigned keys)
{
    *w = (struct world){.now = 1000, .from = file_sim_new(DIR, seed), .to = file_sim_new(DIR, seed + 1)};
    rng_init(&w->rng, seed * 0x9e3779b97f4a7c15ull);
    w->send_options = (struct snapsend_options){.files = file_sim_ops(w->from), .dir = DIR, .send = sender_sends, .ctx = w};
    w->fetch_options = (struct snapfetch_options){.files = file_sim_ops(w->to), .dir = DIR, .window_bytes = window_bytes, .send = receiver_sends, .done = ended, .ctx = w};
    memcpy(w->fetch_options.cluster, groupsnaprig_cluster, sizeof groupsnaprig_cluster);
    for (unsigned i = 0; i < GROUPS; i++) make_snapshot(w, i, keys);
    start_sender(w);
    start_receiver(w);
}

static void world_fini(struct world *w)
{
    snapsend_free(w->send);
    snapfetch_free(w->fetch);
    clear_way(&w->to_sender);
    clear_way(&w->to_receiver);
    mem_free(w->to_sender.frames);
    mem_free(w->to_receiver.frames);
    file_sim_free(w->from);
    file_sim_free(w->to);
}

/* One turn of everything; when nothing is left to do, time goes on to where something is. */
static void turn(struct world *w)
{
    bool more = snapsend_step(w->send, w->now);
    more |= snapfetch_step(w->fetch, w->now);
    deliver(w);
    snapsend_check(w->send);
    snapfetch_check(w->fetch);
    if (more || w->to_sender.at < w->to_sender.n || w->to_receiver.at < w->to_receiver.n) {
        w->now += rng_below(&w->rng, 3) == 0;
        return;
    }
    uint64_t next = snapfetch_next(w->fetch), other = snapsend_next(w->send);
    if (other < next) next = other;
    if (next != UINT64_MAX && next > w->now) w->now = next;
}

static bool is_running(const struct world *w)
{
    for (unsigned i = 0; i < GROUPS; i++)
        if (w->result[i] == RUNNING) return true;
    return false;
}

static void run(struct world *w)
{
    for (unsigned i = 0; is_running(w); i++) {
        assert_true(i < STEPS_MAX);
        turn(w);
    }
}

static void expect_equal(struct world *w, unsigned group)
{
    char path[GROUPDIR_PATH_MAX];
    assert_int_equal(groupdir_path(path, DIR, &w->file[group]), 0);
    const struct buf *a = file_sim_bytes(w->from, path), *b = file_sim_bytes(w->to, path);
    assert_non_null(b);
    assert_true(slice_eq(buf_slice(a), buf_slice(b)));
    assert_null(part_bytes(w, group));
}

static bool has_name(struct world *w, unsigned group)
{
    char path[GROUPDIR_PATH_MAX];
    assert_int_equal(groupdir_path(path, DIR, &w->file[group]), 0);
    return file_sim_bytes(w->to, path) != NULL;
}

/* ---- what arrives */

static void all_groups_arrive_byte_for_byte(void **state)
{
    struct world w;
    world_init(&w, 1, 0, 8000);
    assert_true(w.totals[0].file_bytes > 3 * WIRESNAP_CHUNK_MAX);
    for (unsigned i = 0; i < GROUPS; i++) start(&w, i);
    run(&w);
    for (unsigned i = 0; i < GROUPS; i++) {
        assert_int_equal(w.result[i], 0);
        expect_equal(&w, i);
    }
    for (unsigned i = 0; i < 10; i++) turn(&w); /* the last DONE arrives */
    assert_int_equal(snapsend_streams(w.send), 0);
    file_sim_crash(w.to, true);
    for (unsigned i = 0; i < GROUPS; i++) expect_equal(&w, i);
    world_fini(&w);
}

static void crash_receiver(struct world *w, bool power)
{
    snapfetch_free(w->fetch);
    snapsend_peer_down(w->send, RECEIVER);
    clear_way(&w->to_sender);
    clear_way(&w->to_receiver);
    file_sim_crash(w->to, power);
    start_receiver(w);
    for (unsigned i = 0; i < GROUPS; i++)
        if (w->result[i] == RUNNING) start(w, i);
}

static void crash_sender(struct world *w)
{
    snapsend_free(w->send);
    clear_way(&w->to_sender);
    clear_way(&w->to_receiver);
    start_sender(w);
}

/* Whatever happens on the way: bytes are lost, the link breaks, both sides crash, the disk spoils what was written. */
static void a_bad_world_only_delays_what_arrives(void **state)
{
    unsigned restarts = 0, crashes = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world w;
        world_init(&w, seed, 500 + (uint32_t)(seed * 397 % 20000), 20 + (unsigned)(seed % 5) * 60);
        w.loss = (unsigned)rng_below(&w.rng, 200);
        w.spoil = seed % 4 == 0 ? 2 : 0;
        if (seed % 3 == 0) w.send_options.bytes_per_s = 200 * 1000;
        crash_sender(&w);
        for (unsigned i = 0; i < GROUPS; i++) start(&w, i);
        for (unsigned step = 0; is_running(&w); step++) {
            assert_true(step < STEPS_MAX);
            turn(&w);
            uint64_t fate = rng_below(&w.rng, 3000);
            if (fate < 6) break_link(&w);
            else if (fate < 8) crash_receiver(&w, fate == 7), crashes++;
            else if (fate == 8) crash_sender(&w);
            else if (fate < 30) snapfetch_peer_up(w.fetch, SENDER, w.now); /* asks again for what is on its way */
            struct snapfetch_info info;
            for (unsigned i = 0; i < GROUPS; i++) restarts += snapfetch_look(w.fetch, w.file[i].group, &info) && info.restarts;
        }
        for (unsigned i = 0; i < GROUPS; i++) {
            if (w.result[i] == -EBADMSG && w.spoil) continue; /* spoilt too often */
            assert_int_equal(w.result[i], 0);
            expect_equal(&w, i);
        }
        world_fini(&w);
    }
    assert_true(restarts > 0 && crashes > 10);
}

static void turn_until_half(struct world *w, unsigned group)
{
    struct snapfetch_info info;
    for (unsigned i = 0; i < STEPS_MAX; i++) {
        turn(w);
        if (snapfetch_look(w->fetch, w->file[group].group, &info) && info.have >= info.bytes / 2) return;
    }
    fail();
}

static void what_was_there_before_a_crash_is_not_sent_again(void **state)
{
    struct world w;
    uint32_t window = 2000;
    world_init(&w, 3, window, 400);
    start(&w, 0);
    turn_until_half(&w, 0);
    uint64_t had = part_bytes(&w, 0)->len, carried = w.carried;
    crash_receiver(&w, false);
    crash_sender(&w);
    run(&w);
    assert_int_equal(w.result[0], 0);
    expect_equal(&w, 0);
    uint64_t chunks = (w.totals[0].file_bytes - had) / (window / 2) + 2;
    assert_true(had > 0 && w.carried - carried <= w.totals[0].file_bytes - had + window + chunks * 16);
    world_fini(&w);
}

static void a_file_that_is_there_already_is_only_verified(void **state)
{
    struct world w;
    world_init(&w, 4, 0, 50);
    start(&w, 0);
    run(&w);
    uint64_t carried = w.carried;
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], 0);
    assert_int_equal(w.carried, carried);
    char path[GROUPDIR_PATH_MAX];
    assert_int_equal(groupdir_path(path, DIR, &w.file[0]), 0);
    file_sim_bytes(w.to, path)->p[100] ^= 1; /* unless it is damaged */
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], 0);
    assert_true(w.carried > carried);
    expect_equal(&w, 0);
    world_fini(&w);
}

/* ---- what does not */

static void a_file_that_is_gone_is_told(void **state)
{
    struct world w;
    char path[GROUPDIR_PATH_MAX];
    world_init(&w, 5, 2000, 100);
    start(&w, 0);
    turn_until_half(&w, 0);
    assert_true(snapsend_is_wanted_before(w.send, w.file[0].group, UINT64_MAX));
    snapsend_drop_before(w.send, w.file[0].group, w.file[0].index + 1); /* a newer one is there, and this one is withdrawn */
    assert_false(snapsend_is_wanted_before(w.send, w.file[0].group, UINT64_MAX));
    run(&w);
    assert_int_equal(w.result[0], -ENOENT);
    assert_false(has_name(&w, 0));
    start(&w, 0); /* asked for, though it cannot be had */
    run(&w);
    assert_int_equal(w.result[0], -ENOENT);
    assert_int_equal(groupdir_path(path, DIR, &w.file[1]), 0);
    assert_int_equal(file_sim_ops(w.from)->unlink(file_sim_ops(w.from)->ctx, path), 0);
    start(&w, 1); /* deleted under the sender */
    run(&w);
    assert_int_equal(w.result[1], -ENOENT);
    assert_int_equal(groupdir_path(path, DIR, &w.file[2]), 0);
    file_sim_bytes(w.from, path)->len /= 2;
    start(&w, 2); /* cut off under the sender */
    run(&w);
    assert_int_equal(w.result[2], -ENOENT);
    world_fini(&w);
}

static void a_full_disk_ends_it_and_leaves_nothing(void **state)
{
    struct world w;
    world_init(&w, 6, 2000, 100);
    file_sim_set_faults(w.to, (struct file_sim_faults){.space_bytes = w.totals[0].file_bytes / 2});
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], -ENOSPC);
    assert_null(part_bytes(&w, 0));
    file_sim_set_faults(w.to, (struct file_sim_faults){0});
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], 0);
    expect_equal(&w, 0);
    world_fini(&w);
}

static void bytes_that_are_always_wrong_end_it(void **state)
{
    struct world w;
    char path[GROUPDIR_PATH_MAX];
    world_init(&w, 7, 2000, 50);
    assert_int_equal(groupdir_path(path, DIR, &w.file[0]), 0);
    file_sim_bytes(w.from, path)->p[300] ^= 1;
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], -EBADMSG);
    assert_true(w.carried >= 3 * w.totals[0].file_bytes); /* three times over */
    assert_null(part_bytes(&w, 0));
    assert_false(has_name(&w, 0));
    world_fini(&w);
}

static void a_silent_peer_is_given_up_and_what_came_is_kept(void **state)
{
    struct world w;
    world_init(&w, 8, 2000, 100);
    start(&w, 0);
    turn_until_half(&w, 0);
    uint64_t since = w.now;
    w.loss = 1000;
    clear_way(&w.to_receiver);
    run(&w);
    assert_int_equal(w.result[0], -ETIMEDOUT);
    assert_true(w.now - since > 59 * 1000 && w.now - since < 70 * 1000);
    assert_true(part_bytes(&w, 0)->len >= w.totals[0].file_bytes / 2);
    world_fini(&w);
}

static void a_transfer_that_is_given_up_leaves_nothing(void **state)
{
    struct world w;
    struct snapfetch_info info;
    world_init(&w, 9, 2000, 100);
    start(&w, 0);
    turn_until_half(&w, 0);
    snapfetch_cancel(w.fetch, w.file[0].group);
    w.result[0] = 0;
    assert_false(snapfetch_look(w.fetch, w.file[0].group, &info));
    assert_null(part_bytes(&w, 0));
    for (unsigned i = 0; i < 50; i++) turn(&w);
    assert_int_equal(snapsend_streams(w.send), 0); /* the peer was told */
    snapfetch_cancel(w.fetch, w.file[0].group);
    world_fini(&w);
}

static void another_offer_of_the_group_takes_the_place_of_the_first(void **state)
{
    struct world w;
    world_init(&w, 10, 2000, 100);
    start(&w, 0);
    turn_until_half(&w, 0);
    struct groupdir_file old = w.file[0];
    struct groupsnap_totals old_totals = w.totals[0];
    make_snapshot(&w, 0, 70);
    w.file[0].index = old.index; /* the same index, made by another leader: other bytes */
    assert_true(w.totals[0].checksum != old_totals.checksum);
    snapsend_drop_before(w.send, old.group, UINT64_MAX);
    snapsend_put(w.send, &w.file[0], &w.totals[0]);
    start(&w, 0);
    run(&w);
    assert_int_equal(w.result[0], 0);
    expect_equal(&w, 0);
    struct groupdir_list l;
    assert_int_equal(groupdir_list(file_sim_ops(w.to), DIR, &l), 0);
    assert_int_equal(l.n, 1); /* nothing of the first is left */
    mem_free(l.v);
    world_fini(&w);
}

/* ---- the receiver's disk */

static void a_failed_call_fails_the_transfer_and_the_next_one_arrives(void **state)
{
    unsigned failed = 0;
    for (uint64_t k = 1;; k++) {
        struct world w;
        world_init(&w, k, 3000, 20);
        file_sim_set_faults(w.to, (struct file_sim_faults){.fail_at = file_sim_calls(w.to) + k, .fail_errno = EIO, .short_writes = true});
        start(&w, 0);
        run(&w);
        int rc = w.result[0];
        assert_true(rc == 0 || rc == -EIO);
        file_sim_set_faults(w.to, (struct file_sim_faults){0});
        start(&w, 0);
        run(&w);
        assert_int_equal(w.result[0], 0);
        expect_equal(&w, 0);
        bool never_came = rc == 0 && file_sim_calls(w.to) < k;
        world_fini(&w);
        failed += rc != 0;
        if (never_came || k > 60) break;
    }
    assert_true(failed > 5);
}

static void power_lost_at_any_call_leaves_whole_files_only(void **state)
{
    for (uint64_t k = 1; k <= 24; k++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct world w;
            struct groupsnap_reader *r;
            struct buf why = {0};
            world_init(&w, seed * 100 + k, 3000, 20);
            file_sim_set_faults(w.to, (struct file_sim_faults){.power_off_at = file_sim_calls(w.to) + k});
            start(&w, 0);
            run(&w);
            bool promised = w.result[0] == 0;
            w.result[0] = RUNNING;
            snapfetch_free(w.fetch);
            file_sim_crash(w.to, true);
            int rc = groupsnap_find(&r, file_sim_ops(w.to), DIR, groupsnaprig_cluster, w.file[0].group, UINT64_MAX, &why);
            assert_true(why.len == 0 && (rc == 1 || !promised));
            groupsnap_close(r);
            start_receiver(&w);
            start(&w, 0);
            run(&w);
            assert_int_equal(w.result[0], 0);
            expect_equal(&w, 0);
            buf_fini(&why);
            world_fini(&w);
        }
}

/* ---- the budget, and taking turns */

static void the_budget_is_kept(void **state)
{
    struct world w;
    world_init(&w, 11, 4000, 300);
    w.send_options.bytes_per_s = 100 * 1000;
    crash_sender(&w);
    for (unsigned i = 0; i < GROUPS; i++) start(&w, i);
    uint64_t began = w.now;
    run(&w);
    uint64_t ms = w.now - began, total = snapsend_sent_bytes(w.send);
    assert_true(total > 100 * 1000);
    assert_true(total <= 100 * ms + 10 * 1000 + 4000); /* what it earned, a burst and a piece */
    assert_true(total >= 50 * ms);                     /* and it is used */
    world_fini(&w);
}

static void streams_take_turns(void **state)
{
    struct world w;
    struct snapfetch_info a, b;
    world_init(&w, 12, 2000, 300);
    start(&w, 0);
    start(&w, 1);
    for (unsigned i = 0; i < 200; i++) {
        turn(&w);
        if (!snapfetch_look(w.fetch, w.file[0].group, &a) || !snapfetch_look(w.fetch, w.file[1].group, &b)) break;
        if (a.state != SNAPFETCH_FETCHING || b.state != SNAPFETCH_FETCHING) continue;
        assert_true(a.have <= b.have + 8000 && b.have <= a.have + 8000);
    }
    assert_true(a.have > 8000 && b.have > 8000);
    world_fini(&w);
}

static void transfers_beyond_the_limit_wait_in_line(void **state)
{
    struct world w;
    struct snapfetch_info info[GROUPS];
    world_init(&w, 13, 2000, 300);
    for (unsigned i = 0; i < GROUPS; i++) start(&w, i);
    for (unsigned i = 0; i < 50; i++) turn(&w);
    for (unsigned i = 0; i < GROUPS; i++) assert_true(snapfetch_look(w.fetch, w.file[i].group, &info[i]));
    assert_true(info[0].state == SNAPFETCH_FETCHING && info[1].state == SNAPFETCH_FETCHING && info[2].state == SNAPFETCH_WAITING);
    run(&w);
    for (unsigned i = 0; i < GROUPS; i++) assert_int_equal(w.result[i], 0);
    world_fini(&w);
}

/* ---- nonsense */

static void frames_and_offers_that_make_no_sense_are_refused(void **state)
{
    struct world w;
    struct buf b = {0};
    struct wire_frame f;
    const char *why;
    world_init(&w, 14, 0, 20);
    snapsend_add_offer(&b, &w.file[0], &w.totals[0]);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(snapfetch_start(w.fetch, SENDER, w.file[0].group, INDEX, 3, slice_of(b.p, n), 0), -EBADMSG);
    assert_int_equal(snapfetch_start(w.fetch, SENDER, w.file[1].group, INDEX, 3, buf_slice(&b), 0), -EBADMSG);
    assert_int_equal(snapfetch_start(w.fetch, SENDER, w.file[0].group, INDEX + 1, 3, buf_slice(&b), 0), -EBADMSG);
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(snapfetch_receive(w.fetch, SENDER, &f, 0), -EBADMSG);
    assert_int_equal(snapsend_receive(w.send, RECEIVER, &f, 0), -EBADMSG);
    b.len = 0;
    wiresnap_add_want(&b, w.file[0].group, &(struct wiresnap_want){.id = w.totals[0].checksum, .offset = w.totals[0].file_bytes, .bytes = 1});
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(snapsend_receive(w.send, RECEIVER, &f, 0), -EBADMSG);
    start(&w, 0);
    turn(&w);
    b.len = 0;
    wiresnap_add_chunk(&b, w.file[0].group, &(struct wiresnap_chunk){.id = w.totals[0].checksum, .offset = w.totals[0].file_bytes, .data = SLICE("more than there is")});
    assert_int_equal(wire_frame(buf_slice(&b), &f, &why), WIRE_OK);
    assert_int_equal(snapfetch_receive(w.fetch, SENDER, &f, 0), -EBADMSG);
    assert_int_equal(snapfetch_receive(w.fetch, SENDER + 5, &f, 0), 0); /* not of the peer that was asked */
    buf_fini(&b);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_groups_arrive_byte_for_byte),
        cmocka_unit_test(a_bad_world_only_delays_what_arrives),
        cmocka_unit_test(what_was_there_before_a_crash_is_not_sent_again),
        cmocka_unit_test(a_file_that_is_there_already_is_only_verified),
        cmocka_unit_test(a_file_that_is_gone_is_told),
        cmocka_unit_test(a_full_disk_ends_it_and_leaves_nothing),
        cmocka_unit_test(bytes_that_are_always_wrong_end_it),
        cmocka_unit_test(a_silent_peer_is_given_up_and_what_came_is_kept),
        cmocka_unit_test(a_transfer_that_is_given_up_leaves_nothing),
        cmocka_unit_test(another_offer_of_the_group_takes_the_place_of_the_first),
        cmocka_unit_test(a_failed_call_fails_the_transfer_and_the_next_one_arrives),
        cmocka_unit_test(power_lost_at_any_call_leaves_whole_files_only),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(streams_take_turns),
        cmocka_unit_test(transfers_beyond_the_limit_wait_in_line),
        cmocka_unit_test(frames_and_offers_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
