#include "io/filering.h"

#include <errno.h>
#include <liburing.h>

#include "base/check.h"
#include "base/mem.h"

enum { WRITE_MAX = 1 << 30 };

struct filering {
    struct io_uring ring;
    int fd;
    struct slice rest; /* of what is under way */
    uint64_t at;
};

struct filering *filering_open(int wake_fd)
{
    struct filering *r = mem_zalloc(sizeof *r);
    if (io_uring_queue_init(4, &r->ring, 0) == 0) {
        if (io_uring_register_eventfd(&r->ring, wake_fd) == 0) return r;
        io_uring_queue_exit(&r->ring);
    }
    mem_free(r);
    return NULL;
}

void filering_close(struct filering *r)
{
    io_uring_queue_exit(&r->ring);
    mem_free(r);
}

static int submit(struct filering *r)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&r->ring);
    int rc;
    CHECK(e); /* there is but one */
    io_uring_prep_write(e, r->fd, r->rest.p, r->rest.n < WRITE_MAX ? (unsigned)r->rest.n : WRITE_MAX, r->at);
    do rc = io_uring_submit(&r->ring);
    while (rc == -EINTR);
    return rc < 0 ? rc : 0;
}

int filering_begin(struct filering *r, int fd, struct slice bytes, uint64_t at)
{
    r->fd = fd;
    r->rest = bytes;
    r->at = at;
    return submit(r);
}

/* True: that was all of it. */
static bool take(struct filering *r, int res, int *rc)
{
    bool passing = res == -EINTR || res == -EAGAIN;
    *rc = res < 0 && !passing ? res : res == 0 ? -EIO : 0;
    if (*rc) return true;
    size_t n = res > 0 ? (size_t)res : 0;
    r->rest = slice_of(r->rest.p + n, r->rest.n - n);
    r->at += n;
    if (!r->rest.n) return true;
    *rc = submit(r);
    return *rc != 0;
}

bool filering_collect(struct filering *r, bool wait, int *rc)
{
    struct io_uring_cqe *c;
    for (;;) {
        int seen = wait ? io_uring_wait_cqe(&r->ring, &c) : io_uring_peek_cqe(&r->ring, &c);
        if (seen == -EINTR) continue;
        if (seen < 0) return false;
        int res = c->res;
        io_uring_cqe_seen(&r->ring, c);
        if (take(r, res, rc)) return true;
    }
}
