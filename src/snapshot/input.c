#include "snapshot/input.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "cel/utf8.h"
#include "dump/rdbfile.h"
#include "snapshot/inputcsv.h"
#include "snapshot/inputdump.h"
#include "snapshot/inputfile.h"
#include "snapshot/inputjson.h"

int input_find(const struct slice *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(names[i], slice_str(name))) return (int)i;
    return -1;
}

void input_add_printable(struct buf *out, struct slice bytes)
{
    for (size_t i = 0; i < bytes.n;) {
        uint32_t c = 0;
        size_t n = utf8_decode(slice_of(bytes.p + i, bytes.n - i), &c);
        if (n && c >= ' ' && c != 0x7f) buf_add(out, bytes.p + i, n);
        else buf_printf(out, "\\x%02x", (uint8_t)bytes.p[i]);
        i += n ? n : 1;
    }
}

void input_print(struct buf *out, struct slice bytes)
{
    enum { SHOWN = 120 };
    size_t n = bytes.n;
    if (n > SHOWN) /* not in the middle of a character */
        for (n = SHOWN; n > 0 && ((uint8_t)bytes.p[n] & 0xc0) == 0x80; n--) {}
    input_add_printable(out, slice_of(bytes.p, n));
    if (n < bytes.n) buf_add_str(out, "...");
}

/* ---- formats */

static enum input_format format_by_name(const char *path)
{
    static const struct {
        const char *ending;
        enum input_format format;
    } endings[] = {{".csv", INPUT_CSV}, {".tsv", INPUT_CSV}, {".jsonl", INPUT_JSON}, {".ndjson", INPUT_JSON}, {".json", INPUT_JSON}, {".dump", INPUT_DUMP}, {".rdb", INPUT_RDB}};
    size_t n = strlen(path);
    for (unsigned i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i].ending);
        if (n > m && strcmp(path + n - m, endings[i].ending) == 0) return endings[i].format;
    }
    return INPUT_AUTO;
}

bool input_is_dump(const char *path)
{
    struct stat st;
    enum input_format f = format_by_name(path);
    return f == INPUT_DUMP || f == INPUT_RDB || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static enum input_format format_by_content(struct slice begin)
{
    if (rdbfile_is_one(begin)) return INPUT_RDB;
    if (begin.n >= 8 && memcmp(begin.p, "SHERDDMP", 8) == 0) return INPUT_DUMP;
    size_t at = 0;
    while (at < begin.n && memchr(" \t\r\n", begin.p[at], 4)) at++;
    return at < begin.n && begin.p[at] == '{' ? INPUT_JSON : INPUT_CSV;
}

/* The file's first bytes, as many as content needs to show itself. */
static int look_inside(struct inputfile *f, enum input_format *format)
{
    int rc = 0;
    while (rc == 0 && !f->at_end && f->in.len < 4096) rc = inputfile_more(f);
    if (rc == 0) *format = format_by_content(inputfile_rest(f));
    return rc;
}

/* ---- opening */

static struct input *give_up(struct inputfile *f, int rc, struct buf *error)
{
    buf_printf(error, "%s: %s", inputfile_name(f), err_text(rc));
    inputfile_close(f);
    return NULL;
}

static struct input *open_file(const char *path, const struct input_options *o, struct buf *error)
{
    struct inputfile f;
    enum input_format format = o->format == INPUT_AUTO ? format_by_name(path) : o->format;
    int rc = inputfile_open(&f, path, o->cancel);
    if (rc == 0 && format == INPUT_AUTO) rc = look_inside(&f, &format);
    if (rc) return give_up(&f, rc, error);
    if (format == INPUT_CSV) return inputcsv_open(&f, o, error);
    if (format == INPUT_JSON) return inputjson_open(&f, o);
    inputfile_close(&f);
    return inputdump_open(path, format, o, error);
}

struct input *input_open(const char *path, const struct input_options *o, struct buf *error)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (o->open_dir) return o->open_dir(path, o, error);
        buf_printf(error, "%s: a directory", path);
        return NULL;
    }
    return open_file(path, o, error);
}

/* ---- several */

struct chain {
    struct input input;
    const char *const *paths;
    size_t n, next_path;
    const struct input_options *o;
    struct input *current;
    uint64_t before_bytes; /* of those that are done */
};

static void close_current(struct chain *c)
{
    c->before_bytes += atomic_load(&c->current->done_bytes);
    input_free(c->current);
    c->current = NULL;
}

static enum input_result chain_next(struct input *in, struct input_row *row, struct buf *why)
{
    struct chain *c = (struct chain *)in;
    while (c->current || c->next_path < c->n) {
        if (!c->current) c->current = input_open(c->paths[c->next_path++], c->o, why);
        if (!c->current) return INPUT_FAILED;
        uint64_t left_out = c->current->left_out;
        enum input_result r = input_next(c->current, row, why);
        in->left_out += c->current->left_out - left_out;
        atomic_store_explicit(&in->done_bytes, c->before_bytes + atomic_load_explicit(&c->current->done_bytes, memory_order_relaxed), memory_order_relaxed);
        if (r != INPUT_END) return r;
        close_current(c);
    }
    return INPUT_END;
}

static void chain_where(const struct input *in, struct buf *out)
{
    const struct chain *c = (const struct chain *)in;
    if (c->current) input_where(c->current, out);
}

static void chain_free(struct input *in)
{
    input_free(((struct chain *)in)->current);
    mem_free(in);
}

/* The sum of the files' sizes; 0 if one of them has none. */
static uint64_t total_bytes(const char *const *paths, size_t n)
{
    uint64_t sum = 0;
    struct stat st;
    for (size_t i = 0; i < n; i++) {
        if (stat(paths[i], &st) != 0 || !S_ISREG(st.st_mode)) return 0;
        sum += (uint64_t)st.st_size;
    }
    return sum;
}

struct input *input_chain(const char *const *paths, size_t n, const struct input_options *o)
{
    struct chain *c = mem_zalloc(sizeof *c);
    c->input = (struct input){.next = chain_next, .free = chain_free, .where = chain_where, .total_bytes = total_bytes(paths, n)};
    c->paths = paths;
    c->n = n;
    c->o = o;
    return &c->input;
}
