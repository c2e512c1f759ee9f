/* How much the ranges of ordered key spaces are used, and where in them: samples per shard, and what they tell.
 *
 * One access in HOTKEYS_SAMPLE is noted, by the draw that the sketch of hot keys makes anyway (store/hotkeys.h), and only from the moment on that a space is ordered: a server without such spaces
 * pays nothing, one with them a few nanoseconds per access. A window keeps at most LOAD_SAMPLES of them, each as likely as any other (a reservoir), and counts all: so figures over a window come from the
 * whole of it, not from its first or last moments, and memory has a bound.
 *
 * What is not noted: keys that RANGE.GET and its kin pass over, and spaces whose name alone is longer than LOAD_KEY_MAX. Of longer keys the first LOAD_KEY_MAX bytes stand for the whole.
 *
 * Threads: windows are filled and exchanged under the shard's token; whoever has taken one out owns it. The published figures may be read by any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/slice.h"

struct engine;
struct loads;

enum {
    LOAD_SAMPLES = 256, /* the middle of so many is within 6 % of the true one, 19 times in 20 */
    LOAD_KEY_MAX = 128,
    LOAD_CUTS = 7,      /* keys that part the load of a range into eighths */
};

struct load_sample {
    uint8_t n, space; /* bytes of the key, and of its space's name */
    char key[LOAD_KEY_MAX];
};

struct load_window {
    int64_t since_ms;
    uint64_t all;  /* accesses drawn, to any keys */
    uint64_t seen; /* of these, to ordered ones: all of them, or a fair choice, are in `of` */
    uint32_t n;
    struct load_sample of[LOAD_SAMPLES];
};

/* ---- one window: pure */

void load_clear(struct load_window *w, int64_t now_ms);
void load_add(struct load_window *w, struct rng *rng, struct slice key); /* an access to a key of an ordered space */
double load_all(const struct load_window *w, int64_t now_ms);            /* accesses per second, to any keys */
void load_sort(struct load_window *w); /* by space and key: before load_sum */

struct load_figures { /* slices point into the window */
    double ops;             /* per second */
    double hottest;         /* share of the one key that is used most, 0 to 1 */
    struct slice hot_key;
    struct slice cut;       /* the key before which the load is parted most evenly; empty: only one key was seen, or none */
    uint32_t n_cuts;        /* LOAD_CUTS, or 0: too few samples to tell */
    struct slice cuts[LOAD_CUTS];
};
/* Of the keys [start, end) of a space, ends empty as in struct range_desc. The window was sorted and went on until now_ms. */
void load_sum(const struct load_window *w, int64_t now_ms, struct slice space, struct slice start, struct slice end, struct load_figures *f);

/* ---- an engine's */

struct loads *loads_new(struct engine *e); /* keeps e, and is its e->loads */
void loads_free(struct loads *l);          /* before the engine */

/* Under the shard's token: exchanges its window for an empty one, which it keeps. The first call begins the sampling and gives an empty window back. */
struct load_window *loads_take(struct loads *l, uint32_t shard, int64_t now_ms, struct load_window *empty);

struct loads_figure {
    uint64_t range; /* its id */
    double ops;
};
/* Takes the array (of mem_alloc), ascending by id: what loads_ops tells from now on. One thread. */
void loads_publish(struct loads *l, struct loads_figure *figures, uint32_t n);
double loads_ops(struct loads *l, uint64_t range); /* any thread; 0 if it is not known, also where l is NULL */
