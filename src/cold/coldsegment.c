#include "cold/coldsegment.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "cold/coldrecord.h"

#define SUFFIX ".cold"

/* ---- the index of a segment */

static void add_index_bytes(struct coldsegments *all, size_t more, size_t less)
{
    atomic_store_explicit(&all->index_bytes, atomic_load_explicit(&all->index_bytes, memory_order_relaxed) + more - less, memory_order_relaxed);
}

static size_t index_bytes(const struct coldsegment *s) { return s->cap * sizeof *s->at + s->cap / 8; }

static void resize_index(struct coldsegments *all, struct coldsegment *s, uint32_t cap)
{
    size_t before = index_bytes(s), words = s->cap / 64;
    s->cap = cap;
    s->at = mem_resize(s->at, cap * sizeof *s->at);
    s->live = mem_resize(s->live, cap / 8);
    if (cap / 64 > words) memset(s->live + words, 0, (cap / 64 - words) * sizeof *s->live);
    add_index_bytes(all, index_bytes(s), before);
}

static uint64_t record_bytes(const struct coldsegment *s, uint32_t slot)
{
    return (slot + 1 < s->written ? s->at[slot + 1] : s->bytes) - s->at[slot];
}

uint32_t coldsegment_add(struct coldsegments *all, struct coldsegment *s, uint32_t at, size_t bytes)
{
    uint32_t slot = s->n;
    CHECK(!s->sealed);
    if (slot == s->cap) resize_index(all, s, s->cap + (s->cap / 2 + 1024) / 64 * 64);
    s->n++;
    s->at[slot] = at;
    s->live[slot / 64] |= UINT64_C(1) << slot % 64;
    s->values++;
    s->put_bytes += bytes;
    return slot;
}

void coldsegment_drop(struct coldsegment *s, uint32_t slot)
{
    CHECK(coldsegment_lives(s, slot));
    s->live[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    s->values--;
    if (slot < s->written) s->live_bytes -= record_bytes(s, slot);
}

/* ---- segments come and go */

/* Ids in front whose segments are gone need no place. */
static void trim_ids(struct coldsegments *all)
{
    uint32_t gone = 0;
    while (gone < all->n && !all->by_id[gone]) gone++;
    if (gone < 64 || gone < all->n / 2) return;
    all->n -= gone;
    all->first_id += gone;
    memmove(all->by_id, all->by_id + gone, all->n * sizeof *all->by_id);
}

struct coldsegment *coldsegment_new(struct coldsegments *all)
{
    trim_ids(all);
    if (all->n == all->cap) {
        all->cap = all->cap * 2 + 64;
        all->by_id = mem_resize(all->by_id, all->cap * sizeof *all->by_id);
    }
    struct coldsegment *s = mem_zalloc(sizeof *s);
    s->id = all->first_id + all->n;
    s->fd = -1;
    all->by_id[all->n++] = s;
    all->count++;
    return s;
}

void coldsegment_seal(struct coldsegments *all, struct coldsegment *s)
{
    s->sealed = true;
    resize_index(all, s, (s->n + 63) / 64 * 64);
}

struct coldsegment *coldsegment_of(const struct coldsegments *all, struct chill_ref ref)
{
    CHECK(ref.segment >= all->first_id && ref.segment - all->first_id < all->n);
    struct coldsegment *s = all->by_id[ref.segment - all->first_id];
    CHECK(s && ref.slot < s->n);
    return s;
}

bool coldsegment_needs_cleaning(const struct coldsegment *s)
{
    return s->sealed && !s->cleaned && !s->waiting && s->live_bytes * 2 < s->bytes;
}

static void bury(struct coldsegments *all, struct coldsegment *s)
{
    all->by_id[s->id - all->first_id] = NULL;
    all->count--;
    s->next_dead = all->dead;
    all->dead = s;
}

bool coldsegment_bury_if_dead(struct coldsegments *all, struct coldsegment *s)
{
    if (!s->sealed || s->values || s->pins || s->waiting) return false;
    bury(all, s);
    return true;
}

struct coldsegment *coldsegment_take_dead(struct coldsegments *all)
{
    struct coldsegment *s = all->dead;
    if (!s) return NULL;
    all->dead = s->next_dead;
    all->disk_bytes -= s->bytes;
    add_index_bytes(all, 0, index_bytes(s));
    return s;
}

/* ---- files */

void coldsegment_path(const struct coldsegments *all, const struct coldsegment *s, struct buf *path)
{
    buf_printf(path, "%s/%010u" SUFFIX, all->dir, s->id);
    buf_add_byte(path, '\0');
}

int coldsegment_append(const struct coldsegments *all, struct coldsegment *s, struct slice records)
{
    if (!records.n) return 0;
    if (s->fd < 0) {
        struct buf path = {0};
        coldsegment_path(all, s, &path);
        int fd = all->files->open(all->files->ctx, path.p, FILE_CREATE);
        buf_fini(&path);
        if (fd < 0) return fd;
        s->fd = fd; /* nobody reads it before `written` says that there is something */
    }
    return file_write_all(all->files, s->fd, records, s->bytes);
}

void coldsegment_appended(struct coldsegments *all, struct coldsegment *s, const uint32_t *offsets, uint32_t n, size_t records, uint64_t raw)
{
    uint32_t first = s->written;
    CHECK(s->bytes + records <= UINT32_MAX && n <= s->n - first);
    for (uint32_t i = 0; i < n; i++) s->at[first + i] = (uint32_t)s->bytes + offsets[i];
    s->written += n;
    s->bytes += records;
    s->raw_bytes += raw;
    all->disk_bytes += records;
    for (uint32_t slot = first; slot < s->written; slot++)
        if (coldsegment_lives(s, slot)) s->live_bytes += record_bytes(s, slot);
}

struct coldsegment_span coldsegment_span(const struct coldsegment *s, uint32_t slot)
{
    CHECK(slot < s->written);
    return (struct coldsegment_span){s->fd, s->at[slot], record_bytes(s, slot)};
}

static int read_span(const struct file_ops *files, const struct coldsegment_span *from, struct buf *record)
{
    buf_room(record, from->n);
    while (record->len < from->n) {
        ssize_t n = files->read(files->ctx, from->fd, record->p + record->len, from->n - record->len, from->at + record->len);
        if (n < 0) return (int)n;
        if (n == 0) return -EBADMSG; /* the file is shorter than it was */
        record->len += (size_t)n;
    }
    return 0;
}

int coldsegment_read(const struct coldsegments *all, const struct coldsegment_span *from, struct slice *key, struct buf *record, struct buf *value)
{
    struct slice found;
    record->len = 0;
    size_t value_at = value->len;
    int rc = read_span(all->files, from, record);
    if (rc == 0) rc = coldrecord_read(buf_slice(record), &found, value);
    if (rc == 0 && key->p && !slice_eq(found, *key)) rc = -EBADMSG;
    if (rc == 0) *key = found;
    else value->len = value_at;
    return rc;
}

void coldsegment_remove(const struct coldsegments *all, struct coldsegment *s)
{
    if (s->fd >= 0) {
        struct buf path = {0};
        coldsegment_path(all, s, &path);
        all->files->close(all->files->ctx, s->fd);
        all->files->unlink(all->files->ctx, path.p);
        buf_fini(&path);
    }
    mem_free(s->at);
    mem_free(s->live);
    mem_free(s);
}

/* ---- life */

static void note_name(void *arg, const char *name)
{
    struct buf *names = arg; /* each with its terminator */
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    if (n > suffix && strcmp(name + n - suffix, SUFFIX) == 0) buf_add(names, name, n + 1);
}

static int empty_dir(const struct coldsegments *all)
{
    struct buf names = {0};
    int rc = all->files->mkdir(all->files->ctx, all->dir);
    if (rc == -EEXIST) rc = all->files->list(all->files->ctx, all->dir, note_name, &names);
    for (size_t at = 0; rc == 0 && at < names.len; at += strlen(names.p + at) + 1) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", all->dir, names.p + at);
        buf_add_byte(&path, '\0');
        rc = all->files->unlink(all->files->ctx, path.p);
        buf_fini(&path);
    }
    buf_fini(&names);
    return rc;
}

int coldsegment_init(struct coldsegments *all, const struct file_ops *files, const char *dir)
{
    *all = (struct coldsegments){.files = files, .dir = mem_strdup(dir)};
    return empty_dir(all);
}

void coldsegment_fini(struct coldsegments *all)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->by_id[i]) bury(all, all->by_id[i]);
    for (struct coldsegment *s; (s = coldsegment_take_dead(all));) coldsegment_remove(all, s);
    mem_free(all->by_id);
    mem_free(all->dir);
}

/* ---- for tests */

static void check_one(const struct coldsegment *s)
{
    uint64_t values = 0, live_bytes = 0;
    for (uint32_t slot = 0; slot < s->n; slot++) {
        if (!coldsegment_lives(s, slot)) continue;
        values++;
        if (slot < s->written) live_bytes += record_bytes(s, slot);
    }
    CHECK(values == s->values && live_bytes == s->live_bytes && s->written <= s->n && s->n <= s->cap);
    CHECK(s->values || !s->sealed || s->pins || s->waiting);
}

uint64_t coldsegment_check(const struct coldsegments *all)
{
    uint64_t values = 0, disk = 0, count = 0;
    size_t index = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct coldsegment *s = all->by_id[i];
        if (!s) continue;
        CHECK(s->id == all->first_id + i);
        check_one(s);
        values += s->values;
        disk += s->bytes;
        index += index_bytes(s);
        count++;
    }
    for (const struct coldsegment *s = all->dead; s; s = s->next_dead) {
        disk += s->bytes;
        index += index_bytes(s);
    }
    CHECK(disk == all->disk_bytes && count == all->count && index == atomic_load(&all->index_bytes));
    return values;
}
