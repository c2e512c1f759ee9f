/* The table keeps its rows sorted by name in one array, and beside it a hash without collisions: the seed is searched when the table is made,
 * so a lookup is one hash of the name, one slot, one comparison. */
#include "command/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

enum { SLOTS_MIN = 1024, SEEDS_TRIED = 4096, NAME_MAX_BYTES = 32 };

struct command_table {
    struct command *rows; /* sorted by name, groups' own behind all others */
    uint8_t *name_len;    /* of each row */
    size_t n, n_open;     /* all, and those that clients may send */
    uint16_t *slots;      /* row + 1; 0: empty */
    uint64_t mask;
    uint64_t seed;
    size_t n_places;      /* the rows, then their subcommands in the order of the rows */
    size_t *first_sub;    /* of each row: the place of its first subcommand */
    char **names;         /* of each place */
};

/* Both ends of the name with the case bit set; the full comparison comes later, so that some non-letters fall together does not matter. */
static inline uint64_t name_hash(const char *p, size_t n, uint64_t seed)
{
    uint64_t a = 0, b = 0;
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + n - 4, 4);
        a = (uint64_t)lo << 32 | hi;
    } else if (n > 0) {
        a = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 | (unsigned char)p[n - 1];
    }
    a |= 0x2020202020202020ull;
    b |= 0x2020202020202020ull;
    uint64_t h = (a ^ seed) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29 ^ b ^ n) * 0xbf58476d1ce4e5b9ull;
    return h ^ h >> 32;
}

static inline bool name_is(const char *p, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c >= 'A' && c <= 'Z') c |= 0x20;
        if (c != (unsigned char)name[i]) return false;
    }
    return true;
}

static bool is_of_group(const struct command *c) { return c->flags & CMD_OF_GROUP; }
static bool is_hidden(const struct command *c) { return c->flags & (CMD_OF_GROUP | CMD_OF_NODES); } /* from clients */

static int by_name(const void *a, const void *b)
{
    const struct command *l = a, *r = b;
    return is_hidden(l) != is_hidden(r) ? is_hidden(l) - is_hidden(r) : strcmp(l->name, r->name);
}

static void join_families(struct command_table *t, const struct command_family *families, size_t n)
{
    for (size_t i = 0; i < n; i++) t->n += families[i].n;
    CHECK(t->n > 0 && t->n < UINT16_MAX);
    t->rows = mem_alloc(t->n * sizeof *t->rows);
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < families[i].n; j++) t->rows[at++] = families[i].rows[j];
    qsort(t->rows, t->n, sizeof *t->rows, by_name);
    t->name_len = mem_alloc(t->n);
    for (size_t i = 0; i < t->n; i++) {
        CHECK(i == 0 || strcmp(t->rows[i - 1].name, t->rows[i].name) != 0);
        CHECK(strlen(t->rows[i].name) < NAME_MAX_BYTES);
        CHECK(!is_of_group(&t->rows[i]) || (t->rows[i].class == CLASS_KEYED && !t->rows[i].first_key && !t->rows[i].keys));
        t->n_open += !is_hidden(&t->rows[i]);
        t->name_len[i] = (uint8_t)strlen(t->rows[i].name);
    }
}

static bool fill_slots(struct command_table *t)
{
    memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    for (size_t i = 0; i < t->n; i++) {
        uint16_t *slot = &t->slots[name_hash(t->rows[i].name, t->name_len[i], t->seed) & t->mask];
        if (*slot) return false;
        *slot = (uint16_t)(i + 1);
    }
    return true;
}

/* Tries seeds in a fixed order, so the same families always give the same table. */
static void find_seed(struct command_table *t)
{
    for (uint64_t size = SLOTS_MIN;; size *= 2) {
        t->mask = size - 1;
        t->slots = mem_resize(t->slots, size * sizeof *t->slots);
        for (uint64_t i = 0; i < SEEDS_TRIED; i++) {
            t->seed = i * 0xd6e8feb86659fd93ull;
            if (fill_slots(t)) return;
        }
    }
}

static size_t count_subs(const struct command *c)
{
    size_t n = 0;
    while (c->subs && c->subs[n].name) n++;
    return n;
}

static char *place_name(const struct command *c, const struct exec_subcommand *sub)
{
    struct buf name = {0};
    buf_add_str(&name, c->name);
    if (sub) {
        buf_add_byte(&name, '|');
        buf_add_str(&name, sub->name);
    }
    buf_add_byte(&name, '\0');
    return name.p;
}

static void give_places(struct command_table *t)
{
    t->n_places = t->n;
    for (size_t i = 0; i < t->n; i++) t->n_places += count_subs(&t->rows[i]);
    t->first_sub = mem_alloc(t->n * sizeof *t->first_sub);
    t->names = mem_alloc(t->n_places * sizeof *t->names);
    size_t at = t->n;
    for (size_t i = 0; i < t->n; i++) {
        const struct command *c = &t->rows[i];
        t->names[i] = place_name(c, NULL);
        t->first_sub[i] = at;
        for (size_t k = 0, n = count_subs(c); k < n; k++) t->names[at++] = place_name(c, &c->subs[k]);
    }
}

struct command_table *command_table_new(const struct command_family *families, size_t n)
{
    struct command_table *t = mem_zalloc(sizeof *t);
    join_families(t, families, n);
    find_seed(t);
    give_places(t);
    return t;
}

void command_table_free(struct command_table *t)
{
    if (!t) return;
    mem_free(t->rows);
    mem_free(t->name_len);
    mem_free(t->slots);
    for (size_t i = 0; i < t->n_places; i++) mem_free(t->names[i]);
    mem_free(t->names);
    mem_free(t->first_sub);
    mem_free(t);
}

const struct command *command_find_any(const struct command_table *t, struct slice name)
{
    uint16_t slot = t->slots[name_hash(name.p, name.n, t->seed) & t->mask];
    if (unlikely(slot == 0) || t->name_len[slot - 1] != name.n) return NULL;
    const struct command *c = &t->rows[slot - 1];
    return likely(name_is(name.p, name.n, c->name)) ? c : NULL;
}

const struct command *command_find(const struct command_table *t, struct slice name)
{
    const struct command *c = command_find_any(t, name);
    return likely(c && !is_hidden(c)) ? c : NULL;
}

size_t command_count(const struct command_table *t) { return t->n_open; }
size_t command_rows(const struct command_table *t) { return t->n; }

const struct command *command_at(const struct command_table *t, size_t i)
{
    CHECK(i < t->n);
    return &t->rows[i];
}

size_t command_index(const struct command_table *t, const struct command *c)
{
    CHECK(c >= t->rows && c < t->rows + t->n);
    return (size_t)(c - t->rows);
}

size_t command_places(const struct command_table *t) { return t->n_places; }

size_t command_place(const struct command_table *t, const struct command *c, const struct exec_subcommand *sub)
{
    size_t row = command_index(t, c);
    if (likely(!sub)) return row;
    size_t place = t->first_sub[row] + (size_t)(sub - c->subs);
    CHECK(c->subs && place < t->n_places);
    return place;
}

const struct command *command_of_place(const struct command_table *t, size_t place)
{
    CHECK(place < t->n_places);
    size_t row = place;
    if (place >= t->n)
        for (row = t->n - 1; t->first_sub[row] > place; row--) {
        }
    return &t->rows[row];
}

const char *command_place_name(const struct command_table *t, size_t place)
{
    CHECK(place < t->n_places);
    return t->names[place];
}

bool command_needs_values(const struct command *c, const struct slice *argv, uint32_t argc)
{
    return !(c->flags & CMD_KEY_ONLY) || (c->needs_values && c->needs_values(argv, argc));
}

bool command_arity_ok(const struct command *c, uint32_t argc)
{
    return c->arity >= 0 ? argc == (uint32_t)c->arity : argc >= (uint32_t)-c->arity;
}

const struct command *command_inner(const struct command_table *t, const struct command *c, const struct slice *argv, uint32_t argc)
{
    uint32_t at = (uint32_t)c->inner_at;
    const struct command *inner = argc > at ? command_find(t, argv[at]) : NULL;
    if (!inner || inner->class != CLASS_KEYED || inner->inner_at || inner->flags & CMD_AT_ONCE || !command_arity_ok(inner, argc - at)) return NULL;
    return inner->needs_all && inner->needs_all(argv + at, argc - at) ? NULL : inner;
}

const struct command *command_unwrap(const struct command_table *t, const struct command *c, const struct slice **argv, uint32_t *argc)
{
    if (likely(!c->inner_at)) return c;
    const struct command *inner = command_inner(t, c, *argv, *argc);
    if (!inner) return NULL;
    *argv += c->inner_at;
    *argc -= (uint32_t)c->inner_at;
    return inner;
}

int command_keys(const struct command *c, const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    if (c->flags & CMD_MOVABLE_KEYS) return c->keys(argv, argc, at, max);
    if (c->first_key == 0) return 0;
    int64_t last = c->last_key >= 0 ? c->last_key : (int64_t)argc + c->last_key;
    int n = 0;
    for (int64_t i = c->first_key; i <= last && i < (int64_t)argc; i += c->key_step) {
        if (n < max) at[n] = (uint32_t)i;
        n++;
    }
    return n;
}
