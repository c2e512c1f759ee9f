/* The subcommands of `sherd` that have files of their own. Each gets what follows its name on the command line and gives the exit code.
 * A new one is a function here and a row in the table of main.c. */
#pragma once

enum {
    EXIT_WELL = 0,
    EXIT_TROUBLE = 1, /* it could not be done, or what was looked at is not in order */
    EXIT_USAGE = 2,   /* the command line or the configuration is wrong */
    EXIT_PARTLY = 3,  /* done, except for what it named */
};

int serve_run(int argc, char **argv);    /* sherd serve */
int cluster_run(int argc, char **argv);  /* sherd cluster */
int dumptool_run(int argc, char **argv); /* sherd dump */
int import_run(int argc, char **argv);   /* sherd import */
int snapshot_run(int argc, char **argv); /* sherd snapshot */
