/* SCAN on a node: the groups one after the other, in the order of their numbers, each by its own command on whoever leads it. The cursor (command/cursor.h) says how far it is in which group.
 *
 * A group's position means nothing to its next leader, whose table has another order: the group begins again there. The pass is that of the map: if it is another one at the end of the last group, keys may have gone from group to group,
 * and another pass follows.
 *
 * A call goes on to the next group until COUNT keys were looked at. Where groups turn out to have few keys, more and more of them are asked side by side: a small keyspace takes few round trips however many groups there are. */
#include "base/mem.h"
#include "base/num.h"
#include "command/cursor.h"
#include "command/keyscan.h"
#include "server/wideall_own.h"

enum { ASKED_MOST = 16 };

struct widescan { /* a call of a client, under way */
    struct wideall base;
    uint64_t count, visited, found;
    struct buf keys;          /* found: as they will be sent */
    struct cursor at;         /* how far it is; its place need not be a group */
    bool advanced;            /* farther than when it began */
    uint64_t newest;          /* version of the map of the last group that answered */
    uint32_t asked[ASKED_MOST], n_asked;
};

static const struct space_map *map_of(const struct widescan *w) { return wideall_map(&w->base); }

static void free_scan(struct wideall *base)
{
    struct widescan *w = (struct widescan *)base;
    buf_fini(&w->keys);
    mem_free(w);
}

/* ---- asking */

/* The cursor is for the first group; the others are asked from their beginning. */
static void send(const struct widescan *w)
{
    const struct wideall *b = &w->base;
    struct txn_request requests[ASKED_MOST];
    struct slice *first = mem_dup(b->argv, b->argc * sizeof *first), *others = mem_dup(b->argv, b->argc * sizeof *others);
    char text[NUM_I64_MAX_CHARS];
    first[0] = others[0] = SLICE("group.scan");
    first[1] = slice_of(text, num_format_u64(text, w->at.in_table));
    others[1] = SLICE("0");
    for (uint32_t i = 0; i < w->n_asked; i++) requests[i] = (struct txn_request){w->asked[i], w->asked[i] == w->at.place ? first : others, b->argc};
    wideall_send(b, requests, w->n_asked);
    mem_free(first);
    mem_free(others);
}

/* Asks the next groups, twice as many as before. False: there are none. */
static bool ask(struct widescan *w)
{
    struct wide_groups groups;
    uint32_t most = w->n_asked ? 2 * w->n_asked : 1, group = w->at.place;
    wide_find_groups(map_of(w), &groups);
    for (w->n_asked = 0; w->n_asked < most && w->n_asked < ASKED_MOST; group++) {
        group = wide_next_group(&groups, group);
        if (group == META_GROUPS_MAX) break;
        w->asked[w->n_asked++] = group;
    }
    if (w->n_asked == 0) return false;
    send(w);
    return true;
}

/* ---- the answer */

/* Where the next call goes on; 0: the scan is over. */
static uint64_t next_cursor(const struct widescan *w)
{
    struct wide_groups groups;
    struct cursor next = w->at;
    uint32_t pass = cursor_pass(&cursor_of_cluster, map_of(w)->version);
    wide_find_groups(map_of(w), &groups);
    next.place = wide_next_group(&groups, w->at.place);
    if (next.place != w->at.place) next.in_table = 0;
    if (next.place == META_GROUPS_MAX) {
        if (pass == w->at.pass) return 0;
        next = (struct cursor){.pass = pass};
    }
    return cursor_make(&cursor_of_cluster, &next);
}

static void reply_found(const struct widescan *w, struct reply *out)
{
    char text[NUM_I64_MAX_CHARS];
    reply_array(out, 2);
    reply_bulk(out, slice_of(text, num_format_u64(text, next_cursor(w))));
    reply_array(out, w->found);
    buf_add_slice(out->out, buf_slice(&w->keys));
}

enum took { TOOK_ALL, TOOK_SOME /* the group has more */, TOOK_NOTHING /* it is an error, or nobody answered */, TOOK_TOO_NEW /* this node's map is older than the answer */, TOOK_NONSENSE };

/* What group.scan answers: its cursor, how many keys it looked at, and those found. One that is newer than the map here is not taken: the pass would not know that keys have gone from group to group. */
static enum took take(struct widescan *w, uint32_t group, const struct txn_answer *answer)
{
    int64_t cursor, visited, n;
    uint64_t version;
    struct slice reply = answer->reply;
    if (answer->fate != TXN_ANSWERED || (reply.n && reply.p[0] == '-')) return TOOK_NOTHING;
    if (!wide_take_version(&reply, 3, &version) || !wide_take_number(&reply, ':', &cursor)) return TOOK_NONSENSE;
    if (!wide_take_number(&reply, ':', &visited) || !wide_take_number(&reply, '*', &n) || !cursor_is_in_table(&cursor_of_cluster, (uint64_t)cursor)) return TOOK_NONSENSE;
    w->newest = version;
    if (version > map_of(w)->version) return TOOK_TOO_NEW;
    buf_add_slice(&w->keys, reply);
    w->visited += (uint64_t)visited;
    w->found += (uint64_t)n;
    w->at.place = cursor ? group : group + 1;
    w->at.in_table = (uint64_t)cursor;
    w->advanced = true;
    return cursor ? TOOK_SOME : TOOK_ALL;
}

/* The map here comes around within milliseconds. True: it did not in time. */
static bool go_on(struct wideall *base, struct reply *out)
{
    struct widescan *w = (struct widescan *)base;
    w->n_asked = 0;
    if (!wideall_is_late(base) && ask(w)) return false;
    reply_error(out, "TRYAGAIN keys are being carried between shards, and this node does not know where to");
    return true;
}

/* What groups behind one that has more, or that cannot be asked, have answered is left: they will be asked again. */
static bool settle(struct wideall *base, const struct txn_answer *answers, uint32_t n, struct reply *out)
{
    struct widescan *w = (struct widescan *)base;
    enum took took = TOOK_ALL;
    uint32_t i = 0;
    while (took == TOOK_ALL && i < n) took = take(w, w->asked[i], &answers[i]), i++;
    if (took == TOOK_NONSENSE) wide_reply_nonsense(out);
    else if (took == TOOK_NOTHING && !w->advanced) buf_add_slice(out->out, answers[i - 1].reply);
    else if (took == TOOK_TOO_NEW && !w->advanced) return wideall_go_on_by(base, w->newest, out);
    else if (took != TOOK_ALL || w->visited >= w->count || !ask(w)) reply_found(w, out);
    else return false;
    return true;
}

struct wideall *widescan_new(const struct wideall *base, struct exec *x)
{
    const struct space_map *m = wideall_map(base);
    struct cursor at;
    struct keyscan options;
    if (!cursor_parse(&cursor_of_cluster, x->argv[1], META_GROUPS_MAX, &at)) {
        reply_error(&x->out, "ERR invalid cursor");
        return NULL;
    }
    if (!keyscan_begin(x, 2, NULL, &options)) return NULL;
    if (!m) {
        wide_reply_no_map(&x->out);
        return NULL;
    }
    if (!at.pass) at.pass = cursor_pass(&cursor_of_cluster, m->version);
    struct widescan *w = mem_alloc(sizeof *w);
    *w = (struct widescan){.base = *base, .count = (uint64_t)options.count, .at = at};
    w->base.settle = settle;
    w->base.go_on = go_on;
    w->base.free = free_scan;
    if (ask(w)) return &w->base;
    reply_found(w, &x->out);
    free_scan(&w->base);
    return NULL;
}
