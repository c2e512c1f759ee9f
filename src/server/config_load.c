/* Where options come from: the TOML file, the environment, the command line. */
#include <stdio.h>

#include "base/mem.h"
#include "base/toml.h"
#include "io/wholefile.h"
#include "server/clustersecret.h"
#include "server/config.h"
#include "server/options.h"
#include "server/optval.h"

enum { FILE_MAX_BYTES = 1 << 20 };

static int set_one(struct config *cfg, const struct option *o, struct slice text, const char *where, struct buf *error)
{
    struct optval v;
    char why[200];
    int rc = optval_parse(o, text, &v, why, sizeof why);
    if (rc == 0)
        config_apply(cfg, o, &v);
    else
        buf_printf(error, "%s: %s", where, why);
    optval_fini(&v);
    return rc;
}

static int unknown(const char *where, struct slice name, struct buf *error)
{
    buf_printf(error, "%s: unknown option '%.*s'", where, name.n > 100 ? 100 : (int)name.n, name.p);
    const char *nearest = options_nearest(name);
    if (nearest) buf_printf(error, " (did you mean '%s'?)", nearest);
    return -1;
}

/* ---- the file */

static bool add_scalar(const struct toml_value *v, struct buf *out)
{
    switch (v->kind) {
    case TOML_STRING: buf_add_slice(out, v->text); return true;
    case TOML_INTEGER: buf_printf(out, "%lld", (long long)v->integer); return true;
    case TOML_BOOLEAN: buf_add_str(out, v->boolean ? "yes" : "no"); return true;
    case TOML_FLOAT:
    case TOML_ARRAY: break;
    }
    return false;
}

bool config_toml_text(const struct toml_value *v, struct buf *out)
{
    if (v->kind != TOML_ARRAY) return add_scalar(v, out);
    for (size_t i = 0; i < v->count; i++) {
        if (i) buf_add_byte(out, ' ');
        if (!add_scalar(&v->items[i], out)) return false;
    }
    return true;
}

const struct option *config_toml_option(const struct toml_item *item)
{
    const struct option *o = item->table.n ? options_find_in(item->table, item->key) : options_find(item->key);
    return o && !(o->flags & OPTION_START) ? o : NULL;
}

static int load_item(struct config *cfg, const struct toml *doc, size_t i, const char *path, struct buf *error)
{
    const struct toml_item *item = &doc->items[i];
    const struct option *o = config_toml_option(item);
    char where[300];
    snprintf(where, sizeof where, "%.200s:%u", path, item->line);
    if (!o && item->table.n) {
        buf_printf(error, "%s: unknown option '%.*s' in [%.*s]", where, (int)item->key.n, item->key.p, (int)item->table.n, item->table.p);
        return -1;
    }
    if (!o) return unknown(where, item->key, error);
    for (size_t k = 0; k < i; k++) {
        const struct option *earlier = config_toml_option(&doc->items[k]);
        if (!earlier || earlier->field != o->field) continue;
        buf_printf(error, "%s: %s is set already in line %u", where, o->name, doc->items[k].line);
        return -1;
    }
    snprintf(where, sizeof where, "%.200s:%u: %s", path, item->line, o->name);
    struct buf text = {0};
    int rc = -1;
    if (config_toml_text(&item->value, &text))
        rc = set_one(cfg, o, buf_slice(&text), where, error);
    else
        buf_printf(error, "%s: a number, a string, a boolean or an array of these is needed", where);
    buf_fini(&text);
    return rc;
}

static int load_source(struct config *cfg, struct slice source, const char *path, struct buf *error)
{
    struct toml doc;
    int rc = toml_parse(&doc, source);
    if (rc) buf_printf(error, "%s:%u: %s", path, doc.error_line, doc.error);
    for (size_t i = 0; i < doc.count && rc == 0; i++) rc = load_item(cfg, &doc, i, path, error);
    toml_fini(&doc);
    return rc;
}

static int load_file(struct config *cfg, const char *path, struct buf *error)
{
    struct buf source = {0};
    int rc = wholefile_read(path, FILE_MAX_BYTES, &source);
    if (rc)
        buf_printf(error, "%s: cannot read: %s", path, strerror(-rc));
    else
        rc = load_source(cfg, buf_slice(&source), path, error);
    buf_fini(&source);
    return rc;
}

/* ---- the environment */

static const char PREFIX[] = "SHERD_";

/* Splits an environment line "SHERD_NAME=value"; false if it is no such line. */
static bool env_line(const char *line, struct slice *name, struct slice *value)
{
    const char *equals = strchr(line, '=');
    size_t skip = sizeof PREFIX - 1;
    if (!equals || strncmp(line, PREFIX, skip) != 0) return false;
    *name = slice_of(line + skip, (size_t)(equals - line) - skip);
    *value = slice_str(equals + 1);
    return true;
}

static int load_env(struct config *cfg, char *const *env, struct buf *error)
{
    struct slice name, value;
    for (; *env; env++) {
        if (!env_line(*env, &name, &value)) continue;
        const struct option *o = options_find(name);
        char where[128];
        snprintf(where, sizeof where, "environment %s%.*s", PREFIX, name.n > 80 ? 80 : (int)name.n, name.p);
        if (!o) return unknown(where, name, error);
        if (set_one(cfg, o, value, where, error)) return -1;
    }
    return 0;
}

/* ---- the command line */

struct args {
    int argc, at;
    char *const *argv;
    bool help, markdown, check;
};

static bool take_mode(struct args *a, const char *arg)
{
    bool *modes[] = {&a->help, &a->help, &a->markdown, &a->check};
    static const char *const names[] = {"--help", "-h", "--help-markdown", "--check-config"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(arg, names[i]) != 0) continue;
        *modes[i] = true;
        return true;
    }
    return false;
}

/* The value of an option that stands at a->at: behind "=", or the next argument. A yes/no option needs none. */
static bool take_value(struct args *a, const struct option *o, const char *equals, struct slice *value)
{
    const char *next = a->at + 1 < a->argc ? a->argv[a->at + 1] : NULL;
    if (equals) {
        *value = slice_str(equals + 1);
        return true;
    }
    if (o->type == OPTION_BOOL) {
        *value = SLICE("yes");
        if (!next) return true;
        struct slice word = slice_str(next);
        if (!slice_is(word, "yes") && !slice_is(word, "no") && !slice_is(word, "true") && !slice_is(word, "false")) return true;
    }
    if (!next) return false;
    *value = slice_str(next);
    a->at++;
    return true;
}

static int load_arg(struct config *cfg, struct args *a, struct buf *error)
{
    const char *arg = a->argv[a->at];
    if (take_mode(a, arg)) return 0;
    if (strncmp(arg, "--", 2) != 0 || !arg[2]) {
        buf_printf(error, "unexpected argument '%s'", arg);
        return -1;
    }
    const char *equals = strchr(arg, '=');
    struct slice name = slice_of(arg + 2, equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2), value;
    const struct option *o = options_find(name);
    if (!o) return unknown("command line", name, error);
    char where[128];
    snprintf(where, sizeof where, "--%s", o->name);
    if (!take_value(a, o, equals, &value)) {
        buf_printf(error, "%s needs a value", where);
        return -1;
    }
    return set_one(cfg, o, value, where, error);
}

static int load_args(struct config *cfg, struct args *a, struct buf *error)
{
    for (a->at = 0; a->at < a->argc; a->at++) {
        if (load_arg(cfg, a, error)) return -1;
    }
    return 0;
}

/* ---- all sources */

/* The file is named by the later sources but weighs less than they do: they are read once to find it, then again on top of it. */
static int load_all(struct config *cfg, struct args *a, char *const *env, struct buf *error)
{
    if (load_env(cfg, env, error) || load_args(cfg, a, error)) return -1;
    if (!*cfg->config_path) return 0;
    char *path = mem_strdup(cfg->config_path);
    config_fini(cfg);
    config_init(cfg);
    int rc = load_file(cfg, path, error);
    mem_free(path);
    if (rc) return rc;
    return load_env(cfg, env, error) || load_args(cfg, a, error) ? -1 : 0;
}

enum config_outcome config_load(struct config *cfg, int argc, char *const *argv, char *const *env, struct buf *error)
{
    struct args a = {.argc = argc, .argv = argv};
    config_init(cfg);
    int rc = load_all(cfg, &a, env, error);
    if (rc == 0 && a.help) return CONFIG_SHOW_HELP;
    if (rc == 0 && a.markdown) return CONFIG_SHOW_MARKDOWN;
    if (rc == 0) rc = config_check(cfg, error);
    if (rc == 0) rc = clustersecret_read(&cfg->cluster.keys, cfg->cluster.secret, cfg->cluster.secret_file, error);
    if (rc) return CONFIG_BAD;
    return a.check ? CONFIG_CHECKED : CONFIG_READY;
}
