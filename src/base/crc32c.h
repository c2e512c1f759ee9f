/* CRC-32C (Castagnoli): the checksum of everything that Sherd writes to disk in its own formats. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CRC32C_START 0u

/* Continues crc (CRC32C_START at first) over n more bytes. "123456789" gives e3069283. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
