#include <inttypes.h>

#include "base/mem.h"
#include "cli/dumptool.h"
#include "cli/snapshot_build.h"
#include "server/datadir.h"
#include "snapshot/inputdump.h"
#include "store/image.h"
#include "store/store.h"

struct snapshot_dir {
    struct input input;
    const char *path;
    const struct input_options *o;
    struct dumplayout layout;
    uint32_t shard; /* the one whose keys come */
    bool walking;
    struct table_iter at;
    struct buf image;
    struct inputdump_value value;
    struct slice *columns;
};

static struct entry *next_entry(struct snapshot_dir *d)
{
    for (; d->shard < d->layout.shards; d->shard++, d->walking = false) {
        struct store *s = d->layout.stores[d->shard];
        if (d->o->db >= STORE_DBS || !s->dbs[d->o->db]) continue;
        if (!d->walking) table_iter_init(&d->at, &s->dbs[d->o->db]->keys);
        d->walking = true;
        struct entry *e = table_iter_next(&d->at);
        if (e) return e;
    }
    return NULL;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct snapshot_dir *d = (struct snapshot_dir *)in;
    for (struct entry *e; (e = next_entry(d));) {
        size_t before = why->len;
        d->image.len = 0;
        image_write(&d->image, e);
        buf_printf(why, "%s: ", d->path);
        switch (inputdump_judge(d->o, entry_key(e), d->o->db, entry_expiry_ms(e), buf_slice(&d->image), &d->value, why)) {
        case INPUTDUMP_REFUSED: return INPUT_BAD;
        case INPUTDUMP_INVALID: buf_add_str(why, "a value that is not valid"); return INPUT_BAD;
        case INPUTDUMP_LEFT_OUT:
            why->len = before;
            in->left_out++;
            continue;
        case INPUTDUMP_ROW: break;
        }
        why->len = before;
        for (size_t i = 0; i < d->o->fields.n_columns; i++) d->columns[i] = entry_key(e);
        *row = (struct input_row){.key = entry_key(e), .value = d->value.bytes, .columns = d->columns};
        return INPUT_ROW;
    }
    return INPUT_END;
}

static void where(const struct input *in, struct buf *out) { buf_printf(out, "%s: ", ((const struct snapshot_dir *)in)->path); }

static void release(struct input *in)
{
    struct snapshot_dir *d = (struct snapshot_dir *)in;
    dumplayout_free(&d->layout);
    buf_fini(&d->image);
    inputdump_value_fini(&d->value);
    mem_free(d->columns);
    mem_free(d);
}

static bool load(struct snapshot_dir *d, struct buf *error)
{
    struct datadir dir;
    bool in_use = false;
    if (datadir_peek(&dir, d->path, &in_use, error) < 0) return false;
    if (in_use) {
        buf_printf(error, "%s is in use by a server: --from HOST:PORT reads from it", d->path);
        datadir_close(&dir);
        return false;
    }
    char *layout = datadir_layout_path(&dir, dir.layout);
    bool loaded = dumplayout_load(&d->layout, layout, dir.shards, dir.seed, d->o->now_ms);
    if (!loaded) buf_printf(error, "%s could not be loaded", d->path);
    else if (!d->layout.complete) buf_printf(error, "%s is damaged: start a server on it, which keeps what is good, and publish that", d->path);
    loaded = loaded && d->layout.complete;
    mem_free(layout);
    datadir_close(&dir);
    return loaded;
}

struct input *snapshot_dir_open(const char *path, const struct input_options *o, struct buf *error)
{
    if (!inputdump_check_fields(&o->fields, path, error)) return NULL;
    struct snapshot_dir *d = mem_zalloc(sizeof *d);
    d->input = (struct input){.next = next, .free = release, .where = where};
    d->path = path;
    d->o = o;
    d->columns = mem_zalloc((o->fields.n_columns + 1) * sizeof *d->columns);
    if (load(d, error)) return &d->input;
    release(&d->input);
    return NULL;
}
