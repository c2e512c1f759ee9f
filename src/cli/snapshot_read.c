/* sherd snapshot: options and the table of commands that look at what is published. */
#include "cli/snapshot_read.h"

#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/subcommand.h"

/* ---- commands */

enum needs { NEEDS_READER, NEEDS_STORE };
enum where { ON_LINE = 1, IN_SHELL = 2, BOTH = 3 };

struct command {
    const char *name;
    int (*run)(struct snapread *r);
    enum needs needs;
    enum where where;
    const char *arguments, *help;
};

static const struct command commands[] = {
    {"get", snapread_get, NEEDS_READER, BOTH, "KEY [--strict]", "the value of a key"},
    {"multiget", snapread_multiget, NEEDS_READER, BOTH, "KEY...|- [--strict]", "the values of many keys; - reads keys from standard input, one a line"},
    {"scan", snapread_scan, NEEDS_READER, BOTH, "[--prefix P] [--start K|--after K] [--end K] [--limit N] [--reverse] [--shard N] [--keys-only]", "keys and values in order"},
    {"route", snapread_route, NEEDS_READER, BOTH, "KEY", "the shard of a key"},
    {"info", snapread_info, NEEDS_READER, BOTH, "", "what the snapshot is"},
    {"shards", snapread_shards, NEEDS_READER, BOTH, "", "its shards: rows, keys, bytes, places"},
    {"health", snapread_health, NEEDS_READER, BOTH, "[--staleness-threshold SECONDS]", "exit status 0 healthy, 1 degraded, 2 unhealthy"},
    {"history", snapread_history, NEEDS_STORE, BOTH, "[--limit N]", "published snapshots, newest first; * is the current one"},
    {"rollback", snapread_rollback, NEEDS_STORE, ON_LINE, "--ref R|--run-id ID|--offset N", "makes an older snapshot the current one"},
    {"cleanup", snapread_cleanup, NEEDS_STORE, ON_LINE, "[--dry-run] [--keep-last N] [--older-than 7d] [--orphan-age 1d]", "deletes what no kept snapshot needs"},
    {"verify", snapread_verify, NEEDS_STORE, ON_LINE, "[--shallow]", "checks that every shard is there, whole and well formed"},
    {"repl", snapread_repl, NEEDS_READER, ON_LINE, "", "a shell for all this"},
    {"refresh", snapread_refresh, NEEDS_READER, IN_SHELL, "", "switches to what was published since"},
    {"use", snapread_use, NEEDS_READER, IN_SHELL, "--ref R|--run-id ID|--offset N|--latest", "switches to another snapshot"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const struct command *find_command(const char *name, enum where where)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if ((commands[i].where & where) && strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* ---- options */

static const char *const outputs[] = {"text", "table", "json", "jsonl", NULL};
static const char *const encodings[] = {"usual", "base64", "hex", "utf8", "raw", NULL};
static const char *const modes[] = {"auto", "download", "range", NULL};

#define AT(field) offsetof(struct snapread_args, field)

static const struct cliargs_option options[] = {
    {"--output", CLIARGS_CHOICE, AT(output), "FORMAT", "text, table, json or jsonl", outputs, 0, 0},
    {"--value-encoding", CLIARGS_CHOICE, AT(encoding), "ENC", "base64, hex, utf8 or raw; usual: raw as text, else base64", encodings, 0, 0},
    {"--ref", CLIARGS_WORD, AT(reader.pin.ref), "REF", "read the snapshot of this manifest: URL, or key below the prefix", NULL, 0, 0},
    {"--run-id", CLIARGS_WORD, AT(reader.pin.run_id), "ID", "read the newest snapshot of this run", NULL, 0, 0},
    {"--offset", CLIARGS_U32, AT(reader.pin.offset), "N", "read the N-th newest snapshot; 0 is the newest", NULL, 0, AT(reader.pin.by_offset)},
    {"--routing-context", CLIARGS_PAIRS, AT(context), "NAME=VALUE", "a column of the routing expression; may be repeated", NULL, 0, 0},
    {"--mode", CLIARGS_CHOICE, AT(reader.mode), "MODE", "auto, download or range", modes, 0, 0},
    {"--cache", CLIARGS_WORD, AT(reader.cache_dir), "DIR", "where downloads are kept; default ~/.cache/sherd/snapshots", NULL, 0, 0},
    {"--cache-bytes", CLIARGS_BYTES, AT(reader.cache_bytes), "BYTES", "of unused downloads at most: default 16gb", NULL, 0, 0},
    {"--page-cache", CLIARGS_BYTES, AT(reader.page_cache_bytes), "BYTES", "memory for ranged reads: default 64mb", NULL, 0, 0},
    {"--auto-shard-bytes", CLIARGS_BYTES, AT(reader.auto_shard_bytes), "BYTES", "auto reads by ranges if a shard is so large: default 16mb", NULL, 0, 0},
    {"--auto-total-bytes", CLIARGS_BYTES, AT(reader.auto_total_bytes), "BYTES", "... or all together: default 2gb", NULL, 0, 0},
    {"--parallel", CLIARGS_U32, AT(reader.parallel), "N", "requests at once: default 8", NULL, 0, 0},
    {"--strict", CLIARGS_FLAG, AT(strict), NULL, "exit status 1 if a key is missing", NULL, 0, 0},
    {"--prefix", CLIARGS_WORD, AT(prefix), "TEXT", "scan: keys that begin so", NULL, 0, 0},
    {"--start", CLIARGS_WORD, AT(start), "KEY", "scan: from this key on", NULL, 0, 0},
    {"--after", CLIARGS_WORD, AT(after), "KEY", "scan: behind this key", NULL, 0, 0},
    {"--end", CLIARGS_WORD, AT(end), "KEY", "scan: up to this key, without it", NULL, 0, 0},
    {"--limit", CLIARGS_U64, AT(limit), "N", "scan, history: at most so many", NULL, 0, AT(has_limit)},
    {"--shard", CLIARGS_U64, AT(shard), "N", "scan: only this shard", NULL, UINT32_MAX, AT(has_shard)},
    {"--reverse", CLIARGS_FLAG, AT(reverse), NULL, "scan: from the end", NULL, 0, 0},
    {"--keys-only", CLIARGS_FLAG, AT(keys_only), NULL, "scan: without values", NULL, 0, 0},
    {"--staleness-threshold", CLIARGS_SECONDS, AT(staleness_seconds), "SECONDS", "health: a snapshot that is older is degraded", NULL, 0, 0},
    {"--dry-run", CLIARGS_FLAG, AT(dry_run), NULL, "cleanup: says what it would delete", NULL, 0, 0},
    {"--keep-last", CLIARGS_U64, AT(keep_last), "N", "cleanup: keeps the newest N snapshots, deletes older ones", NULL, UINT32_MAX, 0},
    {"--older-than", CLIARGS_AGE, AT(older_than_us), "AGE", "cleanup: deletes only snapshots older than 30m, 24h, 7d", NULL, 0, 0},
    {"--orphan-age", CLIARGS_AGE, AT(orphan_age_us), "AGE", "cleanup: shards that belong to nothing go after this: default 1d", NULL, 0, 0},
    {"--shallow", CLIARGS_FLAG, AT(shallow), NULL, "verify: existence and size only", NULL, 0, 0},
    {"--latest", CLIARGS_FLAG, AT(latest), NULL, "use: what is current, and follow it", NULL, 0, 0},
};

static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0), CLIARGS_GROUP(cliargs_s3, AT(objects))};

static struct cliargs line_of(const char *command, const char *help)
{
    return (struct cliargs){.command = command, .help = help, .groups = groups, .n_groups = sizeof groups / sizeof groups[0], .dash_is_word = true};
}

/* words has room for argc. */
static bool read_args(struct snapread_args *a, const struct cliargs *line, int argc, char **argv)
{
    if (!cliargs_read(line, a, argc, argv, a->words, &a->n_words)) return false;
    const struct sherd_pin *pin = &a->reader.pin;
    if ((pin->ref != NULL) + (pin->run_id != NULL) + pin->by_offset <= 1) return true;
    return cliargs_refuse(line, "--ref, --run-id and --offset exclude each other", "");
}

/* ---- help */

void snapshot_read_help(FILE *to)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].where & ON_LINE) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
}

void snapread_line_help(FILE *to)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].where & IN_SHELL) fprintf(to, "  %s %s\n      %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("  output text|table|json|jsonl\n      how results are shown\n  help, quit\n", to);
}

static int show_help(const struct command *c)
{
    printf("usage: sherd snapshot %s URL %s\n\n%s.\n\nURL is where the snapshots are: s3://bucket/prefix or file:///folder.\n\nOptions:\n", c->name, c->arguments, c->help);
    cliargs_help(&(struct cliargs){.groups = groups, .n_groups = sizeof groups / sizeof groups[0]}, stdout);
    puts("\nExit status: 0 done, 1 it failed or something is missing or not in order, 2 the command line is wrong.");
    return EXIT_WELL;
}

/* ---- running */

/* The library's own form of what the command line says about the store. */
static void set_store_options(struct snapread_args *a)
{
    const struct object_options *o = &a->objects;
    struct sherd_options *r = &a->reader;
    r->endpoint = o->endpoint;
    r->region = o->region;
    r->access_key = o->access_key;
    r->secret_key = o->secret_key;
    r->session_token = o->session_token;
    r->profile = o->profile;
    r->ca_file = o->ca_file;
    r->path_style = o->style == OBJECT_STYLE_PATH ? 1 : o->style == OBJECT_STYLE_VIRTUAL ? 2 : 0;
    r->anonymous = o->anonymous;
    r->insecure_tls = o->insecure_tls;
}

struct object_store *snapread_store(struct snapread *r, const char *op)
{
    char error[OBJECT_DETAIL_BYTES];
    if (r->store || object_open(&r->store, r->args->url, &r->args->objects, error) == 0) return r->store;
    snapread_fail(r, op, NULL, error);
    return NULL;
}

static int run(const struct command *c, struct snapread_args *a)
{
    struct snapread r = {.args = a, .out = stdout};
    struct sherd_error why;
    int code;
    set_store_options(a);
    if (c->needs == NEEDS_READER) r.reader = sherd_reader_open(a->url, &a->reader, &why);
    if (c->needs == NEEDS_READER && !r.reader)
        code = snapread_fail(&r, c->name, NULL, why.text);
    else
        code = c->run(&r);
    sherd_reader_close(r.reader);
    object_close(r.store);
    return code;
}

static int run_line(const struct command *c, const struct cliargs *line, struct snapread_args *a, int argc, char **argv)
{
    if (!read_args(a, line, argc, argv)) return EXIT_USAGE;
    if (a->n_words == 0) {
        cliargs_refuse(line, "the URL of the snapshots is needed", "");
        return EXIT_USAGE;
    }
    a->url = *a->words++;
    a->n_words--;
    return run(c, a);
}

int snapshot_read_run(int argc, char **argv)
{
    const struct command *c = argc ? find_command(argv[0], ON_LINE) : NULL;
    char name[32], help[64];
    if (!c) return -1;
    if (cliargs_asks_help(argc, argv)) return show_help(c);
    snprintf(name, sizeof name, "snapshot %s", c->name);
    snprintf(help, sizeof help, "sherd snapshot %s --help", c->name);
    const char **words = mem_alloc((size_t)argc * sizeof *words);
    struct snapread_args a = {.words = words, .reader = {.size = sizeof a.reader}};
    struct cliargs line = line_of(name, help);
    int code = run_line(c, &line, &a, argc - 1, argv + 1);
    mem_free(words);
    return code;
}

int snapread_line(struct snapread *r, int argc, char **argv)
{
    const struct command *c = find_command(argv[0], IN_SHELL);
    if (!c) return -1;
    const char **words = mem_alloc((size_t)argc * sizeof *words);
    struct snapread_args a = {.url = r->args->url, .words = words, .output = r->args->output, .encoding = r->args->encoding, .objects = r->args->objects, .reader = {.size = sizeof a.reader, .cache_dir = r->args->reader.cache_dir}};
    struct snapread_args *outer = r->args;
    struct cliargs line = line_of(c->name, "help");
    int code = EXIT_USAGE;
    r->args = &a;
    if (read_args(&a, &line, argc - 1, argv + 1)) code = c->run(r);
    r->args = outer;
    mem_free(words);
    return code;
}
