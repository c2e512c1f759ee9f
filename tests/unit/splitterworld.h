/* A simulated world for the policy of ranges: keys, clients and shards of a virtual server, or of a cluster whose nodes lead shards, a second per step. It does what is decided, and is the judge of whether that was sound. cmocka's header goes before it. */
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "shard/load.h"
#include "shard/splitter.h"
#include "store/hotkeys.h"

enum { LINE = 1 << 20, RANGES_MAX = 2048, SHARDS_MAX = 16, KEY_BYTES = 300, DRAWS = 200, MOVE_BYTES_PER_S = 100 << 20, MINUTE = 60, HOUR = 3600, NODES_MAX = 5 };

/* ---- the world: the line of keys is the numbers 0 to LINE - 1 */

struct world_range {
    uint64_t id, generation;
    unsigned lo, hi; /* [lo, hi) */
    uint32_t shard, to_shard;
    int move_left_s; /* 0: it does not move */
    int64_t split_s, merged_s;
};

struct world {
    struct splitter *splitters[NODES_MAX]; /* of each node */
    uint32_t n_nodes;
    uint32_t leader[SHARDS_MAX]; /* the node, from 0 on, that leads the shard; NODES_MAX: nobody */
    struct splitter_limits limits;
    struct rng rng;
    int64_t now_s;
    uint32_t n_shards, n;
    struct world_range ranges[RANGES_MAX];
    uint64_t next_id;
    struct load_window *windows; /* of each shard */
    double backlog[SHARDS_MAX];

    /* What clients do. */
    double filled;    /* keys that there are: the first ones of the line, or */
    bool scattered;   /* an even choice of all */
    double rate;      /* accesses per second */
    unsigned (*pick)(struct world *w); /* a key that is used */
    unsigned spot, width;

    /* What happened. */
    unsigned splits, merges, moves;
    double moved_bytes;
    int64_t last_change_s;
    uint64_t digest; /* of all decisions */
};

static inline unsigned pick_anywhere(struct world *w) { return (unsigned)rng_below(&w->rng, LINE); }
static inline unsigned pick_spot(struct world *w) { return w->spot + (unsigned)rng_below(&w->rng, w->width); }
static inline unsigned pick_one_key(struct world *w) { return rng_below(&w->rng, 10) < 6 ? w->spot : pick_anywhere(w); }
static inline unsigned pick_newest(struct world *w) { return (unsigned)w->filled - 1 - (unsigned)rng_below(&w->rng, 50); }

static inline void world_init_nodes(struct world *w, uint32_t nodes, uint32_t shards, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->n_nodes = nodes;
    for (uint32_t i = 0; i < nodes; i++) w->splitters[i] = splitter_new();
    for (uint32_t i = 0; i < shards; i++) w->leader[i] = i % nodes;
    w->limits = (struct splitter_limits){.on = true, .split_bytes = 16 << 20, .merge_bytes = 4 << 20, .split_ops = 25000, .merge_ops = 2000, .split_backlog = 16, .sustain_ms = 10000, .settle_ms = 30000, .max_changes = 4};
    rng_init(&w->rng, seed);
    w->n_shards = shards;
    w->n = 1;
    w->next_id = 2;
    w->now_s = 1000;
    w->ranges[0] = (struct world_range){.id = 1, .generation = 1, .hi = LINE, .split_s = -HOUR, .merged_s = -HOUR};
    w->windows = mem_zalloc(shards * sizeof *w->windows);
    w->pick = pick_anywhere;
}

static inline void world_init(struct world *w, uint32_t shards, uint64_t seed) { world_init_nodes(w, 1, shards, seed); }

static inline void world_fini(struct world *w)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) splitter_free(w->splitters[i]);
    mem_free(w->windows);
}

static inline double keys_in(const struct world *w, unsigned lo, unsigned hi)
{
    if (w->scattered) return (hi - lo) * w->filled / LINE;
    return w->filled <= lo ? 0 : w->filled >= hi ? hi - lo : w->filled - lo;
}

static inline unsigned median_of(const struct world *w, const struct world_range *r)
{
    unsigned hi = w->scattered || w->filled > r->hi ? r->hi : (unsigned)w->filled;
    return hi > r->lo ? r->lo + (hi - r->lo) / 2 : r->lo;
}

static inline struct slice key_at(unsigned number, char out[16]) { return slice_of(out, (size_t)snprintf(out, 16, "s/%07u", number)); }
static inline unsigned number_of(struct slice key)
{
    char text[16] = {0};
    memcpy(text, key.p + 2, key.n - 2);
    return (unsigned)atoi(text);
}

static inline struct world_range *range_at(struct world *w, unsigned number)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (number < w->ranges[i].hi) return &w->ranges[i];
    abort();
}

/* ---- clients: some of their accesses stand for all */

static inline void use_keys(struct world *w)
{
    double draws = w->rate / HOTKEYS_SAMPLE, factor = draws > DRAWS ? draws / DRAWS : 1;
    for (uint32_t i = 0; i < w->n_shards; i++) load_clear(&w->windows[i], w->now_s * 1000 - 1000);
    for (unsigned i = 0; i < draws / factor; i++) {
        char key[16];
        unsigned number = w->pick(w);
        load_add(&w->windows[range_at(w, number)->shard], &w->rng, key_at(number, key));
    }
    for (uint32_t i = 0; i < w->n_shards; i++) {
        w->windows[i].seen = (uint64_t)((double)w->windows[i].seen * factor);
        w->windows[i].all = (uint64_t)((double)w->windows[i].all * factor);
        load_sort(&w->windows[i]);
    }
}

/* ---- what the policy sees */

struct bounds {
    char start[16], end[16], median[16];
};

static inline void show_range(const struct world *w, const struct world_range *r, struct bounds *b, struct splitter_range *out)
{
    *out = (struct splitter_range){.id = r->id, .generation = r->generation, .space = SLICE("s"), .shard = r->shard, .to_shard = r->to_shard, .moving = r->move_left_s > 0};
    if (r->lo) out->start = key_at(r->lo, b->start);
    if (r->hi < LINE) out->end = key_at(r->hi, b->end);
    if (out->moving) return;
    out->keys = (uint64_t)keys_in(w, r->lo, r->hi);
    out->bytes = out->keys * KEY_BYTES;
    if (out->keys) out->median = key_at(median_of(w, r), b->median);
    load_sum(&w->windows[r->shard], w->now_s * 1000, out->space, out->start, out->end, &out->load);
}

static inline void show_shards(const struct world *w, struct splitter_shard *out)
{
    for (uint32_t i = 0; i < w->n_shards; i++)
        out[i] = (struct splitter_shard){.away = w->leader[i] == NODES_MAX, .node = w->leader[i] + 1, .ops = load_all(&w->windows[i], w->now_s * 1000), .backlog = w->backlog[i]};
    for (uint32_t i = 0; i < w->n; i++) out[w->ranges[i].shard].bytes += (uint64_t)keys_in(w, w->ranges[i].lo, w->ranges[i].hi) * KEY_BYTES;
}

/* What a node knows of a range that another one leads: what that one says. */
static inline void hide_range(const struct world *w, struct splitter_range *r, struct splitter_past *past)
{
    uint32_t leader = w->leader[r->shard];
    double ops = r->load.ops;
    r->elsewhere = true;
    r->unready = leader == NODES_MAX;
    r->median = (struct slice){0};
    r->load = (struct load_figures){.ops = ops};
    if (leader != NODES_MAX && splitter_past(w->splitters[leader], r->id, past)) r->past = past;
}

/* ---- what the policy does */

static inline uint32_t place_of(const struct world *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->ranges[i].id == id) return i;
    fail_msg("a decision about a range that is not there");
    return 0;
}

static inline void do_split(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    unsigned at = number_of(d->key);
    assert_true(at > r->lo && at < r->hi && w->n < RANGES_MAX);
    bool by_load = memmem(d->why.p, d->why.n, "load", 4);
    assert_true(!by_load || w->now_s - r->merged_s >= w->limits.settle_ms / 1000);
    memmove(r + 1, r, (w->n - i) * sizeof *r);
    w->n++;
    r[1].id = w->next_id++;
    r[1].lo = r[0].hi = at;
    r[1].generation = ++r[0].generation;
    r[0].split_s = r[1].split_s = w->now_s;
    w->splits++;
}

static inline void do_move(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    double bytes = keys_in(w, r->lo, r->hi) * KEY_BYTES;
    assert_true(d->to_shard != r->shard && d->to_shard < w->n_shards);
    r->to_shard = d->to_shard;
    r->generation++;
    r->move_left_s = 1 + (int)(bytes / MOVE_BYTES_PER_S);
    w->moves++;
    w->moved_bytes += bytes;
}

static inline void do_merge(struct world *w, uint32_t i, const struct splitter_decision *d)
{
    struct world_range *r = &w->ranges[i];
    assert_true(i > 0 && r[-1].shard == r->shard && !r[-1].move_left_s);
    assert_int_equal(number_of(d->key), r->lo);
    assert_true(w->now_s - r->split_s >= w->limits.settle_ms / 1000 && w->now_s - r[-1].split_s >= w->limits.settle_ms / 1000);
    r[-1].hi = r->hi;
    r[-1].generation = (r->generation > r[-1].generation ? r->generation : r[-1].generation) + 1;
    r[-1].merged_s = w->now_s;
    memmove(r, r + 1, (w->n - i - 1) * sizeof *r);
    w->n--;
    w->merges++;
}

static inline void carry_out(struct world *w, uint32_t node, const struct splitter_decision *d)
{
    uint32_t i = place_of(w, d->id);
    assert_int_equal(w->leader[w->ranges[i].shard], node);
    assert_int_equal(w->ranges[i].generation, d->generation);
    assert_int_equal(w->ranges[i].move_left_s, 0);
    assert_true(d->why.n > 0);
    w->digest = (w->digest ^ d->id ^ ((uint64_t)d->kind << 60) ^ ((uint64_t)d->to_shard << 40) ^ (uint64_t)w->now_s) * 0x9e3779b97f4a7c15ull;
    w->last_change_s = w->now_s;
    if (d->kind == SPLITTER_SPLIT) do_split(w, i, d);
    else if (d->kind == SPLITTER_MOVE) do_move(w, i, d);
    else do_merge(w, i, d);
    splitter_done(w->splitters[node], d, true, SLICE(""));
}

static inline unsigned go_on_moving(struct world *w)
{
    unsigned moving = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_range *r = &w->ranges[i];
        if (!r->move_left_s) continue;
        moving++;
        if (--r->move_left_s) continue;
        r->shard = r->to_shard;
        r->generation++;
        moving--;
    }
    return moving;
}

static inline uint32_t decide(struct world *w, uint32_t node, const struct splitter_decision **decisions)
{
    static struct splitter_range shown[RANGES_MAX];
    static struct splitter_past pasts[RANGES_MAX];
    static struct bounds bounds[RANGES_MAX];
    struct splitter_shard shards[SHARDS_MAX];
    for (uint32_t i = 0; i < w->n; i++) {
        show_range(w, &w->ranges[i], &bounds[i], &shown[i]);
        if (w->leader[w->ranges[i].shard] != node) hide_range(w, &shown[i], &pasts[i]);
    }
    show_shards(w, shards);
    uint32_t n = splitter_step(w->splitters[node], w->now_s * 1000, &w->limits, shown, w->n, shards, w->n_shards, decisions);
    splitter_check(w->splitters[node]);
    return n;
}

/* Every node decides by the same moment's figures. A range has one leader, so what they decide does not meet. */
static inline void second(struct world *w)
{
    const struct splitter_decision *decisions[NODES_MAX];
    uint32_t n[NODES_MAX];
    w->now_s++;
    unsigned moving = go_on_moving(w);
    use_keys(w);
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        n[i] = decide(w, i, &decisions[i]);
        assert_true(n[i] + moving <= w->limits.max_changes || n[i] == 0);
    }
    for (uint32_t i = 0; i < w->n_nodes; i++)
        for (uint32_t k = 0; k < n[i]; k++) carry_out(w, i, &decisions[i][k]);
}

static inline void seconds(struct world *w, int n)
{
    while (n--) second(w);
}

static inline double most_loaded(const struct world *w)
{
    double most = 0;
    for (uint32_t i = 0; i < w->n_shards; i++)
        if (load_all(&w->windows[i], w->now_s * 1000) > most) most = load_all(&w->windows[i], w->now_s * 1000);
    return most;
}

static inline void expect_words(struct world *w, uint64_t id, const char *part)
{
    struct splitter_words words = {0};
    uint32_t leader = w->leader[w->ranges[place_of(w, id)].shard];
    assert_true(splitter_explain(w->splitters[leader], id, &words));
    buf_add_byte(&words.split, '\0');
    buf_add_byte(&words.merge, '\0');
    if (!strstr(words.split.p, part) && !strstr(words.merge.p, part)) fail_msg("'%s' is neither in '%s' nor in '%s'", part, words.split.p, words.merge.p);
    buf_fini(&words.split);
    buf_fini(&words.merge);
    buf_fini(&words.move);
}

/* The range that it is gets a cut that nobody decided: somebody made it. */
static inline void cut_by_hand(struct world *w, unsigned at)
{
    assert_int_equal(w->n, 1);
    w->ranges[1] = w->ranges[0];
    w->n = 2;
    w->ranges[1].id = w->next_id++;
    w->ranges[1].lo = w->ranges[0].hi = at;
    w->ranges[0].generation = w->ranges[1].generation = 2;
}

/* ---- walks */

/* Clients do anything, and so does what else there is (shake), for hours. */
static inline void wander(struct world *w, void (*shake)(struct world *w))
{
    static unsigned (*const picks[])(struct world *w) = {pick_anywhere, pick_spot, pick_one_key, pick_newest};
    w->limits.split_bytes = 1 << 20;
    w->limits.merge_bytes = 1 << 18;
    w->width = 30000;
    for (int i = 0; i < 60; i++) {
        w->pick = picks[rng_below(&w->rng, 4)];
        w->rate = (double)rng_below(&w->rng, 300000);
        w->scattered = rng_below(&w->rng, 2);
        w->spot = (unsigned)rng_below(&w->rng, LINE - w->width);
        w->filled = 100 + (double)rng_below(&w->rng, LINE - 100);
        w->limits.max_changes = 1 + (uint32_t)rng_below(&w->rng, 6);
        shake(w);
        seconds(w, 1 + (int)rng_below(&w->rng, 5 * MINUTE));
    }
}

/* Decisions are sound, which the world sees to, and the same for the same seed. */
static inline void check_walks(void (*init)(struct world *w, uint64_t seed), void (*shake)(struct world *w))
{
    unsigned splits = 0, merges = 0, moves = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world a, b;
        init(&a, seed);
        init(&b, seed);
        wander(&a, shake);
        wander(&b, shake);
        assert_int_equal(a.digest, b.digest);
        splits += a.splits;
        merges += a.merges;
        moves += a.moves;
        world_fini(&a);
        world_fini(&b);
    }
    print_message("3 walks: %u splits, %u merges, %u moves\n", splits, merges, moves);
    assert_true(splits > 20 && merges > 10 && moves > 20);
}
