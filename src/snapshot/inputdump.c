#include "snapshot/inputdump.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "dump/rdbfile.h"
#include "io/fileview.h"
#include "store/image.h"
#include "store/parts.h"

struct inputdump {
    struct input input;
    const char *path;
    const struct input_options *o;
    enum input_format format;
    struct fileview view;
    struct dumpfile_reader dump;
    struct rdbfile_reader rdb;
    struct inputdump_value value;
    struct slice *columns; /* all of them are the key */
};

struct item { /* of either format */
    struct slice key, image;
    uint64_t db;
    int64_t expiry_ms;
    size_t at;
    const char *left_out;
};

/* ---- keys and values */

bool inputdump_check_fields(const struct input_fields *f, const char *name, struct buf *error)
{
    const char *wrong = f->key && strcmp(f->key, "key") != 0 ? f->key : f->value && strcmp(f->value, "value") != 0 ? f->value : NULL;
    for (size_t i = 0; i < f->n_columns && !wrong; i++)
        if (strcmp(f->columns[i], "key") != 0) wrong = f->columns[i];
    if (f->n_json) wrong = f->json[0];
    if (wrong) buf_printf(error, "%s: no field '%s': keys have only the fields key and value", name, wrong);
    return !wrong;
}

void inputdump_value_fini(struct inputdump_value *v) { buf_fini(&v->copy); }

static const char *type_name(enum type t)
{
    switch (t) {
    case TYPE_LIST: return "list";
    case TYPE_SET: return "set";
    case TYPE_ZSET: return "sorted set";
    case TYPE_HASH: return "hash";
    default: return "string";
    }
}

/* Of an image that is not plain: numbers, compressed strings, other types. */
static enum inputdump_fate take_apart(struct slice image, struct inputdump_value *v, const char **other)
{
    struct parts p;
    enum inputdump_fate fate = INPUTDUMP_INVALID;
    *other = NULL;
    if (parts_read(&p, image)) {
        fate = p.type == TYPE_STRING ? INPUTDUMP_ROW : INPUTDUMP_REFUSED;
        if (fate == INPUTDUMP_REFUSED) *other = type_name(p.type);
        v->copy.len = 0;
        if (fate == INPUTDUMP_ROW) buf_add_slice(&v->copy, p.items[0]);
        v->bytes = buf_slice(&v->copy);
    }
    parts_fini(&p);
    return fate;
}

static enum inputdump_fate refuse(const struct input_options *o, struct slice key, const char *type, struct buf *why)
{
    if (o->skip_other_types) return INPUTDUMP_LEFT_OUT;
    buf_printf(why, "a %s cannot be published, only strings can (--skip-other-types leaves them out): ", type);
    input_print(why, key);
    return INPUTDUMP_REFUSED;
}

enum inputdump_fate inputdump_judge(const struct input_options *o, struct slice key, uint64_t db, int64_t expiry_ms, struct slice image, struct inputdump_value *v, struct buf *why)
{
    const char *other;
    if (db != o->db || (expiry_ms && expiry_ms <= o->now_ms)) return INPUTDUMP_LEFT_OUT;
    if (image_plain_string(image, &v->bytes)) return INPUTDUMP_ROW;
    enum inputdump_fate fate = take_apart(image, v, &other);
    return fate == INPUTDUMP_REFUSED ? refuse(o, key, other, why) : fate;
}

/* ---- files */

static int read_item(struct inputdump *d, struct item *x)
{
    struct dumpfile_entry e;
    struct rdbfile_item r;
    int rc;
    if (d->format == INPUT_DUMP) {
        if ((rc = dumpfile_next(&d->dump, &e)) == 1) *x = (struct item){.key = e.key, .image = e.image, .db = e.db, .expiry_ms = e.expiry_ms, .at = d->dump.at};
        return rc;
    }
    if ((rc = rdbfile_next(&d->rdb, &r)) == 1)
        *x = (struct item){.key = r.key, .image = r.image, .db = r.db, .expiry_ms = r.expiry_ms, .at = r.at, .left_out = r.kind == RDBFILE_LEFT_OUT ? r.what : NULL};
    return rc;
}

static enum input_result fail(struct inputdump *d, struct buf *why)
{
    bool is_dump = d->format == INPUT_DUMP;
    buf_printf(why, "%s: at byte %zu: %s", d->path, is_dump ? d->dump.fault_at : d->rdb.fault_at, is_dump ? d->dump.fault : d->rdb.fault);
    return INPUT_FAILED;
}

static enum inputdump_fate judge(struct inputdump *d, const struct item *x, struct buf *why)
{
    if (!x->left_out) return inputdump_judge(d->o, x->key, x->db, x->expiry_ms, x->image, &d->value, why);
    if (x->key.n && x->db != d->o->db) return INPUTDUMP_LEFT_OUT;
    return refuse(d->o, x->key, x->left_out, why);
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputdump *d = (struct inputdump *)in;
    struct item x = {0};
    for (int rc; (rc = read_item(d, &x)) != 0;) {
        if (rc < 0) return fail(d, why);
        atomic_store_explicit(&in->done_bytes, x.at, memory_order_relaxed);
        size_t before = why->len;
        buf_printf(why, "%s: at byte %zu: ", d->path, x.at);
        switch (judge(d, &x, why)) {
        case INPUTDUMP_LEFT_OUT: in->left_out++; break;
        case INPUTDUMP_REFUSED: return INPUT_BAD;
        case INPUTDUMP_INVALID: buf_add_str(why, "a value that is not valid"); return INPUT_BAD;
        case INPUTDUMP_ROW:
            why->len = before;
            for (size_t i = 0; i < d->o->fields.n_columns; i++) d->columns[i] = x.key;
            *row = (struct input_row){.key = x.key, .value = d->value.bytes, .columns = d->columns};
            return INPUT_ROW;
        }
        why->len = before;
    }
    return INPUT_END;
}

static void where(const struct input *in, struct buf *out)
{
    const struct inputdump *d = (const struct inputdump *)in;
    buf_printf(out, "%s: at byte %" PRIu64 ": ", d->path, (uint64_t)atomic_load(&in->done_bytes));
}

static void release(struct input *in)
{
    struct inputdump *d = (struct inputdump *)in;
    if (d->format == INPUT_DUMP) dumpfile_reader_fini(&d->dump);
    else rdbfile_reader_fini(&d->rdb);
    fileview_close(&d->view);
    inputdump_value_fini(&d->value);
    mem_free(d->columns);
    mem_free(d);
}

struct input *inputdump_open(const char *path, enum input_format format, const struct input_options *o, struct buf *error)
{
    struct fileview view = {0};
    if (!inputdump_check_fields(&o->fields, path, error)) return NULL;
    int rc = fileview_open(&view, &file_disk, path);
    if (rc) {
        buf_printf(error, "%s: %s", path, err_text(rc));
        return NULL;
    }
    struct inputdump *d = mem_zalloc(sizeof *d);
    d->input = (struct input){.next = next, .free = release, .where = where, .total_bytes = view.bytes.n};
    d->path = path;
    d->o = o;
    d->format = format;
    d->view = view;
    d->columns = mem_alloc((o->fields.n_columns + 1) * sizeof *d->columns);
    if (format == INPUT_DUMP) dumpfile_reader_init(&d->dump, view.bytes); /* what is wrong shows when it is read */
    else rdbfile_reader_init(&d->rdb, view.bytes);
    return &d->input;
}
