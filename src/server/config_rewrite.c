/* CONFIG REWRITE: changes the values in the file that are no longer true, adds those that it does not name and that are
 * not the default, and leaves every other byte as its owner wrote it. */
#include "base/toml.h"
#include "io/wholefile.h"
#include "server/config.h"
#include "server/options.h"
#include "server/optval.h"

enum { FILE_MAX_BYTES = 1 << 20 };

static void add_quoted(struct slice text, struct buf *out)
{
    buf_add_byte(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_add_byte(out, (char)c);
    }
    buf_add_byte(out, '"');
}

static void add_list(struct slice text, struct buf *out)
{
    struct slice word;
    buf_add_byte(out, '[');
    for (bool first = true; config_word(&text, &word); first = false) {
        if (!first) buf_add_str(out, ", ");
        add_quoted(word, out);
    }
    buf_add_byte(out, ']');
}

/* An option's text as a TOML value. */
static void add_literal(const struct option *o, struct slice text, struct buf *out)
{
    switch (o->type) {
    case OPTION_BOOL: buf_add_str(out, slice_is(text, "yes") ? "true" : "false"); break;
    case OPTION_INT:
    case OPTION_BYTES: buf_add_slice(out, text); break;
    case OPTION_LIST:
    case OPTION_PERCENTS: add_list(text, out); break;
    default: add_quoted(text, out);
    }
}

/* True if text means the same value as the canonical `present`. */
static bool same_value(const struct option *o, struct slice text, struct slice present)
{
    struct optval v;
    struct buf canonical = {0};
    char why[200];
    bool same = optval_parse(o, text, &v, why, sizeof why) == 0;
    if (same) {
        /* Classes of clients that a text leaves out have their defaults. */
        if (o->type == OPTION_CLIENTS) same = v.classes_given == (1u << OPTVAL_CLIENT_CLASSES) - 1;
        optval_format(o, &v, &canonical);
        same = same && slice_eq(buf_slice(&canonical), present);
    }
    buf_fini(&canonical);
    optval_fini(&v);
    return same;
}

/* Copies source[from..to) with the values in it brought up to date. */
static void rewrite_items(const struct config *cfg, const struct toml *doc, struct slice source, size_t from, size_t to, struct buf *out)
{
    for (size_t i = 0; i < doc->count; i++) {
        const struct toml_item *item = &doc->items[i];
        const struct option *o = config_toml_option(item);
        if (!o || item->from < from || item->from >= to) continue;
        struct buf present = {0}, written = {0};
        config_format(cfg, o, &present);
        buf_add(out, source.p + from, item->from - from);
        if (config_toml_text(&item->value, &written) && same_value(o, buf_slice(&written), buf_slice(&present)))
            buf_add(out, source.p + item->from, item->to - item->from);
        else
            add_literal(o, buf_slice(&present), out);
        from = item->to;
        buf_fini(&present);
        buf_fini(&written);
    }
    buf_add(out, source.p + from, to - from);
}

static bool is_named(const struct toml *doc, const struct option *o)
{
    for (size_t i = 0; i < doc->count; i++) {
        const struct option *named = config_toml_option(&doc->items[i]);
        if (named && named->field == o->field) return true;
    }
    return false;
}

/* Options that the file does not name and that differ from their defaults. */
static void add_missing(const struct config *cfg, const struct toml *doc, struct buf *out)
{
    for (size_t i = 0; i < options_count(); i++) {
        const struct option *o = &options[i];
        if (o->flags & (OPTION_START | OPTION_VIEW) || is_named(doc, o)) continue;
        struct buf present = {0};
        config_format(cfg, o, &present);
        if (!same_value(o, slice_str(o->fallback), buf_slice(&present))) {
            if (out->len && out->p[out->len - 1] != '\n') buf_add_byte(out, '\n');
            buf_printf(out, "%s = ", o->name);
            add_literal(o, buf_slice(&present), out);
            buf_add_byte(out, '\n');
        }
        buf_fini(&present);
    }
}

static int rewrite_source(const struct config *cfg, struct slice source, struct buf *out, struct buf *error)
{
    struct toml doc;
    int rc = toml_parse(&doc, source);
    if (rc) {
        buf_printf(error, "Rewriting config file: %s:%u: %s", cfg->config_path, doc.error_line, doc.error);
    } else {
        /* New top-level keys must stand before the first [table]. */
        rewrite_items(cfg, &doc, source, 0, doc.top_end, out);
        add_missing(cfg, &doc, out);
        rewrite_items(cfg, &doc, source, doc.top_end, source.n, out);
    }
    toml_fini(&doc);
    return rc;
}

int config_rewrite(struct config *cfg, struct buf *error)
{
    if (!*cfg->config_path) {
        buf_add_str(error, "The server is running without a config file");
        return -1;
    }
    struct buf source = {0}, out = {0};
    pthread_mutex_lock(&cfg->lock);
    int rc = wholefile_read(cfg->config_path, FILE_MAX_BYTES, &source);
    if (rc) {
        buf_printf(error, "Rewriting config file: %s", strerror(-rc));
    } else if ((rc = rewrite_source(cfg, slice_of(source.p ? source.p : "", source.len), &out, error)) == 0) {
        rc = wholefile_replace(cfg->config_path, buf_slice(&out), 0600);
        if (rc) buf_printf(error, "Rewriting config file: %s", strerror(-rc));
    }
    pthread_mutex_unlock(&cfg->lock);
    buf_fini(&source);
    buf_fini(&out);
    return rc ? -1 : 0;
}
