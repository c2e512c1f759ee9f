/* A Raft group's own commands over all of its keys: a node that is asked for all keys of a cluster sends them to every group (server/wide.h), and puts the answers together. Their arguments are those of the client's command.
 *
 * An answer is an array that begins with the version of the map that the leader's node has: keys that came to this group, or left it, are where that map says. Whoever asked with an older one may have met some of them twice, or never. */
#include "base/num.h"
#include "command/allkeys.h"
#include "command/command.h"
#include "command/cursor.h"
#include "command/families.h"
#include "command/keyscan.h"

static struct store *store_of(const struct exec *x) { return x->stores[x->shard]; }

/* Begins the answer; n elements follow. */
static void reply_version(struct exec *x, size_t n)
{
    reply_array(&x->out, n + 1);
    reply_int(&x->out, (int64_t)route_version(x->route));
}

static void group_dbsize(struct exec *x)
{
    reply_version(x, 1);
    reply_int(&x->out, (int64_t)store_keys(store_of(x), x->db));
}

static void group_keys(struct exec *x)
{
    reply_version(x, 1);
    size_t mark = reply_open(&x->out);
    reply_close_array(&x->out, mark, allkeys_list(x, x->argv[1], &x->out));
}

/* How many keys there are, and one of them: whoever asks chooses among the groups by their sizes. */
static void group_randomkey(struct exec *x)
{
    struct slice key;
    bool any = allkeys_random(x, &key);
    reply_version(x, 2);
    reply_int(&x->out, any ? (int64_t)store_keys(store_of(x), x->db) : 0);
    if (any) reply_bulk(&x->out, key);
    else reply_null(&x->out);
}

/* From a cursor of a group's table on: the next cursor, how many keys were looked at, and those that were found. */
static void group_scan(struct exec *x)
{
    struct keyscan s;
    struct buf found = {0};
    uint64_t cursor, order = keyscan_order(store_of(x), x->db);
    if (!num_parse_u64(x->argv[1], &cursor)) {
        reply_error(&x->out, "ERR invalid cursor");
        return;
    }
    if (!keyscan_begin(x, 2, &found, &s)) return;
    uint64_t position = keyscan_walk(x, &s, store_of(x), cursor_position(&cursor_of_cluster, cursor, order));
    reply_version(x, 3);
    reply_int(&x->out, (int64_t)cursor_in_table(&cursor_of_cluster, position, order));
    reply_int(&x->out, (int64_t)s.visited);
    reply_array(&x->out, s.n);
    buf_add_slice(x->out.out, buf_slice(&found));
    buf_fini(&found);
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
    reply_version(x, 0);
}

static void group_flushall(struct exec *x)
{
    if (!allkeys_flush_args(x)) return;
    for (uint16_t db = 0; db < STORE_DBS; db++) flush(x, db);
    reply_version(x, 0);
}

static void group_swapdb(struct exec *x)
{
    uint16_t a, b;
    if (!allkeys_swap_args(x, &a, &b)) return;
    if (a != b) apply(x, &(struct op){.kind = OP_SWAP, .db = a, .index = b});
    reply_version(x, 0);
}

/* ---- rows */

#define OF_GROUP .class = CLASS_KEYED, .group = "cluster", .since = "0.1.0"
#define READ (CMD_OF_GROUP | CMD_ALL_KEYS | CMD_READONLY)
#define WRITE (CMD_OF_GROUP | CMD_ALL_KEYS | CMD_WRITE)

static const struct command rows[] = {
    {.name = "group.dbsize", .fn = group_dbsize, .arity = 1, .flags = READ, OF_GROUP, .summary = "The number of keys in a group.", .args = ""},
    {.name = "group.keys", .fn = group_keys, .arity = 2, .flags = READ, OF_GROUP, .summary = "A group's keys that match a pattern.", .args = "pattern"},
    {.name = "group.randomkey", .fn = group_randomkey, .arity = 1, .flags = READ, OF_GROUP, .summary = "The number of keys in a group, and one of them.", .args = ""},
    {.name = "group.scan", .fn = group_scan, .arity = -2, .flags = READ, OF_GROUP, .summary = "Some of a group's keys.", .args = "cursor [MATCH pattern] [COUNT count] [TYPE type]"},
    {.name = "group.flushdb", .fn = group_flushdb, .arity = -1, .flags = WRITE, OF_GROUP, .summary = "Removes a group's keys from a database.", .args = "[ASYNC | SYNC]"},
    {.name = "group.flushall", .fn = group_flushall, .arity = -1, .flags = WRITE, OF_GROUP, .summary = "Removes a group's keys from all databases.", .args = "[ASYNC | SYNC]"},
    {.name = "group.swapdb", .fn = group_swapdb, .arity = 3, .flags = WRITE, OF_GROUP, .summary = "Swaps two databases of a group.", .args = "index1 index2"},
};

const struct command_family groups_family = COMMAND_FAMILY(rows);
