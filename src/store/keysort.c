#include "store/keysort.h"

#include <endian.h>
#include <stdlib.h>

#include "base/mem.h"
#include "route/keyspace.h"
#include "store/store.h"

struct keysort_item {
    uint64_t head; /* the eight bytes behind the space's name and its slash as a number, zeros behind the key's end. Different heads are in the order of their keys, so that sorting hardly touches entries; equal ones say nothing */
    struct entry *e;
};

static uint64_t head_of(struct slice space, struct slice key)
{
    uint64_t head = 0;
    size_t n = key.n > space.n ? key.n - space.n - 1 : 0;
    if (n) memcpy(&head, key.p + space.n + 1, n < sizeof head ? n : sizeof head);
    return be64toh(head);
}

static int ascending(const void *a, const void *b)
{
    const struct keysort_item *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return slice_cmp(entry_key(x->e), entry_key(y->e));
}

static int descending(const void *a, const void *b) { return ascending(b, a); }

static void add(struct keysort *k, size_t *cap, struct keysort_item item)
{
    if (k->n == *cap) {
        *cap = *cap * 2 + 16;
        k->items = mem_resize(k->items, *cap * sizeof *k->items);
    }
    k->items[k->n++] = item;
}

void keysort_init(struct keysort *k, const struct store *s, uint16_t db, struct slice space, struct slice start, struct slice end, bool reverse)
{
    struct table_iter it;
    size_t cap = 0;
    *k = (struct keysort){0};
    if (!s->dbs[db]) return;
    table_iter_init(&it, &s->dbs[db]->keys);
    for (struct entry *e; (e = table_iter_next(&it));)
        if (space_has(space, start, end, entry_key(e))) add(k, &cap, (struct keysort_item){head_of(space, entry_key(e)), e});
    if (k->n) qsort(k->items, k->n, sizeof *k->items, reverse ? descending : ascending);
}

void keysort_fini(struct keysort *k)
{
    mem_free(k->items);
    *k = (struct keysort){0};
}

struct entry *keysort_next(struct keysort *k) { return k->at < k->n ? k->items[k->at++].e : NULL; }
