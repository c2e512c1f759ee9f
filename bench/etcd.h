/* What `load` says to etcd: gRPC, as far as Put and Range of one key need it. HTTP/2 frames are prebuilt; only the key's digits and the numbers of the
 * streams change. So a request costs this client no more than one to a Redis server, and what is measured is etcd.
 *
 * Headers are sent as literals that no table keeps, and those that arrive are not read: a call that failed is known by its having no message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ETCD_OVERHEAD = 256,      /* bytes of a request without its key and value, at most */
    ETCD_VALUE_MAX = 8 << 10, /* a request is one frame */
    ETCD_FLIGHT_MAX = 32 << 10, /* bytes of messages in one batch: below what a server takes without being asked again */
    ETCD_BACK_MAX = 512,
};

/* Where in a request the parts are that change. */
struct etcd_request {
    size_t len, key_at, stream_at[2];
    uint32_t reply_min; /* bytes of the message that answers it, at least */
};

/* Writes what a connection begins with; gives its length, below ETCD_BACK_MAX. */
size_t etcd_hello(char *out);

/* Writes a Put with that value, or a linearizable Range where `value` is NULL; then value_len is the length of the value that must come.
 * out: room for ETCD_OVERHEAD, key and value. */
struct etcd_request etcd_write(char *out, const char *key, size_t key_len, const char *value, size_t value_len);

/* Gives a prebuilt request its stream. p: where a struct etcd_request says. */
void etcd_set_stream(char *p, uint32_t stream);

/* The answers of one connection. */
struct etcd_reader {
    uint32_t next_stream;     /* of the next request; odd */
    uint32_t first, n, ended; /* the streams of the batch that is under way: first, first + 2, ... */
    const uint32_t *need;     /* bytes that each must bring; borrowed from the batch */
    uint32_t *got;            /* and has brought */
    uint8_t head[9];          /* of the frame that arrives */
    uint32_t n_head, left, n_payload;
    uint8_t payload[8];       /* its first bytes */
    char back[ETCD_BACK_MAX]; /* what the server must be told: acknowledgements. To be sent between two batches, no need to hurry */
    size_t n_back;
};

/* Begins a batch of n requests, which have the streams next_stream, next_stream + 2, ... */
void etcd_begin(struct etcd_reader *r, uint32_t n, const uint32_t *need);

/* Takes bytes that have arrived, cut anywhere. NULL, or what is wrong with them. The batch is answered when ended == n. */
const char *etcd_read(struct etcd_reader *r, const char *p, size_t n);
