#include <inttypes.h>

#include "cli/dumptool.h"
#include "cli/progress.h"
#include "dump/dumpfile.h"
#include "dump/rdbfile.h"
#include "log/segment.h"
#include "store/image.h"
#include "store/store.h"

struct verify {
    const struct dumptool_file *file;
    struct progress progress;
    uint64_t faults;
};

static void tell(struct verify *v, size_t at, const char *what)
{
    progress_end(&v->progress);
    printf("%s: at byte %zu: %s\n", v->file->path, at, what);
    v->faults++;
}

/* ---- a dump */

static void verify_entries(struct verify *v)
{
    struct dumpfile_reader r;
    struct dumpfile_entry e;
    int rc;
    dumpfile_reader_init(&r, v->file->bytes);
    for (size_t at = r.at; (rc = dumpfile_next(&r, &e)) == 1; at = r.at) {
        if (e.db >= STORE_ALL_DBS) tell(v, at, "a key of a database that does not exist, in the block here");
        if (!image_valid(e.image)) tell(v, at, "a key whose value is not valid, in the block here");
        progress_set(&v->progress, r.at);
    }
    if (rc < 0) tell(v, r.fault_at, r.fault);
    dumpfile_reader_fini(&r);
}

/* The first fault hides those behind it: where the next block begins is not known then. */
static void verify_dump(struct verify *v)
{
    struct dumpfile_info info;
    struct buf why = {0};
    if (dumpfile_check(v->file->bytes, &info, &why) == DUMPFILE_GOOD) {
        verify_entries(v);
    } else {
        printf("%s: %.*s\n", v->file->path, (int)why.len, why.p);
        v->faults++;
    }
    buf_fini(&why);
}

/* ---- a segment */

struct region { /* between two end records */
    size_t at;
    uint64_t records, bad;
    size_t bad_at;
};

static void verify_end(struct verify *v, const struct segment_item *end, const struct region *g)
{
    if (g->bad) tell(v, g->bad_at, "a damaged record");
    else if (end->end.bytes != end->at - g->at) tell(v, g->at, "bytes that belong to no epoch");
    else if (end->end.records != g->records) tell(v, end->at, "the end of an epoch that counts other records than there are");
}

static void verify_record(struct verify *v, struct segment_ops *ops, const struct segment_item *item)
{
    struct op op;
    if (segment_op_step(ops, item->record, &op) == SEGMENT_OP_INVALID) tell(v, item->at, "a record that is not an op");
}

static void verify_records(struct verify *v, const struct segment_header *h)
{
    struct segment_reader reader;
    struct segment_item item;
    struct segment_ops ops = {0};
    struct region g = {.at = SEGMENT_HEADER_BYTES};
    segment_reader_init(&reader, v->file->bytes, h->shard, h->shards, SEGMENT_HEADER_BYTES);
    while (segment_next(&reader, &item)) {
        progress_set(&v->progress, item.at);
        if (item.kind == SEGMENT_RECORD) verify_record(v, &ops, &item);
        else segment_ops_reset(&ops);
        g.records += item.kind == SEGMENT_RECORD;
        if (item.kind == SEGMENT_BAD && g.bad++ == 0) g.bad_at = item.at;
        if (item.kind == SEGMENT_END) verify_end(v, &item, &g);
        if (item.kind == SEGMENT_END || item.kind == SEGMENT_MARK) g = (struct region){.at = reader.at};
    }
    segment_ops_fini(&ops);
    progress_end(&v->progress);
    if (g.at < reader.at)
        fprintf(stderr, "sherd: %s: %zu bytes behind the last whole epoch, from byte %zu on: being written, or torn by a crash\n", v->file->path,
                reader.at - g.at, g.at);
}

static void verify_segment(struct verify *v)
{
    struct segment_header h;
    switch (segment_read_header(v->file->bytes, &h)) {
    case SEGMENT_GOOD: verify_records(v, &h); break;
    case SEGMENT_DAMAGED: tell(v, 0, "a damaged header"); break;
    case SEGMENT_NEWER: tell(v, 8, "a version that this program does not know"); break;
    case SEGMENT_UNBORN: fprintf(stderr, "sherd: %s: holds nothing: its creation did not finish\n", v->file->path); break;
    }
}

/* ---- a dump of Redis */

static void verify_rdb(struct verify *v)
{
    struct rdbfile_reader r;
    struct rdbfile_item item;
    int rc = rdbfile_reader_init(&r, v->file->bytes);
    while (rc >= 0 && (rc = rdbfile_next(&r, &item)) == 1) {
        if (item.kind == RDBFILE_KEY && !image_valid(item.image)) tell(v, item.at, "a key whose value is not valid");
        progress_set(&v->progress, item.at);
    }
    if (rc < 0) tell(v, r.fault_at, r.fault);
    rdbfile_reader_fini(&r);
}

uint64_t dumpverify_file(const struct dumptool_file *f)
{
    struct verify v = {.file = f};
    progress_begin(&v.progress, "verify", f->bytes.n, PROGRESS_BYTES);
    switch (f->format) {
    case DUMPTOOL_DUMP: verify_dump(&v); break;
    case DUMPTOOL_SEGMENT: verify_segment(&v); break;
    case DUMPTOOL_RDB: verify_rdb(&v); break;
    case DUMPTOOL_UNKNOWN: tell(&v, 0, "neither a dump nor a segment of a log nor a dump of Redis"); break;
    }
    progress_end(&v.progress);
    return v.faults;
}
