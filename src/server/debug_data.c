#include "server/debug_data.h"

#include <ctype.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "command/objects.h"
#include "server/conn.h"
#include "server/front.h"
#include "shard/thaw.h"
#include "store/chill.h"
#include "store/evict.h"
#include "store/hash.h"
#include "store/image.h"
#include "store/list.h"
#include "store/pack.h"
#include "store/set.h"
#include "store/zset.h"

/* ---- one key */

/* The key named by argv[2]; answers the error if there is none. Asking about a key is no use of it. */
static bool find(struct exec *x, struct place *at)
{
    exec_peek(x, x->argv[2], at);
    if (at->e) return exec_readable(x, at);
    reply_error(&x->out, reply_nokey);
    return false;
}

static size_t image_bytes(const struct entry *e)
{
    struct buf image = {0};
    image_write(&image, e);
    size_t n = image.len - 1; /* without the type: Redis counts the body alone */
    buf_fini(&image);
    return n;
}

void debug_data_object(struct exec *x)
{
    struct place at;
    if (!find(x, &at)) return;
    uint32_t access = entry_access(at.e);
    const struct store_limits *l = at.store->limits;
    struct buf text = {0};
    buf_printf(&text, "Value at:%p refcount:1 encoding:%s serializedlength:%zu lru:%u lru_seconds_idle:%lld", (void *)at.e,
               objects_encoding_name(at.e), image_bytes(at.e), access, l->lfu ? 0LL : (long long)evict_idle_ms(x->now_ms, access) / 1000);
    if (l->lfu) buf_printf(&text, " lfu_freq:%u", evict_freq(l, x->now_ms, access));
    buf_printf(&text, " type:%s shard:%u", objects_type_name(entry_type(at.e)), route_key(x->route, at.key, at.hash));
    buf_add_byte(&text, '\0');
    reply_simple(&x->out, text.p);
    buf_fini(&text);
}

enum { SHOWN_ELEMENTS = 128, SHOWN_BYTES = 64 };

static void add_printable(struct buf *out, struct slice s)
{
    for (size_t i = 0; i < s.n && i < SHOWN_BYTES; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (isprint(c) && c != '\\') buf_add_byte(out, (char)c);
        else buf_printf(out, "\\x%02x", c);
    }
    if (s.n > SHOWN_BYTES) buf_add_str(out, "...");
}

void debug_data_listpack(struct exec *x)
{
    struct place at;
    if (!find(x, &at)) return;
    if (entry_encoding(at.e) != ENC_PACK) {
        reply_error(&x->out, "ERR Not a listpack encoded object.");
        return;
    }
    struct slice pack = entry_value(at.e);
    struct buf text = {0};
    buf_printf(&text, "{bytes: %zu} {elements: %u}\n", pack.n, pack_count(pack));
    size_t off = pack_first(pack);
    for (unsigned i = 0; off < pack.n && i < SHOWN_ELEMENTS; i++, off = pack_next(pack, off)) {
        struct slice element = pack_get(pack, off);
        buf_printf(&text, "{%u: offset %zu, %zu bytes} ", i, off, element.n);
        add_printable(&text, element);
        buf_add_byte(&text, '\n');
    }
    if (off < pack.n) buf_add_str(&text, "...\n");
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

/* ---- digests: as many digits as clients expect, 64 bits of them independent */

static void digest_text(uint64_t digest, char out[41])
{
    uint64_t part[3];
    for (unsigned i = 0; i < 3; i++) part[i] = keyhash(slice_of(&digest, sizeof digest), i);
    snprintf(out, 41, "%016llx%016llx%08x", (unsigned long long)part[0], (unsigned long long)part[1], (unsigned)part[2]);
}

static const char no_digest[] = "0000000000000000000000000000000000000000"; /* of nothing */

void debug_data_digest(struct exec *x)
{
    char text[41];
    uint64_t sum = 0, keys = 0;
    for (uint32_t i = 0; i < x->route->shards; i++) {
        sum += store_digest(x->stores[i]);
        for (uint16_t d = 0; d < STORE_ALL_DBS; d++) keys += store_keys(x->stores[i], d);
    }
    digest_text(sum, text);
    reply_simple(&x->out, keys ? text : no_digest);
}

void debug_data_digest_value(struct exec *x)
{
    reply_array(&x->out, x->argc - 2);
    for (uint32_t i = 2; i < x->argc; i++) {
        struct place at;
        char text[41];
        exec_peek(x, x->argv[i], &at);
        if (at.e && chill_is_cold(at.e)) snprintf(text, sizeof text, "unreadable");
        else if (at.e) digest_text(store_entry_digest(at.e), text);
        reply_simple(&x->out, at.e ? text : no_digest);
    }
}

/* ---- tables */

static void describe_table(struct buf *out, uint32_t shard, const struct table *t)
{
    uint64_t slots = t->now.count * TABLE_SLOTS;
    if (!t->entries) return;
    buf_printf(out, " shard %u: entries: %llu, buckets: %llu, load: %.2f, bytes: %zu", shard, (unsigned long long)t->entries,
               (unsigned long long)t->now.count, slots ? (double)t->entries / (double)slots : 0, table_bytes(t));
    if (t->old.buckets)
        buf_printf(out, ", moving: %llu of %llu buckets done", (unsigned long long)t->moved, (unsigned long long)t->old.count);
    buf_add_byte(out, '\n');
}

static void describe_tables(struct exec *x, struct buf *out, const char *heading, unsigned d, bool expiring)
{
    buf_printf(out, "[%s HT]\n", heading);
    size_t before = out->len;
    for (uint32_t i = 0; i < x->route->shards; i++) {
        const struct db *db = x->stores[i]->dbs[d];
        if (db) describe_table(out, i, expiring ? &db->expiring : &db->keys);
    }
    if (out->len == before) buf_add_str(out, "No stats available for empty dictionaries\n");
}

void debug_data_htstats(struct exec *x)
{
    int64_t d;
    if (!exec_arg_i64(x, x->argv[2], &d)) return;
    if (d < 0 || d >= STORE_DBS) {
        reply_error(&x->out, "ERR Out of range database");
        return;
    }
    struct buf text = {0};
    describe_tables(x, &text, "Dictionary", (unsigned)d, false);
    describe_tables(x, &text, "Expires", (unsigned)d, true);
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

static uint64_t members_of(const struct entry *e, size_t *bytes)
{
    switch (entry_type(e)) {
    case TYPE_SET: *bytes = set_body_bytes(e); return set_len(e);
    case TYPE_ZSET: *bytes = zset_body_bytes(e); return zset_len(e);
    default: *bytes = hash_body_bytes(e); return hash_len(e);
    }
}

void debug_data_htstats_key(struct exec *x)
{
    struct place at;
    if (!find(x, &at)) return;
    if (entry_encoding(at.e) != ENC_TABLE && entry_encoding(at.e) != ENC_TREE) {
        reply_error(&x->out, "ERR The value stored at the specified key is not represented using an hash table");
        return;
    }
    size_t bytes;
    uint64_t n = members_of(at.e, &bytes);
    struct buf text = {0};
    buf_printf(&text, " entries: %llu, bytes: %zu, bytes per entry: %.1f\n", (unsigned long long)n, bytes, (double)bytes / (double)n);
    reply_verbatim(&x->out, "txt", buf_slice(&text));
    buf_fini(&text);
}

/* ---- POPULATE */

static bool read_count(struct exec *x, struct slice arg, int64_t max, int64_t *v)
{
    if (num_parse_i64(arg, v) && *v >= 0 && *v <= max) return true;
    reply_error(&x->out, "ERR value is out of range, must be positive");
    return false;
}

static void numbered(struct buf *b, struct slice word, int64_t i)
{
    b->len = 0;
    buf_add_slice(b, word);
    buf_printf(b, ":%lld", (long long)i);
}

/* Cut to the size that is asked for (0: as it is), or filled up with zero bytes. */
static void fit(struct buf *b, size_t size)
{
    if (size == 0) return;
    if (size > b->len) memset(buf_room(b, size - b->len), 0, size - b->len);
    b->len = size;
}

void debug_data_populate(struct exec *x)
{
    int64_t count, size = 0, size_max = CONFIG_NUM(conn_of(x)->front->server->config, proto_max_bulk_len);
    struct slice prefix = x->argc > 3 ? x->argv[3] : SLICE("key");
    if (x->argc > 5) {
        exec_syntax(x);
        return;
    }
    if (!read_count(x, x->argv[2], INT64_MAX, &count) || (x->argc > 4 && !read_count(x, x->argv[4], size_max, &size))) return;
    struct buf key = {0}, value = {0};
    for (int64_t i = 0; i < count; i++) {
        struct place at;
        numbered(&key, prefix, i);
        exec_peek(x, buf_slice(&key), &at);
        if (at.e) continue;
        numbered(&value, SLICE("value"), i);
        fit(&value, (size_t)size);
        exec_set(x, &at, buf_slice(&value), 0);
    }
    buf_fini(&key);
    buf_fini(&value);
    reply_ok(&x->out);
}

/* ---- RELOAD: every value out to its image and back */

struct saved { /* followed by the key and the image */
    size_t key_bytes, image_bytes;
    int64_t expiry_ms;
    uint32_t access;
};

/* False: it cannot be read. */
static bool save_image(struct buf *out, const struct store *s, const struct entry *e)
{
    if (!chill_is_cold(e)) {
        image_write(out, e);
        return true;
    }
    struct buf bytes = {0};
    bool ok = s->tier->get(s->tier->ctx, chill_ref_of(e), entry_key(e), &bytes) == 0;
    buf_add_slice(out, chill_image(buf_slice(&bytes)));
    buf_fini(&bytes);
    return ok;
}

static bool save_entry(struct buf *out, const struct store *s, const struct entry *e)
{
    struct slice key = entry_key(e);
    size_t at = out->len, image_at = at + sizeof(struct saved) + key.n;
    memset(buf_room(out, sizeof(struct saved)), 0, sizeof(struct saved));
    out->len += sizeof(struct saved);
    buf_add_slice(out, key);
    if (!save_image(out, s, e)) return false;
    struct saved head = {key.n, out->len - image_at, entry_expiry_ms(e), entry_access(e)};
    memcpy(out->p + at, &head, sizeof head);
    return true;
}

static bool save_db(struct buf *out, const struct store *s, const struct db *db)
{
    struct table_iter it;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; (e = table_iter_next(&it));)
        if (!save_entry(out, s, e)) return false;
    return true;
}

/* A key that is over by now stays away, as from any file. */
static void load_db(struct exec *x, struct store *s, uint16_t db, struct slice saved)
{
    for (const char *p = saved.p, *end = saved.p + saved.n; p < end;) {
        struct saved head;
        memcpy(&head, p, sizeof head);
        p += sizeof head;
        struct slice key = slice_of(p, head.key_bytes), image = slice_of(p + key.n, head.image_bytes);
        p += key.n + image.n;
        if (head.expiry_ms && head.expiry_ms <= x->now_ms) continue;
        struct place at;
        store_peek(s, db, exec_hash(x, key), key, &at);
        store_apply(s, &(struct op){.kind = OP_RESTORE, .db = db, .key = key, .value = image, .expiry_ms = head.expiry_ms}, &at);
        entry_set_access(at.e, head.access);
    }
}

static void reload(struct exec *x)
{
    struct buf saved = {0};
    for (uint32_t i = 0; i < x->route->shards; i++) {
        struct store *s = x->stores[i];
        for (uint16_t d = 0; d < STORE_DBS; d++) {
            if (!store_keys(s, d)) continue;
            saved.len = 0;
            if (!save_db(&saved, s, s->dbs[d])) {
                exec_unreadable(x);
                buf_fini(&saved);
                return;
            }
            store_apply(s, &(struct op){.kind = OP_FLUSH, .db = d}, NULL);
            load_db(x, s, d, buf_slice(&saved));
        }
    }
    buf_fini(&saved);
    reply_ok(&x->out);
}

void debug_data_reload(struct exec *x)
{
    for (uint32_t i = 2; i < x->argc; i++) {
        if (slice_is(x->argv[i], "merge") || slice_is(x->argv[i], "noflush")) continue; /* what is saved now conflicts with nothing */
        if (slice_is(x->argv[i], "nosave")) reply_error(&x->out, "ERR DEBUG RELOAD NOSAVE is not possible: there is no file to load");
        else reply_error(&x->out, "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
        return;
    }
    reload(x);
}

/* ---- SYSTEM */

void debug_data_system(struct exec *x)
{
    int64_t shard, ms = 0;
    struct slice key = x->argv[3];
    if (x->argc > 6) {
        exec_syntax(x);
        return;
    }
    if (!read_count(x, x->argv[2], (int64_t)x->route->shards - 1, &shard) || (x->argc > 5 && !read_count(x, x->argv[5], INT32_MAX, &ms))) return;
    struct place at;
    store_peek(x->stores[shard], STORE_SYSTEM_DB, exec_hash(x, key), key, &at);
    if (x->argc == 4) {
        if (!at.e) reply_null(&x->out);
        else if (entry_type(at.e) != TYPE_STRING) reply_error(&x->out, "ERR the record is no string");
        else reply_bulk(&x->out, entry_value(at.e));
        return;
    }
    struct op op = {.kind = OP_SET, .db = STORE_SYSTEM_DB, .key = key, .value = x->argv[4], .expiry_ms = ms ? x->now_ms + ms : 0};
    store_apply(x->stores[shard], &op, &at);
    reply_ok(&x->out);
}

/* ---- CHILL */

static uint64_t chill_db(struct store *s, uint16_t id)
{
    uint64_t n = 0;
    struct table_iter it;
    if (!s->dbs[id]) return 0;
    table_iter_init(&it, &s->dbs[id]->keys);
    for (struct entry *e; (e = table_iter_next(&it));) n += !chill_is_cold(e) && chill_out(s, id, e); /* the slot is pointed elsewhere, nothing moves */
    return n;
}

static uint64_t chill_key(struct exec *x, struct slice key)
{
    struct place at;
    uint64_t hash = exec_hash(x, key);
    store_peek(exec_store(x, key, hash), x->db, hash, key, &at);
    return at.e && !chill_is_cold(at.e) && chill_out(at.store, at.db_id, at.e);
}

void debug_data_chill(struct exec *x)
{
    struct thaws *th = conn_of(x)->front->server->engine->thaws;
    uint64_t n = 0;
    if (!th) {
        reply_error(&x->out, "ERR there is no cold tier: the server is ephemeral");
        return;
    }
    for (uint32_t i = 2; i < x->argc; i++) n += chill_key(x, x->argv[i]);
    for (uint32_t i = 0; x->argc == 2 && i < x->route->shards; i++)
        for (uint16_t d = 0; d < STORE_DBS; d++) n += chill_db(x->stores[i], d);
    tier_flush(th->tier);
    reply_int(&x->out, (int64_t)n);
}
