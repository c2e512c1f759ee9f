#include "store/hotkeys.h"

#include <string.h>

#include "base/mem.h"

enum { HALVE_MS = 10 * 60 * 1000 };

static uint32_t next_skip(struct hotkeys *h) { return 1 + (uint32_t)rng_below(&h->rng, 2 * HOTKEYS_SAMPLE - 1); }

struct hotkeys *hotkeys_new(uint64_t seed)
{
    struct hotkeys *h = mem_zalloc(sizeof *h);
    rng_init(&h->rng, seed);
    h->skip = next_skip(h);
    return h;
}

void hotkeys_free(struct hotkeys *h) { mem_free(h); }

static void halve(struct hotkeys *h)
{
    for (unsigned r = 0; r < HOTKEYS_ROWS; r++)
        for (unsigned c = 0; c < HOTKEYS_COLUMNS; c++) h->sketch[r][c] /= 2;
    h->lowest /= 2;
    for (unsigned i = 0; i < HOTKEYS_TOP; i++)
        if ((h->top[i].hits /= 2) == 0) {
            h->top[i].hash = 0;
            h->lowest = 0;
        }
}

/* Conservative update: only the counters that hold the estimate grow, so collisions add less. Gives the new estimate. */
static uint32_t add(struct hotkeys *h, uint64_t id)
{
    uint32_t *cell[HOTKEYS_ROWS], least = UINT32_MAX;
    for (unsigned r = 0; r < HOTKEYS_ROWS; r++) {
        cell[r] = &h->sketch[r][(id >> (16 * r)) % HOTKEYS_COLUMNS];
        if (*cell[r] < least) least = *cell[r];
    }
    uint32_t now = least > UINT32_MAX - HOTKEYS_SAMPLE ? UINT32_MAX : least + HOTKEYS_SAMPLE;
    for (unsigned r = 0; r < HOTKEYS_ROWS; r++)
        if (*cell[r] < now) *cell[r] = now;
    return now;
}

/* The key's place among the top: its own, a free one, or the one with the smallest count. */
static struct hotkey *place_for(struct hotkeys *h, uint64_t id)
{
    struct hotkey *least = &h->top[0];
    for (unsigned i = 0; i < HOTKEYS_TOP; i++) {
        struct hotkey *k = &h->top[i];
        if (k->hash == id) return k;
        if (k->hits < least->hits) least = k;
    }
    return least;
}

static void find_lowest(struct hotkeys *h)
{
    h->lowest = UINT64_MAX;
    for (unsigned i = 0; i < HOTKEYS_TOP; i++)
        if (h->top[i].hits < h->lowest) h->lowest = h->top[i].hits;
}

void hotkeys_count(struct hotkeys *h, int64_t now_ms, uint16_t db, uint64_t hash, struct slice key)
{
    h->skip = next_skip(h);
    if (h->on_sample) h->on_sample(h->on_sample_ctx, key);
    if (!h->halved_ms) h->halved_ms = now_ms;
    if (now_ms - h->halved_ms > HALVE_MS) {
        halve(h);
        h->halved_ms = now_ms;
    }
    uint64_t id = (hash ^ 0x9e3779b97f4a7c15ull * (db + 1u)) | 1;
    uint32_t hits = add(h, id);
    if (hits <= h->lowest) return;
    struct hotkey *k = place_for(h, id);
    if (k->hash != id) {
        k->hash = id;
        k->db = db;
        k->len = (uint32_t)key.n;
        memcpy(k->name, key.p, key.n < HOTKEYS_KEY_MAX ? key.n : HOTKEYS_KEY_MAX);
    }
    bool was_lowest = k->hits == h->lowest;
    k->hits = hits;
    if (was_lowest) find_lowest(h);
}
