/* With an index a shard file says the same as without: for keys of every shape, files of every page size, and from several threads while the index is made. */
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shardrows.h"
#include "snapshot/leafindex.h"
#include "snapshot/pagefile.h"
#include "snapshot/shardread.h"

enum { ALL = 1 << 20 }; /* lookups after which every index of these files is made */

/* Patience first, then the work. */
static bool make_index(struct leafindex *x)
{
    leafindex_ready(x, ALL);
    leafindex_ready(x, ALL);
    return leafindex_ready(x, 0);
}

static size_t seek(const struct shardrows *rows, struct slice key)
{
    size_t lo = 0, hi = rows->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (slice_cmp(rows->rows[mid].key, key) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* What the rows say about a key must be what the ask got. */
static void check_answer(const struct shardrows *rows, struct slice key, int rc, struct slice value)
{
    size_t at = seek(rows, key);
    bool there = at < rows->n && slice_eq(rows->rows[at].key, key);
    assert_int_equal(rc, there);
    if (!there) return;
    assert_int_equal(value.n, rows->rows[at].value.n);
    if (value.n) assert_memory_equal(value.p, rows->rows[at].value.p, value.n);
}

/* The key itself, shorter, longer, and changed in one bit. */
static struct buf variant(struct rng *rng, struct slice key)
{
    struct buf b = {0};
    buf_add_slice(&b, key);
    switch (rng_below(rng, 5)) {
    case 0: buf_add_byte(&b, 0); break;
    case 1: buf_add_byte(&b, (char)rng_u64(rng)); break;
    case 2: b.len -= b.len ? 1 + rng_below(rng, b.len) : 0; break;
    case 3:
        if (b.len) b.p[rng_below(rng, b.len)] ^= (char)(1 << rng_below(rng, 8));
        break;
    default: break;
    }
    return b;
}

static void check_gets(const struct shardread *r, const struct shardrows *rows, struct rng *rng)
{
    struct buf buf = {0};
    struct slice value = {0};
    static const struct slice edges[] = {{"", 0}, {"\0", 1}, {"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9}, {"\xff\xff\xff\xff\xff\xff\xff\xff", 8}};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) check_answer(rows, edges[i], shardread_get(r, edges[i], &buf, &value), value);
    for (size_t i = 0; i < rows->n; i++) {
        check_answer(rows, rows->rows[i].key, shardread_get(r, rows->rows[i].key, &buf, &value), value);
        struct buf key = variant(rng, rows->rows[i].key);
        check_answer(rows, buf_slice(&key), shardread_get(r, buf_slice(&key), &buf, &value), value);
        buf_fini(&key);
    }
    buf_fini(&buf);
}

static void check_get_many(const struct shardread *r, const struct shardrows *rows, struct rng *rng)
{
    enum { N = 500 };
    struct buf keys[N], buf = {0};
    struct shardread_ask asks[N] = {0};
    for (size_t i = 0; i < N; i++) {
        keys[i] = variant(rng, rows->rows[rng_below(rng, rows->n)].key);
        asks[i] = (struct shardread_ask){.key = buf_slice(&keys[i]), .r = r};
    }
    assert_int_equal(shardread_get_mapped(asks, N, &buf), 0);
    for (size_t i = 0; i < N; i++) {
        check_answer(rows, asks[i].key, asks[i].rc, asks[i].value);
        buf_fini(&keys[i]);
    }
    buf_fini(&buf);
}

/* While the index is being made and when it is there. Gives how many rows it has. */
static uint32_t check_bytes(struct slice file, const struct shardrows *rows, struct rng *rng)
{
    struct page_source memory;
    struct shardread r;
    assert_int_equal(pages_of_bytes(&memory, file, NULL), 0);
    assert_int_equal(shardread_open(&r, &memory, NULL), 0);
    r.index = leafindex_new(&memory, r.root);
    check_gets(&r, rows, rng);
    bool ready = make_index(r.index);
    check_gets(&r, rows, rng);
    if (rows->n) check_get_many(&r, rows, rng);
    uint32_t n = ready ? r.index->n : 0;
    leafindex_free(r.index);
    return n;
}

static uint32_t check_file(const struct shardrows *rows, uint32_t page_size, struct rng *rng)
{
    struct shardwrite_result result;
    struct buf file = shardrows_file(rows, page_size, &result);
    uint32_t n = check_bytes(buf_slice(&file), rows, rng);
    buf_fini(&file);
    return n;
}

/* Rows of keys that `make` writes, sorted, each once. */
static struct shardrows rows_of(size_t n, void (*make)(struct buf *key, size_t i, struct rng *rng), size_t value_max, struct rng *rng)
{
    struct shardrows all = {.rows = mem_alloc((n + 1) * sizeof *all.rows)};
    for (size_t i = 0; i < n; i++) {
        struct buf key = {0};
        make(&key, i, rng);
        all.rows[i] = (struct shardrow){slice_of(mem_dup(key.p ? key.p : "", key.len + !key.len), key.len), shardrows_bytes(rng, rng_below(rng, value_max + 1), 0)};
        buf_fini(&key);
    }
    qsort(all.rows, n, sizeof *all.rows, shardrows_cmp);
    for (size_t i = 0; i < n; i++) {
        if (all.n && slice_eq(all.rows[all.n - 1].key, all.rows[i].key)) {
            mem_free((void *)all.rows[i].key.p);
            mem_free((void *)all.rows[i].value.p);
        } else all.rows[all.n++] = all.rows[i];
    }
    return all;
}

/* ---- shapes of keys */

static void add_number(struct buf *key, uint64_t v, int bytes)
{
    for (int i = bytes; i-- > 0;) buf_add_byte(key, (char)(v >> (8 * i)));
}

static void even_numbers(struct buf *key, size_t i, struct rng *rng) { add_number(key, i * 3, 8); }
static void random_numbers(struct buf *key, size_t i, struct rng *rng) { add_number(key, rng_u64(rng), 8); }
static void short_numbers(struct buf *key, size_t i, struct rng *rng) { add_number(key, rng_below(rng, 1 << 20), 4); }
static void steep_numbers(struct buf *key, size_t i, struct rng *rng) { add_number(key, rng_u64(rng) >> rng_below(rng, 64), 8); }
static void names(struct buf *key, size_t i, struct rng *rng) { buf_printf(key, "user:profile:%012zu", i * 7); }

static void long_names(struct buf *key, size_t i, struct rng *rng)
{
    for (int n = 0; n < 100; n++) buf_add_byte(key, 'x'); /* more than an index leaves out */
    buf_printf(key, "%zu", i);
}

static void two_kinds(struct buf *key, size_t i, struct rng *rng) { buf_printf(key, "%s%zu", i % 2 ? "a long name of one kind " : "a long name of the other kind ", i); }

/* Prefixes of each other, with zeros behind, where heads are equal and keys are not. */
static void zeros(struct buf *key, size_t i, struct rng *rng)
{
    add_number(key, i / 12, 2);
    for (size_t n = 0; n < i % 12; n++) buf_add_byte(key, 0);
}

static void with_strangers(struct buf *key, size_t i, struct rng *rng)
{
    static const char *const strangers[] = {"", "\x01", "common", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    if (i < 4) buf_add_str(key, strangers[i]);
    else buf_printf(key, "common prefix %08zu", i);
}

static void huge(struct buf *key, size_t i, struct rng *rng)
{
    size_t n = rng_below(rng, 4) ? rng_below(rng, 40) : rng_below(rng, 9000);
    while (key->len < n) buf_add_byte(key, (char)('a' + rng_below(rng, 2)));
}

static void keys_of_every_shape_are_found_by_the_index_at_every_page_size(void **state)
{
    static const struct {
        void (*make)(struct buf *key, size_t i, struct rng *rng);
        size_t rows, value_max;
    } shapes[] = {
        {even_numbers, 4000, 100}, {random_numbers, 4000, 100}, {short_numbers, 4000, 60}, {steep_numbers, 4000, 100}, {names, 3000, 100}, {long_names, 2000, 100},
        {two_kinds, 2000, 100}, {zeros, 3000, 100}, {with_strangers, 3000, 100}, {huge, 600, 300}, {even_numbers, 300, 30000}, {names, 4000, 0},
    };
    struct rng rng;
    rng_init(&rng, 51);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shardrows rows = rows_of(shapes[i].rows, shapes[i].make, shapes[i].value_max, &rng);
        for (uint32_t page_size = 4096; page_size <= 65536; page_size *= 2) {
            uint32_t n = check_file(&rows, page_size, &rng);
            if (page_size == 4096) assert_true(n > 10);
        }
        shardrows_free(&rows);
    }
}

/* From one leaf to three levels, every number of rows at which a page of the tree is just full or has just one cell. */
static void every_number_of_rows_is_read(void **state)
{
    struct rng rng;
    rng_init(&rng, 52);
    uint32_t indexed = 0;
    for (size_t n = 0; n < 130; n++) {
        struct shardrows rows = rows_of(n, even_numbers, 0, &rng);
        for (size_t i = 0; i < n; i++) {
            mem_free((void *)rows.rows[i].value.p);
            rows.rows[i].value = shardrows_bytes(&rng, 980, 0); /* four rows fill a page */
        }
        indexed += check_file(&rows, 4096, &rng) > 0;
        shardrows_free(&rows);
    }
    assert_in_range(indexed, 120, 127);
}

/* ---- files of another writer */

static void run(sqlite3 *db, const char *sql) { assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK); }

/* Rows put in at random, with others between them that are taken out again: cells lie in pages in any order, with holes. */
static struct buf sqlite_file(const struct shardrows *rows, uint32_t page_size, struct rng *rng)
{
    sqlite3 *db;
    sqlite3_stmt *put;
    char sql[64];
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    snprintf(sql, sizeof sql, "PRAGMA page_size=%u", page_size);
    run(db, sql);
    run(db, "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID");
    run(db, "BEGIN");
    assert_int_equal(sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO kv VALUES (?, ?)", -1, &put, NULL), SQLITE_OK);
    size_t *order = mem_alloc((rows->n + 1) * sizeof *order);
    for (size_t i = 0; i < rows->n; i++) {
        size_t j = rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < rows->n; i++) {
            const struct shardrow *row = &rows->rows[order[i]];
            sqlite3_bind_blob(put, 1, row->key.n ? row->key.p : "", (int)row->key.n, SQLITE_STATIC);
            sqlite3_bind_blob(put, 2, row->value.n ? row->value.p : "", (int)row->value.n, SQLITE_STATIC);
            assert_int_equal(sqlite3_step(put), SQLITE_DONE);
            sqlite3_reset(put);
        }
        if (round == 0) run(db, "DELETE FROM kv WHERE length(v) % 2");
    }
    sqlite3_finalize(put);
    run(db, "COMMIT");
    sqlite3_int64 n;
    unsigned char *bytes = sqlite3_serialize(db, "main", &n, 0);
    assert_non_null(bytes);
    struct buf file = {0};
    buf_add(&file, bytes, (size_t)n);
    sqlite3_free(bytes);
    sqlite3_close(db);
    mem_free(order);
    return file;
}

static void files_of_sqlite_are_read_at_every_page_size(void **state)
{
    static void (*const shapes[])(struct buf *key, size_t i, struct rng *rng) = {even_numbers, random_numbers, names, zeros, huge, with_strangers};
    struct rng rng;
    rng_init(&rng, 53);
    unsigned indexed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t page_size = 512; page_size <= 65536; page_size *= 2) {
            struct shardrows rows = rows_of(600, shapes[i], 150, &rng);
            struct buf file = sqlite_file(&rows, page_size, &rng);
            indexed += check_bytes(buf_slice(&file), &rows, &rng) > 0;
            buf_fini(&file);
            shardrows_free(&rows);
        }
    assert_true(indexed > 20);
}

/* ---- when there is none */

static void a_few_lookups_make_no_index_and_many_make_it_bit_by_bit(void **state)
{
    struct rng rng;
    rng_init(&rng, 54);
    struct shardrows rows = rows_of(20000, even_numbers, 100, &rng);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result);
    struct page_source memory;
    struct shardread r;
    assert_int_equal(pages_of_bytes(&memory, buf_slice(&file), NULL), 0);
    assert_int_equal(shardread_open(&r, &memory, NULL), 0);
    r.index = leafindex_new(&memory, r.root);
    int lookups = 0;
    for (; lookups < LEAFINDEX_PATIENCE; lookups++) assert_false(leafindex_ready(r.index, 1));
    assert_null(r.index->rows);
    for (; !leafindex_ready(r.index, 1); lookups++) assert_true(lookups < 1000);
    assert_in_range(lookups, LEAFINDEX_PATIENCE + 5, LEAFINDEX_PATIENCE + 30); /* as many as there are pages above the leaves */
    struct shardread_stats stats;
    assert_int_equal(shardread_check(&r, &stats), 0);
    assert_int_equal(r.index->n + 1, stats.leaf_pages);
    leafindex_free(r.index);
    buf_fini(&file);
    shardrows_free(&rows);
}

static void a_tree_that_is_out_of_order_gets_no_index(void **state)
{
    struct rng rng;
    rng_init(&rng, 55);
    struct shardrows rows = rows_of(3000, even_numbers, 100, &rng);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result);
    struct page_source memory;
    struct shardread r;
    assert_int_equal(pages_of_bytes(&memory, buf_slice(&file), NULL), 0);
    assert_int_equal(shardread_open(&r, &memory, NULL), 0);
    char *root = file.p + (size_t)(r.root - 1) * 4096;
    assert_int_equal(root[0], PAGEFILE_INTERIOR);
    for (int i = 0; i < 2; i++) { /* two cells change places: offsets of cells begin behind twelve bytes */
        char t = root[12 + i];
        root[12 + i] = root[14 + i];
        root[14 + i] = t;
    }
    struct leafindex *x = leafindex_new(&memory, r.root);
    assert_false(make_index(x));
    assert_null(x->rows);
    leafindex_free(x);
    buf_fini(&file);
    shardrows_free(&rows);
}

/* ---- threads */

struct reader_thread {
    const struct shardread *r;
    const struct shardrows *rows;
    uint64_t seed;
    size_t wrong;
};

static void *look_up(void *arg)
{
    struct reader_thread *t = arg;
    struct buf buf = {0};
    struct rng rng;
    rng_init(&rng, t->seed);
    for (int i = 0; i < 3000; i++) {
        const struct shardrow *row = &t->rows->rows[rng_below(&rng, t->rows->n)];
        struct slice value;
        t->wrong += shardread_get(t->r, row->key, &buf, &value) != 1 || !slice_eq(value, row->value);
    }
    buf_fini(&buf);
    return NULL;
}

static void threads_look_up_while_the_index_is_made(void **state)
{
    struct rng rng;
    rng_init(&rng, 56);
    struct shardrows rows = rows_of(20000, names, 100, &rng);
    struct shardwrite_result result;
    struct buf file = shardrows_file(&rows, 4096, &result);
    struct page_source memory;
    struct shardread r;
    assert_int_equal(pages_of_bytes(&memory, buf_slice(&file), NULL), 0);
    assert_int_equal(shardread_open(&r, &memory, NULL), 0);
    r.index = leafindex_new(&memory, r.root);
    pthread_t ids[4];
    struct reader_thread threads[4];
    for (uint64_t i = 0; i < 4; i++) {
        threads[i] = (struct reader_thread){.r = &r, .rows = &rows, .seed = i + 1};
        assert_int_equal(pthread_create(&ids[i], NULL, look_up, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(ids[i], NULL);
        assert_int_equal(threads[i].wrong, 0);
    }
    assert_true(leafindex_ready(r.index, 0));
    leafindex_free(r.index);
    buf_fini(&file);
    shardrows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_every_shape_are_found_by_the_index_at_every_page_size),
        cmocka_unit_test(every_number_of_rows_is_read),
        cmocka_unit_test(files_of_sqlite_are_read_at_every_page_size),
        cmocka_unit_test(a_few_lookups_make_no_index_and_many_make_it_bit_by_bit),
        cmocka_unit_test(a_tree_that_is_out_of_order_gets_no_index),
        cmocka_unit_test(threads_look_up_while_the_index_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
