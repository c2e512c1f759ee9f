#include <inttypes.h>
#include <time.h>

#include "cli/dumptool.h"
#include "cli/progress.h"
#include "dump/dumpfile.h"
#include "dump/rdbfile.h"
#include "log/segment.h"

static void line(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("  %-10s ", name);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

static void line_size(const char *name, uint64_t bytes)
{
    char text[PROGRESS_SIZE_MAX];
    line(name, "%" PRIu64 " (%s)", bytes, progress_size(text, bytes));
}

static void line_time(const char *name, int64_t unix_ms, int64_t now_ms)
{
    char text[32] = "?";
    time_t s = (time_t)(unix_ms / 1000);
    struct tm tm;
    if (gmtime_r(&s, &tm)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (unix_ms <= now_ms) line(name, "%s, %" PRId64 " seconds ago", text, (now_ms - unix_ms) / 1000);
    else line(name, "%s, by a clock ahead of this one", text);
}

static bool show_dump(const struct dumptool_file *f)
{
    struct dumpfile_info i;
    struct buf why = {0};
    enum dumpfile_state state = dumpfile_check(f->bytes, &i, &why);
    line("format", "dump, version %s%d", state == DUMPFILE_NEWER ? "newer than " : "", DUMPFILE_VERSION);
    if (state == DUMPFILE_GOOD) {
        line("shard", "%" PRIu32 " of %" PRIu32, i.header.shard, i.header.shards);
        line("epoch", "%" PRIu64, i.header.epoch);
        line("seed", "%016" PRIx64, i.header.seed);
        line_time("taken", i.header.cut_ms, f->now_ms);
        line("keys", "%" PRIu64, i.entries);
        line("blocks", "%" PRIu64, i.blocks);
        line_size("raw", i.raw_bytes);
        line_size("stored", i.stored_bytes);
        line("ratio", "%.2f", i.stored_bytes ? (double)i.raw_bytes / (double)i.stored_bytes : 1.0);
    }
    line_size("file", f->bytes.n);
    if (state == DUMPFILE_GOOD) line("state", "good");
    else line("state", "%.*s", (int)why.len, why.p);
    buf_fini(&why);
    return state == DUMPFILE_GOOD;
}

struct counts {
    uint64_t records, bad, epochs, first, last;
    size_t whole, all; /* bytes up to the last end record, and without the room behind it */
};

static struct counts count_segment(const struct dumptool_file *f, const struct segment_header *h)
{
    struct counts c = {.whole = SEGMENT_HEADER_BYTES};
    struct segment_reader reader;
    struct segment_item item;
    uint64_t bad = 0;
    segment_reader_init(&reader, f->bytes, h->shard, h->shards, SEGMENT_HEADER_BYTES);
    while (segment_next(&reader, &item)) {
        c.records += item.kind == SEGMENT_RECORD;
        bad += item.kind == SEGMENT_BAD;
        if (item.kind != SEGMENT_END && item.kind != SEGMENT_MARK) continue;
        c.whole = reader.at;
        c.bad = bad;
        if (item.kind == SEGMENT_MARK) continue;
        if (c.epochs++ == 0) c.first = item.end.epoch;
        c.last = item.end.epoch;
    }
    c.all = reader.at;
    return c;
}

static bool show_segment(const struct dumptool_file *f)
{
    static const char *const states[] = {
        [SEGMENT_UNBORN] = "holds nothing: its creation did not finish", [SEGMENT_DAMAGED] = "a damaged header", [SEGMENT_NEWER] = "a version that this program does not know"};
    struct segment_header h;
    enum segment_state state = segment_read_header(f->bytes, &h);
    line("format", "segment of a log");
    if (state != SEGMENT_GOOD) {
        line_size("file", f->bytes.n);
        line("state", "%s", states[state]);
        return state == SEGMENT_UNBORN;
    }
    struct counts c = count_segment(f, &h);
    line("shard", "%" PRIu32 " of %" PRIu32, h.shard, h.shards);
    line("number", "%" PRIu64, h.number);
    if (c.epochs) line("epochs", "%" PRIu64 ", from %" PRIu64 " to %" PRIu64, c.epochs, c.first, c.last);
    else line("epochs", "none");
    line("records", "%" PRIu64, c.records);
    line_size("file", f->bytes.n);
    if (c.bad) line("state", "damaged in %" PRIu64 " places; `sherd dump verify` names them", c.bad);
    else if (c.whole < c.all) line("state", "good; %zu bytes behind the last whole epoch: being written, or torn by a crash", c.all - c.whole);
    else line("state", "good");
    return c.bad == 0;
}

static bool show_rdb(const struct dumptool_file *f)
{
    struct rdbfile_reader r;
    struct rdbfile_item item;
    uint64_t keys = 0, expiring = 0, left_out = 0;
    int rc = rdbfile_reader_init(&r, f->bytes);
    while (rc >= 0 && (rc = rdbfile_next(&r, &item)) == 1) {
        keys += item.kind == RDBFILE_KEY;
        expiring += item.kind == RDBFILE_KEY && item.expiry_ms;
        left_out += item.kind == RDBFILE_LEFT_OUT;
    }
    line("format", "dump of Redis %s, RDB version %u", r.redis_version[0] ? r.redis_version : "?", r.version);
    line("keys", "%" PRIu64 ", of which %" PRIu64 " expire", keys, expiring);
    if (left_out) line("left out", "%" PRIu64 " that Sherd has no type for; `sherd import` names them", left_out);
    line_size("file", f->bytes.n);
    if (rc < 0) line("state", "at byte %zu: %s", r.fault_at, r.fault);
    else line("state", "%s", r.is_summed ? "good" : "good; without a checksum");
    rdbfile_reader_fini(&r);
    return rc == 0;
}

bool dumpinfo_show(const struct dumptool_file *f)
{
    printf("%s\n", f->path);
    switch (f->format) {
    case DUMPTOOL_DUMP: return show_dump(f);
    case DUMPTOOL_SEGMENT: return show_segment(f);
    case DUMPTOOL_RDB: return show_rdb(f);
    case DUMPTOOL_UNKNOWN: break;
    }
    line("format", "none that this program knows");
    return false;
}
