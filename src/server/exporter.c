/* The file is a row of pieces: struct piece, the rows, the names of keys of other types; rows and names are RESP bulk strings, as they go to the client. */
#include "server/exporter.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "server/errands.h"
#include "server/server.h"
#include "shard/livefeed.h"
#include "snapshot/tempfile.h"

enum {
    PIECE_BYTES = 256 << 10, /* or one row, if that is longer */
    KEEP_BYTES = 4 << 20,    /* a buffer that grew beyond it, for a long value, is not kept */
    WAIT_MS = 250,
};

struct piece {
    uint32_t rows, others;          /* how many */
    uint32_t row_bytes, other_bytes;
};

struct export {
    struct exporter *owner;
    struct export_options options;
    atomic_bool cancel;

    /* the thread's */
    struct input *feed;
    struct piece piece; /* being filled */
    struct buf rows, others;

    uint64_t fetched; /* the client's: bytes of whole pieces */

    /* under the owner's lock */
    int fd; /* set before the first piece */
    uint64_t written; /* bytes of whole pieces */
    struct livefeed_progress progress;
    bool ended;    /* the thread writes no more */
    char *error;   /* if so: why; NULL: it is complete */
    bool released; /* the client is done with it, or gone */
};

struct exporter {
    struct server *server;
    struct errands *errands;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct export *running[EXPORTER_MAX];
    unsigned threads;
    struct exporter_info info;
    bool stopped;
};

/* ---- the thread: rows into the file */

static int write_all(int fd, struct slice bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
    }
    return 0;
}

static void empty(struct buf *b)
{
    b->len = 0;
    if (b->cap > KEEP_BYTES) buf_fini(b);
}

/* Writes the piece and shows it to the client. */
static int write_piece(struct export *x)
{
    struct piece *p = &x->piece;
    p->row_bytes = (uint32_t)x->rows.len;
    p->other_bytes = (uint32_t)x->others.len;
    int rc = p->rows || p->others ? write_all(x->fd, slice_of((const char *)p, sizeof *p)) : 0;
    if (rc == 0) rc = write_all(x->fd, buf_slice(&x->rows));
    if (rc == 0) rc = write_all(x->fd, buf_slice(&x->others));
    if (rc) return rc;
    struct livefeed_progress progress = livefeed_progress(x->feed);
    pthread_mutex_lock(&x->owner->lock);
    if (p->rows || p->others) x->written += sizeof *p + x->rows.len + x->others.len;
    x->progress = progress;
    pthread_cond_broadcast(&x->owner->changed);
    pthread_mutex_unlock(&x->owner->lock);
    *p = (struct piece){0};
    empty(&x->rows);
    empty(&x->others);
    return 0;
}

static void add_row(struct export *x, const struct input_row *row)
{
    struct reply out = {.out = &x->rows, .resp = 2};
    reply_bulk(&out, row->key);
    reply_bulk(&out, row->value);
    x->piece.rows++;
}

static void add_other(struct export *x, struct slice key)
{
    struct reply out = {.out = &x->others, .resp = 2};
    reply_bulk(&out, key);
    x->piece.others++;
}

/* Until the feed is at its end. */
static int spool(struct export *x, struct buf *why)
{
    struct input_row row = {0};
    for (int rc = 0;;) {
        why->len = 0;
        switch (input_next(x->feed, &row, why)) {
        case INPUT_ROW: add_row(x, &row); break;
        case INPUT_BAD: add_other(x, row.key); break;
        case INPUT_FAILED: return -ECANCELED;
        case INPUT_END: return write_piece(x);
        }
        if (x->rows.len + x->others.len >= PIECE_BYTES && (rc = write_piece(x))) {
            buf_printf(why, "the temporary file: %s", err_text(rc));
            return rc;
        }
    }
}

/* ---- the thread: life */

static const char *folder_of(const struct server *s) { return CONFIG_NUM(s->config, ephemeral) ? NULL : s->config->data; }

/* The text of what went wrong; NULL: nothing did. */
static char *fill(struct export *x)
{
    struct buf why = {0};
    int rc = x->fd;
    if (rc < 0) buf_printf(&why, "no temporary file in %s: %s", tempfile_dir(folder_of(x->owner->server)), err_text(rc));
    else {
        x->feed = livefeed_open(x->owner->server->walk, &(struct livefeed_options){.db = x->options.db, .strict = x->options.others, .cancel = &x->cancel});
        rc = spool(x, &why);
        if (rc && !why.len) buf_add_str(&why, err_text(rc));
        input_free(x->feed);
    }
    buf_add_byte(&why, '\0');
    char *text = rc < 0 ? mem_strdup(why.p) : NULL;
    buf_fini(&why);
    return text;
}

static void free_export(struct export *x)
{
    if (x->fd >= 0) close(x->fd);
    buf_fini(&x->rows);
    buf_fini(&x->others);
    mem_free(x->error);
    mem_free(x);
}

/* With the lock held. */
static void note_end(struct export *x, char *error)
{
    struct exporter *e = x->owner;
    x->ended = true;
    x->error = error;
    if (error) e->info.failed++;
    else e->info.completed++;
    pthread_cond_broadcast(&e->changed);
}

/* With the lock held: when the client is done with it, nobody sees it any more. */
static void wait_for_release(const struct export *x)
{
    struct exporter *e = x->owner;
    while (!x->released) pthread_cond_wait(&e->changed, &e->lock);
    for (unsigned i = 0; i < EXPORTER_MAX; i++)
        if (e->running[i] == x) e->running[i] = NULL;
}

/* The file is closed here too: letting go of a large one takes time that no worker has. */
static void *run(void *arg)
{
    struct export *x = arg;
    struct exporter *e = x->owner;
    x->fd = tempfile_open(folder_of(e->server));
    char *error = fill(x);
    if (error && !atomic_load(&x->cancel)) slog(&e->server->log, SLOG_WARNING, "an export failed", "error=%s", error);
    pthread_mutex_lock(&e->lock);
    note_end(x, error);
    wait_for_release(x);
    pthread_mutex_unlock(&e->lock);
    free_export(x);
    pthread_mutex_lock(&e->lock);
    e->threads--;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- beginning and ending */

static struct export **free_place(struct exporter *e)
{
    for (unsigned i = 0; i < EXPORTER_MAX; i++)
        if (!e->running[i]) return &e->running[i];
    return NULL;
}

struct export *exporter_begin(struct exporter *e, const struct export_options *o)
{
    pthread_t thread;
    pthread_mutex_lock(&e->lock);
    struct export **place = e->stopped ? NULL : free_place(e), *x = NULL;
    if (place) {
        *place = x = mem_zalloc(sizeof *x);
        x->owner = e;
        x->options = *o;
        x->fd = -1;
        e->info.begun++;
        e->threads++;
        int rc = pthread_create(&thread, NULL, run, x);
        CHECK(rc == 0);
        pthread_setname_np(thread, "export");
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&e->lock);
    return x;
}

/* With the lock held. */
static void release(struct export *x)
{
    x->released = true;
    atomic_store(&x->cancel, true);
    pthread_cond_broadcast(&x->owner->changed);
}

void exporter_end(struct exporter *e, struct export *x)
{
    pthread_mutex_lock(&e->lock);
    if (!e->stopped) release(x); /* else it is gone */
    pthread_mutex_unlock(&e->lock);
}

/* ---- the client's side */

/* With the lock held: for a moment, until there is something to tell. */
static void wait_for_piece(const struct export *x)
{
    struct exporter *e = x->owner;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    while (x->written == x->fetched && !x->ended)
        if (pthread_cond_timedwait(&e->changed, &e->lock, &until)) return;
}

static int read_all(int fd, uint64_t at, void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? -errno : -EIO;
        done += (size_t)got;
    }
    return 0;
}

/* The bytes of the piece at x->fetched: rows, then names. */
static int read_piece(const struct export *x, struct piece *p, struct buf *bytes)
{
    int rc = read_all(x->fd, x->fetched, p, sizeof *p);
    if (rc) return rc;
    size_t n = (size_t)p->row_bytes + p->other_bytes;
    rc = read_all(x->fd, x->fetched + sizeof *p, buf_room(bytes, n), n);
    bytes->len = rc ? 0 : n;
    return rc;
}

static void answer_number(struct reply *out, const char *name, uint64_t n)
{
    reply_bulk_str(out, name);
    reply_int(out, (int64_t)n);
}

static void answer_piece(struct reply *out, const struct livefeed_progress *g, bool more, const struct piece *p, const struct buf *bytes)
{
    reply_map(out, 7);
    answer_number(out, "more", more);
    answer_number(out, "cut_ms", (uint64_t)g->cut_ms);
    answer_number(out, "keys_done", g->keys_done);
    answer_number(out, "keys_total", g->keys_total);
    answer_number(out, "left_out", g->left_out);
    reply_bulk_str(out, "others");
    reply_array(out, p->others);
    buf_add(out->out, bytes->p + p->row_bytes, p->other_bytes);
    reply_bulk_str(out, "rows");
    reply_array(out, 2 * (size_t)p->rows);
    buf_add(out->out, bytes->p, p->row_bytes);
}

bool exporter_next(struct export *x, struct reply *out)
{
    struct exporter *e = x->owner;
    struct piece p = {0};
    struct buf bytes = {0};
    pthread_mutex_lock(&e->lock);
    wait_for_piece(x);
    uint64_t written = x->written;
    bool ended = x->ended;
    const char *error = x->error; /* stays, like the file: only this connection can let go of it */
    struct livefeed_progress progress = x->progress;
    pthread_mutex_unlock(&e->lock);
    int rc = !error && written > x->fetched ? read_piece(x, &p, &bytes) : 0;
    bool more = !error && rc == 0;
    if (more) {
        uint64_t fetched = bytes.len ? x->fetched + sizeof p + bytes.len : x->fetched;
        more = !ended || fetched < written;
        x->fetched = fetched;
        answer_piece(out, &progress, more, &p, &bytes);
    } else {
        reply_errorf(out, "ERR the export failed: %s", error ? error : err_text(rc));
    }
    buf_fini(&bytes);
    return more;
}

/* ---- all of them */

struct exporter *exporter_new(struct server *s)
{
    struct exporter *e = mem_zalloc(sizeof *e);
    pthread_condattr_t attr;
    e->server = s;
    e->errands = errands_new(s, EXPORTER_MAX);
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &attr);
    pthread_condattr_destroy(&attr);
    return e;
}

void exporter_stop(struct exporter *e)
{
    pthread_mutex_lock(&e->lock);
    e->stopped = true;
    for (unsigned i = 0; i < EXPORTER_MAX; i++)
        if (e->running[i]) release(e->running[i]);
    while (e->threads) pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    errands_free(e->errands); /* now: their threads may still look at the worker that they sent the last answer to */
    e->errands = NULL;
}

void exporter_free(struct exporter *e)
{
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    mem_free(e);
}

struct errands *exporter_errands(struct exporter *e) { return e->errands; }

struct exporter_info exporter_info(struct exporter *e)
{
    pthread_mutex_lock(&e->lock);
    struct exporter_info i = e->info;
    for (unsigned k = 0; k < EXPORTER_MAX; k++) {
        if (!e->running[k]) continue;
        i.running++;
        i.file_bytes += e->running[k]->written;
    }
    pthread_mutex_unlock(&e->lock);
    return i;
}
