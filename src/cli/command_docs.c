#include "cli/command_docs.h"

#include <string.h>

#include "command/command.h"

/* A command of several subcommands is a row of its own name; upper case is how people write it. */
static void add_upper(const char *name, struct buf *out)
{
    for (; *name; name++) buf_add_byte(out, *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name);
}

void command_docs_plain(const struct command_table *t, struct buf *out)
{
    for (size_t i = 0; i < command_count(t); i++) {
        const struct command *c = command_at(t, i);
        add_upper(c->name, out);
        if (c->args && *c->args) buf_printf(out, " %s", c->args);
        buf_printf(out, "\n    %s\n", c->summary);
    }
}

static const char *where(const struct command *c)
{
    switch (c->class) {
    case CLASS_LOCAL: return "connection";
    case CLASS_KEYED: return "its keys";
    case CLASS_SPACE: return "the shards of a key space";
    case CLASS_ALL: return "all shards at once";
    case CLASS_EACH: return "each shard in turn";
    case CLASS_CURSOR: return "the shard its cursor names, and on";
    }
    return "";
}

/* Text inside a cell: a bar would end it. */
static void add_cell(const char *text, struct buf *out)
{
    for (; text && *text; text++) {
        if (*text == '|') buf_add_byte(out, '\\');
        buf_add_byte(out, *text);
    }
}

static void add_row(const struct command *c, struct buf *out)
{
    buf_add_str(out, "| `");
    add_upper(c->name, out);
    buf_add_str(out, "` | ");
    if (c->args && *c->args) {
        buf_add_byte(out, '`');
        add_cell(c->args, out);
        buf_add_byte(out, '`');
    }
    buf_printf(out, " | %s | %s | %s | ", c->flags & CMD_WRITE ? "yes" : "no", where(c), c->since);
    add_cell(c->summary, out);
    buf_add_str(out, " |\n");
}

static void add_group(const struct command_table *t, const char *group, struct buf *out)
{
    buf_printf(out, "\n## %s\n\n| command | arguments | writes | runs on | since Redis | what it does |\n|---|---|---|---|---|---|\n", group);
    for (size_t i = 0; i < command_count(t); i++) {
        if (strcmp(command_at(t, i)->group, group) == 0) add_row(command_at(t, i), out);
    }
}

static bool is_first_of_group(const struct command_table *t, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(command_at(t, k)->group, command_at(t, i)->group) == 0) return false;
    }
    return true;
}

/* The alphabetically next group after `last`, or NULL. */
static const char *next_group(const struct command_table *t, const char *last)
{
    const char *best = NULL;
    for (size_t i = 0; i < command_count(t); i++) {
        const char *group = command_at(t, i)->group;
        if (!is_first_of_group(t, i) || (last && strcmp(group, last) <= 0)) continue;
        if (!best || strcmp(group, best) < 0) best = group;
    }
    return best;
}

void command_docs_markdown(const struct command_table *t, struct buf *out)
{
    buf_printf(out,
               "# Commands\n\n"
               "This page is made by `make docs` from the program's own command table: %zu commands.\n\n"
               "**Runs on** says what a command holds while it runs. *Its keys*: the shards of its keys, all at the same time, so it is atomic however\n"
               "many shards they are on. *All shards at once*: the same for the whole keyspace. *Each shard in turn*: one after the other; between two\n"
               "shards other commands may run. *One shard per call*: the one that the cursor names. *Connection*: no shard at all.\n",
               command_count(t));
    for (const char *group = next_group(t, NULL); group; group = next_group(t, group)) add_group(t, group, out);
}
