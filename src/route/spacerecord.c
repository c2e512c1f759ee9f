/* The values of the records. Numbers are little endian; a value ends exactly where its last field does.
 *
 *   space   0 version u8, 1 | 1 mode u8 | 2 mode it changes to u8, or 0 | 3 flags u8 | 4 generation u64 | 12 number of its routing u64 | 20 number of the new routing u64, or 0
 *           28 length of the boundary u32 | 32 boundary
 *   range   0 version u8, 1 | 1 flags u8 | 2 zero u16 | 4 generation u64 | 12 number of the routing it belongs to u64 | 20 shard u32 | 24 shard it moves to u32, or 0
 *           28 lengths of start, end and boundary u32 each | 40 start, end, boundary
 *   hash    0 version u8, 1 | 1 zero, 3 bytes | 4 generation u64 | 12 shard u32 | 16 first u64 | 24 last u64
 *           one that moves: 0 version u8, 2 | as above | 32 shard it moves to u32 | 36 boundary, to the end
 *
 *   flags   1 it is moving   2 (space) its routing has descriptors   4 (space) the new routing has
 *
 * A routing's number is the generation of its space when it was made, 0 that of a space before it was ever set. So the end of a change of mode rewrites no descriptor: the space's record names the other
 * routing, and the descriptors of the old one are removed. The flags tell a bucket that lost its descriptor from one that never had any; where there are ranges, a lost one is a gap. */
#include "route/spacerecord.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/le.h"
#include "base/mem.h"
#include "route/spacemap.h"

enum { VERSION = 1, MOVING = 1, PLACED = 2, TO_PLACED = 4, SPACE_HEAD = 32, RANGE_HEAD = 40, HASH_BYTES = 32, HASH_MOVING = 2, HASH_MOVING_HEAD = 36, SPACE_HOME = 0 };

static const struct slice space_word = SLICE("space/"), range_word = SLICE("range/"), hash_word = SLICE("hash/");

/* ---- keys */

static bool begins(struct slice key, struct slice word) { return key.n >= word.n && memcmp(key.p, word.p, word.n) == 0; }

static struct slice behind(struct slice key, struct slice word) { return slice_of(key.p + word.n, key.n - word.n); }

enum spacerecord_kind spacerecord_kind(struct slice key)
{
    if (begins(key, space_word)) return SPACERECORD_SPACE;
    if (begins(key, range_word)) return SPACERECORD_RANGE;
    if (begins(key, hash_word)) return SPACERECORD_HASH;
    return SPACERECORD_NONE;
}

static void range_key(struct buf *out, struct slice name, uint64_t id)
{
    buf_add_slice(out, range_word);
    buf_add_slice(out, name);
    buf_printf(out, "/%016" PRIx64, id);
}

/* ---- values out */

static void space_value(struct buf *out, const struct space *s)
{
    unsigned flags = (s->moving ? MOVING : 0) | (s->now.n ? PLACED : 0) | (s->to.n ? TO_PLACED : 0);
    char head[4] = {VERSION, (char)s->now.mode, (char)(s->moving ? s->to.mode : 0), (char)flags};
    buf_add(out, head, sizeof head);
    le_add_u64(out, s->generation);
    le_add_u64(out, s->now.number);
    le_add_u64(out, s->moving ? s->to.number : 0);
    le_add_u32(out, (uint32_t)s->boundary.n);
    buf_add_slice(out, s->boundary);
}

static void range_value(struct buf *out, const struct range_desc *d, uint64_t routing)
{
    char head[4] = {VERSION, d->moving ? MOVING : 0, 0, 0};
    buf_add(out, head, sizeof head);
    le_add_u64(out, d->generation);
    le_add_u64(out, routing);
    le_add_u32(out, d->shard);
    le_add_u32(out, d->moving ? d->to_shard : 0);
    le_add_u32(out, (uint32_t)d->start.n);
    le_add_u32(out, (uint32_t)d->end.n);
    le_add_u32(out, (uint32_t)d->boundary.n);
    buf_add_slice(out, d->start);
    buf_add_slice(out, d->end);
    buf_add_slice(out, d->boundary);
}

static void hash_value(struct buf *out, const struct hash_desc *d)
{
    char head[4] = {d->moving ? HASH_MOVING : VERSION, 0, 0, 0};
    buf_add(out, head, sizeof head);
    le_add_u64(out, d->generation);
    le_add_u32(out, d->shard);
    le_add_u64(out, d->first);
    le_add_u64(out, d->last);
    if (!d->moving) return;
    le_add_u32(out, d->to_shard);
    buf_add_slice(out, d->boundary);
}

/* ---- values in */

struct space_read {
    struct slice name, boundary;
    enum space_mode mode, to_mode;
    unsigned flags;
    uint64_t generation, number, to_number;
};

struct range_read {
    struct slice name;
    uint64_t number;
    struct range_desc d;
};

static bool space_read(struct space_read *s, struct slice key, struct slice v, struct buf *why)
{
    if (v.n < SPACE_HEAD || v.p[0] != VERSION) return spacemap_say(why, "it is no record of a version that this program knows");
    unsigned mode = (unsigned char)v.p[1], to_mode = (unsigned char)v.p[2], flags = (unsigned char)v.p[3];
    *s = (struct space_read){.name = behind(key, space_word), .mode = (enum space_mode)mode, .to_mode = (enum space_mode)to_mode, .flags = flags, .generation = le_u64(v.p + 4),
                             .number = le_u64(v.p + 12), .to_number = le_u64(v.p + 20), .boundary = slice_of(v.p + SPACE_HEAD, v.n - SPACE_HEAD)};
    bool moving = flags & MOVING;
    if (le_u32(v.p + 28) != s->boundary.n) return spacemap_say(why, "its length is wrong");
    if (s->name.n > SPACES_NAME_MAX) return spacemap_say(why, "the name has more than # bytes", (uint64_t)SPACES_NAME_MAX);
    if (mode >= SPACE_MODES || to_mode >= SPACE_MODES || flags > (MOVING | PLACED | TO_PLACED)) return spacemap_say(why, "its mode or flags are unknown");
    if (s->generation == 0 || s->number > s->generation || s->to_number > s->generation) return spacemap_say(why, "its generation # is below that of its routing", s->generation);
    if (!moving && (s->to_number || s->boundary.n || to_mode || (flags & TO_PLACED))) return spacemap_say(why, "it does not move, but has somewhere to go");
    if (moving && s->to_number <= s->number) return spacemap_say(why, "its new routing is not newer than its old one");
    return true;
}

static bool range_read(struct range_read *r, struct slice key, struct slice v, struct buf *why)
{
    struct slice rest = behind(key, range_word);
    uint64_t id;
    if (rest.n < SPACEMAP_ID_DIGITS + 1 || rest.p[rest.n - SPACEMAP_ID_DIGITS - 1] != '/' || !spacemap_id_parse(slice_of(rest.p + rest.n - SPACEMAP_ID_DIGITS, SPACEMAP_ID_DIGITS), &id))
        return spacemap_say(why, "its key does not end with an id");
    if (v.n < RANGE_HEAD || v.p[0] != VERSION || (unsigned char)v.p[1] > MOVING || v.p[2] || v.p[3]) return spacemap_say(why, "it is no record of a version that this program knows");
    uint64_t start = le_u32(v.p + 28), end = le_u32(v.p + 32), boundary = le_u32(v.p + 36);
    if (start + end + boundary != v.n - RANGE_HEAD) return spacemap_say(why, "its length is wrong");
    const char *p = v.p + RANGE_HEAD;
    *r = (struct range_read){.name = slice_of(rest.p, rest.n - SPACEMAP_ID_DIGITS - 1), .number = le_u64(v.p + 12)};
    r->d = (struct range_desc){.id = id, .generation = le_u64(v.p + 4), .shard = le_u32(v.p + 20), .to_shard = le_u32(v.p + 24), .moving = v.p[1] == MOVING,
                               .start = slice_of(p, start), .end = slice_of(p + start, end), .boundary = slice_of(p + start + end, boundary)};
    if (!r->d.moving && r->d.to_shard) return spacemap_say(why, "it does not move, but has somewhere to go");
    return true;
}

static bool hash_read(struct hash_desc *d, struct slice key, struct slice v, struct buf *why)
{
    uint64_t id;
    if (!spacemap_id_parse(behind(key, hash_word), &id)) return spacemap_say(why, "its key does not end with an id");
    bool moving = v.n >= HASH_MOVING_HEAD && v.p[0] == HASH_MOVING;
    if ((!moving && (v.n != HASH_BYTES || v.p[0] != VERSION)) || v.p[1] || v.p[2] || v.p[3]) return spacemap_say(why, "it is no record of a version that this program knows");
    *d = (struct hash_desc){.id = id, .generation = le_u64(v.p + 4), .shard = le_u32(v.p + 12), .first = le_u64(v.p + 16), .last = le_u64(v.p + 24), .moving = moving};
    if (!moving) return true;
    d->to_shard = le_u32(v.p + HASH_BYTES);
    d->boundary = slice_of(v.p + HASH_MOVING_HEAD, v.n - HASH_MOVING_HEAD);
    return true;
}

/* ---- records to a map */

struct reading {
    const struct route *route;
    struct space_read *spaces;
    struct range_read *ranges;
    struct hash_desc *hash;
    uint32_t n_spaces, n_ranges, n_hash, next_range;
    struct space **made;
    uint32_t n_made;
    struct buf *why;
};

static int by_name(const void *a, const void *b) { return slice_cmp(((const struct space_read *)a)->name, ((const struct space_read *)b)->name); }

/* Those of one routing together, as they follow each other on the line. */
static int by_place(const void *a, const void *b)
{
    const struct range_read *x = a, *y = b;
    int d = slice_cmp(x->name, y->name);
    if (d == 0) d = (x->number > y->number) - (x->number < y->number);
    if (d == 0) d = slice_cmp(x->d.start, y->d.start);
    return d ? d : (x->d.id > y->d.id) - (x->d.id < y->d.id);
}

static int by_first(const void *a, const void *b)
{
    const struct hash_desc *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static bool read_record(struct reading *in, const struct spacerecord *r, struct buf *flaw)
{
    struct range_desc *d = &in->ranges[in->n_ranges].d;
    switch (spacerecord_kind(r->key)) {
    case SPACERECORD_NONE: return true;
    case SPACERECORD_SPACE:
        if (r->shard != SPACE_HOME) return spacemap_say(flaw, "it stands in the wrong shard: records of spaces are in shard 0");
        return space_read(&in->spaces[in->n_spaces++], r->key, r->value, flaw);
    case SPACERECORD_HASH: return hash_read(&in->hash[in->n_hash++], r->key, r->value, flaw);
    case SPACERECORD_RANGE:
        if (!range_read(&in->ranges[in->n_ranges++], r->key, r->value, flaw)) return false;
        if (d->shard != r->shard) return spacemap_say(flaw, "it stands in the wrong shard: it says shard #", (uint64_t)d->shard);
        break;
    }
    return true;
}

static bool read_all(struct reading *in, const struct spacerecord *records, uint32_t n)
{
    struct buf flaw = {0};
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = read_record(in, &records[i], &flaw);
        if (ok) continue;
        buf_add_byte(&flaw, 0);
        spacemap_say(in->why, "the system record @ in shard # cannot be used: $", records[i].key, (uint64_t)records[i].shard, flaw.p);
    }
    buf_fini(&flaw);
    if (!ok) return false;
    qsort(in->spaces, in->n_spaces, sizeof *in->spaces, by_name);
    qsort(in->ranges, in->n_ranges, sizeof *in->ranges, by_place);
    qsort(in->hash, in->n_hash, sizeof *in->hash, by_first);
    return true;
}

/* How many of the ranges that come next belong to this routing of this space. */
static uint32_t count_ranges(const struct reading *in, struct slice name, uint64_t number)
{
    uint32_t n = 0;
    for (const struct range_read *r = in->ranges + in->next_range; in->next_range + n < in->n_ranges && r[n].number == number && slice_eq(r[n].name, name); n++) continue;
    return n;
}

static bool range_places_exist(const struct reading *in, const struct range_desc *d)
{
    return in->n_hash || (d->shard < in->route->shards && (!d->moving || d->to_shard < in->route->shards));
}

static bool make_routing(struct reading *in, const struct space_read *s, struct routing *r, enum space_mode mode, uint64_t number, bool placed, struct buf *flaw)
{
    spacemap_routing_init(r, mode, number, count_ranges(in, s->name, number));
    for (uint32_t i = 0; i < r->n; i++) {
        const struct range_desc *d = &in->ranges[in->next_range++].d;
        r->ranges[i] = spacemap_range_new(d);
        if (!range_places_exist(in, d)) return spacemap_say(flaw, "range # is in a shard that does not exist: there are #", d->id, (uint64_t)in->route->shards);
        if (d->moving && (s->flags & MOVING)) return spacemap_say(flaw, "range # moves while the mode changes", d->id);
    }
    if (placed && r->n == 0) return spacemap_say(flaw, "none of its descriptors is there");
    if (!placed && r->n) return spacemap_say(flaw, "it should have no descriptor, but there is range #", r->ranges[0]->d.id);
    return spacemap_routing_whole(r, flaw);
}

static bool make_space(struct reading *in, const struct space_read *s, struct space *made, struct buf *flaw)
{
    made->generation = s->generation;
    made->moving = s->flags & MOVING;
    if (in->n_made > 1 && slice_eq(in->made[in->n_made - 2]->name, s->name)) return spacemap_say(flaw, "there are two records of it");
    if (!make_routing(in, s, &made->now, s->mode, s->number, s->flags & PLACED, flaw)) return false;
    if (made->moving && !make_routing(in, s, &made->to, s->to_mode, s->to_number, s->flags & TO_PLACED, flaw)) return false;
    if (in->next_range < in->n_ranges && slice_eq(in->ranges[in->next_range].name, s->name))
        return spacemap_say(flaw, "range # belongs to a routing that it has not", in->ranges[in->next_range].d.id);
    return true;
}

static bool make_spaces(struct reading *in)
{
    struct buf flaw = {0};
    bool ok = true;
    for (uint32_t i = 0; i < in->n_spaces && ok; i++) {
        const struct space_read *s = &in->spaces[i];
        struct space *made = in->made[in->n_made++] = spacemap_space_new(s->name, keyhash(s->name, in->route->seed), s->boundary);
        if (in->next_range < in->n_ranges && slice_cmp(in->ranges[in->next_range].name, s->name) < 0) break;
        ok = make_space(in, s, made, &flaw);
        if (ok) continue;
        buf_add_byte(&flaw, 0);
        spacemap_say(in->why, "the records of space @ do not fit together: $", s->name, flaw.p);
    }
    buf_fini(&flaw);
    if (!ok) return false;
    if (in->next_range == in->n_ranges) return true;
    const struct range_read *r = &in->ranges[in->next_range];
    return spacemap_say(in->why, "there is a descriptor of space @, id #, but no record of the space", r->name, r->d.id);
}

static struct space_map *make_map(struct reading *in, enum space_mode default_mode, uint64_t version)
{
    if (!spacemap_hash_whole(in->hash, in->n_hash, in->why) || !make_spaces(in)) return NULL;
    struct space_map *empty = spaces_new(in->route, default_mode, in->hash, in->n_hash, version);
    struct space_map *m = spacemap_build(empty, in->made, in->n_made);
    uint64_t twice = spacemap_double_id(m);
    in->n_made = 0;
    spaces_unref(empty);
    if (!twice) return m;
    spacemap_say(in->why, "the id # is that of two descriptors", twice);
    spaces_unref(m);
    return NULL;
}

struct space_map *spacerecord_map(const struct route *route, enum space_mode default_mode, uint64_t version, const struct spacerecord *records, uint32_t n, struct buf *why)
{
    struct reading in = {.route = route, .why = why};
    in.spaces = mem_alloc((n + 1) * sizeof *in.spaces);
    in.ranges = mem_alloc((n + 1) * sizeof *in.ranges);
    in.hash = mem_alloc((n + 1) * sizeof *in.hash);
    in.made = mem_alloc((n + 1) * sizeof *in.made);
    struct space_map *m = read_all(&in, records, n) ? make_map(&in, default_mode, version) : NULL;
    for (uint32_t i = 0; i < in.n_made; i++) spacemap_space_unref(in.made[i]);
    mem_free(in.made);
    mem_free(in.hash);
    mem_free(in.ranges);
    mem_free(in.spaces);
    return m;
}

/* ---- two maps to the records that tell them apart */

struct diff {
    spacerecord_fn *put;
    void *ctx;
    struct buf key, value, other;
};

static void tell(struct diff *d, uint32_t shard, bool remove)
{
    struct spacerecord r = {.shard = shard, .key = buf_slice(&d->key), .value = remove ? SLICE("") : buf_slice(&d->value)};
    d->put(d->ctx, &r, remove);
}

/* A record in both maps, in one of them, or the same in both: value is that of the new map, other that of the old one. */
static void tell_change(struct diff *d, bool was, uint32_t was_in, bool is, uint32_t is_in)
{
    if (was && (!is || was_in != is_in)) tell(d, was_in, true);
    if (is && (!was || was_in != is_in || !slice_eq(buf_slice(&d->value), buf_slice(&d->other)))) tell(d, is_in, false);
}

static void diff_space(struct diff *d, const struct space *was, const struct space *is)
{
    d->key.len = d->value.len = d->other.len = 0;
    buf_add_slice(&d->key, space_word);
    buf_add_slice(&d->key, was ? was->name : is->name);
    if (was) space_value(&d->other, was);
    if (is) space_value(&d->value, is);
    tell_change(d, was, SPACE_HOME, is, SPACE_HOME);
}

struct numbered {
    const struct range_desc *d;
    uint64_t routing;
};

static int by_id(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return (x->d->id > y->d->id) - (x->d->id < y->d->id);
}

/* The descriptors of a space, less those that it shares with the same routing of the other, at both ends of the line: a change touches few, in one place. */
static uint32_t collect(const struct space *s, const struct space *other, struct numbered *out)
{
    uint32_t n = 0;
    if (!s) return 0;
    const struct routing *mine[2] = {&s->now, &s->to};
    for (int i = 0; i < 2; i++) {
        const struct routing *r = mine[i], *same = NULL;
        if (other) same = other->now.number == r->number ? &other->now : other->moving && other->to.number == r->number ? &other->to : NULL;
        uint32_t head = 0, tail = 0, limit = same ? (r->n < same->n ? r->n : same->n) : 0;
        while (head < limit && r->ranges[head] == same->ranges[head]) head++;
        while (tail < limit - head && r->ranges[r->n - 1 - tail] == same->ranges[same->n - 1 - tail]) tail++;
        for (uint32_t j = head; j < r->n - tail; j++) out[n++] = (struct numbered){&r->ranges[j]->d, r->number};
    }
    qsort(out, n, sizeof *out, by_id);
    return n;
}

static void diff_range(struct diff *d, struct slice name, const struct numbered *was, const struct numbered *is)
{
    d->key.len = d->value.len = d->other.len = 0;
    range_key(&d->key, name, was ? was->d->id : is->d->id);
    if (was) range_value(&d->other, was->d, was->routing);
    if (is) range_value(&d->value, is->d, is->routing);
    tell_change(d, was, was ? was->d->shard : 0, is, is ? is->d->shard : 0);
}

static void diff_ranges(struct diff *d, const struct space *was, const struct space *is)
{
    struct slice name = was ? was->name : is->name;
    struct numbered *a = mem_alloc((was ? was->now.n + was->to.n + 1 : 1) * sizeof *a), *b = mem_alloc((is ? is->now.n + is->to.n + 1 : 1) * sizeof *b);
    uint32_t n = collect(was, is, a), m = collect(is, was, b);
    for (uint32_t i = 0, j = 0; i < n || j < m;) {
        int order = i == n ? 1 : j == m ? -1 : by_id(&a[i], &b[j]);
        diff_range(d, name, order <= 0 ? &a[i] : NULL, order >= 0 ? &b[j] : NULL);
        i += order <= 0;
        j += order >= 0;
    }
    mem_free(a);
    mem_free(b);
}

static void diff_hash(struct diff *d, const struct hash_desc *was, const struct hash_desc *is)
{
    d->key.len = d->value.len = d->other.len = 0;
    buf_add_slice(&d->key, hash_word);
    buf_printf(&d->key, "%016" PRIx64, was ? was->id : is->id);
    if (was) hash_value(&d->other, was);
    if (is) hash_value(&d->value, is);
    tell_change(d, was, was ? was->shard : 0, is, is ? is->shard : 0);
}

/* They are few: some for each group of the cluster. */
static void diff_intervals(struct diff *d, const struct space_map *before, const struct space_map *after)
{
    for (uint32_t i = 0; before && i < before->n_hash; i++)
        if (!spaces_hash_by_id(after, before->hash[i].id)) diff_hash(d, &before->hash[i], NULL);
    for (uint32_t i = 0; i < after->n_hash; i++) diff_hash(d, before ? spaces_hash_by_id(before, after->hash[i].id) : NULL, &after->hash[i]);
}

void spacerecord_diff(const struct space_map *before, const struct space_map *after, spacerecord_fn *put, void *ctx)
{
    struct diff d = {.put = put, .ctx = ctx};
    uint32_t n = before ? before->n_spaces : 0;
    diff_intervals(&d, before, after);
    for (uint32_t i = 0, j = 0; i < n || j < after->n_spaces;) {
        const struct space *was = i < n ? before->spaces[i] : NULL, *is = j < after->n_spaces ? after->spaces[j] : NULL;
        int order = !was ? 1 : !is ? -1 : slice_cmp(was->name, is->name);
        if (order < 0) is = NULL;
        if (order > 0) was = NULL;
        i += was != NULL;
        j += is != NULL;
        if (was == is) continue;
        diff_ranges(&d, was, is);
        diff_space(&d, was, is);
    }
    buf_fini(&d.key);
    buf_fini(&d.value);
    buf_fini(&d.other);
}
