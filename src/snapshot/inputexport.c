/* The next piece is asked for when one begins to come, so that the server never waits for us nor we for it; more than one is never under way. */
#include "snapshot/inputexport.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "snapshot/input.h"

struct inputexport {
    struct input input;
    struct inputwire *wire;
    const struct input_options *o;
    bool more;           /* pieces are to come */
    bool asked;          /* for the next one */
    int64_t rows_left;   /* of this piece: bulk strings */
    struct buf others;   /* of this piece: u32 bytes, then the key, each */
    size_t others_at;
    uint64_t left_out;   /* as the server counts */
    struct buf row;      /* the key, then the value */
    struct slice *columns;
};

static void add_export(struct inputwire *w, const char *verb, const char *option)
{
    struct slice words[3] = {SLICE("SNAPSHOT.EXPORT"), slice_str(verb)};
    if (option) words[2] = slice_str(option);
    inputwire_add(w, words, option ? 3 : 2);
}

enum inputexport_answer inputexport_begin(struct inputwire *w, const struct input_options *o, struct buf *why)
{
    char line[INPUTWIRE_LINE];
    add_export(w, "BEGIN", o->skip_other_types ? NULL : "OTHERS");
    if (!inputwire_send(w, why) || !inputwire_line(w, line, why)) return INPUTEXPORT_FAILED;
    if (line[0] == '+') return INPUTEXPORT_BEGUN;
    if (strncmp(line, "-ERR unknown command", 20) == 0) return INPUTEXPORT_UNKNOWN;
    if (strncmp(line, "-NODATA", 7) == 0) return INPUTEXPORT_NO_DATA;
    if (line[0] == '-') inputwire_broken(w, line + 1, why);
    else inputwire_nonsense(w, why);
    return INPUTEXPORT_FAILED;
}

/* ---- pieces */

static bool ask(struct inputexport *x, struct buf *why)
{
    add_export(x->wire, "NEXT", NULL);
    x->asked = true;
    return inputwire_send(x->wire, why);
}

static bool read_others(struct inputexport *x, struct buf *why)
{
    int64_t n, bytes;
    x->others.len = x->others_at = 0;
    if (!inputwire_head(x->wire, '*', INPUTWIRE_ARRAY_MAX, &n, why)) return false;
    for (; n > 0; n--) {
        if (!inputwire_head(x->wire, '$', INPUTWIRE_BULK_MAX, &bytes, why)) return false;
        uint32_t size = (uint32_t)bytes;
        buf_add(&x->others, &size, sizeof size);
        if (!inputwire_bulk(x->wire, bytes, &x->others, why)) return false;
    }
    return true;
}

struct numbers {
    int64_t more, keys_done, keys_total, left_out;
};

static bool read_number(struct inputexport *x, struct slice name, struct numbers *n, struct buf *why)
{
    int64_t v;
    if (!inputwire_head(x->wire, ':', INT64_MAX, &v, why)) return false;
    if (slice_eq(name, SLICE("more"))) n->more = v;
    else if (slice_eq(name, SLICE("keys_done"))) n->keys_done = v;
    else if (slice_eq(name, SLICE("keys_total"))) n->keys_total = v;
    else if (slice_eq(name, SLICE("left_out"))) n->left_out = v;
    return true; /* others may come with later versions */
}

static bool read_name(struct inputexport *x, struct buf *name, struct buf *why)
{
    int64_t n;
    name->len = 0;
    return inputwire_head(x->wire, '$', 64, &n, why) && inputwire_bulk(x->wire, n, name, why);
}

/* Fields up to the rows, which are the last one. */
static bool read_fields(struct inputexport *x, struct numbers *n, struct buf *why)
{
    int64_t words;
    struct buf name = {0};
    bool good = inputwire_head(x->wire, '*', 64, &words, why), at_rows = false;
    for (; good && words > 0 && !at_rows; words -= 2) {
        if (!(good = read_name(x, &name, why))) break;
        at_rows = slice_eq(buf_slice(&name), SLICE("rows"));
        if (at_rows) good = inputwire_head(x->wire, '*', INPUTWIRE_ARRAY_MAX, &x->rows_left, why);
        else good = slice_eq(buf_slice(&name), SLICE("others")) ? read_others(x, why) : read_number(x, buf_slice(&name), n, why);
    }
    buf_fini(&name);
    if (good && (!at_rows || words != 0 || x->rows_left % 2)) good = inputwire_nonsense(x->wire, why);
    return good;
}

/* How much there will be, by what the keys so far took. */
static void guess_total(struct inputexport *x, const struct numbers *n)
{
    uint64_t done = x->wire->received_bytes;
    if (!n->keys_done) return;
    double total = (double)done * (double)n->keys_total / (double)n->keys_done;
    atomic_store_explicit(&x->input.total_bytes, total > (double)done ? (uint64_t)total : done, memory_order_relaxed);
}

static bool begin_piece(struct inputexport *x, struct buf *why)
{
    struct numbers n = {0};
    if ((!x->asked && !ask(x, why)) || !read_fields(x, &n, why)) return false;
    x->asked = false;
    x->more = n.more != 0;
    x->input.left_out += (uint64_t)n.left_out - x->left_out;
    x->left_out = (uint64_t)n.left_out;
    guess_total(x, &n);
    return !x->more || ask(x, why);
}

/* ---- rows */

static bool read_row(struct inputexport *x, struct input_row *row, struct buf *why)
{
    int64_t n, m;
    x->row.len = 0;
    if (!inputwire_head(x->wire, '$', INPUTWIRE_BULK_MAX, &n, why) || !inputwire_bulk(x->wire, n, &x->row, why)) return false;
    if (!inputwire_head(x->wire, '$', INPUTWIRE_BULK_MAX, &m, why) || !inputwire_bulk(x->wire, m, &x->row, why)) return false;
    x->rows_left -= 2;
    const char *p = x->row.p ? x->row.p : "";
    *row = (struct input_row){.key = slice_of(p, (size_t)n), .value = slice_of(p + n, (size_t)m), .columns = x->columns};
    for (size_t i = 0; i < x->o->fields.n_columns; i++) x->columns[i] = row->key;
    return true;
}

static enum input_result refuse_other(struct inputexport *x, struct buf *why)
{
    uint32_t n;
    memcpy(&n, x->others.p + x->others_at, sizeof n);
    buf_printf(why, "%s: only strings can be published (--skip-other-types leaves others out): ", x->wire->address);
    input_print(why, slice_of(x->others.p + x->others_at + sizeof n, n));
    x->others_at += sizeof n + n;
    return INPUT_BAD;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputexport *x = (struct inputexport *)in;
    for (;;) {
        if (x->others_at < x->others.len) return refuse_other(x, why);
        atomic_store_explicit(&in->done_bytes, x->wire->received_bytes, memory_order_relaxed);
        if (x->rows_left) return read_row(x, row, why) ? INPUT_ROW : INPUT_FAILED;
        if (!x->more) return INPUT_END;
        if (!begin_piece(x, why)) return INPUT_FAILED;
    }
}

/* ---- life */

static void where(const struct input *in, struct buf *out) { buf_printf(out, "%s: ", ((const struct inputexport *)in)->wire->address); }

static void release(struct input *in)
{
    struct inputexport *x = (struct inputexport *)in;
    inputwire_close(x->wire);
    mem_free(x->wire);
    buf_fini(&x->others);
    buf_fini(&x->row);
    mem_free(x->columns);
    mem_free(x);
}

struct input *inputexport_open(struct inputwire *w, const struct input_options *o)
{
    struct inputexport *x = mem_zalloc(sizeof *x);
    x->input = (struct input){.next = next, .free = release, .where = where};
    x->wire = w;
    x->o = o;
    x->more = true;
    x->columns = mem_zalloc((o->fields.n_columns + 1) * sizeof *x->columns);
    return &x->input;
}
