#include "server/pause.h"

#include "server/front.h"

bool pause_active(const struct server *s) { return atomic_load_explicit(&s->pause_until_ms, memory_order_relaxed) != 0; }

static bool changes_something(const struct command *cmd)
{
    return cmd->flags & CMD_WRITE || strcmp(cmd->name, "publish") == 0 || strcmp(cmd->name, "spublish") == 0;
}

static bool writes(const struct conn *c, const struct command *cmd)
{
    if (changes_something(cmd)) return true;
    if (!c->in_multi || strcmp(cmd->name, "exec") != 0) return false;
    for (uint32_t i = 0; i < c->multi.n; i++)
        if (changes_something(c->multi.commands[i].cmd)) return true;
    return false;
}

bool pause_holds(const struct conn *c, const struct command *cmd)
{
    struct server *s = c->front->server;
    if (!pause_active(s) || strcmp(cmd->name, "client") == 0) return false;
    if (c->in_multi && !(cmd->flags & CMD_AT_ONCE)) return false; /* queueing is not running */
    return c->front->worker.mono_ms < atomic_load(&s->pause_all_until_ms) || writes(c, cmd);
}

static void extend(_Atomic int64_t *until, int64_t until_ms)
{
    int64_t old = atomic_load(until);
    while (until_ms > old && !atomic_compare_exchange_weak(until, &old, until_ms)) {
    }
}

void pause_start(struct server *s, int64_t until_ms, bool writes_only)
{
    if (!writes_only) extend(&s->pause_all_until_ms, until_ms);
    extend(&s->pause_until_ms, until_ms);
}

void pause_end(struct server *s)
{
    atomic_store(&s->pause_until_ms, 0);
    atomic_store(&s->pause_all_until_ms, 0);
}
