/* Commands on ranges that lie in several groups, on the node that a client has sent one to: server/rangetxn.h does them, as it does for a front.
 *
 * A coordinator dies with its node, as those of nodesim_txn.c do. */
#include <stdio.h>

#include "base/mem.h"
#include "cluster/txncmd.h"
#include "nodesim_own.h"
#include "resp/answer.h"
#include "server/rangetxn.h"

enum { RANGE_MS = 3000 /* the time of a transaction */ };

struct nodesim_wide {
    struct nodesim_wide *next;
    struct nodesim_node *node;
    uint64_t id;
    uint32_t client, attempt;
    const struct command *cmd;
    uint32_t argc;
    char words[NODESIM_WORDS][NODESIM_WORD_BYTES];
    struct rangetxn *range;
    bool over;
};

static int64_t now_ms(const struct nodesim_node *n) { return (int64_t)(world_now(n->sim->w) / WORLD_MS); }
static struct txn *txn_of(const struct nodesim_wide *w) { return rangetxn_txn(w->range); }

static void free_wide(struct nodesim_wide *w)
{
    struct nodesim_wide **at = &w->node->wide;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    rangetxn_free(w->range);
    mem_free(w);
}

/* Something has happened to it. */
static void go_on(struct nodesim_wide *w)
{
    struct nodesim_node *n = w->node;
    if (w->over) {
        free_wide(w);
        return;
    }
    int64_t wakes = txn_wakes_ms(txn_of(w)), now = now_ms(n);
    if (wakes != INT64_MAX) world_after(n->sim->w, n->id, (uint64_t)(wakes > now ? wakes - now : 0) * WORLD_MS + 1, NODESIM_WIDE_WAKE, w->id);
}

/* ---- the host of server/rangetxn.h */

static void answered(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n)
{
    struct nodesim_wide *w = ctx;
    txn_answered(txn_of(w), now_ms(w->node), answers, n);
    go_on(w);
}

static void send(void *ctx, struct txn *t, const struct txn_request *requests, uint32_t n, uint32_t timeout_ms)
{
    const struct nodesim_call call = {.done = answered, .ctx = ctx};
    nodesim_leg_send(((struct nodesim_wide *)ctx)->node, &call, requests, n, timeout_ms);
}

static void count(const struct nodesim *s, const struct command *cmd)
{
    struct nodesim_result *r = s->result;
    r->wide_unset += !nodesim_topology_is_set(s);
    if (cmd->flags & CMD_OF_LOCKS) r->wide_locks++;
    else if (cmd->flags & CMD_WRITE) r->wide_deletions++;
    else r->wide_ranges++;
}

static void settled(void *ctx, enum txn_outcome o, struct buf *answer)
{
    static const enum nodesim_status statuses[] = {[TXN_DONE] = NODESIM_DONE, [TXN_NOBODY] = NODESIM_BOUNCED, [TXN_BUSY] = NODESIM_DONE, [TXN_REFUSED] = NODESIM_DONE, [TXN_UNCERTAIN] = NODESIM_UNCERTAIN};
    const struct nodesim_wide *w = ctx;
    struct nodesim *s = w->node->sim;
    world_trace(s->w, w->node->id, "range-%llu (%s of client %u) ends with %d, attempt %u", (unsigned long long)w->id, w->cmd->name, w->client, (int)o, txn_attempts(txn_of(w)));
    if (o == TXN_STOPPED) world_fail(s->w, "what groups told of a range makes no sense");
    else nodesim_client_tell(s, w->client, w->attempt, statuses[o], buf_slice(answer));
    if (o == TXN_DONE) count(s, w->cmd);
    buf_fini(answer);
}

static void over(void *ctx) { ((struct nodesim_wide *)ctx)->over = true; }

/* ---- */

static struct nodesim_wide *new_wide(struct nodesim_node *n, const struct nodesim_guest *g, const struct nodesim_run *r)
{
    struct nodesim_wide *w = mem_zalloc(sizeof *w);
    *w = (struct nodesim_wide){.next = n->wide, .node = n, .id = ++n->sim->wides, .client = g->client, .attempt = g->attempt, .cmd = command_find(n->sim->commands, r->argv[0]), .argc = r->argc};
    for (uint32_t i = 0; i < r->argc; i++) snprintf(w->words[i], sizeof w->words[i], "%.*s", (int)r->argv[i].n, r->argv[i].p);
    n->wide = w;
    return w;
}

void nodesim_wide_begin(struct nodesim_node *n, const struct nodesim_guest *g, const struct nodesim_run *r)
{
    struct nodesim_wide *w = new_wide(n, g, r);
    const struct rangetxn_host host = {w, send, settled, over, NOTIFY_GENERIC};
    struct slice argv[NODESIM_WORDS];
    struct buf error = {0};
    struct exec x = {.cmd = w->cmd, .argv = argv, .argc = w->argc, .out = {.out = &error, .resp = 2}};
    char name[32];
    for (uint32_t i = 0; i < w->argc; i++) argv[i] = slice_str(w->words[i]);
    snprintf(name, sizeof name, "range-%llu", (unsigned long long)w->id);
    w->range = rangetxn_new(&host, n->engine, 0, slice_str(name), &x);
    if (w->range) {
        world_trace(n->sim->w, n->id, "range-%llu begins", (unsigned long long)w->id);
        txn_start(txn_of(w), now_ms(n), RANGE_MS);
        go_on(w);
    } else {
        nodesim_client_tell(n->sim, g->client, g->attempt, NODESIM_DONE, buf_slice(&error));
        n->wide = w->next;
        mem_free(w);
    }
    buf_fini(&error);
}

void nodesim_wide_wake(struct nodesim_node *n, uint64_t id)
{
    struct nodesim_wide *w = n->wide;
    while (w && w->id != id) w = w->next;
    if (!w) return;
    txn_wake(txn_of(w), now_ms(n));
    go_on(w);
}

void nodesim_wide_close(struct nodesim_node *n)
{
    while (n->wide) free_wide(n->wide);
}

/* ---- planted bugs: some of what groups tell is not heard */

/* An answer of server/spancmd.h, without the keys or locks that it tells of. */
static void add_without(struct buf *out, struct slice reply, bool of_locks)
{
    struct slice in = reply;
    struct answer token, number;
    uint32_t n;
    bool good = answer_array(&in, &n) && answer_next(&in, &token);
    if (of_locks) good = good && answer_array(&in, &n) && answer_next(&in, &number) && answer_next(&in, &number);
    if (!good) return;
    buf_add_slice(out, slice_of(reply.p, reply.n - in.n));
    buf_add_str(out, "*0\r\n");
}

/* An answer of command/groups.c, from a leader that has had no map yet. */
static void add_older(struct buf *out, struct slice reply)
{
    struct slice in = reply;
    struct answer version;
    uint32_t n;
    if (!answer_array(&in, &n) || !answer_next(&in, &version)) return;
    buf_printf(out, "*%u\r\n:0\r\n", n);
    buf_add_slice(out, in);
}

void nodesim_wide_spoil(const struct nodesim *s, uint32_t group, struct slice command, struct slice reply, struct buf *out)
{
    static const char prefix[] = "group.";
    bool of_locks = s->mutant == NODESIM_HALF_LOCK && slice_is(command, "span.locks");
    if (s->mutant == NODESIM_OLD_LIST && command.n > sizeof prefix && memcmp(command.p, prefix, sizeof prefix - 1) == 0) add_older(out, reply);
    if (group % 2 && (of_locks || (s->mutant == NODESIM_HALF_DELETION && slice_is(command, "span.keys")))) add_without(out, reply, of_locks);
    if (!out->len) buf_add_slice(out, reply);
}
