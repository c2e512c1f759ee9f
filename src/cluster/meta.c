/* The shared words of the state machines of groups 0 and 1. */
#include "cluster/meta.h"

#include <stdio.h>

static const char *const code_names[META_CODES] = {
    [META_DONE] = "done", [META_SAME] = "same", [META_STALE] = "stale", [META_UNKNOWN] = "unknown", [META_DUPLICATE] = "duplicate", [META_BUSY] = "busy",
    [META_EARLY] = "early", [META_INVALID] = "invalid", [META_LIMIT] = "limit", [META_OLD] = "old", [META_MALFORMED] = "malformed", [META_FOREIGN] = "foreign",
};

const char *meta_code_name(enum meta_code code)
{
    CHECK((unsigned)code < META_CODES);
    return code_names[code];
}

bool meta_refuse(struct meta_result *r, enum meta_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->code = code;
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
    return false;
}

bool meta_members_valid(const struct raftnode_members *m)
{
    uint32_t voters = 0;
    if (m->n == 0 || m->n > RAFTNODE_MEMBERS_MAX) return false;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->m[i].node == 0 || m->m[i].role < RAFTNODE_SPARE || m->m[i].role > RAFTNODE_VOTER) return false;
        voters += m->m[i].role == RAFTNODE_VOTER;
        for (uint32_t j = 0; j < i; j++)
            if (m->m[j].node == m->m[i].node) return false;
    }
    return voters > 0;
}

enum raftnode_role meta_members_role(const struct raftnode_members *m, uint64_t node)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->m[i].node == node) return m->m[i].role;
    return RAFTNODE_GONE;
}

bool meta_members_has(const struct raftnode_members *m, uint64_t node) { return meta_members_role(m, node) != RAFTNODE_GONE; }

bool meta_members_equal(const struct raftnode_members *a, const struct raftnode_members *b)
{
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (meta_members_role(b, a->m[i].node) != a->m[i].role) return false;
    return true;
}

bool meta_members_set(struct raftnode_members *m, uint64_t node, enum raftnode_role role)
{
    uint32_t at = 0;
    while (at < m->n && m->m[at].node < node) at++;
    bool there = at < m->n && m->m[at].node == node;
    if (role == RAFTNODE_GONE) {
        if (there) memmove(m->m + at, m->m + at + 1, (--m->n - at) * sizeof *m->m);
        return true;
    }
    if (!there) {
        if (m->n == RAFTNODE_MEMBERS_MAX) return false;
        memmove(m->m + at + 1, m->m + at, (m->n++ - at) * sizeof *m->m);
    }
    m->m[at] = (struct raftnode_member){node, role};
    return true;
}
