/* An interval of the hash is carried from group to group by the groups' own commands, slice by slice, while clients write: keys of many buckets, of a key space that the hash spreads, in two databases; beside keys that the interval does not place. A twin knows every key's value and
 * every lock: each key is where the map says and nowhere else, with its last value. */
#include "seatrig.h"

#include "base/rng.h"
#include "cluster/holding.h"
#include "shard/locks.h"

enum { FROM = SEATRIG_FIRST, TO = SEATRIG_FIRST + 1, OP = 9, UPPER = 50, NAMES = 600, DBS = 2, TEXT = 32, SEEDS = 12, ARGS_MAX = 256 };

static const uint16_t db_of[DBS] = {0, 3};

struct known {
    bool there;
    char value[TEXT];
};

static struct {
    struct seatrig r;
    struct rng rng;
    struct known keys[DBS][NAMES];
    char bound[TEXT]; /* of the last slice */
    uint32_t slices, turned_away, carried, shortened;
} k;

static struct buf plan;

static const struct space_map *map(void) { return seatrig_map(&k.r); }
static void follow(struct space_map *next) { seatrig_follow(&k.r, next); }
static uint32_t below(uint32_t n) { return (uint32_t)rng_below(&k.rng, n); }

/* Some of each kind. */
static void name(uint32_t i, char out[TEXT])
{
    static const char *const forms[] = {"bucket%u/k%u", "alone%u.%u", "h/%u.%u", "set/%u.%u"};
    snprintf(out, TEXT, forms[i % 4], i % 37, i);
}

/* ---- asking */

static bool run(uint32_t group, uint16_t db, const struct slice *argv, uint32_t argc) { return seatrig_ask(&k.r, group, db, argv, argc); }
static void says(const char *reply) { seatrig_says(&k.r, reply); }

static void order(uint32_t group, const char *command, struct slice third, struct slice fourth, const char *reply)
{
    const struct slice argv[] = {slice_str(command), SLICE("9"), SLICE("5"), third, fourth};
    assert_true(run(group, 0, argv, fourth.p ? 5 : 4));
    says(reply);
}

static void write_some(uint32_t n)
{
    char key[TEXT], value[TEXT];
    while (n--) {
        uint32_t i = below(NAMES), db = below(DBS);
        bool del = below(4) == 0;
        name(i, key);
        snprintf(value, sizeof value, "v%u", below(1000000));
        const struct slice argv[] = {del ? SLICE("del") : SLICE("set"), slice_str(key), slice_str(value)};
        if (!run(0, db_of[db], argv, del ? 2 : 3)) {
            k.turned_away++;
            continue;
        }
        k.keys[db][i].there = !del;
        memcpy(k.keys[db][i].value, value, sizeof value);
    }
}

/* ---- a slice */

static void measure(void)
{
    size_t at = 0;
    assert_true(run(FROM, 0, (const struct slice[]){SLICE("carry.measure"), SLICE("9"), SLICE("5"), SLICE("100000")}, 4));
    struct seatrig_value v = seatrig_value(&k.r, &at);
    assert_int_equal(v.type, '$');
    assert_true(v.text.n > 0 && v.text.n < TEXT);
    snprintf(k.bound, sizeof k.bound, "%.*s", (int)v.text.n, v.text.p);
}

/* What the source gives out is what the target takes, with what stands before it. */
static void freeze_and_take(void)
{
    struct slice argv[ARGS_MAX] = {SLICE("carry.take"), SLICE("9"), SLICE("5"), slice_str(k.bound), SLICE("1")};
    struct buf given = {0};
    char count[16];
    uint32_t argc = 6;
    order(FROM, "carry.freeze", slice_str(k.bound), SLICE("100000"), "*1\r\n*4\r\n:3\r\n");
    write_some(15);
    order(FROM, "carry.freeze", slice_str(k.bound), SLICE("100000"), "*1\r\n*4\r\n:3\r\n"); /* the same again */
    buf_add_slice(&given, buf_slice(&k.r.out));
    struct seatrig copy = {.out = given};
    size_t at = 0;
    for (int i = 0; i < 3; i++) seatrig_value(&copy, &at);
    uint32_t n = (uint32_t)seatrig_value(&copy, &at).n;
    snprintf(count, sizeof count, "%u", n);
    argv[5] = slice_str(count);
    for (uint32_t i = 0; i < n; i++) argv[argc++] = seatrig_value(&copy, &at).text;
    assert_int_equal(seatrig_value(&copy, &at).n, 0); /* none is large */
    argv[argc++] = SLICE("0");
    argv[argc++] = seatrig_value(&copy, &at).text;
    assert_true(argc < ARGS_MAX);
    assert_true(run(TO, 0, argv, argc));
    says("+OK");
    k.carried += n;
    k.shortened += n == 0;
    k.slices++;
    buf_fini(&given);
}

static bool is_last(void) { return strcmp(k.bound, "+") == 0; }

static void carry_slice(void)
{
    enum spaces_error error;
    measure();
    freeze_and_take();
    write_some(5);
    if (!is_last()) follow(spaces_hash_move_advance(map(), UPPER, slice_str(k.bound + 1), &error, NULL));
    if (below(3) == 0) order(FROM, "carry.drop", slice_str(k.bound), (struct slice){0}, "+OK");
    if (below(5) == 0) seatrig_lead_anew(&k.r, below(2) ? FROM : TO);
}

/* ---- where everything is */

static bool has(uint32_t group, uint32_t db, struct slice key, struct slice value)
{
    struct place at;
    struct store *s = seatrig_store(&k.r, group);
    store_peek(s, db_of[db], keyhash(key, s->seed), key, &at);
    return at.e && slice_eq(entry_value(at.e), value);
}

static void compare(void)
{
    char key[TEXT];
    uint64_t there = 0, found = 0;
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t i = 0; i < NAMES; i++) {
            const struct known *v = &k.keys[db][i];
            name(i, key);
            struct slice s = slice_str(key);
            there += v->there;
            if (v->there) assert_true(has(spaces_shard(map(), s, keyhash(s, map()->route.seed)), db, s, slice_str(v->value)));
        }
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++)
        for (uint32_t db = 0; db < DBS; db++) found += store_keys(seatrig_store(&k.r, g), db_of[db]);
    assert_int_equal(found, there);
}

/* ---- locks: on a bucket of the interval, on one of another interval in the same group, and on the space that the hash spreads */

static struct slice bucket_in(uint64_t first, uint64_t last, char out[TEXT])
{
    for (uint32_t i = 0;; i++) {
        snprintf(out, TEXT, "locked%u", i);
        uint64_t hash = keyhash(slice_str(out), map()->route.seed);
        if (hash >= first && hash <= last) return slice_str(out);
    }
}

/* As one who holds the tokens of all seats. Gives its token. */
static uint64_t lock(struct slice space)
{
    struct engine *e = k.r.rig->engine;
    const struct seating *seating = e->seating;
    bool in[SEATRIG_END];
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        rig_hold(k.r.rig, seatrig_shard(&k.r, g)->id);
        task_enter(k.r.w, seatrig_shard(&k.r, g));
    }
    locks_shards(map(), &e->route, space, SLICE(""), SLICE(""), in);
    uint64_t token = locks_new_token(e, in);
    locks_put(e, in, space, &(struct spacelock){.token = token, .exclusive = true, .owner = SLICE("me")}, 9000000);
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) {
        seating->settle(seating->ctx, seatrig_shard(&k.r, g));
        rig_let_go(k.r.rig, 0, seatrig_shard(&k.r, g)->id);
    }
    seatrig_settle(&k.r);
    return token;
}

static bool has_lock(uint32_t group, struct slice space, uint64_t token) { return locks_has(seatrig_store(&k.r, group), space, token); }

/* ---- */

static void set_up(uint64_t seed)
{
    enum spaces_error error;
    const struct range_desc bucket = {.id = 100, .shard = FROM};
    seatrig_new(&k.r);
    rng_init(&k.rng, seed);
    memset(k.keys, 0, sizeof k.keys);
    follow(spaces_set_mode(map(), SLICE("set"), SPACE_BUCKET, &bucket, 1, true, &error, NULL));
    follow(spaces_set_mode(map(), SLICE("h"), SPACE_HASH, NULL, 0, true, &error, NULL));
    write_some(1500);
}

static void begin(void)
{
    enum spaces_error error;
    const struct holding_piece old = {.group = FROM}, new = {.group = TO};
    const struct holding_plan p = {.op = OP, .of_hash = true, .first = UINT64_C(1) << 61, .last = (UINT64_C(1) << 62) - 1, .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    char version[24];
    snprintf(version, sizeof version, "%llu", (unsigned long long)map()->version);
    plan.len = 0;
    holding_plan_encode(&plan, &p);
    for (uint32_t g = FROM; g <= TO; g++) order(g, "carry.begin", slice_str(version), buf_slice(&plan), "*3\r\n$1\r\n-\r\n");
    follow(spaces_hash_split(map(), p.first, UPPER, FROM, &error, NULL));
    follow(spaces_hash_move(map(), UPPER, TO, &error, NULL));
}

static void end(void)
{
    enum spaces_error error;
    char version[24];
    follow(spaces_hash_move_finish(map(), UPPER, &error, NULL));
    snprintf(version, sizeof version, "%llu", (unsigned long long)map()->version);
    for (uint32_t g = FROM; g <= TO; g++) order(g, "carry.end", slice_str(version), (struct slice){0}, "+OK");
}

static void tear_down(void)
{
    seatrig_free(&k.r);
    buf_fini(&plan);
}

static void every_key_of_the_interval_arrives_once_whatever_clients_write(void **state)
{
    k.slices = k.turned_away = k.carried = k.shortened = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        set_up(seed);
        begin();
        do {
            carry_slice();
            write_some(20);
        } while (!is_last());
        assert_true(seatrig_store(&k.r, FROM)->in_line);
        end();
        assert_false(seatrig_store(&k.r, FROM)->in_line);
        write_some(50);
        compare();
        tear_down();
    }
    print_message("%u slices, %u of them empty, %u keys; %u requests turned away\n", k.slices, k.shortened, k.carried, k.turned_away);
    assert_true(k.slices > 10 * SEEDS && k.carried > 50 * SEEDS && k.turned_away > 10);
}

static void locks_go_along_where_they_lie(void **state)
{
    char moves[TEXT], stays[TEXT];
    set_up(77);
    struct slice in_upper = bucket_in(UINT64_C(1) << 61, (UINT64_C(1) << 62) - 1, moves), in_lower = bucket_in(0, (UINT64_C(1) << 61) - 1, stays);
    uint64_t moving = lock(in_upper), staying = lock(in_lower), spread = lock(SLICE("h"));
    assert_true(has_lock(FROM, in_upper, moving) && !has_lock(TO, in_upper, moving));
    begin();
    do carry_slice(); while (!is_last());
    end();
    assert_true(!has_lock(FROM, in_upper, moving) && has_lock(TO, in_upper, moving));
    assert_true(has_lock(FROM, in_lower, staying) && !has_lock(TO, in_lower, staying));
    for (uint32_t g = SEATRIG_FIRST; g < SEATRIG_END; g++) assert_true(has_lock(g, SLICE("h"), spread));
    assert_true(lock(in_upper) > moving);
    compare();
    tear_down();
}

static void a_map_that_does_not_know_all_spaces_is_not_used(void **state)
{
    const struct holding_piece old = {.group = FROM}, new = {.group = TO};
    const struct holding_plan p = {.op = OP, .of_hash = true, .last = UINT64_MAX, .old_side = {.n = 1, .pieces = &old}, .new_side = {.n = 1, .pieces = &new}};
    char version[24];
    set_up(78);
    plan.len = 0;
    holding_plan_encode(&plan, &p);
    snprintf(version, sizeof version, "%llu", (unsigned long long)map()->version + 1);
    order(FROM, "carry.begin", slice_str(version), buf_slice(&plan), "-CARRYBUSY");
    snprintf(version, sizeof version, "%llu", (unsigned long long)map()->version);
    order(FROM, "carry.begin", slice_str(version), buf_slice(&plan), "*3\r\n");
    const struct seating *seating = k.r.rig->engine->seating;
    assert_int_equal(holding_map_version(seating->holding(seating->ctx, seatrig_shard(&k.r, FROM))), map()->version);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_the_interval_arrives_once_whatever_clients_write),
        cmocka_unit_test(locks_go_along_where_they_lie),
        cmocka_unit_test(a_map_that_does_not_know_all_spaces_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
