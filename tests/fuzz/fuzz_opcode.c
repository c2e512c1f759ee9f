/* Any bytes as an op: what decodes is one that a store can be asked to apply, and encodes to the same bytes again. */
#include <stdint.h>

#include "log/opcode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct opcode_scratch scratch = {0};
    struct op op;
    if (opcode_read(slice_of(data, n), &scratch, &op)) {
        struct buf again = {0};
        opcode_write(&again, &op);
        CHECK(slice_eq(buf_slice(&again), slice_of(data, n)));
        buf_fini(&again);
    }
    opcode_scratch_fini(&scratch);
    return 0;
}
