#include "store/fits.h"

#include <math.h>

#include "store/chill.h"
#include "store/image.h"
#include "store/list.h"

static bool is_of_type(const struct entry *e, enum type t) { return e && entry_type(e) == t; }
static bool may_become(const struct entry *e, enum type t) { return !e || entry_type(e) == t; }

/* A string whose bytes from `from` on are to become n others. */
static bool may_write(const struct entry *e, uint64_t from, size_t n) { return may_become(e, TYPE_STRING) && n <= UINT32_MAX && from <= UINT32_MAX - n; }

static bool are_scores(const struct op *op)
{
    for (uint32_t i = 0; i < op->n_items; i++)
        if (isnan(op->scores[i])) return false;
    return true;
}

/* [index, index + count) lies in the list. */
static bool in_list(const struct entry *e, int64_t index, int64_t count)
{
    if (!is_of_type(e, TYPE_LIST) || index < 0 || count < 0) return false;
    uint64_t len = list_len(e);
    return (uint64_t)index <= len && (uint64_t)count <= len - (uint64_t)index;
}

static bool fits_entry(const struct op *op, const struct entry *e)
{
    switch (op->kind) {
    case OP_SET:
    case OP_SET_VALUE: return op->value.n <= UINT32_MAX;
    case OP_APPEND: return may_write(e, may_become(e, TYPE_STRING) && e ? entry_value_len(e) : 0, op->value.n);
    case OP_WRITE_RANGE: return op->index >= 0 && may_write(e, (uint64_t)op->index, op->value.n);
    case OP_DEL: return true;
    case OP_EXPIRE: return e;
    case OP_PUSH_HEAD:
    case OP_PUSH_TAIL: return op->n_items > 0 && may_become(e, TYPE_LIST);
    case OP_POP_HEAD:
    case OP_POP_TAIL: return in_list(e, 0, op->count);
    case OP_LIST_SET: return in_list(e, op->index, 1);
    case OP_LIST_INSERT: return in_list(e, op->index, 0);
    case OP_LIST_REMOVE: return in_list(e, op->index, op->count);
    case OP_HASH_SET: return op->n_items > 0 && op->n_items % 2 == 0 && may_become(e, TYPE_HASH);
    case OP_HASH_DEL: return may_become(e, TYPE_HASH);
    case OP_SET_ADD: return op->n_items > 0 && may_become(e, TYPE_SET);
    case OP_SET_REM: return may_become(e, TYPE_SET);
    case OP_ZSET_ADD: return op->n_items > 0 && may_become(e, TYPE_ZSET) && are_scores(op);
    case OP_ZSET_REM: return may_become(e, TYPE_ZSET);
    case OP_RESTORE: return image_valid(op->value);
    default: return false;
    }
}

bool fits_op(struct store *s, const struct op *op, uint64_t hash, struct place *at)
{
    if (op->db >= STORE_ALL_DBS) return false;
    if (op->kind == OP_FLUSH) return true;
    if (op->kind == OP_SWAP) return op->db < STORE_DBS && op->index >= 0 && op->index < STORE_DBS;
    *at = (struct place){.store = s, .db = s->dbs[op->db], .db_id = op->db, .hash = hash, .key = op->key};
    struct table_slot *slot = at->db ? table_find(&at->db->keys, hash, op->key) : NULL;
    if (slot) at->e = table_entry(slot);
    if (at->e && store_needs_value(op->kind)) chill_need(at);
    return op->key.n <= UINT32_MAX && fits_entry(op, at->e);
}
