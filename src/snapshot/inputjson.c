#include "snapshot/inputjson.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/jsonrow.h"

struct inputjson {
    struct input input;
    struct inputfile file;
    const struct input_options *o;
    struct jsonrow_field *fields; /* [n_fields]: the key, the value or the parts of the JSON value, the columns */
    size_t n_fields, first_column;
    struct slice *column_values;
    struct buf *texts; /* [n_fields] what had to be unescaped */
    struct buf json;
};

static void where(const struct input *in, struct buf *out)
{
    const struct inputjson *j = (const struct inputjson *)in;
    buf_printf(out, "%s:%" PRIu64 ": ", inputfile_name(&j->file), j->file.line - 1);
}

static enum input_result bad(struct inputjson *j, const char *what, const char *field, struct buf *why)
{
    where(&j->input, why);
    if (field) buf_printf(why, "field '%s': ", field);
    buf_add_str(why, what);
    return INPUT_BAD;
}

/* The bytes that a field stands for. */
static bool bytes_of(struct inputjson *j, size_t i, struct slice *out)
{
    const struct jsonrow_field *f = &j->fields[i];
    struct buf *text = &j->texts[i];
    *out = f->raw;
    text->len = 0;
    if (f->kind == JSONROW_NULL) *out = SLICE("");
    if (f->kind == JSONROW_STRING && f->has_escapes) {
        if (!jsonrow_unescape(f->raw, text)) return false;
        *out = buf_slice(text);
    }
    if (f->kind == JSONROW_OBJECT && jsonrow_base64(f, text)) *out = buf_slice(text);
    return true;
}

static bool is_integer(struct slice number) { return !memchr(number.p, '.', number.n) && !memchr(number.p, 'e', number.n) && !memchr(number.p, 'E', number.n); }

static const char *read_key(struct inputjson *j, struct input_row *row)
{
    const struct jsonrow_field *f = &j->fields[0];
    switch (f->kind) {
    case JSONROW_STRING: break;
    case JSONROW_NUMBER:
        if (!is_integer(f->raw)) return "the key is a number that is no integer";
        row->key_form = INPUT_KEY_NUMBER;
        break;
    case JSONROW_OBJECT:
        j->texts[0].len = 0;
        if (jsonrow_base64(f, &j->texts[0])) break;
        return "the key is an object";
    case JSONROW_ABSENT: return "the row has no such field";
    default: return "the key is neither a string nor an integer";
    }
    return bytes_of(j, 0, &row->key) ? NULL : "half of a surrogate pair stands alone";
}

static const char *read_value(struct inputjson *j, struct input_row *row, const char **field)
{
    const struct input_fields *f = &j->o->fields;
    if (!f->n_json) {
        *field = f->value ? f->value : "value";
        if (j->fields[1].kind == JSONROW_ABSENT) return "the row has no such field";
        return bytes_of(j, 1, &row->value) ? NULL : "half of a surrogate pair stands alone";
    }
    j->json.len = 0;
    for (size_t i = 0; i < f->n_json; i++) {
        *field = f->json[i];
        buf_add_byte(&j->json, i ? ',' : '{');
        jsonrow_add_string(&j->json, j->fields[1 + i].name);
        buf_add_byte(&j->json, ':');
        if (j->fields[1 + i].kind == JSONROW_ABSENT) buf_add_str(&j->json, "null");
        else if (!jsonrow_compact(&j->fields[1 + i], &j->json)) return "not UTF-8, or half of a surrogate pair stands alone";
    }
    buf_add_byte(&j->json, '}');
    row->value = buf_slice(&j->json);
    return NULL;
}

static const char *read_columns(struct inputjson *j, struct input_row *row, const char **field)
{
    const struct input_fields *f = &j->o->fields;
    for (size_t i = 0; i < f->n_columns; i++) {
        const struct jsonrow_field *c = &j->fields[j->first_column + i];
        *field = f->columns[i];
        if (c->kind == JSONROW_ABSENT && strcmp(*field, "key") == 0) j->column_values[i] = row->key;
        else if (c->kind == JSONROW_ABSENT || c->kind == JSONROW_NULL) return "a column of the routing expression is missing or null";
        else if (!bytes_of(j, j->first_column + i, &j->column_values[i])) return "half of a surrogate pair stands alone";
    }
    row->columns = j->column_values;
    return NULL;
}

static bool is_blank(struct slice line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.p[i] != ' ' && line.p[i] != '\t') return false;
    return true;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputjson *j = (struct inputjson *)in;
    struct slice line;
    size_t at;
    int rc;
    do rc = inputfile_line(&j->file, &line);
    while (rc == 1 && is_blank(line));
    atomic_store_explicit(&in->done_bytes, j->file.read_bytes, memory_order_relaxed);
    if (rc < 0) {
        buf_printf(why, "%s:%" PRIu64 ": %s", inputfile_name(&j->file), j->file.line, rc == -EFBIG ? "a line of more than a gigabyte" : err_text(rc));
        return INPUT_FAILED;
    }
    if (rc == 0) return INPUT_END;
    const char *fault = jsonrow_parse(line, j->fields, j->n_fields, &at), *field = NULL;
    if (fault) {
        buf_printf(why, "%s:%" PRIu64 ":%zu: %s", inputfile_name(&j->file), j->file.line - 1, at + 1, fault);
        return INPUT_BAD;
    }
    *row = (struct input_row){0};
    field = j->o->fields.key ? j->o->fields.key : "key";
    fault = read_key(j, row);
    if (!fault) fault = read_value(j, row, &field);
    if (!fault) fault = read_columns(j, row, &field);
    return fault ? bad(j, fault, field, why) : INPUT_ROW;
}

static void release(struct input *in)
{
    struct inputjson *j = (struct inputjson *)in;
    inputfile_close(&j->file);
    for (size_t i = 0; i < j->n_fields; i++) buf_fini(&j->texts[i]);
    mem_free(j->texts);
    mem_free(j->fields);
    mem_free(j->column_values);
    buf_fini(&j->json);
    mem_free(j);
}

struct input *inputjson_open(struct inputfile *file, const struct input_options *o)
{
    const struct input_fields *f = &o->fields;
    struct inputjson *j = mem_zalloc(sizeof *j);
    j->input = (struct input){.next = next, .free = release, .where = where, .total_bytes = file->size_bytes};
    j->file = *file;
    j->o = o;
    j->first_column = 1 + (f->n_json ? f->n_json : 1);
    j->n_fields = j->first_column + f->n_columns;
    j->fields = mem_zalloc(j->n_fields * sizeof *j->fields);
    j->texts = mem_zalloc(j->n_fields * sizeof *j->texts);
    j->column_values = mem_zalloc((f->n_columns + 1) * sizeof *j->column_values);
    j->fields[0].name = slice_str(f->key ? f->key : "key");
    if (!f->n_json) j->fields[1].name = slice_str(f->value ? f->value : "value");
    for (size_t i = 0; i < f->n_json; i++) j->fields[1 + i].name = slice_str(f->json[i]);
    for (size_t i = 0; i < f->n_columns; i++) j->fields[j->first_column + i].name = slice_str(f->columns[i]);
    return &j->input;
}
