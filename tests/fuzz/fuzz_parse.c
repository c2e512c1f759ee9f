/* Any bytes: the parser gives the same requests, and the same error, whether they come at once or in two pieces.
 * The first byte picks where to cut and which limits hold. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "resp/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct reader {
    struct parser p;
    struct buf input;
    struct slice *argv;
    uint32_t cap;
    struct buf seen; /* all requests so far: counts, lengths, bytes */
    bool broken;
};

static void note_request(struct reader *r, uint32_t argc)
{
    buf_add(&r->seen, &argc, sizeof argc);
    for (uint32_t i = 0; i < argc; i++) {
        buf_add(&r->seen, &r->argv[i].n, sizeof r->argv[i].n);
        buf_add_slice(&r->seen, r->argv[i]);
    }
}

static void feed(struct reader *r, const struct parse_limits *limits, const uint8_t *data, size_t n)
{
    size_t used;
    uint32_t argc;
    buf_add(&r->input, data, n);
    while (!r->broken) {
        /* An exact copy on the heap, so that a sanitizer sees every byte read too far. */
        char *exact = mem_dup(r->input.p, r->input.len);
        enum parse_result result =
            parse_request(&r->p, limits, exact, r->input.len, &used, &r->argv, &r->cap, &argc);
        if (result == PARSE_OK) {
            CHECK(used > 0 && used <= r->input.len);
            note_request(r, argc);
            memmove(r->input.p, r->input.p + used, r->input.len - used);
            r->input.len -= used;
        } else if (result == PARSE_ERROR) {
            buf_add_str(&r->seen, r->p.error);
            r->broken = true;
        } else if (r->p.in_request) {
            CHECK(r->p.in_bulk || parse_wants(&r->p, r->input.len) == 0);
        }
        mem_free(exact);
        if (result == PARSE_MORE) break;
    }
}

static void release(struct reader *r)
{
    parse_fini(&r->p);
    buf_fini(&r->input);
    buf_fini(&r->seen);
    mem_free(r->argv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct parse_limits limits[2] = {{1 << 20, 512u << 20, 64 << 10}, {10, 16384, 256}};
    if (n < 1) return 0;
    const struct parse_limits *l = &limits[data[0] & 1];
    size_t cut = n > 1 ? (size_t)(data[0] >> 1) * (n - 1) / 127 : 0;
    data++, n--;
    struct reader whole = {0}, pieces = {0};
    parse_init(&whole.p);
    parse_init(&pieces.p);
    feed(&whole, l, data, n);
    feed(&pieces, l, data, cut);
    feed(&pieces, l, data + cut, n - cut);
    CHECK(slice_eq(buf_slice(&whole.seen), buf_slice(&pieces.seen)));
    release(&whole);
    release(&pieces);
    return 0;
}
