/* What becomes of every command on a node of a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/clusterrules.h"
#include "server/server.h"

static const char *const rule_words[] = {"relayed", "narrow", "waits", "wide", "leaders", "transaction", "here", "asked", "refused"};

static enum clusterrule rule(const char *name)
{
    struct command_table *live = server_commands();
    const struct command *c = command_find(live, slice_str(name));
    if (!c) fail_msg("there is no %s", name);
    enum clusterrule r = clusterrules_of(c);
    command_table_free(live);
    return r;
}

/* A command that is new says here what becomes of it: the numbers change only with the table. */
static void every_command_has_one_rule_and_its_row_keeps_it(void **state)
{
    struct command_table *live = server_commands(), *node = clusterrules_commands();
    unsigned n[CLUSTERRULE_REFUSED + 1] = {0};
    assert_int_equal(command_count(live), command_count(node));
    assert_int_equal(command_rows(live), command_rows(node));
    for (size_t i = 0; i < command_rows(live); i++) {
        const struct command *a = command_at(live, i), *b = command_at(node, i);
        enum clusterrule r = clusterrules_of(a);
        assert_string_equal(a->name, b->name);
        n[r]++;
        bool placed = a->class == CLASS_KEYED || a->class == CLASS_SPACE;
        if (r == CLUSTERRULE_RELAYED || r == CLUSTERRULE_NARROW) assert_true(placed && b->class == a->class && !(b->flags & CMD_BLOCKING));
        if (r == CLUSTERRULE_RELAYED) assert_true(b->fn == a->fn && !b->needs_all);
        if (r == CLUSTERRULE_NARROW) assert_true(b->fn != a->fn && b->needs_all);
        if (r == CLUSTERRULE_WIDE || r == CLUSTERRULE_LEADERS) assert_true(b->class == CLASS_LOCAL && b->fn != a->fn && b->flags & CMD_NO_MULTI);
        if (r == CLUSTERRULE_TRANSACTION) assert_true(b->class == CLASS_LOCAL && !b->each_inner);
        bool queued = (a->class == CLASS_KEYED && r != CLUSTERRULE_REFUSED) || (r == CLUSTERRULE_HERE && a->class == CLASS_LOCAL && strcmp(a->name, "cluster") != 0) || r == CLUSTERRULE_TRANSACTION;
        if (!queued && !(b->flags & CMD_NO_MULTI)) fail_msg("%s would be queued by MULTI", a->name);
        if (r == CLUSTERRULE_HERE && (a->flags & CMD_WRITE || a->class == CLASS_SPACE)) fail_msg("%s would change shards", a->name);
        if (r == CLUSTERRULE_ASKED) assert_true(b->class == CLASS_LOCAL && b->fn != a->fn && b->flags & CMD_NO_MULTI);
        if (r == CLUSTERRULE_REFUSED && (b->class != CLASS_LOCAL || b->fn == a->fn || b->flags & CMD_WRITE || b->keys || b->first_key)) fail_msg("%s is refused, but its row is not", a->name);
    }
    for (int r = 0; r <= CLUSTERRULE_REFUSED; r++) {
        if (n[r] == 0) fail_msg("no command is %s", rule_words[r]);
    }
    assert_int_equal(n[CLUSTERRULE_NARROW], 3); /* SORT, SORT_RO, MEMORY */
    command_table_free(live);
    command_table_free(node);
}

static void classes_of_commands_have_the_rules_that_the_documentation_says(void **state)
{
    static const struct {
        enum clusterrule rule;
        const char *names[32];
    } expected[] = {
        {CLUSTERRULE_RELAYED, {"get", "set", "mset", "del", "incr", "lpush", "hset", "zadd", "sadd", "pfadd", "setbit", "rename", "copy", "restore", "expire", "object", "zunionstore", "move", "range.get", "range.count", "range.del", "range.lock", "range.locks", "range.exec", "bucket.get"}},
        {CLUSTERRULE_LEADERS, {"range.map", "range.explain"}},
        {CLUSTERRULE_ASKED, {"space.set", "range.split", "range.merge", "range.move"}},
        {CLUSTERRULE_NARROW, {"sort", "sort_ro", "memory"}},
        {CLUSTERRULE_WIDE, {"dbsize", "keys", "randomkey", "scan", "flushdb", "flushall", "swapdb"}},
        {CLUSTERRULE_TRANSACTION, {"multi", "exec", "discard", "watch", "unwatch"}},
        {CLUSTERRULE_WAITS, {"blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"}},
        {CLUSTERRULE_HERE, {"ping", "select", "info", "cluster", "config", "client", "hello", "command", "shutdown", "stats.shards", "health", "wait", "space.list", "space.info", "publish", "spublish", "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "pubsub"}},
        {CLUSTERRULE_REFUSED, {
                               "snapshot.publish", "snapshot.export", "save", "bgsave", "bgrewriteaof", "debug"}},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        for (size_t k = 0; k < 32 && expected[i].names[k]; k++) {
            enum clusterrule r = rule(expected[i].names[k]);
            if (r != expected[i].rule) fail_msg("%s is %s, not %s", expected[i].names[k], rule_words[r], rule_words[expected[i].rule]);
        }
    }
}

static void expect_call(const struct command *c, const char *const *words, uint32_t n, const char *expected)
{
    struct slice argv[8];
    struct buf out = {0};
    for (uint32_t i = 0; i < n; i++) argv[i] = slice_str(words[i]);
    struct exec x = {.cmd = c, .argv = argv, .argc = n, .out = {.out = &out, .resp = 2}};
    c->fn(&x);
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, expected);
    buf_fini(&out);
}
#define CALL(t, expected, ...)                                                                  \
    expect_call(command_find(t, slice_str(((const char *const[]){__VA_ARGS__})[0])), (const char *const[]){__VA_ARGS__}, \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), expected)

static void what_is_refused_says_so_by_its_name(void **state)
{
    struct command_table *t = clusterrules_commands();
    CALL(t, "-ERR SAVE is not available in a cluster\r\n", "save");
    CALL(t, "-ERR BGSAVE is not available in a cluster\r\n", "bgsave");
    CALL(t, "-ERR SORT over all keys is not available in a cluster\r\n", "sort", "k", "by", "w_*");
    CALL(t, "-ERR MEMORY over all keys is not available in a cluster\r\n", "memory", "stats");
    command_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_one_rule_and_its_row_keeps_it),
        cmocka_unit_test(classes_of_commands_have_the_rules_that_the_documentation_says),
        cmocka_unit_test(what_is_refused_says_so_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
