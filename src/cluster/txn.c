#include "cluster/txn.h"

#include "base/check.h"
#include "base/mem.h"
#include "cluster/txn_own.h"
#include "resp/answer.h"

enum {
    PAUSE_MIN_MS = 2, /* before something that was taken is asked for again; doubled each time, up to */
    PAUSE_MAX_MS = 50,
    CALL_MIN_MS = 100,     /* a request has this long, however little time is left: what has been begun is better ended */
    CLEAN_UP_MS = 2000,    /* commits and drops of what is settled; what they do not reach is left to cluster/txncare.h */
    ATTEMPTS_MAX = 0xfff,  /* that have a number of three digits */
};

/* ---- life */

struct txn *txn_new(const struct txn_host *host, struct slice name, const struct txn_key *keys, uint32_t n)
{
    CHECK(name.n > 0 && name.n <= TXN_NAME_MAX && (n > 0 || host->asks));
    struct txn *t = mem_zalloc(sizeof *t);
    t->host = *host;
    memcpy(t->id, name.p, name.n);
    t->name_n = name.n;
    t->keys = mem_zalloc(n * sizeof *t->keys + 1);
    t->n_keys = n;
    for (uint32_t i = 0; i < n; i++) t->keys[i].k = keys[i];
    t->wakes_ms = INT64_MAX;
    return t;
}

void txn_free(struct txn *t)
{
    txnwants_fini(t);
    mem_free(t->keys);
    buf_fini(&t->error);
    txnask_fini(&t->ask);
    mem_free(t);
}

struct slice txn_error(const struct txn *t) { return buf_slice(&t->error); }
uint32_t txn_attempts(const struct txn *t) { return t->attempts; }
int64_t txn_wakes_ms(const struct txn *t) { return t->wakes_ms; }

/* ---- requests */

static void add_token(struct txn *t, uint32_t group) { txnask_word(&t->ask, slice_of(t->groups[group].token, TXNCMD_TOKEN_BYTES)); }

static void send(struct txn *t, enum txn_state state, uint32_t timeout_ms)
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
        if (t->groups[i].touched) txnwants_request(t, i, "txn.drop");
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

static void fetch_next(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    t->n_sent = 0;
    t->next = txnwants_next(t);
    if (t->one_by_one) txnwants_add(t, t->next);
    else for (uint32_t i = 0; i < t->n_groups; i++) txnwants_add(t, i);
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
    if (txnwants_begin(t)) fetch_next(t, now_ms);
    else if (is_late(t, now_ms) || t->attempts > ATTEMPTS_MAX) fail(t, TXN_NOBODY);
    else pause_for(t, now_ms, begin);
}

/* As far as is known here, all keys are where they were when this attempt began. */
static bool are_where_they_were(const struct txn *t)
{
    for (uint32_t i = 0; i < t->n_keys; i++)
        if (t->host.group_of(t->host.ctx, t->keys[i].k.key) != t->groups[t->keys[i].group].number) return false;
    return true;
}

/* The attempt came to nothing, because others had the keys or took them, or because some have moved; nothing of it is left. */
static void begin_anew(struct txn *t, int64_t now_ms)
{
    bool moved = t->moved;
    t->moved = false;
    t->one_by_one |= !moved;
    if (is_late(t, now_ms) || t->attempts > ATTEMPTS_MAX) {
        settle(t, TXN_BUSY);
        end(t);
    } else if (moved && are_where_they_were(t)) {
        pause_for(t, now_ms, begin); /* the map will come around */
    } else {
        begin(t, now_ms);
    }
}

void txn_start(struct txn *t, int64_t now_ms, uint32_t timeout_ms)
{
    CHECK(t->state == STATE_NEW);
    t->deadline_ms = now_ms + timeout_ms;
    begin(t, now_ms);
}

static void run(struct txn *t, int64_t now_ms);

static void fetched_all(struct txn *t, int64_t now_ms)
{
    if (txnwants_next(t) == TXN_NO_GROUP) txnwants_more(t);
    if (txnwants_next(t) == TXN_NO_GROUP) run(t, now_ms);
    else fetch_next(t, now_ms);
}

/* What it has are lower groups: nobody who has the one that it asks waits for them. */
static bool may_wait(const struct txn *t)
{
    if (!t->one_by_one) return false;
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].touched && t->groups[i].number > t->groups[t->next].number) return false;
    return true;
}

static void was_taken(struct txn *t, int64_t now_ms)
{
    if (is_late(t, now_ms)) fail(t, TXN_BUSY);
    else if (may_wait(t)) pause_for(t, now_ms, fetch_next);
    else drop(t);
}

/* It says that it cannot be done now, not that it cannot be done. */
static bool is_passing(struct slice error) { return answer_is_error(error, "TXNBUSY") || answer_is_error(error, "TXNGONE") || answer_is_error(error, "TXNMOVED"); }

static const struct slice *error_among(const struct txn_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (answers[i].fate == TXN_ANSWERED && answers[i].reply.n && answers[i].reply.p[0] == '-' && !is_passing(answers[i].reply)) return &answers[i].reply;
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

/* A group was asked for several things, and lost some of them before it gave the rest. */
static bool is_torn(const struct txn *t)
{
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].torn) return true;
    return false;
}

static void on_fetched(struct txn *t, int64_t now_ms, const struct txn_answer *answers, uint32_t n)
{
    const struct slice *error = error_among(answers, n);
    t->moved = any_says(answers, n, "TXNMOVED");
    if (any_says(answers, n, "TXNCHANGED")) fail(t, TXN_CHANGED);
    else if (error) refuse(t, *error);
    else if (t->moved) drop(t);
    else if (any_says(answers, n, "TXNBUSY")) was_taken(t, now_ms);
    else if (any_says(answers, n, "TXNGONE")) drop(t);
    else if (!all_answered(answers, n)) fail(t, TXN_NOBODY);
    else {
        for (uint32_t i = 0; i < n; i++) {
            if (txnwants_take(t, i, answers[i].reply)) continue;
            refuse(t, SLICE("-ERR a group's answer makes no sense\r\n"));
            return;
        }
        t->pause_ms = 0;
        if (is_torn(t)) drop(t);
        else fetched_all(t, now_ms);
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
        if (!t->groups[i].has_token) continue;
        txnwants_request(t, i, "txn.done");
        add_token(t, i);
    }
    if (t->ask.n) {
        send(t, STATE_ENDING, time_left(t, now_ms));
    } else { /* it was told by one group at once, which kept nothing for it */
        settle(t, TXN_DONE);
        end(t);
    }
}

/* The one that writes most: its ops go through the log once, those of the others twice. */
static void choose_decider(struct txn *t)
{
    t->decider = 0;
    for (uint32_t i = 1; i < t->n_groups; i++)
        if (t->groups[i].ops.len > t->groups[t->decider].ops.len) t->decider = i;
}

/* What a group writes, and tells of. */
static void add_writing(struct txn *t, uint32_t group)
{
    const struct group *g = &t->groups[group];
    txnask_word(&t->ask, buf_slice(&g->ops));
    if (g->events.len) txnask_word(&t->ask, buf_slice(&g->events));
}

static void decide(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    txnwants_request(t, t->decider, "txn.decide");
    add_token(t, t->decider);
    txnask_number(&t->ask, t->n_groups - 1);
    for (uint32_t i = 0; i < t->n_groups; i++)
        if (i != t->decider) txnask_number(&t->ask, t->groups[i].number);
    add_writing(t, t->decider);
    t->decided_ms = now_ms;
    send(t, STATE_DECIDING, time_left(t, now_ms));
}

static void prepare(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    for (uint32_t i = 0; i < t->n_groups; i++) {
        if (i == t->decider) continue;
        txnwants_request(t, i, "txn.prepare");
        add_token(t, i);
        txnask_number(&t->ask, t->groups[t->decider].number);
        add_writing(t, i);
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
        if (i != t->decider) txnwants_request(t, i, "txn.commit");
    if (!t->ask.n) txnwants_request(t, t->decider, "txn.forget");
    send(t, t->n_groups > 1 ? STATE_COMMITTING : STATE_FORGETTING, CLEAN_UP_MS);
}

static void ask(struct txn *t, int64_t now_ms)
{
    txnask_clear(&t->ask);
    txnwants_request(t, t->decider, "txn.ask");
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
    txnwants_request(t, t->decider, "txn.forget");
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
