#include "cluster/moverbound.h"

#include "cluster/txnask.h"
#include "resp/answer.h"

struct holding_bound moverbound_of(const struct moverbound *b) { return (struct holding_bound){b->at_end, buf_slice(&b->key)}; }

void moverbound_set(struct moverbound *b, struct holding_bound to)
{
    b->at_end = to.at_end;
    b->key.len = 0;
    buf_add_slice(&b->key, to.key);
}

int moverbound_cmp(const struct moverbound *a, const struct moverbound *b) { return holding_bound_cmp(moverbound_of(a), moverbound_of(b)); }
bool moverbound_is_beginning(const struct moverbound *b) { return !b->at_end && b->key.len == 0; }

void moverbound_say(struct txnask *a, const struct moverbound *b)
{
    struct buf text = {0};
    if (!b->at_end && b->key.len) {
        buf_add_byte(&text, '(');
        buf_add_slice(&text, buf_slice(&b->key));
    }
    txnask_word(a, b->at_end ? SLICE("+") : text.len ? buf_slice(&text) : SLICE("-"));
    buf_fini(&text);
}

static bool parse(struct slice text, struct holding_bound *b)
{
    *b = (struct holding_bound){.at_end = slice_eq(text, SLICE("+"))};
    if (b->at_end || slice_eq(text, SLICE("-"))) return true;
    if (text.n < 2 || text.p[0] != '(') return false;
    b->key = slice_of(text.p + 1, text.n - 1);
    return true;
}

bool moverbound_take(struct slice *answer, struct holding_bound *b)
{
    struct answer a;
    return answer_next(answer, &a) && a.type == '$' && parse(a.text, b);
}
