#include "snapshot/history.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/manifest.h"
#include "snapshot/publish.h"
#include "snapshot/snappath.h"

static int fail(struct buf *why, int code, const char *what, const struct object_call *call)
{
    if (why) buf_printf(why, "%s: %s%s%s", what, err_text(code), call->detail[0] ? ": " : "", call->detail);
    return code;
}

/* ---- loading */

int history_pointer(struct object_store *s, struct object_call *call, struct pointer *p, struct object_meta *meta, struct buf *why)
{
    struct object_call none = {0};
    struct buf json = {0};
    if (!call) call = &none;
    *p = (struct pointer){0};
    int rc = object_get(s, call, SNAPPATH_CURRENT, POINTER_BYTES_MAX, &json, meta);
    if (rc == ERR_OBJECT_NOT_FOUND) rc = fail(why, ERR_SNAPSHOT_NO_CURRENT, object_url(s), &(struct object_call){0});
    else if (rc != 0) fail(why, rc, SNAPPATH_CURRENT, call);
    else rc = pointer_parse(buf_slice(&json), p, why);
    buf_fini(&json);
    return rc;
}

int history_manifest(struct object_store *s, struct object_call *call, const char *ref, struct manifest **m, struct buf *why)
{
    struct object_call none = {0};
    struct buf image = {0};
    if (!call) call = &none;
    const char *key = snappath_ref_key(s, ref);
    if (!key) return fail(why, ERR_SNAPSHOT_ELSEWHERE, ref, &none);
    int rc = object_get(s, call, key, MANIFEST_BYTES_MAX, &image, NULL);
    if (rc == ERR_OBJECT_NOT_FOUND) rc = fail(why, ERR_SNAPSHOT_NO_REF, key, call);
    else if (rc != 0) fail(why, rc, key, call);
    else rc = manifest_parse(buf_slice(&image), m, why);
    buf_fini(&image);
    return rc;
}

int history_current(struct object_store *s, struct object_call *call, struct pointer *p, struct manifest **m, struct buf *why)
{
    int rc = history_pointer(s, call, p, NULL, why);
    return rc ? rc : history_manifest(s, call, p->manifest_ref, m, why);
}

/* ---- the list */

struct listing {
    const struct object_store *s;
    struct history *h;
};

/* Room grows by doubling at powers of two. */
static struct history_entry *next_entry(struct history *h)
{
    if ((h->n & (h->n - 1)) == 0) h->entries = mem_resize(h->entries, (h->n ? 2 * h->n : 1) * sizeof *h->entries);
    return &h->entries[h->n++];
}

static int list_item(void *arg, const struct object_item *item)
{
    struct listing *l = arg;
    int64_t us;
    struct slice run_id;
    if (!snappath_parse_manifest(slice_str(item->key), &us, &run_id)) return 0;
    struct buf ref = {0}, run = {0};
    buf_printf(&ref, "%s/%s", object_url(l->s), item->key);
    buf_add_byte(&ref, '\0');
    buf_add_slice(&run, run_id);
    buf_add_byte(&run, '\0');
    *next_entry(l->h) = (struct history_entry){.ref = ref.p, .key = ref.p + strlen(object_url(l->s)) + 1, .run_id = run.p, .published_us = us, .bytes = item->meta.size};
    return 0;
}

static void free_entry(struct history_entry *e)
{
    mem_free(e->ref);
    mem_free(e->run_id);
}

/* The store lists the oldest first. */
static void newest_first(struct history *h, size_t limit)
{
    for (size_t i = 0; i < h->n / 2; i++) {
        struct history_entry e = h->entries[i];
        h->entries[i] = h->entries[h->n - 1 - i];
        h->entries[h->n - 1 - i] = e;
    }
    while (limit && h->n > limit) free_entry(&h->entries[--h->n]);
}

int history_load(struct object_store *s, struct object_call *call, size_t limit, struct history *h, struct buf *why)
{
    struct object_call none = {0};
    struct listing l = {.s = s, .h = h};
    if (!call) call = &none;
    *h = (struct history){0};
    int rc = object_list(s, call, &(struct object_list_options){.prefix = SNAPPATH_MANIFESTS}, list_item, &l);
    if (rc != 0) return fail(why, rc, SNAPPATH_MANIFESTS, call);
    newest_first(h, limit);
    rc = history_pointer(s, call, &h->current, NULL, NULL);
    if (rc == ERR_SNAPSHOT_NO_CURRENT || rc == ERR_SNAPSHOT_BAD_CURRENT) return 0;
    if (rc != 0) return fail(why, rc, SNAPPATH_CURRENT, call);
    h->has_current = true;
    const char *key = snappath_ref_key(s, h->current.manifest_ref);
    for (size_t i = 0; key && i < h->n; i++) h->entries[i].is_current = strcmp(h->entries[i].key, key) == 0;
    return 0;
}

void history_fini(struct history *h)
{
    for (size_t i = 0; i < h->n; i++) free_entry(&h->entries[i]);
    mem_free(h->entries);
    pointer_fini(&h->current);
    *h = (struct history){0};
}

/* ---- choosing */

static int resolve_ref(struct object_store *s, struct object_call *call, const char *ref, struct buf *out, struct buf *why)
{
    struct object_meta meta;
    const char *key = strstr(ref, "://") ? snappath_ref_key(s, ref) : ref;
    if (!key) return fail(why, ERR_SNAPSHOT_ELSEWHERE, ref, &(struct object_call){0});
    int rc = object_head(s, call, key, &meta);
    if (rc == ERR_OBJECT_NOT_FOUND || rc == ERR_OBJECT_KEY) rc = ERR_SNAPSHOT_NO_REF;
    if (rc != 0) return fail(why, rc, key, call);
    buf_printf(out, "%s/%s", object_url(s), key);
    return 0;
}

static const struct history_entry *choose(const struct history *h, const struct history_pick *pick)
{
    if (pick->by_offset) return pick->offset < h->n ? &h->entries[pick->offset] : NULL;
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->entries[i].run_id, pick->run_id) == 0) return &h->entries[i];
    return NULL;
}

int history_resolve(struct object_store *s, struct object_call *call, const struct history_pick *pick, struct buf *ref, struct buf *why)
{
    struct object_call none = {0};
    struct history h;
    CHECK((pick->ref != NULL) + (pick->run_id != NULL) + pick->by_offset == 1);
    if (!call) call = &none;
    if (pick->ref) return resolve_ref(s, call, pick->ref, ref, why);
    int rc = history_load(s, call, pick->by_offset ? (size_t)pick->offset + 1 : 0, &h, why);
    const struct history_entry *e = rc == 0 ? choose(&h, pick) : NULL;
    if (e) buf_add_str(ref, e->ref);
    else if (rc == 0) {
        rc = ERR_SNAPSHOT_NO_REF;
        if (why && pick->by_offset) buf_printf(why, "offset %u of %zu", pick->offset, h.n);
        else if (why) buf_printf(why, "run %s", pick->run_id);
    }
    history_fini(&h);
    return rc;
}

/* ---- rollback */

/* A cleanup may have removed the manifest between our look and our swap; it looks at _CURRENT itself after removing manifests, but may have done so before the swap. */
static int check_still_there(struct object_store *s, struct object_call *call, const char *ref, const struct publish_base *before, int64_t now_us, struct buf *why)
{
    struct object_meta meta;
    struct publish_base ours;
    if (object_head(s, call, snappath_ref_key(s, ref), &meta) != ERR_OBJECT_NOT_FOUND) return 0;
    if (publish_observe(s, call, &ours, NULL) == 0 && ours.readable && strcmp(ours.manifest_ref, ref) == 0 && before->readable)
        publish_current(s, call, before->manifest_ref, before->run_id, &ours, now_us, NULL, NULL);
    publish_base_fini(&ours);
    if (why) buf_add_str(why, "a cleanup has removed it just now");
    return ERR_SNAPSHOT_NO_REF;
}

static int swap_to(struct object_store *s, struct object_call *call, const char *ref, const struct manifest *m, int64_t now_us, struct buf *why)
{
    struct publish_base base;
    int rc = publish_observe(s, call, &base, why);
    if (rc == 0) rc = publish_current(s, call, ref, m->run_id, &base, now_us, NULL, why);
    if (rc == 0) rc = check_still_there(s, call, ref, &base, now_us, why);
    publish_base_fini(&base);
    return rc;
}

int history_rollback(struct object_store *s, struct object_call *call, const struct history_pick *pick, int64_t now_us, struct buf *ref, struct buf *why)
{
    struct object_call none = {0};
    struct manifest *m = NULL;
    struct buf url = {0};
    if (!call) call = &none;
    int rc = history_resolve(s, call, pick, &url, why);
    buf_add_byte(&url, '\0');
    if (rc == 0) rc = history_manifest(s, call, url.p, &m, why);
    if (rc == 0) rc = swap_to(s, call, url.p, m, now_us, why);
    if (rc == 0) buf_add_str(ref, url.p);
    manifest_free(m);
    buf_fini(&url);
    return rc;
}
