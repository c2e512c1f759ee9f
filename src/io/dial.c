#include "io/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int connect_to(const char *host, const char *port, unsigned timeout_s, struct buf *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(host, port, &hints, &found), fd = -1, why = 0;
    if (rc) {
        buf_printf(error, "%s:%s: %s", host, port, gai_strerror(rc));
        return -1;
    }
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
        why = errno;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0) {
        buf_printf(error, "%s:%s: %s", host, port, strerror(why));
        return -1;
    }
    struct timeval patience = {.tv_sec = timeout_s};
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

bool dial_split(const char *to, char host[DIAL_HOST_MAX], const char **port)
{
    const char *colon = strrchr(to, ':'), *from = to;
    size_t n = colon ? (size_t)(colon - to) : 0;
    if (n > 2 && to[0] == '[' && to[n - 1] == ']') {
        from++;
        n -= 2;
    }
    if (n == 0 || n >= DIAL_HOST_MAX) return false;
    memcpy(host, from, n);
    host[n] = '\0';
    *port = colon + 1;
    return true;
}

int dial(const char *to, unsigned timeout_s, struct buf *error)
{
    char host[DIAL_HOST_MAX];
    const char *port;
    if (dial_split(to, host, &port)) return connect_to(host, port, timeout_s, error);
    buf_printf(error, "%s: not of the form host:port", to);
    return -1;
}

int dial_begin(const struct resolve_address *to, unsigned patience_ms)
{
    int fd = socket(to->a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
    if (connect(fd, (const struct sockaddr *)&to->a, to->n) == 0 || errno == EINPROGRESS) return fd;
    int error = -errno;
    close(fd);
    return error;
}
