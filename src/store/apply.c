/* store_apply: the only function that changes a store.
 *
 * An op runs in three parts: find the key's entry, let the handler of its kind change it, tell those who want to know. Whatever a handler
 * does to an entry, it leaves the two tables pointing to it: `keys` always, `expiring` exactly if it has an expiry. The index of its key space, if that is
 * ordered, hears of it when the handler is done. An entry that goes is unlinked by the handler and released at the very end, because the op's key may be its own. While a cut walks the store (store/cut.h), what
 * it has not passed yet is given to it before the handler runs. */
#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "store/arena.h"
#include "store/body.h"
#include "store/chill.h"
#include "store/cut.h"
#include "store/evict.h"
#include "store/hash.h"
#include "store/image.h"
#include "store/interest.h"
#include "store/kit.h"
#include "store/list.h"
#include "store/set.h"
#include "store/spaceindex.h"
#include "store/store.h"
#include "store/zset.h"

struct change {
    struct store *store;
    struct db *db; /* NULL only for an op that does not create, in a database never used */
    const struct op *op;
    struct kit kit;
    uint64_t hash;
    struct entry *e;      /* the key's entry now; NULL: none */
    struct entry *doomed; /* was the key's entry; unlinked, to be released */
    bool nothing;         /* nothing changed */
};

/* --- keeping the tables in step --- */

static bool expires(const struct entry *e) { return e->flags & ENTRY_EXPIRES; }

static void repoint(struct table *t, uint64_t hash, const struct entry *old, struct entry *now)
{
    struct table_slot *slot = table_find_entry(t, hash, old);
    CHECK(slot);
    table_repoint(slot, now);
}

static void forget(struct table *t, uint64_t hash, const struct entry *e)
{
    struct table_slot *slot = table_find_entry(t, hash, e);
    CHECK(slot);
    table_remove(t, hash, slot);
}

/* `old` (perhaps released already: only its address counts) was the key's entry, `now` is it from now on. */
static void relink(struct change *c, const struct entry *old, bool old_expires, struct entry *now)
{
    c->e = now;
    if (old != now) repoint(&c->db->keys, c->hash, old, now);
    if (old_expires && !expires(now)) forget(&c->db->expiring, c->hash, old);
    else if (old_expires && old != now) repoint(&c->db->expiring, c->hash, old, now);
    else if (!old_expires && expires(now)) table_insert(&c->db->expiring, c->hash, now);
}

static void link_new(struct change *c, struct entry *e)
{
    c->e = e;
    table_insert(&c->db->keys, c->hash, e);
    if (expires(e)) table_insert(&c->db->expiring, c->hash, e);
}

static void unlink_entry(struct change *c)
{
    forget(&c->db->keys, c->hash, c->e);
    if (expires(c->e)) forget(&c->db->expiring, c->hash, c->e);
    c->doomed = c->e;
    c->e = NULL;
}

static uint32_t fresh_access(const struct change *c) { return evict_access_new(c->store->limits, c->store->now_ms); }

/* A new entry takes the key's place, whatever stood there. */
static void replace(struct change *c, struct entry *now)
{
    struct entry *old = c->e;
    entry_set_access(now, fresh_access(c));
    if (!old) {
        link_new(c, now);
        return;
    }
    if (__atomic_load_n(&c->store->limits->lfu, __ATOMIC_RELAXED)) entry_set_access(now, entry_access(old));
    relink(c, old, expires(old), now);
    c->doomed = old;
}

/* --- strings --- */

static bool is_plain(const struct entry *e) { return e->kind == (TYPE_STRING << 4 | ENC_BYTES); }

static struct entry *new_string(const struct change *c, int64_t expiry_ms)
{
    struct slice value = c->op->value;
    struct entry *e = entry_new(c->kit.arena, TYPE_STRING, ENC_BYTES, c->op->key, value.n, expiry_ms);
    if (value.n) memcpy(entry_value_ptr(e), value.p, value.n);
    return e;
}

/* Key, expiry and block stay; only the value's bytes change. */
static void overwrite(struct change *c)
{
    entry_resize_value(c->kit.arena, c->e, c->op->value.n);
    if (c->op->value.n) memmove(entry_value_ptr(c->e), c->op->value.p, c->op->value.n);
}

static int64_t apply_set(struct change *c)
{
    struct entry *e = c->e;
    if (likely(e && is_plain(e) && expires(e) == (c->op->expiry_ms != 0) && entry_fits_value(e, c->op->value.n))) {
        overwrite(c);
        if (expires(e)) entry_set_expiry(c->kit.arena, e, c->op->expiry_ms);
        return 0;
    }
    replace(c, new_string(c, c->op->expiry_ms));
    return 0;
}

static int64_t apply_set_value(struct change *c)
{
    struct entry *e = c->e;
    if (e && is_plain(e) && entry_fits_value(e, c->op->value.n)) overwrite(c);
    else replace(c, new_string(c, e ? entry_expiry_ms(e) : 0));
    return 0;
}

/* The string's bytes from `at` on become the op's value; what lies between its old end and `at` becomes zero. */
static void write_at(struct change *c, size_t at)
{
    struct slice value = c->op->value;
    if (!c->e) {
        struct entry *e = entry_new(c->kit.arena, TYPE_STRING, ENC_BYTES, c->op->key, 0, 0);
        entry_set_access(e, fresh_access(c));
        link_new(c, e);
    }
    CHECK(is_plain(c->e));
    size_t len = entry_value_len(c->e);
    if (at + value.n > len) {
        bool was_expiring = expires(c->e);
        const struct entry *old = c->e;
        relink(c, old, was_expiring, entry_resize_value(c->kit.arena, c->e, at + value.n));
        if (at > len) memset(entry_value_ptr(c->e) + len, 0, at - len);
    }
    if (value.n) memcpy(entry_value_ptr(c->e) + at, value.p, value.n);
}

static int64_t apply_append(struct change *c)
{
    write_at(c, c->e ? entry_value_len(c->e) : 0);
    return 0;
}

static int64_t apply_write_range(struct change *c)
{
    CHECK(c->op->index >= 0);
    write_at(c, (size_t)c->op->index);
    return 0;
}

/* --- keys --- */

static int64_t apply_del(struct change *c)
{
    c->nothing = !c->e;
    if (c->e) unlink_entry(c);
    return 0;
}

static int64_t apply_expire(struct change *c)
{
    CHECK(c->e);
    const struct entry *old = c->e;
    bool was_expiring = expires(old);
    relink(c, old, was_expiring, entry_set_expiry(c->kit.arena, c->e, c->op->expiry_ms));
    return 0;
}

static int64_t apply_restore(struct change *c)
{
    struct entry *e = image_read(&c->kit, c->op->value, c->op->key, c->op->expiry_ms);
    CHECK(e);
    replace(c, e);
    return 0;
}

/* --- collections --- */

typedef uint64_t length_of(const struct entry *e);

/* The collection moved or became empty. */
static void settle(struct change *c, const struct entry *old, bool old_expires, struct entry *now, length_of *len)
{
    relink(c, old, old_expires, now);
    if (len(now) == 0) unlink_entry(c);
}

/* The key's entry, which is of that type; `fresh` if there is none. */
static struct entry *entry_or(struct change *c, enum type t, struct entry *fresh)
{
    if (fresh) {
        entry_set_access(fresh, fresh_access(c));
        link_new(c, fresh);
    }
    CHECK(c->e && entry_type(c->e) == t);
    return c->e;
}

static int64_t push(struct change *c, bool head)
{
    struct entry *e = entry_or(c, TYPE_LIST, c->e ? NULL : list_new(&c->kit, c->op->key));
    bool was_expiring = expires(e);
    relink(c, e, was_expiring, list_push(&c->kit, e, head, c->op->items, c->op->n_items));
    return 0;
}

static int64_t apply_push_head(struct change *c) { return push(c, true); }
static int64_t apply_push_tail(struct change *c) { return push(c, false); }

static int64_t pop(struct change *c, bool head)
{
    CHECK(c->e && entry_type(c->e) == TYPE_LIST && c->op->count >= 0);
    struct entry *e = c->e;
    bool was_expiring = expires(e);
    settle(c, e, was_expiring, list_pop(&c->kit, e, head, (uint64_t)c->op->count), list_len);
    return 0;
}

static int64_t apply_pop_head(struct change *c) { return pop(c, true); }
static int64_t apply_pop_tail(struct change *c) { return pop(c, false); }

/* One element of a list, or some, by index. */
static int64_t edit_list(struct change *c)
{
    const struct op *op = c->op;
    CHECK(c->e && entry_type(c->e) == TYPE_LIST && op->index >= 0 && op->count >= 0);
    struct entry *e = c->e, *now;
    uint64_t index = (uint64_t)op->index;
    bool was_expiring = expires(e);
    if (op->kind == OP_LIST_SET) now = list_set(&c->kit, e, index, op->value);
    else if (op->kind == OP_LIST_INSERT) now = list_insert(&c->kit, e, index, op->value);
    else now = list_remove(&c->kit, e, index, (uint64_t)op->count);
    settle(c, e, was_expiring, now, list_len);
    return 0;
}

static int64_t apply_hash_set(struct change *c)
{
    CHECK(c->op->n_items % 2 == 0);
    struct entry *e = entry_or(c, TYPE_HASH, c->e ? NULL : hash_new(&c->kit, c->op->key)), *now = e;
    bool was_expiring = expires(e), added;
    int64_t n = 0;
    for (uint32_t i = 0; i < c->op->n_items; i += 2) {
        now = hash_put(&c->kit, now, c->op->items[i], c->op->items[i + 1], &added);
        n += added;
    }
    relink(c, e, was_expiring, now);
    return n;
}

static int64_t apply_set_add(struct change *c)
{
    CHECK(c->op->n_items > 0);
    struct entry *e = entry_or(c, TYPE_SET, c->e ? NULL : set_new(&c->kit, c->op->key, c->op->items[0])), *now = e;
    bool was_expiring = expires(e), added;
    int64_t n = 0;
    for (uint32_t i = 0; i < c->op->n_items; i++) {
        now = set_add(&c->kit, now, c->op->items[i], &added);
        n += added;
    }
    relink(c, e, was_expiring, now);
    return n;
}

static int64_t apply_zset_add(struct change *c)
{
    struct entry *e = entry_or(c, TYPE_ZSET, c->e ? NULL : zset_new(&c->kit, c->op->key)), *now = e;
    bool was_expiring = expires(e), added;
    int64_t n = 0;
    for (uint32_t i = 0; i < c->op->n_items; i++) {
        now = zset_put(&c->kit, now, c->op->items[i], c->op->scores[i], &added);
        n += added;
    }
    relink(c, e, was_expiring, now);
    return n;
}

/* Takes the op's items out of a collection with the function of its type. */
static int64_t take_out(struct change *c, enum type t, length_of *len,
                        struct entry *(*take)(const struct kit *, struct entry *, struct slice, bool *))
{
    c->nothing = true;
    if (!c->e) return 0;
    CHECK(entry_type(c->e) == t);
    struct entry *e = c->e, *now = e;
    bool was_expiring = expires(e), removed;
    int64_t n = 0;
    for (uint32_t i = 0; i < c->op->n_items; i++) {
        now = take(&c->kit, now, c->op->items[i], &removed);
        n += removed;
    }
    settle(c, e, was_expiring, now, len);
    c->nothing = n == 0;
    return n;
}

static int64_t apply_hash_del(struct change *c) { return take_out(c, TYPE_HASH, hash_len, hash_del); }
static int64_t apply_set_rem(struct change *c) { return take_out(c, TYPE_SET, set_len, set_rem); }
static int64_t apply_zset_rem(struct change *c) { return take_out(c, TYPE_ZSET, zset_len, zset_rem); }

/* --- whole databases --- */

/* The db stays where it is: threads without the token prefetch through it. */
static void db_fill(struct store *s, struct db *db)
{
    db->arena = arena_new();
    arena_set_pager(db->arena, s->pager);
    table_init(&db->keys, db->arena, s->seed, rng_u64(&s->rng), 0);
    table_init(&db->expiring, db->arena, s->seed, rng_u64(&s->rng), 0);
    db->expire_cursor = 0;
    db->cold = db->chill_cursor = db->chill_misses = db->compact_cursor = 0;
    db->compacting = false;
    spaceindex_init(s, db);
}

/* A database that is about to be replaced by another, or (after < 0) by nothing. */
struct replacement {
    struct store *store;
    struct db *before;
    int after;
};

/* A key that is neither before nor after does not change. One that is past its time counts before, because it was in time when it was watched
 * (WATCH deletes it otherwise); after, it is deleted on the way like wherever it is looked for, so that its going is no change either. */
static bool changes_key(void *ctx, struct slice key, uint64_t hash)
{
    const struct replacement *r = ctx;
    struct place after = {0};
    if (r->after >= 0) store_peek(r->store, (uint16_t)r->after, hash, key, &after);
    return after.e || (r->before && table_find(&r->before->keys, hash, key));
}

static void touch_replaced(struct store *s, uint16_t id, int after)
{
    struct replacement r = {s, s->dbs[id], after};
    interest_touch_if(s->interests, id, changes_key, &r);
}

static void flush_db(struct store *s, uint16_t id)
{
    struct db *db = s->dbs[id];
    if (!db) return;
    touch_replaced(s, id, -1);
    struct db old = *db;
    bool taken = db->walk != NULL;
    if (taken) cut_take_db(db);
    s->cold -= db->cold;
    db_fill(s, db);
    if (!taken) chill_bury(s, &old);
}

static void swap_dbs(struct store *s, uint16_t a, uint16_t b)
{
    struct db *db = s->dbs[a];
    touch_replaced(s, a, b);
    touch_replaced(s, b, a);
    __atomic_store_n(&s->dbs[a], s->dbs[b], __ATOMIC_RELEASE);
    __atomic_store_n(&s->dbs[b], db, __ATOMIC_RELEASE);
    s->swaps++;
}

/* --- the op --- */

static const struct {
    int64_t (*run)(struct change *c); /* NULL: the op is about a whole database */
    bool creates;
    bool blind; /* what the value was does not matter */
} kinds[OP_KINDS] = {
    [OP_SET] = {apply_set, true, true},
    [OP_SET_VALUE] = {apply_set_value, true, true},
    [OP_APPEND] = {apply_append, true, false},
    [OP_WRITE_RANGE] = {apply_write_range, true, false},
    [OP_DEL] = {apply_del, false, true},
    [OP_EXPIRE] = {apply_expire, false, true},
    [OP_PUSH_HEAD] = {apply_push_head, true, false},
    [OP_PUSH_TAIL] = {apply_push_tail, true, false},
    [OP_POP_HEAD] = {apply_pop_head, false, false},
    [OP_POP_TAIL] = {apply_pop_tail, false, false},
    [OP_LIST_SET] = {edit_list, false, false},
    [OP_LIST_INSERT] = {edit_list, false, false},
    [OP_LIST_REMOVE] = {edit_list, false, false},
    [OP_HASH_SET] = {apply_hash_set, true, false},
    [OP_HASH_DEL] = {apply_hash_del, false, false},
    [OP_SET_ADD] = {apply_set_add, true, false},
    [OP_SET_REM] = {apply_set_rem, false, false},
    [OP_ZSET_ADD] = {apply_zset_add, true, false},
    [OP_ZSET_REM] = {apply_zset_rem, false, false},
    [OP_RESTORE] = {apply_restore, true, true},
};

static struct db *new_db(struct store *s, uint16_t id)
{
    struct db *db = mem_zalloc(sizeof *db);
    db_fill(s, db);
    __atomic_store_n(&s->dbs[id], db, __ATOMIC_RELEASE);
    return db;
}

void store_expect(struct store *s, uint16_t id, uint64_t keys)
{
    struct db *db = s->dbs[id] ? s->dbs[id] : new_db(s, id);
    CHECK(db->keys.entries == 0);
    table_fini(&db->keys);
    table_init(&db->keys, db->arena, s->seed, rng_u64(&s->rng), keys);
}

/* Where keys are not deleted by their expiry, one that is past it is hidden from store_find, not gone: then a missing entry is no proof. */
static bool is_trusted(const struct store *s, const struct place *at) { return at && (at->e || (!s->lazy_expire_paused && likely(!s->keeps))); }

static void find_entry(struct change *c, const struct place *at)
{
    if (is_trusted(c->store, at)) {
        c->e = at->e;
    } else if (c->db) {
        struct table_slot *slot = table_find(&c->db->keys, c->hash, c->op->key);
        c->e = slot ? table_entry(slot) : NULL;
    }
}

static void tell(struct store *s, const struct op *op)
{
    store_count(&s->stats.changes);
    if (s->on_op) s->on_op(s->on_op_ctx, op);
}

static int64_t apply_to_database(struct store *s, const struct op *op)
{
    CHECK(op->kind == OP_FLUSH || (op->kind == OP_SWAP && op->db < STORE_DBS && op->index >= 0 && op->index < STORE_DBS));
    if (op->kind == OP_FLUSH) flush_db(s, op->db);
    else swap_dbs(s, op->db, (uint16_t)op->index);
    tell(s, op);
    return 0;
}

bool store_needs_value(enum op_kind kind) { return kinds[kind].run && !kinds[kind].blind; }

static void warm_up(struct change *c)
{
    struct place at = {c->store, c->db, c->op->db, c->hash, c->op->key, c->e};
    chill_need(&at);
    c->e = at.e;
}

int64_t store_apply(struct store *s, const struct op *op, struct place *at)
{
    CHECK(op->kind < OP_KINDS && op->db < STORE_ALL_DBS);
    if (unlikely(!kinds[op->kind].run)) return apply_to_database(s, op);
    struct db *db = s->dbs[op->db];
    if (unlikely(!db) && kinds[op->kind].creates) db = new_db(s, op->db);
    struct change c = {.store = s, .db = db, .op = op, .hash = at ? at->hash : keyhash(op->key, s->seed)};
    c.kit = (struct kit){.arena = db ? db->arena : NULL, .seed = s->seed, .rng = &s->rng, .limits = s->limits};
    find_entry(&c, at);
    if (unlikely(c.e && chill_is_cold(c.e)) && store_needs_value(op->kind)) warm_up(&c);
    bool ahead = db && unlikely(db->walk != NULL) && cut_is_ahead(db, c.hash);
    if (ahead && c.e) cut_save(db, c.e);
    struct spaceindex_was was = spaceindex_before(c.e);
    int64_t result = kinds[op->kind].run(&c);
    if (unlikely(was.e)) spaceindex_changed(s, db, op->key, was, c.e);
    else if (unlikely(s->is_ordered || s->in_line || op->db == STORE_SYSTEM_DB) && c.e) spaceindex_offer(s, db, c.e);
    if (ahead && c.e) cut_mark(c.e);
    if (at) {
        at->db = db;
        at->e = c.e;
    }
    if (c.nothing) return result;
    if (unlikely(!interests_empty(s->interests))) interest_touch(s->interests, op->db, op->key, c.hash);
    tell(s, op);
    if (c.doomed) {
        if (unlikely(chill_is_cold(c.doomed))) chill_forget(s, db, c.doomed);
        body_drop(&c.kit, c.doomed);
        entry_release(db->arena, c.doomed);
    }
    return result;
}
