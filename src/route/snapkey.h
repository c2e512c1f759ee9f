/* Keys of published snapshots: an integer, text or bytes; what of them is hashed, and what is stored. Pure.
 *
 * The two are independent. Hashed are the canonical bytes: an integer's eight bytes as signed 64 bits in little endian, text as UTF-8, bytes as they are. Stored is what
 * the snapshot's encoding makes of the key: u64be and u32be take integers, in big endian so that the order of the bytes is that of the numbers; utf8 and raw take text and bytes as they are. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum snapkey_kind { SNAPKEY_INT, SNAPKEY_UINT /* an integer above INT64_MAX */, SNAPKEY_TEXT, SNAPKEY_BYTES };

struct snapkey {
    enum snapkey_kind kind;
    union {
        int64_t i;
        uint64_t u;
        struct slice s; /* text is valid UTF-8 */
    };
};

static inline struct snapkey snapkey_int(int64_t i) { return (struct snapkey){.kind = SNAPKEY_INT, .i = i}; }
static inline struct snapkey snapkey_uint(uint64_t u) { return u <= INT64_MAX ? snapkey_int((int64_t)u) : (struct snapkey){.kind = SNAPKEY_UINT, .u = u}; }
static inline struct snapkey snapkey_text(struct slice s) { return (struct snapkey){.kind = SNAPKEY_TEXT, .s = s}; }
static inline struct snapkey snapkey_bytes(struct slice s) { return (struct snapkey){.kind = SNAPKEY_BYTES, .s = s}; }

/* The bytes that are hashed; they lie in scratch or in the key. False: a SNAPKEY_UINT has none. */
bool snapkey_canonical(const struct snapkey *k, char scratch[8], struct slice *out);
bool snapkey_hash(const struct snapkey *k, uint64_t *hash); /* XXH3-64, seed 0, of these */

enum snapkey_encoding { SNAPKEY_U64BE, SNAPKEY_U32BE, SNAPKEY_UTF8, SNAPKEY_RAW, SNAPKEY_ENCODINGS };

const char *snapkey_encoding_name(enum snapkey_encoding e); /* "u64be", ... as manifests have it */
bool snapkey_encoding_parse(struct slice name, enum snapkey_encoding *e);

/* The stored bytes; they lie in scratch or in the key. NULL, or why the key cannot be stored so: a static sentence. */
const char *snapkey_encode(enum snapkey_encoding e, const struct snapkey *k, char scratch[8], struct slice *out);
/* The key that stored bytes stand for: an integer, text for utf8, bytes for raw. False: they have the wrong length, or are no UTF-8. Keeps stored. */
bool snapkey_decode(enum snapkey_encoding e, struct slice stored, struct snapkey *k);
/* The key that a word on a command line or a field of a CSV file means under an encoding: decimal digits for integers, else the bytes themselves. Keeps word. NULL, or why not. */
const char *snapkey_parse(enum snapkey_encoding e, struct slice word, struct snapkey *k);

/* As JSON: 5, "text", with everything outside ASCII escaped. False, and nothing added: bytes that are no UTF-8 have no JSON form. */
bool snapkey_json(const struct snapkey *k, struct buf *out);
