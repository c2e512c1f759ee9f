/* sherd snapshot get, multiget, scan, route. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/snapshot_read.h"
#include "cli/subcommand.h"
#include "route/snapkey.h"

/* ---- keys as words */

static bool encoding_of(struct snapread *r, enum snapkey_encoding *e)
{
    struct sherd_info info = {.size = sizeof info};
    sherd_reader_info(r->reader, &info, NULL);
    bool known = snapkey_encoding_parse(slice_str(info.key_encoding), e);
    sherd_info_free(&info);
    return known;
}

/* What a word means under the snapshot's encoding. NULL, or why not. */
static const char *read_key(enum snapkey_encoding e, const char *word, struct sherd_key *key)
{
    struct snapkey k;
    const char *fault = snapkey_parse(e, slice_str(word), &k);
    if (fault) return fault;
    if (k.kind == SNAPKEY_INT || k.kind == SNAPKEY_UINT)
        *key = sherd_key_int(k.u);
    else
        *key = k.kind == SNAPKEY_TEXT ? sherd_key_text(k.s.p, k.s.n) : sherd_key_bytes(k.s.p, k.s.n);
    return NULL;
}

static int one_key(struct snapread *r, const char *op, struct sherd_key *key)
{
    enum snapkey_encoding e;
    if (r->args->n_words != 1) {
        fprintf(stderr, "sherd: %s: one key is needed\n", op);
        return EXIT_USAGE;
    }
    const char *fault = encoding_of(r, &e) ? read_key(e, r->args->words[0], key) : "unknown encoding";
    return fault ? snapread_fail(r, op, r->args->words[0], fault) : EXIT_WELL;
}

static const struct sherd_context *context_of(const struct snapread *r, struct sherd_context *c)
{
    *c = (struct sherd_context){.names = r->args->context.names, .values = r->args->context.values, .n = r->args->context.n};
    return c;
}

/* ---- get */

static json_t *found_row(struct snapread *r, const char *word, bool found, const void *data, size_t size)
{
    json_t *row = json_pack("{s:o, s:b}", "key", snapread_bytes(word, strlen(word)), "found", found);
    json_object_set_new(row, "value", found ? snapread_value(r, data, size) : json_null());
    return row;
}

static int show_value(struct snapread *r, const struct sherd_value *v, bool found)
{
    const char *word = r->args->words[0];
    if (r->args->output != SNAPREAD_TEXT) {
        json_t *doc = json_pack("{s:s}", "op", "get"), *row = found_row(r, word, found, v->data, v->size);
        json_object_update(doc, row);
        json_decref(row);
        return snapread_show(r, doc, NULL);
    }
    struct buf b = {0};
    if (found)
        snapread_value_text(r, &b, v->data, v->size);
    else
        buf_add_str(&b, "(not found)");
    if (r->args->encoding != SNAPREAD_RAW) buf_add_byte(&b, '\n'); /* raw that was asked for is raw to the byte */
    if (!found && r->args->encoding == SNAPREAD_RAW) b.len = 0;
    fwrite(b.p, 1, b.len, r->out);
    buf_fini(&b);
    return fflush(r->out) == 0 ? EXIT_WELL : EXIT_TROUBLE;
}

int snapread_get(struct snapread *r)
{
    struct sherd_key key;
    struct sherd_context c;
    struct sherd_value v = {0};
    struct sherd_error why;
    int code = one_key(r, "get", &key);
    if (code != EXIT_WELL) return code;
    int rc = sherd_reader_get(r->reader, &key, context_of(r, &c), &v, &why);
    code = rc < 0 ? snapread_fail(r, "get", r->args->words[0], why.text) : show_value(r, &v, rc == 1);
    sherd_value_free(&v);
    if (code == EXIT_WELL && rc == 0 && r->args->strict) return EXIT_TROUBLE;
    return code;
}

int snapread_route(struct snapread *r)
{
    struct sherd_key key;
    struct sherd_context c;
    struct sherd_error why;
    int code = one_key(r, "route", &key);
    if (code != EXIT_WELL) return code;
    const char *word = r->args->words[0];
    int64_t id = sherd_reader_route(r->reader, &key, context_of(r, &c), &why);
    if (id == -1) return snapread_fail(r, "route", word, "the routing expression names no shard of this snapshot");
    if (id < 0) return snapread_fail(r, "route", word, why.text);
    if (r->args->output == SNAPREAD_TEXT) {
        fprintf(r->out, "%s -> shard %" PRId64 "\n", word, id);
        return fflush(r->out) == 0 ? EXIT_WELL : EXIT_TROUBLE;
    }
    return snapread_show(r, json_pack("{s:s, s:o, s:I}", "op", "route", "key", snapread_bytes(word, strlen(word)), "db_id", (json_int_t)id), NULL);
}

/* ---- multiget */

struct words {
    char **words;
    size_t n, room;
};

static void add_word(struct words *w, const char *word)
{
    if (w->n == w->room) {
        w->room = w->room ? 2 * w->room : 256;
        w->words = mem_resize(w->words, w->room * sizeof *w->words);
    }
    w->words[w->n++] = mem_strdup(word);
}

/* The keys of the command line; in place of "-" the lines of standard input. */
static void gather_words(const struct snapread *r, struct words *w)
{
    for (size_t i = 0; i < r->args->n_words; i++) {
        if (strcmp(r->args->words[i], "-") != 0) {
            add_word(w, r->args->words[i]);
            continue;
        }
        char *line = NULL;
        size_t room = 0;
        for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
            if (line[n - 1] == '\n') line[--n] = 0;
            add_word(w, line);
        }
        free(line);
    }
}

static void print_pair(struct snapread *r, struct buf *b, const char *word, bool found, const void *data, size_t size)
{
    buf_add_str(b, word);
    buf_add_byte(b, '\t');
    if (found)
        snapread_value_text(r, b, data, size);
    else
        buf_add_str(b, "(not found)");
    buf_add_byte(b, '\n');
}

static int show_batch(struct snapread *r, const struct words *w, const struct sherd_batch *batch)
{
    struct buf text = {0};
    json_t *results = json_array();
    for (size_t i = 0; i < w->n; i++) {
        const void *data = NULL;
        size_t size = 0;
        bool found = sherd_batch_get(batch, i, &data, &size);
        if (r->args->output == SNAPREAD_TEXT)
            print_pair(r, &text, w->words[i], found, data, size);
        else
            json_array_append_new(results, found_row(r, w->words[i], found, data, size));
    }
    int code = EXIT_WELL;
    if (r->args->output == SNAPREAD_TEXT) {
        if (text.len) fwrite(text.p, 1, text.len, r->out);
        code = fflush(r->out) == 0 ? EXIT_WELL : EXIT_TROUBLE;
        json_decref(results);
    } else {
        code = snapread_show(r, json_pack("{s:s, s:o}", "op", "multiget", "results", results), NULL);
    }
    buf_fini(&text);
    return code;
}

static bool any_missing(const struct sherd_batch *batch, size_t n)
{
    const void *data;
    size_t size;
    for (size_t i = 0; i < n; i++)
        if (!sherd_batch_get(batch, i, &data, &size)) return true;
    return false;
}

static int look_up(struct snapread *r, const struct words *w, struct sherd_key *keys)
{
    enum snapkey_encoding e;
    struct sherd_context c;
    struct sherd_error why;
    if (!encoding_of(r, &e)) return snapread_fail(r, "multiget", NULL, "unknown encoding");
    for (size_t i = 0; i < w->n; i++) {
        const char *fault = read_key(e, w->words[i], &keys[i]);
        if (fault) return snapread_fail(r, "multiget", w->words[i], fault);
    }
    struct sherd_batch *batch = sherd_reader_multi_get(r->reader, keys, w->n, context_of(r, &c), &why);
    if (!batch) return snapread_fail(r, "multiget", NULL, why.text);
    int code = show_batch(r, w, batch);
    if (code == EXIT_WELL && r->args->strict && any_missing(batch, w->n)) code = EXIT_TROUBLE;
    sherd_batch_free(batch);
    return code;
}

int snapread_multiget(struct snapread *r)
{
    struct words w = {0};
    if (r->args->n_words == 0) {
        fprintf(stderr, "sherd: multiget: keys are needed, or - for those on standard input\n");
        return EXIT_USAGE;
    }
    gather_words(r, &w);
    struct sherd_key *keys = mem_alloc((w.n + 1) * sizeof *keys);
    int code = look_up(r, &w, keys);
    for (size_t i = 0; i < w.n; i++) mem_free(w.words[i]);
    mem_free(w.words);
    mem_free(keys);
    return code;
}

/* ---- scan */

struct bounds {
    struct sherd_range range;
    struct sherd_key start, end, prefix;
};

static const char *read_bounds(const struct snapread_args *a, enum snapkey_encoding e, struct bounds *b)
{
    const char *fault = NULL, *start = a->after ? a->after : a->start;
    b->range = (struct sherd_range){.size = sizeof b->range, .after_start = a->after != NULL, .reverse = a->reverse, .one_shard = a->has_shard, .shard = (uint32_t)a->shard};
    if (start) {
        fault = read_key(e, start, &b->start);
        b->range.start = &b->start;
    }
    if (a->end && !fault) {
        fault = read_key(e, a->end, &b->end);
        b->range.end = &b->end;
    }
    if (a->prefix && !fault) {
        b->prefix = sherd_key_bytes(a->prefix, strlen(a->prefix));
        b->range.prefix = &b->prefix;
        if (e == SNAPKEY_U64BE || e == SNAPKEY_U32BE) fault = "keys that are numbers have no prefix";
    }
    return fault;
}

enum { KEY_CELL = 20 /* the longest number */ };

/* Of a table whose other rows are not known yet: longer keys push their values aside. */
static void add_cells(const struct snapread *r, struct buf *b, const struct sherd_key *key, const void *data, size_t size)
{
    snapread_key_text(b, key);
    if (!r->args->keys_only) {
        while (b->len < KEY_CELL) buf_add_byte(b, ' ');
        buf_add_str(b, "  ");
        snapread_value_cell(r, b, data, size);
    }
    buf_add_byte(b, '\n');
}

static void print_row(struct snapread *r, struct buf *b, uint64_t number, const struct sherd_key *key, const void *data, size_t size)
{
    const struct snapread_args *a = r->args;
    b->len = 0;
    if (a->output == SNAPREAD_TABLE) {
        add_cells(r, b, key, data, size);
        return;
    }
    if (a->output == SNAPREAD_TEXT) {
        snapread_key_text(b, key);
        if (!a->keys_only) buf_add_byte(b, '\t');
        if (!a->keys_only) snapread_value_text(r, b, data, size);
        buf_add_byte(b, '\n');
        return;
    }
    json_t *row = json_pack("{s:o}", "key", snapread_key(key));
    if (!a->keys_only) json_object_set_new(row, "value", snapread_value(r, data, size));
    char *text = json_dumps(row, JSON_ENSURE_ASCII);
    if (a->output == SNAPREAD_JSON) buf_add_str(b, number ? ",\n    " : "\n    ");
    buf_add_str(b, text);
    if (a->output == SNAPREAD_JSONL) buf_add_byte(b, '\n');
    free(text);
    json_decref(row);
}

/* Rows go out one by one: a scan may be larger than memory. */
static int print_scan(struct snapread *r, struct sherd_cursor *cursor)
{
    struct buf b = {0};
    struct sherd_key key;
    struct sherd_error why;
    const void *data;
    size_t size;
    uint64_t n = 0;
    int rc = 1;
    bool json = r->args->output == SNAPREAD_JSON;
    if (json) fputs("{\n  \"op\": \"scan\",\n  \"rows\": [", r->out);
    if (r->args->output == SNAPREAD_TABLE) fprintf(r->out, "%-*s%s\n", r->args->keys_only ? 0 : KEY_CELL, "key", r->args->keys_only ? "" : "  value");
    while ((!r->args->has_limit || n < r->args->limit) && !ferror(r->out) && (rc = sherd_cursor_next(cursor, &key, &data, &size, &why)) == 1) {
        print_row(r, &b, n++, &key, data, size);
        fwrite(b.p, 1, b.len, r->out);
    }
    if (json) fputs(n ? "\n  ]\n}\n" : "]\n}\n", r->out);
    buf_fini(&b);
    if (fflush(r->out) != 0) return EXIT_TROUBLE;
    return rc < 0 ? snapread_fail(r, "scan", NULL, why.text) : EXIT_WELL;
}

int snapread_scan(struct snapread *r)
{
    struct bounds b;
    enum snapkey_encoding e;
    struct sherd_error why;
    const char *fault = encoding_of(r, &e) ? read_bounds(r->args, e, &b) : "unknown encoding";
    if (fault) return snapread_fail(r, "scan", NULL, fault);
    struct sherd_cursor *cursor = sherd_reader_scan(r->reader, &b.range, &why);
    if (!cursor) return snapread_fail(r, "scan", NULL, why.text);
    int code = print_scan(r, cursor);
    sherd_cursor_close(cursor);
    return code;
}
