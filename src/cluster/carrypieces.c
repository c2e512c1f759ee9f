/* Numbers little endian.
 *
 *   LARGE    0 version u8, 1 | 1 type u8: which of `kinds` | 2 database u16 | 4 length u64 | 12 expiry in unix ms i64, 0: none | 20 key
 *   record   0 version u8, 1 | 1 zero, 3 bytes | for each value: database u16, length of its key u32, key
 *   FROM     0 order u64 | 8 place u64 | 16 passed u64; or nothing: the beginning
 *
 * A place is a byte of a string, an element of a list, a rank of a sorted set: order and passed are 0. In a hash and a set it is a position on its table's line (store/table.h), whose order tells it from those of other replicas, and so many elements that are to be met from there on have been given already. */
#include "cluster/carrypieces.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "log/opcode.h"
#include "store/body.h"
#include "store/fits.h"
#include "store/hash.h"
#include "store/list.h"
#include "store/set.h"
#include "store/store.h"
#include "store/zset.h"

enum {
    VERSION = 1,
    LARGE_HEAD = 20,
    RECORD_HEAD = 4,
    NAME_HEAD = 6,
    FROM_BYTES = 24,
    ITEM_COST = 16, /* what an element counts beside its bytes: putting many small ones takes its time */
};

static const char record_head[RECORD_HEAD] = {VERSION};

/* How a value of each type grows. Their places in this table are the numbers of LARGE: they never change. */
static const struct {
    enum type type;
    enum op_kind adds;
} kinds[] = {{TYPE_STRING, OP_WRITE_RANGE}, {TYPE_LIST, OP_PUSH_TAIL}, {TYPE_SET, OP_SET_ADD}, {TYPE_ZSET, OP_ZSET_ADD}, {TYPE_HASH, OP_HASH_SET}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint8_t kind_of(enum type t)
{
    for (uint8_t i = 0; i < KINDS; i++)
        if (kinds[i].type == t) return i;
    CHECK(!"a type that is carried");
    return KINDS;
}

static uint64_t length_of(const struct entry *e)
{
    switch (entry_type(e)) {
    case TYPE_STRING: return entry_value_len(e);
    case TYPE_LIST: return list_len(e);
    case TYPE_SET: return set_len(e);
    case TYPE_ZSET: return zset_len(e);
    default: return hash_len(e);
    }
}

/* ---- LARGE */

static void add_u16(struct buf *out, uint16_t v)
{
    const char bytes[2] = {(char)v, (char)(v >> 8)};
    buf_add(out, bytes, sizeof bytes);
}

static uint16_t u16_at(const char *p) { return (uint16_t)((unsigned char)p[0] | (unsigned char)p[1] << 8); }

void carrypieces_add_large(struct buf *out, uint16_t db, const struct entry *e)
{
    buf_add_byte(out, VERSION);
    buf_add_byte(out, (char)kind_of(entry_type(e)));
    add_u16(out, db);
    le_add_u64(out, length_of(e));
    le_add_u64(out, (uint64_t)entry_expiry_ms(e));
    buf_add_slice(out, entry_key(e));
}

bool carrypieces_take_large(struct slice bytes, struct carrypieces_large *l)
{
    if (bytes.n < LARGE_HEAD || bytes.p[0] != VERSION || (unsigned char)bytes.p[1] >= KINDS) return false;
    *l = (struct carrypieces_large){
        .type = kinds[(unsigned char)bytes.p[1]].type,
        .db = u16_at(bytes.p + 2),
        .length = le_u64(bytes.p + 4),
        .expiry_ms = (int64_t)le_u64(bytes.p + 12),
        .key = slice_of(bytes.p + LARGE_HEAD, bytes.n - LARGE_HEAD),
    };
    return l->db < STORE_DBS && l->expiry_ms >= 0;
}

/* ---- FROM */

struct from {
    uint64_t order, place, passed;
};

static bool from_take(struct slice bytes, struct from *f)
{
    *f = (struct from){0};
    if (bytes.n == 0) return true;
    if (bytes.n != FROM_BYTES) return false;
    *f = (struct from){le_u64(bytes.p), le_u64(bytes.p + 8), le_u64(bytes.p + 16)};
    return true;
}

static void from_add(struct buf *out, const struct from *f)
{
    le_add_u64(out, f->order);
    le_add_u64(out, f->place);
    le_add_u64(out, f->passed);
}

/* ---- reading a piece */

struct piece {
    struct slice *items;
    double *scores;
    uint32_t n, cap;
    uint64_t bytes, most;
    bool is_full;
    uint64_t met, passed; /* in one step along a table: elements, and how many of them were given before */
    struct buf texts;     /* of integers, which have none */
};

static void piece_fini(struct piece *p)
{
    mem_free(p->items);
    mem_free(p->scores);
    buf_fini(&p->texts);
}

static bool has_room(const struct piece *p, size_t bytes) { return p->n == 0 || p->bytes + bytes + ITEM_COST <= p->most; }

static void add_item(struct piece *p, struct slice item, double score)
{
    if (p->n == p->cap) {
        p->cap = p->cap * 2 + 64;
        p->items = mem_resize(p->items, p->cap * sizeof *p->items);
        p->scores = mem_resize(p->scores, p->cap * sizeof *p->scores);
    }
    p->scores[p->n] = score;
    p->items[p->n++] = item;
    p->bytes += item.n + ITEM_COST;
}

/* Each of these moves f to where the piece ends. False: that is the value's end. */
static bool read_string(const struct entry *e, struct from *f, uint64_t most, struct op *op)
{
    struct slice value = entry_value(e);
    uint64_t left = value.n - f->place;
    op->index = (int64_t)f->place;
    op->value = slice_of(value.p + f->place, left < most ? left : most);
    f->place += op->value.n;
    return f->place < value.n;
}

static bool read_list(const struct entry *e, struct from *f, struct piece *p)
{
    struct list_iter it;
    struct slice value;
    for (list_iter_init(&it, e, f->place, false); list_iter_next(&it, &value) && has_room(p, value.n); f->place++) add_item(p, value, 0);
    return f->place < list_len(e);
}

static bool read_zset(const struct entry *e, struct from *f, struct piece *p)
{
    struct zset_iter it;
    struct slice member;
    double score;
    for (zset_iter_init(&it, e, f->place, false); zset_iter_next(&it, &member, &score) && has_room(p, member.n); f->place++) add_item(p, member, score);
    return f->place < zset_len(e);
}

/* Whether an element that a step meets is one for this piece. Those that were given before are passed; with the first that finds no room the piece is full. */
static bool is_wanted(struct piece *p, size_t bytes)
{
    bool is_new = p->met >= p->passed;
    p->is_full |= is_new && !has_room(p, bytes);
    p->met += !p->is_full;
    return is_new && !p->is_full;
}

static void meet_field(void *ctx, struct slice field, struct slice value)
{
    if (!is_wanted(ctx, field.n + value.n)) return;
    add_item(ctx, field, 0);
    add_item(ctx, value, 0);
}

static void meet_member(void *ctx, struct slice member)
{
    if (is_wanted(ctx, member.n)) add_item(ctx, member, 0);
}

/* Has a text of its own: the one that is met is gone with the next. There is room for all of a piece, so that none moves. */
static void meet_integer(void *ctx, struct slice member)
{
    struct piece *p = ctx;
    if (!is_wanted(p, member.n)) return;
    if (p->n == 0) buf_grow(&p->texts, p->most + member.n);
    add_item(p, slice_of(p->texts.p + p->texts.len, member.n), 0);
    buf_add_slice(&p->texts, member);
}

/* Of a hash or a set, step by step along its table; a small one has none, and is met in one step. */
static bool read_members(const struct entry *e, struct from *f, struct piece *p)
{
    uint64_t order = body_order(e), at = 0;
    if (f->order == order) {
        at = f->place;
        p->passed = f->passed;
    }
    do {
        *f = (struct from){.order = order, .place = at};
        p->met = 0;
        if (entry_type(e) == TYPE_HASH) hash_scan(e, &at, 1, meet_field, p);
        else set_scan(e, &at, 1, entry_encoding(e) == ENC_INTS ? meet_integer : meet_member, p);
        p->passed = 0;
    } while (!p->is_full && at);
    f->passed = p->met;
    return p->is_full;
}

static bool read_some(const struct entry *e, struct from *f, struct piece *p, struct op *op)
{
    switch (entry_type(e)) {
    case TYPE_STRING: return read_string(e, f, p->most, op);
    case TYPE_LIST: return read_list(e, f, p);
    case TYPE_ZSET: return read_zset(e, f, p);
    default: return read_members(e, f, p);
    }
}

static bool has_members(const struct entry *e) { return entry_type(e) == TYPE_HASH || entry_type(e) == TYPE_SET; }

bool carrypieces_read(const struct entry *e, uint16_t db, struct slice from, size_t bytes, struct buf *piece, struct buf *next)
{
    struct piece p = {.most = bytes};
    struct op op = {.kind = kinds[kind_of(entry_type(e))].adds, .db = db, .key = entry_key(e)};
    struct from f;
    if (!from_take(from, &f) || (!has_members(e) && f.place >= length_of(e))) return false;
    bool goes_on = read_some(e, &f, &p, &op), has_some = p.n > 0 || op.value.n > 0;
    op.items = p.items;
    op.scores = p.scores;
    op.n_items = p.n;
    if (has_some) opcode_write(piece, &op);
    if (has_some && goes_on) from_add(next, &f);
    piece_fini(&p);
    return has_some;
}

/* ---- the record of values that are not whole */

static void record_key(struct buf *out, uint64_t op) { buf_printf(out, "own/pieces/%016" PRIx64, op); }

static const struct entry *find(const struct carryslice *s, uint16_t db, struct slice key)
{
    struct place at;
    store_peek(s->store, db, keyhash(key, s->store->seed), key, &at);
    return at.e;
}

static const struct entry *find_record(const struct carryslice *s)
{
    struct buf key = {0};
    record_key(&key, s->plan->op);
    const struct entry *e = find(s, STORE_SYSTEM_DB, buf_slice(&key));
    buf_fini(&key);
    return e;
}

static void add_name(struct buf *out, uint16_t db, struct slice key)
{
    add_u16(out, db);
    le_add_u32(out, (uint32_t)key.n);
    buf_add_slice(out, key);
}

/* Takes the next one off a record behind its head. */
static bool next_name(struct slice *in, uint16_t *db, struct slice *key)
{
    if (in->n == 0) return false;
    CHECK(in->n >= NAME_HEAD && le_u32(in->p + 2) <= in->n - NAME_HEAD);
    *db = u16_at(in->p);
    *key = slice_of(in->p + NAME_HEAD, le_u32(in->p + 2));
    *in = slice_of(key->p + key->n, in->n - NAME_HEAD - key->n);
    return true;
}

static struct slice names_of(const struct entry *record)
{
    struct slice value = entry_value(record);
    CHECK(value.n >= RECORD_HEAD && memcmp(value.p, record_head, RECORD_HEAD) == 0);
    return slice_of(value.p + RECORD_HEAD, value.n - RECORD_HEAD);
}

static bool is_begun(const struct carryslice *s, uint16_t db, struct slice key)
{
    const struct entry *record = find_record(s);
    struct slice in = record ? names_of(record) : slice_of(NULL, 0), name;
    for (uint16_t d; next_name(&in, &d, &name);)
        if (d == db && slice_eq(name, key)) return true;
    return false;
}

static void note_begun(const struct carryslice *s, uint16_t db, struct slice key)
{
    const struct entry *record = find_record(s);
    struct buf name = {0}, value = {0};
    record_key(&name, s->plan->op);
    if (record) buf_add_slice(&value, entry_value(record));
    else buf_add(&value, record_head, sizeof record_head);
    add_name(&value, db, key);
    store_apply(s->store, &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = buf_slice(&name), .value = buf_slice(&value)}, NULL);
    buf_fini(&name);
    buf_fini(&value);
}

/* ---- putting a piece */

static uint64_t delete(const struct carryslice *s, uint16_t db, struct slice key)
{
    if (!find(s, db, key)) return 0;
    store_apply(s->store, &(struct op){.kind = OP_DEL, .db = db, .key = key}, NULL);
    return 1;
}

bool carrypieces_is_piece(const struct op *op)
{
    bool adds = false;
    for (unsigned i = 0; i < KINDS; i++) adds |= kinds[i].adds == op->kind;
    return adds && op->db < STORE_DBS;
}

/* Of a list: the elements that are not there yet. False: some before them are not, either. */
static bool pass_those_there(const struct carryslice *s, struct op *op, struct slice from)
{
    const struct entry *e = find(s, op->db, op->key);
    uint64_t there = e && entry_type(e) == TYPE_LIST ? list_len(e) : 0;
    struct from f;
    if (!from_take(from, &f) || f.place > there) return false;
    uint64_t passed = there - f.place < op->n_items ? there - f.place : op->n_items;
    op->items += passed;
    op->n_items -= (uint32_t)passed;
    return true;
}

bool carrypieces_put(const struct carryslice *s, const struct op *piece, struct slice from, uint64_t *ops)
{
    struct op op = *piece;
    struct place at;
    bool begun = is_begun(s, op.db, op.key);
    *ops = 0;
    if (!begun && from.n) return false;
    if (!begun) {
        *ops = delete(s, op.db, op.key) + 1;
        note_begun(s, op.db, op.key);
    }
    if (op.kind == OP_PUSH_TAIL && !pass_those_there(s, &op, from)) return false;
    if (op.kind == OP_PUSH_TAIL && op.n_items == 0) return true;
    if (!fits_op(s->store, &op, keyhash(op.key, s->store->seed), &at)) return false;
    store_apply(s->store, &op, &at);
    (*ops)++;
    return true;
}

/* ---- the slice is taken */

bool carrypieces_is_whole(const struct carryslice *s, const struct carrypieces_large *l)
{
    const struct entry *e = find(s, l->db, l->key);
    return e && is_begun(s, l->db, l->key) && entry_type(e) == l->type && length_of(e) == l->length;
}

/* The next one of LARGEs, each behind its length. */
static bool next_large(struct slice *in, struct carrypieces_large *l)
{
    if (in->n == 0) return false;
    uint32_t n = le_u32(in->p);
    CHECK(n <= in->n - 4 && carrypieces_take_large(slice_of(in->p + 4, n), l));
    *in = slice_of(in->p + 4 + n, in->n - 4 - n);
    return true;
}

static bool is_among(struct slice larges, uint16_t db, struct slice key)
{
    for (struct carrypieces_large l; next_large(&larges, &l);)
        if (l.db == db && slice_eq(l.key, key)) return true;
    return false;
}

static uint64_t delete_others(const struct carryslice *s, struct slice names, struct slice larges)
{
    uint64_t n = 0;
    struct slice key;
    for (uint16_t db; next_name(&names, &db, &key);)
        if (!is_among(larges, db, key)) n += delete(s, db, key);
    return n;
}

uint64_t carrypieces_end(const struct carryslice *s, struct slice larges)
{
    const struct entry *record = find_record(s);
    struct buf names = {0};
    uint64_t n = 0;
    if (!record) return 0;
    buf_add_slice(&names, names_of(record));
    store_apply(s->store, &(struct op){.kind = OP_DEL, .db = STORE_SYSTEM_DB, .key = entry_key(record)}, NULL);
    n = 1 + delete_others(s, buf_slice(&names), larges);
    for (struct carrypieces_large l; next_large(&larges, &l);) {
        if (!l.expiry_ms) continue;
        store_apply(s->store, &(struct op){.kind = OP_EXPIRE, .db = l.db, .key = l.key, .expiry_ms = l.expiry_ms}, NULL);
        n++;
    }
    buf_fini(&names);
    return n;
}
