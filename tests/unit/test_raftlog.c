/* The shared Raft log while all is well, or only full: what was put is read back, space comes back, and nobody waits for a disk that need not. */
#include "raftbench.h"

static void set_up(struct bench *b) { assert_true(open_log(b)); }

static void put_plain(struct bench *b, uint32_t i, uint32_t len)
{
    struct twin_group *g = &b->now->g[i];
    g->known = true;
    g->e[++g->last] = (struct twin_entry){.term = 1, .len = len, .nonce = ++b->nonce, .type = 1};
    raftlog_put_entry(b->log, number_of(i), g->last, 1, 1, bytes_of(&b->scratch, b->nonce, len));
}

static struct raftlog_info info_of(const struct bench *b)
{
    struct raftlog_info info;
    raftlog_info(b->log, &info);
    return info;
}

/* All that was put is written, and nothing is left to do. */
static void settle(struct bench *b)
{
    assert_int_equal(write_all(b), 0);
    assert_int_equal(raftlog_durable(b->log) + 1, raftlog_open_batch(b->log));
}

static void restart(struct bench *b)
{
    close_log(b);
    assert_true(open_log(b));
    assert_recovered(b);
}

static void count_name(void *arg, const char *name) { ++*(unsigned *)arg; }

static unsigned files_of(const struct bench *b)
{
    unsigned n = 0;
    const struct file_ops *f = file_sim_ops(b->disk);
    assert_int_equal(f->list(f->ctx, "d/raft", count_name, &n), 0);
    return n;
}

static void what_was_put_is_read_back_and_recovered(void **state)
{
    unsigned segments = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct bench *b = bench_new(seed);
        b->large = seed % 2 ? LARGE : 0;
        for (int life = 0; life < 4; life++) {
            assert_true(open_log(b));
            assert_recovered(b);
            assert_int_equal(live(b, 600), 0);
            assert_true(is_same(b, b->now));
            assert_int_equal(write_all(b), 0);
            assert_true(is_same(b, b->now));
            close_log(b);
        }
        segments += b->segments_max > 3;
        bench_free(b);
    }
    assert_true(segments > 6);
}

static void a_new_log_is_empty_and_can_be_written_to_at_once(void **state)
{
    struct bench *b = bench_new(1);
    struct raftlog_state s;
    set_up(b);
    assert_int_equal(raftlog_groups(b->log, NULL, 0), 0);
    assert_false(raftlog_state(b->log, 1, &s));
    assert_int_equal(raftlog_open_batch(b->log), 1);
    assert_true(raftlog_capacity(b->log) > SEGMENT / 2);
    begin_write(b);
    assert_false(b->writing);
    put_plain(b, 1, 10);
    begin_write(b);
    assert_true(b->writing);
    assert_int_equal(end_write(b), 0);
    bench_free(b);
}

static void what_is_put_while_a_batch_is_written_waits_for_the_next(void **state)
{
    struct bench *b = bench_new(1);
    struct raftlog_write w;
    set_up(b);
    put_plain(b, 1, 10);
    begin_write(b);
    put_plain(b, 1, 10);
    assert_false(raftlog_begin_write(b->log, &w));
    assert_int_equal(raftlog_durable_index(b->log, number_of(1)), 0);
    assert_int_equal(end_write(b), 0);
    assert_int_equal(raftlog_durable_index(b->log, number_of(1)), 1);
    begin_write(b);
    assert_int_equal(b->write.batch, 2);
    bench_free(b);
}

static void an_entry_that_was_replaced_is_durable_only_when_its_successor_is(void **state)
{
    struct bench *b = bench_new(1);
    uint32_t g = number_of(1);
    set_up(b);
    for (int i = 0; i < 5; i++) put_plain(b, 1, 10);
    settle(b);
    assert_int_equal(raftlog_durable_index(b->log, g), 5);
    put_plain(b, 1, 10);
    begin_write(b); /* entry 6 flies */
    raftlog_put_truncate(b->log, g, 3);
    b->now->g[1].last = 2;
    put_plain(b, 1, 20);
    assert_int_equal(raftlog_durable_index(b->log, g), 2);
    assert_int_equal(end_write(b), 0);
    assert_int_equal(raftlog_durable_index(b->log, g), 2);
    settle(b);
    assert_int_equal(raftlog_durable_index(b->log, g), 3);
    assert_int_equal(raftlog_durable_index(b->log, 12345), 0);
    bench_free(b);
}

static void under_constant_load_with_marks_the_files_stay_few_for_ever(void **state)
{
    struct bench *b = bench_new(3);
    set_up(b);
    for (unsigned round = 0; round < 3000; round++) {
        uint32_t i = round % GROUPS;
        struct raftlog_mark mark = {.index = b->now->g[i].last, .term = 1, .first = b->now->g[i].last > 3 ? b->now->g[i].last - 2 : 1};
        if (mark.index) raftlog_put_mark(b->log, number_of(i), &mark);
        b->now->g[i].mark_index = mark.index;
        for (int k = 0; k < 3; k++) put_plain(b, i, 1500);
        settle(b);
        assert_true(info_of(b).segments <= 3);
        assert_true(files_of(b) <= 7);
    }
    assert_true(info_of(b).written_bytes > 150 * SEGMENT);
    assert_true(info_of(b).spare >= 1);
    bench_free(b);
}

static void a_segment_is_used_again_and_not_made_anew(void **state)
{
    struct bench *b = bench_new(3);
    struct raftlog_chore c;
    unsigned made = 0, reused = 0;
    set_up(b);
    for (unsigned round = 0; round < 200; round++) {
        put_plain(b, 0, 9000);
        put_mark(b, 0, b->now->g[0].last, b->now->g[0].last + 1);
        begin_write(b);
        assert_int_equal(end_write(b), 0);
        while (raftlog_begin_chore(b->log, &c)) {
            made += c.kind == RAFTLOG_MAKE;
            reused += c.kind == RAFTLOG_REUSE;
            int rc = raftlog_chore_run(file_sim_ops(b->disk), &c);
            raftlog_chore_done(b->log, rc);
            assert_int_equal(rc, 0);
        }
    }
    assert_true(made <= 3 && reused > 20);
    restart(b);
    bench_free(b);
}

/* Writes some segments full of entries of this group, with its own marks following. */
static void write_segments(struct bench *b, uint32_t i, uint64_t segments)
{
    for (uint64_t until = info_of(b).written_bytes + segments * SEGMENT; info_of(b).written_bytes < until;) {
        put_plain(b, i, 5000);
        put_mark(b, i, b->now->g[i].last, b->now->g[i].last + 1);
        settle(b);
    }
}

static void what_is_known_of_a_quiet_group_outlives_its_segment(void **state)
{
    struct bench *b = bench_new(4);
    set_up(b);
    put_hard_state(b, 2);
    put_hard_state(b, 3);
    put_install(b, 3);
    write_segments(b, 0, 10);
    assert_true(info_of(b).segments <= 2);
    restart(b);
    write_segments(b, 0, 5);
    restart(b);
    assert_true(b->now->g[2].known && b->now->g[2].term == 1 && b->now->g[3].mark_index > 0);
    bench_free(b);
}

static void the_group_that_holds_the_oldest_segment_is_named(void **state)
{
    struct bench *b = bench_new(5);
    uint32_t group = 0;
    uint64_t segments = 0;
    set_up(b);
    put_plain(b, 5, 100);
    assert_false(raftlog_oldest_holder(b->log, &group, &segments));
    write_segments(b, 0, 6);
    assert_true(raftlog_oldest_holder(b->log, &group, &segments));
    assert_int_equal(group, number_of(5));
    assert_int_equal(segments, info_of(b).segments);
    assert_true(segments >= 6);
    restart(b);
    assert_true(raftlog_oldest_holder(b->log, &group, &segments) && group == number_of(5) && segments >= 6);
    put_mark(b, 5, 1, 2);
    settle(b);
    assert_int_equal(info_of(b).segments, 1);
    assert_false(raftlog_oldest_holder(b->log, &group, &segments));
    bench_free(b);
}

static void void_by_truncation(struct bench *b)
{
    raftlog_put_truncate(b->log, number_of(5), 1);
    b->now->g[5].last = 0;
}

static void void_by_end_of_the_group(struct bench *b) { put_gone(b, 5); }
static void void_by_mark(struct bench *b) { put_mark(b, 5, 3, 4); }
static void void_by_the_leaders_snapshot(struct bench *b) { put_install(b, 5); }

static void entries_that_are_void_hold_no_segment(void **state)
{
    void (*const ways[])(struct bench *b) = {void_by_truncation, void_by_end_of_the_group, void_by_mark, void_by_the_leaders_snapshot};
    for (unsigned k = 0; k < sizeof ways / sizeof *ways; k++) {
        struct bench *b = bench_new(6);
        set_up(b);
        for (int i = 0; i < 3; i++) put_plain(b, 5, 100);
        write_segments(b, 0, 4);
        assert_true(info_of(b).segments >= 4);
        ways[k](b);
        assert_true(info_of(b).segments >= 4); /* not before that is durable */
        settle(b);
        assert_int_equal(info_of(b).segments, 1);
        assert_int_equal(raftlog_group_bytes(b->log, number_of(5)), 0);
        restart(b);
        bench_free(b);
    }
}

static void a_group_that_comes_back_begins_anew(void **state)
{
    struct bench *b = bench_new(7);
    set_up(b);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 3; i++) put_plain(b, 4, 100);
        if (round % 2) settle(b);
        put_gone(b, 4);
        put_gone(b, 4);
        if (round < 2) settle(b);
        put_hard_state(b, 4);
        settle(b);
        assert_true(is_same(b, b->now));
        restart(b);
        put_gone(b, 4);
    }
    bench_free(b);
}

static void a_batch_that_does_not_fit_begins_the_next_segment(void **state)
{
    struct bench *b = bench_new(8);
    set_up(b);
    put_plain(b, 0, 40000);
    settle(b);
    assert_int_equal(b->write.segment, 1);
    put_plain(b, 0, 40000);
    settle(b);
    assert_true(b->write.segment == 2 && b->write.at == 0);
    put_plain(b, 0, 10);
    settle(b);
    assert_true(b->write.segment == 2 && b->write.at > 40000);
    restart(b);
    bench_free(b);
}

static void a_batch_larger_than_a_segment_gets_a_larger_one(void **state)
{
    struct bench *b = bench_new(9);
    set_up(b);
    put_plain(b, 0, 10);
    settle(b);
    put_plain(b, 1, RAFTLOG_ENTRY_MAX);
    put_plain(b, 2, 3 * SEGMENT);
    begin_write(b);
    assert_false(b->writing); /* it waits for the segment to grow */
    settle(b);
    assert_true(b->write.segment == 2 && b->write.at == 0 && b->write.bytes.n > RAFTLOG_ENTRY_MAX);
    put_plain(b, 1, 10);
    settle(b);
    assert_true(is_same(b, b->now));
    restart(b);
    assert_true(info_of(b).segment_bytes > RAFTLOG_ENTRY_MAX);
    put_mark(b, 1, 1, 2);
    put_mark(b, 2, 1, 2);
    write_segments(b, 3, 2);
    put_mark(b, 0, 1, 2);
    put_mark(b, 1, 2, 3);
    settle(b);
    assert_true(info_of(b).segments == 1 && info_of(b).segment_bytes == SEGMENT);
    assert_true(files_of(b) <= 5); /* the large one was deleted, not kept */
    restart(b);
    bench_free(b);
}

static void recent_entries_cost_no_disk_read_and_older_ones_few(void **state)
{
    struct bench *b = bench_new(10);
    struct raftlog_entry e;
    b->options.cache_bytes = 16384;
    set_up(b);
    for (int i = 0; i < 1000; i++) {
        put_plain(b, (uint32_t)i % 2, 100);
        if (i % 10 == 0) settle(b);
    }
    settle(b);
    for (uint64_t index = 430; index <= 500; index++) assert_int_equal(raftlog_read(b->log, number_of(0), index, &e), 0);
    assert_int_equal(info_of(b).reads_disk, 0);
    assert_int_equal(info_of(b).reads_memory, 71);
    for (uint64_t index = 1; index <= 400; index++) assert_int_equal(raftlog_read(b->log, number_of(1), index, &e), 0);
    assert_in_range(info_of(b).reads_disk, 1, 40);
    bench_free(b);
}

static void what_is_not_written_yet_is_read_from_memory_without_a_cache(void **state)
{
    struct bench *b = bench_new(11);
    b->options.cache_bytes = 1;
    set_up(b);
    put_plain(b, 0, 100);
    settle(b);
    put_plain(b, 0, 200);
    begin_write(b);
    put_plain(b, 0, 300);
    put_plain(b, 0, 0);
    for (uint64_t index = 2; index <= 4; index++) assert_true(has_same_entry(b, 0, &b->now->g[0], index));
    assert_int_equal(info_of(b).reads_disk, 0);
    assert_true(has_same_entry(b, 0, &b->now->g[0], 1));
    assert_int_equal(info_of(b).reads_disk, 1);
    assert_int_equal(end_write(b), 0);
    assert_true(has_same_entry(b, 0, &b->now->g[0], 2));
    bench_free(b);
}

/* A node on a disk with room for four segments: it takes entries as long as there is capacity, and what it took it can write. */
static void on_a_full_disk_entries_are_refused_in_time_and_marks_are_not(void **state)
{
    struct bench *b = bench_new(12);
    set_up(b);
    file_sim_set_faults(b->disk, (struct file_sim_faults){.space_bytes = 4 * SEGMENT + 100});
    while (raftlog_capacity(b->log) >= 3000 + RAFTBATCH_RECORD_BYTES) {
        put_plain(b, 1, 3000);
        begin_write(b);
        assert_true(b->writing);
        assert_int_equal(end_write(b), 0);
        do_chore(b);
        raftlog_retry_chores(b->log);
        assert_in_range(info_of(b).batches, 1, 500);
    }
    assert_int_equal(raftlog_chore_error(b->log), -ENOSPC);
    assert_in_range(info_of(b).segments, 3, 4);
    put_hard_state(b, 1);
    begin_write(b);
    assert_true(b->writing);
    assert_int_equal(end_write(b), 0);
    put_mark(b, 1, b->now->g[1].last, b->now->g[1].last + 1);
    begin_write(b);
    assert_true(b->writing);
    assert_int_equal(end_write(b), 0);
    for (int i = 0; i < 5; i++) {
        do_chore(b);
        raftlog_retry_chores(b->log);
    }
    assert_int_equal(raftlog_chore_error(b->log), 0);
    assert_true(raftlog_capacity(b->log) > SEGMENT / 2);
    restart(b);
    bench_free(b);
}

static void a_seal_is_written_once_behind_records(void **state)
{
    struct bench *b = bench_new(13);
    set_up(b);
    raftlog_seal(b->log);
    begin_write(b);
    assert_false(b->writing);
    put_plain(b, 0, 10);
    settle(b);
    for (int i = 0; i < 3; i++) {
        raftlog_seal(b->log);
        settle(b);
    }
    assert_int_equal(raftlog_durable(b->log), 2);
    restart(b);
    raftlog_seal(b->log);
    settle(b);
    assert_int_equal(raftlog_durable(b->log), 2);
    bench_free(b);
}

static void bytes_of_living_entries_are_counted(void **state)
{
    struct bench *b = bench_new(14);
    set_up(b);
    for (int i = 0; i < 10; i++) put_plain(b, 0, 68);
    assert_int_equal(raftlog_group_bytes(b->log, number_of(0)), 1000);
    put_mark(b, 0, 5, 4);
    assert_int_equal(raftlog_group_bytes(b->log, number_of(0)), 700);
    settle(b);
    restart(b);
    assert_int_equal(raftlog_group_bytes(b->log, number_of(0)), 700);
    assert_int_equal(raftlog_term(b->log, number_of(0), 5), 1);
    assert_int_equal(raftlog_term(b->log, number_of(0), 3), 0);
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_read_back_and_recovered),
        cmocka_unit_test(a_new_log_is_empty_and_can_be_written_to_at_once),
        cmocka_unit_test(what_is_put_while_a_batch_is_written_waits_for_the_next),
        cmocka_unit_test(an_entry_that_was_replaced_is_durable_only_when_its_successor_is),
        cmocka_unit_test(under_constant_load_with_marks_the_files_stay_few_for_ever),
        cmocka_unit_test(a_segment_is_used_again_and_not_made_anew),
        cmocka_unit_test(what_is_known_of_a_quiet_group_outlives_its_segment),
        cmocka_unit_test(the_group_that_holds_the_oldest_segment_is_named),
        cmocka_unit_test(entries_that_are_void_hold_no_segment),
        cmocka_unit_test(a_group_that_comes_back_begins_anew),
        cmocka_unit_test(a_batch_that_does_not_fit_begins_the_next_segment),
        cmocka_unit_test(a_batch_larger_than_a_segment_gets_a_larger_one),
        cmocka_unit_test(recent_entries_cost_no_disk_read_and_older_ones_few),
        cmocka_unit_test(what_is_not_written_yet_is_read_from_memory_without_a_cache),
        cmocka_unit_test(on_a_full_disk_entries_are_refused_in_time_and_marks_are_not),
        cmocka_unit_test(a_seal_is_written_once_behind_records),
        cmocka_unit_test(bytes_of_living_entries_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
