#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/front.h"

enum { OTHER_DESCRIPTORS = 128 }; /* logs, listeners, event loops, wake-ups */

void listen_make_room(struct server *s)
{
    struct rlimit now;
    rlim_t own = OTHER_DESCRIPTORS + 8 * s->engine->n_workers, want = (rlim_t)CONFIG_NUM(s->config, maxclients) + own;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_cur >= want) return;
    struct rlimit more = {.rlim_cur = want, .rlim_max = now.rlim_max > want ? now.rlim_max : want};
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) return;
    more = (struct rlimit){.rlim_cur = now.rlim_max, .rlim_max = now.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &more) < 0) more.rlim_cur = now.rlim_cur;
    if (more.rlim_cur >= want) return;
    int64_t room = more.rlim_cur > own ? (int64_t)(more.rlim_cur - own) : 1;
    slog(&s->log, SLOG_WARNING, "maxclients lowered: the system allows too few open files", "maxclients=%lld now=%lld open_files=%llu",
         (long long)CONFIG_NUM(s->config, maxclients), (long long)room, (unsigned long long)more.rlim_cur);
    atomic_store(&s->config->maxclients, room);
}

static void add(struct front *f, int fd, bool is_unix)
{
    f->listeners = mem_resize(f->listeners, (size_t)(f->n_listeners + 1) * sizeof *f->listeners);
    f->listeners[f->n_listeners++] = (struct listener_socket){fd, is_unix};
}

static int open_socket(const struct addrinfo *a, bool shared, int backlog)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0) return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || (shared && listen(fd, backlog) < 0)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/* Port sharing would let a second server join silently: an unshared bind first tells whether the port is free. */
static int open_all(struct server *s, const struct addrinfo *a)
{
    int fd = open_socket(a, false, 0);
    if (fd < 0) return fd;
    close(fd);
    for (uint32_t i = 0; i < s->engine->n_workers; i++) {
        fd = open_socket(a, true, (int)CONFIG_NUM(s->config, tcp_backlog));
        if (fd < 0) return fd;
        add(s->fronts[i], fd, false);
    }
    return 0;
}

static bool open_address(struct server *s, struct slice word)
{
    bool optional = word.n && word.p[0] == '-'; /* "-::1": skipped where the machine has no such address */
    if (optional) word = slice_of(word.p + 1, word.n - 1);
    char host[256], port[16];
    snprintf(host, sizeof host, "%.*s", (int)word.n, word.p);
    snprintf(port, sizeof port, "%d", (int)CONFIG_NUM(s->config, port));
    const char *node = strcmp(host, "*") == 0 ? "0.0.0.0" : host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int rc = getaddrinfo(node, port, &hints, &found);
    int error = rc ? -EADDRNOTAVAIL : open_all(s, found);
    if (found) freeaddrinfo(found);
    if (error == 0 || (optional && (error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT))) return true;
    slog(&s->log, SLOG_WARNING, "cannot listen", "addr=%s port=%s error=%s", host, port, rc ? gai_strerror(rc) : strerror(-error));
    return false;
}

static bool open_unix(struct server *s)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = s->config->unixsocket;
    if (!*path) return true;
    int fd = -1;
    const char *why = "path too long";
    if (strlen(path) < sizeof a.sun_path) {
        strcpy(a.sun_path, path);
        unlink(path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, (int)CONFIG_NUM(s->config, tcp_backlog)) < 0)
            why = strerror(errno);
        else why = NULL;
    }
    if (why) {
        slog(&s->log, SLOG_WARNING, "cannot listen", "unixsocket=%s error=%s", path, why);
        if (fd >= 0) close(fd);
        return false;
    }
    if (CONFIG_NUM(s->config, unixsocketperm)) chmod(path, (mode_t)CONFIG_NUM(s->config, unixsocketperm));
    for (uint32_t i = 0; i < s->engine->n_workers; i++) add(s->fronts[i], i ? dup(fd) : fd, true);
    return true;
}

bool listen_open(struct server *s)
{
    struct slice rest = slice_str(s->config->bind), word;
    bool ok = true;
    if (CONFIG_NUM(s->config, port))
        while (ok && config_word(&rest, &word)) ok = open_address(s, word);
    return ok && open_unix(s);
}

void listen_cleanup(struct server *s)
{
    if (*s->config->unixsocket) unlink(s->config->unixsocket);
}
