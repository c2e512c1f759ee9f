/* RANGE.LOCK, RANGE.EXTEND, RANGE.UNLOCK and RANGE.LOCKS over several groups.
 *
 * A transaction has the counters of all groups of the part: nobody else changes locks there meanwhile. It reads the locks that overlap the part, and writes records and counters in all groups, or in none: a lock is in every group that a part of it
 * lies in (shard/locks.h), with one token, above all counters. If the coordinator is lost before its decision, nothing has happened; after it, whoever finds the records brings it to its end, and the lock has its time to live as any other.
 *
 * Times are those of the leader whose clock is ahead of the others': a lock does not end before its time anywhere. */
#include "base/le.h"
#include "base/mem.h"
#include "cluster/meta.h"
#include "resp/answer.h"
#include "server/rangetxn_own.h"

struct told_lock {
    struct spacelock l;
    int64_t expiry_ms;
};

struct told { /* by all groups together */
    uint64_t counter;
    int64_t now_ms;
    struct told_lock *locks; /* each once */
    uint32_t n;
};

static bool parse(struct rangetxn *w, struct exec *x) { return rangelock_parse(x, &w->lock); }

static void ask(struct rangetxn *w, struct txn *t)
{
    const struct spacelock *l = &w->lock.wanted;
    const struct slice use = w->lock.does == RANGELOCK_SHOW ? SLICE("r") : SLICE("w");
    rangetxn_ask_all(w, "span.locks", w->lock.space, l->start, l->end, &use, 1);
}

/* ---- what was told */

static bool take_number(struct slice *in, int64_t *n)
{
    struct answer a;
    if (!answer_next(in, &a) || a.type != ':' || a.n < 0) return false;
    *n = a.n;
    return true;
}

static bool take_bytes(struct slice *in, struct slice *bytes)
{
    struct answer a;
    if (!answer_next(in, &a) || a.type != '$') return false;
    *bytes = a.text;
    return true;
}

static bool take_lock(struct slice *in, struct told_lock *k)
{
    uint32_t six;
    int64_t token, exclusive;
    if (!answer_array(in, &six) || six != 6 || !take_number(in, &token) || !take_number(in, &exclusive)) return false;
    if (!take_bytes(in, &k->l.start) || !take_bytes(in, &k->l.end) || !take_bytes(in, &k->l.owner) || !take_number(in, &k->expiry_ms)) return false;
    k->l.token = (uint64_t)token;
    k->l.exclusive = exclusive;
    return true;
}

static bool is_known(const struct told *a, uint64_t token)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->locks[i].l.token == token) return true;
    return false;
}

static bool take_told(struct told *a, struct slice in)
{
    int64_t counter, now_ms;
    uint32_t three, n;
    if (!answer_array(&in, &three) || three != 3 || !take_number(&in, &counter) || !take_number(&in, &now_ms) || !answer_array(&in, &n)) return false;
    if ((uint64_t)counter > a->counter) a->counter = (uint64_t)counter;
    if (now_ms > a->now_ms) a->now_ms = now_ms;
    a->locks = mem_resize(a->locks, (a->n + n + 1) * sizeof *a->locks);
    for (uint32_t i = 0; i < n; i++) {
        struct told_lock *k = &a->locks[a->n];
        if (!take_lock(&in, k)) return false;
        if (!is_known(a, k->l.token)) a->n++;
    }
    return true;
}

static const struct told_lock *find(const struct told *a, const struct rangetxn *w, bool (*test)(const struct spacelock *a, const struct spacelock *b))
{
    for (uint32_t i = 0; i < a->n; i++)
        if (test(&a->locks[i].l, &w->lock.wanted)) return &a->locks[i];
    return NULL;
}

/* ---- what is written, in all groups */

static void write_lock(struct rangetxn *w, struct txn *t, const struct spacelock *l, int64_t expiry_ms)
{
    struct buf key = {0}, value = {0};
    spacelock_key(&key, w->lock.space, l->token);
    spacelock_value(&value, l);
    for (uint32_t i = 0; i < txn_asked(t); i++)
        rangetxn_write(w, i, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = buf_slice(&value), .expiry_ms = expiry_ms});
    buf_fini(&key);
    buf_fini(&value);
}

static void remove_lock(struct rangetxn *w, struct txn *t, uint64_t token)
{
    struct buf key = {0};
    spacelock_key(&key, w->lock.space, token);
    for (uint32_t i = 0; i < txn_asked(t); i++) rangetxn_write(w, i, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key)});
    buf_fini(&key);
}

static void raise_counters(struct rangetxn *w, struct txn *t, uint64_t to)
{
    struct buf value = {0};
    le_add_u64(&value, to);
    for (uint32_t i = 0; i < txn_asked(t); i++) rangetxn_write(w, i, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = spacelock_counter, .value = buf_slice(&value)});
    buf_fini(&value);
}

/* ---- commands */

static void lock(struct rangetxn *w, struct txn *t, const struct told *a, struct reply *out)
{
    const struct told_lock *holder = find(a, w, spacelock_excludes), *before = find(a, w, rangelock_is_same);
    struct spacelock l = w->lock.wanted;
    reply_array(out, 2);
    if (holder) {
        reply_null(out);
        rangelock_reply(out, &holder->l, holder->expiry_ms - a->now_ms);
        return;
    }
    l.token = spacelock_token(a->counter + 1, txn_group(t, 0));
    raise_counters(w, t, a->counter + 1);
    if (before) remove_lock(w, t, before->l.token);
    write_lock(w, t, &l, a->now_ms + w->lock.ttl_ms);
    reply_int(out, (int64_t)l.token);
    reply_null(out);
}

static void extend(struct rangetxn *w, struct txn *t, const struct told *a, struct reply *out)
{
    const struct told_lock *held = find(a, w, rangelock_is_same);
    if (held) {
        write_lock(w, t, &held->l, a->now_ms + w->lock.ttl_ms);
        reply_int(out, (int64_t)held->l.token);
    } else {
        reply_null(out);
    }
}

static void unlock(struct rangetxn *w, struct txn *t, const struct told *a, struct reply *out)
{
    const struct told_lock *held = find(a, w, rangelock_is_same);
    if (held) remove_lock(w, t, held->l.token);
    reply_int(out, held != NULL);
}

static void show(struct rangetxn *w, struct txn *t, const struct told *a, struct reply *out)
{
    reply_array(out, a->n);
    for (uint32_t i = 0; i < a->n; i++) rangelock_reply(out, &a->locks[i].l, a->locks[i].expiry_ms - a->now_ms);
}

static bool run(struct rangetxn *w, struct txn *t, struct reply *out)
{
    static void (*const does[])(struct rangetxn *w, struct txn *t, const struct told *a, struct reply *out) = {
        [RANGELOCK_LOCK] = lock, [RANGELOCK_EXTEND] = extend, [RANGELOCK_UNLOCK] = unlock, [RANGELOCK_SHOW] = show,
    };
    struct told a = {0};
    bool fine = true;
    for (uint32_t i = 0; fine && i < txn_asked(t); i++) fine = take_told(&a, txn_told(t, i));
    if (fine) does[w->lock.does](w, t, &a, out);
    mem_free(a.locks);
    return fine;
}

const struct rangetxn_kind widelock_kind = {"range.lock", parse, ask, run};
