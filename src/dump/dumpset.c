#include "dump/dumpset.h"

#include <errno.h>

#include "base/check.h"
#include "base/mem.h"
#include "dump/dumpfile.h"
#include "io/file.h"
#include "log/logdir.h"

enum { WRITE_BYTES = 1 << 20 }; /* collected before they are written */

struct lane { /* one shard's file */
    int fd;
    uint64_t at; /* bytes written */
    struct buf out;
    struct dumpfile_writer writer;
};

struct dumpset {
    const struct file_ops *files;
    char *dir;
    uint32_t shards;
    uint64_t epoch;
    bool begun, finished;
    struct lane *lanes;
};

/* --- beginning --- */

int dumpset_new(struct dumpset **out, const struct file_ops *files, const char *dir, uint32_t shards)
{
    struct dumpset *d = mem_zalloc(sizeof *d);
    *d = (struct dumpset){.files = files, .dir = mem_strdup(dir), .shards = shards, .lanes = mem_zalloc(shards * sizeof *d->lanes)};
    *out = d;
    for (uint32_t i = 0; i < shards; i++) d->lanes[i].fd = -1;
    for (uint32_t i = 0; i < shards; i++) {
        char path[LOGDIR_PATH_MAX];
        int rc = logdir_unfinished_dump(path, dir, i);
        d->lanes[i].fd = rc ? rc : files->open(files->ctx, path, FILE_CREATE);
        if (d->lanes[i].fd < 0) return d->lanes[i].fd;
    }
    return 0;
}

void dumpset_begin(struct dumpset *d, const struct dumpset_header *h, enum compress_profile profile, size_t min_size)
{
    CHECK(!d->begun);
    d->begun = true;
    d->epoch = h->epoch;
    for (uint32_t i = 0; i < d->shards; i++) {
        struct dumpfile_header header = {.shard = i, .shards = d->shards, .epoch = h->epoch, .seed = h->seed, .cut_ms = h->cut_ms};
        dumpfile_begin(&d->lanes[i].writer, &d->lanes[i].out, &header, profile, min_size);
    }
}

/* --- writing --- */

static int write_out(struct dumpset *d, struct lane *l, size_t at_least)
{
    if (l->out.len < at_least) return 0;
    int rc = file_write_all(d->files, l->fd, buf_slice(&l->out), l->at);
    if (rc) return rc;
    l->at += l->out.len;
    l->out.len = 0;
    return 0;
}

int dumpset_write(struct dumpset *d, uint32_t shard, struct slice raw, uint64_t entries)
{
    struct lane *l = &d->lanes[shard];
    dumpfile_seal(&l->writer, &l->out, raw, entries);
    return write_out(d, l, WRITE_BYTES);
}

/* --- finishing --- */

static int sync_all(struct dumpset *d)
{
    int *fds = mem_alloc(d->shards * sizeof *fds);
    for (uint32_t i = 0; i < d->shards; i++) fds[i] = d->lanes[i].fd;
    int rc = d->files->sync(d->files->ctx, fds, d->shards);
    mem_free(fds);
    return rc;
}

static int give_name(struct dumpset *d, uint32_t shard)
{
    char from[LOGDIR_PATH_MAX], to[LOGDIR_PATH_MAX], folder[LOGDIR_PATH_MAX];
    int rc = logdir_unfinished_dump(from, d->dir, shard);
    if (rc == 0) rc = logdir_dump(to, d->dir, shard, d->epoch);
    if (rc == 0) rc = logdir_shard(folder, d->dir, shard);
    if (rc == 0) rc = d->files->rename(d->files->ctx, from, to);
    return rc ? rc : d->files->sync_dir(d->files->ctx, folder);
}

int dumpset_finish(struct dumpset *d)
{
    CHECK(d->begun);
    int rc = 0;
    for (uint32_t i = 0; i < d->shards && rc == 0; i++) {
        dumpfile_end(&d->lanes[i].writer, &d->lanes[i].out);
        rc = write_out(d, &d->lanes[i], 1);
    }
    if (rc == 0) rc = sync_all(d);
    for (uint32_t i = 0; i < d->shards && rc == 0; i++) rc = give_name(d, i);
    d->finished = rc == 0;
    return rc;
}

static void remove_unfinished(struct dumpset *d, uint32_t shard)
{
    char path[LOGDIR_PATH_MAX];
    if (logdir_unfinished_dump(path, d->dir, shard) == 0) d->files->unlink(d->files->ctx, path);
}

void dumpset_free(struct dumpset *d)
{
    for (uint32_t i = 0; i < d->shards; i++) {
        struct lane *l = &d->lanes[i];
        if (l->fd >= 0) d->files->close(d->files->ctx, l->fd);
        if (l->fd >= 0 && !d->finished) remove_unfinished(d, i);
        if (d->begun) dumpfile_fini(&l->writer);
        buf_fini(&l->out);
    }
    mem_free(d->lanes);
    mem_free(d->dir);
    mem_free(d);
}

/* --- numbers --- */

struct dumpset_totals dumpset_totals(const struct dumpset *d)
{
    struct dumpset_totals t = {0};
    for (uint32_t i = 0; i < d->shards && d->begun; i++) {
        const struct lane *l = &d->lanes[i];
        t.entries += l->writer.entries;
        t.raw_bytes += l->writer.raw_bytes;
        t.stored_bytes += l->writer.stored_bytes;
        t.file_bytes += l->at;
    }
    return t;
}

uint64_t dumpset_file_bytes(const struct dumpset *d, uint32_t shard) { return d->lanes[shard].at; }

/* --- what is there --- */

static int drop_shard(const struct file_ops *files, const char *dir, uint32_t shard, uint64_t epoch)
{
    char path[LOGDIR_PATH_MAX];
    struct logdir_numbers dumps;
    int rc = logdir_list_dumps(files, dir, shard, &dumps);
    for (uint32_t i = 0; i < dumps.n && rc == 0 && dumps.v[i] < epoch; i++) {
        rc = logdir_dump(path, dir, shard, dumps.v[i]);
        if (rc == 0) rc = files->unlink(files->ctx, path);
        if (rc == -ENOENT) rc = 0;
    }
    mem_free(dumps.v);
    return rc;
}

int dumpset_drop_before(const struct file_ops *files, const char *dir, uint32_t shards, uint64_t epoch)
{
    int rc = 0;
    for (uint32_t i = 0; i < shards && rc == 0; i++) rc = drop_shard(files, dir, i, epoch);
    return rc;
}

static bool contains(const struct logdir_numbers *n, uint64_t v)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (n->v[i] == v) return true;
    return false;
}

/* Leaves those of `in_all` that the shard has, too. */
static int intersect(const struct file_ops *files, const char *dir, uint32_t shard, struct logdir_numbers *in_all)
{
    struct logdir_numbers here;
    int rc = logdir_list_dumps(files, dir, shard, &here);
    uint32_t n = 0;
    for (uint32_t i = 0; i < in_all->n && rc == 0; i++)
        if (contains(&here, in_all->v[i])) in_all->v[n++] = in_all->v[i];
    in_all->n = n;
    mem_free(here.v);
    return rc;
}

int dumpset_list(const struct file_ops *files, const char *dir, uint32_t shards, uint64_t *epochs, uint32_t cap)
{
    struct logdir_numbers in_all;
    int rc = logdir_list_dumps(files, dir, 0, &in_all);
    for (uint32_t i = 1; i < shards && rc == 0; i++) rc = intersect(files, dir, i, &in_all);
    uint32_t n = in_all.n < cap ? in_all.n : cap;
    for (uint32_t i = 0; i < n && rc == 0; i++) epochs[i] = in_all.v[in_all.n - 1 - i];
    mem_free(in_all.v);
    return rc ? rc : (int)n;
}
