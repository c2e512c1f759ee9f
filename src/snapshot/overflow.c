#include "snapshot/overflow.h"

#include "base/check.h"
#include "snapshot/pagefile.h"

static uint64_t pages_of(const struct page_source *s, uint64_t bytes) { return (bytes + s->page_size - 5) / (s->page_size - 4); }

int overflow_open(struct overflow *o, const struct page_source *source, uint32_t head, uint64_t bytes, uint64_t wanted)
{
    CHECK(wanted <= bytes);
    if (bytes > (uint64_t)source->n_pages * source->page_size) return ERR_SHARD_DAMAGED; /* and no sum below overflows */
    if (pages_of(source, bytes) > source->n_pages) return ERR_SHARD_DAMAGED;
    o->source = source;
    o->next = head;
    o->left = bytes;
    o->wanted = wanted;
    o->held = o->at = 0;
    o->ahead = PAGES_GET_MAX;
    o->known = NULL;
    o->n_known = source->chain ? source->chain(source->ctx, head, &o->known) : 0;
    return 0;
}

static void put_held(struct overflow *o)
{
    if (o->held && !o->source->base) o->source->put(o->source->ctx, o->numbers, o->held, o->pages);
    o->held = o->at = 0;
}

void overflow_close(struct overflow *o) { put_held(o); }

/* The pages from `next` on that are asked for together. */
static uint32_t choose(struct overflow *o)
{
    uint64_t most = pages_of(o->source, o->wanted);
    if (most > o->ahead) most = o->ahead;
    if (most == 0) most = 1;
    uint32_t n = 0;
    if (o->n_known && o->known[0] == o->next) {
        for (; n < most && n < o->n_known && o->known[n] - 1 < o->source->n_pages; n++) o->numbers[n] = o->known[n];
        o->known += n;
        o->n_known -= n;
    }
    if (n == 0)
        for (; n < most && (uint64_t)o->next + n <= o->source->n_pages; n++) o->numbers[n] = o->next + n;
    return n;
}

static int fetch(struct overflow *o)
{
    /* What is held was guessed wrong, or is used up. A guess that held is made larger, another smaller: chains that are scattered cost a page each. */
    bool wrong = o->at < o->held;
    put_held(o);
    o->ahead = wrong ? 1 : o->ahead < PAGES_GET_MAX / 2 ? o->ahead * 2 : PAGES_GET_MAX;
    if (o->next - 1 >= o->source->n_pages) return ERR_SHARD_DAMAGED;
    uint32_t n = choose(o);
    int rc = o->source->get(o->source->ctx, o->numbers, n, o->pages);
    if (rc == 0) o->held = n;
    return rc;
}

static int next_page(struct overflow *o, const uint8_t **page)
{
    if (o->source->base) return pages_get(o->source, o->next, page);
    if (o->at == o->held || o->numbers[o->at] != o->next) {
        int rc = fetch(o);
        if (rc) return rc;
    }
    *page = o->pages[o->at++];
    return 0;
}

int overflow_next(struct overflow *o, struct slice *piece, uint32_t *number)
{
    const uint8_t *page;
    if (o->left == 0) return o->next == 0 ? 0 : ERR_SHARD_DAMAGED;
    int rc = next_page(o, &page);
    if (rc) return rc;
    size_t room = o->source->page_size - 4, n = o->left < room ? (size_t)o->left : room;
    if (number) *number = o->next;
    o->next = pagefile_u32(page);
    o->left -= n;
    o->wanted -= o->wanted < n ? o->wanted : n;
    *piece = slice_of(page + 4, n);
    return 1;
}

int overflow_copy(const struct page_source *source, uint32_t head, uint64_t bytes, uint64_t from, size_t n, char *out)
{
    struct overflow o;
    struct slice piece = {0};
    CHECK(from <= bytes && n <= bytes - from);
    int rc = overflow_open(&o, source, head, bytes, from + n);
    if (rc) return rc;
    bool to_the_end = from + n == bytes;
    while (n && (rc = overflow_next(&o, &piece, NULL)) == 1) {
        size_t skip = from < piece.n ? (size_t)from : piece.n, take = piece.n - skip < n ? piece.n - skip : n;
        memcpy(out, piece.p + skip, take);
        out += take;
        n -= take;
        from -= skip;
    }
    /* The end of the chain is looked at too, if it was reached. */
    if (rc >= 0 && to_the_end) rc = overflow_next(&o, &piece, NULL);
    overflow_close(&o);
    return rc < 0 ? rc : 0;
}
