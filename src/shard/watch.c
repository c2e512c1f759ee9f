#include "shard/watch.h"

#include "base/mem.h"

struct watch_flag {
    atomic_bool dirty;
    atomic_uint refs; /* the set and each watched key */
};

struct watched {
    struct mail mail;
    struct interest interest;
    struct watch_flag *flag;
    struct watched *next;
    uint64_t hash;
    uint32_t shard;
    uint16_t db;
    uint32_t len;
    char key[];
};

static void flag_unref(struct watch_flag *f)
{
    if (atomic_fetch_sub(&f->refs, 1) == 1) mem_free(f);
}

void watch_add(struct exec *x, struct watch_set *set, struct slice key)
{
    for (struct watched *o = set->first; o; o = o->next)
        if (o->db == x->db && slice_eq(slice_of(o->key, o->len), key)) return;
    if (!set->flag) {
        set->flag = mem_zalloc(sizeof *set->flag);
        atomic_init(&set->flag->refs, 1);
    }
    struct watched *k = mem_zalloc(sizeof *k + key.n);
    k->flag = set->flag;
    atomic_fetch_add(&k->flag->refs, 1);
    k->hash = exec_hash(x, key);
    k->shard = route_key(x->route, key, k->hash);
    k->db = x->db;
    k->len = (uint32_t)key.n;
    if (key.n) memcpy(k->key, key.p, key.n);
    k->interest.dirty = &k->flag->dirty;
    k->next = set->first;
    set->first = k;
    set->n++;
    struct place at;
    exec_peek(x, key, &at); /* a key that is past its time goes now, so that its going does not count as a change */
    interest_add(exec_store(x, key, k->hash)->interests, &k->interest, k->db, slice_of(k->key, k->len), k->hash);
}

bool watch_dirty(struct exec *x, struct watch_set *set)
{
    if (!set->flag) return false;
    for (struct watched *k = set->first; k && !atomic_load(&set->flag->dirty); k = k->next) { /* dirty: a key may have moved to a shard that is not held */
        struct place at;
        struct slice key = slice_of(k->key, k->len);
        store_peek(exec_store(x, key, k->hash), k->db, k->hash, key, &at);
    }
    return atomic_load(&set->flag->dirty);
}

static bool forget(struct worker *w, struct shard *s, struct mail *m)
{
    struct watched *k = (struct watched *)m;
    interest_remove(s->store->interests, &k->interest);
    flag_unref(k->flag);
    mem_free(k);
    return true;
}

void watch_drop(struct worker *w, struct watch_set *set)
{
    for (struct watched *k = set->first; k;) {
        struct watched *next = k->next;
        k->mail.to_shard = forget;
        engine_post(w, &w->engine->shards[k->shard], &k->mail);
        k = next;
    }
    if (set->flag) flag_unref(set->flag);
    *set = (struct watch_set){0};
}

void watch_shards(const struct watch_set *set, void (*visit)(void *ctx, uint32_t shard), void *ctx)
{
    for (const struct watched *k = set->first; k; k = k->next) visit(ctx, k->shard);
}
