/* One signed request to S3 and its answer, over libcurl, repeated where that is safe and of use. Any thread: each request under way has a connection of its own, idle ones are kept.
 *
 * Repeated are: no connection, a connection that breaks, silence, 5xx, SlowDown and their like, up to attempts_max times with pauses that double and vary. Once each: after the store says
 * that our clock is wrong (its Date is believed from then on) and after it says that the bucket is in another region. Everything else is final. */
#pragma once
#include "base/buf.h"
#include "object/awssign.h"
#include "object/object.h"
#include "object/s3reply.h"

struct s3http;

/* Copies what it needs. Gives 0, or a code and why in words. */
int s3http_open(struct s3http **h, struct slice bucket, const struct object_options *o, char error[OBJECT_DETAIL_BYTES]);
void s3http_close(struct s3http *h);

#define S3HTTP_PUT_ID "x-amz-meta-sherd-put" /* a put's own number, by which it is known again */

struct s3http_response {
    int status; /* of the last answer; 0: none came */
    struct object_meta meta;
    bool ranged;       /* the answer is a part of the object, meta.size that of the whole */
    uint64_t body_bytes; /* that the answer announces */
    char put_id[40];   /* the S3HTTP_PUT_ID of the object */
    struct s3reply_error error;
    bool lost;         /* an attempt went out and it is not known what became of it */
    uint32_t retry_after_s;
    int64_t date_ms;   /* the store's clock; 0: not told */
};

/* Takes bytes of a good answer; gives 0, or what the request is to end with at once: a code, its detail being the sink's to set, or S3HTTP_ENOUGH. begins: an attempt is about
 * to be made, what came before is void; no bytes yet and no answer. */
typedef int s3http_sink(void *arg, const struct s3http_response *r, struct slice bytes, bool begins);
enum { S3HTTP_ENOUGH = 1 };

struct s3http_request {
    const char *method;
    const char *key;               /* whole; NULL: the bucket */
    struct awssign_pairs params;   /* of the query */
    struct awssign_pairs headers;  /* names in lower case */
    struct slice body;             /* of PUT and POST */
    s3http_sink *sink;             /* NULL: the body is of no interest */
    void *sink_arg;
    const atomic_bool *stop;       /* a second flag beside the call's */
    void (*moved)(void *arg, uint64_t bytes); /* of the body, by the attempt under way; NULL: nobody is told */
    void *moved_arg;
    uint32_t attempts_max;         /* 0: as the store's options say */
};

/* Gives 0, or a code with the call's detail set, or what the sink gave. r is filled in all cases. */
int s3http_request(struct s3http *h, struct object_call *call, const struct s3http_request *q, struct s3http_response *r);

bool s3http_is_passing(int code); /* a failure that may be gone at the next attempt */
/* Waits before attempt number `attempt` + 1; ERR_OBJECT_CANCELLED if one of the flags is raised meanwhile. */
int s3http_pause(const struct s3http *h, const struct object_call *call, const struct s3http_request *q, uint32_t attempt, uint32_t at_least_s);

const struct object_options *s3http_options(const struct s3http *h); /* with defaults filled in; no strings */

/* Sets the call's detail from an error that came inside a good answer, and gives its code. */
int s3http_fail(struct object_call *call, const struct s3http_request *q, int status, const struct s3reply_error *e);
