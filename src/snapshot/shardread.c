/* How a lookup is made fast
 *
 * A file of five million rows has five levels. Searching a page is made cheap in pagesearch.h; the way down is made short by an index of the interior pages (leafindex.h), where the file is in
 * memory and the reader has one; and lookups that come together make their steps in turn, so that their cache misses overlap. */
#include "snapshot/shardread.h"

#include "base/mem.h"
#include "base/prefetch.h"
#include "snapshot/leafindex.h"
#include "snapshot/overflow.h"
#include "snapshot/pagesearch.h"
#include "snapshot/schema.h"
#include "snapshot/treepage.h"
#include "snapshot/treewalk.h"

/* --- opening --- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
static bool is_word(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

/* The next word or sign. */
static struct slice lexeme(struct slice *s)
{
    while (s->n && is_space(*s->p)) *s = slice_of(s->p + 1, s->n - 1);
    size_t n = 0;
    while (n < s->n && is_word(s->p[n])) n++;
    struct slice t = slice_of(s->p, n ? n : s->n > 0);
    *s = slice_of(s->p + t.n, s->n - t.n);
    return t;
}

/* The same, but a name in quotes is the name. */
static struct slice token(struct slice *s)
{
    struct slice t = lexeme(s);
    if (t.n != 1 || !strchr("\"`[", t.p[0])) return t;
    t = lexeme(s);
    lexeme(s);
    return t;
}

/* The table's SQL says how its records are to be understood and ordered; spaces, case and quotes are left to the writer. */
static bool is_format_sql(struct slice sql)
{
    static const char *const words[] = {"create", "table", "kv", "(", "k", "blob", "primary", "key", ",", "v", "blob", "not", "null", ")", "without", "rowid"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!slice_is(token(&sql), words[i])) return false;
    return token(&sql).n == 0;
}

struct table {
    uint32_t root;
    bool found, is_kv;
};

static int look_for_table(void *arg, const struct schema_item *item)
{
    struct table *t = arg;
    if (!slice_is(item->name, "kv")) return 0;
    t->found = true;
    t->is_kv = slice_is(item->type, "table") && is_format_sql(item->sql);
    t->root = item->root;
    return 1;
}

static int refuse(int code, const char *sentence, const char **why)
{
    if (why) *why = sentence;
    return code;
}

int shardread_open(struct shardread *r, const struct page_source *source, const char **why)
{
    struct table table = {0};
    const uint8_t *page;
    struct treepage t;
    *r = (struct shardread){.source = source};
    int rc = schema_each(source, look_for_table, &table);
    if (rc < 0) return refuse(rc, "the schema cannot be read", why);
    if (!table.found) return refuse(ERR_SHARD_UNSUPPORTED, "there is no table kv", why);
    if (!table.is_kv) return refuse(ERR_SHARD_UNSUPPORTED, "kv is not a table kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID", why);
    rc = table.root == 1 ? ERR_SHARD_DAMAGED : pages_get(source, table.root, &page);
    if (rc) return refuse(rc, "the table's root page cannot be read", why);
    if (!treepage_parse(&t, page, source->page_size, table.root) || t.table) rc = refuse(ERR_SHARD_DAMAGED, "the table's root page is not one", why);
    pages_put(source, table.root, page);
    r->root = table.root;
    return rc;
}

/* --- where a lookup begins --- */

/* A page to look in, and what is known about it. */
struct spot {
    uint32_t number;    /* 0: nothing more to look at */
    bool is_row;        /* the row itself was found: */
    uint32_t cell;
    uint64_t low, high; /* heads of the rows before and behind the page; equal: not known */
};

/* Among rows first to end of the index, whose heads are all the probe's own, by their whole keys. 1 and the row, 0 and the first one behind the key, or an error. */
static int search_rows(const struct shardread *r, const struct pagesearch_probe *p, uint32_t *first, uint32_t end)
{
    while (*first < end) {
        uint32_t mid = *first + (end - *first) / 2;
        uint32_t number = r->index->rows[mid].page, cell = r->index->cells[mid];
        const uint8_t *page;
        struct treepage t;
        bool less;
        int rc = pages_get(r->source, number, &page);
        if (rc) return rc;
        if (!treepage_parse(&t, page, r->source->page_size, number) || cell >= t.cells) return ERR_SHARD_DAMAGED;
        rc = pagesearch_compare(r->source, &t, cell, p, &less);
        if (rc) {
            *first = mid;
            return rc;
        }
        if (less) *first = mid + 1;
        else end = mid;
    }
    return 0;
}

/* A key that does not begin as all rows of the index do is before them all, or behind: in one of the leaves at the edges, of whose rows nothing is known. */
static bool is_outside(const struct leafindex *x, struct slice key, uint32_t *leaf)
{
    if (x->skip == 0) return false;
    size_t n = key.n < x->skip ? key.n : x->skip;
    int order = n ? memcmp(key.p, x->shared.p, n) : 0;
    if (order == 0 && key.n >= x->skip) return false;
    *leaf = order <= 0 ? 0 : x->n;
    return true;
}

/* Makes the probe, and finds by the index where to look for it. 0 or an error. */
static int locate(const struct shardread *r, struct slice key, struct pagesearch_probe *p, struct spot *spot)
{
    const struct leafindex *x = r->index;
    uint32_t at;
    *spot = (struct spot){0};
    if (is_outside(x, key, &at)) {
        *p = pagesearch_probe(key, 0);
        spot->number = x->rows[at].leaf;
        return 0;
    }
    *p = pagesearch_probe(key, x->skip);
    at = leafindex_lower(x, p->head);
    if (at < x->n && x->rows[at].head == p->head) {
        uint32_t end = p->head == UINT64_MAX ? x->n : leafindex_lower(x, p->head + 1);
        int rc = search_rows(r, p, &at, end);
        if (rc < 0) return rc;
        if (rc) {
            *spot = (struct spot){.number = x->rows[at].page, .cell = x->cells[at], .is_row = true};
            return 0;
        }
    }
    spot->number = x->rows[at].leaf;
    if (at == 0 || at == x->n) *p = pagesearch_probe(key, 0); /* the leaves at the edges have rows outside */
    else *spot = (struct spot){.number = x->rows[at].leaf, .low = x->rows[at - 1].head, .high = x->rows[at].head};
    return 0;
}

/* With an index the lookup begins in a leaf or at the row itself, else at the root. */
static int set_out_for(const struct shardread *r, uint32_t lookups, struct slice key, struct pagesearch_probe *p, struct spot *spot)
{
    if (r->index && leafindex_ready(r->index, lookups)) return locate(r, key, p, spot);
    *p = pagesearch_probe(key, 0);
    *spot = (struct spot){.number = r->root};
    return 0;
}

/* Asks for a page's head and, since writers put cells one before the other from the page's end on, for the cell that the search will probably look at first. */
static void prefetch_spot(const struct page_source *s, const struct spot *spot, const struct pagesearch_probe *p)
{
    if (spot->number - 1 >= s->n_pages) return;
    const uint8_t *page = s->base + (size_t)(spot->number - 1) * s->page_size;
    prefetch_line(page);
    if (spot->low >= p->head || p->head >= spot->high || spot->high - spot->low > INT64_MAX) return;
    double share = (double)(int64_t)(p->head - spot->low) / (double)(int64_t)(spot->high - spot->low);
    const uint8_t *cell = page + (uint32_t)((1 - share) * (s->page_size - 128)) + 64;
    prefetch_line(cell);
}

/* --- one lookup --- */

/* What a search in a page means, which gave rc and `at`: 1 and the value, 0 and the child to go on with (0: none), or an error. */
static int after_search(const struct page_source *s, const struct treepage *t, int rc, uint32_t at, uint32_t *number, struct buf *buf, struct slice *value)
{
    if (rc < 0) return rc;
    if (rc) {
        rc = pagesearch_value(s, t, at, s->base != NULL, buf, value);
        return rc ? rc : 1;
    }
    *number = t->leaf ? 0 : treepage_child(t, at);
    return *number || t->leaf ? 0 : ERR_SHARD_DAMAGED;
}

/* Parses the spot's page and begins the search in it. 0 or an error. */
static inline int begin_search(const struct page_source *s, const uint8_t *page, const struct spot *spot, const struct pagesearch_probe *p, struct treepage *t, struct pagesearch *h)
{
    if (!treepage_parse(t, page, s->page_size, spot->number) || t->table) return ERR_SHARD_DAMAGED;
    if (unlikely(spot->is_row)) {
        *h = (struct pagesearch){.lo = spot->cell, .hit = true};
        return spot->cell < t->cells ? 0 : ERR_SHARD_DAMAGED;
    }
    pagesearch_begin(h, t, p, spot->low, spot->high);
    return 0;
}

/* What the spot's page says about the probe, as after_search does; the spot becomes the child. */
static int look_in(const struct page_source *s, const uint8_t *page, struct spot *spot, const struct pagesearch_probe *p, struct buf *buf, struct slice *value)
{
    struct treepage t;
    struct pagesearch h;
    int rc = begin_search(s, page, spot, p, &t, &h);
    if (rc == 0) rc = pagesearch_run(&h, s, &t, p);
    *spot = (struct spot){.number = spot->number};
    return after_search(s, &t, rc, h.lo, &spot->number, buf, value);
}

int shardread_get(const struct shardread *r, struct slice key, struct buf *buf, struct slice *value)
{
    const struct page_source *s = r->source;
    struct pagesearch_probe p;
    struct spot spot;
    buf->len = 0;
    int rc = set_out_for(r, 1, key, &p, &spot);
    if (rc) return rc;
    if (s->base) prefetch_spot(s, &spot, &p);
    for (int depth = 0; depth < SHARDREAD_DEPTH_MAX; depth++) {
        const uint8_t *page;
        uint32_t here = spot.number;
        rc = pages_get(s, here, &page);
        if (rc) return rc;
        rc = look_in(s, page, &spot, &p, buf, value);
        pages_put(s, here, page);
        if (rc || spot.number == 0) return rc;
    }
    return ERR_SHARD_DAMAGED;
}

/* --- many lookups --- */

enum { GROUP = 32 }; /* lookups that go hand in hand */

struct lookup {
    struct shardread_ask *ask;
    const struct page_source *source;
    struct pagesearch_probe probe;
    struct spot spot; /* the page that comes next */
    const uint8_t *page;
    struct treepage t; /* the page and the search in it, where all lookups search hand in hand */
    struct pagesearch search;
    int rc;
};

static void finish(struct lookup *l, int rc)
{
    l->ask->rc = rc;
    l->spot.number = 0;
}

/* What the page gave: rc as of look_in. A value that came into buf, which had `before` bytes, is noted by its offset, since buf may move. */
static void advance(struct lookup *l, int rc, const struct buf *buf, size_t before)
{
    struct shardread_ask *ask = l->ask;
    ask->at = before;
    ask->in_buf = rc == 1 && buf->p && ask->value.p == buf->p + before;
    if (rc || l->spot.number == 0) finish(l, rc);
}

/* Gets the pages of all lookups that go on, each page once, in one call; the lookups are in no order of pages. */
static int get_pages(const struct page_source *s, struct lookup *lookups, uint32_t n, uint32_t *numbers, const uint8_t **pages, uint32_t *n_pages)
{
    *n_pages = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = lookups[i].spot.number, j = 0;
        if (number == 0) continue;
        if (number > s->n_pages) {
            finish(&lookups[i], ERR_SHARD_DAMAGED);
            continue;
        }
        while (j < *n_pages && numbers[j] != number) j++;
        if (j == *n_pages) numbers[(*n_pages)++] = number;
    }
    if (*n_pages == 0) return 0;
    int rc = s->get(s->ctx, numbers, *n_pages, pages);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        for (uint32_t j = 0; j < *n_pages; j++)
            if (lookups[i].spot.number == numbers[j]) lookups[i].page = pages[j];
    return rc;
}

/* One level of the tree for all lookups; true while some go on. */
static bool level_fetched(const struct page_source *s, struct lookup *lookups, uint32_t n, struct buf *buf)
{
    uint32_t numbers[GROUP], n_pages;
    const uint8_t *pages[GROUP];
    int rc = get_pages(s, lookups, n, numbers, pages, &n_pages);
    bool more = false;
    for (uint32_t i = 0; i < n; i++) {
        if (lookups[i].spot.number == 0) continue;
        struct lookup *l = &lookups[i];
        size_t before = buf->len;
        advance(l, rc ? rc : look_in(s, l->page, &l->spot, &l->probe, buf, &l->ask->value), buf, before);
        more |= l->spot.number != 0;
    }
    if (rc == 0 && n_pages) s->put(s->ctx, numbers, n_pages, pages);
    return more;
}

/* Parses the pages of all lookups, whose heads were asked for before, and asks for the cells where the searches begin. */
static void begin_searches(struct lookup *lookups, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct lookup *l = &lookups[i];
        l->search.n = 0;
        if (l->spot.number == 0) continue;
        l->rc = pages_get(l->source, l->spot.number, &l->page);
        if (l->rc == 0) l->rc = begin_search(l->source, l->page, &l->spot, &l->probe, &l->t, &l->search);
        if (l->rc) l->search.n = 0;
        else pagesearch_prefetch(&l->search, &l->t);
    }
}

enum { VALUE_AHEAD = 256 }; /* bytes of a value that are asked for: the processor guesses the rest */

/* Of all searches, which have ended. True while lookups go on. */
static bool end_searches(struct lookup *lookups, uint32_t n, struct buf *buf)
{
    bool more = false;
    for (uint32_t i = 0; i < n; i++) {
        struct lookup *l = &lookups[i];
        struct slice *value = &l->ask->value;
        size_t before = buf->len;
        if (l->spot.number == 0) continue;
        if (l->rc == 0) l->rc = l->search.hit;
        l->spot = (struct spot){.number = l->spot.number};
        advance(l, after_search(l->source, &l->t, l->rc, l->search.lo, &l->spot.number, buf, value), buf, before);
        for (size_t at = 63; l->ask->rc == 1 && at < value->n + 63 && at < VALUE_AHEAD; at += 64) prefetch_line(value->p + at);
        if (l->spot.number == 0) continue;
        prefetch_spot(l->source, &l->spot, &l->probe);
        more = true;
    }
    return more;
}

/* The same where all pages are in memory: each search makes one step in turn, so that the cell it needs for the next is on its way while the others make theirs. */
static bool level_mapped(struct lookup *lookups, uint32_t n, struct buf *buf)
{
    begin_searches(lookups, n);
    for (bool going = true; going;) {
        going = false;
        for (uint32_t i = 0; i < n; i++) {
            struct lookup *l = &lookups[i];
            if (l->search.n == 0) continue;
            l->rc = pagesearch_step(&l->search, l->source, &l->t, &l->probe);
            if (unlikely(l->rc)) l->search.n = 0;
            pagesearch_prefetch(&l->search, &l->t);
            going = true;
        }
    }
    return end_searches(lookups, n, buf);
}

static void get_group(struct shardread_ask *asks, uint32_t n, struct buf *buf)
{
    struct lookup lookups[GROUP];
    bool more = true;
    for (uint32_t i = 0; i < n; i++) {
        struct lookup *l = &lookups[i];
        l->ask = &asks[i];
        l->source = asks[i].r->source;
        l->ask->rc = 0;
        int rc = set_out_for(asks[i].r, 1, asks[i].key, &l->probe, &l->spot);
        if (rc) finish(l, rc);
        else if (l->source->base) prefetch_spot(l->source, &l->spot, &l->probe);
    }
    for (int depth = 0; depth < SHARDREAD_DEPTH_MAX && more; depth++) {
        if (lookups[0].source->base) more = level_mapped(lookups, n, buf);
        else more = level_fetched(lookups[0].source, lookups, n, buf);
    }
    for (uint32_t i = 0; i < n; i++)
        if (lookups[i].spot.number) finish(&lookups[i], ERR_SHARD_DAMAGED);
}

static int get_all(struct shardread_ask *asks, size_t n, struct buf *buf)
{
    int rc = 0;
    buf->len = 0;
    for (size_t i = 0; i < n; i += GROUP) get_group(asks + i, n - i < GROUP ? (uint32_t)(n - i) : GROUP, buf);
    for (size_t i = 0; i < n; i++) {
        if (asks[i].rc == 1 && asks[i].in_buf) asks[i].value.p = buf->p + asks[i].at;
        if (rc == 0 && asks[i].rc < 0) rc = asks[i].rc;
    }
    return rc;
}

int shardread_get_many(const struct shardread *r, struct shardread_ask *asks, size_t n, struct buf *buf)
{
    for (size_t i = 0; i < n; i++) asks[i].r = r;
    return get_all(asks, n, buf);
}

int shardread_get_mapped(struct shardread_ask *asks, size_t n, struct buf *buf)
{
    for (size_t i = 0; i < n; i++) CHECK(asks[i].r->source->base);
    return get_all(asks, n, buf);
}

/* --- cursors --- */

void shardread_cursor_init(struct shardread_cursor *c, const struct shardread *r) { *c = (struct shardread_cursor){.r = r}; }

static struct shardread_step *top(struct shardread_cursor *c) { return &c->path[c->depth - 1]; }

static void leave(struct shardread_cursor *c)
{
    struct shardread_step *step = &c->path[--c->depth];
    pages_put(c->r->source, step->number, step->page.p);
}

static int leave_all(struct shardread_cursor *c, int rc)
{
    while (c->depth) leave(c);
    return rc;
}

void shardread_cursor_fini(struct shardread_cursor *c)
{
    leave_all(c, 0);
    buf_fini(&c->key_buf);
    buf_fini(&c->value_buf);
}

/* Goes down to page `number`. A tree has no page twice: whoever enters more pages than there are goes round in circles. */
static int enter(struct shardread_cursor *c, uint32_t number)
{
    const struct page_source *s = c->r->source;
    struct shardread_step *step = &c->path[c->depth];
    if (c->depth == SHARDREAD_DEPTH_MAX || c->entered++ >= s->n_pages) return ERR_SHARD_DAMAGED;
    const uint8_t *page;
    int rc = pages_get(s, number, &page);
    if (rc) return rc;
    *step = (struct shardread_step){.number = number};
    if (!treepage_parse(&step->page, page, s->page_size, number) || step->page.table) {
        pages_put(s, number, page);
        return ERR_SHARD_DAMAGED;
    }
    c->depth++;
    if (step->page.leaf) c->leaf_depth = c->depth;
    return 0;
}

enum { WANT_FIRST = 4, WANT_MOST = 64 };

/* A forward walk goes on with the step's next child: if the children are leaves that have to be fetched, those behind it will be needed too. The longer it walks, the more. */
static void want_ahead(struct shardread_cursor *c, struct shardread_step *step)
{
    const struct page_source *s = c->r->source;
    uint32_t i = step->cell;
    if (s->base || !s->want || c->depth + 1 != c->leaf_depth || i < step->wanted) return;
    uint32_t numbers[WANT_MOST], n = 0;
    c->ahead = c->ahead == 0 ? WANT_FIRST : c->ahead < WANT_MOST ? c->ahead * 2 : WANT_MOST;
    for (; n < c->ahead && i + n <= step->page.cells; n++) {
        numbers[n] = treepage_child(&step->page, i + n);
        if (numbers[n] - 1 >= s->n_pages) break;
    }
    step->wanted = i + c->ahead;
    if (n) s->want(s->ctx, numbers, n);
}

/* Down to the first row of the subtree at `number`, or the last one; the leaf may be empty. */
static int enter_edge(struct shardread_cursor *c, uint32_t number, bool first)
{
    for (;;) {
        int rc = enter(c, number);
        if (rc) return rc;
        struct shardread_step *step = top(c);
        step->cell = first ? 0 : step->page.cells;
        if (step->page.leaf) return 0;
        number = treepage_child(&step->page, step->cell);
    }
}

/* A step's cell means: the rows before it are behind us, those from it on before us. Climbs to the first page that has a row on the side we go to. 1 or 0. */
static int climb(struct shardread_cursor *c)
{
    while (c->depth) {
        struct shardread_step *step = top(c);
        if (c->forward && step->cell < step->page.cells) return 1;
        if (!c->forward && step->cell > 0) {
            step->cell--;
            return 1;
        }
        leave(c);
    }
    return 0;
}

/* Takes the key of the row that the cursor is on. 1, 0 if it is no BLOB, or an error. */
static int load_key(struct shardread_cursor *c)
{
    struct shardread_step *step = top(c);
    struct treecell cell;
    struct treerow row;
    if (!treepage_cell(&step->page, step->cell, &cell) || !treepage_row(&cell, &row)) return ERR_SHARD_DAMAGED;
    if (!row.key_is_blob) return 0;
    c->key_buf.len = 0;
    int rc = pagesearch_part(c->r->source, &cell, row.head, row.key_n, true, &c->key_buf, &c->key);
    return rc ? rc : 1;
}

/* One row on, in the cursor's direction, without looking at it. */
static int move(struct shardread_cursor *c)
{
    struct shardread_step *step = top(c);
    int rc = 0;
    if (c->forward) step->cell++;
    if (!step->page.leaf) {
        if (c->forward) want_ahead(c, step);
        rc = enter_edge(c, treepage_child(&step->page, step->cell), c->forward);
    }
    return rc ? rc : climb(c);
}

/* Ends every movement: rc is 1 on a row, whose key is wanted. Rows without a BLOB as key stand before all others: going forward they are skipped, going back they are the end. */
static int arrive(struct shardread_cursor *c, int rc)
{
    while (rc == 1) {
        rc = load_key(c);
        if (rc == 1) return 1;
        if (rc == 0 && !c->forward) break;
        if (rc == 0) rc = move(c);
    }
    return leave_all(c, rc);
}

static void set_out(struct shardread_cursor *c, bool forward)
{
    c->forward = forward;
    c->entered = 0;
    c->ahead = 0;
}

/* To where the key is or would be; 1 if it is there. */
static int find(struct shardread_cursor *c, struct slice key, bool stop_at_hit)
{
    struct pagesearch_probe p = pagesearch_probe(key, 0);
    struct pagesearch h;
    uint32_t number = c->r->root;
    for (;;) {
        int rc = enter(c, number);
        if (rc) return rc;
        struct shardread_step *step = top(c);
        pagesearch_begin(&h, &step->page, &p, 0, 0);
        rc = pagesearch_run(&h, c->r->source, &step->page, &p);
        step->cell = h.lo;
        if (rc < 0 || step->page.leaf || (rc && stop_at_hit)) return rc < 0 ? rc : 0;
        number = treepage_child(&step->page, step->cell);
    }
}

int shardread_seek(struct shardread_cursor *c, struct slice key)
{
    leave_all(c, 0);
    set_out(c, true);
    int rc = find(c, key, true);
    return arrive(c, rc ? rc : climb(c));
}

int shardread_seek_before(struct shardread_cursor *c, struct slice key)
{
    leave_all(c, 0);
    set_out(c, false);
    int rc = find(c, key, false);
    return arrive(c, rc ? rc : climb(c));
}

int shardread_seek_last(struct shardread_cursor *c)
{
    leave_all(c, 0);
    set_out(c, false);
    int rc = enter_edge(c, c->r->root, false);
    return arrive(c, rc ? rc : climb(c));
}

int shardread_next(struct shardread_cursor *c)
{
    CHECK(c->depth);
    if (!c->forward) set_out(c, true);
    return arrive(c, move(c));
}

int shardread_prev(struct shardread_cursor *c)
{
    CHECK(c->depth);
    if (c->forward) set_out(c, false);
    return arrive(c, move(c));
}

int shardread_value(struct shardread_cursor *c, struct slice *value)
{
    CHECK(c->depth);
    struct shardread_step *step = top(c);
    c->value_buf.len = 0;
    return pagesearch_value(c->r->source, &step->page, step->cell, true, &c->value_buf, value);
}

/* --- the whole file --- */

struct checker {
    const struct page_source *source;
    struct shardread_stats *stats;
    struct treewalk_used used;
    struct buf last, key; /* the last row's; of the row in hand, if it is long */
    bool seen_blob;
};

static int check_page(void *arg, uint32_t number, const struct treepage *t, uint32_t depth)
{
    struct checker *c = arg;
    if (t->table) return ERR_SHARD_DAMAGED;
    if (t->cells == 0 && depth > 1) return ERR_SHARD_DAMAGED;
    if (t->leaf) c->stats->leaf_pages++;
    else c->stats->interior_pages++;
    if (depth > c->stats->depth) c->stats->depth = depth;
    return 0;
}

static int check_chain(struct checker *c, const struct treecell *cell)
{
    struct overflow o;
    struct slice piece;
    uint32_t number;
    uint64_t bytes = cell->payload - cell->local_n;
    int rc = bytes ? overflow_open(&o, c->source, cell->overflow, bytes, bytes) : 0;
    if (bytes == 0 || rc) return rc;
    while ((rc = overflow_next(&o, &piece, &number)) == 1) {
        c->stats->overflow_pages++;
        if (!treewalk_use(&c->used, number)) {
            rc = ERR_SHARD_DAMAGED;
            break;
        }
    }
    overflow_close(&o);
    return rc;
}

static int check_row(void *arg, const struct treecell *cell)
{
    struct checker *c = arg;
    struct treerow row;
    struct slice key;
    if (!treepage_row(cell, &row)) return ERR_SHARD_DAMAGED;
    int rc = check_chain(c, cell);
    if (rc) return rc;
    c->stats->rows++;
    c->stats->key_bytes += row.key_n;
    c->stats->value_bytes += row.value_n;
    if (!row.key_is_blob) return !c->seen_blob ? 0 : ERR_SHARD_DAMAGED;
    c->key.len = 0;
    rc = pagesearch_part(c->source, cell, row.head, row.key_n, true, &c->key, &key);
    if (rc) return rc;
    if (c->seen_blob && slice_cmp(buf_slice(&c->last), key) >= 0) return ERR_SHARD_DAMAGED;
    c->seen_blob = true;
    c->last.len = 0;
    buf_add_slice(&c->last, key);
    return 0;
}

int shardread_check(const struct shardread *r, struct shardread_stats *stats)
{
    *stats = (struct shardread_stats){0};
    struct checker c = {.source = r->source, .stats = stats};
    treewalk_used_init(&c.used, r->source->n_pages);
    treewalk_use(&c.used, 1); /* the schema's */
    int rc = treewalk(r->source, r->root, &(struct treewalk_visitor){.page = check_page, .row = check_row, .arg = &c}, &c.used);
    treewalk_used_fini(&c.used);
    buf_fini(&c.last);
    buf_fini(&c.key);
    return rc;
}
