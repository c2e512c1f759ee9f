/* A store of snapshots that counts and fails requests, and readers of it in every way, for tests of the reader. cmocka's header goes before it. */
#pragma once
#include "object/faultstore.h"
#include "snapmake.h"
#include "snapshot/reader.h"

enum way { IN_PLACE, DOWNLOAD, RANGE, WAYS };

struct fixture {
    struct snapmake made;
    struct object_store *counted; /* what readers read through */
    char cache[96];
    struct buf why;
};

static inline int set_up(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    char error[OBJECT_DETAIL_BYTES];
    struct object_store *inner;
    snapmake_init(&f->made);
    assert_int_equal(object_open(&inner, f->made.url, NULL, error), 0);
    f->counted = faultstore_wrap(inner);
    snprintf(f->cache, sizeof f->cache, "%s-cache", f->made.dir);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    object_close(f->counted);
    snapmake_fini(&f->made);
    nftw(f->cache, snapmake_remove, 16, FTW_DEPTH | FTW_PHYS);
    buf_fini(&f->why);
    mem_free(f);
    return 0;
}

static inline struct reader_options options_of(const struct fixture *f, enum way way)
{
    struct reader_options o;
    reader_defaults(&o);
    o.parallel = 4;
    if (way == DOWNLOAD) o.cache_dir = f->cache;
    o.mode = way == RANGE ? READSTATE_RANGE : way == DOWNLOAD ? READSTATE_DOWNLOAD : READSTATE_AUTO;
    return o;
}

static inline struct reader *open_reader(struct fixture *f, enum way way)
{
    struct reader_options o = options_of(f, way);
    struct reader *r = NULL;
    f->why.len = 0;
    int rc = reader_open(&r, f->counted, &o, &f->why);
    if (rc < 0) fail_msg("open: %s: %.*s", err_text(rc), (int)f->why.len, f->why.p);
    return r;
}

static inline void plan(struct fixture *f) { faultstore_plan(f->counted, (struct faultstore_plan){0}); }

/* Asks for key i and checks that the answer is the plan's. */
static inline void expect_row(struct fixture *f, struct reader *r, const struct snapmake_plan *p, uint32_t i)
{
    char text[16], *value = mem_alloc(p->value_bytes + 64);
    struct buf out = {0};
    struct snapkey key = snapmake_key(p, i, text);
    size_t n = snapmake_value(p, i, value);
    f->why.len = 0;
    int rc = reader_get(r, &key, NULL, &out, &f->why);
    if (rc < 0) fail_msg("get %u: %.*s", i, (int)f->why.len, f->why.p);
    assert_int_equal(rc, i < p->rows);
    if (rc == 1) {
        assert_int_equal(out.len, n);
        assert_memory_equal(out.p, value, n);
    }
    buf_fini(&out);
    mem_free(value);
}

/* Puts other bytes into the place of a shard file; the sidecar beside it is then of another file. Without bytes: takes it away. */
static inline void overwrite_shard(struct fixture *f, uint32_t id, struct slice bytes)
{
    struct pointer pointer = {0};
    struct manifest *m;
    assert_int_equal(history_current(f->made.store, NULL, &pointer, &m, &f->why), 0);
    struct buf key = {0};
    buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", object_key_of(f->made.store, manifest_find(m, id)->db_url), 0);
    if (bytes.p)
        assert_int_equal(object_put(f->made.store, NULL, key.p, bytes, NULL, NULL), 0);
    else
        assert_int_equal(object_delete(f->made.store, NULL, (const char *const[]){key.p}, 1, NULL), 0);
    buf_fini(&key);
    manifest_free(m);
    pointer_fini(&pointer);
}
