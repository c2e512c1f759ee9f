#include "snapshot/inputfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20, LOOK_UP_MS = 200 };

int inputfile_open(struct inputfile *f, const char *path, const atomic_bool *cancel)
{
    struct stat st;
    bool is_stdin = path[0] == '-' && path[1] == '\0';
    *f = (struct inputfile){.path = path, .cancel = cancel, .line = 1, .fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)};
    if (f->fd < 0 || fstat(f->fd, &st) != 0) return -errno;
    if (S_ISREG(st.st_mode)) f->size_bytes = (uint64_t)st.st_size;
    if (S_ISREG(st.st_mode)) posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

void inputfile_close(struct inputfile *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    buf_fini(&f->in);
}

const char *inputfile_name(const struct inputfile *f) { return f->path[0] == '-' && f->path[1] == '\0' ? "standard input" : f->path; }

/* A pipe may be silent for long; who asked to end must not wait for it. */
static int wait_for_bytes(const struct inputfile *f)
{
    struct pollfd p = {.fd = f->fd, .events = POLLIN};
    if (f->size_bytes || !f->cancel) return 0;
    while (!atomic_load(f->cancel)) {
        int n = poll(&p, 1, LOOK_UP_MS);
        if (n < 0 && errno != EINTR) return -errno;
        if (n > 0) return 0;
    }
    return -ECANCELED;
}

int inputfile_more(struct inputfile *f)
{
    ssize_t n;
    size_t rest = f->in.len - f->at;
    if (rest > INPUTFILE_ROW_MAX) return -EFBIG;
    if (f->at) {
        memmove(f->in.p, f->in.p + f->at, rest);
        f->in.len = rest;
        f->at = 0;
    }
    size_t want = rest > READ_BYTES ? rest : READ_BYTES; /* a long row doubles what is read at once */
    char *room = buf_room(&f->in, want);
    int rc = wait_for_bytes(f);
    if (rc) return rc;
    do n = read(f->fd, room, want);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    f->at_end = n == 0;
    f->in.len += (size_t)n;
    f->read_bytes += (uint64_t)n;
    return 0;
}

int inputfile_line(struct inputfile *f, struct slice *line)
{
    size_t looked = 0;
    for (;;) {
        struct slice rest = inputfile_rest(f);
        const char *end = rest.n > looked ? memchr(rest.p + looked, '\n', rest.n - looked) : NULL;
        if (end || (f->at_end && rest.n)) {
            size_t n = end ? (size_t)(end - rest.p) : rest.n;
            f->at += n + (end != NULL);
            f->line++;
            if (n && rest.p[n - 1] == '\r') n--;
            *line = slice_of(rest.p, n);
            return 1;
        }
        if (f->at_end) return 0;
        looked = rest.n;
        int rc = inputfile_more(f);
        if (rc) return rc;
    }
}
