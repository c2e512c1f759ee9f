/* UTF-8, one character at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* The byte begins a character (it does not continue one). */
static inline bool utf8_starts(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

/* Bytes of the character at the front of s, and the character; 0 if s is empty or is not UTF-8 there: too long a form,
 * a surrogate, beyond U+10FFFF. */
size_t utf8_decode(struct slice s, uint32_t *c);

/* Writes a character (not a surrogate, at most U+10FFFF); gives its bytes. */
size_t utf8_encode(char out[4], uint32_t c);

bool utf8_valid(struct slice s);
size_t utf8_count(struct slice s); /* characters; of bytes that are no UTF-8, those that begin one */
