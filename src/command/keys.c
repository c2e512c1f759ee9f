/* Keys of any type: deleting, finding, naming, moving them, and whole databases. */
#include "base/num.h"
#include "command/allkeys.h"
#include "command/command.h"
#include "command/cursor.h"
#include "command/families.h"
#include "command/keyscan.h"
#include "command/objects.h"
#include "store/image.h"

static const char same_object[] = "ERR source and destination objects are the same";

/* ---- one key or several */

static void delete_keys(struct exec *x)
{
    int64_t n = 0;
    for (uint32_t i = 1; i < x->argc; i++) {
        struct place at;
        exec_peek(x, x->argv[i], &at);
        if (!at.e) continue;
        exec_del(x, &at);
        exec_notify(x, NOTIFY_GENERIC, "del", at.key);
        n++;
    }
    reply_int(&x->out, n);
}

static void cmd_exists(struct exec *x)
{
    int64_t n = 0;
    for (uint32_t i = 1; i < x->argc; i++) {
        struct place at;
        exec_peek(x, x->argv[i], &at);
        n += at.e != NULL;
    }
    reply_int(&x->out, n);
}

static void cmd_touch(struct exec *x)
{
    int64_t n = 0;
    x->no_touch = false; /* this is what it is for */
    for (uint32_t i = 1; i < x->argc; i++) {
        struct place at;
        exec_find(x, x->argv[i], &at);
        n += at.e != NULL;
    }
    reply_int(&x->out, n);
}

static void cmd_type(struct exec *x)
{
    struct place at;
    exec_peek(x, x->argv[1], &at);
    reply_simple(&x->out, at.e ? objects_type_name(entry_type(at.e)) : "none");
}

/* ---- all keys */

static bool is_last_shard(const struct exec *x) { return x->shard + 1u == x->route->shards; }

static void cmd_keys(struct exec *x)
{
    struct reply found = {x->carry, x->out.resp};
    x->carry_n += (int64_t)allkeys_list(x, x->argv[1], &found);
    if (!is_last_shard(x)) return;
    reply_array(&x->out, (size_t)x->carry_n);
    buf_add_slice(x->out.out, buf_slice(x->carry));
}

static void cmd_dbsize(struct exec *x)
{
    x->carry_n += (int64_t)store_keys(x->stores[x->shard], x->db);
    if (is_last_shard(x)) reply_int(&x->out, x->carry_n);
}

/* Every shard's candidate replaces the one before with the probability (keys here) / (keys so far): each key of the whole database is
 * equally likely in the end. */
static void cmd_randomkey(struct exec *x)
{
    uint64_t n = store_keys(x->stores[x->shard], x->db);
    struct slice key;
    x->carry_n += (int64_t)n;
    if (n > 0 && rng_below(x->rng, (uint64_t)x->carry_n) < n && allkeys_random(x, &key)) {
        struct reply r = {x->carry, x->out.resp};
        x->carry->len = 0;
        reply_bulk(&r, key);
    }
    if (!is_last_shard(x)) return;
    if (x->carry->len)
        buf_add_slice(x->out.out, buf_slice(x->carry));
    else
        reply_null(&x->out);
}

/* ---- SCAN */

/* What goes from shard to shard with a call, in x->carry: this, and the keys found behind it. */
struct scan_state {
    uint64_t n, visited;
    uint32_t pass;
};

static void answer_scan(struct exec *x, uint64_t cursor, const struct keyscan *s)
{
    char text[NUM_I64_MAX_CHARS];
    size_t head = sizeof(struct scan_state);
    reply_array(&x->out, 2);
    reply_bulk(&x->out, slice_of(text, num_format_u64(text, cursor)));
    reply_array(&x->out, s->n);
    buf_add(x->out.out, x->carry->p + head, x->carry->len - head);
}

static uint32_t pass_now(const struct exec *x) { return cursor_pass(&cursor_of_server, atomic_load(&x->route->shifts)); }

/* Where the scan goes on that has come to this position in this shard; 0: it is over. */
static uint64_t next_cursor(const struct exec *x, uint64_t position, uint64_t order, uint32_t pass)
{
    struct cursor next = {.place = x->shard, .pass = pass};
    if (position) {
        next.in_table = cursor_in_table(&cursor_of_server, position, order);
    } else if (!is_last_shard(x)) {
        next.place++;
    } else {
        next.place = 0;
        next.pass = pass_now(x);
        if (next.pass == pass) return 0; /* no key was carried from shard to shard since the pass began */
    }
    return cursor_make(&cursor_of_server, &next);
}

/* Goes on to the next shard until COUNT keys were looked at, so that a small keyspace takes one call however many shards there are. */
static void cmd_scan(struct exec *x)
{
    struct cursor at;
    struct keyscan s;
    struct scan_state state = {0};
    struct store *store = x->stores[x->shard];
    uint64_t order = keyscan_order(store, x->db), position = 0;
    x->done = true;
    if (!cursor_parse(&cursor_of_server, x->argv[1], x->route->shards, &at)) {
        reply_error(&x->out, "ERR invalid cursor");
        return;
    }
    if (!keyscan_begin(x, 2, x->carry, &s)) return;
    if (x->carry->len == 0) {
        state.pass = at.pass ? at.pass : pass_now(x);
        position = cursor_position(&cursor_of_server, at.in_table, order);
        buf_add(x->carry, &state, sizeof state);
    } else {
        memcpy(&state, x->carry->p, sizeof state);
    }
    s.n = state.n;
    s.visited = state.visited;
    position = keyscan_walk(x, &s, store, position);
    state.n = s.n;
    state.visited = s.visited;
    memcpy(x->carry->p, &state, sizeof state);
    x->done = position != 0 || s.visited >= (uint64_t)s.count || is_last_shard(x);
    if (x->done) answer_scan(x, next_cursor(x, position, order, state.pass), &s);
}

/* ---- another name, another database */

static void peek_in(struct exec *x, uint16_t db, struct slice key, struct place *at)
{
    uint64_t hash = exec_hash(x, key);
    store_peek(exec_store(x, key, hash), db, hash, key, at);
}

/* Value and expiry of `from` also become those of `to`, which may be in another shard or database. */
static void copy_value(struct exec *x, const struct place *from, struct place *to)
{
    struct buf image = {0};
    image_write(&image, from->e);
    exec_apply(x, &(struct op){.kind = OP_RESTORE, .value = buf_slice(&image), .expiry_ms = entry_expiry_ms(from->e)}, to);
    buf_fini(&image);
}

/* `from` is where peek left it; the copy may have moved things there, so it is looked up again before it goes. */
static void move_value(struct exec *x, struct place *from, struct place *to)
{
    copy_value(x, from, to);
    peek_in(x, from->db_id, from->key, from);
    exec_del(x, from);
}

/* Finds both ends. The target is looked up first: if it had expired, its going must not disturb the source's place. */
static void peek_both(struct exec *x, struct place *from, uint16_t to_db, struct slice to_key, struct place *to)
{
    peek_in(x, to_db, to_key, to);
    peek_in(x, x->db, x->argv[1], from);
}

static void rename_key(struct exec *x, bool only_new)
{
    struct place from, to;
    peek_both(x, &from, x->db, x->argv[2], &to);
    if (!from.e) {
        reply_error(&x->out, reply_nokey);
        return;
    }
    if (only_new && to.e) { /* true of a key and itself, too */
        reply_int(&x->out, 0);
        return;
    }
    if (!slice_eq(from.key, to.key)) {
        if (!exec_readable(x, &from)) return;
        move_value(x, &from, &to);
        exec_notify(x, NOTIFY_GENERIC, "rename_from", from.key);
        exec_notify(x, NOTIFY_GENERIC, "rename_to", to.key);
    }
    if (only_new)
        reply_int(&x->out, 1);
    else
        reply_ok(&x->out);
}

static void cmd_rename(struct exec *x) { rename_key(x, false); }
static void cmd_renamenx(struct exec *x) { rename_key(x, true); }

static bool parse_db(struct exec *x, struct slice arg, uint16_t *db)
{
    int64_t v;
    if (!exec_arg_i64(x, arg, &v)) return false;
    if (v < INT32_MIN || v > INT32_MAX) {
        reply_errorf(&x->out, "ERR value is out of range, value must between %d and %d", INT32_MIN, INT32_MAX);
        return false;
    }
    if (v < 0 || v >= STORE_DBS) {
        reply_error(&x->out, allkeys_bad_db);
        return false;
    }
    *db = (uint16_t)v;
    return true;
}

static bool parse_copy(struct exec *x, uint16_t *db, bool *replace)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        if (slice_is(x->argv[i], "replace")) {
            *replace = true;
        } else if (slice_is(x->argv[i], "db") && i + 1 < x->argc) {
            if (!parse_db(x, x->argv[++i], db)) return false;
        } else {
            exec_syntax(x);
            return false;
        }
    }
    return true;
}

static void cmd_copy(struct exec *x)
{
    uint16_t db = x->db;
    bool replace = false;
    struct place from, to;
    if (!parse_copy(x, &db, &replace)) return;
    if (db == x->db && slice_eq(x->argv[1], x->argv[2])) {
        reply_error(&x->out, same_object);
        return;
    }
    peek_both(x, &from, db, x->argv[2], &to);
    if (!from.e || (to.e && !replace)) {
        reply_int(&x->out, 0);
        return;
    }
    if (!exec_readable(x, &from)) return;
    copy_value(x, &from, &to);
    exec_notify_in(x, NOTIFY_GENERIC, "copy_to", to.key, db);
    reply_int(&x->out, 1);
}

static void cmd_move(struct exec *x)
{
    uint16_t db;
    struct place from, to;
    if (!parse_db(x, x->argv[2], &db)) return;
    if (db == x->db) {
        reply_error(&x->out, same_object);
        return;
    }
    peek_both(x, &from, db, x->argv[1], &to);
    if (!from.e || to.e) {
        reply_int(&x->out, 0);
        return;
    }
    if (!exec_readable(x, &from)) return;
    move_value(x, &from, &to);
    exec_notify(x, NOTIFY_GENERIC, "move_from", from.key);
    exec_notify_in(x, NOTIFY_GENERIC, "move_to", to.key, db);
    reply_int(&x->out, 1);
}

/* ---- whole databases */

static void apply_to_all(struct exec *x, const struct op *op)
{
    for (uint32_t i = 0; i < x->route->shards; i++) {
        store_apply(x->stores[i], op, NULL);
        x->ops++;
    }
}

static void cmd_flushdb(struct exec *x)
{
    if (!allkeys_flush_args(x)) return;
    apply_to_all(x, &(struct op){.kind = OP_FLUSH, .db = x->db});
    reply_ok(&x->out);
}

static void cmd_flushall(struct exec *x)
{
    if (!allkeys_flush_args(x)) return;
    for (uint16_t db = 0; db < STORE_DBS; db++) {
        bool used = false;
        for (uint32_t i = 0; i < x->route->shards; i++) used |= x->stores[i]->dbs[db] != NULL;
        if (used) apply_to_all(x, &(struct op){.kind = OP_FLUSH, .db = db});
    }
    reply_ok(&x->out);
}

static void cmd_swapdb(struct exec *x)
{
    uint16_t a, b;
    if (!allkeys_swap_args(x, &a, &b)) return;
    if (a != b) apply_to_all(x, &(struct op){.kind = OP_SWAP, .db = a, .index = b});
    reply_ok(&x->out);
}

/* ---- rows */

#define KEY_1 .class = CLASS_KEYED, .first_key = 1, .last_key = 1, .key_step = 1, .group = "generic"
#define KEYS_2 .class = CLASS_KEYED, .first_key = 1, .last_key = 2, .key_step = 1, .group = "generic"
#define KEYS_ALL .class = CLASS_KEYED, .first_key = 1, .last_key = -1, .key_step = 1, .group = "generic"
#define READ_FAST (CMD_READONLY | CMD_FAST)

static const struct command rows[] = {
    {.name = "copy", .fn = cmd_copy, .arity = -3, .flags = CMD_WRITE | CMD_DENYOOM, KEYS_2, .since = "6.2.0",
     .summary = "Copies the value of a key to a new key.", .args = "source destination [DB destination-db] [REPLACE]"},
    {.name = "dbsize", .fn = cmd_dbsize, .arity = 1, .class = CLASS_EACH, .flags = READ_FAST, .group = "server", .since = "1.0.0",
     .summary = "Returns the number of keys in the database.", .args = ""},
    {.name = "del", .fn = delete_keys, .arity = -2, .flags = CMD_WRITE | CMD_KEY_ONLY, KEYS_ALL, .since = "1.0.0",
     .summary = "Deletes one or more keys.", .args = "key [key ...]"},
    {.name = "exists", .fn = cmd_exists, .arity = -2, .flags = READ_FAST | CMD_KEY_ONLY, KEYS_ALL, .since = "1.0.0",
     .summary = "Determines whether one or more keys exist.", .args = "key [key ...]"},
    {.name = "flushall", .fn = cmd_flushall, .arity = -1, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "server", .since = "1.0.0",
     .summary = "Removes all keys from all databases.", .args = "[ASYNC | SYNC]"},
    {.name = "flushdb", .fn = cmd_flushdb, .arity = -1, .class = CLASS_ALL, .flags = CMD_WRITE, .group = "server", .since = "1.0.0",
     .summary = "Remove all keys from the current database.", .args = "[ASYNC | SYNC]"},
    {.name = "keys", .fn = cmd_keys, .arity = 2, .class = CLASS_EACH, .flags = CMD_READONLY, .group = "generic", .since = "1.0.0",
     .summary = "Returns all key names that match a pattern.", .args = "pattern"},
    {.name = "move", .fn = cmd_move, .arity = 3, .flags = CMD_WRITE | CMD_FAST, KEY_1, .since = "1.0.0",
     .summary = "Moves a key to another database.", .args = "key db"},
    {.name = "object", .fn = objects_command, .arity = -2, .flags = CMD_READONLY | CMD_KEY_ONLY, .class = CLASS_KEYED, .first_key = 2, .last_key = 2,
     .key_step = 1, .needs_values = objects_needs_values, .group = "generic", .since = "2.2.3",
     .summary = "Tells about the internals of a value.", .args = "ENCODING key | FREQ key | IDLETIME key | REFCOUNT key | HELP"},
    {.name = "randomkey", .fn = cmd_randomkey, .arity = 1, .class = CLASS_EACH, .flags = CMD_READONLY, .group = "generic", .since = "1.0.0",
     .summary = "Returns a random key name from the database.", .args = ""},
    {.name = "rename", .fn = cmd_rename, .arity = 3, .flags = CMD_WRITE, KEYS_2, .since = "1.0.0",
     .summary = "Renames a key and overwrites the destination.", .args = "key newkey"},
    {.name = "renamenx", .fn = cmd_renamenx, .arity = 3, .flags = CMD_WRITE | CMD_FAST, KEYS_2, .since = "1.0.0",
     .summary = "Renames a key only when the target key name doesn't exist.", .args = "key newkey"},
    {.name = "scan", .fn = cmd_scan, .arity = -2, .class = CLASS_CURSOR, .flags = CMD_READONLY, .group = "generic", .since = "2.8.0",
     .summary = "Iterates over the key names in the database.", .args = "cursor [MATCH pattern] [COUNT count] [TYPE type]"},
    {.name = "swapdb", .fn = cmd_swapdb, .arity = 3, .class = CLASS_ALL, .flags = CMD_WRITE | CMD_FAST, .group = "server", .since = "4.0.0",
     .summary = "Swaps two databases.", .args = "index1 index2"},
    {.name = "touch", .fn = cmd_touch, .arity = -2, .flags = READ_FAST | CMD_KEY_ONLY, KEYS_ALL, .since = "3.2.1",
     .summary = "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
     .args = "key [key ...]"},
    {.name = "type", .fn = cmd_type, .arity = 2, .flags = READ_FAST | CMD_KEY_ONLY, KEY_1, .since = "1.0.0",
     .summary = "Determines the type of value stored at a key.", .args = "key"},
    {.name = "unlink", .fn = delete_keys, .arity = -2, .flags = CMD_WRITE | CMD_FAST | CMD_KEY_ONLY, KEYS_ALL, .since = "4.0.0",
     .summary = "Deletes one or more keys.", .args = "key [key ...]"},
};

const struct command_family keys_family = COMMAND_FAMILY(rows);
