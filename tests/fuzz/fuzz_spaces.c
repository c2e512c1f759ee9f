/* Any bytes as records of key spaces: refused with a reason, or a map that is whole, routes, and whose own records make it again. An input is a row of records: shard u8, length of the key u8, of the value u8,
 * key, value; a key that begins with 'S', 'R' or 'H' has the word of a space, a range or an interval put in its place. */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "route/spacerecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS_MAX = 64 };

static const struct route four = {.seed = 42, .shards = 4};

struct set {
    struct spacerecord records[RECORDS_MAX];
    uint32_t n;
};

static struct slice dup_slice(struct slice s) { return slice_of(mem_dup(s.p, s.n), s.n); }

static struct slice key_from(const char *p, size_t n)
{
    struct buf key = {0};
    const char *word = n == 0 ? NULL : p[0] == 'S' ? "space/" : p[0] == 'R' ? "range/" : p[0] == 'H' ? "hash/" : NULL;
    if (word) buf_add_str(&key, word);
    buf_add(&key, p + (word != NULL), n - (word != NULL));
    struct slice made = dup_slice(buf_slice(&key));
    buf_fini(&key);
    return made;
}

static void add(void *ctx, const struct spacerecord *r, bool remove)
{
    struct set *s = ctx;
    CHECK(!remove && s->n < RECORDS_MAX);
    s->records[s->n++] = (struct spacerecord){.shard = r->shard, .key = dup_slice(r->key), .value = dup_slice(r->value)};
}

static void read_set(struct set *s, const char *p, size_t size)
{
    while (s->n < RECORDS_MAX && size >= 3) {
        size_t key = (unsigned char)p[1], value = (unsigned char)p[2];
        if (size - 3 < key + value) return;
        s->records[s->n++] = (struct spacerecord){.shard = (unsigned char)p[0], .key = key_from(p + 3, key), .value = dup_slice(slice_of(p + 3 + key, value))};
        p += 3 + key + value;
        size -= 3 + key + value;
    }
}

static void set_fini(struct set *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        mem_free((void *)s->records[i].key.p);
        mem_free((void *)s->records[i].value.p);
    }
}

static void no_difference(void *ctx, const struct spacerecord *r, bool remove) { CHECK(!"the records make another map"); }

static bool count_piece(void *ctx, const struct space_piece *piece)
{
    struct slice *reached = ctx;
    CHECK(slice_eq(piece->start, *reached));
    *reached = piece->end;
    return true;
}

static void check_map(const struct space_map *m, const struct set *s)
{
    spaces_check(m);
    for (uint32_t i = 0; i < s->n; i++) {
        struct space_place place;
        struct slice reached = SLICE("");
        spaces_route(m, s->records[i].value, keyhash(s->records[i].value, m->route.seed), &place);
        CHECK(m->n_hash || place.shard < m->route.shards);
        struct slice name = s->records[i].key.n > 6 ? slice_of(s->records[i].key.p + 6, s->records[i].key.n - 6) : SLICE("");
        CHECK(spaces_overlap(m, name, SLICE(""), SLICE(""), count_piece, &reached) && reached.n == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct set in = {0}, out = {0};
    struct buf why = {0};
    read_set(&in, (const char *)data, size);
    struct space_map *m = spacerecord_map(&four, SPACE_HASH, 1, in.records, in.n, &why);
    CHECK((m == NULL) == (why.len > 0));
    if (m) {
        check_map(m, &in);
        spacerecord_diff(NULL, m, add, &out);
        struct space_map *back = spacerecord_map(&four, SPACE_HASH, 1, out.records, out.n, &why);
        CHECK(back);
        spacerecord_diff(m, back, no_difference, NULL);
        spaces_unref(back);
        spaces_unref(m);
    }
    buf_fini(&why);
    set_fini(&in);
    set_fini(&out);
    return 0;
}
