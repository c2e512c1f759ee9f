/* Shard files say what was written into them, over every kind of source; damage is found or harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shardrows.h"
#include "snapshot/leafindex.h"
#include "snapshot/pagefile.h"
#include "snapshot/shardread.h"

static void assert_slice(struct slice got, struct slice want)
{
    assert_int_equal(got.n, want.n);
    if (want.n) assert_memory_equal(got.p, want.p, want.n);
}

/* A key that is not there, near one that is. */
static struct buf near_key(struct rng *rng, struct slice key)
{
    struct buf b = {0};
    buf_add_slice(&b, key);
    if (b.len && rng_below(rng, 2)) b.p[rng_below(rng, b.len)] ^= (char)(1 << rng_below(rng, 8));
    else if (b.len && rng_below(rng, 2)) b.len--;
    else buf_add_byte(&b, (char)rng_u64(rng));
    return b;
}

static void check_gets(const struct shardread *r, const struct shardrows *rows, struct rng *rng)
{
    struct buf buf = {0};
    struct slice value;
    for (size_t i = 0; i < rows->n; i++) {
        assert_int_equal(shardread_get(r, rows->rows[i].key, &buf, &value), 1);
        assert_slice(value, rows->rows[i].value);
        struct buf other = near_key(rng, rows->rows[i].key);
        size_t at = shardrows_seek(rows, buf_slice(&other));
        bool there = at < rows->n && slice_eq(rows->rows[at].key, buf_slice(&other));
        assert_int_equal(shardread_get(r, buf_slice(&other), &buf, &value), there);
        buf_fini(&other);
    }
    buf_fini(&buf);
}

static void check_get_many(const struct shardread *r, const struct shardrows *rows, struct rng *rng)
{
    size_t n = rows->n + 7;
    struct shardread_ask *asks = mem_zalloc(n * sizeof *asks);
    struct buf buf = {0};
    size_t *which = mem_alloc(n * sizeof *which);
    for (size_t i = 0; i < n; i++) {
        which[i] = rows->n ? rng_below(rng, rows->n) : 0;
        asks[i].key = i % 5 == 4 || rows->n == 0 ? SLICE("no such key at all") : rows->rows[which[i]].key;
    }
    assert_int_equal(shardread_get_many(r, asks, n, &buf), 0);
    for (size_t i = 0; i < n; i++) {
        bool there = i % 5 != 4 && rows->n;
        assert_int_equal(asks[i].rc, there);
        if (there) assert_slice(asks[i].value, rows->rows[which[i]].value);
    }
    mem_free(which);
    mem_free(asks);
    buf_fini(&buf);
}

static void assert_row(struct shardread_cursor *c, const struct shardrow *row)
{
    struct slice value;
    assert_slice(shardread_key(c), row->key);
    assert_int_equal(shardread_value(c, &value), 0);
    assert_slice(value, row->value);
}

/* Both ways through the whole file, then a random walk that turns round and jumps. */
static void check_cursor(const struct shardread *r, const struct shardrows *rows, struct rng *rng)
{
    struct shardread_cursor c;
    size_t n = rows->n, at = 0;
    shardread_cursor_init(&c, r);
    for (int rc = shardread_seek(&c, SLICE("")); rc; rc = shardread_next(&c)) {
        assert_int_equal(rc, 1);
        assert_true(at < n);
        assert_row(&c, &rows->rows[at++]);
    }
    assert_int_equal(at, n);
    for (int rc = shardread_seek_last(&c); rc; rc = shardread_prev(&c)) {
        assert_int_equal(rc, 1);
        assert_true(at > 0);
        assert_row(&c, &rows->rows[--at]);
    }
    assert_int_equal(at, 0);
    bool on = false;
    for (int i = 0; i < 500 && n; i++) {
        int rc;
        unsigned what = (unsigned)rng_below(rng, on ? 6 : 2);
        struct buf key = near_key(rng, rows->rows[rng_below(rng, n)].key);
        if (rng_below(rng, 2)) {
            key.len = 0;
            buf_add_slice(&key, rows->rows[rng_below(rng, n)].key);
        }
        if (what == 0) {
            rc = shardread_seek(&c, buf_slice(&key));
            at = shardrows_seek(rows, buf_slice(&key));
        } else if (what == 1) {
            rc = shardread_seek_before(&c, buf_slice(&key));
            at = shardrows_seek(rows, buf_slice(&key)) - 1;
        } else if (what < 4) {
            rc = shardread_next(&c);
            at++;
        } else {
            rc = shardread_prev(&c);
            at--;
        }
        buf_fini(&key);
        on = at < n; /* one before the first wraps round */
        assert_int_equal(rc, on);
        if (on) assert_row(&c, &rows->rows[at]);
    }
    shardread_cursor_fini(&c);
}

static void check_all(const struct page_source *source, const struct shardrows *rows, const struct shardwrite_result *result, struct rng *rng)
{
    struct shardread r;
    struct shardread_stats stats;
    const char *why = "";
    assert_int_equal(shardread_open(&r, source, &why), 0);
    check_gets(&r, rows, rng);
    check_get_many(&r, rows, rng);
    check_cursor(&r, rows, rng);
    assert_int_equal(shardread_check(&r, &stats), 0);
    assert_int_equal(stats.rows, rows->n);
    assert_int_equal(result->rows, rows->n);
    assert_int_equal(result->pages, 1 + stats.interior_pages + stats.leaf_pages + stats.overflow_pages);
}

static void check_file(struct shardrows *rows, uint32_t page_size, struct rng *rng)
{
    struct shardwrite_result result;
    struct buf file = shardrows_file(rows, page_size, &result);
    struct page_source memory;
    struct shardrows_source asked;
    assert_int_equal(pages_of_bytes(&memory, buf_slice(&file), NULL), 0);
    assert_int_equal(memory.page_size, page_size);
    assert_int_equal(memory.n_pages, result.pages);
    check_all(&memory, rows, &result, rng);
    assert_int_equal(shardrows_source_init(&asked, buf_slice(&file)), 0);
    check_all(&asked.source, rows, &result, rng);
    assert_int_equal(asked.held, 0);
    buf_fini(&file);
    shardrows_free(rows);
}

static void what_is_written_is_read_at_every_size(void **state)
{
    struct rng rng;
    rng_init(&rng, 41);
    for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2)
        for (size_t n = 0; n < 4; n++) {
            struct shardrows rows = shardrows_random(&rng, n, 10, 100);
            check_file(&rows, page_size, &rng);
        }
    static const struct { size_t n, key_max, value_max; } shapes[] = {
        {40, 24, 200}, {41, 24, 3000}, {400, 12, 60}, {700, 24, 400}, {300, 3000, 200}, {120, 200, 30000}, {60, 20000, 20000}, {900, 900, 900}, {2500, 20, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t page_size = 4096; page_size <= 65536; page_size *= i < 3 ? 2 : 16) {
            struct shardrows rows = shardrows_random(&rng, shapes[i].n, shapes[i].key_max, shapes[i].value_max);
            check_file(&rows, page_size, &rng);
        }
}

/* Around the limits where a payload stops being whole, and where an overflow page begins. */
static void rows_at_the_limits_of_a_page_are_read(void **state)
{
    struct rng rng;
    rng_init(&rng, 42);
    for (uint32_t page_size = 4096; page_size <= 8192; page_size *= 2) {
        size_t whole = (page_size - 12) * 64 / 255 - 23;
        struct shardrows rows = {.rows = mem_alloc(400 * sizeof *rows.rows)};
        for (size_t i = 0; i < 400; i++) {
            size_t step = i % 4, value_n = (step == 0 ? whole : step == 1 ? whole + page_size - 4 : step == 2 ? 2 * (page_size - 4) : 0) + i / 4;
            char *key = mem_alloc(8);
            snprintf(key, 8, "%05zu", i);
            rows.rows[rows.n++] = (struct shardrow){slice_of(key, 5), shardrows_bytes(&rng, value_n > 50 ? value_n - 50 : 0, 0)};
        }
        check_file(&rows, page_size, &rng);
    }
}

static void a_source_that_fails_is_passed_on_and_nothing_stays_held(void **state)
{
    struct rng rng;
    rng_init(&rng, 43);
    struct shardrows rows = shardrows_random(&rng, 300, 3000, 20000);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result), buf = {0};
    struct shardrows_source s;
    struct shardread r;
    struct shardread_stats stats;
    unsigned failures = 0;
    for (uint64_t k = 1;; k++) {
        struct shardread_cursor c;
        struct slice value;
        assert_int_equal(shardrows_source_init(&s, buf_slice(&file)), 0);
        s.fail_at = k;
        int rc = shardread_open(&r, &s.source, NULL);
        for (size_t i = 0; i < rows.n && rc >= 0; i += 37) rc = shardread_get(&r, rows.rows[i].key, &buf, &value);
        struct shardread_ask asks[3] = {{.key = rows.rows[1].key}, {.key = rows.rows[100].key}, {.key = rows.rows[200].key}};
        if (rc >= 0) rc = shardread_get_many(&r, asks, 3, &buf);
        shardread_cursor_init(&c, &r);
        if (rc >= 0) rc = shardread_seek_last(&c);
        for (int i = 0; i < 20 && rc > 0; i++) rc = shardread_prev(&c);
        if (rc > 0) rc = shardread_value(&c, &value);
        shardread_cursor_fini(&c);
        assert_int_equal(s.held, 0);
        if (rc >= 0) break;
        assert_int_equal(rc, -5);
        failures++;
    }
    assert_true(failures > 20);
    assert_int_equal(shardrows_source_init(&s, buf_slice(&file)), 0);
    assert_int_equal(shardread_open(&r, &s.source, NULL), 0);
    s.fail_at = s.gets + 50;
    assert_int_equal(shardread_check(&r, &stats), -5);
    assert_int_equal(s.held, 0);
    buf_fini(&buf);
    buf_fini(&file);
    shardrows_free(&rows);
}

static void a_long_value_and_a_batch_of_keys_need_few_requests(void **state)
{
    struct rng rng;
    rng_init(&rng, 44);
    struct shardrows rows = shardrows_random(&rng, 6000, 16, 100);
    mem_free((void *)rows.rows[1000].value.p);
    rows.rows[1000].value = shardrows_bytes(&rng, 1000000, 0);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result), buf = {0};
    struct shardrows_source s;
    struct shardread r;
    struct slice value;
    assert_int_equal(shardrows_source_init(&s, buf_slice(&file)), 0);
    assert_int_equal(shardread_open(&r, &s.source, NULL), 0);
    uint64_t before = s.gets;
    assert_int_equal(shardread_get(&r, rows.rows[1000].key, &buf, &value), 1);
    assert_slice(value, rows.rows[1000].value);
    assert_in_range(s.gets - before, 2, 5);
    struct shardread_ask asks[30];
    for (int i = 0; i < 30; i++) asks[i] = (struct shardread_ask){.key = rows.rows[i * 30].key};
    before = s.gets;
    assert_int_equal(shardread_get_many(&r, asks, 30, &buf), 0);
    assert_in_range(s.gets - before, 1, 3);
    struct shardread_cursor c;
    shardread_cursor_init(&c, &r);
    for (int rc = shardread_seek(&c, SLICE("")); rc == 1;) rc = shardread_next(&c);
    shardread_cursor_fini(&c);
    assert_true(s.wants > 20);
    buf_fini(&buf);
    buf_fini(&file);
    shardrows_free(&rows);
}

/* ---- damage */

/* Reads everything in every way; what comes back does not matter, that it comes back does. */
static void exercise(struct slice file, const struct shardrows *rows)
{
    struct page_source memory;
    struct shardread r;
    struct shardread_stats stats;
    struct shardread_cursor c;
    struct buf buf = {0};
    struct slice value;
    if (pages_of_bytes(&memory, file, NULL) || shardread_open(&r, &memory, NULL)) return;
    r.index = leafindex_new(&memory, r.root);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < rows->n; i++) shardread_get(&r, rows->rows[i].key, &buf, &value);
        leafindex_ready(r.index, 1000);
    }
    leafindex_free(r.index);
    shardread_check(&r, &stats);
    shardread_cursor_init(&c, &r);
    for (int rc = shardread_seek(&c, SLICE("")); rc == 1; rc = shardread_next(&c)) shardread_value(&c, &value);
    for (int rc = shardread_seek_last(&c); rc == 1;) rc = shardread_prev(&c);
    shardread_cursor_fini(&c);
    buf_fini(&buf);
}

static void every_damaged_byte_is_survived(void **state)
{
    struct rng rng;
    rng_init(&rng, 45);
    struct shardrows rows = shardrows_random(&rng, 60, 60, 200);
    mem_free((void *)rows.rows[20].value.p);
    rows.rows[20].value = shardrows_bytes(&rng, 9000, 0);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result);
    assert_true(result.pages > 5);
    for (size_t at = 0; at < file.len; at++) {
        char old = file.p[at];
        static const uint8_t masks[] = {0x01, 0x80, 0xff};
        file.p[at] = (char)(old ^ masks[at % 3]);
        exercise(buf_slice(&file), &rows);
        file.p[at] = 0;
        if (old) exercise(buf_slice(&file), &rows);
        file.p[at] = old;
    }
    for (size_t n = 0; n < file.len; n += 97) {
        char *part = mem_dup(file.p, n);
        struct page_source memory;
        assert_true(pages_of_bytes(&memory, slice_of(part, n), NULL) < 0 || n % 4096 == 0);
        mem_free(part);
    }
    buf_fini(&file);
    shardrows_free(&rows);
}

static void circles_are_found(void **state)
{
    struct rng rng;
    rng_init(&rng, 46);
    struct shardrows rows = shardrows_random(&rng, 3000, 16, 100);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result), buf = {0};
    struct page_source memory;
    struct shardread r;
    struct shardread_stats stats;
    struct shardread_cursor c;
    struct slice value;
    assert_int_equal(pages_of_bytes(&memory, buf_slice(&file), NULL), 0);
    assert_int_equal(shardread_open(&r, &memory, NULL), 0);
    char *root = file.p + (PAGEFILE_ROOT - 1) * 4096;
    assert_int_equal(root[0], PAGEFILE_INTERIOR);
    pagefile_put_u32(root + 8, PAGEFILE_ROOT); /* the root is its own last child */
    assert_int_equal(shardread_get(&r, SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff"), &buf, &value), ERR_SHARD_DAMAGED);
    assert_int_equal(shardread_check(&r, &stats), ERR_SHARD_DAMAGED);
    shardread_cursor_init(&c, &r);
    int rc = shardread_seek(&c, SLICE(""));
    while (rc == 1) rc = shardread_next(&c);
    assert_int_equal(rc, ERR_SHARD_DAMAGED);
    assert_int_equal(shardread_seek_last(&c), ERR_SHARD_DAMAGED);
    shardread_cursor_fini(&c);
    buf_fini(&buf);
    buf_fini(&file);
    shardrows_free(&rows);
}

/* ---- what is refused */

static void refused(struct buf *file, size_t at, uint8_t byte, int code)
{
    struct page_source memory;
    struct shardread r;
    const char *why = NULL;
    char old = file->p[at];
    file->p[at] = (char)byte;
    int rc = pages_of_bytes(&memory, buf_slice(file), &why);
    if (rc == 0) rc = shardread_open(&r, &memory, &why);
    assert_int_equal(rc, code);
    assert_non_null(why);
    file->p[at] = old;
}

static void other_databases_are_refused_with_a_sentence(void **state)
{
    struct shardrows none = {0};
    struct shardwrite_result result;
    struct buf file = shardrows_file(&none, 4096, &result);
    refused(&file, 0, 'X', ERR_SHARD_DAMAGED);
    refused(&file, 16, 0x11, ERR_SHARD_DAMAGED);     /* page size */
    refused(&file, 18, 2, ERR_SHARD_UNSUPPORTED);    /* write-ahead */
    refused(&file, 20, 8, ERR_SHARD_UNSUPPORTED);    /* reserved bytes */
    refused(&file, 31, 3, ERR_SHARD_DAMAGED);        /* one page too many */
    refused(&file, 59, 2, ERR_SHARD_UNSUPPORTED);    /* UTF-16 */
    char *name = memmem(file.p, file.len, "tablekvkv", 9), *sql = memmem(file.p, file.len, "WITHOUT ROWID", 13);
    assert_non_null(name);
    assert_non_null(sql);
    refused(&file, (size_t)(name + 5 - file.p), 'x', ERR_SHARD_UNSUPPORTED);
    refused(&file, (size_t)(sql - file.p), ' ', ERR_SHARD_UNSUPPORTED);
    refused(&file, (size_t)(name + 9 - file.p), 1, ERR_SHARD_DAMAGED); /* root */
    refused(&file, (size_t)(name + 9 - file.p), 9, ERR_SHARD_DAMAGED);
    refused(&file, 4096, PAGEFILE_SCHEMA_LEAF, ERR_SHARD_DAMAGED);
    buf_fini(&file);
}

static void a_local_file_is_mapped_and_what_is_none_is_refused(void **state)
{
    struct pages_file f;
    struct shardread r;
    char path[] = "/tmp/test_shardread.XXXXXX";
    int fd = mkstemp(path);
    const char *why = NULL;
    assert_int_equal(pages_file_open(&f, path, &why), ERR_SHARD_DAMAGED); /* empty */
    assert_int_equal(pages_file_open(&f, "/tmp/no such file at all", &why), -2);
    assert_int_equal(pages_file_open(&f, "/tmp", &why), ERR_SHARD_DAMAGED);
    struct shardwrite_result result;
    struct shardwrite *w = shardwrite_new(fd, 8192);
    assert_int_equal(shardwrite_add(w, SLICE("key"), SLICE("value")), 0);
    assert_int_equal(shardwrite_end(w, &result), 0);
    shardwrite_free(w);
    assert_int_equal(pages_file_open(&f, path, &why), 0);
    assert_int_equal(shardread_open(&r, &f.source, &why), 0);
    struct buf buf = {0};
    struct slice value;
    assert_int_equal(shardread_get(&r, SLICE("key"), &buf, &value), 1);
    assert_slice(value, SLICE("value"));
    assert_null(buf.p); /* nothing was copied */
    pages_file_close(&f);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_at_every_size),
        cmocka_unit_test(rows_at_the_limits_of_a_page_are_read),
        cmocka_unit_test(a_source_that_fails_is_passed_on_and_nothing_stays_held),
        cmocka_unit_test(a_long_value_and_a_batch_of_keys_need_few_requests),
        cmocka_unit_test(every_damaged_byte_is_survived),
        cmocka_unit_test(circles_are_found),
        cmocka_unit_test(other_databases_are_refused_with_a_sentence),
        cmocka_unit_test(a_local_file_is_mapped_and_what_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
