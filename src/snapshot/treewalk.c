#include "snapshot/treewalk.h"

#include "base/mem.h"

struct walk {
    const struct page_source *source;
    const struct treewalk_visitor *visitor;
    struct treewalk_used *used;
    uint32_t leaf_depth; /* 0: no leaf seen yet */
    bool table;
};

void treewalk_used_init(struct treewalk_used *u, uint32_t n_pages)
{
    u->n_pages = n_pages;
    u->bits = mem_zalloc(((size_t)n_pages / 64 + 1) * sizeof *u->bits);
}

void treewalk_used_fini(struct treewalk_used *u) { mem_free(u->bits); }

bool treewalk_use(struct treewalk_used *u, uint32_t number)
{
    if (number - 1 >= u->n_pages) return false;
    uint64_t *word = &u->bits[number / 64], bit = 1ull << number % 64;
    if (*word & bit) return false;
    *word |= bit;
    return true;
}

static int walk_page(struct walk *w, uint32_t number, uint32_t depth);

static int walk_cells(struct walk *w, const struct treepage *t, uint32_t depth)
{
    struct treecell c;
    for (uint32_t i = 0; i < t->cells; i++) {
        if (!treepage_cell(t, i, &c)) return ERR_SHARD_DAMAGED;
        int rc = t->leaf ? 0 : walk_page(w, c.left, depth + 1);
        if (rc == 0 && w->visitor->row && (t->leaf || !t->table)) rc = w->visitor->row(w->visitor->arg, &c);
        if (rc) return rc;
    }
    return t->leaf ? 0 : walk_page(w, t->right, depth + 1);
}

/* What a page tells against the pages before it. */
static bool belongs(struct walk *w, const struct treepage *t, uint32_t depth)
{
    if (depth == 1) w->table = t->table;
    if (t->leaf && w->leaf_depth == 0) w->leaf_depth = depth;
    return t->table == w->table && (!t->leaf || w->leaf_depth == depth);
}

static int walk_page(struct walk *w, uint32_t number, uint32_t depth)
{
    const uint8_t *page;
    struct treepage t;
    if (depth > TREEWALK_DEPTH_MAX || !treewalk_use(w->used, number)) return ERR_SHARD_DAMAGED;
    int rc = pages_get(w->source, number, &page);
    if (rc) return rc;
    if (!treepage_parse(&t, page, w->source->page_size, number) || !belongs(w, &t, depth)) rc = ERR_SHARD_DAMAGED;
    if (rc == 0 && w->visitor->page) rc = w->visitor->page(w->visitor->arg, number, &t, depth);
    if (rc == 0) rc = walk_cells(w, &t, depth);
    pages_put(w->source, number, page);
    return rc;
}

int treewalk(const struct page_source *source, uint32_t root, const struct treewalk_visitor *visitor, struct treewalk_used *used)
{
    struct treewalk_used own = {0};
    struct walk w = {.source = source, .visitor = visitor, .used = used ? used : &own};
    if (!used) treewalk_used_init(&own, source->n_pages);
    int rc = walk_page(&w, root, 1);
    if (!used) treewalk_used_fini(&own);
    return rc;
}
