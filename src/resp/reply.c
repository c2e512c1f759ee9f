#include "resp/reply.h"


#include "base/num.h"

enum { HEAD_MAX = 24 }; /* type byte, a number, CRLF */

const char reply_wrongtype[] = "WRONGTYPE Operation against a key holding the wrong kind of value";
const char reply_syntax[] = "ERR syntax error";
const char reply_notint[] = "ERR value is not an integer or out of range";
const char reply_notfloat[] = "ERR value is not a valid float";
const char reply_nokey[] = "ERR no such key";
const char reply_range[] = "ERR index out of range";

/* Type byte, number, CRLF: at out, which has HEAD_MAX bytes. */
static inline size_t write_head(char *out, char type, int64_t v)
{
    size_t n;
    out[0] = type;
    if (v >= 0 && v < 10) {
        out[1] = (char)('0' + v);
        n = 2;
    } else {
        n = 1 + num_format_i64(out + 1, v);
    }
    out[n] = '\r';
    out[n + 1] = '\n';
    return n + 2;
}

static void add_head(struct reply *r, char type, int64_t v)
{
    r->out->len += write_head(buf_room(r->out, HEAD_MAX), type, v);
}

void reply_ok(struct reply *r) { buf_add(r->out, "+OK\r\n", 5); }

void reply_simple(struct reply *r, const char *text)
{
    buf_add_byte(r->out, '+');
    buf_add_str(r->out, text);
    buf_add(r->out, "\r\n", 2);
}

void reply_int(struct reply *r, int64_t v) { add_head(r, ':', v); }

void reply_bulk(struct reply *r, struct slice s)
{
    char *at = buf_room(r->out, HEAD_MAX + s.n + 2);
    size_t n = write_head(at, '$', (int64_t)s.n);
    if (s.n) memcpy(at + n, s.p, s.n);
    n += s.n;
    at[n] = '\r';
    at[n + 1] = '\n';
    r->out->len += n + 2;
}

void reply_bulk_str(struct reply *r, const char *s) { reply_bulk(r, slice_str(s)); }

void reply_bulk_i64(struct reply *r, int64_t v)
{
    char text[NUM_I64_MAX_CHARS];
    reply_bulk(r, slice_of(text, num_format_i64(text, v)));
}

void reply_null(struct reply *r)
{
    if (r->resp == 3)
        buf_add(r->out, "_\r\n", 3);
    else
        buf_add(r->out, "$-1\r\n", 5);
}

void reply_null_array(struct reply *r)
{
    if (r->resp == 3)
        buf_add(r->out, "_\r\n", 3);
    else
        buf_add(r->out, "*-1\r\n", 5);
}

void reply_double(struct reply *r, double v)
{
    char text[NUM_F64_MAX_CHARS];
    size_t n = num_format_f64(text, v);
    if (r->resp != 3) {
        reply_bulk(r, slice_of(text, n));
        return;
    }
    buf_add_byte(r->out, ',');
    buf_add(r->out, text, n);
    buf_add(r->out, "\r\n", 2);
}

void reply_bool(struct reply *r, bool v)
{
    if (r->resp == 3)
        buf_add(r->out, v ? "#t\r\n" : "#f\r\n", 4);
    else
        reply_int(r, v);
}

void reply_verbatim(struct reply *r, const char *ext, struct slice s)
{
    if (r->resp != 3) {
        reply_bulk(r, s);
        return;
    }
    CHECK(strlen(ext) == 3);
    add_head(r, '=', (int64_t)s.n + 4);
    buf_add(r->out, ext, 3);
    buf_add_byte(r->out, ':');
    buf_add_slice(r->out, s);
    buf_add(r->out, "\r\n", 2);
}

static char array_type(const struct reply *r) { return '*'; }
static char map_type(const struct reply *r) { return r->resp == 3 ? '%' : '*'; }
static char set_type(const struct reply *r) { return r->resp == 3 ? '~' : '*'; }
static size_t map_count(const struct reply *r, size_t pairs) { return r->resp == 3 ? pairs : pairs * 2; }

void reply_array(struct reply *r, size_t n) { add_head(r, array_type(r), (int64_t)n); }
void reply_map(struct reply *r, size_t pairs) { add_head(r, map_type(r), (int64_t)map_count(r, pairs)); }
void reply_set(struct reply *r, size_t n) { add_head(r, set_type(r), (int64_t)n); }
void reply_push(struct reply *r, size_t n) { add_head(r, r->resp == 3 ? '>' : '*', (int64_t)n); }

size_t reply_open(struct reply *r) { return r->out->len; }

static void close_with(struct reply *r, size_t mark, char type, size_t n)
{
    char head[HEAD_MAX];
    buf_insert(r->out, mark, head, write_head(head, type, (int64_t)n));
}

void reply_close_array(struct reply *r, size_t mark, size_t n) { close_with(r, mark, array_type(r), n); }
void reply_close_map(struct reply *r, size_t mark, size_t pairs) { close_with(r, mark, map_type(r), map_count(r, pairs)); }
void reply_close_set(struct reply *r, size_t mark, size_t n) { close_with(r, mark, set_type(r), n); }

/* The text of an error stands behind `mark`: whatever would break the line becomes a space. */
static void finish_error(struct reply *r, size_t mark)
{
    for (size_t i = mark; i < r->out->len; i++) {
        char *c = r->out->p + i;
        if (*c == '\r' || *c == '\n' || *c == 0) *c = ' ';
    }
    buf_add(r->out, "\r\n", 2);
}

void reply_error(struct reply *r, const char *text)
{
    buf_add_byte(r->out, '-');
    size_t mark = r->out->len;
    buf_add_str(r->out, text);
    finish_error(r, mark);
}

void reply_errorf(struct reply *r, const char *fmt, ...)
{
    buf_add_byte(r->out, '-');
    size_t mark = r->out->len;
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(r->out, fmt, ap);
    va_end(ap);
    finish_error(r, mark);
}
