/* The hottest keys of one shard, always on: a sketch that costs a few nanoseconds per access and a fixed 40 KiB.
 *
 * One access in sixteen (on average, at random distances, so that no rhythm of the traffic hides a key) is counted sixteenfold in a count-min sketch with
 * conservative update; the HOTKEYS_TOP keys with the highest estimates are kept by name. All counts are halved every ten minutes, so they tell of the last
 * half hour rather than of last month. An estimate errs upwards by the sketch's collisions (small for keys that are really hot) and both ways by the sampling.
 *
 * Part of a store; used under its token. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/slice.h"

enum {
    HOTKEYS_TOP = 64,
    HOTKEYS_KEY_MAX = 64, /* longer names are cut */
    HOTKEYS_ROWS = 4,
    HOTKEYS_COLUMNS = 2048,
    HOTKEYS_SAMPLE = 16,
};

struct hotkey {
    uint64_t hash; /* of key and database; 0: free */
    uint64_t hits;
    uint32_t len;  /* of the whole name */
    uint16_t db;
    char name[HOTKEYS_KEY_MAX];
};

struct hotkeys {
    uint32_t skip; /* accesses until the next one that counts */
    struct rng rng;
    int64_t halved_ms;
    uint64_t lowest; /* the smallest count among the top, 0 while there is room */
    uint32_t sketch[HOTKEYS_ROWS][HOTKEYS_COLUMNS];
    struct hotkey top[HOTKEYS_TOP];
    void (*on_sample)(void *ctx, struct slice key); /* told of each access that counts; may be NULL */
    void *on_sample_ctx;
};

struct hotkeys *hotkeys_new(uint64_t seed);
void hotkeys_free(struct hotkeys *h);
void hotkeys_count(struct hotkeys *h, int64_t now_ms, uint16_t db, uint64_t hash, struct slice key);

/* Notes an access. */
static inline void hotkeys_hit(struct hotkeys *h, int64_t now_ms, uint16_t db, uint64_t hash, struct slice key)
{
    if (__builtin_expect(--h->skip == 0, 0)) hotkeys_count(h, now_ms, db, hash, key);
}
