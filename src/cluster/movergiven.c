#include "cluster/movergiven.h"

#include "base/check.h"
#include "base/mem.h"
#include "resp/answer.h"

/* ---- an answer */

/* So many bulk replies. */
static bool take_bulks(struct slice *in, uint32_t *n, struct slice *bulks)
{
    struct slice one;
    if (!answer_array(in, n)) return false;
    *bulks = *in;
    for (uint32_t i = 0; i < *n; i++)
        if (!answer_whole(in, &one) || one.p[0] != '$') return false;
    bulks->n -= in->n;
    return true;
}

static bool take_part(struct slice *in, struct movergiven_part *p)
{
    struct answer a;
    uint32_t n;
    if (!answer_array(in, &n) || n != 4 || !answer_next(in, &a) || a.type != ':' || a.n < 0 || a.n > UINT32_MAX) return false;
    p->group = (uint32_t)a.n;
    if (!take_bulks(in, &p->n, &p->entries) || !take_bulks(in, &p->n_large, &p->larges) || !answer_next(in, &a) || a.type != '$') return false;
    p->locks = a.text;
    return true;
}

bool movergiven_is_good(struct slice answer)
{
    struct movergiven_part p;
    uint32_t n;
    bool good = answer_array(&answer, &n);
    while (good && n--) good = take_part(&answer, &p);
    return good && answer.n == 0;
}

void movergiven_each(struct slice answer, void (*visit)(void *ctx, const struct movergiven_part *p), void *ctx)
{
    struct movergiven_part p;
    uint32_t n = 0;
    answer_array(&answer, &n);
    while (n-- && take_part(&answer, &p)) visit(ctx, &p);
}

bool movergiven_find(struct slice answer, uint32_t group, struct movergiven_part *p)
{
    uint32_t n = 0;
    answer_array(&answer, &n);
    while (n-- && take_part(&answer, p))
        if (p->group == group) return true;
    return false;
}

/* ---- large values */

void movergiven_clear(struct movergiven_larges *l)
{
    for (uint32_t i = 0; i < l->n; i++) buf_fini(&l->all[i].bytes);
    l->n = l->at = 0;
    l->from.len = l->next.len = l->piece.len = 0;
}

void movergiven_fini(struct movergiven_larges *l)
{
    movergiven_clear(l);
    mem_free(l->all);
    buf_fini(&l->from);
    buf_fini(&l->next);
    buf_fini(&l->piece);
}

static struct movergiven_large *append(struct movergiven_larges *l)
{
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 4;
        l->all = mem_resize(l->all, l->cap * sizeof *l->all);
    }
    return &l->all[l->n++];
}

void movergiven_add(struct movergiven_larges *l, uint32_t source, const struct movergiven_part *p)
{
    struct slice in = p->larges;
    struct answer a;
    for (uint32_t i = 0; i < p->n_large && answer_next(&in, &a); i++) {
        struct movergiven_large *to = append(l);
        *to = (struct movergiven_large){.source = source, .target = p->group};
        buf_add_slice(&to->bytes, a.text);
    }
}

const struct movergiven_large *movergiven_now(const struct movergiven_larges *l) { return l->at < l->n ? &l->all[l->at] : NULL; }

bool movergiven_take_piece(struct movergiven_larges *l, struct slice answer)
{
    struct answer next, piece;
    uint32_t n;
    CHECK(l->at < l->n);
    l->next.len = l->piece.len = 0;
    struct slice in = answer;
    if (answer_next(&in, &next) && next.type == '_') {
        l->all[l->at].gone = true;
        return true;
    }
    in = answer;
    if (!answer_array(&in, &n) || n != 2 || !answer_next(&in, &next) || next.type != '$' || !answer_next(&in, &piece) || piece.type != '$' || piece.text.n == 0) return false;
    buf_add_slice(&l->next, next.text);
    buf_add_slice(&l->piece, piece.text);
    return true;
}

bool movergiven_has_piece(const struct movergiven_larges *l) { return l->piece.len > 0; }

void movergiven_go_on(struct movergiven_larges *l)
{
    l->from.len = l->piece.len = 0;
    buf_add_slice(&l->from, buf_slice(&l->next));
    l->next.len = 0;
    if (l->from.len == 0) l->at++;
}
