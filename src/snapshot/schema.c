/* The schema is a rowid table with the columns type, name, tbl_name, rootpage, sql, whose tree begins at page 1. */
#include "snapshot/schema.h"

#include "snapshot/treewalk.h"

enum { COLUMNS = 5 };

struct walk {
    int (*each)(void *arg, const struct schema_item *item);
    void *arg;
};

static bool is_text(uint64_t type) { return type >= 13 && type % 2 == 1; }

/* The root page's number: an integer of at most four bytes, or one of the types that stand for 0 and 1, or NULL. */
static bool read_root(uint64_t type, const uint8_t *p, uint32_t *root)
{
    *root = type == 9;
    if (type > 9 || type == 5 || type == 6 || type == 7) return false;
    for (uint64_t i = 0; i < treepage_type_bytes(type); i++) *root = *root << 8 | p[i];
    return true;
}

static bool parse(const struct treecell *c, struct schema_item *item)
{
    uint64_t head, types[COLUMNS];
    size_t at = pagefile_get_varint(c->local, c->local_n, &head), end;
    if (at == 0 || head > c->local_n) return false;
    for (int i = 0; i < COLUMNS; i++) {
        size_t n = pagefile_get_varint(c->local + at, (size_t)head - at, &types[i]);
        if (n == 0) return false;
        at += n;
    }
    const uint8_t *columns[COLUMNS];
    end = (size_t)head;
    for (int i = 0; i < COLUMNS - 1; i++) {
        columns[i] = c->local + end;
        uint64_t n = treepage_type_bytes(types[i]);
        if (n > c->local_n - end) return false;
        end += (size_t)n;
    }
    if (!is_text(types[0]) || !is_text(types[1]) || !read_root(types[3], columns[3], &item->root)) return false;
    item->type = slice_of(columns[0], (size_t)treepage_type_bytes(types[0]));
    item->name = slice_of(columns[1], (size_t)treepage_type_bytes(types[1]));
    uint64_t sql = treepage_type_bytes(types[4]);
    item->sql = is_text(types[4]) && sql <= c->local_n - end ? slice_of(c->local + end, (size_t)sql) : SLICE("");
    return true;
}

static int on_row(void *arg, const struct treecell *c)
{
    struct walk *w = arg;
    struct schema_item item;
    return parse(c, &item) ? w->each(w->arg, &item) : ERR_SHARD_DAMAGED;
}

int schema_each(const struct page_source *source, int (*each)(void *arg, const struct schema_item *item), void *arg)
{
    struct walk w = {.each = each, .arg = arg};
    return treewalk(source, 1, &(struct treewalk_visitor){.row = on_row, .arg = &w}, NULL);
}
