/* The format
 *
 *   strategy         "hash" or "cel"; "hash" if absent
 *   hash_algorithm   "xxh3_64"; required
 *   cel_expr         cel: text, not empty. hash: null or absent
 *   cel_columns      cel: object of name: type, not empty; types int, uint, double, bool, string, bytes. hash: null or absent
 *   routing_values   cel: null or absent (direct), or a list of distinct values, all integers or all texts (categorical); the snapshot then has max(1, values) shards.
 *                    hash: null or absent
 *
 * Any other key is refused: a reader that does not know it could look for keys in the wrong shards. */
#include "snapshot/sharding.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/mem.h"
#include "snapshot/manifest.h"

/* ---- writing */

static bool add_text(struct buf *out, struct slice s)
{
    struct snapkey k = snapkey_text(s);
    return snapkey_json(&k, out);
}

static int by_name(const void *a, const void *b)
{
    const struct router_column *x = a, *y = b;
    return slice_cmp(x->name, y->name);
}

static bool add_columns(const struct router_cel *c, struct buf *out)
{
    bool ok = true;
    struct router_column *sorted = mem_dup(c->columns, c->n_columns * sizeof *sorted);
    qsort(sorted, c->n_columns, sizeof *sorted, by_name);
    for (uint32_t i = 0; i < c->n_columns; i++) {
        buf_add_str(out, i ? ", " : "{");
        ok &= add_text(out, sorted[i].name);
        buf_add_str(out, ": ");
        ok &= add_text(out, sorted[i].type);
    }
    buf_add_byte(out, '}');
    mem_free(sorted);
    return ok;
}

static bool add_values(const struct router_cel *c, struct buf *out)
{
    bool ok = true;
    if (c->tokens == ROUTER_TOKENS_NONE) {
        buf_add_str(out, "null");
        return true;
    }
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < c->n_tokens; i++) {
        if (i) buf_add_str(out, ", ");
        if (c->tokens == ROUTER_TOKENS_INT) buf_printf(out, "%lld", (long long)c->ints[i]);
        else ok &= add_text(out, c->texts[i]);
    }
    buf_add_byte(out, ']');
    return ok;
}

bool sharding_write(const struct manifest *m, struct buf *out)
{
    if (!m->is_cel) {
        buf_add_str(out, "{\"cel_columns\": null, \"cel_expr\": null, \"hash_algorithm\": \"xxh3_64\", \"routing_values\": null, \"strategy\": \"hash\"}");
        return true;
    }
    buf_add_str(out, "{\"cel_columns\": ");
    bool ok = add_columns(&m->cel, out);
    buf_add_str(out, ", \"cel_expr\": ");
    ok &= add_text(out, m->cel.expr);
    buf_add_str(out, ", \"hash_algorithm\": \"xxh3_64\", \"routing_values\": ");
    ok &= add_values(&m->cel, out);
    buf_add_str(out, ", \"strategy\": \"cel\"}");
    return ok;
}

/* ---- parsing */

static struct slice text_of(const json_t *j) { return slice_of(json_string_value(j), json_string_length(j)); }

static bool is_text(const json_t *j, const char *word) { return json_is_string(j) && slice_eq(text_of(j), slice_str(word)); }

static bool is_unset(const json_t *j) { return !j || json_is_null(j); }

static bool has_unknown_key(json_t *o)
{
    static const char *const known[] = {"strategy", "hash_algorithm", "cel_expr", "cel_columns", "routing_values"};
    const char *key;
    json_t *value;
    json_object_foreach (o, key, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) found |= strcmp(key, known[i]) == 0;
        if (!found) return true;
    }
    return false;
}

static bool is_type(struct slice type)
{
    static const char *const types[] = {"int", "uint", "double", "bool", "string", "bytes"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (slice_eq(type, slice_str(types[i]))) return true;
    return false;
}

static struct slice keep(struct manifest *m, struct slice s) { return slice_of(manifest_copy(m, s), s.n); }

static const char *parse_columns(struct manifest *m, json_t *j)
{
    if (!json_is_object(j) || json_object_size(j) == 0) return "sharding: cel needs cel_columns, an object of names and types";
    struct router_column *columns = manifest_alloc(m, json_object_size(j) * sizeof *columns);
    const char *name;
    json_t *type;
    uint32_t n = 0;
    json_object_foreach (j, name, type) {
        if (name[0] == '\0' || !json_is_string(type) || !is_type(text_of(type))) return "sharding: the type of a column is none of int, uint, double, bool, string, bytes";
        columns[n++] = (struct router_column){keep(m, slice_str(name)), keep(m, text_of(type))};
    }
    m->cel.columns = columns;
    m->cel.n_columns = n;
    return NULL;
}

static int int_order(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int text_order(const void *a, const void *b) { return slice_cmp(*(const struct slice *)a, *(const struct slice *)b); }

static bool are_distinct(const void *values, uint32_t n, size_t each, int (*order)(const void *, const void *))
{
    if (n < 2) return true;
    char *sorted = mem_dup(values, n * each);
    bool distinct = true;
    qsort(sorted, n, each, order);
    for (uint32_t i = 1; i < n; i++) distinct &= order(sorted + (i - 1) * each, sorted + i * each) != 0;
    mem_free(sorted);
    return distinct;
}

static const char *parse_values(struct manifest *m, json_t *j)
{
    struct router_cel *c = &m->cel;
    if (is_unset(j)) return NULL;
    if (!json_is_array(j)) return "sharding: routing_values is neither null nor a list";
    size_t n = json_array_size(j);
    if (m->num_dbs != (n ? n : 1)) return "sharding: there are not as many routing_values as shards";
    int64_t *ints = manifest_alloc(m, (n + 1) * sizeof *ints);
    struct slice *texts = manifest_alloc(m, (n + 1) * sizeof *texts);
    bool numbers = n > 0 && json_is_integer(json_array_get(j, 0));
    for (size_t i = 0; i < n; i++) {
        json_t *v = json_array_get(j, i);
        if (numbers ? !json_is_integer(v) : !json_is_string(v)) return "sharding: routing_values are not all integers and not all texts";
        if (numbers) ints[i] = json_integer_value(v);
        else texts[i] = keep(m, text_of(v));
    }
    c->n_tokens = (uint32_t)n;
    c->tokens = numbers ? ROUTER_TOKENS_INT : ROUTER_TOKENS_TEXT;
    c->ints = ints;
    c->texts = texts;
    bool distinct = numbers ? are_distinct(ints, c->n_tokens, sizeof *ints, int_order) : are_distinct(texts, c->n_tokens, sizeof *texts, text_order);
    return distinct ? NULL : "sharding: a routing value is there twice";
}

static const char *parse_cel(struct manifest *m, json_t *o)
{
    const json_t *expr = json_object_get(o, "cel_expr");
    if (!json_is_string(expr) || json_string_length(expr) == 0) return "sharding: cel needs cel_expr, an expression";
    m->is_cel = true;
    m->cel.expr = keep(m, text_of(expr));
    const char *why = parse_columns(m, json_object_get(o, "cel_columns"));
    return why ? why : parse_values(m, json_object_get(o, "routing_values"));
}

static const char *parse_object(struct manifest *m, json_t *o)
{
    if (!json_is_object(o)) return "sharding is no JSON object";
    if (has_unknown_key(o)) return "sharding has a key that this version does not know";
    if (!is_text(json_object_get(o, "hash_algorithm"), "xxh3_64")) return "sharding: hash_algorithm is missing or not xxh3_64";
    const json_t *strategy = json_object_get(o, "strategy");
    if (is_text(strategy, "cel")) return parse_cel(m, o);
    if (strategy && !is_text(strategy, "hash")) return "sharding: strategy is neither hash nor cel";
    if (!is_unset(json_object_get(o, "cel_expr")) || !is_unset(json_object_get(o, "cel_columns")) || !is_unset(json_object_get(o, "routing_values")))
        return "sharding: hash goes without cel_expr, cel_columns and routing_values";
    m->is_cel = false;
    return NULL;
}

const char *sharding_parse(struct manifest *m, struct slice json)
{
    json_t *o = json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const char *why = parse_object(m, o);
    json_decref(o);
    return why;
}
