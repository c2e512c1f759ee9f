/* A crowd of coordinators and the care, against groups that are naive models of cluster/txncmd.h, over links that lose and delay, with leaders and coordinators that are lost.
 *
 * Accounts lie in several groups; transactions move money between some of them, or read them all. What must hold, for every seed:
 *   - an op meets the value that its transaction has read: what was fetched is what was overwritten;
 *   - every transaction happens once or not at all, and as its coordinator was told;
 *   - one that reads all accounts finds the sum;
 *   - in the end no intent is left, and the sum is there.
 * A seed proves something only if transactions of all outcomes were there, and orphans were found: the test as a whole asks for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "cluster/txn.h"
#include "cluster/txncare.h"
#include "cluster/txncmd.h"
#include "resp/reply.h"

enum {
    GROUPS = 4,
    FIRST_GROUP = 2,
    ACCOUNTS = 10,
    MONEY = 100, /* of each, at first */
    COORDINATORS = 6,
    TRANSACTIONS = 120, /* of a seed */
    SEEDS = 60,
    LOCKS_MAX = 64,
    EVENTS_MAX = 4096,
    RESERVED_MS = 1000,
};

/* ---- groups */

enum lock_state { LOCK_RESERVED, LOCK_INTENT, LOCK_DECISION };

struct lock { /* of one transaction in a group */
    char id[33];
    enum lock_state state;
    uint64_t token;
    int64_t since_ms;
    char uses[ACCOUNTS]; /* 0: not this one */
    uint32_t decider;
    uint32_t groups[GROUPS], n_groups;
    char ops[512];
    size_t ops_n;
};

struct group {
    struct lock locks[LOCKS_MAX];
    uint32_t n_locks;
    int64_t down_until_ms; /* nobody leads it */
};

struct teller;

struct call {
    struct teller *teller; /* NULL: the care's */
    bool gone;             /* nobody waits for it */
    uint32_t left, n;
    struct txn_answer *answers;
    struct buf *replies;
};

struct event {
    int64_t at_ms;
    uint64_t order;
    struct call *call;
    uint32_t request;
    bool answers; /* else it arrives at its group */
    bool late;    /* a copy that nobody waits for */
    uint32_t group, argc;
    struct slice *argv;
    int64_t until_ms; /* of its asker */
};

struct bank;

struct teller {
    struct bank *bank;
    struct txn *txn;
    struct call *call;
    uint32_t number; /* of the transaction */
    struct txn_key keys[ACCOUNTS];
    char names[ACCOUNTS][4];
    uint32_t account[ACCOUNTS], n_keys;
    int64_t seen[ACCOUNTS];
    bool reads_all;
};

struct bank {
    struct rng rng;
    int64_t now_ms;
    uint64_t order, tokens;
    int64_t money[ACCOUNTS];
    struct group groups[GROUPS];
    struct event events[EVENTS_MAX];
    uint32_t n_events;
    struct teller tellers[COORDINATORS];
    struct txncare *care;
    struct call *care_call;
    int64_t next_look_ms;
    uint32_t begun;
    uint8_t happened[TRANSACTIONS + 1]; /* how often it was decided */
    uint8_t told[TRANSACTIONS + 1];     /* outcome + 1; 0: nobody was told */
    bool writes[TRANSACTIONS + 1];
    bool calm; /* no more faults */
};

struct totals {
    uint64_t outcomes[TXN_UNCERTAIN + 1], anew, died, committed, dropped, settled, reads;
} totals;

static bool chance(struct bank *b, uint32_t one_in) { return !b->calm && rng_below(&b->rng, one_in) == 0; }
static uint32_t group_of_account(uint32_t a) { return FIRST_GROUP + a * 7 % GROUPS; }

static struct lock *find(struct group *g, struct slice id)
{
    for (uint32_t i = 0; i < g->n_locks; i++)
        if (slice_eq(slice_str(g->locks[i].id), id)) return &g->locks[i];
    return NULL;
}

static void unlock(struct group *g, struct lock *l) { *l = g->locks[--g->n_locks]; }

static uint64_t number_of(struct slice s)
{
    uint64_t n = 0;
    assert_true(num_parse_u64(s, &n));
    return n;
}

/* "transaction account old new" */
static void apply(struct bank *b, uint32_t group, struct slice ops)
{
    while (ops.n) {
        char text[64] = "";
        uint32_t n = le_u32(ops.p), number, account;
        long long old, new;
        assert_true(n < sizeof text);
        memcpy(text, ops.p + 4, n);
        assert_int_equal(sscanf(text, "%u %u %lld %lld", &number, &account, &old, &new), 4);
        assert_int_equal(group_of_account(account), group);
        assert_int_equal(b->money[account], old);
        b->money[account] = new;
        ops = slice_of(ops.p + 4 + n, ops.n - 4 - n);
    }
}

/* True: another one is in the way. Reservations that are too old are not. */
static bool is_taken(struct bank *b, struct group *g, struct slice id, uint32_t account, char use)
{
    for (uint32_t i = 0; i < g->n_locks; i++) {
        struct lock *l = &g->locks[i];
        if (slice_eq(slice_str(l->id), id) || l->state == LOCK_DECISION || !l->uses[account]) continue;
        if (use == 'r' && l->uses[account] == 'r') continue;
        if (l->state == LOCK_INTENT || b->now_ms - l->since_ms < RESERVED_MS) return true;
        unlock(g, l);
        i--;
    }
    return false;
}

static void fetch(struct bank *b, struct group *g, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct lock *l = find(g, argv[1]);
    uint32_t n = (uint32_t)number_of(argv[2]);
    if (l && l->state != LOCK_RESERVED) {
        reply_error(out, "TXNGONE prepared");
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_taken(b, g, argv[1], (uint32_t)(argv[5 + 3 * i].p[1] - '0'), argv[4 + 3 * i].p[0])) {
            reply_error(out, "TXNBUSY taken");
            return;
        }
    l = find(g, argv[1]);
    if (!l) {
        assert_true(g->n_locks < LOCKS_MAX);
        l = &g->locks[g->n_locks++];
        *l = (struct lock){.token = ++b->tokens, .since_ms = b->now_ms};
        memcpy(l->id, argv[1].p, argv[1].n);
    }
    char token[TXNCMD_TOKEN_BYTES + 1];
    snprintf(token, sizeof token, "%016llx", (unsigned long long)l->token);
    reply_array(out, n + 1);
    reply_bulk_str(out, token);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t account = (uint32_t)(argv[5 + 3 * i].p[1] - '0');
        l->uses[account] = argv[4 + 3 * i].p[0];
        reply_bulk_i64(out, b->money[account]);
    }
}

static bool is_held(const struct lock *l, struct slice token)
{
    char text[TXNCMD_TOKEN_BYTES + 1];
    if (!l || l->state != LOCK_RESERVED) return false;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)l->token);
    return slice_eq(token, slice_str(text));
}

static void keep_ops(struct lock *l, struct slice ops)
{
    assert_true(ops.n <= sizeof l->ops);
    memcpy(l->ops, ops.p, ops.n);
    l->ops_n = ops.n;
}

static void prepare(struct bank *b, struct group *g, const struct slice *argv, struct reply *out)
{
    struct lock *l = find(g, argv[1]);
    if (!(l && l->state == LOCK_INTENT) && !is_held(l, argv[2])) {
        reply_error(out, "TXNGONE lost");
        return;
    }
    if (l->state == LOCK_RESERVED) {
        l->state = LOCK_INTENT;
        l->since_ms = b->now_ms;
        l->decider = (uint32_t)number_of(argv[3]);
        keep_ops(l, argv[4]);
    }
    reply_ok(out);
}

static uint32_t number_of_id(struct slice id) { return (uint32_t)strtoul(id.p + 1, NULL, 10); }

static void decide(struct bank *b, struct group *g, uint32_t group, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct lock *l = find(g, argv[1]);
    if (!(l && l->state == LOCK_DECISION) && !is_held(l, argv[2])) {
        reply_error(out, "TXNGONE lost");
        return;
    }
    if (l->state == LOCK_RESERVED) {
        apply(b, group, argv[argc - 1]);
        l->state = LOCK_DECISION;
        l->since_ms = b->now_ms;
        l->n_groups = (uint32_t)number_of(argv[3]);
        for (uint32_t i = 0; i < l->n_groups; i++) l->groups[i] = (uint32_t)number_of(argv[4 + i]);
        b->happened[number_of_id(argv[1])]++;
    }
    reply_ok(out);
}

static void list(struct bank *b, struct group *g, struct reply *out)
{
    reply_array(out, 2);
    for (enum lock_state state = LOCK_INTENT; state <= LOCK_DECISION; state++) {
        size_t n = 0, mark = reply_open(out);
        for (uint32_t i = 0; i < g->n_locks; i++) {
            const struct lock *l = &g->locks[i];
            if (l->state != state) continue;
            reply_array(out, 3);
            reply_bulk_str(out, l->id);
            if (state == LOCK_INTENT) reply_int(out, l->decider);
            else reply_array(out, l->n_groups);
            for (uint32_t k = 0; state == LOCK_DECISION && k < l->n_groups; k++) reply_int(out, l->groups[k]);
            reply_int(out, b->now_ms - l->since_ms);
            n++;
        }
        reply_close_array(out, mark, n);
    }
}

static void serve(struct bank *b, uint32_t group, const struct slice *argv, uint32_t argc, struct reply *out)
{
    struct group *g = &b->groups[group - FIRST_GROUP];
    struct lock *l = argc > 1 ? find(g, argv[1]) : NULL;
    if (slice_is(argv[0], "txn.fetch")) fetch(b, g, argv, argc, out);
    else if (slice_is(argv[0], "txn.prepare")) prepare(b, g, argv, out);
    else if (slice_is(argv[0], "txn.decide")) decide(b, g, group, argv, argc, out);
    else if (slice_is(argv[0], "txn.list")) list(b, g, out);
    else if (slice_is(argv[0], "txn.done")) {
        bool held = is_held(l, argv[2]);
        if (held) unlock(g, l);
        if (held) reply_ok(out);
        else reply_error(out, "TXNGONE lost");
    } else if (slice_is(argv[0], "txn.ask")) {
        reply_simple(out, l && l->state == LOCK_DECISION ? "committed" : "none");
        if (l && l->state == LOCK_RESERVED) unlock(g, l);
    } else {
        if (slice_is(argv[0], "txn.commit") && l && l->state == LOCK_INTENT) {
            apply(b, group, slice_of(l->ops, l->ops_n));
            unlock(g, l);
        } else if (slice_is(argv[0], "txn.drop") && l && l->state != LOCK_DECISION) {
            unlock(g, l);
        } else if (slice_is(argv[0], "txn.settled") && l && l->state == LOCK_DECISION) {
            l->n_groups = 0;
        } else if (slice_is(argv[0], "txn.forget") && l && l->state == LOCK_DECISION) {
            unlock(g, l);
        }
        reply_ok(out);
    }
}

/* ---- links: a request arrives, and its answer; either may be lost. Who asks to read asks again, who asks to write cannot know. */

static bool is_write(struct slice name)
{
    static const char *const writes[] = {"txn.prepare", "txn.decide", "txn.commit", "txn.drop", "txn.settled", "txn.forget"};
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        if (slice_is(name, writes[i])) return true;
    return false;
}

static struct event *add_event(struct bank *b, int64_t delay_ms)
{
    assert_true(b->n_events < EVENTS_MAX);
    struct event *e = &b->events[b->n_events++];
    *e = (struct event){.at_ms = b->now_ms + delay_ms, .order = b->order++};
    return e;
}

static int64_t delay(struct bank *b) { return (int64_t)(chance(b, 40) ? rng_below(&b->rng, 1500) : rng_below(&b->rng, 4)); }

static struct slice *copy_args(const struct slice *argv, uint32_t argc)
{
    struct slice *to = mem_alloc(argc * sizeof *to);
    for (uint32_t i = 0; i < argc; i++) to[i] = slice_of(mem_dup(argv[i].n ? argv[i].p : "", argv[i].n + 1), argv[i].n);
    return to;
}

static void free_args(struct slice *argv, uint32_t argc)
{
    for (uint32_t i = 0; i < argc; i++) mem_free((void *)argv[i].p);
    mem_free(argv);
}

static struct call *send_call(struct bank *b, struct teller *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct call *c = mem_zalloc(sizeof *c);
    *c = (struct call){.teller = t, .left = n, .n = n, .answers = mem_zalloc(n * sizeof *c->answers), .replies = mem_zalloc(n * sizeof *c->replies)};
    for (uint32_t i = 0; i < n; i++) {
        struct event *e = add_event(b, delay(b));
        e->call = c;
        e->request = i;
        e->group = requests[i].group;
        e->argc = requests[i].argc;
        e->argv = copy_args(requests[i].argv, requests[i].argc);
        e->until_ms = b->now_ms + timeout_ms;
        if (!chance(b, 60)) continue;
        struct event *copy = add_event(b, (int64_t)rng_below(&b->rng, 4000)); /* of the message, that comes when nobody waits for it any more */
        *copy = (struct event){.at_ms = copy->at_ms, .order = copy->order, .late = true, .group = e->group, .argc = e->argc, .argv = copy_args(e->argv, e->argc)};
    }
    return c;
}

static void free_call(struct call *c)
{
    for (uint32_t i = 0; i < c->n; i++) buf_fini(&c->replies[i]);
    mem_free(c->replies);
    mem_free(c->answers);
    mem_free(c);
}

static void end_call(struct bank *b, struct call *c)
{
    for (uint32_t i = 0; i < c->n; i++) c->answers[i].reply = buf_slice(&c->replies[i]);
    if (c->gone) {
    } else if (c->teller) {
        c->teller->call = NULL;
        txn_answered(c->teller->txn, b->now_ms, c->answers, c->n);
    } else {
        b->care_call = NULL;
        txncare_answered(b->care, c->answers, c->n);
    }
    free_call(c);
}

static void answer(struct bank *b, struct call *c, uint32_t i, enum txn_fate fate)
{
    c->answers[i].fate = fate;
    struct event *e = add_event(b, delay(b));
    e->call = c;
    e->answers = true;
}

static void arrive(struct bank *b, struct event *e)
{
    struct group *g = &b->groups[e->group - FIRST_GROUP];
    bool down = g->down_until_ms > b->now_ms, writes = is_write(e->argv[0]);
    struct buf reply = {0};
    if (e->late && down) {
    } else if (down || chance(b, 50)) { /* nobody is there, or the message is lost on its way: it goes again */
        if (e->late) {
        } else if (b->now_ms >= e->until_ms) {
            answer(b, e->call, e->request, TXN_NOT_DONE);
        } else if (!down && writes && chance(b, 2)) { /* it may have arrived, for all that the asker knows */
            answer(b, e->call, e->request, TXN_MAY_BE_DONE);
        } else {
            struct event *again = add_event(b, 20);
            uint64_t order = again->order;
            int64_t at_ms = again->at_ms;
            *again = *e;
            again->order = order;
            again->at_ms = at_ms;
            return;
        }
    } else {
        serve(b, e->group, e->argv, e->argc, &(struct reply){&reply, 2});
        if (e->late) {
        } else if (chance(b, 40) && writes) {
            answer(b, e->call, e->request, TXN_MAY_BE_DONE);
            if (chance(b, 4)) g->down_until_ms = b->now_ms + 8000; /* so that nobody can be asked */
        } else if (chance(b, 40) && b->now_ms < e->until_ms) { /* the answer is lost, and it is asked again */
            struct event *again = add_event(b, 20);
            uint64_t order = again->order;
            int64_t at_ms = again->at_ms;
            *again = *e;
            again->order = order;
            again->at_ms = at_ms;
            buf_fini(&reply);
            if (!writes) return;
            again->argv = copy_args(e->argv, e->argc);
        } else {
            buf_add_slice(&e->call->replies[e->request], buf_slice(&reply));
            answer(b, e->call, e->request, TXN_ANSWERED);
        }
    }
    buf_fini(&reply);
    free_args(e->argv, e->argc);
}

/* ---- transactions */

static uint32_t group_of(void *ctx, struct slice key) { return group_of_account((uint32_t)(key.p[1] - '0')); }

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct teller *s = ctx;
    assert_null(s->call);
    s->call = send_call(s->bank, s, requests, n, timeout_ms);
}

/* One of them pays, another gets it; the rest is only looked at. */
static bool run(void *ctx, struct txn *t)
{
    struct teller *s = ctx;
    struct slice raw;
    for (uint32_t i = 0; i < s->n_keys; i++) {
        uint64_t v;
        assert_true(txn_entry(t, i, &raw));
        v = number_of(raw);
        s->seen[i] = (int64_t)v;
    }
    if (s->reads_all) return true;
    int64_t sum = (int64_t)rng_below(&s->bank->rng, (uint64_t)s->seen[0] + 1);
    if (sum == 0) return false;
    for (uint32_t i = 0; i < 2; i++) {
        char op[64];
        int n = snprintf(op, sizeof op, "%u %u %lld %lld", s->number, s->account[i], (long long)s->seen[i], (long long)(s->seen[i] + (i ? sum : -sum)));
        txn_write(t, i, slice_of(op, (size_t)n));
    }
    s->bank->writes[s->number] = true;
    return true;
}

static void settled(void *ctx, struct txn *t, enum txn_outcome o)
{
    struct teller *s = ctx;
    struct bank *b = s->bank;
    b->told[s->number] = (uint8_t)(o + 1);
    totals.outcomes[o]++;
    totals.anew += txn_attempts(t) > 1;
    if (o != TXN_DONE) return;
    if (!s->reads_all) {
        assert_int_equal(b->happened[s->number], 1);
        return;
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_keys; i++) sum += s->seen[i];
    assert_int_equal(sum, ACCOUNTS * MONEY);
    totals.reads++;
}

static void over(void *ctx, struct txn *t)
{
    struct teller *s = ctx;
    txn_free(t);
    s->txn = NULL;
}

static void begin(struct bank *b, struct teller *s)
{
    char name[16];
    s->number = ++b->begun;
    s->reads_all = rng_below(&b->rng, 3) == 0;
    s->n_keys = s->reads_all ? ACCOUNTS : 2 + (uint32_t)rng_below(&b->rng, 3);
    uint32_t order[ACCOUNTS];
    for (uint32_t i = 0; i < ACCOUNTS; i++) order[i] = i;
    for (uint32_t i = 0; i < s->n_keys; i++) {
        uint32_t k = i + (uint32_t)rng_below(&b->rng, ACCOUNTS - i), a = order[k];
        order[k] = order[i];
        order[i] = a;
        s->account[i] = a;
        snprintf(s->names[i], sizeof s->names[i], "k%u", a);
        s->keys[i] = (struct txn_key){.use = !s->reads_all && i < 2 ? 'w' : 'r', .key = slice_str(s->names[i])};
    }
    snprintf(name, sizeof name, "t%u", s->number);
    struct txn_host host = {s, group_of, send, run, settled, over, NULL};
    s->txn = txn_new(&host, slice_str(name), s->keys, s->n_keys);
    txn_start(s->txn, b->now_ms, 5000);
}

/* The node that coordinates it is gone. */
static void die(struct teller *s)
{
    if (s->call) s->call->gone = true;
    s->call = NULL;
    txn_free(s->txn);
    s->txn = NULL;
    totals.died++;
}

/* ---- time */

static bool leads(void *ctx, uint32_t group) { return group >= FIRST_GROUP && group < FIRST_GROUP + GROUPS; }

static void care_send(void *ctx, struct txncare *c, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    struct bank *b = ctx;
    assert_null(b->care_call);
    b->care_call = send_call(b, NULL, requests, n, timeout_ms);
}

/* Leaders are lost, and with them all reservations. */
static void disturb(struct bank *b)
{
    struct group *g = &b->groups[rng_below(&b->rng, GROUPS)];
    if (chance(b, 400)) {
        g->down_until_ms = b->now_ms + (int64_t)rng_below(&b->rng, chance(b, 4) ? 8000 : 1000);
        for (uint32_t i = 0; i < g->n_locks; i++)
            if (g->locks[i].state == LOCK_RESERVED) unlock(g, &g->locks[i--]);
    }
    struct teller *s = &b->tellers[rng_below(&b->rng, COORDINATORS)];
    if (s->txn && chance(b, 800)) die(s);
}

static bool next_event(struct bank *b, struct event *out)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < b->n_events; i++) {
        const struct event *e = &b->events[i], *f = first == UINT32_MAX ? NULL : &b->events[first];
        if (e->at_ms > b->now_ms) continue;
        if (!f || e->at_ms < f->at_ms || (e->at_ms == f->at_ms && e->order < f->order)) first = i;
    }
    if (first == UINT32_MAX) return false;
    *out = b->events[first];
    b->events[first] = b->events[--b->n_events];
    return true;
}

static void pass_ms(struct bank *b)
{
    struct event e;
    b->now_ms++;
    disturb(b);
    while (next_event(b, &e)) {
        if (!e.answers) arrive(b, &e);
        else if (--e.call->left == 0) end_call(b, e.call);
    }
    for (uint32_t i = 0; i < COORDINATORS; i++) {
        struct teller *s = &b->tellers[i];
        if (s->txn) txn_wake(s->txn, b->now_ms);
        else if (b->begun < TRANSACTIONS && rng_below(&b->rng, 20) == 0) begin(b, s);
    }
    if (b->now_ms < b->next_look_ms) return;
    b->next_look_ms = b->now_ms + 500;
    txncare_look(b->care);
}

static uint32_t intents_left(const struct bank *b)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t i = 0; i < b->groups[g].n_locks; i++) n += b->groups[g].locks[i].state == LOCK_INTENT;
    return n;
}

static bool is_busy(const struct bank *b)
{
    for (uint32_t i = 0; i < COORDINATORS; i++)
        if (b->tellers[i].txn) return true;
    return b->begun < TRANSACTIONS || intents_left(b) || b->n_events;
}

static void check_bank(const struct bank *b)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < ACCOUNTS; i++) sum += b->money[i];
    assert_int_equal(sum, ACCOUNTS * MONEY);
    for (uint32_t i = 1; i <= b->begun; i++) {
        enum txn_outcome o = (enum txn_outcome)(b->told[i] - 1);
        assert_true(b->happened[i] <= 1);
        if (b->told[i] && o != TXN_DONE && o != TXN_UNCERTAIN && b->happened[i]) fail_msg("transaction %u happened, and its client was told that it had not", i);
    }
}

static void run_seed(uint64_t seed)
{
    enum { CALM_AFTER_MS = 120 * 1000, END_MS = 400 * 1000 };
    struct bank *b = mem_zalloc(sizeof *b);
    rng_init(&b->rng, seed);
    b->now_ms = 1000000;
    b->care = txncare_new(&(struct txncare_host){.ctx = b, .leads = leads, .groups = FIRST_GROUP + GROUPS, .send = care_send});
    for (uint32_t i = 0; i < ACCOUNTS; i++) b->money[i] = MONEY;
    for (uint32_t i = 0; i < COORDINATORS; i++) b->tellers[i].bank = b;
    int64_t began = b->now_ms;
    while (is_busy(b) && b->now_ms - began < END_MS) {
        b->calm = b->begun == TRANSACTIONS || b->now_ms - began > CALM_AFTER_MS;
        pass_ms(b);
    }
    assert_int_equal(b->begun, TRANSACTIONS);
    assert_false(is_busy(b));
    check_bank(b);
    const struct txncare_counts *k = txncare_counts(b->care);
    totals.committed += k->committed;
    totals.dropped += k->dropped;
    totals.settled += k->settled;
    txncare_free(b->care);
    mem_free(b);
}

static void money_is_neither_lost_nor_made_whatever_is_lost(void **state)
{
    const char *one = getenv("SHERD_TEST_SEED");
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (one) seed = strtoull(one, NULL, 10);
        print_message("seed %llu\n", (unsigned long long)seed);
        run_seed(seed);
        if (one) return;
    }
    for (int o = TXN_DONE; o <= TXN_UNCERTAIN; o++)
        if (o != TXN_REFUSED && o != TXN_CHANGED && totals.outcomes[o] == 0) /* no group refuses here, and nobody watches */
            fail_msg("no transaction ended with outcome %d: nothing is proved about it", o);
    assert_true(totals.reads && totals.anew && totals.died && totals.committed && totals.dropped && totals.settled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(money_is_neither_lost_nor_made_whatever_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
