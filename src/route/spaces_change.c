/* How a map of key spaces changes: every function checks what it was asked for and makes a new map from the old one, sharing with it whatever stays. */
#include "route/spacemap.h"

#include "base/mem.h"
#include "route/keyspace.h"

static const char *const error_names[] = {
    [SPACES_OK] = "ok", [SPACES_NO_SPACE] = "no-space", [SPACES_NO_RANGE] = "no-range", [SPACES_MOVING] = "moving", [SPACES_NOT_MOVING] = "not-moving",
    [SPACES_SAME] = "same", [SPACES_NAME] = "name", [SPACES_KEY] = "key", [SPACES_SHARD] = "shard", [SPACES_ID] = "id",
};

const char *spaces_error_name(enum spaces_error e)
{
    CHECK((size_t)e < sizeof error_names / sizeof *error_names);
    return error_names[e];
}

/* Where an error goes. */
struct refusal {
    enum spaces_error *error;
    struct buf *why;
};

static bool refuse(const struct refusal *to, enum spaces_error code, const char *sentence, ...)
{
    va_list ap;
    va_start(ap, sentence);
    *to->error = code;
    spacemap_vsay(to->why, sentence, ap);
    va_end(ap);
    return false;
}

/* ---- what a change may ask for */

static bool name_ok(struct slice name, const struct refusal *to)
{
    if (name.n > SPACES_NAME_MAX) return refuse(to, SPACES_NAME, "the name of a space has at most # bytes, this one has #", (uint64_t)SPACES_NAME_MAX, (uint64_t)name.n);
    if (name.n >= 2 && memcmp(name.p + name.n - 2, "/*", 2) == 0)
        return refuse(to, SPACES_NAME, "a space is named, not matched: the keys @ are those of space @", name, slice_of(name.p, name.n - 2));
    /* It could be a space (of keys with an empty part), but nobody who writes it means that. */
    if (name.n && name.p[name.n - 1] == '/')
        return refuse(to, SPACES_NAME, "the name of a space has no '/' at its end: keys that begin with @ are in space @", name, slice_of(name.p, name.n - 1));
    return true;
}

static bool shard_ok(const struct space_map *m, uint32_t shard, const struct refusal *to)
{
    if (m->n_hash || shard < m->route.shards) return true;
    return refuse(to, SPACES_SHARD, "there is no shard #: shards are numbered from 0 to #", (uint64_t)shard, (uint64_t)m->route.shards - 1);
}

static struct space *find_set(const struct space_map *m, struct slice name, const struct refusal *to)
{
    struct space *s = spacemap_find(m, name, keyhash(name, m->route.seed));
    struct slice outer = space_of(name);
    if (s) return s;
    if (outer.n < name.n && spaces_find(m, outer))
        refuse(to, SPACES_NO_SPACE, "there is no space @; there is a space @, of which @ is a key", name, outer, name);
    else
        refuse(to, SPACES_NO_SPACE, "space @ was never given a mode: SPACE.SET does that", name);
    return NULL;
}

static bool space_at_rest(const struct space *s, const struct refusal *to)
{
    if (s->moving)
        return refuse(to, SPACES_MOVING, "space @ is changing from $ to $, all keys below @ are done; try again when it has ended", s->name, space_mode_name(s->now.mode),
                      space_mode_name(s->to.mode), s->boundary);
    return true;
}

static bool range_at_rest(const struct range_desc *d, const struct refusal *to)
{
    if (d->moving)
        return refuse(to, SPACES_MOVING, "range # is moving from shard # to shard #, all keys below @ are done; try again when it has ended", d->id, (uint64_t)d->shard,
                      (uint64_t)d->to_shard, d->boundary);
    return true;
}

/* A space whose ranges can be changed one by one. */
static struct space *find_ranges(const struct space_map *m, struct slice name, bool buckets_too, const struct refusal *to)
{
    struct space *s = find_set(m, name, to);
    if (!s || !space_at_rest(s, to)) return NULL;
    if (s->now.n && (buckets_too || s->now.mode == SPACE_RANGE)) return s;
    refuse(to, SPACES_NO_SPACE, "space @ has no ranges: its mode is $; SPACE.SET @ RANGE gives it some", name, space_mode_name(s->now.mode), name);
    return NULL;
}

static struct range *find_id(const struct space *s, uint64_t id, uint32_t *at, const struct refusal *to)
{
    for (*at = 0; *at < s->now.n; (*at)++)
        if (s->now.ranges[*at]->d.id == id) return s->now.ranges[*at];
    refuse(to, SPACES_NO_RANGE, "space @ has no range with id #: it may have been merged; RANGE.MAP @ shows those that are", s->name, id, s->name);
    return NULL;
}

static bool id_in(const struct routing *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ranges[i]->d.id == id) return true;
    return false;
}

static bool id_free(const struct space *s, uint64_t id, const struct refusal *to)
{
    if (id && (!s || (!id_in(&s->now, id) && !id_in(&s->to, id)))) return true;
    return refuse(to, SPACES_ID, "# is no id for a new range: ids begin with 1 and are used once", id);
}

/* ---- pieces of new spaces */

/* A space as it was, one generation up if asked, without its routings. */
static struct space *space_after(const struct space *s, struct slice boundary, bool newer)
{
    struct space *made = spacemap_space_new(s->name, s->name_hash, boundary);
    made->generation = s->generation + newer;
    return made;
}

/* The space with the descriptors [at, at + old) replaced by n others, which it takes. */
static struct space_map *with_ranges(const struct space_map *m, const struct space *s, uint32_t at, uint32_t old, struct range *const *ranges, uint32_t n)
{
    struct space *made = space_after(s, s->boundary, false);
    struct routing *r = &made->now;
    spacemap_routing_init(r, s->now.mode, s->now.number, s->now.n - old + n);
    for (uint32_t i = 0; i < at; i++) r->ranges[i] = spacemap_range_ref(s->now.ranges[i]);
    for (uint32_t i = 0; i < n; i++) r->ranges[at + i] = ranges[i];
    for (uint32_t i = at + old; i < s->now.n; i++) r->ranges[i - old + n] = spacemap_range_ref(s->now.ranges[i]);
    return spacemap_with(m, made);
}

static struct space_map *with_range(const struct space_map *m, const struct space *s, uint32_t at, const struct range_desc *d)
{
    struct range *r = spacemap_range_new(d);
    return with_ranges(m, s, at, 1, &r, 1);
}

/* ---- modes */

static bool mode_change_ok(const struct space *s, enum space_mode mode, uint32_t n, const struct refusal *to)
{
    if (!space_at_rest(s, to)) return false;
    for (uint32_t i = 0; i < s->now.n; i++)
        if (!range_at_rest(&s->now.ranges[i]->d, to)) return false;
    /* A bucket without a descriptor may get one. */
    if (s->now.mode == mode && !(mode == SPACE_BUCKET && s->now.n == 0 && n))
        return refuse(to, SPACES_SAME, "the mode of space @ is $ already", s->name, space_mode_name(mode));
    return true;
}

/* The routing that was asked for, if it is whole. On failure nothing is left. */
static bool routing_wanted(const struct space_map *m, const struct space *s, struct routing *r, const struct range_desc *ranges, const struct refusal *to)
{
    struct buf flaw = {0};
    bool ok = true;
    for (uint32_t i = 0; i < r->n; i++) {
        struct range_desc d = {.id = ranges[i].id, .generation = 1, .shard = ranges[i].shard, .start = ranges[i].start, .end = ranges[i].end};
        r->ranges[i] = spacemap_range_new(&d);
        ok = ok && id_free(s, d.id, to) && shard_ok(m, d.shard, to);
        for (uint32_t j = 0; j < i && ok; j++)
            if (ranges[j].id == d.id) ok = refuse(to, SPACES_ID, "two of the ranges have the id #", d.id);
    }
    if (ok && !spacemap_routing_whole(r, &flaw)) {
        buf_add_byte(&flaw, 0);
        ok = refuse(to, SPACES_KEY, "the new ranges do not fit together: $", flaw.p);
    }
    buf_fini(&flaw);
    return ok;
}

struct space_map *spaces_set_mode(const struct space_map *m, struct slice name, enum space_mode mode, const struct range_desc *ranges, uint32_t n, bool at_once, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    uint64_t name_hash = keyhash(name, m->route.seed);
    const struct space *s = spacemap_find(m, name, name_hash);
    *error = SPACES_OK;
    if (!name_ok(name, &to) || (s && !mode_change_ok(s, mode, n, &to))) return NULL;

    struct space *made = spacemap_space_new(name, name_hash, SLICE(""));
    enum space_mode from = s ? s->now.mode : m->default_mode;
    made->generation = s ? s->generation + 1 : 1;
    /* Hash to hash: the space is only written down. */
    made->moving = !at_once && !(from == SPACE_HASH && mode == SPACE_HASH);
    struct routing *r = made->moving ? &made->to : &made->now;
    spacemap_routing_init(r, mode, made->generation, n);
    if (!routing_wanted(m, s, r, ranges, &to)) {
        spacemap_space_unref(made);
        return NULL;
    }
    if (made->moving && s)
        spacemap_routing_share(&made->now, &s->now);
    else if (made->moving)
        spacemap_routing_init(&made->now, from, 0, 0);
    return spacemap_with(m, made);
}

struct space_map *spaces_retitle(const struct space_map *m, struct slice name, enum space_mode mode, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct space *s = find_set(m, name, &to);
    if (!s || !mode_change_ok(s, mode, 1, &to)) return NULL;
    if (s->now.n != 1 || mode == SPACE_HASH) {
        refuse(&to, SPACES_SHARD, "the keys of space @ are not in one range, so they have to move", name);
        return NULL;
    }
    struct space *made = space_after(s, SLICE(""), true);
    struct range_desc d = s->now.ranges[0]->d;
    d.generation++;
    spacemap_routing_init(&made->now, mode, made->generation, 1);
    made->now.ranges[0] = spacemap_range_new(&d);
    return spacemap_with(m, made);
}

static const struct space *find_moving(const struct space_map *m, struct slice name, const struct refusal *to)
{
    const struct space *s = find_set(m, name, to);
    if (s && !s->moving) return refuse(to, SPACES_NOT_MOVING, "the mode of space @ is $ and does not change", name, space_mode_name(s->now.mode)), NULL;
    return s;
}

struct space_map *spaces_advance(const struct space_map *m, struct slice name, struct slice boundary, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct space *s = find_moving(m, name, &to);
    if (!s) return NULL;
    if (slice_cmp(boundary, s->boundary) < 0) {
        refuse(&to, SPACES_KEY, "the boundary of space @ is at @ and cannot go down to @", name, s->boundary, boundary);
        return NULL;
    }
    struct space *made = space_after(s, boundary, false);
    made->moving = true;
    spacemap_routing_share(&made->now, &s->now);
    spacemap_routing_share(&made->to, &s->to);
    return spacemap_with(m, made);
}

struct space_map *spaces_finish(const struct space_map *m, struct slice name, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct space *s = find_moving(m, name, &to);
    if (!s) return NULL;
    struct space *made = space_after(s, SLICE(""), true);
    spacemap_routing_share(&made->now, &s->to);
    return spacemap_with(m, made);
}

/* ---- ranges */

static bool split_key_ok(struct slice name, struct slice key, const struct refusal *to)
{
    struct buf flaw = {0};
    if (key.n > SPACES_BOUND_MAX) return refuse(to, SPACES_KEY, "a range is split at a key of at most # bytes, this one has #", (uint64_t)SPACES_BOUND_MAX, (uint64_t)key.n);
    if (spaces_key_fits(name, key, &flaw)) return true;
    buf_add_byte(&flaw, 0);
    refuse(to, SPACES_KEY, "$", flaw.p);
    buf_fini(&flaw);
    return false;
}

struct space_map *spaces_split(const struct space_map *m, struct slice name, struct slice key, uint64_t new_id, uint32_t upper_shard, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct space *s = find_ranges(m, name, false, &to);
    if (!s || !split_key_ok(name, key, &to) || !id_free(s, new_id, &to) || !shard_ok(m, upper_shard, &to)) return NULL;
    uint32_t at = spacemap_range_at(&s->now, key);
    struct range_desc lower = s->now.ranges[at]->d, upper = lower;
    if (!range_at_rest(&lower, &to)) return NULL;
    if (slice_eq(key, lower.start)) {
        refuse(&to, SPACES_SAME, "a range begins at @ already: id #", key, lower.id);
        return NULL;
    }
    lower.generation++;
    upper.generation++;
    lower.end = upper.start = key;
    upper.id = new_id;
    upper.shard = upper_shard;
    struct range *halves[2] = {spacemap_range_new(&lower), spacemap_range_new(&upper)};
    return with_ranges(m, s, at, 1, halves, 2);
}

static bool merge_ok(const struct space *s, uint32_t at, struct slice key, const struct refusal *to)
{
    const struct range_desc *upper = &s->now.ranges[at]->d;
    if (at == 0) return refuse(to, SPACES_NO_RANGE, "@ is in the first range of space @, which has none before it", key, s->name);
    if (!slice_eq(key, upper->start)) return refuse(to, SPACES_NO_RANGE, "no range of space @ begins at @: the one that holds it begins at @", s->name, key, upper->start);
    const struct range_desc *lower = &s->now.ranges[at - 1]->d;
    if (!range_at_rest(lower, to) || !range_at_rest(upper, to)) return false;
    if (lower->shard != upper->shard)
        return refuse(to, SPACES_SHARD, "range # is in shard # and range # in shard #: move one of them first (RANGE.MOVE)", lower->id, (uint64_t)lower->shard, upper->id,
                      (uint64_t)upper->shard);
    return true;
}

struct space_map *spaces_merge(const struct space_map *m, struct slice name, struct slice key, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct space *s = find_ranges(m, name, false, &to);
    if (!s) return NULL;
    uint32_t at = spacemap_range_at(&s->now, key);
    if (!merge_ok(s, at, key, &to)) return NULL;
    struct range_desc one = s->now.ranges[at - 1]->d;
    const struct range_desc *upper = &s->now.ranges[at]->d;
    one.end = upper->end;
    one.generation = (one.generation > upper->generation ? one.generation : upper->generation) + 1;
    struct range *merged = spacemap_range_new(&one);
    return with_ranges(m, s, at - 1, 2, &merged, 1);
}

struct space_map *spaces_move(const struct space_map *m, struct slice name, uint64_t id, uint32_t to_shard, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    uint32_t at;
    *error = SPACES_OK;
    const struct space *s = find_ranges(m, name, true, &to);
    const struct range *r = s ? find_id(s, id, &at, &to) : NULL;
    if (!r || !range_at_rest(&r->d, &to) || !shard_ok(m, to_shard, &to)) return NULL;
    if (to_shard == r->d.shard) {
        refuse(&to, SPACES_SAME, "range # is in shard # already", id, (uint64_t)to_shard);
        return NULL;
    }
    struct range_desc d = r->d;
    d.generation++;
    d.moving = true;
    d.to_shard = to_shard;
    d.boundary = d.start;
    return with_range(m, s, at, &d);
}

static const struct space *find_moving_range(const struct space_map *m, struct slice name, uint64_t id, uint32_t *at, const struct refusal *to)
{
    const struct space *s = find_ranges(m, name, true, to);
    const struct range *r = s ? find_id(s, id, at, to) : NULL;
    if (r && !r->d.moving) return refuse(to, SPACES_NOT_MOVING, "range # is in shard # and does not move", id, (uint64_t)r->d.shard), NULL;
    return r ? s : NULL;
}

struct space_map *spaces_move_advance(const struct space_map *m, struct slice name, uint64_t id, struct slice boundary, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    uint32_t at;
    *error = SPACES_OK;
    const struct space *s = find_moving_range(m, name, id, &at, &to);
    if (!s) return NULL;
    struct range_desc d = s->now.ranges[at]->d;
    if (slice_cmp(boundary, d.boundary) < 0 || (d.end.n && slice_cmp(boundary, d.end) > 0)) {
        refuse(&to, SPACES_KEY, "the boundary of range # is at @ and cannot go to @", id, d.boundary, boundary);
        return NULL;
    }
    d.boundary = boundary;
    return with_range(m, s, at, &d);
}

struct space_map *spaces_move_finish(const struct space_map *m, struct slice name, uint64_t id, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    uint32_t at;
    *error = SPACES_OK;
    const struct space *s = find_moving_range(m, name, id, &at, &to);
    if (!s) return NULL;
    struct range_desc d = s->now.ranges[at]->d;
    d.generation++;
    d.shard = d.to_shard;
    d.to_shard = 0;
    d.moving = false;
    d.boundary = SLICE("");
    return with_range(m, s, at, &d);
}

/* ---- another number of shards */

static struct range *range_resharded(struct range *r, uint32_t shards)
{
    struct range_desc d = r->d;
    d.shard %= shards;
    d.to_shard %= shards;
    if (d.moving && d.shard == d.to_shard) {
        d.moving = false;
        d.to_shard = 0;
        d.boundary = SLICE("");
    }
    if (d.shard == r->d.shard && d.to_shard == r->d.to_shard && d.moving == r->d.moving) return spacemap_range_ref(r);
    d.generation++;
    return spacemap_range_new(&d);
}

static void routing_reshard(struct routing *to, const struct routing *from, uint32_t shards)
{
    spacemap_routing_init(to, from->mode, from->number, from->n);
    for (uint32_t i = 0; i < from->n; i++) to->ranges[i] = range_resharded(from->ranges[i], shards);
}

struct space_map *spaces_reshard(const struct space_map *m, uint32_t shards)
{
    CHECK(m->n_hash == 0 && shards >= 1);
    struct space **spaces = mem_alloc((m->n_spaces + 1) * sizeof *spaces);
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        const struct space *s = m->spaces[i];
        spaces[i] = space_after(s, s->boundary, false);
        spaces[i]->moving = s->moving;
        routing_reshard(&spaces[i]->now, &s->now, shards);
        routing_reshard(&spaces[i]->to, &s->to, shards);
    }
    struct route route = {.seed = m->route.seed, .shards = shards};
    struct space_map *empty = spaces_new(&route, m->default_mode, NULL, 0, m->version + 1);
    struct space_map *made = spacemap_build(empty, spaces, m->n_spaces);
    spaces_unref(empty);
    mem_free(spaces);
    return made;
}

/* ---- intervals of the hash */

static bool interval_at_rest(const struct hash_desc *d, const struct refusal *to)
{
    if (d->moving)
        return refuse(to, SPACES_MOVING, "the interval # of the hash is moving from shard # to shard #, all keys below @ are done; try again when it has ended", d->id, (uint64_t)d->shard,
                      (uint64_t)d->to_shard, d->boundary);
    return true;
}

static bool hash_split_ok(const struct space_map *m, uint64_t at, uint64_t new_id, const struct refusal *to)
{
    if (m->n_hash == 0) return refuse(to, SPACES_NO_RANGE, "this node hashes over # shards; only a cluster has intervals of the hash", (uint64_t)m->route.shards);
    const struct hash_desc *d = &m->hash[spacemap_hash_at(m, at)];
    if (at == d->first) return refuse(to, SPACES_SAME, "the interval of the hash with id # begins there already", d->id);
    if (!interval_at_rest(d, to)) return false;
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (new_id == 0 || m->hash[i].id == new_id) return refuse(to, SPACES_ID, "# is no id for a new interval: ids begin with 1 and are used once", new_id);
    return true;
}

struct space_map *spaces_hash_split(const struct space_map *m, uint64_t at, uint64_t new_id, uint32_t upper_shard, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    if (!hash_split_ok(m, at, new_id, &to)) return NULL;
    uint32_t i = spacemap_hash_at(m, at);
    struct hash_desc *hash = mem_alloc((m->n_hash + 1) * sizeof *hash);
    memcpy(hash, m->hash, (i + 1) * sizeof *hash);
    memcpy(hash + i + 1, m->hash + i, (m->n_hash - i) * sizeof *hash);
    hash[i].last = at - 1;
    hash[i + 1].first = at;
    hash[i + 1].id = new_id;
    hash[i + 1].shard = upper_shard;
    hash[i].generation++;
    hash[i + 1].generation++;
    struct space_map *made = spacemap_with_hash(m, hash, m->n_hash + 1);
    mem_free(hash);
    return made;
}

static bool hash_merge_ok(const struct space_map *m, uint64_t at, const struct refusal *to)
{
    uint32_t i = m->n_hash ? spacemap_hash_at(m, at) : 0;
    if (m->n_hash == 0 || i == 0 || m->hash[i].first != at) return refuse(to, SPACES_NO_RANGE, "no interval of the hash but the first begins there");
    if (!interval_at_rest(&m->hash[i], to) || !interval_at_rest(&m->hash[i - 1], to)) return false;
    if (m->hash[i].shard != m->hash[i - 1].shard)
        return refuse(to, SPACES_SHARD, "the intervals # and # of the hash are in shard # and shard #", m->hash[i - 1].id, m->hash[i].id, (uint64_t)m->hash[i - 1].shard,
                      (uint64_t)m->hash[i].shard);
    return true;
}

struct space_map *spaces_hash_merge(const struct space_map *m, uint64_t at, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    if (!hash_merge_ok(m, at, &to)) return NULL;
    uint32_t i = spacemap_hash_at(m, at);
    struct hash_desc *hash = mem_dup(m->hash, m->n_hash * sizeof *hash);
    struct hash_desc *one = &hash[i - 1];
    one->last = hash[i].last;
    one->generation = (one->generation > hash[i].generation ? one->generation : hash[i].generation) + 1;
    memmove(hash + i, hash + i + 1, (m->n_hash - i - 1) * sizeof *hash);
    struct space_map *made = spacemap_with_hash(m, hash, m->n_hash - 1);
    mem_free(hash);
    return made;
}

const struct hash_desc *spaces_hash_by_id(const struct space_map *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (m->hash[i].id == id) return &m->hash[i];
    return NULL;
}

static const struct hash_desc *find_interval(const struct space_map *m, uint64_t id, const struct refusal *to)
{
    const struct hash_desc *d = spaces_hash_by_id(m, id);
    if (!d) refuse(to, SPACES_NO_RANGE, "no interval of the hash has the id #", id);
    return d;
}

static const struct hash_desc *find_moving_interval(const struct space_map *m, uint64_t id, const struct refusal *to)
{
    const struct hash_desc *d = find_interval(m, id, to);
    if (d && !d->moving) return refuse(to, SPACES_NOT_MOVING, "the interval # of the hash is in shard # and does not move", id, (uint64_t)d->shard), NULL;
    return d;
}

/* The map with d in the place of the interval with its id. */
static struct space_map *with_interval(const struct space_map *m, const struct hash_desc *d)
{
    struct hash_desc *hash = mem_dup(m->hash, m->n_hash * sizeof *hash);
    hash[spaces_hash_by_id(m, d->id) - m->hash] = *d;
    struct space_map *made = spacemap_with_hash(m, hash, m->n_hash);
    mem_free(hash);
    return made;
}

struct space_map *spaces_hash_move(const struct space_map *m, uint64_t id, uint32_t to_shard, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct hash_desc *was = find_interval(m, id, &to);
    if (!was || !interval_at_rest(was, &to)) return NULL;
    if (was->shard == to_shard) {
        refuse(&to, SPACES_SAME, "the interval # of the hash is in shard # already", id, (uint64_t)to_shard);
        return NULL;
    }
    struct hash_desc d = *was;
    d.generation++;
    d.moving = true;
    d.to_shard = to_shard;
    return with_interval(m, &d);
}

struct space_map *spaces_hash_move_advance(const struct space_map *m, uint64_t id, struct slice boundary, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct hash_desc *was = find_moving_interval(m, id, &to);
    if (!was) return NULL;
    if (slice_cmp(boundary, was->boundary) < 0) {
        refuse(&to, SPACES_KEY, "the boundary of the interval # of the hash is at @ and cannot go down to @", id, was->boundary, boundary);
        return NULL;
    }
    struct hash_desc d = *was;
    d.boundary = boundary;
    return with_interval(m, &d);
}

struct space_map *spaces_hash_move_finish(const struct space_map *m, uint64_t id, enum spaces_error *error, struct buf *why)
{
    const struct refusal to = {error, why};
    *error = SPACES_OK;
    const struct hash_desc *was = find_moving_interval(m, id, &to);
    if (!was) return NULL;
    struct hash_desc d = *was;
    d.generation++;
    d.shard = d.to_shard;
    d.to_shard = 0;
    d.moving = false;
    d.boundary = SLICE("");
    return with_interval(m, &d);
}
