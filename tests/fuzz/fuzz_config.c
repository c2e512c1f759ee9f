/* Any pairs of lines as CONFIG SET: refused with a reason and without a trace, or accepted and then told back in a form that is accepted again. */
#include <stdint.h>

#include "base/check.h"
#include "server/config.h"
#include "server/options.h"
#include "server/optval.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAIRS_MAX = 4 };

static struct slice next_line(struct slice *rest)
{
    const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    struct slice line = slice_of(rest->p, end ? (size_t)(end - rest->p) : rest->n);
    size_t used = line.n + (end != NULL);
    *rest = slice_of(rest->p + used, rest->n - used);
    return line;
}

static void add_value(void *ctx, const char *name, struct slice value)
{
    buf_add_str(ctx, name);
    buf_add_slice(ctx, value);
}

static void dump(struct config *cfg, struct buf *out) { config_get(cfg, SLICE("*"), add_value, out); }

/* What CONFIG GET shows must be a value that the option takes. */
static void check_told_back(struct config *cfg)
{
    for (size_t i = 0; i < options_count(); i++) {
        struct buf text = {0};
        struct optval v;
        char why[200];
        config_format(cfg, &options[i], &text);
        CHECK(optval_parse(&options[i], buf_slice(&text), &v, why, sizeof why) == 0);
        optval_fini(&v);
        buf_fini(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = slice_of(size ? (const char *)data : "", size), words[2 * PAIRS_MAX];
    size_t n = 0;
    while (rest.n && n < 2 * PAIRS_MAX) words[n++] = next_line(&rest);
    struct config cfg;
    struct buf before = {0}, after = {0}, error = {0};
    config_init(&cfg);
    dump(&cfg, &before);
    if (config_set(&cfg, words, n / 2, &error) != 0) {
        dump(&cfg, &after);
        CHECK(error.len > 0 && slice_eq(buf_slice(&before), buf_slice(&after)));
    }
    check_told_back(&cfg);
    buf_fini(&before);
    buf_fini(&after);
    buf_fini(&error);
    config_fini(&cfg);
    return 0;
}
