/* An image is a type byte and a body; the body's grammar by type, with the types that Redis 2.8 to 7.2 writes:
 *
 *    0  string           string
 *    1  list             length, string ...
 *    2  set              length, string ...
 *    3  sorted set       length, (string, text score) ...
 *    4  hash             length, (string, string) ...
 *    5  sorted set       length, (string, f64 little endian) ...
 *    9  hash             string holding a zipmap
 *   10  list             string holding a ziplist
 *   11  set              string holding an intset
 *   12  sorted set       string holding a ziplist: member, score, ...
 *   13  hash             string holding a ziplist
 *   14  list             length, string holding a ziplist ...
 *   16  hash             string holding a listpack
 *   17  sorted set       string holding a listpack
 *   18  list             length, (length 1: one element as a string | length 2: string holding a listpack) ...
 *   20  set              string holding a listpack
 *
 *   length      00nnnnnn | 01nnnnnn n8 | 80 n32 | 81 n64, big endian
 *   string      length, bytes | c0 i8 | c1 i16 | c2 i32, little endian: the integer as text | c3 length, length, LZF bytes
 *   text score  u8 n < 253, n bytes | fd NaN | fe inf | ff -inf */
#include "store/parts.h"

#include <math.h>

#include "base/keyhash.h"
#include "base/mem.h"
#include "base/num.h"
#include "store/lzf.h"
#include "store/rdbpack.h"
#include "store/rdbwire.h"

enum { STRING_MAX = RDBWIRE_STRING_MAX, BLOCK_BYTES = 16 << 10 };

struct parts_block {
    struct parts_block *next;
    char bytes[];
};

/* Small pieces share a block; what does not fit gets one of its own. */
static char *room(struct parts *p, size_t n)
{
    if (p->block_left < n) {
        size_t bytes = n > BLOCK_BYTES ? n : BLOCK_BYTES;
        struct parts_block *b = mem_alloc(sizeof *b + bytes);
        b->next = p->blocks;
        p->blocks = b;
        p->block_left = bytes;
    }
    p->block_left -= n;
    return p->blocks->bytes + p->block_left;
}

void parts_fini(struct parts *p)
{
    while (p->blocks) {
        struct parts_block *next = p->blocks->next;
        mem_free(p->blocks);
        p->blocks = next;
    }
    mem_free(p->items);
    mem_free(p->scores);
    *p = (struct parts){0};
}

static void add(struct parts *p, struct slice item)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 8;
        p->items = mem_resize(p->items, p->cap * sizeof *p->items);
    }
    p->items[p->n++] = item;
}

static struct slice text_of(struct parts *p, int64_t value)
{
    char text[NUM_I64_MAX_CHARS];
    size_t n = num_format_i64(text, value);
    return slice_of(memcpy(room(p, n), text, n), n);
}

static bool add_element(void *ctx, const struct rdbpack_element *e)
{
    struct parts *p = ctx;
    add(p, e->is_int ? text_of(p, e->value) : e->bytes);
    return true;
}

/* ---- strings. `in` is what is left of the image. */

static bool take_compressed(struct parts *p, struct slice *in, struct slice *s)
{
    uint64_t packed_n, n;
    if (!rdbwire_length(in, &packed_n) || !rdbwire_length(in, &n)) return false;
    const uint8_t *packed = rdbwire_take(in, packed_n);
    if (!packed || n == 0 || n > STRING_MAX || n / LZF_EXPANSION_MAX > packed_n) return false;
    char *out = room(p, n);
    *s = slice_of(out, n);
    return lzf_unpack(slice_of(packed, packed_n), out, n);
}

static bool take_string(struct parts *p, struct slice *in, struct slice *s)
{
    uint64_t n;
    bool special;
    if (!rdbwire_length_or(in, &n, &special)) return false;
    if (!special) {
        const uint8_t *bytes = n <= STRING_MAX ? rdbwire_take(in, n) : NULL;
        *s = slice_of(bytes, n);
        return bytes;
    }
    if (n == 3) return take_compressed(p, in, s);
    const uint8_t *value = n < 3 ? rdbwire_take(in, 1u << n) : NULL;
    if (value) *s = text_of(p, rdbpack_i64le(value, 1u << n));
    return value;
}

/* ---- collections */

static bool take_items(struct parts *p, struct slice *in, unsigned strings_each)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--)
        for (unsigned i = 0; i < strings_each; i++) {
            struct slice s;
            if (!take_string(p, in, &s)) return false;
            add(p, s);
        }
    return true;
}

static bool take_score_text(struct slice *in, double *score)
{
    const uint8_t *n = rdbwire_take(in, 1);
    if (!n || *n == 253) return false;
    if (*n >= 254) {
        *score = *n == 254 ? INFINITY : -INFINITY;
        return true;
    }
    const uint8_t *text = rdbwire_take(in, *n);
    return text && num_parse_f64(slice_of(text, *n), score);
}

static bool take_score_binary(struct slice *in, double *score)
{
    const uint8_t *p = rdbwire_take(in, 8);
    if (!p) return false;
    uint64_t bits = rdbpack_u64le(p, 8);
    memcpy(score, &bits, 8);
    return !isnan(*score);
}

static bool take_scored(struct parts *p, struct slice *in, bool (*take_score)(struct slice *, double *))
{
    uint64_t n;
    size_t scores_cap = 0;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--) {
        struct slice member;
        double score;
        if (!take_string(p, in, &member) || !take_score(in, &score)) return false;
        add(p, member);
        if (scores_cap < p->cap) {
            scores_cap = p->cap;
            p->scores = mem_resize(p->scores, scores_cap * sizeof *p->scores);
        }
        p->scores[p->n - 1] = score;
    }
    return true;
}

/* A packed sorted set comes as member, score text, ...: every second item becomes a score. */
static bool split_scores(struct parts *p)
{
    if (p->n == 0 || p->n % 2) return false;
    p->scores = mem_alloc(p->n / 2 * sizeof *p->scores);
    for (size_t i = 0; i < p->n / 2; i++) {
        if (!num_parse_f64(p->items[2 * i + 1], &p->scores[i])) return false;
        p->items[i] = p->items[2 * i];
    }
    p->n /= 2;
    return true;
}

static bool take_packed(struct parts *p, struct slice *in, bool (*walk)(struct slice, rdbpack_visit, void *))
{
    struct slice blob;
    return take_string(p, in, &blob) && walk(blob, add_element, p);
}

static bool take_ziplists(struct parts *p, struct slice *in)
{
    uint64_t n;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--)
        if (!take_packed(p, in, rdbpack_ziplist)) return false;
    return true;
}

static bool take_nodes(struct parts *p, struct slice *in)
{
    enum { PLAIN = 1, PACKED = 2 };
    uint64_t n, container;
    if (!rdbwire_length(in, &n)) return false;
    for (; n > 0; n--) {
        struct slice s;
        if (!rdbwire_length(in, &container)) return false;
        if (container == PACKED) {
            if (!take_packed(p, in, rdbpack_listpack)) return false;
        } else {
            if (container != PLAIN || !take_string(p, in, &s)) return false;
            add(p, s);
        }
    }
    return true;
}

static bool take_plain_string(struct parts *p, struct slice *in)
{
    struct slice s;
    if (!take_string(p, in, &s)) return false;
    add(p, s);
    return true;
}

static bool take_body(struct parts *p, uint8_t type, struct slice *in)
{
    switch (type) {
    case 0: p->type = TYPE_STRING; return take_plain_string(p, in);
    case 1: p->type = TYPE_LIST; return take_items(p, in, 1);
    case 2: p->type = TYPE_SET; return take_items(p, in, 1);
    case 3: p->type = TYPE_ZSET; return take_scored(p, in, take_score_text);
    case 4: p->type = TYPE_HASH; return take_items(p, in, 2);
    case 5: p->type = TYPE_ZSET; return take_scored(p, in, take_score_binary);
    case 9: p->type = TYPE_HASH; return take_packed(p, in, rdbpack_zipmap);
    case 10: p->type = TYPE_LIST; return take_packed(p, in, rdbpack_ziplist);
    case 11: p->type = TYPE_SET; return take_packed(p, in, rdbpack_intset);
    case 12: p->type = TYPE_ZSET; return take_packed(p, in, rdbpack_ziplist) && split_scores(p);
    case 13: p->type = TYPE_HASH; return take_packed(p, in, rdbpack_ziplist) && p->n % 2 == 0;
    case 14: p->type = TYPE_LIST; return take_ziplists(p, in);
    case 16: p->type = TYPE_HASH; return take_packed(p, in, rdbpack_listpack) && p->n % 2 == 0;
    case 17: p->type = TYPE_ZSET; return take_packed(p, in, rdbpack_listpack) && split_scores(p);
    case 18: p->type = TYPE_LIST; return take_nodes(p, in);
    case 20: p->type = TYPE_SET; return take_packed(p, in, rdbpack_listpack);
    default: return false;
    }
}

bool parts_read(struct parts *p, struct slice image)
{
    *p = (struct parts){0};
    const uint8_t *type = rdbwire_take(&image, 1);
    return type && take_body(p, *type, &image) && image.n == 0 && p->n > 0;
}

/* An open-addressed table of item numbers. Its hash is seeded by all the items, so nobody can prepare items that collide. */
bool parts_distinct(const struct parts *p)
{
    if (p->type == TYPE_STRING || p->type == TYPE_LIST) return true;
    size_t stride = p->type == TYPE_HASH ? 2 : 1, slots = 8;
    while (slots < p->n / stride * 2) slots *= 2;
    uint64_t seed = 0;
    for (size_t i = 0; i < p->n; i += stride) seed = keyhash(p->items[i], seed);

    size_t *table = mem_zalloc(slots * sizeof *table); /* 1 + number; 0: free */
    bool distinct = true;
    for (size_t i = 0; distinct && i < p->n; i += stride) {
        size_t at = keyhash(p->items[i], seed) & (slots - 1);
        while (table[at] && !slice_eq(p->items[table[at] - 1], p->items[i])) at = (at + 1) & (slots - 1);
        distinct = !table[at];
        table[at] = i + 1;
    }
    mem_free(table);
    return distinct;
}
