/* The one table of options: what `--help`, docs/CONFIGURATION.md, the TOML file, the environment, the command line and
 * CONFIG GET/SET/REWRITE know about an option all comes from its row here. The texts of errors are those of Redis. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum option_type {
    OPTION_BOOL,    /* yes or no (true and false are understood) */
    OPTION_INT,
    OPTION_BYTES,   /* 512, 64kb, 1gb */
    OPTION_OCTAL,
    OPTION_ENUM,    /* one of `words`; the number is its place */
    OPTION_TEXT,    /* at most `max` bytes */
    OPTION_LIST,    /* words, kept with one space between them; may be none where the default has none */
    OPTION_PERCENTS, /* numbers from 0 to 100, kept likewise; may be none */
    OPTION_NOTIFY,  /* letters of keyspace events; the number is a set of enum notify_class */
    OPTION_CLIENTS, /* three classes of clients, each "class hard soft seconds" */
    OPTION_SAVE,    /* Redis's "seconds changes" pairs; the number is the seconds of the pair with the fewest changes, 0 if there is none */
};

enum option_flag {
    OPTION_RUNTIME = 1 << 0, /* CONFIG SET may change it */
    OPTION_COMPAT = 1 << 1,  /* accepted and reported for programs that ask for it; has no effect */
    OPTION_START = 1 << 2,   /* only for the command line and the environment; not part of the configuration itself */
    OPTION_VIEW = 1 << 3,    /* another row's field in other words: what is set in one shows in both, CONFIG REWRITE adds the other */
    OPTION_SECRET = 1 << 4,  /* its value stays out of the slow log */
    OPTION_HIDDEN = 1 << 5,  /* and CONFIG GET says only that there is one */
};

enum { OPTION_ALIASES = 2 };

struct option {
    const char *name;
    const char *aliases[OPTION_ALIASES]; /* Redis's other names, or NULL */
    const char *section, *key;     /* a second place in the TOML file: `key` in [section]; or NULL */
    enum option_type type;
    uint32_t flags;
    size_t field;                  /* offset in struct config: of a config_num, a char * or a struct config_clients */
    const char *fallback;          /* the default, as a user would write it */
    int64_t min, max;
    const char *const *words;      /* OPTION_ENUM, ends with NULL */
    uint32_t values;               /* of an enum whose words say the same values more than once: how many there are; else 0 */
    const char *unit;              /* "seconds", "microseconds", "minutes"; or NULL */
    const char *help;
};

extern const struct option options[];
size_t options_count(void);
/* By name or alias; dashes and underscores are the same, case is ignored. NULL if there is none. */
const struct option *options_find(struct slice name);
const struct option *options_find_in(struct slice section, struct slice key);
/* The name most like a misspelt one, or NULL. */
const char *options_nearest(struct slice name);

/* `--help` and docs/CONFIGURATION.md. */
void options_help(struct buf *out);
void options_markdown(struct buf *out);
