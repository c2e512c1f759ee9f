/* libsherd: reading published snapshots from C.
 *
 * A snapshot is an immutable, sharded set of keys and values in an object store, with a pointer `_CURRENT` to the newest one. A reader opens the store at its URL, looks up keys,
 * scans in order, and switches to a newer snapshot when it is asked to (sherd_reader_refresh), at once and as a whole.
 *
 *     struct sherd_error why;
 *     struct sherd_reader *reader = sherd_reader_open("s3://bucket/prefix", NULL, &why);
 *     if (!reader) { fprintf(stderr, "%s\n", why.text); return 1; }
 *     struct sherd_value value = {0};
 *     struct sherd_key key = sherd_key_text("user-17", 7);
 *     if (sherd_reader_get(reader, &key, NULL, &value, &why) == 1) fwrite(value.data, 1, value.size, stdout);
 *     sherd_value_free(&value);
 *     sherd_reader_close(reader);
 *
 * Threads: all functions on one reader may be called by any number of threads at once, except sherd_reader_close, which must be the last. Values, batches and cursors belong to one thread
 * at a time. A read that is under way during a refresh ends on the snapshot on which it began; one that begins after a refresh returned sees the new one.
 * Calls block: they may wait for the store.
 *
 * Memory: what is handed in is only used during the call. What is given back is freed with the function that is named beside it.
 *
 * Errors: functions give 0 or a count, or a negative code; sherd_error_name and sherd_error_text know all codes. Every function that can fail takes a struct sherd_error, which may be
 * NULL, and fills it with the code and a sentence that says what failed.
 *
 * Compatibility: fields are only ever added at the ends of structs that begin with `size`, which the caller sets to the size it knows. Out of memory aborts. */
#ifndef SHERD_H
#define SHERD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHERD_API __attribute__((visibility("default")))

struct sherd_reader;
struct sherd_batch;
struct sherd_cursor;

SHERD_API const char *sherd_version(void);

/* ---- errors */

struct sherd_error {
    int code;       /* 0: none */
    char text[500]; /* what was tried, on what, and why it failed */
};

SHERD_API const char *sherd_error_name(int code); /* "ERR_SNAPSHOT_NO_CURRENT", "ENOENT"; static */
SHERD_API const char *sherd_error_text(int code); /* a sentence; static */

/* ---- keys and values */

enum sherd_key_kind { SHERD_KEY_INT, SHERD_KEY_TEXT, SHERD_KEY_BYTES };

/* Integers are keys of snapshots with the encodings u64be and u32be, text (UTF-8) and bytes of those with utf8 and raw. Integers are routed by their value, text and bytes by their bytes. */
struct sherd_key {
    enum sherd_key_kind kind;
    uint64_t number;  /* of SHERD_KEY_INT */
    const void *data; /* of the others */
    size_t size;
};

static inline struct sherd_key sherd_key_int(uint64_t number)
{
    struct sherd_key k = {SHERD_KEY_INT, number, NULL, 0};
    return k;
}
static inline struct sherd_key sherd_key_text(const char *data, size_t size)
{
    struct sherd_key k = {SHERD_KEY_TEXT, 0, data, size};
    return k;
}
static inline struct sherd_key sherd_key_bytes(const void *data, size_t size)
{
    struct sherd_key k = {SHERD_KEY_BYTES, 0, data, size};
    return k;
}

/* A value that was read. Zeroed before the first use, it may be used again and again: its memory is kept. */
struct sherd_value {
    void *data;
    size_t size;
    size_t room;
};
SHERD_API void sherd_value_free(struct sherd_value *value);

/* Columns for snapshots that are routed by an expression over more than the key: n names with their values as text. NULL where the key is enough. */
struct sherd_context {
    const char *const *names;
    const char *const *values;
    size_t n;
};

/* ---- opening */

enum sherd_mode {
    SHERD_AUTO,     /* download, unless a shard is larger than auto_shard_bytes or all together than auto_total_bytes */
    SHERD_DOWNLOAD, /* shards come whole into the local cache and are read from there */
    SHERD_RANGE,    /* pages are read from the store as they are needed, and kept in memory */
};

/* Which snapshot: the newest (all zero), or a pinned one, by exactly one of the three. */
struct sherd_pin {
    const char *ref;    /* URL of a manifest, or its key below the prefix */
    const char *run_id;
    bool by_offset;
    uint32_t offset;    /* 0: the newest in history, 1: the one before it, ... */
};

/* All zero but `size` is the usual choice. Strings of the S3 store that are NULL come from the environment and the AWS files. */
struct sherd_options {
    size_t size; /* sizeof(struct sherd_options) */
    enum sherd_mode mode;
    const char *cache_dir;     /* of downloads; NULL: $XDG_CACHE_HOME/sherd/snapshots or ~/.cache/sherd/snapshots. Snapshots of file:// are read in place unless a folder is named */
    uint64_t cache_bytes;      /* downloads that nobody uses are removed above this, oldest use first; 0: 16 GiB */
    uint64_t page_cache_bytes; /* memory for pages of ranged reads; 0: 64 MiB */
    uint64_t auto_shard_bytes; /* 0: 16 MiB */
    uint64_t auto_total_bytes; /* 0: 2 GiB */
    uint32_t parallel;         /* shards opened and requests made at once by one call; 0: 8 */
    uint32_t fallback_attempts; /* older manifests that are tried when the newest cannot be read at open; 0: 3 */
    bool no_fallback;
    bool open_all;             /* shards are opened with the snapshot, not when first needed */
    struct sherd_pin pin;
    const char *endpoint, *region, *access_key, *secret_key, *session_token, *profile, *ca_file;
    int path_style;            /* 0: automatic, 1: path, 2: virtual host */
    bool anonymous, insecure_tls;
    uint32_t attempts_max;     /* of one request; 0: 6 */
    uint32_t connect_timeout_ms, stall_timeout_ms; /* 0: 10 s, 30 s */
};

/* Gives a reader, or NULL. ERR_SNAPSHOT_NO_CURRENT: nothing is published there. A newest manifest that cannot be understood is passed over for an older one
 * (sherd_info.fell_back tells); other failures are not. Shards are opened when they are first needed. */
SHERD_API struct sherd_reader *sherd_reader_open(const char *url, const struct sherd_options *options, struct sherd_error *why);
SHERD_API void sherd_reader_close(struct sherd_reader *reader); /* after all other calls, batches and cursors; NULL is allowed */

/* ---- reading */

/* 1 and the value, 0 if there is no such key, or a negative code. A key whose routing expression names no known shard is not there. */
SHERD_API int sherd_reader_get(struct sherd_reader *reader, const struct sherd_key *key, const struct sherd_context *context, struct sherd_value *value, struct sherd_error *why);

/* Many keys of one and the same snapshot, grouped by shard, over several threads where that is faster. Gives a batch or NULL. */
SHERD_API struct sherd_batch *sherd_reader_multi_get(struct sherd_reader *reader, const struct sherd_key *keys, size_t n, const struct sherd_context *context, struct sherd_error *why);
SHERD_API bool sherd_batch_get(const struct sherd_batch *batch, size_t i, const void **data, size_t *size); /* of keys[i]; false: there is no such key. The bytes live as long as the batch */
SHERD_API void sherd_batch_free(struct sherd_batch *batch);

/* The shard of a key: its number, or -1 where the routing expression names none (*why has then code 0), or a negative code of an error, all of which are below -1. */
SHERD_API int64_t sherd_reader_route(struct sherd_reader *reader, const struct sherd_key *key, const struct sherd_context *context, struct sherd_error *why);

/* ---- scanning in order of stored bytes: numbers by value, text and bytes by bytes */

struct sherd_range {
    size_t size;                    /* sizeof(struct sherd_range) */
    const struct sherd_key *start;  /* NULL: from the first */
    const struct sherd_key *end;    /* NULL: to the last */
    bool after_start;               /* the start itself is left out: to go on behind a key */
    bool with_end;                  /* the end itself is included */
    const struct sherd_key *prefix; /* text or bytes: only keys that begin so; NULL: all */
    bool reverse;                   /* from the end to the start */
    bool one_shard;                 /* only keys of shard `shard` */
    uint32_t shard;
};

/* A cursor over one snapshot, which it holds until it is closed, whatever refreshes come. NULL range: everything. */
SHERD_API struct sherd_cursor *sherd_reader_scan(struct sherd_reader *reader, const struct sherd_range *range, struct sherd_error *why);
/* 1 and the next pair, 0 at the end, or a negative code. The pointers live until the next call on the cursor. */
SHERD_API int sherd_cursor_next(struct sherd_cursor *cursor, struct sherd_key *key, const void **data, size_t *size, struct sherd_error *why);
SHERD_API void sherd_cursor_close(struct sherd_cursor *cursor);

/* ---- switching */

enum sherd_refresh {
    SHERD_UNCHANGED, /* the pointer is as before; this cost one request. Also: the reader is pinned */
    SHERD_SWITCHED,
    SHERD_KEPT,      /* there is a newer snapshot, but it cannot be read: the reader stays with the old one, and *why says why */
};

/* Looks whether another snapshot was published and switches to it. Shards that both have are not opened again; those that were open before are opened before the switch, so that
 * no read waits for it. One of the three above, or a negative code if the pointer cannot be read. */
SHERD_API int sherd_reader_refresh(struct sherd_reader *reader, struct sherd_error *why);
/* Switches to another pin (NULL or all zero: the newest, unpinned). As refresh. */
SHERD_API int sherd_reader_use(struct sherd_reader *reader, const struct sherd_pin *pin, struct sherd_error *why);

/* ---- what is read */

struct sherd_info {
    size_t size; /* sizeof(struct sherd_info), set by the caller */
    char *run_id, *manifest_ref, *created_at, *sharding /* "hash" or "cel" */, *key_encoding, *hash_algorithm, *custom /* JSON */;
    char *cel_expr;       /* NULL for hash */
    uint32_t num_dbs;
    uint32_t shards_open;
    uint64_t row_count, db_bytes;
    int64_t created_ms;   /* Unix time */
    bool pinned, fell_back;
    enum sherd_mode mode; /* the one in use: download (or in place) or range */
};
SHERD_API int sherd_reader_info(struct sherd_reader *reader, struct sherd_info *info, struct sherd_error *why);
SHERD_API void sherd_info_free(struct sherd_info *info);

struct sherd_shard {
    uint32_t db_id;
    bool open;
    uint64_t row_count, db_bytes;
    char *db_url, *min_key, *max_key, *checkpoint_id; /* NULL: none; min and max are JSON */
    char *sha256; /* of the file, hexadecimal; NULL: not known */
};
/* All shards of the snapshot, empty ones too: *n of them. Gives 0 or a negative code. */
SHERD_API int sherd_reader_shards(struct sherd_reader *reader, struct sherd_shard **shards, size_t *n, struct sherd_error *why);
SHERD_API void sherd_shards_free(struct sherd_shard *shards, size_t n);

enum sherd_status { SHERD_HEALTHY, SHERD_DEGRADED, SHERD_UNHEALTHY };

struct sherd_health {
    size_t size; /* sizeof(struct sherd_health), set by the caller */
    enum sherd_status status;
    double age_seconds;      /* since the snapshot was made */
    double unchecked_seconds; /* since `_CURRENT` was last read well */
    uint32_t num_shards;     /* that are not empty */
    char manifest_ref[1100];
    char reason[500];        /* "" if healthy */
};
/* Degraded: older than staleness_seconds (0: no limit), a fallback in use, or the last refresh failed or kept the old snapshot. Unhealthy: a shard could not be read when it was last
 * needed. Makes no request. */
SHERD_API int sherd_reader_health(struct sherd_reader *reader, double staleness_seconds, struct sherd_health *health, struct sherd_error *why);

struct sherd_stats {
    size_t size; /* sizeof(struct sherd_stats), set by the caller */
    uint64_t gets, keys, hits;       /* calls of get and multi_get; keys asked for; found */
    uint64_t requests, request_bytes; /* to the store for shards: downloads, sidecars, ranges */
    uint64_t page_hits, page_misses; /* of ranged reads */
    uint64_t downloads, cache_reuses;
    uint64_t refreshes, switches, kept;
};
SHERD_API void sherd_reader_stats(struct sherd_reader *reader, struct sherd_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
