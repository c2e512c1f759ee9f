#include "cluster/raftledger.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"

void raftledger_fini(struct raftledger *l)
{
    for (uint32_t i = 0; i < l->n_groups; i++) {
        mem_free(l->groups[i]->submits);
        mem_free(l->groups[i]);
    }
    mem_free(l->groups);
    mem_free(l->reads);
}

/* ---- groups */

static uint32_t place(const struct raftledger *l, uint32_t group)
{
    uint32_t low = 0, high = l->n_groups;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (l->groups[mid]->id < group) low = mid + 1;
        else high = mid;
    }
    return low;
}

struct raftledger_group *raftledger_find(const struct raftledger *l, uint32_t group)
{
    uint32_t i = place(l, group);
    return i < l->n_groups && l->groups[i]->id == group ? l->groups[i] : NULL;
}

void raftledger_add(struct raftledger *l, uint32_t group)
{
    uint32_t at = place(l, group);
    CHECK(!raftledger_find(l, group));
    if (l->n_groups == l->cap_groups) {
        l->cap_groups = l->cap_groups * 2 + 8;
        l->groups = mem_resize(l->groups, l->cap_groups * sizeof *l->groups);
    }
    memmove(l->groups + at + 1, l->groups + at, (l->n_groups++ - at) * sizeof *l->groups);
    l->groups[at] = mem_zalloc(sizeof **l->groups);
    l->groups[at]->id = group;
}

void raftledger_del(struct raftledger *l, uint32_t group)
{
    uint32_t at = place(l, group);
    struct raftledger_group *g = raftledger_find(l, group);
    CHECK(g);
    raftledger_void(l, g, 0);
    raftledger_changed(g, -EPERM);
    memmove(l->groups + at, l->groups + at + 1, (--l->n_groups - at) * sizeof *l->groups);
    mem_free(g->submits);
    mem_free(g);
}

/* ---- entries */

void raftledger_submitted(struct raftledger *l, struct raftledger_group *g, uint64_t index, uint64_t term, struct raftthread_answer answer)
{
    CHECK(g->first == g->n || g->submits[g->n - 1].index < index);
    if (g->first == g->n) g->first = g->n = 0;
    if (g->n == g->cap && g->first >= g->cap / 2 && g->first) {
        memmove(g->submits, g->submits + g->first, (g->n - g->first) * sizeof *g->submits);
        g->n -= g->first;
        g->first = 0;
    }
    if (g->n == g->cap) {
        g->cap = g->cap * 2 + 16;
        g->submits = mem_resize(g->submits, g->cap * sizeof *g->submits);
    }
    g->submits[g->n++] = (struct raftledger_submit){index, term, answer};
    l->waiting++;
}

static void settle(struct raftledger *l, const struct raftledger_submit *s, int rc)
{
    l->waiting--;
    l->uncertain += rc == -ECANCELED;
    raftledger_tell(&s->answer, rc, s->index);
}

void raftledger_committed(struct raftledger *l, struct raftledger_group *g, const struct raftnode_entry *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n && g->first < g->n; i++) {
        const struct raftledger_submit *s = &g->submits[g->first];
        CHECK(s->index >= entries[i].index); /* truncated() would have come before */
        if (s->index > entries[i].index) continue;
        g->first++;
        settle(l, s, s->term == entries[i].term ? 0 : -ECANCELED);
    }
}

void raftledger_void(struct raftledger *l, struct raftledger_group *g, uint64_t from)
{
    uint32_t keep = g->first, end = g->n;
    while (keep < end && g->submits[keep].index < from) keep++;
    for (uint32_t i = keep; i < end; i++) settle(l, &g->submits[i], -ECANCELED);
    g->n = keep;
}

/* ---- reads */

uint64_t raftledger_read(struct raftledger *l, struct raftthread_answer answer)
{
    if (!l->free_read) {
        uint32_t n = l->n_reads * 2 + 16;
        l->reads = mem_resize(l->reads, n * sizeof *l->reads);
        for (uint32_t i = l->n_reads; i < n; i++) l->reads[i] = (struct raftledger_read){.next_free = i + 1 < n ? i + 2 : 0};
        l->free_read = l->n_reads + 1;
        l->n_reads = n;
    }
    uint32_t at = l->free_read - 1;
    l->free_read = l->reads[at].next_free;
    l->reads[at] = (struct raftledger_read){.answer = answer, .open = true};
    return at;
}

void raftledger_read_ended(struct raftledger *l, uint64_t ticket, int rc, uint64_t index)
{
    CHECK(ticket < l->n_reads && l->reads[ticket].open);
    struct raftthread_answer answer = l->reads[ticket].answer;
    l->reads[ticket] = (struct raftledger_read){.next_free = l->free_read};
    l->free_read = (uint32_t)ticket + 1;
    raftledger_tell(&answer, rc, index);
}

/* ---- changes */

void raftledger_changing(struct raftledger_group *g, struct raftthread_answer answer)
{
    CHECK(!g->changing);
    g->changing = true;
    g->change = answer;
}

void raftledger_changed(struct raftledger_group *g, int rc)
{
    if (!g->changing) return;
    g->changing = false;
    raftledger_tell(&g->change, rc, 0);
}

void raftledger_end(struct raftledger *l, int rc)
{
    for (uint32_t i = 0; i < l->n_groups; i++) {
        raftledger_void(l, l->groups[i], 0);
        raftledger_changed(l->groups[i], rc);
    }
    for (uint32_t i = 0; i < l->n_reads; i++)
        if (l->reads[i].open) raftledger_read_ended(l, i, rc, 0);
}
