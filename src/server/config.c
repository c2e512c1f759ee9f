#include "server/config.h"

#include <sched.h>

#include "base/glob.h"
#include "base/mem.h"
#include "server/clusterconf.h"
#include "server/clustersecret.h"
#include "server/options.h"
#include "server/optval.h"
#include "store/evict.h"

/* ---- fields: the bytes of struct config that an option's row names */

static bool has_text(const struct option *o) { return o->type == OPTION_TEXT || o->type == OPTION_LIST || o->type == OPTION_PERCENTS; }

static config_num *num_field(const struct config *cfg, const struct option *o) { return (config_num *)(void *)((char *)cfg + o->field); }
static char **text_field(const struct config *cfg, const struct option *o) { return (char **)(void *)((char *)cfg + o->field); }
static struct config_clients *clients_field(const struct config *cfg, const struct option *o)
{
    return (struct config_clients *)(void *)((char *)cfg + o->field);
}

static void store_num(config_num *at, int64_t num) { atomic_store_explicit(at, num, memory_order_relaxed); }
static int64_t load_num(config_num *at) { return atomic_load_explicit(at, memory_order_relaxed); }

static void apply_clients(struct config_clients *to, const struct optval *v)
{
    for (unsigned i = 0; i < CONFIG_CLIENT_CLASSES; i++) {
        if (!(v->classes_given >> i & 1)) continue;
        store_num(&to->of[i].hard_bytes, v->clients[i].hard_bytes);
        store_num(&to->of[i].soft_bytes, v->clients[i].soft_bytes);
        store_num(&to->of[i].soft_seconds, v->clients[i].soft_seconds);
    }
}

void config_apply(struct config *cfg, const struct option *o, struct optval *v)
{
    if (has_text(o)) {
        char **field = text_field(cfg, o);
        mem_free(*field);
        *field = v->text;
        v->text = NULL;
        if (field == &cfg->requirepass) store_num(&cfg->has_password, **field != '\0');
    } else if (o->type == OPTION_CLIENTS) {
        apply_clients(clients_field(cfg, o), v);
    } else {
        store_num(num_field(cfg, o), v->num);
    }
}

/* The present value; a text is borrowed. */
static struct optval present(const struct config *cfg, const struct option *o)
{
    struct optval v = {0};
    if (has_text(o)) {
        v.text = *text_field(cfg, o);
    } else if (o->type == OPTION_CLIENTS) {
        struct config_clients *from = clients_field(cfg, o);
        for (int i = 0; i < CONFIG_CLIENT_CLASSES; i++) {
            v.clients[i].hard_bytes = load_num(&from->of[i].hard_bytes);
            v.clients[i].soft_bytes = load_num(&from->of[i].soft_bytes);
            v.clients[i].soft_seconds = load_num(&from->of[i].soft_seconds);
        }
    } else {
        v.num = load_num(num_field(cfg, o));
    }
    return v;
}

void config_format(const struct config *cfg, const struct option *o, struct buf *out)
{
    struct optval v = present(cfg, o);
    optval_format(o, &v, out);
}

/* ---- life */

void config_init(struct config *cfg)
{
    memset(cfg, 0, sizeof *cfg);
    CHECK(pthread_mutex_init(&cfg->lock, NULL) == 0);
    for (size_t i = 0; i < options_count(); i++) {
        struct optval v;
        char why[200];
        CHECK(optval_parse(&options[i], slice_str(options[i].fallback), &v, why, sizeof why) == 0);
        config_apply(cfg, &options[i], &v);
    }
}

void config_fini(struct config *cfg)
{
    for (size_t i = 0; i < options_count(); i++) {
        if (has_text(&options[i])) mem_free(*text_field(cfg, &options[i]));
    }
    pthread_mutex_destroy(&cfg->lock);
}

/* ---- rules between options */

static bool is_loopback(struct slice address)
{
    if (address.n && address.p[0] == '-') address = slice_of(address.p + 1, address.n - 1);
    return slice_is(address, "localhost") || slice_is(address, "::1") || (address.n >= 4 && memcmp(address.p, "127.", 4) == 0);
}

/* The first address that others can reach, or an empty slice. */
static struct slice open_address(const struct config *cfg)
{
    struct slice rest = slice_str(cfg->bind), word;
    if (CONFIG_NUM(cfg, port) == 0) return slice_of("", 0);
    while (config_word(&rest, &word)) {
        if (!is_loopback(word)) return word;
    }
    return slice_of("", 0);
}

static int check_protection(const struct config *cfg, bool protected_mode, bool has_password, struct buf *why)
{
    struct slice open = open_address(cfg);
    if (!protected_mode || has_password || open.n == 0) return 0;
    buf_printf(why, "without a password the server would be open to everyone who can reach %.*s: set requirepass, bind to 127.0.0.1, or say protected-mode no",
               (int)open.n, open.p);
    return -1;
}

static int check_policy(const struct config *cfg, int64_t policy, struct buf *why)
{
    if (policy != EVICT_NONE && CONFIG_NUM(cfg, cluster.enabled)) {
        buf_add_str(why, "a node of a cluster evicts nothing: maxmemory-policy must be noeviction");
        return -1;
    }
    if (policy != EVICT_COLD || !CONFIG_NUM(cfg, ephemeral)) return 0;
    buf_add_str(why, "maxmemory-policy cold needs a data directory, and an ephemeral server has none");
    return -1;
}

int config_check(const struct config *cfg, struct buf *why)
{
    if (check_policy(cfg, CONFIG_NUM(cfg, maxmemory_policy), why)) return -1;
    if (CONFIG_NUM(cfg, port) == 0 && !*cfg->unixsocket) {
        buf_add_str(why, "nothing to listen on: port is 0 and unixsocket is empty");
        return -1;
    }
    if (clusterconf_check(cfg, why)) return -1;
    return check_protection(cfg, CONFIG_NUM(cfg, protected_mode), CONFIG_NUM(cfg, has_password), why);
}

/* ---- CONFIG GET and SET */

static void get_if_match(struct config *cfg, const struct option *o, const char *name, struct slice pattern,
                         void (*each)(void *ctx, const char *name, struct slice value), void *ctx)
{
    if (!name || !glob_match(pattern, slice_str(name), true)) return;
    struct buf value = {0};
    pthread_mutex_lock(&cfg->lock);
    config_format(cfg, o, &value);
    pthread_mutex_unlock(&cfg->lock);
    if (o->flags & OPTION_HIDDEN && value.len) {
        value.len = 0;
        buf_add_str(&value, "(hidden)");
    }
    each(ctx, name, buf_slice(&value));
    buf_fini(&value);
}

void config_get(struct config *cfg, struct slice pattern, void (*each)(void *ctx, const char *name, struct slice value), void *ctx)
{
    for (size_t i = 0; i < options_count(); i++) {
        if (options[i].flags & OPTION_START) continue;
        get_if_match(cfg, &options[i], options[i].name, pattern, each, ctx);
        for (int k = 0; k < OPTION_ALIASES; k++) get_if_match(cfg, &options[i], options[i].aliases[k], pattern, each, ctx);
    }
}

/* One pair of a CONFIG SET that was understood. */
struct change {
    const struct option *option;
    struct optval value;
};

static int refuse(struct buf *error, struct slice name, const char *why)
{
    buf_printf(error, "CONFIG SET failed (possibly related to argument '%.*s') - %s", (int)name.n, name.p, why);
    return -1;
}

static int read_change(const struct slice *pair, const struct change *before, size_t n, struct change *change, struct buf *error)
{
    char why[200];
    const struct option *o = options_find(pair[0]);
    if (!o || o->flags & OPTION_START) {
        buf_printf(error, "Unknown option or number of arguments for CONFIG SET - '%.*s'", (int)pair[0].n, pair[0].p);
        return -1;
    }
    if (!(o->flags & OPTION_RUNTIME)) return refuse(error, pair[0], "can't set immutable config");
    for (size_t i = 0; i < n; i++) {
        if (before[i].option->field == o->field) return refuse(error, pair[0], "duplicate parameter");
    }
    change->option = o;
    if (optval_parse(o, pair[1], &change->value, why, sizeof why)) return refuse(error, pair[0], why);
    return 0;
}

/* keys: of the secret that the changes say, or as they are. A file is read anew, even if it is the same. */
static int change_secret(const struct config *cfg, const struct change *changes, size_t n, struct linksecret *keys, struct buf *why)
{
    const char *words = cfg->cluster.secret, *path = cfg->cluster.secret_file;
    bool changed = false;
    for (size_t i = 0; i < n; i++) {
        size_t field = changes[i].option->field;
        if (field == offsetof(struct config, cluster.secret)) words = changes[i].value.text;
        else if (field == offsetof(struct config, cluster.secret_file)) path = changes[i].value.text;
        else continue;
        changed = true;
    }
    *keys = cfg->cluster.keys;
    if (changed && (*words || *path) && !CONFIG_NUM(cfg, cluster.enabled)) {
        buf_add_str(why, "cluster-secret is for nodes of a cluster");
        return -1;
    }
    return changed ? clustersecret_read(keys, words, path, why) : 0;
}

/* The rules between options, with the changes thought in. */
static int check_changes(struct config *cfg, const struct change *changes, size_t n, struct linksecret *keys, struct buf *error)
{
    bool protected_mode = CONFIG_NUM(cfg, protected_mode), has_password = CONFIG_NUM(cfg, has_password);
    int64_t policy = CONFIG_NUM(cfg, maxmemory_policy);
    for (size_t i = 0; i < n; i++) {
        size_t field = changes[i].option->field;
        if (field == offsetof(struct config, protected_mode)) protected_mode = changes[i].value.num;
        if (field == offsetof(struct config, maxmemory_policy)) policy = changes[i].value.num;
        if (field == offsetof(struct config, requirepass)) has_password = *changes[i].value.text != '\0';
    }
    struct buf why = {0};
    int rc = check_protection(cfg, protected_mode, has_password, &why);
    if (rc == 0) rc = check_policy(cfg, policy, &why);
    if (rc == 0) rc = change_secret(cfg, changes, n, keys, &why);
    if (rc) buf_printf(error, "CONFIG SET failed - %.*s", (int)why.len, why.p);
    buf_fini(&why);
    return rc;
}

int config_set(struct config *cfg, const struct slice *pairs, size_t count, struct buf *error)
{
    struct change *changes = mem_zalloc((count ? count : 1) * sizeof *changes);
    struct linksecret keys;
    int rc = 0;
    pthread_mutex_lock(&cfg->lock);
    for (size_t i = 0; i < count && rc == 0; i++) rc = read_change(&pairs[2 * i], changes, i, &changes[i], error);
    if (rc == 0) rc = check_changes(cfg, changes, count, &keys, error);
    if (rc == 0) cfg->cluster.keys = keys;
    for (size_t i = 0; i < count && rc == 0; i++) config_apply(cfg, changes[i].option, &changes[i].value);
    pthread_mutex_unlock(&cfg->lock);
    for (size_t i = 0; i < count; i++) optval_fini(&changes[i].value);
    mem_free(changes);
    if (rc == 0 && cfg->on_change) cfg->on_change(cfg->on_change_ctx);
    return rc;
}

/* ---- readers */

/* Takes as long for a wrong password as for the right one: time must not tell how much of a guess was right. */
bool config_password_ok(struct config *cfg, struct slice password)
{
    pthread_mutex_lock(&cfg->lock);
    size_t n = strlen(cfg->requirepass);
    unsigned different = n != password.n;
    for (size_t i = 0; i < password.n; i++) different |= (unsigned char)password.p[i] ^ (unsigned char)cfg->requirepass[n ? i % n : 0];
    pthread_mutex_unlock(&cfg->lock);
    return different == 0;
}

void config_secret(struct config *cfg, struct linksecret *out)
{
    pthread_mutex_lock(&cfg->lock);
    *out = cfg->cluster.keys;
    pthread_mutex_unlock(&cfg->lock);
}

unsigned config_workers(const struct config *cfg)
{
    unsigned asked = (unsigned)CONFIG_NUM(cfg, workers);
    if (asked) return asked;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
    return (unsigned)CPU_COUNT(&cores);
}

static bool is_separator(char c) { return c == ' ' || c == ',' || c == '\t' || c == '\n'; }

bool config_word(struct slice *rest, struct slice *word)
{
    size_t from = 0;
    *word = *rest;
    if (rest->n == 0) return false;
    while (from < rest->n && is_separator(rest->p[from])) from++;
    size_t to = from;
    while (to < rest->n && !is_separator(rest->p[to])) to++;
    *word = slice_of(rest->p + from, to - from);
    *rest = slice_of(rest->p + to, rest->n - to);
    return word->n > 0;
}
