/* _CURRENT: what the other writer wrote, what we write, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"
#include "snapgolden.h"
#include "snapshot/pointer.h"

static void read_golden(const char *name, struct buf *json)
{
    char path[200];
    snprintf(path, sizeof path, SNAPGOLDEN "fx/%s/_CURRENT", name);
    snapgolden_read(path, json);
}

static void pointers_of_the_other_writer_are_read_and_written_byte_for_byte(void **state)
{
    for (int i = 0; i < SNAPGOLDEN_COUNT; i++) {
        struct buf json = {0}, ours = {0};
        struct pointer p;
        char run[100];
        json_t *e = snapgolden_expected(snapgolden_names[i]);
        read_golden(snapgolden_names[i], &json);
        assert_int_equal(pointer_parse(buf_slice(&json), &p, NULL), 0);
        assert_string_equal(p.manifest_ref, snapgolden_text(e, "manifest_ref"));
        assert_string_equal(p.manifest_content_type, "application/x-sqlite3");
        snprintf(run, sizeof run, "run-%s", snapgolden_names[i]);
        assert_string_equal(p.run_id, run);
        assert_int_equal(p.format_version, 1);
        pointer_write(&ours, p.manifest_ref, p.run_id, p.updated_us);
        assert_true(slice_eq(buf_slice(&ours), buf_slice(&json)));
        pointer_fini(&p);
        buf_fini(&json);
        buf_fini(&ours);
        json_decref(e);
    }
}

#define REST "\"manifest_content_type\":\"t\",\"manifest_ref\":\"u\",\"run_id\":\"r\""

static void pointers_are_read_leniently(void **state)
{
    static const struct { const char *json; int64_t us; } good[] = {
        {"{" REST ",\"updated_at\":\"2026-11-15T12:00:00Z\"}", 1794744000000000},
        {" {\"updated_at\": \"2026-11-15T13:00:00.5+01:00\", " REST ", \"format_version\": 99, \"more\": [1]}\n", 1794744000500000},
        {"{" REST ",\"updated_at\":1794744000.25}", 1794744000250000},
        {"{" REST ",\"updated_at\":1794744000250}", 1794744000250000},
        {"{" REST ",\"updated_at\":\"2026-11-15\"}", 1794700800000000},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct pointer p;
        assert_int_equal(pointer_parse(slice_str(good[i].json), &p, NULL), 0);
        assert_int_equal(p.updated_us, good[i].us);
        pointer_fini(&p);
    }
}

static void pointers_without_what_is_required_are_refused(void **state)
{
    static const char *const bad[] = {
        "", "{", "[]", "null", "{}", "{" REST "}", "{" REST ",\"updated_at\":null}", "{" REST ",\"updated_at\":\"soon\"}", "{" REST ",\"updated_at\":\"2026-02-29T00:00:00Z\"}",
        "{" REST ",\"updated_at\":\"2026-11-15T12:00:00Z\",\"format_version\":\"1\"}", "{\"manifest_content_type\":\"t\",\"manifest_ref\":\"\",\"run_id\":\"r\",\"updated_at\":1}",
        "{\"manifest_content_type\":\"t\",\"manifest_ref\":\"a\\u0000b\",\"run_id\":\"r\",\"updated_at\":1}", "{\"manifest_ref\":\"u\",\"run_id\":\"r\",\"updated_at\":1}",
        "{\"manifest_content_type\":\"t\",\"manifest_ref\":\"u\",\"run_id\":7,\"updated_at\":1}", "{" REST ",\"updated_at\":1} x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pointer p;
        struct buf why = {0};
        if (pointer_parse(slice_str(bad[i]), &p, &why) != ERR_SNAPSHOT_BAD_CURRENT) fail_msg("accepted: %s", bad[i]);
        assert_true(why.len > 0);
        buf_fini(&why);
    }
}

static void every_flipped_byte_is_refused_or_reads_as_a_pointer(void **state)
{
    struct buf json = {0};
    size_t refused = 0;
    read_golden("hash-u64be", &json);
    for (size_t i = 0; i < json.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct pointer p;
            json.p[i] ^= (char)(1 << bit);
            int rc = pointer_parse(buf_slice(&json), &p, NULL);
            assert_true(rc == ERR_SNAPSHOT_BAD_CURRENT || (rc == 0 && p.manifest_ref[0] && p.run_id[0]));
            refused += rc != 0;
            pointer_fini(&p);
            json.p[i] ^= (char)(1 << bit);
        }
    assert_true(refused > 100);
    buf_fini(&json);
}

static void unusual_names_are_escaped(void **state)
{
    struct buf json = {0};
    struct pointer p;
    pointer_write(&json, "s3://b/\xc3\xa9\"\\/m", "r\n", 0);
    for (size_t i = 0; i < json.len; i++) assert_true(json.p[i] >= 0x20 && json.p[i] < 0x7f);
    assert_int_equal(pointer_parse(buf_slice(&json), &p, NULL), 0);
    assert_string_equal(p.manifest_ref, "s3://b/\xc3\xa9\"\\/m");
    assert_string_equal(p.run_id, "r\n");
    assert_int_equal(p.updated_us, 0);
    pointer_fini(&p);
    buf_fini(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_of_the_other_writer_are_read_and_written_byte_for_byte),
        cmocka_unit_test(pointers_are_read_leniently),
        cmocka_unit_test(pointers_without_what_is_required_are_refused),
        cmocka_unit_test(every_flipped_byte_is_refused_or_reads_as_a_pointer),
        cmocka_unit_test(unusual_names_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
