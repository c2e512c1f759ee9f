/* Finds a key among the cells of one page, and takes rows out of cells. Bytes come from outside: whatever a page holds, nothing outside it is touched.
 *
 * Nearly every cell that a search looks at is a cache miss, so it reads as little of one as it can: the payload's length, the record's header length and the key's type, then eight bytes of the key
 * as one number, its head. Rows are taken apart and checked in full only when they are what was looked for.
 *
 * A head is the eight bytes behind the first `skip` of a key, most significant first; what a shorter key lacks is zero. Among keys that share those `skip` bytes, different heads say which key is
 * the lesser; equal ones say nothing. Where heads on both sides of the cells are known, the place of a key among them is guessed: rows that are spread evenly are found by looking at two or three
 * cells. After a few wrong guesses the range is halved, as it is where nothing is known. */
#pragma once
#include <endian.h>

#include "base/buf.h"
#include "base/prefetch.h"
#include "base/slice.h"
#include "snapshot/pages.h"
#include "snapshot/treepage.h"

struct pagesearch_probe {
    struct slice key;
    uint32_t skip; /* bytes that all keys of the page are known to share with it; not more than it has */
    uint64_t head;
};

/* A search under way: the answer is among the n cells from lo on, or behind them. */
struct pagesearch {
    uint32_t lo, n;
    uint32_t at;        /* the cell to look at next, if n is not 0 */
    uint32_t guesses;   /* how many may still be made; 0: low and high mean nothing */
    uint64_t low, high; /* of the cells on both sides: low < the probe's head < high */
    bool hit;           /* the cell at lo is the probe's own */
};

enum { PAGESEARCH_GUESSES = 4 };

/* n bytes of a key from p on, of which `readable` may be read. */
static inline uint64_t pagesearch_head(const void *p, size_t n, size_t readable)
{
    uint64_t v = 0;
    if (likely(readable >= 8)) {
        memcpy(&v, p, 8);
        v = be64toh(v);
        return likely(n >= 8) ? v : n ? v & ~UINT64_C(0) << (64 - 8 * n) : 0;
    }
    if (n) memcpy(&v, p, n < 8 ? n : 8);
    return be64toh(v);
}

/* Borrows the key, which must have skip bytes. */
static inline struct pagesearch_probe pagesearch_probe(struct slice key, uint32_t skip)
{
    return (struct pagesearch_probe){.key = key, .skip = skip, .head = pagesearch_head(key.p + skip, key.n - skip, key.n - skip)};
}

/* ---- cells of the usual form: lengths of one or two bytes, nothing in overflow pages, the key a BLOB */

struct pagesearch_row {
    const uint8_t *key, *types; /* where key and value lie, and the value's type, which is not looked at */
    uint32_t key_n, value_n;
};

/* False: it has another form, or is damaged. */
static inline bool pagesearch_row(const struct treepage *t, uint32_t i, struct pagesearch_row *row)
{
    uint32_t at = pagefile_u16(t->slots + 2 * i) + (t->leaf ? 0 : 4);
    if (unlikely(at < t->content || at + 8 > t->size)) return false;
    const uint8_t *c = t->p + at;
    uint32_t payload = *c++;
    if (payload & 0x80) {
        if (unlikely(*c & 0x80)) return false;
        payload = (payload & 0x7f) << 7 | *c++;
    }
    const uint8_t *record = c;
    uint32_t head = *c++, type = *c++;
    if (type & 0x80) {
        if (unlikely(*c & 0x80)) return false;
        type = (type & 0x7f) << 7 | *c++;
    }
    uint32_t key_n = (type - 12) / 2, used = head + key_n;
    if (unlikely(payload > t->whole_max || type < 12 || type & 1 || head > 20 || used > payload)) return false;
    if (unlikely((size_t)(record - t->p) + payload > t->size)) return false;
    *row = (struct pagesearch_row){.key = record + head, .types = c, .key_n = key_n, .value_n = payload - used};
    return true;
}

/* ---- searching */

/* The slow way, for rows of any form: *less says whether the row's key is before the probe. 1 if they are equal, 0, or an error. */
int pagesearch_compare(const struct page_source *s, const struct treepage *t, uint32_t i, const struct pagesearch_probe *p, bool *less);

/* Chooses the cell to look at next. Of n cells whose heads lie evenly between low and high, cell j has the head low + (high - low) * (j + 1) / (n + 1). */
static inline void pagesearch_aim(struct pagesearch *h, const struct pagesearch_probe *p)
{
    h->at = h->lo + h->n / 2;
    if (h->guesses == 0 || h->n < 2) return;
    h->guesses--;
    double share = (double)(int64_t)(p->head - h->low) / (double)(int64_t)(h->high - h->low);
    if (unlikely(!(share > 0 && share < 1))) return; /* the heads of a damaged page lie anywhere */
    uint32_t place = (uint32_t)(share * (h->n + 1) + 0.5);
    h->at = h->lo + (place == 0 ? 0 : place > h->n ? h->n - 1 : place - 1);
}

/* low and high: heads before and behind all cells, of which anything may be said: they are used if the probe's lies between them. */
static inline void pagesearch_begin(struct pagesearch *h, const struct treepage *t, const struct pagesearch_probe *p, uint64_t low, uint64_t high)
{
    bool guess = low < p->head && p->head < high && high - low <= INT64_MAX;
    *h = (struct pagesearch){.n = t->cells, .guesses = guess ? PAGESEARCH_GUESSES : 0, .low = low, .high = high};
    pagesearch_aim(h, p);
}

static inline void pagesearch_narrow(struct pagesearch *h, bool equal, bool less)
{
    uint32_t before = h->at - h->lo;
    h->lo = less || equal ? h->at + less : h->lo;
    h->n = equal ? 0 : less ? h->n - before - 1 : before;
    h->hit = equal;
}

/* Looks at one cell. 0, or an error. */
static inline int pagesearch_step(struct pagesearch *h, const struct page_source *s, const struct treepage *t, const struct pagesearch_probe *p)
{
    struct pagesearch_row row;
    if (likely(pagesearch_row(t, h->at, &row)) && likely(row.key_n >= p->skip)) {
        uint64_t head = pagesearch_head(row.key + p->skip, row.key_n - p->skip, (size_t)(t->p + t->size - row.key) - p->skip);
        bool less = head < p->head;
        if (likely(head != p->head)) {
            h->low = less ? head : h->low;
            h->high = less ? h->high : head;
            pagesearch_narrow(h, false, less);
        } else {
            int order = slice_cmp(slice_of(row.key, row.key_n), p->key);
            h->guesses = 0;
            pagesearch_narrow(h, order == 0, order < 0);
        }
    } else {
        bool less;
        int rc = pagesearch_compare(s, t, h->at, p, &less);
        if (unlikely(rc < 0)) return rc;
        h->guesses = 0;
        pagesearch_narrow(h, rc == 1, less);
    }
    pagesearch_aim(h, p);
    return 0;
}

/* Asks for the two cells of which the step after the next looks at one. */
static inline void pagesearch_prefetch_both(const struct pagesearch *h, const struct treepage *t)
{
    uint32_t before = h->at - h->lo, behind = h->n - before - 1;
    if (before) prefetch_line(t->p + pagefile_u16(t->slots + 2 * (h->lo + before / 2)));
    if (behind) prefetch_line(t->p + pagefile_u16(t->slots + 2 * (h->at + 1 + behind / 2)));
}

/* The whole search: 1 and h->lo if the page has the key; 0 and h->lo is the first cell behind it, perhaps one behind the last; or an error. */
static inline int pagesearch_run(struct pagesearch *h, const struct page_source *s, const struct treepage *t, const struct pagesearch_probe *p)
{
    while (h->n) {
        if (h->guesses == 0) pagesearch_prefetch_both(h, t);
        int rc = pagesearch_step(h, s, t, p);
        if (unlikely(rc)) return rc;
    }
    return h->hit;
}

/* Asks for the cell that the next step looks at. */
static inline void pagesearch_prefetch(const struct pagesearch *h, const struct treepage *t)
{
    if (h->n) prefetch_line(t->p + pagefile_u16(t->slots + 2 * h->at));
}

/* ---- what a row holds */

/* n bytes of a row from its byte `from` on: in place if they are in the cell and may stay there, else behind what buf has. 0 or an error. */
int pagesearch_part(const struct page_source *s, const struct treecell *c, uint64_t from, uint64_t n, bool in_place, struct buf *buf, struct slice *out);
/* The value of cell i, in the same way. */
int pagesearch_value(const struct page_source *s, const struct treepage *t, uint32_t i, bool in_place, struct buf *buf, struct slice *value);
