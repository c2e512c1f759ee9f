/* What a kind of store implements, and help for doing so. For src/object/ alone.
 *
 * object.c has checked the arguments as far as they are the same for all: call is never NULL and its detail is empty, keys are 1 to OBJECT_KEY_MAX bytes, options are there. A concrete
 * store is a struct that begins with a struct object_store. */
#pragma once
#include "object/object.h"

struct object_driver {
    void (*close)(struct object_store *s);
    int (*head)(struct object_store *s, struct object_call *call, const char *key, struct object_meta *meta);
    int (*get)(struct object_store *s, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta);
    ssize_t (*get_range)(struct object_store *s, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta);
    int (*get_fd)(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta);
    int (*put)(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *options, struct object_meta *meta);
    int (*put_stream)(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta);
    int (*put_temp)(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta); /* may be NULL; -EXDEV: it has to be copied */
    const char *(*folder)(const struct object_store *s); /* may be NULL: it has none */
    int (*del)(struct object_store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed);
    int (*list)(struct object_store *s, struct object_call *call, const struct object_list_options *options, int (*each)(void *arg, const struct object_item *item), void *arg);
};

struct object_store {
    const struct object_driver *driver;
    char *url;
    _Atomic int conditions; /* what the probe found; DRIVER_UNPROBED before */
};

enum { DRIVER_UNPROBED = -1 };

/* Copies url without slashes at its end. */
void driver_init(struct object_store *s, const struct object_driver *driver, const char *url, int conditions);
void driver_fini(struct object_store *s);

/* Sets the call's detail and gives code back. Bytes from outside in it are made printable. */
int driver_fail(struct object_call *call, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static inline bool driver_cancelled(const struct object_call *call)
{
    return call->cancel && atomic_load_explicit(call->cancel, memory_order_relaxed);
}

static inline void driver_progress(const struct object_call *call, uint64_t bytes)
{
    if (call->progress) call->progress(call->progress_arg, bytes);
}

/* 32 random hex digits, for names that must not meet. */
void driver_random_hex(char out[33]);
