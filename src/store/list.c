#include "store/list.h"

#include "base/check.h"
#include "store/arena.h"
#include "store/chain.h"
#include "store/pack.h"
#include "store/pack_entry.h"
#include "store/store.h"

static bool is_pack(const struct entry *e) { return entry_encoding(e) == ENC_PACK; }

static struct chain *chain_of(const struct entry *e)
{
    CHECK(entry_encoding(e) == ENC_NODES);
    return entry_body(e);
}

static struct chain_limit limit_of(const struct kit *k)
{
    return chain_limit_of(__atomic_load_n(&k->limits->list_size, __ATOMIC_RELAXED));
}

static bool pack_would_fit(const struct kit *k, const struct entry *e, uint64_t more_bytes, uint64_t more_count)
{
    struct slice pack = entry_value(e);
    return chain_fits(limit_of(k), pack.n - PACK_HEADER + more_bytes, pack_count(pack) + more_count);
}

/* ---- from a pack to a chain and back */

static struct entry *to_chain(const struct kit *k, struct entry *e)
{
    struct slice pack = entry_value(e);
    struct chain *c = chain_new(k->arena);
    chain_adopt(k->arena, c, slice_of(pack.p + PACK_HEADER, pack.n - PACK_HEADER), pack_count(pack));
    e = entry_resize_value(k->arena, e, sizeof(void *));
    entry_set_kind(e, TYPE_LIST, ENC_NODES);
    entry_set_body(e, c);
    return e;
}

static struct entry *to_pack(const struct kit *k, struct entry *e)
{
    struct chain *c = chain_of(e);
    struct slice elements = {0};
    if (c->head) {
        struct slice pack = chain_pack(c->head);
        elements = slice_of(pack.p + PACK_HEADER, pack.n - PACK_HEADER);
    }
    e = entry_resize_value(k->arena, e, PACK_HEADER + elements.n);
    entry_set_kind(e, TYPE_LIST, ENC_PACK);
    char *to = entry_value_ptr(e);
    pack_set_count(to, (uint32_t)c->len);
    if (elements.n) memcpy(to + PACK_HEADER, elements.p, elements.n);
    chain_free(k->arena, c);
    return e;
}

/* After elements of a chain went or shrank: one node that fills at most half of what a pack may hold becomes a pack again. */
static struct entry *shrink(const struct kit *k, struct entry *e)
{
    const struct chain *c = chain_of(e);
    if (c->nodes > 1) return e;
    if (c->nodes == 1 && !chain_fits(chain_half(limit_of(k)), chain_pack(c->head).n - PACK_HEADER, c->len)) return e;
    return to_pack(k, e);
}

/* ---- changing */

struct entry *list_new(const struct kit *k, struct slice key) { return pack_entry_new(k->arena, TYPE_LIST, key); }

void list_drop(const struct kit *k, struct entry *e)
{
    if (!is_pack(e)) chain_free(k->arena, chain_of(e));
}

/* Each item goes before the one that went in before it. */
static struct entry *pack_push_head(struct arena *a, struct entry *e, const struct slice *items, uint32_t n, size_t bytes)
{
    e = entry_splice_value(a, e, PACK_HEADER, 0, bytes);
    char *pack = entry_value_ptr(e), *at = pack + PACK_HEADER;
    for (uint32_t i = n; i-- > 0;) at += pack_write_element(at, items[i]);
    pack_add_count(pack, n);
    return e;
}

struct entry *list_push(const struct kit *k, struct entry *e, bool head, const struct slice *items, uint32_t n)
{
    if (is_pack(e)) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < n; i++) bytes += pack_element_bytes(items[i].n);
        if (pack_would_fit(k, e, bytes, n)) {
            if (head) return pack_push_head(k->arena, e, items, n, bytes);
            return pack_entry_insert(k->arena, e, entry_value_len(e), items, n);
        }
        e = to_chain(k, e);
    }
    struct chain_limit limit = limit_of(k);
    for (uint32_t i = 0; i < n; i++) chain_push(k->arena, chain_of(e), limit, head, items[i]);
    return e;
}

struct entry *list_pop(const struct kit *k, struct entry *e, bool head, uint64_t count)
{
    uint64_t len = list_len(e);
    CHECK(count <= len);
    return list_remove(k, e, head ? 0 : len - count, count);
}

struct entry *list_set(const struct kit *k, struct entry *e, uint64_t index, struct slice value)
{
    if (is_pack(e)) {
        struct slice pack = entry_value(e);
        size_t off = pack_seek(pack, (int64_t)index);
        CHECK(off < pack.n);
        size_t old = pack_next(pack, off) - off, new = pack_element_bytes(value.n);
        if (new <= old || pack_would_fit(k, e, new - old, 0)) return pack_entry_replace(k->arena, e, off, value);
        e = to_chain(k, e);
    }
    chain_set(k->arena, chain_of(e), limit_of(k), index, value);
    return shrink(k, e);
}

struct entry *list_insert(const struct kit *k, struct entry *e, uint64_t index, struct slice value)
{
    if (is_pack(e)) {
        CHECK(index <= list_len(e));
        if (pack_would_fit(k, e, pack_element_bytes(value.n), 1))
            return pack_entry_insert(k->arena, e, pack_seek(entry_value(e), (int64_t)index), &value, 1);
        e = to_chain(k, e);
    }
    chain_insert(k->arena, chain_of(e), limit_of(k), index, value);
    return e;
}

struct entry *list_remove(const struct kit *k, struct entry *e, uint64_t index, uint64_t count)
{
    uint64_t len = list_len(e);
    CHECK(index <= len && count <= len - index);
    if (count == 0) return e;
    if (is_pack(e)) return pack_entry_remove(k->arena, e, pack_seek(entry_value(e), (int64_t)index), (uint32_t)count);
    chain_remove(k->arena, chain_of(e), limit_of(k), index, count);
    return shrink(k, e);
}

/* ---- reading */

uint64_t list_len(const struct entry *e) { return is_pack(e) ? pack_count(entry_value(e)) : chain_of(e)->len; }

size_t list_body_bytes(const struct entry *e) { return is_pack(e) ? 0 : chain_bytes(chain_of(e)); }

/* it->off is the offset of the element to give next; it->pack is the pack it is in. */
void list_iter_init(struct list_iter *it, const struct entry *e, uint64_t index, bool back)
{
    *it = (struct list_iter){.e = e, .back = back, .done = index >= list_len(e)};
    if (it->done) return;
    if (is_pack(e)) {
        it->pack = entry_value(e);
        it->off = pack_seek(it->pack, (int64_t)index);
    } else {
        struct chain_node *n = chain_seek(chain_of(e), index, &it->off);
        it->node = n;
        it->pack = chain_pack(n);
    }
}

/* The pack at hand is used up: on to the neighbour. */
static void iter_next_node(struct list_iter *it)
{
    const struct chain_node *n = it->node;
    if (n) n = it->back ? n->prev : n->next;
    it->done = !n;
    if (!n) return;
    it->node = (void *)(uintptr_t)n;
    it->pack = chain_pack(n);
    it->off = it->back ? pack_last(it->pack) : pack_first(it->pack);
}

bool list_iter_next(struct list_iter *it, struct slice *value)
{
    if (it->done) return false;
    *value = pack_get(it->pack, it->off);
    if (it->back) {
        if (it->off == PACK_HEADER) iter_next_node(it);
        else it->off = pack_prev(it->pack, it->off);
    } else {
        it->off = pack_next(it->pack, it->off);
        if (it->off == it->pack.n) iter_next_node(it);
    }
    return true;
}

void list_check(const struct kit *k, const struct entry *e)
{
    CHECK(entry_type(e) == TYPE_LIST);
    struct chain_limit limit = limit_of(k);
    if (is_pack(e)) {
        struct slice pack = entry_value(e);
        CHECK(pack_valid(pack) && chain_fits(limit, pack.n - PACK_HEADER, pack_count(pack)));
        return;
    }
    const struct chain *c = chain_of(e);
    chain_check(c, limit);
    CHECK(c->nodes > 1 || !chain_fits(chain_half(limit), chain_pack(c->head).n - PACK_HEADER, c->len));
}
