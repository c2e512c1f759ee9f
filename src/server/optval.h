/* Values of options: text in, text out. The texts of errors are those of Redis. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct option;

enum { OPTVAL_CLIENT_CLASSES = 3 }; /* normal, replica, pubsub */

/* A parsed value. Which members count follows from the option's type. */
struct optval {
    int64_t num;
    char *text; /* owned; optval_fini frees */
    struct {
        int64_t hard_bytes, soft_bytes, soft_seconds;
    } clients[OPTVAL_CLIENT_CLASSES];
    uint32_t classes_given; /* OPTION_CLIENTS: only these are to be changed */
};

/* Reads text; on failure gives -1 and the reason in why. optval_fini in both cases. */
int optval_parse(const struct option *o, struct slice text, struct optval *v, char *why, size_t cap);
void optval_fini(struct optval *v);

/* The text that CONFIG GET shows, and that optval_parse reads back. */
void optval_format(const struct option *o, const struct optval *v, struct buf *out);
