/* Records of transactions in a store, as the group's own commands write them (cluster/txncmd.h). cmocka's header goes before it. */
#pragma once
#include "cluster/intentcode.h"
#include "cluster/intents.h"
#include "store/store.h"

/* An empty value: there is none any more. */
static inline void intentkit_put(struct store *s, struct slice space, struct slice id, struct slice value)
{
    struct buf key = {0};
    intentcode_key(&key, space, id);
    store_apply(s, &(struct op){.kind = value.n ? OP_SET : OP_DEL, .db = STORE_SYSTEM_DB, .key = buf_slice(&key), .value = value}, NULL);
    buf_fini(&key);
}

/* What the transaction has reserved becomes an intent that writes nothing: in the store and in the locks. */
static inline void intentkit_prepare(struct store *store, struct intents *n, struct slice id, uint32_t decider)
{
    struct buf all = {0}, record = {0};
    struct intents_key k;
    struct intentspan s;
    uint32_t held = 0;
    for (const void *at = NULL; intents_next_key(n, id, &at, &k); held++) intentcode_add_key(&all, &k);
    for (const void *at = NULL; intents_next_span(n, id, &at, &s); held++) intentcode_add_span(&all, &s);
    assert_true(held > 0);
    intentcode_begin(&record, decider, held);
    buf_add_slice(&record, buf_slice(&all));
    intentcode_end(&record, SLICE(""));
    intentkit_put(store, INTENTCODE_INTENTS, id, buf_slice(&record));
    intents_prepared(n, id, decider);
    buf_fini(&all);
    buf_fini(&record);
}
