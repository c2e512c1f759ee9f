/* Another number of shards for data with key spaces: whatever was under way, every key, descriptor and lock is where the map of the new layout says. */
#include "rig.h"

#include "base/rng.h"
#include "io/file_sim.h"
#include "server/relayout.h"
#include "shard/carry.h"
#include "shard/locks.h"

enum { SHARDS = 4, KEYS = 300, NAMES = 3, MOST = 7, LOCKS = 12 };

static const char *const names[NAMES] = {"users", "orders/2026", "cfg"};

struct scene {
    struct rig *rig;
    struct client *c;
    struct rng rng;
    uint64_t highest_token;
};

static unsigned below(struct scene *s, unsigned n) { return (unsigned)rng_below(&s->rng, n); }

static void __attribute__((format(printf, 2, 3))) tell(struct scene *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rig_ask(s->c, "%s", text);
    rig_go(s->c);
    rig_settle(s->rig);
    buf_add_byte(&s->c->out, '\0');
    unsigned long long token = 0;
    if (sscanf(s->c->out.p, "*2\r\n:%llu\r\n", &token) == 1 && token > s->highest_token) s->highest_token = token;
    s->c->out.len = 0;
}

static void scene_init(struct scene *s, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    rng_init(&s->rng, seed);
    s->rig = rig_new(1, SHARDS);
    s->c = rig_client(s->rig, 0);
    for (unsigned i = 0; i < KEYS; i++)
        for (unsigned n = 0; n < NAMES; n++) {
            tell(s, "SET %s/%03u %u", names[n], i, i);
            if (i % 10 == 0) tell(s, "RPUSH %s/%03u.list a b c", names[n], i);
        }
    for (unsigned i = 0; i < KEYS; i++) tell(s, "SET plain%u %u", i, i);
}

/* Any number of changes, the last of which is perhaps half done. */
static void change(struct scene *s)
{
    static const char *const modes[] = {"RANGE", "BUCKET", "HASH"};
    for (unsigned i = 0; i < 10; i++) {
        const char *name = names[below(s, NAMES)];
        switch (below(s, 5)) {
        case 0: tell(s, "SPACE.SET %s %s", name, modes[below(s, 3)]); break;
        case 1: tell(s, "RANGE.MOVE %s %s/%03u %u", name, name, below(s, KEYS), below(s, SHARDS)); break;
        default: tell(s, "RANGE.SPLIT %s %s/%03u", name, name, below(s, KEYS));
        }
        for (unsigned steps = below(s, 8); steps && topology_step(s->rig->topology, s->rig->workers[0]); steps--) rig_settle(s->rig);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        const char *name = names[below(s, NAMES)];
        unsigned start = below(s, KEYS - 50);
        tell(s, "RANGE.LOCK %s %s/%03u %s/%03u me%u 100000 SHARED", name, name, start, name, start + 1 + below(s, 40), i);
    }
}

static uint64_t count(struct store *const *stores, uint32_t n)
{
    uint64_t keys = 0;
    for (uint32_t i = 0; i < n; i++) keys += store_keys(stores[i], 0);
    return keys;
}

static void check_places(const struct route *route, struct store *const *stores)
{
    for (uint32_t i = 0; i < route->shards; i++) {
        struct table_iter it;
        store_check(stores[i]);
        if (!stores[i]->dbs[0]) continue;
        table_iter_init(&it, &stores[i]->dbs[0]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) assert_int_equal(route_key(route, entry_key(e), keyhash(entry_key(e), route->seed)), i);
    }
}

/* Each lock of the old layout is in the new one, in its shards and no others, and no counter is below its token. */
static void check_locks(struct scene *s, const struct route *route, struct store *const *stores)
{
    unsigned wanted = 0, found = 0;
    struct locks_walk w;
    struct spacelock l;
    int64_t expiry_ms;
    for (unsigned n = 0; n < NAMES; n++) {
        uint64_t seen[LOCKS + 1] = {0};
        unsigned n_seen = 0;
        for (uint32_t i = 0; i < SHARDS; i++) {
            locks_begin(&w, s->rig->engine->stores[i], slice_str(names[n]), 0);
            while (locks_next(&w, &l, &expiry_ms)) {
                bool in[MOST], before = false;
                for (unsigned k = 0; k < n_seen; k++) before |= seen[k] == l.token;
                if (before) continue;
                seen[n_seen++] = l.token;
                locks_shards(route_map(route), route, slice_str(names[n]), l.start, l.end, in);
                for (uint32_t k = 0; k < route->shards; k++) {
                    assert_int_equal(locks_has(stores[k], slice_str(names[n]), l.token), in[k]);
                    wanted += in[k];
                }
            }
        }
        for (uint32_t i = 0; i < route->shards; i++) {
            locks_begin(&w, stores[i], slice_str(names[n]), 0);
            for (; locks_next(&w, &l, &expiry_ms); found++) assert_true(expiry_ms > 0);
        }
    }
    assert_true(wanted >= LOCKS && found == wanted);
    for (uint32_t i = 0; i < route->shards; i++) {
        bool in[MOST] = {false};
        in[i] = true;
        struct engine e = {.route = {.seed = route->seed, .shards = route->shards}, .stores = (struct store **)stores};
        assert_true(locks_new_token(&e, in) > s->highest_token);
    }
}

static void relay(struct scene *s, uint32_t shards)
{
    const struct engine *e = s->rig->engine;
    struct file_sim *sim = file_sim_new("/d", 5);
    struct store *to[MOST];
    struct dumper_past written;
    struct buf error = {0};
    struct route route = {.seed = e->route.seed, .shards = shards};
    for (uint32_t i = 0; i < shards; i++) {
        to[i] = store_new(e->route.seed, &e->limits, i);
        to[i]->now_ms = s->rig->workers[0]->now_ms;
    }
    assert_int_equal(file_sim_ops(sim)->mkdir(file_sim_ops(sim)->ctx, "/d/new"), 0);
    struct relayout r = {.files = file_sim_ops(sim), .dir = "/d/new", .shards = shards, .seed = route.seed, .profile = COMPRESS_BALANCED, .min_size = 128};
    int rc = relayout_write(&r, e->stores, SHARDS, to, &written, &error);
    if (rc) fail_msg("%d: %.*s", rc, (int)error.len, error.p);
    struct space_map *map = topology_read(&route, to, &error);
    if (!map) fail_msg("%.*s", (int)error.len, error.p);
    spaces_check(map);
    assert_int_equal(map->n_spaces, route_map(&e->route)->n_spaces);
    atomic_store(&route.map, map);
    assert_int_equal(count(to, shards), count(e->stores, SHARDS));
    check_places(&route, to);
    check_locks(s, &route, to);
    spaces_unref(map);
    for (uint32_t i = 0; i < shards; i++) store_free(to[i]);
    file_sim_free(sim);
    buf_fini(&error);
}

static void keys_descriptors_and_locks_are_where_the_new_map_says(void **state)
{
    unsigned moving = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct scene s;
        scene_init(&s, seed);
        tell(&s, "SPACE.SET users RANGE");
        change(&s);
        tell(&s, "SPACE.SET %s %s", names[seed % NAMES], seed % 2 ? "HASH" : "RANGE");
        tell(&s, "SPACE.SET %s %s", names[(seed + 1) % NAMES], seed % 3 ? "BUCKET" : "RANGE");
        topology_step(s.rig->topology, s.rig->workers[0]);
        rig_settle(s.rig);
        struct carry_job job;
        moving += carry_find(route_map(&s.rig->engine->route), &job);
        for (uint32_t shards = 1; shards <= MOST; shards++) relay(&s, shards);
        while (topology_step(s.rig->topology, s.rig->workers[0])) rig_settle(s.rig);
        rig_free(s.rig);
    }
    assert_true(moving >= 4);
}

static void records_that_do_not_fit_together_stop_it(void **state)
{
    struct scene s;
    scene_init(&s, 3);
    struct store *to[1] = {store_new(42, &s.rig->engine->limits, 1)};
    struct dumper_past written;
    struct buf error = {0};
    struct file_sim *sim = file_sim_new("/d", 5);
    struct relayout r = {.files = file_sim_ops(sim), .dir = "/d/new", .shards = 1, .seed = 42};
    store_apply(s.rig->engine->stores[1], &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = SLICE("space/users"), .value = SLICE("?")}, NULL);
    assert_true(relayout_write(&r, s.rig->engine->stores, SHARDS, to, &written, &error) < 0 && error.len > 0);
    buf_fini(&error);
    file_sim_free(sim);
    store_free(to[0]);
    rig_free(s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_descriptors_and_locks_are_where_the_new_map_says),
        cmocka_unit_test(records_that_do_not_fit_together_stop_it),
    };
    return cmocka_run_group_tests_name("relayout", tests, NULL, NULL);
}
