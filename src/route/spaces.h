/* The map of key spaces: which shard a key of database 0 lies in. Pure: no clock, no thread, no file.
 *
 * A key's space is the part before its last '/' (route/keyspace.h). A space that was SET has a mode:
 *
 *   hash     every key where its own hash says
 *   bucket   all keys in one shard
 *   range    the line of keys in byte order, cut into ranges, each in one shard
 *
 * Other spaces have the map's default mode. A map never changes: a change makes a new one, whose version is one higher, from an old one, and shares what stayed the same.
 *
 * Moving is a boundary that walks up the line of keys: keys below it are where the new routing says, the others where the old one says. Three things move like that: a space whose mode changes
 * (from any mode to any), a range that goes to another shard, and an interval of the hash, whose keys are those of many spaces: its boundary walks up the line of all keys. Whoever changes a map sees to the data: a change that lets a key's shard be another one is made while the tokens of both are held
 * and in the step that carries the key over.
 *
 * The fence is (id, generation) of a range, or of an interval of the hash. Ids come from the caller's counter and are never used twice. The generation rises with every change of what a descriptor
 * covers, and when it begins and ends to move; not while its boundary walks, so whoever checks a fence routes the key again and compares shard, id and generation.
 *
 * Thread: a map may be read and counted by any; the functions that make a map are as pure as the rest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "route/route.h"

enum space_mode { SPACE_HASH, SPACE_BUCKET, SPACE_RANGE, SPACE_MODES };

const char *space_mode_name(enum space_mode m); /* "hash", "bucket", "range" */
bool space_mode_parse(struct slice word, enum space_mode *m); /* any case */

/* The longest name, and the longest key to split at. (A boundary may be any key, else a move could not get past a long one.) */
enum { SPACES_NAME_MAX = 1024, SPACES_BOUND_MAX = 65536 };

/* The keys [start, end) of one space, whole keys in byte order. An empty start is the beginning of the line (no key is less), an empty end its end. A bucket is one such range over the whole line. */
struct range_desc {
    uint64_t id, generation; /* both >= 1 */
    uint32_t shard;
    uint32_t to_shard; /* if moving: keys below the boundary are there */
    bool moving;
    struct slice start, end, boundary; /* boundary: start <= boundary, <= end */
};

/* A hash shard is a range of the hash: [first, last], both inside. */
struct hash_desc {
    uint64_t id, generation;
    uint32_t shard;
    uint64_t first, last;
    bool moving;
    uint32_t to_shard;     /* if moving: of the keys that the interval places, those below the boundary are there */
    struct slice boundary; /* any key; empty: none is */
};

struct space;      /* opaque: asked by the functions below */
struct space_slot; /* of the lookup table */

struct space_map {
    uint64_t version;
    struct route route;             /* seed always; shards standalone */
    enum space_mode default_mode;   /* HASH or BUCKET: an unset bucket is where its name's hash says */
    uint32_t n_hash;                /* cluster: intervals of the hash, ascending, tiling all 64 bits; 0: hash % route.shards */
    const struct hash_desc *hash;
    uint32_t n_spaces;
    struct space *const *spaces;    /* ascending by name */
    /* private */
    bool plain;                     /* no spaces, no intervals, default hash */
    uint32_t slot_mask;
    const struct space_slot *slots;
    uint32_t refs;
};

/* Where a key is. id and generation are 0 where nothing fences: hash % shards. */
struct space_place {
    uint32_t shard;
    uint64_t id, generation;
};

/* ---- life */

/* The map without any spaces. Borrows hash (n_hash 0: standalone), whose intervals must tile the 64 bits in order (CHECK). default_mode is HASH or BUCKET. Gives a map with one reference. */
struct space_map *spaces_new(const struct route *route, enum space_mode default_mode, const struct hash_desc *hash, uint32_t n_hash, uint64_t version);
struct space_map *spaces_ref(struct space_map *m);
void spaces_unref(struct space_map *m); /* NULL is allowed */

/* ---- finding */

void spaces_route_slow(const struct space_map *m, struct slice key, uint64_t hash, struct space_place *place);

/* hash is keyhash(key, m->route.seed). Allocates nothing. */
static inline void spaces_route(const struct space_map *m, struct slice key, uint64_t hash, struct space_place *place)
{
    if (likely(m->plain))
        *place = (struct space_place){.shard = route_shard(&m->route, hash)};
    else
        spaces_route_slow(m, key, hash, place);
}

static inline uint32_t spaces_shard(const struct space_map *m, struct slice key, uint64_t hash)
{
    struct space_place place;
    spaces_route(m, key, hash, &place);
    return place.shard;
}

/* Whether the intervals of the hash place a key, and not a range; then *placing is the hash that says in which of them it is: the key's own, or that of its space's name. hash is keyhash of the key. */
bool spaces_is_by_hash(const struct space_map *m, struct slice key, uint64_t hash, uint64_t *placing);

/* A piece of a space's line of keys that lies in one place. */
struct space_piece {
    struct slice start, end;       /* clamped to what was asked for; empty as in range_desc */
    bool hashed;                   /* its keys are spread over all shards by their hash: shard and id say nothing */
    uint32_t shard;
    uint64_t id, generation;
    const struct range_desc *desc; /* the whole descriptor; NULL if hashed or an unset bucket. Lives as long as the map. */
};

/* Visits the pieces that hold keys of [start, end) of a space, in order, without gap or overlap; also a space that is not in the map. Ends early when visit gives false, and gives false then. Borrows. */
typedef bool spaces_visit_fn(void *ctx, const struct space_piece *piece);
bool spaces_overlap(const struct space_map *m, struct slice name, struct slice start, struct slice end, spaces_visit_fn *visit, void *ctx);

/* What is known of one space. Everything lives as long as the map. */
struct space_info {
    struct slice name;
    bool set;                /* it stands in the map; else what follows is the default */
    enum space_mode mode;    /* the old one while moving */
    uint64_t generation;     /* rises with every change of mode, when it begins and when it ends */
    bool moving;
    enum space_mode to_mode; /* if moving */
    struct slice boundary;   /* if moving */
    uint32_t n_ranges, n_to; /* for spaces_range */
};
const struct space *spaces_find(const struct space_map *m, struct slice name); /* NULL: not set */
void spaces_info(const struct space_map *m, struct slice name, struct space_info *info);
void spaces_describe(const struct space *s, struct space_info *info);
/* Descriptor i of the present routing (of_new false), or of the one it moves to. */
const struct range_desc *spaces_range(const struct space *s, bool of_new, uint32_t i);
/* The range of a space that a key falls into; NULL: the space, or the side of its boundary that the key is on, has none. */
const struct range_desc *spaces_range_of(const struct space_map *m, struct slice name, struct slice key);
/* The same for a command that names a range by one of its keys, or the first one by -. NULL: why gets a sentence; also where the key is none of the space's. */
const struct range_desc *spaces_range_named(const struct space_map *m, struct slice name, struct slice key, struct buf *why);
/* Of a space that is not set, and so a bucket: a range over the whole line, with id, generation and move of the interval of the hash that places it. False: it is set, or not a bucket, or there are no intervals. Borrows from the map. */
bool spaces_unset_bucket(const struct space_map *m, struct slice name, struct range_desc *d);
/* By id, in all spaces (slow: for MUSTRETRY and RANGE.EXEC with an id alone). name is set if found and not NULL. */
const struct range_desc *spaces_range_by_id(const struct space_map *m, uint64_t id, struct slice *name);
uint64_t spaces_max_id(const struct space_map *m); /* the greatest id in use, 0: none. A counter starts above it. */

/* Whether a key is one of the space's: what start and end of a RANGE command should be. If not, why gets a sentence that shows the likely right form. */
bool spaces_key_fits(struct slice name, struct slice key, struct buf *why);

/* An end may be softer: it is a bound, not a key, and may lie behind the last key of the space. What begins with the name will do ("users0", which is behind every "users/..."), and so will the first
 * bytes behind everything that begins with it ("usert" for "users"). All else is more likely a slip, which would silently mean "all". */
bool spaces_end_fits(struct slice name, struct slice end, struct buf *why);

/* ---- changing: each gives a new map (one reference) and leaves the old one alone; or NULL, *error and a sentence for the client in why (without a full stop, may be NULL). */

enum spaces_error {
    SPACES_OK,
    SPACES_NO_SPACE,  /* the space was never set, or has no ranges */
    SPACES_NO_RANGE,  /* no range begins, or is, there */
    SPACES_MOVING,    /* it, or a part of it, is moving: try again later */
    SPACES_NOT_MOVING,
    SPACES_SAME,      /* nothing to do: it is so already */
    SPACES_NAME,      /* no usable name */
    SPACES_KEY,       /* no usable key or bound */
    SPACES_SHARD,     /* no such shard, or not the same */
    SPACES_ID,        /* an id that is 0 or in use */
};
const char *spaces_error_name(enum spaces_error e);

/* Gives a space another mode. ranges: the new descriptors (id, shard, start, end are read): BUCKET one over the whole line, RANGE one or more that tile it, HASH none.
 * BUCKET with n = 0: the shard is where the hash of the name says, as with an unset bucket.
 * A move begins, with its boundary at the beginning of the line; unless at_once, which says that no key has to change its shard (the space holds none, or all are where they belong): then it is done. */
struct space_map *spaces_set_mode(const struct space_map *m, struct slice name, enum space_mode mode, const struct range_desc *ranges, uint32_t n, bool at_once, enum spaces_error *error, struct buf *why);
/* Bucket to range and back within one shard: no key moves, the descriptor stays and its generation rises. SPACES_SAME: it is so; SPACES_SHARD: more than one range, or none. */
struct space_map *spaces_retitle(const struct space_map *m, struct slice name, enum space_mode mode, enum spaces_error *error, struct buf *why);
/* The boundary of a space whose mode changes goes up to key: every key below it has been carried over. It never goes down. */
struct space_map *spaces_advance(const struct space_map *m, struct slice name, struct slice boundary, enum spaces_error *error, struct buf *why);
/* Every key has been carried over: the new routing is the only one. */
struct space_map *spaces_finish(const struct space_map *m, struct slice name, enum spaces_error *error, struct buf *why);

/* Cuts the range that holds key in two: [start, key) keeps its id, [key, end) gets new_id; both have the generation + 1. upper_shard is the range's own shard, unless the caller knows that the keys of the
 * upper half are in the other one as well (a child group that sits in its parent's stores). */
struct space_map *spaces_split(const struct space_map *m, struct slice name, struct slice key, uint64_t new_id, uint32_t upper_shard, enum spaces_error *error, struct buf *why);
/* The range that begins at key and the one before it become one, with the lower one's id and a generation above both. They must be in the same shard. */
struct space_map *spaces_merge(const struct space_map *m, struct slice name, struct slice key, enum spaces_error *error, struct buf *why);
/* The range with this id begins to move to another shard, boundary at its start. Also the one of a bucket. */
struct space_map *spaces_move(const struct space_map *m, struct slice name, uint64_t id, uint32_t to_shard, enum spaces_error *error, struct buf *why);
struct space_map *spaces_move_advance(const struct space_map *m, struct slice name, uint64_t id, struct slice boundary, enum spaces_error *error, struct buf *why);
struct space_map *spaces_move_finish(const struct space_map *m, struct slice name, uint64_t id, enum spaces_error *error, struct buf *why);

/* The map for another number of shards: what was in shard s is in s % shards. A move goes on as far as its boundary, unless both its ends fall together: then it is done. Generations rise where the shard
 * is another one. For a map without intervals of the hash. */
struct space_map *spaces_reshard(const struct space_map *m, uint32_t shards);

/* The same for intervals of the hash: [first, at - 1] and [at, last]. */
struct space_map *spaces_hash_split(const struct space_map *m, uint64_t at, uint64_t new_id, uint32_t upper_shard, enum spaces_error *error, struct buf *why);
struct space_map *spaces_hash_merge(const struct space_map *m, uint64_t at, enum spaces_error *error, struct buf *why);
/* The interval with this id begins to move to another shard, boundary at the beginning of the line; and as with ranges. */
struct space_map *spaces_hash_move(const struct space_map *m, uint64_t id, uint32_t to_shard, enum spaces_error *error, struct buf *why);
struct space_map *spaces_hash_move_advance(const struct space_map *m, uint64_t id, struct slice boundary, enum spaces_error *error, struct buf *why);
struct space_map *spaces_hash_move_finish(const struct space_map *m, uint64_t id, enum spaces_error *error, struct buf *why);
const struct hash_desc *spaces_hash_by_id(const struct space_map *m, uint64_t id); /* NULL: there is none */

/* CHECKs that the map is whole: names ascending and found, ranges tile the line, boundaries inside, ids used once. */
void spaces_check(const struct space_map *m);

/* ---- text: one form for RANGE.MAP, MUSTRETRY and log lines; one line, bytes outside printable ASCII escaped
 *
 *     space="users" id=7 generation=3 shard=2 start="users/a" end="users/m"
 *     space="users" id=9 generation=2 shard=0 start="users/m" end=+ to-shard=1 boundary="users/q"
 *     id=2 generation=1 shard=4 hash=0000000000000000-0fffffffffffffff
 *     id=3 generation=2 shard=4 hash=1000000000000000-1fffffffffffffff to-shard=18 boundary="cart/17"
 *
 * start=- is the beginning of the line, end=+ its end. */
void spaces_text_range(struct buf *out, struct slice name, const struct range_desc *d);
void spaces_text_hash(struct buf *out, const struct hash_desc *d);
/* Where a key of the space is: one of the two; or, where nothing fences, the mode of its space. */
void spaces_text_place(struct buf *out, const struct space_map *m, struct slice name, struct slice key);
void spaces_text_key(struct buf *out, struct slice key); /* quoted and escaped as above */
