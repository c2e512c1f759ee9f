#include "snapshot/shardbuild.h"

#include <errno.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "snapshot/pages.h"
#include "snapshot/pagesize.h"
#include "snapshot/shardwrite.h"
#include "snapshot/sidecar.h"
#include "snapshot/sorter.h"
#include "snapshot/tempfile.h"

enum { LOOK_UP_EVERY = 4096 }; /* rows */

static bool is_set(const atomic_bool *b) { return b && atomic_load_explicit(b, memory_order_relaxed); }

static void note_key(struct buf *b, struct slice key)
{
    b->len = 0;
    buf_add_slice(b, key);
}

struct writing {
    struct shardbuild *f;
    const struct shardbuild_options *o;
    struct shardwrite *w;
    struct pagesize *sizes;
    uint64_t told; /* bytes added to done_bytes */
};

static void tell_done(struct writing *g, uint64_t bytes)
{
    g->told += bytes;
    if (g->o->done_bytes) atomic_fetch_add_explicit(g->o->done_bytes, bytes, memory_order_relaxed);
}

static int write_rows(struct writing *g, struct sorter_cursor *c)
{
    struct slice key, value;
    uint64_t n = 0, bytes = 0;
    int rc, added = 0;
    while ((rc = sorter_next(c, &key, &value)) == 1) {
        if (n == 0) note_key(&g->f->min_key, key);
        if ((added = shardwrite_add(g->w, key, value))) return added;
        pagesize_add(g->sizes, key.n, value.n);
        bytes += key.n + value.n;
        if (++n % LOOK_UP_EVERY) continue;
        tell_done(g, bytes);
        bytes = 0;
        if (is_set(g->o->cancel) || is_set(g->o->stop)) return ERR_OBJECT_CANCELLED;
    }
    tell_done(g, bytes);
    return rc;
}

static int write_once(struct writing *g, uint32_t page_size)
{
    struct shardwrite_result r;
    struct sorter_cursor *c = sorter_open(g->o->sorter, g->o->bucket);
    memset(g->sizes, 0, sizeof *g->sizes);
    g->w = shardwrite_new(g->f->fd, page_size);
    int rc = write_rows(g, c);
    if (rc == 0) rc = shardwrite_end(g->w, &r);
    if (rc == 0) {
        g->f->rows = r.rows;
        g->f->bytes = r.bytes;
        g->f->page_size = page_size;
        note_key(&g->f->max_key, shardwrite_last_key(g->w));
    }
    shardwrite_free(g->w);
    sorter_close(c);
    return rc;
}

/* The rule asks for the sizes of the rows that stay, and which those are shows when they are written: so a guess is tried, and a wrong one costs a second pass. */
static int write_pages(struct writing *g)
{
    uint32_t size = g->o->page_size ? g->o->page_size : g->o->page_guess;
    int rc = write_once(g, size);
    if (rc || g->o->page_size) return rc;
    uint32_t right = pagesize_pick(g->sizes);
    if (right == size) return 0;
    if (g->o->done_bytes) atomic_fetch_sub(g->o->done_bytes, g->told);
    g->told = 0;
    if (ftruncate(g->f->fd, 0) != 0) return -errno;
    return write_once(g, right);
}

static void hash(struct shardbuild *f, struct slice bytes)
{
    unsigned n;
    CHECK(EVP_Digest(bytes.p, bytes.n, f->sha256, &n, EVP_sha256(), NULL) == 1 && n == sizeof f->sha256);
}

static void make_sidecar(struct shardbuild *f, struct slice bytes)
{
    struct page_source source;
    if (pages_of_bytes(&source, bytes, NULL) != 0 || sidecar_build(&source, &f->sidecar) != 0) f->sidecar.len = 0;
}

static int look_over(struct shardbuild *f, bool sidecar)
{
    void *map = mmap(NULL, f->bytes, PROT_READ, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED) return -errno;
    hash(f, slice_of(map, f->bytes));
    if (sidecar) make_sidecar(f, slice_of(map, f->bytes));
    munmap(map, f->bytes);
    return 0;
}

int shardbuild_write(struct shardbuild *f, const struct shardbuild_options *o)
{
    struct writing g = {.f = f, .o = o};
    *f = (struct shardbuild){.fd = tempfile_open(o->tmp_dir)};
    if (f->fd < 0) return f->fd;
    g.sizes = mem_alloc(sizeof *g.sizes);
    int rc = write_pages(&g);
    mem_free(g.sizes);
    return rc ? rc : look_over(f, o->sidecar);
}

void shardbuild_fini(struct shardbuild *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    buf_fini(&f->min_key);
    buf_fini(&f->max_key);
    buf_fini(&f->sidecar);
}

bool shardbuild_key_json(enum snapkey_encoding e, struct slice stored, struct buf *out)
{
    struct snapkey k;
    if (!snapkey_decode(e, stored, &k) || !snapkey_json(&k, out)) return false;
    buf_add_byte(out, '\0');
    return true;
}
