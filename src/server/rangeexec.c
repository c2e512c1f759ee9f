/* RANGE.EXEC: a command for clients that route for themselves. It runs only if every key of it lies in the range that the client thinks it does, at the generation that it knows; else nothing happens and the
 * answer has what is so now. It is looked at here, with the tokens of the keys held: between this and the command no key can move. */
#include "base/mem.h"
#include "base/num.h"
#include "route/keyspace.h"
#include "server/families.h"
#include "shard/engine.h"
#include "shard/topology.h"

enum { INNER = 3, KEYS_ON_STACK = 64 };

struct fence {
    uint64_t id, generation;
};

/* -MUSTRETRY reason, and the descriptor of the range that holds the key now; where keys are not in ranges, the mode of their space. */
static void must_retry(struct exec *x, const struct space_map *m, const char *reason, struct slice key)
{
    struct buf text = {0};
    spaces_text_place(&text, m, space_of(key), key);
    reply_errorf(&x->out, "MUSTRETRY %s %.*s", reason, (int)text.len, text.p);
    buf_fini(&text);
}

static bool key_is_there(struct exec *x, const struct space_map *m, const struct fence *f, struct slice key)
{
    struct space_place place;
    spaces_route(m, key, keyhash(key, x->route->seed), &place);
    if (place.id == f->id && place.generation == f->generation) return true;
    must_retry(x, m, place.id == f->id ? "stale-generation" : spaces_range_by_id(m, f->id, NULL) || spaces_hash_by_id(m, f->id) ? "key-elsewhere" : "no-such-range", key);
    return false;
}

static bool keys_are_there(struct exec *x, const struct command *inner, const struct fence *f)
{
    uint32_t on_stack[KEYS_ON_STACK], *at = on_stack, argc = x->argc - INNER;
    const struct slice *argv = x->argv + INNER;
    const struct space_map *m = topology_map(engine_worker_of(x)->engine->topology);
    int n = command_keys(inner, argv, argc, at, KEYS_ON_STACK);
    if (n > KEYS_ON_STACK) {
        at = mem_alloc((size_t)n * sizeof *at);
        n = command_keys(inner, argv, argc, at, n);
    }
    bool there = true; /* n < 1: the command touches nothing and answers its own error */
    for (int i = 0; i < n && there; i++) there = key_is_there(x, m, f, argv[at[i]]);
    if (at != on_stack) mem_free(at);
    return there;
}

static bool read_fence(struct exec *x, struct fence *f)
{
    int64_t id, generation;
    if (!num_parse_i64(x->argv[1], &id) || id < 1 || !num_parse_i64(x->argv[2], &generation) || generation < 1) {
        reply_error(&x->out, "ERR range-id and generation are positive integers, as RANGE.MAP shows them");
        return false;
    }
    *f = (struct fence){(uint64_t)id, (uint64_t)generation};
    return true;
}

/* As EXEC runs one: it does not wait. */
static void run(struct exec *x, const struct command *inner)
{
    struct exec self = *x;
    x->cmd = inner;
    x->argv += INNER;
    x->argc -= INNER;
    x->have_hash = false;
    x->n_key_hashes = 0;
    x->in_multi = true;
    inner->fn(x);
    x->cmd = self.cmd;
    x->sub = NULL;
    x->argv = self.argv;
    x->argc = self.argc;
    x->in_multi = self.in_multi;
}

static void range_exec(struct exec *x)
{
    struct fence f;
    const struct command_table *table = engine_worker_of(x)->engine->commands;
    const struct command *inner = command_inner(table, x->cmd, x->argv, x->argc);
    if (!read_fence(x, &f)) return;
    if (!command_find(table, x->argv[INNER])) reply_errorf(&x->out, "ERR unknown command '%.*s'", (int)(x->argv[INNER].n < 128 ? x->argv[INNER].n : 128), x->argv[INNER].p);
    else if (!inner) reply_error(&x->out, "ERR RANGE.EXEC runs commands that name their keys, with the right number of arguments");
    else if (keys_are_there(x, inner, &f)) run(x, inner);
}

static const struct command rows[] = {
    {.name = "range.exec", .fn = range_exec, .arity = -5, .class = CLASS_KEYED, .flags = CMD_WRITE | CMD_DENYOOM, .inner_at = INNER, .group = "range", .since = "7.2.0",
     .summary = "Runs a command if all its keys lie in a range that has this id and generation; else answers MUSTRETRY and the range as it is now.",
     .args = "range-id generation command key [arg ...]"},
};

const struct command_family rangeexec_family = COMMAND_FAMILY(rows);
