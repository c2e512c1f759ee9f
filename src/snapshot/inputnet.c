/* A round: SCAN gives some keys; they are asked for with GETs, many in one packet but never so many that the server, busy sending, could stop reading. */
#include "snapshot/inputnet.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/dial.h"
#include "snapshot/inputdump.h"

enum {
    TIMEOUT_S = 120,
    SCAN_COUNT = 1000,
    SEND_BYTES = 32 << 10, /* of requests under way */
    BULK_MAX = 1 << 30,
    ARRAY_MAX = 1 << 24,
    LOOK_UP_MS = 200,
};

struct inputnet {
    struct input input;
    const struct inputnet_server *server;
    const struct input_options *o;
    int fd;
    char in[64 << 10];
    size_t in_at, in_n;
    struct buf out;
    struct buf keys;        /* of the last SCAN: u32 bytes, then the key, each */
    size_t keys_at;         /* the next one whose reply comes */
    size_t asked_at;        /* the next one to be asked for */
    char cursor[32];
    bool scanned_all;
    struct buf value;
    struct slice key;
    struct slice *columns;
};

/* ---- the connection */

static bool broken(struct inputnet *m, const char *what, struct buf *why)
{
    buf_printf(why, "%s: %s", m->server->address, what);
    return false;
}

static bool send_out(struct inputnet *m, struct buf *why)
{
    for (size_t at = 0; at < m->out.len;) {
        ssize_t n = send(m->fd, m->out.p + at, m->out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return broken(m, strerror(errno), why);
        at += (size_t)n;
    }
    m->out.len = 0;
    return true;
}

static bool receive(struct inputnet *m, struct buf *why)
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    for (int waited_ms = 0; poll(&p, 1, LOOK_UP_MS) == 0; waited_ms += LOOK_UP_MS)
        if ((m->o->cancel && atomic_load(m->o->cancel)) || waited_ms >= TIMEOUT_S * 1000) return broken(m, "no answer in time", why);
    ssize_t n;
    do n = recv(m->fd, m->in, sizeof m->in, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return broken(m, n == 0 ? "the server closed the connection" : strerror(errno), why);
    m->in_at = 0;
    m->in_n = (size_t)n;
    atomic_fetch_add_explicit(&m->input.done_bytes, (uint64_t)n, memory_order_relaxed);
    return true;
}

static bool read_line(struct inputnet *m, char line[256], struct buf *why)
{
    size_t n = 0;
    for (;;) {
        if (m->in_at == m->in_n && !receive(m, why)) return false;
        char c = m->in[m->in_at++];
        if (c == '\n') break;
        if (c != '\r' && n < 255) line[n++] = c;
    }
    line[n] = '\0';
    return true;
}

/* The n bytes of a bulk string and its line end. */
static bool read_bulk(struct inputnet *m, int64_t n, struct buf *out, struct buf *why)
{
    char end[256];
    for (size_t left = (size_t)n; left;) {
        if (m->in_at == m->in_n && !receive(m, why)) return false;
        size_t part = m->in_n - m->in_at < left ? m->in_n - m->in_at : left;
        buf_add(out, m->in + m->in_at, part);
        m->in_at += part;
        left -= part;
    }
    return read_line(m, end, why);
}

/* ---- requests and replies */

static void add_word(struct inputnet *m, struct slice word)
{
    buf_printf(&m->out, "$%zu\r\n", word.n);
    buf_add_slice(&m->out, word);
    buf_add_str(&m->out, "\r\n");
}

static void add_command(struct inputnet *m, const struct slice *words, size_t n)
{
    buf_printf(&m->out, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) add_word(m, words[i]);
}

/* The size behind a reply's first byte, which must be `kind`. */
static bool read_head(struct inputnet *m, char kind, int64_t max, int64_t *n, struct buf *why)
{
    char line[256];
    if (!read_line(m, line, why)) return false;
    if (line[0] == '-') return broken(m, line + 1, why);
    if (line[0] != kind || !num_parse_i64(slice_str(line + 1), n) || *n > max || *n < 0) return broken(m, "an answer that makes no sense", why);
    return true;
}

static bool expect_ok(struct inputnet *m, struct buf *why)
{
    char line[256];
    if (!send_out(m, why) || !read_line(m, line, why)) return false;
    return line[0] == '+' || broken(m, line[0] == '-' ? line + 1 : "an answer that makes no sense", why);
}

static bool introduce(struct inputnet *m, struct buf *why)
{
    char db[8];
    const struct inputnet_server *s = m->server;
    if (s->password) {
        struct slice words[3] = {SLICE("AUTH")};
        size_t n = 1;
        if (s->user) words[n++] = slice_str(s->user);
        words[n++] = slice_str(s->password);
        add_command(m, words, n);
        if (!expect_ok(m, why)) return false;
    }
    struct slice select[] = {SLICE("SELECT"), slice_of(db, (size_t)snprintf(db, sizeof db, "%u", m->o->db))};
    add_command(m, select, 2);
    return expect_ok(m, why);
}

/* ---- rounds */

static bool read_cursor(struct inputnet *m, struct buf *why)
{
    struct buf cursor = {0};
    int64_t n;
    bool good = read_head(m, '*', 2, &n, why) && read_head(m, '$', sizeof m->cursor - 1, &n, why) && read_bulk(m, n, &cursor, why);
    if (good) {
        snprintf(m->cursor, sizeof m->cursor, "%.*s", (int)cursor.len, cursor.p);
        m->scanned_all = strcmp(m->cursor, "0") == 0;
    }
    buf_fini(&cursor);
    return good;
}

static bool scan(struct inputnet *m, struct buf *why)
{
    char count[16];
    int64_t n, bytes;
    struct slice words[] = {SLICE("SCAN"), slice_str(m->cursor), SLICE("COUNT"), slice_of(count, (size_t)snprintf(count, sizeof count, "%d", SCAN_COUNT))};
    add_command(m, words, 4);
    if (!send_out(m, why) || !read_cursor(m, why) || !read_head(m, '*', ARRAY_MAX, &n, why)) return false;
    m->keys.len = m->keys_at = m->asked_at = 0;
    for (; n > 0; n--) {
        if (!read_head(m, '$', BULK_MAX, &bytes, why)) return false;
        uint32_t size = (uint32_t)bytes;
        buf_add(&m->keys, &size, sizeof size);
        if (!read_bulk(m, bytes, &m->keys, why)) return false;
    }
    return true;
}

static struct slice key_at(const struct inputnet *m, size_t at)
{
    uint32_t n;
    memcpy(&n, m->keys.p + at, sizeof n);
    return slice_of(m->keys.p + at + sizeof n, n);
}

static bool ask(struct inputnet *m, struct buf *why)
{
    while (m->asked_at < m->keys.len && m->out.len < SEND_BYTES) {
        struct slice key = key_at(m, m->asked_at), words[] = {SLICE("GET"), key};
        add_command(m, words, 2);
        m->asked_at += sizeof(uint32_t) + key.n;
    }
    return send_out(m, why);
}

enum answer { ANSWER_VALUE, ANSWER_GONE, ANSWER_OTHER_TYPE, ANSWER_BROKEN };

static enum answer take_answer(struct inputnet *m, struct buf *why)
{
    char line[256];
    int64_t n;
    m->key = key_at(m, m->keys_at);
    if (!read_line(m, line, why)) return ANSWER_BROKEN;
    m->keys_at += sizeof(uint32_t) + m->key.n;
    if (strncmp(line, "-WRONGTYPE", 10) == 0) return ANSWER_OTHER_TYPE;
    if (line[0] == '_' || strcmp(line, "$-1") == 0) return ANSWER_GONE;
    m->value.len = 0;
    if (line[0] == '$' && num_parse_i64(slice_str(line + 1), &n) && n >= 0 && n <= BULK_MAX) return read_bulk(m, n, &m->value, why) ? ANSWER_VALUE : ANSWER_BROKEN;
    broken(m, line[0] == '-' ? line + 1 : "an answer that makes no sense", why);
    return ANSWER_BROKEN;
}

static enum input_result refuse(struct inputnet *m, struct buf *why)
{
    buf_printf(why, "%s: only strings can be published (--skip-other-types leaves others out): ", m->server->address);
    input_print(why, m->key);
    return INPUT_BAD;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputnet *m = (struct inputnet *)in;
    for (;;) {
        while (m->keys_at == m->keys.len) {
            if (m->scanned_all) return INPUT_END;
            if (!scan(m, why)) return INPUT_FAILED;
        }
        if (m->keys_at == m->asked_at && !ask(m, why)) return INPUT_FAILED;
        switch (take_answer(m, why)) {
        case ANSWER_BROKEN: return INPUT_FAILED;
        case ANSWER_GONE: continue;
        case ANSWER_OTHER_TYPE:
            if (!m->o->skip_other_types) return refuse(m, why);
            in->left_out++;
            continue;
        case ANSWER_VALUE: break;
        }
        for (size_t i = 0; i < m->o->fields.n_columns; i++) m->columns[i] = m->key;
        *row = (struct input_row){.key = m->key, .value = buf_slice(&m->value), .columns = m->columns};
        return INPUT_ROW;
    }
}

static void where(const struct input *in, struct buf *out) { buf_printf(out, "%s: ", ((const struct inputnet *)in)->server->address); }

static void release(struct input *in)
{
    struct inputnet *m = (struct inputnet *)in;
    if (m->fd >= 0) close(m->fd);
    buf_fini(&m->out);
    buf_fini(&m->keys);
    buf_fini(&m->value);
    mem_free(m->columns);
    mem_free(m);
}

struct input *inputnet_open(const struct inputnet_server *server, const struct input_options *o, struct buf *error)
{
    if (!inputdump_check_fields(&o->fields, server->address, error)) return NULL;
    struct inputnet *m = mem_zalloc(sizeof *m);
    m->input = (struct input){.next = next, .free = release, .where = where};
    m->server = server;
    m->o = o;
    m->columns = mem_zalloc((o->fields.n_columns + 1) * sizeof *m->columns);
    strcpy(m->cursor, "0");
    m->fd = dial(server->address, TIMEOUT_S, error);
    if (m->fd >= 0 && introduce(m, error)) return &m->input;
    release(&m->input);
    return NULL;
}
