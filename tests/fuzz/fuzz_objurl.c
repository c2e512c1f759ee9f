/* Any bytes as the URL of a store: refused, or parts that lie inside it and are what the contract says. */
#include <stdint.h>

#include "base/check.h"
#include "object/objurl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(struct slice part, struct slice whole) { return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice url = slice_of(data, size);
    struct objurl u;
    if (objurl_parse(&u, url) != NULL) return 0;
    CHECK(is_inside(u.path, url) && is_inside(u.bucket, url));
    CHECK(u.path.n == 0 || u.path.p[u.path.n - 1] != '/');
    if (u.scheme == OBJURL_FILE) CHECK(u.path.n > 1 && u.path.p[0] == '/' && objurl_is_plain_path(slice_of(u.path.p + 1, u.path.n - 1)));
    else CHECK(u.bucket.n >= 3 && !memchr(u.bucket.p, '/', u.bucket.n));
    return 0;
}
