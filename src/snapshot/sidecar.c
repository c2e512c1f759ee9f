/* Format version 8 (little endian)
 *
 *   0   4        "SQPC"
 *   4   u8       version, 8
 *   5   u64      bytes of the body, unpacked
 *   13  u32      page size
 *   17  u8       length of the tag
 *   18           tag: the shard file's ETag with its quotes; none: not bound to an object
 *                one zstd frame (level 3, with checksum) to the end of the file: the body
 *
 *   body         u32 n, n u32 page numbers, strictly ascending; n + 1 u32 offsets into the pages, the first 0, the last their length
 *                u32 c, c u32 heads of overflow chains, strictly ascending; c + 1 u32 offsets into the chains' pages, in numbers, strictly ascending from 0;
 *                the page numbers of all chains, each chain from its head on; the pages
 *
 * Held are the interior pages of all tables and indices and all pages of the schema, each without the gap between its cells' offsets and the cells: what is before the gap, then what is behind
 * it. Where the gap was follows from the page's own head. Valid is a sidecar only as a whole: whoever reads finds every rule above kept, every number a page of the file, and page 1, whose
 * header speaks of the same file. */
#include "snapshot/sidecar.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/le.h"
#include "base/mem.h"
#include "snapshot/overflow.h"
#include "snapshot/schema.h"
#include "snapshot/treewalk.h"

enum { VERSION = 8, AT_BODY = 5, AT_PAGE_SIZE = 13, AT_TAG_LEN = 17, AT_TAG = 18, LEVEL = 3 };

/* Where a page's gap begins and ends; an empty one at the end if the page has none. False: the head speaks of places outside the page. */
static bool gap_of(const uint8_t *page, uint64_t n, uint32_t page_size, uint32_t number, uint32_t *from, uint32_t *to)
{
    uint32_t at = number == 1 ? PAGEFILE_HEADER_BYTES : 0;
    if (n < at + PAGEFILE_LEAF_HEAD) return false;
    uint8_t type = page[at];
    *from = *to = page_size;
    if (type != PAGEFILE_INTERIOR && type != PAGEFILE_SCHEMA_INTERIOR && type != PAGEFILE_LEAF && type != PAGEFILE_SCHEMA_LEAF) return true;
    uint32_t cells = pagefile_u16(page + at + 3), content = pagefile_u16(page + at + 5);
    *from = at + (type & 8 ? PAGEFILE_LEAF_HEAD : PAGEFILE_INTERIOR_HEAD) + 2 * cells;
    *to = content ? content : 65536;
    return *from <= *to && *to <= page_size;
}

/* ---- building */

struct numbers {
    uint32_t *p;
    size_t n, cap;
};

static void numbers_add(struct numbers *a, uint32_t v)
{
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 64;
        a->p = mem_resize(a->p, a->cap * sizeof *a->p);
    }
    a->p[a->n++] = v;
}

struct chain {
    uint32_t head, n;
    size_t at; /* of its numbers among those of all chains */
};

struct builder {
    const struct page_source *source;
    struct treewalk_used used;
    struct numbers roots, pages, chain_pages;
    struct chain *chains;
    size_t n_chains, chains_cap;
    bool in_schema;
};

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int by_head(const void *a, const void *b)
{
    uint32_t x = ((const struct chain *)a)->head, y = ((const struct chain *)b)->head;
    return x < y ? -1 : x > y;
}

static int on_item(void *arg, const struct schema_item *item)
{
    struct builder *b = arg;
    if (item->root) numbers_add(&b->roots, item->root);
    return 0;
}

static int on_page(void *arg, uint32_t number, const struct treepage *page, uint32_t depth)
{
    struct builder *b = arg;
    if (!page->leaf || b->in_schema) numbers_add(&b->pages, number);
    return 0;
}

static int on_row(void *arg, const struct treecell *c)
{
    struct builder *b = arg;
    uint64_t bytes = c->payload - c->local_n;
    if (bytes == 0) return 0;
    struct overflow o;
    struct slice piece;
    uint32_t number;
    size_t at = b->chain_pages.n;
    int rc = overflow_open(&o, b->source, c->overflow, bytes, bytes);
    if (rc) return rc;
    while ((rc = overflow_next(&o, &piece, &number)) == 1) {
        if (!treewalk_use(&b->used, number)) rc = ERR_SHARD_DAMAGED;
        if (rc < 0) break;
        numbers_add(&b->chain_pages, number);
    }
    overflow_close(&o);
    if (b->n_chains == b->chains_cap) {
        b->chains_cap = b->chains_cap ? b->chains_cap * 2 : 64;
        b->chains = mem_resize(b->chains, b->chains_cap * sizeof *b->chains);
    }
    b->chains[b->n_chains++] = (struct chain){.head = c->overflow, .n = (uint32_t)(b->chain_pages.n - at), .at = at};
    return rc;
}

/* Page numbers of everything that the sidecar holds. */
static int collect(struct builder *b)
{
    struct treewalk_visitor v = {.page = on_page, .row = on_row, .arg = b};
    treewalk_used_init(&b->used, b->source->n_pages);
    b->in_schema = true;
    int rc = treewalk(b->source, 1, &v, &b->used);
    if (rc == 0) rc = schema_each(b->source, on_item, b);
    b->in_schema = false;
    for (size_t i = 0; i < b->roots.n && rc == 0; i++) rc = treewalk(b->source, b->roots.p[i], &v, &b->used);
    treewalk_used_fini(&b->used);
    if (b->pages.n) qsort(b->pages.p, b->pages.n, sizeof *b->pages.p, by_number);
    if (b->n_chains) qsort(b->chains, b->n_chains, sizeof *b->chains, by_head);
    return rc;
}

/* Appends a page without its gap. */
static int add_page(const struct page_source *s, uint32_t number, struct buf *out)
{
    const uint8_t *page;
    uint32_t from, to;
    int rc = pages_get(s, number, &page);
    if (rc) return rc;
    if (gap_of(page, s->page_size, s->page_size, number, &from, &to)) {
        buf_add(out, page, from);
        buf_add(out, page + to, s->page_size - to);
    } else rc = ERR_SHARD_DAMAGED;
    pages_put(s, number, page);
    return rc;
}

static int make_body(const struct builder *b, struct buf *body)
{
    struct buf pages = {0}, offsets = {0};
    int rc = 0;
    le_add_u32(body, (uint32_t)b->pages.n);
    le_add_u32(&offsets, 0);
    for (size_t i = 0; i < b->pages.n && rc == 0; i++) {
        le_add_u32(body, b->pages.p[i]);
        rc = add_page(b->source, b->pages.p[i], &pages);
        if (rc == 0 && pages.len > UINT32_MAX) rc = -EFBIG;
        le_add_u32(&offsets, (uint32_t)pages.len);
    }
    buf_add_slice(body, buf_slice(&offsets));
    le_add_u32(body, (uint32_t)b->n_chains);
    for (size_t i = 0; i < b->n_chains; i++) le_add_u32(body, b->chains[i].head);
    uint32_t at = 0;
    le_add_u32(body, 0);
    for (size_t i = 0; i < b->n_chains; i++) le_add_u32(body, at += b->chains[i].n);
    for (size_t i = 0; i < b->n_chains; i++)
        for (uint32_t j = 0; j < b->chains[i].n; j++) le_add_u32(body, b->chain_pages.p[b->chains[i].at + j]);
    buf_add_slice(body, buf_slice(&pages));
    buf_fini(&pages);
    buf_fini(&offsets);
    return rc;
}

static void add_packed(struct slice body, uint32_t page_size, struct buf *out)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    CHECK(z);
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    buf_add(out, "SQPC", 4);
    buf_add_byte(out, VERSION);
    le_add_u64(out, body.n);
    le_add_u32(out, page_size);
    buf_add_byte(out, 0);
    size_t room = ZSTD_compressBound(body.n), n = ZSTD_compress2(z, buf_room(out, room), room, body.p, body.n);
    CHECK(!ZSTD_isError(n)); /* the bound was kept, so only memory can be missing */
    out->len += n;
    ZSTD_freeCCtx(z);
}

int sidecar_build(const struct page_source *source, struct buf *out)
{
    struct builder b = {.source = source};
    struct buf body = {0};
    int rc = collect(&b);
    if (rc == 0) rc = make_body(&b, &body);
    if (rc == 0) add_packed(buf_slice(&body), source->page_size, out);
    buf_fini(&body);
    mem_free(b.roots.p);
    mem_free(b.pages.p);
    mem_free(b.chain_pages.p);
    mem_free(b.chains);
    return rc;
}

bool sidecar_bind(struct buf *out, size_t at, struct slice etag)
{
    CHECK(out->len - at > AT_TAG && out->p[at + AT_TAG_LEN] == 0);
    if (etag.n > SIDECAR_TAG_MAX) return false;
    buf_insert(out, at + AT_TAG, etag.p, etag.n);
    out->p[at + AT_TAG_LEN] = (char)etag.n;
    return true;
}

/* ---- reading */

struct sidecar {
    uint32_t page_size, n_pages;
    uint32_t held, n_chains, n_chain_pages;
    uint32_t *numbers, *offsets;       /* of the pages held; where their bytes begin in the body's last part, held + 1 */
    uint32_t *heads, *chain_offsets, *chain_pages;
    uint8_t *pages;                    /* whole again, in order */
};

void sidecar_free(struct sidecar *s)
{
    if (!s) return;
    mem_free(s->numbers);
    mem_free(s->offsets);
    mem_free(s->heads);
    mem_free(s->chain_offsets);
    mem_free(s->chain_pages);
    mem_free(s->pages);
    mem_free(s);
}

/* Takes n numbers from the front of the body; NULL if it has not so many. */
static uint32_t *take(struct slice *body, uint64_t n)
{
    if (n > body->n / 4) return NULL;
    uint32_t *out = mem_alloc(((size_t)n + 1) * sizeof *out);
    for (uint64_t i = 0; i < n; i++) out[i] = le_u32(body->p + 4 * i);
    *body = slice_of(body->p + 4 * n, body->n - (size_t)(4 * n));
    return out;
}

static bool take_one(struct slice *body, uint32_t *v)
{
    if (body->n < 4) return false;
    *v = le_u32(body->p);
    *body = slice_of(body->p + 4, body->n - 4);
    return true;
}

/* Each within lo..hi and larger than the one before it; least_step 0: or as large. */
static bool ascends(const uint32_t *v, uint64_t n, uint32_t lo, uint32_t hi, uint32_t least_step)
{
    for (uint64_t i = 0; i < n; i++) {
        if (v[i] < lo || v[i] > hi) return false;
        if (i && v[i] < (uint64_t)v[i - 1] + least_step) return false;
    }
    return true;
}

static bool parse_pages(struct sidecar *s, struct slice *body)
{
    if (!take_one(body, &s->held) || s->held > s->n_pages) return false;
    if (!(s->numbers = take(body, s->held)) || !(s->offsets = take(body, (uint64_t)s->held + 1))) return false;
    return ascends(s->numbers, s->held, 1, s->n_pages, 1) && s->offsets[0] == 0 && ascends(s->offsets, (uint64_t)s->held + 1, 0, UINT32_MAX, 0);
}

static bool parse_chains(struct sidecar *s, struct slice *body)
{
    if (!take_one(body, &s->n_chains) || s->n_chains > s->n_pages) return false;
    if (!(s->heads = take(body, s->n_chains)) || !(s->chain_offsets = take(body, (uint64_t)s->n_chains + 1))) return false;
    if (!ascends(s->heads, s->n_chains, 2, s->n_pages, 1)) return false;
    if (s->chain_offsets[0] != 0 || !ascends(s->chain_offsets, (uint64_t)s->n_chains + 1, 0, s->n_pages, 1)) return false;
    s->n_chain_pages = s->chain_offsets[s->n_chains];
    if (!(s->chain_pages = take(body, s->n_chain_pages))) return false;
    for (uint32_t i = 0; i < s->n_chain_pages; i++)
        if (s->chain_pages[i] < 2 || s->chain_pages[i] > s->n_pages) return false;
    for (uint32_t i = 0; i < s->n_chains; i++)
        if (s->chain_pages[s->chain_offsets[i]] != s->heads[i]) return false;
    return true;
}

/* Makes the pages whole. */
static bool rebuild(struct sidecar *s, struct slice blob)
{
    if (s->offsets[s->held] != blob.n) return false;
    s->pages = mem_zalloc((size_t)s->held * s->page_size);
    for (uint32_t i = 0; i < s->held; i++) {
        const uint8_t *stored = (const uint8_t *)blob.p + s->offsets[i];
        uint32_t n = s->offsets[i + 1] - s->offsets[i], from, to;
        uint8_t *page = s->pages + (size_t)i * s->page_size;
        if (!gap_of(stored, n, s->page_size, s->numbers[i], &from, &to) || n != s->page_size - (to - from)) return false;
        memcpy(page, stored, from);
        memcpy(page + to, stored + from, s->page_size - to);
    }
    return true;
}

/* Page 1 speaks of the same file. */
static bool matches(const struct sidecar *s, uint64_t db_bytes)
{
    uint32_t page_size, n_pages;
    if (s->held == 0 || s->numbers[0] != 1) return false;
    return pages_header(slice_of(s->pages, s->page_size), db_bytes, &page_size, &n_pages, NULL) == 0 && page_size == s->page_size && n_pages <= s->n_pages;
}

/* Exactly one frame, with a checksum, of exactly so many bytes. The frame's descriptor is its fifth byte. */
static char *unpack(struct slice frame, uint64_t body_n)
{
    if (frame.n < 6 || !(frame.p[4] & 4) || ZSTD_findFrameCompressedSize(frame.p, frame.n) != frame.n) return NULL;
    char *body = mem_alloc((size_t)body_n + 1);
    if (ZSTD_decompress(body, (size_t)body_n, frame.p, frame.n) == body_n) return body;
    mem_free(body);
    return NULL;
}

static bool parse(struct sidecar *s, struct slice frame, uint64_t body_n, uint64_t db_bytes)
{
    /* Every page is held or part of a chain at most once, which bounds what a small frame may unpack to. */
    if (body_n > db_bytes + 12ull * s->n_pages + 16) return false;
    char *bytes = unpack(frame, body_n);
    if (!bytes) return false;
    struct slice body = slice_of(bytes, (size_t)body_n);
    bool ok = parse_pages(s, &body) && parse_chains(s, &body) && rebuild(s, body) && matches(s, db_bytes);
    mem_free(bytes);
    return ok;
}

int sidecar_new(struct sidecar **sidecar, struct slice file, struct slice etag, uint64_t db_bytes)
{
    *sidecar = NULL;
    if (file.n < AT_TAG || memcmp(file.p, "SQPC", 4) != 0 || (uint8_t)file.p[4] != VERSION) return ERR_SIDECAR_DAMAGED;
    uint32_t page_size = le_u32(file.p + AT_PAGE_SIZE);
    uint8_t tag_n = (uint8_t)file.p[AT_TAG_LEN];
    if (page_size < PAGEFILE_SIZE_MIN || page_size > PAGEFILE_SIZE_MAX || (page_size & (page_size - 1))) return ERR_SIDECAR_DAMAGED;
    if (file.n - AT_TAG < tag_n) return ERR_SIDECAR_DAMAGED;
    if (tag_n == 0 || !slice_eq(slice_of(file.p + AT_TAG, tag_n), etag) || db_bytes % page_size || db_bytes / page_size >= UINT32_MAX) return ERR_SIDECAR_STALE;
    struct sidecar *s = mem_zalloc(sizeof *s);
    s->page_size = page_size;
    s->n_pages = (uint32_t)(db_bytes / page_size);
    if (!parse(s, slice_of(file.p + AT_TAG + tag_n, file.n - AT_TAG - tag_n), le_u64(file.p + AT_BODY), db_bytes)) {
        sidecar_free(s);
        return ERR_SIDECAR_DAMAGED;
    }
    *sidecar = s;
    return 0;
}

uint32_t sidecar_page_size(const struct sidecar *s) { return s->page_size; }
uint32_t sidecar_n_pages(const struct sidecar *s) { return s->n_pages; }
uint32_t sidecar_held(const struct sidecar *s) { return s->held; }

/* The place of v among n ascending numbers; n: not there. */
static uint32_t place_of(const uint32_t *numbers, uint32_t n, uint32_t v)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (numbers[mid] < v) lo = mid + 1;
        else hi = mid;
    }
    return lo < n && numbers[lo] == v ? lo : n;
}

const uint8_t *sidecar_page(const struct sidecar *s, uint32_t number)
{
    uint32_t i = place_of(s->numbers, s->held, number);
    return i == s->held ? NULL : s->pages + (size_t)i * s->page_size;
}

uint32_t sidecar_chain(const struct sidecar *s, uint32_t head, const uint32_t **numbers)
{
    uint32_t i = place_of(s->heads, s->n_chains, head);
    if (i == s->n_chains) return 0;
    *numbers = s->chain_pages + s->chain_offsets[i];
    return s->chain_offsets[i + 1] - s->chain_offsets[i];
}

/* ---- as a page source */

static bool is_ours(const struct sidecar *s, const uint8_t *page)
{
    return (uintptr_t)page - (uintptr_t)s->pages < (uintptr_t)s->held * s->page_size;
}

/* The numbers among these that the sidecar does not hold, and which of the n they are. */
static uint32_t others(const struct sidecar *s, const uint32_t *numbers, uint32_t n, uint32_t *out, uint32_t *which)
{
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++)
        if (place_of(s->numbers, s->held, numbers[i]) == s->held) {
            which[m] = i;
            out[m++] = numbers[i];
        }
    return m;
}

static int pages_of_both(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t **pages)
{
    struct sidecar_pages *p = ctx;
    uint32_t rest[PAGES_GET_MAX], which[PAGES_GET_MAX];
    const uint8_t *got[PAGES_GET_MAX];
    uint32_t m = others(p->sidecar, numbers, n, rest, which);
    int rc = m ? p->under->get(p->under->ctx, rest, m, got) : 0;
    if (rc) return rc;
    for (uint32_t i = 0; i < n; i++) pages[i] = sidecar_page(p->sidecar, numbers[i]);
    for (uint32_t i = 0; i < m; i++) pages[which[i]] = got[i];
    return 0;
}

static void put_back(void *ctx, const uint32_t *numbers, uint32_t n, const uint8_t *const *pages)
{
    struct sidecar_pages *p = ctx;
    uint32_t rest[PAGES_GET_MAX], m = 0;
    const uint8_t *got[PAGES_GET_MAX];
    for (uint32_t i = 0; i < n; i++) {
        if (is_ours(p->sidecar, pages[i])) continue;
        rest[m] = numbers[i];
        got[m++] = pages[i];
    }
    if (m) p->under->put(p->under->ctx, rest, m, got);
}

static void want_others(void *ctx, const uint32_t *numbers, uint32_t n)
{
    struct sidecar_pages *p = ctx;
    uint32_t rest[PAGES_GET_MAX], which[PAGES_GET_MAX];
    uint32_t m = others(p->sidecar, numbers, n, rest, which);
    if (m) p->under->want(p->under->ctx, rest, m);
}

static uint32_t chain_of(void *ctx, uint32_t head, const uint32_t **numbers)
{
    struct sidecar_pages *p = ctx;
    return sidecar_chain(p->sidecar, head, numbers);
}

void sidecar_pages_init(struct sidecar_pages *p, const struct sidecar *sidecar, const struct page_source *under)
{
    CHECK(!under->base && under->page_size == sidecar->page_size && under->n_pages <= sidecar->n_pages);
    p->sidecar = sidecar;
    p->under = under;
    p->source = (struct page_source){.page_size = under->page_size, .n_pages = under->n_pages, .ctx = p, .get = pages_of_both, .put = put_back, .chain = chain_of};
    if (under->want) p->source.want = want_others;
}
