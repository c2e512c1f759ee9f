/* A connection to a server that speaks RESP2, for inputs that read from one (snapshot/inputnet.h): requests out, replies in, one thread, blocking.
 * Functions that give false have appended why, beginning with the server's address. What the server sends is not believed: sizes are bounded. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct inputnet_server;

enum { INPUTWIRE_BULK_MAX = 1 << 30, INPUTWIRE_ARRAY_MAX = 1 << 24, INPUTWIRE_LINE = 256 };

struct inputwire { /* zeroed but for cancel until inputwire_open */
    const char *address;
    const atomic_bool *cancel; /* NULL: never */
    uint64_t received_bytes;
    int fd;
    struct buf out;
    size_t in_at, in_n;
    char in[64 << 10];
};

/* Connects, authenticates and selects the database. Keeps everything. False and why; inputwire_close in any case. */
bool inputwire_open(struct inputwire *w, const struct inputnet_server *s, uint16_t db, struct buf *why);
void inputwire_close(struct inputwire *w);

void inputwire_add(struct inputwire *w, const struct slice *words, size_t n); /* a command, to be sent by: */
bool inputwire_send(struct inputwire *w, struct buf *why);

bool inputwire_line(struct inputwire *w, char line[INPUTWIRE_LINE], struct buf *why); /* the rest of one that is longer is dropped */
/* The number behind a reply's first byte, which must be `kind`. An error of the server is one here. */
bool inputwire_head(struct inputwire *w, char kind, int64_t max, int64_t *n, struct buf *why);
bool inputwire_bulk(struct inputwire *w, int64_t n, struct buf *out, struct buf *why); /* appends what follows the head of a bulk string */
bool inputwire_broken(const struct inputwire *w, const char *what, struct buf *why); /* false */
bool inputwire_nonsense(const struct inputwire *w, struct buf *why); /* false */
