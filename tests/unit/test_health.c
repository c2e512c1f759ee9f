/* The four checks of HEALTH: each state of each has its facts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/health.h"

#define MIB(n) ((uint64_t)(n) << 20)

/* A server at noon: a dump an hour old, nothing wrong. */
static struct health_facts good(void)
{
    return (struct health_facts){.durable = true, .now_ms = 100000000, .started_ms = 1000000, .shard = 1, .log_bytes = MIB(10), .log_limit = MIB(64), .dumped = true,
                                 .dumped_ms = 100000000 - 3600000, .dump_bytes = MIB(200), .interval_s = 3600, .changes = 5, .disk_free = MIB(10000),
                                 .disk_total = MIB(50000), .data_bytes = MIB(300)};
}

static void expect(const struct health_facts *f, enum health_check check, enum health_state state, const char *words)
{
    struct health_finding found[HEALTH_CHECKS];
    health_judge(f, found);
    for (int i = 0; i < HEALTH_CHECKS; i++) {
        enum health_state wanted = i == (int)check ? state : HEALTH_OK;
        if (found[i].state != wanted) fail_msg("%s: %s: %s", health_check_name((enum health_check)i), health_state_name(found[i].state), found[i].text);
        assert_true(strlen(found[i].text) > 20 && strlen(found[i].text) < sizeof found[i].text - 1);
    }
    assert_int_equal(health_worst(found, HEALTH_CHECKS), state);
    if (!strstr(found[check].text, words)) fail_msg("%s", found[check].text);
}

static void a_server_without_trouble_is_ok(void **state)
{
    struct health_facts f = good();
    expect(&f, HEALTH_WAL, HEALTH_OK, "10.0 MiB of 64.0 MiB");
    expect(&f, HEALTH_DUMP, HEALTH_OK, "3600 s ago");
    f.durable = false;
    f.log_broken = true;
    expect(&f, HEALTH_WAL, HEALTH_OK, "ephemeral");
}

static void a_log_over_its_limit_is_a_warning_unless_a_dump_is_being_made(void **state)
{
    struct health_facts f = good();
    f.log_bytes = MIB(65);
    expect(&f, HEALTH_WAL, HEALTH_WARN, "shard 1 has 65.0 MiB");
    f.dumping = true;
    expect(&f, HEALTH_WAL, HEALTH_OK, "a dump is being made");
    f.log_bytes = MIB(64 * 5);
    expect(&f, HEALTH_WAL, HEALTH_FAIL, "over 4 times");
}

static void a_log_that_cannot_be_written_fails(void **state)
{
    struct health_facts f = good();
    f.log_error = ENOSPC;
    expect(&f, HEALTH_WAL, HEALTH_FAIL, "No space left");
    f.log_broken = true;
    expect(&f, HEALTH_WAL, HEALTH_FAIL, "started again");
}

static void an_old_dump_is_a_warning_only_if_there_is_something_to_dump(void **state)
{
    struct health_facts f = good();
    f.dumped_ms = f.now_ms - 7201 * 1000;
    expect(&f, HEALTH_DUMP, HEALTH_WARN, "7201 s ago");
    f.changes = 0;
    expect(&f, HEALTH_DUMP, HEALTH_OK, "7201 s ago");
    f.changes = 5;
    f.dumping = true;
    expect(&f, HEALTH_DUMP, HEALTH_OK, "7201 s ago");
    f.dumping = false;
    f.interval_s = 0;
    expect(&f, HEALTH_DUMP, HEALTH_OK, "7201 s ago");
}

static void before_the_first_dump_the_age_counts_from_the_start(void **state)
{
    struct health_facts f = good();
    f.dumped = false;
    f.dumped_ms = 0;
    expect(&f, HEALTH_DUMP, HEALTH_WARN, "was started 99000 s ago");
    f.started_ms = f.now_ms - 1000;
    expect(&f, HEALTH_DUMP, HEALTH_OK, "the log has everything");
}

static void a_failed_dump_fails(void **state)
{
    struct health_facts f = good();
    f.dump_error = EIO;
    expect(&f, HEALTH_DUMP, HEALTH_FAIL, "Input/output error");
}

static void damage_at_the_start_fails(void **state)
{
    struct health_facts f = good();
    f.replay_errors = 3;
    expect(&f, HEALTH_CRC, HEALTH_FAIL, "3 damaged records");
}

static void the_disk_must_have_space_for_the_next_dump(void **state)
{
    struct health_facts f = good();
    f.disk_free = MIB(300);
    expect(&f, HEALTH_DISK, HEALTH_WARN, "may need 364.0 MiB");
    f.dump_bytes = 0; /* no dump yet: as large as the data */
    f.disk_free = MIB(400);
    expect(&f, HEALTH_DISK, HEALTH_WARN, "may need 514.0 MiB");
    f.disk_free = MIB(20);
    expect(&f, HEALTH_DISK, HEALTH_FAIL, "nearly full");
    f.disk_total = 0;
    expect(&f, HEALTH_DISK, HEALTH_WARN, "does not tell");
}

static void a_server_that_loads_is_not_ready(void **state)
{
    struct health_facts f = good();
    struct health_finding found[HEALTH_CHECKS];
    f.loading = true;
    health_judge(&f, found);
    assert_int_equal(health_worst(found, HEALTH_CHECKS), HEALTH_WARN);
    assert_string_equal(found[HEALTH_CRC].text, "the data is still being loaded");
}

/* ---- of a node */

static void expect_node(const struct health_node_facts *f, enum health_node_check check, enum health_state state, const char *words)
{
    struct health_finding found[HEALTH_NODE_CHECKS];
    health_judge_node(f, found);
    for (int i = 0; i < HEALTH_NODE_CHECKS; i++) {
        enum health_state wanted = i == (int)check ? state : HEALTH_OK;
        if (found[i].state != wanted) fail_msg("%s: %s: %s", health_node_check_name((enum health_node_check)i), health_state_name(found[i].state), found[i].text);
        assert_true(strlen(found[i].text) > 20 && strlen(found[i].text) < sizeof found[i].text - 1);
    }
    assert_int_equal(health_worst(found, HEALTH_NODE_CHECKS), state);
    if (!strstr(found[check].text, words)) fail_msg("%s", found[check].text);
}

static void each_trouble_of_a_node_has_its_check(void **state)
{
    const struct health_node_facts well = {.up = true, .nodes = 3, .nodes_alive = 3, .nodes_reached = 3, .groups = 18, .groups_led = 18, .disk_free = MIB(10000), .disk_total = MIB(50000)};
    struct health_node_facts f = well;
    expect_node(&f, HEALTH_GROUPS, HEALTH_OK, "all 18 groups");
    f.disk_total = 0;
    expect_node(&f, HEALTH_NODE_DISK, HEALTH_OK, "does not tell");
    f = well, f.up = false;
    expect_node(&f, HEALTH_NODE, HEALTH_WARN, "is starting");
    f = well, f.groups_led = 16;
    expect_node(&f, HEALTH_GROUPS, HEALTH_FAIL, "2 of 18 groups");
    f = well, f.groups = f.groups_led = 0;
    expect_node(&f, HEALTH_GROUPS, HEALTH_FAIL, "not know");
    f = well, f.nodes_alive = f.nodes_reached = 2;
    expect_node(&f, HEALTH_PEERS, HEALTH_WARN, "1 of 3 nodes are silent");
    f = well, f.nodes_reached = 1;
    expect_node(&f, HEALTH_PEERS, HEALTH_WARN, "2 of 3 nodes are heard of, but cannot be reached");
    f = well, f.nodes = f.nodes_alive = f.nodes_reached = 0;
    expect_node(&f, HEALTH_PEERS, HEALTH_WARN, "heard nothing of the cluster");
    f = well, f.recovering = 2, f.filling = 1;
    expect_node(&f, HEALTH_REPLICAS, HEALTH_WARN, "3 replicas");
    f = well, f.log_error = ENOSPC;
    expect_node(&f, HEALTH_NODE_DISK, HEALTH_FAIL, "No space left");
    f = well, f.disk_free = MIB(10);
    expect_node(&f, HEALTH_NODE_DISK, HEALTH_WARN, "10.0 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_without_trouble_is_ok),
        cmocka_unit_test(a_log_over_its_limit_is_a_warning_unless_a_dump_is_being_made),
        cmocka_unit_test(a_log_that_cannot_be_written_fails),
        cmocka_unit_test(an_old_dump_is_a_warning_only_if_there_is_something_to_dump),
        cmocka_unit_test(before_the_first_dump_the_age_counts_from_the_start),
        cmocka_unit_test(a_failed_dump_fails),
        cmocka_unit_test(damage_at_the_start_fails),
        cmocka_unit_test(a_server_that_loads_is_not_ready),
        cmocka_unit_test(the_disk_must_have_space_for_the_next_dump),
        cmocka_unit_test(each_trouble_of_a_node_has_its_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
