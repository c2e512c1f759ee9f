/* sherd snapshot: options and the table of commands that look at what is published. */
#include "cli/snapshot_read.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/subcommand.h"

/* ---- options */

static const char *const outputs[] = {"text", "table", "json", "jsonl", NULL};
static const char *const encodings[] = {"usual", "base64", "hex", "utf8", "raw", NULL};
static const char *const modes[] = {"auto", "download", "range", NULL};

#define AT(field) offsetof(struct snapread_args, field)

static const struct cliargs_option show_options[] = {
    {"--output", CLIARGS_CHOICE, AT(output), "FORMAT", "text, table, json or jsonl", outputs, 0, 0},
};
static const struct cliargs_option value_options[] = {
    {"--value-encoding", CLIARGS_CHOICE, AT(encoding), "ENC", "base64, hex, utf8 or raw; usual: raw as text, else base64", encodings, 0, 0},
};
static const struct cliargs_option pin_options[] = {
    {"--ref", CLIARGS_WORD, AT(reader.pin.ref), "REF", "the snapshot of this manifest: URL, or key below the prefix", NULL, 0, 0},
    {"--run-id", CLIARGS_WORD, AT(reader.pin.run_id), "ID", "the newest snapshot of this run", NULL, 0, 0},
    {"--offset", CLIARGS_U32, AT(reader.pin.offset), "N", "the N-th newest snapshot; 0 is the newest", NULL, 0, AT(reader.pin.by_offset)},
};
static const struct cliargs_option latest_options[] = {
    {"--latest", CLIARGS_FLAG, AT(latest), NULL, "what is current, and follow it", NULL, 0, 0},
};
static const struct cliargs_option context_options[] = {
    {"--routing-context", CLIARGS_PAIRS, AT(context), "NAME=VALUE", "a column of the routing expression; may be repeated", NULL, 0, 0},
};
static const struct cliargs_option strict_options[] = {
    {"--strict", CLIARGS_FLAG, AT(strict), NULL, "exit status 1 if a key is missing", NULL, 0, 0},
};
static const struct cliargs_option scan_options[] = {
    {"--prefix", CLIARGS_WORD, AT(prefix), "TEXT", "keys that begin so", NULL, 0, 0},
    {"--start", CLIARGS_WORD, AT(start), "KEY", "from this key on", NULL, 0, 0},
    {"--after", CLIARGS_WORD, AT(after), "KEY", "behind this key", NULL, 0, 0},
    {"--end", CLIARGS_WORD, AT(end), "KEY", "up to this key, without it", NULL, 0, 0},
    {"--shard", CLIARGS_U64, AT(shard), "N", "only this shard", NULL, UINT32_MAX, AT(has_shard)},
    {"--reverse", CLIARGS_FLAG, AT(reverse), NULL, "from the end", NULL, 0, 0},
    {"--keys-only", CLIARGS_FLAG, AT(keys_only), NULL, "without values", NULL, 0, 0},
};
static const struct cliargs_option limit_options[] = {
    {"--limit", CLIARGS_U64, AT(limit), "N", "at most so many", NULL, 0, AT(has_limit)},
};
static const struct cliargs_option health_options[] = {
    {"--staleness-threshold", CLIARGS_SECONDS, AT(staleness_seconds), "SECONDS", "a snapshot that is older is degraded", NULL, 0, 0},
};
static const struct cliargs_option cleanup_options[] = {
    {"--dry-run", CLIARGS_FLAG, AT(dry_run), NULL, "says what it would delete", NULL, 0, 0},
    {"--keep-last", CLIARGS_U64, AT(keep_last), "N", "keeps the newest N snapshots, deletes older ones", NULL, UINT32_MAX, 0},
    {"--older-than", CLIARGS_AGE, AT(older_than_us), "AGE", "deletes only snapshots older than 30m, 24h, 7d", NULL, 0, 0},
    {"--orphan-age", CLIARGS_AGE, AT(orphan_age_us), "AGE", "shards that belong to nothing go after this: default 1d", NULL, 0, 0},
};
static const struct cliargs_option verify_options[] = {
    {"--shallow", CLIARGS_FLAG, AT(shallow), NULL, "existence and size only", NULL, 0, 0},
};
static const struct cliargs_option reader_options[] = {
    {"--mode", CLIARGS_CHOICE, AT(reader.mode), "MODE", "auto, download or range", modes, 0, 0},
    {"--cache", CLIARGS_WORD, AT(reader.cache_dir), "DIR", "where downloads are kept; default ~/.cache/sherd/snapshots", NULL, 0, 0},
    {"--cache-bytes", CLIARGS_BYTES, AT(reader.cache_bytes), "BYTES", "of unused downloads at most: default 16gb", NULL, 0, 0},
    {"--page-cache", CLIARGS_BYTES, AT(reader.page_cache_bytes), "BYTES", "memory for ranged reads: default 64mb", NULL, 0, 0},
    {"--auto-shard-bytes", CLIARGS_BYTES, AT(reader.auto_shard_bytes), "BYTES", "auto reads by ranges if a shard is so large: default 16mb", NULL, 0, 0},
    {"--auto-total-bytes", CLIARGS_BYTES, AT(reader.auto_total_bytes), "BYTES", "... or all together: default 2gb", NULL, 0, 0},
    {"--parallel", CLIARGS_U32, AT(reader.parallel), "N", "requests at once: default 8", NULL, 0, 0},
};

/* In the order in which help shows them; options_of picks by the place. */
static const struct cliargs_group groups[] = {
    CLIARGS_GROUP(strict_options, 0),
    CLIARGS_GROUP(scan_options, 0),
    CLIARGS_GROUP(limit_options, 0),
    CLIARGS_GROUP(health_options, 0),
    CLIARGS_GROUP(cleanup_options, 0),
    CLIARGS_GROUP(verify_options, 0),
    CLIARGS_GROUP(latest_options, 0),
    CLIARGS_GROUP(pin_options, 0),
    CLIARGS_GROUP(context_options, 0),
    CLIARGS_GROUP(show_options, 0),
    CLIARGS_GROUP(value_options, 0),
    CLIARGS_GROUP(reader_options, 0),
    CLIARGS_GROUP(cliargs_s3, AT(objects)),
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

enum has { /* bits: the groups above */
    STRICT = 1,
    SCAN = 2,
    LIMIT = 4,
    HEALTH = 8,
    CLEANUP = 16,
    VERIFY = 32,
    LATEST = 64,
    PIN = 128,
    CONTEXT = 256,
    SHOW = 512,
    VALUES = 1024,
    READER = 2048,
    S3 = 4096,
};
_Static_assert(S3 == 1 << (N_GROUPS - 1), "a bit for each group");

/* ---- commands */

enum needs { NEEDS_READER, NEEDS_STORE };
enum where { ON_LINE = 1, IN_SHELL = 2, BOTH = 3 };
enum { NO_WORDS = 0, ONE_WORD = 1, MANY_WORDS = INT_MAX };

struct command {
    const char *name;
    int (*run)(struct snapread *r);
    enum needs needs;
    enum where where;
    unsigned has;  /* options of its own, besides those that all have */
    int words_max; /* behind the URL */
    const char *arguments, *help;
};

static const struct command commands[] = {
    {"get", snapread_get, NEEDS_READER, BOTH, STRICT | CONTEXT | VALUES, ONE_WORD, "KEY [--strict]", "the value of a key"},
    {"multiget", snapread_multiget, NEEDS_READER, BOTH, STRICT | CONTEXT | VALUES, MANY_WORDS, "KEY...|- [--strict]", "the values of many keys; - reads keys from standard input, one a line"},
    {"scan", snapread_scan, NEEDS_READER, BOTH, SCAN | LIMIT | VALUES, NO_WORDS, "[--prefix P] [--start K|--after K] [--end K] [--limit N] [--reverse] [--shard N] [--keys-only]", "keys and values in order"},
    {"route", snapread_route, NEEDS_READER, BOTH, CONTEXT, ONE_WORD, "KEY", "the shard of a key"},
    {"info", snapread_info, NEEDS_READER, BOTH, 0, NO_WORDS, "", "what the snapshot is"},
    {"shards", snapread_shards, NEEDS_READER, BOTH, 0, NO_WORDS, "", "its shards: rows, keys, bytes, places"},
    {"health", snapread_health, NEEDS_READER, BOTH, HEALTH, NO_WORDS, "[--staleness-threshold SECONDS]", "exit status 0 healthy, 1 degraded, 2 unhealthy"},
    {"history", snapread_history, NEEDS_STORE, BOTH, LIMIT, NO_WORDS, "[--limit N]", "published snapshots, newest first; * is the current one"},
    {"rollback", snapread_rollback, NEEDS_STORE, ON_LINE, PIN, NO_WORDS, "--ref R|--run-id ID|--offset N", "makes an older snapshot the current one"},
    {"cleanup", snapread_cleanup, NEEDS_STORE, ON_LINE, CLEANUP, NO_WORDS, "[--dry-run] [--keep-last N] [--older-than 7d] [--orphan-age 1d]", "deletes what no kept snapshot needs"},
    {"verify", snapread_verify, NEEDS_STORE, ON_LINE, VERIFY | PIN, NO_WORDS, "[--shallow]", "checks that every shard is there, whole and well formed"},
    {"repl", snapread_repl, NEEDS_READER, ON_LINE, VALUES, NO_WORDS, "", "a shell for all this"},
    {"refresh", snapread_refresh, NEEDS_READER, IN_SHELL, 0, NO_WORDS, "", "switches to what was published since"},
    {"use", snapread_use, NEEDS_READER, IN_SHELL, PIN | LATEST, NO_WORDS, "--ref R|--run-id ID|--offset N|--latest", "switches to another snapshot"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const struct command *find_command(const char *name, enum where where)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if ((commands[i].where & where) && strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

/* The options of a command; chosen has room for all groups. A command knows no others: "rollback --dry-run" must not roll back. The shell has its store and its reader, so its lines say nothing about them. */
static struct cliargs line_of(const struct command *c, enum where where, const char *name, const char *help, struct cliargs_group *chosen)
{
    unsigned has = c->has | SHOW;
    size_t n = 0;
    if (where == ON_LINE) has |= S3 | (c->needs == NEEDS_READER ? READER | PIN : 0u);
    for (size_t i = 0; i < N_GROUPS; i++)
        if (has & 1u << i) chosen[n++] = groups[i];
    return (struct cliargs){.command = name, .help = help, .groups = chosen, .n_groups = n, .dash_is_word = true};
}

/* words has room for argc. */
static bool read_args(const struct command *c, struct snapread_args *a, const struct cliargs *line, int argc, char **argv)
{
    if (!cliargs_read(line, a, argc, argv, a->words, &a->n_words)) return false;
    if (!a->url && a->n_words == 0) return cliargs_refuse(line, "the URL of the snapshots is needed", "");
    if (!a->url) {
        a->url = *a->words++;
        a->n_words--;
    }
    if (a->n_words > (size_t)c->words_max) return cliargs_refuse(line, "not expected here: ", a->words[c->words_max]);
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

static int show_help(const struct command *c, const struct cliargs *line)
{
    printf("usage: sherd snapshot %s URL%s%s\n\n%s.\n\nURL is where the snapshots are: s3://bucket/prefix or file:///folder.\n\nOptions:\n", c->name, *c->arguments ? " " : "", c->arguments, c->help);
    cliargs_help(line, stdout);
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

int snapshot_read_run(int argc, char **argv)
{
    const struct command *c = argc ? find_command(argv[0], ON_LINE) : NULL;
    char name[32], help[64];
    if (!c) return -1;
    struct cliargs_group chosen[N_GROUPS];
    snprintf(name, sizeof name, "snapshot %s", c->name);
    snprintf(help, sizeof help, "sherd snapshot %s --help", c->name);
    struct cliargs line = line_of(c, ON_LINE, name, help, chosen);
    if (cliargs_asks_help(argc, argv)) return show_help(c, &line);
    const char **words = mem_alloc((size_t)argc * sizeof *words);
    struct snapread_args a = {.words = words, .reader = {.size = sizeof a.reader}};
    int code = read_args(c, &a, &line, argc - 1, argv + 1) ? run(c, &a) : EXIT_USAGE;
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
    struct cliargs_group chosen[N_GROUPS];
    struct cliargs line = line_of(c, IN_SHELL, c->name, "help", chosen);
    int code = EXIT_USAGE;
    r->args = &a;
    if (read_args(c, &a, &line, argc - 1, argv + 1)) code = c->run(r);
    r->args = outer;
    mem_free(words);
    return code;
}
