#include "cli/cliargs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "object/object.h"

/* ---- options that several commands have */

static const char *const styles[] = {"auto", "path", "virtual", NULL};

#define S3(field) offsetof(struct object_options, field)

const struct cliargs_option cliargs_s3[CLIARGS_S3] = {
    {"--endpoint", CLIARGS_WORD, S3(endpoint), "URL", "of the S3 store; else AWS_ENDPOINT_URL", NULL, 0, 0},
    {"--region", CLIARGS_WORD, S3(region), "NAME", "else AWS_REGION", NULL, 0, 0},
    {"--access-key", CLIARGS_WORD, S3(access_key), "KEY", "else AWS_ACCESS_KEY_ID, then the AWS files", NULL, 0, 0},
    {"--secret-key", CLIARGS_WORD, S3(secret_key), "KEY", "else AWS_SECRET_ACCESS_KEY", NULL, 0, 0},
    {"--session-token", CLIARGS_WORD, S3(session_token), "TOKEN", "else AWS_SESSION_TOKEN", NULL, 0, 0},
    {"--profile", CLIARGS_WORD, S3(profile), "NAME", "of the AWS files", NULL, 0, 0},
    {"--ca-file", CLIARGS_WORD, S3(ca_file), "FILE", "certificates to trust", NULL, 0, 0},
    {"--style", CLIARGS_CHOICE, S3(style), "STYLE", "of addressing: auto, path or virtual", styles, 0, 0},
    {"--anonymous", CLIARGS_FLAG, S3(anonymous), NULL, "requests are not signed", NULL, 0, 0},
    {"--insecure", CLIARGS_FLAG, S3(insecure_tls), NULL, "certificates are not checked", NULL, 0, 0},
};

const struct cliargs_option cliargs_login[CLIARGS_LOGIN] = {
    {"--user", CLIARGS_WORD, offsetof(struct cliargs_login, user), "NAME", "for AUTH", NULL, 0, 0},
    {"--password", CLIARGS_WORD, offsetof(struct cliargs_login, password), "TEXT", "for AUTH; else REDISCLI_AUTH", NULL, 0, 0},
};

const char *cliargs_password(const struct cliargs_login *l) { return l->password ? l->password : getenv("REDISCLI_AUTH"); }

/* ---- values */

static bool add_word(struct cliargs_list *l, const char *word)
{
    if (l->n == CLIARGS_LIST_MAX) return false;
    l->words[l->n++] = word;
    return true;
}

static bool add_words(struct cliargs_list *l, char *words)
{
    for (char *comma; (comma = strchr(words, ',')); words = comma + 1) {
        *comma = '\0';
        if (!add_word(l, words)) return false;
    }
    return add_word(l, words);
}

static bool add_pair(struct cliargs_pairs *p, char *word)
{
    char *equals = strchr(word, '=');
    if (!equals || equals == word || p->n == CLIARGS_PAIRS_MAX) return false;
    *equals = '\0';
    p->names[p->n] = word;
    p->values[p->n++] = equals + 1;
    return true;
}

static bool set_choice(const struct cliargs_option *o, const char *word, int *to)
{
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], word) != 0) continue;
        *to = i;
        return true;
    }
    return false;
}

static bool set_number(const struct cliargs_option *o, const char *word, void *to)
{
    uint64_t most = o->kind == CLIARGS_U32 ? UINT32_MAX : o->kind == CLIARGS_I64 ? INT64_MAX : UINT64_MAX, n;
    if (!num_parse_u64(slice_str(word), &n) || n > most || (o->max && n > o->max)) return false;
    if (o->kind == CLIARGS_U32) *(uint32_t *)to = (uint32_t)n;
    else if (o->kind == CLIARGS_I64) *(int64_t *)to = (int64_t)n;
    else *(uint64_t *)to = n;
    return n > 0 || o->kind != CLIARGS_AUTO;
}

static bool set_seconds(const char *word, double *to)
{
    char *end;
    *to = strtod(word, &end);
    return end != word && *end == '\0' && *to >= 0;
}

static bool set_age(const char *word, int64_t *us)
{
    char *end;
    double v = strtod(word, &end);
    double unit = strcmp(end, "s") == 0 ? 1 : strcmp(end, "m") == 0 ? 60 : strcmp(end, "h") == 0 ? 3600 : strcmp(end, "d") == 0 ? 86400 : 0;
    if (end == word || unit == 0 || !(v >= 0) || v * unit > 1e10) return false;
    *us = (int64_t)(v * unit * 1e6);
    return true;
}

static bool set_value(const struct cliargs_option *o, char *word, void *to)
{
    switch (o->kind) {
    case CLIARGS_FLAG: *(bool *)to = true; return true;
    case CLIARGS_WORD: *(const char **)to = word; return true;
    case CLIARGS_AUTO:
        if (strcmp(word, "auto") == 0) return true;
        return set_number(o, word, to);
    case CLIARGS_U64:
    case CLIARGS_U32:
    case CLIARGS_I64: return set_number(o, word, to);
    case CLIARGS_BYTES: return num_parse_bytes(slice_str(word), to);
    case CLIARGS_SECONDS: return set_seconds(word, to);
    case CLIARGS_AGE: return set_age(word, to);
    case CLIARGS_CHOICE: return set_choice(o, word, to);
    case CLIARGS_COMMAS: return add_words(to, word);
    case CLIARGS_REPEATED: return add_word(to, word);
    case CLIARGS_PAIRS: return add_pair(to, word);
    }
    return false;
}

/* ---- reading */

static const struct cliargs_option *find(const struct cliargs *a, const char *name, size_t *base)
{
    for (size_t g = 0; g < a->n_groups; g++) {
        *base = a->groups[g].base;
        for (size_t i = 0; i < a->groups[g].n; i++)
            if (strcmp(a->groups[g].options[i].name, name) == 0) return &a->groups[g].options[i];
    }
    return NULL;
}

static void tell(const struct cliargs *a, const char *what, const char *word, const char *why)
{
    fprintf(stderr, "sherd: %s: %s%s%s; see `%s`\n", a->command, what, word, why, a->help);
}

bool cliargs_refuse(const struct cliargs *a, const char *what, const char *word)
{
    tell(a, what, word, "");
    return false;
}

/* What would have been right is said, where the table knows it. */
static bool refuse_value(const struct cliargs *a, const struct cliargs_option *o, const char *value)
{
    struct buf why = {0};
    buf_printf(&why, " cannot be '%s'", value);
    for (size_t i = 0; o->choices && o->choices[i]; i++) buf_printf(&why, "%s%s", i == 0 ? ", only " : o->choices[i + 1] ? ", " : " or ", o->choices[i]);
    if (o->max) buf_printf(&why, ", at most %llu", (unsigned long long)o->max);
    buf_add_byte(&why, '\0');
    tell(a, o->name, "", why.p);
    buf_fini(&why);
    return false;
}

/* The option at argv[*i] with its value; moves *i on. */
static bool read_option(const struct cliargs *a, void *into, int argc, char **argv, int *i)
{
    char *word = argv[(*i)++], *value = strchr(word, '=');
    size_t base;
    if (value) *value++ = '\0';
    const struct cliargs_option *o = find(a, word, &base);
    if (!o) return cliargs_refuse(a, "unknown option ", word);
    bool wants = o->kind != CLIARGS_FLAG;
    if (!wants && value) return cliargs_refuse(a, "no value belongs to ", word);
    if (wants && !value && *i < argc) value = argv[(*i)++];
    if (wants && !value) return cliargs_refuse(a, "a value is missing behind ", word);
    char *fields = (char *)into + base;
    if (o->given) *(bool *)(fields + o->given) = true;
    return set_value(o, value, fields + o->at) || refuse_value(a, o, value);
}

static bool is_option(const struct cliargs *a, const char *word) { return strncmp(word, "--", 2) == 0 || (!a->dash_is_word && word[0] == '-' && word[1]); }

bool cliargs_read(const struct cliargs *a, void *into, int argc, char **argv, const char **words, size_t *n_words)
{
    bool ended = false;
    *n_words = 0;
    for (int i = 0; i < argc;) {
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
            i++;
        } else if (ended || !is_option(a, argv[i])) {
            words[(*n_words)++] = argv[i++];
        } else if (!read_option(a, into, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}

/* ---- help */

bool cliargs_asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

void cliargs_help(const struct cliargs *a, FILE *to)
{
    for (size_t g = 0; g < a->n_groups; g++) {
        for (size_t i = 0; i < a->groups[g].n; i++) {
            const struct cliargs_option *o = &a->groups[g].options[i];
            char left[64];
            snprintf(left, sizeof left, "%s %s", o->name, o->value ? o->value : "");
            if (o->help) fprintf(to, "  %-32s %s\n", left, o->help);
        }
    }
}
