#include "snapshot/inputcsv.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/csvrow.h"
#include "snapshot/jsonrow.h"

struct inputcsv {
    struct input input;
    struct inputfile file;
    const struct input_options *o;
    char separator;
    struct csvrow row;
    size_t n_fields;          /* of the header */
    size_t key, value;        /* their places in a record */
    size_t *json, *columns;
    struct slice *column_values;
    struct buf text;          /* a JSON value */
};

static void place(const struct inputcsv *c, uint64_t line, struct buf *why) { buf_printf(why, "%s:%" PRIu64 ": ", inputfile_name(&c->file), line); }

/* The next record; lines that are empty are passed over. */
static enum input_result read_record(struct inputcsv *c, struct buf *why)
{
    struct inputfile *f = &c->file;
    int rc = 0;
    for (;;) {
        struct slice rest = inputfile_rest(f);
        enum csvrow_result r = rest.n ? csvrow_parse(&c->row, rest, c->separator, f->at_end) : CSVROW_MORE;
        if (r == CSVROW_MORE) {
            if (f->at_end) return INPUT_END;
            if ((rc = inputfile_more(f)) == 0) continue;
            place(c, f->line, why);
            buf_add_str(why, rc == -EFBIG ? "a record of more than a gigabyte: is a quote left open?" : err_text(rc));
            return INPUT_FAILED;
        }
        f->at += c->row.used;
        f->line += c->row.lines;
        if (r == CSVROW_BAD) {
            place(c, f->line - c->row.lines, why);
            buf_add_str(why, c->row.fault);
            return INPUT_BAD;
        }
        bool is_empty = c->row.n == 1 && c->row.fields[0].n == 0 && c->n_fields != 1;
        if (!is_empty) return INPUT_ROW;
    }
}

/* ---- the header */

static bool find(struct inputcsv *c, const char *name, size_t *at, struct buf *error)
{
    int found = input_find(c->row.fields, c->row.n, name);
    *at = (size_t)found;
    for (size_t i = *at + 1; found >= 0 && i < c->row.n; i++) {
        if (!slice_eq(c->row.fields[i], slice_str(name))) continue;
        buf_printf(error, "%s:1: the header has the field '%s' twice", inputfile_name(&c->file), name);
        return false;
    }
    if (found >= 0) return true;
    buf_printf(error, "%s:1: no field '%s' in the header, which has:", inputfile_name(&c->file), name);
    for (size_t i = 0; i < c->row.n && i < 20; i++) buf_printf(error, " %.*s", (int)(c->row.fields[i].n < 60 ? c->row.fields[i].n : 60), c->row.fields[i].p);
    return false;
}

static bool find_column(struct inputcsv *c, const char *name, size_t *at, struct buf *error)
{
    if (strcmp(name, "key") == 0 && input_find(c->row.fields, c->row.n, name) < 0) {
        *at = c->key;
        return true;
    }
    return find(c, name, at, error);
}

static bool find_all(struct inputcsv *c, struct buf *error)
{
    const struct input_fields *f = &c->o->fields;
    if (!find(c, f->key ? f->key : "key", &c->key, error)) return false;
    if (!f->n_json && !find(c, f->value ? f->value : "value", &c->value, error)) return false;
    for (size_t i = 0; i < f->n_json; i++)
        if (!find(c, f->json[i], &c->json[i], error)) return false;
    for (size_t i = 0; i < f->n_columns; i++)
        if (!find_column(c, f->columns[i], &c->columns[i], error)) return false;
    return true;
}

/* Spreadsheets put the mark of UTF-8 in front. */
static void skip_mark(struct inputfile *f)
{
    struct slice rest = inputfile_rest(f);
    if (rest.n >= 3 && memcmp(rest.p, "\xef\xbb\xbf", 3) == 0) f->at += 3;
}

static bool read_header(struct inputcsv *c, struct buf *error)
{
    while (!c->file.at_end && c->file.in.len < 3)
        if (inputfile_more(&c->file) != 0) break;
    skip_mark(&c->file);
    enum input_result r = read_record(c, error);
    if (r == INPUT_END) buf_printf(error, "%s: empty: a header with the names of the fields is needed", inputfile_name(&c->file));
    if (r != INPUT_ROW) return false;
    c->n_fields = c->row.n;
    return find_all(c, error);
}

/* ---- rows */

static enum input_result bad(struct inputcsv *c, const char *what, struct buf *why)
{
    place(c, c->file.line - c->row.lines, why);
    buf_add_str(why, what);
    return INPUT_BAD;
}

/* An object of strings, its names sorted as the caller has them. */
static bool make_json(struct inputcsv *c)
{
    const struct input_fields *f = &c->o->fields;
    c->text.len = 0;
    for (size_t i = 0; i < f->n_json; i++) {
        buf_add_byte(&c->text, i ? ',' : '{');
        if (!jsonrow_add_string(&c->text, slice_str(f->json[i]))) return false;
        buf_add_byte(&c->text, ':');
        if (!jsonrow_add_string(&c->text, c->row.fields[c->json[i]])) return false;
    }
    buf_add_byte(&c->text, '}');
    return true;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputcsv *c = (struct inputcsv *)in;
    enum input_result r = read_record(c, why);
    atomic_store_explicit(&in->done_bytes, c->file.read_bytes, memory_order_relaxed);
    if (r != INPUT_ROW) return r;
    if (c->row.n != c->n_fields) {
        place(c, c->file.line - c->row.lines, why);
        buf_printf(why, "%zu fields, the header has %zu", c->row.n, c->n_fields);
        return INPUT_BAD;
    }
    if (c->o->fields.n_json && !make_json(c)) return bad(c, "a field of the JSON value is not UTF-8", why);
    for (size_t i = 0; i < c->o->fields.n_columns; i++) c->column_values[i] = c->row.fields[c->columns[i]];
    *row = (struct input_row){.key = c->row.fields[c->key], .value = c->o->fields.n_json ? buf_slice(&c->text) : c->row.fields[c->value], .columns = c->column_values};
    return INPUT_ROW;
}

static void where(const struct input *in, struct buf *out)
{
    const struct inputcsv *c = (const struct inputcsv *)in;
    place(c, c->file.line - c->row.lines, out);
}

static void release(struct input *in)
{
    struct inputcsv *c = (struct inputcsv *)in;
    inputfile_close(&c->file);
    csvrow_fini(&c->row);
    buf_fini(&c->text);
    mem_free(c->json);
    mem_free(c->columns);
    mem_free(c->column_values);
    mem_free(c);
}

static char separator_of(const struct inputfile *f, const struct input_options *o)
{
    size_t n = strlen(f->path);
    if (o->separator) return o->separator;
    return n > 4 && strcmp(f->path + n - 4, ".tsv") == 0 ? '\t' : ',';
}

struct input *inputcsv_open(struct inputfile *file, const struct input_options *o, struct buf *error)
{
    struct inputcsv *c = mem_zalloc(sizeof *c);
    c->input = (struct input){.next = next, .free = release, .where = where, .total_bytes = file->size_bytes};
    c->file = *file;
    c->o = o;
    c->separator = separator_of(file, o);
    c->json = mem_alloc((o->fields.n_json + 1) * sizeof *c->json);
    c->columns = mem_alloc((o->fields.n_columns + 1) * sizeof *c->columns);
    c->column_values = mem_alloc((o->fields.n_columns + 1) * sizeof *c->column_values);
    if (read_header(c, error)) return &c->input;
    release(&c->input);
    return NULL;
}
