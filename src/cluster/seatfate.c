#include "cluster/seatfate.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

void seatfate_fini(struct seatfate *f) { mem_free(f->open); }

void seatfate_add(struct seatfate *f, const struct seatfate_entry *e)
{
    CHECK(f->n == 0 || (f->open[f->first + f->n - 1].index < e->index && f->open[f->first + f->n - 1].sequence <= e->sequence));
    if (f->first + f->n == f->cap) {
        if (f->first > f->n) {
            memmove(f->open, f->open + f->first, f->n * sizeof *f->open);
            f->first = 0;
        } else {
            f->cap = f->cap ? f->cap * 2 : 64;
            f->open = mem_resize(f->open, f->cap * sizeof *f->open);
        }
    }
    struct seatfate_entry *to = &f->open[f->first + f->n++];
    *to = *e;
    to->in_store = true;
    f->open_bytes += e->bytes;
}

static struct seatfate_entry pop(struct seatfate *f)
{
    struct seatfate_entry e = f->open[f->first];
    f->open_bytes -= e.bytes;
    f->first = --f->n ? f->first + 1 : 0;
    return e;
}

static void add_span(struct seatfate *f, uint64_t from, uint64_t to, enum seatfate_kind kind)
{
    struct seatfate_span *s = &f->spans[f->n_spans++ % SEATFATE_SPANS];
    if (s->to > f->forgotten) f->forgotten = s->to;
    *s = (struct seatfate_span){from, to, kind};
    if (to > f->done) f->done = to;
}

void seatfate_lose(struct seatfate *f, uint64_t from, uint64_t to)
{
    add_span(f, from, to, SEATFATE_LOST);
}

bool seatfate_committed(struct seatfate *f, uint64_t index, uint64_t term, struct seatfate_entry *own)
{
    if (f->n == 0 || f->open[f->first].index != index) return false;
    if (f->open[f->first].term == term) {
        *own = pop(f);
        if (own->last_piece && own->sequence > f->done) f->done = own->sequence;
        return true;
    }
    uint64_t from = f->open[f->first].sequence, to = from;
    while (f->n) to = pop(f).sequence;
    add_span(f, from, to, SEATFATE_LOST);
    return false;
}

void seatfate_passed(struct seatfate *f, uint64_t index)
{
    if (f->n == 0 || f->open[f->first].index > index) return;
    uint64_t from = f->open[f->first].sequence, to = from;
    while (f->n && f->open[f->first].index <= index) to = pop(f).sequence;
    add_span(f, from, to, SEATFATE_UNKNOWN);
}

void seatfate_not_in_store(struct seatfate *f)
{
    for (uint32_t i = 0; i < f->n; i++) f->open[f->first + i].in_store = false;
}

enum seatfate_kind seatfate_of(const struct seatfate *f, uint64_t sequence)
{
    uint32_t spans = f->n_spans < SEATFATE_SPANS ? f->n_spans : SEATFATE_SPANS;
    for (uint32_t i = 0; i < spans; i++)
        if (sequence >= f->spans[i].from && sequence <= f->spans[i].to) return f->spans[i].kind;
    if (f->n && sequence >= f->open[f->first].sequence && sequence <= f->open[f->first + f->n - 1].sequence) return SEATFATE_OPEN;
    if (sequence <= f->forgotten) return SEATFATE_UNKNOWN;
    return sequence <= f->done ? SEATFATE_DONE : SEATFATE_OPEN;
}
