/* EXEC in one group: watched keys and their digests, and commands that run as one. */
#include "txnworld.h"

#include "resp/answer.h"

enum { OF_NO_KEY = 8 };

/* Gives how long it is. */
static struct slice take_digest(const char *key, char out[TXNCMD_DIGEST_BYTES])
{
    char text[64];
    struct answer a;
    snprintf(text, sizeof text, "txn.digest %s", key);
    assert_false(ask(A, NULL, text).bounced);
    struct slice in = buf_slice(&r.out);
    assert_true(answer_next(&in, &a) && a.type == '$' && (a.text.n == OF_NO_KEY || a.text.n == TXNCMD_DIGEST_BYTES));
    memcpy(out, a.text.p, a.text.n);
    return slice_of(out, a.text.n);
}

static void commands_of_one_group_run_as_one_if_what_was_watched_is_as_it_was(void **state)
{
    const char *a = keys[A][0], *b = keys[A][1];
    char of_a[TXNCMD_DIGEST_BYTES], of_b[TXNCMD_DIGEST_BYTES], text[256];
    SAY(A, "+OK\r\n", "set %s v", a);
    struct hold h;
    const struct slice bytes[] = {take_digest(a, of_a), take_digest(b, of_b)};
    assert_int_equal(bytes[0].n, TXNCMD_DIGEST_BYTES);
    assert_int_equal(bytes[1].n, OF_NO_KEY);
    snprintf(text, sizeof text, "txn.run 2 0 %s %%B 0 %s %%B 3 0 3 set %s w 0 2 get %s 1 2 exists %s", a, b, b, b, b);
    h = ask(A, bytes, text);
    has_answer(&h, "*3\r\n+OK\r\n$1\r\nw\r\n:0\r\n");
    assert_true(h.wrote);
    h = ask(A, bytes, text); /* b is there now */
    has_answer(&h, "*-1\r\n");
    assert_false(h.wrote);
    snprintf(text, sizeof text, "txn.run 0 2 0 2 get %s 0 2 ping x", a);
    h = ask(A, NULL, text);
    has_answer(&h, "-ERR a command that cannot be part of a transaction\r\n");
    snprintf(text, sizeof text, "txn.run 0 2 0 2 del %s 0 2 get %s", a, keys[B][0]);
    h = ask(A, NULL, text);
    has_answer(&h, "-TXNMOVED a key is not in this group, as far as it knows\r\n");
    SAY(A, "-ERR the arguments of txn.run make no sense\r\n", "txn.run 0 2 0 2 del %s 0 3 del", a);
    SAY(A, "$1\r\nv\r\n", "get %s", a);
}

/* Who reads a watched key while it has another value has seen that one, whatever it is when EXEC comes. */
static void check_changed(const char *key, struct slice digest, bool changed)
{
    char text[256];
    struct hold h;
    snprintf(text, sizeof text, "txn.run 1 0 %s %%B 1 0 2 get %s", key, keys[A][2]);
    h = ask(A, &digest, text);
    has_answer(&h, changed ? "*-1\r\n" : "*1\r\n$-1\r\n");
    snprintf(text, sizeof text, "txn.fetch t9 1 0 r %s 1 0 %s %%B", key, key);
    h = ask(A, &digest, text);
    if (changed) has_answer(&h, "-TXNCHANGED a watched key is another now\r\n");
    else assert_true(r.out.len && r.out.p[0] == '*');
    SAY(A, "+OK\r\n", "txn.drop t9");
}

static void what_has_changed_and_changed_back_has_changed(void **state)
{
    const char *a = keys[A][0], *b = keys[A][1];
    char was[TXNCMD_DIGEST_BYTES];
    SAY(A, "+OK\r\n", "set %s v", a);
    struct slice digest = take_digest(a, was);
    check_changed(a, digest, false);
    SAY(A, "+OK\r\n", "set %s w", a);
    SAY(A, "+OK\r\n", "set %s v", a);
    check_changed(a, digest, true);
    digest = take_digest(b, was); /* which is not there */
    check_changed(b, digest, false);
    SAY(A, "+OK\r\n", "set %s v", b);
    SAY(A, ":1\r\n", "del %s", b);
    check_changed(b, digest, true);
    digest = take_digest(a, was);
    lead_anew(A); /* it cannot know what happened before */
    check_changed(a, digest, true);
    digest = take_digest(a, was);
    check_changed(a, digest, false);
    SAY(A, "-ERR the arguments of txn.fetch make no sense\r\n", "txn.fetch t9 1 0 r %s 1 0 %s", a, a);
    SAY(A, "-ERR the arguments of txn.fetch make no sense\r\n", "txn.fetch t9 1 0 r %s 1 0 %s x y", a, a);
}

static void they_wait_for_transactions_as_any_command_does(void **state)
{
    char token[TXNCMD_TOKEN_BYTES + 1];
    const char *key = keys[A][0];
    fetch(A, "t1", 'w', key, token);
    BOUNCES(A, "txn.run 0 1 0 3 set %s v", key);
    SAY(A, "*1\r\n$-1\r\n", "txn.run 0 1 0 2 get %s", key);
    SAY(A, "*1\r\n+OK\r\n", "txn.run 0 1 1 3 set %s v", key); /* another database */
    prepare(A, "t1", token, SLICE(""), "+OK\r\n");
    BOUNCES(A, "txn.run 0 1 0 2 get %s", key);
    BOUNCES(A, "txn.digest %s", key);
    BOUNCES(A, "txn.run 1 0 %s x 1 0 2 get %s", key, keys[A][1]);
    SAY(A, "+OK\r\n", "txn.drop t1");
}

static void add_members(const char *key, int from, int to)
{
    for (int i = from; i != to; i += from < to ? 1 : -1) {
        char text[16];
        struct slice member = slice_of(text, (size_t)snprintf(text, sizeof text, "member-%d", i));
        store_apply(store_of(A), &(struct op){.kind = OP_SET_ADD, .key = slice_str(key), .items = &member, .n_items = 1}, NULL);
    }
}

static void a_digest_tells_values_and_expiries_apart_but_not_the_order_of_members(void **state)
{
    char digests[4][TXNCMD_DIGEST_BYTES];
    const char *a = keys[A][0], *b = keys[A][1];
    add_members(a, 0, 300);
    add_members(b, 299, -1);
    take_digest(a, digests[0]);
    take_digest(b, digests[1]);
    assert_memory_equal(digests[0] + OF_NO_KEY, digests[1] + OF_NO_KEY, TXNCMD_DIGEST_BYTES - OF_NO_KEY);
    SAY(A, ":1\r\n", "sadd %s one-more", a);
    SAY(A, ":1\r\n", "pexpire %s 50000", b);
    take_digest(a, digests[2]);
    take_digest(b, digests[3]);
    assert_memory_not_equal(digests[0], digests[2], 8);
    assert_memory_not_equal(digests[0] + 8, digests[2] + 8, 8);
    assert_memory_not_equal(digests[0] + 16, digests[2] + 16, 8);
    assert_memory_not_equal(digests[1], digests[3], 8);
    assert_memory_not_equal(digests[1] + 8, digests[3] + 8, 8);
    assert_memory_not_equal(digests[1] + 16, digests[3] + 16, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commands_of_one_group_run_as_one_if_what_was_watched_is_as_it_was),
        TEST(what_has_changed_and_changed_back_has_changed),
        TEST(they_wait_for_transactions_as_any_command_does),
        TEST(a_digest_tells_values_and_expiries_apart_but_not_the_order_of_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
