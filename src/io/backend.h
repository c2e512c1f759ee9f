/* Between loop.c and its backends: what each backend provides, and the buffers they share. Private to src/io/. */
#pragma once
#include "io/loop.h"

enum {
    LOOP_LISTENERS = 32,
    LOOP_SPARE_BUFS = 64,             /* output buffers kept warm */
    LOOP_SPARE_BUF_MAX = 256 * 1024,  /* larger ones are not kept */
};

struct backend {
    const char *name;
    void *(*open)(struct loop *l, char error[128]); /* NULL: not to be had */
    void (*close)(struct loop *l);
    int (*turn)(struct loop *l, int timeout_ms);
    void (*submit)(struct loop *l); /* NULL: nothing waits for a turn */
    void (*listen)(struct loop *l, int index);
    void (*unlisten)(struct loop *l, int index);
    void (*attach)(struct loop *l, struct stream *s);
    void (*read)(struct loop *l, struct stream *s);  /* stream->reading changed */
    void (*flush)(struct loop *l, struct stream *s); /* out has bytes */
    void (*detach)(struct loop *l, struct stream *s); /* closes fd; calls loop_closed when nothing refers to s any more */
    void (*recycle)(struct loop *l, struct chunk *c); /* the last reference is gone */
};

struct loop_listener {
    int fd, tag;
    bool resting; /* no descriptor is free: not listened to until loop_listen_again */
};

struct loop {
    const struct backend *backend;
    void *state; /* the backend's */
    int wake_fd;
    const struct loop_handler *handler;
    void *ctx;
    struct loop_listener listeners[LOOP_LISTENERS];
    int n_listeners;
    int reserve_fd; /* loop_refuse */
    struct buf spare[LOOP_SPARE_BUFS];
    int n_spare;
    struct stream *gone; /* closed for good: the owners are told at the next turn */
    uint64_t bytes_in, bytes_out;
};

extern const struct backend backend_epoll, backend_uring;

void loop_closed(struct loop *l, struct stream *s); /* nothing refers to it any more: its owner will be told */
void loop_buf_put(struct loop *l, struct buf *b);   /* takes b's memory back, empty */
void loop_accepted(struct loop *l, int tag, int fd);
/* A connection waits but no descriptor is free: the one kept in reserve lets us take it and close it, instead of finding it again at every look. */
bool loop_refuse(struct loop *l, int listener); /* no descriptor is free: turns one caller away; false: could not, the listener rests */
