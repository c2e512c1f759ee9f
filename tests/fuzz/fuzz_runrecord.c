/* Any bytes as a run record: refused with a reason, or a record that our writer writes and reads back the same. */
#include <stdint.h>

#include "base/check.h"
#include "snapshot/runrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *a, const char *b)
{
    CHECK((a == NULL) == (b == NULL));
    CHECK(!a || strcmp(a, b) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct runrecord r, back;
    struct buf why = {0}, yaml = {0};
    if (size > 65536) return 0;
    if (runrecord_parse(slice_of(data, size), &r, &why) != 0) {
        CHECK(why.len > 0);
        buf_fini(&why);
        return 0;
    }
    runrecord_write(&r, &yaml);
    CHECK(runrecord_parse(buf_slice(&yaml), &back, &why) == 0);
    check_text(back.run_id, r.run_id);
    check_text(back.error_message, r.error_message);
    check_text(back.manifest_ref, r.manifest_ref);
    CHECK(back.status == r.status && back.lease_expires_us == r.lease_expires_us && back.started_us == r.started_us);
    runrecord_fini(&back);
    runrecord_fini(&r);
    buf_fini(&yaml);
    return 0;
}
