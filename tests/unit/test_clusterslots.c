/* Redis's slots: the hash of keys, and the answers that say that one node has them all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "server/clusterslots.h"

static void keys_have_the_slots_that_redis_gives_them(void **state)
{
    static const struct {
        const char *key;
        uint16_t slot;
    } known[] = {{"", 0}, {"123456789", 12739}, {"foo", 12182}, {"bar", 5061}, {"{foo}x", 12182}, {"a{foo}b{bar}", 12182}, {"{}foo", 9500}, {"{foo", 13308}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) assert_int_equal(clusterslots_of(slice_str(known[i].key)), known[i].slot);
}

static const char nodes[] = "aaa 127.0.0.1:7001@17001 master - 0 0 1 connected\n"
                            "garbage\n"
                            "bbb [::1]:7002@17002 myself,master - 0 0 2 connected 0-16383\n"
                            "ccc db3:7003@17003 master,fail? - 0 0 3 disconnected\n"
                            "ddd db4:x@1 master - 0 0 4 connected\n";

static void assert_reply(void (*fn)(struct reply *, struct slice), const char *text, const char *expected)
{
    struct buf out = {0};
    struct reply r = {.out = &out, .resp = 2};
    fn(&r, slice_str(text));
    buf_add_byte(&out, '\0');
    assert_string_equal(out.p, expected);
    buf_fini(&out);
}

static void the_node_that_is_asked_has_all_slots_and_the_others_follow(void **state)
{
    assert_reply(clusterslots_slots, nodes,
                 "*1\r\n*5\r\n:0\r\n:16383\r\n"
                 "*4\r\n$3\r\n::1\r\n:7002\r\n$3\r\nbbb\r\n*0\r\n"
                 "*4\r\n$9\r\n127.0.0.1\r\n:7001\r\n$3\r\naaa\r\n*0\r\n"
                 "*4\r\n$3\r\ndb3\r\n:7003\r\n$3\r\nccc\r\n*0\r\n");
    assert_reply(clusterslots_slots, "", "*0\r\n");
}

static void shards_say_who_is_there(void **state)
{
    assert_reply(clusterslots_shards, "ccc db3:7003@17003 myself,master,fail? - 0 0 3 disconnected\n",
                 "*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n$5\r\nnodes\r\n*1\r\n*14\r\n$2\r\nid\r\n$3\r\nccc\r\n$4\r\nport\r\n:7003\r\n$2\r\nip\r\n$3\r\ndb3\r\n"
                 "$8\r\nendpoint\r\n$3\r\ndb3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$18\r\nreplication-offset\r\n:0\r\n$6\r\nhealth\r\n$4\r\nfail\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_the_slots_that_redis_gives_them),
        cmocka_unit_test(the_node_that_is_asked_has_all_slots_and_the_others_follow),
        cmocka_unit_test(shards_say_who_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
