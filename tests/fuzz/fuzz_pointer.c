/* Any bytes as a _CURRENT: refused with a reason, or a pointer that our writer writes and reads back the same. */
#include <stdint.h>

#include "base/check.h"
#include "snapshot/pointer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pointer p, back;
    struct buf why = {0}, json = {0};
    if (size > 65536) return 0;
    if (pointer_parse(slice_of(data, size), &p, &why) != 0) {
        CHECK(why.len > 0);
        buf_fini(&why);
        return 0;
    }
    pointer_write(&json, p.manifest_ref, p.run_id, p.updated_us);
    CHECK(pointer_parse(buf_slice(&json), &back, &why) == 0);
    CHECK(strcmp(back.manifest_ref, p.manifest_ref) == 0 && strcmp(back.run_id, p.run_id) == 0 && back.updated_us == p.updated_us);
    pointer_fini(&back);
    pointer_fini(&p);
    buf_fini(&json);
    return 0;
}
