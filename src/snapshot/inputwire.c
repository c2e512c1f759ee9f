#include "snapshot/inputwire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "io/dial.h"
#include "snapshot/inputnet.h"

enum { TIMEOUT_S = 120, LOOK_UP_MS = 200 };

bool inputwire_broken(const struct inputwire *w, const char *what, struct buf *why)
{
    buf_printf(why, "%s: %s", w->address, what);
    return false;
}

bool inputwire_nonsense(const struct inputwire *w, struct buf *why) { return inputwire_broken(w, "an answer that makes no sense", why); }

/* ---- bytes */

bool inputwire_send(struct inputwire *w, struct buf *why)
{
    for (size_t at = 0; at < w->out.len;) {
        ssize_t n = send(w->fd, w->out.p + at, w->out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return inputwire_broken(w, strerror(errno), why);
        at += (size_t)n;
    }
    w->out.len = 0;
    return true;
}

static bool receive(struct inputwire *w, struct buf *why)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    for (int waited_ms = 0; poll(&p, 1, LOOK_UP_MS) == 0; waited_ms += LOOK_UP_MS)
        if ((w->cancel && atomic_load(w->cancel)) || waited_ms >= TIMEOUT_S * 1000) return inputwire_broken(w, "no answer in time", why);
    ssize_t n;
    do n = recv(w->fd, w->in, sizeof w->in, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return inputwire_broken(w, n == 0 ? "the server closed the connection" : strerror(errno), why);
    w->in_at = 0;
    w->in_n = (size_t)n;
    w->received_bytes += (uint64_t)n;
    return true;
}

bool inputwire_line(struct inputwire *w, char line[INPUTWIRE_LINE], struct buf *why)
{
    size_t n = 0;
    for (;;) {
        if (w->in_at == w->in_n && !receive(w, why)) return false;
        char c = w->in[w->in_at++];
        if (c == '\n') break;
        if (c != '\r' && n < INPUTWIRE_LINE - 1) line[n++] = c;
    }
    line[n] = '\0';
    return true;
}

bool inputwire_bulk(struct inputwire *w, int64_t n, struct buf *out, struct buf *why)
{
    char end[INPUTWIRE_LINE];
    for (size_t left = (size_t)n; left;) {
        if (w->in_at == w->in_n && !receive(w, why)) return false;
        size_t part = w->in_n - w->in_at < left ? w->in_n - w->in_at : left;
        buf_add(out, w->in + w->in_at, part);
        w->in_at += part;
        left -= part;
    }
    return inputwire_line(w, end, why);
}

/* ---- requests and replies */

void inputwire_add(struct inputwire *w, const struct slice *words, size_t n)
{
    buf_printf(&w->out, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        buf_printf(&w->out, "$%zu\r\n", words[i].n);
        buf_add_slice(&w->out, words[i]);
        buf_add_str(&w->out, "\r\n");
    }
}

bool inputwire_head(struct inputwire *w, char kind, int64_t max, int64_t *n, struct buf *why)
{
    char line[INPUTWIRE_LINE];
    if (!inputwire_line(w, line, why)) return false;
    if (line[0] == '-') return inputwire_broken(w, line + 1, why);
    if (line[0] != kind || !num_parse_i64(slice_str(line + 1), n) || *n > max || *n < 0) return inputwire_nonsense(w, why);
    return true;
}

static bool expect_ok(struct inputwire *w, struct buf *why)
{
    char line[INPUTWIRE_LINE];
    if (!inputwire_send(w, why) || !inputwire_line(w, line, why)) return false;
    return line[0] == '+' || (line[0] == '-' ? inputwire_broken(w, line + 1, why) : inputwire_nonsense(w, why));
}

/* ---- life */

static bool introduce(struct inputwire *w, const struct inputnet_server *s, uint16_t db, struct buf *why)
{
    char number[8];
    if (s->password) {
        struct slice words[3] = {SLICE("AUTH")};
        size_t n = 1;
        if (s->user) words[n++] = slice_str(s->user);
        words[n++] = slice_str(s->password);
        inputwire_add(w, words, n);
        if (!expect_ok(w, why)) return false;
    }
    struct slice select[] = {SLICE("SELECT"), slice_of(number, (size_t)snprintf(number, sizeof number, "%u", db))};
    inputwire_add(w, select, 2);
    return expect_ok(w, why);
}

bool inputwire_open(struct inputwire *w, const struct inputnet_server *s, uint16_t db, struct buf *why)
{
    w->address = s->address;
    w->fd = dial(s->address, TIMEOUT_S, why);
    return w->fd >= 0 && introduce(w, s, db, why);
}

void inputwire_close(struct inputwire *w)
{
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
    buf_fini(&w->out);
}
