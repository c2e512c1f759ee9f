/* Any bytes as a record of a transaction. The first byte says as what: 0 an intent, else a decision. What is read is written as the same bytes again. */
#include <stdint.h>

#include "base/check.h"
#include "cluster/intentcode.h"
#include "cluster/intentevent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void add_events(struct buf *record, struct slice events)
{
    struct intentevent e;
    struct buf again = {0};
    while (intentevent_next(&events, &e)) intentevent_add(&again, &e);
    intentcode_add_events(record, buf_slice(&again));
    buf_fini(&again);
}

static void intent(struct slice in)
{
    struct intentcode r;
    struct intents_key k;
    struct intentspan s;
    struct buf again = {0};
    if (intentcode_read(in, &r)) {
        uint32_t n = 0;
        intentcode_begin(&again, r.decider, r.n);
        for (; intentcode_next_key(&r.keys, &k); n++) intentcode_add_key(&again, &k);
        for (; intentcode_next_span(&r.spans, &s); n++) intentcode_add_span(&again, &s);
        if (r.events.n) add_events(&again, r.events);
        intentcode_end(&again, r.ops);
        CHECK(n == r.n && slice_eq(buf_slice(&again), in));
    }
    buf_fini(&again);
}

static void decision(struct slice in)
{
    struct buf again = {0};
    uint32_t n, groups[64];
    if (intentcode_read_decision(in, &n) && n <= sizeof groups / sizeof groups[0]) {
        for (uint32_t i = 0; i < n; i++) groups[i] = intentcode_group(in, i);
        intentcode_add_decision(&again, groups, n);
        CHECK(slice_eq(buf_slice(&again), in));
    }
    buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    struct slice in = slice_of(data + 1, n - 1);
    if (data[0] == 0) intent(in);
    else decision(in);
    return 0;
}
