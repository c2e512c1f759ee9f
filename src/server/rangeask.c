#include "server/rangeask.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "server/front.h"
#include "server/relay_call.h"
#include "server/wide_own.h"

enum { ASK_MS = 2000 }; /* a client looks: it rather hears that a leader is away than waits for it */

struct rangeask {
    struct conn *conn;
    struct space_map *map; /* shares */
    const struct slice *argv; /* of the connection's batch, which stays until it is back */
    uint32_t argc;
    rangeask_answer *answer;
    struct call *call;
    uint32_t n;
    uint32_t groups[]; /* ascending */
};

static void finish(struct rangeask *a)
{
    struct buf text = {0};
    struct reply out = {.out = &text, .resp = a->conn->resp};
    a->answer(a, a->argv, a->argc, &out);
    wide_finish(a->conn, &text);
    spaces_unref(a->map);
    if (a->call) call_free(a->call);
    mem_free(a);
}

static void answered(void *ctx, struct call *c) { finish(ctx); }

void rangeask_send(struct exec *x, const struct space_map *m, const struct wide_groups *groups, const char *of_group, bool same, rangeask_answer *answer)
{
    struct conn *conn = conn_of(x);
    const struct command *cmd = command_find_any(engine_worker_of(x)->engine->commands, slice_str(of_group));
    uint32_t n = 0;
    for (uint32_t g = 0; (g = wide_next_group(groups, g)) < META_GROUPS_MAX; g++) n++;
    CHECK(n > 0); /* a cluster's map names groups */
    struct rangeask *a = mem_zalloc(sizeof *a + n * sizeof a->groups[0]);
    *a = (struct rangeask){.conn = conn, .map = spaces_ref((struct space_map *)m), .argv = x->argv, .argc = x->argc, .answer = answer};
    a->call = call_new(conn->front, 0, 2, answered, a);
    for (uint32_t g = 0; (g = wide_next_group(groups, g)) < META_GROUPS_MAX; g++) {
        a->groups[a->n++] = g;
        call_add(a->call, g, cmd, x->argv, same ? x->argc : 1);
    }
    conn->errand = true;
    call_send(a->call, ASK_MS);
}

const struct space_map *rangeask_map(const struct rangeask *a) { return a->map; }
struct node *rangeask_node(const struct rangeask *a) { return a->conn->front->server->node; }

bool rangeask_reply(const struct rangeask *a, uint32_t group, struct slice *reply)
{
    uint32_t i = 0;
    while (i < a->n && a->groups[i] != group) i++;
    CHECK(i < a->n);
    bool ok = call_fate(a->call, i, reply) == CALL_ANSWERED && reply->n && reply->p[0] != '-';
    if (ok) return true;
    const char *end = reply->n ? memchr(reply->p, '\r', reply->n) : NULL;
    *reply = end ? slice_of(reply->p + 1, (size_t)(end - reply->p) - 1) : SLICE("its answer makes no sense");
    return false;
}

/* ---- rows */

bool rangeask_has(const struct command *c) { return strcmp(c->name, "range.map") == 0 || strcmp(c->name, "range.explain") == 0; }

void rangeask_make_row(struct command *row)
{
    row->fn = strcmp(row->name, "range.map") == 0 ? rangemap_command : rangewhy_command;
    row->class = CLASS_LOCAL;
    row->flags |= CMD_NO_MULTI;
}
