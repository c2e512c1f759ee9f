/* The program `sherd` and its subcommands.
 * Exit codes: cli/subcommand.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "cli/command_docs.h"
#include "cli/subcommand.h"
#include "cluster/raftlib.h"
#include "command/command.h"
#include "server/config.h"
#include "server/options.h"
#include "server/server.h"

struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv); /* what follows the name */
    const char *help;
};

/* Writes a page to standard output and frees it. */
static int show(struct buf *page)
{
    bool written = fwrite(page->p, 1, page->len, stdout) == page->len && fflush(stdout) == 0;
    buf_fini(page);
    return written ? EXIT_WELL : EXIT_TROUBLE;
}

static int serve_with(struct config *cfg, enum config_outcome outcome, const struct buf *error)
{
    struct buf page = {0};
    switch (outcome) {
    case CONFIG_SHOW_HELP: options_help(&page); return show(&page);
    case CONFIG_SHOW_MARKDOWN: options_markdown(&page); return show(&page);
    case CONFIG_CHECKED: puts("configuration is good"); return EXIT_WELL;
    case CONFIG_READY: return server_run(cfg) == 0 ? EXIT_WELL : EXIT_TROUBLE;
    case CONFIG_BAD: break;
    }
    fprintf(stderr, "sherd: %.*s\n", (int)error->len, error->p);
    return EXIT_USAGE;
}

int serve_run(int argc, char **argv)
{
    struct config cfg;
    struct buf error = {0};
    int code = serve_with(&cfg, config_load(&cfg, argc, argv, environ, &error), &error);
    config_fini(&cfg);
    buf_fini(&error);
    return code;
}

static int run_commands(int argc, char **argv)
{
    bool markdown = argc == 1 && strcmp(argv[0], "--markdown") == 0;
    if (argc && !markdown) {
        fprintf(stderr, "sherd: usage: sherd commands [--markdown]\n");
        return EXIT_USAGE;
    }
    struct command_table *table = server_commands();
    struct buf page = {0};
    if (markdown)
        command_docs_markdown(table, &page);
    else
        command_docs_plain(table, &page);
    command_table_free(table);
    return show(&page);
}

static int run_version(int argc, char **argv)
{
    char raft[RAFTLIB_TEXT_MAX];
    printf("sherd %s (speaks Redis %s; libraft %s; build %s; %s)\n", SHERD_VERSION, REDIS_VERSION, raftlib_version(raft), SHERD_BUILD, __VERSION__);
    return EXIT_WELL;
}

static int run_help(int argc, char **argv);

static const struct subcommand subcommands[] = {
    {"serve", serve_run, "start a server; `sherd serve --help` has its options"},
    {"cluster", cluster_run, "start, watch and change a cluster of several nodes; `sherd cluster --help`"},
    {"dump", dumptool_run, "look into dumps and logs: info, verify, export; `sherd dump --help`"},
    {"import", import_run, "bring a dump of Redis into a data directory or a server; `sherd import --help`"},
    {"snapshot", snapshot_run, "read and keep published snapshots; `sherd snapshot --help`"},
    {"commands", run_commands, "list the commands that a server answers"},
    {"version", run_version, "version and build"},
    {"help", run_help, "this text"},
};

static int run_help(int argc, char **argv)
{
    puts("sherd: a sharded key-value server that any Redis client can use\n\nusage: sherd SUBCOMMAND [options]\n");
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) printf("  %-10s %s\n", subcommands[i].name, subcommands[i].help);
    return EXIT_WELL;
}

/* --version and --help are understood as well as the subcommands of these names. */
static bool is_called(const struct subcommand *s, const char *word)
{
    if (strncmp(word, "--", 2) == 0 && (s->run == run_version || s->run == run_help)) word += 2;
    return strcmp(word, s->name) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        run_help(0, NULL);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        if (is_called(&subcommands[i], argv[1])) return subcommands[i].run(argc - 2, argv + 2);
    }
    fprintf(stderr, "sherd: unknown subcommand '%s'; see `sherd help`\n", argv[1]);
    return EXIT_USAGE;
}
