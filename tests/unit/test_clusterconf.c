/* What the configuration says of a node of a cluster: lists of nodes, addresses, and what does not go together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "configrig.h"
#include "server/clusterconf.h"

static const char three[] = "1=h1:17001/h1:7001,2=h2:17002/h2:7002,3=[::1]:17003/[::1]:7003";

/* ---- the list of the first nodes */

static void the_first_nodes_are_read_in_any_order(void **state)
{
    struct clusterconf_peers p;
    struct buf error = {0};
    assert_int_equal(clusterconf_peers(&p, "2=b:2/b:20  1=a:1/a:10,3=[fe80::1]:3/c:30", &error), 0);
    assert_int_equal(p.n, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(p.of[i].id, i + 1);
    assert_string_equal(p.of[0].address, "a:1");
    assert_string_equal(p.of[1].clients, "b:20");
    assert_string_equal(p.of[2].address, "[fe80::1]:3");
    clusterconf_fini(&p);
    assert_int_equal(clusterconf_peers(&p, "", &error), 0);
    assert_int_equal(p.n, 0);
    clusterconf_fini(&p);
}

static void a_list_that_makes_no_sense_is_refused_with_its_word(void **state)
{
    static const struct {
        const char *list, *says;
    } bad[] = {
        {"1=a:1", "'1=a:1': a node is number=host:cluster-port/host:port"},
        {"a:1/a:2", "a node is number="},
        {"1=a/a:2", "a node is number="},
        {"1=a:1/a:0", "a node is number="},
        {"1=a:70000/a:1", "a node is number="},
        {"1=::1:5/a:1", "a node is number="},
        {"x=a:1/a:2", "a node is number="},
        {"1=/a:2", "a node is number="},
        {"0=a:1/a:2", "numbers begin at 1"},
        {"17=a:1/a:2", "at most 16 nodes"},
        {"1=a:1/a:2 1=b:1/b:2", "'1=b:1/b:2': that number is there twice"},
        {"1=a:1/a:2,3=b:1/b:2", "there is no node 2"},
        {"1=a:1/a:2,2=a:1/b:2", "'2=a:1/b:2': another node has one of these addresses"},
        {"1=a:1/a:2,2=b:1/a:2", "another node has one of these addresses"},
        {"1=a:6379/a:2,2=b:1/a:6379", "another node has one of these addresses"},
        {"1=a:1/a:1", "nodes and clients cannot come to the same port"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct clusterconf_peers p;
        struct buf error = {0};
        assert_int_equal(clusterconf_peers(&p, bad[i].list, &error), -1);
        buf_add_byte(&error, '\0');
        if (!strstr(error.p, bad[i].says)) fail_msg("%s: '%s' does not say '%s'", bad[i].list, error.p, bad[i].says);
        clusterconf_fini(&p);
        buf_fini(&error);
    }
}

/* ---- a whole command line */

static void assert_addresses(const char *listen, const char *advertise, const char *clients, const struct node_peer *me, int argc, const char *const *argv)
{
    struct loaded l;
    struct clusterconf_addresses a;
    load(&l, argc, argv);
    if (l.outcome != CONFIG_READY) fail_msg("%s", l.error.p);
    assert_int_equal(clusterconf_addresses(&a, &l.cfg, me, &l.error), 0);
    assert_string_equal(a.listen, listen);
    assert_string_equal(a.advertise, advertise);
    assert_string_equal(a.clients, clients);
    unload(&l);
}

static void a_node_is_reached_where_it_listens_unless_it_is_told_otherwise(void **state)
{
    const struct node_peer me = {.id = 1, .address = "front:5", .clients = "front:6"};
    assert_addresses("127.0.0.1:16379", "127.0.0.1:16379", "127.0.0.1:6379", NULL, ARGS("--cluster"));
    assert_addresses("127.0.0.1:9", "127.0.0.1:9", "127.0.0.1:7001", NULL, ARGS("--cluster", "--port", "7001", "--cluster-port", "9"));
    assert_addresses("[::1]:17001", "[::1]:17001", "[::1]:7001", NULL, ARGS("--cluster", "--port", "7001", "--bind", "-::1"));
    assert_addresses("127.0.0.1:17001", "front:5", "front:6", &me, ARGS("--cluster", "--port", "7001"));
    assert_addresses("0.0.0.0:17001", "db1:17001", "db1:7001", NULL, ARGS("--cluster", "--port", "7001", "--bind", "*", "--requirepass", "x", "--advertise", "db1"));
    assert_addresses("127.0.0.1:17001", "db1:99", "db1:7001", &me, ARGS("--cluster", "--port", "7001", "--advertise", "db1:99"));
    assert_addresses("127.0.0.1:17001", "[fe80::1]:17001", "[fe80::1]:7001", NULL, ARGS("--cluster", "--port", "7001", "--advertise", "fe80::1"));
    assert_addresses("127.0.0.1:17001", "[fe80::1]:17001", "[fe80::1]:7001", NULL, ARGS("--cluster", "--port", "7001", "--advertise", "[fe80::1]"));
    assert_addresses("127.0.0.1:17001", "[fe80::1]:99", "[fe80::1]:7001", NULL, ARGS("--cluster", "--port", "7001", "--advertise", "[fe80::1]:99"));
}

static void options_that_contradict_each_other_are_refused(void **state)
{
    assert_bad("say cluster yes", ARGS("--peers", three));
    assert_bad("say cluster yes", ARGS("--join", "a:1"));
    assert_bad("not both cluster-peers and cluster-join", ARGS("--cluster", "--peers", three, "--node-id", "1", "--join", "a:1"));
    assert_bad("not both cluster and ephemeral", ARGS("--cluster", "--ephemeral"));
    assert_bad("not both cluster and snapshot", ARGS("--cluster", "--snapshot", "file:///tmp/x"));
    assert_bad("evicts nothing", ARGS("--cluster", "--maxmemory-policy", "allkeys-lru"));
    assert_bad("needs a TCP port", ARGS("--cluster", "--port", "0", "--unixsocket", "/tmp/x"));
    assert_bad("set cluster-port", ARGS("--cluster", "--port", "60000"));
    assert_bad("are the same", ARGS("--cluster", "--port", "7001", "--cluster-port", "7001"));
    assert_bad("cluster-seats must be more", ARGS("--cluster", "--cluster-shards", "16", "--cluster-seats", "16"));
    assert_bad("which of the 3 nodes of cluster-peers this one is, from 1 on; it is 0", ARGS("--cluster", "--peers", three));
    assert_bad("it is 4", ARGS("--cluster", "--peers", three, "--node-id", "4"));
    assert_bad("'a' is not of the form host:port", ARGS("--cluster", "--join", "b:1,a"));
    assert_bad("cannot reach this one at 0.0.0.0", ARGS("--cluster", "--bind", "0.0.0.0", "--protected-mode", "no"));
    assert_bad("cannot reach this one at 0.0.0.0", ARGS("--cluster", "--advertise", "0.0.0.0"));
    static const char *const nowhere[] = {"db1:x", "db1:", "db1:0", "db1:70000", "[db1]", "db 1", "10.0.0.1,10.0.0.2", "1=db1:16379/db1:6379", "::1:x"};
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) assert_bad("is neither a host nor host:cluster-port", ARGS("--cluster", "--advertise", nowhere[i]));
    assert_bad("that number is there twice", ARGS("--cluster", "--peers", "1=a:1/a:2 1=b:1/b:2", "--node-id", "1"));
}

static void eviction_cannot_be_switched_on_later(void **state)
{
    struct loaded l;
    load(&l, ARGS("--cluster"));
    const struct slice pair[] = {SLICE("maxmemory-policy"), SLICE("allkeys-lru")};
    l.error.len = 0;
    assert_int_equal(config_set(&l.cfg, pair, 1, &l.error), -1);
    buf_add_byte(&l.error, '\0');
    assert_non_null(strstr(l.error.p, "evicts nothing"));
    unload(&l);
}

static void a_file_says_the_same_in_a_table_of_its_own(void **state)
{
    char path[] = "/tmp/sherd-clusterconf-XXXXXX";
    static const char text[] = "port = 7002\n[cluster]\nenabled = true\nnode_id = 2\npeers = [\"1=h1:17001/h1:7001\", \"2=h2:17002/h2:7002\"]\nzone = \"east\"\ntimeout_ms = 250\n";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    struct loaded l;
    load(&l, ARGS("--config", path));
    unlink(path);
    if (l.outcome != CONFIG_READY) fail_msg("%s", l.error.p);
    assert_true(CONFIG_NUM(&l.cfg, cluster.enabled));
    assert_int_equal(CONFIG_NUM(&l.cfg, cluster.node_id), 2);
    assert_int_equal(CONFIG_NUM(&l.cfg, cluster.timeout_ms), 250);
    assert_string_equal(l.cfg.cluster.peers, "1=h1:17001/h1:7001 2=h2:17002/h2:7002");
    assert_string_equal(l.cfg.cluster.zone, "east");
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_nodes_are_read_in_any_order),
        cmocka_unit_test(a_list_that_makes_no_sense_is_refused_with_its_word),
        cmocka_unit_test(a_node_is_reached_where_it_listens_unless_it_is_told_otherwise),
        cmocka_unit_test(options_that_contradict_each_other_are_refused),
        cmocka_unit_test(eviction_cannot_be_switched_on_later),
        cmocka_unit_test(a_file_says_the_same_in_a_table_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
