/* sherd import: brings a dump of Redis over.
 *
 * The file is read twice: first to its end, so that a damaged one changes nothing, then into its place. */
#include "cli/import.h"

#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cliargs.h"
#include "cli/progress.h"
#include "cli/subcommand.h"
#include "io/file.h"
#include "io/fileview.h"
#include "store/image.h"
#include "store/store.h"

enum { KINDS_MAX = 8, NAMED_MAX = 20 };

struct left_out {
    const char *what;
    uint64_t n;
};

struct import {
    struct import_options o;
    int64_t now_ms;
    struct fileview view;
    struct progress progress;
    struct left_out left_out[KINDS_MAX];
    uint64_t expired, named;
};

static bool trouble(const char *what, struct buf *error)
{
    fprintf(stderr, "sherd: %s%s%.*s\n", what ? what : "", what ? ": " : "", (int)error->len, error->p);
    error->len = 0;
    return false;
}

/* ---- what is left out */

static void print_key(struct slice key)
{
    for (size_t i = 0; i < key.n; i++) {
        uint8_t c = (uint8_t)key.p[i];
        if (c >= ' ' && c < 0x7f && c != '\\') fputc(c, stderr);
        else fprintf(stderr, "\\x%02x", c);
    }
}

static void leave_out(struct import *m, const struct rdbfile_item *item, const char *what)
{
    struct left_out *l = m->left_out;
    while (l->what && l->what != what) l++;
    l->what = what;
    l->n++;
    if (m->named++ >= NAMED_MAX) return;
    progress_end(&m->progress);
    fprintf(stderr, "sherd: left out: %s", what);
    if (item->key.n) {
        fprintf(stderr, " in database %" PRIu64 ": ", item->db);
        print_key(item->key);
    }
    fputc('\n', stderr);
}

static uint64_t count_left_out(const struct import *m)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < KINDS_MAX; i++) n += m->left_out[i].n;
    return n;
}

/* ---- reading */

static bool is_asked_for(const struct import *m, const struct rdbfile_item *item) { return m->o.db < 0 || (uint64_t)m->o.db == item->db; }

/* Reads the file to its end: whether it is in order, and what will be left out. */
static bool survey(struct import *m, struct buf *error)
{
    static const char not_valid[] = "empty or invalid value";
    struct rdbfile_reader r;
    struct rdbfile_item item;
    int rc = rdbfile_reader_init(&r, m->view.bytes);
    progress_begin(&m->progress, "check", m->view.bytes.n, PROGRESS_BYTES);
    while (rc >= 0 && (rc = rdbfile_next(&r, &item)) == 1) {
        progress_set(&m->progress, item.at);
        if (item.kind == RDBFILE_LEFT_OUT && (!item.key.n || is_asked_for(m, &item))) leave_out(m, &item, item.what);
        if (item.kind != RDBFILE_KEY || !is_asked_for(m, &item)) continue;
        if (!image_valid(item.image)) leave_out(m, &item, not_valid);
        else if (m->o.into_db < 0 && item.db >= STORE_DBS) {
            buf_printf(error, "at byte %zu: a key of database %" PRIu64 ", but Sherd has %d; --db %" PRIu64 " --into-db M brings it elsewhere", item.at, item.db, STORE_DBS, item.db);
            break;
        }
    }
    progress_end(&m->progress);
    if (rc < 0) buf_printf(error, "at byte %zu: %s", r.fault_at, r.fault);
    if (rc == 0 && !r.is_summed) fprintf(stderr, "sherd: %s has no checksum: damage would not be noticed\n", m->o.file);
    rdbfile_reader_fini(&r);
    return rc == 0;
}

static bool load(struct import *m, struct import_sink *sink, struct buf *error)
{
    struct rdbfile_reader r;
    struct rdbfile_item item;
    int rc = rdbfile_reader_init(&r, m->view.bytes), sunk = 0;
    progress_begin(&m->progress, "import", m->view.bytes.n, PROGRESS_BYTES);
    while (rc >= 0 && sunk == 0 && (rc = rdbfile_next(&r, &item)) == 1) {
        progress_set(&m->progress, item.at);
        if (item.kind != RDBFILE_KEY || !is_asked_for(m, &item) || !image_valid(item.image)) continue;
        if (item.expiry_ms && item.expiry_ms <= m->now_ms) {
            m->expired++;
            continue;
        }
        sunk = sink->put(sink, (uint16_t)(m->o.into_db < 0 ? (int64_t)item.db : m->o.into_db), &item, error);
    }
    if (rc == 0) sunk = sink->finish(sink, error);
    progress_end(&m->progress);
    if (rc < 0) buf_printf(error, "%s changed while it was read: at byte %zu: %s", m->o.file, r.fault_at, r.fault);
    rdbfile_reader_fini(&r);
    return rc >= 0 && sunk == 0;
}

static void report(const struct import *m, const struct import_sink *sink)
{
    printf("%" PRIu64 " keys imported", sink->put_keys);
    if (m->expired) printf(", %" PRIu64 " had expired", m->expired);
    if (sink->existing) printf(", %" PRIu64 " were there already", sink->existing);
    for (unsigned i = 0; i < KINDS_MAX && m->left_out[i].what; i++) printf(", left out: %" PRIu64 " x %s", m->left_out[i].n, m->left_out[i].what);
    putchar('\n');
}

static bool import_file(struct import *m, struct buf *error)
{
    if (!survey(m, error)) return trouble(m->o.file, error);
    if (m->o.strict && count_left_out(m)) {
        buf_add_str(error, "--strict: nothing was imported");
        return trouble(NULL, error);
    }
    struct import_sink *sink = m->o.data ? importdir_open(&m->o, m->now_ms, error) : importnet_open(&m->o, error);
    if (!sink) return trouble(NULL, error);
    bool loaded = load(m, sink, error);
    if (loaded) report(m, sink);
    else trouble(NULL, error);
    sink->free(sink);
    return loaded;
}

/* ---- the command line */

#define AT(field) offsetof(struct import_options, field)

static const struct cliargs_option options[] = {
    {"--data", CLIARGS_WORD, AT(data), "DIR", "into a data directory that is new or empty; no server may run on it", NULL, 0, 0},
    {"--workers", CLIARGS_U32, AT(workers), "N", "its shards; as many as a server with the same option has (0, the default: one per core)", NULL, 1024, 0},
    {"--to", CLIARGS_WORD, AT(to), "HOST:PORT", "into a running server", NULL, 0, 0},
    {"--replace", CLIARGS_FLAG, AT(replace), NULL, "keys that the server has already are replaced", NULL, 0, 0},
    {"--skip-existing", CLIARGS_FLAG, AT(skip_existing), NULL, "keys that the server has already stay as they are; without either they are an error", NULL, 0, 0},
    {"--db", CLIARGS_I64, AT(db), "N", "only the keys of database N", NULL, 0, 0},
    {"--into-db", CLIARGS_I64, AT(into_db), "M", "puts them into database M; needs --db", NULL, STORE_DBS - 1, 0},
    {"--strict", CLIARGS_FLAG, AT(strict), NULL, "stop, before anything is changed, if there is something that Sherd has no type for", NULL, 0, 0},
};

static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0), CLIARGS_GROUP(cliargs_login, AT(login))};
static const struct cliargs line = {.command = "import", .help = "sherd import --help", .groups = groups, .n_groups = sizeof groups / sizeof groups[0]};

static int show_help(void)
{
    puts("usage: sherd import FILE (--data DIR [--workers N] | --to HOST:PORT [--user NAME] [--password TEXT]) [options]\n"
         "\n"
         "FILE is a dump.rdb of Redis 2.4 to 7.4.\n");
    cliargs_help(&line, stdout);
    puts("\n"
         "Keys whose time has run out are not imported. Streams, module data, function libraries and hashes with expiring fields are counted,\n"
         "named and left out.\n"
         "\n"
         "Exit status: 0 everything was imported, 1 nothing or not all of it, for the reason given, 2 the command line is wrong,\n"
         "3 everything but what was named as left out.");
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

static bool check(const struct import_options *o)
{
    bool for_server = o->login.user || o->login.password || o->replace || o->skip_existing;
    if (!o->data == !o->to) return cliargs_refuse(&line, "--data or --to is needed, one of them", "");
    if (o->data && for_server) return cliargs_refuse(&line, "--user, --password, --replace and --skip-existing are for --to", "");
    if (o->to && o->workers) return cliargs_refuse(&line, "--workers is for --data", "");
    if (o->replace && o->skip_existing) return cliargs_refuse(&line, "--replace and --skip-existing exclude each other", "");
    if (o->into_db >= 0 && o->db < 0) return cliargs_refuse(&line, "--into-db needs --db", "");
    return true;
}

static bool parse(struct import_options *o, int argc, char **argv)
{
    const char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    size_t n;
    bool good = cliargs_read(&line, o, argc, argv, words, &n);
    if (good && n != 1) good = cliargs_refuse(&line, n ? "one file at a time, and not " : "a file is missing", n ? words[1] : "");
    if (good) o->file = words[0];
    mem_free(words);
    return good && check(o);
}

static uint32_t usable_cores(void)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 1;
}

int import_run(int argc, char **argv)
{
    struct import m = {.o = {.db = -1, .into_db = -1}, .now_ms = clock_unix_ms()};
    struct buf error = {0};
    if (cliargs_asks_help(argc, argv)) return show_help();
    if (!parse(&m.o, argc, argv)) return EXIT_USAGE;
    if (m.o.workers == 0) m.o.workers = usable_cores();
    m.o.login.password = cliargs_password(&m.o.login);
    bool done = false;
    int rc = fileview_open(&m.view, &file_disk, m.o.file);
    if (rc < 0) fprintf(stderr, "sherd: %s: %s\n", m.o.file, strerror(-rc));
    else done = import_file(&m, &error);
    fileview_close(&m.view);
    buf_fini(&error);
    if (!done || fflush(stdout) != 0) return EXIT_TROUBLE;
    return count_left_out(&m) ? EXIT_PARTLY : EXIT_WELL;
}
