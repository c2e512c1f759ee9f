/* Any bytes as an AWS file: settings, or the number of the line that is none. The first byte chooses the kind of file. */
#include <stdint.h>

#include "base/check.h"
#include "object/awsconf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 4096) return 0;
    struct awsconf c = {0};
    bool found = false;
    struct slice source = slice_of(data + 1, size - 1);
    unsigned lines = 1;
    for (size_t i = 0; i < source.n; i++) lines += source.p[i] == '\n';
    unsigned bad = awsconf_parse(&c, source, data[0] & 1 ? AWSCONF_CONFIG : AWSCONF_CREDENTIALS, data[0] & 2 ? SLICE("other") : SLICE("default"), &found);
    CHECK(bad <= lines);
    CHECK(!c.access_key == !c.secret_key);
    CHECK(found || (!c.access_key && !c.region && !c.endpoint));
    awsconf_fini(&c);
    return 0;
}
