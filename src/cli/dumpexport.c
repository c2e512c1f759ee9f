#include <errno.h>

#include "cli/dumptool.h"
#include "cli/keyjson.h"
#include "cli/progress.h"
#include "dump/dumpfile.h"
#include "dump/rdbfile.h"
#include "log/segment.h"
#include "store/store.h"

enum { FLUSH_BYTES = 1 << 20 };

void dumpexport_flush(struct dumpexport *x, bool all)
{
    if (x->error || (!all && x->lines.len < FLUSH_BYTES)) return;
    if (x->lines.len && fwrite(x->lines.p, 1, x->lines.len, x->to) != x->lines.len) x->error = -errno;
    x->lines.len = 0;
    if (all && !x->error && fflush(x->to) != 0) x->error = -errno;
}

static bool tell(const struct dumptool_file *f, size_t at, const char *what)
{
    fprintf(stderr, "sherd: %s: at byte %zu: %s\n", f->path, at, what);
    return false;
}

bool dumpexport_key(struct dumpexport *x, uint64_t db, struct slice key, int64_t expiry_ms, struct slice image)
{
    bool valid = keyjson_key(&x->lines, db, key, expiry_ms, image);
    x->written += valid;
    dumpexport_flush(x, false);
    return valid;
}

/* ---- files */

static bool export_dump(struct dumpexport *x, const struct dumptool_file *f, struct progress *p)
{
    struct dumpfile_reader r;
    struct dumpfile_entry e;
    bool good = true;
    int rc = 0;
    dumpfile_reader_init(&r, f->bytes);
    while (!x->error && (rc = dumpfile_next(&r, &e)) == 1) {
        if (e.db != STORE_SYSTEM_DB && !dumpexport_key(x, e.db, e.key, e.expiry_ms, e.image)) good = tell(f, r.at, "a key whose value is not valid, in the block before");
        progress_set(p, r.at);
    }
    progress_end(p);
    if (rc < 0) good = tell(f, r.fault_at, r.fault);
    dumpfile_reader_fini(&r);
    return good;
}

static bool export_rdb(struct dumpexport *x, const struct dumptool_file *f, struct progress *p)
{
    struct rdbfile_reader r;
    struct rdbfile_item item;
    bool good = true;
    int rc = rdbfile_reader_init(&r, f->bytes);
    while (rc >= 0 && !x->error && (rc = rdbfile_next(&r, &item)) == 1) {
        if (item.kind == RDBFILE_LEFT_OUT)
            fprintf(stderr, "sherd: %s: at byte %zu: a %s is left out\n", f->path, item.at, item.what);
        else if (!dumpexport_key(x, item.db, item.key, item.expiry_ms, item.image))
            good = tell(f, item.at, "a key whose value is not valid");
        progress_set(p, item.at);
    }
    progress_end(p);
    if (rc < 0) good = tell(f, r.fault_at, r.fault);
    rdbfile_reader_fini(&r);
    return good;
}

/* The ops in [from, to), which an end record follows. */
static void export_epoch(struct dumpexport *x, const struct dumptool_file *f, const struct segment_header *h, size_t from, const struct segment_item *end)
{
    struct segment_reader reader;
    struct segment_item item;
    struct segment_ops ops = {0};
    struct op op;
    segment_reader_init(&reader, slice_of(f->bytes.p, end->at), h->shard, h->shards, from);
    while (!x->error && segment_next(&reader, &item)) {
        if (item.kind != SEGMENT_RECORD) segment_ops_reset(&ops);
        else if (segment_op_step(&ops, item.record, &op) == SEGMENT_OP) {
            keyjson_op(&x->lines, end->end.epoch, &op);
            x->written++;
            dumpexport_flush(x, false);
        }
    }
    segment_ops_fini(&ops);
}

static bool export_segment(struct dumpexport *x, const struct dumptool_file *f, struct progress *p)
{
    struct segment_header h;
    struct segment_reader reader;
    struct segment_item item;
    bool good = true;
    enum segment_state state = segment_read_header(f->bytes, &h);
    if (state != SEGMENT_GOOD) return state == SEGMENT_UNBORN || tell(f, 0, "a damaged header, or a version that this program does not know");
    size_t from = SEGMENT_HEADER_BYTES, bad_at = 0; /* behind the last end record it is no damage: being written, or torn by a crash */
    segment_reader_init(&reader, f->bytes, h.shard, h.shards, from);
    while (!x->error && segment_next(&reader, &item)) {
        if (item.kind == SEGMENT_BAD) bad_at = item.at;
        if (item.kind == SEGMENT_END) export_epoch(x, f, &h, from, &item);
        if (item.kind != SEGMENT_END && item.kind != SEGMENT_MARK) continue;
        if (bad_at) good = tell(f, bad_at, "damaged: left out");
        from = reader.at;
        bad_at = 0;
        progress_set(p, item.at);
    }
    progress_end(p);
    return good;
}

bool dumpexport_file(struct dumpexport *x, const struct dumptool_file *f)
{
    struct progress p;
    progress_begin(&p, "export", f->bytes.n, PROGRESS_BYTES);
    switch (f->format) {
    case DUMPTOOL_DUMP: return export_dump(x, f, &p);
    case DUMPTOOL_SEGMENT: return export_segment(x, f, &p);
    case DUMPTOOL_RDB: return export_rdb(x, f, &p);
    case DUMPTOOL_UNKNOWN: break;
    }
    return tell(f, 0, "neither a dump nor a segment of a log nor a dump of Redis");
}
