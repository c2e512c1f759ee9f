#include "snapshot/leafindex.h"

#include <pthread.h>

#include "base/mem.h"
#include "snapshot/pagesearch.h"
#include "snapshot/shardread.h"
#include "snapshot/treepage.h"

/* A page on the way down: rows before `cell` are in the index, and so is the subtree of its child, if the walk came back from there. */
struct step {
    struct treepage page;
    uint32_t number, cell;
};

struct leafindex_build {
    const struct page_source *source;
    uint32_t root;
    _Atomic uint32_t patience; /* lookups to wait for */
    _Atomic bool over;
    pthread_mutex_t lock;      /* of all that follows, and of the index until it is ready */
    struct step path[SHARDREAD_DEPTH_MAX];
    uint32_t depth;            /* pages on the path; 0: not begun */
    uint32_t bottom;           /* depth of the interior pages whose children are leaves */
    uint32_t room;             /* rows that fit */
    uint32_t filled;           /* entries of `starts` that are written */
};

struct leafindex *leafindex_new(const struct page_source *source, uint32_t root)
{
    struct leafindex *x = mem_zalloc(sizeof *x);
    CHECK(source->base);
    x->build = mem_zalloc(sizeof *x->build);
    x->build->source = source;
    x->build->root = root;
    atomic_init(&x->build->patience, LEAFINDEX_PATIENCE);
    pthread_mutex_init(&x->build->lock, NULL);
    return x;
}

static void drop_rows(struct leafindex *x)
{
    mem_free(x->rows);
    mem_free(x->cells);
    mem_free(x->starts);
    x->rows = NULL;
    x->cells = NULL;
    x->starts = NULL;
}

void leafindex_free(struct leafindex *x)
{
    if (!x) return;
    drop_rows(x);
    pthread_mutex_destroy(&x->build->lock);
    mem_free(x->build);
    mem_free(x);
}

/* ---- the walk */

/* False: this is no tree of the format. */
static bool enter(struct leafindex_build *b, uint32_t number)
{
    const uint8_t *page;
    if (b->depth == SHARDREAD_DEPTH_MAX || pages_get(b->source, number, &page)) return false;
    struct step *s = &b->path[b->depth];
    *s = (struct step){.number = number};
    if (!treepage_parse(&s->page, page, b->source->page_size, number) || s->page.table) return false;
    b->depth++;
    return true;
}

static struct step *top(struct leafindex_build *b) { return &b->path[b->depth - 1]; }

/* The part of a row's key that is in its cell, which has the whole key or at least what a head may need of it. */
static bool key_of(const struct treepage *t, uint32_t i, struct slice *key)
{
    struct treecell c;
    struct treerow row;
    if (!treepage_cell(t, i, &c) || !treepage_row(&c, &row) || !row.key_is_blob) return false;
    uint64_t here = c.local_n - row.head;
    if (here < row.key_n && here < LEAFINDEX_SHARED_MAX + 8) return false;
    *key = slice_of(c.local + row.head, (size_t)(here < row.key_n ? here : row.key_n));
    return true;
}

/* Down to the bottom along the first children, or the last ones, and the key of the first row there, or the last. */
static bool edge_key(struct leafindex_build *b, bool first, struct slice *key)
{
    b->depth = 0;
    if (!enter(b, b->root)) return false;
    while (!top(b)->page.leaf)
        if (!enter(b, treepage_child(&top(b)->page, first ? 0 : top(b)->page.cells))) return false;
    uint32_t bottom = b->depth - 1;
    if (bottom == 0 || (!first && bottom != b->bottom)) return false;
    b->bottom = b->depth = bottom;
    const struct treepage *t = &top(b)->page;
    return t->cells && key_of(t, first ? 0 : t->cells - 1, key);
}

static uint64_t head_of(const struct leafindex *x, struct slice key) { return pagesearch_probe(key, x->skip).head; }

/* Heads are whole where keys are long enough, so that as few as possible are equal. */
static void choose_heads(struct leafindex *x, struct slice first, struct slice last)
{
    size_t n = first.n < last.n ? first.n : last.n, shared = 0;
    while (shared < n && first.p[shared] == last.p[shared]) shared++;
    if (shared > LEAFINDEX_SHARED_MAX) shared = LEAFINDEX_SHARED_MAX;
    if (shared + 8 > n) shared = n > 8 ? n - 8 : 0;
    x->skip = (uint32_t)shared;
    x->shared = slice_of(first.p, shared);
}

static bool begin(struct leafindex *x)
{
    struct leafindex_build *b = x->build;
    struct slice first, last;
    if (!edge_key(b, true, &first) || !edge_key(b, false, &last)) return false;
    choose_heads(x, first, last);
    uint64_t greatest = head_of(x, last);
    x->least = head_of(x, first);
    if (greatest < x->least) return false;
    uint64_t leaves = b->source->n_pages < LEAFINDEX_LEAVES_MAX ? b->source->n_pages : LEAFINDEX_LEAVES_MAX;
    while ((greatest - x->least) >> x->shift > leaves / LEAFINDEX_PER_START) x->shift++;
    x->n_starts = (uint32_t)((greatest - x->least) >> x->shift) + 1;
    x->starts = mem_zalloc((x->n_starts + 1) * sizeof *x->starts);
    return edge_key(b, true, &first);
}

/* ---- filling */

static void resize_rows(struct leafindex *x, uint32_t n)
{
    x->rows = mem_resize(x->rows, (n + 1) * sizeof *x->rows);
    x->cells = mem_resize(x->cells, n * sizeof *x->cells);
}

/* Every path through a tree is new, so it has not more leaves than pages: what has more goes round in circles. */
static bool make_room(struct leafindex *x)
{
    struct leafindex_build *b = x->build;
    if (x->n < b->room) return true;
    if (x->n >= LEAFINDEX_LEAVES_MAX || x->n >= b->source->n_pages) return false;
    b->room = b->room ? b->room * 2 : 256;
    resize_rows(x, b->room);
    return true;
}

static bool add_row(struct leafindex *x, const struct step *s, uint32_t cell)
{
    struct leafindex_build *b = x->build;
    struct slice key;
    if (!make_room(x) || !key_of(&s->page, cell, &key) || key.n < x->skip) return false;
    if (x->skip && memcmp(key.p, x->shared.p, x->skip) != 0) return false;
    uint64_t head = head_of(x, key), slot = (head - x->least) >> x->shift;
    if (head < (x->n ? x->rows[x->n - 1].head : x->least) || slot >= x->n_starts) return false;
    while (b->filled <= slot) x->starts[b->filled++] = x->n;
    x->rows[x->n].head = head;
    x->rows[x->n].page = s->number;
    x->cells[x->n++] = (uint16_t)cell;
    return true;
}

/* A page of the bottom with all its leaves and the rows between them. The row behind it is that of a page above. */
static bool add_page(struct leafindex *x, const struct step *s)
{
    for (uint32_t i = 0; i < s->page.cells; i++) {
        if (!make_room(x)) return false;
        x->rows[x->n].leaf = treepage_child(&s->page, i);
        if (!add_row(x, s, i)) return false;
    }
    if (!make_room(x)) return false;
    x->rows[x->n].leaf = s->page.right;
    return true;
}

/* From a page of the bottom to the next one: up until a page has another row, over it, and down again. The walk ends where there is none. */
static bool go_on(struct leafindex *x)
{
    struct leafindex_build *b = x->build;
    do b->depth--;
    while (b->depth && top(b)->cell >= top(b)->page.cells);
    if (b->depth == 0) return true;
    if (!add_row(x, top(b), top(b)->cell)) return false;
    top(b)->cell++;
    while (b->depth < b->bottom)
        if (!enter(b, treepage_child(&top(b)->page, top(b)->cell)) || top(b)->page.leaf) return false;
    return true;
}

static void end(struct leafindex *x, bool whole)
{
    struct leafindex_build *b = x->build;
    if (!whole) {
        drop_rows(x);
    } else {
        while (b->filled <= x->n_starts) x->starts[b->filled++] = x->n;
        resize_rows(x, x->n);
        atomic_store_explicit(&x->ready, true, memory_order_release);
    }
    atomic_store_explicit(&b->over, true, memory_order_relaxed);
}

/* One page of the bottom. */
static void work(struct leafindex *x)
{
    struct leafindex_build *b = x->build;
    bool good = b->depth || begin(x);
    if (good) good = add_page(x, top(b)) && go_on(x);
    if (!good || b->depth == 0) end(x, good);
}

void leafindex_work(struct leafindex *x, uint32_t lookups)
{
    struct leafindex_build *b = x->build;
    if (atomic_load_explicit(&b->over, memory_order_relaxed)) return;
    uint32_t patience = atomic_load_explicit(&b->patience, memory_order_relaxed);
    if (patience) {
        atomic_store_explicit(&b->patience, patience > lookups ? patience - lookups : 0, memory_order_relaxed);
        return;
    }
    if (pthread_mutex_trylock(&b->lock) != 0) return; /* another thread is at it */
    while (lookups-- && !atomic_load_explicit(&b->over, memory_order_relaxed)) work(x);
    pthread_mutex_unlock(&b->lock);
}
