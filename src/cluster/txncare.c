#include "cluster/txncare.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/intents.h"
#include "cluster/txnask.h"
#include "cluster/txncmd.h"
#include "resp/answer.h"

enum {
    CALL_MS = 2000,
    LOOK_AT_MAX = 64, /* intents and decisions of one look; the rest is for the next */
};

enum step { STEP_IDLE, STEP_LIST, STEP_ASK, STEP_END };

/* An intent or a decision that is looked after. */
struct orphan {
    uint32_t group; /* that has it */
    bool decided;   /* a decision, else an intent */
    const char *last; /* what is done with it in the end */
    char id[INTENTS_ID_MAX];
    size_t id_n;
    uint32_t first_request, n_requests;
};

struct txncare {
    struct txncare_host host;
    enum step step;
    uint32_t *listed, n_listed; /* groups */
    struct orphan orphans[LOOK_AT_MAX];
    uint32_t n_orphans;
    struct txncare_counts counts;
    struct txnask ask;
};

struct txncare *txncare_new(const struct txncare_host *host)
{
    struct txncare *c = mem_zalloc(sizeof *c);
    c->host = *host;
    c->listed = mem_alloc(host->groups * sizeof *c->listed + 1);
    return c;
}

void txncare_free(struct txncare *c)
{
    mem_free(c->listed);
    txnask_fini(&c->ask);
    mem_free(c);
}

const struct txncare_counts *txncare_counts(const struct txncare *c) { return &c->counts; }

static void add_request(struct txncare *c, uint32_t group, const char *command, struct slice word)
{
    txnask_add(&c->ask, group, command);
    txnask_word(&c->ask, word);
}

/* The next step; without a request that was all. */
static void send(struct txncare *c, enum step step)
{
    c->step = c->ask.n ? step : STEP_IDLE;
    if (c->ask.n) c->host.send(c->host.ctx, c, txnask_requests(&c->ask), c->ask.n, CALL_MS);
}

/* ---- list */

void txncare_look(struct txncare *c)
{
    if (c->step != STEP_IDLE) return;
    txnask_clear(&c->ask);
    c->n_listed = 0;
    for (uint32_t g = 0; g < c->host.groups; g++) {
        if (!c->host.leads(c->host.ctx, g)) continue;
        c->listed[c->n_listed++] = g;
        add_request(c, g, "txn.list", SLICE("0"));
    }
    c->n_orphans = 0;
    send(c, STEP_LIST);
    if (c->step == STEP_IDLE) c->counts.intents = 0;
}

static struct orphan *add_orphan(struct txncare *c, uint32_t group, struct slice id, bool decided)
{
    if (c->n_orphans == LOOK_AT_MAX || id.n == 0 || id.n > sizeof c->orphans->id) return NULL;
    struct orphan *o = &c->orphans[c->n_orphans++];
    *o = (struct orphan){.group = group, .decided = decided, .id_n = id.n, .first_request = c->ask.n};
    memcpy(o->id, id.p, id.n);
    return o;
}

static bool take_bulk(struct slice *in, struct slice *bytes)
{
    struct answer a;
    if (!answer_next(in, &a) || a.type != '$') return false;
    *bytes = a.text;
    return true;
}

static bool take_number(struct slice *in, uint64_t max, uint64_t *n)
{
    struct answer a;
    if (!answer_next(in, &a) || a.type != ':' || a.n < 0 || (uint64_t)a.n > max) return false;
    *n = (uint64_t)a.n;
    return true;
}

/* ID, DECIDER, age: its fate is asked for. */
static bool take_intent(struct txncare *c, uint32_t group, struct slice *in)
{
    uint32_t n;
    struct slice id;
    uint64_t decider, age;
    if (!answer_array(in, &n) || n != 3 || !take_bulk(in, &id) || !take_number(in, c->host.groups - 1, &decider) || !take_number(in, INT64_MAX, &age)) return false;
    c->counts.intents++;
    struct orphan *o = age >= TXNCARE_AFTER_MS ? add_orphan(c, group, id, false) : NULL;
    if (!o) return true;
    add_request(c, (uint32_t)decider, "txn.ask", slice_of(o->id, o->id_n));
    o->n_requests = 1;
    return true;
}

/* ID, groups, age: the groups are told; or if all have been, it has been kept long enough. */
static bool take_decision(struct txncare *c, uint32_t group, struct slice *in)
{
    uint32_t n, n_groups;
    struct slice id, groups;
    uint64_t number, age;
    if (!answer_array(in, &n) || n != 3 || !take_bulk(in, &id)) return false;
    groups = *in;
    if (!answer_array(in, &n_groups)) return false;
    for (uint32_t i = 0; i < n_groups; i++)
        if (!take_number(in, c->host.groups - 1, &number)) return false;
    if (!take_number(in, INT64_MAX, &age)) return false;
    if (age < (n_groups ? TXNCARE_AFTER_MS : TXNCMD_KEPT_MS)) return true;
    struct orphan *o = add_orphan(c, group, id, true);
    if (!o) return true;
    o->n_requests = n_groups;
    o->last = n_groups ? "txn.settled" : "txn.forget";
    answer_array(&groups, &n);
    while (n-- && take_number(&groups, c->host.groups - 1, &number)) add_request(c, (uint32_t)number, "txn.commit", slice_of(o->id, o->id_n));
    return true;
}

static void take_list(struct txncare *c, uint32_t group, struct slice in)
{
    uint32_t n;
    bool good = answer_array(&in, &n) && n == 2 && answer_array(&in, &n);
    while (good && n--) good = take_intent(c, group, &in);
    good = good && answer_array(&in, &n);
    while (good && n--) good = take_decision(c, group, &in);
}

static void end_orphans(struct txncare *c, const struct txn_answer *answers);

static void on_listed(struct txncare *c, const struct txn_answer *answers, uint32_t n)
{
    txnask_clear(&c->ask);
    c->counts.intents = 0;
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].fate == TXN_ANSWERED) take_list(c, c->listed[i], answers[i].reply);
    if (c->ask.n) send(c, STEP_ASK);
    else end_orphans(c, NULL);
}

/* ---- ask, and the end */

static bool is_ok(const struct txn_answer *a) { return a->fate == TXN_ANSWERED && slice_eq(a->reply, SLICE("+OK\r\n")); }

/* What is to be done last with an orphan, by what was answered about it; NULL: nothing yet. */
static const char *last_of(const struct orphan *o, const struct txn_answer *answers)
{
    if (o->decided) {
        for (uint32_t i = 0; i < o->n_requests; i++)
            if (!is_ok(&answers[o->first_request + i])) return NULL;
        return o->last;
    }
    const struct txn_answer *a = &answers[o->first_request];
    if (a->fate != TXN_ANSWERED) return NULL;
    if (slice_eq(a->reply, SLICE("+committed\r\n"))) return "txn.commit";
    return slice_eq(a->reply, SLICE("+none\r\n")) ? "txn.drop" : NULL;
}

static void end_orphans(struct txncare *c, const struct txn_answer *answers)
{
    uint32_t n = 0;
    txnask_clear(&c->ask);
    for (uint32_t i = 0; i < c->n_orphans; i++) {
        struct orphan o = c->orphans[i];
        o.last = last_of(&o, answers);
        if (!o.last) continue;
        add_request(c, o.group, o.last, slice_of(o.id, o.id_n));
        c->orphans[n++] = o;
    }
    c->n_orphans = n;
    send(c, STEP_END);
}

static void on_ended(struct txncare *c, const struct txn_answer *answers, uint32_t n)
{
    struct txncare_counts *k = &c->counts;
    for (uint32_t i = 0; i < n; i++) {
        const char *last = c->orphans[i].last;
        if (!is_ok(&answers[i])) continue;
        if (strcmp(last, "txn.commit") == 0) k->committed++;
        else if (strcmp(last, "txn.drop") == 0) k->dropped++;
        else if (strcmp(last, "txn.settled") == 0) k->settled++;
        else k->forgotten++;
    }
    c->step = STEP_IDLE;
}

void txncare_answered(struct txncare *c, const struct txn_answer *answers, uint32_t n)
{
    CHECK(c->step != STEP_IDLE && n == c->ask.n);
    if (c->step == STEP_LIST) on_listed(c, answers, n);
    else if (c->step == STEP_ASK) end_orphans(c, answers);
    else on_ended(c, answers, n);
}
