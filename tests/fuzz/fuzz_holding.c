/* Any bytes as a record of what a group serves. The first byte says as what: 0 a plan, else an operation. What is read is written as the same bytes again; the ends of pieces are found in those that begin there. */
#include <stdint.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/holding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Sides that go by the hash need a map. */
static void find_pieces(const struct holding_plan *p, const struct holding_side *s)
{
    CHECK(s->hashed || holding_side_group(p, s, NULL, p->start) == s->pieces[0].group);
    for (uint32_t i = 1; i < s->n; i++) CHECK(holding_side_group(p, s, NULL, s->pieces[i - 1].end) == s->pieces[i].group);
}

static void plan(struct slice in)
{
    struct holding_plan p;
    struct buf again = {0};
    void *storage;
    if (holding_plan_decode(in, &p, &storage) == 0) {
        holding_plan_encode(&again, &p);
        CHECK(slice_eq(buf_slice(&again), in));
        find_pieces(&p, &p.old_side);
        find_pieces(&p, &p.new_side);
    }
    mem_free(storage);
    buf_fini(&again);
}

static void op(struct slice in)
{
    struct holding_op o;
    struct buf again = {0};
    void *storage;
    if (holding_op_decode(in, &o, &storage) == 0) {
        holding_op_encode(&again, &o);
        CHECK(slice_eq(buf_slice(&again), in));
        CHECK(holding_bound_cmp(o.low, o.high) <= 0 && holding_bound_cmp(o.gone, o.high) <= 0);
    }
    mem_free(storage);
    buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    struct slice in = slice_of(data + 1, n - 1);
    if (data[0] == 0) plan(in);
    else op(in);
    return 0;
}
