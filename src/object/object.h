/* Object stores: named byte strings that are written whole, behind one interface for file:// and s3://.
 *
 * A store is opened at a URL, "file:///folder" or "s3://bucket/prefix", and its keys stand below that URL: key "manifests/x" of s3://b/p is the object p/manifests/x.
 * What holds for every store:
 *   - an object is whole or not there: a reader sees the old bytes or the new, and a failed or interrupted put leaves nothing visible;
 *   - what a put has confirmed is durable, and seen by every get, head and list that starts afterwards;
 *   - lists are in byte order of keys.
 *
 * Threads: any number may use one store at once. A struct object_call belongs to one call at a time. Calls block; none may be made under a shard's token.
 * Ownership: every argument is borrowed for the call.
 * Errors: 0 or a count, or a negative code of base/err.h (or -errno where a local file failed); call->detail then says more: HTTP status, the store's own code and message, request id.
 * Requests that are safe to repeat are repeated with growing pauses when the store is overloaded (5xx, SlowDown), silent, or gone; what is returned is the last failure. A put that
 * failed with TIMEOUT, CONNECTION, BUSY or CANCELLED may nevertheless have happened, or happen later. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/slice.h"

struct object_store;

enum {
    OBJECT_ETAG_BYTES = 136,
    OBJECT_DETAIL_BYTES = 400,
    OBJECT_KEY_MAX = 1024, /* with the store's prefix: the limit of S3 */
};

/* ---- opening */

enum object_style { OBJECT_STYLE_AUTO /* path with an endpoint of one's own, else virtual */, OBJECT_STYLE_PATH, OBJECT_STYLE_VIRTUAL };

/* Zeroed is the usual choice for all. Strings that are NULL or "" come from the environment, then from the AWS files of the profile (object/awsconf.h says which). file:// needs
 * none of them. */
struct object_options {
    const char *endpoint; /* "http://127.0.0.1:9000"; default: AWS for the region */
    const char *region;   /* default us-east-1 */
    const char *access_key, *secret_key, *session_token;
    const char *profile;
    const char *ca_file;     /* certificates to trust in place of the system's */
    enum object_style style;
    bool anonymous;          /* requests are not signed: public buckets */
    bool insecure_tls;       /* certificates are not checked */
    bool no_checksums;       /* no x-amz-checksum headers, for stores that refuse them */
    uint32_t connect_timeout_ms; /* default 10 s */
    uint32_t stall_timeout_ms;   /* no byte moved for so long: default 30 s; whole seconds, rounded up */
    uint32_t attempts_max;       /* of one request: default 6; 1 is no repetition */
    uint32_t backoff_ms;         /* first pause at most; doubles, with jitter, up to 10 s: default 200 */
    uint64_t part_bytes;         /* put_fd and put_stream above this go in parts of this size: default 16 MiB; S3 wants at least 5 MiB */
    uint32_t parallel;           /* parts of one upload under way at once, each in memory: default 4 */
};

/* Gives 0 and a store, or a negative code and in `error` why in words. No request is made: a missing bucket shows at the first one. */
int object_open(struct object_store **store, const char *url, const struct object_options *options, char error[OBJECT_DETAIL_BYTES]);
void object_close(struct object_store *s); /* no call may be under way; NULL is allowed */

const char *object_url(const struct object_store *s); /* as opened, without a slash at the end; lives as long as the store */

/* The folder of a file:// store, which the first put makes; NULL for others. Lives as long as the store. */
const char *object_folder(const struct object_store *s);

/* The key in this store of an object that has a URL of its own: the part of `url` behind the store's URL and a slash; NULL if it is not below it. Points into url. */
const char *object_key_of(const struct object_store *s, const char *url);

/* ---- a call's company */

struct object_call {
    const atomic_bool *cancel; /* NULL: cannot be cancelled. Looked at about once a second and in pauses; the call then gives ERR_OBJECT_CANCELLED */
    /* Bytes of the object that this call has moved so far; falls back when a part is repeated. From one thread at a time, not always the caller's. */
    void (*progress)(void *arg, uint64_t bytes);
    void *progress_arg;
    char detail[OBJECT_DETAIL_BYTES]; /* result: "" or more about the failure */
};
/* Every function below takes a call, which may be NULL: no cancelling, no progress, no detail. */

struct object_meta {
    uint64_t size;
    int64_t modified_ms;          /* Unix time; S3 knows whole seconds only. 0: not told (after a put) */
    char etag[OBJECT_ETAG_BYTES]; /* as the store gives it, with its quotes; differs whenever the bytes do. Opaque. "" : not told */
};

/* ---- reading */

int object_head(struct object_store *s, struct object_call *call, const char *key, struct object_meta *meta);

/* Appends the whole object to out; ERR_OBJECT_TOO_LARGE if it has more than `max` bytes (out is then as before). meta may be NULL. */
int object_get(struct object_store *s, struct object_call *call, const char *key, uint64_t max, struct buf *out, struct object_meta *meta);

/* Reads up to n bytes (n > 0) from offset `at` into p; gives how many, fewer than n only at the object's end. ERR_OBJECT_RANGE if `at` is at or behind the end (so always for an
 * empty object). meta may be NULL; its size is that of the whole object. */
ssize_t object_get_range(struct object_store *s, struct object_call *call, const char *key, void *p, size_t n, uint64_t at, struct object_meta *meta);

/* Writes the whole object to fd from offset 0 on; the file should be empty. A connection lost in between is taken up where it broke, ERR_OBJECT_CHANGED if the object is another by
 * then. What the file holds after a failure is without meaning; nothing is synced. meta may be NULL. */
int object_get_fd(struct object_store *s, struct object_call *call, const char *key, int fd, struct object_meta *meta);

/* ---- writing */

enum object_condition {
    OBJECT_ALWAYS,
    OBJECT_IF_ABSENT, /* only if there is no such object */
    OBJECT_IF_MATCH,  /* only if the object there has this etag */
};

struct object_put_options { /* zeroed: unconditional, application/octet-stream */
    const char *content_type;
    enum object_condition condition;
    const char *etag; /* of OBJECT_IF_MATCH, as a head, get or put gave it */
};

/* Writes the object. options and meta may be NULL; meta tells the new etag and size.
 *
 * A conditional put ends in one of three ways: 0, it happened; ERR_OBJECT_UNCERTAIN, its answer was lost and what the store holds now does not tell; any other code, it did not happen
 * and will not. ERR_OBJECT_PRECONDITION: the condition did not hold. ERR_OBJECT_UNSUPPORTED: the store refuses conditions. Whether a store that accepts them
 * honours them is for object_probe_conditions to find out. How a lost answer is resolved stands at the top of s3put.c. */
int object_put(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *options, struct object_meta *meta);

/* Writes what fd holds from its offset 0 to its end (regular files), or what it gives until end of file (pipes), in parallel parts if it is more than part_bytes. A failure
 * or a cancel aborts the upload: nothing is visible and no parts stay behind, as far as the store can be reached. Always unconditional. */
int object_put_fd(struct object_store *s, struct object_call *call, const char *key, int fd, const char *content_type, struct object_meta *meta);

/* The same for a file that nobody will write to any more. A nameless one (O_TMPFILE) on the file system of a file:// store becomes the object itself, without a copy; object_folder says
 * where to make it. */
int object_put_temp(struct object_store *s, struct object_call *call, const char *key, int fd, const char *content_type, struct object_meta *meta);

/* The same from a function that gives the next bytes: how many, 0 at the end, negative to fail the upload with that code. It is called by one thread at a time, not always the
 * caller's, and in order. size_hint: about how many bytes will come, 0 if unknown. */
struct object_source {
    ssize_t (*read)(void *arg, void *p, size_t n);
    void *arg;
    uint64_t size_hint;
};
int object_put_stream(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta);

/* Deletes objects; those that are not there count as deleted. All are tried; the first failure is returned, and *failed (may be NULL) counts them. */
int object_delete(struct object_store *s, struct object_call *call, const char *const *keys, size_t n, size_t *failed);

/* ---- listing */

struct object_item {
    const char *key;    /* relative to the store's URL; lives until the callback returns */
    bool is_prefix;     /* a common prefix, ends with the delimiter: no meta */
    struct object_meta meta;
};

struct object_list_options {
    const char *prefix;      /* NULL or "": all. Not only whole segments: "ab" lists "abc" */
    const char *start_after; /* NULL or "": from the beginning; else only keys behind this one */
    bool by_folder;          /* keys with a slash behind the prefix come as one item per folder */
    uint32_t page;           /* items per request; 0: the store's most (1000) */
};

/* Calls `each` for every item in byte order. A result of it other than 0 ends the list and is returned. It may use the store. Objects written meanwhile may be missed or
 * listed, all others are there exactly once. */
int object_list(struct object_store *s, struct object_call *call, const struct object_list_options *options, int (*each)(void *arg, const struct object_item *item), void *arg);

/* ---- conditions */

enum object_conditions {
    OBJECT_CONDITIONS_NONE = 0,      /* refused, or accepted and ignored */
    OBJECT_CONDITIONS_IF_ABSENT = 1,
    OBJECT_CONDITIONS_IF_MATCH = 2,
    OBJECT_CONDITIONS_ALL = 3,
};

/* Finds out by trial which conditions of puts the store really honours: a set of the bits above, or a negative code if it could not be found out. Writes and deletes one small object
 * "_sherd_probe/RANDOM". The result is remembered: only the first call costs requests. For file:// it is ALL without a request. */
int object_probe_conditions(struct object_store *s, struct object_call *call);
