/* Bytes: turn u64, proposers u32, and for each: node u64, turn u64, answers u8, and for each: sequence u64, id u64, code u8. */
#include "cluster/metaseen.h"

#include "base/mem.h"

void metaseen_fini(struct metaseen *s)
{
    mem_free(s->proposers);
    *s = (struct metaseen){0};
}

/* The place of a node, or where it would stand. */
static uint32_t place_of(const struct metaseen *s, uint64_t node)
{
    uint32_t low = 0, high = s->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (s->proposers[mid].node < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct metaseen_proposer *find(const struct metaseen *s, uint64_t node)
{
    uint32_t at = place_of(s, node);
    return at < s->n && s->proposers[at].node == node ? &s->proposers[at] : NULL;
}

bool metaseen_new(const struct metaseen *s, uint64_t proposer, uint64_t sequence, struct meta_result *r)
{
    const struct metaseen_proposer *p = proposer ? find(s, proposer) : NULL;
    if (!p) return true;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct metaseen_answer *a = &p->answers[i];
        if (a->sequence != sequence) continue;
        r->repeat = true;
        r->id = a->id;
        if (a->code == META_DONE) return r->code = META_DONE, false;
        return meta_refuse(r, a->code, "it was proposed before and refused then");
    }
    if (p->n < METASEEN_WINDOW || sequence > p->answers[0].sequence) return true;
    return meta_refuse(r, META_OLD, "the proposal is older than the last %d of its node, whose answers are remembered", METASEEN_WINDOW);
}

static void forget_most_silent(struct metaseen *s)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < s->n; i++)
        if (s->proposers[i].turn < s->proposers[oldest].turn) oldest = i;
    memmove(s->proposers + oldest, s->proposers + oldest + 1, (--s->n - oldest) * sizeof *s->proposers);
}

static struct metaseen_proposer *find_or_add(struct metaseen *s, uint64_t node)
{
    struct metaseen_proposer *p = find(s, node);
    if (p) return p;
    if (s->n == METASEEN_PROPOSERS) forget_most_silent(s);
    s->proposers = mem_resize(s->proposers, (s->n + 1) * sizeof *s->proposers);
    uint32_t at = place_of(s, node);
    memmove(s->proposers + at + 1, s->proposers + at, (s->n++ - at) * sizeof *s->proposers);
    p = &s->proposers[at];
    *p = (struct metaseen_proposer){.node = node};
    return p;
}

void metaseen_note(struct metaseen *s, uint64_t proposer, uint64_t sequence, const struct meta_result *r)
{
    if (proposer == 0) return;
    struct metaseen_proposer *p = find_or_add(s, proposer);
    p->turn = ++s->turn;
    if (p->n == METASEEN_WINDOW) memmove(p->answers, p->answers + 1, --p->n * sizeof *p->answers);
    uint32_t at = p->n;
    while (at > 0 && p->answers[at - 1].sequence > sequence) at--;
    memmove(p->answers + at + 1, p->answers + at, (p->n++ - at) * sizeof *p->answers);
    p->answers[at] = (struct metaseen_answer){sequence, r->id, r->code};
}

void metaseen_encode(const struct metaseen *s, struct buf *out)
{
    le_add_u64(out, s->turn);
    le_add_u32(out, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct metaseen_proposer *p = &s->proposers[i];
        le_add_u64(out, p->node);
        le_add_u64(out, p->turn);
        wirefield_add_u8(out, (uint8_t)p->n);
        for (uint32_t j = 0; j < p->n; j++) {
            le_add_u64(out, p->answers[j].sequence);
            le_add_u64(out, p->answers[j].id);
            wirefield_add_u8(out, (uint8_t)p->answers[j].code);
        }
    }
}

static void decode_proposer(const struct metaseen *s, struct metaseen_proposer *p, uint64_t behind, struct wirefield *in)
{
    *p = (struct metaseen_proposer){.node = wirefield_u64(in), .turn = wirefield_u64(in)};
    p->n = wirefield_choice(in, METASEEN_WINDOW + 1);
    wirefield_expect(in, p->node > behind && p->turn && p->turn <= s->turn && p->n);
    for (uint32_t j = 0; j < p->n; j++) {
        struct metaseen_answer *a = &p->answers[j];
        a->sequence = wirefield_u64(in);
        a->id = wirefield_u64(in);
        a->code = (enum meta_code)wirefield_choice(in, META_CODES);
        wirefield_expect(in, j == 0 || a->sequence > p->answers[j - 1].sequence);
    }
}

void metaseen_decode(struct metaseen *s, struct wirefield *in)
{
    s->turn = wirefield_u64(in);
    uint32_t n = wirefield_u32(in);
    wirefield_expect(in, n <= METASEEN_PROPOSERS);
    if (in->bad) return;
    s->proposers = mem_zalloc((n + 1) * sizeof *s->proposers);
    for (; s->n < n && !in->bad; s->n++) decode_proposer(s, &s->proposers[s->n], s->n ? s->proposers[s->n - 1].node : 0, in);
}

void metaseen_check(const struct metaseen *s)
{
    CHECK(s->n <= METASEEN_PROPOSERS);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct metaseen_proposer *p = &s->proposers[i];
        CHECK(p->node && p->n && p->n <= METASEEN_WINDOW && p->turn <= s->turn);
        CHECK(i == 0 || s->proposers[i - 1].node < p->node);
        for (uint32_t j = 1; j < p->n; j++) CHECK(p->answers[j - 1].sequence < p->answers[j].sequence);
    }
}
