#include "server/relayout.h"

#include <errno.h>

#include "base/clock.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "dump/dumpset.h"
#include "io/file.h"
#include "log/logdir.h"
#include "route/place.h"
#include "route/spacerecord.h"
#include "server/loader.h"
#include "shard/locks.h"
#include "shard/topology.h"
#include "store/chill.h"
#include "store/image.h"
#include "store/store.h"

enum {
    RAW_BYTES = 1 << 20,   /* collected before they are sealed and written */
    RELIEVE_ENTRIES = 256, /* between two calls of relieve */
};

struct move {
    const struct relayout *r;
    struct route route;
    struct store *const *from, *const *to;
    uint32_t n_from;
    struct dumpset *set;
};

struct lane { /* the entries of one new shard */
    struct move *m;
    uint32_t shard;
    struct store *to;
    struct buf raw, image;
    uint64_t entries; /* in raw */
    unsigned since_relief; /* entries */
    int rc;
};

static void write_out(struct lane *l, size_t at_least)
{
    if (l->raw.len < at_least || l->rc) return;
    l->rc = l->m->r->stop && atomic_load_explicit(l->m->r->stop, memory_order_relaxed) ? -ECANCELED : dumpset_write(l->m->set, l->shard, buf_slice(&l->raw), l->entries);
    l->raw.len = l->entries = 0;
}

/* A cold value is read where it lies; its entry stays as it is, for other lanes look at it too. */
static void move_cold(struct lane *l, const struct store *from, uint16_t db, const struct entry *e)
{
    l->image.len = 0;
    l->rc = from->tier->get(from->tier->ctx, chill_ref_of(e), entry_key(e), &l->image);
    if (l->rc) return;
    struct slice image = chill_image(buf_slice(&l->image));
    struct op op = {.kind = OP_RESTORE, .db = db, .key = entry_key(e), .value = image, .expiry_ms = entry_expiry_ms(e)};
    store_apply(l->to, &op, NULL);
    dumpfile_add_image(&l->raw, db, op.key, op.expiry_ms, image);
}

static void put_warm(struct store *to, uint16_t db, const struct entry *e, struct buf *image)
{
    struct op op = {.kind = OP_SET, .db = db, .key = entry_key(e), .value = entry_value(e), .expiry_ms = entry_expiry_ms(e)};
    if (entry_type(e) != TYPE_STRING) {
        image->len = 0;
        image_write(image, e);
        op.kind = OP_RESTORE;
        op.value = buf_slice(image);
    }
    store_apply(to, &op, NULL);
}

static void move_warm(struct lane *l, uint16_t db, const struct entry *e)
{
    put_warm(l->to, db, e, &l->image);
    dumpfile_add_entry(&l->raw, db, e);
}

static void move_entry(struct lane *l, const struct store *from, uint16_t db, const struct entry *e)
{
    const struct relayout *r = l->m->r;
    if (chill_is_cold(e)) move_cold(l, from, db, e);
    else move_warm(l, db, e);
    if (r->relieve && ++l->since_relief == RELIEVE_ENTRIES) {
        l->since_relief = 0;
        r->relieve(r->relieve_ctx, l->to);
    }
    l->entries++;
    write_out(l, RAW_BYTES);
}

static uint32_t new_shard(const struct move *m, const struct entry *e) { return route_key(&m->route, entry_key(e), keyhash(entry_key(e), m->route.seed)); }

static void move_db(struct lane *l, uint32_t from, uint16_t db)
{
    const struct store *s = l->m->from[from];
    struct table_iter it;
    if (!s->dbs[db]) return;
    table_iter_init(&it, &s->dbs[db]->keys);
    for (struct entry *e; l->rc == 0 && (e = table_iter_next(&it));)
        if (new_shard(l->m, e) == l->shard) move_entry(l, s, db, e);
}

/* Its records are there already. */
static void write_records(struct lane *l)
{
    const struct db *db = l->to->dbs[STORE_SYSTEM_DB];
    struct table_iter it;
    if (!db) return;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; l->rc == 0 && (e = table_iter_next(&it));) {
        dumpfile_add_entry(&l->raw, STORE_SYSTEM_DB, e);
        l->entries++;
        write_out(l, RAW_BYTES);
    }
}

static uint64_t keys_of(const struct move *m, uint16_t db)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_from; i++) n += store_keys(m->from[i], db);
    return n;
}

/* Every lane looks at every entry and takes its own: no two of them share anything. */
static int fill(void *ctx, uint32_t shard)
{
    struct move *m = ctx;
    struct lane l = {.m = m, .shard = shard, .to = m->to[shard]};
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        uint64_t keys = keys_of(m, db);
        if (keys) store_expect(l.to, db, keys / m->r->shards);
        for (uint32_t i = 0; i < m->n_from && l.rc == 0 && keys; i++) move_db(&l, i, db);
    }
    write_records(&l);
    write_out(&l, 1);
    buf_fini(&l.raw);
    buf_fini(&l.image);
    return l.rc;
}

static int make_folders(const struct relayout *r)
{
    char path[LOGDIR_PATH_MAX];
    int rc = 0;
    for (uint32_t i = 0; i < r->shards && rc == 0; i++) {
        rc = logdir_shard(path, r->dir, i);
        if (rc == 0) rc = r->files->mkdir(r->files->ctx, path);
        if (rc == -EEXIST) rc = 0;
    }
    return rc ? rc : r->files->sync_dir(r->files->ctx, r->dir);
}

static int write_set(struct move *m, struct dumper_past *written)
{
    int64_t now_ms = clock_unix_ms();
    const struct relayout *r = m->r;
    int rc = dumpset_new(&m->set, r->files, r->dir, r->shards);
    if (rc == 0) {
        dumpset_begin(m->set, &(struct dumpset_header){.epoch = RELAYOUT_EPOCH, .seed = r->seed, .cut_ms = now_ms}, r->profile, r->min_size);
        rc = loader_parallel(r->shards, r->threads, fill, m);
    }
    if (rc == 0) rc = dumpset_finish(m->set);
    *written = dumper_past_of(dumpset_totals(m->set), RELAYOUT_EPOCH, now_ms);
    dumpset_free(m->set);
    return rc;
}

/* ---- system records: few, and placed by what they say. They are put into the new stores before the lanes begin. */

struct settling {
    struct move *m;
    bool *in;       /* [shards]: scratch */
    uint64_t fence; /* the highest counter of lock tokens: goes on in every shard, since what is locked may come from any */
    struct buf image;
};

static void put_record(void *ctx, const struct spacerecord *r, bool remove)
{
    const struct move *m = ctx;
    CHECK(!remove);
    store_apply(m->to[r->shard], &(struct op){.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = r->key, .value = r->value}, NULL);
}

static void put_if_new(struct settling *s, uint32_t shard, const struct entry *e)
{
    struct place at;
    struct store *to = s->m->to[shard];
    store_peek(to, STORE_SYSTEM_DB, keyhash(entry_key(e), to->seed), entry_key(e), &at);
    if (!at.e) put_warm(to, STORE_SYSTEM_DB, e, &s->image);
}

/* A lock goes wherever a part of it lies now. The map's own records are made anew. Whatever else there is stays with its shard, as far as there still is one of that number. */
static void settle_record(struct settling *s, uint32_t from, const struct entry *e)
{
    const struct route *route = &s->m->route;
    struct slice key = entry_key(e), name;
    struct spacelock lock;
    uint64_t token;
    if (spacerecord_kind(key) != SPACERECORD_NONE) return;
    if (slice_eq(key, spacelock_counter) && entry_value(e).n == 8) {
        uint64_t n = le_u64(entry_value(e).p);
        if (n > s->fence) s->fence = n;
    } else if (spacelock_key_parse(key, &name, &token) && spacelock_parse(&lock, key, entry_value(e))) {
        locks_shards(route_map(route), route, name, lock.start, lock.end, s->in);
        for (uint32_t i = 0; i < route->shards; i++)
            if (s->in[i]) put_if_new(s, i, e);
    } else {
        put_if_new(s, from % route->shards, e);
    }
}

static void settle_fence(struct settling *s)
{
    struct buf value = {0};
    le_add_u64(&value, s->fence);
    for (uint32_t i = 0; s->fence && i < s->m->route.shards; i++) put_record(s->m, &(struct spacerecord){i, spacelock_counter, buf_slice(&value)}, false);
    buf_fini(&value);
}

static void settle_records(struct move *m)
{
    struct settling s = {.m = m, .in = mem_alloc(m->route.shards * sizeof *s.in)};
    const struct space_map *map = route_map(&m->route);
    if (map) spacerecord_diff(NULL, map, put_record, m);
    for (uint32_t i = 0; i < m->n_from; i++) {
        struct table_iter it;
        if (!m->from[i]->dbs[STORE_SYSTEM_DB]) continue;
        table_iter_init(&it, &m->from[i]->dbs[STORE_SYSTEM_DB]->keys);
        for (struct entry *e; (e = table_iter_next(&it));) settle_record(&s, i, e);
    }
    settle_fence(&s);
    mem_free(s.in);
    buf_fini(&s.image);
}

/* The map of the old layout, with its ranges in the new shards. False: its records do not fit together. */
static bool find_map(struct move *m, struct buf *error)
{
    const struct route old = {.seed = m->route.seed, .shards = m->n_from};
    struct space_map *map = topology_read(&old, m->from, error);
    if (!map) return error->len == 0;
    atomic_store(&m->route.map, spaces_reshard(map, m->route.shards));
    spaces_unref(map);
    return true;
}

int relayout_write(const struct relayout *r, struct store *const *from, uint32_t n_from, struct store *const *to, struct dumper_past *written, struct buf *error)
{
    struct move m = {.r = r, .route = {.seed = r->seed, .shards = r->shards}, .from = from, .to = to, .n_from = n_from};
    if (!find_map(&m, error)) return -EINVAL;
    settle_records(&m);
    int rc = make_folders(r);
    if (rc == 0) rc = write_set(&m, written);
    spaces_unref((struct space_map *)route_map(&m.route));
    if (rc) buf_printf(error, "%s: the new layout cannot be written: %s", r->dir, strerror(-rc));
    return rc;
}
