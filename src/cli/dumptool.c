/* sherd dump: looks at dumps and logs off line, and changes nothing. */
#include "cli/dumptool.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cliargs.h"
#include "cli/subcommand.h"
#include "dump/dumpfile.h"
#include "dump/rdbfile.h"
#include "io/file.h"
#include "io/fileview.h"
#include "log/logdir.h"
#include "log/segment.h"
#include "server/datadir.h"

enum verb { INFO, VERIFY, EXPORT, VERBS };
static const char *const verbs[VERBS] = {"info", "verify", "export"};

struct tool {
    enum verb verb;
    const char *path;
    const char *output; /* NULL: standard output */
    int64_t now_ms;
    uint64_t files, faults;
    struct dumpexport export;
};

static bool trouble(const char *path, const char *what)
{
    fprintf(stderr, "sherd: %s: %s\n", path, what);
    return false;
}

/* ---- one file */

static bool has_ending(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

enum dumptool_format dumptool_format_of(struct slice bytes)
{
    if (rdbfile_is_one(bytes)) return DUMPTOOL_RDB;
    if (bytes.n >= 8 && memcmp(bytes.p, "SHERDDMP", 8) == 0) return DUMPTOOL_DUMP;
    if (bytes.n >= 8 && memcmp(bytes.p, "SHERDWAL", 8) == 0) return DUMPTOOL_SEGMENT;
    return DUMPTOOL_UNKNOWN;
}

/* A file whose first bytes are damaged or missing is still what its name says. */
static enum dumptool_format format_by_name(const char *path)
{
    return has_ending(path, ".dump") ? DUMPTOOL_DUMP : has_ending(path, ".wal") ? DUMPTOOL_SEGMENT : has_ending(path, ".rdb") ? DUMPTOOL_RDB : DUMPTOOL_UNKNOWN;
}

static bool look_at(struct tool *t, const struct dumptool_file *f)
{
    uint64_t faults = 0;
    switch (t->verb) {
    case INFO: return dumpinfo_show(f);
    case VERIFY: faults = dumpverify_file(f); break;
    default: return dumpexport_file(&t->export, f);
    }
    t->faults += faults;
    return faults == 0;
}

static bool do_file(struct tool *t, const char *path)
{
    struct fileview view = {0};
    int rc = fileview_open(&view, &file_disk, path);
    if (rc < 0) return trouble(path, strerror(-rc));
    struct dumptool_file f = {.path = path, .bytes = view.bytes, .format = dumptool_format_of(view.bytes), .now_ms = t->now_ms};
    if (f.format == DUMPTOOL_UNKNOWN) f.format = format_by_name(path);
    t->files++;
    bool good = look_at(t, &f);
    fileview_close(&view);
    return good;
}

/* ---- a layout */

struct layout {
    char path[PATH_MAX];
    uint32_t shards;
    uint64_t seed; /* of the key hash */
    bool has_seed;
};

static bool do_shard_files(struct tool *t, const struct layout *l, uint32_t shard)
{
    char path[LOGDIR_PATH_MAX];
    struct logdir_numbers dumps = {0}, segments = {0};
    int rc = logdir_list_dumps(&file_disk, l->path, shard, &dumps);
    if (rc == 0) rc = logdir_list(&file_disk, l->path, shard, &segments);
    bool good = rc == 0 || trouble(l->path, strerror(-rc));
    for (uint32_t i = 0; i < dumps.n; i++)
        good &= logdir_dump(path, l->path, shard, dumps.v[i]) == 0 && do_file(t, path);
    for (uint32_t i = 0; i < segments.n; i++)
        good &= logdir_segment(path, l->path, shard, segments.v[i]) == 0 && do_file(t, path);
    mem_free(dumps.v);
    mem_free(segments.v);
    return good;
}

static bool do_layout(struct tool *t, const struct layout *l)
{
    if (t->verb == EXPORT && !l->has_seed) return trouble(l->path, "without a dump in it, the file SHERD of its data directory is needed to export it");
    if (t->verb == EXPORT) return dumplayout_export(&t->export, l->path, l->shards, l->seed, t->now_ms);
    bool good = true;
    for (uint32_t i = 0; i < l->shards; i++) good &= do_shard_files(t, l, i);
    return good;
}

/* A layout folder by itself: any of its files says how many shards there are, a dump what the seed is. */
static bool read_layout_facts(struct layout *l, const char *path)
{
    struct fileview view = {0};
    struct dumpfile_header dump;
    struct segment_header segment;
    if (fileview_open(&view, &file_disk, path) < 0) return false;
    bool is_dump = dumpfile_read_header(view.bytes, &dump) == DUMPFILE_GOOD;
    bool is_segment = segment_read_header(view.bytes, &segment) == SEGMENT_GOOD;
    if (is_dump) {
        l->seed = dump.seed;
        l->has_seed = true;
    }
    if (is_dump || is_segment) l->shards = is_dump ? dump.shards : segment.shards;
    fileview_close(&view);
    return is_dump || is_segment;
}

static bool find_layout_facts(struct layout *l)
{
    char path[LOGDIR_PATH_MAX];
    struct logdir_numbers numbers;
    bool found = false;
    enum { SHARDS_MAX = 65535 };
    for (uint32_t shard = 0; !found && shard < SHARDS_MAX; shard++) {
        if (logdir_shard(path, l->path, shard) || access(path, F_OK) != 0) return false;
        if (logdir_list_dumps(&file_disk, l->path, shard, &numbers)) return false;
        for (uint32_t i = 0; !found && i < numbers.n; i++) found = logdir_dump(path, l->path, shard, numbers.v[i]) == 0 && read_layout_facts(l, path);
        mem_free(numbers.v);
        if (found || logdir_list(&file_disk, l->path, shard, &numbers)) return found;
        for (uint32_t i = 0; !found && i < numbers.n; i++) found = logdir_segment(path, l->path, shard, numbers.v[i]) == 0 && read_layout_facts(l, path);
        mem_free(numbers.v);
    }
    return found;
}

/* ---- a directory */

static bool do_data_directory(struct tool *t, const char *path)
{
    struct datadir d;
    struct layout l;
    struct buf error = {0};
    bool in_use = false;
    if (datadir_peek(&d, path, &in_use, &error) < 0) {
        fprintf(stderr, "sherd: %.*s\n", (int)error.len, error.p);
        buf_fini(&error);
        return false;
    }
    if (in_use) fprintf(stderr, "sherd: %s is in use by a server: what is shown is already behind, and files may go while they are read\n", path);
    if (t->verb == INFO)
        printf("%s\n  %-10s data directory, version %d\n  %-10s %" PRIu32 "\n  %-10s %" PRIu32 "\n  %-10s %016" PRIx64 "\n", path, "format", DATADIR_FORMAT, "shards",
               d.shards, "layout", d.layout, "seed", d.seed);
    char *layout = datadir_layout_path(&d, d.layout);
    l = (struct layout){.shards = d.shards, .seed = d.seed, .has_seed = true};
    snprintf(l.path, sizeof l.path, "%s", layout);
    mem_free(layout);
    datadir_close(&d);
    return do_layout(t, &l);
}

/* A layout folder that is still where it belongs. */
static void take_seed_of_parent(struct layout *l)
{
    char parent[PATH_MAX];
    struct datadir d;
    struct buf error = {0};
    bool in_use;
    if (snprintf(parent, sizeof parent, "%s/..", l->path) < (int)sizeof parent && datadir_peek(&d, parent, &in_use, &error) == 0) {
        l->seed = d.seed;
        l->has_seed = true;
        datadir_close(&d);
    }
    buf_fini(&error);
}

static bool do_directory(struct tool *t)
{
    char path[PATH_MAX];
    struct layout l = {0};
    if (snprintf(path, sizeof path, "%s/SHERD", t->path) >= (int)sizeof path) return trouble(t->path, strerror(ENAMETOOLONG));
    if (access(path, F_OK) == 0) return do_data_directory(t, t->path);
    snprintf(l.path, sizeof l.path, "%s", t->path);
    if (!find_layout_facts(&l)) return trouble(t->path, "neither a data directory nor a layout folder of one: no file SHERD, and no shard-0 with a good file");
    if (!l.has_seed) take_seed_of_parent(&l);
    return do_layout(t, &l);
}

/* ---- the command line */

static const struct cliargs_option options[] = {
    {"--output", CLIARGS_WORD, offsetof(struct tool, output), "FILE", "export: there, and not to standard output", NULL, 0, 0},
};
static const struct cliargs_group groups[] = {CLIARGS_GROUP(options, 0)};
static const struct cliargs line = {.command = "dump", .help = "sherd dump --help", .groups = groups, .n_groups = 1};

static int show_help(void)
{
    puts("usage: sherd dump info|verify|export PATH [--output FILE]\n"
         "\n"
         "  info     what a file is: shard, epoch, age, keys, bytes, compression, and whether it is in order\n"
         "  verify   reads everything and checks every checksum; a line \"FILE: at byte N: what\" for each fault\n"
         "  export   the keys as lines of JSON, to standard output or to FILE\n"
         "\n"
         "PATH is a dump (.dump), a segment of a log (.wal), a dump of Redis (.rdb), a data directory, or one of its layout folders.\n"
         "Exporting a directory gives the keys that a server would have after a start on it: its newest good dump, then its log.\n"
         "Exporting a segment gives the ops that are in it. Nothing on disk is ever changed; the directory may be in use.\n");
    cliargs_help(&line, stdout);
    puts("\nExit status: 0 all is in order, 1 something is not or could not be read, 2 the command line is wrong.");
    return fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

static bool find_verb(struct tool *t, const char *word)
{
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(word, verbs[i]) != 0) continue;
        t->verb = (enum verb)i;
        return true;
    }
    return cliargs_refuse(&line, "info, verify or export, not ", word);
}

/* The verb and the path. */
static bool take_words(struct tool *t, const char **words, size_t n)
{
    if (n == 0) return cliargs_refuse(&line, "info, verify or export is needed", "");
    if (!find_verb(t, words[0])) return false;
    if (n != 2) return cliargs_refuse(&line, n == 1 ? "a path is missing" : "one path at a time, and not ", n == 1 ? "" : words[2]);
    if (t->output && t->verb != EXPORT) return cliargs_refuse(&line, "--output is for export", "");
    t->path = words[1];
    return true;
}

static bool parse(struct tool *t, int argc, char **argv)
{
    const char **words = mem_alloc(((size_t)argc + 1) * sizeof *words);
    size_t n;
    bool good = cliargs_read(&line, t, argc, argv, words, &n) && take_words(t, words, n);
    mem_free(words);
    return good;
}

static bool run(struct tool *t)
{
    struct stat st;
    if (stat(t->path, &st) != 0) return trouble(t->path, strerror(errno));
    return S_ISDIR(st.st_mode) ? do_directory(t) : do_file(t, t->path);
}

static bool run_export(struct tool *t)
{
    t->export.to = t->output ? fopen(t->output, "wb") : stdout;
    if (!t->export.to) return trouble(t->output, strerror(errno));
    bool good = run(t);
    dumpexport_flush(&t->export, true);
    if (t->output && fclose(t->export.to) != 0 && !t->export.error) t->export.error = -errno;
    if (t->export.error) good = trouble(t->output ? t->output : "standard output", strerror(-t->export.error));
    else if (isatty(STDERR_FILENO)) fprintf(stderr, "%" PRIu64 " lines\n", t->export.written);
    buf_fini(&t->export.lines);
    return good;
}

/* Files are mapped; a server that works on them may cut one. */
static void on_cut_file(int signal_number)
{
    static const char text[] = "sherd: a file became shorter while it was read: is a server working on it?\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(EXIT_TROUBLE);
    _exit(EXIT_TROUBLE);
}

int dumptool_run(int argc, char **argv)
{
    struct tool t = {.now_ms = clock_unix_ms()};
    if (cliargs_asks_help(argc, argv)) return show_help();
    if (!parse(&t, argc, argv)) return EXIT_USAGE;
    signal(SIGBUS, on_cut_file);
    bool good = t.verb == EXPORT ? run_export(&t) : run(&t);
    if (t.verb == VERIFY) printf("%" PRIu64 " files, %" PRIu64 " faults\n", t.files, t.faults);
    return good && fflush(stdout) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}
