#include "snapshot/publish.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "cel/utf8.h"
#include "snapshot/history.h"
#include "snapshot/snappath.h"

static int fail(struct buf *why, int code, int cause, const struct object_call *call)
{
    if (why) buf_printf(why, "%s%s%s", err_text(cause), call->detail[0] ? ": " : "", call->detail);
    return code;
}

/* ---- the base */

int publish_observe(struct object_store *s, struct object_call *call, struct publish_base *b, struct buf *why)
{
    struct pointer p;
    struct object_meta meta;
    size_t said = why ? why->len : 0;
    *b = (struct publish_base){0};
    int rc = history_pointer(s, call, &p, &meta, why);
    if (rc != 0 && rc != ERR_SNAPSHOT_NO_CURRENT && rc != ERR_SNAPSHOT_BAD_CURRENT) return rc;
    if (why) why->len = said;
    if (rc == ERR_SNAPSHOT_NO_CURRENT) return 0;
    b->exists = true;
    memcpy(b->etag, meta.etag, sizeof b->etag);
    if (rc == ERR_SNAPSHOT_BAD_CURRENT) return 0;
    b->readable = true;
    b->manifest_ref = mem_strdup(p.manifest_ref);
    b->run_id = mem_strdup(p.run_id);
    b->updated_us = p.updated_us;
    pointer_fini(&p);
    return 0;
}

void publish_base_fini(struct publish_base *b)
{
    mem_free(b->manifest_ref);
    mem_free(b->run_id);
    *b = (struct publish_base){0};
}

void publish_result_fini(struct publish_result *r)
{
    mem_free(r->manifest_ref);
    *r = (struct publish_result){0};
}

/* ---- phase one */

/* now, or just behind the manifest that is current: then names sort as manifests were published, whatever the clocks of their publishers say. */
static int64_t name_time(const struct object_store *s, const struct publish_base *base, int64_t now_us)
{
    int64_t us;
    struct slice run_id;
    const char *key = base->readable ? snappath_ref_key(s, base->manifest_ref) : NULL;
    if (!key || !snappath_parse_manifest(slice_str(key), &us, &run_id)) return now_us;
    return now_us > us ? now_us : us + 1;
}

int publish_manifest(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_base *base, int64_t now_us, struct publish_result *r,
                     struct buf *why)
{
    struct object_call none = {0};
    struct buf image = {0}, url = {0};
    struct object_put_options options = {.content_type = SNAPPATH_TYPE_SQLITE};
    if (!call) call = &none;
    *r = (struct publish_result){.published_us = name_time(s, base, now_us)};
    const char *bad = snappath_check_run_id(slice_str(m->run_id));
    if (bad && why) buf_add_str(why, bad);
    int rc = bad ? ERR_SNAPSHOT_BAD_MANIFEST : manifest_write(m, &image, why);
    if (rc != 0) return rc;
    buf_printf(&url, "%s/", object_url(s));
    snappath_manifest(&url, r->published_us, m->run_id);
    buf_add_byte(&url, '\0');
    rc = object_put(s, call, url.p + strlen(object_url(s)) + 1, buf_slice(&image), &options, NULL);
    buf_fini(&image);
    if (rc != 0) {
        buf_fini(&url);
        return fail(why, ERR_SNAPSHOT_MANIFEST, rc, call);
    }
    r->manifest_ref = url.p;
    return 0;
}

/* ---- phase two */

/* What _CURRENT is, seen from a publisher that wants to swap it. */
enum seen { SEEN_BASE /* as it was */, SEEN_OURS, SEEN_OTHER, SEEN_NOTHING /* the store does not tell */ };

struct swap {
    struct object_store *s;
    struct object_call *call;
    const char *ref;
    const struct publish_base *base;
    struct slice json;
    struct buf *why;
};

static enum seen look(const struct swap *w)
{
    struct publish_base now;
    enum seen seen = SEEN_OTHER;
    if (publish_observe(w->s, w->call, &now, NULL) != 0) seen = SEEN_NOTHING;
    else if (now.readable && strcmp(now.manifest_ref, w->ref) == 0) seen = SEEN_OURS;
    else if (now.exists == w->base->exists && strcmp(now.etag, w->base->etag) == 0) seen = SEEN_BASE;
    publish_base_fini(&now);
    return seen;
}

static int put(const struct swap *w, enum object_condition condition)
{
    struct object_put_options options = {.content_type = POINTER_TYPE, .condition = condition, .etag = condition == OBJECT_IF_MATCH ? w->base->etag : NULL};
    return object_put(w->s, w->call, SNAPPATH_CURRENT, w->json, &options, NULL);
}

static int lost(const struct swap *w)
{
    if (w->why) buf_add_str(w->why, "_CURRENT is not the one that this publish builds upon");
    return ERR_SNAPSHOT_RACE;
}

/* The store decides. A put whose answer was lost is repeated: the condition makes that safe, for if the first one happened the second does not, and _CURRENT is found to be ours. */
static int swap_by_store(const struct swap *w)
{
    int rc = ERR_OBJECT_UNCERTAIN;
    for (int attempt = 0; attempt < 3 && rc == ERR_OBJECT_UNCERTAIN; attempt++) {
        rc = put(w, w->base->exists ? OBJECT_IF_MATCH : OBJECT_IF_ABSENT);
        if (rc == 0 || rc == ERR_OBJECT_UNSUPPORTED) return rc;
        if (rc != ERR_OBJECT_PRECONDITION && rc != ERR_OBJECT_UNCERTAIN) return fail(w->why, ERR_SNAPSHOT_CURRENT, rc, w->call);
        enum seen seen = look(w);
        if (seen == SEEN_OURS) return 0;
        if (seen == SEEN_OTHER) return lost(w);
        if (seen == SEEN_NOTHING) break;
        /* As before: what failed the condition is gone again, or the lost put has not happened. */
        if (rc == ERR_OBJECT_PRECONDITION) return lost(w);
    }
    return fail(w->why, ERR_SNAPSHOT_UNCERTAIN, rc, w->call);
}

static bool may_have_happened(int rc) { return rc == ERR_OBJECT_TIMEOUT || rc == ERR_OBJECT_CONNECTION || rc == ERR_OBJECT_BUSY || rc == ERR_OBJECT_CANCELLED; }

/* The store cannot decide: look, write, look again. */
static int swap_by_reread(const struct swap *w)
{
    enum seen seen = look(w);
    if (seen == SEEN_OURS) return 0;
    if (seen == SEEN_OTHER) return lost(w);
    if (seen == SEEN_NOTHING) return fail(w->why, ERR_SNAPSHOT_CURRENT, ERR_OBJECT_CONNECTION, w->call);
    int rc = put(w, OBJECT_ALWAYS);
    char detail[OBJECT_DETAIL_BYTES];
    memcpy(detail, w->call->detail, sizeof detail);
    seen = look(w);
    if (seen == SEEN_OURS || (rc == 0 && seen == SEEN_NOTHING)) return 0;
    if (seen == SEEN_OTHER) return lost(w);
    memcpy(w->call->detail, detail, sizeof detail);
    return fail(w->why, may_have_happened(rc) ? ERR_SNAPSHOT_UNCERTAIN : ERR_SNAPSHOT_CURRENT, rc, w->call);
}

int publish_current(struct object_store *s, struct object_call *call, const char *ref, const char *run_id, const struct publish_base *base, int64_t now_us,
                    enum publish_guard *guard, struct buf *why)
{
    struct object_call none = {0};
    struct buf json = {0};
    if (!call) call = &none;
    int conditions = object_probe_conditions(s, call);
    if (conditions < 0) return fail(why, ERR_SNAPSHOT_CURRENT, conditions, call);
    if (!utf8_valid(slice_str(ref)) || !utf8_valid(slice_str(run_id))) return fail(why, ERR_SNAPSHOT_CURRENT, ERR_OBJECT_URL, &none); /* JSON could not hold it */
    pointer_write(&json, ref, run_id, now_us);
    struct swap w = {.s = s, .call = call, .ref = ref, .base = base, .json = buf_slice(&json), .why = why};
    enum publish_guard by = conditions & (base->exists ? OBJECT_CONDITIONS_IF_MATCH : OBJECT_CONDITIONS_IF_ABSENT) ? PUBLISH_BY_STORE : PUBLISH_BY_REREAD;
    int rc = by == PUBLISH_BY_STORE ? swap_by_store(&w) : ERR_OBJECT_UNSUPPORTED;
    if (rc == ERR_OBJECT_UNSUPPORTED) {
        by = PUBLISH_BY_REREAD;
        rc = swap_by_reread(&w);
    }
    if (guard) *guard = by;
    buf_fini(&json);
    return rc;
}

int publish_snapshot(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_base *base, int64_t now_us, struct publish_result *r,
                     struct buf *why)
{
    int rc = publish_manifest(s, call, m, base, now_us, r, why);
    if (rc != 0) return rc;
    rc = publish_current(s, call, r->manifest_ref, m->run_id, base, now_us, &r->guard, why);
    if (rc != ERR_SNAPSHOT_RACE) return rc;
    const char *key = object_key_of(s, r->manifest_ref);
    if (object_delete(s, call, &key, 1, NULL) == 0) publish_result_fini(r);
    return rc;
}

/* ---- attempts and winners */

static bool beats(const struct publish_attempt *a, const struct publish_attempt *b)
{
    if (a->shard.attempt != b->shard.attempt) return a->shard.attempt < b->shard.attempt;
    if (a->task_attempt_id != b->task_attempt_id) return a->task_attempt_id < b->task_attempt_id;
    return strcmp(a->shard.db_url, b->shard.db_url) < 0;
}

int publish_choose(struct publish_attempt *attempts, size_t n, uint32_t num_dbs, struct buf *why)
{
    for (size_t i = 0; i < n; i++) {
        attempts[i].wins = false;
        if (attempts[i].shard.db_id < num_dbs) continue;
        if (why) buf_printf(why, "shard %u was built, but the snapshot has shards 0 to %u", attempts[i].shard.db_id, num_dbs - 1);
        return ERR_SNAPSHOT_COVERAGE;
    }
    struct publish_attempt **best = mem_zalloc(num_dbs * sizeof *best);
    for (size_t i = 0; i < n; i++) {
        struct publish_attempt *a = &attempts[i], **winner = &best[a->shard.db_id];
        if (a->shard.db_url && (!*winner || beats(a, *winner))) *winner = a;
    }
    for (uint32_t id = 0; id < num_dbs; id++)
        if (best[id]) best[id]->wins = true;
    mem_free(best);
    return 0;
}

void publish_add_winners(struct manifest *m, const struct publish_attempt *attempts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (attempts[i].wins) manifest_add_shard(m, &attempts[i].shard);
}

static bool is_named(const struct manifest *m, const char *db_url)
{
    for (uint32_t i = 0; i < m->n_shards; i++)
        if (strcmp(m->shards[i].db_url, db_url) == 0) return true;
    return false;
}

struct deleting {
    struct object_store *s;
    struct object_call *call;
    int64_t count;
};

static int delete_item(void *arg, const struct object_item *item)
{
    struct deleting *d = arg;
    int rc = object_delete(d->s, d->call, &item->key, 1, NULL);
    d->count += rc == 0;
    return rc;
}

int64_t publish_delete_losers(struct object_store *s, struct object_call *call, const struct manifest *m, const struct publish_attempt *attempts, size_t n)
{
    struct deleting d = {.s = s, .call = call};
    int first = 0;
    for (size_t i = 0; i < n; i++) {
        const char *url = attempts[i].shard.db_url, *folder = url ? object_key_of(s, url) : NULL;
        if (attempts[i].wins || !folder || is_named(m, url)) continue;
        struct buf prefix = {0};
        buf_printf(&prefix, "%s/", folder);
        buf_add_byte(&prefix, '\0');
        int rc = object_list(s, call, &(struct object_list_options){.prefix = prefix.p}, delete_item, &d);
        if (first == 0) first = rc;
        buf_fini(&prefix);
    }
    return first ? first : d.count;
}
