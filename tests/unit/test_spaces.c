/* The map of key spaces: by hand where an answer can be read off, and a random walk of changes against a naive twin that knows the place of each of some thousand keys one by one. The records that the
 * changes leave behind must make the same map at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "route/keyspace.h"
#include "route/spacerecord.h"

static const struct route four = {.seed = 42, .shards = 4};

static struct space_place place_of(const struct space_map *m, const char *key)
{
    struct space_place p;
    spaces_route(m, slice_str(key), keyhash(slice_str(key), m->route.seed), &p);
    return p;
}

static uint32_t hash_shard(const char *key) { return (uint32_t)(keyhash(slice_str(key), four.seed) % four.shards); }

/* The change must succeed; the old map is given up. */
static void become(struct space_map **m, struct space_map *next)
{
    assert_non_null(next);
    assert_int_equal(next->version, (*m)->version + 1);
    spaces_check(next);
    spaces_unref(*m);
    *m = next;
}

static enum spaces_error err;
static struct buf why;

static void expect_refused(struct space_map *made, enum spaces_error code, const char *sentence)
{
    assert_null(made);
    assert_string_equal(spaces_error_name(err), spaces_error_name(code));
    buf_add_byte(&why, 0);
    assert_string_equal(why.p, sentence);
    why.len = 0;
}

static struct range_desc whole_line(uint64_t id, uint32_t shard) { return (struct range_desc){.id = id, .shard = shard}; }

/* Space "users" as one range with id 1 in shard 2. */
static struct space_map *users_map(void)
{
    struct space_map *m = spaces_new(&four, SPACE_HASH, NULL, 0, 1);
    struct range_desc line = whole_line(1, 2);
    become(&m, spaces_set_mode(m, SLICE("users"), SPACE_RANGE, &line, 1, true, &err, &why));
    return m;
}

static void the_space_of_a_key_is_what_stands_before_its_last_slash(void **state)
{
    assert_true(slice_eq(space_of(SLICE("a/b/c")), SLICE("a/b")));
    assert_true(slice_eq(space_of(SLICE("a/")), SLICE("a")));
    assert_true(slice_eq(space_of(SLICE("/a")), SLICE("")));
    assert_true(slice_eq(space_of(SLICE("plain")), SLICE("plain")));
    assert_true(slice_eq(space_of(SLICE("")), SLICE("")));
}

static void a_map_without_spaces_routes_by_hash_alone(void **state)
{
    struct space_map *m = spaces_new(&four, SPACE_HASH, NULL, 0, 7);
    spaces_check(m);
    assert_true(m->plain);
    struct space_place p = place_of(m, "users/1");
    assert_int_equal(p.shard, hash_shard("users/1"));
    assert_int_equal(p.id, 0);
    spaces_unref(spaces_ref(m));
    spaces_unref(m);
}

static void an_unset_bucket_is_where_the_hash_of_its_name_says(void **state)
{
    struct space_map *m = spaces_new(&four, SPACE_BUCKET, NULL, 0, 1);
    assert_int_equal(place_of(m, "cart/1").shard, hash_shard("cart"));
    assert_int_equal(place_of(m, "cart/2").shard, hash_shard("cart"));
    assert_int_equal(place_of(m, "cart").shard, hash_shard("cart"));
    spaces_unref(m);
}

static void ranges_split_move_and_merge_with_rising_generations(void **state)
{
    struct space_map *m = users_map();
    become(&m, spaces_split(m, SLICE("users"), SLICE("users/m"), 2, 2, &err, &why));
    struct space_place low = place_of(m, "users/a"), high = place_of(m, "users/m");
    assert_int_equal(low.id, 1);
    assert_int_equal(low.generation, 2);
    assert_int_equal(high.id, 2);
    assert_int_equal(high.generation, 2);

    become(&m, spaces_move(m, SLICE("users"), 2, 0, &err, &why));
    assert_int_equal(place_of(m, "users/m").shard, 2);
    assert_int_equal(place_of(m, "users/m").generation, 3);
    become(&m, spaces_move_advance(m, SLICE("users"), 2, SLICE("users/p"), &err, &why));
    assert_int_equal(place_of(m, "users/o").shard, 0);
    assert_int_equal(place_of(m, "users/p").shard, 2);
    assert_int_equal(place_of(m, "users/a").shard, 2);
    assert_int_equal(place_of(m, "users/o").generation, 3);
    expect_refused(spaces_merge(m, SLICE("users"), SLICE("users/m"), &err, &why), SPACES_MOVING,
                   "range 2 is moving from shard 2 to shard 0, all keys below \"users/p\" are done; try again when it has ended");
    become(&m, spaces_move_finish(m, SLICE("users"), 2, &err, &why));
    assert_int_equal(place_of(m, "users/z").shard, 0);
    assert_int_equal(place_of(m, "users/z").generation, 4);

    expect_refused(spaces_merge(m, SLICE("users"), SLICE("users/m"), &err, &why), SPACES_SHARD,
                   "range 1 is in shard 2 and range 2 in shard 0: move one of them first (RANGE.MOVE)");
    become(&m, spaces_move(m, SLICE("users"), 2, 2, &err, &why));
    become(&m, spaces_move_finish(m, SLICE("users"), 2, &err, &why));
    become(&m, spaces_merge(m, SLICE("users"), SLICE("users/m"), &err, &why));
    assert_int_equal(place_of(m, "users/z").id, 1);
    assert_int_equal(place_of(m, "users/z").generation, 7);
    spaces_unref(m);
}

static void a_change_of_mode_walks_from_the_old_routing_to_the_new(void **state)
{
    struct space_map *m = spaces_new(&four, SPACE_HASH, NULL, 0, 1);
    struct range_desc line = whole_line(5, 3);
    struct space_info info;
    become(&m, spaces_set_mode(m, SLICE("s"), SPACE_BUCKET, &line, 1, false, &err, &why));
    assert_int_equal(place_of(m, "s/k").shard, hash_shard("s/k"));
    become(&m, spaces_advance(m, SLICE("s"), SLICE("s/k"), &err, &why));
    assert_int_equal(place_of(m, "s/j").shard, 3);
    assert_int_equal(place_of(m, "s/j").id, 5);
    assert_int_equal(place_of(m, "s/k").shard, hash_shard("s/k"));
    spaces_info(m, SLICE("s"), &info);
    assert_true(info.moving && info.mode == SPACE_HASH && info.to_mode == SPACE_BUCKET && info.n_to == 1);
    expect_refused(spaces_advance(m, SLICE("s"), SLICE("s/a"), &err, &why), SPACES_KEY, "the boundary of space \"s\" is at \"s/k\" and cannot go down to \"s/a\"");
    expect_refused(spaces_set_mode(m, SLICE("s"), SPACE_RANGE, &line, 1, false, &err, &why), SPACES_MOVING,
                   "space \"s\" is changing from hash to bucket, all keys below \"s/k\" are done; try again when it has ended");
    become(&m, spaces_finish(m, SLICE("s"), &err, &why));
    assert_int_equal(place_of(m, "s/z").shard, 3);
    become(&m, spaces_retitle(m, SLICE("s"), SPACE_RANGE, &err, &why));
    assert_int_equal(place_of(m, "s/z").id, 5);
    assert_int_equal(place_of(m, "s/z").generation, 2);
    spaces_unref(m);
}

static void mistakes_are_told_with_what_was_meant(void **state)
{
    struct space_map *m = users_map();
    struct range_desc line = whole_line(9, 0), far = whole_line(9, 4), part = {.id = 9, .start = SLICE("users/b")};
    expect_refused(spaces_set_mode(m, SLICE("cart/"), SPACE_BUCKET, &line, 1, true, &err, &why), SPACES_NAME,
                   "the name of a space has no '/' at its end: keys that begin with \"cart/\" are in space \"cart\"");
    expect_refused(spaces_set_mode(m, SLICE("cart/*"), SPACE_BUCKET, &line, 1, true, &err, &why), SPACES_NAME,
                   "a space is named, not matched: the keys \"cart/*\" are those of space \"cart\"");
    expect_refused(spaces_set_mode(m, SLICE("users"), SPACE_RANGE, &line, 1, true, &err, &why), SPACES_SAME, "the mode of space \"users\" is range already");
    expect_refused(spaces_set_mode(m, SLICE("cart"), SPACE_BUCKET, &far, 1, true, &err, &why), SPACES_SHARD, "there is no shard 4: shards are numbered from 0 to 3");
    expect_refused(spaces_set_mode(m, SLICE("cart"), SPACE_RANGE, &part, 1, true, &err, &why), SPACES_KEY,
                   "the new ranges do not fit together: no range holds the keys before \"users/b\", where range 9 begins");
    expect_refused(spaces_split(m, SLICE("users"), SLICE("500"), 2, 2, &err, &why), SPACES_KEY, "\"500\" is no key of space \"users\": whole keys are wanted, as in \"users/500\"");
    expect_refused(spaces_split(m, SLICE("users"), SLICE("users/5/a"), 2, 2, &err, &why), SPACES_KEY,
                   "\"users/5/a\" is no key of space \"users\": the space of a key is what stands before its last '/', here \"users/5\"");
    expect_refused(spaces_split(m, SLICE("users"), SLICE("users/5"), 1, 2, &err, &why), SPACES_ID, "1 is no id for a new range: ids begin with 1 and are used once");
    expect_refused(spaces_split(m, SLICE("cart"), SLICE("cart/5"), 2, 2, &err, &why), SPACES_NO_SPACE, "space \"cart\" was never given a mode: SPACE.SET does that");
    expect_refused(spaces_split(m, SLICE("users/5"), SLICE("users/5"), 2, 2, &err, &why), SPACES_NO_SPACE,
                   "there is no space \"users/5\"; there is a space \"users\", of which \"users/5\" is a key");
    expect_refused(spaces_merge(m, SLICE("users"), SLICE("users/5"), &err, &why), SPACES_NO_RANGE, "\"users/5\" is in the first range of space \"users\", which has none before it");
    expect_refused(spaces_move(m, SLICE("users"), 8, 0, &err, &why), SPACES_NO_RANGE,
                   "space \"users\" has no range with id 8: it may have been merged; RANGE.MAP \"users\" shows those that are");
    expect_refused(spaces_move(m, SLICE("users"), 1, 2, &err, &why), SPACES_SAME, "range 1 is in shard 2 already");
    expect_refused(spaces_move_finish(m, SLICE("users"), 1, &err, &why), SPACES_NOT_MOVING, "range 1 is in shard 2 and does not move");
    expect_refused(spaces_finish(m, SLICE("users"), &err, &why), SPACES_NOT_MOVING, "the mode of space \"users\" is range and does not change");
    expect_refused(spaces_hash_split(m, 1, 2, 0, &err, &why), SPACES_NO_RANGE, "this node hashes over 4 shards; only a cluster has intervals of the hash");
    become(&m, spaces_set_mode(m, SLICE("b"), SPACE_BUCKET, &line, 1, true, &err, &why));
    expect_refused(spaces_split(m, SLICE("b"), SLICE("b/5"), 2, 2, &err, &why), SPACES_NO_SPACE, "space \"b\" has no ranges: its mode is bucket; SPACE.SET \"b\" RANGE gives it some");
    spaces_unref(m);
}

static void a_descriptor_has_one_text(void **state)
{
    struct buf text = {0};
    struct range_desc d = {.id = 9, .generation = 2, .shard = 0, .start = SLICE("u/\"m\n"), .moving = true, .to_shard = 1, .boundary = SLICE("u/\"m\xff")};
    spaces_text_range(&text, SLICE("u"), &d);
    buf_add_byte(&text, ' ');
    spaces_text_hash(&text, &(struct hash_desc){.id = 2, .generation = 1, .shard = 4, .first = 0, .last = UINT64_MAX >> 4});
    buf_add_byte(&text, 0);
    assert_string_equal(text.p, "space=\"u\" id=9 generation=2 shard=0 start=\"u/\\\"m\\x0a\" end=+ to-shard=1 boundary=\"u/\\\"m\\xff\" "
                                "id=2 generation=1 shard=4 hash=0000000000000000-0fffffffffffffff");
    buf_fini(&text);
}

static void intervals_of_the_hash_split_and_merge(void **state)
{
    struct hash_desc halves[2] = {{.id = 1, .generation = 1, .shard = 2, .first = 0, .last = UINT64_MAX / 2},
                                  {.id = 2, .generation = 1, .shard = 3, .first = UINT64_MAX / 2 + 1, .last = UINT64_MAX}};
    struct space_map *m = spaces_new(&(struct route){.seed = 42}, SPACE_HASH, halves, 2, 1);
    struct space_place p;
    become(&m, spaces_hash_split(m, 1000, 3, 9, &err, &why));
    spaces_route(m, SLICE("k"), 999, &p);
    assert_true(p.shard == 2 && p.id == 1 && p.generation == 2);
    spaces_route(m, SLICE("k"), 1000, &p);
    assert_true(p.shard == 9 && p.id == 3 && p.generation == 2);
    spaces_route(m, SLICE("k"), UINT64_MAX, &p);
    assert_true(p.shard == 3 && p.id == 2 && p.generation == 1);
    expect_refused(spaces_hash_merge(m, 1000, &err, &why), SPACES_SHARD, "the intervals 1 and 3 of the hash are in shard 2 and shard 9");
    expect_refused(spaces_hash_merge(m, 1001, &err, &why), SPACES_NO_RANGE, "no interval of the hash but the first begins there");
    expect_refused(spaces_hash_split(m, 1000, 4, 2, &err, &why), SPACES_SAME, "the interval of the hash with id 3 begins there already");
    become(&m, spaces_hash_split(m, 500, 4, 2, &err, &why));
    become(&m, spaces_hash_merge(m, 500, &err, &why));
    spaces_route(m, SLICE("k"), 999, &p);
    assert_true(p.shard == 2 && p.id == 1 && p.generation == 4);
    assert_int_equal(spaces_max_id(m), 3);
    spaces_unref(m);
}

static uint32_t shard_of(const struct space_map *m, const char *key)
{
    struct slice s = slice_of(key, strlen(key));
    return spaces_shard(m, s, keyhash(s, m->route.seed));
}

struct pieces_seen {
    uint32_t n, shards[4];
    struct slice ends[4];
};

static bool note_piece(void *ctx, const struct space_piece *p)
{
    struct pieces_seen *seen = ctx;
    seen->shards[seen->n] = p->shard;
    seen->ends[seen->n++] = p->end;
    return true;
}

static void an_unset_bucket_is_told_as_one_range_where_its_interval_is(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 4, .shard = 2, .last = UINT64_MAX};
    struct space_map *m = spaces_new(&(struct route){.seed = 42}, SPACE_BUCKET, &all, 1, 1);
    struct range_desc d;
    assert_true(spaces_unset_bucket(m, SLICE("b"), &d));
    assert_true(d.id == 1 && d.generation == 4 && d.shard == 2 && !d.moving && !d.start.n && !d.end.n);
    become(&m, spaces_hash_move(m, 1, 3, &err, &why));
    become(&m, spaces_hash_move_advance(m, 1, SLICE("b/3"), &err, &why));
    assert_true(spaces_unset_bucket(m, SLICE("b"), &d));
    assert_true(d.moving && d.to_shard == 3 && slice_is(d.boundary, "b/3"));
    become(&m, spaces_hash_move_finish(m, 1, &err, &why));
    become(&m, spaces_set_mode(m, SLICE("set"), SPACE_BUCKET, &(struct range_desc){.id = 9, .shard = 5}, 1, true, &err, &why));
    assert_false(spaces_unset_bucket(m, SLICE("set"), &d));
    assert_true(spaces_unset_bucket(m, SLICE("b"), &d));
    spaces_unref(m);
    m = spaces_new(&(struct route){.seed = 42}, SPACE_HASH, &all, 1, 1);
    assert_false(spaces_unset_bucket(m, SLICE("b"), &d));
    spaces_unref(m);
}

static void an_interval_of_the_hash_moves_up_the_line_of_all_keys(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX};
    struct space_map *m = spaces_new(&(struct route){.seed = 42}, SPACE_BUCKET, &all, 1, 1);
    struct pieces_seen seen = {0};
    become(&m, spaces_set_mode(m, SLICE("set"), SPACE_BUCKET, &(struct range_desc){.id = 9, .shard = 5}, 1, true, &err, &why));
    expect_refused(spaces_hash_move(m, 7, 3, &err, &why), SPACES_NO_RANGE, "no interval of the hash has the id 7");
    expect_refused(spaces_hash_move(m, 1, 2, &err, &why), SPACES_SAME, "the interval 1 of the hash is in shard 2 already");
    expect_refused(spaces_hash_move_finish(m, 1, &err, &why), SPACES_NOT_MOVING, "the interval 1 of the hash is in shard 2 and does not move");
    become(&m, spaces_hash_move(m, 1, 3, &err, &why));
    assert_true(m->hash[0].generation == 2 && shard_of(m, "b/2") == 2);
    become(&m, spaces_hash_move_advance(m, 1, SLICE("b/3"), &err, &why));
    assert_true(m->hash[0].generation == 2);
    assert_int_equal(shard_of(m, "b/2"), 3);
    assert_int_equal(shard_of(m, "b/3"), 2);
    assert_int_equal(shard_of(m, "zz"), 2);
    assert_int_equal(shard_of(m, "aa"), 3);
    assert_int_equal(shard_of(m, "set/a"), 5);
    spaces_overlap(m, SLICE("b"), SLICE(""), SLICE(""), note_piece, &seen);
    assert_true(seen.n == 2 && seen.shards[0] == 3 && seen.shards[1] == 2 && slice_eq(seen.ends[0], SLICE("b/3")));
    expect_refused(spaces_hash_move_advance(m, 1, SLICE("b/1"), &err, &why), SPACES_KEY, "the boundary of the interval 1 of the hash is at \"b/3\" and cannot go down to \"b/1\"");
    expect_refused(spaces_hash_split(m, 1000, 4, 2, &err, &why), SPACES_MOVING,
                   "the interval 1 of the hash is moving from shard 2 to shard 3, all keys below \"b/3\" are done; try again when it has ended");
    become(&m, spaces_hash_move_finish(m, 1, &err, &why));
    assert_true(m->hash[0].generation == 3 && !m->hash[0].moving && shard_of(m, "zz") == 3);
    spaces_unref(m);
}

static void what_places_a_key_is_its_own_hash_that_of_its_space_or_a_range(void **state)
{
    const struct hash_desc all = {.id = 1, .generation = 1, .shard = 2, .last = UINT64_MAX};
    struct space_map *m = spaces_new(&(struct route){.seed = 42}, SPACE_BUCKET, &all, 1, 1);
    uint64_t placing;
    become(&m, spaces_set_mode(m, SLICE("set"), SPACE_BUCKET, &(struct range_desc){.id = 9, .shard = 5}, 1, true, &err, &why));
    become(&m, spaces_set_mode(m, SLICE("h"), SPACE_HASH, NULL, 0, true, &err, &why));
    assert_false(spaces_is_by_hash(m, SLICE("set/a"), keyhash(SLICE("set/a"), 42), &placing));
    assert_true(spaces_is_by_hash(m, SLICE("h/a"), keyhash(SLICE("h/a"), 42), &placing) && placing == keyhash(SLICE("h/a"), 42));
    assert_true(spaces_is_by_hash(m, SLICE("b/a"), keyhash(SLICE("b/a"), 42), &placing) && placing == keyhash(SLICE("b"), 42));
    assert_true(spaces_is_by_hash(m, SLICE("b"), keyhash(SLICE("b"), 42), &placing) && placing == keyhash(SLICE("b"), 42));
    spaces_unref(m);
}

/* ---- the model */

enum { TWIN_KEYS = 2500, TWIN_IDS = 8192, TWIN_NAMES = 6, TWIN_STEPS = 1500, TWIN_RECORDS = 2048, PIECES_MAX = 4 };

static const char *const twin_names[TWIN_NAMES] = {"a", "users", "users/x", "b", "", "zz"};

struct twin_place {
    bool hashed;
    uint32_t shard;
    uint64_t id;
};

struct twin_key {
    char text[32];
    struct slice key;
    uint64_t hash;
    uint32_t name;
    struct twin_place now, next; /* next: where a change of mode will bring it */
};

struct twin {
    struct twin_key keys[TWIN_KEYS];
    uint64_t generation[TWIN_IDS];
    uint64_t last_id;
    struct space_map *map;
    struct rng rng;
    struct spacerecord records[TWIN_RECORDS]; /* what the system databases hold, in no order */
    uint32_t n_records;
};

static struct twin *twin_new(uint64_t seed)
{
    struct twin *t = mem_zalloc(sizeof *t);
    rng_init(&t->rng, seed);
    t->map = spaces_new(&four, SPACE_HASH, NULL, 0, 1);
    for (uint32_t i = 0; i < TWIN_KEYS; i++) {
        struct twin_key *k = &t->keys[i];
        const char *name = twin_names[rng_below(&t->rng, TWIN_NAMES)];
        if (i < TWIN_NAMES)
            snprintf(k->text, sizeof k->text, "%s", twin_names[i]);
        else
            snprintf(k->text, sizeof k->text, "%s/%llx", name, (unsigned long long)rng_below(&t->rng, 1 << 20));
        k->key = slice_str(k->text);
        k->hash = keyhash(k->key, four.seed);
        k->name = TWIN_NAMES;
        for (uint32_t j = 0; j < TWIN_NAMES; j++)
            if (slice_eq(space_of(k->key), slice_str(twin_names[j]))) k->name = j;
        k->now = (struct twin_place){.hashed = true};
    }
    return t;
}

static void record_free(struct spacerecord *r)
{
    mem_free((void *)r->key.p);
    mem_free((void *)r->value.p);
}

static void twin_free(struct twin *t)
{
    for (uint32_t i = 0; i < t->n_records; i++) record_free(&t->records[i]);
    spaces_unref(t->map);
    mem_free(t);
}

static const struct twin_key *random_key(struct twin *t) { return &t->keys[rng_below(&t->rng, TWIN_KEYS)]; }

/* A key of the space, mostly. */
static struct slice random_bound(struct twin *t, uint32_t name)
{
    const struct twin_key *k = random_key(t);
    for (int i = 0; i < 40 && k->name != name; i++) k = random_key(t);
    return k->key;
}

static int by_bytes(const void *a, const void *b) { return slice_cmp(*(const struct slice *)a, *(const struct slice *)b); }

/* 1 to PIECES_MAX ranges that tile the line, and now and then do not. */
static uint32_t random_pieces(struct twin *t, uint32_t name, enum space_mode mode, struct range_desc *pieces)
{
    struct slice cuts[PIECES_MAX];
    uint32_t n = mode == SPACE_RANGE ? 1 + (uint32_t)rng_below(&t->rng, PIECES_MAX) : 1;
    if (mode == SPACE_HASH) return 0;
    for (uint32_t i = 0; i < n; i++) cuts[i] = i ? random_bound(t, name) : SLICE("");
    qsort(cuts, n, sizeof *cuts, by_bytes);
    for (uint32_t i = 0; i < n; i++)
        pieces[i] = (struct range_desc){.id = t->last_id + i + 1, .shard = (uint32_t)rng_below(&t->rng, four.shards), .start = cuts[i], .end = i + 1 < n ? cuts[i + 1] : SLICE("")};
    return n;
}

/* Where one key is among pieces, looked for one after the other. */
static struct twin_place place_among(struct slice key, const struct range_desc *pieces, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (slice_cmp(key, pieces[i].start) >= 0 && (pieces[i].end.n == 0 || slice_cmp(key, pieces[i].end) < 0)) return (struct twin_place){.shard = pieces[i].shard, .id = pieces[i].id};
    return (struct twin_place){.hashed = true};
}

static struct space_map *twin_set_mode(struct twin *t, uint32_t name)
{
    struct range_desc pieces[PIECES_MAX];
    enum space_mode mode = (enum space_mode)rng_below(&t->rng, SPACE_MODES);
    uint32_t n = random_pieces(t, name, mode, pieces);
    bool at_once = rng_below(&t->rng, 4) == 0;
    struct space_map *made = spaces_set_mode(t->map, slice_str(twin_names[name]), mode, pieces, n, at_once, &err, &why);
    struct space_info info;
    if (!made) return NULL;
    spaces_info(made, slice_str(twin_names[name]), &info);
    assert_true(!(at_once && info.moving));
    for (uint32_t i = 0; i < n; i++) t->generation[pieces[i].id] = 1;
    t->last_id += n;
    for (struct twin_key *k = t->keys; k < t->keys + TWIN_KEYS; k++) {
        if (k->name != name) continue;
        k->next = place_among(k->key, pieces, n);
        if (!info.moving) k->now = k->next;
    }
    return made;
}

static struct space_map *twin_advance(struct twin *t, uint32_t name)
{
    struct slice boundary = random_bound(t, name);
    struct space_map *made = spaces_advance(t->map, slice_str(twin_names[name]), boundary, &err, &why);
    for (struct twin_key *k = t->keys; made && k < t->keys + TWIN_KEYS; k++)
        if (k->name == name && slice_cmp(k->key, boundary) < 0) k->now = k->next;
    return made;
}

static struct space_map *twin_finish(struct twin *t, uint32_t name)
{
    struct space_map *made = spaces_finish(t->map, slice_str(twin_names[name]), &err, &why);
    for (struct twin_key *k = t->keys; made && k < t->keys + TWIN_KEYS; k++)
        if (k->name == name) k->now = k->next;
    return made;
}

static struct space_map *twin_split(struct twin *t, uint32_t name)
{
    struct slice key = random_bound(t, name);
    const struct range_desc *d = spaces_range_of(t->map, slice_str(twin_names[name]), key);
    uint64_t id = d ? d->id : 0;
    struct space_map *made = spaces_split(t->map, slice_str(twin_names[name]), key, t->last_id + 1, d ? d->shard : 0, &err, &why);
    if (!made) return NULL;
    t->generation[++t->last_id] = ++t->generation[id];
    for (struct twin_key *k = t->keys; k < t->keys + TWIN_KEYS; k++)
        if (k->now.id == id && slice_cmp(k->key, key) >= 0) k->now.id = t->last_id;
    return made;
}

static struct space_map *twin_merge(struct twin *t, uint32_t name)
{
    const struct space *s = spaces_find(t->map, slice_str(twin_names[name]));
    struct space_info info = {0};
    if (s) spaces_describe(s, &info);
    if (info.n_ranges < 2) return spaces_merge(t->map, slice_str(twin_names[name]), random_bound(t, name), &err, &why);
    uint32_t i = 1 + (uint32_t)rng_below(&t->rng, info.n_ranges - 1);
    uint64_t lower = spaces_range(s, false, i - 1)->id, upper = spaces_range(s, false, i)->id;
    struct space_map *made = spaces_merge(t->map, slice_str(twin_names[name]), spaces_range(s, false, i)->start, &err, &why);
    if (!made) return NULL;
    t->generation[lower] = (t->generation[lower] > t->generation[upper] ? t->generation[lower] : t->generation[upper]) + 1;
    for (struct twin_key *k = t->keys; k < t->keys + TWIN_KEYS; k++)
        if (k->now.id == upper) k->now.id = lower;
    return made;
}

/* Some descriptor of the space, moving or not; else an id that no one has. */
static struct range_desc random_range(struct twin *t, uint32_t name)
{
    const struct range_desc *d = spaces_range_of(t->map, slice_str(twin_names[name]), random_bound(t, name));
    return d ? *d : (struct range_desc){.id = TWIN_IDS - 1};
}

static struct space_map *twin_move(struct twin *t, uint32_t name)
{
    struct range_desc d = random_range(t, name);
    struct space_map *made = spaces_move(t->map, slice_str(twin_names[name]), d.id, (uint32_t)rng_below(&t->rng, four.shards), &err, &why);
    if (made) t->generation[d.id]++;
    return made;
}

static struct space_map *twin_move_advance(struct twin *t, uint32_t name)
{
    struct range_desc d = random_range(t, name);
    struct slice boundary = random_bound(t, name);
    struct space_map *made = spaces_move_advance(t->map, slice_str(twin_names[name]), d.id, boundary, &err, &why);
    for (struct twin_key *k = t->keys; made && k < t->keys + TWIN_KEYS; k++)
        if (k->now.id == d.id && slice_cmp(k->key, boundary) < 0) k->now.shard = d.to_shard;
    return made;
}

static struct space_map *twin_move_finish(struct twin *t, uint32_t name)
{
    struct range_desc d = random_range(t, name);
    struct space_map *made = spaces_move_finish(t->map, slice_str(twin_names[name]), d.id, &err, &why);
    if (made) t->generation[d.id]++;
    for (struct twin_key *k = t->keys; made && k < t->keys + TWIN_KEYS; k++)
        if (k->now.id == d.id) k->now.shard = d.to_shard;
    return made;
}

static struct space_map *twin_retitle(struct twin *t, uint32_t name)
{
    uint64_t id = random_range(t, name).id;
    struct space_map *made = spaces_retitle(t->map, slice_str(twin_names[name]), rng_below(&t->rng, 2) ? SPACE_BUCKET : SPACE_RANGE, &err, &why);
    if (made) t->generation[id]++;
    return made;
}

static void compare_keys(const struct twin *t)
{
    for (const struct twin_key *k = t->keys; k < t->keys + TWIN_KEYS; k++) {
        struct space_place p;
        spaces_route(t->map, k->key, k->hash, &p);
        assert_int_equal(p.shard, k->now.hashed ? k->hash % four.shards : k->now.shard);
        assert_int_equal(p.id, k->now.id);
        assert_int_equal(p.generation, t->generation[k->now.id]);
    }
}

static struct slice dup_slice(struct slice s) { return slice_of(mem_dup(s.p, s.n), s.n); }

/* As a store would: a key is there once in each shard, and only what is there can be removed. */
static void keep_record(void *ctx, const struct spacerecord *r, bool remove)
{
    struct twin *t = ctx;
    uint32_t i = 0;
    while (i < t->n_records && !(t->records[i].shard == r->shard && slice_eq(t->records[i].key, r->key))) i++;
    assert_true(i < t->n_records || !remove);
    if (i < t->n_records) {
        assert_true(remove || !slice_eq(t->records[i].value, r->value));
        record_free(&t->records[i]);
        t->records[i] = t->records[--t->n_records];
    }
    if (remove) return;
    assert_true(t->n_records < TWIN_RECORDS);
    t->records[t->n_records++] = (struct spacerecord){.shard = r->shard, .key = dup_slice(r->key), .value = dup_slice(r->value)};
}

static void no_difference(void *ctx, const struct spacerecord *r, bool remove) { fail_msg("%s %.*s differs", remove ? "removed" : "put", (int)r->key.n, r->key.p); }

static void compare_records(struct twin *t)
{
    struct space_map *back = spacerecord_map(&four, SPACE_HASH, t->map->version, t->records, t->n_records, &why);
    if (!back) fail_msg("%.*s", (int)why.len, why.p);
    spaces_check(back);
    spacerecord_diff(back, t->map, no_difference, NULL);
    spacerecord_diff(t->map, back, no_difference, NULL);
    spaces_unref(t->map);
    t->map = back;
}

struct seen {
    struct twin *t;
    uint32_t name;
    struct slice reached;
    bool any, to_the_end;
};

static bool see_piece(void *ctx, const struct space_piece *piece)
{
    struct seen *seen = ctx;
    assert_false(seen->to_the_end);
    assert_true(slice_eq(piece->start, seen->reached));
    assert_true(piece->end.n == 0 || slice_cmp(piece->start, piece->end) < 0);
    for (const struct twin_key *k = seen->t->keys; k < seen->t->keys + TWIN_KEYS; k++) {
        if (k->name != seen->name || slice_cmp(k->key, piece->start) < 0 || (piece->end.n && slice_cmp(k->key, piece->end) >= 0)) continue;
        assert_int_equal(piece->hashed, k->now.hashed);
        assert_int_equal(piece->id, k->now.id);
        if (!piece->hashed) assert_int_equal(piece->shard, k->now.shard);
    }
    seen->any = true;
    seen->reached = piece->end;
    seen->to_the_end = piece->end.n == 0;
    return true;
}

static void compare_overlap(struct twin *t)
{
    uint32_t name = (uint32_t)rng_below(&t->rng, TWIN_NAMES);
    struct slice start = rng_below(&t->rng, 3) ? random_bound(t, name) : SLICE(""), end = rng_below(&t->rng, 3) ? random_bound(t, name) : SLICE("");
    struct seen seen = {.t = t, .name = name, .reached = start};
    assert_true(spaces_overlap(t->map, slice_str(twin_names[name]), start, end, see_piece, &seen));
    if (end.n && slice_cmp(start, end) >= 0) {
        assert_false(seen.any);
        return;
    }
    assert_true(seen.any && slice_eq(seen.reached, end));
}

/* Another number of shards: every key is in the one that its old one has become. */
static void compare_resharded(struct twin *t)
{
    uint32_t shards = 1 + (uint32_t)rng_below(&t->rng, 6);
    struct space_map *m = spaces_reshard(t->map, shards);
    spaces_check(m);
    assert_true(m->route.shards == shards && m->n_spaces == t->map->n_spaces);
    for (const struct twin_key *k = t->keys; k < t->keys + TWIN_KEYS; k++) {
        struct space_place p;
        spaces_route(m, k->key, k->hash, &p);
        assert_int_equal(p.shard, k->now.hashed ? k->hash % shards : k->now.shard % shards);
        assert_true(p.id == k->now.id && p.generation >= t->generation[p.id]);
    }
    spaces_unref(m);
}

static void a_move_whose_ends_fall_together_is_done(void **state)
{
    struct space_map *m = users_map(), *less;
    become(&m, spaces_move(m, SLICE("users"), 1, 0, &err, &why));
    become(&m, spaces_move_advance(m, SLICE("users"), 1, SLICE("users/k"), &err, &why));
    less = spaces_reshard(m, 3);
    assert_true(place_of(less, "users/a").shard == 0 && place_of(less, "users/x").shard == 2);
    assert_int_equal(place_of(less, "users/a").generation, place_of(m, "users/a").generation);
    spaces_unref(less);
    less = spaces_reshard(m, 2);
    spaces_check(less);
    assert_true(place_of(less, "users/a").shard == 0 && place_of(less, "users/x").shard == 0);
    assert_false(spaces_range_by_id(less, 1, NULL)->moving);
    assert_int_equal(place_of(less, "users/a").generation, place_of(m, "users/a").generation + 1);
    spaces_unref(less);
    spaces_unref(m);
}

static void an_end_may_lie_behind_the_space(void **state)
{
    static const char *const good[] = {"users/k", "users0", "users/a/b", "users", "usert", "users/"}, *const bad[] = {"", "m", "z", "user", "user/x", "userz"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(spaces_end_fits(SLICE("users"), slice_str(good[i]), &why));
    assert_true(spaces_end_fits(SLICE("a\xff"), SLICE("b"), &why) && why.len == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(spaces_end_fits(SLICE("users"), slice_str(bad[i]), &why));
        assert_true(why.len > 0);
        why.len = 0;
    }
}

static void a_random_walk_of_changes_agrees_with_a_twin_that_knows_every_key(void **state)
{
    static struct space_map *(*const changes[])(struct twin *, uint32_t) = {twin_set_mode, twin_advance, twin_finish, twin_split, twin_merge, twin_move, twin_move_advance, twin_move_finish, twin_retitle};
    enum { CHANGES = sizeof changes / sizeof *changes };
    unsigned done[CHANGES] = {0}, refused = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct twin *t = twin_new(seed);
        for (int step = 0; step < TWIN_STEPS; step++) {
            uint32_t which = (uint32_t)rng_below(&t->rng, CHANGES);
            struct space_map *made = changes[which](t, (uint32_t)rng_below(&t->rng, TWIN_NAMES));
            assert_int_equal(made == NULL, err != SPACES_OK);
            assert_int_equal(made == NULL, why.len > 0);
            why.len = 0;
            if (made) {
                done[which]++;
                spacerecord_diff(t->map, made, keep_record, t);
                become(&t->map, made);
                if (done[which] % 4 == 0) compare_records(t);
                if (done[which] % 4 == 1) compare_resharded(t);
                compare_keys(t);
            } else {
                refused++;
            }
            compare_overlap(t);
        }
        twin_free(t);
    }
    assert_true(refused > 0);
    for (int i = 0; i < CHANGES; i++) assert_true(done[i] >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_space_of_a_key_is_what_stands_before_its_last_slash),
        cmocka_unit_test(a_map_without_spaces_routes_by_hash_alone),
        cmocka_unit_test(an_unset_bucket_is_where_the_hash_of_its_name_says),
        cmocka_unit_test(ranges_split_move_and_merge_with_rising_generations),
        cmocka_unit_test(a_change_of_mode_walks_from_the_old_routing_to_the_new),
        cmocka_unit_test(mistakes_are_told_with_what_was_meant),
        cmocka_unit_test(a_descriptor_has_one_text),
        cmocka_unit_test(intervals_of_the_hash_split_and_merge),
        cmocka_unit_test(an_unset_bucket_is_told_as_one_range_where_its_interval_is),
        cmocka_unit_test(an_interval_of_the_hash_moves_up_the_line_of_all_keys),
        cmocka_unit_test(what_places_a_key_is_its_own_hash_that_of_its_space_or_a_range),
        cmocka_unit_test(a_move_whose_ends_fall_together_is_done),
        cmocka_unit_test(an_end_may_lie_behind_the_space),
        cmocka_unit_test(a_random_walk_of_changes_agrees_with_a_twin_that_knows_every_key),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_fini(&why);
    return failed;
}
