#include "store/chill.h"

#include <errno.h>

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "store/arena.h"
#include "store/body.h"
#include "store/image.h"
#include "store/kit.h"
#include "store/spaceindex.h"

struct chill_grave {
    struct chill_grave *next;
    struct db db;
    struct table_iter at;
};

struct chill_ref chill_ref_of(const struct entry *e)
{
    struct chill_ref ref;
    CHECK(chill_is_cold(e) && entry_value_len(e) == sizeof ref);
    memcpy(&ref, entry_value(e).p, sizeof ref);
    return ref;
}

static size_t cold_bytes(const struct entry *e) { return entry_header_bytes[e->flags & 3] + entry_key_len(e) + sizeof(struct chill_ref); }

bool chill_is_worth(const struct store *s, const struct entry *e)
{
    if (chill_is_cold(e)) return false;
    size_t bytes = store_entry_bytes(s, e);
    return bytes >= cold_bytes(e) + CHILL_MIN_BYTES && bytes <= CHILL_MAX_BYTES;
}

/* ---- one entry takes another's place: same key, same expiry */

static void repoint(struct table *t, uint64_t hash, const struct entry *old, struct entry *now)
{
    struct table_slot *slot = table_find_entry(t, hash, old);
    CHECK(slot);
    table_repoint(slot, now);
}

static void take_place(struct store *s, struct db *db, uint64_t hash, const struct entry *old, struct entry *now)
{
    CHECK((old->flags & ENTRY_EXPIRES) == (now->flags & ENTRY_EXPIRES));
    memcpy(now->access, old->access, sizeof now->access);
    now->flags |= old->flags & ENTRY_AFTER_CUT; /* a cut that comes by must judge it as it would have judged the old one */
    repoint(&db->keys, hash, old, now);
    if (old->flags & ENTRY_EXPIRES) repoint(&db->expiring, hash, old, now);
    struct spaceindex_was was = spaceindex_before(old);
    if (was.e) spaceindex_changed(s, db, entry_key(now), was, now);
}

static struct kit kit_of(struct store *s, struct arena *a) { return (struct kit){a, s->seed, &s->rng, s->limits, 0}; }

/* ---- what goes to the tier: the order of the inner table (8 bytes, 0 if there is none), and the image */

static void write_out(struct buf *out, const struct entry *e)
{
    uint64_t order = body_order(e);
    buf_add(out, &order, sizeof order);
    image_write(out, e);
}

struct slice chill_image(struct slice bytes)
{
    size_t head = bytes.n < sizeof(uint64_t) ? bytes.n : sizeof(uint64_t);
    return slice_of(bytes.p + head, bytes.n - head);
}

static struct entry *read_in(struct kit *k, struct slice bytes, const struct entry *cold)
{
    if (bytes.n < sizeof k->order) return NULL;
    memcpy(&k->order, bytes.p, sizeof k->order);
    if (k->order && !(k->order & 1)) return NULL;
    struct entry *e = image_read(k, chill_image(bytes), entry_key(cold), entry_expiry_ms(cold));
    if (!e || entry_type(e) == entry_type(cold)) return e;
    body_drop(k, e);
    entry_release(k->arena, e);
    return NULL;
}

static struct entry *make_cold(struct store *s, struct db *db, uint64_t hash, struct entry *e, struct chill_ref ref)
{
    struct entry *cold = entry_new(db->arena, entry_type(e), ENC_COLD, entry_key(e), sizeof ref, entry_expiry_ms(e));
    memcpy(entry_value_ptr(cold), &ref, sizeof ref);
    take_place(s, db, hash, e, cold);
    struct kit k = kit_of(s, db->arena);
    body_drop(&k, e);
    entry_release(db->arena, e);
    db->cold++;
    s->cold++;
    return cold;
}

static void count_out(struct store *s, struct db *db)
{
    CHECK(db->cold > 0 && s->cold > 0);
    db->cold--;
    s->cold--;
}

bool chill_out(struct store *s, uint16_t db, struct entry *e)
{
    CHECK(s->tier && !chill_is_cold(e));
    struct buf bytes = {0};
    struct chill_ref ref;
    write_out(&bytes, e);
    bool taken = s->tier->put(s->tier->ctx, entry_key(e), buf_slice(&bytes), &ref);
    if (taken) make_cold(s, s->dbs[db], keyhash(entry_key(e), s->seed), e, ref);
    buf_fini(&bytes);
    return taken;
}

void chill_back(struct place *at, struct chill_ref ref)
{
    CHECK(at->e && !chill_is_cold(at->e));
    at->e = make_cold(at->store, at->db, at->hash, at->e, ref);
}

bool chill_warm(struct place *at, struct slice bytes, bool lent)
{
    struct store *s = at->store;
    struct entry *cold = at->e;
    struct chill_ref ref = chill_ref_of(cold);
    struct kit k = kit_of(s, at->db->arena);
    struct entry *warm = read_in(&k, bytes, cold);
    if (!warm) return false;
    take_place(s, at->db, at->hash, cold, warm);
    count_out(s, at->db);
    if (!lent) s->tier->drop(s->tier->ctx, ref);
    entry_release(at->db->arena, cold);
    at->e = warm;
    return true;
}

int chill_fetch(struct place *at)
{
    if (!at->e || !chill_is_cold(at->e)) return 0;
    const struct chill_tier *tier = at->store->tier;
    struct buf bytes = {0};
    int rc = tier->get(tier->ctx, chill_ref_of(at->e), entry_key(at->e), &bytes);
    if (rc == 0 && !chill_warm(at, buf_slice(&bytes), false)) rc = -EBADMSG;
    buf_fini(&bytes);
    return rc;
}

void chill_need(struct place *at)
{
    int rc = chill_fetch(at);
    CHECK(rc == 0 && "a cold value can be read back");
}

struct entry *chill_copy(struct store *s, const struct entry *e, struct arena *a)
{
    struct buf bytes = {0};
    struct kit k = kit_of(s, a);
    struct entry *copy = NULL;
    if (s->tier->get(s->tier->ctx, chill_ref_of(e), entry_key(e), &bytes) == 0) copy = read_in(&k, buf_slice(&bytes), e);
    buf_fini(&bytes);
    return copy;
}

/* The database is not asked for: SWAPDB may have changed its number since the value was written. */
bool chill_move(struct store *s, struct slice key, struct chill_ref from, struct chill_ref to)
{
    uint64_t hash = keyhash(key, s->seed);
    for (unsigned i = 0; i < STORE_DBS; i++) {
        struct db *db = s->dbs[i];
        if (!db || !db->cold) continue;
        struct table_slot *slot = table_find(&db->keys, hash, key);
        struct entry *e = slot ? table_entry(slot) : NULL;
        if (!e || !chill_is_cold(e) || !chill_same(chill_ref_of(e), from)) continue;
        memcpy(entry_value_ptr(e), &to, sizeof to);
        return true;
    }
    return false;
}

/* ---- going */

void chill_forget(struct store *s, struct db *db, const struct entry *e)
{
    count_out(s, db);
    s->tier->drop(s->tier->ctx, chill_ref_of(e));
}

void chill_bury(struct store *s, const struct db *db)
{
    if (!db->cold) {
        arena_free(db->arena);
        return;
    }
    struct chill_grave *g = mem_zalloc(sizeof *g);
    g->db = *db;
    table_iter_init(&g->at, &g->db.keys);
    g->next = s->graves;
    s->graves = g;
}

static void free_grave(struct store *s)
{
    struct chill_grave *g = s->graves;
    s->graves = g->next;
    arena_free(g->db.arena);
    mem_free(g);
}

bool chill_bury_step(struct store *s, unsigned entries)
{
    struct chill_grave *g = s->graves;
    if (!g) return false;
    for (unsigned n = 0; n < entries && g->db.cold; n++) {
        const struct entry *e = table_iter_next(&g->at);
        if (!e) break;
        if (!chill_is_cold(e)) continue;
        s->tier->drop(s->tier->ctx, chill_ref_of(e));
        g->db.cold--;
    }
    if (g->db.cold == 0) free_grave(s);
    return s->graves != NULL;
}

void chill_drop_all(struct store *s)
{
    for (unsigned i = 0; i < STORE_DBS; i++) {
        if (!s->dbs[i] || !s->dbs[i]->cold) continue;
        struct table_iter it;
        table_iter_init(&it, &s->dbs[i]->keys);
        for (const struct entry *e; (e = table_iter_next(&it));)
            if (chill_is_cold(e)) s->tier->drop(s->tier->ctx, chill_ref_of(e));
    }
    while (chill_bury_step(s, UINT32_MAX)) {
    }
}

void chill_free_graves(struct store *s)
{
    while (s->graves) free_grave(s);
}
