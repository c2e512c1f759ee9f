/* s3://bucket/prefix. s3store.c reads, lists and deletes; s3put.c writes; s3upload.c writes in parts; s3http.c makes the requests. */
#pragma once
#include "object/driver.h"
#include "object/objurl.h"
#include "object/s3http.h"

struct s3store {
    struct object_store base;
    struct s3http *http;
    char *prefix; /* "" or with a slash at its end */
};

/* Gives 0 and a store, or a code and why in words. */
int s3store_open(struct object_store **store, const struct objurl *u, const char *url, const struct object_options *o, char error[OBJECT_DETAIL_BYTES]);

/* ---- for the files of this family */

static inline struct s3store *s3store_of(struct object_store *s) { return (struct s3store *)s; }

/* The key with the store's prefix, in whole; ERR_OBJECT_KEY if that is too long. */
int s3store_key(const struct s3store *s, struct object_call *call, const char *key, char whole[OBJECT_KEY_MAX + 1]);

int s3store_buf_sink(void *arg, const struct s3http_response *r, struct slice bytes, bool begins); /* arg: a struct buf that is filled anew by each attempt */

void s3store_tell_progress(void *call, uint64_t bytes); /* for s3http_request.moved: the bytes of the request are those of the call */

/* The object, with its put id; no error text is left in a call. */
int s3store_look(struct s3store *s, const struct object_call *call, const char *whole, struct s3http_response *r);
