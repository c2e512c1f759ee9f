/* sherd snapshot: building, reading and keeping published snapshots. */
#include <stdio.h>
#include <string.h>

#include "cli/snapshot_build.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"

static void show_help(FILE *to)
{
    fputs("usage: sherd snapshot COMMAND URL [arguments] [options]\n       sherd snapshot build --to URL [options] INPUT...\n\n", to);
    fputs("  build      from rows to a published snapshot\n", to);
    snapshot_read_help(to);
    fputs("\n`sherd snapshot COMMAND --help` has the options of a command.\n", to);
}

int snapshot_run(int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "help") == 0) {
        show_help(argc ? stdout : stderr);
        return argc ? EXIT_WELL : EXIT_USAGE;
    }
    if (strcmp(argv[0], "build") == 0) return snapshot_build_run(argc - 1, argv + 1);
    int code = snapshot_read_run(argc, argv);
    if (code >= 0) return code;
    fprintf(stderr, "sherd: unknown command 'snapshot %s'; see `sherd snapshot --help`\n", argv[0]);
    return EXIT_USAGE;
}
