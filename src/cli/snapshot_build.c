/* sherd snapshot build: from rows to a published snapshot.
 *
 * The build runs on a thread of its own; this one shows how far it is and waits for signals. The first SIGINT or SIGTERM asks the build to end: it writes its run record as failed, and nothing
 * of it becomes visible. The second one ends the program at once. */
#include "cli/snapshot_build.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "cel/cel.h"
#include "cli/cliargs.h"
#include "cli/progress.h"
#include "cli/subcommand.h"
#include "object/object.h"
#include "snapshot/build.h"
#include "snapshot/inputnet.h"
#include "store/store.h"

enum { BAD_ROWS_SHOWN = 20, DRAW_MS = 100 };

struct args {
    const char *to, *from;
    const char *key, *value, *cel, *tmp, *run_id, *separator;
    struct cliargs_list value_json, columns, tokens;
    const char **inputs;
    size_t n_inputs;
    bool has_tokens;
    bool infer, reuse, no_reuse, no_sidecars, skip_other_types;
    int encoding, format, bad_rows; /* places in the choices */
    bool has_encoding;
    uint64_t shards, max_keys, page_size, jobs, memory, db;
    struct cliargs_login login;
    struct object_options objects;
};

/* ---- the command line */

static const char *const encodings[] = {"u64be", "u32be", "utf8", "raw", NULL};
static const char *const formats[] = {"auto", "csv", "jsonl", "dump", "rdb", NULL};
static const char *const treatments[] = {"fail", "skip", NULL};

#define AT(field) offsetof(struct args, field)

static const struct cliargs_option options[] = {
    {"--to", CLIARGS_WORD, AT(to), "URL", "where to publish: s3://bucket/prefix or file:///folder", NULL, 0, 0},
    {"--shards", CLIARGS_U64, AT(shards), "N", "so many shards, by hash of the key", NULL, BUILD_SHARDS_MAX, 0},
    {"--max-keys-per-shard", CLIARGS_U64, AT(max_keys), "M", "as many shards as it takes for M rows in each on average", NULL, 0, 0},
    {"--key-encoding", CLIARGS_CHOICE, AT(encoding), "ENC", "u64be, u32be, utf8 or raw; default u64be, of dumps and servers raw", encodings, 0, AT(has_encoding)},
    {"--key", CLIARGS_WORD, AT(key), "FIELD", "the key; default \"key\"", NULL, 0, 0},
    {"--value", CLIARGS_WORD, AT(value), "FIELD", "the value; default \"value\"", NULL, 0, 0},
    {"--value-json", CLIARGS_COMMAS, AT(value_json), "F1,F2", "the value is a JSON object of these fields", NULL, 0, 0},
    {"--cel", CLIARGS_WORD, AT(cel), "EXPR", "shards by a CEL expression: its result is the shard, or a routing value", NULL, 0, 0},
    {"--cel-column", CLIARGS_REPEATED, AT(columns), "NAME:TYPE", "a field that the expression uses: int, uint, double, bool, string, bytes; may be repeated", NULL, 0, 0},
    {"--routing-values", CLIARGS_COMMAS, AT(tokens), "A,B,C", "results of the expression: the first is shard 0", NULL, 0, AT(has_tokens)},
    {"--infer-routing-values", CLIARGS_FLAG, AT(infer), NULL, "the routing values are all results that occur, sorted", NULL, 0, 0},
    {"--page-size", CLIARGS_AUTO, AT(page_size), "SIZE", "auto, or 4096 to 65536; default auto", NULL, 65536, 0},
    {"--jobs", CLIARGS_U64, AT(jobs), "J", "threads; default one per processor", NULL, 1024, 0},
    {"--memory", CLIARGS_BYTES, AT(memory), "BYTES", "for sorting; default 256mb", NULL, 0, 0},
    {"--tmp", CLIARGS_WORD, AT(tmp), "DIR", "for temporary files; default TMPDIR, then /tmp", NULL, 0, 0},
    {"--format", CLIARGS_CHOICE, AT(format), "FORMAT", "of the inputs: csv, jsonl, dump or rdb; default by name, then by content", formats, 0, 0},
    {"--separator", CLIARGS_WORD, AT(separator), "C", "of CSV; default a comma, of .tsv files a tab", NULL, 0, 0},
    {"--bad-rows", CLIARGS_CHOICE, AT(bad_rows), "fail|skip", "a row that is not in order ends the build (default), or is told and left out", treatments, 0, 0},
    {"--from", CLIARGS_WORD, AT(from), "HOST:PORT", "the string keys of a running Sherd, as they are at one moment; of any other server, by SCAN, not at one", NULL, 0, 0},
    {"--db", CLIARGS_U64, AT(db), "N", "database of dumps and servers; default 0", NULL, STORE_DBS - 1, 0},
    {"--skip-other-types", CLIARGS_FLAG, AT(skip_other_types), NULL, "keys that are no strings are left out; else they are bad rows", NULL, 0, 0},
    {"--reuse", CLIARGS_FLAG, AT(reuse), NULL, "shards that are unchanged since the snapshot before are not uploaded again: the default", NULL, 0, 0},
    {"--no-reuse", CLIARGS_FLAG, AT(no_reuse), NULL, "all shards are uploaded", NULL, 0, 0},
    {"--no-sidecars", CLIARGS_FLAG, AT(no_sidecars), NULL, "without the small files that make ranged reads fast", NULL, 0, 0},
    {"--run-id", CLIARGS_WORD, AT(run_id), "ID", "default a random one", NULL, 0, 0},
};

static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0), CLIARGS_GROUP(cliargs_login, AT(login)), CLIARGS_GROUP(cliargs_s3, AT(objects))};
static const struct cliargs line = {.command = "snapshot build", .help = "sherd snapshot build --help", .groups = groups, .n_groups = sizeof groups / sizeof groups[0]};

static int show_help(void)
{
    puts("usage: sherd snapshot build --to URL (--shards N | --max-keys-per-shard M | --cel EXPR --cel-column NAME:TYPE) [options] INPUT...\n"
         "\n"
         "INPUT is a CSV file with a header, a file of JSON lines, a dump of Sherd (.dump) or of Redis (.rdb), a data directory, or - for standard\n"
         "input. Of rows with the same key the last one counts. The result is one line of JSON.\n");
    cliargs_help(&line, stdout);
    puts("\nExit status: 0 published, 1 not, for the reason given, 2 the command line is wrong, 3 published without the rows that were named.");
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

static bool usage(const char *what, const char *word) { return cliargs_refuse(&line, what, word); }

/* a->inputs has room for argc. */
static bool read_args(struct args *a, int argc, char **argv)
{
    if (!cliargs_read(&line, a, argc, argv, a->inputs, &a->n_inputs)) return false;
    if (!a->to) return usage("--to is missing", "");
    if (a->from && a->n_inputs) return usage("--from and inputs exclude each other", "");
    if (!a->from && !a->n_inputs) return usage("an input is missing; - is standard input", "");
    if (a->value && a->value_json.n) return usage("--value and --value-json exclude each other", "");
    if (a->cel && !a->columns.n) return usage("--cel needs --cel-column for what it uses", "");
    if (!a->cel && (a->columns.n || a->has_tokens || a->infer)) return usage("--cel-column and routing values are for --cel", "");
    if (a->has_tokens && a->infer) return usage("--routing-values and --infer-routing-values exclude each other", "");
    if (a->cel && a->max_keys) return usage("--cel and --max-keys-per-shard exclude each other", "");
    if (!a->cel && !a->shards == !a->max_keys) return usage("--shards, --max-keys-per-shard or --cel is needed, one of them", "");
    if (a->reuse && a->no_reuse) return usage("--reuse and --no-reuse exclude each other", "");
    if (a->separator && strlen(a->separator) != 1) return usage("the separator is one character", "");
    return true;
}

/* ---- from arguments to options */

struct task {
    struct args *args;
    struct input_options input_options;
    struct inputnet_server server;
    enum inputnet_way way; /* of --from */
    struct router_column columns[CLIARGS_LIST_MAX];
    const char *wanted[CLIARGS_LIST_MAX]; /* columns that rows must bring */
    int64_t ints[CLIARGS_LIST_MAX];
    struct slice texts[CLIARGS_LIST_MAX];
    struct router_cel cel;
    struct object_store *store;
    struct input *input;
    struct build_options build;
    struct build_progress progress;
    struct build_result result;
    struct buf error;
    atomic_bool cancel, done;
    int rc;
    pthread_mutex_t lock; /* standard error, and: */
    struct progress bar;
    uint64_t bad_rows;
};

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool set_fields(struct task *t)
{
    struct args *a = t->args;
    struct input_fields *f = &t->input_options.fields;
    qsort(a->value_json.words, a->value_json.n, sizeof *a->value_json.words, by_text);
    for (size_t i = 1; i < a->value_json.n; i++)
        if (strcmp(a->value_json.words[i - 1], a->value_json.words[i]) == 0) return usage("twice in --value-json: ", a->value_json.words[i]);
    *f = (struct input_fields){.key = a->key, .value = a->value, .json = a->value_json.words, .n_json = a->value_json.n, .columns = t->wanted};
    bool key_only = a->columns.n == 1 && slice_eq(t->columns[0].name, SLICE("key"));
    for (size_t i = 0; i < a->columns.n && !key_only; i++) t->wanted[f->n_columns++] = a->columns.words[i];
    return true;
}

/* "name:type"; the words are cut there. */
static bool set_columns(struct task *t)
{
    struct cliargs_list *l = &t->args->columns;
    for (size_t i = 0; i < l->n; i++) {
        char *colon = strrchr((char *)(uintptr_t)l->words[i], ':');
        if (!colon || colon == l->words[i]) return usage("--cel-column is NAME:TYPE, not ", l->words[i]);
        *colon = '\0';
        t->columns[i] = (struct router_column){slice_str(l->words[i]), slice_str(colon + 1)};
    }
    return true;
}

/* Whether the expression gives integers: then routing values are integers. */
static bool gives_integers(const struct task *t)
{
    struct cel_variable variables[CLIARGS_LIST_MAX];
    struct cel_error why;
    for (uint32_t i = 0; i < t->cel.n_columns; i++) variables[i] = (struct cel_variable){t->columns[i].name, t->columns[i].type};
    struct cel_program *p = cel_compile(&(struct cel_env){.variables = variables, .count = t->cel.n_columns}, t->cel.expr, &why);
    bool are = p && (cel_program_kind(p) == CEL_INT || cel_program_kind(p) == CEL_UINT);
    cel_program_free(p);
    return are;
}

static bool set_tokens(struct task *t)
{
    const struct cliargs_list *l = &t->args->tokens;
    bool ints = gives_integers(t);
    t->cel.tokens = ints ? ROUTER_TOKENS_INT : ROUTER_TOKENS_TEXT;
    t->cel.ints = t->ints;
    t->cel.texts = t->texts;
    t->cel.n_tokens = (uint32_t)l->n;
    for (size_t i = 0; i < l->n; i++) {
        t->texts[i] = slice_str(l->words[i]);
        if (ints && !num_parse_i64(t->texts[i], &t->ints[i])) return usage("the expression gives integers, and this routing value is none: ", l->words[i]);
    }
    return true;
}

static bool set_cel(struct task *t)
{
    const struct args *a = t->args;
    if (!a->cel) return true;
    t->cel = (struct router_cel){.expr = slice_str(a->cel), .columns = t->columns, .n_columns = (uint32_t)a->columns.n};
    t->build.cel = &t->cel;
    return !a->has_tokens || set_tokens(t);
}

static enum snapkey_encoding default_encoding(const struct task *t)
{
    const struct args *a = t->args;
    if (a->from || a->format == INPUT_DUMP || a->format == INPUT_RDB) return SNAPKEY_RAW;
    for (size_t i = 0; i < a->n_inputs; i++)
        if (input_is_dump(a->inputs[i])) return SNAPKEY_RAW;
    return SNAPKEY_U64BE;
}

static void set_build(struct task *t)
{
    const struct args *a = t->args;
    struct build_options *b = &t->build;
    b->key_encoding = a->has_encoding ? (enum snapkey_encoding)a->encoding : default_encoding(t);
    b->key_col = a->key;
    b->shards = (uint32_t)a->shards;
    b->max_keys_per_shard = a->max_keys;
    b->infer = a->infer;
    b->page_size = (uint32_t)a->page_size;
    b->jobs = (uint32_t)a->jobs;
    b->memory_bytes = a->memory;
    b->tmp_dir = a->tmp;
    b->no_reuse = a->no_reuse;
    b->no_sidecars = a->no_sidecars;
    b->skip_bad_rows = a->bad_rows;
    b->run_id = a->run_id;
    b->cancel = &t->cancel;
    b->progress = &t->progress;
    t->input_options.format = (enum input_format)a->format;
    t->input_options.separator = a->separator ? a->separator[0] : 0;
    t->input_options.db = (uint16_t)a->db;
    t->input_options.skip_other_types = a->skip_other_types;
    t->input_options.now_ms = clock_unix_ms();
    t->input_options.open_dir = snapshot_dir_open;
    t->input_options.cancel = &t->cancel;
}

/* A misspelled file shows before anything is begun. */
static bool check_inputs(struct task *t)
{
    const struct args *a = t->args;
    for (size_t i = 0; i < a->n_inputs; i++) {
        if (strcmp(a->inputs[i], "-") == 0 || access(a->inputs[i], R_OK) == 0) continue;
        fprintf(stderr, "sherd: %s: %s\n", a->inputs[i], strerror(errno));
        return false;
    }
    return true;
}

static void tell_way(const struct task *t)
{
    if (t->way == INPUTNET_SCAN_OTHER) fprintf(stderr, "sherd: %s: source is not a sherd server: read by SCAN, not at one cut\n", t->args->from);
    if (t->way == INPUTNET_SCAN_SNAPSHOT) fprintf(stderr, "sherd: %s: source serves a snapshot: read by SCAN, not at one cut if it switches meanwhile\n", t->args->from);
}

static bool open_all(struct task *t)
{
    char why[OBJECT_DETAIL_BYTES];
    const struct args *a = t->args;
    if (!check_inputs(t)) return false;
    if (object_open(&t->store, a->to, &a->objects, why) != 0) {
        fprintf(stderr, "sherd: %s: %s\n", a->to, why);
        return false;
    }
    t->server = (struct inputnet_server){.address = a->from, .user = a->login.user, .password = cliargs_password(&a->login)};
    t->input = a->from ? inputnet_open(&t->server, &t->input_options, &t->way, &t->error) : input_chain(a->inputs, a->n_inputs, &t->input_options);
    if (!t->input) fprintf(stderr, "sherd: %.*s\n", (int)t->error.len, t->error.p);
    else if (a->from) tell_way(t);
    t->build.store = t->store;
    t->build.input = t->input;
    return t->input != NULL;
}

/* ---- while it runs */

static void on_bad_row(void *arg, struct slice why)
{
    struct task *t = arg;
    if (!t->args->bad_rows) return; /* it is the error of the build */
    pthread_mutex_lock(&t->lock);
    progress_end(&t->bar);
    struct buf text = {0};
    input_add_printable(&text, why);
    if (t->bad_rows++ < BAD_ROWS_SHOWN) fprintf(stderr, "sherd: left out: %.*s\n", (int)text.len, text.p);
    else if (t->bad_rows == BAD_ROWS_SHOWN + 1) fputs("sherd: left out: more rows, which are only counted\n", stderr);
    buf_fini(&text);
    pthread_mutex_unlock(&t->lock);
}

static void *run_build(void *arg)
{
    struct task *t = arg;
    t->rc = build_run(&t->build, &t->result, &t->error);
    atomic_store(&t->done, true);
    return NULL;
}

static void draw(struct task *t, int *shown)
{
    static const char *const names[] = {"read", "write", "publish", "publish"};
    int phase = atomic_load(&t->progress.phase);
    pthread_mutex_lock(&t->lock);
    if (phase != *shown) {
        progress_end(&t->bar);
        progress_begin(&t->bar, names[phase], 0, PROGRESS_BYTES);
        *shown = phase;
    }
    t->bar.total = atomic_load(&t->progress.total_bytes);
    progress_set(&t->bar, atomic_load(&t->progress.done_bytes));
    pthread_mutex_unlock(&t->lock);
}

/* Until the build is over. Signals are blocked everywhere and taken here. */
static void watch(struct task *t, const sigset_t *signals)
{
    const struct timespec moment = {.tv_nsec = DRAW_MS * 1000000};
    int shown = -1;
    while (!atomic_load(&t->done)) {
        draw(t, &shown);
        if (sigtimedwait(signals, NULL, &moment) < 0) continue;
        if (atomic_load(&t->cancel)) _exit(EXIT_TROUBLE);
        atomic_store(&t->cancel, true);
        pthread_mutex_lock(&t->lock);
        progress_end(&t->bar);
        fputs("sherd: interrupted; the run record is written, nothing becomes visible (once more ends at once)\n", stderr);
        pthread_mutex_unlock(&t->lock);
    }
    progress_end(&t->bar);
}

static int report(struct task *t)
{
    const struct build_result *r = &t->result;
    if (t->rc != 0) {
        fprintf(stderr, "sherd: nothing was published: %.*s\n", (int)t->error.len, t->error.p);
        return t->rc == ERR_SNAPSHOT_OPTIONS ? EXIT_USAGE : EXIT_TROUBLE;
    }
    json_t *doc = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I}", "op", "build", "run_id", r->run_id, "manifest_ref", r->manifest_ref,
                            "run_ref", r->run_ref, "num_dbs", (json_int_t)r->num_dbs, "shards_written", (json_int_t)r->shards_written, "shards_reused", (json_int_t)r->shards_reused, "rows",
                            (json_int_t)r->rows, "keys", (json_int_t)r->keys, "bytes", (json_int_t)r->bytes, "uploaded_bytes", (json_int_t)r->uploaded_bytes, "bad_rows",
                            (json_int_t)r->bad_rows, "left_out", (json_int_t)r->left_out, "retries", (json_int_t)r->retries, "guard",
                            r->guard == PUBLISH_BY_STORE ? "store" : "reread", "read_ms", (json_int_t)(r->read_us / 1000), "write_ms", (json_int_t)(r->write_us / 1000), "publish_ms",
                            (json_int_t)(r->publish_us / 1000));
    if (t->args->from) json_object_set_new(doc, "one_cut", json_boolean(t->way == INPUTNET_CUT));
    char *text = doc ? json_dumps(doc, 0) : NULL;
    bool written = text && puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    json_decref(doc);
    if (!written) return EXIT_TROUBLE;
    return r->bad_rows ? EXIT_PARTLY : EXIT_WELL;
}

static int run(struct task *t)
{
    sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (!open_all(t)) return EXIT_TROUBLE;
    if (pthread_create(&thread, NULL, run_build, t) != 0) {
        fputs("sherd: no thread can be started\n", stderr);
        return EXIT_TROUBLE;
    }
    watch(t, &signals);
    pthread_join(thread, NULL);
    return report(t);
}

int snapshot_build_run(int argc, char **argv)
{
    if (cliargs_asks_help(argc, argv)) return show_help();
    struct args *a = mem_zalloc(sizeof *a);
    a->inputs = mem_alloc(((size_t)argc + 1) * sizeof *a->inputs);
    struct task *t = mem_zalloc(sizeof *t);
    t->args = a;
    t->build.on_bad_row = on_bad_row;
    t->build.on_bad_row_arg = t;
    pthread_mutex_init(&t->lock, NULL);
    int code = EXIT_USAGE;
    if (read_args(a, argc, argv) && set_columns(t) && set_fields(t) && set_cel(t)) {
        set_build(t);
        code = run(t);
    }
    input_free(t->input);
    object_close(t->store);
    build_result_fini(&t->result);
    buf_fini(&t->error);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
    mem_free(a->inputs);
    mem_free(a);
    return code;
}
