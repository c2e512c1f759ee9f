/* Builds a snapshot from rows and publishes it: routes, sorts, writes one file per shard, uploads, then makes all of it visible in one step.
 *
 *   input -> router -> sorter (by shard and key, last of equal keys stays) -> shard files, several at a time -> store, while further ones are built -> manifest -> _CURRENT
 *
 * Until the last step nothing of it is visible to readers; whatever goes wrong before leaves them on the snapshot they had, a run record that says "failed", and objects below shards/ that
 * no manifest names, which cleanup takes. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "route/router.h"
#include "route/snapkey.h"
#include "snapshot/publish.h"

struct input;
struct object_store;

enum build_phase { BUILD_READING, BUILD_WRITING, BUILD_PUBLISHING, BUILD_DONE };

struct build_progress { /* written by the build, read by any thread */
    _Atomic int phase;
    _Atomic uint64_t rows;                    /* read so far */
    _Atomic uint64_t done_bytes, total_bytes; /* of the phase: of the input, then of the shards' rows; total 0: not known */
};

enum {
    BUILD_MEMORY_MIN = 16 << 20,
    BUILD_ATTEMPTS = 3,
    BUILD_SHARDS_MAX = 65536,
};

/* Zeroed is the usual choice where nothing else is said. The build keeps everything until it returns. */
struct build_options {
    struct object_store *store; /* opened at the snapshot's URL; required */
    struct input *input;        /* required; its columns are those that router_needs_context asks for, in the router's order */
    enum snapkey_encoding key_encoding;
    const char *key_col;        /* for the manifest; NULL: "_key" */

    /* Where rows go: hash with so many shards, or with as many as it takes for at most max_keys_per_shard rows each on average; or cel. */
    uint32_t shards;
    uint64_t max_keys_per_shard;
    const struct router_cel *cel; /* tokens NONE: the expression's result is the shard, or a token if `infer`; shards is then 0, or what it must come to */
    bool infer;                   /* the routing values are all results that occur, ascending */

    uint32_t page_size;    /* 0: of each shard by its rows */
    uint32_t jobs;         /* threads that sort and write; 0: one per processor */
    uint64_t memory_bytes; /* 0: 256 MiB */
    const char *tmp_dir;   /* NULL: TMPDIR, then /tmp; for shards that wait for their upload the store's folder, if it has one */
    bool no_reuse;         /* shards that are unchanged are uploaded again */
    bool no_sidecars;
    bool skip_bad_rows;    /* told and counted; else the first one ends the build */
    void (*on_bad_row)(void *arg, struct slice why);
    void *on_bad_row_arg;
    const char *run_id;         /* NULL: a random one */
    const atomic_bool *cancel;  /* when it becomes true the build ends soon with ERR_OBJECT_CANCELLED */
    struct build_progress *progress; /* NULL: nobody wants to know */
};

struct build_result {
    char *run_id, *manifest_ref, *run_ref;
    uint32_t num_dbs;
    uint32_t shards_written, shards_reused; /* the others are empty */
    uint64_t rows, keys, bytes;             /* rows fed; keys: of them distinct; bytes of all shard files */
    uint64_t uploaded_bytes;
    uint64_t bad_rows, left_out;
    uint32_t retries;                       /* attempts that failed */
    enum publish_guard guard;
    int64_t read_us, write_us, publish_us;
};

/* Gives 0, or an error of base/err.h and in `error` a sentence of what happened: ERR_SNAPSHOT_OPTIONS, _INPUT, _ASSIGN, _WRITE, _LEASE, those of publish.h, ERR_OBJECT_CANCELLED, or
 * what the store or the temporary files gave. build_result_fini in any case. */
int build_run(const struct build_options *o, struct build_result *r, struct buf *error);
void build_result_fini(struct build_result *r);
