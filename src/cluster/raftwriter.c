#include "cluster/raftwriter.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cluster/raftlog.h"
#include "io/file.h"
#include "io/filering.h"

enum {
    QUICK_US = 2000,         /* a disk that takes longer is not waited for */
    QUICK_BYTES = 256 * 1024, /* nor is what is more */
};

enum lane_state { LANE_IDLE, LANE_TOLD, LANE_DONE, LANE_END };

/* A thread that does one thing at a time. What it is about belongs to the thread while it is told, to the owner else. */
struct lane {
    struct raftwriter *writer;
    int (*work)(struct raftwriter *w);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum lane_state state;
    int rc;
    bool started;
};

struct raftwriter {
    struct raftlog *log;
    struct raftwriter_options options;
    struct lane writes, chores;
    struct filering *ring; /* writes batches without a thread; NULL: not to be had */
    bool flying;           /* a batch is under way there */
    struct raftlog_write write;
    struct raftlog_chore chore;
    int64_t began_us, took_us; /* the write that is under way; the last one */
    int fd; /* of the segment that was written to last, the writing thread's; -1: none */
    uint64_t fd_segment;
    int error;
};

/* --- lanes --- */

static void *run(void *arg)
{
    struct lane *lane = arg;
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->state != LANE_TOLD && lane->state != LANE_END) pthread_cond_wait(&lane->changed, &lane->lock);
        if (lane->state == LANE_END) break;
        pthread_mutex_unlock(&lane->lock);
        int rc = lane->work(lane->writer);
        pthread_mutex_lock(&lane->lock);
        lane->rc = rc;
        lane->state = LANE_DONE;
        pthread_cond_signal(&lane->changed);
        pthread_mutex_unlock(&lane->lock);
        lane->writer->options.wake(lane->writer->options.ctx);
        pthread_mutex_lock(&lane->lock);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

static int lane_start(struct lane *lane, struct raftwriter *w, int (*work)(struct raftwriter *w), const char *name)
{
    lane->writer = w;
    lane->work = work;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    int rc = pthread_create(&lane->thread, NULL, run, lane);
    lane->started = rc == 0;
    if (lane->started) pthread_setname_np(lane->thread, name);
    return -rc;
}

static void lane_tell(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    CHECK(lane->state == LANE_IDLE);
    lane->state = LANE_TOLD;
    pthread_cond_signal(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

/* True once for each thing done. */
static bool lane_collect(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    bool done = lane->state == LANE_DONE;
    if (done) lane->state = LANE_IDLE;
    pthread_mutex_unlock(&lane->lock);
    return done;
}

static void lane_wait(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    while (lane->state == LANE_TOLD) pthread_cond_wait(&lane->changed, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}

static void lane_end(struct lane *lane)
{
    if (lane->started) {
        pthread_mutex_lock(&lane->lock);
        lane->state = LANE_END;
        pthread_cond_signal(&lane->changed);
        pthread_mutex_unlock(&lane->lock);
        pthread_join(lane->thread, NULL);
    }
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

/* --- what the threads do --- */

static int open_segment(struct raftwriter *w)
{
    const struct file_ops *files = w->options.writes;
    if (w->fd >= 0 && w->fd_segment == w->write.segment) return 0;
    if (w->fd >= 0) files->close(files->ctx, w->fd);
    w->fd = files->open(files->ctx, w->write.path, FILE_CHANGE);
    w->fd_segment = w->write.segment;
    return w->fd < 0 ? w->fd : 0;
}

static int write_batch(struct raftwriter *w)
{
    int rc = open_segment(w);
    if (rc) return rc;
    struct file_piece piece = {.fd = w->fd, .bytes = w->write.bytes, .at = w->write.at};
    file_commit(w->options.writes, &piece, 1);
    return piece.write_rc ? piece.write_rc : piece.sync_rc;
}

static int do_chore(struct raftwriter *w) { return raftlog_chore_run(w->options.files, &w->chore); }

/* --- the owner's side --- */

static void written(struct raftwriter *w, int rc)
{
    w->error = rc;
    w->took_us = clock_mono_us() - w->began_us;
    raftlog_written(w->log, w->write.batch, rc);
}

/* What O_DIRECT refused, the thread writes the other way. */
static void collect_from_ring(struct raftwriter *w, bool wait)
{
    int rc;
    if (!w->flying || !filering_collect(w->ring, wait, &rc)) return;
    w->flying = false;
    if (rc != -EINVAL) {
        written(w, rc);
        return;
    }
    filering_close(w->ring);
    w->ring = NULL;
    lane_tell(&w->writes);
}

static void collect(struct raftwriter *w)
{
    collect_from_ring(w, false);
    if (lane_collect(&w->writes)) written(w, w->writes.rc);
    if (lane_collect(&w->chores)) raftlog_chore_done(w->log, w->chores.rc);
}

static void begin_write(struct raftwriter *w)
{
    w->began_us = clock_mono_us();
    w->flying = w->ring && open_segment(w) == 0 && filering_begin(w->ring, w->fd, w->write.bytes, w->write.at) == 0;
    if (!w->flying) lane_tell(&w->writes);
}

/* The log hands out one of each at most, so a lane that it gives work to is idle. */
static int step(struct raftwriter *w, bool writes)
{
    collect(w);
    if (writes && raftlog_begin_write(w->log, &w->write)) begin_write(w);
    if (raftlog_begin_chore(w->log, &w->chore)) lane_tell(&w->chores);
    return w->error;
}

static bool is_quick(const struct raftwriter *w) { return w->took_us < QUICK_US; }

int raftwriter_step(struct raftwriter *w) { return step(w, true); }
int raftwriter_look(struct raftwriter *w) { return step(w, !is_quick(w)); }

bool raftwriter_write(struct raftwriter *w)
{
    if (!is_quick(w) || !raftlog_begin_write(w->log, &w->write)) return false;
    if (w->write.bytes.n > QUICK_BYTES) {
        begin_write(w);
        return false;
    }
    w->began_us = clock_mono_us();
    written(w, write_batch(w));
    return true;
}

bool raftwriter_busy(struct raftwriter *w)
{
    if (w->flying) return true;
    pthread_mutex_lock(&w->writes.lock);
    bool busy = w->writes.state != LANE_IDLE;
    pthread_mutex_unlock(&w->writes.lock);
    return busy;
}

bool raftwriter_rings(const struct raftwriter *w) { return w->ring != NULL; }

struct raftwriter *raftwriter_new(struct raftlog *log, const struct raftwriter_options *options, struct buf *error)
{
    struct raftwriter *w = mem_zalloc(sizeof *w);
    w->log = log;
    w->options = *options;
    w->fd = -1;
    w->ring = options->wake_fd > 0 && options->writes->dsync ? filering_open(options->wake_fd) : NULL;
    int first = lane_start(&w->writes, w, write_batch, "raftlog"), second = lane_start(&w->chores, w, do_chore, "raftlog-chores");
    if (first == 0 && second == 0) return w;
    buf_printf(error, "no thread for the Raft log: %s", strerror(-(first ? first : second)));
    raftwriter_free(w);
    return NULL;
}

void raftwriter_free(struct raftwriter *w)
{
    collect_from_ring(w, true);
    lane_wait(&w->writes);
    lane_wait(&w->chores);
    collect(w);
    lane_end(&w->writes);
    lane_end(&w->chores);
    if (w->ring) filering_close(w->ring);
    if (w->fd >= 0) w->options.writes->close(w->options.writes->ctx, w->fd);
    mem_free(w);
}
