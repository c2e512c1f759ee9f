/* Requests in: bytes -> argument slices, incrementally. Pure.
 *
 * A request is a RESP array of bulk strings, or an inline line (words split as by a shell: quotes and \x escapes).
 * The parser is fed the whole unconsumed input each time and remembers how far it got inside an unfinished request,
 * so a large request that arrives in many pieces is looked at once, not from its start for every piece.
 *
 * Memory: argument slices point into the input (inline words with escapes are unescaped in place, hence `char *`).
 * The caller keeps the input where it is until the request has run, or moves it and gives the new base:
 * an unfinished request is remembered as offsets. */
#pragma once
#include <stdint.h>

#include "base/slice.h"

enum parse_result {
    PARSE_OK,     /* one request; argc may be 0 (an empty line or *0): skip it */
    PARSE_MORE,   /* not complete yet */
    PARSE_ERROR,  /* protocol error; text in p->error, close after answering */
};

struct parse_limits {
    uint32_t args_max;        /* 1048576 as in Redis; 10 before authentication */
    uint32_t bulk_bytes_max;  /* proto-max-bulk-len; 16384 before authentication */
    uint32_t inline_bytes_max;
};

struct parse_arg {
    uint32_t off, len;
};

struct parser {
    uint32_t left;      /* arguments of the unfinished request still to come */
    uint32_t argc;      /* arguments read so far */
    uint32_t bulk_len;  /* of the argument being read; valid if in_bulk */
    bool in_request, in_bulk;
    size_t pos;         /* offset up to which the unfinished request was read */
    struct parse_arg *args; /* of the unfinished request; grows */
    uint32_t args_cap;
    char error[128];
};

void parse_init(struct parser *p);
void parse_fini(struct parser *p);

/* Reads one request from input[0..n). On PARSE_OK *used is its length and argv/argc its arguments: *argv has room for *argv_cap
 * slices and is grown with mem_resize when needed (takes nothing else). On PARSE_MORE the next call must pass the same bytes again
 * from the same start, with more behind them (they may stand at another address). */
enum parse_result parse_request(struct parser *p, const struct parse_limits *limits, char *input, size_t n, size_t *used,
                                struct slice **argv, uint32_t *argv_cap, uint32_t *argc);

/* How many bytes the unfinished bulk still needs (0 if unknown): lets the reader make room once. */
size_t parse_wants(const struct parser *p, size_t have);
