/* Sidecars: ours are those of the format's own writer, byte for byte; with one a lookup needs one page; a wrong one is refused. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zstd.h>

#include "base/le.h"
#include "io/wholefile.h"
#include "shardrows.h"
#include "snapshot/pagefile.h"
#include "snapshot/shardread.h"
#include "snapshot/sidecar.h"

#define GOLDEN "tests/golden/snapshots/fx"
#define ETAG SLICE("\"0123456789abcdef\"")

/* ---- the writer's own files */

static struct buf body_of(struct slice sidecar)
{
    size_t at = 18 + (uint8_t)sidecar.p[17];
    struct buf body = {0};
    uint64_t n = le_u64(sidecar.p + 5);
    assert_int_equal(ZSTD_decompress(buf_room(&body, n), n, sidecar.p + at, sidecar.n - at), n);
    body.len = n;
    return body;
}

/* SQLite leaves old bytes in the gap; a sidecar does not have them. */
static void assert_same_but_for_the_gap(const uint8_t *got, const uint8_t *page, uint32_t size, uint32_t number)
{
    struct treepage t;
    assert_true(treepage_parse(&t, page, size, number));
    uint32_t cells = pagefile_u16(page + (number == 1 ? 105 : 5));
    if (cells == 0) cells = 65536;
    assert_memory_equal(got, page, t.content);
    assert_memory_equal(got + cells, page + cells, size - cells);
}

static void check_golden(const char *folder, unsigned *found)
{
    char path[1000];
    struct buf db = {0}, theirs = {0}, ours = {0};
    struct page_source source;
    snprintf(path, sizeof path, "%s/shard.sidecar", folder);
    if (wholefile_read(path, 1 << 20, &theirs) != 0) return;
    snprintf(path, sizeof path, "%s/shard.db", folder);
    assert_int_equal(wholefile_read(path, 1 << 24, &db), 0);
    assert_int_equal(pages_of_bytes(&source, buf_slice(&db), NULL), 0);
    assert_int_equal(sidecar_build(&source, &ours), 0);
    struct slice tag = slice_of(theirs.p + 18, (uint8_t)theirs.p[17]);
    assert_true(sidecar_bind(&ours, 0, tag));
    assert_memory_equal(ours.p, theirs.p, 18 + tag.n);
    struct buf a = body_of(buf_slice(&ours)), b = body_of(buf_slice(&theirs));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.p, b.p, a.len);
    struct sidecar *s;
    assert_int_equal(sidecar_new(&s, buf_slice(&theirs), tag, db.len), 0);
    for (uint32_t i = 1; i <= source.n_pages; i++) {
        const uint8_t *page = sidecar_page(s, i);
        if (page && i > 1) assert_true(page[0] == PAGEFILE_INTERIOR);
        if (page) assert_same_but_for_the_gap(page, source.base + (size_t)(i - 1) * source.page_size, source.page_size, i);
    }
    sidecar_free(s);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&db);
    buf_fini(&theirs);
    buf_fini(&ours);
    ++*found;
}

static void search_golden(const char *folder, unsigned *found)
{
    DIR *dir = opendir(folder);
    check_golden(folder, found);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char path[1000];
        if (d->d_name[0] == '.' || d->d_type != DT_DIR) continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        search_golden(path, found);
    }
    if (dir) closedir(dir);
}

static void our_sidecars_are_those_of_the_formats_own_writer(void **state)
{
    unsigned found = 0;
    search_golden(GOLDEN, &found);
    assert_int_equal(found, 20);
}

/* ---- reading with one */

static struct buf sidecar_of(struct slice file, struct slice etag)
{
    struct page_source source;
    struct buf out = {0};
    assert_int_equal(pages_of_bytes(&source, file, NULL), 0);
    assert_int_equal(sidecar_build(&source, &out), 0);
    assert_true(sidecar_bind(&out, 0, etag));
    return out;
}

static void with_a_sidecar_a_cold_lookup_needs_one_request_and_one_for_a_chain(void **state)
{
    struct rng rng;
    rng_init(&rng, 51);
    for (uint32_t page_size = 4096; page_size <= 16384; page_size *= 2) {
        struct shardrows rows = shardrows_random(&rng, 3000, 20, 9000);
        struct shardwrite_result result;
        struct buf file = shardrows_file(&rows, page_size, &result), bytes = sidecar_of(buf_slice(&file), ETAG), buf = {0};
        struct shardrows_source under;
        struct sidecar_pages pages;
        struct sidecar *s;
        struct shardread r;
        struct slice value;
        uint64_t leaves = 0, chains = 0;
        assert_int_equal(shardrows_source_init(&under, buf_slice(&file)), 0);
        assert_int_equal(sidecar_new(&s, buf_slice(&bytes), ETAG, file.len), 0);
        assert_int_equal(sidecar_page_size(s), page_size);
        assert_int_equal(sidecar_n_pages(s), result.pages);
        sidecar_pages_init(&pages, s, &under.source);
        assert_int_equal(shardread_open(&r, &pages.source, NULL), 0);
        assert_int_equal(under.gets, 0); /* schema and root are here */
        for (size_t i = 0; i < rows.n; i++) {
            uint64_t before = under.gets;
            assert_int_equal(shardread_get(&r, rows.rows[i].key, &buf, &value), 1);
            assert_int_equal(value.n, rows.rows[i].value.n);
            assert_memory_equal(value.p, rows.rows[i].value.p, value.n);
            assert_in_range(under.gets - before, 0, 2);
            leaves += under.gets - before == 1;
            chains += under.gets - before == 2;
        }
        assert_true(leaves > rows.n / 2 && chains > 20);
        struct shardread_stats stats;
        assert_int_equal(shardread_check(&r, &stats), 0);
        assert_int_equal(stats.rows, rows.n);
        assert_int_equal(stats.interior_pages + 1, sidecar_held(s));
        assert_int_equal(under.held, 0);
        sidecar_free(s);
        buf_fini(&buf);
        buf_fini(&bytes);
        buf_fini(&file);
        shardrows_free(&rows);
    }
}

static void an_empty_shard_has_a_sidecar_of_its_first_page(void **state)
{
    struct shardrows none = {0};
    struct shardwrite_result result;
    for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2) {
        struct buf file = shardrows_file(&none, page_size, &result), bytes = sidecar_of(buf_slice(&file), ETAG);
        struct sidecar *s;
        assert_int_equal(sidecar_new(&s, buf_slice(&bytes), ETAG, file.len), 0);
        assert_int_equal(sidecar_held(s), 1);
        assert_memory_equal(sidecar_page(s, 1), file.p, page_size);
        assert_null(sidecar_page(s, 2));
        sidecar_free(s);
        buf_fini(&bytes);
        buf_fini(&file);
    }
}

/* ---- what is refused */

struct made {
    struct buf file, sidecar;
};

static struct made make_one(void)
{
    struct rng rng;
    rng_init(&rng, 52);
    struct shardrows rows = shardrows_random(&rng, 300, 20, 9000);
    struct shardwrite_result result;
    struct made m = {.file = shardrows_file(&rows, 4096, &result)};
    m.sidecar = sidecar_of(buf_slice(&m.file), ETAG);
    shardrows_free(&rows);
    return m;
}

static void made_fini(struct made *m)
{
    buf_fini(&m->file);
    buf_fini(&m->sidecar);
}

static int try(struct slice bytes, struct slice etag, uint64_t db_bytes)
{
    struct sidecar *s;
    int rc = sidecar_new(&s, bytes, etag, db_bytes);
    assert_true((rc == 0) == (s != NULL));
    sidecar_free(s);
    return rc;
}

static void a_sidecar_of_another_object_is_stale(void **state)
{
    struct made m = make_one();
    struct slice bytes = buf_slice(&m.sidecar);
    assert_int_equal(try(bytes, ETAG, m.file.len), 0);
    assert_int_equal(try(bytes, SLICE("\"other\""), m.file.len), ERR_SIDECAR_STALE);
    assert_int_equal(try(bytes, SLICE("0123456789abcdef"), m.file.len), ERR_SIDECAR_STALE); /* without the quotes */
    assert_int_equal(try(bytes, SLICE(""), m.file.len), ERR_SIDECAR_STALE);
    assert_int_equal(try(bytes, ETAG, m.file.len + 1), ERR_SIDECAR_STALE);
    assert_int_equal(try(bytes, ETAG, m.file.len - 4096), ERR_SIDECAR_DAMAGED); /* page 1 says how many there are */
    struct page_source source;
    struct buf unbound = {0};
    assert_int_equal(pages_of_bytes(&source, buf_slice(&m.file), NULL), 0);
    assert_int_equal(sidecar_build(&source, &unbound), 0);
    assert_int_equal(try(buf_slice(&unbound), SLICE(""), m.file.len), ERR_SIDECAR_STALE);
    char long_tag[300] = "";
    assert_false(sidecar_bind(&unbound, 0, slice_of(long_tag, 256)));
    assert_true(sidecar_bind(&unbound, 0, slice_of(long_tag, 255)));
    assert_int_equal(try(buf_slice(&unbound), slice_of(long_tag, 255), m.file.len), 0);
    buf_fini(&unbound);
    made_fini(&m);
}

static void assert_same(const struct sidecar *a, const struct sidecar *b)
{
    assert_int_equal(sidecar_held(a), sidecar_held(b));
    for (uint32_t i = 1; i <= sidecar_n_pages(a); i++) {
        const uint32_t *x, *y;
        uint32_t n = sidecar_chain(a, i, &x);
        assert_int_equal(n, sidecar_chain(b, i, &y));
        if (n) assert_memory_equal(x, y, 4 * n);
        const uint8_t *p = sidecar_page(a, i), *q = sidecar_page(b, i);
        assert_true(!p == !q);
        if (p) assert_memory_equal(p, q, sidecar_page_size(a));
    }
}

/* A zstd frame has a few bits that mean nothing. */
static void every_damaged_bit_is_refused_or_changes_nothing(void **state)
{
    struct made m = make_one();
    struct sidecar *good, *s;
    unsigned accepted = 0;
    assert_int_equal(sidecar_new(&good, buf_slice(&m.sidecar), ETAG, m.file.len), 0);
    for (size_t at = 0; at < m.sidecar.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            m.sidecar.p[at] ^= (char)(1 << bit);
            if (sidecar_new(&s, buf_slice(&m.sidecar), ETAG, m.file.len) == 0) {
                assert_same(s, good);
                accepted++;
            }
            sidecar_free(s);
            m.sidecar.p[at] ^= (char)(1 << bit);
        }
    assert_in_range(accepted, 0, 40);
    sidecar_free(good);
    made_fini(&m);
}

static void every_truncation_is_refused(void **state)
{
    struct made m = make_one();
    for (size_t n = 0; n < m.sidecar.len; n++) {
        char *part = mem_dup(m.sidecar.p, n);
        assert_true(try(slice_of(part, n), ETAG, m.file.len) < 0);
        mem_free(part);
    }
    buf_add_byte(&m.sidecar, 0);
    assert_int_equal(try(buf_slice(&m.sidecar), ETAG, m.file.len), ERR_SIDECAR_DAMAGED);
    made_fini(&m);
}

/* The same prefix with another body, packed well. */
static int try_body(const struct made *m, struct slice body, bool checksum)
{
    struct buf out = {0};
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, checksum);
    buf_add(&out, m->sidecar.p, 18 + (uint8_t)m->sidecar.p[17]);
    uint64_t n = htole64(body.n);
    memcpy(out.p + 5, &n, 8);
    size_t room = ZSTD_compressBound(body.n);
    out.len += ZSTD_compress2(z, buf_room(&out, room), room, body.p, body.n);
    ZSTD_freeCCtx(z);
    int rc = try(buf_slice(&out), ETAG, m->file.len);
    buf_fini(&out);
    return rc;
}

static void broken(const struct made *m, const struct buf *body, size_t at, uint32_t v)
{
    struct buf other = {0};
    buf_add_slice(&other, buf_slice(body));
    le_set_u32(other.p + at, v);
    assert_int_equal(try_body(m, buf_slice(&other), true), ERR_SIDECAR_DAMAGED);
    buf_fini(&other);
}

static void every_rule_of_the_body_is_looked_after(void **state)
{
    struct made m = make_one();
    struct buf body = body_of(buf_slice(&m.sidecar));
    uint32_t n = le_u32(body.p), pages = (uint32_t)(m.file.len / 4096);
    size_t offsets = 4 + 4 * n, count = offsets + 4 * (n + 1);
    uint32_t c = le_u32(body.p + count);
    size_t heads = count + 4, chain_offsets = heads + 4 * c, chain_pages = chain_offsets + 4 * (c + 1), blob = chain_pages + 4 * le_u32(body.p + chain_offsets + 4 * c);
    assert_true(n > 1 && c > 2);
    assert_int_equal(try_body(&m, buf_slice(&body), true), 0);
    assert_int_equal(try_body(&m, buf_slice(&body), false), ERR_SIDECAR_DAMAGED);
    assert_int_equal(try_body(&m, slice_of(body.p, body.len - 1), true), ERR_SIDECAR_DAMAGED);
    assert_int_equal(try_body(&m, slice_of(body.p, 3), true), ERR_SIDECAR_DAMAGED);
    broken(&m, &body, 0, n + 1);
    broken(&m, &body, 0, UINT32_MAX);
    broken(&m, &body, 4, 2);                                   /* page 1 is missing */
    broken(&m, &body, 4, 0);
    broken(&m, &body, 8, 1);                                   /* twice the same */
    broken(&m, &body, offsets - 4, pages + 1);
    broken(&m, &body, offsets, 1);
    broken(&m, &body, offsets + 4, UINT32_MAX);
    broken(&m, &body, offsets + 4, le_u32(body.p + offsets + 4) + 1);
    broken(&m, &body, count - 4, le_u32(body.p + count - 4) - 1);
    broken(&m, &body, count, c + 1);
    broken(&m, &body, count, UINT32_MAX);
    broken(&m, &body, heads, le_u32(body.p + heads + 4));      /* not ascending */
    broken(&m, &body, heads, le_u32(body.p + heads) + 1);      /* not where its chain begins */
    broken(&m, &body, chain_offsets, 1);
    broken(&m, &body, chain_offsets + 4, 0);                   /* an empty chain */
    broken(&m, &body, chain_offsets + 4 * c, pages + 1);
    broken(&m, &body, blob - 4, pages + 1);
    broken(&m, &body, blob - 4, 1);
    broken(&m, &body, blob + 16, 0xffffffff);                  /* page 1: page size */
    made_fini(&m);
    buf_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_sidecars_are_those_of_the_formats_own_writer),
        cmocka_unit_test(with_a_sidecar_a_cold_lookup_needs_one_request_and_one_for_a_chain),
        cmocka_unit_test(an_empty_shard_has_a_sidecar_of_its_first_page),
        cmocka_unit_test(a_sidecar_of_another_object_is_stale),
        cmocka_unit_test(every_damaged_bit_is_refused_or_changes_nothing),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_rule_of_the_body_is_looked_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
