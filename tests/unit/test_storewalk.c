/* A store against a naive twin under random ops; and the ops that it told of make the same store again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/keyhash.h"
#include "base/rng.h"
#include "store/hash.h"
#include "store/image.h"
#include "store/list.h"
#include "store/set.h"
#include "store/store.h"
#include "store/zset.h"

/* Small limits, so that every collection passes from its small encoding to the large one. */
static const struct store_limits limits = {
    .hash_entries = 8, .hash_value = 20, .set_ints = 6, .set_entries = 8, .set_value = 20, .zset_entries = 8, .zset_value = 20,
    .list_size = 5,
};

enum { DBS = 3, KEYS = 20, ITEMS_MAX = 40, SEED = 77, NO_TYPE = TYPE_COUNT };

/* --- the naive twin --- */

struct item {
    struct buf text, value;
    double score;
};

struct twin_value {
    unsigned type;
    int64_t expiry_ms;
    struct buf string;
    struct item items[ITEMS_MAX];
    size_t n;
};

struct recorded {
    struct op op;
    struct slice items[ITEMS_MAX];
    double scores[ITEMS_MAX];
    struct buf bytes[ITEMS_MAX + 2];
};

struct world {
    struct store *store;
    struct twin_value twin[DBS][KEYS];
    struct rng rng;
    struct recorded *log;
    size_t n_log, log_cap;
    unsigned long applied[OP_KINDS];
    uint64_t expired;
};

static struct slice key_of(size_t k)
{
    static char text[KEYS][300];
    memset(text[k], 'k', sizeof text[k]);
    snprintf(text[k], 8, "%06zu", k);
    return slice_of(text[k], k % 7 == 3 ? 300 : 7 + k);
}

static void set_bytes(struct buf *b, struct slice s)
{
    b->len = 0;
    buf_add_slice(b, s);
}

static void item_fini(struct item *i)
{
    buf_fini(&i->text);
    buf_fini(&i->value);
    memset(i, 0, sizeof *i);
}

static void remove_items(struct twin_value *v, size_t at, size_t count)
{
    for (size_t i = at; i < at + count; i++) item_fini(&v->items[i]);
    memmove(&v->items[at], &v->items[at + count], (v->n - at - count) * sizeof v->items[0]);
    memset(&v->items[v->n - count], 0, count * sizeof v->items[0]);
    v->n -= count;
}

static void clear(struct twin_value *v)
{
    remove_items(v, 0, v->n);
    buf_fini(&v->string);
    v->type = NO_TYPE;
    v->expiry_ms = 0;
}

static struct item *open_item(struct twin_value *v, size_t at, struct slice text)
{
    memmove(&v->items[at + 1], &v->items[at], (v->n - at) * sizeof v->items[0]);
    memset(&v->items[at], 0, sizeof v->items[0]);
    v->n++;
    buf_add_slice(&v->items[at].text, text);
    return &v->items[at];
}

static size_t find_item(const struct twin_value *v, struct slice text)
{
    size_t i = 0;
    while (i < v->n && !slice_eq(buf_slice(&v->items[i].text), text)) i++;
    return i;
}

static void expect_same_value(const struct twin_value *v, const struct entry *e)
{
    struct slice s;
    struct list_iter it;
    double score;
    assert_int_equal(entry_type(e), v->type);
    assert_int_equal(entry_expiry_ms(e), v->expiry_ms);
    if (v->type == TYPE_STRING) assert_true(slice_eq(entry_value(e), buf_slice(&v->string)));
    if (v->type == TYPE_LIST) list_iter_init(&it, e, 0, false);
    for (size_t i = 0; i < v->n; i++) {
        struct slice text = buf_slice(&v->items[i].text);
        switch (v->type) {
        case TYPE_LIST: assert_true(list_iter_next(&it, &s) && slice_eq(s, text)); break;
        case TYPE_SET: assert_true(set_has(e, text)); break;
        case TYPE_HASH: assert_true(hash_get(e, text, &s) && slice_eq(s, buf_slice(&v->items[i].value))); break;
        case TYPE_ZSET: assert_true(zset_score(e, text, &score) && score == v->items[i].score); break;
        }
    }
    if (v->type == TYPE_LIST) assert_int_equal(list_len(e), v->n);
    if (v->type == TYPE_SET) assert_int_equal(set_len(e), v->n);
    if (v->type == TYPE_HASH) assert_int_equal(hash_len(e), v->n);
    if (v->type == TYPE_ZSET) assert_int_equal(zset_len(e), v->n);
}

static void expect_twin(struct world *w)
{
    for (unsigned db = 0; db < DBS; db++)
        for (size_t k = 0; k < KEYS; k++) {
            struct twin_value *v = &w->twin[db][k];
            if (v->expiry_ms && v->expiry_ms < w->store->now_ms) clear(v);
            struct place at;
            store_peek(w->store, (uint16_t)db, keyhash(key_of(k), SEED), key_of(k), &at);
            assert_int_equal(at.e == NULL, v->type == NO_TYPE);
            if (at.e) expect_same_value(v, at.e);
        }
    store_check(w->store);
}

/* --- ops onto the twin: the plainest code that does what op.h says --- */

static int64_t twin_put(struct twin_value *v, enum type t, const struct op *op)
{
    int64_t added = 0;
    v->type = t;
    for (uint32_t i = 0; i < op->n_items; i += t == TYPE_HASH ? 2 : 1) {
        size_t at = find_item(v, op->items[i]);
        if (at == v->n) {
            open_item(v, at, op->items[i]);
            added++;
        }
        if (t == TYPE_HASH) set_bytes(&v->items[at].value, op->items[i + 1]);
        if (t == TYPE_ZSET) v->items[at].score = op->scores[i];
    }
    return added;
}

static int64_t twin_take(struct twin_value *v, const struct op *op)
{
    int64_t removed = 0;
    for (uint32_t i = 0; i < op->n_items; i++) {
        size_t at = find_item(v, op->items[i]);
        if (at == v->n) continue;
        remove_items(v, at, 1);
        removed++;
    }
    return removed;
}

static void twin_write(struct twin_value *v, size_t at, struct slice bytes)
{
    v->type = TYPE_STRING;
    size_t end = at + bytes.n;
    if (end > v->string.len) {
        size_t more = end - v->string.len;
        memset(buf_room(&v->string, more), 0, more);
        v->string.len = end;
    }
    if (bytes.n) memcpy(v->string.p + at, bytes.p, bytes.n);
}

static int64_t twin_apply(struct world *w, struct twin_value *v, const struct op *op)
{
    int64_t kept = v->expiry_ms, result = 0;
    size_t index = (size_t)op->index, count = (size_t)op->count;
    switch (op->kind) {
    case OP_SET: clear(v); twin_write(v, 0, op->value); v->expiry_ms = op->expiry_ms; break;
    case OP_SET_VALUE: clear(v); twin_write(v, 0, op->value); v->expiry_ms = kept; break;
    case OP_APPEND: twin_write(v, v->string.len, op->value); break;
    case OP_WRITE_RANGE: twin_write(v, index, op->value); break;
    case OP_DEL: clear(v); break;
    case OP_EXPIRE: v->expiry_ms = op->expiry_ms; break;
    case OP_PUSH_HEAD:
    case OP_PUSH_TAIL:
        v->type = TYPE_LIST;
        for (uint32_t i = 0; i < op->n_items; i++) open_item(v, op->kind == OP_PUSH_HEAD ? 0 : v->n, op->items[i]);
        break;
    case OP_POP_HEAD: remove_items(v, 0, count); break;
    case OP_POP_TAIL: remove_items(v, v->n - count, count); break;
    case OP_LIST_SET: set_bytes(&v->items[index].text, op->value); break;
    case OP_LIST_INSERT: open_item(v, index, op->value); break;
    case OP_LIST_REMOVE: remove_items(v, index, count); break;
    case OP_HASH_SET: result = twin_put(v, TYPE_HASH, op); break;
    case OP_SET_ADD: result = twin_put(v, TYPE_SET, op); break;
    case OP_ZSET_ADD: result = twin_put(v, TYPE_ZSET, op); break;
    case OP_HASH_DEL:
    case OP_SET_REM:
    case OP_ZSET_REM: result = twin_take(v, op); break;
    default: fail();
    }
    if (v->type != NO_TYPE && v->type != TYPE_STRING && v->n == 0) clear(v);
    return result;
}

/* --- recording and replaying --- */

static struct slice keep(struct buf *b, struct slice s)
{
    memset(b, 0, sizeof *b);
    buf_add_slice(b, s);
    return buf_slice(b);
}

static void record(void *ctx, const struct op *op)
{
    struct world *w = ctx;
    if (w->n_log == w->log_cap) {
        w->log_cap = w->log_cap ? w->log_cap * 2 : 64;
        w->log = realloc(w->log, w->log_cap * sizeof *w->log);
    }
    struct recorded *r = &w->log[w->n_log++];
    memset(r, 0, sizeof *r);
    r->op = *op;
    r->op.key = keep(&r->bytes[0], op->key);
    r->op.value = keep(&r->bytes[1], op->value);
    for (uint32_t i = 0; i < op->n_items; i++) r->items[i] = keep(&r->bytes[i + 2], op->items[i]);
    if (op->scores) memcpy(r->scores, op->scores, op->n_items * sizeof r->scores[0]);
}

/* Another key seed, so the tables look different; the digest does not. */
static void expect_replay_equal(struct world *w)
{
    struct store *copy = store_new(SEED + 1, &limits, 9);
    for (size_t i = 0; i < w->n_log; i++) {
        struct recorded *r = &w->log[i];
        struct op op = r->op;
        op.items = r->items;
        op.scores = r->scores;
        store_apply(copy, &op, NULL);
    }
    store_check(copy);
    assert_true(store_digest(copy) == store_digest(w->store));
    store_apply(copy, &(struct op){.kind = OP_SET, .key = SLICE("one more"), .value = SLICE("v")}, NULL);
    assert_true(store_digest(copy) != store_digest(w->store));
    store_free(copy);
}

/* --- the random walk --- */

static struct slice random_text(struct world *w, char text[600])
{
    switch (rng_below(&w->rng, 8)) {
    case 0: return slice_of(text, (size_t)snprintf(text, 600, "%0*d", (int)rng_below(&w->rng, 60) + 1, (int)rng_below(&w->rng, 9)));
    case 1:
    case 2: return slice_of(text, (size_t)snprintf(text, 600, "m%d", (int)rng_below(&w->rng, 30)));
    default: return slice_of(text, (size_t)snprintf(text, 600, "%d", (int)rng_below(&w->rng, 40) - 5));
    }
}

static struct slice random_string(struct world *w, char *bytes)
{
    static const size_t tops[] = {10, 40, 300, 600, 12000};
    size_t n = rng_below(&w->rng, tops[rng_below(&w->rng, 5)]);
    memset(bytes, 'a' + (int)rng_below(&w->rng, 26), n);
    return slice_of(bytes, n);
}

static int64_t random_expiry(struct world *w)
{
    return rng_below(&w->rng, 2) ? w->store->now_ms + (int64_t)rng_below(&w->rng, 2000) : 0;
}

/* A kind that the key's type allows, OP_KINDS if the pick does not fit. */
static enum op_kind random_kind(struct world *w, const struct twin_value *v)
{
    enum op_kind k = (enum op_kind)rng_below(&w->rng, OP_RESTORE);
    static const unsigned char needs[OP_KINDS] = {
        [OP_SET] = NO_TYPE, [OP_SET_VALUE] = NO_TYPE, [OP_DEL] = NO_TYPE, [OP_EXPIRE] = NO_TYPE,
        [OP_APPEND] = TYPE_STRING, [OP_WRITE_RANGE] = TYPE_STRING,
        [OP_PUSH_HEAD] = TYPE_LIST, [OP_PUSH_TAIL] = TYPE_LIST, [OP_POP_HEAD] = TYPE_LIST, [OP_POP_TAIL] = TYPE_LIST,
        [OP_LIST_SET] = TYPE_LIST, [OP_LIST_INSERT] = TYPE_LIST, [OP_LIST_REMOVE] = TYPE_LIST,
        [OP_HASH_SET] = TYPE_HASH, [OP_HASH_DEL] = TYPE_HASH, [OP_SET_ADD] = TYPE_SET, [OP_SET_REM] = TYPE_SET,
        [OP_ZSET_ADD] = TYPE_ZSET, [OP_ZSET_REM] = TYPE_ZSET,
    };
    bool must_exist = k == OP_EXPIRE || (k >= OP_POP_HEAD && k <= OP_LIST_REMOVE);
    if (v->type == NO_TYPE) return must_exist ? OP_KINDS : k;
    if ((k == OP_SET || k == OP_DEL) && v->type != TYPE_STRING && rng_below(&w->rng, 4)) return OP_KINDS;
    if (k == OP_SET_VALUE && v->type != TYPE_STRING) return OP_KINDS;
    return needs[k] == NO_TYPE || needs[k] == v->type ? k : OP_KINDS;
}

static void random_items(struct world *w, struct op *op, struct slice *items, double *scores, char (*texts)[600])
{
    op->n_items = 2 * (1 + (uint32_t)rng_below(&w->rng, 3));
    for (uint32_t i = 0; i < op->n_items; i++) {
        items[i] = random_text(w, texts[i]);
        scores[i] = (double)rng_below(&w->rng, 50) / 4;
    }
    op->items = items;
    op->scores = scores;
}

static void step(struct world *w)
{
    static char bytes[12000], texts[8][600];
    struct slice items[8];
    double scores[8];
    uint16_t db = (uint16_t)rng_below(&w->rng, DBS);
    size_t k = rng_below(&w->rng, KEYS);
    struct twin_value *v = &w->twin[db][k];
    struct place at;
    w->store->now_ms += (int64_t)rng_below(&w->rng, 4);
    if (v->expiry_ms && v->expiry_ms < w->store->now_ms) clear(v);
    store_find(w->store, db, keyhash(key_of(k), SEED), key_of(k), &at);
    struct op op = {.kind = random_kind(w, v), .db = db, .key = key_of(k)};
    if (op.kind == OP_KINDS || v->n + 8 > ITEMS_MAX) {
        if (v->n + 8 <= ITEMS_MAX) return;
        op.kind = OP_DEL;
    }
    op.value = op.kind >= OP_PUSH_HEAD ? random_text(w, texts[7]) : random_string(w, bytes);
    if (op.kind == OP_SET || op.kind == OP_EXPIRE) op.expiry_ms = random_expiry(w);
    if (op.kind == OP_WRITE_RANGE) op.index = (int64_t)rng_below(&w->rng, 5000);
    if (op.kind >= OP_LIST_SET && op.kind <= OP_LIST_REMOVE) op.index = (int64_t)rng_below(&w->rng, v->n);
    if (op.kind >= OP_POP_HEAD && op.kind <= OP_LIST_REMOVE) op.count = (int64_t)rng_below(&w->rng, v->n - (size_t)op.index) + 1;
    random_items(w, &op, items, scores, texts);
    int64_t expected = twin_apply(w, v, &op);
    assert_int_equal(store_apply(w->store, &op, rng_below(&w->rng, 2) ? &at : NULL), expected);
    w->applied[op.kind]++;
}

/* A value goes to another key by its image. */
static void restore_elsewhere(struct world *w)
{
    uint16_t db = (uint16_t)rng_below(&w->rng, DBS);
    size_t from = rng_below(&w->rng, KEYS), to = rng_below(&w->rng, KEYS);
    struct place at;
    store_peek(w->store, db, keyhash(key_of(from), SEED), key_of(from), &at);
    if (!at.e || from == to) return;
    struct buf image = {0};
    image_write(&image, at.e);
    struct op op = {.kind = OP_RESTORE, .db = db, .key = key_of(to), .value = buf_slice(&image), .expiry_ms = random_expiry(w)};
    store_apply(w->store, &op, NULL);
    buf_fini(&image);
    struct twin_value *a = &w->twin[db][from], *b = &w->twin[db][to];
    clear(b);
    b->type = a->type;
    b->expiry_ms = op.expiry_ms;
    buf_add_slice(&b->string, buf_slice(&a->string));
    for (size_t i = 0; i < a->n; i++) {
        struct item *item = open_item(b, i, buf_slice(&a->items[i].text));
        buf_add_slice(&item->value, buf_slice(&a->items[i].value));
        item->score = a->items[i].score;
    }
    w->applied[OP_RESTORE]++;
}

static void change_databases(struct world *w)
{
    uint16_t a = (uint16_t)rng_below(&w->rng, DBS), b = (uint16_t)rng_below(&w->rng, DBS);
    if (rng_below(&w->rng, 2)) {
        store_apply(w->store, &(struct op){.kind = OP_FLUSH, .db = a}, NULL);
        for (size_t k = 0; k < KEYS; k++) clear(&w->twin[a][k]);
        w->applied[OP_FLUSH]++;
        return;
    }
    store_apply(w->store, &(struct op){.kind = OP_SWAP, .db = a, .index = b}, NULL);
    for (size_t k = 0; k < KEYS; k++) {
        struct twin_value t = w->twin[a][k];
        w->twin[a][k] = w->twin[b][k];
        w->twin[b][k] = t;
    }
    w->applied[OP_SWAP]++;
}

static void count_expiry(void *ctx, uint16_t db, struct slice key) { ++*(uint64_t *)ctx; }

static void every_op_does_what_the_twin_does_and_the_recorded_ops_rebuild_the_store(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->store = store_new(SEED, &limits, 5);
    w->store->now_ms = 1700000000000;
    w->store->on_op = record;
    w->store->on_op_ctx = w;
    w->store->on_expire = count_expiry;
    w->store->on_expire_ctx = &w->expired;
    rng_init(&w->rng, 2024);
    for (unsigned db = 0; db < DBS; db++)
        for (size_t k = 0; k < KEYS; k++) w->twin[db][k].type = NO_TYPE;
    for (int i = 0; i < 30000; i++) {
        step(w);
        if (i % 40 == 0) restore_elsewhere(w);
        if (i % 900 == 0) change_databases(w);
        if (i % 250 == 0) expect_twin(w);
    }
    expect_twin(w);
    expect_replay_equal(w);
    for (unsigned k = 0; k < OP_KINDS; k++)
        if (w->applied[k] == 0) fail_msg("op kind %u was never applied", k);
    assert_true(w->expired > 100);
    assert_int_equal(w->expired, w->store->stats.expired);
    assert_int_equal(w->n_log, w->store->stats.changes);
    for (size_t i = 0; i < w->n_log; i++)
        for (size_t j = 0; j < ITEMS_MAX + 2; j++) buf_fini(&w->log[i].bytes[j]);
    for (unsigned db = 0; db < DBS; db++)
        for (size_t k = 0; k < KEYS; k++) clear(&w->twin[db][k]);
    store_free(w->store);
    free(w->log);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_does_what_the_twin_does_and_the_recorded_ops_rebuild_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
