/* CRC-64 as Redis uses it: polynomial of Jones, reflected, no inversion at either end. Pure.
 * Of "123456789" it is e9c6d914c4b8d9ca. */
#pragma once
#include <stdint.h>

#include "base/slice.h"

uint64_t crc64(uint64_t crc, struct slice s); /* crc: 0, or that of the bytes before */
