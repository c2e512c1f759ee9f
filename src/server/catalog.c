/* COMMAND: the command table as clients see it. Everything is derived from the rows. */
#include "base/glob.h"
#include "base/mem.h"
#include "server/conn.h"
#include "server/families.h"
#include "server/front.h"
#include "server/keyaccess.h"

static const struct command_table *table_of(const struct exec *x) { return conn_of(x)->front->server->commands; }

/* ---- words */

static void reply_word(struct exec *x, struct slice word)
{
    struct buf *out = x->out.out;
    buf_add_byte(out, '+');
    buf_add_slice(out, word);
    buf_add_str(out, "\r\n");
}

/* Space-separated words as a set of status replies. */
static void reply_words(struct exec *x, const char *words)
{
    size_t mark = reply_open(&x->out), n = 0;
    while (*words) {
        size_t len = strcspn(words, " ");
        reply_word(x, slice_of(words, len));
        n++;
        words += len + (words[len] == ' ');
    }
    reply_close_set(&x->out, mark, n);
}

static const struct {
    uint32_t flag;
    const char *word;
} flag_words[] = {
    {CMD_WRITE, "write"},       {CMD_READONLY, "readonly"}, {CMD_DENYOOM, "denyoom"},   {CMD_ADMIN, "admin"},
    {CMD_PUBSUB, "pubsub"},     {CMD_NOSCRIPT, "noscript"}, {CMD_BLOCKING, "blocking"}, {CMD_LOADING, "loading"},
    {CMD_STALE, "stale"},       {CMD_SKIP_SLOWLOG, "skip_slowlog"}, {CMD_FAST, "fast"}, {CMD_NO_AUTH, "no_auth"},
    {CMD_NO_MULTI, "no_multi"},
};

/* Positions do not tell all keys. Of a container they never do: its subcommands have them. */
static bool has_movable_keys(const struct command *c) { return !c->subs && (c->flags & CMD_MOVABLE_KEYS || c->needs_all); }

static void reply_flags(struct exec *x, const struct command *c)
{
    size_t mark = reply_open(&x->out), n = 0;
    for (size_t i = 0; i < sizeof flag_words / sizeof flag_words[0]; i++) {
        if (!(c->flags & flag_words[i].flag)) continue;
        reply_simple(&x->out, flag_words[i].word);
        n++;
    }
    if (has_movable_keys(c)) {
        reply_simple(&x->out, "movablekeys");
        n++;
    }
    reply_close_set(&x->out, mark, n);
}

/* ---- categories: what ACL rules of Redis would call a command */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

static bool in_group(const struct command *c, const char *group) { return strcmp(c->group, group) == 0; }

static bool is_dangerous(const struct command *c)
{
    static const char *const names[] = {"flushall", "flushdb", "info", "keys", "restore", "role", "sort", "sort_ro", "swapdb", NULL};
    return c->flags & CMD_ADMIN || is_one_of(c->name, names);
}

static bool is_keyspace(const struct command *c)
{
    static const char *const names[] = {"dbsize", "flushall", "flushdb", "swapdb", NULL};
    return is_one_of(c->name, names) || (in_group(c, "generic") && strcmp(c->name, "wait") != 0);
}

/* The group whose name a category is, where the two differ. */
static const struct {
    const char *category, *group;
} group_categories[] = {
    {"@set", "set"},       {"@sortedset", "sorted-set"}, {"@list", "list"},     {"@hash", "hash"},
    {"@string", "string"}, {"@bitmap", "bitmap"},        {"@hyperloglog", "hyperloglog"}, {"@pubsub", "pubsub"},
    {"@connection", "connection"}, {"@transaction", "transactions"},
};

static void each_category(const struct command *c, void (*each)(void *ctx, const char *category), void *ctx)
{
    if (is_keyspace(c)) each(ctx, "@keyspace");
    if (c->flags & CMD_READONLY) each(ctx, "@read");
    if (c->flags & CMD_WRITE) each(ctx, "@write");
    for (size_t i = 0; i < sizeof group_categories / sizeof group_categories[0]; i++)
        if (in_group(c, group_categories[i].group)) each(ctx, group_categories[i].category);
    if (c->flags & CMD_ADMIN) each(ctx, "@admin");
    each(ctx, c->flags & CMD_FAST ? "@fast" : "@slow");
    if (c->flags & CMD_BLOCKING) each(ctx, "@blocking");
    if (is_dangerous(c)) each(ctx, "@dangerous");
}

struct categories {
    struct exec *x;
    size_t n;
    struct slice wanted; /* without the @ */
    bool found;
};

static void reply_category(void *ctx, const char *category)
{
    struct categories *to = ctx;
    reply_simple(&to->x->out, category);
    to->n++;
}

static void reply_categories(struct exec *x, const struct command *c)
{
    struct categories to = {.x = x};
    size_t mark = reply_open(&x->out);
    each_category(c, reply_category, &to);
    reply_close_set(&x->out, mark, to.n);
}

static void match_category(void *ctx, const char *category)
{
    struct categories *to = ctx;
    to->found |= slice_is(to->wanted, category + 1);
}

static bool has_category(const struct command *c, struct slice wanted)
{
    struct categories to = {.wanted = wanted};
    each_category(c, match_category, &to);
    return to.found;
}

/* ---- key specifications */

static void reply_unknown_search(struct exec *x, const char *what)
{
    reply_bulk_str(&x->out, what);
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "type");
    reply_bulk_str(&x->out, "unknown");
    reply_bulk_str(&x->out, "spec");
    reply_map(&x->out, 0);
}

static void reply_number(struct exec *x, const char *name, int64_t n)
{
    reply_bulk_str(&x->out, name);
    reply_int(&x->out, n);
}

static void reply_type(struct exec *x, const char *what, const char *type, size_t numbers)
{
    reply_bulk_str(&x->out, what);
    reply_map(&x->out, 2);
    reply_bulk_str(&x->out, "type");
    reply_bulk_str(&x->out, type);
    reply_bulk_str(&x->out, "spec");
    reply_map(&x->out, numbers);
}

/* Keys from argument `first` to `last` (relative to first, or from the end if negative). */
static void reply_range_spec(struct exec *x, const char *access, int first, int last, int step)
{
    reply_map(&x->out, 3);
    reply_bulk_str(&x->out, "flags");
    reply_words(x, access);
    reply_type(x, "begin_search", "index", 1);
    reply_number(x, "index", first);
    reply_type(x, "find_keys", "range", 3);
    reply_number(x, "lastkey", last);
    reply_number(x, "keystep", step);
    reply_number(x, "limit", 0);
}

/* The command's own function finds them: no rule says where they are. */
static void reply_movable_spec(struct exec *x, const char *access)
{
    reply_map(&x->out, 3);
    reply_bulk_str(&x->out, "flags");
    reply_words(x, access);
    reply_unknown_search(x, "begin_search");
    reply_unknown_search(x, "find_keys");
}

static void reply_key_specs(struct exec *x, const struct command *c)
{
    struct keyaccess a = keyaccess_of(c);
    int last = c->last_key < 0 ? c->last_key : c->last_key - c->first_key;
    if (c->flags & CMD_MOVABLE_KEYS) {
        reply_set(&x->out, 1);
        reply_movable_spec(x, a.first);
    } else if (!c->first_key) {
        reply_set(&x->out, 0);
    } else if (!a.rest) {
        reply_set(&x->out, 1);
        reply_range_spec(x, a.first, c->first_key, last, c->key_step);
    } else {
        reply_set(&x->out, 2);
        reply_range_spec(x, a.first, c->first_key, 0, c->key_step);
        reply_range_spec(x, a.rest, c->first_key + c->key_step, last < 0 ? last : last - c->key_step, c->key_step);
    }
}

/* ---- INFO */

/* The first eight of ten parts; a subcommand has its container's flags and no keys of its own. */
static void reply_entry(struct exec *x, const struct command *c, const struct exec_subcommand *sub)
{
    struct buf name = {0};
    buf_printf(&name, "%s%s%s", c->name, sub ? "|" : "", sub ? sub->name : "");
    reply_array(&x->out, 10);
    reply_bulk(&x->out, buf_slice(&name));
    reply_int(&x->out, sub ? sub->arity : c->arity);
    reply_flags(x, c);
    reply_int(&x->out, sub ? 0 : c->first_key);
    reply_int(&x->out, sub ? 0 : c->last_key);
    reply_int(&x->out, sub ? 0 : c->key_step);
    reply_categories(x, c);
    reply_set(&x->out, 0); /* tips */
    buf_fini(&name);
}

static void reply_command(struct exec *x, const struct command *c)
{
    const struct exec_subcommand *sub = c->subs;
    reply_entry(x, c, NULL);
    reply_key_specs(x, c);
    size_t mark = reply_open(&x->out), n = 0;
    for (; sub && sub->name; sub++, n++) {
        reply_entry(x, c, sub);
        reply_set(&x->out, 0);
        reply_array(&x->out, 0);
    }
    reply_close_array(&x->out, mark, n);
}

static void reply_all(struct exec *x)
{
    const struct command_table *t = table_of(x);
    reply_array(&x->out, command_count(t));
    for (size_t i = 0; i < command_count(t); i++) reply_command(x, command_at(t, i));
}

static void cmd_info(struct exec *x)
{
    if (x->argc == 2) {
        reply_all(x);
        return;
    }
    reply_array(&x->out, x->argc - 2);
    for (uint32_t i = 2; i < x->argc; i++) {
        const struct command *c = command_find(table_of(x), x->argv[i]);
        if (c) reply_command(x, c);
        else reply_null_array(&x->out);
    }
}

/* ---- DOCS */

/* The next argument of a syntax text: a word, or a bracket with all that is in it. */
static bool next_argument(const char **syntax, struct slice *arg)
{
    const char *p = *syntax;
    while (*p == ' ') p++;
    arg->p = p;
    for (int depth = 0; *p && (depth || *p != ' '); p++) depth += *p == '[' ? 1 : *p == ']' ? -1 : 0;
    arg->n = (size_t)(p - arg->p);
    *syntax = p;
    return arg->n > 0;
}

static void reply_argument(struct exec *x, struct slice arg)
{
    bool optional = arg.n > 2 && arg.p[0] == '[';
    struct slice name = optional ? slice_of(arg.p + 1, arg.n - 2) : arg;
    reply_map(&x->out, optional ? 3 : 2);
    reply_bulk_str(&x->out, "name");
    reply_bulk(&x->out, name);
    reply_bulk_str(&x->out, "type");
    reply_bulk_str(&x->out, slice_is(name, "key") ? "key" : "string");
    if (!optional) return;
    reply_bulk_str(&x->out, "flags");
    reply_words(x, "optional");
}

static void reply_docs(struct exec *x, const struct command *c)
{
    const char *syntax = c->subs ? "" : c->args;
    struct slice arg;
    reply_bulk_str(&x->out, c->name);
    reply_map(&x->out, *syntax ? 4 : 3);
    reply_bulk_str(&x->out, "summary");
    reply_bulk_str(&x->out, c->summary);
    reply_bulk_str(&x->out, "since");
    reply_bulk_str(&x->out, c->since);
    reply_bulk_str(&x->out, "group");
    reply_bulk_str(&x->out, c->group);
    if (!*syntax) return;
    reply_bulk_str(&x->out, "arguments");
    size_t mark = reply_open(&x->out), n = 0;
    for (; next_argument(&syntax, &arg); n++) reply_argument(x, arg);
    reply_close_array(&x->out, mark, n);
}

static void cmd_docs(struct exec *x)
{
    const struct command_table *t = table_of(x);
    size_t mark = reply_open(&x->out), n = 0;
    for (size_t i = 0; x->argc == 2 && i < command_count(t); i++, n++) reply_docs(x, command_at(t, i));
    for (uint32_t i = 2; i < x->argc; i++) {
        const struct command *c = command_find(t, x->argv[i]);
        if (!c) continue;
        reply_docs(x, c);
        n++;
    }
    reply_close_map(&x->out, mark, n);
}

/* ---- GETKEYS, GETKEYSANDFLAGS */

static void reply_keys(struct exec *x, const struct command *c, const struct slice *argv, const uint32_t *at, int n, bool with_flags)
{
    struct keyaccess a = keyaccess_of(c);
    reply_array(&x->out, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (with_flags) reply_array(&x->out, 2);
        reply_bulk(&x->out, argv[at[i]]);
        if (with_flags) reply_words(x, keyaccess_of_key(a, i));
    }
}

static void find_keys(struct exec *x, bool with_flags)
{
    const struct slice *argv = x->argv + 2;
    uint32_t argc = x->argc - 2;
    const struct command *c = command_find(table_of(x), argv[0]), *inner = c && c->inner_at ? command_inner(table_of(x), c, argv, argc) : NULL;
    if (!c) {
        reply_error(&x->out, "ERR Invalid command specified");
        return;
    }
    if (inner) {
        argv += c->inner_at;
        argc -= (uint32_t)c->inner_at;
        c = inner;
    }
    if (!c->first_key && !(c->flags & CMD_MOVABLE_KEYS)) {
        reply_error(&x->out, "ERR The command has no key arguments");
        return;
    }
    if (!command_arity_ok(c, argc)) {
        reply_error(&x->out, "ERR Invalid number of arguments specified for command");
        return;
    }
    uint32_t *at = mem_alloc(argc * sizeof *at);
    int n = command_keys(c, argv, argc, at, (int)argc);
    if (n < 0) reply_error(&x->out, "ERR Invalid arguments specified for command");
    else reply_keys(x, c, argv, at, n, with_flags);
    mem_free(at);
}

static void cmd_getkeys(struct exec *x) { find_keys(x, false); }
static void cmd_getkeysandflags(struct exec *x) { find_keys(x, true); }

/* ---- COUNT, LIST */

static void cmd_count(struct exec *x) { reply_int(&x->out, (int64_t)command_count(table_of(x))); }

/* A subcommand is in the categories of its command; its name is "config|get". */
static bool of_no_module(const struct command *c, const char *name, struct slice module) { return false; }
static bool in_category(const struct command *c, const char *name, struct slice category) { return has_category(c, category); }
static bool matches(const struct command *c, const char *name, struct slice pattern) { return glob_match(pattern, slice_str(name), true); }

typedef bool (*list_filter)(const struct command *c, const char *name, struct slice what);

static list_filter find_filter(struct slice name)
{
    if (slice_is(name, "module")) return of_no_module;
    if (slice_is(name, "aclcat")) return in_category;
    return slice_is(name, "pattern") ? matches : NULL;
}

static void cmd_list(struct exec *x)
{
    const struct command_table *t = table_of(x);
    list_filter filter = x->argc == 5 && slice_is(x->argv[2], "filterby") ? find_filter(x->argv[3]) : NULL;
    if (x->argc > 2 && !filter) {
        exec_syntax(x);
        return;
    }
    size_t mark = reply_open(&x->out), n = 0;
    for (size_t i = 0; i < command_places(t); i++) {
        const char *name = command_place_name(t, i);
        if (command_of_place(t, i)->flags & (CMD_OF_GROUP | CMD_OF_NODES)) continue;
        if (filter && !filter(command_of_place(t, i), name, x->argv[4])) continue;
        reply_bulk_str(&x->out, name);
        n++;
    }
    reply_close_set(&x->out, mark, n);
}

static const struct exec_subcommand subs[] = {
    {"count", cmd_count, 2},
    {"docs", cmd_docs, -2},
    {"getkeys", cmd_getkeys, -3},
    {"getkeysandflags", cmd_getkeysandflags, -3},
    {"info", cmd_info, -2},
    {"list", cmd_list, -2},
    {0},
};

static const char *const help[] = {
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "LIST [FILTERBY MODULE <module> | ACLCAT <category> | PATTERN <pattern>]",
    "    Return the names of all commands, or of those that the filter keeps.",
    "INFO [<command-name> ...]",
    "    Return details about commands, all if no name is given.",
    "DOCS [<command-name> ...]",
    "    Return documentation about commands, all if no name is given.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full command.",
    NULL,
};

static void cmd_command(struct exec *x)
{
    if (x->argc == 1) reply_all(x);
    else exec_subcommand(x, subs, help);
}

static const struct command rows[] = {
    {.name = "command", .fn = cmd_command, .arity = -1, .class = CLASS_LOCAL, .flags = CMD_LOADING | CMD_STALE, .subs = subs, .group = "server",
     .since = "2.8.13", .summary = "Returns what is known about commands.",
     .args = "[COUNT | DOCS [command ...] | GETKEYS command [argument ...] | GETKEYSANDFLAGS command [argument ...] | INFO [command ...] | LIST [FILTERBY ...] | HELP]"},
};

const struct command_family catalog_family = COMMAND_FAMILY(rows);
