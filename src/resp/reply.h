/* Replies out: values -> RESP2 or RESP3 bytes, appended to a buffer. Pure.
 * One call makes one value; aggregate headers are followed by their elements. */
#pragma once
#include <stdint.h>

#include "base/buf.h"

struct reply {
    struct buf *out; /* keeps */
    uint8_t resp;    /* 2 or 3 */
};

void reply_ok(struct reply *r);
void reply_simple(struct reply *r, const char *text);
void reply_int(struct reply *r, int64_t v);
void reply_bulk(struct reply *r, struct slice s);
void reply_bulk_str(struct reply *r, const char *s);
void reply_bulk_i64(struct reply *r, int64_t v);            /* an integer as a bulk string */
void reply_null(struct reply *r);                            /* $-1 or _ */
void reply_null_array(struct reply *r);                      /* *-1 or _ */
void reply_double(struct reply *r, double v);                /* bulk in RESP2, ',' in RESP3 */
void reply_bool(struct reply *r, bool v);                    /* :0/:1 or #t/#f */
void reply_verbatim(struct reply *r, const char *ext, struct slice s); /* bulk in RESP2, =txt: in RESP3 */

void reply_array(struct reply *r, size_t n);
void reply_map(struct reply *r, size_t pairs);               /* *2n in RESP2, %n in RESP3 */
void reply_set(struct reply *r, size_t n);                   /* * in RESP2, ~ in RESP3 */
void reply_push(struct reply *r, size_t n);                  /* * in RESP2, > in RESP3 */

/* An aggregate whose length is known only later: open it, write the elements, close it with the count.
 * `mark` is what open gave. Nothing before the mark may change in between. */
size_t reply_open(struct reply *r);
void reply_close_array(struct reply *r, size_t mark, size_t n);
void reply_close_map(struct reply *r, size_t mark, size_t pairs);
void reply_close_set(struct reply *r, size_t mark, size_t n);

/* Errors: the text starts with its code ("ERR ...", "WRONGTYPE ..."). CR, LF and NUL bytes in it become spaces,
 * so client bytes may be quoted. */
void reply_error(struct reply *r, const char *text);
void reply_errorf(struct reply *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The texts that many commands share. */
extern const char reply_wrongtype[];   /* WRONGTYPE Operation against a key holding the wrong kind of value */
extern const char reply_syntax[];      /* ERR syntax error */
extern const char reply_notint[];      /* ERR value is not an integer or out of range */
extern const char reply_notfloat[];    /* ERR value is not a valid float */
extern const char reply_nokey[];       /* ERR no such key */
extern const char reply_range[];       /* ERR index out of range */
