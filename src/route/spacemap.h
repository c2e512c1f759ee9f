/* The inside of a map of key spaces (route/spaces.h), for the files that make maps. Not for others.
 *
 * A map shares its spaces, and a space its descriptors, with the maps before and after it: all three are counted and never change once they are in a map. So a boundary that walks costs arrays of pointers,
 * not copies of keys. */
#pragma once
#include <stdarg.h>

#include "route/spaces.h"

/* A descriptor and the bytes of its keys. */
struct range {
    uint32_t refs;
    struct range_desc d;
    char bytes[];
};

/* How the keys of a space are placed. HASH: n = 0. BUCKET: n = 1, or 0 (where the hash of the name says). RANGE: n >= 1 that tile the line, ascending. */
struct routing {
    enum space_mode mode;
    uint64_t number; /* the space's generation when this routing was made: tells which descriptors belong to it. 0: that of an unset space. */
    uint32_t n;
    struct range **ranges;
};

struct space {
    uint32_t refs;
    bool moving; /* from `now` to `to` */
    uint64_t generation, name_hash;
    struct routing now, to;
    struct slice name, boundary;
    char bytes[];
};

/* Entry of the lookup table: open addressing, at most half full. */
struct space_slot {
    uint32_t tag;    /* upper half of the name's hash */
    uint32_t number; /* in spaces, + 1; 0: empty */
};

struct range *spacemap_range_new(const struct range_desc *d); /* copies the keys */
struct range *spacemap_range_ref(struct range *r);
void spacemap_range_unref(struct range *r);

/* A space with empty routings that the caller fills. Copies. */
struct space *spacemap_space_new(struct slice name, uint64_t name_hash, struct slice boundary);
void spacemap_space_unref(struct space *s);

/* A routing of n descriptors, which the caller sets. */
void spacemap_routing_init(struct routing *r, enum space_mode mode, uint64_t number, uint32_t n);
/* The same descriptors, counted once more. */
void spacemap_routing_share(struct routing *r, const struct routing *of);

struct space *spacemap_find(const struct space_map *m, struct slice name, uint64_t name_hash); /* NULL: not set */
uint32_t spacemap_range_at(const struct routing *r, struct slice key); /* n >= 1: the one whose [start, end) holds the key */
uint32_t spacemap_hash_at(const struct space_map *m, uint64_t hash);   /* n_hash >= 1 */

/* A map with s in the place of the space with its name, or added. Takes s. */
struct space_map *spacemap_with(const struct space_map *m, struct space *s);
/* A map with other intervals of the hash; borrows. */
struct space_map *spacemap_with_hash(const struct space_map *m, const struct hash_desc *hash, uint32_t n_hash);
/* A map of these spaces, ascending by name, which it takes. */
struct space_map *spacemap_build(const struct space_map *like, struct space *const *spaces, uint32_t n);

/* Whether what a routing has is what its mode asks for, and tiles the line of keys; else why gets a sentence. Never aborts. */
bool spacemap_routing_whole(const struct routing *r, struct buf *why);
bool spacemap_hash_whole(const struct hash_desc *hash, uint32_t n, struct buf *why);
/* An id that stands twice in the map, or 0. */
uint64_t spacemap_double_id(const struct space_map *m);

/* An id or token as keys of records have it: 16 hex digits, lower case only, so that one id has one key. False: it is none, or 0. */
enum { SPACEMAP_ID_DIGITS = 16 };
bool spacemap_id_parse(struct slice digits, uint64_t *id);

/* Adds a sentence to out (NULL: does nothing) in which each '@' is a key (struct slice; shown quoted, cut if long), each '#' a number (uint64_t) and each '$' a string. Gives false. */
bool spacemap_say(struct buf *out, const char *sentence, ...);
void spacemap_vsay(struct buf *out, const char *sentence, va_list ap);

/* Byte order where an empty end is the end of the line. */
static inline bool spacemap_below(struct slice key, struct slice end) { return end.n == 0 || slice_cmp(key, end) < 0; }
static inline struct slice spacemap_lower_end(struct slice a, struct slice b) { return spacemap_below(a, b) && a.n ? a : b; }
static inline struct slice spacemap_higher(struct slice a, struct slice b) { return slice_cmp(a, b) < 0 ? b : a; }
