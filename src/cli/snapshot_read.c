/* sherd snapshot: options and the table of commands that look at what is published. */
#include "cli/snapshot_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
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

enum { FLAG, WORD, NUMBER, BYTES, SECONDS, AGE, CHOICE, CONTEXT };

struct option {
    const char *name;
    int kind;
    size_t at;        /* in struct snapread_args */
    size_t given;     /* a bool that notes that it was given; 0: none */
    const char *help; /* "VALUE text" */
    const char *const *choices;
};

static const char *const outputs[] = {"text", "table", "json", "jsonl", NULL};
static const char *const encodings[] = {"usual", "base64", "hex", "utf8", "raw", NULL};
static const char *const modes[] = {"auto", "download", "range", NULL};
static const char *const styles[] = {"auto", "path", "virtual", NULL};

#define AT(field) offsetof(struct snapread_args, field)

static const struct option options[] = {
    {"--output", CHOICE, AT(output), 0, "FORMAT     text, table, json or jsonl", outputs},
    {"--value-encoding", CHOICE, AT(encoding), 0, "ENC        base64, hex, utf8 or raw; usual: raw as text, else base64", encodings},
    {"--ref", WORD, AT(reader.pin.ref), 0, "REF        read the snapshot of this manifest: URL, or key below the prefix", NULL},
    {"--run-id", WORD, AT(reader.pin.run_id), 0, "ID         read the newest snapshot of this run", NULL},
    {"--offset", NUMBER, AT(reader.pin.offset), AT(reader.pin.by_offset), "N          read the N-th newest snapshot; 0 is the newest", NULL},
    {"--routing-context", CONTEXT, 0, 0, "NAME=VALUE a column of the routing expression; may be repeated", NULL},
    {"--mode", CHOICE, AT(reader.mode), 0, "MODE       auto, download or range", modes},
    {"--cache", WORD, AT(reader.cache_dir), 0, "DIR        where downloads are kept; default ~/.cache/sherd/snapshots", NULL},
    {"--cache-bytes", BYTES, AT(reader.cache_bytes), 0, "BYTES      of unused downloads at most: default 16gb", NULL},
    {"--page-cache", BYTES, AT(reader.page_cache_bytes), 0, "BYTES      memory for ranged reads: default 64mb", NULL},
    {"--auto-shard-bytes", BYTES, AT(reader.auto_shard_bytes), 0, "BYTES      auto reads by ranges if a shard is so large: default 16mb", NULL},
    {"--auto-total-bytes", BYTES, AT(reader.auto_total_bytes), 0, "BYTES      ... or all together: default 2gb", NULL},
    {"--parallel", NUMBER, AT(reader.parallel), 0, "N          requests at once: default 8", NULL},
    {"--strict", FLAG, AT(strict), 0, "           exit status 1 if a key is missing", NULL},
    {"--prefix", WORD, AT(prefix), 0, "TEXT       scan: keys that begin so", NULL},
    {"--start", WORD, AT(start), 0, "KEY        scan: from this key on", NULL},
    {"--after", WORD, AT(after), 0, "KEY        scan: behind this key", NULL},
    {"--end", WORD, AT(end), 0, "KEY        scan: up to this key, without it", NULL},
    {"--limit", NUMBER, AT(limit), AT(has_limit), "N          scan, history: at most so many", NULL},
    {"--shard", NUMBER, AT(shard), AT(has_shard), "N          scan: only this shard", NULL},
    {"--reverse", FLAG, AT(reverse), 0, "           scan: from the end", NULL},
    {"--keys-only", FLAG, AT(keys_only), 0, "           scan: without values", NULL},
    {"--staleness-threshold", SECONDS, AT(staleness_seconds), 0, "SECONDS    health: a snapshot that is older is degraded", NULL},
    {"--dry-run", FLAG, AT(dry_run), 0, "           cleanup: says what it would delete", NULL},
    {"--keep-last", NUMBER, AT(keep_last), 0, "N          cleanup: keeps the newest N snapshots, deletes older ones", NULL},
    {"--older-than", AGE, AT(older_than_us), 0, "AGE        cleanup: deletes only snapshots older than 30m, 24h, 7d", NULL},
    {"--orphan-age", AGE, AT(orphan_age_us), 0, "AGE        cleanup: shards that belong to nothing go after this: default 1d", NULL},
    {"--shallow", FLAG, AT(shallow), 0, "           verify: existence and size only", NULL},
    {"--latest", FLAG, AT(latest), 0, "           use: what is current, and follow it", NULL},
    {"--endpoint", WORD, AT(reader.endpoint), 0, "URL        of the S3 store; else AWS_ENDPOINT_URL", NULL},
    {"--region", WORD, AT(reader.region), 0, "NAME       else AWS_REGION", NULL},
    {"--access-key", WORD, AT(reader.access_key), 0, "KEY        else AWS_ACCESS_KEY_ID, then the AWS files", NULL},
    {"--secret-key", WORD, AT(reader.secret_key), 0, "KEY        else AWS_SECRET_ACCESS_KEY", NULL},
    {"--session-token", WORD, AT(reader.session_token), 0, "TOKEN      else AWS_SESSION_TOKEN", NULL},
    {"--profile", WORD, AT(reader.profile), 0, "NAME       of the AWS files", NULL},
    {"--ca-file", WORD, AT(reader.ca_file), 0, "FILE       certificates to trust", NULL},
    {"--style", CHOICE, AT(reader.path_style), 0, "STYLE      of addressing: auto, path or virtual", styles},
    {"--anonymous", FLAG, AT(reader.anonymous), 0, "           requests are not signed", NULL},
    {"--insecure", FLAG, AT(reader.insecure_tls), 0, "           certificates are not checked", NULL},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static bool read_age(const char *word, int64_t *us)
{
    char *end;
    double v = strtod(word, &end);
    double unit = strcmp(end, "s") == 0 ? 1 : strcmp(end, "m") == 0 ? 60 : strcmp(end, "h") == 0 ? 3600 : strcmp(end, "d") == 0 ? 86400 : 0;
    if (end == word || unit == 0 || !(v >= 0) || v * unit > 1e10) return false;
    *us = (int64_t)(v * unit * 1e6);
    return true;
}

static bool read_choice(const struct option *o, const char *word, void *to)
{
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], word) != 0) continue;
        *(int *)to = i;
        return true;
    }
    return false;
}

static bool read_context(struct snapread_args *a, char *word)
{
    char *equals = strchr(word, '=');
    if (!equals || equals == word || a->n_context == SNAPREAD_CONTEXT_MAX) return false;
    *equals = 0;
    a->names[a->n_context] = word;
    a->values[a->n_context++] = equals + 1;
    return true;
}

static bool read_number(struct snapread_args *a, const struct option *o, const char *word, void *to)
{
    uint64_t v;
    if (!num_parse_u64(slice_str(word), &v)) return false;
    bool is_narrow = o->at == AT(reader.pin.offset) || o->at == AT(reader.parallel);
    if (v > UINT32_MAX && (is_narrow || o->at == AT(shard) || o->at == AT(keep_last))) return false;
    if (is_narrow)
        *(uint32_t *)to = (uint32_t)v;
    else
        *(uint64_t *)to = v;
    if (o->given) *(bool *)((char *)a + o->given) = true;
    return true;
}

static bool read_seconds(const char *word, double *to)
{
    char *end;
    *to = strtod(word, &end);
    return end != word && *end == 0 && *to >= 0;
}

static bool set_option(struct snapread_args *a, const struct option *o, char *word)
{
    void *to = (char *)a + o->at;
    switch (o->kind) {
    case FLAG: *(bool *)to = true; return true;
    case WORD: *(const char **)to = word; return true;
    case NUMBER: return read_number(a, o, word, to);
    case BYTES: return num_parse_bytes(slice_str(word), to);
    case SECONDS: return read_seconds(word, to);
    case AGE: return read_age(word, to);
    case CHOICE: return read_choice(o, word, to);
    default: return read_context(a, word);
    }
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) return &options[i];
    return NULL;
}

/* One word, or an option and its value ("--x y" or "--x=y"); moves *i on. False: it was told what is wrong. */
static bool read_word(struct snapread_args *a, const char *command, int argc, char **argv, int *i)
{
    char *word = argv[(*i)++], *value = NULL;
    if (strncmp(word, "--", 2) != 0) {
        a->words[a->n_words++] = word;
        return true;
    }
    char *equals = strchr(word, '=');
    if (equals) {
        *equals = 0;
        value = equals + 1;
    }
    const struct option *o = find_option(word);
    if (!o) {
        fprintf(stderr, "sherd: %s: unknown option %s\n", command, word);
        return false;
    }
    if (o->kind != FLAG && !value && *i < argc) value = argv[(*i)++];
    if ((o->kind != FLAG) != (value != NULL) || !set_option(a, o, value)) {
        fprintf(stderr, "sherd: %s: %s%s%s is not right\n", command, word, value ? " " : "", value ? value : "");
        return false;
    }
    return true;
}

/* words has room for argc. "--" ends the options: what follows are keys, even if they begin so. */
static bool read_args(struct snapread_args *a, const char *command, int argc, char **argv)
{
    for (int i = 0; i < argc;) {
        if (strcmp(argv[i], "--") == 0) {
            for (i++; i < argc; i++) a->words[a->n_words++] = argv[i];
            break;
        }
        if (!read_word(a, command, argc, argv, &i)) return false;
    }
    const struct sherd_pin *pin = &a->reader.pin;
    if ((pin->ref != NULL) + (pin->run_id != NULL) + pin->by_offset <= 1) return true;
    fprintf(stderr, "sherd: %s: --ref, --run-id and --offset exclude each other\n", command);
    return false;
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
    for (size_t i = 0; i < N_OPTIONS; i++) printf("  %-22s %s\n", options[i].name, options[i].help);
    puts("\nExit status: 0 done, 1 it failed or something is missing or not in order, 2 the command line is wrong.");
    return EXIT_WELL;
}

/* ---- running */

static void set_objects(struct snapread *r)
{
    const struct sherd_options *o = &r->args->reader;
    r->objects = (struct object_options){
        .endpoint = o->endpoint,
        .region = o->region,
        .access_key = o->access_key,
        .secret_key = o->secret_key,
        .session_token = o->session_token,
        .profile = o->profile,
        .ca_file = o->ca_file,
        .style = o->path_style == 1 ? OBJECT_STYLE_PATH : o->path_style == 2 ? OBJECT_STYLE_VIRTUAL : OBJECT_STYLE_AUTO,
        .anonymous = o->anonymous,
        .insecure_tls = o->insecure_tls,
    };
}

struct object_store *snapread_store(struct snapread *r, const char *op)
{
    char error[OBJECT_DETAIL_BYTES];
    if (r->store || object_open(&r->store, r->args->url, &r->objects, error) == 0) return r->store;
    snapread_fail(r, op, NULL, error);
    return NULL;
}

static int run(const struct command *c, struct snapread_args *a)
{
    struct snapread r = {.args = a, .out = stdout};
    struct sherd_error why;
    int code;
    set_objects(&r);
    if (c->needs == NEEDS_READER) r.reader = sherd_reader_open(a->url, &a->reader, &why);
    if (c->needs == NEEDS_READER && !r.reader)
        code = snapread_fail(&r, c->name, NULL, why.text);
    else
        code = c->run(&r);
    sherd_reader_close(r.reader);
    object_close(r.store);
    return code;
}

static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

int snapshot_read_run(int argc, char **argv)
{
    const struct command *c = argc ? find_command(argv[0], ON_LINE) : NULL;
    if (!c) return -1;
    if (asks_help(argc, argv)) return show_help(c);
    const char **words = mem_alloc((size_t)argc * sizeof *words);
    struct snapread_args a = {.words = words, .reader = {.size = sizeof a.reader}};
    int code = EXIT_USAGE;
    if (!read_args(&a, c->name, argc - 1, argv + 1)) {
        fprintf(stderr, "See `sherd snapshot %s --help`.\n", c->name);
    } else if (a.n_words == 0) {
        fprintf(stderr, "sherd: %s: the URL of the snapshots is needed; see `sherd snapshot %s --help`\n", c->name, c->name);
    } else {
        a.url = *a.words++;
        a.n_words--;
        code = run(c, &a);
    }
    mem_free(words);
    return code;
}

int snapread_line(struct snapread *r, int argc, char **argv)
{
    const struct command *c = find_command(argv[0], IN_SHELL);
    if (!c) return -1;
    const char **words = mem_alloc((size_t)argc * sizeof *words);
    struct snapread_args a = {.url = r->args->url, .words = words, .output = r->args->output, .encoding = r->args->encoding, .reader = {.size = sizeof a.reader, .cache_dir = r->args->reader.cache_dir}};
    struct snapread_args *outer = r->args;
    int code = EXIT_USAGE;
    r->args = &a;
    if (read_args(&a, c->name, argc - 1, argv + 1)) code = c->run(r);
    r->args = outer;
    mem_free(words);
    return code;
}
