/* By bucket first, with one counting sort. Then each bucket by eight bytes of the key at a time:
 *
 *   sort      radix sort of the prefixes, lowest byte first, leaving out the bytes in which all agree
 *   refine    a group of equal prefixes holds keys that end within these eight bytes, and others. Those that end come first, the shorter ones before the longer ones
 *             ("a" < "a\0" < "a\0b"), and those of one length are equal. The others are sorted by their next eight bytes, in the same way.
 *
 * Everything is stable, so equal keys stay in order of arrival. Small groups are sorted by insertion; keys that share more than LEVELS_MAX times eight bytes by merging, so that the depth of
 * the recursion has a bound. */
#include "snapshot/rowsort.h"

#include <endian.h>
#include <stdbool.h>

#include "base/mem.h"

enum { FEW = 24, LEVELS_MAX = 64, STEP = 8 };

struct job {
    const char *rows;
    struct rowsort_entry *spare; /* as many as there are entries */
};

uint64_t rowsort_prefix(struct slice key, size_t depth)
{
    uint64_t v = 0;
    if (key.n >= depth + STEP) {
        memcpy(&v, key.p + depth, STEP);
    } else if (key.n > depth) {
        memcpy(&v, key.p + depth, key.n - depth);
    }
    return be64toh(v);
}

static struct slice key_of(const struct job *j, const struct rowsort_entry *e) { return rowsort_key(j->rows + e->at); }

/* ---- small and deep groups */

/* a > b; both agree before `depth`, and their prefixes are those at `depth`. */
static bool is_after(const struct job *j, const struct rowsort_entry *a, const struct rowsort_entry *b)
{
    if (a->prefix != b->prefix) return a->prefix > b->prefix;
    return slice_cmp(key_of(j, a), key_of(j, b)) > 0;
}

static void insertion_sort(const struct job *j, struct rowsort_entry *e, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct rowsort_entry x = e[i];
        size_t at = i;
        for (; at > 0 && is_after(j, &e[at - 1], &x); at--) e[at] = e[at - 1];
        e[at] = x;
    }
}

static void merge(const struct job *j, const struct rowsort_entry *from, struct rowsort_entry *to, size_t mid, size_t n)
{
    size_t a = 0, b = mid;
    for (size_t i = 0; i < n; i++) to[i] = a < mid && (b >= n || !is_after(j, &from[a], &from[b])) ? from[a++] : from[b++];
}

static void merge_sort(const struct job *j, struct rowsort_entry *e, size_t n)
{
    struct rowsort_entry *from = e, *to = j->spare;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t left = n - at < 2 * width ? n - at : 2 * width;
            merge(j, from + at, to + at, left < width ? left : width, left);
        }
        struct rowsort_entry *t = from;
        from = to;
        to = t;
    }
    if (from != e) memcpy(e, from, n * sizeof *e);
}

/* ---- radix sort */

static void count_bytes(const struct rowsort_entry *e, size_t n, uint32_t counts[STEP][256])
{
    memset(counts, 0, STEP * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        for (unsigned b = 0; b < STEP; b++) counts[b][e[i].prefix >> (8 * b) & 255]++;
}

static void scatter(const struct rowsort_entry *from, struct rowsort_entry *to, size_t n, unsigned byte, uint32_t counts[256])
{
    uint32_t at = 0;
    for (unsigned v = 0; v < 256; v++) {
        uint32_t k = counts[v];
        counts[v] = at;
        at += k;
    }
    for (size_t i = 0; i < n; i++) to[counts[from[i].prefix >> (8 * byte) & 255]++] = from[i];
}

static void radix_sort(const struct job *j, struct rowsort_entry *e, size_t n)
{
    uint32_t counts[STEP][256];
    struct rowsort_entry *from = e, *to = j->spare;
    count_bytes(e, n, counts);
    for (unsigned b = 0; b < STEP; b++) {
        if (counts[b][from[0].prefix >> (8 * b) & 255] == n) continue;
        scatter(from, to, n, b, counts[b]);
        struct rowsort_entry *t = from;
        from = to;
        to = t;
    }
    if (from != e) memcpy(e, from, n * sizeof *e);
}

/* ---- groups */

static void sort_level(const struct job *j, struct rowsort_entry *e, size_t n, size_t depth, unsigned level);

/* Where a key ends behind `depth`: 0 to 8, or 9 if it goes on. */
static unsigned end_class(struct slice key, size_t depth) { return key.n > depth + STEP ? STEP + 1 : (unsigned)(key.n - depth); }

/* All of equal prefix at `depth`. */
static void refine(const struct job *j, struct rowsort_entry *e, size_t n, size_t depth, unsigned level)
{
    size_t counts[STEP + 2] = {0}, at[STEP + 2], sum = 0;
    for (size_t i = 0; i < n; i++) counts[end_class(key_of(j, &e[i]), depth)]++;
    for (unsigned c = 0; c < STEP + 2; c++) {
        at[c] = sum;
        sum += counts[c];
    }
    size_t longer = counts[STEP + 1];
    if (counts[end_class(key_of(j, &e[0]), depth)] != n) {
        for (size_t i = 0; i < n; i++) j->spare[at[end_class(key_of(j, &e[i]), depth)]++] = e[i];
        memcpy(e, j->spare, n * sizeof *e);
    }
    if (longer < 2) return;
    e += n - longer;
    for (size_t i = 0; i < longer; i++) e[i].prefix = rowsort_prefix(key_of(j, &e[i]), depth + STEP);
    sort_level(j, e, longer, depth + STEP, level + 1);
}

static void sort_level(const struct job *j, struct rowsort_entry *e, size_t n, size_t depth, unsigned level)
{
    if (n <= FEW) {
        insertion_sort(j, e, n);
        return;
    }
    if (level > LEVELS_MAX) {
        merge_sort(j, e, n);
        return;
    }
    radix_sort(j, e, n);
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && e[end].prefix == e[at].prefix; end++) {}
        if (end - at > 1) refine(j, e + at, end - at, depth, level);
    }
}

/* ---- buckets */

/* From arrival order, backwards in `in`, to order of buckets in out, of which there are n_buckets. */
static void sort_buckets(const struct rowsort_entry *in, struct rowsort_entry *out, size_t n, uint32_t n_buckets)
{
    uint32_t *at = mem_zalloc(((size_t)n_buckets + 1) * sizeof *at);
    for (size_t i = 0; i < n; i++) at[in[i].bucket + 1]++;
    for (uint32_t b = 0; b < n_buckets; b++) at[b + 1] += at[b];
    for (size_t i = n; i-- > 0;) out[at[in[i].bucket]++] = in[i];
    mem_free(at);
}

/* Equal keys have equal prefixes, whichever eight bytes these are: they have come through the same groups. */
static bool is_same(const struct job *j, const struct rowsort_entry *a, const struct rowsort_entry *b)
{
    return a->prefix == b->prefix && slice_eq(key_of(j, a), key_of(j, b));
}

static size_t keep_last(const struct job *j, struct rowsort_entry *e, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || e[i].bucket != e[i + 1].bucket || !is_same(j, &e[i], &e[i + 1])) e[kept++] = e[i];
    return kept;
}

size_t rowsort(const char *rows, struct rowsort_entry *in, struct rowsort_entry *out, size_t n)
{
    uint32_t last = 0;
    struct job j = {.rows = rows, .spare = in};
    for (size_t i = 0; i < n; i++) last = in[i].bucket > last ? in[i].bucket : last;
    sort_buckets(in, out, n, last + 1);
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && out[end].bucket == out[at].bucket; end++) {}
        sort_level(&j, out + at, end - at, 0, 0);
    }
    return keep_last(&j, out, n);
}
