/* The format: a JSON object. Written with keys sorted, without spaces, in ASCII:
 *
 *   {"format_version":1,"manifest_content_type":"application/x-sqlite3","manifest_ref":"URL","run_id":"...","updated_at":"2026-11-15T08:15:56.817359Z"}
 *
 * Read leniently: the last four are required, updated_at is any ISO 8601 time or a number of seconds, format_version is a number if it is there, other keys are ignored. */
#include "snapshot/pointer.h"

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "route/snapkey.h"
#include "snapshot/snappath.h"

static bool fail(struct buf *why, const char *what, const char *key)
{
    if (why) buf_printf(why, "_CURRENT: %s%s", key, what);
    return false;
}

static bool get_text(json_t *o, const char *key, char **text, struct buf *why)
{
    const json_t *j = json_object_get(o, key);
    if (!json_is_string(j)) return fail(why, " is missing or no text", key);
    *text = mem_strdup(json_string_value(j));
    return **text ? true : fail(why, " is empty", key);
}

static bool get_time(json_t *o, int64_t *us, struct buf *why)
{
    const json_t *j = json_object_get(o, "updated_at");
    char number[64];
    struct slice text = slice_of(json_string_value(j), json_string_length(j));
    if (json_is_number(j)) text = slice_of(number, (size_t)snprintf(number, sizeof number, "%.6f", json_number_value(j)));
    if (!text.p || text.n >= sizeof number || !snappath_parse_time(text, us)) return fail(why, " is missing or no time", "updated_at");
    return true;
}

static bool parse(json_t *o, struct pointer *p, struct buf *why)
{
    const json_t *version = json_object_get(o, "format_version");
    if (!json_is_object(o)) return fail(why, "it is no JSON object", "");
    if (version && !json_is_number(version)) return fail(why, " is no number", "format_version");
    p->format_version = version ? (json_is_integer(version) ? json_integer_value(version) : 0) : 1;
    return get_text(o, "manifest_ref", &p->manifest_ref, why) && get_text(o, "manifest_content_type", &p->manifest_content_type, why) && get_text(o, "run_id", &p->run_id, why) &&
           get_time(o, &p->updated_us, why);
}

int pointer_parse(struct slice json, struct pointer *p, struct buf *why)
{
    *p = (struct pointer){0};
    json_t *o = json_loadb(json.p ? json.p : "", json.n, 0, NULL); /* a NUL inside a text is refused, so texts are C strings */
    bool ok = parse(o, p, why);
    json_decref(o);
    if (!ok) pointer_fini(p);
    return ok ? 0 : ERR_SNAPSHOT_BAD_CURRENT;
}

void pointer_fini(struct pointer *p)
{
    mem_free(p->manifest_ref);
    mem_free(p->manifest_content_type);
    mem_free(p->run_id);
    *p = (struct pointer){0};
}

static void add_text(struct buf *out, const char *s)
{
    struct snapkey k = snapkey_text(slice_str(s));
    CHECK(snapkey_json(&k, out));
}

void pointer_write(struct buf *out, const char *manifest_ref, const char *run_id, int64_t updated_us)
{
    char ts[SNAPPATH_TIME_CHARS + 1];
    snappath_time(updated_us, ts);
    buf_add_str(out, "{\"format_version\":1,\"manifest_content_type\":\"" SNAPPATH_TYPE_SQLITE "\",\"manifest_ref\":");
    add_text(out, manifest_ref);
    buf_add_str(out, ",\"run_id\":");
    add_text(out, run_id);
    buf_printf(out, ",\"updated_at\":\"%s\"}", ts);
}
