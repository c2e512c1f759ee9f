/* SCAN on a node: the groups one after the other, in the order of their numbers, each by its own command on whoever leads it. The cursor (command/cursor.h) says how far it is in which group.
 *
 * A group's position means nothing to its next leader, whose table has another order: the group begins again there. The pass is that of the map: if it is another one at the end of the last group, keys may have gone from group to group,
 * and another pass follows.
 *
 * A call goes on to the next group until COUNT keys were looked at. Where groups turn out to have few keys, more and more of them are asked side by side: a small keyspace takes few round trips however many groups there are. */
#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "command/cursor.h"
#include "command/keyscan.h"
#include "server/front.h"
#include "server/relay.h"
#include "server/relay_call.h"
#include "server/wide_own.h"

enum { ASKED_MOST = 16 };

struct widescan { /* a call of a client, under way */
    struct conn *conn;
    const struct slice *argv; /* of the connection's batch, which stays until it is back */
    uint32_t argc;
    int64_t until_ms;         /* by worker.now_ms */
    uint64_t count, visited, found;
    struct buf keys;          /* found: as they will be sent */
    struct cursor at;         /* how far it is; its place need not be a group */
    bool advanced;            /* farther than when it began */
    uint32_t asked[ASKED_MOST], n_asked;
};

static const struct space_map *map_of(const struct widescan *w) { return route_map(&w->conn->front->worker.engine->route); }

static void free_scan(struct widescan *w)
{
    buf_fini(&w->keys);
    mem_free(w);
}

/* ---- asking */

/* The cursor is for the first group; the others are asked from their beginning. */
static void add_requests(const struct widescan *w, struct call *c)
{
    const struct command *cmd = command_find_any(w->conn->front->worker.engine->commands, SLICE("group.scan"));
    struct slice *argv = mem_dup(w->argv, w->argc * sizeof *argv);
    char text[NUM_I64_MAX_CHARS];
    for (uint32_t i = 0; i < w->n_asked; i++) {
        bool goes_on = w->asked[i] == w->at.place;
        argv[1] = slice_of(text, num_format_u64(text, goes_on ? w->at.in_table : 0));
        call_add(c, w->asked[i], cmd, argv, w->argc);
    }
    mem_free(argv);
}

static void answered(void *ctx, struct call *c);

/* Asks the next groups, twice as many as before. False: there are none. */
static bool ask(struct widescan *w)
{
    struct wide_groups groups;
    uint32_t most = w->n_asked ? 2 * w->n_asked : 1, group = w->at.place;
    int64_t left_ms = w->until_ms - w->conn->front->worker.now_ms;
    wide_find_groups(map_of(w), &groups);
    for (w->n_asked = 0; w->n_asked < most && w->n_asked < ASKED_MOST; group++) {
        group = wide_next_group(&groups, group);
        if (group == META_GROUPS_MAX) break;
        w->asked[w->n_asked++] = group;
    }
    if (w->n_asked == 0) return false;
    struct call *c = call_new(w->conn->front, w->conn->db, w->conn->resp, answered, w);
    add_requests(w, c);
    call_send(c, left_ms > 0 ? (uint32_t)left_ms : 0);
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
static enum took take(struct widescan *w, uint32_t group, enum call_fate fate, struct slice reply)
{
    int64_t cursor, visited, n;
    uint64_t version;
    if (fate != CALL_ANSWERED || (reply.n && reply.p[0] == '-')) return TOOK_NOTHING;
    if (!wide_take_version(&reply, 3, &version) || !wide_take_number(&reply, ':', &cursor)) return TOOK_NONSENSE;
    if (!wide_take_number(&reply, ':', &visited) || !wide_take_number(&reply, '*', &n) || !cursor_is_in_table(&cursor_of_cluster, (uint64_t)cursor)) return TOOK_NONSENSE;
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
static bool asks_again(struct widescan *w, struct reply *out)
{
    w->n_asked = 0;
    if (w->until_ms > w->conn->front->worker.now_ms && ask(w)) return false;
    reply_error(out, "TRYAGAIN keys are being carried between shards, and this node does not know where to");
    return true;
}

/* True: out has the client's answer. False: other groups are asked. What groups behind one that has more, or that cannot be asked, have answered is left: they will be asked again. */
static bool settle(struct widescan *w, const struct call *c, struct reply *out)
{
    enum took took = TOOK_ALL;
    struct slice reply = {0};
    for (uint32_t i = 0; took == TOOK_ALL && i < call_size(c); i++) {
        enum call_fate fate = call_fate(c, i, &reply);
        took = take(w, w->asked[i], fate, reply);
    }
    if (took == TOOK_NONSENSE) wide_reply_nonsense(out);
    else if (took == TOOK_NOTHING && !w->advanced) buf_add_slice(out->out, reply);
    else if (took == TOOK_TOO_NEW && !w->advanced) return asks_again(w, out);
    else if (took != TOOK_ALL || w->visited >= w->count || !ask(w)) reply_found(w, out);
    else return false;
    return true;
}

static void answered(void *ctx, struct call *c)
{
    struct widescan *w = ctx;
    struct buf answer = {0};
    struct reply out = {.out = &answer, .resp = w->conn->resp};
    if (settle(w, c, &out)) {
        wide_finish(w->conn, &answer);
        free_scan(w);
    }
    call_free(c);
}

void widescan_command(struct exec *x)
{
    struct conn *conn = conn_of(x);
    const struct space_map *m = route_map(x->route);
    struct cursor at;
    struct keyscan options;
    if (!cursor_parse(&cursor_of_cluster, x->argv[1], META_GROUPS_MAX, &at)) {
        reply_error(&x->out, "ERR invalid cursor");
        return;
    }
    if (!keyscan_begin(x, 2, NULL, &options)) return;
    if (!m) {
        wide_reply_no_map(&x->out);
        return;
    }
    if (!at.pass) at.pass = cursor_pass(&cursor_of_cluster, m->version);
    struct widescan *w = mem_alloc(sizeof *w);
    *w = (struct widescan){.conn = conn, .argv = x->argv, .argc = x->argc, .count = (uint64_t)options.count, .at = at};
    w->until_ms = conn->front->worker.now_ms + relay_timeout_ms(conn->front->server->relay);
    if (ask(w)) {
        conn->errand = true;
    } else {
        reply_found(w, &x->out);
        free_scan(w);
    }
}
