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
    if (atomic_load(&s->pause_writes_only)) return writes(c, cmd);
    return true;
}

void pause_start(struct server *s, int64_t until_ms, bool writes_only)
{
    bool all_held = pause_active(s) && !atomic_load(&s->pause_writes_only);
    atomic_store(&s->pause_writes_only, writes_only && !all_held);
    if (until_ms > atomic_load(&s->pause_until_ms)) atomic_store(&s->pause_until_ms, until_ms);
}

void pause_end(struct server *s) { atomic_store(&s->pause_until_ms, 0); }
