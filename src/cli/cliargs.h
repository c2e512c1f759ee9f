/* Command lines of the subcommands: a table says how an option is written, what it sets and what --help shows of it; one reader and one help for all.
 *
 * "--x y" and "--x=y" are the same. "--" ends the options. Values are kept as pointers into argv, some of which are cut ("a,b", "name=value"). What is wrong is told on standard error, in
 * one line that begins with the command and ends with where its help is. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cliargs_kind {   /* the field that it sets */
    CLIARGS_FLAG,     /* bool; has no value */
    CLIARGS_WORD,     /* const char * */
    CLIARGS_U64,      /* uint64_t, at most max */
    CLIARGS_U32,      /* uint32_t, at most max */
    CLIARGS_I64,      /* int64_t, from 0 to max */
    CLIARGS_AUTO,     /* uint64_t, 1 to max; "auto" leaves it 0 */
    CLIARGS_BYTES,    /* uint64_t: 64mb */
    CLIARGS_SECONDS,  /* double, not negative */
    CLIARGS_AGE,      /* int64_t, microseconds: 30m, 24h, 7d */
    CLIARGS_CHOICE,   /* int or an enum: the place in choices */
    CLIARGS_COMMAS,   /* struct cliargs_list: a,b,c */
    CLIARGS_REPEATED, /* struct cliargs_list: one more each time */
    CLIARGS_PAIRS,    /* struct cliargs_pairs: name=value, one more each time */
};

struct cliargs_option {
    const char *name; /* with its dashes */
    enum cliargs_kind kind;
    size_t at;         /* where the field is in the struct that the group is about */
    const char *value; /* what help calls it; NULL: it has none */
    const char *help;  /* NULL: not shown */
    const char *const *choices; /* ends with NULL */
    uint64_t max;      /* 0: as much as fits */
    size_t given;      /* of a bool in the same struct that notes that it was there; 0: nobody asks */
};

/* Options about one struct, which lies at `base` in the one that cliargs_read fills. */
struct cliargs_group {
    const struct cliargs_option *options;
    size_t n;
    size_t base;
};
#define CLIARGS_GROUP(table, base) {table, sizeof(table) / sizeof((table)[0]), base}

enum { CLIARGS_LIST_MAX = 1024, CLIARGS_PAIRS_MAX = 64 };

struct cliargs_list {
    const char *words[CLIARGS_LIST_MAX];
    size_t n;
};

struct cliargs_pairs {
    const char *names[CLIARGS_PAIRS_MAX], *values[CLIARGS_PAIRS_MAX];
    size_t n;
};

struct cliargs {
    const char *command; /* "snapshot build" */
    const char *help;    /* how to ask for its help: "sherd snapshot build --help" */
    const struct cliargs_group *groups;
    size_t n_groups;
    bool dash_is_word; /* words may begin with one dash: keys that are negative numbers */
};

/* Fills the struct; other words, at most argc, go to words. False: it was told what is wrong. */
bool cliargs_read(const struct cliargs *a, void *into, int argc, char **argv, const char **words, size_t *n_words);
/* Tells what is wrong, "command: what word", and gives false. */
bool cliargs_refuse(const struct cliargs *a, const char *what, const char *word);
bool cliargs_asks_help(int argc, char **argv); /* --help or -h among the options */
void cliargs_help(const struct cliargs *a, FILE *to); /* a line for each option */

/* ---- options that several commands have */

enum { CLIARGS_S3 = 10, CLIARGS_LOGIN = 2 };
extern const struct cliargs_option cliargs_s3[CLIARGS_S3]; /* of struct object_options */

struct cliargs_login { /* of a server */
    const char *user, *password;
};
extern const struct cliargs_option cliargs_login[CLIARGS_LOGIN];
const char *cliargs_password(const struct cliargs_login *l); /* or REDISCLI_AUTH of the environment; NULL: none */
