/* A configuration as a command line, an environment and files make it, for tests. */
#pragma once
#include <string.h>

#include "server/config.h"

static char *const no_env[] = {NULL};

struct loaded {
    struct config cfg;
    struct buf error;
    enum config_outcome outcome;
};

static inline void load_in(struct loaded *l, char *const *env, int argc, const char *const *argv)
{
    memset(l, 0, sizeof *l);
    l->outcome = config_load(&l->cfg, argc, (char *const *)(uintptr_t)argv, env, &l->error);
    buf_add_byte(&l->error, '\0');
}

static inline void load(struct loaded *l, int argc, const char *const *argv) { load_in(l, no_env, argc, argv); }

static inline void unload(struct loaded *l)
{
    config_fini(&l->cfg);
    buf_fini(&l->error);
}

#define ARGS(...) (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[]){__VA_ARGS__}

static inline void assert_bad(const char *says, int argc, const char *const *argv)
{
    struct loaded l;
    load(&l, argc, argv);
    assert_int_equal(l.outcome, CONFIG_BAD);
    if (!strstr(l.error.p, says)) fail_msg("'%s' does not say '%s'", l.error.p, says);
    unload(&l);
}
