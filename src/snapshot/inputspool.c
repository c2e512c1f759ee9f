/* A row in the file: u32 key form, u32 bytes of the key, of the value and of each column, then all these bytes. */
#include "snapshot/inputspool.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "snapshot/inputfile.h"
#include "snapshot/tempfile.h"

enum { WRITE_BYTES = 1 << 20 };

struct inputspool {
    struct input input;
    struct inputfile file;
    struct buf out;
    size_t n_columns;
    struct slice *columns;
    uint32_t *sizes;
    uint64_t rows;
};

int inputspool_new(struct inputspool **out, const char *dir, size_t n_columns)
{
    struct inputspool *s = mem_zalloc(sizeof *s);
    s->file = (struct inputfile){.path = "temporary file", .fd = tempfile_open(dir)};
    s->n_columns = n_columns;
    s->columns = mem_zalloc((n_columns + 1) * sizeof *s->columns);
    s->sizes = mem_zalloc((n_columns + 3) * sizeof *s->sizes);
    *out = s;
    return s->file.fd < 0 ? s->file.fd : 0;
}

void inputspool_free(struct inputspool *s)
{
    if (!s) return;
    inputfile_close(&s->file);
    buf_fini(&s->out);
    mem_free(s->columns);
    mem_free(s->sizes);
    mem_free(s);
}

static int flush(struct inputspool *s)
{
    for (size_t at = 0; at < s->out.len;) {
        ssize_t n = write(s->file.fd, s->out.p + at, s->out.len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        at += (size_t)n;
    }
    s->file.size_bytes += s->out.len;
    s->out.len = 0;
    return 0;
}

int inputspool_add(struct inputspool *s, const struct input_row *row)
{
    s->sizes[0] = row->key_form;
    s->sizes[1] = (uint32_t)row->key.n;
    s->sizes[2] = (uint32_t)row->value.n;
    for (size_t i = 0; i < s->n_columns; i++) s->sizes[3 + i] = (uint32_t)row->columns[i].n;
    buf_add(&s->out, s->sizes, (3 + s->n_columns) * sizeof *s->sizes);
    buf_add_slice(&s->out, row->key);
    buf_add_slice(&s->out, row->value);
    for (size_t i = 0; i < s->n_columns; i++) buf_add_slice(&s->out, row->columns[i]);
    s->rows++;
    return s->out.len < WRITE_BYTES ? 0 : flush(s);
}

uint64_t inputspool_rows(const struct inputspool *s) { return s->rows; }

/* ---- reading */

/* At least n bytes are there behind `at`. */
static int need(struct inputspool *s, size_t n)
{
    int rc = 0;
    while (rc == 0 && inputfile_rest(&s->file).n < n) rc = s->file.at_end ? -EIO : inputfile_more(&s->file);
    return rc;
}

static struct slice take(const char **p, size_t n)
{
    struct slice s = slice_of(*p, n);
    *p += n;
    return s;
}

static int read_row(struct inputspool *s, struct input_row *row)
{
    size_t head = (3 + s->n_columns) * sizeof *s->sizes, bytes = head;
    int rc = need(s, head);
    if (rc) return rc;
    memcpy(s->sizes, inputfile_rest(&s->file).p, head);
    for (size_t i = 1; i < 3 + s->n_columns; i++) bytes += s->sizes[i];
    if ((rc = need(s, bytes))) return rc;
    const char *p = inputfile_rest(&s->file).p + head;
    row->key_form = (enum input_key_form)s->sizes[0];
    row->key = take(&p, s->sizes[1]);
    row->value = take(&p, s->sizes[2]);
    for (size_t i = 0; i < s->n_columns; i++) s->columns[i] = take(&p, s->sizes[3 + i]);
    row->columns = s->columns;
    s->file.at += bytes;
    return 0;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputspool *s = (struct inputspool *)in;
    if (s->rows == 0) return INPUT_END;
    s->rows--;
    int rc = read_row(s, row);
    atomic_store_explicit(&in->done_bytes, s->file.read_bytes, memory_order_relaxed);
    if (rc == 0) return INPUT_ROW;
    buf_printf(why, "the temporary file of the rows: %s", err_text(rc));
    return INPUT_FAILED;
}

static void release(struct input *in) { inputspool_free((struct inputspool *)in); }

int inputspool_read(struct inputspool *s, struct input **in)
{
    int rc = flush(s);
    if (rc) return rc;
    if (lseek(s->file.fd, 0, SEEK_SET) < 0) return -errno;
    s->input = (struct input){.next = next, .free = release, .total_bytes = s->file.size_bytes};
    *in = &s->input;
    return 0;
}
