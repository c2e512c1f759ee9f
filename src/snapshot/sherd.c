/* The public face of libsherd (include/sherd.h): its types made into ours and back. What happens stands in reader.c and readstate.c. */
#include "sherd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/version.h"
#include "cel/utf8.h"
#include "object/object.h"
#include "snapshot/reader.h"

struct sherd_reader {
    struct object_store *store;
    struct object_options objects; /* its strings are our own */
    struct reader *reader;
};

const char *sherd_version(void) { return SHERD_VERSION; }
const char *sherd_error_name(int code) { return err_name(code); }
const char *sherd_error_text(int code) { return err_text(code); }

/* ---- errors */

static int tell(struct sherd_error *why, int code, const char *text, size_t n)
{
    if (!why) return code;
    why->code = code < 0 ? code : 0;
    if (n == 0 && code < 0) {
        text = err_text(code);
        n = strlen(text);
    }
    if (n > sizeof why->text - 1) n = sizeof why->text - 1;
    if (n) memcpy(why->text, text, n);
    why->text[n] = 0;
    return code;
}

/* Gives rc on, with its words if it is a failure, and frees them. */
static int end(struct sherd_error *why, int rc, struct buf *words)
{
    tell(why, rc, rc < 0 ? words->p : "", rc < 0 ? words->len : 0);
    buf_fini(words);
    return rc;
}

/* ---- opening */

/* A struct of a caller who may know fewer fields than we, or more. */
static void take_known(void *to, size_t to_size, const void *from, size_t from_size)
{
    memset(to, 0, to_size);
    memcpy(to, from, from_size < to_size ? from_size : to_size);
}

static const char *own_copy(const char *s) { return s && *s ? mem_strdup(s) : NULL; }

static void take_object_options(struct object_options *to, const struct sherd_options *o)
{
    *to = (struct object_options){
        .endpoint = own_copy(o->endpoint),
        .region = own_copy(o->region),
        .access_key = own_copy(o->access_key),
        .secret_key = own_copy(o->secret_key),
        .session_token = own_copy(o->session_token),
        .profile = own_copy(o->profile),
        .ca_file = own_copy(o->ca_file),
        .style = o->path_style == 1 ? OBJECT_STYLE_PATH : o->path_style == 2 ? OBJECT_STYLE_VIRTUAL : OBJECT_STYLE_AUTO,
        .anonymous = o->anonymous,
        .insecure_tls = o->insecure_tls,
        .attempts_max = o->attempts_max,
        .connect_timeout_ms = o->connect_timeout_ms,
        .stall_timeout_ms = o->stall_timeout_ms,
    };
}

static void free_object_options(struct object_options *o)
{
    const char *strings[] = {o->endpoint, o->region, o->access_key, o->secret_key, o->session_token, o->profile, o->ca_file};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) mem_free((char *)strings[i]);
}

/* Where downloads go if nobody says: NULL where there is no home. */
static const char *default_cache(char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/sherd/snapshots", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.cache/sherd/snapshots", home);
    return n > 0 && n < PATH_MAX ? path : NULL;
}

static uint64_t or_default(uint64_t given, uint64_t usual) { return given ? given : usual; }

static void take_options(struct reader_options *to, const struct sherd_options *o, const char *url, char path[PATH_MAX])
{
    reader_defaults(to);
    to->mode = o->mode == SHERD_DOWNLOAD ? READSTATE_DOWNLOAD : o->mode == SHERD_RANGE ? READSTATE_RANGE : READSTATE_AUTO;
    to->cache_bytes = or_default(o->cache_bytes, to->cache_bytes);
    to->page_cache_bytes = or_default(o->page_cache_bytes, to->page_cache_bytes);
    to->auto_shard_bytes = or_default(o->auto_shard_bytes, to->auto_shard_bytes);
    to->auto_total_bytes = or_default(o->auto_total_bytes, to->auto_total_bytes);
    to->parallel = (uint32_t)or_default(o->parallel, to->parallel);
    to->fallback_attempts = o->no_fallback ? 0 : (uint32_t)or_default(o->fallback_attempts, to->fallback_attempts);
    to->open_all = o->open_all;
    if (o->cache_dir)
        to->cache_dir = o->cache_dir;
    else if (strncmp(url, "file://", 7) != 0 && to->mode != READSTATE_RANGE)
        to->cache_dir = default_cache(path);
}

/* NULL: the newest. -1 in *rc: the pin names more than one thing. */
static const struct history_pick *take_pin(const struct sherd_pin *pin, struct history_pick *pick, int *rc)
{
    if (!pin || (!pin->ref && !pin->run_id && !pin->by_offset)) return NULL;
    if ((pin->ref != NULL) + (pin->run_id != NULL) + pin->by_offset != 1) *rc = -EINVAL;
    *pick = (struct history_pick){.ref = pin->ref, .run_id = pin->run_id, .by_offset = pin->by_offset, .offset = pin->offset};
    return pick;
}

static int open_with(struct sherd_reader *r, const char *url, const struct sherd_options *o, struct buf *words)
{
    char path[PATH_MAX], error[OBJECT_DETAIL_BYTES];
    struct reader_options options;
    struct history_pick pick;
    int rc = 0;
    take_options(&options, o, url, path);
    options.pin = take_pin(&o->pin, &pick, &rc);
    if (rc < 0) {
        buf_add_str(words, "a pin is a ref, a run id or an offset, only one of them");
        return rc;
    }
    take_object_options(&r->objects, o);
    rc = object_open(&r->store, url, &r->objects, error);
    if (rc < 0) {
        buf_printf(words, "%s: %s", url, error);
        return rc;
    }
    options.objects = &r->objects;
    return reader_open(&r->reader, r->store, &options, words);
}

struct sherd_reader *sherd_reader_open(const char *url, const struct sherd_options *options, struct sherd_error *why)
{
    struct sherd_options o = {0};
    struct buf words = {0};
    struct sherd_reader *r = mem_zalloc(sizeof *r);
    if (options) take_known(&o, sizeof o, options, options->size);
    if (end(why, open_with(r, url, &o, &words), &words) == 0) return r;
    sherd_reader_close(r);
    return NULL;
}

void sherd_reader_close(struct sherd_reader *r)
{
    if (!r) return;
    reader_close(r->reader);
    object_close(r->store);
    free_object_options(&r->objects);
    mem_free(r);
}

/* ---- keys and values */

static struct snapkey take_key(const struct sherd_key *k)
{
    switch (k->kind) {
    case SHERD_KEY_INT: return snapkey_uint(k->number);
    case SHERD_KEY_TEXT: return snapkey_text(slice_of(k->data, k->size));
    default: return snapkey_bytes(slice_of(k->data, k->size));
    }
}

static int check_key(const struct sherd_key *k, struct sherd_error *why)
{
    static const char words[] = "the key is said to be text, but is no UTF-8";
    if (k->kind != SHERD_KEY_TEXT || utf8_valid(slice_of(k->data, k->size))) return 0;
    return tell(why, ERR_SNAPSHOT_KEY, words, sizeof words - 1);
}

static struct sherd_key give_key(const struct snapkey *k)
{
    if (k->kind == SNAPKEY_INT || k->kind == SNAPKEY_UINT) return sherd_key_int(k->u);
    return k->kind == SNAPKEY_TEXT ? sherd_key_text(k->s.p, k->s.n) : sherd_key_bytes(k->s.p, k->s.n);
}

static const struct readstate_context *take_context(const struct sherd_context *c, struct readstate_context *to)
{
    if (!c || c->n == 0) return NULL;
    *to = (struct readstate_context){.names = c->names, .values = c->values, .n = c->n};
    return to;
}

void sherd_value_free(struct sherd_value *v)
{
    mem_free(v->data);
    *v = (struct sherd_value){0};
}

/* ---- reading */

int sherd_reader_get(struct sherd_reader *r, const struct sherd_key *key, const struct sherd_context *context, struct sherd_value *value, struct sherd_error *why)
{
    struct buf words = {0}, out = {.p = value->data, .cap = value->room};
    struct readstate_context c;
    struct snapkey k = take_key(key);
    value->size = 0;
    int rc = check_key(key, why);
    if (rc < 0) return rc;
    rc = reader_get(r->reader, &k, take_context(context, &c), &out, &words);
    *value = (struct sherd_value){.data = out.p, .size = rc == 1 ? out.len : 0, .room = out.cap};
    return rc < 0 ? end(why, rc, &words) : rc;
}

struct sherd_batch {
    size_t n;
    struct buf values;
    struct readstate_answer answers[];
};

static struct snapkey *take_keys(const struct sherd_key *keys, size_t n, struct sherd_error *why)
{
    struct snapkey *all = mem_alloc((n + 1) * sizeof *all);
    for (size_t i = 0; i < n; i++) {
        all[i] = take_key(&keys[i]);
        if (check_key(&keys[i], why) == 0) continue;
        mem_free(all);
        return NULL;
    }
    return all;
}

struct sherd_batch *sherd_reader_multi_get(struct sherd_reader *r, const struct sherd_key *keys, size_t n, const struct sherd_context *context, struct sherd_error *why)
{
    struct buf words = {0};
    struct readstate_context c;
    struct snapkey *all = take_keys(keys, n, why);
    if (!all) return NULL;
    struct sherd_batch *b = mem_zalloc(sizeof *b + n * sizeof b->answers[0]);
    b->n = n;
    int64_t rc = reader_get_many(r->reader, all, n, take_context(context, &c), b->answers, &b->values, &words);
    mem_free(all);
    if (end(why, rc < 0 ? (int)rc : 0, &words) == 0) return b;
    sherd_batch_free(b);
    return NULL;
}

bool sherd_batch_get(const struct sherd_batch *b, size_t i, const void **data, size_t *size)
{
    if (i >= b->n || !b->answers[i].found) return false;
    *data = b->values.p + b->answers[i].at;
    *size = b->answers[i].n;
    return true;
}

void sherd_batch_free(struct sherd_batch *b)
{
    if (!b) return;
    buf_fini(&b->values);
    mem_free(b);
}

int64_t sherd_reader_route(struct sherd_reader *r, const struct sherd_key *key, const struct sherd_context *context, struct sherd_error *why)
{
    struct buf words = {0};
    struct readstate_context c;
    struct snapkey k = take_key(key);
    uint32_t shard = 0;
    int rc = check_key(key, why);
    if (rc < 0) return rc;
    struct reader_lease lease = reader_enter(r->reader);
    rc = end(why, readstate_route(lease.state, &k, take_context(context, &c), &shard, &words), &words);
    reader_leave(r->reader, lease);
    return rc < 0 ? rc : shard == UINT32_MAX ? -1 : (int64_t)shard;
}

/* ---- scanning */

struct sherd_cursor {
    struct reader *reader;
    struct reader_lease lease;
    struct readscan *scan;
    enum snapkey_encoding encoding;
};

struct bound {
    const struct sherd_key *key;
    void (*narrow)(struct readscan_range *r, struct slice key, bool flag);
    bool flag;
};

static void narrow_prefix(struct readscan_range *r, struct slice prefix, bool flag) { readscan_prefix(r, prefix); }

static int take_range(const struct sherd_range *given, enum snapkey_encoding encoding, struct readscan_range *range, struct buf *words)
{
    struct bound bounds[] = {{given->start, readscan_from, given->after_start}, {given->end, readscan_to, given->with_end}, {given->prefix, narrow_prefix, false}};
    if (given->prefix && given->prefix->kind == SHERD_KEY_INT) {
        buf_add_str(words, "a prefix is text or bytes");
        return ERR_SNAPSHOT_KEY;
    }
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        char scratch[8];
        struct slice stored;
        if (!bounds[i].key) continue;
        struct snapkey k = take_key(bounds[i].key);
        const char *fault = snapkey_encode(encoding, &k, scratch, &stored);
        if (fault) {
            buf_printf(words, "%s (the snapshot's keys are %s)", fault, snapkey_encoding_name(encoding));
            return ERR_SNAPSHOT_KEY;
        }
        bounds[i].narrow(range, stored, bounds[i].flag);
    }
    range->reverse = given->reverse;
    range->one_shard = given->one_shard;
    range->shard = given->shard;
    return 0;
}

struct sherd_cursor *sherd_reader_scan(struct sherd_reader *r, const struct sherd_range *given, struct sherd_error *why)
{
    struct sherd_range known = {0};
    struct readscan_range range = {0};
    struct buf words = {0};
    struct sherd_cursor *c = mem_zalloc(sizeof *c);
    if (given) take_known(&known, sizeof known, given, given->size);
    c->reader = r->reader;
    c->lease = reader_enter(r->reader);
    c->encoding = readstate_manifest(c->lease.state)->key_encoding;
    int rc = take_range(&known, c->encoding, &range, &words);
    if (rc == 0) rc = readscan_open(&c->scan, c->lease.state, &range, &words);
    readscan_range_fini(&range);
    if (end(why, rc, &words) == 0) return c;
    sherd_cursor_close(c);
    return NULL;
}

int sherd_cursor_next(struct sherd_cursor *c, struct sherd_key *key, const void **data, size_t *size, struct sherd_error *why)
{
    struct buf words = {0};
    struct slice stored = {0}, value = {0};
    struct snapkey k;
    int rc = readscan_next(c->scan, &stored, &value, &words);
    if (rc <= 0) return end(why, rc, &words);
    if (!snapkey_decode(c->encoding, stored, &k)) k = snapkey_bytes(stored); /* a foreign file may hold keys that its encoding does not have: shown as they are */
    *key = give_key(&k);
    *data = value.p;
    *size = value.n;
    return 1;
}

void sherd_cursor_close(struct sherd_cursor *c)
{
    if (!c) return;
    readscan_close(c->scan);
    reader_leave(c->reader, c->lease);
    mem_free(c);
}

/* ---- switching */

/* A snapshot that was kept has words too, though it is no failure of the call. */
static int end_switch(struct sherd_error *why, int rc, struct buf *words)
{
    if (rc == READER_KEPT)
        tell(why, rc, words->p, words->len);
    else
        tell(why, rc, rc < 0 ? words->p : "", rc < 0 ? words->len : 0);
    buf_fini(words);
    return rc;
}

int sherd_reader_refresh(struct sherd_reader *r, struct sherd_error *why)
{
    struct buf words = {0};
    return end_switch(why, reader_refresh(r->reader, &words), &words);
}

int sherd_reader_use(struct sherd_reader *r, const struct sherd_pin *pin, struct sherd_error *why)
{
    struct buf words = {0};
    struct history_pick pick;
    int rc = 0;
    const struct history_pick *picked = take_pin(pin, &pick, &rc);
    if (rc < 0) return tell(why, rc, "a pin is a ref, a run id or an offset, only one of them", 55);
    return end_switch(why, reader_use(r->reader, picked, &words), &words);
}

/* ---- what is read */

static char *copy_or_null(const char *s) { return s ? mem_strdup(s) : NULL; }

static char *copy_slice(struct slice s)
{
    char *p = mem_alloc(s.n + 1);
    memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return p;
}

static void fill_info(struct sherd_info *i, const struct readstate *s)
{
    const struct manifest *m = readstate_manifest(s);
    i->run_id = mem_strdup(m->run_id);
    i->manifest_ref = mem_strdup(readstate_ref(s));
    i->created_at = mem_strdup(m->created_at);
    i->sharding = mem_strdup(m->is_cel ? "cel" : "hash");
    i->key_encoding = mem_strdup(snapkey_encoding_name(m->key_encoding));
    i->hash_algorithm = mem_strdup("xxh3_64");
    i->custom = mem_strdup(m->custom);
    if (m->is_cel) i->cel_expr = copy_slice(m->cel.expr);
    i->num_dbs = m->num_dbs;
    i->shards_open = readstate_n_open(s);
    i->row_count = manifest_rows(m);
    i->db_bytes = manifest_bytes(m);
    i->created_ms = m->created_us / 1000;
    i->mode = readstate_mode(s) == READSTATE_RANGE ? SHERD_RANGE : SHERD_DOWNLOAD;
}

int sherd_reader_info(struct sherd_reader *r, struct sherd_info *info, struct sherd_error *why)
{
    struct sherd_info full = {0};
    struct reader_report report;
    struct reader_lease lease = reader_enter(r->reader);
    fill_info(&full, lease.state);
    reader_leave(r->reader, lease);
    reader_report(r->reader, &report);
    full.pinned = report.pinned;
    full.fell_back = report.fell_back;
    full.size = info->size;
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return tell(why, 0, "", 0);
}

void sherd_info_free(struct sherd_info *i)
{
    char *strings[] = {i->run_id, i->manifest_ref, i->created_at, i->sharding, i->key_encoding, i->hash_algorithm, i->custom, i->cel_expr};
    for (size_t k = 0; k < sizeof strings / sizeof strings[0]; k++) mem_free(strings[k]);
    *i = (struct sherd_info){.size = i->size};
}

static char *hex_of(const uint8_t bytes[32])
{
    char *text = mem_alloc(65);
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static void fill_shard(struct sherd_shard *to, const struct manifest_shard *from)
{
    to->row_count = from->row_count;
    to->db_bytes = from->db_bytes;
    to->db_url = copy_or_null(from->db_url);
    to->min_key = copy_or_null(from->min_key);
    to->max_key = copy_or_null(from->max_key);
    to->checkpoint_id = copy_or_null(from->checkpoint_id);
    to->sha256 = from->has_sha256 ? hex_of(from->sha256) : NULL;
}

int sherd_reader_shards(struct sherd_reader *r, struct sherd_shard **shards, size_t *n, struct sherd_error *why)
{
    struct reader_lease lease = reader_enter(r->reader);
    const struct manifest *m = readstate_manifest(lease.state);
    struct sherd_shard *all = mem_zalloc(m->num_dbs * sizeof *all);
    for (uint32_t i = 0; i < m->num_dbs; i++) all[i].db_id = i;
    for (uint32_t i = 0; i < m->n_shards; i++) {
        struct sherd_shard *s = &all[m->shards[i].db_id];
        fill_shard(s, &m->shards[i]);
        s->open = readstate_is_open(lease.state, i);
    }
    *shards = all;
    *n = m->num_dbs;
    reader_leave(r->reader, lease);
    return tell(why, 0, "", 0);
}

void sherd_shards_free(struct sherd_shard *shards, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *strings[] = {shards[i].db_url, shards[i].min_key, shards[i].max_key, shards[i].checkpoint_id, shards[i].sha256};
        for (size_t k = 0; k < sizeof strings / sizeof strings[0]; k++) mem_free(strings[k]);
    }
    mem_free(shards);
}

/* ---- health */

static void judge_health(struct sherd_health *h, const struct reader_report *p, double staleness_seconds)
{
    const char *reason = "";
    if (p->shard_code) {
        h->status = SHERD_UNHEALTHY;
        reason = p->shard_text;
    } else if (p->refresh_code) {
        h->status = SHERD_DEGRADED;
        reason = p->refresh_text;
    } else if (p->fell_back) {
        h->status = SHERD_DEGRADED;
        reason = "the newest manifest could not be read; an older one is in use";
    } else if (staleness_seconds > 0 && h->age_seconds > staleness_seconds) {
        h->status = SHERD_DEGRADED;
        reason = "the snapshot is older than the limit";
    }
    snprintf(h->reason, sizeof h->reason, "%s", reason);
}

int sherd_reader_health(struct sherd_reader *r, double staleness_seconds, struct sherd_health *health, struct sherd_error *why)
{
    struct sherd_health full = {.size = health->size};
    struct reader_report report;
    int64_t now_ms = clock_unix_ms();
    struct reader_lease lease = reader_enter(r->reader);
    const struct manifest *m = readstate_manifest(lease.state);
    full.age_seconds = (double)(now_ms * 1000 - m->created_us) / 1e6;
    full.num_shards = m->n_shards;
    snprintf(full.manifest_ref, sizeof full.manifest_ref, "%s", readstate_ref(lease.state));
    reader_leave(r->reader, lease);
    reader_report(r->reader, &report);
    full.unchecked_seconds = report.checked_ms ? (double)(now_ms - report.checked_ms) / 1000 : 0;
    judge_health(&full, &report, staleness_seconds);
    memcpy(health, &full, health->size < sizeof full ? health->size : sizeof full);
    return tell(why, 0, "", 0);
}

void sherd_reader_stats(struct sherd_reader *r, struct sherd_stats *stats)
{
    struct reader_report p;
    reader_report(r->reader, &p);
    struct sherd_stats full = {
        .size = stats->size,
        .gets = p.gets,
        .keys = p.keys,
        .hits = p.hits,
        .requests = p.requests,
        .request_bytes = p.request_bytes,
        .page_hits = p.page_hits,
        .page_misses = p.page_misses,
        .downloads = p.downloads,
        .cache_reuses = p.reuses,
        .refreshes = p.refreshes,
        .switches = p.switches,
        .kept = p.kept,
    };
    memcpy(stats, &full, stats->size < sizeof full ? stats->size : sizeof full);
}
