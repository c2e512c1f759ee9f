#include "cluster/intents.h"

#include <stddef.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "cluster/intentcode.h"
#include "cluster/intentturn.h"
#include "store/keyindex.h"
#include "store/store.h"

enum {
    SLOTS_MIN = 16,
    CLOSED_MS = 100,       /* how long new transactions are kept out by one who wants to change all keys, */
    CLOSED_TO_READ_MS = 20, /* or to read them: intents are gone sooner than reservations, and reading all keys is more usual */
};

/* ---- a table of things with a hash, chained */

struct link {
    struct link *next;
    uint64_t hash;
};

struct chains {
    struct link **slots; /* a power of two of them; NULL: nothing was ever in it */
    size_t n_slots, n;
};

static struct link *first_in_slot(const struct chains *c, uint64_t hash) { return c->n ? c->slots[hash & (c->n_slots - 1)] : NULL; }

static void put_link(struct chains *c, struct link *l)
{
    struct link **slot = &c->slots[l->hash & (c->n_slots - 1)];
    l->next = *slot;
    *slot = l;
}

static void grow(struct chains *c)
{
    struct chains wider = {.n_slots = c->n_slots ? c->n_slots * 2 : SLOTS_MIN, .n = c->n};
    wider.slots = mem_zalloc(wider.n_slots * sizeof *wider.slots);
    for (size_t i = 0; i < c->n_slots; i++) {
        for (struct link *l = c->slots[i], *next; l; l = next) {
            next = l->next;
            put_link(&wider, l);
        }
    }
    mem_free(c->slots);
    *c = wider;
}

static void add_link(struct chains *c, struct link *l)
{
    if (c->n == c->n_slots) grow(c);
    put_link(c, l);
    c->n++;
}

static void remove_link(struct chains *c, struct link *l)
{
    struct link **at = &c->slots[l->hash & (c->n_slots - 1)];
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    c->n--;
}

/* ---- what is in them */

struct txn;

struct lock { /* of one transaction on one key: of those that share a key each has its own */
    struct link link;
    struct txn *txn;
    struct lock *next; /* of the transaction's */
    enum intents_use use;
    uint16_t db;
    uint32_t n;
    char key[];
};

struct span { /* of one transaction */
    struct txn *txn;
    struct span *next;                 /* of the transaction's */
    struct span *next_of_all, **back;
    struct intentspan s;
    char bytes[];
};

struct txn {
    struct link link;
    enum intents_state state;
    struct txn *next, *prev; /* of that state, the oldest first */
    struct lock *locks;
    struct span *spans;
    uint64_t since_ms;
    uint64_t token;
    uint32_t decider;
    uint32_t n_groups, *groups;
    uint8_t id_n;
    char id[INTENTS_ID_MAX];
};

struct line { /* of transactions in one state */
    struct txn *first, *last;
};

struct intents {
    uint64_t seed;
    struct chains locks, txns;
    struct span *spans; /* few: they are looked through */
    struct line lines[INTENTS_DECISION + 1];
    uint64_t now_ms;
    uint64_t closed_ms; /* new transactions are kept out until then */
    struct intentturn turn;
};

static struct slice id_of(const struct txn *t) { return slice_of(t->id, t->id_n); }

static struct txn *find(const struct intents *n, struct slice id)
{
    uint64_t hash = keyhash(id, n->seed);
    for (struct link *l = first_in_slot(&n->txns, hash); l; l = l->next) {
        struct txn *t = (struct txn *)l;
        if (l->hash == hash && slice_eq(id_of(t), id)) return t;
    }
    return NULL;
}

static uint64_t hash_of(const struct intents *n, uint16_t db, struct slice key) { return keyhash(key, n->seed + db); }

/* The first lock on the key from this link on. */
static struct lock *lock_from(struct link *l, uint64_t hash, uint16_t db, struct slice key)
{
    for (; l; l = l->next) {
        struct lock *k = (struct lock *)l;
        if (l->hash == hash && k->db == db && slice_eq(slice_of(k->key, k->n), key)) return k;
    }
    return NULL;
}

static struct lock *first_lock(const struct intents *n, uint16_t db, struct slice key)
{
    if (n->locks.n == 0) return NULL;
    uint64_t hash = hash_of(n, db, key);
    return lock_from(first_in_slot(&n->locks, hash), hash, db, key);
}

static struct lock *next_lock(const struct lock *k) { return lock_from(k->link.next, k->link.hash, k->db, slice_of(k->key, k->n)); }

static struct lock *lock_of(const struct intents *n, const struct txn *t, uint16_t db, struct slice key)
{
    struct lock *k = first_lock(n, db, key);
    while (k && k->txn != t) k = next_lock(k);
    return k;
}

/* ---- transactions come, change and go */

static void join_line(struct intents *n, struct txn *t, enum intents_state state)
{
    struct line *line = &n->lines[state];
    t->state = state;
    t->since_ms = n->now_ms;
    t->next = NULL;
    t->prev = line->last;
    *(line->last ? &line->last->next : &line->first) = t;
    line->last = t;
}

static void leave_line(struct intents *n, struct txn *t)
{
    struct line *line = &n->lines[t->state];
    *(t->prev ? &t->prev->next : &line->first) = t->next;
    *(t->next ? &t->next->prev : &line->last) = t->prev;
}

static struct txn *add_txn(struct intents *n, struct slice id, enum intents_state state)
{
    struct txn *t = mem_zalloc(sizeof *t);
    CHECK(intentcode_is_id(id));
    t->link.hash = keyhash(id, n->seed);
    t->id_n = (uint8_t)id.n;
    memcpy(t->id, id.p, id.n);
    add_link(&n->txns, &t->link);
    join_line(n, t, state);
    return t;
}

static void add_lock(struct intents *n, struct txn *t, uint16_t db, struct slice key, enum intents_use use)
{
    struct lock *k = mem_alloc(sizeof *k + key.n);
    *k = (struct lock){.link.hash = hash_of(n, db, key), .txn = t, .next = t->locks, .use = use, .db = db, .n = (uint32_t)key.n};
    if (key.n) memcpy(k->key, key.p, key.n);
    t->locks = k;
    add_link(&n->locks, &k->link);
}

static void add_span(struct intents *n, struct txn *t, const struct intentspan *s)
{
    struct buf bytes = {0};
    intentspan_add(&bytes, s);
    struct span *p = mem_alloc(sizeof *p + bytes.len);
    memcpy(p->bytes, bytes.p, bytes.len);
    *p = (struct span){.txn = t, .next = t->spans, .next_of_all = n->spans, .back = &n->spans, .s.db = s->db};
    bool is_one = intentspan_read(slice_of(p->bytes, bytes.len), &p->s);
    CHECK(is_one);
    buf_fini(&bytes);
    t->spans = p;
    if (p->next_of_all) p->next_of_all->back = &p->next_of_all;
    n->spans = p;
}

static void free_spans(struct txn *t)
{
    while (t->spans) {
        struct span *p = t->spans;
        t->spans = p->next;
        *p->back = p->next_of_all;
        if (p->next_of_all) p->next_of_all->back = p->back;
        mem_free(p);
    }
}

static void free_locks(struct intents *n, struct txn *t)
{
    free_spans(t);
    while (t->locks) {
        struct lock *k = t->locks;
        t->locks = k->next;
        remove_link(&n->locks, &k->link);
        mem_free(k);
    }
}

static void remove_txn(struct intents *n, struct txn *t)
{
    free_locks(n, t);
    leave_line(n, t);
    remove_link(&n->txns, &t->link);
    mem_free(t->groups);
    mem_free(t);
}

static bool is_older(const struct intents *n, const struct txn *t, uint64_t ms) { return n->now_ms - t->since_ms >= ms; }

void intents_set_time(struct intents *n, uint64_t now_ms) { n->now_ms = now_ms; }

void intents_sweep(struct intents *n)
{
    for (struct txn *t = n->lines[INTENTS_RESERVED].first, *next; t; t = next) {
        next = t->next;
        if (is_older(n, t, INTENTS_SWEPT_MS)) remove_txn(n, t);
    }
}

/* ---- may it? */

struct user { /* of a key */
    const struct txn *txn; /* if it has something here already */
    bool is_txn;
    enum intents_use use;
};

static bool is_in_the_way(const struct lock *k, const struct user *u)
{
    if (k->txn == u->txn) return false;
    if (u->use == INTENTS_WRITES) return true;
    return k->use == INTENTS_WRITES && (u->is_txn || k->txn->state != INTENTS_RESERVED); /* a mere reservation is nothing to those who just look */
}

static bool makes_way(const struct intents *n, const struct txn *t) { return t->state == INTENTS_RESERVED && is_older(n, t, INTENTS_RESERVED_MS); }

/* A span of another transaction that has the key. */
static struct span *span_of_others(const struct intents *n, const struct user *u, uint16_t db, struct slice key, struct span *from)
{
    for (struct span *p = from; u->use == INTENTS_WRITES && p; p = p->next_of_all)
        if (p->txn != u->txn && intentspan_has(&p->s, db, key)) return p;
    return NULL;
}

/* Reservations that are too old make way. */
static bool is_free(struct intents *n, const struct user *u, uint16_t db, struct slice key)
{
    struct lock *k = first_lock(n, db, key);
    struct span *p = n->spans;
    for (; k; k = next_lock(k))
        if (is_in_the_way(k, u) && !makes_way(n, k->txn)) return false;
    for (; (p = span_of_others(n, u, db, key, p)); p = p->next_of_all) {
        if (makes_way(n, p->txn)) continue;
        intentturn_key_waits(&n->turn, n->now_ms, db, key);
        return false;
    }
    while ((p = span_of_others(n, u, db, key, n->spans))) remove_txn(n, p->txn);
    for (k = first_lock(n, db, key); k;) {
        bool goes = is_in_the_way(k, u);
        if (goes) remove_txn(n, k->txn);
        k = goes ? first_lock(n, db, key) : next_lock(k);
    }
    return true;
}

/* Whether a transaction has something in the way of one who uses a whole span. */
static bool obstructs(const struct txn *t, const struct user *u, const struct intentspan *s)
{
    if (t == u->txn) return false;
    for (const struct lock *k = t->locks; k; k = k->next)
        if (is_in_the_way(k, u) && intentspan_has(s, k->db, slice_of(k->key, k->n))) return true;
    for (const struct span *p = t->spans; u->use == INTENTS_WRITES && p; p = p->next)
        if (intentspan_overlaps(&p->s, s)) return true;
    return false;
}

static bool is_span_free(struct intents *n, const struct user *u, const struct intentspan *s)
{
    for (const struct txn *t = n->lines[INTENTS_INTENT].first; t; t = t->next)
        if (obstructs(t, u, s)) return false;
    for (const struct txn *t = n->lines[INTENTS_RESERVED].first; t; t = t->next)
        if (!makes_way(n, t) && obstructs(t, u, s)) return false;
    for (struct txn *t = n->lines[INTENTS_RESERVED].first, *next; t; t = next) {
        next = t->next;
        if (obstructs(t, u, s)) remove_txn(n, t);
    }
    return true;
}

bool intents_any(const struct intents *n) { return n->locks.n > 0 || n->spans; }

bool intents_allows(struct intents *n, uint16_t db, struct slice key, enum intents_use use) { return is_free(n, &(struct user){.use = use}, db, key); }

static bool keep_out(struct intents *n, uint64_t ms)
{
    if (n->closed_ms < n->now_ms + ms) n->closed_ms = n->now_ms + ms;
    return false;
}

bool intents_allows_all(struct intents *n, enum intents_use use)
{
    if (use == INTENTS_READS) return !n->lines[INTENTS_INTENT].first || keep_out(n, CLOSED_TO_READ_MS);
    for (struct txn *t = n->lines[INTENTS_RESERVED].first, *next; t; t = next) {
        next = t->next;
        if (is_older(n, t, INTENTS_RESERVED_MS)) remove_txn(n, t);
    }
    return !intents_any(n) || keep_out(n, CLOSED_MS);
}

bool intents_allows_span(struct intents *n, const struct intentspan *s, enum intents_use use)
{
    return is_span_free(n, &(struct user){.use = use}, s) || keep_out(n, use == INTENTS_READS ? CLOSED_TO_READ_MS : CLOSED_MS);
}

static bool has_part_of(const struct txn *t, const struct intents_leaving *keys)
{
    for (const struct lock *k = t->locks; k; k = k->next)
        if (keys->has(keys->ctx, slice_of(k->key, k->n))) return true;
    for (const struct span *p = t->spans; p; p = p->next)
        if (keys->has_some(keys->ctx, &p->s)) return true;
    return false;
}

bool intents_make_way(struct intents *n, const struct intents_leaving *keys)
{
    bool free = true;
    for (struct txn *t = n->lines[INTENTS_RESERVED].first, *next; t; t = next) {
        next = t->next;
        if (has_part_of(t, keys)) remove_txn(n, t);
    }
    for (const struct txn *t = n->lines[INTENTS_INTENT].first; free && t; t = t->next) free = !has_part_of(t, keys);
    return free || keep_out(n, CLOSED_TO_READ_MS);
}

bool intents_make_way_at(struct intents *n, uint16_t db, struct slice key)
{
    for (const struct lock *k = first_lock(n, db, key); k; k = next_lock(k))
        if (k->txn->state != INTENTS_RESERVED) return keep_out(n, CLOSED_TO_READ_MS);
    for (const struct lock *k; (k = first_lock(n, db, key));) remove_txn(n, k->txn);
    return true;
}

bool intents_keeps(const struct intents *n, uint16_t db, struct slice key)
{
    return first_lock(n, db, key) || span_of_others(n, &(struct user){.use = INTENTS_WRITES}, db, key, n->spans);
}

bool intents_can(struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use)
{
    const struct txn *t = find(n, id);
    CHECK(!t || t->state == INTENTS_RESERVED);
    if (!t && (n->now_ms < n->closed_ms || !intentturn_lets_key(&n->turn, n->now_ms, db, key))) return false;
    return is_free(n, &(struct user){t, true, use}, db, key);
}

bool intents_can_span(struct intents *n, struct slice id, const struct intentspan *s)
{
    const struct txn *t = find(n, id);
    CHECK(!t || t->state == INTENTS_RESERVED);
    if (!t && (n->now_ms < n->closed_ms || !intentturn_lets_span(&n->turn, n->now_ms, s))) return false;
    if (is_span_free(n, &(struct user){t, true, INTENTS_READS}, s)) return true;
    intentturn_span_waits(&n->turn, n->now_ms, s);
    return false;
}

/* ---- transactions */

enum intents_state intents_state(const struct intents *n, struct slice id)
{
    const struct txn *t = find(n, id);
    return t ? t->state : INTENTS_NONE;
}

static struct txn *reserving(struct intents *n, struct slice id, uint64_t token)
{
    struct txn *t = find(n, id);
    CHECK(token && (!t || t->state == INTENTS_RESERVED));
    if (t) return t;
    t = add_txn(n, id, INTENTS_RESERVED);
    t->token = token;
    return t;
}

void intents_reserve(struct intents *n, struct slice id, uint64_t token, uint16_t db, struct slice key, enum intents_use use)
{
    struct txn *t = reserving(n, id, token);
    struct lock *k = lock_of(n, t, db, key);
    if (!k) add_lock(n, t, db, key, use);
    else if (use == INTENTS_WRITES) k->use = use;
}

static bool has_span(const struct txn *t, const struct intentspan *s)
{
    const struct span *p = t->spans;
    while (p && !intentspan_eq(&p->s, s)) p = p->next;
    return p != NULL;
}

void intents_reserve_span(struct intents *n, struct slice id, uint64_t token, const struct intentspan *s)
{
    struct txn *t = reserving(n, id, token);
    if (!has_span(t, s)) add_span(n, t, s);
}

bool intents_has_span(const struct intents *n, struct slice id, const struct intentspan *s)
{
    const struct txn *t = find(n, id);
    return t && has_span(t, s);
}

uint64_t intents_token(const struct intents *n, struct slice id)
{
    const struct txn *t = find(n, id);
    return t && t->state == INTENTS_RESERVED ? t->token : 0;
}

bool intents_has(const struct intents *n, struct slice id, uint16_t db, struct slice key, enum intents_use use)
{
    const struct txn *t = find(n, id);
    const struct lock *k = t ? lock_of(n, t, db, key) : NULL;
    return k && (use == INTENTS_READS || k->use == INTENTS_WRITES);
}

bool intents_next_key(const struct intents *n, struct slice id, const void **at, struct intents_key *k)
{
    const struct lock *before = *at;
    const struct txn *t = before ? before->txn : find(n, id);
    const struct lock *l = before ? before->next : t ? t->locks : NULL;
    *at = l;
    if (l) *k = (struct intents_key){.db = l->db, .use = l->use, .key = slice_of(l->key, l->n)};
    return l != NULL;
}

bool intents_next_span(const struct intents *n, struct slice id, const void **at, struct intentspan *s)
{
    const struct span *before = *at;
    const struct txn *t = before ? before->txn : find(n, id);
    const struct span *p = before ? before->next : t ? t->spans : NULL;
    *at = p;
    if (p) *s = p->s;
    return p != NULL;
}

void intents_prepared(struct intents *n, struct slice id, uint32_t decider)
{
    struct txn *t = find(n, id);
    CHECK(t && t->state == INTENTS_RESERVED);
    leave_line(n, t);
    join_line(n, t, INTENTS_INTENT);
    t->decider = decider;
}

static void set_groups(struct txn *t, const uint32_t *groups, uint32_t n_groups)
{
    mem_free(t->groups);
    t->groups = mem_alloc(n_groups * sizeof *groups + 1);
    for (uint32_t i = 0; i < n_groups; i++) t->groups[i] = groups[i];
    t->n_groups = n_groups;
}

void intents_decided(struct intents *n, struct slice id, const uint32_t *groups, uint32_t n_groups)
{
    struct txn *t = find(n, id);
    CHECK(t && (t->state == INTENTS_RESERVED || t->state == INTENTS_DECISION));
    if (t->state == INTENTS_RESERVED) {
        free_locks(n, t);
        leave_line(n, t);
        join_line(n, t, INTENTS_DECISION);
    }
    set_groups(t, groups, n_groups);
}

void intents_remove(struct intents *n, struct slice id)
{
    struct txn *t = find(n, id);
    if (t) remove_txn(n, t);
}

bool intents_next(const struct intents *n, enum intents_state state, const void **at, struct intents_info *out)
{
    const struct txn *before = *at, *t = before ? before->next : n->lines[state].first;
    *at = t;
    if (!t) return false;
    *out = (struct intents_info){.id = id_of(t), .age_ms = n->now_ms - t->since_ms, .decider = t->decider, .groups = t->groups, .n_groups = t->n_groups};
    return true;
}

/* ---- a reign begins */

static void read_intent(struct intents *n, struct slice id, struct slice record)
{
    struct intentcode r;
    struct intents_key k;
    bool is_one = intentcode_read(record, &r);
    CHECK(is_one);
    struct txn *t = add_txn(n, id, INTENTS_INTENT);
    t->decider = r.decider;
    struct intentspan s;
    while (intentcode_next_key(&r.keys, &k)) add_lock(n, t, k.db, k.key, k.use);
    while (intentcode_next_span(&r.spans, &s)) add_span(n, t, &s);
}

static void read_decision(struct intents *n, struct slice id, struct slice record)
{
    uint32_t n_groups;
    bool is_one = intentcode_read_decision(record, &n_groups);
    CHECK(is_one);
    struct txn *t = add_txn(n, id, INTENTS_DECISION);
    t->n_groups = n_groups;
    t->groups = mem_alloc(n_groups * sizeof *t->groups + 1);
    for (uint32_t i = 0; i < n_groups; i++) t->groups[i] = intentcode_group(record, i);
}

static void read_records(struct intents *n, const struct store *s, struct slice space, void (*one)(struct intents *n, struct slice id, struct slice record))
{
    const struct keyindex *k = store_index(s, STORE_SYSTEM_DB, space);
    struct keyindex_at at;
    if (!k) return;
    for (struct entry *e = keyindex_seek(k, SLICE(""), &at); e; e = keyindex_next(&at)) one(n, intentcode_id(entry_key(e), space), entry_value(e));
}

static void clear(struct intents *n)
{
    for (int i = 0; i <= INTENTS_DECISION; i++)
        while (n->lines[i].first) remove_txn(n, n->lines[i].first);
    n->closed_ms = 0;
    intentturn_clear(&n->turn);
}

void intents_begin(struct intents *n, const struct store *s)
{
    clear(n);
    read_records(n, s, INTENTCODE_INTENTS, read_intent);
    read_records(n, s, INTENTCODE_DECISIONS, read_decision);
}

struct intents *intents_new(uint64_t seed)
{
    struct intents *n = mem_zalloc(sizeof *n);
    n->seed = seed;
    return n;
}

void intents_free(struct intents *n)
{
    if (!n) return;
    clear(n);
    mem_free(n->locks.slots);
    mem_free(n->txns.slots);
    mem_free(n);
}

/* ---- checking */

/* Every lock is found by its key, and stands beside no other that excludes it. */
static size_t check_locks(const struct intents *n, const struct txn *t)
{
    size_t count = 0;
    for (const struct lock *k = t->locks; k; k = k->next, count++) {
        struct slice key = slice_of(k->key, k->n);
        CHECK(k->txn == t && lock_of(n, t, k->db, key) == k);
        for (const struct lock *other = first_lock(n, k->db, key); other; other = next_lock(other)) CHECK(other == k || (other->use == INTENTS_READS && k->use == INTENTS_READS));
    }
    return count;
}

/* No other transaction writes a key of its spans. */
static size_t check_spans(const struct intents *n, const struct txn *t)
{
    size_t count = 0;
    for (const struct span *p = t->spans; p; p = p->next, count++) {
        CHECK(p->txn == t && *p->back == p);
        for (int i = INTENTS_RESERVED; i <= INTENTS_INTENT; i++)
            for (const struct txn *other = n->lines[i].first; other; other = other->next) CHECK(!obstructs(other, &(struct user){t, true, INTENTS_READS}, &p->s));
    }
    return count;
}

void intents_check(const struct intents *n)
{
    size_t locks = 0, txns = 0, spans = 0;
    for (const struct span *p = n->spans; p; p = p->next_of_all) spans++;
    for (int i = 0; i <= INTENTS_DECISION; i++) {
        for (const struct txn *t = n->lines[i].first; t; t = t->next, txns++) {
            CHECK((int)t->state == i && find(n, id_of(t)) == t);
            CHECK(t->state == INTENTS_RESERVED ? t->token != 0 : t->state == INTENTS_INTENT || (!t->locks && !t->spans));
            locks += check_locks(n, t);
            spans -= check_spans(n, t);
        }
    }
    CHECK(locks == n->locks.n && txns == n->txns.n && spans == 0);
}
