#include "object/awsconf.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "io/wholefile.h"

enum { FILE_BYTES_MAX = 1 << 20 };

void awsconf_fini(struct awsconf *c)
{
    if (c->secret_key) OPENSSL_cleanse(c->secret_key, strlen(c->secret_key));
    mem_free(c->access_key);
    mem_free(c->secret_key);
    mem_free(c->session_token);
    mem_free(c->region);
    mem_free(c->endpoint);
    mem_free(c->ca_file);
    *c = (struct awsconf){0};
}

/* ---- files */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static struct slice trim(struct slice s)
{
    while (s.n > 0 && is_space(s.p[0])) s = slice_of(s.p + 1, s.n - 1);
    while (s.n > 0 && is_space(s.p[s.n - 1])) s.n--;
    return s;
}

static char *copy(struct slice s)
{
    char *p = mem_alloc(s.n + 1);
    memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

static void set(char **field, struct slice value)
{
    if (*field || value.n == 0 || memchr(value.p, '\0', value.n)) return;
    *field = copy(value);
}

/* The profile that a section's name is of: "x", and in the config file "profile x" or "default". NULL slice: of none. */
static struct slice section_profile(struct slice name, enum awsconf_file kind)
{
    name = trim(name);
    if (kind == AWSCONF_CREDENTIALS || slice_eq(name, SLICE("default"))) return name;
    struct slice word = SLICE("profile");
    if (name.n <= word.n || memcmp(name.p, word.p, word.n) != 0 || !is_space(name.p[word.n])) return slice_of(NULL, 0);
    return trim(slice_of(name.p + word.n, name.n - word.n));
}

static void take_setting(struct awsconf *keys, struct awsconf *c, struct slice name, struct slice value)
{
    if (slice_is(name, "aws_access_key_id")) set(&keys->access_key, value);
    else if (slice_is(name, "aws_secret_access_key")) set(&keys->secret_key, value);
    else if (slice_is(name, "aws_session_token")) set(&keys->session_token, value);
    else if (slice_is(name, "region")) set(&c->region, value);
    else if (slice_is(name, "endpoint_url")) set(&c->endpoint, value);
}

/* One line; false if it is none of the kinds. `ours`: we are in the profile's section. */
static bool take_line(struct awsconf *keys, struct awsconf *c, struct slice line, enum awsconf_file kind, struct slice profile, bool *ours, bool *found)
{
    struct slice text = trim(line);
    if (text.n == 0 || text.p[0] == '#' || text.p[0] == ';' || is_space(line.p[0])) return true;
    if (text.p[0] == '[') {
        if (text.p[text.n - 1] != ']') return false;
        struct slice of = section_profile(slice_of(text.p + 1, text.n - 2), kind);
        *ours = of.p && slice_eq(of, profile);
        *found |= *ours;
        return true;
    }
    const char *equals = memchr(text.p, '=', text.n);
    if (!equals) return false;
    size_t n = (size_t)(equals - text.p);
    if (*ours) take_setting(keys, c, trim(slice_of(text.p, n)), trim(slice_of(equals + 1, text.n - n - 1)));
    return true;
}

/* Keys of two places are never mixed: an access key is worth nothing with another's secret. */
static void take_keys(struct awsconf *c, struct awsconf *keys)
{
    if (c->access_key || !keys->access_key || !keys->secret_key) {
        awsconf_fini(keys);
        return;
    }
    c->access_key = keys->access_key;
    c->secret_key = keys->secret_key;
    c->session_token = keys->session_token;
}

unsigned awsconf_parse(struct awsconf *c, struct slice source, enum awsconf_file kind, struct slice profile, bool *found)
{
    struct awsconf keys = {0};
    bool ours = false;
    unsigned number = 0, bad = 0;
    *found = false;
    while (source.n > 0) {
        const char *newline = memchr(source.p, '\n', source.n);
        size_t n = newline ? (size_t)(newline - source.p) : source.n;
        number++;
        if (!take_line(&keys, c, slice_of(source.p, n), kind, profile, &ours, found) && bad == 0) bad = number;
        n += newline ? 1 : 0;
        source = slice_of(source.p + n, source.n - n);
    }
    take_keys(c, &keys);
    return bad;
}

/* ---- all together */

typedef char *awsconf_env(const char *name);

static const char *env_text(awsconf_env *env, const char *name)
{
    const char *value = env(name);
    return value && value[0] ? value : NULL;
}

static const char *first_text(const char *a, const char *b) { return a && a[0] ? a : b; }

static void set_text(char **field, const char *value)
{
    if (value) set(field, slice_str(value));
}

static int read_file(struct awsconf *c, enum awsconf_file kind, awsconf_env *env, const char *profile, bool *found, char error[OBJECT_DETAIL_BYTES])
{
    struct buf path = {0}, text = {0};
    const char *named = env_text(env, kind == AWSCONF_CREDENTIALS ? "AWS_SHARED_CREDENTIALS_FILE" : "AWS_CONFIG_FILE"), *home = env_text(env, "HOME");
    int rc = 0;
    if (named) buf_printf(&path, "%s", named);
    else if (home) buf_printf(&path, "%s/.aws/%s", home, kind == AWSCONF_CREDENTIALS ? "credentials" : "config");
    if (path.len > 0) rc = wholefile_read(path.p, FILE_BYTES_MAX, &text);
    if (rc == -ENOENT || rc == -ENOTDIR) rc = 0;
    if (rc) {
        snprintf(error, OBJECT_DETAIL_BYTES, "%s: %s", path.p, err_text(rc));
        rc = ERR_OBJECT_CREDENTIALS;
    } else {
        unsigned bad = awsconf_parse(c, buf_slice(&text), kind, slice_str(profile), found);
        if (bad) {
            snprintf(error, OBJECT_DETAIL_BYTES, "%s: line %u is neither [section] nor name = value", path.p, bad);
            rc = ERR_OBJECT_CREDENTIALS;
        }
    }
    if (text.p) OPENSSL_cleanse(text.p, text.cap);
    buf_fini(&text);
    buf_fini(&path);
    return rc;
}

static int read_files(struct awsconf *c, awsconf_env *env, const char *profile, bool must_exist, char error[OBJECT_DETAIL_BYTES])
{
    bool in_credentials = false, in_config = false;
    int rc = read_file(c, AWSCONF_CREDENTIALS, env, profile, &in_credentials, error);
    if (rc == 0) rc = read_file(c, AWSCONF_CONFIG, env, profile, &in_config, error);
    if (rc == 0 && must_exist && !in_credentials && !in_config) {
        snprintf(error, OBJECT_DETAIL_BYTES, "the AWS files have no profile \"%s\"", profile);
        rc = ERR_OBJECT_CREDENTIALS;
    }
    return rc;
}

static void take_env_keys(struct awsconf *c, awsconf_env *env)
{
    if (c->access_key) return;
    struct awsconf keys = {0};
    set_text(&keys.access_key, env_text(env, "AWS_ACCESS_KEY_ID"));
    set_text(&keys.secret_key, env_text(env, "AWS_SECRET_ACCESS_KEY"));
    set_text(&keys.session_token, env_text(env, "AWS_SESSION_TOKEN"));
    take_keys(c, &keys);
}

int awsconf_resolve(struct awsconf *c, const struct object_options *o, awsconf_env *env, char error[OBJECT_DETAIL_BYTES])
{
    *c = (struct awsconf){0};
    bool half = !first_text(o->access_key, NULL) != !first_text(o->secret_key, NULL);
    if (half) {
        snprintf(error, OBJECT_DETAIL_BYTES, "an access key and its secret key are given together or not at all");
        return ERR_OBJECT_CREDENTIALS;
    }
    struct awsconf keys = {0};
    set_text(&keys.access_key, o->access_key);
    set_text(&keys.secret_key, o->secret_key);
    set_text(&keys.session_token, o->session_token);
    take_keys(c, &keys);
    set_text(&c->region, first_text(o->region, first_text(env_text(env, "AWS_REGION"), env_text(env, "AWS_DEFAULT_REGION"))));
    set_text(&c->endpoint, first_text(o->endpoint, first_text(env_text(env, "AWS_ENDPOINT_URL_S3"), env_text(env, "AWS_ENDPOINT_URL"))));
    set_text(&c->ca_file, first_text(o->ca_file, env_text(env, "AWS_CA_BUNDLE")));

    const char *chosen = first_text(o->profile, NULL);
    if (!chosen) take_env_keys(c, env);
    const char *profile = first_text(chosen, first_text(env_text(env, "AWS_PROFILE"), env_text(env, "AWS_DEFAULT_PROFILE")));
    int rc = read_files(c, env, profile ? profile : "default", profile && !c->access_key, error);
    if (rc) return rc;
    if (!c->region) set_text(&c->region, "us-east-1");
    if (c->access_key || o->anonymous) return 0;
    snprintf(error, OBJECT_DETAIL_BYTES,
             "no keys: neither options, nor AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor profile \"%s\" of the AWS files have them", profile ? profile : "default");
    return ERR_OBJECT_CREDENTIALS;
}
