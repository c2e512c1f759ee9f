/* Requests for cold values: what comes back at once, what goes to the readers, and what others do meanwhile. Readers and the tier's thread are real; workers run when the test lets them. */
#include <fcntl.h>

#include "base/rng.h"
#include "coldrig.h"

enum { WORKERS = 2, SHARDS = 3 };

/* Values that are read go back when the request has run. */
static void lend_all(struct cold_rig *c)
{
    atomic_store(&c->thaws->plenty_below, 0);
    atomic_store(&c->thaws->keep_below, 0);
}

/* ---- one request */

#define LONG "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
#define BULK(text) "$100\r\n" text "\r\n"

static void a_value_that_is_still_in_the_buffers_comes_back_at_once(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0);
    rig_do(who, "SET key " LONG);
    assert_true(cold_chill(&c, "key"));
    assert_true(cold_is(&c, "key"));
    rig_do(who, "GET key");
    rig_expect(who, "+OK\r\n" BULK(LONG));
    assert_false(cold_is(&c, "key"));
    assert_int_equal(cold_stats(&c).reads, 0);
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

static void whoever_waits_for_the_disk_holds_no_token(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0), *other = rig_client(c.rig, 1);
    char near[32];
    rig_do(who, "SET key " LONG);
    who->out.len = 0;
    cold_chill_to_disk(&c, "key");
    rig_do(who, "GET key");
    assert_true(who->away);
    rig_do(other, "SET %s 1", rig_key(c.rig, near, "near", rig_shard(c.rig, "key")));
    rig_expect(other, "+OK\r\n");
    assert_true(who->away); /* its worker has not run */
    cold_wait_answer(&c, who);
    rig_expect(who, BULK(LONG));
    assert_false(cold_is(&c, "key"));
    assert_int_equal(cold_stats(&c).reads, 1);
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

static void answers_stay_in_the_order_of_the_requests(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 1);
    for (int i = 0; i < 20; i++) rig_ask(who, "SET key%d %d:" LONG, i, i);
    rig_go(who);
    rig_settle(c.rig);
    who->out.len = 0;
    for (int i = 0; i < 20; i += 2) {
        char key[32];
        snprintf(key, sizeof key, "key%d", i);
        assert_true(cold_chill(&c, key));
    }
    cold_wait_written(&c);
    for (int i = 0; i < 20; i++) {
        rig_ask(who, "EXISTS key%d", i);
        rig_ask(who, "GET key%d", i);
        buf_printf(&who->expected, ":1\r\n$%d\r\n%d:" LONG "\r\n", i < 10 ? 102 : 103, i);
    }
    rig_ask(who, "MGET key0 none key19");
    buf_printf(&who->expected, "*3\r\n$102\r\n0:" LONG "\r\n$-1\r\n$103\r\n19:" LONG "\r\n");
    rig_go(who);
    cold_wait_answer(&c, who);
    buf_add_byte(&who->expected, '\0');
    rig_expect(who, who->expected.p);
    cold_free(&c);
}

/* ---- what happens while a value is being read */

static void what_was_written_meanwhile_is_what_the_request_sees(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0), *other = rig_client(c.rig, 1);
    rig_do(who, "SET key old-" LONG);
    cold_chill_to_disk(&c, "key");
    rig_do(who, "APPEND key +");
    assert_true(who->away);
    rig_do(other, "SET key new");
    rig_expect(other, "+OK\r\n");
    cold_wait_answer(&c, who);
    rig_do(who, "GET key");
    rig_expect(who, "+OK\r\n:4\r\n$4\r\nnew+\r\n");
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

static void a_value_that_went_cold_again_meanwhile_is_read_again(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0), *other = rig_client(c.rig, 1);
    rig_do(who, "SET key old-" LONG);
    who->out.len = 0;
    cold_chill_to_disk(&c, "key");
    rig_do(who, "GET key");
    assert_true(who->away);
    rig_do(other, "SET key " LONG);
    cold_chill_to_disk(&c, "key");
    cold_wait_answer(&c, who);
    rig_expect(who, BULK(LONG));
    assert_int_equal(cold_stats(&c).reads, 2);
    other->out.len = 0;
    cold_free(&c);
}

static void a_transaction_over_several_shards_runs_when_it_has_all_its_values(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0), *other = rig_client(c.rig, 1);
    char keys[SHARDS][32];
    for (uint32_t i = 0; i < SHARDS; i++) {
        rig_do(who, "SET %s " LONG, rig_key(c.rig, keys[i], "key", i));
        rig_settle(c.rig);
        cold_chill_to_disk(&c, keys[i]);
    }
    who->out.len = 0;
    for (uint32_t i = 0; i < SHARDS; i++) rig_queue(who, "APPEND %s +", keys[i]);
    rig_exec(who, false);
    rig_go(who);
    assert_true(who->away);
    rig_do(other, "SET %s x", keys[1]); /* no token is held while the disk is read */
    rig_expect(other, "+OK\r\n");
    cold_wait_answer(&c, who);
    rig_expect(who, "*3\r\n:101\r\n:2\r\n:101\r\n");
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

/* ---- lending */

static void a_value_that_is_not_worth_staying_is_only_lent(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0);
    struct place at;
    lend_all(&c);
    rig_do(who, "SET key " LONG);
    who->out.len = 0;
    cold_chill_to_disk(&c, "key");
    struct chill_ref before = chill_ref_of(cold_entry(&c, "key", &at));
    for (int i = 0; i < 3; i++) {
        rig_do(who, "GET key");
        cold_wait_answer(&c, who);
        rig_expect(who, BULK(LONG));
        assert_true(cold_is(&c, "key"));
        assert_true(chill_same(chill_ref_of(cold_entry(&c, "key", &at)), before));
    }
    assert_int_equal(atomic_load(&c.thaws->lent), 3);
    assert_int_equal(cold_stats(&c).puts, 1);
    cold_free(&c);
}

static void a_value_that_was_changed_is_not_given_back(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0);
    lend_all(&c);
    rig_do(who, "SET key " LONG);
    cold_chill_to_disk(&c, "key");
    rig_do(who, "APPEND key +");
    cold_wait_answer(&c, who);
    assert_false(cold_is(&c, "key"));
    rig_do(who, "STRLEN key");
    rig_expect(who, "+OK\r\n:101\r\n:101\r\n");
    assert_int_equal(atomic_load(&c.thaws->lent), 0);
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

/* ---- what cannot be read */

static void spoil_files(const struct cold_rig *c)
{
    char path[128];
    snprintf(path, sizeof path, "%s/0000000000.cold", c->dir);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    char zeros[4096] = {0};
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 0), sizeof zeros);
    close(fd);
}

static void a_value_that_cannot_be_read_is_an_error_of_its_request_alone(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0);
    rig_do(who, "SET bad " LONG);
    rig_do(who, "SET good 1");
    rig_settle(c.rig);
    who->out.len = 0;
    cold_chill_to_disk(&c, "bad");
    spoil_files(&c);
    rig_ask(who, "GET good");
    rig_ask(who, "APPEND bad x");
    rig_ask(who, "MGET good bad");
    rig_ask(who, "EXISTS bad");
    rig_go(who);
    cold_wait_answer(&c, who);
    size_t at = 0;
    assert_int_equal(rig_value(who, &at).type, '$');
    for (int i = 0; i < 2; i++) {
        struct rig_value v = rig_value(who, &at);
        assert_int_equal(v.type, '-');
        assert_memory_equal(v.text.p, "COLD ", 5);
    }
    assert_int_equal(rig_value(who, &at).n, 1);
    assert_int_equal(at, who->out.len);
    assert_true(cold_is(&c, "bad"));
    assert_int_equal(cold_stats(&c).read_errors, 2);
    rig_do(who, "DEL bad");
    assert_int_equal(cold_stats(&c).values, 0);
    cold_free(&c);
}

/* ---- cleaning */

enum { CLEAN_KEYS = 2600, CLEAN_VALUE_BYTES = 30000 }; /* more than a file takes */

static void set_filler(struct client *who, int i)
{
    char filler[CLEAN_VALUE_BYTES + 1];
    memset(filler, 'x', CLEAN_VALUE_BYTES);
    filler[CLEAN_VALUE_BYTES] = '\0';
    rig_do(who, "SET key%d %d:%s", i, i, filler);
}

static void what_cleaning_moves_is_found_by_its_owners(void **state)
{
    struct cold_rig c = cold_new(WORKERS, SHARDS);
    struct client *who = rig_client(c.rig, 0);
    struct patience p = cold_patience();
    char key[32];
    for (int i = 0; i < CLEAN_KEYS; i++) {
        set_filler(who, i);
        rig_settle(c.rig);
        who->out.len = 0;
        snprintf(key, sizeof key, "key%d", i);
        while (!cold_chill(&c, key)) cold_wait(&p, "room");
    }
    cold_wait_written(&c);
    uint64_t segments = cold_stats(&c).segments;
    assert_true(segments > 1);
    for (int i = 0; i < CLEAN_KEYS; i++) {
        if (i % 4 == 0) continue;
        rig_do(who, "DEL key%d", i);
        rig_settle(c.rig);
        who->out.len = 0;
    }
    while (cold_stats(&c).segments == segments) { /* the workers tell the owners */
        rig_settle(c.rig);
        cold_wait(&p, "cleaning");
    }
    struct tier_stats s = cold_stats(&c);
    assert_int_equal(s.cleaned, 1);
    assert_true(s.moved > 100);
    assert_int_equal(s.values, CLEAN_KEYS / 4);
    for (int i = 0; i < CLEAN_KEYS; i += 4) {
        char start[16];
        rig_do(who, "GETRANGE key%d 0 %d", i, snprintf(start, sizeof start, "%d:x", i) - 1);
        cold_wait_answer(&c, who);
        size_t at = 0;
        struct rig_value v = rig_value(who, &at);
        assert_true(slice_eq(v.text, slice_str(start)));
        who->out.len = 0;
    }
    assert_int_equal(cold_stats(&c).read_errors, 0);
    cold_free(&c);
}

/* ---- the naive twin */

enum { TWIN_CLIENTS = 4, TWIN_KEYS = 12, ASKED_MIN = 500, TWIN_LEN_MAX = 400 };

/* A client's keys are its own, so that what it must see follows from what it asked, whatever the others do. */
struct twin {
    struct client *who;
    uint32_t len[TWIN_KEYS]; /* of values: that many times the key's letter; 0: no key */
    uint64_t asked;
};

static void twin_key(const struct twin *t, uint32_t k, char out[32]) { snprintf(out, 32, "key%u:%u", t->who->id, k); }

static void expect_bulk(struct twin *t, uint32_t k)
{
    struct buf *b = &t->who->expected;
    if (!t->len[k]) {
        buf_add_str(b, "$-1\r\n");
        return;
    }
    buf_printf(b, "$%u\r\n", t->len[k]);
    for (uint32_t i = 0; i < t->len[k]; i++) buf_add_byte(b, (char)('a' + k));
    buf_add_str(b, "\r\n");
}

static void ask_something(struct twin *t, struct rng *rng)
{
    uint32_t k = (uint32_t)rng_below(rng, TWIN_KEYS), other = (uint32_t)rng_below(rng, TWIN_KEYS), n = 1 + (uint32_t)rng_below(rng, TWIN_LEN_MAX);
    char key[32], second[32], text[TWIN_LEN_MAX + 1];
    twin_key(t, k, key);
    twin_key(t, other, second);
    memset(text, 'a' + (int)k, n);
    text[n] = '\0';
    switch (rng_below(rng, 6)) {
    case 0:
        rig_ask(t->who, "SET %s %s", key, text);
        buf_add_str(&t->who->expected, "+OK\r\n");
        t->len[k] = n;
        break;
    case 1:
        rig_ask(t->who, "APPEND %s %s", key, text);
        t->len[k] += n;
        buf_printf(&t->who->expected, ":%u\r\n", t->len[k]);
        break;
    case 2:
        rig_ask(t->who, "DEL %s", key);
        buf_printf(&t->who->expected, ":%d\r\n", t->len[k] > 0);
        t->len[k] = 0;
        break;
    case 3:
        rig_ask(t->who, "MGET %s %s", key, second);
        buf_add_str(&t->who->expected, "*2\r\n");
        expect_bulk(t, k);
        expect_bulk(t, other);
        break;
    default:
        rig_ask(t->who, "GET %s", key);
        expect_bulk(t, k);
    }
    t->asked++;
}

struct walk_of_twins {
    struct cold_rig c;
    struct twin twins[TWIN_CLIENTS];
    struct rng rng;
    uint64_t chilled;
};

/* How fast the disk is decides which ways the values took: the walk goes on until it has seen them all. */
static bool has_seen_all(const struct walk_of_twins *w)
{
    struct tier_stats s = cold_stats(&w->c);
    for (uint32_t i = 0; i < TWIN_CLIENTS; i++)
        if (w->twins[i].asked < ASKED_MIN) return false;
    return w->chilled > 200 && s.reads > 100 && s.gets > s.reads + 20 && atomic_load(&w->c.thaws->lent) > 50;
}

static void take_a_step(struct walk_of_twins *w)
{
    struct twin *t = &w->twins[rng_below(&w->rng, TWIN_CLIENTS)];
    char key[32];
    switch (rng_below(&w->rng, 8)) {
    case 0:
    case 1:
        twin_key(t, (uint32_t)rng_below(&w->rng, TWIN_KEYS), key);
        w->chilled += cold_chill(&w->c, key);
        if (rng_below(&w->rng, 2)) tier_flush(w->c.tier);
        break;
    case 2:
    case 3: rig_turn(w->c.rig, (uint32_t)rng_below(&w->rng, WORKERS)); break;
    case 4:
        atomic_store(&w->c.thaws->plenty_below, rng_below(&w->rng, 2) ? UINT64_MAX : 0);
        atomic_store(&w->c.thaws->keep_below, 0);
        break;
    default:
        if (rig_busy(t->who)) break;
        for (uint64_t n = 1 + rng_below(&w->rng, 5); n; n--) ask_something(t, &w->rng);
        rig_go(t->who);
    }
}

static void any_walk_answers_as_if_nothing_was_ever_cold(void **state)
{
    struct walk_of_twins w = {.c = cold_new(WORKERS, SHARDS)};
    struct patience p = cold_patience();
    rng_init(&w.rng, 2026);
    for (uint32_t i = 0; i < TWIN_CLIENTS; i++) w.twins[i].who = rig_client(w.c.rig, i % WORKERS);
    while (!has_seen_all(&w)) {
        for (int i = 0; i < 20; i++) take_a_step(&w);
        cold_wait(&p, "one of the ways");
    }
    for (uint32_t i = 0; i < TWIN_CLIENTS; i++) {
        struct client *who = w.twins[i].who;
        cold_wait_answer(&w.c, who);
        assert_int_equal(who->out.len, who->expected.len);
        assert_memory_equal(who->out.p, who->expected.p, who->expected.len);
    }
    assert_int_equal(cold_stats(&w.c).read_errors, 0);
    cold_free(&w.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_is_still_in_the_buffers_comes_back_at_once),
        cmocka_unit_test(whoever_waits_for_the_disk_holds_no_token),
        cmocka_unit_test(answers_stay_in_the_order_of_the_requests),
        cmocka_unit_test(what_was_written_meanwhile_is_what_the_request_sees),
        cmocka_unit_test(a_value_that_went_cold_again_meanwhile_is_read_again),
        cmocka_unit_test(a_transaction_over_several_shards_runs_when_it_has_all_its_values),
        cmocka_unit_test(a_value_that_is_not_worth_staying_is_only_lent),
        cmocka_unit_test(a_value_that_was_changed_is_not_given_back),
        cmocka_unit_test(a_value_that_cannot_be_read_is_an_error_of_its_request_alone),
        cmocka_unit_test(what_cleaning_moves_is_found_by_its_owners),
        cmocka_unit_test(any_walk_answers_as_if_nothing_was_ever_cold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
