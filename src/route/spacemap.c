#include "route/spacemap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

static void ref_add(uint32_t *refs) { __atomic_add_fetch(refs, 1, __ATOMIC_RELAXED); }

/* True for the last one, who has to see everything that the others did before. */
static bool ref_drop(uint32_t *refs) { return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0; }

static struct slice keep(char **at, struct slice s)
{
    char *p = *at;
    if (s.n) memcpy(p, s.p, s.n);
    *at += s.n;
    return slice_of(p, s.n);
}

/* ---- descriptors, routings, spaces */

struct range *spacemap_range_new(const struct range_desc *d)
{
    struct range *r = mem_alloc(sizeof *r + d->start.n + d->end.n + d->boundary.n);
    char *at = r->bytes;
    r->refs = 1;
    r->d = *d;
    r->d.start = keep(&at, d->start);
    r->d.end = keep(&at, d->end);
    r->d.boundary = keep(&at, d->boundary);
    return r;
}

struct range *spacemap_range_ref(struct range *r)
{
    ref_add(&r->refs);
    return r;
}

void spacemap_range_unref(struct range *r)
{
    if (ref_drop(&r->refs)) mem_free(r);
}

void spacemap_routing_init(struct routing *r, enum space_mode mode, uint64_t number, uint32_t n)
{
    *r = (struct routing){.mode = mode, .number = number, .n = n, .ranges = n ? mem_zalloc(n * sizeof *r->ranges) : NULL};
}

void spacemap_routing_share(struct routing *r, const struct routing *of)
{
    spacemap_routing_init(r, of->mode, of->number, of->n);
    for (uint32_t i = 0; i < r->n; i++) r->ranges[i] = spacemap_range_ref(of->ranges[i]);
}

static void routing_fini(struct routing *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->ranges[i]) spacemap_range_unref(r->ranges[i]);
    mem_free(r->ranges);
}

struct space *spacemap_space_new(struct slice name, uint64_t name_hash, struct slice boundary)
{
    struct space *s = mem_zalloc(sizeof *s + name.n + boundary.n);
    char *at = s->bytes;
    s->refs = 1;
    s->name_hash = name_hash;
    s->name = keep(&at, name);
    s->boundary = keep(&at, boundary);
    return s;
}

void spacemap_space_unref(struct space *s)
{
    if (!ref_drop(&s->refs)) return;
    routing_fini(&s->now);
    routing_fini(&s->to);
    mem_free(s);
}

/* ---- maps */

static uint32_t slots_for(uint32_t spaces)
{
    uint32_t slots = 8;
    while (slots < spaces * 2) slots *= 2;
    return slots;
}

static void fill_slots(struct space_map *m, struct space_slot *slots)
{
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        uint64_t hash = m->spaces[i]->name_hash;
        uint32_t at = (uint32_t)hash & m->slot_mask;
        while (slots[at].number) at = (at + 1) & m->slot_mask;
        slots[at] = (struct space_slot){.tag = (uint32_t)(hash >> 32), .number = i + 1};
    }
}

/* A copy of the intervals, with the bytes of their boundaries behind them. */
static struct hash_desc *intervals_copy(const struct hash_desc *hash, uint32_t n)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) bytes += hash[i].boundary.n;
    struct hash_desc *made = mem_alloc(n * sizeof *made + bytes);
    char *at = (char *)(made + n);
    for (uint32_t i = 0; i < n; i++) {
        made[i] = hash[i];
        made[i].boundary = slice_of(at, hash[i].boundary.n);
        if (hash[i].boundary.n) memcpy(at, hash[i].boundary.p, hash[i].boundary.n);
        at += hash[i].boundary.n;
    }
    return made;
}

/* Takes spaces, the array and what it holds. Borrows hash. */
static struct space_map *map_make(const struct space_map *like, const struct hash_desc *hash, uint32_t n_hash, struct space **spaces, uint32_t n)
{
    struct space_map *m = mem_zalloc(sizeof *m);
    m->version = like->version;
    m->route = like->route;
    m->default_mode = like->default_mode;
    m->n_hash = n_hash;
    m->hash = n_hash ? intervals_copy(hash, n_hash) : NULL;
    m->spaces = spaces;
    m->n_spaces = n;
    m->plain = n == 0 && n_hash == 0 && m->default_mode == SPACE_HASH;
    m->refs = 1;
    if (n) {
        struct space_slot *slots = mem_zalloc(slots_for(n) * sizeof *slots);
        m->slot_mask = slots_for(n) - 1;
        m->slots = slots;
        fill_slots(m, slots);
    }
    return m;
}

struct space_map *spaces_new(const struct route *route, enum space_mode default_mode, const struct hash_desc *hash, uint32_t n_hash, uint64_t version)
{
    CHECK(default_mode != SPACE_RANGE && (n_hash || route->shards >= 1));
    CHECK(n_hash == 0 || spacemap_hash_whole(hash, n_hash, NULL));
    struct space_map like = {.version = version, .route = *route, .default_mode = default_mode};
    return map_make(&like, hash, n_hash, NULL, 0);
}

struct space_map *spaces_ref(struct space_map *m)
{
    ref_add(&m->refs);
    return m;
}

void spaces_unref(struct space_map *m)
{
    if (!m || !ref_drop(&m->refs)) return;
    for (uint32_t i = 0; i < m->n_spaces; i++) spacemap_space_unref(m->spaces[i]);
    mem_free((void *)m->spaces);
    mem_free((void *)m->hash);
    mem_free((void *)m->slots);
    mem_free(m);
}

struct space_map *spacemap_build(const struct space_map *like, struct space *const *spaces, uint32_t n)
{
    return map_make(like, like->hash, like->n_hash, n ? mem_dup(spaces, n * sizeof *spaces) : NULL, n);
}

struct space_map *spacemap_with(const struct space_map *m, struct space *s)
{
    struct space **spaces = mem_alloc((m->n_spaces + 1) * sizeof *spaces);
    uint32_t n = 0, i = 0;
    for (; i < m->n_spaces && slice_cmp(m->spaces[i]->name, s->name) < 0; i++) spaces[n++] = m->spaces[i];
    spaces[n++] = s;
    if (i < m->n_spaces && slice_eq(m->spaces[i]->name, s->name)) i++;
    for (; i < m->n_spaces; i++) spaces[n++] = m->spaces[i];
    for (uint32_t j = 0; j < n; j++)
        if (spaces[j] != s) ref_add(&spaces[j]->refs);
    struct space_map *made = map_make(m, m->hash, m->n_hash, spaces, n);
    made->version++;
    return made;
}

struct space_map *spacemap_with_hash(const struct space_map *m, const struct hash_desc *hash, uint32_t n_hash)
{
    struct space **spaces = m->n_spaces ? mem_dup(m->spaces, m->n_spaces * sizeof *spaces) : NULL;
    for (uint32_t i = 0; i < m->n_spaces; i++) ref_add(&spaces[i]->refs);
    struct space_map *made = map_make(m, hash, n_hash, spaces, m->n_spaces);
    made->version++;
    return made;
}

/* ---- finding */

struct space *spacemap_find(const struct space_map *m, struct slice name, uint64_t name_hash)
{
    if (m->n_spaces == 0) return NULL;
    uint32_t tag = (uint32_t)(name_hash >> 32);
    for (uint32_t at = (uint32_t)name_hash & m->slot_mask; m->slots[at].number; at = (at + 1) & m->slot_mask) {
        struct space *s = m->spaces[m->slots[at].number - 1];
        if (m->slots[at].tag == tag && slice_eq(s->name, name)) return s;
    }
    return NULL;
}

/* The last one that does not begin behind the key: the ranges tile the line, so there always is one. */
uint32_t spacemap_range_at(const struct routing *r, struct slice key)
{
    uint32_t low = 0, high = r->n;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (slice_cmp(key, r->ranges[mid]->d.start) < 0)
            high = mid;
        else
            low = mid;
    }
    return low;
}

uint32_t spacemap_hash_at(const struct space_map *m, uint64_t hash)
{
    uint32_t low = 0, high = m->n_hash;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (hash < m->hash[mid].first)
            high = mid;
        else
            low = mid;
    }
    return low;
}

bool spacemap_id_parse(struct slice digits, uint64_t *id)
{
    if (digits.n != SPACEMAP_ID_DIGITS) return false;
    *id = 0;
    for (size_t i = 0; i < SPACEMAP_ID_DIGITS; i++) {
        char c = digits.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
        *id = *id << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return *id != 0;
}

/* ---- what must always be true */

/* Shown in full, a key may be longer than the sentence can bear. */
static void say_key(struct buf *out, struct slice key)
{
    enum { SHOWN = 80 };
    spaces_text_key(out, slice_of(key.p, key.n < SHOWN ? key.n : SHOWN));
    if (key.n > SHOWN) buf_add_str(out, "...");
}

void spacemap_vsay(struct buf *out, const char *sentence, va_list ap)
{
    if (!out) return;
    for (const char *p = sentence; *p; p++) switch (*p) {
        case '@': say_key(out, va_arg(ap, struct slice)); break;
        case '#': buf_printf(out, "%" PRIu64, va_arg(ap, uint64_t)); break;
        case '$': buf_add_str(out, va_arg(ap, const char *)); break;
        default: buf_add_byte(out, *p);
        }
}

bool spacemap_say(struct buf *out, const char *sentence, ...)
{
    va_list ap;
    va_start(ap, sentence);
    spacemap_vsay(out, sentence, ap);
    va_end(ap);
    return false;
}

static bool range_whole(const struct range_desc *d, struct buf *why)
{
    if (d->id == 0 || d->generation == 0) return spacemap_say(why, "a range has id # and generation #, which begin with 1", d->id, d->generation);
    if (!spacemap_below(d->start, d->end)) return spacemap_say(why, "range # begins at @ and ends at @, so it is empty", d->id, d->start, d->end);
    if (!d->moving) return d->boundary.n == 0 || spacemap_say(why, "range # has a boundary but does not move", d->id);
    if (d->to_shard == d->shard) return spacemap_say(why, "range # moves to the shard where it is", d->id);
    if (slice_cmp(d->boundary, d->start) < 0 || (d->end.n && slice_cmp(d->boundary, d->end) > 0))
        return spacemap_say(why, "range # moves, but its boundary @ is outside of it", d->id, d->boundary);
    return true;
}

static bool line_tiled(const struct routing *r, struct buf *why)
{
    struct slice reached = SLICE("");
    for (uint32_t i = 0; i < r->n; i++) {
        const struct range_desc *d = &r->ranges[i]->d;
        int order = slice_cmp(d->start, reached);
        if (i == 0 && order > 0) return spacemap_say(why, "no range holds the keys before @, where range # begins", d->start, d->id);
        if (i && reached.n && order > 0) return spacemap_say(why, "no range holds the keys from @ to @", reached, d->start);
        if (i && (reached.n == 0 || order < 0)) return spacemap_say(why, "the ranges # and # overlap: both hold @", r->ranges[i - 1]->d.id, d->id, d->start);
        reached = d->end;
    }
    return reached.n == 0 || spacemap_say(why, "no range holds the keys from @ to the end", reached);
}

bool spacemap_routing_whole(const struct routing *r, struct buf *why)
{
    if (r->mode == SPACE_HASH && r->n > 0) return spacemap_say(why, "its mode is hash, but there is range #", r->ranges[0]->d.id);
    if (r->mode == SPACE_BUCKET && r->n > 1) return spacemap_say(why, "its mode is bucket, but there are the ranges # and #", r->ranges[0]->d.id, r->ranges[1]->d.id);
    if (r->mode == SPACE_RANGE && r->n == 0) return spacemap_say(why, "its mode is range, but there is no range");
    for (uint32_t i = 0; i < r->n; i++)
        if (!range_whole(&r->ranges[i]->d, why)) return false;
    return r->n == 0 || line_tiled(r, why);
}

bool spacemap_hash_whole(const struct hash_desc *hash, uint32_t n, struct buf *why)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hash_desc *d = &hash[i];
        if (d->id == 0 || d->generation == 0) return spacemap_say(why, "an interval of the hash has id # and generation #, which begin with 1", d->id, d->generation);
        if (d->last < d->first) return spacemap_say(why, "the interval of the hash with id # ends before it begins", d->id);
        if (d->moving ? d->to_shard == d->shard : d->to_shard || d->boundary.n) return spacemap_say(why, "the interval of the hash with id # does not move, but has somewhere to go; or moves nowhere", d->id);
        if (d->first != next || (i && next == 0)) return spacemap_say(why, "the interval of the hash with id # does not begin where the one before it ends", d->id);
        next = d->last + 1;
    }
    return n == 0 || next == 0 || spacemap_say(why, "the last interval of the hash, with id #, does not reach the end", hash[n - 1].id);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t collect_ids(const struct space_map *m, uint64_t *ids)
{
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_hash; i++, n++)
        if (ids) ids[n] = m->hash[i].id;
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        const struct space *s = m->spaces[i];
        for (uint32_t j = 0; j < s->now.n; j++, n++)
            if (ids) ids[n] = s->now.ranges[j]->d.id;
        for (uint32_t j = 0; j < s->to.n; j++, n++)
            if (ids) ids[n] = s->to.ranges[j]->d.id;
    }
    return n;
}

uint64_t spacemap_double_id(const struct space_map *m)
{
    size_t n = collect_ids(m, NULL);
    uint64_t *ids = mem_alloc((n + 1) * sizeof *ids), twice = 0;
    collect_ids(m, ids);
    qsort(ids, n, sizeof *ids, by_number);
    for (size_t i = 1; i < n && !twice; i++)
        if (ids[i] == ids[i - 1]) twice = ids[i];
    mem_free(ids);
    return twice;
}

uint64_t spaces_max_id(const struct space_map *m)
{
    size_t n = collect_ids(m, NULL);
    uint64_t *ids = mem_alloc((n + 1) * sizeof *ids), max = 0;
    collect_ids(m, ids);
    for (size_t i = 0; i < n; i++)
        if (ids[i] > max) max = ids[i];
    mem_free(ids);
    return max;
}

static void check_shards(const struct space_map *m, const struct routing *r)
{
    for (uint32_t i = 0; m->n_hash == 0 && i < r->n; i++) CHECK(r->ranges[i]->d.shard < m->route.shards && (!r->ranges[i]->d.moving || r->ranges[i]->d.to_shard < m->route.shards));
}

static void check_space(const struct space_map *m, const struct space *s)
{
    CHECK(s->generation >= 1 && s->refs >= 1);
    CHECK(s->name_hash == keyhash(s->name, m->route.seed));
    CHECK(spacemap_find(m, s->name, s->name_hash) == s);
    CHECK(spacemap_routing_whole(&s->now, NULL));
    CHECK(s->now.number <= s->generation && s->to.number <= s->generation);
    check_shards(m, &s->now);
    check_shards(m, &s->to);
    if (!s->moving) {
        CHECK(s->to.n == 0 && s->boundary.n == 0);
        return;
    }
    CHECK(spacemap_routing_whole(&s->to, NULL) && s->to.number > s->now.number);
    for (uint32_t i = 0; i < s->now.n; i++) CHECK(!s->now.ranges[i]->d.moving);
    for (uint32_t i = 0; i < s->to.n; i++) CHECK(!s->to.ranges[i]->d.moving);
}

void spaces_check(const struct space_map *m)
{
    CHECK(m->refs >= 1 && m->default_mode != SPACE_RANGE);
    CHECK(m->plain == (m->n_spaces == 0 && m->n_hash == 0 && m->default_mode == SPACE_HASH));
    CHECK(spacemap_hash_whole(m->hash, m->n_hash, NULL));
    for (uint32_t i = 0; i < m->n_spaces; i++) {
        CHECK(i == 0 || slice_cmp(m->spaces[i - 1]->name, m->spaces[i]->name) < 0);
        check_space(m, m->spaces[i]);
    }
    CHECK(spacemap_double_id(m) == 0);
}
