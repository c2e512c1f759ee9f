/* shard_hash(key): the hash that places a key in a published snapshot, XXH3-64 with seed 0 of the key's canonical
 * bytes: an int's eight bytes in little endian, a string's UTF-8, bytes as they are. A uint goes the way of the int
 * with its value. */
#include "base/keyhash.h"
#include "cel/library.h"
#include "cel/value.h"

static bool hash_int(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)a->integer >> (8 * i));
    *out = value_uint(keyhash(slice_of(bytes, sizeof bytes), 0));
    return true;
}

static bool hash_uint(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    if (a->natural > INT64_MAX) return eval_fail(e, "shard_hash of a uint above the range of int");
    struct cel_value as_int = value_int((int64_t)a->natural);
    return hash_int(e, &as_int, out);
}

static bool hash_text(struct eval *e, const struct cel_value *a, struct cel_value *out)
{
    *out = value_uint(keyhash(a->text, 0));
    return eval_spend(e, a->text.n / 64);
}

static const struct overload rows[] = {
    {"shard_hash", "int", "uint", hash_int, 0},
    {"shard_hash", "uint", "uint", hash_uint, 0},
    {"shard_hash", "string", "uint", hash_text, 0},
    {"shard_hash", "bytes", "uint", hash_text, 0},
};

const struct library_table shardhash_table = {rows, sizeof rows / sizeof *rows};
