/* sherd snapshot info, shards, health, history, and refresh and use of its shell. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/progress.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"
#include "snapshot/history.h"
#include "snapshot/snappath.h"

static json_t *string_or_null(const char *s) { return s ? snapread_bytes(s, strlen(s)) : json_null(); }

static json_t *json_or_null(const char *text)
{
    json_t *j = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    return j ? j : string_or_null(text);
}

static void add(json_t *doc, const char *name, json_t *value) { json_object_set_new(doc, name, value); }

/* ---- info */

static const char *mode_name(const struct snapread *r, enum sherd_mode mode)
{
    if (mode == SHERD_RANGE) return "range";
    return strncmp(r->args->url, "file://", 7) == 0 && !r->args->reader.cache_dir ? "in place" : "download";
}

int snapread_info(struct snapread *r)
{
    struct sherd_info i = {.size = sizeof i};
    sherd_reader_info(r->reader, &i, NULL);
    json_t *doc = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:s, s:s}", "op", "info", "run_id", i.run_id, "num_dbs", (json_int_t)i.num_dbs, "sharding", i.sharding, "created_at",
                            i.created_at, "manifest_ref", i.manifest_ref, "row_count", (json_int_t)i.row_count, "key_encoding", i.key_encoding, "hash_algorithm", i.hash_algorithm);
    add(doc, "cel_expr", string_or_null(i.cel_expr));
    add(doc, "db_bytes", json_integer((json_int_t)i.db_bytes));
    add(doc, "mode", json_string(mode_name(r, i.mode)));
    add(doc, "shards_open", json_integer(i.shards_open));
    add(doc, "pinned", json_boolean(i.pinned));
    add(doc, "fell_back", json_boolean(i.fell_back));
    add(doc, "custom", json_or_null(i.custom));
    sherd_info_free(&i);
    return snapread_show(r, doc, NULL);
}

/* ---- shards */

static void shards_text(FILE *out, const json_t *doc)
{
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(doc, "shards"), i, s) {
        char size[PROGRESS_SIZE_MAX];
        const char *url = json_string_value(json_object_get(s, "db_url"));
        fprintf(out, "shard %" JSON_INTEGER_FORMAT ": ", json_integer_value(json_object_get(s, "db_id")));
        if (url)
            fprintf(out, "%" JSON_INTEGER_FORMAT " rows, %s, %s\n", json_integer_value(json_object_get(s, "row_count")),
                    progress_size(size, (uint64_t)json_integer_value(json_object_get(s, "db_bytes"))), url);
        else
            fprintf(out, "empty\n");
    }
}

int snapread_shards(struct snapread *r)
{
    struct sherd_shard *shards;
    size_t n;
    sherd_reader_shards(r->reader, &shards, &n, NULL);
    json_t *rows = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct sherd_shard *s = &shards[i];
        json_t *row = json_pack("{s:I, s:I}", "db_id", (json_int_t)s->db_id, "row_count", (json_int_t)s->row_count);
        add(row, "min_key", json_or_null(s->min_key));
        add(row, "max_key", json_or_null(s->max_key));
        add(row, "db_url", string_or_null(s->db_url));
        add(row, "db_bytes", json_integer((json_int_t)s->db_bytes));
        add(row, "checkpoint_id", string_or_null(s->checkpoint_id));
        add(row, "sha256", string_or_null(s->sha256));
        json_array_append_new(rows, row);
    }
    sherd_shards_free(shards, n);
    return snapread_show(r, json_pack("{s:s, s:o}", "op", "shards", "shards", rows), shards_text);
}

/* ---- health */

/* 0 healthy, 1 degraded, 2 unhealthy. */
int snapread_health(struct snapread *r)
{
    static const char *const names[] = {"healthy", "degraded", "unhealthy"};
    struct sherd_health h = {.size = sizeof h};
    sherd_reader_health(r->reader, r->args->staleness_seconds, &h, NULL);
    json_t *doc = json_pack("{s:s, s:s, s:s, s:f, s:I, s:b}", "op", "health", "status", names[h.status], "manifest_ref", h.manifest_ref, "manifest_age_seconds", h.age_seconds, "num_shards",
                            (json_int_t)h.num_shards, "is_closed", 0);
    if (h.reason[0]) add(doc, "reason", snapread_bytes(h.reason, strlen(h.reason)));
    int code = snapread_show(r, doc, NULL);
    return code == EXIT_WELL ? (int)h.status : code;
}

/* ---- history */

static void history_text(FILE *out, const json_t *doc)
{
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(doc, "manifests"), i, m) {
        fprintf(out, "%c %" JSON_INTEGER_FORMAT "  %s  %s  %s\n", json_is_true(json_object_get(m, "current")) ? '*' : ' ', json_integer_value(json_object_get(m, "offset")),
                json_string_value(json_object_get(m, "published_at")), json_string_value(json_object_get(m, "run_id")), json_string_value(json_object_get(m, "ref")));
    }
}

int snapread_history(struct snapread *r)
{
    struct history h = {0};
    struct buf why = {0};
    struct object_store *store = snapread_store(r, "history");
    if (!store) return EXIT_TROUBLE;
    size_t limit = r->args->has_limit ? (size_t)r->args->limit : 10;
    int rc = history_load(store, NULL, limit, &h, &why);
    int code;
    if (rc < 0) {
        buf_add_byte(&why, 0);
        code = snapread_fail(r, "history", NULL, why.len > 1 ? why.p : err_text(rc));
    } else {
        json_t *rows = json_array();
        for (size_t i = 0; i < h.n; i++) {
            char time[SNAPPATH_TIME_CHARS + 1];
            snappath_time(h.entries[i].published_us, time);
            json_array_append_new(rows, json_pack("{s:I, s:o, s:s, s:o, s:b}", "offset", (json_int_t)i, "run_id", string_or_null(h.entries[i].run_id), "published_at", time, "ref",
                                                  string_or_null(h.entries[i].ref), "current", h.entries[i].is_current));
        }
        code = snapread_show(r, json_pack("{s:s, s:o}", "op", "history", "manifests", rows), history_text);
    }
    history_fini(&h);
    buf_fini(&why);
    return code;
}

/* ---- switching, in the shell */

static int show_switch(struct snapread *r, const char *op, int rc, const struct sherd_error *why)
{
    static const char *const outcomes[] = {"unchanged", "switched", "kept"};
    if (rc < 0) return snapread_fail(r, op, NULL, why->text);
    struct sherd_info i = {.size = sizeof i};
    sherd_reader_info(r->reader, &i, NULL);
    json_t *doc = json_pack("{s:s, s:b, s:s, s:s}", "op", op, "changed", rc == SHERD_SWITCHED, "outcome", outcomes[rc], "manifest_ref", i.manifest_ref);
    if (rc == SHERD_KEPT) add(doc, "reason", snapread_bytes(why->text, strlen(why->text)));
    sherd_info_free(&i);
    return snapread_show(r, doc, NULL);
}

int snapread_refresh(struct snapread *r)
{
    struct sherd_error why;
    return show_switch(r, "refresh", sherd_reader_refresh(r->reader, &why), &why);
}

int snapread_use(struct snapread *r)
{
    struct sherd_error why;
    const struct sherd_pin *pin = &r->args->reader.pin;
    if (!r->args->latest && !pin->ref && !pin->run_id && !pin->by_offset) {
        fprintf(stderr, "sherd: use: one of --ref, --run-id, --offset, --latest is needed\n");
        return EXIT_USAGE;
    }
    return show_switch(r, "use", sherd_reader_use(r->reader, r->args->latest ? NULL : pin, &why), &why);
}
