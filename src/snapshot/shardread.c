/* How a lookup is made fast
 *
 * A file of five million rows has five levels, and nearly every cell that a search looks at is a cache miss. So a comparison reads as little of a cell as it can: the payload's length, the
 * record's header length and the key's type, then eight bytes of the key as one number. The search has no branch on what a comparison gave, and asks for both
 * cells that the next step may need before it makes this one. Rows are taken apart and checked in full only when they are what was looked for. */
#include "snapshot/shardread.h"

#include <endian.h>

#include "base/mem.h"
#include "base/prefetch.h"
#include "snapshot/overflow.h"
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

/* --- comparing --- */

struct probe {
    struct slice key;
    uint64_t head; /* its first eight bytes as a number, if it has eight */
};

static struct probe probe_of(struct slice key)
{
    struct probe p = {.key = key};
    if (key.n >= 8) {
        memcpy(&p.head, key.p, 8);
        p.head = be64toh(p.head);
    }
    return p;
}

/* The key's bytes that are in the cell, against as many of the probe's. */
static int compare_bytes(const struct probe *p, const uint8_t *key, uint64_t n)
{
    if (n >= 8 && p->key.n >= 8) {
        uint64_t head;
        memcpy(&head, key, 8);
        head = be64toh(head);
        if (head != p->head) return head < p->head ? -1 : 1;
        if (n == 8 && p->key.n == 8) return 0;
    }
    return slice_cmp(slice_of(key, (size_t)n), p->key);
}

/* The other part of a key, which goes on in overflow pages, after the first part was equal to as many bytes of the probe. */
static int compare_chain(const struct page_source *s, const struct treecell *c, uint64_t key_left, struct slice rest, bool *less)
{
    struct overflow o;
    struct slice piece;
    int rc = overflow_open(&o, s, c->overflow, c->payload - c->local_n, key_left), order = 0;
    if (rc) return rc;
    while (key_left && rest.n && order == 0 && (rc = overflow_next(&o, &piece, NULL)) == 1) {
        size_t n = piece.n < key_left ? piece.n : (size_t)key_left;
        if (n > rest.n) n = rest.n;
        order = memcmp(piece.p, rest.p, n);
        rest = slice_of(rest.p + n, rest.n - n);
        key_left -= n;
    }
    overflow_close(&o);
    if (rc < 0) return rc;
    if (order == 0) order = key_left ? 1 : rest.n ? -1 : 0;
    *less = order < 0;
    return order == 0;
}

/* Taken apart wholly: long keys, and whatever the quick way does not know. *less: the row's key is before the probe. 1 if they are equal, 0, or an error. */
static int compare_slowly(const struct page_source *s, const struct treepage *t, uint32_t i, const struct probe *p, bool *less)
{
    struct treecell c;
    struct treerow row;
    *less = true;
    if (!treepage_cell(t, i, &c) || !treepage_row(&c, &row)) return ERR_SHARD_DAMAGED;
    if (!row.key_is_blob) return 0; /* other types come before BLOBs */
    uint64_t here = c.local_n - row.head;
    if (row.key_n <= here) {
        int order = compare_bytes(p, c.local + row.head, row.key_n);
        *less = order < 0;
        return order == 0;
    }
    size_t n = here < p->key.n ? (size_t)here : p->key.n;
    int order = memcmp(c.local + row.head, p->key.p, n);
    if (order == 0 && n < here) order = 1;
    *less = order < 0;
    return order ? 0 : compare_chain(s, &c, row.key_n - here, slice_of(p->key.p + n, p->key.n - n), less);
}

/* The quick way, for rows of one or two bytes of length whose key is short and in the page; true if it was one. */
static inline bool compare_quickly(const struct treepage *t, uint32_t i, const struct probe *p, int *order)
{
    uint32_t at = pagefile_u16(t->slots + 2 * i) + (t->leaf ? 0 : 4);
    if (unlikely(at < t->content || at + 8 > t->size)) return false;
    const uint8_t *c = t->p + at;
    uint32_t payload = c[0], n = 1;
    if (payload & 0x80) {
        payload = (payload & 0x7f) << 7 | c[1];
        n = 2;
        if (unlikely(c[1] & 0x80)) return false;
    }
    uint32_t head = c[n], type = c[n + 1];
    if (type & 0x80) {
        if (unlikely(c[n + 2] & 0x80)) return false;
        type = (type & 0x7f) << 7 | c[n + 2];
    }
    if (unlikely(payload > t->whole_max || type < 12 || type & 1)) return false;
    uint32_t key_n = (type - 12) / 2;
    if (unlikely(head > 20 || at + n + head + key_n > t->size || head + key_n > payload)) return false;
    *order = compare_bytes(p, c + n + head, key_n);
    return true;
}

static inline int compare(const struct page_source *s, const struct treepage *t, uint32_t i, const struct probe *p, bool *less)
{
    int order;
    if (likely(compare_quickly(t, i, p, &order))) {
        *less = order < 0;
        return order == 0;
    }
    return compare_slowly(s, t, i, p, less);
}

/* Asks for the two cells of which the next step of a search among n cells from lo on will look at one. */
static inline void prefetch_next(const struct treepage *t, uint32_t lo, uint32_t n)
{
    uint32_t half = n / 2;
    if (n <= 2) return;
    prefetch_line(t->p + pagefile_u16(t->slots + 2 * (lo + half / 2)));
    prefetch_line(t->p + pagefile_u16(t->slots + 2 * (lo + half + (n - half + 1) / 2)));
}

/* A search under way: the answer is among the n cells from lo on, or behind them. */
struct hunt {
    uint32_t lo, n, hit;
};

static inline void hunt_begin(struct hunt *h, const struct treepage *t) { *h = (struct hunt){.n = t->cells, .hit = UINT32_MAX}; }

/* Looks at the cell in the middle. 0, or an error. */
static inline int hunt_step(struct hunt *h, const struct page_source *s, const struct treepage *t, const struct probe *p)
{
    uint32_t half = h->n / 2, mid = h->lo + half;
    bool less;
    int rc = compare(s, t, mid, p, &less);
    if (unlikely(rc < 0)) return rc;
    h->hit = rc ? mid : h->hit;
    h->lo = less ? mid + 1 : h->lo;
    h->n = less ? h->n - half - 1 : half;
    return 0;
}

/* 1 if the cell at lo is the probe's own, 0 if there is none, or an error: the keys of a page differ. */
static inline int hunt_end(const struct hunt *h)
{
    if (h->hit == UINT32_MAX) return 0;
    return h->hit == h->lo ? 1 : ERR_SHARD_DAMAGED;
}

/* The first cell whose key is not before the probe: *at, perhaps behind the last. 1 if it is the probe's own, 0, or an error. */
static int search(const struct page_source *s, const struct treepage *t, const struct probe *p, uint32_t *at)
{
    struct hunt h;
    hunt_begin(&h, t);
    while (h.n) {
        prefetch_next(t, h.lo, h.n);
        int rc = hunt_step(&h, s, t, p);
        if (unlikely(rc)) return rc;
    }
    *at = h.lo;
    return hunt_end(&h);
}

/* --- one lookup --- */

/* n bytes of a row from its byte `from` on: in place if they are in the cell and may stay there, else behind what buf has. */
static int part_of_row(const struct page_source *s, const struct treecell *c, uint64_t from, uint64_t n, bool in_place, struct buf *buf, struct slice *out)
{
    uint64_t here = from < c->local_n ? c->local_n - from : 0;
    if (n <= here && in_place) {
        *out = slice_of(c->local + from, (size_t)n);
        return 0;
    }
    if (n > (uint64_t)s->n_pages * s->page_size) return ERR_SHARD_DAMAGED;
    if (here > n) here = n;
    char *p = buf_room(buf, (size_t)n + 1);
    if (here) memcpy(p, c->local + from, (size_t)here);
    int rc = 0;
    if (here < n) rc = overflow_copy(s, c->overflow, c->payload - c->local_n, from + here - c->local_n, (size_t)(n - here), p + here);
    *out = slice_of(p, (size_t)n);
    buf->len += rc ? 0 : (size_t)n;
    return rc;
}

static int value_of(const struct page_source *s, const struct treepage *t, uint32_t i, bool in_place, struct buf *buf, struct slice *value)
{
    struct treecell c;
    struct treerow row;
    if (!treepage_cell(t, i, &c) || !treepage_row(&c, &row)) return ERR_SHARD_DAMAGED;
    return part_of_row(s, &c, row.head + row.key_n, row.value_n, in_place, buf, value);
}

/* What a search in a page means, which gave rc and `at`: 1 and the value, 0 and the child to go on with (0: none), or an error. */
static int after_search(const struct page_source *s, const struct treepage *t, int rc, uint32_t at, uint32_t *number, struct buf *buf, struct slice *value)
{
    if (rc < 0) return rc;
    if (rc) {
        rc = value_of(s, t, at, s->base != NULL, buf, value);
        return rc ? rc : 1;
    }
    *number = t->leaf ? 0 : treepage_child(t, at);
    return *number || t->leaf ? 0 : ERR_SHARD_DAMAGED;
}

/* What page `number` says about the probe, in the same words. */
static int look_in(const struct page_source *s, const uint8_t *page, uint32_t *number, const struct probe *p, struct buf *buf, struct slice *value)
{
    struct treepage t;
    uint32_t at = 0;
    if (!treepage_parse(&t, page, s->page_size, *number) || t.table) return ERR_SHARD_DAMAGED;
    int rc = search(s, &t, p, &at);
    return after_search(s, &t, rc, at, number, buf, value);
}

int shardread_get(const struct shardread *r, struct slice key, struct buf *buf, struct slice *value)
{
    const struct page_source *s = r->source;
    struct probe p = probe_of(key);
    uint32_t number = r->root;
    buf->len = 0;
    for (int depth = 0; depth < SHARDREAD_DEPTH_MAX; depth++) {
        const uint8_t *page;
        uint32_t here = number;
        int rc = pages_get(s, number, &page);
        if (rc) return rc;
        rc = look_in(s, page, &number, &p, buf, value);
        pages_put(s, here, page);
        if (rc || number == 0) return rc;
    }
    return ERR_SHARD_DAMAGED;
}

/* --- many lookups --- */

enum { GROUP = 32 }; /* lookups that go hand in hand */

struct lookup {
    struct shardread_ask *ask;
    struct probe probe;
    uint32_t number; /* the page that comes next; 0: done */
    const uint8_t *page;
    struct treepage t; /* the page and the search in it, where all lookups search hand in hand */
    struct hunt hunt;
    int rc;
};

static void finish(struct lookup *l, int rc)
{
    l->ask->rc = rc;
    l->number = 0;
}

/* What the page gave: rc as of look_in. A value that came into buf, which had `before` bytes, is noted by its offset, since buf may move. */
static void advance(struct lookup *l, int rc, const struct buf *buf, size_t before)
{
    struct shardread_ask *ask = l->ask;
    ask->at = before;
    ask->in_buf = rc == 1 && buf->p && ask->value.p == buf->p + before;
    if (rc || l->number == 0) finish(l, rc);
}

/* Gets the pages of all lookups that go on, each page once, in one call; the lookups are in no order of pages. */
static int get_pages(const struct page_source *s, struct lookup *lookups, uint32_t n, uint32_t *numbers, const uint8_t **pages, uint32_t *n_pages)
{
    *n_pages = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = lookups[i].number, j = 0;
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
            if (lookups[i].number == numbers[j]) lookups[i].page = pages[j];
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
        if (lookups[i].number == 0) continue;
        struct lookup *l = &lookups[i];
        size_t before = buf->len;
        advance(l, rc ? rc : look_in(s, l->page, &l->number, &l->probe, buf, &l->ask->value), buf, before);
        more |= l->number != 0;
    }
    if (rc == 0 && n_pages) s->put(s->ctx, numbers, n_pages, pages);
    return more;
}

static void prefetch_middle(const struct lookup *l)
{
    if (l->hunt.n) prefetch_line(l->t.p + pagefile_u16(l->t.slots + 2 * (l->hunt.lo + l->hunt.n / 2)));
}

/* Parses the pages of all lookups, whose heads were asked for before, and asks for the cells where the searches begin. */
static void begin_hunts(const struct page_source *s, struct lookup *lookups, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct lookup *l = &lookups[i];
        l->hunt = (struct hunt){0};
        if (l->number == 0) continue;
        l->rc = pages_get(s, l->number, &l->page);
        if (l->rc == 0 && (!treepage_parse(&l->t, l->page, s->page_size, l->number) || l->t.table)) l->rc = ERR_SHARD_DAMAGED;
        if (l->rc) continue;
        hunt_begin(&l->hunt, &l->t);
        prefetch_middle(l);
    }
}

/* The same where all pages are in memory: each search makes one step in turn, so that the cell it needs for the next is on its way while the others make theirs. */
static bool level_mapped(const struct page_source *s, struct lookup *lookups, uint32_t n, struct buf *buf)
{
    begin_hunts(s, lookups, n);
    for (bool going = true; going;) {
        going = false;
        for (uint32_t i = 0; i < n; i++) {
            struct lookup *l = &lookups[i];
            if (l->hunt.n == 0) continue;
            l->rc = hunt_step(&l->hunt, s, &l->t, &l->probe);
            if (unlikely(l->rc)) l->hunt.n = 0;
            prefetch_middle(l);
            going = true;
        }
    }
    bool more = false;
    for (uint32_t i = 0; i < n; i++) {
        struct lookup *l = &lookups[i];
        size_t before = buf->len;
        if (l->number == 0) continue;
        if (l->rc == 0) l->rc = hunt_end(&l->hunt);
        advance(l, after_search(s, &l->t, l->rc, l->hunt.lo, &l->number, buf, &l->ask->value), buf, before);
        if (l->number == 0) continue;
        if (l->number <= s->n_pages) prefetch_line(s->base + (size_t)(l->number - 1) * s->page_size);
        more = true;
    }
    return more;
}

static void get_group(const struct shardread *r, struct shardread_ask *asks, uint32_t n, struct buf *buf)
{
    struct lookup lookups[GROUP];
    bool more = true;
    for (uint32_t i = 0; i < n; i++) lookups[i] = (struct lookup){.ask = &asks[i], .probe = probe_of(asks[i].key), .number = r->root};
    for (int depth = 0; depth < SHARDREAD_DEPTH_MAX && more; depth++) {
        if (r->source->base) more = level_mapped(r->source, lookups, n, buf);
        else more = level_fetched(r->source, lookups, n, buf);
    }
    for (uint32_t i = 0; i < n; i++)
        if (lookups[i].number) finish(&lookups[i], ERR_SHARD_DAMAGED);
}

int shardread_get_many(const struct shardread *r, struct shardread_ask *asks, size_t n, struct buf *buf)
{
    int rc = 0;
    buf->len = 0;
    for (size_t i = 0; i < n; i += GROUP) get_group(r, asks + i, n - i < GROUP ? (uint32_t)(n - i) : GROUP, buf);
    for (size_t i = 0; i < n; i++) {
        if (asks[i].rc == 1 && asks[i].in_buf) asks[i].value.p = buf->p + asks[i].at;
        if (rc == 0 && asks[i].rc < 0) rc = asks[i].rc;
    }
    return rc;
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
    int rc = part_of_row(c->r->source, &cell, row.head, row.key_n, true, &c->key_buf, &c->key);
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
    struct probe p = probe_of(key);
    uint32_t number = c->r->root;
    for (;;) {
        int rc = enter(c, number);
        if (rc) return rc;
        struct shardread_step *step = top(c);
        rc = search(c->r->source, &step->page, &p, &step->cell);
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
    return value_of(c->r->source, &step->page, step->cell, true, &c->value_buf, value);
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
    rc = part_of_row(c->source, cell, row.head, row.key_n, true, &c->key, &key);
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
