#include "server/clusterask.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "io/dial.h"

enum { LINE_MAX_BYTES = 1024, ANSWER_MAX_BYTES = 16 << 20 };

struct call {
    const struct clusterask *to;
    int fd;
    size_t at, n;
    char in[4096];
};

static enum clusterask_result broken(const struct call *c, struct buf *out, const char *why)
{
    buf_printf(out, "%s: %s", c->to->address, why);
    return CLUSTERASK_BROKEN;
}

static const char *trouble(ssize_t n)
{
    if (n == 0) return "the server closed the connection";
    return errno == EAGAIN || errno == EWOULDBLOCK ? "no answer in time" : strerror(errno);
}

static void add_request(struct buf *out, const struct slice *argv, size_t argc)
{
    buf_printf(out, "*%zu\r\n", argc);
    for (size_t i = 0; i < argc; i++) {
        buf_printf(out, "$%zu\r\n", argv[i].n);
        buf_add_slice(out, argv[i]);
        buf_add_str(out, "\r\n");
    }
}

static bool send_all(struct call *c, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = send(c->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
    }
    return true;
}

/* NULL: there are bytes; else why there are none. */
static const char *fill(struct call *c)
{
    if (c->at < c->n) return NULL;
    ssize_t n;
    do n = recv(c->fd, c->in, sizeof c->in, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return trouble(n);
    c->at = 0;
    c->n = (size_t)n;
    return NULL;
}

static const char *read_line(struct call *c, char line[LINE_MAX_BYTES])
{
    size_t n = 0;
    for (;;) {
        const char *why = fill(c);
        if (why) return why;
        char byte = c->in[c->at++];
        if (byte == '\n') break;
        if (byte != '\r' && n < LINE_MAX_BYTES - 1) line[n++] = byte;
    }
    line[n] = '\0';
    return NULL;
}

static const char *read_bulk(struct call *c, size_t left, struct buf *out)
{
    while (left) {
        const char *why = fill(c);
        if (why) return why;
        size_t part = c->n - c->at < left ? c->n - c->at : left;
        buf_add(out, c->in + c->at, part);
        c->at += part;
        left -= part;
    }
    return NULL;
}

static enum clusterask_result take_reply(struct call *c, struct buf *out)
{
    char line[LINE_MAX_BYTES];
    int64_t n;
    const char *why = read_line(c, line);
    if (why) return broken(c, out, why);
    if (line[0] == '+' || line[0] == '-' || line[0] == ':') {
        buf_add_str(out, line + 1);
        return line[0] == '-' ? CLUSTERASK_REFUSED : CLUSTERASK_ANSWERED;
    }
    if (line[0] != '$' || !num_parse_i64(slice_str(line + 1), &n) || n < 0 || n > ANSWER_MAX_BYTES) return broken(c, out, "an answer that makes no sense");
    size_t before = out->len;
    why = read_bulk(c, (size_t)n, out);
    if (!why) return CLUSTERASK_ANSWERED;
    out->len = before;
    return broken(c, out, why);
}

/* What goes before the question. */
static enum clusterask_result introduce(struct call *c, struct buf *out)
{
    struct buf ignored = {0};
    if (!c->to->password) return CLUSTERASK_ANSWERED;
    enum clusterask_result r = take_reply(c, &ignored);
    if (r != CLUSTERASK_ANSWERED) buf_add_slice(out, buf_slice(&ignored));
    buf_fini(&ignored);
    return r;
}

enum clusterask_result clusterask(const struct clusterask *a, const struct slice *argv, size_t argc, struct buf *out)
{
    struct call c = {.to = a, .fd = dial(a->address, a->timeout_s, out)};
    struct buf request = {0};
    if (c.fd < 0) return CLUSTERASK_BROKEN;
    if (a->password) {
        struct slice login[3] = {SLICE("AUTH")};
        size_t n = 1;
        if (a->user) login[n++] = slice_str(a->user);
        login[n++] = slice_str(a->password);
        add_request(&request, login, n);
    }
    add_request(&request, argv, argc);
    enum clusterask_result r = send_all(&c, buf_slice(&request)) ? introduce(&c, out) : broken(&c, out, strerror(errno));
    if (r == CLUSTERASK_ANSWERED) r = take_reply(&c, out);
    buf_fini(&request);
    close(c.fd);
    return r;
}
