/* The index of a map is an open-addressed hash table of entry numbers from 1, 0 being free, with twice as many slots as
 * the map has entries, rounded up to a power of two. */
#include "cel/maps.h"

#include <math.h>

#include "base/keyhash.h"
#include "cel/value.h"

enum { SMALL = 8 }; /* entries that are found faster one by one */

static size_t index_slots(size_t count)
{
    size_t slots = 2 * SMALL;
    while (slots < 2 * count) slots *= 2;
    return slots;
}

/* One form for all keys that are the same: a number that an int can hold is that int, else one that a uint can hold is
 * that. A double that neither can is the key of nothing. */
static struct cel_value normal(const struct cel_value *key)
{
    if (key->kind == CEL_UINT && key->natural <= INT64_MAX) return value_int((int64_t)key->natural);
    if (key->kind != CEL_DOUBLE || key->real != floor(key->real)) return *key;
    if (key->real >= -0x1p63 && key->real < 0x1p63) return value_int((int64_t)key->real);
    return key->real >= 0 && key->real < 0x1p64 ? value_uint((uint64_t)key->real) : *key;
}

/* Both are normal. */
static bool same_normal(const struct cel_value *a, const struct cel_value *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == CEL_STRING) return slice_eq(a->text, b->text);
    return a->kind == CEL_BOOL ? a->boolean == b->boolean : a->kind != CEL_DOUBLE && a->natural == b->natural;
}

static bool same_key(const struct cel_value *a, const struct cel_value *normal_key)
{
    struct cel_value n = normal(a);
    return same_normal(&n, normal_key);
}

static uint64_t hash_of(const struct cel_value *normal_key)
{
    if (normal_key->kind == CEL_STRING) return keyhash(normal_key->text, 0);
    uint64_t n = normal_key->kind == CEL_BOOL ? normal_key->boolean : normal_key->natural;
    return n * 0x9e3779b97f4a7c15ull >> 16;
}

/* The slot of a key in the index: of its entry, or the free one where that would be. */
static size_t find_slot(const struct cel_entry *entries, const uint32_t *index, size_t slots, const struct cel_value *key)
{
    struct cel_value n = normal(key);
    size_t i = hash_of(&n) & (slots - 1);
    while (index[i] && !same_key(&entries[index[i] - 1].key, &n)) i = (i + 1) & (slots - 1);
    return i;
}

const struct cel_value *maps_find(const struct cel_value *map, const struct cel_value *key)
{
    if (!value_is_key(key) && key->kind != CEL_DOUBLE) return NULL;
    if (map->map.index) {
        size_t slot = find_slot(map->map.entries, map->map.index, index_slots(map->map.count), key);
        return map->map.index[slot] ? &map->map.entries[map->map.index[slot] - 1].value : NULL;
    }
    struct cel_value n = normal(key);
    for (size_t i = 0; i < map->map.count; i++) {
        if (same_key(&map->map.entries[i].key, &n)) return &map->map.entries[i].value;
    }
    return NULL;
}

/* ---- building */

/* Makes the index for `count` entries to come, of those that are there. */
static bool make_index(struct maps_builder *b, struct eval *e, size_t count)
{
    size_t slots = index_slots(count);
    b->index = eval_alloc(e, slots * sizeof *b->index);
    if (!b->index) return false;
    memset(b->index, 0, slots * sizeof *b->index);
    for (size_t i = 0; i < b->count; i++) b->index[find_slot(b->entries, b->index, slots, &b->entries[i].key)] = (uint32_t)i + 1;
    return true;
}

bool maps_init(struct maps_builder *b, struct eval *e, size_t cap)
{
    *b = (struct maps_builder){.entries = eval_alloc(e, cap * sizeof *b->entries), .cap = cap};
    return b->entries;
}

static bool grow(struct maps_builder *b, struct eval *e)
{
    size_t cap = b->cap ? b->cap * 2 : 4;
    struct cel_entry *entries = eval_alloc(e, cap * sizeof *entries);
    if (!entries) return false;
    if (b->count) memcpy(entries, b->entries, b->count * sizeof *entries);
    b->entries = entries;
    b->cap = cap;
    return true;
}

struct cel_entry *maps_add(struct maps_builder *b, struct eval *e, const struct cel_value *key)
{
    if (!value_is_key(key)) {
        eval_set_error(e, "unsupported key type: %s", value_kind_name(key->kind));
        return NULL;
    }
    struct cel_value so_far = maps_value(b);
    if (maps_find(&so_far, key)) {
        eval_set_error(e, "a key occurs twice in a map");
        return NULL;
    }
    if (b->count == b->cap && !grow(b, e)) return NULL;
    b->entries[b->count].key = *key;
    b->count++;
    size_t slots = index_slots(b->count);
    if (b->count > SMALL && (!b->index || slots != index_slots(b->count - 1))) {
        if (!make_index(b, e, b->count)) return NULL;
    } else if (b->index) {
        b->index[find_slot(b->entries, b->index, slots, key)] = (uint32_t)b->count;
    }
    return &b->entries[b->count - 1];
}

struct cel_value maps_value(const struct maps_builder *b)
{
    return (struct cel_value){.kind = CEL_MAP, .map = {b->entries, b->count, b->index}};
}
