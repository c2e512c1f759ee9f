#include "shard/livefeed.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/entry.h"
#include "store/image.h"
#include "store/kit.h"

/* A copied entry: this, the key, the value. */
struct record {
    int64_t expiry_ms;
    uint32_t key_len, value_len;
    uint32_t type; /* enum type, TYPE_COUNT: unknown; other than strings only in a strict feed, without the value */
};

struct livefeed {
    struct input input; /* first: an input of ours is its feed */
    struct walk *walk;
    struct walk_sink sink;
    struct livefeed_options options;
    pthread_t thread;
    atomic_bool unwanted;
    _Atomic uint64_t rows, left_out, keys_total;
    atomic_bool walked; /* the walk is over */
    _Atomic int64_t cut_ms;

    pthread_mutex_t lock; /* the four below */
    pthread_cond_t changed;
    struct buf given;  /* by the walk, not yet fetched */
    bool ended;        /* the walk */
    int error;         /* if so: its result */

    struct buf chunk;  /* the reader's: records, the next one stands at `at` */
    size_t at;
};

/* ---- the walk's side */

static bool is_wanted(struct livefeed *f, uint16_t db, const struct entry *e)
{
    if (db != f->options.db) return false;
    if (entry_type(e) == TYPE_STRING || f->options.strict) return true;
    atomic_fetch_add_explicit(&f->left_out, 1, memory_order_relaxed);
    return false;
}

static void add_record(struct buf *raw, uint32_t type, int64_t expiry_ms, struct slice key, struct slice value)
{
    struct record r;
    memset(&r, 0, sizeof r);
    r.expiry_ms = expiry_ms;
    r.key_len = (uint32_t)key.n;
    r.value_len = (uint32_t)value.n;
    r.type = type;
    buf_add(raw, &r, sizeof r);
    buf_add_slice(raw, key);
    buf_add_slice(raw, value);
}

static bool copy(void *ctx, struct buf *raw, uint16_t db, const struct entry *e)
{
    if (!is_wanted(ctx, db, e)) return false;
    bool is_string = entry_type(e) == TYPE_STRING;
    add_record(raw, entry_type(e), entry_expiry_ms(e), entry_key(e), is_string ? entry_value(e) : SLICE(""));
    return true;
}

static bool wants_cold(void *ctx, uint16_t db, const struct entry *e) { return is_wanted(ctx, db, e); }

static int copy_cold(void *ctx, struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    const struct livefeed *f = ctx;
    struct slice value;
    if (image_plain_string(image, &value)) add_record(raw, TYPE_STRING, expiry_ms, key, value);
    else if (f->options.strict) add_record(raw, TYPE_COUNT, expiry_ms, key, SLICE("")); /* whatever it is, it is no string */
    else return -EIO;
    return 0;
}

static void begin(void *ctx, const struct walk_moment *m)
{
    struct livefeed *f = ctx;
    atomic_store(&f->keys_total, m->entries);
    atomic_store(&f->cut_ms, m->unix_ms);
}

/* Waits until the reader has fetched what came before: so nothing piles up here. */
static int take(void *ctx, uint32_t shard, struct slice raw, uint64_t entries)
{
    struct livefeed *f = ctx;
    pthread_mutex_lock(&f->lock);
    while (f->given.len && !atomic_load(&f->unwanted)) pthread_cond_wait(&f->changed, &f->lock);
    if (!atomic_load(&f->unwanted)) buf_add_slice(&f->given, raw);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return atomic_load(&f->unwanted) ? -ECANCELED : 0;
}

static bool goes_on(void *ctx)
{
    const struct livefeed *f = ctx;
    return !atomic_load(&f->unwanted) && !(f->options.cancel && atomic_load(f->options.cancel));
}

static void *run(void *arg)
{
    struct livefeed *f = arg;
    int error = walk_run(f->walk, &f->sink);
    atomic_store(&f->walked, error == 0);
    pthread_mutex_lock(&f->lock);
    f->ended = true;
    f->error = error;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the reader's side */

/* False: there is no more; *error tells how the walk ended. */
static bool fetch(struct livefeed *f, int *error)
{
    pthread_mutex_lock(&f->lock);
    while (!f->given.len && !f->ended) pthread_cond_wait(&f->changed, &f->lock);
    struct buf empty = f->chunk;
    empty.len = f->at = 0;
    f->chunk = f->given;
    f->given = empty;
    *error = f->ended ? f->error : 0;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return f->chunk.len > 0;
}

/* The next record; false as fetch. */
static bool next_record(struct livefeed *f, struct record *r, struct slice *key, struct slice *value, int *error)
{
    if (f->at == f->chunk.len && !fetch(f, error)) return false;
    CHECK(f->chunk.len - f->at >= sizeof *r);
    memcpy(r, f->chunk.p + f->at, sizeof *r);
    *key = slice_of(f->chunk.p + f->at + sizeof *r, r->key_len);
    *value = slice_of(key->p + key->n, r->value_len);
    f->at += sizeof *r + r->key_len + r->value_len;
    CHECK(f->at <= f->chunk.len);
    return true;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct livefeed *f = (struct livefeed *)in;
    struct record r;
    int error = 0;
    while (next_record(f, &r, &row->key, &row->value, &error)) {
        if (r.expiry_ms && r.expiry_ms <= atomic_load(&f->cut_ms)) continue;
        if (r.type != TYPE_STRING) {
            buf_printf(why, "the value of %.*s is no string, and a snapshot holds only strings", (int)(row->key.n < 100 ? row->key.n : 100), row->key.p);
            return INPUT_BAD;
        }
        row->key_form = INPUT_KEY_WORD;
        row->columns = &row->key; /* the one column that there can be is the key */
        atomic_fetch_add_explicit(&f->rows, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&in->done_bytes, sizeof r + r.key_len + r.value_len, memory_order_relaxed);
        return INPUT_ROW;
    }
    in->left_out = atomic_load(&f->left_out);
    if (!error) return INPUT_END;
    buf_add_str(why, error == -ECANCELED ? "cancelled" : err_text(error));
    return INPUT_FAILED;
}

/* ---- life */

static void free_feed(struct input *in)
{
    struct livefeed *f = (struct livefeed *)in;
    pthread_mutex_lock(&f->lock);
    atomic_store(&f->unwanted, true);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    buf_fini(&f->given);
    buf_fini(&f->chunk);
    mem_free(f);
}

struct input *livefeed_open(struct walk *w, const struct livefeed_options *o)
{
    struct livefeed *f = mem_zalloc(sizeof *f);
    f->input.next = next;
    f->input.free = free_feed;
    f->walk = w;
    f->options = *o;
    f->sink = (struct walk_sink){f, copy, wants_cold, copy_cold, begin, take, goes_on};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    int rc = pthread_create(&f->thread, NULL, run, f);
    CHECK(rc == 0);
    pthread_setname_np(f->thread, "livefeed");
    return &f->input;
}

struct livefeed_progress livefeed_progress(struct input *in)
{
    struct livefeed *f = (struct livefeed *)in;
    uint64_t total = atomic_load(&f->keys_total);
    return (struct livefeed_progress){.keys_done = atomic_load(&f->walked) ? total : walk_progress(f->walk, &f->sink).done, .keys_total = total, .rows = atomic_load(&f->rows),
                                      .left_out = atomic_load(&f->left_out), .cut_ms = atomic_load(&f->cut_ms)};
}
