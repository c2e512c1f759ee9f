/* The shared Raft log after crashes, failures and damage: what is recovered is the state after a whole batch, never before the last one that was durable; and damage is never silent. */
#include "raftbench.h"

#include <inttypes.h>

#include "base/crc32c.h"
#include "base/le.h"
#include "io/wholefile.h"

/* --- crashes --- */

/* From the same seed to the k-th changing call, and there the machine stops. Then another life, which is cut off too. */
static void crash_at(uint64_t seed, uint64_t k, bool power)
{
    struct bench *b = bench_new(seed);
    b->large = LARGE;
    file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = k, .short_writes = seed % 2});
    for (int life = 0; life < 3; life++) {
        if (open_log(b)) {
            assert_recovered(b);
            live(b, 60);
        }
        close_log(b);
        file_sim_crash(b->disk, power);
        if (life == 1) file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = file_sim_calls(b->disk) + 1 + rng_below(&b->rng, 40)});
    }
    assert_true(open_log(b));
    assert_recovered(b);
    bench_free(b);
}

static uint64_t calls_of_a_life(uint64_t seed)
{
    struct bench *b = bench_new(seed);
    b->large = LARGE;
    file_sim_set_faults(b->disk, (struct file_sim_faults){.short_writes = seed % 2});
    assert_true(open_log(b));
    assert_int_equal(live(b, 60), 0);
    uint64_t calls = file_sim_calls(b->disk);
    bench_free(b);
    assert_in_range(calls, 40, 2000);
    return calls;
}

static void a_crash_at_any_call_leaves_whole_batches_and_all_durable_ones(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (uint64_t k = 1, calls = calls_of_a_life(seed); k <= calls; k++)
            for (int power = 0; power < 2; power++) crash_at(seed, k, power);
}

/* Segments are small and marks frequent, so that files are reused all the time, over many lives on one disk. */
static void over_many_lives_with_reused_segments_nothing_durable_is_lost(void **state)
{
    uint64_t batches = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct bench *b = bench_new(seed + 100);
        for (int life = 0; life < 25; life++) {
            assert_true(open_log(b));
            assert_recovered(b);
            file_sim_set_faults(b->disk, (struct file_sim_faults){.power_off_at = file_sim_calls(b->disk) + 1 + rng_below(&b->rng, 200), .short_writes = life % 2});
            live(b, 400);
            close_log(b);
            file_sim_crash(b->disk, rng_below(&b->rng, 2));
        }
        batches += b->durable->batch;
        bench_free(b);
    }
    assert_true(batches > 2000);
}

static void a_call_that_fails_costs_nothing_that_was_durable(void **state)
{
    for (uint64_t seed = 1; seed <= 2; seed++)
        for (uint64_t k = 1, calls = calls_of_a_life(seed); k <= calls; k++) {
            struct bench *b = bench_new(seed);
            b->large = LARGE;
            file_sim_set_faults(b->disk, (struct file_sim_faults){.fail_at = k, .fail_errno = k % 2 ? EIO : ENOSPC, .short_writes = seed % 2});
            if (open_log(b)) {
                live(b, 60);
                bool broken = raftlog_broken(b->log);
                put_hard_state(b, 0);
                if (broken) assert_false(raftlog_begin_write(b->log, &b->write));
            }
            close_log(b);
            file_sim_crash(b->disk, k % 3 == 0);
            assert_true(open_log(b));
            assert_recovered(b);
            bench_free(b);
        }
}

/* --- damage --- */

static void path_of(char path[64], uint64_t segment) { snprintf(path, 64, "d/raft/%010" PRIu64 ".raft", segment); }

static struct buf *file_of(struct bench *b, uint64_t segment)
{
    char path[64];
    path_of(path, segment);
    return file_sim_bytes(b->disk, path);
}

/* A log of some segments, all of whose batches are durable. sealed: with an empty batch at the end. */
static struct bench *some_log(uint64_t seed, bool sealed)
{
    struct bench *b = bench_new(seed);
    assert_true(open_log(b));
    while (b->batches < 60) step(b);
    assert_int_equal(write_all(b), 0);
    put_entries(b, 0);
    assert_int_equal(write_all(b), 0);
    if (sealed) raftlog_seal(b->log);
    assert_int_equal(write_all(b), 0);
    struct raftlog_info info;
    raftlog_info(b->log, &info);
    assert_true(info.segments >= 2);
    return b;
}

struct extent { /* of the batches of a live segment */
    uint64_t segment, used;
};

static uint32_t live_segments(struct bench *b, struct extent out[16])
{
    struct buf *id = file_sim_bytes(b->disk, "d/raft/raftlog.id");
    struct raftlog_info info;
    uint64_t log;
    assert_int_equal(raftbatch_read_id(buf_slice(id), &log), RAFTBATCH_ID_GOOD);
    raftlog_info(b->log, &info);
    uint64_t first = b->write.segment + 1 - info.segments;
    for (uint32_t i = 0; i < info.segments; i++) {
        const struct buf *file = file_of(b, first + i);
        struct raftbatch_header h;
        out[i] = (struct extent){.segment = first + i};
        while (out[i].used < file->len && raftbatch_read_header(file->p + out[i].used, log, first + i, file->len - out[i].used, &h)) out[i].used += raftbatch_size(h.bytes);
    }
    return (uint32_t)info.segments;
}

/* The damaged log is refused, and the message names the segment and an offset at or before the damage. */
static void assert_refused(struct bench *b, uint64_t segment, uint64_t at)
{
    char name[64];
    assert_false(open_log(b));
    buf_add_byte(&b->error, '\0');
    snprintf(name, sizeof name, "segment %" PRIu64 ", offset ", segment);
    const char *where = strstr(b->error.p, name);
    assert_non_null(where);
    assert_true(strtoull(where + strlen(name), NULL, 10) <= at);
}

static void flip_in(struct bench *b, struct extent e, uint64_t last_batch_at)
{
    struct buf *file = file_of(b, e.segment);
    for (uint64_t at = 0; at < e.used; at += at % RAFTBATCH_BLOCK < 200 ? 1 + at % 3 : 61) {
        char before = file->p[at];
        file->p[at] ^= (char)(1 << rng_below(&b->rng, 8));
        if (at < last_batch_at) {
            assert_refused(b, e.segment, at);
        } else {
            assert_true(open_log(b));
            assert_int_equal(raftlog_durable(b->log), b->now->batch - 1);
            close_log(b);
        }
        file->p[at] = before;
    }
}

static void a_flipped_bit_in_any_batch_but_the_last_is_told(void **state)
{
    for (uint64_t seed = 21; seed <= 22; seed++) {
        struct bench *b = some_log(seed, true);
        struct extent e[16];
        uint32_t n = live_segments(b, e);
        close_log(b);
        for (uint32_t i = 0; i < n; i++) flip_in(b, e[i], i + 1 < n ? e[i].used : e[i].used - RAFTBATCH_BLOCK);
        assert_true(open_log(b));
        assert_recovered(b);
        bench_free(b);
    }
}

/* Behind the batches and in files that wait to be used lies nothing that counts. */
static void damage_where_nothing_is_changes_nothing(void **state)
{
    struct bench *b = some_log(23, true);
    struct extent e[16];
    uint32_t n = live_segments(b, e);
    close_log(b);
    for (uint64_t segment = 1; segment < e[n - 1].segment + 3; segment++) {
        struct buf *file = file_of(b, segment);
        uint64_t from = segment < e[0].segment || segment > e[n - 1].segment ? 0 : e[segment - e[0].segment].used;
        for (uint64_t at = from; file && at < file->len; at++) file->p[at] = (char)rng_u64(&b->rng);
    }
    assert_true(open_log(b));
    assert_recovered(b);
    assert_int_equal(live(b, 300), 0);
    bench_free(b);
}

/* Without a seal a flipped bit in the last batch looks like a write that was not finished: that batch is lost, and no other. */
static void a_torn_last_batch_is_cut_and_its_place_used_again(void **state)
{
    struct bench *b = some_log(24, false);
    uint64_t batch = raftlog_durable(b->log);
    struct raftlog_info info;
    struct raftlog_write last = b->write;
    close_log(b);
    struct buf *file = file_of(b, last.segment);
    file->p[last.at + 70] ^= 4;
    assert_true(open_log(b));
    assert_int_equal(raftlog_durable(b->log), batch - 1);
    raftlog_info(b->log, &info);
    assert_true(info.torn_bytes > 0);
    raftlog_put_hard_state(b->log, 999, 5, 6);
    assert_true(raftlog_begin_write(b->log, &b->write));
    assert_true(b->write.batch == batch && b->write.segment == last.segment && b->write.at == last.at);
    assert_int_equal(raftlog_write_run(file_sim_ops(b->disk), &b->write), 0);
    raftlog_written(b->log, batch, 0);
    close_log(b);
    assert_true(open_log(b));
    assert_int_equal(raftlog_durable(b->log), batch);
    bench_free(b);
}

/* Bytes that a client put into a value, a whole batch of this very segment: without the log's number they are never taken for one, even where the batch around them is torn. */
static void a_value_that_looks_like_a_batch_is_none(void **state)
{
    struct bench *b = bench_new(25);
    char *forged = aligned_alloc(RAFTBATCH_BLOCK, 4 * RAFTBATCH_BLOCK);
    assert_true(open_log(b));
    raftlog_put_hard_state(b->log, 1, 1, 1);
    assert_int_equal(write_all(b), 0);
    for (int i = 0; i < 4; i++) raftbatch_seal(forged + i * RAFTBATCH_BLOCK, &(struct raftbatch_header){.log = 1, .segment = 1, .batch = 5, .segment_bytes = SEGMENT});
    size_t in_front = RAFTBATCH_BLOCK - RAFTBATCH_HEADER_BYTES - RAFTBATCH_RECORD_BYTES;
    struct buf value = {0};
    memset(buf_room(&value, in_front), 'x', in_front);
    value.len = in_front;
    buf_add(&value, forged, 4 * RAFTBATCH_BLOCK);
    raftlog_put_entry(b->log, 1, 1, 1, 1, buf_slice(&value));
    begin_write(b);
    assert_int_equal(raftlog_write_run(file_sim_ops(b->disk), &b->write), 0);
    raftlog_written(b->log, b->write.batch, 0);
    close_log(b);
    struct buf *file = file_of(b, 1);
    assert_memory_equal(file->p + b->write.at + RAFTBATCH_BLOCK, forged, RAFTBATCH_BLOCK);
    file->p[b->write.at + 100] ^= 1;
    assert_true(open_log(b));
    assert_int_equal(raftlog_durable(b->log), 1);
    free(forged);
    buf_fini(&value);
    bench_free(b);
}

static void a_file_that_is_missing_or_too_short_is_told(void **state)
{
    struct bench *b = some_log(26, true);
    struct extent e[16];
    uint32_t n = live_segments(b, e);
    struct buf copy = {0};
    close_log(b);
    for (uint32_t i = 0; i < n; i++) {
        struct buf *file = file_of(b, e[i].segment);
        size_t len = file->len;
        file->len = len - RAFTBATCH_BLOCK;
        assert_false(open_log(b));
        file->len = len;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        const struct file_ops *f = file_sim_ops(b->disk);
        char path[64];
        path_of(path, e[i].segment);
        copy.len = 0;
        buf_add_slice(&copy, buf_slice(file_of(b, e[i].segment)));
        assert_int_equal(f->unlink(f->ctx, path), 0);
        assert_false(open_log(b));
        buf_add_byte(&b->error, '\0');
        assert_non_null(strstr(b->error.p, "are missing: a segment before"));
        assert_int_equal(file_put_whole(f, "d/raft", path, buf_slice(&copy)), 0);
    }
    assert_true(open_log(b));
    assert_recovered(b);
    buf_fini(&copy);
    bench_free(b);
}

static void expect_refusal(struct bench *b, const char *why)
{
    assert_false(open_log(b));
    buf_add_byte(&b->error, '\0');
    assert_non_null(strstr(b->error.p, why));
}

static void a_log_without_a_right_identity_is_refused(void **state)
{
    struct bench *b = some_log(27, true);
    const struct file_ops *f = file_sim_ops(b->disk);
    close_log(b);
    struct buf *id = file_sim_bytes(b->disk, "d/raft/raftlog.id"), copy = {0};
    buf_add_slice(&copy, buf_slice(id));
    for (size_t i = 0; i < id->len; i++) {
        id->p[i] ^= 32;
        expect_refusal(b, "raftlog.id: is damaged");
        id->p[i] ^= 32;
    }
    le_set_u32(id->p + 8, 2);
    le_set_u32(id->p + 20, crc32c(CRC32C_START, id->p, 20));
    expect_refusal(b, "another version");
    assert_int_equal(f->unlink(f->ctx, "d/raft/raftlog.id"), 0);
    expect_refusal(b, "is missing, though there are segments");
    assert_int_equal(file_put_whole(f, "d/raft", "d/raft/raftlog.id", buf_slice(&copy)), 0);
    assert_true(open_log(b));
    assert_recovered(b);
    buf_fini(&copy);
    bench_free(b);
}

/* Two segments of one batch each, with right checksums. The first one makes groups 1 and 2, the second one begins with the states of `told` of them. */
static void put_two_segments(struct bench *b, uint32_t told, struct raftbatch_record then)
{
    const struct file_ops *f = file_sim_ops(b->disk);
    struct buf id = {0};
    raftbatch_write_id(&id, 7);
    assert_int_equal(f->mkdir(f->ctx, "d/raft"), 0);
    assert_int_equal(file_put_whole(f, "d/raft", "d/raft/raftlog.id", buf_slice(&id)), 0);
    for (uint64_t segment = 1; segment <= 2; segment++) {
        struct buf records = {0}, file = {0};
        char path[64];
        for (uint32_t g = 1; g <= 2 && segment == 1; g++) raftbatch_add(&records, &(struct raftbatch_record){.group = g, .kind = RAFTBATCH_HARD_STATE, .index = 3, .term = 5});
        for (uint32_t g = 1; g <= told && segment == 2; g++) raftbatch_add_state(&records, g, 5, 3, 0, &(struct raftlog_mark){.first = 1});
        if (segment == 2) raftbatch_add(&records, &then);
        memset(buf_room(&file, SEGMENT), 0, SEGMENT);
        file.len = SEGMENT;
        memcpy(file.p + RAFTBATCH_HEADER_BYTES, records.p, records.len);
        raftbatch_seal(file.p, &(struct raftbatch_header){.log = 7, .segment = segment, .batch = segment, .oldest = 1, .segment_bytes = SEGMENT, .bytes = records.len});
        path_of(path, segment);
        assert_int_equal(file_put_whole(f, "d/raft", path, buf_slice(&file)), 0);
        buf_fini(&records);
        buf_fini(&file);
    }
    buf_fini(&id);
}

static void a_segment_that_does_not_begin_with_the_states_of_all_groups_is_refused(void **state)
{
    for (uint32_t told = 0; told <= 2; told++)
        for (int gone = 0; gone < 2; gone++) {
            struct bench *b = bench_new(29);
            put_two_segments(b, told, gone ? (struct raftbatch_record){.group = 2, .kind = RAFTBATCH_GONE} : (struct raftbatch_record){.group = 1, .kind = RAFTBATCH_HARD_STATE, .term = 6});
            if (told < 2) {
                expect_refusal(b, "segment 2, offset ");
                assert_non_null(strstr(b->error.p, "does not tell of all groups"));
            } else {
                assert_true(open_log(b));
                assert_int_equal(raftlog_groups(b->log, NULL, 0), gone ? 1 : 2);
            }
            bench_free(b);
        }
}

static void an_entry_that_rots_while_the_log_is_open_is_told_when_it_is_read(void **state)
{
    struct bench *b = bench_new(28);
    struct raftlog_entry e;
    b->options.cache_bytes = 1;
    assert_true(open_log(b));
    raftlog_put_entry(b->log, 1, 1, 1, 1, SLICE("one"));
    raftlog_put_entry(b->log, 1, 2, 1, 1, SLICE("two"));
    assert_int_equal(write_all(b), 0);
    file_of(b, 1)->p[RAFTBATCH_HEADER_BYTES + RAFTBATCH_RECORD_BYTES + 1] ^= 1;
    assert_int_equal(raftlog_read(b->log, 1, 1, &e), -EBADMSG);
    assert_int_equal(raftlog_read(b->log, 1, 2, &e), 0);
    assert_true(slice_eq(e.data, SLICE("two")));
    bench_free(b);
}

/* What only the system's memory holds after a process died is made durable before it is relied on. */
static void what_is_recovered_survives_a_power_loss_that_follows(void **state)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct bench *b = bench_new(seed);
        const struct file_ops *f = file_sim_ops(b->disk);
        assert_true(open_log(b));
        put_entries(b, 1);
        begin_write(b);
        int fd = f->open(f->ctx, b->write.path, FILE_CHANGE);
        assert_int_equal(file_write_all(f, fd, b->write.bytes, b->write.at), 0); /* and no sync: the process dies here, the system does not */
        close_log(b);
        assert_true(open_log(b));
        assert_int_equal(raftlog_durable(b->log), 1);
        close_log(b);
        file_sim_crash(b->disk, true);
        assert_true(open_log(b));
        assert_int_equal(raftlog_durable(b->log), 1);
        bench_free(b);
    }
}

/* --- the format --- */

/* A record of each kind, in two batches. */
static void write_golden(struct bench *b)
{
    b->options.random = 0x0123456789abcdef;
    assert_true(open_log(b));
    raftlog_put_hard_state(b->log, 2, 7, 3);
    raftlog_put_entry(b->log, 2, 1, 7, 1, SLICE("first"));
    raftlog_put_entry(b->log, 2, 2, 7, 3, SLICE(""));
    raftlog_put_entry(b->log, 2, 3, 7, 1, SLICE("void"));
    raftlog_put_hard_state(b->log, 300, 1, 1);
    assert_int_equal(write_all(b), 0);
    raftlog_put_truncate(b->log, 2, 3);
    raftlog_put_mark(b->log, 2, &(struct raftlog_mark){2, 7, 2, 1, SLICE("members")});
    raftlog_put_gone(b->log, 300);
    raftlog_put_entry(b->log, 70000, 1, 1, 2, SLICE("another group"));
    assert_int_equal(write_all(b), 0);
    struct buf value = {0};
    memset(buf_room(&value, 60000), 'v', 60000);
    value.len = 60000;
    raftlog_put_entry(b->log, 2, 3, 8, 1, buf_slice(&value)); /* begins the second segment, with the states of the groups */
    assert_int_equal(write_all(b), 0);
    buf_fini(&value);
}

static const char *const golden_names[] = {"raftlog.id", "0000000001.raft", "0000000002.raft"};

/* The golden files are the segments up to where zeros begin. Gives the path that the file has on the simulated disk. */
static void read_golden(int i, char path[64], struct buf *golden)
{
    snprintf(path, 64, "tests/golden/raftlog/%s", golden_names[i]);
    assert_int_equal(wholefile_read(path, 1 << 20, golden), 0);
    snprintf(path, 64, "d/raft/%s", golden_names[i]);
}

static void the_golden_files_are_read(void **state)
{
    struct bench *b = bench_new(1);
    const struct file_ops *f = file_sim_ops(b->disk);
    struct raftlog_state s;
    struct raftlog_entry e;
    assert_int_equal(f->mkdir(f->ctx, "d/raft"), 0);
    for (int i = 0; i < 3; i++) {
        char path[64];
        struct buf golden = {0};
        read_golden(i, path, &golden);
        while (i > 0 && golden.len < SEGMENT) buf_add_byte(&golden, 0);
        assert_int_equal(file_put_whole(f, "d/raft", path, buf_slice(&golden)), 0);
        buf_fini(&golden);
    }
    assert_true(open_log(b));
    assert_true(raftlog_groups(b->log, NULL, 0) == 2 && raftlog_durable(b->log) == 3);
    assert_true(raftlog_state(b->log, 2, &s) && s.term == 7 && s.vote == 3 && s.mark_index == 2 && s.mark_term == 7 && s.first == 2 && s.last == 3 && s.configuration_index == 1);
    assert_true(slice_eq(s.configuration, SLICE("members")));
    assert_true(raftlog_read(b->log, 2, 2, &e) == 0 && e.term == 7 && e.type == 3 && e.data.n == 0);
    assert_true(raftlog_read(b->log, 2, 3, &e) == 0 && e.term == 8 && e.type == 1 && e.data.n == 60000);
    assert_true(raftlog_read(b->log, 70000, 1, &e) == 0 && e.term == 1 && e.type == 2 && slice_eq(e.data, SLICE("another group")));
    bench_free(b);
}

static void the_format_is_that_of_the_golden_files(void **state)
{
    struct bench *b = bench_new(1);
    write_golden(b);
    for (int i = 0; i < 3; i++) {
        char path[64];
        struct buf golden = {0};
        read_golden(i, path, &golden);
        const struct buf *now = file_sim_bytes(b->disk, path);
        assert_true(golden.len > 0 && golden.len <= now->len);
        assert_memory_equal(golden.p, now->p, golden.len);
        for (size_t at = golden.len; at < now->len; at++) assert_int_equal(now->p[at], 0);
        buf_fini(&golden);
    }
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_at_any_call_leaves_whole_batches_and_all_durable_ones),
        cmocka_unit_test(over_many_lives_with_reused_segments_nothing_durable_is_lost),
        cmocka_unit_test(a_call_that_fails_costs_nothing_that_was_durable),
        cmocka_unit_test(a_flipped_bit_in_any_batch_but_the_last_is_told),
        cmocka_unit_test(damage_where_nothing_is_changes_nothing),
        cmocka_unit_test(a_torn_last_batch_is_cut_and_its_place_used_again),
        cmocka_unit_test(a_value_that_looks_like_a_batch_is_none),
        cmocka_unit_test(a_file_that_is_missing_or_too_short_is_told),
        cmocka_unit_test(a_log_without_a_right_identity_is_refused),
        cmocka_unit_test(a_segment_that_does_not_begin_with_the_states_of_all_groups_is_refused),
        cmocka_unit_test(an_entry_that_rots_while_the_log_is_open_is_told_when_it_is_read),
        cmocka_unit_test(what_is_recovered_survives_a_power_loss_that_follows),
        cmocka_unit_test(the_format_is_that_of_the_golden_files),
        cmocka_unit_test(the_golden_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
