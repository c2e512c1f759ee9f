/* A Raft group's own commands over all of its keys: a node that is asked for all keys of a cluster sends them to every group (server/wide.h), and puts the answers together. Their arguments are those of the client's command. */
#include "command/allkeys.h"
#include "command/command.h"
#include "command/families.h"

static struct store *store_of(const struct exec *x) { return x->stores[x->shard]; }

static void group_dbsize(struct exec *x) { reply_int(&x->out, (int64_t)store_keys(store_of(x), x->db)); }

static void group_keys(struct exec *x)
{
    size_t mark = reply_open(&x->out);
    reply_close_array(&x->out, mark, allkeys_list(x, x->argv[1], &x->out));
}

/* How many keys there are, and one of them: whoever asks chooses among the groups by their sizes. */
static void group_randomkey(struct exec *x)
{
    struct slice key;
    bool any = allkeys_random(x, &key);
    reply_array(&x->out, 2);
    reply_int(&x->out, any ? (int64_t)store_keys(store_of(x), x->db) : 0);
    if (any) reply_bulk(&x->out, key);
    else reply_null(&x->out);
}

static void apply(struct exec *x, const struct op *op)
{
    store_apply(store_of(x), op, NULL);
    x->ops++;
}

static void flush(struct exec *x, uint16_t db)
{
    if (store_of(x)->dbs[db]) apply(x, &(struct op){.kind = OP_FLUSH, .db = db});
}

static void group_flushdb(struct exec *x)
{
    if (!allkeys_flush_args(x)) return;
    flush(x, x->db);
    reply_ok(&x->out);
}

static void group_flushall(struct exec *x)
{
    if (!allkeys_flush_args(x)) return;
    for (uint16_t db = 0; db < STORE_DBS; db++) flush(x, db);
    reply_ok(&x->out);
}

static void group_swapdb(struct exec *x)
{
    uint16_t a, b;
    if (!allkeys_swap_args(x, &a, &b)) return;
    if (a != b) apply(x, &(struct op){.kind = OP_SWAP, .db = a, .index = b});
    reply_ok(&x->out);
}

/* ---- rows */

#define OF_GROUP .class = CLASS_KEYED, .group = "cluster", .since = "0.1.0"
#define READ (CMD_OF_GROUP | CMD_ALL_KEYS | CMD_READONLY)
#define WRITE (CMD_OF_GROUP | CMD_ALL_KEYS | CMD_WRITE)

static const struct command rows[] = {
    {.name = "group.dbsize", .fn = group_dbsize, .arity = 1, .flags = READ, OF_GROUP, .summary = "The number of keys in a group.", .args = ""},
    {.name = "group.keys", .fn = group_keys, .arity = 2, .flags = READ, OF_GROUP, .summary = "A group's keys that match a pattern.", .args = "pattern"},
    {.name = "group.randomkey", .fn = group_randomkey, .arity = 1, .flags = READ, OF_GROUP, .summary = "The number of keys in a group, and one of them.", .args = ""},
    {.name = "group.flushdb", .fn = group_flushdb, .arity = -1, .flags = WRITE, OF_GROUP, .summary = "Removes a group's keys from a database.", .args = "[ASYNC | SYNC]"},
    {.name = "group.flushall", .fn = group_flushall, .arity = -1, .flags = WRITE, OF_GROUP, .summary = "Removes a group's keys from all databases.", .args = "[ASYNC | SYNC]"},
    {.name = "group.swapdb", .fn = group_swapdb, .arity = 3, .flags = WRITE, OF_GROUP, .summary = "Swaps two databases of a group.", .args = "index1 index2"},
};

const struct command_family groups_family = COMMAND_FAMILY(rows);
