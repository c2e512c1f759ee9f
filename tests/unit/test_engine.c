/* The engine under contention: several threads, each with its own loop and a handful of clients, few shards, hot keys.
 *
 * Every client runs scripts of commands chosen at random (by seed) and checks the answers of each. What must always hold:
 *   - keys that are only ever written together are always seen equal;
 *   - what moves between keys is neither lost nor doubled, at any moment;
 *   - a pipeline's replies are the right ones in the right order;
 *   - an EXEC whose watched key changed does not run, so optimistic counters lose nothing;
 *   - what was pushed is popped once, or is still there; a waiter for which something is there does not go on waiting;
 *   - everything comes to an end: a stall is told and ends the test.
 * The test fails if the tokens were not contended: see counted_enough. SHERD_TEST_SEED chooses another seed, SHERD_TEST_ROUNDS a longer run. */
#include "rig.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum {
    WORKERS = 4,
    SHARDS = 3,
    CLIENTS = 8, /* per worker */
    ROUNDS = 1500,
    EQUALS = 5,
    PLACES = 4, /* sets, lists and names between which things move */
    MEMBERS = 24,
    QUEUES = 4,
    COUNTERS = 3,
    PAIRS = 2,
    ITEMS_MAX = 1 << 20,
    STALL_SECONDS = 60,
};

struct crowd {
    struct rig *rig;
    atomic_uint active;         /* clients that have not finished */
    _Atomic uint64_t progress;  /* scripts done */
    _Atomic uint64_t next_item; /* pushed to queues so far */
    _Atomic uint8_t *popped;    /* [ITEMS_MAX] how often */
    _Atomic uint64_t increments, commits, cancelled;
};

struct role {
    struct crowd *crowd;
    struct rng rng;
    uint32_t rounds;
    void (*next)(struct client *c); /* starts its next script */
    void (*check)(struct client *c); /* checks what the last one answered */
    int64_t give_up_ms;  /* when it waits; 0: never */
    uint64_t read;       /* under WATCH */
    uint32_t own;        /* which of its own keys are there, as bits */
    uint32_t kind, n;    /* the script, and a number of its */
    bool finished;
};

static struct role *role_of(struct client *c) { return c->role; }
static uint64_t pick(struct client *c, uint64_t n) { return rng_below(&role_of(c)->rng, n); }
static uint64_t env_number(const char *name, uint64_t otherwise) { return getenv(name) ? strtoull(getenv(name), NULL, 10) : otherwise; }

/* ---- threads */

static void script_done(struct client *c)
{
    struct role *ro = role_of(c);
    ro->check(c);
    c->out.len = c->expected.len = 0;
    atomic_fetch_add_explicit(&ro->crowd->progress, 1, memory_order_relaxed);
    if (--ro->rounds) return;
    ro->finished = true;
    atomic_fetch_sub(&ro->crowd->active, 1);
}

/* One look at a client; true if it could go on. */
static bool visit(struct client *c)
{
    struct role *ro = role_of(c);
    if (c->waiter && ro->give_up_ms && c->worker->now_ms >= ro->give_up_ms) {
        if (rig_cancel(c)) atomic_fetch_add(&ro->crowd->cancelled, 1);
        return true;
    }
    if (rig_busy(c) || ro->finished) return false;
    ro->give_up_ms = 0;
    ro->next(c);
    rig_go(c);
    return true;
}

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    struct crowd *crowd = w->engine->host.ctx;
    while (atomic_load(&crowd->active)) {
        bool any = false;
        engine_clock(w);
        engine_receive(w);
        task_pump(w);
        for (struct client *c = crowd->rig->clients; c; c = c->next) {
            if (c->worker != w) continue;
            any |= visit(c);
            task_pump(w);
        }
        if (any || w->runnable || !engine_may_sleep(w)) continue;
        struct pollfd fd = {.fd = w->wake_fd, .events = POLLIN};
        uint64_t count;
        if (poll(&fd, 1, 1) == 1) RIG_CHECK(read(w->wake_fd, &count, sizeof count) == sizeof count, "eventfd");
        engine_awake(w);
    }
    return NULL;
}

static void tell_stall(struct crowd *crowd)
{
    struct engine *e = crowd->rig->engine;
    fprintf(stderr, "nothing has moved for %d s\n", STALL_SECONDS);
    for (uint32_t i = 0; i < e->route.shards; i++)
        fprintf(stderr, "  shard %u: token %u, inbox %d, depth %u, home %u\n", i, atomic_load(&e->shards[i].token),
                atomic_load(&e->shards[i].inbox) != NULL, atomic_load(&e->shards[i].depth), e->shards[i].home);
    for (struct client *c = crowd->rig->clients; c; c = c->next)
        if (!role_of(c)->finished)
            fprintf(stderr, "  client %u: script %u, %s, request %u of %u\n", c->id, role_of(c)->kind,
                    c->away ? "away" : c->waiter ? "waiting" : "idle", c->task.pos, c->task.n_requests);
    abort();
}

static void run_crowd(struct crowd *crowd)
{
    struct rig *r = crowd->rig;
    pthread_t threads[WORKERS];
    r->engine->host.ctx = crowd;
    for (uint32_t i = 0; i < r->n_workers; i++) pthread_create(&threads[i], NULL, thread_main, r->workers[i]);
    uint64_t seen = 0;
    for (int idle = 0; atomic_load(&crowd->active); idle++) {
        uint64_t now = atomic_load(&crowd->progress);
        if (now != seen) idle = 0;
        seen = now;
        if (idle > STALL_SECONDS * 100) tell_stall(crowd);
        usleep(10000);
    }
    for (uint32_t i = 0; i < r->n_workers; i++) pthread_join(threads[i], NULL);
    rig_settle(r);
    rig_check_quiet(r);
}

static struct crowd *crowd_new(void)
{
    struct crowd *crowd = mem_zalloc(sizeof *crowd);
    crowd->rig = rig_new(WORKERS, SHARDS);
    crowd->popped = mem_zalloc(ITEMS_MAX);
    return crowd;
}

static struct role *add_client(struct crowd *crowd, uint32_t worker, uint32_t rounds)
{
    struct client *c = rig_client(crowd->rig, worker);
    struct role *ro = mem_zalloc(sizeof *ro);
    ro->crowd = crowd;
    ro->rounds = rounds;
    rng_init(&ro->rng, env_number("SHERD_TEST_SEED", 20) * 1000003 + c->id + 1);
    c->role = ro;
    c->on_idle = script_done;
    atomic_fetch_add(&crowd->active, 1);
    return ro;
}

static void crowd_free(struct crowd *crowd)
{
    for (struct client *c = crowd->rig->clients; c; c = c->next) mem_free(c->role);
    rig_free(crowd->rig);
    mem_free(crowd->popped);
    mem_free(crowd);
}

/* ---- scripts with exact answers */

static void check_exact(struct client *c)
{
    struct slice got = buf_slice(&c->out), expected = buf_slice(&c->expected);
    RIG_CHECK(slice_eq(got, expected), "client %u\n  got      %.*s\n  expected %.*s", c->id, (int)got.n, got.p, (int)expected.n, expected.p);
}

/* A pipeline over keys of its own in all shards. */
static void ask_own_keys(struct client *c)
{
    uint64_t n = 1 + pick(c, pick(c, 8) ? 12 : 200), have[6] = {0};
    rig_ask(c, "DEL own:%u:0 own:%u:1 own:%u:2 own:%u:3 own:%u:4 own:%u:5", c->id, c->id, c->id, c->id, c->id, c->id);
    buf_printf(&c->expected, ":%d\r\n", __builtin_popcount(role_of(c)->own));
    role_of(c)->own = 0;
    for (uint64_t i = 0; i < n; i++) {
        unsigned k = (unsigned)pick(c, 6);
        role_of(c)->own |= 1u << k;
        rig_ask(c, "INCRBY own:%u:%u %llu", c->id, k, (unsigned long long)i);
        buf_printf(&c->expected, ":%llu\r\n", (unsigned long long)(have[k] += i));
        if (i % 16 == 5) {
            rig_ask(c, "SPIN own:%u:%u %u", c->id, k, (unsigned)pick(c, 60));
            buf_add_str(&c->expected, "+OK\r\n");
        }
    }
    role_of(c)->check = check_exact;
}

static void ask_equal_set(struct client *c)
{
    unsigned long long v = c->id * 1000000ull + role_of(c)->rounds;
    if (pick(c, 2)) {
        rig_ask(c, "MSET eq0 %llu eq1 %llu eq2 %llu eq3 %llu eq4 %llu", v, v, v, v, v);
        buf_add_str(&c->expected, "+OK\r\n");
    } else {
        for (int i = 0; i < EQUALS; i++) rig_queue(c, "SET eq%d %llu", i, v);
        rig_exec(c, pick(c, 3) == 0);
        buf_add_str(&c->expected, "*5\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    }
    role_of(c)->check = check_exact;
}

/* One shard that all want at once, for longer than it takes to ask again: whoever helps there has enough of it soon. */
static void ask_hot(struct client *c)
{
    for (uint64_t n = 1 + pick(c, 3); n; n--) {
        rig_ask(c, "SPIN hot %u", (unsigned)pick(c, 60));
        buf_add_str(&c->expected, "+OK\r\n");
    }
    role_of(c)->check = check_exact;
}

/* ---- scripts that look at shared keys */

static void check_equal(struct client *c)
{
    size_t at = 0;
    struct slice first = {0};
    while (at < c->out.len) {
        struct rig_value head = rig_value(c, &at);
        RIG_CHECK(head.type == '*' && head.n == EQUALS, "MGET answered %.*s", (int)c->out.len, c->out.p);
        for (int i = 0; i < EQUALS; i++) {
            struct rig_value v = rig_value(c, &at);
            if (i == 0) first = v.text;
            RIG_CHECK(slice_eq(v.text, first), "torn: %.*s", (int)c->out.len, c->out.p);
        }
    }
}

static void ask_equal_get(struct client *c)
{
    rig_ask(c, "MGET eq0 eq1 eq2 eq3 eq4");
    rig_ask(c, "MGET eq4 eq0 eq3 eq1 eq2");
    for (int i = 0; i < EQUALS; i++) rig_queue(c, "GET eq%d", i);
    rig_exec(c, pick(c, 3) == 0);
    role_of(c)->check = check_equal;
}

static void check_no_error(struct client *c)
{
    size_t at = 0;
    while (at < c->out.len) {
        struct rig_value v = rig_value(c, &at);
        RIG_CHECK(v.type != '-' || slice_eq(v.text, slice_str("ERR no such key")), "answered %.*s", (int)c->out.len, c->out.p);
    }
}

static void ask_moves(struct client *c)
{
    for (uint64_t n = 1 + pick(c, 6); n; n--) {
        unsigned from = (unsigned)pick(c, PLACES), to = (unsigned)pick(c, PLACES);
        switch (pick(c, 3)) {
        case 0: rig_ask(c, "SMOVE set%u set%u m%u", from, to, (unsigned)pick(c, MEMBERS)); break;
        case 1: rig_ask(c, "LMOVE list%u list%u LEFT RIGHT", from, to); break;
        default: rig_ask(c, "RENAME name%u name%u", from, to);
        }
    }
    role_of(c)->check = check_no_error;
}

static void check_sums(struct client *c)
{
    size_t at = 0;
    struct rig_value u = rig_value(c, &at);
    RIG_CHECK(u.n == MEMBERS, "SUNION found %lld members", u.n);
    for (int i = 0; i < MEMBERS; i++) rig_value(c, &at);
    RIG_CHECK(rig_value(c, &at).n == 1, "EXISTS: the renamed key is not there once");
    RIG_CHECK(rig_value(c, &at).n == 2 * PLACES, "EXEC answered %.*s", (int)c->out.len, c->out.p);
    long long sets = 0, lists = 0;
    for (int i = 0; i < PLACES; i++) {
        sets += rig_value(c, &at).n;
        lists += rig_value(c, &at).n;
    }
    RIG_CHECK(sets == MEMBERS && lists == MEMBERS, "%lld members, %lld elements", sets, lists);
}

static void ask_sums(struct client *c)
{
    rig_ask(c, "SUNION set0 set1 set2 set3");
    rig_ask(c, "EXISTS name0 name1 name2 name3");
    for (int i = 0; i < PLACES; i++) {
        rig_queue(c, "SCARD set%d", i);
        rig_queue(c, "LLEN list%d", i);
    }
    rig_exec(c, false);
    role_of(c)->check = check_sums;
}

static void check_each(struct client *c)
{
    size_t at = 0;
    struct rig_value keys = rig_value(c, &at);
    RIG_CHECK(keys.type == '*' && keys.n == EQUALS, "KEYS found %lld", keys.n);
    for (int i = 0; i < EQUALS; i++) rig_value(c, &at);
    RIG_CHECK(rig_value(c, &at).n >= EQUALS, "DBSIZE");
}

static void ask_each(struct client *c)
{
    rig_ask(c, "KEYS eq?");
    rig_ask(c, "DBSIZE");
    role_of(c)->check = check_each;
}

static void check_counters(struct client *c)
{
    check_no_error(c);
    atomic_fetch_add(&role_of(c)->crowd->increments, role_of(c)->n);
}

static void ask_counters(struct client *c)
{
    role_of(c)->n = 1 + (uint32_t)pick(c, 40);
    for (uint32_t i = 0; i < role_of(c)->n; i++) rig_ask(c, "INCR counter%u", (unsigned)pick(c, COUNTERS));
    role_of(c)->check = check_counters;
}

/* A database of its own is emptied by all: commands over all shards at once. */
static void ask_whole(struct client *c)
{
    c->task.db = 5;
    rig_ask(c, "MSET a 1 b 2 c 3 d 4");
    rig_ask(c, pick(c, 2) ? "FLUSHDB" : "SWAPDB 5 6");
    rig_ask(c, "RANDOMKEY");
    role_of(c)->check = check_no_error;
}

/* ---- optimistic counters: read under WATCH, write if nothing changed */

static void check_read(struct client *c)
{
    size_t at = 0;
    rig_value(c, &at);
    struct rig_value v = rig_value(c, &at);
    RIG_CHECK(v.type == '$', "GET answered %.*s", (int)c->out.len, c->out.p);
    role_of(c)->read = strtoull(v.text.p, NULL, 10);
}

static void ask_read(struct client *c)
{
    struct role *ro = role_of(c);
    ro->n = (uint32_t)pick(c, PAIRS);
    rig_ask(c, "WATCH pair%u:a pair%u:b", ro->n, ro->n);
    rig_ask(c, "GET pair%u:a", ro->n);
    ro->check = check_read;
}

static void check_commit(struct client *c)
{
    size_t at = 0;
    if (rig_value(c, &at).n >= 0) atomic_fetch_add(&role_of(c)->crowd->commits, 1);
}

static void ask_commit(struct client *c)
{
    struct role *ro = role_of(c);
    unsigned long long v = ro->read + 1;
    ro->check = check_no_error;
    if (pick(c, 8) == 0) {
        rig_ask(c, "UNWATCH");
        return;
    }
    rig_queue(c, "SET pair%u:a %llu", ro->n, v);
    rig_queue(c, "SET pair%u:b %llu", ro->n, v);
    rig_exec(c, pick(c, 4) == 0);
    ro->check = check_commit;
}

/* ---- queues */

static void check_item(struct client *c, struct rig_value item)
{
    unsigned long long id = strtoull(item.text.p, NULL, 10);
    RIG_CHECK(id < atomic_load(&role_of(c)->crowd->next_item), "item %llu was never pushed", id);
    RIG_CHECK(atomic_fetch_add(&role_of(c)->crowd->popped[id], 1) == 0, "item %llu was popped twice", id);
}

static void push_items(struct client *c, const char *queue, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = atomic_fetch_add(&role_of(c)->crowd->next_item, 1);
        RIG_CHECK(id < ITEMS_MAX, "too many items");
        rig_ask(c, "RPUSH %s %llu", queue, (unsigned long long)id);
    }
}

static void ask_produce(struct client *c)
{
    char queue[16];
    snprintf(queue, sizeof queue, "queue%u", (unsigned)pick(c, QUEUES));
    push_items(c, queue, 1 + pick(c, 2));
    role_of(c)->check = check_no_error;
}

static void check_popped(struct client *c)
{
    size_t at = 0;
    if (!c->out.len) return; /* given up */
    RIG_CHECK(rig_value(c, &at).n == 2, "BLPOP answered %.*s", (int)c->out.len, c->out.p);
    rig_value(c, &at);
    check_item(c, rig_value(c, &at));
}

static void ask_consume(struct client *c)
{
    unsigned q = (unsigned)pick(c, QUEUES);
    role_of(c)->give_up_ms = c->worker->now_ms + 1 + (int64_t)pick(c, 4);
    role_of(c)->check = check_popped;
    switch (pick(c, 4)) {
    case 0: rig_ask(c, "BLPOP queue%u 0", q); break;
    case 1: rig_ask(c, "BLPOP queue%u queue%u 0", q, (q + 1) % QUEUES); break;
    case 2: rig_ask(c, "BLPOP queue3 queue0 queue1 queue2 0"); break;
    default:
        rig_ask(c, "BLMOVE queue%u queue%u LEFT RIGHT 0", q, (q + 1) % QUEUES);
        role_of(c)->check = check_no_error;
    }
}

/* ---- the crowd of all scripts */

static void any_script(struct client *c)
{
    static void (*const scripts[])(struct client *) = {ask_own_keys, ask_hot, ask_hot, ask_equal_set, ask_equal_get, ask_moves, ask_sums, ask_each, ask_counters,
                                                       ask_whole, ask_produce, ask_consume, ask_consume, ask_read, ask_read};
    struct role *ro = role_of(c);
    c->task.db = 0;
    if (ro->check == check_read) {
        ask_commit(c);
        return;
    }
    ro->kind = (uint32_t)pick(c, sizeof scripts / sizeof *scripts);
    scripts[ro->kind](c);
}

static void prepare(struct crowd *crowd)
{
    struct client *c = rig_client(crowd->rig, 0);
    rig_do(c, "MSET eq0 v eq1 v eq2 v eq3 v eq4 v name0 v pair0:a 0 pair0:b 0 pair1:a 0 pair1:b 0");
    for (int i = 0; i < MEMBERS; i++) {
        rig_do(c, "SADD set%d m%d", i % PLACES, i);
        rig_do(c, "RPUSH list%d e%d", i % PLACES, i);
    }
    c->role = mem_zalloc(sizeof(struct role));
    role_of(c)->finished = true;
    role_of(c)->crowd = crowd;
}

static long long number(struct crowd *crowd, const char *command, const char *stem, unsigned i)
{
    struct client *c = crowd->rig->clients;
    size_t at = 0;
    c->out.len = 0;
    c->on_idle = NULL;
    c->task.db = 0;
    rig_do(c, "%s %s%u", command, stem, i);
    struct rig_value v = rig_value(c, &at);
    return strtoll(v.text.p, NULL, 10);
}

static void check_books(struct crowd *crowd)
{
    long long increments = 0, commits = 0, popped = 0, left = 0;
    for (unsigned i = 0; i < COUNTERS; i++) increments += number(crowd, "GET", "counter", i);
    for (unsigned i = 0; i < PAIRS; i++) commits += number(crowd, "INCRBY", i ? "pair1:a " : "pair0:a ", 0);
    for (unsigned i = 0; i < QUEUES; i++) left += number(crowd, "LLEN", "queue", i);
    for (unsigned i = 0; i < ITEMS_MAX; i++) popped += crowd->popped[i];
    assert_int_equal(increments, crowd->increments);
    assert_int_equal(commits, crowd->commits);
    assert_int_equal(popped + left, crowd->next_item);
}

struct counted {
    uint64_t travelled, handovers, helped, aborted, brought_home, served, served_over_shards;
};

static struct counted count(struct crowd *crowd)
{
    struct counted n = {0};
    for (uint32_t i = 0; i < crowd->rig->n_workers; i++) {
        n.travelled += crowd->rig->workers[i]->stats.travelled;
        n.handovers += crowd->rig->workers[i]->stats.handovers;
        n.helped += crowd->rig->workers[i]->stats.helped;
    }
    for (struct client *c = crowd->rig->clients; c; c = c->next) {
        n.aborted += c->aborted;
        n.brought_home += c->brought_home;
        n.served += c->served;
        n.served_over_shards += c->served_over_shards;
    }
    return n;
}

static void counted_enough(struct crowd *crowd)
{
    struct counted n = count(crowd);
    print_message("travelled %llu, handed over %llu, aborted %llu, brought home %llu, served %llu (%llu over shards), cancelled %llu, committed %llu\n",
                  (unsigned long long)n.travelled, (unsigned long long)n.handovers, (unsigned long long)n.aborted,
                  (unsigned long long)n.brought_home, (unsigned long long)n.served, (unsigned long long)n.served_over_shards,
                  (unsigned long long)crowd->cancelled, (unsigned long long)crowd->commits);
    assert_true(n.travelled > 0 && n.helped > 0 && n.handovers > 0);
    assert_true(n.aborted > 0 && n.brought_home > 0 && crowd->commits > 0);
    assert_true(n.served > 0 && n.served_over_shards > 0 && crowd->cancelled > 0);
}

static void a_crowd_of_clients_sees_nothing_torn_lost_or_doubled(void **state)
{
    struct crowd *crowd = crowd_new();
    prepare(crowd);
    for (uint32_t i = 0; i < WORKERS * CLIENTS; i++)
        add_client(crowd, i % WORKERS, (uint32_t)env_number("SHERD_TEST_ROUNDS", ROUNDS))->next = any_script;
    run_crowd(crowd);
    check_books(crowd);
    counted_enough(crowd);
    crowd_free(crowd);
}

/* ---- waits without an end: one that is not woken stalls the test */

static void ask_push(struct client *c)
{
    static const char *const queues[] = {"pool0", "pool1", "pool2", "pool3"};
    push_items(c, queues[pick(c, 4)], 1);
    if (pick(c, 4) == 0) rig_ask(c, "SPIN own:%u %u", c->id, (unsigned)pick(c, 40));
    role_of(c)->check = check_no_error;
}

static void ask_pool(struct client *c)
{
    rig_ask(c, pick(c, 2) ? "BLPOP pool0 pool1 pool2 pool3 0" : "BLPOP pool3 pool1 pool0 pool2 0");
    role_of(c)->check = check_popped;
}

static void ask_chain_push(struct client *c)
{
    rig_ask(c, "RPUSH chain0 %u", role_of(c)->n++);
    role_of(c)->check = check_no_error;
}

static void ask_chain_move(struct client *c)
{
    rig_ask(c, "BLMOVE chain%u chain%u LEFT RIGHT 0", role_of(c)->kind, role_of(c)->kind + 1);
    role_of(c)->check = check_no_error;
}

static void check_chain_order(struct client *c)
{
    size_t at = 0;
    rig_value(c, &at);
    rig_value(c, &at);
    struct rig_value v = rig_value(c, &at);
    RIG_CHECK(strtoul(v.text.p, NULL, 10) == role_of(c)->n, "%.*s came instead of %u", (int)v.text.n, v.text.p, role_of(c)->n);
    role_of(c)->n++;
}

static void ask_chain_pop(struct client *c)
{
    rig_ask(c, "BLPOP chain%u 0", role_of(c)->kind);
    role_of(c)->check = check_chain_order;
}

static void a_waiter_is_woken_whatever_else_goes_on(void **state)
{
    enum { PAIRED = 8, LINKS = 4 };
    struct crowd *crowd = crowd_new();
    uint32_t rounds = (uint32_t)env_number("SHERD_TEST_ROUNDS", ROUNDS);
    for (uint32_t i = 0; i < PAIRED; i++) {
        add_client(crowd, i % WORKERS, rounds)->next = ask_push;
        add_client(crowd, (i + 1) % WORKERS, rounds)->next = ask_pool;
    }
    add_client(crowd, 0, rounds)->next = ask_chain_push;
    for (uint32_t i = 0; i < LINKS; i++) {
        struct role *ro = add_client(crowd, i % WORKERS, rounds);
        ro->next = ask_chain_move;
        ro->kind = i;
    }
    struct role *last = add_client(crowd, 3, rounds);
    last->next = ask_chain_pop;
    last->kind = LINKS;
    run_crowd(crowd);
    for (uint64_t i = 0; i < crowd->next_item; i++) assert_int_equal(crowd->popped[i], 1);
    assert_int_equal(last->n, rounds);
    assert_true(count(crowd).served_over_shards > 0);
    crowd_free(crowd);
}

/* ---- hot mailboxes, step by step */

struct echo {
    struct mail mail;
    int left;
};

static bool post_again(struct worker *w, struct shard *s, struct mail *m)
{
    struct echo *e = (struct echo *)m;
    if (--e->left) engine_post(w, s, m);
    return true;
}

static void a_helper_passes_a_hot_shard_on_to_its_home(void **state)
{
    struct rig *r = rig_new(2, 2);
    struct echo e = {.mail.to_shard = post_again, .left = 10};
    assert_int_equal(r->engine->shards[1].home, 1);
    engine_post(r->workers[0], &r->engine->shards[1], &e.mail);
    assert_true(e.left > 0);
    assert_int_equal(r->workers[0]->stats.handovers, 1);
    assert_int_equal(atomic_load(&r->engine->shards[1].token), 1);
    rig_turn(r, 1);
    assert_int_equal(e.left, 0);
    rig_free(r);
}

static void the_home_worker_of_a_hot_shard_turns_to_its_other_work_in_between(void **state)
{
    struct rig *r = rig_new(1, 2);
    struct echo e = {.mail.to_shard = post_again, .left = 1000};
    struct client *c = rig_client(r, 0);
    char k0[32], k1[32];
    rig_key(r, k0, "k", 0);
    rig_key(r, k1, "k", 1);
    engine_post(r->workers[0], &r->engine->shards[0], &e.mail);
    assert_true(e.left > 0);
    rig_do(c, "SET %s v", k1);
    rig_expect(c, "+OK\r\n");
    rig_do(c, "SET %s v", k0); /* of the hot shard itself: waits behind what is there, not for ever */
    while (c->away) assert_true(rig_turn(r, 0));
    assert_true(e.left > 0);
    rig_expect(c, "+OK\r\n");
    while (e.left) assert_true(rig_turn(r, 0));
    rig_free(r);
}

/* A task in a mailbox takes the token along and meets another busy one; what stood behind it there is not forgotten when the token comes free elsewhere. */
static void what_stands_behind_a_traveller_is_run_when_its_token_comes_free(void **state)
{
    struct rig *r = rig_new(2, 2);
    char k0[32], k1[32];
    rig_key(r, k0, "k", 0);
    rig_key(r, k1, "k", 1);
    struct client *a = rig_client(r, 0), *b = rig_client(r, 0);
    rig_hold(r, 0);
    rig_hold(r, 1);
    rig_do(a, "MSET %s 1 %s 2", k0, k1);
    rig_do(b, "GET %s", k0);
    rig_let_go(r, 0, 0); /* the traveller has shard 0 and waits for shard 1 */
    assert_true(a->away && b->away);
    rig_let_go(r, 1, 1);
    rig_settle(r);
    rig_expect(a, "+OK\r\n");
    rig_expect(b, "$1\r\n1\r\n");
    rig_free(r);
}

static void a_clock_that_is_set_back_lets_nothing_expire_early(void **state)
{
    struct rig *r = rig_new(1, 1);
    struct client *c = rig_client(r, 0);
    rig_do(c, "SET before v PX 7200000");
    r->workers[0]->now_ms -= 3600 * 1000;
    rig_do(c, "SET k v PX 60000");
    r->workers[0]->now_ms += 59000;
    rig_do(c, "GET k");
    r->workers[0]->now_ms += 2000;
    rig_do(c, "GET k");
    rig_do(c, "GET before");
    rig_expect(c, "+OK\r\n+OK\r\n$1\r\nv\r\n$-1\r\n$1\r\nv\r\n");
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_helper_passes_a_hot_shard_on_to_its_home),
        cmocka_unit_test(the_home_worker_of_a_hot_shard_turns_to_its_other_work_in_between),
        cmocka_unit_test(what_stands_behind_a_traveller_is_run_when_its_token_comes_free),
        cmocka_unit_test(a_crowd_of_clients_sees_nothing_torn_lost_or_doubled),
        cmocka_unit_test(a_waiter_is_woken_whatever_else_goes_on),
        cmocka_unit_test(a_clock_that_is_set_back_lets_nothing_expire_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
