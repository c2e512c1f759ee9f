/* How the tree grows
 *
 * A level is a page that is being filled. A row that does not fit its leaf any more stands *between* this leaf and the next one: in an index b-tree it goes up into the
 * parent as the cell whose left child the full leaf is. It is known to do so only when a further row comes, because a leaf must not stay empty; until then it waits as the level's
 * `between`. The same holds for interior pages. So:
 *
 *   add to a level   fits: it goes in. Does not fit, nothing waits: it waits. Something waits: the page is written, what waits goes up as the page's separator
 *                    (and becomes its rightmost child's border), and a new page begins with the new cell.
 *   end of a level   nothing waits: the page is written. Something waits: the page's last cell goes up in its place, and what waited becomes the only cell of a last page.
 *                    So no page is empty; a page has room for four cells at least.
 *
 * Pages are numbered as they are written, children before parents. Page 1, the header and the schema, and page 2, the root, are written at the end. */
#include "snapshot/shardwrite.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/file.h"
#include "snapshot/pagefile.h"

enum {
    LEVELS_MAX = 20, /* an interior page has at least five children: more pages than a file can have */
    OUT_BYTES = 1 << 20,
    ROW_BYTES_MAX = 0x7fffffff,
    SQLITE_VERSION = 3040001, /* which the header names as the last writer */
};

struct level {
    uint8_t *page;
    uint32_t cells, content; /* content: offset of the lowest cell */
    uint32_t right;          /* interior: page number of the rightmost child so far; 0: none yet */
    struct buf between;      /* a cell that waits, without the left child's number */
    uint32_t between_left;
    bool waits;
};

struct shardwrite {
    int fd;
    uint32_t page_size;
    uint64_t next_page;
    uint64_t rows;
    struct buf out;      /* pages that were not written yet, in order */
    uint64_t out_at;     /* file offset of the first of them */
    struct buf cell;     /* the row in hand */
    struct buf last_key;
    struct level levels[LEVELS_MAX];
    uint32_t n_levels;
    int error;
};

/* --- pages out --- */

static void flush(struct shardwrite *w, size_t at_least)
{
    if (w->out.len < at_least || w->error) return;
    w->error = file_write_all(&file_disk, w->fd, buf_slice(&w->out), w->out_at);
    w->out_at += w->out.len;
    w->out.len = 0;
}

/* The number of the next page, whose bytes are added now. */
static uint32_t page_out(struct shardwrite *w, const void *bytes)
{
    if (w->next_page >= UINT32_MAX - 1) w->error = w->error ? w->error : -EFBIG;
    buf_add(&w->out, bytes, w->page_size);
    flush(w, OUT_BYTES);
    return (uint32_t)w->next_page++;
}

/* --- cells --- */

/* What does not fit the cell, as a chain of pages; gives the first one's number. */
static uint32_t overflow_out(struct shardwrite *w, struct slice rest)
{
    uint32_t first = (uint32_t)w->next_page;
    size_t room = w->page_size - 4;
    while (rest.n && !w->error) {
        size_t n = rest.n < room ? rest.n : room;
        char *page = buf_room(&w->out, w->page_size);
        pagefile_put_u32(page, rest.n > room ? (uint32_t)w->next_page + 1 : 0);
        memcpy(page + 4, rest.p, n);
        memset(page + 4 + n, 0, room - n);
        w->out.len += w->page_size;
        if (w->next_page++ >= UINT32_MAX - 1) w->error = -EFBIG;
        flush(w, OUT_BYTES);
        rest = slice_of(rest.p + n, rest.n - n);
    }
    return first;
}

static void make_cell(struct shardwrite *w, struct slice key, struct slice value)
{
    uint8_t types[2 * PAGEFILE_VARINT_MAX], length[PAGEFILE_VARINT_MAX];
    size_t n = pagefile_put_varint(types, 12 + 2 * (uint64_t)key.n);
    n += pagefile_put_varint(types + n, 12 + 2 * (uint64_t)value.n);
    uint64_t payload = 1 + n + key.n + value.n; /* two types take less than 127 bytes, so the header's length one */
    w->cell.len = 0;
    buf_add(&w->cell, length, pagefile_put_varint(length, payload));
    size_t head = w->cell.len, local = pagefile_local(w->page_size, payload);
    buf_add_byte(&w->cell, (char)(1 + n));
    buf_add(&w->cell, types, n);
    buf_add_slice(&w->cell, key);
    buf_add_slice(&w->cell, value);
    if (local == payload) return;
    uint32_t first = overflow_out(w, slice_of(w->cell.p + head + local, payload - local));
    w->cell.len = head + local;
    uint8_t number[4];
    pagefile_put_u32(number, first);
    buf_add(&w->cell, number, 4);
}

/* --- levels --- */

static bool is_leaf(const struct shardwrite *w, const struct level *l) { return l == w->levels; }
static uint32_t head_bytes(const struct shardwrite *w, const struct level *l) { return is_leaf(w, l) ? PAGEFILE_LEAF_HEAD : PAGEFILE_INTERIOR_HEAD; }
static uint32_t child_bytes(const struct shardwrite *w, const struct level *l) { return is_leaf(w, l) ? 0 : 4; }

static void begin_page(struct shardwrite *w, struct level *l)
{
    memset(l->page, 0, w->page_size);
    l->cells = 0;
    l->content = w->page_size;
}

static struct level *level_at(struct shardwrite *w, uint32_t i)
{
    CHECK(i < LEVELS_MAX);
    struct level *l = &w->levels[i];
    if (i < w->n_levels) return l;
    w->n_levels = i + 1;
    l->page = mem_alloc(w->page_size);
    begin_page(w, l);
    return l;
}

static bool fits(const struct shardwrite *w, const struct level *l, size_t cell)
{
    return head_bytes(w, l) + 2 * (l->cells + 1) + child_bytes(w, l) + cell <= l->content;
}

static void put_cell(struct shardwrite *w, struct level *l, uint32_t left, struct slice cell)
{
    l->content -= (uint32_t)(child_bytes(w, l) + cell.n);
    if (!is_leaf(w, l)) pagefile_put_u32(l->page + l->content, left);
    memcpy(l->page + l->content + child_bytes(w, l), cell.p, cell.n);
    pagefile_put_u16(l->page + head_bytes(w, l) + 2 * l->cells, l->content);
    l->cells++;
}

static void finish_page(const struct shardwrite *w, const struct level *l)
{
    uint8_t *p = l->page;
    p[0] = is_leaf(w, l) ? PAGEFILE_LEAF : PAGEFILE_INTERIOR;
    pagefile_put_u16(p + 3, l->cells);
    pagefile_put_u16(p + 5, l->content == 65536 ? 0 : l->content);
    if (!is_leaf(w, l)) pagefile_put_u32(p + 8, l->right);
}

static uint32_t close_page(struct shardwrite *w, struct level *l)
{
    finish_page(w, l);
    uint32_t number = page_out(w, l->page);
    begin_page(w, l);
    return number;
}

static void wait_between(struct level *l, uint32_t left, struct slice cell)
{
    l->between.len = 0;
    buf_add_slice(&l->between, cell);
    l->between_left = left;
    l->waits = true;
}

/* A cell joins level i; on an interior one it comes with the child at its left. */
static void join(struct shardwrite *w, uint32_t i, uint32_t left, struct slice cell)
{
    struct level *l = level_at(w, i);
    if (!l->waits && fits(w, l, cell.n)) {
        put_cell(w, l, left, cell);
        return;
    }
    if (!l->waits) {
        wait_between(l, left, cell);
        return;
    }
    l->waits = false;
    l->right = l->between_left;
    uint32_t number = close_page(w, l);
    join(w, i + 1, number, buf_slice(&l->between));
    put_cell(w, &w->levels[i], left, cell);
}

/* The cell whose offset stands last on the page; without the left child's number. */
static void take_last(struct shardwrite *w, struct level *l, uint32_t *left, struct buf *cell)
{
    uint8_t *slot = l->page + head_bytes(w, l) + 2 * --l->cells;
    uint32_t at = l->content;
    CHECK(pagefile_u16(slot) == at);
    uint32_t end = l->cells ? pagefile_u16(slot - 2) : w->page_size;
    *left = is_leaf(w, l) ? 0 : pagefile_u32(l->page + at);
    buf_add(cell, l->page + at + child_bytes(w, l), end - at - child_bytes(w, l));
    memset(l->page + at, 0, end - at);
    pagefile_put_u16(slot, 0);
    l->content = end;
}

/* No more cells come to level i; on an interior one the last child is `right`. Gives the level's last page, which is the rightmost child of the level above. */
static uint32_t end_level(struct shardwrite *w, uint32_t i, uint32_t right)
{
    struct level *l = &w->levels[i];
    if (l->waits) {
        struct buf up = {0};
        uint32_t left;
        take_last(w, l, &left, &up);
        l->right = left;
        uint32_t number = close_page(w, l);
        join(w, i + 1, number, buf_slice(&up));
        buf_fini(&up);
        put_cell(w, l, l->between_left, buf_slice(&l->between));
        l->waits = false;
    }
    l->right = right;
    return i + 1 < w->n_levels ? close_page(w, l) : 0;
}

/* --- page 1 --- */

static const char schema_sql[] = "CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";

/* The one row of the schema: ('table', 'kv', 'kv', root, sql), rowid 1. */
static size_t schema_cell(uint8_t *out)
{
    enum { HEADER = 7, BODY = 5 + 2 + 2 + 1 + sizeof schema_sql - 1 };
    uint8_t *p = out;
    p += pagefile_put_varint(p, HEADER + BODY);
    *p++ = 1;                 /* rowid */
    *p++ = HEADER;            /* of the record: itself, four types of one byte, one of two */
    *p++ = 13 + 2 * 5;
    *p++ = 13 + 2 * 2;
    *p++ = 13 + 2 * 2;
    *p++ = 1;                 /* an integer of one byte */
    p += pagefile_put_varint(p, 13 + 2 * (sizeof schema_sql - 1));
    memcpy(p, "tablekvkv", 9);
    p[9] = PAGEFILE_ROOT;
    memcpy(p + 10, schema_sql, sizeof schema_sql - 1);
    return (size_t)(p + 10 + sizeof schema_sql - 1 - out);
}

static void write_database_header(const struct shardwrite *w, uint8_t *p)
{
    memcpy(p, "SQLite format 3", 16);
    pagefile_put_u16(p + 16, w->page_size == 65536 ? 1 : w->page_size);
    p[18] = p[19] = 1;   /* not in write-ahead mode */
    p[21] = 64;          /* the payload fractions are fixed */
    p[22] = p[23] = 32;
    pagefile_put_u32(p + 24, 1); /* changes of the file */
    pagefile_put_u32(p + 28, (uint32_t)(w->next_page - 1));
    pagefile_put_u32(p + 40, 1); /* changes of the schema */
    pagefile_put_u32(p + 44, 4); /* schema format */
    pagefile_put_u32(p + 56, 1); /* UTF-8 */
    pagefile_put_u32(p + 92, 1); /* the number of changes for which the version below holds */
    pagefile_put_u32(p + 96, SQLITE_VERSION);
}

static void write_first_page(const struct shardwrite *w, uint8_t *page)
{
    uint8_t cell[sizeof schema_sql + 64], *head = page + PAGEFILE_HEADER_BYTES;
    size_t n = schema_cell(cell);
    memset(page, 0, w->page_size);
    write_database_header(w, page);
    head[0] = PAGEFILE_SCHEMA_LEAF;
    pagefile_put_u16(head + 3, 1);
    pagefile_put_u16(head + 5, (uint32_t)(w->page_size - n));
    pagefile_put_u16(head + PAGEFILE_LEAF_HEAD, (uint32_t)(w->page_size - n));
    memcpy(page + w->page_size - n, cell, n);
}

/* --- the writer --- */

struct shardwrite *shardwrite_new(int fd, uint32_t page_size)
{
    CHECK(pagefile_is_size(page_size));
    struct shardwrite *w = mem_zalloc(sizeof *w);
    w->fd = fd;
    w->page_size = page_size;
    w->next_page = PAGEFILE_ROOT + 1;
    w->out_at = (uint64_t)PAGEFILE_ROOT * page_size;
    level_at(w, 0);
    return w;
}

void shardwrite_free(struct shardwrite *w)
{
    for (uint32_t i = 0; i < w->n_levels; i++) {
        mem_free(w->levels[i].page);
        buf_fini(&w->levels[i].between);
    }
    buf_fini(&w->out);
    buf_fini(&w->cell);
    buf_fini(&w->last_key);
    mem_free(w);
}

int shardwrite_add(struct shardwrite *w, struct slice key, struct slice value)
{
    CHECK(w->rows == 0 || slice_cmp(buf_slice(&w->last_key), key) < 0);
    if (w->error) return w->error;
    if ((uint64_t)key.n + value.n + 32 > ROW_BYTES_MAX) return -EFBIG;
    w->last_key.len = 0;
    buf_add_slice(&w->last_key, key);
    make_cell(w, key, value);
    join(w, 0, 0, buf_slice(&w->cell));
    w->rows++;
    return w->error;
}

int shardwrite_end(struct shardwrite *w, struct shardwrite_result *result)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < w->n_levels; i++) right = end_level(w, i, right);
    struct level *root = &w->levels[w->n_levels - 1];
    finish_page(w, root);
    flush(w, 1);
    uint8_t *first = mem_alloc(w->page_size);
    write_first_page(w, first);
    if (!w->error) w->error = file_write_all(&file_disk, w->fd, slice_of(first, w->page_size), 0);
    if (!w->error) w->error = file_write_all(&file_disk, w->fd, slice_of(root->page, w->page_size), w->page_size);
    mem_free(first);
    *result = (struct shardwrite_result){.rows = w->rows, .bytes = (w->next_page - 1) * w->page_size, .pages = (uint32_t)(w->next_page - 1)};
    return w->error;
}

struct slice shardwrite_last_key(const struct shardwrite *w) { return buf_slice(&w->last_key); }
