/* sherd snapshot rollback, cleanup, verify: what works on the store itself. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/progress.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"
#include "snapshot/cleanup.h"
#include "snapshot/history.h"
#include "snapshot/manifest.h"
#include "snapshot/verify.h"

static json_t *string_or_null(const char *s) { return s ? snapread_bytes(s, strlen(s)) : json_null(); }

static int fail(struct snapread *r, const char *op, int rc, struct buf *why)
{
    struct buf text = {0};
    buf_add_str(&text, err_text(rc));
    if (why->len && !(why->len == text.len && memcmp(why->p, text.p, text.len) == 0)) buf_printf(&text, ": %.*s", (int)why->len, why->p);
    buf_add_byte(&text, 0);
    snapread_fail(r, op, NULL, text.p);
    buf_fini(&text);
    return EXIT_TROUBLE;
}

/* Which snapshot the options name; false: none. */
static bool pick_of(const struct snapread *r, struct history_pick *pick)
{
    const struct sherd_pin *pin = &r->args->reader.pin;
    *pick = (struct history_pick){.ref = pin->ref, .run_id = pin->run_id, .by_offset = pin->by_offset, .offset = pin->offset};
    return pin->ref || pin->run_id || pin->by_offset;
}

/* ---- rollback */

static void rollback_text(FILE *out, const json_t *doc) { fprintf(out, "Rolled back _CURRENT to: %s\n", json_string_value(json_object_get(doc, "manifest_ref"))); }

int snapread_rollback(struct snapread *r)
{
    struct history_pick pick;
    struct buf ref = {0}, why = {0};
    if (!pick_of(r, &pick)) {
        fprintf(stderr, "sherd: rollback: one of --ref, --run-id, --offset is needed\n");
        return EXIT_USAGE;
    }
    struct object_store *store = snapread_store(r, "rollback");
    if (!store) return EXIT_TROUBLE;
    int rc = history_rollback(store, NULL, &pick, clock_unix_us(), &ref, &why);
    int code = rc < 0 ? fail(r, "rollback", rc, &why) : snapread_show(r, json_pack("{s:s, s:o}", "op", "rollback", "manifest_ref", json_stringn(ref.p, ref.len)), rollback_text);
    buf_fini(&ref);
    buf_fini(&why);
    return code;
}

/* ---- cleanup */

static json_t *cleanup_doc(const struct cleanup_options *o, const struct cleanup_report *p)
{
    json_t *items = json_array(), *live = json_array();
    for (size_t i = 0; i < p->n; i++) {
        const struct cleanup_item *c = &p->items[i];
        json_array_append_new(items, json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:b}", "kind", cleanup_kind_name(c->kind), "key", string_or_null(c->key), "run_id", string_or_null(c->run_id),
                                               "reason", c->reason, "objects", (json_int_t)c->objects, "bytes", (json_int_t)c->bytes, "deleted", c->deleted));
    }
    for (size_t i = 0; i < p->n_live; i++) json_array_append_new(live, string_or_null(p->live_runs[i]));
    return json_pack("{s:s, s:b, s:o, s:I, s:I, s:I, s:o}", "op", "cleanup", "dry_run", o->dry_run, "live_runs", live, "kept_snapshots", (json_int_t)p->kept_snapshots,
                     "total_objects_deleted", (json_int_t)p->objects_deleted, "total_bytes_deleted", (json_int_t)p->bytes_deleted, "items", items);
}

static void cleanup_text(FILE *out, const json_t *doc)
{
    bool dry = json_is_true(json_object_get(doc, "dry_run"));
    json_int_t objects = json_integer_value(json_object_get(doc, "total_objects_deleted")), bytes = json_integer_value(json_object_get(doc, "total_bytes_deleted"));
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(doc, "items"), i, item) {
        if (dry) objects += json_integer_value(json_object_get(item, "objects"));
        if (dry) bytes += json_integer_value(json_object_get(item, "bytes"));
        bool deleted = json_is_true(json_object_get(item, "deleted"));
        fprintf(out, "%s %s (%s)\n", deleted ? "deleted" : dry ? "would delete" : "could not delete", json_string_value(json_object_get(item, "key")),
                json_string_value(json_object_get(item, "reason")));
    }
    json_array_foreach(json_object_get(doc, "live_runs"), i, item) fprintf(out, "spared run %s: its builder is at work\n", json_string_value(item));
    char size[PROGRESS_SIZE_MAX];
    fprintf(out, "%" JSON_INTEGER_FORMAT " objects, %s %s; %" JSON_INTEGER_FORMAT " snapshots %s\n", objects, progress_size(size, (uint64_t)bytes), dry ? "would be deleted" : "deleted",
            json_integer_value(json_object_get(doc, "kept_snapshots")), dry ? "stay" : "kept");
}

int snapread_cleanup(struct snapread *r)
{
    const struct snapread_args *a = r->args;
    struct cleanup_options o = {
        .dry_run = a->dry_run, .now_us = clock_unix_us(), .keep_last = (uint32_t)a->keep_last, .older_than_us = a->older_than_us, .orphan_age_us = a->orphan_age_us};
    struct cleanup_report report = {0};
    struct buf why = {0};
    struct object_store *store = snapread_store(r, "cleanup");
    if (!store) return EXIT_TROUBLE;
    int rc = cleanup_run(store, NULL, &o, &report, &why);
    int code = snapread_show(r, cleanup_doc(&o, &report), cleanup_text);
    if (rc < 0) code = fail(r, "cleanup", rc, &why);
    cleanup_report_fini(&report);
    buf_fini(&why);
    return code;
}

/* ---- verify */

struct verifying {
    struct snapread *r;
    json_t *shards;
    uint64_t faulty;
};

static void note_shard(void *arg, const struct verify_shard *v)
{
    struct verifying *t = arg;
    t->faulty += v->state != VERIFY_OK;
    json_array_append_new(t->shards, json_pack("{s:I, s:s, s:I, s:b, s:o, s:o}", "db_id", (json_int_t)v->shard->db_id, "state", verify_state_name(v->state), "rows", (json_int_t)v->rows,
                                               "checksum", v->checksum_known, "db_url", string_or_null(v->shard->db_url), "detail", string_or_null(v->detail)));
}

static void verify_text(FILE *out, const json_t *doc)
{
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(doc, "shards"), i, s) {
        const char *detail = json_string_value(json_object_get(s, "detail"));
        fprintf(out, "shard %" JSON_INTEGER_FORMAT ": %s%s%s\n", json_integer_value(json_object_get(s, "db_id")), json_string_value(json_object_get(s, "state")), detail && *detail ? ": " : "",
                detail ? detail : "");
    }
    fprintf(out, "%s: %s\n", json_string_value(json_object_get(doc, "manifest_ref")), json_is_true(json_object_get(doc, "ok")) ? "in order" : "NOT in order");
}

/* The manifest that the options name, or the current one. */
static int load_manifest(struct snapread *r, struct object_store *store, struct manifest **m, struct buf *ref, struct buf *why)
{
    struct history_pick pick;
    if (pick_of(r, &pick)) {
        int rc = history_resolve(store, NULL, &pick, ref, why);
        if (rc < 0) return rc;
    } else {
        struct pointer p = {0};
        int rc = history_pointer(store, NULL, &p, NULL, why);
        if (rc == 0) buf_add_str(ref, p.manifest_ref);
        pointer_fini(&p);
        if (rc < 0) return rc;
    }
    buf_add_byte(ref, 0);
    return history_manifest(store, NULL, ref->p, m, why);
}

int snapread_verify(struct snapread *r)
{
    struct manifest *m = NULL;
    struct buf ref = {0}, why = {0};
    struct verifying t = {.r = r};
    struct object_store *store = snapread_store(r, "verify");
    if (!store) return EXIT_TROUBLE;
    int rc = load_manifest(r, store, &m, &ref, &why), code;
    if (rc < 0) {
        code = fail(r, "verify", rc, &why);
    } else {
        struct verify_options o = {.shallow = r->args->shallow, .objects = &r->args->objects};
        t.shards = json_array();
        rc = verify_snapshot(store, NULL, m, &o, note_shard, &t);
        code = snapread_show(r, json_pack("{s:s, s:s, s:b, s:o}", "op", "verify", "manifest_ref", ref.p, "ok", rc == 0, "shards", t.shards), verify_text);
        if (rc < 0) code = fail(r, "verify", rc, &why);
    }
    manifest_free(m);
    buf_fini(&ref);
    buf_fini(&why);
    return code;
}
