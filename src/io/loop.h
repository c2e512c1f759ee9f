/* One thread's event loop: listeners, byte streams and a wake-up, over io_uring or epoll. The only code that touches sockets.
 *
 * The owner calls loop_turn in a loop. A turn waits for events, then calls the handler for each; afterwards the owner does its work, appends
 * answers to a buffer of its own and hands that to stream_send. Bytes handed to on_data live in a chunk that the owner may keep by reference; the loop never copies them.
 *
 * Threads: everything here belongs to one thread, except that loop_new may be called by another before it starts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct loop;
struct stream;

/* Received bytes, counted. One chunk may hold the bytes of several streams. */
struct chunk {
    uint32_t refs;
    struct loop *loop;
    void *next; /* the backend's */
};

struct stream {
    int fd;
    bool reading;      /* wanted by the owner: stream_read */
    bool armed;        /* the backend's: a receive is under way or registered */
    bool sending;      /* the backend's: a send is under way or waits for room */
    bool closed;       /* stream_close was called, or stream_release */
    bool released;     /* the latter */
    bool aside;        /* the owner's: false when it is opened */
    uint8_t inflight;  /* the backend's: operations that still refer to this stream */
    struct buf out;    /* taken by stream_send, not yet handed to the kernel */
    struct buf flying; /* io_uring: what the kernel is sending */
    size_t sent;       /* of flying (io_uring) or out (epoll) */
    int failed;        /* the backend's: why a send failed; told by on_end, which then follows from the receive */
    void *owner;
    struct stream *next;         /* of those that wait for a receive buffer (io_uring), or of those that are gone */
};

struct loop_handler {
    void (*on_accept)(void *ctx, int listener_tag, int fd);
    /* n > 0 bytes at p inside chunk c. The owner takes a reference (chunk_ref) to keep them beyond the call. */
    void (*on_data)(void *ctx, struct stream *s, struct chunk *c, char *p, size_t n);
    void (*on_end)(void *ctx, struct stream *s, int error);  /* 0: the peer closed its side; else a negative errno */
    /* All that was taken is sent (not told when stream_send did it at once). True: the owner has something to do about it, so the turn ends. Else a wait goes on: nearly everything is sent at once, and waking for
     * that would double the turns. */
    bool (*on_drained)(void *ctx, struct stream *s);
    void (*on_closed)(void *ctx, struct stream *s);          /* after stream_close: the loop has forgotten the stream; free it */
};

enum loop_backend { LOOP_AUTO, LOOP_EPOLL, LOOP_URING };

/* Gives NULL and a sentence in error if the backend is not to be had (LOOP_AUTO falls back to epoll instead). wake_fd is an eventfd whose
 * writing ends a wait. */
struct loop *loop_new(enum loop_backend backend, int wake_fd, const struct loop_handler *handler, void *ctx, char error[128]);
void loop_free(struct loop *l);
const char *loop_name(const struct loop *l); /* "io_uring" or "epoll" */

void loop_listen(struct loop *l, int fd, int tag);  /* takes fd */
void loop_stop_listening(struct loop *l);           /* closes all listeners */
void loop_listen_again(struct loop *l);             /* call now and then: listeners that rest for want of descriptors go on */

void loop_submit(struct loop *l); /* what was sent leaves now, not with the next turn */

/* Waits at most timeout_ms (-1: no limit, 0: only look) and handles what came. Gives the number of events. */
int loop_turn(struct loop *l, int timeout_ms);

void stream_open(struct loop *l, struct stream *s, int fd, void *owner); /* takes fd; starts reading */
void stream_read(struct loop *l, struct stream *s, bool on);             /* stops or resumes reading */
/* Sends the bytes of b, after those sent before; b is empty afterwards and may have lost its memory. */
void stream_send(struct loop *l, struct stream *s, struct buf *b);
void loop_buffer(struct loop *l, struct buf *b); /* gives b a warm buffer if it has none: an idle owner need not hold one */
size_t stream_unsent(const struct stream *s);
/* How many bytes the other side has acknowledged since the connection was made (TCP; else 0). Asks the kernel. */
uint64_t stream_acked(const struct stream *s);
/* Closes; unsent bytes are dropped. on_closed follows in a later turn, when the kernel has let go: the stream is there as long as its closer looks at it. */
void stream_close(struct loop *l, struct stream *s);

/* Lets go of a stream whose connection goes on elsewhere: on_closed follows likewise, and s->fd is the owner's then. Nothing of it may be unsent, and its peer must be known to be silent until it hears from
 * the new owner: what arrived meanwhile would be lost. */
void stream_release(struct loop *l, struct stream *s);

static inline void chunk_ref(struct chunk *c) { c->refs++; }
void chunk_unref(struct chunk *c);

uint64_t loop_bytes_in(const struct loop *l);
uint64_t loop_bytes_out(const struct loop *l);
