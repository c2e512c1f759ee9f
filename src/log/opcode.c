/* The bytes of an op
 *
 *   type u8 | db | the fields of its kind, in the order of the table below
 *
 *   number    LEB128: seven bits a byte, lowest first, the top bit says that more follow. At most ten bytes and no longer than needed.
 *   db, index, count, n_items   numbers
 *   expiry    number, zigzag: 0, -1, 1, -2 ... are 0, 1, 2, 3 ...; unix milliseconds, 0 is none
 *   string    number of bytes, then the bytes: key, value, each item
 *   items     n_items, then that many strings; those of a sorted set each with the score before it, a double as eight bytes little endian
 *
 *   type  op            db then         type  op            db then              type  op          db then
 *    1    SET           key expiry val   8    PUSH_TAIL     key items            15   HASH_DEL    key items
 *    2    SET_VALUE     key val          9    POP_HEAD      key count            16   SET_ADD     key items
 *    3    APPEND        key val         10    POP_TAIL      key count            17   SET_REM     key items
 *    4    WRITE_RANGE   key index val   11    LIST_SET      key index val        18   ZSET_ADD    key items with scores
 *    5    DEL           key             12    LIST_INSERT   key index val        19   ZSET_REM    key items
 *    6    EXPIRE        key expiry      13    LIST_REMOVE   key index count      20   RESTORE     key expiry val
 *    7    PUSH_HEAD     key items       14    HASH_SET      key items            21   FLUSH       -
 *                                                                                22   SWAP        index
 *
 * The types are those of the disk, not the numbers of enum op_kind: kinds may be sorted anew, types never. A new kind gets the next free type.
 *
 * Valid is an op whose fields end exactly with the record, with db below STORE_ALL_DBS, at least one item where there are items, pairs of them for HASH_SET, no
 * score that is not a number, no string longer than the store takes, for SWAP a db and an index below STORE_DBS and for RESTORE a valid image. */
#include "log/opcode.h"

#include <endian.h>
#include <math.h>

#include "base/mem.h"
#include "store/image.h"
#include "store/store.h"

enum field { KEY = 1, EXPIRY = 2, INDEX = 4, COUNT = 8, VALUE = 16, ITEMS = 32, SCORES = 64 };

enum { NUMBER_BYTES_MAX = 10, TYPES = 23 };

static const struct {
    uint8_t type;
    uint8_t fields; /* written in the order of enum field */
} layouts[OP_KINDS] = {
    [OP_SET] = {1, KEY | EXPIRY | VALUE},
    [OP_SET_VALUE] = {2, KEY | VALUE},
    [OP_APPEND] = {3, KEY | VALUE},
    [OP_WRITE_RANGE] = {4, KEY | INDEX | VALUE},
    [OP_DEL] = {5, KEY},
    [OP_EXPIRE] = {6, KEY | EXPIRY},
    [OP_PUSH_HEAD] = {7, KEY | ITEMS},
    [OP_PUSH_TAIL] = {8, KEY | ITEMS},
    [OP_POP_HEAD] = {9, KEY | COUNT},
    [OP_POP_TAIL] = {10, KEY | COUNT},
    [OP_LIST_SET] = {11, KEY | INDEX | VALUE},
    [OP_LIST_INSERT] = {12, KEY | INDEX | VALUE},
    [OP_LIST_REMOVE] = {13, KEY | INDEX | COUNT},
    [OP_HASH_SET] = {14, KEY | ITEMS},
    [OP_HASH_DEL] = {15, KEY | ITEMS},
    [OP_SET_ADD] = {16, KEY | ITEMS},
    [OP_SET_REM] = {17, KEY | ITEMS},
    [OP_ZSET_ADD] = {18, KEY | ITEMS | SCORES},
    [OP_ZSET_REM] = {19, KEY | ITEMS},
    [OP_RESTORE] = {20, KEY | EXPIRY | VALUE},
    [OP_FLUSH] = {21, 0},
    [OP_SWAP] = {22, INDEX},
};

static const enum op_kind kind_of_type[TYPES] = {
    [1] = OP_SET,           [2] = OP_SET_VALUE,  [3] = OP_APPEND,       [4] = OP_WRITE_RANGE, [5] = OP_DEL,       [6] = OP_EXPIRE,
    [7] = OP_PUSH_HEAD,     [8] = OP_PUSH_TAIL,  [9] = OP_POP_HEAD,     [10] = OP_POP_TAIL,   [11] = OP_LIST_SET, [12] = OP_LIST_INSERT,
    [13] = OP_LIST_REMOVE,  [14] = OP_HASH_SET,  [15] = OP_HASH_DEL,    [16] = OP_SET_ADD,    [17] = OP_SET_REM,  [18] = OP_ZSET_ADD,
    [19] = OP_ZSET_REM,     [20] = OP_RESTORE,   [21] = OP_FLUSH,       [22] = OP_SWAP,
};

_Static_assert(TYPES == OP_KINDS + 1, "every kind has a type");

/* What can be said of an op without the store that it is for. The image of a RESTORE is looked at only when read: the command that made the op did so. */
static bool is_well_formed(const struct op *op)
{
    unsigned fields = layouts[op->kind].fields;
    if (op->db >= STORE_ALL_DBS || op->key.n > UINT32_MAX) return false;
    if (op->value.n > UINT32_MAX && op->kind != OP_RESTORE) return false;
    if (fields & INDEX && op->index < 0) return false;
    if (fields & COUNT && op->count < 0) return false;
    if (fields & ITEMS && op->n_items == 0) return false;
    if (op->kind == OP_HASH_SET && op->n_items % 2) return false;
    if (op->kind == OP_SWAP && (op->db >= STORE_DBS || op->index >= STORE_DBS)) return false;
    if (op->kind == OP_WRITE_RANGE && (uint64_t)op->index > UINT32_MAX - op->value.n) return false;
    if (fields & SCORES)
        for (uint32_t i = 0; i < op->n_items; i++)
            if (isnan(op->scores[i])) return false;
    return true;
}

/* --- writing: p has room --- */

static char *put_number(char *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) *p++ = (char)(v | 0x80);
    *p++ = (char)v;
    return p;
}

static uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }

static void add_string(struct buf *out, struct slice s)
{
    char *p = put_number(buf_room(out, NUMBER_BYTES_MAX + s.n), s.n);
    if (s.n) memcpy(p, s.p, s.n);
    out->len = (size_t)(p - out->p) + s.n;
}

static void add_items(struct buf *out, const struct op *op, bool scores)
{
    out->len = (size_t)(put_number(buf_room(out, NUMBER_BYTES_MAX), op->n_items) - out->p);
    for (uint32_t i = 0; i < op->n_items; i++) {
        if (scores) {
            uint64_t bits;
            memcpy(&bits, &op->scores[i], 8);
            bits = htole64(bits);
            buf_add(out, &bits, 8);
        }
        add_string(out, op->items[i]);
    }
}

/* The numbers of fixed place, between key and value. */
static void add_numbers(struct buf *out, const struct op *op, unsigned fields)
{
    char *p = buf_room(out, 3 * NUMBER_BYTES_MAX);
    if (fields & EXPIRY) p = put_number(p, zigzag(op->expiry_ms));
    if (fields & INDEX) p = put_number(p, (uint64_t)op->index);
    if (fields & COUNT) p = put_number(p, (uint64_t)op->count);
    out->len = (size_t)(p - out->p);
}

void opcode_write(struct buf *out, const struct op *op)
{
    CHECK(op->kind < OP_KINDS && is_well_formed(op));
    unsigned fields = layouts[op->kind].fields;
    char *p = buf_room(out, 1 + NUMBER_BYTES_MAX);
    *p++ = (char)layouts[op->kind].type;
    out->len = (size_t)(put_number(p, op->db) - out->p);
    if (fields & KEY) add_string(out, op->key);
    add_numbers(out, op, fields);
    if (fields & VALUE) add_string(out, op->value);
    if (fields & ITEMS) add_items(out, op, fields & SCORES);
}

/* --- reading: what is left of the record shrinks from the front; the first failure empties it and stays --- */

struct reader {
    struct slice rest;
    bool failed;
};

static uint64_t fail(struct reader *r)
{
    r->failed = true;
    r->rest.n = 0;
    return 0;
}

static uint64_t read_number(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < NUMBER_BYTES_MAX && i < r->rest.n; i++) {
        uint8_t byte = (uint8_t)r->rest.p[i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte & 0x80) continue;
        bool longer_than_needed = i > 0 && byte == 0, too_large = i == NUMBER_BYTES_MAX - 1 && byte > 1;
        if (longer_than_needed || too_large) break;
        r->rest = slice_of(r->rest.p + i + 1, r->rest.n - i - 1);
        return v;
    }
    return fail(r);
}

static struct slice read_bytes(struct reader *r, uint64_t n)
{
    if (n > r->rest.n) fail(r);
    if (r->failed) return SLICE("");
    struct slice s = slice_of(r->rest.p, n);
    r->rest = slice_of(r->rest.p + n, r->rest.n - n);
    return s;
}

static struct slice read_string(struct reader *r) { return read_bytes(r, read_number(r)); }

static int64_t read_expiry(struct reader *r)
{
    uint64_t v = read_number(r);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* A number that fits where the op keeps it as a signed one. */
static int64_t read_natural(struct reader *r)
{
    uint64_t v = read_number(r);
    return v <= INT64_MAX ? (int64_t)v : (int64_t)fail(r);
}

static double read_score(struct reader *r)
{
    uint64_t bits = 0;
    double score;
    struct slice s = read_bytes(r, 8);
    if (s.n) memcpy(&bits, s.p, 8);
    bits = le64toh(bits);
    memcpy(&score, &bits, 8);
    return score;
}

static void scratch_room(struct opcode_scratch *s, uint32_t n)
{
    if (n <= s->cap) return;
    s->items = mem_resize(s->items, n * sizeof *s->items);
    s->scores = mem_resize(s->scores, n * sizeof *s->scores);
    s->cap = n;
}

static void read_items(struct reader *r, struct opcode_scratch *s, struct op *op, bool scores)
{
    uint64_t n = read_number(r);
    /* An item is one byte at least: a count that cannot be true asks for no memory. */
    if (n > r->rest.n || n > UINT32_MAX) fail(r);
    if (r->failed) return;
    scratch_room(s, (uint32_t)n);
    op->n_items = (uint32_t)n;
    op->items = s->items;
    if (scores) op->scores = s->scores;
    for (uint32_t i = 0; i < n; i++) {
        if (scores) s->scores[i] = read_score(r);
        s->items[i] = read_string(r);
        if (s->items[i].n > UINT32_MAX) fail(r);
    }
}

bool opcode_read(struct slice record, struct opcode_scratch *s, struct op *op)
{
    struct reader r = {record, false};
    uint8_t type = record.n ? (uint8_t)*read_bytes(&r, 1).p : 0;
    if (type == 0 || type >= TYPES) return false;
    *op = (struct op){.kind = kind_of_type[type]};
    unsigned fields = layouts[op->kind].fields;
    uint64_t db = read_number(&r);
    op->db = db < STORE_ALL_DBS ? (uint16_t)db : (uint16_t)STORE_ALL_DBS;
    if (fields & KEY) op->key = read_string(&r);
    if (fields & EXPIRY) op->expiry_ms = read_expiry(&r);
    if (fields & INDEX) op->index = read_natural(&r);
    if (fields & COUNT) op->count = read_natural(&r);
    if (fields & VALUE) op->value = read_string(&r);
    if (fields & ITEMS) read_items(&r, s, op, fields & SCORES);
    if (r.failed || r.rest.n || !is_well_formed(op)) return false;
    return op->kind != OP_RESTORE || image_valid(op->value);
}

bool opcode_peek_key(struct slice record, uint16_t *db, struct slice *key)
{
    struct reader r = {record, false};
    uint8_t type = record.n ? (uint8_t)*read_bytes(&r, 1).p : 0;
    if (type == 0 || type >= TYPES || !(layouts[kind_of_type[type]].fields & KEY)) return false;
    uint64_t n = read_number(&r);
    *db = (uint16_t)n;
    *key = read_string(&r);
    return !r.failed && n < STORE_ALL_DBS;
}

void opcode_scratch_fini(struct opcode_scratch *s)
{
    mem_free(s->items);
    mem_free(s->scores);
    *s = (struct opcode_scratch){0};
}
