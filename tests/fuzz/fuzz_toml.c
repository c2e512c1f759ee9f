/* Any bytes as a TOML file: a document whose items lie inside the source, or an error that names its line. */
#include <stdint.h>

#include "base/check.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096) return 0;
    struct toml doc;
    if (toml_parse(&doc, slice_of(data, size)) != 0) {
        CHECK(doc.error_line >= 1 && doc.error[0] != '\0');
    } else {
        CHECK(doc.top_end <= size);
        for (size_t i = 0; i < doc.count; i++) CHECK(doc.items[i].from < doc.items[i].to && doc.items[i].to <= size);
    }
    toml_fini(&doc);
    return 0;
}
