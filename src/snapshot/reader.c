/* How reads and switches stay out of each other's way
 *
 * Threads are spread over stripes, each with a lock on a cache line of its own. A read takes the lock of its stripe twice, for a few instructions: to take the state and count itself in, and to
 * count itself out. A switch takes all the locks, puts the new state in place and adds the counts up; from then on the old state is `retired`, and those who leave it count down that sum. The
 * last one frees it. */
#include "snapshot/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "snapshot/cache.h"
#include "snapshot/manifest.h"
#include "snapshot/pagecache.h"
#include "snapshot/readpool.h"
#include "snapshot/snappath.h"
#include "snapshot/storebook.h"

enum { STRIPES = 16 };

struct stripe {
    pthread_mutex_t lock;
    uint64_t gets, keys, hits;
    char apart[64];
};

/* A state and who reads it. */
struct holding {
    struct readstate *state;
    uint64_t held[STRIPES];  /* each guarded by its stripe */
    bool retired;            /* guarded by all stripes */
    _Atomic int64_t leaving; /* after it is retired: how many have not left yet */
};

struct reader {
    struct object_store *store;
    struct reader_options options;
    struct shardfile_env env;
    struct readstate_config config;
    struct stripe stripes[STRIPES];
    struct holding *now; /* read under any stripe, changed under all */

    pthread_mutex_t refresh_lock; /* one switch at a time; guards pinned */
    bool pinned;

    pthread_mutex_t report_lock;
    struct reader_report report; /* what concerns switches and failures */
    _Atomic bool shard_failed;   /* so that good reads look at the report only if there is something to mend */
};

void reader_defaults(struct reader_options *o)
{
    *o = (struct reader_options){.cache_bytes = 16ull << 30,
                                 .page_cache_bytes = 64 << 20,
                                 .auto_shard_bytes = 16 << 20,
                                 .auto_total_bytes = 2ull << 30,
                                 .parallel = 8,
                                 .fallback_attempts = 3};
}

/* ---- holding a state */

/* Threads' handles are addresses far apart: their hash spreads them well enough. */
static uint32_t own_stripe(void)
{
    return (uint32_t)(((uint64_t)pthread_self() * 0x9e3779b97f4a7c15ull) >> 60);
}

static struct holding *enter(struct reader *r, uint32_t stripe)
{
    struct stripe *s = &r->stripes[stripe];
    pthread_mutex_lock(&s->lock);
    struct holding *h = r->now;
    h->held[stripe]++;
    pthread_mutex_unlock(&s->lock);
    return h;
}

static void free_holding(struct holding *h)
{
    readstate_free(h->state);
    mem_free(h);
}

/* Counts the reads too, since the lock is held anyway. */
static void leave(struct reader *r, struct holding *h, uint32_t stripe, uint64_t gets, uint64_t keys, uint64_t hits)
{
    struct stripe *s = &r->stripes[stripe];
    pthread_mutex_lock(&s->lock);
    s->gets += gets;
    s->keys += keys;
    s->hits += hits;
    bool retired = h->retired;
    if (!retired) h->held[stripe]--;
    pthread_mutex_unlock(&s->lock);
    if (retired && atomic_fetch_sub(&h->leaving, 1) == 1) free_holding(h);
}

static void swap_state(struct reader *r, struct readstate *state)
{
    struct holding *new = mem_zalloc(sizeof *new);
    new->state = state;
    for (int i = 0; i < STRIPES; i++) pthread_mutex_lock(&r->stripes[i].lock);
    struct holding *old = r->now;
    r->now = new;
    int64_t inside = 0;
    for (int i = 0; old && i < STRIPES; i++) inside += (int64_t)old->held[i];
    if (old) {
        old->retired = true;
        atomic_store(&old->leaving, inside);
    }
    for (int i = STRIPES; i-- > 0;) pthread_mutex_unlock(&r->stripes[i].lock);
    if (old && inside == 0) free_holding(old);
}

/* ---- failures that health tells of */

static void copy_text(char to[400], const struct buf *from)
{
    size_t n = from->len < 399 ? from->len : 399;
    if (n) memcpy(to, from->p, n);
    to[n] = 0;
}

static bool is_of_shard(int rc)
{
    return rc != ERR_SNAPSHOT_KEY && rc != ERR_SNAPSHOT_ROUTE && rc != -E2BIG;
}

static void note_read(struct reader *r, int rc, const struct buf *why)
{
    if (rc >= 0 && !atomic_load_explicit(&r->shard_failed, memory_order_relaxed)) return;
    if (rc < 0 && !is_of_shard(rc)) return;
    pthread_mutex_lock(&r->report_lock);
    r->report.shard_code = rc < 0 ? rc : 0;
    if (rc < 0) copy_text(r->report.shard_text, why);
    atomic_store(&r->shard_failed, rc < 0);
    pthread_mutex_unlock(&r->report_lock);
}

static void note_refresh(struct reader *r, int rc, int code, const struct buf *why)
{
    pthread_mutex_lock(&r->report_lock);
    struct reader_report *p = &r->report;
    p->refreshes++;
    p->switches += rc == READER_SWITCHED;
    p->kept += rc == READER_KEPT;
    p->refresh_code = rc < 0 || rc == READER_KEPT ? code : 0;
    copy_text(p->refresh_text, why);
    if (rc == READER_SWITCHED) {
        p->shard_code = 0;
        atomic_store(&r->shard_failed, false);
    }
    pthread_mutex_unlock(&r->report_lock);
}

static void note_checked(struct reader *r)
{
    pthread_mutex_lock(&r->report_lock);
    r->report.checked_ms = clock_unix_ms();
    pthread_mutex_unlock(&r->report_lock);
}

static void note_source(struct reader *r, bool fell_back)
{
    pthread_mutex_lock(&r->report_lock);
    r->report.fell_back = fell_back;
    r->report.pinned = r->pinned;
    pthread_mutex_unlock(&r->report_lock);
}

/* ---- loading */

/* The snapshot of a manifest; its shards are not opened yet. */
static int load_ref(struct reader *r, const char *ref, struct readstate **state, struct buf *why)
{
    struct manifest *m;
    int rc = history_manifest(r->store, NULL, ref, &m, why);
    return rc < 0 ? rc : readstate_new(state, &r->config, m, ref, why);
}

/* Whether another manifest may do better: the fault is in this one, not in the network. */
static bool is_fault_of_manifest(int rc)
{
    return rc == ERR_SNAPSHOT_BAD_MANIFEST || rc == ERR_OBJECT_NOT_FOUND || rc == ERR_SNAPSHOT_NO_REF || rc == ERR_SNAPSHOT_ELSEWHERE || rc == ERR_OBJECT_TOO_LARGE;
}

/* Manifests newer than the one that failed may never have been published: only older ones are tried. */
static bool is_older(const struct history_entry *e, const char *failed)
{
    int64_t failed_us;
    struct slice run_id;
    const char *key = strstr(failed, SNAPPATH_MANIFESTS);
    if (!key || !snappath_parse_manifest(slice_str(key), &failed_us, &run_id)) return strcmp(e->ref, failed) != 0;
    return e->published_us < failed_us;
}

static int fall_back(struct reader *r, const char *failed, struct readstate **state, struct buf *why)
{
    struct history h = {0};
    struct buf ignored = {0};
    int rc = history_load(r->store, NULL, 0, &h, &ignored);
    int found = ERR_SNAPSHOT_NO_VALID;
    uint32_t left = r->options.fallback_attempts;
    for (size_t i = 0; rc >= 0 && i < h.n && left > 0 && found == ERR_SNAPSHOT_NO_VALID; i++) {
        if (!is_older(&h.entries[i], failed)) continue;
        left--;
        ignored.len = 0;
        int one = load_ref(r, h.entries[i].ref, state, &ignored);
        if (!is_fault_of_manifest(one)) found = one;
    }
    if (rc < 0) found = rc;
    if (found < 0 && found != ERR_SNAPSHOT_NO_VALID) buf_add_slice(why, buf_slice(&ignored));
    history_fini(&h);
    buf_fini(&ignored);
    return found;
}

static int load_pin(struct reader *r, const struct history_pick *pin, struct readstate **state, struct buf *why)
{
    struct buf ref = {0};
    int rc = history_resolve(r->store, NULL, pin, &ref, why);
    if (rc >= 0) {
        buf_add_byte(&ref, 0);
        rc = load_ref(r, ref.p, state, why);
    }
    buf_fini(&ref);
    return rc;
}

/* What _CURRENT says, or an older one. */
static int load_current(struct reader *r, struct readstate **state, bool *fell_back, struct buf *why)
{
    struct pointer p = {0};
    *fell_back = false;
    int rc = history_pointer(r->store, NULL, &p, NULL, why);
    if (rc == 0) {
        note_checked(r);
        rc = load_ref(r, p.manifest_ref, state, why);
    }
    if (rc < 0 && p.manifest_ref && is_fault_of_manifest(rc) && r->options.fallback_attempts > 0) {
        rc = fall_back(r, p.manifest_ref, state, why);
        *fell_back = rc == 0;
    }
    pointer_fini(&p);
    return rc;
}

/* ---- opening and closing */

static bool is_local(const struct object_store *store) { return strncmp(object_url(store), "file://", 7) == 0; }

static int set_up(struct reader *r, struct buf *why)
{
    const struct reader_options *o = &r->options;
    for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&r->stripes[i].lock, NULL);
    pthread_mutex_init(&r->refresh_lock, NULL);
    pthread_mutex_init(&r->report_lock, NULL);
    r->env.stores = storebook_new(r->store, o->objects);
    r->env.pages = pagecache_new(o->page_cache_bytes);
    r->env.pool = readpool_new(o->parallel);
    r->config = (struct readstate_config){
        .env = &r->env, .mode = o->mode, .in_place = is_local(r->store) && !o->cache_dir, .auto_shard_bytes = o->auto_shard_bytes, .auto_total_bytes = o->auto_total_bytes};
    if (!o->cache_dir) {
        if (!r->config.in_place) r->config.mode = READSTATE_RANGE;
        return 0;
    }
    int rc = cache_open(&r->env.cache, o->cache_dir, o->cache_bytes);
    if (rc < 0) buf_printf(why, "cache %s: %s", o->cache_dir, err_text(rc));
    return rc;
}

int reader_open(struct reader **out, struct object_store *store, const struct reader_options *o, struct buf *why)
{
    struct readstate *state = NULL;
    bool fell_back = false;
    struct reader *r = mem_zalloc(sizeof *r);
    CHECK(o->parallel >= 1);
    r->store = store;
    r->options = *o;
    r->options.pin = NULL;
    r->pinned = o->pin != NULL;
    int rc = set_up(r, why);
    if (rc == 0) rc = o->pin ? load_pin(r, o->pin, &state, why) : load_current(r, &state, &fell_back, why);
    if (rc == 0 && o->open_all) rc = readstate_open_all(state, why);
    if (rc < 0) {
        readstate_free(state);
        reader_close(r);
        return rc;
    }
    swap_state(r, state);
    note_source(r, fell_back);
    *out = r;
    return 0;
}

void reader_close(struct reader *r)
{
    if (!r) return;
    if (r->now) {
        for (int i = 0; i < STRIPES; i++) CHECK(r->now->held[i] == 0);
        free_holding(r->now);
    }
    readpool_free(r->env.pool);
    pagecache_free(r->env.pages);
    cache_close(r->env.cache);
    storebook_free(r->env.stores);
    for (int i = 0; i < STRIPES; i++) pthread_mutex_destroy(&r->stripes[i].lock);
    pthread_mutex_destroy(&r->refresh_lock);
    pthread_mutex_destroy(&r->report_lock);
    mem_free(r);
}

/* ---- reading */

int reader_get(struct reader *r, const struct snapkey *key, const struct readstate_context *context, struct buf *out, struct buf *why)
{
    uint32_t stripe = own_stripe();
    struct holding *h = enter(r, stripe);
    int rc = readstate_get(h->state, key, context, out, why);
    leave(r, h, stripe, 1, 1, rc == 1);
    note_read(r, rc, why);
    return rc;
}

int64_t reader_get_many(struct reader *r, const struct snapkey *keys, size_t n, const struct readstate_context *context, struct readstate_answer *answers, struct buf *out, struct buf *why)
{
    uint32_t stripe = own_stripe();
    struct holding *h = enter(r, stripe);
    int64_t rc = readstate_get_many(h->state, keys, n, context, answers, out, why);
    leave(r, h, stripe, 1, n, rc > 0 ? (uint64_t)rc : 0);
    note_read(r, rc < 0 ? (int)rc : 0, why);
    return rc;
}

struct reader_lease reader_enter(struct reader *r)
{
    uint32_t stripe = own_stripe();
    struct holding *h = enter(r, stripe);
    return (struct reader_lease){.state = h->state, .holding = h, .stripe = stripe};
}

void reader_leave(struct reader *r, struct reader_lease lease) { leave(r, lease.holding, lease.stripe, 0, 0, 0); }

/* ---- switching */

/* Only a thread that holds refresh_lock changes `now`, so it may look at it without a stripe. */
static const struct readstate *state_now(const struct reader *r) { return r->now->state; }

/* What stands in the way of the new snapshot itself, as against the network: trying again will not help until something else is published. */
static bool is_fault_of_snapshot(int rc)
{
    return is_fault_of_manifest(rc) || rc == ERR_SNAPSHOT_SHARD || rc == ERR_SHARD_DAMAGED || rc == ERR_SHARD_UNSUPPORTED || rc == ERR_OBJECT_URL || rc == ERR_OBJECT_KEY;
}

/* Makes the state the current one, when its shards are as far open as those of the one before it. Takes it. */
static int switch_to(struct reader *r, struct readstate *state, struct buf *why)
{
    int rc = readstate_open_like(state, state_now(r), why);
    if (rc == 0 && r->options.open_all) rc = readstate_open_all(state, why);
    if (rc < 0) {
        readstate_free(state);
        return rc;
    }
    swap_state(r, state);
    return READER_SWITCHED;
}

static int follow_current(struct reader *r, struct buf *why)
{
    struct pointer p = {0};
    struct readstate *state;
    int rc = history_pointer(r->store, NULL, &p, NULL, why);
    if (rc == 0) note_checked(r);
    if (rc == 0 && strcmp(p.manifest_ref, readstate_ref(state_now(r))) == 0) {
        pointer_fini(&p);
        return READER_UNCHANGED;
    }
    if (rc == 0) rc = load_ref(r, p.manifest_ref, &state, why);
    if (rc == 0) rc = switch_to(r, state, why);
    if (rc == READER_SWITCHED) note_source(r, false);
    pointer_fini(&p);
    return rc;
}

static int end_refresh(struct reader *r, int rc, struct buf *why)
{
    int code = rc;
    if (is_fault_of_snapshot(rc) || rc == ERR_SNAPSHOT_BAD_CURRENT) rc = READER_KEPT;
    if (code < 0 && why->len == 0) buf_add_str(why, err_text(code));
    note_refresh(r, rc, code, why);
    return rc;
}

int reader_refresh(struct reader *r, struct buf *why)
{
    pthread_mutex_lock(&r->refresh_lock);
    int rc = r->pinned ? READER_UNCHANGED : end_refresh(r, follow_current(r, why), why);
    pthread_mutex_unlock(&r->refresh_lock);
    return rc;
}

static int use_pin(struct reader *r, const struct history_pick *pin, struct buf *why)
{
    struct readstate *state;
    int rc = load_pin(r, pin, &state, why);
    if (rc < 0) return rc;
    bool same = strcmp(readstate_ref(state), readstate_ref(state_now(r))) == 0;
    if (same)
        readstate_free(state);
    else
        rc = switch_to(r, state, why);
    if (rc < 0) return rc;
    r->pinned = true;
    note_source(r, false);
    return same ? READER_UNCHANGED : READER_SWITCHED;
}

int reader_use(struct reader *r, const struct history_pick *pin, struct buf *why)
{
    pthread_mutex_lock(&r->refresh_lock);
    int rc;
    if (pin) {
        rc = use_pin(r, pin, why);
    } else {
        rc = follow_current(r, why);
        if (rc >= 0) {
            r->pinned = false;
            note_source(r, false);
        }
    }
    rc = end_refresh(r, rc, why);
    pthread_mutex_unlock(&r->refresh_lock);
    return rc;
}

/* ---- state of affairs */

void reader_report(struct reader *r, struct reader_report *p)
{
    struct pagecache_stats pages;
    pthread_mutex_lock(&r->report_lock);
    *p = r->report;
    pthread_mutex_unlock(&r->report_lock);
    for (int i = 0; i < STRIPES; i++) {
        struct stripe *s = &r->stripes[i];
        pthread_mutex_lock(&s->lock);
        p->gets += s->gets;
        p->keys += s->keys;
        p->hits += s->hits;
        pthread_mutex_unlock(&s->lock);
    }
    pagecache_stats(r->env.pages, &pages);
    p->page_hits = pages.hits;
    p->page_misses = pages.misses;
    p->requests = atomic_load(&r->env.counts.requests);
    p->request_bytes = atomic_load(&r->env.counts.bytes);
    p->downloads = atomic_load(&r->env.downloads);
    p->reuses = atomic_load(&r->env.reuses);
}
