/* Into a data directory: a dump set of a layout that has nothing else, under the directory's lock. A server that starts on it finds a dump and an empty log. If anything
 * fails before the set is finished, the directory is as empty as it was. */
#include <errno.h>
#include <string.h>

#include "base/compress.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "cli/import.h"
#include "dump/dumpfile.h"
#include "dump/dumpset.h"
#include "io/file.h"
#include "log/logdir.h"
#include "route/place.h"
#include "server/datadir.h"

enum {
    WRITE_BYTES = 1 << 20, /* of a shard's entries collected before they are compressed and written */
    FIRST_EPOCH = 1,       /* the log goes on with the next one */
};

struct lane { /* a shard's */
    struct buf raw;
    uint64_t entries;
};

struct importdir {
    struct import_sink sink;
    struct datadir dir;
    char *layout;
    struct route route;
    struct dumpset *set;
    struct lane *lanes;
};

static int fail(struct importdir *d, const char *what, int rc, struct buf *error)
{
    buf_printf(error, "%s: %s%s%s", d->dir.path, what, rc ? ": " : "", rc ? strerror(-rc) : "");
    return -1;
}

static bool has_data(struct importdir *d)
{
    struct logdir_numbers dumps = {0}, segments = {0};
    bool found = false;
    for (uint32_t i = 0; i < d->dir.shards && !found; i++) {
        found = logdir_list_dumps(&file_disk, d->layout, i, &dumps) || logdir_list(&file_disk, d->layout, i, &segments) || dumps.n || segments.n;
        mem_free(dumps.v);
        mem_free(segments.v);
    }
    return found;
}

static int make_folders(struct importdir *d, struct buf *error)
{
    char path[LOGDIR_PATH_MAX];
    if (datadir_make_layout(&d->dir, d->dir.layout, error) < 0) return -1;
    for (uint32_t i = 0; i < d->dir.shards; i++) {
        int rc = logdir_shard(path, d->layout, i);
        if (rc == 0) rc = file_disk.mkdir(file_disk.ctx, path);
        if (rc && rc != -EEXIST) return fail(d, "the shards' folders cannot be made", rc, error);
    }
    int rc = file_disk.sync_dir(file_disk.ctx, d->layout);
    return rc ? fail(d, "the layout's folder cannot be synced", rc, error) : 0;
}

static int prepare(struct importdir *d, const struct import_options *o, int64_t now_ms, struct buf *error)
{
    d->layout = datadir_layout_path(&d->dir, d->dir.layout);
    if (has_data(d)) return fail(d, "there is data in it already: start a server on it and import with --to", 0, error);
    if (d->dir.shards != o->workers && datadir_set_layout(&d->dir, d->dir.layout, o->workers, error) < 0) return -1;
    if (make_folders(d, error) < 0) return -1;
    d->route = (struct route){.seed = d->dir.seed, .shards = d->dir.shards};
    d->lanes = mem_zalloc(d->dir.shards * sizeof *d->lanes);
    int rc = dumpset_new(&d->set, &file_disk, d->layout, d->dir.shards);
    if (rc < 0) return fail(d, "the dump cannot be created", rc, error);
    struct dumpset_header h = {.epoch = FIRST_EPOCH, .seed = d->dir.seed, .cut_ms = now_ms};
    dumpset_begin(d->set, &h, COMPRESS_BALANCED, COMPRESS_MIN_SIZE);
    return 0;
}

static int write_lane(struct importdir *d, uint32_t shard, struct buf *error)
{
    struct lane *lane = &d->lanes[shard];
    int rc = lane->entries ? dumpset_write(d->set, shard, buf_slice(&lane->raw), lane->entries) : 0;
    lane->raw.len = lane->entries = 0;
    return rc < 0 ? fail(d, "the dump cannot be written", rc, error) : 0;
}

static int put(struct import_sink *s, uint16_t db, const struct rdbfile_item *key, struct buf *error)
{
    struct importdir *d = (struct importdir *)s;
    uint32_t shard = route_key(&d->route, key->key, keyhash(key->key, d->route.seed));
    struct lane *lane = &d->lanes[shard];
    dumpfile_add_image(&lane->raw, db, key->key, key->expiry_ms, key->image);
    lane->entries++;
    s->put_keys++;
    return lane->raw.len < WRITE_BYTES ? 0 : write_lane(d, shard, error);
}

static int finish(struct import_sink *s, struct buf *error)
{
    struct importdir *d = (struct importdir *)s;
    for (uint32_t i = 0; i < d->dir.shards; i++)
        if (write_lane(d, i, error) < 0) return -1;
    int rc = dumpset_finish(d->set);
    return rc < 0 ? fail(d, "the dump cannot be finished", rc, error) : 0;
}

static void release(struct import_sink *s)
{
    struct importdir *d = (struct importdir *)s;
    if (d->set) dumpset_free(d->set);
    for (uint32_t i = 0; d->lanes && i < d->dir.shards; i++) buf_fini(&d->lanes[i].raw);
    mem_free(d->lanes);
    mem_free(d->layout);
    datadir_close(&d->dir);
    mem_free(d);
}

struct import_sink *importdir_open(const struct import_options *o, int64_t now_ms, struct buf *error)
{
    struct importdir *d = mem_zalloc(sizeof *d);
    d->sink = (struct import_sink){.put = put, .finish = finish, .free = release};
    if (datadir_open(&d->dir, o->data, o->workers, error) < 0) {
        mem_free(d);
        return NULL;
    }
    if (prepare(d, o, now_ms, error) == 0) return &d->sink;
    release(&d->sink);
    return NULL;
}
