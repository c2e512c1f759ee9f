#include "cluster/txn.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "cluster/txnask.h"
#include "cluster/txncmd.h"
#include "resp/answer.h"

enum {
    PAUSE_MIN_MS = 2, /* before something that was taken is asked for again; doubled each time, up to */
    PAUSE_MAX_MS = 50,
    CALL_MIN_MS = 100,     /* a request has this long, however little time is left: what has been begun is better ended */
    CLEAN_UP_MS = 2000,    /* commits and drops of what is settled; what they do not reach is left to cluster/txncare.h */
    ATTEMPTS_MAX = 0xfff,  /* that have a number of three digits */
};

enum state {
    STATE_NEW,
    STATE_PAUSED,  /* until wakes_ms; `then` goes on */
    STATE_FETCHING,
    STATE_ENDING,  /* nothing was written: txn.done */
    STATE_PREPARING,
    STATE_DECIDING,
    STATE_ASKING,
    STATE_COMMITTING,
    STATE_FORGETTING,
    STATE_DROPPING, /* then it begins anew, unless it is settled */
    STATE_OVER,
};

struct key {
    struct txn_key k;
    uint32_t group;      /* in txn->groups */
    bool there;
    size_t entry_at, entry_n; /* in entries */
};

struct group {
    uint32_t number;
    bool touched; /* it may have a reservation of this attempt */
    char token[TXNCMD_TOKEN_BYTES];
    struct buf ops;
};

struct txn {
    struct txn_host host;
    char id[TXN_NAME_MAX + 4]; /* the name, and from name_n on the attempt */
    size_t name_n, id_n;
    struct key *keys;
    uint32_t n_keys;
    struct group *groups; /* of this attempt, ascending */
    uint32_t n_groups;
    uint32_t decider;     /* of groups */
    enum state state;
    void (*then)(struct txn *t, int64_t now_ms);
    int64_t deadline_ms, wakes_ms, decided_ms;
    uint32_t pause_ms;
    uint32_t attempts;
    bool one_by_one; /* groups are reserved one after the other, in ascending order */
    uint32_t next;   /* and this one is next */
    bool settled;
    struct buf entries, error;
    struct txnask ask;
};

/* ---- life */

struct txn *txn_new(const struct txn_host *host, struct slice name, const struct txn_key *keys, uint32_t n)
{
    CHECK(name.n > 0 && name.n <= TXN_NAME_MAX && n > 0);
    struct txn *t = mem_zalloc(sizeof *t);
    t->host = *host;
    memcpy(t->id, name.p, name.n);
    t->name_n = name.n;
    t->keys = mem_zalloc(n * sizeof *t->keys);
    t->groups = mem_zalloc(n * sizeof *t->groups);
    t->n_keys = n;
    for (uint32_t i = 0; i < n; i++) t->keys[i].k = keys[i];
    t->wakes_ms = INT64_MAX;
    return t;
}

static void forget_groups(struct txn *t)
{
    for (uint32_t i = 0; i < t->n_groups; i++) buf_fini(&t->groups[i].ops);
    t->n_groups = 0;
}

void txn_free(struct txn *t)
{
    forget_groups(t);
    mem_free(t->groups);
    mem_free(t->keys);
    buf_fini(&t->entries);
    buf_fini(&t->error);
    txnask_fini(&t->ask);
    mem_free(t);
}

struct slice txn_error(const struct txn *t) { return buf_slice(&t->error); }
uint32_t txn_attempts(const struct txn *t) { return t->attempts; }
int64_t txn_wakes_ms(const struct txn *t) { return t->wakes_ms; }

bool txn_entry(const struct txn *t, uint32_t key, struct slice *raw)
{
    const struct key *k = &t->keys[key];
    *raw = slice_of(t->entries.p + k->entry_at, k->entry_n);
    return k->there;
}

void txn_write(struct txn *t, uint32_t key, struct slice op)
{
    CHECK(key < t->n_keys && (t->keys[key].k.use == 'w' || t->keys[key].k.use == 'k'));
    txncmd_add_op(&t->groups[t->keys[key].group].ops, op);
}

/* ---- requests */

/* A request about this transaction to a group. */
static void add_request(struct txn *t, uint32_t group, const char *command)
{
    txnask_add(&t->ask, t->groups[group].number, command);
    txnask_word(&t->ask, slice_of(t->id, t->id_n));
}

static void add_token(struct txn *t, uint32_t group) { txnask_word(&t->ask, slice_of(t->groups[group].token, TXNCMD_TOKEN_BYTES)); }

static void send(struct txn *t, enum state state, uint32_t timeout_ms)
{
    t->state = state;
    t->host.send(t->host.ctx, t, txnask_requests(&t->ask), t->ask.n, timeout_ms);
}

static uint32_t time_left(const struct txn *t, int64_t now_ms)
{
    int64_t left = t->deadline_ms - now_ms;
    return left > CALL_MIN_MS ? (uint32_t)left : CALL_MIN_MS;
}

static bool is_late(const struct txn *t, int64_t now_ms) { return now_ms >= t->deadline_ms; }

/* ---- ends */

static void settle(struct txn *t, enum txn_outcome o)
{
    CHECK(!t->settled);
    t->settled = true;
    t->host.settled(t->host.ctx, t, o);
}

static void end(struct txn *t)
{
    t->state = STATE_OVER;
    t->host.over(t->host.ctx, t);
}

/* Gives back what this attempt may have reserved or prepared. Then it begins anew, or if it is settled, ends. */
static void drop(struct txn *t)
{
    txnask_clear(&t->ask);
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].touched) add_request(t, i, "txn.drop");
    if (t->ask.n) send(t, STATE_DROPPING, CLEAN_UP_MS);
    else end(t);
}

static void fail(struct txn *t, enum txn_outcome o)
{
    settle(t, o);
    drop(t);
}

static void refuse(struct txn *t, struct slice error)
{
    t->error.len = 0;
    buf_add_slice(&t->error, error);
    fail(t, TXN_REFUSED);
}

static void pause_for(struct txn *t, int64_t now_ms, void (*then)(struct txn *t, int64_t now_ms))
{
    t->pause_ms = t->pause_ms ? t->pause_ms * 2 : PAUSE_MIN_MS;
    if (t->pause_ms > PAUSE_MAX_MS) t->pause_ms = PAUSE_MAX_MS;
    t->state = STATE_PAUSED;
    t->then = then;
    t->wakes_ms = now_ms + t->pause_ms;
}

/* ---- fetch */

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct group *)a)->number, y = ((const struct group *)b)->number;
    return x < y ? -1 : x > y;
}

static uint32_t place_of(const struct txn *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].number == number) return i;
    return TXN_NO_GROUP;
}

/* False: some key's group is not known. */
static bool find_groups(struct txn *t)
{
    forget_groups(t);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        uint32_t number = t->host.group_of(t->host.ctx, t->keys[i].k.key);
        if (number == TXN_NO_GROUP) return false;
        t->keys[i].group = number;
        if (place_of(t, number) == TXN_NO_GROUP) t->groups[t->n_groups++] = (struct group){.number = number};
    }
    qsort(t->groups, t->n_groups, sizeof *t->groups, by_number);
    for (uint32_t i = 0; i < t->n_keys; i++) t->keys[i].group = place_of(t, t->keys[i].group);
    return true;
}

static void add_fetch(struct txn *t, uint32_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_keys; i++) n += t->keys[i].group == group;
    t->groups[group].touched = true;
    add_request(t, group, "txn.fetch");
    txnask_number(&t->ask, n);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        const struct key *k = &t->keys[i];
        if (k->group != group) continue;
        txnask_number(&t->ask, k->k.db);
        txnask_word(&t->ask, slice_of(&k->k.use, 1));
        txnask_word(&t->ask, k->k.key);
    }
}

static void fetch_next(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    if (t->one_by_one) add_fetch(t, t->next);
    else for (uint32_t i = 0; i < t->n_groups; i++) add_fetch(t, i);
    send(t, STATE_FETCHING, time_left(t, now_ms));
}

static void name_attempt(struct txn *t)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t a = t->attempts++;
    t->id[t->name_n] = '.';
    for (int i = 0; i < 3; i++) t->id[t->name_n + 1 + (size_t)i] = digits[a >> (8 - 4 * i) & 15];
    t->id_n = t->name_n + 4;
}

static void begin(struct txn *t, int64_t now_ms)
{
    name_attempt(t);
    t->entries.len = 0;
    t->next = 0;
    if (find_groups(t)) fetch_next(t, now_ms);
    else if (is_late(t, now_ms) || t->attempts > ATTEMPTS_MAX) fail(t, TXN_NOBODY);
    else pause_for(t, now_ms, begin);
}

/* The attempt came to nothing, because others had the keys or took them; nothing of it is left. */
static void begin_anew(struct txn *t, int64_t now_ms)
{
    t->one_by_one = true;
    if (is_late(t, now_ms) || t->attempts > ATTEMPTS_MAX) {
        settle(t, TXN_BUSY);
        end(t);
    } else begin(t, now_ms);
}

void txn_start(struct txn *t, int64_t now_ms, uint32_t timeout_ms)
{
    CHECK(t->state == STATE_NEW);
    t->deadline_ms = now_ms + timeout_ms;
    begin(t, now_ms);
}

/* The entries of a group's keys; false: it is no such answer. */
static bool take_entries(struct txn *t, uint32_t group, struct slice in)
{
    struct answer a;
    uint32_t n, n_keys = 0;
    for (uint32_t i = 0; i < t->n_keys; i++) n_keys += t->keys[i].group == group;
    if (!answer_array(&in, &n) || n != n_keys + 1) return false;
    if (!answer_next(&in, &a) || a.type != '$' || a.text.n != TXNCMD_TOKEN_BYTES) return false;
    memcpy(t->groups[group].token, a.text.p, TXNCMD_TOKEN_BYTES);
    for (uint32_t i = 0; i < t->n_keys; i++) {
        struct key *k = &t->keys[i];
        if (k->group != group) continue;
        if (!answer_next(&in, &a) || (a.type != '$' && a.type != '_')) return false;
        k->there = a.type == '$';
        k->entry_at = t->entries.len;
        k->entry_n = k->there ? a.text.n : 0;
        if (k->there) buf_add_slice(&t->entries, a.text);
    }
    return true;
}

static void run(struct txn *t, int64_t now_ms);

static void fetched_all(struct txn *t, int64_t now_ms)
{
    if (t->one_by_one && ++t->next < t->n_groups) fetch_next(t, now_ms);
    else run(t, now_ms);
}

static void was_taken(struct txn *t, int64_t now_ms)
{
    if (is_late(t, now_ms)) fail(t, TXN_BUSY);
    else if (t->one_by_one) pause_for(t, now_ms, fetch_next); /* what it has are lower groups: nobody who has this one waits for them */
    else drop(t);
}

static const struct slice *error_among(const struct txn_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].fate == TXN_ANSWERED && answers[i].reply.n && answers[i].reply.p[0] == '-' && !answer_is_error(answers[i].reply, "TXNBUSY") && !answer_is_error(answers[i].reply, "TXNGONE"))
            return &answers[i].reply;
    return NULL;
}

static bool all_answered(const struct txn_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].fate != TXN_ANSWERED) return false;
    return true;
}

static bool any_says(const struct txn_answer *answers, uint32_t n, const char *code)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].fate == TXN_ANSWERED && answer_is_error(answers[i].reply, code)) return true;
    return false;
}

static void on_fetched(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    const struct slice *error = error_among(answers, n);
    if (error) refuse(t, *error);
    else if (any_says(answers, n, "TXNBUSY")) was_taken(t, now_ms);
    else if (any_says(answers, n, "TXNGONE")) drop(t);
    else if (!all_answered(answers, n)) fail(t, TXN_NOBODY);
    else {
        for (uint32_t i = 0; i < n; i++) {
            if (take_entries(t, t->one_by_one ? t->next : i, answers[i].reply)) continue;
            refuse(t, SLICE("-ERR a group's answer makes no sense\r\n"));
            return;
        }
        t->pause_ms = 0;
        fetched_all(t, now_ms);
    }
}

/* ---- run, prepare, decide */

static bool has_ops(const struct txn *t)
{
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].ops.len) return true;
    return false;
}

static void end_reading(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    for (uint32_t i = 0; i < t->n_groups; i++) {
        add_request(t, i, "txn.done");
        add_token(t, i);
    }
    send(t, STATE_ENDING, time_left(t, now_ms));
}

/* The one that writes most: its ops go through the log once, those of the others twice. */
static void choose_decider(struct txn *t)
{
    t->decider = 0;
    for (uint32_t i = 1; i < t->n_groups; i++)
        if (t->groups[i].ops.len > t->groups[t->decider].ops.len) t->decider = i;
}

static void decide(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    add_request(t, t->decider, "txn.decide");
    add_token(t, t->decider);
    txnask_number(&t->ask, t->n_groups - 1);
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (i != t->decider) txnask_number(&t->ask, t->groups[i].number);
    txnask_word(&t->ask, buf_slice(&t->groups[t->decider].ops));
    t->decided_ms = now_ms;
    send(t, STATE_DECIDING, time_left(t, now_ms));
}

static void prepare(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    for (uint32_t i = 0; i < t->n_groups; i++) {
        if (i == t->decider) continue;
        add_request(t, i, "txn.prepare");
        add_token(t, i);
        txnask_number(&t->ask, t->groups[t->decider].number);
        txnask_word(&t->ask, buf_slice(&t->groups[i].ops));
    }
    if (t->ask.n) send(t, STATE_PREPARING, time_left(t, now_ms));
    else decide(t, now_ms);
}

static void run(struct txn *t, int64_t now_ms)
{
    if (!t->host.run(t->host.ctx, t)) {
        fail(t, TXN_STOPPED);
    } else if (!has_ops(t)) {
        end_reading(t, now_ms);
    } else {
        choose_decider(t);
        prepare(t, now_ms);
    }
}

/* What txn.done and txn.prepare have in common. True: all went well. Until something is decided nothing happens, whatever became of these. */
static bool all_went_well(struct txn *t, const struct txn_answer *answers, uint32_t n)
{
    const struct slice *error = error_among(answers, n);
    if (error) refuse(t, *error);
    else if (any_says(answers, n, "TXNGONE")) drop(t);
    else if (!all_answered(answers, n)) fail(t, TXN_NOBODY);
    else return true;
    return false;
}

static void on_ended(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    if (!all_went_well(t, answers, n)) return;
    settle(t, TXN_DONE);
    end(t);
}

static void on_prepared(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    if (all_went_well(t, answers, n)) decide(t, now_ms);
}

/* ---- the fate */

static void commit(struct txn *t)
{
    settle(t, TXN_DONE);
    txnask_clear(&t->ask);
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (i != t->decider) add_request(t, i, "txn.commit");
    if (!t->ask.n) add_request(t, t->decider, "txn.forget");
    send(t, t->n_groups > 1 ? STATE_COMMITTING : STATE_FORGETTING, CLEAN_UP_MS);
}

static void ask(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    add_request(t, t->decider, "txn.ask");
    send(t, STATE_ASKING, time_left(t, now_ms));
}

static void on_decided(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    if (answers->fate == TXN_MAY_BE_DONE) ask(t, now_ms);
    else if (all_went_well(t, answers, n)) commit(t);
}

/* Nobody can say. What was prepared waits for whoever looks after it; it must not be dropped here. */
static void give_up(struct txn *t)
{
    settle(t, TXN_UNCERTAIN);
    end(t);
}

static void on_asked(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    bool answered = answers->fate == TXN_ANSWERED;
    if (answered && slice_eq(answers->reply, SLICE("+committed\r\n"))) commit(t);
    else if (answered && slice_eq(answers->reply, SLICE("+none\r\n")) && now_ms - t->decided_ms < TXNCMD_ASKED_MS) drop(t); /* and never will be: it may begin anew */
    else if (is_late(t, now_ms)) give_up(t);
    else pause_for(t, now_ms, ask);
}

static void on_committed(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    if (!all_answered(answers, n) || error_among(answers, n)) {
        end(t);
        return;
    }
    txnask_clear(&t->ask);
    add_request(t, t->decider, "txn.forget");
    send(t, STATE_FORGETTING, CLEAN_UP_MS);
}

static void on_forgotten(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n) { end(t); }

static void on_dropped(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    if (t->settled) end(t);
    else begin_anew(t, now_ms);
}

/* ---- events */

void txn_answered(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    static void (*const on[])(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n) = {
        [STATE_FETCHING] = on_fetched,     [STATE_ENDING] = on_ended,         [STATE_PREPARING] = on_prepared,
        [STATE_DECIDING] = on_decided,     [STATE_ASKING] = on_asked,         [STATE_COMMITTING] = on_committed,
        [STATE_FORGETTING] = on_forgotten, [STATE_DROPPING] = on_dropped,     [STATE_OVER] = NULL,
    };
    CHECK(n == t->ask.n && n > 0 && on[t->state]);
    on[t->state](t, now_ms, answers, n);
}

void txn_wake(struct txn *t, int64_t now_ms)
{
    if (t->state != STATE_PAUSED || now_ms < t->wakes_ms) return;
    t->wakes_ms = INT64_MAX;
    t->then(t, now_ms);
}

void txn_hurry(struct txn *t, int64_t now_ms)
{
    if (t->deadline_ms > now_ms) t->deadline_ms = now_ms;
    if (t->state == STATE_PAUSED) t->wakes_ms = now_ms;
}
