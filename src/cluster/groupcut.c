#include "cluster/groupcut.h"

#include "dump/dumpfile.h"
#include "shard/walk.h"

struct groupcut {
    const struct groupcut_source *source;
    const struct file_ops *files;
    const char *dir;
    enum compress_profile profile;
    struct groupsnap_writer *writer;
    struct groupsnap_header header;
    int error; /* of begin, which cannot give one */
};

/* ---- under the token */

static void at_cut(void *ctx)
{
    const struct groupcut *c = ctx;
    c->source->at_cut(c->source->ctx);
}

static bool copy(void *ctx, struct buf *raw, uint16_t db, const struct entry *e)
{
    dumpfile_add_entry(raw, db, e);
    return true;
}

static bool wants_cold(void *ctx, uint16_t db, const struct entry *e) { return true; }

/* ---- on the thread */

static int copy_cold(void *ctx, struct buf *raw, uint16_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    dumpfile_add_image(raw, db, key, expiry_ms, image);
    return 0;
}

static void begin(void *ctx, const struct walk_moment *m)
{
    struct groupcut *c = ctx;
    c->error = c->source->header(c->source->ctx, &c->header);
    c->header.cut_ms = m->unix_ms;
    if (!c->error) c->error = groupsnap_create(&c->writer, c->files, c->dir, &c->header, c->profile);
}

static int take(void *ctx, uint32_t shard, struct slice raw, uint64_t entries)
{
    struct groupcut *c = ctx;
    return c->error ? c->error : groupsnap_write(c->writer, raw, entries);
}

static bool goes_on(void *ctx)
{
    const struct groupcut *c = ctx;
    return !c->error && c->source->goes_on(c->source->ctx);
}

int groupcut_run(struct walk *w, uint32_t shard, const struct groupcut_source *source, const struct file_ops *files, const char *dir, enum compress_profile profile,
                 struct groupcut_result *out)
{
    struct groupcut c = {.source = source, .files = files, .dir = dir, .profile = profile};
    const struct walk_sink sink = {.ctx = &c, .copy = copy, .wants_cold = wants_cold, .copy_cold = copy_cold, .begin = begin, .take = take, .goes_on = goes_on};
    int rc = walk_run_some(w, &sink, &shard, 1, at_cut);
    if (c.error) rc = c.error;
    if (rc == 0) rc = groupsnap_finish(c.writer, &out->totals);
    groupsnap_writer_free(c.writer);
    out->file = (struct groupdir_file){.kind = GROUPDIR_SNAPSHOT, .group = c.header.group, .index = c.header.index, .term = c.header.term};
    out->cut_ms = c.header.cut_ms;
    return rc;
}
