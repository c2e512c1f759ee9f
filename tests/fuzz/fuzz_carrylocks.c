/* Any bytes as LOCKS of a slice that a group is to take. The first byte says of what: 0 a range, else an interval of the hash. Taking them twice is taking them once; and what has come can be given back: it is good then, too, the group that takes it has the same as the one that gave it had, and that one has none of it any more. */
#include <stdint.h>

#include "base/check.h"
#include "cluster/carrylocks.h"
#include "route/spaces.h"
#include "shard/locks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { HERE = 2, THERE = 3 }; /* groups; the map has everything there, so what is given out here is gone */

static const struct store_limits limits = {.list_size = -2};
static const struct holding_piece here = {.end = SLICE("s/m"), .group = HERE}, there = {.end = SLICE("s/m"), .group = THERE};
static const struct holding_piece all_here = {.group = HERE}, all_there = {.group = THERE};

static const struct holding_plan plans[2][2] = { /* of a range, of the hash: to here, back */
    {
        {.op = 1, .space = SLICE("s"), .start = SLICE("s/b"), .end = SLICE("s/m"), .old_side = {.n = 1, .pieces = &there}, .new_side = {.n = 1, .pieces = &here}},
        {.op = 2, .space = SLICE("s"), .start = SLICE("s/b"), .end = SLICE("s/m"), .old_side = {.n = 1, .pieces = &here}, .new_side = {.n = 1, .pieces = &there}},
    },
    {
        {.op = 1, .of_hash = true, .last = UINT64_MAX, .old_side = {.n = 1, .pieces = &all_there}, .new_side = {.n = 1, .pieces = &all_here}},
        {.op = 2, .of_hash = true, .last = UINT64_MAX, .old_side = {.n = 1, .pieces = &all_here}, .new_side = {.n = 1, .pieces = &all_there}},
    },
};

static struct carryslice slice_in(uint32_t group, const struct space_map *m, const struct holding_plan *p)
{
    return (struct carryslice){.store = store_new(1, &limits, group), .map = m, .group = group, .plan = p, .from = carryslice_first(), .upto = carryslice_last()};
}

static void take(const struct carryslice *s, struct slice locks)
{
    uint64_t before = store_digest(s->store);
    bool changes = carrylocks_change_any(s, locks);
    carrylocks_take(s, locks);
    uint64_t after = store_digest(s->store);
    CHECK(changes || before == after);
    CHECK(carrylocks_take(s, locks) == 0 && store_digest(s->store) == after);
    store_check(s->store);
}

static void give(struct buf *out, const struct carryslice *s)
{
    struct holding *h = holding_new(s->group);
    struct holding_op o = {.plan = *s->plan, .gone = carryslice_last(), .high = carryslice_last()};
    struct buf again = {0};
    carrylocks_give(out, s, h, &o);
    carrylocks_give_again(&again, s);
    CHECK(slice_eq(buf_slice(out), buf_slice(&again)));
    carrylocks_arrived(s);
    CHECK(store_keys(s->store, STORE_SYSTEM_DB) == (locks_counter(s->store) > 0));
    buf_fini(&again);
    holding_free(h);
}

static void there_and_back(const struct space_map *m, const struct holding_plan plan[2], struct slice locks)
{
    struct carryslice s = slice_in(HERE, m, &plan[0]);
    if (carrylocks_are_good(&s, locks)) {
        struct carryslice other = slice_in(THERE, m, &plan[1]);
        struct buf given = {0};
        take(&s, locks);
        uint64_t had = store_digest(s.store);
        s.plan = &plan[1];
        give(&given, &s);
        CHECK(carrylocks_are_good(&other, buf_slice(&given)));
        take(&other, buf_slice(&given));
        CHECK(store_digest(other.store) == had);
        buf_fini(&given);
        store_free(other.store);
    }
    store_free(s.store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct hash_desc all = {.id = 1, .generation = 1, .shard = THERE, .last = UINT64_MAX};
    if (!n) return 0;
    struct space_map *m = spaces_new(&(struct route){.seed = 1, .shards = 1}, SPACE_BUCKET, &all, 1, 1);
    there_and_back(m, plans[data[0] != 0], slice_of(data + 1, n - 1));
    spaces_unref(m);
    return 0;
}
