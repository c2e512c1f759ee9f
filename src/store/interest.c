/* Keys with interests stand in a small chained hash table of their own. A key lives as long as somebody is interested in it; the one that
 * interest_next_ready gave last also until the next call, so that its name outlives the waiter that is served. */
#include "store/interest.h"

#include "base/check.h"
#include "base/mem.h"

struct interest_key {
    struct interest_key *chain;                  /* next of the same bucket */
    struct interest_key *ready_next, *ready_prev; /* the ready list, if is_ready */
    struct interest *first, *last;
    struct interests *in;
    uint64_t hash;
    uint64_t waiters;
    uint32_t len;
    uint16_t db;
    bool is_ready;
    char name[];
};

struct interests {
    struct interest_key **buckets;
    size_t mask;
    size_t keys; /* with at least one interest */
    struct interest_key *ready_first, *ready_last;
    struct interest_key *given; /* by interest_next_ready */
};

enum { FIRST_BUCKETS = 16 };

struct interests *interests_new(void)
{
    struct interests *in = mem_zalloc(sizeof *in);
    in->buckets = mem_zalloc(FIRST_BUCKETS * sizeof *in->buckets);
    in->mask = FIRST_BUCKETS - 1;
    return in;
}

bool interests_empty(const struct interests *in) { return in->keys == 0; }

/* The link that points to the key, or to NULL at the end of its chain. */
static struct interest_key **find(const struct interests *in, uint16_t db, struct slice key, uint64_t hash)
{
    struct interest_key **at = &in->buckets[hash >> 32 & in->mask];
    while (*at && !((*at)->hash == hash && (*at)->db == db && slice_eq(slice_of((*at)->name, (*at)->len), key))) at = &(*at)->chain;
    return at;
}

static void grow(struct interests *in)
{
    size_t mask = in->mask * 2 + 1;
    struct interest_key **buckets = mem_zalloc((mask + 1) * sizeof *buckets);
    for (size_t i = 0; i <= in->mask; i++)
        for (struct interest_key *k = in->buckets[i], *next; k; k = next) {
            next = k->chain;
            k->chain = buckets[k->hash >> 32 & mask];
            buckets[k->hash >> 32 & mask] = k;
        }
    mem_free(in->buckets);
    in->buckets = buckets;
    in->mask = mask;
}

static struct interest_key *new_key(struct interests *in, uint16_t db, struct slice key, uint64_t hash)
{
    struct interest_key *k = mem_zalloc(sizeof *k + key.n);
    k->in = in;
    k->db = db;
    k->hash = hash;
    k->len = (uint32_t)key.n;
    if (key.n) memcpy(k->name, key.p, key.n);
    return k;
}

static void drop_key(struct interests *in, struct interest_key *k)
{
    struct interest_key **link = find(in, k->db, slice_of(k->name, k->len), k->hash);
    CHECK(*link == k && !k->is_ready);
    *link = k->chain;
    mem_free(k);
}

/* --- the ready list --- */

static void list_ready(struct interests *in, struct interest_key *k)
{
    if (k->is_ready || k->waiters == 0) return;
    k->is_ready = true;
    k->ready_next = NULL;
    k->ready_prev = in->ready_last;
    if (k->ready_prev) k->ready_prev->ready_next = k;
    else in->ready_first = k;
    in->ready_last = k;
}

static void unlist_ready(struct interests *in, struct interest_key *k)
{
    if (!k->is_ready) return;
    if (k->ready_prev) k->ready_prev->ready_next = k->ready_next;
    else in->ready_first = k->ready_next;
    if (k->ready_next) k->ready_next->ready_prev = k->ready_prev;
    else in->ready_last = k->ready_prev;
    k->is_ready = false;
}

bool interest_any_ready(const struct interests *in) { return in->ready_first != NULL; }

static void let_go_of_given(struct interests *in)
{
    struct interest_key *k = in->given;
    in->given = NULL;
    if (k && !k->first) drop_key(in, k);
}

bool interest_next_ready(struct interests *in, uint16_t *db, struct slice *key, struct interest **first)
{
    let_go_of_given(in);
    struct interest_key *k = in->ready_first;
    if (!k) return false;
    unlist_ready(in, k);
    in->given = k;
    *db = k->db;
    *key = slice_of(k->name, k->len);
    *first = k->first;
    while ((*first)->dirty) *first = (*first)->next;
    return true;
}

/* --- coming and going --- */

void interest_add(struct interests *in, struct interest *i, uint16_t db, struct slice key, uint64_t hash)
{
    CHECK(!i->key);
    struct interest_key **link = find(in, db, key, hash), *k = *link;
    if (!k) k = *link = new_key(in, db, key, hash);
    if (!k->first && ++in->keys > in->mask) grow(in);
    i->key = k;
    i->next = NULL;
    i->prev = k->last;
    if (k->last) k->last->next = i;
    else k->first = i;
    k->last = i;
    if (!i->dirty) k->waiters++;
}

void interest_remove(struct interests *in, struct interest *i)
{
    struct interest_key *k = i->key;
    if (!k) return;
    if (i->prev) i->prev->next = i->next;
    else k->first = i->next;
    if (i->next) i->next->prev = i->prev;
    else k->last = i->prev;
    i->key = NULL;
    i->next = i->prev = NULL;
    if (!i->dirty && --k->waiters == 0) unlist_ready(in, k);
    if (k->first) return;
    in->keys--;
    if (k != in->given) drop_key(in, k);
}

struct interests *interest_home(const struct interest *i) { return i->key->in; }

void interest_ready(struct interests *in, struct interest *i) { list_ready(in, i->key); }

/* --- changes --- */

static void touch(struct interests *in, struct interest_key *k)
{
    for (struct interest *i = k->first; i; i = i->next)
        if (i->dirty) atomic_store(i->dirty, true);
    list_ready(in, k);
}

void interest_touch(struct interests *in, uint16_t db, struct slice key, uint64_t hash)
{
    struct interest_key *k = *find(in, db, key, hash);
    if (k) touch(in, k);
}

void interest_touch_if(struct interests *in, uint16_t db, bool (*changes)(void *ctx, struct slice key, uint64_t hash), void *ctx)
{
    for (size_t b = 0; b <= in->mask; b++)
        for (struct interest_key *k = in->buckets[b]; k; k = k->chain)
            if (k->db == db && changes(ctx, slice_of(k->name, k->len), k->hash)) touch(in, k);
}

void interests_free(struct interests *in)
{
    for (size_t b = 0; b <= in->mask; b++)
        for (struct interest_key *k = in->buckets[b], *next; k; k = next) {
            next = k->chain;
            for (struct interest *i = k->first; i; i = i->next) i->key = NULL;
            mem_free(k);
        }
    mem_free(in->buckets);
    mem_free(in);
}
