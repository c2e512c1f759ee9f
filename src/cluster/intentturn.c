#include "cluster/intentturn.h"

#include "base/check.h"

void intentturn_clear(struct intentturn *t)
{
    buf_fini(&t->key);
    buf_fini(&t->span_bytes);
    *t = (struct intentturn){0};
}

bool intentturn_lets_key(const struct intentturn *t, uint64_t now_ms, uint16_t db, struct slice key) { return now_ms >= t->span_until_ms || !intentspan_has(&t->span, db, key); }
bool intentturn_lets_span(const struct intentturn *t, uint64_t now_ms, const struct intentspan *s) { return now_ms >= t->key_until_ms || !intentspan_has(s, t->db, buf_slice(&t->key)); }

void intentturn_key_waits(struct intentturn *t, uint64_t now_ms, uint16_t db, struct slice key)
{
    if (!intentturn_lets_key(t, now_ms, db, key)) return; /* it is not its turn */
    t->key_until_ms = now_ms + INTENTTURN_MS;
    t->db = db;
    t->key.len = 0;
    buf_add_slice(&t->key, key);
}

void intentturn_span_waits(struct intentturn *t, uint64_t now_ms, const struct intentspan *s)
{
    if (!intentturn_lets_span(t, now_ms, s)) return;
    t->span_until_ms = now_ms + INTENTTURN_MS;
    t->span_bytes.len = 0;
    intentspan_add(&t->span_bytes, s);
    bool is_one = intentspan_read(buf_slice(&t->span_bytes), &t->span);
    CHECK(is_one);
    t->span.db = s->db;
}
