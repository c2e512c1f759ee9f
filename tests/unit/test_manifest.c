/* Manifests: those of another writer field by field, our own there and back, and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "snapgolden.h"
#include "snapshot/manifest.h"

/* ---- the other writer's */

static void assert_json_text(const char *text, const json_t *expected)
{
    if (!text) {
        assert_true(json_is_null(expected));
        return;
    }
    json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_true(json_equal(j, (json_t *)expected));
    json_decref(j);
}

static void assert_shard(const struct manifest_shard *s, json_t *e)
{
    assert_int_equal(s->db_id, json_integer_value(json_object_get(e, "db_id")));
    assert_string_equal(s->db_url, snapgolden_text(e, "db_url"));
    assert_int_equal(s->attempt, json_integer_value(json_object_get(e, "attempt")));
    assert_int_equal(s->row_count, json_integer_value(json_object_get(e, "row_count")));
    assert_int_equal(s->db_bytes, json_integer_value(json_object_get(e, "db_bytes")));
    assert_json_text(s->min_key, json_object_get(e, "min_key"));
    assert_json_text(s->max_key, json_object_get(e, "max_key"));
    assert_string_equal(s->checkpoint_id, snapgolden_text(e, "checkpoint_id"));
    assert_json_text(s->writer_info, json_object_get(e, "writer_info"));
    assert_false(s->has_sha256);
}

static void manifests_of_the_other_writer_are_read_field_by_field(void **state)
{
    for (int i = 0; i < SNAPGOLDEN_COUNT; i++) {
        const char *name = snapgolden_names[i];
        char text[100];
        struct buf image = {0}, why = {0};
        struct manifest *m;
        json_t *e = snapgolden_expected(name), *shards = json_object_get(e, "shards");
        snapgolden_object(snapgolden_text(e, "manifest_ref"), &image);
        assert_int_equal(manifest_parse(buf_slice(&image), &m, &why), 0);
        snprintf(text, sizeof text, "run-%s", name);
        assert_string_equal(m->run_id, text);
        snprintf(text, sizeof text, "s3://fx/%s", name);
        assert_string_equal(m->s3_prefix, text);
        assert_string_equal(m->key_col, "_key");
        assert_string_equal(m->shard_prefix, "shards");
        assert_string_equal(m->db_path_template, "db={db_id:05d}");
        assert_int_equal(m->n_shards, json_array_size(shards));
        for (uint32_t k = 0; k < m->n_shards; k++) assert_shard(&m->shards[k], json_array_get(shards, k));
        struct router *r = manifest_router(m, &why);
        assert_non_null(r);
        assert_int_equal(router_shards(r), m->num_dbs);
        router_free(r);
        manifest_free(m);
        buf_fini(&image);
        json_decref(e);
    }
}

static struct manifest *golden(const char *name)
{
    struct buf image = {0};
    struct manifest *m;
    snapgolden_manifest(name, &image);
    assert_int_equal(manifest_parse(buf_slice(&image), &m, NULL), 0);
    buf_fini(&image);
    return m;
}

static void sharding_and_custom_of_the_other_writer_are_understood(void **state)
{
    struct manifest *m = golden("cel-cat");
    assert_true(m->is_cel && slice_eq(m->cel.expr, SLICE("region")) && m->num_dbs == 4 && m->key_encoding == SNAPKEY_UTF8);
    assert_int_equal(m->cel.n_columns, 1);
    assert_true(slice_eq(m->cel.columns[0].name, SLICE("region")) && slice_eq(m->cel.columns[0].type, SLICE("string")));
    assert_int_equal(m->cel.tokens, ROUTER_TOKENS_TEXT);
    assert_int_equal(m->cel.n_tokens, 4);
    assert_true(slice_eq(m->cel.texts[0], SLICE("ap")) && slice_eq(m->cel.texts[3], SLICE("none")));
    manifest_free(m);
    m = golden("cel-direct");
    assert_true(m->is_cel && m->cel.tokens == ROUTER_TOKENS_NONE && m->num_dbs == 5 && m->key_encoding == SNAPKEY_U64BE);
    manifest_free(m);
    m = golden("hash-u64be");
    assert_true(!m->is_cel && m->num_dbs == 4 && !m->is_vector);
    assert_string_equal(m->created_at, "2026-11-15T08:21:24.409785Z");
    assert_int_equal(m->created_us, 1794730884409785);
    assert_string_equal(m->custom, "{\"n\": 1, \"owner\": \"fixture\", \"sqlite_sidecar\": {\"codec\": \"zstd\", \"filename\": \"shard.sidecar\", \"format_version\": 8, \"page_size\": 4096}}");
    assert_int_equal(manifest_rows(m), 1503);
    manifest_free(m);
    m = golden("hash-sparse-nosidecar");
    assert_null(manifest_find(m, 0));
    assert_int_equal(manifest_find(m, 13)->db_id, 13);
    assert_null(manifest_find(m, 15));
    manifest_free(m);
}

/* ---- there and back */

static struct manifest *sample(void)
{
    struct manifest *m = manifest_new();
    m->run_id = "r";
    m->s3_prefix = "s3://bucket/p";
    m->num_dbs = 3;
    m->key_encoding = SNAPKEY_RAW;
    manifest_set_created(m, 1794744000000001);
    manifest_add_shard(m, &(struct manifest_shard){.db_id = 2, .db_url = "s3://b/2", .attempt = 1, .row_count = 9, .db_bytes = 8192, .min_key = "18446744073709551615", .has_sha256 = true, .sha256 = {1, 0xfe}});
    manifest_add_shard(m, &(struct manifest_shard){.db_id = 0, .db_url = "s3://b/0", .checkpoint_id = "c", .max_key = "\"\\u00e9\"", .writer_info = "{\"attempt\": 0}"});
    return m;
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a) assert_string_equal(a, b);
}

static void assert_same(const struct manifest *a, const struct manifest *b)
{
    struct buf x = {0}, y = {0};
    assert_int_equal(a->n_shards, b->n_shards);
    for (uint32_t i = 0; i < a->n_shards; i++) {
        const struct manifest_shard *s = &a->shards[i], *t = &b->shards[i];
        assert_true(s->db_id == t->db_id && s->attempt == t->attempt && s->row_count == t->row_count && s->db_bytes == t->db_bytes && s->has_sha256 == t->has_sha256);
        assert_memory_equal(s->sha256, t->sha256, sizeof s->sha256);
        assert_same_text(s->db_url, t->db_url);
        assert_same_text(s->min_key, t->min_key);
        assert_same_text(s->max_key, t->max_key);
        assert_same_text(s->checkpoint_id, t->checkpoint_id);
        assert_same_text(s->writer_info, t->writer_info);
    }
    assert_int_equal(manifest_write(a, &x, NULL), 0);
    assert_int_equal(manifest_write(b, &y, NULL), 0);
    assert_true(slice_eq(buf_slice(&x), buf_slice(&y)));
    buf_fini(&x);
    buf_fini(&y);
}

static struct manifest *there_and_back(const struct manifest *m)
{
    struct buf image = {0}, why = {0};
    struct manifest *back = NULL;
    int rc = manifest_write(m, &image, &why);
    if (rc == 0) rc = manifest_parse(buf_slice(&image), &back, &why);
    if (rc != 0) fail_msg("%.*s", (int)why.len, why.p);
    buf_fini(&image);
    buf_fini(&why);
    return back;
}

static void what_is_written_is_read_back_the_same(void **state)
{
    struct manifest *m = sample(), *back = there_and_back(m);
    assert_int_equal(back->shards[0].db_id, 0);
    assert_same(m, back);
    manifest_free(back);
    int64_t ints[] = {-5, 0, INT64_MAX};
    struct slice texts[] = {SLICE("b"), SLICE("\xc3\xa9\0x"), SLICE("")};
    struct router_column columns[] = {{SLICE("key"), SLICE("int")}, {SLICE("a"), SLICE("bytes")}};
    struct router_cel cel = {.expr = SLICE("key \"'\n"), .columns = columns, .n_columns = 2};
    for (int kind = ROUTER_TOKENS_NONE; kind <= ROUTER_TOKENS_TEXT; kind++) {
        cel.tokens = (enum router_token_kind)kind;
        cel.n_tokens = kind ? 3 : 0;
        cel.ints = ints;
        cel.texts = texts;
        manifest_set_cel(m, &cel);
        back = there_and_back(m);
        assert_same(m, back);
        assert_int_equal(back->cel.tokens, kind);
        assert_true(kind != ROUTER_TOKENS_TEXT || slice_eq(back->cel.texts[1], texts[1]));
        assert_true(kind != ROUTER_TOKENS_INT || back->cel.ints[2] == INT64_MAX);
        assert_true(slice_eq(back->cel.columns[0].name, SLICE("a"))); /* written sorted */
        manifest_free(back);
    }
    manifest_free(m);
}

static void golden_manifests_survive_our_writer(void **state)
{
    for (int i = 0; i < SNAPGOLDEN_COUNT; i++) {
        struct manifest *m = golden(snapgolden_names[i]), *back = there_and_back(m);
        assert_same(m, back);
        manifest_free(back);
        manifest_free(m);
    }
}

static void random_manifests_are_read_back_the_same(void **state)
{
    struct rng r;
    rng_init(&r, 4);
    for (int round = 0; round < 50; round++) {
        struct manifest *m = sample();
        m->n_shards = 0;
        m->num_dbs = 1 + (uint32_t)rng_below(&r, 2000);
        m->key_encoding = (enum snapkey_encoding)rng_below(&r, SNAPKEY_ENCODINGS);
        for (uint32_t id = 0; id < m->num_dbs; id++) {
            char url[64];
            if (rng_below(&r, 3) == 0) continue;
            snprintf(url, sizeof url, "file:///%x", (unsigned)rng_u64(&r));
            struct manifest_shard s = {.db_id = id, .db_url = url, .attempt = (uint32_t)rng_below(&r, 9), .row_count = rng_u64(&r) >> 1, .db_bytes = rng_u64(&r) >> 1, .has_sha256 = rng_below(&r, 2)};
            for (int b = 0; b < 32 && s.has_sha256; b++) s.sha256[b] = (uint8_t)rng_u64(&r);
            manifest_add_shard(m, &s);
        }
        struct manifest *back = there_and_back(m);
        assert_same(m, back);
        manifest_free(back);
        manifest_free(m);
    }
}

static void custom_fields_are_added_and_never_replaced(void **state)
{
    struct manifest *m = sample();
    assert_true(manifest_add_custom(m, "z", "[1, \"two\"]"));
    assert_true(manifest_add_custom(m, "a", "{\"k\": null}"));
    assert_string_equal(m->custom, "{\"a\": {\"k\": null}, \"z\": [1, \"two\"]}");
    assert_false(manifest_add_custom(m, "a", "1"));
    assert_false(manifest_add_custom(m, "b", "nonsense"));
    manifest_free(m);
}

static void what_a_reader_would_refuse_is_not_written(void **state)
{
    struct buf image = {0}, why = {0};
    struct manifest *m = sample();
    m->num_dbs = 2; /* shard 2 is there */
    assert_int_equal(manifest_write(m, &image, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    m->num_dbs = 3;
    m->custom = "[]";
    assert_int_equal(manifest_write(m, &image, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    m->custom = "{}";
    manifest_add_shard(m, &m->shards[0]);
    assert_int_equal(manifest_write(m, &image, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    struct router_column column = {SLICE("key"), SLICE("int")};
    manifest_set_cel(m, &(struct router_cel){.expr = SLICE("\xff"), .columns = &column, .n_columns = 1});
    assert_int_equal(manifest_write(m, &image, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    assert_int_equal(image.len, 0);
    manifest_free(m);
    buf_fini(&why);
}

/* ---- what is refused */

/* The sample's image after some SQL, made with SQLite as anybody could. */
static void edit(const char *sql, struct buf *out)
{
    struct manifest *m = sample();
    struct buf image = {0};
    sqlite3 *db;
    sqlite3_int64 n;
    assert_int_equal(manifest_write(m, &image, NULL), 0);
    manifest_free(m);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    unsigned char *copy = sqlite3_malloc64(image.len);
    memcpy(copy, image.p, image.len);
    sqlite3_deserialize(db, "main", copy, (sqlite3_int64)image.len, (sqlite3_int64)image.len, SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    unsigned char *edited = sqlite3_serialize(db, "main", &n, 0);
    buf_add(out, edited, (size_t)n);
    sqlite3_free(edited);
    sqlite3_close(db);
    buf_fini(&image);
}

static int parse_edited(const char *sql)
{
    struct buf image = {0}, why = {0};
    struct manifest *m = NULL;
    edit(sql, &image);
    int rc = manifest_parse(buf_slice(&image), &m, &why);
    assert_int_equal(rc != 0, why.len != 0);
    manifest_free(m);
    buf_fini(&image);
    buf_fini(&why);
    return rc;
}

static void whatever_breaks_a_rule_is_refused(void **state)
{
    static const char *const bad[] = {
        "DROP TABLE shards", "DROP TABLE build_meta", "DELETE FROM build_meta", "ALTER TABLE shards DROP COLUMN attempt", "ALTER TABLE build_meta RENAME COLUMN custom TO custum",
        "UPDATE build_meta SET format_version = 3", "UPDATE build_meta SET format_version = 5", "UPDATE build_meta SET format_version = 'x'", "UPDATE build_meta SET num_dbs = 0",
        "UPDATE build_meta SET num_dbs = -1", "UPDATE build_meta SET num_dbs = 2", "UPDATE build_meta SET num_dbs = 5000000000", "UPDATE build_meta SET num_dbs = 2.5",
        "UPDATE build_meta SET key_encoding = 'u16be'", "UPDATE build_meta SET created_at = 'yesterday'", "UPDATE build_meta SET run_id = ''", "UPDATE build_meta SET run_id = x'41'",
        "UPDATE build_meta SET run_id = CAST(x'41ff' AS TEXT)", "UPDATE build_meta SET run_id = CAST(x'410041' AS TEXT)", "UPDATE build_meta SET custom = '[]'", "UPDATE build_meta SET custom = '{'",
        "UPDATE build_meta SET sharding = ''", "UPDATE build_meta SET sharding = '{}'", "UPDATE build_meta SET sharding = '{\"strategy\": \"hash\"}'",
        "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"md5\"}'", "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"extra\": null}'",
        "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"strategy\": \"range\"}'", "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"strategy\": null}'",
        "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"cel_expr\": \"key\"}'", "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"routing_values\": []}'",
#define CEL(rest) "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\", \"strategy\": \"cel\"" rest "}'"
        CEL(""), CEL(", \"cel_expr\": \"key\""), CEL(", \"cel_expr\": \"\", \"cel_columns\": {\"key\": \"int\"}"), CEL(", \"cel_expr\": \"key\", \"cel_columns\": {}"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"list\"}"), CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [1, 2]"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [1, 2, 2]"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [1, 2, \"3\"]"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [true, false, 1]"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [1.5, 2.5, 3.5]"),
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": {}"),
        "UPDATE shards SET db_id = 3 WHERE db_id = 2", "UPDATE shards SET db_id = -1 WHERE db_id = 2", "UPDATE shards SET attempt = -1", "UPDATE shards SET row_count = -1", "UPDATE shards SET db_bytes = -1",
        "UPDATE shards SET row_count = 'many'", "UPDATE shards SET min_key = '1.5'", "UPDATE shards SET min_key = '[1]'", "UPDATE shards SET min_key = '01'", "UPDATE shards SET max_key = 'text'",
        "UPDATE shards SET writer_info = ''", "UPDATE shards SET writer_info = '3'", "UPDATE shards SET db_url = ''", "UPDATE shards SET db_url = 7.5; UPDATE shards SET db_url = x'00'",
        "UPDATE x_shards SET sha256 = 'short'", "UPDATE x_shards SET sha256 = upper(sha256)", "UPDATE x_shards SET bytes = 1",
        "ALTER TABLE shards RENAME TO s2; CREATE VIEW shards AS SELECT * FROM s2",
        "ALTER TABLE shards RENAME TO s2; CREATE VIEW shards AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS db_id FROM r",
        "PRAGMA journal_mode = DELETE; CREATE TABLE copy AS SELECT * FROM shards; DROP TABLE shards; ALTER TABLE copy RENAME TO shards; INSERT INTO shards SELECT * FROM shards",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse_edited(bad[i]) != ERR_SNAPSHOT_BAD_MANIFEST) fail_msg("accepted: %s", bad[i]);
}

static void whatever_the_format_allows_is_accepted(void **state)
{
    static const char *const good[] = {
        "CREATE TABLE more (a, b)", "ALTER TABLE shards ADD COLUMN extra TEXT DEFAULT 'x'", "ALTER TABLE build_meta ADD COLUMN extra INTEGER", "DROP TABLE x_shards", "CREATE INDEX i ON shards(db_url)",
        "UPDATE build_meta SET custom = ''", "UPDATE build_meta SET custom = '{\"n\": 123456789012345678901234567890}'", "UPDATE build_meta SET created_at = '2026-11-15T08:15:56+01:00'",
        "UPDATE build_meta SET created_at = '2026-11-15 08:15'", "UPDATE build_meta SET sharding = '{\"hash_algorithm\": \"xxh3_64\"}'", "DELETE FROM shards", "UPDATE shards SET db_url = NULL",
        "UPDATE shards SET min_key = 'null'", "UPDATE shards SET min_key = '-12'", "UPDATE shards SET writer_info = '{\"unknown\": [1]}'",
        CEL(", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": [1, 2, 3]"), CEL(", \"cel_expr\": \"no cel at all (\", \"cel_columns\": {\"key\": \"int\"}"),
        "DELETE FROM shards; UPDATE build_meta SET num_dbs = 1, sharding = '{\"hash_algorithm\": \"xxh3_64\", \"strategy\": \"cel\", \"cel_expr\": \"key\", \"cel_columns\": {\"key\": \"int\"}, \"routing_values\": []}'",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (parse_edited(good[i]) != 0) fail_msg("refused: %s", good[i]);
}

static void a_header_that_asks_for_a_log_is_refused_and_bytes_behind_the_end_are_not(void **state)
{
    struct buf image = {0}, why = {0};
    struct manifest *m;
    snapgolden_manifest("hash-u64be", &image);
    buf_add_str(&image, "trailing bytes");
    assert_int_equal(manifest_parse(buf_slice(&image), &m, NULL), 0);
    manifest_free(m);
    image.p[18] = image.p[19] = 2;
    assert_int_equal(manifest_parse(buf_slice(&image), &m, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    assert_int_equal(manifest_parse(SLICE(""), &m, &why), ERR_SNAPSHOT_BAD_MANIFEST);
    buf_fini(&image);
    buf_fini(&why);
}

static void a_snapshot_of_vectors_says_so(void **state)
{
    static const struct { const char *sql; bool is; } cases[] = {
        {"UPDATE build_meta SET custom = '{\"vector\": {\"dim\": 3}}'", true},
        {"UPDATE build_meta SET custom = '{\"vector\": {\"unified\": true}}'", false},
        {"UPDATE build_meta SET custom = '{\"vector\": 1}'", false},
    };
    for (size_t i = 0; i < 3; i++) {
        struct buf image = {0};
        struct manifest *m;
        edit(cases[i].sql, &image);
        assert_int_equal(manifest_parse(buf_slice(&image), &m, NULL), 0);
        assert_int_equal(m->is_vector, cases[i].is);
        manifest_free(m);
        buf_fini(&image);
    }
}

static void every_flipped_byte_is_refused_or_reads_as_a_whole_manifest(void **state)
{
    struct buf image = {0};
    size_t refused = 0;
    snapgolden_manifest("cel-cat", &image);
    for (size_t i = 0; i < image.len; i++) {
        struct manifest *m = NULL;
        char was = image.p[i];
        image.p[i] = (char)(was ^ (i % 2 ? 0xff : 1 << i % 8));
        int rc = manifest_parse(buf_slice(&image), &m, NULL);
        assert_true(rc == 0 || rc == ERR_SNAPSHOT_BAD_MANIFEST);
        refused += rc != 0;
        for (uint32_t k = 0; rc == 0 && k < m->n_shards; k++) assert_true(m->shards[k].db_id < m->num_dbs && m->shards[k].db_url && (k == 0 || m->shards[k - 1].db_id < m->shards[k].db_id));
        manifest_free(m);
        image.p[i] = was;
    }
    assert_true(refused > 100);
    buf_fini(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifests_of_the_other_writer_are_read_field_by_field),
        cmocka_unit_test(sharding_and_custom_of_the_other_writer_are_understood),
        cmocka_unit_test(what_is_written_is_read_back_the_same),
        cmocka_unit_test(golden_manifests_survive_our_writer),
        cmocka_unit_test(random_manifests_are_read_back_the_same),
        cmocka_unit_test(custom_fields_are_added_and_never_replaced),
        cmocka_unit_test(what_a_reader_would_refuse_is_not_written),
        cmocka_unit_test(whatever_breaks_a_rule_is_refused),
        cmocka_unit_test(whatever_the_format_allows_is_accepted),
        cmocka_unit_test(a_header_that_asks_for_a_log_is_refused_and_bytes_behind_the_end_are_not),
        cmocka_unit_test(a_snapshot_of_vectors_says_so),
        cmocka_unit_test(every_flipped_byte_is_refused_or_reads_as_a_whole_manifest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
