#include "store/crc64.h"

#include <isa-l/crc64.h>

/* ISA-L inverts the value on the way in and out; Redis does not. */
uint64_t crc64(uint64_t crc, struct slice s) { return ~crc64_jones_refl(~crc, (const unsigned char *)s.p, s.n); }
