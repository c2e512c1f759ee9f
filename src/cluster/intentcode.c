/* All numbers little endian.
 *
 *     intent     version u8 = 1, or 2 if it has events, 3 bytes of 0, decider u32, number of keys and spans u32; each key: db u8, use u8 (0 reads, 1 writes), 2 bytes of 0, length u32, bytes;
 *                each span: db u8, 2 u8, 2 bytes of 0, length u32, bytes (cluster/intentspan.h); of version 2 then the length u32 of
 *                the events, at least one, and these (cluster/intentevent.h); then ops to the end, as cluster/seatentry.h gathers them
 *     decision   version u8 = 1, 3 bytes of 0, number of groups u32; each group: u32
 *
 * Keys of records: txn/i/<id> and txn/d/<id>. */
#include "cluster/intentcode.h"

#include "base/le.h"
#include "cluster/intentevent.h"
#include "cluster/meta.h"
#include "cluster/seatentry.h"
#include "log/opcode.h"
#include "route/spacelock.h"
#include "store/store.h"

enum { VERSION = 1, VERSION_EVENTS = 2, INTENT_HEAD = 12, KEY_HEAD = 8, DECISION_HEAD = 8 };
enum { READS, WRITES, SPAN };

static const char head[4] = {VERSION};

/* ---- names */

bool intentcode_is_id(struct slice id) { return id.n > 0 && id.n <= INTENTS_ID_MAX && !memchr(id.p, '/', id.n); }

void intentcode_key(struct buf *out, struct slice space, struct slice id)
{
    buf_add_slice(out, space);
    buf_add_byte(out, '/');
    buf_add_slice(out, id);
}

struct slice intentcode_id(struct slice key, struct slice space)
{
    CHECK(key.n > space.n + 1);
    return slice_of(key.p + space.n + 1, key.n - space.n - 1);
}

/* ---- intents */

void intentcode_begin(struct buf *out, uint32_t decider, uint32_t n)
{
    buf_add(out, head, sizeof head);
    le_add_u32(out, decider);
    le_add_u32(out, n);
}

static void add_head(struct buf *out, uint16_t db, char kind, size_t n)
{
    const char first[4] = {(char)db, kind};
    CHECK(db <= STORE_SYSTEM_DB && n <= UINT32_MAX);
    buf_add(out, first, sizeof first);
    le_add_u32(out, (uint32_t)n);
}

void intentcode_add_key(struct buf *out, const struct intents_key *k)
{
    add_head(out, k->db, k->use == INTENTS_WRITES ? WRITES : READS, k->key.n);
    buf_add_slice(out, k->key);
}

void intentcode_add_span(struct buf *out, const struct intentspan *s)
{
    struct buf bytes = {0};
    intentspan_add(&bytes, s);
    add_head(out, s->db, SPAN, bytes.len);
    buf_add_slice(out, buf_slice(&bytes));
    buf_fini(&bytes);
}

void intentcode_add_events(struct buf *record, struct slice events)
{
    CHECK(record->len >= INTENT_HEAD && events.n > 0 && events.n <= UINT32_MAX);
    record->p[0] = VERSION_EVENTS;
    le_add_u32(record, (uint32_t)events.n);
    buf_add_slice(record, events);
}

void intentcode_end(struct buf *out, struct slice ops) { buf_add_slice(out, ops); }

/* Takes the bytes of what is of one of these kinds. */
static bool take(struct slice *in, char first, char last, uint16_t *db, char *kind, struct slice *bytes)
{
    if (in->n < KEY_HEAD || (uint8_t)in->p[0] > STORE_SYSTEM_DB || in->p[1] < first || in->p[1] > last || in->p[2] || in->p[3]) return false;
    size_t n = le_u32(in->p + 4);
    if (n > in->n - KEY_HEAD) return false;
    *db = (uint8_t)in->p[0];
    *kind = in->p[1];
    *bytes = slice_of(in->p + KEY_HEAD, n);
    *in = slice_of(in->p + KEY_HEAD + n, in->n - KEY_HEAD - n);
    return true;
}

bool intentcode_next_key(struct slice *keys, struct intents_key *k)
{
    char kind;
    if (!take(keys, READS, WRITES, &k->db, &kind, &k->key)) return false;
    k->use = kind == WRITES ? INTENTS_WRITES : INTENTS_READS;
    return true;
}

bool intentcode_next_span(struct slice *spans, struct intentspan *s)
{
    char kind;
    struct slice bytes;
    return take(spans, SPAN, SPAN, &s->db, &kind, &bytes) && intentspan_read(bytes, s);
}

static bool take_events(struct slice *in, struct slice *events)
{
    size_t n = in->n < 4 ? 0 : le_u32(in->p);
    if (n == 0 || n > in->n - 4) return false;
    *events = slice_of(in->p + 4, n);
    *in = slice_of(in->p + 4 + n, in->n - 4 - n);
    return intentevent_are(*events);
}

static bool is_intent(struct slice record)
{
    return record.n >= INTENT_HEAD && (record.p[0] == VERSION || record.p[0] == VERSION_EVENTS) && memcmp(record.p + 1, head + 1, sizeof head - 1) == 0;
}

bool intentcode_read(struct slice record, struct intentcode *out)
{
    struct intents_key k;
    struct intentspan s;
    uint32_t n = 0;
    if (!is_intent(record)) return false;
    *out = (struct intentcode){.decider = le_u32(record.p + 4), .n = le_u32(record.p + 8)};
    struct slice keys = slice_of(record.p + INTENT_HEAD, record.n - INTENT_HEAD), rest = keys;
    while (n < out->n && intentcode_next_key(&rest, &k)) n++;
    out->keys = slice_of(keys.p, keys.n - rest.n);
    struct slice spans = rest;
    while (n < out->n && intentcode_next_span(&rest, &s)) n++;
    out->spans = slice_of(spans.p, spans.n - rest.n);
    if (n != out->n || (record.p[0] == VERSION_EVENTS && !take_events(&rest, &out->events))) return false;
    out->ops = rest;
    return out->decider < META_GROUPS_MAX && intentcode_are_ops(rest);
}

/* ---- decisions */

void intentcode_add_decision(struct buf *out, const uint32_t *groups, uint32_t n)
{
    buf_add(out, head, sizeof head);
    le_add_u32(out, n);
    for (uint32_t i = 0; i < n; i++) le_add_u32(out, groups[i]);
}

bool intentcode_read_decision(struct slice record, uint32_t *n)
{
    if (record.n < DECISION_HEAD || memcmp(record.p, head, sizeof head) != 0) return false;
    *n = le_u32(record.p + 4);
    if (*n > META_GROUPS_MAX || record.n != DECISION_HEAD + (size_t)*n * 4) return false;
    for (uint32_t i = 0; i < *n; i++)
        if (intentcode_group(record, i) >= META_GROUPS_MAX) return false;
    return true;
}

uint32_t intentcode_group(struct slice record, uint32_t i) { return le_u32(record.p + DECISION_HEAD + (size_t)i * 4); }

/* ---- ops */

static bool is_of_lock(const struct op *op)
{
    struct slice name;
    uint64_t token;
    return op->db == STORE_SYSTEM_DB && (op->kind == OP_SET || op->kind == OP_DEL) && (slice_eq(op->key, spacelock_counter) || spacelock_key_parse(op->key, &name, &token));
}

bool intentcode_are_ops(struct slice ops)
{
    struct opcode_scratch scratch = {0};
    struct op op;
    bool bad = false, fine = true;
    while (fine && seatentry_next_op(&ops, &scratch, &op, &bad)) fine = (op.db < STORE_DBS && op.kind != OP_FLUSH && op.kind != OP_SWAP) || is_of_lock(&op);
    opcode_scratch_fini(&scratch);
    return fine && !bad;
}
