/* A piece becomes a write and, linked behind it, a sync of the same file: the kernel starts the sync when the write has gone through whole, and cancels it
 * otherwise. Pieces are not linked to one another. What the kernel did only in part (a short write), or is too long for one write, is finished with plain calls. */
#include "io/file_uring.h"

#include <errno.h>
#include <liburing.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    PIECES_MAX = 64, /* under way at the same time */
    WRITE_MAX = 1 << 30,
};

struct file_uring {
    struct file_ops ops;
    struct io_uring ring;
    size_t written[PIECES_MAX]; /* of each piece under way */
};

/* ---- asking: completions carry the piece's number, doubled, plus one for a sync */

static struct io_uring_sqe *next_sqe(struct file_uring *f)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&f->ring);
    CHECK(e); /* the ring has room for two calls of each piece */
    return e;
}

static void ask_write(struct file_uring *f, const struct file_piece *p, uint32_t i, bool all)
{
    struct io_uring_sqe *e = next_sqe(f);
    io_uring_prep_write(e, p->fd, p->bytes.p, all ? (unsigned)p->bytes.n : WRITE_MAX, p->at);
    if (all) io_uring_sqe_set_flags(e, IOSQE_IO_LINK);
    io_uring_sqe_set_data64(e, i * 2ull);
}

/* Gives the number of completions to expect. Behind a write that is not all of its piece no sync is asked for: it would come before the rest, and say that all is durable. */
static unsigned ask(struct file_uring *f, const struct file_piece *p, uint32_t i)
{
    bool all = p->bytes.n <= WRITE_MAX;
    if (p->bytes.n) ask_write(f, p, i, all);
    if (!all) return 1;
    struct io_uring_sqe *e = next_sqe(f);
    io_uring_prep_fsync(e, p->fd, IORING_FSYNC_DATASYNC);
    io_uring_sqe_set_data64(e, i * 2ull + 1);
    return p->bytes.n ? 2 : 1;
}

/* ---- what came of it */

static bool is_passing(int rc) { return rc == -EINTR || rc == -EAGAIN; }

static void note(struct file_uring *f, struct file_piece *pieces, const struct io_uring_cqe *c)
{
    uint64_t data = io_uring_cqe_get_data64(c);
    struct file_piece *p = &pieces[data / 2];
    if (data % 2) p->sync_rc = c->res;
    else if (c->res >= 0) f->written[data / 2] = (size_t)c->res;
    else if (!is_passing(c->res)) p->write_rc = c->res;
}

static void collect(struct file_uring *f, struct file_piece *pieces, unsigned expected)
{
    while (expected) {
        struct io_uring_cqe *c;
        int rc = io_uring_submit_and_wait(&f->ring, 1);
        CHECK(rc >= 0 || is_passing(rc) || rc == -EBUSY);
        for (; io_uring_peek_cqe(&f->ring, &c) == 0; expected--) {
            note(f, pieces, c);
            io_uring_cqe_seen(&f->ring, c);
        }
    }
}

/* A sync that was cancelled, or not asked for, never began: it may be asked for now, unlike one that failed. */
static void finish(struct file_piece *p, size_t written)
{
    if (p->write_rc == 0 && written < p->bytes.n)
        p->write_rc = file_write_all(&file_disk, p->fd, slice_of(p->bytes.p + written, p->bytes.n - written), p->at + written);
    if (p->write_rc == 0 && p->sync_rc == -ECANCELED) p->sync_rc = file_disk.sync(NULL, &p->fd, 1);
}

static void commit_some(struct file_uring *f, struct file_piece *pieces, uint32_t n)
{
    unsigned expected = 0;
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].write_rc = 0;
        pieces[i].sync_rc = -ECANCELED;
        f->written[i] = 0;
        expected += ask(f, &pieces[i], i);
    }
    collect(f, pieces, expected);
    for (uint32_t i = 0; i < n; i++) finish(&pieces[i], f->written[i]);
}

/* A single file gains nothing from company, and plain calls save the way through another thread of the kernel. */
static void commit(void *ctx, struct file_piece *pieces, uint32_t n)
{
    struct file_uring *f = ctx;
    if (n == 1) {
        file_commit(&file_disk, pieces, n);
        return;
    }
    for (uint32_t at = 0, some; at < n; at += some) {
        some = n - at < PIECES_MAX ? n - at : PIECES_MAX;
        commit_some(f, pieces + at, some);
    }
}

/* ---- life */

struct file_uring *file_uring_open(void)
{
    struct file_uring *f = mem_zalloc(sizeof *f);
    f->ops = file_disk;
    f->ops.ctx = f;
    f->ops.commit = commit;
    if (io_uring_queue_init(2 * PIECES_MAX, &f->ring, 0) == 0) return f;
    mem_free(f);
    return NULL;
}

void file_uring_close(struct file_uring *f)
{
    io_uring_queue_exit(&f->ring);
    mem_free(f);
}

const struct file_ops *file_uring_ops(struct file_uring *f) { return &f->ops; }
