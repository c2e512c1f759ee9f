#include "server/admit.h"

#include "base/check.h"
#include "server/evictor.h"
#include "server/front.h"
#include "server/pause.h"
#include "server/snapreads.h"
#include "server/subscribe.h"
#include "server/transactions.h"

struct parse_limits admit_limits(const struct conn *c)
{
    const struct config *cfg = c->front->server->config;
    if (!c->authenticated) return (struct parse_limits){.args_max = 10, .bulk_bytes_max = 16384, .inline_bytes_max = 65536};
    return (struct parse_limits){.args_max = 1024 * 1024,
                                 .bulk_bytes_max = (uint32_t)CONFIG_NUM(cfg, proto_max_bulk_len),
                                 .inline_bytes_max = 65536};
}

static bool needs_memory(const struct conn *c, const struct command *cmd)
{
    return cmd->flags & CMD_DENYOOM && CONFIG_NUM(c->front->server->config, maxmemory) > 0;
}

/* The log takes no more: what would have to be logged is not done. */
static int write_error(const struct conn *c, const struct command *cmd)
{
    int error = atomic_load_explicit(&c->front->server->write_error, memory_order_relaxed);
    return unlikely(error) && cmd->flags & CMD_WRITE ? error : 0;
}

/* The loader has the shards: only what needs none of them can run. INFO, which looks at each, then tells what it knows without. */
static bool must_wait_for_loading(const struct conn *c, const struct request *r)
{
    if (likely(!atomic_load_explicit(&c->front->server->loading, memory_order_acquire))) return false;
    return !(r->cmd->flags & CMD_LOADING) || r->kind == REQUEST_ONE || (r->kind == REQUEST_MANY && r->n_shards > 0);
}

/* The common case: nothing to look at but the request itself. */
static inline bool plain(const struct conn *c, const struct request *r)
{
    return !r->flaw && c->authenticated && !c->in_multi && c->reply_mode == REPLY_ON && !c->subs &&
           r->cmd->class != CLASS_LOCAL && !needs_memory(c, r->cmd) && !write_error(c, r->cmd) &&
           likely(!c->front->server->snapserve) && likely(!pause_active(c->front->server)) && likely(!atomic_load_explicit(&c->front->server->loading, memory_order_relaxed));
}

static const struct slice *argv_of(const struct conn *c, const struct request *r) { return c->batch->task.args + r->first_arg; }

static void answer_unknown(struct conn *c, const struct request *r, struct reply *out)
{
    const struct slice *argv = argv_of(c, r);
    struct buf text = {0};
    buf_printf(&text, "ERR unknown command '%.*s', with args beginning with: ", (int)(argv[0].n < 128 ? argv[0].n : 128), argv[0].p);
    for (uint32_t i = 1; i < r->argc && text.len < 256; i++)
        buf_printf(&text, "'%.*s' ", (int)(argv[i].n < 128 ? argv[i].n : 128), argv[i].p);
    buf_add_byte(&text, '\0');
    reply_error(out, text.p);
    buf_fini(&text);
}

/* Counts a request that was answered without having run. */
static enum admit_result refused(struct conn *c, const struct request *r, size_t reply_at)
{
    struct worker *w = &c->front->worker;
    struct engine *e = w->engine;
    if (c->in_multi) c->multi.broken = true;
    if (r->cmd) STAT_ADD(w->commands[command_index(e->commands, r->cmd)].rejected, 1);
    if (e->hooks.error) e->hooks.error(e->hooks.ctx, w, slice_of(c->out.p + reply_at, c->out.len - reply_at));
    return ADMIT_ANSWERED;
}

static enum evictor_room make_room(struct conn *c, const struct request *r)
{
    bool asked = !r->flaw && c->authenticated && needs_memory(c, r->cmd) && !must_wait_for_loading(c, r);
    return asked ? evictor_make_room(&c->front->worker, c->front->server) : EVICTOR_ROOM;
}

/* Answers the reason why the request may not run, if there is one. */
static bool refuse(struct conn *c, const struct request *r, enum evictor_room room, struct reply *out)
{
    if (r->flaw == ADMIT_FLAW_UNKNOWN) answer_unknown(c, r, out);
    else if (r->flaw == ADMIT_FLAW_ARITY) reply_errorf(out, "ERR wrong number of arguments for '%s' command", r->cmd->name);
    else if (!c->authenticated && !(r->cmd->flags & CMD_NO_AUTH)) reply_error(out, "NOAUTH Authentication required.");
    else if (c->in_multi && r->cmd->flags & CMD_NO_MULTI) reply_error(out, "ERR Command not allowed inside a transaction");
    else if (must_wait_for_loading(c, r)) reply_error(out, "LOADING Sherd is loading the dataset in memory");
    else if (c->front->server->snapserve && snapreads_refuse(r->cmd, out)) return true;
    else if (room == EVICTOR_NO_ROOM)
        reply_error(out, "OOM command not allowed when used memory > 'maxmemory'.");
    else if (write_error(c, r->cmd))
        reply_errorf(out, "MISCONF Errors writing to the log: %s. Writes are refused, reads go on.", strerror(-write_error(c, r->cmd)));
    else if (c->subs && c->resp == 2 && !(r->cmd->flags & CMD_IN_SUBSCRIBE))
        reply_errorf(out,
                     "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                     r->cmd->name);
    else return false;
    return true;
}

enum admit_result admit_request(struct conn *c, struct request *r, bool first)
{
    if (likely(plain(c, r))) return ADMIT_RUN;
    if (!first) return ADMIT_ANSWERED;
    struct reply out = {.out = &c->out, .resp = c->resp};
    size_t reply_at = c->out.len;
    enum evictor_room room = make_room(c, r);
    if (room == EVICTOR_LATER) {
        front_starve(c->front, c);
        return ADMIT_WAIT;
    }
    if (refuse(c, r, room, &out)) return refused(c, r, reply_at);
    if (pause_holds(c, r->cmd)) {
        c->paused = true;
        return ADMIT_WAIT;
    }
    if (c->in_multi && !(r->cmd->flags & CMD_AT_ONCE)) {
        transactions_queue(c, r->cmd, argv_of(c, r), r->argc);
        reply_simple(&out, "QUEUED");
        return ADMIT_ANSWERED;
    }
    if (c->in_multi) transactions_route(c, r);
    if (r->kind == REQUEST_EACH && atomic_load(&c->front->server->loading)) r->kind = REQUEST_MANY; /* of no shard */
    return ADMIT_RUN_ALONE;
}
