/* Into a running server: RESTORE commands, many on their way at a time, with expiries as absolute times. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/import.h"
#include "io/dial.h"
#include "store/image.h"

enum {
    BATCH_BYTES = 256 << 10,  /* sent at once */
    BATCH_COMMANDS = 512,
    ON_THEIR_WAY = 2 * BATCH_COMMANDS + 16,
    NAME_CHARS = 64,
    TIMEOUT_S = 120, /* without an answer */
};

struct asked { /* a command whose reply is still to come */
    bool is_key;
    char name[NAME_CHARS]; /* for messages */
};

struct importnet {
    struct import_sink sink;
    const struct import_options *options;
    int fd;
    int db;                  /* selected; -1: none yet */
    struct buf out;          /* commands that are not sent yet */
    struct buf image;
    char in[4096];           /* of replies */
    size_t in_at, in_n;
    struct asked asked[ON_THEIR_WAY]; /* a ring */
    unsigned first, waiting; /* waiting: replies to come; of these, the last `unsent` were not sent yet */
    unsigned unsent;
    bool broken;             /* the connection */
};

/* ---- the connection */

static int send_out(struct importnet *m, struct buf *error)
{
    for (size_t at = 0; at < m->out.len;) {
        ssize_t n = send(m->fd, m->out.p + at, m->out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            buf_printf(error, "%s: the connection broke while sending: %s", m->options->to, strerror(errno));
            return -1;
        }
        at += (size_t)n;
    }
    m->out.len = 0;
    m->unsent = 0;
    return 0;
}

/* ---- replies */

static int next_byte(struct importnet *m, struct buf *error)
{
    if (m->in_at == m->in_n) {
        ssize_t n;
        do n = recv(m->fd, m->in, sizeof m->in, 0);
        while (n < 0 && errno == EINTR);
        if (n <= 0) {
            buf_printf(error, "%s: %s", m->options->to, n == 0 ? "the server closed the connection" : strerror(errno));
            return -1;
        }
        m->in_at = 0;
        m->in_n = (size_t)n;
    }
    return (uint8_t)m->in[m->in_at++];
}

static int read_line(struct importnet *m, char line[256], struct buf *error)
{
    size_t n = 0;
    for (int c; (c = next_byte(m, error)) != '\n';) {
        if (c < 0) return -1;
        if (c != '\r' && n < 255) line[n++] = (char)c;
    }
    line[n] = '\0';
    return 0;
}

/* 0, or -1: an error reply, or with `broken` set no reply at all. */
static int take_reply(struct importnet *m, struct buf *error)
{
    char line[256];
    if (read_line(m, line, error) < 0) {
        m->broken = true;
        return -1;
    }
    const struct asked *a = &m->asked[m->first];
    m->first = (m->first + 1) % ON_THEIR_WAY;
    m->waiting--;
    if (line[0] == '+') {
        m->sink.put_keys += a->is_key;
        return 0;
    }
    bool busy = strncmp(line, "-BUSYKEY", 8) == 0;
    if (busy && m->options->skip_existing) {
        m->sink.existing++;
        return 0;
    }
    buf_printf(error, "%s: %s: %s%s", m->options->to, a->name, line[0] == '-' ? line + 1 : line, busy ? " (--replace or --skip-existing says what to do with it)" : "");
    return -1;
}

/* After an error: waits for what was sent already, so that the server has done with it when we end. */
static void settle(struct importnet *m)
{
    struct buf ignored = {0};
    while (m->waiting && !m->broken) take_reply(m, &ignored);
    buf_fini(&ignored);
}

/* Sends what is collected, and takes replies until no more than `leave` are still to come. */
static int exchange(struct importnet *m, unsigned leave, struct buf *error)
{
    if (send_out(m, error) < 0) return -1;
    while (m->waiting > leave)
        if (take_reply(m, error) < 0) {
            settle(m);
            return -1;
        }
    return 0;
}

/* ---- commands */

static void add_word(struct importnet *m, struct slice word)
{
    buf_printf(&m->out, "$%zu\r\n", word.n);
    buf_add_slice(&m->out, word);
    buf_add_str(&m->out, "\r\n");
}

static void begin_command(struct importnet *m, unsigned words, bool is_key, struct slice name)
{
    struct asked *a = &m->asked[(m->first + m->waiting) % ON_THEIR_WAY];
    CHECK(m->waiting < ON_THEIR_WAY);
    size_t n = 0;
    a->is_key = is_key;
    for (size_t i = 0; i < name.n && n < NAME_CHARS - 1; i++) a->name[n++] = name.p[i] >= ' ' && name.p[i] < 0x7f ? name.p[i] : '.';
    a->name[n] = '\0';
    m->waiting++;
    m->unsent++;
    buf_printf(&m->out, "*%u\r\n", words);
}

static void select_db(struct importnet *m, uint16_t db)
{
    char text[8];
    if (m->db == db) return;
    begin_command(m, 2, false, SLICE("SELECT"));
    add_word(m, SLICE("SELECT"));
    add_word(m, slice_of(text, (size_t)snprintf(text, sizeof text, "%u", db)));
    m->db = db;
}

static int put(struct import_sink *s, uint16_t db, const struct rdbfile_item *key, struct buf *error)
{
    struct importnet *m = (struct importnet *)s;
    char ttl[24];
    select_db(m, db);
    m->image.len = 0;
    buf_add_slice(&m->image, key->image);
    image_seal(&m->image);
    begin_command(m, 4 + (key->expiry_ms != 0) + m->options->replace, true, key->key);
    add_word(m, SLICE("RESTORE"));
    add_word(m, key->key);
    add_word(m, slice_of(ttl, (size_t)snprintf(ttl, sizeof ttl, "%" PRId64, key->expiry_ms)));
    add_word(m, buf_slice(&m->image));
    if (key->expiry_ms) add_word(m, SLICE("ABSTTL"));
    if (m->options->replace) add_word(m, SLICE("REPLACE"));
    if (m->out.len < BATCH_BYTES && m->unsent < BATCH_COMMANDS) return 0;
    return exchange(m, m->unsent, error); /* the server works on this batch while we make the next one */
}

static int finish(struct import_sink *s, struct buf *error) { return exchange((struct importnet *)s, 0, error); }

static void release(struct import_sink *s)
{
    struct importnet *m = (struct importnet *)s;
    if (m->fd >= 0) close(m->fd);
    buf_fini(&m->out);
    buf_fini(&m->image);
    mem_free(m);
}

/* The first answer tells whether we may do anything here. */
static int introduce(struct importnet *m, struct buf *error)
{
    if (m->options->login.password) {
        begin_command(m, m->options->login.user ? 3 : 2, false, SLICE("AUTH"));
        add_word(m, SLICE("AUTH"));
        if (m->options->login.user) add_word(m, slice_str(m->options->login.user));
        add_word(m, slice_str(m->options->login.password));
    }
    select_db(m, 0);
    return exchange(m, 0, error);
}

struct import_sink *importnet_open(const struct import_options *o, struct buf *error)
{
    struct importnet *m = mem_zalloc(sizeof *m);
    m->sink = (struct import_sink){.put = put, .finish = finish, .free = release};
    m->options = o;
    m->db = -1;
    m->fd = dial(o->to, TIMEOUT_S, error);
    if (m->fd >= 0 && introduce(m, error) == 0) return &m->sink;
    release(&m->sink);
    return NULL;
}
