#include <string.h>

#include "etcd.h"

/* RFC 9113: a frame is length (3 bytes), type, flags, stream (4 bytes), payload; numbers are big endian. */
enum { HEAD_BYTES = 9, DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { FLAG_ACK = 1, FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };
enum { SETTING_TABLE_SIZE = 1, SETTING_ENABLE_PUSH = 2, SETTING_INITIAL_WINDOW = 4 };
enum { WINDOW_MAX = 0x7fffffff, WINDOW_USUAL = 65535, MESSAGE_HEAD = 5 /* compressed or not, length */ };

struct out {
    char *p;
    size_t n;
};

static void put(struct out *o, const void *p, size_t n)
{
    memcpy(o->p + o->n, p, n);
    o->n += n;
}

static void put_byte(struct out *o, unsigned v) { o->p[o->n++] = (char)v; }

static void put_number(struct out *o, uint32_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) put_byte(o, v >> (8 * i) & 0xff);
}

static void put_head(struct out *o, size_t len, unsigned type, unsigned flags)
{
    put_number(o, (uint32_t)len, 3);
    put_byte(o, type);
    put_byte(o, flags);
    put_number(o, 0, 4);
}

static void put_setting(struct out *o, uint32_t name, uint32_t value)
{
    put_number(o, name, 2);
    put_number(o, value, 4);
}

/* RFC 7541: a field of the static table's name, or of its own, that no table keeps. */
static void put_field(struct out *o, const char *name, uint32_t static_name, const char *value)
{
    if (static_name < 15) {
        put_byte(o, static_name);
    } else {
        put_byte(o, 15);
        put_byte(o, static_name - 15);
    }
    if (name) {
        put_byte(o, (unsigned)strlen(name));
        put(o, name, strlen(name));
    }
    put_byte(o, (unsigned)strlen(value));
    put(o, value, strlen(value));
}

static void put_headers(struct out *o, const char *path)
{
    enum { METHOD_POST = 0x83, SCHEME_HTTP = 0x86, AUTHORITY = 1, PATH = 4, CONTENT_TYPE = 31 };
    size_t at = o->n;
    put_head(o, 0, HEADERS, FLAG_END_HEADERS);
    put_byte(o, METHOD_POST);
    put_byte(o, SCHEME_HTTP);
    put_field(o, NULL, PATH, path);
    put_field(o, NULL, AUTHORITY, "127.0.0.1");
    put_field(o, NULL, CONTENT_TYPE, "application/grpc");
    put_field(o, "te", 0, "trailers");
    struct out len = {o->p + at, 0};
    put_number(&len, (uint32_t)(o->n - at - HEAD_BYTES), 3);
}

/* Protocol buffers: a field of bytes. */
static size_t varint_bytes(size_t v)
{
    size_t n = 1;
    for (; v >= 128; v >>= 7) n++;
    return n;
}

static size_t field_bytes(size_t len) { return 1 + varint_bytes(len) + len; }

/* Gives where the bytes themselves are. */
static size_t put_bytes(struct out *o, unsigned field, const char *p, size_t n)
{
    size_t v = n;
    put_byte(o, field << 3 | 2);
    for (; v >= 128; v >>= 7) put_byte(o, (unsigned)(v & 127) | 128);
    put_byte(o, (unsigned)v);
    size_t at = o->n;
    put(o, p, n);
    return at;
}

size_t etcd_hello(char *out)
{
    struct out o = {out, 0};
    put(&o, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_head(&o, 3 * 6, SETTINGS, 0);
    put_setting(&o, SETTING_TABLE_SIZE, 0);
    put_setting(&o, SETTING_ENABLE_PUSH, 0);
    put_setting(&o, SETTING_INITIAL_WINDOW, WINDOW_MAX);
    put_head(&o, 4, WINDOW_UPDATE, 0); /* for the connection: more than a run brings */
    put_number(&o, WINDOW_MAX - WINDOW_USUAL, 4);
    return o.n;
}

struct etcd_request etcd_write(char *out, const char *key, size_t key_len, const char *value, size_t value_len)
{
    struct out o = {out, 0};
    struct etcd_request r = {.reply_min = MESSAGE_HEAD + 1 + (value ? 0 : (uint32_t)(key_len + value_len))};
    size_t message = field_bytes(key_len) + (value ? field_bytes(value_len) : 0);
    r.stream_at[0] = o.n + 5;
    put_headers(&o, value ? "/etcdserverpb.KV/Put" : "/etcdserverpb.KV/Range");
    r.stream_at[1] = o.n + 5;
    put_head(&o, MESSAGE_HEAD + message, DATA, FLAG_END_STREAM);
    put_byte(&o, 0);
    put_number(&o, (uint32_t)message, 4);
    r.key_at = put_bytes(&o, 1, key, key_len);
    if (value) put_bytes(&o, 2, value, value_len);
    r.len = o.n;
    return r;
}

void etcd_set_stream(char *p, uint32_t stream)
{
    struct out o = {p, 0};
    put_number(&o, stream, 4);
}

/* ---- answers */

void etcd_begin(struct etcd_reader *r, uint32_t n, const uint32_t *need)
{
    r->first = r->next_stream;
    r->next_stream += 2 * n;
    r->n = n;
    r->ended = 0;
    r->need = need;
    memset(r->got, 0, n * sizeof *r->got);
}

static uint32_t head_length(const struct etcd_reader *r) { return (uint32_t)r->head[0] << 16 | (uint32_t)r->head[1] << 8 | r->head[2]; }

static uint32_t head_stream(const struct etcd_reader *r)
{
    return ((uint32_t)r->head[5] << 24 | (uint32_t)r->head[6] << 16 | (uint32_t)r->head[7] << 8 | r->head[8]) & WINDOW_MAX;
}

static const char *acknowledge(struct etcd_reader *r, unsigned type)
{
    struct out o = {r->back, r->n_back};
    if (r->n_back + HEAD_BYTES + sizeof r->payload > sizeof r->back) return "the server asks too much at once";
    put_head(&o, r->n_payload, type, FLAG_ACK);
    put(&o, r->payload, r->n_payload);
    r->n_back = o.n;
    return NULL;
}

static const char *stream_frame(struct etcd_reader *r, unsigned type, unsigned flags)
{
    uint32_t stream = head_stream(r), i = (stream - r->first) / 2;
    if (stream < r->first || (stream & 1) == 0 || i >= r->n) return "an answer to nothing that was asked";
    if (type == DATA) r->got[i] += head_length(r);
    if (!(flags & FLAG_END_STREAM)) return NULL;
    r->ended++;
    if (r->got[i] == 0) return "a request was refused";
    return r->got[i] >= r->need[i] ? NULL : "an answer without a value of this length; does every key exist?";
}

/* A whole frame has arrived. */
static const char *frame(struct etcd_reader *r)
{
    unsigned type = r->head[3], flags = r->head[4];
    switch (type) {
    case DATA:
    case HEADERS: return stream_frame(r, type, flags);
    case SETTINGS:
        r->n_payload = 0;
        return flags & FLAG_ACK ? NULL : acknowledge(r, SETTINGS);
    case PING: return flags & FLAG_ACK ? NULL : acknowledge(r, PING);
    case RST_STREAM: return "a request was cut off";
    case GOAWAY: return "the server ends the connection";
    default: return NULL; /* windows, which a batch never fills */
    }
}

static size_t take_payload(struct etcd_reader *r, const char *p, size_t n)
{
    size_t take = n < r->left ? n : r->left, keep = sizeof r->payload - r->n_payload;
    if (keep > take) keep = take;
    memcpy(r->payload + r->n_payload, p, keep);
    r->n_payload += (uint32_t)keep;
    r->left -= (uint32_t)take;
    return take;
}

const char *etcd_read(struct etcd_reader *r, const char *p, size_t n)
{
    const char *end = p + n;
    while (p < end) {
        if (r->n_head < HEAD_BYTES) {
            r->head[r->n_head++] = (uint8_t)*p++;
            if (r->n_head < HEAD_BYTES) continue;
            r->left = head_length(r);
            r->n_payload = 0;
        }
        p += take_payload(r, p, (size_t)(end - p));
        if (r->left > 0) continue;
        r->n_head = 0;
        const char *wrong = frame(r);
        if (wrong) return wrong;
    }
    return NULL;
}
