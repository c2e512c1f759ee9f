#include "snapshot/pagesearch.h"

#include "base/err.h"
#include "snapshot/overflow.h"

/* The other part of a key, which goes on in overflow pages, after the first part was equal to as many bytes of the probe. */
static int compare_chain(const struct page_source *s, const struct treecell *c, uint64_t key_left, struct slice rest, bool *less)
{
    struct overflow o;
    struct slice piece;
    int rc = overflow_open(&o, s, c->overflow, c->payload - c->local_n, key_left), order = 0;
    if (rc) return rc;
    while (key_left && rest.n && order == 0 && (rc = overflow_next(&o, &piece, NULL)) == 1) {
        size_t n = piece.n < key_left ? piece.n : (size_t)key_left;
        if (n > rest.n) n = rest.n;
        order = memcmp(piece.p, rest.p, n);
        rest = slice_of(rest.p + n, rest.n - n);
        key_left -= n;
    }
    overflow_close(&o);
    if (rc < 0) return rc;
    if (order == 0) order = key_left ? 1 : rest.n ? -1 : 0;
    *less = order < 0;
    return order == 0;
}

int pagesearch_compare(const struct page_source *s, const struct treepage *t, uint32_t i, const struct pagesearch_probe *p, bool *less)
{
    struct treecell c;
    struct treerow row;
    *less = true;
    if (!treepage_cell(t, i, &c) || !treepage_row(&c, &row)) return ERR_SHARD_DAMAGED;
    if (!row.key_is_blob) return 0; /* other types come before BLOBs */
    uint64_t here = c.local_n - row.head;
    if (row.key_n <= here) {
        int order = slice_cmp(slice_of(c.local + row.head, (size_t)row.key_n), p->key);
        *less = order < 0;
        return order == 0;
    }
    size_t n = here < p->key.n ? (size_t)here : p->key.n;
    int order = n ? memcmp(c.local + row.head, p->key.p, n) : 0;
    if (order == 0 && n < here) order = 1;
    *less = order < 0;
    return order ? 0 : compare_chain(s, &c, row.key_n - here, slice_of(p->key.p + n, p->key.n - n), less);
}

int pagesearch_part(const struct page_source *s, const struct treecell *c, uint64_t from, uint64_t n, bool in_place, struct buf *buf, struct slice *out)
{
    uint64_t here = from < c->local_n ? c->local_n - from : 0;
    if (n <= here && in_place) {
        *out = slice_of(c->local + from, (size_t)n);
        return 0;
    }
    if (n > (uint64_t)s->n_pages * s->page_size) return ERR_SHARD_DAMAGED;
    if (here > n) here = n;
    char *p = buf_room(buf, (size_t)n + 1);
    if (here) memcpy(p, c->local + from, (size_t)here);
    int rc = 0;
    if (here < n) rc = overflow_copy(s, c->overflow, c->payload - c->local_n, from + here - c->local_n, (size_t)(n - here), p + here);
    *out = slice_of(p, (size_t)n);
    buf->len += rc ? 0 : (size_t)n;
    return rc;
}

/* A value of the usual form, whose type must say the same as the lengths around it. */
static bool value_in_place(const struct treepage *t, uint32_t i, struct slice *value)
{
    struct pagesearch_row row;
    uint64_t type;
    if (!pagesearch_row(t, i, &row)) return false;
    size_t left = row.key > row.types ? (size_t)(row.key - row.types) : 0;
    size_t n = pagefile_get_varint(row.types, left, &type);
    if (n == 0 || n != left || type < 12 || (type - 12) / 2 != row.value_n) return false;
    *value = slice_of(row.key + row.key_n, row.value_n);
    return true;
}

int pagesearch_value(const struct page_source *s, const struct treepage *t, uint32_t i, bool in_place, struct buf *buf, struct slice *value)
{
    struct treecell c;
    struct treerow row;
    if (likely(in_place) && likely(value_in_place(t, i, value))) return 0;
    if (!treepage_cell(t, i, &c) || !treepage_row(&c, &row)) return ERR_SHARD_DAMAGED;
    return pagesearch_part(s, &c, row.head + row.key_n, row.value_n, in_place, buf, value);
}
