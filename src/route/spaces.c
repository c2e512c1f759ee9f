#include "route/spaces.h"

#include <inttypes.h>

#include "route/keyspace.h"
#include "route/spacemap.h"

static const char *const mode_names[SPACE_MODES] = {"hash", "bucket", "range"};

const char *space_mode_name(enum space_mode m)
{
    CHECK(m < SPACE_MODES);
    return mode_names[m];
}

bool space_mode_parse(struct slice word, enum space_mode *m)
{
    for (int i = 0; i < SPACE_MODES; i++)
        if (slice_is(word, mode_names[i])) return *m = (enum space_mode)i, true;
    return false;
}

/* ---- one key */

static struct space_place place_by_hash(const struct space_map *m, uint64_t hash, struct slice key)
{
    if (m->n_hash == 0) return (struct space_place){.shard = route_shard(&m->route, hash)};
    const struct hash_desc *d = &m->hash[spacemap_hash_at(m, hash)];
    bool moved = d->moving && slice_cmp(key, d->boundary) < 0;
    return (struct space_place){.shard = moved ? d->to_shard : d->shard, .id = d->id, .generation = d->generation};
}

static struct space_place place_in_range(const struct range_desc *d, struct slice key)
{
    bool moved = d->moving && slice_cmp(key, d->boundary) < 0;
    return (struct space_place){.shard = moved ? d->to_shard : d->shard, .id = d->id, .generation = d->generation};
}

static const struct routing *side_of(const struct space *s, struct slice key)
{
    return s->moving && slice_cmp(key, s->boundary) < 0 ? &s->to : &s->now;
}

/* What places a key: the routing of its space that has ranges; or NULL, and the hash that its interval is found by. */
static const struct routing *placing_of(const struct space_map *m, struct slice key, uint64_t hash, uint64_t *placing)
{
    struct slice name = space_of(key);
    uint64_t name_hash = name.n == key.n ? hash : 0;
    bool need_name = m->n_spaces || m->default_mode == SPACE_BUCKET;
    if (need_name && name.n != key.n) name_hash = keyhash(name, m->route.seed);
    const struct space *s = spacemap_find(m, name, name_hash);
    const struct routing *r = s ? side_of(s, key) : NULL;
    *placing = (r ? r->mode : m->default_mode) == SPACE_HASH ? hash : name_hash;
    return r && r->n ? r : NULL;
}

void spaces_route_slow(const struct space_map *m, struct slice key, uint64_t hash, struct space_place *place)
{
    uint64_t placing;
    const struct routing *r = placing_of(m, key, hash, &placing);
    if (r)
        *place = place_in_range(&r->ranges[spacemap_range_at(r, key)]->d, key);
    else
        *place = place_by_hash(m, placing, key);
}

bool spaces_is_by_hash(const struct space_map *m, struct slice key, uint64_t hash, uint64_t *placing) { return !placing_of(m, key, hash, placing); }

/* ---- a stretch of the line */

struct walk {
    const struct space_map *map;
    uint64_t name_hash;
    spaces_visit_fn *visit;
    void *ctx;
};

/* Gives the piece [start, end) to the visitor, cut to what the walk is asked for; nothing is left of some. */
static bool walk_piece(const struct walk *w, struct space_piece piece, struct slice start, struct slice end)
{
    piece.start = spacemap_higher(piece.start, start);
    piece.end = spacemap_lower_end(piece.end, end);
    return !spacemap_below(piece.start, piece.end) || w->visit(w->ctx, &piece);
}

/* What is below the boundary has moved; an empty boundary as an end would be the end of the line: nothing has moved yet. */
static bool walk_moving(const struct walk *w, struct space_piece piece, struct slice boundary, uint32_t to_shard, struct slice start, struct slice end)
{
    struct space_piece moved = piece;
    if (boundary.n) {
        moved.end = piece.start = boundary;
        moved.shard = to_shard;
        if (!walk_piece(w, moved, start, end)) return false;
    }
    return walk_piece(w, piece, start, end);
}

static bool walk_range(const struct walk *w, const struct range_desc *d, struct slice start, struct slice end)
{
    const struct space_piece piece = {.start = d->start, .end = d->end, .shard = d->shard, .id = d->id, .generation = d->generation, .desc = d};
    return d->moving ? walk_moving(w, piece, d->boundary, d->to_shard, start, end) : walk_piece(w, piece, start, end);
}

/* A bucket that is where the hash of its name says. */
static bool walk_unset_bucket(const struct walk *w, struct slice start, struct slice end)
{
    if (w->map->n_hash == 0) return walk_piece(w, (struct space_piece){.shard = route_shard(&w->map->route, w->name_hash)}, start, end);
    const struct hash_desc *d = &w->map->hash[spacemap_hash_at(w->map, w->name_hash)];
    const struct space_piece piece = {.shard = d->shard, .id = d->id, .generation = d->generation};
    return d->moving ? walk_moving(w, piece, d->boundary, d->to_shard, start, end) : walk_piece(w, piece, start, end);
}

static bool walk_routing(const struct walk *w, const struct routing *r, struct slice start, struct slice end)
{
    if (!spacemap_below(start, end)) return true;
    if (r->n == 0) return r->mode == SPACE_HASH ? walk_piece(w, (struct space_piece){.hashed = true}, start, end) : walk_unset_bucket(w, start, end);
    for (uint32_t i = spacemap_range_at(r, start); i < r->n && spacemap_below(r->ranges[i]->d.start, end); i++)
        if (!walk_range(w, &r->ranges[i]->d, start, end)) return false;
    return true;
}

bool spaces_overlap(const struct space_map *m, struct slice name, struct slice start, struct slice end, spaces_visit_fn *visit, void *ctx)
{
    struct walk w = {.map = m, .name_hash = keyhash(name, m->route.seed), .visit = visit, .ctx = ctx};
    const struct space *s = spacemap_find(m, name, w.name_hash);
    if (!s) {
        struct routing unset = {.mode = m->default_mode};
        return walk_routing(&w, &unset, start, end);
    }
    if (!s->moving || s->boundary.n == 0) return walk_routing(&w, &s->now, start, end);
    return walk_routing(&w, &s->to, start, spacemap_lower_end(s->boundary, end)) && walk_routing(&w, &s->now, spacemap_higher(s->boundary, start), end);
}

/* ---- what is known of a space */

const struct space *spaces_find(const struct space_map *m, struct slice name) { return spacemap_find(m, name, keyhash(name, m->route.seed)); }

void spaces_describe(const struct space *s, struct space_info *info)
{
    *info = (struct space_info){.name = s->name, .set = true, .mode = s->now.mode, .generation = s->generation, .moving = s->moving,
                                .to_mode = s->moving ? s->to.mode : s->now.mode, .boundary = s->boundary, .n_ranges = s->now.n, .n_to = s->to.n};
}

void spaces_info(const struct space_map *m, struct slice name, struct space_info *info)
{
    const struct space *s = spaces_find(m, name);
    if (s)
        spaces_describe(s, info);
    else
        *info = (struct space_info){.name = name, .mode = m->default_mode, .to_mode = m->default_mode};
}

const struct range_desc *spaces_range(const struct space *s, bool of_new, uint32_t i)
{
    const struct routing *r = of_new ? &s->to : &s->now;
    CHECK(i < r->n);
    return &r->ranges[i]->d;
}

const struct range_desc *spaces_range_of(const struct space_map *m, struct slice name, struct slice key)
{
    const struct space *s = spaces_find(m, name);
    if (!s) return NULL;
    const struct routing *r = side_of(s, key);
    return r->n ? &r->ranges[spacemap_range_at(r, key)]->d : NULL;
}

bool spaces_unset_bucket(const struct space_map *m, struct slice name, struct range_desc *d)
{
    uint64_t hash = keyhash(name, m->route.seed);
    if (m->default_mode != SPACE_BUCKET || m->n_hash == 0 || spacemap_find(m, name, hash)) return false;
    const struct hash_desc *h = &m->hash[spacemap_hash_at(m, hash)];
    *d = (struct range_desc){.id = h->id, .generation = h->generation, .shard = h->shard, .to_shard = h->to_shard, .moving = h->moving, .boundary = h->boundary};
    return true;
}

const struct range_desc *spaces_range_named(const struct space_map *m, struct slice name, struct slice key, struct buf *why)
{
    bool first = key.n == 0 || slice_is(key, "-");
    const struct range_desc *d = spaces_range_of(m, name, first ? SLICE("") : key);
    if (!d) buf_add_str(why, "the key space has no ranges: SPACE.SET it BUCKET or RANGE first");
    return d && (first || spaces_key_fits(name, key, why)) ? d : NULL;
}

static const struct range_desc *by_id(const struct routing *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ranges[i]->d.id == id) return &r->ranges[i]->d;
    return NULL;
}

const struct range_desc *spaces_range_by_id(const struct space_map *m, uint64_t id, struct slice *name)
{
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        const struct range_desc *d = by_id(&m->spaces[i]->now, id);
        if (!d) d = by_id(&m->spaces[i]->to, id);
        if (d && name) *name = m->spaces[i]->name;
        if (d) return d;
    }
    return NULL;
}

bool spaces_key_fits(struct slice name, struct slice key, struct buf *why)
{
    struct slice space = space_of(key);
    if (slice_eq(space, name)) return true;
    if (space.n < key.n) return spacemap_say(why, "@ is no key of space @: the space of a key is what stands before its last '/', here @", key, name, space);
    /* The commonest mistake: the part behind the slash alone. */
    struct buf whole = {0};
    buf_add_slice(&whole, name);
    buf_add_byte(&whole, '/');
    buf_add_slice(&whole, key);
    spacemap_say(why, "@ is no key of space @: whole keys are wanted, as in @", key, name, buf_slice(&whole));
    buf_fini(&whole);
    return false;
}

/* Of all that begins with the name, and of no less: the name with its last byte one up. */
static bool is_next_name(struct slice name, struct slice end)
{
    size_t n = name.n;
    while (n && (unsigned char)name.p[n - 1] == 0xff) n--;
    return n && end.n == n && memcmp(end.p, name.p, n - 1) == 0 && (unsigned char)end.p[n - 1] == (unsigned char)name.p[n - 1] + 1;
}

bool spaces_end_fits(struct slice name, struct slice end, struct buf *why)
{
    if (end.n >= name.n && memcmp(end.p, name.p, name.n) == 0) return true;
    return is_next_name(name, end) || spaces_key_fits(name, end, why);
}

/* ---- text */

void spaces_text_key(struct buf *out, struct slice key)
{
    buf_add_byte(out, '"');
    for (size_t i = 0; i < key.n; i++) {
        unsigned char c = (unsigned char)key.p[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            buf_printf(out, "\\x%02x", c);
        else
            buf_add_byte(out, (char)c);
    }
    buf_add_byte(out, '"');
}

static void text_bound(struct buf *out, const char *word, struct slice key, char open)
{
    buf_add_str(out, word);
    if (key.n)
        spaces_text_key(out, key);
    else
        buf_add_byte(out, open);
}

void spaces_text_range(struct buf *out, struct slice name, const struct range_desc *d)
{
    buf_add_str(out, "space=");
    spaces_text_key(out, name);
    buf_printf(out, " id=%" PRIu64 " generation=%" PRIu64 " shard=%u", d->id, d->generation, d->shard);
    text_bound(out, " start=", d->start, '-');
    text_bound(out, " end=", d->end, '+');
    if (!d->moving) return;
    buf_printf(out, " to-shard=%u", d->to_shard);
    text_bound(out, " boundary=", d->boundary, '-');
}

void spaces_text_hash(struct buf *out, const struct hash_desc *d)
{
    buf_printf(out, "id=%" PRIu64 " generation=%" PRIu64 " shard=%u hash=%016" PRIx64 "-%016" PRIx64, d->id, d->generation, d->shard, d->first, d->last);
    if (!d->moving) return;
    buf_printf(out, " to-shard=%u", d->to_shard);
    text_bound(out, " boundary=", d->boundary, '-');
}

void spaces_text_place(struct buf *out, const struct space_map *m, struct slice name, struct slice key)
{
    struct space_place place;
    struct space_info info;
    const struct range_desc *d = spaces_range_of(m, name, key);
    if (d) {
        spaces_text_range(out, name, d);
        return;
    }
    spaces_route(m, key, keyhash(key, m->route.seed), &place);
    const struct hash_desc *h = spaces_hash_by_id(m, place.id);
    if (h) {
        spaces_text_hash(out, h);
        return;
    }
    spaces_info(m, name, &info);
    buf_add_str(out, "space=");
    spaces_text_key(out, name);
    buf_printf(out, " mode=%s", space_mode_name(info.mode));
}
