#include "snapshot/buildrows.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "cel/utf8.h"
#include "snapshot/input.h"
#include "snapshot/inputspool.h"
#include "snapshot/tempfile.h"
#include "snapshot/tokens.h"

enum { LOOK_UP_EVERY = 1024 }; /* rows between two looks at cancel */

/* How the shard of a row is found. */
enum placing {
    PLACE_BY_ROUTER, /* hash, or cel with routing values: the router knows it */
    PLACE_DIRECT,    /* the expression's result is the shard; how many there are shows at the end */
    PLACE_INFERRED,  /* results are numbered as they come, and renumbered at the end */
};

struct reading {
    struct buildrows *b;
    const struct build_options *o;
    enum placing placing;
    struct router *router;
    struct router_scratch scratch;
    struct inputspool *spool; /* while rows are counted */
    struct buf *error;
    struct buf why;
};

static int cancelled(const struct build_options *o, struct buf *error)
{
    if (!o->cancel || !atomic_load_explicit(o->cancel, memory_order_relaxed)) return 0;
    buf_add_str(error, "interrupted");
    return ERR_OBJECT_CANCELLED;
}

static int temp_failed(const struct build_options *o, int rc, struct buf *error)
{
    buf_printf(error, "temporary file in %s: %s", tempfile_dir(o->tmp_dir), err_text(rc));
    return rc;
}

/* ---- one row */

/* The key and its stored bytes, which may lie in scratch. NULL, or what is wrong with it. */
static const char *read_key(const struct build_options *o, const struct input_row *row, struct snapkey *key, char scratch[8], struct slice *stored)
{
    bool wants_text = o->key_encoding == SNAPKEY_UTF8 || o->key_encoding == SNAPKEY_RAW;
    if (row->key_form == INPUT_KEY_NUMBER && wants_text) return "the key is an integer, and the encoding is for text or bytes";
    const char *fault = snapkey_parse(o->key_encoding, row->key, key);
    return fault ? fault : snapkey_encode(o->key_encoding, key, scratch, stored);
}

static bool set_columns(struct reading *g, const struct input_row *row)
{
    uint32_t n = router_needs_context(g->router) ? router_columns(g->router) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (!router_set_column(g->router, &g->scratch, i, row->columns[i])) return false;
    return true;
}

static void tell_token(struct reading *g, const struct router_token *t, const char *what)
{
    struct buf *why = &g->scratch.why;
    why->len = 0;
    if (t->is_text) buf_printf(why, "the routing expression gives '%.*s', %s", (int)(t->text.n < 100 ? t->text.n : 100), t->text.p, what);
    else buf_printf(why, "the routing expression gives %" PRId64 ", %s", t->i, what);
}

static bool place_direct(struct reading *g, const struct router_token *t, uint32_t *bucket)
{
    int64_t id = t->i;
    bool good = (!t->is_text || num_parse_i64(t->text, &id)) && id >= 0 && id < BUILD_SHARDS_MAX;
    *bucket = good ? (uint32_t)id : 0;
    if (!good) tell_token(g, t, "which is no shard: 0 to 65535 are");
    return good;
}

static bool place_inferred(struct reading *g, const struct router_token *t, uint32_t *bucket)
{
    bool is_text = !t->is_text || utf8_valid(t->text);
    *bucket = is_text ? tokens_put(g->b->tokens, t) : 0;
    if (!is_text) tell_token(g, t, "which is not UTF-8");
    else if (*bucket >= BUILD_SHARDS_MAX) tell_token(g, t, "the 65537th routing value, and there can be 65536 shards");
    return is_text && *bucket < BUILD_SHARDS_MAX;
}

/* False: scratch.why says why there is no place. */
static bool place(struct reading *g, const struct snapkey *key, uint32_t *bucket)
{
    struct router_token t;
    if (g->placing == PLACE_BY_ROUTER) {
        enum router_result r = router_shard(g->router, &g->scratch, key, bucket);
        if (r != ROUTER_UNKNOWN) return r == ROUTER_FOUND;
        if (router_token(g->router, &g->scratch, key, &t) == ROUTER_FOUND) tell_token(g, &t, "which is none of the routing values");
        return false;
    }
    enum router_result r = router_token(g->router, &g->scratch, key, &t);
    if (r == ROUTER_UNKNOWN) {
        g->scratch.why.len = 0;
        buf_add_str(&g->scratch.why, "the routing expression gives a number above 2^63 - 1");
    }
    if (r != ROUTER_FOUND) return false;
    return g->placing == PLACE_DIRECT ? place_direct(g, &t, bucket) : place_inferred(g, &t, bucket);
}

/* NULL, or why the row is bad; *rc is of the sorter. */
static const char *take_row(struct reading *g, const struct input_row *row, int *rc)
{
    struct snapkey key;
    char scratch[8];
    struct slice stored;
    uint32_t bucket;
    const char *fault = read_key(g->o, row, &key, scratch, &stored);
    if (fault) return fault;
    if ((uint64_t)stored.n + row->value.n > SORTER_ROW_MAX - 64) return "key and value together have more than two gigabytes";
    if (!set_columns(g, row) || !place(g, &key, &bucket)) {
        buf_add_byte(&g->scratch.why, '\0');
        return g->scratch.why.p;
    }
    pagesize_add(g->b->sizes, stored.n, row->value.n);
    g->b->rows++;
    *rc = sorter_add(g->b->sorter, bucket, stored, row->value);
    return NULL;
}

/* ---- all rows */

static int bad_row(struct reading *g, struct slice why)
{
    g->b->bad_rows++;
    if (g->o->on_bad_row) g->o->on_bad_row(g->o->on_bad_row_arg, why);
    if (g->o->skip_bad_rows) return 0;
    buf_add_slice(g->error, why);
    return ERR_SNAPSHOT_INPUT;
}

/* Where the row stands, what its key is, and what is wrong with it. */
static int bad_key(struct reading *g, const struct input *in, const struct input_row *row, const char *fault)
{
    g->why.len = 0;
    input_where(in, &g->why);
    buf_add_str(&g->why, "key '");
    input_print(&g->why, row->key);
    buf_printf(&g->why, "': %s", fault);
    return bad_row(g, buf_slice(&g->why));
}

static void show(const struct reading *g, const struct input *in)
{
    struct build_progress *p = g->o->progress;
    if (!p) return;
    atomic_store_explicit(&p->rows, g->b->rows, memory_order_relaxed);
    atomic_store_explicit(&p->done_bytes, atomic_load_explicit(&in->done_bytes, memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&p->total_bytes, atomic_load_explicit(&in->total_bytes, memory_order_relaxed), memory_order_relaxed);
}

static int input_failed(struct reading *g)
{
    int rc = cancelled(g->o, g->error);
    if (rc) return rc;
    buf_add_slice(g->error, buf_slice(&g->why));
    return ERR_SNAPSHOT_INPUT;
}

typedef int row_taker(struct reading *g, struct input *in, const struct input_row *row);

static int each_row(struct reading *g, struct input *in, row_taker *take)
{
    struct input_row row;
    int rc = 0;
    for (uint64_t n = 0; rc == 0; n++) {
        if (n % LOOK_UP_EVERY == 0) {
            show(g, in);
            if ((rc = cancelled(g->o, g->error))) break;
        }
        g->why.len = 0;
        switch (input_next(in, &row, &g->why)) {
        case INPUT_ROW: rc = take(g, in, &row); break;
        case INPUT_BAD: rc = bad_row(g, buf_slice(&g->why)); break;
        case INPUT_END: return 0;
        case INPUT_FAILED: return input_failed(g);
        }
    }
    return rc;
}

static int sort_row(struct reading *g, struct input *in, const struct input_row *row)
{
    int rc = 0;
    const char *fault = take_row(g, row, &rc);
    if (fault) return bad_key(g, in, row, fault);
    return rc ? temp_failed(g->o, rc, g->error) : 0;
}

/* ---- how many shards */

/* Keys are checked on the way in, while it is known where they stand. */
static int spool_row(struct reading *g, struct input *in, const struct input_row *row)
{
    struct snapkey key;
    char scratch[8];
    struct slice stored;
    const char *fault = read_key(g->o, row, &key, scratch, &stored);
    if (fault) return bad_key(g, in, row, fault);
    int rc = inputspool_add(g->spool, row);
    return rc ? temp_failed(g->o, rc, g->error) : 0;
}

static int shards_for(struct reading *g, uint64_t rows)
{
    uint64_t most = g->o->max_keys_per_shard, shards = rows / most + (rows % most != 0);
    g->b->num_dbs = shards > 1 ? (uint32_t)shards : 1;
    if (shards <= BUILD_SHARDS_MAX) return 0;
    buf_printf(g->error, "%" PRIu64 " rows with at most %" PRIu64 " in a shard would be more than %d shards", rows, most, BUILD_SHARDS_MAX);
    return ERR_SNAPSHOT_OPTIONS;
}

/* Shards by number of rows: these have to be counted first, and kept meanwhile. Gives the input that has them then. */
static int count_rows(struct reading *g, struct input **in)
{
    int rc = inputspool_new(&g->spool, g->o->tmp_dir, 0);
    if (rc) temp_failed(g->o, rc, g->error);
    else rc = each_row(g, g->o->input, spool_row);
    if (rc == 0) rc = shards_for(g, inputspool_rows(g->spool));
    if (rc == 0 && (rc = inputspool_read(g->spool, in))) temp_failed(g->o, rc, g->error);
    if (rc) inputspool_free(g->spool);
    return rc;
}

/* ---- the routing */

static int make_router(struct reading *g)
{
    const struct router_cel *c = g->o->cel;
    struct buildrows *b = g->b;
    if (!c) {
        g->router = router_new_hash(b->num_dbs);
        return 0;
    }
    b->cel = *c;
    g->placing = c->tokens != ROUTER_TOKENS_NONE ? PLACE_BY_ROUTER : g->o->infer ? PLACE_INFERRED : PLACE_DIRECT;
    b->num_dbs = c->tokens != ROUTER_TOKENS_NONE && c->n_tokens ? c->n_tokens : 1;
    if (g->placing == PLACE_INFERRED) b->tokens = tokens_new();
    g->router = router_new_cel(c, b->num_dbs, g->error);
    return g->router ? 0 : ERR_SNAPSHOT_OPTIONS;
}

/* The shards are the results, which must be all the numbers from 0 on. */
static int settle_direct(struct reading *g)
{
    struct buildrows *b = g->b;
    b->num_dbs = sorter_buckets(b->sorter) ? sorter_buckets(b->sorter) : 1;
    for (uint32_t i = 0; i < sorter_buckets(b->sorter); i++) {
        if (sorter_added(b->sorter, i)) continue;
        buf_printf(g->error, "the routing expression gave shards up to %u, but never %u: they must be consecutive", b->num_dbs - 1, i);
        return ERR_SNAPSHOT_ASSIGN;
    }
    return 0;
}

static int settle_inferred(struct reading *g)
{
    struct buildrows *b = g->b;
    b->num_dbs = tokens_count(b->tokens) ? tokens_count(b->tokens) : 1;
    b->buckets = mem_zalloc(b->num_dbs * sizeof *b->buckets);
    if (tokens_sort(b->tokens, b->buckets, &b->cel)) return 0;
    buf_add_str(g->error, "the routing expression gave integers for some rows and text for others");
    return ERR_SNAPSHOT_ASSIGN;
}

static int settle(struct reading *g)
{
    int rc = sorter_finish(g->b->sorter);
    if (rc) return temp_failed(g->o, rc, g->error);
    if (g->placing == PLACE_DIRECT) rc = settle_direct(g);
    if (g->placing == PLACE_INFERRED) rc = settle_inferred(g);
    if (rc || !g->o->cel || !g->o->shards || g->o->shards == g->b->num_dbs) return rc;
    buf_printf(g->error, "the routing expression makes %u shards, not %u", g->b->num_dbs, g->o->shards);
    return ERR_SNAPSHOT_ASSIGN;
}

static int read_all(struct reading *g)
{
    struct input *in = g->o->input, *spooled = NULL;
    int rc = 0;
    g->b->num_dbs = g->o->shards;
    if (g->o->max_keys_per_shard) rc = count_rows(g, &spooled);
    if (rc == 0) rc = make_router(g);
    if (rc == 0) {
        router_scratch_init(&g->scratch, g->router);
        rc = each_row(g, spooled ? spooled : in, sort_row);
        if (rc == 0) rc = settle(g);
        router_scratch_fini(&g->scratch);
    }
    router_free(g->router);
    input_free(spooled);
    return rc;
}

int buildrows_read(struct buildrows *b, const struct build_options *o, struct buf *error)
{
    struct sorter_options so = {.dir = o->tmp_dir, .memory_bytes = o->memory_bytes, .threads = o->jobs};
    struct reading g = {.b = b, .o = o, .error = error};
    *b = (struct buildrows){.sorter = sorter_new(&so), .sizes = mem_zalloc(sizeof *b->sizes)};
    int rc = read_all(&g);
    show(&g, o->input);
    buf_fini(&g.why);
    return rc;
}

void buildrows_fini(struct buildrows *b)
{
    sorter_free(b->sorter);
    tokens_free(b->tokens);
    mem_free(b->buckets);
    mem_free(b->sizes);
    *b = (struct buildrows){0};
}
