/* A group snapshot
 *
 * All numbers little endian.
 *
 *   header              0  "SHERDGSN"
 *                       8  u32 version, 1
 *                      12  u32 length of the header, with its checksum
 *                      16  the cluster's id, 16 bytes
 *                      32  u32 group
 *                      36  u64 index
 *                      44  u64 term
 *                      52  i64 time of the cut, unix ms
 *                      60  u64 index of the entry that made the members
 *                      68  u32 members, n: at most RAFTNODE_MEMBERS_MAX
 *                      72  u32 length of what the group owns, m: at most GROUPSNAP_OWNED_MAX
 *                      76  n times { u64 node, not 0, no two the same; u8 role: 1 spare, 2 standby, 3 voter }
 *                  76+9n   m bytes: what the group owns
 *                76+9n+m   u32 CRC-32C of the bytes before
 *   then blocks            as in dump/dumpfile.c: entries, compressed, with CRC-32C
 *   footer, 48 bytes    0  u32 0, where a block has its raw length
 *                       4  u64 entries
 *                      12  u64 blocks
 *                      20  u64 raw bytes, the sum over all blocks
 *                      28  u64 stored bytes, likewise
 *                      36  u64 checksum of everything before the footer
 *                      44  u32 CRC-32C of the footer before this
 *
 * The checksum of everything is XXH3-64 of the header, with seed 0; then of each block with its head, with the checksum so far as the seed.
 *
 * A later version keeps the first 16 bytes and the checksum at the end of the header, so that it is told from damage.
 *
 * A file is valid if header and footer are, the blocks fill what lies between them, each is well formed with the right checksum and holds whole entries or is a piece of one, as
 * dump/dumpfile.c has it, and the footer's counts and checksum are those of the file. So each byte lies under a checksum. */
#include "cluster/groupsnap.h"

#include <errno.h>

#include "base/crc32c.h"
#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "cluster/groupdir.h"
#include "dump/dumpfile.h"
#include "io/file.h"

enum {
    FIXED_BYTES = 76, /* of the header, before the members */
    MEMBER_BYTES = 9,
    CRC_BYTES = 4,
    FOOTER_BYTES = 48,
    HEADER_MIN = FIXED_BYTES + CRC_BYTES,
    HEADER_MAX = HEADER_MIN + RAFTNODE_MEMBERS_MAX * MEMBER_BYTES + GROUPSNAP_OWNED_MAX,
    WRITE_BYTES = 1 << 20, /* collected before they are written */
};

static const char magic[8] = {'S', 'H', 'E', 'R', 'D', 'G', 'S', 'N'};

static struct groupdir_file file_of(const struct groupsnap_header *h, enum groupdir_kind kind)
{
    return (struct groupdir_file){.kind = kind, .group = h->group, .index = h->index, .term = h->term};
}

/* ---- writing */

struct groupsnap_writer {
    const struct file_ops *files;
    char *dir;
    struct groupdir_file name; /* a whole one's */
    int fd;
    bool finished;
    uint64_t at; /* bytes written */
    struct buf out;
    struct dumpfile_writer blocks;
    uint64_t checksum;
};

static void add_header(struct buf *out, const struct groupsnap_header *h)
{
    CHECK(h->members.n <= RAFTNODE_MEMBERS_MAX && h->owned.n <= GROUPSNAP_OWNED_MAX);
    buf_add(out, magic, sizeof magic);
    le_add_u32(out, GROUPSNAP_VERSION);
    le_add_u32(out, (uint32_t)(HEADER_MIN + h->members.n * MEMBER_BYTES + h->owned.n));
    buf_add(out, h->cluster, sizeof h->cluster);
    le_add_u32(out, h->group);
    le_add_u64(out, h->index);
    le_add_u64(out, h->term);
    le_add_u64(out, (uint64_t)h->cut_ms);
    le_add_u64(out, h->members.index);
    le_add_u32(out, h->members.n);
    le_add_u32(out, (uint32_t)h->owned.n);
    CHECK(out->len == FIXED_BYTES);
    for (uint32_t i = 0; i < h->members.n; i++) {
        le_add_u64(out, h->members.m[i].node);
        buf_add_byte(out, (char)h->members.m[i].role);
    }
    buf_add_slice(out, h->owned);
    le_add_u32(out, crc32c(CRC32C_START, out->p, out->len));
}

static int path_of(const struct groupsnap_writer *w, enum groupdir_kind kind, char path[GROUPDIR_PATH_MAX])
{
    struct groupdir_file f = w->name;
    f.kind = kind;
    return groupdir_path(path, w->dir, &f);
}

int groupsnap_create(struct groupsnap_writer **out, const struct file_ops *files, const char *dir, const struct groupsnap_header *h, enum compress_profile profile)
{
    char path[GROUPDIR_PATH_MAX];
    struct groupsnap_writer *w = mem_zalloc(sizeof *w);
    *w = (struct groupsnap_writer){.files = files, .dir = mem_strdup(dir), .name = file_of(h, GROUPDIR_SNAPSHOT)};
    *out = w;
    dumpfile_begin_blocks(&w->blocks, profile, COMPRESS_MIN_SIZE);
    add_header(&w->out, h);
    w->checksum = keyhash(buf_slice(&w->out), 0);
    int rc = path_of(w, GROUPDIR_UNFINISHED, path);
    w->fd = rc ? rc : files->open(files->ctx, path, FILE_CREATE);
    return w->fd < 0 ? w->fd : 0;
}

static int write_out(struct groupsnap_writer *w, size_t at_least)
{
    if (w->out.len < at_least) return 0;
    int rc = file_write_all(w->files, w->fd, buf_slice(&w->out), w->at);
    if (rc) return rc;
    w->at += w->out.len;
    w->out.len = 0;
    return 0;
}

int groupsnap_write(struct groupsnap_writer *w, struct slice raw, uint64_t entries)
{
    size_t at = w->out.len;
    dumpfile_seal(&w->blocks, &w->out, raw, entries);
    while (at < w->out.len) {
        size_t n = DUMPFILE_HEAD_BYTES + le_u32(w->out.p + at + 4);
        w->checksum = keyhash(slice_of(w->out.p + at, n), w->checksum);
        at += n;
    }
    return write_out(w, WRITE_BYTES);
}

static void add_footer(struct groupsnap_writer *w)
{
    size_t start = w->out.len;
    le_add_u32(&w->out, 0);
    le_add_u64(&w->out, w->blocks.entries);
    le_add_u64(&w->out, w->blocks.blocks);
    le_add_u64(&w->out, w->blocks.raw_bytes);
    le_add_u64(&w->out, w->blocks.stored_bytes);
    le_add_u64(&w->out, w->checksum);
    le_add_u32(&w->out, crc32c(CRC32C_START, w->out.p + start, w->out.len - start));
    CHECK(w->out.len - start == FOOTER_BYTES);
}

static int give_name(struct groupsnap_writer *w)
{
    char from[GROUPDIR_PATH_MAX], to[GROUPDIR_PATH_MAX];
    int rc = path_of(w, GROUPDIR_UNFINISHED, from);
    if (rc == 0) rc = path_of(w, GROUPDIR_SNAPSHOT, to);
    if (rc == 0) rc = w->files->rename(w->files->ctx, from, to);
    return rc ? rc : w->files->sync_dir(w->files->ctx, w->dir);
}

int groupsnap_finish(struct groupsnap_writer *w, struct groupsnap_totals *t)
{
    CHECK(!w->finished);
    add_footer(w);
    int rc = write_out(w, 1);
    if (rc == 0) rc = w->files->sync(w->files->ctx, &w->fd, 1);
    if (rc == 0) rc = give_name(w);
    w->finished = rc == 0;
    *t = (struct groupsnap_totals){.entries = w->blocks.entries, .blocks = w->blocks.blocks, .raw_bytes = w->blocks.raw_bytes, .stored_bytes = w->blocks.stored_bytes,
                                   .file_bytes = w->at, .checksum = w->checksum};
    return rc;
}

void groupsnap_writer_free(struct groupsnap_writer *w)
{
    char path[GROUPDIR_PATH_MAX];
    if (!w) return;
    if (w->fd >= 0) w->files->close(w->files->ctx, w->fd);
    if (w->fd >= 0 && !w->finished && path_of(w, GROUPDIR_UNFINISHED, path) == 0) w->files->unlink(w->files->ctx, path);
    dumpfile_fini(&w->blocks);
    buf_fini(&w->out);
    mem_free(w->dir);
    mem_free(w);
}

/* ---- reading: header and footer */

struct groupsnap_reader {
    const struct file_ops *files;
    char *path;
    int fd;
    struct buf header_bytes;
    struct groupsnap_header header;
    struct groupsnap_totals totals; /* the footer's */
    uint64_t footer_at;

    uint64_t at;                  /* of the next block */
    struct groupsnap_totals seen; /* so far; its checksum too */
    struct buf stored, raw;
    int error; /* stays */
};

static int damaged(struct groupsnap_reader *r, struct buf *why, uint64_t at, const char *what)
{
    buf_printf(why, "%s: at byte %llu: %s", r->path, (unsigned long long)at, what);
    return r->error = -EINVAL;
}

/* Exactly these bytes, into p. */
static int read_bytes(struct groupsnap_reader *r, char *p, size_t n, uint64_t at, struct buf *why)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = r->files->read(r->files->ctx, r->fd, p + done, n - done, at + done);
        if (got == 0) return damaged(r, why, at + done, "the file has become shorter");
        if (got < 0) {
            buf_printf(why, "%s: at byte %llu: cannot be read: %s", r->path, (unsigned long long)at + done, strerror((int)-got));
            return r->error = (int)got;
        }
        done += (size_t)got;
    }
    return 0;
}

static int read_members(struct groupsnap_reader *r, const char *p, struct buf *why)
{
    struct raftnode_members *all = &r->header.members;
    for (uint32_t i = 0; i < all->n; i++, p += MEMBER_BYTES) {
        struct raftnode_member *m = &all->m[i];
        uint8_t role = (uint8_t)p[8];
        *m = (struct raftnode_member){.node = le_u64(p), .role = role};
        bool right = m->node != 0 && role >= RAFTNODE_SPARE && role <= RAFTNODE_VOTER;
        for (uint32_t k = 0; k < i; k++) right &= all->m[k].node != m->node;
        if (!right) return damaged(r, why, FIXED_BYTES + i * MEMBER_BYTES, "a member is wrong");
    }
    return 0;
}

/* The bytes are there and their checksum is right. */
static int take_header(struct groupsnap_reader *r, struct buf *why)
{
    const char *p = r->header_bytes.p;
    struct groupsnap_header *h = &r->header;
    uint32_t members = le_u32(p + 68), owned = le_u32(p + 72);
    if (members > RAFTNODE_MEMBERS_MAX || owned > GROUPSNAP_OWNED_MAX || HEADER_MIN + members * MEMBER_BYTES + owned != r->header_bytes.len)
        return damaged(r, why, 12, "the lengths in the header do not agree");
    memcpy(h->cluster, p + 16, sizeof h->cluster);
    h->group = le_u32(p + 32);
    h->index = le_u64(p + 36);
    h->term = le_u64(p + 44);
    h->cut_ms = (int64_t)le_u64(p + 52);
    h->members.index = le_u64(p + 60);
    h->members.n = members;
    h->owned = slice_of(p + FIXED_BYTES + members * MEMBER_BYTES, owned);
    return read_members(r, p + FIXED_BYTES, why);
}

static int read_header(struct groupsnap_reader *r, uint64_t size, struct buf *why)
{
    if (size < HEADER_MIN + FOOTER_BYTES) return damaged(r, why, size, "too short for a group snapshot");
    char *p = buf_room(&r->header_bytes, HEADER_MIN);
    int rc = read_bytes(r, p, HEADER_MIN, 0, why);
    if (rc) return rc;
    uint32_t n = le_u32(p + 12);
    if (memcmp(p, magic, sizeof magic) != 0) return damaged(r, why, 0, "this is no group snapshot");
    if (n < HEADER_MIN || n > HEADER_MAX || n > size - FOOTER_BYTES) return damaged(r, why, 12, "the header has a wrong length");
    r->header_bytes.len = HEADER_MIN;
    p = buf_room(&r->header_bytes, n - HEADER_MIN) - HEADER_MIN;
    rc = read_bytes(r, p + HEADER_MIN, n - HEADER_MIN, HEADER_MIN, why);
    if (rc) return rc;
    r->header_bytes.len = n;
    if (crc32c(CRC32C_START, p, n - CRC_BYTES) != le_u32(p + n - CRC_BYTES)) return damaged(r, why, 0, "the checksum of the header is wrong");
    if (le_u32(p + 8) == GROUPSNAP_VERSION) return take_header(r, why);
    buf_printf(why, "%s: at byte 8: version %u is not known to this program", r->path, le_u32(p + 8));
    return r->error = -EPROTONOSUPPORT;
}

static int read_footer(struct groupsnap_reader *r, uint64_t size, struct buf *why)
{
    char p[FOOTER_BYTES];
    r->footer_at = size - FOOTER_BYTES;
    int rc = read_bytes(r, p, FOOTER_BYTES, r->footer_at, why);
    if (rc) return rc;
    if (le_u32(p) != 0 || crc32c(CRC32C_START, p, FOOTER_BYTES - CRC_BYTES) != le_u32(p + FOOTER_BYTES - CRC_BYTES))
        return damaged(r, why, r->footer_at, "the footer is damaged, or the file is cut off");
    r->totals = (struct groupsnap_totals){.entries = le_u64(p + 4), .blocks = le_u64(p + 12), .raw_bytes = le_u64(p + 20), .stored_bytes = le_u64(p + 28),
                                          .file_bytes = size, .checksum = le_u64(p + 36)};
    return 0;
}

int groupsnap_open(struct groupsnap_reader **out, const struct file_ops *files, const char *path, struct buf *why)
{
    struct groupsnap_reader *r = mem_zalloc(sizeof *r);
    *r = (struct groupsnap_reader){.files = files, .path = mem_strdup(path), .fd = files->open(files->ctx, path, FILE_READ)};
    int64_t size = r->fd < 0 ? r->fd : files->size(files->ctx, r->fd);
    int rc = 0;
    *out = NULL;
    if (size < 0) {
        buf_printf(why, "%s: cannot be opened: %s", path, strerror((int)-size));
        rc = (int)size;
    }
    if (rc == 0) rc = read_header(r, (uint64_t)size, why);
    if (rc == 0) rc = read_footer(r, (uint64_t)size, why);
    if (rc == 0) {
        groupsnap_rewind(r);
        *out = r;
    } else {
        groupsnap_close(r);
    }
    return rc;
}

void groupsnap_close(struct groupsnap_reader *r)
{
    if (!r) return;
    if (r->fd >= 0) r->files->close(r->files->ctx, r->fd);
    buf_fini(&r->header_bytes);
    buf_fini(&r->stored);
    buf_fini(&r->raw);
    mem_free(r->path);
    mem_free(r);
}

const struct groupsnap_header *groupsnap_header(const struct groupsnap_reader *r) { return &r->header; }
struct groupsnap_totals groupsnap_totals(const struct groupsnap_reader *r) { return r->totals; }

/* ---- reading: blocks */

void groupsnap_rewind(struct groupsnap_reader *r)
{
    r->at = r->header_bytes.len;
    r->seen = (struct groupsnap_totals){.file_bytes = r->totals.file_bytes, .checksum = keyhash(buf_slice(&r->header_bytes), 0)};
    r->error = 0;
}

/* The next block with its head into r->stored, checked and passed. */
static int take_block(struct groupsnap_reader *r, struct dumpfile_block *b, struct buf *why)
{
    uint64_t left = r->footer_at - r->at;
    if (left < DUMPFILE_HEAD_BYTES) return damaged(r, why, r->at, "the head of a block does not fit before the footer");
    r->stored.len = 0;
    char *p = buf_room(&r->stored, DUMPFILE_HEAD_BYTES + DUMPFILE_BLOCK_BYTES);
    int rc = read_bytes(r, p, DUMPFILE_HEAD_BYTES, r->at, why);
    if (rc) return rc;
    if (!dumpfile_get_head(p, b)) return damaged(r, why, r->at, "the head of a block is wrong");
    if (b->stored_n > left - DUMPFILE_HEAD_BYTES) return damaged(r, why, r->at, "a block does not fit before the footer");
    rc = read_bytes(r, p + DUMPFILE_HEAD_BYTES, b->stored_n, r->at + DUMPFILE_HEAD_BYTES, why);
    if (rc) return rc;
    r->stored.len = DUMPFILE_HEAD_BYTES + b->stored_n;
    if (crc32c(CRC32C_START, p + DUMPFILE_HEAD_BYTES, b->stored_n) != b->crc) return damaged(r, why, r->at, "the checksum of a block is wrong");
    if (!dumpfile_unpack(b, slice_of(p + DUMPFILE_HEAD_BYTES, b->stored_n), &r->raw)) return damaged(r, why, r->at, "a block cannot be unpacked");
    r->seen.checksum = keyhash(buf_slice(&r->stored), r->seen.checksum);
    r->seen.blocks++;
    r->seen.raw_bytes += b->raw_n;
    r->seen.stored_bytes += b->stored_n;
    r->at += r->stored.len;
    return 0;
}

static int count_entries(struct groupsnap_reader *r, bool pieces, uint64_t block_at, struct buf *why)
{
    struct slice left = buf_slice(&r->raw);
    for (size_t n; left.n; left = slice_of(left.p + n, left.n - n)) {
        n = dumpfile_take_entry(left, NULL);
        if (n == 0 || (pieces && n < left.n)) return damaged(r, why, block_at, pieces ? "the pieces of an entry do not give one" : "an entry is wrong");
        r->seen.entries++;
    }
    return 1;
}

static int check_end(struct groupsnap_reader *r, struct buf *why)
{
    if (r->seen.checksum != r->totals.checksum) return damaged(r, why, r->footer_at, "the checksum of the whole file is wrong");
    bool agrees = r->seen.entries == r->totals.entries && r->seen.blocks == r->totals.blocks && r->seen.raw_bytes == r->totals.raw_bytes &&
                  r->seen.stored_bytes == r->totals.stored_bytes;
    return agrees ? 0 : damaged(r, why, r->footer_at, "the footer counts something else than is there");
}

int groupsnap_next(struct groupsnap_reader *r, struct slice *raw, struct buf *why)
{
    struct dumpfile_block b;
    uint64_t block_at = r->at;
    if (r->error) {
        buf_printf(why, "%s: was found to be damaged", r->path);
        return r->error;
    }
    if (r->at == r->footer_at) return check_end(r, why);
    r->raw.len = 0;
    int rc = take_block(r, &b, why);
    bool pieces = rc == 0 && b.goes_on;
    while (rc == 0 && b.goes_on) {
        if (r->at == r->footer_at) return damaged(r, why, block_at, "the last entry has no end");
        rc = take_block(r, &b, why);
    }
    if (rc == 0) rc = count_entries(r, pieces, block_at, why);
    *raw = buf_slice(&r->raw);
    return rc;
}

int groupsnap_verify(struct groupsnap_reader *r, struct buf *why)
{
    struct slice raw;
    int rc;
    groupsnap_rewind(r);
    while ((rc = groupsnap_next(r, &raw, why)) == 1) continue;
    if (rc == 0) groupsnap_rewind(r);
    return rc;
}

/* ---- the right one */

int groupsnap_compare(const struct groupsnap_reader *r, const struct groupdir_file *f, const uint8_t cluster[WIRE_CLUSTER_ID], struct buf *why)
{
    const struct groupsnap_header *h = &r->header;
    bool is_named = h->group == f->group && h->index == f->index && h->term == f->term;
    if (is_named && memcmp(h->cluster, cluster, WIRE_CLUSTER_ID) == 0) return 0;
    buf_printf(why, "%s: at byte %d: it is of another %s", r->path, is_named ? 16 : 32, is_named ? "cluster" : "group, index or term than its name says");
    return -EINVAL;
}

static int open_valid(struct groupsnap_reader **out, const struct file_ops *files, const char *dir, const struct groupdir_file *f, const uint8_t *cluster, struct buf *why)
{
    char path[GROUPDIR_PATH_MAX];
    int rc = groupdir_path(path, dir, f);
    if (rc == 0) rc = groupsnap_open(out, files, path, why);
    if (rc == 0) rc = groupsnap_compare(*out, f, cluster, why);
    if (rc == 0) rc = groupsnap_verify(*out, why);
    if (rc == 0) return 0;
    groupsnap_close(*out);
    *out = NULL;
    buf_add_byte(why, '\n');
    return rc;
}

int groupsnap_find(struct groupsnap_reader **out, const struct file_ops *files, const char *dir, const uint8_t cluster[WIRE_CLUSTER_ID], uint32_t group, uint64_t at_most,
                   struct buf *why)
{
    struct groupdir_list l;
    int rc = groupdir_list(files, dir, &l);
    *out = NULL;
    for (uint32_t i = 0; i < l.n && !*out; i++)
        if (l.v[i].group == group && l.v[i].kind == GROUPDIR_SNAPSHOT && l.v[i].index <= at_most) open_valid(out, files, dir, &l.v[i], cluster, why);
    mem_free(l.v);
    return rc ? rc : *out != NULL;
}
