#include "snapshot/readstate.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/mem.h"
#include "route/router.h"
#include "snapshot/readpool.h"

enum {
    LOCKS = 16,
    LOCAL_PARALLEL_KEYS = 4096, /* from so many keys on, several threads are faster even where all is in memory */
};

/* CEL works in memory of its own, which lookups borrow. */
struct desk {
    struct desk *next;
    struct router_scratch scratch;
};

struct readstate {
    struct readstate_config config;
    struct manifest *m;
    struct router *router;
    char *ref;
    enum shardfile_way way;
    bool sidecars;
    uint32_t *places;                /* [num_dbs]: place in the manifest, NO_PLACE for empty shards */
    struct shardfile *_Atomic *files; /* [n_shards]: NULL until needed */
    pthread_mutex_t locks[LOCKS];    /* of opening: that of a shard is places % LOCKS */
    pthread_mutex_t desks_lock;
    struct desk *desks;
};

#define NO_PLACE UINT32_MAX

/* ---- making */

static enum shardfile_way choose_way(const struct readstate_config *c, const struct manifest *m)
{
    if (c->mode == READSTATE_RANGE) return SHARDFILE_RANGE;
    if (c->in_place) return SHARDFILE_IN_PLACE;
    if (c->mode == READSTATE_DOWNLOAD) return SHARDFILE_DOWNLOAD;
    for (uint32_t i = 0; i < m->n_shards; i++)
        if (m->shards[i].db_bytes >= c->auto_shard_bytes) return SHARDFILE_RANGE;
    return manifest_bytes(m) >= c->auto_total_bytes ? SHARDFILE_RANGE : SHARDFILE_DOWNLOAD;
}

int readstate_new(struct readstate **out, const struct readstate_config *config, struct manifest *m, const char *ref, struct buf *why)
{
    struct router *router = manifest_router(m, why);
    if (!router) {
        manifest_free(m);
        return ERR_SNAPSHOT_BAD_MANIFEST;
    }
    struct readstate *s = mem_zalloc(sizeof *s);
    s->config = *config;
    s->m = m;
    s->router = router;
    s->ref = mem_strdup(ref);
    s->way = choose_way(config, m);
    s->sidecars = strstr(m->custom, "\"sqlite_sidecar\"") != NULL; /* a hint: where there is none after all, one request was in vain */
    s->places = mem_alloc(m->num_dbs * sizeof *s->places);
    for (uint32_t i = 0; i < m->num_dbs; i++) s->places[i] = NO_PLACE;
    for (uint32_t i = 0; i < m->n_shards; i++) s->places[m->shards[i].db_id] = i;
    s->files = mem_zalloc((m->n_shards + 1) * sizeof *s->files);
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&s->locks[i], NULL);
    pthread_mutex_init(&s->desks_lock, NULL);
    *out = s;
    return 0;
}

void readstate_free(struct readstate *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->m->n_shards; i++) shardfile_unref(atomic_load(&s->files[i]));
    for (struct desk *d = s->desks, *next; d; d = next) {
        next = d->next;
        router_scratch_fini(&d->scratch);
        mem_free(d);
    }
    for (int i = 0; i < LOCKS; i++) pthread_mutex_destroy(&s->locks[i]);
    pthread_mutex_destroy(&s->desks_lock);
    router_free(s->router);
    manifest_free(s->m);
    mem_free(s->ref);
    mem_free(s->places);
    mem_free(s->files);
    mem_free(s);
}

const struct manifest *readstate_manifest(const struct readstate *s) { return s->m; }
const char *readstate_ref(const struct readstate *s) { return s->ref; }
enum readstate_mode readstate_mode(const struct readstate *s) { return s->way == SHARDFILE_RANGE ? READSTATE_RANGE : READSTATE_DOWNLOAD; }
struct readpool *readstate_pool(const struct readstate *s) { return s->config.env->pool; }

/* ---- shards */

static struct shardfile *file_at(const struct readstate *s, uint32_t place) { return atomic_load_explicit(&s->files[place], memory_order_acquire); }

bool readstate_is_open(const struct readstate *s, uint32_t place) { return file_at(s, place) != NULL; }

uint32_t readstate_n_open(const struct readstate *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->m->n_shards; i++) n += readstate_is_open(s, i);
    return n;
}

static int open_shard(struct readstate *s, uint32_t place, struct shardfile **f, struct buf *why)
{
    const struct manifest_shard *shard = &s->m->shards[place];
    struct buf detail = {0};
    int rc = shardfile_open(f, s->config.env, s->m, shard, s->way, s->sidecars, &detail);
    if (rc == ERR_OBJECT_NOT_FOUND) rc = ERR_SNAPSHOT_SHARD;
    if (rc < 0) buf_printf(why, "shard %u (%s): %s%s%.*s", shard->db_id, shard->db_url, err_text(rc), detail.len ? ": " : "", (int)detail.len, detail.p);
    buf_fini(&detail);
    return rc;
}

int readstate_shard(struct readstate *s, uint32_t place, struct shardfile **f, struct buf *why)
{
    *f = file_at(s, place);
    if (*f) return 0;
    int rc = 0;
    pthread_mutex_t *lock = &s->locks[place % LOCKS];
    pthread_mutex_lock(lock);
    *f = file_at(s, place);
    if (!*f) rc = open_shard(s, place, f, why);
    if (rc == 0) atomic_store_explicit(&s->files[place], *f, memory_order_release);
    pthread_mutex_unlock(lock);
    return rc;
}

struct opening {
    struct readstate *s;
    uint32_t *places;
    pthread_mutex_t lock; /* guards the two below */
    int rc;
    struct buf *why;
};

static void open_piece(void *arg, uint32_t i)
{
    struct opening *o = arg;
    struct shardfile *f;
    struct buf why = {0};
    int rc = readstate_shard(o->s, o->places[i], &f, &why);
    pthread_mutex_lock(&o->lock);
    if (rc < 0 && o->rc == 0) {
        o->rc = rc;
        buf_add_slice(o->why, buf_slice(&why));
    }
    pthread_mutex_unlock(&o->lock);
    buf_fini(&why);
}

static int open_places(struct readstate *s, uint32_t *places, uint32_t n, struct buf *why)
{
    struct opening o = {.s = s, .places = places, .why = why};
    pthread_mutex_init(&o.lock, NULL);
    readpool_run(s->config.env->pool, n, open_piece, &o);
    pthread_mutex_destroy(&o.lock);
    return o.rc;
}

int readstate_open_all(struct readstate *s, struct buf *why)
{
    uint32_t *places = mem_alloc((s->m->n_shards + 1) * sizeof *places);
    for (uint32_t i = 0; i < s->m->n_shards; i++) places[i] = i;
    int rc = open_places(s, places, s->m->n_shards, why);
    mem_free(places);
    return rc;
}

/* ---- shards that two snapshots have in common */

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_shard(const struct manifest_shard *a, const struct manifest_shard *b)
{
    bool same_content = !a->has_sha256 || !b->has_sha256 || memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0;
    return strcmp(a->db_url, b->db_url) == 0 && same_text(a->checkpoint_id, b->checkpoint_id) && a->db_bytes == b->db_bytes && same_content;
}

void readstate_adopt(struct readstate *s, const struct readstate *before)
{
    if (s->way != before->way || !same_text(s->m->s3_prefix, before->m->s3_prefix)) return;
    for (uint32_t i = 0; i < before->m->n_shards; i++) {
        struct shardfile *f = file_at(before, i);
        uint32_t id = before->m->shards[i].db_id;
        uint32_t place = id < s->m->num_dbs ? s->places[id] : NO_PLACE;
        if (!f || place == NO_PLACE || file_at(s, place) || !same_shard(&before->m->shards[i], &s->m->shards[place])) continue;
        atomic_store_explicit(&s->files[place], shardfile_ref(f), memory_order_release);
    }
}

int readstate_open_like(struct readstate *s, const struct readstate *before, struct buf *why)
{
    uint32_t n = 0, *places = mem_alloc((s->m->n_shards + 1) * sizeof *places);
    readstate_adopt(s, before);
    for (uint32_t i = 0; i < before->m->n_shards; i++) {
        uint32_t id = before->m->shards[i].db_id;
        if (readstate_is_open(before, i) && id < s->m->num_dbs && s->places[id] != NO_PLACE) places[n++] = s->places[id];
    }
    int rc = open_places(s, places, n, why);
    mem_free(places);
    return rc;
}

/* ---- routing */

static struct desk *take_desk(struct readstate *s)
{
    pthread_mutex_lock(&s->desks_lock);
    struct desk *d = s->desks;
    if (d) s->desks = d->next;
    pthread_mutex_unlock(&s->desks_lock);
    if (d) return d;
    d = mem_zalloc(sizeof *d);
    router_scratch_init(&d->scratch, s->router);
    return d;
}

static void put_desk(struct readstate *s, struct desk *d)
{
    pthread_mutex_lock(&s->desks_lock);
    d->next = s->desks;
    s->desks = d;
    pthread_mutex_unlock(&s->desks_lock);
}

static int find_value(const struct readstate_context *c, struct slice name)
{
    for (size_t i = 0; c && i < c->n; i++)
        if (slice_eq(slice_str(c->names[i]), name)) return (int)i;
    return -1;
}

/* Sets the columns of an expression that needs more than the key. */
static int set_columns(const struct readstate *s, struct router_scratch *scratch, const struct readstate_context *c, struct buf *why)
{
    for (uint32_t i = 0; i < router_columns(s->router); i++) {
        struct slice name = router_column_name(s->router, i);
        int at = find_value(c, name);
        if (at < 0) {
            buf_printf(why, "the snapshot is routed by %.*s: the lookup must bring a routing context with a value for %.*s", (int)s->m->cel.expr.n, s->m->cel.expr.p, (int)name.n, name.p);
            return ERR_SNAPSHOT_ROUTE;
        }
        if (!router_set_column(s->router, scratch, i, slice_str(c->values[at]))) {
            buf_add_slice(why, buf_slice(&scratch->why));
            return ERR_SNAPSHOT_ROUTE;
        }
    }
    return 0;
}

static int route_with(struct readstate *s, struct router_scratch *scratch, const struct snapkey *keys, size_t n, const struct readstate_context *c, uint32_t *shards, struct buf *why)
{
    if (router_needs_context(s->router)) {
        int rc = set_columns(s, scratch, c, why);
        if (rc < 0) return rc;
    }
    if (router_many(s->router, scratch, keys, n, shards) != ROUTER_ERROR) return 0;
    buf_add_slice(why, buf_slice(&scratch->why));
    return ERR_SNAPSHOT_ROUTE;
}

/* shards[i] of every key, UINT32_MAX where there is none. Hash routing needs no desk. */
static int route_many(struct readstate *s, const struct snapkey *keys, size_t n, const struct readstate_context *c, uint32_t *shards, struct buf *why)
{
    if (!router_is_cel(s->router)) {
        struct router_scratch none = {0};
        int rc = route_with(s, &none, keys, n, c, shards, why);
        buf_fini(&none.why);
        return rc;
    }
    struct desk *d = take_desk(s);
    int rc = route_with(s, &d->scratch, keys, n, c, shards, why);
    put_desk(s, d);
    return rc;
}

static int bad_key(const struct readstate *s, const char *fault, struct buf *why)
{
    buf_printf(why, "%s (the snapshot's keys are %s)", fault, snapkey_encoding_name(s->m->key_encoding));
    return ERR_SNAPSHOT_KEY;
}

/* A key that cannot be stored cannot be there either; to ask for it is a mistake all the same, and silence would hide it. */
static int stored_bytes(const struct readstate *s, const struct snapkey *key, char scratch[8], struct slice *stored, struct buf *why)
{
    const char *fault = snapkey_encode(s->m->key_encoding, key, scratch, stored);
    return fault ? bad_key(s, fault, why) : 0;
}

int readstate_route(struct readstate *s, const struct snapkey *key, const struct readstate_context *context, uint32_t *shard, struct buf *why)
{
    char scratch[8];
    struct slice stored;
    int rc = stored_bytes(s, key, scratch, &stored, why);
    return rc < 0 ? rc : route_many(s, key, 1, context, shard, why);
}

/* ---- one key */

static int read_failed(const struct readstate *s, uint32_t place, struct shardfile *f, int rc, struct buf *why)
{
    const struct manifest_shard *shard = &s->m->shards[place];
    if (rc == ERR_OBJECT_NOT_FOUND) rc = ERR_SNAPSHOT_SHARD;
    struct buf detail = {0};
    shardfile_why(f, &detail);
    buf_printf(why, "shard %u (%s): %s%s%.*s", shard->db_id, shard->db_url, err_text(rc), detail.len ? ": " : "", (int)detail.len, detail.p);
    buf_fini(&detail);
    return rc;
}

/* Makes the value the only contents of out, in which it may lie already. */
static void keep_value(struct buf *out, struct slice value)
{
    bool is_inside = value.n && value.p >= out->p && value.p < out->p + out->cap;
    out->len = 0;
    if (is_inside)
        memmove(out->p, value.p, value.n);
    else if (value.n)
        memcpy(buf_room(out, value.n), value.p, value.n);
    out->len = value.n;
}

int readstate_get(struct readstate *s, const struct snapkey *key, const struct readstate_context *context, struct buf *out, struct buf *why)
{
    char scratch[8];
    struct slice stored, value;
    struct shardfile *f;
    uint32_t id;
    out->len = 0;
    int rc = stored_bytes(s, key, scratch, &stored, why);
    if (rc == 0) rc = route_many(s, key, 1, context, &id, why);
    if (rc < 0) return rc;
    uint32_t place = id < s->m->num_dbs ? s->places[id] : NO_PLACE;
    if (place == NO_PLACE) return 0;
    rc = readstate_shard(s, place, &f, why);
    if (rc < 0) return rc;
    rc = shardfile_get(f, stored, out, &value);
    if (rc < 0) return read_failed(s, place, f, rc, why);
    if (rc == 0) return 0;
    keep_value(out, value);
    return 1;
}

/* ---- many keys */

/* The keys of one shard. */
struct group {
    uint32_t place, first, end; /* of the asks */
    struct buf values;
    struct buf why;
    int rc;
};

struct many {
    struct readstate *s;
    struct group *groups;
    uint32_t n_groups;
    struct shardread_ask *asks; /* [n]; in groups those of one shard together */
    uint32_t *order;            /* [n]: which key an ask is for */
    char (*numbers)[8];         /* [n]: stored bytes of integer keys */
    uint32_t *shards, *starts;
};

static void get_group(void *arg, uint32_t i)
{
    struct many *m = arg;
    struct group *g = &m->groups[i];
    struct shardfile *f;
    g->rc = readstate_shard(m->s, g->place, &f, &g->why);
    if (g->rc < 0) return;
    g->rc = shardfile_get_many(f, m->asks + g->first, g->end - g->first, &g->values);
    if (g->rc < 0) g->rc = read_failed(m->s, g->place, f, g->rc, &g->why);
}

/* Ask i is for key `key`. */
static int make_ask(struct many *m, size_t i, const struct snapkey *keys, uint32_t key, struct buf *why)
{
    m->order[i] = key;
    m->asks[i].rc = 0;
    return stored_bytes(m->s, &keys[key], m->numbers[i], &m->asks[i].key, why);
}

static int make_groups(struct many *m, const struct snapkey *keys, size_t n, struct buf *why)
{
    struct readstate *s = m->s;
    router_group(s->m->num_dbs, m->shards, n, m->order, m->starts);
    for (size_t i = 0; i < n; i++) {
        int rc = make_ask(m, i, keys, m->order[i], why);
        if (rc < 0) return rc;
    }
    for (uint32_t id = 0; id < s->m->num_dbs; id++) {
        if (m->starts[id] == m->starts[id + 1] || s->places[id] == NO_PLACE) continue;
        m->groups[m->n_groups++] = (struct group){.place = s->places[id], .first = m->starts[id], .end = m->starts[id + 1]};
    }
    return 0;
}

/* Whether threads pay: where something has to be waited for, or where there is much to do. */
static bool is_worth_threads(const struct many *m, size_t n)
{
    if (n >= LOCAL_PARALLEL_KEYS) return true;
    for (uint32_t i = 0; i < m->n_groups; i++) {
        struct shardfile *f = file_at(m->s, m->groups[i].place);
        if (!f || shardfile_is_remote(f)) return true;
    }
    return false;
}

static int run_groups(struct many *m, size_t n, struct buf *why)
{
    if (is_worth_threads(m, n))
        readpool_run(m->s->config.env->pool, m->n_groups, get_group, m);
    else
        for (uint32_t i = 0; i < m->n_groups; i++) get_group(m, i);
    for (uint32_t i = 0; i < m->n_groups; i++) {
        if (m->groups[i].rc >= 0) continue;
        buf_add_slice(why, buf_slice(&m->groups[i].why));
        return m->groups[i].rc;
    }
    return 0;
}

/* ---- many keys of shards that are all in memory */

static uint32_t place_of(const struct many *m, size_t key)
{
    uint32_t id = m->shards[key];
    return id < m->s->m->num_dbs ? m->s->places[id] : NO_PLACE;
}

/* Whether nothing has to be opened or waited for, nor is there so much to do that threads pay. */
static bool is_at_hand(const struct many *m, size_t n)
{
    if (n >= LOCAL_PARALLEL_KEYS) return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t place = place_of(m, i);
        struct shardfile *f = place == NO_PLACE ? NULL : file_at(m->s, place);
        if (place != NO_PLACE && (!f || shardfile_is_remote(f))) return false;
    }
    return true;
}

/* All asks hand in hand, in the order of the keys; those whose shard is empty stand behind the others, and are not asked. */
static int get_at_hand(struct many *m, const struct snapkey *keys, size_t n, struct buf *values, struct buf *why)
{
    size_t asked = 0, end = n;
    for (size_t i = 0; i < n; i++) {
        uint32_t place = place_of(m, i);
        size_t at = place == NO_PLACE ? --end : asked++;
        if (place != NO_PLACE) m->asks[at].r = shardfile_mapped(file_at(m->s, place));
        int rc = make_ask(m, at, keys, (uint32_t)i, why);
        if (rc < 0) return rc;
    }
    if (shardread_get_mapped(m->asks, asked, values) == 0) return 0;
    size_t bad = 0;
    while (m->asks[bad].rc >= 0) bad++;
    uint32_t place = place_of(m, m->order[bad]);
    return read_failed(m->s, place, file_at(m->s, place), m->asks[bad].rc, why);
}

static int get_in_groups(struct many *m, const struct snapkey *keys, size_t n, struct buf *why)
{
    int rc = make_groups(m, keys, n, why);
    return rc < 0 ? rc : run_groups(m, n, why);
}

static int64_t collect(const struct many *m, size_t n, struct readstate_answer *answers, struct buf *out)
{
    int64_t found = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += m->asks[i].rc == 1 ? m->asks[i].value.n : 0;
    buf_room(out, bytes + 1);
    for (size_t i = 0; i < n; i++) {
        const struct shardread_ask *a = &m->asks[i];
        struct readstate_answer *answer = &answers[m->order[i]];
        *answer = (struct readstate_answer){.at = out->len, .found = a->rc == 1};
        if (a->rc != 1) continue;
        answer->n = a->value.n;
        buf_add_slice(out, a->value);
        found++;
    }
    return found;
}

int64_t readstate_get_many(struct readstate *s, const struct snapkey *keys, size_t n, const struct readstate_context *context, struct readstate_answer *answers, struct buf *out,
                           struct buf *why)
{
    out->len = 0;
    if (n > UINT32_MAX / 2) return -E2BIG;
    size_t groups_max = n < s->m->num_dbs ? n : s->m->num_dbs;
    struct many m = {.s = s};
    struct buf values = {0};
    m.groups = mem_alloc((groups_max + 1) * sizeof *m.groups);
    m.asks = mem_alloc((n + 1) * sizeof *m.asks);
    m.order = mem_alloc((n + 1) * sizeof *m.order);
    m.numbers = mem_alloc((n + 1) * sizeof *m.numbers);
    m.shards = mem_alloc((n + 1) * sizeof *m.shards);
    m.starts = mem_alloc((s->m->num_dbs + 2) * sizeof *m.starts);
    int64_t rc = route_many(s, keys, n, context, m.shards, why);
    if (rc == 0) rc = is_at_hand(&m, n) ? get_at_hand(&m, keys, n, &values, why) : get_in_groups(&m, keys, n, why);
    if (rc == 0) rc = collect(&m, n, answers, out);
    for (uint32_t i = 0; i < m.n_groups; i++) {
        buf_fini(&m.groups[i].values);
        buf_fini(&m.groups[i].why);
    }
    buf_fini(&values);
    mem_free(m.groups);
    mem_free(m.asks);
    mem_free(m.order);
    mem_free(m.numbers);
    mem_free(m.shards);
    mem_free(m.starts);
    return rc;
}
