/* Redis's dump.rdb
 *
 *   "REDIS" | version, 4 digits | items | ff | u64 CRC-64 of everything before, little endian, 0 if it was not computed (from version 5 on)
 *
 *   an item is an opcode and what follows, or a type and a key; lengths, strings and bodies by type: parts.c, rdbwire.c
 *   f4  length length length        slot information
 *   f5  string                      function library
 *   f7  length id, length length, what the module wrote: auxiliary data of a module
 *   f8  length                      idle time of the next key
 *   f9  u8                          access frequency of the next key
 *   fa  string string               auxiliary field
 *   fb  length length               number of keys, and of those that expire
 *   fc  i64                         expiry of the next key, unix ms
 *   fd  i32                         expiry of the next key, unix seconds
 *   fe  length                      database of what follows
 *    t  string body                 a key and a value of type t */
#include "dump/rdbfile.h"

#include <errno.h>
#include <stdio.h>

#include "base/le.h"
#include "store/crc64.h"
#include "store/rdbwire.h"

enum { HEADER_BYTES = 9, CRC_VERSION = 5, CRC_BYTES = 8 };

enum {
    SLOT_INFO = 0xf4,
    FUNCTION = 0xf5,
    FUNCTION_TRIAL = 0xf6,
    MODULE_AUX = 0xf7,
    IDLE = 0xf8,
    FREQ = 0xf9,
    AUX = 0xfa,
    RESIZE_DB = 0xfb,
    EXPIRE_MS = 0xfc,
    EXPIRE_S = 0xfd,
    SELECT_DB = 0xfe,
    END = 0xff,
};

bool rdbfile_is_one(struct slice file) { return file.n >= HEADER_BYTES && memcmp(file.p, "REDIS", 5) == 0; }

static size_t offset(const struct rdbfile_reader *r) { return (size_t)(r->left.p - r->file.p); }

static int fail(struct rdbfile_reader *r, size_t at, const char *fault)
{
    r->fault = fault;
    r->fault_at = at;
    return -EINVAL;
}

int rdbfile_reader_init(struct rdbfile_reader *r, struct slice file)
{
    *r = (struct rdbfile_reader){.file = file};
    if (!rdbfile_is_one(file)) return fail(r, 0, "not a dump of Redis: it does not begin with REDIS and a version");
    for (unsigned i = 5; i < HEADER_BYTES; i++) {
        if (file.p[i] < '0' || file.p[i] > '9') return fail(r, i, "the version is no number");
        r->version = r->version * 10 + (unsigned)(file.p[i] - '0');
    }
    if (r->version < 1 || r->version > RDBFILE_VERSION_MAX) return fail(r, 5, "an RDB version that this program does not know");
    r->left = slice_of(file.p + HEADER_BYTES, file.n - HEADER_BYTES);
    return 0;
}

void rdbfile_reader_fini(struct rdbfile_reader *r)
{
    buf_fini(&r->key);
    buf_fini(&r->image);
}

/* ---- what stands between keys */

static bool take_aux(struct rdbfile_reader *r)
{
    struct slice name, value;
    if (!rdbwire_string(&r->left, &r->key, &name)) return false;
    bool is_version = slice_is(name, "redis-ver");
    if (!rdbwire_string(&r->left, &r->key, &value)) return false;
    if (is_version) snprintf(r->redis_version, sizeof r->redis_version, "%.*s", (int)(value.n < sizeof r->redis_version ? value.n : 0), value.p);
    return true;
}

static bool take_expiry(struct rdbfile_reader *r, bool ms, int64_t *expiry_ms)
{
    const uint8_t *p = rdbwire_take(&r->left, ms ? 8 : 4);
    if (!p) return false;
    *expiry_ms = ms ? (int64_t)le_u64((const char *)p) : (int64_t)(int32_t)le_u32((const char *)p) * 1000;
    return true;
}

static bool take_sizes(struct rdbfile_reader *r)
{
    uint64_t keys, expiring;
    if (!rdbwire_length(&r->left, &keys) || !rdbwire_length(&r->left, &expiring)) return false;
    r->sized_keys += keys;
    return true;
}

static bool skip_lengths(struct rdbfile_reader *r, unsigned n)
{
    uint64_t ignored;
    while (n > 0 && rdbwire_length(&r->left, &ignored)) n--;
    return n == 0;
}

/* Sums up to the offset `to`, in pieces as large as what was read meanwhile. */
static void sum_to(struct rdbfile_reader *r, size_t to)
{
    r->crc = crc64(r->crc, slice_of(r->file.p + r->summed, to - r->summed));
    r->summed = to;
}

static int end(struct rdbfile_reader *r)
{
    size_t at = offset(r), sum_bytes = r->version < CRC_VERSION ? 0 : CRC_BYTES;
    sum_to(r, at);
    if (r->left.n < sum_bytes) return fail(r, at, "the file ends in its checksum");
    if (r->left.n > sum_bytes) return fail(r, at + sum_bytes, "there is something behind the end: an append-only file that begins with a dump is not one");
    if (sum_bytes && le_u64(r->left.p) != 0) {
        if (le_u64(r->left.p) != r->crc) return fail(r, at, "the checksum is wrong");
        r->is_summed = true;
    }
    r->left.p--, r->left.n++; /* so that the next call comes here again */
    return 0;
}

/* ---- keys */

static int take_key(struct rdbfile_reader *r, uint8_t type, struct rdbfile_item *item)
{
    static const char *const left_out[] = {
        [RDBWIRE_STREAM] = "stream", [RDBWIRE_MODULE] = "module value", [RDBWIRE_FIELD_TTLS] = "hash with expiring fields", [RDBWIRE_UNKNOWN] = NULL};
    enum rdbwire_kind kind = rdbwire_kind_of(type);
    if (kind == RDBWIRE_UNKNOWN) return fail(r, item->at, "a type of value that this program does not know");
    if (type == 6) return fail(r, item->at, "a module's value in the form before Redis 4.0, whose end cannot be found");
    if (!rdbwire_string(&r->left, &r->key, &item->key)) return fail(r, item->at, "a key is not well formed or cut off");
    const char *body = r->left.p;
    if (!rdbwire_skip_value(type, &r->left)) return fail(r, item->at, "a value is not well formed or cut off");
    item->db = r->db;
    if (kind != RDBWIRE_VALUE) {
        item->kind = RDBFILE_LEFT_OUT;
        item->what = left_out[kind];
        return 1;
    }
    r->image.len = 0;
    buf_add_byte(&r->image, (char)type);
    buf_add(&r->image, body, (size_t)(r->left.p - body));
    item->image = buf_slice(&r->image);
    return 1;
}

static int leave_out(struct rdbfile_item *item, const char *what)
{
    item->kind = RDBFILE_LEFT_OUT;
    item->what = what;
    return 1;
}

/* One opcode: 1 if it is an item by itself, 0 if something follows it, or -EINVAL. */
static int take_opcode(struct rdbfile_reader *r, uint8_t op, struct rdbfile_item *item)
{
    bool there;
    switch (op) {
    case SLOT_INFO: there = skip_lengths(r, 3); break;
    case FUNCTION:
        if (!rdbwire_skip_string(&r->left)) return fail(r, item->at, "a function library is cut off");
        return leave_out(item, "function library");
    case FUNCTION_TRIAL: return fail(r, item->at, "functions in the form of a release candidate of Redis 7.0");
    case MODULE_AUX:
        if (!skip_lengths(r, 3) || !rdbwire_skip_module(&r->left)) return fail(r, item->at, "data of a module is not well formed or cut off");
        return leave_out(item, "module data");
    case IDLE: there = skip_lengths(r, 1); break;
    case FREQ: there = rdbwire_take(&r->left, 1); break;
    case AUX: there = take_aux(r); break;
    case RESIZE_DB: there = take_sizes(r); break;
    case EXPIRE_MS: there = take_expiry(r, true, &item->expiry_ms); break;
    case EXPIRE_S: there = take_expiry(r, false, &item->expiry_ms); break;
    default: there = rdbwire_length(&r->left, &r->db); break; /* SELECT_DB */
    }
    return there ? 0 : fail(r, item->at, "an item between keys is not well formed or cut off");
}

int rdbfile_next(struct rdbfile_reader *r, struct rdbfile_item *item)
{
    if (r->fault) return -EINVAL;
    sum_to(r, offset(r) > r->summed ? offset(r) : r->summed);
    *item = (struct rdbfile_item){.kind = RDBFILE_KEY};
    for (;;) {
        item->at = offset(r);
        const uint8_t *op = rdbwire_take(&r->left, 1);
        if (!op) return fail(r, item->at, "the file ends without its end mark");
        if (*op == END) return end(r);
        if (*op < SLOT_INFO) return take_key(r, *op, item);
        int rc = take_opcode(r, *op, item);
        if (rc) return rc;
    }
}
